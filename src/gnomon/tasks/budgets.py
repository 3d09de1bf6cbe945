"""A larger budget for a run: more epochs, updates or iterations than its fit was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from gnomon.errors import Diverged, UserError, UserTypeError, UserValueError
from gnomon.runs.folder import RunFolder
from gnomon.system.base import System
from gnomon.system.saving import system_of

__all__ = ["BUDGETS", "given", "prolonged"]

BUDGETS = {"epochs": "epoch", "max_updates": "step", "max_iter": "iteration"}
"""Hyper-parameters that are budgets, and what a record calls the part of it that is spent."""


def given(**budgets: int | None) -> dict[str, int]:
    """The budget among the arguments; None of it where nothing is asked for.

    Raises
    ------
    UserTypeError, UserValueError
        Two at once, or no whole number of at least 1.

    Examples
    --------
    >>> given(epochs=None, max_iter=30)
    {'max_iter': 30}
    """
    found = {name: value for name, value in budgets.items() if value is not None}
    if len(found) > 1:
        raise UserTypeError(f"a fit has one budget, got {' and '.join(found)}", "resume", "give one of them")
    for name, value in found.items():
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise UserTypeError.must(name, "be a whole number", value, "resume")
        if value < 1:
            raise UserValueError.must(name, "be at least 1", value, "resume")
    return {name: int(value) for name, value in found.items()}


@contextmanager
def prolonged(run: RunFolder, budget: Mapping[str, int]) -> Iterator[None]:
    """Within the block the run has this budget; it keeps it, unless the fit is refused before it has gone on.

    Raises
    ------
    UserError
        A budget that the system has not or that is spent, or a fit that would have gone another way from its start.
    """
    if not budget:
        yield
        return
    (name, amount), system = next(iter(budget.items())), system_of(run.config)
    checkpoint = run.read_checkpoint()
    steps = None if checkpoint is None else checkpoint[1].get("steps")
    _check(system, run, name, amount, checkpoint[1] if checkpoint else {})
    before = run.config
    run.update(parameters={**before["parameters"], name: amount}, reopened=True)
    try:
        yield
    except Diverged:
        raise
    except UserError:
        now = run.read_checkpoint()
        if now is None or now[1].get("steps") == steps:
            run.replace(before)
        raise


def _check(system: System, run: RunFolder, name: str, amount: int, facts: Mapping[str, object]) -> None:
    params = system.get_params(deep=False)
    if params.get("max_updates") is not None and name == "epochs":
        raise UserValueError(f"{run.path} has a budget of updates, not of epochs", name, "give max_updates")
    if params.get(name) is None:
        has = [one for one in BUDGETS if params.get(one) is not None]
        remedy = f"give {has[0]}" if has else "it has no budget to enlarge: fit again"
        raise UserValueError(f"{system.name} has no budget of {name} here", name, remedy)
    records = facts.get("records")
    last = records[-1] if isinstance(records, list) and records else {}
    done = int(last.get(BUDGETS[name], 0))
    if amount < done:
        raise UserValueError.must(name, f"be at least {done}, which are done", amount, str(run.path), "fit again")
    if amount == params[name] or "schedule" not in system.slots:
        return
    schedule = system.recipe("schedule")
    if schedule.counts_down:
        what = f"the schedule {schedule.short} goes down over the whole fit: with {name}={amount} every step differs"
        raise UserValueError(what, "schedule", f"fit again with {name}={amount}")
