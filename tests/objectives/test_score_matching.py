"""Score matching against maximum likelihood of normal densities, quadrature, automatic and finite differences."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import gnomon
from gnomon.data.batches import Batch
from gnomon.distributions.units import (
    BernoulliUnits,
    CategoricalUnits,
    CenteredGaussianUnits,
    CenteredScaledGaussianUnits,
    GaussianUnits,
    IsingUnits,
    ScaledGaussianUnits,
)  # fmt: skip
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.scores import AutomaticScores, scores_of
from gnomon.numeric.noise import Noise
from gnomon.objectives.score_matching import ScoreMatching
from gnomon.systems.energy.gaussian_rbm import GaussianRBM, GaussianRBMModel
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.rbm import RBM
from gnomon.systems.energy.spike_and_slab_rbm import SpikeAndSlabRBM, SpikeAndSlabRBMModel
from gnomon.training.group import Group
from oracles.binary import numerical_gradient
from oracles.layered import assert_same, by_differences, filled, machine_of

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.normal(size=(7, 3))
NORMAL = [GaussianUnits, CenteredGaussianUnits, ScaledGaussianUnits, CenteredScaledGaussianUnits]


def loss_of(model, X, weight=None, recipe=None):
    numbers = np.arange(len(X))
    batch = Batch({"X": X}, numbers, numbers, np.ones(len(X)) if weight is None else weight)
    objective = (recipe or ScoreMatching()).build()
    return objective(model, batch, noise=Noise(0, "fit"), phase="fit", group=Group())


def value_of(model, X, weight=None, recipe=None):
    return loss_of(model, X, weight, recipe).terms["score_matching"].sum


def machine(kind, hidden=BernoulliUnits, levels=()):
    units = {"v": kind(3), "h": hidden(2, *levels), "g": IsingUnits(2)}
    return filled(LayeredMachine(units, [("v", "h"), ("g", "v")], dtype=torch.float64), seed=3)


def rbm_model(beta=(0.5, 1.5, 2.5), quadratic=False):
    random = np.random.default_rng(1)
    W, a, b = random.normal(size=(3, 2)), random.normal(size=3), random.normal(size=2)
    return GaussianRBMModel.of(W, a, b, beta if np.ndim(beta) == 0 else np.array(beta), quadratic=quadratic)


class Quadratic(torch.nn.Module):
    """E(x) = (x - m)^T P (x - m) / 2 + c, with the machine's way of saying where it computes."""

    def __init__(self, d, constant=0.0):
        super().__init__()
        self.mean, self.constant = torch.nn.Parameter(torch.zeros(d, dtype=torch.float64)), constant
        self.precision = torch.nn.Parameter(torch.eye(d, dtype=torch.float64))

    def energy(self, x):
        away = x - self.mean
        return 0.5 * ((away @ self.precision) * away).sum(-1) + self.constant

    def place(self, x):
        return np.asarray(x, np.float64)


def by_definition(energy, x, step=1e-4):
    """Sum of the curvature of -energy and half its squared slope at each row, by differences."""
    total = np.zeros(len(x))
    for j in range(x.shape[1]):
        e = step * np.eye(x.shape[1])[j]
        up, here, down = -energy(x + e), -energy(x), -energy(x - e)
        total += (up - 2 * here + down) / step**2 + 0.5 * ((up - down) / (2 * step)) ** 2
    return total


