"""Trials judged by validation rows, which are held out of the training rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from gnomon.catalog import make
from gnomon.data.dataset import Dataset
from gnomon.data.preparation import Preparation
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.score import Score
from gnomon.runs.config import USUAL, DataSpec
from gnomon.search.limits import Meter, checked, verb_of
from gnomon.system.base import System
from gnomon.tasks.compare import data_of, goal_of
from gnomon.tasks.fitting import kept
from gnomon.tasks.instead import others_named
from gnomon.tasks.merging import joined
from gnomon.tasks.preparing import prepare as learn
from gnomon.tasks.preparing import recipe_of, refuse_unfit
from gnomon.tasks.rooms import Room, scores_of, taken
from gnomon.training.context import context

__all__ = ["TrialJudge", "judge_of", "made_of"]


def made_of(system: str | System) -> System:
    """A copy of the system with a seed; one of a name with its defaults."""
    if not isinstance(system, str | System):
        raise UserTypeError.must("system", "be a name or a System", system, "search")
    made: System = make(system) if isinstance(system, str) else clone(system)
    return made.set_params(random_state=0) if made.random_state is None else made


def judge_of(
    made: System, data: Any, y: Any = None, *, task: str | None = None, metric: str | None = None,
    validation: float = 0.25, folds: int | None = None, holdout: float = 0.2, split: str | None = None,
    split_seed: int = 0, target: str | int | None = None, columns: Sequence[str] | None = None,
    prepare: Preparation | None = None, limits: Mapping[str, float] | None = None,
) -> TrialJudge:  # fmt: skip
    """The judge of fits to the training rows of data; the rows held out are read and left alone.

    Raises
    ------
    UserError
        Data or options that cannot be used.
    """
    for name, value in (("validation", validation), ("holdout", holdout)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
            raise UserValueError(f"{name} must be in (0, 1), got {value!r}", name)
    if folds is not None and (isinstance(folds, bool) or not isinstance(folds, int) or folds < 2):
        raise UserValueError(f"folds must be a whole number of at least 2, got {folds!r}", "folds")
    recipe = recipe_of(prepare)
    whole, spec = data_of(data, y, made, split, target=target, columns=columns, prepare=recipe)
    held = replace(spec, split=split or USUAL, split_seed=split_seed, holdout=holdout)
    return TrialJudge(made, Room(whole, held, recipe), task, metric, validation, folds, checked(limits))


class TrialJudge:
    """Scores hyper-parameters on validation rows, which are held out of the training rows."""

    def __init__(
        self, made: System, room: Room, task: str | None, metric: str | None, validation: float, folds: int | None,
        limits: Mapping[str, float],
    ) -> None:  # fmt: skip
        self.made, self.limits = made, limits
        self.goal = goal_of(made, task).suited(room.whole)
        self.verb = verb_of(self.goal.verbs) if "predict_milliseconds" in limits else ""
        with others_named(made, room.whole):
            refuse_unfit(room.whole, made)
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
        self.metric = self.room.metric(self.goal, model, made, metric)
        self.higher_is_better = self._score(model, made, 0).higher_is_better
        self.facts = {
            "system": repr(made), "data": room.whole.fingerprint, "judged by": f"{self.metric}, {self.words}",
            "rows held out": f"{spec.holdout:g}, {spec.split}, seed {spec.split_seed}", "limits": dict(limits),
        }  # fmt: skip
        """What searches that join one store have in common."""

    def _training(self, system: System, fold: int) -> tuple[Any, Any]:
        train = self.room.parts(system, fold)[0]
        return train.X, train.y

    def _score(self, model: Any, system: System, fold: int) -> Score:
        """The score of a fitted model that trials are judged by."""
        return self._of(self.room.scores(self.goal, model, system, fold, self.metric))

    def _of(self, found: Mapping[str, Score]) -> Score:
        """The one that trials are judged by."""
        if self.metric not in found:
            raise UserValueError(f"{self.made.name} has no {self.metric}", "metric", "leave it out")
        return found[self.metric]

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
            Places of the training rows that are taken; the columns are prepared by these alone, too.
        """
        train, test = self.halves(fold)
        part = train if rows is None else train.take(rows, "a subset")
        found = learn(self.room.recipe, part, system)
        own, held = taken((part, test), found, system)
        system.fit(own.X, own.y, **kept(found))
        first, last = (self._of(scores_of(self.goal, system, own, one, self.metric)) for one in (own, held))
        return _placed(first, part), last

    def rows(self, fold: int) -> Any:
        """Numbers of the validation rows of a fold among the training rows."""
        return np.asarray(self.halves(fold)[1].rows)

    def system(self, parameters: Mapping[str, Any]) -> System:
        """The system with other hyper-parameters, not fitted."""
        return clone(self.made).set_params(**{name.replace(".", "__"): value for name, value in parameters.items()})

    def __call__(self, parameters: dict[str, Any], report: Callable[[int, float], None]) -> float:
        found, rows, value = [], [], 0.0
        for fold in self.room.folds:
            one = self.system(parameters)
            examples, preparation = self._training(one, fold), kept(self.room.preparation(one, fold))
            meter = Meter(self.limits)
            losses = () if len(self.room.folds) > 1 else (self._watch(report),)
            with context(verbose=False, callbacks=(meter.watch, *losses)):
                one.fit(*examples, **preparation)
                self._hold(meter, one, fold)
            found.append(self._score(one, one, fold))
            rows.append(self.rows(fold))
            value = joined(found, rows).value
            if fold + 1 < len(self.room.folds):
                report(fold, value)
        return value

    def _hold(self, meter: Meter, one: System, fold: int) -> None:
        """Hold a fitted system to the limits."""
        held = self.room.parts(one, fold)[1]
        meter.fitted(one, lambda: getattr(one, self.verb)(held.X), len(held.data))

    def _watch(self, report: Callable[[int, float], None]) -> Callable[[int, Mapping[str, Any]], None]:
        """Report the loss on validation rows of a fit that has some."""
        sign = -1.0 if self.higher_is_better else 1.0

        def watch(step: int, record: Mapping[str, Any]) -> None:
            losses = [value for name, value in record.items() if name.startswith("validation_")]
            if losses:
                report(step, sign * losses[0])

        return watch


def _placed(score: Score, data: Dataset) -> Score:
    """The score with the numbers of its rows, so that scores of other rows are not taken for scores of the same."""
    known = data.rows is not None and score.pointwise is not None and score.n == len(data)
    return replace(score, rows=np.asarray(data.rows)) if known else score
