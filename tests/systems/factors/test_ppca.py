"""Probabilistic PCA: closed form, EM and missing values against exact Gaussians."""

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from scipy.stats import multivariate_normal
from sklearn.decomposition import PCA

import gnomon
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise
from gnomon.systems.factors.ppca import PPCA, PPCAModel

SIX = np.array([[3, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 1], [0, 0, -1]], float)


def with_covariance(eigenvalues):
    """Rows of mean zero whose 1/n covariance is exactly diag(eigenvalues)."""
    d = len(eigenvalues)
    axes = np.diag(np.sqrt(np.array(eigenvalues) * d))
    return np.concatenate([axes, -axes])


def data(n=200, d=6, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(n, 3)) @ random.normal(size=(3, d)) + 0.5 * random.normal(size=(n, d)) + 3


def em(**changes):
    return PPCA(**{"method": "em", "max_iter": 3000, "tol": 1e-13, "random_state": 0} | changes)


@pytest.mark.spec("REP-003", "BAY-55")
@pytest.mark.parametrize(
    ("eigenvalues", "k", "noise", "likelihood"),
    [((4, 2, 1, 1), 2, 1.0, -6.715475), ((4, 2, 1, 0.5), 2, 0.75, -6.427793), ((4, 1, 1), 1, 1.0, -4.949963)],
)
def test_closed_form_in_numbers(eigenvalues, k, noise, likelihood):
    X = with_covariance(eigenvalues)
    model = PPCA(n_components=k).fit(X)
    assert model.noise_variance_ == pytest.approx(noise, abs=1e-12)
    assert model.score(X) == pytest.approx(likelihood, abs=1e-6)
    assert model.history_["log_likelihood"][-1] == pytest.approx(likelihood, abs=1e-6)
    expected = np.diag([*(np.array(eigenvalues[:k]) - noise), *[0.0] * (len(eigenvalues) - k)])
    np.testing.assert_allclose(model.components_.T @ model.components_, expected, atol=1e-12)


@pytest.mark.spec("REP-003", "BAY-55")
def test_noise_variance_is_the_mean_of_the_discarded_eigenvalues():
    for model in (PPCA(n_components=1), em(n_components=1, tol=0.0)):
        model.fit(SIX)
        assert model.noise_variance_ == pytest.approx(0.8333333333333333, abs=1e-8)
        assert model.score(SIX) == pytest.approx(-4.623800187154118, abs=1e-8)


@pytest.mark.spec("REP-003", "BAY-55")
def test_density_is_the_gaussian_with_low_rank_covariance():
    X = data()
    model = PPCA(n_components=2).fit(X)
    expected = multivariate_normal(model.mean_, model.get_covariance()).logpdf(X)
    np.testing.assert_allclose(model.log_prob(X), expected, rtol=1e-10)
    C = np.cov(X.T, bias=True)
    posterior = (X - model.mean_) @ np.linalg.solve(model.get_covariance(), model.components_.T)
    np.testing.assert_allclose(model.transform(X), posterior, atol=1e-10)
    assert np.trace(model.get_covariance()) == pytest.approx(np.trace(C), rel=1e-10)


@pytest.mark.spec("REP-003", "BAY-55")
def test_scikit_learns_divisor_differs_as_stated():
    X, d = data(), 6
    n = len(X)
    Y = (X - X.mean(0)) * np.sqrt((n - 1) / n)  # its 1/(n-1) covariance is X's 1/n covariance
    theirs = PCA(n_components=2).fit(X * 1.0)
    ours = PPCA(n_components=2).fit(X)
    np.testing.assert_allclose(theirs.noise_variance_ * (n - 1) / n, ours.noise_variance_, rtol=1e-10)
    assert PCA(n_components=2).fit(Y * np.sqrt(n / (n - 1))).score(X - X.mean(0)) == pytest.approx(theirs.score(X))
    scaled = PCA(n_components=2).fit(X)
    expected = scaled.score(X)
    at_theirs = multivariate_normal(X.mean(0), ours.get_covariance() * n / (n - 1)).logpdf(X).mean()
    assert expected == pytest.approx(at_theirs, rel=1e-10)
    assert ours.score(X) == pytest.approx(expected + d / 2 * np.log(n / (n - 1)) - d / (2 * n), rel=1e-6)


