"""Four stages: both phases of the joint machine by enumeration, what each stage learns, the round that it becomes."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import expit, log_softmax, softmax

import gnomon
from gnomon.data.batches import Batch
from gnomon.distributions.units import BernoulliUnits, CategoricalUnits
from gnomon.errors import UserError
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import CD, PCD
from gnomon.systems.energy.dbm_classifier import DBMClassifier, DBMClassifierModel, rising
from gnomon.training.group import Group
from oracles.binary import all_states, numerical_gradient

D, K, SIZES = 3, 3, (3, 2)
RANDOM = np.random.default_rng(4)
ONE_HOT = np.eye(K)
STILL = {"epochs": 1, "learning_rate": 1e-30, "dtype": "float64", "random_state": 0}
"""A step of size 1e-30 is none: the network is as it was begun."""


def model_of(rounds=6, scale=1.0):
    """A machine with random parameters, and a network with other weights, in float64."""
    model = DBMClassifierModel(D, K, SIZES, rounds, dtype=torch.float64)
    model.joint.load({name: scale * RANDOM.normal(size=value.shape) for name, value in model.joint.state().items()})
    for parameter in model.network.parameters():
        parameter.data.normal_(generator=torch.Generator().manual_seed(0))
    return model


def own_of(model):
    """W1, W2, U and the biases of v, h1, h2, y."""
    state = model.joint.state()
    weights = [state[f"{a}_weight"] for a in ("visible_hidden_1", "hidden_1_hidden_2", "hidden_2_label")]
    return weights, [state[f"{layer}_bias"] for layer in ("visible", "hidden_1", "hidden_2", "label")]


def every_state():
    """All states of v, h1, h2 and y, each a table."""
    tables = [all_states(n) for n in (D, *SIZES)] + [ONE_HOT]
    picks = np.array(list(itertools.product(*[range(len(table)) for table in tables])))
    return [table[picks[:, k]] for k, table in enumerate(tables)]


def log_weight(model, v, h1, h2, y):
    (W1, W2, U), (b, c1, c2, d) = own_of(model)
    pairs = ((v @ W1) * h1).sum(1) + ((h1 @ W2) * h2).sum(1) + ((h2 @ U) * y).sum(1)
    return pairs + v @ b + h1 @ c1 + h2 @ c2 + y @ d


def rows_of(n=40, d=5, seed=0):
    """Two classes of bits."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % 2
    chance = np.where(y[:, None], np.linspace(0.9, 0.2, d), np.linspace(0.2, 0.8, d))
    return (random.random((n, d)) < chance).astype(float), y


def prepared(system, X, y):
    """The model, the whole problem and the stages before their first step."""
    examples = system.ingest(X, y)
    system.arguments_, system.seed_ = system.arguments(examples), 0
    model = system.make(**system.arguments_)
    noise = Noise(0, "fit")
    system.initialize(model, examples, noise.child("initial"))
    whole = system.problem(model, examples, noise, Group())
    return model, whole, system.procedure(examples)


# --- the machine of rows and classes ----------------------------------------------------------------------------------


@pytest.mark.spec("GEN-027")
def test_the_joint_machine_is_the_energy_written_out():
    """log Z by the table of all states, every conditional by shares of it, the class as one of several values."""
    model, states = model_of(), every_state()
    log_p = log_weight(model, *states)
    assert model.joint.log_partition() == pytest.approx(np.logaddexp.reduce(log_p), abs=1e-10)
    assert type(model.joint.units["label"]) is CategoricalUnits and model.joint.units["label"].n == 1
    names = ("visible", "hidden_1", "hidden_2", "label")
    state = dict(zip(names, states, strict=True))
    for name in names:
        others = np.hstack([state[other] for other in names if other != name])
        group = np.unique(others, axis=0, return_inverse=True)[1].ravel()
        total = np.bincount(group, np.exp(log_p))[group]
        found = np.exp(model.joint.conditional(name, state).log_prob(state[name]))
        np.testing.assert_allclose(found, np.exp(log_p) / total, rtol=1e-9)


