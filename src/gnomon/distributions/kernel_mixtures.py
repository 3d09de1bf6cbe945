r"""Kernel mixtures :math:`f(y | P) = \int K(y | \theta) \, dP(\theta)`, and the measures P that they mix over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from gnomon.distributions.family import axes, normal, uniform
from gnomon.distributions.table import search_mass
from gnomon.distributions.vectors import MultivariateNormal, positive_definite
from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.given import floats

__all__ = [
    "DiscreteMeasure", "EmpiricalMeasure", "KernelFamily", "KernelMixture", "Measure", "MixedMeasure",
    "NormalKernel", "NormalMeasure", "bandwidth_factor", "kernel_density",
]  # fmt: skip

NUMBERS = 1 << 22
"""Pairs of rows and points of one chunk: 32 MB."""
NODES = 64
"""Nodes of a quadrature in each direction."""

Floats = NDArray[np.float64]


class Measure(Protocol):
    """A probability measure on vectors: not negative, of total mass 1, additive over disjoint sets."""

    size: int
    """Length d of a vector."""

    def mass(self, low: ArrayLike, high: ArrayLike) -> float:
        """P(low < theta <= high), of a box with ends of shape (d,), which may be infinite."""

    def points(self) -> tuple[Floats, Floats]:
        """Points (m, d) and log masses (m,) that integrals are sums over: all of it, or nodes of a quadrature."""

    def sample(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> Floats:
        """Independent draws, shape + (d,)."""


class KernelFamily(Protocol):
    """A family of densities of y with a parameter theta."""

    def log_prob(self, y: Floats, theta: Floats) -> Floats:
        """log K(y | theta) in nats of every row (n, d) under every parameter (m, d), shape (n, m)."""

    def sample(self, theta: Floats, noise: Any, draw: int = 0) -> Floats:
        """A draw from the density of each parameter (m, d)."""


class DiscreteMeasure:
    r"""Masses on points, :math:`P = \sum_i w_i \delta_{\theta_i}`.

    Parameters
    ----------
    values : array of shape (m, d) or (m,)
        theta_i; equal ones add up.
    weights : array of shape (m,), optional
        Not negative, summing to 1 within 1e-6; equal by default.

    Raises
    ------
    UserValueError
        Weights that are no measure, another number of them.

    Examples
    --------
    >>> coin = DiscreteMeasure([0.0, 1.0], [0.25, 0.75])
    >>> coin.mass([0.0], [1.0]), coin.mass([-np.inf], [np.inf])
    (0.75, 1.0)
    """

    def __init__(self, values: ArrayLike, weights: ArrayLike | None = None) -> None:
        self.values = _vectors(values, "values")
        m, self.size = self.values.shape
        self.weights = np.full(m, 1 / m) if weights is None else _masses(weights, m)

    def mass(self, low: ArrayLike, high: ArrayLike) -> float:
        """See `Measure`."""
        inside = ((self.values > _end(low, self.size)) & (self.values <= _end(high, self.size))).all(1)
        return float(self.weights[inside].sum())

    def points(self) -> tuple[Floats, Floats]:
        """See `Measure`."""
        with np.errstate(divide="ignore"):
            return self.values, np.log(self.weights)

    def sample(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> Floats:
        """See `Measure`."""
        return self.values[search_mass(self.weights, uniform(noise, axes(shape), draw))]

    @property
    def mean(self) -> Floats:
        """Mean of theta, (d,)."""
        return self.weights @ self.values

    @property
    def covariance(self) -> Floats:
        """Covariance of theta, (d, d)."""
        away = self.values - self.mean
        return (away * self.weights[:, None]).T @ away


class EmpiricalMeasure(DiscreteMeasure):
    """The shares of rows that were seen.

    Parameters
    ----------
    rows : array of shape (n, d) or (n,)
    weights : array of shape (n,), optional
        Not negative, not all 0; divided by their sum. Equal by default.

    Examples
    --------
    >>> EmpiricalMeasure([1.0, 1.0, 4.0, 6.0]).mass([0.0], [4.0])
    0.75
    """

    def __init__(self, rows: ArrayLike, weights: ArrayLike | None = None) -> None:
        shares = None if weights is None else floats(weights, "weights")
        total = 0.0 if shares is None else float(shares.sum())
        super().__init__(rows, None if shares is None else shares / (total if total > 0 else 1.0))

    @property
    def effective_size(self) -> float:
        """1 / sum of the squared shares: of equal ones their number."""
        return 1 / float((self.weights**2).sum())


class NormalMeasure:
    """A normal distribution of theta.

    Parameters
    ----------
    loc : array of shape (d,)
    covariance : array of shape (d, d), positive definite

    Examples
    --------
    >>> round(NormalMeasure([0.0], [[1.0]]).mass([-np.inf], [0.0]), 12)
    0.5
    """

    def __init__(self, loc: ArrayLike, covariance: ArrayLike) -> None:
        self.normal = MultivariateNormal(loc, covariance)
        self.size = len(self.normal.loc)

    def mass(self, low: ArrayLike, high: ArrayLike) -> float:
        """See `Measure`; beyond three columns to the accuracy of SciPy's quadrature, 1e-5."""
        ends = _end(low, self.size), _end(high, self.size)
        if (ends[0] >= ends[1]).any():
            return 0.0
        found = multivariate_normal(self.mean, self.covariance).cdf(ends[1], lower_limit=ends[0])
        return min(max(float(found), 0.0), 1.0)

    def points(self) -> tuple[Floats, Floats]:
        """Nodes of Gauss-Hermite quadrature, of one or two columns.

        Raises
        ------
        UserValueError
            More columns.
        """
        if self.size > 2:
            what = f"theta must have at most 2 columns to integrate over other kernels, got {self.size}"
            raise UserValueError(what, "measure", "mix over draws: EmpiricalMeasure(measure.sample(...))")
        ticks, weights = np.polynomial.hermite_e.hermegauss(NODES)
        grid = np.stack(np.meshgrid(*[ticks] * self.size, indexing="ij"), -1).reshape(-1, self.size)
        parts = np.stack(np.meshgrid(*[np.log(weights)] * self.size, indexing="ij"), -1).reshape(-1, self.size)
        log_weights = parts.sum(1)
        return self.mean + grid @ self.normal.factor.T, log_weights - logsumexp(log_weights)

    def sample(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> Floats:
        """See `Measure`."""
        return self.normal.sample(noise, draw, shape)

    @property
    def mean(self) -> Floats:
        """Mean of theta, (d,)."""
        return self.normal.loc

    @property
    def covariance(self) -> Floats:
        """Covariance of theta, (d, d)."""
        return self.normal.covariance


class MixedMeasure:
    r"""A mixture of measures, :math:`P = \int P_\eta \, dH(\eta)` with a discrete H.

    Parameters
    ----------
    measures : sequence of Measure
        Of vectors of one length.
    weights : array of shape (m,)
        H: not negative, summing to 1 within 1e-6.

    Examples
    --------
    >>> both = MixedMeasure([DiscreteMeasure([0.0]), NormalMeasure([0.0], [[1.0]])], [0.5, 0.5])
    >>> round(both.mass([-np.inf], [0.0]), 12)
    0.75
    """

    def __init__(self, measures: Sequence[Any], weights: ArrayLike) -> None:
        self.measures = tuple(measures)
        self.weights = _masses(weights, len(self.measures))
        sizes = {one.size for one in self.measures}
        if len(sizes) != 1:
            raise UserValueError(f"measures must be of vectors of one length, got {sorted(sizes)}", "measures")
        self.size = sizes.pop()

    def mass(self, low: ArrayLike, high: ArrayLike) -> float:
        """See `Measure`."""
        return float(self.weights @ [one.mass(low, high) for one in self.measures])

    def points(self) -> tuple[Floats, Floats]:
        """See `Measure`."""
        parts = [one.points() for one in self.measures]
        with np.errstate(divide="ignore"):
            log_w = np.log(self.weights)
        masses = [log_w[k] + log_mass for k, (_, log_mass) in enumerate(parts)]
        return np.concatenate([values for values, _ in parts]), np.concatenate(masses)

    def sample(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> Floats:
        """See `Measure`."""
        which = search_mass(self.weights, uniform(noise.child("measure"), axes(shape), draw))
        parts = [one.sample(noise.child(str(k)), draw, shape) for k, one in enumerate(self.measures)]
        found: Floats = np.take_along_axis(np.stack(parts), which[None, ..., None], 0)[0]
        return found

    @property
    def mean(self) -> Floats:
        """Mean of theta, (d,)."""
        return self.weights @ np.stack([one.mean for one in self.measures])

    @property
    def covariance(self) -> Floats:
        """Covariance of theta, (d, d)."""
        means = np.stack([one.mean for one in self.measures]) - self.mean
        inner = np.stack([one.covariance for one in self.measures]) + means[:, :, None] * means[:, None]
        return np.tensordot(self.weights, inner, 1)


class NormalKernel:
    """N(y; theta, covariance).

    Parameters
    ----------
    covariance : array of shape (d, d), positive definite; or a number, the variance of one column

    Examples
    --------
    >>> NormalKernel(1.0).log_prob(np.array([[0.0]]), np.array([[0.0], [1.0]])).round(6).tolist()
    [[-0.918939, -1.418939]]
    """

    def __init__(self, covariance: ArrayLike) -> None:
        given = np.atleast_2d(floats(covariance, "covariance"))
        self.covariance = positive_definite(given, "covariance")
        self.factor = np.asarray(np.linalg.cholesky(self.covariance), np.float64)

    def log_prob(self, y: Floats, theta: Floats) -> Floats:
        """See `KernelFamily`."""
        white = [np.linalg.solve(self.factor, x.T).T for x in (y, theta)]
        constant = np.log(self.factor.diagonal()).sum() + 0.5 * y.shape[1] * math.log(2 * math.pi)
        found: Floats = -0.5 * cdist(*white, "sqeuclidean") - constant
        return found

    def sample(self, theta: Floats, noise: Any, draw: int = 0) -> Floats:
        """See `KernelFamily`."""
        return theta + normal(noise, theta.shape, draw) @ self.factor.T


class KernelMixture:
    r"""The density :math:`f(y | P) = \int K(y | \theta) \, dP(\theta)`.

    A sum of kernels for a discrete measure: with the empirical one of rows a kernel density estimate
    (`kernel_density`). A normal measure under a normal kernel is :math:`N(m, S + T)` in closed form; under another
    kernel it is integrated by quadrature of 64 nodes in each of at most two directions, good for kernels that are
    smooth in theta.

    Parameters
    ----------
    kernel : KernelFamily
        `NormalKernel`, or an object with ``log_prob(y, theta)`` and ``sample(theta, noise, draw)``.
    measure : Measure
        `DiscreteMeasure`, `EmpiricalMeasure`, `NormalMeasure`, `MixedMeasure`.

    Raises
    ------
    UserTypeError, UserValueError
        What is no kernel or no measure, vectors of other lengths.

    Notes
    -----
    Cost O(n m d + (n + m) d^2) for n rows and m points, in chunks. Sources: Lo (1984), "On a class of Bayesian
    nonparametric estimates: I. Density estimates"; Parzen (1962); Scott (1992).

    Examples
    --------
    >>> normal_again = KernelMixture(NormalKernel(3.0), NormalMeasure([1.0], [[1.0]]))
    >>> float(normal_again.density([1.0]).round(6)[0])  # that of N(1, 4)
    0.199471
    """

    def __init__(self, kernel: Any, measure: Any) -> None:
        if isinstance(kernel, type) or not all(hasattr(kernel, verb) for verb in ("log_prob", "sample")):
            raise UserTypeError(f"kernel must have log_prob(y, theta) and sample, got {kernel!r}", "kernel")
        if isinstance(measure, type) or not all(hasattr(measure, verb) for verb in ("points", "mass", "size")):
            raise UserTypeError(f"measure must have points, mass and size, got {measure!r}", "measure")
        self.kernel, self.measure = kernel, measure
        own = getattr(kernel, "covariance", None)
        if own is not None and len(own) != measure.size:
            what = f"kernel and measure must be of vectors of one length, got {len(own)} and {measure.size}"
            raise UserValueError(what, "kernel")

    @property
    def size(self) -> int:
        """Length d of a row."""
        return int(self.measure.size)

    def density(self, y: ArrayLike) -> Floats:
        """f(y | P) of rows (n, d), or of numbers (n,) where d is 1; shape (n,)."""
        return np.exp(self.log_prob(y))

    def log_prob(self, y: ArrayLike) -> Floats:
        """Its logarithm in nats."""
        rows = _vectors(y, "y")
        if rows.shape[1] != self.size:
            raise UserValueError(f"y must have {self.size} columns, got {rows.shape[1]}", "y")
        if isinstance(self.kernel, NormalKernel):
            return self._under_normal_kernel(rows, self.measure)
        return self._summed(rows, *self.measure.points())

    def _under_normal_kernel(self, rows: Floats, measure: Any) -> Floats:
        """Closed forms of normal measures, in mixtures too."""
        if isinstance(measure, NormalMeasure):
            whole: Floats = MultivariateNormal(measure.mean, self.kernel.covariance + measure.covariance).log_prob(rows)
            return whole
        if not isinstance(measure, MixedMeasure):
            return self._summed(rows, *measure.points())
        parts = np.stack([self._under_normal_kernel(rows, one) for one in measure.measures], 1)
        return logsumexp(parts, axis=1, b=measure.weights)

    def _summed(self, rows: Floats, values: Floats, log_mass: Floats) -> Floats:
        """Log of the sum over points, some rows at a time."""
        found, step = np.empty(len(rows)), max(1, NUMBERS // len(values))
        for start in range(0, len(rows), step):
            here = slice(start, start + step)
            found[here] = logsumexp(self.kernel.log_prob(rows[here], values) + log_mass, axis=1)
        return found

    def sample(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> Floats:
        """Draws of shape + (d,): theta from the measure, then y from its kernel."""
        theta = self.measure.sample(noise.child("theta"), draw, axes(shape))
        flat = self.kernel.sample(theta.reshape(-1, self.size), noise.child("y"), draw)
        return np.asarray(flat, np.float64).reshape(theta.shape)


def bandwidth_factor(measure: EmpiricalMeasure, rule: str | float = "scott") -> float:
    r"""What the deviation of the rows is multiplied by for the deviation of a normal kernel, as SciPy has it.

    Parameters
    ----------
    measure : EmpiricalMeasure
    rule : {"scott", "silverman"} or float in (0, inf)
        :math:`n^{-1/(d + 4)}`; :math:`(n (d + 2) / 4)^{-1/(d + 4)}`, with the effective number n of rows; or the
        factor itself.

    Examples
    --------
    >>> round(bandwidth_factor(EmpiricalMeasure([0.0, 1.0]), "scott"), 6)
    0.870551
    """
    n, d = measure.effective_size, measure.size
    if rule == "scott":
        return float(n ** (-1 / (d + 4)))
    if rule == "silverman":
        return float((n * (d + 2) / 4) ** (-1 / (d + 4)))
    if isinstance(rule, str | bool) or not hasattr(rule, "__float__") or not 0 < float(rule) < math.inf:
        raise UserValueError.must("bandwidth", "be scott, silverman or a factor above 0", rule)
    return float(rule)


def kernel_density(
    rows: ArrayLike, weights: ArrayLike | None = None, *, bandwidth: str | float = "scott"
) -> KernelMixture:
    r"""Gaussian kernel density estimate: the kernel mixture of the empirical measure.

    The kernel's covariance is :math:`h^2 S` with the factor h of `bandwidth_factor` and the covariance S of the rows,
    with divisor n - 1 (of weights :math:`1 - \sum_i w_i^2`): a number is a factor of deviations and no width in the
    units of the data.

    Parameters
    ----------
    rows : array of shape (n, d) or (n,)
        More than d of them that differ in every direction.
    weights : array of shape (n,), optional
    bandwidth : {"scott", "silverman"} or float in (0, inf)

    Raises
    ------
    UserValueError
        Rows that lie in a plane, a factor that is not above 0.

    Examples
    --------
    >>> estimate = kernel_density([1.0, 2.0, 4.0])
    >>> estimate.density([2.0, 4.0]).round(3).tolist()
    [0.215, 0.143]
    """
    measure = EmpiricalMeasure(rows, weights)
    left = 1 - 1 / measure.effective_size
    if left <= 0:
        raise UserValueError("rows must be at least 2 of weight above 0 to have a covariance", "rows")
    spread = measure.covariance / left
    _check_directions(spread, measure.values)
    return KernelMixture(NormalKernel(bandwidth_factor(measure, bandwidth) ** 2 * spread), measure)


def _check_directions(covariance: Floats, rows: Floats) -> None:
    """Refuse rows that differ by rounding alone in some direction, whatever the units of the columns."""
    deviation, few = np.sqrt(np.diag(covariance)), len(covariance) * np.finfo(np.float64).eps
    varies = (deviation > few * np.abs(rows).max(0)).all()
    if varies and np.linalg.eigvalsh(covariance / np.outer(deviation, deviation))[0] > 4 * few:
        return
    what = "rows must differ in every direction for their covariance to be positive definite"
    raise UserValueError(what, "rows", "leave out columns that are constant or follow from others")


def _vectors(x: ArrayLike, name: str) -> Floats:
    found = floats(x, name)
    found = found[:, None] if found.ndim == 1 else found
    if found.ndim != 2 or not found.shape[1] or not len(found):
        raise UserValueError(f"{name} must be rows (n, d), or numbers (n,), got shape {found.shape}", name)
    if not np.isfinite(found).all():
        raise UserValueError(f"{name} must be finite", name)
    return found


def _masses(weights: ArrayLike, m: int) -> Floats:
    found = floats(weights, "weights")
    if found.shape != (m,):
        raise UserValueError(f"weights must be {m} numbers, got shape {found.shape}", "weights")
    total = float(found.sum())
    if not (found >= 0).all() or not abs(total - 1) <= 1e-6:
        what = f"weights must be at least 0 and sum to 1, got {total:.6g}"
        raise UserValueError(what, "weights", "divide them by their sum")
    return found / total


def _end(given: ArrayLike, d: int) -> Floats:
    found = floats(given, "low, high")
    if found.shape not in ((), (d,)) or np.isnan(found).any():
        raise UserValueError(f"an end of a box must be {d} numbers, got shape {found.shape}", "low, high")
    return np.broadcast_to(found, (d,))
