"""Sparse and structured machines against dense ones with zeros, tables and layers."""

import itertools

import numpy as np
import pytest
import torch

import gnomon
from gnomon.data.batches import Batch
from gnomon.distributions.units import BernoulliUnits, IsingUnits
from gnomon.errors import UserValueError
from gnomon.evaluation.partition import log_partition
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import CD, PCD, Exact
from gnomon.objectives.pseudolikelihood import Pseudolikelihood
from gnomon.systems.energy.boltzmann_machine import BoltzmannMachine
from gnomon.systems.energy.connections import Grid, Layers
from gnomon.systems.energy.hidden_boltzmann_machine import HiddenBoltzmannMachine
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.links import DenseLink, LateralLink, MaskedLink
from gnomon.systems.energy.rbm import RBMModel
from gnomon.systems.energy.semi_restricted_rbm import SemiRestrictedRBM
from gnomon.training.group import Group
from gnomon.training.optimizers import SGD, Adam
from oracles.binary import all_states
from oracles.layered import filled

BETWEEN = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 1]], bool)
WITHIN = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]], bool)


def pair_of(kind=BernoulliUnits, seed=0):
    """A machine with masks, and the dense one with zeros."""
    units = {"v": kind(4), "h": kind(3)}
    masked = LayeredMachine(units, [MaskedLink("v", "h", BETWEEN), LateralLink("v", WITHIN)], dtype=torch.float64)
    dense = LayeredMachine(units, [DenseLink("v", "h"), LateralLink("v")], dtype=torch.float64)
    filled(masked, seed)
    p = masked.state()
    whole = {name: p[name] for name in ("v_bias", "h_bias")}
    whole["v_h_weight"] = masked.links[0].matrix({"weight": p["v_h_weight"]})
    whole["v_v_weight"] = masked.links[1].matrix({"weight": p["v_v_weight"]})[np.triu_indices(4, 1)][None]
    dense.load(whole)
    return masked, dense


def loss_of(model, X, objective):
    numbers = np.arange(len(X))

    class Rows:
        batch_size = len(X)

    built = objective.build()
    built.begin(model, Rows(), Noise(0, "begin"), Group())
    batch = Batch({"X": X}, numbers, numbers, np.ones(len(X)))
    return built(model, batch, noise=Noise(0, "fit"), phase="fit", group=Group())


@pytest.mark.spec("GEN-009")
@pytest.mark.parametrize("kind", [BernoulliUnits, IsingUnits])
def test_a_masked_machine_is_the_dense_one_with_zeros(kind):
    masked, dense = pair_of(kind)
    assert np.count_nonzero(dense.state()["v_h_weight"]) == BETWEEN.sum()
    assert masked.n_parameters == dense.n_parameters - (~BETWEEN).sum() - 3
    x = kind(4).states(np.arange(16))
    np.testing.assert_allclose(masked.log_prob(x), dense.log_prob(x), atol=1e-12)
    assert masked.log_partition() == pytest.approx(dense.log_partition(), abs=1e-12)
    assert np.exp(masked.log_prob(x)).sum() == pytest.approx(1, abs=1e-12)
    for objective in (Exact(), CD(k=2), PCD(n_chains=7), Pseudolikelihood(sets="pairs")):
        found, whole = (loss_of(one, x[[1, 6, 9, 14]], objective).gradients for one in (masked, dense))
        np.testing.assert_allclose(found["v_h_weight"], whole["v_h_weight"][BETWEEN][None], atol=1e-12)
        upper = WITHIN[np.triu_indices(4, 1)]
        np.testing.assert_allclose(found["v_v_weight"], whole["v_v_weight"][:, upper], atol=1e-12)
        for name in ("v_bias", "h_bias"):
            np.testing.assert_allclose(found[name], whole[name], atol=1e-12)
    score = log_partition(masked, "ais", Noise(0, "ais"), schedule=200)
    assert abs(score.value - dense.log_partition()) < 5 * score.error


@pytest.mark.spec("GEN-009")
def test_a_masked_link_is_its_matrix():
    """Products with it and their adjoints, the slope of the bilinear form, in NumPy and torch."""
    link = MaskedLink("v", "h", BETWEEN)
    random = np.random.default_rng(0)
    own = {"weight": random.normal(size=(1, BETWEEN.sum()))}
    M = np.zeros(BETWEEN.shape)
    M[BETWEEN] = own["weight"][0]
    np.testing.assert_array_equal(link.matrix(own), M)
    v, h, weight = random.normal(size=(5, 4)), random.normal(size=(5, 3)), random.normal(size=5)
    np.testing.assert_allclose(link.field("h", v, own), v @ M, atol=1e-14)
    np.testing.assert_allclose(link.field("v", h, own), h @ M.T, atol=1e-14)
    left, right = (link.field("h", v, own) * h).sum(), (link.field("v", h, own) * v).sum()
    assert left == pytest.approx(right, abs=1e-12)
    outer = np.einsum("n,ni,nj->ij", weight, v, h)
    np.testing.assert_allclose(link.statistics(v, h, weight, own)["weight"], outer[BETWEEN][None], atol=1e-12)
    tensor = torch.from_numpy(own["weight"]).requires_grad_()
    field = link.field("h", torch.from_numpy(v), {"weight": tensor})
    (torch.from_numpy(weight) * (field * torch.from_numpy(h)).sum(-1)).sum().backward()
    np.testing.assert_allclose(tensor.grad.numpy(), outer[BETWEEN][None], atol=1e-12)
    np.testing.assert_array_equal(link.pull(outer, own)["weight"], outer[BETWEEN][None])


