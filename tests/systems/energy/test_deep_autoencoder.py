"""The unrolled stack: against the machines' own pass of means, differences, what each stage moves, and components."""

import numpy as np
import pytest
import torch
from scipy.special import expit
from sklearn.decomposition import PCA

import gnomon
from gnomon.data.batches import Batch
from gnomon.distributions.units import BernoulliUnits, GaussianUnits
from gnomon.errors import UserError
from gnomon.numeric.noise import Noise
from gnomon.systems.energy.deep_autoencoder import DeepAutoencoder, DeepAutoencoderModel
from gnomon.training.group import Group
from oracles.binary import all_states, numerical_gradient

RANDOM = np.random.default_rng(5)
ROWS = RANDOM.random((7, 5))
STILL = {"epochs": 1, "learning_rate": 1e-30, "dtype": "float64", "random_state": 0}
"""A step of size 1e-30 is none: the network is as it was begun."""


def model_of(sizes=(4, 3, 2)):
    """A stack of random machines, and a network with other weights, in float64."""
    model = DeepAutoencoderModel(5, sizes, torch.float64)
    model.load({name: RANDOM.normal(size=value.shape) for name, value in model.state().items()})
    for part in (model.encoder, model.decoder):
        part.shift.zero_()
        part.scale.fill_(1)
    return model


def bits(n=60, d=6, seed=1):
    random = np.random.default_rng(seed)
    kind = random.integers(0, 3, n)
    return (random.random((n, d)) < np.array([[0.9], [0.2], [0.5]])[kind] ** np.arange(1, d + 1)).astype(float)


def up_and_down(stack, x):
    """Means of the code and of the rows again, machine by machine."""
    for k in range(1, stack.depth + 1):
        x = stack.pair(k).conditional(f"hidden_{k}", {f"hidden_{k - 1}": x}).mean
    code = x
    for k in range(stack.depth, 0, -1):
        x = stack.pair(k).conditional(f"hidden_{k - 1}", {f"hidden_{k}": x}).mean
    return code, x


# --- unrolling --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("REP-042")
def test_unrolled_it_is_the_pass_of_means_up_and_down_written_out():
    """Sigmoids but for the code; transposed weights down; hidden biases go up, the biases of lower layers down."""
    model = model_of()
    model.unroll()
    own = model.stack.state()
    h = expit(ROWS @ own["weight_1"] + own["recognition_bias_1"])
    h = expit(h @ own["weight_2"] + own["recognition_bias_2"])
    code = h @ own["weight_3"] + own["bias_3"]
    for k in (3, 2, 1):
        h = expit((code if k == 3 else h) @ own[f"weight_{k}"].T + own[f"bias_{k - 1}"])
    np.testing.assert_allclose(model.ask("codes", ROWS), code, rtol=1e-12)
    np.testing.assert_allclose(model.ask("reconstruct", ROWS), h, rtol=1e-12)
    assert np.abs(code).max() > 1 and (code < 0).any()  # no unit that squashes
    found = up_and_down(model.stack, ROWS)
    np.testing.assert_allclose(model.ask("codes", ROWS), found[0], rtol=1e-12)
    np.testing.assert_allclose(model.ask("decode", code), found[1], rtol=1e-12)


@pytest.mark.spec("REP-042")
@pytest.mark.parametrize("hidden", [(4, 3), ()])
def test_before_it_learns_as_a_whole_a_fit_is_what_its_machines_have_learned(hidden):
    X = bits()
    system = DeepAutoencoder(hidden=hidden, n_latent=2, pretrain_epochs=30, pretrain_rate=0.3, **STILL).fit(X)
    stack = system.model_.stack
    assert [type(kind) for kind in stack.kinds] == [BernoulliUnits] * (1 + len(hidden)) + [GaussianUnits]
    code, rows = up_and_down(stack, X)
    np.testing.assert_allclose(system.transform(X), code, rtol=1e-9)
    np.testing.assert_allclose(system.reconstruct(X), rows, rtol=1e-9)
    np.testing.assert_allclose(system.inverse_transform(system.transform(X)), rows, rtol=1e-9)
    assert np.ptp(code, axis=0).min() > 1e-3


