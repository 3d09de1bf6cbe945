"""Calibration: scikit-learn's curve, errors by differences, chance levels, temperatures that are known."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.calibration import calibration_curve

from gnomon.errors import UserError
from gnomon.evaluation.calibration import Reliability, TemperatureScaler, confidence, reliability
from oracles.errors import stderr_by_differences


def calibrated(n, k=3, seed=0, spread=1.5):
    """Logits, and labels drawn from their softmax."""
    random = np.random.default_rng(seed)
    logits = random.normal(0, spread, size=(n, k))
    draws = random.random((n, 1))
    return logits, (softmax(logits, axis=1).cumsum(axis=1) < draws).sum(axis=1)


@pytest.mark.spec("PRA-082")
def test_confidence_is_the_largest_probability():
    proba = softmax(calibrated(20)[0], axis=1)
    assert np.array_equal(confidence(proba), [max(row) for row in proba.tolist()])


@pytest.mark.spec("PRA-082")
@pytest.mark.parametrize("bins", [1, 5, 10])
def test_the_curve_is_scikit_learns(bins):
    random = np.random.default_rng(0)
    p = np.append(random.random(500), [0.0, 0.2, 0.4, 0.6, 1.0])
    y = (random.random(505) < p**2).astype(int)
    meter = reliability(y, p, bins=bins)
    observed, stated = calibration_curve(y, p, n_bins=bins)
    full = meter.weight > 0
    assert meter.observed[full] == pytest.approx(observed, abs=1e-12)
    assert meter.stated[full] == pytest.approx(stated, abs=1e-12)
    expected = sum(meter.weight[full] / 505 * abs(observed - stated))
    assert meter.score().value == pytest.approx(expected, abs=1e-12)
    assert np.isnan(Reliability(4).update([0.1], [True]).observed).tolist() == [False, True, True, True]


@pytest.mark.spec("PRA-082")
def test_the_error_of_the_error_by_differences():
    random = np.random.default_rng(1)
    p, weight = random.random(40), random.random(40)
    hit = random.random(40) < p**3

    def ece(w):
        place = np.minimum((p * 4).astype(int), 3)
        gaps = [abs((w * (hit - p))[place == b].sum()) for b in range(4)]
        return sum(gaps) / w.sum()

    score = Reliability(4).update(p, hit, weight).score()
    assert score.value == pytest.approx(ece(weight), abs=1e-12)
    assert score.stderr == pytest.approx(stderr_by_differences(ece, weight), rel=1e-6)


@pytest.mark.spec("PRA-082")
@pytest.mark.parametrize("weighted", [False, True])
def test_labels_drawn_from_the_stated_probabilities(weighted):
    """The error of 40 samples of 5,000 rows has its chance level as mean, within 25 % (over 6 standard errors)."""
    found = []
    for seed in range(40):
        logits, y = calibrated(5000, seed=seed)
        weight = np.random.default_rng(seed).exponential(size=5000) if weighted else None
        found.append(reliability(y, softmax(logits, axis=1), sample_weight=weight))
    errors, chance = (
        np.array(list(values)) for values in ((m.score().value for m in found), (m.chance for m in found))
    )
    assert errors.mean() < 0.02  # it goes to 0 with 1 / sqrt(n)
    assert errors.mean() == pytest.approx(chance.mean(), rel=0.25)
    sure = reliability(y, softmax(2 * logits, axis=1)).score()
    assert sure.value > 0.08 and "10 bins" in sure.note  # twice too sure


@pytest.mark.spec("PRA-082")
def test_chunks_add_up():
    logits, y = calibrated(300)
    proba = softmax(logits, axis=1)
    parts = reliability(y[:120], proba[:120]).merge(reliability(y[120:], proba[120:]))
    whole = reliability(y, proba)
    assert parts.sums == pytest.approx(whole.sums, rel=1e-12) and parts.n == whole.n == 300
    named = np.array(["c", "a", "b"])  # labels by column, in any order
    assert np.array_equal(reliability(named[y], proba, classes=named).sums, whole.sums)
    column = reliability(named[y], proba[:, 1], positive="a")
    assert np.array_equal(column.sums, reliability((y == 1).astype(int), proba[:, 1]).sums)
    with pytest.raises(UserError, match="same bins"):
        Reliability(5).merge(Reliability(6))


@pytest.mark.spec("PRA-082")
def test_a_temperature_of_two_is_found():
    """20,000 rows: 1/T is within 5 of its standard errors of 1/2 (false-alarm rate 6e-7); the arg max stays."""
    logits, y = calibrated(20_000)
    scaler = TemperatureScaler().fit(2 * logits, y)
    p = softmax(logits, axis=1)
    information = ((p * logits**2).sum(1) - (p * logits).sum(1) ** 2).sum() * 4
    assert abs(1 / scaler.temperature_ - 0.5) < 5 / math.sqrt(information)
    scaled = scaler.transform(2 * logits)
    assert np.array_equal(scaled.argmax(1), logits.argmax(1))
    assert scaled.sum(1) == pytest.approx(np.ones(len(y)), abs=1e-12)
    assert reliability(y, scaled).score().value < 0.3 * reliability(y, softmax(2 * logits, axis=1)).score().value


@pytest.mark.spec("PRA-082")
@pytest.mark.parametrize("weighted", [False, True])
def test_the_temperature_has_the_largest_likelihood(weighted):
    logits, y = calibrated(200, seed=3)
    weight = np.random.default_rng(0).random(200) if weighted else None

    def loss(t):
        return -np.average(log_softmax(3 * logits / t, axis=1)[np.arange(200), y], weights=weight)

    best = minimize_scalar(loss, bounds=(0.1, 20), method="bounded", options={"xatol": 1e-10}).x
    assert TemperatureScaler().fit(3 * logits, y, sample_weight=weight).temperature_ == pytest.approx(best, rel=1e-6)
    named = np.array(["a", "b", "c"])
    same = TemperatureScaler().fit(3 * logits, named[y], classes=named, sample_weight=weight)
    assert same.temperature_ == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: TemperatureScaler().fit([[3.0, 0.0], [0.0, 3.0]], [0, 1]),
            r"every prediction is correct, so the likelihood has no .*that were not trained on",
        ),
        (lambda: TemperatureScaler().fit([[3.0, 0.0], [0.0, 3.0]], [1, 0]), "check the labels"),
        (lambda: TemperatureScaler().fit([[3.0, math.nan]], [0]), "finite"),
        (lambda: TemperatureScaler().fit([[3.0, 1.0]], [2]), r"unknown label 2 \(y, row 0\); add it to classes"),
        (lambda: TemperatureScaler().transform([[1.0, 2.0]]), "call fit first"),
        (lambda: reliability([0, 1], [0.5, 1.5]), r"probabilities must be in \[0, 1\], got 1\.5 \(row 1\)"),
        (lambda: reliability([0, 1], [0.5]), "y must be 1 labels, one per row, got 2"),
        (lambda: reliability([0], [[0.5, 0.5]], classes=["a"]), "classes must be 2, one per column, got 1"),
        (
            lambda: reliability([0], [[0.5, 0.6]]),
            r"proba must be probabilities that sum to 1, got \[0\.5, 0\.6\] .*probabilities, not scores",
        ),
        (lambda: Reliability(0), "bins must be at least 1, got 0"),
        (lambda: Reliability(2.5), "whole number"),
        (lambda: Reliability().score(), "no rows"),
    ],
)
def test_what_cannot_be(call, words):
    with pytest.raises(UserError, match=words):
        call()
