"""Spike-and-slab sparse coding against sums over all spikes, quadrature, finite differences and what it reduces to."""

from itertools import permutations

import numpy as np
import pytest
import torch
from scipy.special import expit, logit
from scipy.stats import multivariate_normal, norm
from sklearn.decomposition import FactorAnalysis

from gnomon.errors import UserError
from gnomon.evaluation.latent_likelihood import latent_log_prob
from gnomon.numeric.noise import Noise
from gnomon.systems.energy.spike_and_slab_rbm import SpikeAndSlabRBMModel
from gnomon.systems.factors.spike_and_slab_sparse_coding import (
    SpikeAndSlabSparseCoding,
    SpikeAndSlabSparseCodingModel,
)
from oracles.binary import all_states, numerical_gradient

D, M = 4, 3
SPIKES = all_states(M)


def model_of(d=D, m=M, seed=0, **options):
    random = np.random.default_rng(seed)
    model = SpikeAndSlabSparseCodingModel(random.normal(size=(d, m)), **options)
    model.bias, model.slab_mean = random.normal(size=m), random.normal(size=m)
    model.slab_precision, model.noise_precision = random.uniform(0.5, 3, size=m), random.uniform(0.5, 4, size=d)
    model.shift, model.unit = random.normal(size=d), random.uniform(0.5, 2, size=d)
    return model


def rows_of(model, n=20, seed=1):
    return model.sample(n, Noise(seed, "rows"))


def log_density(model, rows):
    """log sum over h of P(h) N(x; W (h mu), 1/beta + W diag(h/alpha) W^T), of rows in their own units."""
    p, W, x = 1 / (1 + np.exp(-model.bias)), model.components, (rows - model.shift) / model.unit
    found = []
    for h in all_states(len(p)):
        covariance = np.diag(1 / model.noise_precision) + (W * (h / model.slab_precision)) @ W.T
        weight = np.prod(np.where(h > 0, p, 1 - p))
        found.append(np.log(weight) + multivariate_normal(W @ (h * model.slab_mean), covariance).logpdf(x))
    return np.logaddexp.reduce(found) - np.log(model.unit).sum()


@pytest.mark.spec("GEN-048")
@pytest.mark.parametrize(("d", "m"), [(4, 3), (2, 4), (1, 1)])
def test_the_density_is_the_sum_over_all_spikes(d, m):
    model = model_of(d, m)
    rows = rows_of(model)
    np.testing.assert_allclose(model.log_prob(rows), log_density(model, rows), rtol=1e-10)


@pytest.mark.spec("GEN-048")
def test_a_density_keeps_its_digits_where_noise_is_small():
    model = model_of()
    model.noise_precision = np.full(D, 1e8)
    rows = rows_of(model)
    np.testing.assert_allclose(model.log_prob(rows), log_density(model, rows), rtol=1e-6)


@pytest.mark.spec("GEN-048")
def test_the_joint_density_and_the_energy_of_the_undirected_relative():
    """Term by term, and: the energy of the machine with 1/2 (W (h s))^T beta W (h s) added differs by a constant."""
    model, random = model_of(), np.random.default_rng(2)
    h, s = (random.random((30, M)) < 0.5).astype(float), random.normal(size=(30, M))
    rows = random.normal(size=(30, D))
    x, p = (rows - model.shift) / model.unit, 1 / (1 + np.exp(-model.bias))
    expected = (
        np.log(np.where(h > 0, p, 1 - p)).sum(1)
        + norm(h * model.slab_mean, model.slab_precision**-0.5).logpdf(s).sum(1)
        + norm((h * s) @ model.components.T, model.noise_precision**-0.5).logpdf(x).sum(1)
        - np.log(model.unit).sum()
    )
    joint = model.log_joint(rows, (h, s))
    np.testing.assert_allclose(joint, expected, rtol=1e-12)

    beta, alpha, mu = model.noise_precision, model.slab_precision, model.slab_mean
    relative = SpikeAndSlabRBMModel(D, M, dtype=torch.float64)
    relative.load({
        "weight": beta[:, None] * model.components, "phi": np.full((D, M), -80.0), "visible_bias": np.zeros(D),
        "visible_log_precision": np.log(beta), "hidden_bias": model.bias + 0.5 * alpha * mu * mu, "hidden_mean": mu,
        "hidden_log_precision": np.log(alpha),
    })  # fmt: skip
    # a state of the machine holds s h alone: where h is 0 its mass is spread over the slab's own normal density
    off = (1 - h) * norm(0, alpha**-0.5).logpdf(s)
    energy = relative.joint_energy({"visible": x, "hidden": np.hstack([s * h, h])}) - off.sum(1)
    reconstruction = (h * s) @ model.components.T
    rest = -joint - energy - 0.5 * (reconstruction * reconstruction) @ beta
    np.testing.assert_allclose(rest, rest[0], atol=1e-9)


