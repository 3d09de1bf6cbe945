"""Tiled and locally connected convolution: written out place by place, their limits, gradients, multiplications."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from gnomon.errors import UserValueError
from gnomon.nn.convolution import convolution, receptive_field
from gnomon.nn.initializers import HeNormal, Orthogonal, initialize
from gnomon.nn.unshared import LocallyConnected2d, PlacedKernels, TiledConv2d
from gnomon.numeric.noise import Noise

RANDOM = np.random.default_rng(0)
F64 = torch.float64


def filled(layer: PlacedKernels) -> PlacedKernels:
    for value in layer.parameters():
        value.data.copy_(torch.tensor(RANDOM.normal(size=value.shape)))
    return layer


def by_places(layer: PlacedKernels, x: torch.Tensor) -> torch.Tensor:
    """Z_ijk written out: the kernel of an output place is that of its place modulo the grid."""
    (down, right), (p, q), (b, c) = layer.stride, layer.padding, layer.dilation
    x = functional.pad(x, (q, q, p, p))
    rows, columns = layer.output_sizes(x.shape[2] - 2 * p, x.shape[3] - 2 * q)
    found = []
    for j, k in itertools.product(range(rows), range(columns)):
        kernel = layer.weight[j % layer.grid[0], k % layer.grid[1]]
        high, wide = kernel.shape[2:]
        window = x[:, :, j * down : j * down + b * (high - 1) + 1 : b, k * right : k * right + c * (wide - 1) + 1 : c]
        value = (window[:, None] * kernel).sum((2, 3, 4))
        found.append(value if layer.bias is None else value + layer.bias[j % layer.grid[0], k % layer.grid[1]])
    return torch.stack(found, -1).reshape(len(x), -1, rows, columns)


FORMS: list[dict[str, Any]] = [
    {}, {"padding": 1}, {"stride": 2}, {"stride": (2, 1), "padding": (0, 2)}, {"dilation": 2, "padding": 2},
    {"bias": False, "padding": 1},
]  # fmt: skip


@pytest.mark.spec("PRA-221")
@pytest.mark.parametrize("tiles", [1, 2, 3, (2, 3), 9])
@pytest.mark.parametrize("settings", FORMS)
def test_tiles_cycle_over_the_places_of_the_output(settings: dict[str, Any], tiles: Any) -> None:
    """Odd and even sides; outputs, and gradients of input and weights, which sum over places of one phase alone."""
    layer = filled(TiledConv2d(2, 3, 3, tiles, dtype=F64, **settings))
    for shape in ((7, 6), (5, 8)):
        x = torch.tensor(RANDOM.normal(size=(2, 2, *shape)), requires_grad=True)
        found, expected = layer(x), by_places(layer, x)
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-12)
        factor = torch.tensor(RANDOM.normal(size=found.shape))
        wanted = [x, *layer.parameters()]
        for a, b in zip(
            torch.autograd.grad((found * factor).sum(), wanted),
            torch.autograd.grad((expected * factor).sum(), wanted), strict=True,
        ):  # fmt: skip
            torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-12)


@pytest.mark.spec("PRA-221")
def test_a_line_by_hand() -> None:
    layer = TiledConv2d(1, 1, (1, 2), (1, 2), bias=False, dtype=F64)
    layer.weight.data.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=F64).reshape(1, 2, 1, 1, 1, 2))
    assert layer(torch.arange(1.0, 6, dtype=F64).reshape(1, 1, 1, 5)).flatten().tolist() == [1, 3, 3, 5]


@pytest.mark.spec("PRA-221")
@pytest.mark.parametrize("settings", FORMS)
def test_limits(settings: dict[str, Any]) -> None:
    """Equal tiles are an ordinary convolution; as many as places are a locally connected layer."""
    x = torch.tensor(RANDOM.normal(size=(2, 2, 7, 8)))
    layer = filled(TiledConv2d(2, 3, 3, (2, 3), dtype=F64, **settings))
    for value in layer.parameters():
        value.data.copy_(value.data[:1, :1].expand_as(value))
    bias = None if layer.bias is None else layer.bias[0, 0]
    usual = functional.conv2d(x, layer.weight[0, 0], bias, layer.stride, layer.padding, layer.dilation)
    torch.testing.assert_close(layer(x), usual, rtol=1e-12, atol=1e-12)
    local = filled(LocallyConnected2d(2, 3, 3, (7, 8), dtype=F64, **settings))
    unshared = TiledConv2d(2, 3, 3, local.grid, dtype=F64, **settings)
    unshared.load_state_dict(local.state_dict())
    assert local.grid == local.output_sizes(7, 8)
    torch.testing.assert_close(unshared(x), local(x), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(local(x), by_places(local, x), rtol=1e-12, atol=1e-12)


@pytest.mark.spec("PRA-221")
def test_parameters_and_multiplications() -> None:
    """t^2 times the parameters, the same number of multiplications."""
    x, counts = torch.zeros(1, 2, 8, 8), []
    tiled = TiledConv2d(2, 3, 3, 2, padding=1, bias=False)
    assert sum(p.numel() for p in tiled.parameters()) == 2**2 * 3 * 2 * 3**2
    for call in (lambda: functional.conv2d(x, tiled.weight[0, 0], padding=1), lambda: tiled(x)):
        with FlopCounterMode(display=False) as counter:
            call()
        counts.append(counter.get_total_flops())
    assert counts[0] == counts[1] > 0


@pytest.mark.spec("PRA-221")
def test_it_moves_with_its_input_by_multiples_of_its_tiles_alone() -> None:
    layer = filled(TiledConv2d(1, 2, 3, 2, bias=False, dtype=F64))
    x = torch.zeros(1, 1, 16, 16, dtype=F64)
    x[:, :, 5:9, 5:9] = torch.tensor(RANDOM.normal(size=(4, 4)))
    for by, same in ((1, False), (2, True), (3, False), (4, True)):
        moved = layer(x.roll((by, by), (2, 3)))
        assert torch.allclose(moved, layer(x).roll((by, by), (2, 3)), atol=1e-12) is same


def test_gradients_by_finite_differences() -> None:
    for layer in (TiledConv2d(1, 2, 2, (2, 1), stride=2, padding=1, dtype=F64),
                  LocallyConnected2d(1, 2, 2, (3, 4), stride=2, padding=1, dtype=F64)):  # fmt: skip
        names = [name for name, _ in layer.named_parameters()]

        def call(x: torch.Tensor, *values: torch.Tensor, layer: Any = layer, names: Any = names) -> Any:
            return torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (x,))

        values = [torch.tensor(RANDOM.normal(size=p.shape), requires_grad=True) for p in layer.parameters()]
        x = torch.tensor(RANDOM.normal(size=(2, 1, 3, 4)), requires_grad=True)
        assert torch.autograd.gradcheck(call, (x, *values))


def test_initial_weights_are_those_of_a_kernel_by_itself() -> None:
    layer = TiledConv2d(40, 8, 3, 3)
    initialize(layer, HeNormal(), Noise(0, "test"))
    spread = layer.weight.detach().std().item()
    # 25,920 numbers: 5 standard errors of a standard deviation, false alarms below one in a million
    assert spread == pytest.approx(np.sqrt(1 / 360), rel=5 / np.sqrt(2 * layer.weight.numel()))
    assert layer.bias is not None and (layer.bias == 0).all()
    initialize(layer, Orthogonal(), Noise(0, "test"))
    for kernel in layer.kernels:
        flat = kernel.flatten(1)
        torch.testing.assert_close(flat @ flat.T, torch.eye(8), rtol=0, atol=1e-5)
    assert not torch.equal(layer.kernels[0], layer.kernels[1])


def test_windows_and_refusals() -> None:
    assert receptive_field([TiledConv2d(1, 1, 3, 2, stride=2), convolution(1, 1, 3)]).size == 7
    for make, said in (
        (lambda: TiledConv2d(1, 1, 3, 0), "tiles must be an integer >= 1"),
        (lambda: TiledConv2d(1, 1, 0, 2), "kernel must be an integer >= 1"),
        (lambda: LocallyConnected2d(1, 1, 5, (3, 8)), "a window of 5 does not fit into 3 values"),
        (lambda: LocallyConnected2d(1, 1, 3, (4, 8))(torch.zeros(1, 1, 4, 7)), "must be 4 x 8, got 4 x 7"),
    ):
        with pytest.raises(UserValueError) as told:
            make()
        assert said in str(told.value) and "\n" not in str(told.value)
