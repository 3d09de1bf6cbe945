"""Task cluster: groups found without labels, judged against labels that no system has seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from gnomon.data.dataset import Dataset
from gnomon.evaluation.score import Score
from gnomon.numeric.noise import Noise
from gnomon.tasks import pictures
from gnomon.tasks.base import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Cluster", "OneCluster", "cluster_scores"]

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

    def answers(self, data: Dataset, y: Any) -> Any:
        """The labels, which the fit has not been given."""
        return data.view("labels")

    def baseline(self, system: Any, X: Any, y: Any) -> tuple[str, Any]:
        """Everything in one cluster."""
        return OneCluster.title, OneCluster()

    def scores(self, system: Any, X: Any, y: Any, train: tuple[Any, Any] | None = None) -> dict[str, Score]:
        """Of the clusters that the system puts the rows in."""
        return cluster_scores(y, system.predict(X))

    def figures(self, system: Any, X: Any, y: Any, shape: tuple[int, ...] | None = None) -> dict[str, Figure]:
        """How many rows each cluster has."""
        names, counts = np.unique(system.predict(X), return_counts=True)
        return {"sizes": pictures.bars([str(name) for name in names], counts, "cluster", "rows")}


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
