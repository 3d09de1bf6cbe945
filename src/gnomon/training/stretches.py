"""Several updates of a fit in one compiled call, between two moments at which somebody looks at it."""

from __future__ import annotations

from typing import Any

import torch

from gnomon.numeric.descent import StepRule
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

    Only updates of which nothing is asked but to be made: plain or Adam's descent of one phase at one rate, on whole
    batches of one process, none of them an epoch's last, whose record is made by `Gradient.step`.
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
    descent = _descent(part, state.rate * part.rate)
    made, norm = stretch.go(problem.model, rows, size, part.noise.at(state.update), descent)
    for name in descent.moments:
        part.optimizer.state[part.parameters[name]]["step"] += made
    state.update += made
    return made, Info(monitored=norm)


def _is_plain(procedure: Gradient, state: Any) -> bool:
    """Whether an update is a plain or Adam's step at a rate that stays, and nothing but."""
    if len(state.parts) != 1 or state.monitor is not None or state.objective is not state.problem.objective:
        return False
    (part,), problem = state.parts, state.problem
    steady = isinstance(procedure.schedule, Constant) and not procedure.schedule.warmup
    alone = problem.group.size == 1 and part.steps == 1 and part.batches is problem.batches
    whole = len(part.parameters) == len(state.exchange.named)
    unlimited = procedure.clip is None and procedure.clip_value is None
    return steady and alone and whole and unlimited and _is_known(part.optimizer) and state.exchange.compiled


def _is_known(optimizer: Any) -> bool:
    """Whether its steps are compiled: plain ones, and Adam's without decay or the largest moments."""
    if len(optimizer.param_groups) > 1:  # rates of their own
        return False
    if type(optimizer) is PlainDescent:
        return True
    if type(optimizer) is not torch.optim.Adam:
        return False
    return not any(optimizer.param_groups[0][name] for name in ("amsgrad", "maximize", "weight_decay"))


def _descent(part: Any, rate: float) -> StepRule:
    """The steps of a phase; moments that Adam has not begun are begun as it does."""
    if type(part.optimizer) is PlainDescent:
        return StepRule(rate)
    moments: dict[str, tuple[Any, Any]] = {}
    steps = 0.0
    for name, parameter in part.parameters.items():
        entry = part.optimizer.state[parameter]
        if not entry:
            entry["step"] = torch.zeros((), dtype=torch.float32)
            entry |= {moment: torch.zeros_like(parameter) for moment in ("exp_avg", "exp_avg_sq")}
        moments[name], steps = (entry["exp_avg"].numpy(), entry["exp_avg_sq"].numpy()), entry["step"].item()
    group = part.optimizer.param_groups[0]
    beta1, beta2 = group["betas"]
    return StepRule(rate, moments, steps, beta1, beta2, group["eps"])
