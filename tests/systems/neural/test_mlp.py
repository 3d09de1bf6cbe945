"""The multilayer perceptron: exact small networks, gradients, peers, what regularizes, labels of every kind."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from torch.nn import functional

import gnomon
from gnomon.errors import Diverged, UserError, UserTypeError, UserValueError
from gnomon.nn.activations import GELU, Identity, Maxout, ReLU, Sigmoid, Softplus, Tanh
from gnomon.nn.context import training
from gnomon.nn.mlp import MLPModel
from gnomon.numeric.noise import Noise
from gnomon.objectives.base import Loss
from gnomon.objectives.losses import CrossEntropyLoss
from gnomon.objectives.supervised import Supervised
from gnomon.testing import arrays_of
from gnomon.training.group import Group
from gnomon.training.stopping import EarlyStopping

DOUBLE = torch.float64
XOR = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], float)


def model(hidden: tuple[int, ...] = (4, 3), activation: Any = None, seed: int = 0, **options: Any) -> MLPModel:
    """A network of three inputs and two outputs with random weights."""
    made = MLPModel(3, 2, hidden, activation or Tanh(), options.get("dropout", 0.0), options.get("norm", False), DOUBLE)
    random = np.random.default_rng(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.tensor(random.normal(size=tuple(parameter.shape))))
    return made


def blobs(n: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """HB-47's table: three classes by the signs of two columns."""
    X = np.random.default_rng(seed).normal(size=(n, 2))
    return X, (X[:, 0] > 0).astype(int) + (X[:, 1] > 1)


class Batch:
    """Rows, as a fit gives them to an objective."""

    def __init__(self, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None) -> None:
        self.data, self.positions = {"X": X, "y": y}, np.arange(len(X))
        self.weight = np.ones(len(X)) if weight is None else weight


@pytest.mark.spec("DLN-80", "NLP-08", "LIN-16")
def test_xor_by_hand_and_by_fitting() -> None:
    """W = [[1, 1], [1, 1]], c = (0, -1), w = (1, -2) is exclusive or; a linear model errs in 25 % at least."""
    net = MLPModel(2, 1, (2,), ReLU(), 0.0, False, DOUBLE)
    weights = {"layers.0.weight": [[1, 1], [1, 1]], "layers.0.bias": [0, -1], "layers.1.weight": [[1, -2]]}
    net.load(net.state() | {name: np.array(value, float) for name, value in weights.items()})
    assert net.ask("outputs", XOR).ravel().tolist() == [0, 1, 1, 0]
    X, y = np.tile(XOR, (10, 1)), np.tile([0, 1, 1, 0], 10)
    options: dict[str, Any] = {"epochs": 60, "learning_rate": 0.03, "random_state": 0}
    assert gnomon.MLP(hidden=(8,), **options).fit(X, y).score(X, y) == 1.0
    assert gnomon.MLP(hidden=(), **options).fit(X, y).score(X, y) <= 0.75
    assert gnomon.MLP(hidden=(8,), activation="identity", **options).fit(X, y).score(X, y) <= 0.75


@pytest.mark.spec("LIN-16")
def test_equal_units_never_part() -> None:
    """Columns of equal first weights stay equal: why first weights are random."""
    system = gnomon.MLP(hidden=(4,), epochs=3, random_state=0, dtype="float64")
    X, y = blobs()
    system.initialize = lambda net, table, noise: [torch.nn.init.constant_(w, 0.1) for w in net.matrices]  # type: ignore[method-assign]
    first = system.fit(X, y).model_.state()["layers.0.weight"]
    assert np.ptp(first, axis=0).max() < 1e-12 and np.abs(first - 0.1).max() > 1e-3


