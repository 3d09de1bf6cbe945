"""The negative phase at the means of a round of mean field: its bias and noise by enumeration, and the chain's law."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import expit

import gnomon
from gnomon.inference.mcmc.gibbs import redrawn
from gnomon.inference.variational.mean_field import factorized_posterior
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import PCD
from gnomon.objectives.negative import Conditional, MeanFieldStep
from gnomon.systems.energy.dbm import DBMModel
from gnomon.systems.energy.rbm import RBMModel
from oracles.binary import Joint, layers_energy
from oracles.layered import filled
from oracles.principles import begun, bits, loss_of

W1, W2 = np.array([[1.0, -1.0], [0.5, 2.0]]), np.array([[0.7, -0.5], [0.2, 1.0]])
T1 = (W1, np.array([0.1, -0.2]), np.array([0.3, -0.4]))


def machine_of(kind):
    """The machine, its layers' weights and biases, and the table of its joint law."""
    if kind == "T1":
        weights, biases, model = [W1], [T1[1], T1[2]], RBMModel.of(*T1)
    else:
        weights, biases = [W1, W2], [np.zeros(2)] * 3
        model = DBMModel(2, (2, 2), torch.float64)
        model.load(model.state() | {"visible_hidden_1_weight": W1, "hidden_1_hidden_2_weight": W2})
    return model, weights, biases, Joint(layers_energy(weights, biases), [2] * len(biases))


def sampled(weights, biases, layers):
    return layers


def hidden_at_means(weights, biases, layers):
    """The first hidden layer at its means given its drawn neighbors, by the machine's equations."""
    field = layers[0] @ weights[0] + biases[1]
    if len(layers) > 2:
        field = field + layers[2] @ weights[1].T
    return [layers[0], expit(field), *layers[2:]]


def one_round(weights, biases, layers):
    """That, and then the layers beside it at their means given those means."""
    _, h, *upper = hidden_at_means(weights, biases, layers)
    return [expit(h @ weights[0].T + biases[0]), h, *(expit(h @ weights[1] + biases[2]) for _ in upper)]


def products(layers):
    """The statistics of all couplings side by side, a row for each row."""
    return np.concatenate(
        [np.einsum("ni,nj->nij", a, b).reshape(len(a), -1) for a, b in itertools.pairwise(layers)], axis=1
    )


def moments(joint, statistics):
    mean = joint.p @ statistics
    return mean, joint.p @ (statistics - mean) ** 2


@pytest.mark.spec("GEN-025")
@pytest.mark.parametrize(("kind", "largest"), [("T1", 0.045178), ("T2", 0.043574)])
def test_bias_and_variance_of_one_round_by_the_table(kind, largest):
    """Draws of all, of half with the other half at its means (no bias, less variance), and the means of one round."""
    model, weights, biases, joint = machine_of(kind)
    layers = [joint.states[:, columns] for columns in joint.columns]
    found = {f: moments(joint, products(f(weights, biases, layers))) for f in (sampled, hidden_at_means, one_round)}
    exact, naive = found[sampled]
    np.testing.assert_allclose(found[hidden_at_means][0], exact, atol=1e-12)
    assert (found[hidden_at_means][1] < naive - 1e-3).all()
    bias, variance = found[one_round][0] - exact, found[one_round][1]
    assert np.abs(bias).max() == pytest.approx(largest, abs=1e-6)
    assert (variance < 0.4 * found[hidden_at_means][1]).all()
    names = list(model.layers) if kind == "T2" else ["visible", "hidden"]
    kept = {name: layers[k] for k, name in enumerate(names) if k != 1}
    rest = {names[1]: model.conditional(names[1], kept)}
    for recipe, by_hand in ((Conditional(), hidden_at_means), (MeanFieldStep(), one_round)):
        slopes = model.joint_gradient(recipe(model, kept, rest), joint.p)
        states = by_hand(weights, biases, layers)
        couplings = [link.names["weight"] for link in model.links]
        for name, (a, b) in zip(couplings, itertools.pairwise(states), strict=True):
            np.testing.assert_allclose(-slopes[name], np.einsum("n,ni,nj->ij", joint.p, a, b), atol=1e-12)
        for k, name in enumerate(names):
            np.testing.assert_allclose(-slopes[f"{name}_bias"], joint.p @ states[k], atol=1e-12)


@pytest.mark.spec("GEN-025")
@pytest.mark.parametrize("kind", ["T1", "deep"])
def test_an_update_has_the_gradient_of_the_means_and_the_chain_goes_on_by_draws(kind):
    """Chains beside those of the plain phase, bit for bit, and never a mean among them; the model's side by hand."""
    if kind == "T1":
        model, weights, biases, _ = machine_of("T1")
        kept, names = ["visible"], ["visible", "hidden"]
    else:
        model = filled(DBMModel(3, (3, 2), torch.float64))
        kept, names = ["visible", "hidden_2"], list(model.layers)
        weights = [model.state()[link.names["weight"]] for link in model.links]
        biases = [model.state()[f"{name}_bias"] for name in names]
    X, rows = bits(50, len(W1) if kind == "T1" else 3), np.arange(50)
    plain, meant = (begun(PCD(positive="mean_field", negative=phase), model, X) for phase in
                    ("conditional", "mean_field"))  # fmt: skip
    data = model.joint_gradient(factorized_posterior(model, {"visible": X}), np.ones(50))
    for update in range(4):
        state = {name: chain.numpy().copy() for name, chain in meant.chains.items()}
        assert all(np.isin(chain, (0.0, 1.0)).all() for chain in state.values())
        for draw, name in enumerate(kept):
            state[name] = redrawn(model, name, state, Noise(0, "fit").at(update).rows(rows), draw)
        found, beside = (loss_of(objective, model, X, update).gradients for objective in (meant, plain))
        for name, chain in plain.chains.items():
            assert torch.equal(chain, meant.chains[name])
        layers = [state.get(name) for name in names]
        for gradients, by_hand in ((beside, hidden_at_means), (found, one_round)):
            means = by_hand(weights, biases, layers)
            for link, (a, b) in zip(model.links, itertools.pairwise(means), strict=True):
                name = link.names["weight"]
                np.testing.assert_allclose(gradients[name] - data[name], a.T @ b, atol=1e-10)
            for name, mean in zip(names, means, strict=True):
                slope = gradients[f"{name}_bias"] - data[f"{name}_bias"]
                np.testing.assert_allclose(slope, mean.sum(0), atol=1e-10)


@pytest.mark.spec("GEN-025")
def test_fits_with_either_phase_reach_about_the_same_likelihood():
    """Exact likelihoods of the rows: the bias costs little, and a history has no other names."""
    X = np.abs(np.repeat([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]], 100, axis=0) - bits(200, 6, p=0.1))
    fits = [
        gnomon.RBM(n_hidden=4, objective=PCD(k=5, negative=phase), epochs=60, learning_rate=0.1, random_state=0).fit(X)
        for phase in ("conditional", "mean_field")
    ]
    independent = gnomon.make("bernoulli-mixture", n_components=1, random_state=0).fit(X).score(X)
    assert abs(fits[0].score(X) - fits[1].score(X)) < 0.25
    assert min(one.score(X) for one in fits) > independent + 0.8
    assert list(fits[0].history_) == list(fits[1].history_)
