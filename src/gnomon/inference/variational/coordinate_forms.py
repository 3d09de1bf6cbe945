"""Forms that a variable's factor may have: a table, a density on a grid, a normal or a gamma distribution."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from gnomon.distributions.positive import Gamma
from gnomon.distributions.real import Normal
from gnomon.distributions.table import Categorical
from gnomon.errors import UserValueError
from gnomon.inference.exact.grid import GridPosterior, warn_of_edges
from gnomon.numeric.given import check_fields, floats

__all__ = ["FactorForm", "Finite", "GammaFactor", "GaussianFactor", "Grid"]

Floats = NDArray[np.float64]

_CONJUGATE = 1e-6
"""How far a log density may be from its family, as a share of how much it varies."""


class FactorForm:
    """Form of one variable's factor; its parameters are an array, at first those of the start.

    A subclass says where expectations under it are taken, where it asks the expected log joint, what it makes of that,
    and its entropy.
    """

    def begun(self) -> Floats:
        """Parameters of the start."""
        raise NotImplementedError

    def nodes(self, parameters: Floats) -> tuple[Floats, Floats]:
        """Values and their weights, which sum to 1: expectations under the factor."""
        raise NotImplementedError

    def probes(self, parameters: Floats) -> Floats:
        """Values at which `solved` wants the expected log joint."""
        return self.nodes(parameters)[0]

    def solved(self, at: Floats, log_density: Floats, name: str) -> Floats:
        """Parameters of the factor proportional to exp of this."""
        raise NotImplementedError

    def entropy(self, parameters: Floats) -> float:
        """In nats."""
        raise NotImplementedError

    def distribution(self, parameters: Floats) -> Any:
        """The factor as a distribution."""
        raise NotImplementedError


@dataclass(frozen=True)
class Finite(FactorForm):
    """A table over values that are listed.

    Parameters
    ----------
    values : array of shape (k,), or int
        The values, or their number: 0, 1, ... k - 1.
    """

    values: Any = 2

    def points(self) -> Floats:
        """The values."""
        given = floats(self.values, "values")
        points = np.arange(int(given)) if not given.ndim else given
        if points.ndim != 1 or not points.size or not np.isfinite(points).all():
            raise UserValueError.must("values", "be a number of values, or one or more numbers", given)
        return np.asarray(points, np.float64)

    def widths(self) -> Floats:
        """1 for each."""
        return np.ones(len(self.points()))

    def begun(self) -> Floats:
        """Every value as likely as its width says."""
        widths = self.widths()
        return np.asarray(widths / widths.sum())

    def nodes(self, parameters: Floats) -> tuple[Floats, Floats]:
        """The values and their probabilities."""
        return self.points(), parameters

    def solved(self, at: Floats, log_density: Floats, name: str) -> Floats:
        """exp, made to sum to 1."""
        mass = np.exp(log_density - log_density.max()) * self.widths()
        return np.asarray(mass / mass.sum())

    def entropy(self, parameters: Floats) -> float:
        """Of a grid that of the density."""
        some = parameters > 0
        return -float((parameters[some] * np.log(parameters[some] / self.widths()[some])).sum())

    def distribution(self, parameters: Floats) -> Any:
        """Categories, by the number of the value."""
        return Categorical.of(parameters)


@dataclass(frozen=True)
class Grid(Finite):
    """A density that is constant in each of many cells: a factor of any form, without conjugacy.

    Parameters
    ----------
    low, high : float
        Ends; the density must be small there unless the variable ends there.
    cells : int, at least 2, default 201
    """

    values: Any = None
    low: float = -5.0
    high: float = 5.0
    cells: int = 201

    def __post_init__(self) -> None:
        check_fields(self)
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise UserValueError(f"low must be below high, got {self.low:g} and {self.high:g}", "low, high")
        if self.cells < 2:
            raise UserValueError.must("cells", "be at least 2", self.cells)

    def points(self) -> Floats:
        """Middles of the cells."""
        middles = (np.arange(self.cells) + 0.5) / self.cells
        return np.asarray(self.low + (self.high - self.low) * middles, np.float64)

    def widths(self) -> Floats:
        """All the same."""
        return np.full(self.cells, (self.high - self.low) / self.cells, np.float64)

    def distribution(self, parameters: Floats) -> GridPosterior:
        """Law on the middles of the cells; a warning where much of it is at an end."""
        with np.errstate(divide="ignore"):
            found = GridPosterior(self.points(), np.log(parameters), math.nan)
        warn_of_edges(found)
        return found


@dataclass(frozen=True)
class GaussianFactor(FactorForm):
    """A normal factor of a variable in which the log joint is a quadratic: conjugate, solved from three points.

    Parameters
    ----------
    mean : float, default 0
        Of the start.
    variance : float, positive, default 1
        Of the start.
    """

    nodes_at: ClassVar[tuple[Floats, Floats]] = np.polynomial.hermite_e.hermegauss(9)

    mean: float = 0.0
    variance: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        if not (math.isfinite(self.mean) and 0 < self.variance < math.inf):
            raise UserValueError.must("variance", "be positive and finite, and the mean finite", self.variance)

    def begun(self) -> Floats:
        """Mean and variance."""
        return np.array([self.mean, self.variance], np.float64)

    def nodes(self, parameters: Floats) -> tuple[Floats, Floats]:
        """Gauss-Hermite nodes: exact for polynomials of degree 17."""
        z, weight = self.nodes_at
        return parameters[0] + math.sqrt(parameters[1]) * z, weight / weight.sum()

    def probes(self, parameters: Floats) -> Floats:
        """Three points, and one that must lie on the same parabola."""
        return np.asarray(parameters[0] + math.sqrt(parameters[1]) * np.array([-1.0, 0.0, 1.0, 2.5]))

    def solved(self, at: Floats, log_density: Floats, name: str) -> Floats:
        """Mean and variance."""
        center, scale = at[1], at[2] - at[1]
        powers = (np.ones_like, lambda z: z, np.square)
        _, b, a = _fitted((at - center) / scale, log_density, powers, "a quadratic", name)
        if not a < 0:
            raise UserValueError(
                f"the factor of {name} cannot be normalized: its expected log density curves upward", name,
                "give the variable a proper prior",
            )  # fmt: skip
        return np.array([center - scale * b / (2 * a), -0.5 * scale**2 / a])

    def entropy(self, parameters: Floats) -> float:
        """log(2 pi e variance) / 2."""
        return 0.5 * math.log(2 * math.pi * math.e * parameters[1])

    def distribution(self, parameters: Floats) -> Normal:
        """Normal."""
        return Normal(parameters[0], math.sqrt(parameters[1]))


@dataclass(frozen=True)
class GammaFactor(FactorForm):
    """A gamma factor of a positive variable t in which the log joint is ``(a - 1) log t - b t``: conjugate.

    Parameters
    ----------
    concentration, rate : float, positive, default 1
        a and b of the start.
    """

    concentration: float = 1.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("concentration", "rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise UserValueError.must(name, "be positive and finite", getattr(self, name))

    def begun(self) -> Floats:
        """a and b."""
        return np.array([self.concentration, self.rate], np.float64)

    def nodes(self, parameters: Floats) -> tuple[Floats, Floats]:
        """The trapezoid rule in log t, spectrally accurate: the density falls off faster than any power there."""
        a, b = parameters
        wide = math.sqrt(80 / a)
        low = max(-wide - 40 / a, -690 - math.log(a / b))  # what is below rounds to 0
        high = min(wide, math.log1p(40 / a) + 1)
        z = np.linspace(low, high, 2 + int((high - low) / min(0.3, 0.5 / math.sqrt(a))))
        log_weight = a * (z - np.expm1(z))
        weight = np.exp(log_weight - log_weight.max())
        return np.exp(z) * (a / b), weight / weight.sum()

    def probes(self, parameters: Floats) -> Floats:
        """Three points, and one that must lie on the same curve."""
        return np.asarray(parameters[0] / parameters[1] * np.array([0.5, 1.0, 2.0, 4.0]))

    def solved(self, at: Floats, log_density: Floats, name: str) -> Floats:
        """a and b."""
        scale = at[1]
        forms = (np.ones_like, np.log, lambda z: z)
        _, power, slope = _fitted(at / scale, log_density, forms, "(a - 1) log t - b t", name)
        a, b = power + 1, -slope / scale
        if not (a > 0 and b > 0):
            raise UserValueError(
                f"the factor of {name} cannot be normalized: Gamma({a:.6g}, {b:.6g})", name,
                "give the variable a proper prior",
            )  # fmt: skip
        return np.array([a, b])

    def entropy(self, parameters: Floats) -> float:
        """a - log b + log Gamma(a) + (1 - a) psi(a)."""
        a, b = parameters
        return float(a - math.log(b) + special.gammaln(a) + (1 - a) * special.digamma(a))

    def distribution(self, parameters: Floats) -> Gamma:
        """Gamma."""
        return Gamma(*parameters)


def _fitted(at: Floats, values: Floats, forms: Sequence[Callable[[Floats], Floats]], form: str, name: str) -> Floats:
    """Coefficients of the forms through the first three values; the fourth must lie there too."""
    if not np.isfinite(values).all():
        raise UserValueError(f"the expected log density of {name} must be finite, got {values}", name)
    design = np.stack([one(at) for one in forms], 1)
    found = np.linalg.solve(design[:3], values[:3])
    off = abs(design[3] @ found - values[3])
    if off > _CONJUGATE * max(1.0, float(np.abs(values - values[1]).max())):
        what = f"the log joint must be {form} in {name}, got one that is off by {off:.3g} nats"
        raise UserValueError(what, name, "describe the variable by a Grid")
    return np.asarray(found)
