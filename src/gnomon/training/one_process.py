"""Fits that one process does for all: a library's own loop, a step that cannot be shared."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from safetensors import numpy as safetensors

from gnomon.contracts import Array, Group
from gnomon.errors import UserError
from gnomon.training.interrupts import answered
from gnomon.training.procedure import Info, Problem

__all__ = ["OnFirst", "share"]

Fit = Callable[[Problem], Mapping[str, float] | None]


@dataclass
class _State:
    problem: Problem


class OnFirst:
    """One step, done by the first process, whose model the others take over.

    A fit that was stopped before its step ended is repeated from its seed. Ctrl-C stops it at once.

    Parameters
    ----------
    fit : callable
        Is given the problem, brings its model into the fitted state, and returns the record for the history or None.
    """

    iterates: ClassVar[bool] = False

    def __init__(self, fit: Fit) -> None:
        self.fit = fit

    def start(self, problem: Problem) -> _State:
        """Nothing is known before the step."""
        return _State(problem)

    def step(self, state: _State) -> tuple[_State, Info]:
        """The whole fit."""
        problem, record, failure = state.problem, None, None
        if problem.group.rank == 0:
            try:
                record = answered(lambda: self.fit(problem), getattr(problem.model, "reached", lambda: (0, 0)))
            except Exception as error:
                failure = error
        record = share(problem.model, record, problem.group, failure)
        return state, Info(done=True, record=None if record is None else dict(record))

    def save(self, state: _State) -> tuple[dict[str, Array], dict[str, Any]]:
        """The fitted model."""
        return state.problem.model.state(), {}

    def load(self, problem: Problem, arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> _State:
        """The fitted model again."""
        problem.model.load(arrays)
        return _State(problem)


def share(
    model: Any, record: Mapping[str, float] | None, group: Group, failure: Exception | None = None
) -> Mapping[str, float] | None:
    """Give every process the first one's model and record, or let all of them fail.

    Raises
    ------
    UserError
        On the other processes, where the first has failed; its own error is raised on the first.
    """
    if failure is not None:
        if group.size > 1:
            group.gather(np.zeros(0, np.uint8))
        raise failure
    if group.size == 1:
        return record
    content = np.zeros(0, np.uint8)
    if group.rank == 0:
        arrays = {name: np.ascontiguousarray(value) for name, value in model.state().items()}
        encoded = np.frombuffer(json.dumps(record).encode(), np.uint8)
        content = np.frombuffer(safetensors.save(arrays | {RECORD: encoded}), np.uint8)
    content = group.gather(content)
    if not len(content):
        raise UserError("the first process could not fit", "fit", "see its error")
    if group.rank == 0:
        return record
    arrays = safetensors.load(content.tobytes())
    encoded = arrays.pop(RECORD)
    model.load(arrays)
    shared: Mapping[str, float] | None = json.loads(encoded.tobytes())
    return shared


RECORD = "record/json"
