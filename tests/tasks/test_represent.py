"""Representations under fixed probes: known answers, raw and principal baselines, one board, refusals."""

import json

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

import gnomon
from gnomon.data import Preparation, load, split
from gnomon.data.dataset import Dataset
from gnomon.errors import UserError
from gnomon.tasks.compare import compare
from gnomon.tasks.probes import Principal, Probe, Raw


class Fixed:
    """A representation that is a function of the rows."""

    def __init__(self, function):
        self.transform = function


def probe():
    return Probe(*(part.y for part in rings()))


def rings(n=200):
    """Two classes by the distance from the origin: no line parts them."""
    random = np.random.default_rng(0)
    angle, radius = random.uniform(0, 2 * np.pi, n), np.repeat([1.0, 2.0], n // 2)
    X = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1) + 0.05 * random.normal(size=(n, 2))
    return split(Dataset("rings", X, np.repeat(["in", "out"], n // 2)), test=0.5, seed=0)


def test_a_representation_that_shows_the_classes_and_one_that_hides_them():
    train, test = rings()
    probe = Probe(train.y, test.y)
    good = probe.scores(Fixed(lambda X: (X**2).sum(1, keepdims=True)), train.X, test.X)
    raw = probe.scores(Raw(), train.X, test.X)
    blind = probe.scores(Fixed(lambda X: np.zeros((len(X), 3))), train.X, test.X)
    assert good["probe_accuracy"].value == good["neighbor_accuracy"].value == 1.0
    assert raw["probe_accuracy"].value < 0.7 and raw["neighbor_accuracy"].value == 1.0
    assert blind["probe_accuracy"].value == pytest.approx(max(np.mean(test.y == c) for c in ("in", "out")), abs=0.15)
    assert good["probe_accuracy"].against(raw["probe_accuracy"]) == "better"


def test_the_probes_are_scikit_learns_fitted_to_training_rows_alone():
    train, test = split(load("wine"), test=0.4, seed=1)
    scores = Probe(train.y, test.y).scores(Raw(), train.X, test.X)
    scaler = StandardScaler().fit(train.X.astype(float))
    Z, T = scaler.transform(train.X.astype(float)), scaler.transform(test.X.astype(float))
    linear = LogisticRegression(max_iter=2000).fit(Z, train.y).score(T, test.y)
    assert scores["probe_accuracy"].value == pytest.approx(linear, abs=1e-12)
    assert scores["neighbor_accuracy"].value == pytest.approx(
        KNeighborsClassifier(5).fit(Z, train.y).score(T, test.y), abs=1e-12
    )
    assert scores["probe_accuracy"].n == len(test)


def test_one_board_with_both_baselines():
    unscaled = Preparation(scale="no")
    board = compare([gnomon.PPCA(n_components=3)], "wine", task="represent", prepare=unscaled)[0]
    assert [line.name for line in board.lines if line.against_baseline == "baseline"] == ["raw features"]
    assert {line.name for line in board.lines} == {"ppca", "raw features", "pca (3)"}
    values = [line.score.value for line in board.lines]
    assert values == sorted(values, reverse=True) and board.metric == "probe_accuracy"
    json.dumps(board.to_json(), allow_nan=False)
    train, test = split(load("wine"), test=0.2, seed=0)
    components = PCA(3, svd_solver="full").fit(train.X.astype(float))
    direct = Probe(train.y, test.y).scores(Fixed(lambda X: components.transform(X.astype(float))), train.X, test.X)
    by_name = {line.name: line.score.value for line in board.lines}
    assert by_name["pca (3)"] == pytest.approx(direct["probe_accuracy"].value, abs=1e-12)
    assert by_name["ppca"] == pytest.approx(direct["probe_accuracy"].value, abs=0.03)  # the same plane


def test_an_rbm_is_judged_on_binary_images():
    rbm = gnomon.RBM(n_hidden=8, objective="cd", epochs=2, random_state=0)
    board = compare([rbm, gnomon.PPCA(n_components=4)], "digits", task="represent")
    assert [sorted(line.name for line in one.lines) for one in board] == [
        ["pca (8)", "raw features", "rbm"], ["pca (4)", "ppca", "raw features"]
    ]  # fmt: skip
    assert all(line.score.value > 0.3 for one in board for line in one.lines)


def test_missing_values_are_filled():
    train, test = rings()
    X = train.X.copy()
    X[3, 0] = np.nan
    assert Probe(train.y, test.y).scores(Raw(), X, test.X)["neighbor_accuracy"].value > 0.9
    assert np.isfinite(Principal(5).fit(X).transform(X)).all() and Principal(5).fit(X).width == 2


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: compare([gnomon.BernoulliMixture()], "digits", task="represent"), "does not have the task represent"),
        (lambda: compare([gnomon.PPCA()], Dataset("bare", np.eye(9)), task="represent"), "no labels"),
        (lambda: Probe(np.zeros(3, int), np.zeros(3, int)), "labels must hold at least 2 classes, got 1"),
        (
            lambda: Probe(*(part.y for part in rings())).scores(Fixed(lambda X: X[:, 0]), rings()[0].X, rings()[1].X),
            "shape",
        ),
        (lambda: probe().scores(object(), None, None), "no transform"),
    ],
)
def test_what_cannot_be_probed(call, words):
    with pytest.raises(UserError, match=words):
        call()
