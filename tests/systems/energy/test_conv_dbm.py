"""The convolutional deep machine against enumeration over images and the states of its regions."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import logsumexp, softmax

from gnomon.data.batches import Batch
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.partition import log_partition
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.inference.variational.mean_field import mean_field_evidence, mean_field_solution
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import Exact
from gnomon.systems.energy._convolutional import ConvolutionalModel, Maps
from gnomon.systems.energy.conv_dbm import ConvDBM
from gnomon.training.group import Group
from oracles.binary import all_states
from oracles.layered import assert_same, by_differences, filled

V = all_states(9)
POOLINGS = [
    pytest.param("probabilistic", marks=pytest.mark.spec("GEN-054")),
    pytest.param("deterministic", marks=pytest.mark.spec("GEN-051", "GEN-054")),
    pytest.param("none", marks=pytest.mark.spec("GEN-054")),
]


def model_of(pooling="probabilistic", seed=0, scale=0.9):
    """Images 3 x 3, one map 2 x 2 (one region), above it two maps of one unit each."""
    kernel = (2, 2) if pooling == "none" else (1, 1)
    layers = [Maps(1, (2, 2), "valid", pooling), Maps(2, kernel, "valid", pooling, (1, 1))]
    return filled(ConvolutionalModel((3, 3, 1), layers, torch.float64, visible_bias="channel"), seed, scale)


class Table:
    """Every state of the image, the four detectors and the two upper units, its energy by loops, its probability."""

    def __init__(self, model, pooling):
        p = model.state()
        first, second = all_states(4), all_states(2)
        if pooling == "probabilistic":
            first = first[first.sum(1) <= 1]
        up = np.zeros((len(V), len(first)))
        for row, v in enumerate(V):
            for column, d in enumerate(first):
                total = p["visible_bias"][0] * v.sum() + p["hidden_1_bias"][0] * d.sum()
                for y, x, m, n in itertools.product(range(2), repeat=4):
                    total += p["visible_hidden_1_weight"][0, 0, m, n] * v[3 * (y + m) + x + n] * d[2 * y + x]
                up[row, column] = total
        above = np.zeros((len(first), len(second)))
        for row, d in enumerate(first):
            for column, h in enumerate(second):
                weight = p["hidden_1_hidden_2_weight"]
                for k in range(2):
                    seen = (weight[k, 0].ravel() @ d) if pooling == "none" else weight[k, 0, 0, 0] * d.max()
                    above[row, column] += h[k] * (p["hidden_2_bias"][k] + seen)
        self.minus = up[:, :, None] + above[None]
        self.log_z = logsumexp(self.minus)
        self.p = np.exp(self.minus - self.log_z)
        whole = lambda d, p: d if pooling == "none" else np.column_stack([d, p])  # noqa: E731
        self.states = {"visible": V, "hidden_1": whole(first, first.max(1)), "hidden_2": whole(second, second)}

    def rows(self):
        """The states of all three layers, one row for each cell of the table."""
        at = np.indices(self.minus.shape).reshape(3, -1)
        return {name: states[index] for (name, states), index in zip(self.states.items(), at, strict=True)}


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_small_image_by_enumeration(pooling):
    """Joint energies, log Z, p(v), and each layer given the two others."""
    model = model_of(pooling)
    table = Table(model, pooling)
    rows = table.rows()
    np.testing.assert_allclose(model.joint_energy(rows), -table.minus.ravel(), atol=1e-10)
    assert model.log_partition() == pytest.approx(table.log_z, abs=1e-10)
    np.testing.assert_allclose(model.log_prob(V), np.log(table.p.sum((1, 2))), atol=1e-10)
    for axis, name in enumerate(model.layers):
        others = {block: x for block, x in rows.items() if block != name}
        share = table.p / table.p.sum(axis, keepdims=True)
        found = model.conditional(name, others)
        np.testing.assert_allclose(np.exp(found.log_prob(rows[name])), share.ravel(), atol=1e-10)


@pytest.mark.spec("GEN-054", "GEN-053")
def test_detectors_hear_from_below_and_from_above_and_share_one_state():
    """The field of a detector: its own window's, plus what its pooling unit hears; then the softmax with "none"."""
    model = model_of()
    p = model.state()
    v, h = V[[100, 311]], np.array([[1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    windows = np.lib.stride_tricks.sliding_window_view(v.reshape(-1, 3, 3), (2, 2), (1, 2))
    below = (windows * p["visible_hidden_1_weight"][0, 0]).sum((3, 4)).reshape(2, 4)
    above = h[:, 2:] @ p["hidden_1_hidden_2_weight"][:, 0, 0, 0]
    logits = np.column_stack([below + above[:, None] + p["hidden_1_bias"], np.zeros(2)])
    expected = softmax(logits, axis=1)
    found = model.conditional("hidden_1", {"visible": v, "hidden_2": h}).mean
    np.testing.assert_allclose(found[:, :4], expected[:, :4], atol=1e-12)
    np.testing.assert_allclose(found[:, 4], 1 - expected[:, 4], atol=1e-12)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_mean_field_solves_its_equations_and_bounds_the_table(pooling):
    """Of the best factorized distribution of regions no neighbor in a grid of changes is better."""
    model = model_of(pooling, scale=0.6)
    table = Table(model, pooling)
    found = mean_field_solution(model, {"visible": V}, steps=500, tol=1e-12)
    assert found.converged.all()
    bound = mean_field_evidence(model, {"visible": V}, steps=500, tol=1e-12)
    exact = logsumexp(table.minus, (1, 2))
    assert (bound <= exact + 1e-10).all()
    assert (exact - bound).max() < 0.3
    first, second = table.states["hidden_1"], table.states["hidden_2"]
    logits = [(found.means[name], states) for name, states in (("hidden_1", first), ("hidden_2", second))]
    for row in (0, 77, 511):  # the bound by hand, from the two marginal distributions over states
        parts = []
        for axis, (_, _) in enumerate(logits):
            other = found.means["hidden_2" if axis == 0 else "hidden_1"][row]
            states, against = (first, second) if axis == 0 else (second, first)
            share = np.linalg.lstsq(np.vstack([against.T, np.ones(len(against))]), np.append(other, 1), rcond=None)[0]
            field = (table.minus[row] @ share) if axis == 0 else (share @ table.minus[row])
            parts.append(softmax(field))
            np.testing.assert_allclose(
                parts[-1] @ states, found.means["hidden_1" if axis == 0 else "hidden_2"][row], atol=1e-7
            )
        q1, q2 = parts
        by_hand = q1 @ table.minus[row] @ q2 - q1 @ np.log(q1) - q2 @ np.log(q2)
        assert bound[row] == pytest.approx(by_hand, abs=1e-7)


@pytest.mark.spec("GEN-054")
@pytest.mark.parametrize("pooling", ["none", "probabilistic"])
def test_a_single_layer_and_an_upper_layer_without_couplings_are_the_machine_of_one_layer(pooling):
    deep, one = (
        model_of(pooling),
        ConvolutionalModel((3, 3, 1), [Maps(1, (2, 2), "valid", pooling)], torch.float64, visible_bias="channel"),
    )
    state = deep.state() | {"hidden_1_hidden_2_weight": 0 * deep.state()["hidden_1_hidden_2_weight"]}
    deep.load(state)
    one.load({
        "visible_hidden_weight": state["visible_hidden_1_weight"], "visible_bias": state["visible_bias"],
        "hidden_bias": state["hidden_1_bias"],
    })  # fmt: skip
    np.testing.assert_allclose(deep.log_prob(V), one.log_prob(V), atol=1e-10)
    single = ConvDBM(n_maps=(1,), kernel=(2, 2), mode="valid", pooling=pooling, epochs=1, pretrain_epochs=0).fit(V[:40])
    assert single.model_.layers == ("visible", "hidden")


@pytest.mark.parametrize("pooling", POOLINGS)
def test_the_exact_gradient_by_finite_differences(pooling):
    model, X = model_of(pooling), V[[3, 77, 200, 510]]
    batch = Batch({"X": X}, np.arange(4), np.arange(4), np.ones(4))
    loss = Exact().build()(model, batch, noise=Noise(0, "fit"), phase="fit", group=Group())
    assert_same(loss.gradients, by_differences(model, lambda m: -m.log_prob(X).sum()), 1e-6)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_chains_and_annealing_find_the_table(pooling):
    """4,000 chains against the means of all units, within 5 standard errors; log Z within 5 of its own error."""
    model, n = model_of(pooling, scale=0.5), 4000
    table, noise = Table(model, pooling), Noise(0, "chains").rows(np.arange(n))
    state = {block: model.units[block].start(noise.child(block), n, np.zeros(0)) for block in model.blocks}
    state = gibbs(model, state, noise, steps=20)
    for axis, (name, states) in enumerate(table.states.items()):
        mean = table.p.sum(tuple({0, 1, 2} - {axis})) @ states
        assert (np.abs(state[name].mean(0) - mean) < 5 * np.sqrt(mean * (1 - mean) / n)).all()
    found = log_partition(model, method="ais", noise=Noise(0, "ais"), chains=100, schedule=100)
    assert found.error < 0.1
    assert abs(found.value - table.log_z) < 5 * found.error


# --- the system -------------------------------------------------------------------------------------------------------


def bars(n=120, side=8):
    """Images with one full row or column each."""
    random = np.random.default_rng(0)
    X = np.zeros((n, side, side))
    for image, at, upright in zip(X, random.integers(0, side, n), random.random(n) < 0.5, strict=True):
        if upright:
            image[:, at] = 1
        else:
            image[at] = 1
    return X.reshape(n, -1)


@pytest.mark.spec("GEN-054")
def test_each_layer_is_begun_by_its_own_machine_whose_parameters_are_the_whole_models():
    X = bars()
    whole = ConvDBM(n_maps=(4, 3), pretrain_epochs=3, epochs=1, learning_rate=0.05, random_state=0)
    machine = whole.fit(X)
    assert machine.history_["stage"] == [1, 1, 1, 2, 2, 2, 3]
    model = machine.model_
    pair = model.pair(2)
    assert pair.get_parameter("hidden_1_hidden_2_weight") is model.get_parameter("hidden_1_hidden_2_weight")
    assert not pair.get_parameter("hidden_1_bias").requires_grad
    below = model.pair(1).conditional("hidden_1", {"visible": X}).mean
    np.testing.assert_allclose(model.rows_below(2, X), below)
    kernels, detectors = (
        model.state()["visible_hidden_1_weight"].astype(np.float64),
        below[:, : model.units["hidden_1"].detectors],
    )
    planes = torch.nn.functional.conv2d(
        torch.from_numpy(X.reshape(-1, 1, 8, 8)), torch.from_numpy(kernels), padding=1
    ).permute(0, 2, 3, 1).numpy() + model.state()["hidden_1_bias"]  # fmt: skip
    regions = planes.reshape(-1, 4, 2, 4, 2, 4).transpose(0, 1, 3, 5, 2, 4).reshape(-1, 4, 4, 4, 4)
    share = softmax(np.concatenate([regions, 0 * regions[..., :1]], -1), axis=-1)[..., :4]
    expected = share.reshape(-1, 4, 4, 4, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(len(X), -1)
    np.testing.assert_allclose(detectors, expected, atol=1e-5)


@pytest.mark.spec("GEN-054")
def test_missing_pixels_and_draws_are_what_the_table_says():
    """2,000 draws of 4 pixels within 5 standard errors of the machine's own table; known pixels held."""
    states = all_states(4)
    X = states[np.random.default_rng(1).integers(0, 16, 40)]
    machine = ConvDBM(
        n_maps=(1, 2), kernel=(1, 1), region=(1, 1), objective="exact", pretrain_epochs=0, epochs=20, batch_size=None,
        learning_rate=0.3, image_shape=(1, 4), dtype="float64", random_state=0,
    ).fit(X)  # fmt: skip
    filled(machine.model_)
    p = np.exp(machine.model_.log_prob(states))
    assert p.sum() == pytest.approx(1, abs=1e-10)
    drawn, mean = machine.sample(2000, steps=40, random_state=0), p @ states
    assert (np.abs(drawn.mean(0) - mean) < 5 * np.sqrt(mean * (1 - mean) / 2000)).all()
    gap = np.array([[np.nan, 1.0, np.nan, 0.0]])
    fits = (states[:, 1] == 1) & (states[:, 3] == 0)
    for method, close in (("exact", 1e-8), ("mean_field", 0.1), ("gibbs", 0.05)):
        found = machine.impute(gap, method=method, random_state=0)[0]
        np.testing.assert_allclose(found, p[fits] @ states[fits] / p[fits].sum(), atol=close)


@pytest.mark.spec("GEN-054")
def test_codes_are_the_pooling_units_of_all_layers():
    X = bars(30)
    machine = ConvDBM(n_maps=(4, 3), pretrain_epochs=1, epochs=1, random_state=0).fit(X)
    assert machine.maps_shapes_ == ((4, 4, 4), (2, 2, 3))
    codes, means = machine.transform(X), machine.infer(X).means
    assert codes.shape == (30, 4 * 16 + 3 * 4) == (30, len(machine.get_feature_names_out()))
    np.testing.assert_allclose(codes[:, :64], means["hidden_1"][:, 4 * 64 :])
    np.testing.assert_allclose(codes[:, 64:], means["hidden_2"][:, 3 * 16 :])
    assert [one.shape for one in machine.weights_] == [(4, 1, 3, 3), (3, 4, 3, 3)]
    assert [one.shape for one in machine.biases_] == [(64,), (4,), (3,)]
    given = {"visible": X} | means
    np.testing.assert_allclose(machine.reconstruct(X), machine.model_.conditional("visible", given).mean, atol=1e-6)


@pytest.mark.spec("GEN-054")
@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"n_maps": ()}, UserValueError, "n_maps must name at least one layer"),
        ({"n_maps": (4, 4), "region": (4, 3)}, UserValueError, "regions must fill maps of 8 x 8, got 4 x 3"),
        ({"objective": "cd"}, UserValueError, "depend on each other in a deep machine"),
        ({"objective": "centered"}, UserTypeError, "share biases"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(fields, error, words):
    with pytest.raises(error, match=words):
        ConvDBM(epochs=1, pretrain_epochs=0, random_state=0).set_params(**fields).fit(bars(20))
