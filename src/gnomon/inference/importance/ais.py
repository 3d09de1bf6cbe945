"""Annealed importance sampling: the normalizer of a model, reached in many small steps from a known one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import pairwise, takewhile
from threading import Event
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array, HasBridge, HasNormalizingPath, HasPath, Noise, Path, WalksStates
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import double
from gnomon.inference.blocks import Keep
from gnomon.inference.importance.binary_path import BinaryPath
from gnomon.inference.importance.weights import WeightedSample
from gnomon.inference.mcmc.paths import BridgePath, bridged_blocks, check_path, check_rising, row_size
from gnomon.numeric.given import affordable, checked, doable
from gnomon.numeric.threads import in_threads, one_thread_each

__all__ = ["ais", "anneal", "annealing_schedule", "bridge_path", "etas_of", "geometric_path", "normalizing_path"]

_SHARPNESS = 4.0

_BLOCK = 64
"""Chains that a thread moves at a time."""

Progress = Callable[[int, int, Array, Array], None]
Level = tuple[Array, Array, Array]


@checked
def annealing_schedule(n: int, kind: Literal["linear", "sigmoid"] = "linear") -> NDArray[np.float64]:
    """Inverse temperatures 0 = eta_0 < ... < eta_n = 1.

    Linear: eta_j = j / n. Sigmoid: ``sigma(4 (2 j / n - 1))`` stretched to [0, 1], with short steps at both ends.

    Parameters
    ----------
    n : int, in [1, inf)
        Number of steps.
    kind : {"linear", "sigmoid"}
        Spacing.

    Returns
    -------
    array of shape (n + 1,)

    References
    ----------
    Grosse, Maddison and Salakhutdinov (2013), "Annealing between distributions by averaging moments".

    Examples
    --------
    >>> annealing_schedule(4).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    etas = np.linspace(0.0, 1.0, doable(n, "schedule", least=1) + 1)
    if kind == "linear":
        return etas
    if kind != "sigmoid":
        raise UserValueError.must("kind", "be linear or sigmoid", kind)
    curve = 1 / (1 + np.exp(-_SHARPNESS * (2 * etas - 1)))
    etas = (curve - curve[0]) / (curve[-1] - curve[0])
    etas[0], etas[-1] = 0.0, 1.0
    return etas


@checked
def ais(
    model: HasBridge,
    base: Any,
    noise: Noise,
    *,
    chains: int = 100,
    schedule: int | ArrayLike = 1000,
    keep: Keep | None = None,
    progress: Progress | None = None,
) -> WeightedSample:
    """Annealed importance sampling from a base model to a model with blocks, any number of them.

    Each chain starts at a draw x_1 of the base's kept blocks; step j = 0, ..., n - 1 first adds ``F_{eta_j}(x_{j+1}) -
    F_{eta_{j+1}}(x_{j+1})`` to its log weight, F being the marginal energy of the kept blocks (the others
    summed out), and only then moves: the other blocks and the kept ones are redrawn at eta_{j+1}, which leaves that
    distribution invariant. Weights are computed before the move and no move follows the last weight.

    ``exp(log_weights)`` are unbiased estimates of Z, so ``log_mean_weight`` estimates log Z (too low on average) and
    `values` with the weights are draws of the model. Modes that no chain reaches do not show in the error.

    Parameters
    ----------
    model : HasBridge and HasMarginalEnergy
        The target. ``model.path(base, etas, keep)``, where there is one, walks the same bridge faster.
    base : object
        A base from ``model.base(...)``: blocks independent of each other, and ``log_partition()``.
    noise : Noise
        Step j uses update j, a draw for each block; chain i the position i (``noise.rows(...)`` for a shard of the
        chains). Two runs need two streams: ``noise.child("first")``.
    chains : int, in [1, inf)
        Number of independent runs; the memory is that of their states.
    schedule : int or array
        Number of equal steps, or the etas themselves: strictly increasing from 0 to 1.
    keep : str or sequence of str, optional
        The blocks whose marginal energy is used, such that the others are independent given them: the even layers of a
        deep machine. The first set that the model offers (``marginal_blocks``) by default.
    progress : callable, optional
        Called after each step with (steps done, steps, kept blocks before the move, log weights so far without the
        base's log Z). It must not change them.

    Returns
    -------
    WeightedSample
        log_weights of shape (chains,), the base's log Z included, accumulated in float64; values: the kept blocks, side
        by side. Energies are computed in the model's own type. Cost per step: two products of all chains with the
        weights for a model that has a path of its own (``HasPath``), else four. Chains of binary layers walk in blocks
        of at most 64, each on a processor of its own; their results do not depend on the number of processors.

    Raises
    ------
    UserValueError
        For a schedule that is not strictly increasing from 0 to 1, blocks that cannot be kept alone, no chains.
    UserTypeError
        When the model has no blocks with a marginal energy and a bridge.

    References
    ----------
    Neal (2001), "Annealed importance sampling"; Salakhutdinov and Murray (2008), "On the quantitative analysis of deep
    belief networks"; Salakhutdinov (2008), "Learning and evaluating Boltzmann machines".
    """
    return anneal(bridge_path(model, base, etas_of(schedule), keep), noise, chains=chains, progress=progress)


