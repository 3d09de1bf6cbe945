"""The confusion matrix: what was predicted of what, from which every score of decisions follows with its error."""

from __future__ import annotations

import math
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from gnomon.contracts import Group
from gnomon.distributions.domains import Labels
from gnomon.errors import UserValueError, nearest
from gnomon.evaluation._inputs import Array, Floats, codes_of, pair, weights
from gnomon.evaluation.score import Score

__all__ = ["Average", "ConfusionMatrix", "confusion_matrix"]

Average = Literal["macro", "micro", "weighted"]


class ConfusionMatrix:
    r"""Weights of the rows by true class (row of the matrix) and predicted class (column), fed piece by piece.

    Everything is a sum over examples, so that matrices of several chunks or processes are added. A score that is a
    function g of the matrix N (homogeneous of degree 0) has the standard error over examples
    :math:`\sqrt{n/(n-1) \sum_{ij} S_{ij} (\partial g / \partial N_{ij})^2}`, S the sums of squared weights; for the
    accuracy that is the textbook error of a mean.

    Parameters
    ----------
    classes : array of shape (k,)
        The labels, in the order of rows and columns.

    Attributes
    ----------
    weight, squares : arrays of shape (k, k)
        Sums of the weights and of their squares.
    n : int
        Rows of positive weight.

    Notes
    -----
    Cost O(n) per update, O(k^2) per score. Source of the errors: delta method; Efron and Tibshirani (1993), chapter 21.

    Examples
    --------
    >>> matrix = ConfusionMatrix(["no", "yes"]).update(["yes", "no", "yes", "no"], ["yes", "no", "no", "no"])
    >>> matrix.weight.tolist()
    [[2.0, 0.0], [1.0, 1.0]]
    >>> print(matrix.accuracy())
    0.75 ± 0.25 exact fraction
    """

    def __init__(self, classes: ArrayLike) -> None:
        self.classes = np.asarray(classes)
        if self.classes.ndim != 1 or not len(self.classes):
            raise UserValueError.must("classes", "be a list of labels", self.classes)
        if len(set(self.classes.tolist())) < len(self.classes):
            raise UserValueError("classes must be different from each other", "classes")
        k = len(self.classes)
        self.weight, self.squares, self.n = np.zeros((k, k)), np.zeros((k, k)), 0

    def update(self, y: Any, predicted: Any, sample_weight: Any = None) -> Self:
        """Add rows.

        Parameters
        ----------
        y, predicted : arrays of shape (n,)
            True and predicted labels.
        sample_weight : array of shape (n,), optional

        Raises
        ------
        UserValueError
            A label that is none of the classes, with its row; columns of two lengths.
        """
        codes = codes_of(y, self.classes)
        others = codes_of(predicted, self.classes, n=len(codes), name="predicted")
        return self._count(codes, others, weights(sample_weight, len(codes)))

    def _count(self, codes: Array, predicted: Array, weight: Floats | None) -> Self:
        k = len(self.classes)
        cells = codes * k + predicted
        counts = np.bincount(cells, minlength=k * k).reshape(k, k)
        if weight is None:
            self.weight, self.squares, self.n = self.weight + counts, self.squares + counts, self.n + len(codes)
            return self
        self.weight = self.weight + np.bincount(cells, weight, k * k).reshape(k, k)
        self.squares = self.squares + np.bincount(cells, weight * weight, k * k).reshape(k, k)
        self.n += int(np.count_nonzero(weight))
        return self

    def merge(self, other: ConfusionMatrix) -> Self:
        """Add the rows of another matrix of the same classes."""
        if not np.array_equal(self.classes, other.classes):
            raise UserValueError("both matrices must have the same classes", "merge")
        self.weight, self.squares = self.weight + other.weight, self.squares + other.squares
        self.n += other.n
        return self

    def across(self, group: Group) -> ConfusionMatrix:
        """The matrix of the rows of all processes; every process calls this."""
        whole = ConfusionMatrix(self.classes)
        whole.weight, whole.squares, whole.n = group.sum((self.weight, self.squares, self.n))
        return whole

    def __repr__(self) -> str:
        return f"ConfusionMatrix({len(self.classes)} classes, {self.n} rows)"

    def __str__(self) -> str:
        """Rows are true classes, columns predicted ones."""
        labels = [str(label) for label in self.classes.tolist()]
        cells = [[f"{value:.12g}" for value in row] for row in self.weight.tolist()]
        table = [["true \\ predicted", *labels], *([label, *row] for label, row in zip(labels, cells, strict=True))]
        widths = [max(len(row[j]) for row in table) for j in range(len(labels) + 1)]
        return "\n".join("  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in table)

    # --- scores -------------------------------------------------------------------------------------------------

    def accuracy(self) -> Score:
        """Fraction of right predictions."""
        total = self._total()
        value = float(np.trace(self.weight)) / total
        slope, trials = (np.eye(len(self.classes)) - value) / total, total**2 / float(self.squares.sum())
        return self._score("accuracy", value, slope, trials=trials)

    def error_rate(self) -> Score:
        """Fraction of wrong predictions: 1 - accuracy."""
        right = self.accuracy()
        return Score(
            1 - right.value, right.stderr, unit="fraction", data_space=right.data_space, name="error_rate",
            higher_is_better=False, n=self.n, trials=right.trials,
        )  # fmt: skip

    def precision(
        self, positive: Any = None, *, average: Average | None = None, zero_division: float = math.nan
    ) -> Score:
        """TP / (TP + FP): how much of what was reported is right; see `gnomon.evaluation.decisions.precision`."""
        return self._ratio("precision", (1.0, 0.0, 1.0), positive, average, zero_division)

    def recall(self, positive: Any = None, *, average: Average | None = None, zero_division: float = math.nan) -> Score:
        """TP / (TP + FN): how much of what is there was reported; see `gnomon.evaluation.decisions.recall`."""
        return self._ratio("recall", (1.0, 1.0, 0.0), positive, average, zero_division)

    def f_score(
        self,
        positive: Any = None,
        *,
        beta: float = 1.0,
        average: Average | None = None,
        zero_division: float = math.nan,
    ) -> Score:
        """(1 + b^2) TP / ((1 + b^2) TP + b^2 FN + FP); see `gnomon.evaluation.decisions.f_score`."""
        if not 0 <= beta < math.inf:
            raise UserValueError.must("beta", "be finite and at least 0", beta)
        square = float(beta) ** 2
        return self._ratio(f"f{beta:g}", (1 + square, square, 1.0), positive, average, zero_division)

    def cost(self, cost: ArrayLike, *, mean: bool = False) -> Score:
        """sum_ij C_ij N_ij, or its mean per row; C has true classes as rows.

        Raises
        ------
        UserValueError
            A matrix of another shape, or one that is not finite.
        """
        table = np.asarray(cost, dtype=np.float64)
        if table.shape != self.weight.shape or not np.isfinite(table).all():
            shape = self.weight.shape
            raise UserValueError(f"cost must be finite numbers of shape {shape}, got shape {table.shape}", "cost")
        total = self._total()
        value = float((table * self.weight).sum()) / total
        score = self._score("mean_cost", value, (table - value) / total, unit="cost per row", higher_is_better=False)
        if mean:
            return score
        return Score(
            value * total, score.stderr * total, unit="cost", data_space=score.data_space, name="total_cost",
            higher_is_better=False, n=self.n,
        )  # fmt: skip

    # --- the arithmetic -----------------------------------------------------------------------------------------

    def _total(self) -> float:
        total = float(self.weight.sum())
        if not total > 0:
            raise UserValueError("no rows were counted", "ConfusionMatrix", "update it with at least one row")
        return total

    def _score(self, name: str, value: float, slope: Floats, note: str = "", **options: Any) -> Score:
        stderr = math.nan
        if self.n > 1 and math.isfinite(value):
            stderr = math.sqrt(self.n / (self.n - 1) * float((self.squares * slope**2).sum()))
        settings = {"unit": "fraction", "data_space": Labels().space(len(self.classes)), **options}
        return Score(value, stderr, name=name, n=self.n, note=note, **settings)

    def _ratio(
        self, name: str, form: tuple[float, float, float], positive: Any, average: Average | None, zero: float
    ) -> Score:
        """Scores a TP / (r true + c predicted), of one class or averaged over all."""
        self._total()
        if math.isfinite(zero) and not 0 <= zero <= 1:
            raise UserValueError.must("zero_division", "be 0, 1 or nan", zero)
        if average is None:
            return self._of_one(name, form, self._place(positive), zero)
        if positive is not None:
            raise UserValueError("positive and average exclude each other", "positive", "leave out one of them")
        if average == "micro":
            return self._micro(name, form)
        if average in ("macro", "weighted"):
            return self._averaged(name, form, average, zero)
        close = nearest(str(average), ("macro", "micro", "weighted"))
        remedy = f"did you mean {close[0]!r}?" if close else "choose from macro, micro, weighted"
        raise UserValueError(f"unknown average {average!r}", "average", remedy)

    def _place(self, positive: Any) -> int:
        """Which class is asked for; of 0 and 1, False and True, -1 and 1, the larger."""
        labels = self.classes.tolist()
        if positive is None:
            if set(labels) <= {0, 1} or set(labels) <= {-1, 1}:
                return labels.index(1) if 1 in labels else -1
            listed = ", ".join(map(repr, labels[:6]))
            raise UserValueError(f"positive or average is required for the classes {listed}", "positive")
        if positive in labels:
            return labels.index(positive)
        return -1

    def _parts(self, form: tuple[float, float, float]) -> tuple[Floats, Floats, Floats]:
        """Values (nan where undefined), numerators' slopes and inverse denominators of all classes."""
        a, r, c = form
        below = r * self.weight.sum(axis=1) + c * self.weight.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return (
                a * np.diag(self.weight) / below,
                np.where(below > 0, a / below, 0.0),
                np.where(below > 0, 1 / below, 0.0),
            )

    def _slope(self, form: tuple[float, float, float], weights: Floats) -> tuple[Floats, Floats]:
        """Values by class, and the derivative of sum_j weight_j value_j with respect to the matrix."""
        value, above, inverse = self._parts(form)
        lost = np.where(np.isnan(value), 0.0, value) * inverse * weights
        slope = np.diag(above * weights) - form[1] * lost[:, None] - form[2] * lost[None, :]
        return value, slope

    def _of_one(self, name: str, form: tuple[float, float, float], j: int, zero: float) -> Score:
        one = np.zeros(len(self.classes))
        if j < 0:  # a class that no row has and no prediction names
            return self._score(name, float(zero), np.diag(one), _why(name, math.isnan(zero)))
        one[j] = 1
        value, slope = self._slope(form, one)
        if np.isnan(value[j]):
            return self._score(name, float(zero), np.diag(one * 0), _why(name, math.isnan(zero)))
        return self._score(name, float(value[j]), slope, trials=self._trials(form, j))

    def _trials(self, form: tuple[float, float, float], j: int) -> float:
        """Rows behind precision (what was predicted) and recall (what is there); 0 of a score of both."""
        _, rows, columns = form
        if rows and columns:
            return 0.0
        axis = (slice(None), j) if columns else (j, slice(None))
        squares = float(self.squares[axis].sum())
        return float(self.weight[axis].sum()) ** 2 / squares if squares else 0.0

    def _micro(self, name: str, form: tuple[float, float, float]) -> Score:
        """All classes counted together: with one label per row, the accuracy."""
        right = self.accuracy()
        return Score(
            right.value, right.stderr, unit="fraction", data_space=right.data_space, name=f"micro_{name}", n=self.n,
            trials=right.trials,
        )  # fmt: skip

    def _averaged(self, name: str, form: tuple[float, float, float], average: str, zero: float) -> Score:
        total, truth = self._total(), self.weight.sum(axis=1)
        value = self._parts(form)[0]
        left_out = np.isnan(value) if math.isnan(zero) else np.zeros(len(value), bool)
        weights = np.where(left_out, 0.0, 1.0 if average == "macro" else truth / total)
        mass = float(weights.sum())
        title = f"{average}_{name}"
        if not mass > 0:
            return self._score(title, math.nan, np.zeros_like(self.weight), _why(name, True))
        weights = weights / mass
        filled = np.where(np.isnan(value), 0.0 if math.isnan(zero) else zero, value)
        mean = float((weights * filled).sum())
        slope = self._slope(form, weights)[1]
        if average == "weighted":  # the shares are themselves sums over rows
            slope = slope + np.where(left_out, 0.0, (filled - mean) / (mass * total))[:, None]
        note = f"left out without a value: {int(left_out.sum())} of {len(value)} classes" if left_out.any() else ""
        agree = mean in (0, 1)  # of all rows: their spread of 0 says nothing of how few they are
        return self._score(title, mean, slope, note, trials=self._trials_of_all(form, weights) if agree else 0.0)

    def _trials_of_all(self, form: tuple[float, float, float], weights: Floats) -> float:
        """Rows of one class that tell as much as those of all; 0 where a class has none.

        The variance of an average of proportions p is p (1 - p) sum_k w_k^2 / n_k.
        """
        one = (form[0], 1.0, 0.0) if form[1] and form[2] else form
        counted = [(w, self._trials(one, j)) for j, w in enumerate(weights) if w > 0]
        return 1 / sum(w * w / n for w, n in counted) if all(n > 0 for _, n in counted) else 0.0


def _why(name: str, undefined: bool) -> str:
    missing = {"precision": "nothing was predicted", "recall": "no row is"}.get(
        name, "no row is, nothing was predicted"
    )
    return f"{missing} of this class: 0/0" + (" is undefined" if undefined else " by zero_division")


def confusion_matrix(y: Any, predicted: Any, *, sample_weight: Any = None) -> ConfusionMatrix:
    """The confusion matrix of the classes that occur in either column.

    Parameters
    ----------
    y, predicted : arrays of shape (n,), n >= 1
        True and predicted labels: text, whole numbers or truth values.
    sample_weight : array of shape (n,), optional
        Weights of the rows, >= 0.

    Raises
    ------
    UserValueError
        Columns that are empty, of two lengths or two kinds; a table in place of a column.

    Examples
    --------
    >>> print(confusion_matrix([0, 1, 1], [0, 1, 0]))
    true \\ predicted  0  1
                   0  1  0
                   1  1  1
    """
    classes, codes, others = pair(y, predicted)
    return ConfusionMatrix(classes)._count(codes, others, weights(sample_weight, len(codes)))
