"""Fast persistent contrastive divergence: by hand, its reductions, and what is left out of the fitted machine."""

import numpy as np
import pytest
from scipy.special import expit

import gnomon
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import PCD
from gnomon.objectives.fast_weights import FPCD
from gnomon.systems.energy.gaussian_rbm import GaussianRBMModel
from gnomon.systems.energy.rbm import RBMModel
from gnomon.training.group import Group
from oracles.layered import machine_of
from oracles.principles import batch_of, begun, bits, loss_of, mean_gradient

NAMES = ("weight", "visible_bias", "hidden_bias")


def rbm(seed=0, d=5, m=3):
    random = np.random.default_rng(seed)
    return RBMModel.of(*(random.normal(size=shape) for shape in ((d, m), d, m)))


def gaussian(seed=0):
    random = np.random.default_rng(seed)
    return GaussianRBMModel.of(
        random.normal(size=(3, 2)), random.normal(size=3), random.normal(size=2), random.uniform(0.5, 2.0, 3)
    )


MACHINES = {
    "rbm": (rbm, bits(6, 5)),
    "gaussian": (gaussian, np.random.default_rng(1).normal(size=(6, 3))),
    "deep": (lambda: machine_of("three"), bits(6, 4)),
    "graph": (lambda: machine_of("graph"), bits(6, 3)),
    "lateral": (lambda: machine_of("whole"), bits(6, 3)),
}


def fast_of(objective):
    return {name.removeprefix("fast/"): x.numpy().copy() for name, x in objective.named_buffers() if "fast/" in name}


@pytest.mark.spec("INF-40")
def test_three_updates_by_hand():
    """Chains at theta plus fast weights, rows at theta; the fast ones fade by 19/20 and follow the mean gradient."""
    model, X, weight = rbm(), bits(4, 5), np.array([0.5, 2.0, 1.0, 1.0])
    objective = begun(FPCD(fast_lr=0.3, n_chains=7), model, X)
    theta = {name: value.astype(float) for name, value in model.state().items()}
    fast = {name: 0 * value for name, value in theta.items()}
    for update in range(3):
        h = objective.chains["hidden"].numpy().copy()
        found = mean_gradient(objective, model, X, update, weight)
        places = Noise(0, "fit").at(update).rows(np.arange(7))
        W, b, c = (theta[name] + fast[name] for name in NAMES)
        v = places.bernoulli(expit(h @ W.T + b), 0)
        far = expit(v @ W + c)
        near, share = expit(X @ theta["weight"] + theta["hidden_bias"]), weight[:, None] / weight.sum()
        expected = {
            "weight": v.T @ far / 7 - (share * X).T @ near,
            "visible_bias": v.mean(0) - (share * X).sum(0),
            "hidden_bias": far.mean(0) - (share * near).sum(0),
        }
        for name in NAMES:
            np.testing.assert_allclose(found[name], expected[name], atol=1e-12)
            fast[name] = 19 / 20 * fast[name] - 0.3 * expected[name]
            np.testing.assert_allclose(fast_of(objective)[name], fast[name], atol=1e-12)
        np.testing.assert_array_equal(objective.chains["hidden"].numpy(), places.bernoulli(far, 2))


@pytest.mark.spec("INF-40")
@pytest.mark.parametrize("applies", ["chains", "model"])
@pytest.mark.parametrize("name", MACHINES)
def test_without_fast_weights_it_is_persistent_contrastive_divergence_bit_for_bit(name, applies):
    make, X = MACHINES[name]
    model = make()
    fast, plain, almost = (
        begun(recipe, model, X)
        for recipe in (FPCD(k=2, fast_lr=0.0, applies=applies), PCD(k=2), FPCD(2, fast_lr=1e-300))
    )
    for update in range(4):
        found, expected, near = (loss_of(one, model, X, update).gradients for one in (fast, plain, almost))
        for parameter, value in expected.items():
            np.testing.assert_array_equal(found[parameter], value)
            np.testing.assert_allclose(near[parameter], value, atol=1e-12)  # along the way with fast weights
        for block, chain in plain.chains.items():
            np.testing.assert_array_equal(fast.chains[block], chain)
            np.testing.assert_array_equal(almost.chains[block], chain)


