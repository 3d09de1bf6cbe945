"""Stochastic gradient descent in blocks of users by items that never meet: the same bits for any number of threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array
from gnomon.numeric.threads import in_threads, n_threads
from gnomon.systems.recommend._fitting import (
    Fitting,
    LearnsFactors,
    Penalized,
    codes_of,
    loss_of,
)
from gnomon.systems.recommend._kernels import sgd_blocks
from gnomon.training.procedure import Problem

__all__ = ["SGD", "RatingBlocks", "StochasticGradient"]

MOST_BLOCKS = 16
BLOCK_RATINGS = 20_000
"""There is a stripe of users, and of items, for so many ratings, up to `MOST_BLOCKS`."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass
class RatingBlocks:
    """Ratings by block of users and items, within a block by user; where each block begins."""

    users: Ints
    items: Ints
    values: Array
    weight: Array
    starts: Ints
    user_mass: Floats
    item_mass: Floats

    @classmethod
    def of(cls, examples: Any, n_users: int, n_items: int) -> RatingBlocks:
        """Stripes of users and of items with about as many ratings each; n stripes give n rounds of n blocks."""
        users, items = codes_of(examples)
        n = max(1, min(MOST_BLOCKS, len(users) // BLOCK_RATINGS, n_users, n_items))
        block = _stripe(users, n, n_users) * n + _stripe(items, n, n_items)
        order = np.argsort(block, kind="stable")
        return cls(
            users[order].astype(np.int32), items[order].astype(np.int32), examples.y[order], examples.weight[order],
            np.searchsorted(block[order], np.arange(n * n + 1)),
            _mass(users, examples.weight, n_users), _mass(items, examples.weight, n_items),
        )  # fmt: skip


def _mass(codes: Ints, weight: Array, n: int) -> Floats:
    """Sum of the weights of each code."""
    return np.bincount(codes, weight, n).astype(np.float64, copy=False)


def _stripe(codes: Ints, n: int, size: int) -> Ints:
    """The stripe of each rating: runs of codes with about as many ratings each."""
    before = np.cumsum(np.bincount(codes, minlength=size))
    cuts = np.searchsorted(before, before[-1] * np.arange(1, n) / n) + 1
    return np.searchsorted(cuts, np.arange(size), side="right")[codes]


class StochasticGradient(LearnsFactors):
    """An epoch per step. Its rounds come in a fixed order, and the blocks of a round share no user and no item.

    Any number of threads gives the same bits. The recorded errors are those that the steps came upon.
    """

    def lay(self, problem: Problem) -> RatingBlocks:
        """Ratings by block."""
        model, examples = problem.model, problem.batches
        return RatingBlocks.of(examples, len(model.user_bias), len(model.item_bias))

    def penalties(self, data: RatingBlocks, dtype: Any) -> tuple[Array, Array]:
        """What a rating of weight 1 weighs the squares of its user and of its item with."""
        own, other = (
            np.divide(self.recipe.counts(mass), mass, out=np.ones_like(mass), where=mass > 0)
            for mass in (data.user_mass, data.item_mass)
        )
        return (self.recipe.l2 * own).astype(dtype), (self.recipe.l2 * other).astype(dtype)

    @property
    def steps(self) -> int:
        """Steps of the whole fit."""
        return int(self.recipe.epochs)

    def advance(self, state: Fitting) -> tuple[dict[str, float], bool]:
        """An epoch."""
        model, data = state.problem.model, state.data
        dtype = model.mean.dtype.type
        n = round(np.sqrt(len(data.starts) - 1))
        rate = dtype(self.recipe.learning_rate * (1 - state.done / self.recipe.epochs))
        own, other = self.penalties(data, dtype)
        squared = np.zeros((n, n))
        threads = n_threads()
        deal = [np.arange(first, n, threads) for first in range(min(n, threads))]
        for shift in range(n):

            def work(blocks: Ints, shift: int = shift) -> None:
                sgd_blocks(
                    blocks, shift, data.starts, data.users, data.items, data.values, data.weight, model.mean[0],
                    self.biases, rate, own, other, model.user_bias, model.item_bias, model.user_factors,
                    model.item_factors, squared[shift],
                )  # fmt: skip

            in_threads(work, deal, size=len(data.users) // n * (model.user_factors.shape[1] + 1) * 4)
        penalty = self.recipe.penalty_of(model, data.user_mass, data.item_mass)
        record = loss_of(float(squared.sum()), float(data.user_mass.sum()), penalty)
        return record, state.done + 1 == self.steps


@dataclass(frozen=True)
class SGD(Penalized):
    """Stochastic gradient descent, one step per rating and epoch, in blocks of users by items that never meet.

    Parameters
    ----------
    epochs : int in [1, inf), default 40
        Passes over the ratings.
    learning_rate : float in (0, inf), default 0.02
        Step size of the first epoch; it falls linearly to 0.

    References
    ----------
    Koren, Bell and Volinsky (2009); Gemulla, Nijkamp, Haas and Sismanis (2011) for the blocks.
    """

    short: ClassVar[str] = "sgd"
    procedure: ClassVar[type[LearnsFactors]] = StochasticGradient
    epochs: Annotated[int, "[1, inf)"] = 40
    learning_rate: Annotated[float, "(0, inf)"] = 0.02
