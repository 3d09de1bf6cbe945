"""One leaderboard in the making: the baseline, then system after system, then the baselines that depend on them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gnomon.data.prepared import Prepared
from gnomon.errors import UserError, UserValueError
from gnomon.evaluation.score import Score
from gnomon.system.base import System
from gnomon.tasks.base import Task
from gnomon.tasks.boards import Failure, Leaderboard, Line
from gnomon.tasks.fits import Fits
from gnomon.tasks.fitting import task_of
from gnomon.tasks.instead import others_named
from gnomon.tasks.merging import averaged, joined, spread
from gnomon.tasks.settings import draws, name_of, parameters_of, settings_of, title_of

__all__ = ["Contest"]


class Contest:
    """Collects the lines of one leaderboard; the baseline comes first, so that every system is judged against it.

    Parameters
    ----------
    goal : Task
    system : System
        One of those to come.
    fits : Fits
    metric : str or None
        What the board is ranked by; None for the task's own.
    """

    def __init__(self, goal: Task, system: System, fits: Fits, metric: str | None) -> None:
        self.goal, self.first, self.fits, self.room = goal, task_of(system), fits, fits.room
        self.prototype = system
        self.systems: list[System] = []
        self.fitted: list[list[System]] = [[] for _ in self.room.folds]
        """Of each fold the fitted systems, with their first seeds."""
        self.room.check(system)
        for fold in self.room.folds:
            self.room.parts(system, fold)  # what cannot be split is no fault of the baseline
        begun = time.perf_counter()
        with _blamed(goal):
            made = [self._baseline(system, fold) for fold in self.room.folds]
        self.metric = self.room.metric(goal, made[0][1], system, metric)
        with _blamed(goal):
            found = [self._scores(model, system, fold) for fold, (_, model) in enumerate(made)]
        scores = self._joined(found)
        self.base = scores[self.metric]
        self.board = Leaderboard(goal.name, self.room.whole.name, self.base.data_space, self.metric)
        self.board.held_out = self._held_out(system)
        seconds = time.perf_counter() - begun
        self._append(Line(made[0][0], self.base, scores, seconds, parameters_of(made[0][1]), "baseline"))

    def _baseline(self, system: System, fold: int) -> tuple[str, Any]:
        train = self.room.parts(system, fold)[0]
        return self.goal.baseline(system, train.X, train.y)

    def _scores(self, model: Any, system: System, fold: int) -> dict[str, Score]:
        """Scores of a fitted model in the form that the system takes, the one that ranks among them."""
        return self.room.scores(self.goal, model, system, fold, self.metric)

    def _held_out(self, system: System) -> str:
        """How rows are held out, in words."""
        spec, how = self.room.spec, self.room.how(task_of(system))
        share = f"{spec.folds} folds" if spec.folds else f"{spec.holdout:g} held out"
        return f"{share}, {how}, seed {spec.split_seed}"

    def add(self, system: System) -> Exception | None:
        """Fit and score a system, with every seed and on every fold; the error of one that fails."""
        before = self.fits.done
        try:
            with others_named(system, self.room.whole):
                self._add(system)
        except Exception as error:
            self.board.failed.append(Failure(name_of(system), settings_of(system), reason_of(error)))
            self.fits.given_up(system, before)
            return error
        return None

    def _add(self, system: System) -> None:
        self.room.check(system)
        by_seed: list[dict[str, Score]] = []
        first: list[System] = []
        seconds, run, one = 0.0, None, system
        seeded = self.fits.of(system)
        for seed, chosen in enumerate(seeded):
            found = []
            for fold in self.room.folds:
                one, time_taken, path = self.fits.fitted(chosen, fold, seed if len(seeded) > 1 else None)
                found.append(self._scores(one, one, fold))
                seconds, run = seconds + time_taken, run or path
                if seed == 0:
                    first.append(one)
            by_seed.append(self._joined(found))
        self.room.tell(system)
        if self.metric not in by_seed[0]:
            raise UserValueError(f"{name_of(system)} has no {self.metric}", "metric", "leave it out")
        scores = {name: averaged([each[name] for each in by_seed]) for name in by_seed[0]}
        line = Line(
            name_of(system), scores[self.metric], scores, seconds, parameters_of(one.model_),
            scores[self.metric].against(self.base), run, settings_of(system), len(seeded),
        )  # fmt: skip
        line.spread = spread([each[self.metric] for each in by_seed]) if len(seeded) > 1 else None
        if not draws(system):
            line.spread = 0.0
        self.systems.append(system)
        for fold, fitted in zip(self.room.folds, first, strict=True):
            self.fitted[fold].append(fitted)
        self._append(line)

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
        begun = time.perf_counter()
        with _blamed(self.goal):
            rivals = [self._rivals(fold) for fold in self.room.folds]
        for i, (title, model, _) in enumerate(rivals[0]):
            scores = self._joined([of_fold[i][2] for of_fold in rivals])
            verdict = scores[self.metric].against(self.base)
            seconds = time.perf_counter() - begun
            self._append(Line(title, scores[self.metric], scores, seconds, parameters_of(model), verdict))
        return self.so_far()

    def so_far(self) -> Leaderboard:
        """The board of the systems that are finished, best first."""
        self.board.rank()
        found = {title_of(one): self.room.preparation(one, 0) for one in self.systems}
        self.board.preparations = {name: _lines(one) for name, one in found.items()}
        return self.board

    def _rivals(self, fold: int) -> list[tuple[str, Any, dict[str, Score]]]:
        train = self.room.parts(self.prototype, fold)[0]
        found = self.goal.rivals(self.fitted[fold], train.X, train.y) if self.systems else []
        return [(title, model, self._scores(model, self.prototype, fold)) for title, model in found]


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


def reason_of(error: Exception) -> str:
    """Why a system failed, in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"


def _lines(found: Prepared | None) -> list[str]:
    """What was done to the columns."""
    return [] if found is None else found.lines()
