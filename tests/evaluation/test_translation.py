"""BLEU against its definition worked out by counting."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from gnomon.errors import UserValueError
from gnomon.evaluation.translation import bleu, translation_scores

SAID = ["the sun casts a long shadow on the dial", "the the the the the the the", "noon is near the old sun dial now"]
WANTED = [
    "the sun casts a shadow on the old dial",
    "the cat is on the mat of the house",
    "noon is near the sun dial now",
]


def by_counting(said, wanted):
    logs = []
    for n in range(1, 5):
        matches = total = 0
        for a, b in zip(said, wanted, strict=True):
            a, b = a.split(), b.split()
            ours = Counter(tuple(a[i : i + n]) for i in range(len(a) - n + 1))
            theirs = Counter(tuple(b[i : i + n]) for i in range(len(b) - n + 1))
            matches += sum(min(count, theirs[gram]) for gram, count in ours.items())
            total += sum(ours.values())
        logs.append(math.log(matches / total))
    c, r = (sum(len(one.split()) for one in side) for side in (said, wanted))
    return 100 * min(1.0, math.exp(1 - r / c)) * math.exp(sum(logs) / 4)


def test_bleu_is_its_definition():
    assert bleu(SAID, WANTED, tokenizer="none").value == pytest.approx(by_counting(SAID, WANTED))
    shorter = [" ".join(one.split()[:5]) for one in SAID]  # the brevity penalty
    assert bleu(shorter, WANTED, tokenizer="none").value == pytest.approx(by_counting(shorter, WANTED))
    assert bleu(WANTED, WANTED).value == 100.0


def test_the_standard_error_is_that_of_resampled_sentences():
    random = np.random.default_rng(0)
    words = ["sun", "dial", "noon", "hour", "the", "a"]
    wanted = [" ".join(random.choice(words, 9)) for _ in range(60)]
    said = [" ".join(w if random.random() < 0.8 else "x" for w in one.split()) for one in wanted]
    score = bleu(said, wanted, tokenizer="none")
    assert score.value == pytest.approx(by_counting(said, wanted))
    rows = random.integers(60, size=(300, 60))
    spread = np.std([by_counting([said[i] for i in r], [wanted[i] for i in r]) for r in rows])
    assert score.stderr == pytest.approx(spread, rel=0.3)


def test_scores_of_characters_and_refusals():
    assert translation_scores(SAID, WANTED, "word")["bleu"].value == pytest.approx(by_counting(SAID, WANTED))
    found = translation_scores(["abcd", "abc"], ["abcd", "abd"], "char")
    assert found["exact"].value == 0.5 and "char" in found["bleu"].data_space
    for lists in ((["a"], []), ([], [])):
        with pytest.raises(UserValueError, match="one reference per translation"):
            bleu(*lists)
