"""Time per update of a 784-256-128-10 perceptron at batch 128 in float32, beside a hand-written torch loop.

    python benchmarks/mlp.py

Both gather shuffled rows, run forward and backward and take an Adam step, on one thread; blocks of both alternate in
one run and the smallest times count. The last line is the ratio, ours to torch's.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from gnomon.numeric.noise import Noise
from gnomon.systems.neural.mlp import MLP
from gnomon.training.group import Group

ROWS, UPDATES, BLOCKS = 6400, 50, 12


def ours(X: np.ndarray, y: np.ndarray):
    """A function that takes the next updates of our fit."""
    system = MLP(hidden=(256, 128), batch_size=128, l2=0.0, epochs=10**6, random_state=0)
    table = system.ingest(X, y)
    model, noise = system.make(**system.arguments(table)), Noise(0, "fit")
    system.initialize(model, table, noise.child("initial"))
    procedure, problem = system.procedure(table), system.problem(model, table, noise, Group())
    state = procedure.start(problem)

    def run() -> None:
        nonlocal state
        for _ in range(UPDATES):
            state, _info = procedure.step(state)

    return run


def theirs(X: np.ndarray, y: np.ndarray):
    """The same by hand."""
    shift, scale = torch.from_numpy(X.mean(0)), torch.from_numpy(X.std(0))
    data, labels = torch.from_numpy(X), torch.from_numpy(y)
    net = torch.nn.Sequential(
        torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
    )
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    order, place = torch.randperm(len(data)), 0

    def run() -> None:
        nonlocal order, place
        for _ in range(UPDATES):
            if place + 128 > len(data):
                order, place = torch.randperm(len(data)), 0
            rows = order[place : place + 128]
            place += 128
            loss = torch.nn.functional.cross_entropy(net((data[rows] - shift) / scale), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return run


def main() -> None:
    """Print microseconds per update and the ratio."""
    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    X, y = random.normal(size=(ROWS, 784)).astype(np.float32), random.integers(0, 10, ROWS)
    runs, best = {"gnomon": ours(X, y), "torch": theirs(X, y)}, {"gnomon": np.inf, "torch": np.inf}
    for _ in range(BLOCKS):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], (time.perf_counter() - start) / UPDATES)
    for name, seconds in best.items():
        print(f"{name:8s} {seconds * 1e6:9.0f} us per update")
    print(f"ratio    {best['gnomon'] / best['torch']:9.3f}")


if __name__ == "__main__":
    main()
