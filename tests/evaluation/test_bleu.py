"""BLEU with its options against counts by hand, nltk and sacrebleu."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gnomon
from gnomon.errors import UserError
from gnomon.evaluation import corpus_bleu, sentence_bleu
from gnomon.evaluation.translation import bleu

sacrebleu = pytest.importorskip("sacrebleu")
MAT = "the cat is on the mat"
WORDS = ["sun", "dial", "noon", "hour", "the", "a"]


def corpus(n=20, references=3, seed=0):
    random = np.random.default_rng(seed)
    wanted = [[" ".join(random.choice(WORDS, random.integers(5, 12))) for _ in range(references)] for _ in range(n)]
    said = [" ".join(w if random.random() < 0.7 else "x" for w in one[0].split()) for one in wanted]
    return said, wanted


@pytest.mark.spec("NLP-36")
@pytest.mark.spec("DLN-224")
def test_the_numbers_of_the_documents():
    said, wanted = "there is a cat on the mat today", "there is a cat on the mat right now today"
    found = corpus_bleu([said], [wanted], smoothing="none")
    assert found.matches == (8, 6, 5, 4) and found.totals == (8, 7, 6, 5)
    assert found.brevity_penalty == pytest.approx(0.7788008, abs=5e-8)
    assert found.value == pytest.approx(0.6771219, abs=5e-8)
    assert str(found).startswith("BLEU 67.71 (100.0 / 85.7 / 83.3 / 80.0, brevity 0.779; nrefs:1|")
    clipped = sentence_bleu("the the the the the the the", MAT, max_n=1)
    assert clipped.precisions == pytest.approx([2 / 7]) and clipped.value == pytest.approx(2 / 7)
    assert sentence_bleu(MAT, MAT).value == pytest.approx(1)
    assert sentence_bleu("the cat is on", MAT, smoothing="none").value == pytest.approx(math.exp(-0.5))
    assert sentence_bleu("the cat sat on the mat", MAT, max_n=2).value == pytest.approx(0.5**0.5)
    none = corpus_bleu(["the cat sat on the mat"], [MAT], smoothing="none")
    assert none.matches[3] == 0 and none.value == 0
    assert 0 < corpus_bleu(["the cat sat on the mat"], [MAT], smoothing="exp").value < 1


@pytest.mark.spec("NLP-36")
@pytest.mark.spec("DLN-224")
@pytest.mark.parametrize("max_n", [1, 2, 4])
def test_bleu_is_that_of_nltk(max_n):
    nltk = pytest.importorskip("nltk.translate.bleu_score")
    said, wanted = corpus()
    even = (1 / max_n,) * max_n
    references, hypotheses = [[one.split() for one in held] for held in wanted], [one.split() for one in said]
    expected = nltk.corpus_bleu(references, hypotheses, even)
    found = corpus_bleu(said, wanted, max_n=max_n, smoothing="none", tokenizer="none")
    assert expected > 0.1 and found.value == pytest.approx(expected, rel=1e-12)
    for a, b in zip(said[:5], wanted, strict=False):
        one = sentence_bleu(a, b, max_n=1, smoothing="none", tokenizer="none").value
        assert one == pytest.approx(nltk.sentence_bleu([r.split() for r in b], a.split(), (1,)), rel=1e-12)


@pytest.mark.spec("NLP-36")
@pytest.mark.spec("DLN-224")
@pytest.mark.parametrize("smoothing", ["none", "floor", "add-k", "exp"])
def test_smoothing_and_signature_are_those_of_sacrebleu(smoothing):
    said, wanted = ["the cat sat on the mat", "a sun"], [[MAT, "a cat sat"], ["the sun", "a moon"]]
    metric = sacrebleu.BLEU(smooth_method=smoothing)
    expected = metric.corpus_score(said, [list(one) for one in zip(*wanted, strict=True)])
    found = corpus_bleu(said, wanted, smoothing=smoothing)
    assert found.value == pytest.approx(expected.score / 100, rel=1e-12)
    assert found.signature == str(metric.get_signature()) and "nrefs:2|case:mixed|eff:no|tok:13a" in found.signature
    for text, held in zip(said, wanted, strict=True):
        expected = sacrebleu.sentence_bleu(text, held, smooth_method=smoothing).score
        assert sentence_bleu(text, held, smoothing=smoothing).value == pytest.approx(expected / 100, rel=1e-12)


@pytest.mark.spec("NLP-36")
@pytest.mark.spec("DLN-224")
def test_counts_are_summed_over_the_corpus_and_the_closest_length_counts():
    said, wanted = corpus(references=1)
    found = corpus_bleu(said, wanted, smoothing="none", tokenizer="none")
    parts = [sentence_bleu(a, b, smoothing="none", tokenizer="none") for a, b in zip(said, wanted, strict=True)]
    summed = [sum(one.matches[n] for one in parts) / sum(one.totals[n] for one in parts) for n in range(4)]
    assert found.precisions == pytest.approx(summed)
    assert abs(found.value - np.mean([one.value for one in parts])) > 0.01
    assert sentence_bleu("a b c", ["a b c d e", "a b", "a b c d"]).reference_length == 2  # of two as close the shorter
    uneven = corpus_bleu(["a b c", "d e"], [["a b c", "x"], ["d e"]], max_n=2)
    assert uneven.value == pytest.approx(1) and uneven.reference_length == 5
    said = "the cat sat on the mat"
    assert sentence_bleu(said, "the cat sat on the mat.").value != sentence_bleu(said + ".", said + ".").value


@pytest.mark.spec("DLN-224")
def test_weights_that_halve_are_those_of_dive_into_deep_learning():
    """Its function: exp(min(0, 1 - r / c)) times the product of p_n ** (1 / 2 ** n)."""
    said, wanted = "the cat is on mat", MAT
    p = [5 / 5, 3 / 4, 2 / 3, 1 / 2]
    expected = math.exp(1 - 6 / 5) * math.prod(one**0.5 ** (n + 1) for n, one in enumerate(p))
    for score in (corpus_bleu([said], [wanted], weights="halving"), sentence_bleu(said, wanted, weights="halving")):
        assert score.value == pytest.approx(expected, rel=1e-12)
    short = math.exp(1 - 6 / 2) * 1.0  # n-grams longer than the translation are left out
    assert sentence_bleu("the cat", wanted, weights="halving").value == pytest.approx(short)
    assert sentence_bleu("x y", wanted, weights="halving", smoothing="none").value == 0
    assert sentence_bleu("", wanted, weights="halving").value == 0


@pytest.mark.spec("NLP-36")
@pytest.mark.spec("DLN-224")
@pytest.mark.filterwarnings("ignore")
def test_a_translator_says_its_bleu():
    pairs = [("one two three four", "vier drei zwei eins"), ("two one", "eins zwei")] * 4
    model = gnomon.Seq2Seq(unit="word", epochs=60, learning_rate=0.02, early_stopping="off", random_state=0).fit(pairs)
    other = [*pairs[:2], (pairs[0][0], "vier drei zwei")]
    found = model.bleu(other, max_n=2, smoothing="none", tokenizer="none")
    said = model.translate([pairs[0][0], pairs[1][0]])
    wanted = [["vier drei zwei eins", "vier drei zwei"], ["eins zwei"]]
    assert found == corpus_bleu(said, wanted, max_n=2, smoothing="none", tokenizer="none") and found.value == 1
    assert model.evaluate(pairs)["bleu"].note.startswith("nrefs:1|")
    assert bleu(said, wanted).value == pytest.approx(100 * corpus_bleu(said, wanted).value)


@pytest.mark.parametrize(
    ("said", "wanted", "options", "what"),
    [
        (["a"], [], {}, "one reference"), ([], [], {}, "one reference"), (["a"], [[]], {}, "at least 1 reference"),
        ("a", ["a"], {}, "list of texts"), ([3], ["a"], {}, "must be a string"), (["a"], [["a", 3]], {}, "string"),
        (["a"], ["a"], {"max_n": 0}, "max_n"), (["a"], ["a"], {"smoothing": "some"}, "smoothing"),
        (["a"], ["a"], {"weights": "some"}, "weights"), (["a"], ["a"], {"tokenizer": "some"}, "tokenizer"),
    ],
)  # fmt: skip
def test_what_has_no_bleu_is_refused(said, wanted, options, what):
    with pytest.raises(UserError, match=what):
        corpus_bleu(said, wanted, **options)
