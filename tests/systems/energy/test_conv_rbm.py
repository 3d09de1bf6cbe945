"""The convolutional machine against loops over the places of images of 3 x 3, the dense machine, finite differences."""

import numpy as np
import pytest
import torch
from scipy.special import expit, logsumexp
from sklearn.exceptions import NotFittedError

from gnomon.data.batches import Batch
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.partition import log_partition
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import Exact
from gnomon.objectives.pseudolikelihood import Pseudolikelihood
from gnomon.objectives.ratio_matching import RatioMatching
from gnomon.systems.energy._convolutional import ConvolutionalModel, Maps
from gnomon.systems.energy.conv_rbm import ConvRBM
from gnomon.systems.energy.rbm import RBMModel
from gnomon.training.group import Group
from oracles.binary import all_states
from oracles.layered import assert_same, by_differences, filled

V = all_states(9)
POOLINGS = [
    pytest.param("none", marks=pytest.mark.spec("GEN-050")),
    pytest.param("probabilistic", marks=pytest.mark.spec("GEN-050", "GEN-053")),
    pytest.param("deterministic", marks=pytest.mark.spec("GEN-050", "GEN-051")),
]


def model_of(maps=1, mode="valid", pooling="none", bias="channel", shape=(3, 3, 1), kernel=(2, 2), region=(2, 2)):
    layer = Maps(maps, kernel, mode, pooling, region)
    return filled(ConvolutionalModel(shape, [layer], torch.float64, visible_bias=bias))