@pytest.mark.spec("REP-042")
def test_fitted_machines_are_unrolled_and_go_on_from_there():
    """`rbm` below, `harmonium` with normal hidden units on top: up and down by their own verbs."""
    X = bits(200)
    first = gnomon.RBM(n_hidden=5, epochs=20, learning_rate=0.2, dtype="float64", random_state=0).fit(X)
    codes = (np.random.default_rng(0).random((200, 5)) < first.transform(X)).astype(float)
    options = {"visible": "bernoulli", "hidden": "gaussian", "epochs": 20, "dtype": "float64", "random_state": 0}
    top = gnomon.make("harmonium", n_hidden=2, **options).fit(codes)
    network = DeepAutoencoder.from_rbms([first, top], learning_rate=0.02, random_state=0)
    z = top.model_.conditional("hidden", {"visible": first.transform(X)}).mean
    down = first.inverse_transform(top.model_.conditional("visible", {"hidden": z}).mean)
    np.testing.assert_allclose(network.transform(X), z, rtol=1e-9)
    np.testing.assert_allclose(network.reconstruct(X), down, rtol=1e-9)
    assert (network.hidden, network.n_latent, network.n_steps_) == ((5,), 2, 0)
    before, machine = network.score(X), first.weights_.copy()
    for _ in range(30):
        network.partial_fit(X)
    assert network.score(X) > before + 0.2
    np.testing.assert_array_equal(first.weights_, machine)  # copies have moved
    np.testing.assert_array_equal(network.model_.stack.state()["weight_1"], machine)


def test_machines_that_do_not_go_together_are_refused_in_a_line():
    X = bits()
    one = gnomon.RBM(n_hidden=3, epochs=1, random_state=0).fit(X)
    top = gnomon.make("harmonium", visible="bernoulli", hidden="gaussian", n_hidden=2, epochs=1).fit(X)
    for rbms, words in (
        (one, "rbms must be a list of fitted machines"),
        ([], "at least one machine"),
        ([one], "hidden units of machine 1 must be GaussianUnits"),
        ([top, top], "hidden units of machine 1 must be BernoulliUnits"),
        ([one, top], "machine 2 takes 6 columns, the one below has 3"),
        ([gnomon.RBM()], "machine 1 must be a fitted restricted Boltzmann machine, got RBM"),
        ([gnomon.DBM(hidden=(3, 2), epochs=1, pretrain_epochs=0).fit(X)], "got DBM"),
    ):
        with pytest.raises(UserError, match=words):
            DeepAutoencoder.from_rbms(rbms)
    for options, words in (({"hidden": (0,)}, "hidden"), ({"objective": "ratio-matching"}, "needs rows of 0 and 1")):
        with pytest.raises(UserError, match=words):
            DeepAutoencoder(**STILL | options).fit(X)
    with pytest.raises(UserError, match=r"\[0, 1\]"):
        DeepAutoencoder().fit(X * 3)


# --- the fit ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("REP-042")
def test_machines_learn_from_the_bottom_up_each_on_the_means_below_the_top_one_with_normal_units():
    """One step by the exact gradient of each, begun at known weights, against differences of enumerated sums."""
    X = bits(40, 3)
    options = STILL | {"hidden": (3,), "n_latent": 2, "objective": "exact", "optimizer": "sgd", "batch_size": None}
    options |= {"pretrain_rate": 0.2, "code_rate": 0.5, "pretrain_epochs": 1}
    system = DeepAutoencoder(**options).fit(X)
    begun = system.make(3, "float64")
    system.initialize(begun, system.ingest(X), Noise(system.seed_, "fit").child("initial"))
    state, found = begun.stack.state(), system.model_.stack.state()
    v = all_states(3)

    def log_mass(x, W, b, c, normal):
        """log of the sum (or integral) over h of exp(-E): softplus of bits, f^2 / 2 of normal units."""
        f = x @ W + c
        return x @ b + (0.5 * (f * f).sum(1) if normal else np.logaddexp(0, f).sum(1))

    def cost(rows, normal):
        log_z = lambda *own: np.logaddexp.reduce(log_mass(v, *own, normal))  # noqa: E731
        return lambda *own: log_z(*own) - log_mass(rows, *own, normal).mean()

    def step(values, rows, rate, normal):
        slope = [
            numerical_gradient(lambda x, k=k: cost(rows, normal)(*values[:k], x, *values[k + 1 :]), values[k])
            for k in range(3)
        ]
        return [value - rate * g for value, g in zip(values, slope, strict=True)]

    first = step([state[n].copy() for n in ("weight_1", "bias_0", "recognition_bias_1")], X, 0.2, False)
    for name, value in zip(("weight_1", "bias_0", "recognition_bias_1"), first, strict=True):
        np.testing.assert_allclose(found[name], value, atol=1e-8, err_msg=name)
    means = expit(X @ first[0] + first[2])
    start = [state["weight_2"].copy(), first[2], state["bias_2"].copy()]  # the lower bias is that of the units before
    for name, value in zip(("weight_2", "bias_1", "bias_2"), step(start, means, 0.1, True), strict=True):
        np.testing.assert_allclose(found[name], value, atol=1e-8, err_msg=name)


