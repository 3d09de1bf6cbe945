"""Log Z from both sides: annealing up from the base, and down from where that ended and from rows of data."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Path, WalksStates
from gnomon.errors import UserTypeError, UserValueError, number
from gnomon.evaluation._partition import AIS, Normalizer, PartitionProblem
from gnomon.evaluation.score import Score
from gnomon.inference.arrays import convert, prototype, to_numpy
from gnomon.inference.blocks import join, units_of
from gnomon.inference.exact.draws import exact_draws
from gnomon.inference.exact.enumeration import enumerable
from gnomon.inference.importance.ais import anneal, annealing_schedule, etas_of
from gnomon.inference.importance.reverse import reverse_anneal
from gnomon.inference.importance.weights import WeightedSample
from gnomon.inference.mcmc.density import computes_in
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.inference.mcmc.paths import bridged_blocks
from gnomon.objectives.positive import observed_block

__all__ = ["Bracket", "BracketedNormalizer", "Rung"]

APART = 3.0
"""Errors by which the two ends must differ before it is said that they do."""
DISAGREE = "annealing upwards and downwards disagree about log Z by {} nats: take more temperatures, or do not trust it"
MISSED = (
    "{} of {} chains annealed downwards say up to {} nats more than upwards: they are in a mode of the model that the "
    "way up misses or seldom finds, do not trust log Z"
)
SWEEPS = 5
"""Sweeps over the hidden blocks beside rows, before chains walk."""
SPREADS = 5.0
"""Spreads of the upward weights beyond which a chain of the way down is somewhere else."""
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
    from_rows : WeightedSample, optional
        Weights of the way down from chains that were begun at rows, where there are some and no exact draws.
    missed : int
        How many of the chains on the way down are in places that the way up has missed, by their weights. Then the gap
        is that of the highest of them, its error their standard deviation.
    ladder : tuple of Rung
        Shorter ladders, the shortest first: near 0 where the ladder is long enough.
    """

    reverse: WeightedSample | None = field(default=None, repr=False, compare=False)
    gap: float = math.nan
    gap_error: float = math.nan
    exact_start: bool = False
    from_rows: WeightedSample | None = field(default=None, repr=False, compare=False)
    missed: int = 0
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
        """Whether a mode is missed, or the ends are further apart than their errors and a tenth of a nat explain."""
        return self.missed > 0 or not abs(self.gap) <= max(APART * math.hypot(self.error, self.gap_error), 0.1)

    @property
    def verdict(self) -> str:
        """What is wrong with the bracket, in words; empty where nothing is."""
        if self.missed:
            chains = sum(len(one) for one in (self.reverse, self.from_rows) if one is not None)
            return MISSED.format(self.missed, chains, number(self.gap))
        return DISAGREE.format(number(self.gap)) if self.disagrees else ""


