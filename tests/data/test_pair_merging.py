"""Byte-pair encoding with an end mark: merges against a reference that counts everything anew, ties, texts back."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gnomon
from gnomon.data.packing import MASK, SPECIALS
from gnomon.data.pair_merging import merged
from gnomon.data.tokenizers import Subwords, SubwordTokenizer
from gnomon.errors import UserError

tokenizers = pytest.importorskip("tokenizers")
WORDS = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
MERGES = [("e", "s"), ("es", "t"), ("est", "</w>"), ("l", "o"), ("lo", "w")]
COUNTS = [9, 9, 9, 7, 7]
WHOLE = st.text(st.characters(exclude_categories=["Cs"]))
SOME_WORDS = st.dictionaries(st.text("abcd", min_size=1, max_size=12), st.integers(1, 4), min_size=1, max_size=12)


def recounted(words, size, least, ties):
    """Pieces, merges and their counts, where every pair of every word is counted anew before each merge."""
    cut = {word: list(word) for word in words}
    pieces, merges, counts = sorted(set("".join(words))), [], []
    while len(pieces) < size:
        found = Counter()
        for word, parts in cut.items():
            for pair in pairwise(parts):
                found[pair] += words[word]
        if ties == "ids":
            found = {pair: found[pair] for pair in sorted(found, key=lambda pair: [*map(pieces.index, pair)])}
        best = max(found, key=found.get, default=None)  # of equal ones the first
        if best is None or found[best] < least:
            break
        merges.append(best)
        counts.append(found[best])
        pieces.append("".join(best))
        for word, parts in cut.items():
            cut[word], i = [], 0
            while i < len(parts):
                step = 2 if tuple(parts[i : i + 2]) == best else 1
                cut[word].append("".join(parts[i : i + step]))
                i += step
    return pieces, merges, counts


def of_the_package(words, size, least):
    peer = tokenizers.Tokenizer(tokenizers.models.BPE())
    rule = tokenizers.trainers.BpeTrainer(vocab_size=size, min_frequency=least, show_progress=False)
    peer.train_from_iterator([word for word, n in words.items() for _ in range(n)], rule)
    return [tuple(pair) for pair in json.loads(peer.to_str())["model"]["merges"]]


@pytest.mark.spec("NLP-42")
def test_the_merges_of_the_row_come_in_its_order():
    tokenizer = SubwordTokenizer.train(WORDS, 400, "marked-bpe")
    assert tokenizer.merges[:5] == MERGES
    _, merges, counts = recounted({f"{word} ": n for word, n in WORDS.items()}, 400, 1, "text")
    assert counts[:5] == COUNTS
    assert tokenizer.merges == [tuple(one.replace(" ", "</w>") for one in pair) for pair in merges]
    assert tokenizer.tokenize("lowest low") == ["low", "est</w>", "low</w>"]
    texts = [word for word, n in WORDS.items() for _ in range(n)]
    assert SubwordTokenizer.train(texts, 400, "marked-bpe").merges == tokenizer.merges
    assert SubwordTokenizer.train([" ".join(texts)], 400, "marked-bpe").merges == tokenizer.merges
    by_ids = SubwordTokenizer.train(WORDS, 400, "marked-bpe", ties="ids").merges
    assert by_ids[:3] == [("e", "s"), ("t", "</w>"), ("es", "t</w>")]  # as the package: characters before merges
    size = len(tokenizer) - 3
    assert SubwordTokenizer.train(WORDS, size, "marked-bpe").merges == tokenizer.merges[:-3]


@pytest.mark.spec("NLP-42")
@given(SOME_WORDS, st.integers(4, 40), st.integers(1, 3))
@example({"aaaa": 1, "aaa": 2, "baaaaa": 1}, 40, 1)
@settings(max_examples=80, deadline=None)
def test_counts_kept_by_updates_are_those_of_counting_anew_and_the_package_agrees(words, size, least):
    letters = sorted(set("".join(words)))
    for ties in ("text", "ids"):
        pieces, merges, _ = recounted(words, size, least, ties)
        assert merged(words, letters, size, least, ties) == (pieces, merges)
    assert merged(words, letters, size, least, "ids")[1] == of_the_package(words, size, least)


@pytest.mark.spec("NLP-42")
def test_without_ties_the_merges_are_those_of_the_package():
    """Weights are such that at no merge two pairs have one count, which the reference says."""
    words = {"ab": 1000, "bc": 500, "abab": 30, "bcab": 7, "abc": 3}
    _, merges, _ = recounted(words, 7, 1, "text")
    assert merges == recounted({word: words[word] for word in reversed(words)}, 7, 1, "text")[1]  # no order matters
    assert merges == recounted(words, 7, 1, "ids")[1]
    assert merged(words, ["a", "b", "c"], 7)[1] == merges == of_the_package(words, 7, 1)
    assert len(merges) == 4


@pytest.mark.spec("NLP-42")
@given(WHOLE)
@example("a\u00a0</w> <0x41>  \n\t x </w>\ue000 😀👩‍👩‍👧 中文 e\u0301 ")
@example(" ")
@settings(max_examples=60, deadline=None)
def test_any_text_comes_back(text):
    for tokenizer in MARKED:
        assert tokenizer.decode(tokenizer.encode(text)) == text
        assert tokenizer.detokenize(tokenizer.tokenize(text)) == text


TEXT = [
    "the sun casts the shadow of the dial",
    "我们学习机器学习，学习",
    "low lower lowest newest <0x41> </w> it's",
] * 3
MARKED = [SubwordTokenizer.train(TEXT, size, "marked-bpe") for size in (256, 258, 400)]


@pytest.mark.spec("NLP-42")
def test_no_merge_crosses_a_word_and_unknown_characters_are_bytes():
    tokenizer = MARKED[2]
    assert len(set(tokenizer.tokens)) == len(tokenizer.tokens)
    pieces = [piece.removesuffix("</w>") for piece in tokenizer.tokens[256:]]
    assert not [piece for piece in pieces if " " in piece or len({one.isalpha() for one in piece.lstrip("'")}) > 1]
    assert tokenizer.tokenize("Ω sun") == ["<0xCE>", "<0xA9>", "</w>", "sun</w>"]
    assert tokenizer.tokenize("") == [] and tokenizer.tokenize(" ") == ["</w>", "</w>"]
    assert tokenizer.tokenize("</w>") == ["</", "w", "></w>"]  # what a text says is text
    assert merged({"axb": 9}, ["a", "b"], 9) == (["a", "b"], [])  # a and b stand beside no known character


@pytest.mark.spec("NLP-42")
def test_the_file_is_the_package_s_and_keeps_the_unit(tmp_path):
    tokenizer = MARKED[2]
    tokenizer.save(tmp_path / "t.json")
    again, peer = SubwordTokenizer.load(tmp_path / "t.json"), tokenizers.Tokenizer.from_file(str(tmp_path / "t.json"))
    assert again.unit == "marked-bpe" and again.tokens == tokenizer.tokens and again.merges == tokenizer.merges
    for text in (*TEXT, "unseen Ω  😀 ", "", "\n"):
        ids = peer.encode(text).ids
        assert ids == again.encode(text).tolist() and peer.decode(ids) == text


@pytest.mark.spec("NLP-42")
def test_a_thousand_merges_touch_each_place_a_few_times():
    """The work is counted, not timed: places that are merged or begin a new pair, against pieces to recount."""
    random = np.random.default_rng(0)
    words = {"".join(random.choice(list("abcdefgh"), random.integers(3, 12))): 1 for _ in range(3000)}
    n = sum(map(len, words))
    found = gnomon.data.pair_merging._Pairs(words, sorted("abcdefgh"), 1, "text")
    for piece in range(8, 1008):
        found.merge(found.best(), piece)
    assert found.used < 3 * n < 1000 * n / 100


@pytest.mark.parametrize(
    ("given_", "what"),
    [
        ({"ties": "chance"}, "ties must be text or ids, got 'chance'"),
        ({"kind": "bpe", "ties": "text"}, "ties must be ids of bpe, got 'text'"),
        ({"corpus": {"a": 0}}, "the count of 'a' must be at least 1, got 0"),
        ({"corpus": {"a": 1.5}}, "the count of 'a' must be a whole number, got 1.5"),
        ({"corpus": {3: 1}}, "a text must be a string, got 3"),
        ({"corpus": {}}, "no tokens"),
    ],
)
def test_what_cannot_be_learned_from_is_told_in_a_line(given_, what):
    with pytest.raises(UserError) as found:
        SubwordTokenizer.train(**{"corpus": WORDS, "kind": "marked-bpe"} | given_)
    assert what in str(found.value) and "\n" not in str(found.value)


def test_a_mapping_says_how_often_a_text_occurs():
    for kind in ("bpe", "byte-bpe", "wordpiece"):
        repeated = [word for word, n in WORDS.items() for _ in range(n)]
        assert SubwordTokenizer.train(WORDS, 300, kind).tokens == SubwordTokenizer.train(repeated, 300, kind).tokens


@pytest.mark.spec("NLP-42")
def test_a_hidden_word_stands_between_whole_words():
    model = gnomon.BERT(unit="marked-bpe")
    model.model_ = SimpleNamespace(vocabulary=Subwords(MARKED[2], SPECIALS))
    ids = model._with_masks("the <mask> casts <mask> shadow")
    assert [ids[1], ids[-2]] == [MASK, MASK]
    shown = model.vocabulary_.decode([i for i in ids if i != MASK])
    assert shown[0] == "the</w>" and "".join(shown) == "the</w>casts</w>shadow</w>"
