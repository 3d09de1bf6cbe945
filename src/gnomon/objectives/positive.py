"""The positive phase of an energy machine: what its hidden blocks are taken to be, given the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from gnomon.contracts import Array, Noise
from gnomon.inference.blocks import part, smallest_keep, summed_out, units_of
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.inference.variational.mean_field import factorized_posterior
from gnomon.recipes.recipe import Recipe

__all__ = ["Clamped", "MeanField", "Positive", "observed_block", "observed_blocks", "observed_state"]


class Positive(Recipe):
    """Base: a distribution over the hidden blocks for each row of data."""

    def __call__(self, model: Any, X: Array, noise: Noise) -> dict[str, Any]:
        """The data by its block, and each hidden block as an array or a Distribution, row by row."""
        raise NotImplementedError


@dataclass(frozen=True)
class Clamped(Positive):
    """The data held, the hidden blocks as the model has them: exact where they are independent, as in an RBM.

    Blocks that depend on each other are drawn by Gibbs sweeps from a fair start (Ackley, Hinton and Sejnowski 1985),
    and those that are independent given these enter by their conditional means.

    Parameters
    ----------
    steps : int in [1, inf), default 20
        Sweeps where the hidden blocks depend on each other; they are to be many enough to forget the start.
    """

    short: ClassVar[str] = "clamped"
    steps: Annotated[int, "[1, inf)"] = 20

    def __call__(self, model: Any, X: Array, noise: Noise) -> dict[str, Any]:
        """See `Positive`."""
        state = observed_state(model, X)
        kept = smallest_keep(model, state)
        rest = summed_out(model, kept)
        drawn = [block for block in kept if block not in state]
        if drawn:
            units = units_of(model)
            for draw, block in enumerate(drawn):
                state[block] = units[block].start(noise.child("start"), len(X), X, draw)
            order = (*rest, *drawn)
            clamped = gibbs(model, state, noise.child("clamped"), steps=self.steps, order=order)
            state = {block: clamped[block] for block in kept}
        return state | {block: model.conditional(block, state) for block in rest}


@dataclass(frozen=True)
class MeanField(Positive):
    """Independent hidden units whose means solve the mean-field equations given the data: a lower bound is learned.

    Parameters
    ----------
    steps : int in [1, inf), default 50
        Rounds of updates, at most.
    tol : float in [0, inf), default 1e-4
        End when no mean moves by more than this in a round.
    damping : float in [0, 1), default 0
        Share of its old mean that a unit keeps at an update: smaller moves, to the same solutions.

    References
    ----------
    Salakhutdinov and Hinton (2009), "Deep Boltzmann machines".
    """

    short: ClassVar[str] = "mean_field"
    steps: Annotated[int, "[1, inf)"] = 50
    tol: Annotated[float, "[0, inf)"] = 1e-4
    damping: Annotated[float, "[0, 1)"] = 0.0

    def __call__(self, model: Any, X: Array, noise: Noise) -> dict[str, Any]:
        """See `Positive`."""
        given = observed_state(model, X)
        return factorized_posterior(model, given, steps=self.steps, tol=self.tol, damping=self.damping)


def observed_block(model: Any) -> str:
    """The block that holds the data."""
    return str(getattr(model, "observed", "visible"))


def observed_blocks(model: Any) -> tuple[str, ...]:
    """The blocks that hold the data: one, but of machines that name several, as of rows and their classes."""
    return tuple(getattr(model, "observed_blocks", (observed_block(model),)))


def observed_state(model: Any, X: Array) -> dict[str, Any]:
    """Rows by the blocks that hold them, which stand side by side in X."""
    return dict(part(X, model, observed_blocks(model)))
