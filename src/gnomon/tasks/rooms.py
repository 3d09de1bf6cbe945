"""What the boards of a comparison share: the data, split once for each task, prepared once for each kind of system."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gnomon.data.dataset import Dataset
from gnomon.data.places import placed
from gnomon.data.preparation import Preparation
from gnomon.data.prepared import Prepared
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score
from gnomon.runs.config import DataSpec
from gnomon.system.base import System
from gnomon.tasks.base import Task
from gnomon.tasks.fitting import parts_of, task_of, tell
from gnomon.tasks.metrics import named
from gnomon.tasks.preparing import prepare as learn
from gnomon.tasks.preparing import prepared_whole
from gnomon.training.context import current as current_context

__all__ = ["Half", "Room", "scores_of", "taken"]


@dataclass
class Half:
    """Rows in the form that systems of one view take, with what scores compare with."""

    data: Dataset
    X: Any
    y: Any


def taken(halves: tuple[Dataset, Dataset], found: Prepared | None, system: System) -> tuple[Half, Half]:
    """Training and held-out rows as a system takes them, prepared where it asks for that."""
    ready = halves if found is None else (found.apply(halves[0]), found.apply(halves[1]))
    first = task_of(system)
    return Half(ready[0], *first.examples(ready[0], system)), Half(ready[1], *first.examples(ready[1], system))


def scores_of(goal: Task, model: Any, train: Half, test: Half, metric: str | None = None) -> dict[str, Score]:
    """Scores of a fitted model on `test`, with one of `Task.metrics` by name; `train` is what it was fitted to."""
    known = (train.X, goal.answers(train.data, train.y))
    y = goal.answers(test.data, test.y)
    found = goal.scores(model, test.X, y, known)
    if metric is None or metric in found:
        return found
    more = goal.metrics(model, test.X, y, found, test.data)
    return found | {name: score for name, score in more.items() if name == metric}


class Room:
    """Rows of one comparison, for every task, system and fold.

    Parameters
    ----------
    whole : Dataset
    spec : DataSpec
        How rows are held out, and what a run keeps of its data.
    recipe : Preparation
    """

    def __init__(self, whole: Dataset, spec: DataSpec, recipe: Preparation) -> None:
        self.whole, self.spec, self.recipe = whole, spec, recipe
        self.told: list[str] = []
        """What was said of the columns."""
        self._prepared: dict[tuple[Any, ...], Prepared | None] = {}
        self._halves: dict[tuple[str, int], tuple[Dataset, Dataset]] = {}
        self._parts: dict[tuple[Any, ...], tuple[Half, Half]] = {}
        self._checked: set[tuple[str, str]] = set()

    @property
    def folds(self) -> range:
        """Numbers of the folds; one where a part is held out once."""
        return range(max(1, self.spec.folds))

    def check(self, system: System) -> None:
        """Check all rows for a system, once for each domain."""
        first = task_of(system)
        key = (first.name, repr(system.domain))
        if key not in self._checked:
            ready = prepared_whole(self.recipe, self.whole, system)
            with placed(ready):
                first.check(ready, system)
            self._checked.add(key)

    def spec_of(self, system: System, fold: int) -> DataSpec:
        """What a run of the system keeps of its data, the way in which rows were held out included."""
        return replace(self.spec, split=self.how(task_of(system)), fold=fold)

    def how(self, goal: Task) -> str:
        """How rows are held out."""
        return self.spec.how or goal.usual_split(goal.adopt(self.whole))

    def parts(self, system: System, fold: int) -> tuple[Half, Half]:
        """Training and held-out rows for a system."""
        first, found = task_of(system), self.preparation(system, fold)
        key = (first.name, fold, first.view(system.outcomes), *_needs(system))
        if key not in self._parts:
            self._parts[key] = taken(self.halves(first, fold), found, system)
        return self._parts[key]

    def scores(self, goal: Task, model: Any, system: System, fold: int, metric: str | None = None) -> dict[str, Score]:
        """Scores of a fitted model on the held-out rows in the form that the system takes; `metric` among them."""
        return scores_of(goal, model, *self.parts(system, fold), metric)

    def metric(self, goal: Task, model: Any, system: System, name: str | None) -> str:
        """The score that systems are ranked by: the task's own, or one that ``gnomon evaluate`` prints, by its name.

        Parameters
        ----------
        goal : Task
        model : baseline
            Fitted to the first fold.
        system : System
            One of those that are ranked.
        name : str or None

        Raises
        ------
        UserValueError
            A score that the task does not have, with the nearest that it has.
        """
        if name is None:
            return goal.primary
        known = self.scores(goal, model, system, 0)
        if name not in known:
            test = self.parts(system, 0)[1]
            known |= goal.metrics(model, test.X, goal.answers(test.data, test.y), known, test.data)
        found = named(name, list(known), f"the task {goal.name}")
        if found.startswith("coverage_"):  # neither more nor less is better: the note says what would be right
            what = f"metric must have a direction that is better, got {found!r}"
            raise UserValueError(what, "metric", "rank by log_likelihood, which stated deviations enter")
        return found

    def halves(self, first: Task, fold: int) -> tuple[Dataset, Dataset]:
        """Training and held-out rows as they were read."""
        if (first.name, fold) not in self._halves:
            halves = parts_of(first, self.spec, first.adopt(self.whole))
            self._halves |= {(first.name, i): half for i, half in enumerate(halves)}
        return self._halves[first.name, fold]

    def preparation(self, system: System, fold: int) -> Prepared | None:
        """What makes of the columns what a system takes, learned from the training rows once for all alike."""
        first = task_of(system)
        kind = (first.view(system.outcomes), system.scale_dependent, system.scales_target, *_needs(system))
        key = (first.name, fold, *kind)
        if key not in self._prepared:
            self._prepared[key] = learn(self.recipe, self.halves(first, fold)[0], system)
        return self._prepared[key]

    def tell(self, system: System) -> None:
        """Say what was done to the columns for a system that was fitted; a refusal has been one line by then."""
        found = self.preparation(system, 0)
        if found is not None and current_context().verbose:
            tell(found, self.told, f"columns, for {system.name or type(system).__name__}:")

    def space(self, goal: Task, system: System) -> str:
        """What tells prepared columns from others, where scores speak of the columns themselves."""
        found = None if goal.name in ("classify", "regress") else self.preparation(system, 0)
        return "" if found is None or found.plain else f" {found.names_out}"


def _needs(system: System) -> tuple[Any, ...]:
    """What the prepared columns of a system depend on."""
    predicts = bool(system.__sklearn_tags__().target_tags.required)
    return predicts, getattr(system.domain, "allow_missing", False), system.ordered_columns
