"""Counts of all n-grams of a text, by sorting whole-number keys; counts of two texts merge to the counts of both.

A table of order k is sorted by ``key = context * V + token``, where ``context`` is the index of the first k-1 tokens
in the table of order k-1 (at order 1 the index is the token itself). Keys so stay below (number of entries) * V for any
order, and the entries of one context stand side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array, Group
from gnomon.errors import UserValueError

__all__ = ["BOS", "EOS", "UNKNOWN", "NGramCounts", "TokenStream", "count_ngrams", "merge_counts", "sum_counts"]

UNKNOWN, BOS, EOS = 0, 1, 2
"""Ids of the symbols for an unknown token, the beginning and the end of a sentence."""

Ints = NDArray[np.int64]

_MANY = 1 << 14
"""Keys sought from which on sorting them first pays."""
Start = Literal["pad", "lower_order"]


@dataclass(frozen=True)
class TokenStream:
    """Sentences laid end to end.

    Parameters
    ----------
    tokens : int64 array of shape (length,)
        With ``start="pad"`` every sentence is ``<s> ... </s>``, with ``"lower_order"`` its bare tokens.
    index : int64 array of shape (length,)
        Index of each token in its sentence, from 0.
    sentence : int64 array of shape (length,)
        Which sentence it belongs to.
    n_sentences : int
    first : int
        Tokens at indices before this one are given, never predicted: 1 with ``"pad"``, 0 otherwise.
    """

    tokens: Ints
    index: Ints
    sentence: Ints
    n_sentences: int
    first: int

    @classmethod
    def of(cls, ids: ArrayLike, offsets: ArrayLike, vocabulary_size: int, start: Start) -> TokenStream:
        """Lay out sentence i = ``ids[offsets[i]:offsets[i + 1]]``.

        Raises
        ------
        UserValueError
            When offsets do not cut `ids`, or an id is outside the vocabulary or is ``<s>`` or ``</s>``.
        """
        tokens, cuts = _checked(ids, offsets, vocabulary_size)
        extra = 1 if start == "pad" else 0
        lengths = np.diff(cuts) + 2 * extra
        ends = np.cumsum(lengths)
        sentence = np.repeat(np.arange(lengths.size), lengths)
        index = np.arange(sentence.size) - np.repeat(ends - lengths, lengths)
        if not extra:
            return cls(tokens, index, sentence, lengths.size, 0)
        bordered = np.empty(sentence.size, np.int64)
        bordered[ends - lengths], bordered[ends - 1] = BOS, EOS
        bordered[np.arange(tokens.size) + 2 * np.repeat(np.arange(lengths.size), np.diff(cuts)) + 1] = tokens
        return cls(bordered, index, sentence, lengths.size, 1)

    @property
    def predicted(self) -> NDArray[np.bool_]:
        """Which tokens a model has to predict."""
        return self.index >= self.first


def _checked(ids: ArrayLike, offsets: ArrayLike, vocabulary_size: int) -> tuple[Ints, Ints]:
    tokens, cuts = np.asarray(ids, np.int64).ravel(), np.asarray(offsets, np.int64).ravel()
    if cuts.size == 0 or cuts[0] != 0 or cuts[-1] != tokens.size or (np.diff(cuts) < 0).any():
        raise UserValueError(
            f"offsets must cut the {tokens.size} ids into sentences", "offsets", "pass 0, ends ..., number of ids"
        )
    wrong = np.flatnonzero((tokens < 0) | (tokens >= vocabulary_size) | (tokens == BOS) | (tokens == EOS))
    if wrong.size:
        i, row = wrong[0], np.searchsorted(cuts, wrong[0], side="right") - 1
        what = f"ids must be in [0, {vocabulary_size}) and no borders, which the model sets itself, got {tokens[i]}"
        raise UserValueError(what, f"sentence {row}, token {i - cuts[row]}", "encode with the model's vocabulary")
    return tokens, cuts


@dataclass(frozen=True, eq=False)
class NGramCounts:
    """How often every k-gram was seen, k = 1..n.

    Parameters
    ----------
    vocabulary_size : int, at least 3
        Ids are in [0, vocabulary_size); 0, 1, 2 are ``<unk>``, ``<s>``, ``</s>``.
    start : {"pad", "lower_order"}
        How sentences begin, see `TokenStream`.
    keys : tuple of n-1 int64 arrays
        Sorted keys of the orders 2..n.
    counts : tuple of n int64 arrays
        Counts of the orders 1..n; order 1 is dense, of shape (vocabulary_size,). ``<s>`` is never counted at order 1.
    """

    vocabulary_size: int
    start: Start
    keys: tuple[Ints, ...]
    counts: tuple[Ints, ...]

    @property
    def n(self) -> int:
        """Highest order."""
        return len(self.counts)

    @property
    def n_tokens(self) -> int:
        """Number of predicted tokens, sentence ends included."""
        return int(self.counts[0].sum())

    def size(self, order: int) -> int:
        """Number of entries in the table of an order."""
        return self.counts[order - 1].size

    @cached_property
    def parents(self) -> tuple[Ints, ...]:
        """Place of each entry's first k-1 tokens in the table below; order 1 has the empty context, index 0."""
        return (np.zeros(self.vocabulary_size, np.int64), *(key // self.vocabulary_size for key in self.keys))

    @cached_property
    def tokens(self) -> tuple[Ints, ...]:
        """Last token of each entry."""
        return (np.arange(self.vocabulary_size), *(key % self.vocabulary_size for key in self.keys))

    @cached_property
    def firsts(self) -> tuple[Ints, ...]:
        """First token of each entry."""
        found = [self.tokens[0]]
        for parent in self.parents[1:]:
            found.append(found[-1][parent])
        return tuple(found)

    @cached_property
    def lowers(self) -> tuple[Ints, ...]:
        """Place of each entry's last k-1 tokens in the table below; every one is there."""
        found = [self.parents[0]]
        for order in range(2, self.n + 1):
            context = found[-1][self.parents[order - 1]]
            token = self.tokens[order - 1]
            found.append(token if order == 2 else self.find(order - 1, context, token))
        return tuple(found)

    def find(self, order: int, context: Ints, token: Ints) -> Ints:
        """Places of the k-grams (context, token) in the table of this order; -1 where never seen.

        Cost O(log entries) each.
        """
        if order == 1:
            return token
        keys = self.keys[order - 2]
        if keys.size == 0:
            return np.full(context.shape, -1)
        sought = context * self.vocabulary_size + token
        index = np.minimum(_search(keys, sought), keys.size - 1)
        return np.where((keys[index] == sought) & (context >= 0) & (token >= 0), index, -1)

    def locate(self, stream: TokenStream) -> list[Ints]:
        """For each order the indices of the k-grams that end at each token of the stream; -1 where never seen."""
        found = [stream.tokens]
        for order in range(2, self.n + 1):
            index = np.full(stream.tokens.size, -1)
            inside = np.flatnonzero(stream.index >= order - 1)
            index[inside] = self.find(order, found[-1][inside - 1], stream.tokens[inside])
            found.append(index)
        return found

    def contexts(self, history: Ints) -> list[Ints]:
        """Places of the contexts of length 1..n-1 in the tables; -1 where never seen or not given.

        Parameters
        ----------
        history : int64 array of shape (batch, n - 1)
            The last tokens, oldest first; -1 where there is none.
        """
        width = history.shape[1]
        found = []
        for length in range(1, width + 1):
            index = history[:, width - length]
            for order in range(2, length + 1):
                index = self.find(order, index, history[:, width - length + order - 1])
            found.append(index)
        return found

    def totals(self, order: int, counts: NDArray[np.generic] | None = None) -> NDArray[np.float64]:
        """Sum of the counts that follow each context; the context's count AS a context. Shape (entries below,)."""
        weights = self.counts[order - 1] if counts is None else counts
        return self.per_context(order, weights)

    def per_context(self, order: int, values: NDArray[np.generic]) -> NDArray[np.float64]:
        """Sum of a value per entry over the entries of each context."""
        below = 1 if order == 1 else self.size(order - 1)
        return np.bincount(self.parents[order - 1], weights=values, minlength=below).astype(np.float64, copy=False)

    def without_left(self, order: int) -> NDArray[np.float64]:
        """How often each entry stood at the beginning of a stream, with nothing to its left."""
        if order == self.n:
            raise ValueError("the highest order has no table above it")
        left = np.bincount(self.lowers[order], weights=self.counts[order], minlength=self.size(order))
        return np.asarray(self.counts[order - 1] - left)

    def decode(self, order: int, indices: Ints) -> Ints:
        """The k-grams at these indices, shape (len(indices), order)."""
        columns = []
        for k in range(order, 0, -1):
            columns.append(self.tokens[k - 1][indices])
            indices = self.parents[k - 1][indices]
        return np.stack(columns[::-1], axis=-1)

    def state(self) -> dict[str, Array]:
        """``key_2, ..., key_n, count_1, ..., count_n``."""
        named = {f"key_{k}": key for k, key in enumerate(self.keys, 2)}
        return named | {f"count_{k}": count for k, count in enumerate(self.counts, 1)}

    @classmethod
    def from_state(cls, state: Mapping[str, Array], start: Start) -> NGramCounts:
        """The counts that `state` described."""
        n = sum(name.startswith("count_") for name in state)
        keys = tuple(np.asarray(state[f"key_{k}"], np.int64) for k in range(2, n + 1))
        counts = tuple(np.asarray(state[f"count_{k}"], np.int64) for k in range(1, n + 1))
        return cls(counts[0].size, start, keys, counts)


def count_ngrams(
    ids: ArrayLike, offsets: ArrayLike, *, n: int, vocabulary_size: int, start: Start = "pad"
) -> NGramCounts:
    """Count all k-grams, k = 1..n, that end at a predicted token and stay inside its sentence.

    Parameters
    ----------
    ids : int array of shape (length,)
        Tokens of all sentences, without borders.
    offsets : int array of shape (sentences + 1,)
        Sentence i is ``ids[offsets[i]:offsets[i + 1]]``.
    n : int, at least 1
        Highest order.
    vocabulary_size : int, at least 3
    start : {"pad", "lower_order"}
        With ``"pad"`` a sentence is ``<s> ... </s>``: one ``<s>`` says the same as n-1 of them.

    Notes
    -----
    Cost O(n T log T) for T tokens, memory O(n T); no loop over tokens.

    Examples
    --------
    >>> table = count_ngrams([3, 4, 3, 4], [0, 4], n=2, vocabulary_size=5, start="lower_order")
    >>> table.decode(2, np.arange(2)).tolist(), table.counts[1].tolist()
    ([[3, 4], [4, 3]], [2, 1])
    """
    stream = TokenStream.of(ids, offsets, vocabulary_size, start)
    return count_stream(stream, n, vocabulary_size, start)


def count_stream(stream: TokenStream, n: int, vocabulary_size: int, start: Start) -> NGramCounts:
    """`count_ngrams` of a stream that is laid out already."""
    unigrams = np.bincount(stream.tokens[stream.predicted], minlength=vocabulary_size)
    keys: list[Ints] = []
    counts: list[Ints] = [unigrams.astype(np.int64)]
    below = stream.tokens
    for order in range(2, n + 1):
        _check_keys(counts[-1].size, vocabulary_size)
        inside = np.flatnonzero(stream.index >= order - 1)
        key = below[inside - 1] * vocabulary_size + stream.tokens[inside]
        unique, inverse, count = _group(key, inverse=order < n)
        keys.append(unique)
        counts.append(count)
        if inverse is not None:
            below = np.full(stream.tokens.size, -1)
            below[inside] = inverse
    return NGramCounts(vocabulary_size, start, tuple(keys), tuple(counts))


def merge_counts(*tables: NGramCounts) -> NGramCounts:
    """The counts of all texts together; they need the same n, vocabulary and start.

    Cost O(E log E) for E entries in all.
    """
    first = tables[0]
    if any((t.n, t.vocabulary_size, t.start) != (first.n, first.vocabulary_size, first.start) for t in tables):
        raise ValueError("counts of unlike order, vocabulary or start cannot be merged")
    if len(tables) == 1:
        return first
    size = first.vocabulary_size
    keys: list[Ints] = []
    counts: list[Ints] = [np.sum([t.counts[0] for t in tables], axis=0)]
    moved = [np.arange(size)] * len(tables)
    for order in range(2, first.n + 1):
        _check_keys(counts[-1].size, size)
        key = [to[t.parents[order - 1]] * size + t.tokens[order - 1] for to, t in zip(moved, tables, strict=True)]
        unique, inverse, _ = _group(np.concatenate(key))
        assert inverse is not None
        total = np.zeros(unique.size, np.int64)
        np.add.at(total, inverse, np.concatenate([t.counts[order - 1] for t in tables]))
        moved = np.split(inverse, np.cumsum([len(part) for part in key])[:-1])
        keys.append(unique)
        counts.append(total)
    return NGramCounts(size, first.start, tuple(keys), tuple(counts))


def sum_counts(table: NGramCounts, group: Group) -> NGramCounts:
    """The merged counts of all processes, the same on every one."""
    if group.size == 1:
        return table
    state = table.state()
    sizes = np.asarray(group.gather(np.array([[len(v) for v in state.values()]], np.int64)))
    whole = {name: np.asarray(group.gather(value)) for name, value in state.items()}
    parts = {name: np.split(whole[name], np.cumsum(sizes[:, column])[:-1]) for column, name in enumerate(state)}
    shards = [{name: part[rank] for name, part in parts.items()} for rank in range(group.size)]
    return merge_counts(*(NGramCounts.from_state(shard, table.start) for shard in shards))


def _search(keys: Ints, sought: Ints) -> Ints:
    """``np.searchsorted``; many are sought in ascending order, which finds the keys in the cache."""
    if sought.size < _MANY:
        return np.searchsorted(keys, sought)
    ascending = np.argsort(sought)
    index = np.empty(sought.shape, np.int64)
    index[ascending] = np.searchsorted(keys, sought[ascending])
    return index


def _group(key: Ints, *, inverse: bool = True) -> tuple[Ints, Ints | None, Ints]:
    """Sorted unique keys, the index of each key among them, how often each came. `numpy.unique`, twice as fast."""
    order = np.argsort(key) if inverse else None
    ordered = np.sort(key) if order is None else key[order]
    fresh = np.empty(key.size, np.bool_)
    fresh[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    begins = np.flatnonzero(fresh)
    count = np.diff(begins, append=key.size)
    if order is None:
        return ordered[begins], None, count
    index = np.empty(key.size, np.int64)
    index[order] = np.cumsum(fresh) - 1
    return ordered[begins], index, count


def _check_keys(entries: int, vocabulary_size: int) -> None:
    if entries * vocabulary_size >= 2**63:
        raise OverflowError(f"{entries} n-grams times {vocabulary_size} tokens exceed 64-bit keys")


def stack(rows: Sequence[Sequence[int]], width: int) -> Ints:
    """The last `width` tokens of each row, oldest first, -1 in front where a row is shorter."""
    history = np.full((len(rows), width), -1, np.int64)
    for line, row in zip(history, rows, strict=True):
        tail = np.asarray(row[-width:] if width else [], np.int64)
        line[width - tail.size :] = tail
    return history
