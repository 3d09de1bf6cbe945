"""Sets of sites whose joint conditionals make a composite likelihood."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import UserValueError
from gnomon.recipes.recipe import Recipe

__all__ = ["Blocks", "Pairs", "Singletons", "SiteSets", "Windows", "window_sets"]

Sets = list[NDArray[np.int64]]
LARGEST = 12
"""Sites of a set at most: 2^12 energies for each of its terms."""


class SiteSets(Recipe):
    """Base: which sets of the d sites are predicted from the others."""

    def sets(self, d: int) -> Sets:
        """The sets, as arrays (number, size) of column numbers from 0, one for each size."""
        raise NotImplementedError


@dataclass(frozen=True)
class Singletons(SiteSets):
    """Every site by itself."""

    short: ClassVar[str] = "singletons"

    def sets(self, d: int) -> Sets:
        """d sets."""
        return [np.arange(d)[:, None]]


@dataclass(frozen=True)
class Pairs(SiteSets):
    """Every pair of sites, d (d - 1) / 2 sets."""

    short: ClassVar[str] = "pairs"

    def sets(self, d: int) -> Sets:
        """All pairs; the only site by itself."""
        return _by_size(list(itertools.combinations(range(d), 2)) or [(0,)])


@dataclass(frozen=True)
class Blocks(SiteSets):
    """Sites cut into blocks of neighbors in the order of the columns, the last one perhaps shorter.

    Parameters
    ----------
    size : int in [1, 12], default 4
        Sites of a block. One block of all sites is the likelihood itself.
    """

    short: ClassVar[str] = "blocks"
    size: Annotated[int, "[1, 12]"] = 4

    def sets(self, d: int) -> Sets:
        """ceil(d / size) sets that share no site."""
        return _by_size([range(start, min(start + self.size, d)) for start in range(0, d, self.size)])


@dataclass(frozen=True)
class Windows(SiteSets):
    """Every window of an image whose rows of pixels follow each other in the columns; windows overlap.

    Parameters
    ----------
    columns : int in [1, inf), default 8
        Pixels in a row of the image.
    height, width : int in [1, 12], default 2
        Pixels of a window, at most 12 together.
    """

    short: ClassVar[str] = "windows"
    columns: Annotated[int, "[1, inf)"] = 8
    height: Annotated[int, "[1, 12]"] = 2
    width: Annotated[int, "[1, 12]"] = 2

    def sets(self, d: int) -> Sets:
        """One set for each place of the window."""
        if d % self.columns:
            what = f"columns must divide the {d} sites of a row, got {self.columns}"
            raise UserValueError(what, "windows", "give the pixels in a row of the image")
        return [window_sets((d // self.columns, self.columns), (self.height, self.width))]


def window_sets(shape: tuple[int, int], size: tuple[int, int]) -> NDArray[np.int64]:
    """The sites of every window of an image.

    Parameters
    ----------
    shape : (rows, columns) of the image
    size : (rows, columns) of a window
        At most 12 sites together.

    Returns
    -------
    int array of shape (windows, sites of a window)

    Raises
    ------
    UserValueError
        A window larger than the image, or of more than 12 sites.

    Examples
    --------
    >>> window_sets((2, 3), (2, 2)).tolist()
    [[0, 1, 3, 4], [1, 2, 4, 5]]
    """
    if min(size) < 1 or size[0] > shape[0] or size[1] > shape[1]:
        raise UserValueError(f"a window of {size[0]} x {size[1]} does not fit into {shape[0]} x {shape[1]}", "windows")
    if size[0] * size[1] > LARGEST:
        what = f"a window must have at most {LARGEST} sites, got {size[0] * size[1]}"
        raise UserValueError(what, "windows", "the cost doubles with every site")
    numbers = np.arange(shape[0] * shape[1]).reshape(shape)
    return np.lib.stride_tricks.sliding_window_view(numbers, size).reshape(-1, size[0] * size[1]).copy()


def _by_size(sets: Sequence[Sequence[int]]) -> Sets:
    sizes = sorted({len(one) for one in sets}, reverse=True)
    return [np.array([list(one) for one in sets if len(one) == size]) for size in sizes]
