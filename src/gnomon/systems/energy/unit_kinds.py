"""Kinds of units to choose from: what the layers of a harmonium are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from gnomon.distributions.binomial_units import BinomialUnits
from gnomon.distributions.domains import Binary, Domain, Real, UnitInterval
from gnomon.distributions.harmonium_units import PoissonUnits, RateUnits, TruncatedExponentialUnits
from gnomon.distributions.units import BernoulliUnits, CategoricalUnits, GaussianUnits, IsingUnits, Units
from gnomon.distributions.whole import Counts
from gnomon.recipes.recipe import Recipe

__all__ = [
    "Bits", "Categorical", "Count", "Exponential", "Normal", "Spin", "Trials", "TruncatedExponential", "UnitKind",
]  # fmt: skip


class UnitKind(Recipe):
    """Base: an exponential family of which each unit of a layer is a member."""

    domain: ClassVar[Domain | None] = None
    """What a table holds whose columns are such units; None where they can be hidden units alone."""

    def units(self, n: int) -> Units:
        """A layer of n."""
        raise NotImplementedError


@dataclass(frozen=True)
class Bits(UnitKind):
    """0 or 1."""

    short: ClassVar[str] = "bernoulli"
    domain: ClassVar[Domain | None] = Binary()

    def units(self, n: int) -> Units:
        """A layer of n."""
        return BernoulliUnits(n)


@dataclass(frozen=True)
class Spin(UnitKind):
    """-1 or 1."""

    short: ClassVar[str] = "ising"

    def units(self, n: int) -> Units:
        """A layer of n."""
        return IsingUnits(n)


@dataclass(frozen=True)
class Categorical(UnitKind):
    """One of several values, each with couplings of its own.

    Parameters
    ----------
    levels : int in [2, inf), default 3
        Values of a unit.
    """

    short: ClassVar[str] = "softmax"
    levels: Annotated[int, "[2, inf)"] = 3

    def units(self, n: int) -> Units:
        """A layer of n."""
        return CategoricalUnits(n, self.levels)


@dataclass(frozen=True)
class Trials(UnitKind):
    """How many of some trials hit.

    Parameters
    ----------
    trials : int in [1, inf), default 2
        Trials of a unit: its largest value.
    """

    short: ClassVar[str] = "binomial"
    trials: Annotated[int, "[1, inf)"] = 2

    def units(self, n: int) -> Units:
        """A layer of n."""
        return BinomialUnits(n, self.trials)


@dataclass(frozen=True)
class Normal(UnitKind):
    """Real numbers of variance 1 given the other layer."""

    short: ClassVar[str] = "gaussian"
    domain: ClassVar[Domain | None] = Real(largest=1e100)

    def units(self, n: int) -> Units:
        """A layer of n."""
        return GaussianUnits(n)


@dataclass(frozen=True)
class Count(UnitKind):
    """Counts 0, 1, 2 ... with Poisson distributions."""

    short: ClassVar[str] = "poisson"
    domain: ClassVar[Domain | None] = Counts()

    def units(self, n: int) -> Units:
        """A layer of n."""
        return PoissonUnits(n)


@dataclass(frozen=True)
class Exponential(UnitKind):
    """Positive numbers with exponential densities, or sums of several such numbers.

    Parameters
    ----------
    shape : int in [1, inf), default 1
        Of the gamma density that it is then.
    """

    short: ClassVar[str] = "exponential"
    shape: Annotated[int, "[1, inf)"] = 1

    def units(self, n: int) -> Units:
        """A layer of n."""
        return RateUnits(n, self.shape)


@dataclass(frozen=True)
class TruncatedExponential(UnitKind):
    """Numbers from 0 to 1 with exponential densities, rising or falling."""

    short: ClassVar[str] = "truncated-exponential"
    domain: ClassVar[Domain | None] = UnitInterval()

    def units(self, n: int) -> Units:
        """A layer of n."""
        return TruncatedExponentialUnits(n)
