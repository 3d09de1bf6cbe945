"""ELECTRA: what is drawn, what counts as replaced, losses by hand, transformers' networks with the same weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from gnomon import ELECTRA, load
from gnomon.data.batches import Batches
from gnomon.data.layouts import Rows
from gnomon.data.packing import pack
from gnomon.nn.text_encoder import ReplacedHead
from gnomon.numeric.noise import Noise
from gnomon.numeric.ragged import Ragged
from gnomon.objectives.masked_language import IGNORED, mask_tokens
from gnomon.objectives.replaced_tokens import corrupt, replaced_loss
from gnomon.systems.sequence._published import own_names
from gnomon.training.group import current

WORDS = ("a b c", "d e f", "g h i", "j k l")
TEXT = [line for one in WORDS * 12 for line in (one, "")]
SMALL = {
    "n_embedding": 16, "n_hidden": 32, "n_heads": 2, "n_layers": 1, "window": 12, "batch_size": 16, "dropout": 0.0,
    "learning_rate": 0.01, "random_state": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def fitted():
    return ELECTRA(**SMALL | {"masking": 0.3}, epochs=80).fit(TEXT)


def rows(n, purpose="drawn", seed=0):
    return Noise(seed, purpose).rows(np.arange(n))


@pytest.mark.spec("NLP-56")
def test_what_is_drawn_stands_at_hidden_places_alone():
    n, ids = 4000, torch.tensor([[2, 7, 8, 9, 3, 0]]).repeat(4000, 1)
    found = mask_tokens(ids, rows(n, "mask"), 10, fraction=0.4)
    chosen = found.labels != IGNORED
    p = torch.tensor([0, 0, 0, 0, 0, 0.1, 0.2, 0.3, 0.25, 0.15], dtype=torch.float64)
    scores = p.log().repeat(int(chosen.sum()), 1).requires_grad_()
    drawn, replaced = corrupt(found, scores, rows(n), 6)
    assert not drawn.requires_grad and not replaced.requires_grad  # nothing flows through what is drawn
    assert drawn[~chosen].equal(ids[~chosen]) and not replaced[~chosen].any()
    assert replaced.equal(drawn != ids)  # a coincidence counts as original
    counts = torch.bincount(drawn[chosen], minlength=10).double()
    total = counts.sum()
    assert not counts[:5].any()
    expected = total * p[5:]
    assert ((counts[5:] - expected) ** 2 / expected).sum() < 35  # chi-square of 4 degrees: a false alarm in 1e6
    for t in (1, 2, 3):
        share = replaced[:, t][chosen[:, t]].double().mean()
        m = int(chosen[:, t].sum())
        assert abs(share - (1 - p[ids[0, t]])) < 6 * math.sqrt(0.25 / m)


@pytest.mark.spec("NLP-57")
def test_a_generator_that_is_always_right_replaces_nothing():
    ids = torch.randint(5, 30, (20, 9), generator=torch.Generator().manual_seed(0))
    found = mask_tokens(ids, rows(20, "mask"), 30, fraction=0.5)
    scores = 60.0 * nn.functional.one_hot(found.labels[found.labels != IGNORED], 30).double()
    drawn, replaced = corrupt(found, scores, rows(20), 9)
    assert drawn.equal(ids) and not replaced.any()


def first_loss(**options):
    system = ELECTRA(**(SMALL | options), epochs=1)
    examples = system.ingest(TEXT)
    system.arguments_ = system.arguments(examples)
    model = system.begun(examples, Noise(0, "fit"))
    objective = system.make_objective()
    batches = Batches(examples, Rows(None, shuffle=False))
    objective.begin(model, batches, Noise(1, "begin"), current())
    return objective(model, batches.step(0, 0), noise=Noise(2, "fit"), phase="fit", group=current()), model, examples


@pytest.mark.spec("NLP-57")
def test_at_the_start_all_is_even_and_all_tokens_count():
    loss, model, examples = first_loss()
    replaced, masked = (loss.terms[name] for name in ("replaced_cross_entropy", "masked_cross_entropy"))
    assert replaced.sum.item() / replaced.weight == pytest.approx(math.log(2), abs=1e-6)
    assert replaced.weight == sum(len(one) + 2 for one in examples["X"]) and replaced.scale == 50
    assert masked.sum.item() / masked.weight == pytest.approx(math.log(17), abs=0.1)
    total = 50 * replaced.sum / replaced.weight + masked.sum / masked.weight
    torch.testing.assert_close(loss.total(), total)
    assert model.generator.tokens is model.encoder.tokens and model.generator.places is model.encoder.places
    assert len({id(one) for one in model.parameters()}) == len(list(model.parameters()))


@pytest.mark.spec("NLP-57")
def test_the_second_loss_does_not_move_the_generator():
    loss, model, _ = first_loss()
    own = [p for name, p in model.named_parameters() if name.startswith(("generator.layers", "head"))]
    assert len(own) > 4
    found = torch.autograd.grad(loss.terms["replaced_cross_entropy"].sum, own, allow_unused=True, retain_graph=True)
    assert all(one is None for one in found)
    found = torch.autograd.grad(loss.terms["masked_cross_entropy"].sum, own, allow_unused=True)
    assert sum(one is not None and bool(one.abs().max() > 0) for one in found) > 4


@pytest.mark.spec("NLP-57")
def test_the_loss_by_hand():
    logits = torch.tensor([[0.5, -1.0, 2.0], [0.1, 0.2, 9.0]], dtype=torch.float64)
    replaced = torch.tensor([[True, False, False], [False, True, True]])
    inside = torch.tensor([[True, True, True], [True, True, False]])
    p = torch.sigmoid(logits)
    wanted = -(p[0, 0].log() + (1 - p[0, 1]).log() + (1 - p[0, 2]).log() + (1 - p[1, 0]).log() + p[1, 1].log())
    term = replaced_loss(logits, replaced, inside, 50.0)
    torch.testing.assert_close(term.sum, wanted)
    assert term.weight == 5 and term.scale == 50


@pytest.mark.spec("NLP-57")
def test_planted_substitutions_are_found(fitted):
    right, wrong = fitted.predict_replaced(["a b c", "d e f"]), fitted.predict_replaced(["a h c", "d e a"])
    assert wrong[0][1] > max(right[0]) and wrong[1][2] > max(right[1])
    scores = fitted.evaluate(TEXT)
    assert scores["replaced_auc"].value > 0.8 and set(scores) >= {"masked_log_likelihood", "replaced_accuracy"}


@pytest.mark.spec("NLP-56")
def test_corrupted_texts(fitted):
    texts = ["a b c", "", "d e f g h i j k l a b c d e f"] * 20
    found, replaced = fitted.corrupt(texts, random_state=3)
    again, _ = fitted.corrupt(texts, random_state=3)
    assert found == again
    for text, tokens, marks in zip(texts, found, replaced, strict=True):
        assert [one != other for one, other in zip(text.split(), tokens, strict=True)] == marks.tolist()


def test_saved_and_loaded(fitted, tmp_path):
    fitted.save(tmp_path / "run")
    again = load(tmp_path / "run")
    for one, other in zip(again.predict_replaced(["a b", ""]), fitted.predict_replaced(["a b", ""]), strict=True):
        assert (one == other).all()
    assert (again.transform(["a b"]) == fitted.transform(["a b"])).all()


@pytest.mark.spec("NLP-56", "NLP-57")
def test_networks_are_those_of_transformers():
    transformers = pytest.importorskip("transformers")
    _, model, _ = first_loss(dtype="float64", embedding_width=6, generator_share=0.5)
    sizes = {
        "vocab_size": 17, "embedding_size": 6, "num_hidden_layers": 1, "max_position_embeddings": 12,
        "initializer_range": 0.4,
    }  # fmt: skip
    big = transformers.ElectraConfig(**sizes, hidden_size=16, num_attention_heads=2, intermediate_size=32)
    small = transformers.ElectraConfig(**sizes, hidden_size=8, num_attention_heads=1, intermediate_size=16)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = transformers.ElectraForPreTraining(big).double().eval()
        masked = transformers.ElectraForMaskedLM(small).double().eval()
    masked.electra.embeddings = theirs.electra.embeddings
    masked.generator_lm_head.weight = theirs.electra.embeddings.word_embeddings.weight
    state, own = theirs.state_dict(), own_names(theirs.state_dict())
    taken = {name: state[called] for name, called in own.items()}
    state, own = masked.state_dict(), own_names(masked.state_dict())
    taken |= {
        name.replace("encoder.", "generator.", 1): state[called]
        for name, called in own.items()
        if name != "generator_lm_head.weight"
    }
    model.load_state_dict(taken)
    packed = pack(Ragged.of([[5, 6, 7], [8]]))
    ids, segments, lengths = map(torch.from_numpy, packed)
    mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
    with torch.no_grad():
        wanted = theirs(input_ids=ids, token_type_ids=segments, attention_mask=mask).logits
        proposed = masked(input_ids=ids, token_type_ids=segments, attention_mask=mask).logits
        inside = mask.bool()
        torch.testing.assert_close(model.replaced(model.encoder(ids, segments, lengths))[inside], wanted[inside])
        found = model.head(model.generator(ids, segments, lengths))
        torch.testing.assert_close(found[inside], proposed[inside])


@pytest.mark.spec("NLP-57")
def test_parameters_of_the_published_small_network():
    """ELECTRA-small: 30,522 word pieces of width 128, twelve layers of width 256."""
    with torch.device("meta"):
        system = ELECTRA(n_embedding=256, embedding_width=128, n_heads=4, n_hidden=1024, n_layers=12, window=512)
        encoder = system.make_encoder(30_522, torch.float32, pooled=False, embedding_width=128)
        head = ReplacedHead(256, nn.GELU())
    sizes = [sum(p.numel() for p in one.parameters()) for one in (encoder, head)]
    assert sum(sizes) == 13_549_057  # 14 million, as published
    transformers = pytest.importorskip("transformers")
    with torch.device("meta"):  # whose defaults are ELECTRA-small
        theirs = transformers.ElectraForPreTraining(transformers.ElectraConfig())
    assert sum(sizes) == sum(p.numel() for p in theirs.parameters())
