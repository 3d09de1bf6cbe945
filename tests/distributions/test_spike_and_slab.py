"""Spike and slab: mass, moments, divergence by quadrature; the CDF and its inverse; draws (false alarm 1e-5)."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, special, stats

from gnomon.distributions.family import kl_divergence
from gnomon.distributions.spike_and_slab import SpikeAndSlab
from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.noise import Noise

LAW = SpikeAndSlab(0.3, 0.7, 1.3)


def mixed(function, distribution=LAW):
    """Integral over the line and the atom: a Lebesgue integral does not see one point."""
    line = integrate.quad(
        lambda x: function(x) * math.exp(distribution.log_prob(x)), -20, 20, points=[0.7], epsabs=1e-12
    )[0]
    return line + function(0.0) * math.exp(distribution.log_prob(0.0))


def test_masses_and_moments():
    assert abs(mixed(lambda x: 1.0) - 1) < 1e-10
    assert math.isclose(math.exp(LAW.log_prob(0.0)), 0.7)
    assert math.isclose(LAW.mean, mixed(lambda x: x), rel_tol=1e-9)
    assert math.isclose(LAW.variance, mixed(lambda x: (x - float(LAW.mean)) ** 2), rel_tol=1e-9)
    assert math.isclose(LAW.entropy(), mixed(lambda x: -float(LAW.log_prob(x))), rel_tol=1e-9)
    assert np.isnan(LAW.log_prob(np.nan)) and LAW.log_prob(np.inf) == -np.inf


def test_divergence():
    other = SpikeAndSlab(0.6, 0.0, 2.0)
    exact = mixed(lambda x: float(LAW.log_prob(x) - other.log_prob(x)))
    assert math.isclose(kl_divergence(LAW, other), exact, rel_tol=1e-8)
    assert kl_divergence(LAW, LAW) == 0
    assert kl_divergence(LAW, SpikeAndSlab(1.0, 0.0, 1.0)) == np.inf


def test_cdf_and_its_inverse():
    x = np.array([-2.0, -1e-9, 0.0, 1e-9, 1.5])
    exact = 0.3 * stats.norm.cdf(x, 0.7, 1.3) + 0.7 * (x >= 0)
    assert np.allclose(LAW.cdf(x), exact, rtol=1e-14)
    u = np.linspace(0.001, 0.999, 999)
    found = LAW.icdf(u)
    assert (LAW.cdf(found) >= u - 1e-12).all()
    assert ((LAW.cdf(found - 1e-7) < u) | (found == 0)).all()
    assert (LAW.cdf(-1e-12) < u[found == 0]).all() and (np.diff(found) >= 0).all()
    assert SpikeAndSlab(0.0).icdf(0.3) == 0 and math.isclose(SpikeAndSlab(1.0).icdf(0.3), special.ndtri(0.3))


def test_draws():
    draws = LAW.sample(Noise(0, "draws"), 0, (40_000,))
    zeros = int((draws == 0).sum())
    assert stats.binomtest(zeros, 40_000, 0.7).pvalue > 1e-5
    assert stats.kstest(draws[draws != 0], stats.norm(0.7, 1.3).cdf).pvalue > 1e-5
    with pytest.raises(UserTypeError, match="no gradient"):
        LAW.rsample(Noise(0, "draws"))


def test_gradients_are_finite_differences():
    given = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.3, 0.7, 1.3)]
    x = torch.tensor([0.0, 0.5, -1.0], dtype=torch.float64)
    SpikeAndSlab(*given).log_prob(x).sum().backward()
    for i, parameter in enumerate(given):
        values = []
        for step in (1e-6, -1e-6):
            moved = [v + step * (j == i) for j, v in enumerate((0.3, 0.7, 1.3))]
            values.append(float(SpikeAndSlab(*moved).log_prob(x.numpy()).sum()))
        assert math.isclose(parameter.grad.item(), (values[0] - values[1]) / 2e-6, rel_tol=1e-6)


def test_a_probability_that_is_none():
    with pytest.raises(UserValueError, match=r"probability must be in \[0, 1\]"):
        SpikeAndSlab(1.5)
