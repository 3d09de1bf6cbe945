"""`gnomon diagnose`: planted failures of runs are named, healthy runs pass; JSON, pictures, one-line refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import gnomon
from gnomon.cli.main import run
from gnomon.errors import Diverged, UserError
from gnomon.inference.mcmc.hamiltonian import HMC

CHAINS = '{"format": 1, "kind": "chains"}'


def ask(capsys, *arguments):
    status = run(["diagnose", *map(str, arguments), "--json"])
    out, err = capsys.readouterr()
    assert status == 0, err
    return json.loads(out)


def level(found, check):
    return next(f["level"] for f in found["findings"] if f["check"] == check)


def named(found, check):
    return next(f for f in found["findings"] if f["check"] == check)


def bell(x):
    return -0.5 * (x * x).sum(-1)


def modes(x):
    """Two normals 12 standard deviations apart."""
    distance = torch.stack([((x - 6) ** 2).sum(-1), ((x + 6) ** 2).sum(-1)])
    return torch.logsumexp(-0.5 * distance, 0)


def cli_fit(capsys, tmp_path, *arguments):
    out = tmp_path / "run"
    status = run(["fit", *map(str, arguments), "--out", str(out), "--json"])
    err = capsys.readouterr().err
    assert status == 0, err
    return out


def table(tmp_path, X, y):
    file = tmp_path / "t.csv"
    names = [f"x{j}" for j in range(X.shape[1])]
    lines = [",".join([*(f"{v:.6g}" for v in row), str(label)]) for row, label in zip(X, y, strict=True)]
    file.write_text("\n".join([",".join([*names, "kind"]), *lines]) + "\n")
    return file


# --- chains -----------------------------------------------------------------------------------------------------------


def test_healthy_chains_pass_with_table_and_picture(capsys, tmp_path):
    gnomon.sample_chain(bell, start=2, draws=700, burn_in=300, chains=4, run=tmp_path / "a", random_state=0)
    found = ask(capsys, tmp_path / "a", "--out", tmp_path / "a.png")
    assert found["level"] == "ok" and {f["level"] for f in found["findings"]} == {"ok"}
    assert {f["check"] for f in found["findings"]} >= {"agreement", "enough", "divergences", "acceptance", "complete"}
    assert "ess_bulk" in found["table"] and "x[1]" in found["table"]
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert run(["diagnose", str(tmp_path / "a")]) == 0
    text = capsys.readouterr().out
    assert "the chains agree: R-hat 1.00" in text and "r_hat" in text


def test_chains_stuck_in_their_modes_are_named(capsys, tmp_path):
    start = torch.tensor([[6.0, 6.0]] * 5 + [[-6.0, -6.0]] * 3, dtype=torch.float64)
    gnomon.sample_chain(modes, start=start, draws=150, burn_in=150, run=tmp_path / "a", random_state=0)
    found = ask(capsys, tmp_path / "a")
    told = named(found, "agreement")
    assert told["level"] == "warning" and "tempering" in told["remedy"]
    assert re.search(r"chains 5, 6, 7 about -(5\.9|6)\S*, chains 0, 1, 2, 3, 4 about (5\.9|6)", told["evidence"])


def test_steps_beyond_stability_diverge(capsys, tmp_path):
    """The second coordinate is 200 times as narrow: leapfrog is stable for steps below 0.01."""

    def narrow(x):
        return -0.5 * (x[:, 0] ** 2 + (200 * x[:, 1]) ** 2)

    options = {"start": np.zeros(2), "draws": 50, "chains": 4, "burn_in": 0, "adapt": None, "random_state": 0}
    gnomon.sample_chain(narrow, HMC(step_size=0.015), run=tmp_path / "a", **options)
    found = ask(capsys, tmp_path / "a")
    assert level(found, "divergences") == level(found, "acceptance") == "warning"
    gnomon.sample_chain(narrow, HMC(step_size=0.006), run=tmp_path / "b", **options)
    found = ask(capsys, tmp_path / "b")
    assert level(found, "divergences") == level(found, "acceptance") == "ok"
    assert level(found, "agreement") == "warning"  # 60 times too short a way for the first coordinate


def test_draws_need_no_run():
    found = gnomon.diagnose(gnomon.sample_chain(bell, "metropolis", start=2, draws=40, burn_in=100, random_state=0))
    assert found.of("enough")[0].level in ("notice", "warning") and found.plot is not None


# --- fits -------------------------------------------------------------------------------------------------------------


def test_a_healthy_fit_passes(capsys, tmp_path):
    out = cli_fit(capsys, tmp_path, "softmax-regression", "iris", "--epochs", 500, "--random-state", 0)
    found = ask(capsys, out)
    assert "warning" not in {f["level"] for f in found["findings"]}, found
    assert {"ended", "finite", "rise", "gap", "use", "calibration", "classes"} <= {
        f["check"] for f in found["findings"]
    }
    assert found["table"] == "" and "validation" in found["skipped"]


def test_a_fit_that_was_cut_is_told(capsys, tmp_path):
    out = cli_fit(capsys, tmp_path, "softmax-regression", "iris", "--epochs", 12, "--learning-rate", 0.003)
    assert named(ask(capsys, out), "rest")["what"] == "the fit was cut while it still learned"


def test_an_overfitted_tree_and_a_healthy_one(capsys, tmp_path):
    """Labels are drawn with chance 0.75 of the sign of the first column: a deep tree learns the noise by heart."""
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 5))
    y = np.where((X[:, 0] > 0) ^ (random.random(600) < 0.25), "yes", "no")
    file = table(tmp_path, X, y)
    given = (file, "--target", "kind", "--random-state", 0)
    found = ask(capsys, cli_fit(capsys, tmp_path / "a", "decision-tree", *given))
    told = named(found, "gap")
    assert (
        told["level"] == "warning"
        and "overfitting" in told["what"]
        and "accuracy 1 on 480 training rows" in told["evidence"]
    )
    assert named(found, "calibration")["what"] == "the probabilities are overconfident"
    found = ask(capsys, cli_fit(capsys, tmp_path / "b", "decision-tree", *given, "--max-depth", 1))
    assert level(found, "gap") == level(found, "calibration") == level(found, "use") == "ok"


def test_labels_without_a_pattern_are_no_better_than_a_constant(capsys, tmp_path):
    random = np.random.default_rng(1)
    X, y = random.normal(size=(300, 3)), np.where(random.random(300) < 0.3, "yes", "no")
    found = ask(capsys, cli_fit(capsys, tmp_path, "decision-tree", table(tmp_path, X, y), "--target", "kind"))
    assert level(found, "use") == "warning"
    assert level(found, "by_heart") == "ok"  # the tree is not to blame


def test_a_diverged_fit_is_named(capsys, tmp_path):
    X = (np.random.default_rng(0).random((60, 4)) < 0.5).astype(np.float32)
    system = gnomon.RBM(n_hidden=4, epochs=5, learning_rate=1e38, random_state=0)
    with pytest.raises(Diverged):
        system.fit(X, run=tmp_path / "a")
    found = ask(capsys, tmp_path / "a")
    told = named(found, "ended")
    assert told["level"] == "warning" and told["what"] == "the fit diverged" and "learning rate" in told["remedy"]


def test_a_machine_whose_sums_overflow_is_diagnosed():
    """Its weights are finite, as those of the last checkpoint of a fit that diverged."""
    X = (np.random.default_rng(0).random((60, 4)) < 0.5).astype(np.float32)
    system = gnomon.RBM(n_hidden=4, epochs=1, random_state=0).fit(X)
    system.model_.load({name: np.full_like(value, 3e38) for name, value in system.model_.state().items()})
    assert gnomon.diagnose(system, X).findings


def test_a_killed_fit_says_how_to_go_on(capsys, tmp_path, monkeypatch):
    out = cli_fit(capsys, tmp_path, "softmax-regression", "iris", "--epochs", 30, "--checkpoint-every", 1)
    (out / "model.safetensors").unlink()
    found = ask(capsys, out)
    assert named(found, "ended")["remedy"] == f"gnomon resume {out}"


def test_an_rbm_with_dead_units_and_chains_that_stay(capsys, tmp_path):
    """Two rows repeated and huge steps: chains keep to one of them."""
    X = np.repeat([[1.0] * 6 + [0.0] * 6, [0.0] * 6 + [1.0] * 6], 50, axis=0)
    rbm = gnomon.RBM(n_hidden=6, objective="exact", epochs=300, learning_rate=1.0, random_state=0).fit(X)
    rbm.save(tmp_path / "good")
    with torch.no_grad():
        for parameter in rbm.model_.parameters():
            parameter *= 4
        rbm.model_.hidden_bias[:2] = -1e4
    found = gnomon.diagnose(rbm, X)
    assert found.of("units")[0].level == "warning" and "0, 1" in found.of("units")[0].what
    assert found.of("mixing")[0].level == "warning"
    healthy = gnomon.RBM(n_hidden=3, objective="exact", epochs=30, learning_rate=0.1, random_state=0)
    random = (np.random.default_rng(0).random((300, 6)) < 0.5).astype(np.float64)
    found = gnomon.diagnose(healthy.fit(random), random[:100], train=random)
    assert "warning" not in {f.level for f in found.findings}, str(found)
    assert found.of("gap")[0].level == "ok" and found.of("mixing")
    other = gnomon.diagnose(healthy, random[:100], seed=3)
    assert other.of("mixing")[0].evidence != found.of("mixing")[0].evidence
    assert other.of("units") == found.of("units")


def test_what_was_not_computed_is_not_claimed(capsys, tmp_path):
    X = (np.random.default_rng(0).random((50, 4)) < 0.5).astype(np.float64)
    gnomon.RBM(n_hidden=2, epochs=3, random_state=0).fit(X).save(tmp_path / "a")
    found = ask(capsys, tmp_path / "a")
    assert {f["check"] for f in found["findings"]} == {"ended", "finite", "mixing"}
    assert {"rest", "rise", "validation", "answers", "units", "log_z"} <= set(found["skipped"])


@pytest.mark.parametrize("name", ["linear-regression", "kmeans", "ppca", "gaussian-mixture", "bagging"])
def test_other_kinds_of_systems_are_looked_at(capsys, tmp_path, name):
    random = np.random.default_rng(0)
    X = random.normal(size=(120, 3)) + 4 * (np.arange(120) % 3)[:, None]
    target = ("--target", "kind") if name in ("linear-regression", "bagging") else ("--columns", "x0,x1,x2")
    y = X[:, 0] * 2 + random.normal(size=120) if name == "linear-regression" else np.arange(120) % 3
    few = ("--n-components", 1) if name == "gaussian-mixture" else ()  # ten of them learn the rows by heart
    out = cli_fit(capsys, tmp_path, name, table(tmp_path, X, y), *target, *few, "--random-state", 0)
    found = ask(capsys, out)
    assert named(found, "ended")["level"] == "ok" and "warning" not in {f["level"] for f in found["findings"]}, found


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prepare", "more", "words"),
    [
        (lambda f: None, [], "does not exist"),
        (lambda f: f.mkdir(), [], "is not a run"),
        (lambda f: (f.mkdir(), (f / "config.json").write_text("{")), [], "cannot be read"),
        (
            lambda f: (f.mkdir(), (f / "config.json").write_text('{"format": 1, "kind": "chains"}')),
            [],
            "names no kernel",
        ),
        (
            lambda f: gnomon.sample_chain(bell, start=1, draws=9, burn_in=5, run=f),
            ["--out", "a.gif"],
            "must end in .png",
        ),
        (lambda f: gnomon.sample_chain(bell, start=1, draws=2, burn_in=5, run=f), ["--out", "a.png"], "no picture"),
    ],
)
def test_refusals_in_one_line(capsys, tmp_path, monkeypatch, prepare, more, words):
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path / "a")
    assert run(["diagnose", "a", *more]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and words in err
    assert not Path("a.png").exists() and not Path("a.gif").exists()


def test_subjects_of_other_kinds_are_refused():
    for subject in (3, gnomon.RBM()):
        with pytest.raises(UserError):
            gnomon.diagnose(subject)