@dataclass(frozen=True)
class Bracket(AIS):
    r"""Annealing both ways, and with shorter ladders: the diagnostics of annealed importance sampling.

    Parameters
    ----------
    chains, schedule, kernel
        As in `AIS`.
    burn_in : int, in [0, inf), default 500
        Moves of the chains on a model that is too large to be drawn from exactly, before they are annealed downwards.

    Notes
    -----
    Chains that begin where the way up has ended never see a mode that it has missed: both ends then agree on the log Z
    of the others. Of a model that is too large for exact draws, chains begun at rows of data (`PartitionProblem.rows`)
    are annealed downwards too. One in a mode A that the way up reaches with probability q says
    :math:`\log Z_A - \log q` or more on average. Where chains say more than the way up leaves room for, what the
    highest of them says is the upper end: in a mean over all, those that say least would hide them. It is still no
    bound: a mode without rows and out of the reach of the base is not seen.
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
        start = _drawn(problem, path, self.chains) if exact else self._walked(path, _ends(forward, problem), problem)
        reverse = reverse_anneal(path, start, problem.noise.child("reverse"))
        value, upper, error = forward.log_mean_weight, -reverse.log_mean_weight, reverse.stderr
        rows = None if exact or problem.rows is None else self._from_rows(problem, path)
        missed = np.empty(0) if exact else _beyond(forward, reverse, rows)
        if missed.size:
            upper, error = float(missed.max()), float(missed.std())
        rungs = [self._rung(problem, short, value) for short in (steps // 16, steps // 4) if short >= FEWEST]
        forward.warn()
        found = BracketedNormalizer(
            value, 0.0, forward.stderr, "estimate", name="log_partition", weights=forward, reverse=reverse,
            gap=upper - value, gap_error=error, exact_start=exact, from_rows=rows,
            missed=missed.size, ladder=tuple(rungs),
        )  # fmt: skip
        if found.disagrees:
            warnings.warn(found.verdict, stacklevel=2)
        return _with_note(found, self.chains, steps)

    def _rung(self, problem: PartitionProblem, steps: int, whole: float) -> Rung:
        path = problem.path(annealing_schedule(steps), self.kernel)
        found = anneal(path, problem.noise.child(f"ladder/{steps}"), chains=self.chains)
        return Rung(steps, found.log_mean_weight - whole, found.stderr)

    def _from_rows(self, problem: PartitionProblem, path: Path) -> WeightedSample:
        """The way down from chains that went on from rows under the model."""
        apart = replace(problem, given=problem.noise.child("rows"))
        start = self._walked(path, _at_rows(apart, path, self.chains), apart)
        return reverse_anneal(path, start, apart.noise.child("reverse"))

    def _walked(self, path: Path, x: Array, problem: PartitionProblem) -> Array:
        """Chains that went on from these states under the model."""
        for t in range(self.burn_in):
            x = path.move(len(path) - 1, x, problem.noise.child("burn-in").at(t))
        return x


def _ends(forward: WeightedSample, problem: PartitionProblem) -> Array:
    """Ends of the way up, drawn by their weights."""
    assert forward.values is not None
    return forward.values[forward.resample(problem.noise.child("resample"))]


def _at_rows(problem: PartitionProblem, path: Any, n: int) -> Array:
    """States of a path whose observed columns are rows of the data, spread evenly over these."""
    rows = to_numpy(problem.rows, "rows")
    if rows.ndim != 2 or not len(rows) or not np.isfinite(rows).all():
        raise UserValueError.must("rows", "be rows of finite numbers", rows)
    chosen = rows[np.linspace(0, len(rows) - 1, n).round().astype(np.int64)]
    if not problem.has_blocks:
        return computes_in(problem.model, chosen)
    model, like, stream = problem.model, prototype(problem.model), problem.noise.child("begin")
    seen = observed_block(model)
    if rows.shape[1] != model.sizes[seen]:
        what = f"rows have {rows.shape[1]} columns, the block {seen!r} has {model.sizes[seen]}"
        raise UserValueError(what, "rows", "give rows as the model takes them")
    state = {block: kind.start(stream.child(block), n, like) for block, kind in units_of(model).items()}
    hidden = [block for block in model.blocks if block != seen]
    state = gibbs(model, state | {seen: convert(chosen, like)}, stream, steps=SWEEPS, order=hidden)
    return path.gather(state) if isinstance(path, WalksStates) else join(state, _kept(problem, path))


def _beyond(up: WeightedSample, *down: WeightedSample | None) -> NDArray[np.float64]:
    """What those chains of the way down say of log Z that say more than the way up leaves room for.

    Where log weights are normal of variance s^2 on both ways, those of the way down are s^2 / 2 above log Z on average.
    A mode of the mass that was found is log(n / 3) above it where the way up reaches it with 3 of its n chains.
    """
    middle, above = np.quantile(up.log_weights, [0.5, 0.84])
    spread = float(above - middle) if math.isfinite(middle) else 0.0
    room = 0.5 * spread * spread + SPREADS * spread + math.log(max(len(up), 6) / 3)
    ends = np.concatenate([-one.log_weights for one in down if one is not None])
    return ends[ends > up.log_mean_weight + room]


def _is_small(problem: PartitionProblem) -> bool:
    """Whether the model can be drawn from exactly: some of its blocks are few enough to be enumerated."""
    return enumerable(problem.model, min(problem.limit, 20))


def _drawn(problem: PartitionProblem, path: Any, n: int) -> Array:
    state = exact_draws(problem.model, n, problem.noise.child("exact"), limit=problem.limit)
    return join(state, _kept(problem, path))


def _kept(problem: PartitionProblem, path: Any) -> Sequence[str]:
    return getattr(path, "keep", None) or bridged_blocks(problem.model)


def _with_note(found: BracketedNormalizer, chains: int, steps: int) -> BracketedNormalizer:
    """The same, with the ladder, the chains and what speaks against it in words."""
    assert found.weights is not None
    words = [
        f"{chains} chains of {steps} temperatures, effective number of weights {found.weights.ess:.1f}",
        f"annealed downwards {number(found.gap)} nats higher"
        + ("" if found.exact_start else ", from chains that may not have mixed: no bound"),
    ]
    words.append(found.verdict)
    return replace(found, note="; ".join(filter(None, [*words, found.weights.notice])))
