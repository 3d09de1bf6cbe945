"""Deep belief networks of real columns, counts and numbers from 0 to 1, against mixtures written out."""

import numpy as np
import pytest
import torch
from scipy import integrate
from scipy.special import expit
from scipy.stats import kstest, multivariate_normal, norm, poisson, truncexpon

from gnomon.distributions.harmonium_units import PoissonUnits, TruncatedExponentialUnits
from gnomon.distributions.units import CenteredScaledGaussianUnits
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise
from gnomon.systems.energy._dbn_model import DBNModel
from gnomon.systems.energy.dbn import DBN
from gnomon.systems.energy.gaussian_rbm import GaussianRBMModel
from oracles.binary import all_states, log_sum, numerical_gradient, rbm_energy

W1, A, BETA = np.array([[1.0, 0.5], [-1.0, 0.5], [0.5, -1.0]]), np.array([0.1, -0.2, 0.3]), np.array([0.5, 1.5, 2.5])
B1, W2, B2 = np.array([-0.1, 0.2]), np.array([[0.5, -1.0, 0.3], [1.0, 0.2, -0.6]]), np.array([0.1, 0.2, -0.3])
R1, C1 = np.array([[0.4, -0.2], [0.7, 0.1], [-0.3, 0.5]]), np.array([0.2, -0.5])
ROWS = np.random.default_rng(0).normal(size=(9, 3)) * 1.5
H = all_states(2)
BRIEF = {"epochs": 30, "tune_epochs": 5, "batch_size": 50, "learning_rate": 0.1, "random_state": 0}


def deep(columns=CenteredScaledGaussianUnits, W1=W1, A=A, log_beta=None):
    """3 columns under 2 and 3 units, in float64."""
    model = DBNModel(3, (2, 3), torch.float64, columns)
    real = {"log_precision_0": np.log(BETA) if log_beta is None else log_beta}
    model.load(
        {"weight_1": W1, "bias_0": A, "bias_1": B1, "weight_2": W2, "bias_2": B2}
        | {"recognition_weight_1": R1, "recognition_bias_1": C1}
        | (real if columns is CenteredScaledGaussianUnits else {})
    )
    return model


def log_top():
    """log p(h_1) of the machine at the top, term by term."""
    energy = rbm_energy(W2, B1, B2)
    mass = np.array([log_sum([-energy(h, t) for t in all_states(3)]) for h in H])
    return mass - log_sum(list(mass))


def log_columns(rows, columns):
    """log p(v | h_1) of each row (n, 4), from a function of a natural parameter or a mean and the column's number."""
    return np.array([[sum(columns(i, (A + W1 @ h)[i], v[i]) for i in range(3)) for h in H] for v in rows])


def log_normals(rows):
    return log_columns(rows, lambda i, m, x: norm(m, BETA[i] ** -0.5).logpdf(x))


@pytest.mark.spec("GEN-011")
def test_the_density_is_a_finite_mixture_of_normal_ones():
    model = deep()
    parts = [
        w + multivariate_normal(A + W1 @ h, np.diag(1 / BETA)).logpdf(ROWS) for w, h in zip(log_top(), H, strict=True)
    ]
    found = model.log_prob(ROWS)
    np.testing.assert_allclose(found, np.logaddexp.reduce(parts), rtol=1e-11)
    np.testing.assert_allclose(model.log_prob(torch.from_numpy(ROWS)).detach(), found, rtol=1e-11)
    given = model.downward(1, H)
    np.testing.assert_allclose(given.mean, A + H @ W1.T, rtol=1e-12)
    np.testing.assert_allclose(given.variance, 1 / BETA, rtol=1e-12)
    one = DBNModel(1, (2, 1), torch.float64, CenteredScaledGaussianUnits)
    one.load(dict(one.state()) | {"weight_1": W1[:1], "log_precision_0": [0.9]})
    mass = integrate.quad(lambda x: np.exp(one.log_prob(np.array([[x]]))[0]), -12, 12, epsabs=1e-12)[0]
    assert mass == pytest.approx(1, abs=1e-10)