@pytest.mark.spec("INF-47")
def test_a_normal_density_is_fitted_as_by_maximum_likelihood():
    """Of -1, 0, 1, 2: mean .5, precision .8, least loss -.4."""
    one = LayeredMachine({"v": CenteredScaledGaussianUnits(1)}, [], dtype=torch.float64)
    X = np.array([[-1.0], [0.0], [1.0], [2.0]])

    def objective(theta):
        one.load({"v_bias": theta[:1], "v_log_precision": theta[1:]})
        loss = loss_of(one, X)
        slope = np.concatenate([loss.gradients["v_bias"], loss.gradients["v_log_precision"]])
        return loss.terms["score_matching"].sum / 4, slope / 4

    found = minimize(objective, np.zeros(2), jac=True, method="BFGS", options={"gtol": 1e-10})
    assert found.x[0] == pytest.approx(0.5, abs=1e-8)
    assert np.exp(found.x[1]) == pytest.approx(0.8, abs=1e-8)
    assert found.fun == pytest.approx(-0.4, abs=1e-12)


@pytest.mark.spec("INF-47")
@pytest.mark.parametrize("constant", [0.0, 1e4])
def test_a_whole_matrix_of_precisions_is_the_inverse_covariance_whatever_is_added_to_the_energy(constant):
    model, X = Quadratic(3, constant), ROWS @ RANDOM.normal(size=(3, 3)) + 1.0

    def objective(theta):
        with torch.no_grad():
            model.mean.copy_(torch.from_numpy(theta[:3]))
            model.precision.copy_(torch.from_numpy(theta[3:].reshape(3, 3)))
        loss = loss_of(model, X)
        slopes = [loss.gradients["mean"], loss.gradients["precision"].ravel()]
        return loss.terms["score_matching"].sum / len(X), np.concatenate(slopes) / len(X)

    start = np.concatenate([np.zeros(3), np.eye(3).ravel()])
    found = minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 2000})
    P = found.x[3:].reshape(3, 3)
    np.testing.assert_allclose(found.x[:3], X.mean(0), atol=1e-5)
    np.testing.assert_allclose((P + P.T) / 2, np.linalg.inv(np.cov(X.T, bias=True)), atol=1e-5)


@pytest.mark.spec("INF-47")
def test_it_is_the_distance_of_the_scores_up_to_a_constant_of_the_data():
    """Data of two normal densities in one column, by quadrature: differences between machines are those of both."""
    x = np.linspace(-12, 12, 20_001)
    p = 0.3 * np.exp(-0.5 * (x + 1) ** 2) + 0.7 * np.exp(-0.5 * ((x - 2) / 0.8) ** 2) / 0.8
    p /= p.sum()
    slope = np.gradient(np.log(p), x)
    losses, distances = [], []
    for seed in range(4):
        one = GaussianRBMModel.of(*(np.random.default_rng(seed).normal(size=s) for s in ((1, 2), 1, 2)), 1.3)
        losses.append(value_of(one, x[:, None], p))
        distances.append(0.5 * p @ (one.scores(x[:, None]).value[:, 0] - slope) ** 2)
    np.testing.assert_allclose(np.diff(losses), np.diff(distances), atol=1e-5)
    assert np.abs(np.diff(losses)).max() > 0.1


@pytest.mark.spec("INF-47", "INF-53")
@pytest.mark.parametrize("kind", NORMAL)
@pytest.mark.parametrize(
    "hidden", [(BernoulliUnits, ()), (IsingUnits, ()), (CategoricalUnits, (2,)), (GaussianUnits, ())]
)
@pytest.mark.parametrize("smoothing", [0.0, 0.7])
def test_loss_and_gradients_of_machines_by_differences(kind, hidden, smoothing):
    one, weight = machine(kind, *hidden), np.linspace(0.5, 2, 7)
    recipe = ScoreMatching(smoothing=smoothing)
    loss = loss_of(one, ROWS, weight, recipe)
    if not smoothing:
        wanted = weight @ by_definition(one.energy, ROWS)
        assert loss.terms["score_matching"].sum == pytest.approx(wanted, rel=1e-5)
    assert_same(loss.gradients, by_differences(one, lambda m: value_of(m, ROWS, weight, recipe)), 1e-7)
    assert loss.terms["score_matching"].weight == pytest.approx(weight.sum())


