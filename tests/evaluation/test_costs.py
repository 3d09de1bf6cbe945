"""Costs of decisions and the error that cannot be avoided: closed forms, enumeration, simulation."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from gnomon.errors import UserError
from gnomon.evaluation.costs import (
    bayes_error,
    bayes_error_gaussians,
    decide,
    optimal_threshold,
    plugin_bayes_error,
    total_cost,
)  # fmt: skip
from gnomon.evaluation.decisions import accuracy
from oracles.errors import stderr_by_differences

SPAM = [[0, 10], [1, 0]]


# --- PRA-048 --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("PRA-048")
def test_no_rule_of_all_beats_the_floor_and_one_reaches_it():
    joint = np.random.default_rng(0).dirichlet(np.ones(12)).reshape(4, 3)
    rules = itertools.product(range(3), repeat=4)
    errors = [1 - sum(joint[x, y] for x, y in enumerate(rule)) for rule in rules]
    assert bayes_error(joint) == pytest.approx(min(errors), abs=1e-14)
    assert bayes_error(joint.reshape(2, 2, 3)) == bayes_error(joint)
    assert bayes_error([[0.5, 0], [0, 0.5]]) == 0


@pytest.mark.spec("PRA-048")
def test_two_gaussians_at_distance_two():
    assert bayes_error_gaussians(0.0, 2.0) == pytest.approx(0.158655, abs=5e-7)
    assert bayes_error_gaussians([1, 1], [1, 1], prior1=0.3) == 0.3


@pytest.mark.spec("PRA-048")
@pytest.mark.parametrize("prior", [0.5, 0.1, 0.9])
def test_gaussians_by_quadrature(prior):
    low, high, s = -0.4, 1.1, 0.7
    joint = lambda x: min((1 - prior) * norm.pdf(x, low, s), prior * norm.pdf(x, high, s))  # noqa: E731
    expected = quad(joint, -12, 12, points=[low, (low + high) / 2, high], limit=200)[0]
    assert bayes_error_gaussians(low, high, s * s, prior1=prior) == pytest.approx(expected, abs=1e-8)
    # a linear map of the data changes nothing
    a = np.array([[2.0, 1.0], [0.5, -1.0]])
    ends, covariance = [a @ [low, 3.0], a @ [high, 3.0]], a @ np.diag([s * s, 0.2]) @ a.T
    assert bayes_error_gaussians(*ends, covariance, prior1=prior) == pytest.approx(expected, abs=1e-8)


@pytest.mark.spec("PRA-048")
def test_the_plugin_estimate_is_called_one():
    """Right probabilities of 20,000 rows: within 4.5 standard errors (false-alarm rate 7e-6)."""
    random = np.random.default_rng(0)
    joint = random.dirichlet(np.ones(6)).reshape(2, 3)
    cells = random.choice(6, p=joint.ravel(), size=20_000)
    proba = (joint / joint.sum(1, keepdims=True))[cells // 3]
    score = plugin_bayes_error(proba, cells % 3)
    assert abs(score.value - bayes_error(joint)) < 4.5 * score.stderr
    assert score.kind == "estimate" and not score.higher_is_better
    floor = 1 - proba.max(1)
    assert score.stderr == pytest.approx(floor.std(ddof=1) / math.sqrt(20_000), rel=1e-9)
    weight = random.random(20_000)
    weighted = plugin_bayes_error(proba, sample_weight=weight)
    assert weighted.value == pytest.approx(np.average(floor, weights=weight), rel=1e-12)
    real = 1 - accuracy(cells % 3, proba.argmax(1)).value
    assert f"{real:.6g}" in score.note


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: bayes_error([[0.5, 0.6]]), r"joint must be probabilities that sum to 1, got the sum 1\.1"),
        (lambda: bayes_error([[1.5, -0.5]]), "joint must be probabilities that sum to 1, got the sum 1"),
        (lambda: bayes_error_gaussians(0, 1, prior1=1), "prior1"),
        (lambda: bayes_error_gaussians([0, 0], [1, 1], [[1, 2], [2, 1]]), "positive definite"),
        (lambda: bayes_error_gaussians([0, 0], [1, 1], [[1, 2]]), "symmetric"),
        (lambda: plugin_bayes_error([[0.5, 0.6]]), "row 0"),
    ],
)
def test_what_is_no_distribution(call, words):
    with pytest.raises(UserError, match=words):
        call()


# --- PRA-049 --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("PRA-049")
def test_total_cost_by_hand_and_its_orientation():
    y, predicted = ["ham", "ham", "spam", "spam", "spam"], ["spam", "ham", "ham", "ham", "spam"]
    assert total_cost(y, predicted, SPAM).value == 10 + 2 * 1
    assert total_cost(y, predicted, np.transpose(SPAM)).value == 1 + 2 * 10
    assert total_cost(y, predicted, np.transpose(SPAM), classes=["spam", "ham"]).value == 2 * 1 + 10 * 1
    assert not total_cost(y, predicted, SPAM).higher_is_better


@pytest.mark.spec("PRA-049")
def test_unit_costs_count_errors_with_the_error_of_a_sum():
    random = np.random.default_rng(0)
    y, predicted, weight = random.integers(0, 3, 50), random.integers(0, 3, 50), random.random(50)
    unit = 1 - np.eye(3)
    score = total_cost(y, predicted, unit)
    assert score.value == (y != predicted).sum()
    assert score.stderr == pytest.approx(math.sqrt(50) * (y != predicted).std(ddof=1), rel=1e-12)
    costs = random.random((3, 3))
    expected = sum(w * costs[i, j] for i, j, w in zip(y, predicted, weight, strict=True))
    score = total_cost(y, predicted, costs, sample_weight=weight)
    assert score.value == pytest.approx(expected, rel=1e-12)
    mean = lambda w: w @ costs[y, predicted] / w.sum()  # noqa: E731
    assert score.stderr == pytest.approx(weight.sum() * stderr_by_differences(mean, weight), rel=1e-6)


@pytest.mark.spec("PRA-049")
def test_the_threshold_of_ten_to_one():
    assert optimal_threshold(SPAM) == pytest.approx(10 / 11, abs=1e-15)
    assert optimal_threshold([[0, 1], [1, 0]]) == 0.5
    assert optimal_threshold([[1, 4], [7, 2]]) == pytest.approx(3 / 8)  # right answers cost something too
    p = np.linspace(0, 1, 1001)
    assert np.array_equal(decide(np.stack([1 - p, p], axis=1), [[1, 4], [7, 2]]) == 1, p > 3 / 8)


@pytest.mark.spec("PRA-049")
def test_decisions_are_those_of_least_expected_cost():
    random = np.random.default_rng(1)
    proba, cost = random.dirichlet(np.ones(3), size=40), random.random((3, 4))
    expected = [min(range(4), key=lambda j: sum(p[i] * cost[i, j] for i in range(3))) for p in proba]
    assert decide(proba, cost).tolist() == expected
    p = np.linspace(0, 1, 1001)
    chosen = decide(np.stack([1 - p, p], axis=1), SPAM)
    assert np.array_equal(chosen == 1, p > optimal_threshold(SPAM))
    assert decide([[0.5, 0.5]], [[0, 1], [1, 0]]).tolist() == [0]  # the first of equal ones


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: optimal_threshold([[0, 1, 2], [1, 0, 2]]), "2, 2"),
        (
            lambda: optimal_threshold([[0, 0], [1, 0]]),
            r"an error must cost more than the correct decision \(cost\); decide without a threshold",
        ),
        (lambda: decide([[0.5, 0.5]], [[0, 1]]), "one per class"),
        (lambda: decide([[0.5, math.nan]], SPAM), "row 0"),
        (
            lambda: decide([[2.0, -1.0]], SPAM),
            r"proba must be probabilities that sum to 1, got \[2\.0, -1\.0\] .*probabilities, not scores",
        ),
        (lambda: decide([[0.5, 0.5]], [[0, math.inf], [1, 0]]), "finite"),
        (lambda: total_cost([0, 1], [1, 1], [[0, 1, 2], [1, 0, 2]]), "shape"),
        (lambda: total_cost([0, 2], [1, 1], SPAM, classes=[0, 1]), r"unknown label 2 \(y, row 1\); add it to classes"),
    ],
)
def test_costs_that_do_not_fit(call, words):
    with pytest.raises(UserError, match=words):
        call()
