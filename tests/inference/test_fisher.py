"""Scores, Fisher information, the Cramer-Rao bound and the natural gradient against closed forms.

Random tests have fixed seeds; at another seed a right estimate lies beyond 5 standard errors with probability 6e-7.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import special

from gnomon.distributions.bernoulli import Bernoulli
from gnomon.distributions.bounded import Beta, Uniform
from gnomon.distributions.counts import Binomial, Poisson
from gnomon.distributions.positive import Exponential, Gamma
from gnomon.distributions.real import Laplace, Normal
from gnomon.distributions.table import Categorical
from gnomon.errors import UserError, UserValueError
from gnomon.inference.fisher import crlb, fisher, fisher_product, natural_gradient, score
from gnomon.inference.point import maximum_a_posteriori, maximum_likelihood
from gnomon.numeric.noise import Noise

NOISE = Noise(0, "fisher")


def by_p(t):
    return Bernoulli((t.log() - (-t).log1p()).T)


def by_logit(t):
    return Bernoulli(t.T)


def by_log(t):
    return Normal(t[0], t[1].exp())


def by_scale(t):
    return Normal(t[0], t[1])


@pytest.mark.spec("BAY-68")
def test_information_is_that_of_the_closed_forms():
    assert fisher(by_p, [0.3]) == pytest.approx(4.7619048, abs=1e-7)
    assert fisher(by_logit, [math.log(0.3 / 0.7)]) == pytest.approx(0.21)
    for sigma in (0.4, 2.5):
        assert np.allclose(fisher(lambda t, s=sigma: Normal(t[0], s), [1.7]), 1 / sigma**2)
        assert np.allclose(fisher(by_log, [1.7, math.log(sigma)]), np.diag([1 / sigma**2, 2]), atol=1e-7)
        assert np.allclose(fisher(by_scale, [1.7, sigma]), np.diag([1, 2]) / sigma**2, atol=1e-7)
    assert fisher(lambda t: Poisson(t[0]), [3.5]) == pytest.approx(1 / 3.5)
    assert fisher(lambda t: Binomial(7, t[0]), [0.3]) == pytest.approx(7 / 0.21)
    assert fisher(lambda t: Exponential(t[0]), [2.0]) == pytest.approx(0.25)
    assert fisher(lambda t: Laplace(t[0], 0.5), [0.2]) == pytest.approx(4.0, rel=1e-6)
    p = np.array([0.2, 0.3, 0.5])
    assert np.allclose(fisher(lambda t: Categorical(t.T), np.log(p)), np.diag(p) - np.outer(p, p))
    a, b = 2.5, 1.2
    exact = np.diag(special.polygamma(1, [a, b])) - special.polygamma(1, a + b)
    assert np.allclose(fisher(lambda t: Beta(t[0], t[1]), [a, b]), exact, rtol=1e-6)
    assert np.allclose(
        fisher(lambda t: Gamma(t[0], t[1]), [a, b]),
        [[special.polygamma(1, a), -1 / b], [-1 / b, a / b**2]], rtol=1e-6,
    )  # fmt: skip


@pytest.mark.spec("BAY-68")
def test_scores_have_mean_zero_and_the_information_as_their_covariance_and_minus_the_curvature():
    theta, n = [0.4, math.log(1.3)], 40_000
    x = Normal(0.4, 1.3).sample(NOISE, 0, (n,))
    s = score(by_log, theta, x)
    z = (x - 0.4) / 1.3
    assert np.allclose(s, np.stack([z / 1.3, z**2 - 1], 1))
    assert (np.abs(s.mean(0)) < 5 * s.std(0) / math.sqrt(n)).all()
    for found in (fisher(by_log, theta, "mc", n=n, noise=NOISE), fisher(by_log, theta, "empirical", x=x)):
        error = 5 * np.sqrt(np.array([[2 / 1.3**4, 10 / 1.3**2], [10 / 1.3**2, 56]]) / n)
        assert (np.abs(found - np.diag([1 / 1.3**2, 2])) < error).all()
    t = torch.tensor(theta, dtype=torch.float64)
    hessian = torch.autograd.functional.hessian(
        lambda t: Normal(t[0], t[1].exp()).log_prob(torch.as_tensor(x)).mean(), t
    )
    assert np.allclose(-hessian, np.diag([1 / 1.3**2, 2]), atol=0.06)
    coin = score(by_p, [0.3], np.array([[0.0], [1.0]]))[:, 0]
    assert np.allclose(coin, [-1 / 0.7, 1 / 0.3]) and 0.7 * coin[0] + 0.3 * coin[1] == pytest.approx(0)


@pytest.mark.spec("BAY-68")
def test_the_empirical_information_of_other_rows_is_another_matrix_and_irregular_families_are_refused():
    rows = np.full(50, 3.0)  # all far from the mean of the model
    assert np.allclose(fisher(lambda t: Normal(t[0], 1.0), [0.0], "empirical", x=rows), 9.0)
    assert np.allclose(fisher(lambda t: Normal(t[0], 1.0), [0.0]), 1.0)
    with pytest.raises(UserValueError, match="the support depends on the parameters"):
        fisher(lambda t: Uniform(0.0, t[0]), [2.0])


@pytest.mark.spec("BAY-68")
def test_the_bound_is_attained_by_the_mean_and_by_no_unbiased_median():
    n, sigma = 25, 1.5
    bound = crlb(lambda t: Normal(t[0], sigma), [0.0], n)[0, 0]
    assert bound == pytest.approx(sigma**2 / n) and crlb(by_p, [0.3], 10)[0, 0] == pytest.approx(0.021)
    x = Normal(0.0, sigma).sample(NOISE, 0, (20_000 * n,)).reshape(-1, n)
    assert x.mean(1).var() == pytest.approx(bound, rel=0.05) and np.median(x, axis=1).var() > 1.3 * bound
    with pytest.raises(UserValueError, match="singular"):
        crlb(lambda t: Normal(t[0] + t[1], 1.0), [0.0, 0.0])


# --- the natural gradient ---------------------------------------------------------------------------------------------


@pytest.mark.spec("BAY-85")
def test_a_step_of_one_reaches_the_most_likely_coin():
    p, k, n = 0.3, 9, 20
    gradient = score(by_p, [p], np.repeat([1.0, 0.0], [k, n - k])[:, None]).mean(0)
    assert natural_gradient(gradient, fisher(by_p, [p])) == pytest.approx(k / n - p)
    # in the natural parameter it is the gradient by the mean parameter
    by_natural = score(by_logit, [math.log(p / (1 - p))], np.repeat([1.0, 0.0], [k, n - k])[:, None]).mean(0)
    assert natural_gradient(by_natural, fisher(by_logit, [math.log(p / (1 - p))])) == pytest.approx(gradient)


@pytest.mark.spec("BAY-85")
def test_the_direction_does_not_depend_on_the_parameters():
    """(mean, deviation) and (mean, log deviation): one is the other through d sigma = sigma d log sigma."""
    x, mu, sigma = np.array([0.3, 2.0, -1.0, 4.0]), 0.5, 1.3
    plain = natural_gradient(score(by_scale, [mu, sigma], x).mean(0), fisher(by_scale, [mu, sigma]))
    logs = natural_gradient(score(by_log, [mu, math.log(sigma)], x).mean(0), fisher(by_log, [mu, math.log(sigma)]))
    assert np.allclose(plain, logs * [1, sigma], rtol=1e-6)
    ordinary = score(by_scale, [mu, sigma], x).mean(0), score(by_log, [mu, math.log(sigma)], x).mean(0) * [1, sigma]
    assert not np.allclose(*ordinary, rtol=0.1)
    # and so are whole paths of small steps
    ends = []
    for make, at in ((by_scale, np.array([mu, sigma])), (by_log, np.array([mu, math.log(sigma)]))):
        for _ in range(100):
            at = at + 0.02 * natural_gradient(score(make, at, x).mean(0), fisher(make, at))
        ends.append(at if make is by_scale else np.array([at[0], math.exp(at[1])]))
    assert np.allclose(*ends, rtol=0.02) and not np.allclose(ends[0], [mu, sigma], rtol=0.1)


@pytest.mark.spec("BAY-85")
def test_one_step_of_a_conjugate_model_is_the_exact_posterior():
    """q = Beta(a, b) of a coin with prior Beta(2, 3) and 7 of 10: the bound's natural gradient leads to Beta(9, 6)."""
    at = torch.tensor([1.5, 4.0], dtype=torch.float64, requires_grad=True)
    q, prior = torch.distributions.Beta(at[0], at[1]), torch.distributions.Beta(2.0, 3.0)
    log_p, log_not = (torch.digamma(one) - torch.digamma(at.sum()) for one in at)
    bound = 7 * log_p + 3 * log_not - torch.distributions.kl_divergence(q, prior)
    (gradient,) = torch.autograd.grad(bound, at)
    step = natural_gradient(gradient.numpy(), fisher(lambda t: Beta(t[0], t[1]), at.detach().numpy()))
    assert np.allclose(at.detach().numpy() + step, [9, 6], rtol=1e-5)


