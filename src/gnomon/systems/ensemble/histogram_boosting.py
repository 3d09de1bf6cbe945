"""Histogram gradient boosting: second-order trees on binned columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from gnomon.contracts import Array
from gnomon.distributions.domains import Real
from gnomon.recipes.fields import Doc
from gnomon.system.fields import HasDtype
from gnomon.system.library import Library, LibraryRegressor, LogitClassifier
from gnomon.system.tree_model import BinnedModel
from gnomon.system.trees import SplitsBestFirst, StopsEarly

__all__ = ["HistogramBoosting", "HistogramBoostingRegression"]

LOSS, HERE = "sklearn._loss", "sklearn.ensemble._hist_gradient_boosting"
BINNED: tuple[str, ...] = (
    "numpy.random._generator.Generator", "numpy.random._pcg64.PCG64", f"{LOSS}.link.Interval",
    f"{HERE}.binning._BinMapper", f"{HERE}.predictor.TreePredictor",
)  # fmt: skip


class _Binned(StopsEarly, SplitsBestFirst, HasDtype, Library):
    """Growth of the trees in scikit-learn's words, and what a fit shows."""

    model_class: ClassVar[type] = BinnedModel

    max_leaves: int | None = 31
    min_rows_leaf: int = 20
    l2: Annotated[float, "[0, inf)", Doc("The penalty :math:`\\lambda` on the leaves' values.")] = 0.0
    max_bins: Annotated[int, "[2, 255]", Doc("Bins of a column, besides the one for missing values.")] = 255

    def _growth(self) -> dict[str, Any]:
        stop = self.patience is not None
        return {
            **self._limits(), "max_iter": self.n_trees, "learning_rate": self.learning_rate,
            "l2_regularization": self.l2,
            "max_bins": self.max_bins, "early_stopping": stop,
            "n_iter_no_change": self.patience if stop else 10,
            "validation_fraction": self.held_out, "categorical_features": None,
        }  # fmt: skip

    @property
    def n_trees_(self) -> int:
        """Steps taken."""
        return int(self.model_.estimator.n_iter_)

    @property
    def feature_importances_(self) -> Array:
        """Gain by column over all splits of all trees; sums to 1, or all 0 if nothing was split."""
        total = np.zeros(self.model_.estimator.n_features_in_)
        for step in self.model_.estimator._predictors:
            for tree in step:
                split = tree.nodes[tree.nodes["is_leaf"] == 0]
                np.add.at(total, split["feature_idx"], split["gain"])
        return total / total.sum() if total.any() else total


class HistogramBoosting(_Binned, LogitClassifier):
    r"""Fast gradient boosting of trees for classes.

    As `GradientBoosting`, with three differences: columns are first cut into at most 255 bins; a split is chosen by the
    second-order gain

    .. math:: \tfrac12 \left[ \frac{G_L^2}{H_L + \lambda} + \frac{G_R^2}{H_R + \lambda}
              - \frac{G^2}{H + \lambda} \right]

    of the sums G and H of the loss's first and second derivatives, and a leaf takes :math:`-G / (H + \lambda)`; trees
    grow leaf by leaf. Missing values (NaN) have a bin of their own and go to the side of the larger gain; those of a
    column that had none in the fit go to the side with more rows. A column that is missing throughout is never split
    on.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    n_trees_ : int
        Steps taken.
    feature_importances_ : array of shape (n_features,)
        Gain by column over all trees, summing to 1.

    Notes
    -----
    Cost O(n d) for the bins and O(n d + bins d leaves) per tree, on the threads of the context. A library-backed
    system: scikit-learn's HistGradientBoostingClassifier underneath. Source: Chen and Guestrin (2016); Ke and others
    (2017).

    Examples
    --------
    >>> X, y = [[i] for i in range(6)], list("aabbcc")
    >>> HistogramBoosting(n_trees=20, min_rows_leaf=1).fit(X, y).predict(X).tolist()
    ['a', 'a', 'b', 'b', 'c', 'c']
    """

    name: ClassVar[str] = "histogram-boosting"
    resamples_rows: ClassVar[bool] = True
    types: ClassVar[tuple[str, ...]] = (
        f"{HERE}.gradient_boosting.HistGradientBoostingClassifier", "sklearn.preprocessing._label.LabelEncoder",
        *BINNED,
        f"{LOSS}._loss.CyHalfMultinomialLoss", f"{LOSS}.link.MultinomialLogit", f"{LOSS}.loss.HalfMultinomialLoss",
        f"{LOSS}._loss.CyHalfBinomialLoss", f"{LOSS}.link.LogitLink", f"{LOSS}.loss.HalfBinomialLoss",
    )  # fmt: skip
    domain = Real(allow_missing=True)

    def make_estimator(self, n_features: int) -> HistGradientBoostingClassifier:
        return HistGradientBoostingClassifier(**self._growth())

    def decision_function(self, X: Any) -> Array:
        """Scores: the log odds of the second class, (n,), or one score per class, (n, n_classes)."""
        rows = self._rows(X)
        return self.model_.ask_estimator("decision_function", rows)


class HistogramBoostingRegression(_Binned, LibraryRegressor):
    r"""Fast gradient boosting of trees for a number.

    As `GradientBoostingRegression` on columns cut into bins, with the second-order gain and leaves of
    `HistogramBoosting`. The second derivative of half the squared error is 1: H counts rows, and a leaf takes
    :math:`\sum_i (y_i - F(x_i)) / (H + \lambda)`, without a penalty the mean of its residuals.

    Attributes
    ----------
    n_trees_ : int
        Steps taken.
    feature_importances_ : array of shape (n_features,)
        Gain by column over all trees, summing to 1.

    Notes
    -----
    Cost O(n d) for the bins and O(n d + bins d leaves) per tree, on the threads of the context. A library-backed
    system: scikit-learn's HistGradientBoostingRegressor underneath. Source: Chen and Guestrin (2016); Ke and others
    (2017).

    Examples
    --------
    >>> boosted = HistogramBoostingRegression(n_trees=1, learning_rate=1.0, min_rows_leaf=1)
    >>> boosted.fit([[0], [1], [2]], [0.0, 0.0, 3.0]).predict([[0], [2]]).round(6)
    array([0., 3.])
    """

    name: ClassVar[str] = "histogram-boosting-regression"
    types: ClassVar[tuple[str, ...]] = (
        f"{HERE}.gradient_boosting.HistGradientBoostingRegressor", *BINNED,
        f"{LOSS}._loss.CyHalfSquaredError", f"{LOSS}.link.IdentityLink", f"{LOSS}.loss.HalfSquaredError",
    )  # fmt: skip
    domain = Real(allow_missing=True)

    def make_estimator(self, n_features: int) -> HistGradientBoostingRegressor:
        return HistGradientBoostingRegressor(**self._growth())

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """The prediction after each tree, each of shape (n,)."""
        rows = self._rows(X)
        yield from map(self.model_.numbers, self.model_.ask_estimator("staged_predict", rows))