@pytest.mark.spec("GEN-027")
def test_the_positive_phase_holds_rows_and_classes_and_finds_the_hidden_means():
    """h1 = sigmoid(v W1 + h2 W2^T), h2 = sigmoid(h1 W2 + U_y): the fixed point of both layers, with the class."""
    model = model_of(scale=0.7)
    (W1, W2, U), (_, c1, c2, _) = own_of(model)
    v, codes = all_states(D), np.arange(8) % K
    objective = PCD(k=5, positive="mean_field").build()
    q = objective.positive(model.joint, model.with_class(v, codes), Noise(0, "positive"))
    np.testing.assert_array_equal(q["visible"], v)
    np.testing.assert_array_equal(q["label"], ONE_HOT[codes])
    h2 = np.full((8, SIZES[1]), 0.5)
    for _ in range(200):
        h1 = expit(v @ W1 + h2 @ W2.T + c1)
        h2 = expit(h1 @ W2 + U[:, codes].T + c2)
    np.testing.assert_allclose(q["hidden_1"].mean, h1, atol=1e-3)
    np.testing.assert_allclose(q["hidden_2"].mean, h2, atol=1e-3)
    without = model.machine()
    blind = gnomon.inference.mcmc.gibbs.mean_field(without, {"visible": (v, None)}, steps=200)
    assert np.abs(blind["hidden_2"] - h2).max() > 0.1  # the class matters


@pytest.mark.spec("GEN-027")
def test_the_negative_phase_is_the_mean_under_the_joint_machine():
    """Gradients of an update with 40,000 chains, after 60 sweeps: enumerated E[s] within 5 standard errors each."""
    model = model_of(scale=0.7)
    n, states = 40_000, every_state()
    p = np.exp(log_weight(model, *states) - np.logaddexp.reduce(log_weight(model, *states)))
    v, codes = all_states(D), np.arange(8) % K
    weight, X = np.ones(8), model.with_class(v, codes)
    objective = PCD(k=60, positive="mean_field", n_chains=n).build()
    objective.begin(model.joint, type("Batches", (), {"batch_size": 8, "steps": 1})(), Noise(0, "begin"), Group())
    batch = Batch({"X": X}, np.arange(8), np.arange(8), weight)
    loss = objective(model.joint, batch, noise=Noise(1, "fit"), phase="fit", group=Group())
    q = objective.positive(model.joint, X, Noise(0, "positive"))
    layers = {"visible": v, "label": ONE_HOT[codes], "hidden_1": q["hidden_1"].mean, "hidden_2": q["hidden_2"].mean}
    table = dict(zip(("visible", "hidden_1", "hidden_2", "label"), states, strict=True))
    for a, b in (("visible", "hidden_1"), ("hidden_1", "hidden_2"), ("hidden_2", "label")):
        pairs = table[a][:, :, None] * table[b][:, None, :]
        mean = np.tensordot(p, pairs, 1)
        error = np.sqrt((np.tensordot(p, pairs**2, 1) - mean**2) / n)
        wanted = -(layers[a].T @ layers[b]) + 8 * mean
        assert (np.abs(loss.gradients[f"{a}_{b}_weight"] - wanted) < 8 * 5 * error).all(), (a, b)
        assert np.abs(wanted).max() > 0.05
    for layer, values in table.items():
        mean = p @ values
        error = np.sqrt((p @ values**2 - mean**2) / n)
        assert (np.abs(loss.gradients[f"{layer}_bias"] - (8 * mean - layers[layer].sum(0))) < 8 * 5 * error).all(), (
            layer
        )
    assert np.isfinite(float(loss.terms["energy_gap"].sum()))


