"""Conditional probability tables: a discrete variable given other discrete variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.distributions.family import axes, uniform
from gnomon.distributions.table import Categorical
from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.given import floats, numbers, outcomes

__all__ = ["ConditionalTable", "TableRows"]

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]


class ConditionalTable:
    """p(x | parents) as one array: the axes of the parents in their order, the last axis the variable itself.

    Parameters
    ----------
    probabilities : array of shape (k_1, ..., k_m, k)
        Not negative; each row along the last axis sums to 1, to 1e-6, and is made to. A root has shape (k,).

    Raises
    ------
    UserValueError
        Negative entries, or a row with another sum, with its index.

    Examples
    --------
    >>> wet = ConditionalTable([[0.9, 0.1], [0.2, 0.8]])  # wet[rain] = P(dry), P(wet)
    >>> np.exp(wet.distribution({"rain": np.array([0, 1])}).log_prob(np.array([1, 1]))).round(9).tolist()
    [0.1, 0.8]
    """

    def __init__(self, probabilities: ArrayLike) -> None:
        p = floats(probabilities, "probabilities")
        if p.ndim < 1 or not p.size:
            raise UserValueError.must("probabilities", "have one axis per parent and a last one for the variable", p)
        bad = np.argwhere(~((p >= 0).all(-1) & (abs(p.sum(-1) - 1) <= 1e-6)))
        if len(bad):
            row = tuple(bad[0].tolist())
            what = f"row {row or 0} must be >= 0 and sum to 1, got {p[row].tolist()}"
            raise UserValueError(what, "probabilities", "the variable's own values lie along the last axis")
        p = p / p.sum(-1, keepdims=True)
        with np.errstate(divide="ignore"):
            self.log_probs: Floats = np.log(p)
        self.running: Floats = running_sums(p)

    @property
    def parent_sizes(self) -> tuple[int, ...]:
        """Values of each parent."""
        return self.log_probs.shape[:-1]

    @property
    def size(self) -> int:
        """Values of the variable."""
        return self.log_probs.shape[-1]

    @property
    def n_parameters(self) -> int:
        """Free numbers: one less than the values, for every combination of the parents' values."""
        return self.log_probs.size // self.size * (self.size - 1)

    def distribution(self, parents: Mapping[str, Any]) -> TableRows:
        """The distribution for every row of the parents' codes, arrays of shape (n,) in the order of the axes."""
        if not hasattr(parents, "items"):
            raise UserTypeError(
                f"parents must be a mapping of names to codes, got a {type(parents).__name__}", "parents"
            )
        if len(parents) != len(self.parent_sizes):
            what = f"parents must be {len(self.parent_sizes)}, one per axis of the table, got {len(parents)}"
            raise UserValueError(what, "parents", "keep the order of the graph")
        if not isinstance(parents, Mapping):
            raise UserTypeError(
                f"parents must be a mapping of names to codes, got a {type(parents).__name__}", "parents"
            )
        pairs = zip(parents.items(), self.parent_sizes, strict=True)
        return TableRows(self, tuple(codes_of(value, size, name) for (name, value), size in pairs))


class TableRows(Categorical):
    """Rows of a conditional table, chosen by the parents' codes and not copied: cost O(log k) per draw, O(1) per x.

    Parameters
    ----------
    table : ConditionalTable
    parents : tuple of int arrays of equal shape
        Codes of each parent, checked.
    """

    event_shape = ()

    def __init__(self, table: ConditionalTable, parents: tuple[Codes, ...]) -> None:
        self.table, self.parents = table, parents

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the parents' codes; () of a root."""
        return np.broadcast_shapes(*(code.shape for code in self.parents))

    @property
    def logits(self) -> Floats:
        """Log probabilities of all values, shape of the batch and k."""
        return self.table.log_probs[self.parents]

    def log_prob(self, x: Any) -> Floats:
        """Log probability in nats of the values `x`, shape of x broadcast against the batch."""
        codes = codes_of(x, self.table.size, "x")
        outcomes(codes, "x", self.batch_shape)
        return self.table.log_probs[(*self.parents, codes)]

    def sample(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> Codes:
        """Values, int64, of shape ``shape + batch``: one uniform number each, found in the running sum by bisection."""
        return draw_codes(self.table.running, self.parents, uniform(noise, (*axes(shape), *self.batch_shape), draw))


def running_sums(p: Floats) -> Floats:
    """Running sums along the last axis, exactly 1 from the last value on that can come; rows without mass: nan."""
    total = np.cumsum(p, -1)
    with np.errstate(invalid="ignore"):
        total /= total[..., -1:].copy()
    return total


def draw_codes(running: Floats, rows: tuple[Codes, ...], u: Floats) -> Codes:
    """First value whose running sum exceeds u, in the rows of the table that the codes choose: by bisection.

    Never a value of probability 0, for u in [0, 1).
    """
    low, high = np.zeros(u.shape, np.int64), np.full(u.shape, running.shape[-1] - 1)
    for _ in range((running.shape[-1] - 1).bit_length()):
        middle = (low + high) // 2
        beyond = running[(*rows, middle)] <= u
        low, high = np.where(beyond, middle + 1, low), np.where(beyond, high, middle)
    return low


def codes_of(values: Any, size: int, name: str) -> Codes:
    """Whole numbers in [0, size), int64; anything else is refused with its row."""
    values = numbers(values, name)
    with np.errstate(invalid="ignore"):  # NaN and infinity become numbers that differ from themselves
        codes = values.astype(np.int64) if values.dtype.kind != "c" else np.full(values.shape, -1)
    bad = np.flatnonzero(((codes != values) | (codes < 0) | (codes >= size)).ravel())
    if bad.size:
        what = f"{name} must be in [0, {size}), got {values.ravel()[bad[0]]}"
        raise UserValueError(what, f"row {bad[0]}", "encode its values as 0, 1, ...")
    return codes
