"""Minimization of a smooth function by non-linear conjugate gradients, from values and gradients alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.errors import UserValueError

__all__ = ["Minimum", "minimize"]

Floats = NDArray[np.float64]
Function = Callable[[Floats], tuple[float, ArrayLike]]

WITHIN, BEYOND = 0.1, 3.0
"""A new step keeps this fraction of the bracket from its ends; it goes at most so many times as far as the last."""
SEARCH = 20
"""Evaluations of a line search at most."""
GROWTH = 10.0
"""A first step of a line search is at most so many times the last one."""


class Minimum(NamedTuple):
    """What `minimize` found.

    Attributes
    ----------
    x : array of the shape of x0
    value : float
    gradient : array
    values : array
        Value of the start and after each line search.
    evaluations : int
        Of the function and its gradient.
    converged : bool
        Whether the gradient is short enough, or no step lowered the value any more.
    path : array of shape (line searches + 1, ...)
        Points in turn.
    """

    x: Floats
    value: float
    gradient: Floats
    values: Floats
    evaluations: int
    converged: bool
    path: Floats


class _Place(NamedTuple):
    """A point on a line: its step, value, slope along the line, and gradient."""

    step: float
    value: float
    slope: float
    gradient: Floats


def minimize(
    f: Function, x0: ArrayLike, length: int = 100, red: float = 1.0, *, tol: float = 1e-8, curvature: float = 0.1
) -> Minimum:
    r"""Minimize a function by Polak and Ribiere's directions and a line search by cubic and quadratic interpolation.

    A step t along the direction s is accepted where the value has fallen by at least :math:`\rho t |g^T s|` and the
    slope's size by the factor :math:`\sigma` (Wolfe and Powell), with :math:`\rho = \sigma / 2`. The next direction is
    :math:`-g + \beta s`, :math:`\beta = \max(0, g^T (g - g_{old}) / g_{old}^T g_{old})`; one that does not descend is
    replaced by -g.

    Parameters
    ----------
    f : callable
        ``f(x) -> (value, gradient)``. Where either is not finite the step is halved.
    x0 : array
    length : int, default 100
        Line searches at most; a negative number limits evaluations instead.
    red : float in (0, inf), default 1
        By how much the first search is expected to lower the value: it sets the first step.
    tol : float in [0, inf), default 1e-8
        End where the largest component of the gradient is at most this.
    curvature : float in (0, 1), default 0.1
        sigma; towards 0 the line searches become exact.

    Returns
    -------
    Minimum

    Raises
    ------
    UserValueError
        A start whose value or gradient is not finite, or a gradient of another shape.

    Notes
    -----
    On a quadratic function with exact searches the points are those of `conjugate_gradient`. Cost: about two
    evaluations a search. Source: Polak and Ribiere (1969); Rasmussen (2006), "minimize.m"; Nocedal and Wright (2006),
    chapter 5.

    Examples
    --------
    >>> def bowl(x):
    ...     return float(((x - 3) ** 2).sum()), 2 * (x - 3)
    >>> minimize(bowl, [0.0, 1.0]).x.round(6).tolist()
    [3.0, 3.0]
    """
    for name, value, holds in (("red", red, red > 0), ("curvature", curvature, 0 < curvature < 1)):
        if not (holds and math.isfinite(value)):
            raise UserValueError.must(name, "be in (0, inf)" if name == "red" else "be in (0, 1)", value)
    x = np.array(x0, np.float64)
    line = _Line(f, x.shape, curvature, evaluations=abs(length) if length < 0 else None)
    value, gradient = line.evaluate(x)
    if not (math.isfinite(value) and np.isfinite(gradient).all()):
        raise UserValueError("the function and its gradient must be finite at the start", "x0", "choose another point")
    direction, failed = -gradient, False
    step = red / (1 + float(_dot(gradient, gradient)))
    values, path = [value], [x]
    searches, stuck = 0, False
    while (length < 0 or searches < length) and not line.spent and np.abs(gradient).max(initial=0.0) > tol:
        searches += 1
        slope = _dot(gradient, direction)
        found, accepted = line.search(x, direction, _Place(0.0, value, slope, gradient), step)
        x = x + found.step * direction
        if found.step:
            values, path = [*values, found.value], [*path, x]
        stuck = not accepted and failed and not line.spent
        if stuck:
            break
        failed = not accepted
        turned, step = _next(direction, gradient, found, slope, accepted)
        value, gradient, direction = found.value, found.gradient, turned
    done = bool(np.abs(gradient).max(initial=0.0) <= tol) or stuck
    return Minimum(x, value, gradient, np.array(values), line.evaluations, done, np.array(path))


def _dot(a: Floats, b: Floats) -> float:
    return float((a * b).sum())


def _next(direction: Floats, gradient: Floats, found: _Place, slope: float, accepted: bool) -> tuple[Floats, float]:
    """The direction after a search, and its first step."""
    g = found.gradient
    if not accepted:
        return -g, 1 / (1 + _dot(g, g))
    beta = max(0.0, _dot(g, g - gradient) / _dot(gradient, gradient))
    turned = beta * direction - g
    ahead = _dot(g, turned)
    if not ahead < 0:
        turned, ahead = -g, -_dot(g, g)
    return turned, found.step * min(GROWTH, slope / (ahead - np.finfo(np.float64).tiny))


class _Line:
    """Line searches for a step that keeps both conditions."""

    def __init__(self, f: Function, shape: tuple[int, ...], curvature: float, evaluations: int | None) -> None:
        self.f, self.shape, self.sigma, self.rho = f, shape, curvature, curvature / 2
        self.evaluations, self.limit = 0, evaluations

    @property
    def spent(self) -> bool:
        """Whether no evaluation is left."""
        return self.limit is not None and self.evaluations >= self.limit

    def evaluate(self, x: Floats) -> tuple[float, Floats]:
        """Value and gradient at a point."""
        self.evaluations += 1
        value, gradient = self.f(x)
        found = np.asarray(gradient, np.float64)
        if found.shape != self.shape:
            raise UserValueError(f"the gradient must have the shape of x0, {self.shape}, got {found.shape}", "f")
        return float(value), found

    def search(self, x: Floats, direction: Floats, start: _Place, step: float) -> tuple[_Place, bool]:
        """The accepted place and True; or, where none is, the lowest one that was seen and False."""
        best, low, high = start, start, None
        place = start
        for _ in range(SEARCH):
            if self.spent:
                break
            place = self._at(x, direction, step)
            if not math.isfinite(place.value) or not np.isfinite(place.gradient).all():
                step, high = (low.step + step) / 2, None  # back off
                continue
            best = place if place.value < best.value else best
            steep = place.value > start.value + place.step * self.rho * start.slope
            if not steep and abs(place.slope) <= -self.sigma * start.slope:
                return place, True
            if steep or place.slope > 0:
                high = place
            else:
                before, low = low, place
            step = _beyond(before, low) if high is None else _between(low, high, start)
        return best, False

    def _at(self, x: Floats, direction: Floats, step: float) -> _Place:
        with np.errstate(all="ignore"):
            value, gradient = self.evaluate(x + step * direction)
            return _Place(step, value, _dot(gradient, direction), gradient)


def _cubic(first: _Place, last: _Place) -> float:
    """The step to the minimum of the cubic through two places with these slopes; NaN where it has none."""
    d = last.step - first.step
    a = 6 * (first.value - last.value) + 3 * (last.slope + first.slope) * d
    b = 3 * (last.value - first.value) - (2 * first.slope + last.slope) * d
    root = b * b - a * first.slope * d
    bottom = b + math.sqrt(root) if root >= 0 else 0.0
    return first.step - first.slope * d * d / bottom if bottom else math.nan


def _beyond(first: _Place, last: _Place) -> float:
    """The next step where the minimum lies beyond the second of two places."""
    step, d = _cubic(first, last), last.step - first.step
    if not math.isfinite(step) or step < 0:
        return last.step * BEYOND
    return min(max(step, last.step + WITHIN * d), last.step * BEYOND)


def _between(low: _Place, high: _Place, start: _Place) -> float:
    """The next step inside a bracket, by a parabola where its end is high and else by a cubic, kept off the ends."""
    d = high.step - low.step
    if high.value > start.value:
        bottom = high.value - low.value - low.slope * d
        step = low.step - 0.5 * low.slope * d * d / bottom if bottom else math.nan
    else:
        step = _cubic(low, high)
    if not math.isfinite(step):
        step = (low.step + high.step) / 2
    return max(min(step, high.step - WITHIN * d), low.step + WITHIN * d)
