"""Sentences as a fit takes them: one array of ids, cut by offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data.text import Unit, Vocabulary, sentences

__all__ = ["Tokens", "encode"]

BLOCK_TOKENS = 1 << 22
"""Tokens that one step of a fit counts: a hundred megabytes or so of keys."""

Encoded = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True)
class Tokens:
    """Text as sentences of tokens.

    Parameters
    ----------
    unit : {"word", "char", "byte"}
        What a string is cut into; see `gnomon.data.text.sentences` for what may be given.
    """

    unit: Unit = "word"

    def check(self, X: Any) -> list[list[str]]:
        """The sentences, each a list of tokens.

        Raises
        ------
        UserError
            No token at all, or something that is no text, with its place.
        """
        return sentences(X, self.unit)

    def describe(self) -> str:
        """What data of this domain is, in a few words."""
        return f"text as {self.unit}s: a string, or a list of sentences"

    def space(self, n_ids: int) -> str:
        """Name of the data space: scores per token are comparable for the same tokens and vocabulary size alone."""
        return f"sentences of {self.unit}s, vocabulary of {n_ids}"


def encode(text: Sequence[Sequence[str]], vocabulary: Vocabulary) -> Encoded:
    """Ids of all sentences and the offsets that cut them."""
    offsets = np.cumsum([0, *map(len, text)], dtype=np.int64)
    return vocabulary.encode(list(chain.from_iterable(text))), offsets
