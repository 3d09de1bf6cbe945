"""The restricted Boltzmann machine of ratings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from gnomon import contracts
from gnomon.contracts import Array, Procedure
from gnomon.data.examples import Examples
from gnomon.errors import UserValueError
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.numeric.given import checked
from gnomon.numeric.noise import Noise, seed_of
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.systems.recommend._base import Recommender
from gnomon.systems.recommend._fitting import codes_of, remember
from gnomon.systems.recommend._rating_learning import CD, Pseudolikelihood, RatingObjective, RatingSteps, Settings
from gnomon.systems.recommend._rating_machine import RatingMachines, RatingRBMModel

__all__ = ["CD", "Pseudolikelihood", "RatingRBM", "RatingRBMModel"]

MOST_LEVELS = 64
"""Different values of a rating, beyond which a softmax unit for each item has too few ratings for each of them."""
FIRST_COUPLINGS = 0.1
"""Standard deviation of the first couplings."""
PRIOR_RATINGS = 5.0
"""Ratings of no item in particular that the first biases of an item count beside its own."""


class RatingRBM(Recommender):
    r"""Restricted Boltzmann machine of ratings: hidden units that say which ratings go together.

    Every user has a machine over the items that the user has rated, with a softmax unit for each and binary hidden
    units; all machines share the parameters of an item:
    :math:`P(v_i = k \mid h) \propto \exp(b_{ik} + \sum_f W_{ikf} h_f)` and
    :math:`P(h_f = 1 \mid v) = \sigma(c_f + \sum_i (W_{i v_i f} + D_{if}))`, the sum over the rated items.

    Attributes
    ----------
    users_, items_ : array
        Ids, sorted.
    levels_ : array of shape (n_levels,)
        The values that ratings had in the fit, rising.
    user_factors_ : array of shape (n_users, n_factors)
        Means of the hidden units given all ratings of the user.
    item_factors_ : array of shape (n_items, n_factors)
        :math:`\sum_k (r_k - \bar r) W_{ikf}`: which way a hidden unit moves the rating.
    history_ : dict of lists
        ``loss`` (cross-entropy, nats per rating) and ``rmse`` of the ratings as they are found again from the means of
        the hidden units given all of them: lower than the errors of new ratings.

    Notes
    -----
    The expected rating of an item is that of the exact distribution given the user's other ratings, hidden units summed
    out, in the machine that has this item too: O(n_levels n_factors) per pair. What is predicted of a rated pair leaves
    its own rating out. An unknown user has no ratings, and an unknown item the couplings that items have in common. A
    rating of weight w enters the energy w times, as w units that always agree.

    A user's hidden units are sure of themselves after a hundred ratings, and an item has few ratings for many
    couplings: what an item's parameters differ by from all items' is held back by `l2`. Contrastive divergence follows
    the likelihood of all ratings together; ``pseudolikelihood`` that of each one given the others, which is the
    prediction itself. Cost per epoch O(n n_levels n_factors), memory for one batch of users. The result does not depend
    on threads or processes: the first process fits.

    References
    ----------
    Salakhutdinov, Mnih and Hinton (2007), "Restricted Boltzmann machines for collaborative filtering".

    Examples
    --------
    >>> pairs = [(user, item) for user in range(20) for item in ("tea", "milk", "mate")]
    >>> ratings = [5, 1, 5] * 10 + [1, 5, 1] * 10  # two tastes
    >>> model = RatingRBM(n_factors=4, random_state=0).fit(pairs, ratings)
    >>> model.predict([(0, "milk"), (19, "milk")]).round(1).tolist()
    [1.7, 4.4]
    """

    n_factors: Annotated[int, "[1, inf)", Doc("Hidden units, each 0 or 1.")] = 64
    conditional: Annotated[bool, Doc("Whether there is D: that an item is rated at all says something.")] = True
    objective: Annotated[
        str | Recipe,
        Doc('"cd": contrastive divergence; "pseudolikelihood": each rating given the others of its user.'),
    ] = "cd"
    l2: Annotated[
        float, "[0, inf)",
        Doc("Factor of half the squares of couplings about those of all items; of biases a tenth of it."),
    ] = 0.01  # fmt: skip
    epochs: Annotated[int, "[1, inf)", Doc("Passes over the users.")] = 30
    batch_size: Annotated[int | None, "[1, inf)", Doc("Users of an update; None takes all of them.")] = 64
    learning_rate: Annotated[float, "(0, inf)", Doc("Step size of the first epoch; it falls linearly to 0.")] = 1.0

    name: ClassVar[str] = "rating-rbm"
    model_class: ClassVar[type] = RatingRBMModel
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"objective": RatingObjective}

    def arguments(self, examples: Examples) -> dict[str, Any]:
        levels = np.unique(np.asarray(examples.y, np.float64))
        if len(levels) > MOST_LEVELS:
            what = f"ratings must have at most {MOST_LEVELS} different values, got {len(levels)}"
            raise UserValueError(what, "y", "round them, or use matrix-factorization")
        return super().arguments(examples) | {"levels": levels.tolist()}

    def make(self, n_users: int, n_items: int, dtype: str, **given: Any) -> RatingRBMModel:  # type: ignore[override]
        return RatingRBMModel(n_users, n_items, self.n_factors, given["levels"], np.dtype(dtype), self.conditional)

    def initialize(self, model: Any, examples: Examples, noise: contracts.Noise) -> None:
        remember(model, examples)
        _, items = codes_of(examples)
        codes = np.searchsorted(model.levels, np.asarray(examples.y, np.float64))
        model.seen_levels, model.seen_weight = codes, np.asarray(examples.weight).astype(model.dtype)
        n_items, n_levels = model.bias.shape
        counts = np.bincount(items * n_levels + codes, examples.weight, n_items * n_levels).reshape(n_items, n_levels)
        base = counts.sum(0) / counts.sum()
        own = counts + PRIOR_RATINGS * base
        model.log_base[:], model.bias[:] = np.log(base), np.log(own / own.sum(1, keepdims=True))
        first = noise.child("coupling").normal(model.coupling.shape, like=model.coupling)
        model.coupling[:] = FIRST_COUPLINGS * first

    def procedure(self, examples: Any) -> Procedure:
        objective: Any = self.recipe("objective")
        users = self.batch_size or self.arguments_["n_users"]
        return RatingSteps(Settings(objective, self.epochs, users, self.learning_rate, self.l2))

    # --- verbs --------------------------------------------------------------------------------------------------

    @property
    def levels_(self) -> NDArray[np.float64]:
        """The values that ratings had in the fit, rising."""
        levels: NDArray[np.float64] = self.model_.levels
        return levels

    def rating_proba(self, X: Any) -> NDArray[np.float64]:
        """P(rating = ``levels_[k]`` | the user's other ratings) of each pair (user, item), shape (n, n_levels)."""
        check_is_fitted(self)
        found: NDArray[np.float64] = self.model_.rating_proba(*self._codes(X))
        return found

    def reconstruct(self, X: Any) -> Array:
        """Expected rating of each pair at the means of the user's hidden units given all ratings, this one too."""
        check_is_fitted(self)
        users, items = self._codes(X)
        _refuse_unknown(items)
        some, rows = np.unique(users, return_inverse=True)
        machines, visible = self.model_.machines(some)
        mean: Any = machines.conditional("hidden", {"visible": visible}).mean
        these, order = self._machines_of(rows, items, len(some))
        found: Any = these.conditional("visible", {"hidden": mean})
        answers = np.empty(len(users))
        answers[order] = found.mean @ self.levels_
        return answers

    @checked
    def sample_ratings(self, X: Any, *, steps: int = 100, random_state: Any = None) -> NDArray[np.float64]:
        """Ratings of pairs drawn together given all ratings of their users in the fit, which are held.

        Parameters
        ----------
        X : pairs of ids
            Each once, of known items, none of them rated in the fit.
        steps : int in [1, inf), default 100
            Gibbs steps.
        random_state : int, Generator or None

        Returns
        -------
        array of shape (n,)
        """
        check_is_fitted(self)
        users, items = self._codes(X)
        model, some = self.model_, np.unique(users)
        self._refuse_rated(users, items)
        own, visible = model.machines(some)
        rows = np.concatenate([np.repeat(np.arange(len(some)), np.diff(own.offsets)), np.searchsorted(some, users)])
        order = np.argsort(rows, kind="stable")
        both, _ = self._machines_of(rows, np.concatenate([own.items, items]), len(some))
        both.weight[:] = np.concatenate([own.weight, np.ones(len(users), model.dtype)])[order]
        held = np.concatenate([np.ones(len(own.items), bool), np.zeros(len(users), bool)])[order]
        begun = np.concatenate([visible, np.tile(np.exp(model.log_base), (len(users), 1))])[order]
        clamp = {"visible": (begun, np.broadcast_to(held[:, None], begun.shape))}
        if how_many(steps, "steps") < 1:
            raise UserValueError(f"steps must be at least 1, got {steps}", "steps", "")
        noise = Noise(seed_of(random_state), "sample-ratings")
        found = gibbs(both, {"visible": begun}, noise, steps=steps, order=("hidden", "visible"), clamp=clamp)["visible"]
        answers = np.empty(len(rows), np.int64)
        answers[order] = found.argmax(1)
        return self.levels_[answers[len(own.items) :]]

    def _refuse_rated(self, users: NDArray[np.int64], items: NDArray[np.int64]) -> None:
        """Refuse pairs that have a rating already, or twice the same, and unknown items."""
        _refuse_unknown(items)
        keys = users * len(self.items_) + items
        rows, seen = self.model_.seen_by(np.unique(users))
        rated = np.isin(keys, np.unique(users)[rows] * len(self.items_) + seen)
        if rated.any() or len(np.unique(keys)) < len(keys):
            what = "pairs to draw must have no rating in the fit, and come once"
            raise UserValueError(what, f"row {int(rated.argmax())}", "drop the others")

    def _machines_of(
        self, rows: NDArray[np.int64], items: NDArray[np.int64], n_users: int
    ) -> tuple[RatingMachines, NDArray[np.int64]]:
        """Machines of these items, whose users are numbers, and the order that they have there; weights are 1."""
        order = np.argsort(rows, kind="stable")
        offsets = np.searchsorted(rows[order], np.arange(n_users + 1))
        weight = np.ones(len(rows), self.model_.dtype)
        return RatingMachines(self.model_, offsets, items[order], weight), order


def _refuse_unknown(items: NDArray[np.int64]) -> None:
    if (items < 0).any():
        row = int((items < 0).argmax())
        raise UserValueError("an item must have a rating in the fit", f"row {row}", "drop the row")
