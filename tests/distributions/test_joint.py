"""Normal-gamma and normal-Wishart distributions: conditionals, marginals, entropy, draws (false alarm 1e-5 a test)."""

import math

import numpy as np
import pytest
from scipy import stats

from gnomon.distributions.conjugate import MultivariateNormalMeanPrecision, NormalMeanPrecision
from gnomon.distributions.normal_wishart import NormalGamma, NormalWishart
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise, recording

SCALE = np.array([[0.5, 0.1], [0.1, 0.3]])
LOC = np.array([1.0, -2.0])


def z(values, mean):
    return abs(values.mean(0) - mean) / (values.std(0) / math.sqrt(len(values)))


@pytest.mark.spec("BAY-33")
def test_a_normal_gamma_law_is_a_product_of_scipys():
    distribution = NormalGamma(0.5, 2.0, 3.0, 1.5)
    mean, precision = np.array([0.3, 0.5, -1.0]), np.array([0.5, 2.0, 4.0])
    exact = stats.gamma(3, scale=1 / 1.5).logpdf(precision) + stats.norm(0.5, (2 * precision) ** -0.5).logpdf(mean)
    assert np.allclose(distribution.log_prob(mean, precision), exact, rtol=1e-12)
    assert (distribution.log_prob(0.0, [-1.0, 0.0]) == -np.inf).all()
    nodes, weights = np.polynomial.legendre.leggauss(400)
    t, w = 20 * (1 + nodes) + 1e-12, 20 * weights
    density = np.exp(distribution.log_prob(0.9, t))  # the precision integrated out gives the mean's distribution
    assert math.isclose((density * w).sum(), math.exp(distribution.mean_distribution().log_prob(0.9)), rel_tol=1e-9)
    with recording():
        m, p = distribution.sample(Noise(0, "a"), 0, (50_000,))
    assert stats.kstest(p, stats.gamma(3, scale=1 / 1.5).cdf).pvalue > 1e-5
    assert stats.kstest(m, distribution.mean_distribution().cdf).pvalue > 1e-5
    assert stats.kstest((m - 0.5) * np.sqrt(2 * p), stats.norm.cdf).pvalue > 1e-5
    assert abs(stats.spearmanr(np.abs((m - 0.5) * np.sqrt(2 * p)), p).statistic) < 4.5 / math.sqrt(50_000)
    assert z(-distribution.log_prob(m, p), distribution.entropy()) < 4.5
    assert distribution.sample(Noise(0, "a"))[0].shape == ()


@pytest.mark.spec("BAY-33")
def test_a_normal_wishart_law_is_a_product_of_scipys():
    distribution = NormalWishart(LOC, 1.7, 5.5, SCALE)
    matrices = stats.wishart(5.5, SCALE).rvs(4, random_state=0)
    x = np.random.default_rng(1).normal(size=(4, 2))
    exact = [
        stats.wishart(5.5, SCALE).logpdf(one) + stats.multivariate_normal(LOC, np.linalg.inv(1.7 * one)).logpdf(row)
        for one, row in zip(matrices, x, strict=True)
    ]
    assert np.allclose(distribution.log_prob(x, matrices), exact, rtol=1e-10)
    assert distribution.log_prob(LOC, -np.eye(2)) == -np.inf
    with recording():
        m, p = distribution.sample(Noise(0, "a"), 0, (50_000,))
    assert (z(p.reshape(-1, 4), (5.5 * SCALE).ravel()) < 4.5).all()
    v = np.array([0.4, -1.0])
    assert stats.kstest(np.einsum("i,nij,j->n", v, p, v) / (v @ SCALE @ v), stats.chi2(5.5).cdf).pvalue > 1e-5
    squares = np.einsum("ni,nij,nj->n", m - LOC, 1.7 * p, m - LOC)  # chi-square whatever the precision
    assert stats.kstest(squares, stats.chi2(2).cdf).pvalue > 1e-5
    marginal = distribution.mean_distribution()
    for j in range(2):
        scale = math.sqrt(marginal.scale[j, j])
        assert stats.kstest(m[:, j], stats.t(marginal.df, LOC[j], scale).cdf).pvalue > 1e-5
    assert z(-distribution.log_prob(m, p), distribution.entropy()) < 4.5


def test_in_one_dimension_both_are_one():
    vector, number = NormalWishart([0.5], 2.0, 6.0, [[1 / 3]]), NormalGamma(0.5, 2.0, 3.0, 1.5)
    for mean, precision in ((0.1, 0.4), (2.0, 3.0)):
        assert math.isclose(vector.log_prob([mean], [[precision]]), number.log_prob(mean, precision))
    assert math.isclose(vector.entropy(), number.entropy())
    assert math.isclose(vector.mean_distribution().log_prob([[0.7]])[0], number.mean_distribution().log_prob(0.7))


def test_the_pairs_answer_these_laws():
    pair = NormalMeanPrecision(0.0, 1.0, 2.0, 1.0).update([1.0, 2.0, 3.0])
    assert pair.distribution() == NormalGamma(1.5, 4.0, 3.5, 3.5)
    vectors = MultivariateNormalMeanPrecision(np.zeros(2), 1.0, 4.0, np.eye(2)).update([[1.0, 0.0], [0.0, 2.0]])
    distribution = vectors.distribution()
    assert (
        distribution.strength == 3
        and distribution.df == 6
        and np.allclose(distribution.scale, np.linalg.inv(vectors.inverse_scale))
    )


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: NormalGamma(np.nan, 1, 1, 1), "loc"),
        (lambda: NormalGamma(-np.inf, 1, 1, 1), "loc"),
        (lambda: NormalGamma(0, -1.0, 1, 1), "strength"),
        (lambda: NormalGamma(0, 1, 1, 0.0), "rate"),
        (lambda: NormalWishart([0.0, np.inf], 1, 3, np.eye(2)), "loc"),
        (lambda: NormalWishart([0.0, 0.0], 0.0, 3, np.eye(2)), "strength"),
        (lambda: NormalWishart([0.0, 0.0], 1.0, 1.0, np.eye(2)), "more than 1"),
        (lambda: NormalWishart([0.0, 0.0], 1.0, 3.0, -np.eye(2)), "eigenvalue"),
    ],
)
def test_parameters_that_are_none(make, match):
    with pytest.raises(UserValueError, match=match):
        make()