@pytest.mark.spec("REP-003", "BAY-55")
def test_small_noise_reconstructs_as_pca_projects():
    X = data()
    X = (X - X.mean(0)) @ np.diag([1, 1, 1, 1, 1, 1])
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    flat = (U[:, :2] * s[:2]) @ Vt[:2]
    nearly = flat + 1e-4 * np.random.default_rng(1).normal(size=flat.shape)
    model = PPCA(n_components=2).fit(nearly)
    projected = PCA(n_components=2).fit(nearly)
    np.testing.assert_allclose(
        model.inverse_transform(model.transform(nearly)),
        projected.inverse_transform(projected.transform(nearly)),
        atol=1e-5,
    )


@pytest.mark.spec("REP-003")
def test_principal_components_in_numbers():
    X = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]])
    with pytest.warns(UserWarning, match="subspace"):
        model = PPCA(n_components=1).fit(X)
    direction = model.components_[0] / np.linalg.norm(model.components_[0])
    np.testing.assert_allclose(direction, np.array([1, 2]) / np.sqrt(5), atol=1e-12)
    assert (model.components_**2).sum() + model.noise_variance_ == pytest.approx(10 / 3, rel=1e-9)


@pytest.mark.spec("REP-003")
def test_axes_are_scikit_learns_and_the_lost_variance_is_the_dropped_eigenvalues():
    X = data()
    model, pca = PPCA(n_components=3).fit(X), PCA(n_components=3).fit(X)
    axes = model.components_ / np.linalg.norm(model.components_, axis=1, keepdims=True)
    np.testing.assert_allclose(np.abs(axes @ pca.components_.T), np.eye(3), atol=1e-8)
    values = np.linalg.eigvalsh(np.cov(X.T, bias=True))[::-1]
    projected = (X - X.mean(0)) @ axes.T @ axes + X.mean(0)
    assert ((X - projected) ** 2).sum(1).mean() == pytest.approx(values[3:].sum(), rel=1e-10)
    largest = model.components_[np.arange(3), np.abs(model.components_).argmax(1)]
    assert (largest > 0).all()


@pytest.mark.spec("REP-004", "BAY-56", "BAY-51")
@pytest.mark.parametrize("seed", [0, 1])
def test_em_reaches_the_closed_form(seed):
    X = data(seed=seed)
    closed, fitted = PPCA(n_components=2).fit(X), em(n_components=2).fit(X)
    trace = np.array(fitted.history_["log_likelihood"])
    assert (np.diff(trace) > -1e-10).all()
    assert fitted.score(X) == pytest.approx(closed.score(X), abs=1e-6)
    assert subspace_angles(fitted.components_.T, closed.components_.T).max() < 1e-4


@pytest.mark.spec("BAY-56")
def test_em_never_forms_the_covariance():
    random = np.random.default_rng(0)
    X = random.normal(size=(30, 2)) @ random.normal(size=(2, 20000)) + random.normal(size=(30, 20000))
    import tracemalloc

    tracemalloc.start()
    PPCA(n_components=5, max_iter=3, tol=0, method="em", random_state=0).fit(X)
    assert tracemalloc.get_traced_memory()[1] < 20000 * 20000 * 8 / 10
    tracemalloc.stop()


@pytest.mark.spec("BAY-57", "REP-004")
def test_missing_values_are_conditioned_on_exactly():
    X = data(n=60)
    random = np.random.default_rng(2)
    holes = np.where(random.random(X.shape) < 0.3, np.nan, X)
    holes[0] = np.nan
    model = em(n_components=2, max_iter=50).fit(holes)
    mean, C = model.mean_, model.get_covariance()
    logs, filled = model.log_prob(holes), model.impute(holes)
    for row in range(len(X)):
        seen = ~np.isnan(holes[row])
        if not seen.any():
            assert logs[row] == 0
            np.testing.assert_allclose(filled[row], mean, rtol=1e-10)
            continue
        expected = multivariate_normal(mean[seen], C[np.ix_(seen, seen)]).logpdf(holes[row, seen])
        assert logs[row] == pytest.approx(expected, abs=1e-9)
        solved = np.linalg.solve(C[np.ix_(seen, seen)], holes[row, seen] - mean[seen])
        np.testing.assert_allclose(filled[row, ~seen], mean[~seen] + C[np.ix_(~seen, seen)] @ solved, atol=1e-9)
        np.testing.assert_array_equal(filled[row, seen], holes[row, seen])