@pytest.mark.spec("NLP-08", "DLN-80")
def test_identity_activations_are_one_matrix() -> None:
    net = model((5, 4), Identity())
    a, b, c = net.matrices
    x = np.random.default_rng(1).normal(size=(6, 3))
    biases = [layer.bias for layer in net.layers]
    whole = torch.from_numpy(x) @ (c @ b @ a).T + (c @ (b @ biases[0] + biases[1]) + biases[2])
    np.testing.assert_allclose(net.ask("outputs", x), whole.detach(), rtol=1e-12)


@pytest.mark.spec("NLP-08", "NLP-17")
def test_torchs_sequence_of_the_same_weights_and_row_by_row() -> None:
    net = model((5, 4), Tanh())
    with torch.random.fork_rng():
        peer = torch.nn.Sequential(
            torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)
        ).double()
    with torch.no_grad():
        for ours, theirs in zip(net.layers, [peer[0], peer[2], peer[4]], strict=True):
            theirs.weight.copy_(ours.weight)
            theirs.bias.copy_(ours.bias)
    x = np.random.default_rng(1).normal(size=(7, 3))
    np.testing.assert_allclose(net.ask("outputs", x), peer(torch.from_numpy(x)).detach(), rtol=1e-12)
    rows = np.concatenate([net.ask("outputs", x[i : i + 1]) for i in range(7)])
    np.testing.assert_allclose(net.ask("outputs", x), rows, rtol=1e-12)
    np.testing.assert_allclose(net.ask("hidden", x)[1], peer[:4](torch.from_numpy(x)).detach(), rtol=1e-12)


@pytest.mark.spec("LIN-16")
@pytest.mark.parametrize(("classes", "activation"), [(3, "relu"), (3, "tanh"), (2, "sigmoid")])
def test_scikit_learns_weights_give_its_probabilities(classes: int, activation: str) -> None:
    """Its one logistic output for two classes is a softmax over (0, z)."""
    X, y = blobs()
    y = np.minimum(y, classes - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        named = "logistic" if activation == "sigmoid" else activation
        peer = MLPClassifier((6, 5), activation=named, max_iter=20, random_state=0).fit(X, y)
    system = gnomon.MLP(hidden=(6, 5), activation=activation, epochs=1, dtype="float64", standardize=False).fit(X, y)
    state = dict(system.model_.state())
    for k, (weight, bias) in enumerate(zip(peer.coefs_, peer.intercepts_, strict=True)):
        if k == 2 and classes == 2:
            weight, bias = np.c_[0 * weight, weight], np.r_[0.0, bias]
        state[f"layers.{k}.weight"], state[f"layers.{k}.bias"] = weight.T, bias
    system.model_.load(state)
    np.testing.assert_allclose(system.predict_proba(X), peer.predict_proba(X), rtol=1e-9, atol=1e-12)


@pytest.mark.spec("NLP-04")
def test_without_hidden_layers_it_is_logistic_regression() -> None:
    """No penalty, labels with noise (so that no plane separates them): the same probabilities to 1e-4."""
    random = np.random.default_rng(0)
    X = random.normal(size=(150, 3))
    y = np.argmax(X @ random.normal(size=(3, 3)) + random.gumbel(size=(150, 3)), axis=1)
    options: dict[str, Any] = {"learning_rate": 0.05, "schedule": "cosine", "epochs": 800, "dtype": "float64"}
    ours = gnomon.MLP(hidden=(), l2=0.0, batch_size=None, random_state=0, **options).fit(X, y)
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=2000).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


