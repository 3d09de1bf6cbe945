"""Clusters judged without labels: silhouettes, and whether other halves of the rows lead to the same clusters."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import euclidean_distances

from gnomon.data.class_vectors import one_hot
from gnomon.errors import UserValueError
from gnomon.evaluation._inputs import Array, Floats
from gnomon.evaluation.score import Score
from gnomon.numeric.noise import Noise

__all__ = ["silhouette", "silhouettes", "stability"]

MOST = 2000
"""Rows whose silhouette is taken, drawn at random where there are more."""
BLOCK = 1 << 22
"""Distances held at a time."""


def silhouettes(X: Any, labels: Any, rows: Any = None) -> Floats:
    """How much nearer each row is to its own cluster than to the next one, in [-1, 1].

    With a the mean distance from the other rows of its cluster and b the smallest mean distance from the rows of
    another, (b - a) / max(a, b); 0 for a cluster of one row.

    Parameters
    ----------
    X : array of shape (n, d)
        Finite numbers; distances are Euclidean, in the units of the columns.
    labels : array of shape (n,)
        At least two clusters.
    rows : int array of shape (m,), optional
        Rows that are asked about, against all; all where left out.

    Raises
    ------
    UserValueError
        One cluster alone, missing values.

    Notes
    -----
    Cost O(m n d). Source: Rousseeuw (1987).

    Examples
    --------
    >>> silhouettes([[0.0], [1.0], [10.0], [11.0]], [0, 0, 1, 1]).round(3).tolist()
    [0.905, 0.895, 0.895, 0.905]
    """
    X = np.asarray(X, np.float64)
    X = X.reshape(len(X), -1)
    if not np.isfinite(X).all():
        raise UserValueError("X must be finite for silhouettes", "X", "fill in what is missing first")
    names, codes = np.unique(np.asarray(labels), return_inverse=True)
    if len(names) < 2:
        raise UserValueError("labels must name at least 2 clusters, got 1", "labels")
    X = X - X.mean(axis=0)  # distances keep their digits far from the origin
    chosen = np.arange(len(X)) if rows is None else np.asarray(rows)
    sizes, member = np.bincount(codes), one_hot(codes, len(names), dtype=np.float64)
    found = np.zeros(len(chosen))
    step = max(1, BLOCK // len(X))
    for begin in range(0, len(chosen), step):
        some = chosen[begin : begin + step]
        distances = euclidean_distances(X[some], X)
        distances[np.arange(len(some)), some] = 0.0  # rounding aside
        found[begin : begin + step] = _of_block(np.matmul(distances, member), codes[some], sizes)
    return found


def _of_block(sums: Floats, own: Array, sizes: Array) -> Floats:
    """Silhouettes from the sums of distances to every cluster."""
    place = np.arange(len(own))
    others = sizes[own] - 1
    inside = sums[place, own] / np.maximum(others, 1)
    means = sums / sizes
    means[place, own] = np.inf
    outside = means.min(axis=1)
    largest = np.maximum(inside, outside)
    value = np.divide(outside - inside, largest, out=np.zeros_like(largest), where=largest > 0)
    return np.where(others > 0, value, 0.0)


def silhouette(X: Any, labels: Any, *, most: int = MOST, seed: int = 0) -> Score:
    """The mean silhouette of the rows, see `silhouettes`; of many rows an estimate from some at random.

    One cluster alone has 0 by convention, so that it can be ranked with others.

    Parameters
    ----------
    X : array of shape (n, d)
    labels : array of shape (n,)
    most : int, default 2000
        Rows that are asked about at most.
    seed : int, default 0

    Returns
    -------
    Score
        `error` is that of the sample of rows.

    Examples
    --------
    >>> round(silhouette([[0.0], [1.0], [10.0], [11.0]], [0, 0, 1, 1]).value, 3)
    0.9
    """
    n, labels = len(X), np.asarray(labels)
    facts: dict[str, Any] = {"unit": "coefficient", "data_space": f"clusters of {n} rows", "name": "silhouette"}
    if len(np.unique(labels)) < 2:
        return Score(0.0, n=n, note="one cluster: 0 by convention", **facts)
    if n <= most:
        return Score.from_pointwise(silhouettes(X, labels), **facts)
    rows = np.sort(Noise(seed, "silhouette").order(n)[:most])
    score = Score.from_pointwise(silhouettes(X, labels, rows), rows=rows, kind="estimate", **facts)
    error, share = score.stderr, most / n
    return replace(
        score, stderr=error * math.sqrt(share), error=error * math.sqrt(1 - share), note=f"of {most} rows of {n}"
    )


def stability(system: Any, X: Any, *, repeats: int = 5, seed: int = 0) -> Score:
    """Whether other rows lead to the same clusters: the adjusted Rand index of fits to two halves, on all rows.

    Near 1 where the number of clusters suits the data; high also for a number that is too small (2 far groups of
    several), so read it beside the silhouette.

    Parameters
    ----------
    system : System with ``predict``
        Cloned, never changed.
    X : array of shape (n, d), n >= 4
    repeats : int in [2, inf), default 5
        Pairs of halves, drawn at random.
    seed : int, default 0

    Returns
    -------
    Score
        An estimate; `error` is that of the mean over the pairs.

    Notes
    -----
    Cost: twice `repeats` fits to half of the rows. Source: Ben-Hur, Elisseeff and Guyon (2002).

    Examples
    --------
    >>> import gnomon
    >>> X = np.repeat([[0.0], [9.0]], 20, axis=0) + np.arange(40)[:, None] % 5
    >>> stability(gnomon.KMeans(n_clusters=2, random_state=0), X).value
    1.0
    """
    X = np.asarray(X)
    if len(X) < 4:
        raise UserValueError(f"X must have at least 4 rows, got {len(X)}", "X")
    if repeats < 2:
        raise UserValueError.must("repeats", "be at least 2", repeats)
    values = []
    for i in range(repeats):
        order = Noise(seed, "stability").child(str(i)).order(len(X))
        halves = order[: len(X) // 2], order[len(X) // 2 :]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of few rows the fit to all tells
            first, second = (clone(system).fit(X[np.sort(half)]).predict(X) for half in halves)
        values.append(adjusted_rand_score(first, second))
    return Score(
        float(np.mean(values)), 0.0, float(np.std(values, ddof=1)) / math.sqrt(repeats), "estimate", "fraction",
        f"clusters of {len(X)} rows", "stability", n=len(X),
    )  # fmt: skip
