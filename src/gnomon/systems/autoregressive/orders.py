"""The order in which a chain rule takes the columns: the slot ``order``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Noise
from gnomon.errors import UserValueError
from gnomon.recipes.recipe import Recipe

__all__ = ["AnyOrder", "AsGiven", "Chosen", "Order", "Orders", "Shuffled"]


@dataclass(frozen=True)
class Orders(Recipe):
    """Base of what a model is learned for: one order, or all of them."""

    def build(self, columns: int, noise: Noise) -> NDArray[np.int64]:
        """The column at each place, a permutation of the numbers of the columns."""
        raise NotImplementedError


@dataclass(frozen=True)
class AnyOrder(Orders):
    """All orders: another one for each row and update, so that any columns are predicted from any others.

    Rows are scored and drawn in orders that are drawn once by the seed of the fit.
    """

    short: ClassVar[str] = "any"

    def build(self, columns: int, noise: Noise) -> NDArray[np.int64]:
        """The first of these."""
        return np.asarray(noise.order(columns), np.int64)


@dataclass(frozen=True)
class Order(Orders):
    """Base of the orders."""


@dataclass(frozen=True)
class AsGiven(Order):
    """From the first column to the last."""

    short: ClassVar[str] = "given"

    def build(self, columns: int, noise: Noise) -> NDArray[np.int64]:
        """0, 1, 2 ..."""
        return np.arange(columns)


@dataclass(frozen=True)
class Shuffled(Order):
    """A random permutation, drawn once by the seed of the fit and kept with the model."""

    short: ClassVar[str] = "random"

    def build(self, columns: int, noise: Noise) -> NDArray[np.int64]:
        """The permutation."""
        return np.asarray(noise.order(columns), np.int64)


@dataclass(frozen=True)
class Chosen(Order):
    """The columns that are named one after the other, then the others as they are given.

    Parameters
    ----------
    columns : tuple of int in [0, d)
        Each at most once; the first depends on no other.

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> Chosen((2, 0)).build(4, Noise(0, "order")).tolist()
    [2, 0, 1, 3]
    """

    short: ClassVar[str] = "columns"
    columns: tuple[int, ...] = (0,)

    def build(self, columns: int, noise: Noise) -> NDArray[Any]:
        """The columns.

        Raises
        ------
        UserValueError
            One that there is not, or that is named twice.
        """
        if len(set(self.columns)) < len(self.columns) or not set(self.columns) <= set(range(columns)):
            what = f"order must name columns 0 to {columns - 1}, each once, got {self.columns}"
            raise UserValueError(what, "order", f"give different numbers of range({columns})")
        rest = sorted(set(range(columns)) - set(self.columns))
        return np.array([*self.columns, *rest], np.int64)
