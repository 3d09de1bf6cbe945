"""A normal distribution on the whole line as one of named parameters, positive and bounded ones among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import special

from gnomon.contracts import Noise
from gnomon.inference.parameters import Parameters, Support
from gnomon.inference.variational.families import NormalForm, numpy_of

__all__ = ["NormalMarginal", "NormalPosterior"]

Floats = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(64)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True)
class NormalMarginal:
    """A number whose image on the whole line is normal.

    Parameters
    ----------
    parameter : Support
        Its ends.
    center, scale : float
        Mean and standard deviation on the whole line.

    Examples
    --------
    >>> lognormal = NormalMarginal(Support(low=0.0), 0.0, 1.0)
    >>> round(lognormal.mean, 6), round(float(lognormal.icdf(0.5)), 6)
    (1.648721, 1.0)
    """

    parameter: Support
    center: float
    scale: float

    def _moment(self, power: int, about: float) -> float:
        values = self.parameter.inside(self.center + self.scale * _NODES) - about
        return float((_WEIGHTS * values**power).sum())

    @property
    def mean(self) -> float:
        """By quadrature with 64 nodes, exact where the number has no end."""
        return self._moment(1, 0.0)

    @property
    def variance(self) -> float:
        """By quadrature with 64 nodes."""
        return self._moment(2, self.mean)

    def icdf(self, u: ArrayLike) -> Floats:
        """Quantiles."""
        found: Floats = np.asarray(
            self.parameter.inside(self.center + self.scale * special.ndtri(np.asarray(u, float)))
        )
        return found

    def log_prob(self, x: ArrayLike) -> Floats:
        """Log density in nats of numbers inside the ends."""
        z = self.parameter.outside(x, "x")
        normal = -0.5 * ((z - self.center) / self.scale) ** 2 - np.log(self.scale * np.sqrt(2 * np.pi))
        found: Floats = np.asarray(normal - self.parameter.log_slope(z))
        return found


@dataclass(frozen=True)
class NormalPosterior:
    """Named parameters whose images on the whole line are jointly normal.

    Parameters
    ----------
    form : NormalForm
        On the whole line.
    parameters : Parameters
    """

    form: NormalForm
    parameters: Parameters

    def sample(self, n: int, noise: Noise) -> dict[str, Floats]:
        """Draws, arrays (n, shape) by name."""
        return self.parameters.named(numpy_of(self.form.sample(n, noise)))

    def log_prob(self, values: Mapping[str, Any]) -> Floats:
        """Log density in nats of rows of parameters, in their own units, (n,)."""
        z = np.atleast_2d(self.parameters.row(values))
        found: Floats = numpy_of(self.form.log_prob(torch.from_numpy(z))) - self.parameters.log_slope(z)
        return found

    @property
    def mean(self) -> dict[str, Floats]:
        """Mean of every parameter, in its own units."""
        flat = np.array([one.mean for one in self.marginals.values()])
        names = self.parameters
        return {name: flat[names.slices[name]].reshape(one.sizes) for name, one in names.given.items()}

    @property
    def covariance(self) -> Floats:
        """On the whole line, (d, d): of logarithms and log-odds where parameters have ends."""
        return numpy_of(self.form.covariance)

    @cached_property
    def marginals(self) -> dict[str, NormalMarginal]:
        """Of every number, by names such as ``w[0]``."""
        names = self.parameters
        ends = [one for one in names.given.values() for _ in range(one.size)]
        center, scale = numpy_of(self.form.mean), np.sqrt(numpy_of(self.form.variance))
        return {
            name: NormalMarginal(end, float(m), float(s))
            for name, end, m, s in zip(names.coordinates, ends, center, scale, strict=True)
        }

    def entropy(self) -> float | None:
        """In nats, of parameters without ends; None where there are some."""
        free = all(np.isinf([one.low, one.high]).all() for one in self.parameters.given.values())
        return float(self.form.entropy()) if free else None
