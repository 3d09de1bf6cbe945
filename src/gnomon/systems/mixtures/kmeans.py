"""K-means clustering by scikit-learn behind gnomon's verbs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

import numba
import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.cluster import KMeans as Library
from sklearn.metrics import euclidean_distances

from gnomon.contracts import Array, Noise, Procedure
from gnomon.data.examples import Examples
from gnomon.distributions.domains import Real
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score
from gnomon.numeric.threads import in_threads, lanes, one_thread_each
from gnomon.recipes.fields import Doc
from gnomon.system.base import System
from gnomon.systems.mixtures._base import distinct_rows
from gnomon.systems.mixtures.seeding import far_apart, squared_from
from gnomon.training.group import current as current_group
from gnomon.training.one_process import OnFirst
from gnomon.training.procedure import Problem

__all__ = ["KMeans", "KMeansModel"]

BLOCK = 1 << 17
"""Numbers of a block of rows, and of their distances from the centers: what a core's cache holds."""


class KMeansModel:
    """k centers; a row belongs to the nearest.

    Parameters
    ----------
    centers : array of shape (k, d)
    """

    def __init__(self, centers: Array) -> None:
        self.centers = np.array(centers)

    @property
    def n_parameters(self) -> int:
        """Free parameters: k d."""
        return int(self.centers.size)

    def state(self) -> dict[str, Array]:
        """The centers."""
        return {"centers": self.centers}

    def load(self, state: Mapping[str, Array]) -> None:
        """Take the centers over."""
        self.centers = np.array(state["centers"])

    def nearest(self, x: Array) -> Array:
        """Index of the nearest center, the first of equals, shape (n,)."""
        middle = self.centers.mean(axis=0, dtype=np.float64)  # differences keep their digits far from the origin
        centers = self.centers - middle
        norms, factors = np.einsum("ij,ij->i", centers, centers), np.ascontiguousarray(-2 * centers.T)
        block, out = max(1, BLOCK // max(centers.shape)), np.empty(len(x), np.int64)

        def label(lane: slice) -> None:
            for i in range(lane.start, lane.stop, block):
                near = slice(i, min(i + block, lane.stop))
                _least(np.matmul(x[near] - middle, factors), norms, out[near])

        with one_thread_each():
            in_threads(label, lanes(len(x)), size=x.size * len(centers))
        return out

    def distances(self, x: Array) -> Array:
        """Distance from every center, shape (n, k)."""
        return euclidean_distances(x, self.centers)

    def squared_distance(self, x: Array) -> Array:
        """Squared distance from the nearest center in float64, shape (n,)."""
        return squared_from(x, self.centers, self.nearest(x))


def _cluster(
    problem: Problem, examples: Examples, n_clusters: int, n_init: int, options: Mapping[str, Any]
) -> dict[str, float]:
    """scikit-learn's fit from each start; the centers with the smallest inertia, as the model holds them, are kept.

    A call per start lets each draw from an address of its own. One call of ten starts saves 7 ms on 300 x 4 rows (8 of
    16), and nothing from 2,000 x 10 on (54 and 55 ms; 1.6 and 1.5 s on 20,000 x 20).
    """
    X, weight = examples.X, examples.weight.astype(np.float64)
    fits = (_from(problem.noise.child("seeds").at(i), X, weight, n_clusters, options) for i in range(n_init))
    ends = ((float(np.matmul(weight, squared_from(X, end, KMeansModel(end).nearest(X)))), end) for end in fits)
    inertia, problem.model.centers = min(ends, key=lambda end: end[0])
    return {"inertia": inertia}


def _from(noise: Noise, X: Array, weight: Array, n_clusters: int, options: Mapping[str, Any]) -> Array:
    """Centers of one start; scikit-learn asks for its seeds."""

    def seeds(X: Array, n_clusters: int, random_state: Any) -> Array:
        return X[far_apart(X.astype(np.float64, copy=False), weight, n_clusters, noise)]

    library = Library(n_clusters, init=seeds, n_init=1, random_state=0, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fewer distinct rows than clusters the system itself tells
        library.fit(X, sample_weight=weight.astype(X.dtype, copy=False))
    return _means(X, weight, library.labels_, library.cluster_centers_)


def _means(X: Array, weight: Array, labels: Array, centers: Array) -> Array:
    """Mean of every cluster; of one without rows the center as it is.

    scikit-learn's threads add up in the order in which they end, so that the last bits of its centers may change from
    fit to fit; its clusters do not.
    """
    sums, rows = np.zeros(centers.shape), np.zeros(len(centers))
    _add_up(X, weight, labels, sums, rows)
    return np.where(rows[:, None] > 0, sums / np.where(rows > 0, rows, 1.0)[:, None], centers).astype(X.dtype)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _least(scores: Array, norms: Array, out: Array) -> None:
    """out[i] = argmin of scores[i] + norms, the first of equals."""
    for i in range(len(scores)):
        best = scores[i, 0] + norms[0]
        out[i] = 0
        for c in range(1, len(norms)):
            score = scores[i, c] + norms[c]
            if score < best:
                best, out[i] = score, c


@numba.njit(cache=True, error_model="numpy")
def _add_up(X: Array, weight: Array, labels: Array, sums: Array, rows: Array) -> None:
    """Weighted sums of the rows of each label, (k, d), and their weights, (k,)."""
    for i in range(len(X)):
        rows[labels[i]] += weight[i]
        for j in range(X.shape[1]):
            sums[labels[i], j] += weight[i] * X[i, j]


class KMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, System):
    r"""Clusters around k centers with the smallest sum of squared distances: scikit-learn's ``KMeans``.

    The limit of EM for a mixture of normal distributions with one covariance :math:`\epsilon I` as
    :math:`\epsilon \to 0`. Columns count in the units they are given in: bring them to one scale first.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
        Means of the clusters.
    labels_ : array of shape (n,)
        Cluster of each training row.
    inertia_ : float
        Weighted sum of squared distances of the training rows from the nearest center.

    Notes
    -----
    Cost O(n k d) per iteration. The fit runs on the first process alone. Sources: Lloyd (1982); Arthur and
    Vassilvitskii (2007).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [8.0], [9.0]])
    >>> sorted(KMeans(n_clusters=2, random_state=0).fit(X).cluster_centers_[:, 0].tolist())
    [0.5, 8.5]
    """

    name: ClassVar[str] = "kmeans"
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"n_init": {"n_clusters": 8, "max_iter": 1}}
    tasks: ClassVar[tuple[str, ...]] = ("cluster",)
    model_class: ClassVar[type] = KMeansModel
    domain = Real(largest=1e100)
    primary: ClassVar[str] = "squared_distance"
    scale_dependent: ClassVar[bool] = True

    n_clusters: Annotated[int, "[1, inf)", Doc("Clusters, at most the number of rows.")] = 8
    n_init: Annotated[int, "[1, inf)", Doc("Starts (k-means++); the one with the smallest inertia is kept.")] = 10
    max_iter: Annotated[int, "[1, inf)", Doc("Iterations per start at most.")] = 300
    tol: Annotated[
        float, "[0, inf)", Doc("End when the centers move by no more, in units of the columns' mean variance.")
    ] = 1e-4

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        examples = super().ingest(X, None, sample_weight)
        n, k = len(examples.X), self.n_clusters
        if n < k:
            raise UserValueError(f"n_clusters must be at most n_samples={n}, got n_clusters={k}", "n_clusters")
        counted = examples.weight > 0
        distinct = distinct_rows(examples.X if counted.all() else examples.X[counted], k)
        if distinct < k and current_group().rank == 0:
            warnings.warn(
                f"{k} clusters, {distinct} distinct rows: some clusters stay empty; use fewer",
                UserWarning,
                stacklevel=3,
            )  # fmt: skip
        return examples

    def make(self, n_features: int, dtype: str) -> KMeansModel:
        return KMeansModel(np.zeros((self.n_clusters, n_features), dtype))

    def procedure(self, examples: Any) -> Procedure:
        options = {name: getattr(self, name) for name in ("max_iter", "tol")}
        return OnFirst(lambda problem: _cluster(problem, examples, self.n_clusters, self.n_init, options))

    def fit(self, X: Any, y: Any = None, **options: Any) -> Self:
        """Fit to rows; see `System.fit`."""
        super().fit(X, None, **options)
        self.labels_ = self.predict(X)
        return self

    @property
    def cluster_centers_(self) -> Array:
        """Means of the clusters, in the columns' own units."""
        return self._in_units(self.model_.centers)

    @property
    def inertia_(self) -> float:
        """Weighted sum of squared distances of the training rows from the nearest center."""
        return float(self.history_["inertia"][-1])

    @property
    def _n_features_out(self) -> int:
        return len(self.model_.centers)

    def predict(self, X: Any) -> Array:
        """The cluster of each row."""
        rows = self._rows(X)
        return self.model_.nearest(rows)

    def transform(self, X: Any) -> Array:
        """Distance from every center, shape (n, n_clusters)."""
        rows = self._rows(X)
        return self.model_.distances(rows)

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Mean squared distance from the nearest center, lower is better."""
        rows = self._rows(X)
        score = Score.from_pointwise(
            self.model_.squared_distance(rows), name=self.primary, unit="squared units",
            data_space=f"R^{rows.shape[1]}", higher_is_better=False,
        )  # fmt: skip
        return {self.primary: score}

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the mean squared distance, so that higher is better (scikit-learn's is the sum)."""
        return -float(self.evaluate(X)[self.primary].value)
