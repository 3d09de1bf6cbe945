"""Bridge sampling where draws come from Markov chains: the error counts effective draws."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from gnomon.contracts import Array, Noise
from gnomon.errors import UserValueError
from gnomon.inference.importance.bridge import Bridge, LogRatio, estimate_log_ratio
from gnomon.inference.importance.weights import WeightedSample
from gnomon.inference.mcmc.diagnostics import ess, r_hat
from gnomon.inference.mcmc.paths import Path

__all__ = ["chain_ratio", "target_chain"]

_DISAGREE = 1.05


def chain_ratio(
    x0: Array,
    x1: Array,
    log_p0: Callable[[Array], Array],
    log_p1: Callable[[Array], Array],
    bridge: Bridge = "optimal",
) -> LogRatio:
    """Bridge sampling from chains: the error counts effective draws of the terms that are averaged.

    Parameters
    ----------
    x0, x1 : array of shape (n, d) of independent draws, or (chains, n, d) of a Markov chain
    log_p0, log_p1, bridge
        See `gnomon.inference.importance.bridge.estimate_log_ratio`.
    """
    flat0, flat1 = (x.reshape((-1, *x.shape[2:])) if x.ndim > 2 else x for x in (x0, x1))
    once = estimate_log_ratio(flat0, flat1, log_p0, log_p1, bridge)
    sizes = [_effective(x, side) for x, side in ((x0, once.side0), (x1, once.side1))]
    if all(size is None for size in sizes):
        return once
    return estimate_log_ratio(flat0, flat1, log_p0, log_p1, bridge, ess=(sizes[0], sizes[1]), start=once.log_r_)


def target_chain(path: Path, noise: Noise, chains: int, draws: int, burn_in: int) -> Array:
    """Chains on the last level of a path, begun at draws of the first: (chains, draws, d)."""
    if chains < 2 or draws < 8 or burn_in < 0:
        what = f"{chains} chains of {draws} draws after {burn_in}"
        raise UserValueError(what, "chains, draws, burn_in", "use at least 2, 8 and 0: the error needs several chains")
    x, kept, level = path.start(chains, noise.child("start")), [], len(path) - 1
    for t in range(burn_in + draws):
        x = path.move(level, x, noise.child("move").at(t))
        if t >= burn_in:
            kept.append(x)
    if isinstance(x, np.ndarray):
        return np.stack(kept, axis=1)
    import torch

    return torch.stack(kept, dim=1)


def _effective(x: Array, side: WeightedSample) -> float | None:
    """Effective number of draws of a bridge's term; None for independent draws."""
    if x.ndim < 3:
        return None
    terms = np.exp(side.log_weights - side.log_weights.max()).reshape(x.shape[:2])
    found, disagree = float(ess(terms, "mean")), float(r_hat(terms))
    if disagree > _DISAGREE:
        warnings.warn(f"the chains have not mixed (R-hat {disagree:.2f}): burn in longer", stacklevel=4)
    return float(terms.size) if np.isnan(found) else min(found, float(terms.size))
