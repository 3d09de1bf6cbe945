"""The encoder of texts: sums of three look-ups, transformers' BERT with the same weights, published sizes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import gnomon
from gnomon.data.packing import pack
from gnomon.nn import attention_engine
from gnomon.nn.positions import LearnedPlaces
from gnomon.nn.spans import MixedSpan, WindowSpan
from gnomon.nn.text_encoder import TextEncoder
from gnomon.nn.transformer import EncoderLayer
from gnomon.numeric.noise import Noise
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


@pytest.mark.spec("DLN-219")
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
    constant = encoder(depth=0, learned_segments=False)
    constant.initialize(Noise(0, "initial"))
    assert constant.segments.weight.tolist() == [[0.0] * 12, [1.0] * 12]
    assert not constant.segments.weight.requires_grad and constant.tokens.weight.requires_grad


@pytest.mark.spec("DLN-219")
def test_constant_segments_are_as_they_were_after_a_fit():
    text = ["a b", "c d", "", "e f", "g h"] * 3
    options = {"n_embedding": 4, "n_hidden": 4, "n_heads": 1, "n_layers": 1, "window": 9, "epochs": 2}
    for kind in ("constant", "learned"):
        model = gnomon.BERT(**options, segments=kind, random_state=0).fit(text).model_
        assert (model.encoder.segments.weight.tolist() == [[0.0] * 4, [1.0] * 4]) == (kind == "constant")


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


@pytest.mark.spec("NLP-51", "DLN-220")
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


SPANS = [WindowSpan(back=2, anchors=1), WindowSpan(back=4, dilation=2, anchors=0),
         MixedSpan(windows=(1, 1, 2), dilations=(1, 3, 2), anchors=1)]  # fmt: skip


@pytest.mark.parametrize("span", SPANS)
def test_windows_to_both_sides_and_first_tokens_that_all_look_at(span, monkeypatch):
    """The layers with the mask written out; padding is not looked at; what one layer's ``<cls>`` and a token see."""
    made = drawn(encoder(depth=2, longest=60, span=span))
    ids = torch.arange(2 * 50).reshape(2, 50) % 37 + 3
    lengths = torch.tensor([50, 31])

    def rule(h, i, j):
        far, step = (span.back, span.dilation) if isinstance(span, WindowSpan) else (
            span.windows[h] * span.dilations[h], span.dilations[h])  # fmt: skip
        return (abs(i - j) <= far and (i - j) % step == 0) or (span.anchors and 0 in (i, j))

    table = torch.tensor([[[bool(rule(h, i, j)) for j in range(50)] for i in range(50)] for h in range(3)])
    mask = table[None] & (torch.arange(50) < lengths[:, None])[:, None, None]
    x = made.norm(made.places(made.tokens(ids) + made.segments(torch.zeros_like(ids))))
    for layer in made.layers:
        x = layer(x, mask)
    inside = torch.arange(50) < lengths[:, None]
    for block in (2, 128):
        monkeypatch.setattr(attention_engine, "BLOCK", block)
        torch.testing.assert_close(made(ids, lengths=lengths)[inside], x[inside])
    wide = drawn(encoder(depth=2, longest=60))
    everything = drawn(encoder(depth=2, longest=60, span=WindowSpan(back=50, anchors=0)))
    torch.testing.assert_close(everything(ids), wide(ids))
