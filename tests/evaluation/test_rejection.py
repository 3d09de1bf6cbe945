"""The reject option: the example by hand, brute force over thresholds, exact bounds, refusals."""

import math

import numpy as np
import pytest
from scipy.stats import beta, binom, binomtest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from gnomon.errors import UserError
from gnomon.evaluation.ranking import Ranking
from gnomon.evaluation.rejection import (
    RejectOption,
    coverage_at_accuracy,
    coverage_curve,
    curve_of,
    fit_threshold,
)  # fmt: skip

EXAMPLE = ([1, 1, 1, 1], [1, 1, 0, 1], [0.9, 0.8, 0.6, 0.5])


def columns(n=300, seed=0):
    random = np.random.default_rng(seed)
    confidence = np.round(random.random(n) * 20) / 20
    y = random.integers(0, 3, size=n)
    return y, np.where(random.random(n) < confidence, y, (y + 1) % 3), confidence


@pytest.mark.spec("PRA-054")
def test_the_example():
    curve = coverage_curve(*EXAMPLE)
    first, second = curve.at(0.8), curve.at(0.6)
    assert (first.coverage, first.accuracy, first.answered) == (0.5, 1.0, 2)
    assert (second.coverage, second.accuracy) == (0.75, pytest.approx(2 / 3, abs=1e-15))
    nothing = curve.at(0.95)
    assert (nothing.coverage, nothing.accuracy, nothing.lower, nothing.answered) == (0.0, 1.0, 0.0, 0)
    assert curve.at(0.0).coverage == 1.0
    assert curve.at(0.7).coverage == curve.at(0.8).coverage  # between two confidences


@pytest.mark.spec("PRA-054")
def test_every_point_by_counting():
    y, predicted, confidence = columns()
    curve = coverage_curve(y, predicted, confidence)
    assert (np.diff(curve.coverage) > 0).all() and len(curve.coverage) == 1 + len(np.unique(confidence))
    for t, c, a in zip(curve.threshold[1:], curve.coverage[1:], curve.accuracy[1:], strict=True):
        answered = confidence >= t
        assert c == pytest.approx(answered.mean(), abs=1e-12)
        assert a == pytest.approx((y == predicted)[answered].mean(), abs=1e-12)


@pytest.mark.spec("PRA-054", "PRA-055")
def test_weighted_rows_by_counting():
    """Unequal weights, 0 among them; the bound of weighted rows is that of Kish's number of them."""
    y, predicted, confidence = columns(80)
    weight = np.random.default_rng(1).uniform(0, 3, 80) * (np.arange(80) % 4 > 0)
    curve = coverage_curve(y, predicted, confidence, sample_weight=weight)
    right = y == predicted
    for t in np.unique(confidence[weight > 0]):
        w = weight * (confidence >= t)
        point = curve.at(t, level=0.8)
        assert point.coverage == pytest.approx(w.sum() / weight.sum(), abs=1e-12)
        share = (w * right).sum() / w.sum()
        assert point.accuracy == pytest.approx(share, abs=1e-12)
        effective = w.sum() ** 2 / (w**2).sum()
        bound = beta.ppf(0.2, effective * share, effective * (1 - share) + 1) if share else 0.0
        assert point.lower == pytest.approx(bound, abs=1e-9)
        assert point.answered == round(effective)
    found = coverage_at_accuracy(y, predicted, confidence, 0.7, sample_weight=weight)
    enough = [t for t, a in zip(curve.threshold, curve.accuracy, strict=True) if a >= 0.7]
    assert found.threshold == min(enough)
    assert fit_threshold(y, predicted, confidence, 0.7, sample_weight=weight) == found.threshold


@pytest.mark.spec("PRA-055")
def test_the_bound_of_a_small_sample():
    """Three of four right: Clopper and Pearson's one-sided 95 % bound, which fails one sample in twenty at most."""
    point = coverage_at_accuracy(*EXAMPLE, 0.7)
    assert point.lower == pytest.approx(binomtest(3, 4).proportion_ci(0.9, method="exact").low, abs=1e-9)
    for n, p in ((12, 0.8), (30, 0.95)):
        right = np.arange(n + 1)
        bounds = np.array([coverage_curve(np.ones(n), np.arange(n) < k, np.ones(n)).at(0.0).lower for k in right])
        assert 0.8 < binom.pmf(right, n, p)[bounds <= p].sum() <= 1
        assert binom.pmf(right, n, p)[bounds > p].sum() <= 0.05


@pytest.mark.spec("PRA-055")
def test_coverage_of_the_example():
    assert coverage_at_accuracy(*EXAMPLE, 0.7).coverage == 1.0
    assert coverage_at_accuracy(*EXAMPLE, 1.0).coverage == 0.5
    assert fit_threshold(*EXAMPLE, 1.0) == 0.8


