"""What is believed of the weights of a linear regression, and of its noise, before the data: slot ``weight_prior``."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from scipy.optimize import brentq

from gnomon.distributions.conjugate.normals import NormalPrecision
from gnomon.errors import UserValueError
from gnomon.recipes.recipe import Recipe
from gnomon.training.group import current as current_group

__all__ = ["Evidence", "NormalInverseGamma", "NormalWeights", "Posterior", "Products", "WeightPrior"]

Floats = np.ndarray[Any, np.dtype[np.float64]]

FLOOR = 1e-12
"""Smallest variance of the noise that is inferred, as a share of the target's."""

REACH = 30
"""How far beyond the squared singular values, in natural logarithms, a ratio of variances is looked for."""

STEPS_PER_POWER = 8
"""Ratios that are tried per power of ten."""


@dataclass(frozen=True)
class Products:
    """What a Gaussian likelihood keeps of the rows, in coordinates in which the design is diagonal.

    Parameters
    ----------
    squares : array of shape (p,)
        Squared singular values of the design.
    target : array of shape (p,)
        The target along its left singular vectors.
    rest : float
        Squared length of the target across them.
    n : float
        Rows that the noise is measured by: their weight, less 1 for an intercept without prior.
    constant : float
        What the intercept's integral adds to the log evidence.
    """

    squares: Floats
    target: Floats
    rest: float
    n: float
    constant: float = 0.0

    def error(self, ratio: float) -> float:
        """Least value over w of ``||y - A w||^2 + ratio ||w||^2``."""
        return self.rest + float((ratio * self.target**2 / (self.squares + ratio)).sum())

    def length(self, ratio: float) -> float:
        """``||w||^2`` there."""
        return float((self.squares * self.target**2 / (self.squares + ratio) ** 2).sum())

    def volume(self, ratio: float) -> float:
        """Log of how much the posterior is narrower than the prior: half the sum of log(ratio / (s^2 + ratio))."""
        return float(-0.5 * np.log1p(self.squares / ratio).sum())

    def log_evidence(self, ratio: float, noise: float) -> float:
        """Log density of the target given the variance of the noise and ``ratio = noise / prior variance``."""
        return (
            -0.5 * self.n * math.log(2 * math.pi * noise)
            - self.error(ratio) / (2 * noise)
            + self.volume(ratio)
            + self.constant
        )


@dataclass(frozen=True)
class Posterior:
    """What the rows leave of the unknown variances.

    Parameters
    ----------
    ratio : float
        Variance of the noise over the prior variance of a weight.
    noise : float
        Variance of the noise; with a distribution of it, the squared scale of Student's t.
    log_evidence : float
    df : float, default inf
        Degrees of freedom of Student's t; infinite where the variance is a number.
    """

    ratio: float
    noise: float
    log_evidence: float
    df: float = math.inf


@dataclass(frozen=True)
class WeightPrior(Recipe):
    """Base: independent normal weights of mean 0 and one variance."""

    def posterior(self, products: Products) -> Posterior:
        """The variances after the rows."""
        raise NotImplementedError


@dataclass(frozen=True)
class NormalWeights(WeightPrior):
    """Known variances: the posterior is normal.

    Parameters
    ----------
    variance : float in (0, inf), default 1
        Prior variance of each weight.
    noise_variance : float in (0, inf), default 1
        Variance of y around its mean.
    """

    short: ClassVar[str] = "normal"

    variance: Annotated[float, "(0, inf)"] = 1.0
    noise_variance: Annotated[float, "(0, inf)"] = 1.0

    def posterior(self, products: Products) -> Posterior:
        """Nothing is to be learned of them."""
        ratio = self.noise_variance / self.variance
        return Posterior(ratio, self.noise_variance, products.log_evidence(ratio, self.noise_variance))


@dataclass(frozen=True)
class NormalInverseGamma(WeightPrior):
    """The conjugate prior of weights and noise: predictions follow Student's t (Bishop 2006, exercise 3.12).

    Parameters
    ----------
    variance : float in (0, inf), default 1
        Prior variance of each weight in units of the variance of the noise.
    concentration, rate : float in (0, inf), default 1
        The variance of the noise follows an inverse gamma distribution: its reciprocal a gamma distribution of this
        shape and rate.
    """

    short: ClassVar[str] = "normal-inverse-gamma"

    variance: Annotated[float, "(0, inf)"] = 1.0
    concentration: Annotated[float, "(0, inf)"] = 1.0
    rate: Annotated[float, "(0, inf)"] = 1.0

    def posterior(self, products: Products) -> Posterior:
        """Without the weights, n numbers of squared sum `error` are left to the conjugate pair of a precision."""
        ratio = 1 / self.variance
        prior = NormalPrecision(self.concentration, self.rate)
        after = NormalPrecision(prior.concentration + products.n / 2, prior.rate + products.error(ratio) / 2)
        evidence = after.log_normalizer - prior.log_normalizer - products.n / 2 * math.log(2 * math.pi)
        return Posterior(
            ratio, after.rate / after.concentration, evidence + products.volume(ratio) + products.constant,
            2 * after.concentration,
        )  # fmt: skip


@dataclass(frozen=True)
class Evidence(WeightPrior):
    """Both variances are those under which the target is most probable (type-II maximum likelihood, MacKay 1992).

    Given their ratio the noise is ``error(ratio) / n``; the best ratio is a root of the derivative beside the highest
    point of a grid over all orders of magnitude, so that neither start nor stopping rule matters.
    """

    short: ClassVar[str] = "evidence"

    def posterior(self, products: Products) -> Posterior:
        """The most probable variances.

        Raises
        ------
        UserValueError
            One row, or rows of weight 1 together, beside an intercept without prior.
        """
        if products.n <= 0:
            what = "X must have at least 2 samples for an intercept without prior, got 1 sample"
            raise UserValueError(what, "X", 'give more rows, or weight_prior="normal"')
        whole = products.rest + float((products.target**2).sum())
        least = FLOOR * whole / products.n or 1.0
        log_ratio = _highest(products, least)
        ratio = math.exp(log_ratio)
        noise = _noise(products, ratio, least)
        if noise == least and current_group().rank == 0:
            warnings.warn(
                "y is predicted without error: the variance of the noise is its floor, 1e-12 of the target's; "
                "is the target among the columns, or constant?",
                UserWarning, stacklevel=2,
            )  # fmt: skip
        return Posterior(ratio, noise, products.log_evidence(ratio, noise))


def _noise(products: Products, ratio: float, least: float) -> float:
    return max(products.error(ratio) / products.n, least)


def _highest(products: Products, least: float) -> float:
    """Log of the ratio at which the evidence is highest."""
    present = products.squares[products.squares > 0]
    ends = (float(present.min()), float(present.max())) if len(present) else (1.0, 1.0)
    low, high = math.log(ends[0]) - REACH, math.log(ends[1]) + REACH
    grid = np.linspace(low, high, 2 + STEPS_PER_POWER * int((high - low) / math.log(10)))
    values = [products.log_evidence(math.exp(t), _noise(products, math.exp(t), least)) for t in grid]
    best = int(np.argmax(values))

    def slope(t: float) -> float:
        ratio = math.exp(t)
        pull = ratio * products.length(ratio) / _noise(products, ratio, least)
        return float((products.squares / (products.squares + ratio)).sum()) - pull

    before, after = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    if not (slope(before) > 0 > slope(after)):
        return float(grid[best])
    return float(brentq(slope, before, after, xtol=1e-14, rtol=1e-15))
