"""What always runs beside the systems: the simplest answer to each task, and its scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor

from gnomon.distributions.domains import Labels, Real
from gnomon.evaluation.score import Score
from gnomon.system.prediction import regression_scores
from gnomon.systems.mixtures.bernoulli_mixture import BernoulliMixture
from gnomon.systems.text.ngram import NGram
from gnomon.tasks.represent import Raw

__all__ = ["ClassShares", "DiagonalGaussian", "MeanTarget", "OneCluster", "baseline"]


class DiagonalGaussian:
    """Independent Gaussian columns with the data's means and variances (divisor n); NaN is left out."""

    title = "diagonal Gaussian"

    def fit(self, X: Any, y: Any = None) -> DiagonalGaussian:
        """Means and variances of the columns."""
        X = np.asarray(X, dtype=np.float64)
        self.mean, self.variance = np.nanmean(X, axis=0), np.nanvar(X, axis=0)
        self.variance = np.maximum(self.variance, 1e-12 * max(float(self.variance.max()), 1e-300))
        self.n_parameters = 2 * X.shape[1]
        return self

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Mean log density in nats per row."""
        X = np.asarray(X, dtype=np.float64)
        columns = -0.5 * (math.log(2 * math.pi) + np.log(self.variance) + (X - self.mean) ** 2 / self.variance)
        space = Real().space(X.shape[1])
        return {"log_likelihood": Score.from_pointwise(np.nansum(columns, axis=1), data_space=space)}


class ClassShares:
    """Every row gets the classes' shares in training; scikit-learn's ``DummyClassifier``."""

    title = "class shares"

    def fit(self, X: Any, y: Any = None) -> ClassShares:
        """Shares of the classes."""
        self.dummy = DummyClassifier(strategy="prior").fit(X, y)
        self.n_parameters = len(self.dummy.classes_) - 1
        return self

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Accuracy and mean log-likelihood of the labels."""
        known, codes = Labels().locate(y, self.dummy.classes_, n=len(X))
        shares = self.dummy.predict_proba(X)[:1]
        right = known & (codes == shares[0].argmax())
        space = Labels().space(len(self.dummy.classes_))
        log_p = np.where(known, np.log(shares[0])[codes], -np.inf)
        return {
            "accuracy": Score.from_pointwise(right.astype(float), name="accuracy", unit="share", data_space=space),
            "log_likelihood": Score.from_pointwise(log_p, data_space=space),
        }


class MeanTarget:
    """Every row gets the mean of the target in training; scikit-learn's ``DummyRegressor``."""

    title = "mean"
    n_parameters = 1

    def fit(self, X: Any, y: Any = None) -> MeanTarget:
        """The mean."""
        self.dummy = DummyRegressor(strategy="mean").fit(X, y)
        return self

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Squared error, absolute error and R^2."""
        return regression_scores(np.asarray(y, np.float64), self.dummy.predict(X))


class OneCluster:
    """All rows in one cluster."""

    title = "one cluster"
    n_parameters = 0

    def fit(self, X: Any, y: Any = None) -> OneCluster:
        """There is nothing to learn."""
        return self

    def predict(self, X: Any) -> Any:
        """Zeros."""
        return np.zeros(len(X), dtype=np.int64)


def baseline(task: str, form: str) -> tuple[str, Any]:
    """Title and unfitted baseline of a task on data of a form."""
    if task == "cluster":
        return OneCluster.title, OneCluster()
    if task == "represent":
        return Raw.title, Raw()
    if task == "classify":
        return ClassShares.title, ClassShares()
    if task == "regress":
        return MeanTarget.title, MeanTarget()
    if task == "language":
        return "unigram", NGram(n=1, smoothing="additive", random_state=0)
    if form == "binary":
        return "independent Bernoulli", BernoulliMixture(n_components=1, random_state=0)
    return DiagonalGaussian.title, DiagonalGaussian()
