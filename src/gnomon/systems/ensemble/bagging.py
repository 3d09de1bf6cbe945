"""Bagging: members on random rows and columns, averaged."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar

import numpy as np

from gnomon import contracts
from gnomon.catalog import make
from gnomon.contracts import Array
from gnomon.data.examples import Examples
from gnomon.distributions.arrays import row_weights
from gnomon.distributions.domains import Real
from gnomon.errors import UserValueError
from gnomon.evaluation.regression import r_squared
from gnomon.numeric.noise import Noise
from gnomon.recipes.fields import Doc
from gnomon.system.base import System
from gnomon.system.fields import HasDtype
from gnomon.system.prediction import Classifier, Regressor
from gnomon.systems.ensemble.composite import SEEDS, Composite, Parts, member, outputs

__all__ = ["Bagging", "BaggingModel", "BaggingRegression", "bootstrap"]

TRIES = 1000
"""Samples of rows that are drawn anew because they held one class only."""


def bootstrap(n: int, size: int, noise: contracts.Noise, *, replace: bool = True, draw: int = 0) -> Array:
    r"""Numbers of `size` rows out of n, drawn with or without replacement.

    With replacement and size n a row is drawn with probability :math:`1 - (1 - 1/n)^n`, which tends to 1 - 1/e = 0.632.

    Parameters
    ----------
    n : int in [1, inf)
    size : int in [1, inf)
        At most n without replacement.
    noise : contracts.Noise
        Its update is the number of the sample.
    replace : bool, default True
    draw : int, default 0

    Returns
    -------
    int64 array of shape (size,)

    Examples
    --------
    >>> sorted(bootstrap(4, 4, Noise(0, "rows"), replace=False).tolist())
    [0, 1, 2, 3]
    """
    if replace:
        return noise.integers(n, (size,), draw)
    return noise.child(f"order-{draw}").order(n)[:size]


class BaggingModel(Parts):
    """The mean of what the members say of their columns.

    Parameters
    ----------
    base : System
        Unfitted member.
    n_features : int
    classes : array of shape (k,) or None
        None: a regression.
    n_members : int
    rows, columns : float in (0, 1]
        Shares of rows and columns for each member.
    replace_rows, replace_columns : bool
    """

    def __init__(
        self, base: System, n_features: int, classes: Array | None, n_members: int, *, rows: float, columns: float,
        replace_rows: bool, replace_columns: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self.base, self.n_features, self.classes, self.turns = base, n_features, classes, n_members
        self.rows, self.columns = rows, columns
        self.replace_rows, self.replace_columns = replace_rows, replace_columns

    def _blank(self, name: str) -> System:
        return self.base

    def drawn_rows(self, i: int, y: Array, weight: Array, noise: contracts.Noise) -> Array:
        """The rows of member i, in order, among those whose weight is not 0; of two classes at least."""
        there = np.flatnonzero(weight > 0)
        size = max(1, round(self.rows * len(there)))
        for draw in range(TRIES):
            drawn = bootstrap(len(there), size, noise.child("rows").at(i), replace=self.replace_rows, draw=draw)
            rows = there[np.sort(drawn)]
            if self.classes is None or (y[rows] != y[rows[0]]).any():
                return rows
        raise UserValueError(
            f"{TRIES} samples of {size} rows hold one class only", "max_samples", "choose more, or balance the rows"
        )

    def drawn_columns(self, i: int, noise: contracts.Noise) -> Array:
        """The columns of member i, in order."""
        size = max(1, round(self.columns * self.n_features))
        if size == self.n_features and not self.replace_columns:
            return np.arange(size)
        drawn = bootstrap(self.n_features, size, noise.child("columns").at(i), replace=self.replace_columns)
        return np.sort(drawn)

    def turn(self, i: int, examples: Examples, noise: contracts.Noise) -> dict[str, float] | None:
        """Fit member i, and ask it about the rows that it has not seen."""
        assert examples.y is not None
        rows, columns = self.drawn_rows(i, examples.y, examples.weight, noise), self.drawn_columns(i, noise)
        if not i:
            n, k = len(examples.X), 1 if self.classes is None else len(self.classes)
            self.own = {
                "columns": np.zeros((self.turns, len(columns)), np.int64), "y": examples.y,
                "said": np.zeros((n, k)), "asked": np.zeros(n, np.int64),
            }  # fmt: skip
        self.own["columns"][i] = columns
        seed = int(noise.child("member").at(i).integers(SEEDS, (1,))[0])
        target = examples.y if self.classes is None else self.classes[examples.y]
        X = examples.X[:, columns]
        part = self.fit_part(self.base, X[rows], target[rows], examples.weight[rows], seed, always=True)
        self.parts[str(i)] = part
        out = examples.weight > 0  # a row of weight 0 is no row
        out[rows] = False
        if out.any():
            self.own["said"][out] += outputs(part, X[out], self.classes)
            self.own["asked"][out] += 1
        return None

    def predict(self, x: Array) -> Array:
        """Mean over the members, shape (n, k), or (n,) for a regression."""
        total = sum(
            outputs(part, x[:, columns], self.classes)
            for part, columns in zip(self.parts.values(), self.own["columns"], strict=True)
        )
        mean = np.asarray(total) / len(self.parts)
        return mean if self.classes is not None else mean[:, 0]


class _Bagged(HasDtype, Composite):
    """Hyper-parameters, addresses and evidence of both."""

    base: Annotated[
        str | Any,
        Doc(
            "The member, by its name in the catalog or as a system; ``base__max_depth`` sets one of its parameters.",
            type="str or System",
        ),
    ] = "decision-tree"
    n_members: Annotated[int, "[1, inf)", Doc("Members.")] = 10
    max_samples: Annotated[float, "(0, 1]", Doc("Rows drawn for each member, as a share of all.")] = 1.0
    max_features: Annotated[float, "(0, 1]", Doc("Columns drawn for each member, as a share of all; one at least.")] = (
        1.0
    )
    bootstrap: Annotated[bool, Doc("Whether rows are drawn with replacement.")] = True
    bootstrap_features: Annotated[bool, Doc("Whether columns are drawn with replacement.")] = False

    def _named(self) -> dict[str, System]:
        return {"base": member(self.base, "base")}

    def _replace(self, name: str, system: System) -> None:
        self.base = system

    def _model(self, n_features: int, classes: Array | None) -> BaggingModel:
        own = self.get_params(deep=False)
        shares = {"rows": own["max_samples"], "columns": own["max_features"]}
        replace = {"replace_rows": own["bootstrap"], "replace_columns": own["bootstrap_features"]}
        return BaggingModel(self._named()["base"], n_features, classes, own["n_members"], **shares, **replace)

    @property
    def members_(self) -> list[System]:
        """The fitted members."""
        return list(self.model_.parts.values())

    @property
    def columns_(self) -> Array:
        """Columns of each member, int64 of shape (n_members, m)."""
        return self.model_.own["columns"]

    @property
    def out_of_bag_count_(self) -> Array:
        """By training row, the members that had not drawn it, 0 for a row of weight 0: then it has no prediction."""
        return self.model_.own["asked"]

    @property
    def out_of_bag_(self) -> Array:
        """By training row, the mean over the members that had not drawn it, (n, k) or (n,); NaN where there is none."""
        counts = self.model_.own["asked"]
        with np.errstate(invalid="ignore"):
            mean = np.where(counts[:, None] > 0, self.model_.own["said"] / counts[:, None], math.nan)
        return mean if self.model_.classes is not None else mean[:, 0]

    def drawn(self, i: int, *, sample_weight: Any = None) -> Array:
        """Rows of the training table that member i was given, as often as it was; the weights are those of the fit."""
        y = self.model_.own["y"]
        weight = row_weights(sample_weight, len(y), np.float64)
        return self.model_.drawn_rows(i, y, weight, Noise(self.seed_, "fit"))


class Bagging(_Bagged, Classifier):
    r"""Bagging of any classifier.

    Member i is a copy of `base` fitted to rows drawn with replacement (bootstrap) and, if asked, to some of the
    columns; the probabilities are the mean of the members' (of their votes where a member has none):

    .. math:: p(c | x) = \frac1M \sum_i p_i(c | x)

    The mean of M members of variance s^2 and correlation r has the variance :math:`s^2 (r + (1 - r) / M)`. With
    ``max_samples`` and ``max_features`` below 1 this is random patches; with ``bootstrap=False`` and ``max_features``
    below 1 random subspaces. Each row is also judged by the members that have not drawn it, about 37 % of them: the
    out-of-bag estimate. Where rows belong together (groups, neighbors in time) it is too good, since near copies of a
    row are drawn where it is not. A sample of one class only is drawn anew; a class missing from a sample has
    probability 0 there.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    members_ : list of System
    columns_ : int64 array of shape (n_members, m)
    out_of_bag_ : array of shape (n, n_classes)
    out_of_bag_count_ : int64 array of shape (n,)
    out_of_bag_score_ : float
        Accuracy over the rows that at least one member had not drawn.

    Notes
    -----
    Each member is one step of the fit and can be resumed; saved, it has a folder of its own. Cost: that of the members.
    Source: Breiman (1996); Ho (1998); Louppe and Geurts (2012).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> Bagging(random_state=0).set_params(base__max_depth=3).fit(X, y).out_of_bag_score_ > 0.9
    True
    """

    name: ClassVar[str] = "bagging"
    resamples_rows: ClassVar[bool] = True
    model_class: ClassVar[type] = BaggingModel
    domain = Real()

    def arguments(self, examples: Examples) -> dict[str, Any]:
        return super().arguments(examples) | {"classes": self.classes_}

    def make(self, *_: Any, **arguments: Any) -> BaggingModel:
        return self._model(arguments["n_features"], arguments["classes"])

    def class_proba(self, rows: Array) -> Array:
        return self.model_.predict(rows).astype(rows.dtype)

    def class_log_proba(self, rows: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(self.class_proba(rows))

    def _states_frequencies(self) -> bool:
        return True  # of members that may have met some of the classes only

    @property
    def out_of_bag_score_(self) -> float:
        """Accuracy of the out-of-bag predictions; a row without one does not count."""
        covered, y = self.model_.own["asked"] > 0, self.model_.own["y"]
        right = np.argmax(self.model_.own["said"], axis=1) == y
        return float(right[covered].mean()) if covered.any() else math.nan


class BaggingRegression(_Bagged, Regressor):
    r"""Bagging of any regression.

    As `Bagging`: the prediction is the mean of the members', :math:`f(x) = \frac1M \sum_i h_i(x)`, whose squared error
    is at every point at most the mean of the members' squared errors.

    Attributes
    ----------
    members_ : list of System
    columns_ : int64 array of shape (n_members, m)
    out_of_bag_ : array of shape (n,)
    out_of_bag_count_ : int64 array of shape (n,)
    out_of_bag_score_ : float
        R^2 over the rows that at least one member had not drawn.

    Notes
    -----
    Each member is one step of the fit and can be resumed; saved, it has a folder of its own. Cost: that of the members.
    Source: Breiman (1996); Ho (1998); Louppe and Geurts (2012).

    Examples
    --------
    >>> X = np.arange(200.0)[:, None]
    >>> BaggingRegression(random_state=0).fit(X, 2 * X[:, 0]).out_of_bag_score_ > 0.9
    True
    """

    name: ClassVar[str] = "bagging-regression"
    resamples_rows: ClassVar[bool] = True
    model_class: ClassVar[type] = BaggingModel
    domain = Real()

    base: Annotated[
        str | Any | None,
        Doc(
            "The member, by its name in the catalog or as a system; None is a regression tree that is grown until its "
            "leaves hold one row, for averaging does what larger leaves do for a single tree. ``base__max_depth`` sets "
            "one of its parameters.",
            type="str, System or None",
        ),
    ] = None

    def _named(self) -> dict[str, System]:
        return {"base": make("regression-tree", min_rows_leaf=1)} if self.base is None else super()._named()

    def make(self, *_: Any, **arguments: Any) -> BaggingModel:
        return self._model(arguments["n_features"], None)

    @property
    def out_of_bag_score_(self) -> float:
        """R^2 of the out-of-bag predictions, of the rows that have one; NaN where their target does not vary."""
        covered, y = self.model_.own["asked"] > 0, self.model_.own["y"]
        varies = covered.any() and np.ptp(y[covered]) > 0
        return r_squared(y[covered], self.out_of_bag_[covered]) if varies else math.nan
