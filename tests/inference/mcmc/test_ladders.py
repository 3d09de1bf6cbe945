"""Ladders of inverse temperatures: heat capacities in closed form, even swap rates, critical temperatures named."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from scipy import special

import gnomon
from gnomon.errors import UserValueError
from gnomon.inference.mcmc.adaptation import Adaptation
from gnomon.inference.mcmc.ladders import (
    LadderTuning,
    adapt,
    check_falling,
    check_ladder,
    heat_capacity,
    ladder,
    spaced_by,
)
from gnomon.inference.mcmc.metropolis import MetropolisHastings, RandomWalk
from gnomon.inference.mcmc.mixing import SeparatedModes
from gnomon.inference.mcmc.replica_exchange import ParallelTempering
from gnomon.inference.mcmc.sites import PairwiseUnits, SingleSite
from gnomon.inference.mcmc.tempered_transitions import TemperedTransitions
from oracles.binary import all_states


def exact_rates(betas, energies):
    """Mean acceptance of swaps between neighbors, summed over all pairs of states."""
    laws = special.softmax(-np.outer(betas, energies), axis=1)
    gap = energies[:, None] - energies[None, :]
    return np.array([
        laws[k] @ np.exp(np.minimum((betas[k] - betas[k + 1]) * gap, 0.0)) @ laws[k + 1]
        for k in range(len(betas) - 1)
    ])  # fmt: skip


def ferromagnet(d=10, coupling=1.2):
    """Units that all like to be equal: energies whose spread differs strongly along the ladder."""
    U = np.triu(np.full((d, d), coupling), 1)
    return PairwiseUnits(U, -(U + U.T).sum(axis=1) / 2)


@pytest.mark.spec("INF-28")
@pytest.mark.parametrize("gap", [0.5, 3.0, 40.0])
def test_heat_capacity_of_two_states(gap):
    """``D^2 s (1 - s)``, s = sigma(beta D); and the second derivative of log Z by differences."""
    beta = np.array([0.0, 0.1, 1.0, 2.5])
    s = special.expit(beta * gap)
    assert heat_capacity(beta, [1.0, 1.0 + gap]) == pytest.approx(gap**2 * s * special.expit(-beta * gap), rel=1e-9)
    assert heat_capacity(0.5, [0.0, gap]).shape == ()


@pytest.mark.spec("INF-28")
def test_heat_capacity_is_the_second_derivative_of_log_z():
    energies, h = ferromagnet(6).energy(all_states(6)), 1e-3
    levels, count = np.unique(energies.round(9), return_counts=True)
    for beta in (0.0, 0.4, 1.0):
        log_z = [special.logsumexp(-(beta + k * h) * energies) for k in (-1, 0, 1)]
        wanted = (log_z[0] - 2 * log_z[1] + log_z[2]) / h**2
        assert heat_capacity(beta, energies) == pytest.approx(wanted, rel=1e-4)
        assert heat_capacity(beta, levels, np.log(count)) == pytest.approx(heat_capacity(beta, energies), rel=1e-9)


@pytest.mark.spec("INF-28")
def test_ladders_have_the_target_and_fall():
    assert ladder(4, hottest=0.125) == pytest.approx([1.0, 0.5, 0.25, 0.125], abs=1e-15)
    assert ladder(5, "linear", 0.0).tolist() == [1.0, 0.75, 0.5, 0.25, 0.0]
    for n, kind, hottest in itertools.product((2, 7, 50), ("geometric", "linear"), (1e-6, 0.3, 0.999)):
        betas = ladder(n, kind, hottest)
        assert betas[0] == 1.0 and betas[-1] == hottest and len(betas) == n and (np.diff(betas) < 0).all()
        ratio = betas[1:] / betas[:-1] if kind == "geometric" else np.diff(betas)
        assert ratio == pytest.approx(np.full(n - 1, ratio[0]), rel=1e-6)


@pytest.mark.spec("INF-28")
@pytest.mark.parametrize("kind", ["geometric", "linear"])
@pytest.mark.parametrize("n", [4, 7])
def test_adapting_evens_the_swap_rates_of_an_enumerated_model(kind, n):
    """Exact rates over all states of ten coupled units; after six rounds they differ by less than 0.05."""
    energies = ferromagnet().energy(all_states(10))
    betas = ladder(n, kind, 0.02)
    assert np.ptp(exact_rates(betas, energies)) > 0.15
    for _ in range(6):
        betas = adapt(betas, exact_rates(betas, energies))
    assert np.ptp(exact_rates(betas, energies)) < 0.05
    assert betas[0] == 1 and betas[-1] == 0.02
    check_falling(betas)


@pytest.mark.spec("INF-28")
def test_burn_in_evens_the_rates_and_freezes_the_ladder():
    """The chains tune their own ladder on an enumerated model; what they settle on is judged by exact rates."""
    model = ferromagnet(8)
    energies = model.energy(all_states(8))
    kernel = ParallelTempering(ladder(5, "linear", 0.02), SingleSite())
    found = gnomon.sample_chain(model, kernel, start=8, chains=60, draws=100, burn_in=400, random_state=0)
    rates = exact_rates(np.array(found.kernel.betas), energies)
    assert np.ptp(exact_rates(np.array(kernel.betas), energies)) > 0.15
    assert np.ptp(rates) < 0.05
    assert found.kernel.swap_rates(found.walk.state) == pytest.approx(rates, abs=0.05)
    assert found.extend(20).kernel.betas == found.kernel.betas
    still = gnomon.sample_chain(
        model, kernel, start=8, chains=4, draws=5, burn_in=100, random_state=0, adapt=LadderTuning(levels=False)
    )
    assert still.kernel.betas == kernel.betas


@pytest.mark.spec("INF-28")
def test_each_level_gets_the_step_size_it_accepts_at():
    """Normals of standard deviation beta^-1/2 need steps that grow alike; acceptance as asked at every level."""
    kernel = ParallelTempering([1.0, 0.3, 0.09], MetropolisHastings(RandomWalk(0.1)))
    found = gnomon.sample_chain(
        lambda x: -0.5 * (x * x).sum(-1), kernel, start=3, chains=50, draws=200, burn_in=500, random_state=1,
        adapt=LadderTuning(levels=False, acceptance=0.4),
    )  # fmt: skip
    sizes = np.array(found.kernel.step_sizes)
    assert sizes[1:] / sizes[:-1] == pytest.approx(np.full(2, 0.3**-0.5), rel=0.15)
    state, chance = found.walk.state, []
    for t in range(100):
        state, info = found.kernel.step(state, found.sampler.noise.at(10_000 + t))
        chance.append(info["slot_accept"].mean(axis=0))
    assert np.mean(chance, axis=0) == pytest.approx(np.full(3, 0.4), abs=0.03)


@pytest.mark.spec("INF-28")
def test_spacing_goes_as_one_over_the_spread_of_energies():
    """A closed form: C = 1 / beta^2 (quadratic energies) is the geometric ladder; and exact rates come out even."""
    fine = np.geomspace(1.0, 0.1, 400)
    assert spaced_by(5, fine, 3.0 / fine**2) == pytest.approx(ladder(5, hottest=0.1), rel=1e-3)
    energies = ferromagnet().energy(all_states(10))
    grid = np.linspace(1.0, 0.02, 200)
    betas = spaced_by(12, grid, heat_capacity(grid, energies))
    assert np.ptp(exact_rates(betas, energies)) < 0.5 * np.ptp(exact_rates(ladder(12, "linear", 0.02), energies))
    steps = -np.diff(betas)
    middle = 0.5 * (betas[1:] + betas[:-1])
    products = steps * np.sqrt(heat_capacity(middle, energies))
    assert products == pytest.approx(np.full(11, products.mean()), rel=0.12)


@pytest.mark.spec("INF-28")
def test_critical_temperatures_and_wide_gaps_are_named():
    """The capacity peaks where brute force on a fine grid says; expected rates are close to exact ones."""
    energies = ferromagnet(10, 0.8).energy(all_states(10))
    betas = np.linspace(1.0, 0.02, 50)
    capacity = heat_capacity(betas, energies)
    found = check_ladder(betas, capacity)
    fine = np.linspace(0.02, 1.0, 5000)
    log_z = special.logsumexp(-np.outer(fine, energies), axis=1)
    peak = fine[1:-1][np.argmax(np.diff(log_z, 2))]
    assert found.critical == pytest.approx([peak], abs=0.02)
    assert "peaks at beta" in str(found) and len(found.notices) == 1
    assert found.swap_rates == pytest.approx(exact_rates(betas, energies), abs=0.03)
    wide = check_ladder([1.0, 0.02], heat_capacity(np.array([1.0, 0.02]), energies * 20))
    assert "add levels there" in str(wide)
    assert str(check_ladder([1.0, 0.9], [1.0, 1.0])).startswith("no critical temperature")


def test_tuning_of_another_kind_is_refused_in_a_line():
    settings = {"start": 2, "chains": 2, "draws": 2, "burn_in": 4, "random_state": 0}
    bell = SeparatedModes(1.0)
    with pytest.raises(UserValueError, match="MetropolisHastings has no ladder to tune"):
        gnomon.sample_chain(bell, MetropolisHastings(), adapt=LadderTuning(), **settings)
    for kernel in (ParallelTempering(2, MetropolisHastings()), TemperedTransitions(2)):
        with pytest.raises(UserValueError, match="has nothing to tune"):
            gnomon.sample_chain(bell, kernel, adapt=Adaptation(), **settings)


def test_even_rates_stay_and_wrong_ladders_are_named():
    betas = np.array([1.0, 0.7, 0.2])
    assert adapt(betas, [0.4, 0.4]) == pytest.approx(betas, abs=1e-12)  # though one gap is the wider
    assert np.isfinite(adapt(betas, [0.0, 1.0])).all() and (np.diff(adapt(betas, [0.0, 1.0])) < 0).all()
    falling = "betas must fall strictly and stay at least 0, got 1.0 then "
    for wrong, message in (
        ([1.0], "betas must be 2 or more inverse temperatures on one axis, got an array of shape (1,)"),
        ([0.9, 0.1], "betas must begin at 1, the target, got 0.9"),
        ([1.0, 0.5, 0.5], "betas must fall strictly and stay at least 0, got 0.5 then 0.5 (betas, entry 2)"),
        ([1.0, -0.5], falling + "-0.5"),
        ([1.0, np.nan], falling + "nan"),
        ([1.0, 2.0], falling + "2.0"),
    ):
        with pytest.raises(UserValueError, match=re.escape(message)):
            check_falling(wrong)
    with pytest.raises(UserValueError, match=r"swap_rates must be 2 numbers in \[0, 1\], got an array of shape \(1,\)"):
        adapt(betas, [0.5])
    with pytest.raises(UserValueError, match=r"swap_rates must be 2 numbers in \[0, 1\], got an array of shape \(2,\)"):
        adapt(betas, [0.5, 1.5])
    with pytest.raises(
        UserValueError,
        match=r"capacity must be a finite positive number per inverse temperature, got an array of shape \(3,\)",
    ):
        spaced_by(3, betas, [1.0, 0.0, 1.0])
    with pytest.raises(UserValueError, match=r"hottest must be in \(0, 1\), or 0 with kind='linear', got 0\.0"):
        ladder(3, "geometric", 0.0)
    with pytest.raises(UserValueError, match="got 'cubic'"):
        ladder(3, "cubic")
    with pytest.raises(UserValueError, match="energies must be finite; leave out states of infinite energy"):
        heat_capacity(1.0, [0.0, np.inf])
