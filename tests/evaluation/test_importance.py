"""Permutation importance against its expectation over all shuffles, and scikit-learn's."""

import numpy as np
import pytest
from sklearn.inspection import permutation_importance

import gnomon
from gnomon.errors import UserError, UserValueError
from gnomon.evaluation import permutation


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 3)) * [1, 2, 1]
    return X, 3 * X[:, 0] - X[:, 1] + random.normal(size=600)


def test_squared_error_is_its_expectation_over_shuffles(data):
    """Of a linear model: 2 w^2 var(x) + 2 w cov(r, x), r the residual; 30 shuffles are within 4 of their errors."""
    X, y = data
    fitted = gnomon.LinearRegression(dtype="float64").fit(X[:300], y[:300])
    held, target = X[300:], y[300:]
    residual = target - fitted.predict(held)
    found = permutation(fitted, held, target, columns=["a", "b", "c"], repeats=30)
    assert list(found)[:2] == ["a", "b"]
    for j, name in enumerate("abc"):
        x, w = held[:, j], fitted.coef_[j]
        wanted = 2 * w**2 * x.var() + 2 * w * np.mean((residual - residual.mean()) * (x - x.mean()))
        assert abs(found[name].value - wanted) < 4 * found[name].error
        assert found[name].unit == "squared units of y" and found[name].kind == "estimate"


def test_the_stated_error_is_the_spread_over_seeds(data):
    """200 importances of five shuffles: their spread is the root mean square of their errors, within 4 of its own."""
    X, y = data
    fitted = gnomon.LinearRegression(dtype="float64").fit(X[:300], y[:300])
    found = [
        permutation(fitted, X[300:400], y[300:400], columns={"a": [0]}, repeats=5, seed=seed)["a"]
        for seed in range(200)
    ]
    spread = np.std([one.value for one in found], ddof=1)
    assert spread == pytest.approx(np.sqrt(np.mean([one.error**2 for one in found])), rel=0.2)


def test_accuracy_agrees_with_scikit_learn(data):
    X, y = data
    labels = np.where(y > 0, "up", "down")
    fitted = gnomon.LogisticRegression().fit(X[:300], labels[:300])
    found = permutation(fitted, X[300:], labels[300:], repeats=20)
    other = permutation_importance(fitted, X[300:], labels[300:], n_repeats=20, random_state=0)
    for j in range(3):
        spread = np.hypot(found[f"x{j}"].error, other.importances_std[j] / np.sqrt(20))
        assert abs(found[f"x{j}"].value - other.importances_mean[j]) < 4.5 * spread


def test_columns_that_belong_together_are_shuffled_together():
    """Three codes of one category: shuffled apart each leaves a row that no category has."""
    random = np.random.default_rng(0)
    kind = random.integers(0, 3, 400)
    X = np.column_stack([np.eye(3)[kind], random.normal(size=400)])
    y = np.array([0.0, 5, 10])[kind] + random.normal(size=400)
    fitted = gnomon.LinearRegression(dtype="float64").fit(X[:200], y[:200])
    found = permutation(fitted, X[200:], y[200:], columns={"kind": [0, 1, 2], "x": [3]}, repeats=30)
    level = fitted.predict(np.column_stack([np.eye(3), np.zeros(3)]))[kind[200:]]
    residual = y[200:] - fitted.predict(X[200:])
    wanted = 2 * level.var() + 2 * np.mean((residual - residual.mean()) * (level - level.mean()))
    assert abs(found["kind"].value - wanted) < 4 * found["kind"].error


def test_the_same_seed_shuffles_alike_and_nothing_is_written_to(data):
    X, y = data
    fitted = gnomon.LinearRegression().fit(X, y)
    before = X.copy()
    X.flags.writeable = False
    one, other, third = (permutation(fitted, X, y, seed=seed) for seed in (1, 1, 2))
    assert one == other != third and np.array_equal(X, before)
    likelihood = permutation(fitted, X, y, score="log_likelihood")
    assert likelihood["x0"].value > 0 and likelihood["x0"].unit == "nats"


def test_refusals(data):
    X, y = data
    fitted = gnomon.LinearRegression().fit(X, y)
    with pytest.raises(UserValueError, match="repeats must be at least 2"):
        permutation(fitted, X, y, repeats=1)
    with pytest.raises(UserError, match="no score 'aucc'"):
        permutation(fitted, X, y, score="aucc")
    with pytest.raises(UserError, match="must be 3 names, got 1"):
        permutation(fitted, X, y, columns=["a"])
