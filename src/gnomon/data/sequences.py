"""Domains of sequences: texts as token ids, and pairs of texts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from gnomon.data.scripts import NOTICE, closed, has_no_spaces, is_of_characters, spaced
from gnomon.data.text import Unit, Vocabulary, detokenize, listed, plural, sentences, tokens_of
from gnomon.data.tokenizers import LEARNED, Subwords, SubwordTokenizer
from gnomon.distributions.domains import Domain
from gnomon.errors import UserTypeError, UserValueError, shown
from gnomon.numeric.ragged import Ragged

__all__ = ["Pairs", "Tokens", "encode", "held"]

WORDS = ("sun", "dial", "shadow", "hour", "noon", "casts", "the")
USUAL = ("<unk>", "<s>", "</s>")
"""Special symbols of language models."""
LETTERS = ("a", "b", "c", "d", "e")

Text = list[list[str]]


def held(X: Any) -> Any:
    """A text that can be gone through twice."""
    if hasattr(X, "view") and hasattr(X, "text"):
        return X.view("text")
    return X if isinstance(X, str | bytes | list | tuple) else listed(X, "X", "text", "give a list of sentences")


def encode(text: Sequence[Sequence[str]], vocabulary: Vocabulary) -> Ragged:
    """Ids of all sentences."""
    offsets = np.cumsum([0, *map(len, text)], dtype=np.int64)
    return Ragged(vocabulary.encode(list(chain.from_iterable(text))), offsets)


def cut_by(unit: Unit, vocabulary: Vocabulary | None) -> Unit | Subwords:
    """What cuts strings: the unit, or the pieces that were learned; before that, characters stand for them."""
    if unit not in LEARNED:
        return unit
    return vocabulary if isinstance(vocabulary, Subwords) else "char"


def learned(strings: Any, unit: Unit, size: int, min_count: int, specials: Sequence[str] = USUAL) -> Subwords:
    """The pieces of a text of strings, as the ids of a system."""
    if unit not in LEARNED:
        raise UserValueError.must("unit", f"be one of {', '.join(LEARNED)}", unit)
    kind: Any = unit
    return Subwords(SubwordTokenizer.train(strings, size, kind, min_count=min_count), specials)


@dataclass(frozen=True)
class Tokens(Domain):
    """Text as sentences of tokens.

    Parameters
    ----------
    unit : {"word", "char", "byte", "jieba", "bpe", "byte-bpe", "marked-bpe", "wordpiece"}
        What a string is cut into; see `gnomon.data.text.sentences` for what may be given, and
        `gnomon.data.tokenizers.SubwordTokenizer` for the last four, which are learned from text that is not cut yet.
    vocabulary : Vocabulary, optional
        Ids of the tokens; `learn` finds them. A token outside of it gets that of ``<unk>``.
    size : int, default 4000
        Pieces that a learned unit may have.

    Examples
    --------
    >>> text = ["sun and shadow", "sun"]
    >>> Tokens("word").learn(text).ingest(text).lengths.tolist()
    [3, 1]
    """

    unit: Unit = "word"
    vocabulary: Vocabulary | None = field(default=None, compare=False)
    size: int = 4000
    is_table: ClassVar[bool] = False
    noun: ClassVar[str] = "a text"
    view: ClassVar[str] = "text"
    features: ClassVar[str] = "text"
    reads_datasets: ClassVar[bool] = True

    def check(self, X: Any, *, name: str = "X", dtype: Any = None) -> Text:  # type: ignore[override]
        """The sentences, each a list of tokens.

        Raises
        ------
        UserError
            No token at all, or something that is no text, with its place.
        """
        return sentences(spaced(held(X)) if self.cuts else X, self.cut)

    @property
    def cut(self) -> Unit | Subwords:
        """What cuts strings."""
        return cut_by(self.unit, self.vocabulary)

    @cached_property
    def cuts(self) -> bool:
        """Whether characters of scripts without spaces are tokens of their own, as they are in the vocabulary."""
        return self.unit == "word" and self.vocabulary is not None and is_of_characters(self.vocabulary)

    def first(self, X: Any) -> Text:
        """The sentences of the text that the vocabulary is learned from.

        Warns
        -----
        UserWarning
            Words were asked for of a text in a script without spaces, which is cut into characters.
        """
        X = held(X)
        text = sentences(X, self.unit)
        if self.unit != "word" or not has_no_spaces(text):
            return text
        cut = sentences(spaced(X), self.unit)
        if cut != text:
            warnings.warn(NOTICE, UserWarning, stacklevel=2)
        return cut

    def tokens(self, context: str | Sequence[str], name: str) -> list[str]:
        """Tokens of the beginning of a sentence."""
        return tokens_of(spaced(context) if self.cuts and isinstance(context, str) else context, self.cut, name)

    def text(self, tokens: Sequence[str]) -> str:
        """The string of tokens."""
        found = detokenize(tokens, self.cut)
        return closed(found) if self.cuts else found

    def learn(self, X: Any, min_count: int = 1) -> Self:
        """The domain with the vocabulary of a text: tokens, or pairs to merge, that occur at least so many times."""
        return self.read_first(X, min_count)[0]

    def read_first(self, X: Any, min_count: int = 1, specials: Sequence[str] = USUAL) -> tuple[Self, Ragged]:
        """The domain with the vocabulary of a text, and the ids of its sentences; `specials` get the first ids."""
        vocabulary: Vocabulary
        if self.unit in LEARNED:
            strings = held(X)
            sentences(strings, "char")  # says what is no text
            vocabulary = learned(strings, self.unit, self.size, min_count, specials)
            text = sentences(strings, vocabulary)
        else:
            text = self.first(X)
            vocabulary = Vocabulary.fit(text, min_count, specials)
        return replace(self, vocabulary=vocabulary), encode(text, vocabulary)

    def ingest(self, X: Any, *, dtype: Any = None, name: str = "X") -> Ragged:
        """Ids of the sentences."""
        if self.vocabulary is None:
            raise TypeError("ids need a vocabulary: use learn(X) first")
        return encode(self.check(X, name=name), self.vocabulary)

    def columns(self, X: Any, field: Any) -> Any:
        """A text has no columns."""
        return None

    def describe(self) -> str:
        """What data of this domain is, in a few words."""
        return f"text as {plural(self.unit)}: a string, or a list of sentences"

    def space(self, n_ids: int) -> str:
        """Name of the data space: scores per token are comparable for the same tokens and vocabulary size alone."""
        kinds = "words and single characters" if self.cuts else plural(self.unit)
        if isinstance(self.vocabulary, Subwords):
            kinds += f" ({self.vocabulary.tokenizer.digest})"
        return f"sentences of {kinds}, vocabulary of {n_ids}"

    def example(self, random: np.random.Generator, n: int, groups: NDArray[np.int64] | None = None) -> list[str]:
        """Sentences of three to eight words."""
        return [" ".join(random.choice(WORDS, size=random.integers(3, 9))) for _ in range(n)]

    def shuffled(self, X: Any, random: np.random.Generator) -> list[str]:
        """Every sentence from its end to its beginning."""
        return [" ".join(reversed(sentence.split())) for sentence in X]

    def malformed(self) -> list[Any]:
        """No text, no sentence, no token."""
        return [[], 3, [3.5], ["a", None], b"bytes", {"a": 1}]


@dataclass(frozen=True)
class Pairs(Domain):
    """Pairs of texts: a source and what it is to become.

    A pair is two strings or two lists of tokens.

    Parameters
    ----------
    unit : {"word", "char", "byte", "jieba", "bpe", "byte-bpe", "marked-bpe", "wordpiece"}
        What strings are cut into; the pieces of the last four are learned from sources and targets, each by itself.
    source, target : Vocabulary, optional
        Ids of the tokens on each side; `learn` finds them.
    longest : int, optional
        Tokens that a side may have; any number where left out.
    size : int, default 4000
        Pieces that a learned unit may have on each side.

    Examples
    --------
    >>> pairs = [("1 2 3", "3 2 1"), ("7 8", "8 7")]
    >>> fields = Pairs().learn(pairs).ingest(pairs)
    >>> fields["source"].lengths.tolist(), list(fields)
    ([3, 2], ['source', 'target'])
    """

    unit: Unit = "word"
    source: Vocabulary | None = field(default=None, compare=False)
    target: Vocabulary | None = field(default=None, compare=False)
    longest: int | None = field(default=None, compare=False)
    size: int = 4000
    is_table: ClassVar[bool] = False
    noun: ClassVar[str] = "pairs of texts"
    view: ClassVar[str] = "pairs"
    features: ClassVar[str] = "pairs"

    def check(self, X: Any, *, name: str = "X", dtype: Any = None) -> tuple[Text, Text]:  # type: ignore[override]
        """Sources and targets, each a list of sentences of tokens.

        Raises
        ------
        UserError
            No pair, something that is no pair of texts, with its place, or a side without any token.
        """
        pairs = listed(X, name, "a list of pairs", "give (source, target)")
        if not pairs:
            raise UserValueError(f"{name} must have at least 1 pair, got 0", name, "give (source, target) pairs")
        for place, pair in enumerate(pairs):
            if isinstance(pair, str | bytes | Mapping) or not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
                raise UserTypeError(
                    f"a pair must be (source, target), got {shown(pair)}", f"pair {place}", "give two texts"
                )
        sources = sentences([pair[0] for pair in pairs], cut_by(self.unit, self.source))
        targets = sentences([pair[1] for pair in pairs], cut_by(self.unit, self.target))
        if self.unit not in LEARNED or self.target is not None:  # characters that stand for pieces are not counted
            self._refuse_long(sources, "source")
            self._refuse_long(targets, "target")
        return sources, targets

    def _refuse_long(self, side: Text, name: str) -> None:
        """Refuse a text that would be read for minutes without a sign of life."""
        limit = np.inf if self.longest is None else self.longest
        place = next((place for place, one in enumerate(side) if len(one) > limit), None)
        if place is not None:
            n = len(side[place])
            raise UserValueError(
                f"a {name} must have at most {self.longest} {plural(self.unit)}, got {n}", f"pair {place}",
                f"cut it, or allow longest={n}: time and memory grow with the longest text",
            )  # fmt: skip

    def learn(self, X: Any, min_count: int = 1) -> Self:
        """The domain with the vocabularies of both sides."""
        sides = self.check(X)
        source: Vocabulary
        target: Vocabulary
        if self.unit in LEARNED:
            source, target = (learned([pair[side] for pair in X], self.unit, self.size, min_count) for side in (0, 1))
        else:
            source, target = (Vocabulary.fit(side, min_count) for side in sides)
        return replace(self, source=source, target=target)

    def ingest(self, X: Any, *, dtype: Any = None, name: str = "X") -> dict[str, Ragged]:
        """Two fields of ids: ``source`` and ``target``."""
        if self.source is None or self.target is None:
            raise TypeError("ids need vocabularies: use learn(X) first")
        source, target = self.check(X, name=name)
        return {"source": encode(source, self.source), "target": encode(target, self.target)}

    def sources(self, X: Any) -> Ragged:
        """Ids of sources alone, as a fitted system is asked about them."""
        if self.source is None:
            raise TypeError("ids need vocabularies: use learn(X) first")
        found = sentences(X, cut_by(self.unit, self.source))
        self._refuse_long(found, "source")
        return encode(found, self.source)

    def columns(self, X: Any, field: Any) -> Any:
        """Texts have no columns."""
        return None

    def describe(self) -> str:
        """What data of this domain is, in a few words."""
        return f"pairs of texts as {plural(self.unit)}: a list of (source, target)"

    def space(self, n_ids: int) -> str:
        """Name of the data space, for scores per target token."""
        return f"{plural(self.unit)} given a source, vocabulary of {n_ids}"

    def example(
        self, random: np.random.Generator, n: int, groups: NDArray[np.int64] | None = None
    ) -> list[tuple[list[str], list[str]]]:
        """Sequences of two to five letters and the same in reverse."""
        sides = [random.choice(LETTERS, size=random.integers(2, 6)).tolist() for _ in range(n)]
        return [(side, side[::-1]) for side in sides]

    def shuffled(self, X: Any, random: np.random.Generator) -> list[Any]:
        """Every source with the target of another."""
        order = random.permutation(len(X))
        return [(X[i][0], X[j][1]) for i, j in enumerate(order)]

    def malformed(self) -> list[Any]:
        """No pairs, and pairs that are none."""
        return [[], 3, "text", [("a", "b", "c")], ["ab"], [("a", 3)], [("", "")]]
