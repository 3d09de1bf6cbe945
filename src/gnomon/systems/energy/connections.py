"""Which units of a general Boltzmann machine are coupled: its architecture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import UserValueError
from gnomon.recipes.parameters import check_layer_sizes
from gnomon.recipes.recipe import Recipe

__all__ = ["All", "Connections", "Grid", "Layers"]


class Connections(Recipe):
    """Base: the pairs of units that have a weight. A subclass of your own is any mask."""

    def pattern(self, n_visible: int, n_hidden: int) -> NDArray[np.bool_]:
        """Symmetric truth values of shape (units, units), the columns of the data first; the diagonal is not used."""
        raise NotImplementedError


@dataclass(frozen=True)
class All(Connections):
    """Every unit with every other one."""

    short: ClassVar[str] = "all"

    def pattern(self, n_visible: int, n_hidden: int) -> NDArray[np.bool_]:
        """Everywhere true."""
        return np.ones((n_visible + n_hidden, n_visible + n_hidden), np.bool_)


@dataclass(frozen=True)
class Grid(Connections):
    """Columns that are pixels of an image, each with its neighbors; hidden units with everything.

    Parameters
    ----------
    columns : int in [1, inf) or None, default None
        Pixels in a row of the image. None: a single row, so that columns are coupled to those beside them.
    reach : int in [1, inf), default 1
        How far neighbors are, by rows and by columns: 1 for the eight around a pixel.

    Examples
    --------
    >>> Grid(columns=2).pattern(4, 0).sum(1).tolist(), Grid().pattern(3, 0).astype(int).tolist()
    ([3, 3, 3, 3], [[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    """

    short: ClassVar[str] = "grid"
    columns: Annotated[int, "[1, inf)"] | None = None
    reach: Annotated[int, "[1, inf)"] = 1

    def pattern(self, n_visible: int, n_hidden: int) -> NDArray[np.bool_]:
        """Neighbors, and all pairs with a hidden unit.

        Raises
        ------
        UserValueError
            Rows of pixels that do not fill the image.
        """
        width = self.columns or n_visible
        if n_visible % width:
            what = f"columns must divide the {n_visible} columns of the data, got {width}"
            raise UserValueError(what, "connections", "give the pixels in a row of the image")
        found = np.ones((n_visible + n_hidden, n_visible + n_hidden), np.bool_)
        place = np.stack(np.divmod(np.arange(n_visible), width), 1)
        found[:n_visible, :n_visible] = np.abs(place[:, None] - place[None]).max(-1) <= self.reach
        np.fill_diagonal(found, False)
        return found


@dataclass(frozen=True)
class Layers(Connections):
    """Hidden units in layers, each coupled to the next and the first to the data: a restricted or a deep machine.

    Parameters
    ----------
    sizes : tuple of int or None, default None
        Units of each hidden layer from the data up, together `n_hidden`; None: one layer, the restricted machine.

    Examples
    --------
    >>> Layers((1, 1)).pattern(1, 2).astype(int).tolist()
    [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    """

    short: ClassVar[str] = "layers"
    sizes: tuple[int, ...] | None = None

    def pattern(self, n_visible: int, n_hidden: int) -> NDArray[np.bool_]:
        """Pairs of neighboring layers.

        Raises
        ------
        UserValueError
            Layers that are not as many units as there are.
        """
        if not n_hidden:
            what = "a machine without hidden units has no layers"
            raise UserValueError(what, "connections", "couple all of its units or those of a grid")
        sizes = (n_hidden,) if self.sizes is None else self.sizes
        check_layer_sizes(sizes, "sizes")
        if sum(sizes) != n_hidden:
            what = f"sizes must have the sum {n_hidden} of the hidden units, got {sizes}"
            raise UserValueError(what, "connections", "give as many units in layers as n_hidden")
        layer = np.repeat(np.arange(1 + len(sizes)), (n_visible, *sizes))
        found: NDArray[np.bool_] = np.abs(layer[:, None] - layer[None]) == 1
        return found
