"""Layers that enlarge maps, against torch's and against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from gnomon.errors import UserValueError
from gnomon.nn.upsampling import Unpool2d, transposed_convolution, transposed_size


def random(*shape, seed=0):
    return torch.as_tensor(np.random.default_rng(seed).normal(size=shape))


@pytest.mark.spec("GEN-108")
@pytest.mark.parametrize(
    ("k", "s", "p", "extra"), [(4, 2, 1, 0), (3, 2, 1, 1), (5, 3, 2, 2), (3, 1, 0, 0), (2, 2, 0, 1)]
)
def test_a_transposed_convolution_is_the_adjoint_of_the_convolution(k, s, p, extra):
    n = 5
    layer = transposed_convolution(3, 2, k, stride=s, padding=p, extra=extra, bias=False, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(random(3, 2, k, k))
    y = random(2, 3, n, n, seed=1)
    size = transposed_size(n, k, s, p, extra)
    out = layer(y)
    assert out.shape == (2, 2, size, size)
    x = random(2, 2, size, size, seed=2)
    forth = functional.conv2d(x, layer.weight, stride=s, padding=p)
    assert forth.shape == y.shape
    assert (forth * y).sum().item() == pytest.approx((x * out).sum().item(), rel=1e-12)
    # by the definition: every value spreads its kernel
    spread = torch.zeros(2, 2, size + 2 * p + k, size + 2 * p + k, dtype=torch.float64)
    for i in range(n):
        for j in range(n):
            window = torch.einsum("bi,iokl->bokl", y[:, :, i, j], layer.weight.detach())
            spread[:, :, i * s : i * s + k, j * s : j * s + k] += window
    assert torch.allclose(out, spread[:, :, p : p + size, p : p + size])


@pytest.mark.spec("GEN-108")
def test_uneven_cover_is_where_the_kernel_is_no_multiple_of_the_stride():
    for k, even in ((4, True), (3, False)):
        layer = transposed_convolution(1, 1, k, stride=2, bias=False)
        with torch.no_grad():
            layer.weight.fill_(1.0)
        inner = layer(torch.ones(1, 1, 8, 8))[0, 0, 4:-4, 4:-4]
        assert (len(set(inner.flatten().tolist())) == 1) == even


@pytest.mark.spec("GEN-109")
def test_unpooling_puts_values_at_the_top_left():
    out = Unpool2d(2)(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))[0, 0]
    assert out.tolist() == [[1, 0, 2, 0], [0, 0, 0, 0], [3, 0, 4, 0], [0, 0, 0, 0]]
    for k in (1, 2, 3):
        x = random(2, 3, 4, 5, seed=k).requires_grad_()
        out = Unpool2d(k)(x)
        if k > 1:
            positive = functional.max_pool2d(Unpool2d(k)(x.abs()), k)
            assert torch.equal(positive, x.abs())
            assert torch.equal(functional.max_pool2d(out, k), x.clamp_min(0))  # negative values are lost
        rows, columns = torch.arange(4)[:, None] * k, torch.arange(5)[None, :] * k
        index = (rows * 5 * k + columns).expand(2, 3, 4, 5)
        assert torch.equal(out, functional.max_unpool2d(x, index, k))
        upstream = random(*out.shape, seed=7)
        (gradient,) = torch.autograd.grad(out, x, upstream)
        assert torch.equal(gradient, upstream[..., ::k, ::k])


@pytest.mark.spec("GEN-109")
def test_unpooling_to_an_odd_size():
    x = random(1, 1, 3, 2).abs()
    out = Unpool2d(2)(x, (7, 5))
    assert out.shape == (1, 1, 7, 5) and torch.equal(functional.max_pool2d(out, 2), x)
    assert not out[..., 6, :].any() and not out[..., :, 4].any()
    for size in ((7, 4), (6, 5)):  # a rest on one axis alone
        assert torch.equal(Unpool2d(2)(x, size), out[..., : size[0], : size[1]])
    with pytest.raises(UserValueError, match="size must pool to 3 x 2, got 9 x 5"):
        Unpool2d(2)(x, (9, 5))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Unpool2d(0), "k must be at least 1, got 0"),
        (lambda: transposed_size(0, 3), "n must be at least 1, got 0"),
        (lambda: transposed_size(3, 3, 2, 0, 2), "extra must be below the stride 2, got 2"),
        (lambda: transposed_size(1, 2, 1, 3), "p must leave at least one place"),
    ],
)
def test_sizes_that_are_not_possible(make, told):
    with pytest.raises(UserValueError, match=told):
        make()
