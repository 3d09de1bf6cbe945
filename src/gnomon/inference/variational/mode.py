r"""The most probable value in place of a posterior: the bound of a point, less its entropy, which is the same anywhere.

.. math:: h^* = \arg\max_h p(h | v) = \arg\max_h \log p(v, h)
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Noise
from gnomon.errors import Diverged, UserTypeError, UserValueError
from gnomon.inference.arrays import convert, of_network, prototype, to_numpy
from gnomon.inference.exact.elimination import VariableElimination
from gnomon.inference.exact.factors import Factor, HasFactors
from gnomon.inference.exact.linear_gaussian import LinearGaussian
from gnomon.inference.exact.posterior import ExactPosterior
from gnomon.inference.parameters import JointDensity
from gnomon.inference.variational.families import MeanField
from gnomon.inference.variational.limited_memory import LimitedMemory
from gnomon.inference.variational.method import Iteration, VariationalAscent, VariationalMethod, VariationalProblem
from gnomon.inference.variational.mode_search import DiscreteLatents, ModeSearch
from gnomon.inference.variational.point_mass import PointMass
from gnomon.numeric.given import numbers
from gnomon.numeric.tensors import is_tensor

__all__ = ["PosteriorMode", "PointAscent"]

Floats = NDArray[np.float64]

LISTED = 1 << 16
"""States of the latents of a row that ``search="auto"`` visits one by one."""
PROBES = 64
"""Draws of a prior that tell whether latents are real numbers."""


@dataclass(frozen=True)
class PosteriorMode(VariationalMethod):
    r"""The most probable value: by gradients where it is real, by search or elimination where it is discrete.

    What it does follows from the target. A log density, and a model with ``log_joint(x, z)`` of real z given `data`:
    L-BFGS, from several starts. A model with ``log_joint(v, h)`` of discrete h (`DiscreteLatents`,
    `BinarySparseCoding`, `ExactPosterior`): all states, or one latent after the other. Tables, products of `Factor` and
    directed graphs of tables: the exact maximum, for a product by eliminating one variable after the other (on a tree
    this is max-product), given `data` as a mapping of what was observed. A linear-Gaussian model: the closed form.

    A mode moves with the scale that the density is taken in, and of a wide and a narrow hill it takes the higher one
    however little mass that has. Its log joint bounds log p(v) from below where latents are discrete; where they are
    real it bounds nothing, since a density may be above 1.

    Parameters
    ----------
    tol : float in [0, inf), default 1e-12
        An iteration that gains less than this times max(1, \|log joint\|) ends an ascent by gradients.
    search : {"auto", "exact", "coordinate"}, default "auto"
        Of discrete latents: all states, refused above 2^20; or each latent in turn given the others, which may end
        below the maximum. ``"auto"`` visits up to 65,536 states.
    starts : int in [1, inf), default 10
        Of each row of `data`, which keeps its best: of a search, and of gradients where no start is given.
    mode_of : {"parameters", "unconstrained"}, default "parameters"
        Of parameters with ends: the density of the parameters themselves; or of their logs and log-odds, which adds
        the log derivative and never lies at an end.

    References
    ----------
    Goodfellow, Bengio and Courville (2016), section 19.3; Besag (1986), "On the statistical analysis of dirty
    pictures".
    """

    short: ClassVar[str] = "map"
    tol: Annotated[float, "[0, inf)"] = 1e-12
    search: Literal["auto", "exact", "coordinate"] = "auto"
    starts: Annotated[int, "[1, inf)"] = 10
    mode_of: Literal["parameters", "unconstrained"] = "parameters"

    def ascent(self, problem: VariationalProblem, noise: Noise) -> PointAscent:
        """By what the target is; see the class.

        Raises
        ------
        UserTypeError, UserValueError
            A target that nothing is known of, data missing or not asked for, a density of 0 at the start.
        """
        _check(problem)
        target, rows = problem.target, problem.data
        solve, listed = _closed(target, rows), _listed(target)
        if problem.start is not None and (solve is not None or listed is not None):
            raise UserTypeError("this target takes no start", "start", "leave it out")
        if solve is not None:
            return _Solved(solve)
        if listed is not None:
            return self._discrete(listed, _rows(rows), noise)
        if _of_rows(target):
            return _OfRows(self, problem, noise)
        problem.refuse_data()
        return _ByGradient(self, _in_own_units(problem) if self.mode_of == "parameters" else problem, noise)

    def starts_alike(self, problem: VariationalProblem) -> bool:
        """Whether there is nothing to start from: closed forms, and rows that begin many times by themselves."""
        target = problem.target
        return _closed(target, problem.data) is not None or _listed(target) is not None or _of_rows(target)

    def _discrete(self, target: DiscreteLatents, rows: Array, noise: Noise) -> PointAscent:
        states = math.prod(target.sizes)
        if self.search == "exact" or (self.search == "auto" and states <= LISTED):
            return _Solved(partial(_enumerated, target, rows))
        return _BySearch(ModeSearch(target, rows, self.starts, noise))


class PointAscent(VariationalAscent):
    """An ascent whose q is a point."""

    whole: bool = False
    """Whether what it finds are values that are listed: only then is the log joint a bound."""

    @abstractmethod
    def log_joint(self) -> Floats:
        """log p(v, h) in nats at the point, in the parameters' own units: a number, or one for each row of data."""

    @abstractmethod
    def values(self) -> dict[str, Floats]:
        """The point, by name."""

    def posterior(self) -> PointMass:
        return PointMass(self.values(), self.whole)

    def bound(self) -> tuple[float, float]:
        return float(self.log_joint().sum()), 0.0


