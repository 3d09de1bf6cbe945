"""Points that stand for standard normal numbers: a quadrature in one and two dimensions, matched draws beyond."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Noise

__all__ = ["half_of", "standard_nodes"]

Floats = NDArray[np.float64]

STEPS = {1: (0.05, 9.0), 2: (0.25, 7.0)}
"""Width and reach of the trapezoid rule by dimension, in standard deviations."""


def standard_nodes(k: int, draws: int, noise: Noise) -> tuple[Floats, Floats]:
    """Points and weights that stand for k standard normal numbers.

    In one and two dimensions the trapezoid rule, whose error falls faster than any power of its width for smooth
    functions. Beyond, antithetic pairs of draws, turned and scaled so that their mean is 0 and their covariance the
    identity: means of polynomials of degree 3 and less are then exact.

    Parameters
    ----------
    k : int >= 1
    draws : int >= 2 k
        Beyond two dimensions; rounded up to an even number.
    noise : Noise

    Returns
    -------
    points : array of shape (S, k)
    weights : array of shape (S,)
        They sum to 1.

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> e, w = standard_nodes(1, 0, Noise(0, "nodes"))
    >>> round(float((w * e[:, 0] ** 4).sum()), 12)
    3.0
    """
    if k in STEPS:
        width, reach = STEPS[k]
        line = np.arange(-reach, reach + width / 2, width)
        points = np.stack(np.meshgrid(*[line] * k, indexing="ij"), -1).reshape(-1, k)
        weights = np.exp(-0.5 * (points**2).sum(1))
        seen = weights > 1e-20
        return points[seen], weights[seen] / weights[seen].sum()
    half = np.asarray(noise.normal(((draws + 1) // 2, k), like=np.empty(0)), np.float64)
    values, vectors = np.linalg.eigh(half.T @ half / len(half))
    half = half @ (vectors / np.sqrt(values)) @ vectors.T
    return np.concatenate([half, -half]), np.full(2 * len(half), 0.5 / len(half))


def half_of(points: Floats, weights: Floats) -> Floats | None:
    """Weights of every other node alone, by which a quadrature is judged; None where the points are draws.

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> e, w = standard_nodes(1, 0, Noise(0, "nodes"))
    >>> round(float((half_of(e, w) * e[:, 0] ** 4).sum()), 12)
    3.0
    """
    k = points.shape[1]
    if k not in STEPS:
        return None
    coarse = np.where((np.rint(points / STEPS[k][0]) % 2 == 0).all(1), weights, 0.0)
    found: Floats = coarse / coarse.sum()
    return found
