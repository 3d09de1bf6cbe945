"""Task cluster: groups found without labels, judged against labels that no system has seen, or without any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from gnomon.data.dataset import Dataset
from gnomon.errors import UserError
from gnomon.evaluation.clusters import silhouette, stability
from gnomon.evaluation.score import Score
from gnomon.numeric.noise import Noise
from gnomon.tasks import maps, pictures
from gnomon.tasks.base import Task
from gnomon.tasks.clusters import criteria

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Cluster", "OneCluster", "Unlabeled", "cluster_scores"]

RESAMPLES = 200


class OneCluster:
    """All rows in one cluster."""

    title = "one cluster"
    n_parameters = 0

    def fit(self, X: Any, y: Any = None) -> OneCluster:
        """There is nothing to learn."""
        return self

    def predict(self, X: Any) -> Any:
        """Zeros."""
        return np.zeros(len(X), dtype=np.int64)


class Cluster(Task):
    """Adjusted Rand index and mutual information against labels."""

    name: ClassVar[str] = "cluster"
    title: ClassVar[str] = "Clustering"
    title_zh: ClassVar[str] = "聚类"
    primary: ClassVar[str] = "adjusted_rand"
    verbs: ClassVar[tuple[str, ...]] = ("predict", "predict_proba")
    example_data: ClassVar[str] = "iris"

    def suited(self, data: Dataset) -> Task:
        """Clusters of data without labels are judged by themselves."""
        return self if data.y is not None else Unlabeled()

    def answers(self, data: Dataset, y: Any) -> Any:
        """The labels, which the fit has not been given."""
        return data.view("labels")

    def baseline(self, system: Any, X: Any, y: Any) -> tuple[str, Any]:
        """Everything in one cluster."""
        return OneCluster.title, OneCluster()

    def scores(self, system: Any, X: Any, y: Any, train: tuple[Any, Any] | None = None) -> dict[str, Score]:
        """Of the clusters that the system puts the rows in."""
        return cluster_scores(y, system.predict(X))

    def metrics(
        self, system: Any, X: Any, y: Any, scores: Mapping[str, Score], data: Dataset | None = None
    ) -> dict[str, Score]:
        """The silhouette, and agreement with labels where the data has them."""
        clusters = system.predict(X)
        found = _silhouette(X, clusters)
        if data is None or data.y is None or data.y.dtype.kind == "f":
            return found
        return found | cluster_scores(data.view("labels"), clusters)

    def figures(self, system: Any, X: Any, y: Any, shape: tuple[int, ...] | None = None) -> dict[str, Figure]:
        """How many rows each cluster has, and where the clusters lie, in columns of spread 1."""
        clusters = system.predict(X)
        names, counts = np.unique(clusters, return_counts=True)
        plane = maps.map_of(_of_spread_1(X))
        return {
            "sizes": pictures.bars([str(name) for name in names], counts, "cluster", "rows"),
            "clusters": maps.grouped(plane, clusters),
        }


class Unlabeled(Cluster):
    """Silhouette, stability and information criteria of clusters of data without labels."""

    primary: ClassVar[str] = "silhouette"

    def answers(self, data: Dataset, y: Any) -> Any:
        """There are none."""
        return None

    def board(self, system: Any) -> str:
        """Silhouettes are distances between the columns that a system takes."""
        return f"{super().board(system)} without labels"

    def scores(self, system: Any, X: Any, y: Any, train: tuple[Any, Any] | None = None) -> dict[str, Score]:
        """Of held-out rows the silhouette; of the training rows stability, BIC and AIC.

        Distances are between columns of spread 1, so that systems that scale their columns and systems that need not
        are judged by one yardstick.
        """
        found = {"silhouette": silhouette(_of_spread_1(X), system.predict(X))}
        if train is None or not hasattr(system, "model_"):
            return found
        prepared = getattr(system, "preparation_", None)
        rows = train[0] if prepared is None else prepared.scaled(train[0])  # as its fit compared them
        return found | {"stability": stability(system, rows, repeats=3), **criteria(system, train[0])}


def _silhouette(X: Any, clusters: Any) -> dict[str, Score]:
    """The mean silhouette in columns of spread 1, where distances are known."""
    try:
        return {"silhouette": silhouette(_of_spread_1(X), clusters)}
    except UserError:
        return {}


def _of_spread_1(X: Any) -> NDArray[np.float64]:
    """Rows whose columns have standard deviation 1; constant columns as they are."""
    rows = np.asarray(X.toarray() if hasattr(X, "toarray") else X, np.float64).reshape(X.shape[0], -1)
    return rows / np.where(np.ptp(rows, axis=0) > 0, rows.std(axis=0), 1.0)


def cluster_scores(labels: Any, clusters: Any) -> dict[str, Score]:
    """Adjusted Rand index (Hubert and Arabie 1985) and normalized mutual information against labels.

    The error over examples is the standard deviation of 200 bootstrap resamples of the rows, with fixed numbers.
    """
    labels, clusters = np.asarray(labels), np.asarray(clusters)
    n = len(labels)
    rows = Noise(0, "bootstrap").integers(n, (RESAMPLES, n))
    space = f"clusters of {n} rows"
    scores = {}
    for name, function in (
        ("adjusted_rand", adjusted_rand_score),
        ("mutual_information", normalized_mutual_info_score),
    ):
        error = float(np.std([function(labels[i], clusters[i]) for i in rows], ddof=1))
        value = float(function(labels, clusters))
        scores[name] = Score(
            value, stderr=error, error=0.0, kind="exact", unit="fraction", data_space=space, name=name, n=n
        )
    return scores
