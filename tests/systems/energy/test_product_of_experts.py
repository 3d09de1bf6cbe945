"""Products of experts: closed forms of normal ones, quadrature, enumeration, finite differences, and learned log c."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm

import gnomon
from gnomon.distributions.units import BernoulliUnits, GaussianUnits
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.score import Score
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import CD, PCD, EnergyObjective
from gnomon.objectives.fresh_chains import MCMC
from gnomon.objectives.noise_contrastive import NCE
from gnomon.objectives.score_matching import ScoreMatching
from gnomon.objectives.transitions import HamiltonianMoves
from gnomon.recipes.recipe import shorts
from gnomon.systems.energy.experts import (
    BernoulliExpert,
    Harmony,
    HarmonyExpert,
    Network,
    NetworkExpert,
    NormalExpert,
    Product,
    StudentExpert,
    StudentT,
)
from gnomon.systems.energy.product_of_experts import Normalization, ProductOfExperts, ProductOfExpertsModel
from oracles.binary import all_states
from oracles.layered import assert_same, by_differences

PRECISIONS = (np.array([[2.0, 0.6], [0.6, 1.0]]), np.array([[0.5, -0.2], [-0.2, 1.5]]))
MEANS = (np.array([1.0, -1.0]), np.array([0.0, 2.0]))


def normals():
    return ProductOfExpertsModel(
        [NormalExpert.of(*one) for one in zip(MEANS, PRECISIONS, strict=True)], GaussianUnits(2)
    )


def network(d=1, seed=0, scale=1.5):
    expert = NetworkExpert(d, (5, 4), torch.float64)
    random = np.random.default_rng(seed)
    with torch.no_grad():
        for value in expert.parameters():
            value.copy_(torch.from_numpy(scale * random.normal(size=tuple(value.shape))))
    return expert


def mixed():
    """One column, three kinds of experts."""
    student = StudentExpert.of([[1.5, -0.7]], [1.2, 2.0], [0.3, -1.0])
    return ProductOfExpertsModel([NormalExpert.of([0.5], [[0.8]]), student, network()], GaussianUnits(1))


def mass(model):
    return quad(lambda x: math.exp(-float(model.energy(np.array([[x]]))[0])), -30, 30, epsabs=1e-12, limit=400)[0]


# --- REP-139: the energy and what follows from it ---------------------------------------------------------------------


@pytest.mark.spec("REP-139")
def test_the_energy_is_a_sum_whose_factors_multiply_and_a_constant_changes_nothing():
    model, x = mixed(), np.linspace(-3, 3, 7)[:, None]
    factors = [np.exp(-expert(torch.from_numpy(x)).detach().numpy()) for expert in model.experts]
    np.testing.assert_allclose(np.exp(model.log_prob_unnormalized(x)), np.prod(factors, axis=0), rtol=1e-12)
    z, y = mass(model), x[:, 0]
    np.testing.assert_allclose(model.log_prob(x), -model.energy(x) - math.log(z), atol=1e-6)
    by_hand = 0.4 * (y - 0.5) ** 2 + 1.2 * np.log1p((1.5 * y + 0.3) ** 2 / 2) + 2.0 * np.log1p((0.7 * y + 1) ** 2 / 2)
    np.testing.assert_allclose(-np.log(factors[0] * factors[1]), by_hand, atol=1e-12)

    class Constant(torch.nn.Module):
        def forward(self, x):
            return 0 * x[:, 0] + 7.0

    lifted = ProductOfExpertsModel([*model.experts, Constant()], GaussianUnits(1))
    np.testing.assert_allclose(lifted.energy(x) - model.energy(x), 7.0, atol=1e-12)
    np.testing.assert_allclose(lifted.log_prob(x), model.log_prob(x), atol=1e-7)
    np.testing.assert_allclose(lifted.score(x), model.score(x), atol=1e-12)


@pytest.mark.spec("REP-139")
def test_a_quadratic_energy_is_a_normal_density():
    """scipy's density; no row has the probability 0 where its exponential does not underflow."""
    model, x = ProductOfExpertsModel([NormalExpert.of(MEANS[0], PRECISIONS[0])], GaussianUnits(2)), np.eye(2) * 3
    wanted = multivariate_normal(MEANS[0], np.linalg.inv(PRECISIONS[0]))
    np.testing.assert_allclose(model.log_prob(x), wanted.logpdf(x), atol=1e-12)
    np.testing.assert_allclose(model.score(x), -(x - MEANS[0]) @ PRECISIONS[0], atol=1e-12)
    assert (np.exp(model.log_prob(x * 5)) > 0).all()


