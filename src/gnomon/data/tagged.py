"""Texts whose words have a tag each: the domain of the texts, and the tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnomon.data.documents import COMMON, TOPICS, Documents
from gnomon.data.packing import UNK, pack, room
from gnomon.data.sequences import Tokens
from gnomon.errors import UserTypeError, UserValueError, counted, shown
from gnomon.numeric.ragged import Ragged

__all__ = ["ReadWords", "TaggedTexts", "WordTags"]

SPACED = ("char", "byte", "jieba")
"""Units that have the blank before a word as a token of its own."""

Ints = NDArray[np.int64]


class ReadWords(NamedTuple):
    """Texts as rows that a network reads; a text of many words is several rows, one without a word is none.

    Attributes
    ----------
    rows : Ragged
        Ids of each row, ``<cls> words <sep>``.
    heads : Ragged
        Of each row, where its words' first tokens stand in it. The words of all rows are those of all texts, in order.
    owner : int64 array
        The text that each row is of.
    counts : int64 array
        Words of each text.
    """

    rows: Ragged
    heads: Ragged
    owner: Ints
    counts: Ints


@dataclass(frozen=True)
class TaggedTexts(Documents):
    """A text to each row, whose words are what stands between white space; texts may be empty.

    Parameters
    ----------
    unit, vocabulary, longest, size
        As of `Documents`: what words are cut into.
    pair : bool, default False
        A row holds one text.

    Examples
    --------
    >>> texts = ["sun and sea", "", "sea"]
    >>> found = TaggedTexts().learn(texts).read(texts)
    >>> [row.tolist() for row in found.rows], [row.tolist() for row in found.heads], found.owner.tolist()
    ([[2, 7, 6, 5, 3], [2, 5, 3]], [[1, 2, 3], [1]], [0, 2])
    """

    pair: bool | None = field(default=False, compare=False)
    noun: ClassVar[str] = "texts"

    def words(self, X: Any, *, name: str = "X") -> list[list[str]]:
        """The words of each text."""
        return [text.split() for text in self.check(X, name=name)[0]]

    def read(self, X: Any, *, name: str = "X") -> ReadWords:
        """The rows that texts make, and where each word begins in them.

        A word's tokens are those that the unit cuts it into behind a blank. No word is parted over two rows: of a word
        of more tokens than half a row the first ones are read.
        """
        if self.vocabulary is None:
            raise TypeError("rows need a vocabulary: use learn(X) first")
        words = self.words(X, name=name)
        counts = np.array([len(one) for one in words], np.int64)
        space = np.iinfo(np.int64).max // 4 if self.longest is None else room(self.longest, pair=False)
        tokens, before = self._tokens(words, max(2, space // 2))
        owner = np.repeat(np.arange(len(counts)), counts)
        widest = np.ones(len(counts), np.int64)
        np.maximum.at(widest, owner, tokens.lengths)
        starts = tokens.offsets[:-1] - tokens.offsets[(np.cumsum(counts) - counts)[owner]]
        number = starts // (space - widest + 1)[owner]  # with the word that begins last a row has `space` at most
        first = np.ones(len(owner), bool)
        first[1:] = (owner[1:] != owner[:-1]) | (number[1:] != number[:-1])
        begin = np.flatnonzero(first)
        ends = np.append(begin, len(owner))
        row = np.cumsum(first) - 1
        rows = Ragged(tokens.values, tokens.offsets[ends])
        heads = 1 + tokens.offsets[:-1] - rows.offsets[row] + before
        return ReadWords(_packed(rows), Ragged(heads, ends), owner[begin], counts)

    def ingest(self, X: Any, *, dtype: Any = None, name: str = "X") -> Ragged:
        """The rows of `read`."""
        return self.read(X, name=name).rows

    def _tokens(self, words: list[list[str]], most: int) -> tuple[Ragged, Ints]:
        """At most so many tokens of each word of all texts, and how many of them are the blank before it."""
        known: dict[str, int] = {}
        apart = "" if self.unit == "word" else " "
        spelled = (apart + one if place else one for text in words for place, one in enumerate(text))
        index = np.array([known.setdefault(one, len(known)) for one in spelled], np.int64)
        if not known:
            return Ragged(np.zeros(0, np.int64), np.zeros(1, np.int64)), index
        found = _never_empty(Tokens(self.unit, self.vocabulary).ingest(list(known)))
        lengths = np.minimum(found.lengths, most)
        kept = np.arange(len(found.values)) - np.repeat(found.offsets[:-1], found.lengths) < np.repeat(
            lengths, found.lengths
        )
        cut = Ragged(found.values[kept], np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))
        blank = np.array([one.startswith(" ") and self.unit in SPACED for one in known], np.int64)
        return cut.take(index), np.minimum(blank, lengths - 1)[index]

    def describe(self) -> str:
        """What data of this domain is, in a few words."""
        return "texts with a tag for each word: a list of strings"

    def shuffled(self, X: Any, random: np.random.Generator) -> list[str]:
        """Every text with as many words as before, drawn from those of all texts."""
        words = self.words(X)
        mixed = iter(random.permutation([word for text in words for word in text]).tolist())
        return [" ".join(next(mixed) for _ in text) for text in words]

    def malformed(self) -> list[Any]:
        """What is none of texts, and pairs of texts."""
        return [*super().malformed(), [("a", "b")]]


def _never_empty(tokens: Ragged) -> Ragged:
    """The tokens of words, ``<unk>`` for a word of which a tokenizer leaves nothing."""
    lengths = np.maximum(tokens.lengths, 1)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    values = np.full(offsets[-1], UNK, np.int64)
    values[np.repeat(tokens.lengths > 0, lengths)] = tokens.values
    return Ragged(values, offsets)


def _packed(rows: Ragged) -> Ragged:
    """Rows between ``<cls>`` and ``<sep>``."""
    packed = pack(rows)
    inside = np.arange(packed.ids.shape[1]) < packed.lengths[:, None]
    return Ragged(packed.ids[inside], np.concatenate([np.zeros(1, np.int64), np.cumsum(packed.lengths)]))


class WordTags:
    """A tag for each word of texts: a string of tags with blanks between them, or a list of tags, for each text.

    Examples
    --------
    >>> classes, codes = WordTags().encode(["N V", ["N"]], np.array([2, 1]))
    >>> classes.tolist(), codes.tolist()
    (['N', 'V'], [0, 1, 0])
    """

    def check(self, y: Any, counts: Ints, name: str = "y") -> NDArray[np.str_]:
        """The tags of all words, one after the other.

        Raises
        ------
        UserError
            No tags; another number of texts, or of tags than a text has words, with its row.
        """
        if y is None:
            what = f"this system requires {name} to be passed, but the target {name} is None"
            raise UserValueError(what, name, "give a string of tags for each text")
        if isinstance(y, str) or not hasattr(y, "__len__"):
            raise UserTypeError(f"{name} must be a list of tags for each text, got {shown(y)}", name, "give [tags]")
        if len(y) != len(counts):
            what = f"{name} must have the tags of {counted(len(counts), 'text')}, got {len(y)}"
            raise UserValueError(what, name, "give one string, or list, of tags for each text")
        each = [_tags(one, row) for row, one in enumerate(y)]
        wrong = np.flatnonzero(np.array([len(one) for one in each], np.int64) != counts)
        if len(wrong):
            row = int(wrong[0])
            what = f"there must be a tag for each of {counted(int(counts[row]), 'word')}, got {len(each[row])}"
            raise UserValueError(what, f"row {row}", "words and tags are what stands between white space")
        return np.array([tag for one in each for tag in one], np.str_)

    def encode(self, y: Any, counts: Ints, name: str = "y") -> tuple[NDArray[np.str_], Ints]:
        """The tags, sorted, and the place of each word's tag among them.

        Raises
        ------
        UserError
            As `check` does, and where no text has a word.
        """
        tags = self.check(y, counts, name)
        if not len(tags):
            raise UserValueError("no text has a word", name, "give texts with words")
        classes, codes = np.unique(tags, return_inverse=True)
        return classes, codes.astype(np.int64)

    def locate(self, y: Any, classes: NDArray[np.str_], counts: Ints, name: str = "y") -> Ints:
        """The place of each word's tag among known ones, their number where it is another."""
        tags = self.check(y, counts, name)
        place = np.minimum(np.searchsorted(classes, tags), len(classes) - 1)
        return np.where(classes[place] == tags, place, len(classes)).astype(np.int64)

    def space(self, n_classes: int) -> str:
        """Name of the data space, for scores."""
        return f"pmf on {n_classes} tags of a word"

    def example(self, texts: Sequence[str]) -> NDArray[np.str_]:
        """Tags of the example's texts: the number of a word's topic, or ``common``."""
        topic = {word: f"topic{number}" for number, topic in enumerate(TOPICS) for word in topic}
        topic |= dict.fromkeys(COMMON, "common")
        return np.array([" ".join(topic.get(word, "common") for word in text.split()) for text in texts], np.str_)


def _tags(one: Any, row: int) -> list[str]:
    """The tags of a text."""
    if isinstance(one, str):
        return one.split()
    if not isinstance(one, list | tuple | np.ndarray):
        raise UserTypeError(
            f"tags must be a string or a list of strings, got {shown(one)}", f"row {row}", "give 'N V N'"
        )
    tags = [str(tag) for tag in one]
    bad = next((tag for tag in tags if not tag or tag.split() != [tag]), None)
    if bad is not None:
        raise UserValueError(f"a tag must have no white space, got {shown(bad)}", f"row {row}", "write N-V, say")
    return tags
