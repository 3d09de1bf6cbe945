"""Tables whose columns are of several kinds: real numbers, zeros and ones, codes of categories."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Noise
from gnomon.distributions.arrays import Floats, first_cell, place
from gnomon.distributions.domains import EXAMPLE_COLUMNS, Domain
from gnomon.distributions.independent import CategoricalColumns, GaussianColumns, IndependentColumns
from gnomon.errors import UserTypeError, UserValueError

__all__ = ["MixedColumns", "MixedTable"]

LARGEST = 1e100
"""Beyond it squares overflow."""


@dataclass(frozen=True)
class MixedTable(Domain):
    """Columns of real numbers and of codes, side by side.

    Parameters
    ----------
    values : tuple of int in {0, 2, 3 ...}, default (0,)
        How many values each column has: 0 of real numbers, n of codes 0 to n - 1. The last one holds for the columns
        behind it too.

    Examples
    --------
    >>> MixedTable((0, 2)).check([[0.5, 1.0, 0.0]])
    array([[0.5, 1. , 0. ]])
    >>> MixedTable((0, 2, 3)).space(5)
    'density on R x {0,1} x {0..2}^3'
    """

    values: tuple[int, ...] = (0,)
    view: ClassVar[str] = "table"

    def describe(self) -> str:
        """What a table of this domain holds."""
        return "columns of real numbers and of codes 0, 1, 2 ..."

    def of_columns(self, n_columns: int) -> NDArray[np.int64]:
        """The values of each column.

        Raises
        ------
        UserTypeError, UserValueError
            No tuple of whole numbers, one that no column has, or more of them than columns.
        """
        remedy = "0 stands for real numbers, n for codes 0 to n - 1; the last holds for all further columns"
        if not isinstance(self.values, tuple | list) or not all(isinstance(one, Integral) for one in self.values):
            what = f"values must be a tuple of whole numbers, got {self.values!r}"
            raise UserTypeError(what, "likelihood__values", remedy)
        bad = [one for one in self.values if one < 0 or one == 1]
        if bad or not self.values:
            what = f"values must be 0 or at least 2 for each column, got {bad[0] if bad else 'none'}"
            raise UserValueError(what, "likelihood__values", remedy)
        if len(self.values) > n_columns:
            what = f"values must be of the {n_columns} columns at most, got {len(self.values)} of them"
            raise UserValueError(what, "likelihood__values", remedy)
        last = self.values[-1:] * (n_columns - len(self.values))
        return np.array([*self.values, *last], np.int64)

    def space(self, n_columns: int) -> str:
        """Name of the data space, for scores."""
        found, counts = np.unique(self.of_columns(n_columns), return_counts=True)
        sets = {0: "R", 2: "{0,1}"}
        parts = [
            sets.get(n, f"{{0..{n - 1}}}") + (f"^{many}" if many > 1 else "")
            for n, many in zip(found.tolist(), counts.tolist(), strict=True)
        ]
        return ("density on " if found[0] == 0 else "pmf on ") + " x ".join(parts)

    def baseline(self, X: Any) -> IndependentColumns:
        """Normal columns, and codes with shares of their own."""
        return MixedColumns(X, self.of_columns(np.asarray(X).shape[1]))

    def example(self, random: np.random.Generator, n: int, groups: NDArray[np.int64] | None = None) -> Any:
        """Data in this domain, n examples, for checks."""
        columns = max(EXAMPLE_COLUMNS, len(self.values))
        groups = random.integers(0, 3, size=n) if groups is None else groups
        centers = random.normal(size=(int(groups.max()) + 1, columns))
        X, values = centers[groups] + 0.5 * random.normal(size=(n, columns)), self.of_columns(columns)
        return np.where(values > 0, np.clip(np.floor(X + values / 2), 0, values - 1), X)

    def _check_cells(self, X: Any, array: Floats, name: str) -> Floats:
        values = self.of_columns(array.shape[1])
        coded, top = values > 0, np.where(values > 0, values - 1, LARGEST)
        low = np.where(coded, 0.0, -LARGEST)
        cell = first_cell(array, lambda block: (block < low) | (block > top) | (coded & (block != np.floor(block))))
        if cell is None:
            return array
        n = int(values[cell[1]])
        holds = f"a code 0 to {n - 1} here" if n else f"numbers up to {LARGEST:g}"
        remedy = "say how many values the column has (values of the likelihood), 0 if it is real"
        raise UserValueError(f"{name} must hold {holds}, got {array[cell]}", place(X, *cell), remedy)


class MixedColumns(IndependentColumns):
    """Normal columns, and columns of codes with shares of their own.

    Parameters
    ----------
    X : array of shape (n, d)
    values : int array of shape (d,)
        0 of real columns, else the number of codes.

    Examples
    --------
    >>> MixedColumns([[0, 1.0], [1, -1.0], [1, 0.0]], np.array([2, 0])).n_parameters
    3
    """

    title: ClassVar[str] = "independent columns"

    def __init__(self, X: Any, values: NDArray[np.int64]) -> None:
        rows = np.asarray(X, np.float64)
        self.places = {int(n): np.flatnonzero(values == n) for n in np.unique(values)}
        self.kinds: dict[int, IndependentColumns] = {
            n: CategoricalColumns(rows[:, at], n) if n else GaussianColumns(rows[:, at])
            for n, at in self.places.items()
        }
        self.n_parameters = sum(kind.n_parameters for kind in self.kinds.values())

    def log_cells(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log probability, or density, of each cell."""
        cells = np.empty_like(X, dtype=np.float64)
        for n, at in self.places.items():
            cells[:, at] = self.kinds[n].log_cells(X[:, at])
        return cells

    def sample(self, n: int, noise: Noise) -> NDArray[np.float64]:
        """n rows."""
        drawn = np.empty((n, sum(map(len, self.places.values()))))
        for values, at in self.places.items():
            drawn[:, at] = self.kinds[values].sample(n, noise.child(f"values/{values}"))
        return drawn