@pytest.mark.spec("GEN-011")
def test_the_bound_is_that_of_the_way_up_by_enumeration():
    model, log_q = deep(), np.array([[sum(norm_bits(R1, C1, v, h)) for h in H] for v in ROWS])
    bound = (np.exp(log_q) * (log_normals(ROWS) + log_top() - log_q)).sum(1)
    np.testing.assert_allclose(model.exact_bound(ROWS), bound, rtol=1e-11)
    assert (bound < model.log_prob(ROWS)).all()


def norm_bits(R, r, v, h):
    chance = expit(r + v @ R)
    return np.log(np.where(h == 1, chance, 1 - chance))


@pytest.mark.spec("GEN-011")
def test_one_hidden_layer_is_the_machine_of_real_columns():
    """Density, conditionals, log Z and gradients of the energy, by tensors too."""
    model = DBNModel(3, (2,), torch.float64, CenteredScaledGaussianUnits)
    model.load({"weight_1": W1, "bias_0": A, "bias_1": B1, "log_precision_0": np.log(BETA)})
    other, pair, weight = GaussianRBMModel.of(W1, A, B1, BETA), model.pair(1), np.linspace(-1.0, 2.0, 9)
    np.testing.assert_allclose(model.log_prob(ROWS), other.log_prob(ROWS), rtol=1e-12)
    np.testing.assert_allclose(model.exact_bound(ROWS), other.log_prob(ROWS), rtol=1e-12)
    np.testing.assert_allclose(model.means_up(ROWS)[0], other.conditional("hidden", {"visible": ROWS}).mean, rtol=1e-12)
    assert pair.log_partition() == pytest.approx(other.log_partition(), rel=1e-13)
    names = {
        "weight_1": "weight",
        "bias_0": "visible_bias",
        "bias_1": "hidden_bias",
        "log_precision_0": "visible_log_precision",
    }
    for x, w in ((ROWS, weight), (torch.from_numpy(ROWS), torch.from_numpy(weight))):
        found = {model.owner(name): g for name, g in pair.marginal_gradient({"hidden_0": x}, w).items()}
        wanted = other.marginal_gradient({"visible": x}, w)
        assert set(found) == set(names)
        for own, name in names.items():
            np.testing.assert_allclose(found[own], wanted[name], rtol=1e-11, atol=1e-12)


@pytest.mark.spec("GEN-011")
def test_gradients_of_wake_and_sleep_by_finite_differences():
    """Of log p(v, h) below the top by W, a, log beta, and of log q by the way up; each row with a weight of its own."""
    model, weight = deep(), np.linspace(0.2, 2.0, 9)
    h = H[np.arange(9) % 4]
    found = model.generative_gradient([ROWS, h], weight)
    assert set(found) == {"weight_1", "bias_0", "log_precision_0"}

    def cost(**changed):
        return -float(weight @ deep(**changed).log_prob_down([ROWS, h]))

    for name, key, value in (("weight_1", "W1", W1), ("bias_0", "A", A), ("log_precision_0", "log_beta", np.log(BETA))):
        wanted = numerical_gradient(lambda x, key=key: cost(**{key: x}), value)
        np.testing.assert_allclose(found[name], wanted, rtol=1e-6, atol=1e-7, err_msg=name)
    tensors = [torch.from_numpy(ROWS), torch.from_numpy(h)]
    by_torch = model.generative_gradient(tensors, torch.from_numpy(weight))
    for name, value in by_torch.items():
        np.testing.assert_allclose(value, found[name], rtol=1e-10, atol=1e-11)
    model.zero_grad()
    (-torch.from_numpy(weight) * model.log_prob_up(tensors)).sum().backward()
    for name, value in model.recognition_gradient([ROWS, h], weight).items():
        np.testing.assert_allclose(value, model.get_parameter(name).grad, rtol=1e-10, atol=1e-11)


