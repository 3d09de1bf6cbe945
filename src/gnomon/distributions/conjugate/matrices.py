"""Conjugate pairs of normal vectors: mean, precision matrix, or both together."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from gnomon.distributions.conjugate.base import Pair, Spread, finite, in_range, positive
from gnomon.distributions.family import Floats
from gnomon.distributions.normal_wishart import NormalWishart
from gnomon.distributions.vectors import MultivariateNormal, MultivariateStudentT, Wishart, positive_definite
from gnomon.errors import UserValueError
from gnomon.numeric.given import check_fields, floats

__all__ = ["MultivariateNormalMean", "MultivariateNormalMeanPrecision", "MultivariateNormalPrecision"]


class _Vectors(Pair):
    """What all pairs share: rows of as many columns as the mean has entries."""

    mean: Floats

    def __post_init__(self) -> None:
        check_fields(self)
        mean = floats(self.mean, "mean")
        if mean.ndim != 1 or not mean.size or not np.isfinite(mean).all():
            raise UserValueError.must("mean", "be d finite numbers", mean)
        object.__setattr__(self, "mean", mean)

    def _rows(self, x: ArrayLike) -> Floats:
        rows = finite(x, 2)
        if rows.shape[1] != len(self.mean):
            raise UserValueError.must("x", f"have {len(self.mean)} columns, one for each entry of the mean", rows)
        return rows


def _scatter(x: Floats, weight: Floats, point: Floats) -> Floats:
    """The weighted sum of the outer products of x - point with itself."""
    centered = x - point
    return np.matmul(centered.T, weight[:, None] * centered)


def _squares(x: Floats, matrix: Floats) -> Floats:
    """x^T A x of each row."""
    found: Floats = ((x @ matrix) * x).sum(1)
    return found


@dataclass(frozen=True, eq=False)
class MultivariateNormalMean(_Vectors):
    """Mean of normal vectors of known covariance, with a normal distribution.

    Parameters
    ----------
    mean : array of shape (d,)
    covariance : array of shape (d, d), positive definite
        Of the mean's distribution (no precision).
    noise_covariance : array of shape (d, d), positive definite
        Of the vectors around the mean.

    Examples
    --------
    >>> prior = MultivariateNormalMean([0.0, 0.0], np.eye(2), np.eye(2))
    >>> prior.update([[1.0, 0.0], [2.0, 3.0]]).mean.tolist()
    [1.0, 1.0]
    """

    mean: Floats
    covariance: Floats
    noise_covariance: Floats
    likelihood: ClassVar[str] = "multivariate-normal"
    prior: ClassVar[str] = "multivariate-normal"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("covariance", "noise_covariance"):
            object.__setattr__(self, name, positive_definite(getattr(self, name), name, len(self.mean)))

    def _moved(self, x: Floats, weight: Floats) -> Self:
        noise = np.linalg.inv(self.noise_covariance)
        precision = np.linalg.inv(self.covariance) + weight.sum() * noise
        in_range(float(np.linalg.eigvalsh((precision + precision.T) / 2)[0]))
        shift = np.linalg.solve(precision, np.matmul(noise, (weight[:, None] * (x - self.mean)).sum(0)))
        covariance = np.linalg.inv(precision)
        return replace(self, mean=self.mean + shift, covariance=(covariance + covariance.T) / 2)

    def _log_evidence(self, x: Floats, weight: Floats) -> float:
        """By squares around the rows' mean, as of numbers."""
        n, d = float(weight.sum()), len(self.mean)
        if not n:
            return 0.0
        center = (weight[:, None] * x).sum(0) / n
        scatter = _scatter(x, weight, center)
        wide, noise = n * self.covariance + self.noise_covariance, self.noise_covariance
        of_noise = float(np.linalg.slogdet(noise)[1])
        apart = n * (d * math.log(2 * math.pi) + of_noise) + float(np.linalg.slogdet(wide)[1]) - of_noise
        offset = center - self.mean
        squares = float(np.trace(np.linalg.solve(noise, scatter)) + n * offset @ np.linalg.solve(wide, offset))
        return -(apart + squares) / 2

    @property
    def natural(self) -> Floats:
        """Precision times mean, and precision, of the mean's distribution."""
        precision = np.linalg.inv(self.covariance)
        return np.concatenate([precision @ self.mean, precision.ravel()])

    def with_natural(self, natural: ArrayLike) -> Self:
        """The pair of these natural parameters."""
        d, given = len(self.mean), np.asarray(natural, np.float64)
        covariance = np.linalg.inv(given[d:].reshape(d, d))
        return replace(self, mean=covariance @ given[:d], covariance=(covariance + covariance.T) / 2)

    def _mean_log_likelihood(self, x: Floats) -> Floats:
        noise = np.asarray(np.linalg.inv(self.noise_covariance), np.float64)
        apart = len(self.mean) * math.log(2 * math.pi) - float(np.linalg.slogdet(noise)[1])
        return -0.5 * (apart + _squares(x - self.mean, noise) + float((noise * self.covariance).sum()))

    @property
    def log_normalizer(self) -> float:
        """log sqrt(|2 pi C|) + m^T C^-1 m / 2."""
        squares = self.mean @ np.linalg.solve(self.covariance, self.mean)
        return 0.5 * float(np.linalg.slogdet(2 * math.pi * self.covariance)[1] + squares)

    def distribution(self) -> MultivariateNormal:
        """Normal distribution of the mean."""
        return MultivariateNormal(self.mean, self.covariance)

    def predictive(self) -> MultivariateNormal:
        """Normal, with both covariances added."""
        return MultivariateNormal(self.mean, self.covariance + self.noise_covariance)

    def spread(self) -> Spread:
        """Both covariances."""
        return Spread(self.covariance, self.noise_covariance)


