"""Columns of whole numbers given natural parameters: what is known of them where those parameters are normal."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln
from scipy.stats import poisson

from gnomon.contracts import Array, Noise
from gnomon.numeric.fast import exp64, log1p64, softplus

__all__ = ["COLUMNS", "BitColumns", "NaturalColumns", "NormalizerMeans", "CountColumns"]

Floats = NDArray[np.float64]
kernel = numba.njit(cache=True, error_model="numpy")

POINTS, SHARES = np.polynomial.hermite_e.hermegauss(20)
SHARES = SHARES / SHARES.sum()
"""Nodes of a normal mean: of the log normalizer of a bit to 3e-11 for deviations up to 1, to 1e-4 up to 3."""
TILE = 256
"""Numbers that a kernel goes over once for every node while they are at hand."""
FEW = 0.5
"""Pseudo-count by which a column without a one, or without a zero, has a finite natural parameter."""
STEEPEST = 700.0
"""Natural parameters of counts are held below this one, where their mean is still a number."""


class NormalizerMeans(NamedTuple):
    """Means of the log normalizer A(eta) and of its first two derivatives, each of the shape of eta."""

    value: Floats
    slope: Floats
    curvature: Floats


class NaturalColumns:
    r""":math:`p(x | \eta) = h(x) \exp(x \eta - A(\eta))` in each cell."""

    def log_base(self, x: Array) -> Floats:
        """log h(x)."""
        raise NotImplementedError

    def at(self, eta: Array) -> NormalizerMeans:
        """A and its derivatives, the mean and the variance of the cell."""
        raise NotImplementedError

    def normalizer(self, eta: Array) -> Floats:
        """A alone."""
        return self.at(eta).value

    def expected(self, mean: Array, variance: Array) -> NormalizerMeans:
        """Their means where eta is normal."""
        raise NotImplementedError

    def start(self, total: Array, weight: float) -> Floats:
        """Natural parameters of columns with these sums over rows of this weight, held finite by half a pseudo-row."""
        raise NotImplementedError

    def draw(self, eta: Array, noise: Noise) -> Floats:
        """A draw of each cell."""
        raise NotImplementedError


class BitColumns(NaturalColumns):
    """Zeros and ones: eta is the log-odds of a one."""

    def log_base(self, x: Array) -> Floats:
        """0."""
        return np.zeros(np.shape(x))

    def at(self, eta: Array) -> NormalizerMeans:
        """log(1 + exp(eta)), the chance of a one, and its variance."""
        p = expit(eta)
        return NormalizerMeans(np.logaddexp(0.0, eta), p, p * (1 - p))

    def normalizer(self, eta: Array) -> Floats:
        """log(1 + exp(eta))."""
        return np.asarray(softplus(eta))

    def expected(self, mean: Array, variance: Array) -> NormalizerMeans:
        """By 20 nodes."""
        found = np.zeros((3, mean.size))
        _bits(np.ravel(mean), np.sqrt(np.ravel(variance)), POINTS, SHARES, *found)
        return NormalizerMeans(*found.reshape(3, *mean.shape))

    def start(self, total: Array, weight: float) -> Floats:
        """Log-odds."""
        return np.asarray(np.log((total + FEW) / (weight - total + FEW)))

    def draw(self, eta: Array, noise: Noise) -> Floats:
        """See `NaturalColumns`."""
        return np.asarray(noise.bernoulli_logits(eta), np.float64)


class CountColumns(NaturalColumns):
    """Counts: eta is the logarithm of their mean."""

    def log_base(self, x: Array) -> Floats:
        """-log x!"""
        return np.asarray(-gammaln(np.asarray(x, np.float64) + 1))

    def at(self, eta: Array) -> NormalizerMeans:
        """exp(eta), three times."""
        rate = np.exp(np.minimum(eta, STEEPEST))
        return NormalizerMeans(rate, rate, rate)

    def expected(self, mean: Array, variance: Array) -> NormalizerMeans:
        """exp(mean + variance / 2), three times."""
        return self.at(mean + 0.5 * variance)

    def start(self, total: Array, weight: float) -> Floats:
        """Logarithms of means."""
        return np.asarray(np.log((total + FEW) / (weight + FEW)))

    def draw(self, eta: Array, noise: Noise) -> Floats:
        """See `NaturalColumns`: by the inverse of the distribution function."""
        return np.asarray(poisson.ppf(noise.uniform(np.shape(eta), like=eta), self.at(eta).value))


COLUMNS: dict[str, NaturalColumns] = {"bernoulli": BitColumns(), "poisson": CountColumns()}


@kernel
def _bits(mean, deviation, points, shares, value, slope, curvature):  # type: ignore[no-untyped-def]
    """Means of log(1 + e^eta), its slope and its curvature over normal eta, added in, tile by tile."""
    for begin in range(0, len(mean), TILE):
        end = begin + TILE
        m, d, a, b, c = mean[begin:end], deviation[begin:end], value[begin:end], slope[begin:end], curvature[begin:end]
        for p in range(len(points)):
            for i in range(len(m)):
                eta = m[i] + points[p] * d[i]
                e = exp64(-abs(eta))
                r = 1.0 / (1.0 + e)
                a[i] += shares[p] * (max(eta, 0.0) + log1p64(e))
                b[i] += shares[p] * (r if eta >= 0 else e * r)
                c[i] += shares[p] * (e * r * r)
