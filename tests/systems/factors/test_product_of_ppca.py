"""Products of one-factor experts: the row's matrices, other packages' PCA, differences, products of densities."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.decomposition import PCA

from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise
from gnomon.systems.factors.product_of_ppca import ProductOfPPCA, ProductOfPPCAModel, _loss
from oracles.binary import numerical_gradient

random = np.random.default_rng(0)
W, S = random.normal(size=(3, 4)), np.array([0.5, 1.0, 2.0])
ROWS = random.normal(size=(6, 4))


def data(n=300, d=5):
    return random.normal(size=(n, 2)) @ (3 * random.normal(size=(2, d))) + random.normal(size=(n, d)) + 4


@pytest.mark.spec("GEN-049")
def test_the_numbers_of_the_row():
    found = ProductOfPPCAModel([[1.0, 0.0], [1.0, 1.0]], [1.0, 1.0])
    np.testing.assert_allclose(found.precision, [[1.166667, -0.333333], [-0.333333, 1.666667]], atol=5e-7)
    np.testing.assert_allclose(found.covariance(), [[0.909091, 0.181818], [0.181818, 0.636364]], atol=5e-7)


@pytest.mark.spec("GEN-049")
def test_it_is_the_product_of_the_experts_densities():
    found = ProductOfPPCAModel(W, S)
    experts = [multivariate_normal(np.zeros(4), s * np.eye(4) + np.outer(w, w)) for w, s in zip(W, S, strict=True)]
    ratio = sum(expert.logpdf(ROWS) for expert in experts) - found.log_prob(ROWS)
    np.testing.assert_allclose(ratio, ratio[0], atol=1e-10)
    normal = multivariate_normal(np.zeros(4), found.covariance())
    np.testing.assert_allclose(found.log_prob(ROWS), normal.logpdf(ROWS), atol=1e-10)
    one_more = ProductOfPPCAModel(np.vstack([W, ROWS[0]]), [*S, 0.7])
    assert (np.linalg.eigvalsh(found.covariance() - one_more.covariance()) > 0).all()  # variances shrink everywhere


@pytest.mark.spec("GEN-049")
def test_one_expert_is_probabilistic_pca_with_one_component():
    X = data()
    found, peer = ProductOfPPCA(n_components=1, standardize=False, random_state=0).fit(X), PCA(1).fit(X)
    # the peer divides by n - 1
    same = PCA(1).fit(np.vstack([X, X]))
    assert found.score(X) == pytest.approx(same.score(X), abs=1e-4) and found.score(X) >= peer.score(X)
    covariance = np.cov(X.T, bias=True)
    values, vectors = np.linalg.eigh(covariance)
    rest = values[:-1].mean()
    exact = rest * np.eye(5) + (values[-1] - rest) * np.outer(vectors[:, -1], vectors[:, -1])
    np.testing.assert_allclose(found.get_covariance(), exact, atol=2e-3 * values[-1])
    wanted = multivariate_normal(X.mean(0), exact).logpdf(X).mean()
    assert found.score(X) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.spec("GEN-049")
def test_the_gradient_of_the_likelihood_by_finite_differences():
    target = np.cov(data(d=4).T)
    at = np.concatenate([W.ravel(), np.log(S)])
    loss, gradient = _loss(at, target, 3)
    mean = np.zeros(4)
    draws = np.linalg.cholesky(target) @ np.linalg.qr(random.normal(size=(8, 8)))[0][:4] * np.sqrt(8)  # this covariance
    wanted = -multivariate_normal(mean, ProductOfPPCAModel(W, S).covariance()).logpdf(draws.T).mean()
    assert loss == pytest.approx(wanted, rel=1e-10)
    np.testing.assert_allclose(gradient, numerical_gradient(lambda x: _loss(x, target, 3)[0], at), atol=1e-5)


@pytest.mark.spec("GEN-049")
def test_a_fit_finds_the_density_that_it_can_have():
    """Rows with a covariance of the family: the fit reaches the likelihood of the full normal density."""
    truth = ProductOfPPCAModel(3 * W, S, [1.0, -2.0, 0.0, 50.0])
    X = truth.sample(4000, Noise(0, "rows"))
    np.testing.assert_allclose(np.cov(X.T), truth.covariance(), atol=0.15 * np.trace(truth.covariance()) / 4)
    scores = [ProductOfPPCA(n_components=n, standardize=False, random_state=0).fit(X).score(X) for n in (1, 2, 3, 6)]
    full = multivariate_normal(X.mean(0), np.cov(X.T, bias=True)).logpdf(X).mean()
    assert scores[0] < scores[1] < scores[2] < full + 1e-9
    assert scores[2] > full - 5e-3 and scores[3] > full - 5e-3  # 10 free numbers of the covariance: 10 / (2 n)
    assert scores[2] >= truth.log_prob(X).mean()


@pytest.mark.spec("GEN-049")
def test_weights_count_rows_and_units_are_the_columns():
    X = data()
    weight = random.integers(0, 3, len(X))
    one = ProductOfPPCA(random_state=0).fit(X, sample_weight=weight)
    other = ProductOfPPCA(random_state=0).fit(np.repeat(X, weight, axis=0))
    np.testing.assert_allclose(one.get_covariance(), other.get_covariance(), rtol=1e-3)
    for standardize, scale in ((False, np.full(5, 1000.0)), (True, np.array([0.1, 1.0, 7.0, 50.0, 200.0]))):
        plain, large = (ProductOfPPCA(standardize=standardize, random_state=0).fit(X * s) for s in (1.0, scale))
        np.testing.assert_allclose(large.get_covariance(), plain.get_covariance() * np.outer(scale, scale), rtol=1e-3)
        np.testing.assert_allclose(large.log_prob(X * scale), plain.log_prob(X) - np.log(scale).sum(), atol=1e-4)
        normal = multivariate_normal(large.mean_, large.get_covariance())
        np.testing.assert_allclose(large.log_prob(X * scale), normal.logpdf(X * scale), rtol=1e-8)
        assert large.history_["log_likelihood"][-1] == pytest.approx(large.score(X * scale), rel=1e-8)


@pytest.mark.spec("GEN-049")
def test_turned_experts_are_one_density_and_of_equal_ends_the_first_is_taken():
    """v_i = w_i / sqrt(s_i (s_i + |w_i|^2)) turned among each other: the same precision; rows in another order."""
    v = W / np.sqrt(S * (S + (W * W).sum(1)))[:, None] * 0.5  # short enough for any turn
    turned = np.linalg.qr(random.normal(size=(3, 3)))[0] @ v

    def of(v):
        length = (v * v).sum(1)
        return ProductOfPPCAModel(v * (S / np.sqrt(1 - S * length))[:, None], S).precision

    np.testing.assert_allclose(of(turned), of(v), atol=1e-12)
    X = np.random.default_rng(2).normal(size=(37, 4))
    order = np.random.default_rng(2).permutation(37)
    one, other = (ProductOfPPCA(tol=0.0, random_state=0).fit(rows) for rows in (X, X[order]))
    np.testing.assert_allclose(one.loadings_, other.loadings_, atol=1e-5)


@pytest.mark.spec("GEN-049")
def test_what_cannot_be_is_refused():
    with pytest.raises(UserValueError, match="noise_variances must be finite and above 0, got 0"):
        ProductOfPPCAModel(W, [1.0, 0.0, 1.0])
    with pytest.warns(UserWarning, match="the rows lie in a plane"):
        found = ProductOfPPCA(random_state=0).fit(np.outer(random.normal(size=40), [1.0, 2.0, 3.0]))
    assert np.isfinite(found.score(np.zeros((1, 3))))
    with pytest.raises(UserValueError, match="n_samples=1 has no variance"):
        ProductOfPPCA().fit(ROWS[:1])
