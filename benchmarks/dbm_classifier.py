"""A deep Boltzmann machine made a classifier, beside the same network begun by chance, `dbn-classifier` and `mlp`.

    python benchmarks/dbm_classifier.py [--data digits] [--seeds 5]

By seed a fifth of the rows is held out. Accuracy on it, mean ± standard error over the seeds, and the seconds of
processor time of a fit. Defaults, of `mlp` as many units, epochs and as much dropout.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import gnomon

WAYS = {
    "dbm-classifier": ("dbm-classifier", {}),
    "dbm-classifier, begun by chance": ("dbm-classifier", {"pretrain_epochs": 0, "joint_epochs": 0}),
    "dbn-classifier": ("dbn-classifier", {"visible": "bernoulli"}),
    "mlp": ("mlp", {"hidden": (128, 128), "standardize": False, "epochs": 50, "dropout": 0.3}),
}


def rows_of(name: str, seed: int) -> tuple[np.ndarray, ...]:
    """Training rows in [0, 1] and their labels, held-out rows and theirs."""
    data = gnomon.data.load(name)
    X, y = np.asarray(data.view("table"), np.float32), data.view("labels")
    order = np.random.default_rng(seed).permutation(len(X))
    held, rest = order[: len(X) // 5], order[len(X) // 5 :]
    X = X / X.max()
    return X[rest], y[rest], X[held], y[held]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    for title, (name, options) in WAYS.items():
        found, took = [], time.process_time()
        for seed in range(given.seeds):
            X, y, *judge = rows_of(given.data, seed)
            found.append(gnomon.make(name, random_state=seed, **options).fit(X, y).score(*judge))
        error = np.std(found, ddof=1) / len(found) ** 0.5 if len(found) > 1 else np.nan
        seconds = (time.process_time() - took) / given.seeds
        print(f"   {title:34s} {np.mean(found):.4f} ± {error:.4f}, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
