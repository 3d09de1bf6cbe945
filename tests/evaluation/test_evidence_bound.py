"""The evidence lower bound and its identity against closed forms and enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from gnomon.distributions.bernoulli import Bernoulli
from gnomon.distributions.conjugate import NormalMean
from gnomon.distributions.real import Normal, StudentT
from gnomon.distributions.table import Categorical
from gnomon.distributions.vectors import MultivariateNormal
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation import SolvedModel, check_bound, elbo, elbo_terms, free_energy
from gnomon.inference.exact.linear_gaussian import LinearGaussian
from gnomon.tasks.posterior import fit_posterior

Y = np.array([1.0, 2.0, 3.0])
EVIDENCE = -5.949963
LOG_2PI = np.log(2 * np.pi)


def log_likelihood(z):
    return -0.5 * ((Y - z[:, None]) ** 2).sum(1) - 1.5 * LOG_2PI


def log_joint(z):
    return log_likelihood(z) - 0.5 * z**2 - 0.5 * LOG_2PI


@pytest.mark.spec("BAY-43")
def test_bound_of_the_conjugate_normal():
    assert elbo(Normal(0.0, 1.0), log_joint).value == pytest.approx(-11.256816, abs=1e-6)
    best = elbo(Normal(1.5, 0.5), log_joint)
    assert best.value == pytest.approx(EVIDENCE, abs=1e-6) and best.kind == "lower bound"
    drawn = elbo(Normal(1.5, 0.5), log_joint, 10)  # the posterior: every draw answers the evidence itself
    assert drawn.value == pytest.approx(EVIDENCE, abs=1e-6) and drawn.error < 1e-12
    estimate = elbo(Normal(0.0, 1.0), log_joint, 2000, random_state=1)  # 4 standard errors: 1 in 16,000
    assert 0 < estimate.error < 0.2 and abs(estimate.value + 11.256816) < 4 * estimate.error


@pytest.mark.spec("BAY-43")
def test_terms_and_the_factor_of_a_batch_on_the_data_alone():
    prior, q = Normal(0.0, 1.0), Normal(0.7, 0.8)
    whole = elbo_terms(q, log_likelihood, prior)
    assert whole.kl == pytest.approx(0.5 * (0.64 + 0.49 - 1) - np.log(0.8)) and whole.kl_error == 0  # closed form
    assert whole.bound == pytest.approx(elbo(q, log_joint).value, abs=1e-9)
    each = [
        elbo_terms(q, lambda z, y=y: -0.5 * (y - z) ** 2 - 0.5 * LOG_2PI, prior, scale=3.0) for y in Y
    ]  # batches of one row
    assert np.mean([one.bound for one in each]) == pytest.approx(whole.bound, abs=1e-9)
    assert np.mean([one.data for one in each]) == pytest.approx(whole.data, abs=1e-9)
    assert {round(one.kl, 12) for one in each} == {round(whole.kl, 12)}  # the regularizer is not multiplied
    drawn = elbo_terms(q, log_likelihood, prior, 4000)
    assert abs(drawn.data - whole.data) < 4 * drawn.data_error and drawn.kl == whole.kl
    other = StudentT(3.0, 0.0, 1.0)
    unknown = elbo_terms(q, log_likelihood, other, 4000)  # no closed form of the divergence
    z = np.linspace(-8, 9, 4001)
    exact = np.trapezoid(q.pdf(z) * (q.log_prob(z) - other.log_prob(z)), z)
    assert unknown.kl_error > 0 and abs(unknown.kl - exact) < 4 * unknown.kl_error


@pytest.mark.spec("BAY-44")
def test_identity_of_the_conjugate_normal():
    model = SolvedModel.of_pair(NormalMean(0.0, 1.0, 1.0), Y, log_likelihood)
    check = check_bound(model, Normal(0.0, 1.0))
    assert check.elbo.value == pytest.approx(-11.256816, abs=1e-6)
    assert check.kl == pytest.approx(5.306853, abs=1e-6) == pytest.approx(check.gap, abs=1e-6)
    assert check.log_evidence == pytest.approx(EVIDENCE, abs=1e-6)
    assert check.passed and bool(check) and "the identity holds" in str(check)
    for seed in range(20):  # 4 standard errors each: 1 in 800 runs of all
        q = stats.t(8)  # a q of no closed form, by draws
        drawn = check_bound(model, _Drawn(q), 500, random_state=seed)
        assert drawn.passed and drawn.elbo.error > 0 and drawn.kl_error > 0


class _Drawn:
    """A distribution of scipy with the library's face."""

    def __init__(self, of):
        self.of = of

    def sample(self, noise, draw, shape):
        return self.of.ppf(noise.uniform(shape, draw, like=np.empty(0)))

    def log_prob(self, z):
        return self.of.logpdf(z)


