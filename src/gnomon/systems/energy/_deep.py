"""What systems around deep Boltzmann machines share: layers that are begun one by one, then all learned together."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, cast

from gnomon import contracts
from gnomon.contracts import Array, Procedure
from gnomon.data.examples import Examples
from gnomon.distributions.joined import Joined
from gnomon.errors import UserValueError
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.inference.variational.mean_field import (
    MeanFieldSolution,
    factorized_posterior,
    mean_field_evidence,
    mean_field_solution,
)
from gnomon.numeric.noise import Noise, seed_of
from gnomon.numeric.ops import concatenate
from gnomon.objectives.contrastive import CD, PCD
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.systems.energy._binary import BinaryRows, dealt, layer_problem, on_its_device
from gnomon.systems.energy._machine import DensityMachine, GibbsSteps, posterior_modes
from gnomon.training.gradient import Budget
from gnomon.training.procedure import Problem
from gnomon.training.stages import Stages

__all__ = ["DeepMachine"]

VISIBLE = "visible"


class DeepMachine(BinaryRows, DensityMachine):
    """Base: rows below hidden layers that depend on each other given a row.

    A subclass gives `make`, and how many layers it has, `_depth`. Its model has the names of the layers, ``hidden``,
    the machine that a layer is begun by, ``pair``, and what rows are to it, ``rows_below``.
    """

    tasks: ClassVar[tuple[str, ...]] = ("density", "represent")

    pretrain_epochs: Annotated[
        int,
        "[0, inf)",
        Doc("Passes over the training rows for each layer, one after the other, before the joint fit."),
    ] = 20
    objective: Annotated[
        str | Recipe,
        Doc("How all layers are learned together: ``pcd``, ``multi-prediction``, or ``exact`` of a small machine."),
    ] = PCD(k=5, positive="mean_field")
    epochs: int = 50
    batch_size: int | None = 20
    learning_rate: float = 0.02
    optimizer: str | Recipe = "sgd"

    @property
    def _depth(self) -> int:
        """Hidden layers."""
        raise NotImplementedError

    def initialize(self, model: Any, examples: Examples, noise: contracts.Noise) -> None:
        model.initialize(noise, self._start_mean())

    # --- fit ----------------------------------------------------------------------------------------------------------

    def check_parameters(self) -> None:
        super().check_parameters()
        principle = self.recipe("objective")
        if self._depth > 1 and not principle.deep:
            what = f"objective {principle.short!r} needs exact draws of the hidden layers or the energy of a row"
            remedy = "these depend on each other in a deep machine: use pcd with positive mean_field, or exact"
            raise UserValueError(what, "objective", remedy)

    def procedure(self, examples: Any) -> Procedure:
        *begun, joint = dealt([self.pretrain_epochs] * self._depth + [self.epochs], self.max_updates)
        last = self._steps(cast(Budget, joint))
        stages = [
            (f"layer_{number}", self._steps(budget), partial(self._layer, number))
            for number, budget in enumerate(begun, 1)
            if budget
        ]
        return Stages([*stages, ("joint", last, self._joint)]) if stages else last

    def _steps(self, budget: Budget) -> GibbsSteps:
        return GibbsSteps(self.recipe("optimizer"), self.learning_rate, budget)

    def _layer(self, number: int, whole: Problem) -> Problem:
        """The problem of a layer that is begun."""
        model = on_its_device(whole.model)
        lift = lambda x, _: model.rows_below(number, x)  # noqa: E731
        return layer_problem(whole, number, model.pair(number), lift, self.layout, CD().build())

    def _joint(self, whole: Problem) -> Problem:
        """The problem of all layers together."""
        return replace(whole, noise=whole.noise.child("joint"))

    def _chunk_procedure(self, examples: Any) -> Procedure:
        """All layers at once: what begins them needs all rows."""
        return self._steps(Budget.of(self.epochs, self.max_updates))

    # --- the hidden layers --------------------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return sum(self.model_.sizes[name] for name in self.model_.hidden)

    def infer(self, X: Any, *, steps: int = 100, tol: float = 1e-6, damping: float = 0.0) -> MeanFieldSolution:
        """Mean-field means of each hidden layer given the rows, and whether they have converged.

        Of a machine that was fitted by ``recognized`` rounds begin at the guess of its network, else in the middle.

        Parameters
        ----------
        X : array of shape (n, n_features)
        steps : int, in [0, inf), default 100
            Rounds over the odd and then the even layers, at most.
        tol : float, in [0, inf), default 1e-6
            End when no mean moves by more than this in a round.
        damping : float, in [0, 1), default 0
            Share of its old mean that a unit keeps at an update.

        Returns
        -------
        MeanFieldSolution
            ``means`` by layer, ``residual`` and ``converged`` by row.
        """
        return self._solution(self.to_visible(X), steps=steps, tol=tol, damping=damping)

    def _guess(self, rows: Array) -> contracts.State | None:
        """Means that mean field begins at; None for the middle."""
        return None

    def _solution(self, rows: Array, **options: Any) -> MeanFieldSolution:
        return mean_field_solution(self.model_, {VISIBLE: rows}, start=self._guess(rows), **options)

    def _hidden_posterior(self, rows: Array) -> Joined:
        """Mean field: all units of all layers as if they were independent given the row."""
        start = self._guess(rows)
        found = factorized_posterior(self.model_, {VISIBLE: rows}, steps=100, tol=1e-6, start=start)
        return Joined.of([found[name] for name in self.model_.hidden])

    def _hidden_means(self, rows: Array) -> Array:
        means = self._solution(rows).means
        return concatenate([self._codes_of(name, means[name]) for name in self.model_.hidden], axis=1)

    def _hidden_modes(self, rows: Array) -> Array:
        states = posterior_modes(self.model_, rows)
        return concatenate([self._codes_of(name, states[name]) for name in self.model_.hidden], axis=1)

    def _codes_of(self, name: str, states: Array) -> Array:
        """What `transform` shows of states or means of a layer."""
        return states

    def transform(self, X: Any, *, method: Literal["mean", "map"] = "mean") -> Array:
        """Mean-field means of all hidden layers side by side, from the lowest up, or their most probable states.

        Parameters
        ----------
        X : array of shape (n, n_features)
        method : {"mean", "map"}, default "mean"
            ``map``: the most probable state of all layers together, exact, where every other layer has 12 units at
            most in all; larger ones are refused.

        Returns
        -------
        array of shape (n, units of all hidden layers)
        """
        return super().transform(X, method=method)

    def reconstruct(self, X: Any) -> Array:
        """E[v | h_1] at the mean-field means given X, shape (n, n_features)."""
        rows = self.to_visible(X)
        return self.from_visible(self.model_.conditional(VISIBLE, self._solution(rows).means | {VISIBLE: rows}).mean)

    def _walk(self, rows: Array, steps: int, random_state: Any) -> Array:
        noise = Noise(seed_of(random_state), "gibbs")
        state = factorized_posterior(self.model_, {VISIBLE: rows})
        for draw, name in enumerate(self.model_.hidden):
            state[name] = state[name].sample(noise.child("start"), draw)
        sweeps = how_many(steps, "steps")
        return gibbs(self.model_, state, noise, steps=sweeps)[VISIBLE]

    # --- evidence -----------------------------------------------------------------------------------------------------

    def log_prob_bound(self, X: Any) -> Array:
        """Mean-field lower bound of log p(x) of each row in nats, shape (n,); as exact as `log_partition` is."""
        rows = self._scaled(self._outcomes(X))
        return mean_field_evidence(self.model_, {VISIBLE: rows}, steps=100, tol=1e-6) - self.log_partition().value

    @property
    def weights_(self) -> tuple[Array, ...]:
        """Couplings of each hidden layer with the layer below."""
        state = self.model_.state()
        return tuple(state[link.names["weight"]] for link in self.model_.links)

    @property
    def biases_(self) -> tuple[Array, ...]:
        """Biases of the visible layer and of each hidden one."""
        state = self.model_.state()
        return tuple(state[f"{name}_bias"] for name in self.model_.layers)
