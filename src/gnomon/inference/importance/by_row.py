"""Normalizers of a machine under many conditions at once, each by annealed importance sampling of its own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array, Noise
from gnomon.inference.importance.ais import anneal, bridge_path, etas_of

__all__ = ["log_partitions_by_annealing"]

AT_ONCE = 20_000
"""Chains that walk together."""

Floats = NDArray[np.float64]


def log_partitions_by_annealing(
    machine: Any, condition: Array, noise: Noise, *, chains: int = 20, schedule: int | ArrayLike = 500, mean: Any = None
) -> tuple[Floats, Floats]:
    """Estimates of log Z given each row of a condition, and their standard errors, in nats.

    As `gnomon.inference.importance.ais.ais`, each chain under the condition of its row: estimates of Z are unbiased, of
    log Z too low on average.

    Parameters
    ----------
    machine : ConditionedMachine
        ``machine.given(rows)`` has a base, a bridge and blocks.
    condition : array of shape (n, k)
    noise : Noise
        Rows that walk together share a stream, named by the first of them.
    chains : int, in [2, inf), default 20
        For each row.
    schedule : int or array, default 500
        Steps, or the etas from 0 to 1.
    mean : array, optional
        Means of the observed units under the base.

    Returns
    -------
    log_z, stderr : float64 arrays of shape (n,)
    """
    step = max(1, AT_ONCE // chains)
    parts = [np.empty((2, 0))]
    for start in range(0, len(condition), step):
        rows = condition[start : start + step]
        given = machine.given(rows[np.repeat(np.arange(len(rows)), chains)])
        path = bridge_path(given, given.base(mean), etas_of(schedule))
        found = anneal(path, noise.child(str(start)), chains=len(rows) * chains).log_weights
        parts.append(_means(found.reshape(len(rows), chains)))
    log_z, stderr = np.concatenate(parts, axis=1)
    return log_z, stderr


def _means(log_w: Floats) -> Floats:
    """The log of the mean weight of each row, and its standard error to first order."""
    top = log_w.max(1, keepdims=True)
    w = np.exp(log_w - top)
    mean = w.mean(1)
    return np.stack([top[:, 0] + np.log(mean), w.std(1, ddof=1) / mean / math.sqrt(w.shape[1])])