@pytest.mark.spec("GEN-011")
def test_draws_follow_the_mixture_and_means_have_no_noise():
    """Kolmogorov-Smirnov of each column against its own mixture, 1e-4 each: a false alarm in 3,000."""
    model, n = deep(), 20_000
    rng = np.random.default_rng(1)
    top = H[rng.choice(4, n, p=np.exp(log_top()))]
    rows = model.draw_down(top, Noise(0, "down").rows(np.arange(n)))[0]
    for i in range(3):

        def cdf(x, i=i):
            return sum(
                w * norm((A + W1 @ h)[i], BETA[i] ** -0.5).cdf(x) for w, h in zip(np.exp(log_top()), H, strict=True)
            )

        assert kstest(rows[:, i], cdf).pvalue > 1e-4
    X = groups()
    network = DBN(hidden=(2, 2), visible="gaussian", **BRIEF).fit(X)
    noisy, clean = (network.sample(3000, steps=60, means=means, random_state=1) for means in (False, True))
    centers = network.from_visible(network.model_.downward(1, H).mean)
    assert np.abs(clean[:, None] - centers).max(2).min(1).max() < 1e-9 * np.abs(centers).max()
    left = (noisy - clean) * np.sqrt(network.precision_)
    assert (np.abs(left.mean(0)) < 4.5 / np.sqrt(3000)).all()  # false alarm below 1e-4
    np.testing.assert_allclose(left.std(0), 1, atol=4.5 / np.sqrt(6000))


def groups(n=600, seed=0):
    """Two groups in columns of different units, with a spread of their own."""
    random = np.random.default_rng(seed)
    group = random.integers(0, 2, (n, 1)) * 1.0
    return group * [30.0, 0.04, -2.0] + random.normal(size=(n, 3)) * [5.0, 0.01, 0.5] + [100.0, 0.0, 7.0]


@pytest.mark.spec("GEN-011")
@pytest.mark.parametrize("standardize", [True, False])
def test_a_fit_learns_precisions_and_its_scores_are_densities_of_the_columns(standardize):
    """The mixture in the data's own units from what the attributes say; precisions above those of the columns."""
    X = groups() if standardize else (groups() - [115.0, 0.02, 6.0]) / [15.8, 0.022, 1.12] * [2.0, 1.0, 0.7]
    network = DBN(hidden=(2, 2), visible="gaussian", standardize=standardize, **BRIEF).fit(X)
    unit, shift = (X.std(0), X.mean(0)) if standardize else (np.ones(3), np.zeros(3))
    pair = network.model_.pair(2)
    weights = -pair.marginal_energy({"hidden_1": H}) - pair.log_partition()
    centers = (network.biases_[0] + H @ network.weights_[0].T) * unit + shift
    parts = [
        w + multivariate_normal(m, np.diag(1 / network.precision_)).logpdf(X)
        for w, m in zip(weights, centers, strict=True)
    ]
    found = network.log_prob(X)
    np.testing.assert_allclose(found, np.logaddexp.reduce(parts), rtol=1e-8)
    assert (network.precision_ * X.var(0) > 2).all()  # 1 were nothing learned; 10, 5 and 5 within the groups
    one = multivariate_normal(X.mean(0), np.diag(X.var(0))).logpdf(X).mean()
    assert found.mean() > one + 1.2
    score = network.evaluate(X)["log_likelihood"]
    assert (score.kind, score.data_space) == ("exact", "density on R^3")
    assert score.value == pytest.approx(found.mean(), rel=1e-9)
    bound = network.log_prob_bound(X)
    assert (bound <= found + 1e-9).all() and bound.mean() > found.mean() - 1
    np.testing.assert_allclose(network.from_visible(network.to_visible(X)), X, rtol=1e-9, atol=1e-9)


@pytest.mark.spec("GEN-011")
def test_bounds_of_draws_are_in_the_units_of_the_data_too():
    X = groups()
    network = DBN(hidden=(13, 3), visible="gaussian", epochs=20, tune_epochs=0, random_state=0).fit(X)
    score = network.evaluate(X)["log_likelihood"]
    assert not hasattr(network, "log_prob") and score.kind == "lower bound"
    one = multivariate_normal(X.mean(0), np.diag(X.var(0))).logpdf(X).mean()
    assert abs(score.value - one) < 3  # scores of standardized columns would lie 2.4 nats below and 8 above others
    assert score.value - 3 < network.log_prob_bound(X, draws=20).mean() < score.value  # of one draw, of 64


