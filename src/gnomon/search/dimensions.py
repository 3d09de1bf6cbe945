"""Ranges of one hyper-parameter: whole numbers, real numbers, choices; drawn from, laid out as a grid, narrowed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from gnomon.errors import UserTypeError, UserValueError

if TYPE_CHECKING:
    from optuna.trial import Trial

    from gnomon.contracts import Array

__all__ = ["OneOf", "Dimension", "RealRange", "WholeRange", "label"]


@dataclass(frozen=True)
class OneOf:
    """One of some values.

    Parameters
    ----------
    values : sequence
        At least one: texts, numbers, truth values or None.

    Examples
    --------
    >>> OneOf(("relu", "tanh")).grid(5)
    ['relu', 'tanh']
    """

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise UserValueError("a choice needs at least one value, got none", "space")
        if len(set(map(label, self.values))) < len(self.values):
            raise UserValueError(f"values must differ, got {', '.join(map(str, self.values))}", "space")

    @property
    def size(self) -> float:
        """How many values there are."""
        return len(self.values)

    def holds(self, value: Any) -> bool:
        """Whether it is one of the values."""
        return label(value) in map(label, self.values)

    def at(self, u: float) -> Any:
        """The value at a quantile in [0, 1]; a uniform one gives all values with equal probabilities."""
        return self.values[min(int(u * len(self.values)), len(self.values) - 1)]

    def narrowed(self, value: Any, factor: float) -> OneOf:
        """All values: they have no order."""
        return self

    def only(self, value: Any) -> OneOf:
        """All values, too: the choices of a name never change in a store."""
        return self

    def grid(self, n: int) -> list[Any]:
        """All values, whatever `n` is."""
        return list(self.values)

    def suggest(self, trial: Trial, name: str) -> Any:
        """The value that a trial of Optuna takes: stored by its text, since a store holds no tuples."""
        return self.read(trial.suggest_categorical(name, list(map(label, self.values))))

    def stored(self, value: Any) -> str:
        """The value as a trial of Optuna keeps it."""
        return label(value)

    def read(self, stored: Any) -> Any:
        """The value from what a trial keeps."""
        return next(value for value in self.values if label(value) == stored)

    def __str__(self) -> str:
        return ",".join(map(label, self.values))


def label(value: Any) -> str:
    """A value as the command line takes it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return "x".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


@dataclass(frozen=True)
class RealRange:
    r"""A number in an interval, uniform or with a uniform logarithm.

    With ``log=True`` the density is :math:`p(x) = 1 / (x \log(b / a))` on [a, b].

    Parameters
    ----------
    low, high : float
        With ``log=True`` both positive.
    log : bool, default False

    Raises
    ------
    UserTypeError, UserValueError
        Bounds that are no finite numbers, are not in order, or are not positive where their logarithm is taken.

    Notes
    -----
    Source: Goodfellow, Bengio and Courville (2016), section 11.4.4, for the logarithmic scale.

    Examples
    --------
    >>> rate = RealRange(1e-5, 1e-1, log=True)
    >>> round(float(rate.cdf(0.01)), 4), [f"{x:.0e}" for x in rate.grid(5)]
    (0.75, ['1e-05', '1e-04', '1e-03', '1e-02', '1e-01'])
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        _check_bounds(self)

    @property
    def size(self) -> float:
        """Infinite, unless the bounds are equal."""
        return 1 if self.low == self.high else math.inf

    @property
    def _distribution(self) -> Any:
        if self.log:
            return stats.loguniform(self.low, self.high)
        return stats.uniform(self.low, self.high - self.low)

    def holds(self, value: Any) -> bool:
        """Whether a value is a number within the ends."""
        return isinstance(value, int | float) and self.low <= value <= self.high

    def at(self, u: float) -> float:
        """The number at a quantile in [0, 1], to four significant digits; a uniform one gives the range's law."""
        at = self.low * (self.high / self.low) ** u if self.log else self.low + (self.high - self.low) * u
        return self.read(at)

    def narrowed(self, value: float, factor: float) -> RealRange:
        """The part of the range around a value whose width (of the logarithm) is `factor` times that of the range."""
        low, high = _narrowed(self, self.low, self.high, value, factor)
        return RealRange(max(low, self.low), min(high, self.high), log=self.log)

    def only(self, value: float) -> RealRange:
        """The range of one number, which may lie outside this one."""
        return RealRange(value, value, log=self.log)

    def pdf(self, x: Any) -> Array:
        """Density at x; 0 outside the interval."""
        return np.asarray(self._distribution.pdf(x))

    def cdf(self, x: Any) -> Array:
        """Probability of at most x."""
        return np.asarray(self._distribution.cdf(x))

    def grid(self, n: int) -> list[float]:
        """`n` numbers from end to end, at equal distances (of their logarithms)."""
        return _spaced(self, n).tolist()

    def suggest(self, trial: Trial, name: str) -> float:
        """The number that a trial of Optuna takes, in a few digits."""
        return self.read(trial.suggest_float(name, self.low, self.high, log=self.log))

    def stored(self, value: Any) -> float:
        """The value as a trial of Optuna keeps it."""
        return float(value)

    def read(self, stored: Any) -> float:
        """The value from what a trial keeps: to four significant digits, which people can read and type."""
        short = float(f"{stored:.4g}")
        return min(max(short, self.low), self.high) if self.low <= stored <= self.high else short

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}{':log' * self.log}"


