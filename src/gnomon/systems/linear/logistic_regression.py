"""Logistic regression, solved to its optimum."""

from __future__ import annotations

import warnings
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.linear_model import LogisticRegression as Estimator

from gnomon.contracts import Array
from gnomon.data.preprocessing import standardization
from gnomon.distributions.domains import Real
from gnomon.numeric.sparse import SparseRows, is_sparse, units_of
from gnomon.recipes.fields import Doc
from gnomon.system.fields import ComputesInDouble, DrawsNothing
from gnomon.system.library import LibraryModel, LogitClassifier

__all__ = ["LogisticRegression", "LogisticRegressionModel"]

SMALLEST = 1e-10
"""Gradient that double precision can still tell from none."""
NEWTON_PARAMETERS = 500
"""Weights up to which a Newton step, cubic in their number, costs less than the steps of L-BFGS that it saves."""


class LogisticRegressionModel(LibraryModel):
    """An affine score per class (one score for two classes), its weights those of the columns as they were given.

    Parameters
    ----------
    estimator : sklearn.linear_model.LogisticRegression
    types : tuple of str
    l2 : float
        Factor of the penalty, relative to the mean loss.
    standardize : bool
        Whether the fit sees columns of mean 0 and spread 1.
    """

    def __init__(self, estimator: Any, types: tuple[str, ...], l2: float, standardize: bool) -> None:
        super().__init__(estimator, types)
        self.l2, self.standardize = l2, standardize

    def fit(self, X: Array, y: Array | None, weight: Array, seed: int) -> None:
        """Fit on standardized columns and bring the weights back; see `LibraryModel.fit`."""
        X, weight = X.astype(np.float64), weight.astype(np.float64)
        total = weight.sum()
        shift, scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
        if self.standardize:
            shift, scale = (shift, units_of(X, weight)[1]) if is_sparse(X) else standardization(X, weight)
        self.estimator.set_params(C=1 / (self.l2 * total) if self.l2 else np.inf)
        # a shift changes the intercept alone, on which there is no penalty: sparse rows go without
        rows = SparseRows(X.multiply(1 / scale)) if is_sparse(X) else (X - shift) / scale
        with warnings.catch_warnings():  # of columns that depend on each other it takes another solver
            warnings.simplefilter("ignore", LinAlgWarning)
            super().fit(rows, y, weight, seed)
        if not self.l2 and y is not None:
            self._warn_of_separation(rows[weight > 0], y[weight > 0])
        self.estimator.coef_ = self.estimator.coef_ / scale
        self.estimator.intercept_ = self.estimator.intercept_ - np.matmul(self.estimator.coef_, shift)

    def _warn_of_separation(self, rows: Array, y: Array) -> None:
        """Weights that get every row right can be doubled for ever: then there is no optimum, and these prove it."""
        scores = self.estimator.decision_function(rows)
        scores = np.column_stack([np.zeros(len(rows)), scores]) if scores.ndim == 1 else scores
        own = np.take_along_axis(scores, np.searchsorted(self.estimator.classes_, y).reshape(-1, 1), axis=1)[:, 0]
        if ((scores >= own[:, None]).sum(axis=1) == 1).all():
            warnings.warn(
                "a plane separates the classes: without a penalty no weights are the best, they only stopped growing; "
                "set l2 above 0", UserWarning, stacklevel=2,
            )  # fmt: skip


class LogisticRegression(ComputesInDouble, DrawsNothing, LogitClassifier):
    r"""Linear classifier fitted to the optimum of its likelihood, by Newton's method or L-BFGS.

    With two classes p(second | x) = s(z), z = w^T x + b, s the logistic function, and the loss is the mean over rows
    (by weight) of :math:`-\log s((2c - 1) z)`, c the class as 0 or 1, plus ``l2 / 2 * ||w||^2``. With more classes the
    probabilities are softmax(W^T x + b), as in `SoftmaxRegression`, which reaches the same optimum by gradient steps.
    Without a penalty there is no optimum where a plane separates the classes: a warning says so.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
    intercept_ : array of shape (1,) or (n_classes,)

    Notes
    -----
    Sparse tables are scaled, not centered, which leads to the same optimum. A Newton step costs O(n p^2 + p^3) for p
    weights, one of L-BFGS O(n p). A library-backed system: scikit-learn's LogisticRegression underneath. Source: Cox
    (1958); Bishop (2006), section 4.3.

    Examples
    --------
    >>> X = [[0], [0], [0], [0], [0], [0], [1], [1], [1], [1]]
    >>> LogisticRegression(l2=0.0).fit(X, [0, 0, 0, 0, 1, 1, 0, 1, 1, 1]).coef_.round(6)
    array([[1.791759]])
    """

    name: ClassVar[str] = "logistic-regression"
    model_class: ClassVar[type] = LogisticRegressionModel
    types: ClassVar[tuple[str, ...]] = ("sklearn.linear_model._logistic.LogisticRegression",)
    domain = Real(largest=1e100)
    takes_sparse: ClassVar[bool] = True

    l2: Annotated[
        float, "[0, inf)", Doc("Factor of the penalty on the weights; scikit-learn's ``C = 1 / (n * l2)``.")
    ] = 1e-4
    standardize: Annotated[
        bool,
        Doc(
            "Whether the penalty (and the solver) sees columns of mean 0 and standard deviation 1; coef_ belongs to "
            "the columns as given."
        ),
    ] = True
    method: Annotated[
        Literal["newton", "lbfgs"] | None,
        Doc("Newton (iteratively reweighted least squares), L-BFGS, or None: Newton for up to 500 weights."),
    ] = None
    tol: Annotated[
        float,
        "[0, inf)",
        Doc(
            "End when no component of the gradient of the mean loss is larger; 1e-10 stands for less, where rounding "
            "rules."
        ),
    ] = 1e-8
    max_iter: Annotated[int, "[1, inf)", Doc("Iterations at most.")] = 1000

    def make(self, *_: Any, **arguments: Any) -> LogisticRegressionModel:
        few = (arguments["n_features"] + 1) * arguments["n_classes"] <= NEWTON_PARAMETERS
        method = self.method or ("newton" if few else "lbfgs")
        solver = {"newton": "newton-cholesky", "lbfgs": "lbfgs"}[method]
        estimator = Estimator(solver=solver, tol=max(self.tol, SMALLEST), max_iter=self.max_iter)
        return LogisticRegressionModel(estimator, self.types, self.l2, self.standardize)

    def decision_function(self, X: Any) -> Array:
        """Scores of the classes, shape (n, n_classes); with two classes the second's log odds, shape (n,)."""
        rows = self._rows(X)
        return self.model_.estimator.decision_function(rows)

    @property
    def coef_(self) -> Array:
        """Weights of the columns as they were given."""
        return self.model_.estimator.coef_

    @property
    def intercept_(self) -> Array:
        """Biases for the columns as they were given."""
        return self.model_.estimator.intercept_
