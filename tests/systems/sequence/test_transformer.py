"""The transformer for pairs: torch's own with the same weights, steps with a cache, strings turned around."""

from __future__ import annotations

import itertools
import pickle
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import gnomon
from gnomon.data.counting import BOS, EOS
from gnomon.errors import UserValueError
from gnomon.nn.attention_masks import causal_mask
from gnomon.nn.context import training
from gnomon.nn.dropout import Dropout
from gnomon.nn.embedding import TiedHead
from gnomon.nn.positions import sinusoidal_table
from gnomon.numeric.noise import Noise
from gnomon.numeric.ragged import Ragged
from gnomon.systems.sequence.transformer import TransformerModel

F64, D, H, F = torch.float64, 8, 2, 12
SOURCES = [[3, 4, 5, 3], [5], [], [4, 4, 3]]
TARGETS = [[3, 3], [], [4, 5, 6, 3, 4], [6]]


@pytest.fixture(autouse=True)
def peers_draw_elsewhere():
    """torch's layers draw their first weights from the global generator."""
    with torch.random.fork_rng():
        yield


def model(norm_first=True, encoder_layers=2, decoder_layers=3, seed=0):
    made = TransformerModel(6, 7, D, H, F, encoder_layers, decoder_layers, norm_first=norm_first, dtype=F64)
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(0.6 * torch.randn(parameter.shape, generator=random, dtype=F64))
    return made


def test_parameters_of_the_published_base_size():
    """As many as torch's own (44.1 million), and embeddings; Vaswani and others (2017), Table 3, say 65 million in all,
    with one matrix of about 37,000 pieces for source, target and scores."""
    with torch.device("meta"):
        ours = gnomon.Transformer(n_layers=6, n_embedding=512, n_heads=8, n_hidden=2048, tie_weights=True).make(
            source_size=37_000, target_size=37_000, dtype="float32"
        )
        peer = nn.Transformer(512, 8, 6, 6, 2048, batch_first=True)
    count = {name: p.numel() for name, p in ours.named_parameters()}
    layers = sum(n for name, n in count.items() if "embedding" not in name and not name.startswith("head"))
    assert layers == sum(p.numel() for p in peer.parameters()) == 44_140_544
    matrices = [n for name, n in count.items() if "embedding" in name]
    assert matrices == [37_000 * 512] * 2  # of the source and of the target, whose scores share it
    assert layers + matrices[0] == pytest.approx(65e6, rel=0.03)


def padded(rows):
    text = Ragged.of(rows)
    return torch.from_numpy(text.padded()), torch.from_numpy(text.lengths)


def copied(layer, peer):
    """torch's layer with the weights of ours."""
    pairs = [(layer.attention, peer.self_attn)]
    norms = [(layer.norm_1, peer.norm1), (layer.norm_2, peer.norm2)]
    if hasattr(layer, "cross"):
        pairs.append((layer.cross, peer.multihead_attn))
        norms.append((layer.norm_3, peer.norm3))
    with torch.no_grad():
        for ours, theirs in pairs:
            maps = (ours.query, ours.key, ours.value)
            theirs.in_proj_weight.copy_(torch.cat([one.weight for one in maps]))
            theirs.in_proj_bias.copy_(torch.cat([one.bias for one in maps]))
            theirs.out_proj.load_state_dict(ours.out.state_dict())
    for ours, theirs in norms:
        theirs.load_state_dict(ours.state_dict())
    peer.linear1.load_state_dict(layer.feed_forward.first.state_dict())
    peer.linear2.load_state_dict(layer.feed_forward.second.state_dict())


