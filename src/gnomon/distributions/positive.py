"""Families on the positive numbers."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import special

from gnomon.distributions.family import Family, Floats
from gnomon.distributions.implicit import log_gamma_slope, with_slopes
from gnomon.distributions.stable import log_normal_density

__all__ = ["Exponential", "Gamma", "InverseGamma", "LogNormal", "Pareto", "log_gamma_quantile", "with_shape"]


class _Positive(Family):
    """A family on the positive numbers."""

    def _support(self, x: Any) -> Any:
        return x.isfinite() & (x > 0)

    def _inside(self) -> Any:
        return 1.0


class LogNormal(_Positive):
    """The exponential of a normal number.

    Parameters
    ----------
    loc : array, real
        Mean of log x.
    scale : array, positive
        Standard deviation of log x.
    """

    parameters: ClassVar[dict[str, str]] = {"loc": "real", "scale": "positive"}
    above_zero: ClassVar[bool] = True

    def __init__(self, loc: Any, scale: Any) -> None:
        super().__init__(loc=loc, scale=scale)

    def _torch_distribution(self) -> Any:
        from torch.distributions import LogNormal

        return LogNormal(self._own("loc"), self._own("scale"), validate_args=False)

    def _log_density(self, x: Any) -> Any:
        return log_normal_density(x.log(), self._own("loc"), self._own("scale")) - x.log()

    def _cdf(self, x: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return special.ndtr((np.log(np.maximum(x, 0)) - self._plain("loc")) / self._plain("scale"))

    def _icdf(self, u: Floats) -> Floats:
        return np.exp(self._plain("loc") + self._plain("scale") * special.ndtri(u))


class Exponential(_Positive):
    """Exponential density rate exp(-rate x) on x >= 0.

    Parameters
    ----------
    rate : array, positive
        1 / mean.
    """

    parameters: ClassVar[dict[str, str]] = {"rate": "positive"}

    def __init__(self, rate: Any) -> None:
        super().__init__(rate=rate)

    def _torch_distribution(self) -> Any:
        from torch.distributions import Exponential

        return Exponential(self._own("rate"), validate_args=False)

    def _support(self, x: Any) -> Any:
        return x.isfinite() & (x >= 0)

    def _cdf(self, x: Floats) -> Floats:
        return -np.expm1(-self._plain("rate") * np.maximum(x, 0))

    def _icdf(self, u: Floats) -> Floats:
        return -np.log1p(-u) / self._plain("rate")


class Gamma(_Positive):
    r"""Gamma density :math:`b^a x^{a-1} e^{-b x} / \Gamma(a)`; at 0 infinite for a < 1, b for a = 1, else 0.

    Parameters
    ----------
    concentration : array, positive
        The shape a.
    rate : array, positive
        b; the mean is a / b. (A scale is 1 / b.)
    """

    parameters: ClassVar[dict[str, str]] = {"concentration": "positive", "rate": "positive"}

    def __init__(self, concentration: Any, rate: Any) -> None:
        super().__init__(concentration=concentration, rate=rate)

    def _torch_distribution(self) -> Any:
        from torch.distributions import Gamma

        return Gamma(self._own("concentration"), self._own("rate"), validate_args=False)

    def _support(self, x: Any) -> Any:
        return x.isfinite() & (x >= 0)

    def _cdf(self, x: Floats) -> Floats:
        return special.gammainc(self._plain("concentration"), self._plain("rate") * np.maximum(x, 0))

    def _icdf(self, u: Floats) -> Floats:
        return np.exp(log_gamma_quantile(self._plain("concentration"), u)) / self._plain("rate")

    def _quantile(self, u: Any) -> Any:
        log_g = log_gamma_quantile(self._plain("concentration"), u.numpy())
        return with_shape(self._own("concentration"), log_g).exp() / self._own("rate")


class InverseGamma(_Positive):
    r"""Distribution of 1 / g, g ~ Gamma(a, b): :math:`b^a x^{-a-1} e^{-b / x} / \Gamma(a)`, a prior of variances.

    Parameters
    ----------
    concentration : array, positive
        The shape a; mean b / (a - 1) for a > 1, else infinite.
    rate : array, positive
        b, the rate of the gamma number and hence the scale of this one.
    """

    parameters: ClassVar[dict[str, str]] = {"concentration": "positive", "rate": "positive"}
    above_zero: ClassVar[bool] = True

    def __init__(self, concentration: Any, rate: Any) -> None:
        super().__init__(concentration=concentration, rate=rate)

    def _torch_distribution(self) -> Any:
        from torch.distributions import InverseGamma

        return InverseGamma(self._own("concentration"), self._own("rate"), validate_args=False)

    def _log_density(self, x: Any) -> Any:
        a, b = self._own("concentration"), self._own("rate")
        return a * b.log() - a.lgamma() - (a + 1) * x.log() - b / x

    def _cdf(self, x: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return special.gammaincc(self._plain("concentration"), self._plain("rate") / np.maximum(x, 0))

    def _icdf(self, u: Floats) -> Floats:
        return self._plain("rate") / special.gammainccinv(self._plain("concentration"), u)

    def _quantile(self, u: Any) -> Any:
        with np.errstate(divide="ignore"):
            log_g = np.log(special.gammainccinv(self._plain("concentration"), u.numpy()))
        return self._own("rate") * (-with_shape(self._own("concentration"), log_g)).exp()


class Pareto(Family):
    r"""Pareto density :math:`k m^k / x^{k+1}` on x >= m: the conjugate prior of a uniform's upper end.

    Parameters
    ----------
    scale : array, positive
        The least value m.
    alpha : array, positive
        The exponent k; mean k m / (k - 1) for k > 1, else infinite.
    """

    parameters: ClassVar[dict[str, str]] = {"scale": "positive", "alpha": "positive"}

    def __init__(self, scale: Any, alpha: Any) -> None:
        super().__init__(scale=scale, alpha=alpha)

    def _torch_distribution(self) -> Any:
        from torch.distributions import Pareto

        return Pareto(self._own("scale"), self._own("alpha"), validate_args=False)

    def _log_density(self, x: Any) -> Any:
        m, k = self._own("scale"), self._own("alpha")
        return k.log() - m.log() - (k + 1) * (x.log() - m.log())

    def _entropy(self) -> Any:
        m, k = self._own("scale"), self._own("alpha")
        return (m / k).log() + 1 + 1 / k

    def _support(self, x: Any) -> Any:
        return x.isfinite() & (x >= self._own("scale"))

    def _inside(self) -> Any:
        return self._own("scale")

    def _cdf(self, x: Floats) -> Floats:
        m, k = self._plain("scale"), self._plain("alpha")
        return -np.expm1(k * np.log(m / np.maximum(x, m)))

    def _icdf(self, u: Floats) -> Floats:
        return self._plain("scale") * np.exp(-np.log1p(-u) / self._plain("alpha"))


def with_shape(a: Any, log_g: Floats) -> Any:
    """The logarithm of gamma numbers as a tensor that is a function of the shape."""
    return with_slopes(log_g, {a: log_gamma_slope(a.detach().cpu().double().numpy(), log_g)})


def log_gamma_quantile(a: Floats, u: Floats) -> Floats:
    """log of the gamma number that u of the mass lies below; exact where a small shape makes the number underflow."""
    with np.errstate(divide="ignore"):
        plain = np.log(special.gammaincinv(a, u))
    # P(x) -> x^a / Gamma(a + 1) as x -> 0
    near = (np.log(u) + special.gammaln(a + 1)) / a
    return np.where(near < -300, near, plain)
