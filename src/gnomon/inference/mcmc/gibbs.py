"""Block Gibbs sampling, mean field and transition matrices, written once for every model with blocks.

A state maps each block's name to an array (batch, size); a block is redrawn as a whole from its conditional given the
others. A clamp maps a block's name to ``(value, mask)``: where the mask is set the units keep the value and the others
are sampled given them; mask None clamps the whole block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, HasBlocks, Noise, State
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import convert, prototype, to_numpy, where
from gnomon.inference.blocks import coupled_blocks, units_of
from gnomon.inference.exact.enumeration import states
from gnomon.numeric.tensors import is_tensor

__all__ = ["Clamp", "beside", "block_kernel", "gibbs", "joint_states", "kernel_matrix", "mean_field", "redrawn"]

Clamp = Mapping[str, tuple[Array, Array | None]]

_MAX_MATRIX_UNITS = 12


def gibbs(
    model: HasBlocks,
    state: State,
    noise: Noise,
    *,
    steps: int = 1,
    order: Sequence[str] | None = None,
    clamp: Clamp | None = None,
    draw0: int = 0,
    backward: bool = False,
) -> dict[str, Array]:
    """Sweeps of block Gibbs sampling: each block in turn is drawn from its conditional given the others.

    Sweep s draws block number i of the order with call number ``draw0 + s * len(order) + i`` of `noise`, so a call
    takes ``steps * len(order)`` numbers and the next call in the same update must start behind them. A sweep in fixed
    order leaves the model's distribution (given the clamped units) invariant; it is not reversible unless the order is
    a palindrome. A block whose units are coupled to each other (`HasCoupledBlocks`) is drawn unit by unit, from where
    it is.

    Parameters
    ----------
    model : HasBlocks
        The joint model.
    state : mapping of block name to array (batch, size)
        Where the chains are. A block that is drawn before it is looked at may be absent. Never modified.
    noise : Noise
        Row i of the batch uses the numbers of its position.
    steps : int, in [0, inf)
        Number of sweeps.
    order : sequence of block names, optional
        The updates of one sweep; the model's own order by default. A name may be left out or repeated.
    clamp : mapping of block name to (value, mask), optional
        Units that keep a value; mask None clamps the whole block. Clamped from the start, also with 0 sweeps.
    draw0 : int, in [0, inf)
        First call number.
    backward : bool, default False
        Blocks, and the units of coupled ones, in the opposite order: the reversal of the sweep.

    Returns
    -------
    dict of block name to array
        The new state.

    Raises
    ------
    UserValueError
        For unknown block names or negative `steps`.

    References
    ----------
    Geman and Geman (1984), "Stochastic relaxation, Gibbs distributions, and the Bayesian restoration of images".
    """
    if steps < 0:
        raise UserValueError.must("steps", "be at least 0", steps)
    order, clamp = _checked(model, order, clamp)
    now = _clamped(model, dict(state), clamp)
    draw = draw0
    for _ in range(steps):
        for block in order[::-1] if backward else order:
            if not _whole(clamp, block):
                now[block] = redrawn(model, block, now, noise, draw, clamp=clamp, backward=backward)
            draw += 1
    return now


def redrawn(
    model: HasBlocks,
    block: str,
    state: State,
    noise: Noise,
    draw: int = 0,
    *,
    clamp: Clamp | None = None,
    backward: bool = False,
) -> Array:
    """One block drawn given the others: at once where its units are independent, else by one sweep over its units.

    Parameters as in `gibbs`.
    """
    clamp = {} if clamp is None else clamp
    if block in coupled_blocks(model):
        held = clamp[block][1] if block in clamp else None
        return cast(Any, model).sweep(block, state, noise, draw, held=held, backward=backward)
    return _pin(clamp, block, beside(model.conditional(block, state), block, clamp).sample(noise, draw))


def beside(one: Any, block: str, clamp: Clamp) -> Any:
    """A block's distribution given its clamped units: another one only where its units depend on each other."""
    held = clamp.get(block, (None, None))[1]
    return one.given(*clamp[block]) if held is not None and hasattr(one, "given") else one


