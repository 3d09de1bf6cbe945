"""Several systems on the same data: one leaderboard per task and data space, with the task's baseline."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gnomon.catalog import make
from gnomon.data.dataset import Dataset
from gnomon.data.preparation import Preparation
from gnomon.data.prepared import Prepared
from gnomon.data.splitting import by_column
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.evaluation.score import Score
from gnomon.numeric.noise import seed_of
from gnomon.runs.config import ARRAYS, FIT, USUAL, DataSpec
from gnomon.runs.folder import RunFolder, free_path
from gnomon.system.base import System
from gnomon.tasks.base import Task
from gnomon.tasks.base import task as find_task
from gnomon.tasks.boards import Leaderboard, Line
from gnomon.tasks.fitting import kept, read_apart, spec_of, task_of, tell
from gnomon.tasks.preparing import prepare as learn
from gnomon.tasks.preparing import prepared_whole, refuse_numbers_as_classes
from gnomon.training.context import current as current_context

__all__ = ["compare"]


def compare(
    systems: Sequence[str | System],
    data: str | Path | Dataset,
    *,
    task: str | None = None,
    holdout: float = 0.2,
    split: str | None = None,
    split_seed: int = 0,
    target: str | int | None = None,
    columns: Sequence[str] | None = None,
    prepare: Preparation | None = None,
    out: str | Path | None = None,
) -> list[Leaderboard]:
    """Fit systems on the same training rows and score them on the same rows held out.

    Parameters
    ----------
    systems : sequence of names or Systems
        A name stands for the system with its default parameters and seed 0.
    data : name, file or Dataset
    task : str, optional
        What the systems are compared at, ``density`` say; each one's first task where left out.
    holdout : float in (0, 1), default 0.2
        Fraction of the rows (sentences) that no system sees until the end.
    split : str, optional
        How rows are held out: "random", "stratified" (of each class its proportion; what is done where there are
        classes and nothing is asked for), "group=COLUMN", "time=COLUMN" (the latest); ratings by "random", "user" and
        "time" (of each user one row, of "time:3" three).
    split_seed : int, default 0
    target, columns
        As in `gnomon.data.load`.
    prepare : Preparation, optional
        How the columns of a table become numbers, learned from the training rows; as in `gnomon.fit`.
    out : path, optional
        A new folder for the runs, one sub-folder per system.

    Returns
    -------
    list of Leaderboard
        One per task and data space, each with its baseline; a density and a probability mass never share one.

    Raises
    ------
    UserError
        Systems that cannot do the task, data that cannot be used.

    Examples
    --------
    >>> import gnomon
    >>> board = gnomon.compare([gnomon.SoftmaxRegression(epochs=50, random_state=0)], "wine")[0]
    >>> board.lines[0].name, board.lines[0].against_baseline
    ('softmax-regression', 'better')
    """
    if not 0 < holdout < 1:
        raise UserValueError(f"holdout must be in (0, 1), got {holdout}", "holdout")
    if isinstance(systems, str) or not all(isinstance(system, str | System) for system in systems):
        raise UserTypeError("systems must be a list of names or Systems", "systems", 'give a list: ["ppca", RBM()]')
    if not systems:
        raise UserValueError("no system to compare", "systems", "name at least one")
    made = [make(given, random_state=0) if isinstance(given, str) else given for given in systems]
    recipe, first = Preparation() if prepare is None else prepare, task_of(made[0])
    if isinstance(data, Dataset):
        whole = data if split is None or "=" not in split else by_column(data, split)
    else:
        whole = read_apart(first, data, split, target=target, columns=columns, kinds=recipe.kinds)
    goals = [_goal(system, task).suited(whole) for system in made]
    for system in made:
        refuse_numbers_as_classes(whole, system)
    spec = DataSpec(ARRAYS)
    if not isinstance(data, Dataset):
        spec = spec_of(
            data, whole, target=target, columns=columns, holdout=holdout, split=split or USUAL, split_seed=split_seed,
            prepare=recipe,
        )  # fmt: skip
    room = _Room(whole, holdout, split, split_seed, spec, recipe, None if out is None else Path(out))
    boards: dict[tuple[str, str], _Board] = {}
    for system, goal in zip(made, goals, strict=True):
        place = (goal.name, task_of(system).board(system) + room.space(goal, system))
        if place not in boards:
            boards[place] = _Board(goal, system, room)
        boards[place].add(system)
    for board in boards.values():
        board.board.preparations = {_name(one): _lines(room.preparation(one)) for one in board.systems}
    return [board.finish() for board in boards.values()]


def _lines(found: Prepared | None) -> list[str]:
    """What was done to the columns."""
    return [] if found is None else found.lines()


def _goal(system: System, name: str | None) -> Task:
    """What the system is compared at."""
    first = task_of(system)
    if name is None:
        return first
    if name not in system.tasks:
        raise UserValueError(f"{_name(system)} cannot {name}", "task", f"it can {', '.join(system.tasks)}")
    return find_task(name)


def _name(system: System) -> str:
    return system.name or type(system).__name__


@dataclass
class _Part:
    """Rows in the form that systems of one view take, with what scores compare with."""

    data: Dataset
    X: Any
    y: Any


class _Room:
    """What all boards share: the data, split once for each task and prepared once for each view."""

    def __init__(
        self, whole: Dataset, holdout: float, how: str | None, seed: int, spec: DataSpec, recipe: Preparation,
        out: Path | None,
    ) -> None:  # fmt: skip
        self.whole, self.holdout, self.how, self.seed, self.spec, self.out = whole, holdout, how, seed, spec, out
        self.recipe = recipe
        self.told: list[str] = []
        """What was said of the columns."""
        self._prepared: dict[tuple[Any, ...], Prepared | None] = {}
        self._halves: dict[str, tuple[Dataset, Dataset]] = {}
        self._parts: dict[tuple[Any, ...], tuple[_Part, _Part]] = {}
        self._checked: set[tuple[str, str]] = set()

    def check(self, system: System) -> None:
        """Check all rows for a system, once for each domain."""
        first = task_of(system)
        key = (first.name, repr(system.domain))
        if key not in self._checked:
            first.check(prepared_whole(self.recipe, self.whole, system), system)
            self._checked.add(key)

    def spec_for(self, system: System) -> DataSpec:
        """What a run of the system keeps of its data, the way in which rows were held out included."""
        goal = task_of(system)
        return replace(self.spec, split=self.how or goal.usual_split(goal.adopt(self.whole)))

    def parts(self, system: System) -> tuple[_Part, _Part]:
        """Training and held-out rows for a system."""
        first, found = task_of(system), self.preparation(system)
        key = (first.name, first.view(system.outcomes), *_needs(system))
        if key not in self._parts:
            halves = self.halves(first) if found is None else tuple(found.apply(half) for half in self.halves(first))
            train, test = (_Part(half, *first.examples(half, system)) for half in halves)
            self._parts[key] = train, test
        return self._parts[key]

    def halves(self, first: Task) -> tuple[Dataset, Dataset]:
        """Training and held-out rows as they were read."""
        if first.name not in self._halves:
            adopted = first.adopt(self.whole)
            self._halves[first.name] = first.split(adopted, test=self.holdout, seed=self.seed, how=self.how)
        return self._halves[first.name]

    def preparation(self, system: System) -> Prepared | None:
        """What makes of the columns what a system takes, learned from the training rows once for all alike."""
        first = task_of(system)
        key = (first.name, first.view(system.outcomes), system.scale_dependent, system.scales_target, *_needs(system))
        if key not in self._prepared:
            self._prepared[key] = found = learn(self.recipe, self.halves(first)[0], system)
            if found is not None and current_context().verbose:
                tell(found, self.told, f"columns, for {_name(system)}:")
        return self._prepared[key]

    def space(self, goal: Task, system: System) -> str:
        """What tells prepared columns from others, where scores speak of the columns themselves."""
        found = None if goal.name in ("classify", "regress") else self.preparation(system)
        return "" if found is None or found.plain else f" {found.names_out}"


def _needs(system: System) -> tuple[Any, ...]:
    """What the prepared columns of a system depend on."""
    return bool(system.__sklearn_tags__().target_tags.required), getattr(system.domain, "allow_missing", False)


@contextmanager
def _blamed(goal: Task) -> Iterator[None]:
    """Say of an error that it is the baseline's, not that of a system."""
    who = f"baseline of the task {goal.name}"
    try:
        yield
    except UserError as error:
        raise type(error)(error.what, f"{who}, {error.where}" if error.where else who, error.remedy) from error
    except Exception as error:
        raise RuntimeError(f"the {who} failed, no system: {error}") from error


