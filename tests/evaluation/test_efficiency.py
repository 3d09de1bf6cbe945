"""Asymptotic covariances against enumerated Fisher information, the row's numbers, and estimates of many data sets."""

import numpy as np
import pytest
import torch
from scipy.special import expit

from gnomon.distributions.units import BernoulliUnits, CenteredScaledGaussianUnits
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.efficiency import asymptotic_covariance, relative_efficiency
from gnomon.objectives.contrastive import CD, Exact
from gnomon.objectives.denoising_score_matching import DenoisingScoreMatching
from gnomon.objectives.generalized_score_matching import GeneralizedScoreMatching
from gnomon.objectives.noise_contrastive import NCE
from gnomon.objectives.pseudolikelihood import Pseudolikelihood
from gnomon.objectives.ratio_matching import RatioMatching
from gnomon.objectives.score_matching import ScoreMatching
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.rbm import RBMModel
from oracles.binary import all_states

BIASES, PAIRS = np.array([0.3, -0.5, 0.2]), np.array([1.5, -1.0, 0.8])


def ising(biases=BIASES, pairs=PAIRS):
    """Bits with biases and couplings (0, 1), (0, 2), (1, 2), ..."""
    machine = LayeredMachine({"v": BernoulliUnits(len(biases))}, [("v", "v")], dtype=torch.float64)
    machine.load({"v_bias": biases, "v_v_weight": np.reshape(pairs, tuple(machine.v_v_weight.shape))})
    return machine


def statistics(d):
    """Products of pairs and bits of every state, in the order of the parameters."""
    V = all_states(d)
    pairs = [V[:, i] * V[:, j] for i in range(d) for j in range(i + 1, d)]
    return V, np.column_stack([*pairs, V])


def inverse_fisher(biases, pairs):
    _, S = statistics(len(biases))
    p = np.exp(S @ np.concatenate([pairs, biases]))
    p /= p.sum()
    away = S - p @ S
    return np.linalg.inv((p[:, None] * away).T @ away)


@pytest.mark.spec("INF-60")
def test_the_likelihood_has_the_inverse_fisher_information():
    found = asymptotic_covariance(Exact(), ising())
    assert [name.split("[")[0] for name in found.names] == ["v_v_weight"] * 3 + ["v_bias"] * 3
    assert found.names[3:] == ["v_bias[0]", "v_bias[1]", "v_bias[2]"]
    np.testing.assert_allclose(found.covariance, inverse_fisher(BIASES, PAIRS), rtol=1e-9)
    np.testing.assert_allclose(found.hessian, found.spread, atol=1e-10)


@pytest.mark.spec("INF-60")
def test_the_numbers_of_the_row():
    """Three nodes with all pairs: pseudolikelihood is exactly efficient, ratio matching nearly."""
    found = relative_efficiency(RatioMatching(), ising())
    wanted = [0.981987, 0.999843, 0.973706, 0.999984, 0.992265, 0.994808]
    pairs, biases = list(found.values())[:3], list(found.values())[3:]
    np.testing.assert_allclose([*biases, *pairs], wanted, atol=6e-7)
    sandwich = asymptotic_covariance(Pseudolikelihood(), ising()).covariance
    np.testing.assert_allclose(sandwich, inverse_fisher(BIASES, PAIRS), atol=1e-9)


@pytest.mark.spec("INF-60")
@pytest.mark.parametrize("objective", [Pseudolikelihood(), RatioMatching(), GeneralizedScoreMatching()])
def test_nothing_beats_the_likelihood_on_four_nodes(objective):
    random = np.random.default_rng(0)
    biases, pairs = random.normal(size=4), random.normal(size=6)
    more = asymptotic_covariance(objective, ising(biases, pairs)).covariance - inverse_fisher(biases, pairs)
    assert np.linalg.eigvalsh(more).min() > -1e-10
    assert np.trace(more) > 1e-3
    assert all(0 < value < 1 for value in relative_efficiency(objective, ising(biases, pairs)).values())


@pytest.mark.spec("INF-60")
@pytest.mark.parametrize("objective", [Pseudolikelihood(), RatioMatching(), GeneralizedScoreMatching()])
def test_of_independent_bits_all_are_efficient(objective):
    machine = LayeredMachine({"v": BernoulliUnits(3)}, [], dtype=torch.float64)
    machine.load({"v_bias": BIASES})
    found = list(relative_efficiency(objective, machine).values())
    np.testing.assert_allclose(found, 1, atol=1e-8)


