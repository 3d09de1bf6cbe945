"""What a transition kernel is: ``init`` puts chains on a target, ``step`` moves all of them once.

A state is named arrays, chains on axis 0, beside the target they walk on; a kernel is an immutable description of how
to move and holds no chain. What a step has to tell (acceptance and the like) stands in its info, one number per chain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from gnomon.contracts import Array, Noise, State
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.numeric.tensors import is_tensor

__all__ = ["ChainState", "Info", "Kernel", "accept", "reversal", "select", "spread", "start_at"]

Info = dict[str, Array]
"""Arrays of shape (chains,) by name: ``accepted``, ``accept_prob`` and others."""


@dataclass(frozen=True)
class ChainState:
    """Where chains are.

    Parameters
    ----------
    target : object
        What they walk on.
    arrays : mapping of name to array (chains, ...)
        All that changes and is saved; ``x`` is the position where there is only one, else each block by its name.
    """

    target: Any
    arrays: State

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def moved(self, **arrays: Array) -> ChainState:
        """The same with new arrays."""
        return replace(self, arrays={**self.arrays, **arrays})


class Kernel(Protocol):
    """A transition that leaves its target invariant."""

    def init(self, position: Any, target: Any) -> ChainState:
        """Chains at the position: an array (chains, ...), or a mapping of block name to array."""

    def step(self, state: ChainState, noise: Noise) -> tuple[ChainState, Info]:
        """All chains moved once. Needs a stream of its own per step: ``noise.at(step)``."""

    def position(self, state: ChainState) -> dict[str, Array]:
        """What is kept of a state: arrays by name."""


def reversal(kernel: Any) -> Any:
    """The kernel that runs another one backwards under its target: ``R(x' | x) = p(x') T(x | x') / p(x)``.

    Kernels say theirs in ``reversed()``; one that is reversible answers itself.

    Raises
    ------
    UserTypeError
        When the kernel does not say.
    """
    if not hasattr(kernel, "reversed"):
        raise UserTypeError(
            f"the reversal of {type(kernel).__name__} is unknown",
            "kernel",
            "give it a method reversed(); a reversible kernel returns itself",
        )
    return kernel.reversed()


def start_at(position: Array, log_p: Array) -> None:
    """Refuse chains that start where the density is 0 or not a number."""
    values = to_numpy(log_p)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        at = np.array2string(to_numpy(position[int(bad[0])]).ravel()[:4], precision=4)
        raise UserValueError(
            f"the log density must be finite at the start, got {values[bad[0]]} at {at}",
            f"start, chain {bad[0]}",
            "start where the density is positive",
        )


def select(accepted: Array, new: Array, old: Array) -> Array:
    """Rows of `new` where accepted, of `old` elsewhere."""
    mask = spread(accepted, old)
    if not is_tensor(old):
        return np.where(mask, new, old)
    import torch

    return torch.where(mask, new, old)


def spread(factor: Array, like: Array) -> Array:
    """One factor per row with axes of length 1 for the rest of `like`; numbers stay as they are."""
    if not hasattr(factor, "ndim") or factor.ndim != 1 or like.ndim == 1:
        return factor
    return factor.reshape((-1,) + (1,) * (like.ndim - 1))


def accept(log_ratio: Array, noise: Noise, draw: int = 0) -> tuple[Array, Array]:
    """Whether each chain moves, and with which probability ``min(1, exp(log_ratio))``; a ratio of NaN never does.

    The comparison is ``log u < log_ratio`` with u from (0, 1), so a ratio of at least 1 always moves.
    """
    u = noise.uniform((len(log_ratio),), draw, like=log_ratio)
    if not is_tensor(log_ratio):
        ratio = np.where(np.isnan(log_ratio), -np.inf, log_ratio)
        return np.log(u) < ratio, np.exp(np.minimum(ratio, 0.0))
    import torch

    safe = torch.where(log_ratio.isnan(), torch.full_like(log_ratio, -np.inf), log_ratio)
    return u.log() < safe, safe.clamp(max=0.0).exp()
