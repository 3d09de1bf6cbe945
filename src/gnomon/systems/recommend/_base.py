"""What recommenders share: ratings in, expected ratings, lists of items and their scores out."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from gnomon.contracts import Array, Group, Noise
from gnomon.data.examples import Examples
from gnomon.data.interactions import Interactions
from gnomon.data.user_items import UserItems, ids_of
from gnomon.distributions.arrays import plain, row_weights
from gnomon.errors import UserValueError
from gnomon.evaluation.recommendation import rmse
from gnomon.evaluation.regression import r_squared
from gnomon.evaluation.score import Score
from gnomon.numeric.given import checked
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.system.base import System
from gnomon.system.fields import HasDtype
from gnomon.system.verbs import verb
from gnomon.systems.recommend._fitting import first_factors, remember
from gnomon.systems.recommend._lists import list_scores
from gnomon.systems.recommend._model import FactorModel
from gnomon.training.procedure import Problem

__all__ = ["FactorRecommender", "Recommendations", "Recommender", "weighted_mean"]


class Recommendations(NamedTuple):
    """Items for some users (or items), best first.

    Parameters
    ----------
    items : array of shape (n, k)
        Ids; where there are fewer than k, the score is -inf and the id stands for nothing.
    scores : array of shape (n, k)
    """

    items: NDArray[Any]
    scores: NDArray[Any]


class FactorRecommender(HasDtype, System):
    """Base of the systems that learn factors of users and items, and list the items with the highest scores."""

    n_factors: Annotated[int, "[0, inf)", Doc("Factors of a user and of an item.")] = 64
    dtype: Literal["float32", "float64"] | None = "float32"

    model_class: ClassVar[type] = FactorModel
    domain: ClassVar[Any] = UserItems()

    # --- fit ----------------------------------------------------------------------------------------------------

    def known_domain(self) -> UserItems:
        return replace(self.domain, users=self.model_.users, items=self.model_.items)

    def arguments(self, examples: Examples) -> dict[str, Any]:
        sizes = {side: len(examples.shared[side]) for side in ("users", "items")}
        return {f"n_{side}": size for side, size in sizes.items()} | {"dtype": str(examples.y.dtype)}

    def make(self, n_users: int, n_items: int, dtype: str, **_: Any) -> FactorModel:
        return FactorModel(n_users, n_items, self.n_factors, np.dtype(dtype))

    def initialize(self, model: FactorModel, examples: Examples, noise: Noise) -> None:
        remember(model, examples)
        first_factors(model, noise)

    def problem(self, model: Any, examples: Any, noise: Noise, group: Group, validation: Any = None) -> Problem:
        return Problem(model, examples, noise, group)

    # --- verbs --------------------------------------------------------------------------------------------------

    def _codes(self, X: Any) -> tuple[Any, Any]:
        """Codes of users and items, -1 for unknown ones."""
        fields = self.known_domain().ingest(X)
        return fields["user"].values, fields["item"].values

    @verb
    @checked
    def recommend(self, users: Any, k: int = 10, *, exclude_seen: bool = True) -> Recommendations:
        """The k items with the highest score for each user, best first; equal ones in order of ids.

        Parameters
        ----------
        users : array of ids
            An unknown user gets what is best liked in general.
        k : int in [1, inf), default 10
        exclude_seen : bool, default True
            Leave out what the user had in the fit.
        """
        check_is_fitted(self)
        codes = self.model_.users.codes(ids_of(_several(users), "users"))
        found, scores = self.model_.best(codes, self._count(k), exclude_seen=exclude_seen)
        return Recommendations(self.items_[found], scores)

    def similar_items(self, items: Any, k: int = 10) -> Recommendations:
        """The k items whose factors point most nearly the same way as each item's, with the cosines, best first.

        Parameters
        ----------
        items : array of ids
            Each must have occurred in the fit.
        k : int in [1, inf), default 10
        """
        check_is_fitted(self)
        given = ids_of(_several(items), "items")
        codes = self.model_.items.codes(given)
        if (codes < 0).any():
            unknown = given[codes < 0].tolist()[0]
            raise UserValueError.must("items", "have a rating in the fit", unknown, remedy="drop it")
        found, cosines = self.model_.similar(codes, self._count(k))
        return Recommendations(self.items_[found], cosines)

    def _count(self, k: int) -> int:
        if how_many(k, "k") < 1:
            raise UserValueError(f"k must be at least 1, got {k}", "k", "")
        return min(int(k), len(self.model_.items))

    # --- what was learned ---------------------------------------------------------------------------------------

    @property
    def users_(self) -> NDArray[Any]:
        """Ids of the users, sorted."""
        return self.model_.users.values

    @property
    def items_(self) -> NDArray[Any]:
        """Ids of the items, sorted."""
        return self.model_.items.values

    @property
    def user_factors_(self) -> Array:
        """Factors of the users, in the order of ``users_``."""
        return self.model_.user_factors

    @property
    def item_factors_(self) -> Array:
        """Factors of the items, in the order of ``items_``."""
        return self.model_.item_factors

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.categorical = True, True
        return tags


class Recommender(RegressorMixin, FactorRecommender):
    """Base of the systems that learn factors of users and items from ratings.

    X is pairs of ids with the ratings as `y` or as a third column, ratings as `gnomon.data.pairs` reads them (or a data
    set of them), or a sparse matrix users by items, whose stored entries are the ratings.
    """

    repeats: Annotated[
        Literal["last", "mean", "error"],
        Doc("What a pair counts that was rated several times: its last rating, their mean, or a refusal."),
    ] = "last"

    tasks: ClassVar[tuple[str, ...]] = ("recommend",)
    primary: ClassVar[str] = "rmse"

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        log = self.domain.check(X, y)
        if log.values is None:
            raise UserValueError("there must be a rating for every pair, got none", "y", "give y, or a third column")
        weight = row_weights(sample_weight, len(log), np.float64)
        settled = Interactions.from_records(
            log.users, log.items, log.values, times=log.times, weight=weight, repeats=self.repeats
        )
        return settled.to_examples(self.dtype or _precision(log.values if y is None else y))

    def arguments(self, examples: Examples) -> dict[str, Any]:
        return super().arguments(examples) | {"mean": weighted_mean(examples)}

    def predict(self, X: Any) -> Array:
        """Expected rating of each pair (user, item), shape (n,).

        A user or item without a rating in the fit has bias and factors 0: what remains is the mean and the other bias.
        """
        check_is_fitted(self)
        return self.model_.score(*self._codes(X))

    def _pair(self, X: Any, y: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ratings and predictions."""
        log = self.domain.check(X, y)
        if log.values is None:
            raise UserValueError("there must be a rating for every pair, got none", "y", "give y, or a third column")
        return log.values, self.predict(log)

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Errors of the expected ratings, and what lists of ten are worth.

        The root of the mean squared error and the mean absolute error; hit rate, precision, recall, average precision
        and discounted gain at 10, and the area under the ROC curve, over users. Lists leave out what a user had rated
        in the fit; to be found are the items that the user rates, in X, at least as high as the mean of the fit.
        """
        log = self.domain.check(X, y)
        wanted, found = self._pair(log, None)
        space = self.domain.space(2)
        absolute = Score.from_pointwise(
            np.abs(wanted - found), name="absolute_error", unit="units of the rating", data_space=space,
            higher_is_better=False,
        )  # fmt: skip
        errors = {"rmse": rmse((wanted - found) ** 2, data_space=space), "absolute_error": absolute}
        return errors | list_scores(self.model_, log, wanted >= self.mean_rating_)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R^2 of the expected ratings, as scikit-learn's regressors; `evaluate` has the root mean squared error."""
        wanted, found = self._pair(X, y)
        weight = None if sample_weight is None else row_weights(sample_weight, len(wanted), np.float64)
        return r_squared(wanted, found, sample_weight=weight)

    @property
    def mean_rating_(self) -> float:
        """Mean of the ratings of the fit."""
        return float(self.arguments_["mean"])


def weighted_mean(examples: Examples) -> float:
    """Mean rating."""
    return float(np.average(np.asarray(examples.y, np.float64), weights=np.asarray(examples.weight, np.float64)))


def _several(ids: Any) -> Any:
    """One id as a list of one."""
    if isinstance(ids, str | bytes | int | float | np.generic) or ids is None:
        return [ids]
    return ids if isinstance(ids, list) else plain(ids, "ids", "give one id, or a list of them")


def _precision(values: Any) -> str:
    """That of the ratings as they came, float32 where they are no floating numbers."""
    name = str(getattr(values, "dtype", "float32"))
    return name if name in ("float32", "float64") else "float32"
