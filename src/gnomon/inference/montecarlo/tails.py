"""The farthest values of a stream, and whether they look like those of a distribution without a variance."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from gnomon.contracts import Group
from gnomon.inference.importance.pareto import excess_shape

__all__ = ["Tails"]

Floats = NDArray[np.float64]

_KEPT = 1000
"""Values kept of each side of a coordinate: all that a tail of 3 sqrt(n) takes up to 100,000 draws."""

_NUMBERS = 1 << 22
"""Numbers that each side may take in all."""

_FEWEST = 64
"""Kept of each coordinate at least; of more coordinates than have room for that, nothing is kept."""

_LOOKED_AT = 64
"""Coordinates that a tail is fitted to."""

_ALARM = 0.025
"""Chance that sets how much more than 0.5 is asked of the heaviest of several coordinates."""


class Tails:
    """The largest values and the largest negated values of each coordinate."""

    def __init__(self) -> None:
        self._sides: list[Floats] = []

    def take(self, y: Floats) -> None:
        """The rows of a batch, shape (n, coordinates)."""
        self._add([y, -y])

    def join(self, other: Tails) -> None:
        """The values of another stream."""
        if other._sides:
            self._add(other._sides)

    def over(self, group: Group) -> Tails:
        """The farthest values of all processes."""
        total = Tails()
        if self._sides:
            total._add([group.gather(side) for side in self._sides])
        return total

    def heaviest(self, n: int, mean: Floats, scatter: Floats) -> tuple[float, float, int]:
        """Shape of the heaviest tail of n draws, the limit above which it is remarkable, and its coordinate.

        The tail is the ``min(n / 5, 3 sqrt(n))`` farthest values. The limit is 0.5 for one coordinate; for c of them it
        rises by the standard error of a shape of 0.5 times the difference of the normal quantiles of 1/c of a chance
        and of that chance.
        """
        if not self._sides or n < 2:
            return math.nan, 0.5, 0
        tail = min(math.ceil(min(n / 5, 3 * math.sqrt(n))), len(self._sides[0]) - 1)
        best, where = -math.inf, 0
        for column in self._suspects(mean, scatter):
            for side in self._sides:
                top = np.sort(side[:, column])[::-1][: tail + 1]
                shape = excess_shape(top[-2::-1] - top[-1]) if tail > 0 else math.nan
                if shape > best:
                    best, where = shape, int(column)
        if best == -math.inf:
            return math.nan, 0.5, 0
        spread = float(ndtri(_ALARM) - ndtri(_ALARM / mean.size))
        return best, 0.5 + 1.5 / math.sqrt(tail) * spread, where

    def _suspects(self, mean: Floats, scatter: Floats) -> NDArray[np.int64]:
        """The coordinates whose farthest value makes up most of their scatter."""
        if mean.size <= _LOOKED_AT:
            return np.arange(mean.size)
        upper, lower = self._sides
        far = np.maximum(upper.max(axis=0) - mean, lower.max(axis=0) + mean)
        share = np.square(far) / np.where(scatter > 0, scatter, np.inf)
        return np.argpartition(-share, _LOOKED_AT)[:_LOOKED_AT]

    def _add(self, sides: list[Floats]) -> None:
        columns = max(sides[0].shape[1], 1)
        kept = min(_KEPT, _NUMBERS // columns)
        if kept < _FEWEST:
            return
        self._sides = [
            _largest(np.concatenate([old, new]) if old is not None else new, kept)
            for old, new in zip(self._sides or (None, None), sides, strict=True)
        ]


def _largest(values: Floats, kept: int) -> Floats:
    if len(values) <= kept:
        return np.array(values)
    return np.array(np.partition(values, len(values) - kept, axis=0)[-kept:])
