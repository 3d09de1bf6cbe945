"""Texts between special tokens: against a loop, and against the package tokenizers."""

from __future__ import annotations

import numpy as np
import pytest

from gnomon.data.packing import CLS, PAD, SEP, pack, room, unpack
from gnomon.errors import UserValueError
from gnomon.numeric.ragged import Ragged

TEXTS = [[7, 8, 9], [], [7], [9] * 12, [8, 7] * 3]


def slowly(a, b, longest):
    """One pair, token by token."""
    if b is None:
        return [CLS, *a[: longest - 2], SEP], [0] * (min(len(a), longest - 2) + 2)
    space = longest - 3
    if len(a) + len(b) > space:
        short = min(len(a), len(b), space // 2)
        first = space - short if len(a) > len(b) else short
        a, b = a[:first], b[: space - first]
    return [CLS, *a, SEP, *b, SEP], [0] * (len(a) + 2) + [1] * (len(b) + 1)


@pytest.mark.parametrize("longest", [5, 6, 9, 10, 40])
@pytest.mark.parametrize("pair", [False, True])
def test_every_pair_against_a_loop(longest, pair):
    firsts = [a for a in TEXTS for _ in TEXTS]
    seconds = TEXTS * len(TEXTS) if pair else None
    found = pack(Ragged.of(firsts), Ragged.of(seconds) if pair else None, longest=longest)
    for i, a in enumerate(firsts):
        ids, segments = slowly(a, seconds[i] if pair else None, longest)
        n = len(ids)
        assert found.lengths[i] == n <= longest
        assert found.ids[i].tolist() == ids + [PAD] * (found.ids.shape[1] - n)
        assert found.segments[i, :n].tolist() == segments and not found.segments[i, n:].any()


@pytest.mark.spec("NLP-54")
@pytest.mark.parametrize("longest", [5, 6, 7, 20])
def test_layout_is_that_of_the_tokenizer_of_transformers(longest):
    transformers = pytest.importorskip("transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(5, 30))]
    tokenizer = transformers.BertTokenizer(vocab={word: i for i, word in enumerate(words)})
    random = np.random.default_rng(1)
    a, b = ([random.integers(5, 30, random.integers(1, 9)).tolist() for _ in range(40)] for _ in range(2))
    strings = [[" ".join(words[i] for i in one) for one in side] for side in (a, b)]
    theirs = tokenizer(*strings, truncation="longest_first", max_length=longest, padding=True, return_tensors="np")
    ours = pack(Ragged.of(a), Ragged.of(b), longest=longest)
    assert (ours.ids == theirs["input_ids"]).all() and (ours.segments == theirs["token_type_ids"]).all()
    assert (ours.lengths == theirs["attention_mask"].sum(1)).all()


@pytest.mark.spec("NLP-54", "DLN-219")
@pytest.mark.parametrize("longest", [5, 6, 7, 8, 11, 40])
def test_layout_and_cuts_are_those_of_the_tokenizers_of_bert(longest):
    tokenizers = pytest.importorskip("tokenizers")
    words = [f"w{i}" for i in range(5, 30)]
    vocabulary = {name: i for i, name in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made.post_processor = tokenizers.processors.BertProcessing(("[SEP]", SEP), ("[CLS]", CLS))
    made.enable_truncation(longest, strategy="longest_first")
    made.enable_padding(pad_id=PAD)
    pairs = [(a, b) for a in TEXTS for b in TEXTS]
    text = [(" ".join(f"w{i}" for i in a), " ".join(f"w{i}" for i in b)) for a, b in pairs]
    for given, mine in (
        (text, pack(Ragged.of([a for a, _ in pairs]), Ragged.of([b for _, b in pairs]), longest=longest)),
        ([a for a, _ in text], pack(Ragged.of([a for a, _ in pairs]), longest=longest)),
    ):
        theirs = made.encode_batch(given)
        assert mine.ids.tolist() == [one.ids for one in theirs]
        assert mine.segments.tolist() == [one.type_ids for one in theirs]
        assert mine.lengths.tolist() == [sum(one.attention_mask) for one in theirs]


@pytest.mark.spec("NLP-54")
def test_texts_come_back_and_a_sequence_is_exactly_as_long_as_it_may_be():
    a, b = Ragged.of(TEXTS), Ragged.of(TEXTS[::-1])
    for packed, sides in ((pack(a, b), (a, b)), (pack(a), (a, Ragged.of([[]] * len(a))))):
        for found, given in zip(unpack(packed), sides, strict=True):
            np.testing.assert_array_equal(found.values, given.values)
            np.testing.assert_array_equal(found.offsets, given.offsets)
    assert pack(Ragged.of([[9] * 12]), Ragged.of([[8] * 9]), longest=11).ids.shape == (1, 11)


@pytest.mark.spec("NLP-54")
@pytest.mark.parametrize(("longest", "pair"), [(2, False), (4, True), (0, False)])
def test_no_room_for_the_special_tokens_is_refused(longest, pair):
    with pytest.raises(UserValueError, match=r"must have at least \d tokens, got"):
        room(longest, pair)
    with pytest.raises(UserValueError, match=r"must have at least \d tokens, got"):
        pack(Ragged.of([[7]]), Ragged.of([[7]]) if pair else None, longest=longest)
