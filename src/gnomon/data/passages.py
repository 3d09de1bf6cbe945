"""A text cut into passages, and pairs of passages of which the second follows the first, or does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Noise
from gnomon.data.examples import Dense, Examples
from gnomon.data.packing import SPECIALS
from gnomon.data.sequences import WORDS, Text, Tokens, held
from gnomon.errors import UserValueError
from gnomon.numeric.ragged import Ragged

__all__ = ["Corpus", "Pairing", "passages", "stretches"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Corpus(Tokens):
    r"""Text as sentences of tokens, in documents: an empty sentence stands between two.

    A string is a text whose blank lines stand between documents; of a list of strings some of which have several
    lines, each is a document.

    Parameters
    ----------
    unit, vocabulary
        As of `Tokens`.

    Examples
    --------
    >>> Corpus("word").check("one two\nthree\n\nfour") == Corpus("word").check(["one two\nthree", "four"])
    True
    >>> Corpus("word").check(["one two\nthree", "four"])
    [['one', 'two'], ['three'], [], ['four']]
    """

    noun: ClassVar[str] = "a text"

    def check(self, X: Any, *, name: str = "X", dtype: Any = None) -> Text:  # type: ignore[override]
        """The sentences, each a list of tokens."""
        return super().check(_separated(held(X)), name=name, dtype=dtype)

    def read_first(self, X: Any, min_count: int = 1, specials: Sequence[str] = SPECIALS) -> tuple[Self, Ragged]:
        """The domain with the vocabulary of a text, and the ids of its sentences."""
        return super().read_first(_separated(held(X)), min_count, specials)

    def example(self, random: np.random.Generator, n: int, groups: Ints | None = None) -> list[str]:
        """Sentences of three to eight words, each the one that follows the word before it."""
        begins, lengths = random.integers(0, len(WORDS), n), random.integers(3, 9, n)
        return [" ".join(WORDS[(a + i) % len(WORDS)] for i in range(m)) for a, m in zip(begins, lengths, strict=True)]

    def shuffled(self, X: Any, random: np.random.Generator) -> list[str]:
        """The words in an order of chance, sentences as long as before."""
        words = random.permutation([word for sentence in X for word in sentence.split()]).tolist()
        return [" ".join(words.pop() for _ in sentence.split()) for sentence in X]


def _separated(X: Any) -> Any:
    """Sentences, an empty one between documents."""
    if isinstance(X, str):
        return _lines(X)
    if not isinstance(X, list | tuple) or not all(isinstance(one, str) for one in X):
        return X
    if not any("\n" in one.strip() for one in X):
        return X
    return [line for one in X for line in (*_lines(one), "")][:-1]


def _lines(text: str) -> list[str]:
    ends = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return [line if line.strip() else "" for line in ends.split("\n")]


def stretches(lengths: Ints, per_document: int | None = None) -> Ints:
    """The document of each sentence, -1 of the empty ones, which stand between documents.

    Parameters
    ----------
    lengths : int64 array of shape (sentences,)
    per_document : int, optional
        Sentences that count as a document where no empty one stands between others.

    Examples
    --------
    >>> stretches(np.array([3, 2, 0, 0, 5])).tolist(), stretches(np.array([3, 2, 5]), 2).tolist()
    ([0, 0, -1, -1, 1], [0, 0, 1])
    """
    some = lengths > 0
    begins = some & ~np.concatenate([[False], some[:-1]])
    document = np.cumsum(begins) - 1
    if per_document is not None and len(document) and document[-1] == 0:
        document = (np.cumsum(some) - 1) // per_document
    return np.where(some, document, -1)


@dataclass(frozen=True)
class Pairing:
    """Passages, and the documents that they are of: what stands behind a passage is drawn from here.

    Attributes
    ----------
    text : Ragged
        The passages, in the order of the text.
    document : int64 array of shape (passages,)
        Never falling.
    """

    text: Ragged
    document: Ints

    def state(self) -> Mapping[str, NDArray[Any]]:
        """As arrays."""
        return {"values": self.text.values, "offsets": self.text.offsets, "document": self.document}

    @property
    def several(self) -> bool:
        """Whether there is more than one document."""
        return bool(len(self.document)) and bool(self.document[0] != self.document[-1])

    def others(self, document: Ints, noise: Noise) -> Ints:
        """For each row a passage of another document, each as probable as any other.

        Parameters
        ----------
        document : int64 array of shape (n,)
        noise : Noise
            Of the rows.
        """
        begin, end = (np.searchsorted(self.document, document, side) for side in ("left", "right"))
        room = len(self.document) - (end - begin)
        drawn = np.asarray(noise.uniform((len(document),), like=np.zeros(1)))
        chosen = np.minimum((drawn * room).astype(np.int64), room - 1)
        return np.where(chosen < begin, chosen, chosen + end - begin)

    def pairs(self, a: Ragged, b: Ragged, document: Ints, noise: Noise) -> tuple[Ragged, NDArray[np.int64]]:
        """Second passages, and whether they are the ones that follow: half of them, in expectation.

        Parameters
        ----------
        a, b : Ragged
            First passages, and those that follow them; where nothing follows, b is empty, stays so, and says -1.
        document : int64 array of shape (n,)
        noise : Noise
            Of the rows.

        Returns
        -------
        Ragged, int64 array of shape (n,)
            1 where b follows, 0 where a passage of another document stands in its place. One that is the same as b,
            token by token, counts as following.
        """
        follows = np.asarray(noise.child("follows").uniform((len(a),), like=np.zeros(1))) < 0.5
        paired = b.lengths > 0
        other = self.text.take(self.others(document, noise.child("other")))
        joined = b.join(other)
        second = joined.take(np.arange(len(a)) + len(a) * (paired & ~follows))
        follows |= _equal(b, other)
        return second, np.where(paired, follows.astype(np.int64), -1)


def _equal(one: Ragged, other: Ragged) -> NDArray[np.bool_]:
    """Which texts are the same."""
    a, b = one.padded(-1), other.padded(-1)
    width = min(a.shape[1], b.shape[1])
    same: NDArray[np.bool_] = (one.lengths == other.lengths) & (a[:, :width] == b[:, :width]).all(1)
    return same


def passages(text: Ragged, document: Ints, room: int, *, pairs: bool) -> Examples:
    """Examples of passages of neighboring sentences: one to a row, or two of which the second follows the first.

    A document is cut where a sentence begins in another stretch of so many tokens, `room`, or half of it for pairs;
    a document of several sentences has at least two passages then. A passage may be longer by a part of its last
    sentence. Every passage is the first one of a row; that of the last one of a document has nothing behind it.

    Parameters
    ----------
    text : Ragged
        Sentences.
    document : int64 array of shape (sentences,)
        As `stretches` gives it.
    room : int >= 1
        Tokens that a row has room for.
    pairs : bool

    Returns
    -------
    Examples
        With the fields ``X`` and ``next`` (ragged) and ``document``, and all passages as ``shared["passages"]``.

    Raises
    ------
    UserValueError
        No sentence with a token.

    Examples
    --------
    >>> found = passages(Ragged.of([[5, 6], [7, 8], [9]]), np.array([0, 0, 1]), 8, pairs=True)
    >>> [one.tolist() for one in found["X"]], [one.tolist() for one in found["next"]]
    ([[5, 6], [7, 8], [9]], [[7, 8], [], []])
    """
    kept = document >= 0
    text, document = text.take(kept), document[kept]
    if not len(text):
        raise UserValueError("the text has no tokens", "", "give at least one sentence with a token")
    size = max(1, room // 2 if pairs else room)
    first = np.searchsorted(document, document)  # of the sentence's document
    piece = (text.offsets[:-1] - text.offsets[first]) // size
    if pairs:
        last = np.searchsorted(document, document, "right") - 1
        whole = (piece[last] == 0) & (last > first)
        piece = np.where(whole, (2 * (np.arange(len(text)) - first) > last - first).astype(np.int64), piece)
    begins = np.concatenate([[True], (np.diff(document) != 0) | (np.diff(piece) != 0)])
    starts = np.flatnonzero(begins)
    cut = Ragged(text.values, np.append(text.offsets[starts], text.offsets[-1]))
    table = Pairing(cut, document[starts])
    return _rows(table, pairs)


def _rows(table: Pairing, pairs: bool) -> Examples:
    """Passages with those behind them."""
    n, document = len(table.document), table.document
    none = Ragged(table.text.values[:0], np.zeros(2, np.int64))
    follows = np.append(document[1:] == document[:-1], False) & pairs
    behind = table.text.join(none).take(np.where(follows, np.arange(1, n + 1), n))
    fields = {"X": table.text, "next": behind, "document": Dense(document)}
    return Examples(fields, shared={"passages": table})
