"""Gibbs sampling as a kernel: blocks or single variables redrawn from their conditionals, in turn or at random."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gnomon.contracts import Array, Distribution, Noise, State
from gnomon.errors import UserValueError
from gnomon.inference.arrays import where
from gnomon.inference.blocks import coupled_blocks
from gnomon.inference.mcmc.gibbs import Clamp, gibbs
from gnomon.inference.mcmc.kernel import ChainState, Info, spread

__all__ = ["Conditionals", "Gibbs"]


class Conditionals:
    """A joint distribution given by the conditional of each variable: what Gibbs sampling needs and no more.

    Conditionals that belong to no joint distribution are not found out; the chain then settles, if at all, on a
    distribution that depends on the order of the updates.

    Parameters
    ----------
    conditionals : mapping of name to callable
        Each takes the state, a mapping of name to array (chains, ...), and answers the distribution of its variable
        given the others: an object with ``sample(noise, draw)``, one sample per chain.

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> from gnomon.distributions.real import Normal
    >>> rho, sd = 0.5, 0.75**0.5
    >>> pair = Conditionals({"a": lambda s: Normal(rho * s["b"], sd), "b": lambda s: Normal(rho * s["a"], sd)})
    >>> state = Gibbs().init({"a": np.zeros((4, 1)), "b": np.zeros((4, 1))}, pair)
    >>> Gibbs().step(state, Noise(0, "gibbs").at(0))[0]["b"].shape
    (4, 1)
    """

    def __init__(self, conditionals: Mapping[str, Callable[[State], Distribution]]) -> None:
        if not conditionals:
            raise UserValueError("conditionals must hold at least one", "conditionals", "pass one per variable")
        self.conditionals = dict(conditionals)
        self.blocks = tuple(self.conditionals)

    def conditional(self, block: str, state: State) -> Distribution:
        """Distribution of one variable given the others."""
        return self.conditionals[block](state)


@dataclass(frozen=True)
class Gibbs:
    """Each block in turn is drawn from its conditional given the others; a step is a sweep.

    In fixed order the sweep leaves the target invariant but is not reversible; with random scan, where each of as many
    updates as there are blocks takes a block of its chain's own choice, it is both.

    Parameters
    ----------
    scan : {"systematic", "backward", "random"}
        Backward is systematic in the opposite order, its reversal.
    order : sequence of str, optional
        Updates of a sweep, or the blocks that a random scan chooses from; all blocks by default.
    clamp : mapping of block name to (value, mask), optional
        Units that keep a value: chains then draw from the conditional distribution given these; mask None holds a whole
        block.

    Notes
    -----
    The info tells ``changed``: the share of a chain's numbers that a step changed.

    References
    ----------
    Geman and Geman (1984), "Stochastic relaxation, Gibbs distributions, and the Bayesian restoration of images".
    """

    scan: str = "systematic"
    order: Sequence[str] | None = None
    clamp: Clamp | None = None

    def __post_init__(self) -> None:
        if self.scan not in _SCANS:
            raise UserValueError.must("scan", f"be one of {', '.join(_SCANS)}", self.scan)

    def init(self, position: Mapping[str, Array], target: Any) -> ChainState:
        """Chains at the position, an array (chains, ...) for every block; see `Kernel`."""
        absent = [block for block in target.blocks if block not in position]
        if absent:
            raise UserValueError(
                f"block {absent[0]!r} has no start", "start", "give every block: " + ", ".join(target.blocks)
            )
        if self.scan == "random" and coupled_blocks(target):
            which = sorted(coupled_blocks(target))[0]
            what = f"scan must be systematic or backward where units are coupled within {which!r}, got 'random'"
            raise UserValueError(what, "scan", "a sweep over them is not reversible")
        return ChainState(target, gibbs(target, dict(position), _NOTHING, steps=0, order=self.order, clamp=self.clamp))

    def step(self, state: ChainState, noise: Noise) -> tuple[ChainState, Info]:
        """One sweep; see `Kernel`."""
        if self.scan == "random":
            arrays = self._random(state, noise)
        else:
            order = tuple(state.target.blocks if self.order is None else self.order)
            back = self.scan == "backward"
            arrays = gibbs(state.target, state.arrays, noise, order=order, clamp=self.clamp, backward=back)
        return state.moved(**arrays), {"changed": _changed(state.arrays, arrays)}

    def position(self, state: ChainState) -> dict[str, Array]:
        """Every block."""
        return dict(state.arrays)

    def reversed(self) -> Gibbs:
        """The same in the opposite order; a random scan is reversible."""
        return replace(self, scan=_REVERSED[self.scan])

    def _random(self, state: ChainState, noise: Noise) -> dict[str, Array]:
        order = tuple(self.order or state.target.blocks)
        chosen = noise.child("scan").integers(len(order), (len(state), len(order)))
        now = dict(state.arrays)
        for k in range(len(order)):
            before = dict(now)
            for i in np.unique(chosen[:, k]):
                # of the chains that chose another block the draw is not used
                block = order[i]
                drawn = gibbs(
                    state.target, before, noise, order=(block,), clamp=self.clamp, draw0=k * len(order) + int(i)
                )
                mine = chosen[:, k] == i
                now[block] = where(spread(mine, before[block]), drawn[block], now[block])
        return now


_REVERSED = {"systematic": "backward", "backward": "systematic", "random": "random"}
_SCANS = tuple(_REVERSED)

_NOTHING: Any = None
"""No sweep, no noise."""


def _changed(before: State, after: State) -> Array:
    moved = [(after[name] != x).reshape(len(x), -1) for name, x in before.items()]
    total = sum(m.shape[1] for m in moved)
    return sum(m.sum(1) for m in moved) / total
