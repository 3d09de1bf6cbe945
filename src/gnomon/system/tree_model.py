"""Trees of scikit-learn as models: their columns and targets in units that single precision can tell apart."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import r2_score

from gnomon.contracts import Array
from gnomon.system.library import LibraryModel
from gnomon.system.units import ColumnUnits, TargetUnits

__all__ = ["BinnedModel", "ForestModel", "Importances", "TreeModel"]

IN_UNITS = ("min_impurity_decrease", "ccp_alpha")
"""Parameters of scikit-learn that are a decrease of impurity, in units of the target."""
PARTS = 10
"""In which a forest grows."""


class _Scaled(LibraryModel):
    """An estimator whose target has been brought to a spread of about 1."""

    target: TargetUnits = TargetUnits()

    def _rows_of(self, X: Array) -> Array:
        """Settle the units of the columns by the rows of the fit, and apply them."""
        raise NotImplementedError

    def fit(self, X: Array, y: Array | None, weight: Array, seed: int) -> None:
        """Fit in these units; see `LibraryModel.fit`."""
        there = weight > 0
        assert y is not None
        X, y, weight = X[there], y[there], weight[there]
        given = {name: v for name, v in self.estimator.get_params(deep=False).items() if name in IN_UNITS}
        if not is_classifier(self.estimator):
            self.target = TargetUnits.of(y)
            y = self.target.apply(y)
            power = self.power
            self.estimator.set_params(**{name: self.target.scaled(v, power) for name, v in given.items()})
        super().fit(self._rows_of(X), y, weight, seed)
        self.estimator.set_params(**given)

    def reached(self) -> tuple[int, int]:
        """Trees that are grown and those that are to be."""
        total = getattr(self.estimator, "n_estimators", 0) or getattr(self.estimator, "max_iter", 0)
        grown = getattr(self.estimator, "_predictors", None)
        if grown is None:
            grown = getattr(self.estimator, "estimators_", [])
        if isinstance(grown, np.ndarray):  # laid out before they are grown
            return sum(one is not None for one in grown[:, 0]), total
        return len(grown), total

    @property
    def power(self) -> int:
        """Of the target's unit, in an impurity."""
        return 1 if getattr(self.estimator, "criterion", "") == "absolute_error" else 2

    def impurity(self, value: Array) -> Array:
        """A decrease of impurity, or a squared error, in the units of the target as it was given."""
        if is_classifier(self.estimator):
            return value
        return np.ldexp(np.asarray(value, np.float64), -self.power * self.target.exponent)

    def numbers(self, answer: Any) -> Array:
        return self.target.back(answer)

    def state(self) -> dict[str, Array]:
        """The estimator as an array of bytes, and the units; nothing before the fit."""
        found = super().state()
        return found | self.target.state() if found else found

    def load(self, state: Mapping[str, Array]) -> None:
        """Take over an estimator and its units; one that was saved without any computes as it was fitted."""
        super().load(state)
        self.target = TargetUnits.of_state(state)


class TreeModel(_Scaled):
    """Trees that compare in single precision."""

    columns: ColumnUnits | None = None

    def _rows_of(self, X: Array) -> Array:
        self.columns = ColumnUnits.of(X)
        return self.columns.apply(X)

    def rows(self, X: Array) -> Array:
        return X if self.columns is None else self.columns.apply(X)

    def state(self) -> dict[str, Array]:
        """The estimator as an array of bytes, and the units; nothing before the fit."""
        found = super().state()
        return found | self.columns.state() if found and self.columns is not None else found

    def load(self, state: Mapping[str, Array]) -> None:
        """Take over an estimator and its units."""
        super().load(state)
        self.columns = ColumnUnits.of_state(state)


class ForestModel(TreeModel):
    """A forest, grown a few trees at a time, so that its progress can be seen; they are those of a single fit."""

    total: int = 0

    def grow(self, X: Array, y: Array | None, options: Mapping[str, Any]) -> None:
        """Grow the trees in `PARTS` parts; the last one judges the rows out of the bag."""
        forest = self.estimator
        self.total, judged = forest.n_estimators, forest.oob_score
        forest.set_params(warm_start=True, oob_score=False)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Some inputs do not have OOB scores")
            for end in np.unique(np.linspace(0, self.total, PARTS + 1).astype(int)[1:]).tolist():
                if end:
                    forest.set_params(n_estimators=end, oob_score=judged and end == self.total)
                    forest.fit(X, y, **options)
        forest.set_params(warm_start=False)
        if judged and y is not None:
            self._judge(y)

    def _judge(self, y: Array) -> None:
        """Score the rows that some tree has not seen; the library takes the others for the first class, or for 0."""
        forest = self.estimator
        forest.oob_count_ = np.zeros(len(y), np.int64)
        for rows in forest.estimators_samples_:
            forest.oob_count_ += np.bincount(rows, minlength=len(y)) == 0
        known = forest.oob_count_ > 0
        if not known.all():
            unseen = f"{len(y) - known.sum()} of {len(y)} rows were seen by every tree and are not in the"
            warnings.warn(f"{unseen} out-of-bag score; grow more trees", UserWarning, stacklevel=2)
        if not known.any():
            forest.oob_score_ = math.nan
        elif is_classifier(forest):
            predictions = forest.classes_[forest.oob_decision_function_[known].argmax(axis=1)]
            forest.oob_score_ = float((predictions == y[known]).mean())
        else:
            varies = (y[known] != y[known][0]).any()
            forest.oob_score_ = float(r2_score(y[known], forest.oob_prediction_[known])) if varies else math.nan

    def reached(self) -> tuple[int, int]:
        """Trees that are grown and those that are to be."""
        return len(getattr(self.estimator, "estimators_", [])), self.total


class BinnedModel(_Scaled):
    """Trees on bins, which are cut in double precision; a column that is missing throughout is never split on."""

    def _rows_of(self, X: Array) -> Array:
        nothing = np.isnan(X).all(axis=0)
        return np.where(nothing, np.zeros((), X.dtype), X) if nothing.any() else X


class Importances:
    """Mixin of trees and of what is made of trees."""

    model_class: ClassVar[type] = TreeModel
    model_: Any

    @property
    def feature_importances_(self) -> Array:
        """Decrease of impurity by column, weighted by rows, over all splits; sums to 1, or all 0 if none lowers it."""
        with np.errstate(invalid="ignore"):  # the library divides by their sum, which may be 0
            found = np.asarray(self.model_.estimator.feature_importances_)
        total = found.sum()
        return found / total if total > 0 else np.zeros_like(found)
