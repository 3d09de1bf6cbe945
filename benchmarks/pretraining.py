"""Few labels: a network begun by restricted Boltzmann machines beside the same network begun by chance.

    python benchmarks/pretraining.py [--data mnist-5k] [--labels 500] [--seeds 5] [--hidden 256x256] [--epochs 40]

By seed a fifth of the rows is held out, and of the others so many keep their labels, the same number of each class. The
machines see all rows of the rest, the labels move both networks for the same number of epochs; `mlp` with rectified
units and dropout stands beside them, on the labeled rows alone. Accuracy on the held-out rows, mean ± standard error
over the seeds; the last lines are paired differences by seed.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

import gnomon
from gnomon.data.builtin import builtin


def rows_of(name: str, labels: int, seed: int) -> tuple[np.ndarray, ...]:
    """Training rows in [0, 1], their labels (-1: none), held-out rows and theirs."""
    data = builtin(name)
    X, y = np.asarray(data.X, np.float32), np.asarray(data.y)
    X = X / X.max()
    random = np.random.default_rng(seed)
    order = random.permutation(len(X))
    held, rest = order[: len(X) // 5], order[len(X) // 5 :]
    each = labels // len(np.unique(y))
    kept = np.concatenate([rest[y[rest] == label][:each] for label in np.unique(y)])
    known = np.where(np.isin(rest, kept), y[rest], -1)
    return X[rest], known, X[held], y[held]


def accuracy(name: str, X: np.ndarray, y: np.ndarray, judge: tuple[np.ndarray, np.ndarray], **options: object) -> float:
    """Of one fit on held-out rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of labels that are -1
        return gnomon.make(name, **options).fit(X, y).score(*judge)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="mnist-5k")
    parser.add_argument("--labels", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--hidden", default="256x256")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--pretrain-epochs", type=int, default=30)
    given = parser.parse_args()
    hidden = tuple(int(units) for units in given.hidden.split("x"))
    found: dict[str, list[float]] = {"begun by machines": [], "begun by chance": [], "mlp, rectified, dropout": []}
    start = time.perf_counter()
    for seed in range(given.seeds):
        X, y, *judge = rows_of(given.data, given.labels, seed)
        both = {"hidden": hidden, "epochs": given.epochs, "random_state": seed}
        network = both | {"visible": "bernoulli", "pretrain_epochs": given.pretrain_epochs}
        found["begun by machines"].append(accuracy("dbn-classifier", X, y, judge, **network))
        found["begun by chance"].append(accuracy("dbn-classifier", X, y, judge, pretrain="none", **network))
        known = y >= 0
        found["mlp, rectified, dropout"].append(accuracy("mlp", X[known], y[known], judge, dropout=0.3, **both))
        print(f"   seed {seed}:", *(f"{name} {values[-1]:.4f};" for name, values in found.items()), flush=True)
    print(
        f"{given.data}, {given.labels} labels, {given.hidden}, {given.seeds} seeds, {time.perf_counter() - start:.0f} s"
    )
    first = np.array(found["begun by machines"])
    for name, values in found.items():
        print(f"   {name:24s} {np.mean(values):.4f} ± {np.std(values, ddof=1) / len(values) ** 0.5:.4f}")
    for name in list(found)[1:]:
        gap = first - np.array(found[name])
        print(f"   machines - {name:24s} {gap.mean():+.4f} ± {gap.std(ddof=1) / len(gap) ** 0.5:.4f}")


if __name__ == "__main__":
    main()
