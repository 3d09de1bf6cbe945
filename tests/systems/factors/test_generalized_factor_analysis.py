"""Generalized factor analysis against integrals over the factors, direct maximization and finite differences."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import expit, gammaln, logsumexp
from scipy.stats import norm, poisson

from gnomon.errors import UserError
from gnomon.evaluation.latent_likelihood import latent_log_prob
from gnomon.numeric.noise import Noise
from gnomon.systems.factors._columns import COLUMNS
from gnomon.systems.factors.generalized_factor_analysis import (
    GeneralizedFactorAnalysis,
    GeneralizedFactorAnalysisModel,
)
from gnomon.training.expectations import MonteCarlo, Quadrature, Variational
from oracles.binary import numerical_gradient

KINDS = ["bernoulli", "poisson"]
EVERY = ["variational", "quadrature", "monte-carlo"]


def model_of(kind, d=5, k=2, seed=0):
    random = np.random.default_rng(seed)
    model = GeneralizedFactorAnalysisModel(d, k, COLUMNS[kind], penalty=0.3)
    model.components, model.bias = random.normal(size=(d, k)), 0.5 * random.normal(size=d)
    model.center = 0.2 * random.normal(size=d)
    return model


def rows_of(kind, n=60, d=5, k=1, seed=1):
    model = model_of(kind, d, k, seed)
    return model.sample(n, Noise(seed, "rows"))


def log_cells(kind, x, eta):
    if kind == "bernoulli":
        return (x * eta - np.logaddexp(0, eta)).sum(-1)
    return poisson(np.exp(eta)).logpmf(x).sum(-1)


def log_density(kind, model, row):
    """log of the integral over one or two factors by a fine sum over a wide box."""
    k = model.components.shape[1]
    ticks = np.linspace(-9, 9, {1: 4001, 2: 401}[k])
    z = np.stack(np.meshgrid(*[ticks] * k, indexing="ij"), -1).reshape(-1, k)
    joint = log_cells(kind, row, z @ model.components.T + model.bias) + norm.logpdf(z).sum(1)
    return logsumexp(joint) + k * np.log(ticks[1] - ticks[0])


def fit_of(kind, expectation, X, **options):
    given = {"n_components": 1, "random_state": 0, "max_iter": 60} | options
    return GeneralizedFactorAnalysis(likelihood=kind, expectation=expectation, **given).fit(X)


# --- densities, bounds, posteriors ------------------------------------------------------------------------------------


@pytest.mark.spec("BAY-51")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 2])
def test_the_density_is_the_integral_over_the_factors(kind, k):
    model = model_of(kind, k=k)
    rows = model.sample(6, Noise(0, "rows"))
    np.testing.assert_allclose(model.log_prob(rows), [log_density(kind, model, row) for row in rows], rtol=1e-8)


def test_a_density_of_steep_bits_and_of_no_rows():
    """Loadings of 8: the log joint turns within an eighth of a standard deviation."""
    model = model_of("bernoulli", k=2)
    model.components = model.components * 5
    rows = model.sample(5, Noise(0, "rows"))
    np.testing.assert_allclose(model.log_prob(rows), [log_density("bernoulli", model, row) for row in rows], atol=2e-4)
    assert model.log_prob(rows[:0]).shape == (0,)


@pytest.mark.parametrize("kind", KINDS)
def test_means_of_normalizers_under_normal_parameters(kind):
    mean, deviation = np.array([-2.0, 0.0, 1.5]), np.array([0.5, 1.0, 1.5])
    found = COLUMNS[kind].expected(mean, deviation**2)
    functions = {
        "bernoulli": (lambda t: np.logaddexp(0, t), expit, lambda t: expit(t) * expit(-t)),
        "poisson": (np.exp, np.exp, np.exp),
    }[kind]
    for value, function in zip(found, functions, strict=True):
        expected = [
            quad(lambda u, m=m, s=s, f=function: f(m + s * u) * norm.pdf(u), -12, 12)[0]
            for m, s in zip(mean, deviation, strict=True)
        ]
        np.testing.assert_allclose(value, expected, rtol=1e-5)


@pytest.mark.spec("BAY-49", "INF-99")
@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_is_that_of_its_definition_and_below_the_density(kind):
    """E_q[log p(x, z) - log q(z)] by a sum over a grid, for any normal q; at its best still below log p(x)."""
    model, random = model_of(kind, k=1), np.random.default_rng(0)
    rows = model.sample(4, Noise(0, "rows"))
    mean, covariance = random.normal(size=(4, 1)), random.uniform(0.2, 1.0, size=(4, 1, 1))
    ticks = np.linspace(-9, 9, 4001)
    for row, m, s, found in zip(
        rows, mean[:, 0], covariance[:, 0, 0] ** 0.5, model.elbo(rows, mean, covariance), strict=True
    ):
        joint = log_cells(kind, row, ticks[:, None] @ model.components.T + model.bias) + norm.logpdf(ticks)
        q = norm(m, s)
        expected = (q.pdf(ticks) * (joint - q.logpdf(ticks))).sum() * (ticks[1] - ticks[0])
        assert found == pytest.approx(expected, abs=1e-6)
    best = model.elbo(rows, *model.posterior(rows))
    assert (best > model.elbo(rows, mean, covariance)).all()
    gap = model.log_prob(rows) - best
    assert (gap > 0).all() and (gap < 0.2).all()


@pytest.mark.spec("BAY-49", "INF-99")
@pytest.mark.parametrize("kind", KINDS)
def test_the_posterior_is_where_no_normal_distribution_has_a_higher_bound(kind):
    model = model_of(kind)
    rows = model.sample(3, Noise(0, "rows"))
    mean, covariance = model.posterior(rows)

    def bound(flat):
        m, lower = flat[:2], np.array([[np.exp(flat[2]), 0.0], [flat[4], np.exp(flat[3])]])
        return -model.elbo(rows[:1], m[None], (lower @ lower.T)[None])[0]

    found = minimize(bound, np.zeros(5), method="BFGS", options={"gtol": 1e-8})
    lower = np.array([[np.exp(found.x[2]), 0.0], [found.x[4], np.exp(found.x[3])]])
    np.testing.assert_allclose(mean[0], found.x[:2], atol=1e-4)
    np.testing.assert_allclose(covariance[0], lower @ lower.T, atol=1e-4)


@pytest.mark.spec("BAY-49", "INF-99")
@pytest.mark.parametrize("kind", KINDS)
def test_no_update_of_a_posterior_lowers_the_bound(kind):
    model = model_of(kind)
    model.components = 2 * model.components
    rows = model.sample(50, Noise(0, "rows"))
    found, bounds = None, []
    for _ in range(15):
        found = model.approximate(rows, found, updates=1)
        bounds.append(model.elbo(rows, found["mean"], found["covariance"]))
    assert (np.diff(bounds, axis=0) >= -1e-12).all()
    np.testing.assert_allclose(bounds[-1], model.elbo(rows, *model.posterior(rows)), atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_transforms_are_means_and_modes_of_the_posterior(kind):
    fitted = fit_of(kind, "quadrature", rows_of(kind))
    rows = rows_of(kind)[:4]
    ticks = np.linspace(-8, 8, 4001)
    joint = [
        log_cells(kind, row, ticks[:, None] @ fitted.components_ + fitted.bias_) + norm.logpdf(ticks) for row in rows
    ]
    share = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    np.testing.assert_allclose(fitted.transform(rows)[:, 0], share @ ticks, atol=1e-6)
    np.testing.assert_allclose(fitted.transform(rows, method="map")[:, 0], ticks[np.argmax(joint, 1)], atol=3e-3)


def test_draws_have_the_moments_of_the_model():
    """Means of 20,000 rows to 5 standard errors, 10 numbers: false alarms below 1e-5."""
    for kind in KINDS:
        model = model_of(kind, k=1)
        model.components = 0.5 * model.components
        drawn = model.sample(20_000, Noise(3, "draws"))
        ticks = np.linspace(-8, 8, 2001)
        mean = norm.pdf(ticks) @ model.reconstruct(ticks[:, None]) * (ticks[1] - ticks[0])
        assert (np.abs(drawn.mean(0) - mean) < 5 * drawn.std(0) / np.sqrt(len(drawn))).all()


def test_weighted_draws_of_the_posterior_estimate_the_density():
    model = model_of("bernoulli")
    rows = model.sample(5, Noise(0, "rows"))
    found = latent_log_prob(model, model, rows, 4000, Noise(1, "draws"))
    np.testing.assert_allclose(found.value, model.log_prob(rows), atol=0.02)


# --- the fit ----------------------------------------------------------------------------------------------------------


def simulated(kind, X, nodes, log_share, flat, k, penalty, center):
    """Log-likelihood over nodes, with the prior of the parameters, as a function of these."""
    own = flat.reshape(X.shape[1], k + 1)
    eta = nodes @ own[:, :k].T + own[:, k]
    A = np.logaddexp(0, eta) if kind == "bernoulli" else np.exp(eta)
    base = 0.0 if kind == "bernoulli" else -gammaln(X + 1).sum()
    likelihood = logsumexp(X @ eta.T - A.sum(1) + log_share, axis=1).sum() + base
    away = own - np.column_stack([np.zeros((X.shape[1], k)), center])
    return likelihood - 0.5 * penalty * (away**2).sum()


@pytest.mark.spec("BAY-51")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("expectation", ["quadrature", "monte-carlo"])
def test_em_on_nodes_ends_where_direct_maximization_of_the_same_likelihood_does(kind, expectation):
    """And the history is that likelihood, which no iteration lowers."""
    X = rows_of(kind)
    fitted = fit_of(kind, expectation, X, max_iter=1000, tol=1e-10, penalty=0.5)
    nodes, log_share = fitted.model_.nodes

    def loss(flat):
        return -simulated(kind, X, nodes, log_share, flat, 1, 0.5, fitted.model_.center)

    own = np.column_stack([fitted.model_.components, fitted.bias_])
    own = min(own, own * [-1, 1], key=lambda one: loss(one.ravel()))  # draws tell the sign of a factor, which is turned
    assert -loss(own.ravel()) / len(X) == pytest.approx(fitted.history_["objective"][-1], abs=1e-7)
    assert (np.diff(fitted.history_["objective"]) >= -1e-10).all()
    found = minimize(loss, 0.7 * own.ravel(), method="BFGS", options={"gtol": 1e-7})
    assert -found.fun == pytest.approx(-loss(own.ravel()), abs=1e-5)
    theirs = found.x.reshape(5, 2)
    np.testing.assert_allclose(own * [np.sign(own[0, 0] * theirs[0, 0]), 1], theirs, atol=2e-3)


@pytest.mark.spec("BAY-51")
def test_monte_carlo_draws_and_a_grid_agree_as_draws_grow():
    """3,000 draws of one factor: the likelihood per row within 5 times 1 / sqrt(3,000)."""
    X = rows_of("bernoulli")
    grid = fit_of("bernoulli", "quadrature", X)
    drawn = fit_of("bernoulli", MonteCarlo(draws=3000), X)
    assert drawn.log_prob(X).mean() == pytest.approx(grid.log_prob(X).mean(), abs=0.09)


@pytest.mark.spec("BAY-51")
def test_a_grid_of_many_factors_is_refused_with_the_ways_that_go_on():
    X = rows_of("bernoulli", d=8)
    with pytest.raises(UserError, match=r"15 points for each of 4 factors.*variational.*monte-carlo"):
        fit_of("bernoulli", "quadrature", X, n_components=4)
    assert Quadrature(points=21).nodes(1, Noise(0, "nodes"))[0].shape == (21, 1)
    for expectation in ("variational", "monte-carlo"):
        assert fit_of("bernoulli", expectation, X, n_components=4, max_iter=3).transform(X).shape == (60, 4)


@pytest.mark.spec("BAY-49", "INF-99")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("inner_steps", [1, 5])
def test_the_bound_never_falls_and_stays_below_the_density(kind, inner_steps):
    """Also with inner loops that are not settled, whose bound is looser and whose parameters are others."""
    X = rows_of(kind, k=2)
    fitted = fit_of(kind, Variational(inner_steps=inner_steps), X, n_components=2, max_iter=40, tol=0.0)
    assert len(fitted.elbo_history_) == 40 and not fitted.converged_
    assert (np.diff(fitted.history_["objective"]) >= -1e-10).all()
    assert (fitted.log_prob(X) >= fitted.elbo(X) - 1e-9).all()
    if inner_steps == 1:
        settled = fit_of(kind, Variational(inner_steps=200), X, n_components=2, max_iter=1)
        assert settled.elbo_history_[0] > fitted.elbo_history_[0] + 1e-6


@pytest.mark.spec("INF-99")
@pytest.mark.parametrize("kind", KINDS)
def test_more_outer_steps_raise_the_bound_more(kind):
    """What the second iteration begins with, after one step of the parameters and after four."""
    X = rows_of(kind, k=2)
    once, more = (
        fit_of(kind, Variational(outer_steps=steps), X, n_components=2, max_iter=12, tol=0.0).history_["objective"]
        for steps in (1, 4)
    )
    assert more[0] == once[0] and more[1] > once[1] + 1e-3
    assert (np.diff(more) >= -1e-10).all()


@pytest.mark.spec("BAY-49")
def test_the_bound_biases_the_loadings_towards_zero():
    """A row's posterior of few bits is far from normal: the fit of the bound has the lower likelihood."""
    random = np.random.default_rng(0)
    z = random.normal(size=(400, 1))
    X = (random.random((400, 5)) < expit(3 * z)).astype(float)
    exact = fit_of("bernoulli", Quadrature(points=61), X, tol=1e-6, max_iter=100)
    bound = fit_of("bernoulli", "variational", X, tol=1e-6, max_iter=100)
    assert np.linalg.norm(bound.components_) < np.linalg.norm(exact.components_) - 0.1
    assert bound.log_prob(X).mean() < exact.log_prob(X).mean()