@pytest.mark.spec("GEN-027")
def test_the_upper_machine_sees_h1_and_the_class_and_its_top_layer_twice():
    """Its law by two explicit copies of h2; h1 keeps the bias that (a) has given it; the class is one draw of K."""
    model = model_of()
    (_, W2, U), (_, c1, c2, d) = own_of(model)
    upper = model.upper()
    h, g, y = (table for table in (all_states(SIZES[0]), all_states(2 * SIZES[1]), ONE_HOT))
    picks = np.array(list(itertools.product(range(len(h)), range(len(g)), range(K))))
    h, g, y = h[picks[:, 0]], g[picks[:, 1]], y[picks[:, 2]]
    both = g[:, :2] + g[:, 2:]
    log_p = ((h @ W2) * both).sum(1) + ((both @ U) * y).sum(1) + h @ c1 + both @ c2 + y @ d
    assert upper.log_partition() == pytest.approx(np.logaddexp.reduce(log_p), abs=1e-10)
    up = upper.conditional("hidden_2", {"hidden_1": h, "label": y}).mean
    np.testing.assert_allclose(up, 2 * expit(h @ W2 + y @ U.T + c2), rtol=1e-12)
    chosen = upper.conditional("label", {"hidden_2": both}).mean
    np.testing.assert_allclose(chosen, softmax(both @ U + d, 1), rtol=1e-12)
    draws = upper.conditional("label", {"hidden_2": both}).sample(Noise(0, "y").rows(np.arange(len(both))), 0)
    np.testing.assert_array_equal(draws.sum(1), 1)
    assert not upper.get_parameter("hidden_1_bias").requires_grad
    for name in ("hidden_1_hidden_2_weight", "hidden_2_label_weight", "label_bias", "hidden_2_bias"):
        assert upper.get_parameter(name) is model.joint.get_parameter(name)


# --- the stages -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("GEN-027")
def test_each_stage_moves_its_own_parameters_and_sees_its_own_rows():
    """(a) twice the row, (b) draws of h1 with the class, k rising, (c) rows with the class, (d) rows with features."""
    X, y = rows_of()
    y = np.where(np.arange(40) < 10, -1, y)
    with pytest.warns(UserWarning, match="labeled -1"):
        system = DBMClassifier(hidden=(4, 3), pretrain_epochs=3, joint_epochs=2, batch_size=10, dtype="float64")
        model, whole, stages = prepared(system, X, y)
    assert [name for name, _, _ in stages.stages] == ["rows", "classes", "joint", "network"]
    state, moved, ks = stages.start(whole), [], []
    before = {name: value.copy() for name, value in model.state().items()}
    for steps in (12, 9, 6):
        for _ in range(steps):
            batch, own = state.inner.problem.batches.step(0, 0), model.joint.state()
            rows, codes = X[batch.rows], y[batch.rows]
            if len(moved) == 0:
                np.testing.assert_array_equal(batch.data["X"], 2 * rows)
            else:
                rows, codes = X[y >= 0][batch.rows], y[y >= 0][batch.rows]
                np.testing.assert_array_equal(batch.data["X"][:, -2:], np.eye(2)[codes])
            if len(moved) == 1:
                drawn = batch.data["X"][:, :4]
                assert set(np.unique(drawn)) <= {0, 1}
                ks.append(drawn - expit(2 * rows @ own["visible_hidden_1_weight"] + own["hidden_1_bias"]))
            if len(moved) == 2:
                np.testing.assert_array_equal(batch.data["X"][:, :-2], rows)
            state, _ = stages.step(state)
        after = {name: value.copy() for name, value in model.state().items()}
        moved.append({name for name in after if not np.array_equal(after[name], before[name])} - {"network"})
        before = after
    names = {"joint.visible_hidden_1_weight", "joint.visible_bias", "joint.hidden_1_bias"}
    more = {"joint.hidden_1_hidden_2_weight", "joint.hidden_2_label_weight", "joint.hidden_2_bias", "joint.label_bias"}
    joint = [{name for name in one if name.startswith("joint")} for one in moved]
    assert joint == [names, more, names | more]
    assert all(name.startswith("joint") for one in moved[:2] for name in one)
    inputs = state.inner.problem.batches.step(0, 0)
    rows = X[y >= 0][inputs.rows]
    np.testing.assert_allclose(inputs.data["X"], model.ask("inputs", rows), rtol=1e-12)


@pytest.mark.spec("GEN-027")
def test_draws_of_h1_are_those_of_the_machine_of_the_rows():
    """4,000 draws of each unit beside its chance given the row that stands twice: 5 standard errors."""
    model = model_of()
    (W1, _, _), (_, c1, _, _) = own_of(model)
    x = np.repeat(all_states(D), 4000, axis=0)
    found = model.drawn_above(x, Noise(0, "rows").rows(np.arange(len(x))))
    chance = expit(2 * all_states(D) @ W1 + c1)
    mean = found.reshape(8, 4000, -1).mean(1)
    assert (np.abs(mean - chance) < 5 * np.sqrt(chance * (1 - chance) / 4000) + 1e-9).all()


