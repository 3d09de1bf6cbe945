"""What is asked of a classifier on held-out rows beside its accuracy: one dict of scores."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from gnomon.distributions.domains import Labels
from gnomon.evaluation._inputs import probabilities, weights
from gnomon.evaluation.agreement import kappa_of, matthews_of
from gnomon.evaluation.calibration import reliability
from gnomon.evaluation.confusion import confusion_matrix
from gnomon.evaluation.roc import roc_auc_of_classes
from gnomon.evaluation.score import Score

__all__ = ["brier", "classification_metrics", "log_loss_of", "macro_f1"]

MOST_LISTED = 20
"""Classes up to which each has its own precision and recall."""


def brier(y: Any, proba: Any, classes: Any, *, sample_weight: Any = None) -> Score:
    r"""Mean squared error of the probabilities (Brier 1950): of two classes :math:`(p - y)^2`, of more their sum.

    Parameters
    ----------
    y : array of shape (n,), n >= 1
        Labels; a row of none of the classes has the error :math:`1 + \sum_k p_k^2`.
    proba : array of shape (n, k)
    classes : array of shape (k,)
    sample_weight : array of shape (n,), optional

    Examples
    --------
    >>> brier([0, 1], [[0.8, 0.2], [0.4, 0.6]], [0, 1]).value
    0.1
    """
    known = np.asarray(classes)
    there, codes = Labels().locate(y, known)
    table = probabilities(proba, n=len(codes))
    errors = ((table - (there[:, None] & (codes[:, None] == np.arange(len(known))))) ** 2).sum(axis=1)
    errors += ~there  # the column that the table lacks
    return Score.from_pointwise(
        errors / 2 if len(known) == 2 else errors, weight=weights(sample_weight, len(codes)), name="brier",
        unit="squared probability", data_space=Labels().space(len(known)), higher_is_better=False,
    )  # fmt: skip


def log_loss_of(log_likelihood: Score) -> Score:
    """Minus the mean log-likelihood of the labels."""
    values = log_likelihood.pointwise
    return replace(
        log_likelihood, value=-log_likelihood.value, pointwise=None if values is None else -values, name="log_loss",
        higher_is_better=False,
    )  # fmt: skip


def macro_f1(y: Any, predicted: Any, classes: Any) -> Score:
    """Plain mean of the classes' F-scores, over the classes that occur or are predicted.

    Examples
    --------
    >>> macro_f1([0, 1, 1], [0, 0, 1], [0, 1]).value.__round__(4)
    0.6667
    """
    found = confusion_matrix(y, predicted).f_score(average="macro")
    return replace(found, name="macro_f1", data_space=Labels().space(len(np.asarray(classes))))


def classification_metrics(
    y: Any, predicted: Any, proba: Any, classes: Any, *, sample_weight: Any = None
) -> dict[str, Score]:
    """Further scores of classes by name, each as scikit-learn has it, with its standard error over rows.

    Balanced accuracy, area under the ROC curve (of more than two classes the mean of each against the rest), Brier
    score, expected calibration error, Matthews' correlation, Cohen's kappa, and precision and recall of every class
    of at most 20.

    Parameters
    ----------
    y, predicted : arrays of shape (n,), n >= 1
        Labels; one that the classifier does not know counts as wrong.
    proba : array of shape (n, k), optional
        Without it the scores of probabilities are left out.
    classes : array of shape (k,)
        Labels that the classifier knows, of the columns of `proba`.
    sample_weight : array of shape (n,), optional

    Examples
    --------
    >>> found = classification_metrics([0, 1, 1], [0, 1, 0], [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], [0, 1])
    >>> found["balanced_accuracy"].value, found["roc_auc"].value, found["recall[1]"].value
    (0.75, 1.0, 0.5)
    """
    matrix = confusion_matrix(y, predicted, sample_weight=sample_weight)
    space = Labels().space(len(np.asarray(classes)))
    found = {"balanced_accuracy": replace(matrix.recall(average="macro"), name="balanced_accuracy")}
    if proba is not None:
        found["roc_auc"] = roc_auc_of_classes(y, proba, classes, sample_weight=sample_weight)
        found["brier"] = brier(y, proba, classes, sample_weight=sample_weight)
        found["calibration_error"] = _calibration_error(y, proba, classes, sample_weight, space)
    found |= {"matthews": matthews_of(matrix), "kappa": kappa_of(matrix)}
    if len(matrix.classes) <= MOST_LISTED:
        for label in matrix.classes.tolist():
            found[f"precision[{label}]"] = matrix.precision(label)
            found[f"recall[{label}]"] = matrix.recall(label)
    return {name: replace(score, name=name, data_space=space) for name, score in found.items()}


def _calibration_error(y: Any, proba: Any, classes: Any, sample_weight: Any, space: str) -> Score:
    known = np.isin(np.asarray(y), np.asarray(classes))
    if not known.all():
        note = "undefined: rows of a class that the classifier does not know"
        return Score(
            math.nan, math.nan, kind="estimate", unit="fraction", n=len(known), name="calibration_error",
            higher_is_better=False, note=note,
        )  # fmt: skip
    return reliability(y, proba, classes=classes, sample_weight=sample_weight).score(data_space=space)
