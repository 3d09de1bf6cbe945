"""Attention against its limits: transformer-lm and bert beside bare torch loops, generation with a cache, windows.

    python benchmarks/attention.py step [--threads 1]      # an update of transformer-lm and of a loop by hand: minutes
    python benchmarks/attention.py bert [--threads 1]      # an update of bert, hidden tokens alone, and by hand
    python benchmarks/attention.py cache                   # 256 tokens with keys and values kept, and without
    python benchmarks/attention.py windows                 # memory and time of texts of 1k, 4k and 16k tokens

The loops by hand have the same layers, torch's fused attention, the same positions, Adam and clipping, and read windows
of one sentence, of which bert's hides tokens anew at every update; nothing else: no record, no check for numbers that
are not finite, no order of its own. Both are the best of several rounds in which they take turns. With one thread the
clock is the processor's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from turns import Clock, options, seconds_of

import gnomon
from gnomon.data.counting import BOS
from gnomon.data.packing import MASK
from gnomon.nn.attention_engine import attention
from gnomon.nn.attention_masks import ByHead, Causal, Mask, SlidingWindow

ROWS, WINDOW, WIDTH, HEADS, INNER, LAYERS = 32, 64, 128, 4, 512, 3
UPDATES = 25
LETTERS = list("abcdefghijklmnopqrstuvwxyz ,.;:-()[]{}0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")


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


class Encoder(nn.Module):
    """What bert is without its pooler: embeddings, layers with norms after the sums, scores of the chosen tokens."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, WIDTH), nn.Embedding(WINDOW, WIDTH)
        self.segments, self.norm = nn.Embedding(2, WIDTH), nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(After() for _ in range(LAYERS))
        self.head = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH))
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        """Scores of the chosen tokens."""
        x = self.norm(self.tokens(x) + self.places.weight + self.segments(torch.zeros_like(x)))
        for layer in self.layers:
            x = layer(x)
        return nn.functional.linear(self.head(x[chosen]), self.tokens.weight, self.bias)


class After(Layer):
    """Norms after the sums, as published; no turns."""

    def forward(self, x: torch.Tensor, turn: torch.Tensor | None = None) -> torch.Tensor:
        """The same shape (n, T, D)."""
        q, k, v = (one(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.query, self.key, self.value))
        found = nn.functional.scaled_dot_product_attention(q, k, v)
        x = self.norm_1(x + self.out(found.transpose(1, 2).flatten(2)))
        return self.norm_2(x + self.network(x))


def next_tokens(net: nn.Module, rows: torch.Tensor) -> torch.Tensor:
    """The loss of a language model on windows (n, T + 1)."""
    return nn.functional.cross_entropy(net(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


def hidden_tokens(net: nn.Module, rows: torch.Tensor) -> torch.Tensor:
    """The loss of masked language modeling on rows (n, T + 1), of which the last column is left out."""
    rows = rows[:, :-1]
    chosen, fate = torch.rand(rows.shape) < 0.15, torch.rand(rows.shape)
    words = torch.randint_like(rows, 5, len(LETTERS) + 5)
    shown = torch.where(chosen & (fate < 0.8), MASK, torch.where(chosen & (fate < 0.9), words, rows))
    return nn.functional.cross_entropy(net(shown, chosen), rows[chosen])


def by_hand(net: nn.Module, loss: Callable[..., torch.Tensor], vocabulary: int, clock: Clock) -> float:
    """Seconds of an update of a plain loop, the best of two runs after one to warm up."""
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    ids = torch.from_numpy(np.random.default_rng(0).integers(5, vocabulary - 1, (UPDATES, ROWS, WINDOW + 1)))
    seconds = []
    for _ in range(3):
        begun = clock()
        for rows in ids:
            optimizer.zero_grad()
            loss(net, rows).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
        seconds.append((clock() - begun) / UPDATES)
    return min(seconds[1:])


def step(rounds: int, threads: int, clock: Clock) -> None:
    """An update of transformer-lm, ours and by hand."""
    sentence = "".join(np.random.default_rng(0).choice(LETTERS, ROWS * WINDOW * UPDATES))
    compare(model(), [sentence], Net, next_tokens, (rounds, threads, clock))


def pretraining(rounds: int, threads: int, clock: Clock) -> None:
    """An update of bert on rows that are full, ours and by hand."""
    drawn = np.random.default_rng(0).choice(LETTERS, (ROWS * UPDATES, WINDOW - 2))
    mine = gnomon.BERT(
        unit="char", window=WINDOW, batch_size=ROWS, n_embedding=WIDTH, n_heads=HEADS, n_hidden=INNER, n_layers=LAYERS,
        epochs=2, dropout=0.0, next_sentence=False, schedule="constant", random_state=0,
    )  # fmt: skip
    documents = [line for row in drawn for line in ("".join(row), "")]
    compare(mine, documents, Encoder, hidden_tokens, (rounds, threads, clock))


def compare(mine: Any, text: list[str], net: type[nn.Module], loss: Callable[..., torch.Tensor], how: Any) -> None:
    """Print what an update takes, ours and by hand, in turns."""
    rounds, threads, clock = how
    pairs = []
    for _ in range(rounds):
        own, n = seconds_of(partial(mine.fit, text), threads, clock), len(mine.vocabulary_)
        pairs.append((own, by_hand(net(n), loss, n, clock)))
    ours, hand = (min(times) for times in zip(*pairs, strict=True))
    print(f"update of {mine.name}, {ROWS} x {WINDOW} tokens, {LAYERS} layers of {WIDTH}, {threads} threads:")
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
    elif what == "bert":
        pretraining(given.rounds, given.threads, clock)
    elif what == "cache":
        cache(clock)
    elif what == "windows":
        windows()
    else:
        raise SystemExit(f"step, bert, cache or windows, got {what}")


if __name__ == "__main__":
    main()
