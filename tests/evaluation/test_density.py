"""The likelihood that a model gives to rows, by whatever it can."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from gnomon.errors import UserTypeError
from gnomon.evaluation.density import density_score
from gnomon.evaluation.score import Score
from gnomon.numeric.noise import Noise

X = np.array([[0.3], [-1.2], [2.0]])
EXACT = norm(0, np.sqrt(2)).logpdf(X[:, 0])


class Latent:
    """x = z + noise, both standard normal: p(x) is normal of variance 2, p(z | x) of mean x / 2 and variance 1 / 2."""

    def log_joint(self, x, z):
        return norm.logpdf(z[:, 0]) + norm.logpdf(x[:, 0] - z[:, 0])

    def sample_prior(self, n, noise):
        return noise.normal((n, 1), like=X)

    def infer(self, x, noise):
        z = 0.4 * x + 0.8 * noise.normal(x.shape, like=x)
        return z, norm.logpdf(z[:, 0], 0.4 * x[:, 0], 0.8)


class Exact:
    def log_prob(self, x):
        return norm(0, np.sqrt(2)).logpdf(x[:, 0])


class Energy:
    def energy(self, x):
        return 0.25 * x[:, 0] ** 2


def test_exactly_where_the_model_is_normalized():
    score = density_score(Exact(), X, Noise(0, "test"), data_space="density on R^1")
    assert score.kind == "exact" and score.error == 0 and score.data_space == "density on R^1"
    assert score.value == pytest.approx(EXACT.mean(), abs=1e-12)


def test_a_bound_by_importance_weighting_where_it_infers_what_is_hidden():
    """64 draws a row from a proposal whose weights have a standard deviation below 1; 5 errors beside the bias."""
    score = density_score(Latent(), X, Noise(0, "test"))
    assert score.kind == "lower bound" and 0 < score.error < 0.05
    assert abs(score.value - EXACT.mean()) < 5 * score.error + 0.01


def test_minus_the_energy_minus_log_z():
    log_z = Score(0.5 * np.log(4 * np.pi), error=0.25, kind="estimate", unit="nats", name="log_partition", n=1)
    score = density_score(Energy(), X, Noise(0, "test"), log_z=log_z)
    assert score.value == pytest.approx(EXACT.mean(), abs=1e-12) and score.error == 0.25


def test_a_model_without_any_of_these():
    with pytest.raises(UserTypeError, match="log_prob, latent variables or an energy"):
        density_score(object(), X, Noise(0, "test"))
