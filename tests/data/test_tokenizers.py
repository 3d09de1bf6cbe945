"""Subword pieces: training, round trips, ties, files, and the systems that read text by them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gnomon
from gnomon.data.sequences import Pairs, Tokens
from gnomon.data.tokenizers import LEARNED, Subwords, SubwordTokenizer
from gnomon.errors import UserError, UserTypeError, UserValueError

tokenizers = pytest.importorskip("tokenizers")
TEXT = [
    "the sun casts the shadow of the dial",
    "我们学习机器学习，学习",
    "low lower lowest newest <0x41> [UNK] <unk>",
] * 5
WHOLE = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.fixture(scope="module")
def trained():
    return {kind: SubwordTokenizer.train(TEXT, 400, kind) for kind in LEARNED}


@given(WHOLE)
@example("<0x41> ▁ Ġ ## \u2581low</w> \r\n\t 　 \x85 \ufeff😀👩‍👩‍👧 中文 e\u0301")
@settings(max_examples=60)
def test_any_text_comes_back_from_pieces_of_characters_and_of_bytes(trained, text):
    for kind in ("bpe", "byte-bpe"):
        tokenizer = trained[kind]
        assert tokenizer.decode(tokenizer.encode(text)) == text
        assert tokenizer.detokenize(tokenizer.tokenize(text)) == text


def test_words_come_back_from_wordpiece_set_apart_by_blanks(trained):
    tokenizer = trained["wordpiece"]
    assert tokenizer.detokenize(tokenizer.tokenize("the  sun,")) == "the sun [UNK]"  # no comma was in the text
    assert tokenizer.detokenize(tokenizer.tokenize("学习机器 the low")) == "学习机器 the low"
    assert tokenizer.tokenize("qq the [UNK]") == ["[UNK]", "the", "[", "UNK", "]"]


def test_names_of_bytes_and_symbols_in_a_text_are_text(trained):
    assert "<0x41>" not in trained["bpe"].tokenize("<0x41> <unk>")
    assert set(trained["bpe"].tokens[:256]) == {f"<0x{b:02X}>" for b in range(256)}
    subwords = Subwords(trained["bpe"])
    assert subwords.encode(subwords.tokenize("<unk> <s>")).min() > 2


@pytest.mark.parametrize("kind", LEARNED)
def test_training_follows_from_the_text_alone(kind):
    """Also where characters are more than room, and in another process."""
    code = (
        "import json, sys; from gnomon.data.tokenizers import SubwordTokenizer as S; "
        "print(json.dumps(S.train(json.loads(sys.argv[1]), 280, sys.argv[2]).tokens))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, json.dumps(TEXT), kind], capture_output=True, text=True, check=True
    )
    assert json.loads(found.stdout) == list(SubwordTokenizer.train(TEXT, 280, kind).tokens)


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe"])
def test_merges_are_those_of_the_package(kind):
    """The same alphabet, words and size: the pieces of the package's own trainer."""
    text = ["low low low low low lower lower newest newest widest"]
    ours = SubwordTokenizer.train(text, 300, kind)
    peer = tokenizers.Tokenizer(tokenizers.models.BPE())
    words = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r" ?\w+"), "isolated")
    level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    peer.pre_tokenizer = words if kind == "bpe" else level
    alphabet = level.alphabet() if kind == "byte-bpe" else []
    rule = tokenizers.trainers.BpeTrainer(
        vocab_size=300 - 256 * (kind == "bpe"), initial_alphabet=alphabet, show_progress=False
    )
    peer.train_from_iterator(text, rule)
    theirs = sorted(peer.get_vocab(), key=peer.get_vocab().get)
    assert theirs == list(ours.tokens[256 * (kind == "bpe") :])
    assert peer.encode(text[0]).tokens == ours.tokenize(text[0])


def test_a_file_of_the_package_is_read_and_written(tmp_path, trained):
    for kind, tokenizer in trained.items():
        tokenizer.save(tmp_path / f"{kind}.json")
        peer = tokenizers.Tokenizer.from_file(str(tmp_path / f"{kind}.json"))
        again = SubwordTokenizer.from_file(tmp_path / f"{kind}.json")
        for text in (*TEXT, "unseen Ω 😀"):
            assert peer.encode(text).ids == again.encode(text).tolist() == tokenizer.encode(text).tolist()
        assert again.tokens == tokenizer.tokens
    bad = tmp_path / "bad.json"
    for content in ("{}", "", '{"model": 3}', "[1]", "\x00"):
        bad.write_text(content)
        with pytest.raises(UserError, match=r"bad\.json"):
            SubwordTokenizer.from_file(bad)
    bad.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match=r"bad\.json"):
        SubwordTokenizer.from_file(bad)
    with pytest.raises(UserError):
        SubwordTokenizer.load(tmp_path / "absent.json")


