"""What fixed, simple classifiers make of a representation, and the representations that another must beat."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gnomon.distributions.domains import Labels
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.score import Score

__all__ = ["Principal", "Probe", "Raw"]

NEIGHBORS = 5
ITERATIONS = 2000


class Raw:
    """The columns as they are: what a representation must beat."""

    title = "raw features"
    n_parameters = 0

    def fit(self, X: Any, y: Any = None) -> Raw:
        """There is nothing to learn."""
        return self

    def transform(self, X: Any) -> Any:
        """X itself."""
        return np.asarray(X)


class Principal:
    """Principal components, missing values filled with the column's mean; scikit-learn's ``PCA``.

    Parameters
    ----------
    width : int
        Components, at most as many as rows and columns allow.
    """

    def __init__(self, width: int) -> None:
        self.width = width

    @property
    def title(self) -> str:
        """Its name on the leaderboard."""
        return f"pca ({self.width})"

    def fit(self, X: Any, y: Any = None) -> Principal:
        """Directions of the largest variance."""
        X = np.asarray(X, dtype=np.float64)
        self.width = min(self.width, *X.shape)
        self.steps = make_pipeline(SimpleImputer(keep_empty_features=True), PCA(self.width, svd_solver="full"))
        self.steps.fit(X)
        self.n_parameters = X.shape[1] * (self.width + 1)
        return self

    def transform(self, X: Any) -> Any:
        """Coordinates along the directions, shape (n, width)."""
        return self.steps.transform(np.asarray(X, dtype=np.float64))


class Probe:
    """Accuracy on held-out rows of two fixed classifiers that see the representation alone.

    The linear probe is logistic regression (C = 1) on columns of mean 0 and spread 1, the other the vote of the 5
    nearest training rows; missing values are filled with the column's mean. Representation and classifiers are fitted
    to training rows alone.

    Parameters
    ----------
    train, test : array of shape (n,)
        Labels of the training and of the held-out rows.

    Raises
    ------
    UserValueError
        One class only.

    Notes
    -----
    Source: Alain and Bengio (2017).

    Examples
    --------
    >>> from gnomon.data import load, split
    >>> train, test = split(load("wine"), test=0.5, seed=0)
    >>> probe = Probe(train.y, test.y)
    >>> scores = probe.scores(Raw(), train.X, test.X)
    >>> list(scores), scores["probe_accuracy"].value > 0.9
    (['probe_accuracy', 'neighbor_accuracy'], True)
    """

    def __init__(self, train: Any, test: Any) -> None:
        self.y = test
        self.classes, self.codes = Labels().encode(train)
        if len(self.classes) < 2:
            raise UserValueError(
                "labels must hold at least 2 classes, got 1", "labels", "give data with more classes for the probe"
            )

    def scores(self, model: Any, X_train: Any, X_test: Any) -> dict[str, Score]:
        """Both accuracies of a fitted model's ``transform``.

        Raises
        ------
        UserTypeError
            A model without ``transform``, or one that gives no table.
        """
        if not hasattr(model, "transform"):
            raise UserTypeError(f"{type(model).__name__} has no transform", "represent", "choose a system that has")
        train, test = (_table(model.transform(X), len(X)) for X in (X_train, X_test))
        neighbors = min(NEIGHBORS, len(train))
        linear, nearest = LogisticRegression(max_iter=ITERATIONS), KNeighborsClassifier(neighbors)
        scores = {}
        for name, judge in (("probe_accuracy", linear), ("neighbor_accuracy", nearest)):
            steps = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler(), judge)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                steps.fit(train, self.codes)
            stopped = judge is linear and int(linear.n_iter_.max()) >= ITERATIONS
            note = f"{train.shape[1]} columns" + (f"; stopped after {ITERATIONS} iterations" if stopped else "")
            scores[name] = self._score(name, steps.predict(test), note)
        return scores

    def _score(self, name: str, predicted: Any, note: str) -> Score:
        known, codes = Labels().locate(self.y, self.classes, n=len(predicted))
        right = (known & (codes == predicted)).astype(np.float64)
        space = Labels().space(len(self.classes))
        return Score.from_pointwise(right, name=name, unit="fraction", data_space=space, note=note)


def _table(Z: Any, n: int) -> Any:
    Z = np.asarray(Z, dtype=np.float64)
    if Z.ndim < 2 or len(Z) != n:
        raise UserTypeError(f"transform must give one row per row, got shape {Z.shape} for {n} rows", "transform")
    return Z.reshape(n, -1)
