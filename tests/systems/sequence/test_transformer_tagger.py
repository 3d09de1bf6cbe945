"""The tagger of words: where tags stand, what padding and long texts may change, and that it looks around."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import gnomon
from gnomon.data.packing import CLS, SEP
from gnomon.data.tagged import TaggedTexts, WordTags
from gnomon.errors import UserError, UserValueError
from gnomon.evaluation.tagging import tagged_spans, tagging_scores

SMALL = {
    "n_embedding": 8, "n_hidden": 8, "n_heads": 2, "n_layers": 1, "window": 12, "epochs": 3, "batch_size": 4,
    "random_state": 0, "dtype": "float64", "learning_rate": 0.02,
}  # fmt: skip
TEXTS = [
    "sun and noon",
    "noon shadow of the dial",
    "salt",
    "",
    "sun sun sun",
    "the 😀 sea",
    " ".join(["wave tide"] * 17),
]
TAGS = ["N C N", "N N P D N", ["N"], "", "N N N", ["D", "N", "N"], " ".join(["N V"] * 17)]


def small(**changes):
    return gnomon.make("transformer-tagger", **{**SMALL, **changes})


def written_out(domain, texts):
    """Rows word by word, as long as they go on in a row: for the unit word alone, whose words are one token each."""
    rows = []
    for text in texts:
        ids = [int(i) for i in domain.vocabulary.encode(text.split())]
        rows += [[CLS, *ids[i : i + domain.longest - 2], SEP] for i in range(0, len(ids), domain.longest - 2)]
    return rows


@pytest.mark.spec("NLP-55")
def test_tags_are_those_of_the_encoder_written_out():
    model = small().fit(TEXTS, TAGS)
    net, found = model.model_, []
    with torch.no_grad():
        for row in written_out(model.known_domain(), TEXTS):
            tokens = net.encoder(torch.tensor([row]))[0, 1:-1]
            found.append((tokens @ net.head.weight.T + net.head.bias).softmax(1).numpy())
    proba = model.tag_proba(TEXTS)
    assert [one.shape for one in proba] == [(len(text.split()), 5) for text in TEXTS]
    np.testing.assert_allclose(np.concatenate(proba), np.concatenate(found), rtol=1e-10)
    best = model.classes_[np.concatenate(found).argmax(1)]
    assert " ".join(model.predict(TEXTS)).split() == best.tolist()


def test_a_text_alone_has_the_tags_that_it_has_beside_longer_ones():
    model = small(unit="char", window=15).fit(TEXTS, TAGS)
    together = model.tag_proba(TEXTS)
    for text, probabilities in zip(TEXTS, together, strict=True):
        np.testing.assert_allclose(model.tag_proba([text])[0], probabilities, rtol=1e-10)
    assert model.predict([""]).tolist() == model.predict(["  "]).tolist() == [""]


def test_the_loss_is_that_of_first_pieces_alone():
    """One step without dropout from the same weights: the recorded loss is the mean over words of -log p of the tag."""
    still = {"dropout": 0.0, "epochs": 1, "batch_size": None, "learning_rate": 1e-12, "unit": "char", "window": 40}
    model = small(**still).fit(TEXTS[:6], TAGS[:6])
    tags = WordTags().check(TAGS[:6], np.array([len(text.split()) for text in TEXTS[:6]]))
    p = np.concatenate(model.tag_proba(TEXTS[:6]))[np.arange(len(tags)), np.searchsorted(model.classes_, tags)]
    assert model.history_["cross_entropy"][0] == pytest.approx(-np.log(p).mean(), rel=1e-8)


@pytest.mark.parametrize("unit", ["word", "char", "byte", "bpe", "byte-bpe", "wordpiece"])
def test_every_word_has_one_place_in_one_row(unit):
    if "bpe" in unit or unit == "wordpiece":
        pytest.importorskip("tokenizers")
    random, longest = np.random.default_rng(0), 11
    known = ["sun", "shadows", "noon,", "😀", "中文", "a", "unbelievably-long-word-of-many-pieces"]
    texts = [" ".join(random.choice(known, random.integers(0, 12))) for _ in range(60)]
    domain = TaggedTexts(unit, size=300).learn(texts)
    whole, cut = domain.read(texts), TaggedTexts(unit, domain.vocabulary, longest=longest).read(texts)
    counts = [len(text.split()) for text in texts]
    for read in (whole, cut):
        assert read.counts.tolist() == counts and len(read.heads.values) == sum(counts)
        assert np.bincount(read.owner, np.diff(read.heads.offsets), len(texts)).tolist() == counts
        assert (np.diff(read.owner) >= 0).all() and read.heads.lengths.min() >= 1
        for row, heads in zip(read.rows, read.heads, strict=True):
            assert (
                row[0] == CLS
                and row[-1] == SEP
                and (np.diff(heads) > 0).all()
                and heads[0] >= 1
                and heads[-1] < len(row) - 1
            )
    assert cut.rows.lengths.max() <= longest
    at = [
        read.rows.values[np.repeat(read.rows.offsets[:-1], read.heads.lengths) + read.heads.values]
        for read in (whole, cut)
    ]
    assert at[0].tolist() == at[1].tolist()  # the first tokens of all words, however the texts are parted
    names = [str(domain.vocabulary.decode([int(i)])[0]) for i in at[0]] if unit == "char" else []
    assert names == ([word[0] for text in texts for word in text.split()] if unit == "char" else [])


def test_a_word_means_what_stands_around_it():
    """The tag of ``x`` is the word before it: nothing of the word itself says it."""
    random = np.random.default_rng(1)
    texts = [" ".join(f"{'ab'[one]} x" for one in random.integers(0, 2, 4)) for _ in range(60)]
    tags = [text.replace("a x", "A 0").replace("b x", "B 1") for text in texts]
    model = small(epochs=25, n_hidden=16, dropout=0.0, dtype="float32").fit(texts, tags)
    assert model.score(texts, tags) > 0.98
    assert model.predict(["a x b x"]).tolist() == ["A 0 B 1"]


def test_weights_of_texts_count_like_texts():
    start, still = small(dropout=0.0).fit(TEXTS, TAGS), {"batch_size": None, "epochs": 2, "dropout": 0.0}
    doubled = small(**still).fit([*TEXTS, "the 😀 sea"], [*TAGS, "D N N"], initial=start)
    weight = [1.0] * 5 + [2.0, 1.0]
    weighted = small(**still).fit(TEXTS, TAGS, sample_weight=weight, initial=start)
    np.testing.assert_allclose(*(np.concatenate(one.tag_proba(TEXTS)) for one in (weighted, doubled)), rtol=1e-7)


def test_what_cannot_be_tagged_is_refused_in_a_line():
    model = small()
    for X, y, what in (
        (["a b", "c"], ["N V", "N V"], r"there must be a tag for each of 1 word, got 2 \(row 1\)"),
        (["a b"], ["N V", "N"], "y must have the tags of 1 text, got 2"),
        (["a b"], None, "requires y"),
        (["a b"], "N V", "y must be a list of tags for each text"),
        (["a b"], [["N", "V W"]], "a tag must have no white space"),
        (["a b"], [3], "tags must be a string or a list of strings, got 3"),
        (["a b"], ["N N"], "at least 2 tags, got only one, 'N'"),
        ([("a", "b")], ["N"], "a row must be a text"),
        (["", ""], ["", ""], "no token"),
    ):
        with pytest.raises(UserError, match=what):
            model.fit(X, y)
    model.fit(TEXTS, TAGS)
    with pytest.raises(UserValueError, match="tags must be O, B-label and I-label to mark spans, got C, D, N, P, V"):
        model.spans(TEXTS)
    with pytest.raises(UserError, match="tag 'Q' is in no training text"):
        small().fit(TEXTS, TAGS, validation=(["sun"], ["Q"]))


def test_validation_texts_judge_and_do_not_train():
    judged = small().fit(TEXTS, TAGS, validation=(TEXTS, TAGS))
    alone = small().fit(TEXTS, TAGS)
    assert judged.predict(TEXTS).tolist() == alone.predict(TEXTS).tolist()
    tags = WordTags().check(TAGS, np.array([len(text.split()) for text in TEXTS]))
    p = np.concatenate(alone.tag_proba(TEXTS))[np.arange(len(tags)), np.searchsorted(alone.classes_, tags)]
    assert judged.history_["validation_cross_entropy"][-1] == pytest.approx(-np.log(p).mean(), rel=1e-9)
    held = small(early_stopping="patience").fit([*TEXTS, *TEXTS], [*TAGS, *TAGS])
    assert held.history_["validation_cross_entropy"]


@pytest.mark.spec("NLP-55")
def test_a_fit_begins_from_another_encoder_whose_frozen_layers_stay_to_the_bit():
    source = gnomon.make("bert", **{**SMALL, "window": 12, "epochs": 1}, next_sentence=False).fit(
        [one for one in TEXTS[:6] if one]
    )
    start = gnomon.FineTuning(source, freeze=("encoder.layers.0", "encoder.tokens"))
    model = small().fit(TEXTS, TAGS, initial=start)
    before, after = source.model_.state(), model.model_.state()
    same = {name for name in after if name in before and np.array_equal(after[name], before[name])}
    frozen = {name for name in after if name.startswith(("encoder.layers.0.", "encoder.tokens."))}
    assert frozen <= same and "encoder.norm.weight" not in same
    assert model.initial_.head == "new" and len(model.vocabulary_) == len(source.vocabulary_)


# --- spans and scores -----------------------------------------------------------------------------------------------


def spans_by_hand(tags):
    """The spans of one text, word by word."""
    found, open_label, start = [], None, 0
    for place, tag in enumerate([*tags, "O"]):
        kind, label = tag[:1], tag[2:]
        if open_label is not None and not (kind == "I" and label == open_label):
            found.append((start, place, open_label))
            open_label = None
        if kind != "O" and open_label is None:
            open_label, start = label, place
    return found


def test_spans_and_their_scores_are_those_counted_by_hand():
    random = np.random.default_rng(0)
    names = np.array(["O", "B-a", "I-a", "B-b", "I-b"])
    counts = random.integers(0, 8, 300)
    true, said = (names[random.choice(5, counts.sum(), p=[0.4, 0.15, 0.15, 0.15, 0.15])] for _ in range(2))
    said = np.where(random.random(len(true)) < 0.7, true, said)
    parts = [np.split(one, np.cumsum(counts)[:-1]) for one in (true, said)]
    hand = [[spans_by_hand(tags.tolist()) for tags in part] for part in parts]
    for tags, wanted in zip((true, said), hand, strict=True):
        found = [[] for _ in counts]
        for text, *span in tagged_spans(tags, counts).tolist():
            found[text].append(tuple(span))
        assert found == wanted
    tp = sum(len(set(a) & set(b)) for a, b in zip(*hand, strict=True))
    there, marked = (sum(map(len, one)) for one in hand)
    scores = tagging_scores(true, said, counts, 5)
    assert scores["span_recall"].value == pytest.approx(tp / there)
    assert scores["span_precision"].value == pytest.approx(tp / marked)
    assert scores["span_f1"].value == pytest.approx(2 * tp / (there + marked))
    assert scores["accuracy"].value == pytest.approx((true == said).mean())
    assert 0.005 < scores["span_f1"].stderr < 0.05


@pytest.mark.spec("NLP-55")
def test_spans_are_found():
    texts = ["Ada Lovelace saw New York", "we saw New York", "we saw Ada Lovelace", "Ada saw us"] * 8
    tags = ["B-per I-per O B-loc I-loc", "O O B-loc I-loc", "O O B-per I-per", "B-per O O"] * 8
    model = small(epochs=25, dropout=0.0).fit(texts, tags)
    assert model.spans(["we saw New York", "saw", ""]) == [[(2, 4, "loc")], [], []]
    scores = model.evaluate(texts, tags)
    assert scores["span_f1"].value == scores["accuracy"].value == 1.0
    assert set(small().fit(TEXTS, TAGS).evaluate(TEXTS, TAGS)) == {"accuracy"}
