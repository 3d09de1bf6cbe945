"""Restricted Boltzmann machines against peers and against their bare matrix products, every clause in one run.

    python benchmarks/energy.py [--rows 60000] [--rounds 5] [--small] [epoch] [small] [k] [ais] [machines] [bfloat16]

All sides of a line take turns, and its ratio is the median over the rounds. Time is the processor's, one thread, so
that another program beside it changes little; ``--wall THREADS`` takes the clock's and as many threads. Compilation is
outside.

- epoch: PCD-1 in float32, batch 100, against scikit-learn's ``BernoulliRBM`` in float32, against the five products of a
  batch with the weights (hidden field of the data, both fields of the chains, two halves of the gradient), and at
  784 x 500 against rbms, whose chains of one step are made of its own parts; ``PYTHONPATH`` must have it.
- small: updates per second of small machines against scikit-learn's.
- k: what a further step of the chains costs, over two products.
- ais: annealed importance sampling against its two products.
- machines: seconds per multiplication of other single-layer machines over that of the restricted machine.
- bfloat16: products of numbers rounded to bfloat16 against float32 ones: their time and their error.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from sklearn.neural_network import BernoulliRBM

import gnomon
from gnomon.inference.importance.ais import ais
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import CD, PCD
from gnomon.systems.energy.rbm import RBMModel

Side = Callable[[], float]
clock = time.process_time
threads = 1


def seconds(function: Callable[[], object]) -> float:
    """Seconds of a call."""
    begun = clock()
    function()
    return clock() - begun


def in_turns(sides: Mapping[str, Side], rounds: int) -> tuple[dict[str, float], Callable[[str, str], float]]:
    """Median seconds of each side, and the median over the rounds of the ratio of two; the first round is left out."""
    found = [{name: side() for name, side in sides.items()} for _ in range(rounds + 1)][1:]
    medians = {name: statistics.median(one[name] for one in found) for name in sides}
    return medians, lambda a, b: statistics.median(one[a] / one[b] for one in found)


def rows(n: int, d: int) -> np.ndarray:
    """Bits, three of ten set."""
    return (np.random.default_rng(0).random((n, d)) < 0.3).astype("f4")


def epoch_of(system: Any, X: np.ndarray, y: Any = None) -> float:
    """Seconds of the second epoch of a fit."""
    at: list[float] = []
    with gnomon.context(callbacks=(lambda step, record: at.append(clock()),), threads=threads):
        system.set_params(epochs=2, learning_rate=0.001, random_state=0).fit(*(X,) if y is None else (X, y))
    return at[1] - at[0]


def of_rbm(X: np.ndarray, hidden: int, batch: int, **options: Any) -> Side:
    """An epoch of the restricted machine."""
    return lambda: epoch_of(gnomon.RBM(n_hidden=hidden, batch_size=batch, **options), X)


def of_scikit_learn(X: np.ndarray, hidden: int, batch: int) -> Side:
    """An epoch of scikit-learn, whose silent fit computes no pseudo-likelihood."""
    model = BernoulliRBM(n_components=hidden, batch_size=batch, n_iter=1, learning_rate=0.001, random_state=0)
    return lambda: seconds(lambda: model.fit(X))


def of_products(n: int, d: int, hidden: int, batch: int) -> dict[str, Side]:
    """An epoch of the five bare products, by library."""
    random = np.random.default_rng(0)
    v, h, W = rows(batch, d), rows(batch, hidden), random.random((d, hidden), dtype="f4")
    field, seen, gradient = h.copy(), v.copy(), np.empty_like(W)
    tv, th, tW, tfield, tseen, tgradient = (torch.from_numpy(x) for x in (v, h, W, field, seen, gradient))

    def five(multiply: Any, v: Any, h: Any, W: Any, field: Any, seen: Any, gradient: Any) -> None:
        for _ in range(n // batch):
            multiply(h, W.T, out=seen)
            multiply(v, W, out=field)
            multiply(v, W, out=field)
            multiply(v.T, h, out=gradient)
            multiply(v.T, h, out=gradient)

    return {
        "numpy": lambda: seconds(lambda: five(np.matmul, v, h, W, field, seen, gradient)),
        "torch": lambda: seconds(lambda: five(torch.mm, tv, th, tW, tfield, tseen, tgradient)),
    }


def of_rbms(X: np.ndarray, hidden: int, batch: int) -> Side | None:
    """An epoch of rbms on the CPU with chains of one step, None where it is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from rbms.bernoulli_bernoulli.classes import BBRBM
    except ImportError:
        return None
    random = np.random.default_rng(0)
    begun = [0.01 * random.normal(size=shape) for shape in ((X.shape[1], hidden), X.shape[1], hidden)]
    peer = BBRBM(*(torch.tensor(part, dtype=torch.float32) for part in begun))
    peer.init_grad()
    optimizer = torch.optim.SGD(peer.parameters(), lr=0.001, maximize=True)
    data, one = torch.from_numpy(X), torch.ones(batch)

    def epoch() -> None:
        chains = peer.init_chains(batch)
        order = torch.randperm(len(X))
        for begin in range(0, len(X) - batch + 1, batch):
            near = peer.sample_hiddens({"visible": data[order[begin : begin + batch]], "weights": one})
            chains = peer.sample_state(chains, n_steps=1)
            peer.compute_gradient(near, chains, centered=False)
            optimizer.step()

    return lambda: seconds(epoch)


