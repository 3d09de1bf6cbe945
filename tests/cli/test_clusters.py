"""Silhouettes on the command line: in the columns as the fit scales them, whatever their units."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score

from gnomon.cli.main import run


@pytest.fixture
def beans(tmp_path):
    """Three groups that a column without any, in units a million times smaller, hides from whoever does not scale."""
    random = np.random.Generator(np.random.PCG64(3))
    X = random.normal(size=(150, 5))
    X[:, :4] += np.array([[0, 0, 0, 0], [7, 0, 7, 0], [0, 7, 0, 7]])[np.arange(150) % 3]
    X[:, 4] *= 1e6
    path = tmp_path / "beans.csv"
    np.savetxt(path, X, delimiter=",", header="long,wide,high,deep,grams", comments="", fmt="%.17g")
    return path, X


def answer(capsys, *words):
    assert run([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_clusters_judges_scaled_columns(capsys, beans):
    """`gnomon clusters` said that it scaled the columns, but fitted and judged them in their own units."""
    path, X = beans
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    labels = KMeans(3, n_init=10, random_state=0).fit_predict(scaled)
    found = answer(capsys, "clusters", "kmeans", path, "--least", 2, "--most", 4)
    assert found["best"] == 3 and [line["n_clusters"] for line in found["lines"]] == [2, 3, 4]
    scores = next(line["scores"] for line in found["lines"] if line["n_clusters"] == 3)
    assert abs(scores["silhouette"]["value"] - silhouette_score(scaled, labels)) < 1e-6
    assert scores["stability"]["value"] > 0.9


def test_evaluate_and_compare_judge_columns_of_spread_1(capsys, beans, tmp_path):
    """`gnomon evaluate` gave the silhouette in the columns' own units: another number than compare, often negative."""
    path, _ = beans
    settings = ["--n-clusters", "3", "--random-state", "0"]
    assert run(["fit", "kmeans", str(path), *settings, "--out", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    one = answer(capsys, "evaluate", tmp_path / "run")["scores"]["silhouette"]["value"]
    board = answer(capsys, "compare", "kmeans:n_clusters=3", path, "--task", "cluster")
    line = board["leaderboards"][0]["lines"][0]
    assert line["settings"] == "n_clusters=3" and line["score"]["name"] == "silhouette"
    assert one > 0.3 and abs(line["score"]["value"] - one) < 1e-9
    assert line["others"]["stability"]["value"] > 0.9
