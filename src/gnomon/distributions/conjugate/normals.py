"""Conjugate pairs of normal numbers: mean, precision, or both unknown."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from gnomon.distributions.conjugate.base import Pair, Spread, in_range, positive, real
from gnomon.distributions.family import Floats
from gnomon.distributions.normal_wishart import NormalGamma
from gnomon.distributions.positive import Gamma, InverseGamma
from gnomon.distributions.real import Normal, StudentT
from gnomon.numeric.given import check_fields

__all__ = ["NormalMean", "NormalMeanPrecision", "NormalPrecision"]


@dataclass(frozen=True)
class NormalMean(Pair):
    """Mean of normal numbers of known variance, with a normal distribution.

    Parameters
    ----------
    mean : float
    variance : float, positive
        Of the mean's distribution (neither standard deviation nor precision).
    noise_variance : float, positive
        Of the numbers around the mean.

    Examples
    --------
    >>> NormalMean(0.0, 1.0, noise_variance=1.0).update([1.0, 2.0, 3.0])
    NormalMean(mean=1.5, variance=0.25, noise_variance=1.0)
    """

    mean: float = 0.0
    variance: float = 1.0
    noise_variance: float = 1.0
    likelihood: ClassVar[str] = "normal"
    prior: ClassVar[str] = "normal"

    def __post_init__(self) -> None:
        check_fields(self)
        real(mean=self.mean)
        positive(variance=self.variance, noise_variance=self.noise_variance)

    def _moved(self, x: Floats, weight: Floats) -> Self:
        n = weight.sum()
        precision = 1 / self.variance + n / self.noise_variance
        in_range(precision)
        shift = (weight * (x - self.mean)).sum() / self.noise_variance
        return replace(self, mean=float(self.mean + shift / precision), variance=float(1 / precision))

    def _log_evidence(self, x: Floats, weight: Floats) -> float:
        """By squares around the rows' mean: large offsets cancel nothing."""
        n, v = float(weight.sum()), self.noise_variance
        if not n:
            return 0.0
        center = float((weight * x).sum() / n)
        squares = float((weight * (x - center) ** 2).sum())
        apart = n * math.log(2 * math.pi * v) + math.log1p(n * self.variance / v)
        return -(apart + squares / v + n * (center - self.mean) ** 2 / (n * self.variance + v)) / 2

    @property
    def natural(self) -> Floats:
        """Mean times precision, and precision, of the mean's distribution."""
        return np.array([self.mean, 1.0]) / self.variance

    def with_natural(self, natural: ArrayLike) -> Self:
        """The pair of these natural parameters."""
        weighted, precision = np.asarray(natural, np.float64)
        return replace(self, mean=float(weighted / precision), variance=float(1 / precision))

    def _mean_log_likelihood(self, x: Floats) -> Floats:
        v = self.noise_variance
        found: Floats = -0.5 * (math.log(2 * math.pi * v) + ((x - self.mean) ** 2 + self.variance) / v)
        return found

    @property
    def log_normalizer(self) -> float:
        """log sqrt(2 pi v) + m^2 / (2 v)."""
        return 0.5 * math.log(2 * math.pi * self.variance) + self.mean**2 / (2 * self.variance)

    def distribution(self) -> Normal:
        """Normal distribution of the mean."""
        return Normal(self.mean, math.sqrt(self.variance))

    def predictive(self) -> Normal:
        """Normal, with both variances added."""
        return Normal(self.mean, math.sqrt(self.variance + self.noise_variance))

    def spread(self) -> Spread:
        """Both variances."""
        return Spread(self.variance, self.noise_variance)


@dataclass(frozen=True)
class NormalPrecision(Pair):
    """Precision 1 / variance of normal numbers of known mean, with a gamma distribution.

    Parameters
    ----------
    concentration, rate : float, positive
        Shape a and rate b of the gamma distribution (b is no scale).
    mean : float
        The known mean.
    """

    concentration: float = 1.0
    rate: float = 1.0
    mean: float = 0.0
    likelihood: ClassVar[str] = "normal"
    prior: ClassVar[str] = "gamma"

    def __post_init__(self) -> None:
        check_fields(self)
        real(mean=self.mean)
        positive(concentration=self.concentration, rate=self.rate)

    def _moved(self, x: Floats, weight: Floats) -> Self:
        a = self.concentration + weight.sum() / 2
        b = self.rate + (weight * (x - self.mean) ** 2).sum() / 2
        in_range(a, b)
        return replace(self, concentration=float(a), rate=float(b))

    def _log_base(self, x: Floats, weight: Floats) -> float:
        return float(-weight.sum() / 2 * math.log(2 * math.pi))

    @property
    def natural(self) -> Floats:
        """a and b."""
        return np.array([self.concentration, self.rate])

    def with_natural(self, natural: ArrayLike) -> Self:
        """The pair of these natural parameters."""
        a, b = np.asarray(natural, np.float64)
        return replace(self, concentration=float(a), rate=float(b))

    def _mean_log_likelihood(self, x: Floats) -> Floats:
        return _of_precision(self.concentration, self.rate, (x - self.mean) ** 2)

    @property
    def log_normalizer(self) -> float:
        """log Gamma(a) - a log b."""
        return math.lgamma(self.concentration) - self.concentration * math.log(self.rate)

    def distribution(self) -> Gamma:
        """Gamma distribution of the precision."""
        return Gamma(self.concentration, self.rate)

    def variance_distribution(self) -> InverseGamma:
        """The same belief about the variance: an inverse gamma distribution."""
        return InverseGamma(self.concentration, self.rate)

    def predictive(self) -> StudentT:
        """Student t with 2 a degrees of freedom and squared scale b / a."""
        return StudentT(2 * self.concentration, self.mean, math.sqrt(self.rate / self.concentration))

    def spread(self) -> Spread:
        """The mean is known; the variance is b / (a - 1) in mean."""
        return Spread(0.0, _mean_variance(self.concentration, self.rate))


