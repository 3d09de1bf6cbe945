"""n-gram counts against dictionaries; merging; keys that would not fit into 64 bits as a product."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from typing import Any, Literal

import numpy as np
import pytest

from gnomon.data.counting import BOS, EOS, NGramCounts, TokenStream, count_ngrams, merge_counts, sum_counts
from gnomon.errors import UserValueError

STARTS: list[Literal["pad", "lower_order"]] = ["pad", "lower_order"]


def text(seed: int, size: int, vocabulary: int, tokens: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.sort(rng.integers(0, tokens, size)), [tokens]])
    return rng.integers(3, vocabulary, tokens), offsets


def by_hand(ids: np.ndarray, offsets: np.ndarray, n: int, start: str) -> list[Counter[tuple[int, ...]]]:
    tables: list[Counter[tuple[int, ...]]] = [Counter() for _ in range(n)]
    for begin, stop in itertools.pairwise(offsets):
        line = ids[begin:stop].tolist()
        line = [BOS, *line, EOS] if start == "pad" else line
        for end in range(1 if start == "pad" else 0, len(line)):
            for k in range(1, min(n, end + 1) + 1):
                tables[k - 1][tuple(line[end - k + 1 : end + 1])] += 1
    return tables


def as_dict(table: NGramCounts, order: int) -> dict[tuple[int, ...], int]:
    grams = table.decode(order, np.arange(table.size(order)))
    return {tuple(g): int(c) for g, c in zip(grams.tolist(), table.counts[order - 1], strict=True) if c}


@pytest.mark.spec("DLN-174", "PRA-146")
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_counts_are_those_of_a_loop_over_tokens(n: int, start: Literal["pad", "lower_order"]) -> None:
    ids, offsets = text(0, 60, 8)
    table = count_ngrams(ids, offsets, n=n, vocabulary_size=8, start=start)
    for order, expected in enumerate(by_hand(ids, offsets, n, start), 1):
        assert as_dict(table, order) == expected


@pytest.mark.parametrize("start", STARTS)
def test_the_last_tokens_and_the_left_neighbors_of_every_entry(start: Literal["pad", "lower_order"]) -> None:
    ids, offsets = text(1, 40, 7)
    table = count_ngrams(ids, offsets, n=4, vocabulary_size=7, start=start)
    for order in range(2, 5):
        grams = table.decode(order, np.arange(table.size(order)))
        assert np.array_equal(table.decode(order - 1, table.lowers[order - 1]), grams[:, 1:])
        assert np.array_equal(table.firsts[order - 1], grams[:, 0])
    counted = by_hand(ids, offsets, 4, start)[0]
    # a token without a left neighbor begins a sentence that is not padded
    first = Counter(ids[b] for b, e in itertools.pairwise(offsets) if e > b)
    alone = {i: int(c) for i, c in enumerate(table.without_left(1)) if c}
    assert alone == ({} if start == "pad" else first)
    assert sum(counted.values()) == table.n_tokens


@pytest.mark.parametrize("start", STARTS)
def test_counts_of_parts_merge_to_the_counts_of_the_whole_bit_by_bit(start: Literal["pad", "lower_order"]) -> None:
    ids, offsets = text(2, 30, 9)
    whole = count_ngrams(ids, offsets, n=3, vocabulary_size=9, start=start)
    parts = []
    for cuts in ([0, 10], [10, 11], [11, 11], [11, 31]):
        part = offsets[cuts[0] : cuts[1] + 1]
        parts.append(count_ngrams(ids[part[0] : part[-1]], part - part[0], n=3, vocabulary_size=9, start=start))
    for order in (parts, parts[::-1]):
        merged = merge_counts(*order)
        assert merged.state().keys() == whole.state().keys()
        assert all(np.array_equal(merged.state()[name], value) for name, value in whole.state().items())


def test_counts_of_unlike_orders_do_not_merge() -> None:
    a = count_ngrams([3], [0, 1], n=1, vocabulary_size=4)
    with pytest.raises(ValueError, match="cannot be merged"):
        merge_counts(a, count_ngrams([3], [0, 1], n=2, vocabulary_size=4))


class TwoThreads:
    """A group of two that meet at a barrier."""

    def __init__(self) -> None:
        self.size, self.parts, self.barrier = 2, {}, threading.Barrier(2)

    def member(self, rank: int) -> Any:
        outer = self

        class Member:
            size = 2

            def gather(self, x: np.ndarray) -> np.ndarray:
                outer.barrier.wait()
                outer.parts[rank] = x
                outer.barrier.wait()
                return np.concatenate([outer.parts[0], outer.parts[1]])

        return Member()


def test_several_processes_arrive_at_the_counts_of_one() -> None:
    ids, offsets = text(3, 20, 6)
    whole = count_ngrams(ids, offsets, n=3, vocabulary_size=6)
    cut, group, found = offsets[8], TwoThreads(), {}
    shards = [(ids[:cut], offsets[:9]), (ids[cut:], offsets[8:] - cut)]

    def work(rank: int) -> None:
        table = count_ngrams(*shards[rank], n=3, vocabulary_size=6)
        found[rank] = sum_counts(table, group.member(rank))

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for rank in range(2):
        assert all(np.array_equal(found[rank].state()[name], value) for name, value in whole.state().items())


def test_orders_and_vocabularies_whose_power_exceeds_64_bits() -> None:
    size, n = 1_000_000, 6  # size**6 is 2**119
    ids = np.array([999_999, 5, 999_998, 5, 999_999, 5, 999_998])
    table = count_ngrams(ids, [0, 7], n=n, vocabulary_size=size, start="lower_order")
    for order, expected in enumerate(by_hand(ids, np.array([0, 7]), n, "lower_order"), 1):
        assert as_dict(table, order) == expected


def test_places_are_found_and_what_was_never_seen_is_not() -> None:
    ids, offsets = text(4, 10, 6)
    table = count_ngrams(ids, offsets, n=3, vocabulary_size=6, start="lower_order")
    indices = table.locate(TokenStream.of(ids, offsets, 6, "lower_order"))
    grams = table.decode(3, indices[2][indices[2] >= 0])
    ends = np.flatnonzero(indices[2] >= 0)
    assert np.array_equal(grams, np.stack([ids[ends - 2], ids[ends - 1], ids[ends]], axis=1))
    assert table.find(2, np.array([3]), np.array([1])).tolist() == [-1]
    history = np.array([[-1, 3], [3, 4], [-1, -1], [1, 1]])
    found = table.contexts(history)
    assert found[0].tolist() == [3, 4, -1, 1]
    assert found[1][[0, 2, 3]].tolist() == [-1, -1, -1]
    assert table.decode(2, found[1][[1]]).tolist() == [[3, 4]]


def test_state_is_read_back() -> None:
    table = count_ngrams(*text(5, 10, 6), n=3, vocabulary_size=6)
    again = NGramCounts.from_state(table.state(), "pad")
    assert again.n == 3
    assert again.vocabulary_size == 6
    assert all(np.array_equal(again.state()[name], value) for name, value in table.state().items())


def test_an_empty_text_and_empty_sentences_are_counted() -> None:
    nothing = count_ngrams([], [0], n=3, vocabulary_size=5)
    assert [len(c) for c in nothing.counts] == [5, 0, 0]
    assert nothing.n_tokens == 0
    blank = count_ngrams([], [0, 0, 0], n=2, vocabulary_size=5)
    assert as_dict(blank, 2) == {(BOS, EOS): 2}


@pytest.mark.parametrize(
    ("ids", "offsets", "told"),
    [
        ([3, 9], [0, 1, 2], r"ids must be in \[0, 5\).* got 9 \(sentence 1, token 0\)"),
        ([3, -1], [0, 2], r"got -1 \(sentence 0, token 1\)"),
        ([3, 1], [0, 2], "no borders, .* got 1"),
        ([3, 3], [0, 3], "offsets"),
        ([3, 3], [1, 2], "offsets"),
        ([3, 3], [0, 2, 1, 2], "offsets"),
        ([], [], "offsets"),
    ],
)
def test_refusals(ids: list[int], offsets: list[int], told: str) -> None:
    with pytest.raises(UserValueError, match=told):
        count_ngrams(ids, offsets, n=2, vocabulary_size=5)
