"""Word vectors judged by held-out text: whether words that share a sentence are closer than words that need not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Noise
from gnomon.evaluation.score import Score
from gnomon.numeric.ragged import Ragged

__all__ = ["neighbor_auc"]

Ints = NDArray[np.int64]
MOST_DRAWS, PAIRS = 16, 1 << 18
"""Pairs of each token at most, and of all tokens of a text, where it has fewer."""
Similarity = Callable[[Ints, Ints], NDArray[np.float64]]


def neighbor_auc(text: Ragged, similarity: Similarity, noise: Noise, *, data_space: str = "") -> Score:
    """How often a word is more similar to another one of its sentence than to a random word of the text.

    Known tokens have partners, drawn from the other places of their sentence, and as many rivals, drawn from all places
    of the text, so that frequent words gain nothing by being frequent: 1/2 is chance. Ties count half; where partner or
    rival is unknown, or the word itself, nothing is said.

    Parameters
    ----------
    text : Ragged of int64
        Ids of the tokens of each sentence; 0 is an unknown word.
    similarity : callable
        Similarities of words a and b, arrays of ids of shape (n,).
    noise : Noise
        What is drawn from.
    data_space : str
        What the text is of.

    Returns
    -------
    Score
        ``neighbor_auc``, a fraction, with its standard error over sentences.

    Notes
    -----
    Draws for each token: 16, fewer in long texts, one from 2^18 tokens on. Cost as many similarities.

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> text = Ragged.of([[1, 2]] * 20 + [[3, 4]] * 20)
    >>> together = lambda a, b: ((a > 2) == (b > 2)).astype(float)
    >>> neighbor_auc(text, together, Noise(0, "pairs")).value > 0.7
    True
    """
    owner = np.repeat(np.arange(len(text)), text.lengths)
    n = len(owner)
    draws = min(MOST_DRAWS, max(1, PAIRS // max(1, n)))
    u = noise.rows(np.arange(n)).uniform((n, 2 * draws), like=np.zeros(0))
    word, owner, at = (np.repeat(one, draws) for one in (text.values, owner, np.arange(n)))
    begin, lengths = text.offsets[owner], text.lengths[owner]
    step = 1 + (u[:, :draws].ravel() * (lengths - 1)).astype(np.int64)  # places on, around the sentence's end
    partner = text.values[begin + (at - begin + step) % lengths]
    rival = text.values[(u[:, draws:].ravel() * n).astype(np.int64)]
    judged = (lengths > 1) & (word > 0) & (partner > 0) & (rival > 0) & (partner != word) & (rival != word)
    a = word[judged]
    near, far = similarity(a, partner[judged]), similarity(a, rival[judged])
    won = (near > far) + 0.5 * (near == far)
    counts = np.bincount(owner[judged], minlength=len(text))
    sums = np.bincount(owner[judged], won, len(text))
    weight = counts if counts.any() else np.ones(len(text))  # NaN, and not refused, where nothing can be said
    values = np.divide(sums, counts, out=np.full(len(text), 0.0 if counts.any() else np.nan), where=counts > 0)
    return Score.from_pointwise(
        values, weight=weight, name="neighbor_auc", unit="fraction", data_space=data_space,
        note="" if judged.any() else "no sentence has two different known words",
    )  # fmt: skip
