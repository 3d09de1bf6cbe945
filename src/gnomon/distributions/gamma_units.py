"""Positive units: precisions and rates that a layer holds for its neighbors."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Distribution
from gnomon.distributions.layers import exp
from gnomon.distributions.units import Own, Units, mean_of
from gnomon.numeric.tensors import detached

__all__ = ["GammaUnits", "Gammas", "standard_gamma"]


class GammaUnits(Units):
    r"""Positive units, :math:`w(h) = \sum_j (\gamma_j - 1) \log h_j - h_j`: gamma numbers of the rate 1 less the field.

    Under a field f < 1 a unit is Gamma(shape :math:`\gamma`, rate 1 - f), with the mean :math:`\gamma / (1 - f)`. The
    parameter is ``log_shape``, :math:`\log \gamma`.

    Examples
    --------
    >>> found = GammaUnits(1).conditional(np.array([[-1.0]]), {"log_shape": np.log([3.0])})
    >>> found.mean.round(6).tolist(), found.variance.round(6).tolist()
    ([[1.5]], [[0.75]])
    """

    parameters: ClassVar[tuple[str, ...]] = ("log_shape",)

    @property
    def center(self) -> NDArray[np.float64]:
        """Means of units of the shape 1."""
        return np.ones(self.size)

    def conditional(self, field: Array, own: Own) -> Gammas:
        """Gamma numbers of the rates 1 - field."""
        return Gammas(exp(own["log_shape"]), 1 - field)

    def log_normalizer(self, field: Array, own: Own) -> Array:
        """Sum of ``log Gamma(shape) - shape log(1 - field)``."""
        shape = exp(own["log_shape"])
        return (_lgamma(shape) - shape * _log1p(-field)).sum(-1)

    def log_weight(self, x: Array | Distribution, own: Own) -> Array:
        """With the logs."""
        return ((exp(own["log_shape"]) - 1) * _mean_log(x) - mean_of(x)).sum(-1)

    def statistics(self, x: Array | Distribution, mean: Array, own: Own) -> dict[str, Array]:
        """shape log h."""
        return {"log_shape": exp(own["log_shape"]) * _mean_log(x)}

    def mix(self, start: Own, end: Own, eta: float) -> dict[str, Array]:
        """Shapes mix linearly."""
        return {"log_shape": _log((1 - eta) * exp(start["log_shape"]) + eta * exp(end["log_shape"]))}

    def base(self, mean: NDArray[np.float64] | None, own: Own) -> dict[str, NDArray[np.float64]]:
        """Shapes are kept."""
        return {"log_shape": np.asarray(own["log_shape"], np.float64)}


class Gammas:
    """Independent gamma numbers: a shape for each column, a rate for each row and column.

    Parameters
    ----------
    shape : array or tensor, shape (n,)
    rate : array or tensor, shape (rows, n)
        1 / scale.

    Examples
    --------
    >>> Gammas(np.ones(2), np.ones((1, 2))).log_prob(np.array([[1.0, 2.0]])).tolist()
    [-3.0]
    """

    __slots__ = ("rate", "shape")

    def __init__(self, shape: Any, rate: Any) -> None:
        self.shape, self.rate = shape, rate

    @property
    def mean(self) -> Any:
        """shape / rate."""
        return self.shape / self.rate

    @property
    def mode(self) -> Any:
        """(shape - 1) / rate; 0 where the shape is at most 1 and the density falls from there on."""
        return (self.shape - 1).clip(0) / self.rate

    @property
    def variance(self) -> Any:
        """shape / rate^2."""
        return self.mean / self.rate

    @property
    def mean_log(self) -> Any:
        """E[log h]."""
        return _digamma(self.shape) - _log(self.rate)

    def sample(self, noise: Any, draw: int = 0) -> Any:
        """One draw of every unit, of which the logarithm is finite; carries no gradient."""
        drawn = standard_gamma(self.shape, tuple(self.rate.shape), noise, draw, self.rate) / self.rate
        least = 2.0**-126  # of float32; small shapes pass below it
        return detached(drawn).clip(least)

    def log_prob(self, x: Any) -> Any:
        """Log density of each row in nats."""
        return (self.shape * _log(self.rate) - _lgamma(self.shape) + (self.shape - 1) * _log(x) - self.rate * x).sum(-1)

    def entropy(self) -> Any:
        """Differential entropy of each row in nats."""
        a = self.shape
        return (a - _log(self.rate) + _lgamma(a) + (1 - a) * _digamma(a)).sum(-1)


def standard_gamma(shape: Any, size: tuple[int, ...], noise: Any, draw: int = 0, like: Any = None) -> Any:
    """Gamma numbers of the rate 1, by rejection: a number depends on its own address alone.

    Parameters
    ----------
    shape : array or tensor that broadcasts to `size`, in (0, inf)
    size : tuple of int
    noise : Noise
    draw : int
    like : array or tensor
        The kind and type of the answer.

    Notes
    -----
    About 1.05 normal and uniform numbers are used for each; whole arrays are drawn until the last is accepted. They are
    drawn for shape + 1, of which a uniform number to the power 1 / shape makes the shape itself.

    References
    ----------
    Marsaglia and Tsang (2000), "A simple method for generating gamma variables".
    """
    shape = detached(shape)
    d = shape + 2 / 3
    c = 1 / (9 * d) ** 0.5
    found: Any = None
    left: Any = None
    attempt = 0
    while left is None or bool(left.any()):
        stream = noise.child(f"gamma/{attempt}")
        z = stream.normal(size, draw, like=like)
        v = (1 + c * z) ** 3
        inside = v > 0
        v = v * inside + ~inside  # 1 where it is not taken
        log_u = _log(stream.child("test").uniform(size, draw, like=like))
        taken = inside & (log_u < 0.5 * z * z + d * (1 - v + _log(v)))
        found = d * v if found is None else found + (d * v - found) * (taken & left)
        left = ~taken if left is None else left & ~taken
        attempt += 1
    power = _log(noise.child("gamma/power").uniform(size, draw, like=like)) / shape
    return found * exp(power)


def _mean_log(x: Any) -> Any:
    """log x, E[log x] of a Distribution."""
    return x.mean_log if hasattr(x, "log_prob") else _log(x)


def _log(x: Any) -> Any:
    return x.log() if hasattr(x, "log") else np.log(x)


def _log1p(x: Any) -> Any:
    return x.log1p() if hasattr(x, "log1p") else np.log1p(x)


def _lgamma(x: Any) -> Any:
    if hasattr(x, "lgamma"):
        return x.lgamma()
    from scipy.special import gammaln

    return gammaln(x)


def _digamma(x: Any) -> Any:
    if hasattr(x, "digamma"):
        return x.digamma()
    from scipy.special import digamma

    return digamma(x)
