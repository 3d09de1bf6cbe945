"""A column of texts on its way to numbers: a column for each of its words."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnomon.data.bag_of_words import BagOfWords, TfIdf
from gnomon.data.frames import TEXT, texts_of
from gnomon.data.lexicon import Lexicon
from gnomon.data.scripts import has_no_spaces
from gnomon.data.text import Unit, Vocabulary, plural, tokenize
from gnomon.errors import UserValueError

__all__ = ["WEIGHTS", "WordsStep", "refuse_large", "unit_of"]

WEIGHTS = ("bag-of-words", "counts", "tf-idf")
"""What a text may become."""
_LOOKED_AT = 1000


@dataclass(frozen=True)
class WordsStep:
    """A text: whether each word occurs, how often, or its tf-idf with texts of length 1.

    Parameters
    ----------
    name : str
    words : tuple of str
        The words of the training rows that are kept, most frequent first.
    weights : str
        One of `WEIGHTS`.
    unit : str
        What a text is cut into; see `gnomon.data.tokenize`.
    idf : tuple of float, optional
        The weight of each word, for tf-idf.
    known, senses : tuples of str
        Words of a lexicon, and the concept that stands for each: those that are among `words`.
    note : str
        What the lexicon has made of the training rows.
    """

    name: str
    words: tuple[str, ...]
    weights: str = "tf-idf"
    unit: Unit = "word"
    idf: tuple[float, ...] | None = None
    known: tuple[str, ...] = ()
    senses: tuple[str, ...] = ()
    note: str = ""
    type: ClassVar[str] = "words"
    kind: ClassVar[str] = TEXT

    def __post_init__(self) -> None:
        if self.weights not in WEIGHTS or (self.idf is not None) != (self.weights == "tf-idf"):
            raise ValueError(f"the text {self.name!r} has no such weights")
        if len(set(self.words)) < len(self.words) or len(self.idf or self.words) != len(self.words):
            raise ValueError(f"the text {self.name!r} has a word twice, or one without a weight")
        if len(self.known) != len(self.senses):
            raise ValueError(f"the text {self.name!r} has a word of a lexicon without a concept")

    @classmethod
    def fit(
        cls, name: str, cells: pl.Series, weights: str, unit: Unit, max_words: int, lexicon: Lexicon | None = None
    ) -> WordsStep:
        """The step of the texts of the training rows; words that occur once are left out where others are there.

        Words that a lexicon has are read as the most frequent concept of each.
        """
        bag = _bag(weights, unit)
        bag.max_words = max_words
        texts: list[Any] = _texts(cells)
        note = ""
        if lexicon is not None:
            tokens = [tokenize(text, unit) for text in texts]
            note = str(lexicon.ambiguity(list(chain.from_iterable(tokens))))
            texts = [lexicon.transform(one) for one in tokens]
        try:
            bag.min_count = 2
            bag.fit(texts)
        except UserValueError:
            bag.min_count = 1
            bag.fit(texts)
        idf = tuple(bag.idf_.tolist()) if isinstance(bag, TfIdf) else None
        kept = bag.vocabulary_.tokens
        pairs = [] if lexicon is None else [(word, found[0]) for word, found in lexicon.words.items()]
        columns = {word.lower() for word in kept}  # a word that is spelled as a column must not be taken for it
        pairs = [(word, sense) for word, sense in pairs if sense in bag.vocabulary_ or word.lower() in columns]
        known, senses = tuple(word for word, _ in pairs), tuple(sense for _, sense in pairs)
        return cls(name, kept, weights, unit, idf, known, senses, note)

    @property
    def about(self) -> str:
        """The column, how many words and what they cost, in a line."""
        size = 8e-3 * len(self.words)
        note = f"; by the lexicon {self.note}, the most frequent is taken" if self.note else ""
        kinds = plural(self.unit)
        return f"{self.name} ({len(self.words)} {kinds} by {self.weights}, {size:.3g} MB per 1000 rows{note})"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}:{word}" for word in self.words)

    @property
    def measured(self) -> tuple[bool, ...]:
        return (False,) * len(self.words)

    def fill(self, cells: pl.Series, out: NDArray[np.float64]) -> None:
        bag = _bag(self.weights, self.unit)
        texts: list[Any] = _texts(cells)
        if self.note:
            kept = Lexicon({word: [sense] for word, sense in zip(self.known, self.senses, strict=True)}, {})
            texts = [kept.transform(tokenize(text, self.unit)) for text in texts]
        bag.vocabulary_ = Vocabulary(self.words, ())
        if isinstance(bag, TfIdf):
            bag.idf_ = np.array(self.idf)
        found = bag.transform(texts).tocoo()
        out[:] = 0.0
        out[found.row, found.col] = found.data
        empty = found.shape[0] - len(np.unique(found.row))
        if 2 * empty > found.shape[0]:
            what = f"{empty} of {found.shape[0]} texts of column {self.name!r} have no word that the fit kept"
            warnings.warn(what, UserWarning, stacklevel=2)


def unit_of(cells: pl.Series) -> Unit:
    """Characters of a script without spaces, such as Chinese, else words."""
    return "char" if has_no_spaces([text.split() for text in _texts(cells.head(_LOOKED_AT))]) else "word"


def refuse_large(rows: int, words: int, where: str) -> None:
    """Refuse a table that is larger than half of this machine's memory.

    Raises
    ------
    UserValueError
        Its size, and what to lower.

    Examples
    --------
    >>> refuse_large(100, 2000, "reviews.csv")
    >>> refuse_large(10**9, 10**5, "reviews.csv")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    gnomon.errors.UserValueError: ...
    """
    size = 8.0 * rows * words
    if 2 * size <= _memory():
        return
    what = (
        f"a table of {rows} texts and {words} words takes {size / 1e9:.1f} GB, more than half of this machine's memory"
    )
    raise UserValueError(what, where, "keep fewer words (words, --words)")


def _memory() -> float:
    """Bytes of this machine; without bound where the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return float("inf")


def _texts(cells: pl.Series) -> list[str]:
    return texts_of(cells).fill_null("").to_list()


def _bag(weights: str, unit: Unit) -> BagOfWords:
    if weights == "tf-idf":
        return TfIdf(unit=unit, norm="l2")
    return BagOfWords(binary=weights == "bag-of-words", unit=unit)
