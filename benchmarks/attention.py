"""Attention against its limits: transformer-lm beside a bare torch loop, generation with and without a cache, windows.

    python benchmarks/attention.py step [--threads 1]      # an update of transformer-lm and of a loop by hand: minutes
    python benchmarks/attention.py cache                   # 256 tokens with keys and values kept, and without
    python benchmarks/attention.py windows                 # memory and time of texts of 1k, 4k and 16k tokens

The loop by hand has the same layers, torch's fused attention, rotary positions, Adam and clipping, and reads windows of
one sentence; nothing else: no record, no check for numbers that are not finite, no order of its own. Both are the best
of several rounds in which they take turns. With one thread the clock is the processor's.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from turns import Clock, options, seconds_of

import gnomon
from gnomon.data.counting import BOS
from gnomon.nn.attention_engine import attention
from gnomon.nn.attention_masks import ByHead, Causal, Mask, SlidingWindow

ROWS, WINDOW, WIDTH, HEADS, INNER, LAYERS = 32, 64, 128, 4, 512, 3


def model() -> gnomon.TransformerLM:
    """Ours, with the layers and the windows of the loop by hand."""
    return gnomon.TransformerLM(
        unit="char", window=WINDOW, batch_size=ROWS, n_embedding=WIDTH, n_heads=HEADS, n_hidden=INNER, n_layers=LAYERS,
        epochs=2, dropout=0.0, early_stopping="off", random_state=0,
    )  # fmt: skip


class Layer(nn.Module):
    """Norms before attention and network."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.network = nn.Sequential(nn.Linear(WIDTH, INNER), nn.GELU(), nn.Linear(INNER, WIDTH))

    def forward(self, x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
        """The same shape (n, T, D)."""
        z = self.norm_1(x)
        q, k, v = (one(z).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.query, self.key, self.value))
        found = nn.functional.scaled_dot_product_attention(turned(q, turn), turned(k, turn), v, is_causal=True)
        x = x + self.out(found.transpose(1, 2).flatten(2))
        return x + self.network(self.norm_2(x))


def turned(x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    """Rotary positions: pairs times complex numbers."""
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turn).flatten(-2)


class Net(nn.Module):
    """Embedding, layers, norm, affine layer."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, vocabulary - 1)
        angles = torch.arange(WINDOW)[:, None] * 10000.0 ** (-torch.arange(0, WIDTH // HEADS, 2) / (WIDTH // HEADS))
        self.turn = torch.polar(torch.ones_like(angles), angles)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores."""
        x = self.embedding(x)
        for layer in self.layers:
            x = layer(x, self.turn)
        return self.head(self.norm(x))


def by_hand(vocabulary: int, clock: Clock, updates: int = 25) -> float:
    """Seconds of an update of a plain loop, the best of two runs after one to warm up."""
    net = Net(vocabulary)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    ids = torch.from_numpy(np.random.default_rng(0).integers(0, vocabulary - 1, (updates, ROWS, WINDOW + 1)))
    seconds = []
    for _ in range(3):
        begun = clock()
        for rows in ids:
            optimizer.zero_grad()
            scores = net(rows[:, :-1])
            nn.functional.cross_entropy(scores.flatten(0, 1), rows[:, 1:].flatten()).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
        seconds.append((clock() - begun) / updates)
    return min(seconds[1:])


def step(rounds: int, threads: int, clock: Clock) -> None:
    """An update, ours and by hand."""
    random = np.random.default_rng(0)
    letters = list("abcdefghijklmnopqrstuvwxyz ,.;:-()[]{}0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    sentence = "".join(random.choice(letters, ROWS * WINDOW * 25))
    mine, pairs = model(), []
    for _ in range(rounds):
        own = seconds_of(partial(mine.fit, [sentence]), threads, clock)
        pairs.append((own, by_hand(len(mine.vocabulary_), clock)))
    ours, hand = (min(times) for times in zip(*pairs, strict=True))
    print(f"update of {ROWS} x {WINDOW} tokens, {LAYERS} layers of {WIDTH}, {threads} threads:")
    print(f"ours {1e3 * ours:.2f} ms   by hand {1e3 * hand:.2f} ms   ratio {ours / hand:.3f} (limit 1.10)")


def cache(clock: Clock, tokens: int = 256) -> None:
    """The likeliest token 256 times, of one text and of ten together: one step each, and a whole pass each."""
    net = model().set_params(window=512, epochs=1).fit(["the sun casts the shadow of the dial"] * 40).model_

    def kept(n: int) -> list[list[int]]:
        state, last, said = net.start([[]] * n), np.full(n, BOS), []
        for _ in range(tokens):
            log_probs, state = net.step(last, state)
            last = log_probs.argmax(1)
            said.append(last.tolist())
        return said

    def anew(n: int) -> list[list[int]]:
        said, ids = [], torch.full((n, 1), BOS)
        with torch.no_grad():
            for _ in range(tokens):
                last = net.foretold(net.scores(ids)[0][:, -1]).argmax(1)
                ids = torch.cat([ids, last[:, None]], 1)
                said.append(last.tolist())
        return said

    for n in (1, 10):
        assert kept(n) == anew(n)
        times = [[_seconds(partial(work, n), clock) for work in (kept, anew)] for _ in range(3)]
        with_cache, without = (min(column) for column in zip(*times, strict=True))
        print(f"{tokens} tokens of {n} texts: {1e3 * with_cache:.0f} ms with a cache, {1e3 * without:.0f} ms without, "
              f"{without / with_cache:.1f} times as fast (limit 5)")  # fmt: skip


def _seconds(work: Any, clock: Clock) -> float:
    begun = clock()
    work()
    return clock() - begun


def windows() -> None:
    """Bytes that are kept for the way back, and processor time, of texts of several lengths."""
    masks: dict[str, Mask] = {
        "full": Causal(), "window of 64": SlidingWindow.around(64), "every 8th": SlidingWindow.around(64, 8),
        "mixed by head": ByHead.windows([64] * 4, [1, 1, 8, 8]),
    }  # fmt: skip
    for name, mask in masks.items():
        for length in (1024, 4096, 16384):
            q = torch.randn(1, 4, length, 32, requires_grad=True)
            kept: dict[int, int] = {}

            def note(one: torch.Tensor, kept: dict[int, int] = kept) -> torch.Tensor:
                kept[one.untyped_storage().data_ptr()] = one.untyped_storage().nbytes()
                return one

            begun = time.process_time()
            with torch.autograd.graph.saved_tensors_hooks(note, lambda one: one):
                attention(q, q, q, mask).sum().backward()
            spent = time.process_time() - begun
            print(f"{name:14} {length:6} tokens: {sum(kept.values()) / 2**20:7.1f} MB kept, {1e3 * spent:8.1f} ms")


def main() -> None:
    """What the first word asks for."""
    what = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else "step"
    given, clock = options(__doc__, rounds=3)
    if what == "step":
        step(given.rounds, given.threads, clock)
    elif what == "cache":
        cache(clock)
    elif what == "windows":
        windows()
    else:
        raise SystemExit(f"step, cache or windows, got {what}")


if __name__ == "__main__":
    main()
