r"""How rows were damaged: the channel :math:`C(\tilde x | x)` that denoising assumes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Noise
from gnomon.errors import UserTypeError, UserValueError

__all__ = ["Corruption", "BitFlips", "GaussianNoise", "check_corruption"]

Floats = NDArray[np.float64]


class Corruption(Protocol):
    """What a channel says; ``str`` of it names what is assumed."""

    def log_prob(self, damaged: Floats, x: Floats) -> Floats:
        """log C(damaged | x) in nats of rows (n, d), shape (n,); -inf where it cannot be."""


@dataclass(frozen=True)
class GaussianNoise:
    """Independent normal noise is added to every cell.

    Parameters
    ----------
    deviation : float or array of shape (d,), in (0, inf)
        Standard deviation in the units of the columns, of all or of each.

    Examples
    --------
    >>> GaussianNoise(1.0).log_prob(np.array([[1.0, 0.0]]), np.zeros((1, 2))).round(6).tolist()
    [-2.337877]
    """

    deviation: Any

    def __post_init__(self) -> None:
        found = _numbers(self.deviation, "deviation")
        if not (np.isfinite(found) & (found > 0)).all():
            raise UserValueError.must("deviation", "be positive and finite", self.deviation)

    def __str__(self) -> str:
        return f"normal noise of deviation {_range_of(self.deviation)}"

    def variances(self, d: int) -> Floats:
        """Of each of d columns."""
        return _each(_numbers(self.deviation, "deviation"), d, "deviation") ** 2

    def log_prob(self, damaged: Floats, x: Floats) -> Floats:
        """See `Corruption`."""
        variance = self.variances(x.shape[1])
        found: Floats = -0.5 * ((damaged - x) ** 2 / variance + np.log(2 * np.pi * variance)).sum(1)
        return found

    def damage(self, x: ArrayLike, noise: Noise) -> Floats:
        """Rows with noise."""
        rows = np.asarray(x, np.float64)
        return rows + np.sqrt(self.variances(rows.shape[1])) * noise.normal(rows.shape, like=rows)


@dataclass(frozen=True)
class BitFlips:
    """Every bit is flipped by itself with a probability.

    Parameters
    ----------
    probability : float or array of shape (d,), in (0, 1)
        Of a flip, of all bits or of each.

    Examples
    --------
    >>> np.exp(BitFlips(0.1).log_prob(np.array([[1.0, 0.0]]), np.array([[1.0, 1.0]]))).round(6).tolist()
    [0.09]
    """

    probability: Any

    def __post_init__(self) -> None:
        found = _numbers(self.probability, "probability")
        if not ((found > 0) & (found < 1)).all():
            raise UserValueError.must("probability", "be in (0, 1)", self.probability)

    def __str__(self) -> str:
        return f"bits flipped with probability {_range_of(self.probability)}"

    def probabilities(self, d: int) -> Floats:
        """Of each of d columns."""
        return _each(_numbers(self.probability, "probability"), d, "probability")

    def log_prob(self, damaged: Floats, x: Floats) -> Floats:
        """See `Corruption`."""
        p = self.probabilities(x.shape[1])
        found: Floats = np.where(damaged == x, np.log1p(-p), np.log(p)).sum(1)
        return found

    def damage(self, x: ArrayLike, noise: Noise) -> Floats:
        """Rows with flips."""
        rows = np.asarray(x, np.float64)
        flipped = noise.bernoulli(np.broadcast_to(self.probabilities(rows.shape[1]), rows.shape))
        return np.abs(rows - flipped)


def check_corruption(given: Any) -> Any:
    """The channel.

    Raises
    ------
    UserTypeError
        What has no log_prob(damaged, x).
    """
    if isinstance(given, type) or not callable(getattr(given, "log_prob", None)):
        what = f"corruption must be GaussianNoise, BitFlips or have log_prob(damaged, x), got {given!r}"
        raise UserTypeError(what, "corruption", "GaussianNoise(0.1), say")
    return given


def _numbers(value: Any, name: str) -> Floats:
    try:
        return np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise UserValueError.must(name, "be a number, or one for each column", value) from None


def _each(value: Floats, d: int, name: str) -> Floats:
    if value.shape not in ((), (d,)):
        raise UserValueError(f"{name} must be one number or {d}, got shape {value.shape}", name)
    return np.broadcast_to(value, (d,))


def _range_of(value: Any) -> str:
    found = np.unique(np.asarray(value, np.float64))
    return f"{found[0]:g}" if len(found) == 1 else f"{found[0]:g} to {found[-1]:g} by column"
