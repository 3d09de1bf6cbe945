"""Byte-pair encoding of counted words with a stated order of ties: the pair met first, or that of smaller ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Literal

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["Ties", "merged"]

Ties = Literal["text", "ids"]
_HALF = 32
"""Bits of a key that hold the right piece's id; those above hold the left one's."""
_NO_PAIR, _NEW = -1, -2

Places = NDArray[np.int32]
kernel = numba.njit(cache=True, error_model="numpy")


def merged(
    words: Mapping[str, int], alphabet: Sequence[str], size: int, min_count: int = 1, ties: Ties = "text"
) -> tuple[list[str], list[tuple[str, str]]]:
    r"""Merge the most frequent pair of neighbors again and again.

    The count of a pair is :math:`\sum_w c_w n_w`, over the words w, which occur :math:`c_w` times and hold it
    :math:`n_w` times.

    Parameters
    ----------
    words : mapping of str to int >= 1
        Words in the order in which they are met, and how often they occur.
    alphabet : sequence of str
        Single characters, the pieces that stand at the beginning; others split a word.
    size : int
        Pieces at most.
    min_count : int >= 1, default 1
        Pairs that occur more rarely stay apart.
    ties : {"text", "ids"}, default "text"
        Of pairs of equal count, the one whose first place among the words as they are cut at that time comes first; or
        the one whose left piece, then right piece, has the smaller id, as the package tokenizers does.

    Returns
    -------
    pieces : list of str
        In order of id: the alphabet, then merged pieces as they were found.
    merges : list of (str, str)
        In order of rank.

    Notes
    -----
    Counts are taken once. A merge goes to the places of its pair alone and changes the counts of their neighbors; a
    heap, whose outdated entries are corrected when they come up, gives the next one. Altogether O(N log N) for words of
    N characters, where recounting costs O(N) for each merge. No two merges give the same piece: what stands between two
    borders of pieces is always cut in the same way, so the first of them has put every such place together.

    References
    ----------
    Sennrich, Haddow and Birch (2016), algorithm 1, which leaves ties to the order of a dictionary, which is ``text``.

    Examples
    --------
    >>> merged({"low": 5, "lower": 2}, sorted("lower"), 7)
    (['e', 'l', 'o', 'r', 'w', 'lo', 'low'], [('l', 'o'), ('lo', 'w')])
    """
    pieces, merges = list(alphabet), []
    pairs = _Pairs(words, pieces, max(min_count, 1), ties)
    while len(pieces) < size and (pair := pairs.best()) is not None:
        left, right = divmod(int(pairs.keys[pair]), 1 << _HALF)
        pairs.merge(pair, len(pieces))
        merges.append((pieces[left], pieces[right]))
        pieces.append(pieces[left] + pieces[right])
    return pieces, merges


class _Pairs:
    """The neighbors in all words: how often and where each two of them stand.

    A piece stands at the place of its first character. `symbols` has its id there, `after` and `before` the places of
    its neighbors in the word, `at` the number of the pair that it begins. The places of pair p are
    ``pool[begin[p]:end[p]]``, in order, of which those are left where `at` still says p.
    """

    def __init__(self, words: Mapping[str, int], alphabet: Sequence[str], least: int, ties: Ties) -> None:
        self.least, self.by_place = least, ties == "text"
        self.symbols = _ids("".join(words), alphabet)
        n = len(self.symbols)
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        self.weight = np.repeat(np.fromiter(words.values(), np.int64, len(words)), lengths)
        joined = np.ones(n, bool)  # whether the place before is a neighbor
        joined[np.cumsum(lengths)[:-1] if n else []] = False
        joined[:1] = False
        joined[1:] &= self.symbols[:-1] >= 0
        joined &= self.symbols >= 0
        places = np.arange(n, dtype=np.int32)
        self.before: Places = np.where(joined, places - 1, -1).astype(np.int32)
        self.after: Places = np.where(np.append(joined[1:], False)[:n], places + 1, -1).astype(np.int32)
        self.at: Places = np.full(n, _NO_PAIR, np.int32)
        self.n = self.used = 0
        self.keys, self.counts, self.begin, self.end = (np.empty(1024, np.int64) for _ in range(4))
        self.pool: Places = np.empty(3 * n, np.int32)  # a merge takes one piece away and begins two pairs at most
        self.heap: list[tuple[int, int, int]] = []
        self._take(places[self.after >= 0])

    def best(self) -> int | None:
        """The pair that is merged next, if any."""
        while self.heap:
            count, tie, pair = heappop(self.heap)
            found = int(self.counts[pair])
            if found == -count:
                return pair
            if found >= self.least:
                heappush(self.heap, (-found, self._tie(pair) if self.by_place else tie, pair))
        return None

    def merge(self, pair: int, piece: int) -> None:
        """Put a pair together wherever it stands."""
        places = self.pool[self.begin[pair] : self.end[pair]]
        self._take(
            _merge(places, pair, piece, self.symbols, self.after, self.before, self.at, self.weight, self.counts)
        )

    def _take(self, places: Places) -> None:
        """Count the pairs that begin at some places, in ascending order, at which none was."""
        if not len(places):
            return
        keys = (self.symbols[places].astype(np.int64) << _HALF) | self.symbols[self.after[places]]
        order = np.argsort(keys, kind="stable")
        places, keys = places[order], keys[order]
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        counts, ends = np.add.reduceat(self.weight[places], starts), np.append(starts[1:], len(keys))
        keys, new = keys[starts], slice(self.n, self.n + len(starts))
        if new.stop > len(self.keys):
            self.keys, self.counts, self.begin, self.end = (
                np.resize(one, 2 * new.stop) for one in (self.keys, self.counts, self.begin, self.end)
            )
        self.keys[new], self.counts[new] = keys, counts
        self.begin[new], self.end[new] = self.used + starts, self.used + ends
        self.at[places] = np.repeat(np.arange(new.start, new.stop, dtype=np.int32), ends - starts)
        self.pool[self.used : self.used + len(places)] = places
        self.n, self.used = new.stop, self.used + len(places)
        order_of_ties = places[starts] if self.by_place else keys
        for count, tie, pair in zip(counts.tolist(), order_of_ties.tolist(), range(new.start, new.stop), strict=True):
            if count >= self.least:
                heappush(self.heap, (-count, tie, pair))

    def _tie(self, pair: int) -> int:
        """First place that a pair still has."""
        self.begin[pair] = begin = _first(self.pool, self.begin[pair], self.at, pair)
        return int(self.pool[begin])


def _ids(text: str, alphabet: Sequence[str]) -> Places:
    """Ids of characters, -1 for one that is not in the alphabet."""
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    known = np.array([ord(one) for one in alphabet], np.uint32)
    if not len(known):
        return np.full(len(codes), -1, np.int32)
    order = np.argsort(known)
    place = order[np.minimum(np.searchsorted(known, codes, sorter=order), len(known) - 1)]
    return np.where(known[place] == codes, place, -1).astype(np.int32)


@kernel
def _merge(
    places: Any, pair: int, piece: int, symbols: Any, after: Any, before: Any, at: Any, weight: Any, counts: Any
) -> Any:
    """Put a pair together, uncount the pairs that end by it, and give the places of those that begin, in order."""
    kept = np.empty(len(places), np.int32)
    n = 0
    for left in places:
        if at[left] != pair:
            continue
        right = after[left]
        for place in (before[left], left, right):
            if place >= 0 and at[place] >= 0:
                counts[at[place]] -= weight[left]
                at[place] = _NO_PAIR
        symbols[left], symbols[right] = piece, -1
        after[left] = after[right]
        if after[left] >= 0:
            before[after[left]] = left
        kept[n] = left
        n += 1
    new = np.empty(2 * n, np.int32)
    m = 0
    for k in range(n):
        for place in (before[kept[k]], kept[k]):
            if place >= 0 and after[place] >= 0 and at[place] == _NO_PAIR:
                at[place] = _NEW
                new[m] = place
                m += 1
    return new[:m]


@kernel
def _first(pool: Any, begin: int, at: Any, pair: int) -> int:
    while at[pool[begin]] != pair:
        begin += 1
    return begin
