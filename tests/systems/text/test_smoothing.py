"""Every smoothing against its definition written as loops, hand-made numbers, its limits and the sum of each row."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

from gnomon.errors import UserError
from gnomon.systems.text.ngram import MLE, Additive, Dirichlet, Interpolated, Katz, KneserNey, NGramModel, Threshold
from oracles.corpora import lines, zipf
from oracles.ngram import Slow, mixture_weights

A, B, C = 3, 4, 5
SMOOTHINGS = [
    MLE(), Additive(0.5), Dirichlet(2.0), Dirichlet(0.0), Interpolated(), Interpolated((0.3, 0.6, 0.2)), Katz(),
    Katz("good-turing"), Katz(0.4), Katz(0.0), Threshold(3), KneserNey(), KneserNey(0.75), KneserNey((0.2, 1.0, 1.4)),
]  # fmt: skip
quiet = pytest.mark.filterwarnings("ignore:too little text")


def every_context(model: NGramModel) -> list[tuple[int, ...]]:
    size = model.vocabulary_size
    return [c for k in range(model.n) for c in itertools.product(range(size), repeat=k)]


def slow_of(text: tuple[np.ndarray, np.ndarray], model: NGramModel) -> Slow:
    padded = model.sentence_start == "pad"
    return Slow(lines(text), model.n, np.flatnonzero(model.outcomes).tolist(), padded=padded)


def likely_contexts(model: NGramModel) -> list[tuple[int, ...]]:
    return [c for c in every_context(model) if 2 not in c and 0 not in c and 1 not in c[1:]]


@pytest.mark.spec("PRA-148", "PRA-149", "PRA-150", "DLN-32", "DLN-174")
@quiet
@pytest.mark.parametrize("start", ["pad", "lower_order"])
@pytest.mark.parametrize("unknown", [True, False])
@pytest.mark.parametrize("smoothing", SMOOTHINGS, ids=repr)
def test_every_row_sums_to_one(smoothing: Any, unknown: bool, start: Any) -> None:
    for seed, vocabulary in ((0, 6), (1, 12)):
        model = NGramModel(3, vocabulary, smoothing, start, unknown).fit(zipf(seed, vocabulary, 300, 40))
        rows = model.next_distribution(every_context(model))
        total = rows.sum(axis=1)
        if isinstance(smoothing, MLE):
            total = total[total != 0]  # an unseen context has no distribution
        assert np.abs(total - 1).max() < 1e-12
        assert rows.min() >= 0
        assert rows.max() <= 1 + 1e-15
        assert not rows[:, ~model.outcomes].any()


@pytest.mark.spec("DLN-174")
@quiet
@pytest.mark.parametrize("start", ["pad", "lower_order"])
@pytest.mark.parametrize("smoothing", SMOOTHINGS, ids=repr)
def test_scores_of_sentences_are_products_of_rows(smoothing: Any, start: Any) -> None:
    model = NGramModel(3, 9, smoothing, start).fit(zipf(2, 9, 300, 40))
    other = zipf(3, 9, 80, 15)
    got, sentence = model.token_log_prob(other)
    padded = start == "pad"
    whole = [[1, *line, 2] if padded else line for line in lines(other)]
    asked = [(line[max(0, t - 2) : t], line[t], i) for i, line in enumerate(whole) for t in range(padded, len(line))]
    rows = model.next_distribution([context for context, _, _ in asked])
    expected = rows[np.arange(len(asked)), [token for _, token, _ in asked]]
    np.testing.assert_allclose(np.exp(got), expected, rtol=1e-12, atol=1e-300)
    assert sentence.tolist() == [i for _, _, i in asked]
    with np.errstate(divide="ignore"):
        sums = [np.log(expected[sentence == i]).sum() for i in range(len(whole))]
    np.testing.assert_allclose(model.log_prob(other), sums, rtol=1e-12)


@pytest.mark.spec("PRA-148")
def test_additive_by_hand_and_as_a_dirichlet_predictive() -> None:
    model = NGramModel(1, 6, Additive(1.0), "lower_order", unknown=False).fit(([B, C, B], [0, 3]))
    np.testing.assert_allclose(model.estimate.unigram[[A, B, C]], [1 / 6, 1 / 2, 1 / 3], rtol=1e-15)
    # the predictive of a Dirichlet prior by integration over the simplex: ratio of two normalizing constants
    from scipy.special import gammaln

    alpha, count = np.array([0.5, 2.0, 1.5]), np.array([0, 2, 1])
    model = NGramModel(1, 6, Additive((9.0, 9.0, 9.0, *alpha)), "lower_order", unknown=False).fit(([B, C, B], [0, 3]))

    def log_constant(a: np.ndarray) -> float:
        return float(gammaln(a).sum() - gammaln(a.sum()))

    expected = [np.exp(log_constant(alpha + count + np.eye(3)[w]) - log_constant(alpha + count)) for w in range(3)]
    np.testing.assert_allclose(model.estimate.unigram[[A, B, C]], expected, rtol=1e-12)
    # after B came A and C, after A nothing
    model = NGramModel(2, 6, Additive((9.0, 9.0, 9.0, *alpha)), "lower_order", unknown=False).fit(
        ([B, C, B, A], [0, 4])
    )
    rows = model.next_distribution([[B], [A]])[:, [A, B, C]]
    np.testing.assert_allclose(rows, [(alpha + [1, 0, 1]) / 6, alpha / 4], rtol=1e-14)


@pytest.mark.spec("PRA-148", "DLN-32")
def test_without_pseudo_counts_maximum_likelihood_is_left() -> None:
    text = zipf(5, 7, 200, 10)
    likely = NGramModel(2, 7, MLE(), "pad").fit(text)
    seen = [c for c in every_context(likely) if likely.next_distribution([c]).any()]
    expected = likely.next_distribution(seen)
    for smoothing in (Additive(0.0), Additive(1e-12), Dirichlet(0.0), Dirichlet(1e-12), Katz(0.0), Threshold(1)):
        found = NGramModel(2, 7, smoothing, "pad").fit(text).next_distribution(seen)
        np.testing.assert_allclose(found, expected, atol=1e-9, err_msg=repr(smoothing))


@pytest.mark.spec("DLN-32")
def test_the_laplace_chain_by_hand() -> None:
    text = ([A, B, A, C, A, B], [0, 6])
    model = NGramModel(3, 6, Dirichlet(1.0), "lower_order", unknown=False).fit(text)
    np.testing.assert_allclose(model.next_distribution([[]])[0, [A, B, C]], [10 / 21, 1 / 3, 4 / 21], rtol=1e-14)
    after_a = model.next_distribution([[A]])[0]
    assert after_a[B] == pytest.approx(7 / 12, rel=1e-14)
    assert after_a[A] == pytest.approx(5 / 42, rel=1e-14)
    # third order: the lower term is P(x''|x'), here P(A|B) = (1 + 10/21) / 2
    assert model.next_distribution([[A, B]])[0, A] == pytest.approx((1 + 31 / 42) / (1 + 1), rel=1e-14)
    strong = NGramModel(3, 6, Dirichlet((1.0, 1e12, 1e12)), "lower_order", unknown=False).fit(text)
    np.testing.assert_allclose(strong.next_distribution([[A, B]]), model.next_distribution([[]]), rtol=1e-9)
    flat = NGramModel(1, 6, Dirichlet(1e13), "lower_order", unknown=False).fit(text)
    np.testing.assert_allclose(flat.estimate.unigram[[A, B, C]], 1 / 3, rtol=1e-9)


@pytest.mark.parametrize("start", ["pad", "lower_order"])
def test_kneser_ney_is_its_definition(start: Any) -> None:
    text = zipf(6, 12, 400, 60)
    given = [[0.3, 0.6, 0.9], [0.5, 1.1, 1.2], [0.7, 0.9, 1.6]]
    for model, table in (
        (NGramModel(3, 12, KneserNey((0.3, 0.6, 0.9)), start), [given[0]] * 3),
        (NGramModel(3, 12, KneserNey(0.75), start), [[0.75] * 3] * 3),
    ):
        model.fit(text)
        slow = slow_of(text, model)
        for context in likely_contexts(model)[::7]:
            row = model.next_distribution([context])[0]
            for w in slow.outcomes:
                assert row[w] == pytest.approx(slow.kneser_ney(w, context, table), rel=1e-12), (context, w)


def test_kneser_ney_estimates_its_discounts_from_counts_of_counts() -> None:
    text = zipf(7, 200, 6000, 400)
    model = NGramModel(3, 200, "kneser-ney").fit(text)
    slow = slow_of(text, model)
    assert np.ptp(model.parameters["discounts"], axis=0).min() > 0
    for order in (1, 2, 3):
        try:
            expected = slow.discounts(order)
        except ZeroDivisionError:
            expected = [0.5, 1.0, 1.5]
        np.testing.assert_allclose(model.parameters["discounts"][order - 1], expected, rtol=1e-12)


def absolute(n: Counter[int]) -> list[float]:
    return [n[1] / (n[1] + 2 * n[2])] * 6 if n[1] and n[2] else [0.5] * 6


def good_turing(n: Counter[int]) -> list[float]:
    """r - d_r r for counts up to 5; the absolute discount where counts of counts do not determine d_r in (0, 1]."""
    if not all(n[r] for r in range(1, 7)) or 6 * n[6] >= n[1]:
        return absolute(n)
    above = 6 * n[6] / n[1]
    kept = [((r + 1) * n[r + 1] / n[r] / r - above) / (1 - above) for r in range(1, 6)]
    return [r * (1 - d) for r, d in enumerate(kept, 1)] + [0.0] if all(0 < d <= 1 for d in kept) else absolute(n)


def and_often(first: int, second: int, text: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The text, and seven sentences of two tokens of which the first is found nowhere else."""
    ids, offsets = text
    return np.append(ids, [first, second] * 7), np.append(offsets, offsets[-1] + 2 * np.arange(1, 8))


