"""The restricted Boltzmann machine as its users call it: every verb against sums over all joint states."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import chisquare
from sklearn.neural_network import BernoulliRBM

from gnomon.errors import UserValueError
from gnomon.systems.energy.gaussian_rbm import GaussianRBM
from gnomon.systems.energy.rbm import RBM, RBMModel
from oracles.binary import Joint, all_states, numerical_gradient, rbm_energy

W = np.array([[1.0, -1.0], [0.5, 2.0], [0.0, 1.0]])
B, C = np.array([0.1, -0.2, 0.3]), np.array([-0.5, 0.2])


def fitted(weight=W, visible_bias=B, hidden_bias=C):
    d, m = weight.shape
    system = RBM(n_hidden=m, epochs=1, random_state=0, dtype="float64").fit(all_states(d))
    system.model_.load(RBMModel.of(weight, visible_bias, hidden_bias).state())
    return system


@pytest.mark.spec("REP-158")
def test_conditionals_factorize_given_the_other_layer_and_the_prior_of_the_hidden_layer_does_not():
    """Hidden biases are c, not the document's b: p(h_i = 1 | v) = s(v W_i + c_i), p(v_j = 1 | h) = s(b_j + W_j h)."""
    system, joint, V, H = fitted(), Joint(rbm_energy(W, B, C), (3, 2)), all_states(3), all_states(2)
    table = joint.p.reshape(8, 4)
    for v, given in zip(V, table / table.sum(1, keepdims=True), strict=True):
        means = system.transform(v[None])[0]
        np.testing.assert_allclose(means, given @ H, atol=1e-12)
        np.testing.assert_allclose(given, np.prod(np.where(H == 1, means, 1 - means), axis=1), atol=1e-12)
    for h, given in zip(H, (table / table.sum(0)).T, strict=True):
        means = system.inverse_transform(h[None])[0]
        np.testing.assert_allclose(means, given @ V, atol=1e-12)
        np.testing.assert_allclose(given, np.prod(np.where(V == 1, means, 1 - means), axis=1), atol=1e-12)
    np.testing.assert_allclose(system.transform(np.ones((1, 3)))[0], (0.731059, 0.900250), atol=5e-7)
    prior = table.sum(0)
    means = prior @ H
    assert np.abs(prior - np.prod(np.where(H == 1, means, 1 - means), axis=1)).max() > 1e-3
    np.testing.assert_array_equal(system.hidden_bias_, C)
    np.testing.assert_array_equal(system.visible_bias_, B)
    np.testing.assert_array_equal(system.weights_, W)


@pytest.mark.spec("REP-158")
def test_probabilities_are_sums_over_joint_states():
    system, joint, V = fitted(), Joint(rbm_energy(W, B, C), (3, 2)), all_states(3)
    np.testing.assert_allclose(np.exp(system.log_prob(V)), joint.marginal(0), atol=1e-12)
    np.testing.assert_allclose(system.free_energy(V), -joint.log_marginal_mass(0), atol=1e-12)
    assert system.log_partition().value == pytest.approx(joint.log_z, abs=1e-12)
    peer = BernoulliRBM(n_components=2)
    peer.components_, peer.intercept_visible_, peer.intercept_hidden_ = W.T, B, C
    np.testing.assert_allclose(system.free_energy(V), peer._free_energy(V), atol=1e-12)
    np.testing.assert_allclose(system.transform(V), peer.transform(V), atol=1e-12)
    free = fitted(0 * W)
    z = np.prod(1 + np.exp(B)) * np.prod(1 + np.exp(C))
    assert free.log_partition().value == pytest.approx(np.log(z), abs=1e-12)


@pytest.mark.spec("REP-158")
def test_the_slope_of_the_energy_by_a_weight_is_minus_the_product_of_its_units():
    """dE / dW_ij = -v_i h_j by differences of the energy written out, at every joint state."""
    model, energy = fitted().model_, rbm_energy
    for v in all_states(3):
        for h in all_states(2):
            state = {"visible": v[None], "hidden": h[None]}
            slopes = {
                "weight": numerical_gradient(lambda w, v=v, h=h: energy(w, B, C)(v, h), W),
                "visible_bias": numerical_gradient(lambda b, v=v, h=h: energy(W, b, C)(v, h), B),
                "hidden_bias": numerical_gradient(lambda c, v=v, h=h: energy(W, B, c)(v, h), C),
            }
            np.testing.assert_allclose(slopes["weight"], -np.outer(v, h), atol=1e-9)
            found = model.joint_gradient(state, np.ones(1))
            for name, value in slopes.items():
                np.testing.assert_allclose(found[name], value, atol=1e-9)


