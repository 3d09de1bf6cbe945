"""Means of draws: unbiased by enumeration, errors that cover the truth as often as they say, tails that are told."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import torch
from scipy import stats

from gnomon.distributions.real import Normal
from gnomon.distributions.table import Table
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.mcmc.diagnostics import mcse
from gnomon.inference.montecarlo.chain_mean import chain_mean
from gnomon.inference.montecarlo.expectation import RunningMean, expectation
from gnomon.inference.montecarlo.integration import UniformBox
from gnomon.inference.montecarlo.lasvegas import RejectionSampler
from gnomon.numeric.noise import Noise, recording
from gnomon.training.group import Group

P, F = np.array([0.5, 0.3, 0.2]), np.array([1.0, 2.0, 5.0])
LIKE = np.empty(0)


def normal(n, noise):
    return noise.normal((n,), like=LIKE)


def exponential(shape, noise):
    return -np.log(noise.uniform(shape, like=LIKE))


@pytest.mark.spec("INF-01", "INF-02")
def test_the_mean_and_its_variance_are_unbiased_over_all_pairs():
    """s = 2.1, one-draw variance 2.29; nine pairs, fed one at a time."""
    mean = square = reported = 0.0
    for pair in itertools.product(range(3), repeat=2):
        chance = P[pair[0]] * P[pair[1]]
        found = RunningMean().update(F[[pair[0]]]).update(F[[pair[1]]])
        mean += chance * found.mean
        square += chance * found.mean**2
        reported += chance * found.standard_error**2
    assert mean == pytest.approx(2.1, abs=1e-14)
    assert square - mean**2 == pytest.approx(2.29 / 2, abs=1e-14)
    assert reported == pytest.approx(2.29 / 2, abs=1e-14)


@pytest.mark.spec("INF-01")
def test_an_expectation_under_a_table():
    """400 replicates of 250 draws; their average lies within 4 standard errors (false-alarm rate 6e-5)."""
    table = Table(P)
    with recording():
        whole = expectation(lambda x: F[x[:, 0]], table, 100_000, Noise(0, "table"), batch=7777)
    x = F[table.sample(100_000, Noise(0, "table"))[:, 0]]
    assert whole.mean == pytest.approx(x.mean(), rel=1e-13)
    averages = x.reshape(400, 250).mean(axis=1)
    assert abs(averages.mean() - 2.1) < 4 * np.sqrt(2.29 / 100_000)
    assert averages.var(ddof=1) == pytest.approx(2.29 / 250, rel=4 * np.sqrt(2 / 399))
    assert whole.variance == pytest.approx(2.29, rel=0.05)


@pytest.mark.spec("INF-01", "INF-02")
def test_a_budget_is_raised_and_the_value_is_that_of_all_draws():
    noise = Noise(3, "more")
    at_once = expectation(np.square, normal, 1000, noise)
    by_parts = expectation(np.square, normal, 1, noise)
    assert by_parts.run(1).stderr > 0
    estimate = by_parts.run(998)
    assert estimate.value == pytest.approx(at_once.mean, rel=1e-13)
    assert estimate.stderr == pytest.approx(at_once.standard_error, rel=1e-12)
    assert expectation(np.square, normal, 1, noise).run(1).bias == 0
    single = expectation(np.square, normal, 1, noise)
    with pytest.raises(UserValueError, match="variance needs at least 2 draws, got 1"):
        _ = single.standard_error


@pytest.mark.spec("INF-01")
def test_batches_of_a_sampler_of_rounds_are_other_draws():
    """Rejection sampling asks for noise of rows in every round: no draw may come again in the next batch."""
    slope = RejectionSampler(lambda x: np.log(2 * x[:, 0]), UniformBox(0.0, 1.0), np.log(2.0))
    noise, seen = Noise(3, "rounds"), []

    def f(x):
        seen.append(x[:, 0])
        return x[:, 0]

    with recording():
        found = expectation(f, lambda n, noise: slope.run(n, noise), 300, noise, batch=100).extend(200)
    assert len(np.unique(np.concatenate(seen))) == 500
    assert found.mean == pytest.approx(slope.run(500, noise).mean(), rel=1e-13)
    shards = [expectation(f, lambda n, noise: slope.run(n, noise), 250, noise.part(k, k + 250)) for k in (0, 250)]
    assert shards[0].merge(shards[1]).mean == pytest.approx(found.mean, rel=1e-13)


@pytest.mark.spec("INF-01")
def test_long_streams_keep_their_digits():
    """An offset of 1e9 and steps of 1e-3: sums of squares would keep no digit; float32 input is summed in float64."""
    z = Noise(1, "digits").normal((100_000,), like=LIKE)
    found = RunningMean()
    for part in np.split(1e9 + 1e-3 * z, 50):
        found.update(part)
    exact = 1e-3 * z.std(ddof=1)
    assert np.sqrt(found.variance) == pytest.approx(exact, rel=2e-4)  # the input's own rounding is 1e-7
    ones = RunningMean()
    for _ in range(20):
        ones.update(np.full(1 << 20, np.float32(0.1)))
    assert ones.mean == pytest.approx(float(np.float32(0.1)), abs=1e-15)


@pytest.mark.spec("INF-01")
@pytest.mark.parametrize("cuts", [(1, 2), (500, 500), (10, 990)])
def test_parts_of_several_streams_are_joined(cuts):
    y = Noise(2, "parts").normal((1000, 2, 3), like=LIKE)
    parts = [RunningMean().update(part) for part in np.split(y, sorted(set(cuts)))]
    total = RunningMean()
    for part in parts:
        total.merge(part)
    assert np.allclose(total.mean, y.mean(axis=0), rtol=0, atol=1e-15)
    assert np.allclose(total.standard_error, stats.sem(y, axis=0, ddof=1), rtol=1e-13, atol=0)
    whole = RunningMean().update(torch.from_numpy(y))
    assert total.khat == pytest.approx(whole.khat, rel=1e-12)
    assert np.array_equal(whole.over(Group()).mean, whole.mean)
    assert total.merge(RunningMean()).count == 1000


class Twice:
    """Two processes that hold the same, by the group's contract."""

    rank, size = 0, 2

    def gather(self, x):
        return np.concatenate([x, x])


