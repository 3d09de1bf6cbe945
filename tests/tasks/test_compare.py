"""Comparisons: one board per task and data space, baselines in closed form, the same rows for all."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import adjusted_rand_score

import gnomon
from gnomon.data import Dataset, Preparation, load, split
from gnomon.distributions.domains import Real
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise
from gnomon.tasks.classify import ClassShares
from gnomon.tasks.cluster import cluster_scores
from gnomon.tasks.compare import compare

pytestmark = pytest.mark.filterwarnings("ignore:too little text")


def test_a_density_and_a_mass_never_share_a_board():
    systems = [gnomon.BernoulliMixture(n_components=2, max_iter=3, random_state=0), gnomon.PPCA(n_components=40)]
    mass, density = compare(systems, "digits")
    assert mass.data_space == "pmf on {0,1}^64"
    assert density.data_space == "density on R^64"
    for board in (mass, density):
        assert [line.against_baseline for line in board.lines].count("baseline") == 1
        values = [line.score.value for line in board.lines]
        assert values == sorted(values, reverse=True)
        json.dumps(board.to_json(), allow_nan=False)
    assert all(line.score.value <= 0 for line in mass.lines)


def test_every_system_sees_the_same_held_out_rows():
    board = compare([gnomon.BernoulliMixture(n_components=1, random_state=0)], "digits", split="random")[0]
    _, test = split(load("digits"), test=0.2, seed=0, how="random")
    assert {line.score.n for line in board.lines} == {len(test)}
    one, baseline = board.lines
    assert one.score.value == pytest.approx(baseline.score.value, rel=1e-6)  # the same probabilities
    assert one.score.against(baseline.score) == "undecided"


def test_the_diagonal_gaussian_is_scipys_and_leaves_missing_values_out():
    X = np.random.default_rng(0).normal(size=(50, 3)) * [1, 2, 3]
    expected = norm(X.mean(0), X.std(0)).logpdf(X).sum(1)
    np.testing.assert_allclose(Real().baseline(X).log_prob(X), expected, rtol=0, atol=1e-12)
    X[0, 0] = np.nan
    assert np.isfinite(Real(allow_missing=True).baseline(X).log_prob(X)).all()


def test_class_shares_by_hand():
    X, y = np.zeros((10, 1)), np.array(["a"] * 6 + ["b"] * 4)
    scores = ClassShares().fit(X, y).evaluate(X, y)
    assert scores["accuracy"].value == pytest.approx(0.6)
    assert scores["log_likelihood"].value == pytest.approx(0.6 * np.log(0.6) + 0.4 * np.log(0.4))


def test_cluster_scores_at_their_ends():
    labels = np.repeat([0, 1, 2], 20)
    perfect = cluster_scores(labels, (labels + 1) % 3)
    assert perfect["adjusted_rand"].value == 1
    assert perfect["adjusted_rand"].stderr == 0
    assert cluster_scores(labels, np.zeros(60))["adjusted_rand"].value == 0


def test_runs_of_a_comparison_are_evaluated_and_resumed_like_any_other(tmp_path):
    system = gnomon.SoftmaxRegression(epochs=20, random_state=0)
    board = compare([system], "wine", out=tmp_path / "runs")[0]
    line = next(line for line in board.lines if line.run)
    loaded = gnomon.load(line.run)
    _, test = split(load("wine"), test=0.2, seed=0)
    assert loaded.score(test.view("table"), test.view("labels")) == line.score.value
    assert gnomon.resume(line.run).seed_ == loaded.seed_


@pytest.mark.parametrize(
    ("systems", "data", "options", "words"),
    [
        ([], "digits", {}, "no system"),
        (["rbm"], "digits", {"task": "classify"}, "rbm does not have the task classify"),
        (["rmb"], "digits", {}, "rbm"),
        (["ngram"], "digits", {}, "not a text"),
        (["softmax-regression"], "python-reference", {}, "not a table"),
        (["rbm"], "wine", {"prepare": Preparation(encode="none")}, "must be 0 or 1"),
        (["rbm"], "digits", {"holdout": 1.5}, "holdout"),
    ],
)
def test_comparisons_that_cannot_be(systems, data, options, words):
    with pytest.raises(UserValueError, match=words) as caught:
        compare(systems, data, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (
            ValueError("rank 7"),
            RuntimeError,
            "baseline of the task density failed, no system: rank 7",
        ),
        (UserValueError("no rows", "row 3"), UserValueError, r"no rows \(baseline of the task density, row 3\)"),
    ],
)
def test_a_baseline_that_fails_is_named(error, kind, said, monkeypatch):
    def failing(self, X):
        raise error

    monkeypatch.setattr(Real, "baseline", failing)
    with pytest.raises(kind, match=said):
        compare(["ppca"], "wine")


def test_the_baseline_learns_from_the_training_rows_alone(tmp_path):
    system = gnomon.PPCA(n_components=2)
    board = compare([system], "wine", holdout=0.4, prepare=Preparation(scale="no"), out=tmp_path / "runs")[0]
    train, test = (part.view("density") for part in split(load("wine"), test=0.4, seed=0))
    line = next(line for line in board.lines if line.against_baseline == "baseline")
    assert line.score.value == pytest.approx(Real().baseline(train).log_prob(test).mean(), rel=1e-12)
    assert line.score.n == len(test)
    own = next(line for line in board.lines if line.run)
    assert own.score.value == pytest.approx(gnomon.PPCA(n_components=2).fit(train).score(test), rel=1e-9)
    config = json.loads((Path(own.run) / "config.json").read_text())
    assert config["data"]["holdout"] == 0.4
    assert own.parameters == system.model_.n_parameters and line.parameters == 2 * 13


def test_baselines_where_training_was_poor():
    X = np.array([[1.0, 0.0], [1.0, 1.0]])
    assert np.isfinite(Real().baseline(X).log_prob(X)).all()
    shares = ClassShares().fit(X, ["a", "b"])
    scores = shares.evaluate(np.zeros((2, 2)), np.array(["a", "c"]))
    assert scores["log_likelihood"].value == -np.inf
    assert scores["accuracy"].value == 0.5


def test_the_error_of_a_clustering_is_the_spread_over_resamples():
    random = np.random.default_rng(0)
    labels, clusters = random.integers(0, 3, size=30), random.integers(0, 2, size=30)
    rows = Noise(0, "bootstrap").integers(30, (200, 30))
    expected = np.std([adjusted_rand_score(labels[i], clusters[i]) for i in rows], ddof=1)
    assert cluster_scores(labels, clusters)["adjusted_rand"].stderr == pytest.approx(expected, rel=1e-12)


def test_a_board_has_one_baseline_whatever_the_number_of_systems(monkeypatch):
    from gnomon.tasks.density import EstimateDensity

    made, baseline = [], EstimateDensity.baseline
    monkeypatch.setattr(EstimateDensity, "baseline", lambda *what: made.append(what[1].name) or baseline(*what))
    compare([gnomon.PPCA(n_components=k) for k in (1, 2, 3)], "iris")
    assert made == ["ppca"]


@pytest.mark.parametrize("unit", ["char", "byte", "word"])
def test_a_baseline_of_text_has_the_unit_of_its_systems(unit):
    """E4: a baseline in words beside systems in characters ended every comparison."""
    text = Dataset(
        "t", text=("the sun casts the shadow", "noon has no shadow", "the dial casts", "at noon the sun") * 5
    )
    (board,) = compare([gnomon.NGram(n=2, unit=unit, random_state=0)], text)
    assert {line.score.data_space for line in board.lines} == {board.data_space} and unit in board.data_space
    assert [line.name for line in board.lines] == ["ngram", "unigram"]


TEXT = ["the sun casts the shadow", "noon has no shadow", "", "the dial casts", "at noon the sun"] * 5


@pytest.mark.parametrize(
    "system",
    [
        gnomon.NGram(n=2, min_count=6, random_state=0),
        gnomon.NGram(n=2, start="lower_order", random_state=0),
        gnomon.BERT(max_updates=1, min_count=6, random_state=0),
        gnomon.ELECTRA(max_updates=1, unit="bpe", vocabulary_size=256, random_state=0),
    ],
    ids=["rare", "without ends", "bert", "electra"],
)
def test_a_baseline_of_text_has_the_vocabulary_of_its_systems(system):
    """Two special tokens, or rare ones, that the baseline did not have ended every comparison of bert and electra."""
    (board,) = compare([system], Dataset("t", text=TEXT))
    assert {line.score.data_space for line in board.lines} == {board.data_space} and len(board.lines) == 2


def test_models_of_other_vocabularies_do_not_share_a_board():
    boards = compare([gnomon.NGram(min_count=k, start=how) for k in (1, 6) for how in ("pad", "lower_order")], TEXT)
    assert [len(board.lines) for board in boards] == [2, 2, 2, 2] and len({one.data_space for one in boards}) == 4


def test_a_label_of_one_row_stays_in_training():
    """E12: a class of one row no longer ends the fit."""
    X, y = load("iris").X, np.where(np.arange(150) == 7, "odd", np.asarray(load("iris").y).astype(str))
    with pytest.warns(UserWarning, match="1 class has one row only, which stays in training: odd"):
        board = compare(["logistic-regression"], gnomon.data.Dataset("flowers", X, y))[0]
    assert all(line.score.n == 30 for line in board.lines)