def mean_field(
    model: HasBlocks,
    clamp: Clamp,
    *,
    steps: int = 50,
    tol: float = 0.0,
    order: Sequence[str] | None = None,
    damping: float = 0.0,
    start: State | None = None,
) -> dict[str, Array]:
    """Fully factorized approximation of the free units given the clamped ones, by coordinate ascent over the blocks.

    ``q_block <- mean of conditional(block, means of the others)``, starting from the middle of the units' values (1/2
    for 0 and 1, 0 for spins); units that are coupled within a block one after the other. Each update raises the
    evidence lower bound; a fixed point is a local optimum, and exact where the free units are independent given the
    clamped ones.

    Parameters
    ----------
    model : HasBlocks
        A model whose conditionals depend on the others through linear fields, so that means may stand for states.
    clamp : mapping of block name to (value, mask)
        The observed units; values (batch, size), mask None for a whole block.
    steps : int, in [0, inf)
        Rounds of updates, at most.
    tol : float, in [0, inf)
        End when no mean has moved by more than this in a round; 0 runs every round.
    order : sequence of block names, optional
        Order of the updates in a round.
    damping : float, in [0, 1)
        Share of its old mean that a unit keeps at an update: smaller moves, to the same solutions.
    start : mapping of block name to array (batch, size), optional
        Means to begin with, of some or all blocks.

    Returns
    -------
    dict of block name to array (batch, size)
        Means; clamped units hold their values.

    Raises
    ------
    UserValueError
        For unknown block names, negative `steps`, a `damping` outside its interval.

    References
    ----------
    Peterson and Anderson (1987), "A mean field theory learning algorithm for neural networks".
    """
    if steps < 0:
        raise UserValueError.must("steps", "be at least 0", steps)
    if not 0 <= damping < 1:
        raise UserValueError.must("damping", "be in [0, 1)", damping)
    order, clamp = _checked(model, order, clamp)
    n = max((len(value) for value, _ in clamp.values()), default=1)
    like = next((value for value, mask in clamp.values() if mask is None and is_tensor(value)), prototype(model))
    middle = {block: np.tile(kind.center, (n, 1)) for block, kind in units_of(model).items()}
    now = _clamped(model, {block: convert(x, like) for block, x in {**middle, **(start or {})}.items()}, clamp)
    for _ in range(steps):
        before = dict(now)
        for block in order:
            if not _whole(clamp, block):
                now[block] = _moved(now[block], _mean(model, block, now, clamp), damping)
        if tol and max(abs(now[block] - before[block]).max().item() for block in order) <= tol:
            break
    return now


def _moved(before: Array, mean: Array, damping: float) -> Array:
    """A mean that keeps this share of what it was."""
    return mean + damping * (before - mean) if damping else mean


def joint_states(model: HasBlocks, clamp: Clamp | None = None) -> dict[str, Array]:
    """Every joint state of the free units, in lexicographic order over the blocks in turn.

    Parameters
    ----------
    model : HasBlocks
        Binary units, at most 12 of them free.
    clamp : mapping of block name to (value, mask), optional
        Units held at one value each: value and mask of shape (size,) or (1, size).

    Returns
    -------
    dict of block name to array (2**free, size)
    """
    _, clamp = _checked(model, None, clamp)
    free = _free(model, clamp)
    n_free = sum(int(f.sum()) for f in free.values())
    if n_free > _MAX_MATRIX_UNITS:
        raise UserValueError(
            f"a matrix over 2^{n_free} states takes {8 * 4.0**n_free:.1e} bytes", "model", "use at most 12 free units"
        )
    like, table, result = prototype(model), states(n_free), {}
    for block in model.blocks:
        x = np.zeros((len(table), model.sizes[block]))
        if block in clamp:
            x[:] = to_numpy(clamp[block][0]).reshape(1, -1)
        n = int(free[block].sum())
        x[:, free[block]], table = table[:, :n], table[:, n:]
        result[block] = convert(x, like)
    return result


def kernel_matrix(
    model: HasBlocks, order: Sequence[str] | None = None, clamp: Clamp | None = None
) -> NDArray[np.float64]:
    """The exact transition matrix of one Gibbs sweep over all joint states, for tests and teaching.

    Parameters
    ----------
    model : HasBlocks
        Binary units, at most 12 of them free.
    order : sequence of block names, optional
        The updates of the sweep; one name gives the kernel of a single update.
    clamp : mapping of block name to (value, mask), optional
        Units held at one value each; the kernel then acts on the states of the free units.

    Returns
    -------
    array of shape (states, states)
        ``T[i, j] = P(next = i | now = j)``; columns sum to 1; numbering as `joint_states`.

    Raises
    ------
    UserValueError
        With more than 12 free units (a matrix of 134 MB).
    """
    order, clamp = _checked(model, order, clamp)
    table, free = joint_states(model, clamp), _free(model, clamp)
    plain = {block: to_numpy(x) for block, x in table.items()}
    matrix = np.eye(len(plain[model.blocks[0]]))
    for block in order:
        mean = to_numpy(model.conditional(block, table).mean)
        others = [x for name, x in plain.items() if name != block]
        for units in _drawn_together(model, block, free[block]):
            kept = np.setdiff1d(np.arange(model.sizes[block]), units)
            rest = _number(np.concatenate([*others, plain[block][:, kept]], axis=1))
            step = _table(plain[block][:, units], mean[:, units]) * (rest[:, None] == rest[None, :])
            matrix = np.matmul(step, matrix)
    return matrix


