"""Where mixtures of real rows begin: rows far from each other (k-means++), and the k-means fit from there."""

from __future__ import annotations

import warnings
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Noise
from gnomon.numeric.threads import controller, in_threads, lanes
from gnomon.recipes.imports import random_kept

__all__ = ["clusters", "far_apart", "representative", "squared_from"]

Floats = NDArray[np.float64]


def representative(weight: Floats, most: int, noise: Noise) -> NDArray[np.int64] | None:
    """Rows for a fit to start from, drawn by weight with replacement; None where all n <= `most` rows will do."""
    if len(weight) <= most:
        return None
    edges = np.cumsum(weight)
    u = noise.uniform((most, 1), like=edges)[:, 0] * edges[-1]
    return np.minimum(np.searchsorted(edges, u, side="right"), len(weight) - 1)


def far_apart(x: Floats, weight: Floats, k: int, noise: Noise) -> NDArray[np.int64]:
    """k rows, each drawn with probability proportional to weight times squared distance from those before it.

    Of 2 + log k candidates the one is kept that leaves the smallest sum of squared distances (Arthur and Vassilvitskii
    2007, and its section 7). With fewer distinct rows than k, rows repeat. The choice does not depend on the order of
    the rows, but for rounding, and a row of weight 2 is two rows.

    Parameters
    ----------
    x : array of shape (n, d)
    weight : array of shape (n,)
    k : int
    noise : Noise

    Notes
    -----
    Cost O(n d k log k).
    """
    trials = 2 + int(np.log(k))
    x = np.ascontiguousarray(x)
    direction = noise.child("direction").normal((x.shape[1],), like=x)
    order = np.argsort(np.matmul(x, direction), kind="stable")

    def draw(mass: Floats, n: int, number: int) -> NDArray[np.int64]:
        edges = np.cumsum(mass[order])
        u = noise.uniform((1, n), number, like=edges)[0] * edges[-1]
        return order[np.minimum(np.searchsorted(edges, u, side="right"), len(mass) - 1)]

    chosen = draw(weight, 1, 0)
    nearest = squared_from(x, x[chosen], np.zeros(len(x), np.int64))
    gaps = np.empty((trials, len(x)))
    for c in range(1, k):
        mass = weight * nearest
        candidates = draw(mass if mass.any() else weight, trials, c)
        _measure(x, x[candidates], nearest, gaps)
        best = int(np.argmin(np.matmul(gaps, weight)))
        chosen, nearest = np.append(chosen, candidates[best]), gaps[best].copy()
    return chosen


@numba.njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def squared_from(x: Array, centers: Array, labels: NDArray[np.int64]) -> Floats:
    """Squared distance of each row from the center of its label, in float64, shape (n,)."""
    out = np.empty(len(x))
    for i in range(len(x)):
        total = 0.0
        for j in range(x.shape[1]):
            gap = np.float64(x[i, j]) - np.float64(centers[labels[i], j])
            total += gap * gap
        out[i] = total
    return out


def _measure(x: Floats, candidates: Floats, nearest: Floats, gaps: Floats) -> None:
    """`_nearer` of all rows, in threads."""

    def part(lane: slice) -> None:
        _nearer(x[lane], candidates, nearest[lane], gaps[:, lane])

    in_threads(part, lanes(len(x)), size=x.size)


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _nearer(x: Floats, candidates: Floats, nearest: Floats, gaps: Floats) -> None:
    """Squared distance of each row from each candidate or from what is nearest already, into gaps (trials, n)."""
    for i in range(len(x)):
        for t in range(len(candidates)):
            total = 0.0
            for j in range(x.shape[1]):
                gap = x[i, j] - candidates[t, j]
                total += gap * gap
            gaps[t, i] = min(total, nearest[i])


def clusters(x: Floats, weight: Floats, seeds: Floats, sweeps: int = 20) -> NDArray[np.int64]:
    """Cluster of each row after some sweeps of k-means from these centers.

    On one thread: with several, scikit-learn adds up in the order in which they end, and a fit would not repeat.
    """
    with random_kept():
        from sklearn.cluster import KMeans
        from sklearn.metrics import pairwise_distances_argmin

    if len(x) < len(seeds):
        return np.asarray(pairwise_distances_argmin(x, seeds), dtype=np.int64)
    with controller().limit(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fewer distinct rows than clusters the mixture itself tells
        found: Any = KMeans(len(seeds), init=seeds, n_init=1, max_iter=sweeps).fit(x, sample_weight=weight)
    return np.asarray(found.labels_, dtype=np.int64)
