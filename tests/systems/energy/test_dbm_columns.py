"""Deep Boltzmann machines of real columns, against mixtures and energies written out."""

import numpy as np
import pytest
import torch
from scipy import integrate
from scipy.special import expit
from scipy.stats import kstest, multivariate_normal, norm

from gnomon.data.batches import Batch
from gnomon.errors import UserValueError
from gnomon.evaluation.partition import log_partition
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import Exact
from gnomon.systems.energy.dbm import DBM, RealDBMModel
from gnomon.systems.energy.gaussian_rbm import GaussianRBMModel
from gnomon.training.group import Group
from oracles.binary import all_states, numerical_gradient

W1, A, BETA = np.array([[1.0, 0.5], [-1.0, 0.5], [0.5, -1.0]]), np.array([0.1, -0.2, 0.3]), np.array([0.5, 1.5, 2.5])
B1, W2, B2 = np.array([-0.1, 0.2]), np.array([[0.5, -1.0, 0.3], [1.0, 0.2, -0.6]]), np.array([0.1, 0.2, -0.3])
ROWS = np.random.default_rng(0).normal(size=(9, 3)) * 1.5
H1, H2 = all_states(2), all_states(3)
WEIGHT = np.linspace(-1.0, 2.0, 9)


def state_of(W1=W1, A=A, log_beta=None, B1=B1, W2=W2, B2=B2):
    log_beta = np.log(BETA) if log_beta is None else log_beta
    return {
        "visible_hidden_1_weight": W1, "visible_bias": A, "visible_log_precision": log_beta, "hidden_1_bias": B1,
        "hidden_1_hidden_2_weight": W2, "hidden_2_bias": B2,
    }  # fmt: skip


def deep(**changed):
    model = RealDBMModel(len(changed.get("A", A)), (2, 3), torch.float64)
    model.load(state_of(**changed))
    return model


def energy(v, h1, h2):
    """Every term written out."""
    beta = BETA
    total = sum(beta[i] * (v[i] - A[i]) ** 2 / 2 for i in range(3)) - B1 @ h1 - B2 @ h2 - h1 @ W2 @ h2
    return total - sum(v[i] * beta[i] * W1[i, j] * h1[j] for i in range(3) for j in range(2))


def mixture(W1=W1, A=A, beta=BETA, B1=B1, W2=W2, B2=B2):
    """Log weight and mean of the normal density of each state of the lower hidden layer, and log Z."""
    top = np.logaddexp(0, B2 + H1 @ W2).sum(1)
    inner = 0.5 * ((H1 @ W1.T) ** 2) @ beta + H1 @ (W1.T @ (beta * A))
    log_w = H1 @ B1 + top + inner + 0.5 * np.log(2 * np.pi / beta).sum()
    log_z = np.logaddexp.reduce(log_w)
    return log_w - log_z, A + H1 @ W1.T, log_z


@pytest.mark.spec("GEN-019")
def test_one_hidden_layer_is_the_machine_of_real_columns():
    model = RealDBMModel(3, (2,), torch.float64)
    model.load({name: value for name, value in state_of().items() if name in model.state()})
    other = GaussianRBMModel.of(W1, A, B1, BETA)
    np.testing.assert_allclose(model.energy(ROWS), other.energy(ROWS), rtol=1e-12)
    assert model.log_partition() == pytest.approx(other.log_partition(), rel=1e-13)
    names = {"visible_hidden_1_weight": "weight", "hidden_1_bias": "hidden_bias"}
    for x, w in ((ROWS, WEIGHT), (torch.from_numpy(ROWS), torch.from_numpy(WEIGHT))):
        found, wanted = model.marginal_gradient({"visible": x}, w), other.marginal_gradient({"visible": x}, w)
        assert len(found) == len(wanted)
        for name, value in found.items():
            np.testing.assert_allclose(value, wanted[names.get(name, name)], rtol=1e-11, atol=1e-12)
    pair = model.pair(1)
    assert pair.get_parameter("visible_log_precision").requires_grad
    np.testing.assert_allclose(pair.energy(ROWS), other.energy(ROWS), rtol=1e-12)


