"""What an unnormalized model tells without its normalizer: ratios, and conditionals of a few units."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array, State
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import convert, prototype, to_numpy
from gnomon.inference.exact.posterior import codes, log_weights
from gnomon.inference.mcmc.density import as_density
from gnomon.numeric.ops import logsumexp
from gnomon.numeric.tensors import is_tensor

__all__ = ["conditional", "log_ratio"]

Floats = NDArray[np.float64]
Unit = int | str | tuple[str, int]
"""Number of a unit in a row; a block of a model with blocks; a unit of a block."""

_NUMBERS = 1 << 21
"""Floating numbers that the states of one chunk may take."""


def log_ratio(target: Any, x: Array | State, y: Array | State) -> Floats:
    """log p(x) / p(y) in nats, row by row; the normalizer cancels.

    Parameters
    ----------
    target : energy, log density, callable, or model with blocks
        As `gnomon.inference.mcmc.density.as_density` takes it; for states with named blocks, a joint energy.
    x, y : array of shape (rows, ...), or state
        Equally many rows, or one.

    Returns
    -------
    array of shape (rows,)
        inf where only y is impossible, -inf where only x is.

    Raises
    ------
    UserValueError
        Rows where both are impossible: their ratio means nothing.

    Examples
    --------
    >>> log_ratio(lambda x: -x[:, 0] ** 2, np.array([[1.0]]), np.array([[2.0]])).tolist()
    [3.0]
    """
    above, below = np.broadcast_arrays(_log_p(target, x), _log_p(target, y))
    both = np.flatnonzero((above == -math.inf) & (below == -math.inf))
    if both.size:
        raise UserValueError("both states have probability 0", f"row {both[0]}", "compare possible states")
    return np.asarray(above - below, np.float64)


def conditional(
    target: Any,
    a: Sequence[Unit],
    given: Mapping[Any, ArrayLike] | None = None,
    *,
    d: int | None = None,
    values: Sequence[float] = (0.0, 1.0),
    limit: int = 1 << 20,
) -> Floats:
    """p(a | b) of a few units of an unnormalized model, all other units c summed out by enumeration.

    ``p(a | b) = sum_c w(a, b, c) / sum_(a, c) w(a, b, c)`` with w the unnormalized density.

    Parameters
    ----------
    target : energy, log density, callable, or model with blocks
        Over rows of `d` units, or, when units are named by their block, the joint energy over all blocks.
    a : sequence of int, or of block names and pairs (block, number)
        The units query about.
    given : mapping of such names to values, optional
        The units of b: a number or (rows,) for a unit, (size,) or (rows, size) for a block.
    d : int, optional
        Units of a row; by default its ``d``, or the size of its block ``visible``.
    values : sequence of float, default (0, 1)
        What every unit can be; (-1, 1) for spins.
    limit : int, default 2^20
        States of a and c together.

    Returns
    -------
    array of shape (states of a,) or (rows, states of a)
        Probabilities in lexicographic order of a's units as named; rows when a value in `given` has rows.

    Raises
    ------
    UserValueError
        Too many states, with the cost; a condition of probability 0; units that are unknown or named twice.

    Notes
    -----
    Cost ``rows * len(values)^(|a| + |c|)`` evaluations.

    Examples
    --------
    >>> def log_w(x):  # three units; the first two like to agree
    ...     return np.log(3.0) * (x[:, 0] == x[:, 1])
    >>> conditional(log_w, [0], {1: 1}, d=3).round(6).tolist()
    [0.25, 0.75]
    """
    layout = _Layout.of(target, [*a, *(given or {})], d)
    query = [unit for name in a for unit in layout.units(name)]
    held, rows = _held(layout, given or {})
    rest = [unit for unit in range(layout.d) if unit not in held and unit not in query]
    if len({*query}) < len(query) or any(unit in held for unit in query):
        raise UserValueError("a unit is named twice", "a, given", "name it once: as a query or as given")
    k, n = len(values), 1 if rows is None else rows
    outer, inner = k ** len(query), k ** len(rest)
    if outer * inner > limit:
        raise UserValueError(
            f"{len(query)} units of interest and {len(rest)} summed out have {float(outer * inner):.3g} states, as "
            f"many evaluations for each of {n} conditions, above the limit of {limit}",
            remedy="observe more units, sample (gnomon.sample_chain), or raise `limit`",
        )
    size = max(1, _NUMBERS // (outer * inner))
    groups = [np.arange(first, min(first + size, n)) for first in range(0, n, size)]
    table = np.concatenate([_sums(target, layout, query, rest, held, values, group) for group in groups])
    total = logsumexp(table, 1)
    gone = np.flatnonzero(total == -math.inf)
    if gone.size:
        raise UserValueError(
            "the condition has probability 0", f"given, row {gone[0]}", "condition on a possible event"
        )
    p = np.exp(table - total[:, None])
    return np.asarray(p[0] if rows is None else p, np.float64)


class _Layout(NamedTuple):
    """Where the units lie: in one row, or in blocks side by side."""

    d: int
    blocks: dict[str, range]

    @classmethod
    def of(cls, target: Any, names: Sequence[Any], d: int | None) -> _Layout:
        if any(isinstance(name, str | tuple) for name in names):
            if not hasattr(target, "blocks") or not hasattr(target, "joint_energy"):
                raise UserTypeError(f"{type(target).__name__} has no blocks", "a, given", "name units by numbers")
            ends = np.cumsum([target.sizes[block] for block in target.blocks]).tolist()
            starts = [0, *ends]
            return cls(ends[-1], {b: range(starts[i], ends[i]) for i, b in enumerate(target.blocks)})
        if d is None:
            d = getattr(target, "d", None)
        if d is None and "visible" in getattr(target, "blocks", ()):
            d = target.sizes["visible"]
        if d is None:
            raise UserValueError("d is required: the target does not give its number of units", "d")
        return cls(int(d), {})

    def units(self, name: Any) -> list[int]:
        """Columns of a unit or block."""
        block, number = (name, None) if isinstance(name, str) else name if isinstance(name, tuple) else (None, name)
        if block is not None and block not in self.blocks:
            raise UserValueError(f"block {block!r} is unknown", "a, given", "use one of " + ", ".join(self.blocks))
        if block is None and self.blocks:
            raise UserValueError(f"unit {name!r} names no block", "a, given", "use (block, number) for all of them")
        columns = range(self.d) if block is None else self.blocks[block]
        if number is None:
            return list(columns)
        if not isinstance(number, int | np.integer) or not 0 <= number < len(columns):
            raise UserValueError(f"unit {name!r} is unknown", "a, given", f"use numbers in [0, {len(columns)})")
        return [columns[int(number)]]


def _held(layout: _Layout, given: Mapping[Any, ArrayLike]) -> tuple[dict[int, Floats], int | None]:
    """Values of the observed units, (rows,) or (1,), and the number of rows; None where no value has rows."""
    found: dict[int, Floats] = {}
    rows: int | None = None
    for name, value in given.items():
        x, units = to_numpy(value), layout.units(name)
        block = isinstance(name, str)
        if x.ndim > 1 + block or (block and x.shape[-1:] != (len(units),)):
            raise UserValueError(f"{name!r} must have one value per row, got shape {x.shape}", "given")
        if x.ndim == 1 + block:
            if rows not in (None, len(x)):
                raise UserValueError(f"{name!r} must have {rows} rows like the others, got {len(x)}", "given")
            rows = len(x)
        for j, unit in enumerate(units):
            if unit in found:
                raise UserValueError(f"unit {name!r} is given twice", "given", "give it once")
            found[unit] = np.atleast_1d(x[..., j] if block else x)
    return found, rows


def _sums(
    target: Any,
    layout: _Layout,
    query: Sequence[int],
    rest: Sequence[int],
    held: Mapping[int, Floats],
    values: Sequence[float],
    rows: NDArray[np.int64],
) -> Floats:
    """log sum over c for every state of a under some conditions: shape (rows, states of a), in bounded memory."""
    k, levels = len(values), np.asarray(values, np.float64)
    units, inner = [*query, *rest], k ** len(rest)
    count, width = k ** len(units), max(1, _NUMBERS // max(layout.d, 1))
    found = np.empty(len(rows) * count)
    for start in range(0, found.size, width):
        row, state = np.divmod(np.arange(start, min(start + width, found.size)), count)
        x = np.empty((len(row), layout.d))
        x[:, units] = levels[codes(state, (k,) * len(units))]
        for unit, value in held.items():
            x[:, unit] = value[rows[row]] if len(value) > 1 else value
        found[start : start + len(row)] = _log_p(target, _state(layout, x))
    return np.asarray(logsumexp(found.reshape(len(rows), -1, inner), 2), np.float64)


def _state(layout: _Layout, x: Floats) -> Array | State:
    return {block: x[:, r.start : r.stop] for block, r in layout.blocks.items()} if layout.blocks else x


def _log_p(target: Any, x: Array | State) -> Floats:
    """Unnormalized log density of every row, float64."""
    like = prototype(target)
    like = like if is_tensor(like) else np.empty(0)
    if isinstance(x, Mapping):
        if not hasattr(target, "joint_energy"):
            raise UserTypeError(f"{type(target).__name__} has no joint energy", "target", "pass rows of units")
        state = {block: value if is_tensor(value) else convert(value, like) for block, value in x.items()}
        return log_weights(-target.joint_energy(state), len(next(iter(state.values()))))
    rows = x if is_tensor(x) else convert(x, like)
    return log_weights(as_density(target).log_prob(rows), len(rows))