def test_processes_are_added_up():
    y = Noise(2, "processes").normal((40, 2), like=LIKE)
    total = RunningMean().update(y).over(Twice())
    both = RunningMean().update(np.concatenate([y, y]))
    assert total.count == 80
    assert np.allclose(total.mean, both.mean, rtol=0, atol=1e-15)
    assert np.allclose(total.variance, both.variance, rtol=1e-13, atol=0)
    assert total.khat == pytest.approx(both.khat, rel=1e-12)
    with pytest.raises(UserValueError, match="process 0"):
        RunningMean().over(Twice())


@pytest.mark.spec("INF-02")
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_errors_and_intervals_agree_with_scipy(level):
    y = exponential((300, 4), Noise(4, "scipy"))
    found = RunningMean().update(y)
    sem = stats.sem(y, axis=0, ddof=1)
    assert np.allclose(found.standard_error, sem, rtol=1e-12, atol=0)
    normal_ends = stats.norm.interval(level, y.mean(axis=0), sem)
    student_ends = stats.t.interval(level, 299, y.mean(axis=0), sem)
    assert np.allclose(found.confint(level), normal_ends, rtol=1e-12, atol=0)
    assert np.allclose(found.confint(level, "student"), student_ends, rtol=1e-12, atol=0)


@pytest.mark.spec("INF-02")
def test_draws_for_a_precision():
    found = RunningMean().update([-1.0, 1.0] * 50)  # v = 100/99
    assert found.n_for_precision(0.05) == int(np.ceil(100 / 99 / 0.05**2))
    z = stats.norm.isf(0.025)
    assert found.n_for_precision(0.05, level=0.95) == int(np.ceil(z**2 * 100 / 99 / 0.05**2))
    assert RunningMean().update([[-1.0, 0.0], [1.0, 0.0]] * 50).n_for_precision(0.05) == found.n_for_precision(0.05)
    flat = RunningMean().update(np.sqrt([1.0, 3.0]) * np.sqrt(2) / (np.sqrt(3) - 1))  # v = 1
    assert flat.n_for_precision(0.05) == 400
    assert RunningMean().update([1.0, 1.0]).n_for_precision(1e-9) == 2


