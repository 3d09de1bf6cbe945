"""Units of exponential families beyond bits and normal numbers: counts, rates, and numbers from 0 to 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Distribution, Noise
from gnomon.distributions.gamma_units import Gammas
from gnomon.distributions.layers import exp
from gnomon.distributions.units import Own, Units, mean_of
from gnomon.numeric.counts import poisson_counts
from gnomon.numeric.ops import positive
from gnomon.numeric.tensors import detached

__all__ = ["PoissonUnits", "Poissons", "RateUnits", "TruncatedExponentialUnits", "TruncatedExponentials"]

SMALL = 1e-3
"""Below it the series about 0 is closer than the quotient."""


class PoissonUnits(Units):
    """Units that count 0, 1, 2 ..., w(x) = bias . x - sum_j log x_j!: Poisson numbers of the rate exp(field + bias).

    Examples
    --------
    >>> PoissonUnits(1).conditional(np.array([[1.0]]), {"bias": np.zeros(1)}).mean.round(4).tolist()
    [[2.7183]]
    """

    @property
    def center(self) -> NDArray[np.float64]:
        """1."""
        return np.ones(self.size)

    def conditional(self, field: Array, own: Own) -> Poissons:
        """Log rates field + bias."""
        field += own["bias"]
        return Poissons(field)

    def log_normalizer(self, field: Array, own: Own) -> Array:
        """Sum of exp(field + bias)."""
        return exp(field + own["bias"]).sum(-1)

    def log_weight(self, x: Array | Distribution, own: Own) -> Array:
        """Less the log factorials."""
        ways = x.mean_log_factorial() if isinstance(x, Poissons) else _log_factorial(mean_of(x)).sum(-1)
        return mean_of(x) @ own["bias"] - ways

    def _fitting(self, mean: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Logs of the means, which are kept above 0.01."""
        return {"bias": np.log(np.maximum(mean, 0.01))}


class Poissons:
    """Independent Poisson counts.

    Parameters
    ----------
    log_rate : array or tensor, shape (rows, n)

    Examples
    --------
    >>> Poissons(np.zeros((1, 2))).log_prob(np.array([[0.0, 2.0]])).round(4).tolist()
    [-2.6931]
    """

    __slots__ = ("log_rate",)

    def __init__(self, log_rate: Any) -> None:
        self.log_rate = log_rate

    @property
    def mean(self) -> Any:
        """The rates."""
        return exp(self.log_rate)

    @property
    def mode(self) -> Any:
        """The most probable counts, the larger of two."""
        return self.mean // 1

    @property
    def variance(self) -> Any:
        """The rates."""
        return self.mean

    def sample(self, noise: Any, draw: int = 0) -> Any:
        """One draw of every unit: the least count whose cumulative probability reaches a uniform number."""
        log_rate = detached(self.log_rate)
        u = noise.uniform(tuple(log_rate.shape), draw, like=log_rate)
        if isinstance(log_rate, np.ndarray):
            return poisson_counts(u, log_rate)
        import torch

        return torch.as_tensor(poisson_counts(u.cpu().numpy(), log_rate.cpu().numpy()), device=log_rate.device)

    def log_prob(self, x: Any) -> Any:
        """Log probability of each row in nats."""
        return (x * self.log_rate - self.mean - _log_factorial(x)).sum(-1)

    def entropy(self) -> Any:
        """Entropy of each row in nats."""
        return (self.mean * (1 - self.log_rate)).sum(-1) + self.mean_log_factorial()

    def mean_log_factorial(self) -> Any:
        """E[sum_j log x_j!] of each row, by the sum over the counts of a unit."""
        rate, total = self.mean, 0 * self.mean
        largest = float(rate.max())
        for k in range(2, int(largest + 12 * math.sqrt(largest) + 40)):
            log_factorial = math.lgamma(k + 1)
            total = total + log_factorial * exp(k * self.log_rate - rate - log_factorial)
        return total.sum(-1)


