"""Chains of machines with blocks at several temperatures: the machines, their sweeps, and swaps between neighbors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Noise
from gnomon.inference.arrays import to_numpy, where
from gnomon.inference.mcmc.gibbs import gibbs

__all__ = ["machines_at", "swap_neighbors", "walked"]

State = dict[str, Array]


def machines_at(model: Any, base: Any, betas: Sequence[float]) -> list[Any]:
    """The model, which stands for the first beta, and the machine ``base^(1 - beta) model^beta`` of each other one."""
    return [model, *(model.bridge(base, float(beta)) for beta in betas[1:])]


def walked(machine: Any, state: State, noise: Noise, steps: int, order: Sequence[str]) -> State:
    """The blocks of the state after so many sweeps of all blocks in this order."""
    chain = gibbs(machine, state, noise, steps=steps, order=order)
    return {block: chain[block] for block in state}


def swap_neighbors(machines: Sequence[Any], levels: list[State], noise: Noise) -> NDArray[np.float64]:
    """Exchange states of neighbors in place, even pairs and then odd ones, with the probability of Metropolis.

    Parameters
    ----------
    machines : sequence of HasMarginalEnergy
        By level, the coldest first.
    levels : list of states
        The blocks that are kept, (chains, units) each; the list is changed.
    noise : Noise
        Of the chains' rows; one number for each pair.

    Returns
    -------
    array of shape (chains, levels - 1)
        Acceptance probabilities. Cost: four energies of every chain for each pair.
    """
    pairs = range(len(machines) - 1)
    shape = (len(next(iter(levels[0].values()))), len(pairs))
    u, found = noise.uniform(shape, like=np.empty(0)), np.zeros(shape)
    for low in (*pairs[::2], *pairs[1::2]):
        (near, a), (far, b) = ((machines[i].marginal_energy, levels[i]) for i in (low, low + 1))
        exponent = to_numpy(near(a) + far(b) - near(b) - far(a))
        found[:, low] = np.exp(np.minimum(exponent, 0.0))
        swaps = (u[:, low] < found[:, low])[:, None]
        levels[low] = {block: where(swaps, b[block], a[block]) for block in a}
        levels[low + 1] = {block: where(swaps, a[block], b[block]) for block in a}
    return found
