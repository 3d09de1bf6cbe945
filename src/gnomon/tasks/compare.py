"""Several systems on the same data: one leaderboard per task and data space, with the task's baseline."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from gnomon.catalog import make
from gnomon.data.dataset import Dataset
from gnomon.data.given import dataset_of, is_data
from gnomon.data.preparation import Preparation
from gnomon.data.prepared import Prepared
from gnomon.data.splitting import by_column
from gnomon.errors import Diverged, UserError, UserTypeError, UserValueError, nearest
from gnomon.evaluation.score import Score
from gnomon.numeric.noise import seed_of
from gnomon.runs.config import ARRAYS, FIT, USUAL, DataSpec
from gnomon.system.base import System
from gnomon.system.saving import load
from gnomon.tasks.base import Task
from gnomon.tasks.base import task as find_task
from gnomon.tasks.boards import Leaderboard, Line
from gnomon.tasks.fitting import kept, read_apart, spec_of, task_of
from gnomon.tasks.kept_runs import KeptRuns
from gnomon.tasks.merging import averaged, joined, spread
from gnomon.tasks.preparing import recipe_of, refuse_numbers_as_classes
from gnomon.tasks.rooms import Room
from gnomon.tasks.settings import draws, parameters_of, settings_of
from gnomon.training.progress import announced_as

__all__ = ["compare"]


def compare(
    systems: Sequence[str | System],
    data: Any,
    y: Any = None,
    *,
    task: str | None = None,
    holdout: float = 0.2,
    split: str | None = None,
    split_seed: int = 0,
    folds: int | None = None,
    seeds: int = 1,
    metric: str | None = None,
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
    data : name, file, Dataset, array, pandas or polars frame, or list of sentences
    y : array of shape (n,), optional
        Labels or a numeric target, where `data` is an array or a frame.
    task : str, optional
        What the systems are compared at, ``density`` say; each one's first task where left out.
    holdout : float in (0, 1), default 0.2
        Fraction of the rows (sentences) that no system sees until the end.
    split : str, optional
        How rows are held out: "random", "stratified" (of each class its proportion; what is done where there are
        classes and nothing is asked for), "group=COLUMN", "time=COLUMN" (the latest); ratings by "random", "user" and
        "time" (of each user one row, of "time:3" three).
    split_seed : int, default 0
    folds : int in [2, n], optional
        Cross-validation in place of one split: every row is held out once, and the score is over all of them.
    seeds : int in [1, inf), default 1
        Fits of each system, with the seeds 0, 1 ... in place of its own; the score is their mean, and their spread
        stands beside it. A fit that draws nothing is made once.
    metric : str, optional
        The score that the boards are ranked by; the task's own where left out.
    target, columns
        As in `gnomon.data.load`.
    prepare : Preparation, optional
        How the columns of a table become numbers, learned from the training rows; as in `gnomon.fit`.
    out : path, optional
        A folder for the runs, one sub-folder per fit. Runs of the same systems on the same rows that are there already
        are taken, or gone on with, in place of new fits.

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
    >>> board.lines[0].title, board.lines[0].against_baseline
    ('softmax-regression:epochs=50', 'better')
    """
    if not isinstance(holdout, int | float) or not 0 < holdout < 1:
        raise UserValueError(f"holdout must be in (0, 1), got {holdout}", "holdout")
    if isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 1:
        raise UserValueError(f"seeds must be a whole number of at least 1, got {seeds!r}", "seeds")
    if folds is not None and (isinstance(folds, bool) or not isinstance(folds, int) or folds < 2):
        raise UserValueError(f"folds must be a whole number of at least 2, got {folds!r}", "folds")
    if split is not None and not isinstance(split, str):
        raise UserTypeError.must("split", "be text, such as group=COLUMN", split)
    if out is not None and not isinstance(out, str | os.PathLike):
        raise UserTypeError.must("out", "be the path of a folder", out)
    if (
        isinstance(systems, str)
        or not isinstance(systems, Sequence)
        or not all(isinstance(system, str | System) for system in systems)
    ):
        raise UserTypeError("systems must be a list of names or Systems", "systems", 'give a list: ["ppca", RBM()]')
    if not systems:
        raise UserValueError("no system to compare", "systems", "name at least one")
    made = [make(given, random_state=0) if isinstance(given, str) else given for given in systems]
    recipe = recipe_of(prepare)
    whole, spec = _data(data, y, task_of(made[0]), split, target=target, columns=columns, prepare=recipe)
    held: dict[str, Any] = {"split": split or USUAL, "split_seed": split_seed, "holdout": holdout}
    if folds is not None:
        held |= {"folds": folds, "holdout": 1 / folds}
    room = Room(whole, replace(spec, **held), recipe)
    goals = [_goal(system, task).suited(whole) for system in made]
    for system in made:
        refuse_numbers_as_classes(whole, system)
    fits = _Fits(room, seeds, None if out is None else KeptRuns(Path(out)))
    boards: dict[tuple[str, str], _Board] = {}
    for system, goal in zip(made, goals, strict=True):
        place = (goal.name, task_of(system).board(system) + room.space(goal, system))
        if place not in boards:
            boards[place] = _Board(goal, system, fits, metric)
        boards[place].add(system)
    return [board.finish() for board in boards.values()]