def coverage(y, truth, level=0.95, kind="normal", shrink=1.0):
    """Intervals of the columns that hold the truth; `shrink` makes the error wrong on purpose."""
    found = RunningMean().update(y)
    low, high = found.confint(level, kind)
    middle, reach = (low + high) / 2, shrink * (high - low) / 2
    return int((abs(middle - truth) <= reach).sum())


@pytest.mark.spec("INF-02", "BAY-04")
@pytest.mark.parametrize(
    ("n", "replicates", "draws", "truth", "kind"),
    [
        (1000, 1000, lambda shape, noise: noise.normal(shape, like=LIKE) ** 2, 1.0, "normal"),
        (100, 2000, lambda shape, noise: noise.uniform(shape, like=LIKE), 0.5, "normal"),
        (5, 2000, lambda shape, noise: noise.normal(shape, like=LIKE), 0.0, "student"),
    ],
)
def test_intervals_cover_the_truth_as_often_as_they_say(n, replicates, draws, truth, kind):
    """Inside the binomial 99.9% band (false-alarm rate 1e-3 each); errors 30% too small or too large fall outside."""
    y = draws((n, replicates), Noise(5, "coverage"))
    low, high = stats.binom.interval(0.999, replicates, 0.95)
    assert low <= coverage(y, truth, kind=kind) <= high
    assert coverage(y, truth, kind=kind, shrink=0.7) < low
    assert coverage(y, truth, kind=kind, shrink=1.3) > high
    if kind == "student":
        assert coverage(y, truth) < low  # five draws are too few for the normal interval


@pytest.mark.spec("BAY-04")
def test_second_moment_of_a_normal():
    """E[x^2] = 1 with one-draw variance 2: 100,000 draws, within 4.5 errors (false-alarm rate 7e-6)."""
    found = expectation(lambda x: np.stack([x, x**2], axis=1), normal, 100_000, Noise(6, "moments"))
    assert (abs(found.mean - [0, 1]) < 4.5 * found.standard_error).all()
    assert found.variance == pytest.approx([1, 2], rel=0.05)
    assert found.notice == ""


