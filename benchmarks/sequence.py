"""Recurrent language model against a bare loop around torch.nn.GRU, in one run.

    python benchmarks/sequence.py [--units 256] [--threads 1]

Prints the milliseconds of an update of 32 x 35 tokens (characters, vocabulary of about 90) with 256 units: ours and by
hand, each the best of several rounds in which they take turns, and their ratio. The loop by hand has the same layers,
Adam and clipping, carries the state over, and nothing else: no record, no check for numbers that are not finite, no
order of its own. With one thread the clock is the processor's, which other programs disturb less.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

import gnomon
from gnomon.data import load

LANES, WINDOW, EMBEDDING = 32, 35, 128


def ours(text: list[str], units: int, threads: int, clock: Callable[[], float]) -> tuple[float, int]:
    """Seconds of an update in the best of two epochs, the first of three left out; and the vocabulary."""
    at: list[tuple[int, float]] = []
    note = (lambda step, record: at.append((step, clock())),)
    with gnomon.context(callbacks=note, threads=threads):
        fitted = gnomon.GRULM(
            unit="char", n_hidden=units, n_embedding=EMBEDDING, window=WINDOW, batch_size=LANES, epochs=3, dropout=0.0,
            early_stopping="off", random_state=0,
        ).fit(text)  # fmt: skip
    (a, s), (b, t), (c, u) = at
    return min((t - s) / (b - a), (u - t) / (c - b)), len(fitted.vocabulary_)


class Net(nn.Module):
    """Embedding, GRU, affine layer."""

    def __init__(self, vocabulary: int, units: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, EMBEDDING)
        self.gru = nn.GRU(EMBEDDING, units, batch_first=True)
        self.head = nn.Linear(units, vocabulary - 1)

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Scores and state."""
        outputs, h = self.gru(self.embedding(x), h)
        return self.head(outputs), h


def by_hand(vocabulary: int, units: int, clock: Callable[[], float], updates: int = 60) -> float:
    """Seconds of an update of a plain loop, the best of two runs after one to warm up."""
    net = Net(vocabulary, units)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    ids = torch.from_numpy(np.random.default_rng(0).integers(0, vocabulary - 1, (LANES, updates * WINDOW + 1)))
    seconds = []
    for _ in range(3):
        h, begun = torch.zeros(1, LANES, units), clock()
        for i in range(updates):
            x, y = (ids[:, i * WINDOW + k : (i + 1) * WINDOW + k] for k in (0, 1))
            optimizer.zero_grad()
            scores, h = net(x, h.detach())
            nn.functional.cross_entropy(scores.flatten(0, 1), y.flatten()).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
        seconds.append((clock() - begun) / updates)
    return min(seconds[1:])


def main() -> None:
    """Print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    text = list(load("python-reference").text)[:650]
    clock = time.process_time if options.threads == 1 else time.perf_counter
    pairs = []
    for _ in range(options.rounds):
        own, vocabulary = ours(text, options.units, options.threads, clock)
        pairs.append((own, by_hand(vocabulary, options.units, clock)))
    mine, hand = (min(times) for times in zip(*pairs, strict=True))
    print(f"update of {LANES} x {WINDOW} tokens, {options.units} units, {options.threads} threads:")
    print(f"ours {1e3 * mine:.2f} ms   by hand {1e3 * hand:.2f} ms   ratio {mine / hand:.3f} (limit 1.15)")


if __name__ == "__main__":
    main()