@pytest.mark.spec("GEN-019")
def test_energy_density_and_conditionals_of_two_hidden_layers_by_enumeration():
    model = deep()
    v, h1, h2 = np.repeat(ROWS, 32, 0), np.tile(np.repeat(H1, 8, 0), (9, 1)), np.tile(H2, (36, 1))
    joint = np.array([energy(*x) for x in zip(v, h1, h2, strict=True)])
    np.testing.assert_allclose(
        model.joint_energy({"visible": v, "hidden_1": h1, "hidden_2": h2}), joint, rtol=1e-11, atol=1e-12
    )
    log_w, means, log_z = mixture()
    assert model.log_partition() == pytest.approx(log_z, rel=1e-12)
    np.testing.assert_allclose(model.energy(ROWS), -np.logaddexp.reduce(-joint.reshape(9, -1), axis=1), rtol=1e-11)
    parts = [w + multivariate_normal(m, np.diag(1 / BETA)).logpdf(ROWS) for w, m in zip(log_w, means, strict=True)]
    np.testing.assert_allclose(model.log_prob(ROWS), np.logaddexp.reduce(parts), rtol=1e-11)
    given = model.conditional("visible", {"hidden_1": H1})
    np.testing.assert_allclose(given.mean, means, rtol=1e-12)
    np.testing.assert_allclose(given.variance, 1 / BETA, rtol=1e-12)
    field = B1 + (ROWS * BETA) @ W1 + H2[:1] @ W2.T
    found = model.conditional("hidden_1", {"visible": ROWS, "hidden_2": np.repeat(H2[:1], 9, 0)})
    np.testing.assert_allclose(found.mean, expit(field), rtol=1e-12)
    one = deep(W1=W1[:1], A=A[:1], log_beta=np.log(BETA[:1]))
    mass = integrate.quad(lambda x: np.exp(one.log_prob(np.array([[x]]))[0]), -15, 15, epsabs=1e-12)[0]
    assert mass == pytest.approx(1, abs=1e-9)


@pytest.mark.spec("GEN-019")
def test_gradients_of_the_likelihood_by_finite_differences():
    likely = np.linspace(0.5, 2.0, 9)
    batch = Batch({"X": ROWS}, np.arange(9), np.arange(9), likely)
    found = Exact().build()(deep(), batch, noise=Noise(0, "fit"), phase="fit", group=Group()).gradients
    keys = {"W1": W1, "A": A, "log_beta": np.log(BETA), "B1": B1, "W2": W2, "B2": B2}
    for (name, _), (key, value) in zip(state_of().items(), keys.items(), strict=True):
        wanted = numerical_gradient(lambda x, key=key: -float(likely @ deep(**{key: x}).log_prob(ROWS)), value)
        np.testing.assert_allclose(found[name], wanted, rtol=1e-6, atol=1e-6, err_msg=name)


@pytest.mark.spec("GEN-019")
def test_rows_that_stand_twice_are_one_of_twice_the_precision():
    """Two copies of the rows under the layer: what it is given them, and the law of their mean."""
    pair = deep().pair(1)
    up = pair.conditional("hidden_1", {"visible": ROWS}).mean
    np.testing.assert_allclose(up, expit(B1 + 2 * (ROWS * BETA) @ W1), rtol=1e-12)
    down = pair.conditional("visible", {"hidden_1": H1})
    np.testing.assert_allclose(down.mean, A + H1 @ W1.T, rtol=1e-12)
    np.testing.assert_allclose(down.variance, 0.5 / BETA, rtol=1e-12)
    np.testing.assert_allclose(deep().rows_below(1, ROWS), ROWS)
    np.testing.assert_allclose(deep().rows_below(2, ROWS), up, rtol=1e-12)
    assert not pair.get_parameter("visible_log_precision").requires_grad


@pytest.mark.spec("GEN-019")
def test_bridges_and_annealing_find_log_z():
    model = deep()
    model.spread = np.array([1.2, 0.9, 0.8])
    found = log_partition(model, method="ais", noise=Noise(0, "z"), base_mean=ROWS.mean(0), chains=200, schedule=200)
    assert abs(found.value - model.log_partition()) < 4.5 * found.error + 1e-3  # a fixed seed


def groups(n=300, seed=0):
    """Two groups in columns of different units, with a spread of their own."""
    random = np.random.default_rng(seed)
    group = random.integers(0, 2, (n, 1)) * 1.0
    return group * [30.0, 0.04, -2.0] + random.normal(size=(n, 3)) * [5.0, 0.01, 0.5] + [100.0, 0.0, 7.0]


