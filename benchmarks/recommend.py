"""Matrix factorization by stochastic gradient against cornac's, and against the bytes that must move, in one run.

    python benchmarks/recommend.py [--peer PYTHON] [--threads 2] [--small]

Prints ratings per second of an epoch: one million ratings of 20,000 items by 100,000 users, items popular as 1 / rank,
64 factors in float32 with biases. ``--peer`` is the interpreter of an environment with cornac (``pip install cornac``),
which runs as a process of its own; both take turns, and the best of the rounds counts. The bound is the time to copy
what an epoch must read and write: every rating once, and the factors of every user and item once per block in which
they occur, at the speed at which NumPy copies.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time

import numpy as np

import gnomon
from gnomon.numeric.noise import Noise
from gnomon.systems.recommend.matrix_factorization import SGD, MatrixFactorization
from gnomon.training.group import Group

PEER = """
import json, sys, time
import numpy as np, cornac
users, items, values, epochs, threads = json.loads(sys.argv[1])
users, items, values = (np.load(file) for file in (users, items, values))
data = cornac.data.Dataset.from_uir(list(zip(users.tolist(), items.tolist(), values.tolist())), seed=1)
def seconds(epochs):
    options = {"num_threads": threads, "verbose": False, "seed": 1, "backend": "cpu", "early_stop": False}
    model = cornac.models.MF(k=64, max_iter=epochs, **options)
    begun = time.perf_counter()
    model.fit(data)
    return time.perf_counter() - begun
seconds(1)
print(json.dumps((seconds(epochs + 1) - seconds(1)) / epochs))
"""


def ratings(n: int, n_users: int, n_items: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct pairs with ratings 1 to 5."""
    random = np.random.default_rng(0)
    popular = 1 / (np.arange(n_items) + 10.0)
    users = random.integers(n_users, size=2 * n)
    items = random.choice(n_items, size=2 * n, p=popular / popular.sum())
    chosen = random.permutation(np.unique(users * n_items + items))[:n]
    return chosen // n_items, chosen % n_items, random.integers(1, 6, n).astype(np.float64)


def prepared(users: np.ndarray, items: np.ndarray, values: np.ndarray):
    """A procedure and its state, ready to step, and the seconds that it took to get there."""
    begun = time.perf_counter()
    system = MatrixFactorization(n_factors=64, learner=SGD(epochs=10_000), random_state=0)
    examples = system.ingest(gnomon.data.Ratings(users, items, values))
    model = system.make(**system.arguments(examples))
    noise = Noise(0, "fit")
    system.initialize(model, examples, noise)
    procedure = system.procedure(examples)
    state = procedure.start(system.problem(model, examples, noise, Group()))
    return procedure, state, time.perf_counter() - begun


def moved(state) -> int:
    """Bytes that an epoch must read and write."""
    data, row = state.data, 2 * 4 * 64
    n = round(np.sqrt(len(data.starts) - 1))
    blocks = np.repeat(np.arange(n * n), np.diff(data.starts))
    touched = sum(len(np.unique(blocks * 200_000 + side)) for side in (data.users, data.items))
    return touched * row + len(data.users) * 16


def copying() -> float:
    """Bytes per second that are read and written by a copy."""
    source = np.ones(1 << 25)
    target = np.empty_like(source)
    found = []
    for _ in range(5):
        begun = time.perf_counter()
        np.copyto(target, source)
        found.append(time.perf_counter() - begun)
    return 2 * source.nbytes / min(found)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", help="interpreter of an environment with cornac")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--small", action="store_true", help="100,000 ratings, for a look")
    given = parser.parse_args()
    n = 100_000 if given.small else 1_000_000
    log = ratings(n, n // 10, n // 50)
    procedure, state, seconds = prepared(*log)
    print(f"{n:,} ratings laid out in {seconds:.2f} s")
    files = [f"/tmp/gnomon-benchmark-{name}.npy" for name in ("users", "items", "values")]
    for file, part in zip(files, log, strict=True):
        np.save(file, part)
    ours, theirs = [], []
    with gnomon.context(threads=given.threads):
        procedure.step(state)  # compiles
        for _ in range(3):
            for _ in range(5):
                begun = time.perf_counter()
                procedure.step(state)
                ours.append(time.perf_counter() - begun)
            if given.peer:
                arguments = json.dumps([*files, 5, given.threads])
                command = [given.peer, "-c", PEER, arguments]
                told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                theirs.append(float(told.splitlines()[-1]))
    size, best = moved(state), min(ours)
    bound = size / copying()
    print(f"gnomon, {given.threads} threads: {best * 1e3:.1f} ms an epoch, {n / best / 1e6:.1f} M ratings/s")
    print(f"bound: {size / 1e6:.0f} MB an epoch, {bound * 1e3:.1f} ms at the speed of a copy; ratio {best / bound:.2f}")
    if theirs:
        other = min(theirs)
        print(f"cornac, {given.threads} threads: {other * 1e3:.1f} ms, {n / other / 1e6:.1f} M ratings/s; ", end="")
        print(f"ratio {best / other:.2f}")


if __name__ == "__main__":
    main()
