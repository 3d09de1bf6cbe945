"""Running chains: many at once, tuned in burn-in, thinned, looked at by diagnostics, saved and gone on with bitwise."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gnomon import contracts
from gnomon.contracts import Array, HasBlocks, State, supports
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import prototype
from gnomon.inference.blocks import units_of
from gnomon.inference.mcmc.adaptation import Adaptation
from gnomon.inference.mcmc.hamiltonian import HMC
from gnomon.inference.mcmc.kernel import ChainState, Info, Kernel
from gnomon.inference.mcmc.metropolis import MetropolisHastings
from gnomon.inference.mcmc.records import Draws
from gnomon.inference.mcmc.replica_exchange import ParallelTempering
from gnomon.inference.mcmc.sites import SingleSite
from gnomon.inference.mcmc.sweeps import Gibbs
from gnomon.numeric.given import affordable
from gnomon.numeric.noise import Noise, seed_of
from gnomon.numeric.tensors import is_tensor
from gnomon.recipes.parameters import how_many

__all__ = ["ChainDraws", "Sampler", "Walk", "Watch", "begin", "sample_chain"]

Watch = Callable[[int, int, Info], Any]
"""Called with steps taken, steps in all, and what the last step told; true ends the chains."""

KERNELS = {
    "hmc": HMC,
    "metropolis": MetropolisHastings,
    "gibbs": Gibbs,
    "sites": SingleSite,
    "tempering": ParallelTempering,
}


@dataclass(frozen=True)
class Walk:
    """Where a run of chains is: the kernel as tuned so far, the chains, the state of the tuning, the steps taken."""

    kernel: Any
    state: ChainState
    tuning: State
    t: int


@dataclass(frozen=True)
class Sampler:
    """Chains step by step: what `sample_chain` does, for those who want to stop anywhere.

    Parameters
    ----------
    target : object
        What the kernel walks on.
    kernel : Kernel
        As it is before any tuning.
    noise : Noise
        Step t uses ``noise.at(t)``; chain i its position i.
    burn_in : int, in [0, inf)
        Steps in which `adapt` may tune.
    adapt : Adaptation, optional
        None tunes nothing.
    """

    target: Any
    kernel: Any
    noise: contracts.Noise
    burn_in: int = 0
    adapt: Adaptation | None = None

    def start(self, position: Any) -> Walk:
        """Chains at the position."""
        state = self.kernel.init(position, self.target)
        return Walk(self.kernel, state, self.adapt.init(self.kernel, state) if self.adapt else {}, 0)

    def step(self, walk: Walk) -> tuple[Walk, Info]:
        """All chains moved once, the kernel tuned while in burn-in."""
        kernel, tuning = walk.kernel, walk.tuning
        state, info = kernel.step(walk.state, self.noise.at(walk.t))
        if self.adapt and walk.t < self.burn_in:
            kernel, tuning = self.adapt.update(kernel, tuning, state, info, walk.t, self.burn_in)
        return Walk(kernel, state, tuning, walk.t + 1), info

    def save(self, walk: Walk) -> tuple[dict[str, Array], dict[str, Any]]:
        """Arrays and JSON facts from which `load` goes on bitwise."""
        arrays = {f"chain/{name}": x for name, x in walk.state.arrays.items()}
        arrays |= {f"tuning/{name}": np.asarray(x) for name, x in walk.tuning.items()}
        if self.adapt:
            arrays |= {f"kernel/{name}": x for name, x in _settings(walk.kernel).items()}
        return arrays, {"t": walk.t, "kernel": type(self.kernel).__name__, "tuned": self.adapt is not None}

    def load(self, arrays: State, facts: Mapping[str, Any]) -> Walk:
        """The walk that `save` described.

        Raises
        ------
        UserValueError
            When it was another kernel's.
        """
        mine = type(self.kernel).__name__
        if facts["kernel"] != mine or facts["tuned"] != (self.adapt is not None):
            raise UserValueError(
                f"kernel and adapt must be those of the saved chains, {facts['kernel']} and tuned: {facts['tuned']}, "
                f"got {mine} and tuned: {self.adapt is not None}", "kernel, adapt",
            )  # fmt: skip
        kernel = self.kernel
        if self.adapt:
            kernel = _with_settings(kernel, _inside(arrays, "kernel/"))
        state = ChainState(self.target, _inside(arrays, "chain/"))
        return Walk(kernel, state, _inside(arrays, "tuning/"), int(facts["t"]))


@dataclass(frozen=True)
class ChainDraws(Draws):
    """What chains drew, with all that is needed to go on.

    Parameters
    ----------
    values, info, facts
        See `Draws`.
    sampler, walk : Sampler, Walk
        How the chains moved and where they are.
    """

    sampler: Sampler
    walk: Walk

    @property
    def kernel(self) -> Any:
        """The kernel as tuned."""
        return self.walk.kernel

    def extend(self, draws: int, progress: Watch | None = None) -> ChainDraws:
        """These and `draws` more per chain: the same as if they had been asked for at once.

        What is left of burn-in is taken first. `progress` as in `sample_chain`.
        """
        more = _collect(self.sampler, self.walk, draws, self.facts, progress)
        if not self.shape[1]:
            return more
        return replace(more, values=_joined(self.values, more.values), info=_joined(self.info, more.info))

    def save(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Arrays and JSON facts for ``sample_chain(..., resume=...)``; the draws so far are not among them."""
        arrays, facts = self.sampler.save(self.walk)
        return arrays, facts | dict(self.facts)