@pytest.mark.spec("GEN-027")
def test_k_rises_from_1_to_20_in_the_second_stage_alone_and_is_5_in_the_third():
    X, y = rows_of()
    system = DBMClassifier(hidden=(3, 2), pretrain_epochs=20, joint_epochs=2, epochs=2, random_state=0).fit(X, y)
    assert system.history_["k"] == list(range(1, 21)) and system.history_["stage"].count(2) == 20
    assert [rising(7, n).at(1, t) for n in (1, 2, 3) for t in range(n)] == [1, 1, 7, 1, 4, 7]
    assert DBMClassifier().joint_k == 5 and DBMClassifier().largest_k == 20 and CD().k == 1


# --- the network ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("GEN-027")
def test_before_training_the_network_is_one_more_round_of_mean_field_and_what_it_says_of_the_class():
    """Exactly: with r rounds behind the features, its layers are round r + 1 of the machine without the class."""
    model = model_of(rounds=6)
    model.convert()
    (W1, W2, U), (_, c1, c2, d) = own_of(model)
    v = all_states(D)
    h2 = np.full((8, SIZES[1]), 0.5)
    for _ in range(7):
        features = h2
        h1 = expit(v @ W1 + h2 @ W2.T + c1)
        h2 = expit(h1 @ W2 + c2)
    np.testing.assert_allclose(model.features(v), features, rtol=1e-12)
    for ours, wanted in zip(model.ask("hidden", v), (h1, h2), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-12)
    np.testing.assert_allclose(model.ask("scores", v), h2 @ U + d, rtol=1e-12)
    seven = gnomon.inference.mcmc.gibbs.mean_field(
        model.machine(), {"visible": (v, None)}, steps=7, order=("hidden_1", "hidden_2")
    )
    for ours, layer in zip(model.ask("hidden", v), ("hidden_1", "hidden_2"), strict=True):
        np.testing.assert_allclose(ours, seven[layer], rtol=1e-12)


@pytest.mark.spec("GEN-027")
def test_a_fitted_machine_is_that_network_and_its_features_know_nothing_of_the_class():
    X, y = rows_of()
    options = {"hidden": (4, 3), "pretrain_epochs": 5, "joint_epochs": 5, "pretrain_rate": 0.05, "rounds": 8}
    system = DBMClassifier(**options, **STILL).fit(X, y)
    found = system.infer(X).means
    again = DBMClassifier(**options | {"rounds": 9}, **STILL).fit(X, y)  # the same machine, a round more
    for name, value in system.model_.joint.state().items():
        np.testing.assert_array_equal(again.model_.joint.state()[name], value, err_msg=name)
    nine = again.infer(X).means
    first, second = system.hidden_outputs(X)
    np.testing.assert_allclose(first, nine["hidden_1"], rtol=1e-9)
    np.testing.assert_allclose(second, nine["hidden_2"], rtol=1e-9)
    own = system.model_.joint.state()
    wanted = softmax(second @ own["hidden_2_label_weight"] + own["label_bias"], 1)
    np.testing.assert_allclose(system.predict_proba(X), wanted, rtol=1e-9)
    np.testing.assert_allclose(system.model_.features(X), found["hidden_2"], rtol=1e-12)
    state = system.model_.state()
    state["joint.hidden_2_label_weight"] = state["joint.hidden_2_label_weight"] + 5.0
    before = system.predict_proba(X)
    system.model_.load(state)  # couplings to the class are of no account to features and network
    np.testing.assert_array_equal(system.predict_proba(X), before)
    np.testing.assert_array_equal(system.infer(X).means["hidden_2"], found["hidden_2"])


