"""Decision trees: axis-parallel splits chosen one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from gnomon.contracts import Array
from gnomon.distributions.domains import Real
from gnomon.recipes.fields import Doc
from gnomon.system.fields import ComparesInSingle
from gnomon.system.library import LibraryClassifier, LibraryRegressor
from gnomon.system.tree_model import Importances
from gnomon.system.trees import DrawsColumns, SplitsBestFirst

__all__ = ["DecisionTree", "RegressionTree"]

TREE = "sklearn.tree._tree.Tree"


class _Tree(Importances, SplitsBestFirst, DrawsColumns, ComparesInSingle):
    """What both trees answer."""

    min_rows_split: Annotated[int, "[2, inf)", Doc("Rows that a node must have to be split.")] = 2
    min_decrease: Annotated[float, "[0, inf)", Doc("Decrease n_i / n (G_i - ...) that a split must bring.")] = 0.0
    pruning: Annotated[
        float,
        "[0, inf)",
        Doc("Price of a leaf: subtrees that gain less impurity per leaf are cut afterwards (minimal cost complexity)."),
    ] = 0.0

    def _growth(self, n_features: int) -> dict[str, Any]:
        return {
            **self._limits(), "min_samples_split": self.min_rows_split, "min_impurity_decrease": self.min_decrease,
            "ccp_alpha": self.pruning, "max_features": self._columns(n_features),
        }  # fmt: skip

    def apply(self, X: Any) -> Array:
        """Number of the leaf that each row falls into, int64 of shape (n,)."""
        rows = self._rows(X)  # type: ignore[attr-defined]
        return self.model_.ask_estimator("apply", rows)

    @property
    def depth_(self) -> int:
        """Splits between the root and the deepest leaf."""
        return int(self.model_.estimator.get_depth())

    @property
    def n_leaves_(self) -> int:
        """Leaves."""
        return int(self.model_.estimator.get_n_leaves())

    @property
    def impurity_decrease_(self) -> Array:
        """Per column, the sum over its splits of (n_i / n) (G_i - n_L / n_i G_L - n_R / n_i G_R), not normalized."""
        return self.model_.impurity(self.model_.estimator.tree_.compute_feature_importances(normalize=False))


class DecisionTree(_Tree, LibraryClassifier):
    r"""Classification tree.

    Each node asks whether column k is at most a threshold t; (k, t) minimizes

    .. math:: \frac{n_L}{n} G_L + \frac{n_R}{n} G_R

    where G is the Gini impurity :math:`1 - \sum_c p_c^2` or the entropy :math:`-\sum_c p_c \log_2 p_c` of the
    (weighted) shares of the classes in a child. A leaf predicts its shares. A node is split also where no split lowers
    the impurity at once (exclusive or), unless ``min_decrease`` asks for more; ties go to a column drawn from the seed.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    feature_importances_ : array of shape (n_features,)
        Decrease of impurity by column, summing to 1 (all 0 for a single leaf). It favors columns of many values.

    Notes
    -----
    Missing values (NaN) go to the side that lowers the impurity most; those of a column that had none in the fit go to
    the side with more rows. A column that is missing throughout is never split on. Columns are compared in single
    precision, in a unit that keeps their values apart. Cost O(d n log n) per level. A
    library-backed system: scikit-learn's DecisionTreeClassifier underneath. Source: Breiman, Friedman, Olshen and Stone
    (1984).

    Examples
    --------
    >>> DecisionTree(random_state=0).fit([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 0]).depth_
    2
    """

    name: ClassVar[str] = "decision-tree"
    types: ClassVar[tuple[str, ...]] = ("sklearn.tree._classes.DecisionTreeClassifier", TREE)
    domain = Real(allow_missing=True)

    criterion: Annotated[Literal["gini", "entropy"], Doc("The impurity.")] = "gini"

    def make_estimator(self, n_features: int) -> DecisionTreeClassifier:
        return DecisionTreeClassifier(criterion=self.criterion, **self._growth(n_features))

    def _states_frequencies(self) -> bool:
        return True


class RegressionTree(_Tree, LibraryRegressor):
    r"""Regression tree.

    As `DecisionTree`, with the mean squared deviation of the target from the mean of the node as the impurity,
    :math:`\frac{1}{n} \sum_i (y_i - \bar y)^2`; a leaf predicts the mean (the median with
    ``criterion="absolute_error"``) of its rows.

    Attributes
    ----------
    feature_importances_ : array of shape (n_features,)
        Decrease of impurity by column, summing to 1 (all 0 for a single leaf).

    Notes
    -----
    Missing values, and the units of columns and target, as in `DecisionTree`. Cost O(d n log n) per level. A
    library-backed system: scikit-learn's DecisionTreeRegressor underneath.
    Source: Breiman, Friedman, Olshen and Stone (1984).

    Examples
    --------
    >>> RegressionTree(max_depth=1, min_rows_leaf=1).fit([[0], [1], [2], [3]], [0.0, 0.0, 1.0, 3.0]).predict([[2], [3]])
    array([0.33333333, 3.        ])
    """

    min_rows_leaf: int = 10

    name: ClassVar[str] = "regression-tree"
    resamples_rows: ClassVar[bool] = True  # ten rows in a leaf are counted, whatever they weigh
    inert_fields: ClassVar[Mapping[str, str]] = {
        "dtype": "thresholds are compared in single precision and numbers predicted in double"
    }
    types: ClassVar[tuple[str, ...]] = ("sklearn.tree._classes.DecisionTreeRegressor", TREE)
    domain = Real(allow_missing=True)

    criterion: Annotated[
        Literal["squared_error", "absolute_error"],
        Doc("The impurity: mean squared deviation from the mean, or mean absolute deviation from the median."),
    ] = "squared_error"

    def make_estimator(self, n_features: int) -> DecisionTreeRegressor:
        return DecisionTreeRegressor(criterion=self.criterion, **self._growth(n_features))
