"""Independent units in place of a posterior: what they are, how far they have converged, and the bound they give."""

from __future__ import annotations

from typing import Any, NamedTuple

from gnomon.contracts import Array, HasBlocks, State
from gnomon.inference.mcmc.gibbs import mean_field

__all__ = ["MeanFieldSolution", "factorized_posterior", "mean_field_evidence", "mean_field_solution"]


class MeanFieldSolution(NamedTuple):
    """Means of the units that are not given, and how well they solve the mean-field equations.

    Attributes
    ----------
    means : dict of block name to array (rows, size)
    residual : array of shape (rows,)
        Largest distance of a mean from that of its conditional at the other means.
    converged : array of shape (rows,)
        Whether that is at most the tolerance asked for.
    """

    means: dict[str, Array]
    residual: Array
    converged: Array


def mean_field_solution(
    model: HasBlocks, given: State, *, steps: int = 100, tol: float = 1e-6, damping: float = 0.0,
    start: State | None = None,
) -> MeanFieldSolution:  # fmt: skip
    """The means that mean field finds for each row, and whether they have converged.

    Parameters
    ----------
    model : HasBlocks
    given : mapping of block name to array (rows, size)
        The observed blocks.
    steps, tol, damping, start
        See `gnomon.inference.mcmc.gibbs.mean_field`.
    """
    free, means = _means(model, given, steps, tol, damping, start)
    gaps = [abs(model.conditional(block, means).mean - means[block]).max(-1) for block in free]
    residual: Any = 0 * next(iter(means.values())).sum(-1)
    for gap in gaps:
        one = gap.values if hasattr(gap, "values") else gap
        residual = residual + (one - residual) * (one > residual)
    return MeanFieldSolution({block: means[block] for block in free}, residual, residual <= tol)


def factorized_posterior(
    model: HasBlocks, given: State, *, steps: int = 50, tol: float = 1e-4, damping: float = 0.0,
    start: State | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The given blocks, and for each other block the distribution of independent units that mean field finds.

    Parameters
    ----------
    model : HasBlocks
        Its conditionals depend on the others through linear fields.
    given : mapping of block name to array (rows, size)
        The observed blocks.
    steps, tol, damping, start
        See `gnomon.inference.mcmc.gibbs.mean_field`; a round without damping follows, which makes the distributions.

    Returns
    -------
    dict
        Arrays of the given blocks and Distributions of the others: what `HasJointGradient` takes.
    """
    free, means = _means(model, given, steps, tol, damping, start)
    found: dict[str, Any] = dict(given)
    for block in free:
        found[block] = model.conditional(block, means)
        means[block] = found[block].mean
    return found


def mean_field_evidence(
    model: Any, given: State, *, steps: int = 50, tol: float = 1e-4, damping: float = 0.0, start: State | None = None
) -> Array:
    """Lower bound of the log of the unnormalized probability of each row, in nats, shape (rows,).

    ``E_q[-E] + H(q) = log p(given) + log Z - KL(q || p(hidden | given))`` at the mean-field solution q; minus log Z it
    bounds the log-likelihood. More rounds without damping never lower it.
    `gnomon.inference.exact.enumeration.log_evidence` is the exact number of small models.

    Parameters
    ----------
    model : HasBlocks
        Its ``joint_energy`` takes Distributions (`HasJointGradient`), as a `LayeredMachine` does.
    given, steps, tol, damping
        See `factorized_posterior`.

    References
    ----------
    Salakhutdinov and Hinton (2009), "Deep Boltzmann machines".
    """
    q = factorized_posterior(model, given, steps=steps, tol=tol, damping=damping, start=start)
    return sum((q[block].entropy() for block in q if block not in given), start=-model.joint_energy(q))


def _means(
    model: HasBlocks, given: State, steps: int, tol: float, damping: float, start: State | None
) -> tuple[list[str], dict[str, Array]]:
    """The blocks that are not given, and the means of all."""
    free = [block for block in model.blocks if block not in given]
    clamp = {block: (value, None) for block, value in given.items()}
    return free, mean_field(model, clamp, steps=steps, tol=tol, order=free, damping=damping, start=start)
