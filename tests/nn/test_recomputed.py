"""Gradient checkpointing: the gradients, draws and statistics of the plain pass, bit by bit, in less memory."""

from __future__ import annotations

import copy
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from gnomon.nn.activations import ReLU
from gnomon.nn.batch_norm import BatchNorm
from gnomon.nn.context import bind, recomputed, training
from gnomon.nn.dropout import Dropout
from gnomon.nn.layers import dense
from gnomon.nn.stages import DenseBlock
from gnomon.numeric.noise import Noise
from gnomon.systems.vision.densenet import DenseNet
from gnomon.training.group import Group

F64 = torch.float64


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def filled(module: nn.Module) -> nn.Module:
    with torch.no_grad():
        for place, value in enumerate(module.parameters()):
            value.copy_(normal(*value.shape, seed=place))
    bind(module)
    return module


def block(layers: int, recompute: bool, dtype: torch.dtype = F64) -> nn.Module:
    return filled(DenseBlock(3, layers, 2, unit=ReLU(), bottleneck=2, recompute=recompute, dtype=dtype))


class Slow(Group):
    """One process that takes the way of several."""

    def __init__(self) -> None:
        super().__init__(0, 1)
        self.size = 2

    def sum(self, tree: Any) -> Any:
        return tree


@pytest.mark.spec("DLN-134")
@pytest.mark.parametrize("group", [None, Slow()], ids=["alone", "several"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_dense_block_computed_again_is_the_block(group: Group | None, weighted: bool) -> None:
    """Two passes: outputs, gradients of input and weights, running statistics."""
    weight = torch.tensor([1.0, 0.5, 2.0, 0.0], dtype=F64) if weighted else None
    plain, again = block(4, False), block(4, True)
    for number in range(2):
        found = []
        for made in (plain, again):
            x = normal(4, 3, 5, 6, seed=number).requires_grad_()
            with training(Noise(0, "fit"), weight, group):
                y = made(x)
            (y * normal(*y.shape, seed=9)).sum().backward()  # outside of the pass, as fits do
            found.append([y.detach(), x.grad, *(p.grad for p in made.parameters())])
        assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
        assert all(torch.equal(a, b) for a, b in zip(plain.buffers(), again.buffers(), strict=True))
    x = normal(4, 3, 5, 6)
    assert torch.equal(plain(x), again(x)) and torch.equal(plain(x)[:, :3], x)


def test_draws_and_their_numbers_are_those_of_the_first_pass() -> None:
    """A layer that draws before, within and behind what is computed again."""
    network = filled(nn.Sequential(Dropout(0.5), dense(6, 6, dtype=F64), BatchNorm(6, dtype=F64)))
    found = []
    for form in (lambda f, *x: f(*x), recomputed):
        made, x = copy.deepcopy(network), normal(8, 6).requires_grad_()
        with training(Noise(0, "fit")):
            y = made(form(made, made(x)))
            y.square().sum().backward()
        found.append([y.detach(), x.grad, *(p.grad for p in made.parameters()), *made.buffers()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


class Live(TorchDispatchMode):
    """Bytes of the tensors that are alive, those that were made within."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        for one in found if isinstance(found, tuple | list) else [found]:
            storage = one.untyped_storage() if isinstance(one, torch.Tensor) else None
            if storage is not None and not hasattr(storage, "counted"):
                storage.counted = True
                self.now += storage.nbytes()
                self.most = max(self.most, self.now)
                weakref.finalize(storage, self.freed, storage.nbytes())
        return found

    def freed(self, size: int) -> None:
        self.now -= size


def kept(layers: int, recompute: bool) -> tuple[int, int]:
    """Bytes that are kept for the way back, and at most alive in both passes."""
    made, x = block(layers, recompute, torch.float64), normal(4, 3, 16, 16)
    with Live() as live, training(Noise(0, "fit")):
        y = made(x).square().sum()
        stays = live.now
        y.backward()
    return stays, live.most


@pytest.mark.spec("DLN-134")
def test_memory_grows_with_the_layers_and_not_with_their_square() -> None:
    plain, again = ([kept(n, recompute) for n in (8, 16, 32)] for recompute in (False, True))
    (a, b, c), (d, e, f) = ([one[0] for one in many] for many in (plain, again))
    assert c - b > 3 * (b - a) > 0  # quadratic: a difference of twice the layers is four times as large
    assert abs((f - e) - 2 * (e - d)) < 0.2 * (f - e)  # linear: twice as large
    assert f < c / 8 and again[2][1] < plain[2][1] / 3


@pytest.mark.spec("DLN-134")
def test_a_fit_does_not_notice() -> None:
    X, y = np.random.default_rng(0).random((20, 8, 8)), np.arange(20) % 2
    nets = [
        DenseNet(depths=(2, 2), growth=2, first=3, bottleneck=bottleneck, epochs=2, batch_size=8, random_state=0,
            recompute=recompute)
        for bottleneck in (0, 2) for recompute in (False, True)
    ]  # fmt: skip
    a, b, c, d = (net.fit(X, y).predict_proba(X) for net in nets)
    assert np.array_equal(a, b) and np.array_equal(c, d) and not np.array_equal(a, c)
