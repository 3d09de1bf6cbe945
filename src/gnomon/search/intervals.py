"""The interval in which a hyper-parameter has a meaning, which a search never leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Interval"]


@dataclass(frozen=True)
class Interval:
    """Ends of an interval.

    Parameters
    ----------
    low, high : float
        May be infinite.
    open_low, open_high : bool
        Whether the end itself is left out.

    Examples
    --------
    >>> decay = Interval(0.0, open_low=False)
    >>> decay.nearest(-0.5), decay.nearest(0.5), Interval(0.0).nearest(-0.5)
    (0.0, 0.5, None)
    """

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = True
    open_high: bool = True

    def nearest(self, value: float) -> float | None:
        """The value; beyond an end the end, and None where that is left out."""
        if value < self.low or (value == self.low and self.open_low):
            return None if self.open_low else self.low
        if value > self.high or (value == self.high and self.open_high):
            return None if self.open_high else self.high
        return value
