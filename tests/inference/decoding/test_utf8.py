"""Writing UTF-8 alone: the automaton against Python's decoder, the distribution by its definition, every search."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gnomon.data.counting import BOS, EOS
from gnomon.data.spelling import spellings
from gnomon.data.text import Vocabulary
from gnomon.inference.decoding.ancestral import ancestral
from gnomon.inference.decoding.beam import beam_search
from gnomon.inference.decoding.greedy import greedy
from gnomon.inference.decoding.utf8 import WritesUtf8, byte_moves
from gnomon.numeric.noise import Noise

EDGES = (0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE,
         0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF)  # fmt: skip
ALL = byte_moves([bytes([byte]) for byte in range(256)])
SPELLED = [None, None, None, b"a", b"\xc3", b"\xa9", b"\xe4", b"\xb8", b"\xad", b"\xf0", b"\x9f", b"\x98", b"\x80"]


class ByPlace:
    """Scores that depend on the last token alone."""

    def __init__(self, size: int, seed: int = 0, spread: float = 1.0) -> None:
        scores = np.random.default_rng(seed).normal(0, spread, (size, size))
        scores[:, BOS] = -np.inf
        self.table = scores - np.log(np.exp(scores).sum(1, keepdims=True))

    def start(self, contexts):
        return np.zeros(len(contexts))

    def step(self, tokens, state):
        return self.table[tokens], state

    def select(self, state, index):
        return state[index]


def written(rows) -> list[bytes]:
    return [b"".join(SPELLED[i] or b"" for i in row if i >= 0) for row in rows]


def is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def begins_utf8(data: bytes) -> bool:
    """Whether some more bytes make it UTF-8."""
    return any(
        is_utf8(data + bytes(tail)) for k in range(4) for tail in itertools.product((0x80, 0x90, 0xA0), repeat=k)
    )


@pytest.mark.spec("PRA-172")
def test_the_automaton_takes_what_python_decodes():
    some = [bytes(one) for k in (1, 2, 3) for one in itertools.product(EDGES, repeat=k)]
    some += [bytes(one) for one in itertools.product(EDGES[-6:], EDGES[3:9], (0x7F, 0x80, 0xBF), (0x80, 0xBF, 0xC0))]
    for data in some:
        place = 0
        for byte in data:
            place = -1 if place < 0 else int(ALL[place, byte])
        assert (place >= 0) == begins_utf8(data), data
        assert (place == 0) == is_utf8(data), data
    assert all(is_utf8(bytes([byte])) == (ALL[0, byte] == 0) for byte in range(256))
    pieces = [b"a\xc3\xa9", b"\xb8\xad", b"\xadx", b"\xe4\xb8", b"\xc3\xc3"]
    assert byte_moves(pieces)[:4].tolist() == [
        [0, -1, -1, 1, -1],
        [-1, -1, 0, -1, -1],
        [-1, 0, -1, -1, -1],
        [-1] + [1] + [-1] * 3,
    ]


@pytest.mark.spec("PRA-172")
def test_it_is_the_models_distribution_given_what_may_come():
    model, moves = ByPlace(len(SPELLED)), byte_moves(SPELLED)
    writer = WritesUtf8(model, moves, 9)
    between, within = {0, EOS, 3, 4, 6, 9}, {5, 7, 8, 10, 11, 12}  # <s> has no mass; any continuation after e4
    state = writer.start([[], [BOS, 4], [BOS, 4]])
    found, state = writer.step(np.array([BOS, 5, 6]), state)
    for row, last, may in ((0, BOS, between), (1, 5, between), (2, 6, between)):  # e4 after c3 begins anew
        may = within if row == 2 else may
        p = np.exp(model.table[last])
        wanted = np.where(np.isin(np.arange(len(p)), list(may)), p, 0) / p[list(may)].sum()
        assert np.exp(found[row]) == pytest.approx(wanted, abs=1e-12)
    long, _ = writer.step(np.array([11, 3, 12]), writer.start([[BOS, 9, 10], [BOS], [9, 10, 11]]))  # prompts within one
    for row, may in enumerate((within, between, between)):
        assert set(np.flatnonzero(np.isfinite(long[row])).tolist()) == may
    f0 = writer.step(np.array([9]), writer.start([[BOS]]))[0]
    assert set(np.flatnonzero(np.isfinite(f0[0])).tolist()) == {5, 7, 8, 10, 11}  # 80 would be too long a form


@pytest.mark.spec("PRA-172")
@pytest.mark.parametrize("limit", range(1, 8))
def test_every_search_ends_in_whole_characters(limit):
    model, moves = ByPlace(len(SPELLED), seed=limit, spread=3.0), byte_moves(SPELLED)
    writer, prompts = WritesUtf8(model, moves, limit), [[BOS], [BOS, 6, 7, 8]]
    options = {"max_length": limit, "vocabulary_size": len(SPELLED), "end": EOS}
    drawn = ancestral(writer, prompts * 100, Noise(limit, "sample"), **options)
    rows = [*drawn, *greedy(writer, prompts, max_length=limit, end=EOS)[0]]
    for beam in beam_search(writer, prompts, 4, max_length=limit, end=EOS, n_best=4):
        rows += [np.array(one.tokens) for one in beam]
    assert len(rows) > 203 and all(map(is_utf8, written(rows)))
    assert limit == 1 or any(len(one) > len(one.decode()) for one in written(rows))
    bare = ancestral(model, prompts * 100, Noise(limit, "sample"), **options)
    assert not all(map(is_utf8, written(bare)))  # it does not come of itself


@pytest.mark.spec("PRA-172")
def test_a_character_that_cannot_end_is_not_begun_and_one_begun_always_ends():
    model = ByPlace(len(SPELLED))
    model.table[:] = np.log(1e-12)
    model.table[:, [4, 6, 9]] = np.log(1 / 3)
    model.table[:, BOS] = model.table[:, 5] = -np.inf
    no_end = [spelled if spelled != b"\xa9" else b"b" for spelled in SPELLED]
    no_end = [spelled if spelled not in (b"\xb8", b"\xad", b"\x9f", b"\x98", b"\x80") else b"b" for spelled in no_end]
    writer = WritesUtf8(model, byte_moves(no_end), 9)
    found = writer.step(np.array([BOS]), writer.start([[]]))[0]
    assert not np.isfinite(found[0, [4, 6, 9]]).any()  # no byte of the vocabulary goes on with them
    model.table[:] = -np.inf
    model.table[:, 6] = 0.0  # a model that says e4 after all
    rows = ancestral(
        WritesUtf8(model, byte_moves(SPELLED), 9), [[BOS]] * 20, Noise(0, "sample"), max_length=9,
        vocabulary_size=len(SPELLED), end=EOS,
    )  # fmt: skip
    assert all(is_utf8(one) and len(one.decode()) == 3 for one in written(rows))
    assert len({bytes(one) for one in written(rows)}) > 10  # all that may go on are equally probable


def test_spellings_of_units():
    assert spellings(Vocabulary(["a", "\xc3", "中"], ("<unk>",)), "byte") == [None, b"a", b"\xc3", None]
    assert spellings(Vocabulary([" low", "<0xE4>", "中"], ()), "bpe") == [b" low", b"\xe4", "中".encode()]
    assert spellings(Vocabulary(["Ġlow", "Ã©", "ä¸", "Ń"], ()), "byte-bpe") == [
        b" low",
        "é".encode(),
        b"\xe4\xb8",
        b"\xad",
    ]
    assert [spellings(Vocabulary(["a"]), unit) for unit in ("word", "char", "jieba", "wordpiece")] == [None] * 4


def test_bytes_of_pieces_are_those_of_the_package():
    pre_tokenizers = pytest.importorskip("tokenizers").pre_tokenizers
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for text in ("naïve 中文 😀\t\n\x7f\xa0\xad", "".join(map(chr, range(256)))):
        ((piece, _),) = level.pre_tokenize_str(text)
        assert spellings(Vocabulary([piece], ()), "byte-bpe") == [text.encode()]
