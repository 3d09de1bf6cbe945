"""Linked importance sampling: a ladder of distributions whose neighbors are joined by bridges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Noise, Path
from gnomon.errors import UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.inference.importance.weights import WeightedSample
from gnomon.inference.mcmc.kernel import select
from gnomon.inference.mcmc.paths import check_path, row_size
from gnomon.numeric.given import affordable, answers, checked, doable
from gnomon.numeric.tensors import is_tensor

__all__ = ["Join", "linked"]

Floats = NDArray[np.float64]
Join = Callable[[Floats, Floats], Floats]
"""(log p_j, log p_(j+1)) -> log of the bridge between the two, state by state."""


@checked
def linked(
    path: Path,
    noise: Noise,
    *,
    runs: int = 100,
    chain_length: int = 20,
    bridge: Literal["geometric"] | Join = "geometric",
) -> WeightedSample:
    r"""Estimate of a normalizer by linked importance sampling along a path.

    In each run level j holds a chain of K + 1 states, made from one linked state at a uniformly drawn place by moves
    onward and reversed moves backward. A state of the chain is drawn with weight :math:`p_{j*}(x) / p_j(x)`, the bridge
    to the next level over the level itself, and links to the next. The run estimates

    .. math:: \frac{Z_n}{Z_0} = \prod_j \frac{\mathrm{mean}_k\, p_{j*}(x_{jk}) / p_j(x_{jk})}
                                             {\mathrm{mean}_k\, p_{j*}(x_{j+1,k}) / p_{j+1}(x_{j+1,k})}

    without bias, however badly the chains mix: the place of the link is uniform and the backward moves are those of the
    reversed kernel. Where neighbors overlap little it needs fewer levels than annealed importance sampling; chains of
    one state are simple importance sampling.

    Parameters
    ----------
    path : Path
        From a base that is drawn from exactly to the target.
    noise : Noise
        Shared noise.
    runs : int, in [1, inf), default 100
        Independent runs; all move at once.
    chain_length : int, in [1, inf), default 20
        States of a chain, K + 1.
    bridge : "geometric" or callable, default "geometric"
        :math:`p_{j*} = (p_j p_{j+1})^{1/2}`, or the log of another density from the logs of the two.

    Returns
    -------
    WeightedSample
        Log of each run's estimate, the base's log Z included, in float64; values: the last state of the last level's
        chain, with these weights draws of the target. Cost: ``runs * len(path) * (chain_length - 1)`` moves; memory
        that of ``runs * chain_length`` states.

    Raises
    ------
    UserValueError
        No runs, no states, an unknown bridge.

    References
    ----------
    Neal (2005), "Estimating ratios of normalizing constants using linked importance sampling".

    Examples
    --------
    >>> from gnomon.inference.mcmc.metropolis import MetropolisHastings, RandomWalk
    >>> from gnomon.inference.mcmc.paths import TemperedPath
    >>> from gnomon.inference.importance.normalizer import as_proposal
    >>> from gnomon.distributions.real import Normal
    >>> from gnomon.numeric.noise import Noise
    >>> base, kernel = as_proposal(Normal(0.0, 2.0)), MetropolisHastings(RandomWalk(1.5))
    >>> path = TemperedPath(lambda x: -0.5 * (x * x).sum(-1), base, [0.0, 0.5, 1.0], kernel)
    >>> abs(linked(path, Noise(0, "doc"), runs=200).log_mean_weight - 0.918939) < 0.1
    True
    """
    if runs < 1 or chain_length < 1:
        raise UserValueError(
            f"runs and chain_length must be at least 1, got {runs} and {chain_length}", "runs, chain_length"
        )
    check_path(path)
    doable(len(path) * chain_length, "chain_length")
    states = runs * chain_length
    affordable(states * row_size(path, states, noise), "runs, chain_length", "take fewer")
    join = _join(bridge)
    link = path.start(runs, noise.child("start"))
    log_w, last = np.zeros(runs), len(path) - 1
    for level in range(last + 1):
        chain = _chain(path, level, link, chain_length, noise)
        flat = chain.reshape((-1, *chain.shape[2:]))
        own = _log_prob(path, level, flat, runs)
        gone = np.isneginf(log_w)  # runs that the target cannot be reached from: their weight stays 0
        with np.errstate(invalid="ignore"):
            if level > 0:
                log_w -= _log_mean(join(_log_prob(path, level - 1, flat, runs), own) - own)
            if level < last:
                gain = join(own, _log_prob(path, level + 1, flat, runs)) - own
                log_w += _log_mean(gain)
                link = chain[np.arange(runs), _pick(gain, noise.child("pick").at(level))]
        log_w[gone] = -np.inf
    return WeightedSample(log_w + path.log_z0, chain[:, -1])


def _join(bridge: str | Join) -> Join:
    if callable(bridge):
        return lambda lower, upper: answers(bridge(lower, upper), lower.shape, "bridge")
    if bridge != "geometric":
        raise UserValueError.must("bridge", "be geometric or a function of two log densities", bridge)
    return lambda lower, upper: 0.5 * (lower + upper)


def _chain(path: Path, level: int, link: Array, length: int, noise: Noise) -> Array:
    """A chain per run, (runs, length, ...), around the link at a uniform place; each step moves every run once.

    A run first goes onward to the end of its chain, then from the link backward to the beginning.
    """
    runs = len(link)
    index = (length * noise.child("place").at(level).uniform((runs,), like=np.empty(0))).astype(np.int64)
    onward = length - 1 - index
    made = [link]
    for t in range(1, length):
        turned = onward + 1 == t
        now = select(_mask(turned, link), link, made[-1])
        stream = noise.child("move").at(level * (length - 1) + t - 1)
        made.append(_step(path, level, now, onward >= t, stream))
    k = np.arange(length)
    order = np.where(k >= index[:, None], k - index[:, None], length - 1 - k)
    return _stack(made)[np.arange(runs)[:, None], order]


def _step(path: Path, level: int, x: Array, forth: NDArray[np.bool_], noise: Noise) -> Array:
    """Rows moved by the level's kernel where `forth` is set, by its reversal elsewhere."""
    new = x + 0
    for rows, move in ((np.flatnonzero(forth), path.move), (np.flatnonzero(~forth), path.back)):
        if rows.size:
            new[rows] = move(level, x[rows], noise.take(rows))
    return new


