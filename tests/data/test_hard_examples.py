"""Hard examples: the weighted gradient by enumeration, the least variance, the law of what is drawn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

from gnomon.data.hard_examples import HardExamples
from gnomon.errors import UserError
from gnomon.numeric.noise import Noise, recording

X = np.array([[1.0, 0.2], [-0.5, 1.0], [2.0, -1.0], [0.1, 0.3]])
Y = np.array([1.0, 0.0, 0.0, 1.0])
THETA = np.array([0.4, -0.3])
G = (1 / (1 + np.exp(-X @ THETA)) - Y)[:, None] * X
"""Gradients of the logistic loss of four examples."""


def with_scores(scores, uniform=0.1):
    hard = HardExamples(len(scores), uniform)
    hard.update_scores(np.arange(len(scores)), scores)
    return hard


def moments(hard, size=1):
    """Mean and covariance of the weighted gradient over all batches of a size."""
    q, w = hard.probabilities, hard.weights(np.arange(4))
    batches = list(itertools.product(range(4), repeat=size))
    chance = np.array([np.prod(q[list(b)]) for b in batches])
    values = np.array([(w[list(b), None] * G[list(b)]).mean(axis=0) for b in batches])
    mean = chance @ values
    return mean, (chance[:, None] * (values - mean)).T @ (values - mean)


@pytest.mark.spec("INF-08")
@pytest.mark.parametrize("scores", [[1, 1, 1, 1], [5, 0, 0, 0], [0, 0, 0, 0], [1e-300, 1, 1e200, 3], [0.2, 7, 1, 2]])
@pytest.mark.parametrize("uniform", [0.01, 0.3, 1.0])
def test_the_weighted_gradient_is_the_full_one_in_the_mean(scores, uniform):
    full = G.mean(axis=0)
    by_torch = torch.from_numpy(THETA).requires_grad_()
    logits = torch.from_numpy(X) @ by_torch
    torch.nn.functional.binary_cross_entropy_with_logits(logits, torch.from_numpy(Y)).backward()
    assert np.allclose(by_torch.grad.numpy(), full, rtol=0, atol=1e-15)
    hard = with_scores(scores, uniform)
    assert hard.probabilities.sum() == pytest.approx(1, abs=1e-14)
    assert (hard.weights(np.arange(4)) <= 1 / uniform + 1e-9).all()
    for size in (1, 2, 3):
        mean, covariance = moments(hard, size)
        assert np.allclose(mean, full, rtol=0, atol=1e-12)
        assert np.trace(covariance) == pytest.approx(np.trace(moments(hard)[1]) / size, rel=1e-9)
    if uniform < 1 and len(set(scores)) > 1:  # without weights it is another gradient
        assert np.abs(hard.probabilities @ G - full).max() > 1e-3


@pytest.mark.spec("INF-08")
def test_the_variance_is_least_at_the_gradient_norms():
    """Against 2,000 random q and small steps away from it; uniform draws have more than that."""
    norms = np.linalg.norm(G, axis=1)
    tiny = 1e-9

    def trace(scores):
        return np.trace(moments(with_scores(scores, tiny))[1])

    best = trace(norms)
    assert best == pytest.approx(norms.mean() ** 2 - np.square(G.mean(axis=0)).sum(), abs=1e-8)
    others = -np.log(Noise(0, "simplex").uniform((2000, 4), like=np.empty(0)))
    assert min(trace(scores) for scores in others) >= best - 1e-8
    for i, factor in itertools.product(range(4), (0.9, 1.1)):
        step = norms.copy()
        step[i] *= factor
        assert trace(step) > best + 1e-5
    assert trace(np.ones(4)) > 1.2 * best


@pytest.mark.spec("INF-08")
def test_rows_follow_the_probabilities():
    """Chi-square of 50,000 draws (false-alarm rate 1e-4); uniform ones would not pass."""
    hard = with_scores([0.0, 1.0, 1.0, 8.0], 0.2)
    with recording():
        rows, weights = hard.sample_batch(50_000, Noise(1, "rows"))
    counts = np.bincount(rows, minlength=4)
    assert stats.chisquare(counts, 50_000 * np.array([0.05, 0.13, 0.13, 0.69])).pvalue > 1e-4
    assert stats.chisquare(counts, 50_000 * np.array([0.06, 0.13, 0.12, 0.69])).pvalue < 1e-4
    assert np.allclose(weights, 1 / (4 * np.array([0.05, 0.13, 0.13, 0.69])[rows]), rtol=1e-13)
    error = (weights[:, None] * G[rows]).std(axis=0) / np.sqrt(50_000)
    assert (abs((weights[:, None] * G[rows]).mean(axis=0) - G.mean(axis=0)) < 4.5 * error).all()
    part, _ = hard.sample_batch(100, Noise(1, "rows").rows(np.arange(300, 400)))
    assert np.array_equal(part, rows[300:400])
    again, _ = hard.sample_batch(100, Noise(1, "rows"), draw=1)
    assert not np.array_equal(again, rows[:100])


@pytest.mark.spec("INF-08")
def test_weights_are_left_out_on_request_alone():
    hard = with_scores([0.0, 1.0, 1.0, 8.0])
    rows, weights = hard.sample_batch(10, Noise(2, "rows"), weighted=False)
    assert (weights == 1).all()
    assert hard.sample_batch(1, Noise(2, "rows"))[0].tolist() == rows[:1].tolist()
    assert np.array_equal(rows, hard.sample_batch(10, Noise(2, "rows"))[0])


@pytest.mark.spec("INF-08")
def test_scores_are_kept_and_gone_on_with():
    hard = HardExamples(5)
    hard.sample_batch(3, Noise(0, "rows"))
    hard.update_scores([1, 1, 3], torch.tensor([9.0, 2.0, 0.5], requires_grad=True))
    assert hard.scores.tolist() == [1.0, 2.0, 1.0, 0.5, 1.0]
    for given in (hard.probabilities, hard.scores):
        given[:] = 7.0  # a copy: nothing changes
    assert hard.probabilities.sum() == pytest.approx(1) and hard.scores.max() == 2
    other = HardExamples(5)
    other.load(hard.state())
    assert np.array_equal(other.sample_batch(50, Noise(3, "rows"))[0], hard.sample_batch(50, Noise(3, "rows"))[0])
    hard.update_scores([0], [0.0])
    assert other.scores[0] == 1.0
    many = HardExamples(1_000_000, 0.5)
    many.update_scores(np.arange(10), np.full(10, 1e7))
    rows, _ = many.sample_batch(1000, Noise(4, "rows"))
    assert 400 < (rows < 10).sum() < 600
    assert rows.max() > 900_000


@pytest.mark.spec("INF-08")
@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: HardExamples(0), "n"),
        (lambda: HardExamples(3, 0.0), "uniform"),
        (lambda: HardExamples(3, 1.5), "uniform"),
        (lambda: HardExamples(3, score=0.0), "score must be finite and above 0, got 0.0"),
        (lambda: HardExamples(3).sample_batch(0, Noise(0, "bad")), "size must be at least 1, got 0"),
        (lambda: HardExamples(3).update_scores([0, 3], [1, 1]), r"rows must be in \[0, 3\), got 3"),
        (lambda: HardExamples(3).update_scores([-1], [1]), "got -1"),
        (lambda: HardExamples(3).update_scores([2], [np.nan]), r"at least 0, got nan \(row 2\)"),
        (lambda: HardExamples(3).update_scores([2], [-1.0]), "at least 0, got -1"),
        (lambda: HardExamples(3).update_scores([2], [1.0, 2.0]), "one per row"),
        (lambda: HardExamples(3).weights([0.5]), "whole numbers"),
        (lambda: HardExamples(3).load({"scores": np.ones(4)}), "state must hold scores of 3 rows"),
        (lambda: HardExamples(10**12), "bytes .n"),
        (lambda: HardExamples(3, score="a"), r"score must be a number, got 'a' \(HardExamples\.score\)"),
        (
            lambda: HardExamples(3).sample_batch(2.5, Noise(0, "bad")),
            r"size must be a whole number, got 2\.5 \(HardExamples\.sample_batch\.size\)",
        ),
        (lambda: HardExamples(3).sample_batch(10**18, Noise(0, "bad")), "bytes .size"),
        (lambda: HardExamples(3).sample_batch(2, None), r"\(HardExamples\.sample_batch\.noise\)"),
        (
            lambda: HardExamples(3).sample_batch(2, Noise(0, "bad"), -1),
            r"draw must be in \[0, 2\*\*31\), got -1; count draws of a step from 0",
        ),
        (
            lambda: HardExamples(3).sample_batch(2, Noise(0, "bad"), 0.5),
            r"draw must be a whole number, got 0\.5 \(HardExamples\.sample_batch\.draw\)",
        ),
        (lambda: HardExamples(3).update_scores([2], ["a"]), "scores must hold numbers, got dtype <U1"),
        (lambda: HardExamples(3).update_scores([2], None), "scores must hold numbers, got a NoneType"),
        (lambda: HardExamples(3).update_scores(None, [1.0]), "rows must hold numbers, got a NoneType"),
        (lambda: HardExamples(3).load({}), "holds no scores"),
        (lambda: HardExamples(3).load(None), "holds no scores"),
        (lambda: HardExamples(3).load({"scores": [1.0, np.nan, 1.0]}), r"at least 0, got nan \(row 1\)"),
    ],
)
def test_what_cannot_be_drawn_is_refused(call, match):
    with pytest.raises(UserError, match=match) as caught:
        call()
    assert "\n" not in str(caught.value)
