"""Inverse-CDF draws and ancestral sampling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from gnomon.inference.decoding import ancestral as module
from gnomon.inference.decoding.ancestral import ancestral, categorical
from gnomon.numeric.noise import Noise
from oracles.next_token import random_model


def test_categories_by_the_inverse_of_the_cumulative_distribution() -> None:
    with np.errstate(divide="ignore"):
        rows = np.log(np.array([[0.0, 0.2, 0.0, 0.8, 0.0]] * 4))
    assert categorical(rows, np.array([1e-12, 0.19, 0.21, 1 - 1e-16])).tolist() == [1, 1, 3, 3]
    assert categorical(rows + 700, np.array([1e-12, 0.19, 0.21, 1 - 1e-16])).tolist() == [1, 1, 3, 3]
    assert categorical(rows - 9000, np.array([1e-12, 0.19, 0.21, 1 - 1e-16])).tolist() == [1, 1, 3, 3]
    assert categorical(np.full((1, 3), -np.inf), np.array([0.5])).tolist() == [-1]


def test_frequencies() -> None:
    # chi-square at level 1e-4, fixed seed
    p = np.array([0.5, 0.25, 0.2, 0.05])
    u = np.random.default_rng(0).random(40_000)
    count = np.bincount(categorical(np.tile(np.log(p), (40_000, 1)), u), minlength=4)
    assert ((count - 40_000 * p) ** 2 / (40_000 * p)).sum() < chi2.isf(1e-4, 3)


class Cycle:
    """After token i comes i + 1 or, with probability 0.1, the end (0)."""

    def start(self, contexts: Any) -> dict[str, Any]:
        return {"seen": np.array([[len(context)] for context in contexts])}

    def step(self, tokens: Any, state: Any) -> tuple[Any, Any]:
        rows = np.full((len(tokens), 50), -np.inf)
        rows[:, 0] = np.log(0.1)
        rows[np.arange(len(tokens)), np.asarray(tokens) + 1] = np.log(0.9)
        return rows, {"seen": state["seen"] + 1}

    def select(self, state: Any, index: Any) -> dict[str, Any]:
        return {"seen": state["seen"][index]}


def test_any_model_of_the_contract_is_drawn_from_until_its_end(monkeypatch: Any) -> None:
    draw = {"max_length": 40, "vocabulary_size": 50, "end": 0}
    drawn = ancestral(Cycle(), [[5]] * 300, Noise(0, "sample"), **draw)
    for row in drawn:
        length = int((row >= 0).sum())
        ended = row[length - 1] == 0
        assert ended or length == 40
        assert row[: length - ended].tolist() == list(range(6, 6 + length - ended))
    monkeypatch.setattr(module, "_CELLS", 50 * 7)  # in batches of seven
    assert np.array_equal(ancestral(Cycle(), [[5]] * 300, Noise(0, "sample"), **draw), drawn)
    part = ancestral(Cycle(), [[5]] * 40, Noise(0, "sample").part(200, 240), **draw)
    assert np.array_equal(part, drawn[200:240, : part.shape[1]])


@pytest.mark.spec("DLN-182", "NLP-21")
def test_every_token_is_drawn_anew_and_states_stay_with_their_sequences() -> None:
    drawn = ancestral(Cycle(), [[5]] * 2000, Noise(1, "sample"), max_length=40, vocabulary_size=50, end=0)
    lengths = (drawn >= 0).sum(1)
    for t in (1, 5, 20):  # 0.9^t of 2,000 go on, six standard deviations
        share = 0.9**t
        assert abs((lengths > t).mean() - share) < 6 * np.sqrt(share * (1 - share) / 2000)
    model, prompts = random_model(4, 5), [[9], [9, 0], [1, 2], [0, 0, 0]] * 15
    together = ancestral(model, prompts, Noise(2, "sample"), max_length=6, vocabulary_size=4, end=3)
    for i, prompt in enumerate(prompts):
        (row,) = ancestral(model, [prompt], Noise(2, "sample").part(i, i + 1), max_length=6, vocabulary_size=4, end=3)
        assert together[i][together[i] >= 0].tolist() == row.tolist()


def test_without_an_end_every_sequence_is_of_full_length() -> None:
    drawn = ancestral(Cycle(), [[1]] * 5, Noise(0, "sample"), max_length=3, vocabulary_size=50, end=None)
    assert drawn.shape == (5, 3)
    assert (drawn >= 0).all()
