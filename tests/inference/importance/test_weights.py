"""Weighted samples: estimators by enumeration of their draws, diagnostics in closed form, resampling, refusals."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
import torch
from arviz_stats.base import array_stats
from scipy.special import ndtri

from gnomon.errors import UserValueError
from gnomon.inference.exact.quadrature import log_integral
from gnomon.inference.importance.pareto import pareto_shape
from gnomon.inference.importance.weights import WeightedSample, check_support, importance_sample
from gnomon.numeric.noise import Noise

P, F = np.array([0.5, 0.3, 0.2]), np.array([1.0, 2.0, 5.0])
UNIFORM = np.full(3, 1 / 3)


def expected(n, q, quantity):
    """Mean of a quantity of the weighted sample over all 3^n draws of q."""
    total = 0.0
    for draws in itertools.product(range(3), repeat=n):
        x = np.array(draws)
        total += np.prod(q[x]) * quantity(WeightedSample(np.log(P[x] / q[x]), x))
    return total


@pytest.mark.spec("INF-04")
def test_normalized_estimator_is_unbiased_with_the_known_variance():
    def estimate(sample):
        return sample.estimate(lambda x: F[x], self_normalized=False).value

    for q, variance in ((UNIFORM, 0.42), (P, 2.29), (np.array([0.2, 0.5, 0.3]), None)):
        for n in (1, 2, 3):
            mean = expected(n, q, estimate)
            assert mean == pytest.approx(2.1, abs=1e-13)
            if variance is not None:
                square = expected(n, q, lambda s: estimate(s) ** 2)
                assert square - mean**2 == pytest.approx(variance / n, abs=1e-12)


@pytest.mark.spec("INF-04")
def test_its_reported_variance_is_unbiased():
    def variance(sample):
        return sample.estimate(F[sample.values], self_normalized=False).stderr ** 2

    assert expected(3, UNIFORM, variance) == pytest.approx(0.42 / 3, abs=1e-13)


@pytest.mark.spec("INF-04")
def test_gaussian_proposal_by_quadrature():
    """p = N(0, 1), q = N(0, 4), f = x^2: mean 1, one-draw variance 0.481004, and 2 for q = p."""

    def log_normal(x, sd):
        return -0.5 * (x / sd) ** 2 - math.log(sd) - 0.5 * math.log(2 * math.pi)

    for sd, variance in ((2.0, 0.481004), (1.0, 2.0)):

        def one_draw(x, sd=sd):
            weights = log_normal(x, 1.0) - log_normal(x, sd)
            return np.array([WeightedSample([w], [v]).estimate([v**2], self_normalized=False).value
                             for w, v in zip(weights, x, strict=True)])  # fmt: skip

        def log_moment(power, sd=sd, one_draw=one_draw):
            return log_integral(
                lambda x: log_normal(x[:, 0], sd) + power * np.log(np.maximum(one_draw(x[:, 0]), 1e-300)),
                [(-12 * sd, 0.0)],
                tolerance=1e-7,
            )

        mean, square = 2 * math.exp(log_moment(1)), 2 * math.exp(log_moment(2))
        assert mean == pytest.approx(1, abs=1e-6)
        assert square - mean**2 == pytest.approx(variance, abs=1e-6)


class Normal:
    """Centered Gaussian as proposal."""

    def __init__(self, sd):
        self.sd = sd

    def sample(self, n, noise):
        return self.sd * noise.normal((n,), 0, like=np.empty(0))

    def log_prob(self, x):
        return -0.5 * (x / self.sd) ** 2 - math.log(self.sd) - 0.5 * math.log(2 * math.pi)


@pytest.mark.spec("INF-04", "INF-06", "INF-07")
def test_sampling_from_a_proposal():
    """20,000 draws: both estimators, the normalizer and the effective number within 4.5 errors; false alarms 3e-5."""
    sample = importance_sample(Normal(1.0), Normal(2.0), 20_000, Noise(0, "is"))
    for self_normalized in (False, True):
        estimate = sample.estimate(np.square, self_normalized=self_normalized)
        assert abs(estimate.value - 1) < 4.5 * estimate.stderr
    assert sample.estimate(np.square, self_normalized=False).stderr == pytest.approx(
        math.sqrt(0.481004 / 20_000), rel=0.05
    )
    assert abs(sample.log_mean_weight) < 4.5 * sample.stderr
    assert sample.stderr == pytest.approx(math.sqrt(0.511858 / 20_000), rel=0.05)
    unnormalized = importance_sample(lambda x: -0.5 * x**2, Normal(2.0), 20_000, Noise(0, "is"))
    assert unnormalized.log_mean_weight - sample.log_mean_weight == pytest.approx(0.918939, abs=1e-6)
    assert sample.khat < 0.5
    with pytest.raises(UserValueError, match="n must be at least 1, got 0"):
        importance_sample(Normal(1.0), Normal(2.0), 0, Noise(0, "is"))


@pytest.mark.spec("INF-04")
def test_support_is_checked_on_finite_spaces():
    with pytest.raises(UserValueError, match="state 2"):
        check_support(P, [0.5, 0.5, 0.0], F)
    check_support(P, [0.5, 0.5, 0.0], [1.0, 2.0, 0.0])
    check_support([0.5, 0.5, 0.0], [0.5, 0.5, 0.0])
    with pytest.raises(UserValueError, match="state 0"):
        check_support(P, [0.0, 0.5, 0.5])
    check_support([1.0, 1e-60], [1.0, 1e-60])  # below what float32 holds, and not 0
    with pytest.raises(UserValueError, match="state 1"):
        check_support([1.0, 1e-60], [1.0, 0.0])


@pytest.mark.spec("INF-06")
def test_self_normalized_estimator_by_enumeration():
    def estimate(sample):
        return sample.estimate(lambda x: F[x]).value

    assert expected(1, UNIFORM, estimate) == pytest.approx(8 / 3, abs=1e-12)
    assert expected(2, UNIFORM, estimate) == pytest.approx(2.381746, abs=5e-7)
    means = [expected(n, UNIFORM, estimate) for n in (1, 2, 4, 7)]
    assert (np.diff(means) < 0).all()
    assert means[-1] == pytest.approx(2.1 + 0.504 / 7, abs=0.01)  # bias of order 1/n: 0.504 by the delta method


@pytest.mark.spec("INF-06")
def test_bias_and_error_by_the_delta_method():
    """Each outcome in its exact share under q: the reported bias and error are the asymptotic ones."""
    n = 3000
    x = np.repeat(np.arange(3), n // 3)
    estimate = WeightedSample(np.log(P[x]), x).estimate(lambda x: F[x])
    assert estimate.value == pytest.approx(2.1, abs=1e-12)
    assert estimate.bias * n == pytest.approx(0.504, abs=1e-9)
    w = P / UNIFORM
    assert estimate.stderr**2 * (n - 1) == pytest.approx((UNIFORM * w**2 * (F - 2.1) ** 2).sum(), rel=1e-12)


@pytest.mark.spec("INF-06")
def test_constants_drop_out_and_one_is_one():
    rng = np.random.default_rng(0)
    log_w, y = rng.normal(size=50), rng.normal(size=(50, 3))
    base = WeightedSample(log_w).estimate(y)
    for shift in (-1e4, 1e4):
        moved = WeightedSample(log_w + shift).estimate(y)
        assert np.allclose(moved.value, base.value, rtol=1e-9)
        assert np.allclose(moved.stderr, base.stderr, rtol=1e-9)
    one = WeightedSample(log_w).estimate(np.ones(50))
    assert one.value == pytest.approx(1, abs=1e-15)
    assert one.stderr == pytest.approx(0, abs=1e-15)
    equal = WeightedSample(np.zeros(50)).estimate(y[:, 0])
    assert equal.value == pytest.approx(y[:, 0].mean(), abs=1e-15)
    assert equal.stderr == pytest.approx(y[:, 0].std(ddof=1) / math.sqrt(50), rel=1e-12)


@pytest.mark.spec("INF-06", "INF-07")
def test_weights_that_underflow():
    sample = WeightedSample([-2000.0, -2001.0, -math.inf])
    assert sample.log_mean_weight == pytest.approx(-2000 + math.log((1 + math.exp(-1)) / 3), abs=1e-12)
    assert sample.estimate([0.0, 1.0, 7.0]).value == pytest.approx(1 / (1 + math.e), abs=1e-12)
    with pytest.raises(UserValueError, match="all 2 weights are 0"):
        WeightedSample([-math.inf, -math.inf])


@pytest.mark.spec("INF-07")
def test_effective_number():
    assert WeightedSample(np.full(7, -3.0)).ess == pytest.approx(7, abs=1e-12)
    assert WeightedSample([-math.inf, 2.0, -math.inf]).ess == 1
    assert WeightedSample([-math.inf, 2.0, -math.inf]).max_share == 1
    n = 200_000
    x = 2 * ndtri((np.arange(n) + 0.5) / n)  # the quantiles of q = N(0, 4)
    sample = WeightedSample(-0.5 * x**2 + 0.5 * (x / 2) ** 2 + math.log(2))
    assert sample.ess / n == pytest.approx(0.661438, abs=1e-5)
    assert np.exp(2 * sample.log_weights).mean() == pytest.approx(1.511858, abs=1e-4)
    assert sample.log_mean_weight == pytest.approx(0, abs=1e-5)
    assert sample.stderr == pytest.approx(math.sqrt(0.511858 / n), rel=1e-3)


@pytest.mark.spec("INF-07")
@pytest.mark.parametrize("k", [0.1, 0.4, 0.8, 1.5])
def test_tail_index_recovers_a_known_tail(k):
    """Weights at the quantiles of a generalized Pareto distribution, which is its own tail."""
    n = 20_000
    u = (np.arange(n) + 0.5) / n
    log_w = np.log(((1 - u) ** -k - 1) / k)
    m = math.ceil(3 * math.sqrt(n))
    assert WeightedSample(log_w).khat == pytest.approx((m * k + 5) / (m + 10), abs=0.03)
    assert WeightedSample(log_w + 700).khat == pytest.approx(WeightedSample(log_w).khat, abs=1e-6)


@pytest.mark.spec("INF-07")
def test_tail_index_against_its_published_definition():
    """The estimator of Zhang and Stephens (2009) in loops, with the shrinkage of Vehtari et al. (2024)."""
    log_w = np.random.default_rng(3).normal(0, 2, size=500)
    w = sorted(math.exp(v - max(log_w)) for v in log_w)
    m = math.ceil(min(500 / 5, 3 * math.sqrt(500)))
    x = [v - w[-m - 1] for v in w[-m:]]
    grid, quartile = 30 + int(math.sqrt(m)), x[int(m / 4 + 0.5) - 1]
    theta = [1 / x[-1] + (1 - math.sqrt(grid / (j - 0.5))) / (3 * quartile) for j in range(1, grid + 1)]

    def k_of(b):
        return sum(math.log(1 - b * v) for v in x) / m

    profile = [m * (math.log(-b / k_of(b)) - k_of(b) - 1) for b in theta]
    share = [1 / sum(math.exp(other - mine) for other in profile) for mine in profile]
    k = k_of(sum(b * s for b, s in zip(theta, share, strict=True)) / sum(share))
    assert pareto_shape(np.array(x)) == pytest.approx(k, abs=1e-9)
    assert WeightedSample(log_w).khat == pytest.approx((m * k + 5) / (m + 10), abs=1e-9)


@pytest.mark.spec("INF-07")
def test_tail_that_cannot_be_told():
    assert math.isnan(WeightedSample(np.zeros(1000)).khat)
    assert math.isnan(WeightedSample([0.0, -1.0, -2.0]).khat)
    assert math.isnan(WeightedSample([0.0]).khat)
    two_values = np.where(np.arange(1200) < 100, 0.0, -5.0)
    assert math.isfinite(WeightedSample(two_values + 1e-9 * np.arange(1200)).khat)
    assert math.isfinite(pareto_shape(np.ones(100)))


@pytest.mark.spec("INF-07")
def test_notices():
    good = WeightedSample(np.linspace(-0.5, 0.5, 100))
    assert good.notice == ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        good.warn()
    bad = WeightedSample(np.where(np.arange(100) == 3, 10.0, 0.0))
    with pytest.warns(UserWarning, match=r"one of 100 weights makes up 100% of the sum"):
        bad.warn()
    u = (np.arange(2000) + 0.5) / 2000
    assert "heavy tail" in WeightedSample(-1.2 * np.log(1 - u)).notice
    assert WeightedSample([0.0]).notice == ""


@pytest.mark.spec("INF-04", "INF-06", "INF-07")
def test_stated_errors_are_those_that_are_seen():
    """2,000 times 300 draws of N(0, 4) for N(0, 1): mean squares of z-scores within 4.5 errors, sqrt(2 / 2000), of 1.

    Of each estimator, column by column, and of the log of the mean weight; errors 10 % too small or too large are red.
    """
    x = 2 * Noise(11, "cover").normal((2000, 300), like=np.empty(0))
    log_w = -0.5 * x**2 + 0.5 * (x / 2) ** 2 + math.log(2)
    samples = [WeightedSample(w, v) for w, v in zip(log_w, x, strict=True)]
    truth, scores = np.array([1.0, math.exp(-0.5)]), []
    for self_normalized in (False, True):
        found = [s.estimate(lambda v: np.stack([v**2, np.cos(v)], 1), self_normalized=self_normalized) for s in samples]
        scores += list(np.array([(e.value - truth) / e.stderr for e in found]).T)
    scores.append(np.array([s.log_mean_weight / s.stderr for s in samples]))
    assert np.square(scores).mean(axis=1) == pytest.approx(np.ones(5), abs=4.5 * math.sqrt(2 / 2000))


@pytest.mark.spec("INF-04", "INF-06")
@pytest.mark.parametrize("self_normalized", [True, False])
def test_functions_of_several_columns_are_estimated_column_by_column(self_normalized):
    sample = importance_sample(Normal(1.0), Normal(2.0), 200, Noise(1, "columns"))
    columns = [np.square, np.cos, lambda x: 0 * x + 3.0]
    found = sample.estimate(lambda x: np.stack([f(x) for f in columns], 1), self_normalized=self_normalized)
    for k, f in enumerate(columns):
        alone = sample.estimate(f, self_normalized=self_normalized)
        for whole, part in zip(found, alone, strict=True):
            assert whole.shape == (3,) and whole[k] == pytest.approx(part, rel=1e-12, abs=1e-15)


@pytest.mark.spec("INF-04", "INF-06")
@pytest.mark.parametrize("self_normalized", [True, False])
@pytest.mark.parametrize("off", [5.0, math.inf, -math.inf, math.nan])
def test_draws_outside_the_target_count_as_zero_whatever_f_is_there(self_normalized, off):
    """0 log 0 of an entropy, say: f may be anything where the weight is 0; the draw still counts in n."""
    log_w, f = np.log([0.5, 1.5, 1.0]), np.array([2.0, -1.0, 4.0])
    sample = WeightedSample([*log_w, -math.inf])
    for given in ([*f, off], np.array([*f, off])[:, None] * [1.0, 1.0]):
        found = sample.estimate(given, self_normalized=self_normalized)
        plain = sample.estimate(
            np.where(np.arange(4) == 3, 0.0, np.transpose(given)).T, self_normalized=self_normalized
        )
        assert all(np.array_equal(a, b) for a, b in zip(found, plain, strict=True))
    by_hand = np.exp(log_w) @ f / (3 if self_normalized else 4)
    assert sample.estimate([*f, off], self_normalized=self_normalized).value == pytest.approx(by_hand, rel=1e-14)


def test_single_draw_has_an_unknown_error():
    one = WeightedSample([0.5], np.array([2.0]))
    assert one.stderr == math.inf
    assert one.estimate(lambda x: x).stderr == math.inf
    assert one.estimate(lambda x: x, self_normalized=False).stderr == math.inf


@pytest.mark.spec("INF-06")
def test_resampling():
    log_w = np.log([0.1, 0.25, 0.0 + 1e-300, 0.65])
    sample = WeightedSample(log_w)
    for seed in range(20):
        counts = np.bincount(sample.resample(Noise(seed, "r"), 10), minlength=4)
        assert (np.abs(counts - 10 * np.exp(log_w)) < 1).all()
    n = 50_000
    counts = np.bincount(sample.resample(Noise(1, "r"), n, method="multinomial"), minlength=4)
    error = np.sqrt(n * 0.25)
    assert (np.abs(counts - n * np.exp(log_w)) < 4.5 * error).all()  # false-alarm rate below 3e-5
    assert counts.std() > 0
    uneven = WeightedSample(np.log(np.arange(1.0, 40.0)))
    for method in ("systematic", "multinomial"):
        first, again, other = (uneven.resample(Noise(0, "r"), 20, draw=d, method=method) for d in (0, 0, 1))
        assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert len(sample.resample(Noise(0, "r"))) == 4
    with pytest.raises(UserValueError, match="got 'residual'"):
        sample.resample(Noise(0, "r"), method="residual")


@pytest.mark.spec("INF-06", "INF-07")
def test_wrong_weights_are_named():
    for wrong, match in (
        ([0.0, math.nan], "draw 1"),
        ([0.0, math.inf], "draw 1"),
        ([], "shape"),
        ([[0.0]], "shape"),
    ):
        with pytest.raises(UserValueError, match=match):
            WeightedSample(wrong)
    with pytest.raises(UserValueError, match="values must be one per weight, got 3 for 2 weights"):
        WeightedSample([0.0, 0.0], np.zeros(3))
    with pytest.raises(UserValueError, match="one value per draw"):
        WeightedSample([0.0, 0.0]).estimate([1.0])


def test_torch_and_float32_weights_are_kept_in_float64():
    sample = WeightedSample(torch.tensor([0.0, 1.0]), torch.eye(2))
    assert sample.log_weights.dtype == np.float64
    assert sample.estimate(lambda x: x).value == pytest.approx([1 / (1 + math.e), math.e / (1 + math.e)], abs=1e-7)
    mine = np.zeros(3)
    WeightedSample(mine)
    mine[0] = 1.0  # still the caller's own to write to


@pytest.mark.parametrize("n", [100, 2500, 10_000])  # lengths of tail that need no rounding: arviz rounds down
@pytest.mark.parametrize("k", [0.1, 0.5, 0.9])
def test_the_tail_index_is_that_of_arviz(n, k):
    log_w = np.log(np.random.default_rng(n).pareto(1 / k, n) + 1e-3)
    assert WeightedSample(log_w).khat == pytest.approx(float(array_stats.psislw(-log_w)[1]), rel=1e-9)


def test_weights_of_two_values_that_hide_how_few_count():
    log_w = np.full(10_000, -40.0)
    log_w[:9] = 0.0
    sample = WeightedSample(log_w)
    assert sample.max_share < 0.5 and not sample.khat > 0.7
    assert "10000 draws count as 9.0" in sample.notice
    log_w[:11] = 0.0
    assert WeightedSample(log_w).notice == ""
