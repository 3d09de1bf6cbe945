"""Expectation maximization, and the fits that are one such step: closed forms and counting."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from gnomon.contracts import Array
from gnomon.errors import UserValueError
from gnomon.training.procedure import Info, Problem

__all__ = ["EM", "ClosedForm", "Iterations", "Restarts", "per_row", "total"]

DEBUG = sys.flags.dev_mode
"""Whether a fall of what cannot fall is an error: in Python's development mode, ``python -X dev``."""

ROUNDING = 1e-9
"""Share of its size by which the objective may fall for all that."""


@dataclass
class Iterations:
    """Where a fit in iterations stands."""

    problem: Problem
    iteration: int = 0
    last: float | None = None
    settled: bool = False
    """Whether the fit has converged, and not spent its iterations."""


class ClosedForm:
    """One step: sums over the data, summed over the processes, solved.

    The model keeps `gnomon.contracts.HasMoments`.
    """

    iterates: ClassVar[bool] = False

    def start(self, problem: Problem) -> Iterations:
        """Nothing before the step."""
        return Iterations(problem)

    def step(self, state: Iterations) -> tuple[Iterations, Info]:
        """The whole fit."""
        model = state.problem.model
        moments = state.problem.group.sum(total(model.moments, state.problem.batches))
        record = model.solve(moments)
        state.iteration += 1
        return state, Info(done=True, record=record)

    def save(self, state: Iterations) -> tuple[dict[str, Array], dict[str, Any]]:
        """The model."""
        facts = {"iteration": state.iteration, "last": state.last, "settled": state.settled}
        return state.problem.model.state(), facts

    def load(self, problem: Problem, arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> Iterations:
        """Exactly the state that was saved."""
        same_shapes(problem.model, arrays)
        problem.model.load(arrays)
        return Iterations(problem, facts["iteration"], facts["last"], facts.get("settled", False))


class EM(ClosedForm):
    """Alternate expectation and maximization (Dempster, Laird and Rubin 1977) until the mean log-likelihood stands.

    The model keeps `gnomon.contracts.HasExpectation`. A record carries the log-likelihood per row of the model that the
    iteration began with, and the quantity that never falls: the same plus the log prior per row. A model where it falls
    is wrong; under ``python -X dev`` that is an AssertionError.

    Parameters
    ----------
    max_iter : int
        Iterations at most.
    tol : float
        End when an iteration gained no more than this, in nats per row; 0 runs all iterations.
    """

    iterates: ClassVar[bool] = True
    quantity: str = "log_likelihood"
    """What an expectation step says of the rows beside its sums."""

    def __init__(self, max_iter: int, tol: float) -> None:
        self.max_iter, self.tol = max_iter, tol

    def goes_on(self, state: Iterations) -> bool:
        """Whether a fit that had ended has iterations left since their number was enlarged."""
        return not state.settled and state.iteration < self.max_iter

    def total_steps(self, state: Iterations) -> int:
        """Iterations at most."""
        return self.max_iter

    def expected(self, state: Iterations) -> dict[str, Array]:
        """Sums of one pass over all rows."""
        statistics: dict[str, Array] = state.problem.group.sum(
            total(self.expectation(state.problem.model), state.problem.batches)
        )
        return statistics

    def expectation(self, model: Any) -> Any:
        """The sums of a batch given its rows and weights."""
        return model.expect

    def maximize(self, model: Any, statistics: dict[str, Array]) -> None:
        """Better parameters for the sums of all rows."""
        model.maximize(statistics)

    def step(self, state: Iterations) -> tuple[Iterations, Info]:
        """One iteration."""
        statistics = self.expected(state)
        reached = per_row(state.problem.model, statistics)
        self.maximize(state.problem.model, statistics)
        return self.recorded(state, *reached)

    def recorded(self, state: Iterations, likelihood: float, climbed: float) -> tuple[Iterations, Info]:
        """What an iteration has reached: `climbed` never falls."""
        model = state.problem.model
        if DEBUG and state.last is not None and climbed < state.last - ROUNDING * max(1.0, abs(state.last)):
            raise AssertionError(
                f"{type(model).__name__}: the objective fell from {state.last} to {climbed} in iteration "
                f"{state.iteration + 1}: its expect and maximize are no EM"
            )
        state.settled = self.tol > 0 and state.last is not None and climbed - state.last <= self.tol
        state.last, state.iteration = climbed, state.iteration + 1
        record = {"iteration": state.iteration, self.quantity: likelihood, "objective": climbed}
        return state, Info(done=state.settled or state.iteration >= self.max_iter, record=record, monitored=climbed)


@dataclass
class _Several:
    problem: Problem
    inner: Any
    start: int = 0
    highest: float = -math.inf
    best: dict[str, Array] = field(default_factory=dict)


class Restarts:
    """Expectation maximization from each of the model's ``starts`` (states) in turn; the best end is kept.

    An iteration knows the likelihood that it began with, so the model that a start ends with takes one more pass.
    A record also carries the number of its start; its ``objective`` is the best of all starts so far.

    Parameters
    ----------
    procedure : EM
        What every start is given.
    """

    iterates: ClassVar[bool] = True

    def __init__(self, procedure: EM) -> None:
        self.procedure = procedure

    def start(self, problem: Problem) -> _Several:
        """The model at the first of its starts."""
        problem.model.load(problem.model.starts[0])
        return _Several(problem, self.procedure.start(problem))

    def goes_on(self, state: _Several) -> bool:
        """Refused: every start would have gone on, and they are gone.

        Raises
        ------
        UserValueError
        """
        raise UserValueError("a fit from several starts cannot go on after its end", "max_iter", "fit again")

    def total_steps(self, state: _Several) -> int:
        """Iterations of all starts at most."""
        return self.procedure.max_iter * len(state.problem.model.starts)

    def step(self, state: _Several) -> tuple[_Several, Info]:
        """One iteration; after the last of a start, on to the next."""
        model = state.problem.model
        state.inner, info = self.procedure.step(state.inner)
        end = per_row(model, self.procedure.expected(state.inner))[1] if info.done else info.monitored
        record = (info.record or {}) | {"objective": max(end, state.highest), "start": state.start}
        if not info.done:
            return state, Info(record=record, monitored=info.monitored)
        if end > state.highest:
            state.highest = end
            state.best = {name: np.array(value) for name, value in model.state().items()}
        state.start += 1
        done = state.start == len(model.starts)
        model.load(state.best if done else model.starts[state.start])
        state.inner = self.procedure.start(state.problem)
        return state, Info(done=done, record=record, monitored=info.monitored)

    def save(self, state: _Several) -> tuple[dict[str, Array], dict[str, Any]]:
        """What the start under way saves, and the best end so far under names that begin with ``best.``."""
        arrays, facts = self.procedure.save(state.inner)
        best = {f"best.{name}": value for name, value in state.best.items()}
        highest = state.highest if state.best else None
        return arrays | best, facts | {"start": state.start, "highest": highest}

    def load(self, problem: Problem, arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> _Several:
        """Exactly the state that was saved."""
        inner = self.procedure.load(problem, arrays, facts)
        names = problem.model.state()
        best = {name: np.array(arrays[f"best.{name}"]) for name in names} if facts["highest"] is not None else {}
        highest = -math.inf if facts["highest"] is None else facts["highest"]
        return _Several(problem, inner, facts["start"], highest, best)


def per_row(model: Any, statistics: Mapping[str, Array]) -> tuple[float, float]:
    """The log-likelihood per row in these sums, and this plus the log prior of the model per row."""
    weight = float(statistics["weight"])
    likelihood = float(statistics["log_likelihood"]) / weight
    return likelihood, likelihood + model.log_prior() / weight


def same_shapes(model: Any, arrays: Mapping[str, Array]) -> None:
    """Refuse arrays whose names or shapes are not those of the model.

    Raises
    ------
    ValueError
        The first that differs.
    """
    for name, own in model.state().items():
        if name not in arrays or np.shape(own) != np.shape(arrays[name]):
            found = f"has shape {np.shape(arrays[name])}" if name in arrays else "is missing"
            raise ValueError(f"{name} of shape {np.shape(own)} {found}")


def total(part: Any, batches: Any) -> dict[str, Array]:
    """The sums of all batches of one pass, in place; labels, where there are some, are the part's third argument."""
    sums: dict[str, Array] = {}
    for batch in batches.epoch(0):
        labels = [batch.data["y"]] if "y" in batch.data else []
        for name, value in part(batch.data["X"], batch.weight, *labels).items():
            sums[name] = sums[name] + value if name in sums else value
    return sums