def epoch(n: int, d: int, hidden: int, rounds: int, limits: str, *, rbms: bool = False) -> None:
    """Print the figures of an epoch of one shape."""
    X = rows(n, d)
    sides = {"gnomon": of_rbm(X, hidden, 100), "scikit-learn": of_scikit_learn(X, hidden, 100)}
    sides |= of_products(n, d, hidden, 100)
    peer = of_rbms(X, hidden, 100) if rbms else None
    sides |= {} if peer is None else {"rbms": peer}
    medians, over = in_turns(sides, rounds)
    best = min(("numpy", "torch"), key=lambda name: medians[name])
    print(f"epoch, {n} x {d}, {hidden} hidden: " + ", ".join(f"{name} {s:.3f} s" for name, s in medians.items()))
    print(f"  gnomon / scikit-learn {over('gnomon', 'scikit-learn'):.3f}   gnomon / five products of {best} "
          f"{over('gnomon', best):.2f}   (limits {limits})")  # fmt: skip
    if rbms:
        print(
            "  rbms is not installed" if peer is None else f"  rbms / gnomon {over('rbms', 'gnomon'):.2f} (at least 2)"
        )


def _twice(over: Callable[[str, str], float]) -> str:
    """The line of rbms."""
    return f"  rbms / gnomon {over('rbms', 'gnomon'):.2f} (at least 2)"


def small(rounds: int) -> None:
    """Print updates per second of small machines."""
    for n, d, hidden, batch in ((20_000, 4, 4, 10), (20_000, 16, 16, 10), (20_000, 64, 64, 20)):
        X = rows(n, d)
        sides = {"gnomon": of_rbm(X, hidden, batch), "scikit-learn": of_scikit_learn(X, hidden, batch)}
        medians, over = in_turns(sides, rounds)
        rate = {name: n / batch / s for name, s in medians.items()}
        times = over("scikit-learn", "gnomon")
        print(f"small, {d} x {hidden}, batch {batch}: {rate['gnomon']:.0f} updates per second, "
              f"scikit-learn {rate['scikit-learn']:.0f}: {times:.1f} times as many (at least 2)")  # fmt: skip


def further_steps(n: int, d: int, hidden: int, rounds: int) -> None:
    """Print what steps of the chains cost, in pairs of products."""
    X = rows(n, d)
    for kind in (CD, PCD):
        objectives = {f"k = {k}": kind(k=k) for k in (1, 2, 5)}
        sides = {name: of_rbm(X, hidden, 100, objective=one) for name, one in objectives.items()}
        medians, _ = in_turns(sides | of_products(n, d, hidden, 100), rounds)
        two = 0.4 * min(medians["numpy"], medians["torch"])
        one, more = (medians["k = 2"] - medians["k = 1"]) / two, (medians["k = 5"] - medians["k = 1"]) / 4 / two
        print(f"{kind.short}, {d} x {hidden}: a further step costs {one:.2f} times two products (k = 2), "
              f"{more:.2f} (each up to k = 5)")  # fmt: skip


def annealing(d: int, hidden: int, temperatures: int, rounds: int) -> None:
    """Print annealed importance sampling against its two products."""
    random, chains = np.random.default_rng(0), 100
    W, b, c = (random.normal(0, s, n).astype("f4") for s, n in ((0.05, (d, hidden)), (0.3, d), (0.3, hidden)))
    model, base = RBMModel.of(W, b, c), RBMModel.of(0 * W, np.full(d, -2, "f4"), 0 * c)
    x, h = rows(chains, d), rows(chains, hidden)
    field, back = np.empty_like(h), np.empty_like(x)

    def two(multiply: Any, x: Any, h: Any, W: Any, field: Any, back: Any) -> None:
        for _ in range(temperatures):
            multiply(x, W, out=field)
            multiply(h, W.T, out=back)

    plain, tensors = (x, h, W, field, back), [torch.from_numpy(array) for array in (x, h, W, field, back)]
    run = functools.partial(ais, model, base, Noise(0, "ais"), chains=chains, schedule=temperatures, keep="visible")
    medians, over = in_turns(
        {
            "gnomon": lambda: seconds(run),
            "numpy": lambda: seconds(lambda: two(np.matmul, *plain)),
            "torch": lambda: seconds(lambda: two(torch.mm, *tensors)),
        },
        rounds,
    )
    best = min(("numpy", "torch"), key=lambda name: medians[name])
    print(f"ais, {chains} chains, {d} x {hidden}, {temperatures} temperatures: gnomon / two products of {best} "
          f"{over('gnomon', best):.2f} (limit 1.3)")  # fmt: skip


