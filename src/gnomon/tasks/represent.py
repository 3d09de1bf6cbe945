"""Representations judged by what fixed, simple classifiers make of them: the linear probe and nearest neighbors."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gnomon.data.dataset import Dataset
from gnomon.evaluation.score import Score
from gnomon.recipes.imports import random_kept
from gnomon.tasks import maps, pictures
from gnomon.tasks.base import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Represent"]


class Represent(Task):
    """Accuracy of a linear probe on the representation of held-out rows."""

    name: ClassVar[str] = "represent"
    title: ClassVar[str] = "Representation learning"
    title_zh: ClassVar[str] = "表示学习"
    primary: ClassVar[str] = "probe_accuracy"
    verbs: ClassVar[tuple[str, ...]] = ("transform",)
    example_data: ClassVar[str] = "digits"

    def examples(self, data: Dataset, system: Any, *, answers: bool = True) -> tuple[Any, Any]:
        """X, and the labels for a system that learns from them."""
        X, _ = super().examples(data, system, answers=False)
        taught = answers and system.__sklearn_tags__().target_tags.required
        return X, data.view("labels") if taught else None

    def answers(self, data: Dataset, y: Any) -> Any:
        """The labels, which the fit has not been given."""
        return data.view("labels")

    def baseline(self, system: Any, X: Any, y: Any) -> tuple[str, Any]:
        """The columns as they are."""
        probes = _probes()
        return probes.Raw.title, probes.Raw()

    def rivals(self, systems: list[Any], X: Any, y: Any) -> list[tuple[str, Any]]:
        """As many principal components as the widest representation has columns."""
        width = max(int(np.asarray(one.transform(X[:2])).reshape(2, -1).shape[1]) for one in systems)
        found = _probes().Principal(width).fit(X)
        return [(found.title, found)]

    def scores(self, system: Any, X: Any, y: Any, train: tuple[Any, Any] | None = None) -> dict[str, Score]:
        """Of the probes, fitted to the representation of the training rows."""
        if train is None:
            raise TypeError("a probe needs training rows")
        return _probes().Probe(train[1], y).scores(system, train[0], X)

    def figures(self, system: Any, X: Any, y: Any, shape: tuple[int, ...] | None = None) -> dict[str, Figure]:
        """The representation of the first rows, as a map of values; of all rows as points, colored by label."""
        codes = np.asarray(system.transform(X), np.float64).reshape(len(X), -1)
        groups = None if y is None or np.asarray(y).dtype.kind == "f" else y
        return {
            "representation": pictures.rows(codes[: pictures.SHOWN], None, "transform"),
            "map": maps.grouped(maps.map_of(codes, "latent"), groups),
        }


def _probes() -> ModuleType:
    """What fits probes: a third of a second to load, and only where one is fitted."""
    with random_kept():
        from gnomon.tasks import probes
    return probes