@pytest.mark.spec("INF-99")
@pytest.mark.parametrize("kind", KINDS)
def test_the_slope_by_the_parameters_is_that_of_the_bound_with_q_held(kind):
    model = model_of(kind)
    rows, weight = model.sample(7, Noise(0, "rows")), np.linspace(0.5, 2, 7)
    q = model.approximate(rows, updates=2)
    sums = model.expect(rows, weight, q)
    own = np.column_stack([model.components, model.bias])

    def bound(flat):
        other = model_of(kind)
        other.components, other.bias = flat.reshape(own.shape)[:, :2], flat.reshape(own.shape)[:, 2]
        return float(weight @ other.elbo(rows, q["mean"], q["covariance"]))

    np.testing.assert_allclose(sums["slope"].ravel(), numerical_gradient(bound, own.ravel()), rtol=2e-5, atol=2e-5)
    assert float(sums["log_likelihood"]) == pytest.approx(bound(own.ravel()), rel=1e-12)


@pytest.mark.spec("INF-99")
@pytest.mark.parametrize("kind", KINDS)
def test_at_the_exact_posterior_the_slope_is_that_of_the_likelihood(kind):
    """Fisher's identity: sums over the posterior on nodes against differences of the log-likelihood over these."""
    model = model_of(kind, k=1)
    rows = model.sample(7, Noise(0, "rows"))
    model.nodes = Quadrature(21).nodes(1, Noise(0, "nodes"))
    slope = model.at_nodes(model.expect(rows, np.ones(7)))["slope"]
    own = np.column_stack([model.components, model.bias])

    def likelihood(flat):
        return simulated(kind, rows, *model.nodes, flat, 1, 0.0, np.zeros(5))

    np.testing.assert_allclose(slope.ravel(), numerical_gradient(likelihood, own.ravel()), rtol=2e-5, atol=2e-5)


