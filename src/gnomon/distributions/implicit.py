"""Gradients of draws whose inverse CDF has no closed form, by the mass below them, which does not change.

From F(x; a) = u with u held follows dx/da = -(dF/da) / p(x). The derivative of F is a difference of fourth order, of
the logarithm of the smaller one of F and 1 - F, so that both tails keep their digits.
Source: Figurnov, Mohamed and Mnih (2018), "Implicit reparameterization gradients".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

__all__ = ["beta_slope", "log_gamma_slope", "student_slope", "von_mises_slope", "with_slopes"]

Floats = NDArray[np.float64]

STEP = 1e-3
"""Of the differences, in units of the parameter or of its root: whichever is smaller, the law changes over it."""

UNDERFLOW = -300.0
"""Log of a gamma number below which P(x) is x^a / Gamma(a + 1) to the last digit."""

NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)


def with_slopes(x: Floats, slopes: Mapping[Any, Floats]) -> Any:
    """A tensor of the values x whose derivative by each parameter, a tensor, is the given slope; no second one.

    Examples
    --------
    >>> import torch
    >>> a = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    >>> y = with_slopes(np.array([5.0, 6.0]), {a: np.array([10.0, 1.0])})
    >>> y.tolist(), torch.autograd.grad(y.sum(), a)[0].item()
    ([5.0, 6.0], 11.0)
    """
    import torch

    draws = torch.from_numpy(np.array(x))
    for parameter, slope in slopes.items():
        draws = draws + torch.from_numpy(np.asarray(slope)) * (parameter - parameter.detach())
    return draws


def _slope(lower: Callable[[Floats], Floats], upper: Callable[[Floats], Floats], at: Floats, density: Floats) -> Floats:
    """Derivative of x by a positive parameter, from the masses below and above x as functions of the parameter."""
    step = STEP * np.minimum(at, np.sqrt(at))

    def rise(mass: Callable[[Floats], Floats]) -> Floats:
        near, far = (np.log(mass(at + k * step)) - np.log(mass(at - k * step)) for k in (1, 2))
        return (8 * near - far) / (12 * step)

    below, above = lower(at), upper(at)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(below < above, -below * rise(lower), above * rise(upper)) / density


def log_gamma_slope(a: Floats, log_x: Floats) -> Floats:
    """Derivative by a of the logarithm of a number of the gamma law of shape a, at held mass below it."""
    a, log_x = np.broadcast_arrays(a, log_x)
    x = np.exp(np.maximum(log_x, UNDERFLOW))
    density = np.exp(a * np.log(x) - x - special.gammaln(a))  # of log x
    plain = _slope(lambda at: special.gammainc(at, x), lambda at: special.gammaincc(at, x), a, density)
    return np.where(log_x < UNDERFLOW, (special.digamma(a + 1) - log_x) / a, plain)


def beta_slope(a: Floats, b: Floats, x: Floats) -> tuple[Floats, Floats]:
    """Derivatives by a and b of a number of their beta law, at held mass below it; 0 where it has rounded to an end."""
    a, b, x = np.broadcast_arrays(a, b, x)
    inside = (x > 0) & (x < 1)
    x = np.where(inside, x, 0.5)
    density = np.exp(special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - special.betaln(a, b))
    by_a = _slope(lambda at: special.betainc(at, b, x), lambda at: special.betaincc(at, b, x), a, density)
    by_b = _slope(lambda at: special.betainc(a, at, x), lambda at: special.betaincc(a, at, x), b, density)
    return np.where(inside, by_a, 0.0), np.where(inside, by_b, 0.0)


def student_slope(df: Floats, t: Floats) -> Floats:
    """Derivative by the degrees of freedom of a number of Student's t, at held mass below it."""
    df, t = np.broadcast_arrays(df, t)
    log_constant = special.gammaln((df + 1) / 2) - special.gammaln(df / 2) - 0.5 * np.log(df * np.pi)
    density = np.exp(log_constant - (df + 1) / 2 * np.log1p(t**2 / df))
    return _slope(lambda at: special.stdtr(at, t), lambda at: special.stdtr(at, -t), df, density)


def von_mises_slope(k: Floats, y: Floats) -> Floats:
    """Derivative by the concentration of an angle in [-pi, pi] about direction 0, at held mass below it.

    The integral of (cos t - E cos) p(t) from the nearer end to y, by Gauss and Legendre.
    """
    k, y = np.broadcast_arrays(k, y)
    end = np.minimum(np.pi, 10 / np.sqrt(k))
    half = (end - np.minimum(np.abs(y), end)) / 2
    t = (end - half)[..., None] + half[..., None] * NODES
    mean = special.i1e(k) / special.i0e(k)
    relative = np.exp(k[..., None] * (np.cos(t) - np.cos(y)[..., None]))  # of the density at t to that at y
    integral = half * ((np.cos(t) - mean[..., None]) * relative * WEIGHTS).sum(-1)
    return np.sign(y) * integral
