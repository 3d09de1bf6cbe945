"""Self-contrastive estimation against the gradient of the likelihood by enumeration, and noise contrasts by hand."""

import numpy as np
import pytest
import torch

import gnomon
from gnomon.data.batches import Batch
from gnomon.distributions.units import BernoulliUnits
from gnomon.errors import UserTypeError
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import PCD
from gnomon.objectives.self_contrastive import SelfContrast
from gnomon.systems.energy.gaussian_rbm import GaussianRBM
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.rbm import RBM, RBMModel
from gnomon.training.group import Group
from oracles.binary import all_states
from oracles.layered import assert_same, by_differences, filled, machine_of

TINY = (np.array([[1.0, -1.0], [0.5, 0.5], [-1.0, 2.0]]), np.array([0.1, -0.2, 0.3]), np.array([0.0, -0.5]))


class Sizes:
    batch_size, steps = 8, 1


def begun(model, **options):
    objective = SelfContrast(**options).build()
    objective.begin(model, Sizes(), Noise(0, "begin"), Group())
    return objective


def every(objective, model, sampler, P, Q):
    """The loss over all rows, with weights P as data and Q as draws."""
    V = all_states(model.sizes["visible"])
    return objective._contrast(model, {"visible": V}, P, {"visible": V}, Q, sampler)[0]


def table():
    """Two coupled bits: any four probabilities."""
    pair = LayeredMachine({"visible": BernoulliUnits(2)}, [("visible", "visible")], dtype=torch.float64)
    return filled(pair, seed=1)


@pytest.mark.spec("INF-57")
@pytest.mark.parametrize("model", [table(), RBMModel.of(*TINY)], ids=["four states", "rbm"])
def test_a_copy_that_is_renewed_gives_a_quarter_of_the_gradient_of_the_likelihood(model):
    """The value is log 2 of the loss, -log 2 of the criterion that is maximized."""
    V = all_states(model.sizes["visible"])
    P = np.random.default_rng(0).dirichlet(np.ones(len(V)))
    loss = every(begun(model), model, model, P, np.exp(model.log_prob(V)))
    likelihood = by_differences(model, lambda m: P @ m.log_prob(V))
    assert_same({name: -4 * value for name, value in loss.gradients.items()}, likelihood, 1e-8)
    assert loss.terms["self_contrast"].sum == pytest.approx(np.log(2), abs=1e-12)
    gap = P @ model.energy(V) - np.exp(model.log_prob(V)) @ model.energy(V)
    assert loss.terms["energy_gap"].sum() == pytest.approx(gap, abs=1e-12)


@pytest.mark.spec("INF-57")
def test_a_copy_that_is_kept_is_noise_of_a_known_density_up_to_a_constant():
    """Loss and slopes, that by the constant too, by differences of the population's loss; the copy has no gradient."""
    model, old = RBMModel.of(*TINY), RBMModel.of(*(0.5 * value + 0.2 for value in TINY))
    V = all_states(3)
    P, Q = np.random.default_rng(0).dirichlet(np.ones(8)), np.exp(old.log_prob(V))
    objective = begun(model, refresh_every=7)
    objective.log_ratio.data.fill_(0.4)

    def population(m, c=0.4):
        h = 1 / (1 + np.exp(-(old.energy(V) - m.energy(V) - c)))
        return -0.5 * (P @ np.log(h) + Q @ np.log(1 - h))

    loss = every(objective, model, old, P, Q)
    gradients = dict(loss.gradients)
    slope = gradients.pop("objective/log_ratio")[0]
    assert loss.terms["self_contrast"].sum == pytest.approx(population(model), abs=1e-12)
    assert_same(gradients, by_differences(model, population), 1e-8)
    assert slope == pytest.approx((population(model, 0.4 + 1e-5) - population(model, 0.4 - 1e-5)) / 2e-5, abs=1e-9)
    truth = RBMModel.of(*TINY)
    objective.log_ratio.data.fill_(truth.log_partition() - old.log_partition())
    best = every(objective, truth, old, np.exp(truth.log_prob(V)), Q)  # where model and data agree: no slope left
    for value in best.gradients.values():
        np.testing.assert_allclose(value, 0, atol=1e-12)


