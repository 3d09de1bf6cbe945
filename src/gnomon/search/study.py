"""One search on a store: trials that are carried out, counted, found again, and shared between processes."""

from __future__ import annotations

import json
import math
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import InMemoryStorage, RDBStorage, RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from gnomon.errors import UserError, UserValueError, counted
from gnomon.search.space import grid, size
from gnomon.search.strategies import sampler
from gnomon.search.trials import Judge, SearchPlan, Tried

__all__ = ["Study"]

NAME = "gnomon"
"""Of the study in its store."""
HEARTBEAT_SECONDS = 5
GRACE_SECONDS = 20
"""After which a trial whose process says nothing any more is carried out by another."""
RETRIES = 2
WAIT_SECONDS = 0.5
BUSY_SECONDS = 60
"""How long a process waits for a store that another one writes to."""
OPENINGS = 5

STATES = {
    TrialState.COMPLETE: "done", TrialState.PRUNED: "ended early", TrialState.FAIL: "failed",
    TrialState.RUNNING: "under way", TrialState.WAITING: "under way",
}  # fmt: skip


class Study:
    """Trials of one plan on one store.

    Parameters
    ----------
    plan : SearchPlan
    store : str or path, optional
        A file of SQLite or an URL as Optuna takes it; in memory where left out. What is there is gone on with.

    Raises
    ------
    UserValueError
        A store that cannot be opened, or that holds the search of something else.
    """

    def __init__(self, plan: SearchPlan, store: str | Path | None = None) -> None:
        self.plan = plan
        direction = StudyDirection.MAXIMIZE if plan.higher_is_better else StudyDirection.MINIMIZE
        with _quiet():
            self.store = _opened(store)
            self.study = optuna.create_study(
                storage=self.store, study_name=NAME, load_if_exists=True, direction=direction,
                sampler=sampler(plan.strategy, plan.seed), pruner=optuna.pruners.MedianPruner(n_startup_trials=5),
            )  # fmt: skip
        known = self.study.user_attrs.get("plan", plan.identity)
        if known != plan.identity:
            self.close()
            other = _difference(json.loads(known), json.loads(plan.identity))
            raise UserValueError(f"the store holds a search of another {other}", _shown(store), "give another store")
        self.study.set_user_attr("plan", plan.identity)
        if plan.strategy == "grid":
            points = grid(plan.space)
            if len(points) > plan.trials:
                what = f"the grid has {len(points):,} points, of which {plan.trials:,} are tried: the first ones"
                warnings.warn(f"{what}; give --trials {len(points)}, or fewer values", UserWarning, stacklevel=2)
            for point in points[: plan.trials]:
                stored = {name: plan.space[name].stored(value) for name, value in point.items()}
                self.study.enqueue_trial(stored, skip_if_exists=True)

    def close(self) -> None:
        """Let go of the store."""
        if isinstance(self.store, RDBStorage):
            self.store.remove_session()
            self.store.engine.dispose()

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def total(self) -> int:
        """Trials that the search has in all: those that were asked for, or the points of the grid."""
        if self.plan.strategy == "grid":
            return min(self.plan.trials, len(grid(self.plan.space)))
        return self.plan.trials

    @property
    def exhausted(self) -> bool:
        """Whether every point of the space was tried."""
        return len({json.dumps(one.params, sort_keys=True) for one in self.ended()}) >= size(self.plan.space)

    def run(
        self, judge: Judge, on_end: Callable[[Tried, int], None] = lambda *_: None, seconds: float | None = None
    ) -> None:
        """Carry out trials until there are enough, those of other processes included.

        Parameters
        ----------
        judge : callable
            Gives the score of hyper-parameters. A UserError is a failed trial.
        on_end : callable, optional
            Is given every trial that ended here, and how many there are.
        seconds : float, optional
            No trial begins after this long.
        """
        begun = time.monotonic()

        def objective(trial: Trial) -> float:
            return self._try(trial, judge)

        def ended(study: optuna.Study, trial: FrozenTrial) -> None:
            if "surplus" not in trial.user_attrs:
                on_end(self._tried(trial), len(self.ended()))

        while len(self.ended()) < self.total and not self.exhausted:
            if seconds is not None and time.monotonic() - begun >= seconds:
                return
            if len(self._counted()) >= self.total and not self._states(TrialState.WAITING):
                self._wait()
                continue
            with _quiet():
                self.study.optimize(objective, n_trials=1, catch=(UserError,), callbacks=[ended])

    def _wait(self) -> None:
        """Others are at work; what a killed one left is put up again."""
        time.sleep(WAIT_SECONDS)
        with _quiet():
            fail_stale_trials(self.study)

    def _try(self, trial: Trial, judge: Judge) -> float:
        if len([one for one in self._counted() if one.number < trial.number]) >= self.total:
            trial.set_user_attr("surplus", True)  # two processes asked for the last one
            raise optuna.TrialPruned
        parameters = {name: one.suggest(trial, name) for name, one in self.plan.space.items()}
        twin = self._twin(trial)
        if twin is not None:
            trial.set_user_attr("same_as", twin.number)
            if twin.state is TrialState.COMPLETE and twin.value is not None:
                return twin.value
            raise optuna.TrialPruned

        def report(step: int, value: float) -> None:
            trial.report(value, step)
            if trial.should_prune():
                raise optuna.TrialPruned

        try:
            value = judge(parameters, report)
            if not math.isfinite(value):
                raise UserValueError(f"the score is {value}", "search")
            return value
        except UserError as error:
            trial.set_user_attr("reason", " ".join(str(error).split()))
            raise
        except KeyboardInterrupt:
            RetryHeartbeatStaleTrialCallback(max_retry=None)(self.study, self.study.get_trials()[trial.number])
            raise

    def _twin(self, trial: Trial) -> FrozenTrial | None:
        """An earlier trial with the same hyper-parameters, by whichever process."""
        for one in self._counted():
            if one.number < trial.number and one.params == trial.params and "same_as" not in one.user_attrs:
                return one
        return None

    def _states(self, *states: TrialState) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False, states=states)

    def _counted(self) -> list[FrozenTrial]:
        """Trials that have begun and are no surplus; what a dead process left is carried out under another number."""
        begun = self._states(TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL, TrialState.RUNNING)
        return [
            one for one in begun
            if "surplus" not in one.user_attrs and (one.state is not TrialState.FAIL or "reason" in one.user_attrs)
        ]  # fmt: skip

    def ended(self) -> list[FrozenTrial]:
        """Trials that have come to an end, by whichever process."""
        return [one for one in self._counted() if one.state is not TrialState.RUNNING]

    @property
    def tried(self) -> list[Tried]:
        """Every trial, in the order in which they began."""
        return [self._tried(one) for one in self._counted()]

    def best(self) -> Tried:
        """The trial with the best score; of equal ones the first.

        Raises
        ------
        UserValueError
            No trial has a score.
        """
        done = [one for one in self.tried if one.value is not None and one.state == "done"]
        if not done:
            reasons = [one.reason for one in self.tried if one.reason]
            words = f"; the first reason: {reasons[0]}" if reasons else ""
            raise UserValueError(
                f"none of {counted(len(self.tried), 'trial')} has a score{words}", "search", "narrow the space"
            )
        sign = -1 if self.plan.higher_is_better else 1
        return min(done, key=lambda one: (sign * (one.value or 0.0), one.number))

    def _tried(self, trial: FrozenTrial) -> Tried:
        values = {name: self.plan.space[name].read(stored) for name, stored in trial.params.items()}
        took = trial.duration.total_seconds() if trial.duration is not None else 0.0
        return Tried(
            trial.number, values, STATES[trial.state], trial.value if trial.state is TrialState.COMPLETE else None,
            round(took, 3), trial.user_attrs.get("reason", ""),
        )  # fmt: skip