@pytest.mark.spec("BAY-57")
def test_em_with_missing_values_climbs_to_a_stationary_point():
    X = data(n=80)
    holes = np.where(np.random.default_rng(3).random(X.shape) < 0.2, np.nan, X)
    model = em(n_components=2, tol=1e-14).fit(holes)
    trace = np.array(model.history_["log_likelihood"])
    assert (np.diff(trace) > -1e-10).all()
    best = model.score(holes)
    random = np.random.default_rng(0)
    for scale in (1e-3, 1e-4):
        for _ in range(10):
            W = model.components_.T + scale * random.normal(size=model.components_.T.shape)
            noise = model.noise_variance_ * np.exp(scale * random.normal())
            other = PPCAModel(W, model.mean_ + scale * random.normal(size=6), noise)
            assert other.log_prob(holes).mean() < best + 1e-9


@pytest.mark.spec("BAY-57")
def test_without_missing_values_both_expectation_steps_agree():
    X = data(n=50)
    model = PPCAModel(np.random.default_rng(0).normal(size=(6, 2)), X.mean(0), 0.7)
    whole = model.expect(X, np.ones(50))
    extra = np.concatenate([X, np.full((1, 6), np.nan)])
    masked = model.expect(extra, np.concatenate([np.ones(50), [0.0]]))
    for name in whole:
        np.testing.assert_allclose(masked[name], whole[name], atol=1e-9)


@pytest.mark.spec("BAY-55")
def test_latent_and_observed_given_each_other_are_those_of_the_joint_gaussian():
    """Posterior mean and covariance by the general rule of conditioning; E[x | z] = W z + m; in 300 columns too."""
    random = np.random.default_rng(1)
    for d, k in ((4, 2), (3, 3), (300, 2)):
        W, mean, noise = random.normal(size=(d, k)), random.normal(size=d), 0.6
        model, X, Z = PPCAModel(W, mean, noise), random.normal(size=(5, d)), random.normal(size=(5, k))
        gain = W.T @ np.linalg.inv(W @ W.T + noise * np.eye(d))
        np.testing.assert_allclose(model.latent_mean(X), (X - mean) @ gain.T, atol=1e-10)
        np.testing.assert_allclose(model.latent_covariance(X), np.tile(np.eye(k) - gain @ W, (5, 1, 1)), atol=1e-10)
        np.testing.assert_allclose(model.reconstruct(Z), Z @ W.T + mean, atol=1e-12)
        exact = multivariate_normal(mean, W @ W.T + noise * np.eye(d)).logpdf(X)
        np.testing.assert_allclose(model.log_prob(X), exact, rtol=1e-10)
    fitted = PPCA(n_components=2).fit(data())
    np.testing.assert_allclose(fitted.inverse_transform(Z[:, :2]), Z[:, :2] @ fitted.components_ + fitted.mean_)


@pytest.mark.spec("BAY-55", "REP-003")
def test_sampling_has_the_models_moments():
    model = PPCA(n_components=2).fit(data())
    n = 200_000
    Z = model.sample(n, random_state=0)
    error = np.sqrt(np.diag(model.get_covariance()) / n)
    assert (np.abs(Z.mean(0) - model.mean_) < 4.5 * error).all()  # false alarm below 1e-4
    np.testing.assert_allclose(np.cov(Z.T), model.get_covariance(), atol=0.15)
    np.testing.assert_array_equal(model.sample(5, random_state=1), model.sample(5, random_state=1))
    assert not np.array_equal(model.sample(5), model.sample(5))


def test_a_large_offset_costs_no_digits():
    X = np.random.default_rng(0).normal(size=(101, 4)) @ np.diag([5, 3, 1, 0.1])
    near, far = PPCA(n_components=2).fit(X), PPCA(n_components=2).fit(X + 1000)
    np.testing.assert_allclose(far.get_covariance(), near.get_covariance(), atol=1e-8)


@pytest.mark.spec("BAY-55", "REP-003")
def test_all_latent_dimensions_are_the_full_gaussian():
    X = data()
    model = PPCA(n_components=6).fit(X)
    np.testing.assert_allclose(model.get_covariance(), np.cov(X.T, bias=True), atol=1e-9)


