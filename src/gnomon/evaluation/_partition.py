"""The ways to a normalizer behind `gnomon.log_partition`, as objects that hold their options."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from gnomon import contracts
from gnomon.contracts import Array, HasBridge, HasMarginalEnergy, Path, supports
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.score import Score
from gnomon.inference.arrays import to_numpy
from gnomon.inference.blocks import bits, smallest_keep
from gnomon.inference.exact import enumeration
from gnomon.inference.exact.elimination import VariableElimination
from gnomon.inference.exact.factors import Factor
from gnomon.inference.exact.quadrature import log_integral
from gnomon.inference.importance.ais import anneal, bridge_path, etas_of, normalizing_path
from gnomon.inference.importance.bridge import Bridge, LogRatio
from gnomon.inference.importance.chain_bridge import chain_ratio, target_chain
from gnomon.inference.importance.linked import Join, linked
from gnomon.inference.importance.normalizer import as_proposal, estimate_log_z
from gnomon.inference.importance.weights import WeightedSample
from gnomon.inference.mcmc.density import as_density, computes_in
from gnomon.inference.mcmc.metropolis import MetropolisHastings, RandomWalk
from gnomon.inference.mcmc.paths import TemperedPath
from gnomon.numeric.given import check_fields
from gnomon.numeric.noise import Noise, seed_of

_PILOT_DRAWS = 500


@dataclass
class PartitionProblem:
    """What is to be normalized and what is known beside it; the parameters of `log_partition`."""

    model: Any
    limit: int = 25
    base_mean: Array | None = None
    proposal: Any = None
    bounds: Sequence[tuple[float, float]] | None = None
    given: contracts.Noise | None = None
    random_state: Any = None
    rows: Array | None = None

    @cached_property
    def noise(self) -> contracts.Noise:
        """The noise that was given, else one from the seed."""
        return self.given if self.given is not None else Noise(seed_of(self.random_state), "log-partition")

    @property
    def has_blocks(self) -> bool:
        """Whether a base model and a bridge to it exist."""
        return self.proposal is None and supports(self.model, HasBridge)

    def path(self, etas: ArrayLike, kernel: Any) -> Path:
        """From the base, or the proposal, to the model."""
        if self.has_blocks:
            own = normalizing_path(self.model, etas)
            if own is not None:
                return own
            if self.base_mean is not None:
                to_numpy(self.base_mean, "base_mean")
            return bridge_path(self.model, self.model.base(self.base_mean), etas)
        base = self.checked_proposal()
        return TemperedPath(self.model, base, etas, _walk(base) if kernel is None else kernel)

    def checked_proposal(self) -> Any:
        """The proposal, or the refusal of a model that has nothing to start from."""
        if self.proposal is None:
            counted = isinstance(self.model, HasMarginalEnergy)
            other = "raise `limit` to enumerate it" if counted else "bounds=[(lower, upper), ...] of 1 or 2 columns"
            raise UserTypeError(
                f"{type(self.model).__name__} has no bridge to a base model", "model",
                f"pass proposal=, a distribution that covers it, or {other}",
            )  # fmt: skip
        return as_proposal(self.proposal)


@dataclass(frozen=True)
class Normalizer(Score):
    """An estimate of log Z that is the log of a mean of weights.

    Parameters
    ----------
    weights : WeightedSample
        What it is the mean of; neither printed nor written.
    """

    weights: WeightedSample | None = field(default=None, repr=False, compare=False)


class Method(Protocol):
    """A way to a normalizer."""

    def __call__(self, problem: PartitionProblem) -> Score:
        """Log Z."""


@dataclass(frozen=True)
class Enumerate:
    """All states of the blocks with the fewest, the others summed out."""

    def __call__(self, problem: PartitionProblem) -> Score:
        """Exact log Z."""
        return Score(enumeration.log_partition(problem.model, limit=problem.limit), name="log_partition")


@dataclass(frozen=True)
class Eliminate:
    """A product of tables, or anything that gives one (``factors()``)."""

    def __call__(self, problem: PartitionProblem) -> Score:
        """Exact log Z."""
        return Score(VariableElimination(problem.model).log_partition(), name="log_partition")


@dataclass(frozen=True)
class Quadrature:
    """A density of one or two columns, over the bounds."""

    def __call__(self, problem: PartitionProblem) -> Score:
        """Log Z to 1e-10."""
        if problem.bounds is None:
            raise UserValueError("a quadrature needs its box", "bounds", "pass bounds=[(lower, upper), ...]")
        density = as_density(problem.model)
        value = log_integral(
            lambda x: to_numpy(density.log_prob(computes_in(problem.model, x)), "density"), problem.bounds
        )
        return Score(value, name="log_partition")


@dataclass(frozen=True)
class Own:
    """What the model itself knows."""

    def __call__(self, problem: PartitionProblem) -> Score:
        """Exact log Z."""
        return Score(float(problem.model.log_partition()), name="log_partition")


@dataclass(frozen=True)
class Exact:
    """The exact way that fits the model."""

    def __call__(self, problem: PartitionProblem) -> Score:
        """Exact log Z."""
        for fits, way in _EXACT:
            if fits(problem):
                return way()(problem)
        raise UserTypeError(
            f"{type(problem.model).__name__} has no exact log Z", "model",
            "pass bounds= for a density of one or two columns, or estimate it",
        )  # fmt: skip


@dataclass(frozen=True)
class Importance:
    """Weighted draws of the base or the proposal.

    Parameters
    ----------
    draws : int, in [1, inf), default 1000
    """

    draws: int = 1000

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, problem: PartitionProblem) -> Score:
        """Estimate of log Z."""
        if problem.has_blocks:
            return _weighed(anneal(problem.path([0.0, 1.0], None), problem.noise, chains=self.draws))
        return _weighed(estimate_log_z(problem.model, problem.checked_proposal(), self.draws, problem.noise))


@dataclass(frozen=True)
class AIS:
    """Annealed importance sampling.

    Parameters
    ----------
    chains : int, in [1, inf), default 100
    schedule : int or array, default 1000
        Number of steps, or the etas from 0 to 1.
    kernel : Kernel, optional
        What moves on a density; a random walk with the spread of the proposal by default. Blocks move by Gibbs.
    """

    chains: int = 100
    schedule: int | ArrayLike = 1000
    kernel: Any = None

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, problem: PartitionProblem) -> Score:
        """Estimate of log Z."""
        path = problem.path(etas_of(self.schedule), self.kernel)
        return _weighed(anneal(path, problem.noise, chains=self.chains))


@dataclass(frozen=True)
class BridgeSampling:
    """Draws of the base, chains on the model, and a bridge between the two.

    Parameters
    ----------
    chains : int, in [2, inf), default 20
        Chains on the model, begun at draws of the base; as many draws of the base as of the model are taken.
    draws : int, in [8, inf), default 200
        Kept moves per chain.
    burn_in : int, in [0, inf), default 200
    bridge : {"optimal", "geometric"} or callable
        See `gnomon.inference.importance.bridge.estimate_log_ratio`.
    kernel : Kernel, optional
        As in `AIS`.
    """

    chains: int = 20
    draws: int = 200
    burn_in: int = 200
    bridge: Bridge = "optimal"
    kernel: Any = None

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, problem: PartitionProblem) -> Score:
        """Estimate of log Z."""
        path = problem.path([0.0, 1.0], self.kernel)
        x1 = target_chain(path, problem.noise.child("model"), self.chains, self.draws, self.burn_in)
        x0 = path.start(self.chains * self.draws, problem.noise.child("base"))
        estimate = chain_ratio(x0, x1, lambda x: path.log_prob(0, x), lambda x: path.log_prob(1, x), self.bridge)
        return _bridged(estimate, path.log_z0)


@dataclass(frozen=True)
class Linked:
    """A ladder of chains joined by bridges.

    Parameters
    ----------
    levels : int or array, default 10
        Number of steps from the base to the model, or the etas from 0 to 1.
    chain_length : int, in [1, inf), default 20
        States per level.
    runs : int, in [1, inf), default 100
    bridge : "geometric" or callable
        See `gnomon.inference.importance.linked.linked`.
    kernel : Kernel, optional
        As in `AIS`.
    """

    levels: int | ArrayLike = 10
    chain_length: int = 20
    runs: int = 100
    bridge: Literal["geometric"] | Join = "geometric"
    kernel: Any = None

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, problem: PartitionProblem) -> Score:
        """Estimate of log Z."""
        path, join = problem.path(etas_of(self.levels), self.kernel), self.bridge
        return _weighed(linked(path, problem.noise, runs=self.runs, chain_length=self.chain_length, bridge=join))


@dataclass(frozen=True)
class Auto(AIS):
    """Exact where it is cheap, else annealed importance sampling."""

    def __call__(self, problem: PartitionProblem) -> Score:
        """Log Z."""
        large = isinstance(problem.model, HasMarginalEnergy) and not enumeration.enumerable(
            problem.model, problem.limit
        )
        if (not large or _in_closed_form(problem)) and any(fits(problem) for fits, _ in _EXACT):
            return Exact()(problem)
        return super().__call__(problem)


def _is_factors(problem: PartitionProblem) -> bool:
    model = problem.model
    if isinstance(model, list | tuple):
        return bool(model) and all(isinstance(one, Factor) for one in model)
    return hasattr(model, "factors")


def _in_closed_form(problem: PartitionProblem) -> bool:
    """A model of blocks without a set of countable ones, which is normalized by itself all the same."""
    model = problem.model
    if not isinstance(model, HasMarginalEnergy) or not supports(model, contracts.HasLogProb):
        return False
    return math.isinf(bits(model, smallest_keep(model))) and callable(getattr(model, "log_partition", None))


_EXACT: tuple[tuple[Callable[[PartitionProblem], bool], Callable[[], Method]], ...] = (
    (_in_closed_form, Own),
    (lambda problem: isinstance(problem.model, HasMarginalEnergy), Enumerate),
    (_is_factors, Eliminate),
    (lambda problem: problem.bounds is not None, Quadrature),
    (lambda problem: callable(getattr(problem.model, "log_partition", None)), Own),
)
"""Which exact way fits; the first that does is taken."""


def _walk(base: Any) -> MetropolisHastings:
    """Random steps with the spread of the base."""
    draws = to_numpy(base.sample(_PILOT_DRAWS, Noise(0, "log-partition/pilot")))
    return MetropolisHastings(RandomWalk(2.4 / np.sqrt(draws.shape[1]), draws.var(axis=0)))


def _weighed(sample: WeightedSample) -> Normalizer:
    sample.warn()
    effective = f"effective number of weights {sample.ess:.1f} of {len(sample)}"
    note = "; ".join(filter(None, (effective, sample.notice)))
    return Normalizer(
        sample.log_mean_weight, 0.0, sample.stderr, "estimate", name="log_partition", note=note, weights=sample
    )


def _bridged(found: LogRatio, log_z0: float) -> Score:
    found.warn()
    note = "; ".join(filter(None, (f"overlap {found.overlap_:.2g}", found.notice)))
    return Score(log_z0 + found.log_r_, 0.0, found.se_, "estimate", name="log_partition", note=note)
