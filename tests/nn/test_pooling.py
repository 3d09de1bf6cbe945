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
from gnomon.nn.convolution import output_size
from gnomon.nn.pooling import AveragePooling, GlobalPool, MaxPooling

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