@pytest.mark.spec("BAY-04", "INF-02")
def test_dependent_draws_count_for_less():
    """500 times 4 chains x' = 0.9 x + e: tau = 19. The error covers, that of independent draws does not."""
    chains, n, replicates = 4, 1000, 200
    e = Noise(7, "ar").normal((n, chains * replicates), like=LIKE)
    x = np.empty_like(e)
    x[0] = e[0] / np.sqrt(1 - 0.81)
    for t in range(1, n):
        x[t] = 0.9 * x[t - 1] + e[t]
    draws = x.reshape(n, chains, replicates).swapaxes(0, 1)
    found = chain_mean(draws)
    assert np.allclose(found._stderr(), mcse(draws), rtol=1e-12)
    assert np.median(found.count / found.effective) == pytest.approx(19, rel=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of 200 replicates some look unmixed
        low, high = found.confint(0.95)
        needed = chain_mean(draws[:, :, 0]).n_for_precision(0.1)
    inside = int(((low <= 0) & (high >= 0)).sum())
    band = stats.binom.interval(0.9999, replicates, 0.95)
    assert band[0] - 6 <= inside <= band[1]  # the ESS is itself estimated, which costs two or three of a hundred
    assert coverage(x.reshape(-1, replicates), 0.0) < band[0] - 50
    assert needed == pytest.approx(19 / (1 - 0.81) / 0.01, rel=0.35)


def test_chains_that_stand_or_stand_apart_are_told():
    with pytest.warns(UserWarning, match="never differ"):
        _ = chain_mean(np.ones((2, 20))).standard_error
    apart = Noise(8, "apart").normal((2, 100), like=LIKE) + [[0.0], [5.0]]
    with pytest.warns(UserWarning, match="have not mixed"):
        _ = chain_mean(apart).confint()
    beside = np.stack([Noise(9, "apart").normal((2, 100), like=LIKE), apart], axis=-1)
    assert "R-hat" in chain_mean(beside).notice and chain_mean(beside[..., :1]).notice == ""


@pytest.mark.spec("INF-01", "INF-02")
@pytest.mark.parametrize("seed", range(20))
def test_infinite_variance_is_told_and_light_tails_are_not(seed):
    """Cauchy and one-sided Pareto draws of index 1.1 against normal, uniform and exponential ones."""
    u = Noise(seed, "tails").uniform((2000,), like=LIKE)
    heavy = [np.tan(np.pi * (u - 0.5)), u ** (-1 / 1.1), 1e3 - u ** (-1 / 1.1)]
    for y in heavy:
        found = RunningMean().update(y)
        for ask in (lambda m: m.standard_error, lambda m: m.confint(), lambda m: m.n_for_precision(1.0)):
            with pytest.warns(UserWarning, match="is likely infinite"):
                ask(found)
    for y in (stats.norm.ppf(u), u, -np.log(u), 1e3 + np.log(u), (u < 0.1) * 1.0):
        assert RunningMean().update(y).notice == ""
    wide = stats.norm.ppf(Noise(seed, "wide").uniform((2000, 100), like=LIKE))
    assert RunningMean().update(wide).notice == ""
    wide[:, 77] = np.tan(np.pi * (u - 0.5)) * 10
    assert "coordinate" in RunningMean().update(wide).notice


@pytest.mark.spec("INF-01", "INF-02")
def test_what_cannot_be_averaged_is_named():
    found = RunningMean().update(np.zeros((10, 2)))
    bad = np.zeros((3, 2))
    bad[2, 1] = np.nan
    with pytest.raises(UserValueError, match=r"nan \(draw 12, coordinate \(1,\)\)"):
        found.update(bad)
    assert found.count == 10
    with pytest.raises(UserValueError, match="inf"):
        RunningMean().update([1.0, np.inf])
    with pytest.raises(UserValueError, match=r"values must keep the shape \(2,\) of f, got \(3,\)"):
        found.update(np.zeros((5, 3)))
    with pytest.raises(UserValueError, match=r"other must be a mean of the same f, of shape \(2,\), got \(\)"):
        found.merge(RunningMean().update([1.0]))
    with pytest.raises(UserValueError, match="mean needs at least 1 draws, got 0"):
        _ = RunningMean().mean
    with pytest.raises(UserValueError, match="single number"):
        RunningMean().update(1.0)
    with pytest.raises(UserValueError, match=r"level must be in \(0, 1\), got 2"):
        found.confint(2)
    with pytest.raises(UserValueError, match=r"level must be in \(0, 1\), got 2"):
        found.confint(2, "student")
    with pytest.raises(UserValueError, match="'t'"):
        found.confint(0.9, "t")
    with pytest.raises(UserValueError, match="eps must be finite and positive, got 0"):
        found.n_for_precision(0)
    with pytest.raises(UserValueError, match=r"f must return one value for each of the 10 draws, got shape \(\)"):
        expectation(lambda x: 1.0, normal, 10, Noise(0, "bad"))
    with pytest.raises(UserValueError, match="n must be at least 1, got 0"):
        expectation(np.square, normal, 0, Noise(0, "bad"))
    with pytest.raises(UserValueError, match="batch must be at least 1, got 0"):
        expectation(np.square, normal, 1, Noise(0, "bad"), batch=0)
    with pytest.raises(UserTypeError, match=r"sampler must have sample\(n, noise\), got a int"):
        expectation(np.square, 3, 1, Noise(0, "bad"))


def test_a_law_of_the_library_is_drawn_from():
    law, noise = Normal(np.array([1.0, -1.0]), 2.0), Noise(3, "law")
    found = expectation(np.square, law, 100, noise, batch=33)
    assert found.mean == pytest.approx(np.square(law.sample(noise, 0, (100,))).mean(axis=0), rel=1e-12)
    one = expectation(lambda x: x, lambda n, noise: np.arange(n) + 1.0, 4, noise)
    assert repr(one) == "Expectation(2.5 ± 0.65, 4 draws)"
    assert repr(found) == "Expectation(100 draws)"
    assert repr(RunningMean()) == "RunningMean(0 draws)"
