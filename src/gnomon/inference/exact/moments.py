"""Exact means and variances of the blocks of a model given others of its blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import HasMarginalEnergy, State
from gnomon.distributions.layers import Spins
from gnomon.inference.arrays import to_numpy
from gnomon.inference.blocks import summed_out
from gnomon.inference.exact.enumeration import weighted_posterior, weighted_states

__all__ = ["posterior_moments", "variance_of"]

Moments = dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]


def posterior_moments(model: HasMarginalEnergy, given: State, *, limit: int = 20) -> Moments:
    """Mean and variance of every unit of the other blocks given each row, by enumeration.

    The blocks with the fewest states are enumerated; those that are independent given these enter by their conditional
    distributions, so real units are allowed there. Cost: a conditional per state and row.

    Parameters
    ----------
    model : HasMarginalEnergy
    given : mapping of block name to array (rows, size)
        The observed blocks; none for the moments of the model itself, one row.
    limit : int, default 20
        log2 of the largest number of states per row.

    Returns
    -------
    dict of block name to (mean, variance), arrays (rows, size)

    Raises
    ------
    UserValueError
        When there are more states than 2^limit.
    """
    free = [block for block in model.blocks if block not in given]
    n = len(next(iter(given.values()))) if given else 1
    sums = {block: np.zeros((2, n, model.sizes[block])) for block in free}
    for state, p, rows in _weighted(model, given, limit):
        for block, (mean, square) in _conditional_moments(model, state, free).items():
            for k, value in enumerate((mean, square)):
                sums[block][k, rows] += (p[..., None] * value.reshape(*p.shape, -1)).sum(1)
    return {block: (first, np.maximum(second - first * first, 0.0)) for block, (first, second) in sums.items()}


def variance_of(x: Any) -> NDArray[np.float64]:
    """The variance of every unit of a layer's distribution."""
    if hasattr(x, "parts"):
        return np.concatenate([variance_of(part) for part in x.parts], axis=1)
    mean = to_numpy(x.mean)
    if hasattr(x, "variance"):
        return to_numpy(x.variance) + 0 * mean
    return 1 - mean * mean if isinstance(x, Spins) else mean * (1 - mean)


def _weighted(model: Any, given: State, limit: int) -> Iterator[tuple[Any, NDArray[np.float64], slice]]:
    """States with their probabilities (rows, states) and the rows that they belong to."""
    if given:
        for state, log_p, rows in weighted_posterior(model, given, limit=limit):
            yield state, np.exp(to_numpy(log_p)), rows
        return
    for state, log_p in weighted_states(model, limit=limit):
        yield state, np.exp(to_numpy(log_p))[None], slice(0, 1)


def _conditional_moments(model: Any, state: State, free: list[str]) -> dict[str, tuple[Any, Any]]:
    """E[x] and E[x^2] of the free blocks beside each state."""
    found = {}
    rest = summed_out(model, tuple(state))
    for block in free:
        if block in rest:
            one = model.conditional(block, state)
            mean = to_numpy(one.mean)
            found[block] = (mean, variance_of(one) + mean * mean)
        else:
            x = to_numpy(state[block])
            found[block] = (x, x * x)
    return found
