"""The classifier of texts: what padding, cuts and segments may change, and what fine-tuning keeps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import gnomon
from gnomon.data.packing import pack
from gnomon.errors import UserError, UserValueError
from gnomon.numeric.ragged import Ragged
from gnomon.systems.sequence._classifying import segments_of
from gnomon.training.optimizers import Adam

SMALL = {
    "n_embedding": 8, "n_hidden": 8, "n_heads": 2, "n_layers": 2, "window": 12, "epochs": 3, "batch_size": 4,
    "random_state": 0, "dtype": "float64", "learning_rate": 0.02,
}  # fmt: skip
TEXTS = ["sun and noon", "noon shadow of the dial", "salt of the sea", "tide", "", "sun sun sun", "the sea", "wave"]
LABELS = ["day", "day", "sea", "sea", "sea", "day", "sea", "sea"]


def small(**changes):
    return gnomon.make("transformer-classifier", **{**SMALL, **changes})


@pytest.mark.parametrize("pooling", ["mean", "first"])
@pytest.mark.parametrize("norm", ["before", "after"])
def test_a_row_alone_has_the_probabilities_that_it_has_beside_longer_ones(pooling, norm):
    model = small(pooling=pooling, norm=norm).fit(TEXTS, LABELS)
    together = model.predict_proba(TEXTS)
    alone = np.concatenate([model.predict_proba([text]) for text in TEXTS])
    np.testing.assert_allclose(alone, together, rtol=1e-12)
    assert np.ptp(together[:, 0]) > 1e-4


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_scores_are_those_of_the_encoder_written_out(pooling):
    model = small(pooling=pooling).fit(TEXTS, LABELS)
    domain, net = model.known_domain(), model.model_
    found = np.zeros((len(TEXTS), 2))
    for place, text in enumerate(TEXTS):
        words = [int(i) for i in domain.vocabulary.encode(text.split())]
        ids = torch.tensor([[2, *words, 3]])
        with torch.no_grad():
            tokens = net.encoder(ids)[0]
            pooled = torch.tanh(net.encoder.pooler(tokens[0])) if pooling == "first" else tokens.mean(0)
            found[place] = (net.head.weight @ pooled + net.head.bias).softmax(0).numpy()
    np.testing.assert_allclose(model.predict_proba(TEXTS), found, rtol=1e-12)


def test_segments_follow_from_the_packed_ids():
    random = np.random.default_rng(0)
    a, b = (Ragged.of([random.integers(5, 9, n).tolist() for n in random.integers(0, 6, 40)]) for _ in range(2))
    for packed in (pack(a, b, longest=9), pack(a, longest=7)):
        assert segments_of(torch.from_numpy(packed.ids)).tolist() == packed.segments.tolist()


@pytest.mark.spec("NLP-55")
def test_which_of_two_texts_comes_first_can_be_learned():
    """Both rows hold the same words, so that places and segments alone tell them apart."""
    pairs = [("sun", "sea"), ("sea", "sun")] * 16
    model = small(epochs=30, positions="none").fit(pairs, [0, 1] * 16)
    assert model.predict(pairs[:2]).tolist() == [0, 1]
    with pytest.raises(UserError, match="a row must hold two texts"):
        model.predict(["sun"])


def test_long_rows_are_cut_and_the_fit_says_so():
    long = ["sun " * 30 + "noon", *TEXTS[1:]]
    with pytest.warns(UserWarning, match="1 row of 8 has more than 10 words.*window=33 reads all of them"):
        model = small().fit(long, LABELS)
    np.testing.assert_array_equal(model.predict_proba([long[0]]), model.predict_proba(["sun " * 10]))


def test_emptiness_and_words_unknown_to_the_fit_have_an_answer():
    model = small().fit(TEXTS, LABELS)
    found = model.predict_proba(["", "  ", "unheard of 😀 猫"])
    np.testing.assert_array_equal(found[0], found[1])
    assert np.isfinite(found).all()
    with pytest.raises(UserValueError, match="no token"):
        small().fit(["", ""], ["a", "b"])


def test_weights_of_rows_count_like_rows():
    """Two copies of a row have the gradient of one of weight two; an empty one leaves the vocabulary as it is."""
    still = {"batch_size": None, "epochs": 2, "dropout": 0.0}
    doubled = small(**still).fit([*TEXTS, ""], [*LABELS, "sea"])
    weighted = small(**still).fit(TEXTS, LABELS, sample_weight=[1.0] * 4 + [2.0] + [1.0] * 3)
    np.testing.assert_allclose(weighted.predict_proba(TEXTS), doubled.predict_proba(TEXTS), rtol=1e-7)


# --- fine-tuning ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("NLP-55")
def test_a_fit_begins_from_encoder_and_vocabulary_of_another():
    source = small().fit(TEXTS, LABELS)
    start = gnomon.FineTuning(source, freeze=("encoder",))
    model = small(random_state=7).fit(["sun of day", "new words", "the sea"], [0, 1, 2], initial=start)
    assert model.vocabulary_.state().keys() == source.vocabulary_.state().keys()
    assert len(model.vocabulary_) == len(source.vocabulary_)
    before, after = source.model_.state(), model.model_.state()
    for name in (name for name in before if name.startswith("encoder.")):
        np.testing.assert_array_equal(after[name], before[name])
    assert model.initial_.head == "new" and after["head.weight"].shape == (3, 8)
    assert not any(name.startswith("encoder.") for name in model.initial_.fresh)


def test_rates_fall_with_depth():
    source = small(pooling="first").fit(TEXTS, LABELS)
    start = gnomon.FineTuning(source, lr_decay=0.5, head="new")
    rates = small(pooling="first").fit(TEXTS, LABELS, initial=start).initial_.rates
    layer = [next(value for name, value in rates.items() if name.startswith(f"encoder.layers.{i}.")) for i in range(2)]
    assert layer == [0.125, 0.25] and rates["encoder.tokens.weight"] == 0.0625
    assert rates["encoder.pooler.weight"] == 0.5 and "head.weight" not in rates


def test_what_another_net_has_for_its_own_task_is_left():
    """A pooler that is not asked for, and layers for other questions; but not layers of the encoder."""
    source = small(pooling="first").fit(TEXTS, LABELS)
    arrays = source.model_.state() | {"guess.weight": np.ones((3, 3))}
    model = small().fit(TEXTS, LABELS, initial=source)
    assert not any("pooler" in name for name in model.initial_.copied)
    assert "guess.weight" not in model.usable_weights(model.model_, arrays)
    with pytest.raises(UserValueError, match="which this network has not"):
        small(n_layers=1).fit(TEXTS, LABELS, initial=source)
    with pytest.raises(UserValueError, match="fresh for layers of its own"):
        small(pooling="first").fit(TEXTS, LABELS, initial=model)
    start = gnomon.FineTuning(model, fresh=("encoder.pooler",))
    assert "encoder.pooler.weight" in small(pooling="first").fit(TEXTS, LABELS, initial=start).initial_.fresh


def test_another_unit_than_the_source_has_is_refused():
    source = small(unit="char", window=40).fit(TEXTS, LABELS)
    with pytest.raises(UserValueError, match="unit must be that of the fitted transformer-classifier, 'char'"):
        small(window=40).fit(TEXTS, LABELS, initial=source)


TOPICS, WORDS = 16, 200
HALF = np.random.default_rng(5).permutation(TOPICS) % 2
"""The label of each topic: with an encoder of width 8 no plane parts the topics of 1 from those of 0."""


def topical(n, seed):
    """Texts of 6 to 11 words, four of five of the text's topic, and the topic of each."""
    random = np.random.default_rng(seed)
    topic, texts = random.integers(0, TOPICS, n), []
    for one in topic:
        k = random.integers(6, 12)
        own = WORDS * one + random.integers(0, WORDS, k)
        words = np.where(random.random(k) < 0.8, own, random.integers(0, TOPICS * WORDS, k))
        texts.append(" ".join(f"w{word}" for word in words))
    return texts, topic