@pytest.mark.spec("REP-042")
def test_the_whole_learns_by_the_cross_entropy_of_rows_and_reconstructions():
    """-sum w (x log r + (1 - x) log(1 - r)) and l2 / 2 sum W^2, written out; nothing of the machines moves."""
    model, weight = model_of((3, 2)), np.array([1.0, 0.5, 2.0, 1.0, 1.0, 0.25, 3.0])
    model.unroll()
    objective = DeepAutoencoder(l2=0.3).make_objective()
    batch = Batch({"X": ROWS, "y": ROWS}, np.arange(7), np.arange(7), weight)
    loss = objective(model, batch, noise=Noise(0, "fit"), phase="fit", group=Group())
    (loss.terms["cross_entropy"].sum / loss.terms["cross_entropy"].weight).backward()
    loss.terms["l2"].add_slope(loss.terms["l2"].share(1.0))
    names = [name for name, _ in model.named_parameters() if not name.startswith("stack")]

    def cost(*values):
        own, h = dict(zip(names, values, strict=True)), ROWS
        for part, squash in (("encoder", False), ("decoder", True)):
            h = expit(h @ own[f"{part}.layers.0.weight"].T + own[f"{part}.layers.0.bias"])
            h = h @ own[f"{part}.layers.1.weight"].T + own[f"{part}.layers.1.bias"]
            h = expit(h) if squash else h
        fit = (ROWS * np.log(h) + (1 - ROWS) * np.log(1 - h)).sum(1)
        squares = sum((value**2).sum() for name, value in own.items() if name.endswith("weight"))
        return -(weight * fit).sum() / weight.sum() + 0.15 * squares

    values = [model.state()[name].copy() for name in names]
    for k, name in enumerate(names):
        wanted = numerical_gradient(lambda x, k=k: cost(*values[:k], x, *values[k + 1 :]), values[k])
        np.testing.assert_allclose(model.get_parameter(name).grad, wanted, atol=2e-7, err_msg=name)
    (phase,) = objective.phases(model).values()
    moved = {id(one) for one in phase.parameters}
    assert {name for name, one in model.named_parameters() if id(one) in moved} == set(names)
    X = bits()
    short = DeepAutoencoder(hidden=(4,), n_latent=2, pretrain_epochs=2, **STILL).fit(X).model_.stack.state()
    long = DeepAutoencoder(hidden=(4,), n_latent=2, pretrain_epochs=2, **STILL | {"epochs": 5, "learning_rate": 0.1})
    for name, value in long.fit(X).model_.stack.state().items():
        np.testing.assert_array_equal(value, short[name], err_msg=name)


def test_scores_are_those_of_the_reconstructions():
    X = bits()
    system = DeepAutoencoder(hidden=(4,), n_latent=2, epochs=3, random_state=0).fit(X)
    found, rows = system.evaluate(X), np.asarray(system.reconstruct(X), np.float64)
    log_p = (X * np.log(rows) + (1 - X) * np.log(1 - rows)).sum(1).mean()
    assert system.score(X) == pytest.approx(log_p, rel=1e-5)
    assert found["squared_error"].value == pytest.approx(((X - rows) ** 2).mean(), rel=1e-5)
    assert system.get_feature_names_out().tolist() == ["deepautoencoder0", "deepautoencoder1"]


@pytest.mark.spec("REP-042")
def test_held_out_digits_are_rebuilt_better_than_by_as_many_principal_components():
    """Three seeds of split and fit, each row against itself: 8 standard errors and more, and less than 0.75 of it."""
    X = np.asarray(gnomon.data.load("digits").view("unit"), np.float32)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(X))
        test, train = X[order[:450]], X[order[450:]]
        system = DeepAutoencoder(pretrain_epochs=10, epochs=20, learning_rate=0.01, random_state=seed).fit(train)
        pca = PCA(system.n_latent).fit(train)
        linear = np.square(test - pca.inverse_transform(pca.transform(test))).mean(1)
        ours = np.square(test - system.reconstruct(test)).mean(1)
        gain = linear - ours
        assert gain.mean() > 8 * gain.std() / len(gain) ** 0.5
        assert ours.mean() < 0.75 * linear.mean()
