"""Tokens, sentences and vocabularies."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import gnomon
from gnomon.data.sequences import Pairs
from gnomon.data.text import Vocabulary, detokenize, lines, sentences, tokenize
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.systems.text.ngram import NGram

ANY_TEXT = st.text(st.characters())


@pytest.mark.spec("PRA-145")
@given(ANY_TEXT)
@example("\ud800 lone surrogate \udfff")
def test_bytes_and_characters_round_trip_exactly(text):
    for unit in ("byte", "char"):
        tokens = tokenize(text, unit)
        assert all(len(token) == 1 for token in tokens)
        assert detokenize(tokens, unit) == text
        vocabulary = Vocabulary.fit(tokens)
        assert detokenize(vocabulary.decode(vocabulary.encode(tokens)), unit) == text


@pytest.mark.spec("PRA-145")
def test_units():
    text = "na\u00efve  caf\u00e9\tau\nlait"
    assert tokenize(text) == ["na\u00efve", "caf\u00e9", "au", "lait"]
    assert detokenize(tokenize(text)) == "na\u00efve caf\u00e9 au lait"
    assert [ord(b) for b in tokenize("\u00ef\u20ac", "byte")] == list("\u00ef\u20ac".encode())
    assert max(map(ord, tokenize("\U0001f600", "byte"))) < 256
    # nothing is normalized: composed and decomposed accents stay different
    assert tokenize("\u00e9", "char") == ["\u00e9"] and tokenize("e\u0301", "char") == ["e", "\u0301"]
    assert detokenize(["\xff", "a"], "byte") == "\ufffda"
    for function in (tokenize, detokenize, sentences):
        with pytest.raises(UserValueError, match="word, char, byte"):
            function("a", "syllable")


@pytest.mark.spec("PRA-145", "DLN-175")
def test_ids_by_frequency_then_code_point():
    tokens = ["b", "a", "c", "b", "Z", "é", "a", "b"]
    vocabulary = Vocabulary.fit(tokens)
    assert vocabulary.specials == ("<unk>", "<s>", "</s>")
    assert vocabulary.tokens == ("b", "a", "Z", "c", "\u00e9")
    assert vocabulary.encode(["b", "a", "Z", "c", "\u00e9", "new"]).tolist() == [3, 4, 5, 6, 7, 0]
    shuffled = Vocabulary.fit(tokens[::-1])
    assert shuffled.tokens == vocabulary.tokens
    assert Vocabulary.fit(tokens, min_count=2).tokens == ("b", "a")
    assert len(vocabulary) == 8 and "b" in vocabulary and "<unk>" not in vocabulary


@pytest.mark.spec("DLN-175")
@given(st.lists(st.text(max_size=3), max_size=30))
def test_encode_then_decode_is_the_identity(tokens):
    vocabulary = Vocabulary.fit(tokens, specials=())
    ids = vocabulary.encode(tokens)
    assert ids.dtype == np.int64 and vocabulary.decode(ids) == tokens
    again = Vocabulary.from_state(vocabulary.state())
    assert (again.tokens, again.specials) == (vocabulary.tokens, vocabulary.specials)


@pytest.mark.spec("DLN-175")
def test_one_hot_picks_rows_and_equals_torch():
    vocabulary = Vocabulary.fit(["a", "b", "c", "d"])
    rng = np.random.default_rng(0)
    ids = rng.integers(0, len(vocabulary), (5, 6))
    W = rng.normal(size=(len(vocabulary), 3))
    hot = vocabulary.one_hot(ids, np.float64)
    assert hot.shape == (5, 6, 7)
    assert np.array_equal(hot @ W, W[ids])
    assert np.array_equal(hot, torch.nn.functional.one_hot(torch.from_numpy(ids), 7).numpy())
    for t in range(6):  # T matrices (N, V)
        assert np.array_equal(hot[:, t], np.eye(7)[ids[:, t]])
    assert vocabulary.one_hot(3).tolist() == [0, 0, 0, 1, 0, 0, 0]
    assert vocabulary.one_hot([]).shape == (0, 7)
    for wrong in (-1, 7):
        with pytest.raises(UserValueError, match=str(wrong)):
            vocabulary.one_hot([0, wrong])


@pytest.mark.spec("DLN-175")
def test_unknown_tokens():
    with_unknown = Vocabulary.fit(["a"], specials=("<s>", "<unk>"))
    assert with_unknown.encode(["z", "a"]).tolist() == [1, 2] and with_unknown.unknown == 1
    without = Vocabulary.fit(["a"], specials=())
    with pytest.raises(UserValueError, match=r"'z' .*token 1"):
        without.encode(["a", "z"])
    with pytest.raises(UserValueError, match="got 9"):
        without.decode([0, 9])


def test_literal_markers_are_words_of_their_own():
    vocabulary = Vocabulary.fit(["<s>", "hello", "</s>", "hello", "<unk>"])
    ids = vocabulary.encode(["<s>", "</s>", "<unk>", "hello", "zzz"])
    assert set(ids[:3].tolist()).isdisjoint(range(3)) and ids[4] == vocabulary.special("<unk>") == 0
    assert len(set(ids.tolist())) == 5
    assert (vocabulary.special("<s>"), vocabulary.special("</s>")) == (1, 2)
    again = Vocabulary.from_state(vocabulary.state())
    assert np.array_equal(again.encode(["<s>", "zzz"]), vocabulary.encode(["<s>", "zzz"]))
    with pytest.raises(UserValueError, match="hello"):
        vocabulary.special("hello")


def test_odd_characters_in_a_text():
    raw = b"<s> hello </s>\r\nhello <unk> world\r\n\r\nna\xc3\xafve caf\xc3\xa9\xc2\xa0au lait\nzero\n".decode()
    found = sentences(raw)
    assert [len(sentence) for sentence in found] == [3, 3, 4, 1]
    for other in (raw.replace("\r\n", "\n"), raw.replace("\r\n", "\n").replace("\n", "\r"), raw[:-1], "\ufeff" + raw):
        assert sentences(other) == found
    with pytest.raises(UserValueError, match=r"NUL.*line 5, column 1"):
        sentences(raw.replace("zero", "\0zero"))
    with pytest.raises(UserValueError, match="sentence 1, column 3"):
        sentences(["a", "b \0"])
    assert lines("a\n\n b \n") == ["a", " b "]


ABC = [["a", "b", "c"], ["b", "c", "d"], ["c", "d", "e"]]


def generator():
    yield from (["a", "b", "c"], ["b", "c", "d"], ["c", "d", "e"])


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        (generator(), ABC),
        ("a b c b c d", [["a", "b", "c", "b", "c", "d"]]),
        ("a b c\nb c d\n\nc d e", ABC),
        (["a b c", "b c d", "c d e"], ABC),
        (("a b c", "b c d", "c d e"), ABC),
        (np.array(["a b c", "b c d", "c d e"]), ABC),
        (ABC, ABC),
        ((" ".join(s) for s in ABC), ABC),
        (["a b c", ""], [["a", "b", "c"], []]),
    ],
)
def test_every_form_of_a_text_has_one_meaning(X, expected):
    assert sentences(X) == expected


def test_sentences_of_characters_and_of_a_data_set():
    from gnomon.data import load

    assert sentences(["ab", "c d"], "char") == [["a", "b"], ["c", " ", "d"]]
    assert sentences([["ab"]], "char") == [["ab"]]
    data = load("python-reference")
    assert sentences(data)[0] == data.text[0].split()


@pytest.mark.parametrize(
    ("X", "error", "part"),
    [
        ([], UserValueError, "no tokens"),
        ([[]], UserValueError, "no tokens"),
        ("", UserValueError, "no tokens"),
        (" \n ", UserValueError, "no tokens"),
        ([["a", 3]], UserTypeError, "a token must be a string, got 3 (sentence 0, token 1)"),
        (["a", 3], UserTypeError, "a sentence must be text or a list of tokens, got 3 (sentence 1)"),
        ([["a"], None], UserTypeError, "sentence 1"),
        ([b"a"], UserTypeError, "sentence 0"),
        (b"a b", UserTypeError, "decode"),
        (7, UserTypeError, "X must be text, got int"),
        ({"a": 1}, UserTypeError, "X must be text, got dict"),
    ],
)
def test_what_is_no_text(X, error, part):
    with pytest.raises(error) as caught:
        sentences(X)
    assert part in str(caught.value) and "\n" not in str(caught.value)


FRAMES = (pd.DataFrame({"text": ["a b c", "b c d"]}), pl.DataFrame({"text": ["a b c", "b c d"]}))


@pytest.mark.parametrize("frame", FRAMES, ids=["pandas", "polars"])
def test_a_data_frame_is_no_text_at_any_door(frame):
    """HB-36: Python goes through a frame by the names of its columns, which became the corpus."""
    pairs = type(frame)({"ab": ["a b", "c"], "cd": ["b a", "c"]})
    fitted = NGram(n=2, smoothing="additive").fit(frame["text"])
    assert len(fitted.log_prob(frame["text"])) == 2 and set(fitted.vocabulary_.tokens) == {"a", "b", "c", "d"}
    doors = [
        lambda: sentences(frame), lambda: Vocabulary.fit(frame), lambda: NGram(n=2).fit(frame),
        lambda: fitted.log_prob(frame), lambda: fitted.evaluate(frame), lambda: fitted.generate(frame),
        lambda: fitted.perplexity(frame), lambda: gnomon.make("rnn-lm", epochs=1).fit(frame),
    ]  # fmt: skip
    for door in doors:
        with pytest.raises(UserTypeError, match=r"got a data frame; give one of its columns: frame\['text'\]"):
            door()
    with pytest.raises(UserTypeError, match=r"a list of pairs, got a data frame; give its rows"):
        Pairs().check(pairs)


def test_vocabulary_of_sentences_and_mistakes():
    assert Vocabulary.fit(ABC).tokens == Vocabulary.fit([t for s in ABC for t in s]).tokens == ("c", "b", "d", "a", "e")
    assert Vocabulary.fit(iter(["", "a"])).tokens == ("", "a")
    for tokens in ("abc", ["a", 3], [["a", 3]], [["a", {}]], [{}]):
        with pytest.raises(UserTypeError):
            Vocabulary.fit(tokens)
    with pytest.raises(UserTypeError, match="tokenize"):
        Vocabulary.fit(["a"]).encode("a")
    with pytest.raises(UserValueError, match="min_count"):
        Vocabulary.fit(["a"], min_count=0)
    with pytest.raises(UserError, match="twice"):
        Vocabulary(["a", "a"])
