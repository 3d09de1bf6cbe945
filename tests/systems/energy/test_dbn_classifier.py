"""The network begun by a stack: its layers against the stack's, gradients, what each half sees, its two reductions."""

import warnings

import numpy as np
import pytest
import torch
from scipy.special import expit, log_softmax

import gnomon
from gnomon.data.batches import Batch
from gnomon.errors import UserError
from gnomon.numeric.noise import Noise
from gnomon.systems.energy.dbn_classifier import DBNClassifier, DBNClassifierModel
from gnomon.training.group import Group
from oracles.binary import all_states, numerical_gradient

RANDOM = np.random.default_rng(3)
W1, W2, B1, B2 = (RANDOM.normal(size=n) for n in ((3, 4), (4, 2), 4, 2))
R1, R0 = RANDOM.normal(size=(3, 4)), RANDOM.normal(size=4)
ROWS = RANDOM.normal(size=(7, 3))


def model_of(kind="gaussian"):
    """A stack of two layers whose way up is its own, and a network with other weights, in float64."""
    model = DBNClassifierModel(3, 3, (4, 2), kind, pretrained=True, dtype=torch.float64)
    state = {name: RANDOM.normal(size=value.shape) for name, value in model.state().items()}
    own = {"weight_1": W1, "weight_2": W2, "bias_1": B1, "bias_2": B2, "recognition_weight_1": R1}
    own |= {"recognition_bias_1": R0}
    scale = {"network.scale": np.array([2.0, 0.5, 1.0])}
    model.load(state | {f"stack.{name}": value for name, value in own.items()} | scale)
    return model


