"""Copies of training rows: distances against scikit-learn, the law of honest samples, features against shifts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, ks_2samp
from sklearn.neighbors import NearestNeighbors

from gnomon.errors import UserValueError
from gnomon.evaluation import memorization, nearest_training, two_sample


def normal(n, d=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.spec("GEN-144")
@pytest.mark.parametrize("shape", [(3,), (2, 3), (4, 4)])
def test_the_nearest_rows_are_those_of_scikit_learn(shape, monkeypatch):
    monkeypatch.setattr(two_sample, "BLOCK", 700)  # several blocks
    d = int(np.prod(shape))
    made, train = normal(50, d, 1), normal(200, d, 2)
    index, distance = nearest_training(made.reshape(-1, *shape), train.reshape(-1, *shape))
    wanted = NearestNeighbors(n_neighbors=1).fit(train).kneighbors(made)
    assert np.array_equal(index, wanted[1][:, 0]) and distance == pytest.approx(wanted[0][:, 0], rel=1e-12)
    far, near = nearest_training(train[:4] + 1e8, train + 1e8)
    assert far.tolist() == [0, 1, 2, 3] and not near.any()


@pytest.mark.spec("GEN-144")
def test_copies_are_at_distance_0_and_flagged():
    train, fresh = normal(300), normal(300, seed=1)
    random = np.random.default_rng(2)
    places = random.integers(0, 300, 200)
    found = memorization(train[places], train, fresh)
    assert not found.made.any() and np.array_equal(found.index, places) and len(found.copies) == 200
    assert found.score.value == 1 and found.flagged() and found.p_value < 1e-20
    close = memorization(train[places] + 1e-3 * random.normal(size=(200, 2)), train, fresh)
    assert close.score.value > 0.95 and not len(close.copies) and close.flagged()
    some = memorization(np.concatenate([train[:40], normal(60, seed=9)]), train, fresh)
    assert some.copies.tolist() == list(range(40)) and some.flagged()
    assert found.p_value == ks_2samp(found.made, found.held_out, alternative="greater").pvalue


@pytest.mark.spec("GEN-144")
def test_fresh_rows_are_as_far_away_as_held_out_ones():
    """400 honest samples at level 0.05: as many flags as that, within a false alarm of 1e-4 from above."""
    train = normal(60, 3)
    flags = sum(
        memorization(normal(40, 3, 10 + 2 * i), train, normal(40, 3, 11 + 2 * i)).flagged(0.05) for i in range(400)
    )
    assert flags <= binom.ppf(1 - 1e-4, 400, 0.05)
    honest = memorization(normal(300, seed=3), normal(300), normal(300, seed=1)).score
    assert abs(honest.value - 0.5) < 5 * honest.stderr and not honest.higher_is_better


@pytest.mark.spec("GEN-144")
def test_features_see_through_a_shift_by_a_pixel():
    """Images of one bright column that are the training images moved by one: far in pixels, alike in moments."""
    random = np.random.default_rng(0)

    def images(n, at, heights):
        found = np.zeros((n, 8, 8))
        found[np.arange(n), :, at] = heights
        return found

    heights = random.random((60, 8))
    train, moved = images(60, 2, heights), images(60, 3, heights)
    fresh = images(60, 2, random.random((60, 8)))
    assert not memorization(moved, train, fresh).flagged()
    sums = lambda x: x.sum(axis=2)  # noqa: E731
    found = memorization(moved, train, fresh, features=sums)
    assert found.flagged() and found.index.tolist() == list(range(60)) and len(found.copies) == 60
    assert found.held_out == pytest.approx(nearest_training(fresh, train, features=sums)[1], rel=1e-12)


@pytest.mark.spec("GEN-144")
def test_rows_as_far_away_as_the_median_count_half():
    found = memorization([[2.0], [1.0], [0.5], [3.0]], [[0.0]], [[1.0], [2.0], [4.0]])
    assert found.score.value == (0.5 + 1 + 1 + 0) / 4


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(UserValueError, match="must have 2 columns, got 3"):
        memorization(normal(4), normal(4, 3), normal(4))
    with pytest.raises(UserValueError, match="must be finite"):
        nearest_training([[np.nan, 0.0]], normal(4))
    with pytest.raises(UserValueError, match="at least 1 rows, got 0"):
        nearest_training(np.empty((0, 2)), normal(4))
