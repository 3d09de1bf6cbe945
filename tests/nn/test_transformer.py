"""Layers of transformers equal torch's with the same weights; masks, caches and gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from gnomon.errors import UserValueError
from gnomon.nn.activations import ReLU
from gnomon.nn.attention_engine import attention
from gnomon.nn.attention_masks import Causal, Padding, SlidingWindow, causal_mask, combine, padding_mask
from gnomon.nn.context import training
from gnomon.nn.positions import RelativePlaces, RotaryPlaces
from gnomon.nn.residual import Residual
from gnomon.nn.spans import MixedSpan
from gnomon.nn.transformer import DecoderLayer, EncoderLayer, FeedForward, MultiHeadAttention
from gnomon.numeric.noise import Noise

F64, D, H, F = torch.float64, 8, 2, 12


@pytest.fixture(autouse=True)
def peers_draw_elsewhere():
    """torch's layers draw their first weights from the global generator."""
    with torch.random.fork_rng():
        yield


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def filled(layer: nn.Module) -> nn.Module:
    with torch.no_grad():
        for i, parameter in enumerate(layer.parameters()):
            parameter.copy_(random(*parameter.shape, seed=10 + i))
    return layer


def heads(layer: MultiHeadAttention) -> nn.MultiheadAttention:
    """torch's class with the same weights."""
    peer = nn.MultiheadAttention(D, layer.heads, batch_first=True, dtype=F64)
    maps = (layer.query, layer.key, layer.value)
    with torch.no_grad():
        peer.in_proj_weight.copy_(torch.cat([one.weight for one in maps]))
        peer.in_proj_bias.copy_(torch.cat([one.bias for one in maps]))
        peer.out_proj.load_state_dict(layer.out.state_dict())
    return peer


X, Y, MASK = random(3, 5, D), random(3, 7, D, seed=1), padding_mask([7, 2, 4])


