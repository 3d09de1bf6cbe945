"""BERT: what is learned, its verbs against sums by hand, transformers' heads with the same weights."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch

from gnomon import BERT, load
from gnomon.data.batches import Batches
from gnomon.data.layouts import Rows
from gnomon.data.packing import MASK, pack
from gnomon.errors import UserError
from gnomon.numeric.noise import Noise
from gnomon.numeric.ragged import Ragged
from gnomon.systems.sequence._published import own_names
from gnomon.training.group import current

WORDS = ("a b c", "d e f", "g h i", "j k l")
TEXT = [line for _ in range(12) for line in (*WORDS[:2], "", *WORDS[2:], "")]
SMALL = {
    "n_embedding": 16, "n_hidden": 32, "n_heads": 2, "n_layers": 1, "window": 12, "batch_size": 16, "dropout": 0.0,
    "learning_rate": 0.01, "random_state": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def fitted():
    return BERT(**SMALL, epochs=250).fit(TEXT)


@pytest.mark.spec("DLN-220", "DLN-221", "NLP-51")
def test_a_tiny_text_is_memorized():
    alone = [line for one in WORDS * 12 for line in (one, "")]
    model = BERT(**SMALL, epochs=100, next_sentence=False).fit(alone)
    assert model.evaluate(alone)["masked_accuracy"].value > 0.95
    assert model.fill_mask("d <mask> f")[0][0][0] == "e" and model.fill_mask("j k <mask>", k=1)[0][0][0] == "l"
    assert sum(p for _, p in model.fill_mask(["g", "<mask>", "i"], k=12)[0]) == pytest.approx(1, abs=1e-3)
    first, last = (model.history_["masked_cross_entropy"][i] for i in (0, -1))
    assert last < 0.2 * first


@pytest.mark.spec("NLP-53", "DLN-222")
def test_what_follows_is_told(fitted):
    assert fitted.evaluate(TEXT)["next_accuracy"].value > 0.95
    found = fitted.predict_is_next([("a b c", "d e f"), ("a b c", "j k l"), ("g h i", "j k l"), ("g h i", "d e f")])
    assert (found[[0, 2]] > 0.8).all() and (found[[1, 3]] < 0.2).all()


def losses(text, **options):
    """The terms before the first update."""
    system = BERT(**(SMALL | options), epochs=1)
    examples = system.ingest(text)
    system.arguments_ = system.arguments(examples)
    model = system.begun(examples, Noise(0, "fit"))
    objective = system.make_objective()
    batches = Batches(examples, Rows(None, shuffle=False))
    objective.begin(model, batches, Noise(1, "begin"), current())
    return objective(model, batches.step(0, 0), noise=Noise(2, "fit"), phase="fit", group=current()), model


@pytest.mark.spec("NLP-51", "NLP-53", "DLN-220")
def test_at_the_start_nothing_is_known():
    random = np.random.default_rng(0)
    text = [" ".join(map(str, random.integers(0, 200, 6))) if i % 5 else "" for i in range(600)]
    loss, model = losses(text, n_embedding=64, n_heads=4, window=32)
    terms = {name: term.sum.item() / term.weight for name, term in loss.terms.items()}
    assert terms["masked_cross_entropy"] == pytest.approx(math.log(model.encoder.tokens.weight.shape[0]), abs=0.1)
    assert terms["next_cross_entropy"] == pytest.approx(math.log(2), abs=0.2)
    assert loss.total().item() == pytest.approx(sum(terms.values()), rel=1e-6)  # both together


@pytest.mark.spec("NLP-51", "DLN-220")
def test_a_word_has_another_vector_in_another_place(fitted):
    one, two = (fitted.encode([text])[0] for text in ("a b c", "g b i"))
    assert one.shape == (3, 16) and np.abs(one[1] - two[1]).max() > 0.1
    behind = fitted.encode(["a b k"])[0]
    assert np.abs(one[0] - behind[0]).max() > 1e-3  # what stands behind is seen


@pytest.mark.spec("NLP-52")
def test_pseudo_log_likelihood_hides_one_token_after_the_other(fitted):
    texts = ["a b c", "d", "", "g h i j k l a b c d e f"]
    found = fitted.pseudo_log_likelihood(texts)
    for text, value in zip(texts, found, strict=True):
        total, ids = 0.0, fitted.vocabulary_.encode(text.split()).tolist()
        for piece in (ids[:10], ids[10:]):
            for t, wanted in enumerate(piece):
                packed = pack(Ragged.of([[*piece[:t], MASK, *piece[t + 1 :]]]))
                with torch.no_grad():
                    tokens = fitted.model_.encoder(torch.from_numpy(packed.ids))
                    log_p = fitted.model_.head(tokens)[0, t + 1].double().log_softmax(0)
                total += float(log_p[wanted])
        assert value == pytest.approx(total, abs=1e-4)
    assert found[2] == 0


@pytest.mark.spec("NLP-51")
def test_vectors_of_texts(fitted):
    texts = ["a b c", "", "g h i j k l a b c d e f", "nothing known"]
    found, tokens = fitted.transform(texts), fitted.encode(texts)
    assert found.shape == (4, 16) and [len(one) for one in tokens] == [3, 0, 12, 2]
    for row, vectors in zip(found, tokens, strict=True):
        np.testing.assert_allclose(row, vectors.mean(0) if len(vectors) else 0, atol=1e-5)
    np.testing.assert_allclose(fitted.transform(["a b c"])[0], found[0], atol=1e-6)
    first = BERT(**SMALL, epochs=1, pooling="first").fit(TEXT)
    packed = pack(Ragged.of([first.vocabulary_.encode(["a", "b"])]))
    with torch.no_grad():
        wanted = first.model_.encoder.pool(first.model_.encoder(torch.from_numpy(packed.ids)))
    np.testing.assert_allclose(first.transform(["a b"]), wanted.numpy(), atol=1e-6)


@pytest.mark.spec("DLN-220")
def test_saved_and_loaded(fitted, tmp_path):
    fitted.save(tmp_path / "run")
    again = load(tmp_path / "run")
    assert (again.transform(["a b"]) == fitted.transform(["a b"])).all()
    assert again.fill_mask("a <mask> c") == fitted.fill_mask("a <mask> c")


@pytest.mark.spec("NLP-53")
def test_one_document_leaves_out_what_follows():
    with pytest.warns(UserWarning, match="separate documents by blank lines"):
        model = BERT(**SMALL, epochs=1).fit(["a b c", "d e f"])
    assert "next_cross_entropy" not in model.history_
    with pytest.raises(UserError, match="has not learned what follows what"):
        model.predict_is_next([("a", "b")])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BERT(**SMALL, epochs=1, next_sentence=False).fit(["a b c", "d e f"])


def test_forms_of_a_text_with_documents():
    lists = [["a", "b"], ["c"], [], ["d", "e"], ["f"]]
    forms = ["a b\nc\n\nd e\nf", ["a b", "c", "", "d e", "f"], ["a b\nc", "d e\nf"], lists]
    found = [BERT(**SMALL, epochs=1).fit(one).transform(["a b"]) for one in forms]
    assert all((one == found[0]).all() for one in found)


@pytest.mark.parametrize(
    ("text", "message"), [("a b", "at least one <mask>"), ("<mask> " * 11, "at most 10 tokens"), ("", "at least one")]
)
def test_what_cannot_be_filled_in_is_refused(fitted, text, message):
    with pytest.raises(UserError, match=message):
        fitted.fill_mask(text)


@pytest.mark.parametrize("unit", ["char", "byte"])
def test_units_and_mixed_scripts(unit):
    text = ["日本 sun 🌞", "ночь и день", "é e\u0301"] * 20
    model = BERT(**SMALL, epochs=1, unit=unit).fit(text)
    assert np.isfinite(model.transform([*text[:3], "", "🌍" * 50])).all()
    assert len(model.fill_mask("s<mask>n", k=3)[0]) == 3


@pytest.mark.parametrize("unit", ["wordpiece", "bpe"])
def test_pieces_that_are_learned(unit, tmp_path):
    pytest.importorskip("tokenizers")
    model = BERT(**SMALL | {"window": 24}, epochs=1, unit=unit).fit(["the sun shines", "", "shadows\nof the sun"] * 9)
    model.save(tmp_path / "run")
    again = load(tmp_path / "run")
    assert (again.transform(["the sun", "unseen"]) == model.transform(["the sun", "unseen"])).all()
    assert len(model.fill_mask("the <mask> of")[0]) == 5 and model.predict_is_next([("the", "sun")]).shape == (1,)


@pytest.mark.spec("NLP-51", "DLN-220")
def test_heads_are_those_of_transformers():
    transformers = pytest.importorskip("transformers")
    _, model = losses(TEXT, dtype="float64")
    n_ids = model.encoder.tokens.weight.shape[0]
    config = transformers.BertConfig(
        vocab_size=n_ids, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=12, initializer_range=0.4,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = transformers.BertForPreTraining(config).double().eval()
    state = theirs.state_dict()
    names = own_names(state)
    model.load_state_dict({own: state[name] for own, name in names.items()})
    packed = pack(Ragged.of([[5, 6, 7], [8]]), Ragged.of([[9], [10, 11]]))
    ids, segments, lengths = map(torch.from_numpy, packed)
    mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
    with torch.no_grad():
        wanted = theirs(input_ids=ids, token_type_ids=segments, attention_mask=mask)
        tokens = model.encoder(ids, segments, lengths)
        torch.testing.assert_close(model.head(tokens)[mask.bool()], wanted.prediction_logits[mask.bool()])
        torch.testing.assert_close(model.follows(model.encoder.pool(tokens)), wanted.seq_relationship_logits)


@pytest.mark.spec("NLP-52")
def test_whole_words_are_chosen_where_that_is_asked_for():
    pytest.importorskip("tokenizers")
    text = ["sundials shadowed sunlight", "", "lighted dials unshadowed"] * 9
    system = BERT(**SMALL | {"window": 60}, epochs=1, unit="wordpiece", whole_words=True, min_count=99)
    examples = system.ingest(text)
    system.arguments_ = system.arguments(examples)
    model, objective = system.begun(examples, Noise(0, "fit")), system.make_objective()
    batches = Batches(examples, Rows(None, shuffle=False))
    objective.begin(model, batches, Noise(1, "begin"), current())
    names = np.array(model.vocabulary.decode(range(len(model.vocabulary))))
    packed = pack(examples["X"])
    found = objective.masked(model, packed, batches.step(0, 0), Noise(2, "fit"))[0]
    inside = np.char.startswith(names[packed.ids], "##")[:, 1:]
    chosen = (found.labels != -100).numpy()
    assert inside.sum() > 20 and (chosen[:, 1:] == chosen[:, :-1])[inside].all() and 0 < chosen.mean() < 0.5