@pytest.mark.spec("DLN-66", "DLN-71", "DLN-72", "DLN-80", "LIN-16")
@pytest.mark.parametrize("activation", [Tanh(), Sigmoid(), ReLU(), Softplus(), GELU()], ids=repr)
def test_back_propagation_against_autograd_and_finite_differences(activation: Any) -> None:
    """Three layers with L1 and L2, of weights alone; differences of 1e-6 in double precision."""
    net, l1, l2 = model((4, 3), activation), 0.03, 0.2
    random = np.random.default_rng(2)
    X, y = random.normal(size=(6, 3)), random.integers(0, 2, size=6)
    objective = Supervised(CrossEntropyLoss(), l1=l1, l2=l2)

    def answer() -> Loss:
        return objective(net, Batch(X, y), noise=Noise(0, "fit"), phase="fit", group=Group())

    answer().backward({"cross_entropy": 6.0, "l1": 1.0, "l2": 1.0})
    scores, cache = net.forward_cache(torch.from_numpy(X))
    g = (torch.softmax(scores, 1) - functional.one_hot(torch.from_numpy(y), 2)) / len(X)
    found = net.backward(cache, g, l1=l1, l2=l2)
    parameters = dict(net.named_parameters())
    assert found.keys() == parameters.keys()
    automatic = torch.autograd.grad(answer().total(), list(parameters.values()))
    for (name, parameter), slope in zip(parameters.items(), automatic, strict=True):
        np.testing.assert_allclose(found[name], parameter.grad, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found[name], slope, rtol=1e-9, atol=1e-12)
        with torch.no_grad():
            place = (0,) * parameter.ndim
            before = parameter[place].item()
            ends = []
            for step in (1e-6, -1e-6):
                parameter[place] = before + step
                ends.append(answer().total().item())
            parameter[place] = before
        assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(found[name][place].item(), rel=1e-6, abs=1e-8)


@pytest.mark.spec("DLN-15")
def test_a_maxout_layer_has_its_pieces_times_as_many_weights() -> None:
    """Of k affine maps of the inputs for each unit, the largest; the k of a unit lie side by side."""
    net, random = MLPModel(3, 2, (4, 5), Maxout(3), 0.0, False, DOUBLE), np.random.default_rng(0)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.tensor(random.normal(size=tuple(parameter.shape))))
    assert [tuple(w.shape) for w in net.matrices] == [(12, 3), (15, 4), (2, 5)]
    X, weights = random.normal(size=(6, 3)), net.state()
    h = X
    for k, found in enumerate(net.hidden(torch.from_numpy(X))):
        h = (h @ weights[f"layers.{k}.weight"].T + weights[f"layers.{k}.bias"]).reshape(6, -1, 3).max(2)
        np.testing.assert_allclose(found.detach(), h, rtol=1e-12)


def test_back_propagation_says_what_it_does_not_know() -> None:
    for net in (model(norm=True), MLPModel(3, 2, (4,), Maxout(), 0.0, False, DOUBLE)):
        with pytest.raises(UserTypeError, match="automatic differentiation"):
            net.backward([], torch.zeros(1, 2))


@pytest.mark.spec("DLN-71", "DLN-72", "LIN-21")
def test_one_step_is_penalized_in_matrices_alone() -> None:
    """W <- W - rate (g + l2 W + l1 sign W) with sign 0 = 0; slopes, biases and norms as without penalties."""
    X, y = blobs(40)
    options: dict[str, Any] = {"hidden": (4,), "activation": "prelu", "batch_norm": True, "optimizer": "sgd",
                               "learning_rate": 0.5, "batch_size": None, "epochs": 1, "dtype": "float64"}  # fmt: skip
    start: dict[str, np.ndarray] = {}

    def begin(net: Any, *_: Any) -> None:
        for k, w in enumerate(net.parameters()):
            torch.nn.init.normal_(w, generator=torch.Generator().manual_seed(k))
        net.matrices[0][0, 0] = 0.0
        start.update({name: value.copy() for name, value in net.state().items()})

    ends = []
    for l1, l2 in ((0.0, 0.0), (0.3, 0.2)):
        system = gnomon.MLP(l1=l1, l2=l2, **options)
        system.initialize = lambda *a: torch.no_grad()(begin)(*a)  # type: ignore[method-assign]
        ends.append(system.fit(X, y).model_.state())
    assert start["layers.0.weight"][0, 0] == 0 and {"norms.0.gain", "units.0.weight", "layers.1.bias"} <= start.keys()
    for name, plain in ends[0].items():
        w = start[name] if name.startswith("layers") and name.endswith("weight") else 0.0
        np.testing.assert_allclose(ends[1][name], plain - 0.5 * (0.2 * w + 0.3 * np.sign(w)), atol=1e-12, err_msg=name)


