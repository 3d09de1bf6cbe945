"""The network itself: affine layers with activations between them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import cast

import torch

from gnomon.errors import UserTypeError
from gnomon.nn.activations import Activation, derivative
from gnomon.nn.batch_norm import BatchNorm
from gnomon.nn.dropout import Dropout
from gnomon.nn.layers import affine_backward, dense
from gnomon.nn.module import Module

__all__ = ["MLPModel"]


class MLPModel(Module):
    r"""h_k = f(W_k h_{k-1} + b_k) from h_0 = (x - shift) / scale; the last layer has no activation.

    A hidden layer is affine, then batch normalization, activation and dropout, where they are asked for. What it
    answers is brought to the targets' units, out * out_scale + out_shift, in `outputs` alone.

    Parameters
    ----------
    n_features, n_outputs : int >= 1
    hidden : sequence of int >= 1
        Units of the hidden layers; none makes it one affine map.
    activation : Activation
    dropout : float in [0, 1)
        Probability to drop an output of a hidden layer in training.
    batch_norm : bool
    dtype : torch.dtype
    last_bias : bool, default True
        Whether the last layer has a bias.

    Examples
    --------
    >>> from gnomon.nn.activations import ReLU
    >>> xor = MLPModel(2, 1, (2,), ReLU(), 0.0, False, torch.float64)
    >>> import numpy as np
    >>> weights = {"layers.0.weight": [[1, 1], [1, 1]], "layers.0.bias": [0, -1], "layers.1.weight": [[1, -2]]}
    >>> xor.load(xor.state() | {name: np.array(value, float) for name, value in weights.items()})
    >>> xor.ask("outputs", np.array([[0, 0], [0, 1], [1, 0], [1, 1]], float)).ravel().tolist()
    [0.0, 1.0, 1.0, 0.0]
    """

    def __init__(
        self,
        n_features: int,
        n_outputs: int,
        hidden: Sequence[int],
        activation: Activation,
        dropout: float,
        batch_norm: bool,
        dtype: torch.dtype = torch.float32,
        last_bias: bool = True,
    ) -> None:
        super().__init__()
        inputs, wide = [n_features, *hidden], [units * activation.widening for units in hidden]
        # Batch normalization takes a bias before it out again: its gradient would be rounding noise.
        layers = [dense(a, b, bias=not batch_norm, dtype=dtype) for a, b in zip(inputs, wide, strict=False)]
        self.layers = torch.nn.ModuleList([*layers, dense(inputs[-1], n_outputs, bias=last_bias, dtype=dtype)])
        self.norms = torch.nn.ModuleList([BatchNorm(units, dtype=dtype) for units in wide] if batch_norm else [])
        self.units = torch.nn.ModuleList([activation.build(units, dtype) for units in wide])
        self.drops = torch.nn.ModuleList([Dropout(dropout) for _ in wide] if dropout else [])
        self.shift: torch.Tensor
        self.scale: torch.Tensor
        self.out_shift: torch.Tensor
        self.out_scale: torch.Tensor
        for name, size, value in (("shift", n_features, 0.0), ("scale", n_features, 1.0)):
            self.register_buffer(name, torch.full((size,), value, dtype=dtype))
            self.register_buffer(f"out_{name}", torch.full((n_outputs,), value, dtype=torch.float64))

    @property
    def matrices(self) -> list[torch.Tensor]:
        """Weights of the layers, which penalties act on; biases and norms are left alone."""
        return [cast(torch.nn.Linear, layer).weight for layer in self.layers]

    def learning_stages(self) -> list[tuple[str, ...]]:
        """A layer with its norm and its unit; the numbers that bring outputs to the targets' units are of the last."""
        found = [tuple(f"{part}.{k}." for part in ("layers", "norms", "units")) for k in range(len(self.layers))]
        return [*found[:-1], (*found[-1], "out_shift", "out_scale")]

    def standardized(self, x: torch.Tensor) -> torch.Tensor:
        """Rows in the units that the first layer takes, (x - shift) / scale."""
        return (x - self.shift) / self.scale

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        """Outputs of the last layer, shape (n, n_outputs), of rows (n, n_features)."""
        h = self.standardized(x)
        for layers in self._layers():
            for layer in layers:
                h = layer(h)
        return h

    def _layers(self) -> list[list[torch.nn.Module]]:
        """Affine part, norm, activation and dropout, layer by layer; the last one has its affine part alone."""
        parts = zip_longest(self.layers, self.norms, self.units, self.drops)
        return [[part for part in one if part is not None] for one in parts]

    def outputs(self, x: torch.Tensor) -> torch.Tensor:
        """Predictions in the units of the targets, (n, n_outputs), float64 beyond the last layer."""
        return self.scores(x).double() * self.out_scale + self.out_shift

    def scaled(self, y: torch.Tensor) -> torch.Tensor:
        """Targets (n,) or (n, n_outputs) as `scores` predicts them, (n, n_outputs)."""
        y = y if y.ndim == 2 else y[:, None]
        return ((y - self.out_shift) / self.out_scale).to(self.shift.dtype)

    def squared_error(self, scores: torch.Tensor, scaled: torch.Tensor) -> torch.Tensor:
        """Mean over the outputs of the squared error in the units of the targets, (n,)."""
        return ((scores - scaled).double() * self.out_scale).square().mean(1)

    def hidden(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Outputs of the hidden layers, each (n, units)."""
        h, outputs = self.standardized(x), []
        for layers in self._layers()[:-1]:
            for layer in layers:
                h = layer(h)
            outputs.append(h)
        return outputs

    def forward_cache(self, x: torch.Tensor) -> tuple[torch.Tensor, list[tuple[torch.Tensor, torch.Tensor]]]:
        """Scores, and what `backward` needs: input and pre-activation of every layer, of this very pass."""
        cache = []
        with torch.no_grad():
            h = self.standardized(x)
            for k, layer in enumerate(self.layers):
                z = layer(h)
                cache.append((h, z))
                h = self.units[k](z) if k < len(self.units) else z
        return h, cache

    def backward(
        self, cache: list[tuple[torch.Tensor, torch.Tensor]], g: torch.Tensor, *, l1: float = 0.0, l2: float = 0.0
    ) -> dict[str, torch.Tensor]:
        r"""Back-propagation layer by layer: gradients by parameter name, from g = dL/d scores.

        For k from the last layer down: g <- g * f'(z_k) (the last layer has f' = 1), db_k = sum of the rows of g,
        dW_k = g^T h_{k-1} + l2 W_k + l1 sign(W_k), g <- g W_k. Fits use automatic differentiation, which is as fast
        and knows every layer; this is for networks of affine layers and elementwise activations without parameters.

        Parameters
        ----------
        cache : list
            Of `forward_cache`, of the same pass.
        g : tensor of shape (n, n_outputs)
            Sums over rows come out; for a mean divide g by n.
        l1, l2 : float in [0, inf), default 0
            Factors of the penalties l1 sum \|W\| + l2 / 2 sum W^2.

        Raises
        ------
        UserTypeError
            A network with batch normalization, maxout or activations that learn.

        References
        ----------
        Rumelhart, Hinton and Williams (1986).
        """
        if len(self.norms) or any(True for unit in self.units for _ in unit.parameters()) or self._grouped:
            raise UserTypeError("this network has other layers", "backward", "use automatic differentiation")
        found: dict[str, torch.Tensor] = {}
        for k in reversed(range(len(self.layers))):
            h, z = cache[k]
            weight = self.matrices[k].detach()
            if k < len(self.units):
                g = g * derivative(self.units[k], z)
            g, d_weight, d_bias = affine_backward(h, weight, g)
            found[f"layers.{k}.weight"] = d_weight + l2 * weight + l1 * weight.sign()
            found[f"layers.{k}.bias"] = d_bias
        return found

    @property
    def _grouped(self) -> bool:
        return any(a.out_features != b.in_features for a, b in zip(self.layers[:-1], self.layers[1:], strict=True))