@dataclass(frozen=True)
class RateUnits(Units):
    r"""Positive units, :math:`w(x) = \sum_j (s - 1) \log x_j + b_j x_j`: gamma numbers of a known shape s.

    Under a field f they have the rate :math:`-(b + f)`, which must be above 0. With the shape 1 they are exponential.
    Without a field and a bias they are taken at the rate s, of the mean 1.

    Parameters
    ----------
    n : int, in [1, inf)
    shape : int, in [1, inf)

    Examples
    --------
    >>> RateUnits(1).conditional(np.array([[-1.0]]), {"bias": np.full(1, -3.0)}).mean.tolist()
    [[0.25]]
    """

    shape: int = 1

    @property
    def center(self) -> NDArray[np.float64]:
        """1."""
        return np.ones(self.size)

    def start(self, noise: Noise, rows: int, like: Array, draw: int = 0) -> Array:
        """Rows of the mean 1."""
        rate = 0 * noise.child("like").uniform((rows, self.n), draw, like=like) + self.shape
        return Gammas(0 * rate[0] + self.shape, rate).sample(noise, draw)

    def conditional(self, field: Array, own: Own) -> Gammas:
        """Rates -(field + bias)."""
        return Gammas(0 * own["bias"] + self.shape, -(field + own["bias"]))

    def log_normalizer(self, field: Array, own: Own) -> Array:
        """Sum of ``log Gamma(s) - s log rate``."""
        return (math.lgamma(self.shape) - self.shape * _log(-(field + own["bias"]))).sum(-1)

    def log_weight(self, x: Array | Distribution, own: Own) -> Array:
        """With the logs."""
        linear = mean_of(x) @ own["bias"]
        if self.shape == 1:
            return linear
        return linear + (self.shape - 1) * (x.mean_log if isinstance(x, Gammas) else _log(mean_of(x))).sum(-1)

    def base(self, mean: NDArray[np.float64] | None, own: Own) -> dict[str, NDArray[np.float64]]:
        """Biases -s / mean."""
        return self._fitting(np.ones(self.size) if mean is None else np.asarray(mean))

    def _fitting(self, mean: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Means are kept above 0.01."""
        return {"bias": -self.shape / np.maximum(mean, 0.01)}


class TruncatedExponentialUnits(Units):
    """Units on [0, 1], w(x) = bias . x: exponential densities, rising or falling, that are cut off at the ends.

    References
    ----------
    Bengio, Lamblin, Popovici and Larochelle (2007), "Greedy layer-wise training of deep networks", section 4.

    Examples
    --------
    >>> TruncatedExponentialUnits(1).conditional(np.array([[0.0]]), {"bias": np.zeros(1)}).mean.tolist()
    [[0.5]]
    """

    @property
    def center(self) -> NDArray[np.float64]:
        """1/2."""
        return np.full(self.size, 0.5)

    def conditional(self, field: Array, own: Own) -> TruncatedExponentials:
        """Slopes field + bias."""
        field += own["bias"]
        return TruncatedExponentials(field)

    def log_normalizer(self, field: Array, own: Own) -> Array:
        """Sum of ``log((exp(f) - 1) / f)``, f = field + bias."""
        return TruncatedExponentials(field + own["bias"]).log_mass.sum(-1)

    def _fitting(self, mean: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Slopes of these means, which are kept between 0.01 and 0.99, by bisection."""
        wanted = np.clip(np.asarray(mean, np.float64), 0.01, 0.99)
        low, high = np.full(self.size, -200.0), np.full(self.size, 200.0)
        for _ in range(60):
            middle = (low + high) / 2
            below = TruncatedExponentials(middle[None]).mean[0] < wanted
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return {"bias": (low + high) / 2}


class TruncatedExponentials:
    """Independent numbers on [0, 1] with densities proportional to exp(f x).

    Parameters
    ----------
    field : array or tensor, shape (rows, n)
        f.

    Examples
    --------
    >>> TruncatedExponentials(np.ones((1, 1))).log_prob(np.array([[1.0]])).round(4).tolist()
    [0.4587]
    """

    __slots__ = ("field",)

    def __init__(self, field: Any) -> None:
        self.field = field

    @property
    def log_mass(self) -> Any:
        """log((exp(f) - 1) / f) of each unit."""
        a, small = self._size()
        return _where(small, self.field / 2 + self.field**2 / 24, _log(-_expm1(-a) / a) + (self.field + a * ~small) / 2)

    @property
    def mean(self) -> Any:
        """1 / (1 - exp(-f)) - 1 / f."""
        a, small = self._size()
        falling = 1 / a + exp(-a) / _expm1(-a)  # of the slope -a
        rises = self.field > 0
        return _where(small, 0.5 + self.field / 12, _where(rises, 1 - falling, falling))

    @property
    def mode(self) -> Any:
        """1 where the density rises, else 0."""
        return positive(self.field)

    @property
    def variance(self) -> Any:
        """1 / f^2 - 1 / (4 sinh(f / 2)^2)."""
        a, small = self._size()
        tail = exp(-a) / _expm1(-a) ** 2
        return _where(small, 1 / 12 + 0 * a, 1 / a**2 - tail)

    def sample(self, noise: Any, draw: int = 0) -> Any:
        """One draw of every unit, by the inverse of the distribution function; carries no gradient."""
        a, small = self._size()
        u = noise.uniform(tuple(a.shape), draw, like=a)
        falling = _where(small, u, -_log1p(u * _expm1(-a)) / a)
        return detached(_where(self.field > 0, 1 - falling, falling))

    def log_prob(self, x: Any) -> Any:
        """Log density of each row in nats."""
        return (x * self.field - self.log_mass).sum(-1)

    def entropy(self) -> Any:
        """Differential entropy of each row in nats."""
        return (self.log_mass - self.field * self.mean).sum(-1)

    def _size(self) -> tuple[Any, Any]:
        """|f|, 1 where it is small, and where that is."""
        a = abs(self.field)
        small = a < SMALL
        return _where(small, 1 + 0 * a, a), small


def _where(condition: Any, yes: Any, no: Any) -> Any:
    if isinstance(condition, np.ndarray):
        return np.where(condition, yes, no)
    import torch

    return torch.where(condition, yes, no)


def _log(x: Any) -> Any:
    return x.log() if hasattr(x, "log") else np.log(x)


def _log1p(x: Any) -> Any:
    return x.log1p() if hasattr(x, "log1p") else np.log1p(x)


def _expm1(x: Any) -> Any:
    return x.expm1() if hasattr(x, "expm1") else np.expm1(x)


def _log_factorial(x: Any) -> Any:
    if hasattr(x, "lgamma"):
        return (x + 1).lgamma()
    from scipy.special import gammaln

    return gammaln(x + 1)
