"""The face of what predicts: targets, scores of regressions, unknown labels, in Python and on the command line."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.dummy import DummyRegressor
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

import gnomon
from gnomon.cli.main import run
from gnomon.data import Dataset, load, split
from gnomon.distributions.targets import Target
from gnomon.errors import UserError, UserValueError
from gnomon.evaluation.regression import r_squared, regression_scores
from gnomon.tasks.compare import compare

random = np.random.default_rng(0)
X = random.normal(size=(30, 2))
Y = X @ [[1.0, 2.0], [0.5, -1.0]] + random.normal(size=(30, 2))
"""Thirty rows and two targets."""


@pytest.mark.parametrize(
    "y",
    [[1, 2, 3], np.array([1, 2, 3], np.uint8), np.array([1, 2, 3], object), pd.Series([1, 2, 3]), pl.Series([1, 2, 3]),
     np.array([1.0, 2.0, 3.0], np.float32), np.array([1, 2, 3], ">f8")],
)  # fmt: skip
def test_whole_numbers_are_numbers(y):
    found = Target().check(y, n=3)
    assert found.dtype == np.float64
    assert found.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([1.0, 1e200, 2.0], r"value 1e\+200 in y is too large.*\(row 1\); choose a larger unit"),
        ([1.0, -1e101, 2.0], r"too large.*row 1"),
        ([1.0, np.nan, 2.0], r"contains NaN \(row 1\)"),
        ([1.0, None, 2.0], r"contains NaN \(row 1\)"),
        ([1.0, 2.0, -np.inf], r"contains infinity \(row 2\)"),
        ([1, 10**400, 2], r"contains infinity \(row 1\)"),
        (["1", "2", "red"], r"value 'red' in y is text, not a number \(row 2\)"),
        (np.array([1, "red", 2], object), r"value 'red' in y is text, not a number \(row 1\)"),
        ([1 + 2j, 1, 2], "Complex"),
        (np.array(["2020-01-01"] * 3, "M8[D]"), "row 0"),
        ([[1, 2], [3, 4], [5, 6]], "one number per row"),
        ([1, 2], "2 targets for 3 rows"),
        (None, "y to be passed"),
        ("abc", "value 'abc' in y is text"),
        (np.arange(3).astype("m8[s]"), "row 0"),
        (np.array([1, np.timedelta64(3, "s"), 2], object), "argument must be numbers.*row 1"),
        ([[1], [1, 2], [3]], "y is ragged"),
        (sparse.csr_matrix([[1.0], [2.0], [3.0]]), "y must be dense"),
        (np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]), r"contains NaN \(row 1\)"),
        (np.ma.array([1, 2, 3], mask=[0, 0, 1]), r"contains NaN \(row 2\)"),
    ],
)
def test_what_is_no_target_is_refused_in_one_line_with_its_row(y, words):
    with pytest.raises(UserError, match=words) as caught:
        Target().check(y, n=3)
    assert "\n" not in str(caught.value)


def test_single_precision_has_a_smaller_limit():
    assert Target().check([1e20], dtype=np.float64) == [1e20]
    with pytest.raises(UserValueError, match="or float64"):
        Target().check([1e20], dtype=np.float32)
    with pytest.raises(UserValueError, match=r"e\+199 in y is too large.*row 0"):
        gnomon.LinearRegression().fit(X, Y[:, 0] * 1e200)


@pytest.mark.parametrize("columns", [1, 2])
def test_scores_are_scikit_learns(columns):
    y, found = Y[:, :columns], Y[:, :columns] + random.normal(size=(30, columns))
    scores = regression_scores(y, found)
    assert scores["squared_error"].value == pytest.approx(mean_squared_error(y, found), abs=1e-12)
    assert scores["absolute_error"].value == pytest.approx(mean_absolute_error(y, found), abs=1e-12)
    assert scores["r2"].value == pytest.approx(r2_score(y, found), abs=1e-12)
    worse = regression_scores(y, found + 5)
    assert scores["squared_error"].against(worse["squared_error"]) == "better"
    assert not scores["squared_error"].higher_is_better


def test_the_error_of_r2_is_the_spread_over_other_samples():
    """2,000 samples of 400 rows: the spread is known to 1.6 %; the bound 10 % is six of its standard errors."""
    random = np.random.default_rng(5)
    found = random.normal(size=(2000, 400))
    y = found + 0.7 * random.normal(size=found.shape)
    scores = [regression_scores(a, b)["r2"] for a, b in zip(y, found, strict=True)]
    spread = np.std([score.value for score in scores])
    assert np.mean([score.stderr for score in scores]) == pytest.approx(spread, rel=0.1)


@pytest.mark.parametrize(("n", "why"), [(1, "one row"), (4, "does not vary")])
def test_r2_that_is_undefined_is_null_with_a_reason(n, why):
    fitted = gnomon.LinearRegression().fit(X, Y[:, 0])
    record = fitted.evaluate(X[:n], np.ones(n))["r2"].to_json()
    assert record["value"] is None
    assert why in record["note"]
    json.dumps(record, allow_nan=False)


@pytest.mark.parametrize("value", [2.5, 0.1, 0.7, 98.6, 1e-300, -1e15 / 3])
def test_a_target_is_constant_where_its_values_are_equal(value):
    """B2-04: the mean of equal numbers may be a unit beside them, so that their variance is not 0."""
    rows, y = np.linspace(0, 1, 3)[:, None], np.full(3, value)
    line = gnomon.make("linear-regression").fit(np.arange(4.0)[:, None], [0.0, 1.0, 2.5, 3.0])
    found = line.evaluate(rows, y)["r2"]
    assert np.isnan(found.value) and found.note == "R^2 is undefined: the target does not vary"
    for weight in (None, [1.0, 2.0, 3.0]):
        assert line.score(rows, y, sample_weight=weight) == 0.0  # scikit-learn's answer
        assert r_squared(y, y, sample_weight=weight) == 1.0
    two = np.stack([y, np.arange(3.0)], axis=1)
    assert np.isnan(regression_scores(two, two)["r2"].value)
    assert r_squared(two, np.stack([y + 1, np.arange(3.0)], axis=1)) == 0.5


@pytest.mark.parametrize("outputs", [1, 2])
def test_score_is_r2_with_weights(outputs):
    target, weight = Y[:, :outputs], random.uniform(0.5, 2, size=30)
    fitted = gnomon.LinearRegression().fit(X, target)
    expected = r2_score(target, fitted.predict(X), sample_weight=weight)
    assert fitted.score(X, target, sample_weight=weight) == pytest.approx(expected, abs=1e-12)
    with pytest.raises(UserValueError, match="columns of the fit"):
        fitted.score(X, np.zeros((30, 3)))


def test_the_view_of_a_target():
    assert load("diabetes").view("target").dtype == np.float64
    assert load("wine").view("target").dtype == np.float64
    colors = Dataset("colors", X, np.array(["1", "red"] * 15))
    with pytest.raises(UserValueError, match=r"value 'red' in colors is text, not a number \(row 1\)"):
        colors.view("target")
    with pytest.raises(UserValueError, match="no target"):
        Dataset("none", X).view("target")


def test_the_board_of_a_regression_is_sorted_by_the_smallest_error(tmp_path):
    systems = [gnomon.LinearRegression(l2=1e6), gnomon.LinearRegression()]
    board = compare(systems, "diabetes", out=tmp_path / "runs")[0]
    assert (board.task, board.metric, board.data_space) == ("regress", "squared_error", "target in R^1")
    values = [line.score.value for line in board.lines]
    assert values == sorted(values)
    assert board.lines[0].against_baseline == "better"
    assert "lower is better" in str(board)
    train, test = split(load("diabetes"), test=0.2, seed=0)
    dummy = DummyRegressor().fit(train.X, train.y)
    mean = next(line for line in board.lines if line.name == "mean")
    assert mean.score.value == pytest.approx(mean_squared_error(test.y, dummy.predict(test.X)), abs=1e-9)
    loaded = gnomon.load(board.lines[0].run)
    assert loaded.evaluate(test.X, test.y)["squared_error"].value == board.lines[0].score.value


def counts(path, spoil=""):
    """Whole numbers as a target, each seen once: nothing that a split could warn of."""
    lines = ["a,b,target", *(f"{a:.4f},{b:.4f},{i * i}" for i, (a, b) in enumerate(X))]
    if spoil:
        lines[5] = f"1,2,{spoil}"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_commands_fit_predict_and_score_a_target_of_whole_numbers(tmp_path, capsys):
    file, folder = counts(tmp_path / "t.csv"), str(tmp_path / "run")
    assert run(["fit", "linear-regression", str(file), "--target", "target", "--out", folder]) == 0
    capsys.readouterr()
    assert run(["evaluate", folder, "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert {"squared_error", "absolute_error", "r2"} <= set(scores)
    assert scores["squared_error"]["higher_is_better"] is False
    assert run(["predict", folder, str(file)]) == 0
    lines = capsys.readouterr().out.split()
    whole = load(file, target="target")
    assert lines[0] == "prediction"
    np.testing.assert_allclose(np.array(lines[1:], float), gnomon.load(folder).predict(whole.X), rtol=1e-6)


def test_text_as_a_target_is_refused_with_its_row_and_nothing_is_left(tmp_path, capsys):
    file, folder = counts(tmp_path / "t.csv", spoil="red"), tmp_path / "run"
    assert run(["fit", "linear-regression", str(file), "--target", "target", "--out", str(folder)]) == 2
    assert "value 'red' in t.csv is text, not a number (t.csv, line 6)" in capsys.readouterr().err
    assert not folder.exists()


def test_a_label_that_the_fit_has_not_seen_is_named_and_counts_as_wrong():
    labels = np.repeat(["wet", "dry"], 15)
    fitted = gnomon.SoftmaxRegression(epochs=3, random_state=0).fit(X, labels)
    asked = labels.copy()
    asked[4] = "icy"
    scores = fitted.evaluate(X, asked)
    assert "'icy' in row 4" in scores["accuracy"].note
    assert scores["accuracy"].pointwise[4] == 0
    assert scores["log_likelihood"].to_json()["value"] is None


@pytest.mark.parametrize("name", ["softmax-regression", "linear-regression"])
def test_a_second_fit_is_a_first_one(name):
    X2, labels = random.normal(size=(20, 4)), np.arange(30) % 3
    system = gnomon.make(name, random_state=0)
    first = {key: value.copy() for key, value in system.fit(X, labels).model_.state().items()}
    before = repr(system.get_params())
    system.fit(X2, np.arange(20) % 2)
    again = system.fit(X, labels).model_.state()
    assert all(np.array_equal(first[key], again[key]) for key in first)
    with pytest.raises(UserError):
        system.fit(X, None)
    assert repr(system.get_params()) == before


def test_every_score_says_what_it_is_of():
    X = np.arange(8.0)[:, None]
    classifier = gnomon.LogisticRegression().fit(X, np.arange(8) // 4)
    found = classifier.evaluate(X, np.arange(8) // 4)
    assert {score.data_space for score in found.values()} == {"pmf on 2 classes"} and len(found) == 3
    assert {score.name for score in found.values()} == set(found)