def estimates(kind, counts, start, steps=60):
    """Minima for many data sets at once by Newton's steps with one Hessian: states' counts (sets, states)."""
    V, S = statistics(3)
    flips = np.array([[int("".join(str(int(b)) for b in np.where(np.arange(3) == j, 1 - v, v)), 2) for j in range(3)]
                      for v in V])  # fmt: skip
    D = S[flips] - S[:, None]  # (states, sites, parameters): d log ratio / d parameter

    def slopes(theta):
        s = expit(np.einsum("sjp,tp->tsj", D, theta))
        weight = s if kind == "pseudolikelihood" else 2 * s * s * (1 - s)
        return np.einsum("ts,tsj,sjp->tp", counts, weight, D)

    theta = np.tile(start, (len(counts), 1))
    mean = counts.mean(0, keepdims=True)
    step = 1e-5 * np.eye(6)

    def one(x):
        s = expit(np.einsum("sjp,p->sj", D, x))
        weight = s if kind == "pseudolikelihood" else 2 * s * s * (1 - s)
        return np.einsum("s,sj,sjp->p", mean[0], weight, D)

    H = np.stack([(one(start + e) - one(start - e)) / 2e-5 for e in step], 1)
    for _ in range(steps):
        theta -= slopes(theta) @ np.linalg.inv(H).T
    assert np.abs(slopes(theta)).max() < 1e-6
    return theta


@pytest.mark.spec("INF-60")
@pytest.mark.parametrize(
    ("kind", "objective"), [("pseudolikelihood", Pseudolikelihood()), ("ratio matching", RatioMatching())]
)
def test_estimates_of_many_data_sets_vary_as_they_should(kind, objective):
    """2000 sets of 5000 rows: variances within a tenth, three standard errors of each; a fixed seed."""
    _, S = statistics(3)
    truth = np.concatenate([PAIRS, BIASES])
    p = np.exp(S @ truth)
    counts = np.random.default_rng(0).multinomial(5000, p / p.sum(), size=2000) / 5000
    found = np.cov(estimates(kind, counts, truth).T) * 5000
    wanted = asymptotic_covariance(objective, ising()).covariance
    np.testing.assert_allclose(np.diag(found), np.diag(wanted), rtol=0.1)
    scale = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
    np.testing.assert_allclose(found / scale, wanted / scale, atol=0.1)


@pytest.mark.spec("INF-60")
def test_rows_in_place_of_the_model_s_own():
    """A normal column at its own mean and variance: score matching is maximum likelihood, 1/n and 2/n."""
    x = np.random.default_rng(0).normal(size=(50, 1)) * 2 + 1
    one = LayeredMachine({"v": CenteredScaledGaussianUnits(1)}, [], dtype=torch.float64)
    one.load({"v_bias": x.mean(0), "v_log_precision": -np.log(x.var(0))})
    found = asymptotic_covariance(ScoreMatching(), one, x)
    z = (x[:, 0] - x.mean()) / x.std()
    wanted = [[x.var(), -x.std() * (z**3).mean()], [-x.std() * (z**3).mean(), (z**4).mean() - 1]]
    np.testing.assert_allclose(found.covariance, wanted, rtol=1e-7)
    weight = np.r_[np.full(40, 0.5), np.ones(10)]
    twice = asymptotic_covariance(ScoreMatching(), one, np.vstack([x, x[40:]]))
    np.testing.assert_allclose(
        asymptotic_covariance(ScoreMatching(), one, x, weight).covariance, twice.covariance, rtol=1e-9
    )


@pytest.mark.spec("INF-60")
def test_what_has_no_such_covariance_is_refused():
    alike = RBMModel.of(np.zeros((3, 2)), np.zeros(3), np.zeros(2))
    with pytest.raises(UserValueError, match=r"the Hessian of the mean loss must be regular.*parameters are not"):
        asymptotic_covariance(Pseudolikelihood(), alike)
    normal = LayeredMachine({"v": CenteredScaledGaussianUnits(1)}, [], dtype=torch.float64)
    for objective, model, rows in (
        (CD(), ising(), None), (NCE(), ising(), None), (Pseudolikelihood(n_conditionals=1), ising(), None),
        (DenoisingScoreMatching(), normal, np.ones((3, 1))),
    ):  # fmt: skip
        with pytest.raises(UserTypeError, match="needs a loss that is a function of the row, got"):
            asymptotic_covariance(objective, model, rows)
