"""The domain of text: sentences of tokens, and their ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from numpy import cumsum, int64

from gnomon.data.text import Unit, Vocabulary, sentences
from gnomon.numeric.ragged import Ragged

__all__ = ["Tokens", "encode"]


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


def encode(text: Sequence[Sequence[str]], vocabulary: Vocabulary) -> Ragged:
    """Ids of all sentences."""
    offsets = cumsum([0, *map(len, text)], dtype=int64)
    return Ragged(vocabulary.encode(list(chain.from_iterable(text))), offsets)
