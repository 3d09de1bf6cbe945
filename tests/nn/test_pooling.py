"""Pooling against windows written out in NumPy, finite differences, a constant convolution, and limits."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from gnomon.errors import UserValueError
from gnomon.nn.activations import Sigmoid
from gnomon.nn.context import bind, training
from gnomon.nn.convolution import output_size
from gnomon.nn.pooling import (
    AdaptivePool,
    AveragePooling,
    GlobalPool,
    MaxPooling,
    SpatialPyramid,
    StochasticPool2d,
    StochasticPooling,
    pooling_bins,
)
from gnomon.numeric.noise import Noise

random = np.random.default_rng(0)
SETTINGS = [
    (2, 2, 0), (2, 1, 0), (3, 2, 1), (2, 3, 1), (3, 3, 0), (1, 2, 0),
    ((2, 3), (2, 3), 0), ((3, 1), (1, 2), (1, 0)), ((2, 4), (3, 1), (1, 2)),
]  # fmt: skip


def pair(x):
    return x if isinstance(x, tuple) else (x, x)


def windows(x, size, stride, padding):
    """(channels, rows, columns) of the windows' values inside the input, as lists."""
    size, stride, padding = pair(size), pair(stride), pair(padding)
    high, wide = (output_size(*one) for one in zip(x.shape[1:], size, stride, padding, strict=True))
    found = np.empty((x.shape[0], high, wide), object)
    for c, *place in itertools.product(range(x.shape[0]), range(high), range(wide)):
        rows, columns = (
            range(i * s - p, i * s - p + k) for i, k, s, p in zip(place, size, stride, padding, strict=True)
        )
        found[c, *place] = [
            x[c, a, b] for a, b in itertools.product(rows, columns) if 0 <= a < x.shape[1] and 0 <= b < x.shape[2]
        ]
    return found


@pytest.mark.spec("DLN-114", "BAY-08")
@pytest.mark.parametrize(("size", "stride", "padding"), SETTINGS)
def test_the_maximum_of_every_window(size, stride, padding):
    x = -1 - random.random((2, 7, 6))  # below 0, so that a padding of 0 would win
    found = MaxPooling().build(size, stride, padding)(torch.from_numpy(x)[None])[0].numpy()
    expected = np.vectorize(max, otypes=[float])(windows(x, size, stride, padding))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.spec("DLN-115", "BAY-09")
@pytest.mark.parametrize("count", [False, True])
@pytest.mark.parametrize(("size", "stride", "padding"), SETTINGS)
def test_the_mean_of_every_window(size, stride, padding, count):
    x = random.normal(size=(2, 7, 6))
    module = AveragePooling().build(size, stride, padding)
    if count:
        module = nn.AvgPool2d(size, stride, padding, count_include_pad=True)
    found = module(torch.from_numpy(x)[None])[0].numpy()
    values = windows(x, size, stride, padding)
    expected = np.vectorize(lambda v: sum(v) / (math.prod(pair(size)) if count else len(v)), otypes=[float])(values)
    np.testing.assert_allclose(found, expected, atol=1e-14)


@pytest.mark.spec("DLN-114", "DLN-115", "BAY-08", "BAY-09")
def test_pictures_of_the_rows():
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    assert MaxPooling().build(2, 1)(x)[0, 0].tolist() == [[5, 6, 7], [9, 10, 11], [13, 14, 15]]
    assert MaxPooling().build(2)(x)[0, 0].tolist() == [[5, 7], [13, 15]]
    assert AveragePooling().build(2)(x)[0, 0].tolist() == [[2.5, 4.5], [10.5, 12.5]]
    assert AveragePooling().build((1, 4))(x)[0, 0].tolist() == [[1.5], [5.5], [9.5], [13.5]]  # the step is the window
    assert MaxPooling().build((4, 2))(x)[0, 0].tolist() == [[13, 15]]


@pytest.mark.spec("DLN-115", "BAY-09")
@pytest.mark.parametrize(("size", "stride"), [(2, 2), (3, 1), (2, 3), ((2, 3), (1, 2)), ((4, 1), (2, 1))])
def test_an_average_is_a_depthwise_convolution_with_a_constant_kernel(size, stride):
    x = torch.from_numpy(random.normal(size=(2, 3, 7, 6)))
    kernel = torch.full((3, 1, *pair(size)), 1 / math.prod(pair(size)), dtype=torch.float64)
    torch.testing.assert_close(
        AveragePooling().build(size, stride)(x), functional.conv2d(x, kernel, stride=stride, groups=3)
    )


