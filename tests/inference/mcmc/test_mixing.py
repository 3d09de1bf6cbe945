"""Targets that try samplers, and measures of moves between modes, against chances known in closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from gnomon.errors import UserValueError
from gnomon.inference.mcmc.diagnostics import autocorrelation
from gnomon.inference.mcmc.mixing import (
    CorrelatedPair,
    CoupledPair,
    SeparatedModes,
    mode_report,
    successive_distance,
)  # fmt: skip
from gnomon.inference.mcmc.sampling import sample_chain
from gnomon.inference.mcmc.sites import SingleSite
from gnomon.inference.mcmc.stationary import second_eigenvalue
from gnomon.numeric.noise import Noise
from oracles.scripted import Scripted

SPINS = SingleSite(values=(-1, 1))


def chance_up(pair, unit, x):
    """p(unit = 1 | other) as the sampler has it, by bisection over its uniform number."""
    mover = SingleSite(order=(unit,), values=(-1, 1))
    low, high = 0.0, 1.0
    for _ in range(54):
        middle = (low + high) / 2
        up = mover.step(mover.init(x, pair), Scripted(uniform=middle))[0]["x"][0, unit] == 1
        low, high = (middle, high) if up else (low, middle)
    return low


@pytest.mark.spec("INF-23")
@pytest.mark.parametrize(
    ("w", "s", "flip", "sweeps"),
    [(1, 0.880797, 0.209987, 4.76), (2, 0.982014, 0.035325, 28.31), (3, 0.997527, 0.004933, 202.72)],
)
def test_coupled_pair(w, s, flip, sweeps):
    pair = CoupledPair(w)
    assert chance_up(pair, 1, np.array([[1.0, -1.0]])) == pytest.approx(s, abs=5e-7)
    assert pair.flip_rate == pytest.approx(flip, abs=5e-7)
    assert 1 / pair.flip_rate == pytest.approx(sweeps, abs=5e-3)
    states = [[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]]
    sweep = np.eye(4)
    for unit in (0, 1):
        update = np.zeros((4, 4))
        for j, x in enumerate(states):
            p = chance_up(pair, unit, np.array([x]))
            for value, chance in ((1.0, p), (-1.0, 1 - p)):
                y = list(x)
                y[unit] = value
                update[states.index(y), j] += chance
        sweep = update @ sweep
    assert second_eigenvalue(sweep) == pytest.approx(math.tanh(w) ** 2, abs=1e-9)


@pytest.mark.spec("INF-23", "INF-24")
@pytest.mark.parametrize("w", [1, 2])
def test_switches_of_the_pair_started_in_one_mode(w):
    """Counted over 400 chains x 400 sweeps; switches are independent coin flips: within 4.5 binomial errors."""
    pair = CoupledPair(w)
    found = sample_chain(pair, SPINS, chains=400, start=[1.0, 1.0], draws=401, burn_in=0, random_state=1)
    labels = (found.draws[..., 1] > 0).astype(int)
    report, n = mode_report(labels, [0.5, 0.5]), 400 * 400
    error = math.sqrt(pair.flip_rate * (1 - pair.flip_rate) / n)
    assert report.switch_rate == pytest.approx(pair.flip_rate, abs=4.5 * error)
    assert report.dwell == pytest.approx(1 / report.switch_rate)
    early = mode_report(labels[:, :2], [0.5, 0.5]).occupancy_error
    assert early == pytest.approx((math.tanh(w) ** 2 + math.tanh(w) ** 4) / 4, abs=0.06)  # of the first two sweeps
    assert report.occupancy_error < 0.1


@pytest.mark.spec("INF-23")
def test_correlated_pair():
    pair, x = CorrelatedPair(0.9), np.array([[0.3, -1.2], [2.0, 1.0], [0.0, 0.5]])
    law = stats.multivariate_normal(cov=[[1, 0.9], [0.9, 1]])
    difference = pair.energy(x) + law.logpdf(x)
    assert np.allclose(difference, difference[0], rtol=0, atol=1e-12)
    draws = pair.sample(40_000, Noise(2, "exact"))
    assert np.allclose(np.cov(draws.T), [[1, 0.9], [0.9, 1]], rtol=0, atol=0.04)
    start = {"a": np.zeros((1, 32)).repeat(4, axis=0), "b": np.zeros((1, 32)).repeat(4, axis=0)}
    found = sample_chain(pair.conditionals(), "gibbs", chains=4, start=start, draws=1500, burn_in=50, random_state=2)
    assert autocorrelation(found.values["b"])[:, 1].mean() == pytest.approx(0.81, abs=0.015)
    with pytest.raises(UserValueError, match=r"rho must be in \(-1, 1\), got 1\.0"):
        CorrelatedPair(1.0)


@pytest.mark.spec("INF-23")
def test_separated_modes_and_barriers():
    """The energy is that of the mixture; moves across the barrier get rarer as it gets higher."""
    target, x = SeparatedModes(5.0), np.array([[0.3, -1.2], [2.0, 1.0], [-9.0, 0.5], [400.0, 3.0]])
    m = 5 / math.sqrt(8)
    logs = [-0.5 * ((x - c) ** 2).sum(1) for c in (m, -m)]
    assert np.allclose(-target.energy(x), np.logaddexp(*logs), rtol=0, atol=1e-9)
    assert np.allclose(target.energy(torch.from_numpy(x)).numpy(), target.energy(x), rtol=0, atol=1e-12)
    draws = target.sample(20_000, Noise(3, "exact"))
    along = draws.sum(1) / math.sqrt(2)
    exact = lambda t: (stats.norm.cdf(t - 2.5) + stats.norm.cdf(t + 2.5)) / 2  # noqa: E731
    assert stats.kstest(along, exact).pvalue > 1e-4
    rates = []
    for separation in (3.0, 6.0, 12.0):
        target = SeparatedModes(separation)
        start = np.full(2, separation / math.sqrt(8))
        found = sample_chain(target, start=start, chains=16, draws=200, burn_in=100, random_state=4)
        rates.append(mode_report(target.label(found.draws)).switch_rate)
    assert rates[0] > 3 * rates[1] > 0
    assert rates[2] == 0


@pytest.mark.spec("INF-24")
def test_measures_of_independent_draws():
    pi = np.array([0.5, 0.3, 0.2])
    u = Noise(5, "labels").uniform((50, 2000))
    labels = (u[..., None] > np.cumsum(pi)[:2]).sum(-1)
    report = mode_report(labels, pi)
    assert report.switch_rate == pytest.approx(1 - (pi**2).sum(), abs=0.007)
    assert np.allclose(report.occupancy, pi, rtol=0, atol=0.007)
    assert report.occupancy_error < 0.01
    x = Noise(6, "draws").normal((8, 2000, 3), like=np.empty(0))
    assert successive_distance(x) == pytest.approx(1, abs=0.02)
    slow = np.cumsum(0.01 * x, axis=1) + x[:, :1] * 10
    assert successive_distance(slow) < 0.01


@pytest.mark.spec("INF-24")
def test_measures_by_hand():
    report = mode_report([[0, 0, 2, 2], [1, 1, 1, 1]], [0.25, 0.25, 0.5])
    assert report.switch_rate == 1 / 6
    assert report.dwell == 6
    assert report.occupancy.tolist() == [0.25, 0.5, 0.25]
    assert report.occupancy_error == 0.25
    assert mode_report([[3, 3]]).dwell == math.inf
    x = np.array([[[0.0, 0], [3, 4]], [[0, 1], [0, 1]]])
    assert successive_distance(x) == pytest.approx((5 + 0) / 2 / ((1 + math.hypot(3, 3)) / 2))
    # a feature that drops what moves: the draws are the same in that sense
    assert successive_distance(x, lambda z: z[:, :1] * 0 + (z[:, 1:] == 1)) == pytest.approx(0.0)
    assert math.isnan(successive_distance(np.zeros((2, 3, 1))))
    for bad in ([[0.5, 1.0]], [0, 1], [[0, -1]]):
        with pytest.raises(UserValueError, match="whole numbers"):
            mode_report(bad)
    with pytest.raises(UserValueError, match=r"weights must be one per mode with sum 1, got \[0\.5, 0\.6\]"):
        mode_report([[0, 1]], [0.5, 0.6])