@pytest.mark.spec("BAY-85")
def test_products_replace_the_matrix_and_damping_a_singular_one():
    random = np.random.default_rng(0)
    s, g = random.normal(size=(50, 8)), random.normal(size=8)
    exact = np.linalg.solve(s.T @ s / 50 + 0.1 * np.eye(8), g)
    assert np.allclose(natural_gradient(g, fisher_product(s), damping=0.1), exact)
    assert np.allclose(natural_gradient(g, s.T @ s / 50, damping=0.1), exact)
    for few in (fisher_product(s[:3]), s[:3].T @ s[:3] / 3):
        with pytest.raises(UserValueError, match="give a damping above 0"):
            natural_gradient(g, few)
        assert np.isfinite(natural_gradient(g, few, damping=1e-3)).all()


@pytest.mark.spec("BAY-84", "BAY-85")
@pytest.mark.parametrize("method", ["conjugate-gradient", "natural-gradient"])
def test_most_likely_parameters_by_every_method(method):
    x = Gamma(2.5, 0.7).sample(NOISE, 0, (300,))
    for family, rows in ((Gamma, x), (Normal, x), (Poisson, np.round(x)), (Beta, x / (x.max() + 1))):
        usual = maximum_likelihood(family, rows)
        found = maximum_likelihood(family, rows, method=method)
        assert found.parameters == pytest.approx(usual.parameters, rel=1e-5)
        assert found.log_likelihood == pytest.approx(usual.log_likelihood, abs=1e-7)
    prior = maximum_a_posteriori(Normal, x[:5], lambda p: -(p["loc"] ** 2), method=method)
    assert prior.parameters == pytest.approx(
        maximum_a_posteriori(Normal, x[:5], lambda p: -(p["loc"] ** 2)).parameters, rel=1e-5
    )


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda: fisher(by_p, [0.3], "empirical"), "needs rows"),
        (lambda: fisher(by_p, [0.3], "mc"), "needs noise"),
        (lambda: fisher(by_p, [0.3], "best"), "be exact, empirical or mc"),
        (lambda: fisher(lambda t: 3.0, [0.3]), "make must give a distribution"),
        (lambda: score(lambda t: Normal(0.0, 1.0), [0.3], [1.0]), "whose log_prob depends on the parameters"),
        (lambda: score(by_p, 0.3, [1.0]), "theta must be one row"),
        (lambda: crlb(by_p, [0.3], 0), "n must be at least 1"),
        (lambda: natural_gradient([1.0], [[1.0]], damping=-1.0), "damping must be at least 0"),
        (lambda: maximum_likelihood(Normal, [1.0, 2.0], method="newton"), "method must be"),
    ],
)
def test_mistakes(ask, told):
    with pytest.raises(UserError, match=told):
        ask()
