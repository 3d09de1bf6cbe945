"""Products of several units of a state: their weighted sums, what each leaves to a unit, updates of unit after unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["TermTable"]

kernel = numba.njit(cache=True, error_model="numpy")

AT_ONCE = 64
"""Rows that are taken together, unit by unit side by side: one instruction for several, in the nearest cache."""


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
        self.begins = _begins(self.starts, self.units)
        self.other_begins = _begins(self.other_starts, self.others)

    @property
    def _arrays(self) -> tuple[Any, ...]:
        return self.unit_starts, self.other_starts, self.others

    @property
    def _places(self) -> tuple[Any, ...]:
        return self.unit_starts, self.other_begins, self.other_starts, self.others

    def by_order(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Terms of each number of units: which they are, and their units, (terms, order)."""
        sizes, found = np.diff(self.starts), []
        for size in np.unique(sizes):
            at = np.flatnonzero(sizes == size)
            found.append((at, self.units[self.starts[at][:, None] + np.arange(size)]))
        return found

    def values(self, z: NDArray[Any], weight: NDArray[Any]) -> NDArray[Any]:
        """The weighted sum of the products of each row, (rows,)."""
        return _values(z, weight, self.begins, self.starts, self.units)

    def sums(self, z: NDArray[Any], share: NDArray[Any]) -> NDArray[Any]:
        """Of each term the sum over rows of share_i times its product, (n_terms,)."""
        return _sums(z, share, self.starts, self.units)

    def fields(self, z: NDArray[Any], weight: NDArray[Any], first: int, last: int) -> NDArray[Any]:
        """The derivative of `values` by each of the units from first up to last, (rows, last - first)."""
        return _fields(z, weight[self.of_unit], first, last, *self._places)

    def sweep(
        self, z: NDArray[Any], weight: NDArray[Any], first: int, field: NDArray[Any], threshold: NDArray[Any],
        held: NDArray[np.bool_], values: tuple[float, float], *, backward: bool,
    ) -> None:  # fmt: skip
        """Units from `first` on, in place: the higher value where their field, and what the products add, is above."""
        low, high = (z.dtype.type(value) for value in values)
        _sweep(z, weight[self.of_unit], first, field, threshold, held, low, high, backward, *self._places)

    def relax(
        self, z: NDArray[Any], weight: NDArray[Any], first: int, field: NDArray[Any], held: NDArray[np.bool_],
        values: tuple[float, float],
    ) -> None:  # fmt: skip
        """Units from `first` on, in place: each its mean given the means of the others."""
        low, high = (z.dtype.type(value) for value in values)
        _relax(z, weight[self.of_unit], first, field, held, low, high, *self._places)

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
def _begins(starts, units):  # type: ignore[no-untyped-def]
    """Of each entry whether all its units but the last differ from those of the entry before."""
    found = np.ones(len(starts) - 1, np.bool_)
    for k in range(1, len(found)):
        size = starts[k + 1] - starts[k]
        if size == starts[k] - starts[k - 1]:
            found[k] = (units[starts[k] : starts[k + 1] - 1] != units[starts[k - 1] : starts[k] - 1]).any()
    return found


@kernel
def _side_by_side(z, start):  # type: ignore[no-untyped-def]
    """The states of `AT_ONCE` rows from one on, (units, AT_ONCE); 0 after the last row."""
    found = np.zeros((z.shape[1], AT_ONCE), z.dtype)
    for c in range(min(AT_ONCE, len(z) - start)):
        for i in range(z.shape[1]):
            found[i, c] = z[start + c, i]
    return found


@kernel
def _weighted(columns, weight, first, last, begins, starts, units, product, total):  # type: ignore[no-untyped-def]
    """The weighted sums of the products of some entries, into `total`, for rows side by side.

    `product` is room for the product of all units of an entry but the last, which it has in common with neighbors.
    """
    total[:] = 0
    for k in range(first, last):
        if begins[k] or k == first:
            product[:] = 1
            for j in range(starts[k], starts[k + 1] - 1):
                for c in range(AT_ONCE):
                    product[c] *= columns[units[j], c]
        end, w = units[starts[k + 1] - 1], weight[k]
        for c in range(AT_ONCE):
            total[c] += w * (product[c] * columns[end, c])


@kernel
def _values(z, weight, begins, starts, units):  # type: ignore[no-untyped-def]
    found = np.zeros(len(z), z.dtype)
    product, total = np.empty(AT_ONCE, z.dtype), np.empty(AT_ONCE, z.dtype)
    for start in range(0, len(z), AT_ONCE):
        columns = _side_by_side(z, start)
        _weighted(columns, weight, 0, len(starts) - 1, begins, starts, units, product, total)
        for c in range(min(AT_ONCE, len(z) - start)):
            found[start + c] = total[c]
    return found


@kernel
def _sums(z, share, starts, units):  # type: ignore[no-untyped-def]
    found = np.zeros(len(starts) - 1, z.dtype)
    for c in range(len(z)):
        for t in range(len(starts) - 1):
            found[t] += share[c] * _product(z[c], t, starts, units)
    return found


@kernel
def _fields(z, weight, first, last, unit_starts, begins, starts, others):  # type: ignore[no-untyped-def]
    found = np.empty((len(z), last - first), z.dtype)
    product, total = np.empty(AT_ONCE, z.dtype), np.empty(AT_ONCE, z.dtype)
    for start in range(0, len(z), AT_ONCE):
        columns = _side_by_side(z, start)
        for i in range(first, last):
            _weighted(columns, weight, unit_starts[i], unit_starts[i + 1], begins, starts, others, product, total)
            for c in range(min(AT_ONCE, len(z) - start)):
                found[start + c, i - first] = total[c]
    return found


@kernel
def _sweep(z, weight, first, field, threshold, held, low, high, backward, unit_starts, begins, starts, others):  # type: ignore[no-untyped-def]
    n, d = field.shape
    product, total = np.empty(AT_ONCE, z.dtype), np.empty(AT_ONCE, z.dtype)
    for start in range(0, n, AT_ONCE):
        columns = _side_by_side(z, start)
        for k in range(d):
            i = d - 1 - k if backward else k
            at = first + i
            _weighted(columns, weight, unit_starts[at], unit_starts[at + 1], begins, starts, others, product, total)
            for c in range(min(AT_ONCE, n - start)):
                row = start + c
                if not held[row, i]:
                    columns[at, c] = high if field[row, i] + total[c] > threshold[row, i] else low
                    z[row, at] = columns[at, c]


@kernel
def _relax(z, weight, first, field, held, low, high, unit_starts, begins, starts, others):  # type: ignore[no-untyped-def]
    n, d = field.shape
    product, total = np.empty(AT_ONCE, z.dtype), np.empty(AT_ONCE, z.dtype)
    for start in range(0, n, AT_ONCE):
        columns = _side_by_side(z, start)
        for i in range(d):
            at = first + i
            _weighted(columns, weight, unit_starts[at], unit_starts[at + 1], begins, starts, others, product, total)
            for c in range(min(AT_ONCE, n - start)):
                row = start + c
                if not held[row, i]:
                    columns[at, c] = low + (high - low) / (1 + np.exp(-(high - low) * (field[row, i] + total[c])))
                    z[row, at] = columns[at, c]


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
