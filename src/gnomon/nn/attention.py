"""Attention pooling: scores of queries against keys, a masked softmax, a weighted mean of values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import nn

from gnomon.contracts import Noise
from gnomon.errors import UserValueError
from gnomon.nn.dropout import Dropout
from gnomon.nn.initializers import XavierUniform
from gnomon.nn.layers import dense
from gnomon.recipes.recipe import Recipe

__all__ = [
    "AdditiveAttention", "AdditiveScore", "Attention", "AttentionRecipe", "BilinearAttention", "BilinearScore",
    "DotAttention", "DotScore", "GaussianAttention", "GaussianScore", "NoAttention", "attend", "check_widths",
    "weights",
]  # fmt: skip


def weights(scores: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """Softmax over the last axis of what is not masked; all 0 where everything is masked.

    Parameters
    ----------
    scores : tensor of shape (..., T)
    mask : bool tensor of shape (..., T), optional
        False for padding.

    Raises
    ------
    UserValueError
        A mask of anything but bool.

    Examples
    --------
    >>> weights(torch.tensor([0.0, 0.0, 5.0]), torch.tensor([True, True, False])).tolist()
    [0.5, 0.5, 0.0]
    """
    if mask is None:
        return torch.softmax(scores, -1)
    if mask.dtype != torch.bool:
        raise UserValueError(f"mask must be a bool tensor, got {mask.dtype}", "mask", "True means: may look")
    low = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, low), -1) * mask


def check_widths(queries: int, keys: int, name: str) -> None:
    """Refuse queries and keys of different widths where a score compares their columns."""
    if queries != keys:
        raise UserValueError(
            f"queries and keys must be equally wide, got {queries} and {keys}", name,
            "choose the bilinear or additive score",
        )  # fmt: skip


def attend(scores: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    r"""The context :math:`c = \sum_t \alpha_t v_t`, :math:`\alpha` = softmax of the scores.

    Parameters
    ----------
    scores : tensor of shape (n, q, T) or (n, T)
    values : tensor of shape (n, T, d)
    mask : bool tensor of shape (n, T), optional
        False for padding.

    Examples
    --------
    >>> round(attend(torch.tensor([[0.0, 1.0, 2.0]]), torch.tensor([[[1.0], [2.0], [3.0]]])).item(), 5)
    2.57521
    """
    if scores.ndim == 2:
        return attend(scores[:, None], values, mask)[:, 0]
    return weights(scores, None if mask is None else mask[:, None]) @ values


CELLS = 1 << 24
"""Numbers of the scores that are held at once where no gradient is wanted."""


class Attention(nn.Module):
    r"""Base of attention layers: a subclass scores queries against keys that it has prepared once.

    The answer to a query is :math:`f(q) = \sum_i \mathrm{softmax}_i(a(q, k_i))\, v_i`, a mean of the values.

    Parameters
    ----------
    dropout : float in [0, 1], default 0
        Probability to drop a weight in training.
    """

    depth: int = 1
    """Numbers that a score of one pair is made from at once."""

    def __init__(self, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.drop = Dropout(dropout)

    def prepare(self, keys: torch.Tensor) -> torch.Tensor:
        """What of the keys (n, T, d) is the same for every query."""
        return keys

    def scores(self, query: torch.Tensor, prepared: torch.Tensor) -> torch.Tensor:
        """Scores (n, q, T) of queries (n, q, d) against prepared keys."""
        raise NotImplementedError

    def score(self, query: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """Scores a(q, k), (n, q, T), of queries (n, q, d_q) and keys (n, T, d_k)."""
        return self.scores(query, self.prepare(keys))

    def forward(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Contexts (n, q, d) of queries (n, q, d_q), or (n, d) of one query (n, d_q) each.

        Where no gradient is wanted, queries are answered some at a time, so that memory does not grow with q T.

        Raises
        ------
        UserValueError
            No keys: a mean of nothing.
        """
        if query.ndim == 2:
            return self(query[:, None], keys, values, mask)[:, 0]
        if not keys.shape[1]:
            raise UserValueError("attention needs at least one key, got none", "keys", "leave empty sequences out")
        prepared = self.prepare(keys)
        some = query.shape[1]
        if not torch.is_grad_enabled():
            some = max(1, CELLS // max(1, len(query) * keys.shape[1] * self.depth))
        begins = range(0, max(1, query.shape[1]), max(1, some))
        parts = [self._pooled(query[:, one : one + some], prepared, values, mask) for one in begins]
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)

    def _pooled(
        self, query: torch.Tensor, prepared: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None
    ) -> torch.Tensor:
        alpha = weights(self.scores(query, prepared), None if mask is None else mask[:, None])
        return self.drop(alpha) @ values

    def initialize(self, noise: Noise) -> None:
        """Xavier's uniform weights."""
        for name, parameter in self.named_parameters():
            XavierUniform().fill(parameter.view(-1, parameter.shape[-1]), noise.child(name))


class DotScore(Attention):
    r"""Scores :math:`s^T h`, divided by the root of their width where asked for.

    Parameters
    ----------
    scaled : bool, default False
        As in ``torch.nn.functional.scaled_dot_product_attention``: of independent numbers of mean 0 and variance 1 the
        scores then have variance 1 as well. Queries are divided before the product, which half precision may not hold.
    dropout : float in [0, 1], default 0
    """

    def __init__(self, *, scaled: bool = False, dropout: float = 0.0) -> None:
        super().__init__(dropout=dropout)
        self.scaled = scaled

    def scores(self, query: torch.Tensor, prepared: torch.Tensor) -> torch.Tensor:
        """Inner products; both must be equally wide."""
        check_widths(query.shape[-1], prepared.shape[-1], "dot attention")
        return (query / math.sqrt(query.shape[-1]) if self.scaled else query) @ prepared.transpose(-1, -2)


