"""Log of an integral in one or two dimensions: the normalizer of a density that has no closed form."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.given import answers, checked, floats

__all__ = ["log_integral"]

_POINTS = 32
_PANELS = {1: (1, 2, 4, 8, 16, 32, 64, 128, 256), 2: (1, 2, 4, 8, 16, 32)}


@checked
def log_integral(
    log_density: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    bounds: Sequence[tuple[float, float]] = ((-math.inf, math.inf),),
    *,
    tolerance: float = 1e-10,
) -> float:
    """Log of the integral of exp(log_density) over a box, by Gauss-Legendre quadrature on ever more panels.

    An infinite side is mapped to (-1, 1) by ``x = t / (1 - t^2)`` (both ends) or ``x = a + (1 + t) / (1 - t)``. The
    number of panels of 32 points is doubled until two steps in a row change the result by less than `tolerance`.
    Everything is done on the log scale, so densities of any height can be integrated; one narrower than about 1/200 of
    its distance from 0 needs finite bounds. Cost: at most 8,192 points in one dimension, 1,024 x 1,024 in two.

    Parameters
    ----------
    log_density : callable
        Takes points (rows, d) and returns (rows,), in nats; -inf where the density is 0.
    bounds : sequence of d pairs (lower, upper), d in {1, 2}
        Sides of the box; infinite ends are allowed. The whole line by default.
    tolerance : float, default 1e-10
        Largest change in nats between the last three results.

    Returns
    -------
    float
        Log of the integral in nats.

    Raises
    ------
    UserValueError
        When the integral does not converge: the density cannot be normalized, or is too narrow for the bounds.

    Examples
    --------
    >>> round(log_integral(lambda x: -0.5 * x[:, 0] ** 2), 6)
    0.918939
    """
    if not tolerance > 0:
        raise UserValueError.must("tolerance", "be positive", tolerance)
    box = _box(bounds)
    results: list[float] = []
    for panels in _PANELS[len(box)]:
        results.append(_quadrature(log_density, box, panels))
        if len(results) > 2 and max(abs(results[-1] - r) for r in results[-3:-1]) < tolerance:
            return results[-1]
    raise UserValueError(
        f"the integral did not converge: {results[-2]:.10g}, then {results[-1]:.10g} nats",
        "log_density",
        "check that it can be normalized, or give narrower bounds",
    )


def _box(bounds: Any) -> list[tuple[float, float]]:
    """The sides, as pairs of numbers."""
    if not hasattr(bounds, "__len__") or isinstance(bounds, str):
        raise UserTypeError(f"bounds must be [(lower, upper), ...], got a {type(bounds).__name__}", "bounds")
    if len(bounds) not in _PANELS:
        raise UserValueError(f"bounds must be 1 or 2 pairs, got {len(bounds)}", "bounds")
    sides = floats(bounds, "bounds")
    if sides.shape != (len(bounds), 2):
        raise UserValueError.must("bounds", "be a pair (lower, upper) for each column", sides)
    return [(lower, upper) for lower, upper in sides.tolist()]


def _quadrature(
    log_density: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    bounds: Sequence[tuple[float, float]],
    panels: int,
) -> float:
    node, gauss = np.polynomial.legendre.leggauss(_POINTS)
    middle = (2 * np.arange(panels) + 1) / panels - 1
    t, weight = (middle[:, None] + node / panels).ravel(), np.tile(gauss / panels, panels)
    sides = [_side(t, lower, upper) for lower, upper in bounds]
    points = np.stack([g.ravel() for g in np.meshgrid(*(x for x, _ in sides), indexing="ij")], axis=1)
    log_w = np.sum(np.meshgrid(*(np.log(weight) + jacobian for _, jacobian in sides), indexing="ij"), axis=0).ravel()
    terms = log_w + answers(log_density(points), log_w.shape, "log_density")
    top = terms.max()
    if not np.isfinite(top):
        return math.nan
    return float(top + np.log(np.exp(terms - top).sum()))


def _side(t: NDArray[np.float64], lower: float, upper: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points of one side and the log of dx/dt."""
    if not lower < upper:
        raise UserValueError(f"bounds must have lower < upper, got ({lower}, {upper})", "bounds")
    if math.isfinite(lower) and math.isfinite(upper):
        half = (upper - lower) / 2
        return lower + half * (1 + t), np.full_like(t, math.log(half))
    if math.isfinite(lower):
        return lower + (1 + t) / (1 - t), math.log(2) - 2 * np.log1p(-t)
    if math.isfinite(upper):
        x, jacobian = _side(-t, -upper, math.inf)
        return -x, jacobian
    return t / (1 - t * t), np.log1p(t * t) - 2 * np.log1p(-t * t)
