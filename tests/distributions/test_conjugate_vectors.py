"""Conjugate pairs of normal vectors against the joint Gaussian, densities written out, draws of SciPy, and d = 1."""

import math

import numpy as np
import pytest
from scipy import special, stats

from gnomon.distributions import conjugate as algebra
from gnomon.errors import UserValueError

NOISE = np.array([[1.0, -0.4], [-0.4, 0.7]])


@pytest.mark.spec("BAY-31")
@pytest.mark.parametrize("offset", [0.0, 1e7])
def test_the_mean_of_vectors_is_that_of_the_joint_gaussian(offset):
    """Rows stacked: N(1 x m, I x noise + 11' x C), conditioned by the general rule; d = 1 is the scalar pair."""
    prior = algebra.MultivariateNormalMean([0.5, -1.0] + offset * np.ones(2), [[2.0, 0.6], [0.6, 0.9]], NOISE)
    rows = np.array([[1.0, 0.0], [0.5, 1.0], [1.0, 2.0]]) + offset
    C, means = prior.covariance, np.tile(prior.mean - offset, 3)
    joint = np.kron(np.eye(3), NOISE) + np.kron(np.ones((3, 3)), C)
    gain = np.kron(np.ones((1, 3)), C) @ np.linalg.inv(joint)
    after, weighted = prior.update(rows), prior.update(rows[:2], [1.0, 2.0])
    assert np.allclose(after.mean - offset, prior.mean - offset + gain @ ((rows - offset).ravel() - means), atol=1e-8)
    assert np.allclose(after.covariance, C - gain @ np.kron(np.ones((3, 1)), C), rtol=1e-10)
    exact = stats.multivariate_normal(means, joint).logpdf((rows - offset).ravel())
    assert math.isclose(prior.log_evidence(rows), exact, rel_tol=1e-6 if offset else 1e-12)
    assert np.allclose(weighted.mean, prior.update(rows[[0, 1, 1]]).mean)
    peer = stats.multivariate_normal(after.mean - offset, after.covariance + NOISE)
    assert np.allclose(after.log_predictive(rows), peer.logpdf(rows - offset), rtol=1e-6 if offset else 1e-12)
    assert np.allclose(sum(after.spread()), after.covariance + NOISE)
    one, scalar = algebra.MultivariateNormalMean([0.5], [[2.0]], [[1.5]]), algebra.NormalMean(0.5, 2.0, 1.5)
    assert math.isclose(one.log_evidence([[1.0], [3.0]]), scalar.log_evidence([1.0, 3.0]))
    with pytest.raises(UserValueError, match="noise_covariance must be positive definite"):
        algebra.MultivariateNormalMean([0.0, 0.0], np.eye(2), np.ones((2, 2)))


@pytest.mark.spec("BAY-34")
def test_the_precision_matrix_of_three_vectors():
    prior = algebra.MultivariateNormalPrecision(3, np.eye(2), np.zeros(2))
    after = prior.update([[1, 0], [0, 1], [1, 1]])
    assert after.df == 6 and np.allclose(after.inverse_scale, [[3, 1], [1, 3]])
    assert np.allclose(after.distribution().mean, [[2.25, -0.75], [-0.75, 2.25]])
    assert abs(prior.log_evidence([[1, 0], [0, 1], [1, 1]]) + 8.573902) < 1e-6
    one = algebra.MultivariateNormalPrecision(4.0, [[2.0]], [0.5])
    scalar = algebra.NormalPrecision(2.0, 1.0, 0.5)  # a = n / 2, b = 1 / (2 V)
    rows = [1.0, -1.0, 2.0]
    assert math.isclose(one.log_evidence([[x] for x in rows]), scalar.log_evidence(rows))
    assert np.allclose(
        one.update([[x] for x in rows]).log_predictive([[0.3]]), scalar.update(rows).log_predictive([0.3])
    )
    with pytest.raises(UserValueError, match="more than 1"):
        algebra.MultivariateNormalPrecision(1.0, np.eye(2), np.zeros(2))
    with pytest.raises(
        UserValueError, match=r"x must have 2 columns, one for each entry of the mean, got an array of shape \(1, 3\)"
    ):
        prior.update([[1.0, 2.0, 3.0]])