def sample_chain(
    target: Any,
    kernel: str | Kernel = "hmc",
    *,
    chains: int = 8,
    draws: int = 1000,
    burn_in: int = 1000,
    thin: int = 1,
    start: Any = None,
    adapt: str | Adaptation | None = "auto",
    random_state: Any = None,
    resume: tuple[State, Mapping[str, Any]] | None = None,
    progress: Watch | None = None,
) -> ChainDraws:
    """Draw from an unnormalized density, a model with an energy or a model with blocks, by Markov chains.

    Parameters
    ----------
    target : callable, object with ``energy`` or ``log_prob``, or HasBlocks
        A log density takes (chains, ...) to (chains,); gradients are torch's. A fitted system stands for its model.
    kernel : {"hmc", "metropolis", "gibbs", "sites", "tempering"} or Kernel
        "gibbs" needs blocks; "sites" takes one unit of 0 or 1 after the other and any energy; "tempering" exchanges
        states with hotter chains (`ParallelTempering`).
    chains : int, in [1, inf)
        All move at once. Chain i draws the same numbers whatever the number of the others; tuning that pools the
        chains (the default) still lets them depend on one another.
    draws : int, in [0, inf)
        Kept draws per chain.
    burn_in : int, in [0, inf)
        Steps that are thrown away.
    thin : int, in [1, inf)
        Every thin-th step is kept. This saves memory and never accuracy.
    start : int, array or mapping
        The dimension, for starts uniform in (-2, 2); one position for all chains; a position per chain on axis 0; or
        such by name of block. Blocks and units start at random bits by default.
    adapt : "auto", Adaptation or None
        Tuning in burn-in; "auto" tunes kernels that have a step size.
    random_state : int, None or NumPy generator
    resume : (arrays, facts), optional
        What ``ChainDraws.save`` gave: the chains go on from there bitwise; burn-in, thinning and seed are the saved.
    progress : callable, optional
        Called after every step with the number of steps taken so far, how many there will be, and the step's info.
        Where it returns true the chains end there, in burn-in at once, later with the next kept draw; `extend` goes on.

    Returns
    -------
    ChainDraws
        Cost: ``burn_in + draws * thin`` steps of the kernel.

    Raises
    ------
    UserValueError, UserTypeError
        A start where the density is 0, counts out of range, a target that the kernel cannot walk on.

    References
    ----------
    Gelman and Rubin (1992), "Inference from iterative simulation using multiple sequences".

    Examples
    --------
    >>> found = sample_chain(lambda x: -0.5 * (x * x).sum(-1), start=2, draws=500, burn_in=300, random_state=0)
    >>> found.draws.shape, bool((abs(found.summary().columns["mean"]) < 0.1).all())
    ((8, 500, 2), True)
    """
    _check_counts(draws=(draws, 0))
    return begin(target, kernel, chains, burn_in, thin, start, adapt, random_state, resume).extend(draws, progress)