def _difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """In what two plans differ."""
    return ", ".join(name for name in other if one.get(name) != other[name]) or "kind"


def _shown(store: str | Path | None) -> str:
    """A store as errors name it, without the name and password of a URL."""
    return re.sub(r"//[^/@]*@", "//", str(store))


def _opened(store: str | Path | None) -> Any:
    """The store; two processes may make it at the same time."""
    if store is None:
        return InMemoryStorage()
    url = store if isinstance(store, str) and "://" in store else f"sqlite:///{Path(store).resolve()}"
    waits = {"connect_args": {"timeout": BUSY_SECONDS}} if url.startswith("sqlite:") else {}
    for attempt in range(OPENINGS):
        try:
            return RDBStorage(
                url, engine_kwargs=waits, heartbeat_interval=HEARTBEAT_SECONDS, grace_period=GRACE_SECONDS,
                heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(max_retry=RETRIES),
            )  # fmt: skip
        except (SQLAlchemyError, ImportError, OSError) as error:
            if attempt + 1 == OPENINGS or not isinstance(error, SQLAlchemyError):
                reason = " ".join(str(getattr(error, "orig", error)).split())[:160]
                raise UserValueError(
                    f"cannot open the store: {reason}", _shown(store), "give a file, or another URL"
                ) from None
            time.sleep(0.2 * (attempt + 1))
    raise AssertionError("unreachable")


@contextmanager
def _quiet() -> Iterator[None]:
    """Optuna says nothing of its own: trials are told in our words, and experimental samplers are meant."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
