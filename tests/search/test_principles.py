"""Training principles side by side: each score by hand, the rate by validation rows alone, the same from the seed."""

import json
import warnings
from itertools import product

import numpy as np
import pytest
from sklearn.svm import LinearSVC

import gnomon
from gnomon.cli.main import run as command
from gnomon.data.dataset import Dataset
from gnomon.data.splitting import split
from gnomon.errors import UserError
from gnomon.numeric.noise import Noise
from gnomon.search import principles
from gnomon.search.principles import PRINCIPLES, SCORES, compare_principles

UPDATES = dict.fromkeys(PRINCIPLES, 30)


def shapes(n=120, d=9):
    random = np.random.default_rng(0)
    modes, label = random.random((3, d)) < 0.5, random.integers(0, 3, n)
    return Dataset("shapes", (modes[label] ^ (random.random((n, d)) < 0.1)).astype(float), np.array(list("abc"))[label])


def sigma(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.spec("INF-59")
@pytest.mark.parametrize("objective", PRINCIPLES)
def test_every_score_is_what_it_is_by_hand(objective):
    data, rate = shapes(), 1e-4 if objective == "generalized-score-matching" else 0.1
    board = compare_principles(
        gnomon.RBM(n_hidden=3, dtype="float64"), data, objectives=[objective], rates=[rate], seeds=2, updates=UPDATES
    )
    rest, test = split(data, test=0.2, seed=0, how="stratified")
    train, _ = split(rest, test=0.25, seed=0, how="stratified")
    assert board.rows == (len(train.X), len(rest.X) - len(train.X), len(test.X)) == (72, 24, 24)
    by_hand = []
    for seed in (0, 1):
        rbm = gnomon.RBM(
            n_hidden=3, dtype="float64", objective=objective, learning_rate=rate, max_updates=30, random_state=seed
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of rows that lack neighbors
            rbm.fit(train.X)
        W, b, c = rbm.weights_, rbm.visible_bias_, rbm.hidden_bias_
        every = np.array(list(product([0.0, 1.0], repeat=9)))
        mass = np.exp(every @ b) * np.prod(1 + np.exp(every @ W + c), axis=1)
        at = (test.X @ 2 ** np.arange(8, -1, -1)).astype(int)
        codes, held = sigma(train.X @ W + c), sigma(test.X @ W + c)
        right = LinearSVC(C=1.0, random_state=0, max_iter=5000).fit(codes, train.y).predict(held) == test.y
        u = Noise(0, "denoise").rows(np.arange(24)).uniform((24, 9), like=np.empty(0))
        broken = np.where(u < 0.1, 1 - test.X, test.X)
        again = sigma(sigma(broken @ W + c) @ W.T + b) >= 0.5
        by_hand.append((np.log(mass[at] / mass.sum()).mean(), right.mean(), (again == (test.X == 1)).mean()))
    (found,) = board.principles
    np.testing.assert_allclose([found.mean[one] for one in SCORES], np.mean(by_hand, axis=0), rtol=1e-9)
    np.testing.assert_allclose([found.spread[one] for one in SCORES], np.std(by_hand, axis=0, ddof=1), atol=1e-9)
    assert bool(found.notes) == (objective == "generalized-score-matching")
    left = (broken == test.X).mean()
    assert board.baseline["denoised"] == pytest.approx(left) and 0.8 < left < 1


@pytest.mark.spec("INF-59")
def test_what_is_made_good_again_is_the_row_with_flipped_bits():
    class Same:
        """Leaves rows as they are: what is wrong stays wrong."""

        @staticmethod
        def reconstruct(X):
            return X

    X = (np.random.default_rng(0).random((2000, 10)) < 0.3).astype(float)
    found = principles.denoised(Same(), X, 0.2, Noise(0, "flip"))
    assert abs(found - 0.8) < 4.5 * (0.16 / X.size) ** 0.5  # false alarm below 1e-5


@pytest.mark.spec("INF-59")
def test_the_rate_is_chosen_by_validation_rows_and_by_each_score_for_itself(monkeypatch):
    """Scores by rate that are made up: on the test rows the order is the opposite."""
    scale = {0.01: (1.0, 3.0, 2.0), 0.1: (2.0, 1.0, 3.0), 1.0: (3.0, 2.0, 1.0)}
    lengths = []

    def scores(fitted, train, part, flip):
        sign = 1 if len(part[0]) == 24 and lengths[-1:] != [fitted] else -1
        lengths.append(fitted)
        return dict(zip(SCORES, (sign * one for one in scale[fitted.learning_rate]), strict=True))

    monkeypatch.setattr(principles, "_scores", scores)
    board = compare_principles(
        gnomon.RBM(n_hidden=3), shapes(), objectives=["cd"], rates=list(scale), seeds=1, updates=UPDATES
    )
    (found,) = board.principles
    assert found.rates == dict(zip(SCORES, (1.0, 0.01, 0.1), strict=True))
    assert found.mean == dict.fromkeys(SCORES, -3.0)  # of the test rows


@pytest.mark.spec("INF-59")
def test_the_report_reproduces_from_the_seed(tmp_path, capsys):
    data = shapes()
    rows = np.column_stack([data.X.astype(int).astype(str), data.y])
    path = tmp_path / "shapes.csv"
    path.write_text("\n".join([",".join([*"abcdefghi", "label"]), *(",".join(row) for row in rows)]) + "\n")
    first = ["principles", "rbm:n-hidden=3", str(path), "--target", "label", "--seeds", "2", "--rates", "0.03,0.1"]
    first += ["--objectives", "pcd,ratio-matching"]
    assert command([*first, "--seconds", "0.02"]) == 0
    said = capsys.readouterr().out
    again = said.rstrip().rpartition("--updates ")[2]
    found = []
    for _ in range(2):
        assert command([*first, "--updates", again, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
        assert command([*first, "--updates", again]) == 0
        assert capsys.readouterr().out == said
    assert found[0] == found[1] and [one["objective"] for one in found[0]["principles"]] == ["pcd", "ratio-matching"]
    assert "baseline" in said and "log_likelihood" in said


@pytest.mark.spec("INF-59")
def test_budgets_are_equal_in_processor_time_and_not_in_updates(monkeypatch):
    """By a clock that charges ten times as much for an update of one principle."""
    charge = {"cd": 0.001, "ratio-matching": 0.01}
    monkeypatch.setattr(principles, "_processor_time", lambda made, X, name, n: 0.5 + charge[name] * n)
    board = compare_principles(
        gnomon.RBM(n_hidden=3), shapes(), objectives=list(charge), rates=[0.1], seeds=1, seconds=0.05
    )
    assert {one.objective: one.updates for one in board.principles} == {"cd": 50, "ratio-matching": 5}


def test_mistakes_are_named():
    data = shapes()
    for options, words in (
        ({"objectives": ["cd", "cd"]}, "objectives must differ, got 'cd' twice"),
        ({"holdout": 2.0}, r"holdout must be in \(0, 1\)"), ({"validation": 0.0}, r"validation must be in \(0, 1\)"),
        ({"objectives": "cd"}, "list of names"), ({"seeds": 0}, "at least 1"), ({"flip": 1.0}, r"in \(0, 1\)"),
        ({"rates": [0.0]}, "above 0"), ({"updates": {"pcd": 3}}, "must name cd"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=words):
            compare_principles("rbm", data, **{"objectives": ["cd"], **options})
    with pytest.raises(UserError, match="no reconstruct"):
        compare_principles("bernoulli-mixture", data)
    with pytest.raises(UserError, match="gaussian-rbm has no rows of bits to flip"):
        compare_principles("gaussian-rbm", "wine")
    assert command(["principles", "rbm", "digits", "--updates", "cd"]) == 2


@pytest.mark.spec("INF-59")
def test_a_rate_at_which_a_fit_diverges_is_not_chosen():
    board = compare_principles(
        gnomon.RBM(n_hidden=3), shapes(), objectives=["cd"], rates=[1e8, 0.1], seeds=1, updates=UPDATES
    )
    (found,) = board.principles
    assert set(found.rates.values()) == {0.1} and found.notes == ("diverged at the rate 1e+08",)
    assert "diverged at the rate" in str(board)
