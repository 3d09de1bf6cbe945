"""Initial weights: bounds and moments from the fans, parity with torch's, chi-square tests, addresses."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import scipy.stats
import torch
from torch import nn

from gnomon.errors import UserValueError
from gnomon.nn import initializers
from gnomon.nn.activations import GELU, SELU, LeakyReLU, PReLU, ReLU, Tanh
from gnomon.nn.initializers import (
    HeNormal,
    HeUniform,
    LeCunNormal,
    LeCunUniform,
    Normal,
    Orthogonal,
    Uniform,
    XavierNormal,
    XavierUniform,
    fans,
    initialize,
)  # fmt: skip
from gnomon.nn.layers import PHM, dense, quiet
from gnomon.numeric.noise import Noise, recording
from gnomon.recipes.recipe import shorts

NOISE = Noise(3, "fit/initial")
SPREADS = [
    pytest.param(Normal(), 0.01, marks=pytest.mark.spec("DLN-74"), id="normal"),
    pytest.param(Normal(0.5), 0.5, marks=pytest.mark.spec("DLN-74"), id="normal of spread 0.5"),
    pytest.param(Uniform(0.3), 0.3 / math.sqrt(3), marks=pytest.mark.spec("DLN-74"), id="uniform"),
    pytest.param(XavierUniform(), math.sqrt(2 / 700), marks=pytest.mark.spec("DLN-75"), id="xavier-uniform"),
    pytest.param(XavierUniform(2.0), 2 * math.sqrt(2 / 700), marks=pytest.mark.spec("DLN-75"), id="xavier gain 2"),
    pytest.param(XavierNormal(), math.sqrt(2 / 700), marks=pytest.mark.spec("DLN-75"), id="xavier-normal"),
    pytest.param(HeUniform(), 1.5 / math.sqrt(300), marks=pytest.mark.spec("DLN-75"), id="he-uniform"),
    pytest.param(HeNormal(), 1.5 / math.sqrt(300), marks=pytest.mark.spec("DLN-75"), id="he-normal"),
    pytest.param(HeNormal(2.0), 2 / math.sqrt(300), marks=pytest.mark.spec("DLN-75"), id="he of its own gain"),
    pytest.param(LeCunUniform(), 1 / math.sqrt(300), marks=pytest.mark.spec("DLN-75"), id="lecun-uniform"),
    pytest.param(LeCunNormal(), 1 / math.sqrt(300), marks=pytest.mark.spec("DLN-75"), id="lecun-normal"),
]  # fmt: skip


def drawn(recipe, shape=(400, 300), gain=1.5, dtype=torch.float64, noise=NOISE):
    weight = torch.empty(shape, dtype=dtype)
    recipe.fill(weight, noise, gain=gain)
    return weight.numpy()


@pytest.mark.parametrize(("recipe", "spread"), SPREADS)
def test_mean_and_variance_are_the_formulas(recipe, spread):
    """120,000 weights of 400 x 300 at gain 1.5.

    A z-test of the mean, and of the sum of squares against its exact mean and variance (kurtosis 3 or 1.8), each
    two-sided at 1e-6: a false alarm in 45,000 seeds for the 11 cases together.
    """
    w = drawn(recipe) / spread
    n, uniform = w.size, "Uniform" in type(recipe).__name__
    limit = scipy.stats.norm.isf(5e-7)
    assert abs(w.sum()) / math.sqrt(n) < limit
    assert abs((w**2).sum() - n) / math.sqrt(n * ((1.8 if uniform else 3.0) - 1)) < limit


@pytest.mark.parametrize(("recipe", "spread"), SPREADS)
def test_the_distribution_is_the_one_of_the_name(recipe, spread):
    """Chi-square over 50 equally likely cells; a false alarm in 90,000 seeds for the 11 cases together."""
    w = drawn(recipe).ravel() / spread
    uniform = "Uniform" in type(recipe).__name__
    share = scipy.stats.uniform(-math.sqrt(3), 2 * math.sqrt(3)).cdf(w) if uniform else scipy.stats.norm.cdf(w)
    assert scipy.stats.chisquare(np.histogram(share, 50, (0, 1))[0]).pvalue > 1e-6
    if uniform:
        assert np.abs(w).max() < math.sqrt(3)


@pytest.mark.spec("DLN-75")
def test_the_bound_of_four_inputs_and_two_outputs_is_one():
    w = drawn(XavierUniform(), (2, 4))
    assert XavierUniform().std(4, 2) ** 2 == pytest.approx(2 / 6) and np.abs(w).max() < 1
    # the numbers themselves: 2u - 1 of the address
    np.testing.assert_allclose(w, 2 * NOISE.uniform((2, 4), dtype=np.float64) - 1, rtol=1e-15)


@pytest.mark.spec("DLN-75")
@pytest.mark.parametrize("shape", [(8, 3), (8, 3, 5, 5), (6, 2, 7), (4, 1, 3, 3, 3)])
def test_fans_count_the_kernels_area_as_torch_does(shape):
    assert fans(shape) == nn.init._calculate_fan_in_and_fan_out(torch.empty(shape))
    assert fans((shape[1], shape[0], *shape[2:]), columns=True) == fans(shape)


def test_a_vector_has_no_fans():
    with pytest.raises(UserValueError, match=r"shape must be \(outputs, inputs, \.\.\.\) to have fans, got \(3,\)"):
        fans((3,))


TORCH = {
    XavierUniform(1.3): partial(nn.init.xavier_uniform_, gain=1.3),
    XavierNormal(1.3): partial(nn.init.xavier_normal_, gain=1.3),
    HeUniform(): nn.init.kaiming_uniform_,
    HeNormal(): nn.init.kaiming_normal_,
    Normal(0.2): partial(nn.init.normal_, std=0.2),
}


@pytest.mark.spec("DLN-74", "DLN-75")
@pytest.mark.parametrize(("recipe", "theirs"), TORCH.items(), ids=map(repr, TORCH))
@pytest.mark.parametrize("shape", [(80, 60), (30, 20, 3, 3)])
def test_torchs_initializers_have_the_same_distribution(recipe, theirs, shape):
    """Two-sample Kolmogorov-Smirnov; torch draws within a scope of its own. A false alarm in 100,000 seeds."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        other = theirs(torch.empty(shape, dtype=torch.float64)).numpy().ravel()
    ours = drawn(recipe, shape, gain=ReLU().gain).ravel()
    assert scipy.stats.ks_2samp(ours, other).pvalue > 1e-6
    if "Uniform" in type(recipe).__name__:
        assert np.abs(ours).max() == pytest.approx(np.abs(other).max(), rel=2e-2)


