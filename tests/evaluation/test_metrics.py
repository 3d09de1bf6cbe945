"""Further scores of classes and numbers are scikit-learn's, with ties, weights, absent classes and one class."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn import metrics as sk

from gnomon.evaluation.agreement import cohen_kappa, matthews
from gnomon.evaluation.classification import brier, classification_metrics
from gnomon.evaluation.regression import regression_metrics
from gnomon.evaluation.roc import roc_auc, roc_auc_of_classes

random = np.random.default_rng(7)


def classes(n=60, k=3, weighted=False, rounded=True):
    """Labels, probabilities with ties, and weights with zeros."""
    p = random.dirichlet(np.ones(k), size=n)
    if rounded:
        p = np.round(p * 8) + 0.25
        p /= p.sum(axis=1, keepdims=True)
    y = (random.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1).clip(max=k - 1)
    y[:k] = np.arange(k)
    weight = random.integers(0, 3, size=n).astype(float) if weighted else None
    if weighted:
        weight[:k] = 1.0
    return y, p, weight


def by_weights(score, y, weight):
    """Standard error by the delta method, the derivatives with respect to the rows' weights taken numerically."""
    weight = np.ones(len(y)) if weight is None else weight
    n, step, slopes = np.count_nonzero(weight), 1e-5, []
    for i in range(len(y)):
        up, down = weight.copy(), weight.copy()
        up[i] += step
        down[i] -= min(step, weight[i])
        slopes.append(weight[i] * (score(up) - score(down)) / (up[i] - down[i]))
    return math.sqrt(n / (n - 1) * np.square(slopes).sum())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [2, 3])
def test_scores_of_classes_are_scikit_learns(k, weighted):
    y, p, weight = classes(k=k, weighted=weighted)
    predicted = p.argmax(axis=1)
    found = classification_metrics(y, predicted, p, np.arange(k), sample_weight=weight)
    auc = {"multi_class": "ovr"} if k > 2 else {}
    expected = {
        "balanced_accuracy": sk.balanced_accuracy_score(y, predicted, sample_weight=weight),
        "roc_auc": sk.roc_auc_score(y, p if k > 2 else p[:, 1], sample_weight=weight, **auc),
        "brier": sk.brier_score_loss(y, p if k > 2 else p[:, 1], sample_weight=weight),
        "matthews": sk.matthews_corrcoef(y, predicted, sample_weight=weight),
        "kappa": sk.cohen_kappa_score(y, predicted, sample_weight=weight),
    }
    for label in range(k):
        for name, function in (("precision", sk.precision_score), ("recall", sk.recall_score)):
            value = function(y, predicted, labels=[label], average="macro", sample_weight=weight)
            expected[f"{name}[{label}]"] = value
    assert {name: found[name].value for name in expected} == pytest.approx(expected, abs=1e-12)
    assert set(found) == {*expected, "calibration_error"}
    assert all(score.name == name and score.n == found["kappa"].n for name, score in found.items())
    assert len({score.data_space for score in found.values()}) == 1
    assert [name for name, score in found.items() if not score.higher_is_better] == ["brier", "calibration_error"]
    if weighted:
        rows = np.repeat(np.arange(len(y)), weight.astype(int))
        twice = classification_metrics(y[rows], predicted[rows], p[rows], np.arange(k))
        values = {name: score.value for name, score in twice.items()}
        assert {name: score.value for name, score in found.items()} == pytest.approx(values, abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["balanced_accuracy", "roc_auc", "matthews", "kappa"])
def test_their_errors_are_those_of_the_delta_method(name, weighted):
    y, p, weight = classes(n=40, weighted=weighted)
    predicted = p.argmax(axis=1)

    def score(w):
        return classification_metrics(y, predicted, p, np.arange(3), sample_weight=w)[name]

    assert score(weight).stderr == pytest.approx(by_weights(lambda w: score(w).value, y, weight), rel=1e-4)


def test_the_error_of_the_area_is_its_spread():
    """1,000 samples of 60 and 40 rows: the spread is known to 2.2 %, 10 % is over 4 of these."""
    areas = []
    for _ in range(1000):
        y = np.arange(100) < 40
        areas.append(roc_auc(y, random.normal(size=100) + 0.8 * y))
    assert np.mean([one.stderr for one in areas]) == pytest.approx(np.std([one.value for one in areas]), rel=0.1)


