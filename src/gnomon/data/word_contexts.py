"""Domain of texts of which it matters what stands together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.data.sequences import Tokens

__all__ = ["WordContexts"]

TOPICS = (("sun", "dial", "shadow", "hour", "noon"), ("boat", "sail", "wind", "wave", "tide"))
RARE = ("gnomon", "keel")


@dataclass(frozen=True)
class WordContexts(Tokens):
    """Text as sentences of tokens, which tell by their company what they mean.

    Parameters
    ----------
    unit, vocabulary, size
        As of `Tokens`.

    Examples
    --------
    >>> WordContexts("word").read_first(["sun and shadow"], 1, ("<unk>",))[1].values.tolist()
    [3, 1, 2]
    """

    noun: ClassVar[str] = "a text"

    def example(self, random: np.random.Generator, n: int, groups: NDArray[np.int64] | None = None) -> list[str]:
        """Sentences of three to eight words, each of one of two topics, which have a rare word each."""
        topics, lengths = random.integers(0, 2, n), random.integers(3, 9, n)
        found = [random.choice(TOPICS[t], size=m).tolist() for t, m in zip(topics, lengths, strict=True)]
        for topic, word in enumerate(RARE):
            for place in np.flatnonzero(topics == topic)[:2]:
                found[place][0] = word
        return [" ".join(sentence) for sentence in found]

    def shuffled(self, X: list[str], random: np.random.Generator) -> list[str]:
        """The words dealt anew by chance, sentences as long as before."""
        words = random.permutation([word for sentence in X for word in sentence.split()]).tolist()
        return [" ".join(words.pop() for _ in sentence.split()) for sentence in X]
