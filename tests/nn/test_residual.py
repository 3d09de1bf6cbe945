"""Residual connections, stochastic depth, blocks side by side, and norms folded into the layers before them."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from gnomon.errors import UserError, UserValueError
from gnomon.nn.activations import ReLU
from gnomon.nn.batch_norm import BatchNorm, fold
from gnomon.nn.context import bind, training
from gnomon.nn.convolution import convolution
from gnomon.nn.dropout import StochasticDepth
from gnomon.nn.layers import dense
from gnomon.nn.residual import Residual, basic_block, bottleneck_block, pre_activation_block, shortcut_for
from gnomon.nn.stages import DenseBlock, conv_norm
from gnomon.numeric.noise import Noise

F64 = torch.float64


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def filled(module, std=0.3):
    with torch.no_grad():
        for place, parameter in enumerate(module.parameters()):
            parameter.copy_(std * normal(*parameter.shape, seed=place))
    return module


class Small(nn.Module):
    """x times a small factor."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return self.factor * x.sin()


@pytest.mark.spec("NLP-29")
def test_a_connection_adds_its_input():
    x = normal(4, 6)
    assert torch.equal(Residual(Small(0.0))(x), x)
    torch.testing.assert_close(Residual(Small(0.7))(x), x + 0.7 * x.sin())
    layer = filled(dense(6, 3, dtype=F64))
    torch.testing.assert_close(Residual(layer, layer)(x), 2 * layer(x))
    with pytest.raises(
        UserValueError, match=r"must give rows of shape \(6,\), got \(3,\).*give a shortcut that projects"
    ):
        Residual(layer)(x)
    with pytest.raises(UserValueError, match="must give rows of shape"):  # nothing is broadcast
        Residual(dense(6, 1, dtype=F64))(x)


@pytest.mark.spec("NLP-29")
def test_gradients_pass_a_hundred_connections():
    x = normal(1, 5).requires_grad_()
    deep = nn.Sequential(*(Residual(Small(1e-4)) for _ in range(100)))
    (slope,) = torch.autograd.grad(deep(x).sum(), x)
    assert (slope - 1).abs().max() < 0.0101  # (1 + 1e-4)^100
    (bare,) = torch.autograd.grad(nn.Sequential(*(Small(1e-4) for _ in range(100)))(x).sum(), x)
    assert bare.abs().max() < 1e-300


