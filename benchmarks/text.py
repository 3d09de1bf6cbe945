"""The n-gram model with Kneser-Ney smoothing against nltk and against bare sorting, in one run.

    python benchmarks/text.py [--tokens N] [--queries N]

Both sides fit trigrams to the same sentences of words, a synthetic text whose word frequencies follow Zipf's law, and
are asked for the same trigrams. Fits take turns; nltk answers so slowly that it is asked a few times only. The limit of
a fit: each token looked up in a dictionary once, and the keys of bigrams and trigrams sorted once; that of a query: one
binary search in the table of trigrams.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from nltk.lm import KneserNeyInterpolated
from nltk.lm.preprocessing import padded_everygram_pipeline

import gnomon

VOCABULARY = 40_000


def seconds(function: Callable[[], object]) -> float:
    """Seconds of a call."""
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun


def zipf(tokens: int) -> list[list[str]]:
    """Sentences of 20 words on average; the word of rank r has probability proportional to 1 / r."""
    random = np.random.default_rng(0)
    p = 1 / np.arange(1, VOCABULARY + 1)
    ids = random.choice(VOCABULARY, tokens, p=p / p.sum())
    cuts = np.concatenate([[0], np.sort(random.integers(0, tokens, tokens // 20)), [tokens]]).tolist()
    words = [f"w{i}" for i in range(VOCABULARY)]
    return [[words[i] for i in ids[begin:end]] for begin, end in itertools.pairwise(cuts) if end > begin]


def peer(text: list[list[str]]) -> Any:
    """nltk's model, fitted."""
    grams, vocabulary = padded_everygram_pipeline(3, text)
    model = KneserNeyInterpolated(3)
    model.fit(grams, vocabulary)
    return model


def bare_fit(text: list[list[str]]) -> float:
    """Seconds of the limit of a fit."""
    words = list(itertools.chain.from_iterable(text))
    found: dict[str, int] = {}

    def look_up_and_sort() -> None:
        ids = np.array([found.setdefault(word, len(found)) for word in words])
        pairs = ids[:-1] * VOCABULARY + ids[1:]
        np.sort(pairs)
        np.sort(pairs[:-1] * VOCABULARY + ids[2:])

    return min(seconds(look_up_and_sort) for _ in range(3))


def bare_query(tokens: int) -> float:
    """Seconds per query of the limit."""
    random = np.random.default_rng(1)
    table, sought = np.sort(random.integers(0, 1 << 62, tokens)), random.integers(0, 1 << 62, 200_000)
    return min(seconds(lambda: np.searchsorted(table, sought)) for _ in range(3)) / len(sought)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Kneser-Ney trigrams against nltk.")
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=3, help="queries of nltk")
    arguments = parser.parse_args()
    text = zipf(arguments.tokens)
    models: dict[str, Any] = {}

    def fit() -> None:
        models["gnomon"] = gnomon.NGram(n=3, smoothing="kneser-ney").fit(text)

    def fit_peer() -> None:
        models["nltk"] = peer(text)

    fit()  # imports
    own = min(seconds(fit) for _ in range(3))
    theirs = seconds(fit_peer)
    own = min(own, *(seconds(fit) for _ in range(2)))
    limit = bare_fit(text)
    print(f"trigrams, Kneser-Ney, {arguments.tokens} tokens in {len(text)} sentences: seconds of a fit")
    print(f"  gnomon {own:.3f}   nltk {theirs:.1f}   look-ups and sorts {limit:.3f}")
    print(f"  nltk / gnomon {theirs / own:.0f}   gnomon / look-ups and sorts {own / limit:.2f}")

    triples = [sentence[:3] for sentence in text if len(sentence) > 2][: arguments.queries]
    theirs = seconds(lambda: [models["nltk"].score(t[2], t[:2]) for t in triples]) / len(triples)
    asked = text[:10_000]
    answers = sum(map(len, asked)) + len(asked)  # the end of a sentence is predicted too
    own = min(seconds(lambda: models["gnomon"].log_prob(asked)) for _ in range(5)) / answers
    limit = bare_query(arguments.tokens)
    print("seconds of a query")
    print(f"  gnomon {own:.2e}   nltk {theirs:.2e}   one binary search {limit:.2e}")
    print(f"  nltk / gnomon {theirs / own:.0f}   gnomon / binary search {own / limit:.1f}")


if __name__ == "__main__":
    main()