@pytest.mark.slow
@pytest.mark.spec("NLP-55")
@pytest.mark.spec("DLN-223")
def test_what_was_learned_before_helps_where_labels_are_few():
    """100 labels, mean of 5 seeds: fine-tuned whole > output layer on the frozen encoder > from first values of chance.

    The encoder has learned the topics; the label is that of a half of them, which an affine layer on its 8 numbers
    finds in part, and one whose encoder learns along almost. 3200 words are too many for 100 texts to teach. Without
    Adam's bias correction the first steps are too long for what was learned: the mean falls, the seeds differ more.
    """
    net = {"n_embedding": 8, "n_hidden": 32, "n_heads": 2, "n_layers": 1, "window": 16}
    source = gnomon.make("transformer-classifier", **net, epochs=6, learning_rate=0.02, random_state=0)
    before = source.fit(*topical(4000, 0)).model_.state()
    texts, topic = topical(1000, 1)
    scores = np.zeros((5, 4))
    for seed in range(5):
        few, labels = topical(100, 10 + seed)
        starts = (source, gnomon.FineTuning(source, freeze=("encoder",)), None, source)
        for place, start in enumerate(starts):
            settings = net | {"epochs": 30, "batch_size": 16, "learning_rate": 0.01, "random_state": seed}
            model = gnomon.make("transformer-classifier", **settings, optimizer=Adam(bias_correction=place < 3))
            scores[seed, place] = model.fit(few, HALF[labels], initial=start).score(texts, HALF[topic])
            if place == 1:
                after = model.model_.state()
                frozen = [name for name in before if name.startswith("encoder.")]
                assert frozen and all(np.array_equal(after[name], before[name]) for name in frozen)
    tuned, frozen_encoder, chance, uncorrected = scores.mean(0)
    assert tuned > frozen_encoder + 0.03, scores
    assert tuned > uncorrected + 0.03 and scores[:, 3].std() > 1.2 * scores[:, 0].std(), scores
    assert frozen_encoder > chance + 0.03, scores


