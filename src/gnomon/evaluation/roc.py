"""The area under the ROC curve, of one class or averaged over all, with its standard error."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gnomon.distributions.domains import Labels
from gnomon.errors import UserValueError
from gnomon.evaluation._inputs import Array, Floats, numbers, probabilities, weights
from gnomon.evaluation.curves import flags
from gnomon.evaluation.ranking import Ranking
from gnomon.evaluation.score import Score

__all__ = ["roc_auc", "roc_auc_of_classes", "roc_curve"]


def roc_auc(y: Any, score: Any, *, positive: Any = None, sample_weight: Any = None) -> Score:
    r"""The chance that a positive row has a higher score than a negative one; ties count half (Mann and Whitney).

    Parameters
    ----------
    y : array of shape (n,), n >= 1
        0 and 1, -1 and 1, False and True; any labels with `positive`.
    score : array of shape (n,)
        Finite numbers; the higher, the more positive.
    positive : label, optional
    sample_weight : array of shape (n,), optional
        Weights of the rows, >= 0.

    Returns
    -------
    Score
        With the standard error of DeLong, DeLong and Clarke-Pearson (1988). Where the classes are apart without an
        exception its interval is Wilson's for as many rows as the smaller class has. nan without rows of both
        classes, and `note` says so.

    Notes
    -----
    Cost one sort.

    Examples
    --------
    >>> roc_auc([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1]).value
    0.75
    """
    hit = flags(y, positive)
    values = numbers(score, "score", n=len(hit))
    return _mean_area(hit[:, None], values[:, None], _unit(sample_weight, len(hit)), "roc_auc", 2)


def roc_curve(y: Any, score: Any, *, positive: Any = None) -> tuple[Floats, Floats]:
    """Rates of false and of true positives at every distinct score, from (0, 0) to (1, 1).

    Parameters
    ----------
    y : array of shape (n,)
        0 and 1, -1 and 1, False and True; any labels with `positive`.
    score : array of shape (n,)
        Finite numbers; the higher, the more positive.
    positive : label, optional

    Returns
    -------
    tuple of two arrays of shape (m + 1,)
        Shares of the negative and of the positive rows with at least that score, thresholds falling.

    Raises
    ------
    UserValueError
        Rows of one class alone: a rate is then 0/0.

    Examples
    --------
    >>> false, true = roc_curve([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1])
    >>> false.tolist(), true.tolist()
    ([0.0, 0.0, 0.5, 0.5, 1.0], [0.0, 0.5, 0.5, 1.0, 1.0])
    """
    right, wrong = Ranking(score, flags(y, positive)).cumulative()
    if not (right[-1] > 0 and wrong[-1] > 0):
        raise UserValueError("y must have rows of both classes", "y", "a rate needs them")
    return np.append(0.0, wrong / wrong[-1]), np.append(0.0, right / right[-1])


def roc_auc_of_classes(y: Any, proba: Any, classes: Any, *, sample_weight: Any = None) -> Score:
    """The plain mean over the classes of `roc_auc` of each against the rest, by its probability.

    Of two classes it is that of the second. A class of which there is no row, or nothing else, is left out; `note`
    says how many are.

    Parameters
    ----------
    y : array of shape (n,), n >= 1
        Labels; one that is none of the classes counts against all of them.
    proba : array of shape (n, k)
    classes : array of shape (k,)
        Labels of the columns.
    sample_weight : array of shape (n,), optional

    Examples
    --------
    >>> roc_auc_of_classes([0, 1, 2], [[0.8, 0.1, 0.1], [0.2, 0.5, 0.3], [0.2, 0.6, 0.2]], [0, 1, 2]).value
    0.6666666666666666
    """
    known = np.asarray(classes)
    there, codes = Labels().locate(y, known)
    table = probabilities(proba, n=len(codes))
    if table.shape[1] != len(known):
        raise UserValueError(f"classes must be {table.shape[1]}, one per column, got {len(known)}", "classes")
    columns = np.arange(len(known)) if len(known) != 2 else np.array([1])
    hit = there[:, None] & (codes[:, None] == columns)
    return _mean_area(hit, table[:, columns], _unit(sample_weight, len(codes)), "roc_auc", len(known))


def _unit(sample_weight: Any, n: int) -> Floats:
    weight = weights(sample_weight, n)
    return np.ones(n) if weight is None else weight


def _mean_area(hit: Array, values: Array, weight: Floats, name: str, k: int) -> Score:
    """Mean over the columns that have rows of both kinds."""
    areas, influence, fewest = [], np.zeros(len(weight)), math.inf
    for j in range(hit.shape[1]):
        few = min(float(np.count_nonzero(weight[side])) for side in (hit[:, j], ~hit[:, j]))
        if few:
            area, part = _area(hit[:, j], values[:, j], weight)
            areas.append(area)
            influence += part
            fewest = min(fewest, few)
    n = int(np.count_nonzero(weight))
    facts: dict[str, Any] = {"unit": "fraction", "data_space": Labels().space(k), "name": name, "n": n}
    if not areas:
        return Score(math.nan, math.nan, note="undefined: it needs rows of two classes", **facts)
    left = hit.shape[1] - len(areas)
    note = f"{left} of {hit.shape[1]} classes left out: no row of them" if left else ""
    value = math.fsum(areas) / len(areas)
    share = influence * weight / (weight.sum() * len(areas))
    stderr = math.sqrt(n / (n - 1) * float(share @ share))
    return Score(value, stderr, note=note, trials=float(fewest) if value in (0.0, 1.0) else 0.0, **facts)


def _area(hit: Array, values: Array, weight: Floats) -> tuple[float, Floats]:
    """The area, and by how much each row's weight moves it (times the total weight)."""
    _, level = np.unique(values, return_inverse=True)
    up, down = (np.bincount(level, weight * part) for part in (hit, ~hit))
    below, above = np.cumsum(down) - down / 2, up.sum() - np.cumsum(up) + up / 2
    positive, negative = up.sum(), down.sum()
    area = float(up @ below) / (positive * negative)
    place = np.where(hit, below[level] / negative, above[level] / positive)
    return min(area, 1.0), weight.sum() * (place - area) / np.where(hit, positive, negative)