def _log_prob(path: Path, level: int, flat: Array, runs: int) -> Floats:
    return to_numpy(path.log_prob(level, flat)).reshape(runs, -1)


def _log_mean(x: Floats) -> Floats:
    """Log of the mean of exp(x) over each row."""
    top = x.max(axis=1)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.where(np.isnan(top), top, safe + np.log(np.exp(x - safe[:, None]).mean(axis=1)))


def _pick(log_w: Floats, noise: Noise) -> NDArray[np.int64]:
    """An index per row with probability proportional to exp(log_w); 0 where there is no choice."""
    top = log_w.max(axis=1, keepdims=True)
    total = np.cumsum(np.exp(log_w - np.where(np.isfinite(top), top, 0.0)), axis=1)
    point = noise.uniform((len(log_w),), like=np.empty(0)) * total[:, -1]
    return np.minimum((total <= point[:, None]).sum(axis=1), log_w.shape[1] - 1) * (total[:, -1] > 0)


def _mask(flags: NDArray[np.bool_], like: Array) -> Array:
    if not is_tensor(like):
        return flags
    import torch

    return torch.as_tensor(flags, device=like.device)


def _stack(parts: list[Array]) -> Array:
    if not is_tensor(parts[0]):
        return np.stack(parts, axis=1)
    import torch

    return torch.stack(parts, dim=1)