@pytest.mark.spec("BAY-44")
def test_a_broken_model_is_seen():
    model = SolvedModel.of_pair(NormalMean(0.0, 1.0, 1.0), Y, log_likelihood)
    off = SolvedModel(lambda z: log_joint(z) + 0.01, model.posterior, model.log_evidence)
    assert not check_bound(off, Normal(0.0, 1.0))
    wrong = SolvedModel(log_joint, Normal(1.4, 0.5), model.log_evidence)  # no posterior of it
    assert not check_bound(wrong, Normal(0.0, 1.0)) and "broken" in str(check_bound(wrong, Normal(0.0, 1.0)))


# --- discrete and linear-Gaussian latents -----------------------------------------------------------------------------

W = np.array([[1.0, 0.5], [0.0, 1.0]])
B = np.array([0.0, -1.0])
BETA = np.array([1.0, 2.0])
V = np.array([[1.0, 1.0]])


def sparse(v, h):
    """Binary sparse coding: h ~ sigmoid(b), v | h ~ N(W h, 1 / beta)."""
    prior = (h * B - np.logaddexp(0, B)).sum(1)
    return prior - 0.5 * (BETA * (v - h @ W.T) ** 2).sum(1) + 0.5 * np.log(BETA).sum() - LOG_2PI


@pytest.mark.spec("BAY-44", "INF-75")
def test_identity_of_binary_latents_is_exact():
    model = SolvedModel.enumerated(sparse, V, 2)
    assert model.log_evidence == pytest.approx(-2.282347, abs=1e-6)
    check = check_bound(model, Bernoulli(np.zeros(2)))
    assert check.elbo.value == pytest.approx(-2.298918, abs=1e-6) and check.elbo.error == 0
    assert abs(check.gap - check.kl) < 1e-12 and check.passed
    # some weights tilted, others certain (0 log 0), all of them below the evidence
    logits = np.random.default_rng(0).normal(scale=3, size=(200, 2))
    logits[:20, 0], logits[20:40, 1] = np.inf, -np.inf
    for row in logits:
        check = check_bound(model, Bernoulli(row))
        assert check.elbo.value <= model.log_evidence and abs(check.gap - check.kl) < 1e-12


@pytest.mark.spec("INF-75")
def test_the_posterior_gives_the_evidence_and_rows_are_averaged():
    model = SolvedModel.enumerated(sparse, V, 2)
    states = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], float)
    log_p = model.posterior.log_prob(states)
    assert np.exp(log_p) == pytest.approx([0.179898, 0.261750, 0.296602, 0.261750], abs=1e-6)
    exact = elbo(Categorical(log_p), lambda code: sparse(np.repeat(V, len(code), 0), states[code.astype(int)]))
    assert exact.value == pytest.approx(model.log_evidence, abs=1e-12)
    rows = np.array([[1.0, 1.0], [0.0, 2.0], [-1.0, 0.5]])
    logits = np.array([[0.0, 0.0], [1.0, -1.0], [np.inf, 2.0]])
    score = elbo(Bernoulli(logits), sparse, x=rows)
    single = [elbo(Bernoulli(one), lambda h, v=v: sparse(np.repeat(v[None], len(h), 0), h)).value
              for one, v in zip(logits, rows, strict=True)]  # fmt: skip
    assert score.pointwise == pytest.approx(single, abs=1e-12)
    assert score.value == pytest.approx(np.mean(single)) and score.n == 3 and score.stderr > 0
    energy = free_energy(Bernoulli(np.zeros(2)), lambda h: sparse(np.repeat(V, len(h), 0), h))
    assert energy.value == pytest.approx(2.298918, abs=1e-6) and energy.kind == "upper bound"


