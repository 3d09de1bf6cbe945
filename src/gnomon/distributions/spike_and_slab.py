"""A number that is exactly 0 or else normal: the distribution of sparse coefficients."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import special

from gnomon.distributions.family import Family, Floats
from gnomon.distributions.stable import log_normal_density

__all__ = ["SpikeAndSlab"]


class SpikeAndSlab(Family):
    r"""0 with probability 1 - p, else normal with mean m and standard deviation s.

    A distribution with an atom: densities are with respect to the length of the line plus a point mass at 0, so that
    ``exp(log_prob(0))`` is a probability and elsewhere it is a density. Entropy and divergences are meant the same way.

    Parameters
    ----------
    probability : array, in [0, 1]
        p, of the slab.
    loc : array, real
        m.
    scale : array, positive
        s.

    References
    ----------
    Mitchell and Beauchamp (1988), "Bayesian variable selection in linear regression".

    Examples
    --------
    >>> distribution = SpikeAndSlab(0.25, 0.0, 1.0)
    >>> np.exp(distribution.log_prob([0.0, 1.0])).round(6).tolist(), float(distribution.variance)
    ([0.75, 0.060493], 0.25)
    """

    parameters: ClassVar[dict[str, str]] = {"probability": "probability", "loc": "real", "scale": "positive"}

    def __init__(self, probability: Any, loc: Any = 0.0, scale: Any = 1.0) -> None:
        super().__init__(probability=probability, loc=loc, scale=scale)

    def _support(self, x: Any) -> Any:
        return x.isfinite()

    def _inside(self) -> Any:
        return 0.0

    def _log_density(self, x: Any) -> Any:
        import torch

        p = self._own("probability")
        slab = log_normal_density(x, self._own("loc"), self._own("scale"))
        return torch.where(x == 0, torch.log1p(-p), p.log() + slab)

    def _slab(self) -> Any:
        from torch.distributions import Normal

        return Normal(self._own("loc"), self._own("scale"), validate_args=False)

    @property
    def mean(self) -> Any:
        """p m."""
        return self._answer(self._own("probability") * self._own("loc"))

    @property
    def variance(self) -> Any:
        """p (s^2 + (1 - p) m^2)."""
        p, loc, scale = (self._own(name) for name in self.parameters)
        return self._answer(p * (scale**2 + (1 - p) * loc**2))

    def _entropy(self) -> Any:
        import torch

        p = self._own("probability")
        return torch.special.entr(p) + torch.special.entr(1 - p) + p * self._slab().entropy()

    def _kl(self, other: SpikeAndSlab) -> Any:
        import torch

        p, q = self._own("probability"), other._own("probability")
        spike = torch.special.xlogy(p, p) - torch.special.xlogy(p, q)
        rest = torch.special.xlogy(1 - p, 1 - p) - torch.special.xlogy(1 - p, 1 - q)
        return spike + rest + p * torch.distributions.kl_divergence(self._slab(), other._slab())

    def _quantile(self, u: Any) -> Any:
        raise NotImplementedError  # whether a draw is 0 has no gradient

    def _cdf(self, x: Floats) -> Floats:
        p = self._plain("probability")
        below = special.ndtr((x - self._plain("loc")) / self._plain("scale"))
        return p * below + (1 - p) * (x >= 0)

    def _icdf(self, u: Floats) -> Floats:
        p, loc, scale = (self._plain(name) for name in self.parameters)
        under = p * special.ndtr(-loc / scale)  # mass below 0
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = special.ndtri(u / p), special.ndtri((u - (1 - p)) / p)
        slab = loc + scale * np.where(u <= under, low, high)
        return np.where((u > under) & (u <= under + (1 - p)), 0.0, slab)