class _WishartPair(_Vectors):
    """What two pairs share: normal vectors about a mean, and the Wishart distribution of their precision matrix."""

    df: float
    inverse_scale: Floats

    def __post_init__(self) -> None:
        super().__post_init__()
        d = len(self.mean)
        object.__setattr__(self, "inverse_scale", positive_definite(self.inverse_scale, "inverse_scale", d))
        if not d - 1 < self.df < math.inf:
            raise UserValueError.must("df", f"be more than {d - 1} for vectors of size {d}", self.df)

    def _log_base(self, x: Floats, weight: Floats) -> float:
        return float(-weight.sum() * len(self.mean) / 2 * math.log(2 * math.pi))

    def _of_wishart(self, x: Floats) -> Floats:
        """Mean log density of rows about the mean, the precision matrix of the Wishart distribution."""
        wishart = Wishart(self.df, np.linalg.inv(self.inverse_scale))
        apart = wishart.mean_log_determinant - len(self.mean) * math.log(2 * math.pi)
        return 0.5 * (apart - _squares(x - self.mean, wishart.mean))

    def _mean_covariance(self) -> Floats:
        """V^-1 / (n - d - 1)."""
        freedom = self.df - len(self.mean) - 1
        return self.inverse_scale / freedom if freedom > 0 else np.full_like(self.inverse_scale, math.inf)


@dataclass(frozen=True, eq=False)
class MultivariateNormalPrecision(_WishartPair):
    """Precision matrix of normal vectors of known mean, with a Wishart distribution.

    Parameters
    ----------
    df : float above d - 1
        Degrees of freedom n.
    inverse_scale : array of shape (d, d), positive definite
        Inverse of the Wishart's scale V: the mean precision is df * V. Sums of outer products are added to it.
    mean : array of shape (d,)
        The known mean.
    """

    df: float
    inverse_scale: Floats
    mean: Floats
    likelihood: ClassVar[str] = "multivariate-normal"
    prior: ClassVar[str] = "wishart"

    def _moved(self, x: Floats, weight: Floats) -> Self:
        matrix = self.inverse_scale + _scatter(x, weight, self.mean)
        return replace(self, df=float(self.df + weight.sum()), inverse_scale=matrix)

    @property
    def natural(self) -> Floats:
        """n and V^-1."""
        return np.concatenate([[self.df], self.inverse_scale.ravel()])

    def with_natural(self, natural: ArrayLike) -> Self:
        """The pair of these natural parameters."""
        d, given = len(self.mean), np.asarray(natural, np.float64)
        return replace(self, df=float(given[0]), inverse_scale=given[1:].reshape(d, d))

    def _mean_log_likelihood(self, x: Floats) -> Floats:
        return self._of_wishart(x)

    @property
    def log_normalizer(self) -> float:
        """That of the Wishart distribution."""
        return self.distribution().log_normalizer

    def distribution(self) -> Wishart:
        """Wishart distribution of the precision matrix."""
        return Wishart(self.df, np.linalg.inv(self.inverse_scale))

    def predictive(self) -> MultivariateStudentT:
        """Student t with n - d + 1 degrees of freedom and scale V^-1 / (n - d + 1)."""
        df = self.df - len(self.mean) + 1
        return MultivariateStudentT(df, self.mean, self.inverse_scale / df)

    def spread(self) -> Spread:
        """Covariances; the mean is known."""
        return Spread(np.zeros_like(self.inverse_scale), self._mean_covariance())


