"""Classifiers that may refuse to answer: coverage against accuracy on what is answered."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gnomon.distributions.domains import Labels
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation._inputs import Array, Floats, hits, probabilities
from gnomon.evaluation.ranking import Ranking
from gnomon.evaluation.score import Score

__all__ = ["Coverage", "CoverageCurve", "RejectOption", "coverage_at_accuracy", "coverage_curve", "fit_threshold"]


@dataclass(frozen=True)
class Coverage:
    """What a threshold gives: the two numbers belong together.

    Parameters
    ----------
    threshold : float
        Answer when the confidence is at least this; inf answers nothing.
    coverage : float in [0, 1]
        Fraction of the rows that are answered.
    accuracy : float in [0, 1]
        Fraction of right answers among them; 1 by convention where nothing is answered.
    lower : float in [0, 1]
        Exact lower bound of the true accuracy (Clopper and Pearson 1934) for this one threshold; 0 where nothing is
        answered.
    answered : int
        Number of rows answered.
    """

    threshold: float
    coverage: float
    accuracy: float
    lower: float
    answered: int


@dataclass(frozen=True)
class CoverageCurve:
    """Coverage and selective accuracy at every distinct confidence, thresholds falling, coverage rising.

    Parameters
    ----------
    threshold, coverage, accuracy : arrays of shape (m + 1,)
        The first point answers nothing: threshold inf, coverage 0, accuracy 1.
    counts : array of shape (m + 1, 2)
        Effective numbers of answered and of right rows, from which bounds follow.
    """

    threshold: Floats
    coverage: Floats
    accuracy: Floats
    counts: Floats

    def at(self, threshold: float, *, level: float = 0.95) -> Coverage:
        """Coverage and accuracy when the answers of at least this confidence are given."""
        if math.isnan(threshold):
            raise UserValueError.must("threshold", "be a number", threshold)
        return self._point(int(np.searchsorted(-self.threshold, -threshold, side="right")) - 1, level)

    def at_accuracy(self, target: float, *, level: float | None = None) -> Coverage:
        """The point of largest coverage whose accuracy is at least the target.

        Accuracy is not monotone in the threshold, so all thresholds are looked at.

        Parameters
        ----------
        target : float in [0, 1]
        level : float in (0, 1), optional
            Ask the lower bound of this level, not the accuracy, to reach the target. The bound is of one threshold;
            over all of them the chance of a miss is larger, so confirm it on other rows.

        Raises
        ------
        UserValueError
            A target or level outside its range.
        """
        if not 0 <= target <= 1:
            raise UserValueError.must("target", "be in [0, 1]", target)
        reached = self.accuracy if level is None else _lower(self.counts, level)
        enough = np.flatnonzero(reached >= target)
        return self._point(int(enough[-1]) if len(enough) else 0, 0.95 if level is None else level)

    def _point(self, index: int, level: float) -> Coverage:
        threshold, coverage, accuracy = (float(c[index]) for c in (self.threshold, self.coverage, self.accuracy))
        lower = float(_lower(self.counts[index : index + 1], level)[0])
        return Coverage(threshold, coverage, accuracy, lower, round(float(self.counts[index, 0])))


def _lower(counts: Floats, level: float) -> Floats:
    """One-sided lower bound of a binomial share; nothing seen gives 0."""
    from scipy.special import betaincinv

    if not 0 < level < 1:
        raise UserValueError.must("level", "be in (0, 1)", level)
    total, right = counts.T
    some = right > 0
    bound = np.zeros(len(counts))
    bound[some] = betaincinv(right[some], (total - right)[some] + 1, 1 - level)
    return bound


def coverage_curve(y: Any, predicted: Any, confidence: Any, *, sample_weight: Any = None) -> CoverageCurve:
    """Coverage c(t) and selective accuracy a(t) of answering when the confidence is at least t.

    Parameters
    ----------
    y, predicted : arrays of shape (n,), n >= 1
        True and predicted labels.
    confidence : array of shape (n,)
        Finite numbers, for example the largest class probability.
    sample_weight : array of shape (n,), optional
        Weights of the rows, >= 0.

    Raises
    ------
    UserValueError
        Columns that do not fit, a confidence that is not finite.

    Notes
    -----
    Cost one sort. Source: Chow (1970); El-Yaniv and Wiener (2010).

    Examples
    --------
    >>> curve = coverage_curve([1, 1, 1, 1], [1, 1, 0, 1], [0.9, 0.8, 0.6, 0.5])
    >>> curve.coverage.tolist(), curve.accuracy.round(3).tolist()
    ([0.0, 0.25, 0.5, 0.75, 1.0], [1.0, 1.0, 1.0, 0.667, 0.75])
    >>> curve.at_accuracy(1.0).coverage, curve.at_accuracy(0.7).coverage
    (0.5, 1.0)
    """
    return curve_of(Ranking(confidence, hits(y, predicted), sample_weight))


def curve_of(ranking: Ranking) -> CoverageCurve:
    """The curve of a `Ranking` of right (positive) and wrong answers by confidence, merged or not."""
    right, wrong = ranking.cumulative()
    if not len(right):
        raise UserValueError("sample_weight must have at least one positive entry", "sample_weight")
    answered = right + wrong
    squares = ranking.sums[:, 2:].sum(axis=1).cumsum()
    effective = answered**2 / squares  # Kish's number of rows; the number itself for equal weights
    counts = np.stack([effective, effective * right / answered], axis=1)
    return CoverageCurve(
        np.append(math.inf, ranking.levels),
        np.append(0.0, answered / answered[-1]),
        np.append(1.0, right / answered),
        np.concatenate([np.zeros((1, 2)), counts]),
    )


def coverage_at_accuracy(
    y: Any, predicted: Any, confidence: Any, target: float, *, level: float | None = None, sample_weight: Any = None
) -> Coverage:
    """Largest coverage whose accuracy on the answered rows is at least the target; see `CoverageCurve.at_accuracy`.

    Examples
    --------
    >>> coverage_at_accuracy([1, 1, 1, 1], [1, 1, 0, 1], [0.9, 0.8, 0.6, 0.5], 1.0).coverage
    0.5
    """
    return coverage_curve(y, predicted, confidence, sample_weight=sample_weight).at_accuracy(target, level=level)


def fit_threshold(
    y: Any, predicted: Any, confidence: Any, target: float, *, level: float | None = None, sample_weight: Any = None
) -> float:
    """The threshold of `coverage_at_accuracy`; choose it on validation rows alone. inf: answer nothing.

    Examples
    --------
    >>> fit_threshold([1, 1, 1, 1], [1, 1, 0, 1], [0.9, 0.8, 0.6, 0.5], 1.0)
    0.8
    """
    return coverage_at_accuracy(y, predicted, confidence, target, level=level, sample_weight=sample_weight).threshold


class RejectOption:
    """A fitted classifier that answers only when its largest class probability is at least a threshold.

    Parameters
    ----------
    model : object with ``predict_proba`` and ``classes_``
        Fitted.
    threshold : float in [0, inf], default 0
        0 answers everything.
    reject : label, optional
        What stands for a refusal; None gives None in an array of objects. No class of the model.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> careful = RejectOption(LogisticRegression(max_iter=1000).fit(X, y), 0.9, reject=-1)
    >>> sorted(set(careful.predict(X).tolist()))
    [-1, 0, 1, 2]
    """

    def __init__(self, model: Any, threshold: float = 0.0, *, reject: Any = None) -> None:
        if not (hasattr(model, "predict_proba") and hasattr(model, "classes_")):
            raise UserTypeError(
                f"model must be a fitted classifier with probabilities, got a {type(model).__name__}", "model"
            )
        if not threshold >= 0:
            raise UserValueError.must("threshold", "be at least 0", threshold)
        if reject is not None and reject in np.asarray(model.classes_).tolist():
            raise UserValueError(f"reject must be a label that is not a class, got {reject!r}", "reject")
        self.model, self.threshold, self.reject = model, float(threshold), reject

    def fit(self, X: Any, y: Any, *, accuracy: float, level: float | None = None) -> Self:
        """Choose the threshold of largest coverage at a required accuracy, on rows the model was not fitted to."""
        labels, confidence = self._answers(X)
        self.threshold = fit_threshold(y, labels, confidence, accuracy, level=level)
        return self

    def predict(self, X: Any) -> Array:
        """Labels, and `reject` where the model refuses, shape (n,)."""
        labels, confidence = self._answers(X)
        kind = object if self.reject is None else np.result_type(labels, np.asarray(self.reject))
        answers = labels.astype(kind)
        answers[confidence < self.threshold] = self.reject
        return answers

    def evaluate(self, X: Any, y: Any) -> dict[str, Score]:
        """Coverage and selective accuracy, always both."""
        labels, confidence = self._answers(X)
        right, answered = hits(y, labels), confidence >= self.threshold
        space = Labels().space(len(self.model.classes_))
        coverage = Score.from_pointwise(answered.astype(float), name="coverage", unit="fraction", data_space=space)
        rows, name = np.flatnonzero(answered), "selective_accuracy"
        if not len(rows):
            note = "nothing is answered: 1 by convention"
            return {
                "coverage": coverage,
                name: Score(1.0, math.nan, unit="fraction", data_space=space, name=name, note=note),
            }  # fmt: skip
        accuracy = Score.from_pointwise(
            right[rows].astype(float), name=name, unit="fraction", data_space=space, rows=rows
        )
        return {"coverage": coverage, name: accuracy}

    def _answers(self, X: Any) -> tuple[Array, NDArray[np.float64]]:
        proba = probabilities(self.model.predict_proba(X))
        return np.asarray(self.model.classes_)[proba.argmax(axis=1)], proba.max(axis=1)
