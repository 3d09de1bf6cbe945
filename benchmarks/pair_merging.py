"""Byte-pair encoding with an end mark: seconds to merge counted words, beside the trainer of the package tokenizers.

    python benchmarks/pair_merging.py [WORDS] [PIECES]

The words are those of Python's reference with numbered ones, so that there are as many different ones as asked for, and
their counts. The package gets every word as often as it occurs, at most 3 times, in one thread; both have the same
alphabet, size and order of ties (by ids), and the same merges, which is checked. Recounting every pair before each
merge, as the algorithm is often written, is timed for 20 merges. Processor time, since other work may run beside.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from itertools import islice, pairwise

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one thread for both

import tokenizers

import gnomon
from gnomon.data.pair_merging import merged


def counted(n: int) -> dict[str, int]:
    """Words and counts."""
    text = gnomon.data.load("python-reference").view("text")
    plain = [word for line in text for word in line.split()]
    words = Counter(f"{word} " for word in plain)
    number = 0
    while len(words) < n:
        words[f"{plain[number % len(plain)]}{number} "] += 1
        number += 1
    return {word: min(count, 3) for word, count in islice(words.items(), n)}


def main(n_words: int, n_pieces: int) -> None:
    """Print what it took."""
    words = counted(n_words)
    alphabet = sorted(set("".join(words)))
    merged({"ab": 1}, ["a", "b"], 3)  # compiles
    begin = time.process_time()
    _, merges = merged(words, alphabet, n_pieces, 2, "ids")
    ours = time.process_time() - begin
    begin = time.process_time()
    merged(words, alphabet, n_pieces, 2, "text")
    by_text = time.process_time() - begin
    peer = tokenizers.Tokenizer(tokenizers.models.BPE())
    rule = tokenizers.trainers.BpeTrainer(vocab_size=n_pieces, min_frequency=2, show_progress=False)
    begin = time.process_time()
    peer.train_from_iterator((word for word, n in words.items() for _ in range(n)), rule)
    theirs = time.process_time() - begin
    same = [tuple(pair) for pair in json.loads(peer.to_str())["model"]["merges"]] == merges
    begin = time.process_time()
    for _ in range(20):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, n in words.items():
            for pair in pairwise(word):
                pairs[pair] += n
    naive = (time.process_time() - begin) / 20 * len(merges)
    print(
        f"{len(words)} words of {sum(map(len, words))} characters, {len(merges)} merges: {ours:.2f} s by ids, "
        f"{by_text:.2f} s by text; the package {theirs:.2f} s, the same merges: {same}; ratio {ours / theirs:.2f}; "
        f"recounting about {naive:.0f} s"
    )


if __name__ == "__main__":
    given = [int(value) for value in sys.argv[1:]]
    main(*(given + [30000, 8000][len(given) :])[:2])
