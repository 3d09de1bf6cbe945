"""The linear-Gaussian model against the joint normal distribution, the fixture GAUSS2 and scikit-learn."""

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.decomposition import PCA, FactorAnalysis

from gnomon.errors import UserError
from gnomon.inference.exact.linear_gaussian import LinearGaussian

random = np.random.default_rng(0)


def problem(d, k, form):
    W, b = random.normal(size=(d, k)), random.normal(size=d)
    root = random.normal(size=(d, d))
    noise = {"one": 0.7, "each": random.uniform(0.1, 2, d), "full": root @ root.T + 0.1 * np.eye(d)}[form]
    psi = noise if form == "full" else np.diag(np.broadcast_to(noise, d))
    return W, b, noise, psi


def by_conditioning(W, b, psi, v):
    """The joint normal of (h, v), conditioned on v by the general rule; no form of the posterior itself."""
    k = W.shape[1]
    joint = np.block([[np.eye(k), W.T], [W, W @ W.T + psi]])
    cross = joint[:k, k:] @ np.linalg.inv(joint[k:, k:])
    return (v - b) @ cross.T, joint[:k, :k] - cross @ joint[k:, :k]


@pytest.mark.spec("INF-74")
def test_the_fixture_of_the_row():
    model = LinearGaussian(np.array([[1.0, 2.0]]), 0.0, 1.0)
    mean, covariance = model.posterior(np.array([3.0]))
    np.testing.assert_allclose(mean, [0.5, 1.0], atol=1e-15)
    np.testing.assert_allclose(covariance, [[0.833333, -0.333333], [-0.333333, 0.333333]], atol=5e-7)
    assert model.log_prob(np.array([3.0])) == pytest.approx(-2.564818, abs=5e-7)


@pytest.mark.spec("INF-74")
@pytest.mark.parametrize("form", ["one", "each", "full"])
@pytest.mark.parametrize(("d", "k"), [(1, 1), (5, 2), (4, 4), (2, 5), (1, 3)])
def test_every_form_conditions_the_joint_normal(d, k, form):
    W, b, noise, psi = problem(d, k, form)
    v = random.normal(size=(3, 4, d))
    model = LinearGaussian(W, b, noise)
    mean, covariance = model.posterior(v)
    expected = by_conditioning(W, b, psi, v)
    np.testing.assert_allclose(mean, expected[0], atol=1e-11)
    np.testing.assert_allclose(covariance, expected[1], atol=1e-11)
    np.testing.assert_allclose(covariance, np.linalg.inv(np.eye(k) + W.T @ np.linalg.inv(psi) @ W), atol=1e-11)
    np.testing.assert_array_equal(model.transform(v), mean)
    total = W @ W.T + psi
    np.testing.assert_allclose(model.covariance(), total, atol=1e-14)
    expected = stats.multivariate_normal(b, total).logpdf(v.reshape(-1, d)).reshape(3, 4)
    np.testing.assert_allclose(model.log_prob(v), expected, rtol=1e-10)


@pytest.mark.spec("INF-74")
@pytest.mark.parametrize("k", [2, 8])
def test_bayes_holds_at_every_hidden_state(k):
    """log p(v) = log p(h) + log p(v | h) - log p(h | v)."""
    W, b, noise, psi = problem(4, k, "each")
    v, h = random.normal(size=4), random.normal(size=k)
    model = LinearGaussian(W, b, noise)
    posterior = stats.multivariate_normal(*model.posterior(v))
    prior, likelihood = stats.multivariate_normal(np.zeros(k), np.eye(k)), stats.multivariate_normal(W @ h + b, psi)
    assert model.log_prob(v) == pytest.approx(prior.logpdf(h) + likelihood.logpdf(v) - posterior.logpdf(h), abs=1e-10)


@pytest.mark.spec("INF-74")
def test_orthogonal_columns_and_isotropic_noise_leave_the_posterior_uncorrelated():
    Q = np.linalg.qr(random.normal(size=(6, 3)))[0] * [1.0, 2.0, 3.0]
    covariance = LinearGaussian(Q, noise=0.5).posterior(np.zeros(6)).covariance
    np.testing.assert_allclose(covariance, np.diag([1 / 3, 1 / 9, 1 / 19]), atol=1e-15)
    assert np.abs(LinearGaussian(Q, noise=np.arange(1.0, 7)).posterior(np.zeros(6)).covariance[0, 1]) > 1e-3


