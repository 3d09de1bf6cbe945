"""Perplexity: hand-made numbers, aggregation, padding, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gnomon.errors import UserValueError
from gnomon.evaluation.perplexity import Perplexity, bits_per_byte, perplexity


@pytest.mark.spec("DLN-180")
@pytest.mark.parametrize(
    ("probabilities", "expected"),
    [([0.5, 0.25, 0.125], 4.0), ([1 / 7] * 5, 7.0), ([1.0, 1.0], 1.0), ([0.5, 0.0], math.inf)],
)
def test_value(probabilities: list[float], expected: float) -> None:
    with np.errstate(divide="ignore"):
        assert perplexity(np.log(probabilities)) == pytest.approx(expected, rel=1e-14)


@pytest.mark.spec("DLN-180")
def test_pieces_of_any_length_give_the_value_of_one_pass_and_not_the_mean_of_perplexities() -> None:
    values = -np.random.default_rng(0).exponential(2, size=1000)
    whole = perplexity(values)
    pieces = np.split(values, [3, 500, 510])
    meters = [Perplexity().update(piece) for piece in pieces]
    merged = Perplexity()
    for meter in meters:
        merged.merge(meter)
    assert merged.value == pytest.approx(whole, rel=1e-13)
    assert merged.tokens == 1000
    assert abs(np.mean([meter.value for meter in meters]) - whole) > 0.1


@pytest.mark.spec("DLN-180")
def test_padding_is_left_out_whatever_stands_there() -> None:
    values = np.log([[0.5, 0.25, 1.0], [0.125, 1.0, 1.0]])
    values[0, 2], values[1, 1], values[1, 2] = np.nan, 3.0, -np.inf
    mask = [[True, True, False], [True, False, False]]
    assert perplexity(values, mask) == pytest.approx(4.0)
    assert perplexity(torch.tensor(values), torch.tensor(mask)) == pytest.approx(4.0)


def test_reset_forgets() -> None:
    meter = Perplexity().update([-1.0])
    meter.reset()
    assert meter.update([-2.0]).value == pytest.approx(math.exp(2))


def test_standard_error_is_that_of_the_cross_entropy_times_the_value() -> None:
    values = -np.random.default_rng(1).exponential(1, size=400)
    score = Perplexity().update(values).score(data_space="words")
    assert score.stderr == pytest.approx(score.value * values.std(ddof=1) / 20)
    assert not score.higher_is_better
    assert math.isnan(Perplexity().update([-1.0]).score().stderr)


def test_a_far_too_small_probability_overflows_to_inf_not_to_an_error() -> None:
    assert perplexity([-1e4]) == math.inf


@pytest.mark.parametrize(
    ("values", "mask", "told"),
    [
        ([-1.0, 0.5], None, "token 1"),
        ([-1.0, math.nan], None, "token 1"),
        ([-1.0, -1.0], [True], r"mask must be one per token, \(2,\), got \(1,\)"),
        ([], None, "log_probs must have at least one token"),
        ([-1.0], [False], "log_probs must have at least one token"),
    ],
)
def test_refusals(values: list[float], mask: list[bool] | None, told: str) -> None:
    with pytest.raises(UserValueError, match=told):
        perplexity(values, mask)


def test_bits_per_byte_is_the_same_for_any_unit() -> None:
    assert bits_per_byte(3 * math.log(1 / 16), 6) == pytest.approx(2.0)
    with pytest.raises(
        UserValueError, match="n_bytes must be positive, got 0; pass the length of a text that is not empty"
    ):
        bits_per_byte(-1.0, 0)
