"""Restricted Boltzmann machines of ratings: one for each user, over the items that the user has rated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Distribution, State
from gnomon.data.class_vectors import one_hot
from gnomon.distributions.bernoulli import Bernoulli
from gnomon.distributions.layers import OneHot
from gnomon.numeric import ops
from gnomon.systems.recommend._model import KnownPairs
from gnomon.systems.recommend._rating_kernels import (
    add_conditional_slopes,
    add_statistics,
    hidden_fields,
    pair_log_weights,
    rating_fields,
)

__all__ = ["RatingMachines", "RatingRBMModel", "Slopes"]

PAIRS = 1 << 18
"""Pairs of a user and an item whose ratings have their probabilities in memory at once."""

Ints = NDArray[np.int64]
Floats = NDArray[np.floating[Any]]
Slopes = tuple[Ints, dict[str, Floats]]
"""Items, sorted, and derivatives by parameter: those that belong to items have a row for each of these."""


@dataclass
class RatingMachines:
    """The machines of some users as one model of two blocks.

    ``visible`` has a row for each rating, in which one of the levels is 1 (or their probabilities); ``hidden`` has a
    row for each user. Items that a user has not rated are no part of the user's machine.

    Parameters
    ----------
    model : RatingRBMModel
    offsets : int array of shape (users + 1,)
        Where the ratings of each user begin.
    items : int array of shape (ratings,)
    weight : array of shape (ratings,)
        How often a rating counts in the energy.
    """

    model: RatingRBMModel
    offsets: Ints
    items: Ints
    weight: Floats
    blocks: tuple[str, ...] = ("visible", "hidden")
    sizes: Mapping[str, int] = field(init=False)
    """Levels of a rating, hidden units of a user."""

    def __post_init__(self) -> None:
        self.sizes = {"visible": len(self.model.levels), "hidden": len(self.model.hidden_bias)}

    def conditional(self, block: str, state: State) -> Distribution:
        """A softmax for each rating given the hidden units, or independent hidden units given the ratings."""
        if block == "hidden":
            return Bernoulli(self.hidden_field(state["visible"]))
        return OneHot(self._rating_field(state["hidden"]), len(self.model.levels))

    def hidden_field(self, visible: Array) -> Floats:
        """Log odds of the hidden units given the ratings, shape (users, n_hidden)."""
        model = self.model
        field = np.empty((len(self.offsets) - 1, len(model.hidden_bias)), model.dtype)
        hidden_fields(
            self.offsets, self.items, self.weight, visible, model.hidden_bias, model.coupling, model.rated, field
        )
        return field

    def _rating_field(self, hidden: Array) -> Floats:
        field = np.empty((len(self.items), len(self.model.levels)), self.model.dtype)
        rating_fields(self.offsets, self.items, self.weight, hidden, self.model.bias, self.model.coupling, field)
        return field

    def joint_energy(self, state: State) -> Floats:
        """E(v, h) of each user, in nats."""
        return self._own_energy(state["visible"]) - (self.hidden_field(state["visible"]) * state["hidden"]).sum(1)

    def marginal_energy(self, kept: State) -> Floats:
        """-log sum over hidden units of exp(-E) of each user's ratings, in nats."""
        return self._own_energy(kept["visible"]) - ops.softplus(self.hidden_field(kept["visible"])).sum(1)

    def _own_energy(self, visible: Array) -> Floats:
        """Minus the biases of each user's ratings."""
        own = (self.weight[:, None] * visible * self.model.bias[self.items]).sum(1)
        total = np.add.reduceat(np.append(own, 0), self.offsets[:-1])
        total[np.diff(self.offsets) == 0] = 0
        return -total

    def contrast(self, near: Array, far: Array) -> Slopes:
        """Energies of `far` less those of `near`, the hidden units summed out: derivatives by the parameters."""
        model = self.model
        items, places, found = self._nothing()
        for sign, visible in ((1.0, near), (-1.0, far)):
            mean = self.conditional("hidden", {"visible": visible}).mean
            found["hidden_bias"] += model.dtype.type(sign) * mean.sum(0)
            add_statistics(
                self.offsets, places, self.weight, visible, mean, model.dtype.type(sign), found["bias"],
                found["coupling"], found["rated"],
            )  # fmt: skip
        return items, found

    def conditional_slopes(self, visible: Array) -> tuple[Slopes, float]:
        """Derivatives of the sum over ratings of log P(rating | the user's other ratings), and the sum."""
        items, places, found = self._nothing()
        total = add_conditional_slopes(
            self.offsets, self.items, places, visible.argmax(1), self.weight, self.hidden_field(visible),
            self.model.bias, self.model.coupling, found["bias"], found["coupling"], found["rated"],
            found["hidden_bias"],
        )  # fmt: skip
        return (items, found), float(total)

    def _nothing(self) -> tuple[Ints, Ints, dict[str, Floats]]:
        """The items that are rated, the place of each rating's among them, and zeros for each parameter's part."""
        model = self.model
        items, places = np.unique(self.items, return_inverse=True)
        shapes = {name: getattr(model, name).shape for name in ("bias", "coupling", "rated")}
        found = {name: np.zeros((min(len(items), shape[0]), *shape[1:]), model.dtype) for name, shape in shapes.items()}
        return items, places, found | {"hidden_bias": np.zeros_like(model.hidden_bias)}


