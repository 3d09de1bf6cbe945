"""The n-gram system: text in, text out; sentences, unknown words, scores, saving, resuming, several processes."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import gnomon
from gnomon.errors import UserError
from gnomon.runs.folder import RunFolder
from gnomon.systems.text import ngram
from gnomon.systems.text.ngram import Additive, Dirichlet, Interpolated, Katz, KneserNey, NGram
from gnomon.training.launch import launch

LINES = ["i am here", "i am there", "you are here"]
NAMES = ["none", "additive", "dirichlet", "interpolated", "katz", "threshold", "kneser-ney", Katz("good-turing")]
quiet = pytest.mark.filterwarnings("ignore:too little text")


def some_text(n: int = 60, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    words = np.array(
        ["the", "sun", "dial", "casts", "a", "shadow", "at", "noon", "and", "an", "hour", "later", "it", "moves"]
    )
    p = 1 / np.arange(1, words.size + 1)
    return [" ".join(rng.choice(words, rng.integers(2, 9), p=p / p.sum())) for _ in range(n)]


@pytest.mark.spec("DLN-174")
@quiet
@pytest.mark.filterwarnings("ignore:no sentence has")
@pytest.mark.parametrize("start", ["pad", "lower_order"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("smoothing", NAMES, ids=str)
def test_small_corpora_and_contexts_never_seen(smoothing: Any, n: int, start: str) -> None:
    for corpus in (LINES, ["a b c d"], ["a"], LINES[:1] * 1000):
        model = NGram(n=n, smoothing=smoothing, start=start).fit(corpus)
        for context in ("i am", "you am", "zzz zzz", ""):
            try:
                row = model.next_distribution(context)
            except UserError as error:  # maximum likelihood knows nothing of contexts never seen
                assert smoothing == "none"
                assert "any probability" in str(error)
                continue
            assert row.sum() == pytest.approx(1, abs=1e-9)
            assert row.min() >= 0
            assert row.max() <= 1 + 1e-15
            assert row[1] == 0
    for empty in ("", "\n\n", [], [[]], [""]):
        with pytest.raises(UserError) as told:
            NGram(n=n, smoothing=smoothing, start=start).fit(empty)
        assert "\n" not in str(told.value)


@pytest.mark.spec("PRA-146")
def test_without_smoothing_zero_names_its_ngram_and_the_perplexity_is_infinite() -> None:
    model = NGram(n=2, smoothing="none").fit(LINES)
    assert math.isfinite(model.perplexity(LINES))
    with pytest.warns(UserWarning, match=r"the n-gram 'you am' \(sentence 1, token 1\) has probability 0"):
        assert model.perplexity(["i am here", "you am here"]) == math.inf
    assert model.log_prob(["you am"])[0] == -math.inf
    scores = model.evaluate(["you am here"])
    assert scores["log_likelihood"].value == -math.inf
    assert scores["perplexity"].value == math.inf
    assert "'you am'" in scores["perplexity"].note
    assert model.score(["you am here"]) == -math.inf


@pytest.mark.spec("DLN-174")
def test_counts_by_hand() -> None:
    model = NGram(n=2, smoothing="none").fit(LINES)
    assert math.exp(model.log_prob(["i am here"])[0]) == pytest.approx(2 / 3 * 1 * 1 / 2 * 1)
    assert model.next_tokens("", k=2) == [("i", pytest.approx(2 / 3)), ("you", pytest.approx(1 / 3))]
    assert dict(model.next_tokens("i am", k=2)) == {"here": 0.5, "there": 0.5}
    assert [used.tolist() for used in model.order_used(["i am here", "you"])] == [[2] * 4, [2] * 2]
    assert model.history_["tokens"] == [12.0]
    assert model.history_["ngrams_1"] == [7.0]


@pytest.mark.spec("PRA-145")
def test_every_form_of_a_text_gives_the_same_model() -> None:
    def one_pass() -> Iterator[list[str]]:
        for line in LINES:
            yield line.split()

    forms: list[Any] = [
        "\n".join(LINES),
        "\r\n".join(LINES) + "\r\n",
        LINES,
        [line.split() for line in LINES],
        one_pass(),
    ]
    models = [NGram(n=2, smoothing=Dirichlet(1.0)).fit(form) for form in forms]
    for model in models[1:]:
        assert model.vocabulary_.tokens == models[0].vocabulary_.tokens
        assert np.array_equal(model.log_prob(LINES), models[0].log_prob(LINES))
    # scoring reads a generator once too
    assert models[0].evaluate(one_pass())["log_likelihood"] == models[0].evaluate(LINES)["log_likelihood"]
    with pytest.raises(UserError, match="sentence 0, token 1"):
        NGram().fit([["a", 3]])


@pytest.mark.filterwarnings("ignore:.*are unknown to the fit")
def test_markers_in_the_text_are_words() -> None:
    text = ["<s> hello </s>", "hello <unk> world"]
    model = NGram(n=2, smoothing=Dirichlet(1.0)).fit(text)
    assert model.model_.counts.counts[0][:3].tolist() == [0, 0, 2]  # no unknown word, two sentences
    assert model.history_["tokens"] == [8.0]
    ids = model.vocabulary_.encode(["<s>", "</s>", "<unk>", "never"])
    assert (ids[:3] > 2).all()
    assert ids[3] == 0
    assert model.log_prob(["<unk>"])[0] != model.log_prob(["never"])[0]


@pytest.mark.spec("PRA-145")
@quiet
def test_unknown_words_share_one_outcome() -> None:
    text = some_text()
    model = NGram(n=2, min_count=10).fit(text)
    rare = [w for w, c in zip(*np.unique(" ".join(text).split(), return_counts=True), strict=True) if c < 10]
    assert rare
    assert not any(word in model.vocabulary_ for word in rare)
    assert np.array_equal(model.log_prob(["the " + rare[0]]), model.log_prob(["the neverseen"]))
    test = ["the sun xyzzy", "xyzzy sun"]
    values, _ = model.model_.token_log_prob(model._encoded(test))
    assert model.perplexity(test) == pytest.approx(np.exp(-values.mean()))
    known = np.array([True, True, False, True, False, True, True])
    assert model.perplexity(test, unknown="skip") == pytest.approx(np.exp(-values[known].mean()))
    with pytest.raises(UserError, match="'count' or 'skip'"):
        model.perplexity(test, unknown="drop")  # type: ignore[arg-type]


@pytest.mark.spec("DLN-180")
def test_scores_are_sums_over_all_tokens() -> None:
    model = NGram(n=2, smoothing=Dirichlet(1.0)).fit(some_text())
    test = ["the sun", "a dial casts a shadow at noon", ""]
    values, _ = model.model_.token_log_prob(model._encoded(test))
    scores = model.evaluate(test)
    assert len(values) == 2 + 7 + 0 + 3
    assert scores["log_likelihood"].value == pytest.approx(values.mean(), rel=1e-13)
    assert scores["perplexity"].value == pytest.approx(np.exp(-values.mean()), rel=1e-13)
    assert model.score(test) == scores["log_likelihood"].value
    assert model.perplexity(test) == pytest.approx(scores["perplexity"].value, rel=1e-13)
    n_bytes = sum(len(line.encode()) + 1 for line in test)
    assert scores["bits_per_byte"].value == pytest.approx(-values.sum() / np.log(2) / n_bytes, rel=1e-13)
    assert scores["bits_per_byte"].kind == "exact"
    assert model.evaluate(["the xyzzy"])["bits_per_byte"].kind == "lower bound"


@pytest.mark.spec("PRA-147")
def test_scores_say_which_start_they_are_of() -> None:
    """Over the predicted tokens: with padding the ends are among them; the two are never compared."""
    text, scores = some_text(), {}
    for start in ("pad", "lower_order"):
        model = NGram(n=2, smoothing=Dirichlet(1.0), start=start).fit(text)
        scores[start] = model.evaluate(text)
        assert scores[start]["perplexity"].value == pytest.approx(
            np.exp(-model.log_prob(text).sum() / (len(" ".join(text).split()) + len(text) * (start == "pad")))
        )
        assert ("ends predicted" in scores[start]["perplexity"].data_space) == (start == "pad")
    for name in ("perplexity", "log_likelihood"):
        assert scores["pad"][name].value != pytest.approx(scores["lower_order"][name].value, rel=0.01)
        with pytest.raises(UserError, match="data_space"):
            scores["pad"][name].against(scores["lower_order"][name])


@pytest.mark.spec("PRA-145", "DLN-180")
def test_bits_per_byte_of_units_whose_models_say_the_same() -> None:
    # characters and bytes of plain ASCII are the same tokens
    text = some_text(30)
    both = [NGram(n=3, unit=unit, smoothing=Dirichlet(1.0)).fit(text).evaluate(text) for unit in ("char", "byte")]
    assert both[0]["bits_per_byte"].value == both[1]["bits_per_byte"].value
    # an accent is one character and two bytes: perplexities per token differ, the text's bytes do not
    accented = [line.replace("a", "ä") for line in text]
    char, byte = (
        NGram(n=1, unit=unit, smoothing=Additive(0.0)).fit(accented).evaluate(accented) for unit in ("char", "byte")
    )
    sizes = [sum(len(line.encode()) + 1 for line in accented), sum(len(line) + 1 for line in accented)]
    expected = -char["log_likelihood"].value * sizes[1] / np.log(2) / sizes[0]
    assert char["bits_per_byte"].value == pytest.approx(expected)
    assert byte["perplexity"].value != pytest.approx(char["perplexity"].value)
    with pytest.raises(UserError, match="data_space"):
        byte["perplexity"].against(char["perplexity"])
    assert byte["bits_per_byte"].against(char["bits_per_byte"]) in ("better", "worse", "undecided")


@pytest.mark.spec("DLN-174")
def test_generation() -> None:
    text = some_text()
    model = NGram(n=3, smoothing=Dirichlet(1.0)).fit(text)
    first, again, other = (model.sample(20, random_state=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert model.sample(5, random_state=1) == first[:5]
    assert model.sample(5) != model.sample(5)
    drawn = model.generate("the sun", 10, random_state=0, max_length=4)
    assert all(line.startswith("the sun") and len(line.split()) <= 6 for line in drawn)
    assert model.generate(["the", "sun"], 10, random_state=0, max_length=4) == drawn
    assert model.sample(0) == []
    fixed = NGram(n=2, start="lower_order", smoothing=Dirichlet(1.0)).fit(text).sample(7, random_state=0, max_length=6)
    assert {len(line.split()) for line in fixed} == {6}
    for unit in ("char", "byte"):
        short = NGram(n=4, unit=unit, smoothing=Katz(0.0)).fit(["naïve", "naïf"]).sample(40, random_state=0)
        assert set(short) == {"naïve", "naïf"}
    for arguments in ({"n": -1}, {"n": 1, "max_length": -1}):
        with pytest.raises(UserError, match="-1"):
            model.sample(**arguments)


@pytest.mark.filterwarnings("ignore:.*are unknown to the fit")
def test_more_text_is_added_to_the_counts() -> None:
    text = some_text(80)
    whole = NGram(n=3, smoothing=Dirichlet(1.0)).fit(text)
    parts = NGram(n=3, smoothing=Dirichlet(1.0)).partial_fit(text[:50])
    assert set(parts.vocabulary_.tokens) == set(whole.vocabulary_.tokens)
    parts.partial_fit(text[50:])
    np.testing.assert_allclose(parts.log_prob(text), whole.log_prob(text), rtol=1e-13)
    parts.partial_fit(["xyzzy"])
    assert parts.model_.counts.counts[0][0] == 1


@pytest.mark.spec("PRA-149")
def test_a_validation_text_finds_the_weights() -> None:
    text, held_out = some_text(60), some_text(30, seed=1)
    recipe = Interpolated(buckets=2)
    alone = NGram(n=2, smoothing=recipe).fit(text)
    told = NGram(n=2, smoothing=recipe).fit(text, validation=held_out)
    assert not np.array_equal(alone.model_.parameters["weights"], told.model_.parameters["weights"])
    assert told.score(held_out) >= alone.score(held_out)
    history = told.model_.parameters["log_likelihood"]
    assert history[-1] == pytest.approx(told.score(held_out), abs=1e-4)


@pytest.mark.parametrize("smoothing", ["interpolated", "kneser-ney", "additive"])
@quiet
def test_a_fit_in_pieces_resumes_to_the_bit(smoothing: str, monkeypatch: Any, tmp_path: Path) -> None:
    text = some_text(100)
    whole = NGram(smoothing=smoothing).fit(text)
    assert whole.n_steps_ == 1
    monkeypatch.setattr(ngram, "BLOCK_TOKENS", 90)
    pieces = NGram(smoothing=smoothing).fit(text)
    assert pieces.n_steps_ > 4
    for stop in range(pieces.n_steps_ + 1):
        begun, folder = NGram(smoothing=smoothing), tmp_path / f"{smoothing}-{stop}"
        corpus = begun.ingest(text)
        begun._fit(corpus, begun._open(folder, corpus), limit=stop)
        if stop == 1:  # a fit that was stopped can be looked at: a model of what was counted so far
            stopped = gnomon.load(folder, unfinished=True)
            assert stopped.model_.counts.n_tokens < whole.model_.counts.n_tokens
            assert np.isfinite(stopped.score(text))
        resumed = NGram(smoothing=smoothing).fit(text, run=RunFolder.open(folder))
        for name, value in whole.model_.state().items():
            assert np.array_equal(resumed.model_.state()[name], value), (stop, name)


TEXTS = ((3, some_text(41)), (2, ["a"]))


def counted(folder: str) -> list[dict[str, Any]]:
    """Fits in pieces, in the group of this process; the last one stopped, left at once, and resumed."""
    ngram.BLOCK_TOKENS = 50
    warnings.simplefilter("ignore", UserWarning)
    models = [NGram(n=n).fit(text) for n, text in TEXTS]
    begun = NGram(n=3)
    corpus = begun.ingest(TEXTS[0][1])
    run = begun._open(folder, corpus)
    for _ in range(2):
        begun._fit(corpus, run, limit=2)
    models.append(NGram(n=3).fit(TEXTS[0][1], run=RunFolder.open(folder)))
    return [dict(model.model_.state()) for model in models]


@quiet
def test_two_processes_count_like_one_to_the_bit(tmp_path: Path) -> None:
    together = launch(counted, str(tmp_path / "run"), devices=2)
    for (n, text), found in zip([*TEXTS, TEXTS[0]], together, strict=True):
        alone = NGram(n=n).fit(text).model_.state()
        assert found.keys() == alone.keys()
        assert all(np.array_equal(found[name], value) for name, value in alone.items())


@pytest.mark.parametrize("unit", ["word", "char", "byte"])
def test_saved_and_loaded_with_its_words(unit: str, tmp_path: Path) -> None:
    text = ["naïve café", "<unk> 你好 \U0001f600", "a"]
    model = NGram(n=3, unit=unit, smoothing=KneserNey((0.5, 1.0, 1.5)), start="lower_order").fit(text)
    again = gnomon.load(model.save(tmp_path / "model"))
    assert again.get_params() == model.get_params()
    assert again.vocabulary_.tokens == model.vocabulary_.tokens
    assert np.array_equal(again.log_prob(text), model.log_prob(text))
    assert again.sample(5, random_state=0) == model.sample(5, random_state=0)


def test_parameters() -> None:
    model = NGram(n=2).set_params(smoothing="additive", smoothing__alpha=0.5)
    assert model.smoothing == Additive(0.5)
    assert clone(model).get_params() == model.get_params()
    for wrong, told in (
        ({"n": 0}, "n"), ({"unit": "syllable"}, "unit"), ({"min_count": 0}, "min_count"), ({"start": "x"}, "start"),
        ({"smoothing": "kneserney"}, "kneser-ney"), ({"smoothing": Additive(-1.0)}, "alpha"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=told):
            NGram(**wrong).fit(LINES)
    with pytest.raises(UserError, match="repeat a sentence"):
        NGram().fit(LINES, sample_weight=[1, 2, 3])
    with pytest.raises(Exception, match="not fitted"):
        NGram().score(LINES)


@pytest.mark.spec("DLN-174")
def test_it_beats_the_unigram_on_english() -> None:
    train, test = gnomon.data.split(gnomon.data.load("python-reference"))
    unigram = NGram(n=1, smoothing="additive").fit(train).evaluate(test)["log_likelihood"]
    values = []
    for n, smoothing in itertools.product((2, 3), ("kneser-ney", "katz", "interpolated")):
        found = NGram(n=n, smoothing=smoothing).fit(train).evaluate(test)["log_likelihood"]
        assert found.against(unigram) == "better"
        values.append(found.value)
    assert max(values) > unigram.value + 1.5


@pytest.mark.parametrize(
    ("verb", "options"),
    [("sample", {"n": 1.5}), ("sample", {"n": -1}), ("sample", {"max_length": "a"}), ("next_tokens", {"k": -1})],
)
@pytest.mark.filterwarnings("ignore:too little text")
def test_numbers_that_are_none_are_refused_by_name(verb, options):
    system = NGram(n=2, random_state=0).fit(["a b c", "b c d"])
    with pytest.raises(UserError, match=next(iter(options))):
        getattr(system, verb)(**options)


@pytest.mark.filterwarnings("ignore:too little text")
def test_an_empty_chunk_changes_nothing():
    system = NGram(n=2, random_state=0).partial_fit(["a b c", "b c d"])
    before = system.score(["a b"])
    assert system.partial_fit([]).partial_fit("").score(["a b"]) == before
    with pytest.raises(UserError):
        NGram(n=2).partial_fit([])


def test_a_context_that_nothing_follows_is_named():
    """HB-32: without smoothing, by next_distribution, next_tokens and generate; a fit without any n-gram says so."""
    lines = ["i am here", "i am there", "you are here"]
    model = NGram(n=2, smoothing="none").fit(lines)
    for ask in (model.next_distribution, model.next_tokens, lambda c: model.generate(c, 2, random_state=0)):
        with pytest.raises(UserError, match="nothing has any probability after 'i zzz'"):
            ask("i zzz")
    assert model.next_distribution("i").sum() == pytest.approx(1)
    for smoothing in ("none", "additive"):
        options = {"smoothing__alpha": 0.0} if smoothing == "additive" else {}
        empty = NGram(n=4, smoothing=smoothing, start="lower_order").set_params(**options)
        with pytest.warns(UserWarning, match="no sentence has 4 tokens"):
            empty.fit(lines)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NGram(n=4, smoothing="none").fit(lines)


@pytest.mark.filterwarnings("ignore:.*are unknown to the fit")
def test_a_perplexity_beyond_float64_is_infinite_with_a_reason():
    """HB-34: exp(726); exp(709.5) is a number still."""
    model = NGram(n=1, smoothing="additive").set_params(smoothing__alpha=1e-320).fit(["a b", "a c"])
    with pytest.warns(UserWarning, match="no float64 holds the perplexity"):
        assert model.perplexity(["z " * 60]) == np.inf
    score = model.evaluate(["z " * 60])["perplexity"]
    assert score.value == np.inf
    assert "exp(726.5" in score.note
    from gnomon.evaluation.perplexity import perplexity

    assert perplexity([-709.5]) == pytest.approx(np.exp(709.5), rel=1e-12)