@pytest.mark.spec("REP-139")
@pytest.mark.parametrize("d", [1, 2])
def test_the_score_and_every_gradient_by_finite_differences(d):
    experts = [
        NormalExpert.of(np.full(d, 0.5), 0.8 * np.eye(d) + 0.1),
        StudentExpert.of(np.ones((d, 2)) * [1.0, -0.5] + 0.2, [1.2, 2.0], [0.3, -1.0]),
        network(d),
        BernoulliExpert.of(np.full(d, 0.7)),
        HarmonyExpert(network(d, 1, 0.3)),
    ]
    model = ProductOfExpertsModel(experts, GaussianUnits(d), learn_log_c=True)
    random = np.random.default_rng(0)
    x, weight = random.normal(size=(5, d)), random.uniform(0.5, 2, 5)
    slope = np.stack([(model.energy(x - e) - model.energy(x + e)) / 2e-6 for e in 1e-6 * np.eye(d)], axis=1)
    np.testing.assert_allclose(model.score(x), slope, atol=1e-7)
    wanted = by_differences(model, lambda m: float(weight @ m.energy(x)))
    found = model.marginal_gradient({"visible": x}, weight)
    assert found["log_c"] == 0 and wanted["log_c"] == 0
    assert_same(found, wanted, 1e-6)


@pytest.mark.spec("REP-139")
def test_what_has_no_integral_is_refused_and_the_sign_of_imported_energies_is_turned():
    improper = [network(), StudentExpert.of([[1.0]], [0.4]), BernoulliExpert.of([1.0])]
    for expert in improper:
        model = ProductOfExpertsModel([expert], GaussianUnits(1))
        assert model.normalizable() is False
        with pytest.raises(UserValueError, match="cannot be normalized over the real line"):
            model.log_partition()
    with pytest.raises(UserValueError, match="precision must be positive definite, got -1 as its least eigenvalue"):
        NormalExpert.of([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]])
    X = np.random.default_rng(0).normal(size=(30, 2))
    for experts in ("network", "bernoulli", "harmony", StudentT(n=1), Product("network", "student-t")):
        with pytest.raises(UserValueError, match="cannot be normalized over the real line"):
            ProductOfExperts(experts=experts, random_state=0).fit(X)

    class Grows(torch.nn.Module):
        """exp(x^2), which is not known to be improper before it is integrated."""

        def __init__(self):
            super().__init__()
            self.rate = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))

        def forward(self, x):
            return -self.rate * (x * x).sum(-1)

    unknown = ProductOfExpertsModel([Grows()], GaussianUnits(1))
    assert unknown.normalizable() is None
    with pytest.raises(UserValueError, match="integral did not converge"):
        unknown.log_partition()
    turned = ProductOfExpertsModel([HarmonyExpert(Grows())], GaussianUnits(1))
    assert turned.log_partition() == pytest.approx(0.5 * math.log(math.pi), abs=1e-6)
    fitted = ProductOfExperts(experts=Harmony(lambda d, dtype: Grows().to(dtype)), epochs=20, random_state=0).fit(X)
    assert np.isfinite(fitted.score(X))


