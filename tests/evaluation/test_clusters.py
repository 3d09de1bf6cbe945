"""Clusters judged without labels: silhouettes are scikit-learn's, stability and the choice of k find planted groups."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.metrics import silhouette_samples

import gnomon
from gnomon.cli.main import run
from gnomon.errors import UserError
from gnomon.evaluation.clusters import silhouette, silhouettes, stability
from gnomon.tasks.clusters import choose_k

CENTERS = np.array([[0, 0, 0], [8, 0, 0], [0, 8, 0], [8, 8, 0]])


def groups(n=240, seed=0, k=4):
    random = np.random.default_rng(seed)
    return CENTERS[random.integers(k, size=n)] + random.normal(size=(n, 3))


@pytest.fixture
def table(tmp_path):
    rows = ["a,b,c", *(",".join(f"{v:.6f}" for v in row) for row in groups())]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    return tmp_path / "t.csv"


def test_silhouettes_are_scikit_learns():
    X = groups(90) + 1e6  # far from the origin
    labels = np.random.default_rng(1).integers(5, size=90)
    labels[labels == 4] = 3
    labels[7] = 9  # alone: 0
    assert silhouettes(X, labels) == pytest.approx(silhouette_samples(X - 1e6, labels), abs=1e-8)
    assert silhouettes(X, labels)[7] == 0
    assert silhouettes(X, labels, [3, 7, 50]) == pytest.approx(silhouettes(X, labels)[[3, 7, 50]], abs=1e-12)
    score = silhouette(X, labels)
    assert score.value == pytest.approx(silhouettes(X, labels).mean()) and score.kind == "exact" and score.error == 0
    assert silhouettes(np.zeros((4, 2)), [0, 0, 1, 1]).tolist() == [0.0] * 4  # equal rows: 0/0 is 0


def test_many_rows_are_sampled_with_an_error_that_is_right():
    """100 samples of 300 of 1,200 rows: the spread is known to 7 %; 30 % is over 4 of these."""
    X = groups(1200)
    labels = (X[:, 0] > 4).astype(int)
    exact = silhouette(X, labels)
    found = [silhouette(X, labels, most=300, seed=s) for s in range(100)]
    spread = np.std([one.value for one in found])
    assert np.mean([one.error for one in found]) == pytest.approx(spread, rel=0.3)
    assert abs(np.mean([one.value for one in found]) - exact.value) < 4 * spread / 10
    assert found[0].kind == "estimate" and "of 300 rows of 1200" in found[0].note
    assert np.hypot(found[0].stderr, found[0].error) == pytest.approx(2 * exact.stderr, rel=0.2)


def test_what_has_no_silhouette():
    with pytest.raises(UserError, match="at least 2 clusters"):
        silhouettes([[0.0], [1.0]], [0, 0])
    with pytest.raises(UserError, match="must be finite"):
        silhouettes([[0.0], [np.nan]], [0, 1])
    alone = silhouette([[0.0], [1.0]], [0, 0])
    assert alone.value == 0 and "by convention" in alone.note


def test_stability_falls_beyond_the_number_of_groups():
    right, more = (stability(gnomon.KMeans(n_clusters=k, n_init=3, random_state=0), groups()) for k in (4, 7))
    assert right.value > 0.99 and more.value < 0.9 and more.error > 0
    again = stability(gnomon.KMeans(n_clusters=7, n_init=3, random_state=0), groups())
    assert again.value == more.value
    with pytest.raises(UserError, match="at least 4 rows"):
        stability(gnomon.KMeans(n_clusters=1), [[0.0], [1.0]])


@pytest.mark.parametrize(
    ("system", "by"), [("kmeans", "silhouette"), ("gaussian-mixture", "bic"), ("bernoulli-mixture", "bic")]
)
def test_the_number_of_planted_groups_is_chosen(system, by):
    """E18: three seeds of 240 rows in 3 and 4 groups."""
    for seed, k in ((0, 3), (1, 4), (2, 4)):
        X = groups(seed=seed, k=k)
        if system == "bernoulli-mixture":
            u = np.random.default_rng(seed).random((240, 12))
            X = (u < np.eye(4)[np.arange(240) % k].repeat(3, axis=1) * 0.8 + 0.1).astype(float)
        options = {"n_init": 3} if system == "kmeans" else {}
        choice = choose_k(gnomon.make(system, random_state=0, **options), X, [1, 2, 3, 4, 5], repeats=0)
        assert choice.best == k and choice.by == by and k not in choice.rivals, (seed, str(choice))
        assert str(choice).splitlines()[-1].startswith(f"{choice.number}={k} by {by}")


def test_the_criteria_are_those_of_the_fit():
    X = groups()
    system = gnomon.GaussianMixture(n_components=2, random_state=0)
    found = choose_k(system, X, [2], repeats=2).scores[2]
    fitted = system.fit(X)
    assert found["bic"].value == fitted.bic(X) and found["aic"].value == fitted.aic(X)
    assert set(found) == {"bic", "aic", "silhouette", "stability"} and not found["bic"].higher_is_better


def test_one_group_is_one_group():
    X = np.random.default_rng(0).normal(size=(300, 2))
    assert choose_k(gnomon.GaussianMixture(random_state=0), X, [1, 2, 3], repeats=0).best == 1
    assert choose_k(gnomon.GaussianMixture(random_state=0), groups(60), [1], repeats=2).best == 1


def test_systems_without_a_number_of_clusters_are_refused():
    for system in (gnomon.PPCA(), gnomon.DecisionTree()):
        with pytest.raises(UserError, match="has no number of clusters"):
            choose_k(system, groups())


def test_on_the_command_line(capsys, table):
    arguments = ["clusters", "kmeans:n_init=3", str(table), "--least", "2", "--most", "5", "--repeats", "2"]
    assert run([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (
        found["best"] == 4 and found["by"] == "silhouette" and [x["n_clusters"] for x in found["lines"]] == [2, 3, 4, 5]
    )
    assert run(arguments) == 0
    assert "n_clusters=4 by silhouette" in capsys.readouterr().out
    for more, words in ((["--least", "9"], "--least must be"), (["--repeats", "1"], "repeats must be")):
        assert run([*arguments, *more]) == 2
        err = capsys.readouterr().err
        assert words in err and err.count("\n") == 1


def test_clusters_are_compared_without_labels(table):
    """E18: the board of a table without labels is that of silhouettes, on columns of one spread for all."""
    systems = [
        gnomon.KMeans(n_clusters=2, n_init=2, random_state=0),
        gnomon.KMeans(n_clusters=4, n_init=2, random_state=0),
        gnomon.GaussianMixture(n_components=4, random_state=0),
    ]
    (board,) = gnomon.compare(systems, table, task="cluster")
    assert board.metric == "silhouette" and board.lines[-1].name == "one cluster"
    values = {(line.name, line.parameters): line.score.value for line in board.lines}
    assert values["kmeans", 12] == pytest.approx(values["gaussian-mixture", 39]) and values["kmeans", 12] > 0.4
    assert board.lines[0].against_baseline == "better" and "stability" in board.lines[0].others
    with_labels = gnomon.compare([gnomon.KMeans(n_clusters=3, random_state=0)], "iris", task="cluster")[0]
    assert with_labels.metric == "adjusted_rand"


def test_evaluate_says_how_clusters_stand(capsys, tmp_path):
    given = [
        "fit",
        "kmeans",
        "iris",
        "--n-clusters",
        "3",
        "--random-state",
        "0",
        "--out",
        str(tmp_path / "r"),
        "--json",
    ]
    assert run(given) == 0
    capsys.readouterr()
    assert run(["evaluate", str(tmp_path / "r"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["scores"]
    assert {"squared_distance", "silhouette", "adjusted_rand", "mutual_information"} <= set(found)


def test_more_parameters_than_rows_are_told():
    """E18: the defaults took 16,529 parameters for 1,615 rows."""
    X = np.random.default_rng(0).normal(size=(60, 10))
    words = r"2 components take 131 parameters for 60 rows, .*\(n_components; .*\) or covariance='diag'"
    with pytest.warns(UserWarning, match=words):
        gnomon.GaussianMixture(n_components=2, max_iter=2, random_state=0).fit(X)


def test_rows_that_hold_text_are_refused_in_one_line():
    """`choose_k` of a table with text ended in NumPy's ValueError, after the first fit."""
    X = [["a", 1.0], ["b", 2.0], ["a", 3.0], ["b", 4.0]]
    with pytest.raises(UserError, match="X must hold numbers"):
        choose_k(gnomon.KMeans(random_state=0), X, [2])


def test_silhouettes_of_clusters_of_one_two_and_three_rows():
    X = np.random.default_rng(2).normal(size=(6, 2))
    labels = [0, 1, 1, 2, 2, 2]
    assert silhouettes(X, labels) == pytest.approx(silhouette_samples(X, labels), abs=1e-12)
