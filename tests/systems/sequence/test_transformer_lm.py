"""The transformer language model: exact sums, causality, and generation with a cache that equals the whole pass."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import nn

import gnomon
from gnomon.data.counting import BOS, EOS
from gnomon.errors import UserValueError
from gnomon.inference.decoding.ancestral import ancestral
from gnomon.nn.positions import LearnedPositions, NoPositions, RelativePositions, RotaryPositions, SinusoidalPositions
from gnomon.nn.spans import FullSpan, MixedSpan, WindowSpan
from gnomon.nn.transformer import EncoderLayer
from gnomon.numeric.ragged import Ragged
from gnomon.systems.sequence import transformer_lm
from gnomon.systems.sequence.transformer_lm import TransformerLanguageModel

F64 = torch.float64
POSITIONS = [NoPositions(), SinusoidalPositions(), LearnedPositions(), RotaryPositions(), RelativePositions(3)]
SPANS = [FullSpan(), WindowSpan(back=2, anchors=1), WindowSpan(back=3, dilation=2, anchors=0),
         MixedSpan(windows=(1, 2), dilations=(1, 2), anchors=1)]  # fmt: skip


def model(positions=POSITIONS[3], span=SPANS[0], window=6, size=6, seed=0):
    span = span.of(2)
    places = positions.build(window, 8, 2, F64)
    layers = [EncoderLayer(8, 2, 6, nn.ReLU(), norm_first=True, places=places, dtype=F64) for _ in range(2)]
    made = TransformerLanguageModel(size, 8, layers, places, span, window, dtype=F64)
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(0.7 * torch.randn(parameter.shape, generator=random, dtype=F64))
    return made


@pytest.mark.parametrize("window", [9, 2])
def test_all_sentences_of_a_tiny_vocabulary_and_the_unfinished_sum_to_1(window):
    made = model(window=window, size=5)
    words, L = [0, 3, 4], 4
    finished = [list(s) for k in range(L) for s in itertools.product(words, repeat=k)]
    total = np.exp(made.log_prob(Ragged.of(finished))).sum()
    values, _ = made.token_log_prob(Ragged.of([list(s) for s in itertools.product(words, repeat=L)]))
    unfinished = np.exp(values.reshape(-1, L + 1)[:, :L].sum(1)).sum()
    assert total + unfinished == pytest.approx(1, abs=1e-12)


@pytest.mark.spec("NLP-49", "NLP-58", "NLP-60", "NLP-61")
@pytest.mark.parametrize("slack", [0, 64])  # 0: what a window does not reach is dropped at every step
@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("positions", POSITIONS)
def test_generation_with_a_cache_is_the_whole_pass(positions, span, slack, monkeypatch):
    """Rows of all lengths side by side, shorter and longer than the window of 6, begun at every place."""
    monkeypatch.setattr(transformer_lm, "SLACK", slack)
    made = model(positions, span)
    random = np.random.default_rng(0)
    rows = [random.choice([0, 3, 4, 5], n).tolist() for n in (15, 0, 5, 6, 11)]
    values, sentence = made.token_log_prob(Ragged.of(rows))
    for begin in (0, 1, 4, 7):
        whole = [[BOS, *row, EOS] for row in rows]
        begun = [row[: min(begin, len(row) - 1)] for row in whole]
        state, found = made.start(begun), [[] for _ in rows]
        kept = {name: value.clone() for name, value in state.items()}
        for t in range(16):
            places = [min(len(b) + t, len(row) - 2) for b, row in zip(begun, whole, strict=True)]
            tokens = np.array([row[p] for row, p in zip(whole, places, strict=True)])
            log_probs, after = made.step(tokens, state)
            assert all(torch.equal(state[name], value) for name, value in kept.items())  # no state changes in place
            for i, (row, p) in enumerate(zip(whole, places, strict=True)):
                if p == len(begun[i]) + t:
                    found[i].append(log_probs[i, row[p + 1]])
            state, kept = after, {name: value.clone() for name, value in after.items()}
        for i, b in enumerate(begun):
            assert np.array(found[i]) == pytest.approx(values[sentence == i][len(b) :], abs=1e-9)
    assert np.exp(log_probs).sum(1) == pytest.approx(1) and (log_probs[:, BOS] == -np.inf).all()
    picked = made.select(state, np.array([2, 0, 2]))
    again, _ = made.step(np.array([3, 4, 3]), picked)
    alone, _ = made.step(np.array([0, 0, 3, 3, 3]), state)
    assert again[0] == pytest.approx(alone[2]) and again[2] == pytest.approx(alone[2])


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("positions", POSITIONS)
def test_causality_and_sentences_that_share_a_row(positions, span):
    made = model(positions, span, window=12)
    ids = torch.tensor([[BOS, 3, 4, EOS, BOS, 5, 0, 3, 4, EOS]])
    together = made.scores(ids)[0]
    torch.testing.assert_close(together[:, 4:], made.scores(ids[:, 4:])[0])  # as if nothing had stood before
    torch.testing.assert_close(together[:, :4], made.scores(ids[:, :4])[0])
    other = ids.clone()
    other[0, 7:] = torch.tensor([5, 5, 3])
    assert torch.equal(made.scores(other)[0][:, :7], together[:, :7])
    assert not torch.allclose(made.scores(other)[0][:, 7], together[:, 7])
    seen = torch.autograd.functional.jacobian(
        lambda x: made.layers[0](x, span.causal(), at=torch.arange(7))[0, 6].sum(), torch.randn(
            1, 7, 8, dtype=F64, generator=torch.Generator().manual_seed(1))
    )[0].abs().sum(1) > 0  # fmt: skip
    expected = {0: [True] * 7, 1: [True, False, False, False, True, True, True],
                2: [False, False, False, False, True, False, True],
                3: [True, False, True, False, True, True, True]}[SPANS.index(span)]  # fmt: skip
    assert seen.tolist() == expected


@pytest.mark.parametrize(("span", "most"), [(FullSpan(), 500), (WindowSpan(back=8, anchors=2), 10 + 64),
                                            (MixedSpan(windows=(4, 2), dilations=(1, 6)), 12 + 64)])  # fmt: skip
def test_memory_of_generation_is_bounded_by_the_window(span, most):
    made = model(POSITIONS[3], span, window=500)
    state, widths = made.start([[BOS, *[3] * 40], [BOS]]), []
    for t in range(300):
        _, state = made.step(np.array([3 + t % 3, 4]), state)
        widths.append(state["keys_1"].shape[2])
    assert max(widths) <= most and (widths[-1] == 341 or most < 341)
    whole = [BOS, *[3] * 40, *[3 + t % 3 for t in range(300)]]
    log_probs, _ = made.step(np.array([3]), made.select(state, np.array([0])))
    again, _ = made.step(np.array([3]), made.start([whole]))
    assert log_probs == pytest.approx(again, abs=1e-9)
    expected = made.foretold(made.scores(torch.tensor([[*whole, 3]]))[0][:, -1])
    assert log_probs == pytest.approx(expected.detach().numpy(), abs=1e-9)


@pytest.mark.spec("NLP-59")
def test_tokens_that_a_prediction_depends_on():
    text = ["a b c d e f g h i j k l m n"] * 3
    options = {"n_embedding": 8, "n_heads": 2, "n_hidden": 8, "n_layers": 3, "epochs": 1, "dtype": "float64"}
    for span, expected in ((WindowSpan(back=2, anchors=0), 7), (MixedSpan(windows=(1,), dilations=(1, 2)), 7),
                           (WindowSpan(back=4, dilation=2, anchors=0), 13), (FullSpan(), 15)):  # fmt: skip
        fitted = gnomon.TransformerLM(**options, span=span, window=15, random_state=0).fit(text)
        assert fitted.receptive_field_ == expected
        made = fitted.model_
        x = made.embedding(torch.tensor([[BOS, *range(3, 17)]])).detach().requires_grad_()
        y = x
        for layer in made.layers:
            y = layer(y, made.span.causal())
        seen = torch.nonzero(torch.autograd.grad(y[0, -1].square().sum(), x)[0][0].abs().sum(1))[:, 0].tolist()
        assert seen[-1] - seen[0] + 1 == expected


def test_a_span_that_does_not_fit_the_heads_is_refused():
    for name in ("windows", "dilations"):
        with pytest.raises(UserValueError, match=f"{name} must be as many as the heads, 4, or divide them, got 3"):
            gnomon.TransformerLM(span=MixedSpan(**{name: (1, 2, 3)})).fit(["a b"])
    assert MixedSpan().of(4) == MixedSpan(windows=(16,) * 4, dilations=(1, 4, 1, 4))


def test_a_long_sentence_is_read_in_pieces():
    made = model(window=6)
    ids = torch.tensor([[BOS, *np.random.default_rng(1).choice([0, 3, 4, 5], 14)]])
    whole = made.scores(ids)[0]
    for t in range(15):  # piece s begins at 3 s; token t belongs to the first piece that it is in, from its 4th on
        begin = 0 if t < 6 else (1 + (t - 6) // 3) * 3
        torch.testing.assert_close(whole[:, t], made.scores(ids[:, begin : t + 1])[0][:, -1])


def test_it_learns_and_generates():
    text = ["a b c d e f g"] * 30
    options = {"n_embedding": 16, "n_hidden": 32, "n_heads": 2, "n_layers": 1, "window": 9, "batch_size": 8,
               "random_state": 0, "early_stopping": "off"}  # fmt: skip
    fitted = gnomon.TransformerLM(epochs=15, learning_rate=0.02, **options).fit(text)
    assert fitted.perplexity(text) < 1.1
    assert fitted.evaluate(text)["perplexity"].value == pytest.approx(fitted.perplexity(text))
    for method in ("greedy", "beam"):
        assert fitted.generate("a b c", method=method) == ["a b c d e f g"]
    assert fitted.generate("a", 3, temperature=0.1, random_state=0) == ["a b c d e f g"] * 3
    ids, filters = fitted.vocabulary_.encode(["a"]).tolist(), {"temperature": 3.0, "top_k": 3}
    drawn = ancestral(fitted.model_, [[BOS, *ids]] * 20, gnomon.numeric.noise.Noise(7, "sample"), max_length=4,
                      vocabulary_size=10, end=EOS, **filters)  # fmt: skip
    wanted = [" ".join(["a", *fitted.vocabulary_.decode([i for i in row if i > 2 or i == 0])]) for row in drawn]
    assert fitted.generate("a", 20, random_state=7, max_length=4, **filters) == wanted
    untrained = gnomon.TransformerLM(epochs=1, learning_rate=1e-9, **options).fit(text)
    assert untrained.perplexity(text) > 4
    with pytest.raises(UserValueError, match="n_heads must divide n_embedding 16, got 3"):
        gnomon.TransformerLM(n_embedding=16, n_heads=3).fit(text)


@pytest.mark.parametrize("settings", [
    {"norm": "after", "activation": "relu", "positions": "sinusoidal"},
    {"span": WindowSpan(2), "positions": "learned", "attention_dropout": 0.2},
])  # fmt: skip
def test_other_settings_learn_too(settings):
    text = ["a b c d"] * 40
    fitted = gnomon.TransformerLM(
        n_embedding=16, n_hidden=16, n_heads=2, n_layers=1, window=6, batch_size=8, epochs=15, learning_rate=0.02,
        early_stopping="off", random_state=0, **settings,
    ).fit(text)  # fmt: skip
    assert fitted.perplexity(text) < 1.2


def test_first_weights_of_the_layers_differ_and_sizes_are_those_of_the_formula():
    fitted = gnomon.TransformerLM(n_embedding=16, n_hidden=32, n_layers=2, epochs=1, positions="learned").fit(
        ["a b"] * 9
    )
    d, f, v = 16, 32, 5
    layer = 4 * d * (d + 1) + 2 * d * f + d + f + 4 * d
    assert fitted.model_.n_parameters == v * d + 64 * d + 2 * layer + 2 * d + (d + 1) * (v - 1)
    one, two = fitted.model_.layers
    assert not torch.allclose(one.attention.query.weight, two.attention.query.weight, atol=1e-2)


@pytest.mark.spec("NLP-46")
@pytest.mark.parametrize("norm", ["before", "after"])
def test_a_norm_stands_behind_the_last_layer_where_norms_stand_before_the_parts(norm):
    """Twice the last states give the same scores only behind a norm: it has none to spare after normalized sums."""
    made = gnomon.make("transformer-lm", n_embedding=8, n_heads=2, norm=norm).make(vocabulary_size=6, dtype="float64")
    with torch.no_grad():
        for place, parameter in enumerate(made.parameters()):
            parameter.copy_(0.7 * torch.from_numpy(np.random.default_rng(place).normal(size=parameter.shape)))
    sentences = Ragged.of([[0, 3, 4], [5, 2]])
    plain = made.log_prob(sentences)
    hook = made.norm.register_forward_pre_hook(lambda layer, given: (2 * given[0],))
    twice = made.log_prob(sentences)
    hook.remove()
    assert (np.abs(twice - plain).max() < 1e-3) == (norm == "before")
