"""Products of several units of a state: their weighted sums, what each leaves to a unit, updates of unit after unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["TermTable"]

kernel = numba.njit(cache=True, error_model="numpy")


class TermTable:
    """Which units are multiplied with each other, and which terms each unit is in.

    Parameters
    ----------
    terms : sequence of tuples of int
        Numbers of units, each once in a term.
    n_units : int

    Examples
    --------
    >>> table = TermTable([(0, 1), (0, 1, 2)], 3)
    >>> z, w = np.array([[1.0, 1.0, 2.0]]), np.array([3.0, 5.0])
    >>> table.values(z, w).tolist(), table.fields(z, w, 0, 3).tolist()
    ([13.0], [[13.0, 13.0, 5.0]])
    """

    def __init__(self, terms: Sequence[tuple[int, ...]], n_units: int) -> None:
        self.n_terms = len(terms)
        flat = np.array([unit for term in terms for unit in term], np.int64)
        sizes = np.array([len(term) for term in terms], np.int64)
        self.starts = np.concatenate([[0], np.cumsum(sizes)])
        self.units = flat
        order = np.argsort(flat, kind="stable")
        self.of_unit = np.repeat(np.arange(self.n_terms), sizes)[order]
        self.unit_starts = np.concatenate([[0], np.cumsum(np.bincount(flat, minlength=n_units))])
        # of each place of a unit in a term the others there, side by side: what an update of the unit reads in one go
        first, size = self.starts[self.of_unit], sizes[self.of_unit]
        self.other_starts = np.concatenate([[0], np.cumsum(size - 1)])
        places = np.arange(self.other_starts[-1]) - np.repeat(self.other_starts[:-1], size - 1)
        rank = order - first
        self.others = flat[np.repeat(first, size - 1) + places + (places >= np.repeat(rank, size - 1))]

    @property
    def _arrays(self) -> tuple[Any, ...]:
        return self.unit_starts, self.other_starts, self.others

    def by_order(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Terms of each number of units: which they are, and their units, (terms, order)."""
        sizes, found = np.diff(self.starts), []
        for size in np.unique(sizes):
            at = np.flatnonzero(sizes == size)
            found.append((at, self.units[self.starts[at][:, None] + np.arange(size)]))
        return found

    def values(self, z: NDArray[Any], weight: NDArray[Any]) -> NDArray[Any]:
        """The weighted sum of the products of each row, (rows,)."""
        return _values(z, weight, self.starts, self.units)

    def sums(self, z: NDArray[Any], share: NDArray[Any]) -> NDArray[Any]:
        """Of each term the sum over rows of share_i times its product, (n_terms,)."""
        return _sums(z, share, self.starts, self.units)

    def fields(self, z: NDArray[Any], weight: NDArray[Any], first: int, last: int) -> NDArray[Any]:
        """The derivative of `values` by each of the units from first up to last, (rows, last - first)."""
        return _fields(z, weight[self.of_unit], first, last, *self._arrays)

    def sweep(
        self, z: NDArray[Any], weight: NDArray[Any], first: int, field: NDArray[Any], threshold: NDArray[Any],
        held: NDArray[np.bool_], values: tuple[float, float], *, backward: bool,
    ) -> None:  # fmt: skip
        """Units from `first` on, in place: the higher value where their field, and what the products add, is above."""
        low, high = (z.dtype.type(value) for value in values)
        _sweep(z, weight[self.of_unit], first, field, threshold, held, low, high, backward, *self._arrays)

    def relax(
        self, z: NDArray[Any], weight: NDArray[Any], first: int, field: NDArray[Any], held: NDArray[np.bool_],
        values: tuple[float, float],
    ) -> None:  # fmt: skip
        """Units from `first` on, in place: each its mean given the means of the others."""
        low, high = (z.dtype.type(value) for value in values)
        _relax(z, weight[self.of_unit], first, field, held, low, high, *self._arrays)

    def flipped(
        self, x: NDArray[Any], rows: NDArray[np.int64], sites: NDArray[np.int64], change: NDArray[Any],
        weight: NDArray[Any],
    ) -> NDArray[Any]:  # fmt: skip
        """By how much `values` grows as units of copies of rows change one after the other, (copies,)."""
        return _flipped(x, rows, sites, change, weight[self.of_unit], *self._arrays)

    def flipped_sums(
        self, x: NDArray[Any], rows: NDArray[np.int64], sites: NDArray[np.int64], change: NDArray[Any],
        share: NDArray[Any],
    ) -> NDArray[Any]:  # fmt: skip
        """Of each term the sum over copies of share_i times what its product grows by, (n_terms,)."""
        found = np.zeros(self.n_terms, x.dtype)
        _flipped_sums(x, rows, sites, change, share, found, self.of_unit, *self._arrays)
        return found