@pytest.mark.spec("GEN-048")
def test_the_bound_of_any_q_by_quadrature_and_never_above_the_density():
    """E_Q[log p - log Q] with sums over spikes and Gauss-Hermite nodes for slabs: exact, for it is quadratic in s."""
    model, random = model_of(3, 2), np.random.default_rng(3)
    rows = rows_of(model, 6)
    h, s = random.random((6, 2)), random.normal(size=(6, 2))
    own = (model.components**2).T @ model.noise_precision
    nodes, weights = np.polynomial.hermite_e.hermegauss(6)
    weights = weights / weights.sum()
    total = np.zeros(6)
    for spikes in all_states(2):
        for (i, a), (j, b) in [(p, q) for p in enumerate(nodes) for q in enumerate(nodes)]:
            precision = model.slab_precision + spikes * own
            slabs = spikes * s + np.array([a, b]) / precision**0.5
            q = np.prod(np.where(spikes > 0, h, 1 - h), axis=1)
            log_q = np.log(q) + norm(spikes * s, precision**-0.5).logpdf(slabs).sum(1)
            z = (np.broadcast_to(spikes, (6, 2)), slabs)
            total += q * weights[i] * weights[j] * (model.log_joint(rows, z) - log_q)
    np.testing.assert_allclose(model.elbo(rows, h, s), total, rtol=1e-10)
    for seed in range(20):
        model = model_of(seed=seed)
        rows = rows_of(model)
        exact, found = log_density(model, rows), model.codes(rows)
        assert (found.elbo <= exact + 1e-9).all()
        random_q = np.random.default_rng(seed)
        assert (model.elbo(rows, random_q.random((20, M)), random_q.normal(size=(20, M))) <= exact + 1e-9).all()


@pytest.mark.spec("GEN-048")
@pytest.mark.parametrize("updates", ["sequential", "parallel"])
def test_where_mean_field_ends_the_bound_has_no_slope(updates):
    model = model_of(updates=updates, sweeps=2000, tol=1e-12)
    rows = rows_of(model, 5)
    found = model.codes(rows)
    assert found.residual.max() < 1e-8
    slopes = (
        numerical_gradient(lambda z: model.elbo(rows, expit(z), found.slabs).sum(), logit(found.spikes)),
        numerical_gradient(lambda s: model.elbo(rows, found.spikes, s).sum(), found.slabs),
    )
    np.testing.assert_allclose(slopes, 0, atol=1e-5)


@pytest.mark.spec("GEN-048")
@pytest.mark.parametrize("updates", ["sequential", "parallel"])
def test_components_that_do_not_overlap_have_an_exact_posterior(updates):
    """Columns orthogonal under beta: the posterior factorizes, and one undamped round finds it."""
    model = model_of(updates=updates, sweeps=1, damping=0.0)
    random = np.random.default_rng(5)
    basis = np.linalg.qr(random.normal(size=(D, D)))[0][:, :M] * random.uniform(0.5, 3, size=M)
    model.components = basis / np.sqrt(model.noise_precision)[:, None]
    rows = rows_of(model)
    found = model.codes(rows)
    np.testing.assert_allclose(found.elbo, log_density(model, rows), rtol=1e-10)
    log_p, codes = model.log_by_spikes(rows)
    posterior = np.exp(log_p - np.logaddexp.reduce(log_p, axis=1, keepdims=True))
    np.testing.assert_allclose(found.spikes, posterior @ SPIKES, atol=1e-10)
    np.testing.assert_allclose(found.spikes * found.slabs, (posterior[..., None] * codes).sum(1), atol=1e-10)


@pytest.mark.spec("GEN-048")
def test_all_at_once_overlapping_components_swing_and_damped_steps_settle():
    """Four components alike: undamped they all explain the row, and then none does; the bound falls each time."""
    model = model_of(2, 4)
    model.components = np.array([[2.0, 2.0, 2.0, 2.0], [1.0, 1.01, 0.99, 1.02]])
    model.noise_precision, model.slab_mean, model.bias = np.full(2, 10.0), np.full(4, 0.5), np.zeros(4)
    rows = model.shift + model.unit * np.array([[2.0, 1.0]])
    h, s, swings = np.full((1, 4), 0.5), np.full((1, 4), 0.5), []
    for _ in range(20):
        h, s = model.damped(rows, h, s, 1.0)
        swings.append(float(model.elbo(rows, h, s)[0]))
    assert min(np.diff(swings)) < -1
    for damping in (0.0, 0.5, 0.9):
        bounds = []
        for sweeps in (1, 2, 4, 8, 16, 1000):
            model.updates, model.damping, model.sweeps, model.tol = "parallel", damping, sweeps, 1e-12
            bounds.append(float(model.codes(rows).elbo[0]))
        assert (np.diff(bounds) >= 0).all()
        assert model.codes(rows).residual[0] < 1e-6
    # one step that goes half way is the mean of the old means and their updates
    begin = (np.full((1, 4), 0.3), np.full((1, 4), 0.2))
    target = model.best(model.drive(rows, begin[0] * begin[1]))[1]
    half = model.damped(rows, *begin, 0.5)
    np.testing.assert_allclose(half[1], 0.5 * begin[1] + 0.5 * target)
    spikes = model.best(model.drive(rows, begin[0] * half[1]), half[1])[0]
    np.testing.assert_allclose(half[0], 0.5 * begin[0] + 0.5 * spikes)


