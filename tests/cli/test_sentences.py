"""``gnomon sample`` of a language model: beginnings, what is drawn from, and the refusals."""

from __future__ import annotations

import json

import pytest

import gnomon
from gnomon.cli.main import run

LINES = ["the cat sat on the mat", "the dog sat on the cat", "a cat ran", "a dog ran home"] * 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("language")
    (path / "lines.txt").write_text("\n".join(LINES))
    gnomon.fit(gnomon.NGram(n=3, smoothing="additive", min_count=6), path / "lines.txt", run=path / "run")
    return path / "run"


def said(capsys, *words):
    assert run(["sample", *map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)["samples"]


def test_sentences_are_those_of_generate(folder, capsys):
    model = gnomon.load(folder)
    words = ("-n", 6, "--seed", 2, "--prompt", "the cat", "--temperature", 0.7, "--top-k", 4, "--top-p", 0.9)
    found = said(capsys, folder, *words, "--max-length", 5, "--unknown", "avoid")
    options = {"temperature": 0.7, "top_k": 4, "top_p": 0.9, "max_length": 5, "unknown": "avoid"}
    assert found == model.generate("the cat", 6, random_state=2, **options)
    assert all(one.startswith("the cat") and "<unk>" not in one for one in found)
    assert said(capsys, folder, "-n", 3, "--seed", 2) == model.sample(3, random_state=2)
    assert said(capsys, folder, "-n", 3, "--seed", 2, "--max-length", 2) == model.sample(
        3, random_state=2, max_length=2
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--temperature", "0"], "temperature must be from"),
        (["--top-p", "2"], "top_p must be in (0, 1], got 2"),
        (["--unknown", "no"], "'no' is not one of"),
    ],
)
def test_refusals(folder, capsys, words, message):
    assert run(["sample", str(folder), *words]) == 2
    assert message in capsys.readouterr().err


def test_what_writes_no_sentences_says_so(tmp_path, capsys):
    gnomon.fit("ppca", "iris", run=tmp_path / "run")
    assert run(["sample", str(tmp_path / "run"), "--prompt", "a"]) == 2
    assert "systems that do: ngram, rnn-lm, gru-lm" in capsys.readouterr().err


def test_sentences_have_no_chains(folder, capsys):
    assert run(["sample", str(folder), "--prompt", "the", "--chains", "2"]) == 2
    assert "independent draws, not states of a chain" in capsys.readouterr().err


def test_pretraining_on_labels_names_the_system_that_learns_them(tmp_path, capsys):
    (tmp_path / "reviews.csv").write_text("review,label\ngood,1\nbad,0\n")
    for data in (str(tmp_path / "reviews.csv"), "python-docstrings"):
        assert run(["fit", "bert", data, "--target", "label", "--out", str(tmp_path / "run")]) == 2
        assert "then transformer-classifier with --target and --initial RUN" in capsys.readouterr().err