def _drawn_together(model: HasBlocks, block: str, free: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """The free units of a block in the sets that are drawn at once, in their order."""
    units = np.flatnonzero(free)
    return [units[k : k + 1] for k in range(len(units))] if block in coupled_blocks(model) else [units]


def block_kernel(model: HasBlocks, block: str) -> NDArray[np.float64]:
    """The transition matrix of one block of a two-block model: the other drawn given it, then it given the other.

    This is the chain that contrastive divergence runs and the one annealed importance sampling moves by:
    ``T[i, j] = sum_h P(x_i | h) P(h | x_j)``. It is reversible with respect to the block's marginal. The distribution
    of CD-k negative samples from data distribution d is T^k d.

    Parameters
    ----------
    model : HasBlocks
        Two blocks of binary units, at most 12 in each.
    block : str
        The block whose states number rows and columns, in the order of `states`.

    Returns
    -------
    array of shape (2**size, 2**size)
        Columns sum to 1.

    Raises
    ------
    UserValueError
        When the model has not two blocks, or a block is too large.
    """
    _checked(model, (block,), None)
    if len(model.blocks) != 2:
        raise UserValueError(f"the model has {len(model.blocks)} blocks", "model", "use a model of two blocks")
    other = next(b for b in model.blocks if b != block)
    if max(model.sizes.values()) > _MAX_MATRIX_UNITS:
        raise UserValueError(f"blocks of {dict(model.sizes)} units are too large", "model", "use at most 12 in each")
    return np.matmul(_conditional_table(model, block, other), _conditional_table(model, other, block))


def _conditional_table(model: HasBlocks, block: str, given: str) -> NDArray[np.float64]:
    x, y = states(model.sizes[block]), states(model.sizes[given])
    return _table(x, to_numpy(model.conditional(block, {given: convert(y, prototype(model))}).mean))


def _table(x: NDArray[np.float64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """P(row i of x) under independent units with the means of row j, entry (i, j)."""
    result = np.ones((len(x), len(mean)))
    for unit in range(x.shape[1]):
        result *= np.where(x[:, unit, None] == 1, mean[None, :, unit], 1 - mean[None, :, unit])
    return result


def _number(bits: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rows of equal bits get equal numbers."""
    return np.unique(bits, axis=0, return_inverse=True)[1].ravel()


def _checked(model: HasBlocks, order: Sequence[str] | None, clamp: Clamp | None) -> tuple[Sequence[str], Clamp]:
    order = model.blocks if order is None else order
    clamp = {} if clamp is None else clamp
    for block in (*order, *clamp):
        if block not in model.blocks:
            raise UserValueError(f"block {block!r} is unknown", "order, clamp", "use " + ", ".join(model.blocks))
    for block, held in clamp.items():
        _check_held(block, held, model.sizes[block])
    return order, clamp


def _check_held(block: str, held: Any, size: int) -> None:
    """Refuse what is no value and mask for the units of a block."""
    if not isinstance(held, tuple | list) or len(held) != 2:
        raise UserTypeError.must(f"clamp[{block!r}]", "be a pair (value, mask)", held)
    for part, name in zip(held, ("value", "mask"), strict=True):
        if isinstance(part, str):
            raise UserTypeError.must(f"clamp[{block!r}]", f"hold numbers as its {name}", part)
        shape = () if part is None else tuple(np.shape(part))
        if shape and shape[-1] not in (1, size):
            what = f"the {name} of block {block!r} must have {size} columns, one for each unit, got the shape {shape}"
            raise UserValueError(what, "clamp")


def _check_rows(state: Mapping[str, Array]) -> None:
    """Refuse blocks that have other numbers of chains."""
    lengths = {block: len(values) for block, values in state.items()}
    if len(set(lengths.values())) > 1:
        what = "all blocks must have the same number of chains, got " + ", ".join(
            f"{n} of {b}" for b, n in lengths.items()
        )
        raise UserValueError(what, "clamp", "give a row for each chain")


def _mean(model: HasBlocks, block: str, now: State, clamp: Clamp) -> Array:
    """A block's mean given the means of the others."""
    if block in coupled_blocks(model):
        return cast(Any, model).relax(block, now, held=clamp[block][1] if block in clamp else None)
    return _pin(clamp, block, beside(model.conditional(block, now), block, clamp).mean)


def _whole(clamp: Clamp, block: str) -> bool:
    return block in clamp and clamp[block][1] is None


def _pin(clamp: Clamp, block: str, sample: Array) -> Array:
    """The sample with the clamped units at their values."""
    if block not in clamp:
        return sample
    value, mask = clamp[block]
    return where(mask, value, sample)


def _clamped(model: HasBlocks, state: dict[str, Array], clamp: Clamp) -> dict[str, Array]:
    """The state with the clamps applied; a partly clamped block that is absent is drawn later."""
    for block, (value, mask) in clamp.items():
        if mask is None:
            state[block] = value if is_tensor(value) else convert(value, prototype(model))
        elif block in state:
            if np.ndim(value) == 2 and len(value) not in (1, len(state[block])):
                _check_rows({block: value, "the chains": state[block]})
            state[block] = _pin(clamp, block, state[block])
    if clamp:
        _check_rows(state)
    return state


def _free(model: HasBlocks, clamp: Clamp) -> dict[str, NDArray[np.bool_]]:
    """Which units of each block are not clamped."""
    free = {block: np.ones(model.sizes[block], dtype=bool) for block in model.blocks}
    for block, (_, mask) in clamp.items():
        held = np.ones(model.sizes[block]) if mask is None else to_numpy(mask).reshape(-1)
        free[block] = np.broadcast_to(held == 0, free[block].shape)
    return free
