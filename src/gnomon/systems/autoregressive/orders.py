"""The order in which a chain rule takes the columns: the slot ``order``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Noise
from gnomon.errors import UserValueError
from gnomon.recipes.recipe import Recipe

__all__ = ["AsGiven", "Chosen", "Order", "Shuffled"]


@dataclass(frozen=True)
class Order(Recipe):
    """Base of the orders."""

    def build(self, columns: int, noise: Noise) -> NDArray[np.int64]:
        """The column at each place, a permutation of the numbers of the columns."""
        raise NotImplementedError


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
    """The columns one after the other, as they are named.

    Parameters
    ----------
    columns : tuple of int
        Each number 0 to d - 1 once; the first depends on no other.

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> Chosen((2, 0, 1)).build(3, Noise(0, "order")).tolist()
    [2, 0, 1]
    """

    short: ClassVar[str] = "columns"
    columns: tuple[int, ...] = ()

    def build(self, columns: int, noise: Noise) -> NDArray[Any]:
        """The columns.

        Raises
        ------
        UserValueError
            One that is missing, or named twice.
        """
        if sorted(self.columns) != list(range(columns)):
            what = f"order must name each column 0 to {columns - 1} once, got {self.columns}"
            raise UserValueError(what, "order", f"give a permutation of range({columns})")
        return np.array(self.columns, np.int64)
