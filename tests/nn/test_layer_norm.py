"""Layer normalization as the networks of texts use it: numbers, invariances, precision."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

import gnomon
from gnomon.nn.transformer import EncoderLayer

F64 = torch.float64


def norm(width: int = 4, epsilon: float = 1e-5, dtype: torch.dtype = F64) -> nn.LayerNorm:
    """That of a layer of a Transformer."""
    return EncoderLayer(width, 1, 8, nn.ReLU(), epsilon=epsilon, dtype=dtype).norm_1


@pytest.mark.spec("NLP-45")
def test_the_numbers_of_the_document():
    x = torch.tensor([1.0, 2, 3, 4], dtype=F64)
    for epsilon, expected in ((0.0, [-1.341641, -0.447214]), (1e-5, [-1.341635, -0.447212])):
        wanted = torch.tensor([*expected, -expected[1], -expected[0]], dtype=F64)
        torch.testing.assert_close(norm(epsilon=epsilon)(x).detach(), wanted, rtol=0, atol=5e-7)


@pytest.mark.spec("NLP-45")
def test_it_is_its_formula_with_gain_and_shift_as_torchs_function():
    layer, random = norm(6), torch.Generator().manual_seed(0)
    x = torch.randn(3, 5, 6, generator=random, dtype=F64) * 4 + 2
    assert layer.weight.tolist() == [1] * 6 and layer.bias.tolist() == [0] * 6
    with torch.no_grad():
        layer.weight.copy_(torch.randn(6, generator=random, dtype=F64))
        layer.bias.copy_(torch.randn(6, generator=random, dtype=F64))
    centered = x - x.mean(2, keepdim=True)
    formula = layer.weight * centered / (centered.square().mean(2, keepdim=True) + 1e-5).sqrt() + layer.bias
    torch.testing.assert_close(layer(x), formula, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(layer(x), functional.layer_norm(x, (6,), layer.weight, layer.bias, 1e-5))
    torch.testing.assert_close(layer(3 * x + 7), layer(x), rtol=1e-4, atol=1e-4)
    assert torch.autograd.gradcheck(layer, (x.requires_grad_(),))


@pytest.mark.spec("NLP-45")
def test_a_position_does_not_depend_on_batch_or_length():
    layer, x = norm(6), torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(0), dtype=F64)
    assert torch.equal(layer(x)[1:2, 2:3], layer(x[1:2, 2:3]))
    padded = torch.cat([x, torch.full((3, 4, 6), 1e9, dtype=F64)], 1)
    assert torch.equal(layer(padded)[:, :5], layer(x))


@pytest.mark.spec("NLP-45")
@pytest.mark.parametrize("value", [0.0, 3.0, -1e6])
def test_a_constant_vector_gives_the_shift(value):
    layer = norm()
    nn.init.constant_(layer.bias, 0.25)
    x = torch.full((2, 4), value, dtype=F64, requires_grad=True)
    assert layer(x).tolist() == [[0.25] * 4] * 2
    layer(x).square().sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.spec("NLP-45")
def test_half_precision_is_computed_in_single():
    """Means of numbers near 1000, which differ by less than bfloat16 resolves in sums, come out right."""
    layer = norm(64, dtype=torch.float32)
    x = (1000 + 16 * torch.randn(5, 64, generator=torch.Generator().manual_seed(0))).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        found = layer(x)
    exact = layer(x.float())
    torch.testing.assert_close(found.float(), exact, rtol=2**-8, atol=2**-8)
    in_half = (x - x.mean(1, keepdim=True)) * x.var(1, keepdim=True, correction=0).rsqrt()
    assert (in_half.float() - exact).abs().max() > 2 * (found.float() - exact).abs().max()


@pytest.mark.spec("NLP-45")
def test_it_is_the_norm_of_the_language_model():
    text = ["the sun casts the shadow of the dial"] * 6
    model = gnomon.TransformerLM(n_embedding=8, n_hidden=8, n_heads=1, n_layers=1, epochs=2, random_state=0).fit(text)
    kinds = [one for one in model.model_.modules() if isinstance(one, nn.LayerNorm)]
    assert len(kinds) == 3 and all(one.normalized_shape == (8,) for one in kinds)
    assert any((one.weight != 1).any() for one in kinds)  # gain is learned
    before = model.log_prob(text[:1])
    with torch.no_grad():
        kinds[-1].bias.add_(1.0)
    assert model.log_prob(text[:1]) != before
    assert model.log_prob(["the sun", text[0]])[1] == pytest.approx(model.log_prob(text[:1])[0], rel=1e-5)
