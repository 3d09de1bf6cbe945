"""Trees."""

from __future__ import annotations

from gnomon.catalog.line import Entry

__all__ = ["ENTRIES"]

ENTRIES = (
    Entry(
        "decision-tree", "Decision tree", "决策树", "model",
        ("classify",), "gnomon.systems.trees.decision_tree:DecisionTree", "Breiman, Friedman, Olshen and Stone 1984",
        ("DLN-39", "DLN-46"),
        missing=True,
    ),
    Entry(
        "regression-tree", "Regression tree", "回归树", "model",
        ("regress",), "gnomon.systems.trees.decision_tree:RegressionTree", "Breiman, Friedman, Olshen and Stone 1984",
        ("DLN-39", "DLN-46"),
        missing=True,
    ),
)  # fmt: skip