@pytest.mark.spec("DLN-216")
@pytest.mark.spec("DLN-217")
@pytest.mark.spec("DLN-218")
@pytest.mark.spec("NLP-49")
@pytest.mark.parametrize("norm_first", [False, True])
def test_the_network_is_that_of_torch(norm_first):
    made = model(norm_first)
    options = {"dropout": 0.0, "batch_first": True, "norm_first": norm_first, "dtype": F64}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of nested tensors
        peer = nn.Transformer(D, H, 2, 3, F, **options)
    if not norm_first:
        peer.encoder.norm = peer.decoder.norm = None
    for ours, theirs in ((made.encoder, peer.encoder), (made.decoder, peer.decoder)):
        for layer, other in zip(ours, theirs.layers, strict=True):
            copied(layer, other)
    if norm_first:
        peer.encoder.norm.load_state_dict(made.encoder_norm.state_dict())
        peer.decoder.norm.load_state_dict(made.decoder_norm.state_dict())
    ids, lengths = padded([row or [3] for row in SOURCES])
    lengths = lengths.clamp(min=1)
    given = torch.tensor([[BOS, 3, 4, 0, 6]] * 4)
    x = made.source_embedding(ids) * D**0.5 + sinusoidal_table(ids.shape[1], D)
    y = made.target_embedding(given) * D**0.5 + sinusoidal_table(5, D)
    away = torch.arange(ids.shape[1]) >= lengths[:, None]
    found = made.encode(ids, lengths)
    states = peer.encoder(x, src_key_padding_mask=away)
    torch.testing.assert_close(found.states[~away], states[~away])
    outputs = peer(x, y, tgt_mask=~causal_mask(5), src_key_padding_mask=away, memory_key_padding_mask=away)
    torch.testing.assert_close(made.scores(found, given), made.head(outputs))
    plain = TransformerModel(6, 7, D, H, F, 2, 3, norm_first=norm_first, scaled=False, dtype=F64)
    assert plain.factor == 1 and made.factor == D**0.5


@pytest.mark.spec("DLN-216")
def test_what_is_read_of_a_source_does_not_depend_on_padding():
    made = model()
    ids, lengths = padded(SOURCES)
    together = made.encode(ids, lengths).states
    assert together.shape == (4, 4, D)
    for i, row in enumerate(SOURCES):
        if row:
            torch.testing.assert_close(together[i, : len(row)], made.encode(*padded([row])).states[0])
    x = torch.zeros(1, 4, D, dtype=F64, requires_grad=True)
    x.data.copy_(made.source_embedding(ids[:1]))
    (slope,) = torch.autograd.grad(made.encoder[0](x)[0, 0].square().sum(), x)
    assert (slope[0].abs().sum(1) > 0).all()  # from both sides


@pytest.mark.spec("DLN-217")
@pytest.mark.spec("DLN-218")
@pytest.mark.spec("NLP-49")
@pytest.mark.parametrize("norm_first", [False, True])
def test_probabilities_are_those_of_the_steps_and_no_token_sees_the_future(norm_first):
    made = model(norm_first)
    sources, targets = Ragged.of(SOURCES), Ragged.of(TARGETS)
    together = made.log_prob(sources, targets)
    assert np.isfinite(together).all()  # an empty source is one
    decoder = made.given(sources)
    state, last = decoder.start([[]] * 4), np.full(4, BOS)
    totals, going = np.zeros(4), np.ones(4, bool)
    for t in range(6):
        before = {name: value.clone() for name, value in state.items()}
        log_probs, after = decoder.step(last, state)
        assert all(torch.equal(state[name], value) for name, value in before.items())
        assert np.exp(log_probs).sum(1) == pytest.approx(1) and (log_probs[:, BOS] == -np.inf).all()
        wanted = np.array([(*row, EOS)[min(t, len(row))] for row in TARGETS])
        totals += np.where(going, log_probs[np.arange(4), wanted], 0)
        going &= np.array([t < len(row) for row in TARGETS])
        state, last = after, wanted
    assert totals == pytest.approx(together, abs=1e-10)
    for i in range(4):
        assert made.log_prob(sources.take([i]), targets.take([i]))[0] == pytest.approx(together[i], abs=1e-10)
    # contexts of several lengths, selected in another order
    begun = decoder.start([[BOS, *row[:2]] for row in TARGETS])
    found, _ = decoder.step(np.array([3, 4, 5, 6]), decoder.select(begun, np.array([2, 0, 1, 3])))
    for place, row in enumerate((2, 0, 1, 3)):
        given = torch.tensor([[BOS, *TARGETS[row][:2], 3 + place]])
        whole = made.foretold(made.scores(made.encode(*padded([SOURCES[row]])), given)[:, -1])
        assert found[place] == pytest.approx(whole[0].detach().numpy(), abs=1e-10)
    memory, given = made.encode(*padded([[3, 4]])), torch.tensor([[BOS, 3, 4, 5]])
    other = given.clone()
    other[0, 2:] = 6
    assert torch.equal(made.scores(memory, given)[:, :2], made.scores(memory, other)[:, :2])


