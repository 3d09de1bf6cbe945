"""The convolutional spike-and-slab machine: the dense one with Toeplitz matrices, differences, the safeguards."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import expit
from scipy.stats import multivariate_normal

from gnomon.errors import Diverged, UserValueError
from gnomon.evaluation.partition import log_partition
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.numeric.noise import Noise
from gnomon.systems.energy.conv_ssrbm import ConvSSRBM, ConvSSRBMModel
from gnomon.systems.energy.spike_and_slab_rbm import SpikeAndSlabRBMModel
from oracles.binary import numerical_gradient

NAMES = ("weight", "phi", "visible_log_precision", "hidden_log_precision", "hidden_mean", "hidden_bias", "visible_bias")
KINDS = [
    ((8, 8, 1), 2, (3, 3), "same", 1, "pixel"), ((8, 8, 1), 3, (3, 3), "valid", 1, "channel"),
    ((8, 8, 1), 2, (4, 3), "same", 2, "channel"), ((3, 5, 2), 2, (2, 3), "valid", 2, "pixel"),
    ((3, 3, 3), 2, (2, 2), "same", 1, "channel"), ((1, 9, 1), 2, (1, 4), "valid", 3, "pixel"),
]  # fmt: skip
EACH = pytest.mark.parametrize(("shape", "maps", "kernel", "mode", "slabs", "visible"), KINDS)


def machine(shape, maps, kernel, mode="same", slabs=1, visible="pixel", seed=0):
    """A machine of random parameters, in float64."""
    model = ConvSSRBMModel(shape, maps, kernel, mode, slabs, torch.float64, visible=visible)
    random = np.random.default_rng(seed)
    means = {"visible_log_precision": 1.0, "hidden_log_precision": 3.0, "phi": -1.0}
    with torch.no_grad():
        for name in NAMES:
            value = model.get_parameter(name)
            value.copy_(torch.from_numpy(means.get(name, 0.0) + 0.4 * random.normal(size=tuple(value.shape))))
    return model


def toeplitz(model, name):
    """(pixels, spikes or slabs): a kernel's numbers where its window lies, by loops over places and the window."""
    kernels = model.state()[name].astype(np.float64)
    kernels = np.exp(kernels) if name == "phi" else kernels
    (rows, columns, channels), (down, across), n = model.shape, model.places, len(kernels)
    above, left = (
        ((kernels.shape[2] - 1) // 2, (kernels.shape[3] - 1) // 2) if (down, across) == (rows, columns) else (0, 0)
    )
    found = np.zeros((rows, columns, channels, down, across, n))
    for y, x, k, c, m, w in np.ndindex(down, across, *kernels.shape):
        i, j = y + m - above, x + w - left
        if 0 <= i < rows and 0 <= j < columns:
            found[i, j, c, y, x, k] = kernels[k, c, m, w]
    return found.reshape(rows * columns * channels, -1)


def dense(model):
    """The dense machine with the Toeplitz matrices; numbers of maps and channels at each of their places."""
    p, n = model.state(), int(np.prod(model.places))
    pixels = int(np.prod(model.shape)) // len(p["visible_bias"])

    def of(name):
        value = p[name].astype(np.float64)
        return np.tile(value, pixels if name.startswith("visible") else n)

    return SpikeAndSlabRBMModel.of(
        toeplitz(model, "weight"), toeplitz(model, "phi"), np.exp(of("visible_log_precision")),
        np.exp(of("hidden_log_precision")), of("hidden_mean"), of("hidden_bias"), of("visible_bias"),
    )  # fmt: skip


def rows_of(model, n=4, seed=1):
    return np.random.default_rng(seed).normal(size=(n, int(np.prod(model.shape))))


@pytest.mark.spec("GEN-047")
@EACH
def test_it_is_the_dense_machine_with_toeplitz_matrices(shape, maps, kernel, mode, slabs, visible):
    """Energies, conditionals, the free energy and draws of a chain."""
    model = machine(shape, maps, kernel, mode, slabs, visible)
    wide, rows = dense(model), rows_of(model)
    assert model.units["hidden"].n == wide.units["hidden"].n == int(np.prod(model.places)) * maps
    found, wanted = (one.conditional("hidden", {"visible": rows}) for one in (model, wide))
    np.testing.assert_allclose(found.logits, wanted.logits, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.loc, wanted.loc, rtol=1e-10, atol=1e-10)
    hidden = wanted.sample(Noise(0, "h"), 0)
    down, below = (one.conditional("visible", {"hidden": hidden}) for one in (model, wide))
    np.testing.assert_allclose(down.mean, below.mean, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(down.variance, below.variance, rtol=1e-10)
    state = {"visible": rows, "hidden": hidden}
    np.testing.assert_allclose(model.joint_energy(state), wide.joint_energy(state), rtol=1e-11)
    np.testing.assert_allclose(model.energy(rows), wide.energy(rows), rtol=1e-11)
    np.testing.assert_allclose(model.energy(torch.from_numpy(rows)).detach(), wide.energy(rows), rtol=1e-11)
    for kept in ("hidden", "visible"):
        given = {kept: state[kept]}
        np.testing.assert_allclose(model.marginal_energy(given), wide.marginal_energy(given), rtol=1e-11)
    chains = [
        gibbs(one, {"visible": rows}, Noise(0, "walk"), steps=2, order=("hidden", "visible"))["visible"]
        for one in (model, wide)
    ]
    np.testing.assert_allclose(*chains, atol=1e-8)


@pytest.mark.spec("GEN-047")
@EACH
def test_gradients_are_those_of_the_dense_machine_summed_over_places(shape, maps, kernel, mode, slabs, visible):
    model = machine(shape, maps, kernel, mode, slabs, visible)
    wide, rows, weight = dense(model), rows_of(model), np.array([1.0, -0.5, 2.0, 0.3])
    hidden = wide.conditional("hidden", {"visible": rows}).sample(Noise(0, "h"), 0)
    for verb, state in (
        ("joint_gradient", {"visible": rows, "hidden": hidden}), ("marginal_gradient", {"visible": rows}),
    ):  # fmt: skip
        found, whole = (getattr(one, verb)(state, weight) for one in (model, wide))
        for name in NAMES[2:]:
            size = len(found[name])
            np.testing.assert_allclose(found[name], whole[name].reshape(-1, size).sum(0), rtol=1e-9, atol=1e-9)
        for name in ("weight", "phi"):
            mask, p = machine(shape, maps, kernel, mode, slabs, visible), model.state()[name]
            # where each number of a kernel stands in the matrix: its place's own number of a kernel of marks
            marks = 1.0 + np.arange(p.size, dtype=np.float64).reshape(p.shape)
            with torch.no_grad():
                mask.get_parameter(name).copy_(torch.from_numpy(np.log(marks) if name == "phi" else marks))
            where = np.rint(toeplitz(mask, name)).astype(int)
            wanted = [whole[name][where == number + 1].sum() for number in range(p.size)]
            np.testing.assert_allclose(np.asarray(found[name]).reshape(-1), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.spec("GEN-047")
def test_gradients_by_finite_differences():
    model, weight = machine((3, 3, 1), 2, (2, 2), "same", 2, "channel"), np.array([1.0, -0.5, 2.0, 0.3])
    rows = rows_of(model)
    found = model.marginal_gradient({"visible": rows}, weight)
    by_torch = model.marginal_gradient({"visible": torch.from_numpy(rows)}, torch.from_numpy(weight))
    for name in NAMES:
        value = model.state()[name].astype(np.float64)

        def at(x, name=name):
            changed = machine((3, 3, 1), 2, (2, 2), "same", 2, "channel")
            changed.load({**model.state(), name: x})
            return float(weight @ changed.energy(rows))

        np.testing.assert_allclose(found[name], numerical_gradient(at, value), atol=1e-6)
        np.testing.assert_allclose(by_torch[name], found[name], atol=1e-10)


@pytest.mark.spec("GEN-047")
def test_the_density_of_few_spikes_is_exact_and_annealing_finds_it():
    model = machine((3, 3, 1), 2, (2, 2), "valid", 1, "channel")  # 8 spikes
    wide, rows = dense(model), rows_of(model)
    assert model.log_partition() == pytest.approx(wide.log_partition(), abs=1e-10)
    np.testing.assert_allclose(model.log_prob(rows), wide.log_prob(rows), atol=1e-10)
    assert model.check_normalizable().minimum_eigenvalue == pytest.approx(wide.check_normalizable().minimum_eigenvalue)
    score = log_partition(model, "ais", Noise(0, "z"), schedule=200, base_mean=np.zeros(9))
    assert abs(score.value - wide.log_partition()) < 5 * score.error  # a fixed seed
    assert score.error < 0.1


@pytest.mark.spec("GEN-047")
def test_at_the_border_spikes_see_zeros_in_mode_same_and_pixels_are_seen_by_few_in_mode_valid():
    """Of ones, kernels of ones: how many pixels a spike sees, and how many spikes add to a pixel's precision."""
    counts = {}
    for mode in ("same", "valid"):
        model = machine((4, 4, 1), 1, (3, 3), mode, visible="channel")
        zeros = {name: 0 * value for name, value in model.state().items()}
        model.load({**zeros, "weight": np.ones((1, 1, 3, 3))})
        counts[mode] = [
            model.conditional("hidden", {"visible": np.ones((1, 16))}).loc.reshape(model.places),
            1 / model.conditional("visible", {"hidden": np.ones((1, model.sizes["hidden"]))}).variance.reshape(4, 4)
            - 1,
        ]
    edge = np.array([2, 3, 3, 2.0])
    np.testing.assert_allclose(counts["same"][0], np.outer(edge, edge))
    np.testing.assert_allclose(counts["same"][1], np.outer(edge, edge))
    np.testing.assert_allclose(counts["valid"][0], np.full((2, 2), 9.0))
    np.testing.assert_allclose(counts["valid"][1], np.outer([1, 2, 2, 1], [1, 2, 2, 1]))


# --- what can be normalized -------------------------------------------------------------------------------------------


def too_strong(shape, kernel, mode="same", slabs=1, visible="channel", seed=0):
    model = machine(shape, 2, kernel, mode, slabs, visible, seed)
    with torch.no_grad():
        model.weight.mul_(12.0)
        model.phi.sub_(4.0)
    return model


def taken(model):
    """The largest part of Lambda that all slabs take, from the dense matrices."""
    p, W = dense(model).state(), toeplitz(model, "weight")
    root = np.exp(0.5 * p["visible_log_precision"])[:, None]
    beside = W * np.exp(-0.5 * p["hidden_log_precision"]) / root
    return np.linalg.eigvalsh(beside @ beside.T)[-1]


BOUNDED = pytest.mark.parametrize(
    ("shape", "kernel", "mode", "slabs", "visible"),
    [((8, 8, 1), (3, 3), "same", 1, "channel"), ((8, 8, 1), (4, 3), "valid", 2, "pixel"),
     ((5, 4, 3), (2, 3), "same", 1, "pixel"), ((17, 17, 1), (5, 5), "same", 1, "channel"),
     ((12, 12, 2), (3, 3), "same", 1, "channel")],
)  # fmt: skip


@pytest.mark.spec("GEN-047")
@pytest.mark.parametrize(("shape", "kernel"), [((1, 4, 1), (1, 4)), ((4, 4, 1), (3, 3)), ((4, 3, 2), (2, 3))])
def test_the_bound_of_the_torus_holds_for_every_kernel(shape, kernel):
    """Fifty random kernels each; a torus as small as the image would be below some of them."""
    for seed in range(50):
        model = machine(shape, 1, kernel, "same", 1, "channel", seed)
        kernels = model._narrow().detach()
        bound = float(model._spectra(kernels / model._least().detach())[1].max())
        assert taken(model) <= bound + 1e-9
        assert model._most_taken() == pytest.approx(taken(model), rel=1e-9)


@pytest.mark.spec("GEN-047")
def test_kernels_of_a_pixel_have_bounds_that_are_the_smallest_eigenvalue():
    """Precisions of single pixels: Lambda + Phi - W^2 / alpha where that is less."""
    model = machine((1, 13, 1), 1, (1, 1), "valid", 1, "channel")
    for w in (0.5, 1.5, 3.0, 8.0):
        model.load({**model.state(), "weight": np.full((1, 1, 1, 1), w)})
        p = {name: float(np.ravel(value)[0]) for name, value in model.state().items()}
        least = np.exp(p["visible_log_precision"])
        wanted = min(least, least + np.exp(p["phi"]) - w * w * np.exp(-p["hidden_log_precision"]))
        assert model._lowest() == pytest.approx(wanted)
        assert model.check_normalizable().minimum_eigenvalue == pytest.approx(wanted)


@pytest.mark.spec("GEN-047")
@BOUNDED
def test_the_safeguard_of_weights_leaves_a_tenth_of_lambda(shape, kernel, mode, slabs, visible):
    model = too_strong(shape, kernel, mode, slabs, visible)
    assert taken(model) > 1.5
    assert model.check_normalizable().normalizable is False
    model.confine()
    small = np.prod(shape) <= 256
    assert taken(model) <= 0.9 + 1e-9
    assert taken(model) == pytest.approx(0.9, abs=1e-9 if small else 0.1)  # sharp: itself, or nearly in large images
    found = model.check_normalizable()
    assert found.normalizable
    assert found.lower_bound > 0.09 * np.exp(model.state()["visible_log_precision"].min())
    before = model.state()
    model.confine()
    np.testing.assert_allclose(model.state()["weight"], before["weight"], rtol=1e-6)  # nothing is left to do


@pytest.mark.spec("GEN-047")
def test_kernels_lose_the_frequencies_that_take_too_much_and_little_of_the_others():
    """A flat kernel that takes four times too much beside a rough one that takes little: which alone is left whole."""
    model = machine((8, 8, 1), 2, (3, 3), visible="channel")
    rough = np.outer([1.0, -2, 1], [1, -2, 1])
    with torch.no_grad():
        model.hidden_log_precision.zero_()
        model.weight.copy_(torch.from_numpy(np.stack([np.ones((1, 3, 3)), 0.05 * rough[None]])))
        model.weight[0].mul_((4 * 0.9 / model._most_taken()) ** 0.5)
    flat = model.state()["weight"][0].copy()
    model.confine()
    after = model.state()["weight"]
    assert np.linalg.norm(after[0]) < 0.52 * np.linalg.norm(flat)  # all of them by one factor would be halved
    assert np.linalg.norm(after[1]) > 0.8 * np.linalg.norm(0.05 * rough)
    assert model._most_taken() == pytest.approx(0.9, abs=1e-9)


@pytest.mark.spec("GEN-047")
@pytest.mark.parametrize("slabs", [1, 2])
def test_the_safeguard_of_phi_leaves_no_spike_that_lowers_a_precision(slabs):
    model = too_strong((4, 4, 2), (2, 3), "same", slabs)
    model.safeguard = "phi"
    model.confine()
    lowest = np.linalg.eigvalsh(model._changes())[:, 0].reshape(*model.places, 2)
    np.testing.assert_allclose(lowest[1, 1], 0, atol=1e-9)  # inside, no more than it takes
    assert (lowest > -1e-9).all()
    found = model.check_normalizable()
    assert found.normalizable and found.lower_bound == pytest.approx(
        np.exp(model.state()["visible_log_precision"].min())
    )


@pytest.mark.spec("GEN-047")
def test_bounds_for_many_spikes_hold_all_states_and_improper_parameters_are_refused():
    """Against all 2^14 states of the dense matrices."""
    for factor in (2.0, 5.0, 9.0):
        model = machine((2, 8, 1), 2, (2, 2), "valid", 1, "channel")  # 14 spikes
        with torch.no_grad():
            model.weight.mul_(factor)
            model.phi.sub_(3.0)
        changes = model._changes()
        base = np.diag(np.exp(dense(model).state()["visible_log_precision"]))
        states = np.array(list(itertools.product([0.0, 1.0], repeat=14)))
        wanted = np.linalg.eigvalsh(base + np.tensordot(states, changes, 1))[:, 0].min()
        found = model.check_normalizable()
        assert found.lower_bound <= wanted + 1e-10
        assert found.minimum_eigenvalue == pytest.approx(wanted, rel=0.05)
        assert found.minimum_eigenvalue >= wanted - 1e-10
        reached = np.linalg.eigvalsh(base + np.tensordot(found.spikes, changes, 1))[0]
        assert reached == pytest.approx(found.minimum_eigenvalue, abs=1e-10)
    assert found.normalizable is False
    model.safeguard = "none"
    with pytest.raises(Diverged, match="cannot be normalized: minimum eigenvalue -"):
        model.confine()
    tiny = too_strong((2, 2, 1), (2, 2), "valid")
    with pytest.raises(UserValueError, match="log Z does not exist"):
        tiny.log_partition()


# --- the system -------------------------------------------------------------------------------------------------------


def textures(n, side=6):
    """Images of smooth noise whose strength differs from image to image."""
    random = np.random.default_rng(0)
    drawn = random.normal(size=(n, side + 1, side + 1))
    smooth = drawn[:, 1:, 1:] + drawn[:, :-1, 1:] + drawn[:, 1:, :-1] + drawn[:, :-1, :-1]
    strength = np.where(random.random((n, 1, 1)) < 0.5, 1.5, 0.3)
    return (smooth * strength + 0.3 * random.normal(size=(n, side, side))).reshape(n, -1) + 5.0


@pytest.mark.spec("GEN-047")
def test_a_fit_of_textures_beats_the_normal_density_and_draws_images_whose_neighbors_vary_alike():
    X, held = np.split(textures(900, 3), [600])
    system = ConvSSRBM(
        n_maps=2, kernel=(2, 2), mode="valid", epochs=60, learning_rate=0.02, random_state=0, dtype="float64"
    ).fit(X)
    found = system.check_normalizable()
    assert found.normalizable and found.minimum_eigenvalue > 0
    normal = multivariate_normal(X.mean(0), np.cov(X.T)).logpdf(held).mean()
    assert system.log_prob(held).mean() > normal + 0.3  # strong and weak images are two kinds
    assert system.weights_.shape == system.spike_precision_.shape == (2, 1, 2, 2)
    assert system.maps_shape_ == (2, 2, 2)
    drawn = system.sample(2000, steps=100, random_state=0)
    alike = np.corrcoef(drawn.T).reshape(3, 3, 3, 3)
    near = np.mean([alike[i, j, i, j + 1] for i in range(3) for j in range(2)])
    far = np.mean([alike[i, 0, i, 2] for i in range(3)])
    assert near > 0.05 and near > far + 0.02  # six pairs of 2,000 draws: a deviation of 0.01
    assert 0.5 < (drawn.std(0) / X.std(0)).mean() < 2


@pytest.mark.spec("GEN-047")
def test_codes_shapes_and_what_is_given_again():
    X = textures(40)
    options = {"n_maps": 2, "kernel": (3, 3), "slab_dim": 2, "epochs": 1, "random_state": 0, "dtype": "float64"}
    system = ConvSSRBM(mode="valid", codes="slabs", **options).fit(X)
    assert system.transform(X).shape == (40, 4 * 4 * 2 * 2) and len(system.get_feature_names_out()) == 64
    spikes = ConvSSRBM(mode="valid", **options).fit(X)
    assert spikes.transform(X).shape == (40, 32)
    scaled = (X - X.mean(0)) / X.std(0)
    pull = scaled @ toeplitz(spikes.model_, "weight")
    wide = dense(spikes.model_).state()
    gain = 0.5 * pull**2 * np.exp(-wide["hidden_log_precision"]) + wide["hidden_mean"] * pull
    gain -= 0.5 * np.exp(wide["hidden_log_precision"]) * wide["hidden_mean"] ** 2
    logits = gain.reshape(40, -1, 2).sum(2) - 0.5 * scaled**2 @ toeplitz(spikes.model_, "phi") + wide["hidden_bias"]
    np.testing.assert_allclose(spikes.transform(X), expit(logits), rtol=1e-6)
    colors = ConvSSRBM(image_shape=(3, 4, 3), visible_bias="channel", standardize=False, **options).fit(X)
    assert colors.weights_.shape == (4, 3, 3, 3) and colors.sample(2, steps=2).shape == (2, 36)
    with pytest.raises(UserValueError, match="kernel must be"):
        ConvSSRBM(kernel=(3,)).fit(X)
