"""The next token given that it is none of some: by Bayes' rule, in every search."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import gnomon
from gnomon.errors import UserValueError
from gnomon.inference.decoding.excluding import Excluding
from oracles.next_token import random_model

TEXT = ["a b c", "a b d", "a e", "f b c", "b c", "b d"] * 3


def test_the_conditional_distribution():
    model = random_model(5, seed=1)
    tokens = np.array([2, 3])
    plain, state = model.step(tokens, model.start([[1], [1, 2]]))
    found, after = Excluding(model, (0, 4)).step(tokens, model.start([[1], [1, 2]]))
    p = np.exp(plain)
    p[:, [0, 4]] = 0
    assert np.exp(found) == pytest.approx(p / p.sum(axis=1, keepdims=True))
    second, _ = model.step(tokens, state)
    again, _ = Excluding(model, (0,)).step(tokens, after)
    assert again[:, 1:] - again[:, 1:2] == pytest.approx(second[:, 1:] - second[:, 1:2])


def test_nothing_else_has_mass():
    class Sure:
        def start(self, contexts):
            return None

        def step(self, tokens, state):
            with np.errstate(divide="ignore"):
                return np.log(np.tile([1.0, 0, 0], (len(tokens), 1))), state

    assert np.isneginf(Excluding(Sure(), (0,)).step(np.array([1]), None)[0]).all()


@pytest.mark.parametrize("method", ["sample", "greedy", "beam"])
def test_unknown_tokens_are_avoided(method):
    model = gnomon.NGram(n=2, min_count=4, smoothing="additive").fit(TEXT)
    given = {"method": method, "random_state": 0, "max_length": 6}
    kept = model.generate("a", 40 if method == "sample" else 1, **given)
    found = model.generate("a", 40 if method == "sample" else 1, unknown="avoid", **given)
    assert not any("<unk>" in one for one in found)
    assert method != "sample" or any("<unk>" in one for one in kept)
    with pytest.raises(UserValueError, match="unknown must be 'write' or 'avoid', got 'no'"):
        model.generate("a", unknown="no")


def test_draws_are_those_of_the_conditional():
    """One token after "a": false alarm 1e-6."""
    model = gnomon.NGram(n=2, min_count=4, smoothing="additive").fit(TEXT)
    row = model.next_distribution("a")
    row[0] = 0
    p = row[model.vocabulary_.encode(["b"])[0]] / row.sum()
    drawn = model.generate("a", 4000, random_state=1, max_length=1, unknown="avoid")
    hits = sum(one == "a b" for one in drawn)
    assert binom.ppf(5e-7, 4000, p) <= hits <= binom.ppf(1 - 5e-7, 4000, p)