@pytest.mark.spec("INF-99")
@pytest.mark.parametrize("expectation", EVERY)
def test_a_first_chunk_is_an_iteration_and_a_stream_of_chunks_comes_near_a_fit(expectation):
    """A chunk of all rows: one Newton step from the same start (the grid's fit takes such steps until they stand)."""
    X = rows_of("bernoulli", n=400, d=8, seed=4)
    options = {"n_components": 1, "expectation": expectation, "random_state": 0}
    stream = GeneralizedFactorAnalysis(**options).partial_fit(X)
    if expectation == "variational":
        once = GeneralizedFactorAnalysis(**options, max_iter=1).fit(X)
        turned = np.sign(once.components_[0, 0] * stream.components_[0, 0])
        np.testing.assert_allclose(stream.components_ * turned, once.components_, rtol=1e-9)
    stream = GeneralizedFactorAnalysis(**options)
    for _ in range(4):
        for part in np.split(X, 4):
            stream.partial_fit(part)
    whole = GeneralizedFactorAnalysis(**options).fit(X)
    first = GeneralizedFactorAnalysis(**options, max_iter=1).fit(X)
    assert stream.log_prob(X).mean() > whole.log_prob(X).mean() - 0.02
    assert stream.log_prob(X).mean() > first.log_prob(X).mean()
    assert stream.n_steps_ == 16 and stream.partial_fit(X[:0]) is stream
    with pytest.raises(AttributeError, match="converged_ is of fits by passes"):
        _ = stream.converged_