@pytest.mark.spec("REP-139")
def test_the_verbs_of_a_fitted_system_agree_with_each_other_and_with_its_draws():
    """log p = -energy - log Z integrates to 1; the score is its slope; means and variances of 1,000 chains within 5
    standard errors of quadrature."""
    random = np.random.default_rng(0)
    X = 3 + 0.5 * np.concatenate([random.normal(-2, 0.5, 200), random.normal(1, 1, 200)])[:, None]
    model = ProductOfExperts(objective="score-matching", dtype="float64", epochs=40, random_state=0).fit(X)
    grid = np.linspace(-3, 9, 6001)[:, None]
    p = np.exp(model.log_prob(grid))
    assert np.trapezoid(p, grid[:, 0]) == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(model.log_prob_unnormalized(grid) - model.log_c, model.log_prob(grid), atol=1e-9)
    step = 1e-5
    slope = (model.log_prob(grid + step) - model.log_prob(grid - step)) / (2 * step)
    np.testing.assert_allclose(model.score_function(grid)[:, 0], slope, atol=1e-5)
    drawn = model.sample(1000, steps=40, random_state=0)[:, 0]
    for power in (1, 2):
        wanted = np.trapezoid(p * grid[:, 0] ** power, grid[:, 0])
        spread = np.sqrt(np.trapezoid(p * grid[:, 0] ** (2 * power), grid[:, 0]) - wanted**2)
        assert abs((drawn**power).mean() - wanted) < 5 * spread / np.sqrt(1000)
    langevin = model.sample(300, steps=200, kernel=gnomon.inference.mcmc.hamiltonian.HMC(0.3, steps=1), random_state=0)
    with pytest.raises(UserTypeError, match="kernel must be a kernel, or one of"):
        model.sample(2, kernel=3)
    assert abs(langevin.mean() - X.mean()) < 0.3 and model.sample(0).shape == (0, 1)


# --- REP-141: products ------------------------------------------------------------------------------------------------


@pytest.mark.spec("REP-141")
def test_normal_experts_multiply_to_a_normal_density():
    model = normals()
    mean, precision = model.moments()
    np.testing.assert_allclose(precision, sum(PRECISIONS), atol=1e-12)
    pull = sum(one @ m for one, m in zip(PRECISIONS, MEANS, strict=True))
    np.testing.assert_allclose(mean, np.linalg.solve(sum(PRECISIONS), pull), atol=1e-12)
    x = np.random.default_rng(0).normal(size=(6, 2))
    wanted = multivariate_normal(mean, np.linalg.inv(precision))
    np.testing.assert_allclose(model.log_prob(x), wanted.logpdf(x), atol=1e-12)
    assert model._integrated() == pytest.approx(model.log_partition(), abs=1e-6)
    drawn = model.sample(20_000, Noise(0, "draws"))
    error = np.sqrt(np.diag(np.linalg.inv(precision)) / 20_000)
    assert (np.abs(drawn.mean(0) - mean) < 4.5 * error).all()
    np.testing.assert_allclose(np.cov(drawn.T), np.linalg.inv(precision), atol=0.02)
    with pytest.raises(UserTypeError, match="the moments are those of normal experts alone"):
        mixed().moments()


@pytest.mark.spec("REP-141")
def test_log_odds_of_bernoulli_experts_add():
    b = [np.array([1.0, -0.5, 0.2]), np.array([-0.3, 2.0, 0.1])]
    model = ProductOfExpertsModel([BernoulliExpert.of(one) for one in b], BernoulliUnits(3))
    V = all_states(3)
    p = np.exp(model.log_prob(V))
    assert p.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(p @ V, 1 / (1 + np.exp(-(b[0] + b[1]))), atol=1e-12)


@pytest.mark.spec("REP-141")
def test_one_column_by_quadrature():
    """Of three kinds of experts; a product of two is the normalized product of their densities."""
    model = mixed()
    assert model.log_partition() == pytest.approx(math.log(mass(model)), abs=1e-6)
    alone = [
        ProductOfExpertsModel([expert], GaussianUnits(1))
        for expert in (NormalExpert.of([1.0], [[2.0]]), StudentExpert.of([[1.0]], [3.0]))
    ]
    both = ProductOfExpertsModel([*alone[0].experts, *alone[1].experts], GaussianUnits(1))
    x = np.linspace(-2, 3, 5)[:, None]
    product = lambda y: float(np.exp(sum(one.log_prob(np.array([[y]]))[0] for one in alone)))  # noqa: E731
    z = quad(product, -20, 20, epsabs=1e-11)[0]
    np.testing.assert_allclose(np.exp(both.log_prob(x)), [product(y) / z for y in x[:, 0]], atol=1e-6)


