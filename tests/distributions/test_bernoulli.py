"""Bernoulli against SciPy and enumeration. Random tests fail a right sampler with probability below 1e-4."""

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

from gnomon.contracts import Distribution, supports
from gnomon.distributions.bernoulli import Bernoulli
from gnomon.numeric.noise import Noise

KINDS = [np.float32, np.float64]


def logits(dtype, shape=(4, 6)):
    return np.random.default_rng(0).normal(0, 3, shape).astype(dtype)


def test_keeps_the_contract():
    assert supports(Bernoulli(logits(np.float32)), Distribution)


@pytest.mark.parametrize("dtype", KINDS)
def test_log_prob_mean_and_entropy_are_those_of_scipy(dtype):
    a = logits(dtype)
    p = 1 / (1 + np.exp(-a.astype(np.float64)))
    x = np.random.default_rng(1).integers(0, 2, a.shape)
    tolerance = 20 * np.finfo(dtype).eps
    for given, values in ((a, x), (a, x.astype(bool)), (torch.from_numpy(a), torch.from_numpy(x))):
        b = Bernoulli(given)
        for got, expected in (
            (b.log_prob(values), stats.bernoulli.logpmf(x, p).sum(-1)),
            (b.mean, p),
            (b.entropy(), stats.bernoulli.entropy(p).sum(-1)),
        ):
            assert type(got) is type(given) and got.dtype == given.dtype
            assert np.allclose(np.asarray(got), expected, rtol=tolerance, atol=tolerance)


def test_probabilities_sum_to_one():
    b = Bernoulli(logits(np.float64, (1, 6)))
    table = np.array(list(itertools.product([0, 1], repeat=6)))
    p = np.exp(b.log_prob(table))
    assert abs(p.sum() - 1) < 1e-14
    assert np.allclose(p @ table, b.mean[0], atol=1e-14)
    assert np.isclose(-(p * np.log(p)).sum(), b.entropy()[0], rtol=1e-13)


@pytest.mark.parametrize("dtype", KINDS)
def test_far_and_infinite_logits(dtype):
    a = np.array([[np.inf, -np.inf, 500.0, -500.0]], dtype)
    for b in (Bernoulli(a), Bernoulli(torch.from_numpy(a))):
        assert -1e-100 < b.log_prob(np.array([[1, 0, 1, 0]])).item() <= 0
        assert b.log_prob(np.array([[1, 0, 0, 0]])).item() == -500
        assert b.log_prob(np.array([[0, 0, 1, 0]])).item() == -np.inf
        assert b.entropy().item() < 1e-100
        assert np.array_equal(np.asarray(b.sample(Noise(0, "a"))), [[1, 0, 1, 0]])


def test_fractions_give_the_expected_log_probability():
    a, q = logits(np.float64), np.random.default_rng(2).random((4, 6))
    b = Bernoulli(a)
    expected = (q * np.log(b.mean) + (1 - q) * np.log1p(-b.mean)).sum(-1)
    assert np.allclose(b.log_prob(q), expected, rtol=1e-12)
    assert np.allclose(b.log_prob(b.mean), -b.entropy(), rtol=1e-12)


def test_gradient_is_the_residual_at_zero_too():
    a = torch.from_numpy(logits(np.float64))
    a[0] = 0
    a.requires_grad_()
    x = torch.rand(4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).round()
    Bernoulli(a).log_prob(x).sum().backward()
    assert torch.allclose(a.grad, x - torch.sigmoid(a.detach()), atol=1e-15)


def test_samples_have_the_mean_and_their_address():
    a = np.broadcast_to(logits(np.float32, (1, 6)), (20_000, 6))
    b, noise = Bernoulli(a), Noise(5, "test")
    x = b.sample(noise, 2)
    assert x.dtype == np.float32 and np.array_equal(x, noise.bernoulli(b.mean, 2))
    assert not np.array_equal(x, b.sample(noise, 3))
    for column, p in zip(x.T, b.mean[0], strict=True):
        assert stats.binomtest(int(column.sum()), column.size, float(p)).pvalue > 1e-5
    assert stats.chisquare(*_cells(x, b.mean[0].astype(np.float64))).pvalue > 1e-5


def _cells(x, p):
    """Observed and expected counts of the 64 joint outcomes, rare ones pooled."""
    table = np.array(list(itertools.product([0, 1], repeat=6)))
    expected = np.prod(np.where(table == 1, p, 1 - p), -1) * len(x)
    seen = np.bincount((x @ 2 ** np.arange(5, -1, -1)).astype(int), minlength=64)
    rare = expected < 8
    seen, expected = np.append(seen[~rare], seen[rare].sum()), np.append(expected[~rare], expected[rare].sum())
    return seen, expected * seen.sum() / expected.sum()