@pytest.mark.spec("DLN-114", "DLN-115", "BAY-08", "BAY-09")
@pytest.mark.parametrize("recipe", [MaxPooling(), AveragePooling()], ids=lambda r: r.short)
@pytest.mark.parametrize(("size", "stride", "padding"), SETTINGS)
def test_gradients_by_finite_differences(recipe, size, stride, padding):
    x = torch.from_numpy(random.permutation(42.0 * np.arange(2 * 6 * 5)).reshape(1, 2, 6, 5)).requires_grad_()
    assert torch.autograd.gradcheck(recipe.build(size, stride, padding), (x,))


@pytest.mark.spec("DLN-114", "BAY-08")
def test_the_gradient_goes_to_the_first_of_equal_places_and_indices_invert():
    x = torch.zeros(1, 1, 4, 4, requires_grad=True)
    MaxPooling().build(2)(x).sum().backward()
    assert x.grad[0, 0].tolist() == [[1, 0, 1, 0], [0, 0, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]]
    (slope,) = torch.autograd.grad(GlobalPool("max")(x).sum(), x)
    assert slope.flatten().tolist() == [1.0, *[0.0] * 15]
    y = torch.from_numpy(random.permutation(np.arange(1.0, 17)).reshape(1, 1, 4, 4))
    pooled, index = nn.MaxPool2d(2, return_indices=True)(y)
    back = nn.MaxUnpool2d(2)(pooled, index)
    assert sorted(back[back > 0].tolist()) == sorted(pooled.flatten().tolist())
    torch.testing.assert_close(back[back > 0], y[back > 0])