@pytest.mark.spec("DLN-131")
def test_a_residual_block_is_its_formula():
    x = normal(3, 4, 6, 7)
    for stride, channels in ((1, 4), (2, 4), (1, 5), (2, 5)):
        block = filled(basic_block(4, channels, unit=ReLU(), stride=stride, bias=True, project_norm=False, dtype=F64))
        first, second = block.block
        change = functional.relu(first[1](functional.conv2d(x, first[0].weight, first[0].bias, stride, 1)))
        change = second[1](functional.conv2d(change, second[0].weight, second[0].bias, 1, 1))
        kept = x
        if block.shortcut is not None:
            kept = functional.conv2d(x, block.shortcut.weight, block.shortcut.bias, stride)
        assert (block.shortcut is None) == (stride == 1 and channels == 4)
        torch.testing.assert_close(block(x), functional.relu(change + kept))
        assert block(x).shape == (3, channels, 6 // stride, -(-7 // stride))
        assert first[0].out_channels == second[0].out_channels == channels


@pytest.mark.spec("DLN-131")
def test_a_block_whose_last_gain_is_zero_holds_the_shallower_network():
    x = normal(3, 4, 6, 7).requires_grad_()
    for make, settings in (
        (basic_block, {}), (bottleneck_block, {"inner": 2}), (pre_activation_block, {}),
    ):  # fmt: skip
        block = filled(make(4, 4, unit=ReLU(), dtype=F64, **settings))
        if make is pre_activation_block:
            nn.init.zeros_(block.block[-1].weight)
            expected = x
        else:
            nn.init.zeros_(block.block[-1][-1].gain)
            nn.init.zeros_(block.block[-1][-1].shift)
            expected = functional.relu(x)
        assert torch.equal(block(x), expected)
        (slope,) = torch.autograd.grad(block(x).sum(), x)
        assert torch.equal(slope, torch.ones_like(x) if make is pre_activation_block else (x > 0).double())


@pytest.mark.spec("DLN-131")
def test_shapes_that_do_not_fit_need_a_projection():
    block = Residual(conv_norm(4, 8, 3), shortcut_for(4, 4))
    with pytest.raises(UserValueError, match="projects the input"):
        block(torch.zeros(1, 4, 5, 5))
    norms = [sum(isinstance(one, BatchNorm) for one in basic_block(4, 8, unit=ReLU(), project_norm=p).modules())
             for p in (False, True)]  # fmt: skip
    assert norms == [2, 3]


@pytest.mark.spec("DLN-133")
def test_groups_of_a_bottleneck_are_branches():
    x = normal(2, 6, 5, 4)
    block = filled(bottleneck_block(6, 6, unit=ReLU(), inner=6, groups=3, dtype=F64))
    reduce, grouped, widen = block.block
    inner = reduce(x)
    total = torch.zeros_like(x)
    for g in range(3):
        part = slice(2 * g, 2 * g + 2)
        h = functional.conv2d(inner[:, part], grouped[0].weight[part], padding=1)
        norm = grouped[1]
        scale = (norm.gain / (norm.running_var + 1e-5).sqrt())[part][:, None, None]
        h = functional.relu((h - norm.running_mean[part][:, None, None]) * scale + norm.shift[part][:, None, None])
        total = total + functional.conv2d(h, widen[0].weight[:, part])
    torch.testing.assert_close(block(x), functional.relu(x + widen[1](total)))
    one = filled(bottleneck_block(6, 6, unit=ReLU(), inner=6, groups=1, dtype=F64))
    whole = torch.zeros(6, 6, 3, 3, dtype=F64)
    for g in range(3):
        whole[2 * g : 2 * g + 2, 2 * g : 2 * g + 2] = grouped[0].weight.detach()[2 * g : 2 * g + 2]
    state = block.state_dict()
    state["block.1.0.weight"] = whole
    one.load_state_dict(state)
    torch.testing.assert_close(one(x), block(x))
    with pytest.raises(UserValueError, match="groups must divide the 6 inputs, got 4"):
        bottleneck_block(6, 6, unit=ReLU(), inner=6, groups=4)


def test_stochastic_depth_leaves_rows_out_as_often_as_said():
    layer, x = StochasticDepth(0.3), torch.ones(20_000, 2, 3)
    bind(layer)
    with training(Noise(0, "fit")):
        kept, again = layer(x), layer(x)
    rows = kept.flatten(1)
    assert bool((rows == rows[:, :1]).all()) and not torch.equal(kept, again)
    assert set(rows[:, 0].tolist()) == {0.0, rows.max().item()}
    assert abs((rows[:, 0] == 0).double().mean() - 0.3) < 5 * (0.21 / 20_000) ** 0.5  # 5 deviations
    assert rows.max().item() == pytest.approx(1 / 0.7)
    assert torch.equal(layer(x), x)
    block = Residual(Small(1.0), drop=0.5)
    bind(block)
    y = torch.full((64, 3), 0.5)
    with training(Noise(0, "fit")):
        out = block(y)
    assert sorted(set((out - y)[:, 0].tolist())) == pytest.approx([0, 2 * np.sin(0.5)])
    for wrong in (-0.1, 1.5):
        with pytest.raises(UserValueError, match=r"p must be in \[0, 1\]"):
            StochasticDepth(wrong)


def test_a_dense_block_keeps_its_input():
    block, x = filled(DenseBlock(3, 2, 4, unit=ReLU(), dtype=F64)), normal(2, 3, 5, 4)
    out = block(x)
    assert torch.equal(out[:, :3], x) and out.shape == (2, 11, 5, 4) and block.outputs == 11
    second = block.layers[1](out[:, :7])
    torch.testing.assert_close(out[:, 7:], second)


@pytest.mark.spec("DLN-130")
@pytest.mark.parametrize("bias", [True, False])
def test_a_norm_of_maps_is_that_of_rows_and_folds_into_its_convolution(bias):
    x, norm, rows = normal(4, 3, 5, 6), filled(BatchNorm(3, dtype=F64)), filled(BatchNorm(3, dtype=F64))
    twin = nn.BatchNorm2d(3, dtype=F64)
    twin.load_state_dict(
        {"weight": norm.gain, "bias": norm.shift, "running_mean": norm.running_mean, "running_var": norm.running_var},
        strict=False,
    )
    for _ in range(2):
        with training(Noise(0, "fit")):
            found, flat = norm(x), rows(x.movedim(1, -1).reshape(-1, 3))
        torch.testing.assert_close(found, flat.reshape(4, 5, 6, 3).movedim(-1, 1))
        torch.testing.assert_close(found, twin(x))
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)
    by_hand = (x - mean[:, None, None]) / (variance + 1e-5).sqrt()[:, None, None]
    torch.testing.assert_close(found, by_hand * norm.gain[:, None, None] + norm.shift[:, None, None])
    twin.eval()
    torch.testing.assert_close(norm(x), twin(x))
    layer = filled(convolution(3, 3, 3, stride=2, padding=1, bias=bias, dtype=F64))
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    torch.testing.assert_close(fold(layer, norm)(x), norm(layer(x)))
    assert all(torch.equal(value, layer.state_dict()[name]) for name, value in before.items())
    flat = filled(dense(3, 3, bias=bias, dtype=F64))
    torch.testing.assert_close(fold(flat, norm)(x[:, :, 0, 0]), norm(flat(x[:, :, 0, 0])))


def test_what_cannot_be_folded():
    for layer, said in ((nn.ReLU(), "dense or a convolutional layer"), (dense(3, 4), "must have 4 features")):
        with pytest.raises(UserError, match=said):
            fold(layer, BatchNorm(3))