@pytest.mark.parametrize(
    ("X", "words", "parameters"),
    [
        (SIX, "n_components must be at most n_features=3, got n_components=4", {"n_components": 4}),
        pytest.param(SIX, "n_components", {"n_components": 0}, marks=pytest.mark.spec("BAY-55")),
        (SIX[:1], "n_samples=1", {}),
        (np.where(np.arange(3) == 1, np.nan, SIX), "column 1", {}),
        (np.where(np.eye(6, 3, dtype=bool), np.nan, SIX), "closed", {"method": "closed"}),
    ],
)
def test_what_cannot_be_fitted_is_refused(X, words, parameters):
    with pytest.raises(UserValueError, match=words):
        PPCA(**parameters).fit(X)


def test_noise_addresses_do_not_collide():
    from gnomon.numeric.noise import recording

    model = PPCAModel(np.ones((4, 2)), np.zeros(4), 1.0)
    with recording():
        model.sample(10, Noise(0, "sample"))


def test_latent_values_that_cannot_be_used_are_refused():
    fitted = PPCA(n_components=2).fit(np.random.default_rng(0).normal(size=(20, 4)))
    with pytest.raises(UserValueError, match=r"NaN in Z.*row 0, column 0"):
        fitted.inverse_transform([[np.nan, 1.0]])
    with pytest.raises(UserValueError, match="one per component, got 3"):
        fitted.inverse_transform(np.ones((2, 3)))


CHUNKED = np.random.default_rng(0).normal(size=(101, 4)) @ np.diag([5, 3, 1, 0.1]) + 1000.0


@pytest.mark.parametrize("cuts", [range(10, 101, 10), range(10, 101), [50, 50, 101]])
def test_chunks_of_any_size_are_one_fit(cuts):
    whole = PPCA(n_components=2).fit(CHUNKED)
    model = PPCA(n_components=2)
    for chunk in np.split(CHUNKED, cuts):
        model.partial_fit(chunk)
    assert model.n_samples_seen_ == 101
    np.testing.assert_allclose(model.get_covariance(), whole.get_covariance(), atol=1e-8)
    np.testing.assert_allclose(model.components_, whole.components_, atol=1e-8)
    assert model.score(CHUNKED) == pytest.approx(whole.score(CHUNKED), abs=1e-8)


def test_weighted_chunks_and_small_integers():
    U = np.random.default_rng(1).integers(0, 256, size=(100, 50, 9), dtype=np.uint8)
    weight = np.random.default_rng(2).uniform(0.5, 2, size=(100, 50))
    model = PPCA(n_components=3)
    for chunk, w in zip(U, weight, strict=True):
        model.partial_fit(chunk, sample_weight=w)
    whole = PPCA(n_components=3).fit(U.reshape(-1, 9), sample_weight=weight.ravel())
    np.testing.assert_allclose(model.get_covariance(), whole.get_covariance(), rtol=1e-9)
    np.testing.assert_allclose(model.mean_, whole.mean_, rtol=1e-9)


def test_chunks_that_cannot_be_taken_in_leave_the_model_alone(tmp_path):
    with pytest.raises(UserValueError, match="first chunk must have at least 4 rows for 3 components, got 2"):
        PPCA(n_components=3).partial_fit(CHUNKED[:2])
    model = PPCA(n_components=2).partial_fit(CHUNKED[:50])
    before = model.get_covariance()
    model.partial_fit(CHUNKED[:0])
    for bad in (CHUNKED[:5, :3], np.full((3, 4), np.nan), np.full((3, 4), np.inf)):
        with pytest.raises(UserValueError):
            model.partial_fit(bad)
    np.testing.assert_array_equal(model.get_covariance(), before)
    loaded = gnomon.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.get_covariance(), before)
    with pytest.raises(UserValueError, match="not kept"):
        loaded.partial_fit(CHUNKED[50:])
    with pytest.raises(UserValueError, match='begin again with method="em"'):
        PPCA(n_components=2).partial_fit(CHUNKED[:50]).partial_fit(np.where(np.eye(4) > 0, np.nan, CHUNKED[:4]))
    going_on = PPCA(n_components=2).fit(CHUNKED[:50]).partial_fit(CHUNKED[50:])
    np.testing.assert_allclose(going_on.get_covariance(), PPCA(n_components=2).fit(CHUNKED).get_covariance(), atol=1e-8)
    np.testing.assert_array_equal(
        model.fit(CHUNKED[:60]).get_covariance(), PPCA(n_components=2).fit(CHUNKED[:60]).get_covariance()
    )