@pytest.mark.spec("DLN-114", "BAY-08")
@pytest.mark.parametrize("place", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_a_missing_value_goes_through(place):
    x = torch.ones(1, 1, 2, 2)
    x[0, 0, place[0], place[1]] = torch.nan
    for module in (MaxPooling().build(2), AveragePooling().build(2), GlobalPool("max"), GlobalPool("average")):
        assert module(x).isnan().all()


@pytest.mark.spec("DLN-114")
def test_the_maximum_commutes_with_increasing_activations():
    x, pool, unit = torch.from_numpy(random.normal(size=(2, 3, 6, 6))), MaxPooling().build(3, 2), Sigmoid().build()
    torch.testing.assert_close(pool(unit(x)), unit(pool(x)), rtol=0, atol=0)


@pytest.mark.spec("DLN-116")
@pytest.mark.parametrize("kind", ["average", "max"])
def test_global_pooling_is_one_window_and_does_not_notice_a_circular_shift(kind):
    x = torch.from_numpy(random.normal(size=(2, 3, 5, 7)))
    pool, whole = GlobalPool(kind), (nn.AvgPool2d if kind == "average" else nn.MaxPool2d)((5, 7))
    values = x.numpy().reshape(2, 3, 35)
    np.testing.assert_allclose(pool(x).numpy(), values.mean(2) if kind == "average" else values.max(2), atol=1e-14)
    torch.testing.assert_close(pool(x), whole(x)[:, :, 0, 0])
    torch.testing.assert_close(GlobalPool(kind, keep=True)(x), whole(x))
    torch.testing.assert_close(pool(x.roll((2, 3), (2, 3))), pool(x))
    assert torch.autograd.gradcheck(pool, (x.clone().requires_grad_(),))
    assert pool(x[:, :, 0]).shape == (2, 3)


@pytest.mark.spec("GEN-052")
@pytest.mark.parametrize(("size", "stride", "padding"), SETTINGS)
def test_prediction_weights_each_number_of_a_window_by_itself(size, stride, padding):
    x = random.random((2, 7, 6)) * (random.random((2, 7, 6)) < 0.7)
    found = StochasticPooling().build(size, stride, padding)(torch.from_numpy(x)[None])[0].numpy()
    mean = lambda v: sum(a * a for a in v) / sum(v) if sum(v) else 0.0  # noqa: E731
    np.testing.assert_allclose(found, np.vectorize(mean, otypes=[float])(windows(x, size, stride, padding)), atol=1e-14)


@pytest.mark.spec("GEN-052")
def test_training_draws_each_number_as_often_as_it_is_large():
    """a = (1, 3): 3 with probability 3/4, 2.5 in prediction; 20,000 draws within 4 standard errors, 1 in 16,000."""
    n = 20000
    x, layer = torch.tensor([1.0, 3.0], dtype=torch.float64).expand(n, 1, 1, 2), StochasticPool2d((1, 2))
    with training(Noise(0, "draws").rows(np.arange(n))):
        drawn = layer(x)
    assert layer(x[:1]).item() == 2.5
    assert set(drawn.unique().tolist()) == {1.0, 3.0}
    assert abs((drawn == 3).double().mean().item() - 0.75) < 4 * math.sqrt(0.75 * 0.25 / n)
    assert abs(drawn.mean().item() - 2.5) < 4 * math.sqrt(0.75 / n)


@pytest.mark.spec("GEN-052")
def test_several_windows_draw_for_themselves_and_never_a_zero_beside_others():
    """12 windows against their shares: chi-square of 20,000 rows; one alarm in 10^6."""
    n, one = 20000, torch.tensor([[0, 1, 2, 0], [0, 3, 0, 1], [4, 0, 1, 1], [0, 1, 2, 5]])
    x, layer = one.double().expand(n, 3, 4, 4), StochasticPool2d(2)
    with training(Noise(1, "draws").rows(np.arange(n))):
        first, again = layer(x), layer(x)
    assert not torch.equal(first, again)
    cells = one.reshape(2, 2, 2, 2).permute(0, 2, 1, 3).reshape(4, 4).tolist()
    for channel, (place, values) in itertools.product(range(3), enumerate(cells)):
        drawn = first[:, channel, place // 2, place % 2]
        shares = {a: values.count(a) * a / sum(values) for a in values if a}
        assert set(drawn.unique().tolist()) == set(shares)
        counts = {a: (drawn == a).sum().item() for a in shares}
        assert sum((counts[a] - n * p) ** 2 / (n * p) for a, p in shares.items()) < 40
    pairs = [first[:, channel, place // 2, place % 2].numpy() for channel in range(3) for place in range(4)]
    chance = np.corrcoef(pairs) - np.eye(12)
    assert np.abs(chance).max() < 6 / math.sqrt(n)  # windows and channels draw apart


@pytest.mark.spec("GEN-052")
def test_a_draw_sends_its_gradient_to_what_was_drawn_and_a_prediction_to_all():
    x = torch.tensor([[1.0, 3.0]], dtype=torch.float64).reshape(1, 1, 1, 2).requires_grad_()
    layer = StochasticPool2d((1, 2))
    with training(Noise(0, "draws")):
        drawn = layer(x)
    (slope,) = torch.autograd.grad(drawn.sum(), x)
    assert slope.flatten().tolist() == [float(drawn == a) for a in (1, 3)]
    y = torch.from_numpy(0.1 + random.random((1, 2, 4, 4))).requires_grad_()
    assert torch.autograd.gradcheck(layer, (y,))


@pytest.mark.spec("GEN-052")
def test_windows_of_zeros_give_0_and_numbers_below_0_are_refused():
    layer, zeros = StochasticPool2d(2), torch.zeros(1, 1, 2, 2, requires_grad=True)
    with training(Noise(0, "draws")):
        assert layer(zeros).item() == 0
    assert layer(zeros).item() == 0
    (slope,) = torch.autograd.grad(layer(zeros).sum(), zeros)
    assert slope.isfinite().all()
    for mode in (training(Noise(0, "draws")), None):
        with pytest.raises(UserValueError, match=r"activations must be at least 0 .*, got -0\.5"):
            if mode is None:
                layer(zeros - 0.5)
            else:
                with mode:
                    layer(zeros - 0.5)


@pytest.mark.spec("GEN-052")
def test_a_network_of_images_takes_it_from_its_slot():
    from gnomon import LeNet

    x = np.random.default_rng(0).random((40, 8, 8))
    y = np.arange(40) % 2
    x[y == 1, :4] *= 0.2
    fit = lambda: LeNet(pooling="stochastic", epochs=2, random_state=0).fit(x, y)  # noqa: E731
    net = fit()
    assert [type(one).__name__ for one in net.model_.features if "Pool" in type(one).__name__] == [
        "StochasticPool2d"
    ] * 2
    np.testing.assert_array_equal(net.predict_proba(x), net.predict_proba(x))  # prediction draws nothing
    np.testing.assert_array_equal(net.predict_proba(x), fit().predict_proba(x))
    assert bind(net.model_) >= 2
    with pytest.raises(UserValueError, match="relu"):
        LeNet(pooling="stochastic", activation="tanh", epochs=1, random_state=0).fit(x, y)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        pytest.param(
            lambda: MaxPooling().build(2, padding=2),
            "padding must be 0 to 1 for windows of 2, got 2",
            marks=pytest.mark.spec("DLN-114"),
        ),
        pytest.param(
            lambda: MaxPooling().build((2, 4), padding=(0, 3)),
            "padding must be 0 to 2 for windows of 2 by 4, got 3",
            marks=pytest.mark.spec("DLN-114"),
        ),
        (lambda: AveragePooling().build((2, 3, 4)), r"size must be an integer >= 1 or two of them \(rows, columns\)"),
        (lambda: AveragePooling().build(0), "size must be an integer >= 1"),
        (lambda: AveragePooling().build(2, 1.5), "stride must be an integer >= 1"),
        (lambda: GlobalPool("mean"), "got 'mean'"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_one_line(call, words):
    with pytest.raises(UserValueError, match=words):
        call()


SIZES = [((7, 6), (3, 4)), ((5, 8), (5, 8)), ((2, 3), (4, 5)), ((9, 9), (1, 1)), ((1, 1), (2, 3)), ((12, 8), (3, 4))]


@pytest.mark.spec("PRA-118")
@pytest.mark.parametrize("kind", ["average", "max"])
@pytest.mark.parametrize(("size", "output"), SIZES)
def test_regions_that_scale_with_the_input(size, output, kind):
    """torch's layers and the definition, outputs and gradients; overlapping bins, inputs smaller than the output."""
    x = torch.tensor(random.normal(size=(2, 3, *size)), requires_grad=True)
    found = AdaptivePool(output, kind)(x)
    peer = (nn.AdaptiveAvgPool2d if kind == "average" else nn.AdaptiveMaxPool2d)(output)
    expected = peer(x)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    factor = torch.tensor(random.normal(size=found.shape))
    mine, theirs = (torch.autograd.grad((one * factor).sum(), x)[0] for one in (found, expected))
    torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)
    for i, j in itertools.product(*map(range, output)):
        (a, b), (c, d) = (
            (math.floor(place * n / k), math.ceil((place + 1) * n / k))
            for place, n, k in zip((i, j), size, output, strict=True)
        )
        region = x.detach()[:, :, a:b, c:d].flatten(2)
        value = region.mean(2) if kind == "average" else region.amax(2)
        torch.testing.assert_close(found[:, :, i, j].detach(), value, rtol=1e-12, atol=1e-12)


@pytest.mark.spec("PRA-118")
def test_an_output_as_large_as_the_input_is_the_input():
    x = torch.tensor(random.normal(size=(2, 3, 4, 5)))
    assert torch.equal(AdaptivePool((4, 5))(x), x) and torch.equal(AdaptivePool((4, 5), "max")(x), x)
    assert pooling_bins(10, 3) == [(0, 4), (3, 7), (6, 10)] and pooling_bins(2, 3) == [(0, 1), (0, 2), (1, 2)]
    equal = torch.ones(1, 1, 4, 4, requires_grad=True)
    AdaptivePool(2, "max")(equal).sum().backward()
    assert equal.grad[0, 0].tolist() == [[1, 0, 1, 0], [0] * 4, [1, 0, 1, 0], [0] * 4]
    for make, said in (
        (lambda: AdaptivePool(2, "median"), "kind must be average or max"),
        (lambda: AdaptivePool(0), "output_size must be an integer >= 1"),
        (lambda: SpatialPyramid(()), "levels must be one or more sizes"),
    ):
        with pytest.raises(UserValueError, match=said):
            make()


@pytest.mark.parametrize("kind", ["average", "max"])
def test_a_spatial_pyramid_is_its_levels(kind):
    pool = functional.adaptive_avg_pool2d if kind == "average" else functional.adaptive_max_pool2d
    for size in ((7, 9), (3, 3)):
        x = torch.tensor(random.normal(size=(2, 3, *size)))
        found = SpatialPyramid((1, 2, 5), kind)(x)
        expected = torch.cat([pool(x, level).flatten(1) for level in (1, 2, 5)], 1)
        assert found.shape == (2, 3 * (1 + 4 + 25))
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
