"""Temperature, the k most probable tokens, the nucleus; and the partial sort beneath them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from gnomon.errors import UserValueError
from gnomon.inference.decoding.ancestral import ancestral
from gnomon.inference.decoding.filters import best, filtered
from gnomon.numeric.noise import Noise
from oracles.next_token import random_model


def test_best_is_a_stable_sort():
    random = np.random.default_rng(0)
    values = random.integers(0, 6, (300, 17)).astype(float)
    for k in range(1, 18):
        assert np.array_equal(best(values, k), np.argsort(-values, axis=1, kind="stable")[:, :k])


def test_filters_by_their_definitions():
    p = np.array([[0.4, 0.1, 0.3, 0.2]])
    row = np.log(p)
    assert np.exp(filtered(row, temperature=0.5)) == pytest.approx(p**2)
    assert np.exp(filtered(row, top_k=3)) == pytest.approx(p * [1, 0, 1, 1])
    for top_p, kept in ((0.39, [1, 0, 0, 0]), (0.4, [1, 0, 0, 0]), (0.41, [1, 0, 1, 0]), (0.95, [1, 1, 1, 1])):
        assert np.exp(filtered(row, top_p=top_p)) == pytest.approx(p * kept)
    both = filtered(row, temperature=0.5, top_k=2, top_p=0.6)  # of 16 and 9, the first has 0.64
    assert (both > -np.inf).tolist() == [[True, False, False, False]]
    with np.errstate(divide="ignore"):
        sparse = np.log([[0.0, 1.0, 0.0]])
    assert (filtered(sparse, top_k=2, top_p=0.9) > -np.inf).tolist() == [[False, True, False]]


@pytest.mark.parametrize("option", [{"temperature": 0}, {"temperature": np.nan}, {"top_k": 0}, {"top_p": 1.5}])
def test_what_has_no_meaning_is_refused(option):
    with pytest.raises(UserValueError, match="must be"):
        filtered(np.zeros((1, 2)), **option)


@pytest.mark.spec("DLN-182", "NLP-21")
def test_sequences_are_drawn_from_the_filtered_distribution():
    # chi-square at level 1e-4, fixed seed
    model, options = random_model(5, 3), {"temperature": 0.7, "top_k": 4}
    drawn = ancestral(model, [[7]] * 8000, Noise(0, "s"), max_length=1, vocabulary_size=5, end=None, **options)
    p = np.sort(model.row((7,)) ** (1 / 0.7))
    p[0] = 0
    p, count = p / p.sum(), np.bincount(drawn[:, 0], minlength=5)[np.argsort(model.row((7,)))]
    assert count[0] == 0
    assert ((count[1:] - 8000 * p[1:]) ** 2 / (8000 * p[1:])).sum() < chi2.isf(1e-4, 3)
    first = ancestral(model, [[7]] * 50, Noise(0, "s"), max_length=1, vocabulary_size=5, end=None, top_p=1e-3)
    assert set(first[:, 0].tolist()) == {int(np.argmax(model.row((7,))))}
