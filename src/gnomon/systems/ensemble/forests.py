"""What forests share."""

from __future__ import annotations

from typing import Any

from gnomon.system.library import Importances

__all__ = ["Forest"]


class Forest(Importances):
    """Growth of the trees in scikit-learn's words, and what a fitted forest shows."""

    n_trees: int
    max_depth: int | None
    min_rows_leaf: int
    max_features: int | float | str | None
    bootstrap: bool
    out_of_bag: bool

    def _growth(self, n_features: int) -> dict[str, Any]:
        few = self.max_features
        return {
            "n_estimators": self.n_trees, "max_depth": self.max_depth, "min_samples_leaf": self.min_rows_leaf,
            "max_features": min(few, n_features) if isinstance(few, int) else few,
            "bootstrap": self.bootstrap, "oob_score": self.out_of_bag,
        }  # fmt: skip

    @property
    def out_of_bag_score_(self) -> float:
        """Accuracy or R^2 of the rows, each judged by the trees that did not see it."""
        return float(self.model_.estimator.oob_score_)
