"""Whether a generator copies rows that it was fitted to: each made row beside the training row that is nearest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.evaluation.score import Score
from gnomon.evaluation.two_sample import nearest, pair

__all__ = ["Memorization", "memorization", "nearest_training"]

Floats = NDArray[np.float64]
Features = Callable[[Any], ArrayLike]

SAME = 1e-9
"""Two rows this near are one, in units of the median distance of held-out rows."""


@dataclass(frozen=True)
class Memorization:
    """How near made rows are to the training rows, and how near held-out rows are.

    Attributes
    ----------
    index : int64 array of shape (n,)
        The training row that is nearest to each made one.
    made, held_out : arrays of shape (n,), (l,)
        Distances of made and of held-out rows to the training row nearest to each.
    """

    index: NDArray[np.int64]
    made: Floats
    held_out: Floats

    @property
    def score(self) -> Score:
        """``memorized``: fraction of made rows nearer to a training row than held-out rows are by the median.

        1/2 for rows that are as far away as new data are, near 1 for copies.
        """
        usual = float(np.median(self.held_out))
        nearer = np.where(self.made == usual, 0.5, self.made < usual)
        return Score.from_pointwise(nearer, name="memorized", unit="fraction", higher_is_better=False)

    @property
    def copies(self) -> NDArray[np.int64]:
        """Places of the made rows that are a training row, up to rounding."""
        usual = float(np.median(self.held_out))
        return np.flatnonzero(self.made <= SAME * usual)

    @cached_property
    def p_value(self) -> float:
        """Chance of distances so much shorter than those of held-out rows, were both new data (Kolmogorov, Smirnov)."""
        from scipy.stats import ks_2samp

        return float(ks_2samp(self.made, self.held_out, alternative="greater").pvalue)

    def flagged(self, level: float = 0.01) -> bool:
        """Whether made rows are nearer to the training rows than new data are: below `level` by chance alone."""
        return self.p_value < level


def nearest_training(
    made: ArrayLike, train: ArrayLike, *, features: Features | None = None
) -> tuple[NDArray[np.int64], Floats]:
    """Of each made row the training row that is nearest, and its Euclidean distance.

    Parameters
    ----------
    made, train : arrays of shape (n, ...), (m, ...)
        In units in which distances mean something.
    features : callable, optional
        Rows (n, ...) -> (n, k): where distances are taken. A shift of an image by a pixel moves it far in pixels, and
        hardly in the codes of an encoder.

    Returns
    -------
    index : int64 array of shape (n,)
        Of equally near ones the first.
    distance : array of shape (n,)

    Notes
    -----
    Cost O(n m k), a block of four million distances at a time.

    Examples
    --------
    >>> index, distance = nearest_training([[0.0, 1.0]], [[5.0, 5.0], [0.0, 3.0]])
    >>> index.tolist(), distance.tolist()
    ([1], [2.0])
    """
    rows, known = pair(_of(made, features), _of(train, features), least=1)
    middle = known.mean(0)  # far from 0 a difference of squares says nothing
    index = nearest(rows - middle, known - middle, 1)[1]
    return index, np.sqrt(np.square(rows - known[index]).sum(1))


def memorization(
    made: ArrayLike, train: ArrayLike, held_out: ArrayLike, *, features: Features | None = None
) -> Memorization:
    """Compare distances of made rows to the training rows with those of held-out rows.

    Parameters
    ----------
    made, train, held_out : arrays of shape (n, ...), (m, ...), (l, ...)
        What a model drew, what it was fitted to, and rows of the same source that it has not seen.
    features : callable, optional
        As of `nearest_training`.

    Returns
    -------
    Memorization

    References
    ----------
    Goodfellow, Bengio and Courville (2016), section 20.14.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> train, fresh = random.normal(size=(200, 3)), random.normal(size=(100, 3))
    >>> made = random.normal(size=(50, 3))
    >>> memorization(train[:50], train, fresh).flagged(), memorization(made, train, fresh).flagged()
    (True, False)
    """
    index, distance = nearest_training(made, train, features=features)
    return Memorization(index, distance, nearest_training(held_out, train, features=features)[1])


def _of(rows: ArrayLike, features: Features | None) -> ArrayLike:
    return rows if features is None else features(rows)
