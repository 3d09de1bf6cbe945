"""Finite chains, their reversal, and annealing trajectories as plain importance sampling."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gnomon.errors import UserValueError
from gnomon.inference.mcmc.chains import (
    FiniteChain,
    detailed_balance_error,
    invariance_error,
    reverse_kernel,
    trajectory_log_weight,
)
from gnomon.numeric.noise import Noise, recording

TWO = np.array([[0.9, 0.3], [0.1, 0.7]])


@pytest.mark.spec("INF-12")
def test_evolution_in_closed_form():
    chain = FiniteChain(TWO)
    assert chain.evolve([1, 0], 1) == pytest.approx([0.9, 0.1], abs=1e-15)
    for t in range(20):
        known = np.array([0.75, 0.25]) + 0.6**t * np.array([0.25, -0.25])
        assert chain.evolve([1, 0], t) == pytest.approx(known, abs=1e-14)
    assert chain.evolve(np.eye(2), 3) == pytest.approx(np.linalg.matrix_power(TWO, 3), abs=1e-15)


@pytest.mark.spec("INF-12")
def test_a_defective_matrix():
    """Eigenvalue 1/2 twice with one eigenvector: A^t in closed form, out of reach of the eigen form."""
    matrix = np.array([[0.5, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.5, 1.0]])
    for t in (1, 2, 7):
        known = [0.5**t, t * 0.5**t, 1 - (1 + t) * 0.5**t]
        assert FiniteChain(matrix).evolve([1, 0, 0], t) == pytest.approx(known, abs=1e-15)


@pytest.mark.spec("INF-12")
def test_simulated_histogram():
    """100,000 chains after each of 5 steps; 4.5 standard errors, false-alarm rate 5 * 7e-6."""
    chain, n = FiniteChain(TWO), 100_000
    with recording():
        path = chain.simulate(np.zeros(n, dtype=int), 5, Noise(0, "chain"))
    assert path.shape == (6, n)
    for t in range(1, 6):
        p = chain.evolve([1, 0], t)[1]
        assert abs(path[t].mean() - p) < 4.5 * np.sqrt(p * (1 - p) / n)
    moves = np.mean(path[5][path[4] == 1] == 0)  # the transition itself, from the second state
    assert abs(moves - 0.3) < 4.5 * np.sqrt(0.21 / (path[4] == 1).sum())


@pytest.mark.spec("INF-12")
def test_impossible_moves_never_happen():
    matrix = np.array([[0.0, 1 / 3, 0.1], [0.7, 1 / 3, 0.2], [0.3, 1 / 3, 0.7], [0.0, 0.0, 0.0]])
    chain = FiniteChain(np.concatenate([matrix, [[0.0], [0.5], [0.5], [0.0]]], axis=1))
    path = chain.simulate(np.full(20_000, 3), 3, Noise(4, "chain"))
    assert not (path[1:] == 3).any()
    assert not (path[1] == 0).any()


@pytest.mark.spec("INF-12")
def test_the_convention_is_checked():
    with pytest.raises(UserValueError, match=r"column 1.*pass the transpose"):
        FiniteChain(TWO.T)
    with pytest.raises(
        UserValueError, match=r"a column must sum to 1, got 1\.1 \(matrix, column 1\); entry .*of going from j to i"
    ):
        FiniteChain([[0.9, 0.4], [0.1, 0.7]])
    with pytest.raises(UserValueError, match=r"matrix must have entries in \[0, 1\]"):
        FiniteChain([[1.1, 0.3], [-0.1, 0.7]])
    with pytest.raises(UserValueError, match="square"):
        FiniteChain(np.ones((1, 2)))
    chain = FiniteChain(TWO)
    with pytest.raises(UserValueError, match=r"v must have 2 entries, one per state, got an array of shape \(3,\)"):
        chain.evolve([1, 0, 0], 1)
    with pytest.raises(UserValueError, match="t must be at least 0, got -1"):
        chain.evolve([1, 0], -1)
    with pytest.raises(UserValueError, match=r"a state must be in \[0, 2\), got 2 \(chain 1\)"):
        chain.simulate([0, 2], 1, Noise(0, "x"))


def metropolis(p: np.ndarray) -> np.ndarray:
    """Reversible under p: steps to the left and right neighbor with probability 1/2 each, accepted or not."""
    kernel = np.zeros((len(p), len(p)))
    for j in range(len(p)):
        for i in (j - 1, j + 1):
            if 0 <= i < len(p):
                kernel[i, j] = 0.5 * min(1, p[i] / p[j])
        kernel[j, j] = 1 - kernel[:, j].sum()
    return kernel


@pytest.mark.spec("INF-65")
def test_reversal_is_a_kernel_exactly_when_the_law_is_invariant():
    p = np.array([0.5, 0.3, 0.2])
    reversible = metropolis(p)
    assert reverse_kernel(reversible, p) == pytest.approx(reversible, abs=1e-15)
    assert detailed_balance_error(reversible, p) < 1e-15
    turning = 0.3 * np.eye(3) + 0.7 * np.outer(p, np.ones(3))
    turning += 0.05 * (np.roll(np.eye(3), 1, axis=0) - np.roll(np.eye(3), -1, axis=0)) / p[None, :] * 0.2
    assert invariance_error(turning, p) < 1e-15
    assert detailed_balance_error(turning, p) > 1e-3
    reverse = reverse_kernel(turning, p)
    assert np.allclose(reverse.sum(axis=0), 1, rtol=0, atol=1e-15)
    assert not np.allclose(reverse, turning, rtol=0, atol=1e-3)
    assert invariance_error(reverse, p) < 1e-15
    wrong = reverse_kernel(turning, [0.2, 0.3, 0.5])
    assert np.abs(wrong.sum(axis=0) - 1).max() > 0.1
    for i, j in itertools.product(range(3), range(3)):
        assert reverse[i, j] == pytest.approx(p[i] * turning[j, i] / p[j], abs=1e-15)


@pytest.mark.spec("INF-65")
def test_states_of_probability_zero():
    unvisited = np.array([[0.9, 0.3, 0.5], [0.1, 0.7, 0.5], [0.0, 0.0, 0.0]])
    reverse = reverse_kernel(unvisited, [0.75, 0.25, 0])
    assert np.allclose(reverse.sum(axis=0), 1, rtol=0, atol=1e-15)
    assert reverse[:, 2].tolist() == [0, 0, 1]
    led_to = np.array([[0.9, 0.3, 0.5], [0.0, 0.7, 0.5], [0.1, 0.0, 0.0]])
    assert not np.isfinite(reverse_kernel(led_to, [0.75, 0.25, 0]).sum(axis=0)).all()


@pytest.mark.spec("INF-65", "INF-63")
@pytest.mark.parametrize("reversible", [True, False])
def test_trajectory_ratio_is_the_annealed_weight_for_every_path(reversible):
    """All 27 paths of a ladder of 3 levels on 3 states; the mean over the proposal is Z_1 / Z_0 exactly."""
    start, end = np.log([0.2, 0.5, 0.3]), np.log([4.0, 1.0, 2.5])
    log_p = np.array([(1 - eta) * start + eta * end for eta in (0, 1 / 3, 2 / 3, 1)])
    kernels = []
    for level in log_p[1:3]:
        p = np.exp(level) / np.exp(level).sum()
        kernel = metropolis(p)
        turn = 0.02 * (np.roll(np.eye(3), 1, axis=0) - np.roll(np.eye(3), -1, axis=0)) / p[None, :]
        kernels.append(kernel if reversible else 0.5 * (kernel + p[:, None]) + turn)
        assert invariance_error(kernels[-1], p) < 1e-15
    mean = 0.0
    for path in itertools.product(range(3), repeat=3):
        proposal = np.exp(log_p[0][path[0]]) * kernels[0][path[1], path[0]] * kernels[1][path[2], path[1]]
        if proposal == 0:
            continue
        annealed = sum(log_p[j + 1][path[j]] - log_p[j][path[j]] for j in range(3))
        assert trajectory_log_weight(path, log_p, kernels) == pytest.approx(annealed, abs=1e-13)
        mean += proposal * np.exp(annealed)
    assert mean == pytest.approx(7.5 / 1.0, abs=1e-13)
    every = np.array(list(itertools.product(range(3), repeat=3)))
    assert trajectory_log_weight(every, log_p, kernels).shape == (27,)
    with pytest.raises(
        UserValueError, match=r"log_p and kernels must have 3 and 1 entries, got 4 and 2 \(log_p, kernels\)"
    ):
        trajectory_log_weight([0, 1], log_p, kernels)


@pytest.mark.spec("INF-65")
def test_wrong_densities():
    for wrong in ([0.5, 0.5, 0.0], [-1, 2], [0, 0], [np.nan, 1]):
        with pytest.raises(UserValueError):
            reverse_kernel(TWO, wrong)
