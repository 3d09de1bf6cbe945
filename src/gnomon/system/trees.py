"""Hyper-parameters that trees, forests and boosting share, and what they mean in scikit-learn's words."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from gnomon.recipes.fields import Doc, Fields

__all__ = ["AddsTrees", "DrawsColumns", "Grown", "SplitsBestFirst", "StopsEarly"]


class Grown(Fields):
    """How far a tree grows."""

    max_depth: Annotated[
        int | None, "[1, inf)", Doc("Splits on the way to a leaf at most; None splits until the leaves are pure.")
    ] = None
    min_rows_leaf: Annotated[int, "[1, inf)", Doc("Rows that each child must have.")] = 1

    def _limits(self) -> dict[str, Any]:
        return {"max_depth": self.max_depth, "min_samples_leaf": self.min_rows_leaf}


class SplitsBestFirst(Grown):
    """Growth that can end at a number of leaves."""

    max_leaves: Annotated[
        int | None, "[2, inf)", Doc("Leaves of a tree at most; the split with the largest gain comes first.")
    ] = None

    def _limits(self) -> dict[str, Any]:
        return {**super()._limits(), "max_leaf_nodes": self.max_leaves}


class DrawsColumns(Grown):
    """Growth on a few columns at a time."""

    max_features: Annotated[
        Annotated[int, "[1, inf)"] | Annotated[float, "(0, 1)"] | Literal["sqrt", "log2"] | None,
        Doc("Columns (a number or fraction of them) drawn anew for every node; None looks at all."),
    ] = None

    def _columns(self, n_features: int) -> int | float | str | None:
        few = self.max_features
        return min(few, n_features) if isinstance(few, int) else few


class AddsTrees(Grown):
    """Trees one after the other, each on what the earlier ones have left."""

    n_trees: Annotated[int, "[1, inf)", Doc("Steps at most; each adds a tree, or one for each class.")] = 100
    learning_rate: Annotated[float, "(0, inf)", Doc("Factor of every tree.")] = 0.1


class StopsEarly(AddsTrees):
    """Steps that end when rows held out from the fit have nothing from them."""

    patience: Annotated[
        int | None,
        "[1, inf)",
        Doc("End after so many steps without a better loss on rows held out from the fit; None takes all steps."),
    ] = None
    held_out: Annotated[float, "(0, 1)", Doc("Fraction of the rows held out where `patience` is given.")] = 0.1
