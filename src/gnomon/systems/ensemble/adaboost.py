"""AdaBoost: weak classifiers one after the other, each on what the earlier ones got wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from sklearn.ensemble import AdaBoostClassifier
from sklearn.tree import DecisionTreeClassifier

from gnomon.contracts import Array
from gnomon.distributions.domains import Real
from gnomon.errors import UserValueError
from gnomon.recipes.fields import Doc
from gnomon.system.fields import ComparesInSingle
from gnomon.system.library import LibraryClassifier
from gnomon.system.tree_model import Importances, TreeModel

__all__ = ["AdaBoost"]

ROUNDING = 1e-10
"""Share of the error of chance by which one that equals it may be rounded."""


class AdaBoostModel(TreeModel):
    """AdaBoostClassifier without the trees from the first that is no better than chance on."""

    def fit(self, X: Array, y: Array | None, weight: Array, seed: int) -> None:
        """Fit, and end where the definition does; the library goes on where rounding leaves an error just below.

        Raises
        ------
        UserValueError
            Where not even the first tree is better than chance.
        """
        try:
            super().fit(X, y, weight, seed)
        except UserValueError:
            if getattr(self.estimator, "estimators_", None) != []:  # it has not taken back its first tree
                raise
        fitted = self.estimator
        chance = 1 - 1 / fitted.n_classes_
        poor = fitted.estimator_errors_[: len(fitted.estimators_)] >= chance * (1 - ROUNDING)
        kept = int(poor.argmax()) if poor.any() else len(fitted.estimators_)
        if not kept:
            raise UserValueError(
                f"the first tree must be wrong on less than {chance:.3g} of the weight, the rate of chance", "fit",
                "give columns that tell the classes apart, or raise max_depth",
            )  # fmt: skip
        del fitted.estimators_[kept:]
        fitted.estimator_weights_[kept:], fitted.estimator_errors_[kept:] = 0.0, 1.0  # as the library leaves them


class AdaBoost(Importances, ComparesInSingle, LibraryClassifier):
    r"""AdaBoost of small trees.

    For two classes, y = -1 or 1, tree m is fitted to weights w (at first equal, or those of the rows), and

    .. math:: e_m = \sum_i w_i 1[h_m(x_i) \ne y_i], \quad a_m = \tfrac12 \log\frac{1 - e_m}{e_m}, \quad
              w_i \leftarrow w_i e^{-a_m y_i h_m(x_i)} / Z_m

    The sign of :math:`\sum_m a_m h_m(x)` decides; the share of training rows that it gets wrong is at most
    :math:`\prod_m Z_m`, :math:`Z_m = 2 \sqrt{e_m (1 - e_m)}`. With K classes ``2 a_m`` gains log(K - 1) (SAMME). A tree
    without error ends the fit, with 1/2 in place of its infinite weight. One that is no better than chance, :math:`e_m
    \ge 1 - 1 / K`, ends it too and is left out; where it is the first, there is nothing to add up and the fit is
    refused.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    alphas_ : array of shape (n_trees,)
        a_m, half of scikit-learn's ``estimator_weights_``.
    errors_ : array of shape (n_trees,)
        e_m.
    feature_importances_ : array of shape (n_features,)
        Mean over the trees, weighted by a_m, of the normalized decrease of impurity by column.

    Notes
    -----
    Cost O(n_trees * d * n log n * max_depth). A library-backed system: scikit-learn's AdaBoostClassifier underneath.
    Source: Freund and Schapire (1997); Zhu, Zou, Rosset and Hastie (2009).

    Examples
    --------
    >>> X, y = [[i] for i in range(10)], [1, 1, 1, -1, -1, -1, 1, 1, 1, -1]
    >>> AdaBoost(n_trees=3).fit(X, y).alphas_.round(4)
    array([0.4236, 0.6496, 0.752 ])
    """

    name: ClassVar[str] = "adaboost"
    model_class: ClassVar[type] = AdaBoostModel
    types: ClassVar[tuple[str, ...]] = (
        "sklearn.ensemble._weight_boosting.AdaBoostClassifier", "sklearn.tree._classes.DecisionTreeClassifier",
        "sklearn.tree._tree.Tree",
    )  # fmt: skip
    domain = Real()

    n_trees: Annotated[int, "[1, inf)", Doc("Trees at most.")] = 50
    max_depth: Annotated[int, "[1, inf)", Doc("Depth of each tree; 1 is a stump.")] = 1
    learning_rate: Annotated[float, "(0, inf)", Doc("Factor of every a_m.")] = 1.0

    def make_estimator(self, n_features: int) -> AdaBoostClassifier:
        weak = DecisionTreeClassifier(max_depth=self.max_depth)
        return AdaBoostClassifier(weak, n_estimators=self.n_trees, learning_rate=self.learning_rate)

    def decision_function(self, X: Any) -> Array:
        """Weighted votes over the sum of the weights, (n,) in [-1, 1] for two classes, else (n, n_classes)."""
        rows = self._rows(X)
        votes = self.model_.ask_estimator("decision_function", rows)
        return votes / 2 if votes.ndim == 1 else votes  # the library counts a tree for one class and against the other

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """The prediction after each tree, each of shape (n,)."""
        rows = self._rows(X)
        for codes in self.model_.ask_estimator("staged_predict", rows):
            yield self.classes_[codes]

    @property
    def alphas_(self) -> Array:
        """Weight a_m of each tree."""
        trees = len(self.model_.estimator.estimators_)
        return self.model_.estimator.estimator_weights_[:trees] / 2

    @property
    def errors_(self) -> Array:
        """Weighted error e_m of each tree."""
        trees = len(self.model_.estimator.estimators_)
        return self.model_.estimator.estimator_errors_[:trees]
