"""Several systems on the same data: one leaderboard per task and data space, with the task's baseline."""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gnomon.catalog import make
from gnomon.data.dataset import Dataset
from gnomon.data.given import dataset_of, is_data
from gnomon.data.preparation import Preparation
from gnomon.data.splitting import by_column
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.runs.config import ARRAYS, USUAL, DataSpec
from gnomon.system.base import System
from gnomon.tasks.base import Task
from gnomon.tasks.base import task as find_task
from gnomon.tasks.boards import Leaderboard
from gnomon.tasks.contests import Contest
from gnomon.tasks.fits import Fits
from gnomon.tasks.fitting import file_as, read_apart, spec_of, task_of
from gnomon.tasks.instead import others_named
from gnomon.tasks.kept_runs import KeptRuns
from gnomon.tasks.preparing import recipe_of, refuse_unfit
from gnomon.tasks.rooms import Room
from gnomon.tasks.settings import name_of, title_of

__all__ = ["Stopped", "compare", "data_of", "goal_of"]


class Stopped(KeyboardInterrupt):
    """A comparison that was interrupted, with what is finished.

    Attributes
    ----------
    boards : list of Leaderboard
        Of the systems that are finished.
    left : list of str
        Names of those that are not.
    """

    def __init__(self, boards: list[Leaderboard], left: list[str]) -> None:
        super().__init__(f"interrupted; not finished: {', '.join(left)}")
        self.boards, self.left = boards, left

    @property
    def facts(self) -> dict[str, Any]:
        """The boards for programs."""
        return {"leaderboards": [board.to_json() for board in self.boards]}


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
        Systems that cannot do the task, data that cannot be used. A system that fails in its fit is among the `failed`
        of its board, with the reason, and does not end the others; if every one does, the first error is raised.
    Stopped
        After Ctrl-C: a KeyboardInterrupt that has the boards of what is finished.

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
    whole, spec = data_of(data, y, made[0], split, target=target, columns=columns, prepare=recipe)
    held: dict[str, Any] = {"split": split or USUAL, "split_seed": split_seed, "holdout": holdout}
    if folds is not None:
        held |= {"folds": folds, "holdout": 1 / folds}
    room = Room(whole, replace(spec, **held), recipe)
    goals = [goal_of(system, task).suited(whole) for system in made]
    for system in made:
        with others_named(system, whole):
            refuse_unfit(whole, system)
    fits = Fits(room, seeds, None if out is None else KeptRuns(Path(out)))
    fits.expect(made)
    contests: dict[tuple[str, str], Contest] = {}
    places = [
        (goal.name, task_of(one).board(one) + room.space(goal, one)) for one, goal in zip(made, goals, strict=True)
    ]
    for system, goal, place in zip(made, goals, places, strict=True):
        if place not in contests:
            with others_named(system, whole):
                contests[place] = Contest(goal, system, fits, metric)
    errors: list[Exception] = []
    done = 0
    try:
        for system, place in zip(made, places, strict=True):
            error = contests[place].add(system)
            errors += [] if error is None else [error]
            done += 1
    except KeyboardInterrupt:
        boards = [contest.so_far() for contest in contests.values() if contest.systems]
        raise Stopped(boards, [title_of(one) for one in made[done:]]) from None
    finally:  # after Ctrl-C too
        all_failed = len(errors) == len(made)
        _tell_of_faults(errors[all_failed:])  # the first one is raised
    if all_failed:
        raise errors[0]
    return [contest.finish() for contest in contests.values()]


def _tell_of_faults(errors: Sequence[Exception]) -> None:
    """Print the tracebacks of errors that are no mistakes of the user."""
    for error in errors:
        if not isinstance(error, UserError):
            traceback.print_exception(error)


def data_of(
    data: Any, y: Any, system: System, split: str | None, *, target: str | int | None, columns: Sequence[str] | None,
    prepare: Preparation,
) -> tuple[Dataset, DataSpec]:  # fmt: skip
    """The data set of a comparison or a search, with the column of the split set apart, and what runs keep of it."""
    goal = task_of(system)
    if isinstance(data, Dataset) or is_data(data):
        whole = data if isinstance(data, Dataset) else dataset_of(data, y, target=target, columns=columns)
        whole = by_column(whole, split) if split is not None and "=" in split else whole
        if "resize" in whole.source:  # images of a folder, which the runs can read again
            path = file_as(str(whole.source["path"]), whole.source.get("form"))
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


def goal_of(system: System, name: str | None) -> Task:
    """What the system is compared at."""
    first = task_of(system)
    if name is None:
        return first
    if name not in system.tasks:
        what = f"{name_of(system)} does not have the task {name}"
        raise UserValueError(what, "task", f"choose from {', '.join(system.tasks)}")
    return find_task(name)
