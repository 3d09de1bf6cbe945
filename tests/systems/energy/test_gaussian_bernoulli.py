"""Bits beside real units: free energy, log Z and gradient by definition, quadrature and the explicit mixture."""

import itertools

import numpy as np
import pytest
import torch
from scipy import integrate
from scipy.stats import multivariate_normal

import gnomon
from gnomon.data.batches import Batch
from gnomon.distributions.domains import Real
from gnomon.distributions.units import BernoulliUnits, CenteredGaussianUnits, GaussianUnits
from gnomon.evaluation.partition import log_partition
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import CD, Exact
from gnomon.system.by_gradient import ByGradient
from gnomon.training.group import Group
from oracles.binary import numerical_gradient

W = np.array([[1.0, 0.5], [-1.0, 0.5], [0.5, -1.0]])
A, B = np.array([0.1, -0.2, 0.3]), np.array([-0.1, 0.2])
ROWS = np.random.default_rng(0).normal(size=(9, 3)) * 1.5
HIDDEN = np.array(list(itertools.product([0.0, 1.0], repeat=2)))
NAMES = ("visible_hidden_weight", "visible_bias", "hidden_bias")


def machine_of(W=W, A=A, B=B, kind=CenteredGaussianUnits):
    d, m = W.shape
    layers = {"visible": kind(d), "hidden": BernoulliUnits(m)}
    machine = gnomon.LayeredMachine(layers, [("visible", "hidden")], dtype=torch.float64)
    with torch.no_grad():
        for name, value in zip(NAMES, (W, A, B), strict=True):
            machine.get_parameter(name).copy_(torch.from_numpy(value))
    return machine


def free_energy(v, W=W, A=A, B=B):
    """-log of the sum over h of exp(-(v - a)^2 / 2 + b h + h W v), term by term."""
    terms = [-0.5 * ((v - A) ** 2).sum(1) + h @ B + v @ W @ h for h in HIDDEN]
    return -np.logaddexp.reduce(terms)


def log_density(v, W=W, A=A, B=B):
    """The mixture of one normal with covariance I for each state of the hidden units."""
    weights = np.array([h @ B + A @ W @ h + 0.5 * (W @ h) @ (W @ h) for h in HIDDEN])
    weights -= np.logaddexp.reduce(weights)
    return np.logaddexp.reduce(
        [w + multivariate_normal(A + W @ h, np.eye(len(A))).logpdf(v) for w, h in zip(weights, HIDDEN, strict=True)]
    )


@pytest.mark.spec("DLN-84")
def test_the_free_energy_of_real_units_is_its_definition():
    machine = machine_of()
    closed = 0.5 * ((ROWS - A) ** 2).sum(1) - np.logaddexp(0, B + ROWS @ W).sum(1)
    np.testing.assert_allclose(machine.energy(ROWS), closed, rtol=1e-12)
    np.testing.assert_allclose(machine.energy(ROWS), free_energy(ROWS), rtol=1e-12)
    np.testing.assert_allclose(machine.energy(torch.from_numpy(ROWS)).detach().numpy(), closed, rtol=1e-12)
    far = np.array([[300.0, -300.0, 300.0]])  # exp(750) is beyond float64: softplus keeps it
    assert machine.energy(far)[0] == pytest.approx(0.5 * ((far - A) ** 2).sum() - (B + far @ W).clip(0).sum())
    state = {"visible": np.repeat(ROWS[:1], 4, 0), "hidden": HIDDEN}
    joint = [0.5 * ((ROWS[0] - A) ** 2).sum() - h @ B - ROWS[0] @ W @ h for h in HIDDEN]
    np.testing.assert_allclose(machine.joint_energy(state), joint, rtol=1e-12)


@pytest.mark.spec("DLN-84")
def test_log_z_in_numbers_and_the_density_as_a_mixture():
    machine = machine_of()
    assert machine.log_partition() == pytest.approx(5.243712, abs=1e-6)
    np.testing.assert_allclose(machine.log_prob(ROWS), log_density(ROWS), rtol=1e-10)
    np.testing.assert_allclose(machine.log_prob(ROWS), -machine.energy(ROWS) - 5.243712, atol=1e-6)
    one = machine_of(W[:1], A[:1], B)
    whole = integrate.quad(lambda v: np.exp(one.log_prob(np.array([[v]]))[0]), -15, 15, epsabs=1e-11)[0]
    assert whole == pytest.approx(1, abs=1e-9)
    score = log_partition(machine, "ais", Noise(0, "z"), schedule=100)
    assert abs(score.value - 5.243712) < 5 * score.error  # a fixed seed


