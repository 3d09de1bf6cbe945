"""Conjugate pairs of zeros and ones, categories, counts, and the end of a uniform distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from gnomon.distributions.bounded import Beta, Uniform
from gnomon.distributions.conjugate.base import Pair, Spread, allowed, finite, in_range, positive
from gnomon.distributions.counts import NegativeBinomial
from gnomon.distributions.family import Floats
from gnomon.distributions.positive import Gamma, Pareto
from gnomon.distributions.table import Categorical
from gnomon.distributions.vectors import Dirichlet
from gnomon.errors import UserValueError
from gnomon.numeric.given import check_fields, floats

__all__ = ["BernoulliBeta", "CategoricalDirichlet", "PoissonGamma", "UniformPareto"]


def _counted(x: ArrayLike) -> Floats:
    """Counts, one per row."""
    return allowed(finite(x, 1), lambda v: (v >= 0) & (v == np.floor(v)), "not a whole number of at least 0")


@dataclass(frozen=True)
class BernoulliBeta(Pair):
    """Probability of a 1 among zeros and ones, with a beta distribution.

    Parameters
    ----------
    ones, zeros : float, positive
        a and b: counts that the prior is worth.

    Examples
    --------
    >>> BernoulliBeta(2, 2).update([1] * 7 + [0] * 3)
    BernoulliBeta(ones=9.0, zeros=5.0)
    """

    ones: float = 1.0
    zeros: float = 1.0
    likelihood: ClassVar[str] = "bernoulli"
    prior: ClassVar[str] = "beta"

    def __post_init__(self) -> None:
        check_fields(self)
        positive(ones=self.ones, zeros=self.zeros)

    def _rows(self, x: ArrayLike) -> Floats:
        return allowed(finite(x, 1), lambda v: (v == 0) | (v == 1), "neither 0 nor 1")

    def _moved(self, x: Floats, weight: Floats) -> Self:
        a, b = self.ones + (weight * x).sum(), self.zeros + (weight * (1 - x)).sum()
        in_range(a, b)
        return replace(self, ones=float(a), zeros=float(b))

    def _log_base(self, x: Floats, weight: Floats) -> float:
        return 0.0

    @property
    def natural(self) -> Floats:
        """a and b."""
        return np.array([self.ones, self.zeros])

    def with_natural(self, natural: ArrayLike) -> Self:
        """The pair of these natural parameters."""
        a, b = np.asarray(natural, np.float64).tolist()
        return replace(self, ones=a, zeros=b)

    def _mean_log_likelihood(self, x: Floats) -> Floats:
        one, zero, both = special.digamma([self.ones, self.zeros, self.ones + self.zeros])
        return np.where(x == 1, one, zero) - both

    @property
    def log_normalizer(self) -> float:
        """log B(a, b)."""
        return float(special.betaln(self.ones, self.zeros))

    def distribution(self) -> Beta:
        """Beta distribution of the probability."""
        return Beta(self.ones, self.zeros)

    @property
    def mode(self) -> float:
        """Most probable value; at an end where a or b is at most 1."""
        if self.ones <= 1 or self.zeros <= 1:
            return 0.5 if self.ones == self.zeros else float(self.ones > self.zeros)
        return (self.ones - 1) / (self.ones + self.zeros - 2)

    def predictive(self) -> Categorical:
        """Distribution of the next 0 or 1."""
        return Categorical(np.log([self.zeros, self.ones]))

    def spread(self) -> Spread:
        """p (1 - p) of the mean p: 1 part in a + b + 1 is doubt."""
        n = self.ones + self.zeros
        share = self.ones * self.zeros / n**2 / (n + 1)
        return Spread(share, n * share)

    def log_evidence_of_counts(self, ones: int, zeros: int) -> float:
        """Log probability of the counts whatever their order: the binomial coefficient is in it.

        Raises
        ------
        UserValueError
            Counts that are negative or no whole numbers.
        """
        _counted([ones, zeros])
        ways = special.gammaln(ones + zeros + 1) - special.gammaln(ones + 1) - special.gammaln(zeros + 1)
        after = replace(self, ones=self.ones + ones, zeros=self.zeros + zeros)
        return float(ways + after.log_normalizer - self.log_normalizer)


@dataclass(frozen=True)
class CategoricalDirichlet(Pair):
    """Probabilities of categories 0 ... k - 1, with a Dirichlet distribution.

    Parameters
    ----------
    concentration : tuple of k floats, positive
        Counts that the prior is worth.
    """

    concentration: tuple[float, ...] = (1.0, 1.0)
    likelihood: ClassVar[str] = "categorical"
    prior: ClassVar[str] = "dirichlet"

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "concentration", tuple(floats(self.concentration, "concentration").ravel().tolist()))
        positive(**{f"concentration[{i}]": a for i, a in enumerate(self.concentration)})

    def _rows(self, x: ArrayLike) -> Floats:
        k = len(self.concentration)
        words = f"no category 0 ... {k - 1}"
        return allowed(finite(x, 1), lambda v: (v >= 0) & (v < k) & (v == np.floor(v)), words)

    def _moved(self, x: Floats, weight: Floats) -> Self:
        return self.add(np.bincount(x.astype(np.int64), weights=weight, minlength=len(self.concentration)))

    def add(self, counts: ArrayLike) -> Self:
        """The posterior after counts by category; fractions are expected counts, negative ones take out."""
        more = floats(counts, "counts")
        if more.shape != (len(self.concentration),):
            what = f"counts must be {len(self.concentration)} numbers, one per category, got shape {more.shape}"
            raise UserValueError(what, "counts")
        after = np.asarray(self.concentration) + more
        in_range(*after)
        return replace(self, concentration=tuple(after.tolist()))

    def _log_base(self, x: Floats, weight: Floats) -> float:
        return 0.0

    @property
    def natural(self) -> Floats:
        """The concentration."""
        return np.array(self.concentration)

    def with_natural(self, natural: ArrayLike) -> Self:
        """The pair of these natural parameters."""
        return replace(self, concentration=tuple(np.asarray(natural, np.float64).tolist()))

    def _mean_log_likelihood(self, x: Floats) -> Floats:
        a = self.natural
        found: Floats = special.digamma(a)[x.astype(np.int64)] - special.digamma(a.sum())
        return found

    @property
    def log_normalizer(self) -> float:
        """log B(a) = sum log Gamma(a_k) - log Gamma(sum a_k)."""
        a = np.asarray(self.concentration)
        return float(special.gammaln(a).sum() - special.gammaln(a.sum()))

    def log_evidence_of_counts(self, counts: ArrayLike) -> float:
        """Log probability of counts whatever their order: the multinomial coefficient is in it.

        Raises
        ------
        UserValueError
            Counts that are negative or no whole numbers.
        """
        n = _counted(counts)
        ways = special.gammaln(n.sum() + 1) - special.gammaln(n + 1).sum()
        return float(ways + self.add(n).log_normalizer - self.log_normalizer)

    def distribution(self) -> Dirichlet:
        """Dirichlet distribution of the probabilities."""
        return Dirichlet(np.asarray(self.concentration))

    def predictive(self) -> Categorical:
        """Distribution of the next category."""
        return Categorical(np.log(self.concentration))

    def spread(self) -> Spread:
        """Of each category's indicator, shape (k,)."""
        a = np.asarray(self.concentration)
        n = a.sum()
        share = a * (n - a) / n**2 / (n + 1)
        return Spread(share, n * share)