@pytest.mark.spec("INF-47", "INF-53")
@pytest.mark.parametrize(("beta", "quadratic"), [((0.5, 1.5, 2.5), False), ((0.5, 1.5, 2.5), True), (1.7, True)])
def test_gradients_with_learned_variances_by_differences(beta, quadratic):
    one, weight, recipe = rbm_model(beta, quadratic), np.linspace(0.5, 2, 7), ScoreMatching(smoothing=0.5)
    found = loss_of(one, ROWS, weight, recipe).gradients
    assert_same(found, by_differences(one, lambda m: value_of(m, ROWS, weight, recipe)), 1e-6)


@pytest.mark.spec("INF-47")
@pytest.mark.parametrize("kind", NORMAL)
@pytest.mark.parametrize("tensors", [False, True])
def test_closed_forms_are_what_torch_differentiates(kind, tensors):
    one, a, b = machine(kind), *RANDOM.normal(size=(2, 7, 3))
    given = [torch.from_numpy(x) for x in (ROWS, a, b)] if tensors else [ROWS, a, b]
    found, torch_s = scores_of(one, given[0]), AutomaticScores(one, ROWS)
    assert type(found) is not AutomaticScores
    np.testing.assert_allclose(np.asarray(found.value.data), torch_s.value, atol=1e-13)
    np.testing.assert_allclose(np.asarray(found.curvature.data), torch_s.curvature, atol=1e-13)
    assert_same(found.gradient(*given[1:]), torch_s.gradient(a, b), 1e-12)
    assert_same(found.gradient(given[1]), torch_s.gradient(a), 1e-12)


@pytest.mark.spec("INF-47")
def test_units_of_other_kinds_are_differentiated_by_torch():
    assert type(scores_of(machine(GaussianUnits, CategoricalUnits, (3,)), ROWS)) is AutomaticScores
    assert type(scores_of(machine(GaussianUnits, GaussianUnits), ROWS)) is AutomaticScores


@pytest.mark.spec("INF-47", "INF-48", "INF-52")
def test_machines_of_spikes_and_slabs_are_differentiated_by_torch():
    """Covariances by gated slabs: values by differences of the energy, slopes of the loss by differences of it."""
    random = np.random.default_rng(1)
    one = SpikeAndSlabRBMModel.of(
        0.4 * random.normal(size=(3, 2)), random.uniform(0.2, 1, (3, 2)), [1.5, 2.0, 1.2], [1.0, 2.0],
        random.normal(size=2), random.normal(size=2), random.normal(size=3),
    )  # fmt: skip
    assert type(scores_of(one, ROWS)) is AutomaticScores
    loss = loss_of(one, ROWS)
    assert loss.terms["score_matching"].sum == pytest.approx(by_definition(one.energy, ROWS).sum(), rel=1e-5)
    assert_same(loss.gradients, by_differences(one, lambda m: value_of(m, ROWS)), 1e-6)
    X = groups(300)
    columns = -0.5 * np.log(2 * np.pi * np.e * X.var(0)).sum()
    for objective in ("score-matching", "denoising-score-matching", "langevin-cd"):
        fitted = SpikeAndSlabRBM(n_hidden=3, objective=objective, epochs=60, random_state=0).fit(X)
        assert fitted.score(X) > columns + 0.1


class Network(torch.nn.Module):
    def __init__(self, activation):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layers = torch.nn.Sequential(torch.nn.Linear(3, 5), activation, torch.nn.Linear(5, 1)).double()

    def energy(self, x):
        return self.layers(x)[:, 0]


