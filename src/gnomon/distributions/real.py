"""Families on all real numbers."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from scipy import special, stats

from gnomon.distributions.family import Family, Floats, axes, normal
from gnomon.distributions.implicit import student_slope, with_slopes
from gnomon.distributions.stable import log1p_square, log1p_square_of_arrays, log_normal_density
from gnomon.numeric.given import outcomes
from gnomon.numeric.tensors import is_tensor

__all__ = ["Cauchy", "Laplace", "Normal", "StudentT"]


class _Line(Family):
    """A family on all real numbers."""

    def _support(self, x: Any) -> Any:
        return x.isfinite()

    def _inside(self) -> Any:
        return 0.0


class _PlainLine(_Line):
    """A family that answers arrays without torch, the import of which takes longer than most fits of a line."""

    def _plain_log_density(self, x: Floats) -> Floats:
        """Log density at finite x."""
        raise NotImplementedError

    def _plain_moments(self) -> tuple[Floats, Floats]:
        """Mean and variance."""
        raise NotImplementedError

    def log_prob(self, x: Any) -> Any:
        """Log density in nats; -inf at infinite `x`, NaN where `x` is NaN. Arguments as of every family."""
        if self.tensors or is_tensor(x):
            return super().log_prob(x)
        values = outcomes(x, "x", self.batch_shape).astype(np.float64)
        finite = np.isfinite(values)
        with np.errstate(over="ignore"):  # a density below the least number
            log_p = self._plain_log_density(np.where(finite, values, 0.0))
        return self._answer(np.where(finite, log_p, np.where(np.isnan(values), np.nan, -np.inf)))

    @property
    def mean(self) -> Any:
        """Expected value; NaN where there is none."""
        return super().mean if self.tensors else self._answer(self._plain_moments()[0])

    @property
    def variance(self) -> Any:
        """Variance; infinite or NaN where there is none."""
        return super().variance if self.tensors else self._answer(self._plain_moments()[1])


class Normal(_PlainLine):
    r"""Normal density :math:`(2 \pi s^2)^{-1/2} \exp(-(x - m)^2 / (2 s^2))`.

    Parameters
    ----------
    loc : array, real
        The mean m.
    scale : array, positive
        The standard deviation s (neither the variance nor the precision).

    Examples
    --------
    >>> round(float(Normal(0, 1).log_prob(0.0)), 6)
    -0.918939
    """

    parameters: ClassVar[dict[str, str]] = {"loc": "real", "scale": "positive"}

    def __init__(self, loc: Any, scale: Any) -> None:
        super().__init__(loc=loc, scale=scale)

    def _torch_distribution(self) -> Any:
        from torch.distributions import Normal

        return Normal(self._own("loc"), self._own("scale"), validate_args=False)

    def _log_density(self, x: Any) -> Any:
        return log_normal_density(x, self._own("loc"), self._own("scale"))

    def _plain_log_density(self, x: Floats) -> Floats:
        scale = self._plain("scale")
        z = (x - self._plain("loc")) / scale
        return -0.5 * z * z - np.log(scale) - 0.5 * math.log(2 * math.pi)

    def _plain_moments(self) -> tuple[Floats, Floats]:
        return self._plain("loc"), self._plain("scale") ** 2

    def _cdf(self, x: Floats) -> Floats:
        return special.ndtr((x - self._plain("loc")) / self._plain("scale"))

    def _icdf(self, u: Floats) -> Floats:
        return self._plain("loc") + self._plain("scale") * special.ndtri(u)

    def sample(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> Any:
        """Draws at the address of `noise` and `draw` by the normal numbers of Noise; no gradient."""
        z = normal(noise, (*axes(shape), *self.batch_shape), draw)
        return self._answer(self._plain("loc") + self._plain("scale") * z)

    def base_noise(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> Any:
        """Standard normal numbers."""
        import torch

        return torch.from_numpy(normal(noise, (*axes(shape), *self.batch_shape), draw))

    def transform(self, e: Any) -> Any:
        """``m + s e``."""
        return self._answer(self._own("loc") + self._own("scale") * e, True)


class Laplace(_Line):
    r"""Laplace density :math:`\exp(-|x - m| / b) / (2 b)`.

    Parameters
    ----------
    loc : array, real
    scale : array, positive
        b; the variance is 2 b^2.
    """

    parameters: ClassVar[dict[str, str]] = {"loc": "real", "scale": "positive"}

    def __init__(self, loc: Any, scale: Any) -> None:
        super().__init__(loc=loc, scale=scale)

    def _torch_distribution(self) -> Any:
        from torch.distributions import Laplace

        return Laplace(self._own("loc"), self._own("scale"), validate_args=False)

    def _cdf(self, x: Floats) -> Floats:
        return stats.laplace.cdf(x, self._plain("loc"), self._plain("scale"))

    def _icdf(self, u: Floats) -> Floats:
        side = np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u)))
        return self._plain("loc") + self._plain("scale") * side


class Cauchy(_Line):
    r"""Cauchy density :math:`1 / (\pi s (1 + ((x - m) / s)^2))`: neither mean nor variance (NaN and infinite).

    Parameters
    ----------
    loc : array, real
    scale : array, positive
    """

    parameters: ClassVar[dict[str, str]] = {"loc": "real", "scale": "positive"}

    def __init__(self, loc: Any, scale: Any) -> None:
        super().__init__(loc=loc, scale=scale)

    def _torch_distribution(self) -> Any:
        from torch.distributions import Cauchy

        return Cauchy(self._own("loc"), self._own("scale"), validate_args=False)

    def _log_density(self, x: Any) -> Any:
        scale = self._own("scale")
        return -math.log(math.pi) - scale.log() - log1p_square(x - self._own("loc"), scale)

    def _cdf(self, x: Floats) -> Floats:
        return stats.cauchy.cdf(x, self._plain("loc"), self._plain("scale"))

    def _icdf(self, u: Floats) -> Floats:
        side = np.minimum(u, 1 - u)  # the tangent of a number near pi / 2 has no digits
        return self._plain("loc") + self._plain("scale") * np.sign(u - 0.5) / np.tan(np.pi * side)


class StudentT(_PlainLine):
    """Student's t around `loc`: the predictive of a normal with unknown variance.

    Parameters
    ----------
    df : array, positive
        Degrees of freedom; no mean for df <= 1 (NaN), infinite variance for df <= 2.
    loc : array, real, default 0
    scale : array, positive, default 1
        Not the standard deviation: the variance is scale^2 df / (df - 2).
    """

    parameters: ClassVar[dict[str, str]] = {"df": "positive", "loc": "real", "scale": "positive"}

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> None:
        super().__init__(df=df, loc=loc, scale=scale)

    def _torch_distribution(self) -> Any:
        from torch.distributions import StudentT

        return StudentT(self._own("df"), self._own("loc"), self._own("scale"), validate_args=False)

    def _log_density(self, x: Any) -> Any:
        import torch

        df, scale = self._own("df"), self._own("scale")
        width = scale * df.sqrt()
        constant = torch.lgamma((df + 1) / 2) - torch.lgamma(df / 2) - 0.5 * math.log(math.pi) - width.log()
        return constant - (df + 1) / 2 * log1p_square(x - self._own("loc"), width)

    def _plain_log_density(self, x: Floats) -> Floats:
        df, scale = self._plain("df"), self._plain("scale")
        width = scale * np.sqrt(df)
        constant = special.gammaln((df + 1) / 2) - special.gammaln(df / 2) - 0.5 * math.log(math.pi) - np.log(width)
        return constant - (df + 1) / 2 * log1p_square_of_arrays(x - self._plain("loc"), width)

    def _plain_moments(self) -> tuple[Floats, Floats]:
        df = self._plain("df")
        spread = np.where(df > 2, df / np.where(df > 2, df - 2, 1.0), np.where(df > 1, np.inf, np.nan))
        return np.where(df > 1, self._plain("loc"), np.nan), self._plain("scale") ** 2 * spread

    def _cdf(self, x: Floats) -> Floats:
        return special.stdtr(self._plain("df"), (x - self._plain("loc")) / self._plain("scale"))

    def _icdf(self, u: Floats) -> Floats:
        return self._plain("loc") + self._plain("scale") * special.stdtrit(self._plain("df"), u)

    def _quantile(self, u: Any) -> Any:
        t = special.stdtrit(self._plain("df"), u.numpy())
        standard = with_slopes(t, {self._own("df"): student_slope(self._plain("df"), t)})
        return self._own("loc") + self._own("scale") * standard
