"""gnomon explain: coefficients with errors, importances by raw column, refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gnomon
from gnomon.cli.main import run
from oracles.commands import call


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a category, and runs fitted to it."""
    folder = tmp_path_factory.mktemp("explain")
    random = np.random.default_rng(0)
    kind, x = random.integers(0, 3, 300), random.normal(size=(300, 2))
    y = 2 * x[:, 0] + np.array([0, 4, 8])[kind] + random.normal(size=300)
    lines = [f"{'abc'[k]},{u:.4f},{v:.4f},{'yes' if t > 4 else 'no'},{t:.4f}"
             for k, (u, v), t in zip(kind, x, y, strict=True)]  # fmt: skip
    (folder / "t.csv").write_text("\n".join(["kind,u,v,over,y", *lines]) + "\n")
    for name, system, target, *more in (
        ("line", "linear-regression", "y", "--drop", "over"),
        ("plain", "linear-regression", "y", "--columns", "u,v", "--dtype", "float64"),
        ("logistic", "logistic-regression", "over", "--columns", "u,v", "--l2", "0"),
        ("forest", "random-forest", "over", "--drop", "y", "--n-trees", "20", "--random-state", "0"),
        ("all", "decision-tree", "over", "--drop", "y", "--holdout", "0"),
        ("softmax", "softmax-regression", "over", "--columns", "u,v", "--epochs", "5"),
    ):
        words = ["fit", system, str(folder / "t.csv"), "--target", target, *more, "--out", str(folder / name)]
        assert run(words) == 0
    return folder


def test_coefficients_have_the_errors_of_the_training_rows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """E11: the textbook formula on the rows that the fit saw, and no others."""
    found = call(capsys, "explain", folder / "plain")["coefficients"][0]
    data = gnomon.data.load(folder / "t.csv", target="y", columns=["u", "v"])
    train = gnomon.data.split(data, test=0.2)[0]
    assert train.X is not None and train.y is not None
    design = np.column_stack([train.X, np.ones(len(train.X))])
    weights, rss, *_ = np.linalg.lstsq(design, train.y)
    errors = np.sqrt(rss[0] / (len(design) - 3) * np.diag(np.linalg.inv(design.T @ design)))
    assert found["column"] == ["u", "v", "intercept"]
    assert np.allclose(found["coefficient"], weights) and np.allclose(found["stderr"], errors)
    assert found["p_value"][0] < 1e-10 and found["low"][0] < 2 < found["high"][0]
    logistic = call(capsys, "explain", folder / "logistic")["coefficients"][0]
    assert logistic["output"] == "yes" and logistic["df"] is None and min(logistic["stderr"]) > 0
    softmax = call(capsys, "explain", folder / "softmax")
    assert softmax["coefficients"][0]["stderr"] == [None] * 3
    assert any("logistic-regression" in note for note in softmax["notes"])


def test_importances_are_of_the_raw_columns(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = call(capsys, "explain", folder / "line", "--repeats", "3")
    assert list(found["permutation"]) == ["kind", "u", "v"] and found["rows"] == "60 held-out rows"
    assert "kind=a" in found["coefficients"][0]["column"]
    assert any("sums of others" in note for note in found["notes"])
    one = found["permutation"]["kind"]
    assert one["value"] > 10 and one["error"] > 0 and one["unit"] == "squared units of y"
    assert call(capsys, "explain", folder / "line", "--repeats", "3")["permutation"]["kind"] == one


def test_permutation_is_of_the_held_out_rows_the_seed_and_the_score(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The mean over all shuffles has a closed form: each row meets the cell of each other with the same chance."""
    data = gnomon.data.load(folder / "t.csv", target="y", columns=["u", "v"])
    held = gnomon.data.split(data, test=0.2)[1]
    assert held.X is not None and held.y is not None
    system = gnomon.load(folder / "plain")
    error = held.y - system.predict(held.X)
    moved = system.coef_[0] * (held.X[:, 0] - held.X[:, :1])  # what row i is predicted more with the cell of row j
    expected = ((error[:, None] - moved) ** 2).mean() - (error**2).mean()
    words = ["explain", folder / "plain", "--repeats", "40"]
    by_seed = [call(capsys, *words, "--seed", seed)["permutation"]["u"] for seed in ("0", "1")]
    assert by_seed[0]["value"] != by_seed[1]["value"]
    for found in by_seed:
        assert found["value"] == pytest.approx(expected, abs=4 * found["stderr"])
    expected = np.abs(error[:, None] - moved).mean() - np.abs(error).mean()
    found = call(capsys, *words, "--score", "absolute_error")["permutation"]["u"]
    assert found["value"] == pytest.approx(expected, abs=4 * found["stderr"]) and found["unit"] == "units of y"
    other = folder / "other.csv"  # the target under another name
    other.write_text((folder / "t.csv").read_text().replace("over,y", "over,z"))
    named = call(capsys, *words[:1], folder / "plain", other, "--target", "z", "--repeats", "2")
    assert set(named["permutation"]) == {"u", "v"} and named["rows"] == "300 rows of other.csv"


def test_impurity_of_trees(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = call(capsys, "explain", folder / "forest", folder / "t.csv", "--repeats", "2")
    forest = gnomon.load(folder / "forest")
    assert sum(found["impurity"].values()) == pytest.approx(1)
    known = dict(zip(forest.preparation_.names_out, forest.model_.estimator.feature_importances_, strict=True))
    assert found["impurity"]["kind"] == pytest.approx(sum(known[f"kind={level}"] for level in "abc"))
    assert found["impurity"]["u"] == pytest.approx(known["u"])
    assert set(found["permutation"]) == {"kind", "u", "v"} and found["rows"] == "300 rows of t.csv"
    alone = call(capsys, "explain", folder / "all")
    assert alone["permutation"] == {} and any("gnomon explain" in note for note in alone["notes"])
    assert run(["explain", str(folder / "forest")]) == 0
    shown = capsys.readouterr().out
    assert "accuracy with one column shuffled, on 60 held-out rows" in shown and "decrease of impurity" in shown


def test_refusals(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fit", "kmeans", str(folder / "t.csv"), "--columns", "u,v", "--out", str(folder / "k")]) == 0
    capsys.readouterr()
    assert run(["explain", str(folder / "k")]) == 2
    told = capsys.readouterr().err
    assert "kmeans predicts no target" in told and "gnomon components" in told and told.count("\n") == 1
    assert run(["explain", str(folder / "forest"), "--repeats", "1"]) == 2
    assert run(["explain", str(folder / "forest"), "--score", "acc"]) == 2
    assert "no score 'acc'" in capsys.readouterr().err