@pytest.mark.spec("GEN-009", "GEN-004")
@pytest.mark.parametrize("optimizer", [SGD(momentum=0.9, weight_decay=0.1), Adam(weight_decay=0.1), "rmsprop"])
def test_what_is_masked_stays_0_under_every_optimizer(optimizer):
    X = (np.random.default_rng(0).random((50, 6)) < 0.4).astype(float)
    grid = BoltzmannMachine(connections=Grid(columns=3), optimizer=optimizer, epochs=5, random_state=0).fit(X)
    allowed = Grid(columns=3).pattern(6, 0)
    C = grid.couplings_
    assert not C[~allowed].any() and C[allowed].all() and np.array_equal(C, C.T)
    settings = {"optimizer": optimizer, "epochs": 5, "random_state": 0}
    C = HiddenBoltzmannMachine(n_hidden=4, connections=Layers((2, 2)), **settings).fit(X).couplings_
    allowed = Layers((2, 2)).pattern(6, 4)
    assert not C[~allowed].any() and C[allowed].all()


@pytest.mark.spec("GEN-009", "GEN-001")
def test_layers_make_restricted_and_deep_machines():
    """One hidden layer: nothing is coupled within a layer, and all is that of an RBM; two layers: of a deep machine."""
    random = np.random.default_rng(0)
    W, b, c = random.normal(size=(4, 3)), random.normal(size=4), random.normal(size=3)
    x = all_states(4)
    system = HiddenBoltzmannMachine(n_hidden=3, connections="layers", epochs=1, random_state=0, dtype="float64").fit(x)
    assert not system.model_.coupled
    system.model_.load({"weight": W, "visible_bias": b, "hidden_bias": c})
    rbm = gnomon.RBM(n_hidden=3, epochs=1, random_state=0, dtype="float64").fit(x)
    rbm.model_ = RBMModel.of(W, b, c)
    for verb in ("log_prob", "transform"):
        np.testing.assert_allclose(getattr(system, verb)(x), getattr(rbm, verb)(x), atol=1e-12)
    np.testing.assert_array_equal(system.sample(20, steps=5, random_state=0) * 0, np.zeros((20, 4)))
    np.testing.assert_array_equal(system.gibbs(x, 4, random_state=0), rbm.gibbs(x, 4, random_state=0))

    settings = {"epochs": 1, "random_state": 0, "dtype": "float64"}
    deep = HiddenBoltzmannMachine(n_hidden=4, connections=Layers((2, 2)), **settings).fit(x)
    filled(deep.model_)
    C, bias = deep.couplings_, deep.bias_
    names, sizes = ("visible", "one", "two"), (4, 2, 2)
    units = {name: BernoulliUnits(n) for name, n in zip(names, sizes, strict=True)}
    layers = LayeredMachine(units, itertools.pairwise(names), dtype=torch.float64)
    layers.load(
        {
            "visible_one_weight": C[:4, 4:6], "one_two_weight": C[4:6, 6:], "visible_bias": bias[:4],
            "one_bias": bias[4:6], "two_bias": bias[6:],
        }
    )  # fmt: skip
    np.testing.assert_allclose(deep.log_prob(x), layers.log_prob(x), atol=1e-12)
    gaps = np.where(np.arange(4) % 2, np.nan, x)
    assert np.isfinite(deep.impute(gaps)).all()


