"""Means and variances of the columns of the data that a fit goes over."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.contracts import Array, Group
from gnomon.inference.arrays import to_numpy
from gnomon.numeric.sparse import in_full

__all__ = ["column_moments"]


def column_moments(batches: Any, group: Group) -> tuple[Array, Array]:
    """Weighted mean and variance of the columns, over all processes.

    Parameters
    ----------
    batches : Batches
        Gone over once, a batch at a time.
    group : Group

    Returns
    -------
    mean, variance : float64 arrays of shape (n_columns,)
    """
    total, first, second = 0.0, np.zeros(1), np.zeros(1)
    for batch in batches.epoch(0):
        X, weight = to_numpy(in_full(batch.data["X"])), to_numpy(batch.weight)
        total, first, second = total + float(weight.sum()), first + weight @ X, second + weight @ (X * X)
    total, first, second = group.sum((total, first, second))
    mean = first / total
    return mean, np.maximum(second / total - mean * mean, 0.0)
