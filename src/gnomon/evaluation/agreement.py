"""Agreement of labels and predictions beyond chance: Matthews' correlation and Cohen's kappa, with their errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gnomon.evaluation.confusion import ConfusionMatrix, confusion_matrix
from gnomon.evaluation.score import Score

__all__ = ["cohen_kappa", "kappa_of", "matthews", "matthews_of"]


def matthews(y: Any, predicted: Any, *, sample_weight: Any = None) -> Score:
    r"""Matthews' correlation of labels and predictions, of any number of classes (Gorodkin 2004).

    With c right ones of s rows, t_k rows of class k and p_k predictions of it:

    .. math:: \frac{c s - \sum_k p_k t_k}{\sqrt{(s^2 - \sum_k p_k^2) (s^2 - \sum_k t_k^2)}}

    Parameters
    ----------
    y, predicted : arrays of shape (n,), n >= 1
    sample_weight : array of shape (n,), optional

    Returns
    -------
    Score
        With the standard error over rows by the delta method. nan (scikit-learn: 0) where only one class occurs or
        only one is predicted, and `note` says so.

    Examples
    --------
    >>> round(matthews([1, 1, 1, 0], [1, 0, 1, 1]).value, 4)
    -0.3333
    """
    return matthews_of(confusion_matrix(y, predicted, sample_weight=sample_weight))


def cohen_kappa(y: Any, predicted: Any, *, sample_weight: Any = None) -> Score:
    r"""Cohen's kappa: the share of right answers above that of chance, :math:`(p_o - p_e) / (1 - p_e)`.

    :math:`p_e = \sum_k p_k t_k / s^2` is what predictions of the same shares would have right by chance.

    Parameters
    ----------
    y, predicted : arrays of shape (n,), n >= 1
    sample_weight : array of shape (n,), optional

    Returns
    -------
    Score
        With the standard error over rows by the delta method; nan where labels and predictions are of one class
        alone, and `note` says so.

    Notes
    -----
    Source: Cohen (1960).

    Examples
    --------
    >>> round(cohen_kappa([1, 1, 1, 0], [1, 0, 1, 1]).value, 4)
    -0.3333
    """
    return kappa_of(confusion_matrix(y, predicted, sample_weight=sample_weight))


def matthews_of(matrix: ConfusionMatrix) -> Score:
    """`matthews` of a confusion matrix, which may have been merged over chunks or processes."""
    s, c, t, p = _margins(matrix)
    above, left, right = c * s - p @ t, s * s - p @ p, s * s - t @ t
    # exact margins, not a rounded product: one class holds everything
    if np.count_nonzero(t) < 2 or np.count_nonzero(p) < 2:
        which = "occurs" if np.count_nonzero(t) < 2 else "is predicted"
        return matrix._score("matthews", math.nan, 0 * matrix.weight, f"undefined: one class alone {which}", unit=UNIT)
    value = above / math.sqrt(left) / math.sqrt(right)
    d_above = np.eye(len(t)) * s + c - (p[:, None] + t[None, :])
    slope = d_above / math.sqrt(left) / math.sqrt(right)
    slope = slope - value * ((s - p[None, :]) / left + (s - t[:, None]) / right)
    return matrix._score("matthews", float(value), slope, unit=UNIT)


def kappa_of(matrix: ConfusionMatrix) -> Score:
    """`cohen_kappa` of a confusion matrix, which may have been merged over chunks or processes."""
    s, c, t, p = _margins(matrix)
    if np.count_nonzero(t) < 2 and np.count_nonzero(p) < 2 and (t > 0).argmax() == (p > 0).argmax():
        note = "undefined: labels and predictions are of one class alone"
        return matrix._score("kappa", math.nan, 0 * matrix.weight, note, unit=UNIT)
    above, below = c * s - p @ t, s * s - p @ t
    value = above / below
    d_chance = p[:, None] + t[None, :]
    slope = (np.eye(len(t)) * s + c - d_chance - value * (2 * s - d_chance)) / below
    return matrix._score("kappa", float(value), slope, unit=UNIT)


UNIT = "coefficient"
"""In [-1, 1]."""


def _margins(matrix: ConfusionMatrix) -> tuple[float, float, Any, Any]:
    """Total weight, weight on the diagonal, weights of the true and of the predicted classes."""
    weight = matrix.weight
    return matrix._total(), float(np.trace(weight)), weight.sum(axis=1), weight.sum(axis=0)
