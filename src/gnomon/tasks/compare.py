"""Several systems on the same data: one leaderboard per task and data space, with the task's baseline."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gnomon.catalog import entry, make
from gnomon.data.dataset import Dataset, split
from gnomon.data.loading import load
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.evaluation.score import Score
from gnomon.runs.folder import RunFolder, free_path
from gnomon.system.base import System
from gnomon.tasks.baselines import baseline
from gnomon.tasks.boards import Leaderboard, Line
from gnomon.tasks.clusters import cluster_scores
from gnomon.tasks.fitting import NAMED, form, prepare, refuse_by_row, with_target
from gnomon.tasks.represent import Principal, Probe

__all__ = ["PRIMARY", "compare"]

PRIMARY = {
    "density": "log_likelihood",
    "cluster": "adjusted_rand",
    "classify": "accuracy",
    "regress": "squared_error",
    "language": "log_likelihood",
    "represent": "probe_accuracy",
}
"""The score that a task's leaderboard is sorted by."""


def compare(
    systems: Sequence[str | System],
    data: str | Path | Dataset,
    *,
    task: str | None = None,
    holdout: float = 0.2,
    target: str | int | None = None,
    columns: Sequence[str] | None = None,
    out: str | Path | None = None,
) -> list[Leaderboard]:
    """Fit systems on the same training rows and score them on the same rows held out.

    Parameters
    ----------
    systems : sequence of names or Systems
        A name stands for the system with its default parameters and seed 0.
    data : name, file or Dataset
    task : {"density", "cluster", "represent", "classify", "regress", "language"}, optional
        What the systems are compared at; each one's first task where left out.
    holdout : float in (0, 1), default 0.2
        Share of the rows (sentences) that no system sees until the end.
    target, columns
        As in `gnomon.data.load`.
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
        raise UserValueError(f"{holdout} is not allowed", "holdout", "choose a value in (0, 1)")
    if isinstance(systems, str) or not all(isinstance(system, str | System) for system in systems):
        raise UserTypeError("systems is no list of names or Systems", "systems", 'give a list: ["ppca", RBM()]')
    if not systems:
        raise UserValueError("no system to compare", "systems", "name at least one")
    whole = data if isinstance(data, Dataset) else load(data, target=target, columns=columns)
    made = [make(given, random_state=0) if isinstance(given, str) else given for given in systems]
    goals = [_task(system, task) for system in made]
    halves: dict[bool, tuple[Dataset, Dataset]] = {}
    recipe = None
    if not isinstance(data, Dataset):
        recipe = {"source": NAMED, "name": _absolute(data), "target": target, "columns": columns, "holdout": holdout}
    boards: dict[tuple[str, str], _Board] = {}
    for system, goal in zip(made, goals, strict=True):
        kind = form(system)
        # the labels of images and of tables are predicted on the same rows, hence on one board
        place = (goal, "labels" if kind == "images" else kind)
        numeric = place[1] == "target"
        if numeric not in halves:
            halves[numeric] = split(with_target(whole, system), test=holdout, seed=0)
        if goal == "classify":
            refuse_by_row(system, whole, remedy="correct it, drop the row, or choose systems that predict numbers")
        train, test = halves[numeric]
        if place not in boards:
            boards[place] = _Board(*place, system, whole.name, train, test)
        boards[place].add(system, recipe, None if out is None else Path(out))
    return [board.finish() for board in boards.values()]


def _absolute(data: str | Path) -> str:
    return str(Path(data).resolve()) if Path(data).exists() else str(data)


def _task(system: System, task: str | None) -> str:
    tasks = entry(system.name).tasks
    if task is None:
        return tasks[0]
    if task not in tasks:
        raise UserValueError(f"{system.name} cannot {task}", "task", f"it can {', '.join(tasks)}")
    return task


class _Board:
    """Collects the lines of one leaderboard; the baseline comes first, so that every system is judged against it."""

    def __init__(self, task: str, kind: str, system: System, data: str, train: Dataset, test: Dataset) -> None:
        self.task = task
        self.parts = train, test
        self.train, self.test = (prepare(system, part) for part in self.parts)
        self.labels = test.view("labels") if task == "cluster" else None
        self.probe = Probe(train, test) if task == "represent" else None
        title, model = baseline(task, kind)
        begun = time.perf_counter()
        model.fit(*self.train)
        seconds = time.perf_counter() - begun
        scores = self._scores(model)
        self.base = scores[PRIMARY[task]]
        self.board = Leaderboard(task, data, self.base.data_space, PRIMARY[task])
        self._append(title, scores, seconds, model, "baseline", None)

    def add(self, system: System, recipe: dict[str, Any] | None, out: Path | None) -> None:
        """Fit and score a system."""
        run, fresh = None, out is not None and not out.exists()
        self.train, self.test = (prepare(system, part) for part in self.parts)
        if out is not None:
            config = system._config("fit") | {
                "seed": _seed(system),
                "data": recipe or {"source": "arrays"},
                "devices": 1,
            }
            run = RunFolder.create(free_path(out / system.name), config)
        begun = time.perf_counter()
        try:
            system.fit(*self.train, run=run)
        except UserError:
            if run is not None and not run.begun:
                run.discard()  # refused before the first step
                if fresh:
                    run.path.parent.rmdir()
            raise
        seconds = time.perf_counter() - begun
        scores = self._scores(system)
        verdict = scores[PRIMARY[self.task]].against(self.base)
        self._append(system.name, scores, seconds, system.model_, verdict, None if run is None else str(run.path))

    def _scores(self, model: Any) -> dict[str, Score]:
        if self.probe is not None:
            return self.probe.scores(model, self.train[0], self.test[0])
        if self.task == "cluster":
            return cluster_scores(self.labels, model.predict(self.test[0]))
        return dict(model.evaluate(*self.test))

    def _append(
        self, name: str, scores: dict[str, Score], seconds: float, model: Any, verdict: str, run: str | None
    ) -> None:
        primary = scores.pop(PRIMARY[self.task])
        count = getattr(getattr(model, "model_", model), "n_parameters", 0)
        self.board.lines.append(Line(name, primary, scores, seconds, int(count), verdict, run))

    def finish(self) -> Leaderboard:
        """The board, best first; representations stand beside principal components of the widest one's width too."""
        if self.probe is not None:
            begun = time.perf_counter()
            second = Principal(self.probe.width).fit(self.train[0])
            seconds, scores = time.perf_counter() - begun, self._scores(second)
            verdict = scores[PRIMARY[self.task]].against(self.base)
            self._append(second.title, scores, seconds, second, verdict, None)
        sign = -1 if self.base.higher_is_better else 1
        self.board.lines.sort(key=lambda line: sign * line.score.value)
        return self.board


def _seed(system: System) -> int:
    from gnomon.numeric.noise import seed_of

    return seed_of(system.random_state)
