"""Models with blocks: which blocks can be kept, which units they have, and their states side by side in one array."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gnomon.contracts import Array, HasBlocks, HasUnits, State
from gnomon.distributions.units import BernoulliUnits, Units
from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.ops import concatenate

__all__ = ["Keep", "bits", "coupled_blocks", "join", "kept_blocks", "part", "smallest_keep", "summed_out", "units_of"]

Keep = str | Sequence[str]
"""One block, or several."""


def units_of(model: HasBlocks) -> Mapping[str, Units]:
    """The units of each block; those of a model that does not say (`HasUnits`) are 0 and 1."""
    if isinstance(model, HasUnits):
        return model.units
    return {block: BernoulliUnits(model.sizes[block]) for block in model.blocks}


def coupled_blocks(model: Any) -> frozenset[str]:
    """The blocks whose units are coupled to each other (`HasCoupledBlocks`); none in most models."""
    found: frozenset[str] = getattr(model, "coupled", frozenset())
    return found


def bits(model: HasBlocks, blocks: Iterable[str]) -> float:
    """log2 of the number of joint states of the blocks: of binary units their number, infinite for real ones."""
    units = units_of(model)
    return sum(math.log2(units[block].n_states) for block in blocks)


def smallest_keep(model: Any, given: Iterable[str] = ()) -> tuple[str, ...]:
    """The set of blocks with the fewest states that can be kept while the others are summed out, the first of equals.

    Blocks that are `given` are kept anyway, and their states do not count.
    """
    given = tuple(given)
    sets = [tuple(b for b in model.blocks if b in {*kept, *given}) for kept in model.marginal_blocks]
    return min(sets, key=lambda kept: bits(model, (block for block in kept if block not in given)))


def kept_blocks(model: Any, keep: Keep | None = None) -> tuple[str, ...]:
    """The blocks to keep, in the model's order; None: the first set that it offers.

    Raises
    ------
    UserTypeError, UserValueError
        When the model has no marginal energy; for an unknown block, or a set whose others depend on each other.
    """
    if not hasattr(model, "marginal_energy") or not hasattr(model, "marginal_blocks"):
        raise UserTypeError(
            f"{type(model).__name__} has no marginal_energy", "model", "give a model with blocks that can be summed out"
        )
    if keep is None:
        return tuple(model.marginal_blocks[0])
    wanted = (keep,) if isinstance(keep, str) else tuple(keep)
    for block in wanted:
        if block not in model.blocks:
            raise UserValueError(f"block {block!r} is unknown", "keep", "use one of " + ", ".join(model.blocks))
    if not any(set(kept) <= set(wanted) for kept in model.marginal_blocks):
        sets = " or ".join(" and ".join(kept) for kept in model.marginal_blocks)
        what = f"keep must hold {sets}, got {' and '.join(wanted)}"
        raise UserValueError(what, "keep", "the other blocks are then independent")
    return tuple(block for block in model.blocks if block in wanted)


def summed_out(model: HasBlocks, kept: Sequence[str]) -> tuple[str, ...]:
    """The other blocks, in the model's order."""
    return tuple(block for block in model.blocks if block not in kept)


def join(state: State, blocks: Sequence[str]) -> Array:
    """The blocks side by side, (rows, sum of their sizes); the very array of a single block."""
    if len(blocks) == 1:
        return state[blocks[0]]
    return concatenate([state[block] for block in blocks], axis=1)


def part(x: Array, model: HasBlocks, blocks: Sequence[str]) -> dict[str, Array]:
    """What `join` joined."""
    if len(blocks) == 1:
        return {blocks[0]: x}
    found, start = {}, 0
    for block in blocks:
        stop = start + model.sizes[block]
        found[block] = x[:, start:stop]
        start = stop
    return found