@pytest.mark.spec("NLP-49")
@pytest.mark.parametrize("norm_first", [False, True])
def test_no_token_moves_what_was_said_before_it_and_order_is_known_by_places_alone(norm_first):
    made = model(norm_first)
    memory, given = made.encode(*padded([[3, 4, 5]])), torch.tensor([[BOS, 3, 4, 5, 6]])
    y = made.target_embedding(given).detach()

    def written(y):
        x = made.drop_target(y * made.factor + sinusoidal_table(5, D))
        for layer in made.decoder:
            x = layer(x, memory.states)
        return made.head(made.decoder_norm(x))[0].square().sum(1)

    slopes = torch.autograd.functional.jacobian(written, y)[:, 0].abs().sum(-1)  # (what is said, what was given)
    assert torch.equal(slopes > 0, torch.ones(5, 5).tril().bool())
    # without places the encoder's answers move with the tokens
    order, x = torch.tensor([2, 0, 3, 1]), torch.randn(1, 4, D, dtype=F64, generator=torch.Generator().manual_seed(1))

    def read(x):
        for layer in made.encoder:
            x = layer(x)
        return x

    torch.testing.assert_close(read(x[:, order]), read(x)[:, order])
    ids = torch.tensor([[3, 3, 3, 3]])  # with them equal tokens differ
    assert not torch.allclose(*made.encode(ids, torch.tensor([4])).states[0, :2])


@pytest.mark.spec("NLP-49")
@pytest.mark.parametrize("norm_first", [False, True])
def test_dropout_stands_on_embeddings_on_what_parts_add_and_within_the_network(norm_first):
    """With everything dropped nothing is added to what is around a part, and embeddings are 0."""
    made = TransformerModel(6, 7, D, H, F, 1, 1, norm_first=norm_first, dropout=0.5, dtype=F64)
    made.initialize(Noise(0, "initial"))
    for part in made.modules():
        if isinstance(part, Dropout):
            part.p = 1.0
    x = torch.randn(2, 3, D, dtype=F64, generator=torch.Generator().manual_seed(1))
    for layer, more in ((made.encoder[0], ()), (made.decoder[0], (x,))):
        norms = [getattr(layer, name) for name in ("norm_1", "norm_2", "norm_3") if hasattr(layer, name)]
        expected = x
        for norm in () if norm_first else norms:
            expected = norm(expected)
        with training(Noise(0, "fit")):
            torch.testing.assert_close(layer(x, *more), expected)
        assert not torch.allclose(layer(x, *more), expected)
    with training(Noise(0, "fit")):
        states = made.encode(*padded([[3, 4]])).states
        assert (made.encoder[0].feed_forward.drop(x) == 0).all()
    assert torch.equal(states, torch.zeros_like(states))


