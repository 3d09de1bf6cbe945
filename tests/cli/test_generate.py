"""``gnomon generate``: prompts together, beams, streams and refusals, by one mechanism with ``System.generate``."""

from __future__ import annotations

import io
import itertools
import json

import numpy as np
import pytest

import gnomon
from gnomon.cli.generate import Streamed
from gnomon.cli.main import run
from gnomon.errors import UserValueError

LINES = ["the cat sat on the mat", "the dog sat on the cat", "a cat ran", "a dog ran home"] * 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("language")
    (path / "lines.txt").write_text("\n".join(LINES))
    gnomon.fit(gnomon.NGram(n=3, smoothing="additive"), path / "lines.txt", run=path / "run")
    return path / "run"


def said(capsys, *words):
    assert run(["generate", *map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)["texts"]


def test_prompts_go_on_together_as_each_alone(folder):
    model = gnomon.load(folder)
    prompts = ["the", "a dog", "", "the cat sat"]
    for method in ("greedy", "beam"):
        together = model.generate_each(prompts, 1, method=method, max_length=6)
        assert together == [model.generate(one, method=method, max_length=6) for one in prompts]
    beams = model.generate_each(prompts, 3, method="beam", width=4, length_penalty=0.5, max_length=4)
    assert beams == [
        model.generate(one, 3, method="beam", width=4, length_penalty=0.5, max_length=4) for one in prompts
    ]
    drawn = model.generate_each(prompts, 3, random_state=5, top_k=3)
    assert drawn[0] == model.generate("the", 3, random_state=5, top_k=3)  # more prompts change nothing of the first
    assert all(text.startswith(prompt) for prompt, texts in zip(prompts, drawn, strict=True) for text in texts)
    assert model.generate_each([], 2) == [] and model.generate_each([["the", "cat"]], 0) == [[]]
    assert model.generate(["the", "cat"], method="greedy") == model.generate("the cat", method="greedy")
    with pytest.raises(UserValueError, match="width must be at least 1, got 0"):
        model.generate("the", method="beam", width=0)
    with pytest.raises(UserValueError, match="prompts must be a list of prompts, got 'the'"):
        model.generate_each("the")


@pytest.mark.parametrize("method", ["greedy", "sample"])
def test_what_is_watched_grows_to_what_is_given_back(folder, method):
    model, seen = gnomon.load(folder), {}
    found = model.generate_each(
        ["the", "a"], 1, method=method, max_length=7, random_state=3,
        watch=lambda number, text: seen.setdefault(number, []).append(text),
    )  # fmt: skip
    assert [seen[0][-1], seen[1][-1]] == [found[0][0], found[1][0]]
    for texts in seen.values():
        assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(texts))
        assert [len(text.split()) for text in texts] == list(range(2, 2 + len(texts)))


def test_the_command_says_what_generate_says(folder, capsys, tmp_path, monkeypatch):
    model = gnomon.load(folder)
    options = ("--temperature", 0.7, "--top-k", 4, "--top-p", 0.9, "--max-length", 5, "--unknown", "avoid")
    words = {"temperature": 0.7, "top_k": 4, "top_p": 0.9, "max_length": 5, "unknown": "avoid"}
    found = said(capsys, folder, "--prompt", "the", "--prompt", "a", "-n", 2, "--seed", 2, *options)
    assert [one["prompt"] for one in found] == ["the", "a"]
    assert [one["texts"] for one in found] == model.generate_each(["the", "a"], 2, random_state=2, **words)
    found = said(
        capsys, folder, "--prompt", "the", "-n", 7, "--method", "beam", "--length-penalty", 0, "--max-length", 3
    )
    assert found[0]["texts"] == model.generate("the", 7, method="beam", width=7, length_penalty=0, max_length=3)
    assert said(capsys, folder, "--method", "greedy")[0]["texts"] == model.generate("", method="greedy")
    monkeypatch.setattr("sys.stdin", io.StringIO("the dog\n\na\n"))
    found = said(capsys, folder, "--prompt", "-", "--method", "greedy")
    assert [one["texts"] for one in found] == model.generate_each(["the dog", "", "a"], method="greedy")
    out = tmp_path / "texts.txt"
    assert run(["generate", str(folder), "-n", "3", "--seed", "1", "--out", str(out)]) == 0
    assert out.read_text().splitlines() == model.generate("", 3, random_state=1)
    capsys.readouterr()
    assert run(["generate", str(folder), "--prompt", "the", "--seed", "1", "--stream"]) == 0
    assert capsys.readouterr().out == model.generate("the", random_state=1)[0] + "\n"


def test_a_stream_writes_what_is_new_and_mends_what_was_otherwise():
    written: list[str] = []
    stream = Streamed(written.append)
    for text in ("a", "a", "a b", "a b\ufffd", "a bé"):
        stream(0, text)
    stream.end("a bé!")
    assert written == ["a", " b", "é", "!\n"]
    written.clear()
    stream = Streamed(written.append)
    stream(0, "a ,")
    stream(0, "a, b")
    stream.end("a, b")
    assert "".join(written) == "a ,\na, b\n"


def test_pieces_of_a_character_wait_for_the_rest():
    model = gnomon.NGram(n=4, unit="byte", smoothing="additive").fit(["über öl"] * 3)
    written: list[str] = []
    stream = Streamed(written.append)
    text = model.generate_each([""], method="greedy", watch=stream)[0][0]
    stream.end(text)
    assert "".join(written) == text + "\n" == "über öl\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--method", "greedy", "--top-k", "3"], "--top-k does not go with --method greedy; leave it out"),
        (["--method", "beam", "--seed", "3"], "--seed does not go with --method beam"),
        (["--width", "3"], "--width does not go with --method sample; leave it out, or take --method beam"),
        (["--method", "greedy", "-n", "2"], "n must be at most 1, got 2; greedy search keeps 1"),
        (["--method", "beam", "-n", "3", "--width", "2"], "n must be at most 2, got 3"),
        (["--stream", "-n", "2"], "only one text can be streamed"),
        (["--temperature", "0"], "temperature must be from"),
        (["--out", "texts.csv"], "texts.csv"),
    ],
)
def test_refusals(folder, capsys, words, message):
    assert run(["generate", str(folder), *words]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1


def test_what_writes_no_texts_and_prompts_that_are_none(tmp_path, capsys, folder, monkeypatch):
    gnomon.fit("ppca", "iris", run=tmp_path / "run")
    assert run(["generate", str(tmp_path / "run"), "--prompt", "a"]) == 2
    assert "systems that do: ngram" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert run(["generate", str(folder), "--prompt", "-"]) == 2
    assert "standard input has no line" in capsys.readouterr().err


def test_a_beam_of_every_text_finds_the_best():
    """All texts of at most two tokens of a model of three, by brute force."""
    model = gnomon.NGram(n=2, smoothing="additive").fit(["a b", "b a b", "a", "b b"])
    texts = ["", "a", "b", *(f"{x} {y}" for x in "ab" for y in "ab")]
    best = texts[int(np.argmax(model.log_prob([one.split() for one in texts])))]
    assert model.generate("", method="beam", width=60, length_penalty=0.0, max_length=3) == [best]