def machines(n: int, d: int, hidden: int, rounds: int) -> None:
    """Print the time per multiplication of other machines of the same arithmetic over the restricted one's."""
    X, options = rows(n, d), {"n_hidden": hidden, "batch_size": 100}
    real, y = X + np.random.default_rng(1).normal(size=X.shape).astype("f4"), np.arange(n) % 10
    harmonium = functools.partial(gnomon.Harmonium, **options)
    systems: dict[str, tuple[Any, np.ndarray, Any]] = {
        "gaussian-rbm": (gnomon.GaussianRBM(**options), real, None),
        "label-rbm, generative": (gnomon.LabelRBM(**options, objective="pcd"), X, y),
        "harmonium, bernoulli": (harmonium(visible="bernoulli"), X, None),
        "harmonium, poisson": (harmonium(visible="poisson"), np.floor(3 * X), None),
        "rtrbm, one frame": (gnomon.RTRBM(frame_size=d, **options), X, None),
    }
    sides: dict[str, Side] = {"rbm": of_rbm(X, hidden, 100)}
    for name, (system, table, label) in systems.items():
        sides[name] = functools.partial(epoch_of, system, table, label)
    _, over = in_turns(sides, rounds)
    print(f"machines, {d} x {hidden}, over the restricted one's time (limit 1.3):")
    print("  " + "   ".join(f"{name} {over(name, 'rbm'):.2f}" for name in systems))


def bfloat16(d: int, hidden: int, rounds: int) -> None:
    """Print time and error of products of bfloat16 numbers."""
    generator = torch.Generator().manual_seed(0)
    W, x = 0.05 * torch.randn(d, hidden, generator=generator), torch.from_numpy(rows(100, d))
    single, half = (x, W), (x.bfloat16(), W.bfloat16())
    sides = {
        "float32": lambda: seconds(lambda: [torch.mm(*single) for _ in range(20)]),
        "bfloat16": lambda: seconds(lambda: [torch.mm(*half) for _ in range(20)]),
    }
    _, over = in_turns(sides, rounds)
    true = x.double() @ W.double()
    scale = true.square().mean().sqrt()
    errors = [float(((a @ b).double() - true).square().mean().sqrt() / scale) for a, b in (single, half)]
    times = over("bfloat16", "float32")
    print(f"bfloat16, 100 x {d} x {hidden}: {times:.2f} times the time of float32; relative error "
          f"of a field {errors[1]:.1e}, of float32 {errors[0]:.1e}")  # fmt: skip


def main() -> None:
    """Measure and print."""
    global clock, threads
    parser = argparse.ArgumentParser(description="Restricted Boltzmann machines against peers and bare products.")
    parser.add_argument("parts", nargs="*", help="epoch, small, k, ais, machines, bfloat16; all by default")
    parser.add_argument("--rows", type=int, default=60_000, help="of the table of 784 columns")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="6,000 rows and three rounds")
    parser.add_argument("--wall", type=int, metavar="THREADS", help="time by the clock, with so many threads")
    given = parser.parse_args()
    n, rounds = (min(given.rows, 6000), min(given.rounds, 3)) if given.small else (given.rows, given.rounds)
    if given.wall:
        clock, threads = time.perf_counter, given.wall
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")
    measured: dict[str, Callable[[], None]] = {
        "epoch": lambda: (
            epoch(min(20_000, n), 64, 100, rounds, "0.3"),
            epoch(n, 784, 500, rounds, "0.45, 1.8", rbms=True),
        ),
        "small": lambda: small(rounds),
        "k": lambda: further_steps(min(3000, n), 784, 500, rounds),
        "ais": lambda: annealing(784, 500, 50 if given.small else 200, rounds),
        "machines": lambda: machines(min(3000, n), 784, 500, rounds),
        "bfloat16": lambda: bfloat16(784, 500, rounds),
    }  # fmt: skip
    for name in given.parts or measured:
        measured[name]()


if __name__ == "__main__":
    main()
