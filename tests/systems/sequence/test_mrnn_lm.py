"""The multiplicative recurrent language model: limits in which it is another one, bits, texts of whole characters."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

import gnomon
from gnomon.data.text import tokenize
from gnomon.nn.multiplicative import MultiplicativeRNN
from gnomon.nn.recurrent import RNN
from gnomon.numeric.noise import Noise
from gnomon.numeric.ragged import Ragged
from gnomon.systems.sequence._model import RecurrentLanguageModel

F64 = torch.float64
MIXED = ["naïve café", "中文字符", "smile 😀 ok", "Ωμέγα", "plain text"]


def drawn(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def filled(layer):
    with torch.no_grad():
        for place, parameter in enumerate(layer.parameters()):
            parameter.copy_(0.5 * drawn(*parameter.shape, seed=place))
    return layer


@pytest.mark.spec("PRA-172")
def test_a_step_is_its_equation():
    layer, x, h = filled(MultiplicativeRNN(3, 4, 5, dtype=F64)), drawn(2, 3), drawn(2, 4, seed=2)
    for row in range(2):
        f = torch.diag(layer.weight_fx @ x[row]) @ layer.weight_fh @ h[row]
        after = torch.tanh(layer.weight_h @ f + layer.weight_x @ x[row] + layer.bias)
        assert torch.allclose(layer.step(x, h)[row], after, rtol=1e-14, atol=1e-15)
    zero = torch.tanh(torch.nn.functional.linear(x, layer.weight_x, layer.bias))
    assert torch.equal(layer.step(x, layer.initial(2)), zero)  # without a state a dense layer


@pytest.mark.spec("PRA-172")
def test_with_a_constant_factor_it_is_the_plain_network():
    tokens = torch.tensor([[1, 4, 3, 5, 4], [1, 3, 3, 4, 2]])
    one = filled(RecurrentLanguageModel(6, 6, MultiplicativeRNN(6, 4, 5, dtype=F64), dtype=F64))
    plain = RecurrentLanguageModel(6, 6, RNN(6, 4, dtype=F64), dtype=F64)
    with torch.no_grad():
        one.embedding.weight.copy_(torch.eye(6, dtype=F64))  # tokens as one-hot vectors
        one.layer.weight_fx.fill_(1.0)
        shared = {name: value for name, value in one.state_dict().items() if "layer.weight" not in name}
        weights = {"layer.weight_x": one.layer.weight_x, "layer.weight_h": one.layer.weight_h @ one.layer.weight_fh}
        plain.load_state_dict(shared | weights)
        scores, state = one.scores(tokens)
        expected, last = plain.scores(tokens)
    assert torch.allclose(scores, expected, rtol=1e-13, atol=1e-14)
    assert torch.allclose(state, last, rtol=1e-13, atol=1e-14)
    text = Ragged.of([[3, 4, 5], [], [5]])
    assert one.log_prob(text) == pytest.approx(plain.log_prob(text), rel=1e-13)
    with torch.no_grad():
        one.layer.weight_fx[:, 3] = 2.0  # one token with a map of its own
    changed, _ = one.scores(tokens)
    assert torch.equal(changed[0, :2], scores[0, :2]) and not torch.allclose(changed[0, 2], expected[0, 2])


@pytest.mark.spec("PRA-172")
def test_without_context_bits_are_the_entropy_of_the_characters():
    text = ["abracadabra", "naïve 中文"]
    options = {
        "n_hidden": 3,
        "n_factors": 2,
        "n_embedding": 2,
        "epochs": 1,
        "batch_size": 1,
        "dropout": 0.0,
        "unknown": 0.0,
    }
    model = gnomon.MRNNLM(**options, early_stopping="off", dtype="float64", random_state=0).fit(text)
    assert model.model_.layer.weight_h.shape == (3, 2)  # hidden units from factors
    counts = Counter("".join(text)) | Counter({"</s>": len(text)})
    p = np.array(list(counts.values())) / sum(counts.values())
    entropy = float(-(p * np.log2(p)).sum())
    names = ["<unk>", "</s>", *model.vocabulary_.tokens]
    with torch.no_grad():
        model.model_.head.weight.zero_()
        model.model_.head.bias.copy_(torch.log(torch.tensor([float(counts.get(name, 0)) for name in names], dtype=F64)))
    n_chars, n_bytes = sum(len(one) + 1 for one in text), sum(len(one.encode()) + 1 for one in text)
    found = model.evaluate(text)
    assert found["bits_per_char"].value == pytest.approx(entropy, rel=1e-12)
    assert found["bits_per_byte"].value == pytest.approx(entropy * n_chars / n_bytes, rel=1e-12)
    assert (found["bits_per_char"].unit, found["bits_per_char"].kind) == ("bits per character", "exact")
    assert model.bits_per_char(text).value == found["bits_per_char"].value
    assert model.bits_per_byte(text).value == found["bits_per_byte"].value
    counted = gnomon.NGram(n=1, unit="char", smoothing="none").fit(text)
    assert counted.bits_per_char(text).value == pytest.approx(entropy, rel=1e-12)
    # no other bias does better: the gradient is 0
    bias = model.model_.head.bias
    bias.grad = None  # that of the fit
    codes = torch.tensor([names.index(one) for line in text for one in [*line, "</s>"]])
    seen = torch.isfinite(bias.detach())
    torch.nn.functional.cross_entropy(bias.expand(len(codes), -1), codes).backward()
    assert bias.grad[seen].abs().max() < 1e-12


@pytest.mark.spec("PRA-172")
@pytest.mark.parametrize("unit", ["char", "byte"])
def test_a_string_of_period_3_is_memorized(unit):
    text = ["aé中" * 60]
    options = {"n_hidden": 16, "n_factors": 16, "n_embedding": 8, "window": 20, "batch_size": 3, "learning_rate": 0.02}
    model = gnomon.MRNNLM(**options, unit=unit, epochs=40, dropout=0.0, early_stopping="off", random_state=0).fit(text)
    values, _ = model.model_.token_log_prob(model._encoded(text))
    assert -values[1:-1].sum() / np.log(2) / 180 < 0.02  # the first and the end are told by nothing
    assert model.bits_per_char(text).value < 0.15
    assert model.generate("aé", method="greedy", max_length=12)[0].startswith("aé中aé中")


@pytest.mark.spec("PRA-172")
@pytest.mark.parametrize("unit", ["byte", "bpe", "byte-bpe", "marked-bpe"])
def test_what_is_written_is_utf8(unit, monkeypatch):
    if unit != "byte":
        pytest.importorskip("tokenizers")
    options = {"n_hidden": 4, "n_factors": 4, "n_embedding": 4, "batch_size": 4, "epochs": 1, "vocabulary_size": 256}
    models = [
        gnomon.MRNNLM(**options, unit=unit, early_stopping="off", random_state=0).fit(MIXED * 2),
        gnomon.NGram(n=2, unit=unit, smoothing="none", vocabulary_size=256).fit(MIXED * 2),
    ]
    for model in models:
        for length in (1, 2, 3, 7, 20):
            texts = model.sample(40, random_state=length, max_length=length)
            texts += model.generate("na", 20, random_state=1, max_length=length, temperature=3.0, top_p=0.95)
            texts += model.generate("", method="greedy", max_length=length)
            texts += model.generate("中", 3, method="beam", width=4, max_length=length)
            assert all("\ufffd" not in one and one.encode() for one in texts if one)
            assert all(one.startswith("na") for one in texts[40:60])
    assert any(not one.isascii() for one in models[0].sample(40, random_state=0, max_length=20))
    monkeypatch.setattr("gnomon.system.language.spellings", lambda *given: None)
    assert any("\ufffd" in one for one in models[0].sample(40, random_state=0, max_length=20))


@pytest.mark.spec("PRA-172")
def test_bits_compare_models_of_unlike_units():
    text = ["naïve 中文", "smile 😀"]
    n_chars, n_bytes = sum(len(one) + 1 for one in text), sum(len(one.encode()) + 1 for one in text)
    for unit in ("char", "byte", "word"):
        model = gnomon.NGram(n=2, unit=unit, smoothing="additive").fit(text)
        bits, found = -model.log_prob(text).sum() / np.log(2), model.evaluate(text)
        assert found["bits_per_char"].value == pytest.approx(bits / n_chars, rel=1e-12)
        assert found["bits_per_byte"].value == pytest.approx(bits / n_bytes, rel=1e-12)
        assert found["bits_per_char"].data_space == "characters of text"
    assert found["bits_per_char"].against(found["bits_per_char"]) == "undecided"
    assert model.evaluate(["naïve unseen"])["bits_per_char"].kind == "lower bound"


def labeled(n, random):
    """Texts of names and other words, with the byte where each name begins, its bytes, and what it names."""
    names = {"Ann": "person", "Zoë": "person", "巴黎": "place", "Rom": "place"}
    found = {}
    for _ in range(n):
        text, spans = "", []
        for word in random.choice([*names, "in", "的", "a", "wo"], size=random.integers(1, 3)).tolist():
            text += " " if text else ""
            if word in names:
                spans.append((len(text.encode()), len(word.encode()), names[word]))
            text += word
        found[text] = spans
    return [(text, found[text]) for text in random.permutation(list(found)).tolist()]


@pytest.mark.spec("PRA-172")
def test_spans_are_labeled_from_bytes():
    """The byte model of the row: bytes are read, begin, length and label of each span are written."""
    some = labeled(300, np.random.default_rng(0))
    symbols = [[one for at, size, kind in spans for one in (f"{at} ", f"{size} ", f"{kind} ")] for _, spans in some]
    pairs = [(tokenize(text, "byte"), said or ["none"]) for (text, _), said in zip(some, symbols, strict=True)]
    model = gnomon.Seq2Seq(
        unit="byte", n_hidden=48, n_embedding=24, epochs=60, batch_size=16, learning_rate=0.01, dropout=0.0,
        early_stopping="off", random_state=0,
    ).fit(pairs[15:])  # fmt: skip
    said = [one.split() for one in model.translate([text for text, _ in pairs[:15]], method="greedy")]
    found = [{(int(a), int(b), kind) for a, b, kind in zip(*[iter(one)] * 3, strict=False)} for one in said]
    wanted = [set(spans) for _, spans in some[:15]]
    right, many = sum(len(a & b) for a, b in zip(found, wanted, strict=True)), sum(map(len, found))
    f1 = 2 * right / (many + sum(map(len, wanted)))
    assert f1 > 0.9  # texts that the fit has not seen
    cut = [
        text.encode()[at : at + size].decode("utf-8", "replace")
        for (text, _), spans in zip(some, found, strict=False)
        for at, size, _ in spans
    ]
    assert np.mean([one in {"Ann", "Zoë", "巴黎", "Rom"} for one in cut]) > 0.9


def test_first_weights_keep_the_length_of_the_state_on_average():
    layer = MultiplicativeRNN(64, 200)
    layer.initialize(Noise(0, "layer"))
    x = drawn(500, 64).float()
    x, h = x / x.norm(dim=1, keepdim=True), drawn(500, 200, seed=2).float()
    with torch.no_grad():
        mapped = (x @ layer.weight_fx.T * (h @ layer.weight_fh.T)) @ layer.weight_h.T
    assert (mapped.norm(dim=1) / h.norm(dim=1)).square().mean().item() == pytest.approx(1, abs=0.05)
