"""One hyper-parameter of a repeated grid: its three values, which are shifted or refined."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gnomon.search.conditions import Conditional, Space, combinations
from gnomon.search.dimensions import Dimension, OneOf, WholeRange
from gnomon.search.intervals import Interval

__all__ = ["Axis", "product"]

VALUES = 3
FINER = 10
"""A refined grid has a tenth of the step."""
LEAST = 1e-4
"""Smallest step, by the first one."""


@dataclass
class Axis:
    """Values of one hyper-parameter in the next grid, and what the next ones are.

    A value at an end of the grid, beyond which nothing was tried, is the first of the next grid at the same step:
    {-1, 0, 1} with the best 1 becomes {1, 2, 3}. One whose neighbors were tried lies inside: with the best 0 it becomes
    {-0.1, 0, 0.1}. Steps are of the logarithm where the range is; those of whole numbers are at least 1.

    Parameters
    ----------
    values : list
        Three, fewer at an end of the interval; all of a choice, which has no order and never moves.
    step : float
        Of the number or its logarithm.
    least : float
        The step that is not refined.
    log, whole : bool
    interval : Interval
        Which is never left: a neighbor beyond its end is the end.

    Notes
    -----
    Source: Goodfellow, Bengio and Courville (2016), section 11.4.3.

    Examples
    --------
    >>> from gnomon.search.dimensions import RealRange
    >>> axis = Axis.of(RealRange(-1, 1))
    >>> _ = axis.move(1.0, known=lambda value: value in (-1, 0, 1))
    >>> axis.values
    [1.0, 2.0, 3.0]
    """

    values: list[Any]
    step: float
    least: float
    log: bool
    whole: bool
    interval: Interval

    @classmethod
    def of(cls, dimension: Dimension | Conditional, interval: Interval | None = None) -> Axis:
        """The first values of a range."""
        inside = dimension.range if isinstance(dimension, Conditional) else dimension
        values, bounds = inside.grid(VALUES), interval or Interval()
        if isinstance(inside, OneOf) or len(values) == 1:
            return cls(values, 0.0, 0.0, False, False, bounds)
        low, high = (math.log(x) if inside.log else x for x in (inside.low, inside.high))
        step = (high - low) / (VALUES - 1)
        return cls(values, step, LEAST * step, inside.log, isinstance(inside, WholeRange), bounds)

    def neighbor(self, value: Any, side: int) -> Any:
        """The value a step above (1) or below (-1); None where there is none."""
        at: float = value * math.exp(side * self.step) if self.log else value + side * self.step
        if self.whole:
            at = max(round(at), value + 1) if side > 0 else min(round(at), value - 1)
        elif not self.log:
            at = round(at, 4 - math.floor(math.log10(self.step)))  # 0.3 - 0.1 - 0.1 - 0.1 is 0
        found = self.interval.nearest(at)
        if found is None:
            return None
        short: float = round(found) if self.whole else float(f"{found:.4g}")
        return None if short == value else short

    def move(self, value: Any, known: Callable[[Any], bool]) -> bool:
        """Put the next values around or beside the best one.

        Parameters
        ----------
        value : number
            The best.
        known : callable
            Whether a value was tried beside the other values of the best point.

        Returns
        -------
        bool
            Whether there may be anything new among them.
        """
        if self.step == 0:
            return False
        below, above = self.neighbor(value, -1), self.neighbor(value, 1)
        new_below, new_above = (one is not None and not known(one) for one in (below, above))
        if not new_below and not new_above:
            return self._refine(value, known)
        if not new_below:
            row = [value, above, self.neighbor(above, 1)]
        elif not new_above:
            row = [self.neighbor(below, -1), below, value]
        else:
            row = [below, value, above]
        self.values = [one for one in row if one is not None]
        return True

    def _refine(self, value: Any, known: Callable[[Any], bool]) -> bool:
        """Smaller steps around the best one, down to the smallest."""
        while self.step / FINER >= self.least:
            self.step /= FINER
            around = [self.neighbor(value, -1), value, self.neighbor(value, 1)]
            self.values = [one for one in around if one is not None]
            if any(one != value and not known(one) for one in self.values):
                return True
        return False


def product(space: Space, axes: Mapping[str, Axis]) -> list[dict[str, Any]]:
    """Every combination of the values of the axes."""
    return combinations(space, [axes[name].values for name in space])
