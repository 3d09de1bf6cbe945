"""HB-48: a run goes on to more epochs, as if they had been asked for from the start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnomon
from gnomon.cli.main import run as gnomon_command
from gnomon.errors import UserError, UserValueError
from gnomon.training.schedules import Linear
from gnomon.training.stopping import EarlyStopping

X = (np.random.default_rng(0).random((40, 5)) < 0.4).astype(np.float32)
LABELS = X[:, 0].astype(int) ^ X[:, 1].astype(int)
Make = Callable[[int], Any]


def mlp(epochs: int, **options: Any) -> Any:
    return gnomon.MLP(hidden=(4,), epochs=epochs, batch_size=8, random_state=0, **options)


FITS: dict[str, tuple[str, Make]] = {
    "chains": ("epochs", lambda n: gnomon.RBM(n_hidden=3, epochs=n, batch_size=8, random_state=0)),
    "adam": ("epochs", mlp),
    "weights kept": ("epochs", lambda n: mlp(n, learning_rate=0.5, early_stopping=EarlyStopping(patience=50))),
    "plateau": ("epochs", lambda n: mlp(n, schedule="plateau")),
    "a length of its own": ("epochs", lambda n: mlp(n, schedule=Linear(length=9))),
    "updates": ("max_updates", lambda n: mlp(1, max_updates=5 * n)),
    "em": ("max_iter", lambda n: gnomon.BernoulliMixture(n_components=2, max_iter=n, tol=0.0, random_state=0)),
}


def files(run: Path) -> dict[str, bytes]:
    return {f: (run / f).read_bytes() for f in ("model.safetensors", "metrics.jsonl", "state/checkpoint.safetensors")}


@pytest.mark.parametrize("name", FITS)
def test_to_the_bit(name: str, tmp_path: Path) -> None:
    budget, make = FITS[name]
    scale = 5 if budget == "max_updates" else 1
    y = None if name in ("chains", "em") else LABELS
    make(6).fit(X, y, run=tmp_path / "short")
    make(10).fit(X, y, run=tmp_path / "long")
    system = gnomon.resume(tmp_path / "short", X, y, **{budget: 10 * scale})
    assert files(tmp_path / "short") == files(tmp_path / "long")
    assert system.get_params()[budget] == 10 * scale
    assert gnomon.load(tmp_path / "short").n_steps_ == gnomon.load(tmp_path / "long").n_steps_ == system.n_steps_


def test_a_fit_that_ended_by_itself_is_as_it_would_have_been(tmp_path: Path) -> None:
    for epochs, run in ((40, "a"), (60, "b")):
        stops = EarlyStopping(patience=2)
        mlp(epochs, learning_rate=0.5, early_stopping=stops).fit(X, LABELS, run=tmp_path / run)
    assert gnomon.load(tmp_path / "a").n_steps_ < 40 * 4
    gnomon.resume(tmp_path / "a", X, LABELS, epochs=60)
    assert files(tmp_path / "a") == files(tmp_path / "b")


@pytest.mark.parametrize(
    ("made", "budget", "said"),
    [
        (lambda: mlp(6), {"epochs": 5}, "epochs must be at least 6, which are done, got 5"),
        (lambda: mlp(6), {"max_iter": 9}, "has no budget of max_iter here .*give epochs"),
        (lambda: mlp(6, max_updates=30), {"epochs": 9}, "budget of updates.*give max_updates"),
        (lambda: mlp(6, max_updates=32), {"max_updates": 60}, "ended after 32 updates, within an epoch of 5"),
        (lambda: mlp(6, schedule="cosine"), {"epochs": 9}, "cosine goes down over the whole fit"),
        (lambda: mlp(6), {"epochs": 2.5}, "whole number"),
        (lambda: mlp(6), {"epochs": 9, "max_iter": 9}, "one budget"),
        (lambda: mlp(6, early_stopping="refit"), {"epochs": 9}, "no budget that can be enlarged"),
    ],
)
def test_what_would_have_gone_another_way_is_refused(made: Any, budget: Any, said: str, tmp_path: Path) -> None:
    made().fit(X, LABELS, run=tmp_path / "r")
    before = {f: f.read_bytes() for f in (tmp_path / "r").rglob("*") if f.is_file() and f.name != "config.json"}
    config = (tmp_path / "r" / "config.json").read_text()
    with pytest.raises(UserError, match=said):
        gnomon.resume(tmp_path / "r", X, LABELS, **budget)
    assert {f: f.read_bytes() for f in before} == before
    assert (tmp_path / "r" / "config.json").read_text() == config


def test_other_data_is_refused_and_the_run_is_as_it_was(tmp_path: Path) -> None:
    mlp(6).fit(X, LABELS, run=tmp_path / "r")
    config = (tmp_path / "r" / "config.json").read_text()
    with pytest.raises(UserValueError, match="the data has changed"):
        gnomon.resume(tmp_path / "r", X[:30], LABELS[:30], epochs=9)
    assert (tmp_path / "r" / "config.json").read_text() == config
    assert gnomon.load(tmp_path / "r").epochs == 6


def test_the_command_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "\n".join(["x,y", *(f"{i * 7 % 13 / 4},{i % 2}" for i in range(60))])
    (tmp_path / "s.csv").write_text(rows + "\n")
    options = ["mlp", str(tmp_path / "s.csv"), "--target", "y", "--random-state", "0"]
    assert gnomon_command(["fit", *options, "--epochs", "6", "--out", str(tmp_path / "short")]) == 0
    assert gnomon_command(["fit", *options, "--epochs", "10", "--out", str(tmp_path / "long")]) == 0
    assert gnomon_command(["resume", str(tmp_path / "short"), "--epochs", "10"]) == 0
    assert files(tmp_path / "short") == files(tmp_path / "long")
    capsys.readouterr()
    assert gnomon_command(["resume", str(tmp_path / "short"), "--epochs", "3"]) == 2
    assert "epochs must be at least 10, which are done, got 3" in capsys.readouterr().err
