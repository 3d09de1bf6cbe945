"""Exact or fail: draws of a table under an envelope, the law of the tries, failures that return nothing."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from scipy import stats

from gnomon.distributions.table import Table
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.inference.montecarlo.integration import UniformBox
from gnomon.inference.montecarlo.lasvegas import Exhausted, LasVegas, RejectionSampler
from gnomon.numeric.noise import Noise, recording

P, Q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.2, 0.3, 0.4, 0.1])
M = 2.5
"""max p / q"""


def sampler(envelope=M, scale=1.0):
    with np.errstate(divide="ignore"):
        log_p = np.log(scale * P)
    return RejectionSampler(lambda x: log_p[x[:, 0]], Table(Q), np.log(scale * envelope))


@pytest.mark.spec("INF-03")
@pytest.mark.parametrize("scale", [1.0, 7.0])
def test_accepted_draws_follow_the_target_and_tries_are_geometric(scale):
    """Chi-square of 20,000 draws and of their tries (false-alarm rate 1e-4 each); a wrong law or mean goes red."""
    n, found = 20_000, sampler(scale=scale)
    with recording():
        x = found.run(n, Noise(0, "table"))[:, 0]
    counts = np.bincount(x, minlength=4)
    assert counts[3] == 0
    assert stats.chisquare(counts[:3], n * P[:3]).pvalue > 1e-4
    assert stats.chisquare(counts[:3], n * np.array([0.53, 0.28, 0.19])).pvalue < 1e-4
    tries = found.attempts_
    last = 12
    law = stats.geom(1 / M).pmf(np.arange(1, last))
    expected = n * np.append(law, 1 - law.sum())
    assert stats.chisquare(np.bincount(np.minimum(tries, last))[1:], expected).pvalue > 1e-4
    assert abs(tries.mean() - M) < 4 * np.sqrt((1 - 1 / M) * M**2 / n)
    assert not found.failed_.any()


@pytest.mark.spec("INF-03")
def test_one_try_fails_as_often_as_the_envelope_says():
    """Failure frequency 1 - 1 / M = 0.6 of 20,000 within its 99.99% band; nothing is returned, rejected or not."""
    n, found = 20_000, sampler()
    with pytest.raises(Exhausted, match="of 20000 answers were not found in 1 tries") as told:
        found.run(n, Noise(1, "once"), max_tries=1)
    low, high = stats.binom.interval(0.9999, n, 1 - 1 / M)
    assert low <= found.failed_.sum() <= high
    assert (found.attempts_ == 1).all()
    assert told.value.failed.sum() == found.failed_.sum()
    assert np.array_equal(told.value.attempts, found.attempts_)
    missing, text = int(found.failed_.sum()), str(told.value)
    assert text.startswith(f"{missing} of 20000 answers") and f"({n - missing} successes in {n})" in text
    assert isinstance(told.value, UserError)
    copy = pickle.loads(pickle.dumps(told.value))
    assert str(copy) == str(told.value)
    assert np.array_equal(copy.attempts, told.value.attempts)


@pytest.mark.spec("INF-03")
def test_single_draws_are_right_whether_or_not_the_limit_is_short():
    """Runs of one draw with two tries: those that answer follow p (chi-square, false-alarm rate 1e-4)."""
    answers, failures = [], 0
    for seed in range(3000):
        try:
            answers.append(int(sampler().run(1, Noise(seed, "two"), max_tries=2)[0, 0]))
        except Exhausted:
            failures += 1
    counts = np.bincount(answers, minlength=4)
    assert counts[3] == 0
    assert stats.chisquare(counts[:3], len(answers) * P[:3]).pvalue > 1e-4
    low, high = stats.binom.interval(0.9999, 3000, 0.36)
    assert low <= failures <= high


@pytest.mark.spec("INF-03")
def test_a_violated_envelope_raises():
    with pytest.raises(UserValueError, match=r"the envelope is violated.*exceeds it by 0.223144.*point \[0.0\]"):
        sampler(envelope=2.0).run(100, Noise(2, "low"))
    sampler(envelope=M * (1 - 1e-12)).run(100, Noise(2, "rounding"))
    light = RejectionSampler(lambda x: 3 * x[:, 0], UniformBox(0.0, 1.0), 0.1)
    with pytest.raises(UserValueError, match="use log_envelope"):
        light.run(100, Noise(2, "line"))


@pytest.mark.spec("INF-03")
def test_an_answer_depends_on_its_own_numbers_alone():
    whole = sampler()
    x = whole.run(50, Noise(3, "rows"))
    part = sampler()
    assert np.array_equal(part.run(20, Noise(3, "rows")), x[:20])
    assert np.array_equal(part.attempts_, whole.attempts_[:20])
    rest = part.run(30, Noise(3, "rows").rows(np.arange(20, 50)))  # others are open beside them in every try
    assert np.array_equal(rest, x[20:])
    assert np.array_equal(part.attempts_, whole.attempts_[20:])


def test_a_continuous_target_by_torch():
    """The triangle 2 x on [0, 1] (Kolmogorov-Smirnov, false-alarm rate 1e-4)."""

    class Box:
        def sample(self, n, noise):
            return noise.uniform((n,), like=torch.empty(0, dtype=torch.float64))

        def log_prob(self, x):
            return torch.zeros_like(x)

    found = RejectionSampler(lambda x: torch.log(2 * x), Box(), np.log(2.0))
    x = found.run(5000, Noise(4, "triangle"))
    assert isinstance(x, torch.Tensor)
    assert stats.kstest(x.numpy(), lambda t: t**2).pvalue > 1e-4


def test_what_cannot_be_tried_is_refused():
    with pytest.raises(UserValueError, match="n must be at least 1, got 0"):
        sampler().run(0, Noise(0, "bad"))
    with pytest.raises(UserValueError, match="max_tries must be at least 1, got 0"):
        sampler().run(1, Noise(0, "bad"), max_tries=0)

    class Draws:
        def sample(self, n, noise):
            return noise.uniform((n, 1))

    for wrong in (3, Draws()):
        with pytest.raises(UserTypeError, match=r"proposal must have sample\(n, noise\) and log_prob\(x\), got a "):
            RejectionSampler(lambda x: x, wrong, 0.0)
    with pytest.raises(
        UserValueError, match=r"log_envelope must be a number, got nan \(RejectionSampler\.log_envelope\)"
    ):
        RejectionSampler(lambda x: x, Table(Q), np.nan)
    with pytest.raises(
        UserValueError, match=r"log p must be below inf and log q finite, got nan and .*the density that is sampled"
    ):
        RejectionSampler(lambda x: np.full(len(x), np.nan), Table(Q), 0.0).run(3, Noise(0, "bad"))
    with pytest.raises(UserValueError, match=r"attempt must return 2 of both, got 2 and shape \(1,\)"):
        LasVegas(lambda n, noise: (np.zeros(n), np.ones(1))).run(2, Noise(0, "bad"))