@pytest.mark.spec("INF-40")
def test_whole_fits_without_fast_weights_are_equal():
    X = bits(60, 6)
    one, other = (
        gnomon.RBM(n_hidden=4, objective=objective, epochs=3, random_state=0).fit(X)
        for objective in (PCD(), FPCD(fast_lr=0.0))
    )
    for name, value in one.model_.state().items():
        np.testing.assert_allclose(other.model_.state()[name], value, rtol=0, atol=2e-6)  # PCD: compiled


@pytest.mark.spec("INF-40")
@pytest.mark.parametrize("name", MACHINES)
def test_a_decay_of_0_leaves_the_last_step_alone(name):
    make, X = MACHINES[name]
    model = make()
    objective = begun(FPCD(fast_lr=0.2, decay=0.0), model, X)
    for update in range(3):
        found = mean_gradient(objective, model, X, update)
        for parameter, fast in fast_of(objective).items():
            np.testing.assert_allclose(fast, -0.2 * found[parameter], atol=1e-14)


@pytest.mark.spec("INF-40")
def test_fast_weights_of_the_whole_model_move_the_rows_side_too():
    """Its gradient is that of persistent chains on the machine with the sum for parameters."""
    X, model = bits(4, 5), rbm()
    objective = begun(FPCD(fast_lr=0.3, applies="model"), model, X)
    loss_of(objective, model, X, 0)
    fast = fast_of(objective)
    moved = RBMModel.of(*(model.state()[name] + fast[name] for name in NAMES))
    plain = begun(PCD(), moved, X)
    plain.chains["hidden"].copy_(objective.chains["hidden"])
    found, expected = (mean_gradient(one, at, X, 1) for one, at in ((objective, model), (plain, moved)))
    for name in NAMES:
        np.testing.assert_allclose(found[name], expected[name], atol=1e-12)


@pytest.mark.spec("INF-40")
@pytest.mark.parametrize("system", [gnomon.RBM, gnomon.GaussianRBM, gnomon.LabelRBM])
def test_the_fitted_machine_is_without_fast_weights(system):
    """At a learning rate of nothing the parameters stand, however large the fast weights have become."""
    X, y = bits(40, 4), np.repeat([0, 1], 20)
    options = {"objective": FPCD(fast_lr=5.0, decay=1.0), "learning_rate": 1e-30, "random_state": 0}
    options |= {"generative": 1.0} if system is gnomon.LabelRBM else {}
    first, fitted = (system(n_hidden=3, epochs=epochs, **options).fit(X, y) for epochs in (1, 4))
    assert set(fitted.model_.state()) == {name for name, _ in fitted.model_.named_parameters()}
    for name, value in fitted.model_.state().items():
        np.testing.assert_allclose(value, first.model_.state()[name], atol=1e-20)


def test_precisions_that_are_held_get_no_fast_weights():
    model = GaussianRBMModel(3, 2, variance="fixed")
    objective = begun(FPCD(), model, MACHINES["gaussian"][1].astype(np.float32))
    assert set(fast_of(objective)) == {"weight", "visible_bias", "hidden_bias"}


def test_validation_leaves_fast_weights_and_chains_where_they_were():
    model, X = rbm(), bits(4, 5)
    objective = begun(FPCD(), model, X)
    loss_of(objective, model, X, 0)
    before = {name: value.copy() for name, value in objective.state().items()}
    objective.validate(model, batch_of(X), noise=Noise(1, "validation"), group=Group())
    for name, value in objective.state().items():
        np.testing.assert_array_equal(value, before[name])
