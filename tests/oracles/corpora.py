"""Small random texts of token ids."""

from __future__ import annotations

import itertools

import numpy as np


def zipf(seed: int, vocabulary: int, tokens: int, sentences: int) -> tuple[np.ndarray, np.ndarray]:
    """Ids 3 to vocabulary - 1 with probabilities falling as rank to the power -1.5, in sentences cut at random."""
    rng = np.random.default_rng(seed)
    p = 1 / np.arange(1, vocabulary - 2) ** 1.5
    offsets = np.concatenate([[0], np.sort(rng.integers(0, tokens, sentences - 1)), [tokens]])
    return rng.choice(vocabulary - 3, tokens, p=p / p.sum()) + 3, offsets


def lines(text: tuple[np.ndarray, np.ndarray]) -> list[list[int]]:
    """The sentences as lists."""
    return [list(map(int, text[0][b:e])) for b, e in itertools.pairwise(text[1])]
