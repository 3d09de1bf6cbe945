"""What forests share: their hyper-parameters, the trees' growth in scikit-learn's words, what a fitted forest shows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from gnomon.contracts import Array
from gnomon.distributions.domains import Real
from gnomon.recipes.fields import Doc
from gnomon.system.fields import ComparesInSingle
from gnomon.system.library import LibraryClassifier, LibraryRegressor
from gnomon.system.tree_model import ForestModel, Importances
from gnomon.system.trees import DrawsColumns

__all__ = ["NODES", "Forest", "ForestClassifier", "ForestRegressor"]

NODES = "sklearn.tree._tree.Tree"
"""What every tree of a saved forest consists of."""
ROUNDING = 1e-12
"""Impurity of a constant target, as a share of its size or of the square of that."""


class Forest(Importances, DrawsColumns, ComparesInSingle):
    """Base of the forests."""

    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"out_of_bag": {"bootstrap": True}}
    domain = Real()
    model_class: ClassVar[type] = ForestModel
    estimator_class: ClassVar[Any]
    """Forest of scikit-learn."""

    n_trees: Annotated[int, "[1, inf)", Doc("Trees.")] = 100
    bootstrap: Annotated[
        bool,
        Doc(
            "Whether a tree sees as many rows as there are, drawn with replacement in proportion to their weights; "
            "otherwise all rows, as they weigh."
        ),
    ] = True
    out_of_bag: Annotated[
        bool, Doc("Whether each row is judged by the trees that did not see it (with `bootstrap` alone).")
    ] = False

    def _growth(self, n_features: int) -> dict[str, Any]:
        return {
            **self._limits(), "n_estimators": self.n_trees, "max_features": self._columns(n_features),
            "bootstrap": self.bootstrap, "oob_score": self.out_of_bag,
        }  # fmt: skip

    @property
    def out_of_bag_score_(self) -> float:
        """Accuracy or R^2 of the rows, each judged by the trees that did not see it; without those that all saw."""
        return float(self.model_.estimator.oob_score_)

    @property
    def out_of_bag_count_(self) -> Array:
        """By row of positive weight, the number of trees that did not see it: with 0 it is not in the score."""
        counts: Array = self.model_.estimator.oob_count_
        return counts


class ForestClassifier(Forest, LibraryClassifier):
    """Base of the forests for classes."""

    criterion: Annotated[Literal["gini", "entropy"], Doc("The impurity that a split lowers.")] = "gini"
    max_features: Annotated[int, "[1, inf)"] | Annotated[float, "(0, 1)"] | Literal["sqrt", "log2"] | None = "sqrt"

    def make_estimator(self, n_features: int) -> Any:
        return self.estimator_class(criterion=self.criterion, **self._growth(n_features))

    def _states_frequencies(self) -> bool:
        return True


class ForestRegressor(Forest, LibraryRegressor):
    """Base of the forests for a number."""

    inert_fields: ClassVar[Mapping[str, str]] = {
        "dtype": "thresholds are compared in single precision and numbers predicted in double"
    }
    criterion: Annotated[Literal["squared_error", "absolute_error"], Doc("The impurity that a split lowers.")] = (
        "squared_error"
    )

    def make_estimator(self, n_features: int) -> Any:
        return self.estimator_class(criterion=self.criterion, **self._growth(n_features))

    @property
    def out_of_bag_score_(self) -> float:
        """R^2 of the rows, each judged by the trees that did not see it; NaN where the target does not vary."""
        return math.nan if self._constant else super().out_of_bag_score_

    @property
    def _constant(self) -> bool:
        """Whether the target did not vary: the impurity of every root is rounding."""
        roots = [one.tree_ for one in self.model_.estimator.estimators_]
        size = max(abs(float(tree.value.flat[0])) for tree in roots)
        unit = size if self.criterion == "absolute_error" else size * size
        return max(float(tree.impurity[0]) for tree in roots) <= ROUNDING * unit
