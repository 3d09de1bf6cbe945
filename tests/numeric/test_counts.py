"""Poisson counts by the inverse of the distribution function: SciPy's, and their distribution."""

import numpy as np
import pytest
from scipy.stats import chi2, poisson

from gnomon.distributions.harmonium_units import Poissons
from gnomon.numeric.counts import poisson_counts
from gnomon.numeric.noise import Noise

RATES = (1e-30, 1e-3, 0.3, 1.0, 5.0, 11.9, 12.1, 80.0, 100.0, 9e3, 1.1e4, 1e6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rate", RATES)
def test_counts_are_scipys_quantiles(rate, dtype):
    u = np.concatenate([np.random.default_rng(0).random(500), [1e-6, 1e-12, 1 - 1e-6]]).astype(dtype)
    log_rate = np.full(u.shape, np.log(rate), dtype)
    expected = poisson.ppf(u.astype(np.float64), np.exp(log_rate.astype(np.float64)))
    rounding = 1 if dtype == "float32" and rate > 1e5 else 0  # of the rate itself
    np.testing.assert_allclose(poisson_counts(u, log_rate), expected.astype(dtype), rtol=0, atol=rounding)


def test_units_of_every_size_stand_side_by_side():
    """Blocks of units with small rates, with large ones, and with both; rows of no multiple of the block."""
    log_rate = np.random.default_rng(1).uniform(-8, 12, (7, 83))
    log_rate[:2] = np.clip(log_rate[:2], -8, 2)
    u = np.random.default_rng(2).random(log_rate.shape)
    np.testing.assert_array_equal(poisson_counts(u, log_rate), poisson.ppf(u, np.exp(log_rate)))
    np.testing.assert_array_equal(poisson_counts(u[:, ::2], log_rate[:, ::2]), poisson_counts(u, log_rate)[:, ::2])


def test_ends_of_the_uniform_numbers_end_the_count():
    """The largest and the least numbers that a stream has, and rates that are none."""
    u = np.array([1 - 2.0**-53, 2.0**-53])
    for rate in (1e-9, 5.0, 300.0, 5e3, 1e8):
        high, low = poisson_counts(u, np.full(2, np.log(rate)))
        assert low <= rate <= high <= rate + 9 * np.sqrt(rate) + 30
    assert np.isnan(poisson_counts(np.full(3, 0.5), np.array([np.nan, 1e3, np.inf]))).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rate", [0.7, 40.0])
def test_draws_have_the_poisson_distribution(rate, dtype):
    """Pearson's statistic of 40,000 draws in some ten cells; false alarm rate 1e-4 each, with this seed none."""
    draws = Poissons(np.full((400, 100), np.log(rate), dtype)).sample(Noise(0, "counts"), 3).ravel()
    edges = np.unique(poisson.ppf(np.linspace(0, 1, 12)[1:-1], rate))
    share = np.diff(np.concatenate([[0.0], poisson.cdf(edges, rate), [1.0]]))
    found = np.bincount(np.searchsorted(edges, draws), minlength=len(share))
    statistic = ((found - share * draws.size) ** 2 / (share * draws.size)).sum()
    assert draws.dtype == dtype and statistic < chi2.isf(1e-4, len(share) - 1)
