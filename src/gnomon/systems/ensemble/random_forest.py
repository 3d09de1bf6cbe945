"""Random forests: trees on bootstrap samples, each split among a few random columns."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from gnomon.distributions.domains import Real
from gnomon.system.library import LibraryClassifier, LibraryRegressor
from gnomon.systems.ensemble.forests import Forest as _Forest

__all__ = ["RandomForest", "RandomForestRegression"]


class RandomForest(_Forest, LibraryClassifier):
    r"""Random forest for classes.

    Each tree sees rows drawn with replacement and, at each node, the best split of a few columns drawn anew; the forest
    averages the class probabilities of its trees: their errors are less correlated than those of trees on all columns,
    so that the variance :math:`s^2 (r + (1 - r) / n)` of their mean is smaller.

    Parameters
    ----------
    n_trees : int in [1, inf), default 100
        Trees.
    criterion : {"gini", "entropy"}, default "gini"
        The impurity that a split lowers.
    max_depth : int in [1, inf) or None, default None
        Splits on the way to a leaf at most; None splits until the leaves are pure.
    min_rows_leaf : int in [1, inf), default 1
        Rows that each child must have.
    max_features : int, float in (0, 1), {"sqrt", "log2"} or None, default "sqrt"
        Columns (a number or share of them) drawn anew for every node; None looks at all.
    bootstrap : bool, default True
        Whether a tree sees as many rows as there are, drawn with replacement; otherwise all rows.
    out_of_bag : bool, default False
        Whether each row is judged by the trees that did not see it (with `bootstrap` alone).
    random_state : int, Generator, RandomState or None, default None
        Seed.
    dtype : {"float32", "float64"} or None, default None
        None follows float32 and float64 input, else float32. Thresholds are compared in single precision.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    feature_importances_ : array of shape (n_features,)
        Mean over the trees of the normalized decrease of impurity by column. It favors columns of many values.
    out_of_bag_score_ : float
        Accuracy of the rows judged by the trees that did not see them; with ``out_of_bag=True``.

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
    types: ClassVar[tuple[str, ...]] = (
        "sklearn.ensemble._forest.RandomForestClassifier",
        "sklearn.tree._classes.DecisionTreeClassifier", "sklearn.tree._tree.Tree",
    )  # fmt: skip
    domain = Real(largest=3e38)

    def __init__(
        self,
        *,
        n_trees: Annotated[int, "[1, inf)"] = 100,
        criterion: Literal["gini", "entropy"] = "gini",
        max_depth: Annotated[int, "[1, inf)"] | None = None,
        min_rows_leaf: Annotated[int, "[1, inf)"] = 1,
        max_features: Annotated[int, "[1, inf)"] | Annotated[float, "(0, 1)"] | Literal["sqrt", "log2"] | None = "sqrt",
        bootstrap: bool = True,
        out_of_bag: bool = False,
        random_state: Any = None,
        dtype: Literal["float32", "float64"] | None = None,
    ) -> None:
        self.n_trees = n_trees
        self.criterion = criterion
        self.max_depth = max_depth
        self.min_rows_leaf = min_rows_leaf
        self.max_features = max_features
        self.bootstrap = bootstrap
        self.out_of_bag = out_of_bag
        self.random_state = random_state
        self.dtype = dtype

    def make_estimator(self, n_features: int) -> RandomForestClassifier:
        return RandomForestClassifier(criterion=self.criterion, **self._growth(n_features))


class RandomForestRegression(_Forest, LibraryRegressor):
    r"""Random forest for a number.

    Each tree sees rows drawn with replacement and, at each node, the best split of a few columns drawn anew; the forest
    averages the predictions of its trees: their errors are less correlated than those of trees on all columns, so that
    the variance :math:`s^2 (r + (1 - r) / n)` of their mean is smaller.

    Parameters
    ----------
    n_trees : int in [1, inf), default 100
        Trees.
    criterion : {"squared_error", "absolute_error"}, default "squared_error"
        The impurity that a split lowers.
    max_depth : int in [1, inf) or None, default None
        Splits on the way to a leaf at most; None splits until the leaves are pure.
    min_rows_leaf : int in [1, inf), default 1
        Rows that each child must have.
    max_features : int, float in (0, 1), {"sqrt", "log2"} or None, default None
        Columns (a number or share of them) drawn anew for every node; None looks at all.
    bootstrap : bool, default True
        Whether a tree sees as many rows as there are, drawn with replacement; otherwise all rows.
    out_of_bag : bool, default False
        Whether each row is judged by the trees that did not see it (with `bootstrap` alone).
    random_state : int, Generator, RandomState or None, default None
        Seed.
    dtype : {"float32", "float64"} or None, default None
        None follows float32 and float64 input, else float32. Thresholds are compared in single precision.

    Attributes
    ----------
    feature_importances_ : array of shape (n_features,)
        Mean over the trees of the normalized decrease of impurity by column. It favors columns of many values.
    out_of_bag_score_ : float
        R^2 of the rows judged by the trees that did not see them; with ``out_of_bag=True``.

    Notes
    -----
    Cost O(n_trees * max_features * n log n) per level; the trees are spread over the threads of the context. A
    library-backed system: scikit-learn's RandomForestRegressor underneath. Source: Breiman (2001).

    Examples
    --------
    >>> RandomForestRegression(n_trees=5, random_state=0).fit([[0], [1], [2]], [1.0, 1.0, 1.0]).predict([[5]])
    array([1.])
    """

    name: ClassVar[str] = "random-forest-regression"
    resamples_rows: ClassVar[bool] = True
    types: ClassVar[tuple[str, ...]] = (
        "sklearn.ensemble._forest.RandomForestRegressor",
        "sklearn.tree._classes.DecisionTreeRegressor", "sklearn.tree._tree.Tree",
    )  # fmt: skip
    domain = Real(largest=3e38)

    def __init__(
        self,
        *,
        n_trees: Annotated[int, "[1, inf)"] = 100,
        criterion: Literal["squared_error", "absolute_error"] = "squared_error",
        max_depth: Annotated[int, "[1, inf)"] | None = None,
        min_rows_leaf: Annotated[int, "[1, inf)"] = 1,
        max_features: Annotated[int, "[1, inf)"] | Annotated[float, "(0, 1)"] | Literal["sqrt", "log2"] | None = None,
        bootstrap: bool = True,
        out_of_bag: bool = False,
        random_state: Any = None,
        dtype: Literal["float32", "float64"] | None = None,
    ) -> None:
        self.n_trees = n_trees
        self.criterion = criterion
        self.max_depth = max_depth
        self.min_rows_leaf = min_rows_leaf
        self.max_features = max_features
        self.bootstrap = bootstrap
        self.out_of_bag = out_of_bag
        self.random_state = random_state
        self.dtype = dtype

    def make_estimator(self, n_features: int) -> RandomForestRegressor:
        return RandomForestRegressor(criterion=self.criterion, **self._growth(n_features))
