"""Gradient boosting: trees one after the other, each fitted to the negative gradient of the loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

from gnomon.contracts import Array
from gnomon.distributions.domains import Real
from gnomon.recipes.fields import Doc
from gnomon.system.fields import ComparesInSingle
from gnomon.system.library import LibraryRegressor, LogitClassifier
from gnomon.system.tree_model import Importances
from gnomon.system.trees import StopsEarly

__all__ = ["GradientBoosting", "GradientBoostingRegression"]

LOSS = "sklearn._loss"
TREES: tuple[str, ...] = (
    "sklearn.tree._classes.DecisionTreeRegressor", "sklearn.tree._tree.Tree", f"{LOSS}.link.Interval",
)  # fmt: skip

BETTER = 1e-7
"""By how much a loss must be lower to be better than another, as in histogram boosting."""


class _Boosted(Importances, StopsEarly, ComparesInSingle):
    """What both show."""

    max_depth: int | None = 3
    patience: Annotated[
        int | None,
        "[1, inf)",
        Doc("End at a step whose loss on held-out rows is below none of so many before it; None takes all steps."),
    ] = None
    row_share: Annotated[
        float,
        "(0, 1]",
        Doc("Fraction of the rows, drawn without replacement, that each tree sees (stochastic gradient boosting)."),
    ] = 1.0

    def _growth(self) -> dict[str, Any]:
        return {
            **self._limits(), "n_estimators": self.n_trees, "learning_rate": self.learning_rate,
            "subsample": self.row_share, "n_iter_no_change": self.patience, "validation_fraction": self.held_out,
            "tol": BETTER,
        }  # fmt: skip

    @property
    def n_trees_(self) -> int:
        """Steps taken."""
        return int(self.model_.estimator.n_estimators_)

    @property
    def training_losses_(self) -> Array:
        """Loss on the training rows (in the sample, with `row_share`) after each step, shape (n_trees_,)."""
        return self.model_.impurity(self.model_.estimator.train_score_)


class GradientBoosting(_Boosted, LogitClassifier):
    r"""Gradient boosting of trees for classes.

    The scores F(x) begin as the log odds of the classes; each step fits a tree per class (one for two classes) to the
    residuals :math:`1[y = c] - p_c(x)`, minus the gradient of the cross-entropy, sets its leaves by one Newton step and
    adds it times the learning rate.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    n_trees_ : int
        Steps taken.
    training_losses_ : array of shape (n_trees_,)
        Mean cross-entropy on the training rows (those in the sample, with `row_share`) after each step.
    feature_importances_ : array of shape (n_features,)
        Decrease of the residuals' squared error by column over all trees, summing to 1.

    Notes
    -----
    Cost O(n_trees * classes * d * n log n * max_depth); `HistogramBoosting` is much faster from ten thousand rows on. A
    library-backed system: scikit-learn's GradientBoostingClassifier underneath. Source: Friedman (2001, 2002).

    Examples
    --------
    >>> X, y = [[i] for i in range(6)], list("aabbcc")
    >>> GradientBoosting(n_trees=20).fit(X, y).predict(X).tolist()
    ['a', 'a', 'b', 'b', 'c', 'c']
    """

    name: ClassVar[str] = "gradient-boosting"
    resamples_rows: ClassVar[bool] = True
    types: ClassVar[tuple[str, ...]] = (
        "sklearn.ensemble._gb.GradientBoostingClassifier", "sklearn.dummy.DummyClassifier", *TREES,
        f"{LOSS}._loss.CyHalfMultinomialLoss", f"{LOSS}.link.MultinomialLogit", f"{LOSS}.loss.HalfMultinomialLoss",
        f"{LOSS}._loss.CyHalfBinomialLoss", f"{LOSS}.link.LogitLink", f"{LOSS}.loss.HalfBinomialLoss",
    )  # fmt: skip
    domain = Real()

    def make_estimator(self, n_features: int) -> GradientBoostingClassifier:
        return GradientBoostingClassifier(**self._growth())

    def decision_function(self, X: Any) -> Array:
        """Scores F: the log odds of the second class, (n,), or one score per class, (n, n_classes)."""
        rows = self._rows(X)
        return self.model_.ask_estimator("decision_function", rows)

    @property
    def training_losses_(self) -> Array:
        """Mean cross-entropy on the training rows (in the sample, with `row_share`) after each step."""
        losses = super().training_losses_
        # of two classes the library states the deviance, twice the cross-entropy
        return losses / 2 if self.model_.estimator.n_classes_ == 2 else losses

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """The prediction after each step, each of shape (n,)."""
        rows = self._rows(X)
        for codes in self.model_.ask_estimator("staged_predict", rows):
            yield self.classes_[codes]


class GradientBoostingRegression(_Boosted, LibraryRegressor):
    r"""Gradient boosting of trees for a number.

    H_0 is the mean of the target; tree t is fitted to the residuals :math:`y_i - H_{t-1}(x_i)`, minus the gradient of
    half the squared error, and :math:`H_t = H_{t-1} + \eta h_t` with the learning rate :math:`\eta`. For a rate in (0,
    1] the squared error on the training rows never rises.

    Attributes
    ----------
    n_trees_ : int
        Steps taken.
    training_losses_ : array of shape (n_trees_,)
        Mean squared error on the training rows (those in the sample, with `row_share`) after each step.
    feature_importances_ : array of shape (n_features,)
        Decrease of the residuals' squared error by column over all trees, summing to 1.

    Notes
    -----
    Cost O(n_trees * d * n log n * max_depth). A library-backed system: scikit-learn's GradientBoostingRegressor
    underneath. Source: Friedman (2001, 2002).

    Examples
    --------
    >>> boosted = GradientBoostingRegression(n_trees=1, learning_rate=0.5, max_depth=1)
    >>> boosted.fit([[0], [1], [2], [3]], [0.0, 0.0, 1.0, 3.0]).predict([[0], [3]]).round(4)
    array([0.6667, 2.    ])
    """

    name: ClassVar[str] = "gradient-boosting-regression"
    inert_fields: ClassVar[Mapping[str, str]] = {
        "dtype": "thresholds are compared in single precision and numbers predicted in double"
    }
    resamples_rows: ClassVar[bool] = True
    types: ClassVar[tuple[str, ...]] = (
        "sklearn.ensemble._gb.GradientBoostingRegressor", "sklearn.dummy.DummyRegressor", *TREES,
        f"{LOSS}._loss.CyHalfSquaredError", f"{LOSS}.link.IdentityLink", f"{LOSS}.loss.HalfSquaredError",
    )  # fmt: skip
    domain = Real()

    def make_estimator(self, n_features: int) -> GradientBoostingRegressor:
        return GradientBoostingRegressor(**self._growth())

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """The prediction after each tree, each of shape (n,)."""
        rows = self._rows(X)
        yield from map(self.model_.numbers, self.model_.ask_estimator("staged_predict", rows))