@pytest.mark.spec("DLN-75")
def test_he_takes_the_gain_of_the_activation():
    assert HeNormal().std(50, 7, ReLU().gain) == pytest.approx(math.sqrt(2 / 50), rel=1e-8)
    assert HeNormal().std(50, 7, LeakyReLU(0.5).gain) == pytest.approx(math.sqrt(2 / 1.25 / 50), rel=1e-8)


def depth(activation, initializer, noise=NOISE, layers=20, width=300, rows=300):
    """What comes out of a deep random net on normal rows; every pre-activation begins at variance 1."""
    parts = [dense(width, width, dtype=torch.float64) for _ in range(layers)]
    net = nn.Sequential(*(part for one in parts for part in (one, activation.build(width, torch.float64))))
    initialize(net, initializer, noise, gain={str(2 * k): activation.gain for k in range(1, layers)})
    with torch.no_grad():
        return net(noise.child("x").normal((rows, width), like=parts[0].weight.detach()))


@pytest.mark.spec("DLN-10")
def test_twenty_layers_of_selu_keep_mean_and_variance():
    """40 other seeds stayed within 0.011 and between 0.953 and 1.033."""
    out = depth(SELU(), LeCunNormal())
    assert abs(out.mean()) < 0.05 and 0.85 < out.var() < 1.15
    lost = depth(SELU(), Normal(0.01))
    assert lost.var() < 1e-6  # other initializers break it


@pytest.mark.spec("DLN-75")
@pytest.mark.parametrize("activation", [ReLU(), Tanh(), PReLU(), GELU()], ids=repr)
def test_the_gain_keeps_the_size_of_pre_activations_in_depth(activation):
    """Second moment after 8 layers times the squared gain, over 12 nets: 1; a gain off by a tenth gives 4.6."""
    found = [float(depth(activation, HeNormal(), NOISE.at(k), layers=8).square().mean()) for k in range(12)]
    assert np.mean(found) * activation.gain**2 == pytest.approx(1, abs=0.5)


@pytest.mark.spec("DLN-74")
def test_biases_are_zero_and_other_parameters_stay():
    net = nn.Sequential(quiet(nn.Linear, 4, 3), nn.PReLU(3), nn.BatchNorm1d(3), quiet(nn.Conv1d, 3, 2, 2))
    with torch.no_grad():
        net[0].bias.fill_(7)
    initialize(net, Normal(), NOISE)
    assert not net[0].bias.any() and not net[3].bias.any()
    assert net[1].weight.tolist() == [0.25] * 3 and net[2].weight.tolist() == [1.0] * 3
    assert net[0].weight.abs().max() < 0.07 and net[3].weight.all()


