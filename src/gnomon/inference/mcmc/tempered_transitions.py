"""Tempered transitions: one move that heats up, cools down again, and is accepted or rejected as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gnomon.contracts import Array, HasBridge, Noise, Path, supports
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import double
from gnomon.inference.blocks import Keep, join, part
from gnomon.inference.mcmc.density import computes_in
from gnomon.inference.mcmc.kernel import ChainState, Info, Kernel, accept, select, start_at
from gnomon.inference.mcmc.ladders import check_falling, ladder
from gnomon.inference.mcmc.metropolis import MetropolisHastings
from gnomon.inference.mcmc.paths import BridgePath, TemperedPath
from gnomon.numeric.given import check_fields, doable

__all__ = ["TemperedTransitions"]


@dataclass(frozen=True)
class TemperedTransitions:
    """A walk up a ladder of temperatures and down again as the proposal of one step.

    With levels p_0 (the target) ... p_n (the hottest), kernels T_i that leave p_i invariant and their reversals R_i: up
    ``x_0 -T_1-> x_1 ... -T_n-> x_n``, down ``x_n -R_n-> y_{n-1} ... -R_1-> y_0``, and y_0 is accepted with probability

    ``min(1, prod_{i=0}^{n-1} [p_{i+1}(x_i) / p_i(x_i)] [p_i(y_i) / p_{i+1}(y_i)])``,

    unnormalized densities in the log domain. Reversible under the target whatever the kernels are, as long as the
    reversals are right.

    Parameters
    ----------
    betas : int or sequence of float
        Inverse temperatures, strictly falling from 1; a number stands for ``ladder(n)``. Too few, and no walk is
        accepted: the acceptance tells.
    kernel : Kernel or sequence of kernels
        Of all levels, or one per level (that of beta = 1 is not used), with a known reversal. Models of blocks with
        a bridge to a base, and targets that are a `Path`, have moves of their own.
    base : object, optional
        Kept at small beta: p_0 with ``log_prob``; for blocks ``model.base()`` by default.
    steps : int, in [1, inf)
        Steps of the kernel per level, each way.
    block : str, optional
        Of a model with blocks, those that are walked on; the first set that can be kept by default.

    Notes
    -----
    A step costs ``2 n`` moves and ``4 n`` densities. The info tells ``accepted``, ``accept_prob`` and ``proposed``.

    References
    ----------
    Neal (1996), "Sampling from multimodal distributions using tempered transitions".

    Examples
    --------
    >>> from gnomon.inference.mcmc.metropolis import RandomWalk
    >>> from gnomon.numeric.noise import Noise
    >>> mover = TemperedTransitions([1.0, 0.6, 0.3], MetropolisHastings(RandomWalk(2.0)))
    >>> state = mover.init(np.zeros((4, 1)), lambda x: -0.5 * (x * x).sum(-1))
    >>> mover.step(state, Noise(0, "tempered").at(0))[0]["x"].shape
    (4, 1)
    """

    betas: Any = 8
    kernel: Kernel | Sequence[Kernel] = field(default_factory=MetropolisHastings)
    base: Any = None
    steps: int = 1
    block: Keep | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        several = list(self.kernel) if isinstance(self.kernel, Sequence) else [self.kernel]
        if not all(hasattr(one, "step") for one in several):
            raise UserTypeError(
                f"kernel must be a kernel or one per level, got a {type(self.kernel).__name__}", "kernel"
            )
        doable(self.steps, "steps", least=1)
        whole = isinstance(self.betas, int | np.integer)
        betas = check_falling(ladder(int(self.betas)) if whole else self.betas)
        object.__setattr__(self, "betas", tuple(betas.tolist()))

    def init(self, position: Any, target: Any) -> ChainState:
        """Chains at the rows of `position`, (chains, ...), or a mapping that has the block; see `Kernel`."""
        path = self.path(target)
        if isinstance(position, Mapping):
            names = path.keep if isinstance(path, BridgePath) else ("x",)
            for name in names:
                if name not in position:
                    raise UserValueError(f"block {name!r} has no start", "start", f"give {name!r}")
            position = join(position, names)
        x = computes_in(target, position)
        start_at(x, path.log_prob(len(path) - 1, x))
        return ChainState(target, {"x": x})

    def step(self, state: ChainState, noise: Noise) -> tuple[ChainState, Info]:
        """All chains walked up and down once; see `Kernel`."""
        path, x = self.path(state.target), state["x"]
        top = len(path) - 1  # a path counts from its base, the hottest level
        y, log_ratio = x, 0.0
        with np.errstate(invalid="ignore"):  # a walk that leaves the target's support ends at NaN: rejected
            for level in reversed(range(top)):
                log_ratio = log_ratio + (double(path.log_prob(level, y)) - double(path.log_prob(level + 1, y)))
                y = path.move(level, y, noise.child(f"up {level}"))
            for level in range(top):
                y = path.back(level, y, noise.child(f"down {level}"))
                log_ratio = log_ratio + (double(path.log_prob(level + 1, y)) - double(path.log_prob(level, y)))
        moved, chance = accept(log_ratio, noise.child("accept"))
        return state.moved(x=select(moved, y, x)), {"accepted": moved, "accept_prob": chance, "proposed": y}

    def position(self, state: ChainState) -> dict[str, Array]:
        """The positions as ``x``, of a model with blocks by the names of the blocks that are walked on."""
        path = self.path(state.target)
        return part(state["x"], path.model, path.keep) if isinstance(path, BridgePath) else {"x": state["x"]}

    def reversed(self) -> TemperedTransitions:
        """Itself: it is reversible."""
        return self

    def path(self, target: Any) -> Path:
        """The levels and moves that a target is walked through, hottest first."""
        if isinstance(target, Path):
            return target
        rising = self.betas[::-1]
        if supports(target, HasBridge):
            base = target.base() if self.base is None else self.base
            return BridgePath(target, base, rising, self.block)
        kernel = self.kernel if hasattr(self.kernel, "step") else tuple(self.kernel)[::-1]
        return TemperedPath(target, self.base, rising, kernel, steps=self.steps)
