"""Strict JSON, tables and warnings of the command line."""

from __future__ import annotations

import io
import json
import math
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from gnomon.cli import output
from gnomon.errors import number
from gnomon.evaluation.score import Score
from gnomon.tasks.boards import Leaderboard, Line


def parsed(capsys: pytest.CaptureFixture[str]) -> object:
    """What `dump` printed, read by a parser that refuses NaN and infinities."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(capsys.readouterr().out, parse_constant=refuse)


def test_numbers_that_are_not_finite_are_null(capsys: pytest.CaptureFixture[str]) -> None:
    array = np.array([[1.0, np.nan], [np.inf, -np.inf]], np.float32)
    output.dump(
        {"a": math.nan, "b": [math.inf, 1.5], "c": array, "d": np.float64("nan"), "e": np.int64(3), "f": (None, True)}
    )
    assert parsed(capsys) == {
        "a": None, "b": [None, 1.5], "c": [[1.0, None], [None, None]], "d": None, "e": 3, "f": [None, True],
    }  # fmt: skip


def test_an_undefined_score_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    one = Score.from_pointwise([-2.0], name="log_likelihood", data_space="pmf on {0,1}^2")
    output.dump({"scores": {"log_likelihood": one, "perplexity": Score(math.inf, name="perplexity", unit="per token")}})
    found = parsed(capsys)
    assert isinstance(found, dict)
    scores = found["scores"]
    assert scores["log_likelihood"]["value"] == -2.0 and scores["log_likelihood"]["stderr"] is None
    assert "one example" in scores["log_likelihood"]["reason"]
    assert scores["perplexity"]["value"] is None and "inf" in scores["perplexity"]["reason"]


@pytest.mark.parametrize(("n", "words"), [(1, "1 code is in F"), (2, "2 codes are in F"), (0, "0 codes are in F")])
def test_one_is_no_plural(n: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    output.written(n, "code", "F")
    assert capsys.readouterr().err == f"gnomon: {words}\n"


def test_columns_line_up_with_wide_characters() -> None:
    lines = output.table(
        ["name", "title", "n"], [["rbm", "受限玻尔兹曼机", "1"], ["ppca", "e\u0301t", "100"]], right=[2]
    ).split("\n")
    assert [output.width(line) for line in lines] == [output.width(lines[0])] * 3


def test_a_warning_is_one_line_and_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = output.show_warning
        for _ in range(2):
            warnings.warn("two words\nin two lines", UserWarning, stacklevel=1)
    out, err = capsys.readouterr()
    assert (out, err) == ("", "gnomon: notice: two words in two lines\n")


@pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal")
def test_a_terminal_is_told_what_begins_before_heavy_imports(tmp_path: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    table = tmp_path / "t.csv"
    table.write_text("a,b\n" + "".join(f"{i},{2 * i + i % 3}\n" for i in range(40)))
    words = [sys.executable, "-m", "gnomon", "fit", "linear-regression", "t.csv", "--target", "b"]
    words += ["--numeric", "a", "--out", "r"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        said = os.read(ours, 4096).decode()
        assert process.wait(timeout=100) == 0
    os.close(ours)
    assert said.startswith("gnomon: fitting linear-regression to t.csv into r")


@pytest.mark.parametrize(
    ("terminal", "rank", "said"), [(True, "0", "gnomon: begun\n"), (True, "1", ""), (False, "0", "")]
)
def test_the_first_process_announces_on_a_terminal_alone(
    terminal: bool, rank: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("RANK", rank)
    output.announce("begun")
    assert stream.getvalue() == said


def test_a_number_looks_the_same_in_every_table() -> None:
    score = Score(0.25, 1 / 3, name="accuracy")
    line = Line("svm", score, {"count": Score(1234567.8)}, 1.0, None, "better")
    board = str(Leaderboard("classify", "d", "labels", "accuracy", [line]))
    table = output.scores({"accuracy": score, "count": Score(1234567.8)})
    for words in ("0.25 ", "0.33333 ", "1.2346e+06"):
        assert words in f"{board} " and words in table
    assert number(line.score.value) in board
