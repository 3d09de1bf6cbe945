"""Bayes' rule on grids against closed forms."""

import math

import numpy as np
import pytest
from scipy import stats

from gnomon.distributions.conjugate import BernoulliBeta
from gnomon.errors import UserValueError
from gnomon.inference.exact.grid import grid_posterior
from gnomon.numeric.noise import Noise


@pytest.mark.spec("BAY-25")
def test_a_positive_test_of_a_rare_illness():
    found = grid_posterior([0, 1], np.log([0.99, 0.01]), np.log([0.05, 0.99]))
    assert math.isclose(found.mass[1], 1 / 6) and math.isclose(found.mean, 1 / 6)
    assert math.isclose(found.log_evidence, math.log(0.99 * 0.05 + 0.01 * 0.99))


@pytest.mark.spec("BAY-25")
def test_a_grid_agrees_with_the_beta_posterior():
    m = 20_000
    theta = (np.arange(m) + 0.5) / m
    prior = BernoulliBeta(2, 2)
    found = grid_posterior(
        theta, stats.beta(2, 2).logpdf(theta), 7 * np.log(theta) + 3 * np.log1p(-theta), weights=np.full(m, 1 / m)
    )
    exact = stats.beta(9, 5)
    assert abs(found.log_evidence - prior.log_evidence([1] * 7 + [0] * 3)) < 1e-6
    assert abs(found.mean - 9 / 14) < 1e-6
    assert np.allclose(found.mass * m, exact.pdf(theta), atol=1e-6)
    assert np.allclose(found.credible_interval(0.9), exact.ppf([0.05, 0.95]), atol=1e-4)
    assert abs(found.expect(lambda t: (t - 9 / 14) ** 2) - exact.var()) < 1e-6
    assert math.isclose(math.exp(found.log_predictive(np.log)), 9 / 14, rel_tol=1e-6)
    both = found.log_predictive(lambda t: np.stack([np.log(t), np.log1p(-t)], 1))
    assert np.allclose(np.exp(both), [9 / 14, 5 / 14])
    draws = found.sample(20_000, Noise(0, "draws"))
    assert (
        stats.kstest(draws, exact.cdf).pvalue > 1e-5
    )  # false-alarm rate; a cell is 100 times finer than the test sees


@pytest.mark.spec("BAY-25")
def test_log_domain_and_refusals():
    deep = grid_posterior([0, 1], np.log([0.5, 0.5]), [-1e5, -1e5 + math.log(3)])
    assert np.allclose(deep.mass, [0.25, 0.75]) and deep.log_evidence < -9e4
    certain = grid_posterior([0, 1], np.log([0.5, 0.5]), [-np.inf, -1.0])
    assert certain.mass.tolist() == [0, 1]
    with pytest.raises(UserValueError, match="no finite mass"):
        grid_posterior([0, 1], np.log([0.5, 0.5]), [-np.inf, -np.inf])
    with pytest.raises(
        UserValueError,
        match=r"points, log_prior and log_likelihood must have one length, got 2, \(1,\) and \(2,\) \(points\)",
    ):
        grid_posterior([0, 1], [0.0], [0.0, 0.0])
    x = np.linspace(-1, 1, 100)
    with pytest.warns(UserWarning, match="end 1 of the grid: widen it"):
        grid_posterior(x, stats.norm(0, 9).logpdf(x), stats.norm(3, 1).logpdf(x), weights=x[1] - x[0])
    with pytest.raises(UserValueError, match="marginalize"):
        grid_posterior(np.zeros((2, 2)), [-1.0, -1.0], [0.0, 0.0]).credible_interval()
