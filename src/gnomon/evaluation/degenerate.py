"""Columns on which a density grows without limit: constant ones, and values that come back again and again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.data.preprocessing import varies
from gnomon.errors import UserTypeError, UserValueError, counted
from gnomon.evaluation.score import Score
from gnomon.inference.arrays import to_numpy

__all__ = ["DegenerateColumn", "check_degenerate", "column_densities", "floor_of", "log_density_of", "with_floor"]

Floats = NDArray[np.float64]
Kind = Literal["constant", "nearly constant", "repeated", "few values"]

NARROW = 1e-4
"""Share of the whole range within which 95 % of the rows of a nearly constant column lie."""
HEAP = 0.25
"""Share of the rows that have one value, beside others that hardly come back."""
COMMON = 0.5
"""Share of the rows whose value is that of another row, where a column takes few values."""
LEAST_ROWS = 10
PER_DECADE, DECADES, CENTERS = 40, (-9, 2), 5
"""Places of the quadrature about each of some values of the column, from 1e-9 to 100 of its standard deviations."""
SHOWN, SHOWN_ROWS = 3, 3
LOG_ROOT = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class DegenerateColumn:
    """A column that is not spread out as a density assumes.

    Parameters
    ----------
    column : int
    kind : {"constant", "nearly constant", "repeated", "few values"}
        ``repeated``: one value has at least a quarter of the rows and the others are spread out, a discrete part in a
        continuous column. ``few values``: most rows share theirs with others, as counts and rounded numbers do.
    n_values : int
        Distinct values.
    share : float
        Of the most frequent value, among the rows.
    gap : float
        Least distance of two values, 0 of a constant column: the width that noise must have to fill the column.
    """

    column: int
    kind: Kind
    n_values: int
    share: float
    gap: float

    def __str__(self) -> str:
        more = (
            ""
            if self.kind == "constant"
            else f": {self.n_values} values, the most frequent in {self.share:.0%} of rows"
        )
        return f"column {self.column} ({self.kind}{more})"


def check_degenerate(X: ArrayLike) -> tuple[DegenerateColumn, ...]:
    r"""Columns of real data on which a density has no upper limit, or a high one for reasons of rounding alone.

    A normal density of a constant column is :math:`1 / (\sigma \sqrt{2 \pi})` at its value: as sigma shrinks, its
    logarithm grows without limit, and so does that of any density that puts a narrow peak on a value that comes back.
    Such columns belong left out, modeled as what they are (counts, categories), or filled by uniform noise as wide as
    the distance of two values.

    Parameters
    ----------
    X : array of shape (n, d)
        NaN is left out.

    Raises
    ------
    UserValueError
        No table of numbers.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(100, 3))
    >>> rows[:, 1] = 7.0
    >>> rows[:40, 2] = 0.0
    >>> [(one.column, one.kind) for one in check_degenerate(rows)]
    [(1, 'constant'), (2, 'repeated')]
    """
    rows = np.asarray(X, dtype=np.float64)
    if rows.ndim != 2 or 0 in rows.shape:
        raise UserValueError.must("X", "be a table with at least one row and one column", rows)
    found = (_looked_at(j, rows[:, j][np.isfinite(rows[:, j])]) for j in range(rows.shape[1]))
    return tuple(one for one in found if one is not None)


def _looked_at(column: int, x: Floats) -> DegenerateColumn | None:
    if len(x) < 2:
        return None
    values, counts = np.unique(x, return_counts=True)
    share, gaps = float(counts.max() / len(x)), np.diff(values)

    def of(kind: Kind, gap: float) -> DegenerateColumn:
        return DegenerateColumn(column, kind, len(values), share, gap)

    if len(values) == 1 or not varies(np.array(x.std()), np.array(x.mean())):
        return of("constant", 0.0)
    if len(x) < LEAST_ROWS:
        return None
    low, high = np.quantile(x, (0.025, 0.975))
    if high - low <= NARROW * (values[-1] - values[0]):
        return of("nearly constant", float(gaps.min()))
    alone = int((counts == 1).sum())
    if share >= HEAP and alone > 0.5 * len(values):
        return of("repeated", float(gaps.min()))
    return of("few values", float(gaps.min())) if len(x) - alone >= COMMON * len(x) else None


def log_density_of(system: Any) -> Callable[[Floats], Floats]:
    """Log density of rows of a fitted system, up to a constant.

    Raises
    ------
    UserTypeError
        A system that has neither ``log_prob`` nor ``energy``.
    """
    if hasattr(system, "log_prob"):
        return lambda rows: to_numpy(system.log_prob(rows)).astype(np.float64)
    if hasattr(system, "energy"):
        return lambda rows: -to_numpy(system.energy(rows)).astype(np.float64)
    raise UserTypeError(f"{type(system).__name__} gives rows no density", "system", "use one with log_prob or energy")


def column_densities(
    log_density: Callable[[Floats], Floats],
    X: ArrayLike,
    *,
    columns: Sequence[int] | None = None,
    among: ArrayLike | None = None,
) -> Floats:
    r"""What each column adds to a log density, :math:`\log p(x_j | x_{-j})`, in nats: shape (n, columns).

    Of independent columns they sum to log p(x). No log Z is needed: the integral over the column is taken by
    quadrature, of places close about the row's own value and some values of the others.

    Parameters
    ----------
    log_density : callable
        Rows (m, d) to m numbers, up to a constant; see `log_density_of`.
    X : array of shape (n, d)
    columns : sequence of int, optional
        All by default.
    among : array of shape (m, d), optional
        Rows that say where the values of the columns lie; X by default.

    Notes
    -----
    Cost 4,400 densities for each cell. A peak narrower than 1e-9 of the column's spread, or far from every value of it,
    is not seen.

    Examples
    --------
    >>> sigma = 1e-3
    >>> peak = lambda rows: -0.5 * ((rows[:, 0] - 7) / sigma) ** 2
    >>> round(float(column_densities(peak, [[7.0]])[0, 0]), 2)  # -log sigma - log(2 pi) / 2
    5.99
    """
    rows = np.asarray(X, dtype=np.float64)
    chosen = range(rows.shape[1]) if columns is None else columns
    whole = rows if among is None else np.asarray(among, dtype=np.float64)
    found = np.empty((len(rows), len(chosen)))
    for k, j in enumerate(chosen):
        spread = float(whole[:, j].std())
        scale = spread if spread > 0 else max(abs(float(whole[0, j])), 1.0)
        others = np.quantile(whole[:, j], np.linspace(0, 1, CENTERS - 1), method="nearest")
        for i, row in enumerate(rows):
            places = _places(np.append(others, row[j]), scale)
            copies = np.tile(row, (len(places) + 1, 1))
            copies[1:, j] = places
            values = log_density(copies)
            found[i, k] = values[0] - _log_integral(values[1:], places)
    return found


def _places(centers: Floats, scale: float) -> Floats:
    low, high = DECADES
    offsets = scale * np.logspace(low, high, PER_DECADE * (high - low) + 1)
    steps = np.concatenate([-offsets[::-1], [0.0], offsets])
    return np.unique(np.unique(centers)[:, None] + steps)


def _log_integral(log_values: Floats, places: Floats) -> float:
    """By the trapezoidal rule."""
    top = float(log_values.max())
    return top + math.log(float(np.trapezoid(np.exp(log_values - top), places)))


def floor_of(contribution: float) -> float:
    """The standard deviation of a normal density whose logarithm at its middle is this; infinite beyond all numbers.

    Examples
    --------
    >>> round(floor_of(5.988817), 6)
    0.001
    """
    with np.errstate(over="ignore"):
        return float(np.exp(-contribution - LOG_ROOT))


def with_floor(score: Score, system: Any, X: Any) -> Score:
    """A log density score with a note of what constant and repeated columns add to it, and how narrow they are held.

    Parameters
    ----------
    score : Score
        Of a density, in nats.
    system : System
        Fitted; see `log_density_of`.
    X : array of shape (n, d)
        The rows of the score. Of at most 3 columns and 3 rows it is measured; where the system gives rows no density,
        only a bound of it, the columns are named alone.
    """
    if score.unit != "nats" or not score.data_space.startswith("density on R^"):
        return score
    rows = np.asarray(X, dtype=np.float64)
    columns = [one for one in check_degenerate(rows) if one.kind != "few values"]
    if not columns or not np.isfinite(rows).all():
        return score
    if hasattr(system, "log_prob") or hasattr(system, "energy"):
        note = floor_note(log_density_of(system), rows, columns)
    else:
        rest = len(columns) - SHOWN
        names = [*map(str, columns[:SHOWN]), *([counted(rest, "more such column")] if rest > 0 else [])]
        note = "no limit but the model's own is set to the density by " + ", ".join(names)
    return replace(score, note="; ".join(filter(None, (score.note, note))))


def floor_note(log_density: Callable[[Floats], Floats], X: Floats, columns: Sequence[DegenerateColumn]) -> str:
    """What columns add to the log density, and the deviation that the model holds them at, in words.

    Columns are left out at whose commonest value the model has no density to speak of: they do not raise it.
    """
    added = contributions(log_density, X, columns)
    parts = [
        f"{one} adds {value:.2f} nats, held at a standard deviation of {floor_of(value):.2g}"
        for one, value in zip(columns, added, strict=False)
        if math.isfinite(floor_of(value))
    ]
    rest = len(columns) - len(added)
    return "; ".join([*parts, f"and {counted(rest, 'more such column')}"] if rest else parts)


def contributions(log_density: Callable[[Floats], Floats], X: Floats, columns: Sequence[DegenerateColumn]) -> Floats:
    """Mean of what the first few columns add, over rows that have the most frequent value: the peak of the density."""
    found = []
    for one in columns[:SHOWN]:
        values, counts = np.unique(X[:, one.column], return_counts=True)
        rows = X[X[:, one.column] == values[counts.argmax()]]
        some = rows[np.linspace(0, len(rows) - 1, min(SHOWN_ROWS, len(rows))).astype(np.int64)]
        found.append(float(column_densities(log_density, some, columns=[one.column], among=X).mean()))
    return np.array(found)
