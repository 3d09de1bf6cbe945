"""Domains of whole numbers: counts, and codes of categories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gnomon.distributions.arrays import Floats, first_cell, place
from gnomon.distributions.domains import Domain
from gnomon.distributions.independent import CategoricalColumns, IndependentColumns, PoissonColumns, Unigrams
from gnomon.errors import UserValueError

__all__ = ["Categories", "Counts", "WordCounts"]

LARGEST = {4: 2**24, 8: 2**53}
"""Up to this whole number a float of so many bytes holds all of them."""


@dataclass(frozen=True)
class Counts(Domain):
    """How often something was seen: 0, 1, 2 ...

    Examples
    --------
    >>> Counts().check([[0, 3]])
    array([[0., 3.]])
    >>> Counts().space(2)
    'pmf on {0,1,2,...}^2'
    """

    view: ClassVar[str] = "table"

    def describe(self) -> str:
        """What a table of this domain holds."""
        return "counts 0, 1, 2 ..."

    def space(self, n_columns: int) -> str:
        """Name of the data space, for scores."""
        return f"pmf on {{0,1,2,...}}^{n_columns}"

    def baseline(self, X: Any) -> IndependentColumns:
        """Poisson columns."""
        return PoissonColumns(X)

    def _squeezed(self, X: Floats) -> Floats:
        return np.floor(np.exp(np.clip(X, -2, 3)))

    def _check_cells(self, X: Any, array: Floats, name: str) -> Floats:
        return whole_cells(X, array, name, LARGEST[array.itemsize], "a count 0, 1, 2 ...")


class WordCounts(Counts):
    """Documents: how often each word of a vocabulary stands in a text, given how many words it has.

    Examples
    --------
    >>> WordCounts().space(2)
    'pmf of the counts of 2 words given their sum'
    """

    def describe(self) -> str:
        """What a table of this domain holds."""
        return "counts of words, a row a document"

    def space(self, n_columns: int) -> str:
        """Name of the data space, for scores."""
        return f"pmf of the counts of {n_columns} words given their sum"

    def baseline(self, X: Any) -> IndependentColumns:
        """Words drawn one by one, each alike in every document."""
        return Unigrams(X)


@dataclass(frozen=True)
class Categories(Domain):
    """Codes of categories, 0 to n - 1 in every column.

    Parameters
    ----------
    n : int in [2, inf)

    Examples
    --------
    >>> Categories(3).check([[0, 2]])
    array([[0., 2.]])
    >>> Categories(3).space(2)
    'pmf on {0..2}^2'
    """

    n: int
    view: ClassVar[str] = "table"

    def describe(self) -> str:
        """What a table of this domain holds."""
        return f"codes of categories, 0 to {self.n - 1}"

    def space(self, n_columns: int) -> str:
        """Name of the data space, for scores."""
        return f"pmf on {{0..{self.n - 1}}}^{n_columns}"

    def baseline(self, X: Any) -> IndependentColumns:
        """Columns with shares of their own."""
        return CategoricalColumns(X, self.n)

    def _squeezed(self, X: Floats) -> Floats:
        return np.clip(np.floor(X + self.n / 2), 0, self.n - 1)

    def _check_cells(self, X: Any, array: Floats, name: str) -> Floats:
        return whole_cells(X, array, name, self.n - 1, f"a code 0 to {self.n - 1}")


def whole_cells(X: Any, array: Floats, name: str, largest: int, what: str) -> Floats:
    """The table, if all its cells are whole numbers from 0 to the largest one.

    Raises
    ------
    UserValueError
        The first cell that is not.
    """
    cell = first_cell(array, lambda block: (block < 0) | (block > largest) | (block != np.floor(block)))
    if cell is None:
        return array
    remedy = "number what is seen from 0, or choose a system for real data"
    raise UserValueError(f"{name} must hold {what}, got {array[cell]}", place(X, *cell), remedy)