@pytest.mark.spec("PRA-150")
@quiet
@pytest.mark.parametrize("start", ["pad", "lower_order"])
@pytest.mark.parametrize(
    ("smoothing", "estimate", "text"),
    [
        (Katz(0.6), lambda n: [0.6] * 6, zipf(9, 9, 300, 40)), (Katz(), absolute, zipf(9, 9, 300, 40)),
        (Katz("good-turing"), good_turing, and_often(60, A, zipf(31, 60, 2500, 200))),
    ],
    ids=["fixed", "absolute", "good-turing"],
)  # fmt: skip
def test_katz_is_its_definition(smoothing: Any, estimate: Any, text: Any, start: Any) -> None:
    """Discounts from the counts of counts of each order; a context whose counts are all above 5 has no discount."""
    size = int(text[0].max()) + 1
    model = NGramModel(3, size, smoothing, start).fit(text)
    slow = slow_of(text, model)
    taken = [estimate(slow.counts_of_counts(order)) for order in (1, 2, 3)]
    np.testing.assert_allclose(model.parameters["discounts"], taken, rtol=1e-12)
    if estimate is good_turing:
        assert [row[5] for row in taken][1:] == [0, 0]  # order 1 has too few: absolute ones
        assert len(slow.followers((60,))) == 1
        np.testing.assert_allclose(model.next_distribution([[60]])[0, A], 7 / 8)
    for context in likely_contexts(model)[:: max(3, size * size // 300)]:
        row, expected = model.next_distribution([context])[0], slow.katz(context, taken)
        np.testing.assert_allclose(row[list(expected)], list(expected.values()), rtol=1e-11, err_msg=str(context))


@pytest.mark.spec("PRA-150")
@quiet
@pytest.mark.parametrize(
    "smoothing", [Katz(), Katz("good-turing"), Threshold(2), KneserNey(), Dirichlet(1.0)], ids=repr
)
def test_an_unseen_context_has_the_lower_order(smoothing: Any) -> None:
    model = NGramModel(3, 9, smoothing).fit(zipf(10, 9, 200, 20))
    for last in range(3, 9):
        unseen = model.next_distribution([[2, last], [0, last]])
        assert np.array_equal(unseen, np.repeat(model.next_distribution([[last]]), 2, axis=0))
    assert np.array_equal(model.next_distribution([[0, 2]]), model.next_distribution([[]]))


@pytest.mark.spec("PRA-150")
def test_katz_without_discount_where_all_was_seen_is_maximum_likelihood() -> None:
    text = ([A, A, B, B, A], [0, 5])  # aa ab bb ba
    likely = NGramModel(2, 5, MLE(), "lower_order", unknown=False).fit(text)
    for discount in (0.0, "absolute", "good-turing"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = NGramModel(2, 5, Katz(discount), "lower_order", unknown=False).fit(text)
        found = model.next_distribution([[A], [B]])
        np.testing.assert_allclose(found, likely.next_distribution([[A], [B]]), rtol=1e-15, err_msg=str(discount))


@pytest.mark.spec("PRA-150")
def test_good_turing_moves_the_mass_of_the_once_seen_to_the_unseen() -> None:
    # counts of counts chosen by hand: n1 = 40, n2 = 14, n3 = 7, n4 = 5, n5 = 4, n6 = 2, and one token seen 30 times
    tally = {1: 40, 2: 14, 3: 7, 4: 5, 5: 4, 6: 2, 30: 1}
    ids, kinds = [], 3
    for count, tokens in tally.items():
        for _ in range(tokens):
            ids += [kinds] * count
            kinds += 1
    total, unseen = len(ids), 20
    model = NGramModel(1, kinds + unseen, Katz("good-turing"), "lower_order", unknown=False).fit((ids, [0, total]))
    row = model.estimate.unigram
    assert row[kinds:].sum() == pytest.approx(40 / total, rel=1e-12)  # n1 / N
    np.testing.assert_allclose(row[kinds:], 40 / total / unseen, rtol=1e-12)
    assert row[kinds - 1] == pytest.approx(30 / total)  # a count above five keeps its mass
    ratios = np.array([(r + 1) * tally[r + 1] / tally[r] / r for r in range(1, 6)])
    above = 6 * tally[6] / tally[1]
    first = 3
    for r in range(1, 6):
        assert row[first] == pytest.approx(r * (ratios[r - 1] - above) / (1 - above) / total, rel=1e-12)
        first += tally[r]


@pytest.mark.spec("PRA-150")
def test_threshold_takes_the_longest_reliable_context() -> None:
    # "a b" as context: 3 times; "b a": once; "a": 4 times; "c": once
    text = ([A, B, C, A, B, A, A, B, C], [0, 3, 5, 9])
    model = NGramModel(3, 6, Threshold(2), "lower_order", unknown=False).fit(text)
    assert model.next_distribution([[A, B]])[0, C] == 1.0  # seen as a context twice
    np.testing.assert_allclose(model.next_distribution([[B, A]]), model.next_distribution([[A]]))
    np.testing.assert_allclose(model.next_distribution([[A, C]]), model.next_distribution([[]]))
    used = model.order_used(text)
    #             a  b  c  a  b  a  a  b  c: the second token of a sentence has one token of context
    assert used.tolist() == [1, 2, 3, 1, 2, 1, 2, 2, 3]
    deep = NGramModel(3, 6, Threshold(1), "lower_order", unknown=False).fit(text)
    assert deep.order_used(text).tolist() == [1, 2, 3, 1, 2, 1, 2, 3, 3]


@pytest.mark.spec("PRA-150")
@quiet
def test_order_used_is_the_longest_ngram_that_was_seen() -> None:
    text = zipf(12, 9, 200, 20)
    other = zipf(13, 9, 60, 6)
    model = NGramModel(3, 9, Katz()).fit(text)
    slow = slow_of(text, model)
    expected = []
    for line in lines(other):
        whole = [1, *line, 2]
        for t in range(1, len(whole)):
            seen = [k for k in range(1, min(3, t + 1) + 1) if slow.count[tuple(whole[t - k + 1 : t + 1])]]
            expected.append(max(seen, default=1))
    assert model.order_used(other).tolist() == expected
    single = NGramModel(3, 9, Additive(1.0)).fit(text)
    assert set(single.order_used(other)) == {2, 3}


def test_katz_sums_to_one_when_almost_nothing_is_left_for_the_unseen() -> None:
    # after c came only a, which is almost all of the text: 1 - P(a) has lost most of its digits
    ids = np.concatenate([np.full(300_000, A), [C, A, B, B]])
    model = NGramModel(3, 6, Katz(0.5), "lower_order", unknown=True).fit((ids, [0, ids.size]))
    rows = model.next_distribution(every_context(model))
    assert np.abs(rows.sum(axis=1) - 1).max() < 1e-14


@pytest.mark.spec("PRA-149")
@pytest.mark.parametrize("start", ["pad", "lower_order"])
def test_interpolation_is_its_definition_and_one_hot_weights_are_that_order(start: Any) -> None:
    text = zipf(14, 9, 200, 20)
    for weights in ((0.4, 0.7, 0.2), (1.0, 0.0, 0.0), (0.3, 1.0, 0.0), (1.0, 1.0, 1.0)):
        model = NGramModel(3, 9, Interpolated(weights), start).fit(text)
        slow = slow_of(text, model)
        for context in likely_contexts(model)[::3]:
            row = model.next_distribution([context])[0]
            for w in slow.outcomes:
                assert row[w] == pytest.approx(slow.mixed(w, context, [[one] for one in weights]), rel=1e-12)
    single = NGramModel(3, 9, Interpolated((1.0, 0.0, 0.0)), start).fit(text)
    unigram = NGramModel(1, 9, MLE(), "lower_order" if start == "lower_order" else "pad").fit(text)
    np.testing.assert_allclose(single.next_distribution([[A, B]]), unigram.next_distribution([[]]), rtol=1e-14)
    top = NGramModel(3, 9, Interpolated((1.0, 1.0, 1.0)), start).fit(text)
    likely = NGramModel(3, 9, MLE(), start).fit(text)
    seen = [c for c in itertools.product(range(3, 9), repeat=2) if likely.next_distribution([c]).any()]
    np.testing.assert_allclose(top.next_distribution(seen), likely.next_distribution(seen), atol=1e-15)


@pytest.mark.spec("PRA-149")
def test_the_weight_by_expectation_maximization_is_that_of_a_grid_search() -> None:
    text, held_out = zipf(15, 10, 150, 15), zipf(16, 10, 150, 15)
    recipe = Interpolated(buckets=1, max_iter=2000, tol=0.0)
    model = NGramModel(1, 10, recipe, "lower_order").fit(text, held_out)
    grid = np.linspace(0.01, 0.999, 500)
    values = [NGramModel(1, 10, Interpolated((g,)), "lower_order").fit(text).log_prob(held_out).sum() for g in grid]
    assert model.parameters["weights"][0, 0] == pytest.approx(grid[np.argmax(values)], abs=0.002)
    assert model.log_prob(held_out).sum() >= max(values) - 1e-6
    bigram = NGramModel(2, 10, Interpolated(buckets=1, max_iter=2000, tol=0.0)).fit(text, held_out)
    low = bigram.parameters["weights"][0, 0]
    grid = np.linspace(0.001, 0.999, 300)
    values = [NGramModel(2, 10, Interpolated((low, g))).fit(text).log_prob(held_out).sum() for g in grid]
    assert bigram.parameters["weights"][1, 0] == pytest.approx(grid[np.argmax(values)], abs=0.004)


@pytest.mark.spec("PRA-149")
@pytest.mark.parametrize("validated", [True, False])
def test_the_held_out_likelihood_never_falls(validated: bool) -> None:
    text, held_out = zipf(17, 40, 1500, 100), zipf(18, 40, 500, 30)
    recipe = Interpolated(buckets=5, max_iter=60, tol=0.0)
    model = NGramModel(3, 40, recipe).fit(text, held_out if validated else None)
    history = model.parameters["log_likelihood"]
    assert len(history) > 10
    assert np.diff(history).min() > -1e-12
    if validated:  # the last entry is the score that the model itself gives
        assert history[-1] == pytest.approx(model.token_log_prob(held_out)[0].mean(), rel=1e-12)


@pytest.mark.spec("PRA-149")
def test_leaving_one_out_scores_each_token_by_the_counts_of_all_others() -> None:
    text = zipf(19, 7, 60, 6)
    fixed = 0.5  # the weights before the first iteration
    model = NGramModel(2, 7, Interpolated(buckets=1, max_iter=1, tol=0.0), "lower_order").fit(text)
    values = []
    for line in lines(text):
        for t, w in enumerate(line):
            counts = Slow(lines(text), 2, list(range(3, 7)) + [0], padded=False).count
            context = tuple(line[max(0, t - 1) : t])
            p = 1 / 5
            for k in range(len(context) + 1):
                part = context[len(context) - k :]
                mine = counts[*part, w] - 1
                total = sum(counts[*part, v] for v in range(3, 7)) - 1
                p = fixed * mine / total + (1 - fixed) * p if total else p
            values.append(np.log(p))
    assert model.parameters["log_likelihood"][0] == pytest.approx(np.mean(values), rel=1e-12)


@pytest.mark.spec("PRA-149")
@pytest.mark.parametrize("start", ["pad", "lower_order"])
@pytest.mark.parametrize("validated", [True, False])
def test_weights_by_order_and_bucket_are_those_of_expectation_maximization(validated: bool, start: Any) -> None:
    """Three steps token by token, on held-out text or leaving each token out; then the mixture with these weights."""
    text, held_out = zipf(25, 11, 260, 30), zipf(26, 11, 120, 12)
    buckets, n = 6, 3
    recipe = Interpolated(buckets=buckets, max_iter=3, tol=0.0)
    model = NGramModel(n, 11, recipe, start).fit(text, held_out if validated else None)
    slow = slow_of(text, model)
    tokens = slow.shares(lines(held_out if validated else text), without=0 if validated else 1)
    weights, history = mixture_weights(tokens, 1 / model.outcomes.sum(), n, buckets, 3)
    np.testing.assert_allclose(model.parameters["weights"], weights, rtol=1e-9)
    np.testing.assert_allclose(model.parameters["log_likelihood"], history, rtol=1e-12)
    assert np.ptp(model.parameters["weights"], axis=1).min() > 0.1 * (start == "pad")
    for context in likely_contexts(model)[::3]:
        row = model.next_distribution([context])[0]
        for w in slow.outcomes:
            assert row[w] == pytest.approx(slow.mixed(w, context, weights), rel=1e-9), (context, w)


@pytest.mark.spec("PRA-149")
def test_buckets_tell_contexts_of_unlike_counts_apart() -> None:
    rng = np.random.default_rng(20)
    ids, offsets = zipf(20, 300, 5000, 250)
    follows = rng.permutation(297) + 3
    for t in np.flatnonzero(rng.random(5000) < 0.7)[1:]:
        ids[t] = follows[ids[t - 1] - 3]  # most tokens have a favorite follower
    text, held_out = (ids[: offsets[200]], offsets[:201]), (ids[offsets[200] :], offsets[200:] - offsets[200])
    model = NGramModel(2, 300, Interpolated(buckets=8, max_iter=200)).fit(text, held_out)
    weights = model.parameters["weights"][1]
    assert weights[6] > weights[0] + 0.1  # a context seen often is trusted more
    pooled = NGramModel(2, 300, Interpolated(buckets=1, max_iter=200)).fit(text, held_out)
    assert model.log_prob(held_out).sum() > pooled.log_prob(held_out).sum()


@pytest.mark.parametrize(
    ("smoothing", "told"),
    [
        (Additive(-1.0), "-1.0"),
        (Additive((1.0, 2.0)), "smoothing__alpha must hold one pseudo-count per token id, got 2 for 6"),
        (Additive(float("nan")), "nan"),
        (Dirichlet((1.0,)), "smoothing__strength must hold one number per order, got 1 for 3"),
        (KneserNey(1.5), "1.5"),
        (KneserNey((0.5, 1.0, 3.5)), "smoothing__discounts must be in"),
        (Katz("turing"), "good-turing"),  # type: ignore[arg-type]
        (Katz(1.0), "1.0"),
        (Threshold(0), "0"),
        (Interpolated((0.5, 1.2, 0.5)), "1.2"),
        (Interpolated((0.5,)), "3 numbers"),
        (Interpolated(buckets=0), "0"),
        ("kneser", "kneser-ney"),
    ],
)
def test_refusals_name_the_parameter_and_the_remedy(smoothing: Any, told: str) -> None:
    with pytest.raises(UserError, match=told) as caught:
        NGramModel(3, 6, smoothing).fit(([A, B, C], [0, 3]))
    assert "\n" not in str(caught.value)
