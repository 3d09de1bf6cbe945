"""Scores of predicted numbers: squared and absolute error, R^2 and its kind, coverage of intervals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gnomon.distributions.targets import Target
from gnomon.errors import UserValueError
from gnomon.evaluation._inputs import Array, power_of_two, weights
from gnomon.evaluation.score import Score
from gnomon.recipes.imports import random_kept

__all__ = [
    "coverage",
    "explained_variance",
    "median_absolute_error",
    "psnr",
    "r_squared",
    "regression_metrics",
    "regression_scores",
]


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
    with random_kept():  # a quarter of a second to load, which every report would wait for
        from sklearn.metrics import r2_score

    y, found = np.asarray(y, np.float64), np.asarray(found, np.float64)
    kept = slice(None) if sample_weight is None else np.asarray(sample_weight) > 0
    if len(y) and y[kept].size:
        # the mean of equal numbers may be one unit beside them; taken from zeros it is not
        first = np.where(np.ptp(y[kept], axis=0) == 0, y[kept][0], 0.0)
        y, found = y - first, found - first
    return float(r2_score(y, found, sample_weight=sample_weight))


def psnr(x: Any, found: Any, *, peak: float | None = None) -> float:
    r"""Peak signal-to-noise ratio :math:`10 \log_{10} (peak^2 / MSE)` in decibels, higher is better.

    Parameters
    ----------
    x, found : arrays of one shape
        The truth, and what is compared with it.
    peak : float, in (0, inf), optional
        Range that values may have: 1 of images in [0, 1], 255 of bytes. The range of `x` by default.

    Returns
    -------
    float
        Infinite where they are equal.

    Raises
    ------
    UserValueError
        Other shapes, a truth of one value without a peak.

    Examples
    --------
    >>> round(psnr([0.0, 1.0], [0.1, 0.9]), 6)
    20.0
    """
    truth, other = np.asarray(x, np.float64), np.asarray(found, np.float64)
    if truth.shape != other.shape or not truth.size:
        what = f"x and found must have one shape and a value, got {truth.shape} and {other.shape}"
        raise UserValueError(what, "found")
    top = float(np.ptp(truth)) if peak is None else float(peak)
    if not 0 < top < math.inf:
        raise UserValueError.must("peak", "be positive and finite", top, remedy="give the range of values")
    error = float(((truth - other) ** 2).mean())
    return math.inf if error == 0 else 20 * math.log10(top) - 10 * math.log10(error)


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


def regression_metrics(y: Any, found: Any, *, std: Any = None, sample_weight: Any = None) -> dict[str, Score]:
    """Further scores of numbers by name, each as scikit-learn has it, with its standard error over rows.

    Root mean squared error, median absolute error (of one output), explained variance, and, where predictions have a
    standard deviation, the share of rows in the normal interval of 95 %.

    Parameters
    ----------
    y, found : arrays of shape (n,) or (n, t)
    std : array of the same shape, optional
        Standard deviation of each row's y, noise included.
    sample_weight : array of shape (n,), optional

    Examples
    --------
    >>> scores = regression_metrics([1.0, 2.0, 4.0], [1.0, 2.0, 3.0], std=[0.1, 0.1, 0.1])
    >>> scores["median_absolute_error"].value, round(scores["coverage_95"].value, 4)
    (0.0, 0.6667)
    """
    y, found = np.asarray(y, np.float64), np.asarray(found, np.float64)
    weight = weights(sample_weight, len(y))
    residual = (y - found).reshape(len(y), -1)
    space = Target().space(residual.shape[1])
    squared = Score.from_pointwise(
        (residual**2).mean(1), weight=weight, unit="squared units of y", data_space=space, higher_is_better=False
    )
    scores = {"rmse": _root(squared), "explained_variance": explained_variance(y, found, sample_weight=weight)}
    if residual.shape[1] == 1:
        scores["median_absolute_error"] = median_absolute_error(y, found, sample_weight=weight)
    if std is not None:
        scores["coverage_95"] = coverage(y, found, std, sample_weight=weight)
    return scores


def _root(squared: Score) -> Score:
    value = math.sqrt(squared.value)
    stderr = squared.stderr / (2 * value) if value > 0 else squared.stderr
    return Score(
        value,
        stderr,
        unit="units of y",
        data_space=squared.data_space,
        name="rmse",
        higher_is_better=False,
        n=squared.n,
    )


def explained_variance(y: Any, found: Any, *, sample_weight: Any = None) -> Score:
    r"""Mean over outputs of :math:`1 - var(y - f) / var(y)`: R^2 that forgives a constant shift.

    Undefined (NaN) for one row and for a target that does not vary; the error is that of the ratio's first derivatives.

    Examples
    --------
    >>> explained_variance([1.0, 2.0, 3.0], [2.0, 3.0, 4.0]).value
    1.0
    """
    weight = weights(sample_weight, len(y))
    y = np.asarray(y, np.float64).reshape(len(y), -1)
    residual = y - np.asarray(found, np.float64).reshape(y.shape)
    kept = np.ones(len(y), bool) if weight is None else weight > 0
    share = kept / kept.sum() if weight is None else weight / weight.sum()
    n = int(kept.sum())
    facts: dict[str, Any] = {
        "unit": "fraction", "data_space": Target().space(y.shape[1]), "name": "explained_variance", "n": n,
    }  # fmt: skip
    if n < 2 or (np.ptp(y[kept], axis=0) == 0).any():
        why = "one row" if n < 2 else "the target does not vary"
        return Score(math.nan, math.nan, note=f"undefined: {why}", **facts)
    squares, lost = ((one - share @ one) ** 2 for one in (y, residual))
    total = share @ squares
    ratio = share @ lost / total
    influence = share * ((lost - ratio * squares) / total).mean(1)
    unit = power_of_two(influence)
    stderr = unit * math.sqrt(n / (n - 1) * float(((influence / unit) ** 2).sum()))
    return Score(float(1 - ratio.mean()), stderr, **facts)


def median_absolute_error(y: Any, found: Any, *, sample_weight: Any = None) -> Score:
    """The absolute error that half of the rows exceed; its error by order statistics (Maritz and Jarrett 1978).

    Examples
    --------
    >>> median_absolute_error([0.0, 0.0, 0.0], [1.0, 2.0, 9.0]).value
    2.0
    """
    from scipy.special import betainc

    size = np.abs(np.asarray(y, np.float64) - np.asarray(found, np.float64)).ravel()
    weight = weights(sample_weight, len(size))
    weight = np.ones(len(size)) if weight is None else weight
    size, weight = size[weight > 0], weight[weight > 0]
    order = np.argsort(size, kind="stable")
    size, share = size[order], np.cumsum(weight[order]) / weight.sum()
    low, high = (int(np.argmax(test)) for test in (share >= 0.5, share > 0.5 + 1e-12))
    n = float(weight.sum() ** 2 / (weight @ weight))
    steps = np.diff(betainc((n + 1) / 2, (n + 1) / 2, np.minimum(share, 1.0)), prepend=0.0)
    variance = float(steps @ size**2 - (steps @ size) ** 2)
    return Score(
        float(size[low] + size[high]) / 2, math.sqrt(max(variance, 0.0)) if len(size) > 1 else math.nan,
        unit="units of y", data_space=Target().space(1), name="median_absolute_error", higher_is_better=False,
        n=len(size),
    )  # fmt: skip


def coverage(y: Any, found: Any, std: Any, *, level: float = 0.95, sample_weight: Any = None) -> Score:
    """Share of the rows whose y lies in the normal interval of a level about its prediction; right is the level itself.

    Examples
    --------
    >>> coverage([0.0, 1.0, 5.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]).value
    0.6666666666666666
    """
    from scipy.special import ndtri

    if not 0 < level < 1:
        raise UserValueError.must("level", "be in (0, 1)", level)
    y = np.asarray(y, np.float64)
    inside = np.abs(y - np.asarray(found)) <= float(ndtri((1 + level) / 2)) * np.asarray(std)
    inside = inside.reshape(len(y), -1)
    return Score.from_pointwise(
        inside.mean(axis=1), weight=weights(sample_weight, len(y)), unit="fraction", name=f"coverage_{100 * level:g}",
        data_space=Target().space(inside.shape[1]), note=f"right would be {level:g}",
    )  # fmt: skip
