"""Poisson counts of uniform numbers, on the CPU: the inverse of the distribution function, compiled."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from gnomon.numeric.fast import exp32, exp64, f64, i64, split64

__all__ = ["least_counts", "poisson_counts"]

kernel = numba.njit(cache=True, error_model="numpy", nogil=True)

BLOCK = 64
"""Units that are counted side by side, in vector instructions."""
FEW = 12.0
"""Rate up to which counting begins at 0."""
MANY = 1e4
"""Rate from which an expansion in 1 / sqrt(rate) takes the place of counting."""
END = 1 - 1e-14
"""Where sums of probabilities end: what lies beyond is lost to rounding."""


@kernel
def least_counts(u, log_rate, out):  # type: ignore[no-untyped-def]
    """Of each unit the least count whose cumulative probability reaches u; `out` may be `u`. Arrays of one axis."""
    rate, p, total, wanted = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    count, cast = np.empty(BLOCK), out.dtype.type
    for begin in range(0, out.size, BLOCK):
        n = min(BLOCK, out.size - begin)
        _rates(log_rate[begin : begin + n], rate)  # type: ignore[no-untyped-call]
        many = 0
        for j in range(n):
            v = f64(u[begin + j])
            wanted[j] = END if v > END else v
            many += 0 if rate[j] <= FEW else 1  # what is no number is among them
        if many == 0:
            for j in range(n):
                y, power = split64(-rate[j])
                p[j] = y * i64((power + i64(1023)) << i64(52)).view(f64)
                total[j], count[j] = p[j], 0.0
            _count_up(rate[:n], p[:n], total[:n], wanted[:n], count[:n])
        else:
            for j in range(n):
                count[j] = _least(wanted[j], rate[j])
        for j in range(n):
            out[begin + j] = cast(count[j])


@kernel
def _rates32(log_rate, out):  # type: ignore[no-untyped-def]
    """exp of log rates, in their own precision."""
    for j in range(log_rate.size):
        out[j] = f64(exp32(log_rate[j]))


@kernel
def _rates64(log_rate, out):  # type: ignore[no-untyped-def]
    for j in range(log_rate.size):
        out[j] = exp64(log_rate[j])


def _rates(log_rate, out):  # type: ignore[no-untyped-def]
    """`_rates32` or the other."""
    raise NotImplementedError


@overload(_rates)
def _rates_of(log_rate, out):  # type: ignore[no-untyped-def]
    kind = _rates32 if log_rate.dtype == numba.float32 else _rates64
    return lambda log_rate, out: kind(log_rate, out)


@kernel
def _count_up(rate, p, total, wanted, count):  # type: ignore[no-untyped-def]
    """Counts from 0 up, until all have reached what is wanted."""
    for k in range(1, 128):
        left, share = 0, 1.0 / k
        for j in range(rate.size):
            below = total[j] < wanted[j]
            count[j] += 1.0 if below else 0.0
            left += 1 if below else 0
            p[j] *= rate[j] * share
            total[j] += p[j]
        if left == 0:
            return


@kernel
def _least(u, rate):  # type: ignore[no-untyped-def]
    """That of one unit: from nine deviations below the mean on, where the sum of probabilities is below 1e-17."""
    if not rate < MANY:
        return _of_many(u, rate)
    k = max(0.0, math.floor(rate - 9 * math.sqrt(rate)))
    p = math.exp(k * math.log(rate) - rate - math.lgamma(k + 1)) if k else math.exp(-rate)
    total = p
    while total < u and (k < rate or p > 1e-18):
        k += 1
        p *= rate / k
        total += p
    return k


@kernel
def _of_many(u, rate):  # type: ignore[no-untyped-def]
    """The expansion about the normal quantile (Giles 2016, Q_N2), whose error is of the order of rate^(-3/2)."""
    if not rate < np.inf:
        return np.nan
    w, root = _normal_quantile(u), math.sqrt(rate)
    square = w * w
    x = rate + root * w + (1 / 3 + square / 6) - w * (1 / 36 + square / 72) / root
    x += (-8 / 405 + square * (7 / 810 + square / 270)) / rate
    return max(0.0, math.floor(x))


@kernel
def _normal_quantile(u):  # type: ignore[no-untyped-def]
    """Where the standard normal distribution function is u: a start to 1e-3, and three Newton steps on log u."""
    tail = min(u, 1 - u)
    t = math.sqrt(-2 * math.log(tail))
    z = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)))
    for _ in range(3):
        mass = 0.5 * math.erfc(z / math.sqrt(2.0))
        density = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
        z += mass / density * math.log(mass / tail)
    return z if u > 0.5 else -z


def poisson_counts(u: NDArray[Any], log_rate: NDArray[Any]) -> NDArray[Any]:
    """Poisson counts with these log rates: of each the least whose cumulative probability reaches u.

    Parameters
    ----------
    u : array of float32 or float64 in (0, 1)
    log_rate : array of the shape and dtype of `u`

    Returns
    -------
    array of the shape and dtype of `u`
        No number where a rate is none or infinite. About rate + 1 steps of counting up to a rate of 12, eighteen times
        the root of the rate beyond, and none from 1e4 on.

    References
    ----------
    Giles (2016), "Algorithm 955: approximation of the inverse Poisson cumulative distribution function".

    Examples
    --------
    >>> poisson_counts(np.array([0.1, 0.5, 0.999]), np.log([1.0, 30.0, 1e6])).tolist()
    [0.0, 30.0, 1003092.0]
    """
    out = np.empty(u.shape, u.dtype)
    flat = np.ascontiguousarray(log_rate, u.dtype).reshape(-1)
    least_counts(np.ascontiguousarray(u).reshape(-1), flat, out.reshape(-1))
    return out
