"""Depthwise, pointwise and separable convolutions against single channels, dense layers and full kernels."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from gnomon.errors import UserValueError
from gnomon.nn.activations import Maxout, ReLU
from gnomon.nn.batch_norm import BatchNorm
from gnomon.nn.convolution import Conv1d, Conv2d, convolution
from gnomon.nn.layers import dense
from gnomon.nn.separable import SeparableConv2d, separable_unit

F64 = torch.float64


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def filled(module):
    with torch.no_grad():
        for place, parameter in enumerate(module.parameters()):
            parameter.copy_(0.3 * normal(*parameter.shape, seed=place))
    return module


@pytest.mark.spec("BAY-10")
@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize("axes", [1, 2])
def test_a_depthwise_convolution_is_one_of_each_channel(axes, multiplier):
    channels, sizes = 3, (7, 6)[:axes]
    x = normal(2, channels, *sizes)
    layer = filled(convolution(channels, channels * multiplier, 3, groups=channels, axes=axes, dtype=F64))
    one = functional.conv1d if axes == 1 else functional.conv2d
    parts = []
    for c in range(channels):
        own = slice(c * multiplier, (c + 1) * multiplier)  # windows of a channel lie one behind the other
        parts.append(one(x[:, c : c + 1], layer.weight[own], layer.bias[own]))
    torch.testing.assert_close(layer(x), torch.cat(parts, 1))
    assert layer.weight.numel() == channels * multiplier * 3**axes
    # channels last, (K, C) or (K_H, K_W, C): the same numbers
    last = (Conv1d if axes == 1 else Conv2d)(channels, channels * multiplier, 3, groups=channels, dtype=F64)
    with torch.no_grad():
        last.weight.copy_(layer.weight.movedim((0, 1), (-1, -2)))
        last.bias.copy_(layer.bias)
    torch.testing.assert_close(last(x.movedim(1, -1)), layer(x).movedim(1, -1))


@pytest.mark.spec("BAY-10")
def test_a_depthwise_convolution_is_its_sum():
    x, layer = normal(2, 5, 6, 3), filled(Conv2d(3, 3, (2, 3), groups=3, bias=False, dtype=F64))
    by_hand = torch.zeros(2, 4, 4, 3, dtype=F64)
    for h in range(4):
        for w in range(4):
            for m in range(2):
                for j in range(3):
                    by_hand[:, h, w] += x[:, h + m, w + j] * layer.weight[m, j, 0]
    torch.testing.assert_close(layer(x), by_hand)


@pytest.mark.spec("BAY-11")
def test_a_pointwise_convolution_is_a_dense_layer_at_every_pixel():
    x, layer = normal(2, 4, 5, 3), filled(Conv2d(3, 6, 1, dtype=F64))
    twin = dense(3, 6, dtype=F64)
    with torch.no_grad():
        twin.weight.copy_(layer.weight[0, 0].T)
        twin.bias.copy_(layer.bias)
    torch.testing.assert_close(layer(x), twin(x), rtol=1e-14, atol=1e-14)
    torch.testing.assert_close(layer(x), x @ layer.weight[0, 0] + layer.bias, rtol=1e-14, atol=1e-14)
    first = filled(convolution(3, 6, 1, dtype=F64))
    expected = x @ first.weight[:, :, 0, 0].T + first.bias
    torch.testing.assert_close(first(x.movedim(-1, 1)).movedim(1, -1), expected, rtol=1e-14, atol=1e-14)


@pytest.mark.spec("BAY-12")
@pytest.mark.parametrize("multiplier", [1, 3])
@pytest.mark.parametrize("settings", [{}, {"stride": 2, "padding": 1}, {"dilation": 2, "padding": (2, 0)}])
def test_a_separable_convolution_is_one_with_the_product_for_a_kernel(settings, multiplier):
    x = normal(2, 3, 9, 8)
    layer = filled(SeparableConv2d(3, 5, (3, 2), multiplier=multiplier, bias=False, dtype=F64, **settings))
    torch.testing.assert_close(layer(x), functional.conv2d(x, layer.to_full_kernel(), **settings))
    if multiplier == 1:
        rank = [torch.linalg.matrix_rank(layer.to_full_kernel()[:, c].flatten(1)) for c in range(3)]
        assert rank == [1, 1, 1]  # in (output, place), for each channel that comes in


@pytest.mark.spec("BAY-12")
def test_what_a_separable_convolution_costs():
    layer = SeparableConv2d(32, 64, 3, bias=False)
    assert layer.parameter_count() == 2336 and layer.to_full_kernel().numel() == 18_432
    assert 2336 / 18_432 == pytest.approx(0.1267361, abs=1e-7) == pytest.approx(1 / 64 + 1 / 9, abs=1e-7)
    assert SeparableConv2d(32, 64, 3).parameter_count() == 2336 + 64
    with pytest.raises(UserValueError, match="multiplier must be at least 1"):
        SeparableConv2d(3, 4, 3, multiplier=0)


@pytest.mark.spec("BAY-12")
@pytest.mark.parametrize("norm", [True, False])
def test_the_block_of_mobilenet(norm):
    x, block = normal(2, 3, 7, 6), filled(separable_unit(3, 4, 3, unit=ReLU(), norm=norm, stride=2, dtype=F64))
    layers = iter(block)
    h = functional.conv2d(x, (first := next(layers)).weight, first.bias, 2, 1, groups=3)
    h = functional.relu(next(layers)(h) if norm else h)
    assert isinstance(next(layers), torch.nn.ReLU)
    h = functional.conv2d(h, (second := next(layers)).weight, second.bias)
    torch.testing.assert_close(block(x), functional.relu(next(layers)(h) if norm else h))
    assert (first.bias is None) == norm and sum(isinstance(one, BatchNorm) for one in block) == 2 * norm
    assert separable_unit(3, 4, 3, unit=Maxout(2))(torch.zeros(1, 3, 5, 5)).shape == (1, 4, 5, 5)
