"""Annealing the other way: from draws of a model down to its base, which puts log Z too high where it fails."""

from __future__ import annotations

from functools import partial
from typing import Any

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
    log_w, x = np.full(len(x), -path.log_z0), x + 0  # a descent may write over what it is given
    descend: Any = getattr(path, "descend", None) or partial(_descend, path)  # see Climbs
    for level in range(len(path) - 1, 1, -1):
        gain, x = descend(level, x, noise.at(level - 1))
        log_w = log_w + gain
    return WeightedSample(log_w + _gain(path, 1, x), x)


def _descend(path: Path, level: int, x: Array, noise: Noise) -> tuple[Array, Array]:
    return _gain(path, level, x), path.back(level - 1, x, noise)


def _gain(path: Path, level: int, x: Array) -> Array:
    """log p_(level - 1) - log p_level."""
    return double(path.log_prob(level - 1, x)) - double(path.log_prob(level, x))
