"""Bags of words: texts as sparse vectors of which words they hold, how often, or how much these tell them apart."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gnomon.data.text import Unit, Vocabulary, tokens_of
from gnomon.errors import UserTypeError, UserValueError

__all__ = ["BagOfWords", "TfIdf"]

Floats = NDArray[np.float64]


class BagOfWords:
    r"""The words of texts, without their order: :math:`x_i` says whether, or how often, word i occurs.

    Columns are the words of the fit, most frequent first. Words that the fit did not have are dropped; `unknown` counts
    them.

    Parameters
    ----------
    binary : bool, default False
        1 where a word occurs, however often; else its count.
    unit : {"word", "char", "byte", "jieba"}, default "word"
        What a string is cut into (`gnomon.data.tokenize`); a text may be a list of tokens too.
    min_count : int >= 1, default 1
        Rarer words are left out.
    max_words : int >= 1, optional
        How many words are kept: the most frequent ones, of equal counts the first in code point order.

    Attributes
    ----------
    vocabulary_ : Vocabulary
        The words, without special symbols: the id of a word is its column.

    Notes
    -----
    A step of Python for each text, none for each token; the matrix holds one number for each different word of each
    text. Cost O(tokens).

    Examples
    --------
    >>> bag = BagOfWords()
    >>> bag.fit_transform(["to be or not to be", "to do"]).toarray().tolist(), bag.vocabulary_.tokens
    ([[2.0, 2.0, 0.0, 1.0, 1.0], [1.0, 0.0, 1.0, 0.0, 0.0]], ('to', 'be', 'do', 'not', 'or'))
    >>> bag.inverse_transform(bag.transform(["do not ask"])), bag.unknown(["do not ask"]).tolist()
    ([['do', 'not']], [1])
    """

    vocabulary_: Vocabulary

    def __init__(
        self, binary: bool = False, unit: Unit = "word", min_count: int = 1, max_words: int | None = None
    ) -> None:
        if max_words is not None and max_words < 1:
            raise UserValueError.must("max_words", "be at least 1", max_words)
        self.binary, self.unit, self.min_count, self.max_words = binary, unit, min_count, max_words

    def fit(self, X: Any) -> Self:
        """Learn the words of texts.

        Parameters
        ----------
        X : list of str, or of lists of str
            The texts; one may be empty.

        Raises
        ------
        UserTypeError, UserValueError
            One string in place of several, a text that is none, no word that is frequent enough.
        """
        self._learn(self._texts(X))
        return self

    def transform(self, X: Any) -> sp.csr_matrix:
        """The vectors of texts, (n, words), float64, sparse by row, the columns of each row in order."""
        return self._matrix(self._texts(X))

    def fit_transform(self, X: Any) -> sp.csr_matrix:
        """The same as `fit`, then `transform`."""
        texts = self._texts(X)
        self._learn(texts)
        return self._matrix(texts)

    def inverse_transform(self, X: Any) -> list[list[str]]:
        """The words of each row that are not 0, each once, most frequent of the fit first; their order is lost.

        Raises
        ------
        UserValueError
            A matrix of another width.
        """
        matrix = sp.csr_matrix(X)
        if matrix.shape[1] != len(self._known()):
            what = f"X must have {len(self._known())} columns, got {matrix.shape[1]}"
            raise UserValueError(what, "X", "give what transform gave")
        matrix.eliminate_zeros()
        matrix.sort_indices()
        words = self._known().decode(matrix.indices)
        ends = matrix.indptr.tolist()
        return [words[a:b] for a, b in pairwise(ends)]

    def unknown(self, X: Any) -> NDArray[np.int64]:
        """How many tokens of each text the fit did not have, shape (n,)."""
        ids, lengths = self._ids(self._texts(X))
        return np.bincount(np.repeat(np.arange(len(lengths)), lengths)[ids < 0], minlength=len(lengths))

    def _known(self) -> Vocabulary:
        if not hasattr(self, "vocabulary_"):
            raise UserValueError("the words are not known yet", type(self).__name__, "call fit first")
        return self.vocabulary_

    def _texts(self, X: Any) -> list[list[str]]:
        if isinstance(X, str) or not hasattr(X, "__iter__"):
            raise UserTypeError.must("X", "be a list of texts", X, remedy="put a single one into a list: [text]")
        return [tokens_of(text, self.unit, f"X, text {place}") for place, text in enumerate(X)]

    def _learn(self, texts: list[list[str]]) -> None:
        found = Vocabulary.fit(texts, self.min_count, specials=())
        if not len(found):
            what = f"no word occurs {self.min_count} times" if any(texts) else "the texts have no tokens"
            raise UserValueError(what, "X", "give more texts, or choose a smaller min_count")
        self.vocabulary_ = Vocabulary(found.tokens[: self.max_words], ())

    def _ids(self, texts: list[list[str]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Columns of all tokens, -1 of unknown ones, and how many tokens each text has."""
        column = {word: place for place, word in enumerate(self._known().tokens)}
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        tokens = chain.from_iterable(texts)
        return np.fromiter((column.get(token, -1) for token in tokens), np.int64, int(lengths.sum())), lengths

    def _matrix(self, texts: list[list[str]]) -> sp.csr_matrix:
        ids, lengths = self._ids(texts)
        rows = np.repeat(np.arange(len(texts)), lengths)
        known = ids >= 0
        shape = (len(texts), len(self._known()))
        found = sp.csr_matrix((np.ones(int(known.sum())), (rows[known], ids[known])), shape)  # sums what is twice
        found.sort_indices()
        if self.binary:
            found.data[:] = 1.0
        return found


