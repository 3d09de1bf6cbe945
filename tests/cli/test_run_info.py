"""``gnomon info RUN``: settings that are not the defaults, the seed, and the refusal of another run's config.json."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import gnomon
from gnomon.cli.main import run
from gnomon.cli.run_info import facts_of, settings, text_of
from gnomon.errors import UserValueError
from gnomon.objectives.contrastive import PCD
from oracles.commands import call

X = (np.random.default_rng(0).random((12, 3)) < 0.5).astype(float)


def old(folder: Path) -> None:
    """Take every digest and every name of the fit away, as runs from before have none."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({name: one for name, one in config.items() if name != "digest"}))
    for file in folder.rglob("*.safetensors"):
        with safe_open(file, framework="numpy") as opened:
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
            facts = json.loads(opened.metadata()["facts"])
        kept = {name: one for name, one in facts.items() if name not in ("__digest__", "run")}
        save_file(arrays, file, metadata={"facts": json.dumps(kept)})


@pytest.mark.parametrize(
    ("parameters", "found"),
    [
        ({"n_hidden": 64, "objective": "pcd", "epochs": 3, "random_state": 5}, {"epochs": ("3", "{epochs}")}),
        ({"objective": "cd"}, {"objective": ("cd", "pcd")}),
        ({"objective": {"__recipe__": "gnomon.objectives.contrastive:CD", "fields": {"k": 1}}},
         {"objective": ("cd", "pcd")}),
        ({"objective": {"__recipe__": ["objective", "cd"], "fields": {}}}, {"objective": ("cd", "pcd")}),
        ({"objective": {"__recipe__": "gnomon.objectives.contrastive:PCD", "fields": {"k": 4}}},
         {"objective.k": ("4", "1")}),
        ({"learning_rate": {"__float__": "inf"}, "dtype": None}, {"learning_rate": ("inf", "{learning_rate}")}),
    ],
)  # fmt: skip
def test_settings_are_those_that_are_not_the_defaults(
    parameters: dict[str, Any], found: dict[str, tuple[str, str]]
) -> None:
    """What a default is the class itself says, which the command does not import."""
    usual = gnomon.RBM().get_params()
    expected = {name: (value, default.format(**usual)) for name, (value, default) in found.items()}
    assert settings({"system": "rbm", "parameters": parameters}) == expected


def test_every_setting_of_a_fresh_system_is_its_default(tmp_path: Path) -> None:
    for made in (gnomon.RBM(), gnomon.MLP(), gnomon.GaussianMixture(), gnomon.Bagging(), gnomon.VAE(), gnomon.SVM()):
        parameters = json.loads(json.dumps(gnomon.runs.codecs.encode(made.get_params(deep=False))))
        assert settings({"system": made.name, "parameters": parameters}) == {}, made.name


def test_the_seed_is_said_as_it_was_given(tmp_path: Path) -> None:
    gnomon.RBM(n_hidden=2, epochs=1, objective=PCD(k=2), random_state=7).fit(X, run=tmp_path / "given")
    gnomon.KMeans(n_clusters=2).fit(X, run=tmp_path / "drawn")
    given, drawn = (json.loads((tmp_path / name / "config.json").read_text()) for name in ("given", "drawn"))
    lines = text_of("R", facts_of(given)).splitlines()
    assert lines[0] == "R: fit of rbm" and lines[-1] == "seed         7"
    assert {"n_hidden     2 (default 64)", "objective.k  2 (default 1)"} <= set(lines)
    seed = drawn["seed"]
    assert text_of("R", facts_of(drawn)).splitlines()[1:] == [
        "n_clusters   2 (default 8)", f"seed         drawn; --random-state {seed} gives the same fit",
    ]  # fmt: skip
    same = gnomon.KMeans(n_clusters=2, random_state=seed).fit(X)
    assert np.array_equal(same.cluster_centers_, gnomon.load(tmp_path / "drawn").cluster_centers_)


@pytest.mark.parametrize("digests", [True, False])
def test_a_config_of_another_run_is_not_believed(
    digests: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `gnomon.load` says: by the name of the fit beside the arrays; of old runs, by what the arrays are."""
    gnomon.KMeans(n_clusters=2, random_state=0).fit(X, run=tmp_path / "a")
    gnomon.PPCA(n_components=1, random_state=0).fit(X, run=tmp_path / "b")
    gnomon.KMeans(n_clusters=2, random_state=1).fit(X, run=tmp_path / "c")
    if not digests:
        for name in "abc":
            old(tmp_path / name)
    assert call(capsys, "info", str(tmp_path / "a"))["system"] == "kmeans"
    for other in "bc":
        shutil.copy(tmp_path / other / "config.json", tmp_path / "a" / "config.json")
        with pytest.raises(UserValueError) as refused:
            gnomon.load(tmp_path / "a")
        assert run(["info", str(tmp_path / "a")]) == 2
        assert capsys.readouterr().err.splitlines()[-1] == f"gnomon: error: {refused.value}"


def test_one_held_out_row_is_one_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{i * i},{i}\n" for i in range(5)))
    words = ["fit", "linear-regression", str(tmp_path / "t.csv"), "--target", "y", "--out", str(tmp_path / "r")]
    assert run([*words, "--holdout", "0.2"]) == 0
    assert capsys.readouterr().out.startswith("on 1 held-out row:\n")
    assert run(["evaluate", str(tmp_path / "r")]) == 0
    assert " on 1 held-out row of t.csv:\n" in capsys.readouterr().out


def test_a_damaged_file_beside_it_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gnomon.PPCA(n_components=1, random_state=0).fit(X, run=tmp_path / "a")
    (tmp_path / "a" / "model.safetensors").write_bytes(b"\x08")
    assert run(["info", str(tmp_path / "a")]) == 2
    assert "model.safetensors cannot be read" in capsys.readouterr().err
