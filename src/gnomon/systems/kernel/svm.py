"""Support vector machines: the widest margin between classes, or the narrowest tube around a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
from sklearn.svm import SVC, SVR

from gnomon.contracts import Array
from gnomon.data.examples import Examples
from gnomon.distributions.domains import Real
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.system.fields import ComputesInDouble, DrawsNothing
from gnomon.system.library import Library, LibraryModel, LibraryRegressor
from gnomon.system.prediction import Classifier
from gnomon.systems.kernel.kernels import KernelFunction

__all__ = ["SVM", "SVMModel", "SupportVectorRegression"]

SMALLEST = 1e-9
"""Violation that double precision can still tell from none."""


class SVMModel(LibraryModel):
    """f(x) = sum_i a_i k(x_i, x) + b over the support vectors."""

    def fit(self, X: Array, y: Array | None, weight: Array, seed: int) -> None:
        """Fit the dual; a gamma of None becomes a number; see `LibraryModel.fit`."""
        if self.estimator.gamma is None:
            mean = np.average(X.mean(axis=1, dtype=np.float64), weights=weight)
            variance = np.average(((X - mean) ** 2).mean(axis=1, dtype=np.float64), weights=weight)
            self.estimator.set_params(gamma=1 / (X.shape[1] * variance) if variance > 0 else 1.0)
        super().fit(X, y, weight, seed)
        there = np.flatnonzero(weight > 0)
        self.estimator.support_ = there[self.estimator.support_].astype(np.int32)  # rows as they were given


class _SupportVectors(ComputesInDouble, DrawsNothing, Library):
    """What a fitted machine shows."""

    kernel: Annotated[str | Recipe, Doc("Inner product of the features.")] = "rbf"
    tol: Annotated[
        float,
        "[0, inf)",
        Doc(
            "Violation of the optimality conditions at which the fit ends; 1e-9 stands for less, where rounding rules."
        ),
    ] = 1e-3
    max_iter: Annotated[
        int, "[1, inf)", Doc("Iterations at most; a kernel that is not positive semidefinite may need a limit.")
    ] = 10_000_000

    model_class: ClassVar[type] = SVMModel
    scale_dependent: ClassVar[bool] = True
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"kernel": KernelFunction}

    def _made(self, kind: Any, **options: Any) -> SVMModel:
        recipe: KernelFunction = self.recipe("kernel")
        estimator = kind(kernel=recipe.function, **recipe.options(), **options)
        return SVMModel(estimator, self.types)

    @property
    def kernel_(self) -> KernelFunction:
        """The kernel with the ``gamma`` that the fit used."""
        recipe: Any = self.recipe("kernel")
        if "gamma" not in recipe.get_params():
            return recipe
        return replace(recipe, gamma=float(self.model_.estimator.gamma))

    @property
    def support_(self) -> Array:
        """Rows of the training table that are support vectors, shape (m,)."""
        return self.model_.estimator.support_

    @property
    def support_vectors_(self) -> Array:
        """Those rows, shape (m, n_features)."""
        return self.model_.estimator.support_vectors_

    @property
    def dual_coef_(self) -> Array:
        """Multipliers with the sign of their class, shape (1, m); for k classes (k - 1, m), one machine per pair."""
        return self.model_.estimator.dual_coef_

    @property
    def intercept_(self) -> Array:
        """b; for k classes one per pair of classes."""
        return self.model_.estimator.intercept_

    @property
    def coef_(self) -> Array:
        """w of a linear kernel, shape (1, n_features), or one row per pair of classes."""
        return self.model_.estimator.coef_


class SVM(_SupportVectors, Classifier):
    r"""Support vector machine.

    For two classes, y = -1 for the first and 1 for the second,

    .. math:: \min_{w, b} \tfrac12 \|w\|^2 + C \sum_i \max(0, 1 - y_i (w^T \phi(x_i) + b))

    by its dual :math:`\max_a \sum_i a_i - \frac12 \sum_{ij} a_i a_j y_i y_j k(x_i, x_j)`, :math:`0 \le a_i \le C`,
    :math:`\sum_i a_i y_i = 0`; :math:`f(x) = \sum_i a_i y_i k(x_i, x) + b`, and its sign decides. More classes are
    separated pair by pair, and the class with the most votes wins, ties by the margins. A decision is no probability,
    so that there is no ``predict_proba``. Columns should have about the same spread.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    support_ : int32 array of shape (m,)
    support_vectors_ : array of shape (m, n_features)
    dual_coef_ : array of shape (n_classes - 1, m)
        a_i y_i.
    intercept_ : array of shape (n_classes * (n_classes - 1) / 2,)
    coef_ : array of shape (., n_features)
        w, for the linear kernel alone.
    kernel_ : recipe
        The kernel that the fit used; ``kernel_.gram(X, Z)`` is its matrix.

    Notes
    -----
    Cost between O(n^2 d) and O(n^3 d). A library-backed system: scikit-learn's SVC (libsvm, sequential minimal
    optimization with a second-order working set) underneath. Source: Boser, Guyon and Vapnik (1992); Cortes and Vapnik
    (1995); Fan, Chen and Lin (2005).

    Examples
    --------
    >>> SVM(kernel="linear").fit([[0, 0], [2, 2]], ["a", "b"]).coef_
    array([[0.5, 0.5]])
    """

    name: ClassVar[str] = "svm"
    types: ClassVar[tuple[str, ...]] = ("sklearn.svm._classes.SVC",)
    domain = Real(largest=1e100)
    has_probabilities = False

    C: Annotated[
        float,
        "(0, inf)",
        Doc("Price of a row inside the margin; a row's weight multiplies it. It is not divided by the number of rows."),
    ] = 1.0

    def make(self, *_: Any, **arguments: Any) -> SVMModel:
        return self._made(
            SVC, C=self.C, tol=max(self.tol, SMALLEST), max_iter=self.max_iter, break_ties=arguments["n_classes"] > 2
        )

    def class_codes(self, rows: Array) -> Array:
        return self.model_.ask_estimator("predict", rows)

    def decision_function(self, X: Any) -> Array:
        """f: positive for the second of two classes, shape (n,); votes with the margins as ties, (n, n_classes)."""
        rows = self._rows(X)
        return self.model_.ask_estimator("decision_function", rows)


class SupportVectorRegression(_SupportVectors, LibraryRegressor):
    r"""Support vector regression: deviations up to epsilon cost nothing, larger ones their excess.

    .. math:: \min_{w, b} \tfrac12 \|w\|^2 + C \sum_i \max(0, |y_i - w^T \phi(x_i) - b| - \epsilon)

    C and epsilon are in units of y. ``gnomon.fit`` and the command line bring columns and target to mean 0 and spread 1
    first.

    Notes
    -----
    Cost between O(n^2 d) and O(n^3 d). A library-backed system: scikit-learn's SVR (libsvm) underneath. Source:
    Drucker, Burges, Kaufman, Smola and Vapnik (1997).

    Examples
    --------
    >>> SupportVectorRegression(kernel="linear", epsilon=0.0, C=100.0).fit([[0], [2]], [1.0, 5.0]).coef_.round(3)
    array([[2.]])
    """

    name: ClassVar[str] = "support-vector-regression"
    scales_target: ClassVar[bool] = True
    types: ClassVar[tuple[str, ...]] = ("sklearn.svm._classes.SVR",)
    domain = Real(largest=1e100)

    C: Annotated[float, "(0, inf)", Doc("Price of a deviation beyond epsilon; a row's weight multiplies it.")] = 1.0
    epsilon: Annotated[float, "[0, inf)", Doc("Half the width of the tube, in units of the target.")] = 0.1

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        examples = super().ingest(X, y, sample_weight)
        shift, unit = self._target_units()
        return examples.replace(y=(examples.y - shift) / unit) if unit else examples

    def predict_rows(self, rows: Array) -> Array:
        shift, unit = self._target_units()
        found = super().predict_rows(rows)
        return found * unit + shift if unit else found

    def _target_units(self) -> tuple[float, float]:
        """Mean and spread by which the target is scaled; a spread of 0 where it is not."""
        prepared = getattr(self, "preparation_", None)
        return (0.0, 0.0) if prepared is None or prepared.target is None else prepared.target

    def make(self, *_: Any, **arguments: Any) -> SVMModel:
        return self._made(SVR, C=self.C, epsilon=self.epsilon, tol=max(self.tol, SMALLEST), max_iter=self.max_iter)
