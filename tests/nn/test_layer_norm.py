"""Layer normalization as the networks of texts use it: numbers, invariances, precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import gnomon
from gnomon.errors import UserValueError
from gnomon.nn.context import training
from gnomon.nn.norms import LayerNorm, LayerNormalization
from gnomon.nn.positions import LearnedPlaces
from gnomon.nn.text_encoder import TextEncoder
from gnomon.nn.transformer import EncoderLayer
from gnomon.numeric.noise import Noise
from gnomon.systems.vision.cnn import CNNModel

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


# --- any shape, and over the valid steps -----------------------------------------------------------------------------


def drawn(layer: LayerNorm, seed: int = 0) -> LayerNorm:
    """With a gain and a shift of its own at every place."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for one in layer.parameters():
            one.copy_(torch.randn(one.shape, generator=random, dtype=one.dtype))
    return layer


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=F64) * 4 + 2


@pytest.mark.spec("DLN-210")
def test_the_numbers_of_the_row():
    wanted = torch.tensor([-1.341635, -0.447212, 0.447212, 1.341635], dtype=F64)
    x = torch.tensor([1.0, 2, 3, 4], dtype=F64)
    for layer, given in ((LayerNorm(4, dtype=F64), x), (LayerNorm((1, 2, 2), dtype=F64), x.reshape(1, 1, 2, 2)),
                         (LayerNorm(2, steps=True, dtype=F64), x.reshape(1, 2, 2))):  # fmt: skip
        torch.testing.assert_close(layer(given).detach().flatten(), wanted, rtol=0, atol=5e-7)
        assert {name: value.unique().tolist() for name, value in layer.named_parameters()} == {
            "weight": [1],
            "bias": [0],
        }


@pytest.mark.spec("DLN-210")
@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4)])
def test_it_is_torchs_layer_with_a_gain_for_each_place(shape):
    ours, theirs, x = drawn(LayerNorm(shape, dtype=F64)), nn.LayerNorm(shape, dtype=F64), normal(6, 2, *shape)
    theirs.load_state_dict(ours.state_dict())
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    torch.testing.assert_close(ours(a), theirs(b))
    ours(a).pow(3).sum().backward()
    theirs(b).pow(3).sum().backward()
    torch.testing.assert_close(a.grad, b.grad)
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)
    assert ours.weight.shape == shape
    with training(Noise(0, "fit"), torch.ones(6, dtype=F64)):  # the same in training
        assert torch.equal(ours(x), theirs(x))
    factors = torch.rand(6, 2, *(1 for _ in shape), generator=torch.Generator().manual_seed(2), dtype=F64) + 1
    torch.testing.assert_close(ours(factors * x - 3), ours(x), rtol=1e-4, atol=1e-4)


@pytest.mark.spec("DLN-210")
def test_over_valid_steps_it_is_torchs_layer_on_them():
    """Mean and variance of the valid steps of a row together, not those of each step; padding changes nothing."""
    layer, x, lengths = drawn(LayerNorm(3, steps=True, dtype=F64)), normal(3, 7, 3), [7, 4, 1]
    valid = torch.arange(7) < torch.tensor(lengths)[:, None]
    found = layer(x, valid)
    for row, n in enumerate(lengths):
        whole = functional.layer_norm(x[row, :n], (n, 3), eps=1e-5) * layer.weight + layer.bias
        torch.testing.assert_close(found[row, :n], whole)
        assert not found[row, n:].any()
        torch.testing.assert_close(layer(x[row : row + 1, :n])[0], whole)  # without a mask all are valid
    per_step = functional.layer_norm(x, (3,), layer.weight, layer.bias)
    assert (found - per_step)[valid].abs().max() > 0.1
    torch.testing.assert_close(layer(3 * x + 7, valid), found, rtol=1e-5, atol=1e-5)
    for value in (1e30, float("nan"), float("inf")):
        torch.testing.assert_close(layer(torch.where(valid[..., None], x, value), valid), found, rtol=0, atol=0)
    given = x.clone().requires_grad_()
    layer(given, valid).pow(3).sum().backward()
    assert not given.grad[~valid].any() and given.grad[valid].abs().min() > 0
    assert torch.autograd.gradcheck(lambda z: layer(z, valid), (x.requires_grad_(),))
    apart = valid.clone()
    apart[0, 2] = False  # steps in the middle may be left out too
    wanted = functional.layer_norm(x[0, apart[0]], (6, 3)) * layer.weight + layer.bias
    torch.testing.assert_close(layer(x, apart)[0, apart[0]], wanted)


