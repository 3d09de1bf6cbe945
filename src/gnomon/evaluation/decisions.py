"""Scores of decisions: accuracy, error rate, precision, recall and F-score, each with its standard error over rows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from gnomon.errors import UserValueError
from gnomon.evaluation._inputs import pair, weights
from gnomon.evaluation.confusion import Average, ConfusionMatrix, confusion_matrix
from gnomon.evaluation.score import Score

__all__ = ["accuracy", "error_rate", "f_score", "precision", "precision_recall", "recall", "share_interval"]


def accuracy(y: Any, predicted: Any, *, sample_weight: Any = None) -> Score:
    """Fraction of right decisions, the (weighted) mean of ``predicted == y``.

    Parameters
    ----------
    y, predicted : arrays of shape (n,), n >= 1
        True and predicted labels. Several labels per row are another quantity and refused.
    sample_weight : array of shape (n,), optional
        Weights of the rows, >= 0.

    Returns
    -------
    Score
        With the value of every row, so that two systems are compared row by row. ``float(score)`` is the number.

    Raises
    ------
    UserValueError
        Columns that are empty, of two lengths or two kinds.

    Notes
    -----
    Blind to rare classes: a detector of one case in a million that always says no has 0.999999. See `share_interval`
    for an interval.

    Examples
    --------
    >>> print(accuracy(["cat", "dog", "dog", "cat"], ["cat", "dog", "cat", "cat"]))
    0.75 ± 0.25 exact fraction
    """
    return _pointwise(y, predicted, sample_weight, right=True)


def error_rate(y: Any, predicted: Any, *, sample_weight: Any = None) -> Score:
    """Fraction of wrong decisions, 1 - `accuracy`; lower is better.

    Examples
    --------
    >>> error_rate([0, 1, 1, 0], [0, 1, 0, 0]).value
    0.25
    """
    return _pointwise(y, predicted, sample_weight, right=False)


def _pointwise(y: Any, predicted: Any, sample_weight: Any, *, right: bool) -> Score:
    classes, codes, others = pair(y, predicted)
    weight = weights(sample_weight, len(codes))
    matrix = ConfusionMatrix(classes)._count(codes, others, weight)
    score = matrix.accuracy() if right else matrix.error_rate()
    values, rows = (codes == others if right else codes != others).astype(np.float64), None
    if weight is not None and score.n < len(values):
        rows = np.flatnonzero(weight)
        values, weight = values[rows], weight[rows]
    return Score(
        score.value, score.stderr, unit=score.unit, data_space=score.data_space, name=score.name,
        higher_is_better=right, n=score.n, pointwise=values, weight=weight, rows=rows, trials=score.trials,
    )  # fmt: skip


def share_interval(score: Score, level: float = 0.95) -> tuple[float, float]:
    """Interval of Wilson (1927) for a share such as an accuracy, never outside [0, 1] and of some width at 0 and 1.

    Parameters
    ----------
    score : Score
        A mean of zeros and ones over n rows, such as `accuracy` gives.
    level : float in (0, 1), default 0.95

    Raises
    ------
    UserValueError
        A score that is no share of rows, a level outside (0, 1).

    Notes
    -----
    Rows of unequal weight count as (sum w)^2 / sum w^2 rows.

    Examples
    --------
    >>> low, high = share_interval(accuracy([1] * 10, [1] * 10))
    >>> round(low, 4), high
    (0.7225, 1.0)
    """
    if not (0 <= score.value <= 1 and score.n > 0 and score.unit == "fraction"):
        raise UserValueError(
            f"score must be a fraction of rows, such as an accuracy or an error rate, got {score.name}", "score"
        )
    return (score if score.trials > 0 else replace(score, trials=float(score.n))).interval(level)


def precision(
    y: Any,
    predicted: Any,
    *,
    positive: Any = None,
    average: Average | None = None,
    sample_weight: Any = None,
    zero_division: float = math.nan,
) -> Score:
    """Fraction of the reported detections that are right, TP / (TP + FP).

    Parameters
    ----------
    y, predicted : arrays of shape (n,), n >= 1
        True and predicted labels.
    positive : label, optional
        The class that is detected; 1 (True) where the labels are 0 and 1 or -1 and 1.
    average : {"macro", "micro", "weighted"}, optional
        Over all classes: the plain mean, all counted together, or the mean by the shares of the true classes.
    sample_weight : array of shape (n,), optional
        Weights of the rows, >= 0.
    zero_division : float, default nan
        What 0/0 is, when nothing was reported: nan is undefined (an average leaves the class out and says so), 1 the
        convention that a silent detector makes no mistake, 0 scikit-learn's default.

    Returns
    -------
    Score
        With the standard error over rows by the delta method; what is undefined is nan, its `note` says why.

    Raises
    ------
    UserValueError
        More than two classes without `positive` or `average`; columns that do not fit.

    Examples
    --------
    >>> precision([1, 0, 1, 0], [1, 1, 0, 0]).value
    0.5
    >>> precision([1, 0], [0, 0], zero_division=1).value
    1.0
    """
    matrix = confusion_matrix(y, predicted, sample_weight=sample_weight)
    return matrix.precision(positive, average=average, zero_division=zero_division)


def recall(
    y: Any,
    predicted: Any,
    *,
    positive: Any = None,
    average: Average | None = None,
    sample_weight: Any = None,
    zero_division: float = math.nan,
) -> Score:
    """Fraction of the true events that were reported, TP / (TP + FN); parameters as in `precision`.

    Examples
    --------
    >>> recall([1, 0, 1, 0], [1, 1, 0, 0]).value
    0.5
    """
    matrix = confusion_matrix(y, predicted, sample_weight=sample_weight)
    return matrix.recall(positive, average=average, zero_division=zero_division)


def precision_recall(y: Any, predicted: Any, **options: Any) -> tuple[Score, Score]:
    """Both numbers, of which one alone says little; options as in `precision`.

    Examples
    --------
    >>> [score.value for score in precision_recall([1, 0, 0, 0], [1, 1, 1, 1])]
    [0.25, 1.0]
    """
    matrix = confusion_matrix(y, predicted, sample_weight=options.pop("sample_weight", None))
    positive = options.pop("positive", None)
    return matrix.precision(positive, **options), matrix.recall(positive, **options)


def f_score(
    y: Any,
    predicted: Any,
    *,
    beta: float = 1.0,
    positive: Any = None,
    average: Average | None = None,
    sample_weight: Any = None,
    zero_division: float = math.nan,
) -> Score:
    r"""Weighted harmonic mean of precision p and recall r: :math:`(1 + \beta^2) p r / (\beta^2 p + r)`; 2pr/(p+r) at 1.

    Computed from counts, (1 + b^2) TP / ((1 + b^2) TP + b^2 FN + FP), it is 0 where p = r = 0 and undefined only where
    the class neither occurs nor is predicted. The macro average is the mean of the classes' F-scores, not the F-score
    of mean precision and mean recall.

    Parameters
    ----------
    beta : float in [0, inf), default 1
        Recall counts beta times as much as precision.
    y, predicted, positive, average, sample_weight, zero_division
        As in `precision`.

    Notes
    -----
    Source: van Rijsbergen (1979), chapter 7.

    Examples
    --------
    >>> round(f_score([1, 1, 1, 1, 0], [1, 0, 0, 0, 1]).value, 6)  # p = 0.5, r = 0.25
    0.333333
    """
    matrix = confusion_matrix(y, predicted, sample_weight=sample_weight)
    return matrix.f_score(positive, beta=beta, average=average, zero_division=zero_division)
