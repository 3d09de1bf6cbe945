"""A missing cell is told of before training; a fit that diverges says where and leaves what was finite (HB-07)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnomon
from gnomon.cli.main import run as gnomon_command
from gnomon.errors import Diverged, UserError, UserValueError
from gnomon.runs.folder import RunFolder
from gnomon.training.context import context

X = (np.random.default_rng(0).random((200, 30)) < 0.3).astype(float)
Y = X.copy()
Y[17, 4] = np.nan
LABELS = np.where(X[:, 0] > 0, "yes", "no")


def write(file: Path, rows: np.ndarray, missing: str = "") -> None:
    lines = [",".join(missing if np.isnan(value) else str(int(value)) for value in row) for row in rows]
    labelled = [f"{line},{label}" for line, label in zip(lines, LABELS, strict=True)]
    file.write_text("\n".join([",".join([f"c{i}" for i in range(30)] + ["kind"]), *labelled]) + "\n")


@pytest.mark.parametrize("name", ["rbm", "bernoulli-mixture", "softmax-regression"])
def test_a_missing_cell_in_an_array(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        gnomon.make(name).fit(Y, LABELS, run=tmp_path / "run")
    message = str(caught.value)
    assert "row 17, column 4" in message and "\n" not in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("missing", ["", "nan", "NA"])
@pytest.mark.parametrize("name", ["rbm", "bernoulli-mixture", "softmax-regression"])
def test_a_missing_cell_in_a_file(name: str, missing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows are named as the file has them, whatever was held out."""
    file, out = tmp_path / "t.csv", tmp_path / "run"
    write(file, Y, missing)
    options = (
        ["--target", "kind"] if name == "softmax-regression" else ["--columns", ",".join(f"c{i}" for i in range(30))]
    )
    assert gnomon_command(["fit", name, str(file), *options, "--missing", "none", "--out", str(out)]) == 2
    said, err = capsys.readouterr()
    assert said == "" and err.count("\n") == 1, err
    assert re.search(r"row 17, column (4|'c4'|c4)\b|line 19.*c4", err), err
    assert list(tmp_path.iterdir()) == [file]


def test_a_model_with_missing_values_takes_the_cell() -> None:
    assert np.isfinite(gnomon.PPCA(n_components=2, random_state=0).fit(Y).score(Y))


def diverging() -> dict[str, Any]:
    return {
        "softmax-regression": gnomon.SoftmaxRegression(learning_rate=1e38, epochs=20, random_state=0),
        "rbm": gnomon.RBM(learning_rate=1e38, epochs=20, random_state=0),
        "rbm exact": gnomon.RBM(n_hidden=3, objective="exact", learning_rate=1e38, epochs=20, random_state=0),
        "rbm adam": gnomon.RBM(n_hidden=3, optimizer="adam", learning_rate=1e38, epochs=20, random_state=0),
    }


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("every", [None, 1])
@pytest.mark.parametrize("name", diverging())
def test_a_fit_that_diverges(name: str, every: int | None, dtype: str, tmp_path: Path) -> None:
    system = diverging()[name].set_params(dtype=dtype)
    if dtype == "float64":
        system.set_params(learning_rate=1.7e308)
    with context(checkpoint_every=every), pytest.raises(Diverged) as caught:
        system.fit(X, LABELS, run=tmp_path / "run")
    message = str(caught.value)
    assert (
        re.search(r"became (nan|-?inf) \(step \d+\)", message)
        and "lower the learning rate" in message
        and "\n" not in message
    )
    run = RunFolder.open(tmp_path / "run")
    assert not run.finished and not list(run.path.rglob(".tmp-*"))
    with pytest.raises(UserValueError, match="unfinished=True"):
        gnomon.load(run.path)
    last = gnomon.load(run.path, unfinished=True)
    for key, value in last.model_.state().items():
        assert np.isfinite(value).all(), key
    assert not hasattr(system, "model_")


@pytest.mark.parametrize("name", ["rbm", "softmax-regression"])
def test_a_fit_that_diverges_on_the_command_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "t.csv", tmp_path / "run"
    write(file, X)
    options = (
        ["--target", "kind"] if name == "softmax-regression" else ["--columns", ",".join(f"c{i}" for i in range(30))]
    )
    fit = [
        "fit",
        name,
        str(file),
        *options,
        "--learning-rate",
        "1e38",
        "--epochs",
        "20",
        "--random-state",
        "0",
        "--dtype",
        "float32",
    ]
    assert gnomon_command([*fit, "--out", str(out)]) == 1
    said, err = capsys.readouterr()
    assert said == "" and err.count("\n") == 1 and "lower the learning rate" in err and "Traceback" not in err
    assert not (out / "model.safetensors").exists()
    gnomon.load(out, unfinished=True)
    again = gnomon_command(["resume", str(out)])
    assert again == 1 and capsys.readouterr().err == err


@pytest.mark.parametrize("rate", [1e3, 1e6])
def test_a_rate_that_is_too_high_but_finite_saves_nothing_but_numbers(rate: float, tmp_path: Path) -> None:
    """Either it diverges, or everything that is saved is finite and so is the score."""
    options: dict[str, Any] = {"learning_rate": rate, "epochs": 5, "random_state": 0}
    for number, system in enumerate((gnomon.RBM(n_hidden=4, **options), gnomon.SoftmaxRegression(**options))):
        run = tmp_path / str(number)
        try:
            system.fit(X, LABELS, run=run)
        except Diverged:
            assert not (run / "model.safetensors").exists()
            continue
        assert np.isfinite(gnomon.load(run).score(X, LABELS))