@pytest.mark.spec("DLN-212")
@pytest.mark.spec("NLP-44")
def test_several_heads_are_those_of_torch():
    layer = filled(MultiHeadAttention(D, H, dtype=F64))
    peer = heads(layer)
    found, alpha = peer(X, Y, Y, key_padding_mask=~MASK[:, 0], average_attn_weights=False)
    torch.testing.assert_close(layer(X, Y, Y, MASK), found)
    torch.testing.assert_close(layer.weights(X, Y, MASK), alpha)
    torch.testing.assert_close(layer(X, mask=Causal()), peer(X, X, X, attn_mask=~causal_mask(5))[0])
    one = filled(MultiHeadAttention(D, 1, dtype=F64))  # one head: attention and a map
    q, k, v = one.query(X)[:, None], one.key(Y)[:, None], one.value(Y)[:, None]
    torch.testing.assert_close(one(X, Y), one.out(attention(q, k, v)[:, 0]))
    with torch.no_grad():
        one.out.weight.copy_(torch.eye(D))
        one.out.bias.zero_()
    torch.testing.assert_close(one(X, Y), attention(q, k, v)[:, 0])
    swapped = filled(MultiHeadAttention(D, H, dtype=F64))  # the heads in another order
    order = torch.cat([torch.arange(D // 2, D), torch.arange(D // 2)])
    with torch.no_grad():
        for this, that in ((swapped.query, layer.query), (swapped.key, layer.key), (swapped.value, layer.value)):
            this.weight.copy_(that.weight[order])
            this.bias.copy_(that.bias[order])
        swapped.out.weight.copy_(layer.out.weight[:, order])
        swapped.out.bias.copy_(layer.out.bias)
    torch.testing.assert_close(swapped(X, Y), layer(X, Y))
    with pytest.raises(UserValueError, match="heads must divide the width 8, got 3"):
        MultiHeadAttention(8, 3)
    grown = (X[:1, :2].clone().requires_grad_(), Y[:1, :3].clone().requires_grad_())
    assert torch.autograd.gradcheck(lambda x, y: layer(x, y, y, MASK[1:2, :, :3]), grown)
    wide = MultiHeadAttention(512, 8, dtype=torch.float32)
    assert sum(p.numel() for p in wide.parameters()) == 4 * 512 * 513


def test_weights_are_dropped_in_training_alone():
    layer = filled(MultiHeadAttention(D, H, dropout=0.5, dtype=F64))
    with training(Noise(0, "fit")):
        thinned = layer(X)
    assert not torch.allclose(thinned, layer(X))
    torch.testing.assert_close(layer(X), heads(layer)(X, X, X)[0])


@pytest.mark.spec("DLN-213")
def test_masked_attention():
    layer = filled(MultiHeadAttention(D, H, dtype=F64))
    lengths = torch.tensor([5, 2, 0])
    target = combine(padding_mask(lengths, 5), causal_mask(5))
    assert target.shape == (3, 5, 5) and padding_mask(lengths, 5).shape == (3, 1, 5)
    alpha = layer.weights(X, mask=target)
    assert (alpha[~target[:, None].expand_as(alpha)] == 0).all()
    assert (alpha[2] == 0).all() and torch.isfinite(layer(X, mask=target)).all()  # nothing to look at: zeros
    torch.testing.assert_close(layer(X, mask=target)[2], layer.out.bias.expand(5, D))
    other = X.clone()
    other[:, 3:] = random(3, 2, D, seed=9)
    for mask in (target, Causal() & Padding(lengths), Causal()):
        assert torch.equal(layer(X, mask=mask)[:, :3], layer(other, mask=mask)[:, :3])  # the future: bit by bit
    junk = X.clone()
    junk[1, 2:] = 1e6
    found = layer(X, junk, mask=padding_mask(lengths, 5))
    torch.testing.assert_close(found[1], layer(X, X, mask=padding_mask(lengths, 5))[1])
    half = filled(MultiHeadAttention(D, H, dtype=torch.float16))
    assert torch.isfinite(half(X.half() / 8, mask=target)).all()


@pytest.mark.spec("DLN-214")
def test_the_network_at_each_position():
    layer = filled(FeedForward(D, F, ReLU().build(F, F64), dtype=F64))
    rows = [torch.relu(x @ layer.first.weight.T + layer.first.bias) @ layer.second.weight.T + layer.second.bias
            for x in X.flatten(0, 1)]  # fmt: skip
    torch.testing.assert_close(layer(X), torch.stack(rows).reshape(X.shape))
    z = nn.functional.conv1d(X.mT, layer.first.weight[..., None], layer.first.bias).relu()
    torch.testing.assert_close(layer(X), nn.functional.conv1d(z, layer.second.weight[..., None], layer.second.bias).mT)
    dropping = FeedForward(D, F, ReLU().build(F, F64), dropout=0.5, dtype=F64)
    dropping.load_state_dict(layer.state_dict())
    torch.testing.assert_close(dropping(X), layer(X))
    with training(Noise(0, "fit")):
        assert not torch.allclose(dropping(X), layer(X))


def copied(layer: EncoderLayer | DecoderLayer, peer: nn.Module) -> nn.Module:
    with torch.no_grad():
        peer.self_attn.load_state_dict(heads(layer.attention).state_dict())
        if isinstance(layer, DecoderLayer):
            peer.multihead_attn.load_state_dict(heads(layer.cross).state_dict())
            peer.norm3.load_state_dict(layer.norm_3.state_dict())
        peer.linear1.load_state_dict(layer.feed_forward.first.state_dict())
        peer.linear2.load_state_dict(layer.feed_forward.second.state_dict())
        peer.norm1.load_state_dict(layer.norm_1.state_dict())
        peer.norm2.load_state_dict(layer.norm_2.state_dict())
    return peer


@pytest.mark.spec("NLP-46")
def test_around_a_part_that_adds_nothing_the_input_or_its_norm_is_left():
    """Each around two parts: x with norms before them, the norm of the norm of x with norms after the sums."""
    for norm_first in (True, False):
        layer = filled(EncoderLayer(D, H, F, ReLU().build(F, F64), norm_first=norm_first, dtype=F64))
        for last in (layer.attention.out, layer.feed_forward.second):
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
        expected = X if norm_first else layer.norm_2(layer.norm_1(X))
        torch.testing.assert_close(layer(X), expected, rtol=1e-12, atol=1e-12)
        block = Residual(nn.Linear(D, D, dtype=F64), **{"before" if norm_first else "after": layer.norm_1})
        nn.init.zeros_(block.block.weight)
        nn.init.zeros_(block.block.bias)
        torch.testing.assert_close(block(X), X if norm_first else layer.norm_1(X), rtol=1e-12, atol=1e-12)
        part = nn.Linear(D, D, dtype=F64)
        inside = part(layer.norm_1(X)) + X if norm_first else layer.norm_1(X + part(X))
        block.block = part
        torch.testing.assert_close(block(X), inside, rtol=1e-12, atol=1e-12)


@pytest.mark.spec("DLN-216")
@pytest.mark.spec("NLP-46")
@pytest.mark.parametrize("norm_first", [False, True])
def test_the_encoder_layer_is_that_of_torch(norm_first):
    layer = filled(EncoderLayer(D, H, F, ReLU().build(F, F64), norm_first=norm_first, dropout=0.3, dtype=F64))
    peer = copied(layer, nn.TransformerEncoderLayer(D, H, F, 0.0, batch_first=True, norm_first=norm_first, dtype=F64))
    torch.testing.assert_close(layer(X), peer(X))
    mask = padding_mask([5, 2, 4])
    torch.testing.assert_close(layer(X, mask), peer(X, src_key_padding_mask=~mask[:, 0]))
    torch.testing.assert_close(layer(X, Causal()), peer(X, src_mask=~causal_mask(5)))
    torch.testing.assert_close(layer(X, mask)[1, :2], layer(X[1:2, :2])[0])
    with training(Noise(0, "fit")):
        assert not torch.allclose(layer(X), peer(X))


@pytest.mark.parametrize("norm_first", [False, True])
def test_where_a_decoder_layer_looks_is_what_torchs_attention_says(norm_first):
    layer = filled(DecoderLayer(D, H, F, ReLU().build(F, F64), norm_first=norm_first, dtype=F64))
    peer = copied(layer, nn.TransformerDecoderLayer(D, H, F, 0.0, batch_first=True, norm_first=norm_first, dtype=F64))
    causal, hidden = ~causal_mask(5), ~MASK[:, 0]
    if norm_first:
        x = peer.norm2(X + peer._sa_block(peer.norm1(X), causal, None))
    else:
        x = peer.norm1(X + peer._sa_block(X, causal, None))
    _, expected = peer.multihead_attn(x, Y, Y, key_padding_mask=hidden, average_attn_weights=False)
    torch.testing.assert_close(layer.looked(X, Y, memory_mask=MASK), expected)


def test_a_process_without_rows_gets_none():
    """Of a batch that is smaller than the group, some processes have no row."""
    layer = filled(DecoderLayer(D, H, F, ReLU().build(F, F64), dtype=F64))
    assert layer(X[:0], Y[:0]).shape == (0, 5, D)


@pytest.mark.spec("DLN-217")
@pytest.mark.parametrize("norm_first", [False, True])
def test_the_decoder_layer_is_that_of_torch(norm_first):
    layer = filled(DecoderLayer(D, H, F, ReLU().build(F, F64), norm_first=norm_first, dropout=0.3, dtype=F64))
    peer = copied(layer, nn.TransformerDecoderLayer(D, H, F, 0.0, batch_first=True, norm_first=norm_first, dtype=F64))
    expected = peer(X, Y, tgt_mask=~causal_mask(5), memory_key_padding_mask=~MASK[:, 0])
    torch.testing.assert_close(layer(X, Y, memory_mask=MASK), expected)
    other = X.clone()
    other[:, 3:] = random(3, 2, D, seed=9)
    assert torch.equal(layer(X, Y)[:, :3], layer(other, Y)[:, :3])


@pytest.mark.parametrize("mask", [Causal(), Causal() & SlidingWindow(1, 0)])
@pytest.mark.parametrize("places", [None, RotaryPlaces(D // H, dtype=F64), RelativePlaces(H, 2, dtype=F64)])
def test_steps_with_a_cache_are_the_whole_pass(places, mask):
    if places is not None:
        filled(places)
    layer = filled(EncoderLayer(D, H, F, ReLU().build(F, F64), norm_first=True, places=places, dtype=F64))
    whole, (keys, values) = layer.read(X, mask)
    length = torch.tensor([2, 0, 1])  # sequences of their own lengths, side by side
    cache = keys[:, :, :2].clone(), values[:, :, :2].clone()
    cache[0][1:, :, 1], cache[0][1, :, 0] = torch.nan, torch.nan  # what is not there yet is not looked at
    cache = tuple(torch.nan_to_num(one, nan=1e3) for one in cache)
    for _ in range(3):
        before = [one.clone() for one in cache]
        rows = torch.arange(3)
        y, after = layer.step(X[rows, length][:, None], cache, length, mask)
        torch.testing.assert_close(y[:, 0], whole[rows, length])
        assert all(torch.equal(one, kept) for one, kept in zip(cache, before, strict=True))  # never in place
        cache, length = after, length + 1
    assert cache[0].shape[2] == 5


def test_published_sizes():
    """A layer of the base model of Vaswani and others: 512 wide, 8 heads, 2048 within."""
    made = EncoderLayer(512, 8, 2048, nn.ReLU())
    assert sum(p.numel() for p in made.parameters()) == 4 * 512 * 513 + 2 * 512 * 2048 + 2048 + 512 + 4 * 512
    made.initialize(Noise(0, "initial"))
    limit = math.sqrt(6 / (512 + 2048))
    assert 0.99 * limit < made.feed_forward.first.weight.abs().max() <= limit and (made.norm_1.weight == 1).all()


@pytest.mark.parametrize("cls", [EncoderLayer, DecoderLayer])
def test_what_a_layer_adds_is_dropped_in_training_alone(cls):
    """Of dropout 1 nothing is added: with norms before the parts the layer hands on what it reads."""
    layer = filled(cls(D, H, F, ReLU().build(F, F64), norm_first=True, dropout=1.0, dtype=F64))
    given = (X,) if cls is EncoderLayer else (X, Y)
    with training(Noise(0, "fit")):
        assert layer(*given).equal(X)
    assert not torch.allclose(layer(*given), X)


def test_hidden_units_are_dropped_in_training_alone():
    network = filled(FeedForward(D, F, ReLU().build(F, F64), dropout=1.0, dtype=F64))
    with training(Noise(0, "fit")):
        torch.testing.assert_close(network(X), network.second.bias.expand_as(X))
    assert not torch.allclose(network(X), network.second.bias.expand_as(X))


def test_windows_and_dilations_are_given_to_the_heads_in_turn():
    found = MixedSpan(windows=(1, 5), dilations=(1, 1, 3, 4)).of(4)
    assert (found.windows, found.dilations) == ((1, 5, 1, 5), (1, 1, 3, 4))
