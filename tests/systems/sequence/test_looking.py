"""Maps of attention against torch's own weights, and what the verbs and the report make of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import gnomon
from gnomon.cli.main import run
from gnomon.data.counting import BOS
from gnomon.data.packing import pack
from gnomon.errors import UserError
from gnomon.nn.transformer import EncoderLayer
from gnomon.numeric.ragged import Ragged
from gnomon.report import attended
from gnomon.report.attended import attended_of
from gnomon.report.figures import drawn_for_a_page
from gnomon.report.subject import Subject

F64, D, H, T = torch.float64, 12, 3, 7
TEXTS = ["the sun casts a shadow", "the tide comes in", "salt of the sea", "a dial at noon"] * 4
SMALL = {
    "n_embedding": 12,
    "n_heads": 3,
    "n_hidden": 8,
    "n_layers": 2,
    "window": 9,
    "random_state": 0,
    "max_updates": 2,
}


@pytest.fixture(autouse=True)
def peers_draw_elsewhere():
    with torch.random.fork_rng():
        yield


@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("causal", [True, False])
def test_a_layers_maps_are_torchs_weights_of_what_it_reads(first, causal):
    random = torch.Generator().manual_seed(0)
    layer, peer = EncoderLayer(D, H, 8, nn.GELU(), norm_first=first, dtype=F64), nn.MultiheadAttention(
        D, H, batch_first=True, dtype=F64
    )  # fmt: skip
    own = layer.attention
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=random, dtype=F64))
        peer.in_proj_weight.copy_(torch.cat([own.query.weight, own.key.weight, own.value.weight]))
        peer.in_proj_bias.copy_(torch.cat([own.query.bias, own.key.bias, own.value.bias]))
    x = torch.randn(2, T, D, generator=random, dtype=F64)
    mask = torch.ones(T, T).tril().bool() if causal else None
    read = layer.norm_1(x) if first else x
    hidden = None if mask is None else ~mask
    wanted = peer(read, read, read, attn_mask=hidden, need_weights=True, average_attn_weights=False)[1]
    torch.testing.assert_close(layer.looked(x, mask), wanted, rtol=1e-12, atol=1e-14)
    # and they are the ones that the layer works with: the mean of the values by them comes out
    with torch.no_grad():
        values = (wanted @ own.value(read).unflatten(-1, (H, -1)).transpose(1, 2)).transpose(1, 2).flatten(2)
        summed = x + own.out(values)
        middle = summed if first else layer.norm_1(summed)
        inner = layer.feed_forward(layer.norm_2(middle) if first else middle)
        out = middle + inner if first else layer.norm_2(middle + inner)
    torch.testing.assert_close(out, layer(x, mask), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("positions", ["rotary", "learned", "relative"])
def test_a_language_model_looks_back_within_its_window(positions):
    model = gnomon.TransformerLM(unit="word", positions=positions, dtype="float64", **SMALL).fit(TEXTS)
    tokens, weights = model.attention("the sun casts a shadow")
    assert tokens == ["<s>", "the", "sun", "casts", "a", "shadow"] and weights.shape == (2, 3, 6, 6)
    np.testing.assert_allclose(weights.sum(-1), 1)
    assert (np.triu(weights, 1) == 0).all()
    # the layers above read what the ones below make: a token more changes no map of those before
    np.testing.assert_allclose(model.attention("the sun casts")[1], weights[:, :, :4, :4], rtol=1e-10)
    ids = torch.tensor([[BOS, *model.vocabulary_.encode(["the", "sun"])]])
    with torch.no_grad():
        first = model.model_.layers[0].looked(model.model_.places.add(model.model_.embedding(ids), torch.arange(3)),
                                              torch.ones(3, 3).tril().bool())  # fmt: skip
    np.testing.assert_allclose(first[0].numpy(), weights[0, :, :3, :3], rtol=1e-10)
    assert len(model.attention(["sun"] * 20).tokens) == 9
    empty = model.attention([])
    assert empty.tokens == ["<s>"] and (empty.weights == 1).all()


@pytest.mark.parametrize("name", ["transformer-classifier", "longformer", "bert", "electra"])
def test_an_encoder_looks_both_ways(name):
    labels = {"y": np.arange(len(TEXTS)) % 2} if "former" in name else {}
    model = gnomon.catalog.make(name, **SMALL).fit(TEXTS, **labels)
    tokens, weights = model.attention("salt of the sea 😀")
    assert tokens == ["<cls>", "salt", "of", "the", "sea", "😀", "<sep>"] and weights.shape[1:] == (3, 7, 7)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
    packed = pack(Ragged.of([model.vocabulary_.encode(tokens[1:-1])]))
    encoder, seen = model.model_.encoder, []
    hooks = [one.register_forward_pre_hook(lambda _, given: seen.append(given)) for one in encoder.layers]
    with torch.no_grad():
        encoder(torch.as_tensor(packed.ids), lengths=torch.as_tensor(packed.lengths))
        for hook in hooks:
            hook.remove()
        for layer, (x, mask), found in zip(encoder.layers, seen, weights, strict=True):
            np.testing.assert_allclose(layer.attention.weights(x, mask=mask)[0].numpy(), found, rtol=1e-5)
    assert len(model.attention("sun " * 50).tokens) == 9
    with pytest.raises(UserError, match="text"):
        model.attention(3)


@pytest.mark.parametrize(
    ("words", "title"),
    [
        (["transformer-classifier", "t.csv", "--target", "label", "--columns", "text"], "Where the heads look"),
        (["transformer-lm", "t.txt"], "Where the heads look"), (["neural-ngram", "t.txt"], None),
        (["transformer", "t.tsv"], "Where the decoder looks"),
    ],
)  # fmt: skip
def test_the_report_shows_where_a_run_looks(tmp_path, monkeypatch, words, title):
    monkeypatch.chdir(tmp_path)
    Path("t.txt").write_text("".join(f"{one} {i}\n" for i, one in enumerate(TEXTS)))
    Path("t.tsv").write_text("".join(f"{one} {i}\t{one[::-1]}\n" for i, one in enumerate(TEXTS)))
    rows = [f"{one} {i},{'ab'[i % 2]}" for i, one in enumerate(TEXTS)]
    Path("t.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    assert run(["fit", *words, "--max-updates", "1", "--n-hidden", "8", "--out", "run", "--json"]) == 0
    with drawn_for_a_page():
        section = attended_of(Subject.of("run"))
    if title is None:
        assert section is None
        return
    assert section.title == title and section.body.count("<svg") == (3 if "decoder" in title else 1)
    assert ("layer 1, head 4" in section.body) == ("heads" in title)


def test_rows_and_columns_of_a_pairs_map_are_its_first_tokens_and_the_end_where_it_is_seen(monkeypatch):
    pairs = [("ab" * 12, "dc" * 12), ("a", "d")]
    model = gnomon.Seq2Seq(n_hidden=4, n_embedding=4, epochs=1, random_state=0).fit(pairs * 4)
    drawn = []
    monkeypatch.setattr(attended, "_aligned", lambda *given: drawn.append(given))
    monkeypatch.setattr(attended, "picture", lambda *given: "")
    monkeypatch.setattr(attended, "pictures", "".join)
    attended._of_pairs(model, pairs)
    for (weights, lines, columns), whole in zip(drawn, model.alignment(pairs), strict=True):
        np.testing.assert_array_equal(weights, whole[:16, :16])
        assert weights.shape == (len(lines), len(columns))
    assert drawn[0][1:] == (list("dc" * 8), list("ab" * 8)) and drawn[1][1:] == (["d", "</s>"], ["a"])
