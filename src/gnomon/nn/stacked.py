"""Recurrent layers on top of one another, and the mean of what all of them say."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from gnomon.contracts import Noise
from gnomon.errors import UserValueError
from gnomon.nn.dropout import Dropout
from gnomon.nn.recurrent import Recurrent

__all__ = ["ScalarMix", "Stacked"]


class Stacked(Recurrent):
    r"""Layers whose outputs are the inputs of the next: :math:`h^{(l)}_t = f_l(h^{(l-1)}_t, h^{(l)}_{t-1})`.

    Parameters
    ----------
    layers : sequence of Recurrent
        From the bottom up; each takes what the one below gives.
    dropout : float in [0, 1], default 0
        Probability to drop an output between two layers in training; nothing within the state is dropped.

    Raises
    ------
    UserValueError
        No layer, or one that takes another width than the one below gives.

    Notes
    -----
    The state holds those of the layers, the topmost first, so that its first `units` columns are the output.

    References
    ----------
    Pascanu, Gulcehre, Cho and Bengio (2014), How to construct deep recurrent neural networks.

    Examples
    --------
    >>> from gnomon.nn.recurrent import GRU, RNN
    >>> deep = Stacked([RNN(3, 4), GRU(4, 2)])
    >>> outputs, state = deep(torch.ones(1, 5, 3))
    >>> outputs.shape, state.shape, [one.shape[2] for one in deep.outputs(torch.ones(1, 5, 3))]
    (torch.Size([1, 5, 2]), torch.Size([1, 6]), [4, 2])
    """

    def __init__(self, layers: Sequence[Recurrent], dropout: float = 0.0) -> None:
        nn.Module.__init__(self)
        if not layers:
            raise UserValueError("there must be at least 1 layer, got 0", "layers")
        for below, above in pairwise(layers):
            if above.inputs != below.units:
                what = f"a layer must take the {below.units} outputs of the one below, got one of {above.inputs} inputs"
                raise UserValueError(what, "layers")
        self.layers = nn.ModuleList(layers)
        self.drop = Dropout(dropout)
        self.inputs, self.units = layers[0].inputs, layers[-1].units
        self.state_size = sum(layer.state_size for layer in layers)

    @property
    def _stack(self) -> list[Recurrent]:
        return list(self.layers)  # type: ignore[arg-type]

    def initialize(self, noise: Noise) -> None:
        """Each layer from a stream of its own."""
        for i, layer in enumerate(self._stack):
            layer.initialize(noise.child(f"layers.{i}"))

    def initial(self, n: int) -> torch.Tensor:
        """Those of the layers."""
        return torch.cat([layer.initial(n) for layer in reversed(self._stack)], 1)

    def step(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """One place, from the bottom up."""
        after = []
        for layer, before in zip(self._stack, self._parts(state), strict=True):
            new = layer.step(x, before)
            after.append(new)
            x = self.drop(new[:, : layer.units]) if layer is not self.layers[-1] else new
        return torch.cat(after[::-1], 1)

    def forward(
        self, x: torch.Tensor, state: torch.Tensor | None = None, lengths: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Outputs of the topmost layer, and the states of all; see `Recurrent.forward`."""
        found, after = self._read(x, state, lengths)
        return found[-1], torch.cat(after[::-1], 1)

    def outputs(self, x: torch.Tensor, lengths: torch.Tensor | None = None) -> list[torch.Tensor]:
        """Outputs (n, T, units) of every layer, from the bottom up."""
        return self._read(x, None, lengths)[0]

    def _read(
        self, x: torch.Tensor, state: torch.Tensor | None, lengths: torch.Tensor | None
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        found, after = [], []
        parts = [None] * len(self.layers) if state is None else self._parts(state)
        for layer, before in zip(self._stack, parts, strict=True):
            outputs, last = layer(x, before, lengths)
            found.append(outputs)
            after.append(last)
            x = self.drop(outputs)
        return found, after

    def _parts(self, state: torch.Tensor) -> list[torch.Tensor]:
        """The state of each layer, from the bottom up."""
        return list(torch.split(state, [layer.state_size for layer in reversed(self._stack)], 1))[::-1]

    def extra_repr(self) -> str:
        """Shown by repr."""
        return f"{self.inputs}, {self.units}"


class ScalarMix(nn.Module):
    r"""Weighted mean of the layers of a network, :math:`\gamma \sum_j s_j h_j` with :math:`s = \mathrm{softmax}(w)`.

    Parameters
    ----------
    depth : int >= 1
        Layers.
    normalize : bool, default False
        Whether each layer is brought to mean 0 and variance 1 before, over all numbers of a sequence that are no
        padding.
    dtype : torch.dtype, optional

    Notes
    -----
    At first all weigh the same and gamma is 1. Source: Peters and others (2018), equation 1.

    Examples
    --------
    >>> ScalarMix(2)([torch.zeros(1, 3, 4), torch.ones(1, 3, 4)])[0, 0].tolist()
    [0.5, 0.5, 0.5, 0.5]
    """

    def __init__(self, depth: int, *, normalize: bool = False, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        if depth < 1:
            raise UserValueError.must("depth", "be at least 1", depth)
        self.normalize = normalize
        self.weight = nn.Parameter(torch.zeros(depth, dtype=dtype))
        self.gamma = nn.Parameter(torch.ones((), dtype=dtype))

    def forward(self, layers: Sequence[torch.Tensor], inside: torch.Tensor | None = None) -> torch.Tensor:
        """The mean (n, T, d) of layers (n, T, d).

        Parameters
        ----------
        layers : sequence of tensors of shape (n, T, d)
        inside : bool tensor of shape (n, T), optional
            False at padding, whose numbers have no part in the normalization.
        """
        if len(layers) != len(self.weight):
            raise UserValueError(f"there must be {len(self.weight)} layers, got {len(layers)}", "layers")
        if self.normalize:
            layers = [_normalized(one, inside) for one in layers]
        shares = torch.softmax(self.weight, 0)
        mixed: torch.Tensor = sum(share * one for share, one in zip(shares, layers, strict=True))
        return self.gamma * mixed


def _normalized(x: torch.Tensor, inside: torch.Tensor | None) -> torch.Tensor:
    kept = torch.ones_like(x[..., :1]) if inside is None else inside[..., None].to(x.dtype)
    count = (kept.sum((1, 2), keepdim=True) * x.shape[-1]).clamp(min=1)
    mean = (x * kept).sum((1, 2), keepdim=True) / count
    variance = ((x - mean).square() * kept).sum((1, 2), keepdim=True) / count
    return (x - mean) * torch.rsqrt(variance + 1e-12)
