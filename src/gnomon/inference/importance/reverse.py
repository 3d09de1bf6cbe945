"""Annealing the other way: from draws of a model down to its base, which puts log Z too high where it fails."""

from __future__ import annotations

import numpy as np

from gnomon.contracts import Array, Noise, Path
from gnomon.inference.arrays import double
from gnomon.inference.importance.weights import WeightedSample
from gnomon.inference.mcmc.paths import check_path

__all__ = ["reverse_anneal"]


def reverse_anneal(path: Path, x: Array, noise: Noise) -> WeightedSample:
    r"""Weights of chains that walk from the target of a path to its base.

    Step j = n - 1, ..., 0 adds ``log p_j(x) - log p_(j+1)(x)`` to the log weight of a chain and then moves it by the
    reversal of level j's kernel. For exact draws of the target the mean weight is an unbiased estimate of 1 / Z, so
    that ``-log_mean_weight`` is on average at or ABOVE log Z, where annealing upwards is at or below it.

    Parameters
    ----------
    path : Path
        From a base with a known log Z to the target.
    x : array of shape (chains, ...)
        Draws of the target. Others, the ends of chains that have not mixed, make no bound.
    noise : Noise
        Level j uses update j.

    Returns
    -------
    WeightedSample
        Log weights, the base's log Z included: estimates of -log Z. Cost as of `anneal`.

    References
    ----------
    Grosse, Ghahramani and Adams (2015), "Sandwiching the marginal likelihood using bidirectional Monte Carlo"; Burda,
    Grosse and Salakhutdinov (2015), "Accurate and conservative estimates of MRF log-likelihood using reverse
    annealing".
    """
    check_path(path)
    log_w = np.full(len(x), -path.log_z0)
    for level in range(len(path) - 2, -1, -1):
        log_w = log_w + double(path.log_prob(level, x)) - double(path.log_prob(level + 1, x))
        if level:
            x = path.back(level, x, noise.at(level))
    return WeightedSample(log_w, x)
