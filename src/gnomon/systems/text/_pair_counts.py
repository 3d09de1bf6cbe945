"""How often words come together: sparse counts of pairs, their positive pointwise information, a truncated SVD."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

from gnomon.numeric.given import affordable
from gnomon.numeric.noise import Noise
from gnomon.numeric.ragged import Ragged

__all__ = ["Count", "pair_counts", "positive_information", "principal_rows"]

Count = Literal["sentences", "binary", "pairs"]
Floats = NDArray[np.float64]

AT_ONCE = 1 << 20
"""Tokens whose pairs within a window are held at once."""
SMALL = 400
"""Words up to which all singular values are found."""


def pair_counts(text: Ragged, n_words: int, *, window: int | None = None, count: Count = "sentences") -> sp.csr_array:
    """How often each two words come together: a symmetric (n_words, n_words) matrix, float64.

    Parameters
    ----------
    text : Ragged of int64
        Sentences of ids: id i is word i - 1, and 0 is no word, but keeps its place.
    n_words : int in [1, inf)
    window : int in [1, inf), optional
        Places that two words may be apart; where left out any within a sentence.
    count : {"sentences", "binary", "pairs"}
        Sentences in which they come together; 1 where there is any; pairs of two places. Of a word with itself: its
        sentences; 1; pairs of its different places.

    Notes
    -----
    Without a window :math:`B^T B` of the sparse bags of words B, which costs sum over sentences of the square of
    their different words; with one O(tokens window log). Memory follows the pairs that occur, and what is too much
    without a window is refused before it is begun.

    Examples
    --------
    >>> pair_counts(Ragged.of([[1, 2, 2], [1, 3]]), 3).toarray().astype(int).tolist()
    [[2, 1, 1], [1, 1, 0], [1, 0, 1]]
    """
    owner = np.repeat(np.arange(len(text)), text.lengths)
    known = text.values > 0
    ones = np.ones(int(known.sum()))
    bags = sp.csr_array((ones, (owner[known], text.values[known] - 1)), (len(text), n_words))
    bags.sum_duplicates()
    present = bags.copy()
    present.data[:] = 1.0
    own = present.sum(0)
    if window is None:
        most = min(float(n_words) ** 2, float((present.sum(1) ** 2).sum()))
        affordable(most, "X", "choose a window, or a larger min_count", each=16)
    if window is None and count == "pairs":
        found = bags.T @ bags - sp.diags_array(bags.sum(0))
    elif window is None:
        found = present.T @ present
    else:
        found = sp.csr_array((n_words, n_words))
        for block in _blocks(text):
            found = found + _within(block, n_words, window, each=count == "pairs")
    found = sp.csr_array(found)
    if count != "pairs":
        found = found - sp.diags_array(found.diagonal()) + sp.diags_array(own)
    found = sp.csr_array(found)
    found.eliminate_zeros()
    found.sort_indices()
    if count == "binary":
        found.data[:] = 1.0
    return found


def _blocks(text: Ragged) -> Iterator[Ragged]:
    """Sentences, so many at a time as have about `AT_ONCE` tokens."""
    start, offsets = 0, text.offsets
    while start < len(text):
        stop = max(start + 1, int(np.searchsorted(offsets, offsets[start] + AT_ONCE, "right")) - 1)
        a, b = offsets[start], offsets[stop]
        yield Ragged(text.values[a:b], offsets[start : stop + 1] - a)
        start = stop


def _within(text: Ragged, n_words: int, window: int, *, each: bool) -> sp.csr_array:
    """Pairs of places at most `window` apart, all of them or one for each sentence and two words; both ways."""
    kinds, local = np.unique(text.values, return_inverse=True)
    owner = np.repeat(np.arange(len(text)), text.lengths)
    size, found = len(kinds), np.zeros(0, np.int64)
    total = sp.csr_array((n_words, n_words))
    for distance in range(1, min(window, int(text.lengths.max(initial=0)) - 1) + 1):
        inside = (owner[:-distance] == owner[distance:]) & (text.values[:-distance] > 0) & (text.values[distance:] > 0)
        a, b = local[:-distance][inside], local[distance:][inside]
        if each:
            total = total + _table(kinds[a], kinds[b], n_words)
            continue
        keys = (owner[distance:][inside] * size + np.minimum(a, b)) * size + np.maximum(a, b)
        found = np.union1d(found, keys)
    if not each:
        total = _table(kinds[found // size % size], kinds[found % size], n_words)
    return total + total.T


def _table(a: NDArray[np.int64], b: NDArray[np.int64], n_words: int) -> sp.csr_array:
    return sp.csr_array((np.ones(len(a)), (a - 1, b - 1)), (n_words, n_words))


def positive_information(counts: sp.csr_array) -> sp.csr_array:
    r"""Positive pointwise mutual information :math:`\max(0, \log(p_{xy} / (p_x p_y)))` of a table of counts, in nats.

    Examples
    --------
    >>> table = sp.csr_array(np.array([[0.0, 3.0], [3.0, 1.0]]))
    >>> positive_information(table).toarray().round(4).tolist()
    [[0.0, 0.5596], [0.5596, 0.0]]
    """
    table = sp.coo_array(counts)
    rows, columns = table.sum(1), table.sum(0)
    x, y = table.coords
    values = np.log(table.data) + np.log(table.data.sum() or 1.0) - np.log(rows[x]) - np.log(columns[y])
    found = sp.csr_array((np.maximum(values, 0.0), (x, y)), table.shape)
    found.eliminate_zeros()
    found.sort_indices()
    return found


def principal_rows(table: sp.csr_array, k: int) -> Floats:
    r"""Rows :math:`U_k S_k` of the truncated singular value decomposition of a square table, (n, k) or narrower.

    Their inner products are those of the rows of the best approximation of rank k. The first columns have the largest
    singular values; the largest number of each column is positive.
    """
    n = table.shape[0]
    k = min(k, n)
    whole = n <= SMALL or 2 * k > n
    affordable(3.0 * n * n if whole else 2.0 * n * k, "n_components", "choose fewer, or a larger min_count")
    if not table.nnz:
        return np.zeros((n, k))
    if whole:
        left, scale, _ = np.linalg.svd(table.toarray())
        left, scale = left[:, :k], scale[:k]
    else:
        begin = Noise(0, "svd").normal((n,), dtype=np.float64)
        left, scale, _ = svds(table, k, v0=begin)
        order = np.argsort(-scale, kind="stable")
        left, scale = left[:, order], scale[order]
    largest = left[np.abs(left).argmax(0), np.arange(k)]
    return np.ascontiguousarray(left * scale * np.where(largest < 0, -1.0, 1.0))