@pytest.mark.spec("INF-74", "BAY-55")
def test_parity_with_scikit_learn():
    X = random.normal(size=(200, 3)) @ random.normal(size=(3, 7)) + random.normal(size=(200, 7)) * np.arange(1, 8) / 5
    fa = FactorAnalysis(2, svd_method="lapack").fit(X)
    model = LinearGaussian(fa.components_.T, fa.mean_, fa.noise_variance_)
    np.testing.assert_allclose(model.transform(X), fa.transform(X), atol=1e-10)
    np.testing.assert_allclose(model.log_prob(X), fa.score_samples(X), rtol=1e-10)
    pca = PCA(2).fit(X)
    W = pca.components_.T * np.sqrt(pca.explained_variance_ - pca.noise_variance_)
    model = LinearGaussian(W, pca.mean_, pca.noise_variance_)
    np.testing.assert_allclose(model.log_prob(X), pca.score_samples(X), rtol=1e-10)


@pytest.mark.spec("INF-74")
def test_faint_noise_costs_no_digits():
    """On the line v = W h + r with r across it, the exact quadratic form is |h|^2 / (1 + s) + |r|^2 / s."""
    s = 1e-12
    model = LinearGaussian(np.array([[1.0], [0.0]]), noise=s)
    expected = -0.5 * (2 * np.log(2 * np.pi) + np.log1p(s) + np.log(s) + 4 / (1 + s) + 9)
    assert model.log_prob(np.array([2.0, 3e-6])) == pytest.approx(expected, rel=1e-12)


@pytest.mark.spec("INF-74")
def test_the_smaller_dimension_is_the_one_that_is_factored(monkeypatch):
    sizes = []
    factor = np.linalg.cholesky
    monkeypatch.setattr(np.linalg, "cholesky", lambda m: sizes.append(len(m)) or factor(m))
    for d, k in ((50, 3), (3, 50)):
        LinearGaussian(random.normal(size=(d, k)))
    assert sizes == [3, 3]


def test_the_answer_has_the_kind_of_the_question():
    W, b, noise, _ = problem(3, 2, "each")
    model, v = LinearGaussian(torch.as_tensor(W), torch.as_tensor(b), noise), random.normal(size=(4, 3))
    exact = LinearGaussian(W, b, noise).posterior(v)
    single = model.posterior(torch.as_tensor(v, dtype=torch.float32))
    assert single.mean.dtype == single.covariance.dtype == torch.float32
    np.testing.assert_allclose(single.mean, exact.mean, atol=1e-5)
    assert model.log_prob(v.astype(np.float32)).dtype == np.float32
    assert (
        model.transform([1, 2, 3]).dtype == np.float64
        and model.transform(torch.tensor([1, 2, 3])).dtype == torch.float64
    )
    model.posterior(v).covariance[:] = 0  # a copy
    np.testing.assert_array_equal(model.posterior(v).covariance, exact.covariance)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: LinearGaussian([1.0, 2.0]),
            r"W must be finite numbers of the documented shape, got an array of shape \(2,\)",
        ),
        (lambda: LinearGaussian([[np.nan]]), "finite numbers"),
        (
            lambda: LinearGaussian([[1.0], [2.0]], [1.0]),
            r"b must be 2 numbers, one per row of W, got an array of shape \(1,\)",
        ),
        (lambda: LinearGaussian([[1.0], [2.0]], noise=[1.0, 0.0]), r"noise must be positive, got 0\.0"),
        (
            lambda: LinearGaussian([[1.0], [2.0]], noise=[1.0]),
            r"noise must be a number, 2 numbers or 2 x 2, got an array of shape \(1,\)",
        ),
        (
            lambda: LinearGaussian([[1.0], [2.0]], noise=[[1.0, 2.0], [2.0, 1.0]]),
            "noise must be positive definite; add variance to its diagonal",
        ),
        (
            lambda: LinearGaussian([[1.0], [2.0]], noise=[[1.0, 0.5], [0.0, 1.0]]),
            r"noise must be a symmetric covariance; give \(Psi \+ Psi\^T\) / 2",
        ),
        (
            lambda: LinearGaussian([[1.0], [2.0]]).transform([1.0]),
            r"v must be rows of 2 numbers, got an array of shape \(1,\)",
        ),
        (
            lambda: LinearGaussian([[1.0], [2.0]]).log_prob([[1.0, 0.0], [0.0, np.nan]]),
            r"v must be finite, got nan \(v\[1, 1\]\)",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(call, message):
    with pytest.raises(UserError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
