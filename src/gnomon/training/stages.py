"""A fit in stages: other procedures in turn, each on a problem of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from gnomon.contracts import Array, Procedure
from gnomon.training.procedure import Info, Problem

__all__ = ["Stages"]

Ends = Mapping[str, Mapping[str, float]]
"""The last record of every stage that has ended, by its name."""

Stage = tuple[str, Procedure | Callable[[Ends], Procedure], Callable[[Problem], Problem] | None]


@dataclass
class _State:
    problem: Problem
    stage: int
    procedure: Procedure
    inner: Any
    ends: dict[str, dict[str, float]] = field(default_factory=dict)
    last: dict[str, float] = field(default_factory=dict)


class Stages:
    """Procedures one after the other; a step is a step of the one under way.

    A record carries the number of its stage, from 1. What a checkpoint holds of a stage stands under its name; the
    whole problem's model stands beside it.

    Parameters
    ----------
    stages : sequence of (name, procedure, problem_of)
        ``procedure`` may also be a function that makes it when its turn comes, from the last record of every earlier
        stage by name. ``problem_of`` makes the stage's problem of the whole one when its turn comes, its model as the
        earlier stages have left it, and again when a fit resumes within the stage; None is the whole problem with the
        noise's child of the stage's name.

    Examples
    --------
    >>> from gnomon.training.em import EM
    >>> stages = Stages([("coarse", EM(5, 0.0), None), ("fine", EM(100, 1e-9), None)])
    >>> [name for name, _, _ in stages.stages]
    ['coarse', 'fine']
    """

    iterates: ClassVar[bool] = True

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages = list(stages)

    def start(self, problem: Problem) -> _State:
        """The first stage before its first step."""
        return self._begin(problem, 0, {})

    def _begin(self, problem: Problem, stage: int, ends: dict[str, dict[str, float]]) -> _State:
        procedure = self._procedure(stage, ends)
        return _State(problem, stage, procedure, procedure.start(self._problem(problem, stage)), ends)

    def _procedure(self, stage: int, ends: Ends) -> Procedure:
        made: Any = self.stages[stage][1]
        procedure: Procedure = made(ends) if callable(made) else made
        return procedure

    def _problem(self, problem: Problem, stage: int) -> Problem:
        name, _, problem_of = self.stages[stage]
        return replace(problem, noise=problem.noise.child(name)) if problem_of is None else problem_of(problem)

    def step(self, state: _State) -> tuple[_State, Info]:
        """A step of the stage under way; behind its last one the next stage begins."""
        state.inner, info = state.procedure.step(state.inner)
        if info.record is not None:
            state.last = {name: float(value) for name, value in info.record.items()}
            info = replace(info, record={"stage": state.stage + 1, **info.record})
        last = state.stage + 1 == len(self.stages)
        if not info.done or last:
            return state, info
        ends = {**state.ends, self.stages[state.stage][0]: state.last}
        return self._begin(state.problem, state.stage + 1, ends), replace(info, done=False)

    def save(self, state: _State) -> tuple[dict[str, Array], dict[str, Any]]:
        """The model, and what the stage under way saves."""
        name = self.stages[state.stage][0]
        inner, facts = state.procedure.save(state.inner)
        arrays = {f"model/{key}": value for key, value in state.problem.model.state().items()}
        arrays |= {f"{name}/{key}": value for key, value in inner.items()}
        return arrays, {"stage": state.stage, "ends": state.ends, "last": state.last, "procedure": facts}

    def load(self, problem: Problem, arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> _State:
        """Exactly the state that was saved."""
        problem.model.load(_below(arrays, "model/"))
        stage, ends = facts["stage"], dict(facts["ends"])
        procedure = self._procedure(stage, ends)
        part = self._problem(problem, stage)
        inner = procedure.load(part, _below(arrays, f"{self.stages[stage][0]}/"), facts["procedure"])
        return _State(problem, stage, procedure, inner, ends, dict(facts["last"]))


def _below(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
