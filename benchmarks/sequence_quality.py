"""What sequence systems reach: bits per character of English, exact targets of toy pairs, BLEU of a small interface.

    python benchmarks/sequence_quality.py characters    # gru-lm beside the best n-gram; about 5 minutes
    python benchmarks/sequence_quality.py attention     # transformer-lm beside both; about 9 minutes
    python benchmarks/sequence_quality.py toys          # reversed strings and dates; about 2 minutes
    python benchmarks/sequence_quality.py interface     # English to Chinese, both translators; about 6 minutes
    python benchmarks/sequence_quality.py verses        # English to Japanese, both translators; about 25 minutes

One thread, seed 0, a fifth of the rows held out. Order and smoothing of the n-gram are chosen on a fifth of the
training sentences; early stopping of networks takes a part of the training rows too. Held-out rows are looked at once,
at the end.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from dataclasses import replace
from typing import Any

import torch

import gnomon
from gnomon.data import load, split
from gnomon.evaluation.translation import bleu

ORDERS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24)
SMOOTHINGS = ("kneser-ney", "interpolated", "dirichlet", "katz")


def halves(name: str) -> tuple[Any, Any]:
    """Training and held-out part of a data set."""
    parts: tuple[Any, Any] = split(load(name), test=0.2, seed=0)
    return parts


def bits(model: Any, text: list[str]) -> float:
    """Per character, sentence ends included."""
    return float(-model.score(text) / math.log(2))


def characters() -> None:
    """Bits per character of both language models, and the paired difference."""
    train, test = halves("python-reference")
    fit, judge = split(train, test=0.2, seed=0)
    found = {}
    for n, smoothing in itertools.product(ORDERS, SMOOTHINGS):
        model = gnomon.NGram(n=n, smoothing=smoothing, unit="char").fit(list(fit.text))
        found[n, smoothing] = bits(model, list(judge.text))
    for (n, smoothing), value in sorted(found.items(), key=lambda one: one[1])[:5]:
        print(f"{n}-gram, {smoothing}: {value:.4f} bits on validation")
    n, smoothing = min(found, key=lambda key: found[key])
    ngram = gnomon.NGram(n=n, smoothing=smoothing, unit="char").fit(list(train.text))
    network = gnomon.GRULM(unit="char", random_state=0).fit(list(train.text))
    held = list(test.text)
    print(f"{n}-gram, {smoothing}: {bits(ngram, held):.3f} bits per character of {len(held)} held-out sentences")
    print(f"gru-lm: {bits(network, held):.3f}, epoch {network.history_['best_epoch'][-1]:.0f}")
    one, other = (model.evaluate(held)["log_likelihood"] for model in (network, ngram))
    print(f"gru-lm {one}; n-gram {other}: gru-lm is {one.against(other)}")


def attention() -> None:
    """Bits per character of transformer-lm, gru-lm and the n-gram that `characters` chooses, and paired differences."""
    train, test = (list(part.text) for part in halves("python-reference"))
    models = {
        "24-gram": gnomon.NGram(n=24, smoothing="kneser-ney", unit="char"),
        "gru-lm": gnomon.GRULM(unit="char", random_state=0),
        "transformer-lm": gnomon.TransformerLM(
            unit="char",
            window=128,
            batch_size=16,
            dropout=0.2,
            epochs=60,
            schedule="cosine",
            random_state=0,
        ),
    }
    found = {}
    for name, model in models.items():
        begun = time.process_time()
        found[name] = model.fit(train).evaluate(test)["log_likelihood"]
        epoch = (
            f", epoch {model.history_['best_epoch'][-1]:.0f}" if "best_epoch" in getattr(model, "history_", {}) else ""
        )
        spent = time.process_time() - begun
        print(f"{name}: {bits(model, test):.3f} bits per character{epoch}, {spent:.0f} s", flush=True)
    for name in ("24-gram", "gru-lm"):
        print(f"transformer-lm is {found['transformer-lm'].against(found[name])} than {name}")


def toys() -> None:
    """Fraction of held-out targets that are written exactly."""
    for name in ("reversed", "dates"):
        train, test = halves(name)
        model = gnomon.Seq2Seq(epochs=15, random_state=0).fit(list(train.pairs))
        for method in ("greedy", "beam"):
            said = model.translate(list(test.pairs), method=method)
            exact = sum(a == b for a, (_, b) in zip(said, test.pairs, strict=True)) / len(said)
            print(f"{name}, {method}: {exact:.4f} of {len(said)} exact")


def interface() -> None:
    """BLEU of the strings that Django says in English and Chinese."""
    train, test = halves("django-zh")
    judge("seq2seq", gnomon.Seq2Seq(random_state=0), train, test, "char")
    transformer = gnomon.Transformer(n_embedding=128, n_hidden=512, dropout=0.3, epochs=60, random_state=0)
    judge("transformer", transformer, train, test, "char")


def verses() -> None:
    """BLEU of short verses of the Bible in English and classical Japanese, 1,000 held out; the same passes for both."""
    data = load("bible-ja")
    data = replace(data, pairs=tuple(pair for pair in data.pairs if len(pair[0]) <= 100))
    train, test = split(data, test=1000 / len(data.pairs), seed=0)
    settings = {"unit": "bpe", "n_embedding": 128, "epochs": 12, "batch_size": 64, "random_state": 0}
    judge("seq2seq", gnomon.Seq2Seq(n_hidden=256, **settings), train, test, "zh")
    transformer = gnomon.Transformer(n_hidden=512, n_layers=3, schedule="warmup-linear", **settings)
    judge("transformer", transformer, train, test, "zh")


def judge(name: str, model: Any, train: Any, test: Any, tokenizer: Any) -> None:
    """BLEU on characters of a translator, greedily and by the beam, and some of what it writes."""
    begun = time.process_time()
    model.fit(list(train.pairs))
    epoch = model.history_["best_epoch"][-1] if "best_epoch" in model.history_ else len(model.history_["cross_entropy"])
    spent = time.process_time() - begun
    print(f"{name}: {len(train.pairs)} pairs to learn from; epoch {epoch:.0f} is kept; {spent:.0f} s", flush=True)
    targets = [target for _, target in test.pairs]
    for method in ("greedy", "beam"):
        said = model.translate(list(test.pairs), method=method)
        exact = sum(a == b for a, b in zip(said, targets, strict=True)) / len(said)
        found, words = bleu(said, targets, tokenizer=tokenizer), bleu(said, targets, tokenizer="zh")
        print(f"{name}, {method}: BLEU by {tokenizer} {found}, by zh {words}, exact {exact:.4f}", flush=True)
        for (source, target), one in list(zip(test.pairs, said, strict=True))[2:6]:
            print(f"    {source!r}: {one!r} for {target!r}")


def main() -> None:
    """Run one of the parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"characters": characters, "attention": attention, "toys": toys, "interface": interface, "verses": verses}
    parser.add_argument("part", choices=parts)
    torch.set_num_threads(1)
    begun = time.process_time()
    parts[parser.parse_args().part]()
    print(f"{time.process_time() - begun:.0f} s of processor time")


if __name__ == "__main__":
    main()
