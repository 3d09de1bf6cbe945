"""Recurrent language model against a bare loop around torch.nn.GRU, in one run.

    python benchmarks/sequence.py [--units 256] [--threads 1]

Prints the milliseconds of an update of 32 x 35 tokens (characters, vocabulary of about 90) with 256 units: ours and by
hand, each the best of several rounds in which they take turns, and their ratio. The loop by hand has the same layers,
Adam and clipping, carries the state over, and nothing else: no record, no check for numbers that are not finite, no
order of its own. With one thread the clock is the processor's, which other programs disturb less.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import nn
from turns import Clock, options, seconds_of

import gnomon
from gnomon.data import load

LANES, WINDOW, EMBEDDING = 32, 35, 128


def language_model(units: int) -> gnomon.GRULM:
    """Ours, with the layers and the windows of the loop by hand."""
    return gnomon.GRULM(
        unit="char", n_hidden=units, n_embedding=EMBEDDING, window=WINDOW, batch_size=LANES, epochs=3, dropout=0.0,
        early_stopping="off", random_state=0,
    )  # fmt: skip


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


def by_hand(vocabulary: int, units: int, clock: Clock, updates: int = 60) -> float:
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
    given, clock = options(__doc__, units=256, rounds=4)
    text = list(load("python-reference").text)[:650]
    model, pairs = language_model(given.units), []
    for _ in range(given.rounds):
        own = seconds_of(partial(model.fit, text), given.threads, clock)
        pairs.append((own, by_hand(len(model.vocabulary_), given.units, clock)))
    mine, hand = (min(times) for times in zip(*pairs, strict=True))
    print(f"update of {LANES} x {WINDOW} tokens, {given.units} units, {given.threads} threads:")
    print(f"ours {1e3 * mine:.2f} ms   by hand {1e3 * hand:.2f} ms   ratio {mine / hand:.3f} (limit 1.15)")


if __name__ == "__main__":
    main()
