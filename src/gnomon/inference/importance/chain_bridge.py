"""Bridge sampling where draws come from Markov chains: the error counts effective draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Noise, Path
from gnomon.errors import UserValueError
from gnomon.inference.importance.bridge import Bridge, LogRatio, estimate_log_ratio
from gnomon.inference.importance.weights import WeightedSample
from gnomon.inference.mcmc.diagnostics import ess, r_hat
from gnomon.inference.mcmc.paths import row_size
from gnomon.numeric.given import affordable, checked, doable

__all__ = ["chain_ratio", "target_chain"]

Floats = NDArray[np.float64]

_DISAGREE = 1.1


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
    terms = [_terms(x, side) for x, side in ((x0, once.side0), (x1, once.side1))]
    ess0, ess1 = (_effective(one) for one in terms)
    estimate = estimate_log_ratio(flat0, flat1, log_p0, log_p1, bridge, ess=(ess0, ess1), start=once.log_r_)
    notices = [estimate.notice, *(_unmixed(one) for one in terms)]
    return replace(estimate, notice="; ".join(filter(None, notices)))


@checked
def target_chain(path: Path, noise: Noise, chains: int, draws: int, burn_in: int) -> Array:
    """Chains on the last level of a path, begun at draws of the first: (chains, draws, d)."""
    if chains < 2 or draws < 8 or burn_in < 0:
        what = f"chains, draws and burn_in must be at least 2, 8 and 0, got {chains}, {draws} and {burn_in}"
        raise UserValueError(what, "chains, draws, burn_in", "the error needs several chains")
    doable(burn_in + draws, "burn_in, draws")
    affordable(chains * draws * row_size(path, chains * draws, noise), "chains, draws", "take fewer")
    x, kept, level = path.start(chains, noise.child("start")), [], len(path) - 1
    for t in range(burn_in + draws):
        x = path.move(level, x, noise.child("move").at(t))
        if t >= burn_in:
            kept.append(x)
    if isinstance(x, np.ndarray):
        return np.stack(kept, axis=1)
    import torch

    return torch.stack(kept, dim=1)


def _terms(x: Array, side: WeightedSample) -> Floats:
    """The averaged terms up to a factor, a row per chain; independent draws have no rows."""
    terms = np.exp(side.log_weights - side.log_weights.max())
    return terms.reshape(x.shape[:2]) if x.ndim > 2 else terms


def _effective(terms: Floats) -> float | None:
    """Effective number of draws behind the mean of the terms; None for independent draws."""
    if terms.ndim == 1:
        return None
    effective = float(ess(terms, "mean"))
    return float(terms.size) if np.isnan(effective) else min(effective, float(terms.size))


def _unmixed(terms: Floats) -> str:
    disagree = float(r_hat(terms)) if terms.ndim > 1 else 1.0
    return (
        f"the chains have not mixed (R-hat {disagree:.2f}): burn in longer, draw more" if disagree > _DISAGREE else ""
    )
