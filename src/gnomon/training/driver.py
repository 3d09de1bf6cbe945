"""The one loop: steps a procedure, keeps the history, checkpoints, stops, reports, handles Ctrl-C."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gnomon.contracts import Procedure
from gnomon.errors import Diverged, UserError, UserValueError
from gnomon.runs.codecs import DAMAGE
from gnomon.runs.config import check_checkpoint
from gnomon.runs.folder import RunFolder
from gnomon.training.context import current
from gnomon.training.interrupts import interruptible
from gnomon.training.procedure import Info, Problem, diverged
from gnomon.training.progress import Progress

__all__ = ["FitResult", "run_procedure"]

CHECKPOINT_SECONDS = 10.0
ASK_SECONDS, ASK_STEPS = 0.2, 16
"""How long, in seconds and in steps, several processes go on before they agree again on Ctrl-C and checkpoints."""


@dataclass
class FitResult:
    """How a fit ended: steps taken, the history as one dict per record, and what a watched fit last did inside."""

    steps: int
    records: list[dict[str, float]] = field(default_factory=list)
    inside: Mapping[str, Any] = field(default_factory=dict)

    @property
    def history(self) -> dict[str, list[float]]:
        """The history by quantity."""
        names = dict.fromkeys(name for record in self.records for name in record)
        return {name: [record[name] for record in self.records if name in record] for name in names}


def run_procedure(
    procedure: Procedure,
    problem: Problem,
    run: RunFolder | None = None,
    *,
    limit: int | None = None,
    describe: Callable[[FitResult], Mapping[str, Any]] | None = None,
    name: str = "",
) -> FitResult:
    """Fit: from the start, or from the run's checkpoint if it has one.

    Parameters
    ----------
    procedure : Procedure
    problem : Problem
    run : RunFolder, optional
        Where checkpoints and the history go. A procedure that ``iterates`` leaves a checkpoint before its first step
        too, so that there is something to take home if it diverges at once.
    limit : int, optional
        Stop (without finishing) after this many steps in all; the checkpoint is written. For tests and budgets.
    describe : callable, optional
        Facts about the system at this point, put into every checkpoint so that its model can be taken home alone.
    name : str, default ""
        Of the system, for the line of progress.

    Raises
    ------
    Diverged
        A watched number or a parameter is not finite; the last finite checkpoint stays.
    KeyboardInterrupt
        After Ctrl-C, once the step under way is complete and the checkpoint written.
    """
    try:
        with run.claimed() if run is not None and problem.group.rank == 0 else contextlib.nullcontext():
            return _Drive(procedure, problem, run, describe).go(limit, name)
    except Diverged as error:
        if run is not None and problem.group.rank == 0:
            with contextlib.suppress(UserError):  # a full disk must not hide why the fit ended
                run.update(stopped=str(error))
        raise


class _Drive:
    def __init__(self, procedure: Procedure, problem: Problem, run: RunFolder | None, describe: Any) -> None:
        self.procedure, self.problem, self.run, self.describe = procedure, problem, run, describe
        self.context = current()
        self.outcome = FitResult(0)
        self.done = False
        self.saved_at = self.asked_at = time.monotonic()
        self.asked, self.ask = 0, 1

    def go(self, limit: int | None, name: str) -> FitResult:
        state = self._begin()
        progress = Progress(enabled=self.context.verbose and self.problem.group.rank == 0, name=name)
        progress.expect(self._total(state))
        # numbers that overflow are told of by `diverged`, once and with the step
        quiet = np.errstate(over="ignore", invalid="ignore")
        patient = self.run is not None and getattr(self.procedure, "iterates", True)  # one long step is begun anew
        with quiet, interruptible(patient) as interrupted, progress:
            while not self.done and self.outcome.steps != limit:
                made, info = self._stretch(state, limit)
                if not made:
                    made = 1
                    state, info = self.procedure.step(state)
                self.outcome.steps += made
                self.done = info.done
                if not math.isfinite(info.monitored):
                    raise diverged("the loss or its gradient", info.monitored, self.outcome.steps)
                if info.record is not None:
                    self._record(info, progress)
                else:
                    progress.step(self.outcome.steps)
                if self.run is None:
                    continue
                stop, due = self._agree(bool(interrupted))
                if stop or due:
                    self._checkpoint(state)
                if stop and not self.done:
                    raise KeyboardInterrupt
        self._end(state)
        return self.outcome

    def _stretch(self, state: Any, limit: int | None) -> tuple[int, Info]:
        """As many steps at once as the procedure can make before one at which something is due; 0 where it cannot."""
        together = getattr(self.procedure, "stretch", None)
        if together is None:
            return 0, Info()
        room = math.inf if limit is None else limit - self.outcome.steps
        every = self.context.checkpoint_every
        if every and self.run is not None:
            room = min(room, every - self.outcome.steps % every)
        found: tuple[int, Info] = together(state, room)
        return found

    def _total(self, state: Any) -> int | None:
        """Steps of the whole fit at most, where the procedure knows."""
        known = getattr(self.procedure, "total_steps", None)
        return None if known is None else known(state)

    def _begin(self) -> Any:
        if self.run is None:
            return self.procedure.start(self.problem)
        saved = self.run.read_checkpoint()
        self.problem.group.sum(0)  # nobody writes before everybody has read
        if saved is None:
            state = self.procedure.start(self.problem)
        else:
            state = self._load(self.run, *saved)
            if self.done and self.run.config.get("reopened"):
                self.done = not self._goes_on(state)
        if self.problem.group.rank == 0:
            self.run.sweep()
            self.run.rewrite_log(self.outcome.records)
            self.run.cut_monitor(self.outcome.steps)
        if saved is None and getattr(self.procedure, "iterates", False):
            self._checkpoint(state)
        return state

    def _goes_on(self, state: Any) -> bool:
        """Whether a fit that had ended has something of a larger budget left."""
        goes_on = getattr(self.procedure, "goes_on", None)
        if goes_on is None:
            raise UserValueError("this fit has no budget that can be enlarged", "resume", "fit again")
        further: bool = goes_on(state)
        return further

    def _load(self, run: RunFolder, arrays: Mapping[str, Any], facts: Mapping[str, Any]) -> Any:
        check_checkpoint(facts, f"the checkpoint in {run.path}")
        broken = not_finite(arrays)
        if broken is not None:  # none is ever written so
            what = f"the checkpoint in {run.path} holds numbers that are not finite"
            raise UserValueError(what, broken, "the file is damaged: fit again")
        try:
            self.outcome = FitResult(facts["steps"], list(facts["records"]))
            self.done = facts["done"]
            return self.procedure.load(self.problem, arrays, facts["procedure"])
        except UserError:
            raise
        except DAMAGE as error:  # of another model: names or shapes differ
            reason = " ".join(str(error).split())
            raise UserValueError(f"the checkpoint in {run.path} does not fit its system", reason, "fit again") from None

    def _record(self, info: Info, progress: Progress) -> None:
        record = {"step": self.outcome.steps} | {name: float(value) for name, value in (info.record or {}).items()}
        for name, value in record.items():
            if not math.isfinite(value):
                raise diverged(name, value, self.outcome.steps)
        check_finite(self.problem.model.state(), self.outcome.steps)
        self.outcome.records.append(record)
        whole: dict[str, Any] = record if info.inside is None else {**record, "monitor": info.inside}
        self.outcome.inside = info.inside or {}
        if self.run and self.problem.group.rank == 0:
            self.run.log(record)
            if info.inside is not None:
                self.run.log_monitor({"step": self.outcome.steps, **info.inside})
        for callback in self.context.callbacks:
            callback(self.outcome.steps, whole)
        progress.show(record)

    def _agree(self, interrupted: bool) -> tuple[bool, bool]:
        """Whether to stop, and whether it is time for a checkpoint; the same answer on every process."""
        every = self.context.checkpoint_every
        due = bool(every) and self.outcome.steps % (every or 1) == 0
        if self.problem.group.size == 1:
            return interrupted, due or (not every and time.monotonic() - self.saved_at > CHECKPOINT_SECONDS)
        if self.outcome.steps - self.asked < self.ask:
            return False, due
        now = time.monotonic()
        late = not every and now - self.saved_at > CHECKPOINT_SECONDS
        stop, late, seconds = self.problem.group.sum((int(interrupted), int(late), now - self.asked_at))
        per_step = seconds / self.problem.group.size / (self.outcome.steps - self.asked)
        self.ask = max(1, min(ASK_STEPS, int(ASK_SECONDS / max(per_step, 1e-9))))
        self.asked, self.asked_at = self.outcome.steps, now
        return stop > 0, due or late > 0

    def _checkpoint(self, state: Any) -> None:
        arrays, facts = self.procedure.save(state)
        check_finite(arrays, self.outcome.steps)
        if self.run and self.problem.group.rank == 0:
            whole = {
                "steps": self.outcome.steps,
                "done": self.done,
                "records": self.outcome.records,
                "procedure": facts,
            }
            if self.describe:
                whole["system"] = self.describe(self.outcome)
            self.run.write_checkpoint(arrays, whole)
        self.saved_at = time.monotonic()

    def _end(self, state: Any) -> None:
        if self.run:
            self._checkpoint(state)
        else:
            check_finite(self.problem.model.state(), self.outcome.steps)


def check_finite(arrays: Mapping[str, Any], step: int) -> None:
    """Raise Diverged, naming the array, where a parameter is NaN or infinite."""
    name = not_finite(arrays)
    if name is not None:
        array = _plain(arrays[name])
        raise diverged(name, float(array[~np.isfinite(array)][0]), step)


def not_finite(arrays: Mapping[str, Any]) -> str | None:
    """The first array by name that holds NaN or an infinity; None where all are finite."""
    for name, value in arrays.items():
        array = _plain(value)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return name
    return None


def _plain(value: Any) -> np.ndarray[Any, Any]:
    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