@dataclass(frozen=True)
class WholeRange:
    """A whole number in an interval, its ends included, uniform or with a uniform logarithm, rounded.

    Parameters
    ----------
    low, high : int
        With ``log=True`` both positive.
    log : bool, default False

    Raises
    ------
    UserTypeError, UserValueError
        As `RealRange`, and bounds that are no whole numbers.

    Examples
    --------
    >>> WholeRange(16, 256, log=True).grid(5), WholeRange(1, 3).grid(10)
    ([16, 32, 64, 128, 256], [1, 2, 3])
    """

    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        _check_bounds(self)
        for value in (self.low, self.high):
            if value != int(value):
                raise UserValueError(f"the bounds of whole numbers must be whole, got {value}", "space")

    @property
    def size(self) -> float:
        """How many numbers there are."""
        return self.high - self.low + 1

    def holds(self, value: Any) -> bool:
        """Whether a value is a number within the ends."""
        return isinstance(value, int | float) and self.low <= value <= self.high

    def at(self, u: float) -> int:
        """The number at a quantile in [0, 1]: of a real one in [low - 1/2, high + 1/2], rounded: ends are not rare."""
        low, high = self.low - 0.5, self.high + 0.5
        real = low * (high / low) ** u if self.log else low + (high - low) * u
        return min(max(round(real), self.low), self.high)

    def narrowed(self, value: int, factor: float) -> WholeRange:
        """The part around a value whose width (of the logarithm) is `factor` times that of the range, or a neighbor."""
        low, high = _narrowed(self, self.low - 0.5, self.high + 0.5, value, factor)
        ends = min(math.ceil(low), value - 1), max(math.floor(high), value + 1)
        return WholeRange(max(ends[0], self.low), min(ends[1], self.high), log=self.log)

    def only(self, value: int) -> WholeRange:
        """The range of one number, which may lie outside this one."""
        return WholeRange(value, value, log=self.log)

    def grid(self, n: int) -> list[int]:
        """At most `n` different numbers from end to end, at about equal distances (of their logarithms)."""
        return np.unique(np.rint(_spaced(self, n)).astype(int)).tolist()

    def suggest(self, trial: Trial, name: str) -> int:
        """The number that a trial of Optuna takes."""
        return trial.suggest_int(name, self.low, self.high, log=self.log)

    def stored(self, value: Any) -> int:
        """The value as a trial of Optuna keeps it."""
        return int(value)

    def read(self, stored: Any) -> int:
        """The value from what a trial keeps."""
        return int(stored)

    def __str__(self) -> str:
        return f"{self.low}..{self.high}{':log' * self.log}"


Dimension = OneOf | RealRange | WholeRange


def _check_bounds(range_: RealRange | WholeRange) -> None:
    for name, value in (("low", range_.low), ("high", range_.high)):
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            raise UserTypeError.must(name, "be a number", value, "space")
        if not math.isfinite(value):
            raise UserValueError(f"{name} must be finite, got {value}", "space")
    if range_.low > range_.high:
        raise UserValueError(f"low must be at most high, got {range_.low} and {range_.high}", "space", "exchange them")
    if range_.log and range_.low <= 0:
        raise UserValueError(f"low must be positive where the logarithm is uniform, got {range_.low}", "space")


def _narrowed(
    range_: RealRange | WholeRange, low: float, high: float, value: float, factor: float
) -> tuple[float, float]:
    """Ends around a value at `factor` times the width from `low` to `high`."""
    if range_.log:
        spread = (high / low) ** (factor / 2)
        return value / spread, value * spread
    return value - (high - low) * factor / 2, value + (high - low) * factor / 2


def _spaced(range_: RealRange | WholeRange, n: int) -> Array:
    """Numbers from end to end, whose ends are exact."""
    if n == 1:
        return np.array([math.sqrt(range_.low * range_.high) if range_.log else (range_.low + range_.high) / 2])
    space = np.geomspace if range_.log else np.linspace
    return np.asarray(space(range_.low, range_.high, n))
