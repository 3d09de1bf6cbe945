"""The n-gram model: hand-made numbers, sums over all strings, sampling, state, and the smallest corpora."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from gnomon.contracts import HasLogProb, HasState, NextToken, Samples, supports
from gnomon.errors import UserError, UserValueError
from gnomon.numeric.noise import Noise, recording
from gnomon.systems.text.ngram import MLE, Additive, Dirichlet, Interpolated, Katz, KneserNey, NGramModel, Threshold
from oracles.corpora import lines, zipf

A, B, C = 3, 4, 5
FIRST = ([A, B, A, B, A, C], [0, 6])
SECOND = ([A, B, B, A, A, B], [0, 6])
SMOOTHED = [Additive(0.5), Dirichlet(1.0), Interpolated(), Katz(), Katz("good-turing"), KneserNey()]
quiet = pytest.mark.filterwarnings("ignore:too little text")


def over_all_strings(model: NGramModel, length: int) -> float:
    """Total probability of all strings of this length over the tokens that may come, by enumeration."""
    tokens = [i for i in np.flatnonzero(model.outcomes) if i != 2]
    strings = list(itertools.product(tokens, repeat=length))
    offsets = np.arange(len(strings) + 1) * length
    return float(np.exp(model.log_prob((np.array(strings, np.int64).ravel(), offsets))).sum())


@pytest.mark.spec("PRA-146", "DLN-174")
def test_maximum_likelihood_by_hand() -> None:
    model = NGramModel(2, 6, MLE(), "lower_order").fit(FIRST)
    assert model.next_distribution([[A]])[0, [A, B, C]].tolist() == pytest.approx([0, 2 / 3, 1 / 3])
    assert model.next_distribution([[B]])[0, [A, B, C]].tolist() == [1, 0, 0]
    assert not model.next_distribution([[C]]).any()  # never a context: undefined, taken as 0
    # the first token by P_1 without the last token: a 3/5, b 2/5
    assert model.log_prob(([A, B, A], [0, 3]))[0] == pytest.approx(math.log(3 / 5 * 2 / 3 * 1))


@pytest.mark.spec("PRA-146", "PRA-147")
def test_total_over_all_strings_of_a_length() -> None:
    assert over_all_strings(NGramModel(2, 6, MLE(), "lower_order").fit(FIRST), 3) == pytest.approx(0.8, abs=1e-12)
    for n in (1, 2, 3):
        model = NGramModel(n, 5, MLE(), "lower_order").fit(SECOND)
        assert over_all_strings(model, 3) == pytest.approx(1, abs=1e-12)


@pytest.mark.spec("PRA-146")
def test_a_sentence_of_four_words_by_joint_frequencies_of_trigrams() -> None:
    the, dog, ran, away, cat = 3, 4, 5, 6, 7
    ids = [the, dog, ran, away, the, cat, ran, away, the, dog, ran, the]
    model = NGramModel(3, 8, MLE(), "lower_order").fit((ids, [0, 4, 8, 12]))
    trigrams = [tuple(ids[s + i : s + i + 3]) for s in (0, 4, 8) for i in range(2)]
    # P_2 trained without the last token of each sentence
    bigrams = [tuple(ids[s + i : s + i + 2]) for s in (0, 4, 8) for i in range(2)]

    def p3(*gram: int) -> float:
        return trigrams.count(gram) / len(trigrams)  # type: ignore[arg-type]

    def p2(*gram: int) -> float:
        return bigrams.count(gram) / len(bigrams)  # type: ignore[arg-type]

    expected = p3(the, dog, ran) * p3(dog, ran, away) / p2(dog, ran)
    assert model.log_prob(([the, dog, ran, away], [0, 4]))[0] == pytest.approx(math.log(expected))


@pytest.mark.spec("PRA-147", "DLN-174")
@quiet
@pytest.mark.parametrize("smoothing", [*SMOOTHED, Threshold(2)], ids=repr)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_strings_of_one_length_sum_to_one_without_padding(n: int, smoothing: Any) -> None:
    model = NGramModel(n, 5, smoothing, "lower_order").fit(SECOND)
    for length in (1, 3, 4):
        assert over_all_strings(model, length) == pytest.approx(1, abs=1e-12)


@pytest.mark.spec("PRA-147")
@quiet
@pytest.mark.parametrize("smoothing", [*SMOOTHED, MLE(), Threshold(2)], ids=repr)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_terminated_strings_sum_to_one_with_padding(n: int, smoothing: Any) -> None:
    model = NGramModel(n, 5, smoothing, "pad").fit(([A, B, B, A, A, B, A], [0, 3, 6, 7]))
    ended = sum(over_all_strings(model, length) for length in range(6))
    # what has not ended after five tokens, by products of rows
    open_ = 0.0
    tokens = [i for i in np.flatnonzero(model.outcomes) if i != 2]
    prefixes = np.array(list(itertools.product(tokens, repeat=6)))
    mass = np.ones(len(prefixes))
    for t in range(6):
        rows = model.next_distribution([[1, *prefix[:t]] for prefix in prefixes.tolist()])
        mass *= rows[np.arange(len(prefixes)), prefixes[:, t]]
    open_ = mass.sum()
    assert ended + open_ == pytest.approx(1, abs=1e-12)
    assert open_ < 0.4


@pytest.mark.spec("PRA-147")
def test_the_two_starts_differ_in_perplexity() -> None:
    text = zipf(0, 8, 200, 20)
    values = []
    for start in ("pad", "lower_order"):
        log_prob, _ = NGramModel(2, 8, Additive(0.5), start).fit(text).token_log_prob(text)  # type: ignore[arg-type]
        values.append(math.exp(-log_prob.mean()))
    assert abs(values[0] - values[1]) > 0.1


@pytest.mark.spec("DLN-174")
def test_order_one_is_the_unigram() -> None:
    text = zipf(1, 8, 300, 30)
    model = NGramModel(1, 8, MLE()).fit(text)
    counts = np.bincount(text[0], minlength=8)
    counts[2] = 30
    np.testing.assert_allclose(model.next_distribution([[], [A], [B, C]]), np.tile(counts / 330, (3, 1)))


def test_the_start_of_a_sentence_is_never_predicted_and_unknown_tokens_may_be() -> None:
    text = ([A, 0, B, A, 0], [0, 3, 5])  # rare words were read as unknown
    model = NGramModel(2, 6, Additive(1.0)).fit(text)
    rows = model.next_distribution([[], [1], [A], [0]])
    assert not rows[:, 1].any()
    assert rows[0, 0] == pytest.approx((2 + 1) / (7 + 5))  # 7 tokens with ends; 5 outcomes: a, b, c, unknown, end
    with pytest.raises(UserValueError, match="unknown tokens"):
        NGramModel(2, 6, Additive(1.0), unknown=False).fit(text)
    closed = NGramModel(2, 6, Additive(1.0), unknown=False).fit(([A, B], [0, 2]))
    assert closed.token_log_prob(([A, 0], [0, 2]))[0].tolist()[1] == -math.inf


def test_a_probability_of_zero_names_its_ngram() -> None:
    model = NGramModel(3, 6, MLE()).fit(([A, B, C, A, B], [0, 3, 5]))
    assert model.first_impossible(([A, B, C], [0, 3])) is None
    assert model.first_impossible(([A, B, C, A, B, B], [0, 3, 6])) == (1, 2, [A, B, B])
    assert model.first_impossible(([C], [0, 1])) == (0, 0, [1, C])
    assert model.log_prob(([A, B, A], [0, 3]))[0] == -math.inf


@quiet
@pytest.mark.parametrize("start", ["pad", "lower_order"])
@pytest.mark.parametrize("smoothing", [*SMOOTHED, MLE(), Threshold(2)], ids=repr)
def test_state_is_read_back_and_parts_make_the_whole_bit_by_bit(smoothing: Any, start: Any) -> None:
    text = zipf(2, 9, 300, 30)
    model = NGramModel(3, 9, smoothing, start).fit(text)
    again = NGramModel(3, 9, smoothing, start)
    again.load(model.state())
    cut = text[1][12]
    parts = NGramModel(3, 9, smoothing, start).update((text[0][:cut], text[1][:13]))
    parts.update((text[0][cut:], text[1][12:] - cut))
    with pytest.raises(ValueError, match="another model"):
        NGramModel(2, 9, smoothing, start).load(model.state())
    for other in (again, parts):
        assert np.array_equal(other.log_prob(text), model.log_prob(text))
        assert other.state().keys() == model.state().keys()


@pytest.mark.parametrize("start", ["pad", "lower_order"])
def test_contracts(start: Any) -> None:
    model = NGramModel(3, 9, Dirichlet(1.0), start).fit(zipf(3, 9, 300, 30))
    for contract in (NextToken, HasLogProb, HasState, Samples):
        assert supports(model, contract)
    # step by step along sentences, all at once: the same numbers as the sentences' log probability
    sentences = [[A, B, C, A], [C, C, B, B]]
    state = model.start([[], []])
    tokens, total = np.array([1, 1]), np.zeros(2)
    for t in range(5 if start == "pad" else 4):
        rows, state = model.step(tokens, state)
        np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1, rtol=1e-12)
        tokens = np.array([s[t] if t < 4 else 2 for s in sentences])
        total += rows[[0, 1], tokens]
    np.testing.assert_allclose(total, model.log_prob((np.ravel(sentences), [0, 4, 8])), rtol=1e-12)
    swapped = model.select(state, np.array([1, 0, 1]))
    assert np.array_equal(model.step([A, A, A], swapped)[0][:2], model.step([A, A], state)[0][::-1])
    # the beginning of a sentence forgets what stood before it; additive smoothing would see an unknown context there
    model = NGramModel(3, 9, Additive(1.0), start).fit(zipf(3, 9, 300, 30))
    fresh, used = model.start([[]]), model.start([[A, B, C]])
    assert np.array_equal(model.step([1], fresh)[0], model.step([1], used)[0])
    row = np.exp(model.step([C], model.start([[A, B]]))[0])
    np.testing.assert_allclose(row, model.next_distribution([[B, C]]), rtol=1e-14)


@pytest.mark.spec("DLN-174")
@pytest.mark.parametrize("start", ["pad", "lower_order"])
def test_sampled_sentences_have_the_frequencies_of_their_probabilities(start: Any) -> None:
    # chi-square at level 1e-4, fixed seed
    model = NGramModel(2, 5, Dirichlet(1.0), start, unknown=False).fit(([A, B, B, A, A, B, A], [0, 3, 6, 7]))
    drawn = model.sample(20_000, Noise(0, "sample"), max_length=3)
    assert drawn.shape == (20_000, 3)
    cells: dict[tuple[int, ...], int] = {}
    for row in map(tuple, drawn.tolist()):
        cells[row] = cells.get(row, 0) + 1
    statistic, total = 0.0, 0.0
    kinds = [k for k in itertools.product([-1, 2, A, B], repeat=3) if _possible(k, start)]
    for kind in kinds:
        tokens = [i for i in kind if i >= 0]
        p = 1.0
        for t, w in enumerate(tokens):
            context = [1, *tokens[:t]] if start == "pad" else tokens[:t]
            p *= model.next_distribution([context])[0, w]
        total += p
        statistic += (cells.pop(kind, 0) - 20_000 * p) ** 2 / (20_000 * p)
    assert not cells  # nothing impossible was drawn
    assert total == pytest.approx(1)
    assert statistic < chi2.isf(1e-4, len(kinds) - 1)


def _possible(kind: tuple[int, ...], start: str) -> bool:
    if start == "lower_order":
        return not {-1, 2} & set(kind)
    end = kind.index(2) if 2 in kind else 3
    return all((i == -1) == (t > end) for t, i in enumerate(kind))


def test_samples_are_found_by_address() -> None:
    model = NGramModel(3, 9, Dirichlet(1.0), "lower_order").fit(zipf(4, 9, 300, 30))
    with recording():
        many = model.sample(50, Noise(1, "sample"), max_length=8)
    few = model.sample(7, Noise(1, "sample"), max_length=5)
    assert np.array_equal(many[:7, :5], few)
    assert not np.array_equal(many, model.sample(50, Noise(2, "sample"), max_length=8))
    prompted = model.sample(20, Noise(1, "sample"), prompt=[A, B], max_length=1)
    assert prompted.shape == (20, 1)
    assert model.sample(0, Noise(1, "sample")).shape == (0, 0)


def test_a_sentence_stops_where_maximum_likelihood_has_no_continuation() -> None:
    model = NGramModel(2, 6, MLE(), "lower_order").fit(FIRST)
    drawn = model.sample(200, Noise(3, "sample"), max_length=10)
    assert all((row == C).any() for row in drawn if (row == -1).any())  # c was never followed by anything
    assert (drawn == -1).any()


@pytest.mark.spec("DLN-174")
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("start", ["pad", "lower_order"])
@pytest.mark.parametrize("smoothing", [*SMOOTHED, Katz(0.0), Dirichlet(0.0), Threshold(5), MLE()], ids=repr)
def test_tiny_corpora_and_contexts_never_seen(smoothing: Any, start: Any, n: int) -> None:
    i, am, here, there, you, are = range(3, 9)
    corpora: dict[str, list[list[int]]] = {
        "three lines": [[i, am, here], [i, am, there], [you, are, here]],
        "all different": [[3, 4, 5, 6]],
        "one word": [[3]],
        "the same line": [[i, am, here]] * 1000,
        "with an empty line": [[3, 4], [], [4]],
    }
    contexts: list[list[int]] = [[i, am], [you, am], [0, 0], [], [1, i, am], [1], [5, 5, 5, 5, 5]]
    for name, corpus in corpora.items():
        text = (list(itertools.chain(*corpus)), np.cumsum([0, *map(len, corpus)]))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model = NGramModel(n, 9, smoothing, start).fit(text)
        assert len(told) <= 1, name
        rows = model.next_distribution(contexts)
        total = rows.sum(axis=1)
        if isinstance(smoothing, MLE):
            total = total[total != 0]
        assert np.abs(total - 1).max(initial=0) < 1e-12, name
        assert rows.min() >= 0
        assert rows.max() <= 1 + 1e-15
        values = model.log_prob(text)
        assert not np.isnan(values).any()
        if not isinstance(smoothing, MLE):
            assert np.isfinite(values).all(), name


@pytest.mark.parametrize("smoothing", [*SMOOTHED, MLE(), Threshold(5)], ids=repr)
@pytest.mark.parametrize("text", [([], [0]), ([], [0, 0]), ([], [0, 0, 0, 0])])
def test_an_empty_corpus_is_refused_in_one_line(text: Any, smoothing: Any) -> None:
    with pytest.raises(UserError, match="no tokens") as caught:
        NGramModel(3, 9, smoothing).fit(text)
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("default")
def test_discounts_that_cannot_be_estimated_are_told_once() -> None:
    with pytest.warns(UserWarning, match=r"Kneser-Ney discounts of orders 1, 2, 3; used 0.5, 1 and 1.5") as told:
        NGramModel(3, 9, "kneser-ney").fit(([A, B, C], [0, 3]))
    assert len(told) == 1
    with pytest.warns(UserWarning, match=r"absolute discount of order 2; used 0.5") as told:
        NGramModel(2, 9, "katz").fit(([A, B, B, A, A, C], [0, 6]))
    assert len(told) == 1
    with pytest.warns(UserWarning, match=r"Good-Turing discounts of orders 1, 2; used absolute ones"):
        NGramModel(2, 9, Katz("good-turing")).fit(([A, B, A, B, A, C], [0, 6]))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [({"n": 0}, "n must be at least 1, got 0"), ({"start": "middle"}, "'pad' or 'lower_order'")],
)
def test_refusals(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        NGramModel(**({"n": 2, "vocabulary_size": 5} | arguments))
    model = NGramModel(2, 5, Additive(1.0)).fit(([A, B], [0, 2]))
    with pytest.raises(UserError, match=r"ids must be in \[0, \d+\), got 5"):
        model.next_distribution([[5]])


def test_a_fit_leaves_its_input_as_it_was() -> None:
    text = zipf(5, 9, 100, 10)
    copies = [x.copy() for x in text]
    for x in text:
        x.flags.writeable = False
    model = NGramModel(3, 9, Dirichlet(1.0)).fit(text)
    model.log_prob(text)
    assert all(np.array_equal(a, b) for a, b in zip(text, copies, strict=True))
    assert lines(text) == lines((text[0].astype(np.int32), text[1].astype(np.int32)))
    assert np.array_equal(
        model.log_prob(text), NGramModel(3, 9, Dirichlet(1.0)).fit((text[0].astype(np.int16), text[1])).log_prob(text)
    )