class _Board:
    """Collects the lines of one leaderboard; the baseline comes first, so that every system is judged against it."""

    def __init__(self, goal: Task, system: System, room: _Room) -> None:
        self.goal, self.room = goal, room
        self.systems: list[System] = []
        train = room.parts(system)[0]
        begun = time.perf_counter()
        with _blamed(goal):
            title, model = goal.baseline(system, train.X, train.y)
            seconds = time.perf_counter() - begun
            scores = self._scores(model, system)
        self.base = scores[goal.primary]
        self.board = Leaderboard(goal.name, room.whole.name, self.base.data_space, goal.primary)
        self._append(title, scores, seconds, model, "baseline", None)

    def add(self, system: System) -> None:
        """Fit and score a system."""
        self.room.check(system)
        train = self.room.parts(system)[0]
        begun = time.perf_counter()
        path = self._fit(system, train)
        seconds = time.perf_counter() - begun
        self.systems.append(system)
        scores = self._scores(system, system)
        verdict = scores[self.goal.primary].against(self.base)
        self._append(_name(system), scores, seconds, system.model_, verdict, path)

    def _fit(self, system: System, train: _Part) -> str | None:
        """Fit, into a run where these are kept; the folder of a refused fit is removed."""
        out = self.room.out
        options = kept(self.room.preparation(system))
        if out is None:
            system.fit(train.X, train.y, **options)
            return None
        fresh = not os.path.exists(out)  # unlike Path.exists, false for a name that no file system takes
        spec = self.room.spec_for(system)
        config = system._config(FIT, seed_of(system.random_state), data=spec, devices=1)
        run = RunFolder.create(free_path(out / _name(system)), config)
        try:
            system.fit(train.X, train.y, run=run, **options)
        except UserError:
            if not run.begun:
                run.discard()  # refused before the first step
                if fresh:
                    run.path.parent.rmdir()
            raise
        return str(run.path)

    def _scores(self, model: Any, system: System) -> dict[str, Score]:
        """Scores of a fitted model on the rows that the system takes."""
        train, test = self.room.parts(system)
        known = (train.X, self.goal.answers(train.data, train.y))
        return self.goal.scores(model, test.X, self.goal.answers(test.data, test.y), known)

    def _append(
        self, name: str, scores: dict[str, Score], seconds: float, model: Any, verdict: str, run: str | None
    ) -> None:
        primary = scores.pop(self.goal.primary)
        count = getattr(getattr(model, "model_", model), "n_parameters", 0)
        self.board.lines.append(Line(name, primary, scores, seconds, int(count), verdict, run))

    def finish(self) -> Leaderboard:
        """The board, best first, with the baselines that depend on the systems."""
        first = self.systems[0]
        train = self.room.parts(first)[0]
        begun = time.perf_counter()
        with _blamed(self.goal):
            rivals = [(t, m, self._scores(m, first)) for t, m in self.goal.rivals(self.systems, train.X, train.y)]
        for title, model, scores in rivals:
            seconds = time.perf_counter() - begun
            self._append(title, scores, seconds, model, scores[self.goal.primary].against(self.base), None)
        sign = -1 if self.base.higher_is_better else 1
        self.board.lines.sort(key=lambda line: sign * line.score.value)
        return self.board
