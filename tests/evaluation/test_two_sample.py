"""Tests of two samples: exact values by sums, false alarms and power at fixed seeds, what is copied or left out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.neighbors import KNeighborsClassifier

from gnomon.errors import UserValueError
from gnomon.evaluation.two_sample import (
    classifier_test,
    density_coverage,
    maximum_mean_discrepancy,
    median_distance,
    mmd_test,
    sample_scores,
)  # fmt: skip
from gnomon.numeric.noise import Noise


def normal(n, d=2, seed=0, shift=0.0):
    return np.random.default_rng(seed).normal(size=(n, d)) + shift


def test_the_discrepancy_is_the_sum_over_pairs():
    x, y, h = normal(4), normal(3, seed=1), 0.7
    k = lambda a, b: math.exp(-np.square(a - b).sum() / (2 * h * h))  # noqa: E731
    xx = [k(x[i], x[j]) for i in range(4) for j in range(4) if i != j]
    yy = [k(y[i], y[j]) for i in range(3) for j in range(3) if i != j]
    xy = [k(a, b) for a in x for b in y]
    found = maximum_mean_discrepancy(x, y, bandwidth=h)
    assert found == pytest.approx(np.mean(xx) + np.mean(yy) - 2 * np.mean(xy), rel=1e-12)
    biased = maximum_mean_discrepancy(x, y, bandwidth=h, biased=True)
    assert biased == pytest.approx((sum(xx) + 4) / 16 + (sum(yy) + 3) / 9 - 2 * np.mean(xy), rel=1e-12)
    assert maximum_mean_discrepancy(x, x, bandwidth=[h, 2.0], biased=True) == pytest.approx(0, abs=1e-12)
    # one dimension, point masses: closed form of the population
    mass = maximum_mean_discrepancy(np.zeros((5, 1)), np.ones((5, 1)), bandwidth=1.0)
    assert mass == pytest.approx(2 - 2 * math.exp(-0.5))
    assert median_distance([[0.0], [1.0]], [[3.0], [3.0]]) == pytest.approx(2.0)


def by_neighbors(x, y, noise):
    return classifier_test(x, y, noise, judge=KNeighborsClassifier(9))


@pytest.mark.parametrize("test", [lambda x, y, n: mmd_test(x, y, n, permutations=39), by_neighbors])
def test_equal_distributions_pass_and_others_do_not(test):
    """60 tests at level 0.05: more than 9 false alarms come with probability 0.001 at another seed."""
    alarms = 0
    for seed in range(60):
        x, y = normal(40, seed=2 * seed), normal(40, seed=2 * seed + 1)
        alarms += test(x, y, Noise(seed, "test")).p_value <= 0.05
    assert alarms <= binom.isf(0.001, 60, 0.05)
    assert test(normal(60), normal(60, seed=1, shift=1.5), Noise(0, "test")).p_value <= 0.05


def test_the_permutations_are_those_of_the_rows():
    x, y = normal(15), normal(12, seed=1, shift=0.4)
    found = mmd_test(x, y, Noise(0, "test"), permutations=50, bandwidth=1.3)
    assert found.statistic == pytest.approx(maximum_mean_discrepancy(x, y, bandwidth=1.3), rel=1e-10)
    rows, larger = np.concatenate([x, y]), 0
    for k in range(50):
        order = Noise(0, "test").at(k).order(27)
        chosen = np.isin(np.arange(27), order[:15])
        larger += maximum_mean_discrepancy(rows[chosen], rows[~chosen], bandwidth=1.3) >= found.statistic - 1e-12
    assert found.p_value == (1 + larger) / 51


def test_a_classifier_that_tells_all_rows_apart():
    found = classifier_test(normal(40), normal(50, seed=1, shift=20), Noise(0, "test"))
    assert found.statistic == 1 and found.p_value == pytest.approx(0.5**40, rel=1e-9, abs=0)
    alike = classifier_test(np.zeros((8, 1)), np.zeros((8, 1)), Noise(0, "test"), judge=KNeighborsClassifier(3))
    assert alike.statistic == 0.5 and alike.p_value == pytest.approx(binom.sf(3, 8, 0.5))  # 4 of 8 or more


def test_density_and_coverage_of_the_same_and_of_narrow_samples():
    real, same = normal(1500), normal(1500, seed=1)
    found = density_coverage(real, same)
    # for one distribution: 1, and 1 - 2^-k up to 1/n; five standard errors
    assert found["density"].value == pytest.approx(1, abs=5 * found["density"].stderr + 0.02)
    assert found["coverage"].value == pytest.approx(1 - 0.5**5, abs=0.03)
    # by hand: balls of radius 1, 1, 2 about 0, 1, 3
    line = density_coverage([[0.0], [1.0], [3.0]], [[0.5], [4.5], [9.0]], neighbors=1)
    assert line["density"].value == pytest.approx((2 + 1 + 0) / 3) and line["coverage"].value == 1
    half = density_coverage(np.concatenate([real, real + 50]), same)
    assert half["coverage"].value < 0.52  # a mode is left out
    narrow = density_coverage(real, 0.2 * same)
    assert narrow["density"].value > 1.02 and narrow["coverage"].value < 0.3


def test_scores_of_samples_are_the_tests_with_the_errors_of_new_rows():
    """The discrepancy's two errors against the jackknife over the rows of each sample."""
    x, y = normal(60), normal(48, seed=1, shift=0.5)
    found = sample_scores(x, y, Noise(0, "scores"), data_space="plane", permutations=30)
    h = median_distance(x, y) * np.array([0.5, 1.0, 2.0])
    mmd = found["mmd"]
    assert mmd.value == pytest.approx(maximum_mean_discrepancy(x, y, bandwidth=h), rel=1e-10)
    without = (
        [maximum_mean_discrepancy(np.delete(x, i, 0), y, bandwidth=h) for i in range(60)],
        [maximum_mean_discrepancy(x, np.delete(y, i, 0), bandwidth=h) for i in range(48)],
    )
    jackknife = [math.sqrt((len(v) - 1) * np.var(v)) for v in without]
    assert [mmd.stderr, mmd.error] == pytest.approx(jackknife, rel=0.1)
    apart, test = found["told_apart"], classifier_test(x, y, Noise(0, "scores").child("classifier"))
    assert (apart.value, found["told_p_value"].value) == test and apart.n == 48
    assert apart.stderr == pytest.approx(binom.std(48, apart.value) / 48)
    permuted = mmd_test(x, y, Noise(0, "scores").child("mmd"), permutations=30, bandwidth=h)
    assert found["mmd_p_value"].value == permuted.p_value < 0.1
    spread = density_coverage(x, y)
    assert all(found[name].value == spread[name].value for name in spread)
    assert {found[name].data_space for name in ("mmd", "told_apart", "mmd_p_value", "told_p_value")} == {"plane"}
    assert not mmd.higher_is_better and not apart.higher_is_better


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: mmd_test(normal(3), normal(3, d=3), Noise(0, "t")), "Y must have 2 columns, got 3"),
        (lambda: mmd_test(normal(1), normal(3), Noise(0, "t")), "X must have at least 2 rows, got 1"),
        (lambda: mmd_test(normal(3), [[1.0, np.inf]] * 3, Noise(0, "t")), "Y must be finite, got inf"),
        (lambda: mmd_test(normal(3), normal(3), Noise(0, "t"), permutations=0), "permutations must be at least 1"),
        (lambda: maximum_mean_discrepancy(normal(3), normal(3), bandwidth=0.0), "bandwidth must be positive"),
        (lambda: density_coverage(normal(5), normal(5)), r"neighbors must be in \[1, 5\), got 5"),
    ],
)
def test_what_cannot_be_compared(make, told):
    with pytest.raises(UserValueError, match=told):
        make()


def test_rows_beyond_single_precision_are_told_apart():
    x = np.random.default_rng(0).normal(size=(40, 2))
    assert classifier_test(x, x * 1e90, Noise(0, "test")).statistic > 0.9
