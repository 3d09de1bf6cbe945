"""What a variational fit is: a problem, a method that raises its bound step by step, and the distribution it ends at.

The choices of the slot ``method`` are the recipes below `VariationalMethod`, found in this room. A method makes a
`VariationalAscent` of a `VariationalProblem`: ``step(t)`` raises the bound once and says how high it is, ``state`` and
``load`` go on bitwise, ``posterior()`` is the `Approximation` reached so far.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon.contracts import Array, Noise
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.inference.mcmc.density import Density, as_density, computes_in
from gnomon.inference.parameters import DataDensity, JointDensity, Parameters
from gnomon.inference.variational.families import VariationalFamily
from gnomon.recipes.recipe import Recipe

__all__ = ["Approximation", "VariationalAscent", "Iteration", "Marginal", "VariationalMethod", "VariationalProblem"]

Floats = NDArray[np.float64]

AT_ONCE = 1 << 23
"""Numbers of draws times rows of data that are held at once."""
DRAWS_AT_ONCE = 512


class Iteration(NamedTuple):
    """What a step tells.

    Attributes
    ----------
    bound : float
        The evidence lower bound in nats: after the step where it is known, of the step's draws where it is estimated.
    error : float
        Standard error of an estimate; 0 for closed forms and fixed draws.
    done : bool
        Whether the method's own rule ends the ascent here.
    """

    bound: float
    error: float = 0.0
    done: bool = False


class Marginal(Protocol):
    """Distribution of one number: what tables and pictures ask."""

    @property
    def mean(self) -> Any: ...

    @property
    def variance(self) -> Any: ...

    def icdf(self, u: Any) -> Any: ...

    def log_prob(self, x: Any) -> Any: ...


class Approximation(Protocol):
    """The distribution that a fit ends with, over parameters by name."""

    def sample(self, n: int, noise: Noise) -> dict[str, Floats]:
        """Draws, arrays (n, shape) by name."""

    def log_prob(self, values: Mapping[str, Any]) -> Floats:
        """Log density (or probability) in nats of rows of parameters, (n,)."""

    @property
    def mean(self) -> dict[str, Floats]:
        """Mean of every parameter."""

    @property
    def marginals(self) -> Mapping[str, Marginal]:
        """Of every number, by names such as ``w[0]``."""


class VariationalAscent(ABC):
    """An ascent under way: the model of its fit, as drivers call it."""

    @abstractmethod
    def step(self, t: int) -> Iteration:
        """Step t, counted from 0: one iteration."""

    @abstractmethod
    def state(self) -> dict[str, Array]:
        """All that changes, as finite arrays from which `load` goes on bitwise."""

    @abstractmethod
    def load(self, arrays: Mapping[str, Array]) -> None:
        """Take over what `state` gave."""

    @abstractmethod
    def posterior(self) -> Approximation:
        """The distribution reached so far."""

    def bound(self) -> tuple[float, float] | None:
        """The bound and its error where they are known; None where draws of `log_weights` estimate them."""
        return None

    def log_weights(self, n: int, noise: Noise) -> Floats | None:
        """log p - log q at n new draws: their mean is the bound, their tail tells of q. None where p has no density."""
        return None


@dataclass(frozen=True)
class VariationalProblem:
    """What is to be approximated, and in what.

    Parameters
    ----------
    target : object
        As the user gave it: a log density, a `JointDensity`, a model.
    family : VariationalFamily
    start : int, array, mapping or None
        The dimension, for starts uniform in (-2, 2); real numbers (d,) to begin at; or parameters by name.
    data : array or None
        Rows, for targets that are given theirs apart.
    batch_size : int or None
        Rows of an iteration; None takes all.
    """

    target: Any
    family: VariationalFamily
    start: Any = None
    data: Any = None
    batch_size: int | None = None

    def refuse_data(self) -> None:
        """Refuse rows that this target would not look at.

        Raises
        ------
        UserTypeError
        """
        if self.data is not None:
            remedy = "let the density hold them (DataDensity for batches), or method='svi' for a conjugate pair"
            raise UserTypeError("this target takes no data apart", "data", remedy)

    @cached_property
    def density(self) -> Density:
        """The target on rows of real numbers."""
        return as_density(self.target)

    @cached_property
    def parameters(self) -> Parameters:
        """Names and ends of the numbers in a row: ``x`` where the target does not name them."""
        if isinstance(self.density, JointDensity):
            return self.density.parameters
        if isinstance(self.start, int | np.integer) and self.start >= 1:
            return Parameters({"x": int(self.start)})
        if self.start is None or np.ndim(self.start) == 0:
            what = "start is required for a target that does not give its dimension"
            raise UserValueError(what, "start", "pass the dimension, or a position")
        return Parameters({"x": np.shape(self.start)})

    def position(self, noise: Noise) -> Floats:
        """Where an ascent begins, (d,)."""
        names = self.parameters
        if isinstance(self.start, Mapping):
            return names.row(self.start).ravel()
        if self.start is None or np.ndim(self.start) == 0:
            return np.asarray(4 * noise.uniform((1, names.size), like=np.empty(0)) - 2)[0]
        found = to_numpy(self.start, "start").ravel()
        if found.size != names.size or not np.isfinite(found).all():
            raise UserValueError.must("start", f"be {names.size} finite numbers", found)
        return found

    def value_and_gradient(self, z: Floats, rows: NDArray[np.int64] | None = None) -> tuple[Floats, Floats]:
        """Log density of rows of real numbers and its gradient; of some rows of the data, where they are given."""
        density = self.density if rows is None else self.batched.on(rows)
        value, gradient = density.value_and_gradient(computes_in(self.target, z))
        return to_numpy(value), to_numpy(gradient)

    def log_prob(self, z: Floats) -> Floats:
        """Log density of rows of real numbers, some at a time."""
        each = self.batched.n if isinstance(self.density, DataDensity) else 1
        step = max(1, min(DRAWS_AT_ONCE, AT_ONCE // each))
        rows = computes_in(self.target, z if self.density.gradient else torch.from_numpy(z))
        parts = [to_numpy(self.density.log_prob(rows[begin : begin + step])) for begin in range(0, len(z), step)]
        return np.concatenate(parts)

    @property
    def batched(self) -> DataDensity:
        """The target as one whose data can be taken in batches."""
        if not isinstance(self.density, DataDensity):
            what = "batch_size needs a target that says which part of it is a sum over rows"
            raise UserTypeError(what, "batch_size", "give DataDensity(log_prior, log_likelihood, data, parameters)")
        return self.density


@dataclass(frozen=True)
class VariationalMethod(Recipe):
    """Base of the recipes of the slot ``method``: how the bound is raised.

    Parameters
    ----------
    max_iter : int in [1, inf), default 2000
        Iterations of an ascent at most.
    tol : float in [0, inf), default 1e-9
        An iteration that gains less than this times max(1, \\|bound\\|) ends the ascent; 0 takes all iterations.
    """

    max_iter: Annotated[int, "[1, inf)"] = 2000
    tol: Annotated[float, "[0, inf)"] = 1e-9

    def ascent(self, problem: VariationalProblem, noise: Noise) -> VariationalAscent:
        """An ascent at its beginning.

        Parameters
        ----------
        problem : VariationalProblem
        noise : Noise
            Of this ascent alone; several from one problem begin and draw apart.

        Raises
        ------
        UserError
            A problem that this method cannot work on.
        """
        raise NotImplementedError

    def starts_alike(self, problem: VariationalProblem) -> bool:
        """Whether every start ends alike, so that one is enough where the user asks for no number."""
        return False

    def settled(self, before: float, bound: float) -> bool:
        """Whether an iteration has gained too little to go on."""
        return self.tol > 0 and bound - before <= self.tol * max(1.0, abs(bound))
