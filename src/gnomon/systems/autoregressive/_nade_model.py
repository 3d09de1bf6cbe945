"""The model of NADE and of its kin for other kinds of columns."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from gnomon.contracts import Noise
from gnomon.nn.likelihoods import BernoulliLikelihood, Head
from gnomon.systems.autoregressive._base import ChainModel
from gnomon.systems.autoregressive._shared import shared_numbers

__all__ = ["NADEModel"]


class NADEModel(ChainModel):
    r"""p(x) by the chain rule; the hidden units of each conditional are those of the one before and one column more.

    .. math:: a_1 = c, \quad a_{t+1} = a_t + W_t^\top x_{o_t}, \quad
        p(x_{o_t} | x_{o_{<t}}) = \mathrm{head}(b_t + V_t \, \sigma(s_t a_t))

    Weights belong to columns and not to places, so that a model is the same whichever order it was given them in.

    Parameters
    ----------
    n_features, n_hidden : int
    head : Head
    scales : bool
        Whether columns are shifted and scaled.
    rescale : bool
        Whether s is learned; else it is 1.
    dtype : torch.dtype

    Attributes
    ----------
    W : parameter of shape (n_features, head.seen, n_hidden)
    c : parameter of shape (n_hidden,)
    V : parameter of shape (n_features, head.width, n_hidden)
    b : parameter of shape (n_features, head.width)
    s : parameter of shape (n_features,), or None
        By column, as V and b are.
    """

    def __init__(
        self, n_features: int, n_hidden: int, head: Head, scales: bool, rescale: bool, dtype: torch.dtype
    ) -> None:
        super().__init__(n_features, head, scales, dtype)
        self.W = nn.Parameter(torch.zeros(n_features, head.seen, n_hidden, dtype=dtype))
        self.c = nn.Parameter(torch.zeros(n_hidden, dtype=dtype))
        self.V = nn.Parameter(torch.zeros(n_features, head.width, n_hidden, dtype=dtype))
        self.b = nn.Parameter(torch.zeros(n_features, head.width, dtype=dtype))
        self.s = nn.Parameter(torch.ones(n_features, dtype=dtype)) if rescale else None

    @classmethod
    def of(cls, W: Any, c: Any, V: Any, b: Any, order: Any = None) -> NADEModel:
        """The model of zeros and ones with copies of these parameters: W (h, d), c (h,), V (d, h), b (d,)."""
        given = [torch.as_tensor(value) for value in (W, c, V, b)]
        h, d = given[0].shape
        dtype = given[0].dtype
        model = cls(d, h, BernoulliLikelihood().build(d, dtype), False, False, dtype)
        values = (given[0].T[:, None], given[1], given[2][:, None], given[3][:, None])
        with torch.no_grad():
            for parameter, value in zip((model.W, model.c, model.V, model.b), values, strict=True):
                parameter.copy_(value)
            if order is not None:
                model.order.copy_(torch.as_tensor(order))
        return model

    @property
    def n_parameters(self) -> int:
        """Weights of what columns make use of."""
        seen, answered = (int((~one).sum()) for one in self.head.used(self.n_features))
        h = len(self.c)
        return super().n_parameters - seen * h - answered * (h + 1)

    @property
    def matrices(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The weights that a penalty may shrink: W and V."""
        return self.W, self.V

    def draw_weights(self, noise: Noise) -> None:
        """First weights: W of variance 1 / n_features; V is 0, so that the columns are independent at first."""
        with torch.no_grad():
            self.W.copy_(noise.child("W").normal(tuple(self.W.shape), like=self.W) * self.n_features**-0.5)

    def numbers(self, z: torch.Tensor) -> torch.Tensor:
        seen, weights = self.head.inputs(z), self.W.flatten(0, 1)
        return shared_numbers(self.order, seen, weights, self.c, self.V, self.b, self.s).flatten(1)

    # --- place by place -----------------------------------------------------------------------------------------------

    def begin(self, n: int) -> torch.Tensor:
        return self.c.detach().repeat(n, 1)

    def numbers_at(self, state: torch.Tensor, t: int) -> torch.Tensor:
        at = self.order[t]
        field = state if self.s is None else state * self.s[at]
        return torch.sigmoid(field) @ self.V[at].T + self.b[at]

    def take(self, state: torch.Tensor, t: int, cells: torch.Tensor) -> torch.Tensor:
        column = int(self.order[t])
        seen = self.head.inputs(cells, slice(column, column + 1))
        state += seen.to(state.dtype) @ self.W[column].detach()
        return state
