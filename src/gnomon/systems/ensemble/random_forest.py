"""Random forests: trees on bootstrap samples, each split among a few random columns."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from gnomon.systems.ensemble.forests import NODES, ForestClassifier, ForestRegressor

__all__ = ["RandomForest", "RandomForestRegression"]


class RandomForest(ForestClassifier):
    r"""Random forest for classes.

    Each tree sees rows drawn with replacement and, at each node, the best split of a few columns drawn anew; the forest
    averages the class probabilities of its trees: their errors are less correlated than those of trees on all columns,
    so that the variance :math:`s^2 (r + (1 - r) / n)` of their mean is smaller.

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
    library-backed system: scikit-learn's RandomForestClassifier underneath. Source: Breiman (2001).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> RandomForest(n_trees=20, out_of_bag=True, random_state=0).fit(X, y).out_of_bag_score_ > 0.9
    True
    """

    name: ClassVar[str] = "random-forest"
    resamples_rows: ClassVar[bool] = True
    estimator_class: ClassVar[Any] = RandomForestClassifier
    types: ClassVar[tuple[str, ...]] = (
        "sklearn.ensemble._forest.RandomForestClassifier", "sklearn.tree._classes.DecisionTreeClassifier", NODES,
    )  # fmt: skip


class RandomForestRegression(ForestRegressor):
    r"""Random forest for a number.

    As `RandomForest`; the forest averages the predictions of its trees,
    :math:`\hat y(x) = \frac{1}{T} \sum_t h_t(x)`.

    Notes
    -----
    A library-backed system: scikit-learn's RandomForestRegressor underneath. Source: Breiman (2001).

    Examples
    --------
    >>> RandomForestRegression(n_trees=5, random_state=0).fit([[0], [1], [2]], [1.0, 1.0, 1.0]).predict([[5]])
    array([1.])
    """

    name: ClassVar[str] = "random-forest-regression"
    resamples_rows: ClassVar[bool] = True
    estimator_class: ClassVar[Any] = RandomForestRegressor
    types: ClassVar[tuple[str, ...]] = (
        "sklearn.ensemble._forest.RandomForestRegressor", "sklearn.tree._classes.DecisionTreeRegressor", NODES,
    )  # fmt: skip