@pytest.mark.spec("INF-47")
def test_the_curvature_of_a_network_by_differences():
    net = Network(torch.nn.Softplus())

    def minus(x):
        return -net.energy(torch.from_numpy(x)).detach().numpy()

    found = AutomaticScores(net, ROWS)
    for j in range(3):
        e = 1e-4 * np.eye(3)[j]
        slope = (minus(ROWS + e) - minus(ROWS - e)) / 2e-4
        second = (minus(ROWS + e) - 2 * minus(ROWS) + minus(ROWS - e)) / 1e-8
        np.testing.assert_allclose(found.value[:, j], slope, atol=1e-8)
        np.testing.assert_allclose(found.curvature[:, j], second, atol=1e-6)
    weight = RANDOM.normal(size=(7, 3))
    slopes = found.gradient(weight, weight)
    first = net.layers[0].weight

    def total(W):
        with torch.no_grad():
            before = first.clone()
            first.copy_(torch.from_numpy(W))
            again = AutomaticScores(net, ROWS)
            result = float((weight * (again.value + again.curvature)).sum())
            first.copy_(before)
        return result

    np.testing.assert_allclose(
        slopes["layers.0.weight"], numerical_gradient(total, first.detach().numpy().copy()), atol=1e-7
    )


@pytest.mark.spec("INF-47")
def test_what_has_no_score_is_refused():
    with pytest.raises(UserValueError, match="scores need a curved energy, got one that is made of straight pieces"):
        _ = AutomaticScores(Network(torch.nn.ReLU()), ROWS).curvature
    with pytest.raises(UserTypeError, match="the score of Identity needs an energy in closed form"):
        scores_of(torch.nn.Identity(), ROWS)
    X = (ROWS > 0) * 1.0
    with pytest.raises(UserTypeError, match="score matching needs observed units that are real numbers, got Bernoulli"):
        RBM(n_hidden=2, objective="score-matching", random_state=0).fit(X)
    layers = {"visible": GaussianUnits(4), "middle": BernoulliUnits(3), "top": BernoulliUnits(2)}
    deep = LayeredMachine(layers, [("visible", "middle"), ("middle", "top")])
    with pytest.raises(UserTypeError, match="score matching needs hidden layers that are independent given the obs"):
        ScoreMatching().build().begin(deep, None, Noise(0, "begin"), Group())
    with pytest.raises(UserTypeError, match="score matching needs observed units that are real numbers"):
        ScoreMatching().build().begin(machine_of("three"), None, Noise(0, "begin"), Group())


@pytest.mark.spec("INF-53")
def test_without_smoothing_it_is_score_matching():
    one = rbm_model()
    plain, off, on = (loss_of(one, ROWS, recipe=ScoreMatching(smoothing=s)) for s in (0.0, 1e-12, 0.5))
    assert plain.terms["score_matching"].sum == off.terms["score_matching"].sum
    assert_same(off.gradients, plain.gradients, 0)
    curvature = one.scores(ROWS).curvature
    more = on.terms["score_matching"].sum - plain.terms["score_matching"].sum
    assert more == pytest.approx(0.125 * (curvature**2).sum(), rel=1e-12)


@pytest.mark.spec("INF-53")
def test_of_a_normal_density_it_is_score_matching_of_rows_with_noise():
    """Averaged over the noise by Gauss-Hermite quadrature, exact for polynomials; -L + L^2 (v + s) / 2 by the row."""
    nodes, weight = np.polynomial.hermite_e.hermegauss(8)
    weight = weight / weight.sum()
    X, L, m, s = np.array([[-1.0], [0.0], [1.0], [2.0]]), 1.7, 0.3, 0.36
    one = LayeredMachine({"v": CenteredScaledGaussianUnits(1)}, [], dtype=torch.float64)
    one.load({"v_bias": np.array([m]), "v_log_precision": np.log([L])})
    noisy = (X + np.sqrt(s) * nodes).reshape(-1, 1)
    averaged = value_of(one, noisy, np.tile(weight, 4)) / 4
    regularized = value_of(one, X, recipe=ScoreMatching(smoothing=np.sqrt(s))) / 4
    v = ((X - m) ** 2).mean()
    assert regularized == pytest.approx(averaged, abs=1e-12)
    assert regularized == pytest.approx(-L + L * L * (v + s) / 2, abs=1e-12)


