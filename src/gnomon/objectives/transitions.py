"""How the chains of the negative phase move: Gibbs sweeps, or moves of real rows along the slope of log p."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from gnomon.contracts import Array, Group, HasScores, Noise, supports
from gnomon.errors import Diverged
from gnomon.inference.arrays import to_numpy
from gnomon.inference.mcmc.density import Density
from gnomon.inference.mcmc.hamiltonian import HMC
from gnomon.inference.mcmc.langevin import langevin_step
from gnomon.nn.module import Module
from gnomon.objectives.base import Term
from gnomon.objectives.positive import observed_block
from gnomon.objectives.scored import refuse_without_scores
from gnomon.recipes.recipe import Recipe

__all__ = ["GibbsSweeps", "HamiltonianMoves", "LangevinMoves", "SlopeMoves", "Transition"]

PACE = 0.1
"""By how much the log of a step size moves for each unit that the acceptance is off its aim, at every update."""


class Transition(Recipe):
    """Base: what one of the k steps of a chain is."""

    def build(self) -> SlopeMoves | None:
        """What moves rows along the slope; None for sweeps over blocks."""
        raise NotImplementedError


@dataclass(frozen=True)
class GibbsSweeps(Transition):
    """Blocks in turn, each drawn given the others: any units, and no step size."""

    short: ClassVar[str] = "gibbs"

    def build(self) -> None:
        """None: the model's conditionals are all that is needed."""


@dataclass(frozen=True)
class HamiltonianMoves(Transition):
    r"""Hamiltonian moves of real rows, the hidden layers summed out (Hinton, Osindero, Welling and Teh 2006).

    A move is a trajectory of leapfrog steps under the energy of the row alone, accepted or rejected as a whole
    (`gnomon.inference.mcmc.hamiltonian.HMC`), so that the model is left invariant whatever the step size. One leapfrog
    step is Langevin dynamics with a test of Metropolis. It is for machines whose columns depend on each other given the
    hidden units, of which a Gibbs step costs :math:`O(d^3)`, and for energies without conditionals.

    Parameters
    ----------
    step_size : float in (0, inf), default 0.1
        Of a leapfrog step at the first update, in the units that the model computes in.
    steps : int in [1, inf), default 10
        Leapfrog steps of a move; their gradients are its cost.
    aim : float in (0, 1), default 0.9
        Acceptance that the step size is led to from update to update, by
        :math:`\log \epsilon_{t+1} = \log \epsilon_t + 0.1 (a - a^*)`; the history has both, as ``acceptance`` and
        ``step_size``.
    """

    short: ClassVar[str] = "hmc"
    step_size: Annotated[float, "(0, inf)"] = 0.1
    steps: Annotated[int, "[1, inf)"] = 10
    aim: Annotated[float, "(0, 1)"] = 0.9

    def build(self) -> SlopeMoves:
        """The moves, with a step size of their own."""
        return _Trajectories(self.step_size, self.steps, self.aim)


@dataclass(frozen=True)
class LangevinMoves(Transition):
    r"""Steps of Langevin dynamics of real rows, the hidden layers summed out, none of them rejected.

    The chains' law is that of the model only up to :math:`O(\epsilon^2)`, see
    `gnomon.inference.mcmc.langevin.langevin_step`; one gradient is what a step costs.

    Parameters
    ----------
    step_size : float in (0, inf), default 0.1
        :math:`\epsilon`, in the units that the model computes in. Beyond twice the least standard deviation of a column
        given the others chains run away.
    """

    short: ClassVar[str] = "langevin"
    step_size: Annotated[float, "(0, inf)"] = 0.1

    def build(self) -> SlopeMoves:
        """The moves."""
        return _Drifts(self.step_size)


class SlopeMoves(Module):
    """Moves of real rows under the energy with the hidden layers summed out."""

    name: ClassVar[str] = ""

    def begin(self, model: Any) -> None:
        """Refuse a model whose rows have no slope.

        Raises
        ------
        UserTypeError
            Observed units that are not real numbers, or hidden layers that depend on each other given them.
        """
        refuse_without_scores(model, self.name)

    def walk(self, model: Any, x: Array, noise: Noise, k: int) -> Array:
        """Rows after k moves, row i by the noise of its place."""
        raise NotImplementedError

    def terms(self, total: float, group: Group) -> dict[str, Term]:
        """What the last walk has to tell for the history, at the weight of the rows; called once after each."""
        return {}


class _Drifts(SlopeMoves):
    name: ClassVar[str] = "langevin"

    def __init__(self, step_size: float) -> None:
        super().__init__()
        self.step_size = step_size

    def walk(self, model: Any, x: Array, noise: Noise, k: int) -> Array:
        """See `SlopeMoves`."""
        stream = noise.child("langevin")
        with np.errstate(over="ignore", invalid="ignore"):  # what runs away is refused below
            for step in range(k):
                x = langevin_step(model, x, self.step_size, stream.normal(tuple(x.shape), step, like=x))
        return _finite(x)


class _Trajectories(SlopeMoves):
    name: ClassVar[str] = "hmc"
    step_size: torch.Tensor

    def __init__(self, step_size: float, steps: int, aim: float) -> None:
        super().__init__()
        self.steps, self.aim, self.seen = steps, aim, (0.0, 0)
        self.register_buffer("step_size", torch.full((1,), step_size, dtype=torch.float64))

    def walk(self, model: Any, x: Array, noise: Noise, k: int) -> Array:
        """See `SlopeMoves`."""
        kernel = HMC(float(self.step_size), self.steps)
        density = _density(model)
        _finite(density.log_prob(x))
        state, chances = kernel.init(x, density), []
        for step in range(k):
            state, info = kernel.step(state, noise.child(f"hmc/{step}"))
            chances.append(float(info["accept_prob"].sum()))
        self.seen = (sum(chances), k * len(x))
        return state["x"]

    def terms(self, total: float, group: Group) -> dict[str, Term]:
        """Acceptance and step size; the latter then moves towards its aim, the same on every process."""
        accepted, moves = group.sum(self.seen)
        acceptance, size = float(accepted) / max(float(moves), 1.0), float(self.step_size)
        self.step_size *= float(np.exp(PACE * (acceptance - self.aim)))
        return {"acceptance": Term(acceptance * total, total), "step_size": Term(size * total, total)}


def _density(model: Any) -> Density:
    """log p of rows up to log Z, with the slope in closed form where the model has it."""
    data = observed_block(model)

    def log_p(x: Array) -> Array:
        return -model.marginal_energy({data: x})

    return Density(log_p, (lambda x: model.scores(x).value) if supports(model, HasScores) else None)


def _finite(found: Array) -> Array:
    """The array, if all of it is finite."""
    if not np.isfinite(to_numpy(found)).all():
        what = "chains have run to where the energy is no longer a number"
        raise Diverged(what, "objective", "lower the learning rate, or the step size of the chains")
    return found
