"""Fits of probabilistic matrix factorization: the posterior's mode, and Gibbs sampling of the posterior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Noise
from gnomon.distributions.conjugate.matrices import MultivariateNormalMeanPrecision
from gnomon.distributions.positive import Gamma
from gnomon.recipes.recipe import Recipe
from gnomon.systems.recommend._fitting import Fitting, OnFirstProcess, first_factors
from gnomon.systems.recommend._least_squares import Side, record_of, solve
from gnomon.systems.recommend._model import FactorModel
from gnomon.training.procedure import Problem

__all__ = ["MAP", "Gibbs", "Inference", "PMFModel", "Priors"]

Floats = NDArray[np.float64]
CELLS = 1 << 22


class Priors(NamedTuple):
    """Variances of the ratings about their expectation, and of the factors of users and of items."""

    noise: float
    users: float
    items: float


class PMFModel(FactorModel):
    """Factors of one or several draws side by side, with the noise's variance in each.

    Parameters
    ----------
    n_users, n_items, n_factors, n_draws : int
    dtype : dtype
    """

    def __init__(self, n_users: int, n_items: int, n_factors: int, n_draws: int, dtype: Any) -> None:
        super().__init__(n_users, n_items, n_factors * n_draws, dtype)
        self.n_factors = n_factors
        self.noise_variance = np.zeros(n_draws)
        self.kept = np.zeros(1, np.int64)
        """Draws that there are so far."""

    def learned(self) -> dict[str, Array]:
        """What a fit changes; there are no biases."""
        learned = super().learned()
        return {**learned, "noise_variance": self.noise_variance, "kept": self.kept}

    def keep(self, users: Array, items: Array, noise_variance: float) -> None:
        """Add a draw."""
        n = int(self.kept[0])
        columns = slice(n * self.n_factors, (n + 1) * self.n_factors)
        self.user_factors[:, columns], self.item_factors[:, columns] = users, items
        self.noise_variance[n] = noise_variance
        self.kept[0] = n + 1

    @property
    def scale(self) -> float:
        """The mean over draws: one divided by how many there are."""
        return 1 / max(1, int(self.kept[0]))

    def draws(self, side: str) -> Array:
        """Factors of ``users`` or ``items`` by draw, shape (draws, n, n_factors)."""
        whole = self.user_factors if side == "users" else self.item_factors
        return whole.reshape(len(whole), -1, self.n_factors).swapaxes(0, 1)[: self.kept[0]]

    def by_draw(self, users: Array, items: Array) -> Floats:
        """Expected rating of each pair of codes in each draw, shape (n, draws)."""
        known = (users >= 0) & (items >= 0)
        expected = np.full((len(users), int(self.kept[0])), float(self.mean[0]))
        known_rows = np.flatnonzero(known)
        size = max(1, CELLS // max(1, self.user_factors.shape[1]))
        for begin in range(0, len(known_rows), size):
            rows = known_rows[begin : begin + size]
            product = self.user_factors[users[rows]] * self.item_factors[items[rows]]
            by_draw = product.reshape(len(rows), -1, self.n_factors).sum(-1, dtype=np.float64)
            expected[rows] += by_draw[:, : expected.shape[1]]
        return expected


class Inference(Recipe):
    """How the factors of a probabilistic matrix factorization are inferred."""

    @property
    def kept(self) -> int:
        """Draws of the posterior that the fitted model holds."""
        return 1

    def build(self, priors: Priors) -> Any:
        """The procedure."""
        raise NotImplementedError


@dataclass(frozen=True)
class MAP(Inference):
    """The mode of the posterior, by alternating least squares.

    Parameters
    ----------
    iterations : int in [1, inf), default 20
        Times that the factors of all users, then of all items, are found anew.
    """

    short: ClassVar[str] = "map"
    iterations: Annotated[int, "[1, inf)"] = 20

    def build(self, priors: Priors) -> Any:
        """The procedure."""
        return Mode(self, priors)


@dataclass(frozen=True)
class Gibbs(Inference):
    """Draws from the posterior: all users given the items, then all items given the users.

    Parameters
    ----------
    draws : int in [1, inf), default 40
        Draws that are kept; the model is so many times as large as one.
    burn_in : int in [0, inf), default 10
        Sweeps before the first that is kept.
    learn_priors : bool, default True
        Whether mean and precision of the factors, and the precision of the noise, are drawn along: Wishart and gamma
        priors about the given variances. Otherwise they are fixed, and the factors' mean is 0.

    References
    ----------
    Salakhutdinov and Mnih (2008), "Bayesian probabilistic matrix factorization using Markov chain Monte Carlo".
    """

    short: ClassVar[str] = "gibbs"
    draws: Annotated[int, "[1, inf)"] = 40
    burn_in: Annotated[int, "[0, inf)"] = 10
    learn_priors: bool = True

    @property
    def kept(self) -> int:
        """Draws of the posterior that the fitted model holds."""
        return self.draws

    def build(self, priors: Priors) -> Any:
        """The procedure."""
        return Sweeps(self, priors)


# --- procedures -----------------------------------------------------------------------------------------------------


class Mode(OnFirstProcess):
    """An iteration per step. The loss is the sum of squared errors and of the squares that the priors weigh."""

    def __init__(self, recipe: MAP, priors: Priors) -> None:
        self.recipe, self.priors = recipe, priors

    def lay(self, problem: Problem) -> tuple[Side, Side]:
        """Ratings by user and by item."""
        model: PMFModel = problem.model
        model.kept[0] = 1
        model.noise_variance[0] = self.priors.noise
        return Side.both(problem.batches, len(model.user_bias), len(model.item_bias))

    @property
    def steps(self) -> int:
        """Steps of the whole fit."""
        return int(self.recipe.iterations)

    def advance(self, state: Fitting) -> tuple[dict[str, float], bool]:
        """An iteration."""
        model, sides = state.problem.model, state.data
        k, noise = model.n_factors, self.priors.noise
        ridges = noise / self.priors.users, noise / self.priors.items
        for side, of_users, ridge in zip(sides, (True, False), ridges, strict=True):
            solve(side, model, of_users=of_users, biases=False, precision=ridge * np.eye(k), linear=np.zeros(k))
        lengths = (np.square(part, dtype=np.float64).sum() for part in (model.user_factors, model.item_factors))
        penalty = sum(ridge * float(length) for ridge, length in zip(ridges, lengths, strict=True))
        return record_of(model, sides[0], penalty), state.done + 1 == self.steps


@dataclass
class Chain:
    """Where a chain is: the factors, and the variance of the noise."""

    sides: tuple[Side, Side]
    now: FactorModel
    noise_variance: float


class Sweeps(OnFirstProcess):
    """A sweep per step. The recorded errors are those of the draw of the step."""

    def __init__(self, recipe: Gibbs, priors: Priors) -> None:
        self.recipe, self.priors = recipe, priors

    def lay(self, problem: Problem) -> Chain:
        """Ratings by user and by item, and small factors."""
        model: PMFModel = problem.model
        sizes = len(model.user_bias), len(model.item_bias)
        now = FactorModel(*sizes, model.n_factors, model.mean.dtype)
        now.mean[:] = model.mean
        first_factors(now, problem.noise.child("first"))
        return Chain(Side.both(problem.batches, *sizes), now, self.priors.noise)

    @property
    def steps(self) -> int:
        """Steps of the whole fit."""
        return int(self.recipe.burn_in + self.recipe.draws)

    def advance(self, state: Fitting) -> tuple[dict[str, float], bool]:
        """A sweep."""
        chain, model = state.data, state.problem.model
        noise = state.problem.noise.child("gibbs").at(state.done)
        for of_users in (True, False):
            self.draw_factors(chain, of_users, noise.child("users" if of_users else "items"))
        record = record_of(chain.now, chain.sides[0], 0.0)
        if self.recipe.learn_priors:
            mass = float(chain.sides[0].weight.sum())
            posterior = Gamma(1 + mass / 2, self.priors.noise + record["loss"] * mass / 2)
            chain.noise_variance = 1 / float(posterior.sample(noise.child("precision"), shape=(1,))[0])
        if state.done >= self.recipe.burn_in:
            model.keep(chain.now.user_factors, chain.now.item_factors, chain.noise_variance)
        return record, state.done + 1 == self.steps

    def draw_factors(self, chain: Chain, of_users: bool, noise: Noise) -> None:
        """One side given the other: first what its factors have in common, then the factors."""
        factors = chain.now.user_factors if of_users else chain.now.item_factors
        variance = self.priors.users if of_users else self.priors.items
        k = factors.shape[1]
        center, precision = np.zeros(k), np.eye(k) / variance
        if self.recipe.learn_priors:
            prior = MultivariateNormalMeanPrecision(np.zeros(k), 2.0, float(k), k * variance * np.eye(k))
            center, precision = (
                prior.update(np.asarray(factors, np.float64)).distribution().sample(noise.child("prior"))
            )
        solve(
            chain.sides[0 if of_users else 1], chain.now, of_users=of_users, biases=False, precision=precision,
            linear=np.matmul(precision, center), scale=1 / chain.noise_variance,
            normal=noise.normal(factors.shape, like=np.zeros(0)),
        )  # fmt: skip

    def save(self, state: Fitting) -> tuple[dict[str, Array], dict[str, Any]]:
        """The draws so far, and where the chain is."""
        arrays, facts = super().save(state)
        if state.data is None:  # another process than the first
            return arrays, facts
        chain = {f"chain.{name}": part for name, part in state.data.now.learned().items()}
        return arrays | chain, facts | {"noise_variance": state.data.noise_variance}

    def load(self, problem: Problem, arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> Fitting:
        """Exactly the state that was saved."""
        state = super().load(problem, arrays, facts)
        if state.data is not None:
            state.data.noise_variance = facts["noise_variance"]
            for name, part in state.data.now.learned().items():
                part[...] = arrays[f"chain.{name}"]
        return state