@pytest.mark.spec("INF-53")
def test_of_other_densities_it_is_close_to_second_order_up_to_what_is_left_out():
    """Along noise of halved variance the gap to the averaged loss is linear: the terms left out are of that order."""
    nodes, weight = np.polynomial.hermite_e.hermegauss(40)
    weight = weight / weight.sum()
    one, X = GaussianRBMModel.of([[1.5, -0.7]], [0.2], [0.3, -0.4], 1.2), np.array([[-1.0], [0.3], [1.4]])
    base = value_of(one, X)
    gaps, left_out = [], _left_out(one, X)
    for s in (1e-2, 5e-3, 2.5e-3):
        noisy = (X + np.sqrt(s) * nodes).reshape(-1, 1)
        averaged = value_of(one, noisy, np.tile(weight, 3))
        gaps.append((averaged - value_of(one, X, recipe=ScoreMatching(smoothing=np.sqrt(s)))) / s)
        assert abs(averaged - base) > 1e-4
    np.testing.assert_allclose(gaps[-1], left_out, rtol=2e-2)


def _left_out(one, X, step=1e-3):
    """(psi psi'' + psi''') / 2, by differences of the score: what the expansion drops."""
    at = [one.scores(X + k * step).value for k in (-2, -1, 0, 1, 2)]
    second = (at[1] - 2 * at[2] + at[3]) / step**2
    third = (at[4] - 2 * at[3] + 2 * at[1] - at[0]) / (2 * step**3)
    return 0.5 * float((at[2] * second + third).sum())


def groups(n=500):
    random = np.random.default_rng(0)
    return random.normal(size=(n, 3)) * [1, 0.5, 2] + random.integers(0, 2, (n, 1)) * [4.0, 2.0, -3.0]


@pytest.mark.spec("INF-47")
def test_a_fit_learns_groups_that_one_normal_density_has_not():
    X = groups()
    fitted = GaussianRBM(n_hidden=4, objective="score-matching", random_state=0, dtype="float64").fit(X)
    columns = -0.5 * np.log(2 * np.pi * np.e * X.var(0)).sum()
    assert fitted.score(X) > columns + 0.3
    assert fitted.history_["score_matching"][-1] < fitted.history_["score_matching"][0]


@pytest.mark.spec("INF-47", "INF-53")
def test_precisions_that_run_away_are_held_or_smoothed():
    """A column of two values: the loss has no minimum, and the precision ends where the floor is; smoothing ends it."""
    two = np.repeat([[0.0], [5.0]], 200, axis=0)
    options = {
        "n_hidden": 1, "batch_size": None, "epochs": 900, "learning_rate": 0.05, "random_state": 0, "dtype": "float64",
    }  # fmt: skip
    held = GaussianRBM(**options, objective="score-matching", floor=0.05).fit(two)
    assert 1 / np.sqrt(held.precision_[0]) == pytest.approx(0.05 * two.std(), rel=1e-9)
    smooth = GaussianRBM(**options, objective=ScoreMatching(smoothing=0.3), floor=0.05).fit(two)
    assert 0.15 < 1 / np.sqrt(smooth.precision_[0]) / two.std() < 0.6


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_the_way_of_other_devices_gives_the_same_numbers(dtype, smoothing):
    fits = []
    for backend in ("auto", "torch"):
        with gnomon.context(backend=backend):
            recipe = ScoreMatching(smoothing=smoothing)
            fits.append(
                GaussianRBM(n_hidden=5, objective=recipe, epochs=3, dtype=dtype, random_state=0).fit(groups(60))
            )
    tolerance = 1e-4 if dtype == "float32" else 1e-11
    for name, value in fits[0].model_.state().items():
        np.testing.assert_allclose(fits[1].model_.state()[name], value, rtol=tolerance, atol=tolerance)
