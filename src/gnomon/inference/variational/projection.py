"""The normal distribution nearest to a target, in either direction of the Kullback-Leibler divergence."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize

from gnomon.distributions.real import Normal
from gnomon.errors import UserValueError

__all__ = ["Projection", "moment_projection", "project"]

Floats = NDArray[np.float64]

_NODES, _REACH = 2001, 10.0
_LARGEST = 300.0
"""Of the log of a standard deviation that is taken for a minimum."""
_AT_REST = 1e-4
"""Slope of the divergence, in nats, at what is taken for a minimum."""


@dataclass(frozen=True)
class Projection:
    """A normal distribution fitted to a target.

    Parameters
    ----------
    distribution : Normal
    divergence : float
        That was made least, in nats; without the target's log normalizer where that is unknown (reverse direction).
    """

    distribution: Normal
    divergence: float

    @property
    def mean(self) -> float:
        """Mean of the fitted distribution."""
        return float(self.distribution.mean)

    @property
    def variance(self) -> float:
        """Variance of the fitted distribution."""
        return float(self.distribution.variance)


def moment_projection(x: ArrayLike, weight: ArrayLike | None = None) -> Normal:
    """The normal distribution of least KL(target || normal), from draws: it has their mean and variance (1/n).

    Equals maximum likelihood on the draws. Importance weights serve an unnormalized target.

    Parameters
    ----------
    x : array of shape (n,), not all equal
    weight : array of shape (n,), >= 0, optional

    Examples
    --------
    >>> moment_projection([-1.0, 1.0])
    Normal(loc=0, scale=1)
    """
    values = np.asarray(x, np.float64)
    weights = np.ones(values.shape) if weight is None else np.asarray(weight, np.float64)
    if values.ndim != 1 or not weights.sum() > 0 or (weights < 0).any():
        raise UserValueError.must("x", "be numbers with weights >= 0 that are not all 0", values)
    mean = float(np.average(values, weights=weights))
    variance = float(np.average((values - mean) ** 2, weights=weights))
    if not variance > 0:
        raise UserValueError("all draws are equal: no normal distribution fits", "x", "give more draws")
    return Normal(mean, math.sqrt(variance))


def project(
    log_target: Callable[[Floats], ArrayLike],
    direction: Literal["forward", "reverse"],
    *,
    start: tuple[float, float] = (0.0, 1.0),
    support: tuple[float, float] = (-50.0, 50.0),
) -> Projection:
    r"""The normal distribution q nearest to a target p of one dimension, by quadrature.

    ``"forward"`` makes :math:`KL(p \| q)` least: mean and variance of p, covering all its modes. ``"reverse"`` makes
    :math:`KL(q \| p)` least: q avoids places where p is small and settles on a mode; which one depends on the start,
    and a start between modes may stay at a worse stationary point.

    Parameters
    ----------
    log_target : callable
        Log density of p in nats at an array of points; for ``"reverse"`` a constant may be missing.
    direction : {"forward", "reverse"}
    start : (mean, standard deviation), default (0, 1)
        Where the search of ``"reverse"`` begins.
    support : (low, high), default (-50, 50)
        Interval on which the integrals of ``"forward"`` are taken; p must be small outside.

    Raises
    ------
    UserValueError
        An unknown direction, a target without mass on the support, or for ``"reverse"`` one that is 0 near q, where the
        divergence is infinite, or that has no minimum.

    References
    ----------
    Minka (2005); Bishop (2006), section 10.1.2.

    Examples
    --------
    >>> found = project(lambda x: -0.5 * (x - 1) ** 2, "reverse")
    >>> round(found.mean, 4), round(found.variance, 4)
    (1.0, 1.0)
    """
    if direction == "forward":
        return _forward(log_target, support)
    if direction != "reverse":
        raise UserValueError.must("direction", 'be "forward" or "reverse"', direction)
    return _reverse(log_target, start)


def _forward(log_target: Callable[[Floats], ArrayLike], support: tuple[float, float]) -> Projection:
    at, weight = np.polynomial.legendre.leggauss(20)
    edges = np.linspace(*support, 501)
    half, middle = np.diff(edges) / 2, (edges[:-1] + edges[1:]) / 2
    x, width = (middle[:, None] + half[:, None] * at).ravel(), (half[:, None] * weight).ravel()
    log_p = np.asarray(log_target(x), np.float64)
    mass = np.exp(log_p - log_p.max()) * width
    if not np.isfinite(mass.sum()) or not mass.sum() > 0:
        raise UserValueError("the target has no finite mass", "support", "choose an interval that holds it")
    distribution = moment_projection(x, mass)
    there = mass > 0  # 0 log 0 is 0
    normalized = log_p[there] - log_p.max() - math.log(mass.sum())
    log_ratio = normalized - np.asarray(distribution.log_prob(x[there]))
    return Projection(distribution, float((mass[there] / mass.sum() * log_ratio).sum()))


def _reverse(log_target: Callable[[Floats], ArrayLike], start: tuple[float, float]) -> Projection:
    """Nodes move with the distribution: the quadrature is differentiated through them, as in reparameterization."""
    nodes = np.linspace(-_REACH, _REACH, _NODES)  # the trapezoid rule is spectrally accurate here
    weights = np.exp(-0.5 * nodes**2)
    weights /= weights.sum()

    def divergence(parameters: Any) -> float:
        mean, log_scale = float(parameters[0]), float(parameters[1])
        with np.errstate(over="ignore", invalid="ignore"):
            x = mean + np.exp(log_scale) * nodes
            expected = float((weights * np.asarray(log_target(x), np.float64)).sum())
        return -0.5 * math.log(2 * math.pi * math.e) - log_scale - expected

    if not start[1] > 0:
        raise UserValueError.must("start", "have a positive standard deviation", start[1])
    begin = np.array([start[0], math.log(start[1])])
    _check_support(log_target, *start)
    with np.errstate(over="ignore", invalid="ignore"):
        result = optimize.minimize(divergence, begin, method="BFGS", options={"gtol": 1e-9})
    if not np.isfinite([*result.x, result.fun]).all() or abs(result.x[1]) > _LARGEST:
        raise UserValueError("the divergence has no minimum", "log_target", "give a density that can be normalized")
    mean, scale = float(result.x[0]), math.exp(float(result.x[1]))
    _check_support(log_target, mean, scale)
    if np.abs(result.jac).max() > _AT_REST:
        raise UserValueError(
            "the search ended at no minimum", "start",
            'begin elsewhere; where the target is 0 KL(q || p) is infinite: use direction="forward"',
        )  # fmt: skip
    return Projection(Normal(mean, scale), float(result.fun))


def _check_support(log_target: Callable[[Floats], ArrayLike], mean: float, scale: float) -> None:
    """Refuse a target that is 0 where the normal distribution is not: the divergence is infinite."""
    x = mean + scale * np.linspace(-1.2 * _REACH, 1.2 * _REACH, _NODES)
    log_p = np.asarray(log_target(x), np.float64)
    if np.isnan(log_p).any():
        raise UserValueError("the log density must be a number, got nan", f"log_target at {x[np.isnan(log_p)][0]:.6g}")
    if np.isneginf(log_p).any():
        raise UserValueError(
            "KL(q || p) is infinite: the target is 0 where a normal distribution is not",
            f"log_target at {x[np.isneginf(log_p)][0]:.6g}", 'use direction="forward", or a target on the whole line',
        )  # fmt: skip
