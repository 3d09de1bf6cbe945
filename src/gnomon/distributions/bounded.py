"""Families on an interval or on the circle."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from scipy import special, stats

from gnomon.distributions.family import Family, Floats
from gnomon.distributions.implicit import beta_slope, von_mises_slope, with_slopes
from gnomon.distributions.stable import log_normal_density
from gnomon.errors import UserValueError

__all__ = ["Beta", "TruncatedNormal", "Uniform", "VonMises"]


class Uniform(Family):
    """Uniform on [low, high].

    Parameters
    ----------
    low, high : array, real
        low < high.
    """

    parameters: ClassVar[dict[str, str]] = {"low": "real", "high": "real"}

    def __init__(self, low: Any = 0.0, high: Any = 1.0) -> None:
        super().__init__(low=low, high=high)
        _ordered(self._plain("low"), self._plain("high"))

    def _torch_distribution(self) -> Any:
        from torch.distributions import Uniform

        return Uniform(self._own("low"), self._own("high"), validate_args=False)

    def _log_density(self, x: Any) -> Any:
        return -(self._own("high") - self._own("low")).log() + 0 * x

    def _support(self, x: Any) -> Any:
        return (x >= self._own("low")) & (x <= self._own("high"))

    def _inside(self) -> Any:
        return (self._own("low") + self._own("high")) / 2

    def _cdf(self, x: Floats) -> Floats:
        low, high = self._plain("low"), self._plain("high")
        return np.clip((x - low) / (high - low), 0, 1)

    def _icdf(self, u: Floats) -> Floats:
        low, high = self._plain("low"), self._plain("high")
        return low + (high - low) * u


class Beta(Family):
    r"""Beta density :math:`x^{a-1} (1-x)^{b-1} / B(a, b)` on [0, 1].

    At an end it is infinite where the exponent is negative, and 0 where it is positive.

    Parameters
    ----------
    concentration1, concentration0 : array, positive
        a and b; the mean is a / (a + b).
    """

    parameters: ClassVar[dict[str, str]] = {"concentration1": "positive", "concentration0": "positive"}

    def __init__(self, concentration1: Any, concentration0: Any) -> None:
        super().__init__(concentration1=concentration1, concentration0=concentration0)

    def _torch_distribution(self) -> Any:
        from torch.distributions import Beta

        return Beta(self._own("concentration1"), self._own("concentration0"), validate_args=False)

    def _log_density(self, x: Any) -> Any:
        import torch

        a, b = (self._own(name) for name in self.parameters)
        normalizer = torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
        return torch.xlogy(a - 1, x) + torch.special.xlog1py(b - 1, -x) - normalizer

    def _support(self, x: Any) -> Any:
        return (x >= 0) & (x <= 1)

    def _inside(self) -> Any:
        return 0.5

    def _cdf(self, x: Floats) -> Floats:
        return special.betainc(self._plain("concentration1"), self._plain("concentration0"), np.clip(x, 0, 1))

    def _icdf(self, u: Floats) -> Floats:
        return special.betaincinv(self._plain("concentration1"), self._plain("concentration0"), u)

    def _quantile(self, u: Any) -> Any:
        x = self._icdf(u.numpy())
        a, b = (self._plain(name) for name in self.parameters)
        return with_slopes(x, dict(zip(map(self._own, self.parameters), beta_slope(a, b, x), strict=True)))


class TruncatedNormal(Family):
    """A normal number given that it lies in [low, high].

    Parameters
    ----------
    loc : array, real
        Mean before truncation.
    scale : array, positive
        Standard deviation before truncation.
    low, high : array, real
        low < high; the mass between may be far in a tail, but not beyond what float64 can tell from 0.
    """

    parameters: ClassVar[dict[str, str]] = {"loc": "real", "scale": "positive", "low": "real", "high": "real"}

    def __init__(self, loc: Any, scale: Any, low: Any, high: Any) -> None:
        super().__init__(loc=loc, scale=scale, low=low, high=high)
        _ordered(self._plain("low"), self._plain("high"))

    def _ends(self) -> tuple[Any, Any]:
        loc, scale = self._own("loc"), self._own("scale")
        return (self._own("low") - loc) / scale, (self._own("high") - loc) / scale

    def _log_mass(self) -> Any:
        """log(Phi(b) - Phi(a)), from the tail that both ends lie nearer to."""
        import torch

        a, b = self._ends()
        flip = a > 0
        a, b = torch.where(flip, -b, a), torch.where(flip, -a, b)
        upper, lower = torch.special.log_ndtr(b), torch.special.log_ndtr(a)
        return upper + torch.log(-torch.expm1(lower - upper))

    def _log_density(self, x: Any) -> Any:
        return log_normal_density(x, self._own("loc"), self._own("scale")) - self._log_mass()

    def _support(self, x: Any) -> Any:
        return (x >= self._own("low")) & (x <= self._own("high"))

    def _inside(self) -> Any:
        return (self._own("low") + self._own("high")) / 2

    def _moments(self) -> tuple[Any, Any]:
        """Mean and variance of the standardized number: ratios of densities at the ends to the mass."""
        a, b = self._ends()
        log_mass, constant = self._log_mass(), 0.5 * math.log(2 * math.pi)
        at_a, at_b = ((-0.5 * end**2 - constant - log_mass).exp() for end in (a, b))
        mean = at_a - at_b
        return mean, 1 + a * at_a - b * at_b - mean**2

    @property
    def mean(self) -> Any:
        """Expected value."""
        return self._answer(self._own("loc") + self._own("scale") * self._moments()[0])

    @property
    def variance(self) -> Any:
        """Variance."""
        return self._answer(self._own("scale") ** 2 * self._moments()[1])

    def _entropy(self) -> Any:
        mean, variance = self._moments()
        squares = variance + mean**2
        return self._own("scale").log() + 0.5 * math.log(2 * math.pi) + self._log_mass() + squares / 2

    def _kl(self, other: TruncatedNormal) -> Any:
        """-H(p) - E_p[log q], by the mean and variance of p; infinite where p reaches beyond the ends of q."""
        import torch

        mean, variance = self._moments()
        scale, width = self._own("scale"), other._own("scale")
        squares = (scale**2 * variance + (self._own("loc") + scale * mean - other._own("loc")) ** 2) / width**2
        crossed = width.log() + 0.5 * math.log(2 * math.pi) + other._log_mass() + squares / 2
        inside = (self._own("low") >= other._own("low")) & (self._own("high") <= other._own("high"))
        return torch.where(inside, crossed - self._entropy(), math.inf)

    def _quantile(self, u: Any) -> Any:
        """Phi(z) = (1 - u) Phi(a) + u Phi(b) says how z moves with the ends."""
        u = u.numpy()
        x = self._icdf(u)
        a, b, loc, scale = self._standard()
        z = (x - loc) / scale
        from_low, from_high = (1 - u) * np.exp((z**2 - a**2) / 2), u * np.exp((z**2 - b**2) / 2)
        slopes = (1 - from_low - from_high, z - a * from_low - b * from_high, from_low, from_high)
        return with_slopes(x, dict(zip(map(self._own, self.parameters), slopes, strict=True)))

    def _standard(self) -> tuple[Floats, Floats, Floats, Floats]:
        low, high = self._plain("low"), self._plain("high")
        loc, scale = self._plain("loc"), self._plain("scale")
        return (low - loc) / scale, (high - loc) / scale, loc, scale

    def _cdf(self, x: Floats) -> Floats:
        a, b, loc, scale = self._standard()
        return stats.truncnorm.cdf(x, a, b, loc, scale)

    def _icdf(self, u: Floats) -> Floats:
        a, b, loc, scale = self._standard()
        return np.clip(stats.truncnorm.ppf(u, a, b, loc, scale), self._plain("low"), self._plain("high"))


class VonMises(Family):
    r"""The normal's counterpart on the circle: :math:`\exp(k \cos(x - m)) / (2 \pi I_0(k))` on [-pi, pi].

    Parameters
    ----------
    loc : array, real, in radians
        The mean direction m.
    concentration : array, positive
        k; for large k nearly a normal of variance 1 / k.
    """

    parameters: ClassVar[dict[str, str]] = {"loc": "real", "concentration": "positive"}

    def __init__(self, loc: Any, concentration: Any) -> None:
        super().__init__(loc=loc, concentration=concentration)

    def _torch_distribution(self) -> Any:
        from torch.distributions import VonMises

        return VonMises(self._own("loc"), self._own("concentration"), validate_args=False)

    def _log_density(self, x: Any) -> Any:
        half = ((x - self._own("loc")) / 2).sin()  # cos - 1 has no digits near the mean of a narrow one
        return -2 * self._own("concentration") * half * half - self._log_scaled()

    def _log_scaled(self) -> Any:
        """log(2 pi I_0(k) exp(-k)): never overflows."""
        import torch

        return math.log(2 * math.pi) + torch.special.i0e(self._own("concentration")).log()

    def _resultant(self) -> Any:
        """I_1(k) / I_0(k), the length of the mean direction."""
        import torch

        k = self._own("concentration")
        return torch.special.i1e(k) / torch.special.i0e(k)

    @property
    def variance(self) -> Any:
        """Circular variance 1 - I_1(k) / I_0(k), in [0, 1]."""
        return self._answer(1 - self._resultant())

    def _entropy(self) -> Any:
        return self._log_scaled() + self._own("concentration") * (1 - self._resultant())

    def _support(self, x: Any) -> Any:
        return x.abs() <= math.pi

    def _inside(self) -> Any:
        return 0.0

    def _cdf(self, x: Floats) -> Floats:
        loc, k = self._plain("loc"), self._plain("concentration")
        return np.clip(stats.vonmises.cdf(x, k, loc) - stats.vonmises.cdf(-np.pi, k, loc), 0, 1)

    def _icdf(self, u: Floats) -> Floats:
        return (self._plain("loc") + self._angle(u) + np.pi) % (2 * np.pi) - np.pi

    def _quantile(self, u: Any) -> Any:
        y, k = self._angle(u.numpy()), self._own("concentration")
        angle = with_slopes(y, {k: von_mises_slope(self._plain("concentration"), y)})
        return (self._own("loc") + angle + np.pi) % (2 * np.pi) - np.pi

    def _angle(self, u: Floats) -> Floats:
        """The inverse CDF about direction 0."""
        k = self._plain("concentration")
        low: Floats = np.full(np.broadcast_shapes(np.shape(u), k.shape), -np.pi)
        high = -low
        for _ in range(60):  # halves to the last bit
            middle = (low + high) / 2
            below = stats.vonmises.cdf(middle, k) < u
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return (low + high) / 2


def _ordered(low: Floats, high: Floats) -> None:
    bad = ~(low < high)
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        what = f"low must be below high, got {np.asarray(low)[at]} and {np.asarray(high)[at]}"
        raise UserValueError(what, "low, high")
