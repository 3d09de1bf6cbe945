"""Precision against recall as the threshold moves, its area, and the choice of a threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gnomon.distributions.arrays import plain
from gnomon.errors import UserValueError
from gnomon.evaluation._inputs import Floats
from gnomon.evaluation.ranking import Ranking
from gnomon.evaluation.score import Score

__all__ = ["PRCurve", "auprc", "average_precision", "flags", "pr_area", "pr_curve", "threshold_for"]


@dataclass(frozen=True)
class PRCurve:
    """Points of a precision-recall curve, one per distinct score, thresholds falling; decide ``score >= threshold``.

    Parameters
    ----------
    threshold, recall, precision : arrays of shape (m,)
        Recall rises from point to point; precision need not.
    """

    threshold: NDArray[Any]
    recall: Floats
    precision: Floats

    def threshold_for(self, *, precision: float | None = None, recall: float | None = None) -> float:
        """The threshold with the highest recall at a required precision, or the highest precision at a required recall.

        Ties go to the higher threshold. Choose it on rows that are kept out of the final score.

        Parameters
        ----------
        precision, recall : float in [0, 1]
            Exactly one of them.

        Raises
        ------
        UserValueError
            A precision that no threshold reaches (the best one is named), both or neither requirement.
        """
        if (precision is None) == (recall is None):
            raise UserValueError("exactly one of precision and recall must be given", "threshold_for")
        required, given, best = (
            (precision, self.precision, self.recall) if recall is None else (recall, self.recall, self.precision)
        )
        name = "recall" if precision is None else "precision"
        if required is None or not 0 <= required <= 1:
            raise UserValueError.must(name, "be in [0, 1]", required)
        enough = given >= required
        if not enough.any():
            raise UserValueError(f"no threshold reaches {name} {required}", name, f"the highest is {given.max():g}")
        return float(self.threshold[np.argmax(np.where(enough, best, -1.0))])


def flags(y: Any, positive: Any = None) -> NDArray[np.bool_]:
    """Whether each row is positive; 1 (True) is where the labels are 0 and 1 or -1 and 1.

    Raises
    ------
    UserValueError
        Other labels without `positive`, an empty column.
    """
    labels = plain(y, "y", "give one label per row")
    if labels.ndim != 1 or not labels.size:
        raise UserValueError.must("y", "be one label per row", labels)
    if positive is not None:
        return np.asarray(labels == positive, dtype=bool)
    if labels.dtype == bool:
        return labels
    if labels.dtype.kind in "iuf":
        ones = labels == 1
        if (ones | (labels == 0)).all() or (ones | (labels == -1)).all():
            return ones
    raise UserValueError("the positive class is not known", "y", "give labels 0 and 1, or name positive")


def pr_curve(y: Any, score: Any, *, positive: Any = None, sample_weight: Any = None) -> PRCurve:
    """Precision and recall at every distinct score.

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
    PRCurve
        Thresholds falling. scikit-learn's arrays run the other way and add the point (recall 0, precision 1).

    Raises
    ------
    UserValueError
        No positive row: recall is then 0/0 everywhere.

    Notes
    -----
    Cost one sort. Rows of equal score are one point.

    Examples
    --------
    >>> curve = pr_curve([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1])
    >>> curve.recall.tolist(), curve.precision.round(3).tolist()
    ([0.5, 0.5, 1.0, 1.0], [1.0, 0.5, 0.667, 0.5])
    >>> curve.threshold_for(recall=0.8)
    0.7
    """
    return _curve(Ranking(score, flags(y, positive), sample_weight))


def _curve(ranking: Ranking) -> PRCurve:
    right, wrong = ranking.cumulative()
    if not len(right) or not right[-1] > 0:
        raise UserValueError("y must have at least one positive row", "y", "recall needs it")
    return PRCurve(ranking.levels, right / right[-1], right / (right + wrong))


def threshold_for(
    y: Any,
    score: Any,
    *,
    precision: float | None = None,
    recall: float | None = None,
    positive: Any = None,
    sample_weight: Any = None,
) -> float:
    """The threshold of `pr_curve` with the highest recall at a precision, or the other way round; see there.

    Examples
    --------
    >>> threshold_for([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1], precision=0.6)
    0.7
    """
    curve = pr_curve(y, score, positive=positive, sample_weight=sample_weight)
    return curve.threshold_for(precision=precision, recall=recall)


def average_precision(y: Any, score: Any, *, positive: Any = None, sample_weight: Any = None) -> Score:
    r"""Area under the precision-recall curve by steps, :math:`\sum_k (r_k - r_{k-1}) p_k`.

    Parameters as in `pr_curve`. Scores without information give the share of positive rows.

    Returns
    -------
    Score
        With the standard error over rows by the delta method; nan without a positive row, and `note` says so.

    Examples
    --------
    >>> round(average_precision([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1]).value, 6)
    0.833333
    """
    return auprc(y, score, method="step", positive=positive, sample_weight=sample_weight)


def auprc(
    y: Any,
    score: Any,
    *,
    method: Literal["step", "trapezoid"] = "step",
    positive: Any = None,
    sample_weight: Any = None,
) -> Score:
    """Area under the precision-recall curve.

    Parameters
    ----------
    method : {"step", "trapezoid"}, default "step"
        ``trapezoid`` joins the points, from (recall 0, precision 1), by straight lines; between points precision does
        not move on a line, so this is optimistic (Davis and Goadrich 2006). The score is named after the method.
    y, score, positive, sample_weight
        As in `pr_curve`.

    Examples
    --------
    >>> area = auprc([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1], method="trapezoid")
    >>> area.name, round(area.value, 6)
    ('auprc (trapezoid)', 0.791667)
    """
    return pr_area(Ranking(score, flags(y, positive), sample_weight), method=method)


def pr_area(ranking: Ranking, *, method: Literal["step", "trapezoid"] = "step") -> Score:
    """The area of a `Ranking`, which may have been merged over chunks or processes; see `auprc`."""
    if method not in ("step", "trapezoid"):
        raise UserValueError.must("method", "be step or trapezoid", method)
    name = "average_precision" if method == "step" else "auprc (trapezoid)"
    facts: dict[str, Any] = {"unit": "fraction", "data_space": "pmf on 2 classes", "name": name, "n": ranking.n}
    right, wrong = ranking.cumulative()
    if not len(right) or not right[-1] > 0:
        return Score(math.nan, math.nan, note="undefined: no positive row", **facts)
    total = right[-1]
    recall, precision = np.append(0.0, right / total), np.append(1.0, right / (right + wrong))
    steps = np.diff(recall)
    height = precision[1:] if method == "step" else (precision[1:] + precision[:-1]) / 2
    area = float(steps @ height)
    stderr = math.nan
    if ranking.n > 1:
        slopes = _slopes(steps, height, precision, right, wrong, area, method)
        variance = float((ranking.sums[:, 2:] * slopes**2).sum())
        stderr = math.sqrt(ranking.n / (ranking.n - 1) * variance)
    return Score(area, stderr, **facts)


def _slopes(
    steps: Floats, height: Floats, precision: Floats, right: Floats, wrong: Floats, area: float, method: str
) -> Floats:
    """Derivatives of the area with respect to the positive and the negative weight at each level, shape (m, 2)."""
    by_recall = height - np.append(height[1:], 0.0)  # recall k ends step k and begins step k + 1
    by_precision = steps if method == "step" else (steps + np.append(steps[1:], 0.0)) / 2
    both = right + wrong
    up, down = by_recall / right[-1] + by_precision * wrong / both**2, -by_precision * right / both**2
    above = np.stack([up, down], axis=1)[::-1].cumsum(axis=0)[::-1]  # a row counts at its own level and all below
    return above - np.array([area / right[-1], 0.0])
