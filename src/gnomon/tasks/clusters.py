"""Scores of a clustering against known labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from gnomon.evaluation.score import Score
from gnomon.numeric.noise import Noise

__all__ = ["cluster_scores"]

RESAMPLES = 200


def cluster_scores(labels: Any, clusters: Any) -> dict[str, Score]:
    """Adjusted Rand index (Hubert and Arabie 1985) and normalized mutual information against labels.

    The error over examples is the spread of 200 bootstrap resamples of the rows, with fixed numbers.
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
        spread = float(np.std([function(labels[i], clusters[i]) for i in rows], ddof=1))
        value = float(function(labels, clusters))
        scores[name] = Score(
            value, stderr=spread, error=0.0, kind="exact", unit="share", data_space=space, name=name, n=n
        )
    return scores