@dataclass(frozen=True)
class PoissonGamma(Pair):
    """Rate of Poisson counts, with a gamma distribution.

    Parameters
    ----------
    concentration, rate : float, positive
        Shape a and rate b: a - 1 events in b units of exposure.
    """

    concentration: float = 1.0
    rate: float = 1.0
    likelihood: ClassVar[str] = "poisson"
    prior: ClassVar[str] = "gamma"

    def __post_init__(self) -> None:
        check_fields(self)
        positive(concentration=self.concentration, rate=self.rate)

    def _rows(self, x: ArrayLike) -> Floats:
        return _counted(x)

    def _moved(self, x: Floats, weight: Floats) -> Self:
        return self._added(float((weight * x).sum()), float(weight.sum()))

    def _added(self, events: float, exposure: float) -> Self:
        a, b = self.concentration + events, self.rate + exposure
        in_range(a, b)
        return replace(self, concentration=a, rate=b)

    def observe(self, x: ArrayLike, exposure: ArrayLike) -> Self:
        """The posterior after counts, each over an exposure (time, area) of its own > 0.

        Raises
        ------
        UserValueError
            Counts that are none, exposures that are not above 0, or not one per count (or one for all).
        """
        counts, units = self._rows(x), allowed(finite(exposure, 1), lambda v: v > 0, "not above 0")
        if len(units) not in (1, len(counts)):
            raise UserValueError.must("exposure", f"have one value for each of the {len(counts)} counts", units)
        return self._added(float(counts.sum()), float(np.broadcast_to(units, counts.shape).sum()))

    def _log_base(self, x: Floats, weight: Floats) -> float:
        return float(-(weight * special.gammaln(x + 1)).sum())

    @property
    def natural(self) -> Floats:
        """a and b."""
        return np.array([self.concentration, self.rate])

    def with_natural(self, natural: ArrayLike) -> Self:
        """The pair of these natural parameters."""
        a, b = np.asarray(natural, np.float64).tolist()
        return replace(self, concentration=a, rate=b)

    def _mean_log_likelihood(self, x: Floats) -> Floats:
        mean_log = special.digamma(self.concentration) - math.log(self.rate)
        found: Floats = x * mean_log - self.concentration / self.rate - special.gammaln(x + 1)
        return found

    @property
    def log_normalizer(self) -> float:
        """log Gamma(a) - a log b."""
        return math.lgamma(self.concentration) - self.concentration * math.log(self.rate)

    def distribution(self) -> Gamma:
        """Gamma distribution of the rate."""
        return Gamma(self.concentration, self.rate)

    def predictive(self) -> NegativeBinomial:
        """Negative binomial: a failures, success probability 1 / (b + 1)."""
        return NegativeBinomial(self.concentration, 1 / (self.rate + 1))

    def spread(self) -> Spread:
        """Variance and mean of the rate."""
        return Spread(self.concentration / self.rate**2, self.concentration / self.rate)


