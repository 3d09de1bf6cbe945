"""Fits whose steps the first process makes, in threads, and what their records hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Noise
from gnomon.data.examples import Examples
from gnomon.recipes.recipe import Recipe
from gnomon.systems.recommend._model import FactorModel, KnownPairs
from gnomon.training.one_process import share
from gnomon.training.procedure import Info, Problem

__all__ = [
    "Fitting",
    "Learner",
    "LearnsFactors",
    "OnFirstProcess",
    "Penalized",
    "codes_of",
    "first_factors",
    "loss_of",
    "remember",
    "squares",
]

INITIAL = 0.1
"""Standard deviation of the first factors."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Learner(Recipe):
    """How a matrix factorization is learned: a subclass names its procedure, a `LearnsFactors`."""

    procedure: ClassVar[type[LearnsFactors]]

    def build(self, biases: bool) -> Any:
        """The procedure."""
        return self.procedure(self, biases)


@dataclass(frozen=True, kw_only=True)
class Penalized(Learner):
    """Base of the learners that weigh the squares of biases and factors.

    Parameters
    ----------
    l2 : float in [0, inf), default 0.1
        Weight of the squares of biases and factors.
    penalty : {"rating", "parameter"}, default "rating"
        Whether the squares count once for every rating of their user and item, or once in all.
    """

    l2: Annotated[float, "[0, inf)"] = 0.1
    penalty: Literal["rating", "parameter"] = "rating"

    def counts(self, mass: Floats) -> Floats:
        """How often the squares of each row count, of which the ratings have this mass."""
        return mass if self.penalty == "rating" else np.ones_like(mass)

    def penalty_of(self, model: FactorModel, user_mass: Floats, item_mass: Floats) -> float:
        """The weighted squares of a model."""
        users = self.counts(user_mass) @ squares(model.user_bias, model.user_factors)
        items = self.counts(item_mass) @ squares(model.item_bias, model.item_factors)
        return self.l2 * float(users + items)


def codes_of(examples: Examples) -> tuple[Ints, Ints]:
    """Codes of users and of items."""
    users, items = (np.asarray(examples[name].parts[0]) for name in ("user", "item"))
    return users, items


def remember(model: KnownPairs, examples: Examples) -> None:
    """Tell a model its ids, and which items every user had."""
    users, items = codes_of(examples)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(users, minlength=len(examples.shared["users"])))])
    model.remember(examples.shared["users"], examples.shared["items"], offsets, items.astype(np.int32))


def first_factors(model: FactorModel, noise: Noise) -> None:
    """Small normal factors of both sides, the same whatever the other side's size."""
    for side, part in (("users", model.user_factors), ("items", model.item_factors)):
        if part.shape[1]:
            part[:] = INITIAL * noise.child(side).normal(part.shape, like=part)


@dataclass
class Fitting:
    """A fit under way."""

    problem: Problem
    data: Any
    done: int = 0


class OnFirstProcess:
    """Base of procedures whose steps the first process makes with all its threads; the others get what it has found.

    A subclass gives `lay` (the ratings in its order), `advance` (a step: its record, and whether it was the last), and
    `recorded`.
    """

    iterates: ClassVar[bool] = True
    recorded: ClassVar[tuple[str, ...]] = ("loss", "rmse")
    """What the record of a step holds."""

    def lay(self, problem: Problem) -> Any:
        """The ratings as the steps go through them."""
        raise NotImplementedError

    def advance(self, state: Fitting) -> tuple[dict[str, float], bool]:
        """A step."""
        raise NotImplementedError

    @property
    def steps(self) -> int:
        """Steps of the whole fit."""
        return 1

    def total_steps(self, state: Fitting) -> int:
        """Steps of the whole fit."""
        return self.steps

    def start(self, problem: Problem) -> Fitting:
        """The state before the first step."""
        return Fitting(problem, self.lay(problem) if problem.group.rank == 0 else None)

    def step(self, state: Fitting) -> tuple[Fitting, Info]:
        """A step of the first process; the others take its record, and after the last one its model."""
        model, group = state.problem.model, state.problem.group
        record: dict[str, float] = {}
        done, sound, failure = False, 0.0, None
        if group.rank == 0:
            try:
                record, done = self.advance(state)
                sound = float(sum(part.sum(dtype=np.float64) for part in model.learned().values()))
            except Exception as error:
                failure = error
        state.done += 1
        if group.size > 1:
            facts = [record.get(name, 0.0) for name in self.recorded]
            *facts, sound, ended, failed = group.sum([*facts, sound, float(done), float(failure is not None)])
            record, done = dict(zip(self.recorded, facts, strict=True)), ended > 0
            if done or failed:
                share(model, record, group, failure)
        elif failure is not None:
            raise failure
        return state, Info(done=done, record={"epoch": state.done, **record}, monitored=sound)

    def save(self, state: Fitting) -> tuple[dict[str, Array], dict[str, Any]]:
        """The model and the number of steps."""
        return state.problem.model.state(), {"done": state.done}

    def load(self, problem: Problem, arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> Fitting:
        """The state that was saved."""
        problem.model.load(arrays)
        state = self.start(problem)
        state.done = facts["done"]
        return state


class LearnsFactors(OnFirstProcess):
    """Base of the procedures of learners.

    Parameters
    ----------
    recipe : Learner
    biases : bool
        Whether biases are learned.
    """

    def __init__(self, recipe: Any, biases: bool) -> None:
        self.recipe, self.biases = recipe, biases


def loss_of(squared: float, mass: float, penalty: float) -> dict[str, float]:
    """The record of a step: objective per weight of ratings, and the root of the mean squared error."""
    return {"loss": (squared + penalty) / mass, "rmse": float(np.sqrt(squared / mass))}


def squares(bias: Array, factors: Array) -> Floats:
    """Sum of the squares of each row."""
    return np.square(bias, dtype=np.float64) + np.square(factors, dtype=np.float64).sum(1)
