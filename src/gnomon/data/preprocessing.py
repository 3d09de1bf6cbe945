"""Steps that are fitted to the training rows and applied to all.

A step learns its statistics with ``fit``, or chunk by chunk with ``partial_fit``, from the
training rows alone, is merged with those of other chunks or processes without loss, and is saved as arrays by name.
Numbers are computed in float64 and answered in the dtype of what came in: at 1e6, float32 has two digits after the
point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Group, State
from gnomon.data.steps import Columnwise, blocks, refuse_empty, same_columns
from gnomon.distributions.arrays import Floats, row_weights
from gnomon.errors import UserValueError

__all__ = ["Rescaler", "Standardizer", "channel_units", "standardization", "varies"]

_EPSILON = float(np.finfo(np.float64).eps)


IMAGES = 4096
"""Images whose pixels are counted together."""


class Standardizer(Columnwise):
    """z = (x - mean) / standard deviation of each column, that of the population (divisor: the sum of the weights).

    A constant column becomes 0 exactly: moments are taken about the column's first value, whose
    rounding scikit-learn's StandardScaler would leave (1e-6 for a thousand rows of 1e8 + 0.1).

    Examples
    --------
    >>> step = Standardizer().fit([[0.0, 5.0], [2.0, 5.0]])
    >>> step.transform([[0.0, 5.0], [2.0, 5.0]])
    array([[-1.,  0.],
           [ 1.,  0.]])
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.n_inputs = None
        self._moments: dict[str, Any] = {}

    def partial_fit(self, X: Any, weight: Any = None) -> Self:
        """Learn from more rows."""
        rows = self._rows(X, learning=True)
        weights = None if weight is None else row_weights(weight, len(rows), np.float64)
        for chosen in blocks(rows):
            self._take(_moments(rows[chosen].astype(np.float64), None if weights is None else weights[chosen]))
        return self

    def merge(self, other: Self) -> Self:
        """Take in the moments of other rows (Chan, Golub and LeVeque 1979)."""
        if other.n_inputs is None:
            return self
        same_columns(self, other)
        self.n_inputs = other.n_inputs
        return self._take(other.state())

    def over(self, group: Group) -> Self:
        """Merge the processes' statistics in order of rank."""
        gathered = group.gather(np.stack([self.state()[name] for name in ("count", "mean", "variance")])[None])
        self._moments = {}
        for count, mean, variance in gathered:
            self._take({"count": count, "mean": mean, "variance": variance})
        return self

    def state(self) -> dict[str, Any]:
        """``count`` (sum of weights), ``mean`` and ``variance`` of each column, float64; zeros before any value."""
        d = self._columns()
        return {name: self._moments.get(name, np.zeros(d)).copy() for name in ("count", "mean", "variance")}

    def load(self, state: State) -> None:
        """Take moments over."""
        self.n_inputs = len(state["mean"])
        self._moments = {name: np.array(state[name], np.float64) for name in ("count", "mean", "variance")}

    def _take(self, new: State) -> Self:
        self._moments = _merged(self._moments, new) if self._moments else dict(new)
        return self

    def units(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of each column, 1 in place of that of a constant one; float64."""
        moments = self.state()
        refuse_empty(moments["count"] == 0)
        deviation = np.sqrt(moments["variance"])
        return moments["mean"], np.where(varies(deviation, moments["mean"]), deviation, 1.0)


def standardization(X: Any, weight: Any = None) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each column, 1 in place of that of a constant one; float64.

    What a system calls that scales its columns itself: unlike `Standardizer.fit` it does not look for lost values.

    Examples
    --------
    >>> standardization([[0.0, 5.0], [2.0, 5.0]])
    (array([1., 5.]), array([1., 1.]))
    """
    return Standardizer().partial_fit(X, weight).units()


def varies(deviation: Floats, mean: Floats) -> NDArray[np.bool_]:
    """Which columns vary: whose standard deviation is more than the rounding of their mean."""
    moving: NDArray[np.bool_] = deviation > 16 * _EPSILON * np.abs(mean)
    return moving


class Rescaler(Columnwise):
    """x' = low + (x - min) (high - low) / (max - min) of each column: the training rows fill [low, high].

    A constant column becomes low. Rows outside the training range land outside [low, high], unless `clip`. The
    difference is taken before the product, so that large offsets keep their digits.

    Parameters
    ----------
    low, high : float, default 0 and 1
    clip : bool, default False
        Whether what lands outside is put on the nearest end; then it cannot be inverted.

    Raises
    ------
    UserValueError
        low is not below high.

    Examples
    --------
    >>> Rescaler(-1, 1).fit([[2.0], [4.0], [3.0]]).transform([[2.0], [3.5]])
    array([[-1. ],
           [ 0.5]])
    """

    def __init__(self, low: float = 0.0, high: float = 1.0, clip: bool = False) -> None:
        if not -math.inf < low < high < math.inf:
            raise UserValueError(f"low must be below high, got low = {low} and high = {high}", "low")
        self.low, self.high, self.span, self.clip = float(low), float(high), float(high) - float(low), clip
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.n_inputs = None
        self._minimum: Any = np.empty(0)
        self._maximum: Any = np.empty(0)

    def partial_fit(self, X: Any, weight: Any = None) -> Self:
        """Learn from more rows."""
        rows = self._rows(X, learning=True)
        if weight is not None:
            rows = rows[row_weights(weight, len(rows), np.float64) > 0]
        return self._take(np.fmin.reduce(rows, 0, initial=np.inf), np.fmax.reduce(rows, 0, initial=-np.inf))

    def merge(self, other: Self) -> Self:
        """The smaller minimum and the larger maximum."""
        if other.n_inputs is None:
            return self
        same_columns(self, other)
        self.n_inputs = other.n_inputs
        return self._take(other._minimum, other._maximum)

    def over(self, group: Group) -> Self:
        """Extremes over the processes."""
        gathered = group.gather(np.stack([self._minimum, self._maximum])[None])
        return self._take(gathered[:, 0].min(0), gathered[:, 1].max(0))

    def transform(self, X: Any) -> Floats:
        """Rows in the dtype of X."""
        rows = super().transform(X)
        return np.clip(rows, self.low, self.high) if self.clip else rows

    def state(self) -> dict[str, Any]:
        """``minimum`` and ``maximum`` of each column, float64."""
        self._columns()
        return {"minimum": self._minimum.copy(), "maximum": self._maximum.copy()}

    def load(self, state: State) -> None:
        """Take the extremes over."""
        self.reset()
        self.n_inputs = len(state["minimum"])
        self._take(np.asarray(state["minimum"]), np.asarray(state["maximum"]))

    def _take(self, minimum: Floats, maximum: Floats) -> Self:
        minimum, maximum = minimum.astype(np.float64), maximum.astype(np.float64)
        known = len(self._minimum) > 0
        self._minimum = np.minimum(self._minimum, minimum) if known else minimum
        self._maximum = np.maximum(self._maximum, maximum) if known else maximum
        return self

    def units(self) -> tuple[Floats, Floats]:
        """Minimum and range of each column, 1 in place of the range of a constant one; float64."""
        self._columns()
        refuse_empty(self._minimum > self._maximum)
        size = self._maximum - self._minimum
        return self._minimum, np.where(size > 0, size, 1.0)


def _moments(rows: Floats, weight: Floats | None) -> dict[str, Any]:
    """Sum of weights, mean and variance of each column about its first value, over what is not missing."""
    if weight is None:
        d = rows - rows[0]
        mean = d.mean(0)
        if not np.isnan(mean).any():
            d -= mean
            variance = np.square(d, out=d).mean(0)
            return {"count": np.full(len(mean), float(len(d))), "mean": rows[0] + mean, "variance": variance}
    missing = np.isnan(rows)
    first = rows[missing.argmin(0), np.arange(rows.shape[1])]
    first = np.where(np.isnan(first), 0.0, first)
    d = rows - first
    present = ~missing * (np.ones(len(d)) if weight is None else weight)[:, None]
    count = present.sum(0)
    safe, d = np.where(count > 0, count, 1), np.where(missing, 0.0, d)
    mean = (present * d).sum(0) / safe
    variance = (present * (d - mean) ** 2).sum(0) / safe
    return {"count": count, "mean": np.where(count > 0, first + mean, 0.0), "variance": variance}


def _merged(one: State, two: State) -> dict[str, Any]:
    total = one["count"] + two["count"]
    safe, gap = np.where(total > 0, total, 1), two["mean"] - one["mean"]
    part = two["count"] / safe
    # the mean of the larger part moves, so that one of no weight changes nothing
    mean = np.where(part < 0.5, one["mean"] + gap * part, two["mean"] - gap * (one["count"] / safe))
    squares = one["count"] * one["variance"] + two["count"] * two["variance"] + gap**2 * one["count"] * part
    return {"count": total, "mean": mean, "variance": squares / safe}


def channel_units(
    images: Floats, weight: Floats, change: Callable[[Floats], Floats] | None = None
) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each channel of images over all their pixels, 1 in place of a deviation of 0.

    Parameters
    ----------
    images : array of shape (n, rows, columns, channels)
    weight : array of shape (n,)
    change : callable, optional
        What is done to images before.

    Examples
    --------
    >>> [one.tolist() for one in channel_units(np.array([[[[0.0], [4.0]]]]), np.ones(1))]
    [[2.0], [2.0]]
    """
    moments = Standardizer()
    for start in range(0, len(images), IMAGES):
        part = slice(start, start + IMAGES)
        seen = images[part] if change is None else change(images[part])
        pixels = math.prod(seen.shape[1:-1])
        moments.partial_fit(seen.reshape(-1, seen.shape[-1]), np.repeat(weight[part], pixels))
    return moments.units()
