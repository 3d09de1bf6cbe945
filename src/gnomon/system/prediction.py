"""Systems that predict y from X: classifiers and regressors, with their verbs and scores in one place."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import Tags

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.data.examples import Examples
from gnomon.distributions.arrays import plain, row_weights
from gnomon.distributions.domains import Labels, Real
from gnomon.distributions.targets import Target
from gnomon.errors import UserTypeError, UserValueError, counted
from gnomon.evaluation.confusion import ConfusionMatrix, confusion_matrix
from gnomon.evaluation.regression import r_squared, regression_scores
from gnomon.evaluation.score import Score
from gnomon.numeric.given import checked
from gnomon.numeric.noise import Noise, seed_of
from gnomon.numeric.ops import log_softmax
from gnomon.system.base import System
from gnomon.system.verbs import verb

__all__ = ["Classifier", "DensityRegressor", "Labeled", "Regressor", "without_nan"]

MOST_CLASSES = 2000
"""Classes up to which `Classifier.evaluate` counts who was taken for whom: the table has their square."""

Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]


class Labeled(System):
    """Base of the systems that learn from rows with labels. ``Examples.y`` holds the place of each in ``classes_``.

    `make` is given ``n_classes`` beside ``n_features`` and ``dtype``.
    """

    labeled: ClassVar[bool] = True

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        examples = super().ingest(X, None, sample_weight)
        self.classes_, codes = Labels().encode(y, n=len(examples.X))
        return examples.replace(y=codes)

    def arguments(self, examples: Examples) -> dict[str, Any]:
        return super().arguments(examples) | {"n_classes": len(self.classes_)}

    def encode_target(self, y: Any, rows: Floats) -> np.ndarray[Any, Any]:
        known, codes = Labels().locate(y, self.classes_, n=len(rows))
        if not known.all():
            label, row = _first_label(y, known)
            raise UserValueError(f"class {label!r} is in no training row", f"row {row}", "add rows of it, or drop it")
        return codes


class Classifier(ClassifierMixin, Labeled):
    """Base of the systems that predict a class. ``Examples.y`` holds the place of each label in ``classes_``.

    A subclass's model has ``scores(x)``, shape (n, n_classes), whose softmax are the probabilities, of tensors where it
    is a `gnomon.nn.module.Module`, else of arrays; or the subclass
    gives `class_log_proba` (and `class_proba`, `class_codes` where these are not its exponential and its arg max).
    `make` is given ``n_classes`` beside ``n_features`` and ``dtype``.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, sorted, in the dtype in which they were given.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classify",)
    primary: ClassVar[str] = "accuracy"
    has_probabilities: ClassVar[bool] = True
    """Whether the system has probabilities; one without them says `class_codes`."""

    # --- what a subclass may say --------------------------------------------------------------------------------

    def class_log_proba(self, rows: Floats) -> Floats:
        """Log probabilities of the classes, shape (n, n_classes)."""
        model = self.model_
        scores: Floats = model.ask("scores", rows) if hasattr(model, "ask") else model.scores(rows)
        return log_softmax(scores, 1)

    def class_proba(self, rows: Floats) -> Floats:
        """Probabilities of the classes, shape (n, n_classes)."""
        proba: Floats = np.exp(self.class_log_proba(rows))
        return proba

    def class_codes(self, rows: Floats) -> np.ndarray[Any, Any]:
        """Places of the predicted classes, shape (n,); ties go to the first."""
        return np.argmax(without_nan(self.class_log_proba(rows)), axis=1)

    def _states_frequencies(self) -> bool:
        """Whether probabilities are shares of a few training rows: a 0 then says only that none of them was there."""
        return False

    # --- fit ----------------------------------------------------------------------------------------------------

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        examples = super().ingest(X, y, sample_weight)
        if len(self.classes_) < 2:
            raise UserValueError(
                f"y must hold at least 2 classes, got only one class, {self.classes_.tolist()[0]!r}", "y"
            )
        return examples

    # --- verbs --------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> Array:
        """The likeliest class of each row, shape (n,); ties go to the first."""
        codes = self.class_codes(self._rows(X))
        return self.classes_[codes]

    @verb
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes in the order of ``classes_``, shape (n, n_classes)."""
        return without_nan(self.class_proba(self._rows(X)))

    @verb
    def predict_log_proba(self, X: Any) -> Array:
        """Log probabilities of the classes, shape (n, n_classes)."""
        return without_nan(self.class_log_proba(self._rows(X)))

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Accuracy, mean log-likelihood of the labels (nats per row) where there are probabilities, and macro F1.

        Macro F1 is the plain mean of the classes' F-scores, over the classes that occur or are predicted. A class
        unknown to the fit counts as wrong, has no probability, and is named in the scores' note. Where probabilities
        are shares of training rows, as in leaves of trees, one of 0 for the true class makes the log-likelihood
        undefined.
        """
        rows = self._rows(X)
        known, codes = Labels().locate(y, self.classes_, n=len(rows))
        space, note = Labels().space(len(self.classes_)), _unknown(y, known)
        chosen = self.class_codes(rows)
        right = (known & (chosen == codes)).astype(np.float64)
        scores = [Score.from_pointwise(right, name="accuracy", unit="fraction", data_space=space, note=note)]
        if self.has_probabilities:
            log_p = self.class_log_proba(rows)[np.arange(len(rows)), codes].astype(np.float64)
            scores.append(self._log_score(np.where(known, log_p, -np.inf), space, note))
        matrix = confusion_matrix(np.where(known, codes, len(self.classes_)), chosen)
        if len(matrix.classes) <= MOST_CLASSES:
            averaged = matrix.f_score(average="macro")
            scores.append(replace(averaged, name="macro_f1", data_space=space, note=note or averaged.note))
        return {score.name: score for score in scores}

    def _log_score(self, log_p: Floats, space: str, note: str) -> Score:
        """Mean log-likelihood of the labels; undefined where a frequency of 0 decides it (docs/decisions/0032)."""
        zeros = int(np.isneginf(log_p).sum())
        if note or not (zeros and self._states_frequencies()):
            return Score.from_pointwise(log_p, data_space=space, note=note)
        why = f"undefined: {counted(zeros, 'row')} of {len(log_p)} fell among training rows of other classes alone"
        return Score(math.nan, math.nan, data_space=space, n=len(log_p), note=why)

    def confusion_matrix(self, X: Any, y: Any, sample_weight: Any = None) -> ConfusionMatrix:
        """What was predicted of what: true classes as rows, predicted ones as columns.

        Raises
        ------
        UserValueError
            A class that the fit has not seen.
        """
        rows = self._rows(X)
        self.encode_target(y, rows)
        return ConfusionMatrix(self.classes_).update(y, self.classes_[self.class_codes(rows)], sample_weight)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy; a class unknown to the fit counts as wrong."""
        rows = self._rows(X)
        known, codes = Labels().locate(y, self.classes_, n=len(rows))
        right = known & (self.class_codes(rows) == codes)
        return float(np.average(right, weights=row_weights(sample_weight, len(right), np.float64)))


def without_nan(scores: Floats) -> Floats:
    """Scores (n, classes) as they are; a row of NaN, which an arg max would give the first class, is refused."""
    lost = np.isnan(scores).any(axis=1)
    if lost.any():
        what = "scores of the classes must be numbers, got nan"
        remedy = "bring the row's values into the range of the training rows"
        raise UserValueError(what, f"row {int(lost.argmax())}", remedy)
    return scores


def _unknown(y: Any, known: np.ndarray[Any, Any]) -> str:
    """What a score says of labels that the fit has not seen."""
    if known.all():
        return ""
    label, row = _first_label(y, known)
    n = int((~known).sum())
    verb = "counts" if n == 1 else "count"
    return f"{counted(n, 'row')} of a class unknown to the fit, first {label!r} in row {row}, {verb} as wrong"


def _first_label(y: Any, known: np.ndarray[Any, Any]) -> tuple[Any, int]:
    """The first label that is not known, and its row."""
    row = int(known.argmin())
    return plain(y, "y").ravel()[row : row + 1].tolist()[0], row


class Regressor(RegressorMixin, System):
    """Base of the systems that predict numbers. ``Examples.y`` holds them in float64, shape (n,) or (n, t).

    A subclass's model has ``predict(x)``, shape (n,) or (n, t); or the subclass gives `predict_rows`. One that takes
    several outputs sets `several`; its `make` is given ``n_outputs``, None where y has shape (n,).
    """

    tasks: ClassVar[tuple[str, ...]] = ("regress",)
    primary: ClassVar[str] = "squared_error"
    several: ClassVar[bool] = False
    """Whether y may have several columns."""
    target: ClassVar[Target] = Target()

    def predict_rows(self, rows: Floats) -> Floats:
        """Predicted numbers, shape (n,) or (n, t)."""
        return np.asarray(self.model_.predict(rows))

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        examples = super().ingest(X, None, sample_weight)
        y = self.target.check(y, n=len(examples.X), dtype=examples.X.dtype, several=self.several)
        return examples.replace(y=y)

    def arguments(self, examples: Examples) -> dict[str, Any]:
        arguments = super().arguments(examples)
        if self.several:
            assert examples.y is not None
            arguments["n_outputs"] = None if examples.y.ndim == 1 else examples.y.shape[1]
        return arguments

    def examples_of_chunk(self, rows: Any, y: Any, sample_weight: Any) -> Examples:
        """The examples of a chunk whose rows have been checked; the target must have the columns of the first chunk."""
        target = self.encode_target(y, rows)
        examples = Examples({"X": rows, "y": target}, row_weights(sample_weight, len(rows), rows.dtype))
        first = not hasattr(self, "model_")
        if not first and self.arguments(examples).get("n_outputs") != self.arguments_.get("n_outputs"):
            raise UserValueError(f"y must have the columns of the first chunk, got shape {target.shape}", "y")
        return examples

    def encode_target(self, y: Any, rows: Floats) -> Floats:
        target = self.target.check(y, n=len(rows), dtype=rows.dtype, several=self.several)
        outputs = getattr(self, "arguments_", {}).get("n_outputs", 0)
        if outputs in (None, 1) and _columns(target) == 1:
            return target.reshape((-1, 1) if outputs else -1)
        return target

    def predict(self, X: Any) -> Array:
        """Predicted numbers, shape (n,), or (n, t) where y had t columns."""
        return self.predict_rows(self._rows(X))

    def _pair(self, X: Any, y: Any) -> tuple[Floats, Floats]:
        """The target and its prediction in float64."""
        rows = self._rows(X)
        y = self.target.check(y, n=len(rows), several=self.several)
        predictions = np.asarray(self.predict_rows(rows), np.float64)
        if _columns(predictions) == _columns(y) == 1:  # a target of shape (n, 1) and one of shape (n,) say the same
            return y.reshape(predictions.shape), predictions
        if predictions.shape != y.shape:
            raise UserValueError(
                f"y must have the shape {predictions.shape} of the predictions, got {y.shape}",
                "y",
                "give the columns of the fit",
            )
        return y, predictions

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Squared error, absolute error and R^2: `regression_scores`."""
        return regression_scores(*self._pair(X, y))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R^2, as scikit-learn's regressors: 0 for a target that does not vary, NaN with a warning for one row."""
        y, found = self._pair(X, y)
        weight = None if sample_weight is None else row_weights(sample_weight, len(y), np.float64)
        return r_squared(y, found, sample_weight=weight)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.several
        return tags


