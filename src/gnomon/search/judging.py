"""Trials judged by validation rows, which are held out of the training rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from gnomon.data.dataset import Dataset
from gnomon.errors import unknown
from gnomon.evaluation.score import Score
from gnomon.runs.config import DataSpec
from gnomon.system.base import System
from gnomon.tasks.compare import goal_of
from gnomon.tasks.fitting import kept
from gnomon.tasks.merging import joined
from gnomon.tasks.preparing import prepare as learn
from gnomon.tasks.preparing import refuse_numbers_as_classes
from gnomon.tasks.rooms import Half, Room
from gnomon.training.context import context

__all__ = ["TrialJudge"]


class TrialJudge:
    """Scores hyper-parameters on validation rows, which are held out of the training rows."""

    def __init__(
        self, made: System, room: Room, task: str | None, metric: str | None, validation: float, folds: int | None
    ) -> None:
        self.made = made
        self.goal = goal_of(made, task).suited(room.whole)
        refuse_numbers_as_classes(room.whole, made)
        room.check(made)
        first = goal_of(made, None)
        train = room.halves(first, 0)[0]
        spec = room.spec
        inner: DataSpec = replace(spec, holdout=1 / folds, folds=folds) if folds else replace(spec, holdout=validation)
        self.room = Room(train, inner, room.recipe)
        share = f"{folds} folds" if folds else f"{validation:g} of the training rows"
        self.words = f"{share}, {self.room.how(first)}"
        with context(verbose=False):
            _, model = self.goal.baseline(made, *self._training(made, 0))
        scores = self.room.scores(self.goal, model, made, 0)
        self.metric = metric or self.goal.primary
        if self.metric not in scores:
            raise unknown("metric", self.metric, list(scores), f"the task {self.goal.name}")
        self.higher_is_better = scores[self.metric].higher_is_better

    def _training(self, system: System, fold: int) -> tuple[Any, Any]:
        train = self.room.parts(system, fold)[0]
        return train.X, train.y

    def halves(self, fold: int) -> tuple[Dataset, Dataset]:
        """Training and validation rows as they were read."""
        return self.room.halves(goal_of(self.made, None), fold)

    def both(self, system: System, fold: int, rows: Any = None) -> tuple[Score, Score]:
        """Scores of a fit on its own rows and on the validation rows.

        Parameters
        ----------
        system : System
            Not fitted.
        fold : int
        rows : int array, optional
            Places of the training rows that are taken; also the columns are prepared by these alone.
        """
        first = goal_of(self.made, None)
        train, test = self.halves(fold)
        part = train if rows is None else train.take(rows, "a subset")
        found = learn(self.room.recipe, part, system)
        ready = (part, test) if found is None else (found.apply(part), found.apply(test))
        own, held = (Half(one, *first.examples(one, system)) for one in ready)
        system.fit(own.X, own.y, **kept(found))
        known = (own.X, self.goal.answers(own.data, own.y))
        scores = [
            self.goal.scores(system, one.X, self.goal.answers(one.data, one.y), known)[self.metric]
            for one in (own, held)
        ]
        return scores[0], scores[1]

    def system(self, parameters: Mapping[str, Any]) -> System:
        """The system with other hyper-parameters, not fitted."""
        return clone(self.made).set_params(**{name.replace(".", "__"): value for name, value in parameters.items()})

    def __call__(self, parameters: dict[str, Any], report: Callable[[int, float], None]) -> float:
        found, rows, value = [], [], 0.0
        first = goal_of(self.made, None)
        for fold in self.room.folds:
            one = self.system(parameters)
            with context(verbose=False, callbacks=() if len(self.room.folds) > 1 else (self._watch(report),)):
                one.fit(*self._training(one, fold), **kept(self.room.preparation(one, fold)))
            found.append(self.room.scores(self.goal, one, one, fold)[self.metric])
            rows.append(np.asarray(self.room.halves(first, fold)[1].rows))
            value = joined(found, rows).value
            if fold + 1 < len(self.room.folds):
                report(fold, value)
        return value

    def _watch(self, report: Callable[[int, float], None]) -> Callable[[int, Mapping[str, Any]], None]:
        """Report the loss on validation rows of a fit that has some."""
        sign = -1.0 if self.higher_is_better else 1.0

        def watch(step: int, record: Mapping[str, Any]) -> None:
            losses = [value for name, value in record.items() if name.startswith("validation_")]
            if losses:
                report(step, sign * losses[0])

        return watch