def _data(
    data: Any, y: Any, goal: Task, split: str | None, *, target: str | int | None, columns: Sequence[str] | None,
    prepare: Preparation,
) -> tuple[Dataset, DataSpec]:  # fmt: skip
    """The data set, with the column of the split set apart, and what runs keep of it."""
    if isinstance(data, Dataset) or is_data(data):
        whole = data if isinstance(data, Dataset) else dataset_of(data, y, target=target, columns=columns)
        whole = by_column(whole, split) if split is not None and "=" in split else whole
        if "resize" in whole.source:  # images of a folder, which the runs can read again
            path = str(whole.source["path"])
            return whole, spec_of(path, whole, target=None, columns=None, holdout=0.0, prepare=prepare)
        return whole, DataSpec(ARRAYS, whole=whole.fingerprint)
    if not isinstance(data, str | os.PathLike):
        what = f"data must be a name, a file, an array or a data frame, got a {type(data).__name__}"
        remedy = "give data.toarray()" if hasattr(data, "toarray") else "give numpy.asarray(data)"
        raise UserTypeError(what, "data", remedy)
    if y is not None:
        raise UserTypeError(f"y must be left out where the data is a name or file, got {type(y).__name__}", "y")
    whole = read_apart(goal, data, split, target=target, columns=columns, kinds=prepare.kinds)
    return whole, spec_of(data, whole, target=target, columns=columns, holdout=0.0, prepare=prepare)


def _goal(system: System, name: str | None) -> Task:
    """What the system is compared at."""
    first = task_of(system)
    if name is None:
        return first
    if name not in system.tasks:
        what = f"{_name(system)} does not have the task {name}"
        raise UserValueError(what, "task", f"choose from {', '.join(system.tasks)}")
    return find_task(name)


def _name(system: System) -> str:
    return system.name or type(system).__name__


class _Fits:
    """Fits systems, once for each seed and fold, into runs where these are kept."""

    def __init__(self, room: Room, seeds: int, runs: KeptRuns | None) -> None:
        self.room, self.seeds, self.runs = room, seeds, runs

    def of(self, system: System) -> list[System]:
        """The system with each of its seeds, not fitted; the given one where it has one seed."""
        if self.seeds == 1 or not draws(system):
            return [system]
        return [clone(system).set_params(random_state=seed) for seed in range(self.seeds)]

    def fitted(self, one: System, fold: int, seed: int | None) -> tuple[System, float, str | None]:
        """A fitted system, the seconds of its fit and its run; the given system itself where there are no folds."""
        train = self.room.parts(one, fold)[0]
        system: System = clone(one) if self.room.spec.folds else one
        marks = ([f"seed{seed}"] if seed is not None else []) + ([f"fold{fold}"] if self.room.spec.folds else [])
        words = [mark.replace("seed", "seed ").replace("fold", "fold ") for mark in marks]
        with announced_as(", ".join([_title(system), *words])):
            return self._fit(system, train, fold, "-".join([_name(system), *marks]))

    def _fit(self, system: System, train: Any, fold: int, stem: str) -> tuple[System, float, str | None]:
        options, begun = kept(self.room.preparation(system, fold)), time.perf_counter()
        if self.runs is None:
            system.fit(train.X, train.y, **options)
            return system, time.perf_counter() - begun, None
        seeded = system.random_state is not None
        config = system._config(FIT, seed_of(system.random_state), data=self.room.spec_of(system, fold), devices=1)
        run = self.runs.open(stem, config, seeded=seeded)
        if run.finished:
            return load(run.path), float(run.config.get("seconds", 0.0)), str(run.path)
        try:
            system.fit(train.X, train.y, run=run, **options)
        except Diverged:
            raise
        except UserError:
            if not run.begun:
                self.runs.discard(run)  # refused before the first step
            raise
        seconds = time.perf_counter() - begun
        run.update(seconds=round(seconds, 3))
        return system, seconds, str(run.path)


