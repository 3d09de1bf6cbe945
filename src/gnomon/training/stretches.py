"""Several updates of a fit in one compiled call, between two moments at which somebody looks at it."""

from __future__ import annotations

from typing import Any

from gnomon.objectives.base import Stretch
from gnomon.training.gradient import Gradient
from gnomon.training.optimizers import PlainDescent
from gnomon.training.procedure import Info
from gnomon.training.schedules import Constant

__all__ = ["go_on"]

BYTES, UPDATES, PRODUCTS = 1 << 22, 1 << 12, 1 << 31
"""What a stretch holds of rows, its updates, and its multiplications at most: about a tenth of a second."""


def go_on(procedure: Gradient, state: Any, most: float) -> tuple[int, Info]:
    """Make up to `most` updates at once where the objective can; how many were made, 0 where none, and what is told.

    Only updates of which nothing is asked but to be made: plain descent of one phase at one rate, on whole batches
    of one process, none of them an epoch's last, whose record is made by `Gradient.step`.
    """
    if not _is_plain(procedure, state):
        return 0, Info()
    problem, (part,) = state.problem, state.parts
    epoch, index = divmod(state.update, problem.batches.steps)
    stretch: Stretch | None = problem.objective.stretch(problem.model)
    count = int(min(most, problem.batches.steps - 1 - index, state.end - 1 - state.update))
    if stretch is None or count < 1:
        return 0, Info()
    size = problem.batches.batch_size
    count = max(1, min(count, UPDATES, BYTES // (size * stretch.row), PRODUCTS // (size * stretch.products)))
    rows = problem.batches.run(epoch, index, count)
    if rows is None:
        return 0, Info()
    procedure.set_rate(state, epoch)
    made, norm = stretch.go(problem.model, rows, size, part.noise.at(state.update), state.rate * part.rate)
    state.update += made
    return made, Info(monitored=norm)


def _is_plain(procedure: Gradient, state: Any) -> bool:
    """Whether an update is the gradient times a rate that stays, and nothing but."""
    if len(state.parts) != 1 or state.monitor is not None or state.objective is not state.problem.objective:
        return False
    (part,), problem = state.parts, state.problem
    steady = isinstance(procedure.schedule, Constant) and not procedure.schedule.warmup
    alone = problem.group.size == 1 and part.steps == 1 and part.batches is problem.batches
    whole = len(part.parameters) == len(state.exchange.named)
    unlimited = procedure.clip is None and procedure.clip_value is None
    return steady and alone and whole and unlimited and type(part.optimizer) is PlainDescent and state.exchange.compiled
