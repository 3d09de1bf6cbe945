"""Windows of Gaussian filters: rows that sum to 1, the identity, the definition written out, finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gnomon.nn.encoders import maps_of, rows_of
from gnomon.nn.glimpses import AttentiveGlimpse, FilterWindow, GaussianAttention, WithoutAttention, gaussian_filters

F64 = torch.float64
RANDOM = np.random.default_rng(0)


def tensor(*shape, scale=1.0):
    return torch.tensor(scale * RANDOM.normal(size=shape), dtype=F64)


def randomized(module):
    with torch.no_grad():
        for one in module.parameters():
            one.copy_(tensor(*one.shape, scale=0.3))
    return module


def by_hand(center, stride, variance, n, length):
    """The filters of one image as they are published: places count from 1, entries are divided by their sum."""
    filters = np.zeros((n, length))
    for i in range(1, n + 1):
        mean = center + (i - n / 2 - 0.5) * stride
        for a in range(1, length + 1):
            filters[i - 1, a - 1] = math.exp(-((a - mean) ** 2) / (2 * variance))
        filters[i - 1] /= filters[i - 1].sum()
    return filters


@pytest.mark.spec("GEN-091")
@pytest.mark.parametrize("size", [(7, 9), (6, 6)])
def test_a_window_is_what_was_published(size):
    """Center, stride, variance and gain of a state, filter by filter; images of several maps, one by one."""
    window, state = randomized(FilterWindow(size, 3, 4, dtype=F64)), tensor(5, 4)
    images, patches, aim = tensor(5, 2, *size), tensor(5, 2, 3, 3), window.aim(state)
    read, written = window.read(images, aim), window.write(patches, aim)
    for k in range(5):
        g_row, g_column, log_variance, log_stride, log_gain = window.numbers(state)[k].tolist()
        stride = (max(size) - 1) / 2 * math.exp(log_stride)
        rows = by_hand((size[0] + 1) / 2 * (g_row + 1), stride, math.exp(log_variance), 3, size[0])
        columns = by_hand((size[1] + 1) / 2 * (g_column + 1), stride, math.exp(log_variance), 3, size[1])
        np.testing.assert_allclose(aim.rows[k].detach(), rows, rtol=1e-12)
        np.testing.assert_allclose(aim.columns[k].detach(), columns, rtol=1e-12)
        gain = math.exp(log_gain)
        for m in range(2):
            np.testing.assert_allclose(read[k, m].detach(), gain * rows @ images[k, m].numpy() @ columns.T, rtol=1e-10)
            np.testing.assert_allclose(
                written[k, m].detach(), rows.T @ patches[k, m].numpy() @ columns / gain, rtol=1e-10
            )


@pytest.mark.spec("GEN-091")
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_rows_of_filters_sum_to_one_wherever_they_stand(dtype):
    """Inside, at the edge, far outside, as narrow and as wide as can be: finite, and so are the slopes."""
    one = torch.ones(1, dtype=dtype)
    for center in (0.0, 3.3, -50.0, 1e4, -1e6):
        for variance in (math.exp(-8), 1.0, math.exp(8)):
            for stride in (1e-3, 1.0, 1e4):
                given = [(value * one).requires_grad_() for value in (center, stride, variance)]
                filters = gaussian_filters(*given, 5, 8)
                torch.testing.assert_close(filters.sum(2), torch.ones(1, 5, dtype=dtype))
                slopes = torch.autograd.grad((filters * torch.arange(8)).sum(), given)
                assert all(one.isfinite().all() for one in (filters, *slopes))
    far = gaussian_filters(-50.0 * one, one, one, 3, 8)
    torch.testing.assert_close(far[0, :, 0], torch.ones(3, dtype=dtype), atol=1e-6, rtol=0)  # the edge
    window = FilterWindow((8, 8), 4, 2, dtype=dtype)
    with torch.no_grad():
        window.numbers.bias.copy_(torch.tensor([1e8, -1e8, 1e8, -1e8, 1e8]))
    aim = window.aim(torch.zeros(3, 2, dtype=dtype))
    assert all(part.isfinite().all() for part in (*aim, window.read(torch.ones(3, 1, 8, 8, dtype=dtype), aim)))


@pytest.mark.spec("GEN-091")
def test_filters_of_the_full_size_return_the_image():
    """N = 8 of 8, variance exp(-8), a state of 0: the identity both ways; a step of one pixel shifts it."""
    window, images = FilterWindow((8, 8), 8, 2, dtype=F64), tensor(3, 2, 8, 8)
    with torch.no_grad():
        window.numbers.bias.copy_(torch.tensor([0.0, 0.0, -20.0, 0.0, 0.0]))
    aim = window.aim(torch.zeros(3, 2, dtype=F64))
    assert torch.equal(window.read(images, aim), images) and torch.equal(window.write(images, aim), images)
    with torch.no_grad():
        window.numbers.bias[0] = 1 / 4.5  # (A + 1) / 2 pixels times it
        window.numbers.bias[4] = math.log(3.0)
    moved = window.aim(torch.zeros(3, 2, dtype=F64))
    torch.testing.assert_close(window.read(images, moved)[:, :, :7], 3 * images[:, :, 1:])
    torch.testing.assert_close(window.write(images, moved)[:, :, 1:7], images[:, :, :6] / 3)


@pytest.mark.spec("GEN-091")
@pytest.mark.parametrize("recipe", [GaussianAttention(2, 3), GaussianAttention(1, 1), WithoutAttention()])
def test_slopes_of_reading_and_writing_are_finite_differences(recipe):
    """By the image, the error, the state and every parameter, float64."""
    glimpse = randomized(recipe.build((3, 2, 2), 2, 1, 2, F64))
    state, x, error = tensor(2, 2), tensor(2, 24), tensor(2, 24)
    assert glimpse.read(x, error, state).shape == (2, glimpse.n_read) and glimpse.write(state).shape == (2, 12)

    def of(x, error, state, *parameters):
        named = dict(zip([name for name, _ in glimpse.named_parameters()], parameters, strict=True))
        call = torch.func.functional_call
        return call(Both(glimpse), {f"glimpse.{name}": one for name, one in named.items()}, (x, error, state))

    given = [one.requires_grad_() for one in (x, error, state, *(p.detach().clone() for p in glimpse.parameters()))]
    assert torch.autograd.gradcheck(of, given, atol=1e-7)


class Both(torch.nn.Module):
    """Reading and writing, as a layer."""

    def __init__(self, glimpse):
        super().__init__()
        self.glimpse = glimpse

    def forward(self, x, error, state):
        return self.glimpse.read(x, error, state), self.glimpse.write(state)


def test_pixels_stay_where_they_are_whatever_their_channels():
    """Full-size windows read images of channels, with several numbers for each cell, map by map."""
    glimpse = AttentiveGlimpse((4, 4, 3), 2, 2, (4, 4), 1, dtype=F64)
    with torch.no_grad():
        for window in (glimpse.reader, glimpse.writer):
            window.numbers.bias.copy_(torch.tensor([0.0, 0.0, -20.0, 0.0, 0.0]))
    x, error, state = tensor(2, 96), tensor(2, 96), torch.zeros(2, 1, dtype=F64)
    read = glimpse.read(x, error, state).reshape(2, 2, 6, 4, 4)
    pixels = x.reshape(2, 4, 4, 6)
    torch.testing.assert_close(read[:, 0], pixels.permute(0, 3, 1, 2))
    with torch.no_grad():
        glimpse.brush.bias.copy_(tensor(96))
    painted = glimpse.write(state)[0].reshape(2, 4, 4, 3)  # two images
    torch.testing.assert_close(painted, glimpse.brush.bias.detach().reshape(2, 3, 4, 4).permute(0, 2, 3, 1))
    images = tensor(3, 2 * 4 * 5 * 3)
    torch.testing.assert_close(rows_of(maps_of(images, (4, 5, 3)), 2), images)
