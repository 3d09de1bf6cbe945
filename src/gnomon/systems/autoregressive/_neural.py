"""A network from left to right: hidden groups that each see the columns up to a place and serve all behind it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn

from gnomon.contracts import Noise
from gnomon.nn.activations import Activation
from gnomon.nn.initializers import Initializer, initialize
from gnomon.nn.likelihoods import Head
from gnomon.nn.masked import MaskedLinear, masked
from gnomon.systems.autoregressive._base import ChainModel

__all__ = ["LeftToRight"]


class LeftToRight(ChainModel):
    r"""Hidden group g sees the columns at places 0 to g; the numbers of the column at place t see groups 0 to t - 1.

    :math:`h^1_g = f(b_g + \sum_{s \le g} U_{gs} x_s)`, further layers see the groups up to their own below, and the
    numbers of the column at place t are :math:`c_t + \sum_{s < t} W_{ts} x_s + \sum_{g < t} V_{tg} h^L_g`. Masks hold
    the other weights at 0, so that one pass gives all conditionals. Without hidden layers the conditionals are linear.

    Parameters
    ----------
    n_features : int
    head : Head
    scales : bool
    hidden : tuple of int
        Units of each group, by layer.
    activation : Activation
    dtype : torch.dtype
    """

    def __init__(
        self, n_features: int, head: Head, scales: bool, hidden: tuple[int, ...], activation: Activation,
        dtype: torch.dtype,
    ) -> None:  # fmt: skip
        super().__init__(n_features, head, scales, dtype)
        self.hidden, self.gain = (hidden if n_features > 1 else ()), activation.gain
        sizes = [n_features * head.seen, *((n_features - 1) * units for units in self.hidden)]
        self.layers: Any = nn.ModuleList(masked(a, b, dtype=dtype) for a, b in pairwise(sizes))
        self.units = nn.ModuleList(activation.build(size, dtype) for size in sizes[1:])
        self.direct = masked(sizes[0], n_features * head.width, dtype=dtype)
        self.out = masked(sizes[-1], n_features * head.width, bias=False, dtype=dtype) if self.hidden else None

    @property
    def n_parameters(self) -> int:
        """Weights that are not held at 0, biases, and the head's own."""
        held = sum(int((~layer.mask).sum()) for layer in self._masked())
        biases = int((~self.head.used(self.n_features)[1]).sum())
        return super().n_parameters - held - biases

    def _masked(self) -> list[MaskedLinear]:
        return [*self.layers, self.direct, *([self.out] if self.out is not None else [])]

    def start(self, initializer: Initializer, noise: Noise) -> None:
        """Masks by the order, and first weights."""
        place = torch.argsort(self.order)
        inputs, outputs = place.repeat_interleave(self.head.seen), place.repeat(self.head.width)
        seen, answered = (one.flatten() for one in self.head.used(self.n_features))
        groups = torch.arange(self.n_features - 1)
        below, there = inputs, seen
        for layer, units in zip(self.layers, self.hidden, strict=True):
            own = groups.repeat_interleave(units)
            layer.allow((below[None] <= own[:, None]) & there[None])
            below, there = own, torch.ones_like(own, dtype=torch.bool)
        self.direct.allow((inputs[None] < outputs[:, None]) & seen[None] & answered[:, None])
        gains = {f"layers.{k}": self.gain for k in range(len(self.layers))}
        initialize(self, initializer, noise, gain=gains)
        nn.init.zeros_(self.direct.weight)
        if self.out is not None:
            self.out.allow((below[None] < outputs[:, None]) & answered[:, None])
            nn.init.zeros_(self.out.weight)
        for layer in self._masked():
            layer.clear()

    def numbers(self, z: torch.Tensor) -> torch.Tensor:
        inputs = self.head.inputs(z)
        found: torch.Tensor = self.direct(inputs)
        if self.out is None:
            return found
        h = inputs
        for layer, unit in zip(self.layers, self.units, strict=True):
            h = unit(layer(h))
        return found + self.out(h)