def test_special_symbols_of_a_file_are_text_in_a_text(tmp_path):
    peer = tokenizers.Tokenizer(tokenizers.models.WordPiece({"[UNK]": 0, "[CLS]": 1, "a": 2}, unk_token="[UNK]"))
    peer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    peer.add_special_tokens(["[CLS]"])
    peer.save(str(tmp_path / "t.json"))
    assert 1 not in SubwordTokenizer.from_file(tmp_path / "t.json").encode("[CLS] a")


def test_a_stream_is_a_text(tmp_path):
    file = tmp_path / "corpus.txt"
    file.write_text("\n".join(TEXT), encoding="utf-8")
    assert SubwordTokenizer.train(file, 400).tokens == SubwordTokenizer.train(TEXT, 400).tokens
    assert SubwordTokenizer.train("\n".join(TEXT), 400).tokens == SubwordTokenizer.train(iter(TEXT), 400).tokens
    tokenizer = SubwordTokenizer.train(TEXT, 400)
    many = list(tokenizer.encode_all(text for text in TEXT * 200))
    assert len(many) == 200 * len(TEXT)
    assert all(np.array_equal(a, tokenizer.encode(b)) for a, b in zip(many[:20], TEXT * 2, strict=False))


def test_the_size_bounds_the_pieces_and_rare_characters_are_bytes():
    text = ["".join(map(chr, range(0x4E00, 0x4F00)))] * 2 + ["aaaa"] * 3
    for kind in LEARNED:
        assert len(SubwordTokenizer.train(text, 260, kind)) <= 260
    tokenizer = SubwordTokenizer.train(text, 260)
    assert tokenizer.tokens[256] == "a"  # most frequent; half of the four that are left are characters
    assert tokenizer.decode(tokenizer.encode(text[0])) == text[0]
    pairs = SubwordTokenizer.train(["ab ab cd"], 300, min_count=2)
    assert "ab" in pairs.tokens and "cd" not in pairs.tokens


@pytest.mark.parametrize(
    ("corpus", "given", "what"),
    [
        ([], {}, "no tokens"), ("  \n", {}, "no tokens"), (TEXT, {"vocabulary_size": 20}, "at least 256"),
        (TEXT, {"kind": "unigram"}, "one of bpe"), (TEXT, {"min_count": 0}, "at least 1"),
        (["\ud800"], {}, "surrogate"), (["a", 3], {}, "text 1"), ([["a"]], {}, "not cut yet"), (3, {}, "int"),
    ],
)  # fmt: skip
def test_what_cannot_be_learned_from_is_refused(corpus, given, what):
    with pytest.raises(UserError, match=what):
        SubwordTokenizer.train(corpus, **given)


def test_what_cannot_be_cut_is_refused(trained):
    with pytest.raises(UserValueError, match="text 1"):
        list(trained["bpe"].encode_all(["a", "\udfff"]))
    with pytest.raises(UserTypeError, match="text 0"):
        trained["bpe"].encode(3)
    with pytest.raises(UserValueError, match="index 1"):
        trained["bpe"].decode([0, 10**6])


def test_without_the_package_one_line_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UserValueError, match=r"pip install 'gnomon\[text\]'"):
        gnomon.NGram(unit="bpe").fit(TEXT)


def test_the_setting_of_threads_is_left_as_found(monkeypatch):
    name = "TOKENIZERS_PARALLELISM"
    monkeypatch.delenv(name, raising=False)
    SubwordTokenizer.train(TEXT, 300)
    assert name not in os.environ
    monkeypatch.setenv(name, "true")
    SubwordTokenizer.train(TEXT, 300)
    assert os.environ[name] == "true"


