"""Which units of a general Boltzmann machine are coupled: its architecture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import UserValueError
from gnomon.recipes.parameters import check_layer_sizes
from gnomon.recipes.recipe import Recipe

__all__ = ["All", "Connections", "Grid", "Layers", "Terms", "checked_pattern"]


class Connections(Recipe):
    """Base: the pairs of units that have a weight. A subclass of your own is any mask."""

    def pattern(self, n_visible: int, n_hidden: int) -> NDArray[np.bool_]:
        """Symmetric truth values of shape (units, units), the columns of the data first; the diagonal is not used."""
        raise NotImplementedError

    def terms(self, n: int, order: int, limit: int) -> list[tuple[int, ...]]:
        """Sets of 2 to `order` of n columns, each two of which are connected: products of a higher-order machine.

        Raises
        ------
        UserValueError
            More than `limit` sets, or none.
        """
        near = checked_pattern(self.pattern(n, 0), n)
        after = [np.flatnonzero(near[i, i + 1 :]) + i + 1 for i in range(n)]
        found: list[tuple[int, ...]] = []
        sets: list[tuple[tuple[int, ...], Any]] = [((i,), after[i]) for i in range(n)]
        for _ in range(order - 1):
            if len(found) + sum(len(others) for _, others in sets) > limit:
                what = f"products of up to {order} of {n} columns are more than {limit:,}"
                raise UserValueError(what, "connections", "use connections grid, fewer columns, or a smaller order")
            sets = [
                ((*units, int(i)), others[near[i, others] & (others > i)]) for units, others in sets for i in others
            ]
            found += [units for units, _ in sets]
        if not found and n > 1:
            raise UserValueError("connections must join columns, got none that are joined", "connections")
        return found


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
class Terms(Connections):
    """Sets of columns that are listed: products of a higher-order machine, in another machine all pairs within a set.

    Parameters
    ----------
    sets : str, default ""
        Sets with spaces between them, columns with ``-``: ``"0-1-2 1-4"``. Columns count from 0.

    Examples
    --------
    >>> Terms.of([(0, 1, 2), (1, 3)])
    Terms(sets='0-1-2 1-3')
    >>> Terms("0-1-2").pattern(4, 0).sum(1).tolist()
    [2, 2, 2, 0]
    """

    short: ClassVar[str] = "terms"
    sets: str = ""

    @classmethod
    def of(cls, terms: Iterable[Iterable[int]]) -> Terms:
        """The recipe of these sets."""
        return cls(" ".join("-".join(str(unit) for unit in term) for term in terms))

    def _listed(self, n: int) -> list[tuple[int, ...]]:
        """The sets as numbers.

        Raises
        ------
        UserValueError
            None, a set of a single column, something else than numbers of columns.
        """
        try:
            found = [tuple(int(unit) for unit in term.split("-")) for term in self.sets.split()]
        except ValueError:
            raise UserValueError(
                f"sets must be columns joined by -, got {self.sets!r}", "sets", "write 0-1-2 1-4"
            ) from None
        if not found:
            raise UserValueError("sets must list at least one set of columns, got none", "sets", "write 0-1-2 1-4")
        for units in found:
            if len(set(units)) < max(len(units), 2) or max(units) >= n:
                what = f"a set must have at least two of the columns 0 to {n - 1}, each once, got {units}"
                raise UserValueError(what, "sets", "write 0-1-2 1-4")
        return found

    def pattern(self, n_visible: int, n_hidden: int) -> NDArray[np.bool_]:
        """Pairs within a set, and all pairs with a hidden unit."""
        found = np.zeros((n_visible + n_hidden, n_visible + n_hidden), np.bool_)
        found[n_visible:], found[:, n_visible:] = True, True
        for units in self._listed(n_visible):
            found[np.ix_(units, units)] = True
        np.fill_diagonal(found, False)
        return found

    def terms(self, n: int, order: int, limit: int) -> list[tuple[int, ...]]:
        """The sets themselves, of any order."""
        return self._listed(n)


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


def checked_pattern(pattern: Any, n: int) -> NDArray[np.bool_]:
    """A pattern of connections, which may come from a recipe of somebody's own, as truth values.

    Raises
    ------
    UserValueError
        Not n x n, not symmetric, other values.
    """
    found = np.asarray(pattern)
    if found.shape != (n, n) or found.dtype.kind not in "biuf" or not np.isin(found, (0, 1)).all():
        what = f"the pattern of connections must be {n} x {n} truth values, got {found.dtype} of shape {found.shape}"
        raise UserValueError(what, "connections")
    if (found != found.T).any():
        i, j = np.argwhere(found != found.T)[0].tolist()
        raise UserValueError(f"the pattern of connections must be symmetric, got {i}, {j} one way only", "connections")
    return found.astype(np.bool_)
