"""The restricted Boltzmann machine against scikit-learn and against its bare matrix products, in one run.

    python benchmarks/energy.py [--small]

Prints one line per figure: seconds per epoch, and ratios, each the best of several rounds in which all take turns.
The bound of an update is five products of a batch with the
weights: hidden and visible fields of the chains, hidden field of the data, and the two halves of the gradient.
"""

from __future__ import annotations

import argparse
import time
import timeit
import warnings
from collections.abc import Callable

import numpy as np
import torch
from sklearn.neural_network import BernoulliRBM

import gnomon
from gnomon.objectives.base import Loss, Objective, Term
from gnomon.systems.energy.rbm import RBMModel


def seconds(function: Callable[[], object]) -> float:
    """Seconds of a call."""
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun


def ours(X: np.ndarray, hidden: int, batch: int, epochs: int) -> float:
    """Seconds of the best epoch of one fit, the first left out."""
    at: list[float] = []
    with gnomon.context(callbacks=(lambda step, record: at.append(time.perf_counter()),)):
        gnomon.RBM(n_hidden=hidden, batch_size=batch, epochs=epochs + 1, learning_rate=0.01, random_state=0).fit(X)
    return float(np.diff(at).min())


def peer(X: np.ndarray, hidden: int, batch: int) -> float:
    """Seconds of one epoch of scikit-learn, whose silent fit computes no pseudo-likelihood."""
    model = BernoulliRBM(n_components=hidden, batch_size=batch, n_iter=1, learning_rate=0.01, random_state=0)
    return seconds(lambda: model.fit(X))


def products(n: int, d: int, hidden: int, batch: int) -> dict[str, float]:
    """Seconds per epoch of the five bare products, by library."""
    random = np.random.default_rng(0)
    v, h = (random.random((batch, d)) < 0.5).astype("f4"), (random.random((batch, hidden)) < 0.5).astype("f4")
    W, field, seen, gradient = random.random((d, hidden), dtype="f4"), h.copy(), v.copy(), np.empty((d, hidden), "f4")

    def numpy_five() -> None:
        np.matmul(h, W.T, out=seen)
        np.matmul(v, W, out=field)
        np.matmul(v, W, out=field)
        np.matmul(v.T, h, out=gradient)
        np.matmul(v.T, h, out=gradient)

    tensors = [torch.from_numpy(x) for x in (v, h, W, field, seen, gradient)]
    tv, th, tW, tfield, tseen, tgradient = tensors

    def torch_five() -> None:
        torch.mm(th, tW.T, out=tseen)
        torch.mm(tv, tW, out=tfield)
        torch.mm(tv, tW, out=tfield)
        torch.mm(tv.T, th, out=tgradient)
        torch.mm(tv.T, th, out=tgradient)

    found = {}
    for name, five in (("numpy", numpy_five), ("torch", torch_five)):
        five()
        found[name] = min(timeit.repeat(five, number=100, repeat=3)) / 100 * n / batch
    return found


class Nothing(Objective):
    """A closed form that costs nothing, to see what the driver costs."""

    def begin(self, model, batches, noise, group):  # type: ignore[no-untyped-def]
        """Gradients once and for all."""
        self.gradients = {name: np.zeros_like(value) for name, value in model.state().items()}
        self.size = float(batches.batch_size)

    def forward(self, model, batch, *, noise, phase, group):  # type: ignore[no-untyped-def]
        """The same zeros each time."""
        return Loss({"nothing": Term(0.0, self.size)}, self.gradients, "nothing")


def driver_cost(d: int, hidden: int, batch: int = 100) -> float:
    """Microseconds per update of the driver, the gradient procedure, batches, exchange and torch's SGD."""
    from gnomon.data.batches import Batches
    from gnomon.data.examples import Examples
    from gnomon.data.layouts import Rows
    from gnomon.numeric.noise import Noise
    from gnomon.training.driver import run_procedure
    from gnomon.training.gradient import Budget, Gradient
    from gnomon.training.group import Group
    from gnomon.training.optimizers import SGD
    from gnomon.training.procedure import Problem

    X = np.zeros((batch * 2000, d), "f4")
    at: list[float] = []
    noise = Noise(0, "fit")
    problem = Problem(
        RBMModel(d, hidden), Batches(Examples({"X": X}), Rows(batch), noise=noise), noise, Group(), Nothing()
    )
    with gnomon.context(callbacks=(lambda step, record: at.append(time.perf_counter()),)):
        run_procedure(Gradient(SGD(), 0.01, Budget(epochs=8)), problem)
    return float(np.diff(at).min()) / 2000 * 1e6


def compare(n: int, d: int, hidden: int, batch: int, epochs: int, repeats: int) -> None:
    """Print the figures of one shape."""
    X = (np.random.default_rng(0).random((n, d)) < 0.3).astype("f4")
    rounds = [
        (ours(X, hidden, batch, epochs), peer(X, hidden, batch), *products(n, d, hidden, batch).values())
        for _ in range(repeats)
    ]
    own, sklearn, *five = (min(column) for column in zip(*rounds, strict=True))
    bare = dict(zip(("numpy", "torch"), five, strict=True))
    best = min(bare.values())
    print(f"{n} x {d}, {hidden} hidden, batch {batch}, float32; seconds per epoch")
    print(
        f"  gnomon PCD-1 {own:.4f}   scikit-learn {sklearn:.4f}"
        f"   five products {bare['numpy']:.4f} (numpy), {bare['torch']:.4f} (torch)"
    )
    print(f"  gnomon / scikit-learn {own / sklearn:.3f}   gnomon / faster five products {own / best:.3f}")


def main() -> None:
    """Both shapes and the driver."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="leave the large shape out")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for d, hidden in ((2, 2), (64, 100)):
        cost = driver_cost(d, hidden)
        print(f"driver, batches, exchange and SGD at {d} x {hidden}, batch 100: {cost:.1f} us per update")
    compare(20_000, 64, 100, 100, epochs=5, repeats=6)
    if not arguments.small:
        compare(60_000, 784, 500, 100, epochs=2, repeats=3)


if __name__ == "__main__":
    main()
