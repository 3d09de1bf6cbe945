"""Alternating least squares, and the singular value decomposition of the filled matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import UserValueError
from gnomon.numeric.threads import in_threads
from gnomon.systems.recommend._fitting import (
    Fitting,
    Learner,
    LearnsFactors,
    Penalized,
    codes_of,
    loss_of,
)
from gnomon.systems.recommend._kernels import solve_rows
from gnomon.systems.recommend._model import FactorModel
from gnomon.training.procedure import Problem

__all__ = ["ALS", "SVD", "Decomposition", "RatingLeastSquares", "Side", "alternate", "solve"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
NOTHING: Floats = np.zeros((0, 0))


@dataclass
class Side:
    """Ratings by user, or by item: those of u from ``offsets[u]`` on, with the codes of the other side."""

    offsets: Ints
    codes: Ints
    values: Floats
    weight: Floats

    @property
    def parts(self) -> list[tuple[int, int]]:
        """Runs of rows with about as many ratings each."""
        n = min(64, max(1, len(self.offsets) - 1))
        cuts = np.searchsorted(self.offsets, np.arange(1, n) * len(self.codes) / n).tolist()
        return [(a, b) for a, b in zip([0, *cuts], [*cuts, len(self.offsets) - 1], strict=True) if a < b]

    @property
    def rows(self) -> Ints:
        """The row of each rating."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    @property
    def mass(self) -> Floats:
        """Sum of the weights of each row."""
        return np.bincount(self.rows, self.weight, len(self.offsets) - 1).astype(np.float64, copy=False)

    @classmethod
    def both(cls, examples: Any, n_users: int, n_items: int) -> tuple[Side, Side]:
        """By user and by item."""
        users, items = codes_of(examples)
        return cls._of(users, items, n_users, examples), cls._of(items, users, n_items, examples)

    @classmethod
    def _of(cls, own: Ints, other: Ints, n: int, examples: Any) -> Side:
        order = np.argsort(own, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(own, minlength=n))])
        values, weight = np.asarray(examples.y, np.float64)[order], np.asarray(examples.weight, np.float64)[order]
        return cls(offsets, other[order], values, weight)


def solve(
    side: Side, model: FactorModel, *, of_users: bool, biases: bool, precision: Floats, linear: Floats,
    ridge: float = 0.0, scale: float = 1.0, normal: Floats = NOTHING,
) -> None:  # fmt: skip
    """Put the minima, or draws around them, in the place of one side's factors: see `_kernels.solve_rows`."""
    users, items = (model.user_bias, model.user_factors), (model.item_bias, model.item_factors)
    own, other = (users, items) if of_users else (items, users)

    def work(part: tuple[int, int]) -> None:
        solve_rows(
            *part, side.offsets, side.codes, side.values, side.weight, float(model.mean[0]), biases, precision, linear,
            ridge, scale, normal, *other, *own,
        )  # fmt: skip

    in_threads(work, side.parts, size=len(side.codes) * own[1].shape[1] ** 2)


class RatingLeastSquares(LearnsFactors):
    """An iteration per step: all users, then all items."""

    def lay(self, problem: Problem) -> tuple[Side, Side]:
        """Ratings by user and by item."""
        model, examples = problem.model, problem.batches
        return Side.both(examples, len(model.user_bias), len(model.item_bias))

    @property
    def steps(self) -> int:
        """Steps of the whole fit."""
        return int(self.recipe.iterations)

    def advance(self, state: Fitting) -> tuple[dict[str, float], bool]:
        """An iteration."""
        model, sides = state.problem.model, state.data
        alternate(model, sides, self.recipe.l2, self.recipe.penalty, self.biases)
        penalty = self.recipe.penalty_of(model, sides[0].mass, sides[1].mass)
        return record_of(model, sides[0], penalty), state.done + 1 == self.steps


@dataclass(frozen=True)
class ALS(Penalized):
    """Alternating least squares: biases and factors of all users exactly, then of all items, and so on.

    Parameters
    ----------
    iterations : int in [1, inf), default 15
        Times that the factors of all users, then of all items, are found anew.

    References
    ----------
    Zhou, Wilkinson, Schreiber and Pan (2008).
    """

    short: ClassVar[str] = "als"
    procedure: ClassVar[type[LearnsFactors]] = RatingLeastSquares
    iterations: Annotated[int, "[1, inf)"] = 15