class GaussianScore(Attention):
    r"""Scores :math:`-\tfrac12 \|\omega (s - h)\|^2`: the log of a Gaussian kernel, up to a constant.

    With keys of one length the weights are those of `DotScore` without scaling.

    Parameters
    ----------
    omega : float, default 1
        Inverse of the kernel's width.
    dropout : float in [0, 1], default 0
    """

    def __init__(self, omega: float = 1.0, *, dropout: float = 0.0) -> None:
        super().__init__(dropout=dropout)
        self.omega = omega

    def scores(self, query: torch.Tensor, prepared: torch.Tensor) -> torch.Tensor:
        """Minus half of the squared distances; both must be equally wide."""
        check_widths(query.shape[-1], prepared.shape[-1], "Gaussian attention")
        return -0.5 * (self.omega * torch.cdist(query, prepared, compute_mode="donot_use_mm_for_euclid_dist")).square()


class BilinearScore(Attention):
    r"""Scores :math:`h^T W s` (Luong, Pham and Manning 2015: "general").

    Parameters
    ----------
    queries, keys : int >= 1
        Widths.
    dtype : torch.dtype, optional
    dropout : float in [0, 1], default 0
    """

    def __init__(self, queries: int, keys: int, *, dtype: torch.dtype | None = None, dropout: float = 0.0) -> None:
        super().__init__(dropout=dropout)
        self.weight = nn.Parameter(torch.zeros(keys, queries, dtype=dtype))

    def prepare(self, keys: torch.Tensor) -> torch.Tensor:
        """h^T W, (n, T, queries)."""
        return keys @ self.weight

    def scores(self, query: torch.Tensor, prepared: torch.Tensor) -> torch.Tensor:
        """Inner products with the prepared keys."""
        return query @ prepared.transpose(-1, -2)


class AdditiveScore(Attention):
    r"""Scores :math:`v^T \tanh(W_s s + W_h h)` (Bahdanau, Cho and Bengio 2015).

    Parameters
    ----------
    queries, keys : int >= 1
        Widths.
    units : int >= 1
        Width of the hidden layer.
    dtype : torch.dtype, optional
    dropout : float in [0, 1], default 0

    Notes
    -----
    n q T units numbers in memory where gradients are wanted: for long sequences the bilinear score is cheaper.
    """

    def __init__(
        self, queries: int, keys: int, units: int, *, dtype: torch.dtype | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__(dropout=dropout)
        self.depth = units
        self.query = dense(queries, units, bias=False, dtype=dtype)
        self.key = dense(keys, units, bias=False, dtype=dtype)
        self.v = nn.Parameter(torch.zeros(units, dtype=dtype))

    def prepare(self, keys: torch.Tensor) -> torch.Tensor:
        """W_h h, (n, T, units)."""
        return self.key(keys)

    def scores(self, query: torch.Tensor, prepared: torch.Tensor) -> torch.Tensor:
        """v^T tanh of every pair."""
        return torch.tanh(self.query(query)[:, :, None] + prepared[:, None]) @ self.v


@dataclass(frozen=True)
class AttentionRecipe(Recipe):
    """Base of the recipes of the slot ``attention``."""

    def build(self, queries: int, keys: int, dtype: torch.dtype | None = None) -> Attention | None:
        """The layer for queries and keys of these widths."""
        raise NotImplementedError


@dataclass(frozen=True)
class NoAttention(AttentionRecipe):
    """The decoder sees the encoder's last state alone."""

    short: ClassVar[str] = "none"

    def build(self, queries: int, keys: int, dtype: torch.dtype | None = None) -> Attention | None:
        """None."""
        return None


@dataclass(frozen=True)
class DotAttention(AttentionRecipe):
    """Inner products of the decoder's and the encoder's states.

    Parameters
    ----------
    scaled : bool, default False
        Divide by the root of the width.
    """

    short: ClassVar[str] = "dot"
    scaled: bool = False

    def build(self, queries: int, keys: int, dtype: torch.dtype | None = None) -> Attention:
        """`DotScore`."""
        check_widths(queries, keys, "attention")
        return DotScore(scaled=self.scaled)


@dataclass(frozen=True)
class GaussianAttention(AttentionRecipe):
    """A Gaussian kernel of the distance of the decoder's and the encoder's states.

    Parameters
    ----------
    omega : float in (0, inf), default 1.0
        Inverse of the kernel's width.
    """

    short: ClassVar[str] = "gaussian"
    omega: Annotated[float, "(0, inf)"] = 1.0

    def build(self, queries: int, keys: int, dtype: torch.dtype | None = None) -> Attention:
        """`GaussianScore`."""
        check_widths(queries, keys, "attention")
        return GaussianScore(self.omega)


@dataclass(frozen=True)
class BilinearAttention(AttentionRecipe):
    """A learned bilinear form of the decoder's and the encoder's states."""

    short: ClassVar[str] = "bilinear"

    def build(self, queries: int, keys: int, dtype: torch.dtype | None = None) -> Attention:
        """`BilinearScore`."""
        return BilinearScore(queries, keys, dtype=dtype)


@dataclass(frozen=True)
class AdditiveAttention(AttentionRecipe):
    """A hidden layer over the decoder's and the encoder's states.

    Parameters
    ----------
    units : int in [1, inf), default 64
        Width of the hidden layer.
    """

    short: ClassVar[str] = "additive"
    units: Annotated[int, "[1, inf)"] = 64

    def build(self, queries: int, keys: int, dtype: torch.dtype | None = None) -> Attention:
        """`AdditiveScore`."""
        return AdditiveScore(queries, keys, self.units, dtype=dtype)