# --- systems ---------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:too little text")
@pytest.mark.parametrize("unit", LEARNED)
def test_a_language_model_of_pieces_reads_writes_and_is_saved(unit, tmp_path):
    model = gnomon.NGram(n=3, unit=unit, vocabulary_size=300).fit(TEXT)
    scores = model.evaluate(TEXT)
    n_bytes = sum(len(model.vocabulary_.detokenize(model.vocabulary_.tokenize(one)).encode()) + 1 for one in TEXT)
    bits = -model.log_prob(TEXT).sum() / np.log(2) / n_bytes
    assert scores["bits_per_byte"].value == pytest.approx(bits, rel=1e-12)
    assert scores["bits_per_byte"].kind == "exact"
    again = gnomon.load(model.save(tmp_path / "run"))
    assert again.vocabulary_.tokens == model.vocabulary_.tokens
    np.testing.assert_array_equal(again.log_prob(TEXT), model.log_prob(TEXT))
    assert again.generate("the sun", method="greedy", max_length=40) == [TEXT[0]]
    assert model.log_prob([model.vocabulary_.tokenize(TEXT[0])]) == model.log_prob(TEXT[:1])  # pieces are tokens


def test_pairs_learn_the_pieces_of_each_side():
    pairs = [("low lower", "hoch höher"), ("newest", "neueste")] * 3
    domain = Pairs("bpe", size=300).learn(pairs)
    assert "low" in domain.source.tokens and "low" not in domain.target.tokens
    fields = domain.ingest(pairs)
    first = fields["target"].values[: fields["target"].offsets[1]]
    assert domain.target.detokenize(domain.target.decode(first)) == "hoch höher"


@pytest.mark.filterwarnings("ignore")
def test_a_translator_of_pieces_writes_text(tmp_path):
    pairs = [("one two", "zwei eins"), ("two one", "eins zwei"), ("two", "zwei")] * 4
    model = gnomon.Seq2Seq(unit="bpe", vocabulary_size=300, epochs=60, learning_rate=0.02, random_state=0,
                           early_stopping="off").fit(pairs)  # fmt: skip
    assert model.translate(["one two", "two"]) == ["zwei eins", "zwei"]
    assert gnomon.load(model.save(tmp_path / "run")).translate(["two one"]) == ["eins zwei"]
    assert model.evaluate(pairs)["bleu"].data_space == "translations, tokens by zh"


def test_scores_per_token_of_other_pieces_do_not_compare():
    a, b = (Tokens("bpe", size=300).learn(text) for text in (TEXT, TEXT[:2]))
    assert a.space(9) != b.space(9) and a.space(9) == Tokens("bpe", size=300).learn(TEXT).space(9)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda t: SubwordTokenizer.train(TEXT, "300"), "vocabulary_size must be a whole number, got '300'"),
        (lambda t: SubwordTokenizer.train(TEXT, 300, min_count=1.5), "min_count must be a whole number, got 1.5"),
        (lambda t: t.decode([1.5]), "ids must hold whole numbers, got 1.5"),
        (lambda t: t.decode([None]), "ids must hold numbers"),
        (lambda t: t.decode("abc"), "ids must be a list of ids, got str"),
        (lambda t: t.detokenize([None]), "a piece must be a string, got None"),
        (lambda t: t.tokenize_all("abc"), "texts must be a list of texts, got str"),
        (lambda t: list(t.encode_all("abc")), "texts must be a list of texts, got 'abc'"),
        (lambda t: t.save("/nowhere/tokenizer.json"), "cannot write the file"),
        (lambda t: SubwordTokenizer.load(3), "file must be a path, got 3"),
        (lambda t: SubwordTokenizer(3), "tokenizer must be a tokenizers.Tokenizer, got 3"),
    ],
)
def test_what_cannot_be_used_is_told_in_a_line(trained, ask, says):
    with pytest.raises(UserError) as found:
        ask(trained["bpe"])
    assert says in str(found.value) and "\n" not in str(found.value)


@pytest.mark.parametrize("kind", LEARNED)
def test_more_pieces_than_there_is_room_for_end_no_process(kind):
    assert SubwordTokenizer.train(TEXT, 10**12, kind, min_count=10**20).tokens
    assert len(SubwordTokenizer.train(TEXT, 10**12, kind)) < 2000


def test_a_file_whose_ids_are_far_apart_is_refused(trained, tmp_path):
    trained["bpe"].save(tmp_path / "tokenizer.json")
    told = json.loads((tmp_path / "tokenizer.json").read_text())
    told["model"]["vocab"]["far"] = 2**31
    (tmp_path / "tokenizer.json").write_text(json.dumps(told))
    with pytest.raises(UserValueError, match="ids of pieces must follow one another, got 2147483648"):
        SubwordTokenizer.load(tmp_path / "tokenizer.json")