@pytest.mark.spec("REP-158")
def test_small_steps_of_the_exact_gradient_raise_the_exact_likelihood_at_every_update():
    random = np.random.default_rng(0)
    X = (random.random((30, 4)) < [0.2, 0.5, 0.8, 0.6]).astype(float)
    X[:, 3] = X[:, 0]
    system = RBM(
        n_hidden=2, objective="exact", epochs=300, batch_size=None, learning_rate=0.5, random_state=0, dtype="float64"
    ).fit(X)
    loss = np.array(system.history_["negative_log_likelihood"])
    assert (np.diff(loss) < 0).all()
    joint = Joint(rbm_energy(system.weights_, system.visible_bias_, system.hidden_bias_), (4, 2))
    rows = (X @ [8, 4, 2, 1]).astype(int)
    found = -np.log(joint.marginal(0)[rows]).mean()
    assert -system.score(X) == pytest.approx(found, abs=1e-12)
    assert found < loss[-1] < loss[0] - 0.05


@pytest.mark.spec("REP-158")
def test_chains_draws_and_reconstructions():
    system, joint, n = fitted(), Joint(rbm_energy(W, B, C), (3, 2)), 20_000
    drawn = system.sample(n, steps=40, random_state=0)
    counts = np.bincount((drawn @ [4, 2, 1]).astype(int), minlength=8)
    assert chisquare(counts, n * joint.marginal(0)).pvalue > 1e-4  # false alarm 1e-4
    table = joint.p.reshape(8, 4)
    start = np.tile([1.0, 0.0, 1.0], (n, 1))
    after = (table[5] / table[5].sum()) @ (table / table.sum(0)).T  # one sweep: hidden given row 101, rows given hidden
    counts = np.bincount((system.gibbs(start, 1, random_state=1) @ [4, 2, 1]).astype(int), minlength=8)
    assert chisquare(counts, n * after).pvalue > 1e-4
    rows = all_states(3)
    means = expit(B + expit(rows @ W + C) @ W.T)
    np.testing.assert_allclose(system.reconstruct(rows), means, atol=1e-12)
    np.testing.assert_allclose(system.inverse_transform(system.transform(rows)), means, atol=1e-12)


@pytest.mark.spec("REP-158")
def test_gray_levels_are_probabilities_in_the_fit_and_no_rows_in_the_likelihood():
    """A gray row counts as its bits drawn at random do, in the data's side of the gradient of the visible biases."""
    gray = np.tile([0.25, 0.75, 0.5], (40, 1))
    system = RBM(n_hidden=1, objective="exact", epochs=200, batch_size=None, learning_rate=1.0, random_state=0).fit(
        gray
    )
    rows = all_states(3)
    np.testing.assert_allclose(np.exp(system.log_prob(rows)) @ rows, gray[0], atol=0.01)
    with pytest.raises(UserValueError, match=r"X must be 0 or 1, got 0\.25"):
        system.log_prob(gray)


@pytest.mark.spec("REP-158")
@pytest.mark.parametrize(
    ("H", "message"),
    [
        (np.ones((2, 3)), "H must have 2 columns, one for each hidden unit, got 3"),
        (np.full((1, 2), 1.5), "H"),
        (np.full((1, 2), np.nan), "H"),
    ],
)
def test_codes_that_are_none_are_refused(H, message):
    with pytest.raises(UserValueError, match=message):
        fitted().inverse_transform(H)


def test_real_rows_are_made_of_codes_in_the_units_of_the_data():
    X = np.random.default_rng(0).normal(3, 2, size=(60, 3))
    machine = GaussianRBM(n_hidden=2, epochs=3, random_state=0, dtype="float64").fit(X)
    np.testing.assert_allclose(machine.inverse_transform(machine.transform(X)), machine.reconstruct(X), atol=1e-12)
