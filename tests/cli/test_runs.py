"""fit, resume, evaluate, predict, sample and data through the command line, on small data."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnomon
from gnomon.cli.main import run
from oracles.commands import call

SRC = str(Path(__file__).parents[2] / "src")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A CSV with two features and a label that they tell apart."""
    random = np.random.default_rng(0)
    kind = random.integers(0, 2, size=60)
    x = random.normal(size=(60, 2)) + 4 * kind[:, None]
    lines = [f"{a:.4f},{b:.4f},{'yes' if k else 'no'}" for (a, b), k in zip(x, kind, strict=True)]
    file = tmp_path / "t.csv"
    file.write_text("\n".join(["a,b,kind", *lines]) + "\n")
    return file


def fit_table(capsys: pytest.CaptureFixture[str], table: Path, out: Path, *more: str) -> Any:
    given = ("fit", "softmax-regression", str(table), "--target", "kind", "--epochs", "60", "--random-state", "0")
    return call(capsys, *given, "--out", str(out), *more)


def test_fit_evaluate_predict(capsys: pytest.CaptureFixture[str], table: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    fitted = fit_table(capsys, table, out)
    assert fitted["run"] == str(out) and fitted["seed"] == 0
    assert fitted["held_out"]["accuracy"]["value"] > 0.9
    assert (out / "config.json").is_file() and (out / "model.safetensors").is_file()
    again = call(capsys, "evaluate", str(out))
    assert again["held_out"] and again["n"] == 12
    assert {name: again["scores"][name] for name in fitted["held_out"]} == fitted["held_out"]
    predicted = call(capsys, "predict", str(out), str(table))["predictions"]
    labels = [line.rpartition(",")[2] for line in table.read_text().split()[1:]]
    assert np.mean(np.array(predicted) == np.array(labels)) > 0.9


def test_predict_finds_columns_by_name(capsys: pytest.CaptureFixture[str], table: Path, tmp_path: Path) -> None:
    """The columns of a new file may stand in another order, beside others, and the label may be missing."""
    out = tmp_path / "run"
    fit_table(capsys, table, out)
    whole = call(capsys, "predict", str(out), str(table))["predictions"]
    rows = [line.split(",") for line in table.read_text().split()[1:]]
    other = tmp_path / "other.csv"
    other.write_text("\n".join(["b,id,a", *(f"{b},{i},{a}" for i, (a, b, _) in enumerate(rows))]) + "\n")
    assert call(capsys, "predict", str(out), str(other))["predictions"] == whole
    other.write_text("a,c\n1,2\n")
    assert run(["predict", str(out), str(other)]) == 2
    assert "'b'" in capsys.readouterr().err


def test_predict_writes_new_files_only(capsys: pytest.CaptureFixture[str], table: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    fit_table(capsys, table, out)
    file = tmp_path / "p.csv"
    assert run(["predict", str(out), str(table), "--proba", "--out", str(file)]) == 0
    lines = file.read_text().split()
    assert lines[0] == "prediction,no,yes" and len(lines) == 61
    assert run(["predict", str(out), str(table), "--out", str(file)]) == 2
    assert run(["predict", str(out), str(table), "--out", str(tmp_path / "p.pkl")]) == 2
    npy = tmp_path / "p.npy"
    assert run(["predict", str(out), str(table), "--out", str(npy)]) == 0
    assert set(np.load(npy).tolist()) == {"yes", "no"}
    capsys.readouterr()


def test_sample(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "run"
    call(capsys, "fit", "bernoulli-mixture", "digits", "--max-iter", "3", "--n-components", "2", "--out", str(out))
    one = call(capsys, "sample", str(out), "-n", "5", "--seed", "1")["samples"]
    assert np.shape(one) == (5, 64) and set(np.ravel(one)) <= {0.0, 1.0}
    assert call(capsys, "sample", str(out), "-n", "5", "--seed", "1")["samples"] == one
    assert call(capsys, "sample", str(out), "-n", "5")["samples"] != one
    assert run(["predict", str(out), "digits", "--proba", "--out", str(tmp_path / "q.npy")]) == 0
    assert np.allclose(np.load(tmp_path / "q.npy").sum(axis=1), 1)
    capsys.readouterr()


def test_data_shows_what_a_file_holds(capsys: pytest.CaptureFixture[str], table: Path) -> None:
    found = call(capsys, "data", str(table), "--target", "kind")
    assert found["rows"] == 60 and set(found["labels"]) == {"yes", "no"}
    assert [(column["name"], column["role"]) for column in found["columns"]] == [
        ("a", "feature"), ("b", "feature"), ("kind", "target")
    ]  # fmt: skip
    assert "digits" in call(capsys, "data")["data"]


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ("a,kind\n1,x\n2\n", ["--target", "kind"], "line 3"),
        ("a,kind\n1,x\n2,y\n", ["--target", "kid"], "kind"),
        ("a,kind\n1,x\n2,y\n", [], "target"),
        ("a,kind\n" + "1,x\n2,y\n" * 20 + ",y\n3,x\n" * 20, ["--target", "kind", "--missing", "none"], "line 42"),
    ],
)
def test_refused_data_leaves_no_run(
    content: str, options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "t.csv", tmp_path / "run"
    file.write_text(content)
    assert run(["fit", "softmax-regression", str(file), *options, "--out", str(out)]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == [file]


def test_changed_data_refuses_to_resume(capsys: pytest.CaptureFixture[str], table: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    fit_table(capsys, table, out)
    (out / "model.safetensors").unlink()
    table.write_text(table.read_text().replace("yes", "no", 1))
    assert run(["resume", str(out)]) == 2
    assert "the data has changed" in capsys.readouterr().err
    assert (out / "config.json").is_file()


def test_a_finished_run_resumes_to_itself(capsys: pytest.CaptureFixture[str], table: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    fitted = fit_table(capsys, table, out)
    before = (out / "model.safetensors").read_bytes()
    assert call(capsys, "resume", str(out))["held_out"] == fitted["held_out"]
    assert (out / "model.safetensors").read_bytes() == before


def test_the_folder_of_a_run_is_never_overwritten(
    capsys: pytest.CaptureFixture[str], table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    fit_table(capsys, table, out)
    assert run(["fit", "softmax-regression", str(table), "--target", "kind", "--out", str(out)]) == 2
    assert "is not empty" in capsys.readouterr().err
    capsys.readouterr()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_interrupted_fit_is_status_130_and_resumes_bitwise(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a fit: one JSON object, no traceback, and `resume` ends as a fit that was not stopped."""
    settings = {**os.environ, "PYTHONPATH": SRC}
    gnomon = [sys.executable, "-m", "gnomon"]
    fit = [
        *gnomon,
        "fit",
        "rbm",
        "digits",
        "--epochs",
        "200",
        "--n-hidden",
        "8",
        "--random-state",
        "1",
        "--json",
        "--out",
    ]
    whole, stopped = tmp_path / "a", tmp_path / "b"
    log = stopped / "metrics.jsonl"
    with subprocess.Popen(
        [*fit, str(stopped)], env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        while process.poll() is None and not (log.is_file() and log.stat().st_size):
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=200)
    assert process.returncode == 130, err.decode()
    assert b"Traceback" not in err and b"gnomon resume" in err
    assert json.loads(out)["exit"] == 130
    assert not (stopped / "model.safetensors").exists()
    for command in ([*fit, str(whole)], [*gnomon, "resume", str(stopped)]):
        done = subprocess.run(command, env=settings, capture_output=True, timeout=200)
        assert done.returncode == 0, done.stderr.decode()
    from gnomon.runs.codecs import unpack

    a, b = (unpack(folder / "model.safetensors")[0] for folder in (whole, stopped))
    assert a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def test_refused_data_leaves_nothing_of_a_comparison(
    capsys: pytest.CaptureFixture[str], table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "boards"
    refused = ["compare", "ppca:n_components=900", "wine", "--out", str(out)]
    assert run(refused) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not out.exists()
    out.mkdir()
    assert run(refused) == 2
    assert list(out.iterdir()) == []


def test_names_that_no_file_system_takes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300
    for arguments in (["fit", "ppca", "wine", "--out", long], ["fit", "ppca", long], ["evaluate", long]):
        assert run(arguments) == 2, arguments
        assert capsys.readouterr().err.count("\n") == 1


def test_a_fit_whose_held_out_rows_cannot_be_scored_is_kept(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, out = tmp_path / "k.csv", tmp_path / "run"
    file.write_text("user,item\n" + "".join(f"a,{item}\n" for item in "vwxyz"))
    assert run(["fit", "implicit-factorization", str(file), "--out", str(out)]) == 2
    _, err = capsys.readouterr()
    assert err.strip().endswith(f"the fit is kept in {out}") and "held-out rows: " in err
    assert gnomon.load(out).name == "implicit-factorization"
