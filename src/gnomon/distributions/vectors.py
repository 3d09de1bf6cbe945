"""Families of vectors and of matrices: Dirichlet, multivariate normal and Student t, Wishart."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from gnomon.distributions.family import Family, Floats, axes, normal, uniform
from gnomon.distributions.positive import log_gamma_quantile, with_shape
from gnomon.errors import UserValueError
from gnomon.numeric.given import checked, floats

__all__ = ["Dirichlet", "MultivariateNormal", "MultivariateStudentT", "Wishart", "positive_definite"]


class Dirichlet(Family):
    r"""Dirichlet density :math:`\prod_k p_k^{a_k - 1} / B(a)` on probability vectors.

    Where entries are 0 it is infinite if the exponents of these sum to less than 0, and 0 if they sum to more.

    Parameters
    ----------
    concentration : array of shape (..., k), positive
        a; the mean is a / sum(a).

    Examples
    --------
    >>> float(Dirichlet([1.0, 1.0, 1.0]).log_prob([0.2, 0.3, 0.5]).round(6))
    0.693147
    """

    parameters: ClassVar[dict[str, str]] = {"concentration": "positive"}

    def __init__(self, concentration: Any) -> None:
        super().__init__(concentration=concentration)
        if not self.batch_shape:
            raise UserValueError("concentration must have one entry per category, got one number", "concentration")
        self.size = self.batch_shape[-1]
        self.batch_shape = self.batch_shape[:-1]

    @property
    def event_shape(self) -> tuple[int, ...]:
        """(k,)."""
        return (self.size,)

    def _torch_distribution(self) -> Any:
        from torch.distributions import Dirichlet

        return Dirichlet(self._own("concentration"), validate_args=False)

    def _support(self, x: Any) -> Any:
        return (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6)

    def _log_density(self, x: Any) -> Any:
        import torch

        a = self._own("concentration")
        normalizer = torch.lgamma(a).sum(-1) - torch.lgamma(a.sum(-1))
        inside = torch.where(x > 0, (a - 1) * torch.where(x > 0, x, 1.0).log(), 0.0).sum(-1)
        edge = torch.where(x == 0, a - 1, 0.0).sum(-1)
        return inside - normalizer + torch.xlogy(edge, torch.zeros_like(edge))

    def _inside(self) -> Any:
        return 1.0 / self.size

    def cdf(self, x: Any) -> Any:
        """Refused: a vector has none."""
        raise UserValueError("a Dirichlet vector has no cdf", "cdf", "use the beta distribution of one entry")

    def icdf(self, u: Any) -> Any:
        """Refused: a vector has none."""
        raise UserValueError("a Dirichlet vector has no inverse cdf", "icdf", "use the beta distribution of one entry")

    def sample(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> Any:
        """Normalized gamma numbers, in the log domain: small concentrations do not underflow to 0 / 0."""
        a = self._plain("concentration")
        u = uniform(noise, (*axes(shape), *self.batch_shape, self.size), draw)
        return self._answer(special.softmax(log_gamma_quantile(a, u), axis=-1))

    def base_noise(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> Any:
        """Uniform numbers, one for each entry."""
        import torch

        return torch.from_numpy(uniform(noise, (*axes(shape), *self.batch_shape, self.size), draw))

    def _quantile(self, u: Any) -> Any:
        a = self._own("concentration")
        return with_shape(a, log_gamma_quantile(self._plain("concentration"), u.numpy())).softmax(-1)


class MultivariateNormal:
    r"""Normal density on vectors, :math:`(2 \pi)^{-d/2} |C|^{-1/2} \exp(-(x - m)^T C^{-1} (x - m) / 2)`.

    The simplest generator: draws are ``m + L z`` of standard normal z, with the Cholesky factor L of C. Components of a
    mixture are batches of their own: `gnomon.distributions.gaussian`.

    Parameters
    ----------
    loc : array of shape (d,)
        The mean m.
    covariance : array of shape (d, d), positive definite
        C, neither precision nor factor.
    jitter : float in [0, inf), default 0
        Added to the diagonal of C, in its units (variances): for matrices that rounding, or columns that depend on
        each other, have left singular. ``covariance`` and all else then are those of the sum. Nothing is added unasked.

    Raises
    ------
    UserValueError
        A matrix that is not positive definite with what is added: an indefinite one takes a jitter above minus its
        least eigenvalue, which is named, and is then another covariance.

    Notes
    -----
    Cost O(d^3) once, O(d^2) for each row.

    Examples
    --------
    >>> pair = MultivariateNormal([0.0, 0.0], [[2.0, 1.0], [1.0, 2.0]])
    >>> pair.factor.round(4).tolist(), float(pair.log_prob([1.0, -1.0]).round(6))
    ([[1.4142, 0.0], [0.7071, 1.2247]], -3.387183)
    >>> float(MultivariateNormal([0.0, 0.0], [[1.0, 0.0], [0.0, 4.0]]).log_prob([[0.0, 0.0]]).round(6)[0])
    -2.531024
    """

    @checked
    def __init__(self, loc: Any, covariance: Any, jitter: float = 0.0) -> None:
        if not 0 <= jitter < math.inf:
            raise UserValueError.must("jitter", "be at least 0 and finite", jitter)
        self._given, self.jitter = (loc, covariance), float(jitter)
        self.loc = _location(loc)
        self.covariance = positive_definite(covariance, "covariance", len(self.loc), self.jitter)
        self._factor = np.asarray(np.linalg.cholesky(self.covariance), np.float64)

    @property
    def event_shape(self) -> tuple[int, ...]:
        """(d,)."""
        return (len(self.loc),)

    @property
    def mean(self) -> Floats:
        """loc."""
        return self.loc

    @property
    def factor(self) -> Floats:
        """L, lower triangular with a positive diagonal and L L^T = C."""
        return self._factor

    @property
    def log_determinant(self) -> float:
        """log |C|."""
        return 2 * float(np.log(self._factor.diagonal()).sum())

    def log_prob(self, x: ArrayLike) -> Floats:
        """Log density in nats of vectors (..., d), shape (...)."""
        d = len(self.loc)
        rows = vectors(x, "x", (d,))
        white = np.linalg.solve(self._factor, (rows - self.loc).reshape(-1, d).T)
        with np.errstate(over="ignore"):
            log_p = -0.5 * ((white**2).sum(0) + d * math.log(2 * math.pi) + self.log_determinant)
        log_p[np.isinf(rows.reshape(-1, d)).any(1)] = -np.inf
        return log_p.reshape(rows.shape[:-1])

    def entropy(self) -> float:
        """Entropy in nats."""
        return 0.5 * (len(self.loc) * (1 + math.log(2 * math.pi)) + self.log_determinant)

    def _kl(self, other: MultivariateNormal) -> float:
        d = len(self.loc)
        if len(other.loc) != d:
            raise UserValueError(f"p and q must have one size, got {d} and {len(other.loc)}", "p, q")
        root = np.linalg.solve(other._factor, self._factor)
        offset = np.linalg.solve(other._factor, other.loc - self.loc)
        change = other.log_determinant - self.log_determinant
        return float(0.5 * ((root**2).sum() + (offset**2).sum() - d + change))

    def sample(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> Floats:
        """Vectors of shape ``shape + (d,)``."""
        z = normal(noise, (*axes(shape), len(self.loc)), draw)
        return self.loc + np.matmul(z, self._factor.T)

    def rsample(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> Any:
        """The vectors of `sample` as a tensor: gradients pass to a mean and a covariance that were given as tensors."""
        return self.transform(self.base_noise(noise, draw, shape))

    def base_noise(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> Any:
        """Standard normal numbers, a float64 tensor of shape ``shape + (d,)``."""
        import torch

        return torch.from_numpy(normal(noise, (*axes(shape), len(self.loc)), draw))

    def transform(self, e: Any) -> Any:
        """``m + L e``."""
        import torch

        loc, covariance = (torch.as_tensor(one, dtype=torch.float64) for one in self._given)
        covariance = covariance + self.jitter * torch.eye(len(self.loc), dtype=torch.float64)
        return loc + e @ torch.linalg.cholesky(covariance).T


class MultivariateStudentT:
    """Student's t on vectors: the predictive of a normal whose mean and covariance are unknown.

    Parameters
    ----------
    df : float, positive
        Degrees of freedom.
    loc : array of shape (d,)
    scale : array of shape (d, d), positive definite
        Not the covariance, which is scale df / (df - 2) for df > 2.

    Examples
    --------
    >>> float(MultivariateStudentT(3.0, [0.0], [[1.0]]).log_prob([[0.0]]).round(6)[0])
    -1.000889
    """

    @checked
    def __init__(self, df: float, loc: ArrayLike, scale: ArrayLike) -> None:
        if not 0 < df < math.inf:
            raise UserValueError.must("df", "be positive", df)
        self.df, self.loc = float(df), _location(loc)
        self.scale = positive_definite(scale, "scale", len(self.loc))
        self._factor = np.linalg.cholesky(self.scale)

    @property
    def mean(self) -> Floats:
        """loc; NaN for df <= 1, which has none."""
        return self.loc if self.df > 1 else np.full_like(self.loc, np.nan)

    @property
    def covariance(self) -> Floats:
        """scale df / (df - 2); infinite entries for df <= 2."""
        return self.scale * (self.df / (self.df - 2)) if self.df > 2 else np.full_like(self.scale, np.inf)

    def log_prob(self, x: ArrayLike) -> Floats:
        """Log density in nats of vectors (..., d), shape (...)."""
        d = len(self.loc)
        rows = vectors(x, "x", (d,))
        white = np.linalg.solve(self._factor, (rows - self.loc).reshape(-1, d).T)
        size = np.maximum(np.abs(white).max(0), 1.0)  # squares of the rest do not overflow
        share = ((white / size) ** 2).sum(0)
        log_squares = 2 * np.log(size) + np.log(share / self.df + size**-2.0)
        constant = (
            math.lgamma((self.df + d) / 2) - math.lgamma(self.df / 2) - d / 2 * math.log(self.df * math.pi)
            - np.log(self._factor.diagonal()).sum()
        )  # fmt: skip
        far = np.isinf(rows).any(-1)
        log_p = constant - (self.df + d) / 2 * log_squares.reshape(rows.shape[:-1])
        return np.where(far, -np.inf, log_p)

    def sample(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> Floats:
        """Normal vectors over the root of a chi-square number each, shape ``shape + (d,)``; two calls of noise."""
        z = normal(noise, (*axes(shape), len(self.loc)), draw)
        chi = 2 * np.exp(log_gamma_quantile(np.array(self.df / 2), uniform(noise, shape, draw + 1)))
        root = np.sqrt(np.maximum(chi / self.df, np.finfo(np.float64).tiny))
        return self.loc + np.matmul(z, self._factor.T) / root[..., None]


class Wishart:
    r"""Wishart density of precision matrices, mean df * scale; sums of df outer products of normals follow it.

    :math:`|L|^{(n - d - 1) / 2} \exp(-\mathrm{tr}(V^{-1} L) / 2) / (2^{n d / 2} |V|^{n / 2} \Gamma_d(n / 2))`

    Parameters
    ----------
    df : float above d - 1
        n.
    scale : array of shape (d, d), positive definite
        V, as in SciPy: not its inverse.

    Examples
    --------
    >>> Wishart(6, [[1.0, 0.0], [0.0, 2.0]]).mean.tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """

    @checked
    def __init__(self, df: float, scale: ArrayLike) -> None:
        self.scale = positive_definite(scale, "scale")
        self.df, d = float(df), len(self.scale)
        if not d - 1 < self.df < math.inf:
            raise UserValueError.must("df", f"be more than {d - 1} for matrices of size {d}", df)
        self._factor = np.linalg.cholesky(self.scale)

    @property
    def log_normalizer(self) -> float:
        """log of 2^(n d / 2) |V|^(n / 2) Gamma_d(n / 2)."""
        d = len(self.scale)
        log_det = 2 * np.log(self._factor.diagonal()).sum()
        return float(self.df / 2 * (d * math.log(2) + log_det) + special.multigammaln(self.df / 2, d))

    @property
    def mean(self) -> Floats:
        """df * scale."""
        return self.df * self.scale

    @property
    def mean_log_determinant(self) -> float:
        """E log |L|."""
        d = len(self.scale)
        halves = special.digamma((self.df - np.arange(d)) / 2).sum()
        return float(halves + d * math.log(2) + 2 * np.log(self._factor.diagonal()).sum())

    def log_prob(self, x: ArrayLike) -> Floats:
        """Log density of matrices of shape (..., d, d); -inf where one is not symmetric and positive definite."""
        d = len(self.scale)
        matrices = vectors(x, "x", (d, d))
        gap = np.abs(matrices - np.swapaxes(matrices, -1, -2)).max((-2, -1))
        symmetric = gap <= 1e-8 * np.abs(matrices).max((-2, -1)) + 1e-12  # False for NaN
        matrices = np.where(symmetric[..., None, None] & np.isfinite(matrices), matrices, -np.eye(d))
        eigenvalues = np.linalg.eigvalsh(matrices)
        valid = (eigenvalues > 0).all(-1)
        log_det = np.log(np.where(eigenvalues > 0, eigenvalues, 1.0)).sum(-1)
        trace = np.trace(np.linalg.solve(self.scale, matrices), axis1=-2, axis2=-1)
        log_p = (self.df - d - 1) / 2 * log_det - trace / 2 - self.log_normalizer
        return np.where(valid, log_p, -np.inf)

    def entropy(self) -> float:
        """Entropy in nats."""
        d = len(self.scale)
        return float(self.log_normalizer - (self.df - d - 1) / 2 * self.mean_log_determinant + self.df * d / 2)

    def _kl(self, other: Wishart) -> float:
        d = len(self.scale)
        if len(other.scale) != d:
            raise UserValueError(f"p and q must have one size, got {d} and {len(other.scale)}", "p, q")
        trace = float(np.trace(np.linalg.solve(other.scale, self.scale)))
        of_logs = (self.df - other.df) / 2 * self.mean_log_determinant
        return of_logs - self.df / 2 * (d - trace) - self.log_normalizer + other.log_normalizer

    def sample(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> Floats:
        """Matrices by Bartlett's (1933) decomposition, shape ``shape + (d, d)``; two calls of noise."""
        d = len(self.scale)
        lower = np.tril(normal(noise, (*axes(shape), d, d), draw), -1)
        halves = (self.df - np.arange(d)) / 2
        chi = 2 * np.exp(log_gamma_quantile(halves, uniform(noise, (*axes(shape), d), draw + 1)))
        lower[..., np.arange(d), np.arange(d)] = np.sqrt(chi)
        root = np.matmul(self._factor, lower)
        return np.matmul(root, np.swapaxes(root, -1, -2))