def alternate(model: FactorModel, sides: tuple[Side, Side], l2: float, penalty: str, biases: bool) -> None:
    """An iteration of alternating least squares."""
    width = model.user_factors.shape[1] + biases
    ridge = l2 if penalty == "rating" else 0.0
    precision = np.eye(width) * (0.0 if penalty == "rating" else l2)
    for side, of_users in zip(sides, (True, False), strict=True):
        solve(side, model, of_users=of_users, biases=biases, precision=precision, linear=np.zeros(width), ridge=ridge)


def record_of(model: FactorModel, side: Side, penalty: float) -> dict[str, float]:
    """Loss and error on the training ratings."""
    residual = side.values - model.score(side.rows, side.codes)
    return loss_of(float(side.weight @ residual**2), float(side.weight.sum()), penalty)


# --- singular value decomposition -------------------------------------------------------------------------------------


class Decomposition(RatingLeastSquares):
    """One step: the biases, and the largest singular values of what is left, with zeros where nothing is known."""

    BIAS_ITERATIONS: ClassVar[int] = 30

    def lay(self, problem: Problem) -> tuple[Side, Side]:
        """Ratings by user and by item."""
        examples: Any = problem.batches
        if (examples.weight != examples.weight[0]).any():
            raise UserValueError(
                "weights must be equal for the SVD", "sample_weight", 'leave them out, or choose learner="als"'
            )
        return super().lay(problem)

    @property
    def steps(self) -> int:
        """Steps of the whole fit."""
        return 1

    def advance(self, state: Fitting) -> tuple[dict[str, float], bool]:
        """The whole fit."""
        from scipy.sparse import csr_array

        model, sides = state.problem.model, state.data
        model.user_factors[:], model.item_factors[:] = 0, 0
        if self.biases:
            alone = FactorModel(len(model.user_bias), len(model.item_bias), 0, np.float64)
            alone.mean[:] = model.mean
            for _ in range(self.BIAS_ITERATIONS):
                alternate(alone, sides, self.recipe.l2, "rating", True)
            model.user_bias[:], model.item_bias[:] = alone.user_bias, alone.item_bias
        side = sides[0]
        rest = side.values - model.score(side.rows, side.codes)
        matrix = csr_array((rest, side.codes, side.offsets), shape=(len(model.user_bias), len(model.item_bias)))
        left, values, right = truncated(matrix, model.user_factors.shape[1], state.problem.noise)
        model.user_factors[:, : len(values)] = left * values
        model.item_factors[:, : len(values)] = right.T
        return record_of(model, side, 0.0), True


@dataclass(frozen=True)
class SVD(Learner):
    """Singular value decomposition of the matrix in which a missing rating is filled: with the biases, or with 0.

    Without biases a missing rating reads "rated 0", which draws all predictions towards 0: a baseline, as a rule worse
    than learning from the known ratings alone.

    Parameters
    ----------
    l2 : float in [0, inf), default 0.1
        Weight, per rating, of the squares of the biases.

    References
    ----------
    Sarwar, Karypis, Konstan and Riedl (2000).
    """

    short: ClassVar[str] = "svd"
    procedure: ClassVar[type[LearnsFactors]] = Decomposition
    l2: Annotated[float, "[0, inf)"] = 0.1


def truncated(matrix: Any, k: int, noise: Any) -> tuple[Floats, Floats, Floats]:
    """The k largest singular values, falling, and their vectors; the largest entry of a right vector is positive."""
    from scipy.sparse.linalg import svds

    least = min(matrix.shape)
    if k < least and k:
        start = noise.child("svd").normal((least,), like=np.zeros(0))
        left, values, right = svds(matrix, k=k, v0=start, solver="arpack")
        left, values, right = left[:, ::-1], values[::-1], right[::-1]
    else:
        left, values, right = np.linalg.svd(matrix.toarray(), full_matrices=False)
        left, values, right = left[:, :k], values[:k], right[:k]
    sign = np.sign(right[np.arange(len(right)), np.abs(right).argmax(1)]) if k else np.zeros(0)
    return left * sign, values, right * sign[:, None]