def begin(
    target: Any,
    kernel: str | Kernel,
    chains: int,
    burn_in: int,
    thin: int,
    start: Any = None,
    adapt: str | Adaptation | None = "auto",
    random_state: Any = None,
    resume: tuple[State, Mapping[str, Any]] | None = None,
) -> ChainDraws:
    """Chains at their start, or where `resume` left them, without a draw; parameters as in `sample_chain`."""
    target = getattr(target, "model_", target)
    mover = _kernel(kernel, target)
    facts: dict[str, Any] = {"seed": seed_of(random_state), "burn_in": burn_in, "thin": thin}
    if resume is not None:
        facts = {key: int(resume[1][key]) for key in facts}
    _check_counts(chains=(chains, 1), burn_in=(burn_in, 0), thin=(thin, 1))
    noise = Noise(facts["seed"], "chain")
    tuning = _adaptation(adapt, mover, facts["burn_in"])
    sampler = Sampler(target, mover, noise.child("step"), facts["burn_in"], tuning)
    if resume is not None:
        walk = sampler.load(*resume)
    else:
        walk = sampler.start(_positions(target, mover, start, chains, noise.child("start")))
    return ChainDraws(_room(sampler, walk, 0), {}, facts, sampler, walk)


def _check_counts(**counts: tuple[int, int]) -> None:
    """Refuse a count, by its name, below the least that makes sense."""
    for name, (value, least) in counts.items():
        if how_many(value, name) < least:
            raise UserValueError.must(name, f"be at least {least}", value)


def _room(sampler: Sampler, walk: Walk, draws: int) -> dict[str, NDArray[Any]]:
    """Arrays that take so many draws of every chain."""
    position = sampler.kernel.position(walk.state).items()
    held = sum(math.prod(np.shape(x)) for _, x in position) * how_many(draws, "draws")
    affordable(held, "draws", "draw fewer, thin more, or run fewer chains")
    return {name: np.empty((len(x), draws, *x.shape[1:]), _plain(x).dtype) for name, x in position}


def _collect(
    sampler: Sampler, walk: Walk, draws: int, facts: Mapping[str, Any], progress: Watch | None = None
) -> ChainDraws:
    thin, chains = facts["thin"], len(walk.state)
    values = _room(sampler, walk, draws)
    infos: dict[str, list[NDArray[Any]]] = {}
    total = max(walk.t, sampler.burn_in) + draws * thin
    kept, stop = 0, False
    while walk.t < total and not (stop and (walk.t - sampler.burn_in) % thin == 0):
        burning = walk.t < sampler.burn_in
        walk, info = sampler.step(walk)
        if progress is not None and progress(walk.t, total, info):
            stop = True
        if burning:
            if stop:
                break
            continue
        for name, value in info.items():
            if tuple(value.shape) == (chains,):
                infos.setdefault(name, []).append(_plain(value))
        if (walk.t - sampler.burn_in) % thin == 0:
            for name, x in walk.kernel.position(walk.state).items():
                values[name][:, kept] = _plain(x)
            kept += 1
    values = {name: x[:, :kept] for name, x in values.items()}
    return ChainDraws(values, {name: np.stack(v, axis=1) for name, v in infos.items()}, facts, sampler, walk)


