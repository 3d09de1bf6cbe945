"""Independent draws of a model whose states can be enumerated."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.contracts import Array, Noise
from gnomon.inference.arrays import convert, prototype, to_numpy
from gnomon.inference.blocks import smallest_keep, summed_out
from gnomon.inference.exact.enumeration import weighted_states

__all__ = ["exact_draws"]


def exact_draws(model: Any, n: int, noise: Noise, *, limit: int = 20) -> dict[str, Array]:
    """n independent states of all blocks: the blocks with the fewest states from their table, the others given these.

    Parameters
    ----------
    model : HasMarginalEnergy
    n : int, in [0, inf)
    noise : Noise
    limit : int, default 20
        log2 of the largest number of states.

    Returns
    -------
    dict of block name to array (n, size)

    Raises
    ------
    UserValueError
        When there are more states than 2^limit.

    Notes
    -----
    Cost: two passes over the states.

    Examples
    --------
    >>> from gnomon.distributions.units import BernoulliUnits
    >>> from gnomon.numeric.noise import Noise
    >>> from gnomon.systems.energy.layered import LayeredMachine
    >>> tuple(exact_draws(LayeredMachine({"x": BernoulliUnits(2)}, []), 3, Noise(0, "doc"))["x"].shape)
    (3, 2)
    """
    kept = smallest_keep(model)
    u, like = noise.child("place").uniform((n,), like=np.zeros(0)), prototype(model)
    chosen = {block: np.zeros((n, model.sizes[block])) for block in kept}
    passed, missing = 0.0, np.ones(n, np.bool_)
    for state, log_p in weighted_states(model, kept, limit=limit):
        rising = passed + np.cumsum(np.exp(to_numpy(log_p).astype(np.float64)))
        passed = float(rising[-1])
        here = np.flatnonzero(missing)  # all that rounding leaves beyond the last state are put into it
        places = np.minimum(np.searchsorted(rising, u[here], side="right"), len(rising) - 1)
        for block in kept:
            chosen[block][here] = to_numpy(state[block])[places]
        missing[u < passed] = False
    drawn = {block: convert(states, like) for block, states in chosen.items()}
    given = {block: model.conditional(block, drawn) for block in summed_out(model, kept)}
    return drawn | {block: one.sample(noise.child("rest"), draw) for draw, (block, one) in enumerate(given.items())}