def test_free_parameters_leave_out_the_rotation():
    """A covariance of rank k plus noise: d k - k (k - 1) / 2 numbers in W, one of noise, and d of the mean."""
    assert PPCAModel(np.ones((6, 2)), np.zeros(6), 1.0).n_parameters == 11 + 1 + 6
    assert PPCAModel(np.ones((3, 2)), np.zeros(3), 1.0).n_parameters == 6 + 3  # all covariances in three dimensions


def test_left_to_itself_it_takes_em_where_values_are_missing():
    X = data(n=40)
    holes = np.where(np.random.default_rng(4).random(X.shape) < 0.2, np.nan, X)
    options = {"n_components": 2, "max_iter": 5, "tol": 0.0, "random_state": 0}
    left, told = PPCA(**options).fit(holes), PPCA(method="em", **options).fit(holes)
    np.testing.assert_array_equal(left.get_covariance(), told.get_covariance())
    assert len(PPCA(**options).fit(X).history_["log_likelihood"]) == 1


@pytest.mark.parametrize(("d", "k"), [(6, 2), (30, 2)])
def test_rows_come_in_chunks_that_keep_the_bound(d, k, monkeypatch):
    X, seen = data(n=50, d=d), []
    whole = em(n_components=k, max_iter=3, tol=0.0).fit(X)
    expect = PPCAModel.expect
    monkeypatch.setattr("gnomon.systems.factors.ppca.CHUNK_NUMBERS", 100)
    monkeypatch.setattr(PPCAModel, "expect", lambda self, x, weight: seen.append(len(x)) or expect(self, x, weight))
    parts = em(n_components=k, max_iter=3, tol=0.0).fit(X)
    assert max(seen) * max(d, (k + 1) ** 2) <= 100
    assert sum(seen) == 3 * len(X)
    np.testing.assert_allclose(parts.get_covariance(), whole.get_covariance(), atol=1e-9)


@pytest.mark.filterwarnings("ignore:the rows lie in the fitted subspace")
@pytest.mark.parametrize("k", [1, 3, 5, 6])
@pytest.mark.parametrize("rank", [1, 3, 6])
def test_the_recorded_likelihood_is_the_models(k, rank):
    random = np.random.default_rng(rank)
    X = random.normal(size=(40, rank)) @ random.normal(size=(rank, 6))
    model = PPCA(n_components=k).fit(X)
    assert model.history_["log_likelihood"][-1] == pytest.approx(model.score(X), rel=1e-3)


@pytest.mark.spec("REP-004", "BAY-56", "BAY-51")
def test_one_step_of_em_is_the_definition_with_the_new_w():
    """One regression step from any model, row by row by its definition; then the same density with z ~ N(0, I)."""
    random, X = np.random.default_rng(4), data(n=30)
    W, b, noise = random.normal(size=(6, 2)), X.mean(0) + 0.3, 0.7
    model = PPCAModel(W, b, noise)
    sums = model.expect(X, np.ones(30))
    inverse = np.linalg.inv(W.T @ W + noise * np.eye(2))
    z = (X - b) @ W @ inverse
    t = np.c_[z, np.ones(30)]
    second = t.T @ t
    second[:2, :2] += 30 * noise * inverse
    new = np.linalg.solve(second, t.T @ X).T
    squares = 0.0
    V = new[:, :2]
    for row, mean in zip(X, z, strict=True):
        centered, moment = row - new[:, 2], noise * inverse + np.outer(mean, mean)
        squares += centered @ centered - 2 * mean @ V.T @ centered + np.trace(moment @ V.T @ V)
    model.regress(sums)
    np.testing.assert_allclose(model.components, new[:, :2], atol=1e-10)
    np.testing.assert_allclose(model.mean, new[:, 2], atol=1e-10)
    assert model.noise_variance == pytest.approx(squares / (30 * 6), rel=1e-10)
    m = z.mean(0)
    L = noise * inverse + np.cov(z.T, bias=True)
    model = PPCAModel(W, b, noise)
    model.maximize(sums)
    np.testing.assert_allclose(model.components @ model.components.T, new[:, :2] @ L @ new[:, :2].T, atol=1e-10)
    np.testing.assert_allclose(model.mean, new[:, 2] + new[:, :2] @ m, atol=1e-10)
    assert model.noise_variance == pytest.approx(squares / (30 * 6), rel=1e-10)


