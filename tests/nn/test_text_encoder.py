"""The encoder of texts: sums of three look-ups, transformers' BERT with the same weights, published sizes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gnomon.data.packing import pack
from gnomon.nn.positions import LearnedPlaces
from gnomon.nn.text_encoder import TextEncoder
from gnomon.nn.transformer import EncoderLayer
from gnomon.numeric.ragged import Ragged

F64 = torch.float64


def encoder(n_ids=40, width=12, depth=2, heads=3, inner=20, longest=16, dtype=F64, **options):
    """A small one."""
    layers = [EncoderLayer(width, heads, inner, nn.GELU(), epsilon=1e-12, dtype=dtype) for _ in range(depth)]
    places = LearnedPlaces(longest, options.get("embedding_width") or width, dtype=dtype)
    return TextEncoder(n_ids, width, layers, places, dtype=dtype, **options)


def drawn(model, seed=0):
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=random, dtype=F64) / 3)
    return model


def batch(seed=0):
    random = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 40, (3, 9), generator=random)
    lengths = torch.tensor([9, 6, 3])
    segments = (torch.arange(9) > 4).long().expand(3, 9).clone()
    return ids, segments, lengths


def test_an_embedding_is_the_sum_of_three_look_ups():
    packed = pack(Ragged.of([[7, 8, 9]]), Ragged.of([[5, 6]]))
    assert packed.ids.tolist() == [[2, 7, 8, 9, 3, 5, 6, 3]] and packed.segments.tolist() == [[0] * 5 + [1] * 3]
    model = drawn(encoder(depth=0))
    found = model(torch.from_numpy(packed.ids), torch.from_numpy(packed.segments))
    for t, (token, segment) in enumerate(zip(packed.ids[0], packed.segments[0], strict=True)):
        total = model.tokens.weight[token] + model.segments.weight[segment] + model.places.weight[t]
        centered = total - total.mean()
        wanted = centered / centered.square().mean().sqrt() * model.norm.weight + model.norm.bias
        torch.testing.assert_close(found[0, t], wanted, rtol=1e-9, atol=1e-9)
    alone = model(torch.from_numpy(packed.ids))  # one text: all segments are 0
    torch.testing.assert_close(alone, model(torch.from_numpy(packed.ids), torch.zeros(1, 8, dtype=torch.int64)))


def test_padding_and_other_rows_change_nothing_and_both_directions_are_seen():
    model = drawn(encoder())
    ids, segments, lengths = batch()
    together = model(ids, segments, lengths)
    for i, n in enumerate(lengths.tolist()):
        alone = model(ids[i : i + 1, :n], segments[i : i + 1, :n])
        torch.testing.assert_close(together[i, :n], alone[0], rtol=1e-10, atol=1e-10)
    x = model.tokens.weight[ids[:1]].detach().requires_grad_()
    model.tokens.forward = lambda _: x
    (gradient,) = torch.autograd.grad(model(ids[:1], segments[:1])[0, 4].sum(), x)
    assert (gradient[0].abs().sum(1) > 1e-9).all()  # no causal mask


def test_outputs_are_those_of_transformers_with_the_same_weights():
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=40, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20,
        max_position_embeddings=16, hidden_dropout_prob=0.1, initializer_range=0.4,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = transformers.BertModel(config).double().eval()
    mine = encoder()
    given = {name: value for name, value in theirs.state_dict().items() if not name.endswith("position_ids")}
    copied = list(mine.parameters())
    assert sum(p.numel() for p in copied) == sum(value.numel() for value in given.values())
    load(mine, given)
    ids, segments, lengths = batch()
    mask = (torch.arange(9) < lengths[:, None]).long()
    with torch.no_grad():
        wanted = theirs(input_ids=ids, token_type_ids=segments, attention_mask=mask)
        found = mine(ids, segments, lengths)
    inside = mask.bool()
    torch.testing.assert_close(found[inside], wanted.last_hidden_state[inside], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(mine.pool(found), wanted.pooler_output, rtol=1e-9, atol=1e-9)


def load(mine, given):
    """transformers' weights by the places that they have in the equations."""
    pairs = {
        "tokens": "embeddings.word_embeddings", "segments": "embeddings.token_type_embeddings",
        "places": "embeddings.position_embeddings", "norm": "embeddings.LayerNorm", "pooler": "pooler.dense",
    }  # fmt: skip
    for i in range(len(mine.layers)):
        layer, own = f"encoder.layer.{i}", f"layers.{i}"
        for ours, name in (
            ("attention.query", "attention.self.query"), ("attention.key", "attention.self.key"),
            ("attention.value", "attention.self.value"), ("attention.out", "attention.output.dense"),
            ("norm_1", "attention.output.LayerNorm"), ("feed_forward.first", "intermediate.dense"),
            ("feed_forward.second", "output.dense"), ("norm_2", "output.LayerNorm"),
        ):  # fmt: skip
            pairs[f"{own}.{ours}"] = f"{layer}.{name}"
    state = {}
    for ours, name in pairs.items():
        for part in ("weight", "bias"):
            if f"{name}.{part}" in given:
                state[f"{ours}.{part}"] = given[f"{name}.{part}"]
    mine.load_state_dict(state)


@pytest.mark.parametrize(
    ("width", "depth", "heads", "inner", "parameters"),
    [(768, 12, 12, 3072, 109_482_240), (1024, 24, 16, 4096, 335_141_888)],
    ids=["base", "large"],
)
def test_parameters_of_the_published_networks(width, depth, heads, inner, parameters):
    """BERT-base and BERT-large, uncased: 30,522 word pieces, 512 places."""
    with torch.device("meta"):
        layers = [EncoderLayer(width, heads, inner, nn.GELU()) for _ in range(depth)]
        model = TextEncoder(30_522, width, layers, LearnedPlaces(512, width))
    assert sum(p.numel() for p in model.parameters()) == parameters