def energies(model, v, h):
    """E of one image and one state of the maps, by loops over maps, places and the window, from the parameters."""
    p, link = model.state(), model.links[0]
    weight, (down, across) = p["visible_hidden_weight"], link.places
    rows, columns, channels = link.shape
    image, maps = v.reshape(link.shape), h.reshape(down, across, -1)
    above, left = (
        ((weight.shape[2] - 1) // 2, (weight.shape[3] - 1) // 2) if (down, across) == (rows, columns) else (0, 0)
    )
    total = 0.0
    for i, j, c in np.ndindex(rows, columns, channels):
        bias = p["visible_bias"]
        total += image[i, j, c] * (bias[c] if len(bias) == channels else bias[(i * columns + j) * channels + c])
    for y, x, k in np.ndindex(maps.shape):
        total += maps[y, x, k] * p["hidden_bias"][k]
        for c, m, n in np.ndindex(weight.shape[1:]):
            i, j = y + m - above, x + n - left
            if 0 <= i < rows and 0 <= j < columns:
                total += weight[k, c, m, n] * image[i, j, c] * maps[y, x, k]
    return -total


def table(model, pooling, images=V):
    """-E of every image (a row) and every state of four detectors of one map (a column), -inf where none may be."""
    states = all_states(model.links[0].maps_size)
    found = np.array([[-energies(model, v, h) for h in states] for v in images])
    if pooling == "probabilistic":
        found[:, states.sum(1) > 1] = -np.inf
    return states, found


def loss_of(objective, model, X):
    n = len(X)
    batch = Batch({"X": X}, np.arange(n), np.arange(n), np.ones(n))
    return objective(model, batch, noise=Noise(0, "fit"), phase="fit", group=Group())


def value_of(loss):
    (term,) = loss.terms.values()
    return term.sum() if callable(term.sum) else term.sum


# --- enumeration ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", ["channel", "pixel"])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_images_of_3_by_3_by_enumeration(pooling, bias):
    """Energies, log Z, p(v), the conditionals of both layers and the free energy of 2^9 images beside 2^4 detectors."""
    model = model_of(pooling=pooling, bias=bias)
    states, minus = table(model, pooling)
    log_z = logsumexp(minus)
    assert model.log_partition() == pytest.approx(log_z, abs=1e-10)
    np.testing.assert_allclose(model.log_prob(V), logsumexp(minus, 1) - log_z, atol=1e-10)
    np.testing.assert_allclose(model.energy(V), -logsumexp(minus, 1), atol=1e-10)
    posterior = np.exp(minus - logsumexp(minus, 1, keepdims=True))
    whole = states if pooling == "none" else np.column_stack([states, states.max(1)])
    np.testing.assert_allclose(model.conditional("hidden", {"visible": V}).mean, posterior @ whole, atol=1e-10)
    possible = np.isfinite(minus[0])
    downward = np.exp(minus - logsumexp(np.where(possible, minus, 0), 0))[:, possible]
    found = model.conditional("visible", {"hidden": whole[possible]})
    np.testing.assert_allclose(found.mean, downward.T @ V, atol=1e-10)
    for number, row in enumerate(V[::73]):
        pair = {"visible": np.tile(row, (possible.sum(), 1)), "hidden": whole[possible]}
        np.testing.assert_allclose(model.joint_energy(pair), -minus[73 * number, possible], atol=1e-10)


@pytest.mark.spec("GEN-050")
@pytest.mark.parametrize(
    ("shape", "maps", "kernel", "mode"),
    [((3, 3, 1), 2, (2, 2), "valid"), ((3, 3, 1), 1, (2, 2), "same"), ((2, 2, 2), 2, (1, 2), "valid"),
     ((1, 6, 1), 2, (1, 3), "same"), ((1, 4, 2), 2, (1, 3), "valid")],
)  # fmt: skip
def test_the_machine_is_the_dense_one_with_toeplitz_weights_and_biases_of_each_map_and_channel(
    shape, maps, kernel, mode
):
    model = model_of(maps, mode, shape=shape, kernel=kernel)
    p, size = model.state(), int(np.prod(shape))
    each = [-energies(model, v, np.zeros(model.sizes["hidden"])) for v in np.eye(size)]
    b = np.array(each)
    pairs = np.zeros((size, model.sizes["hidden"]))
    c = np.array([-energies(model, np.zeros(size), h) for h in np.eye(model.sizes["hidden"])])
    for i, j in np.ndindex(pairs.shape):
        pairs[i, j] = -energies(model, np.eye(size)[i], np.eye(len(c))[j]) - b[i] - c[j]
    dense = RBMModel.of(pairs, b, c)
    v = all_states(size)
    assert model.log_partition() == pytest.approx(dense.log_partition(), abs=1e-10)
    np.testing.assert_allclose(model.log_prob(v), dense.log_prob(v), atol=1e-10)
    means = model.conditional("hidden", {"visible": v}).mean
    np.testing.assert_allclose(means, expit(v @ pairs + np.tile(p["hidden_bias"], len(c) // maps)), atol=1e-12)
    np.testing.assert_allclose(
        model.conditional("visible", {"hidden": means}).mean,
        expit(means @ pairs.T + np.tile(p["visible_bias"], size // shape[2])),
        atol=1e-12,
    )
    gradient = model.joint_gradient({"visible": v[:5], "hidden": means[:5]}, np.ones(5))
    wide = dense.joint_gradient({"visible": v[:5], "hidden": means[:5]}, np.ones(5))
    np.testing.assert_allclose(gradient["hidden_bias"], wide["hidden_bias"].reshape(-1, maps).sum(0), atol=1e-12)
    np.testing.assert_allclose(gradient["visible_bias"], wide["visible_bias"].reshape(-1, shape[2]).sum(0), atol=1e-12)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_two_images_side_by_side_have_another_log_z(pooling):
    """Without weights log Z is that of the units alone: it grows with the image, whatever the kernels are."""
    sizes = []
    for side in (3, 5):
        model = model_of(pooling=pooling, shape=(side, side, 1))
        model.load({name: 0 * value for name, value in model.state().items()})
        sizes.append(model.log_partition())
    per_region = {"none": 4 * np.log(2), "probabilistic": np.log(5), "deterministic": 4 * np.log(2)}[pooling]
    np.testing.assert_allclose(sizes, (9 * np.log(2) + per_region, 25 * np.log(2) + 4 * per_region), atol=1e-10)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_gradients_by_finite_differences(pooling):
    """Of marginal energies, of the exact likelihood, of pseudolikelihood and of ratio matching."""
    model = model_of(2, pooling=pooling)
    X = V[[3, 77, 200, 510]]
    weight = np.array([1.0, 0.5, 2.0, 1.0])
    found = model.marginal_gradient({"visible": X}, weight)
    assert_same(found, by_differences(model, lambda m: weight @ m.marginal_energy({"visible": X})), 1e-7)
    for objective in (Exact().build(), Pseudolikelihood().build(), RatioMatching().build()):
        loss = loss_of(objective, model, X)
        assert_same(loss.gradients, by_differences(model, lambda m, o=objective: value_of(loss_of(o, m, X))), 1e-6)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_annealed_sampling_finds_log_z(pooling):
    """Within 5 of its standard errors of the exact number: about one false alarm in a million."""
    model = model_of(2, pooling=pooling)
    exact = log_partition(model, method="exact").value
    found = log_partition(model, method="ais", noise=Noise(0, "ais"), chains=100, schedule=100)
    assert found.error < 0.2
    assert abs(found.value - exact) < 5 * found.error


@pytest.mark.parametrize("pooling", POOLINGS)
def test_tensors_give_the_numbers_of_arrays(pooling):
    model = model_of(2, "same", pooling, shape=(4, 4, 1))
    X = (np.random.default_rng(0).random((6, 16)) < 0.5).astype(float)
    x = torch.from_numpy(X)
    np.testing.assert_allclose(model.energy(x).detach().numpy(), model.energy(X), atol=1e-12)
    one, two = (model.marginal_gradient({"visible": rows}, rows[:, 0] * 0 + 1) for rows in (X, x))
    assert_same({name: value.numpy() for name, value in two.items()}, one, 1e-12)
    model.energy(x).sum().backward()
    for name, value in model.named_parameters():
        np.testing.assert_allclose(value.grad.numpy(), one[name], atol=1e-10)


@pytest.mark.spec("GEN-051")
def test_a_general_energy_of_many_detectors_is_not_enumerated():
    """25 detectors that a second layer couples: 2^25 states are refused, not begun."""
    layers = [Maps(1, (1, 1), pooling="deterministic", region=(5, 5)), Maps(30, (1, 1))]
    model = ConvolutionalModel((5, 5, 1), layers, torch.float64)
    with pytest.raises(UserValueError, match=r"2\^"):
        log_partition(model, method="exact", limit=20)


@pytest.mark.spec("GEN-051")
def test_codes_alone_are_what_deterministic_pooling_changes_in_one_layer():
    one, two = model_of(2), model_of(2, pooling="deterministic")
    two.load(one.state())
    np.testing.assert_allclose(two.log_prob(V), one.log_prob(V), atol=1e-10)
    assert two.code("hidden", two.conditional("hidden", {"visible": V}).mean).shape == (512, 2)


# --- the system -------------------------------------------------------------------------------------------------------


def bars(n=200, side=6):
    """Images of one horizontal or vertical bar each, at any place."""
    random = np.random.default_rng(0)
    X = np.zeros((n, side, side))
    for image, at, upright in zip(X, random.integers(0, side, n), random.random(n) < 0.5, strict=True):
        image[:, at] = upright
        image[at] = np.maximum(image[at], not upright)
    return X.reshape(n, -1)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_fit_on_3_by_3_images_climbs_to_what_the_gradient_of_the_table_allows(pooling):
    """The exact objective ends where its own gradient, by differences of the table's likelihood, is nothing."""
    X = V[np.random.default_rng(1).choice(512, 40)]
    machine = ConvRBM(
        n_maps=1, kernel=(2, 2), mode="valid", pooling=pooling, objective="exact", epochs=150, batch_size=None,
        learning_rate=0.5, dtype="float64", random_state=0,
    ).fit(X)  # fmt: skip
    slopes = by_differences(machine.model_, lambda m: m.log_prob(X).mean())
    assert max(np.abs(value).max() for value in slopes.values()) < 0.02
    minus = table(machine.model_, pooling)[1]
    expected = (logsumexp(minus, 1) - logsumexp(minus))[(X @ 2.0 ** np.arange(8, -1, -1)).astype(int)]
    np.testing.assert_allclose(machine.log_prob(X), expected, atol=1e-8)


@pytest.mark.spec("GEN-050", "GEN-053")
def test_codes_are_maps_in_reading_order():
    X = bars()
    for pooling, side in (("none", 6), ("probabilistic", 3), ("deterministic", 3)):
        machine = ConvRBM(n_maps=3, pooling=pooling, epochs=2, random_state=0).fit(X)
        assert machine.maps_shape_ == (side, side, 3)
        codes = machine.transform(X)
        assert codes.shape == (200, 3 * side**2) == (200, len(machine.get_feature_names_out()))
        moved = np.roll(X.reshape(-1, 6, 6), 2, axis=2).reshape(200, -1)
        step = 2 if pooling == "none" else 1
        one, two = (machine.transform(rows).reshape(-1, side, side, 3) for rows in (X, moved))
        inside = slice(step + 1, side - 1)  # a shifted image has shifted codes, but for the border
        np.testing.assert_allclose(
            two[:, 1:-1, inside], one[:, 1:-1, inside.start - step : inside.stop - step], atol=1e-6
        )


@pytest.mark.spec("GEN-050")
def test_chains_and_missing_pixels_are_those_of_the_table():
    """2,000 draws of 3 x 3 images: pixel means within 5 standard errors; missing pixels as the table says."""
    X = V[np.random.default_rng(1).choice(512, 40, p=np.arange(512) / np.arange(512).sum())]
    machine = ConvRBM(
        n_maps=2, kernel=(2, 2), mode="valid", pooling="probabilistic", objective="exact", epochs=60, batch_size=None,
        learning_rate=0.3, dtype="float64", random_state=0,
    ).fit(X)  # fmt: skip
    p = np.exp(machine.log_prob(V))
    assert p.sum() == pytest.approx(1, abs=1e-10)
    drawn = machine.sample(2000, steps=40, random_state=0)
    mean = p @ V
    assert (np.abs(drawn.mean(0) - mean) < 5 * np.sqrt(mean * (1 - mean) / 2000)).all()
    row = X[:1].copy()
    row[0, [0, 4, 5]] = np.nan
    fits = (V[:, [1, 2, 3, 6, 7, 8]] == X[0, [1, 2, 3, 6, 7, 8]]).all(1)
    np.testing.assert_allclose(machine.impute(row)[0], p[fits] @ V[fits] / p[fits].sum(), atol=1e-8)
    assert machine.log_prob_observed(row)[0] == pytest.approx(np.log(p[fits].sum()), abs=1e-8)


@pytest.mark.spec("GEN-050")
def test_sequences_and_colors():
    random = np.random.default_rng(0)
    line = (random.random((30, 12)) < 0.4).astype(float)
    assert ConvRBM(n_maps=2, kernel=(1, 4), image_shape=(1, 12), epochs=1).fit(line).transform(line).shape == (30, 24)
    cut = ConvRBM(n_maps=2, kernel=(3, 30), epochs=1).fit(line)  # no square: a sequence, and a kernel of its length
    assert (cut.maps_shape_, cut.weights_.shape) == ((1, 12, 2), (2, 1, 1, 12))
    color = random.random((30, 4, 4, 3)).reshape(30, -1)
    machine = ConvRBM(n_maps=2, image_shape=(4, 4, 3), visible_bias="channel", epochs=2).fit(color)
    assert machine.weights_.shape == (2, 3, 3, 3)
    assert machine.visible_bias_.shape == (3,)
    np.testing.assert_allclose(  # the first biases are those of the channels' means, far from what two epochs change
        expit(machine.visible_bias_), color.reshape(-1, 3).mean(0), atol=0.1
    )


@pytest.mark.spec("GEN-050", "GEN-053")
@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"pooling": "probabilistic", "region": (4, 2)}, UserValueError, "regions must fill maps of 6 x 6, got 4 x 2"),
        (
            {"pooling": "probabilistic", "kernel": (2, 2), "mode": "valid"},
            UserValueError,
            "regions must fill maps of 5 x 5, got 2 x 2",
        ),
        ({"image_shape": (5, 7)}, UserValueError, "image_shape must have 36 numbers, got 5 x 7 x 1"),
        (
            {"image_shape": (36,)},
            UserValueError,
            r"image_shape must be \(rows, columns\) or \(rows, columns, channels\), .*, got \(36,\)",
        ),
        ({"mode": "full"}, UserValueError, "mode"),
        ({"image_shape": (-6, -6)}, UserValueError, "image_shape must be"),
        ({"kernel": (0, 2)}, UserValueError, r"kernel must be \(rows, columns\), .*, got \(0, 2\)"),
        ({"kernel": 3}, UserValueError, r"kernel must be \(rows, columns\), .*, got 3"),
        ({"kernel": None}, UserValueError, r"kernel must be \(rows, columns\), .*, got None"),
        ({"image_shape": 36}, UserValueError, r"image_shape must be \(rows, columns\) or .*, got 36"),
        ({"objective": "centered"}, UserTypeError, "share biases"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(fields, error, words):
    with pytest.raises(error, match=words):
        ConvRBM(epochs=1, random_state=0).set_params(**fields).fit(bars(20))


def test_codes_before_a_fit_are_refused_by_name():
    with pytest.raises(NotFittedError, match="ConvRBM"):
        ConvRBM().transform(bars(20))