@pytest.mark.spec("GEN-011")
def test_precisions_stay_below_their_limit_in_every_stage():
    """Of two values the density is unbounded: a layer goes to the floor, and wake stays there."""
    two = np.repeat([[0.0], [5.0]], 20, axis=0)
    options = {
        "objective": "exact", "batch_size": None, "epochs": 300, "learning_rate": 0.05, "optimizer": "adam",
        "random_state": 0, "dtype": "float64", "floor": 0.2,
    }  # fmt: skip
    alone = DBN(hidden=(1,), visible="gaussian", **options).fit(two)
    assert 1 / np.sqrt(alone.precision_[0]) == pytest.approx(0.2 * two.std(), rel=1e-9)
    tuned = DBN(hidden=(1, 1), visible="gaussian", tune_epochs=30, tune_rate=1.0, **options).fit(two)
    assert 1 / np.sqrt(tuned.precision_[0]) == pytest.approx(0.2 * two.std(), rel=1e-9)
    still = np.column_stack([groups()[:, :2], np.full(600, 3.0)])
    constant = DBN(hidden=(2, 2), visible="gaussian", epochs=3, random_state=0).fit(still)
    assert np.isfinite(constant.score(still))


def test_the_way_up_of_a_fit_by_layers_is_that_of_its_machines():
    network = DBN(hidden=(3, 2), visible="gaussian", epochs=20, tune_epochs=0, dtype="float64", random_state=0)
    state = network.fit(groups()).model_.state()
    coupling = np.exp(state["log_precision_0"])[:, None] * state["weight_1"]
    np.testing.assert_allclose(state["recognition_weight_1"], coupling, rtol=1e-12)
    assert network.transform(groups()).shape == (600, 5)


@pytest.mark.spec("GEN-011")
@pytest.mark.parametrize("name", ["poisson", "truncated-exponential"])
def test_other_exponential_families_by_enumeration(name):
    rng = np.random.default_rng(3)
    if name == "poisson":
        model, rows = deep(PoissonUnits), rng.poisson(2.0, (9, 3)) * 1.0
        log = log_columns(rows, lambda i, f, x: poisson(np.exp(f)).logpmf(x))
    else:
        model, rows = deep(TruncatedExponentialUnits), rng.random((9, 3))
        log = log_columns(rows, lambda i, f, x: np.log(density(f, x)))
    np.testing.assert_allclose(model.log_prob(rows), np.logaddexp.reduce((log + log_top()).T), rtol=1e-9)
    X = rng.poisson(np.repeat([[1.0, 9.0, 4.0], [9.0, 1.0, 4.0]], 100, axis=0)) * 1.0
    X = X if name == "poisson" else X / X.max()
    network = DBN(hidden=(2, 2), visible=name, epochs=20, learning_rate=0.01, random_state=0).fit(X)
    assert network.evaluate(X)["log_likelihood"].value > network.domain.baseline(X).log_prob(X).mean()
    assert network.domain.check(network.sample(5, steps=10, random_state=0)).shape == (5, 3)


def density(f, x):
    """exp(f x) on [0, 1], of a falling slope by scipy."""
    return truncexpon(-f, scale=-1 / f).pdf(x) if f < 0 else truncexpon(f, scale=1 / f).pdf(1 - x)


def test_what_columns_hold_is_checked_by_their_kind():
    with pytest.raises(UserValueError, match=r"visible must be one of 'bernoulli', 'gaussian', 'poisson'"):
        DBN(visible="normal", random_state=0).fit(ROWS)
    with pytest.raises(UserValueError, match=r"in \[0, 1\]"):
        DBN(random_state=0).fit(ROWS)
    with pytest.raises(UserValueError, match="count"):
        DBN(visible="poisson", random_state=0).fit(ROWS)
    assert not hasattr(DBN(hidden=(2,), epochs=1, random_state=0).fit(np.eye(2)), "precision_")


def test_walks_at_any_depth_are_in_the_units_of_the_columns():
    X = groups()
    network = DBN(hidden=(3, 2), visible="gaussian", **BRIEF).fit(X)
    for rows in (network.gibbs(X, 5, depth=0), network.gibbs(X, 5), network.interpolate(X[0], X[1], 5)):
        assert (np.abs(rows.mean(0) - X.mean(0)) < 1.5 * X.std(0)).all()
    np.testing.assert_allclose(network.interpolate(X[0], X[1], 3, depth=0)[1], (X[0] + X[1]) / 2, rtol=1e-6)
    assert all(0 <= one.switch_rate <= 1 for one in network.mixing_by_depth(X, chains=3, steps=5))