def _title(system: System) -> str:
    settings = settings_of(system)
    return f"{_name(system)}:{settings}" if settings else _name(system)


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

    def __init__(self, goal: Task, system: System, fits: _Fits, metric: str | None) -> None:
        self.goal, self.first, self.fits, self.room = goal, task_of(system), fits, fits.room
        self.systems: list[System] = []
        self.fitted: list[list[System]] = [[] for _ in self.room.folds]
        """Of each fold the fitted systems, with their first seeds."""
        self.room.check(system)
        for fold in self.room.folds:
            self.room.parts(system, fold)  # what cannot be split is no fault of the baseline
        begun = time.perf_counter()
        with _blamed(goal):
            made = [self._baseline(system, fold) for fold in self.room.folds]
            scores = self._joined([self._scores(model, system, fold) for fold, (_, model) in enumerate(made)])
        self.metric = self._metric(metric, scores)
        self.base = scores[self.metric]
        self.board = Leaderboard(goal.name, self.room.whole.name, self.base.data_space, self.metric)
        self.board.held_out = self._held_out(system)
        seconds = time.perf_counter() - begun
        self._append(Line(made[0][0], self.base, scores, seconds, parameters_of(made[0][1]), "baseline"))

    def _baseline(self, system: System, fold: int) -> tuple[str, Any]:
        train = self.room.parts(system, fold)[0]
        return self.goal.baseline(system, train.X, train.y)

    def _metric(self, name: str | None, scores: dict[str, Score]) -> str:
        """The score that the board is ranked by."""
        if name is None or name in scores:
            return name or self.goal.primary
        close = nearest(name, list(scores))
        remedy = f"did you mean {close[0]}?" if close else f"choose from {', '.join(scores)}"
        raise UserValueError(f"unknown metric {name!r} of the task {self.goal.name}", "metric", remedy)

    def _held_out(self, system: System) -> str:
        """How rows are held out, in words."""
        spec, how = self.room.spec, self.room.how(task_of(system))
        share = f"{spec.folds} folds" if spec.folds else f"{spec.holdout:g} held out"
        return f"{share}, {how}, seed {spec.split_seed}"

    def add(self, system: System) -> None:
        """Fit and score a system, with every seed and on every fold."""
        self.room.check(system)
        self.systems.append(system)
        by_seed: list[dict[str, Score]] = []
        seconds, run, one = 0.0, None, system
        seeded = self.fits.of(system)
        for seed, chosen in enumerate(seeded):
            found = []
            for fold in self.room.folds:
                one, time_taken, path = self.fits.fitted(chosen, fold, seed if len(seeded) > 1 else None)
                found.append(self._scores(one, one, fold))
                seconds, run = seconds + time_taken, run or path
                if seed == 0:
                    self.fitted[fold].append(one)
            by_seed.append(self._joined(found))
        self.room.tell(system)
        if self.metric not in by_seed[0]:
            raise UserValueError(f"{_name(system)} has no {self.metric}", "metric", "leave it out")
        scores = {name: averaged([each[name] for each in by_seed]) for name in by_seed[0]}
        line = Line(
            _name(system), scores[self.metric], scores, seconds, parameters_of(one.model_),
            scores[self.metric].against(self.base), run, settings_of(system), len(seeded),
        )  # fmt: skip
        line.spread = spread([each[self.metric] for each in by_seed]) if len(seeded) > 1 else None
        if not draws(system):
            line.spread = 0.0
        self._append(line)

    def _scores(self, model: Any, system: System, fold: int) -> dict[str, Score]:
        """Scores of a fitted model on the rows that the system takes."""
        train, test = self.room.parts(system, fold)
        known = (train.X, self.goal.answers(train.data, train.y))
        return self.goal.scores(model, test.X, self.goal.answers(test.data, test.y), known)

    def _joined(self, found: list[dict[str, Score]]) -> dict[str, Score]:
        """Scores over the rows of all folds; those that every fold has."""
        rows = [np.asarray(self.room.halves(self.first, fold)[1].rows) for fold in self.room.folds]
        names = [name for name in found[0] if all(name in one for one in found)]
        return {name: joined([one[name] for one in found], rows) for name in names}

    def _append(self, line: Line) -> None:
        line.others = {name: score for name, score in line.others.items() if name != self.metric}
        self.board.lines.append(line)

    def finish(self) -> Leaderboard:
        """The board, best first, with the baselines that depend on the systems."""
        first = self.systems[0]
        begun = time.perf_counter()
        with _blamed(self.goal):
            rivals = [self._rivals(first, fold) for fold in self.room.folds]
        for i, (title, model, _) in enumerate(rivals[0]):
            scores = self._joined([of_fold[i][2] for of_fold in rivals])
            verdict = scores[self.metric].against(self.base)
            seconds = time.perf_counter() - begun
            self._append(Line(title, scores[self.metric], scores, seconds, parameters_of(model), verdict))
        self.board.rank()
        found = {_title(one): self.room.preparation(one, 0) for one in self.systems}
        self.board.preparations = {name: _lines(one) for name, one in found.items()}
        return self.board

    def _rivals(self, first: System, fold: int) -> list[tuple[str, Any, dict[str, Score]]]:
        train = self.room.parts(first, fold)[0]
        found = self.goal.rivals(self.fitted[fold], train.X, train.y)
        return [(title, model, self._scores(model, first, fold)) for title, model in found]


def _lines(found: Prepared | None) -> list[str]:
    """What was done to the columns."""
    return [] if found is None else found.lines()
