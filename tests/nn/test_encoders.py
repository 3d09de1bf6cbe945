"""Networks of encoders and decoders: sizes, numbers of weights, the layout of images, first weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from gnomon.errors import UserTypeError, UserValueError
from gnomon.nn.activations import LeakyReLU, Maxout, ReLU
from gnomon.nn.context import bind, training
from gnomon.nn.encoders import (
    ConvDecoder,
    ConvEncoder,
    DenseDecoder,
    DenseEncoder,
    begin_network,
    build_network,
    image_shape_of,
)
from gnomon.nn.initializers import HeNormal, Normal
from gnomon.nn.upsampling import Unpool2d
from gnomon.numeric.noise import Noise

F64 = torch.float64
START = Noise(0, "fit/initial")


def count(network):
    return sum(p.numel() for p in network.parameters())


@pytest.mark.spec("GEN-097", "GEN-108")
@pytest.mark.parametrize(
    ("shape", "channels"),
    [((32, 32), (16, 32, 64)), ((64, 64, 3), (8, 16, 32, 64)), ((8, 8), (32, 64)), ((7, 9, 2), (4, 5)), ((1, 3), ())],
)
@pytest.mark.parametrize("upsampling", ["transposed", "unpool"])
def test_images_go_in_and_come_out_in_their_shape(shape, channels, upsampling):
    columns = int(np.prod(shape))
    encoder = ConvEncoder(channels).build(columns, 5, shape, F64)
    decoder = ConvDecoder(channels[::-1], upsampling).build(5, 2 * columns, shape, F64)
    for network in (encoder, decoder):
        begin_network(network, HeNormal(), START)
    x = torch.as_tensor(np.random.default_rng(0).normal(size=(3, columns)))
    z = encoder(x)
    assert z.shape == (3, 5) and decoder(z).shape == (3, 2 * columns)
    assert bool(z.std() > 0.01) and bool(decoder(z).std() > 0.01)
    for k, layer in enumerate(m for m in encoder if isinstance(m, nn.Conv2d)):
        assert layer.stride == (2, 2) and (layer.bias is None) == (k > 0)
    norms = [sum("BatchNorm" in type(m).__name__ for m in network) for network in (encoder, decoder)]
    assert norms == [
        max(0, len(channels) - 1),
        len(channels),
    ]  # neither at the input of one nor at the output of the other
    kinds = [isinstance(m, nn.ConvTranspose2d) for m in decoder.modules()]
    assert any(kinds) == (upsampling == "transposed" and len(channels) > 0)
    assert any(isinstance(m, Unpool2d) for m in decoder.modules()) == (upsampling == "unpool" and len(channels) > 0)


@pytest.mark.spec("GEN-097")
def test_numbers_of_weights():
    encoder = ConvEncoder((32, 64)).build(64, 1, (8, 8), F64)
    assert count(encoder) == (16 * 32 + 32) + 16 * 32 * 64 + 2 * 64 + (64 * 4 + 1)
    decoder = ConvDecoder((64, 32)).build(10, 64, (8, 8), F64)
    assert count(decoder) == (10 + 1) * 64 * 4 + 2 * 64 + 16 * 64 * 32 + 2 * 32 + (16 * 32 + 1)
    assert count(DenseEncoder((20,)).build(64, 3, None, F64)) == 65 * 20 + 21 * 3
    assert count(DenseDecoder((20, 10), batch_norm=True).build(3, 64, None, F64)) == 3 * 20 + 40 + 200 + 20 + 11 * 64


def test_channels_stand_last_in_rows():
    """An encoder that copies one channel, and a decoder whose first number is left by itself."""
    images = np.random.default_rng(0).normal(size=(2, 4, 4, 3))
    encoder = ConvEncoder(()).build(48, 48, (4, 4, 3), F64)
    assert torch.equal(encoder[:-1](torch.as_tensor(images.reshape(2, 48))).reshape(2, 3, 4, 4),
                       torch.as_tensor(images).permute(0, 3, 1, 2))  # fmt: skip
    decoder = ConvDecoder(()).build(2, 96, (4, 4, 3), F64)
    maps = torch.as_tensor(np.arange(96.0)).reshape(1, 6, 4, 4)
    rows = decoder[-1](maps).reshape(2, 4, 4, 3)
    assert torch.equal(rows[0].permute(2, 0, 1), maps[0, :3]) and torch.equal(rows[1].permute(2, 0, 1), maps[0, 3:])


def test_no_hidden_layer_is_an_affine_map_and_weights_begin_by_address():
    network = DenseEncoder(()).build(3, 2, None, F64)
    begin_network(network, Normal(1.0), START)
    x = torch.eye(3, dtype=F64)
    assert torch.allclose(network(2 * x) - network(0 * x), 2 * (network(x) - network(0 * x)))
    again = DenseEncoder(()).build(3, 2, None, F64)
    begin_network(again, Normal(1.0), START)
    assert torch.equal(network(x), again(x))
    wide = DenseEncoder((4000,)).build(50, 1, None, F64)
    begin_network(wide, HeNormal(), START)
    assert wide[0].weight.std().item() == pytest.approx((2 / 50) ** 0.5, rel=0.01)  # the gain of relu
    assert wide[-1].weight.std().item() == pytest.approx((1 / 4000) ** 0.5, rel=0.1)  # the last has none


@pytest.mark.parametrize("upsampling", ["transposed", "unpool"])
def test_first_weights_of_convolutions_have_the_gain_of_what_follows(upsampling):
    """Every layer with an activation behind it, the affine map of a decoder too; the last one has gain 1."""
    encoder = ConvEncoder((8, 6), slope=0.5).build(64, 2, (8, 8), F64)
    assert set(encoder.gains.values()) == {LeakyReLU(0.5).gain}
    assert [encoder[int(name)].weight.shape[0] for name in encoder.gains] == [8, 6]
    decoder = ConvDecoder((6, 8), upsampling).build(2, 64, (8, 8), F64)
    assert set(decoder.gains.values()) == {ReLU().gain}
    learned = [k for k, one in enumerate(decoder) if isinstance(one, nn.Linear | nn.Conv2d | nn.ConvTranspose2d)]
    assert sorted(map(int, decoder.gains)) == learned[:-1]
    kinds = [type(one).__name__ for one in decoder[learned[-1] + 1 :]]
    assert kinds == ["_AsRows"]  # nothing bends or normalizes the last map


def test_hidden_units_are_dropped_in_training_alone():
    networks = (DenseEncoder((400,), dropout=0.5), ConvEncoder((4,), batch_norm=False, dropout=0.5),
                ConvDecoder((4, 4), batch_norm=False, dropout=0.5))  # fmt: skip
    for recipe in networks:
        network = recipe.build(16, 16, (4, 4), F64)
        begin_network(network, HeNormal(), START)
        bind(network)
        x = torch.as_tensor(np.random.default_rng(0).normal(size=(2, 16)))
        outs = []
        for seed in (0, 1):
            with training(Noise(seed, "fit").rows(np.arange(2))):
                outs.append(network(x))
        assert not torch.equal(*outs) and torch.equal(network(x), network(x))


def test_a_network_of_ones_own_begins_at_seed_zero_and_leaves_the_generator_alone():
    class Own:
        @staticmethod
        def build(inputs, outputs, shape, dtype):
            return nn.Embedding(inputs, outputs)

    before = torch.random.get_rng_state()
    first = build_network(Own(), 3, 2, None, F64)
    assert torch.equal(torch.random.get_rng_state(), before)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        assert torch.equal(first.weight, nn.Embedding(3, 2).weight)


@pytest.mark.parametrize(
    ("make", "error", "told"),
    [
        (lambda: image_shape_of(None, 10), UserValueError, "a square number of columns .*, got 10"),
        (lambda: image_shape_of((3, 3), 10), UserValueError, "image_shape must have 10 numbers, got 3 x 3 x 1"),
        (lambda: ConvEncoder((1, 1, 1)).build(16, 1, (4, 4), F64), UserValueError, "cannot be halved 3 times"),
        (lambda: DenseEncoder(activation=Maxout()).build(2, 1, None, F64), UserTypeError, "pre-activations"),
    ],
)
def test_what_cannot_be_built(make, error, told):
    with pytest.raises(error, match=told):
        make()
