"""Stick breaking: means, densities, draws (false alarm 1e-5 a test)."""

import math

import numpy as np
import pytest
from scipy import stats

from gnomon.distributions.sticks import StickBreaking, fractions_of, weights_of
from gnomon.distributions.vectors import Dirichlet
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise


def z(values, mean):
    return abs(values.mean(0) - mean) / (values.std(0) / math.sqrt(len(values)))


def test_expected_weights_fall_geometrically():
    alpha = 2.5
    mean = StickBreaking(alpha, 20).mean
    assert np.allclose(mean[:-1], (alpha / (1 + alpha)) ** np.arange(19) / (1 + alpha), rtol=1e-12)
    assert math.isclose(mean.sum(), 1, rel_tol=1e-14)
    assert math.isclose(StickBreaking(1.0, 20).expected_rest, 2.0**-20, rel_tol=1e-12)


def test_draws_sum_to_one_and_have_their_means():
    distribution = StickBreaking(1.5, 6)
    draws = distribution.sample(Noise(0, "sticks"), 0, (40_000,))
    assert draws.shape == (40_000, 6) and np.allclose(draws.sum(1), 1, atol=1e-14)
    assert (z(draws, distribution.mean) < 4.5).all()
    v = fractions_of(draws)
    for k in range(5):
        assert stats.kstest(v[:, k], stats.beta(1, 1.5).cdf).pvalue > 1e-5
    assert np.allclose(weights_of(v), draws, atol=1e-14)
    assert np.array_equal(distribution.sample(Noise(0, "sticks"), 0, (9,)), draws[:9])
    assert not (distribution.sample(Noise(0, "sticks"), 1, (9,)) == draws[:9])[:, :-1].any()
    two = StickBreaking(0.5, 4, discount=0.3)
    v = fractions_of(two.sample(Noise(1, "sticks"), 0, (40_000,)))
    for k in range(3):
        assert stats.kstest(v[:, k], stats.beta(0.7, 0.5 + 0.3 * (k + 1)).cdf).pvalue > 1e-5


def test_the_density_is_that_of_the_fractions_and_the_jacobian():
    distribution = StickBreaking(1.7, 4, discount=0.2)
    v = np.array([0.3, 0.6, 0.1])
    weights = weights_of(v)
    step = 1e-6
    jacobian = np.stack([(weights_of(v + step * e) - weights_of(v - step * e))[:3] / (2 * step) for e in np.eye(3)])
    fractions = sum(stats.beta(0.8, 1.7 + 0.2 * (k + 1)).logpdf(v[k]) for k in range(3))
    assert math.isclose(distribution.log_prob(weights), fractions - np.linalg.slogdet(jacobian)[1], rel_tol=1e-8)
    assert (
        distribution.log_prob([0.5, 0.6, 0.1, 0.1]) == -np.inf
        and distribution.log_prob([0.5, 0.5, 0.0, 0.0]) == -np.inf
    )


def test_two_sticks_are_a_dirichlet_distribution():
    p = np.array([[0.2, 0.8], [0.7, 0.3]])
    assert np.allclose(StickBreaking(2.5, 2).log_prob(p), Dirichlet([1.0, 2.5]).log_prob(p))


def test_ends():
    assert StickBreaking(1.0, 1).sample(Noise(0, "s"), 0, (3,)).tolist() == [[1.0]] * 3
    assert StickBreaking(1.0, 1).mean.tolist() == [1.0]
    tiny = StickBreaking(1e-3, 50).sample(Noise(0, "s"), 0, (100,))
    assert np.isfinite(tiny).all() and np.allclose(tiny.sum(1), 1)
    assert np.isfinite(fractions_of([1.0, 0.0, 0.0])).all()
    for bad, match in (((0.0, 3), "concentration"), ((1.0, 0), "sticks"), ((np.nan, 3), "concentration")):
        with pytest.raises(UserValueError, match=match):
            StickBreaking(*bad)
    with pytest.raises(UserValueError, match="discount"):
        StickBreaking(1.0, 3, discount=1.0)
    with pytest.raises(
        UserValueError, match=r"weights must have 3 entries on the last axis, got an array of shape \(2,\)"
    ):
        StickBreaking(1.0, 3).log_prob([0.5, 0.5])
