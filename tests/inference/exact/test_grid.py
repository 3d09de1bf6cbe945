"""Bayes' rule on grids against closed forms."""

import math

import numpy as np
import pytest
from scipy import stats

from gnomon.distributions.conjugate import BernoulliBeta, NormalMeanPrecision
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
    with pytest.raises(UserValueError, match="marginalize"):
        grid_posterior(np.zeros((2, 2)), [-1.0, -1.0], [0.0, 0.0]).credible_interval()


@pytest.mark.spec("BAY-25")
@pytest.mark.parametrize("m", [100, 100_000])
@pytest.mark.parametrize("side", [-1, 1])
def test_a_grid_that_misses_the_mass_is_told_however_fine_it_is(m, side):
    x = np.linspace(-1, 1, m)
    with pytest.warns(UserWarning, match=f"not small at the end {side} of the grid: widen it"):
        grid_posterior(x, stats.norm(0, 9).logpdf(x), stats.norm(3 * side, 0.4).logpdf(x), weights=x[1] - x[0])
    wide = np.linspace(-6, 10, m)  # 7 deviations are enough: no warning
    grid_posterior(wide, stats.norm(0, 9).logpdf(wide), stats.norm(3, 1).logpdf(wide), weights=wide[1] - wide[0])
    with pytest.warns(UserWarning, match="end 6 of"):  # 3 deviations are not
        grid_posterior(wide := np.linspace(-6, 6, m), 0 * wide, stats.norm(3, 1).logpdf(wide), weights=12 / m)


@pytest.mark.spec("BAY-25")
def test_uneven_points_in_any_order_and_two_parameters():
    """Gauss-Legendre nodes, shuffled, against N(1.5, 0.25); mean and precision against the normal-gamma law."""
    rng = np.random.default_rng(0)
    node, weight = np.polynomial.legendre.leggauss(400)
    order = rng.permutation(400)
    x, w = 1.5 + 5 * node[order], 5 * weight[order]
    rows = np.array([1.0, 2.0, 3.0])
    likelihood = stats.norm.logpdf(rows[:, None], x).sum(0)
    found = grid_posterior(x, stats.norm.logpdf(x), likelihood, weights=w)
    assert math.isclose(found.log_evidence, stats.multivariate_normal([0] * 3, np.eye(3) + 1).logpdf(rows))
    assert math.isclose(found.mean, 1.5) and math.isclose(found.expect(lambda t: (t - 1.5) ** 2), 0.25)
    assert np.allclose(found.credible_interval(0.8), stats.norm(1.5, 0.5).ppf([0.1, 0.9]), atol=0.05)
    assert np.allclose(
        found.log_predictive(lambda t: stats.norm.logpdf(0.3, t)), stats.norm(1.5, 1.25**0.5).logpdf(0.3)
    )
    nodes, weights = np.polynomial.legendre.leggauss(120)
    points = np.stack(np.meshgrid(1.5 + 9 * nodes, 5 * (1 + nodes), indexing="ij"), -1).reshape(-1, 2)
    prior = NormalMeanPrecision(0.0, 1.0, 2.0, 1.0)
    plane = grid_posterior(
        points,
        prior.distribution().log_prob(points[:, 0], points[:, 1]),
        stats.norm.logpdf(rows[:, None], points[:, 0], points[:, 1] ** -0.5).sum(0),
        weights=45 * np.outer(weights, weights).ravel(),
    )
    assert math.isclose(plane.log_evidence, -6.633660, abs_tol=1e-5)  # the figure of BAY-33
    assert np.allclose(plane.mean, [1.5, 1.0], atol=1e-4)  # a / b = 3.5 / 3.5
    assert plane.sample(7, Noise(0, "plane")).shape == (7, 2)
    cut = points[:, 1] < 1.0  # half of the precisions
    with pytest.warns(UserWarning, match=r"at the end 0\.9\d* of the grid in parameter 1: widen it"):
        grid_posterior(points[cut], plane.log_mass[cut], 0 * points[cut, 0], weights=1.0)
