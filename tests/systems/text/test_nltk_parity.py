"""Agreement with nltk.lm where its definitions are the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from nltk.lm import MLE as PeerMLE  # imported here: loading nltk draws from the global random state
from nltk.lm import KneserNeyInterpolated, Lidstone, StupidBackoff
from nltk.util import everygrams

from gnomon.systems.text.ngram import MLE, Additive, KneserNey, NGramModel, Threshold
from oracles.corpora import lines, zipf
from oracles.ngram import Slow


@pytest.mark.spec("PRA-146")
@pytest.mark.parametrize("n", [1, 2, 3])
def test_maximum_likelihood(n: int) -> None:
    text = zipf(22, 8, 300, 20)
    words = [["<s>", *map(str, line), "</s>"] for line in lines(text)]
    peer = PeerMLE(n)
    peer.fit([everygrams(line, max_len=n) for line in words], ["<s>", "</s>", *map(str, range(3, 8))])
    model = NGramModel(n, 8, MLE()).fit(text)
    names = {i: str(i) for i in range(3, 8)} | {1: "<s>", 2: "</s>"}
    # nltk counts <s> as a token of the unigram, the model never predicts it
    factor = model.counts.n_tokens / (model.counts.n_tokens + len(words)) if n == 1 else 1.0
    for context in itertools.product([1, 3, 4, 5, 6, 7], repeat=n - 1):
        row = model.next_distribution([context])[0] * factor
        for w in (2, 3, 4, 5, 6, 7):
            expected = peer.score(names[w], [names[i] for i in context])
            assert row[w] == pytest.approx(expected, rel=1e-12), (context, w)


@pytest.mark.spec("PRA-148")
@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_additive(alpha: float) -> None:
    text = zipf(4, 9, 200, 20)
    words = [[str(i) for i in line] for line in lines(text)]
    peer = Lidstone(alpha, 3)
    peer.fit([everygrams(line, max_len=3) for line in words], [str(i) for i in range(3, 9)])
    model = NGramModel(3, 9, Additive(alpha), "lower_order").fit(text)
    for context in itertools.product(range(3, 9), repeat=2):
        row = model.next_distribution([context])[0]
        for w in range(3, 9):
            assert row[w] == pytest.approx(peer.score(str(w), [str(i) for i in context]), rel=1e-12)
        assert row[0] == pytest.approx(peer.score("never", [str(i) for i in context]), rel=1e-12)


def test_kneser_ney() -> None:
    text = zipf(8, 8, 400, 30)
    words = [["<s>", *map(str, line), "</s>"] for line in lines(text)]
    peer = KneserNeyInterpolated(3, discount=0.3)
    peer.fit([everygrams(line, max_len=3) for line in words], ["<s>", "</s>", *map(str, range(3, 8))])
    model = NGramModel(3, 8, KneserNey(0.3)).fit(text)
    # nltk does not mix the unigram with the uniform distribution
    model.load(model.state() | {"parameter_discounts": np.array([[0.0] * 3, [0.3] * 3, [0.3] * 3])})
    names = {i: str(i) for i in range(3, 8)} | {2: "</s>"}
    for context in itertools.product(range(3, 8), repeat=2):
        row = model.next_distribution([context])[0]
        for w, word in names.items():
            expected = peer.score(word, [names[i] for i in context])
            assert row[w] == pytest.approx(expected, rel=1e-12), (context, w)


@pytest.mark.spec("PRA-150")
def test_threshold_where_stupid_backoff_without_penalty_is_normalized() -> None:
    text = zipf(11, 9, 150, 10)
    words = [[str(i) for i in line] for line in lines(text)]
    peer = StupidBackoff(alpha=1.0, order=3)
    peer.fit([everygrams(line, max_len=3) for line in words], [str(i) for i in range(3, 9)])
    model = NGramModel(3, 9, Threshold(1), "lower_order").fit(text)
    slow = Slow(lines(text), 3, list(range(3, 9)), padded=False)
    compared = 0
    for context in itertools.product(range(3, 9), repeat=2):
        row = model.next_distribution([context])[0]
        known = slow.followers(context) or slow.followers(context[1:])
        for w in known:  # a token that was seen after the context used
            assert row[w] == pytest.approx(peer.score(str(w), [str(i) for i in context]), rel=1e-12)
            compared += 1
    assert compared > 50
