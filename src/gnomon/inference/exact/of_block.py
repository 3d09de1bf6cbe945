"""The distribution of one block of a model given others, all else summed out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Distribution, HasMarginalEnergy, State
from gnomon.distributions.posteriors import BitStates, MixedRows
from gnomon.inference.arrays import convert, to_numpy
from gnomon.inference.blocks import bits, smallest_keep, units_of
from gnomon.inference.exact.enumeration import weighted_posterior
from gnomon.numeric.given import affordable
from gnomon.numeric.ops import logsumexp

__all__ = ["posterior_of_block"]


def posterior_of_block(model: HasMarginalEnergy, given: State, block: str, *, limit: int = 20) -> Distribution:
    r"""p(block | given) of each row, exact, the remaining blocks summed out.

    The blocks with the fewest states are enumerated, :math:`p(b | v) = \sum_k p(k | v) p(b | k, v)`: a table of the
    states of a block that is among them, else a mixture over theirs. Where nothing has to be enumerated, as in a
    restricted machine, it is the conditional distribution itself.

    Parameters
    ----------
    model : HasMarginalEnergy
        Blocks that are enumerated hold bits.
    given : mapping of block name to array (rows, size)
    block : str
    limit : int, default 20
        log2 of the largest number of states per row.

    Returns
    -------
    Distribution

    Raises
    ------
    UserValueError
        When there are more states than 2^limit, or rows than their tables leave memory for.

    Notes
    -----
    Cost: an energy per state and row, and as many numbers in memory.

    Examples
    --------
    >>> from gnomon.systems.energy.rbm import RBMModel
    >>> machine = RBMModel.of(np.array([[1.0, -3.0]]), np.zeros(1), np.array([0.5, 1.0]))
    >>> posterior_of_block(machine, {"visible": np.array([[1.0]])}, "hidden").mean.round(3).tolist()
    [[0.818, 0.119]]
    """
    hidden = [one for one in smallest_keep(model, given) if one not in given]
    if not hidden:
        return model.conditional(block, given)
    n = len(next(iter(given.values())))
    affordable(n * 2.0 ** bits(model, hidden), "X", "ask for fewer rows at once")
    log_p = _log_posterior(model, given, limit)
    if block in hidden:
        others = tuple(i for i, one in enumerate(hidden, 1) if one != block)
        return BitStates(_summed(log_p.reshape(n, *(2 ** model.sizes[one] for one in hidden)), others))

    def part(rows: NDArray[np.int64], numbers: NDArray[np.int64]) -> Distribution:
        state = {one: np.asarray(x)[rows] for one, x in given.items()}
        like, rest = next(iter(state.values())), numbers
        for one in reversed(hidden):
            rest, number = np.divmod(rest, int(units_of(model)[one].n_states))
            state[one] = convert(units_of(model)[one].states(number), like)
        return model.conditional(block, state)

    return MixedRows(log_p, part)


def _log_posterior(model: HasMarginalEnergy, given: State, limit: int) -> NDArray[np.float64]:
    """Log probabilities of the states of the enumerated blocks given each row, (n, states)."""
    parts: dict[int, list[Array]] = {}
    for _, log_p, rows in weighted_posterior(model, given, limit=limit):
        parts.setdefault(rows.start, []).append(to_numpy(log_p))
    return np.concatenate([np.concatenate(states, axis=1) for states in parts.values()])


def _summed(log_p: NDArray[np.float64], axes: tuple[int, ...]) -> NDArray[np.float64]:
    """Log of the sum of the exponentials over these axes."""
    for axis in sorted(axes, reverse=True):
        log_p = logsumexp(log_p, axis)
    return log_p