@pytest.mark.spec("BAY-34")
@pytest.mark.parametrize("d", [2, 3])
def test_precisions_of_vectors_by_the_definition_and_by_draws_of_scipy(d):
    """Weighted rows about a mean that is not 0: posterior, evidence, predictive; five errors of 200,000 draws."""
    rng = np.random.default_rng(d)
    root = rng.normal(size=(d, d))
    df, inverse, mean = d + 1.5, root @ root.T + np.eye(d), rng.normal(size=d)
    rows, weight = rng.normal(size=(4, d)) * 1.5 + 0.3, np.array([1.0, 2.0, 1.0, 3.0])
    repeated = np.repeat(rows, weight.astype(int), axis=0)
    prior = algebra.MultivariateNormalPrecision(df, inverse, mean)
    after = prior.update(rows, weight)
    scatter = sum(np.outer(row - mean, row - mean) for row in repeated)
    assert math.isclose(after.df, df + 7) and np.allclose(after.inverse_scale, inverse + scatter)
    assert np.allclose(after.distribution().mean, (df + 7) * np.linalg.inv(inverse + scatter))

    def log_constant(n, inverse):  # of the Wishart density
        return n * d / 2 * math.log(2) - n / 2 * np.linalg.slogdet(inverse)[1] + special.multigammaln(n / 2, d)

    def log_evidence(n, inverse, rows):
        more = inverse + (rows - mean).T @ (rows - mean)
        ratio = log_constant(n + len(rows), more) - log_constant(n, inverse)
        return ratio - len(rows) * d / 2 * math.log(2 * math.pi)

    assert math.isclose(prior.log_evidence(rows, weight), log_evidence(df, inverse, repeated), rel_tol=1e-12)
    places = mean + np.array([[0.0] * d, [1.0] * d, [-3.0, *[0.5] * (d - 1)]])
    exact = [log_evidence(df + 7, inverse + scatter, place[None]) for place in places]
    assert np.allclose(after.log_predictive(places), exact, rtol=1e-12)
    predictive = after.predictive()  # Student t, whose scale divides by its degrees of freedom
    peer = stats.multivariate_t(mean, (inverse + scatter) / (df + 8 - d), df + 8 - d)
    assert np.allclose(predictive.log_prob(places), peer.logpdf(places))
    precisions = stats.wishart(df + 7, np.linalg.inv(inverse + scatter)).rvs(200_000, random_state=1)
    for place, log_p in zip(places, exact, strict=True):
        squares = np.einsum("i,nij,j->n", place - mean, precisions, place - mean)
        density = np.exp(0.5 * (np.linalg.slogdet(precisions)[1] - squares - d * math.log(2 * math.pi)))
        assert abs(density.mean() - math.exp(log_p)) < 5 * density.std() / math.sqrt(len(density))


@pytest.mark.spec("BAY-33")
def test_mean_and_precision_matrix_in_one_dimension_are_the_normal_gamma():
    wide = algebra.MultivariateNormalMeanPrecision([0.5], 2.0, 4.0, [[2.0]])
    scalar = algebra.NormalMeanPrecision(0.5, 2.0, 2.0, 1.0)
    rows = [1.0, -1.0, 2.5]
    assert math.isclose(wide.log_evidence([[x] for x in rows]), scalar.log_evidence(rows))
    assert np.allclose(
        wide.update([[x] for x in rows]).log_predictive([[0.3], [4.0]]), scalar.update(rows).log_predictive([0.3, 4.0])
    )
    rng = np.random.default_rng(0)
    prior = algebra.MultivariateNormalMeanPrecision(np.zeros(3), 1.5, 5.0, np.eye(3))
    rows = rng.normal(size=(6, 3))
    now, total = prior, 0.0
    for x in rows:
        total += float(now.log_predictive([x])[0])
        now = now.update([x])
    assert math.isclose(total, prior.log_evidence(rows), rel_tol=1e-12)