def _kernel(kernel: str | Kernel, target: Any) -> Any:
    if isinstance(kernel, str):
        if kernel not in KERNELS:
            raise UserValueError.must("kernel", f"be one of {', '.join(KERNELS)}", kernel)
        kernel = KERNELS[kernel]()
    if not all(hasattr(kernel, verb) for verb in ("init", "step", "position")):
        raise UserTypeError.must("kernel", f"be a kernel, or one of {', '.join(KERNELS)}", kernel)
    if isinstance(kernel, Gibbs) and not hasattr(target, "conditional"):
        raise UserTypeError(
            f"{type(target).__name__} has no conditionals", "target", "use kernel='hmc', or pass Conditionals(...)"
        )
    return kernel


def _adaptation(adapt: Any, kernel: Any, burn_in: int) -> Adaptation | None:
    if adapt is None or hasattr(adapt, "update"):
        return cast("Adaptation | None", adapt)
    if adapt != "auto":
        raise UserValueError.must("adapt", "be 'auto', None or an Adaptation", adapt)
    if hasattr(kernel, "adaptation"):
        return cast(Adaptation, kernel.adaptation()) if burn_in > 0 else None
    tunable = getattr(kernel, "step_size", None) is not None
    return Adaptation() if tunable and burn_in > 0 else None


def _positions(target: Any, kernel: Any, start: Any, chains: int, noise: contracts.Noise) -> Any:
    """A position per chain."""
    if isinstance(start, Mapping):
        return {name: _rows(x, chains, name) for name, x in start.items()}
    inner: Any = kernel if hasattr(kernel, "begin") else getattr(kernel, "kernel", None)
    if hasattr(inner, "begin") and (start is None or isinstance(start, int | np.integer)):
        return inner.begin(target, start, chains, noise)
    if start is None and supports(target, HasBlocks):
        like = prototype(target)
        return {block: kind.start(noise.child(block), chains, like) for block, kind in units_of(target).items()}
    if start is None:
        raise UserValueError(
            "start is required for a target that does not give its dimension",
            "start",
            "pass the dimension, or a position",
        )
    if isinstance(start, int | np.integer):
        return 4 * noise.uniform((chains, int(start)), like=np.empty(0)) - 2
    return _rows(start, chains, "start")


def _rows(x: Any, chains: int, name: str) -> Array:
    if not is_tensor(x):
        x = np.asarray(x)
        x = x if np.issubdtype(x.dtype, np.floating) else x.astype(np.float64)
    if x.ndim < 2:
        row = x.reshape(1, -1)
        return row.expand(chains, -1).clone() if is_tensor(x) else np.repeat(row, chains, axis=0)
    if len(x) != chains:
        raise UserValueError(f"{name} must be one position or {chains}, one per chain, got {len(x)}", name)
    return x


def _covariance(kernel: Any) -> Any:
    """That of HMC, or of the random walk inside Metropolis-Hastings."""
    return getattr(kernel, "covariance", getattr(getattr(kernel, "proposal", None), "covariance", None))


def _settings(kernel: Any) -> dict[str, Array]:
    """What tuning changes, as arrays."""
    if hasattr(kernel, "settings"):
        return dict(kernel.settings())
    found = {"step_size": kernel.step_size, "covariance": _covariance(kernel)}
    return {name: np.asarray(value, dtype=np.float64) for name, value in found.items() if value is not None}


def _with_settings(kernel: Any, arrays: State) -> Any:
    if hasattr(kernel, "with_settings"):
        return kernel.with_settings(arrays)
    size = np.asarray(arrays["step_size"])
    return kernel.tuned(size if size.ndim else float(size), arrays.get("covariance"))


def _inside(arrays: State, prefix: str) -> dict[str, Array]:
    return {name.removeprefix(prefix): x for name, x in arrays.items() if name.startswith(prefix)}


def _joined(first: Mapping[str, NDArray[Any]], second: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    names = {**first, **second}
    return {name: np.concatenate([part[name] for part in (first, second) if name in part], axis=1) for name in names}


def _plain(x: Array) -> NDArray[Any]:
    return np.asarray(x.detach().cpu().numpy() if is_tensor(x) else x)