class TfIdf(BagOfWords):
    r"""Bags of words in which common words count less: :math:`x_{di} = \mathrm{tf}(i, d) \log(N / \mathrm{df}(i))`.

    tf is how often word i occurs in text d, df in how many of the N texts of the fit it occurs. A word of all texts
    weighs 0, and is dropped in effect.

    Parameters
    ----------
    binary : bool, default False
        tf is 1 where the word occurs.
    unit : {"word", "char", "byte", "jieba"}, default "word"
    min_count : int >= 1, default 1
    max_words : int >= 1, optional
        As for `BagOfWords`.
    smooth : bool, default False
        :math:`\log((1 + N) / (1 + \mathrm{df})) + 1` in its place, which no word of the fit has at 0.
    norm : {"none", "l2"}, default "none"
        "l2": every text that has a word gets the length 1, so that long and short ones compare.

    Attributes
    ----------
    vocabulary_ : Vocabulary
    idf_ : array of shape (words,)
        In nats. Words of the vocabulary occur in the fit, so that df is at least 1.

    Notes
    -----
    scikit-learn's ``TfidfTransformer(smooth_idf=False, norm=None)`` adds 1 to the logarithm, and its default is
    `smooth` with `norm` "l2". Source: Sparck Jones (1972).

    Examples
    --------
    >>> weights = TfIdf().fit(["a b", "a c", "a c", "a a"])
    >>> dict(zip(weights.vocabulary_.tokens, weights.idf_.round(4).tolist()))
    {'a': 0.0, 'c': 0.6931, 'b': 1.3863}
    """

    idf_: Floats

    def __init__(
        self, binary: bool = False, unit: Unit = "word", min_count: int = 1, max_words: int | None = None,
        smooth: bool = False, norm: Literal["none", "l2"] = "none",
    ) -> None:  # fmt: skip
        super().__init__(binary, unit, min_count, max_words)
        if norm not in ("none", "l2"):
            raise UserValueError.must("norm", "be none or l2", norm)
        self.smooth, self.norm = smooth, norm

    def transform(self, X: Any) -> sp.csr_matrix:
        """The weighted vectors of texts, (n, words), float64, sparse by row."""
        return self._weighted(super().transform(X))

    def fit_transform(self, X: Any) -> sp.csr_matrix:
        """The same as `fit`, then `transform`."""
        texts = self._texts(X)
        self._learn(texts)
        return self._weighted(self._matrix(texts))

    def _learn(self, texts: list[list[str]]) -> None:
        super()._learn(texts)
        df = np.bincount(self._matrix(texts).indices, minlength=len(self.vocabulary_))
        more = int(self.smooth)
        self.idf_ = np.log((len(texts) + more) / (df + more)) + more

    def _weighted(self, counts: sp.csr_matrix) -> sp.csr_matrix:
        self._known()
        found = counts.copy()
        found.data *= self.idf_[found.indices]
        found.eliminate_zeros()
        if self.norm == "l2":
            rows = np.repeat(np.arange(found.shape[0]), np.diff(found.indptr))
            length = np.sqrt(np.bincount(rows, found.data**2, minlength=found.shape[0]))
            found.data /= length[rows]
        return found