def fitted(X, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # rows labeled -1 are told of
        return DBNClassifier(**{"hidden": (5, 4), "random_state": 0, "dtype": "float64"} | options).fit(X, y)


def blobs(n=90, d=4):
    """Three classes of real columns of unequal spread."""
    random = np.random.default_rng(0)
    y = np.arange(n) % 3
    return (random.normal(size=(n, d)) + 2 * np.eye(3, d)[y]) * np.arange(1, d + 1) + 5, y


def bits(n=60, d=5):
    random = np.random.default_rng(1)
    y = np.arange(n) % 2
    return (random.random((n, d)) < np.where(y, 0.8, 0.3)[:, None]).astype(float), y


def gradients(cost, values):
    """Differences by each of several arrays."""
    return [
        numerical_gradient(lambda value, k=k: cost(*values[:k], value, *values[k + 1 :]), values[k])
        for k in range(len(values))
    ]


# --- conversion -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("GEN-016", "PRA-137")
def test_a_converted_network_is_the_way_up_written_out():
    """h1 = sigmoid(r + v R), h2 = sigmoid(b2 + h1 W2) of the rows in the network's units, of the scores W h2 + b."""
    model = model_of()
    model.convert()
    state = model.state()
    first = expit(R0 + (ROWS - state["network.shift"]) / state["network.scale"] @ R1)
    second = expit(B2 + first @ W2)
    for ours, wanted in zip(model.ask("hidden", ROWS), (first, second), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-13)
    scores = second @ state["network.layers.2.weight"].T + state["network.layers.2.bias"]
    np.testing.assert_allclose(model.ask("scores", ROWS), scores, rtol=1e-12)
    means = np.hstack(model.stack.means_up((ROWS - state["network.shift"]) / state["network.scale"]))
    np.testing.assert_allclose(np.hstack(model.ask("hidden", ROWS)), means, rtol=1e-13)


@pytest.mark.spec("GEN-016")
def test_a_fitted_belief_network_converted_has_its_codes():
    """Wake and sleep part the way up from the way down: the network takes the way up, as `transform` does."""
    X, _ = bits()
    network = gnomon.DBN(hidden=(4, 3), epochs=5, tune_epochs=5, tune_rate=2.0, dtype="float64", random_state=0).fit(X)
    model = DBNClassifierModel(5, 2, (4, 3), "bernoulli", pretrained=True, dtype=torch.float64)
    model.stack.load(network.model_.state())
    model.convert()
    np.testing.assert_allclose(np.hstack(model.ask("hidden", X)), network.transform(X), rtol=1e-13)
    assert np.abs(network.model_.state()["weight_1"] - network.model_.state()["recognition_weight_1"]).max() > 1e-3


@pytest.mark.spec("GEN-016")
def test_the_gradient_of_the_labels_moves_every_layer_and_is_that_of_differences():
    """-sum w log p(y | x) + l2 / 2 sum W^2, written out with NumPy, in every parameter of the network."""
    model, y, weight = model_of(), np.array([0, 1, 2, 0, 1, 2, 1]), np.array([1.0, 0.5, 2.0, 1.0, 1.0, 0.25, 3.0])
    model.convert()
    network, objective = model.network, DBNClassifier(l2=0.3).make_objective()
    batch = Batch({"X": ROWS, "y": y}, np.arange(7), np.arange(7), weight)
    loss = objective(network, batch, noise=Noise(0, "fit"), phase="train", group=Group())
    (loss.terms["cross_entropy"].sum / loss.terms["cross_entropy"].weight).backward()
    loss.terms["l2"].add_slope(loss.terms["l2"].share(1.0))
    names = [name for name, _ in network.named_parameters()]
    shift, scale = model.state()["network.shift"], model.state()["network.scale"]

    def cost(*values):
        h, own = (ROWS - shift) / scale, dict(zip(names, values, strict=True))
        for k in (0, 1):
            h = expit(h @ own[f"layers.{k}.weight"].T + own[f"layers.{k}.bias"])
        log_p = log_softmax(h @ own["layers.2.weight"].T + own["layers.2.bias"], 1)
        squares = sum((value**2).sum() for name, value in own.items() if name.endswith("weight"))
        return -(weight * log_p[np.arange(7), y]).sum() / weight.sum() + 0.15 * squares

    values = [network.state()[name].copy() for name in names]
    for name, wanted in zip(names, gradients(cost, values), strict=True):
        np.testing.assert_allclose(network.get_parameter(name).grad, wanted, atol=2e-7, err_msg=name)
        assert np.abs(wanted).max() > 1e-4


# --- the fit ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("GEN-016", "PRA-137")
@pytest.mark.parametrize("visible", ["gaussian", "bernoulli"])
def test_before_the_labels_move_it_the_network_is_what_the_machines_have_learned(visible):
    """A step of size 1e-30 is none: weights are the machines', hidden outputs their conditional means."""
    X, y = blobs() if visible == "gaussian" else bits()
    system = fitted(X, y, visible=visible, pretrain_epochs=3, epochs=1, learning_rate=1e-30, output_scale=0.5)
    stack, state = system.model_.stack, system.model_.state()
    np.testing.assert_array_equal(state["network.layers.0.weight"].T, state["stack.weight_1"])
    np.testing.assert_array_equal(state["network.layers.0.bias"], state["stack.recognition_bias_1"])
    np.testing.assert_array_equal(state["network.layers.1.weight"].T, state["stack.weight_2"])
    np.testing.assert_array_equal(state["network.layers.1.bias"], state["stack.bias_2"])
    scaled = (X - X.mean(0)) / X.std(0) if visible == "gaussian" else X
    first, second = system.hidden_outputs(X)
    lower, upper = stack.pair(1), stack.pair(2)
    np.testing.assert_allclose(first, lower.conditional("hidden_1", {"hidden_0": scaled}).mean, rtol=1e-9)
    np.testing.assert_allclose(second, upper.conditional("hidden_2", {"hidden_1": first}).mean, rtol=1e-9)
    assert np.std(state["network.layers.2.weight"]) == pytest.approx(0.5, rel=0.6)
    np.testing.assert_allclose(state["network.layers.2.bias"], 0, atol=1e-25)


@pytest.mark.spec("PRA-137")
def test_the_machines_are_a_gaussian_one_of_variance_1_and_bits_above_each_on_the_means_below():
    """One step of gradient descent by the exact gradient of each, begun at known weights, against differences."""
    X, y = blobs(30, 3)
    options = {"hidden": (2, 3), "objective": "exact", "optimizer": "sgd", "batch_size": None, "epochs": 1}
    options |= {"pretrain_rate": 0.2, "gaussian_rate": 0.05, "learning_rate": 1e-30, "pretrain_epochs": 1}
    system = fitted(X, y, **options)
    begun = DBNClassifierModel(3, 3, (2, 3), "gaussian", pretrained=True, dtype=torch.float64)
    untrained = DBNClassifier(**options | {"dtype": "float64"})
    table = untrained.ingest(X, y)
    untrained.initialize(begun, table, Noise(system.seed_, "fit").child("initial"))
    scaled, state = (X - X.mean(0)) / X.std(0), begun.stack.state()
    grid = np.polynomial.hermite_e.hermegauss(24)
    points = np.array(np.meshgrid(*[grid[0]] * 3, indexing="ij")).reshape(3, -1).T
    mass = np.log(np.array(np.meshgrid(*[grid[1]] * 3, indexing="ij")).prod(0).ravel())

    def log_mass(v, W, b, c, normal):
        """log of the sum over h of exp(-E), by every state of h; of real rows E has |v - b|^2 / 2."""
        own = -0.5 * ((v - b) ** 2).sum(1) if normal else v @ b
        return np.logaddexp.reduce([own + h @ c + v @ W @ h for h in all_states(len(c))])

    def gaussian(W, b, c):
        log_z = np.logaddexp.reduce(log_mass(points, W, b, c, True) + 0.5 * (points**2).sum(1) + mass)
        return -(log_mass(scaled, W, b, c, True) - log_z).mean()

    first = [state["weight_1"].copy(), state["bias_0"].copy(), state["recognition_bias_1"].copy()]
    moved = [value - 0.05 * 0.2 * g for value, g in zip(first, gradients(gaussian, first), strict=True)]
    found = system.model_.stack.state()
    np.testing.assert_allclose(found["weight_1"], moved[0], atol=1e-8)
    np.testing.assert_allclose(found["bias_0"], moved[1], atol=1e-8)
    np.testing.assert_allclose(found["recognition_bias_1"], moved[2], atol=1e-8)
    means = expit(scaled @ moved[0] + moved[2])

    def binary(W, b, c):
        log_z = np.logaddexp.reduce(log_mass(all_states(2), W, b, c, False))
        return -(np.array(log_mass(means, W, b, c, False)) - log_z).mean()

    # a layer of other size than the one two below begins by chance; its lower bias is that of the layer's units before
    second = [state["weight_2"].copy(), moved[2], state["bias_2"].copy()]
    if system.model_.stack.kinds[2] == system.model_.stack.kinds[0]:
        pytest.fail("bits of the top were begun by columns that are real numbers")
    ends = [value - 0.2 * g for value, g in zip(second, gradients(binary, second), strict=True)]
    np.testing.assert_allclose(found["weight_2"], ends[0], atol=1e-8)
    np.testing.assert_allclose(found["bias_2"], ends[2], atol=1e-8)
    np.testing.assert_array_equal(system.model_.state()["network.layers.1.weight"].T, found["weight_2"])


@pytest.mark.spec("PRA-137")
def test_steps_of_the_gaussian_machine_are_smaller_by_its_factor():
    X, y = blobs()
    ways = [DBNClassifier(pretrain_rate=0.02, gaussian_rate=0.05, visible=kind) for kind in ("gaussian", "bernoulli")]
    rates = [way._rate(k) for way in ways for k in (1, 2)]
    assert rates == [pytest.approx(0.001), 0.02, 0.02, 0.02]
    assert 10 <= 1 / DBNClassifier().gaussian_rate <= 100
    system = fitted(X, y, pretrain_epochs=1, epochs=1)
    scaled = system.model_.network.standardized(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.std(0), 1, atol=1e-12)


@pytest.mark.spec("GEN-016", "PRA-137")
def test_labels_are_not_seen_by_the_machines_nor_rows_of_none_by_the_network():
    """The stack is the same to the bit whatever the labels; of rows of none the network sees their codes alone."""
    X, y = blobs()
    partly, other = np.where(np.arange(90) % 3, y, -1), np.where(np.arange(90) % 3, 2 - y, -1)
    one, two = (fitted(X, labels, epochs=2, pretrain_epochs=2).model_.state() for labels in (partly, other))
    for name in one:
        if name.startswith("stack"):
            np.testing.assert_array_equal(one[name], two[name], err_msg=name)
    assert np.abs(one["network.layers.2.weight"] - two["network.layers.2.weight"]).max() > 1e-3
    known = partly >= 0
    options = {"pretrain": "none", "standardize": False, "epochs": 3, "batch_size": None}
    with_them, without = fitted(X / 9, partly, **options), fitted(X[known] / 9, y[known], **options)
    for name, value in without.model_.state().items():
        np.testing.assert_allclose(with_them.model_.state()[name], value, rtol=1e-10, err_msg=name)
    assert with_them.history_["stage"] == [1, 1, 1] and with_them.model_.stack is None


@pytest.mark.spec("GEN-016")
def test_without_machines_it_is_the_mlp_of_sigmoids_to_the_last_step():
    X, y = blobs()
    options = {"epochs": 6, "learning_rate": 0.02, "batch_size": None, "l2": 0.01}
    ours = fitted(X, y, pretrain="none", **options)
    start = fitted(X, y, pretrain="none", **options | {"epochs": 1, "learning_rate": 1e-30}).model_.network.state()
    peer = gnomon.MLP(hidden=(5, 4), activation="sigmoid", dtype="float64", random_state=0, **options)
    peer.initialize = lambda net, table, noise: net.load(start)
    np.testing.assert_allclose(ours.predict_proba(X), peer.fit(X, y).predict_proba(X), rtol=1e-10)


def test_what_cannot_be_is_said_in_a_line():
    X, y = blobs(30, 3)
    for options, words in (
        ({"hidden": ()}, "hidden must name at least one layer"),
        ({"visible": "bernoulli"}, r"in \[0, 1\]"),
        ({"objective": "ratio-matching"}, "needs observed units of two values"),
        ({"pretrain": "sparse"}, "pretrain must be"),
    ):
        with pytest.raises(UserError, match=words):
            fitted(X, y, **options)
    with pytest.raises(UserError, match="no label at all"):
        fitted(X, np.full(30, -1))