@dataclass(frozen=True)
class NormalMeanPrecision(Pair):
    """Mean and precision of normal numbers: precision ~ Gamma(a, b), mean ~ N(m, 1 / (k precision)).

    Parameters
    ----------
    mean : float
    strength : float, positive
        k, how many rows the prior mean is worth.
    concentration, rate : float, positive
        a and b.

    Examples
    --------
    >>> NormalMeanPrecision(0.0, 1.0, 2.0, 1.0).update([1.0, 2.0, 3.0])
    NormalMeanPrecision(mean=1.5, strength=4.0, concentration=3.5, rate=3.5)
    """

    mean: float = 0.0
    strength: float = 1.0
    concentration: float = 1.0
    rate: float = 1.0
    likelihood: ClassVar[str] = "normal"
    prior: ClassVar[str] = "normal-gamma"

    def __post_init__(self) -> None:
        check_fields(self)
        real(mean=self.mean)
        positive(strength=self.strength, concentration=self.concentration, rate=self.rate)

    def _moved(self, x: Floats, weight: Floats) -> Self:
        n = float(weight.sum())
        if n == 0 and not weight.any():
            return self
        k, a = self.strength + n, self.concentration + n / 2
        in_range(k, a)
        # squares around the rows' own mean: large offsets cancel nothing
        center = (weight * x).sum() / n if n else 0.0
        m = (self.strength * self.mean + n * center) / k
        squares = (weight * (x - center) ** 2).sum()
        b = self.rate + squares / 2 + self.strength * n * (center - self.mean) ** 2 / (2 * k)
        in_range(b)
        return replace(self, mean=float(m), strength=float(k), concentration=float(a), rate=float(b))

    def _log_base(self, x: Floats, weight: Floats) -> float:
        return float(-weight.sum() / 2 * math.log(2 * math.pi))

    @property
    def natural(self) -> Floats:
        """k, k m, a, and b + k m^2 / 2."""
        k, m = self.strength, self.mean
        return np.array([k, k * m, self.concentration, self.rate + k * m * m / 2])

    def with_natural(self, natural: ArrayLike) -> Self:
        """The pair of these natural parameters."""
        k, weighted, a, whole = np.asarray(natural, np.float64).tolist()
        rate = whole - weighted * weighted / (2 * k)
        return replace(self, mean=weighted / k, strength=k, concentration=a, rate=rate)

    def _mean_log_likelihood(self, x: Floats) -> Floats:
        return _of_precision(self.concentration, self.rate, (x - self.mean) ** 2) - 0.5 / self.strength

    @property
    def log_normalizer(self) -> float:
        """log Gamma(a) - a log b - log(k) / 2, and a constant."""
        return math.lgamma(self.concentration) - self.concentration * math.log(self.rate) - math.log(self.strength) / 2

    def distribution(self) -> NormalGamma:
        """Joint distribution of mean and precision."""
        return NormalGamma(self.mean, self.strength, self.concentration, self.rate)

    def predictive(self) -> StudentT:
        """Student t with 2 a degrees of freedom and squared scale b (k + 1) / (a k)."""
        square = self.rate * (self.strength + 1) / (self.concentration * self.strength)
        return StudentT(2 * self.concentration, self.mean, math.sqrt(square))

    def spread(self) -> Spread:
        """b / (a - 1) of the rows, a k-th of it of their mean."""
        variance = _mean_variance(self.concentration, self.rate)
        return Spread(variance / self.strength, variance)


def _mean_variance(concentration: float, rate: float) -> float:
    return rate / (concentration - 1) if concentration > 1 else math.inf


def _of_precision(a: float, b: float, squares: Floats) -> Floats:
    """Mean log density of numbers at these squared distances from their mean, the precision Gamma(a, b)."""
    mean_log = float(special.digamma(a)) - math.log(b)
    found: Floats = 0.5 * (mean_log - math.log(2 * math.pi)) - 0.5 * a / b * squares
    return found