@dataclass(frozen=True)
class UniformPareto(Pair):
    """Upper end of numbers uniform on [0, end], with a Pareto distribution.

    Parameters
    ----------
    scale : float, positive
        Least possible end m.
    alpha : float, positive
        Exponent k.
    """

    scale: float = 1.0
    alpha: float = 1.0
    likelihood: ClassVar[str] = "uniform"
    prior: ClassVar[str] = "pareto"

    def __post_init__(self) -> None:
        check_fields(self)
        positive(scale=self.scale, alpha=self.alpha)

    def _rows(self, x: ArrayLike) -> Floats:
        return allowed(finite(x, 1), lambda v: v >= 0, "negative")

    def _moved(self, x: Floats, weight: Floats) -> Self:
        if (weight < 0).any():
            raise UserValueError("the largest row cannot be removed", "x", "update the prior with the other rows")
        seen = x[weight > 0]
        return replace(self, scale=float(max(self.scale, *seen, 0.0)), alpha=float(self.alpha + weight.sum()))

    def _log_base(self, x: Floats, weight: Floats) -> float:
        return 0.0

    @property
    def log_normalizer(self) -> float:
        """-log k - k log m."""
        return -math.log(self.alpha) - self.alpha * math.log(self.scale)

    def distribution(self) -> Pareto:
        """Pareto distribution of the end."""
        return Pareto(self.scale, self.alpha)

    def predictive(self) -> _ParetoUniform:
        """Flat up to m, then falling as a power."""
        return _ParetoUniform(self.scale, self.alpha)

    def spread(self) -> Spread:
        """Of the mean end / 2 and the variance end^2 / 12."""
        m, k = self.scale, self.alpha
        if k <= 2:
            return Spread(math.inf, math.inf)
        return Spread(k * m * m / (k - 1) ** 2 / (k - 2) / 4, k * m * m / (k - 2) / 12)


@dataclass(frozen=True)
class _ParetoUniform:
    """A number uniform on [0, end] with end ~ Pareto(m, k): flat with mass k / (k + 1) up to m, a Pareto tail above."""

    scale: float
    alpha: float

    def log_prob(self, x: ArrayLike) -> Floats:
        """Log density in nats; -inf below 0."""
        values, m, k = np.asarray(x, np.float64), self.scale, self.alpha
        height = math.log(k / ((k + 1) * m))
        log_p = height + (k + 1) * np.log(m / np.maximum(values, m))
        return np.where(values >= 0, log_p, -np.inf)

    def sample(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> Floats:
        """An end, then a number below it; two calls of noise."""
        end = Pareto(self.scale, self.alpha).sample(noise, draw, shape)
        fraction: Floats = Uniform(0.0, 1.0).sample(noise, draw + 1, shape)
        return end * fraction
