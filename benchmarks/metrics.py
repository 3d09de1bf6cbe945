"""Metrics on many rows: ours beside scikit-learn's, in one run.

    python benchmarks/metrics.py [ROWS]

Prints the best of three for each; the last column is scikit-learn's time over ours. Ours give the standard error too.
"""

import sys
import time

import numpy as np
from sklearn import metrics as peer
from sklearn.calibration import calibration_curve

from gnomon import evaluation as ours

REPEATS = 3


def jobs(n):
    """Name -> (ours, scikit-learn's or None)."""
    random = np.random.default_rng(0)
    y = random.integers(0, 10, size=n)
    predicted = np.where(random.random(n) < 0.8, y, random.integers(0, 10, size=n))
    weight = random.random(n)
    event = random.random(n) < 0.1
    score = random.normal(size=n) + event
    single = score.astype(np.float32)
    p = 1 / (1 + np.exp(-score))
    return {
        "accuracy": (lambda: ours.accuracy(y, predicted), lambda: peer.accuracy_score(y, predicted)),
        "accuracy, weighted": (
            lambda: ours.accuracy(y, predicted, sample_weight=weight),
            lambda: peer.accuracy_score(y, predicted, sample_weight=weight),
        ),
        "macro F1": (
            lambda: ours.f_score(y, predicted, average="macro"),
            lambda: peer.f1_score(y, predicted, average="macro"),
        ),
        "confusion matrix": (
            lambda: ours.confusion_matrix(y, predicted), lambda: peer.confusion_matrix(y, predicted),
        ),
        "precision-recall curve": (
            lambda: ours.pr_curve(event, score), lambda: peer.precision_recall_curve(event, score),
        ),
        "average precision": (
            lambda: ours.average_precision(event, score), lambda: peer.average_precision_score(event, score),
        ),
        "average precision, float32": (
            lambda: ours.average_precision(event, single), lambda: peer.average_precision_score(event, single),
        ),
        "coverage at accuracy": (lambda: ours.coverage_at_accuracy(y, predicted, p, 0.9), None),
        "reliability, 10 bins": (
            lambda: ours.reliability(event, p).score(), lambda: calibration_curve(event, p, n_bins=10),
        ),
    }  # fmt: skip


def best_of(function):
    """Seconds."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def main():
    """Time every pair in turn."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    print(f"{n:,} rows{'':21}ours    scikit-learn   ratio")
    for name, (mine, theirs) in jobs(n).items():
        own, other = best_of(mine), best_of(theirs) if theirs else None
        print(f"{name:30}{own:7.2f} s" + (f"{other:11.2f} s{other / own:9.1f}" if other else ""))


if __name__ == "__main__":
    main()
