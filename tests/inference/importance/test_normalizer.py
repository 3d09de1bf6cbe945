"""Simple importance sampling of normalizers: known numbers, coverage of the error, weights that collapse."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from gnomon.distributions.real import Normal
from gnomon.distributions.vectors import MultivariateStudentT
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.importance.normalizer import Proposal, as_proposal, estimate_log_z
from gnomon.inference.importance.weights import WeightedSample, importance_sample
from gnomon.numeric.noise import Noise
from oracles.binary import Joint, all_states, rbm_energy
from oracles.toys import tiny_rbm


class Uniform:
    """Rows of a table, each as likely."""

    def __init__(self, states):
        self.states = states

    def sample(self, n, noise):
        return self.states[np.floor(len(self.states) * noise.uniform((n,), like=np.empty(0))).astype(int)]

    def log_prob(self, x):
        return np.full(len(x), -math.log(len(self.states)))


@pytest.mark.spec("INF-62")
def test_four_states_in_numbers():
    """Z_0 = 2 from masses .5, Z_1 = 15: every state once gives the exact mean and the variance 115 of one draw."""
    log_p0, log_p1 = np.log(np.full(4, 0.5)), np.log([8.0, 4, 2, 1])
    w = 2 * np.exp(log_p1 - log_p0)
    assert w.mean() == pytest.approx(15)
    assert w.var() == pytest.approx(115)
    population = WeightedSample(np.tile(log_p1 - log_p0 + math.log(2), 1000))
    assert population.log_mean_weight == pytest.approx(math.log(15), abs=1e-12)
    assert population.stderr * math.sqrt(4000) * 15 == pytest.approx(math.sqrt(115), rel=2e-4)
    sample = estimate_log_z(lambda x: log_p1[x[:, 0]], Uniform(np.arange(4)[:, None]), 20_000, Noise(0, "four"))
    assert abs(math.exp(sample.log_mean_weight) - 15) < 3.9 * math.sqrt(115 / 20_000)
    assert sample.stderr == pytest.approx(math.sqrt(115 / 20_000) / 15, rel=0.05)


@pytest.mark.spec("INF-62")
def test_tiny_machine_in_numbers_and_its_error_covers():
    """The 8 visible states, uniform: mean 64.309629, relative variance .222299; 200 repetitions of 100 draws.

    192 of 200 or fewer within 3 errors have probability below 1e-4 at the normal's 0.9973; half the error is red.
    """
    model, states = tiny_rbm(), all_states(3)
    w = 8 * np.exp(-model.energy(states))
    assert w.mean() == pytest.approx(64.309629, abs=5e-7)
    assert w.var() / w.mean() ** 2 == pytest.approx(0.222299, abs=5e-7)
    truth = Joint(rbm_energy(model.W, model.b, model.c), (3, 2)).log_z
    inside = half = 0
    for seed in range(200):
        sample = estimate_log_z(model, Uniform(states), 100, Noise(seed, "tiny"))
        off = abs(sample.log_mean_weight - truth)
        inside, half = inside + (off < 3 * sample.stderr), half + (off < 1.5 * sample.stderr)
    assert inside >= 193
    assert half < 193


@pytest.mark.spec("INF-62")
@pytest.mark.parametrize("dimension", [1, 2])
def test_a_normal_and_its_error_covers(dimension):
    proposal = Normal(0.0, 1.5) if dimension == 1 else Normal(np.zeros(2), np.array([1.5, 1.2]))
    truth, inside, half = 0.5 * dimension * math.log(2 * math.pi), 0, 0
    for seed in range(200):
        sample = estimate_log_z(lambda x: -0.5 * (x * x).sum(-1), proposal, 200, Noise(seed, "normal"))
        off = abs(sample.log_mean_weight - truth)
        inside, half = inside + (off < 3 * sample.stderr), half + (off < 1.5 * sample.stderr)
    assert inside >= 193
    assert half < 193


@pytest.mark.spec("INF-62")
def test_the_log_is_too_low_on_average_by_half_the_variance():
    """Jensen: the mean weight is unbiased, its log low by se^2 / 2; 20,000 groups of 20 draws, rate 1e-4."""
    model = tiny_rbm()
    sample = estimate_log_z(model, Uniform(all_states(3)), 400_000, Noise(1, "low"))
    w = np.exp(sample.log_weights - math.log(64.309629)).reshape(20_000, 20).mean(1)
    assert abs(w.mean() - 1) < 3.9 * w.std() / math.sqrt(20_000)
    low, error = np.log(w).mean(), np.log(w).std() / math.sqrt(20_000)
    assert low == pytest.approx(-0.222299 / 20 / 2, abs=3.9 * error + 0.0005)
    assert low < -5 * error


@pytest.mark.spec("INF-62")
def test_densities_of_zero():
    """Of the target: a weight of 0; of the proposal where it draws: refused."""
    states = np.arange(4)[:, None]
    found = estimate_log_z(lambda x: np.where(x[:, 0] == 2, -np.inf, 0.0), Uniform(states), 4000, Noise(3, "zero"))
    assert np.isneginf(found.log_weights[found.values[:, 0] == 2]).all()
    assert abs(math.exp(found.log_mean_weight) - 3) < 3.9 * 3 * found.stderr
    assert found.stderr == pytest.approx(math.sqrt(1 / 3 / 4000), rel=0.05)

    class Wrong(Uniform):
        def log_prob(self, x):
            return np.where(x[:, 0] == 2, -np.inf, super().log_prob(x))

    with pytest.raises(UserValueError, match=r"the proposal has density 0 where it draws \(draw \d+\)"):
        estimate_log_z(lambda x: 0.0 * x[:, 0], Wrong(states), 100, Noise(3, "zero"))


@pytest.mark.spec("INF-62", "INF-07")
def test_collapsed_weights_are_told():
    """A sharp normal in 30 dimensions under a wide proposal: one weight is all there is."""
    proposal = Normal(np.zeros(30), np.full(30, 5.0))
    sample = estimate_log_z(lambda x: -0.5 * (x * x).sum(-1), proposal, 300, Noise(2, "wide"))
    with pytest.warns(UserWarning, match="one of 300 weights makes up"):
        sample.warn()


def test_families_become_rows():
    noise = Noise(3, "rows")
    for family, d in ((Normal(1.0, 2.0), 1), (Normal(np.zeros(3), np.ones(3)), 3)):
        made = as_proposal(family)
        x = made.sample(5, noise)
        assert x.shape == (5, d)
        assert made.log_prob(x) == pytest.approx(family.log_prob(x).sum(-1), abs=1e-14)
    vector = MultivariateStudentT(4.0, np.zeros(2), np.eye(2))
    made = as_proposal(vector)
    assert made.log_prob(made.sample(6, noise)).shape == (6,)


def test_families_are_proposals_of_importance_sampling():
    noise, family = Noise(4, "family"), Normal(np.zeros(2), np.array([1.0, 2.0]))
    found = importance_sample(lambda x: -0.5 * (x * x).sum(-1), family, 50, noise)
    x = family.sample(noise, 0, (50,))
    assert np.array_equal(found.values, x)
    wanted = -0.5 * (x * x).sum(-1) - stats.norm(scale=[1.0, 2.0]).logpdf(x).sum(-1)
    assert found.log_weights == pytest.approx(wanted, abs=1e-12)


def test_wrong_use_is_named():
    with pytest.raises(UserTypeError, match=r"proposal must have sample\(n, noise\) and log_prob\(x\), got a int"):
        as_proposal(3)
    for take in (as_proposal, lambda law: importance_sample(lambda x: x[:, 0], law, 5, Noise(0, "x"))):
        with pytest.raises(
            UserTypeError,
            match=r"proposal must take its noise, got a Normal of torch; use .*on\.distributions\.real\.Normal",
        ):
            take(torch.distributions.Normal(0.0, 1.0))
    with pytest.raises(UserTypeError, match="target must be a log density or have energy or log_prob, got a str"):
        estimate_log_z("x", Normal(0, 1), 5, Noise(0, "x"))
    with pytest.raises(UserValueError, match="n must be at least 1, got 0"):
        estimate_log_z(lambda x: x[:, 0], Normal(0, 1), 0, Noise(0, "x"))
    with pytest.raises(UserValueError, match=r"shape \(2, 3\)"):
        Proposal(Normal(np.zeros((2, 3)), 1.0))