@pytest.mark.spec("GEN-048")
def test_a_round_in_turn_never_lowers_the_bound():
    for seed in range(10):
        bounds = []
        for sweeps in (1, 2, 3, 5, 10, 50):
            model = model_of(3, 6, seed, sweeps=sweeps, tol=0.0)
            bounds.append(model.codes(rows_of(model)).elbo)
        assert (np.diff(bounds, axis=0) >= -1e-10).all()


@pytest.mark.spec("GEN-048")
def test_with_every_spike_on_it_is_factor_analysis_with_a_mean():
    """The density of scikit-learn's FactorAnalysis with the same loadings, its mean W mu."""
    random = np.random.default_rng(7)
    X = random.normal(size=(200, 2)) @ random.normal(size=(2, D)) + random.normal(size=(200, D)) + 2.0
    peer = FactorAnalysis(2).fit(X)
    mu = random.normal(size=2)
    model = SpikeAndSlabSparseCodingModel(peer.components_.T)
    model.bias, model.slab_mean, model.noise_precision = np.full(2, 40.0), mu, 1 / peer.noise_variance_
    model.shift = peer.mean_ - peer.components_.T @ mu
    np.testing.assert_allclose(model.log_prob(X), peer.score_samples(X), rtol=1e-10)


@pytest.mark.spec("GEN-048")
def test_an_m_step_leaves_no_slope():
    """Of the bound with the log prior, the Q held, by finite differences of every parameter."""
    model = model_of()
    rows, weight = rows_of(model, 40), np.random.default_rng(8).uniform(0.5, 2, size=40)
    model.floor = 1e-6
    q = model.approximate(rows)
    before = weight @ model.elbo(rows, **q) + model.log_prior()
    # an M step changes the variance of the slabs' Q with alpha; what it takes for E[s^2] is the old one
    variance = model._weights()[2]
    model.maximize(model.expect(rows, weight, q))
    scale = 1 / np.linalg.norm(_unscaled(rows, model, weight, q, variance), axis=0)
    state = {name: value.copy() for name, value in model.state().items()}
    slabs, spread = q["slabs"] / scale, variance / scale**2

    def expected(one):
        """E_Q[log p(x, h, s)] of the slabs that are on, term by term."""
        h, u = q["spikes"], q["spikes"] * slabs
        x = (rows - model.shift) / model.unit
        b, mu, alpha, beta, W = (one[k] for k in ("bias", "slab_mean", "slab_precision", "noise_precision",
                                                   "components"))  # fmt: skip
        prior = h * -np.logaddexp(0, -b) + (1 - h) * -np.logaddexp(0, b)
        slab = h * 0.5 * (np.log(alpha) - alpha * ((slabs - mu) ** 2 + spread))
        left = x - u @ W.T
        noise = 0.5 * np.log(beta) - 0.5 * beta * (left**2 + (h * (slabs**2 + spread) - u * u) @ (W * W).T)
        penalty = (-np.logaddexp(0, -b) - np.logaddexp(0, b)).sum()
        return weight @ (prior.sum(1) + slab.sum(1) + noise.sum(1)) + penalty

    for name in ("bias", "slab_mean", "slab_precision", "noise_precision", "components"):
        slope = numerical_gradient(lambda one, name=name: expected(state | {name: one}), state[name], 1e-5)
        np.testing.assert_allclose(slope, 0, atol=2e-3, err_msg=name)
    after = weight @ model.elbo(rows, q["spikes"], slabs) + model.log_prior()
    assert after > before


def _unscaled(rows, model, weight, q, variance):
    """The regression of rows on codes, before its columns are brought to length 1."""
    u, x = q["spikes"] * q["slabs"], (rows - model.shift) / model.unit
    pairs = (u * weight[:, None]).T @ u + np.diag(weight @ (q["spikes"] * (q["slabs"] ** 2 + variance) - u * u))
    return np.linalg.solve(pairs, ((x * weight[:, None]).T @ u).T).T