@pytest.mark.spec("REP-141")
def test_no_expert_rules_a_row_out():
    """Experts of the library are above 0 everywhere, so that no product is empty; two boxes apart are refused."""
    model = ProductOfExpertsModel(
        [NormalExpert.of([-40.0], [[1.0]]), NormalExpert.of([40.0], [[1.0]])], GaussianUnits(1)
    )
    assert model.log_prob(np.zeros((1, 1)))[0] == pytest.approx(norm(0, math.sqrt(0.5)).logpdf(0), abs=1e-9)

    class Box(torch.nn.Module):
        """0 between two ends, infinite elsewhere: an expert that rules rows out."""

        def __init__(self, low):
            super().__init__()
            self.low = torch.nn.Parameter(torch.full((1,), low, dtype=torch.float64))

        def forward(self, x):
            inside = (x[:, 0] > self.low) & (x[:, 0] < self.low + 2)
            return torch.where(inside, 0.0, torch.inf).to(x)

    empty = ProductOfExpertsModel([Box(0.0), Box(5.0)], GaussianUnits(1))
    with pytest.raises(UserValueError, match="integral did not converge"):
        empty.log_partition()
    with pytest.raises(UserValueError, match="a product needs an expert"):
        ProductOfExpertsModel([], GaussianUnits(1))


@pytest.mark.spec("REP-141")
@pytest.mark.parametrize(
    "objective", [ScoreMatching(), CD(transition=HamiltonianMoves(0.3, steps=5)), NCE(nu=5)], ids=lambda one: one.short
)
def test_a_fit_finds_the_product_that_made_the_rows(objective):
    """Two normal experts on 2,000 rows of a normal density: the sum of their precisions and their mean, as by maximum
    likelihood up to 0.15; each principle by itself."""
    X = normals().sample(2000, Noise(1, "rows"))
    model = ProductOfExperts(
        experts=Product("normal", "normal"), objective=objective, epochs=60, batch_size=500, learning_rate=0.02,
        standardize=False, dtype="float64", random_state=0,
    ).fit(X)  # fmt: skip
    found = model.model_.moments()
    np.testing.assert_allclose(found[0] + model._shift(), X.mean(0), atol=0.15)
    np.testing.assert_allclose(found[1], np.linalg.inv(np.cov(X.T)), atol=0.35)
    best = multivariate_normal(X.mean(0), np.cov(X.T)).logpdf(X).mean()
    assert best - 0.02 < model.score(X) <= best + 1e-9


# --- BAY-100: a learned log c -----------------------------------------------------------------------------------------


@pytest.mark.spec("BAY-100")
def test_log_c_of_the_row_and_the_likelihood_that_has_no_maximum():
    """exp(-u^2 / 2): log c = .9189385. The likelihood with a free log c rises by 1 for each nat that log c falls."""
    model = ProductOfExpertsModel([NormalExpert.of([0.0], [[1.0]])], GaussianUnits(1), learn_log_c=True)
    assert model.log_partition() == pytest.approx(0.9189385, abs=5e-8)
    assert model._integrated() == pytest.approx(0.9189385, abs=1e-6)
    x = np.random.default_rng(0).normal(size=(50, 1))
    rises, place = [], torch.from_numpy(x)
    for _ in range(300):
        likelihood = (model.log_prob_unnormalized(place) - model.log_c).mean()
        slopes = torch.autograd.grad(likelihood, list(model.parameters()))
        with torch.no_grad():
            for value, slope in zip(model.parameters(), slopes, strict=True):
                value += 0.1 * slope
        rises.append(float(likelihood.detach()))
    assert (np.diff(rises) > 0).all() and rises[-1] - rises[-2] > 0.09
    assert float(model.log_c.detach()) < -25


@pytest.mark.spec("BAY-100")
def test_what_would_run_away_is_refused():
    X = np.random.default_rng(0).normal(size=(60, 1))
    for short in shorts(EnergyObjective):
        if short == "nce":
            continue
        with pytest.raises(UserValueError, match="the likelihood grows without bound as log c falls"):
            ProductOfExperts(learn_log_c=True, objective=short, random_state=0).fit(X)
    with pytest.raises(UserValueError, match="without bound"):
        ProductOfExperts(learn_log_c=True, objective=PCD(transition="hmc"), random_state=0).fit(X)