def bridge_path(model: HasBridge, base: Any, etas: ArrayLike, keep: Keep | None = None) -> Path:
    """The path from a base to a model with blocks: the model's own (``HasPath``) where it has one."""
    kept = bridged_blocks(model, keep)
    if not hasattr(base, "log_partition"):
        raise UserTypeError(
            f"base must have log_partition, got a {type(base).__name__}", "base", "pass model.base(...)"
        )
    if isinstance(model, HasPath):
        return model.path(base, check_rising(etas, "schedule"), kept)
    return BridgePath(model, base, check_rising(etas, "schedule"), kept)


def normalizing_path(model: Any, etas: ArrayLike) -> WalksStates | None:
    """The model's own way to its normalizer (``HasNormalizingPath``), where it has one that is short enough."""
    if not isinstance(model, HasNormalizingPath):
        return None
    return model.normalizing_path(check_rising(etas, "schedule"))


@checked
def anneal(path: Path, noise: Noise, *, chains: int = 100, progress: Progress | None = None) -> WeightedSample:
    """Annealed importance sampling along any path; `ais` is that of models with blocks.

    Each chain starts at a draw of level 0; step j adds ``log p_(j+1)(x) - log p_j(x)`` to its log weight and then moves
    by a kernel that leaves level j + 1 invariant. No move follows the last weight.

    Parameters
    ----------
    path : Path
        From a base that is drawn from exactly to the target.
    noise : Noise
        Step j uses update j; chain i the position i.
    chains : int, in [1, inf), default 100
    progress : callable, optional
        As in `ais`.

    Returns
    -------
    WeightedSample
        Log weights in float64, the base's log Z included, and where the chains are. Cost: ``len(path) - 2`` moves per
        chain.

    References
    ----------
    Neal (2001), "Annealed importance sampling".
    """
    if chains < 1:
        raise UserValueError.must("chains", "be at least 1", chains)
    check_path(path)
    affordable(chains * row_size(path, chains, noise), "chains", "take fewer chains")
    blocks = _blocks(path, chains, noise, progress is not None)
    # One level of parallelism: blocks of chains have threads of their own, their products one each.
    with one_thread_each() if len(blocks) > 1 else nullcontext():
        if progress is None:
            ends = _run(blocks)
        else:
            for step, ends in enumerate(map(list, zip(*blocks, strict=True)), 1):
                progress(step, len(path) - 1, _joined([end[0] for end in ends]), _joined([end[1] for end in ends]))
    _, log_w, x = (_joined(list(column)) for column in zip(*ends, strict=True))
    return WeightedSample(log_w + path.log_z0, x)