@pytest.mark.spec("GEN-004")
def test_both_phases_in_numbers():
    """T1 and four rows: the mean gradient of the log-likelihood; a step of descent on the loss goes up it."""
    W, b, c = np.array([[1.0, -1.0], [0.5, 2.0]]), np.array([0.1, -0.2]), np.array([0.3, -0.4])
    X = np.array([[1.0, 1], [1, 0], [1, 1], [0, 1]])
    units = {"visible": BernoulliUnits(2), "hidden": BernoulliUnits(2)}
    everywhere = np.ones((2, 2), bool)
    links = {
        "dense": [DenseLink("visible", "hidden", name="")],
        "masked": [MaskedLink("visible", "hidden", everywhere, name="")],
    }
    expected = {
        "weight": [[0.160401, 0.079740], [0.005042, -0.029574]],
        "visible_bias": [0.195685, -0.015024], "hidden_bias": [0.035671, -0.044722],
    }  # fmt: skip
    for name, some in links.items():
        machine = LayeredMachine(units, some, dtype=torch.float64)
        machine.load({"weight": W if name == "dense" else W.reshape(1, -1), "visible_bias": b, "hidden_bias": c})
        found = loss_of(machine, X, Exact()).gradients
        for one, value in expected.items():
            np.testing.assert_allclose(-found[one].reshape(np.shape(value)) / 4, value, atol=1.5e-6)
        positive = machine.marginal_gradient({"visible": X}, np.ones(4))["weight"].reshape(2, 2)
        h = 1 / (1 + np.exp(-(X @ W + c)))
        np.testing.assert_allclose(-positive, X.T @ h, atol=1e-12)
    settings = {"optimizer": "sgd", "learning_rate": 0.1, "epochs": 1, "batch_size": None, "dtype": "float64"}
    system = BoltzmannMachine(objective="exact", random_state=0, **settings).fit(X)
    first = BoltzmannMachine(objective="exact", random_state=0, **(settings | {"learning_rate": 1e-12})).fit(X)
    x = all_states(2)
    p = np.exp(first.log_prob(x))
    gradient = (X[:, 0] * X[:, 1]).mean() - p @ (x[:, 0] * x[:, 1])
    assert system.couplings_[0, 1] - first.couplings_[0, 1] == pytest.approx(0.1 * gradient, rel=1e-6)
    assert system.score(X) > first.score(X)


def test_weights_of_pairs_decay_as_matrices_do():
    """A decay shrinks couplings, within a layer and masked ones too, and leaves biases as they are."""
    X = (np.random.default_rng(0).random((50, 6)) < 0.4).astype(float)
    X[:, 1] = X[:, 0]
    sums = []
    for decay in (0.0, 1.0):
        settings = {"optimizer": SGD(weight_decay=decay), "epochs": 40, "learning_rate": 0.1, "random_state": 0}
        sums.append(np.abs(BoltzmannMachine(connections=Grid(columns=3), **settings).fit(X).couplings_).sum())
    assert sums[1] < 0.5 * sums[0]


def test_patterns_of_an_image():
    found = Grid(columns=3, reach=1).pattern(9, 0)
    assert found[4].sum() == 8 and found[0].tolist() == [False, True, False, True, True, False, False, False, False]
    assert Grid(columns=3, reach=2).pattern(9, 0).sum() == 72
    hidden = Grid(columns=2).pattern(4, 2)
    assert hidden[4:].sum() == 2 * 5 and hidden[:, 4:].sum() == 2 * 5
    X = (np.random.default_rng(0).random((40, 6)) < 0.5).astype(float)
    srbm = SemiRestrictedRBM(n_hidden=2, connections=Grid(columns=3), epochs=2, random_state=0).fit(X)
    assert srbm.couplings_[0, 5] == 0 != srbm.couplings_[0, 4] and srbm.model_.coupled == {"visible"}


@pytest.mark.spec("GEN-009")
def test_masks_that_are_none_are_refused():
    for mask, match in (
        (np.ones(3), "table of truth values"),
        (np.zeros((2, 2)), "some of them true"),
        (np.full((2, 2), 0.5), "table of truth values"),
    ):
        with pytest.raises(UserValueError, match=match):
            MaskedLink("a", "b", mask)
    with pytest.raises(UserValueError, match="mask must be symmetric"):
        LateralLink("a", [[0, 1], [0, 0]])
    with pytest.raises(UserValueError, match=r"mask must be of shape \(3, 2\), got \(2, 2\)"):
        LayeredMachine({"a": BernoulliUnits(3), "b": BernoulliUnits(2)}, [MaskedLink("a", "b", np.ones((2, 2)))])
    with pytest.raises(UserValueError, match=r"mask must be of shape \(3, 3\)"):
        LayeredMachine({"a": BernoulliUnits(3)}, [LateralLink("a", np.ones((2, 2)))])
    X = all_states(4)
    with pytest.raises(UserValueError, match="columns must divide the 4 columns of the data, got 3"):
        BoltzmannMachine(connections=Grid(columns=3), epochs=1, random_state=0).fit(X)
    with pytest.raises(UserValueError, match="sum 3 of the hidden units"):
        HiddenBoltzmannMachine(n_hidden=3, connections=Layers((2, 2)), epochs=1, random_state=0).fit(X)
    with pytest.raises(UserValueError, match="without hidden units has no layers"):
        BoltzmannMachine(connections="layers", epochs=1, random_state=0).fit(X)
    with pytest.raises(UserValueError, match="hidden unit 2 must be coupled to something"):
        SemiRestrictedRBM(n_hidden=4, lateral="visible", connections=Layers((2, 2)), epochs=1, random_state=0).fit(X)
