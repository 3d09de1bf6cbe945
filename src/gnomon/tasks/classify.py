"""Task classify: the label of rows (or images) that the fit has not seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.dummy import DummyClassifier

from gnomon.data.dataset import Dataset
from gnomon.distributions.domains import Labels
from gnomon.errors import UserError
from gnomon.evaluation.calibration import reliability
from gnomon.evaluation.classification import classification_metrics, log_loss_of, macro_f1
from gnomon.evaluation.curves import pr_curve
from gnomon.evaluation.roc import roc_curve
from gnomon.evaluation.score import Score
from gnomon.tasks import pictures
from gnomon.tasks.base import Task
from gnomon.tasks.preparing import refuse_one_class

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ClassShares", "Classify"]

MOST_CURVES = 5
"""Classes that have a curve."""


class ClassShares:
    """Every row gets the classes' shares in training; scikit-learn's ``DummyClassifier``."""

    title = "class shares"

    def fit(self, X: Any, y: Any = None) -> ClassShares:
        """Fractions of the classes."""
        self.dummy = DummyClassifier(strategy="prior").fit(X, y)
        self.n_parameters = len(self.dummy.classes_) - 1
        self.classes_ = self.dummy.classes_
        return self

    def predict(self, X: Any) -> Any:
        """The commonest class, of every row."""
        return self.dummy.predict(X)

    def predict_proba(self, X: Any) -> Any:
        """The fractions, of every row."""
        return self.dummy.predict_proba(X)

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Accuracy and mean log-likelihood of the labels."""
        known, codes = Labels().locate(y, self.dummy.classes_, n=len(X))
        frequencies = self.dummy.predict_proba(X)[:1]
        right = known & (codes == frequencies[0].argmax())
        space = Labels().space(len(self.dummy.classes_))
        log_p = np.where(known, np.log(frequencies[0])[codes], -np.inf)
        return {
            "accuracy": Score.from_pointwise(right.astype(float), name="accuracy", unit="fraction", data_space=space),
            "log_likelihood": Score.from_pointwise(log_p, data_space=space),
        }


class Classify(Task):
    """Accuracy on held-out rows."""

    name: ClassVar[str] = "classify"
    title: ClassVar[str] = "Classification"
    title_zh: ClassVar[str] = "分类"
    primary: ClassVar[str] = "accuracy"
    verbs: ClassVar[tuple[str, ...]] = ("predict", "predict_proba", "confusion_matrix")
    example_data: ClassVar[str] = "wine"

    def view(self, domain: Any) -> str:
        """What labels are predicted from."""
        return str(domain.features)

    def examples(self, data: Dataset, system: Any, *, answers: bool = True) -> tuple[Any, Any]:
        """Rows or images, and labels."""
        return data.view(self.view(system.domain)), data.view("labels") if answers else None

    def check(self, data: Dataset, system: Any) -> None:
        """Rows by the domain, and labels."""
        X, y = self.examples(data, system)
        system.domain.check(X, name=data.name)
        Labels().encode(y, n=len(X), name=data.name)

    def usual_split(self, data: Dataset) -> str:
        """Every label is a class here, a number with decimals too."""
        return "random" if data.y is None else "stratified"

    def obstacle(self, data: Dataset, domain: Any, result: Any) -> str | None:
        """No table, no labels, a numeric target, values outside the domain."""
        try:
            data.view("table" if getattr(domain, "is_table", True) else self.view(domain))
            if data.view("labels").dtype.kind == "f":
                return "the target is numeric, not labels"
            refuse_one_class(data)
        except UserError as error:
            return error.what
        return super().obstacle(data, domain, domain)

    def example_answers(self, X: Any, group: Any, random: np.random.Generator) -> Any:
        """The group, whatever the rows are."""
        return group

    def board(self, system: Any) -> str:
        """The labels of images and of tables are predicted on the same rows."""
        return "labels"

    def baseline(self, system: Any, X: Any, y: Any) -> tuple[str, Any]:
        """The classes' shares."""
        return ClassShares.title, ClassShares().fit(X, y)

    def metrics(
        self, system: Any, X: Any, y: Any, scores: Mapping[str, Score], data: Dataset | None = None
    ) -> dict[str, Score]:
        """Log loss, and what `classification_metrics` lists."""
        proba = system.predict_proba(X) if hasattr(system, "predict_proba") else None
        predicted = system.predict(X)
        found = classification_metrics(y, predicted, proba, system.classes_)
        if "macro_f1" not in scores:  # of a baseline
            found["macro_f1"] = macro_f1(y, predicted, system.classes_)
        known = scores.get("log_likelihood")
        return found if known is None else {"log_loss": log_loss_of(known), **found}

    def figures(self, system: Any, X: Any, y: Any, shape: tuple[int, ...] | None = None) -> dict[str, Figure]:
        """Who was taken for whom; whether stated probabilities come true; what each threshold would find and miss."""
        classes, found = system.classes_, {}
        if not np.isin(y, classes).all():
            return {}
        if len(classes) <= pictures.MOST_CLASSES:
            matrix = system.confusion_matrix(X, y)
            found["confusion"] = pictures.matrix(np.asarray(matrix.weight), [str(one) for one in classes])
        if not hasattr(system, "predict_proba"):
            return found
        proba = np.asarray(system.predict_proba(X), np.float64)
        bins = reliability(y, proba, classes=classes)
        found["calibration"] = pictures.calibration(bins.stated, bins.observed, bins.weight)
        shown = _shown(classes, y)
        if shown:
            points = {str(one): pr_curve(y, proba[:, place], positive=one) for place, one in shown.items()}
            found["roc"] = pictures.curves(
                {str(one): roc_curve(y, proba[:, place], positive=one) for place, one in shown.items()},
                "false positive rate", "true positive rate", chance=True,
            )  # fmt: skip
            found["precision_recall"] = pictures.curves(
                {name: (one.recall, one.precision) for name, one in points.items()}, "recall", "precision"
            )
        return found


def _shown(classes: Any, y: Any) -> dict[int, Any]:
    """Classes that have curves, by place: the second of two, the commonest `MOST_CURVES` of more."""
    counts = np.array([np.count_nonzero(y == one) for one in classes])
    if len(classes) == 2:
        return {1: classes[1]} if counts.all() else {}
    places = np.argsort(-counts, kind="stable")[:MOST_CURVES]
    return {int(place): classes[place] for place in places if 0 < counts[place] < len(y)}