@pytest.mark.spec("DLN-210")
@pytest.mark.parametrize("steps", [False, True])
def test_a_constant_input_and_no_valid_step_are_no_division_by_zero(steps):
    layer = LayerNorm(4, steps=steps, dtype=F64)
    nn.init.constant_(layer.bias, 0.25)
    x = torch.full((2, 3, 4), -1e6, dtype=F64, requires_grad=True)
    assert layer(x).unique().tolist() == [0.25]
    layer(x).square().sum().backward()
    assert x.grad.isfinite().all()
    none = torch.zeros(2, 3, dtype=torch.bool)
    assert not LayerNorm(4, steps=True, dtype=F64)(x, none).any()


@pytest.mark.spec("DLN-210")
def test_an_image_network_has_a_gain_for_each_place():
    norm = LayerNormalization(gain="place")
    model = CNNModel((6, 8, 2), 3, layers="4c3s2-4d3-6u2", norm=norm, dtype=F64)
    shapes = [tuple(one.weight.shape) for one in model.modules() if isinstance(one, LayerNorm)]
    assert shapes == [(4, 3, 4), (4, 3, 4), (4, 3, 4), (6, 6, 8)]
    x = normal(3, 6, 8, 2)
    maps = model.features[0][0](model.first(x))
    torch.testing.assert_close(model.features[0][1](maps), functional.layer_norm(maps, (4, 3, 4)))
    random = np.random.default_rng(0)
    X, y = random.random((24, 6, 6)), np.arange(24) % 2
    X[y == 1, :3] += 1
    net = gnomon.CNN(layers="3c3-4", norm=norm, epochs=4, learning_rate=0.01, random_state=0)
    net.fit(X / 2, y)
    (layer,) = (one for one in net.model_.modules() if isinstance(one, LayerNorm))
    assert layer.weight.shape == (3, 6, 6) and layer.weight.detach().unique().numel() > 50  # learned, each by itself


@pytest.mark.spec("DLN-210")
def test_an_encoder_of_texts_has_statistics_over_the_tokens_of_a_text():
    def encoder(over_text):
        layers = [EncoderLayer(4, 1, 6, nn.ReLU(), over_text=over_text, dtype=F64)]
        made = TextEncoder(9, 4, layers, LearnedPlaces(8, 4, dtype=F64), over_text=over_text, dtype=F64)
        made.initialize(Noise(0, "fit"))
        return made

    ids, lengths = torch.tensor([[2, 7, 3, 0, 0], [2, 5, 6, 7, 3]]), torch.tensor([3, 5])
    whole = encoder(True)
    found = whole(ids, lengths=lengths)
    alone = whole(ids[:1, :3], lengths=lengths[:1])
    torch.testing.assert_close(found[:1, :3], alone)  # other rows and padding change nothing
    torch.testing.assert_close(alone.mean((1, 2)), torch.zeros(1, dtype=F64))
    torch.testing.assert_close(alone.square().mean((1, 2)), torch.ones(1, dtype=F64), rtol=1e-4, atol=0)
    assert alone.mean(2).abs().max() > 0.01  # of a token by itself it is not 0
    assert encoder(False)(ids, lengths=lengths)[0, :3].mean(1).abs().max() < 1e-12


@pytest.mark.spec("DLN-210")
def test_a_system_is_fitted_with_statistics_over_the_text(tmp_path):
    texts, y = ["good sun", "bad rain and more rain", "good", "bad rain"] * 4, [1, 0, 1, 0] * 4
    small = {"n_layers": 1, "n_heads": 1, "n_embedding": 4, "n_hidden": 4, "epochs": 2, "random_state": 0}
    model = gnomon.TransformerClassifier(statistics="text", **small).fit(texts, y)
    assert sum(isinstance(one, LayerNorm) for one in model.model_.modules()) == 3
    again = gnomon.load(model.save(tmp_path / "run"))
    np.testing.assert_array_equal(again.predict_proba(texts[:3]), model.predict_proba(texts[:3]))
    np.testing.assert_allclose(model.predict_proba(texts[:1]), model.predict_proba(texts[:3])[:1], rtol=1e-5)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: LayerNorm(0), "shape must be at least 1 on every side, got (0,)"),
        (lambda: LayerNorm(2)(torch.zeros(1, 3, 2), torch.ones(1, 3) > 0), "valid needs statistics over steps"),
        (lambda: LayerNorm(2, steps=True)(torch.zeros(1, 3, 2), torch.ones(3) > 0), "valid must have the shape (1, 3)"),
        (lambda: LayerNormalization(gain="place").build(3), "a gain for each place needs the size of the maps"),
    ],
)
def test_what_cannot_be_normalized_is_told_in_a_line(ask, says):
    with pytest.raises(UserValueError) as found:
        ask()
    assert says in str(found.value) and "\n" not in str(found.value)