@kernel
def _product(row, k, starts, units):  # type: ignore[no-untyped-def]
    """The product of the units of an entry; that of bits is known at the first 0."""
    j, stop = starts[k], starts[k + 1]
    product = row[units[j]]
    while product != 0 and j + 1 < stop:
        j += 1
        product *= row[units[j]]
    return product


@kernel
def _field(row, weight, i, unit_starts, other_starts, others):  # type: ignore[no-untyped-def]
    """What the terms of a unit leave to it; `weight` is in the order of the units' places in terms."""
    total = row.dtype.type(0)
    for k in range(unit_starts[i], unit_starts[i + 1]):
        total += weight[k] * _product(row, k, other_starts, others)
    return total


@kernel
def _values(z, weight, starts, units):  # type: ignore[no-untyped-def]
    found = np.zeros(len(z), z.dtype)
    for c in range(len(z)):
        for t in range(len(starts) - 1):
            found[c] += weight[t] * _product(z[c], t, starts, units)
    return found


@kernel
def _sums(z, share, starts, units):  # type: ignore[no-untyped-def]
    found = np.zeros(len(starts) - 1, z.dtype)
    for c in range(len(z)):
        for t in range(len(starts) - 1):
            found[t] += share[c] * _product(z[c], t, starts, units)
    return found


@kernel
def _fields(z, weight, first, last, unit_starts, other_starts, others):  # type: ignore[no-untyped-def]
    found = np.empty((len(z), last - first), z.dtype)
    for i in range(first, last):  # of a unit all rows: what is read of its terms stays cached
        for c in range(len(z)):
            found[c, i - first] = _field(z[c], weight, i, unit_starts, other_starts, others)
    return found


@kernel
def _sweep(z, weight, first, field, threshold, held, low, high, backward, unit_starts, other_starts, others):  # type: ignore[no-untyped-def]
    n, d = field.shape
    for k in range(d):
        i = d - 1 - k if backward else k
        for c in range(n):
            if held[c, i]:
                continue
            total = field[c, i] + _field(z[c], weight, first + i, unit_starts, other_starts, others)
            z[c, first + i] = high if total > threshold[c, i] else low


@kernel
def _relax(z, weight, first, field, held, low, high, unit_starts, other_starts, others):  # type: ignore[no-untyped-def]
    n, d = field.shape
    for i in range(d):
        for c in range(n):
            if held[c, i]:
                continue
            total = field[c, i] + _field(z[c], weight, first + i, unit_starts, other_starts, others)
            z[c, first + i] = low + (high - low) / (1 + np.exp(-(high - low) * total))


@kernel
def _flipped(x, rows, sites, change, weight, unit_starts, other_starts, others):  # type: ignore[no-untyped-def]
    found = np.zeros(len(rows), x.dtype)
    for p in range(len(rows)):
        row = x[rows[p]].copy()
        for k in range(sites.shape[1]):
            if change[p, k] != 0:
                i = sites[p, k]
                found[p] += change[p, k] * _field(row, weight, i, unit_starts, other_starts, others)
                row[i] += change[p, k]
    return found


@kernel
def _flipped_sums(x, rows, sites, change, share, found, of_unit, unit_starts, other_starts, others):  # type: ignore[no-untyped-def]
    for p in range(len(rows)):
        row = x[rows[p]].copy()
        for k in range(sites.shape[1]):
            i, moved = sites[p, k], change[p, k]
            if moved == 0:
                continue
            for e in range(unit_starts[i], unit_starts[i + 1]):
                found[of_unit[e]] += share[p] * moved * _product(row, e, other_starts, others)
            row[i] += moved
