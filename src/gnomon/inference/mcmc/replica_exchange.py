"""Parallel tempering: a chain at every temperature, all moved as one batch, neighbors exchanging their states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, HasBlocks, Noise, State, supports
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import convert, to_numpy
from gnomon.inference.mcmc.density import Tempered, TemperedBlocks, as_density, computes_in
from gnomon.inference.mcmc.hamiltonian import HMC
from gnomon.inference.mcmc.kernel import ChainState, Info, start_at
from gnomon.inference.mcmc.ladders import LadderTuning, check_falling, ladder
from gnomon.inference.mcmc.sweeps import Gibbs
from gnomon.numeric.tensors import is_tensor

__all__ = ["ParallelTempering"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ParallelTempering:
    """Replica exchange: moves at all temperatures, then swaps of neighbors with ``min(1, exp(d(beta) d(E)))``.

    Levels follow ``log p_k = log p_0 + beta_k (log p - log p_0)``; of levels i and j the swap is accepted with
    probability ``min(1, exp((beta_i - beta_j) (E(x_i) - E(x_j))))``, E = log p_0 - log p. Even and odd pairs of
    neighbors take turns (one pair alone is tried every step). Moves and swaps leave the product of all levels
    invariant, and the cold level, beta = 1, is what draws are kept of. Fast where hot chains cross between modes;
    nothing is gained where they do not.

    Parameters
    ----------
    betas : int or sequence of float
        Inverse temperatures, strictly falling from 1; a number stands for ``ladder(n)``.
    kernel : Kernel, optional
        What moves every level: by default block Gibbs for targets with blocks, Hamiltonian Monte Carlo for others.
        `Gibbs` tempers the joint energy of the blocks, anything else the density.
    base : object, optional
        p_0: with ``log_prob`` or ``energy``, for blocks from ``model.base(...)``. A continuous target needs one where
        beta comes near 0, or its hot levels are improper.
    keep : {"cold", "all"}
        "all" keeps the positions of all levels, (chains, levels, ...), and ``log_ratio`` = log p - log p_0 of each,
        (chains, levels): what estimates of the normalizer take.
    step_sizes : sequence of float, optional
        One per level; found in burn-in otherwise, from the kernel's own.

    Notes
    -----
    Chains and levels are the rows of one batch, chain by chain. In burn-in `LadderTuning` evens the swap rates and
    tunes each level's step size. The info tells of the cold level what the kernel tells, ``swap_prob`` (mean over the
    pairs tried) and ``slot_accept`` (chains, levels). A step costs a move of every level and one more density, for the
    swaps; with kernels that begin with a gradient one more of these too.

    References
    ----------
    Swendsen and Wang (1986), "Replica Monte Carlo simulation of spin glasses"; Geyer (1991), "Markov chain Monte Carlo
    maximum likelihood"; Earl and Deem (2005), "Parallel tempering: theory, applications, and new perspectives".

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> from gnomon.inference.mcmc.metropolis import MetropolisHastings, RandomWalk
    >>> mover = ParallelTempering([1.0, 0.3, 0.1], MetropolisHastings(RandomWalk(1.0)))
    >>> state = mover.init(np.zeros((4, 2)), lambda x: -0.5 * (x * x).sum(-1))
    >>> state, info = mover.step(state, Noise(0, "exchange").at(0))
    >>> mover.position(state)["x"].shape, mover.slots(state)["x"].shape, mover.swap_rates(state).shape
    ((4, 2), (4, 3, 2), (2,))
    """

    betas: Any = 8
    kernel: Any = None
    base: Any = None
    keep: str = "cold"
    step_sizes: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        whole = isinstance(self.betas, int | np.integer)
        betas = check_falling(ladder(int(self.betas)) if whole else self.betas)
        object.__setattr__(self, "betas", tuple(betas.tolist()))
        if self.keep not in ("cold", "all"):
            raise UserValueError.must("keep", "be cold or all", self.keep)
        if self.step_sizes is not None and len(self.step_sizes) != len(betas):
            raise UserValueError(
                f"step_sizes must be {len(betas)}, one per level, got {len(self.step_sizes)}", "step_sizes"
            )

    def init(self, position: Any, target: Any) -> ChainState:
        """Chains at the position: an array (chains, ...), or blocks by name.

        All levels of a chain start there; ``{"slots": {name: (chains, levels, ...)}}`` gives each level its own place.
        """
        levels, blocks = len(self.betas), self._in_blocks(target)
        if isinstance(position, Mapping) and "slots" in position:
            slots = dict(position["slots"])
        else:
            named = position if isinstance(position, Mapping) else {"x": position}
            slots = {name: _repeated(x, levels) for name, x in named.items()}
        if not blocks:
            slots = {name: computes_in(target, x) for name, x in slots.items()}
        wrong = [name for name, x in slots.items() if x.shape[1] != levels]
        if wrong or not slots:
            raise UserValueError(f"start must have {levels} levels on axis 1, got {wrong or 'no positions'}", "start")
        rows = {name: _rows(x) for name, x in slots.items()}
        log_p, log_p0 = self._measure(target, rows)
        start_at(next(iter(rows.values())), log_p)
        n = len(next(iter(slots.values())))
        state = {f"slot/{name}": x for name, x in slots.items()}
        state |= {"log_p": log_p.reshape(n, levels), "log_p0": log_p0.reshape(n, levels)}
        return ChainState(target, state | self._fresh(n))

    def step(self, state: ChainState, noise: Noise) -> tuple[ChainState, Info]:
        """All levels of all chains moved once, then swaps; see `Kernel`."""
        n, levels = len(state), len(self.betas)
        if not np.array_equal(state["swap/betas"][0], self.betas):
            state = state.moved(**self._fresh(n))  # rates and trips are those of one ladder
        rows, of_moves = self._move(state, noise.child("move"))
        log_p, log_p0 = (part.reshape(n, levels) for part in self._measure(state.target, rows))
        arrays = {name: x.reshape(n, levels, *x.shape[1:]) for name, x in rows.items()}
        order, book, swap_prob = self._swap(state, log_p - log_p0, noise.child("swap"))
        moved = {f"slot/{name}": _taken(x, order) for name, x in arrays.items()}
        moved |= {"log_p": _taken(log_p, order), "log_p0": _taken(log_p0, order)}
        info = {name: x.reshape(n, levels)[:, 0] for name, x in of_moves.items() if tuple(x.shape) == (n * levels,)}
        if "accept_prob" in of_moves:
            info["slot_accept"] = of_moves["accept_prob"].reshape(n, levels)
        return state.moved(**moved, **book), info | {"swap_prob": swap_prob}

    def position(self, state: ChainState) -> dict[str, Array]:
        """The cold level as ``x`` or by block; with keep="all" every level, and ``log_ratio``."""
        if self.keep == "all":
            return self.slots(state) | {"log_ratio": state["log_p"] - state["log_p0"]}
        return {name: x[:, 0] for name, x in self.slots(state).items()}

    def slots(self, state: ChainState) -> dict[str, Array]:
        """The positions of all levels, (chains, levels, ...)."""
        return {name.removeprefix("slot/"): x for name, x in state.arrays.items() if name.startswith("slot/")}

    def swap_rates(self, state: ChainState) -> Floats:
        """Mean acceptance probability of swaps of each pair since the ladder last changed, (levels - 1,)."""
        with np.errstate(invalid="ignore"):
            return np.asarray(state["swap/accept"].sum(axis=0) / state["swap/tried"].sum(axis=0), dtype=np.float64)

    def round_trips(self, state: ChainState) -> NDArray[np.int64]:
        """How often each replica went from the cold end to the hot one and back, (chains, levels), same ladder."""
        return np.asarray(state["swap/trips"], dtype=np.int64)

    def replicas(self, state: ChainState) -> NDArray[np.int64]:
        """Which replica stands in each slot, (chains, levels): a permutation per chain."""
        return np.asarray(state["swap/replica"], dtype=np.int64)

    def adaptation(self) -> LadderTuning:
        """What tunes it in burn-in unless info otherwise."""
        return LadderTuning()

    def tuned(self, step_sizes: Any = None, betas: Any = None) -> ParallelTempering:
        """The same with other step sizes or another ladder; None leaves them."""
        sizes = self.step_sizes if step_sizes is None else tuple(np.asarray(step_sizes, dtype=np.float64).tolist())
        return replace(self, betas=self.betas if betas is None else betas, step_sizes=sizes)

    def settings(self) -> dict[str, Floats]:
        """What tuning changes, as arrays to save."""
        sizes = {} if self.step_sizes is None else {"step_sizes": np.asarray(self.step_sizes)}
        return {"betas": np.asarray(self.betas)} | sizes

    def with_settings(self, arrays: State) -> ParallelTempering:
        """The same with saved settings."""
        return self.tuned(arrays.get("step_sizes"), arrays["betas"])

    def sizes(self, target: Any) -> Floats | None:
        """Step size of each level; None where the kernel has none."""
        if self.step_sizes is not None:
            return np.asarray(self.step_sizes, dtype=np.float64)
        own = getattr(self._mover(target), "step_size", None)
        return None if own is None else np.full(len(self.betas), float(own))

    def best_acceptance(self, target: Any) -> float:
        """That of the kernel."""
        return float(getattr(self._mover(target), "best_acceptance", 0.5))

    def _move(self, state: ChainState, noise: Noise) -> tuple[dict[str, Array], Info]:
        n, levels, target = len(state), len(self.betas), state.target
        rows = {name: _rows(x) for name, x in self.slots(state).items()}
        betas, mover = np.tile(np.asarray(self.betas), n), self._mover(target)
        if self.step_sizes is not None:
            mover = mover.tuned(np.tile(np.asarray(self.step_sizes), n))
        if self._in_blocks(target):
            inner = mover.init(rows, TemperedBlocks(target, betas, self.base))
        else:
            known = state["log_p"].reshape(-1), None if self.base is None else state["log_p0"].reshape(-1)
            inner = mover.init(rows["x"], _KnownAt(rows["x"], known, target, betas, self.base))
        inner, info = mover.step(inner, _slot_noise(noise, n, levels))
        return mover.position(inner), info

    def _swap(
        self, state: ChainState, log_ratio: Array, noise: Noise
    ) -> tuple[NDArray[np.int64], dict[str, Array], Floats]:
        """The order in which slots take the states, the books, and the mean acceptance of each chain."""
        n, levels = len(state), len(self.betas)
        turn = state["swap/turn"]
        tried = (np.arange(levels - 1) % 2 == turn[:, None] % 2) if levels > 2 else np.ones((n, 1), dtype=bool)
        u, betas = to_numpy(log_ratio), np.asarray(self.betas)
        with np.errstate(invalid="ignore"):
            exponent = (betas[:-1] - betas[1:]) * (u[:, 1:] - u[:, :-1])
        exponent = np.where(np.isnan(exponent), -np.inf, exponent)
        swaps = tried & (np.log(noise.uniform((n, levels - 1), like=np.empty(0))) < exponent)
        chance = np.where(tried, np.exp(np.minimum(exponent, 0.0)), 0.0)
        order = np.tile(np.arange(levels), (n, 1))
        order[:, :-1] += swaps
        order[:, 1:] -= swaps
        book = {
            "swap/replica": np.take_along_axis(state["swap/replica"], order, axis=1), "swap/turn": turn + 1,
            "swap/tried": state["swap/tried"] + tried, "swap/accept": state["swap/accept"] + chance,
        }  # fmt: skip
        book |= _journeys(book["swap/replica"], state["swap/heading"], state["swap/trips"])
        return order, book, chance.sum(axis=1) / np.maximum(tried.sum(axis=1), 1)

    def _measure(self, target: Any, rows: Mapping[str, Array]) -> tuple[Array, Array]:
        """log p and log p_0 of every row."""
        if self._in_blocks(target):
            log_p = -target.joint_energy(rows)
            return log_p, 0 * log_p if self.base is None else -self.base.joint_energy(rows)
        log_p = as_density(target).log_prob(rows["x"])
        if self.base is None:
            return log_p, convert(np.zeros(len(log_p)), log_p)
        return log_p, as_density(self.base).log_prob(rows["x"])

    def _fresh(self, n: int) -> dict[str, Array]:
        levels = len(self.betas)
        replica = np.tile(np.arange(levels), (n, 1))
        counts = np.zeros((n, levels), dtype=np.int64)
        return {
            "swap/betas": np.tile(np.asarray(self.betas), (n, 1)), "swap/turn": np.zeros(n, dtype=np.int64),
            "swap/tried": counts[:, 1:].copy(), "swap/accept": np.zeros((n, levels - 1)), "swap/replica": replica,
            **_journeys(replica, counts, counts),
        }  # fmt: skip

    def _mover(self, target: Any) -> Any:
        if self.kernel is not None:
            return self.kernel
        return Gibbs() if supports(target, HasBlocks) else HMC()

    def _in_blocks(self, target: Any) -> bool:
        if not isinstance(self._mover(target), Gibbs):
            return False
        if not hasattr(target, "joint_energy"):
            raise UserTypeError(
                f"{type(target).__name__} has no joint energy to temper", "target", "use blocks with joint_energy"
            )
        return True


class _KnownAt(Tempered):
    """A tempered density that need not be asked again at the rows where the last swap left the chains."""

    def __init__(self, rows: Array, known: tuple[Array, Array | None], target: Any, beta: Array, base: Any) -> None:
        super().__init__(target, beta, base)
        self.rows, self.known = rows, known

    def log_prob(self, x: Array) -> Array:
        return self.combine(*self.known) if x is self.rows else super().log_prob(x)


def _journeys(
    replica: NDArray[np.int64], heading: NDArray[np.int64], trips: NDArray[np.int64]
) -> dict[str, NDArray[np.int64]]:
    """Headings and round trips by replica: +1 has seen the cold end last, -1 the hot end after the cold one."""
    heading, trips, chains = heading.copy(), trips.copy(), np.arange(len(replica))
    cold, hot = replica[:, 0], replica[:, -1]
    trips[chains, cold] += heading[chains, cold] == -1
    heading[chains, cold] = 1
    heading[chains, hot] = np.where(heading[chains, hot] == 1, -1, heading[chains, hot])
    return {"swap/heading": heading, "swap/trips": trips}


def _slot_noise(noise: Noise, n: int, levels: int) -> Noise:
    """Level k of the chain at position i draws at position ``i * levels + k``, whichever chains are here."""
    positions = cast(Any, noise.child("places")).address(n)[3].astype(np.int64)
    return noise.rows((positions[:, None] * levels + np.arange(levels)).ravel())


def _rows(x: Array) -> Array:
    return x.reshape(-1, *x.shape[2:])


def _repeated(x: Array, levels: int) -> Array:
    if is_tensor(x):
        return x.repeat_interleave(levels, dim=0).reshape(len(x), levels, *x.shape[1:])
    return np.repeat(x, levels, axis=0).reshape(len(x), levels, *x.shape[1:])


def _taken(x: Array, order: NDArray[np.int64]) -> Array:
    """Slot k of chain i takes what stood in slot order[i, k]."""
    chains = np.arange(len(order))[:, None]
    if not is_tensor(x):
        return x[chains, order]
    import torch

    return x[torch.as_tensor(chains, device=x.device), torch.as_tensor(order, device=x.device)]