def test_known_cells_alone_speak():
    """The known cells of a row have the density of the model of their columns, and missing ones its predictions."""
    for kind in KINDS:
        fitted = fit_of(kind, "quadrature", rows_of(kind))
        rows = rows_of(kind)[:3].copy()
        part = model_of(kind, d=3, k=1)
        part.components, part.bias = fitted.model_.components[:3], fitted.bias_[:3]
        mask = np.tile([False, False, False, True, True], (3, 1))
        np.testing.assert_allclose(fitted.log_prob_observed(rows, mask), part.log_prob(rows[:, :3]), rtol=1e-9)
        drawn = np.mean([fitted.conditional_sample(rows, mask, random_state=i) for i in range(60)], axis=0)
        filled, spread = (fitted.impute(rows, mask, how=how) for how in ("mean", "deviation"))
        assert (np.abs(drawn - filled) <= 5 * spread / np.sqrt(60) + 1e-12).all()  # 6 numbers: below 1e-5


def test_several_starts_keep_the_best():
    X = rows_of("bernoulli", k=2)
    one = fit_of("bernoulli", "variational", X, n_components=2, n_init=1)
    three = fit_of("bernoulli", "variational", X, n_components=2, n_init=3)
    assert max(three.history_["start"]) == 2
    assert three.history_["objective"][-1] >= one.history_["objective"][-1] - 1e-9
