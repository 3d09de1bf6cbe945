"""Exact sums over all states of a block of binary units, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, HasMarginalEnergy
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import convert, double, is_tensor, prototype, to_numpy

__all__ = ["enumerable", "exact_expectation", "log_partition", "smallest_block", "states", "weighted_states"]

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
        raise UserValueError(f"{n_units} units cannot be numbered", "n_units", "use 0 to 62")
    stop = 1 << n_units if stop is None else stop
    if not 0 <= start <= stop <= 1 << n_units:
        raise UserValueError(f"states {start} to {stop} do not exist", "start, stop", f"stay in [0, 2**{n_units}]")
    number = np.arange(start, stop, dtype=np.int64)
    shift = np.arange(n_units - 1, -1, -1, dtype=np.int64)
    return ((number[:, None] >> shift) & 1).astype(np.float64)


def smallest_block(model: HasMarginalEnergy) -> str:
    """The block with the fewest units, the first of equals."""
    return min(model.blocks, key=lambda block: model.sizes[block])


def enumerable(model: Any, limit: int = 25) -> bool:
    """Whether the model has a block that can be enumerated while the others are summed out: at most `limit` units."""
    return isinstance(model, HasMarginalEnergy) and model.sizes[smallest_block(model)] <= limit


def log_partition(model: HasMarginalEnergy, *, block: str | None = None, limit: int = 25) -> float:
    """Exact log Z of a model of binary units: one block enumerated, the others summed out analytically.

    ``log Z = logsumexp over x in {0,1}^n of -marginal_energy(block, x)``, accumulated in float64. The energies
    themselves are computed in float64 for NumPy models and in the model's own type for torch modules: convert a float32
    module with ``double()`` where more than about 6 digits matter. Cost 2^n energies; memory bounded by 2^21 numbers
    per chunk.

    Parameters
    ----------
    model : HasMarginalEnergy
        Blocks of binary {0, 1} units. A fitted System stands for its model.
    block : str, optional
        The block to enumerate; the smallest by default. Every block gives the same number.
    limit : int, default 25
        Largest number of units to enumerate.

    Returns
    -------
    float
        Log Z in nats.

    Raises
    ------
    UserValueError
        When the block is larger than `limit`; the line states the cost.

    References
    ----------
    Smolensky (1986), "Information processing in dynamical systems: foundations of harmony theory".
    """
    model = getattr(model, "model_", model)
    total = -math.inf
    for _, log_weight in _chunks(model, _checked_block(model, block, limit)):
        total = np.logaddexp(total, _logsumexp(to_numpy(log_weight)))
    return float(total)


def weighted_states(
    model: HasMarginalEnergy, block: str | None = None, *, limit: int = 25
) -> Iterator[tuple[Array, Array]]:
    """All states of a block in chunks, each with its exact log probability under the model.

    Expectations under the model become weighted sums: the negative phase of an exact gradient is
    ``energy_gradient(x, exp(log_p))`` summed over the chunks. Two passes over the states, so twice the cost of
    `log_partition`.

    Parameters
    ----------
    model : HasMarginalEnergy
        Blocks of binary {0, 1} units. A fitted System stands for its model.
    block : str, optional
        The block to enumerate; the smallest by default.
    limit : int, default 25
        Largest number of units to enumerate.

    Yields
    ------
    x : array of shape (rows, size of the block)
        Kind of the model's arrays.
    log_p : array of shape (rows,)
        Log probability in nats of each row with the other blocks summed out, float64.

    Raises
    ------
    UserValueError
        When the block is larger than `limit`.
    """
    model = getattr(model, "model_", model)
    block = _checked_block(model, block, limit)
    log_z = log_partition(model, block=block, limit=limit)
    for x, log_weight in _chunks(model, block):
        yield x, log_weight - log_z


def exact_expectation(
    model: HasMarginalEnergy, f: Callable[[Array], Array], block: str | None = None, *, limit: int = 25
) -> NDArray[np.float64]:
    """E[f(x)] for x one block of the model, by enumeration.

    Parameters
    ----------
    model : HasMarginalEnergy
        Blocks of binary {0, 1} units. A fitted System stands for its model.
    f : callable
        Takes states (rows, size) and returns one value or array per row, (rows, ...).
    block : str, optional
        The block that f looks at; the smallest by default.
    limit : int, default 25
        Largest number of units to enumerate.

    Returns
    -------
    array
        Shape of one value of f.
    """
    total: Any = 0.0
    for x, log_p in weighted_states(model, block, limit=limit):
        total = total + np.tensordot(np.exp(to_numpy(log_p)), to_numpy(f(x)), axes=1)
    return np.asarray(total)


def _checked_block(model: Any, block: str | None, limit: int) -> str:
    if not isinstance(model, HasMarginalEnergy):
        raise UserTypeError(
            f"{type(model).__name__} has no marginal_energy",
            "model",
            "enumeration needs a block that can be kept alone",
        )
    if block is not None and block not in model.blocks:
        raise UserValueError(f"block {block!r} is unknown", "block", "use one of " + ", ".join(model.blocks))
    block = smallest_block(model) if block is None else block
    n = model.sizes[block]
    if n > limit:
        others = sum(model.sizes[b] for b in model.blocks) - n
        seconds = math.ldexp(2e-10 * n * others + 1e-8 * (n + others), min(n, 900))
        raise UserValueError(
            f"enumerating the {n} units of block {block!r} visits 2^{n} states, about {seconds:.1e} s in chunks of "
            f"{_rows(model, block)} rows, above the limit of 2^{limit}",
            remedy="estimate log Z by annealed importance sampling, or raise `limit`",
        )
    return block


def _rows(model: HasMarginalEnergy, block: str) -> int:
    units = sum(model.sizes[b] for b in model.blocks)
    return max(_CHUNK_NUMBERS // max(units, 1), 64)


def _chunks(model: HasMarginalEnergy, block: str) -> Iterator[tuple[Array, Array]]:
    """States of the block with minus their marginal energies in float64."""
    n, rows = model.sizes[block], _rows(model, block)
    like = prototype(model)
    like = like if is_tensor(like) else np.empty(0)  # a float32 NumPy model answers float64 states in float64
    for start in range(0, 1 << n, rows):
        x = convert(states(n, start, min(start + rows, 1 << n)), like)
        yield x, -double(model.marginal_energy(block, x))


def _logsumexp(x: NDArray[np.float64]) -> float:
    top = float(x.max())
    if not math.isfinite(top):
        return top
    return top + math.log(float(np.exp(x - top).sum()))
