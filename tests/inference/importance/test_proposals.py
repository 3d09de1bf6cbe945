"""The best proposal on a finite space: the numbers of the definition, and nothing on the simplex that beats it."""

from __future__ import annotations

import numpy as np
import pytest

from gnomon.errors import UserValueError
from gnomon.inference.importance.proposals import least_variance, optimal_proposal, proposal_variance
from gnomon.inference.importance.weights import WeightedSample, check_support
from gnomon.numeric.noise import Noise

P, F, SIGNED = np.array([0.5, 0.3, 0.2]), np.array([1.0, 2.0, 5.0]), np.array([1.0, -2.0, 5.0])


@pytest.mark.spec("INF-05")
def test_one_draw_is_enough_where_f_keeps_its_sign():
    best = optimal_proposal(P, F)
    assert best == pytest.approx([0.238095, 0.285714, 0.476190], abs=5e-7)
    assert proposal_variance(P, F, best) < 1e-28
    assert least_variance(P, F) == 0
    for x in range(3):  # every single draw answers the expectation itself
        sample = WeightedSample(np.log(P[[x]] / best[[x]]), np.array([x]))
        assert sample.estimate(F[[x]], self_normalized=False).value == pytest.approx(2.1, abs=1e-14)
    assert proposal_variance(P, -F, best) < 1e-28


@pytest.mark.spec("INF-05")
def test_a_function_of_both_signs_keeps_a_variance():
    """s = 0.9; 3.6 at the best proposal, 5.89 at p itself, and the enumeration of single draws agrees."""
    best = optimal_proposal(P, SIGNED)
    assert pytest.approx(0.9, abs=1e-15) == P @ SIGNED
    assert proposal_variance(P, SIGNED, best) == pytest.approx(3.6, abs=1e-13)
    assert least_variance(P, SIGNED) == pytest.approx(3.6, abs=1e-14)
    assert proposal_variance(P, SIGNED, P) == pytest.approx(5.89, abs=1e-13)
    for q in (best, P, np.array([0.1, 0.6, 0.3])):
        draws = np.array([
            WeightedSample(np.log(P[[x]] / q[[x]]), np.array([x])).estimate(SIGNED[[x]], self_normalized=False).value
            for x in range(3)
        ])  # fmt: skip
        assert q @ draws == pytest.approx(0.9, abs=1e-14)
        assert q @ draws**2 - 0.81 == pytest.approx(proposal_variance(P, SIGNED, q), abs=1e-12)


@pytest.mark.spec("INF-05")
def test_no_proposal_on_the_simplex_beats_it():
    """2,000 uniform points of the simplex, and small steps from the best one in every direction of two states."""
    e = -np.log(Noise(0, "simplex").uniform((2000, 3), like=np.empty(0)))
    variances = [proposal_variance(P, SIGNED, q) for q in e / e.sum(axis=1, keepdims=True)]
    assert min(variances) >= 3.6 - 1e-12
    assert min(variances) < 3.7
    best = optimal_proposal(P, SIGNED)
    for i in range(3):
        for j in range(3):
            if i != j:
                step = np.zeros(3)
                step[i], step[j] = 0.01, -0.01
                assert proposal_variance(P, SIGNED, best + step) > 3.6 + 1e-5


@pytest.mark.spec("INF-05")
def test_states_where_f_vanishes_are_lost_for_other_functions():
    best = optimal_proposal(P, [0.0, 2.0, 5.0])
    assert best[0] == 0
    assert proposal_variance(P, [0.0, 2.0, 5.0], best) < 1e-28
    with pytest.raises(UserValueError, match="state 0"):
        proposal_variance(P, F, best)
    with pytest.raises(UserValueError, match="state 0"):
        check_support(P, best, F)


def test_what_is_no_distribution_is_refused():
    with pytest.raises(UserValueError, match="f is 0 wherever"):
        optimal_proposal([1.0, 0.0], [0.0, 3.0])
    with pytest.raises(UserValueError, match=r"p must be at least 0 and sum to 1, got the sum 0\.9"):
        optimal_proposal([0.5, 0.4], [1.0, 1.0])
    with pytest.raises(UserValueError, match="q must be at least 0 and sum to 1, got the sum 1"):
        proposal_variance([0.5, 0.5], [1.0, 1.0], [1.5, -0.5])
    with pytest.raises(UserValueError, match=r"p must be 3 numbers, one per value of f, got an array of shape \(2,\)"):
        least_variance([0.5, 0.5], [1.0, 1.0, 1.0])
    with pytest.raises(UserValueError, match=r"nan.*state 1"):
        least_variance([0.5, 0.5], [1.0, np.nan])
    with pytest.raises(UserValueError, match="one number per state"):
        least_variance([0.5, 0.5], [[1.0, 1.0]])