def _columns(y: Floats) -> int:
    return 1 if y.ndim == 1 else y.shape[1]


class DensityRegressor(Regressor):
    """Base of the regressors that give the density p(y | x), and none of x: discriminative probabilistic models.

    A subclass says `target_distribution`, and `draw_targets` where the rows' targets hang together.
    """

    def target_distribution(self, rows: Floats) -> Any:
        """The distribution of y given each row: a family of batch shape (n,) or (n, t) with `mean` and `variance`."""
        raise NotImplementedError

    def draw_targets(self, rows: Floats, noise: contracts.Noise) -> Floats:
        """A target for every row."""
        targets: Floats = self.target_distribution(rows).sample(noise.child("target"))
        return targets

    @checked
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Expected y of each row, shape (n,) or (n, t); with `return_std` also its standard deviation, noise included.

        The deviation is infinite where the distribution has none.
        """
        rows = self._rows(X)
        return (
            (self.predict_rows(rows), np.sqrt(self.target_distribution(rows).variance))
            if return_std
            else self.predict_rows(rows)
        )

    def log_prob(self, X: Any, y: Any = None) -> Array:
        """Log density in nats of y given x, shape (n,); of several outputs the sum."""
        y, _ = self._pair(X, y)
        log_p: Floats = self.target_distribution(self._rows(X)).log_prob(y)
        return log_p.reshape(len(y), -1).sum(1)

    def log_likelihood(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Sum over rows of weight times log density of y given x, in nats."""
        values = self.log_prob(X, y)
        return float(np.matmul(row_weights(sample_weight, len(values), np.float64), values))

    def sample(self, X: Any, *, random_state: Any = None) -> Array:
        """Draw y for each row of X, shape (n,) or (n, t); two calls differ unless `random_state` is given.

        Raises
        ------
        UserTypeError
            A number of rows: the model has no density of x to draw them from.
        """
        if np.ndim(X) == 0 and not hasattr(X, "shape"):
            what = f"{self.name} is a model of y given x and cannot draw rows x"
            raise UserTypeError(what, "X", "give the rows: sample(X); a density of rows is gaussian-mixture, say")
        return self.draw_targets(self._rows(X), Noise(seed_of(random_state), "sample"))

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Squared error, absolute error, R^2, and the mean log density of y given x in nats per row."""
        scores = super().evaluate(X, y)
        space = Real().space(self.arguments_.get("n_outputs") or 1)
        return scores | {"log_likelihood": Score.from_pointwise(self.log_prob(X, y), data_space=space)}
