"""Bias and variance of gradients from chains, against a table of the joint law and the objectives that draw."""

import numpy as np
import pytest
from tests.oracles.binary import Joint, all_states, marginal_kernel, rbm_energy
from tests.oracles.principles import mean_gradient

import gnomon
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.gradient_noise import ChainEstimator, gradient_bias_variance
from gnomon.objectives.contrastive import CD
from gnomon.systems.energy.gaussian_rbm import GaussianRBMModel
from gnomon.systems.energy.rbm import RBMModel

W, B, C = np.array([[1.0, -1.0], [0.5, 0.5], [-1.0, 2.0]]), np.array([0.1, -0.2, 0.3]), np.array([0.0, -0.5])
TINY = RBMModel.of(W, B, C)
TWO = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])


def statistics():
    v = all_states(3)
    h = 1 / (1 + np.exp(-(v @ W + C)))
    return np.concatenate([(v[:, :, None] * h[:, None, :]).reshape(len(v), -1), v, h], axis=1)


def by_hand(data, k, shared):
    """Mean and trace of the covariance of s(v+) - s(v-), over every pair of states."""
    joint = Joint(rbm_energy(W, B, C), (3, 2))
    step = np.linalg.matrix_power(marginal_kernel(joint, 0), k)
    s = statistics()
    mean, second = np.zeros(s.shape[1]), 0.0
    for i in range(8):
        for j in range(8):
            chance = data[i] * step[j, i] if shared else data[i] * (step @ data)[j]
            mean += chance * (s[i] - s[j])
            second += chance * ((s[i] - s[j]) ** 2).sum()
    return mean, second - (mean**2).sum()


@pytest.mark.spec("INF-38")
def test_traces_of_one_pair_where_the_data_are_the_models():
    estimators = [ChainEstimator("model"), ChainEstimator("data", 1), ChainEstimator("data", 2)]
    found = gradient_bias_variance(
        TINY, None, [*estimators, ChainEstimator("other data"), ChainEstimator("persistent")]
    )
    np.testing.assert_allclose(
        [one.trace for one in found], [2.827041, 2.460685, 2.726780, 2.827041, 2.827041], atol=6e-7
    )
    assert all(one.bias_norm < 1e-12 and one.exact_norm < 1e-12 for one in found)  # the model's law stays as it is


@pytest.mark.spec("INF-38")
def test_ten_successive_states_tell_less_than_ten_independent_draws():
    independent, chain = gradient_bias_variance(
        TINY, None, [ChainEstimator("model"), ChainEstimator("persistent")], pairs=10
    )
    assert independent.negative_trace == pytest.approx(0.141352, abs=6e-7)
    assert chain.negative_trace == pytest.approx(0.185117, abs=6e-7)
    assert chain.trace - independent.trace == pytest.approx(0.185117 - 0.141352, abs=1e-6)


@pytest.mark.spec("INF-38")
def test_the_order_of_variances_is_no_theorem():
    exact, cd = gradient_bias_variance(TINY, TWO, [ChainEstimator("model"), ChainEstimator("data")])
    assert exact.trace == pytest.approx(2.649110, abs=6e-7)
    assert cd.trace == pytest.approx(2.654323, abs=6e-7)
    assert exact.bias_norm < 1e-12


@pytest.mark.spec("INF-38")
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("start", ["data", "other data"])
def test_bias_and_trace_by_summing_over_all_pairs(k, start):
    data = np.zeros(8)
    data[[5, 2]] = 0.25, 0.75
    (found,) = gradient_bias_variance(TINY, TWO, [ChainEstimator(start, k)], weight=[1.0, 3.0])
    joint = Joint(rbm_energy(W, B, C), (3, 2))
    mean, trace = by_hand(data, k, shared=start == "data")
    exact = statistics().T @ (data - joint.marginal(0))
    flat = np.concatenate([found.bias[name].reshape(-1) for name in ("weight", "visible_bias", "hidden_bias")])
    np.testing.assert_allclose(flat, mean - exact, atol=1e-12)
    assert found.trace == pytest.approx(trace, abs=1e-12)
    assert sum(one.sum() for one in found.variance.values()) == pytest.approx(trace, abs=1e-12)


@pytest.mark.spec("INF-38")
def test_the_objective_that_draws_has_the_enumerated_moments():
    """`cd` run 1,000 times at a batch of the two rows: means within 4.5 standard errors (7e-6 a component), the trace,
    whose relative error is about 3 %, within 14 %."""
    (found,) = gradient_bias_variance(TINY, TWO, [ChainEstimator("data")])
    objective, n = CD().build(), 1000
    drawn = np.array([
        np.concatenate([np.ravel(value) for value in mean_gradient(objective, TINY, TWO, update).values()])
        for update in range(n)
    ])  # fmt: skip
    names = list(mean_gradient(objective, TINY, TWO))
    mean = -np.concatenate([np.ravel(found.exact[name] + found.bias[name]) for name in names])
    assert (np.abs(drawn.mean(0) - mean) < 4.5 * drawn.std(0) / np.sqrt(n)).all()
    # both rows are in every batch, so that what varies is the chain alone: half of E Var[s(v-) | v+]
    joint = Joint(rbm_energy(W, B, C), (3, 2))
    step, s = marginal_kernel(joint, 0), statistics()
    within = np.mean([(step[:, i] @ (s - step[:, i] @ s) ** 2).sum() for i in (5, 2)])
    assert drawn.var(0).sum() == pytest.approx(within / 2, rel=0.14)


def test_what_cannot_be_enumerated_is_refused():
    with pytest.raises(UserTypeError, match="units must be 0 and 1"):
        gradient_bias_variance(GaussianRBMModel.of(W, B, C))
    with pytest.raises(UserValueError, match="at most 12"):
        gradient_bias_variance(RBMModel(13, 2))
    with pytest.raises(UserValueError, match="0 and 1"):
        gradient_bias_variance(TINY, [[0.5, 0, 1]])
    with pytest.raises(UserValueError, match="weight"):
        gradient_bias_variance(TINY, TWO, weight=[0, 0])
    with pytest.raises(UserValueError, match="pairs"):
        gradient_bias_variance(TINY, TWO, pairs=0)
    with pytest.raises(UserValueError, match="k must be"):
        ChainEstimator("data", 0)


@pytest.mark.spec("INF-38")
def test_diagnosis_tells_the_bias_beside_the_noise_of_an_update():
    random = np.random.default_rng(0)
    X = (random.random((200, 5)) < [0.2, 0.8, 0.5, 0.5, 0.3]).astype(float)
    machine = gnomon.RBM(n_hidden=3, objective="cd", epochs=5, random_state=0).fit(X)
    (found,) = gnomon.diagnose(machine, X).of("gradient")
    assert found.level == "ok" and found.evidence.startswith("cd-1: its mean is off by") and "20 rows" in found.evidence
    moments = gradient_bias_variance(machine, X, [ChainEstimator("data")], pairs=20)[0]
    assert f"off by {moments.bias_norm:.3g}" in found.evidence
    # two modes of equal mass, of which the rows have one nine times as often: chains of one step stay in theirs
    weight = np.zeros((5, 3), np.float32)
    weight[:, 0] = 8
    machine.model_.load({"weight": weight, "visible_bias": np.full(5, -4.0), "hidden_bias": np.array([-20.0, 0, 0])})
    machine.set_params(batch_size=200)
    (found,) = gnomon.diagnose(machine, np.repeat([[0.0] * 5, [1.0] * 5], [180, 20], axis=0)).of("gradient")
    assert found.level == "notice" and "biased" in found.what and "pcd" in found.remedy
