"""A column of texts on its way to numbers: a column for each of its words."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnomon.data.bag_of_words import BagOfWords, TfIdf
from gnomon.data.frames import TEXT, texts_of
from gnomon.data.scripts import has_no_spaces
from gnomon.data.text import Unit, Vocabulary, plural
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
    """

    name: str
    words: tuple[str, ...]
    weights: str = "tf-idf"
    unit: Unit = "word"
    idf: tuple[float, ...] | None = None
    type: ClassVar[str] = "words"
    kind: ClassVar[str] = TEXT

    def __post_init__(self) -> None:
        if self.weights not in WEIGHTS or (self.idf is not None) != (self.weights == "tf-idf"):
            raise ValueError(f"the text {self.name!r} has no such weights")
        if len(set(self.words)) < len(self.words) or len(self.idf or self.words) != len(self.words):
            raise ValueError(f"the text {self.name!r} has a word twice, or one without a weight")

    @classmethod
    def fit(cls, name: str, cells: pl.Series, weights: str, unit: Unit, max_words: int) -> WordsStep:
        """The step of the texts of the training rows; words that occur once are left out where others are there."""
        bag = _bag(weights, unit)
        bag.max_words = max_words
        texts = _texts(cells)
        try:
            bag.min_count = 2
            bag.fit(texts)
        except UserValueError:
            bag.min_count = 1
            bag.fit(texts)
        idf = tuple(bag.idf_.tolist()) if isinstance(bag, TfIdf) else None
        return cls(name, bag.vocabulary_.tokens, weights, unit, idf)

    @property
    def about(self) -> str:
        """The column, how many words and what they cost, in a line."""
        size = 8e-3 * len(self.words)
        return f"{self.name} ({len(self.words)} {plural(self.unit)} by {self.weights}, {size:.3g} MB per 1000 rows)"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}:{word}" for word in self.words)

    @property
    def measured(self) -> tuple[bool, ...]:
        return (False,) * len(self.words)

    def fill(self, cells: pl.Series, out: NDArray[np.float64]) -> None:
        bag, texts = _bag(self.weights, self.unit), _texts(cells)
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
