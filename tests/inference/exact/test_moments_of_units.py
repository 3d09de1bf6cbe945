"""Variances of units of several kinds: against sums over their counts, and mixtures."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gnomon.distributions.binomial_units import Binomials
from gnomon.distributions.spike_units import SpikesAndSlabs
from gnomon.inference.exact.moments import posterior_moments, variance_of
from gnomon.systems.energy.spike_and_slab_rbm import SpikeAndSlabRBMModel


@pytest.mark.parametrize("field", [-1.3, 0.0, 2.0])
@pytest.mark.parametrize("trials", [1, 2, 5])
def test_counts(field, trials):
    p, k = 1 / (1 + math.exp(-field)), np.arange(trials + 1)
    chance = np.array([math.comb(trials, j) * p**j * (1 - p) ** (trials - j) for j in k])
    found = variance_of(Binomials(np.full((1, 1), field), trials))
    assert found == pytest.approx(chance @ k**2 - (chance @ k) ** 2)


def test_amplitudes_behind_switches():
    logits, loc, log_precision = (
        np.array([[0.4, -1.0]]),
        np.array([[3.0, -0.5, 0.2, 0.0]]),
        np.array([0.0, 1.0, -0.5, 2.0]),
    )
    p = np.repeat(1 / (1 + np.exp(-logits)), 2, axis=1)
    amplitude = p * (loc**2 + np.exp(-log_precision)) - (p * loc) ** 2
    switch = (1 / (1 + np.exp(-logits))) * (1 / (1 + np.exp(logits)))
    assert variance_of(SpikesAndSlabs(logits, loc, log_precision)) == pytest.approx(np.hstack([amplitude, switch]))


def test_moments_of_the_hidden_layer_of_a_spike_and_slab_machine():
    model = SpikeAndSlabRBMModel.of([[1.0], [0.5]], [[0.5], [0.5]], [2.0, 2.0], [1.5], [0.4], [-0.2])
    x = np.array([[1.0, -0.3]])
    hidden = model.conditional("hidden", {"visible": x})
    mean, variance = posterior_moments(model, {"visible": x})["hidden"]
    assert mean == pytest.approx(hidden.mean) and variance == pytest.approx(hidden.variance)
    drive = x[0] @ [1.0, 0.5]
    logit = 0.5 * drive**2 / 1.5 + 0.4 * drive - 0.25 * (x**2).sum() - 0.2 - 0.5 * 1.5 * 0.4**2
    on = 1 / (1 + math.exp(-logit))
    assert variance[0, 1] == pytest.approx(on * (1 - on))