class _Solved(PointAscent):
    """Found at once.

    Parameters
    ----------
    solve : callable
        Values by name, their log joint, and whether they are listed ones.
    """

    def __init__(self, solve: Callable[[], tuple[dict[str, Floats], Floats, bool]]) -> None:
        self._values, self._log_joint, self.whole = solve()

    def step(self, t: int) -> Iteration:
        return Iteration(self.bound()[0], 0.0, True)

    def log_joint(self) -> Floats:
        return self._log_joint

    def values(self) -> dict[str, Floats]:
        return self._values

    def state(self) -> dict[str, Array]:
        return {}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Nothing changes."""


class _BySearch(PointAscent):
    """Sweeps over discrete latents."""

    whole = True

    def __init__(self, search: ModeSearch) -> None:
        self.search = search

    def step(self, t: int) -> Iteration:
        rose = self.search.sweep()
        return Iteration(self.bound()[0], 0.0, not rose)

    def log_joint(self) -> Floats:
        return self.search.best()[1]

    def values(self) -> dict[str, Floats]:
        return {"h": self.search.best()[0].astype(np.float64)}

    def state(self) -> dict[str, Array]:
        return {"codes": self.search.codes, "log_p": np.maximum(self.search.log_p, -np.finfo(float).max)}

    def load(self, arrays: Mapping[str, Array]) -> None:
        self.search.codes, self.search.log_p = np.array(arrays["codes"]), np.array(arrays["log_p"])


class _ByGradient(PointAscent):
    """L-BFGS on the whole line."""

    def __init__(self, recipe: PosteriorMode, problem: VariationalProblem, noise: Noise) -> None:
        self.recipe, self.problem = recipe, problem
        self.at = problem.position(noise.child("start"))
        self.memory = LimitedMemory()
        with np.errstate(all="ignore"):
            first = problem.log_prob(self.at[None])[0]
        if not np.isfinite(first):
            what = f"the log density must be finite at the start, got {first}"
            raise UserValueError(what, "start", "start where the density is positive; give parameters with ends theirs")

    def step(self, t: int) -> Iteration:
        before, value, self.at = self.memory.ascend(self.at, self._objective)
        return Iteration(value, 0.0, self.recipe.settled(before, value))

    def _objective(self, at: Floats) -> tuple[float, Floats]:
        with np.errstate(all="ignore"):
            value, slope = self.problem.value_and_gradient(at[None])
        if value[0] == math.inf:
            raise Diverged("the log density has no maximum", "target", "give a density that can be normalized")
        if not np.isfinite(value[0]) or not np.isfinite(slope).all():
            return -math.inf, np.zeros_like(at)
        return float(value[0]), slope[0]

    def log_joint(self) -> Floats:
        value = self.problem.log_prob(self.at[None])[0]
        added = self.recipe.mode_of == "unconstrained"
        return np.asarray(value - (self.problem.parameters.log_slope(self.at) if added else 0.0))

    def bound(self) -> tuple[float, float]:
        return float(self.problem.log_prob(self.at[None])[0]), 0.0

    def values(self) -> dict[str, Floats]:
        return self.problem.parameters.named(self.at)

    def state(self) -> dict[str, Array]:
        return self.memory.state() | {"at": self.at}

    def load(self, arrays: Mapping[str, Array]) -> None:
        self.memory.load(arrays)
        self.at = np.array(arrays["at"])


class _OfRows(_ByGradient):
    """The latents of all rows of a model side by side, from several starts: no row's gradient depends on another's."""

    def __init__(self, recipe: PosteriorMode, problem: VariationalProblem, noise: Noise) -> None:
        import torch

        model, rows = problem.target, _rows(problem.data)
        shape = _shape_of_latents(model, problem.start, len(rows), noise.child("prior"))
        placed = isinstance(problem.start, Mapping) or np.ndim(problem.start) > 1
        self.starts, self.n_rows, like = 1 if placed else recipe.starts, len(rows), of_network(model)
        given = _as_tensor(rows, like)
        given = given.repeat(self.starts, *(1,) * (given.ndim - 1))

        def each(z: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = model.log_joint(given, _as_tensor(z, like))
            return found

        self._each = each
        target = JointDensity(lambda at: each(at["z"][0]).sum()[None], {"z": (len(given), *shape)})
        super().__init__(recipe, VariationalProblem(target, problem.family, problem.start if placed else None), noise)

    def step(self, t: int) -> Iteration:
        made = super().step(t)
        return made._replace(bound=made.bound / self.starts)

    def log_joint(self) -> Floats:
        return np.asarray(self._table().max(0))

    def bound(self) -> tuple[float, float]:
        return float(self.log_joint().sum()), 0.0

    def values(self) -> dict[str, Floats]:
        z = self.problem.parameters.named(self.at)["z"]
        chosen = self._table().argmax(0) * self.n_rows + np.arange(self.n_rows)
        return {"z": z[chosen]}

    def _table(self) -> Floats:
        """The log joint of every start, (starts, rows)."""
        import torch

        with torch.no_grad():
            each = self._each(torch.from_numpy(self.problem.parameters.named(self.at)["z"]))
        return to_numpy(each).reshape(self.starts, self.n_rows)


def _check(problem: VariationalProblem) -> None:
    if problem.batch_size is not None:
        raise UserValueError("a mode takes all rows at once", "batch_size", "leave it out, or use advi")
    if not isinstance(problem.family, MeanField):
        name = getattr(problem.family, "short", "another")
        raise UserValueError.must("family", "be left out for a point", name, remedy="use advi for a distribution")


def _listed(target: Any) -> DiscreteLatents | None:
    """A target that says how many values each of its latents has."""
    if isinstance(target, DiscreteLatents):
        return target
    sizes = target.sizes if isinstance(target, ExactPosterior) else getattr(target, "latent_sizes", None)
    return None if sizes is None else DiscreteLatents(target.log_joint, sizes, prototype(target))


def _of_rows(target: Any) -> bool:
    """Whether it is a model of rows and what is latent in each."""
    return hasattr(target, "log_joint") and not isinstance(target, JointDensity)


def _rows(data: Any) -> Array:
    if data is None:
        raise UserTypeError("a model of rows needs the rows that it is given", "data", "pass data=rows")
    rows = data if hasattr(data, "detach") else numbers(data, "data")
    if not rows.ndim or not len(rows):
        raise UserValueError.must("data", "have one row per observation, at least one", rows)
    return rows


def _closed(target: Any, data: Any) -> Callable[[], tuple[dict[str, Floats], Floats, bool]] | None:
    """How a target is solved that has an exact answer; None of others."""
    if isinstance(target, LinearGaussian):
        return partial(_linear, target, data)
    if hasattr(target, "mode") and hasattr(target, "parts"):  # a family of factors that knows its table
        return partial(_of_family, target, data)
    if isinstance(target, HasFactors):
        return partial(_eliminated, target, data)
    if isinstance(target, list | tuple) and all(isinstance(one, Factor) for one in target):
        return partial(_eliminated, target, data)
    return None


def _linear(model: LinearGaussian, data: Any) -> tuple[dict[str, Floats], Floats, bool]:
    rows = _rows(data)
    mean, covariance = model.posterior(rows)
    spread = np.linalg.slogdet(to_numpy(covariance))[1] + len(covariance) * math.log(2 * math.pi)
    return {"h": to_numpy(mean)}, to_numpy(model.log_prob(rows)) - 0.5 * spread, False


def _of_family(target: Any, data: Any) -> tuple[dict[str, Floats], Floats, bool]:
    if data is not None:
        raise UserTypeError("this target takes no data apart", "data", "it holds its rows already")
    values, log_joint, whole = target.mode()
    return values, log_joint, whole


def _eliminated(model: Any, data: Any) -> tuple[dict[str, Floats], Floats, bool]:
    found = VariableElimination(model).map(data)
    return {name: np.array(float(x)) for name, x in found.values.items()}, np.array(found.log_weight), True


def _enumerated(target: DiscreteLatents, rows: Array) -> tuple[dict[str, Floats], Floats, bool]:
    given = convert(rows, target.like) if is_tensor(target.like) else rows
    values = ExactPosterior(target.log_joint, target.sizes).mode(given).astype(np.float64)
    found = to_numpy(target.log_joint(given, convert(values, target.like)))
    return {"h": values}, found, True


def _in_own_units(problem: VariationalProblem) -> VariationalProblem:
    """The problem without the derivatives of its parameters' images on the whole line."""
    if not isinstance(problem.density, JointDensity):
        return problem
    own = _OwnUnits(problem.density.log_joint, problem.density.parameters)
    return VariationalProblem(own, problem.family, problem.start)


