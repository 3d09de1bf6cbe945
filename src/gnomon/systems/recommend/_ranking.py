"""Objectives of implicit feedback, learned by stochastic gradient on items that the user has not met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from gnomon.contracts import Noise
from gnomon.data.interactions import Interactions
from gnomon.data.negatives import pairwise, pointwise
from gnomon.recipes.recipe import Recipe
from gnomon.systems.recommend._fitting import Fitting, OnFirstProcess
from gnomon.systems.recommend._kernels import sgd_pairs, sgd_triples
from gnomon.systems.recommend._model import FactorModel
from gnomon.training.procedure import Problem

__all__ = ["BPR", "ImplicitObjective", "PointwiseLogistic", "StochasticRanking"]


@dataclass(frozen=True)
class ImplicitObjective(Recipe):
    """How scores are learned from which user met which item.

    Parameters
    ----------
    epochs : int in [1, inf), default 40
        Passes over the pairs; each draws items of its own that the users have not met.
    learning_rate : float in (0, inf), default 0.05
        Step size of the first epoch; it falls linearly to 0.
    l2 : float in [0, inf), default 0.02
        Weight of half the squares of biases and factors.
    negatives : {"uniform", "popularity"}, default "uniform"
        Whether items that the user has not met are drawn evenly, or in proportion to the users who met them.
    """

    epochs: Annotated[int, "[1, inf)"] = 40
    learning_rate: Annotated[float, "(0, inf)"] = 0.05
    l2: Annotated[float, "[0, inf)"] = 0.02
    negatives: Literal["uniform", "popularity"] = "uniform"

    def epoch(self, log: Interactions, model: FactorModel, noise: Noise, rate: Any, l2: Any) -> tuple[float, float]:
        """A pass of steps: weighted sum of the objective as they came upon it, and sum of the weights."""
        raise NotImplementedError


@dataclass(frozen=True)
class BPR(ImplicitObjective):
    """Bayesian personalized ranking: -log s(x_ui - x_uj) for an item i that the user met and one, j, that it did not.

    The last term of the posterior is that of ``l2``. User biases play no part and stay 0.
    Source: Rendle, Freudenthaler, Gantner and Schmidt-Thieme (2009).
    """

    short: ClassVar[str] = "bpr"

    def epoch(self, log: Interactions, model: FactorModel, noise: Noise, rate: Any, l2: Any) -> tuple[float, float]:
        """A step per pair that met, in random order."""
        triples = pairwise(log, noise.child("negatives"), by=self.negatives)
        weight = triples.weight.astype(model.mean.dtype)
        order = noise.child("order").order(len(weight))
        total = sgd_triples(
            order, triples.users, triples.met, triples.unmet, weight, rate, l2, model.item_bias, model.user_factors,
            model.item_factors,
        )  # fmt: skip
        return float(total), float(triples.weight.sum())


@dataclass(frozen=True)
class PointwiseLogistic(ImplicitObjective):
    """Logistic regression of having met: -log s(x_ui) for pairs that met, -log s(-x_uj) for drawn ones that did not.

    Parameters
    ----------
    n_negatives : int in [1, inf), default 4
        Items drawn for each pair that met.

    References
    ----------
    He, Liao, Zhang, Nie, Hu and Chua (2017).
    """

    short: ClassVar[str] = "logistic"
    n_negatives: Annotated[int, "[1, inf)"] = 4

    def epoch(self, log: Interactions, model: FactorModel, noise: Noise, rate: Any, l2: Any) -> tuple[float, float]:
        """A step per pair, in random order."""
        pairs = pointwise(log, self.n_negatives, noise.child("negatives"), by=self.negatives)
        weight = pairs.weight.astype(model.mean.dtype)
        order = noise.child("order").order(len(weight))
        total = sgd_pairs(
            order, pairs.users, pairs.items, pairs.met, weight, rate, l2, model.user_bias, model.item_bias,
            model.user_factors, model.item_factors,
        )  # fmt: skip
        return float(total), float(pairs.weight.sum())


class StochasticRanking(OnFirstProcess):
    """An epoch per step, in one thread: items that are drawn for one user are met by others."""

    recorded: ClassVar[tuple[str, ...]] = ("loss",)

    def __init__(self, recipe: ImplicitObjective) -> None:
        self.recipe = recipe

    def lay(self, problem: Problem) -> Interactions:
        """The pairs by user."""
        return Interactions.from_examples(problem.batches)

    @property
    def steps(self) -> int:
        """Steps of the whole fit."""
        return self.recipe.epochs

    def advance(self, state: Fitting) -> tuple[dict[str, float], bool]:
        """An epoch."""
        recipe, model = self.recipe, state.problem.model
        dtype = model.mean.dtype.type
        rate = recipe.learning_rate * (1 - state.done / recipe.epochs)
        noise = state.problem.noise.at(state.done)
        total, mass = recipe.epoch(state.data, model, noise, dtype(rate), dtype(recipe.l2))
        return {"loss": total / mass if mass else 0.0}, state.done + 1 == self.steps
