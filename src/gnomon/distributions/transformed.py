"""Distributions made from others: by an invertible map, and by the inverse of a distribution function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.distributions.family import axes, uniform
from gnomon.distributions.table import search_mass
from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.given import affordable, answers, checked, floats, outcomes

__all__ = ["Pushforward", "Truncated", "inverse_transform_sample", "invert_cdf"]

Floats = NDArray[np.float64]


class Pushforward:
    r"""Distribution of x = g(z) for an invertible g: :math:`\log p(x) = \log p_z(g^{-1}(x)) + \log|\det dg^{-1}/dx|`.

    Parameters
    ----------
    base : distribution
        Of z: ``log_prob`` of float64 tensors, one value per row (the last axis summed out) or per number; ``sample``.
    forward, inverse : callables
        g and its inverse on tensors, a row (or a number) at a time along the first axis, made of torch functions.

    Notes
    -----
    The determinant is that of the Jacobian by automatic differentiation, row by row in one batched pass: O(n d^3).
    A map that is not invertible, or changes the number of columns, has no density and is refused.

    References
    ----------
    Goodfellow, Bengio and Courville (2016), section 3.12.

    Examples
    --------
    >>> import torch
    >>> from gnomon.distributions.real import Normal
    >>> lognormal = Pushforward(Normal(0.0, 1.0), torch.exp, torch.log)
    >>> round(float(lognormal.log_prob([2.0])[0]), 6)
    -1.852312
    """

    @checked
    def __init__(self, base: Any, forward: Callable[[Any], Any], inverse: Callable[[Any], Any]) -> None:
        self.base, self.forward, self.inverse = base, forward, inverse

    def log_prob(self, x: ArrayLike) -> Any:
        """Log density of each row (or number) in nats, shape (n,); tensors are answered by tensors.

        Raises
        ------
        UserValueError
            A row where the map has no inverse or a singular Jacobian, or another number of columns.
        """
        import torch

        rows = x if isinstance(x, torch.Tensor) else torch.tensor(floats(x, "x"))
        if not rows.ndim or not rows.is_floating_point():
            raise UserValueError.must("x", "be floating-point numbers, one row per outcome", rows)
        z = self.inverse(rows)
        if not isinstance(z, torch.Tensor):
            raise UserTypeError(
                f"inverse must return a tensor, got a {type(z).__name__}", "inverse", "use torch operations"
            )
        if z.shape != rows.shape:
            what = f"inverse must keep the shape of a row, got {tuple(rows.shape[1:])} to {tuple(z.shape[1:])}"
            raise UserValueError(what, "inverse", "a density needs as many columns before as after")
        if not len(z):
            raise UserValueError("x must have at least one row", "x")
        bad = ~torch.isfinite(z).reshape(len(z), -1).all(1)
        log_det = self._log_det(torch.where(bad.reshape(-1, *(1,) * (rows.ndim - 1)), torch.ones_like(rows), rows))
        bad |= ~torch.isfinite(log_det)
        if bool(bad.any()):
            row = int(bad.nonzero()[0])
            raise UserValueError("the map cannot be inverted here", f"row {row}", "leave out rows outside its range")
        log_p = torch.as_tensor(self.base.log_prob(z)) + log_det
        return log_p if isinstance(x, torch.Tensor) else log_p.numpy()

    def _log_det(self, rows: Any) -> Any:
        """log |det| of the inverse map's Jacobian at each row."""
        import torch

        def one(row: Any) -> Any:
            return self.inverse(row[None])[0]

        jacobian = torch.func.vmap(torch.func.jacrev(one))(rows)
        if rows.ndim == 1:
            return jacobian.abs().log()
        return torch.linalg.slogdet(jacobian)[1]

    def sample(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> Any:
        """g of draws of the base distribution."""
        import torch

        return self.forward(torch.as_tensor(self.base.sample(noise, draw, shape))).numpy()


class Truncated:
    """A distribution of numbers, given that they lie in [low, high]: ``p(x) / (F(high) - F(low))`` there, 0 elsewhere.

    Where both ends lie so far in the upper tail that F rounds to 1, its mass is lost: refused, see `TruncatedNormal`.

    Parameters
    ----------
    base : Family
        A continuous distribution with ``log_prob``, ``cdf`` and ``icdf``.
    low, high : float
        -inf and inf leave a side as it is.

    Examples
    --------
    >>> from gnomon.distributions.positive import Exponential
    >>> float(Truncated(Exponential(1.0), 0.0, 1.0).log_prob(0.5).round(6))
    -0.041325
    """

    @checked
    def __init__(self, base: Any, low: float = -np.inf, high: float = np.inf) -> None:
        if not low < high:
            raise UserValueError(f"low must be below high, got {low} and {high}", "low, high")
        for verb in ("log_prob", "cdf", "icdf"):
            if not callable(getattr(base, verb, None)) or bool(getattr(base, "event_shape", None)):
                raise UserTypeError(
                    f"base must be a distribution of numbers with {verb}, got {type(base).__name__}", "base"
                )
        self.base, self.low, self.high = base, float(low), float(high)
        self._below = np.asarray(base.cdf(self.low), np.float64)
        self._mass = np.asarray(base.cdf(self.high), np.float64) - self._below
        if not (self._mass > 1e-12).all():
            raise UserValueError(
                f"the distribution has mass {self._mass.min():.1e} in [{low}, {high}]",
                "low, high",
                "choose a more probable interval",
            )

    @checked
    def log_prob(self, x: ArrayLike) -> Floats:
        """Log density in nats; -inf outside the interval, NaN where `x` is."""
        values = np.asarray(x, np.float64)
        outside = (values < self.low) | (values > self.high)
        return np.where(outside, -np.inf, np.asarray(self.base.log_prob(values), np.float64) - np.log(self._mass))

    @checked
    def cdf(self, x: ArrayLike) -> Floats:
        """P(X <= x)."""
        values = np.clip(np.asarray(x, np.float64), self.low, self.high)
        return np.asarray((np.asarray(self.base.cdf(values), np.float64) - self._below) / self._mass)

    @checked
    def icdf(self, u: ArrayLike) -> Floats:
        """The value that u of the mass lies below, 0 < u < 1."""
        if not ((u := floats(u, "u")) >= 0).all() or not (u <= 1).all():
            raise UserValueError("u must be in [0, 1]", "u")
        x = np.asarray(self.base.icdf(self._below + outcomes(u, "u", self._mass.shape) * self._mass), np.float64)
        return np.clip(x, self.low, self.high)

    def sample(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> Floats:
        """Draws by inversion of the CDF, shape ``shape + batch``."""
        return self.icdf(uniform(noise, (*axes(shape), *self._mass.shape), draw))


@checked
def invert_cdf(
    cdf: Callable[[Floats], ArrayLike], u: ArrayLike, support: tuple[float, float], *, steps: int = 60
) -> Floats:
    """Least x with cdf(x) >= u, by bisection of all numbers at once; within a flat piece its left end.

    Parameters
    ----------
    cdf : callable
        Distribution function at an array of points, not falling.
    u : array of numbers in [0, 1]
    support : (low, high)
        Finite ends; numbers of which the cdf says that they lie outside go to the end.
    steps : int, default 60
        Halvings: they leave 1e-18 of the width of the support.
    """
    low, high = _ends(support)
    if steps < 0:
        raise UserValueError.must("steps", "be at least 0", steps)
    goal = floats(u, "u")
    if not ((goal >= 0) & (goal <= 1)).all():
        raise UserValueError("u must be in [0, 1]", "u")
    lower, upper = np.full(goal.shape, float(low)), np.full(goal.shape, float(high))
    for _ in range(steps):
        middle = lower + (upper - lower) / 2
        mass = answers(cdf(middle), goal.shape, "cdf")
        if np.isnan(mass).any():
            raise UserValueError("cdf must return numbers in [0, 1], got NaN", "cdf")
        reached = mass >= goal
        lower, upper = np.where(reached, lower, middle), np.where(reached, middle, upper)
    return upper


def _ends(support: Any) -> tuple[float, float]:
    ends = floats(support, "support")
    if ends.shape != (2,) or not np.isfinite(ends).all() or not ends[0] < ends[1]:
        raise UserValueError.must("support", "be finite ends (low, high) with low < high", support)
    return float(ends[0]), float(ends[1])


@checked
def inverse_transform_sample(
    n: int,
    noise: Any,
    support: ArrayLike,
    *,
    cdf: Callable[[Floats], ArrayLike] | None = None,
    pdf: Callable[[Floats], ArrayLike] | None = None,
    pmf: Callable[[Floats], ArrayLike] | ArrayLike | None = None,
    n_grid: int = 20_001,
) -> Floats:
    """Draw numbers from a distribution given by its distribution function, density or masses: x = F^-1(u), u uniform.

    Parameters
    ----------
    n : int >= 0
    noise : Noise
    support : (low, high), or array of shape (m,) with `pmf`
        Finite ends of the distribution, or beyond which it has no mass worth having; with `pmf` the values that come.
    cdf : callable, optional
        Inverted by bisection; the mass that it puts beyond an end goes to that end.
    pdf : callable, optional
        Or a density, up to a constant: its integral is tabulated at `n_grid` points by the trapezoid rule and
        inverted exactly for the density that is linear between them.
    pmf : callable or array of shape (m,), optional
        Or masses of the values, up to a constant; a value of mass 0 never comes. Cost O(m + n log m).
    n_grid : int >= 2, default 20,001

    Returns
    -------
    float64 array of shape (n,)

    Raises
    ------
    UserValueError
        None or more than one of cdf, pdf and pmf; a density or masses that are negative or all 0.

    References
    ----------
    Devroye (1986), section 2.2.

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> bool((inverse_transform_sample(9, Noise(0, "x"), (0, 1), pdf=lambda x: 2 * x) > 0).all())
    True
    >>> dice = inverse_transform_sample(600, Noise(0, "x"), range(1, 7), pmf=[1, 1, 1, 1, 1, 5])
    >>> 250 < int((dice == 6).sum()) < 350
    True
    """
    if sum(one is not None for one in (cdf, pdf, pmf)) != 1:
        raise UserValueError("exactly one of cdf, pdf and pmf must be given", "cdf, pdf, pmf")
    if pmf is not None:
        return _of_masses(pmf, support, uniform(noise, (n,), 0))
    if n_grid < 2:
        raise UserValueError.must("n_grid", "be at least 2", n_grid)
    affordable(n_grid, "n_grid", "take fewer", each=64)
    ends = _ends(support)
    u = uniform(noise, (n,), 0)
    if cdf is not None:
        return invert_cdf(cdf, u, ends)
    assert pdf is not None
    x = np.linspace(*ends, n_grid)
    p = answers(pdf(x), x.shape, "pdf")
    if not np.isfinite(p).all() or (p < 0).any() or not p.any():
        raise UserValueError("pdf must be finite and at least 0, and positive somewhere on the support", "pdf")
    step = x[1] - x[0]
    total = np.concatenate([[0.0], np.cumsum((p[1:] + p[:-1]) / 2 * step)])
    goal = u * total[-1]
    cell = np.minimum(np.searchsorted(total, goal, side="right") - 1, n_grid - 2)
    left, slope, rest = p[cell], (p[cell + 1] - p[cell]) / step, goal - total[cell]
    # rest = left t + slope t^2 / 2, solved in the form that does not cancel
    root = np.sqrt(np.maximum(left**2 + 2 * slope * rest, 0.0))
    t = np.divide(2 * rest, left + root, out=np.zeros_like(rest), where=left + root > 0)
    return x[cell] + np.clip(t, 0.0, step)


def _of_masses(pmf: Callable[[Floats], ArrayLike] | ArrayLike, support: ArrayLike, u: Floats) -> Floats:
    values = floats(support, "support")
    if values.ndim != 1 or not values.size or not np.isfinite(values).all():
        raise UserValueError.must("support", "be the finite values that have a mass, an array of shape (m,)", values)
    mass = answers(pmf(values) if callable(pmf) else pmf, values.shape, "pmf")
    if not np.isfinite(mass).all() or (mass < 0).any() or not mass.any():
        raise UserValueError("pmf must be finite and at least 0, and positive somewhere", "pmf")
    return values[search_mass(mass, u)]
