"""Families of whole numbers."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import special, stats

from gnomon.distributions.family import Family, Floats

__all__ = ["Binomial", "Geometric", "NegativeBinomial", "Poisson"]


class _Counts(Family):
    """A family on 0, 1, 2 ...: its cdf is a step function, `icdf` the least number that reaches u."""

    def _support(self, x: Any) -> Any:
        return x.isfinite() & (x >= 0) & (x == x.floor())

    def _inside(self) -> Any:
        return 0.0

    def _frozen(self) -> Any:
        """SciPy's distribution with these parameters."""
        raise NotImplementedError

    def _entropy(self) -> Any:
        raise NotImplementedError

    def _cdf(self, x: Floats) -> Floats:
        return self._frozen().cdf(x)

    def _icdf(self, u: Floats) -> Floats:
        return self._frozen().ppf(u)


class Poisson(_Counts):
    r"""Poisson distribution :math:`r^x e^{-r} / x!`.

    Parameters
    ----------
    rate : array, >= 0
        Mean and variance.

    Examples
    --------
    >>> round(float(Poisson(2.0).log_prob(0)), 6)
    -2.0
    """

    parameters: ClassVar[dict[str, str]] = {"rate": "nonnegative"}

    def __init__(self, rate: Any) -> None:
        super().__init__(rate=rate)

    def _torch_distribution(self) -> Any:
        from torch.distributions import Poisson

        return Poisson(self._own("rate"), validate_args=False)

    def _frozen(self) -> Any:
        return stats.poisson(self._plain("rate"))


class Binomial(_Counts):
    """Successes among independent trials.

    Parameters
    ----------
    total_count : array of whole numbers >= 0
        Trials.
    probs : array in [0, 1]
        Probability of a success.
    """

    parameters: ClassVar[dict[str, str]] = {"total_count": "count", "probs": "probability"}

    def __init__(self, total_count: Any, probs: Any) -> None:
        super().__init__(total_count=total_count, probs=probs)

    def _torch_distribution(self) -> Any:
        from torch.distributions import Binomial

        return Binomial(self._own("total_count"), self._own("probs"), validate_args=False)

    def _log_density(self, x: Any) -> Any:
        import torch

        n, p = self._own("total_count"), self._own("probs")
        ways = torch.lgamma(n + 1) - torch.lgamma(x + 1) - torch.lgamma(n - x + 1)
        return ways + torch.xlogy(x, p) + torch.special.xlog1py(n - x, -p)

    def _support(self, x: Any) -> Any:
        return super()._support(x) & (x <= self._own("total_count"))

    def _frozen(self) -> Any:
        return stats.binom(self._plain("total_count"), self._plain("probs"))


class NegativeBinomial(_Counts):
    """Successes before the r-th failure; the predictive of a Poisson count whose rate is a gamma number.

    Parameters
    ----------
    total_count : array, positive
        r, failures; any positive number.
    probs : array inside (0, 1)
        Probability of a success, as in torch (SciPy's p is 1 - probs); the mean is r probs / (1 - probs).
    """

    parameters: ClassVar[dict[str, str]] = {"total_count": "positive", "probs": "unit"}

    def __init__(self, total_count: Any, probs: Any) -> None:
        super().__init__(total_count=total_count, probs=probs)

    def _torch_distribution(self) -> Any:
        from torch.distributions import NegativeBinomial

        return NegativeBinomial(self._own("total_count"), self._own("probs"), validate_args=False)

    def _log_density(self, x: Any) -> Any:
        import torch

        r, p = self._own("total_count"), self._own("probs")
        ways = torch.lgamma(r + x) - torch.lgamma(x + 1) - torch.lgamma(r)
        return ways + r * torch.log1p(-p) + torch.xlogy(x, p)

    def _frozen(self) -> Any:
        return stats.nbinom(self._plain("total_count"), 1 - self._plain("probs"))


class Geometric(_Counts):
    """Failures before the first success: 0, 1, 2 ...

    Parameters
    ----------
    probs : array in (0, 1)
        Probability of a success.
    """

    parameters: ClassVar[dict[str, str]] = {"probs": "unit"}

    def __init__(self, probs: Any) -> None:
        super().__init__(probs=probs)

    def _torch_distribution(self) -> Any:
        from torch.distributions import Geometric

        return Geometric(self._own("probs"), validate_args=False)

    def _entropy(self) -> Any:
        return self.torch_distribution.entropy()

    def _cdf(self, x: Floats) -> Floats:
        whole = np.floor(x) + 1
        return np.where(whole > 0, -np.expm1(special.xlog1py(np.maximum(whole, 0), -self._plain("probs"))), 0.0)

    def _icdf(self, u: Floats) -> Floats:
        return np.maximum(np.ceil(np.log1p(-u) / np.log1p(-self._plain("probs"))) - 1, 0)