@pytest.mark.spec("GEN-019")
def test_precisions_are_held_while_rows_stand_twice_and_learned_in_the_joint_fit_above_their_floor():
    X = groups()
    begun = DBM(
        hidden=(2, 2), visible="gaussian", random_state=0, dtype="float64", max_updates=9, floor=0.99, pretrain_epochs=9
    )
    stages = begun.fit(X).history_["stage"]
    assert len(set(stages)) == 3
    learned = {
        floor: DBM(hidden=(2, 2), visible="gaussian", random_state=0, epochs=20, pretrain_epochs=2, dtype="float64",
                   floor=floor, learning_rate=0.2).fit(X)
        for floor in (0.1, 0.7)
    }  # fmt: skip
    spread = {floor: 1 / np.sqrt(one.precision_) / X.std(0) for floor, one in learned.items()}
    assert (spread[0.1] < 0.65).all()  # 0.32, 0.45 and 0.45 within the groups
    np.testing.assert_allclose(spread[0.7], 0.7, rtol=1e-9)
    model, examples = begun.model_, begun.ingest(X)
    whole = begun.problem(model, examples, Noise(0, "fit"), Group())
    state = begun.procedure(examples).start(whole)
    before = {name: value.copy() for name, value in model.state().items()}
    for _ in range(2):
        state, _ = begun.procedure(examples).step(state)
    moved = {name for name, value in model.state().items() if not np.array_equal(value, before[name])}
    assert moved == {"visible_hidden_1_weight", "visible_bias", "hidden_1_bias"}


@pytest.mark.spec("GEN-019")
@pytest.mark.parametrize("standardize", [True, False])
def test_a_fit_is_a_mixture_in_the_units_of_the_data(standardize):
    X = groups() if standardize else (groups() - [115.0, 0.02, 6.0]) / [15.8, 0.022, 1.12] * [2.0, 1.0, 0.7]
    machine = DBM(
        hidden=(2, 2), visible="gaussian", standardize=standardize, random_state=0, epochs=30, pretrain_epochs=5,
        learning_rate=0.2, dtype="float64",
    ).fit(X)  # fmt: skip
    unit, shift = (X.std(0), X.mean(0)) if standardize else (np.ones(3), np.zeros(3))
    (W1, W2), (a, b1, b2) = machine.weights_, machine.biases_
    log_w, means, _ = mixture(W1, a, machine.precision_ * unit**2, b1, W2, b2)
    means = means * unit + shift
    parts = [
        w + multivariate_normal(m, np.diag(1 / machine.precision_)).logpdf(X) for w, m in zip(log_w, means, strict=True)
    ]
    found = machine.log_prob(X)
    np.testing.assert_allclose(found, np.logaddexp.reduce(parts), rtol=1e-9, atol=1e-9)
    assert found.mean() > multivariate_normal(X.mean(0), np.diag(X.var(0))).logpdf(X).mean() + 1
    np.testing.assert_allclose(-machine.energy(X) - machine.log_partition().value, found, rtol=1e-9, atol=1e-9)
    assert (machine.log_prob_bound(X) <= found + 1e-9).all()
    score = machine.evaluate(X)["log_likelihood"]
    assert (score.kind, score.data_space) == ("exact", "density on R^3")
    assert (((machine.reconstruct(X) - X) ** 2).mean(0) < 0.6 * X.var(0)).all()
    assert machine.transform(X).shape == (300, 4)


@pytest.mark.spec("GEN-019")
def test_draws_follow_the_mixture():
    """Kolmogorov-Smirnov of each column, 1e-4 each: a false alarm in 3,000."""
    machine = DBM(hidden=(2, 3), visible="gaussian", standardize=False, epochs=1, random_state=0, dtype="float64")
    machine.fit(ROWS).model_ = deep()
    drawn = machine.sample(10_000, steps=40, random_state=1)
    log_w, means, _ = mixture()
    for i in range(3):

        def cdf(x, i=i):
            return sum(np.exp(w) * norm(m[i], BETA[i] ** -0.5).cdf(x) for w, m in zip(log_w, means, strict=True))

        assert kstest(drawn[:, i], cdf).pvalue > 1e-4


def test_real_columns_are_asked_for():
    with pytest.raises(UserValueError, match=r"in \[0, 1\].*Gaussian units"):
        DBM(random_state=0).fit(groups())
    assert not hasattr(DBM(hidden=(2,), epochs=1, pretrain_epochs=0, random_state=0).fit(np.eye(2)), "precision_")
