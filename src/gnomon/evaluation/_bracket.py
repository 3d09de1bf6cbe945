"""Log Z from both sides: annealing up from the base and down from the model."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

from gnomon.contracts import Array, Noise, Path
from gnomon.errors import UserTypeError, UserValueError, number
from gnomon.evaluation._partition import AIS, Normalizer, PartitionProblem
from gnomon.evaluation.score import Score
from gnomon.inference.blocks import join
from gnomon.inference.exact.draws import exact_draws
from gnomon.inference.exact.enumeration import enumerable
from gnomon.inference.importance.ais import anneal, annealing_schedule, etas_of
from gnomon.inference.importance.reverse import reverse_anneal
from gnomon.inference.importance.weights import WeightedSample
from gnomon.inference.mcmc.paths import bridged_blocks

__all__ = ["Bracket", "BracketedNormalizer", "Rung"]

APART = 3.0
"""Errors by which the two ends must differ before it is said that they do."""
DISAGREE = "annealing upwards and downwards disagree about log Z by {} nats: take more temperatures, or do not trust it"
FEWEST = 4
"""Steps of the shortest ladder that is tried."""


@dataclass(frozen=True)
class Rung:
    """What a shorter ladder gives.

    Parameters
    ----------
    steps : int
        Temperatures.
    shift : float
        Its log Z less that of the whole ladder, nats.
    error : float
        Its own standard error.
    """

    steps: int
    shift: float
    error: float


@dataclass(frozen=True)
class BracketedNormalizer(Normalizer):
    """Log Z by annealing upwards, and what annealing downwards says of it.

    Parameters
    ----------
    reverse : WeightedSample
        Weights of the way down, whose mean estimates 1 / Z but for the unit of `value`.
    gap : float
        By how much the way down is above the way up, nats; on average >= 0.
    gap_error : float
        Standard error of the upper end.
    exact_start : bool
        Whether the way down began at exact draws of the model, without which the upper end is no bound.
    ladder : tuple of Rung
        Shorter ladders, the shortest first: near 0 where the ladder is long enough.
    """

    reverse: WeightedSample | None = field(default=None, repr=False, compare=False)
    gap: float = math.nan
    gap_error: float = math.nan
    exact_start: bool = False
    ladder: tuple[Rung, ...] = ()

    @property
    def lower(self) -> float:
        """Log Z by annealing upwards, on average not above log Z."""
        return self.value

    @property
    def upper(self) -> float:
        """Log Z by annealing downwards, on average not below log Z where the start was exact."""
        return self.value + self.gap

    @property
    def disagrees(self) -> bool:
        """Whether the ends are further apart than their errors explain and by more than a tenth of a nat."""
        return not abs(self.gap) <= max(APART * math.hypot(self.error, self.gap_error), 0.1)


@dataclass(frozen=True)
class Bracket(AIS):
    """Annealing both ways, and with shorter ladders: the diagnostics of annealed importance sampling.

    Parameters
    ----------
    chains, schedule, kernel
        As in `AIS`.
    burn_in : int, in [0, inf), default 500
        Moves of the chains on a model that is too large to be drawn from exactly, before they are annealed downwards.
    """

    burn_in: int = 500

    def __call__(self, problem: PartitionProblem) -> Score:
        """Estimate of log Z with its bracket."""
        if self.burn_in < 0:
            raise UserValueError.must("burn_in", "be at least 0", self.burn_in)
        path = problem.path(etas_of(self.schedule), self.kernel)
        if not hasattr(path, "back"):
            raise UserTypeError(f"{type(path).__name__} cannot be walked back", "model", 'use method="ais"')
        steps = len(path) - 1
        forward = anneal(path, problem.noise, chains=self.chains)
        exact = problem.has_blocks and _is_small(problem)
        start = _drawn(problem, path, self.chains) if exact else self._walked(path, forward, problem.noise)
        reverse = reverse_anneal(path, start, problem.noise.child("reverse"))
        value, upper = forward.log_mean_weight, -reverse.log_mean_weight
        rungs = [self._rung(problem, short, value) for short in (steps // 16, steps // 4) if short >= FEWEST]
        forward.warn()
        found = BracketedNormalizer(
            value, 0.0, forward.stderr, "estimate", name="log_partition", weights=forward, reverse=reverse,
            gap=upper - value, gap_error=reverse.stderr, exact_start=exact, ladder=tuple(rungs),
        )  # fmt: skip
        if found.disagrees:
            warnings.warn(DISAGREE.format(number(found.gap)), stacklevel=2)
        return _with_note(found, self.chains, steps)

    def _rung(self, problem: PartitionProblem, steps: int, whole: float) -> Rung:
        path = problem.path(annealing_schedule(steps), self.kernel)
        found = anneal(path, problem.noise.child(f"ladder/{steps}"), chains=self.chains)
        return Rung(steps, found.log_mean_weight - whole, found.stderr)

    def _walked(self, path: Path, forward: WeightedSample, noise: Noise) -> Array:
        """Ends of the way up, drawn by their weights, that went on under the model."""
        assert forward.values is not None
        x = forward.values[forward.resample(noise.child("resample"))]
        for t in range(self.burn_in):
            x = path.move(len(path) - 1, x, noise.child("burn-in").at(t))
        return x


def _is_small(problem: PartitionProblem) -> bool:
    """Whether the model can be drawn from exactly: some of its blocks are few enough to be enumerated."""
    return enumerable(problem.model, min(problem.limit, 20))


def _drawn(problem: PartitionProblem, path: Any, n: int) -> Array:
    kept = getattr(path, "keep", None) or bridged_blocks(problem.model)
    state = exact_draws(problem.model, n, problem.noise.child("exact"), limit=problem.limit)
    return join(state, kept)


def _with_note(found: BracketedNormalizer, chains: int, steps: int) -> BracketedNormalizer:
    """The same, with the ladder, the chains and what speaks against it in words."""
    assert found.weights is not None
    words = [
        f"{chains} chains of {steps} temperatures, effective number of weights {found.weights.ess:.1f}",
        f"annealed downwards {number(found.gap)} nats higher"
        + ("" if found.exact_start else ", from chains that may not have mixed: no bound"),
    ]
    if found.disagrees:
        words.append("the two ways disagree")
    return replace(found, note="; ".join(filter(None, [*words, found.weights.notice])))
