"""Positive and negative weight at every distinct score, highest first: the sums from which curves are drawn."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Group
from gnomon.errors import UserValueError
from gnomon.evaluation._inputs import Floats, numbers, weights

__all__ = ["Ranking"]


class Ranking:
    """Sums over the rows by score, fed piece by piece; rows of equal score are one level, so ties have no order.

    Parameters
    ----------
    score : array of shape (n,), optional
        Finite numbers; the higher, the more positive.
    positive : bool array of shape (n,), optional
        Whether the row is positive (was decided rightly).
    sample_weight : array of shape (n,), optional
        Weights of the rows, >= 0; rows of weight 0 are left out.

    Attributes
    ----------
    levels : array of shape (m,)
        Distinct scores, falling.
    sums : float64 array of shape (m, 4)
        Weight of the positive and of the negative rows at each level, and their squared weights.
    n : int
        Rows of positive weight.

    Notes
    -----
    Cost O(n log n); memory O(m). Merging is exact: the levels of both, equal ones joined.

    Examples
    --------
    >>> ranking = Ranking([0.9, 0.1, 0.9], [True, False, False])
    >>> ranking.levels.tolist(), ranking.sums[:, :2].tolist()
    ([0.9, 0.1], [[1.0, 1.0], [0.0, 1.0]])
    """

    def __init__(self, score: Any = (), positive: Any = (), sample_weight: Any = None) -> None:
        self.levels, self.sums, self.n = np.zeros(0), np.zeros((0, 4)), 0
        if np.size(score) or np.size(positive):
            self.update(score, positive, sample_weight)

    def update(self, score: Any, positive: Any, sample_weight: Any = None) -> Self:
        """Add rows.

        Raises
        ------
        UserValueError
            Columns of two lengths, a score that is not finite, with its row.
        """
        values = numbers(score, "score")
        flags = np.asarray(positive)
        if flags.dtype != bool or flags.shape != values.shape:
            raise UserValueError(
                f"positive must be {len(values)} truth values, one per score, got {flags.dtype} of shape {flags.shape}",
                "positive",
            )
        weight = weights(sample_weight, len(values))
        if weight is None:
            self._join(*_counted(values, flags))
        else:
            kept = weight > 0
            self._join(*_weighted(values[kept], flags[kept], weight[kept]))
        self.n += len(values) if weight is None else int(np.count_nonzero(weight))
        return self

    def merge(self, other: Ranking) -> Self:
        """Add the rows of another ranking."""
        self._join(other.levels, other.sums)
        self.n += other.n
        return self

    def across(self, group: Group) -> Ranking:
        """The ranking of the rows of all processes; every process calls this."""
        whole = Ranking()
        whole._join(*_grouped(group.gather(self.levels.astype(np.float64)), group.gather(self.sums)))
        whole.n = group.sum(self.n)
        return whole

    def _join(self, levels: NDArray[Any], sums: Floats) -> None:
        if not len(self.levels):
            self.levels, self.sums = levels, sums
        else:
            self.levels, self.sums = _grouped(np.concatenate([self.levels, levels]), np.concatenate([self.sums, sums]))

    def cumulative(self) -> tuple[Floats, Floats]:
        """Weight of the positive and of the negative rows with at least each level's score."""
        return np.cumsum(self.sums[:, 0]), np.cumsum(self.sums[:, 1])


def _ends(ordered: NDArray[Any]) -> NDArray[np.int64]:
    """Place of the last of each run of equal values."""
    return np.append(np.flatnonzero(ordered[1:] != ordered[:-1]), len(ordered) - 1)


def _counted(values: NDArray[Any], flags: NDArray[np.bool_]) -> tuple[NDArray[Any], Floats]:
    """Levels and counts of rows of weight 1, by one sort."""
    ordered, hits = _sorted(values, flags)
    ends = _ends(ordered)
    positive = np.diff(np.cumsum(hits, dtype=np.int64)[ends], prepend=0).astype(np.float64)
    negative = np.diff(ends, prepend=-1) - positive
    return ordered[ends], np.stack([positive, negative, positive, negative], axis=1)


def _sorted(values: NDArray[Any], flags: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Values falling, and their flags. A float32 and its flag fit into one word, which is sorted at half the cost."""
    if values.dtype != np.float32:
        order = np.argsort(-values)
        return values[order], flags[order]
    bits = (values + np.float32(0)).view(np.int32).astype(np.int64)  # + 0 makes -0 and 0 one level
    keys = np.where(bits < 0, bits ^ 0x7FFFFFFF, bits) * 2 + flags
    keys.sort()
    keys = keys[::-1]
    bits = keys >> 1
    return np.where(bits < 0, bits ^ 0x7FFFFFFF, bits).astype(np.int32).view(np.float32), (keys & 1).astype(np.int8)


def _weighted(values: NDArray[Any], flags: NDArray[np.bool_], weight: Floats) -> tuple[NDArray[Any], Floats]:
    sums = np.zeros((len(values), 4))
    sums[flags, 0], sums[~flags, 1] = weight[flags], weight[~flags]
    sums[:, 2:] = sums[:, :2] ** 2
    return _grouped(values, sums)


def _grouped(levels: NDArray[Any], sums: Floats) -> tuple[NDArray[Any], Floats]:
    if not len(levels):
        return levels, sums
    order = np.argsort(-levels, kind="stable")
    ordered = levels[order]
    starts = np.append(0, _ends(ordered)[:-1] + 1)
    return ordered[starts], np.add.reduceat(sums[order], starts, axis=0)
