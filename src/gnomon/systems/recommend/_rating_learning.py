"""Learning of the machines of ratings, over batches of users: contrastive divergence, conditionals of the ratings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Noise
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.numeric import ops
from gnomon.recipes.recipe import Recipe
from gnomon.systems.recommend._fitting import Fitting, OnFirstProcess
from gnomon.systems.recommend._rating_kernels import climb
from gnomon.systems.recommend._rating_machine import RatingMachines, RatingRBMModel, Slopes
from gnomon.training.procedure import Problem

__all__ = ["CD", "Pseudolikelihood", "RatingObjective", "RatingSteps", "Settings"]

BIAS_SHARE = 0.1
"""By how much less biases are held back than couplings, of which there are many for one bias."""

Ints = NDArray[np.int64]


class RatingObjective(Recipe):
    """How machines of ratings are learned: a subclass says which way is up."""

    def slopes(self, machines: RatingMachines, visible: Array, noise: Noise) -> Slopes:
        """Derivatives of what is maximized, or draws of them: sums over the users."""
        raise NotImplementedError


@dataclass(frozen=True)
class CD(RatingObjective):
    """Contrastive divergence (Hinton 2002): chains start at the ratings and run k steps.

    Parameters
    ----------
    k : int in [1, inf), default 1
        Gibbs steps, each hidden units then ratings.
    """

    short: ClassVar[str] = "cd"
    k: Annotated[int, "[1, inf)"] = 1

    def slopes(self, machines: RatingMachines, visible: Array, noise: Noise) -> Slopes:
        """Data less the ends of chains."""
        far = gibbs(machines, {"visible": visible}, noise, steps=self.k, order=("hidden", "visible"))
        return machines.contrast(visible, far["visible"])


@dataclass(frozen=True)
class Pseudolikelihood(RatingObjective):
    """The probability of each rating given all others of its user (Besag 1975): what predictions are made of."""

    short: ClassVar[str] = "pseudolikelihood"

    def slopes(self, machines: RatingMachines, visible: Array, noise: Noise) -> Slopes:
        """Exact derivatives."""
        return machines.conditional_slopes(visible)[0]


class Settings(NamedTuple):
    """How machines of ratings are learned: the fields of the system that has them."""

    objective: RatingObjective
    epochs: int
    batch_size: int
    learning_rate: float
    l2: float


class RatingSteps(OnFirstProcess):
    """An epoch per step, over batches of users; the step size falls linearly to 0.

    Maximized is the mean over users of the objective less half of `l2` times the squares of what an item's parameters
    differ by from those of no item in particular. Only items of a batch are visited: each is held back the more, the
    more rarely it is met, so that on the average over batches all are held back alike.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @property
    def steps(self) -> int:
        """Steps of the whole fit."""
        return self.settings.epochs

    def lay(self, problem: Problem) -> tuple[Ints, NDArray[np.float64]]:
        """The users that have rated something, and the chance of each item that a batch has a user who rated it."""
        model = problem.model
        users = np.flatnonzero(np.diff(model.seen_offsets))
        share = np.bincount(model.seen_items, minlength=len(model.bias)) / len(users)
        return users, 1 - (1 - share) ** min(self.settings.batch_size, len(users))

    def advance(self, state: Fitting) -> tuple[dict[str, float], bool]:
        """An epoch; its record is that of the ratings as they are found again from the means of the hidden units."""
        given, model = self.settings, state.problem.model
        users, met = state.data
        noise = state.problem.noise.at(state.done)
        rate = given.learning_rate * (1 - state.done / given.epochs)
        order = users[noise.child("order").order(len(users))]
        totals = np.zeros(3)
        for begin in range(0, len(order), given.batch_size):
            machines, visible = model.machines(order[begin : begin + given.batch_size])
            totals += _found_again(machines, visible)
            slopes = given.objective.slopes(machines, visible, noise.child(f"chain/{begin}"))
            self._move(model, slopes, machines, rate, met)
        mass, cross_entropy, squared = totals
        record = {"loss": cross_entropy / mass, "rmse": float(np.sqrt(squared / mass))}
        return record, state.done + 1 == self.steps

    def _move(
        self, model: RatingRBMModel, slopes: Slopes, machines: RatingMachines, rate: float, met: NDArray[np.float64]
    ) -> None:
        """One step of all parameters."""
        items, found = slopes
        kind = model.dtype.type
        together = kind(rate / machines.weight.sum()) * found["coupling"].sum(0)
        model.common += together
        model.coupling += together
        n_users = len(machines.offsets) - 1
        held = np.minimum(1, rate * self.settings.l2 / met[items])
        anchors = {"bias": model.log_base, "coupling": model.common, "rated": np.zeros_like(model.hidden_bias)}
        for name, anchor in anchors.items():
            values = getattr(model, name)
            if not len(values):
                continue
            shrink = (held * BIAS_SHARE if name == "bias" else held).astype(model.dtype)
            slope, flat = (part.reshape(len(part), -1) for part in (found[name], values))
            climb(items, slope, kind(rate / n_users), shrink, anchor.ravel(), flat)
        model.hidden_bias += kind(rate / n_users) * found["hidden_bias"]


def _found_again(machines: RatingMachines, visible: Array) -> NDArray[np.float64]:
    """Weight of the ratings, and their cross-entropies and squared errors at the means of the hidden units."""
    mean = machines.conditional("hidden", {"visible": visible}).mean
    found: Any = machines.conditional("visible", {"hidden": mean})
    weight = machines.weight.astype(np.float64)
    nats = -(visible * ops.log_softmax(found.logits)).sum(1)
    errors = (found.mean - visible) @ machines.model.levels
    return np.array([weight.sum(), weight @ nats, weight @ errors**2])