@pytest.mark.spec("DLN-74", "DLN-75")
def test_the_same_seed_gives_the_same_weights_whatever_else_there_is():
    def weights(seed, *more):
        net = nn.ModuleDict({"a": dense(4, 3), "b": dense(3, 2), **dict(more)})
        with recording():  # no address twice
            initialize(net, XavierUniform(), Noise(seed, "fit/initial"))
        return net["a"].weight, net["b"].weight

    (a, b), (c, d), (e, _) = weights(1), weights(1, ("c", dense(5, 5))), weights(2)
    assert torch.equal(a, c) and torch.equal(b, d) and not torch.equal(a, e)
    assert not torch.equal(a[:2, :3], b)


def test_single_precision_draws_the_same_numbers():
    np.testing.assert_allclose(drawn(HeNormal(), dtype=torch.float32), drawn(HeNormal()), atol=1e-5)


def test_gains_by_layer():
    net = nn.Sequential(dense(4, 3, dtype=torch.float64), nn.ReLU(), dense(3, 2, dtype=torch.float64))
    initialize(net, HeNormal(), NOISE, gain={"0": 5.0})
    expected = [NOISE.child(f"{k}.weight").normal(s, dtype=np.float64) for k, s in ((0, (3, 4)), (2, (2, 3)))]
    np.testing.assert_allclose(net[0].weight.detach(), 5 / math.sqrt(4) * expected[0], rtol=1e-14)
    np.testing.assert_allclose(net[2].weight.detach(), 1 / math.sqrt(3) * expected[1], rtol=1e-14)


def test_transposed_convolutions_have_their_fans_the_other_way_round():
    net = quiet(nn.ConvTranspose2d, 2, 30, 5, dtype=torch.float64)
    initialize(net, LeCunNormal(), NOISE)
    assert float(net.weight.detach().std()) == pytest.approx(1 / math.sqrt(2 * 25), rel=0.1)


@pytest.mark.spec("LIN-08")
def test_a_reduced_layer_gets_the_variance_of_the_dense_one():
    """Mean square over 40 x 60 entries and 30 draws within 15 % of 1 / 60; 20 other seeds were within 8 %."""
    found = []
    for draw in range(30):
        one = PHM(60, 40, 4, dtype=torch.float64)
        initialize(one, LeCunNormal(), NOISE.child(str(draw)))
        found.append(float(one.weight().detach().square().mean()))
    assert np.mean(found) == pytest.approx(1 / 60, rel=0.15)


@pytest.mark.parametrize("shape", [(30, 20), (20, 30), (12, 3, 2, 2)])
def test_orthogonal_weights(shape):
    w = drawn(Orthogonal(1.5), shape).reshape(shape[0], -1)
    np.testing.assert_allclose(np.linalg.svd(w, compute_uv=False), 1.5, rtol=1e-12)


def test_orthogonal_weights_are_uniform():
    """Angles of the first columns of 2,000 rotations of the plane by chi-square; a false alarm in 1,000,000 seeds."""
    angles = []
    for draw in range(2000):
        w = drawn(Orthogonal(), (2, 2), noise=NOISE.at(draw))
        angles.append(math.atan2(w[1, 0], w[0, 0]))
    assert scipy.stats.chisquare(np.histogram(angles, 20, (-math.pi, math.pi))[0]).pvalue > 1e-6


def test_every_recipe_has_a_short_name_and_keeps_the_weights_dtype():
    recipes = [getattr(initializers, name) for name in initializers.__all__ if name[0].isupper()]
    assert {r.short for r in recipes if r.short} == set(shorts(initializers.Initializer)) and len(recipes) == 11
    for recipe in recipes:
        if recipe.short:
            assert drawn(recipe(), (4, 3), dtype=torch.float32).dtype == np.float32


@pytest.mark.spec("DLN-74")
def test_a_spread_of_one_saturates_sigmoids():
    """100 inputs of variance 1 give pre-activations of variance 100: most slopes fall below a fifth of 1/4."""

    def slopes(spread):
        net = nn.Sequential(dense(100, 50, dtype=torch.float64), nn.Sigmoid())
        initialize(net, Normal(spread), NOISE)
        y = net(NOISE.child("x").normal((200, 100), like=net[0].weight.detach())).detach()
        return float((y * (1 - y) < 0.05).double().mean())

    assert slopes(1.0) > 0.6 and slopes(0.01) == 0


@pytest.mark.parametrize("recipe", [Normal(0.0), Uniform(-1.0), XavierUniform(math.inf), HeNormal(0.0)], ids=repr)
def test_fields_out_of_range_are_refused(recipe):
    with pytest.raises(UserValueError, match=r"\(0, inf\)"):
        drawn(recipe, (2, 2))
