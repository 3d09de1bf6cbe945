"""Noise-contrastive estimation against enumeration of data and noise, closed-form optima and asymptotic errors."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import gnomon
from gnomon.data.batches import Batch
from gnomon.distributions.units import BernoulliUnits, IsingUnits, ScaledGaussianUnits
from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.noise import Noise
from gnomon.objectives.noise_contrastive import NCE, ContrastNoise
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.rbm import RBM, RBMModel
from gnomon.training.group import Group
from oracles.binary import all_states
from oracles.layered import assert_same, by_differences, filled, machine_of

TINY = (np.array([[1.0, -1.0], [0.5, 0.5], [-1.0, 2.0]]), np.array([0.1, -0.2, 0.3]), np.array([0.0, -0.5]))


class Whole:
    """The rows as one batch."""

    def __init__(self, X, weight=None):
        numbers = np.arange(len(X))
        self.batch = Batch({"X": X}, numbers, numbers, np.ones(len(X)) if weight is None else weight)

    def epoch(self, e):
        return [self.batch]


@dataclass(frozen=True)
class Listed(ContrastNoise):
    """Noise whose draws are these rows in turn, with these log densities by state."""

    rows: object = None
    density: object = None

    def distribution(self, units, mean, variance):
        return self

    def sample(self, noise, n, draw, like):
        return self.rows[draw]

    def log_prob(self, x):
        return np.array([np.log(self.density[tuple(row)]) for row in x])


def begun(model, X, weight=None, recipe=None):
    objective = (recipe or NCE()).build()
    objective.begin(model, Whole(X, weight), Noise(0, "begin"), Group())
    return objective


def loss_of(objective, model, X, weight=None, noise=None):
    return objective(model, Whole(X, weight).batch, noise=noise or Noise(0, "fit"), phase="fit", group=Group())


def pairs_of(states, P, Q, nu):
    """All combinations of a row and nu noise rows with their probabilities."""
    grids = np.meshgrid(*[np.arange(len(states))] * (1 + nu), indexing="ij")
    index = [grid.ravel() for grid in grids]
    weight = P[index[0]] * np.prod([Q[one] for one in index[1:]], axis=0)
    return states[index[0]], [states[one] for one in index[1:]], weight


@pytest.mark.spec("INF-55", "BAY-101")
@pytest.mark.parametrize("nu", [1, 2])
def test_the_expected_loss_and_its_gradient_by_enumeration(nu):
    """Every row with every noise of its own, weighted by their probabilities; log Z off the truth."""
    model, V, random = RBMModel.of(*TINY), all_states(3), np.random.default_rng(0)
    P, Q = random.dirichlet(np.ones(8)), random.dirichlet(np.ones(8))
    X, noises, weight = pairs_of(V, P, Q, nu)
    density = {tuple(v): q for v, q in zip(V, Q, strict=True)}
    objective = _fixed(model, X, NCE(nu=nu, noise=Listed(noises, density)), 3.5)
    loss = loss_of(objective, model, X, weight)

    def population(m, log_z=3.5):
        log_m = -m.energy(V) - log_z
        h = 1 / (1 + nu * np.exp(np.log(Q) - log_m))
        return -(P @ np.log(h) + nu * Q @ np.log(1 - h)) / (1 + nu)

    assert loss.terms["noise_contrast"].sum == pytest.approx(population(model), abs=1e-12)
    gradients = dict(loss.gradients)
    slope = gradients.pop("objective/log_z")[0]
    assert slope == pytest.approx((population(model, 3.5 + 1e-5) - population(model, 3.5 - 1e-5)) / 2e-5, abs=1e-9)
    assert_same(gradients, by_differences(model, population), 1e-8)
    assert loss.terms["log_normalizer"].sum == pytest.approx(3.5)


def _fixed(model, X, recipe, log_z):
    """The objective with a given log Z and without its first estimate, which asks the noise for draws."""
    objective = recipe.build()
    for name in ("mean", "variance"):
        objective.register_buffer(name, torch.zeros(X.shape[1], dtype=torch.float64))
    objective.log_z.data = torch.tensor([log_z], dtype=torch.float64)
    return objective


@pytest.mark.spec("INF-55", "BAY-101")
def test_a_model_that_is_the_noise_has_the_loss_log_2():
    """And log Z then starts at the truth, whatever was drawn."""
    X = (np.random.default_rng(0).random((50, 4)) < [0.2, 0.5, 0.7, 0.9]).astype(float)
    p = X.mean(0)
    machine = LayeredMachine({"v": BernoulliUnits(4)}, [], dtype=torch.float64)
    machine.load({"v_bias": np.log(p / (1 - p))})
    objective = begun(machine, X)
    assert float(objective.log_z.detach()) == pytest.approx(-np.log1p(-p).sum(), abs=1e-12)
    loss = loss_of(objective, machine, X)
    assert loss.terms["noise_contrast"].sum / 50 == pytest.approx(0.6931472, abs=1e-7)


@pytest.mark.spec("INF-55", "BAY-101")
def test_the_optimum_of_two_states_has_the_data_s_scale():
    """Data (.7, .3), uniform noise: log-weights recover both masses; the loss is log 2 - JSD = .6721413."""
    machine = LayeredMachine({"v": BernoulliUnits(1)}, [], dtype=torch.float64)
    P, Q, V = np.array([0.7, 0.3]), np.array([0.5, 0.5]), all_states(1)
    X, noises, weight = pairs_of(V, P, Q, 1)
    recipe = NCE(noise=Listed(noises, {(0.0,): 0.5, (1.0,): 0.5}))

    def objective(theta):
        machine.load({"v_bias": theta[:1]})
        loss = loss_of(_fixed(machine, X, recipe, theta[1]), machine, X, weight)
        return loss.terms["noise_contrast"].sum, np.concatenate(
            [loss.gradients["v_bias"], loss.gradients["objective/log_z"]]
        )

    found = minimize(objective, np.zeros(2), jac=True, method="BFGS", options={"gtol": 1e-10})
    masses = np.exp(np.array([0.0, found.x[0]]) - found.x[1])
    np.testing.assert_allclose(masses, P, atol=1e-7)
    M = (P + Q) / 2
    divergence = (P @ np.log(P / M) + Q @ np.log(Q / M)) / 2
    assert found.fun == pytest.approx(np.log(2) - divergence, abs=1e-10)
    assert found.fun == pytest.approx(0.6721413, abs=1e-7)


def asymptotic_variance(nu, n):
    """Of log precision and log Z at a standard normal with the noise N(0, 1.3^2), by quadrature (Gutmann 2012)."""
    x = np.linspace(-12, 12, 200_001)
    step = x[1] - x[0]
    p, q = (np.exp(-((x / s) ** 2) / 2) / (s * np.sqrt(2 * np.pi)) for s in (1.0, 1.3))
    share = nu * q / (p + nu * q)
    g = np.array([-0.5 * x * x, -np.ones_like(x)])  # d log p_m by log precision and log Z
    fisher = np.einsum("in,jn,n->ij", g, g, share * p) * step
    mean = (g * share * p).sum(1) * step
    inverse = np.linalg.inv(fisher)
    return (inverse - (1 + 1 / nu) * np.outer(inverse @ mean, inverse @ mean)) / n


@dataclass(frozen=True)
class Wide(ContrastNoise):
    """N(0, 1.3^2)."""

    def distribution(self, units, mean, variance):
        return self

    def sample(self, noise, n, draw, like):
        return 1.3 * noise.normal((n, 1), draw, like=like)

    def log_prob(self, x):
        return -0.5 * (x[:, 0] / 1.3) ** 2 - np.log(1.3 * np.sqrt(2 * np.pi))


@pytest.mark.spec("INF-55", "BAY-101")
def test_a_normal_density_within_its_asymptotic_errors():
    """exp(-alpha u^2 / 2) at alpha = 1, log Z = .9189385: within 4.5 standard errors, false alarm below 1e-4.

    With much noise the error is that of maximum likelihood, 2 / n for the logarithm of alpha, and the two estimates
    agree far within it.
    """
    n = 20_000
    X = Noise(0, "data").rows(np.arange(n)).normal((n, 1), like=np.zeros(0))
    likeliest = -np.log((X**2).mean())
    assert asymptotic_variance(1000, n)[0, 0] * n == pytest.approx(2, rel=5e-3)
    assert asymptotic_variance(1, n)[0, 0] * n > 3
    for nu in (1, 30):
        machine = LayeredMachine({"v": ScaledGaussianUnits(1)}, [], dtype=torch.float64)
        recipe = NCE(nu=nu, noise=Wide())

        def objective(theta, machine=machine, recipe=recipe):
            machine.load({"v_bias": np.zeros(1), "v_log_precision": theta[:1]})
            loss = loss_of(_fixed(machine, X, recipe, theta[1]), machine, X)
            slopes = [loss.gradients["v_log_precision"], loss.gradients["objective/log_z"]]
            return loss.terms["noise_contrast"].sum / n, np.concatenate(slopes) / n

        found = minimize(objective, np.array([0.3, 0.3]), jac=True, method="BFGS", options={"gtol": 1e-8})
        error = np.sqrt(np.diag(asymptotic_variance(nu, n)))
        assert np.abs(found.x - [0, 0.9189385]).max() < 4.5 * error.max()
        assert (np.abs(found.x - [0, 0.9189385]) < 4.5 * error).all()
    assert abs(found.x[0] - likeliest) < 0.5 * np.sqrt(2 / n)


@pytest.mark.spec("INF-55")
@pytest.mark.parametrize("kind", [BernoulliUnits, IsingUnits, ScaledGaussianUnits])
def test_the_noise_of_columns(kind):
    """Means of 20,000 draws within 4.5 standard errors; masses of all states, or a normal's by scipy."""
    from scipy.stats import norm

    machine = filled(
        LayeredMachine({"v": kind(2), "h": BernoulliUnits(2)}, [("v", "h")], dtype=torch.float64), scale=0.3
    )
    low, high = getattr(machine.units["v"], "values", (-2.0, 1.0))
    X = np.where(np.random.default_rng(0).random((200, 2)) < [0.3, 0.8], high, low)
    weight = np.random.default_rng(1).uniform(0.5, 2, size=200)
    distribution = begun(machine, X, weight)._distribution(machine)
    mean = weight @ X / weight.sum()
    drawn = distribution.sample(Noise(0, "draws").rows(np.arange(20_000)), 20_000, 0, np.zeros(0))
    assert (np.abs(drawn.mean(0) - mean) < 4.5 * drawn.std(0) / np.sqrt(20_000)).all()
    states = low + (high - low) * all_states(2)
    if kind is ScaledGaussianUnits:
        sd = np.sqrt(weight @ X**2 / weight.sum() - mean**2)
        np.testing.assert_allclose(distribution.log_prob(states), norm(mean, sd).logpdf(states).sum(1), atol=1e-12)
    else:
        on = (mean - low) / (high - low)
        masses = np.prod(np.where(states == high, on, 1 - on), axis=1)
        np.testing.assert_allclose(np.exp(distribution.log_prob(states)), masses, atol=1e-12)


