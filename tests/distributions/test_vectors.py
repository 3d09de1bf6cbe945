"""Dirichlet, multivariate t and Wishart against SciPy; a random test fails a right sampler with probability 1e-5."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from gnomon.distributions.family import kl_divergence
from gnomon.distributions.vectors import Dirichlet, MultivariateNormal, MultivariateStudentT, Wishart
from gnomon.errors import UserError, UserValueError
from gnomon.numeric.noise import Noise

SCALE = np.array([[2.0, 0.6, 0.1], [0.6, 1.0, -0.3], [0.1, -0.3, 0.8]])


def z(values, mean):
    return abs(values.mean(0) - mean) / (values.std(0) / math.sqrt(len(values)))


def test_dirichlet():
    a = np.array([0.5, 2.0, 3.5])
    distribution, peer = Dirichlet(a), stats.dirichlet(a)
    p = peer.rvs(5, random_state=0)
    assert np.allclose(distribution.log_prob(p), peer.logpdf(p.T))
    assert np.allclose(distribution.mean, peer.mean()) and np.allclose(distribution.variance, peer.var())
    assert math.isclose(distribution.entropy(), peer.entropy())
    assert (distribution.log_prob([[0.5, 0.6, 0.1], [0.5, 0.5, 0.0]]) == -np.inf).all()
    draws = distribution.sample(Noise(0, "a"), 0, (20_000,))
    assert np.allclose(draws.sum(1), 1)
    for j in range(3):
        assert stats.kstest(draws[:, j], stats.beta(a[j], a.sum() - a[j]).cdf).pvalue > 1e-5
    tiny = Dirichlet(np.full(4, 1e-4)).sample(Noise(0, "a"), 0, (1000,))
    assert np.isfinite(tiny).all() and np.allclose(tiny.sum(1), 1)
    assert np.allclose(tiny.max(1), 1, atol=1e-3) or (tiny.max(1) > 0.99).mean() > 0.9
    batch = Dirichlet(np.ones((2, 3)))
    assert batch.batch_shape == (2,) and batch.sample(Noise(0, "b")).shape == (2, 3)
    given = torch.tensor(a, requires_grad=True)
    Dirichlet(given).log_prob(torch.tensor(p)).sum().backward()
    for j in range(3):
        step = 1e-6 * np.eye(3)[j]
        slope = (Dirichlet(a + step).log_prob(p) - Dirichlet(a - step).log_prob(p)).sum() / 2e-6
        assert math.isclose(given.grad[j].item(), slope, rel_tol=1e-6)
    with pytest.raises(UserValueError, match="one number"):
        Dirichlet(1.0)


def test_multivariate_student():
    distribution, peer = MultivariateStudentT(4.5, [1, 2, 3], SCALE), stats.multivariate_t([1, 2, 3], SCALE, 4.5)
    x = np.random.default_rng(0).normal(size=(6, 3))
    assert np.allclose(distribution.log_prob(x), peer.logpdf(x))
    assert np.allclose(distribution.covariance, SCALE * 4.5 / 2.5)
    draws = distribution.sample(Noise(0, "a"), 0, (20_000,))
    squares = ((draws - distribution.loc) * np.linalg.solve(SCALE, (draws - distribution.loc).T).T).sum(1) / 3
    assert stats.kstest(squares, stats.f(3, 4.5).cdf).pvalue > 1e-5
    for j in range(3):
        assert stats.kstest(draws[:, j], stats.t(4.5, [1, 2, 3][j], math.sqrt(SCALE[j, j])).cdf).pvalue > 1e-5
    assert np.isnan(MultivariateStudentT(0.9, [0.0], [[1.0]]).mean).all()
    for bad, match in (
        ([[1.0, 2.0], [2.0, 1.0]], "eigenvalue"),
        ([[1.0, 0.5], [0.1, 1.0]], "symmetric"),
        ([[1.0]], "size 2"),
    ):
        with pytest.raises(UserValueError, match=match):
            MultivariateStudentT(3.0, [0, 0], bad)


@pytest.mark.spec("BAY-34")
def test_wishart():
    distribution, peer = Wishart(6.5, SCALE), stats.wishart(6.5, SCALE)
    x = peer.rvs(4, random_state=0)
    assert np.allclose(distribution.log_prob(x), [peer.logpdf(one) for one in x])
    assert math.isclose(distribution.entropy(), peer.entropy())
    assert distribution.log_prob(-np.eye(3)) == -np.inf
    draws = distribution.sample(Noise(0, "a"), 0, (20_000,))
    assert (z(draws.reshape(-1, 9), peer.mean().ravel()) < 5).all()
    exact = peer.var()
    spread = (draws - peer.mean()) ** 2
    assert (z(spread.reshape(-1, 9), exact.ravel()) < 5).all()
    # x' L x / (x' V x) is chi-square with n degrees of freedom
    v = np.array([0.3, -1.0, 2.0])
    assert stats.kstest(np.einsum("i,nij,j->n", v, draws, v) / (v @ SCALE @ v), stats.chi2(6.5).cdf).pvalue > 1e-5
    log_det = np.linalg.slogdet(draws)[1]
    assert z(log_det, distribution.mean_log_determinant) < 5
    with pytest.raises(UserValueError, match="more than 2"):
        Wishart(2.0, SCALE)


@pytest.mark.spec("BAY-41")
def test_multivariate_normal():
    distribution, peer = MultivariateNormal([1, 2, 3], SCALE), stats.multivariate_normal([1, 2, 3], SCALE)
    x = np.random.default_rng(0).normal(size=(2, 6, 3))
    assert np.allclose(distribution.log_prob(x), peer.logpdf(x), rtol=1e-12)
    assert math.isclose(distribution.entropy(), peer.entropy())
    draws = distribution.sample(Noise(0, "a"), 0, (20_000,))
    white = np.linalg.solve(np.linalg.cholesky(SCALE), (draws - distribution.mean).T)
    assert stats.kstest(white.ravel(), stats.norm.cdf).pvalue > 1e-5
    assert stats.kstest((white**2).sum(0), stats.chi2(3).cdf).pvalue > 1e-5
    other = MultivariateNormal([0.0, 1.0, 1.0], np.diag([1.0, 2.0, 3.0]))
    inverse = np.linalg.inv(other.covariance)
    offset = other.loc - distribution.loc
    closed = 0.5 * (
        np.trace(inverse @ SCALE) + offset @ inverse @ offset - 3 + math.log(6) - np.linalg.slogdet(SCALE)[1]
    )
    assert (
        math.isclose(kl_divergence(distribution, other), closed)
        and abs(kl_divergence(distribution, distribution)) < 1e-12
    )
    with pytest.raises(UserError, match="no closed form"):
        kl_divergence(distribution, Wishart(6.5, SCALE))
    with pytest.raises(UserValueError, match="3 on the last axis"):
        distribution.log_prob([1.0, 2.0])
    with pytest.raises(UserValueError, match="one size"):
        kl_divergence(distribution, MultivariateNormal([0.0], [[1.0]]))
