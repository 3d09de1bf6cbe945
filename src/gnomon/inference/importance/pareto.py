"""How heavy the tail of a set of weights is: a generalized Pareto distribution fitted to the largest ones."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["excess_shape", "pareto_shape", "tail_shape"]

_FEWEST = 5


def tail_shape(log_weights: NDArray[np.float64]) -> float:
    """k-hat of importance weights: below 0.5 the variance is finite, above 0.7 the estimate is not to be trusted.

    The tail is the ``ceil(min(n / 5, 3 sqrt(n)))`` largest weights; a generalized Pareto distribution is fitted to
    their excess over the next one, and its shape is shrunk toward 0.5 with the weight of ten observations.

    Parameters
    ----------
    log_weights : array of shape (n,)
        Log weights in nats; any common constant drops out.

    Returns
    -------
    float
        Shape of the tail; nan when fewer than 5 weights lie above the threshold (too few draws, or equal weights).

    References
    ----------
    Vehtari, Simpson, Gelman, Yao and Gabry (2024), "Pareto smoothed importance sampling".
    """
    log_w = np.sort(log_weights - log_weights.max())
    n = log_w.size
    tail = math.ceil(min(n / 5, 3 * math.sqrt(n)))
    if tail >= n:
        return math.nan
    threshold = max(log_w[n - tail - 1], math.log(np.finfo(np.float64).tiny))
    excess = np.exp(log_w[log_w > threshold]) - math.exp(threshold)
    return excess_shape(excess)


def excess_shape(excess: NDArray[np.float64]) -> float:
    """Shape of a tail from ascending excesses over a threshold, shrunk toward 0.5 with the weight of ten observations.

    nan when fewer than 5 of them are positive.
    """
    excess = excess[excess > 0]
    if excess.size < _FEWEST:
        return math.nan
    k, m = pareto_shape(excess), excess.size
    return (m * k + 10 * 0.5) / (m + 10)


def pareto_shape(excess: NDArray[np.float64]) -> float:
    """Shape k of a generalized Pareto distribution, density ~ (1 + k x / s)^(-1/k - 1), from ordered excesses.

    With b = -k / s the profile likelihood has one unknown: k(b) = mean log(1 - b x). The estimate takes the mean of b
    under the profile likelihood on a grid of quantiles of a weak prior.

    Parameters
    ----------
    excess : array of shape (m,)
        Positive, ascending.

    Returns
    -------
    float

    References
    ----------
    Zhang and Stephens (2009), "A new and efficient estimation method for the generalized Pareto distribution".
    """
    m = excess.size
    grid = np.arange(1, 30 + int(math.sqrt(m)) + 1)
    quartile = excess[int(m / 4 + 0.5) - 1]
    b = 1 / excess[-1] + (1 - np.sqrt(grid.size / (grid - 0.5))) / (3 * quartile)
    b = b[b != 0]  # the exponential distribution itself, where k / b is 0 / 0
    shape = np.log1p(-np.outer(b, excess)).mean(axis=1)
    profile = m * (np.log(-b / shape) - shape - 1)
    share = np.exp(profile - profile.max())
    best = float((share * b).sum() / share.sum())
    return float(np.log1p(-best * excess).mean())