@pytest.mark.spec("NLP-49")
def test_what_is_read_and_what_comes_next_as_verbs_and_weights_that_are_one():
    pairs = [("ab", "ba"), ("abcab", "bacba"), ("c", ""), ("b", "bb")]
    options = {"n_embedding": 8, "n_heads": 2, "n_hidden": 8, "n_layers": 1, "epochs": 3, "dtype": "float64"}
    fitted = gnomon.Transformer(**options, tie_weights=True, random_state=0).fit(pairs * 3)
    states, foretold = fitted.encode(pairs), fitted.decode(pairs)
    assert [one.shape for one in states] == [(len(source), 8) for source, _ in pairs]
    vocabulary, made = fitted.target_vocabulary_, fitted.model_
    for (source, target), one, rows, log_p in zip(pairs, states, foretold, fitted.log_prob(pairs), strict=True):
        np.testing.assert_allclose(fitted.encode([source])[0], one, rtol=1e-9)
        assert rows.shape == (len(target) + 1, len(vocabulary)) and (rows[:, BOS] == -np.inf).all()
        np.testing.assert_allclose(np.exp(rows).sum(1), 1)
        wanted = [*vocabulary.encode(list(target)), EOS]
        assert rows[np.arange(len(wanted)), wanted].sum() == pytest.approx(log_p)
    untied = gnomon.Transformer(**options, random_state=0).fit(pairs)
    assert untied.model_.n_parameters - made.n_parameters == 8 * (len(vocabulary) - 1)
    assert isinstance(made.head, TiedHead) and made.head._embedding[0] is made.target_embedding
    again = pickle.loads(pickle.dumps(fitted))
    assert again.translate(["ab"], method="greedy") == fitted.translate(["ab"], method="greedy")
    assert again.model_.head._embedding[0] is again.model_.target_embedding
    lm = gnomon.TransformerLM(
        n_embedding=8, n_heads=2, n_hidden=8, n_layers=1, epochs=2, tie_weights=True, random_state=0
    )
    lm.fit(["a b c", "c b a"])
    assert lm.model_.head._embedding[0] is lm.model_.embedding


@pytest.mark.spec("DLN-218")
@pytest.mark.parametrize("task", ["copy", "reverse"])
def test_strings_of_lengths_that_were_seen_are_copied_and_reversed(task):
    random = np.random.default_rng(0)
    strings = ["".join(one) for n in range(1, 6) for one in itertools.product("abcd", repeat=n)]  # 1364
    random.shuffle(strings)
    pairs = [(one, one if task == "copy" else one[::-1]) for one in strings]
    train, test = pairs[:-40], pairs[-40:]
    fitted = gnomon.Transformer(
        n_embedding=32, n_hidden=64, n_heads=2, n_layers=2, epochs=20, learning_rate=5e-3, dropout=0.0,
        batch_size=64, schedule="cosine", early_stopping="off", random_state=0,
    ).fit(train)  # fmt: skip
    sources = [source for source, _ in test]
    for method in ("greedy", "beam"):
        assert fitted.translate(sources, method=method) == [target for _, target in test]
    assert fitted.evaluate(test)["exact"].value == 1
    assert fitted.log_prob(test).min() > np.log(0.5)


def test_settings():
    pairs = [("ab", "ba"), ("b", "b")] * 4
    made = gnomon.Transformer(n_embedding=8, n_heads=2, n_hidden=4, decoder_layers=1, norm="after", activation="gelu",
                              scale_embedding=False, epochs=1, random_state=0).fit(pairs).model_  # fmt: skip
    assert (len(made.encoder), len(made.decoder), made.factor) == (2, 1, 1.0)
    assert isinstance(made.encoder[0].feed_forward.unit, nn.GELU) and not made.decoder[0].norm_first
    with pytest.raises(UserValueError, match="n_heads must divide n_embedding 8, got 3"):
        gnomon.Transformer(n_embedding=8, n_heads=3).fit(pairs)


def test_an_alignment_is_that_of_each_pair_alone_and_its_rows_sum_to_1():
    pairs = [("ab", "ba"), ("abcab", "bacba"), ("c", ""), ("", "c")]
    options = {"n_embedding": 8, "n_heads": 2, "n_hidden": 8, "n_layers": 2, "epochs": 2, "dtype": "float64"}
    fitted = gnomon.make("transformer", **options, random_state=0).fit(pairs[:3] * 4)
    found = fitted.alignment(pairs)
    assert [one.shape for one in found] == [(len(target) + 1, len(source)) for source, target in pairs]
    for pair, together in zip(pairs, found, strict=True):
        np.testing.assert_allclose(together.sum(1), float(bool(pair[0])), rtol=1e-12)
        if all(pair):  # a text without any token is refused
            np.testing.assert_allclose(fitted.alignment([pair])[0], together, rtol=1e-10)
