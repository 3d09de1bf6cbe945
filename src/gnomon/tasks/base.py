"""What a system is used for: one class per task, one file per class, found by name.

A task says how a data set becomes X and y, what is checked before a fit, how rows are held out, what the simplest
answer is, how answers are scored and shown. A System names its tasks (``System.tasks``); the first is the one that it
is fitted for. To add a task, write ``gnomon/tasks/<name>.py`` (or, in a package of your own, any module, named in the
entry-point group ``gnomon.tasks``) with a subclass of `Task`:

1. ``name``, ``title``, ``title_zh``; ``primary``, the score that systems are ranked by; ``verbs``, what a system of
   this task can be asked; ``example_data``, a built-in set that it makes sense on.
2. `examples`: X and y as ``System.fit`` takes them. By default X is the view of the data set that the system's domain
   names, and there is no y.
3. `check`, where more can be wrong than a value outside the domain, and `obstacle`, the same in a few words.
4. `split` (and `splits`), where rows do not go their own ways: ratings by user, series by time; `read`, where files are
   no tables of numbers.
5. `baseline`: the title and the fitted simplest answer, an object with ``evaluate(X, y)`` (or whatever `scores` asks)
   and ``n_parameters``.
6. `scores`: by default ``system.evaluate(X, y)``; each a `Score`, the one called ``primary`` among them.
7. `metrics`, further scores for ``gnomon evaluate``, and `figures`, a few pictures by name.

Nothing else is edited: ``gnomon compare``, ``fit``, ``evaluate`` and ``data`` ask the class.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gnomon.data.dataset import Dataset
from gnomon.data.loading import load as load_data
from gnomon.data.splitting import folds as split_in_folds
from gnomon.data.splitting import split as split_data
from gnomon.data.splitting import usual
from gnomon.distributions.domains import Labels
from gnomon.errors import UserError, UserValueError, unknown
from gnomon.recipes.imports import load
from gnomon.tasks.image_data import other_images

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gnomon.evaluation.score import Score

__all__ = ["Task", "task"]

GROUP = "gnomon.tasks"
"""Entry points of this group name the Task classes of plug-ins; the name of the entry point is that of the task."""


class Task:
    """Base of the tasks; see the module for what a subclass says."""

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    title_zh: ClassVar[str] = ""
    primary: ClassVar[str] = ""
    """The score that a leaderboard is sorted by."""
    verbs: ClassVar[tuple[str, ...]] = ()
    example_data: ClassVar[str] = ""
    splits: ClassVar[tuple[str, ...]] = ("random", "stratified", "group=COLUMN", "time=COLUMN")
    """Ways in which `split` can hold rows out."""

    answers_rows: ClassVar[bool] = True
    """Whether an answer is a class or a number of a row, and no picture, text or list of its own."""

    # --- data ---------------------------------------------------------------------------------------------------

    def view(self, domain: Any) -> str:
        """The view of a data set that a system of this domain takes as X."""
        return str(domain.view)

    def read(
        self,
        name: str | os.PathLike[str],
        *,
        target: str | int | None = None,
        columns: Sequence[str] | None = None,
        kinds: Mapping[str, str] | None = None,
    ) -> Dataset:
        """A data set by name or file, see `gnomon.data.load`; a task whose files are no tables has its own way."""
        return load_data(name, target=target, columns=columns, kinds=kinds)

    def other_images(self, recipe: Mapping[str, Any], name: str | os.PathLike[str]) -> Dataset | None:
        """Images that a fitted system is asked about, as the run's fit has them; None where data or fit holds none."""
        return other_images(recipe, name)

    def adopt(self, data: Dataset) -> Dataset:
        """The data set as the task understands it, before it is split.

        Raises
        ------
        UserError
            Data without what the task is about.
        """
        return data

    def suited(self, data: Dataset) -> Task:
        """The task as this data allows it: another one where it lacks what scores compare with."""
        return self

    def examples(self, data: Dataset, system: Any, *, answers: bool = True) -> tuple[Any, Any]:
        """X and y for ``fit`` and the verbs of a system; here rows, and their labels for a system that learns them.

        Parameters
        ----------
        data : Dataset
        system : System
        answers : bool, default True
            Whether y is asked for, where there is one.

        Raises
        ------
        UserError
            Data without that form: a text for a table, no labels, text as a target, values other than 0 and 1.
        """
        rows = data.view(self.view(system.outcomes))
        return rows, data.view("labels") if system.labeled and answers else None

    def answers(self, data: Dataset, y: Any) -> Any:
        """What `scores` compares with, for examples whose y is that of the system's first task."""
        return y

    def check(self, data: Dataset, system: Any) -> None:
        """Check a whole data set before it is split, so that an error names the row as the file has it.

        Parameters
        ----------
        data : Dataset
            Before some rows are kept out.
        system : System

        Raises
        ------
        UserError
            A value that the system cannot use, by its row.
        """
        rows, y = self.examples(data, system)
        system.domain.check(rows, name=data.name)
        if system.labeled:
            Labels().encode(y, n=len(rows), name=data.name)

    def classes(self, data: Dataset) -> Any:
        """What rows are held out in proportion of, where they are stratified: the labels, if there are any."""
        return data.y

    def usual_split(self, data: Dataset) -> str:
        """How rows are held out where nothing is asked for: stratified where there are classes."""
        return usual(self.classes(data))

    def split(self, data: Dataset, *, test: float, seed: int = 0, how: str | None = None) -> tuple[Dataset, Dataset]:
        """Training part and held-out part.

        Parameters
        ----------
        data : Dataset
            As `adopt` gave it.
        test : float in (0, 1)
            Fraction held out.
        seed : int, default 0
        how : str, optional
            One of `splits`, see `gnomon.data.split`; `usual_split` where left out.
        """
        how = self._check_split(data, how)
        by = self.classes(data) if how == "stratified" else None
        train, held = split_data(data, test=test, seed=seed, how=how, by=by)
        return train, held

    def folds(self, data: Dataset, k: int, *, seed: int = 0, how: str | None = None) -> list[tuple[Dataset, Dataset]]:
        """Training parts and held-out parts of k folds, which hold every row out once.

        Raises
        ------
        UserError
            A split that has no folds, more folds than there is data for.
        """
        how = self._check_split(data, how)
        return split_in_folds(data, k, seed=seed, how=how, by=self.classes(data) if how == "stratified" else None)

    def _check_split(self, data: Dataset, how: str | None) -> str:
        """The way to hold rows out, or the refusal of one that the task has not."""
        how = how or self.usual_split(data)
        if how.partition("=")[0] not in [one.partition("=")[0] for one in self.splits]:
            what = f"split must be {' or '.join(self.splits)} for the task {self.name}, got {how!r}"
            raise UserValueError(what, "--split", "")
        return how

    def obstacle(self, data: Dataset, domain: Any, result: Any) -> str | None:
        """Why a system cannot take the data, in a few words; None where it can.

        Parameters
        ----------
        data : Dataset
        domain, result : Domain or None
            What the system takes, and what its scores speak of; None where that is not known.
        """
        try:
            data = self.adopt(data)
            if domain is not None:
                domain.check(data.view(self.view(result or domain)), name=data.name)
        except UserError as error:
            return error.what
        return None

    # --- judgment -----------------------------------------------------------------------------------------------

    def board(self, system: Any) -> str:
        """Systems of one task whose boards are called alike are ranked together."""
        return self.view(system.outcomes)

    def baseline(self, system: Any, X: Any, y: Any) -> tuple[str, Any]:
        """Title and fitted baseline: the simplest answer to the task, on the data that a system is fitted to."""
        raise NotImplementedError

    def rivals(self, systems: list[Any], X: Any, y: Any) -> list[tuple[str, Any]]:
        """Further baselines, fitted, that depend on the fitted systems that they stand beside."""
        return []

    def scores(self, system: Any, X: Any, y: Any, train: tuple[Any, Any] | None = None) -> dict[str, Score]:
        """Scores of a fitted system (or baseline) on rows that it has not seen, by name.

        Parameters
        ----------
        system : System or baseline
        X, y : examples and `answers`
        train : tuple (X, y), optional
            The training part in the same form, for scores that learn something on top of the system.
        """
        return dict(system.evaluate(X, y))

    def metrics(
        self, system: Any, X: Any, y: Any, scores: Mapping[str, Score], data: Dataset | None = None
    ) -> dict[str, Score]:
        """Further scores that ``gnomon evaluate`` prints, by name.

        Parameters
        ----------
        system : System
        X, y : examples
        scores : mapping of name to Score
            What ``system.evaluate(X, y)`` says.
        data : Dataset, optional
            What X is of, for answers that the system is not given.
        """
        return {}

    def figures(self, system: Any, X: Any, y: Any, shape: tuple[int, ...] | None = None) -> dict[str, Figure]:
        """A few pictures by name; `shape` is that of an image, where rows are flat images."""
        return {}

    # --- checks -------------------------------------------------------------------------------------------------

    def example(self, system: Any) -> tuple[Any, Any]:
        """Forty examples in the system's domain, and y: what the contract checks fit to."""
        random = np.random.default_rng(0)
        group = random.integers(0, 3, size=40)
        X = system.outcomes.example(random, 40, group)
        return X, self.example_answers(X, group, random)

    def example_answers(self, X: Any, group: Any, random: np.random.Generator) -> Any:
        """The y of `example`; a system that does not predict leaves it alone."""
        return group if isinstance(X, np.ndarray) else None


def task(name: str) -> Task:
    """The task of a name, from this room or from a plug-in.

    Raises
    ------
    UserValueError
        An unknown name, with the nearest known ones.

    Examples
    --------
    >>> task("classify").primary
    'accuracy'
    """
    for where in _homes(name):
        if not name.isidentifier() or importlib.util.find_spec(where) is None:
            continue
        module = load(where)
        for one in vars(module).values():
            if isinstance(one, type) and issubclass(one, Task) and one.name == name:
                return one()
    from gnomon.catalog import tasks

    raise unknown("task", name, sorted({*tasks(), *(one.name for one in entry_points(group=GROUP))}))


def _homes(name: str) -> Iterator[str]:
    """Modules in which a task may be; plug-ins, whose list takes milliseconds to read, only after this room."""
    yield f"gnomon.tasks.{name}"
    yield from (one.module for one in entry_points(group=GROUP) if one.name == name)
