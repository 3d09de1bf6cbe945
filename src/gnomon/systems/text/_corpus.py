"""Sentences as a fit takes them: one array of ids, cut by offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Group
from gnomon.data.dataset import fingerprint
from gnomon.data.text import Unit, Vocabulary, sentences

__all__ = ["Corpus", "Tokens", "encode"]

PIECE_TOKENS = 1 << 22
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


@dataclass(frozen=True, eq=False)
class Corpus:
    """An encoded text with its vocabulary.

    Parameters
    ----------
    text : pair (ids, offsets)
    vocabulary : Vocabulary
    held_out : pair (ids, offsets), optional
        The validation text.
    """

    text: Encoded
    vocabulary: Vocabulary
    held_out: Encoded | None = None

    def fingerprint(self) -> str:
        """BLAKE2b over everything the fit sees."""
        held_out = (None,) if self.held_out is None else self.held_out
        return fingerprint(*self.text, *self.vocabulary.state().values(), *held_out)

    def pieces(self, group: Group) -> list[Encoded]:
        """This process's part of every piece: whole sentences, in all about `PIECE_TOKENS` to a piece.

        The pieces are the same for any number of processes; a part may be empty.
        """
        ids, offsets = self.text
        size, n = max(1, -(-ids.size // PIECE_TOKENS)), offsets.size - 1
        ends = np.searchsorted(offsets, np.arange(1, size) * PIECE_TOKENS)
        cuts = [0, *ends.tolist(), n]
        parts = []
        for begin, end in pairwise(cuts):
            first = begin + group.rank * (end - begin) // group.size
            last = begin + (group.rank + 1) * (end - begin) // group.size
            parts.append((ids[offsets[first] : offsets[last]], offsets[first : last + 1] - offsets[first]))
        return parts
