"""Dropout: expectation and variance over masks, gradients, limits, the same mask for any split of a batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gnomon.errors import UserValueError
from gnomon.nn.context import bind, training
from gnomon.nn.dropout import Dropout, dropout_mask
from gnomon.numeric.noise import AddressReused, Noise, recording

NOISE = Noise(3, "fit/dropout")
MASKS = 4000


def thinned(layer: torch.nn.Module, x: torch.Tensor, noise: Noise = NOISE) -> torch.Tensor:
    """What a network makes of x in training."""
    with training(noise):
        y: torch.Tensor = layer(x)
    return y


@pytest.mark.spec("DLN-73", "NLP-16", "PRA-062")
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_mean_and_variance_over_masks(p: float) -> None:
    """x and x^2 p / (1 - p); 12 elements, 4,000 masks, 4.5 standard errors: a false alarm once in 6,000 runs."""
    x = torch.linspace(-2, 3, 12, dtype=torch.float64).reshape(3, 4)
    found = torch.stack([thinned(Dropout(p), x, NOISE.at(t)) for t in range(MASKS)])
    spread = x.abs() * np.sqrt(p / (1 - p))
    assert bool(((found.mean(0) - x).abs() <= 4.5 * spread / MASKS**0.5 + 1e-12).all())
    # a Bernoulli variable's (z - E)^2 has variance p (1 - p) (1 - 2 p)^2, in units of x^4 / (1 - p)^4
    error = x**2 * np.sqrt(p * (1 - p)) * abs(1 - 2 * p) / (1 - p) ** 2 / MASKS**0.5
    assert bool(((found.var(0) - spread**2).abs() <= 4.5 * error + 1e-3 * spread**2 + 1e-12).all())
    assert set(torch.unique((found / x).round(decimals=12)).tolist()) == {0.0, round(1 / (1 - p), 12)}


@pytest.mark.spec("NLP-16")
def test_a_linear_layer_of_thinned_inputs_is_on_average_the_layer() -> None:
    """W x by 4,000 masks of our layer, within 4.5 standard errors (a false alarm once in 50,000 runs)."""
    W = torch.tensor([[1.0, -2.0, 0.5, 3.0], [0.0, 1.0, 1.0, -1.0]], dtype=torch.float64)
    x = torch.tensor([[1.0, 2.0, -1.0, 0.5]], dtype=torch.float64)
    found = torch.stack([thinned(Dropout(0.3), x, NOISE.at(t)) @ W.T for t in range(MASKS)])[:, 0]
    error = ((W * x) ** 2 * (0.3 / 0.7)).sum(1).sqrt() / MASKS**0.5
    assert bool(((found.mean(0) - (x @ W.T)[0]).abs() < 4.5 * error).all())
    factors = dropout_mask(torch.ones(50, 40, dtype=torch.float64), 0.3, NOISE)
    assert set(factors.flatten().tolist()) == {0.0, 1 / 0.7}


@pytest.mark.spec("DLN-73")
def test_the_gradient_passes_the_same_mask() -> None:
    x = torch.ones(5, 6, dtype=torch.float64, requires_grad=True)
    y = thinned(Dropout(0.4), x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach()) and bool((x.grad == 0).any()) and bool((x.grad > 0).any())


@pytest.mark.spec("DLN-73", "NLP-16")
def test_limits() -> None:
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    assert thinned(Dropout(0.0), x) is x
    assert Dropout(0.7)(x) is x
    assert bool((thinned(Dropout(1.0), x) == 0).all())
    for p in (-0.1, 1.1, float("nan")):
        with pytest.raises(UserValueError, match=rf"dropout must be in \[0, 1\], got {p}"):
            Dropout(p)


@pytest.mark.spec("DLN-73")
def test_the_form_is_torchs() -> None:
    """torch.nn.Dropout in training: the same two factors, the same share dropped within 4.5 standard errors."""
    x, p = torch.ones(200, 100), 0.3
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = torch.nn.Dropout(p)(x)
    ours = thinned(Dropout(p), x)
    assert torch.equal(theirs.unique(), ours.unique())
    error = np.sqrt(p * (1 - p) / x.numel())
    assert abs((ours == 0).float().mean().item() - p) < 4.5 * error


def test_a_row_drops_alike_wherever_it_is_computed() -> None:
    """In one part or two, whatever the order of the rows, in both precisions."""
    x, positions = torch.ones(9, 7, dtype=torch.float64), np.arange(9)
    whole = thinned(Dropout(0.5), x, NOISE.at(5).rows(positions))
    parts = [thinned(Dropout(0.5), x[i:j], NOISE.at(5).rows(positions[i:j])) for i, j in ((0, 4), (4, 9), (9, 9))]
    assert torch.equal(torch.cat(parts), whole)
    single = thinned(Dropout(0.5), x.float(), NOISE.at(5).rows(positions))
    assert torch.equal(single.double(), whole)
    images = thinned(Dropout(0.5), torch.ones(3, 2, 4, 4), NOISE.rows(positions[:3]))
    assert torch.equal(images.flatten(1), thinned(Dropout(0.5), torch.ones(3, 32), NOISE.rows(positions[:3])))


def test_layers_draw_by_their_path_whatever_the_nesting() -> None:
    """The child of the path; two passes within one update are two draws, two contexts of one update the same."""
    inner = torch.nn.Sequential(torch.nn.Identity(), Dropout(0.5))
    net = torch.nn.Sequential(Dropout(0.5), inner)
    assert bind(net, "net.") == 2
    x = torch.ones(3, 50)
    with recording():
        y = thinned(net, x)
    expected = dropout_mask(x, 0.5, NOISE.child("net.0")) * dropout_mask(x, 0.5, NOISE.child("net.1.1"))
    assert torch.equal(y, expected)
    assert torch.equal(thinned(net, x), y) and not torch.equal(thinned(net, x, NOISE.at(1)), y)
    with recording(), training(NOISE):
        first, second = net(x), net(x)
    assert torch.equal(first, y) and not torch.equal(second, y)
    with recording(), pytest.raises(AddressReused):
        thinned(net, x)
        thinned(net, x)
    assert torch.equal(net(x), x)