@pytest.mark.spec("REP-004", "BAY-57")
def test_one_step_of_em_with_missing_entries_solves_each_row_of_w_where_its_column_is_observed():
    random = np.random.default_rng(5)
    X, weight = data(n=30), random.uniform(0.5, 2.0, 30)
    X[random.random(X.shape) < 0.3] = np.nan
    W, b, noise = random.normal(size=(6, 2)), np.nanmean(X, 0) + 0.3, 0.7
    model = PPCAModel(W, b, noise)
    sums = model.expect(X, weight)
    design, target, pairs = np.zeros((6, 3, 3)), np.zeros((6, 3)), []
    for row, w in zip(X, weight, strict=True):
        o = ~np.isnan(row)
        inverse = np.linalg.inv(W[o].T @ W[o] + noise * np.eye(2))
        t = np.r_[inverse @ W[o].T @ (row[o] - b[o]), 1.0]
        moment = np.outer(t, t)
        moment[:2, :2] += noise * inverse
        pairs.append((w, o, row, t, moment))
        design[o] += w * moment
        target[o] += w * row[o, None] * t
    new = np.linalg.solve(design, target[:, :, None])[:, :, 0]
    squares = sum(
        w * (row[j] ** 2 - 2 * row[j] * (new[j] @ t) + new[j] @ moment @ new[j])
        for w, o, row, t, moment in pairs
        for j in np.flatnonzero(o)
    )
    model.regress(sums)
    np.testing.assert_allclose(np.c_[model.components, model.mean], new, atol=1e-10)
    assert model.noise_variance == pytest.approx(squares / (weight[:, None] * ~np.isnan(X)).sum(), rel=1e-10)


@pytest.mark.parametrize("k", [5, 6])
@pytest.mark.parametrize("hole", [False, True])
def test_rows_in_a_subspace_have_their_own_spread_from_every_seed(k, hole):
    """HB-18: six spectra of 80 points, one value of them missing or none; the notice is given once."""
    X = np.random.default_rng(0).random((6, 80))
    own = np.linalg.eigvalsh(np.cov(X.T, bias=True))[::-1]
    if hole:
        X[0, 0] = np.nan
    for seed in range(2):
        with pytest.warns(UserWarning, match="the rows lie in the fitted subspace") as notices:
            model = PPCA(n_components=k, method="em", random_state=seed).fit(X)
        assert len(notices) == 1
        fitted = np.linalg.eigvalsh(model.get_covariance())[::-1]
        np.testing.assert_allclose(fitted[:6], own[:6], rtol=0.02 if hole else 1e-6, atol=1e-9)


def test_three_points_on_a_line_by_every_solver():
    """HB-19: variances 4/3 and 0; with tol=0 hundreds of iterations give one notice."""
    X = np.array([[2, 0], [0, 2], [1, 1.0]], dtype=np.float32)
    for parameters in ({"method": "closed"}, *({"method": "em", "tol": 0.0, "random_state": s} for s in range(3))):
        with pytest.warns(UserWarning, match="the rows lie in the fitted subspace") as notices:
            model = PPCA(n_components=1, **parameters).fit(X)
        assert len(notices) == 1
        np.testing.assert_allclose(np.linalg.eigvalsh(model.get_covariance()), [0, 4 / 3], atol=1e-6)


def test_the_density_keeps_its_digits_where_the_noise_is_small():
    import mpmath

    model = PPCAModel(np.array([[1.0], [1.0], [2.0]]), np.zeros(3), 1e-13)
    x = np.array([[1.0, 1.0 + 3e-7, 2.0]])
    with mpmath.workdps(60):
        W = mpmath.matrix([1, 1, 2])
        C = W * W.T + mpmath.mpf(1e-13) * mpmath.eye(3)
        r = mpmath.matrix(x[0].tolist())
        right = -(3 * mpmath.log(2 * mpmath.pi) + mpmath.log(mpmath.det(C)) + (r.T * C**-1 * r)[0]) / 2
    assert model.log_prob(x)[0] == pytest.approx(float(right), rel=1e-8)
