"""Grey levels in [0, 1] as chances of a 1: domains whose tables become 0 and 1, each by a scheme of its own.

Likelihoods under different schemes are of different data and never compared: the space of the scores says which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon import contracts
from gnomon.distributions.arrays import Floats
from gnomon.distributions.domains import UnitInterval
from gnomon.distributions.independent import BernoulliColumns, IndependentColumns
from gnomon.numeric.noise import Noise

__all__ = ["DrawnAfresh", "DrawnOnce", "Thresholded", "drawn", "once"]

HALF = 0.5


def drawn(X: Floats, noise: contracts.Noise, draw: int = 0) -> Floats:
    """Independent bits that are 1 with the probabilities X, in its dtype.

    Examples
    --------
    >>> drawn(np.array([[0.0, 1.0]]), Noise(0, "doc").rows(np.arange(1))).tolist()
    [[0.0, 1.0]]
    """
    u = noise.uniform(X.shape, draw, like=np.zeros(0))
    return np.asarray(u < X, X.dtype)


def once(X: Floats, rows: NDArray[Any] | None = None, seed: int = 0) -> Floats:
    """Bits that are a function of the seed and each row's number: the same every time they are asked for.

    Parameters
    ----------
    X : array of shape (n, d), in [0, 1]
    rows : int array of shape (n,), optional
        Numbers of the rows in the whole set; 0, 1 ... by default.
    seed : int, default 0
    """
    numbers = np.arange(len(X)) if rows is None else np.asarray(rows)
    return drawn(X, Noise(seed, "binarize").rows(numbers))


@dataclass(frozen=True)
class Thresholded(UnitInterval):
    """Numbers in [0, 1] that become 1 from 0.5 on, else 0.

    Examples
    --------
    >>> Thresholded().check([[0.25, 0.5]]).tolist()
    [[0.0, 1.0]]
    """

    view: ClassVar[str] = "threshold"

    def space(self, n_columns: int) -> str:
        """That of zeros and ones: the rows are the same for every model."""
        return f"pmf on {{0,1}}^{n_columns}"

    def baseline(self, X: Any) -> IndependentColumns:
        """Columns that are 1 with a probability of their own."""
        return BernoulliColumns(X)

    def _check_cells(self, X: Any, array: Floats, name: str) -> Floats:
        found = super()._check_cells(X, array, name)
        return np.asarray(found >= HALF, found.dtype)


@dataclass(frozen=True)
class DrawnOnce(UnitInterval):
    """Numbers in [0, 1] of which bits are drawn once and for all, by the rows' numbers.

    Examples
    --------
    >>> grey = np.full((3, 4), 0.5)
    >>> bool((DrawnOnce().check(grey) == DrawnOnce().check(grey)).all())
    True
    """

    view: ClassVar[str] = "drawn"

    def space(self, n_columns: int) -> str:
        """That of zeros and ones, and where they come from."""
        return f"pmf on {{0,1}}^{n_columns}, drawn once"

    def baseline(self, X: Any) -> IndependentColumns:
        """Columns that are 1 with a probability of their own."""
        return BernoulliColumns(X)

    def _check_cells(self, X: Any, array: Floats, name: str) -> Floats:
        return once(super()._check_cells(X, array, name))


@dataclass(frozen=True)
class DrawnAfresh(UnitInterval):
    """Numbers in [0, 1] that stay; who learns from them, or is judged on them, draws bits each time.

    Examples
    --------
    >>> DrawnAfresh().space(2)
    'pmf on {0,1}^2, drawn afresh'
    """

    view: ClassVar[str] = "grey"

    def space(self, n_columns: int) -> str:
        """That of zeros and ones, and where they come from."""
        return f"pmf on {{0,1}}^{n_columns}, drawn afresh"

    def baseline(self, X: Any) -> IndependentColumns:
        """Columns that are 1 with a probability of their own, whose mean log probability over the draws is exact."""
        return BernoulliColumns(X)
