"""Task translate: pairs by name and from files, the baseline, the board."""

from __future__ import annotations

import os

import numpy as np
import pytest

import gnomon
from gnomon.data import load
from gnomon.errors import UserValueError
from gnomon.tasks.base import task
from gnomon.tasks.translate import Commonest


def test_sets_by_name():
    dates, strings, interface = load("dates"), load("reversed"), load("django-zh")
    assert len(dates) == len(strings) == 4000 and len(set(dates.pairs)) == len(set(strings.pairs)) == 4000
    assert all(source[::-1] == target and 3 <= len(source) <= 8 for source, target in strings.pairs)
    assert all(np.datetime64(target) for _, target in dates.pairs)
    assert 750 < len(interface) < 1000 and ("Monday", "星期一") in interface.pairs
    for data in (dates, strings):
        assert load(data.name).fingerprint == data.fingerprint


def test_files_of_two_columns(tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text("one two\tzwei eins\n\nthree\tdrei\n", "utf-8")
    assert task("translate").read(file).pairs == (("one two", "zwei eins"), ("three", "drei"))
    file.write_text("one two\tzwei\nthree\n", "utf-8")
    with pytest.raises(UserValueError, match=r"must have 2 columns, got 1 \(pairs.tsv, line 2\)"):
        task("translate").read(file)


@pytest.mark.parametrize("header", ["source\ttarget", "SRC\t tgt", "question\tanswer"])
def test_a_header_is_no_pair(tmp_path, header):
    file = tmp_path / "pairs.tsv"
    file.write_text(f"\n{header}\none\tzwei\nsource\ttarget\n", "utf-8")
    assert task("translate").read(file).pairs == (("one", "zwei"), ("source", "target"))


def test_files_that_hold_no_pairs(tmp_path):
    """A pipe would be waited for; a separator of lines within a text ends no pair."""
    (tmp_path / "u.tsv").write_text("a\u2028b\tc\x0cd\n", "utf-16")
    assert task("translate").read(tmp_path / "u.tsv").pairs == (("a\u2028b", "c\x0cd"),)
    os.mkfifo(tmp_path / "pipe.tsv")
    (tmp_path / "header.tsv").write_text("source\ttarget\n")
    (tmp_path / "blank.tsv").write_text("\n\n")
    for name, said in [
        ("pipe.tsv", "must be a regular file"), ("header.tsv", "at least 1 pair, got 0"), ("", "this is a folder"),
        ("blank.tsv", "at least 1 pair, got 0"), ("none.tsv", "file not found"),
    ]:  # fmt: skip
        with pytest.raises(UserValueError, match=said):
            task("translate").read(tmp_path / name)
    for name in ("", "daets"):
        with pytest.raises(UserValueError, match=f"no data set and no file '{name}'"):
            task("translate").read(name)


def test_the_baseline_says_the_most_frequent_target():
    pairs = [("a", "xy"), ("b", "z"), ("c", "xy")]
    fitted = Commonest("char").fit(pairs)
    assert fitted.translate(["q", "r"]) == ["xy", "xy"]
    assert fitted.evaluate(pairs)["exact"].value == pytest.approx(2 / 3)


def test_a_board_of_translations():
    data = load("reversed")
    small = data.take(np.arange(400), "small")
    system = gnomon.Seq2Seq(n_hidden=24, n_embedding=12, epochs=6, learning_rate=0.02, random_state=0)
    rule = task("translate")
    train, test = rule.split(small, test=0.25)
    X, y = rule.examples(train, system)
    scores = rule.scores(system.fit(X, y), *rule.examples(test, system))
    title, blind = rule.baseline(system, X, y)
    assert title == "most frequent target" and blind.unit == "char"
    assert rule.board(system) != rule.board(gnomon.Seq2Seq(unit="word"))
    assert scores["bleu"].against(rule.scores(blind, *rule.examples(test, system))["bleu"]) == "better"
