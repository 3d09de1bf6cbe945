"""The models of deep NADE: groups of hidden units in layers, a group for each column."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn

from gnomon.contracts import Noise
from gnomon.nn.activations import Activation
from gnomon.nn.initializers import Initializer, initialize
from gnomon.nn.layers import dense
from gnomon.nn.likelihoods import Head
from gnomon.nn.masked import masked
from gnomon.systems.autoregressive._base import ChainModel
from gnomon.systems.autoregressive._orderless import OrderlessModel

__all__ = ["MaskedNetwork", "OwnGroup", "PreviousGroups"]


class MaskedNetwork(OrderlessModel):
    r"""Base of networks of the rows, of what stands for missing cells, and of the mask of those that are given.

    .. math:: h^1 = f\Big(c + \sum_j (W_j^\top x_j + M_j m_j)\Big), \quad h^l = f(U_l h^{l-1} + c_l), \quad
        p(x_i | \cdot) = \mathrm{head}(V_i h^L + b_i)

    Parameters
    ----------
    n_features : int
    hidden : tuple of int
        Units, by layer.
    activation : Activation
    head : Head
    scales : bool
    n_orders : int
    dtype : torch.dtype
    masked : bool, default True
        Whether the mask is seen.
    """

    def __init__(
        self, n_features: int, hidden: tuple[int, ...], activation: Activation, head: Head, scales: bool,
        n_orders: int, dtype: torch.dtype, masked: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(n_features, head, scales, n_orders, dtype)
        self.gain, self.wide = activation.gain, max(*hidden, head.width)
        self.first = dense(n_features * (head.seen + masked), hidden[0], dtype=dtype)
        self.layers: Any = nn.ModuleList(dense(a, b, dtype=dtype) for a, b in pairwise(hidden))
        self.units = nn.ModuleList(activation.build(units, dtype) for units in hidden)
        self.out: Any = dense(hidden[-1], n_features * head.width, dtype=dtype)

    @property
    def n_parameters(self) -> int:
        """Weights of what columns make use of, and biases."""
        return super().n_parameters - idle(self)

    def start(self, initializer: Initializer, noise: Noise) -> None:
        """First weights; those into the head are 0, where columns are independent."""
        begin_layers(self, initializer, noise)

    def upper(self, a: torch.Tensor) -> torch.Tensor:
        """The last layer of units whose first has these fields."""
        h = self.units[0](a)
        for layer, unit in zip(self.layers, self.units[1:], strict=True):
            h = unit(layer(h))
        return h


class OwnGroup(MaskedNetwork):
    r"""Group i of a layer sees group i of the layer below; all groups share their weights.

    .. math:: a_i = c + \sum_{j \text{ before } i} (W_j^\top x_j + M_j), \quad h^1_i = f(a_i), \quad
        h^l_i = f(U_l h^{l-1}_i + c_l), \quad p(x_i | \cdot) = \mathrm{head}(V_i h^L_i + b_i)

    That is a network of the rows with 0 for what is not given and of the mask of what is, whose weights are M: one pass
    answers what all columns are given any of them. Along an order the fields of the first layer are running sums.
    Parameters as of `MaskedNetwork`.
    """

    def numbers_given(self, z: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        seen = torch.where(given.repeat_interleave(self.head.seen, 1), self.head.inputs(z), 0.0)
        found: torch.Tensor = self.out(self.upper(self.first(torch.cat([seen, given.to(z.dtype)], 1))))
        return found

    def numbers_in(self, z: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        n, d = z.shape
        W, M = self._weights()
        steps = torch.einsum("nds,dsh->ndh", self.head.inputs(z).reshape(n, d, self.head.seen), W) + M
        h = self.upper((self.first.bias + sums_before(steps, order)).flatten(0, 1))
        return by_column(h.reshape(n, d, self.out.in_features), self.out).flatten(1)

    def _weights(self) -> tuple[torch.Tensor, torch.Tensor]:
        """W of shape (d, seen, h) and M of shape (d, h)."""
        weight, inputs = self.first.weight.T, self.n_features * self.head.seen
        return weight[:inputs].reshape(self.n_features, self.head.seen, -1), weight[inputs:]

    # --- place by place -----------------------------------------------------------------------------------------------

    def begin(self, n: int) -> torch.Tensor:
        return self.first.bias.detach().repeat(n, 1)

    def numbers_at(self, state: torch.Tensor, t: int) -> torch.Tensor:
        at = torch.arange(self.head.width, device=state.device) * self.n_features + self.order[t]
        return self.upper(state) @ self.out.weight[at].T + self.out.bias[at]

    def take(self, state: torch.Tensor, t: int, cells: torch.Tensor) -> torch.Tensor:
        (W, M), at = self._weights(), int(self.order[t])
        seen = self.head.inputs(cells, slice(at, at + 1))
        state += seen.to(state.dtype) @ W[at].detach() + M[at].detach()
        return state


class PreviousGroups(ChainModel):
    r"""Group i of a layer sees all groups of the layer below up to its own, in one order; each pair has its weights.

    .. math:: a_i = c + \sum_{j \text{ before } i} W_j^\top x_j, \quad h^1_i = f(a_i), \quad
        h^l_i = f\Big(c^l_i + \sum_{j \text{ not after } i} U^l_{ij} h^{l-1}_j\Big), \quad
        p(x_i | \cdot) = \mathrm{head}(V_i h^L_i + b_i)

    Parameters as of `MaskedNetwork`, without `n_orders`.
    """

    def __init__(
        self, n_features: int, hidden: tuple[int, ...], activation: Activation, head: Head, scales: bool,
        dtype: torch.dtype,
    ) -> None:  # fmt: skip
        super().__init__(n_features, head, scales, dtype)
        self.gain, self.wide, self.hidden = activation.gain, max(*hidden, head.width), hidden
        self.first = dense(n_features * head.seen, hidden[0], dtype=dtype)
        self.layers: Any = nn.ModuleList(
            masked(n_features * a, n_features * b, dtype=dtype) for a, b in pairwise(hidden)
        )
        self.units = nn.ModuleList(activation.build(units, dtype) for units in hidden)
        self.out = dense(hidden[-1], n_features * head.width, dtype=dtype)

    @property
    def n_parameters(self) -> int:
        """Weights that are not held at 0, of what columns make use of, and biases."""
        return super().n_parameters - idle(self) - sum(int((~layer.mask).sum()) for layer in self.layers)

    def start(self, initializer: Initializer, noise: Noise) -> None:
        """Masks by the order, and first weights."""
        place = torch.argsort(self.order)
        for layer, (a, b) in zip(self.layers, pairwise(self.hidden), strict=True):
            layer.allow(place.repeat_interleave(a)[None] <= place.repeat_interleave(b)[:, None])
        begin_layers(self, initializer, noise)
        for layer in self.layers:
            layer.clear()

    def numbers(self, z: torch.Tensor) -> torch.Tensor:
        n, d = z.shape
        W = self.first.weight.T.reshape(d, self.head.seen, self.hidden[0])
        steps = torch.einsum("nds,dsh->ndh", self.head.inputs(z).reshape(n, d, self.head.seen), W)
        h = self.units[0]((self.first.bias + sums_before(steps, self.order)).flatten(0, 1))
        for layer, unit in zip(self.layers, self.units[1:], strict=True):
            h = unit(layer(h.reshape(n, layer.in_features)).reshape(n * d, layer.out_features // d))
        return by_column(h.reshape(n, d, self.out.in_features), self.out).flatten(1)


def idle(model: Any) -> int:
    """Weights and biases of the first and the last layer that stand for numbers which no column has."""
    seen, answered = model.head.used(model.n_features)
    if model.out is None:
        return int((~(seen | answered.T)).sum()) * model.first.out_features + int((~answered).sum())
    return int((~seen).sum()) * model.first.out_features + int((~answered).sum()) * (model.out.in_features + 1)


def begin_layers(model: Any, initializer: Initializer, noise: Noise) -> None:
    """Weights of a model's layers, those of `out` 0 where there is one."""
    gains = {name: model.gain for name, layer in model.named_modules() if layer is not model.out}
    initialize(model, initializer, noise, gain=gains)
    if model.out is not None:
        nn.init.zeros_(model.out.weight)


def sums_before(steps: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """At each column the sum of the steps of those before it, (n, d, h).

    Parameters
    ----------
    steps : tensor of shape (n, d, h)
    order : int64 tensor of shape (d,) or (n, d)
        The column at each place, for all rows or for each.
    """
    if order.ndim == 1:
        sums = steps[:, order].cumsum(1) - steps[:, order]
        return sums[:, torch.argsort(order)]
    placed = steps.take_along_dim(order[:, :, None], 1)
    return (placed.cumsum(1) - placed).take_along_dim(torch.argsort(order, 1)[:, :, None], 1)


def by_column(h: torch.Tensor, out: nn.Linear) -> torch.Tensor:
    """What a layer's outputs for each column say to that column's units alone, (n, width, d) of units (n, d, h)."""
    d = h.shape[1]
    weight, bias = out.weight.reshape(-1, d, h.shape[2]), out.bias.reshape(-1, d)
    return torch.einsum("ndh,wdh->nwd", h, weight) + bias
