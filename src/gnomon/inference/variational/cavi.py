"""Coordinate ascent as a recipe of `gnomon.fit_posterior`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon.contracts import Array, Noise
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.inference.exact.linear_gaussian import LinearGaussian
from gnomon.inference.parameters import JointDensity, Support
from gnomon.inference.variational.coordinate_ascent import Cycles
from gnomon.inference.variational.coordinate_forms import FactorForm, GammaFactor, GaussianFactor, Grid
from gnomon.inference.variational.coordinate_mixed import MixedFactors, factorization
from gnomon.inference.variational.coordinate_normals import NormalFactors
from gnomon.inference.variational.coordinate_posterior import FactorProduct
from gnomon.inference.variational.coordinate_tables import TableFactors
from gnomon.inference.variational.families import MeanField
from gnomon.inference.variational.method import Iteration, VariationalAscent, VariationalMethod, VariationalProblem

__all__ = ["Cavi"]

Floats = NDArray[np.float64]

OWN = "leave it out, and give blocks to the factors"
AT_ONCE = 1 << 16
"""Rows that a joint density is asked about at a time."""


@dataclass(frozen=True)
class Cavi(VariationalMethod):
    r"""One factor after the other set to ``exp E_rest[log p]``: no step size, and a bound that never falls.

    A target with names has a normal factor for every real number, a gamma factor for every positive one, and a density
    on a grid for every one between two ends; the log joint must be conjugate in the first two, which is checked, and is
    asked at the product of their nodes, so that this is for a handful of numbers. Discrete variables, blocks that keep
    their dependence, tables and chains come as a family of their own: `factorization`, `TableFactors`, `ChainFactors`
    and their like in place of the target.

    Parameters
    ----------
    parallel : bool, default False
        Whether all factors of a cycle are found from the state before it.
    damping : float in (0, 1], default 1
        The share of the way to its update that a factor goes.
    backtrack : bool, default True
        Whether parallel steps are halved where the bound would fall or the factors swing.
    tol_h : float in [0, inf), default 1e-8
        A cycle that finds every number of the factors this near to its update ends the ascent too.

    Notes
    -----
    See `gnomon.inference.variational.coordinate_ascent`. Source: Bishop (2006), section 10.1.
    """

    short: ClassVar[str] = "cavi"
    parallel: bool = False
    damping: Annotated[float, "(0, 1]"] = 1.0
    backtrack: bool = True
    tol_h: Annotated[float, "[0, inf)"] = 1e-8

    def ascent(self, problem: VariationalProblem, noise: Noise) -> VariationalAscent:
        """From the family's start; of tables from near it, off lines of symmetry.

        Raises
        ------
        UserTypeError, UserValueError
            A target that is neither a family of factors nor named, a log joint that is not conjugate, batches.
        """
        return _Ascent(self, problem, noise)


class _Ascent(VariationalAscent):
    """Cycles as the driver calls them."""

    def __init__(self, recipe: Cavi, problem: VariationalProblem, noise: Noise) -> None:
        if problem.batch_size is not None:
            raise UserValueError("coordinate ascent takes all rows at once", "batch_size", "leave it out, or use advi")
        if not isinstance(problem.family, MeanField):
            name = getattr(problem.family, "short", "another")
            raise UserValueError.must("family", "be mean-field for coordinate ascent", name, remedy=OWN)
        self.recipe = recipe
        self.factors, self.shapes = _factors(problem)
        start = self.factors.start(noise) if isinstance(self.factors, TableFactors) else None
        self.climb = Cycles(
            self.factors, start, parallel=recipe.parallel, damping=recipe.damping, backtrack=recipe.backtrack,
            tol_h=recipe.tol_h,
        )  # fmt: skip

    def step(self, t: int) -> Iteration:
        before = self._total()
        self.climb.cycle()
        bound = self._total()
        still = bool((self.climb.step == self.recipe.damping).all())  # steps that were halved have gained less
        return Iteration(bound, 0.0, bool(self.climb.ended.all()) or (still and self.recipe.settled(before, bound)))

    def _total(self) -> float:
        return float(self.climb.elbo.sum())

    def bound(self) -> tuple[float, float]:
        return self._total(), 0.0

    def state(self) -> dict[str, Array]:
        return self.climb.saved()

    def load(self, arrays: Mapping[str, Array]) -> None:
        self.climb.load(arrays)

    def posterior(self) -> FactorProduct:
        return FactorProduct(self.factors.parts(self.climb.state), self.shapes)

    def log_weights(self, n: int, noise: Noise) -> Floats | None:
        q = self.posterior()
        drawn = q.sample(n, noise)
        found = self.factors.log_joint_at(q.numbers(drawn))
        return None if found is None else np.asarray(found - q.log_prob(drawn))


def _factors(problem: VariationalProblem) -> tuple[Any, Any]:
    """The family of factors of a target, and how their numbers make up its parameters."""
    target = problem.target
    if not isinstance(target, LinearGaussian):
        problem.refuse_data()
    if all(hasattr(target, name) for name in ("update", "elbo", "parts", "blocks")):
        return target, None
    if isinstance(target, LinearGaussian):
        if problem.data is None:
            raise UserTypeError("a linear-Gaussian model needs the rows it is given", "data", "pass data=rows")
        return NormalFactors.of(target, problem.data), None
    if isinstance(target, JointDensity):
        return _of_named(target)
    remedy = "name its parameters, or give a factorization, TableFactors, ChainFactors"
    raise UserTypeError.must("target", "have known factors", target, remedy=remedy)


def _of_named(target: JointDensity) -> tuple[MixedFactors | TableFactors, Any]:
    """A factor for every number of a named log joint density."""
    names = target.parameters
    ends = [one for one in names.given.values() for _ in range(one.size)]
    forms = {name: _form_of(name, end) for name, end in zip(names.coordinates, ends, strict=True)}
    shapes = {name: (one.sizes, names.coordinates[names.slices[name]]) for name, one in names.given.items()}

    def log_joint(**values: Any) -> Floats:
        grids = np.broadcast_arrays(*(values[name] for name in names.coordinates))
        flat = np.stack([np.asarray(one, np.float64).ravel() for one in grids], -1)
        parts = [_at_rows(target, shapes, rows) for rows in np.split(flat, range(AT_ONCE, len(flat), AT_ONCE))]
        return np.concatenate(parts).reshape(grids[0].shape)

    return factorization(log_joint, forms), shapes


def _at_rows(target: JointDensity, shapes: Mapping[str, Any], rows: Floats) -> Floats:
    """The log joint at rows of numbers in their own units."""
    at, given = 0, {}
    for name, (shape, numbers) in shapes.items():
        given[name] = torch.from_numpy(np.ascontiguousarray(rows[:, at : at + len(numbers)])).reshape(-1, *shape)
        at += len(numbers)
    with torch.no_grad():
        return to_numpy(target.log_joint(given))


def _form_of(name: str, end: Support) -> FactorForm:
    """The form of a number with these ends."""
    if math.isfinite(end.low) and math.isfinite(end.high):
        return Grid(low=end.low, high=end.high)
    if end.low == 0:
        return GammaFactor()
    if math.isinf(end.low) and math.isinf(end.high):
        return GaussianFactor()
    what = f"{name} must be real, positive or between two ends, got ({end.low:g}, {end.high:g})"
    raise UserValueError(what, "parameters", "shift it, or use advi")
