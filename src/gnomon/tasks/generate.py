"""Task generate: rows that a model makes, against rows that it has not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gnomon.data.preprocessing import standardization
from gnomon.errors import UserTypeError
from gnomon.evaluation.copies import memorization
from gnomon.evaluation.score import Score
from gnomon.evaluation.two_sample import sample_scores
from gnomon.numeric.noise import Noise
from gnomon.tasks import pictures
from gnomon.tasks.base import Task
from gnomon.tasks.density import EstimateDensity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Generate"]

MOST = 2000
"""Rows that are compared: the tests take the square of their number."""


class Generate(Task):
    """Two-sample tests of rows that a model makes, never its own loss.

    Rows are compared in columns of mean 0 and standard deviation 1 over the training rows where they are real numbers,
    as they are where they are zeros and ones. At most 2,000 rows are made, as many as there are held out.
    """

    name: ClassVar[str] = "generate"
    title: ClassVar[str] = "Generation"
    title_zh: ClassVar[str] = "样本生成"
    primary: ClassVar[str] = "coverage"
    verbs: ClassVar[tuple[str, ...]] = ("sample",)
    example_data: ClassVar[str] = "digits"

    def baseline(self, system: Any, X: Any, y: Any) -> tuple[str, Any]:
        """Independent columns, as the domain of the system has them."""
        return EstimateDensity().baseline(system, X, y)

    def scores(self, system: Any, X: Any, y: Any, train: tuple[Any, Any] | None = None) -> dict[str, Score]:
        """`sample_scores`, and `memorization` where the training rows are given.

        Raises
        ------
        UserTypeError
            A system that does not draw rows.
        """
        if not hasattr(system, "sample"):
            what = f"{type(system).__name__} has no sample"
            raise UserTypeError(what, "generate", "choose a system that draws rows")
        real = _flat(X)[:MOST]
        made = _flat(_drawn(system, len(real)))
        known = real if train is None else _flat(train[0])
        binary = bool(((known == 0) | (known == 1)).all())
        shift, scale = (0.0, 1.0) if binary else standardization(known, None)
        space = f"rows of {known.shape[1]} columns" if not binary else f"rows of {known.shape[1]} zeros and ones"
        parts = [(rows - shift) / scale for rows in (real, made, known)]
        scores = sample_scores(parts[0], parts[1], Noise(0, "task/generate"), data_space=space)
        if train is not None:
            scores["memorized"] = memorization(parts[1], parts[2], parts[0]).score
        return scores

    def figures(self, system: Any, X: Any, y: Any, shape: tuple[int, ...] | None = None) -> dict[str, Figure]:
        """Rows that the model makes beside given ones."""
        return pictures.beside(_drawn(system, pictures.SHOWN), X, shape, "made by the model")


def _drawn(system: Any, n: int) -> Any:
    """n rows that a system makes, without the labels of a model of both."""
    made = system.sample(n, random_state=0)
    return made[0] if isinstance(made, tuple) else made


def _flat(X: Any) -> Any:
    rows = np.asarray(X, dtype=np.float64)
    return rows.reshape(len(rows), -1)
