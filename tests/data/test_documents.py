"""Labeled texts: from files of every kind to packed rows."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gnomon.data import load
from gnomon.data.documents import Documents
from gnomon.data.packing import CLS, SEP, UNK, pack
from gnomon.errors import UserError, UserValueError

ROWS = [("good, very good", "up"), ("bad", "down"), ("", "down"), ("很好 😀", "up")]


def test_files_of_every_kind_hold_the_same_texts(tmp_path):
    table = "review,label\n" + "".join(f'"{text}",{label}\n' for text, label in ROWS)
    (tmp_path / "t.csv").write_text(table, "utf-8")
    lines = [json.dumps({"review": text, "label": label}) for text, label in ROWS]
    (tmp_path / "t.jsonl").write_text("\n".join(lines), "utf-8")
    for place, (text, label) in enumerate(ROWS):
        (tmp_path / "texts" / label).mkdir(parents=True, exist_ok=True)
        (tmp_path / "texts" / label / f"{place}.txt").write_text(text, "utf-8")
    for data in (load(tmp_path / "t.csv", target="label"), load(tmp_path / "texts")):
        found = sorted(zip(data.view("documents"), data.view("labels").tolist(), strict=True))
        assert found == sorted(ROWS), data
    data = load(tmp_path / "t.jsonl", target="label")
    assert list(zip(data.view("documents"), data.y.tolist(), strict=True)) == ROWS


def test_two_columns_of_text_are_pairs_and_more_are_refused(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,c,y\nx y,z,1,p\nu,v w,2,q\n")
    found = load(tmp_path / "t.csv", target="y", columns=["a", "b"]).view("documents")
    assert found == (("x y", "z"), ("u", "v w"))
    with pytest.raises(UserValueError, match=r"a text or two, got 3 columns, 2 of them of text.*--columns a"):
        load(tmp_path / "t.csv", target="y").view("documents")
    with pytest.raises(UserValueError, match="a table of numbers, not texts"):
        load("iris").view("documents")


def test_rows_are_packed_and_cut_the_longer_text_first():
    pairs = [("a b c d e f", "g h"), ("", "a"), ("a", "")]
    domain = Documents("word", longest=8).learn(pairs)
    code = {name: int(domain.vocabulary.encode([name])[0]) for name in "abcdefgh"}
    rows = [row.tolist() for row in domain.ingest(pairs)]
    assert rows[0] == [CLS, *(code[one] for one in "abc"), SEP, code["g"], code["h"], SEP]
    assert rows[1:] == [[CLS, SEP, code["a"], SEP], [CLS, code["a"], SEP, SEP]]
    ids = domain.ids(pairs)
    assert rows[0] == pack(*ids, longest=8).ids[0].tolist()


@pytest.mark.parametrize("unit", ["word", "char", "byte"])
def test_empty_unknown_and_mixed_texts_have_rows(unit):
    domain = Documents(unit).learn(["naïve 猫 😀", ""])
    rows = [row.tolist() for row in domain.ingest(["", " ", "zq", "naïve 猫 😀"])]
    assert rows[0] == [CLS, SEP]
    assert rows[2][1:-1] == [UNK] * (1 if unit == "word" else 2)
    assert UNK not in rows[3] and rows[3][0] == CLS and rows[3][-1] == SEP
    assert [row.tolist() for row in domain.ingest(["", ""])] == [[CLS, SEP]] * 2


@pytest.mark.parametrize("unit", ["bpe", "byte-bpe", "wordpiece"])
def test_pieces_are_learned_and_stand_between_special_tokens(unit):
    pytest.importorskip("tokenizers")
    domain = Documents(unit, size=300).learn(["low lower lowest"] * 9)
    rows = [row.tolist() for row in domain.ingest(["low lower", ""])]
    assert rows[1] == [CLS, SEP] and rows[0][0] == CLS and rows[0][-1] == SEP
    pieces = domain.vocabulary.decode(rows[0][1:-1])
    assert len(pieces) < len("low lower") and min(rows[0][1:-1]) >= 5
    assert domain.vocabulary.detokenize(pieces) == "low lower"


def test_special_symbols_within_a_text_are_words():
    domain = Documents().learn(["a <sep> b <pad> c"])
    row = domain.ingest(["a <sep> b <pad> <cls>"])[0]
    assert not np.isin(row[1:-1], [0, CLS, SEP]).any()


def test_ten_to_the_five_tokens_are_told_apart():
    words = [f"w{i}" for i in range(100_000)]
    domain = Documents().learn([" ".join(words)])
    row = domain.ingest([" ".join(words)])[0]
    assert len(np.unique(row[1:-1])) == 100_000


def test_what_is_no_text_is_refused():
    for one in Documents().malformed():
        with pytest.raises(UserError):
            Documents().check(one)


def test_docstrings_are_labeled_by_family():
    data = load("python-docstrings")
    shares = np.bincount(data.y) / len(data)
    assert len(data.classes) == 4 and len(data) > 800 and shares.min() > 0.1
    assert len(set(data.text)) == len(data) and min(len(text.split()) for text in data.text) >= 6
    assert data.fingerprint == load("python-docstrings").fingerprint


def test_cells_that_are_all_empty_are_texts_without_a_word(tmp_path, monkeypatch, capsys):
    from gnomon.cli.main import run

    monkeypatch.chdir(tmp_path)
    rows = ["sun noon,a", "sea tide,b"] * 6
    (tmp_path / "good.csv").write_text("text,label\n" + "\n".join(rows))
    (tmp_path / "empty.csv").write_text("text,label\n" + ",a\n,b\n" * 6)
    (tmp_path / "one.csv").write_text("text,label\n" + "sun noon,a\n" * 6)
    options = ["--n-embedding", "4", "--n-heads", "1", "--n-hidden", "4", "--n-layers", "1", "--max-updates", "1"]
    fit = ["fit", "transformer-classifier", "good.csv", "--target", "label", *options]
    assert run([*fit, "--out", "net"]) == 0
    assert run(["predict", "net", "empty.csv", "--out", "said.csv"]) == 0
    assert len((tmp_path / "said.csv").read_text().split()) == 13
    capsys.readouterr()
    # a text to each row is the form that it takes: no other system is named for what is wrong besides
    for words, said in (
        (["empty.csv", "--target", "label"], "the text has no tokens"),
        (["one.csv", "--target", "label"], "y must hold at least 2 classes"),
        (["good.csv", "--target", "label", "--initial", "net", "--n-layers", "3"], "give the settings of the source"),
    ):
        assert run(["fit", "transformer-classifier", *words, *options[:6], "--out", "x"]) == 2
        told = capsys.readouterr().err
        assert said in told and "mlp" not in told