@pytest.mark.spec("INF-55")
def test_log_z_starts_near_the_truth_and_the_noise_covers_the_data():
    model, X = RBMModel.of(*TINY), all_states(3)
    X[:, 2] = 1.0  # a column that is never 0
    objective = begun(model, X)
    assert float(objective.log_z.detach()) == pytest.approx(model.log_partition(), abs=0.5)
    assert np.isfinite(objective._distribution(model).log_prob(all_states(3))).all()


@pytest.mark.spec("INF-55")
def test_what_cannot_be_right_is_refused():
    with pytest.raises(UserTypeError, match="nce needs hidden layers that are independent given the observed one"):
        begun(machine_of("three"), np.zeros((2, 4)))
    with pytest.raises(UserValueError, match=r"nce needs rows of 0 and 1, got 0.5"):
        RBM(objective="nce", random_state=0).fit(np.full((8, 3), 0.5))


@pytest.mark.spec("INF-55", "BAY-101")
def test_odds_beyond_what_an_exponential_holds():
    """A model that the noise never resembles: loss and slopes are finite, each row's loss about its odds."""
    machine, X = LayeredMachine({"v": BernoulliUnits(2)}, [], dtype=torch.float64), all_states(2)
    machine.load({"v_bias": np.array([5000.0, -5000.0])})
    objective = _fixed(machine, X, NCE(), 0.0)
    loss = loss_of(objective, machine, X)
    assert 1000 < loss.terms["noise_contrast"].sum < 1e5
    assert all(np.isfinite(value).all() for value in loss.gradients.values())