def test_a_learned_unit_is_kept_with_the_model(tmp_path):
    pytest.importorskip("tokenizers")
    model = small(unit="bpe", vocabulary_size=280, window=40).fit(TEXTS, LABELS)
    loaded = gnomon.load(model.save(tmp_path / "run"))
    np.testing.assert_array_equal(loaded.predict_proba(["noon sea"]), model.predict_proba(["noon sea"]))
    tuned = small(unit="bpe", vocabulary_size=280, window=40).fit(["a b", "c"], [0, 1], initial=loaded)
    assert tuned.vocabulary_.tokens == model.vocabulary_.tokens


def test_rows_that_judge_are_read_as_the_training_rows_are():
    model = small(min_count=2).fit(TEXTS, LABELS, validation=(TEXTS, LABELS))
    scores = model.score(TEXTS, LABELS), model.predict_proba(TEXTS)
    alone = small(min_count=2).fit(TEXTS, LABELS)
    np.testing.assert_array_equal(scores[1], alone.predict_proba(TEXTS))  # they do not train
    right = -np.log(scores[1][np.arange(len(LABELS)), np.searchsorted(model.classes_, LABELS)]).mean()
    assert model.history_["validation_cross_entropy"][-1] == pytest.approx(right, rel=1e-9)
    with pytest.raises(UserError, match=r"a row must be a text, got \('a', 'b'\) \(validation: row 0\)"):
        small().fit(TEXTS, LABELS, validation=([("a", "b")], ["day"]))


def test_texts_may_come_one_by_one_but_not_in_the_order_of_chance():
    model = small().fit((text for text in TEXTS), LABELS)
    np.testing.assert_array_equal(model.predict_proba(TEXTS), small().fit(TEXTS, LABELS).predict_proba(TEXTS))
    with pytest.raises(UserError, match="X must be a list of texts, got set"):
        small().fit(set(TEXTS), LABELS)
