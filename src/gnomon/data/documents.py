"""Labeled texts: the domain of a text, or of two texts, to a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from gnomon.data.packing import SPECIALS, pack
from gnomon.data.sequences import Tokens
from gnomon.data.text import Unit, Vocabulary, listed, plural
from gnomon.data.tokenizers import LEARNED, Subwords, SubwordTokenizer
from gnomon.distributions.domains import Domain
from gnomon.errors import UserTypeError, UserValueError, shown
from gnomon.numeric.ragged import Ragged

__all__ = ["Documents"]

TOPICS = (
    ("sun", "shadow", "noon", "dial", "hour"), ("sea", "tide", "wave", "boat", "salt"),
    ("seed", "root", "leaf", "soil", "rain"),
)  # fmt: skip
"""What the example's texts are about."""
COMMON = ("the", "of", "and", "is", "in")

Texts = list[str]


@dataclass(frozen=True)
class Documents(Domain):
    """A text to each row, or two texts; texts may be empty.

    Parameters
    ----------
    unit : {"word", "char", "byte", "jieba", "bpe", "byte-bpe", "marked-bpe", "wordpiece"}
        What a text is cut into; see `gnomon.data.text.tokenize`, and `gnomon.data.tokenizers.SubwordTokenizer` for the
        last four, which are learned.
    vocabulary : Vocabulary, optional
        Ids of the tokens, `gnomon.data.packing.SPECIALS` first; `learn` finds them. A token outside of it gets that of
        ``<unk>``.
    pair : bool, optional
        Whether rows hold two texts; whatever they hold where left out.
    longest : int, optional
        Tokens of a row, the special ones among them; what is longer is cut, the longer text first.
    size : int, default 4000
        Pieces that a learned unit may have.

    Examples
    --------
    >>> texts = ["sun and shadow", "sun", ""]
    >>> [row.tolist() for row in Documents().learn(texts).ingest(texts)]
    [[2, 5, 6, 7, 3], [2, 5, 3], [2, 3]]
    >>> pairs = [("sun", "shadow"), ("sun", "")]
    >>> [row.tolist() for row in Documents().learn(pairs).ingest(pairs)]
    [[2, 5, 3, 6, 3], [2, 5, 3, 3]]
    """

    unit: Unit = "word"
    vocabulary: Vocabulary | None = field(default=None, compare=False)
    pair: bool | None = field(default=None, compare=False)
    longest: int | None = field(default=None, compare=False)
    size: int = field(default=4000, compare=False)
    is_table: ClassVar[bool] = False
    noun: ClassVar[str] = "texts"
    view: ClassVar[str] = "documents"
    features: ClassVar[str] = "documents"
    reads_datasets: ClassVar[bool] = True

    def check(self, X: Any, *, name: str = "X", dtype: Any = None) -> tuple[Texts, Texts | None]:  # type: ignore[override]
        """The texts, and those that stand beside them where rows are pairs.

        Raises
        ------
        UserError
            No row, a row that is no text and no pair of texts, pairs among single texts, with their place.
        """
        rows = _rows(X, name)
        if not rows:
            raise UserValueError(f"{name} must have at least 1 text, got 0", name, "give a list of texts")
        pair = self.pair if self.pair is not None else not isinstance(rows[0], str)
        for place, row in enumerate(rows):
            _check_row(row, pair, f"row {place}")
        return ([row[0] for row in rows], [row[1] for row in rows]) if pair else (rows, None)

    def learn(self, X: Any, min_count: int = 1) -> Self:
        """The domain with the vocabulary of some rows: tokens that occur at least `min_count` times.

        Raises
        ------
        UserError
            As `check` does, and where no row has any token.
        """
        first, second = self.check(X)
        return replace(self, vocabulary=self._learned([*first, *(second or ())], min_count), pair=second is not None)

    def _learned(self, texts: Texts, min_count: int) -> Vocabulary:
        """The tokens of texts, or their pieces."""
        if self.unit in LEARNED:
            kind: Any = self.unit
            return Subwords(SubwordTokenizer.train(texts, self.size, kind, min_count=min_count), SPECIALS)
        return Vocabulary.fit(Tokens(self.unit).first(texts), min_count, SPECIALS)

    def known(self, X: Any, vocabulary: Vocabulary) -> Self:
        """The domain of some rows with a vocabulary that is known already."""
        return replace(self, vocabulary=vocabulary, pair=self.check(X)[1] is not None)

    def ids(self, X: Any, *, name: str = "X") -> tuple[Ragged, Ragged | None]:
        """Ids of the texts, and of those beside them."""
        if self.vocabulary is None:
            raise TypeError("ids need a vocabulary: use learn(X) first")
        first, second = self.check(X, name=name)
        return self._encoded(first), None if second is None else self._encoded(second)

    def _encoded(self, texts: Texts) -> Ragged:
        """Ids of texts, of which all may be empty."""
        if not any(text.strip() for text in texts):
            return Ragged(np.zeros(0, np.int64), np.zeros(len(texts) + 1, np.int64))
        return Tokens(self.unit, self.vocabulary).ingest(texts)

    def ingest(self, X: Any, *, dtype: Any = None, name: str = "X") -> Ragged:
        """Rows as `gnomon.data.packing.pack` joins them, of their own lengths."""
        packed = pack(*self.ids(X, name=name), longest=self.longest)
        inside = np.arange(packed.ids.shape[1]) < packed.lengths[:, None]
        return Ragged(packed.ids[inside], np.concatenate([np.zeros(1, np.int64), np.cumsum(packed.lengths)]))

    def columns(self, X: Any, field: Any) -> Any:
        """Texts have no columns."""
        return None

    def describe(self) -> str:
        """What data of this domain is, in a few words."""
        return f"texts as {plural(self.unit)}: a list of strings, or of pairs of strings"

    def space(self, n_ids: int) -> str:
        """Name of the data space."""
        return f"texts of {plural(self.unit)}, vocabulary of {n_ids}"

    def example(self, random: np.random.Generator, n: int, groups: NDArray[np.int64] | None = None) -> list[str]:
        """Texts of five to nine words, most of them of the group's topic."""
        groups = random.integers(0, 3, size=n) if groups is None else groups
        return [
            " ".join(random.choice(TOPICS[group % len(TOPICS)] + COMMON, size=random.integers(5, 10)))
            for group in groups.tolist()
        ]

    def shuffled(self, X: Any, random: np.random.Generator) -> list[str]:
        """Every text with its words in another order, and each row with the text of another."""
        return [" ".join(random.permutation(X[i].split())) for i in random.permutation(len(X))]

    def malformed(self) -> list[Any]:
        """No texts, and rows that are none."""
        return [[], 3, "text", [3.5], ["a", None], ["a", ("a", "b")], [("a", "b", "c")], [("a", 3)], [b"bytes"]]


def _rows(X: Any, name: str) -> list[Any]:
    """The rows as a list."""
    if hasattr(X, "view") and hasattr(X, "text"):
        return list(X.view("documents"))
    if isinstance(X, str):
        raise UserTypeError(f"{name} must be a list of texts, got one text", name, "give [text]")
    rows = listed(X, name, "a list of texts", "give a list of strings, or of pairs of strings")
    return [tuple(row.tolist()) if isinstance(row, np.ndarray) else row for row in rows]


def _check_row(row: Any, pair: bool, where: str) -> None:
    """Refuse what is not as the other rows are."""
    if pair:
        right = isinstance(row, tuple | list) and len(row) == 2 and all(isinstance(one, str) for one in row)
        if not right:
            raise UserTypeError(f"a row must hold two texts, got {shown(row)}", where, "give (first, second)")
        texts: Sequence[str] = row
    else:
        if not isinstance(row, str):
            what = f"a row must be a text, got {shown(row)}"
            raise UserTypeError(what, where, "give a string in every row, or in every row a pair of strings")
        texts = (row,)
    if any("\0" in one for one in texts):
        raise UserValueError("there is a NUL character in the text", where, "remove it")
