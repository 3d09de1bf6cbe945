"""Norms of single rows: torch's layers, one formula for all, limits in which one is another, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from gnomon.errors import UserValueError
from gnomon.nn.context import training
from gnomon.nn.norms import (
    BatchNormalization,
    GroupNorm,
    GroupNormalization,
    InstanceNormalization,
    LayerNormalization,
    NoNorm,
    Norm,
    local_response,
)
from gnomon.numeric.noise import Noise

RANDOM = np.random.default_rng(0)
F64 = torch.float64


def prepared(norm: Norm, features: int) -> Any:
    (layer,) = norm.build(features, F64)
    with torch.no_grad():
        layer.gain.copy_(torch.linspace(0.5, 1.5, features, dtype=F64))
        layer.shift.copy_(torch.linspace(-1, 1, features, dtype=F64))
    return layer


def torchs(kind: str, features: int, shape: tuple[int, ...]) -> Any:
    if kind == "layer":
        return nn.LayerNorm(features, dtype=F64) if len(shape) == 2 else nn.GroupNorm(1, features, dtype=F64)
    if kind == "group":
        return nn.GroupNorm(2, features, dtype=F64)
    return nn.InstanceNorm2d(features, affine=True, dtype=F64)


KINDS: dict[str, Norm] = {
    "layer": LayerNormalization(), "group": GroupNormalization(2), "instance": InstanceNormalization(),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(5, 4), (3, 4, 2, 5)])
def test_torchs_layers(kind: str, shape: tuple[int, ...]) -> None:
    """Outputs and gradients; the same in training, whatever the weights of the rows."""
    if kind == "instance" and len(shape) == 2:
        return
    ours, theirs = prepared(KINDS[kind], 4), torchs(kind, 4, shape)
    with torch.no_grad():
        theirs.weight.copy_(ours.gain)
        theirs.bias.copy_(ours.shift)
    x = torch.tensor(RANDOM.normal(3.0, 2.0, size=shape), requires_grad=True)
    other = x.detach().clone().requires_grad_()
    a, b = ours(x), theirs(other)
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    with training(Noise(0, "fit"), torch.rand(shape[0], generator=torch.Generator().manual_seed(0), dtype=F64)):
        assert torch.equal(ours(x), a)
    factor = torch.tensor(RANDOM.normal(size=shape))
    (a * factor).sum().backward()
    (b * factor).sum().backward()
    torch.testing.assert_close(x.grad, other.grad, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(ours.gain.grad, theirs.weight.grad, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(ours.shift.grad, theirs.bias.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_the_formula_written_out_and_finite_differences(groups: int) -> None:
    ours = prepared(GroupNormalization(groups, epsilon=0.3), 6)
    x = RANDOM.normal(size=(2, 6, 3))
    expected = np.empty_like(x)
    for n in range(2):
        for g in range(groups):
            mine = slice(g * 6 // groups, (g + 1) * 6 // groups)
            part = x[n, mine]
            spread = np.sqrt(np.mean((part - part.mean()) ** 2) + 0.3)
            expected[n, mine] = (part - part.mean()) / spread
    expected = expected * ours.gain.detach().numpy()[:, None] + ours.shift.detach().numpy()[:, None]
    np.testing.assert_allclose(ours(torch.tensor(x)).detach(), expected, rtol=1e-12, atol=1e-12)

    def call(x: torch.Tensor, gain: torch.Tensor, shift: torch.Tensor) -> Any:
        return torch.func.functional_call(ours, {"gain": gain, "shift": shift}, (x,))

    given = [value.detach().clone().requires_grad_() for value in (torch.tensor(x), ours.gain, ours.shift)]
    assert torch.autograd.gradcheck(call, tuple(given))


def test_a_row_is_normalized_by_itself_whatever_its_scale() -> None:
    layer = GroupNorm(4, 2, dtype=F64)
    x = torch.tensor(RANDOM.normal(size=(3, 4, 5)))
    torch.testing.assert_close(layer(7 * x + 2), layer(x), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(layer(x)[1:2], layer(x[1:2]), rtol=1e-12, atol=1e-12)
    assert layer(x[:0]).shape == (0, 4, 5)


def test_local_response_is_its_formula() -> None:
    x = RANDOM.normal(size=(2, 7, 3, 2))
    found = local_response(5, alpha=5e-1, beta=0.75, k=2.0)(torch.tensor(x)).numpy()
    for c in range(7):
        near = (x[:, max(0, c - 2) : c + 3] ** 2).sum(1)
        np.testing.assert_allclose(found[:, c], x[:, c] / (2 + 5e-1 / 5 * near) ** 0.75, rtol=1e-12)
    paper = functional.local_response_norm(torch.tensor(x), 5, 1e-4, 0.75, 2.0)
    assert torch.equal(local_response()(torch.tensor(x)), paper)
    value = torch.tensor(x[:1], requires_grad=True)
    assert torch.autograd.gradcheck(local_response(3, alpha=1.0), (value,))


def test_recipes() -> None:
    assert NoNorm().build(3) == []
    (batch,) = BatchNormalization(momentum=0.3, epsilon=0.1).build(3, F64)
    assert (batch.momentum, batch.epsilon, batch.gain.dtype) == (0.3, 0.1, F64)
    assert [one.needs_rows for one in (BatchNormalization(), *KINDS.values(), NoNorm())] == [True, *[False] * 4]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: GroupNormalization(3).build(4), "groups must divide the 4 features, got 3"),
        (lambda: GroupNormalization(0).build(4), "groups must be"),
        (lambda: LayerNormalization(0.0).build(4), "epsilon must be"),
        (lambda: InstanceNormalization().build(4)[0](torch.zeros(2, 4)), "must have at least 2 values each, got 1"),
        (lambda: LayerNormalization().build(1)[0](torch.zeros(2, 1)), "must have at least 2 values each, got 1"),
        (lambda: local_response(0), "size must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, said: str) -> None:
    with pytest.raises(UserValueError) as told:
        make()
    assert said in str(told.value) and "\n" not in str(told.value)