@pytest.mark.spec("INF-75")
def test_linear_gaussian_bounds_are_tight_at_the_posterior_alone():
    model = SolvedModel.linear_gaussian(LinearGaussian([[1.0, 2.0]]), [3.0])
    mean_field = check_bound(model, Normal(np.array([0.5, 1.0]), np.sqrt([0.5, 0.2])))
    assert mean_field.elbo.value == pytest.approx(-2.820231, abs=1e-6)
    assert mean_field.gap == pytest.approx(0.255413, abs=1e-6) == pytest.approx(mean_field.kl, abs=1e-6)
    assert mean_field.log_evidence == pytest.approx(-2.564818, abs=1e-6)
    covariance = np.linalg.inv([[2.0, 2.0], [2.0, 5.0]])
    exact = MultivariateNormal([0.5, 1.0], covariance)
    assert elbo(exact, model.log_joint).value == pytest.approx(model.log_evidence, abs=1e-12)
    assert elbo(exact, model.log_joint, 5).value == pytest.approx(model.log_evidence, abs=1e-12)
    rng = np.random.default_rng(1)
    for _ in range(20):
        half = rng.normal(size=(2, 2))
        q = MultivariateNormal(rng.normal(size=2), half @ half.T + 0.1 * np.eye(2))
        check = check_bound(model, q)
        assert check.elbo.value < model.log_evidence and check.passed and check.kl > 0
        assert check.kl == pytest.approx(check.gap, abs=1e-6)


@pytest.mark.spec("INF-75")
def test_an_estimate_may_exceed_the_evidence_by_its_error_alone():
    values = [elbo(Normal(1.4, 0.52), log_joint, 8, random_state=seed) for seed in range(200)]
    z = np.array([(one.value - elbo(Normal(1.4, 0.52), log_joint).value) / one.error for one in values])
    assert any(one.value > EVIDENCE for one in values) and all(one.error > 0 for one in values)
    assert abs(np.mean(z)) < 0.5


def test_a_q_beyond_the_support_has_no_bound():
    def positive(z):
        return np.where(z > 0, -np.abs(z), -np.inf)

    assert elbo(Normal(0.0, 1.0), positive).value == -np.inf
    drawn = elbo(Normal(0.0, 1.0), positive, 50)
    assert drawn.value == -np.inf and drawn.error == np.inf


def test_fits_are_scored_as_other_distributions():
    found = fit_posterior(lambda z: -0.5 * (z**2).sum(1), start=1, random_state=0)
    score = elbo(found, lambda at: -0.5 * (at["x"] ** 2).sum(1), 200)
    assert score.value == pytest.approx(0.5 * LOG_2PI, abs=1e-5) and score.error < 1e-3


def test_refusals():
    with pytest.raises(UserTypeError, match="q must be a distribution with sample"):
        elbo(3.0, log_joint)
    with pytest.raises(UserValueError, match="n_samples must be at least 2"):
        elbo(Normal(0.0, 1.0), log_joint, 1)
    with pytest.raises(UserTypeError, match="a row of logits for each of the 2 observations"):
        elbo(Bernoulli(np.zeros(2)), sparse, x=np.ones((2, 2)))
    with pytest.raises(UserValueError, match="scale must be positive"):
        elbo_terms(Normal(0.0, 1.0), log_likelihood, Normal(0.0, 1.0), scale=0.0)
