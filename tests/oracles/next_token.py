"""Next-token models given by a table from contexts to distributions, and the search that tries every sequence."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class Told:
    """The distribution after each sequence of tokens is what a function says of it; ids up to `prompt` are left out."""

    def __init__(self, row: Callable[[tuple[int, ...]], Any]) -> None:
        self.row = row
        self.steps = 0

    def start(self, contexts: Sequence[Sequence[int]]) -> dict[str, Any]:
        history = np.empty(len(contexts), object)
        for i, context in enumerate(contexts):
            history[i] = tuple(context)
        return {"history": history}

    def step(self, tokens: Any, state: Any) -> tuple[Any, Any]:
        self.steps += len(tokens)
        history = np.empty(len(tokens), object)
        for i, (before, token) in enumerate(zip(state["history"], tokens, strict=True)):
            history[i] = (*before, int(token))
        with np.errstate(divide="ignore"):
            return np.log(np.array([self.row(one) for one in history], float)), {"history": history}

    def select(self, state: Any, index: Any) -> dict[str, Any]:
        return {"history": state["history"][index]}


def random_model(vocabulary: int, seed: int) -> Told:
    """A distribution of its own after every sequence."""

    def row(history: tuple[int, ...]) -> Any:
        return np.random.default_rng([seed, *history]).dirichlet(np.full(vocabulary, 0.7))

    return Told(row)


def log(p: float) -> float:
    """Of 0 it is -inf."""
    return float(np.log(p)) if p > 0 else -np.inf


def every_sequence(
    model: Told, prompt: Sequence[int], vocabulary: int, length: int, end: int | None
) -> dict[Any, float]:
    """Log probability of every sequence that ends within `length` tokens, or is cut there."""
    found: dict[Any, float] = {}
    for tokens in itertools.product(range(vocabulary), repeat=length):
        kept = tokens[: tokens.index(end) + 1] if end in tokens else tokens
        total, history = 0.0, tuple(prompt)
        for token in kept:
            total += log(model.row(history)[token])
            history = (*history, token)
        found[kept] = total
    return found