def test_absent_classes_and_one_class():
    y, p, _ = classes(k=4)
    there = y != 2
    found = classification_metrics(y[there], p[there].argmax(1), p[there], np.arange(4))
    with pytest.warns(UserWarning, match="y_pred contains classes not in y_true"):
        expected = sk.balanced_accuracy_score(y[there], p[there].argmax(1))
    assert found["balanced_accuracy"].value == pytest.approx(expected)
    each = [sk.roc_auc_score(y[there] == c, p[there][:, c]) for c in (0, 1, 3)]
    assert found["roc_auc"].value == pytest.approx(np.mean(each)) and "1 of 4 classes left out" in found["roc_auc"].note
    assert math.isnan(found["recall[2]"].value) and "no row is of this class" in found["recall[2]"].note
    one = classification_metrics(np.zeros(9, int), np.zeros(9, int), p[:9, :2] / p[:9, :2].sum(1)[:, None], [0, 1])
    for name in ("roc_auc", "matthews", "kappa"):
        assert math.isnan(one[name].value) and "undefined" in one[name].note, name
    assert one["balanced_accuracy"].value == 1.0
    assert cohen_kappa([0, 0, 0], [1, 1, 1]).value == sk.cohen_kappa_score([0, 0, 0], [1, 1, 1]) == 0.0
    assert math.isnan(matthews([0, 0, 1], [0, 0, 0]).value)
    for weight in (0.1, 0.7, 98.6):  # B2-04: margins are compared as they are, no rounded difference with 0
        same = np.full(3, weight)
        assert math.isnan(cohen_kappa([1, 1, 1], [1, 1, 1], sample_weight=same).value)
        assert math.isnan(matthews([1, 1, 1], [1, 1, 1], sample_weight=same).value)


def test_classes_that_the_fit_has_not_seen_count_against_it():
    y, p = np.array(["a", "b", "z", "b"]), np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5], [0.4, 0.6]])
    predicted = np.array(["a", "b", "a", "b"])
    found = classification_metrics(y, predicted, p, ["a", "b"])
    assert found["recall[z]"].value == 0.0 and found["balanced_accuracy"].value == pytest.approx(2 / 3)
    assert found["brier"].value == pytest.approx((0.01 + 0.04 + (1 + 0.25 + 0.25) / 2 + 0.16) / 4)
    assert math.isnan(found["calibration_error"].value)
    assert roc_auc_of_classes(y, p, ["a", "b"]).value == sk.roc_auc_score(y == "b", p[:, 1])


def test_an_area_of_1_has_an_interval_of_some_width():
    area = roc_auc([0, 0, 0, 0, 1, 1, 1], [1, 2, 3, 4, 5, 6, 7])
    assert area.value == 1.0 and area.interval()[0] == pytest.approx(0.4385, abs=1e-4)  # Wilson, 3 of 3
    assert "calibration_error" not in classification_metrics([0, 1], [0, 1], None, [0, 1])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("outputs", [1, 2])
def test_scores_of_numbers_are_scikit_learns(outputs, weighted):
    y = np.round(random.normal(size=(51, outputs)), 1)
    f = np.round(y + random.normal(size=y.shape) + 0.3, 1)
    weight = random.integers(0, 3, size=51).astype(float) if weighted else None
    found = regression_metrics(y, f, std=np.full(y.shape, 1.1), sample_weight=weight)
    mse = sk.mean_squared_error(y, f, sample_weight=weight)
    assert found["rmse"].value == pytest.approx(math.sqrt(mse))
    assert found["explained_variance"].value == pytest.approx(sk.explained_variance_score(y, f, sample_weight=weight))
    inside = (np.abs(y - f) < 1.1 * 1.959963984540054).mean(1)
    assert found["coverage_95"].value == pytest.approx(np.average(inside, weights=weight))
    assert not found["rmse"].higher_is_better and found["explained_variance"].higher_is_better
    if outputs == 1:
        y, f = y[:, 0], f[:, 0]
        assert not found["median_absolute_error"].higher_is_better
        assert found["median_absolute_error"].value == pytest.approx(
            sk.median_absolute_error(y, f, sample_weight=weight)
        )

        def of(name):
            return lambda w: regression_metrics(y, f, sample_weight=w)[name].value

        for name in ("rmse", "explained_variance"):
            assert found[name].stderr == pytest.approx(by_weights(of(name), y, weight), rel=1e-3), name
    else:
        assert "median_absolute_error" not in found


def test_the_error_of_the_median_is_its_spread():
    """1,000 samples of 101 rows; the spread is known to 2.2 %."""
    zeros = np.zeros(101)
    scores = [regression_metrics(zeros, random.normal(size=101))["median_absolute_error"] for _ in range(1000)]
    assert np.mean([one.stderr for one in scores]) == pytest.approx(np.std([one.value for one in scores]), rel=0.12)


@pytest.mark.parametrize("value", [0.1, 0.7, 98.6])
def test_explained_variance_of_a_target_that_does_not_vary_is_undefined(value):
    """B2-04."""
    found = regression_metrics(np.full(3, value), np.linspace(0, 1, 3))["explained_variance"]
    assert math.isnan(found.value) and "does not vary" in found.note


def test_brier_by_hand():
    assert brier([0, 1], [[0.8, 0.2], [0.4, 0.6]], [0, 1]).value == pytest.approx((0.04 + 0.16) / 2)
