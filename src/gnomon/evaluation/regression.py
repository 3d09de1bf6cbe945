"""Scores of predicted numbers: squared and absolute error, R^2 and its kind, coverage of intervals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.metrics import r2_score

from gnomon.distributions.targets import Target
from gnomon.evaluation._inputs import Array, power_of_two
from gnomon.evaluation.score import Score

__all__ = ["r_squared", "regression_scores"]


def r_squared(y: Any, found: Any, *, sample_weight: Any = None) -> float:
    """R^2 as scikit-learn has it: 0 (1 where all is right) for a target that does not vary, NaN for one row.

    A target is constant where its values are equal, not where a rounded variance is 0.

    Parameters
    ----------
    y, found : float64 arrays of shape (n,) or (n, t)
    sample_weight : array of shape (n,), optional

    Examples
    --------
    >>> r_squared(np.full(3, 0.1), np.array([0.0, 0.1, 0.2]))
    0.0
    """
    y, found = np.asarray(y, np.float64), np.asarray(found, np.float64)
    kept = slice(None) if sample_weight is None else np.asarray(sample_weight) > 0
    if len(y) and y[kept].size:
        # the mean of equal numbers may be one unit beside them; taken from zeros it is not
        first = np.where(np.ptp(y[kept], axis=0) == 0, y[kept][0], 0.0)
        y, found = y - first, found - first
    return float(r2_score(y, found, sample_weight=sample_weight))


def regression_scores(y: Array, found: Array) -> dict[str, Score]:
    r"""Squared error, absolute error and R^2 of predictions, by name.

    The errors are means over rows, and over outputs where there are several. R^2 is the mean over outputs of
    :math:`1 - \sum_i (y_i - f_i)^2 / \sum_i (y_i - \bar y)^2`; its standard error is that of the ratio by its first
    derivatives. It is undefined (NaN, null in JSON) for one row and for a target that does not vary.

    Parameters
    ----------
    y, found : float64 arrays of shape (n,) or (n, t)

    Examples
    --------
    >>> scores = regression_scores(np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 3.0]))
    >>> round(scores["squared_error"].value, 4), round(scores["r2"].value, 4)
    (0.3333, 0.7857)
    """
    y = y.reshape(len(y), -1)
    residual = y - found.reshape(y.shape)
    space = Target().space(y.shape[1])
    facts: dict[str, Any] = {"data_space": space, "higher_is_better": False}
    squared = Score.from_pointwise((residual**2).mean(1), name="squared_error", unit="squared units of y", **facts)
    absolute = Score.from_pointwise(np.abs(residual).mean(1), name="absolute_error", unit="units of y", **facts)
    return {"squared_error": squared, "absolute_error": absolute, "r2": _r2(y, residual, space)}


def _r2(y: Array, residual: Array, space: str) -> Score:
    """R^2 with the error of its linearization: (e_i^2 - (1 - R^2) d_i^2) / mean(d^2) varies over rows."""
    n = len(y)
    squares = (y - y.mean(0)) ** 2
    total = squares.mean(0)
    facts: dict[str, Any] = {"unit": "fraction", "data_space": space, "name": "r2", "n": n}
    if n < 2:
        return Score(math.nan, math.nan, note="R^2 is undefined for one row", **facts)
    if (np.ptp(y, axis=0) == 0).any():  # not the variance: the mean of equal numbers is rounded
        return Score(math.nan, math.nan, note="R^2 is undefined: the target does not vary", **facts)
    lost = (residual**2).mean(0) / total
    spread = ((residual**2 - lost * squares) / total).mean(1)
    unit = power_of_two(spread)
    return Score(float(1 - lost.mean()), float(unit * (spread / unit).std(ddof=1) / math.sqrt(n)), **facts)
