"""The most probable state of some blocks of a model given the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.contracts import Array, HasMarginalEnergy, State
from gnomon.errors import UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.inference.blocks import bits, smallest_keep, summed_out
from gnomon.inference.exact.enumeration import row_chunks, states_beside
from gnomon.numeric.ops import concatenate

__all__ = ["most_probable"]


def most_probable(model: HasMarginalEnergy, given: State, *, limit: int = 20) -> dict[str, Array]:
    r"""The joint state of the other blocks that is most probable given each row, :math:`\arg\max_h p(h, v)`.

    The blocks with the fewest states are enumerated; those that are independent given these stand at the modes of their
    conditional distributions. Where nothing has to be enumerated, as in a restricted machine, it is a closed form of
    any size. Of equals the first in lexicographic order is taken, for bits the one of 0.

    Parameters
    ----------
    model : HasMarginalEnergy
        Its conditional distributions have a ``mode``.
    given : mapping of block name to array (rows, size)
    limit : int, default 20
        log2 of the largest number of states per row.

    Returns
    -------
    dict of block name to array (rows, size)

    Raises
    ------
    UserValueError
        When there are more states than 2^limit: the problem is NP-hard in general.

    Notes
    -----
    Cost: a conditional and an energy per state and row. Units with densities count by these.

    Examples
    --------
    >>> from gnomon.systems.energy.rbm import RBMModel
    >>> machine = RBMModel.of(np.array([[1.0, -3.0]]), np.zeros(1), np.array([0.5, 1.0]))
    >>> most_probable(machine, {"visible": np.array([[0.0], [1.0]])})["hidden"].tolist()
    [[1.0, 1.0], [1.0, 0.0]]
    """
    kept = smallest_keep(model, given)
    hidden = [block for block in kept if block not in given]
    if not hidden:
        return _with_modes(model, dict(given), kept)
    n = bits(model, hidden)
    if n > limit:
        what = f"the most probable values of {n:.6g} hidden bits that depend on each other lie among 2^{n:.6g}"
        raise UserValueError(f"{what}, above the limit of 2^{limit}", "method", "take their means, or fewer units")
    parts = [_best(model, rows, kept) for rows in row_chunks(model, given, kept)]
    return {block: concatenate([part[block] for part in parts]) for block in model.blocks if block not in given}


def _best(model: Any, given: State, kept: tuple[str, ...]) -> dict[str, Array]:
    """The best states of the blocks that are not given, beside few rows."""
    n = len(next(iter(given.values())))
    least = np.full(n, np.inf)
    found: dict[str, Array] = {}
    for state in states_beside(model, given, kept):
        whole = _with_modes(model, state, kept)
        energy = to_numpy(model.joint_energy({**state, **whole})).reshape(n, -1)
        at = energy.argmin(1)
        lower, index = energy.min(1) < least, np.arange(n) * energy.shape[1] + at
        for block in (name for name in model.blocks if name not in given):
            rows = (whole if block in whole else state)[block][index]
            kept_rows = found.get(block, rows)
            kept_rows[lower] = rows[lower]
            found[block] = kept_rows
        least = np.minimum(least, energy.min(1))
    return found


def _with_modes(model: Any, state: dict[str, Array], kept: tuple[str, ...]) -> dict[str, Array]:
    """The blocks that are independent given the state, each at its mode."""
    return {block: model.conditional(block, state).mode for block in summed_out(model, kept)}
