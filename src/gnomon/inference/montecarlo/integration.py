"""Integrals as means over draws of a density, over uniform points of a box, or over points that fill it evenly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import qmc

from gnomon.contracts import Array, Noise
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.inference.importance.adapters import as_proposal
from gnomon.inference.montecarlo.expectation import Expectation, RunningMean
from gnomon.numeric.given import affordable, answers, checked, floats
from gnomon.recipes.parameters import how_many

__all__ = ["Integral", "UniformBox", "check_coverage", "integral", "quasi_integral", "volume_integral"]

Floats = NDArray[np.float64]


class UniformBox:
    """The uniform distribution on a box, lower_j < x_j < upper_j.

    Parameters
    ----------
    lower, upper : array of shape (d,), or float for d = 1
        Finite, lower < upper on every side.

    Attributes
    ----------
    log_volume : float
        Log of the product of the sides, which does not overflow with d.

    Raises
    ------
    UserValueError
        When a side is infinite, empty or reversed, naming it.

    Examples
    --------
    >>> UniformBox([0.0] * 500, [100.0] * 500).log_volume.__round__(6)
    2302.585093
    """

    @checked
    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
        low, high = (np.atleast_1d(floats(end, name)) for end, name in ((lower, "lower"), (upper, "upper")))
        if low.shape != high.shape or low.ndim != 1 or not low.size:
            raise UserValueError(
                f"lower and upper must be d numbers each, got shapes {low.shape} and {high.shape}", "lower, upper"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            sides = high - low
        bad = np.flatnonzero(~(np.isfinite(sides) & (sides > 0)))
        if bad.size:
            j = int(bad[0])
            finite = math.isfinite(low[j]) and math.isfinite(high[j])
            remedy = "give lower < upper" if finite else "draw from a density on the whole line by `integral`"
            raise UserValueError(
                f"a side must have a finite positive length, got {low[j]} to {high[j]}", f"side {j}", remedy
            )
        self.lower, self.upper = low, high
        self.log_volume = float(np.log(sides).sum())

    @checked
    def sample(self, n: int, noise: Noise) -> Floats:
        """n points, shape (n, d)."""
        affordable(how_many(n) * len(self.lower), "n", "draw fewer at once")
        u = noise.uniform((n, len(self.lower)), like=np.empty(0))
        return self.lower + (self.upper - self.lower) * u

    def log_prob(self, x: Array) -> Floats:
        """``-log_volume`` inside, -inf outside; (n, d) to (n,)."""
        points = to_numpy(x, "x")
        if points.ndim != 2 or points.shape[1] != len(self.lower):
            raise UserValueError.must("x", f"be (n, {len(self.lower)})", points)
        inside = ((points >= self.lower) & (points <= self.upper)).all(axis=-1)
        return np.where(inside, -self.log_volume, -np.inf)


class Integral(Expectation):
    """The integral of f over where a density p is positive, as E_p[f / p]: see `integral`.

    Parameters
    ----------
    f : callable
        (n, ...) points to (n,) values of any sign.
    proposal : HasLogProb and Samples, or Family
        p, normalized; a distribution of `gnomon.distributions` gives rows, (n, d).
    noise, batch
        As of `Expectation`.
    """

    def __init__(self, f: Callable[[Array], ArrayLike], proposal: Any, noise: Noise, batch: int = 1 << 16) -> None:
        if not hasattr(proposal, "log_prob"):
            raise UserTypeError(f"proposal must have sample and log_prob, got a {type(proposal).__name__}", "proposal")
        proposal = as_proposal(proposal)
        super().__init__(f, proposal, noise, batch)
        self._log_prob = proposal.log_prob
        self._size = self._largest = 0.0

    def values(self, x: Array) -> Floats:
        """f(x) / p(x), divided on the log scale so that a small p does no harm."""
        y, log_p = to_numpy(self.f(x)), to_numpy(self._log_prob(x))
        if y.shape != log_p.shape or y.ndim != 1:
            raise UserValueError(
                f"f must return one number for each of the {len(log_p)} points, got shape {y.shape}", "f"
            )
        bad = np.flatnonzero(~np.isfinite(log_p))
        if bad.size:
            what = f"log_prob must be finite where the proposal draws, got {log_p[bad[0]]}"
            raise UserValueError(what, f"draw {self.count + bad[0]}", "it must be the density that is sampled")
        with np.errstate(divide="ignore", over="ignore"):
            terms = np.sign(y) * np.exp(np.log(np.abs(y)) - log_p)
        lost = np.flatnonzero(np.isinf(terms) & np.isfinite(y))
        if lost.size:
            what = f"f / p overflows: f is {y[lost[0]]}, log p {log_p[lost[0]]:.6g}"
            raise UserValueError(what, f"draw {self.count + lost[0]}", "use importance_sample with log f as the target")
        return terms

    def update(self, values: Array) -> Self:
        """Take terms f / p in."""
        super().update(values)
        size = np.abs(to_numpy(values))
        self._size += float(size.sum())
        self._largest = max(self._largest, float(size.max(initial=0.0)))
        return self

    def merge(self, other: RunningMean) -> Self:
        """Take over the draws of another estimate of the same integral."""
        if not isinstance(other, Integral):
            raise UserTypeError(f"other must be an integral, got a {type(other).__name__}", "other")
        super().merge(other)
        self._size += other._size
        self._largest = max(self._largest, other._largest)
        return self

    @property
    def ess(self) -> float:
        """Effective number of draws, ``(sum |t|)^2 / sum t^2`` of the terms t = f / p, in [1, n]; 0 if all are 0."""
        squares = float(self._scatter) + self.count * float(self._mean) ** 2
        return self._size**2 / squares if squares > 0 else 0.0

    @property
    def max_share(self) -> float:
        """Fraction of the largest term in the sum of all sizes |f / p|, in [1/n, 1]; nan if all are 0."""
        return self._largest / self._size if self._size else math.nan

    @property
    def notice(self) -> str:
        """Why the error should not be trusted: one term makes up more than half, or the tail is heavy; or empty."""
        if self.count > 1 and self.max_share > 0.5:
            return f"one of {self.count} terms makes up {self.max_share:.0%} of the integral: do not trust its error"
        if self.count > 1 and not self._size:
            return f"f is 0 at all {self.count} draws: neither value nor error are to be trusted"
        return super().notice


@checked
def integral(f: Callable[[Array], ArrayLike], proposal: Any, n: int, noise: Noise, *, batch: int = 1 << 16) -> Integral:
    """The integral of f by draws x_i of a density p: ``mean of f(x_i) / p(x_i)``.

    Unbiased, with variance ``(E_p[(f / p)^2] - I^2) / n``: best is p like |f|. Where p is 0 and f is not, a part of the
    integral is missing and no draw shows it (`check_coverage` looks); where p falls faster than f, the variance is
    infinite (``khat``, ``notice``). A positive f so large or small that it is given by its logarithm:
    `gnomon.inference.importance.weights.importance_sample`, whose ``log_mean_weight`` is the log of the integral.

    Parameters
    ----------
    f : callable
        (n, ...) points to (n,) values of any sign.
    proposal : HasLogProb and Samples
        p, normalized: ``sample(n, noise)`` and ``log_prob(x)``.
    n : int, in [1, inf)
        Number of draws.
    noise : Noise
        Draw i uses the numbers of position i.
    batch : int, in [1, inf)
        Draws at a time; bounds the memory.

    Returns
    -------
    Integral
        ``mean`` (the integral), ``standard_error``, ``confint``, ``ess``, ``max_share``; ``run(n_more)`` goes on.

    Raises
    ------
    UserValueError
        When the density is 0 or nan at one of its own draws, or a term is not finite.

    References
    ----------
    Hammersley and Handscomb (1964), "Monte Carlo methods", chapter 5.

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> found = integral(lambda x: np.exp(x[:, 0]), UniformBox(0.0, 1.0), 10_000, Noise(0, "exp"))
    >>> abs(found.mean - (np.e - 1)) < 4 * found.standard_error
    True
    """
    return Integral(f, proposal, noise, batch).extend(n)


@checked
def volume_integral(
    f: Callable[[Array], ArrayLike],
    lower: ArrayLike,
    upper: ArrayLike,
    n: int,
    noise: Noise,
    *,
    batch: int = 1 << 16,
) -> Integral:
    """The integral of f over a box by uniform points: ``V mean f(x_i)``, the volume kept as its logarithm.

    Parameters
    ----------
    f : callable
        (n, d) points to (n,) values.
    lower, upper : array of shape (d,), or float
        The box; infinite, empty and reversed sides are refused.
    n, noise, batch
        As of `integral`, which this is with a `UniformBox`.

    Returns
    -------
    Integral

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> disc = volume_integral(lambda x: (x**2).sum(1) < 1, [-1, -1], [1, 1], 100_000, Noise(0, "disc"))
    >>> abs(disc.mean - np.pi) < 4 * disc.standard_error
    True
    """
    return integral(f, UniformBox(lower, upper), n, noise, batch=batch)


@checked
def quasi_integral(
    f: Callable[[Array], ArrayLike],
    lower: ArrayLike,
    upper: ArrayLike,
    n: int,
    noise: Noise,
    *,
    replicates: int = 16,
) -> RunningMean:
    """The integral of f over a box by Sobol points, which fill it more evenly than independent ones.

    Points of one net are dependent, so their own scatter says nothing of the error. The net is therefore scrambled
    anew `replicates` times; each net's value is unbiased, and the error is that of their mean. For smooth f in few
    dimensions it falls nearly as 1 / n; take ``confint(level, "student")``, since replicates are few.

    Parameters
    ----------
    f : callable
        (n, d) points to (n,) values.
    lower, upper : array of shape (d,), or float
        The box; d at most 21,201.
    n : int
        Points of each net: a power of 2, at most 2^30.
    noise : Noise
        Scrambles the nets.
    replicates : int, in [2, inf), default 16
        Number of nets; the cost is ``n * replicates`` values of f.

    Returns
    -------
    RunningMean
        Of the values of the nets: ``mean``, ``standard_error``, ``confint``.

    References
    ----------
    Sobol (1967); scrambling: Matoušek (1998), "On the L2-discrepancy for anchored boxes"; Owen (1997), "Scrambled net
    variance for integrals of smooth functions".

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> found = quasi_integral(lambda x: np.exp(x[:, 0]), 0.0, 1.0, 256, Noise(0, "exp"))
    >>> found.standard_error < 5e-5
    True
    """
    box = UniformBox(lower, upper)
    if n < 1 or n & (n - 1) or n > 1 << 30:
        raise UserValueError.must("n", "be a power of 2, at most 2^30", n)
    if replicates < 2:
        raise UserValueError.must("replicates", "be at least 2", replicates, remedy="the error needs several nets")
    seeds = noise.integers(1 << 62, (replicates,))
    terms = Integral(f, box, noise).values
    mean = RunningMean()
    for seed in seeds:
        net = qmc.Sobol(len(box.lower), scramble=True, rng=np.random.default_rng(int(seed))).random(n)
        mean.update([np.mean(terms(box.lower + (box.upper - box.lower) * net))])
    return mean


@checked
def check_coverage(
    f: Callable[[Array], ArrayLike], proposal: Any, lower: ArrayLike, upper: ArrayLike, n: int, noise: Noise
) -> None:
    """Look at uniform points of a box for places where f is not 0 but the proposal's density is.

    Draws of the proposal never fall there, so no error of an `integral` shows what is missing. That nothing is found
    proves nothing.

    Parameters
    ----------
    f, proposal
        As of `integral`.
    lower, upper : array of shape (d,), or float
        Where to look.
    n : int, in [1, inf)
        Number of points.
    noise : Noise
        Point i uses the numbers of position i.

    Raises
    ------
    UserValueError
        Naming the first such point and how many there are.
    """
    if n < 1:
        raise UserValueError.must("n", "be at least 1", n)
    x = UniformBox(lower, upper).sample(n, noise)
    if not callable(getattr(proposal, "log_prob", None)):
        raise UserTypeError(f"proposal must have log_prob(x), got a {type(proposal).__name__}", "proposal")
    value, log_q = answers(f(x), (n,), "f"), answers(proposal.log_prob(x), (n,), "proposal")
    missed = np.flatnonzero((value != 0) & (log_q == -np.inf))
    if missed.size:
        raise UserValueError(
            f"the proposal has density 0 at {missed.size} of {n} points where f is not 0",
            f"first at {np.round(x[missed[0]], 6).tolist()}",
            "choose a proposal that covers f",
        )
