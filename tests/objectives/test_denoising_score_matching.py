"""Denoising score matching: noise averaged by quadrature, against closed-form scores of the smoothed data."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import gnomon
from gnomon.data.batches import Batch
from gnomon.distributions.units import BernoulliUnits, CenteredScaledGaussianUnits, GaussianUnits
from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.noise import Noise
from gnomon.objectives.denoising_score_matching import DenoisingScoreMatching
from gnomon.objectives.score_matching import ScoreMatching
from gnomon.systems.energy.gaussian_rbm import GaussianRBM, GaussianRBMModel
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.rbm import RBM
from gnomon.training.group import Group
from oracles.given_noise import GivenNoise, averaged_rows
from oracles.layered import assert_same, by_differences, filled

NAME = "denoising_score_matching"


def loss_of(model, X, weight=None, noise=None, recipe=None):
    numbers = np.arange(len(X))
    batch = Batch({"X": X}, numbers, numbers, np.ones(len(X)) if weight is None else weight)
    objective = (recipe or DenoisingScoreMatching()).build()
    return objective(model, batch, noise=noise or Noise(0, "fit"), phase="fit", group=Group())


def averaged(model, X, sigma, order=60):
    """The loss with the noise of every row averaged out, and its gradients."""
    rows, z, weight = averaged_rows(X, order)
    return loss_of(model, rows, weight / len(X), GivenNoise(z), DenoisingScoreMatching(sigma=sigma))


@pytest.mark.spec("INF-52")
def test_of_normal_rows_the_slope_is_that_of_the_wider_density():
    """Data N(0, 2), noise of variance .25: the slope of the score is -1 / 2.25 = -.444444."""
    points, share = np.polynomial.hermite_e.hermegauss(12)
    share = share / share.sum()
    rows, z, weight = averaged_rows(np.sqrt(2) * points[:, None], 12)
    one = LayeredMachine({"v": CenteredScaledGaussianUnits(1)}, [], dtype=torch.float64)

    def objective(theta):
        one.load({"v_bias": theta[:1], "v_log_precision": theta[1:]})
        loss = loss_of(one, rows, weight * np.repeat(share, 12), GivenNoise(z), DenoisingScoreMatching(sigma=0.5))
        return loss.terms[NAME].sum, np.concatenate([loss.gradients["v_bias"], loss.gradients["v_log_precision"]])

    found = minimize(objective, np.array([0.3, 0.2]), jac=True, method="BFGS", options={"gtol": 1e-10})
    one.load({"v_bias": found.x[:1], "v_log_precision": found.x[1:]})
    score = one.scores(np.array([[0.0], [1.0]])).value[:, 0]
    assert score[0] == pytest.approx(0, abs=1e-8)
    assert score[1] == pytest.approx(-0.444444, abs=5e-7)


@pytest.mark.spec("INF-52")
def test_the_distance_to_the_score_of_few_rows_with_noise_up_to_a_constant():
    """Rows -1, .5, 2: their smoothed score is sum softmax_i (x_i - x) / sigma^2; integrals over the line."""
    X, sigma = np.array([[-1.0], [0.5], [2.0]]), 0.6
    x = np.linspace(-7, 8, 20_001)
    kernels = np.exp(-0.5 * ((x[:, None] - X[:, 0]) / sigma) ** 2)
    smoothed = (kernels / kernels.sum(1, keepdims=True) * (X[:, 0] - x[:, None])).sum(1) / sigma**2
    density = kernels.sum(1) / kernels.sum()
    losses, distances = [], []
    for seed in range(4):
        random = np.random.default_rng(seed)
        one = GaussianRBMModel.of(random.normal(size=(1, 2)), random.normal(size=1), random.normal(size=2), 1.3)
        losses.append(averaged(one, X, sigma).terms[NAME].sum)
        distances.append(0.5 * density @ (one.scores(x[:, None]).value[:, 0] - smoothed) ** 2)
    np.testing.assert_allclose(np.diff(losses), np.diff(distances), atol=1e-8)
    assert np.abs(np.diff(losses)).max() > 0.1


@pytest.mark.spec("INF-52")
def test_of_two_rows_the_optimum_is_the_machine_that_has_a_bell_at_each():
    """N(-1, s^2) and N(1.5, s^2) in equal parts are a machine with one hidden unit: there every slope is 0."""
    X, sigma = np.array([[-1.0], [1.5]]), 0.7
    W, a, beta = 2.5, -1.0, sigma**-2
    best = GaussianRBMModel.of([[W]], [a], [-beta * (a * W + W * W / 2)], beta)
    for value in averaged(best, X, sigma, 100).gradients.values():
        np.testing.assert_allclose(value, 0, atol=2e-5)  # quadrature of an energy with poles beside the line
    least = averaged(best, X, sigma, 100).terms[NAME].sum
    for name, parameter in best.named_parameters():
        for step in (-0.05, 0.05):
            other = GaussianRBMModel.of([[W]], [a], [-beta * (a * W + W * W / 2)], beta)
            with torch.no_grad():
                other.get_parameter(name).copy_(parameter + step)
            assert averaged(other, X, sigma, 100).terms[NAME].sum > least + 1e-5


@pytest.mark.spec("INF-52")
@pytest.mark.parametrize("sigma", [0.05, 0.3, 1.0])
def test_averaged_it_is_score_matching_of_the_noisy_rows(sigma):
    """By parts: E psi(x + sigma z) z / sigma = E psi'; the rest is 1 / (2 sigma^2) for each column."""
    X, weight = np.array([[-1.0], [0.5], [2.0]]), 1 / 3
    one = GaussianRBMModel.of([[1.0, -0.5]], [0.2], [0.3, -0.4], 1.3)
    rows, z, share = averaged_rows(X, 100)
    batch = Batch({"X": rows + sigma * z}, np.arange(len(rows)), np.arange(len(rows)), share * weight)
    noisy = ScoreMatching().build()(one, batch, noise=None, phase="fit", group=Group())
    found = averaged(one, X, sigma, 100)
    assert found.terms[NAME].sum - 0.5 / sigma**2 == pytest.approx(noisy.terms["score_matching"].sum, abs=1e-9)
    assert_same(found.gradients, noisy.gradients, 1e-9)