def _blocks(path: Path, chains: int, noise: Noise, keeps_before: bool) -> list[Iterator[Level]]:
    """The walks of blocks of chains, the same for any number of threads, so that the results are the same too."""
    if not isinstance(path, BinaryPath) or chains <= _BLOCK:
        return [_walk(path, chains, noise, keeps_before)]
    n = -(-chains // _BLOCK)
    cuts = pairwise([chains * k // n for k in range(n + 1)])
    return [_walk(path.another(), stop - begin, noise.part(begin, stop), keeps_before) for begin, stop in cuts]  # type: ignore[attr-defined]


def _walk(path: Path, chains: int, noise: Noise, keeps_before: bool) -> Iterator[Level]:
    """After every step the state before the move, the log weights and the state after it."""
    x = path.start(chains, noise.at(0))
    log_w: Array = 0.0
    last = len(path) - 1
    climb: Any = getattr(path, "climb", None) or partial(_climb, path)  # see Climbs
    for level in range(last):
        before = x + 0 if keeps_before else x  # a climb may write over what it is given
        if level + 1 < last:
            gain, x = climb(level, x, noise.at(level + 1))
        else:
            gain = _gain(path, level, x)
        log_w = log_w + gain
        yield before, log_w, x


def _run(blocks: Sequence[Iterator[Level]]) -> list[Level]:
    """The last level of each walk, as many walks at a time as there are processors."""
    stopped = Event()

    def last(block: Iterator[Level]) -> Level:
        return deque(takewhile(lambda level: not stopped.is_set(), block), maxlen=1)[-1]

    return in_threads(last, blocks, stop=stopped)


def _joined(parts: list[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _climb(path: Path, level: int, x: Array, noise: Noise) -> tuple[Array, Array]:
    return _gain(path, level, x), path.move(level + 1, x, noise)


def _gain(path: Path, level: int, x: Array) -> Array:
    """log p_(level + 1) - log p_level; once a chain has density 0 its weight is 0 and stays so."""
    above = double(path.log_prob(level + 1, x))
    with np.errstate(invalid="ignore"):
        change = above - double(path.log_prob(level, x))
    change[above == -np.inf] = -np.inf
    return change


@checked
def geometric_path(
    log_p0: Callable[[Array], Array], log_p1: Callable[[Array], Array], eta: float
) -> Callable[[Array], Array]:
    """The density between two: log p_eta = (1 - eta) log p_0 + eta log p_1, unnormalized.

    ``d log Z_eta / d eta = E_eta[log p_1 - log p_0]``, whose integral from 0 to 1 is log Z_1 / Z_0. The path of
    marginals differs from the marginal of a path of joint densities.

    Parameters
    ----------
    log_p0, log_p1 : callable
        Log densities of the ends in nats, normalized or not.
    eta : float, in [0, 1]
        Place on the path; the ends are returned as they are, so zeros of the other end do no harm.

    Returns
    -------
    callable

    References
    ----------
    Gelman and Meng (1998), "Simulating normalizing constants: from importance sampling to bridge sampling to path
    sampling".

    Examples
    --------
    >>> geometric_path(lambda x: -x * x / 2, lambda x: -2 * x * x, 0.5)(2.0)
    -5.0
    """
    if not 0 <= eta <= 1:
        raise UserValueError(f"eta must be in [0, 1], got {eta}", "eta", "0 is the first density, 1 the second")
    if eta in (0, 1):
        return log_p1 if eta else log_p0
    return lambda x: (1 - eta) * log_p0(x) + eta * log_p1(x)


def etas_of(schedule: int | ArrayLike) -> ArrayLike:
    """The etas that a schedule stands for: those of so many equal steps, or what was given."""
    if (isinstance(schedule, Sequence) and not isinstance(schedule, str)) or np.ndim(schedule):
        return schedule
    n: Any = schedule.item() if isinstance(schedule, np.ndarray) else schedule
    return annealing_schedule(n)
