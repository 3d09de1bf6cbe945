"""One search on a store: trials that are carried out, counted, found again, and shared between processes."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState

from gnomon.errors import UserError, UserValueError, counted
from gnomon.search.conditions import Conditional, ordered, size
from gnomon.search.rounds import ROUNDS, Key, key, next_round
from gnomon.search.stores import opened, quiet, shown
from gnomon.search.strategies import POINT, ByNumber
from gnomon.search.trials import Judge, OverLimit, SearchPlan, Tried

__all__ = ["Study"]

NAME = "gnomon"
"""Of the study in its store."""
WAIT_SECONDS = 0.5
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
        self.plan, self.space = plan, ordered(plan.space)
        direction = StudyDirection.MAXIMIZE if plan.higher_is_better else StudyDirection.MINIMIZE
        with quiet():
            self.store = opened(store)
            self.study = optuna.create_study(
                storage=self.store, study_name=NAME, load_if_exists=True, direction=direction,
                sampler=ByNumber(plan), pruner=optuna.pruners.MedianPruner(n_startup_trials=5),
            )  # fmt: skip
        known = self.study.user_attrs.get("plan", plan.identity)
        if known != plan.identity:
            self.close()
            other = _difference(json.loads(known), json.loads(plan.identity))
            raise UserValueError(f"the store holds a search of another {other}", shown(store), "give another store")
        self.study.set_user_attr("plan", plan.identity)
        self.total = plan.trials
        """Trials that the search has in all: those that were asked for, or the points of the grid."""
        if plan.strategy == "grid":
            points = len(next_round(plan, {}))
            self.total = min(points, plan.trials)
            if points > plan.trials:
                what = f"the grid has {points:,} points, of which {plan.trials:,} are tried: the first ones"
                warnings.warn(f"{what}; give --trials {points}, or fewer values", UserWarning, stacklevel=2)

    def close(self) -> None:
        """Let go of the store."""
        if isinstance(self.store, RDBStorage):
            self.store.remove_session()
            self.store.engine.dispose()

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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

        while True:
            trials = self.study.get_trials(deepcopy=False)
            counted, waiting = _counted(trials), any(one.state is TrialState.WAITING for one in trials)
            done = [one for one in counted if one.state is not TrialState.RUNNING]
            if len(done) >= self.total or self._exhausted(done):
                return
            if seconds is not None and time.monotonic() - begun >= seconds:
                return
            if self.plan.strategy in ROUNDS and len(done) == len(counted) and not waiting:
                if not self._put_up(done):
                    return
            elif not waiting and (len(counted) >= self.total or self.plan.strategy in ROUNDS):
                self._wait()
                continue
            with quiet():
                self.study.optimize(objective, n_trials=1, catch=(UserError,), callbacks=[ended])

    def _exhausted(self, done: list[FrozenTrial]) -> bool:
        """Whether every point of the space was tried; a repeated grid leaves its space."""
        most = math.inf if self.plan.strategy == "refine" else size(self.plan.space)
        return math.isfinite(most) and len({key(self._values(one)) for one in done}) >= most

    def _put_up(self, done: list[FrozenTrial]) -> int:
        """Put the points of the next round into the store; how many there are."""
        points = next_round(self.plan, self._costs(done))[: self.total - len(done)]
        for point in points:
            stored = {name: self.plan.space[name].stored(value) for name, value in point.items()}
            with quiet():
                self.study.enqueue_trial({}, user_attrs={POINT: stored})
        return len(points)

    def _costs(self, done: list[FrozenTrial]) -> dict[Key, float]:
        """Scores by point, smaller is better; infinite without one."""
        sign = -1.0 if self.plan.higher_is_better else 1.0
        found: dict[Key, float] = {}
        for one in done:
            cost = sign * one.value if one.state is TrialState.COMPLETE and one.value is not None else math.inf
            found.setdefault(key(self._values(one)), cost)
        return found

    def _wait(self) -> None:
        """Others are at work; what a killed one left is put up again."""
        time.sleep(WAIT_SECONDS)
        with quiet():
            fail_stale_trials(self.study)

    def _try(self, trial: Trial, judge: Judge) -> float:
        parameters = self._suggested(trial)
        before = [one for one in self.study.get_trials(deepcopy=False) if one.number < trial.number]
        point = trial.user_attrs.get(POINT)
        put_up_twice = point is not None and any(one.user_attrs.get(POINT) == point for one in _known(before))
        without_a_point = point is None and self.plan.strategy in ROUNDS
        if len(_counted(before)) >= self.total or put_up_twice or without_a_point:
            trial.set_user_attr("surplus", True)  # two processes put up the same round, or wanted its last point
            raise optuna.TrialPruned
        twin = next((one for one in _counted(before) if _is_twin(one, trial)), None)
        if twin is not None:
            return _as(twin, trial)

        def report(step: int, value: float) -> None:
            trial.report(value, step)
            if trial.should_prune():
                raise optuna.TrialPruned

        try:
            value = judge(parameters, report)
            if not math.isfinite(value):
                raise UserValueError(f"the score is {value}", "search")
            return value
        except OverLimit as over:
            trial.set_user_attr("reason", str(over))
            trial.set_user_attr("over", True)
            trial.set_constraint(over.name, over.excess)
            raise optuna.TrialPruned from None
        except UserError as error:
            trial.set_user_attr("reason", " ".join(str(error).split()))
            raise
        except KeyboardInterrupt:
            RetryHeartbeatStaleTrialCallback(max_retry=None)(self.study, self.study.get_trials()[trial.number])
            raise

    def _suggested(self, trial: Trial) -> dict[str, Any]:
        """The values of a trial; one that was put into the store has its own, which may lie outside the ranges."""
        point = trial.user_attrs.get(POINT)
        if point is not None:
            return {name: self.plan.space[name].only(one).suggest(trial, name) for name, one in point.items()}
        found: dict[str, Any] = {}
        for name, one in self.space.items():
            if not isinstance(one, Conditional) or one.applies(found):
                found[name] = one.suggest(trial, name)
        return found

    def _counted(self) -> list[FrozenTrial]:
        return _counted(self.study.get_trials(deepcopy=False))

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

    def _values(self, trial: FrozenTrial) -> dict[str, Any]:
        return {name: self.plan.space[name].read(stored) for name, stored in trial.params.items()}

    def _tried(self, trial: FrozenTrial) -> Tried:
        state = "over a limit" if "over" in trial.user_attrs else STATES[trial.state]
        took = trial.duration.total_seconds() if trial.duration is not None else 0.0
        return Tried(
            trial.number, self._values(trial), state, trial.value if trial.state is TrialState.COMPLETE else None,
            round(took, 3), trial.user_attrs.get("reason", ""),
        )  # fmt: skip


def _known(trials: list[FrozenTrial]) -> list[FrozenTrial]:
    """Trials that are no surplus; what a dead process left is carried out under another number."""
    return [
        one for one in trials
        if "surplus" not in one.user_attrs and (one.state is not TrialState.FAIL or "reason" in one.user_attrs)
    ]  # fmt: skip


def _counted(trials: list[FrozenTrial]) -> list[FrozenTrial]:
    """Those of them that have begun."""
    return [one for one in _known(trials) if one.state is not TrialState.WAITING]


def _is_twin(one: FrozenTrial, trial: Trial) -> bool:
    """Whether a trial was carried out for its own sake, with the same hyper-parameters."""
    return one.params == trial.params and "same_as" not in one.user_attrs


def _as(twin: FrozenTrial, trial: Trial) -> float:
    """The outcome of an earlier trial with the same hyper-parameters, by whichever process."""
    trial.set_user_attr("same_as", twin.number)
    for name in ("reason", "over"):
        if name in twin.user_attrs:
            trial.set_user_attr(name, twin.user_attrs[name])
    for name, excess in twin.constraints.items():
        trial.set_constraint(name, excess)
    if twin.state is TrialState.COMPLETE and twin.value is not None:
        return twin.value
    raise optuna.TrialPruned


def _difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """In what two plans differ."""
    return ", ".join(name for name in other if one.get(name) != other[name]) or "kind"
