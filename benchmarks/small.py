"""What people wait for with a small table: the first output of a command, and short fits beside other libraries'.

    python benchmarks/small.py [--threads 1]

First ``gnomon fit SYSTEM FILE`` on a table of 1,169 rows and 4 columns: seconds from the call to the first byte of
output and to the end, medians of five. Then whole fits in one process, each the best of several rounds in which all
take turns: ``mlp`` on that table beside scikit-learn's ``MLPClassifier`` and a bare loop in torch, ``lenet`` on 1,000
digits of 8 x 8 beside a bare loop and scikit-learn's perceptron, for scikit-learn has no convolutions. All have the
same batches, epochs, hidden units, step sizes and threads; the loops by hand check and record nothing.

Limits: 1 s to the first output of a command, 2 times the others' seconds for a fit.
"""

from __future__ import annotations

import argparse
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits
from torch import nn

import gnomon

ROWS, COLUMNS, IMAGES, ROUNDS = 1169, 4, 1000, 5
COMMANDS = {"linear-regression": ("--target", "y"), "decision-tree": ("--target", "kind"), "gaussian-mixture": ()}


def table() -> tuple[np.ndarray, np.ndarray]:
    """Columns, and two classes that they tell mostly apart."""
    random = np.random.default_rng(0)
    X = random.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    return X, (X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * random.normal(size=ROWS) > 0).astype(int)


def waited(words: list[str], folder: str) -> tuple[float, float]:
    """Seconds of a command to the first byte that it writes on a terminal, and to its end."""
    begun = time.perf_counter()
    call = [sys.executable, "-m", "gnomon", *words]
    ours, theirs = pty.openpty()
    with subprocess.Popen(call, cwd=folder, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        os.read(ours, 1)
        first = time.perf_counter() - begun
        if process.wait():
            raise subprocess.CalledProcessError(process.returncode, call)
    os.close(ours)
    return first, time.perf_counter() - begun


def commands() -> None:
    """Print the seconds of fits on the command line."""
    X, y = table()
    print(f"gnomon fit SYSTEM FILE, {ROWS:,} x {COLUMNS}: seconds to the first output (limit 1), to the end")
    with tempfile.TemporaryDirectory() as folder:
        for name, target in COMMANDS.items():
            columns = [*X.T, *{"y": [X @ np.arange(4.0)], "kind": [y]}.get(target[-1] if target else "", [])]
            names = ",".join([*(f"x{j}" for j in range(COLUMNS)), *target[1:]])
            file = Path(folder) / f"{name}.csv"
            np.savetxt(file, np.column_stack(columns), "%.6g", ",", header=names, comments="")
            pairs = [waited(["fit", name, file.name, *target, "--out", f"{name}-{i}"], folder) for i in range(6)]
            first, end = (statistics.median(column) for column in zip(*pairs[1:], strict=True))  # the first compiles
            print(f"  {name:<20} {first:.2f}  {end:.2f}")


def by_hand(
    net: nn.Module, X: np.ndarray, y: np.ndarray, epochs: int, batch: int, rate: float, *, cosine: bool
) -> None:
    """A plain loop."""
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs) if cosine else None
    data, codes = torch.from_numpy((X - X.mean(0)) / (X.std(0) + 1e-8)), torch.from_numpy(y)
    for _ in range(epochs):
        for rows in torch.randperm(len(data)).split(batch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(data[rows]), codes[rows]).backward()
            optimizer.step()
        if schedule is not None:
            schedule.step()


def perceptron(X: np.ndarray, y: np.ndarray, hidden: tuple[int, ...], epochs: int, batch: int, rate: float) -> None:
    """Scikit-learn's, made to run all its epochs."""
    net = MLPClassifier(
        hidden, batch_size=batch, max_iter=epochs, learning_rate_init=rate, n_iter_no_change=epochs, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        net.fit(StandardScaler().fit_transform(X), y)


def mlps() -> dict[str, Callable[[], object]]:
    """Fits of a perceptron with 128 units to the table: gnomon's defaults."""
    X, y = table()
    return {
        "gnomon": lambda: gnomon.MLP(random_state=0).fit(X, y),
        "scikit-learn": lambda: perceptron(X, y, (128,), 100, 32, 1e-3),
        "torch": lambda: by_hand(
            nn.Sequential(nn.Linear(COLUMNS, 128), nn.ReLU(), nn.Linear(128, 2)), X, y, 100, 32, 1e-3, cosine=False
        ),
    }


def lenets() -> dict[str, Callable[[], object]]:
    """Fits to digits: gnomon's defaults, and a perceptron with the same dense layers."""
    pixels, y = load_digits(return_X_y=True)
    X, y = (pixels[:IMAGES] / 16).astype(np.float32), y[:IMAGES]
    images = X.reshape(-1, 8, 8)

    def net() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(64, 120), nn.ReLU(), nn.Dropout(0.3), nn.Linear(120, 84), nn.ReLU(), nn.Dropout(0.3),
            nn.Linear(84, 10),
        )  # fmt: skip

    return {
        "gnomon": lambda: gnomon.LeNet(random_state=0).fit(images, y),
        "scikit-learn": lambda: perceptron(X, y, (120, 84), 20, 64, 2e-3),
        "torch": lambda: by_hand(net(), images[:, None], y, 20, 64, 2e-3, cosine=True),
    }


def compare(title: str, fits: dict[str, Callable[[], object]]) -> None:
    """Print the seconds of each, and gnomon's as a multiple of the others'."""
    best = dict.fromkeys(fits, np.inf)
    for _ in range(ROUNDS):
        for name, fit in fits.items():
            begun = time.perf_counter()
            fit()
            best[name] = min(best[name], time.perf_counter() - begun)
    print(f"{title}: seconds of the whole fit")
    for name, seconds in best.items():
        ratio = "" if name == "gnomon" else f"   gnomon's are {best['gnomon'] / seconds:.2f} times as many"
        print(f"  {name:<14} {seconds:.2f}{ratio}")


def main() -> None:
    """The commands, then the fits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="of all fits (default 1)")
    threads = parser.parse_args().threads
    commands()
    torch.set_num_threads(threads)
    with threadpool_limits(threads), gnomon.context(threads=threads):
        compare(f"mlp, {ROWS:,} x {COLUMNS}, 100 epochs of batches of 32, {threads} thread(s)", mlps())
        compare(f"lenet, {IMAGES:,} digits of 8 x 8, 20 epochs of batches of 64, {threads} thread(s)", lenets())


if __name__ == "__main__":
    main()