class _OwnUnits(JointDensity):
    def _on_rows(self, z: Array) -> Array:
        return super()._on_rows(z) - self.parameters.log_slope(z)


def _as_tensor(x: Any, like: Array) -> Any:
    import torch

    if hasattr(like, "detach"):
        return torch.as_tensor(x).to(like)
    return torch.as_tensor(x)


def _shape_of_latents(model: Any, start: Any, n_rows: int, noise: Noise) -> tuple[int, ...]:
    """Of one row: as the start says, or draws of the prior, which must be real numbers."""
    if len(signature(model.log_joint).parameters) < 2:
        what = "this model sums over its latents, and has no log_joint(x, z)"
        raise UserTypeError(what, "target", "ask the fitted system for transform(X, method='map')")
    if isinstance(start, int | np.integer):
        return (int(start),)
    if start is not None:
        given = np.shape(start["z"] if isinstance(start, Mapping) and "z" in start else start)
        if len(given) < 2 or given[0] != n_rows:
            what = f"start must be a number of latents, or values of shape ({n_rows}, latents), got shape {given}"
            raise UserValueError(what, "start")
        return given[1:]
    if not hasattr(model, "sample_prior"):
        raise UserValueError("start is required for a model without sample_prior", "start", "pass the latents' number")
    drawn = model.sample_prior(PROBES, noise)
    if isinstance(drawn, tuple):
        raise UserTypeError("latents in layers have no one array of values", "target", "pass a log density by name")
    values = to_numpy(drawn)
    if (values == np.round(values)).all():
        remedy = "give DiscreteLatents(model.log_joint, sizes)"
        raise UserTypeError("the latents of this model are whole numbers", "target", remedy)
    return values.shape[1:]
