"""Columns and targets in units of their own where trees need it: powers of two, which round nothing, and beyond."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon.contracts import Array

__all__ = ["ColumnUnits", "TargetUnits"]

TOP = 90
"""The largest value of a column becomes 2**TOP: gaps of 1e-34 of it are still above the 1e-7 that trees look at."""
GAP, LARGEST = 1.001e-7, 1e37
"""Trees take values that differ by 1e-7 for one, and single precision ends at 3e38."""
MERGED = 1e-3
"""Share of the rows that may lie on one number in single precision though their values differ."""
PLAIN = (0.03, 1e6, 1e30)
"""Least and largest spread, and largest absolute value, of a target that is left as it is."""
FAR = 1e3
"""A target as many spreads away from 0 is centered: squares would lose its digits."""
HIGHEST = 120
"""The largest target becomes at most 2**HIGHEST, which single precision holds."""


@dataclass(frozen=True)
class ColumnUnits:
    """How columns are brought to where trees tell their values apart, whatever unit they came in.

    A column whose values trees tell apart stays as it is. Another is multiplied by a power of two, which changes no
    other split. Where its values would fall together in single precision it is shifted first; where that does not help
    (0, 1e9 and 1e9 + 1) its values are numbered, and what lies between two of them goes in between.

    Parameters
    ----------
    offset : array of shape (d,)
        Subtracted first.
    exponent : int64 array of shape (d,)
        Powers of two.
    knots : array of shape (m,)
        Values of the columns that are numbered, one column after the other, ascending.
    starts : int64 array of shape (d + 1,)
        Where the values of a column begin among `knots`; most columns have none.

    Examples
    --------
    >>> seconds = 1.7e9 + np.arange(4.0)[:, None]
    >>> np.unique(seconds.astype(np.float32)).size, np.unique(ColumnUnits.of(seconds).apply(seconds)).size
    (1, 4)
    """

    offset: Array
    exponent: Array
    knots: Array
    starts: Array

    @classmethod
    def of(cls, X: Array) -> ColumnUnits:
        """Those of the columns of a table; NaN is a missing value. Cost O(n log n) per column."""
        found = [_column(X[:, j]) for j in range(X.shape[1])]
        knots = [values for _, _, values in found]
        starts = np.cumsum([0, *map(len, knots)])
        offset = np.array([shift for shift, _, _ in found])
        return cls(offset, np.array([e for _, e, _ in found], np.int64), np.concatenate(knots), starts.astype(np.int64))

    def apply(self, X: Array) -> Array:
        """The table in these units, float32 in C order."""
        out = np.empty(X.shape, np.float32)
        limit = 2.0**126
        for j in range(X.shape[1]):
            known = self.knots[self.starts[j] : self.starts[j + 1]]
            column = _numbered(X[:, j], known) if len(known) else _moved(X[:, j], self.offset[j], self.exponent[j])
            out[:, j] = np.clip(column, -limit, limit)  # far from all that was seen, on the same side
        return out

    def state(self) -> dict[str, Array]:
        """As arrays."""
        return {f"columns/{name}": np.asarray(getattr(self, name)) for name in _ARRAYS}

    @classmethod
    def of_state(cls, state: Mapping[str, Array]) -> ColumnUnits | None:
        """What `state` gave; None of a model that was saved without."""
        if "columns/offset" not in state:
            return None
        found = cls(*(np.asarray(state[f"columns/{name}"]) for name in _ARRAYS))
        columns = len(found.offset)
        if len(found.exponent) != columns or len(found.starts) != columns + 1 or found.starts[-1] != len(found.knots):
            raise ValueError("the units of the columns are of different numbers of columns")
        return found


_ARRAYS = ("offset", "exponent", "knots", "starts")


def _column(x: Array) -> tuple[float, int, Array]:
    """Offset, exponent and, where these do not suffice, the values of a column."""
    none = np.empty(0)
    values, counts = np.unique(x[~np.isnan(x)], return_counts=True)
    values = values.astype(np.float64)
    if len(values) < 2 or _is_plain(values):
        return 0.0, 0, none
    exponent = _exponent(np.abs(values).max())
    lost, most = _merged(_moved(values, 0.0, exponent), counts)
    if not lost:
        return 0.0, exponent, none
    middle = float(values[0] / 2 + values[-1] / 2)
    near = _exponent(np.abs(values - middle).max())
    fewer, fewest = _merged(_moved(values, middle, near), counts)
    offset = middle if 2 * fewer <= lost else 0.0
    if (fewest if offset else most) > max(1.0, MERGED * counts.sum()):
        return 0.0, 0, values
    return offset, near if offset else exponent, none


def _is_plain(values: Array) -> bool:
    """Whether trees tell ascending values apart as they are."""
    if max(-values[0], values[-1]) > LARGEST:
        return False
    return bool((np.diff(values.astype(np.float32)) > GAP).all())


def _exponent(largest: Any) -> int:
    return TOP - math.frexp(largest)[1] if 0 < largest < math.inf else 0


def _moved(x: Array, offset: Any, exponent: Any) -> Array:
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(x.astype(np.float64) - offset, int(exponent))


def _merged(values: Array, counts: Array) -> tuple[int, float]:
    """Of ascending values, how many are no longer apart in single precision, and the most rows on one number."""
    with np.errstate(under="ignore"):
        apart = np.diff(values.astype(np.float32)) != 0
    starts = np.flatnonzero(np.r_[True, apart])
    several = np.diff(np.r_[starts, len(values)]) > 1
    rows = np.add.reduceat(counts, starts)[several]
    return int((~apart).sum()), float(rows.max(initial=0))


def _numbered(x: Array, known: Array) -> Array:
    """Number of each value among those known; in between for one in between."""
    x = x.astype(np.float64)
    at = np.searchsorted(known, x, side="right") - 1
    inside = (at >= 0) & (at < len(known) - 1)
    low = np.where(inside, at, 0)
    below, above = known[low] / 2, known[np.minimum(low + 1, len(known) - 1)] / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        between = low + (x / 2 - below) / (above - below)
    ends = np.where(at < 0, -1.0, np.where(x > known[-1], len(known), len(known) - 1))
    return np.where(np.isnan(x), np.nan, np.where(inside, between, ends))


@dataclass(frozen=True)
class TargetUnits:
    """How a target is brought to a spread of about 1: trees take a variance of 2e-16 for none.

    Parameters
    ----------
    center : float
        Subtracted first; 0 unless the target is far from 0 for its spread.
    exponent : int
        Of the power of two that follows.

    Examples
    --------
    >>> y = 1e-9 * np.arange(4)
    >>> units = TargetUnits.of(y)
    >>> bool(units.apply(y).std() > 0.5), np.array_equal(units.back(units.apply(y)), y)
    (True, True)
    """

    center: float = 0.0
    exponent: int = 0

    @classmethod
    def of(cls, y: Array) -> TargetUnits:
        """That of a target, from the median distance to its median: a few large numbers do not decide."""
        middle = float(np.median(y))
        away = np.abs(y - middle)
        away = away[away > 0]
        if not len(away):
            return cls()
        spread = float(np.median(away))
        center = middle if abs(middle) > FAR * spread else 0.0
        largest = float(np.abs(y - center).max())
        if not center and PLAIN[0] <= spread <= PLAIN[1] and largest <= PLAIN[2]:
            return cls()
        return cls(center, int(min(1 - math.frexp(spread)[1], HIGHEST - math.frexp(largest)[1])))

    def apply(self, y: Array) -> Array:
        """The target in these units."""
        return np.ldexp(y - self.center, self.exponent)

    def back(self, y: Array) -> Array:
        """From these units."""
        return np.ldexp(np.asarray(y, np.float64), -self.exponent) + self.center

    def scaled(self, value: float, power: int) -> float:
        """A number in units of the target to a power, such as a decrease of squared error, brought along."""
        with np.errstate(over="ignore", under="ignore"):
            return float(np.clip(np.ldexp(value, power * self.exponent), 0.0, 1e300))

    def state(self) -> dict[str, Array]:
        """As an array; none where the target stays as it is."""
        return {} if self == TargetUnits() else {"target/units": np.array([self.center, self.exponent])}

    @classmethod
    def of_state(cls, state: Mapping[str, Array]) -> TargetUnits:
        """What `state` gave; no change for a model that was saved without."""
        if "target/units" not in state:
            return cls()
        center, exponent = np.asarray(state["target/units"])
        return cls(float(center), int(exponent))
