"""Matrix factorization: a rating is the sum of biases and the product of a user's and an item's factors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from gnomon.contracts import Noise, Procedure
from gnomon.data.examples import Examples
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.recommend._base import Recommendations, Recommender, weighted_mean
from gnomon.systems.recommend._fitting import Learner
from gnomon.systems.recommend._least_squares import ALS, SVD
from gnomon.systems.recommend._model import FactorModel
from gnomon.systems.recommend._sgd import SGD

__all__ = ["ALS", "SGD", "SVD", "FactorModel", "MatrixFactorization", "Recommendations"]


class MatrixFactorization(Recommender):
    r"""Matrix factorization with biases, learned from the known ratings alone.

    :math:`\hat r_{ui} = \mu + b_u + c_i + A_u \cdot B_i`, with the mean :math:`\mu` of the ratings. Minimized is
    :math:`\sum_{ui} w_{ui} (r_{ui} - \hat r_{ui})^2 + \lambda \sum_{ui} w_{ui} (|A_u|^2 + |B_i|^2 + b_u^2 + c_i^2)`
    over the known ratings; with ``penalty="parameter"`` the squares count once in all.

    Attributes
    ----------
    users_, items_ : array
        Ids, sorted.
    user_factors_, item_factors_ : array of shape (n, n_factors)
    user_biases_, item_biases_ : array of shape (n,)
    mean_ : float
    history_ : dict of lists
        ``loss`` (the minimized sum per weight of ratings) and ``rmse`` on the training ratings; of stochastic gradient
        descent as the steps came upon them.

    Notes
    -----
    X is pairs (user, item) with the ratings as y or as a third column, ratings as `gnomon.data.pairs` reads them, or a
    sparse matrix. Ids are whole numbers or text. An id that the fit has not seen has bias and factors 0.

    An epoch of stochastic gradient descent costs O(n n_factors), an iteration of alternating least squares
    O(n n_factors^2 + (users + items) n_factors^3). The result does not depend on threads or processes: the first
    process fits. Source: Koren, Bell and Volinsky (2009), "Matrix factorization techniques for recommender systems".

    Examples
    --------
    >>> pairs = [("ann", "tea"), ("ann", "milk"), ("bob", "tea"), ("bob", "milk"), ("cat", "tea")]
    >>> model = MatrixFactorization(n_factors=0, learner=ALS(l2=0.01), random_state=0).fit(pairs, [5, 1, 4, 1, 5])
    >>> model.recommend("cat", k=1).items.tolist(), model.predict([("cat", "tea"), ("cat", "milk")]).round(1).tolist()
    ([['milk']], [5.0, 1.5])
    """

    n_factors: Annotated[int, "[0, inf)", Doc("Factors of a user and of an item; 0 leaves the biases alone.")] = 64
    biases: Annotated[bool, Doc("Whether there are a mean and biases; without them a rating is the product.")] = True
    learner: Annotated[
        str | Recipe,
        Doc('"sgd": stochastic gradient; "als": alternating least squares; "svd": of the matrix, filled with biases.'),
    ] = "sgd"

    name: ClassVar[str] = "matrix-factorization"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"learner": Learner}

    def initialize(self, model: FactorModel, examples: Examples, noise: Noise) -> None:
        super().initialize(model, examples, noise)
        if self.biases:
            model.mean[:] = weighted_mean(examples)

    def procedure(self, examples: Any) -> Procedure:
        procedure: Procedure = self.recipe("learner").build(self.biases)
        return procedure

    @property
    def user_biases_(self) -> Any:
        """Biases of the users, in the order of ``users_``."""
        return self.model_.user_bias

    @property
    def item_biases_(self) -> Any:
        """Biases of the items, in the order of ``items_``."""
        return self.model_.item_bias

    @property
    def mean_(self) -> float:
        """Mean rating; 0 without biases."""
        return float(self.model_.mean[0])
