"""Independent units in place of a posterior: what they are, and the bound on the evidence that they give."""

from __future__ import annotations

from typing import Any

from gnomon.contracts import Array, HasBlocks, State
from gnomon.inference.mcmc.gibbs import mean_field

__all__ = ["factorized_posterior", "mean_field_evidence"]


def factorized_posterior(model: HasBlocks, given: State, *, steps: int = 50, tol: float = 1e-4) -> dict[str, Any]:
    """The given blocks, and for each other block the distribution of independent units that mean field finds.

    Parameters
    ----------
    model : HasBlocks
        Its conditionals depend on the others through linear fields.
    given : mapping of block name to array (rows, size)
        The observed blocks.
    steps, tol
        See `gnomon.inference.mcmc.gibbs.mean_field`.

    Returns
    -------
    dict
        Arrays of the given blocks and Distributions of the others: what `HasJointGradient` takes.
    """
    free = [block for block in model.blocks if block not in given]
    clamp = {block: (value, None) for block, value in given.items()}
    means = mean_field(model, clamp, steps=steps, tol=tol, order=free)
    return {**given, **{block: model.conditional(block, means) for block in free}}


def mean_field_evidence(model: Any, given: State, *, steps: int = 50, tol: float = 1e-4) -> Array:
    """Lower bound of the log of the unnormalized probability of each row, in nats, shape (rows,).

    ``E_q[-E] + H(q) = log p(given) + log Z - KL(q || p(hidden | given))`` at the mean-field solution q; minus log Z it
    bounds the log-likelihood. `gnomon.inference.exact.enumeration.log_evidence` is the exact number of small models.

    Parameters
    ----------
    model : HasBlocks
        Its ``joint_energy`` takes Distributions (`HasJointGradient`), as a `LayeredMachine` does.
    given, steps, tol
        See `factorized_posterior`.

    References
    ----------
    Salakhutdinov and Hinton (2009), "Deep Boltzmann machines".
    """
    q = factorized_posterior(model, given, steps=steps, tol=tol)
    return sum((q[block].entropy() for block in q if block not in given), start=-model.joint_energy(q))