@pytest.mark.spec("INF-57")
def test_it_walks_the_chains_of_pcd_at_a_quarter_of_its_gradient():
    X = np.repeat(all_states(3), 5, axis=0)
    batch = Batch({"X": X}, np.arange(40), np.arange(40), np.linspace(0.5, 2, 40))
    found = {}
    for recipe in (PCD(k=2, n_chains=30), SelfContrast(k=2, n_chains=30)):
        model, objective = RBMModel.of(*TINY), recipe.build()
        objective.begin(model, Sizes(), Noise(0, "begin"), Group())
        for update in range(3):
            noise = Noise(0, "fit").at(update)
            loss = objective(model, batch, noise=noise, phase="fit", group=Group())
        found[recipe.short] = {name: np.array(value) for name, value in loss.gradients.items()}
    assert_same({name: 4 * value for name, value in found["self-contrastive"].items()}, found["pcd"], 1e-10)


@pytest.mark.spec("INF-57")
def test_a_copy_is_renewed_when_it_is_time_and_is_not_moved_between():
    model, batch = (
        RBMModel.of(*(value.copy() for value in TINY)),
        Batch({"X": all_states(3)}, np.arange(8), np.arange(8), np.ones(8)),
    )
    objective = begun(model, refresh_every=3)
    for update in range(7):
        with torch.no_grad():
            model.weight += 0.1
            objective.log_ratio += 0.05
        objective(model, batch, noise=Noise(0, "fit").at(update), phase="fit", group=Group())
        standing = objective._buffers["copy/weight"].numpy()
        np.testing.assert_allclose(standing, TINY[0] + 0.1 * (1 + update // 3 * 3), atol=1e-12)
        assert float(objective.log_ratio.detach()) == pytest.approx(0.05 * (update % 3), abs=1e-12)


@pytest.mark.spec("INF-57")
@pytest.mark.parametrize("refresh_every", [1, 10])
def test_a_fit_learns_bits_and_real_numbers(refresh_every):
    bits = np.repeat([[1.0, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 1]], 50, axis=0)
    recipe = SelfContrast(refresh_every=refresh_every)
    assert RBM(n_hidden=3, objective=recipe, epochs=150, learning_rate=0.4, random_state=0).fit(bits).score(bits) > -1.8
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 3)) * [1, 0.5, 2] + random.integers(0, 2, (400, 1)) * [4.0, 2.0, -3.0]
    fitted = GaussianRBM(n_hidden=4, objective=recipe, random_state=0, dtype="float64").fit(X)
    assert fitted.score(X) > -0.5 * np.log(2 * np.pi * np.e * X.var(0)).sum() + 0.2


@pytest.mark.spec("INF-57")
def test_machines_whose_hidden_layers_depend_on_each_other_are_refused():
    with pytest.raises(UserTypeError, match="self-contrastive estimation needs hidden layers that are independent"):
        begun(machine_of("three"))


@pytest.mark.parametrize("refresh_every", [1, 4])
def test_the_way_of_other_devices_gives_the_same_numbers(refresh_every):
    X, fits = (np.random.default_rng(0).random((60, 8)) < 0.4).astype(float), []
    for backend in ("auto", "torch"):
        with gnomon.context(backend=backend):
            recipe = SelfContrast(refresh_every=refresh_every)
            fits.append(RBM(n_hidden=5, objective=recipe, epochs=3, dtype="float64", random_state=0).fit(X))
    for name, value in fits[0].model_.state().items():
        np.testing.assert_allclose(fits[1].model_.state()[name], value, rtol=1e-10, atol=1e-10)
    for name, values in fits[0].history_.items():
        np.testing.assert_allclose(fits[1].history_[name], values, rtol=1e-8, atol=1e-8)
