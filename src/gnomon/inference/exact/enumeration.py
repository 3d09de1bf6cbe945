"""Exact sums over all states of some blocks of a model, the others summed out, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, HasMarginalEnergy, HasMarginalGradient, State
from gnomon.errors import UserValueError
from gnomon.inference.arrays import convert, double, prototype, to_numpy
from gnomon.inference.blocks import Keep, bits, kept_blocks, smallest_keep, units_of
from gnomon.numeric.ops import concatenate, logsumexp
from gnomon.numeric.tensors import is_tensor

__all__ = [
    "enumerable", "exact_expectation", "log_evidence", "log_partition", "log_partition_gradient", "row_chunks",
    "states", "states_beside", "weighted_posterior", "weighted_states",
]  # fmt: skip

_CHUNK_NUMBERS = 1 << 21
"""Floating numbers that one chunk of states and the fields of the other blocks may take: 16 MB in float64."""


def states(n_units: int, start: int = 0, stop: int | None = None) -> NDArray[np.float64]:
    """States number start, ..., stop - 1 of `n_units` binary units, in lexicographic order.

    The first unit is the most significant bit: 00, 01, 10, 11.

    Parameters
    ----------
    n_units : int, in [0, 62]
        Number of units.
    start, stop : int, in [0, 2**n_units]
        Range of state numbers; all states by default.

    Returns
    -------
    array of shape (stop - start, n_units)
        Zeros and ones.

    Raises
    ------
    UserValueError
        When the numbers do not fit 63 bits or the range lies outside.

    Examples
    --------
    >>> states(2).tolist()
    [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    >>> states(40, 2**39, 2**39 + 1)[0, :2].tolist()
    [1.0, 0.0]
    """
    if not 0 <= n_units <= 62:
        raise UserValueError.must("n_units", "be in [0, 62]", n_units)
    stop = 1 << n_units if stop is None else stop
    if not 0 <= start <= stop <= 1 << n_units:
        raise UserValueError(f"start and stop must be in [0, 2**{n_units}], got {start} and {stop}", "start, stop")
    number = np.arange(start, stop, dtype=np.int64)
    shift = np.arange(n_units - 1, -1, -1, dtype=np.int64)
    return ((number[:, None] >> shift) & 1).astype(np.float64)


def enumerable(model: Any, limit: int = 25) -> bool:
    """Whether some blocks can be enumerated while the others are summed out: at most 2^limit states."""
    return isinstance(model, HasMarginalEnergy) and bits(model, smallest_keep(model)) <= limit


def log_partition(
    model: HasMarginalEnergy, *, keep: Keep | None = None, limit: int = 25, like: Array | None = None
) -> float:
    """Exact log Z of a model with blocks: some blocks enumerated, the others summed out analytically.

    ``log Z = logsumexp over all states of the kept blocks of -marginal_energy``, accumulated in float64. The energies
    themselves are computed in float64 for NumPy models and in the model's own type for torch modules: convert a float32
    module with ``double()`` where more than about 6 digits matter. Cost: an energy per state; memory bounded by 2^21
    numbers per chunk.

    Parameters
    ----------
    model : HasMarginalEnergy
        Any number of blocks; those that are enumerated have countable units. A fitted System stands for its model.
    keep : str or sequence of str, optional
        The blocks to enumerate; those with the fewest states by default. Every choice gives the same number.
    limit : int, default 25
        log2 of the largest number of states: units, where these are binary.
    like : array, optional
        The kind and type of array to compute in; by default the model's own, and float64 where that is NumPy.

    Returns
    -------
    float
        Log Z in nats.

    Raises
    ------
    UserValueError
        When there are more states than 2^limit; the line states the cost.

    References
    ----------
    Smolensky (1986), "Information processing in dynamical systems: foundations of harmony theory".
    """
    model = getattr(model, "model_", model)
    total = -math.inf
    for _, log_weight in _chunks(model, _checked(model, keep, limit), like):
        total = np.logaddexp(total, _logsumexp(to_numpy(log_weight)))
    return float(total)


def weighted_states(
    model: HasMarginalEnergy, keep: Keep | None = None, *, limit: int = 25, like: Array | None = None
) -> Iterator[tuple[dict[str, Array], Array]]:
    """All states of some blocks in chunks, each with its exact log probability under the model.

    Expectations under the model become weighted sums: the negative phase of an exact gradient is
    ``marginal_gradient(state, exp(log_p))`` summed over the chunks. Two passes over the states, so twice the cost of
    `log_partition`.

    Parameters
    ----------
    model, keep, limit, like
        As in `log_partition`.

    Yields
    ------
    state : dict of block name to array (rows, size)
        The kept blocks; kind of the model's arrays.
    log_p : array of shape (rows,)
        Log probability in nats of each row with the other blocks summed out, float64.

    Raises
    ------
    UserValueError
        When there are more states than 2^limit.
    """
    model = getattr(model, "model_", model)
    kept = _checked(model, keep, limit)
    log_z = log_partition(model, keep=kept, limit=limit, like=like)
    for state, log_weight in _chunks(model, kept, like):
        yield state, log_weight - log_z


def exact_expectation(
    model: HasMarginalEnergy, f: Callable[[dict[str, Array]], Array], keep: Keep | None = None, *, limit: int = 25
) -> NDArray[np.float64]:
    """E[f(state)] over the kept blocks of the model, by enumeration.

    Parameters
    ----------
    model, keep, limit
        As in `log_partition`.
    f : callable
        Takes the states of the kept blocks by name, (rows, size) each, and returns one value or array per row.

    Returns
    -------
    array
        Shape of one value of f.
    """
    total: Any = 0.0
    for state, log_p in weighted_states(model, keep, limit=limit):
        total = total + np.tensordot(np.exp(to_numpy(log_p)), to_numpy(f(state)), axes=1)
    return np.asarray(total)


def log_partition_gradient(
    model: HasMarginalGradient, keep: Keep | None = None, *, limit: int = 25, like: Array | None = None
) -> dict[str, Array]:
    """d log Z / d theta = E[d log p~(x) / d theta] under the model, of every parameter, by enumeration.

    Parameters
    ----------
    model, keep, limit, like
        As in `log_partition`.

    Returns
    -------
    dict of str to array
        By parameter, in its shape; the sums are float64 where the model computes in NumPy.

    Raises
    ------
    UserValueError
        When there are more states than 2^limit; the line states the cost.

    Notes
    -----
    Cost: two energies and a gradient per state.

    Examples
    --------
    >>> from gnomon.systems.energy.rbm import RBMModel
    >>> machine = RBMModel.of(np.zeros((2, 1)), np.zeros(2), np.zeros(1))
    >>> log_partition_gradient(machine)["visible_bias"].round(12).tolist()
    [0.5, 0.5]
    """
    found: dict[str, Array] = {}
    for state, log_p in weighted_states(model, keep, limit=limit, like=like):
        kind = next(iter(state.values()))
        p = convert(log_p, kind).exp() if is_tensor(kind) else np.exp(log_p)
        for name, value in getattr(model, "model_", model).marginal_gradient(state, -p).items():
            found[name] = found[name] + value if name in found else value
    return found


def log_evidence(model: HasMarginalEnergy, given: State, *, limit: int = 25) -> NDArray[np.float64]:
    """Log of the unnormalized probability of rows of some blocks, all others summed out: -energy.

    Blocks that are independent given the rest are summed out in closed form, the others enumerated for each row.

    Parameters
    ----------
    model : HasMarginalEnergy
    given : mapping of block name to array (rows, size)
        The observed blocks.
    limit : int, default 25
        log2 of the largest number of states per row.

    Returns
    -------
    array of shape (rows,)
        In nats, float64: log p(given) + log Z.

    Raises
    ------
    UserValueError
        When there are more states than 2^limit.
    """
    kept = _checked(model, None, limit, given)
    parts = [np.full(0, 0.0)]
    for rows in row_chunks(model, given, kept):
        total: Any = -np.inf
        for _, log_weight in _given_chunks(model, rows, kept):
            total = np.logaddexp(total, logsumexp(to_numpy(log_weight), 1))
        parts.append(total)
    return np.concatenate(parts)


def weighted_posterior(
    model: HasMarginalEnergy, given: State, *, limit: int = 25
) -> Iterator[tuple[dict[str, Array], Array, slice]]:
    """States of the hidden blocks beside rows of the given ones, each with its log probability given its row.

    Parameters
    ----------
    model, given, limit
        As in `log_evidence`.

    Yields
    ------
    state : dict of block name to array (rows * states, size)
        The given blocks and the hidden ones that are enumerated; all states of the first row, then of the second.
    log_p : array of shape (rows, states)
        Log probability in nats given the row, the remaining blocks summed out, float64.
    rows : slice
        Which rows.
    """
    kept, start = _checked(model, None, limit, given), 0
    for rows in row_chunks(model, given, kept):
        n = len(next(iter(rows.values())))
        here = slice(start, start + n)
        log_mass = log_evidence(model, rows, limit=limit)[:, None]
        for state, log_weight in _given_chunks(model, rows, kept):
            yield state, log_weight - convert(log_mass, log_weight), here
        start += n


def _checked(model: Any, keep: Keep | None, limit: int, given: Any = ()) -> tuple[str, ...]:
    """The kept blocks, or the refusal of what takes too long."""
    blocks = kept_blocks(model, keep)
    blocks = smallest_keep(model, given) if keep is None else blocks
    hidden = [block for block in blocks if block not in given]
    n = bits(model, hidden)
    if math.isinf(n):
        raise UserValueError(f"the units of {' and '.join(hidden)} take more states than can be counted", "model")
    if n > limit:
        others = sum(model.sizes[b] for b in model.blocks if b not in hidden)
        seconds = math.ldexp(2e-10 * n * others + 1e-8 * (n + others), min(int(n), 900))
        raise UserValueError(
            f"enumerating the {n:.6g} units of {_named(hidden)} visits 2^{n:.6g} states, about {seconds:.1e} s in "
            f"chunks of {_rows(model)} rows, above the limit of 2^{limit}",
            remedy="estimate log Z by annealed importance sampling, or raise `limit`",
        )
    return blocks


def _named(blocks: Sequence[str]) -> str:
    return ("block " if len(blocks) == 1 else "blocks ") + " and ".join(map(repr, blocks))


def _rows(model: HasMarginalEnergy) -> int:
    units = sum(model.sizes[b] for b in model.blocks)
    return max(_CHUNK_NUMBERS // max(units, 1), 64)


def _kind(model: HasMarginalEnergy, like: Array | None) -> Array:
    like = prototype(model) if like is None else like
    return like if is_tensor(like) else np.empty(0)  # a float32 NumPy model answers float64 states in float64


def _states(model: HasMarginalEnergy, blocks: Sequence[str], start: int, stop: int) -> dict[str, NDArray[np.float64]]:
    """Joint states of the blocks by number, in lexicographic order over the blocks in turn."""
    units, found = units_of(model), {}
    rest = np.arange(start, stop, dtype=np.int64)
    for block in reversed(blocks):
        rest, number = np.divmod(rest, int(units[block].n_states))
        found[block] = units[block].states(number)
    return {block: found[block] for block in blocks}


def _count(model: HasMarginalEnergy, blocks: Sequence[str]) -> int:
    units = units_of(model)
    return math.prod(int(units[block].n_states) for block in blocks)


def _chunks(
    model: HasMarginalEnergy, kept: Sequence[str], like: Array | None
) -> Iterator[tuple[dict[str, Array], Array]]:
    """States of the kept blocks with minus their marginal energies in float64."""
    rows, like, total = _rows(model), _kind(model, like), _count(model, kept)
    for start in range(0, total, rows):
        states = _states(model, kept, start, min(start + rows, total))
        state = {block: convert(x, like) for block, x in states.items()}
        yield state, -double(model.marginal_energy(state))


def row_chunks(model: HasMarginalEnergy, given: State, kept: Sequence[str]) -> Iterator[dict[str, Array]]:
    """Given rows, few enough for some of the states beside each."""
    hidden = [block for block in kept if block not in given]
    step = max(_rows(model) // min(_count(model, hidden), 1024), 1)
    n = len(next(iter(given.values())))
    for start in range(0, n, step):
        yield {block: x[start : start + step] for block, x in given.items()}


def _given_chunks(
    model: HasMarginalEnergy, given: State, kept: Sequence[str]
) -> Iterator[tuple[dict[str, Array], Array]]:
    """The rows with states of the hidden kept blocks beside them, and minus the marginal energies, (rows, states)."""
    n = len(next(iter(given.values())))
    for state in states_beside(model, given, kept):
        yield state, -double(model.marginal_energy(state)).reshape(n, -1)


def states_beside(model: HasMarginalEnergy, given: State, kept: Sequence[str]) -> Iterator[dict[str, Array]]:
    """States of the hidden kept blocks beside the given rows, some at a time: those of the first row come first."""
    hidden = [block for block in kept if block not in given]
    n, total = len(next(iter(given.values()))), _count(model, hidden)
    step = max(_rows(model) // n, 1)
    for start in range(0, total, step):
        states = _states(model, hidden, start, min(start + step, total))
        count = min(start + step, total) - start
        index = np.repeat(np.arange(n), count)
        state = {block: x[index] for block, x in given.items()}
        like = next(iter(state.values()))
        yield state | {block: concatenate([convert(x, like)] * n) for block, x in states.items()}


def _logsumexp(x: NDArray[np.float64]) -> float:
    top = float(x.max())
    if not math.isfinite(top):
        return top
    return top + math.log(float(np.exp(x - top).sum()))
