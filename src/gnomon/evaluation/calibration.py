"""Whether probabilities mean what they say: reliability by bins, expected calibration error, temperature scaling."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import logsumexp, softmax

from gnomon.contracts import Group
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation._inputs import Array, Floats, codes_of, numbers, probabilities, weights
from gnomon.evaluation.curves import flags
from gnomon.evaluation.score import Score

__all__ = ["Reliability", "TemperatureScaler", "confidence", "reliability"]


def confidence(proba: ArrayLike) -> Floats:
    """The largest class probability of each row, shape (n,): maximum likelihood overstates it, but it still ranks.

    Examples
    --------
    >>> confidence([[0.2, 0.8], [0.5, 0.5]]).tolist()
    [0.8, 0.5]
    """
    return probabilities(proba).max(axis=1)


class Reliability:
    r"""Stated probability against what came true, in bins of equal width, fed piece by piece.

    The expected calibration error is :math:`\sum_b (n_b/n) |acc_b - conf_b|`. It is never 0 on a finite sample: what
    perfectly calibrated probabilities would show on average is `chance`, and grows with the number of bins.

    Parameters
    ----------
    bins : int in [1, inf), default 10
        A value on an edge belongs to the lower bin, as in scikit-learn's ``calibration_curve``.

    Attributes
    ----------
    sums : array of shape (7, bins)
        Sums over the rows of each bin, which are added over chunks and processes: w, w p, w hit, w^2, w^2 d, w^2 d^2
        and w^2 p (1 - p), with d = hit - p.
    n : int
        Rows of positive weight.

    Notes
    -----
    Cost O(n) per update. Source: DeGroot and Fienberg (1983); Guo, Pleiss, Sun and Weinberger (2017).

    Examples
    --------
    >>> meter = Reliability(bins=2).update([0.25, 0.25, 0.75, 0.75], [False, True, True, True])
    >>> meter.stated.tolist(), meter.observed.tolist(), meter.score().value
    ([0.25, 0.75], [0.5, 1.0], 0.25)
    """

    def __init__(self, bins: int = 10) -> None:
        if not isinstance(bins, int | np.integer) or isinstance(bins, bool):
            raise UserTypeError.must("bins", "be a whole number", bins)
        if bins < 1:
            raise UserValueError.must("bins", "be at least 1", bins)
        self.edges = np.linspace(0.0, 1.0, int(bins) + 1)
        self.sums, self.n = np.zeros((7, int(bins))), 0

    def update(self, stated: Any, hit: Any, sample_weight: Any = None) -> Self:
        """Add rows: a probability, and whether what it was given to came true."""
        p = numbers(stated, "probability").astype(np.float64, copy=False)
        hit = np.asarray(hit)
        if hit.dtype != bool or hit.shape != p.shape:
            raise UserValueError(f"hit must be True or False per row, got {hit.dtype} of shape {hit.shape}", "hit")
        if p.min() < 0 or p.max() > 1:
            row = int(np.argmax((p < 0) | (p > 1)))
            raise UserValueError.must("probabilities", "be in [0, 1]", p[row], f"row {row}")
        given = weights(sample_weight, len(p))
        w = np.ones(len(p)) if given is None else given
        index = np.searchsorted(self.edges[1:-1], p)
        d, square = hit - p, w * w
        columns = (w, w * p, w * hit, square, square * d, square * d * d, square * p * (1 - p))
        bins = len(self.edges) - 1
        self.sums = self.sums + np.stack([np.bincount(index, column, bins) for column in columns])
        self.n += int(np.count_nonzero(w))
        return self

    def merge(self, other: Reliability) -> Self:
        """Add the rows of another meter with the same bins."""
        if self.sums.shape != other.sums.shape:
            raise UserValueError(
                f"both must have the same bins, got {len(other.edges) - 1} and {len(self.edges) - 1}", "merge"
            )
        self.sums, self.n = self.sums + other.sums, self.n + other.n
        return self

    def across(self, group: Group) -> Reliability:
        """The meter of the rows of all processes; every process calls this."""
        whole = Reliability(len(self.edges) - 1)
        whole.sums, whole.n = group.sum((self.sums, self.n))
        return whole

    @property
    def weight(self) -> Floats:
        """Weight of the rows of each bin."""
        return self.sums[0]

    @property
    def stated(self) -> Floats:
        """Mean probability in each bin; nan where it is empty."""
        return self._mean(1)

    @property
    def observed(self) -> Floats:
        """Share that came true in each bin; nan where it is empty."""
        return self._mean(2)

    def _mean(self, row: int) -> Floats:
        return np.divide(self.sums[row], self.sums[0], out=np.full(self.sums.shape[1], np.nan), where=self.sums[0] > 0)

    @property
    def chance(self) -> float:
        """About what the error would be on average if the probabilities were right: sum_b sqrt(2 v_b / pi) / W."""
        return float(np.sqrt(2 / math.pi * self.sums[6]).sum()) / self._total()

    def _total(self) -> float:
        total = float(self.sums[0].sum())
        if not total > 0:
            raise UserValueError("no rows were counted", "Reliability", "update it with at least one row")
        return total

    def score(self, *, data_space: str = "") -> Score:
        """The expected calibration error, with its error over rows (delta method) and its chance level in `note`."""
        total = self._total()
        gap = self.sums[2] - self.sums[1]
        value, sign = float(np.abs(gap).sum()) / total, np.sign(gap)
        stderr = math.nan
        if self.n > 1:
            variance = self.sums[5].sum() - 2 * value * (sign * self.sums[4]).sum() + value**2 * self.sums[3].sum()
            stderr = math.sqrt(self.n / (self.n - 1) * max(float(variance), 0.0)) / total
        note = f"{len(gap)} bins; right probabilities would show about {self.chance:.2g}"
        return Score(
            value, stderr, kind="estimate", unit="fraction", data_space=data_space, name="calibration_error",
            higher_is_better=False, n=self.n, note=note,
        )  # fmt: skip


def reliability(
    y: Any, proba: ArrayLike, *, bins: int = 10, classes: Any = None, positive: Any = None, sample_weight: Any = None
) -> Reliability:
    """Reliability of class probabilities: of the largest one, or of one class's.

    Parameters
    ----------
    y : array of shape (n,)
        Labels: for a table places 0 ... k - 1 or labels of `classes`; for a column 0 and 1, or any with `positive`.
    proba : array of shape (n, k) or (n,)
        A table: the confidence is the largest probability, and a hit a right answer. A column: the probability of the
        positive class.
    bins : int in [1, inf), default 10
    classes : array of shape (k,), optional
        Labels of the columns of a table.
    positive : label, optional
    sample_weight : array of shape (n,), optional
        Weights of the rows, >= 0.

    Examples
    --------
    >>> meter = reliability([1, 0], [[0.1, 0.9], [0.9, 0.1]])
    >>> round(meter.score().value, 12)
    0.1
    """
    table = np.asarray(proba)
    if table.ndim == 1:
        return Reliability(bins).update(table, _same_length(flags(y, positive), len(table)), sample_weight)
    table = probabilities(table)
    known = np.arange(table.shape[1]) if classes is None else np.asarray(classes)
    if len(known) != table.shape[1]:
        raise UserValueError(f"classes must be {table.shape[1]}, one per column, got {len(known)}", "classes")
    right = codes_of(y, known, n=len(table)) == table.argmax(axis=1)
    return Reliability(bins).update(np.minimum(table.max(axis=1), 1.0), right, sample_weight)


def _same_length(hit: Array, n: int) -> Array:
    if len(hit) != n:
        raise UserValueError(f"y must be {n} labels, one per row, got {len(hit)}", "y")
    return hit


class TemperatureScaler:
    r"""One number that makes a classifier's confidence honest: softmax(logits / T), T by maximum likelihood.

    The arg max, and so the accuracy, never changes. Fit it on rows that the classifier was not fitted to. In 1/T the
    negative log-likelihood is convex; its derivative's root is found by bracketing.

    Attributes
    ----------
    temperature_ : float in (0, inf)
        Above 1 where the classifier was too sure.

    Notes
    -----
    Cost O(n k) per step, about 20 steps. Source: Guo, Pleiss, Sun and Weinberger (2017).

    Examples
    --------
    >>> scaler = TemperatureScaler().fit([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 0.0]], [0, 0, 1, 1])
    >>> round(scaler.temperature_, 4), scaler.transform([[4.0, 0.0]]).round(4).tolist()  # 3 of 4 are right
    (3.641, [[0.75, 0.25]])
    """

    temperature_: float

    def fit(self, logits: ArrayLike, y: Any, *, classes: Any = None, sample_weight: Any = None) -> Self:
        """Find the temperature.

        Parameters
        ----------
        logits : array of shape (n, k)
            Scores before the softmax, or log probabilities.
        y : array of shape (n,)
            Labels: places 0 ... k - 1, or labels of `classes`.
        classes : array of shape (k,), optional
        sample_weight : array of shape (n,), optional
            Weights of the rows, >= 0.

        Raises
        ------
        UserValueError
            No temperature is best: every answer is right (T = 0), or the scores know nothing (T = inf).
        """
        z = self._table(logits)
        codes = codes_of(y, np.arange(z.shape[1]) if classes is None else np.asarray(classes), n=len(z))
        weight = weights(sample_weight, len(z))
        own = np.average(z[np.arange(len(z)), codes], weights=weight)

        def slope(log_beta: float) -> float:
            mean = (softmax(math.exp(log_beta) * z, axis=1) * z).sum(axis=1)
            return float(np.average(mean, weights=weight) - own)

        low, high = -12.0, 12.0
        if slope(low) >= 0:
            raise UserValueError(
                "the scores of the correct classes are no higher than others", "logits", "check the labels"
            )
        if slope(high) <= 0:
            raise UserValueError(
                "every prediction is correct, so the likelihood has no maximum",
                "y",
                "give rows that were not trained on",
            )
        self.temperature_ = math.exp(-brentq(slope, low, high, xtol=1e-12))
        return self

    def transform(self, logits: ArrayLike) -> Floats:
        """Calibrated probabilities, shape (n, k)."""
        if not hasattr(self, "temperature_"):
            raise UserValueError("the temperature is not fitted", "TemperatureScaler", "call fit first")
        z = self._table(logits) / self.temperature_
        return np.exp(z - logsumexp(z, axis=1, keepdims=True))

    @staticmethod
    def _table(logits: ArrayLike) -> Floats:
        z = np.asarray(logits, dtype=np.float64)
        if z.ndim != 2 or not z.size or not np.isfinite(z).all():
            raise UserValueError.must("logits", "be finite numbers, one row per example", z)
        return z - z.max(axis=1, keepdims=True)
