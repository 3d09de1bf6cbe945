"""Products of factors as distributions: draws, densities, means and marginals by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Noise
from gnomon.distributions.real import Normal
from gnomon.distributions.table import search_mass
from gnomon.errors import UserValueError
from gnomon.inference.exact.elimination import VariableElimination
from gnomon.inference.variational.method import Marginal
from gnomon.numeric.given import floats

__all__ = [
    "BlockOfNormals",
    "BlockOfTables",
    "BlockOfValues",
    "FactorProduct",
    "ListedMarginal",
    "OneFactor",
    "FactorPart",
]

Floats = NDArray[np.float64]


class FactorPart(Protocol):
    """The distribution of some of the numbers, independent of the others."""

    @property
    def names(self) -> Sequence[str]:
        """Of the numbers."""

    def sample(self, n: int, noise: Noise) -> dict[str, Floats]:
        """Draws (n,) by name."""

    def log_prob(self, values: Mapping[str, Floats]) -> Floats:
        """In nats, (n,)."""

    def marginals(self) -> dict[str, Marginal]:
        """Of each number."""


@dataclass(frozen=True)
class ListedMarginal:
    """A number whose values are listed, or that has a density constant in cells about them.

    Parameters
    ----------
    values, mass : arrays of shape (k,)
        In any order; probabilities that sum to 1.
    widths : array of shape (k,)
        Of the cells of a density; 1 for values.
    """

    values: Floats
    mass: Floats
    widths: Floats

    @property
    def mean(self) -> float:
        """Expected value."""
        return float(self.mass @ self.values)

    @property
    def variance(self) -> float:
        """Of the values."""
        return float(self.mass @ (self.values - self.mean) ** 2)

    def icdf(self, u: ArrayLike) -> Floats:
        """The least value below or at which this much probability lies."""
        order = np.argsort(self.values, kind="stable")
        at = search_mass(self.mass[order], np.atleast_1d(floats(u, "u")))
        return np.asarray(self.values[order][at].reshape(np.shape(u)))

    def log_prob(self, x: ArrayLike) -> Floats:
        """Log probability, or log density, of values; -inf of what is none."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.mass / self.widths)[self.places(floats(x, "x"))])

    def places(self, x: Floats) -> NDArray[np.int64]:
        """Where values stand among those listed, the nearest one; cells reach half their width."""
        gaps = np.abs(np.asarray(x)[..., None] - self.values)
        found = gaps.argmin(-1)
        far = gaps.min(-1, initial=np.inf) > 0.5 * self.widths[found] + 1e-12
        if far.any():
            raise UserValueError.must("values", "be among those of their variable", np.asarray(x)[far].flat[0])
        return np.asarray(found)


@dataclass(frozen=True)
class OneFactor:
    """One number with a distribution of a known family."""

    name: str
    distribution: Any

    @property
    def names(self) -> Sequence[str]:
        """The one."""
        return (self.name,)

    def sample(self, n: int, noise: Noise) -> dict[str, Floats]:
        """Draws (n,)."""
        return {self.name: np.asarray(self.distribution.sample(noise, 0, (n,)), np.float64)}

    def log_prob(self, values: Mapping[str, Floats]) -> Floats:
        """In nats."""
        return np.asarray(self.distribution.log_prob(values[self.name]), np.float64)

    def marginals(self) -> dict[str, Marginal]:
        """The distribution."""
        return {self.name: self.distribution}


class BlockOfValues:
    """Numbers whose values are listed, with a table of their joint probabilities.

    Parameters
    ----------
    names : sequence of str
    values, widths : sequences of arrays (k_i,)
        The values of each, and the widths of their cells.
    table : array of shape (k_1, ..., k_m)
    """

    def __init__(self, names: Sequence[str], values: Sequence[Floats], widths: Sequence[Floats], table: Floats) -> None:
        self.names, self._values, self._widths, self._table = tuple(names), values, widths, table
        axes = range(table.ndim)
        self._marginals = {
            name: ListedMarginal(x, np.asarray(table.sum(tuple(j for j in axes if j != i)), np.float64), w)
            for i, (name, x, w) in enumerate(zip(self.names, values, widths, strict=True))
        }

    def sample(self, n: int, noise: Noise) -> dict[str, Floats]:
        """Draws by inversion."""
        u = noise.uniform((n, 1), like=np.empty(0))[:, 0]
        codes = np.unravel_index(search_mass(self._table.ravel(), u), self._table.shape)
        return {name: x[code] for name, x, code in zip(self.names, self._values, codes, strict=True)}

    def log_prob(self, values: Mapping[str, Floats]) -> Floats:
        """In nats, by the place of each value among those listed."""
        at = tuple(one.places(values[name]) for name, one in self._marginals.items())
        with np.errstate(divide="ignore"):
            found = np.log(self._table[at])
        return np.asarray(found - sum(np.log(w[code]) for w, code in zip(self._widths, at, strict=True)))

    def marginals(self) -> dict[str, Marginal]:
        """Listed."""
        return dict(self._marginals)