class RatingRBMModel(KnownPairs):
    r"""Weights by item and level that the machines of all users share.

    :math:`E(v, h) = -\sum_{ik} v_{ik} b_{ik} - \sum_f c_f h_f - \sum_{ikf} v_{ik} W_{ikf} h_f - \sum_{if} D_{if} h_f`,
    the sums over the items that the user has rated.

    Parameters
    ----------
    n_users, n_items : int
    n_hidden : int
    levels : sequence of float
        The values that a rating can have, rising.
    dtype : dtype
    conditional : bool
        Whether there is D: that an item was rated, whatever the rating, moves the hidden units.
    """

    def __init__(
        self, n_users: int, n_items: int, n_hidden: int, levels: Sequence[float], dtype: Any, conditional: bool
    ) -> None:
        super().__init__(n_users, dtype)
        self.levels = np.array(levels, np.float64)
        self.bias = np.zeros((n_items, len(levels)), dtype)
        self.coupling = np.zeros((n_items, len(levels), n_hidden), dtype)
        self.rated = np.zeros((n_items if conditional else 0, n_hidden), dtype)
        self.hidden_bias = np.zeros(n_hidden, dtype)
        self.log_base, self.common = np.zeros(len(levels), dtype), np.zeros((len(levels), n_hidden), dtype)
        self.seen_levels, self.seen_weight = np.zeros(0, np.int64), np.zeros(0, dtype)

    def learned(self) -> dict[str, Floats]:
        """What a fit changes: couplings and biases of the items, and of no item in particular."""
        names = ("bias", "coupling", "rated", "hidden_bias", "log_base", "common")
        return {name: getattr(self, name) for name in names}

    def state(self) -> dict[str, Array]:
        """What was learned, ids, and who has rated what how."""
        return {**super().state(), "seen_levels": self.seen_levels, "seen_weight": self.seen_weight}

    def load(self, state: Mapping[str, Array]) -> None:
        """See `KnownPairs.load`."""
        super().load(state)
        self.seen_levels, self.seen_weight = np.array(state["seen_levels"]), np.array(state["seen_weight"])

    # --- machines -------------------------------------------------------------------------------------------------

    def machines(self, users: Ints) -> tuple[RatingMachines, Floats]:
        """The machines of some users, and their ratings as states of ``visible``; an unknown user has none."""
        rows, places = self.seen_at(users)
        offsets = np.searchsorted(rows, np.arange(len(users) + 1))
        machines = RatingMachines(self, offsets, self.seen_items[places].astype(np.int64), self.seen_weight[places])
        return machines, self.one_hot(self.seen_levels[places])

    def one_hot(self, codes: Ints) -> Floats:
        """A row for each code of a level."""
        found: Floats = one_hot(codes, len(self.levels), dtype=self.dtype, name="codes")
        return found

    @property
    def user_factors(self) -> Floats:
        """Means of the hidden units of each user."""
        machines, visible = self.machines(np.arange(len(self.users)))
        found: Floats = machines.conditional("hidden", {"visible": visible}).mean
        return found

    @property
    def item_factors(self) -> Floats:  # type: ignore[override]
        """What each hidden unit adds to the field of a rating's level, times the level less the mean of the levels."""
        return np.einsum("k,ikf->if", (self.levels - self.levels.mean()).astype(self.dtype), self.coupling)

    # --- predictions ----------------------------------------------------------------------------------------------

    def rating_proba(self, users: Ints, items: Ints) -> NDArray[np.float64]:
        """P(level | the user's ratings of other items) of each pair of codes, exactly, shape (n, levels)."""
        users, items = np.asarray(users, np.int64), np.asarray(items, np.int64)
        found = np.empty((len(users), len(self.levels)))
        order = np.argsort(users, kind="stable")
        for begin in range(0, len(users), PAIRS):
            part = order[begin : begin + PAIRS]
            found[part] = self._proba(users[part], items[part])
        return found

    def _proba(self, users: Ints, items: Ints) -> NDArray[np.float64]:
        """Of pairs in the order of users."""
        some, rows = np.unique(users, return_inverse=True)
        machines, visible = self.machines(some)
        field = machines.hidden_field(visible)
        keys = np.repeat(np.arange(len(some)), np.diff(machines.offsets)) * len(self.items) + machines.items
        wanted = np.where(items >= 0, rows * len(self.items) + items, -1)
        place = np.minimum(np.searchsorted(keys, wanted), max(0, len(keys) - 1))
        new = keys[place] != wanted if len(keys) else np.ones(len(users), np.bool_)
        known = np.flatnonzero(~new)
        # a rating says nothing about itself: fields of its user without it, a row for each
        level = visible[place[known]].argmax(1)
        own = machines.weight[place[known], None] * self.coupling[items[known], level]
        fields = np.concatenate([field, field[rows[known]] - own])
        rows[known] = len(some) + np.arange(len(known))
        found = np.empty((len(users), len(self.levels)))
        pair_log_weights(
            rows, items, new, fields, self.bias, np.expm1(self.coupling), self.rated, self.log_base,
            np.expm1(self.common), found,
        )  # fmt: skip
        return np.asarray(ops.softmax(found))

    def score(self, users: Array, items: Array) -> NDArray[np.float64]:
        """Expected rating of each pair of codes, shape (n,); the code -1 is an unknown user or item."""
        return np.asarray(self.rating_proba(users, items) @ self.levels)

    def rows(self, users: Ints) -> Floats:
        """Expected ratings of all items by some users, shape (n, n_items)."""
        n_items = len(self.items)
        pairs = np.repeat(users, n_items), np.tile(np.arange(n_items), len(users))
        return self.score(*pairs).reshape(len(users), n_items).astype(self.dtype)
