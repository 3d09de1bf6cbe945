"""Matrix factorization of implicit feedback: scores that rank what a user met above what it did not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gnomon.contracts import Array, Procedure
from gnomon.data.examples import Examples
from gnomon.data.interactions import Interactions
from gnomon.data.user_items import MetItems
from gnomon.distributions.arrays import row_weights
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.recommend._base import FactorRecommender
from gnomon.systems.recommend._lists import list_scores
from gnomon.systems.recommend._ranking import BPR, ImplicitObjective, PointwiseLogistic, StochasticRanking

__all__ = ["BPR", "ImplicitFactorization", "PointwiseLogistic"]


class ImplicitFactorization(FactorRecommender):
    r"""Matrix factorization of implicit feedback: who met (bought, watched, read) what, without ratings.

    The score of an item for a user is :math:`x_{ui} = b_u + c_i + A_u \cdot B_i`. It is learned by ranking
    (``objective="bpr"``: an item that the user met above one drawn from those that it did not meet) or by telling both
    apart (``"logistic"``). Items are drawn anew in every epoch.

    Attributes
    ----------
    users_, items_ : array
        Ids, sorted.
    user_factors_, item_factors_ : array of shape (n, n_factors)
    item_biases_ : array of shape (n_items,)
    history_ : dict of lists
        ``loss``: the objective per weight of pairs (of triples), as the steps came upon it.

    Notes
    -----
    X is pairs of ids, ratings as `gnomon.data.pairs` reads them, or a sparse matrix; values play no part. A pair that
    occurs several times counts as often. An id that the fit has not seen has bias and factors 0. A user who met all
    items teaches ``"bpr"`` nothing.

    An epoch costs O(n n_factors). The result does not depend on threads or processes: the first process fits.
    Source: Rendle, Freudenthaler, Gantner and Schmidt-Thieme (2009), "BPR: Bayesian personalized ranking from implicit
    feedback".

    Examples
    --------
    >>> pairs = [("ann", "tea"), ("ann", "milk"), ("bob", "tea"), ("bob", "milk"), ("cat", "tea"), ("dan", "oil")]
    >>> model = ImplicitFactorization(n_factors=2, random_state=0).fit(pairs)
    >>> model.recommend("cat", k=1).items.tolist()
    [['milk']]
    """

    n_factors: Annotated[int, "[0, inf)", Doc("Factors of a user and of an item; 0 ranks alike for all users.")] = 64
    objective: Annotated[
        str | Recipe, Doc('"bpr": met items above others; "logistic": met items told from others.')
    ] = "bpr"

    name: ClassVar[str] = "implicit-factorization"
    domain: ClassVar[Any] = MetItems()
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"objective": ImplicitObjective}
    tasks: ClassVar[tuple[str, ...]] = ("rank",)

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        log = self.domain.check(X, y)
        weight = row_weights(sample_weight, len(log), np.float64)
        return Interactions.from_records(log.users, log.items, weight=weight, repeats="mean").to_examples(
            self.dtype or "float32"
        )

    def procedure(self, examples: Any) -> Procedure:
        return StochasticRanking(self.recipe("objective"))

    # --- verbs --------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> Array:
        """Score of each pair (user, item), shape (n,): comparable between the items of a user.

        A user or item that the fit has not seen has bias and factors 0.
        """
        check_is_fitted(self)
        return self.model_.score(*self._codes(X))

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """What lists of ten are worth, over users: whether the items of these pairs come before others.

        Hit rate, precision, recall, average precision, discounted gain, and the area under the ROC curve. Lists leave
        out what else a user met in the fit; pairs of unknown items take no part.
        """
        check_is_fitted(self)
        log = self.domain.check(X, y)
        scores = list_scores(self.model_, log, np.ones(len(log), bool))
        if not scores:
            raise UserValueError("there must be a pair of a known item, got none", "X", "give items of the fit")
        return scores

    def score(self, X: Any, y: Any = None) -> float:
        """Mean discounted gain of lists of ten, in [0, 1]."""
        return float(self.evaluate(X, y)["ndcg@10"].value)

    @property
    def item_biases_(self) -> Any:
        """Biases of the items, in the order of ``items_``."""
        return self.model_.item_bias
