"""Decisions when errors differ in gravity, and the error that no classifier can avoid."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.errors import UserValueError
from gnomon.evaluation._inputs import codes_of, probabilities, weights
from gnomon.evaluation.confusion import ConfusionMatrix, confusion_matrix
from gnomon.evaluation.score import Score

__all__ = ["bayes_error", "bayes_error_gaussians", "decide", "optimal_threshold", "plugin_bayes_error", "total_cost"]


def total_cost(
    y: Any, predicted: Any, cost: ArrayLike, *, classes: ArrayLike | None = None, sample_weight: Any = None
) -> Score:
    r"""Cost of all decisions, :math:`\sum_{ij} C_{ij} N_{ij}`: N rows of class i were taken for class j.

    Parameters
    ----------
    y, predicted : arrays of shape (n,), n >= 1
        True and predicted labels.
    cost : array of shape (k, k)
        Row: true class, column: decision. 1 off the diagonal counts the errors.
    classes : array of shape (k,), optional
        Labels in the order of `cost`; the sorted labels that occur where left out.
    sample_weight : array of shape (n,), optional
        Weights of the rows, >= 0.

    Raises
    ------
    UserValueError
        Costs of another shape than the classes, a label that is none of them.

    Examples
    --------
    >>> blocking, passing = 10, 1  # a good mail that is blocked costs ten times a spam that passes
    >>> total_cost(["ham", "spam"], ["spam", "ham"], [[0, blocking], [passing, 0]]).value
    11.0
    """
    if classes is None:
        return confusion_matrix(y, predicted, sample_weight=sample_weight).cost(cost)
    return ConfusionMatrix(classes).update(y, predicted, sample_weight).cost(cost)


def decide(proba: ArrayLike, cost: ArrayLike) -> NDArray[np.int64]:
    r"""The decision of least expected cost, :math:`\arg\min_j \sum_i C_{ij} p(i \mid x)`; the first of equal ones.

    Parameters
    ----------
    proba : array of shape (n, k)
        Class probabilities, which must be calibrated.
    cost : array of shape (k, m)
        Row: true class, column: one of m decisions, of which some may be no class (to ask, to wait).

    Returns
    -------
    int64 array of shape (n,)
        Column of the decision.

    Raises
    ------
    UserValueError
        Rows that are no distributions, costs that do not fit.

    Examples
    --------
    >>> decide([[0.05, 0.95], [0.12, 0.88]], [[0, 10], [1, 0]]).tolist()  # threshold 10/11
    [1, 0]
    """
    table = probabilities(proba)
    costs = _costs(cost)
    if len(costs) != table.shape[1]:
        raise UserValueError(f"cost must have {table.shape[1]} rows, one per class, got {len(costs)}", "cost")
    return np.argmin(np.matmul(table, costs), axis=1)


def optimal_threshold(cost: ArrayLike) -> float:
    r"""Smallest probability of class 1 at which class 1 is the cheaper decision.

    :math:`(C_{01} - C_{00}) / (C_{01} - C_{00} + C_{10} - C_{11})`, which is C_fp / (C_fp + C_fn) where right answers
    cost nothing.

    Parameters
    ----------
    cost : array of shape (2, 2)
        ``[[0, false positive], [false negative, 0]]``: true classes are rows.

    Raises
    ------
    UserValueError
        Another shape, or an error that costs no more than the right answer: one decision is then always best.

    Examples
    --------
    >>> round(optimal_threshold([[0, 10], [1, 0]]), 5)
    0.90909
    """
    costs = _costs(cost)
    if costs.shape != (2, 2):
        raise UserValueError.must("cost", "have shape (2, 2) for a threshold", costs)
    false_positive, false_negative = costs[0, 1] - costs[0, 0], costs[1, 0] - costs[1, 1]
    if not (false_positive > 0 and false_negative > 0):
        raise UserValueError("an error must cost more than the correct decision", "cost", "decide without a threshold")
    return float(false_positive / (false_positive + false_negative))


def _costs(cost: ArrayLike) -> NDArray[np.float64]:
    costs = np.asarray(cost, dtype=np.float64)
    if costs.ndim != 2 or not costs.size or not np.isfinite(costs).all():
        raise UserValueError.must("cost", "be a table of finite numbers", costs)
    return costs


def bayes_error(joint: ArrayLike) -> float:
    r"""Lowest error rate of any classifier, :math:`1 - \sum_x \max_y p(x, y)`, of a known distribution.

    Parameters
    ----------
    joint : array of shape (..., k)
        p(x, y), summing to 1 over everything; classes along the last axis.

    Raises
    ------
    UserValueError
        What is no distribution.

    Notes
    -----
    Exact. A finite sample does not give it without assumptions; see `plugin_bayes_error`.

    Examples
    --------
    >>> round(bayes_error([[0.4, 0.1], [0.2, 0.3]]), 12)
    0.3
    """
    p = np.asarray(joint, dtype=np.float64)
    if p.ndim < 1 or not p.size or not (p >= 0).all() or abs(float(p.sum()) - 1) > 1e-6:
        total = float(p.sum()) if p.size else 0.0
        raise UserValueError(f"joint must be probabilities that sum to 1, got the sum {total:g}", "joint")
    return float(np.clip(p.sum() - p.max(axis=-1).sum(), 0.0, 1.0))


def bayes_error_gaussians(
    mean0: ArrayLike, mean1: ArrayLike, covariance: ArrayLike = 1.0, *, prior1: float = 0.5
) -> float:
    r"""Lowest error rate for two Gaussian classes of one covariance, in closed form.

    With Mahalanobis distance D and log prior ratio t = log(p1/p0):
    :math:`p_0 \Phi(t/D - D/2) + p_1 \Phi(-t/D - D/2)`; :math:`\Phi(-D/2)` for equal priors.

    Parameters
    ----------
    mean0, mean1 : arrays of shape (d,) or numbers
    covariance : number > 0, or array of shape (d, d), default 1
        Shared by both classes; a number is the variance of every column.
    prior1 : float in (0, 1), default 0.5
        Probability of class 1.

    Raises
    ------
    UserValueError
        Shapes that do not fit, a covariance that is not positive definite, a prior outside (0, 1).

    Notes
    -----
    Source: Duda, Hart and Stork (2001), section 2.8.

    Examples
    --------
    >>> round(bayes_error_gaussians(0.0, 2.0), 6)
    0.158655
    """
    from scipy.special import ndtr

    if not 0 < prior1 < 1:
        raise UserValueError.must("prior1", "be in (0, 1)", prior1)
    difference = np.atleast_1d(np.asarray(mean1, np.float64) - np.asarray(mean0, np.float64))
    distance = math.sqrt(_mahalanobis(difference, np.asarray(covariance, np.float64)))
    if distance == 0:
        return min(prior1, 1 - prior1)
    shift = math.log(prior1 / (1 - prior1)) / distance
    return float((1 - prior1) * ndtr(shift - distance / 2) + prior1 * ndtr(-shift - distance / 2))


def _mahalanobis(difference: NDArray[np.float64], covariance: NDArray[np.float64]) -> float:
    d = len(difference)
    matrix = covariance * np.eye(d) if covariance.ndim == 0 else covariance
    if matrix.shape != (d, d) or not np.allclose(matrix, matrix.T):
        raise UserValueError.must("covariance", f"be symmetric of shape {(d, d)}", matrix)
    try:
        root = np.linalg.solve(np.linalg.cholesky(matrix), difference)
    except np.linalg.LinAlgError:
        raise UserValueError("covariance must be positive definite", "covariance") from None
    return float(root @ root)


def plugin_bayes_error(proba: ArrayLike, y: Any = None, *, classes: Any = None, sample_weight: Any = None) -> Score:
    r"""What the lowest error rate would be if a model's probabilities were right: the mean of 1 - max_y p(y | x).

    An estimate that holds under that assumption alone; with labels, `note` tells the error rate that the same
    decisions really had, which the two would share.

    Parameters
    ----------
    proba : array of shape (n, k)
        Class probabilities on rows that the model has not seen.
    y : array of shape (n,), optional
        Labels, places 0 ... k - 1 or labels of `classes`.
    classes : array of shape (k,), optional
    sample_weight : array of shape (n,), optional

    Examples
    --------
    >>> score = plugin_bayes_error([[0.9, 0.1], [0.3, 0.7]])
    >>> round(score.value, 12), score.kind
    (0.2, 'estimate')
    """
    table = probabilities(proba)
    weight = weights(sample_weight, len(table))
    note = "right if the probabilities are"
    if y is not None:
        known = np.arange(table.shape[1]) if classes is None else np.asarray(classes)
        wrong = codes_of(y, known, n=len(table)) != table.argmax(axis=1)
        note += f"; the error rate of these decisions is {np.average(wrong, weights=weight):.6g}"
    return Score.from_pointwise(
        1 - table.max(axis=1), weight=weight, kind="estimate", unit="fraction", name="bayes_error",
        data_space=f"pmf on {table.shape[1]} classes", higher_is_better=False, note=note,
    )  # fmt: skip