def planted(n=600, seed=0):
    random = np.random.default_rng(seed)
    atoms = np.linalg.qr(random.normal(size=(8, 8)))[0][:3]
    codes = (random.random((n, 3)) < [0.2, 0.3, 0.4]) * random.normal([3.0, 4.0, 5.0], 0.4, size=(n, 3))
    return atoms, codes @ atoms + 0.2 * random.normal(size=(n, 8))


@pytest.mark.spec("GEN-048")
@pytest.mark.parametrize("updates", ["sequential", "parallel"])
def test_a_fit_climbs_and_finds_planted_components(updates):
    atoms, X = planted(300)
    options = {"n_components": 3, "standardize": False, "updates": updates, "max_iter": 60, "tol": 1e-5}
    fits = [SpikeAndSlabSparseCoding(random_state=seed, **options).fit(X) for seed in range(2)]
    for fit in fits:
        assert (np.diff(fit.history_["objective"]) >= -1e-9).all()
    best = max(fits, key=lambda fit: fit.elbo(X).mean())
    match = np.abs(best.components_ @ atoms.T)
    order = max(permutations(range(3)), key=lambda p: sum(match[i, p[i]] for i in range(3)))
    assert min(match[i, order[i]] for i in range(3)) > 0.99
    np.testing.assert_allclose(best.spike_probabilities_, np.array([0.2, 0.3, 0.4])[list(order)], atol=0.07)
    assert (best.elbo(X) <= best.log_prob(X) + 1e-9).all()
    assert best.log_prob(X).mean() - best.elbo(X).mean() < 0.05
    again = best.inverse_transform(best.transform(X))
    assert np.sqrt(np.mean((again - X) ** 2)) < 0.25


@pytest.mark.spec("GEN-048")
def test_what_is_drawn_has_the_moments_of_the_model():
    """Means and covariances of 40,000 rows, each within 5 standard errors: a false alarm in 10^5."""
    model, n = model_of(), 40_000
    p, W, alpha, mu = 1 / (1 + np.exp(-model.bias)), model.components, model.slab_precision, model.slab_mean
    variance = p * (1 / alpha + mu**2) - (p * mu) ** 2
    covariance = np.outer(model.unit, model.unit) * (np.diag(1 / model.noise_precision) + (W * variance) @ W.T)
    rows = model.sample(n, Noise(3, "draws"))
    away = rows - (model.shift + model.unit * (W @ (p * mu)))
    products = away[:, :, None] * away[:, None, :]
    assert (np.abs(away.mean(0)) < 5 * away.std(0) / n**0.5).all()
    assert (np.abs(products.mean(0) - covariance) < 5 * products.std(0) / n**0.5).all()
    h, s = model.sample_prior(n, Noise(4, "draws"))
    assert np.abs(h.mean(0) - p).max() < 5 * 0.5 / n**0.5
    off = [s[h[:, i] == 0, i] for i in range(M)]
    assert all(abs(one.mean()) < 5 * one.std() / len(one) ** 0.5 for one in off)


@pytest.mark.spec("GEN-048")
def test_draws_of_q_estimate_the_density():
    """Importance sampling with Q as proposal: within 5 standard errors of the exact density."""
    model = model_of()
    rows = rows_of(model, 8)
    found = latent_log_prob(model, model, rows, 2000, Noise(0, "x"))
    assert (np.abs(found.value - log_density(model, rows)) < 5 * found.stderr + 1e-6).all()
    assert found.stderr.max() < 0.3


def test_units_of_the_columns_change_the_density_by_their_volume_alone():
    _, X = planted(200)
    options = {"n_components": 3, "random_state": 0, "max_iter": 10}
    plain, wide = SpikeAndSlabSparseCoding(**options).fit(X), SpikeAndSlabSparseCoding(**options).fit(10 * X + 3)
    np.testing.assert_allclose(wide.log_prob(10 * X + 3), plain.log_prob(X) - 8 * np.log(10), rtol=1e-8)
    np.testing.assert_allclose(wide.elbo(10 * X + 3), plain.elbo(X) - 8 * np.log(10), rtol=1e-8)
    many = SpikeAndSlabSparseCoding(n_components=11, random_state=0, max_iter=3).fit(X)
    assert not hasattr(many, "log_prob")
    score = many.evaluate(X)["log_likelihood"]
    assert score.kind == "lower bound"
    assert score.value >= many.elbo(X).mean()


@pytest.mark.parametrize("wrong", [np.zeros((1, 3)), np.full((5, 3), np.nan), np.zeros((0, 3)), "text"])
def test_rows_that_cannot_be_fitted_are_refused(wrong):
    with pytest.raises(UserError):
        SpikeAndSlabSparseCoding(n_components=2).fit(wrong)
    fit = SpikeAndSlabSparseCoding(n_components=2, max_iter=2, random_state=0).fit(planted(30)[1])
    with pytest.raises(UserError):
        fit.inverse_transform(np.zeros((2, 5)))