def vectors(x: Any, name: str, event: tuple[int, ...]) -> Floats:
    """Float64 outcomes whose last axes are those of one outcome, of any number of axes before them.

    Raises
    ------
    UserTypeError, UserValueError
        No real numbers, other last axes.
    """
    values = floats(x, name)
    if values.shape[values.ndim - len(event) :] != event or values.ndim < len(event):
        size = " x ".join(map(str, event))
        raise UserValueError(
            f"{name} must have {size} on the last {'axis' if len(event) == 1 else 'axes'}, got shape {values.shape}",
            name,
        )
    return values


def _location(loc: Any) -> Floats:
    values = floats(loc, "loc")
    if values.ndim != 1 or not values.size or not np.isfinite(values).all():
        raise UserValueError.must("loc", "be d finite numbers", values)
    return values


def positive_definite(matrix: ArrayLike, name: str, d: int | None = None, jitter: float = 0.0) -> Floats:
    """The matrix as float64, made exactly symmetric, with `jitter` added to its diagonal.

    Raises
    ------
    UserValueError
        Another shape, entries that are not finite, a matrix that is not symmetric or not positive definite.
    """
    values = floats(matrix, name)
    if (
        values.ndim != 2
        or values.shape[0] != values.shape[1]
        or not values.size
        or (d is not None and len(values) != d)
    ):
        raise UserValueError.must(name, f"be a square matrix{f' of size {d}' * bool(d)}", values)
    if not np.isfinite(values).all() or not np.allclose(values, values.T, rtol=1e-8, atol=1e-12):
        raise UserValueError(f"{name} must be finite and symmetric", name)
    values = (values + values.T) / 2 + jitter * np.eye(len(values))
    least = float(np.linalg.eigvalsh(values)[0])
    if least <= 0:
        raise UserValueError(f"{name} must be positive definite, got the eigenvalue {least:.3g}", name)
    return values
