"""Fine-tuning with and without Adam's bias correction: what the first step is, and what a report of seeds says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import gnomon
from gnomon.cli.main import run
from gnomon.tasks.base import task
from gnomon.training.optimizers import Adam

NET = {"n_embedding": 8, "n_hidden": 8, "n_heads": 2, "n_layers": 1, "window": 12, "dtype": "float64"}
TEXTS = ["sun and noon", "noon shadow of the dial", "salt of the sea", "tide and wave"] * 4
HEADS = {
    "transformer-classifier": ({"pooling": "first"}, ["day", "day", "sea", "sea"] * 4),
    "transformer-tagger": ({}, ["N C N", "N N P D N", "N P D N", "N C N"] * 4),
}


@pytest.fixture(scope="module")
def source():
    """An encoder that has learned without labels, with what the pooler makes of ``<cls>``."""
    return gnomon.make("bert", **NET, epochs=2, random_state=0).fit(TEXTS)


@pytest.mark.spec("DLN-223")
@pytest.mark.parametrize("name", HEADS)
def test_the_first_step_without_bias_correction_is_longer_by_its_factor(source, name):
    """Corrected it is the rate, whatever the gradient; uncorrected (1 - b1) / sqrt(1 - b2) = 3.1623 times as long."""
    options, y = HEADS[name]
    rate, moved = 1e-4, {}
    for corrected in (True, False):
        settings = NET | options | {"dropout": 0.0, "schedule": "constant", "learning_rate": rate, "random_state": 3}
        made = gnomon.make(name, **settings, max_updates=1, optimizer=Adam(bias_correction=corrected, epsilon=1e-30))
        still = gnomon.make(name, **settings | {"learning_rate": 1e-30}, max_updates=1)
        begin, end = (one.fit(TEXTS, y, initial=source).model_.state() for one in (still, made))
        moved[corrected] = {key: np.abs(end[key] - begin[key]) for key in end if end[key].dtype == np.float64}
    for part in ("encoder.layers.0.", "head."):
        corrected, bare = (
            np.concatenate([step.ravel() for key, step in moved[one].items() if key.startswith(part)])
            for one in (True, False)
        )
        here = corrected > 0
        assert here.mean() > 0.5
        np.testing.assert_allclose(corrected[here], rate, rtol=1e-6)
        np.testing.assert_allclose(bare[here] / corrected[here], 0.1 / np.sqrt(0.001), rtol=1e-6)


@pytest.mark.spec("DLN-223")
def test_the_spread_over_seeds_is_reported_and_is_that_of_the_fits(tmp_path, monkeypatch, capsys):
    """`compare --seeds` with both optimizers, warm-up and a small rate: means and spreads of fits that are repeated."""
    monkeypatch.chdir(tmp_path)
    texts, tags = _ambiguous(60, 0)
    lines = [json.dumps({"text": text, "tags": one}) for text, one in zip(texts, tags, strict=True)]
    Path("words.jsonl").write_text("\n".join(lines))
    net = ",".join(f"{key}={value}" for key, value in (NET | {"epochs": 4, "schedule": "warmup-linear"}).items())
    systems = [f"transformer-tagger:{net},optimizer.bias_correction={one}" for one in ("yes", "no")]
    assert run(["compare", *systems, "words.jsonl", "--target", "tags", "--seeds", "3", "--json"]) == 0
    (board,) = json.loads(capsys.readouterr().out)["leaderboards"]
    rows = {"bias_correction" not in row["settings"]: row for row in board["lines"] if row["name"] in systems[0]}
    goal = task("tag")
    train, test = goal.split(gnomon.data.load("words.jsonl", target="tags"), test=0.2)
    for corrected in (True, False):
        settings = NET | {"epochs": 4, "optimizer": Adam(bias_correction=corrected)}
        scores = []
        for seed in range(3):
            model = gnomon.make("transformer-tagger", **settings, random_state=seed)
            scores.append(model.fit(*goal.examples(train, model)).score(*goal.examples(test, model)))
        row = rows[corrected]
        assert row["seeds"] == 3
        assert row["score"]["value"] == pytest.approx(np.mean(scores))
        assert row["spread"] == pytest.approx(np.std(scores, ddof=1))


def _ambiguous(n, seed):
    """Texts in which ``x`` has the tag of the word before it."""
    random = np.random.default_rng(seed)
    texts = [" ".join(f"{'ab'[one]} x" for one in random.integers(0, 2, 3)) for _ in range(n)]
    return texts, [text.replace("a x", "A 0").replace("b x", "B 1") for text in texts]