@pytest.mark.spec("DLN-84")
def test_the_gradient_of_the_negative_log_likelihood_by_finite_differences():
    weight = np.linspace(0.5, 2.0, len(ROWS))
    batch = Batch({"X": ROWS}, np.arange(9), np.arange(9), weight)
    loss = Exact().build()(machine_of(), batch, noise=Noise(0, "fit"), phase="fit", group=Group())
    for i, name in enumerate(NAMES):

        def nll(value, i=i):
            given = [value if j == i else p for j, p in enumerate((W, A, B))]
            return float(-(weight @ log_density(ROWS, *given)) / weight.sum())

        found = np.asarray(loss.gradients[name]) / weight.sum()
        np.testing.assert_allclose(found, numerical_gradient(nll, (W, A, B)[i]), atol=1e-6)


@pytest.mark.spec("DLN-84")
def test_the_gradients_of_the_energies_alone_by_finite_differences():
    """In the likelihood's gradient what both phases add alike would cancel."""
    machine, weight = machine_of(), np.linspace(-1.0, 2.0, 4)
    found = machine.marginal_gradient({"visible": ROWS[:4]}, weight)
    joint = machine.joint_gradient({"visible": ROWS[:4], "hidden": HIDDEN}, weight)
    for i, name in enumerate(NAMES):

        def given(value, i=i):
            return [value if j == i else p for j, p in enumerate((W, A, B))]

        def marginal(value):
            return float(weight @ free_energy(ROWS[:4], *given(value)))

        def together(value):
            w, a, b = given(value)
            energy = 0.5 * ((ROWS[:4] - a) ** 2).sum(1) - HIDDEN @ b - (ROWS[:4] @ w * HIDDEN).sum(1)
            return float(weight @ energy)

        np.testing.assert_allclose(found[name], numerical_gradient(marginal, (W, A, B)[i]), atol=1e-6)
        np.testing.assert_allclose(joint[name], numerical_gradient(together, (W, A, B)[i]), atol=1e-6)


@pytest.mark.spec("DLN-84")
def test_the_uncentered_units_are_the_same_distribution():
    one, other = machine_of(), machine_of(kind=GaussianUnits)
    np.testing.assert_allclose(one.energy(ROWS) - other.energy(ROWS), A @ A / 2, rtol=1e-12)
    assert one.log_partition() == pytest.approx(other.log_partition() - A @ A / 2, abs=1e-12)
    np.testing.assert_allclose(one.log_prob(ROWS), other.log_prob(ROWS), rtol=1e-12)


class GaussianBernoulli(ByGradient):
    """Six bits beside real columns."""

    name = "gaussian-bernoulli"
    domain = Real()

    def make(self, n_features, dtype):
        layers = {"visible": CenteredGaussianUnits(n_features), "hidden": BernoulliUnits(6)}
        return gnomon.LayeredMachine(layers, [("visible", "hidden")], dtype=getattr(torch, dtype))

    def initialize(self, model, examples, noise):
        model.initialize(noise, examples.X.mean(axis=0))

    def make_objective(self):
        return CD(k=1).build()


def test_a_system_around_it_learns_two_groups():
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 4)) + 2.5 * np.where(random.random((400, 1)) < 0.5, 1.0, -1.0)
    machine = GaussianBernoulli(epochs=40, batch_size=20, learning_rate=0.02, optimizer="sgd", random_state=0).fit(X)
    alone = multivariate_normal(X.mean(0), np.eye(4)).logpdf(X).mean()
    full = multivariate_normal(X.mean(0), np.cov(X.T)).logpdf(X).mean()
    assert alone < full < machine.score(X)
    np.testing.assert_allclose(machine.energy(X[:5]) + machine.log_prob(X[:5]), -machine.model_.log_partition())