@pytest.mark.spec("GEN-027")
def test_labels_move_the_network_by_the_gradient_of_differences_and_not_the_machine():
    """-sum w log P(y | v) + l2 / 2 sum W^2, written out; dropout thins the hidden layers in training alone."""
    model, y = model_of(), np.arange(8) % K
    model.convert()
    inputs, weight = model.ask("inputs", all_states(D)), np.linspace(0.5, 2, 8)
    objective = DBMClassifier(l2=0.3).make_objective()
    batch = Batch({"X": inputs, "y": y}, np.arange(8), np.arange(8), weight)
    loss = objective(model.network, batch, noise=Noise(0, "fit"), phase="train", group=Group())
    (loss.terms["cross_entropy"].sum / loss.terms["cross_entropy"].weight).backward()
    loss.terms["l2"].add_slope(loss.terms["l2"].share(1.0))
    names = [name for name, _ in model.network.named_parameters()]

    def cost(*values):
        h, own = inputs, dict(zip(names, values, strict=True))
        for k in (0, 1):
            h = expit(h @ own[f"layers.{k}.weight"].T + own[f"layers.{k}.bias"])
        log_p = log_softmax(h @ own["layers.2.weight"].T + own["layers.2.bias"], 1)
        squares = sum((value**2).sum() for name, value in own.items() if name.endswith("weight"))
        return -(weight * log_p[np.arange(8), y]).sum() / weight.sum() + 0.15 * squares

    values = [model.network.state()[name].copy() for name in names]
    for k, name in enumerate(names):
        wanted = numerical_gradient(lambda x, k=k: cost(*values[:k], x, *values[k + 1 :]), values[k])
        np.testing.assert_allclose(model.network.get_parameter(name).grad, wanted, atol=2e-7, err_msg=name)
    X, y = rows_of()
    options = {"hidden": (4, 3), "pretrain_epochs": 1, "joint_epochs": 1, "dtype": "float64", "random_state": 0}
    dry, thinned, still = (
        DBMClassifier(**options, epochs=n, dropout=p, learning_rate=rate).fit(X, y)
        for n, p, rate in ((5, 0.0, 0.05), (5, 0.5, 0.05), (1, 0.5, 1e-30))
    )
    for name, value in still.model_.joint.state().items():
        np.testing.assert_array_equal(value, dry.model_.joint.state()[name], err_msg=name)
        np.testing.assert_array_equal(value, thinned.model_.joint.state()[name], err_msg=name)
    assert np.abs(dry.predict_proba(X) - thinned.predict_proba(X)).max() > 1e-3
    np.testing.assert_array_equal(thinned.predict_proba(X), thinned.predict_proba(X))


@pytest.mark.spec("GEN-027")
def test_held_out_digits_are_read():
    """A short fit: 300 rows to learn from, 300 to judge by; the untrained network is far above chance already."""
    data = gnomon.data.load("digits")
    X, y = np.asarray(data.view("unit"), np.float32), data.view("labels")
    options = {"hidden": (48, 32), "pretrain_epochs": 30, "pretrain_rate": 0.03, "joint_epochs": 10, "random_state": 0}
    begun = DBMClassifier(**options, epochs=1, learning_rate=1e-30).fit(X[:300], y[:300]).score(X[300:600], y[300:600])
    tuned = DBMClassifier(**options, epochs=40, learning_rate=0.01).fit(X[:300], y[:300]).score(X[300:600], y[300:600])
    assert 0.6 < begun < tuned - 0.05 and tuned > 0.8


def test_what_cannot_be_is_said_in_a_line():
    X, y = rows_of()
    for options, words in (
        ({"hidden": (4,)}, "hidden must name two layers"),
        ({"hidden": (4, 0)}, "hidden"),
        ({"rounds": 0}, "rounds must be"),
    ):
        with pytest.raises(UserError, match=words):
            DBMClassifier(**options).fit(X, y)
    with pytest.raises(UserError, match=r"\[0, 1\]"):
        DBMClassifier().fit(X * 2, y)
    system = DBMClassifier(hidden=(3, 2), pretrain_epochs=1, joint_epochs=1, epochs=1, random_state=0).fit(X, y)
    gaps = X[:3].copy()
    gaps[0, 1] = np.nan
    with pytest.raises(UserError, match="row 0, column 1"):
        system.predict(gaps)
    assert type(system.model_.machine().units["visible"]) is BernoulliUnits