@dataclass(frozen=True, eq=False)
class MultivariateNormalMeanPrecision(_WishartPair):
    """Mean and precision matrix of normal vectors: precision ~ Wishart(n, V), mean ~ N(m, (k precision)^-1).

    Parameters
    ----------
    mean : array of shape (d,)
    strength : float, positive
        k, how many rows the prior mean is worth.
    df : float above d - 1
    inverse_scale : array of shape (d, d), positive definite
        Inverse of V.

    References
    ----------
    Murphy (2007), "Conjugate Bayesian analysis of the Gaussian distribution", section 8.
    """

    mean: Floats
    strength: float
    df: float
    inverse_scale: Floats
    likelihood: ClassVar[str] = "multivariate-normal"
    prior: ClassVar[str] = "normal-wishart"

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(strength=self.strength)

    def _moved(self, x: Floats, weight: Floats) -> Self:
        n = float(weight.sum())
        if n == 0:
            return self
        k = self.strength + n
        in_range(k)
        center = (weight[:, None] * x).sum(0) / n
        offset = center - self.mean
        apart = self.strength * n / k * np.outer(offset, offset)
        matrix = self.inverse_scale + _scatter(x, weight, center) + apart
        mean = (self.strength * self.mean + n * center) / k
        return replace(self, mean=mean, strength=k, df=float(self.df + n), inverse_scale=matrix)

    @property
    def natural(self) -> Floats:
        """k, k m, n, and V^-1 + k m m^T."""
        k, m = self.strength, self.mean
        return np.concatenate([[k], k * m, [self.df], (self.inverse_scale + k * np.outer(m, m)).ravel()])

    def with_natural(self, natural: ArrayLike) -> Self:
        """The pair of these natural parameters."""
        d, given = len(self.mean), np.asarray(natural, np.float64)
        k, mean, df = float(given[0]), given[1 : d + 1] / given[0], float(given[d + 1])
        matrix = given[d + 2 :].reshape(d, d) - k * np.outer(mean, mean)
        return replace(self, mean=mean, strength=k, df=df, inverse_scale=(matrix + matrix.T) / 2)

    def _mean_log_likelihood(self, x: Floats) -> Floats:
        return self._of_wishart(x) - 0.5 * len(self.mean) / self.strength

    @property
    def log_normalizer(self) -> float:
        """That of the Wishart distribution, and -d/2 log k with a constant left out."""
        return self.distribution().precision_distribution().log_normalizer - len(self.mean) / 2 * math.log(
            self.strength
        )

    def distribution(self) -> NormalWishart:
        """Joint distribution of mean and precision matrix."""
        return NormalWishart(self.mean, self.strength, self.df, np.linalg.inv(self.inverse_scale))

    def predictive(self) -> MultivariateStudentT:
        """Student t with n - d + 1 degrees of freedom and scale V^-1 (k + 1) / (k (n - d + 1))."""
        df = self.df - len(self.mean) + 1
        return MultivariateStudentT(df, self.mean, self.inverse_scale * (self.strength + 1) / (self.strength * df))

    def spread(self) -> Spread:
        """Covariances: of the rows, a k-th of it of their mean."""
        covariance = self._mean_covariance()
        return Spread(covariance / self.strength, covariance)