@pytest.mark.spec("DLN-66", "DLN-71", "DLN-72", "LIN-21")
@pytest.mark.parametrize("norm", [False, True])
def test_the_loss_is_a_mean_and_the_penalties_are_added_once(norm: bool) -> None:
    """Penalties are of the layers' weights alone, of no bias and nothing of a norm."""
    net, random = model(norm=norm), np.random.default_rng(3)
    X, y, weight = random.normal(size=(5, 3)), random.integers(0, 2, size=5), random.uniform(0.5, 2, size=5)
    loss = Supervised(CrossEntropyLoss(), l1=0.5, l2=0.25)(
        net, Batch(X, y, weight), noise=Noise(0, "fit"), phase="fit", group=Group()
    )
    log_p = torch.log_softmax(net.scores(torch.from_numpy(X)), 1).detach().numpy()[np.arange(5), y]
    assert loss.terms["cross_entropy"].sum.item() == pytest.approx(-(weight * log_p).sum(), rel=1e-12)
    assert loss.terms["cross_entropy"].weight == pytest.approx(weight.sum())
    weights = np.concatenate([net.state()[f"layers.{k}.weight"].ravel() for k in range(3)])
    l1, l2 = loss.terms["l1"], loss.terms["l2"]
    assert l1.scale * l1.sum().item() / l1.weight == pytest.approx(0.5 * np.abs(weights).sum(), rel=1e-12)
    assert l2.scale * l2.sum().item() / l2.weight == pytest.approx(0.25 * (weights**2).sum() / 2, rel=1e-12)


@pytest.mark.spec("DLN-73", "DLN-79", "NLP-16", "PRA-062")
def test_dropout_is_on_in_training_and_off_in_prediction() -> None:
    net, X = model((40,), ReLU(), dropout=0.5), np.random.default_rng(0).normal(size=(3, 3))
    x, noise = torch.from_numpy(X), Noise(0, "fit")
    with training(noise):
        assert not torch.equal(net.scores(x), net.scores(x))
    objective, batch = Supervised(CrossEntropyLoss()), Batch(X, np.array([0, 1, 0]))
    judged = objective.validate(net, batch, noise=noise, group=Group()).terms
    trained = objective.in_training(net, batch, noise=noise, phase="fit", group=Group()).terms
    plain = functional.cross_entropy(net.scores(x), torch.tensor([0, 1, 0]), reduction="sum").item()
    assert judged["cross_entropy"].sum.item() == pytest.approx(plain, rel=1e-12)
    assert trained["cross_entropy"].sum.item() != pytest.approx(plain, rel=1e-3)


CODINGS = {
    "words": lambda base: np.array(["low", "mid", "high"])[base],
    "negative": lambda base: base * 2 - 1,
    "shifted": lambda base: base + 7,
    "floats": lambda base: base.astype(float),
    "objects": lambda base: np.array(["x", "a", "b"], object)[base],
}


@pytest.mark.spec("NLP-04")
@pytest.mark.parametrize("coding", CODINGS)
def test_labels_of_every_kind(coding: str) -> None:
    """HB-47: accuracy above 0.9, early stopping on; order-preserving codings give renamed predictions to the letter."""
    X, base = blobs()
    labels = CODINGS[coding](base)
    options: dict[str, Any] = {"hidden": (16,), "learning_rate": 0.03, "epochs": 40, "early_stopping": "patience"}
    fitted = gnomon.MLP(random_state=0, **options).fit(X, labels)
    assert fitted.score(X, labels) > 0.9
    predicted, proba = fitted.predict(X), fitted.predict_proba(X)
    assert predicted.dtype == fitted.classes_.dtype and set(predicted.tolist()) <= set(labels.tolist())
    assert fitted.classes_.tolist() == sorted(set(labels.tolist()))
    np.testing.assert_allclose(proba.sum(1), 1, atol=1e-6)
    assert (fitted.classes_[proba.argmax(1)] == predicted).all()
    if coding in ("negative", "shifted", "floats"):
        plain = gnomon.MLP(random_state=0, **options).fit(X, base).predict(X)
        assert (CODINGS[coding](plain) == predicted).all()