@pytest.mark.spec("INF-52")
@pytest.mark.parametrize("hidden", [BernoulliUnits, GaussianUnits])
def test_gradients_by_differences(hidden):
    units = {"v": CenteredScaledGaussianUnits(3), "h": hidden(2)}
    one = filled(LayeredMachine(units, [("v", "h")], dtype=torch.float64), seed=3, scale=0.5)
    X, weight = np.random.default_rng(0).normal(size=(7, 3)), np.linspace(0.5, 2, 7)
    loss = loss_of(one, X, weight)
    assert_same(loss.gradients, by_differences(one, lambda m: loss_of(m, X, weight).terms[NAME].sum), 1e-7)


@pytest.mark.spec("INF-52")
def test_a_fit_learns_the_smoothed_density_and_never_a_peak():
    """Two different rows: the width ends at that of the noise, in units of the columns, far above the floor."""
    X = np.repeat([[0.0, 1.0, 3.0], [5.0, 2.0, 1.0]], 200, axis=0)
    fitted = GaussianRBM(
        n_hidden=1, objective=DenoisingScoreMatching(sigma=0.4), epochs=200, batch_size=None, learning_rate=0.02,
        random_state=0, floor=0.01, dtype="float64",
    ).fit(X)  # fmt: skip
    np.testing.assert_allclose(1 / np.sqrt(fitted.precision_) / X.std(0), 0.4, rtol=0.01)


@pytest.mark.spec("INF-52")
def test_what_has_no_score_is_refused():
    with pytest.raises(UserTypeError, match="denoising score matching needs observed units that are real numbers"):
        RBM(n_hidden=2, objective="denoising-score-matching", random_state=0).fit(np.eye(3))
    with pytest.raises(UserValueError, match=r"sigma must be a number in \(0, inf\), got 0"):
        GaussianRBM(objective=DenoisingScoreMatching(sigma=0.0), random_state=0).fit(np.eye(3))


def test_the_way_of_other_devices_gives_the_same_numbers():
    X, fits = np.random.default_rng(0).normal(size=(60, 3)), []
    for backend in ("auto", "torch"):
        with gnomon.context(backend=backend):
            recipe = DenoisingScoreMatching()
            fits.append(GaussianRBM(n_hidden=5, objective=recipe, epochs=3, dtype="float64", random_state=0).fit(X))
    for name, value in fits[0].model_.state().items():
        np.testing.assert_allclose(fits[1].model_.state()[name], value, rtol=1e-11, atol=1e-11)
