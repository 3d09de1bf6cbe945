"""Checks of models with blocks: units that do nothing, Gibbs chains that do not mix, weights that collapse."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import HasBlocks, HasBridge, Noise
from gnomon.errors import UserValueError
from gnomon.evaluation.diagnosis.records import Finding
from gnomon.evaluation.gradient_noise import ChainEstimator, gradient_bias_variance
from gnomon.evaluation.partition import log_partition
from gnomon.evaluation.spurious import spurious_mass
from gnomon.inference.arrays import convert, prototype, to_numpy
from gnomon.inference.blocks import units_of
from gnomon.inference.exact.enumeration import enumerable
from gnomon.inference.mcmc.diagnostics import ess, r_hat
from gnomon.inference.mcmc.gibbs import gibbs, mean_field
from gnomon.inference.mcmc.mixing import mode_report, successive_distance

__all__ = ["CHECKS", "Machine", "gradient", "mixing", "spurious", "units", "weights"]

CHAINS, BURN_IN, DRAWS = 8, 200, 500
MOST_NUMBERS = 20_000_000
"""Units that all chains draw together; larger machines are drawn from less, never less than LEAST_DRAWS times."""
LEAST_DRAWS = 50
ROWS, DIRECTION_ROWS = 1000, 500
DEAD, SATURATED = 0.01, 0.99
R_HAT_BAD, R_HAT_LIMIT = 1.1, 1.01
EXACT_UNITS = 20
LEAST_ROWS, DRAWS_APART, SHORT_LADDER = 20, 200, 200
ENUMERATED = 10
"""Units of a layer for which the moments of the gradient are looked at."""
SPURIOUS, MOSTLY_SPURIOUS, SURE = 0.1, 0.5, 4.0
"""Probability far from rows beyond that of the rows themselves that is told of and warned of, and errors to be sure."""


@dataclass(frozen=True)
class Machine:
    """A model with blocks, and rows to show it.

    Parameters
    ----------
    model : HasBlocks
        Binary units.
    visible : str
        The block that holds the data.
    rows : array of shape (n, d), optional
        Rows of data; without them chains start at random bits and no units are judged.
    noise : Noise
    mean : array of shape (d,), optional
        Means of the data, for the base of annealing.
    estimator : ChainEstimator, optional
        Where the fit took the negative phase from, where it is known.
    batch : int, default 1
        Rows of an update.
    bracket : callable, optional
        log Z from both sides as somebody has it already, a `BracketedNormalizer`; else it is estimated here.
    """

    model: HasBlocks
    visible: str
    noise: Noise
    rows: Any = None
    mean: Any = None
    estimator: ChainEstimator | None = None
    batch: int = 1
    bracket: Callable[[], Any] | None = None

    def __post_init__(self) -> None:
        if self.visible not in self.model.blocks:
            raise UserValueError(
                f"unknown block {self.visible!r}", "visible", f"choose from {', '.join(self.model.blocks)}"
            )

    @cached_property
    def chains(self) -> NDArray[np.float64]:
        """Visible states of Gibbs chains, (chains, draws, d): half begun at data, half at random bits."""
        model, like = self.model, prototype(self.model)
        size = sum(model.sizes.values())
        draws = int(np.clip(MOST_NUMBERS // (CHAINS * size) - BURN_IN, LEAST_DRAWS, DRAWS))
        state = {block: kind.start(self.noise.child(block), CHAINS, like) for block, kind in units_of(model).items()}
        order = [self.visible, *(b for b in model.blocks if b != self.visible)]
        if self.rows is not None:
            half = CHAINS // 2
            at = np.linspace(0, len(self.rows) - 1, half).round().astype(np.int64)
            start = to_numpy(state[self.visible]).copy()
            start[:half] = _states(to_numpy(self.rows)[at], units_of(model)[self.visible])
            state[self.visible] = convert(start, like)
            order = [*order[1:], self.visible]
        chains = np.empty((CHAINS, draws, model.sizes[self.visible]))
        for t in range(BURN_IN + draws):
            state = gibbs(model, state, self.noise.child("sweep").at(t), order=order)
            if t >= BURN_IN:
                chains[:, t - BURN_IN] = to_numpy(state[self.visible])
        return chains


def _states(rows: NDArray[Any], kind: Any) -> NDArray[Any]:
    """Rows as units can be: of two values the nearer one."""
    if not hasattr(kind, "values"):
        return rows
    low, high = kind.values
    return np.where(rows > (low + high) / 2, high, low)


def units(machine: Machine) -> list[Finding] | str:
    """Hidden units that are off, or on, for every row: they carry nothing."""
    if machine.rows is None:
        return "there are no rows to show the hidden units"
    rows = convert(to_numpy(machine.rows)[:ROWS], prototype(machine.model))
    means = mean_field(machine.model, {machine.visible: (rows, None)})
    findings = []
    for block in machine.model.blocks:
        if block == machine.visible:
            continue
        p = to_numpy(means[block])
        off, on = np.flatnonzero(p.max(axis=0) < DEAD), np.flatnonzero(p.min(axis=0) > SATURATED)
        evidence = f"of {p.shape[1]} units of {block} {len(off)} are off and {len(on)} are on for all of {len(p)} rows"
        if not len(off) + len(on):
            findings.append(Finding("ok", f"every unit of {block} answers to the data", evidence))
            continue
        few = ", ".join(str(i) for i in sorted([*off.tolist(), *on.tolist()])[:8])
        level = "warning" if len(off) + len(on) >= 0.1 * p.shape[1] else "notice"
        remedy = "a lower learning rate, smaller initial weights, or fewer units"
        findings.append(Finding(level, f"dead or saturated units of {block}: {few}", evidence, remedy))  # type: ignore[arg-type]
    return findings or "there are no hidden blocks"


def mixing(machine: Machine) -> list[Finding] | str:
    """Whether Gibbs chains from data and from noise meet: R-hat along the draws' main directions, and mode changes."""
    x = machine.chains
    flat = x.reshape(-1, x.shape[2])
    centered = flat - flat.mean(axis=0)
    if not centered.any():
        return [Finding("warning", "the Gibbs chains never move", f"{x.shape[1]} sweeps", "the weights are too large")]
    # of some draws only: the cost then grows with the number of columns and not with its square
    directions = np.linalg.svd(centered[:: -(-len(centered) // DIRECTION_ROWS)], full_matrices=False)[2][:4]
    along = (centered @ directions.T).reshape(*x.shape[:2], -1)
    energy = to_numpy(_energy(machine, flat)).reshape(*x.shape[:2], 1)
    scores = np.concatenate([energy, along], axis=2)
    hat, effective = np.nan_to_num(r_hat(scores), nan=1.0), np.nan_to_num(ess(scores, "bulk"), nan=0.0)
    report = mode_report((along[..., 0] > 0).astype(np.int64))
    worst = float(np.max(hat))
    evidence = (
        f"R-hat up to {worst:.3f} and {effective.min():.0f} effective of {x.shape[0] * x.shape[1]} draws along the "
        f"energy and {along.shape[2]} main directions; sides of the first changed in {report.switch_rate:.1%} of "
        f"the sweeps, consecutive draws are {successive_distance(x):.2f} times as far apart as draws of other chains"
    )
    if worst > R_HAT_BAD:
        remedy = "longer chains, tempering (kernel='tempering'), or a smaller learning rate and more steps of PCD"
        return [Finding("warning", "Gibbs chains from the model do not mix", evidence, remedy)]
    if worst > R_HAT_LIMIT:
        return [Finding("notice", "Gibbs chains from the model mix slowly", evidence, "draw with more steps")]
    return [Finding("ok", "Gibbs chains from the model mix", evidence)]


def weights(machine: Machine) -> list[Finding] | str:
    """Whether the estimate of log Z rests on many weights or on a few."""
    model = machine.model
    if enumerable(model, EXACT_UNITS):
        return "log Z is exact: the smaller block is enumerated"
    if not isinstance(model, HasBridge):
        return "the model has no bridge to a base"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # told as findings
        found: Any = machine.bracket() if machine.bracket else log_partition(
            model, "bracket", machine.noise.child("ais"), base_mean=machine.mean, limit=EXACT_UNITS, rows=machine.rows
        )  # fmt: skip
    sample = found.weights
    evidence = f"log Z {found.value:.2f} ± {found.error:.2g}, effective weights {sample.ess:.1f} of {len(sample)}"
    evidence += f", annealed downwards {found.gap:.2g} ± {found.gap_error:.2g} higher"
    remedy = "more temperatures, or base means of the data"
    reason = "; ".join(filter(None, [found.verdict, sample.notice]))
    if reason:
        return [Finding("warning", "the estimate of log Z is not to be trusted", f"{evidence}; {reason}", remedy)]
    if sample.ess < 0.1 * len(sample):
        return [Finding("notice", "the estimate of log Z rests on few weights", evidence, "more temperatures")]
    return [Finding("ok", "the estimate of log Z rests on many weights", evidence)]


def spurious(machine: Machine) -> list[Finding] | str:
    """Whether the model gives probability to places without rows, more than the rows' own spread explains."""
    if machine.rows is None or len(machine.rows) < LEAST_ROWS:
        return f"fewer than {LEAST_ROWS} rows are known"
    if not isinstance(machine.model, HasBridge) or not hasattr(machine.model, "marginal_energy"):
        return "the model has no bridge to a base"
    rows = _states(to_numpy(machine.rows)[:ROWS], units_of(machine.model)[machine.visible])
    stream = machine.noise.child("spurious")
    found = spurious_mass(machine.model, rows, noise=stream, chains=DRAWS_APART, schedule=SHORT_LADDER)
    margin = max(SPURIOUS, SURE * float(np.hypot(found.error, np.sqrt(found.usual * (1 - found.usual) / len(rows)))))
    if found.excess <= margin:
        return [Finding("ok", "the model has its mass where the rows are", str(found))]
    remedy = "persistent or tempered chains (objective pcd, tempered), which visit such places, or longer training"
    level = "warning" if found.excess > MOSTLY_SPURIOUS else "notice"
    return [Finding(level, "the model has mass far from every row", str(found), remedy)]  # type: ignore[arg-type]


def gradient(machine: Machine) -> list[Finding] | str:
    """Whether the gradient of the fit's chains is off by more than its own noise, where its law can be enumerated."""
    if machine.estimator is None:
        return "the fit's chains are of another kind than cd and pcd"
    if machine.rows is None or max(machine.model.sizes.values()) > ENUMERATED:
        return f"only layers of at most {ENUMERATED} units are enumerated"
    rows = _states(to_numpy(machine.rows)[:ROWS], units_of(machine.model)[machine.visible])
    (found,) = gradient_bias_variance(machine.model, rows, [machine.estimator], pairs=machine.batch)
    noise = float(np.sqrt(found.trace))
    evidence = (
        f"{found.estimator}: its mean is off by {found.bias_norm:.3g}, its standard deviation in updates of "
        f"{machine.batch} rows is {noise:.3g}, the exact gradient has a length of {found.exact_norm:.3g}"
    )
    if found.bias_norm <= noise:
        return [Finding("ok", "the bias of the gradient is within its noise", evidence)]
    return [Finding("notice", "the gradient is biased", evidence, "more steps of the chains (k), or objective pcd")]


CHECKS: dict[str, Callable[[Machine], list[Finding] | str]] = {
    "units": units, "mixing": mixing, "log_z": weights, "spurious": spurious,
    "gradient": gradient,
}  # fmt: skip


def _energy(machine: Machine, rows: NDArray[np.float64]) -> Any:
    placed = convert(rows, prototype(machine.model))
    model: Any = machine.model
    return model.energy(placed) if hasattr(model, "energy") else model.marginal_energy({machine.visible: placed})