@pytest.mark.spec("PRA-055")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("level", [None, 0.9])
def test_largest_coverage_by_brute_force(seed, level):
    y, predicted, confidence = columns(seed=seed, n=60)
    for target in (0.5, 0.7, 0.9, 0.97):
        best = 0.0
        for t in np.unique(confidence):
            answered = confidence >= t
            right = int((y == predicted)[answered].sum())
            share = right / answered.sum()
            if level is not None:  # the one-sided exact bound is one side of the interval of level 2 level - 1
                share = binomtest(right, int(answered.sum())).proportion_ci(2 * level - 1, method="exact").low
            best = max(best, answered.mean()) if share >= target else best
        found = coverage_at_accuracy(y, predicted, confidence, target, level=level)
        assert found.coverage == pytest.approx(best, abs=1e-12)
        if best:
            assert (confidence >= found.threshold).mean() == pytest.approx(best, abs=1e-12)
        else:
            assert found.threshold == math.inf and found.accuracy == 1.0


@pytest.mark.spec("PRA-055")
def test_accuracy_is_not_monotone_and_all_thresholds_are_searched():
    found = coverage_at_accuracy([1, 1, 1, 1, 1], [0, 1, 1, 1, 1], [0.9, 0.8, 0.7, 0.6, 0.5], 0.8)
    assert found.coverage == 1.0  # the surest answer is the wrong one: smaller coverages do not reach 0.8


def test_equal_weights_are_none_and_chunks_add_up():
    y, predicted, confidence = columns()
    plain = coverage_curve(y, predicted, confidence)
    tripled = coverage_curve(y, predicted, confidence, sample_weight=np.full(len(y), 3.0))
    assert tripled.counts == pytest.approx(plain.counts, rel=1e-12)
    right = y == predicted
    merged = curve_of(Ranking(confidence[:99], right[:99]).merge(Ranking(confidence[99:], right[99:])))
    assert np.array_equal(merged.accuracy, plain.accuracy) and np.array_equal(merged.coverage, plain.coverage)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return LogisticRegression(max_iter=1000).fit(X[::2], y[::2]), X[1::2], y[1::2]


@pytest.mark.spec("PRA-054")
def test_a_classifier_that_refuses(iris):
    model, X, y = iris
    confidence = model.predict_proba(X).max(axis=1)
    careful = RejectOption(model, 0.9, reject=-1)
    answers = careful.predict(X)
    assert np.array_equal(answers == -1, confidence < 0.9)
    assert np.array_equal(answers[answers != -1], model.predict(X)[confidence >= 0.9])
    edge = RejectOption(model, float(confidence[3]), reject=-1)
    assert edge.predict(X)[3] != -1  # a confidence of just the threshold is answered
    scores = careful.evaluate(X, y)
    point = coverage_curve(y, model.predict(X), confidence).at(0.9)
    assert scores["coverage"].value == pytest.approx(point.coverage, abs=1e-12)
    assert scores["selective_accuracy"].value == pytest.approx(point.accuracy, abs=1e-12)
    assert RejectOption(model, 0.9).predict(X)[confidence < 0.9].tolist() == [None] * int((confidence < 0.9).sum())


@pytest.mark.spec("PRA-055")
def test_the_threshold_is_fitted_on_rows_that_are_given(iris):
    model, X, y = iris
    careful = RejectOption(model).fit(X, y, accuracy=1.0)
    assert careful.evaluate(X, y)["selective_accuracy"].value == 1.0
    columns_of = (y, model.predict(X), model.predict_proba(X).max(axis=1))
    assert careful.threshold == fit_threshold(*columns_of, 1.0)
    bounded = RejectOption(model).fit(X, y, accuracy=0.9, level=0.99).threshold
    assert bounded == fit_threshold(*columns_of, 0.9, level=0.99) != fit_threshold(*columns_of, 0.9)
    silent = RejectOption(model, math.inf).evaluate(X, y)
    assert (silent["coverage"].value, silent["selective_accuracy"].value) == (0.0, 1.0)
    assert "convention" in silent["selective_accuracy"].note


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: coverage_curve(*EXAMPLE).at(math.nan), "threshold must be a number, got nan"),
        (lambda: coverage_at_accuracy(*EXAMPLE, 98), r"target must be in \[0, 1\], got 98"),
        (lambda: coverage_at_accuracy(*EXAMPLE, 0.9, level=1), r"level must be in \(0, 1\), got 1"),
        (lambda: coverage_curve([1, 1], [1, 0], [0.5, math.nan]), "row 1"),
        (
            lambda: coverage_curve([1, 1], [1, 0], [0.5]),
            r"positive must be 1 truth values, one per score, got bool of shape \(2,\)",
        ),
        (lambda: RejectOption(object()), "model must be a fitted classifier with probabilities, got a object"),
    ],
)
def test_what_cannot_be(call, words):
    with pytest.raises(UserError, match=words):
        call()


def test_a_refusal_is_no_class(iris):
    with pytest.raises(UserError, match="reject must be a label that is not a class, got 2"):
        RejectOption(iris[0], 0.5, reject=2)