def test_labels_that_are_refused() -> None:
    X, base = blobs()
    with pytest.raises(UserError, match="row"):
        gnomon.MLP().fit(X, np.array([None, "a", "b"], object)[base])
    with pytest.raises(UserValueError, match="y must hold at least 2 classes, got only"):
        gnomon.MLP().fit(X, np.zeros(120))
    two = gnomon.MLP(epochs=2, random_state=0).fit(X, base > 0)
    assert two.predict(X).dtype == bool
    with pytest.raises(UserValueError, match=r"'strange'.*\(validation: row 1\)"):
        gnomon.MLP(epochs=1).fit(X, CODINGS["words"](base), validation=(X[:3], np.array(["low", "strange", "mid"])))


@pytest.mark.spec("PRA-062")
@pytest.mark.parametrize("patience", [5, 100])
def test_the_best_weights_come_back(patience: int) -> None:
    """HB-49: labels that are noise; the kept weights score the best value of the history, however the fit ended."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(80, 5)), random.integers(0, 2, size=80)
    other, labels = random.normal(size=(40, 5)), random.integers(0, 2, size=40)
    system = gnomon.MLP(hidden=(32,), learning_rate=0.01, epochs=30, random_state=0, dropout=0.2, batch_norm=True)
    system.set_params(early_stopping=EarlyStopping(patience=patience), dtype="float64")
    system.fit(X, y, validation=(other, labels))
    seen = system.history_["validation_cross_entropy"]
    assert system.best_epoch_ == int(np.argmin(seen)) + 1 < len(seen)
    assert len(seen) == min(30, system.best_epoch_ + patience)
    assert -system.evaluate(other, labels)["log_likelihood"].value == pytest.approx(min(seen), abs=1e-9)


@pytest.mark.spec("PRA-062")
def test_held_out_rows_do_not_train() -> None:
    """Their columns may be anything: means, spreads and weights stay what they were."""
    X, y = blobs(60)
    options: dict[str, Any] = {"hidden": (4,), "epochs": 3, "random_state": 0, "early_stopping": "patience"}
    first = gnomon.MLP(**options).fit(X, y)
    from gnomon.training.stopping import held_out

    chosen = held_out(60, 0.1, Noise(0, "fit/validation"), y)
    changed = X.copy()
    changed[chosen] += 1e-3
    assert chosen.sum() == 6
    second = gnomon.MLP(**options, dtype="float64").fit(changed, y)
    assert np.array_equal(first.model_.state()["shift"], second.model_.state()["shift"])
    np.testing.assert_allclose(first.model_.state()["shift"], X[~chosen].mean(0), rtol=1e-9)


@pytest.mark.spec("NLP-04")
@pytest.mark.parametrize("batch_size", [32, 2])
def test_a_row_left_over_and_the_same_answer_twice(batch_size: int) -> None:
    """HB-51: 33 rows."""
    X = np.random.default_rng(0).normal(size=(33, 4))
    y = (X[:, 0] > 0).astype(int)
    seen: list[int] = []
    system = gnomon.MLP(hidden=(16,), batch_norm=True, dropout=0.5, epochs=4, batch_size=batch_size, random_state=0)
    with gnomon.context(callbacks=(lambda step, record: seen.append(step),)):
        system.fit(X, y)
    assert seen[0] == 33 // batch_size
    proba = system.predict_proba(X)
    assert np.array_equal(proba, system.predict_proba(X))
    alone = np.concatenate([system.predict_proba(X[i : i + 1]) for i in range(33)])
    np.testing.assert_allclose(proba, alone, atol=1e-5)


def test_what_batch_normalization_cannot_do_is_said_before_training() -> None:
    X, y = blobs(33)
    with pytest.raises(UserValueError, match=r"batch_size must be at least 2 for batch normalization, got 1"):
        gnomon.MLP(batch_norm=True, batch_size=1).fit(X, y)
    system = gnomon.MLPRegression(batch_norm=True)
    with pytest.raises(UserValueError, match="batch_norm needs at least 2 rows, got 1"):
        system.fit(X[:1], y[:1])
    assert not hasattr(system, "model_")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"hidden": (0,)}, UserValueError, "hidden must be at least 1 in every layer, got 0"),
        ({"hidden": 5}, UserTypeError, "such as"),
        ({"hidden": (2.5,)}, UserTypeError, "hidden must hold whole numbers, got 2.5"),
        ({"activation": "threshold"}, UserValueError, "straight_through"),
        ({"activation": "rellu"}, UserValueError, "did you mean 'relu'"),
        ({"dropout": 1.0}, UserValueError, r"\[0, 1\)"),
        ({"early_stopping": True}, UserTypeError, "early_stopping"),
        ({"schedule": "cosinus"}, UserValueError, "did you mean 'cosine'"),
        ({"optimizer__momentum": 0.5}, UserValueError, "Adam has no parameter"),
    ],
)
def test_parameters_are_refused_in_one_line(options: dict[str, Any], error: type, words: str) -> None:
    X, y = blobs(20)
    with pytest.raises(error, match=words) as caught:
        gnomon.MLP(epochs=1).set_params(**options).fit(X, y)
    assert "\n" not in str(caught.value)


@pytest.mark.spec("DLN-79")
def test_a_fit_that_diverges_says_so() -> None:
    """HB-07: a rate of 1e6, and a missing cell."""
    random = np.random.default_rng(0)
    X = (random.random((200, 30)) < 0.3).astype(float)
    y = random.integers(0, 2, 200)
    with pytest.raises(Diverged, match=r"step \d+.*lower the learning rate"):
        gnomon.MLP(hidden=(16, 16), optimizer="sgd", learning_rate=1e6, random_state=0).fit(X, y)
    X[17, 4] = np.nan
    with pytest.raises(UserValueError, match="row 17, column 4"):
        gnomon.MLP().fit(X, y)


def test_fit_twice_clone_and_generators() -> None:
    """HB-53."""
    X, y = blobs(50)
    system = gnomon.MLP(hidden=(8,), epochs=2, dropout=0.2, batch_norm=True, random_state=0)
    with pytest.raises(NotFittedError):
        system.predict(X)
    before = copy.deepcopy(system.get_params())
    first = arrays_of(system.fit(X, y))
    system.fit(np.random.default_rng(1).normal(size=(40, 6)), np.arange(40) % 2)
    second, third = arrays_of(system.fit(X, y)), arrays_of(clone(system).fit(X, y))
    for name, value in first.items():
        assert np.array_equal(value, second[name]) and np.array_equal(value, third[name])
    with pytest.raises(UserError):
        system.fit(X[:, :0], y)
    assert system.get_params() == before
    generator = np.random.default_rng(0)
    a, b = (arrays_of(clone(system).set_params(random_state=generator).fit(X, y)) for _ in range(2))
    assert not np.array_equal(a["layers.0.weight"], b["layers.0.weight"])


def test_saved_hidden_layers_are_those_of_the_fit(tmp_path: Any) -> None:
    X, y = blobs(30)
    system = gnomon.MLP(hidden=(5, 4), activation="maxout", epochs=2, random_state=0).fit(X, y)
    system.set_params(hidden=(7,), activation="tanh")
    again = gnomon.load(system.save(tmp_path / "model"))
    assert np.array_equal(again.predict_proba(X), system.predict_proba(X))
    assert [layer.shape for layer in again.hidden_outputs(X)] == [(30, 5), (30, 4)]
