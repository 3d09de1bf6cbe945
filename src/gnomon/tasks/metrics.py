"""The scores that ``gnomon evaluate`` prints: all that the system's tasks have, or those that are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gnomon.data.dataset import Dataset
from gnomon.errors import unknown
from gnomon.evaluation.score import Score
from gnomon.tasks.base import task

__all__ = ["ALIASES", "all_scores", "chosen", "named"]

ALIASES = {
    "auc": "roc_auc", "ece": "calibration_error", "f1": "macro_f1", "logloss": "log_loss", "mae": "absolute_error",
    "mcc": "matthews", "mse": "squared_error", "nll": "log_loss", "r^2": "r2",
}  # fmt: skip
"""Other names of scores."""


def all_scores(system: Any, X: Any, y: Any, data: Dataset | None = None) -> dict[str, Score]:
    """What a fitted system says of itself, and the further scores of each of its tasks.

    Parameters
    ----------
    system : System
    X, y : arrays
        As its first task gives them.
    data : Dataset, optional
        What X is of: its labels judge clusters.

    Examples
    --------
    >>> import gnomon
    >>> data = gnomon.data.load("iris")
    >>> system = gnomon.fit(gnomon.DecisionTree(max_depth=2, random_state=0), data)
    >>> found = all_scores(system, data.X, data.y)
    >>> round(found["roc_auc"].value, 3), round(found["kappa"].value, 3)
    (0.98, 0.94)
    """
    found = dict(system.evaluate(X, y))
    for name in system.tasks:
        found |= task(name).metrics(system, X, y, found, data)
    return found


def named(name: str, known: Sequence[str], where: str) -> str:
    """The score of a name, or of another name of it.

    Raises
    ------
    UserValueError
        A score that there is not, with the nearest that there is.

    Examples
    --------
    >>> named("AUC", ["accuracy", "roc_auc"], "the task classify")
    'roc_auc'
    """
    plain = str(name).lower()
    for one in (name, plain, ALIASES.get(plain, "")):
        if one in known:
            return one
    raise unknown("metric", name, sorted(known), where)


def chosen(found: Mapping[str, Score], names: Sequence[str] | None) -> dict[str, Score]:
    """Some scores by name, in the order asked for; ``precision`` and ``recall`` stand for those of all classes.

    Raises
    ------
    UserValueError
        A score that there is not, with the nearest that there is.

    Examples
    --------
    >>> list(chosen({"r2": Score(0.5), "rmse": Score(1.0)}, ["rmse"]))
    ['rmse']
    """
    if names is None:
        return dict(found)
    kept: dict[str, Score] = {}
    groups = {name.partition("[")[0] for name in found if "[" in name}
    for name in (one.strip() for one in names):
        wanted = name if name in found or name in groups else ALIASES.get(name.lower(), name.lower())
        if wanted in groups:
            kept |= {one: score for one, score in found.items() if one.startswith(f"{wanted}[")}
        elif wanted in found:
            kept[wanted] = found[wanted]
        else:
            raise unknown("metric", name, sorted({*(one for one in found if "[" not in one), *groups}), "--metric")
    return kept