class BlockOfNormals:
    """Numbers that are jointly normal."""

    def __init__(self, names: Sequence[str], mean: Floats, covariance: Floats) -> None:
        self.names, self._mean, self._covariance = tuple(names), mean, covariance
        self._root = np.linalg.cholesky(covariance)

    def sample(self, n: int, noise: Noise) -> dict[str, Floats]:
        """Draws by the Cholesky factor."""
        z = np.asarray(noise.normal((n, len(self.names)), like=np.empty(0)))
        return dict(zip(self.names, (self._mean + z @ self._root.T).T, strict=True))

    def log_prob(self, values: Mapping[str, Floats]) -> Floats:
        """In nats."""
        off = np.stack([np.asarray(values[name], np.float64) for name in self.names], -1) - self._mean
        z = np.linalg.solve(self._root, off.T)
        constant = np.log(self._root.diagonal()).sum() + 0.5 * len(self.names) * math.log(2 * math.pi)
        return np.asarray(-0.5 * (z * z).sum(0) - constant)

    def marginals(self) -> dict[str, Marginal]:
        """Normal."""
        scales = np.sqrt(self._covariance.diagonal())
        return {name: Normal(m, s) for name, m, s in zip(self.names, self._mean, scales, strict=True)}


class BlockOfTables:
    """Discrete numbers whose joint distribution is a product of tables."""

    def __init__(self, names: Sequence[str], engine: VariableElimination, scopes: Any, tables: Any) -> None:
        self.names, self._engine, self._scopes, self._tables = tuple(names), engine, scopes, tables
        self._log_z = engine.log_partition()

    def sample(self, n: int, noise: Noise) -> dict[str, Floats]:
        """Exact draws."""
        drawn = self._engine.sample_posterior(n, noise)
        return {name: drawn[name].astype(np.float64) for name in self.names}

    def log_prob(self, values: Mapping[str, Floats]) -> Floats:
        """In nats."""
        codes = {name: np.asarray(values[name]).astype(np.int64) for name in self.names}
        parts = [t[tuple(codes[name] for name in scope)] for scope, t in zip(self._scopes, self._tables, strict=True)]
        return np.asarray(sum(parts) - self._log_z)

    def marginals(self) -> dict[str, Marginal]:
        """Listed."""
        found = self._engine.marginals()
        return {
            name: ListedMarginal(np.arange(len(p), dtype=np.float64), p, np.ones(len(p))) for name, p in found.items()
        }


class FactorProduct:
    """Independent parts as one distribution over named parameters.

    Parameters
    ----------
    parts : sequence of FactorPart
    shapes : mapping of name to (shape, names of its numbers)
        How numbers make up the parameters; each is its own by default.
    """

    def __init__(
        self, parts: Sequence[FactorPart], shapes: Mapping[str, tuple[tuple[int, ...], Sequence[str]]] | None = None
    ) -> None:
        self.parts = list(parts)
        numbers = [name for part in self.parts for name in part.names]
        self._shapes = dict(shapes) if shapes is not None else {name: ((), [name]) for name in numbers}
        found = {name: one for part in self.parts for name, one in part.marginals().items()}
        self.marginals: dict[str, Marginal] = {
            name: found[name] for _, names in self._shapes.values() for name in names
        }

    def sample(self, n: int, noise: Noise) -> dict[str, Floats]:
        """Draws, arrays (n, shape) by name."""
        numbers: dict[str, Floats] = {}
        for part in self.parts:
            numbers |= part.sample(n, noise.child(part.names[0]))
        return {
            name: np.stack([numbers[one] for one in names], -1).reshape(n, *shape)
            for name, (shape, names) in self._shapes.items()
        }

    def log_prob(self, values: Mapping[str, Any]) -> Floats:
        """Log density (or probability) in nats of rows of parameters, (n,)."""
        numbers = self.numbers(values)
        return np.asarray(sum(part.log_prob(numbers) for part in self.parts), np.float64)

    def numbers(self, values: Mapping[str, Any]) -> dict[str, Floats]:
        """Every number apart, (n,)."""
        found: dict[str, Floats] = {}
        for name, (shape, names) in self._shapes.items():
            if name not in values:
                raise UserValueError(f"{name!r} is missing", "values", f"give {', '.join(self._shapes)}")
            x = np.atleast_1d(floats(values[name], name)).reshape(-1, *shape)
            found |= dict(zip(names, x.reshape(len(x), len(names)).T, strict=True))
        return found

    @property
    def mean(self) -> dict[str, Floats]:
        """Mean of every parameter."""
        return {
            name: np.array([float(self.marginals[one].mean) for one in names]).reshape(shape)
            for name, (shape, names) in self._shapes.items()
        }
