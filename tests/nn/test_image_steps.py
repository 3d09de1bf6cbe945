"""Local contrast normalization as a layer, and steps of preprocessing in front of a network."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from gnomon.data.image_contrast import GCN, LCN
from gnomon.data.image_steps import PixelMean
from gnomon.data.sphering import Whitening
from gnomon.errors import UserError
from gnomon.nn.image_steps import ImageStepLayer, LCNLayer
from gnomon.nn.norms import NoNorm
from gnomon.systems.vision._layers import Layer, layers_of
from gnomon.systems.vision.cnn import CNNModel


def maps(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


@pytest.mark.spec("PRA-126")
@pytest.mark.parametrize("border", ["reflect", "inside"])
@pytest.mark.parametrize("options", [{}, {"per_channel": False}, {"sigma": 1.3}, {"lam": 0.0, "eps": 0.7}])
def test_the_layer_is_the_step_on_the_same_array(options, border):
    x = maps(3, 4, 7, 6)
    step = LCN((3, 5), border=border, **options).transform(x.movedim(1, -1).numpy())
    layer = LCNLayer((3, 5), border=border, **options)(x)
    assert np.allclose(layer.movedim(1, -1).numpy(), step, rtol=1e-10, atol=1e-10)


@pytest.mark.spec("PRA-126")
@pytest.mark.parametrize("options", [{"lam": 0.1}, {"per_channel": False}, {"sigma": 0.9}, {"lam": 0.0, "eps": 0.6}])
def test_gradients_by_finite_differences(options):
    x = maps(1, 2, 3, 4).requires_grad_()
    layer = LCNLayer(3, **options)
    if options.get("eps"):
        variance = maps(2, 2, 4, 5)  # the branch of eps is taken by some pixels and not by others
        found = LCNLayer(3, lam=0.0)(variance) == LCNLayer(3, lam=0.0, eps=0.6)(variance)
        assert found.any() and not found.all()
    assert torch.autograd.gradcheck(layer, (x,), eps=1e-6, atol=1e-6)


@pytest.mark.spec("PRA-126")
def test_gradients_are_finite_where_nothing_varies():
    for lam, eps in ((0.0, 1e-8), (0.0, 0.5), (1e-4, 0.0)):
        for dtype in (torch.float32, torch.float64):
            flat = torch.full((1, 2, 5, 5), 0.3, dtype=dtype, requires_grad=True)
            LCNLayer(3, lam=lam, eps=eps)(flat).square().sum().backward()
            assert flat.grad is not None and torch.isfinite(flat.grad).all()
    x = torch.zeros(1, 1, 4, 6, dtype=torch.float64)
    x[..., 3:] = 1.0  # the branch of eps: a linear map of x, whose gradient does not see the variance
    x.requires_grad_()
    layer = LCNLayer(3, lam=0.0, eps=10.0)
    (gradient,) = torch.autograd.grad(layer(x)[0, 0, 1, 3], x)
    wanted = torch.zeros(4, 6, dtype=torch.float64)
    wanted[:3, 2:5] = -1 / 90
    wanted[1, 3] += 0.1
    assert torch.allclose(gradient[0, 0], wanted, atol=1e-12)
    with pytest.raises(UserError, match="constant"):
        LCNLayer(3, lam=0.0, eps=0.0)(torch.zeros(1, 1, 4, 4))
    for wrong in (2, (3, 4)):
        with pytest.raises(UserError, match="odd numbers"):
            LCNLayer(wrong)
    with pytest.raises(UserError, match="lam must be"):
        LCNLayer(3, lam=-1.0)


@pytest.mark.spec("PRA-126")
def test_the_layer_stands_in_the_text_of_a_network():
    assert layers_of("8c3-lcn5-p2")[1] == Layer("contrast", 0, 5)
    network = CNNModel((8, 8, 1), 3, layers="8c3-lcn5-p2-16", norm=NoNorm())
    plain = CNNModel((8, 8, 1), 3, layers="8c3-p2-16", norm=NoNorm())
    assert network.n_parameters == plain.n_parameters and set(network.state()) == set(plain.state())
    x = maps(4, 8, 8, 1).float()
    behind = network.feature_maps(x, [0, 1])
    assert torch.equal(LCNLayer(5)(behind[0]), behind[1])
    for text, words in (("8c3-lcn4", "odd"), ("8-lcn3", "behind a layer"), ("8c3-lcn", "lcn")):
        with pytest.raises(UserError, match=words):
            layers_of(text)


def test_half_precision_does_not_reach_the_variances():
    x = 100 + maps(2, 2, 6, 6).float()
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(LCNLayer(3)(x), LCNLayer(3)(x.clone()))
        inside = LCNLayer(3)(x)
        layer = ImageStepLayer(GCN(), (6, 6, 2))
        assert layer(x.movedim(1, -1)).dtype == torch.float32
    assert torch.equal(inside, LCNLayer(3)(x))


@pytest.mark.parametrize("recipe", [PixelMean(), Whitening(), GCN(), LCN((3, 3))])
def test_a_step_in_front_of_a_network_is_saved_with_it(recipe):
    x = maps(20, 4, 5, 2)
    step = recipe.fit(x.numpy())
    layer, again = (ImageStepLayer(recipe, (4, 5, 2), torch.float64) for _ in range(2))
    layer.take(step)
    again.load_state_dict(layer.state_dict())
    assert np.allclose(again(x).numpy(), step.transform(x.numpy()), rtol=1e-12, atol=1e-12)
    assert not list(nn.Sequential(layer).parameters())
