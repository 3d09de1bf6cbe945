"""A run as a report sees it: the fitted system, its data read again, the rows that were held out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gnomon.data.dataset import Dataset
from gnomon.errors import UserError
from gnomon.evaluation.score import Score
from gnomon.runs.config import NAMED, DataSpec
from gnomon.runs.folder import RunFolder
from gnomon.system.base import System
from gnomon.system.saving import load
from gnomon.tasks.base import Task
from gnomon.tasks.fitting import parts, task_of
from gnomon.tasks.metrics import all_scores
from gnomon.tasks.settings import title_of

__all__ = ["Subject"]


@dataclass
class Subject:
    """A run, and what a report asks of it.

    Parameters
    ----------
    path : Path
    system : System
        Fitted.
    config : dict
        Of the run.
    train, held : Dataset or None
        The rows of the fit and those that were held out; None where they cannot be read again, and then `missing`
        says why.
    missing : str
    """

    path: Path
    system: System
    config: dict[str, Any]
    train: Dataset | None = None
    held: Dataset | None = None
    missing: str = ""

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Subject:
        """The subject of a run's folder.

        Raises
        ------
        UserError
            No run of a fit, or a damaged one.
        """
        folder = RunFolder.open(path)
        subject = cls(Path(path), load(path), dict(folder.config))
        recipe = subject.config.get("data", {})
        if recipe.get("source") != NAMED:
            subject.missing = "the run was fitted to arrays, which it does not keep"
            return subject
        try:
            subject.train, subject.held = parts(DataSpec.from_json(recipe), subject.system)
        except UserError as error:
            subject.missing = f"the data of the fit cannot be read again: {error}"
            return subject
        if subject.held is None:
            subject.missing = "the fit held no rows out"
        return subject

    @property
    def title(self) -> str:
        """Name of the system and its settings."""
        return title_of(self.system)

    @property
    def task(self) -> Task:
        """What the system is for."""
        return task_of(self.system)

    @cached_property
    def examples(self) -> tuple[Any, Any]:
        """The held-out rows as the system takes them."""
        assert self.held is not None
        return self.task.examples(self.held, self.system)

    @cached_property
    def seen(self) -> tuple[Any, Any] | None:
        """The rows of the fit as the system took them; None where they cannot be read again."""
        return None if self.train is None else self.task.examples(self.train, self.system)

    def rows_for(self, of: Task) -> tuple[Any, Any]:
        """The held-out rows as one of the system's tasks takes them, with the answers that it compares with, if any."""
        assert self.held is not None
        X, y = self.examples if of.name == self.task.name else of.examples(self.held, self.system)
        try:
            return X, of.answers(self.held, y)
        except UserError:
            return X, y

    @cached_property
    def scores(self) -> dict[str, Score]:
        """Every score of the held-out rows; nothing where there are none."""
        return {} if self.held is None else all_scores(self.system, *self.examples, self.held)
