"""`gnomon evaluate`: every score of the task, those that are asked for, unknown ones refused with the nearest."""

from __future__ import annotations

import json

import pytest
from sklearn import metrics as sk

import gnomon
from gnomon.cli.main import run
from gnomon.evaluation.score import Score
from gnomon.tasks.metrics import chosen


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for system, data in (("logistic-regression", "breast-cancer"), ("bayesian-regression", "diabetes")):
        assert run(["fit", system, data, "--random-state", "0", "--out", str(folder / system), "--json"]) == 0
    return folder


def ask(capsys, *arguments):
    status = run(["evaluate", *map(str, arguments)])
    return status, *capsys.readouterr()


def test_all_scores_of_classes(capsys, runs):
    """E11: the area under the ROC curve, Matthews, kappa and per-class recall were not offered."""
    status, out, err = ask(capsys, runs / "logistic-regression", "--json")
    assert status == 0, err
    found = json.loads(out)["scores"]
    assert set(found) == {
        "accuracy", "log_likelihood", "macro_f1", "log_loss", "balanced_accuracy", "roc_auc", "brier",
        "calibration_error", "matthews", "kappa", "precision[0]", "recall[0]", "precision[1]", "recall[1]",
    }  # fmt: skip
    assert found["accuracy"]["interval"][0] < found["accuracy"]["value"] < found["accuracy"]["interval"][1]
    assert found["log_loss"]["value"] == -found["log_likelihood"]["value"] and not found["log_loss"]["higher_is_better"]
    status, out, _ = ask(capsys, runs / "logistic-regression", "breast-cancer", "--metric", "AUC,recall", "--json")
    data = gnomon.data.load("breast-cancer")
    system = gnomon.load(runs / "logistic-regression")
    found = json.loads(out)["scores"]
    assert list(found) == ["roc_auc", "recall[0]", "recall[1]"] and "confusion" not in json.loads(out)
    assert found["roc_auc"]["value"] == pytest.approx(sk.roc_auc_score(data.y, system.predict_proba(data.X)[:, 1]))


def test_all_scores_of_numbers(capsys, runs):
    status, out, _ = ask(capsys, runs / "bayesian-regression", "--json")
    assert status == 0
    assert set(json.loads(out)["scores"]) == {
        "squared_error", "absolute_error", "r2", "log_likelihood", "rmse", "explained_variance",
        "median_absolute_error", "coverage_95",
    }  # fmt: skip
    status, out, _ = ask(capsys, runs / "bayesian-regression", "--metric", "coverage_95")
    assert status == 0 and "95 % interval" in out and "right would be 0.95" in out


def test_other_names_of_scores():
    found = {name: Score(0.0, name=name) for name in ("squared_error", "absolute_error", "log_loss", "r2", "macro_f1")}
    found |= {name: Score(0.0, name=name) for name in ("matthews", "calibration_error")}
    asked = ["MSE", "mae", "nll", "logloss", "R^2", "f1", "mcc", "ece"]
    names = [next(iter(chosen(found, [name]))) for name in asked]
    assert names == [
        "squared_error", "absolute_error", "log_loss", "log_loss", "r2", "macro_f1", "matthews", "calibration_error",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "words"), [("rocauc", "did you mean roc_auc?"), ("zzz", "the metrics are accuracy, balanced_accuracy")]
)
def test_an_unknown_score_is_refused_with_the_nearest(capsys, runs, name, words):
    status, out, err = ask(capsys, runs / "logistic-regression", "--metric", f"accuracy,{name}")
    assert status == 2 and out == "" and err.count("\n") == 1 and f"unknown metric '{name}'" in err and words in err
