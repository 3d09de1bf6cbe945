"""Words by jieba: asked for by name, lossless, refused in one line where the package is absent."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import gnomon
from gnomon.cli.main import run
from gnomon.data.text import detokenize, tokenize
from gnomon.errors import UserValueError

LINES = ["我们今天学习机器学习。", "用GPU学习 machine learning。"]


@pytest.fixture
def pairs_of_characters(monkeypatch):
    """A jieba that takes two characters for a word."""
    levels: list[int] = []
    fake = SimpleNamespace(
        lcut=lambda text: [text[i : i + 2] for i in range(0, len(text), 2)], setLogLevel=levels.append
    )
    monkeypatch.setitem(sys.modules, "jieba", fake)
    return levels


@pytest.fixture
def absent(monkeypatch):
    monkeypatch.setitem(sys.modules, "jieba", None)


def test_words_are_those_of_the_package_and_joined_they_are_the_text(pairs_of_characters):
    assert tokenize("我们今天", "jieba") == ["我们", "今天"] and pairs_of_characters == [30]
    assert all(detokenize(tokenize(line, "jieba"), "jieba") == line for line in LINES)


def test_scores_name_the_words_and_count_the_bytes_of_the_text(pairs_of_characters):
    fitted = gnomon.NGram(n=1, smoothing="additive", unit="jieba", random_state=0).fit(LINES * 3)
    found = fitted.evaluate(LINES)
    assert found["log_likelihood"].data_space.startswith("sentences of words by jieba, vocabulary of ")
    tokens = sum(len(tokenize(line, "jieba")) + 1 for line in LINES)
    whole = sum(len(line.encode()) + 1 for line in LINES)
    bits = -found["log_likelihood"].value * tokens / np.log(2)
    assert np.isclose(found["bits_per_byte"].value, bits / whole)
    assert all(set(fitted.sample(3, random_state=0)[0]) <= set("".join(LINES)) for _ in range(2))


def test_without_the_package_the_error_names_it(absent, capsys, tmp_path):
    with pytest.raises(UserValueError, match=r"pip install jieba, or choose char"):
        gnomon.NGram(unit="jieba").fit(LINES)
    file = tmp_path / "zh.txt"
    file.write_text("\n".join(LINES), encoding="utf-8")
    assert run(["fit", "ngram", str(file), "--unit", "jieba", "--out", str(tmp_path / "run")]) == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1 and "needs the package jieba" in told[0] and not (tmp_path / "run").exists()


def test_the_package_itself(tmp_path, capsys):
    pytest.importorskip("jieba")
    words = tokenize(LINES[0], "jieba")
    assert {"我们", "今天", "学习"} <= set(words) and "".join(words) == LINES[0]
    file = tmp_path / "zh.txt"
    file.write_text("\n".join(LINES * 10), encoding="utf-8")
    assert (
        run(["fit", "ngram", str(file), "--unit", "jieba", "--smoothing", "additive", "--out", str(tmp_path / "run")])
        == 0
    )
    told = capsys.readouterr()
    assert "sentences of words by jieba" in told.out + told.err and "prefix dict" not in told.err
    assert run(["sample", str(tmp_path / "run"), "-n", "2"]) == 0