@pytest.mark.spec("INF-55")
def test_a_fit_learns_the_density_and_its_log_z():
    """A small machine on two patterns and noise: the likelihood rises, log Z ends near the exact one."""
    X = np.repeat([[1.0, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 1]], 50, axis=0)
    rbm = RBM(n_hidden=3, objective=NCE(nu=5), epochs=200, learning_rate=0.2, random_state=0, dtype="float64").fit(X)
    assert rbm.score(X) > -2.0  # -log 3 is best, -2.5 independent columns
    assert rbm.history_["log_normalizer"][-1] == pytest.approx(rbm.log_partition().value, abs=0.3)
    assert rbm.history_["noise_contrast"][-1] < rbm.history_["noise_contrast"][0]


@pytest.mark.spec("INF-55")
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_stream_goes_on_with_its_log_z(optimizer):
    """Chunks of whole batches are one fit by hand: log Z moves on from where the chunk before left it."""
    X = gnomon.data.load("digits").view("binary")[:200]
    rbm = RBM(n_hidden=4, objective="nce", optimizer=optimizer, learning_rate=0.05, batch_size=50, random_state=0)
    found = []
    for start in (0, 0, 0, 50, 100, 150):
        rbm.partial_fit(X[start : start + 50])
        found.append(rbm.history_["log_normalizer"][-1])
    moved = np.abs(np.diff(found))  # each chunk is one update, and shows the value before it
    assert (moved > 1e-6).all()
    assert (moved < 0.2).all()
