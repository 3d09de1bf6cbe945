"""Kinds of units: what a layer of an energy machine is made of.

Units of one kind are an exponential family whose natural parameter is moved by a field from the neighbors: the log
weight of a layer x under a field f is ``w(x) + x . f`` (a normal unit's w holds the square). A kind knows w and what
follows from it: the conditional distribution, the log normalizer ``A(f) = log sum_x exp(w(x) + x . f)``, the
derivatives of w, and how two parameter sets mix. A layer's own parameters are handed in as arrays by name. Where links
see more of a unit than its value, such as the square too, ``features(x)`` stands for x in ``x . f``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Distribution, Noise
from gnomon.distributions.bernoulli import Bernoulli
from gnomon.distributions.layers import LOG_2_PI, Gaussians, OneHot, Spins, exp
from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.ops import logsumexp, sigmoid, softplus

__all__ = [
    "BernoulliUnits", "CategoricalUnits", "CenteredGaussianUnits", "CenteredScaledGaussianUnits", "GaussianUnits",
    "IsingUnits", "ScaledGaussianUnits", "Units",
]  # fmt: skip

Own = Mapping[str, Array]
"""A layer's own parameters by name."""


@dataclass(frozen=True)
class Units:
    """Base: n units of a kind. A subclass says what values they take and how likely these are.

    Parameters
    ----------
    n : int, in [1, inf)
    """

    n: int
    parameters: ClassVar[tuple[str, ...]] = ("bias",)
    drawn: ClassVar[bool] = True
    """Whether the layer has a distribution; one that is always given has none."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, bool) or not hasattr(value, "__index__"):
                raise UserTypeError(f"{name} must be a whole number, got {value!r}", type(self).__name__)
            if value < 1:
                raise UserValueError(f"{name} must be at least 1, got {value}", type(self).__name__)

    @property
    def size(self) -> int:
        """Columns of the layer's array."""
        return self.n

    @property
    def n_features(self) -> int:
        """Columns of `features`, and of a field."""
        return self.size

    @property
    def unit_of_column(self) -> NDArray[np.int64]:
        """The number of the unit that each column of the layer's array belongs to, shape (size,)."""
        return np.arange(self.n).repeat(self.size // self.n)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the layer's own parameters."""
        return dict.fromkeys(self.parameters, (self.size,))

    def features(self, x: Array | Distribution) -> Array:
        """What links couple, (rows, n_features): x itself, its expectation where x is a Distribution."""
        found: Array = mean_of(x)
        return found

    @property
    def n_states(self) -> float:
        """States of the whole layer; infinite for real units."""
        return math.inf

    def states(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """The states with these numbers in lexicographic order, the first unit the most significant."""
        raise UserValueError(f"the states of {type(self).__name__} cannot be counted", "states", "sample them")

    @property
    def center(self) -> NDArray[np.float64]:
        """Means of the units without field and preference, shape (size,)."""
        return np.zeros(self.size)

    def start(self, noise: Noise, rows: int, like: Array, draw: int = 0) -> Array:
        """Rows of the layer without field and preference."""
        own = {name: _convert(np.zeros(shape), like) for name, shape in self.shapes.items()}
        return self.conditional(_convert(np.zeros((rows, self.n_features)), like), own).sample(noise, draw)

    def conditional(self, field: Array, own: Own) -> Distribution:
        """Distribution of the layer under a field (rows, size) from its neighbors; the field may be written over."""
        raise NotImplementedError

    def log_normalizer(self, field: Array, own: Own) -> Array:
        """A(f) of each row in nats; the field may be written over."""
        raise NotImplementedError

    def log_weight(self, x: Array | Distribution, own: Own) -> Array:
        """w(x) of each row in nats, without field; its expectation where x is a Distribution."""
        return mean_of(x) @ own["bias"]

    def statistics(self, x: Array | Distribution, mean: Array, own: Own) -> dict[str, Array]:
        """Derivatives of w(x) by parameter, a row each, given its features; expectations where x is a Distribution."""
        return {"bias": mean}

    def mix(self, start: Own, end: Own, eta: float) -> dict[str, Array]:
        """The parameters whose log weight is ``(1 - eta) w_start + eta w_end``, up to a constant."""
        return {name: (1 - eta) * start[name] + eta * end[name] for name in self.parameters}

    def base(self, mean: NDArray[np.float64] | None, own: Own) -> dict[str, NDArray[np.float64]]:
        """Parameters with which the units have these means without a field, as far as their kind lets; None: fair."""
        return {name: np.zeros(self.size) for name in self.parameters} | ({} if mean is None else self._fitting(mean))

    def _fitting(self, mean: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """The parameters that the means change."""
        raise NotImplementedError


class BernoulliUnits(Units):
    """Units of 0 and 1, w(x) = bias . x.

    Examples
    --------
    >>> BernoulliUnits(2).states(np.arange(4)).tolist()
    [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    """

    values: ClassVar[tuple[float, float]] = (0.0, 1.0)
    """The two values of a column: of a unit."""

    @property
    def n_states(self) -> float:
        """2^n, a whole number of any size."""
        return 1 << self.n

    def states(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """The bits of the numbers."""
        shift = np.arange(self.n - 1, -1, -1, dtype=np.int64)
        return ((numbers[:, None] >> shift) & 1).astype(np.float64)

    @property
    def center(self) -> NDArray[np.float64]:
        """1/2."""
        return np.full(self.size, 0.5)

    def conditional(self, field: Array, own: Own) -> Bernoulli:
        """Log-odds field + bias."""
        field += own["bias"]
        return Bernoulli(field)

    def log_normalizer(self, field: Array, own: Own) -> Array:
        """Sum of softplus(field + bias)."""
        field += own["bias"]
        return softplus(field).sum(-1)

    def cumulants(self, field: Array, own: Own) -> tuple[Array, Array, Array]:
        """First to third derivative of A by the field, (rows, size) each; the field may be written over."""
        field += own["bias"]
        mean = sigmoid(field)
        variance = mean * (1 - mean)
        return mean, variance, variance * (1 - 2 * mean)

    def _fitting(self, mean: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Log-odds of the means, which are kept between 0.01 and 0.99."""
        chance = np.clip(mean, 0.01, 0.99)
        return {"bias": np.log(chance) - np.log1p(-chance)}


class IsingUnits(BernoulliUnits):
    """Spins of -1 and 1, w(x) = bias . x.

    Examples
    --------
    >>> IsingUnits(1).states(np.arange(2)).tolist()
    [[-1.0], [1.0]]
    """

    values: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def states(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """The bits of the numbers, -1 for 0."""
        return 2 * super().states(numbers) - 1

    @property
    def center(self) -> NDArray[np.float64]:
        """0."""
        return np.zeros(self.size)

    def conditional(self, field: Array, own: Own) -> Spins:  # type: ignore[override]
        """Means tanh(field + bias)."""
        field += own["bias"]
        return Spins(field)

    def log_normalizer(self, field: Array, own: Own) -> Array:
        """Sum of log(2 cosh(field + bias))."""
        field += own["bias"]
        return (softplus(2 * field) - field).sum(-1)

    def cumulants(self, field: Array, own: Own) -> tuple[Array, Array, Array]:
        """Those of twice a bit less one at twice the field."""
        field += own["bias"]
        mean, variance, third = BernoulliUnits.cumulants(self, 2 * field, {"bias": 0.0})
        return 2 * mean - 1, 4 * variance, 8 * third

    def _fitting(self, mean: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Half the log-odds of a 1, whose probability is kept between 0.01 and 0.99."""
        return {"bias": 0.5 * super()._fitting((mean + 1) / 2)["bias"]}


@dataclass(frozen=True)
class CategoricalUnits(Units):
    """n groups of columns, one of which is 1 in each group (one-hot), w(x) = bias . x.

    Parameters
    ----------
    n : int, in [1, inf)
        Groups: categorical variables.
    levels : int, in [1, inf)
        Values of each.

    Examples
    --------
    >>> CategoricalUnits(1, 3).states(np.arange(3)).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    levels: int = 2
    values: ClassVar[tuple[float, float]] = (0.0, 1.0)
    """The two values of a column."""

    @property
    def size(self) -> int:
        """A column for each level of each group."""
        return self.n * self.levels

    @property
    def n_states(self) -> float:
        """levels^n, a whole number of any size."""
        return self.levels**self.n

    def states(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """The digits of the numbers, one-hot."""
        digits = numbers[:, None] // self.levels ** np.arange(self.n - 1, -1, -1, dtype=np.int64) % self.levels
        return (digits[..., None] == np.arange(self.levels)).reshape(len(numbers), self.size).astype(np.float64)

    @property
    def center(self) -> NDArray[np.float64]:
        """1 / levels."""
        return np.full(self.size, 1 / self.levels)

    def conditional(self, field: Array, own: Own) -> OneHot:
        """Softmax of field + bias in each group."""
        field += own["bias"]
        return OneHot(field, self.levels)

    def log_normalizer(self, field: Array, own: Own) -> Array:
        """Sum over the groups of logsumexp(field + bias)."""
        field += own["bias"]
        return logsumexp(field.reshape(len(field), self.n, self.levels)).sum(-1)

    def _fitting(self, mean: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Logs of the means, which are kept above 0.01."""
        return {"bias": np.log(np.clip(mean, 0.01, 1.0))}


class GaussianUnits(Units):
    """Real units of variance 1 given their field, w(x) = bias . x - x . x / 2.

    Linked to each other they need weights small enough for the joint density to be integrable.

    Examples
    --------
    >>> own = {"bias": np.zeros(1)}
    >>> GaussianUnits(1).log_normalizer(np.array([[0.0]]), own).round(4).tolist()
    [0.9189]
    """

    def conditional(self, field: Array, own: Own) -> Gaussians:
        """Mean field + bias."""
        log_precision = self._log_precision(own)
        field += own["bias"]
        return Gaussians(exp(-log_precision) * field, log_precision)

    def log_normalizer(self, field: Array, own: Own) -> Array:
        """Sum of ``(field + bias)^2 / (2 precision) + log(2 pi / precision) / 2``."""
        log_precision = self._log_precision(own)
        field += own["bias"]
        return 0.5 * (exp(-log_precision) * field * field + (LOG_2_PI - log_precision)).sum(-1)

    def log_weight(self, x: Array | Distribution, own: Own) -> Array:
        """With the square."""
        return mean_of(x) @ own["bias"] - 0.5 * (exp(self._log_precision(own)) * _square(x)).sum(-1)

    def _fitting(self, mean: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """The means themselves."""
        return {"bias": np.asarray(mean, np.float64)}

    def slopes(self, x: Array, own: Own) -> tuple[Array, Array]:
        """First and second derivative of w by x, (rows, size) and (size,): bias - precision x, and -precision."""
        precision = exp(self._log_precision(own)) + 0 * own["bias"]
        return own["bias"] - precision * x, -precision

    def slope_statistics(self, x: Array, by_first: Array, by_second: Array, own: Own) -> dict[str, Array]:
        """Sums over rows of by_first * d first + by_second * d second derivative of w by x, by parameter, (size,)."""
        found = {"bias": by_first.sum(0)}
        if "log_precision" in self.parameters:
            found["log_precision"] = -exp(own["log_precision"]) * (by_first * x + by_second).sum(0)
        return found

    def _log_precision(self, own: Own) -> Any:
        return 0.0


class CenteredGaussianUnits(GaussianUnits):
    """Real units of variance 1 given their field, w(x) = -|x - bias|^2 / 2, as in the Gaussian-Bernoulli machine.

    The same distribution as `GaussianUnits`; energies, and with them log Z, differ by |bias|^2 / 2. Beside a layer of
    bits c the free energy of x is ``|x - bias|^2 / 2 - sum_i softplus(c_i + (x W)_i)``.

    Examples
    --------
    >>> own = {"bias": np.full(1, 3.0)}
    >>> CenteredGaussianUnits(1).log_weight(np.array([[3.0], [5.0]]), own).tolist()
    [0.0, -2.0]
    """

    def log_normalizer(self, field: Array, own: Own) -> Array:
        """Sum of ``field^2 / 2 + field bias + log(2 pi) / 2``."""
        return super().log_normalizer(field, own) - self._square_of_bias(own)

    def log_weight(self, x: Array | Distribution, own: Own) -> Array:
        """With the square about the bias."""
        return super().log_weight(x, own) - self._square_of_bias(own)

    def statistics(self, x: Array | Distribution, mean: Array, own: Own) -> dict[str, Array]:
        """x - bias."""
        return {"bias": mean - own["bias"]}

    def _square_of_bias(self, own: Own) -> Any:
        return 0.5 * (own["bias"] * own["bias"]).sum(-1)


class ScaledGaussianUnits(GaussianUnits):
    """Real units with precisions of their own that are learned, w(x) = bias . x - sum_j exp(log_precision_j) x_j^2 / 2.

    Given a field f the mean is (f + bias) / precision: a link's weight is in units of 1 / variance, as in the energy
    ``(v - b)^2 / (2 s^2) - v W h / s^2`` with b and W divided by s^2 beforehand.
    """

    parameters: ClassVar[tuple[str, ...]] = ("bias", "log_precision")

    def statistics(self, x: Array | Distribution, mean: Array, own: Own) -> dict[str, Array]:
        """x, and -precision x^2 / 2."""
        return {"bias": mean, "log_precision": -0.5 * exp(own["log_precision"]) * _square(x)}

    def mix(self, start: Own, end: Own, eta: float) -> dict[str, Array]:
        """Precisions mix linearly."""
        low, high = (exp(own["log_precision"]) for own in (start, end))
        precision = (1 - eta) * low + eta * high
        log = precision.log() if hasattr(precision, "log") else np.log(precision)
        return {"bias": (1 - eta) * start["bias"] + eta * end["bias"], "log_precision": log}

    def base(self, mean: NDArray[np.float64] | None, own: Own) -> dict[str, NDArray[np.float64]]:
        """Biases mean * precision; the precisions are kept."""
        log_precision = np.asarray(own["log_precision"], np.float64)
        bias = np.zeros(self.size) if mean is None else np.exp(log_precision) * mean
        return {"bias": bias, "log_precision": log_precision}

    def _log_precision(self, own: Own) -> Any:
        return own["log_precision"]


class CenteredScaledGaussianUnits(ScaledGaussianUnits):
    """Real units with learned precisions, w(x) = -sum_j exp(log_precision_j) (x_j - bias_j)^2 / 2: bias is a mean.

    The same distributions as `ScaledGaussianUnits`, whose bias is the product of mean and precision: a precision that
    grows leaves the mean where it is.

    Examples
    --------
    >>> own = {"bias": np.full(1, 3.0), "log_precision": np.log(np.full(1, 2.0))}
    >>> CenteredScaledGaussianUnits(1).log_weight(np.array([[4.0], [5.0]]), own).round(6).tolist()
    [-1.0, -4.0]
    """

    def conditional(self, field: Array, own: Own) -> Gaussians:
        """Mean bias + field / precision."""
        field *= exp(-own["log_precision"])
        field += own["bias"]
        return Gaussians(field, own["log_precision"])

    def log_normalizer(self, field: Array, own: Own) -> Array:
        """Sum of ``field^2 / (2 precision) + field bias + log(2 pi / precision) / 2``."""
        log_precision = own["log_precision"]
        squares = 0.5 * exp(-log_precision) * field * field
        return (squares + field * own["bias"] + 0.5 * (LOG_2_PI - log_precision)).sum(-1)

    def log_weight(self, x: Array | Distribution, own: Own) -> Array:
        """With the square about the bias."""
        return -0.5 * (exp(own["log_precision"]) * self._about(x, own)).sum(-1)

    def statistics(self, x: Array | Distribution, mean: Array, own: Own) -> dict[str, Array]:
        """precision (x - bias), and -precision (x - bias)^2 / 2."""
        precision = exp(own["log_precision"])
        return {"bias": precision * (mean - own["bias"]), "log_precision": -0.5 * precision * self._about(x, own)}

    def mix(self, start: Own, end: Own, eta: float) -> dict[str, Array]:
        """Precisions mix linearly, and so do means times precisions."""
        low, high = ((1 - eta) * exp(start["log_precision"]), eta * exp(end["log_precision"]))
        precision = low + high
        log = precision.log() if hasattr(precision, "log") else np.log(precision)
        return {"bias": (low * start["bias"] + high * end["bias"]) / precision, "log_precision": log}

    def base(self, mean: NDArray[np.float64] | None, own: Own) -> dict[str, NDArray[np.float64]]:
        """Biases at the means; the precisions are kept."""
        bias = np.zeros(self.size) if mean is None else np.asarray(mean, np.float64)
        return {"bias": bias, "log_precision": np.asarray(own["log_precision"], np.float64)}

    def slopes(self, x: Array, own: Own) -> tuple[Array, Array]:
        """precision (bias - x), and -precision."""
        precision = exp(own["log_precision"])
        return precision * (own["bias"] - x), -precision

    def slope_statistics(self, x: Array, by_first: Array, by_second: Array, own: Own) -> dict[str, Array]:
        """The slope moves with the precision as far as x is from the bias."""
        found = super().slope_statistics(x - own["bias"], by_first, by_second, own)
        return found | {"bias": exp(own["log_precision"]) * found["bias"]}

    @staticmethod
    def _about(x: Any, own: Own) -> Any:
        """(x - bias)^2, its expectation where x is a Distribution."""
        away = mean_of(x) - own["bias"]
        return away * away + x.variance if hasattr(x, "log_prob") else away * away


def mean_of(x: Any) -> Any:
    """An array itself, the mean of a Distribution."""
    return x if isinstance(x, np.ndarray) or not hasattr(x, "log_prob") else x.mean


def _square(x: Any) -> Any:
    """x^2, E[x^2] of a Distribution."""
    return x.mean * x.mean + x.variance if hasattr(x, "log_prob") else x * x


def _convert(x: NDArray[np.float64], like: Array) -> Array:
    if isinstance(like, np.ndarray):
        return x.astype(like.dtype)
    import torch

    return torch.as_tensor(x, dtype=like.dtype, device=like.device)
