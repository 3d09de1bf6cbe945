"""Stationary distributions, ergodicity and mixing times of finite chains."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from gnomon.errors import UserValueError
from gnomon.inference.mcmc.gibbs import block_kernel
from gnomon.inference.mcmc.stationary import (
    closed_classes,
    is_aperiodic,
    is_irreducible,
    mixing_time,
    period,
    relaxation_time,
    second_eigenvalue,
    spectral_gap,
    stationary,
    stationary_distributions,
    total_variation_curve,
)
from oracles.toys import tiny_rbm

TWO = np.array([[0.9, 0.3], [0.1, 0.7]])
CYCLE = np.array([[0.0, 1.0], [1.0, 0.0]])


def random_chain(k, seed):
    a = np.random.default_rng(seed).gamma(0.3, size=(k, k)) + 1e-9
    return a / a.sum(axis=0)


@pytest.mark.spec("INF-13")
def test_known_laws():
    assert stationary(TWO) == pytest.approx([0.75, 0.25], abs=1e-15)
    assert stationary(CYCLE) == pytest.approx([0.5, 0.5], abs=1e-15)
    assert is_irreducible(CYCLE) and not is_aperiodic(CYCLE) and period(CYCLE) == 2
    assert is_irreducible(TWO) and is_aperiodic(TWO)
    a = random_chain(12, 0)
    distribution = np.linalg.matrix_power(a, 4096)[:, 5]
    assert stationary(a) == pytest.approx(distribution, abs=1e-13)


@pytest.mark.spec("INF-13")
def test_a_stiff_chain_keeps_its_digits():
    """Birth and death with rates of 1e-9 and less: the distribution is a product of ratios, by detailed balance."""
    up, down = np.array([1e-9, 1e-12, 0.3, 1e-7]), np.array([1e-14, 1e-3, 1e-10, 0.5])
    a = np.diag(up, -1) + np.diag(down, 1)
    a += np.diag(1 - a.sum(axis=0))
    known = np.concatenate([[1.0], np.cumprod(up / down)])
    assert stationary(a) == pytest.approx(known / known.sum(), rel=1e-13)


@pytest.mark.spec("INF-13")
def test_every_closed_class_is_told_and_none_is_picked():
    a = np.zeros((6, 6))
    a[np.ix_([1, 4], [1, 4])] = TWO
    a[np.ix_([0, 5], [0, 5])] = CYCLE
    a[:, 2] = [0.2, 0.3, 0.1, 0.4, 0, 0]
    a[:, 3] = [0, 0, 1, 0, 0, 0]
    assert [c.tolist() for c in closed_classes(a)] == [[0, 5], [1, 4]]
    assert stationary_distributions(a) == pytest.approx(
        np.array([[0.5, 0, 0, 0, 0, 0.5], [0, 0.75, 0, 0, 0.25, 0]]), abs=1e-15
    )
    assert not is_irreducible(a) and period(a) == 2
    with pytest.raises(UserValueError, match=r"2 closed classes .*use stationary_distributions"):
        stationary(a)
    one_sink = np.array([[1.0, 0.5], [0.0, 0.5]])  # not irreducible, yet one distribution
    assert not is_irreducible(one_sink)
    assert stationary(one_sink).tolist() == [1, 0]


@pytest.mark.spec("INF-13")
@pytest.mark.parametrize(("cycles", "known"), [((4, 6), 2), ((3, 6), 3), ((3, 4), 1), ((5,), 5)])
def test_period_of_joined_cycles(cycles, known):
    """Cycles of the given lengths through state 0."""
    size = 1 + sum(n - 1 for n in cycles)
    a, free = np.zeros((size, size)), 1
    for n in cycles:
        path = [0, *range(free, free + n - 1), 0]
        free += n - 1
        for now, then in itertools.pairwise(path):
            a[then, now] = 1
    assert period(a / a.sum(axis=0)) == known


@pytest.mark.spec("INF-14")
def test_known_spectra():
    assert second_eigenvalue(TWO) == pytest.approx(0.6, abs=1e-15)
    assert spectral_gap(TWO) == pytest.approx(0.4, abs=1e-15)
    assert relaxation_time(TWO) == pytest.approx(-1 / math.log(0.6), abs=1e-13)
    assert second_eigenvalue(block_kernel(tiny_rbm(), "visible")) == pytest.approx(0.298385, abs=5e-7)
    assert spectral_gap(CYCLE) == 0 and relaxation_time(CYCLE) == math.inf
    assert relaxation_time([[0.3, 0.3], [0.7, 0.7]]) < 0.03
    turning = np.roll(np.eye(3), 1, axis=0) * 0.9 + 0.1 / 3  # eigenvalues 0.9 exp(+-2 pi i / 3)
    assert second_eigenvalue(turning) == pytest.approx(0.9, abs=1e-12)


@pytest.mark.spec("INF-14")
def test_distance_in_closed_form_and_mixing_time_by_its_definition():
    curve = total_variation_curve(TWO, 12)
    assert curve == pytest.approx([0.75 * 0.6**t for t in range(13)], abs=1e-14)  # worst start: the rarer state
    for eps in (0.74, 0.25, 1e-3, 1e-6):
        known = next(t for t in range(99) if 0.75 * 0.6**t <= eps)
        assert mixing_time(TWO, eps) == known
    assert mixing_time(TWO, 0.8) == 0
    for seed in range(5):
        a = 0.9 * np.eye(6) + 0.1 * random_chain(6, seed)
        curve = total_variation_curve(a, 400)
        assert mixing_time(a, 0.01) == int(np.argmax(curve <= 0.01))
        assert (np.diff(curve) < 1e-15).all()


@pytest.mark.spec("INF-14")
def test_wrong_use():
    with pytest.raises(UserValueError, match="period 2 and never mixes"):
        mixing_time(CYCLE)
    with pytest.raises(UserValueError, match=r"eps must be in \(0, 1\), got 1\.0; 0\.25 is usual"):
        mixing_time(TWO, 1.0)
    with pytest.raises(UserValueError, match="steps must be at least 0, got -1"):
        total_variation_curve(TWO, -1)
    with pytest.raises(UserValueError, match="matrix must have at most 4096 states here, got 4097"):
        spectral_gap(np.eye(4097))
