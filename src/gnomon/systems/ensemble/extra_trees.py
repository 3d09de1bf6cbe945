"""Extremely randomized trees: thresholds are drawn, not searched for."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

from gnomon.systems.ensemble.forests import NODES, ForestClassifier, ForestRegressor

__all__ = ["ExtraTrees", "ExtraTreesRegression"]


class ExtraTrees(ForestClassifier):
    r"""Extremely randomized trees for classes.

    Each node draws `max_features` columns and for each of them one threshold uniformly between its smallest and largest
    value in the node, and takes the best of these splits: only the choice among a few random splits sees the target.
    All rows are used by every tree. The forest averages the class probabilities of its trees,
    :math:`P(k \mid x) = \frac{1}{T} \sum_t P_t(k \mid x)`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    feature_importances_ : array of shape (n_features,)
        Mean over the trees of the normalized decrease of impurity by column. It favors columns of many values.
    out_of_bag_score_ : float
        Accuracy of the rows judged by the trees that did not see them; with ``out_of_bag=True``.
    out_of_bag_count_ : int64 array of shape (n,)
        Trees that did not see a row; a row with 0 is not in the score.

    Notes
    -----
    Cost O(n_trees * max_features * n log n) per level; the trees are spread over the threads of the context. A
    library-backed system: scikit-learn's ExtraTreesClassifier underneath. Source: Geurts, Ernst and Wehenkel (2006).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> ExtraTrees(n_trees=20, random_state=0).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    """

    name: ClassVar[str] = "extra-trees"
    estimator_class: ClassVar[Any] = ExtraTreesClassifier
    bootstrap: bool = False
    types: ClassVar[tuple[str, ...]] = (
        "sklearn.ensemble._forest.ExtraTreesClassifier", "sklearn.tree._classes.ExtraTreeClassifier", NODES,
    )  # fmt: skip


class ExtraTreesRegression(ForestRegressor):
    r"""Extremely randomized trees for a number.

    As `ExtraTrees`; the forest averages the predictions of its trees,
    :math:`\hat y(x) = \frac{1}{T} \sum_t h_t(x)`.

    Notes
    -----
    A library-backed system: scikit-learn's ExtraTreesRegressor underneath. Source: Geurts, Ernst and Wehenkel (2006).

    Examples
    --------
    >>> ExtraTreesRegression(n_trees=5, random_state=0).fit([[0], [1], [2]], [1.0, 1.0, 1.0]).predict([[5]])
    array([1.])
    """

    name: ClassVar[str] = "extra-trees-regression"
    estimator_class: ClassVar[Any] = ExtraTreesRegressor
    bootstrap: bool = False
    types: ClassVar[tuple[str, ...]] = (
        "sklearn.ensemble._forest.ExtraTreesRegressor", "sklearn.tree._classes.ExtraTreeRegressor", NODES,
    )  # fmt: skip
