"""NADE and a network from left to right against their bare products, and against torch loops over columns, in one run.

    python benchmarks/autoregressive.py [--columns 784] [--hidden 500] [--batch 100] [--rows 10000] [--share 13]
        [--group 2]

Rows are zeros and ones, `share` per cent of them ones. What any gradient takes for n rows, d columns and h hidden units
are 3 n d h multiplications and additions (logits, gradients by V and by the hidden units) and, for each one among the
n d numbers, h additions into the fields, h into the gradient by W, h logistic functions and h of their slopes. No
product of matrices does it, since each row has hidden units of its own at each column.

`bare` is the clock of as many of these in compiled loops over the same few rows, which the nearest memory holds: no
walk through weights and rows, nothing found again on the way back, no loss, optimizer or batches. `passes` is the way
there and back as it is, `epoch` a whole update of a fit, Adam and all. The density of the rows is compared with a loop
over columns in torch without gradients. Each is the best of several rounds in turns.

`fvbn` has a group of so many hidden units for each column. Its bare products are three for each of its matrices (there,
and back to weights and inputs), whole ones: half of what is multiplied is held at 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from turns import Clock, options, seconds_of

import gnomon
from gnomon.systems.autoregressive import _nade_kernels
from gnomon.systems.autoregressive._nade_model import NADEModel
from gnomon.systems.autoregressive._neural import LeftToRight
from gnomon.systems.autoregressive.conditionals import Neural

ROUNDS, UPDATES = 4, 8


@_nade_kernels.summing
def products(V, W, field, gate, pull, later, dV, dW, by, out, fours, ones):  # type: ignore[no-untyped-def]
    """The products of so many fours of rows and so many ones, on the same rows over and over."""
    one = V.dtype.type(1)
    for i in range(fours):
        r = 4 * (i % 4)
        _nade_kernels._dots(V, 0, 0, gate, r, out)
        _nade_kernels._add_outer(by, r, V, 0, 0, gate, dV, pull)
    for i in range(ones):
        r = i % 16
        _nade_kernels._add_weights(one, W, 0, field, r)
        _nade_kernels._gates(one, field, r, gate)
        _nade_kernels._settle(one, field, gate, pull, later, r)
        _nade_kernels._add_weights(one, later, r, dW, 0)


class Bare:
    """As many products as a batch takes."""

    def __init__(self, X: np.ndarray, hidden: int) -> None:
        shapes = (1, 1, hidden), (1, hidden), *[(16, hidden)] * 4, (1, 1, hidden), (1, hidden), (16,), (16,)
        self.arrays = [np.full(shape, 1e-3, np.float32) for shape in shapes]
        self.fours, self.ones = X.size // 4, int(X.sum())

    def __call__(self) -> None:
        products(*self.arrays, self.fours, self.ones)
        for one in self.arrays:
            one.fill(1e-3)


class Passes:
    """The compiled way there and back of a batch."""

    def __init__(self, X: np.ndarray, hidden: int) -> None:
        n, d = X.shape
        random = np.random.default_rng(0)
        shapes = (d, hidden), (hidden,), (d, 1, hidden), (d, 1)
        self.X, self.order, self.scale = X, np.arange(d), np.empty(0, np.float32)
        self.weights = [random.normal(size=shape).astype(np.float32) for shape in shapes]
        self.raw = np.empty((n, 1, d), np.float32)
        self.slopes = [np.zeros(shape, np.float32) for shape in (*shapes, (0,))]

    def __call__(self) -> None:
        W, c, V, b = self.weights
        _nade_kernels.forward(self.order, self.X, W, c, V, b, self.scale, self.raw, 0, len(self.X))
        _nade_kernels.backward(self.order, self.X, W, c, V, self.scale, self.raw, *self.slopes)


def by_columns(model: NADEModel, X: torch.Tensor) -> torch.Tensor:
    """log p of rows, a column at a time."""
    field, total = model.c.expand(len(X), -1), torch.zeros(len(X))
    for i in range(X.shape[1]):
        logit = torch.sigmoid(field) @ model.V[i, 0] + model.b[i, 0] + model.head.offset[i]
        total = total - functional.binary_cross_entropy_with_logits(logit, X[:, i], reduction="none")
        field = torch.addr(field, X[:, i], model.W[i, 0])
    return total


class Matrices:
    """Three products for each matrix of a network from left to right."""

    def __init__(self, n: int, columns: int, group: int) -> None:
        units = group * (columns - 1)
        self.shapes = [(columns, units), (units, columns), (columns, columns)]
        self.arrays = [(torch.randn(n, a), torch.randn(a, b), torch.randn(n, b)) for a, b in self.shapes]

    def __call__(self) -> None:
        for x, weight, slope in self.arrays:
            _ = x @ weight, slope @ weight.T, x.T @ slope


def by_groups(model: LeftToRight, X: torch.Tensor) -> torch.Tensor:
    """log p of rows, a column and a hidden group at a time."""
    (layer,), units, (direct, out) = model.layers, model.hidden[0], (model.direct, model.out)
    h, total = X.new_empty((len(X), layer.out_features)), torch.zeros(len(X))
    for i in range(X.shape[1]):
        seen = (i - 1) * units
        if i:
            own = slice(seen, seen + units)
            h[:, own] = torch.tanh(X[:, :i] @ layer.weight[own, :i].T + layer.bias[own])
        logit = direct.bias[i] + model.head.offset[i] + X[:, :i] @ direct.weight[i, :i]
        logit = logit + h[:, : i * units] @ out.weight[i, : i * units]
        total = total - functional.binary_cross_entropy_with_logits(logit, X[:, i], reduction="none")
    return total


def seconds(work: object, clock: Clock, times: int = UPDATES) -> float:
    """Of one call."""
    begun = clock()
    for _ in range(times):
        work()  # type: ignore[operator]
    return (clock() - begun) / times


def main() -> None:
    """Print the ratios."""
    given, clock = options(__doc__, columns=784, hidden=500, batch=100, rows=10_000, share=13, group=2)
    X = (np.random.default_rng(0).random((given.rows, given.columns)) < given.share / 100).astype(np.float32)
    batch, train = X[: given.batch], X[: UPDATES * given.batch]
    nade = gnomon.NADE(n_hidden=given.hidden, batch_size=given.batch, epochs=3, random_state=0)
    works = {"bare": Bare(batch, given.hidden), "passes": Passes(batch, given.hidden)}
    times: dict[str, list[float]] = {name: [] for name in (*works, "epoch")}
    for work in works.values():
        work()
    for _ in range(ROUNDS):
        for name, work in works.items():
            times[name].append(seconds(work, clock))
        times["epoch"].append(seconds_of(lambda: nade.fit(train), given.threads, clock))
    best = {name: min(found) for name, found in times.items()}
    print(f"update with {given.batch} rows of {given.columns} columns, {given.hidden} hidden units, one thread:")
    print(", ".join(f"{name} {1e3 * value:.2f} ms" for name, value in best.items()))
    for name in works:
        print(f"epoch / {name} {best['epoch'] / best[name]:.2f}" + " (limit 1.3)" * (name == "bare"))
    density(nade.model_, by_columns, X, clock)
    network(given, X, batch, train, clock)


def network(given: Any, X: np.ndarray, batch: np.ndarray, train: np.ndarray, clock: Clock) -> None:
    """The same of the network from left to right."""
    fvbn = gnomon.FVBN(conditionals=Neural((given.group,)), batch_size=given.batch, epochs=3, random_state=0)
    work, times = Matrices(len(batch), given.columns, given.group), {"bare": [], "epoch": []}
    for _ in range(ROUNDS):
        times["bare"].append(seconds(work, clock))
        times["epoch"].append(seconds_of(lambda: fvbn.fit(train), given.threads, clock))
    bare, epoch = (min(times[name]) for name in ("bare", "epoch"))
    print(
        f"fvbn, groups of {given.group}: bare {1e3 * bare:.2f} ms, epoch {1e3 * epoch:.2f} ms, ratio {epoch / bare:.2f}"
    )
    density(fvbn.model_, by_groups, X, clock)


def density(model: Any, by_hand: Callable[[Any, torch.Tensor], torch.Tensor], X: np.ndarray, clock: Clock) -> None:
    """Print the seconds of a density of all rows, and of a loop over columns, and how far these are apart."""
    rows = torch.from_numpy(X)
    with torch.no_grad():
        apart = float((by_hand(model, rows[:200]) - torch.from_numpy(model.log_prob(X[:200]))).abs().max())
        pairs = [
            (seconds(lambda: model.log_prob(X), clock, 1), seconds(lambda: by_hand(model, rows), clock, 1))
            for _ in range(3)
        ]
    ours, loop = (min(column) for column in zip(*pairs, strict=True))
    print(
        f"density of {len(X)} rows: ours {ours:.2f} s   loop {loop:.2f} s   ratio {loop / ours:.1f} (limit 5), "
        f"apart {apart:.0e} nats"
    )


if __name__ == "__main__":
    main()
