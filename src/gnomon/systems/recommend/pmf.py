"""Probabilistic matrix factorization: ratings are normal about the product of normal factors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.utils.validation import check_is_fitted

from gnomon.contracts import Noise, Procedure
from gnomon.data.examples import Examples
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score
from gnomon.numeric.given import checked
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.systems.recommend._base import Recommender, weighted_mean
from gnomon.systems.recommend._fitting import first_factors, remember
from gnomon.systems.recommend._posterior import MAP, Gibbs, Inference, PMFModel, Priors

__all__ = ["MAP", "PMF", "Gibbs", "PMFModel", "PosteriorDraws"]


class PosteriorDraws(NamedTuple):
    """Draws from the posterior.

    Parameters
    ----------
    users : array of shape (draws, n_users, n_factors)
    items : array of shape (draws, n_items, n_factors)
    noise_variance : array of shape (draws,)
    """

    users: NDArray[Any]
    items: NDArray[Any]
    noise_variance: NDArray[Any]


class PMF(Recommender):
    r"""Probabilistic matrix factorization.

    :math:`r_{ui} \sim N(\mu + A_u \cdot B_i, \sigma^2)` with :math:`A_u \sim N(0, \sigma_A^2 I)` and
    :math:`B_i \sim N(0, \sigma_B^2 I)`. The mode of the posterior minimizes :math:`\sum (r_{ui} - \mu - A_u \cdot
    B_i)^2 + \lambda_A |A|^2 + \lambda_B |B|^2` with :math:`\lambda_A = \sigma^2 / \sigma_A^2` and :math:`\lambda_B =
    \sigma^2 / \sigma_B^2`: a user with many ratings is held back by the prior less than one with few.

    Attributes
    ----------
    users_, items_ : array
        Ids, sorted.
    user_factors_, item_factors_ : array
        Of the mode; of Gibbs sampling those of all draws side by side, whose product is divided by their number.
    history_ : dict of lists
        ``loss`` and ``rmse`` on the training ratings, of the mode so far or of the draw of each sweep.

    Notes
    -----
    The variances are known up to what they do: with A twice and B half as large the ratings are the same, so the mode
    depends on the product of ``user_variance`` and ``item_variance`` alone, and maximizing over them as well has no
    solution. Gibbs sampling with ``learn_priors`` draws them, and they are judged by the predictions.

    Expected ratings are means over draws. An iteration or sweep costs O(n n_factors^2 + (users + items) n_factors^3).
    Source: Salakhutdinov and Mnih (2007), "Probabilistic matrix factorization"; (2008) for Gibbs sampling.

    Examples
    --------
    >>> pairs = [("ann", "tea"), ("ann", "milk"), ("bob", "tea"), ("bob", "milk"), ("cat", "tea")]
    >>> model = PMF(n_factors=1, inference="map", noise_variance=0.1, random_state=0).fit(pairs, [5, 1, 4, 1, 5])
    >>> model.predict([("cat", "milk"), ("cat", "coffee")]).round(1).tolist()  # nobody has rated coffee: the mean
    [1.4, 3.2]
    """

    n_factors: Annotated[int, "[1, inf)", Doc("Factors of a user and of an item.")] = 10
    noise_variance: Annotated[float, "[1e-12, 1e12]", Doc("Variance of a rating about its expectation.")] = 0.7
    user_variance: Annotated[float, "[1e-12, 1e12]", Doc("Variance of the factors of users, before any rating.")] = 0.2
    item_variance: Annotated[float, "[1e-12, 1e12]", Doc("Variance of the factors of items, before any rating.")] = 0.2
    center: Annotated[
        bool, Doc("Whether ratings are taken about their mean; without, their expectation is A_u B_i.")
    ] = True
    inference: Annotated[
        str | Recipe, Doc('"gibbs": draws from the posterior, over which predictions are averaged; "map": its mode.')
    ] = "gibbs"

    name: ClassVar[str] = "pmf"
    model_class: ClassVar[type] = PMFModel
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"inference": Inference}

    def make(self, n_users: int, n_items: int, dtype: str, **_: Any) -> PMFModel:
        return PMFModel(n_users, n_items, self.n_factors, self.recipe("inference").kept, np.dtype(dtype))

    def initialize(self, model: Any, examples: Examples, noise: Noise) -> None:
        remember(model, examples)
        if self.center:
            model.mean[:] = weighted_mean(examples)
        if isinstance(self.recipe("inference"), MAP):
            first_factors(model, noise)

    def procedure(self, examples: Any) -> Procedure:
        priors = Priors(self.noise_variance, self.user_variance, self.item_variance)
        procedure: Procedure = self.recipe("inference").build(priors)
        return procedure

    # --- verbs --------------------------------------------------------------------------------------------------

    def _by_draw(self, X: Any) -> NDArray[np.float64]:
        """Expected rating of each pair in each draw."""
        check_is_fitted(self)
        return self.model_.by_draw(*self._codes(X))

    @checked
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Expected rating of each pair (user, item), shape (n,); with `return_std` also its standard deviation.

        The deviation holds the noise and the spread over draws; of the mode, which has one draw, the noise alone. A
        user or item without a rating in the fit has factors 0, and the expected rating is the mean.
        """
        if not return_std:
            return super().predict(X)
        by_draw = self._by_draw(X)
        variance = by_draw.var(axis=1) + self._noise().mean()
        return by_draw.mean(axis=1), np.sqrt(variance)

    def _noise(self) -> NDArray[np.float64]:
        return self.model_.noise_variance[: self.model_.kept[0]]

    def log_prob(self, X: Any, y: Any = None) -> NDArray[np.float64]:
        """Log density in nats of each rating given the pair, shape (n,): that of the mixture of the draws."""
        wanted, _ = self._pair(X, y)
        by_draw = self._by_draw(X)
        noise = self._noise()
        terms = -0.5 * (np.log(2 * math.pi * noise) + (wanted[:, None] - by_draw) ** 2 / noise)
        log_p: NDArray[np.float64] = logsumexp(terms, axis=1) - math.log(len(noise))
        return log_p

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Root of the mean squared error, mean absolute error, and mean log density of a rating in nats."""
        space = self.domain.space(2)
        return super().evaluate(X, y) | {"log_likelihood": Score.from_pointwise(self.log_prob(X, y), data_space=space)}

    def sample_posterior(self, n: int | None = None) -> PosteriorDraws:
        """Draws of the factors and of the variance of the noise, evenly spaced along the chain.

        Parameters
        ----------
        n : int in [1, inf), optional
            How many of those that the fit has kept; all where left out.

        Raises
        ------
        UserValueError
            More than were kept, or a model that has the mode alone.
        """
        check_is_fitted(self)
        kept = int(self.model_.kept[0])
        if isinstance(self.recipe("inference"), MAP):
            raise UserValueError("draws need Gibbs sampling, got the mode", "inference", 'fit with inference="gibbs"')
        n = kept if n is None else how_many(n)
        if not 1 <= n <= kept:
            raise UserValueError(f"n must be in [1, {kept}], got {n}", "n", "fit with more draws")
        chosen = np.linspace(0, kept - 1, n).round().astype(np.int64)
        users, items = (self.model_.draws(side)[chosen] for side in ("users", "items"))
        return PosteriorDraws(users, items, self._noise()[chosen])