def test_a_mass_beyond_all_numbers_is_infinite():
    found = Normalization(-1000.0, Score(5.0))
    assert found.mass == math.inf and "mass inf" in str(found)


def test_chains_that_begin_at_means_of_a_base_model_are_refused():
    with pytest.raises(UserTypeError, match=r"no base model.*start='noise'"):
        ProductOfExperts(objective=MCMC(start="means", transition="hmc"), random_state=0).fit(np.eye(3))


@pytest.mark.spec("BAY-100", "BAY-101")
def test_noise_contrastive_estimation_learns_log_c_beside_the_energy():
    """20,000 rows of N(0, 1) and 5 noise rows each: the variances of log alpha and log c are some 3 / n, so that 0.08
    is beyond 6 standard errors; the mass of the learned density is reported, and 1 within as much."""
    X = Noise(0, "data").rows(np.arange(20_000)).normal((20_000, 1), like=np.zeros(0))
    model = ProductOfExperts(
        experts="normal", objective=NCE(nu=5), learn_log_c=True, standardize=False, epochs=15, batch_size=500,
        learning_rate=0.01, dtype="float64", random_state=0,
    ).fit(X)  # fmt: skip
    _, precision = model.model_.moments()
    assert precision[0, 0] == pytest.approx(1, abs=0.08)
    assert model.log_c == pytest.approx(0.9189385, abs=0.08)
    found = model.normalized()
    assert found.log_c == model.log_c and found.log_z.value == pytest.approx(
        0.5 * math.log(2 * math.pi / precision[0, 0]), abs=1e-9
    )
    assert found.mass == pytest.approx(math.exp(found.log_z.value - found.log_c)) == pytest.approx(1, abs=0.1)
    note = model.evaluate(X[:100])["log_likelihood"].note
    assert f"learned log c {model.log_c:.4f}" in note and f"mass {found.mass:.4f}" in note


@pytest.mark.spec("BAY-100")
def test_log_c_and_the_mass_are_in_the_units_of_the_data(tmp_path):
    """Rows of another scale: log c grows by the log of the units, by quadrature of the learned density; a saved fit
    says the same."""
    random = np.random.default_rng(0)
    X = 100 + 20 * np.concatenate([random.normal(-2, 0.5, 300), random.normal(1, 1, 300)])[:, None]
    model = ProductOfExperts(
        experts=Product("normal", Network(hidden=(8,))), objective=NCE(nu=4), learn_log_c=True, epochs=30,
        dtype="float64", random_state=0,
    ).fit(X, run=tmp_path / "run")  # fmt: skip
    grid = np.linspace(-100, 300, 40_001)[:, None]
    area = np.trapezoid(np.exp(model.log_prob_unnormalized(grid) - model.log_c), grid[:, 0])
    assert model.normalized().mass == pytest.approx(area, rel=1e-5)
    assert 0.8 < area < 1.25
    loaded = gnomon.load(tmp_path / "run")
    assert loaded.log_c == model.log_c and loaded.normalized().mass == pytest.approx(model.normalized().mass)


@pytest.mark.spec("BAY-100")
def test_beyond_two_columns_the_check_is_an_estimate_with_its_error():
    """Two normal experts and a network that is nothing: log Z of five columns by annealing, against the closed form."""
    X = np.random.default_rng(0).normal(size=(200, 5)) @ np.tril(np.full((5, 5), 0.5))
    model = ProductOfExperts(objective="nce", learn_log_c=True, epochs=5, dtype="float64", random_state=0).fit(X)
    with torch.no_grad():
        model.model_.experts[1].last.weight.zero_()
    model._memory.clear()
    _, precision = model._held().moments()
    wanted = 2.5 * math.log(2 * math.pi) - 0.5 * np.linalg.slogdet(precision)[1] + np.log(model._unit()).sum()
    score = model.normalized().log_z
    assert score.kind == "estimate" and not hasattr(model, "log_prob")
    assert abs(score.value - wanted) < 4.5 * score.error + 1e-6
