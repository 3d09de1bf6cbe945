"""Modes that are left out: a grid of normal densities, SciPy's statistics, labelers of three kinds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chisquare, entropy

import gnomon
from gnomon.errors import UserValueError
from gnomon.evaluation import mode_coverage

GRID = np.stack(np.meshgrid(np.arange(5), np.arange(5)), -1).reshape(-1, 2).astype(float)


def drawn(n, modes, seed=0, spread=0.05):
    random = np.random.default_rng(seed)
    return GRID[random.choice(modes, n)] + spread * random.normal(size=(n, 2))


def nearest_center(x):
    return np.square(x[:, None] - GRID).sum(-1).argmin(1)


@pytest.mark.spec("GEN-145")
def test_five_of_twenty_five_modes_are_missed():
    left_out = [3, 7, 8, 19, 24]
    kept = [j for j in range(25) if j not in left_out]
    found = mode_coverage(drawn(2000, kept), nearest_center, np.full(25, 1 / 25), modes=range(25))
    assert found.covered == 20 and sorted(found.absent) == left_out and found.elsewhere == 0
    assert all(chance == pytest.approx((24 / 25) ** 2000) for chance in found.absent.values())
    wanted = chisquare(found.counts, np.full(25, 2000 / 25))
    assert found.chi_square == pytest.approx((wanted.statistic, wanted.pvalue)) and wanted.pvalue < 1e-50
    assert found.kl == pytest.approx(entropy(found.counts, np.full(25, 1.0)), rel=1e-12)
    assert found.kl >= math.log(25 / 20)
    assert str(found).startswith("20 of 25 modes") and "never made: 3 (by chance" in str(found)


@pytest.mark.spec("GEN-145")
def test_the_true_law_passes():
    """100 samplers that leave nothing out: p-values below 0.01 in at most 6 of them (false alarm 5e-4)."""
    found = [
        mode_coverage(drawn(1500, range(25), i), nearest_center, np.full(25, 1 / 25), range(25)) for i in range(100)
    ]
    assert all(one.covered == 25 for one in found) and sum(one.chi_square[1] < 0.01 for one in found) <= 6


@pytest.mark.spec("GEN-145")
def test_labelers_are_classifiers_clusters_and_rules_and_the_reference_may_be_rows():
    data = gnomon.data.load("iris")
    judge = gnomon.LogisticRegression().fit(data.X, data.y)
    dogs_alone = data.X[data.y != data.y[0]]
    found = mode_coverage(dogs_alone, judge, data.y)
    assert found.covered == 2 and list(found.absent) == [data.y[0]] and found.expected.tolist() == [1 / 3] * 3
    clusters = gnomon.KMeans(n_clusters=3, random_state=0).fit(data.X)
    same = mode_coverage(data.X, clusters, clusters.predict(data.X))
    assert same.covered == 3 and same.kl == pytest.approx(0, abs=1e-12) and same.chi_square[0] == pytest.approx(0)


@pytest.mark.spec("GEN-145")
def test_samples_of_no_mode_are_counted_apart_and_rare_modes_are_missed_by_chance():
    far = np.concatenate([drawn(50, [0, 1]), np.full((7, 2), 40.0)])
    rule = lambda x: np.where(np.abs(x).max(1) > 9, -1, nearest_center(x))  # noqa: E731
    expected = np.array([0.5, 0.45, 0.05])
    found = mode_coverage(far, rule, expected, modes=[0, 1, 2])
    assert found.elsewhere == 7 and found.counts.sum() == 50
    assert found.absent[2] == pytest.approx(0.95**57)
    alone = mode_coverage(drawn(20, [0, 1]), nearest_center, [1.0, 0.0], modes=[0, 1])
    assert alone.covered == 1 and not alone.absent and math.isinf(alone.kl) and alone.chi_square == (math.inf, 0.0)


@pytest.mark.parametrize(
    ("labeler", "reference", "modes", "match"),
    [
        (nearest_center, [0.5, 0.6], [0, 1], "reference must be a probability for each mode"),
        (nearest_center, [1.0], [0, 1], "reference must be a probability for each mode"),
        (lambda x: [0], [1.0], [0], "must give a label for each of 5 samples, got 1"),
        (lambda x: np.full(len(x), -1), [1.0], [0], "must include one of some mode, got none"),
        (nearest_center, [], None, "reference must hold at least 1 label"),
    ],
)
def test_mistakes(labeler, reference, modes, match):
    with pytest.raises(UserValueError, match=match):
        mode_coverage(drawn(5, [0]), labeler, reference, modes)
