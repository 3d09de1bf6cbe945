"""The rows on which a system is furthest off: sure and wrong, or far from the true number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data.dataset import Dataset
from gnomon.errors import UserValueError
from gnomon.tasks.excerpt import excerpt

__all__ = ["Mistakes", "mistakes", "worst_places"]


@dataclass
class Mistakes:
    """Rows, the worst first.

    Parameters
    ----------
    places : int array of shape (m,)
        Where they stand among the rows that were asked about.
    true, predicted : arrays of shape (m,)
    size : array of shape (m,)
        The probability of the wrong class, or how far the number is off.
    stated : array of shape (m,) or None
        The probability of the true class.
    wrong : int
        How many rows are wrong in all; 0 of numbers, which always are.
    """

    places: np.ndarray[Any, Any]
    true: np.ndarray[Any, Any]
    predicted: np.ndarray[Any, Any]
    size: np.ndarray[Any, Any]
    stated: np.ndarray[Any, Any] | None
    wrong: int = 0

    @property
    def reading(self) -> str:
        """What the list is."""
        if self.stated is None:
            return "Rows whose number is furthest from the prediction; look at them for faults of the data first."
        return (
            f"Of {self.wrong} rows that are taken for another class those on which the system is surest; look at them "
            "for wrong labels first."
        )

    def table(self, data: Dataset) -> tuple[list[str], list[list[Any]]]:
        """The rows as a table: number in the whole data, true and predicted, how sure, a few columns."""
        numbers = self.places if data.rows is None else np.asarray(data.rows)[self.places]
        header = ["row", "true", "predicted", "off by" if self.stated is None else "probability"]
        answers = (
            [self.true, self.predicted] if self.stated is not None else [_short(self.true), _short(self.predicted)]
        )
        columns = [numbers, *answers, _short(self.size)]
        if self.stated is not None:
            header.append("of the true class")
            columns.append(_short(self.stated))
        beside = excerpt(data, self.places)
        return [*header, *beside], [list(row) for row in zip(*columns, *beside.values(), strict=True)]


def mistakes(system: Any, X: Any, y: Any, most: int = 12) -> Mistakes | None:
    """The worst mistakes of a fitted system; None of one that predicts neither classes nor a number.

    Parameters
    ----------
    system : System
    X, y : arrays
        As its task gives them.
    most : int in [1, inf), default 12

    Notes
    -----
    Classes: rows that are wrong, by the probability of the predicted class, falling; equal ones by row. Numbers: by
    the distance from the truth. Source: Goodfellow, Bengio and Courville (2016), section 11.5.

    Examples
    --------
    >>> import gnomon
    >>> iris = gnomon.data.load("iris")
    >>> found = mistakes(gnomon.LogisticRegression().fit(iris.X, iris.y), iris.X, iris.y)
    >>> found.wrong, bool((np.diff(found.size) <= 0).all())
    (3, True)
    """
    tasks = set(system.tasks)
    if "regress" in tasks:
        true, found = np.asarray(y, np.float64), np.asarray(system.predict(X), np.float64)
        off = np.abs(true - found)
        if off.ndim != 1:
            return None
        places = np.argsort(-off, kind="stable")[:most]
        return Mistakes(places, true[places], found[places], off[places], None)
    if "classify" not in tasks or not hasattr(system, "predict_proba"):
        return None
    proba, true = np.asarray(system.predict_proba(X), np.float64), np.asarray(y)
    codes = proba.argmax(axis=1)
    predicted = np.asarray(system.classes_)[codes]
    wrong = np.flatnonzero(predicted != true)
    sure = proba[np.arange(len(proba)), codes]
    places = wrong[np.argsort(-sure[wrong], kind="stable")[:most]]
    own = proba * (np.asarray(system.classes_) == true[:, None])
    return Mistakes(places, true[places], predicted[places], sure[places], own.sum(axis=1)[places], len(wrong))


def worst_places(system: Any, X: Any, y: Any, n: int) -> NDArray[np.int64]:
    """Places of the n worst mistakes, the worst first.

    Raises
    ------
    UserValueError
        The truth is not known, nothing is wrong, or the system predicts neither classes nor one number.
    """
    found = None if y is None else mistakes(system, X, y, most=n)
    if found is None:
        remedy = "name data with labels" if y is None else "leave it out"
        raise UserValueError("mistakes need a truth to compare with classes or one number", "--mistakes", remedy)
    if not len(found.places):
        raise UserValueError("no row is taken for another class", "--mistakes", "leave it out")
    return np.asarray(found.places, np.int64)


def _short(values: np.ndarray[Any, Any]) -> list[str]:
    return [f"{value:.4g}" for value in values]
