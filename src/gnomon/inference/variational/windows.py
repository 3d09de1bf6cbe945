"""What ascents by noisy bounds share: batches of an epoch, and whether a bound still rises beyond its noise."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Noise

__all__ = ["BoundWindows", "batch_rows"]


def batch_rows(n: int, size: int, t: int, noise: Noise) -> NDArray[np.int64]:
    """The rows of iteration t, counted from 0: every epoch its own order, in whole batches.

    What does not fill a batch is left out of the epoch; every row is as likely to be.

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> both = [batch_rows(5, 2, t, Noise(0, "order")) for t in (0, 1)]
    >>> len(set(np.concatenate(both).tolist()))
    4
    """
    each = max(n // size, 1)
    order = noise.at(t // each).order(n)
    return order[(t % each) * size : (t % each + 1) * size]


class BoundWindows:
    """Means of a noisy bound over windows of iterations, and how often one was not above the window before.

    Parameters
    ----------
    size : int >= 2
        Iterations of a window.

    Attributes
    ----------
    flat : int
        BoundWindows whose mean was not above that before by more than the standard error of the difference.
    """

    def __init__(self, size: int) -> None:
        self.size, self.flat = size, 0
        self.bounds: list[float] = []
        self.last: tuple[float, float] | None = None

    def add(self, bound: float) -> bool:
        """Take the bound of an iteration in; whether a window has ended with it."""
        self.bounds.append(bound)
        if len(self.bounds) < self.size:
            return False
        mean, square = float(np.mean(self.bounds)), float(np.var(self.bounds, ddof=1)) / self.size
        if self.last is not None and mean - self.last[0] <= math.sqrt(square + self.last[1]):
            self.flat += 1
        self.last, self.bounds = (mean, square), []
        return True

    def state(self) -> dict[str, Array]:
        """Arrays from which `load` goes on."""
        last = () if self.last is None else self.last
        found = {"bounds": np.array(self.bounds), "last": np.array(last), "flat": np.array(self.flat)}
        return {f"windows/{name}": x for name, x in found.items()}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Go on from there."""
        self.bounds, self.flat = np.array(arrays["windows/bounds"]).tolist(), int(arrays["windows/flat"])
        last = np.array(arrays["windows/last"]).tolist()
        self.last = (last[0], last[1]) if last else None
