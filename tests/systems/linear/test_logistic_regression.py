"""Logistic regression: closed forms, zero gradient, parity with scikit-learn and with softmax regression."""

import warnings

import numpy as np
import pytest
from scipy.special import expit, log_expit
from sklearn.linear_model import LogisticRegression as Peer

from gnomon.systems.linear.logistic_regression import LogisticRegression
from gnomon.systems.linear.softmax_regression import SoftmaxRegression

SIX_AND_FOUR = np.array([[0.0]] * 6 + [[1.0]] * 4), np.array([1, 1, 0, 0, 0, 0, 1, 1, 1, 0])
"""2 of 6 positive at 0, 3 of 4 at 1."""


def overlapping(k=2, n=80, d=3, seed=0):
    random = np.random.default_rng(seed)
    y = random.integers(0, k, n)
    return random.normal(size=(n, d)) * [1, 10, 0.1] + y[:, None] * [0.5, -3, 0.02], y


@pytest.mark.spec("BAY-99", "DLN-69")
@pytest.mark.parametrize("method", ["newton", "lbfgs"])
@pytest.mark.parametrize("standardize", [True, False])
def test_one_binary_column_gives_the_log_odds_of_the_table(method, standardize):
    X, y = SIX_AND_FOUR
    fitted = LogisticRegression(l2=0.0, method=method, standardize=standardize, tol=1e-10).fit(X, y)
    assert fitted.intercept_[0] == pytest.approx(np.log(2 / 4), abs=1e-6)
    assert fitted.coef_[0, 0] == pytest.approx(np.log(3 / 1) - np.log(2 / 4), abs=1e-6)
    np.testing.assert_allclose(fitted.predict_proba([[0], [1]])[:, 1], [2 / 6, 3 / 4], atol=1e-6)


@pytest.mark.spec("BAY-99", "DLN-69")
def test_log_probabilities_far_from_the_boundary_are_the_scores():
    """There a probability rounds to 0; its logarithm, and so the log-likelihood of a surprise, stays a number."""
    X, y = SIX_AND_FOUR
    fitted = LogisticRegression(l2=0.0, tol=1e-10).fit(X, y)
    z = np.log(6) * np.array([1e3, -1e3]) - np.log(2)
    expected = np.stack([-np.maximum(z, 0), np.minimum(z, 0)], 1)
    np.testing.assert_allclose(fitted.predict_log_proba([[1e3], [-1e3]]), expected, rtol=1e-7)
    found = fitted.evaluate([[1e3], [-1e3]], [0, 0])["log_likelihood"]
    assert found.value == pytest.approx(-z[0] / 2, rel=1e-7)
    whole = fitted.evaluate(X, y)["log_likelihood"]  # L / n of the table
    L = 2 * np.log(2 / 6) + 4 * np.log(4 / 6) + 3 * np.log(3 / 4) + np.log(1 / 4)
    assert whole.value == pytest.approx(L / 10, abs=1e-9)


@pytest.mark.spec("BAY-99", "DLN-69")
def test_weights_count_rows():
    X, y = SIX_AND_FOUR
    fitted = LogisticRegression(l2=0.0, tol=1e-10).fit(X, y, sample_weight=np.where(y == 1, 2.0, 1.0))
    np.testing.assert_allclose(fitted.predict_proba([[0.0], [1.0]])[:, 1], [4 / 8, 6 / 7], atol=1e-7)


@pytest.mark.spec("BAY-99", "PRA-058", "DLN-69")
@pytest.mark.parametrize("l2", [0.0, 1e-3, 0.3])
def test_the_gradient_is_zero_at_the_optimum(l2):
    X, y = overlapping()
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    fitted = LogisticRegression(l2=l2, tol=1e-10).fit(X, y, sample_weight=weight)
    shift = np.average(X, axis=0, weights=weight)
    scale = np.sqrt(np.average((X - shift) ** 2, axis=0, weights=weight))
    Z, w = (X - shift) / scale, fitted.coef_[0] * scale
    residual = expit(fitted.decision_function(X)) - y
    gradient = (weight * residual) @ Z / weight.sum() + l2 * w
    np.testing.assert_allclose(gradient, 0, atol=1e-9)
    assert (weight * residual).sum() == pytest.approx(0, abs=1e-7)


@pytest.mark.spec("DLN-69")
def test_without_a_penalty_it_is_the_peer():
    X, y = overlapping()
    X = (X - X.mean(0)) / X.std(0)
    names = np.array(["no", "yes"])
    fitted = LogisticRegression(l2=0.0, tol=1e-10).fit(X, names[y])
    peer = Peer(C=np.inf, tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(fitted.coef_, peer.coef_, atol=1e-5)
    np.testing.assert_allclose(fitted.intercept_, peer.intercept_, atol=1e-5)
    np.testing.assert_array_equal(fitted.predict(X), names[peer.predict(X)])
    own = np.where(y == 1, 1, -1) * fitted.decision_function(X)  # log P(y | x) = log s((2 y - 1) z)
    np.testing.assert_allclose(fitted.predict_log_proba(X)[np.arange(len(y)), y], log_expit(own), atol=1e-12)


@pytest.mark.spec("DLN-69")
def test_the_two_probabilities_are_a_softmax_of_zero_and_the_score():
    X, y = overlapping()
    fitted = LogisticRegression().fit(X, y)
    z = fitted.decision_function(X)
    for label in (0, 1):
        np.testing.assert_allclose(fitted.predict_proba(X)[:, label], expit((2 * label - 1) * z), atol=1e-12)
    two = np.exp(np.column_stack([np.zeros_like(z), z]))
    np.testing.assert_allclose(fitted.predict_proba(X), two / two.sum(1, keepdims=True), atol=1e-12)
    np.testing.assert_array_equal(fitted.predict(X), (z > 0).astype(int))


@pytest.mark.spec("PRA-058", "BAY-99")
@pytest.mark.parametrize("k", [2, 3])
def test_it_reaches_the_optimum_of_the_peer_and_of_softmax_regression(k):
    X, y = overlapping(k)
    X = (X - X.mean(0)) / X.std(0)
    l2 = 0.01
    fitted = LogisticRegression(l2=l2, tol=1e-10, standardize=False).fit(X, y)
    peer = Peer(C=1 / (len(y) * l2), tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(fitted.coef_, peer.coef_, atol=1e-5)
    np.testing.assert_allclose(fitted.predict_proba(X), peer.predict_proba(X), atol=1e-5)
    # two weight vectors +-w/2 of the softmax have half the squared norm of w
    steps = SoftmaxRegression(
        l2=l2 * (2 if k == 2 else 1), epochs=3000, learning_rate=0.05, tol=1e-9, standardize=False
    ).fit(X, y)
    np.testing.assert_allclose(fitted.predict_proba(X), steps.predict_proba(X), atol=1e-5)


@pytest.mark.spec("BAY-99", "DLN-69", "PRA-058")
def test_classes_that_a_plane_separates_are_told_of():
    X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array(["a", "a", "b", "b"])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        LogisticRegression(l2=0.0).fit(X, y)
    assert any("a plane separates the classes" in str(one.message) for one in told)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        penalized = LogisticRegression(l2=1e-3).fit(X, y)
        LogisticRegression(l2=0.0).fit(*SIX_AND_FOUR)
    assert np.isfinite(penalized.coef_).all()


@pytest.mark.spec("DLN-68", "LIN-09")
@pytest.mark.parametrize("epochs", [200, 20_000])
def test_softmax_regression_tells_of_separation_too(epochs):
    """B2-07: no penalty and a plane between the classes; rows of weight 0 do not count."""
    X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([0, 0, 1, 1])
    with pytest.warns(UserWarning, match="a plane separates the classes.*set l2 above 0"):
        SoftmaxRegression(l2=0.0, epochs=epochs).fit(X, y)
    with pytest.warns(UserWarning, match="a plane separates the classes"):
        SoftmaxRegression(l2=0.0, epochs=epochs).fit(
            np.r_[X, [[2.5]]], np.r_[y, 0], sample_weight=[1.0, 1.0, 1.0, 1.0, 0.0]
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SoftmaxRegression(l2=1e-3, epochs=200).fit(X, y)
        SoftmaxRegression(l2=0.0, epochs=200).fit(np.r_[X, [[2.5]]], np.r_[y, 0])


@pytest.mark.parametrize("standardize", [True, False])
def test_columns_that_depend_on_each_other_are_no_matter_without_a_penalty(standardize):
    """The library's notice of a singular Hessian, which it answers by another solver, is not handed on."""
    X, y = overlapping()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = LogisticRegression(l2=0.0, standardize=standardize, tol=1e-10).fit(np.c_[X, np.ones(len(X))], y)
        plain = LogisticRegression(l2=0.0, standardize=standardize, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(fitted.predict_proba(np.c_[X, np.ones(len(X))]), plain.predict_proba(X), atol=1e-3)


def test_large_offsets_do_not_matter():
    X, y = overlapping()
    plain = LogisticRegression(tol=1e-10).fit(X, y).predict_proba(X)
    moved = LogisticRegression(tol=1e-10).fit(X + 1e6, y).predict_proba(X + 1e6)
    np.testing.assert_allclose(moved, plain, atol=1e-6)
