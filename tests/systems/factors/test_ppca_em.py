"""EM of probabilistic PCA where latent variables are known, and chunk by chunk, against its definition in loops."""

import numpy as np
import pytest
from scipy import optimize
from scipy.linalg import subspace_angles
from scipy.stats import multivariate_normal

import gnomon
from gnomon.errors import UserValueError
from gnomon.systems.factors.ppca import PPCA, PPCAModel


def data(n=200, d=6, seed=0, holes=0.0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3)) @ random.normal(size=(3, d)) + 0.5 * random.normal(size=(n, d)) + 3
    return np.where(random.random((n, d)) < holes, np.nan, X)


def planted(n=60, holes=0.2, known=0.5, seed=1):
    """Rows of two latent variables, their model and those latent variables that are told."""
    random = np.random.default_rng(seed)
    W, b = random.normal(size=(5, 2)), random.normal(size=5)
    z = random.normal(size=(n, 2))
    X = z @ W.T + b + 0.4 * random.normal(size=(n, 5))
    X[random.random(X.shape) < holes] = np.nan
    return X, np.where(random.random((n, 1)) < known, z, np.nan), PPCAModel(W + 0.3, b - 0.2, 0.7)


def em_step(model, X, weight, latents=None):
    """What one iteration makes of W, b and the noise, row by row by its definition, with its log-likelihood."""
    W, b, s = model.components, model.mean, model.noise_variance
    d, k = W.shape
    design, target, rows, total = np.zeros((d, k + 1, k + 1)), np.zeros((d, k + 1)), [], 0.0
    for i, (row, w) in enumerate(zip(X, weight, strict=True)):
        o = ~np.isnan(row)
        if latents is not None and not np.isnan(latents[i, 0]):
            z, spread = latents[i], np.zeros((k, k))
            total += w * multivariate_normal(np.zeros(k), np.eye(k)).logpdf(z)
            if o.any():
                total += w * multivariate_normal(W[o] @ z + b[o], s * np.eye(o.sum())).logpdf(row[o])
        else:
            inverse = np.linalg.inv(W[o].T @ W[o] + s * np.eye(k))
            z, spread = inverse @ W[o].T @ (row[o] - b[o]), s * inverse
            if o.any():
                total += w * multivariate_normal(b[o], W[o] @ W[o].T + s * np.eye(o.sum())).logpdf(row[o])
        t = np.r_[z, 1.0]
        moment = np.outer(t, t)
        moment[:k, :k] += spread
        design[o] += w * moment
        target[o] += w * row[o, None] * t
        rows.append((w, o, row, t, moment))
    new = np.linalg.solve(design, target[:, :, None])[:, :, 0]
    squares = sum(
        w * (row[j] ** 2 - 2 * row[j] * (new[j] @ t) + new[j] @ moment @ new[j])
        for w, o, row, t, moment in rows
        for j in np.flatnonzero(o)
    )
    noise = squares / (weight[:, None] * ~np.isnan(X)).sum()
    return new[:, :k], new[:, k], noise, total


@pytest.mark.spec("BAY-57")
@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_one_step_with_known_latents_is_the_definition(holes):
    X, Z, model = planted(holes=holes)
    X[0] = np.nan  # a row with nothing observed
    weight = np.random.default_rng(2).uniform(0.5, 2.0, len(X))
    W, b, noise, likelihood = em_step(model, X, weight, Z)
    sums = model.expect(X, weight, Z)
    assert sums["log_likelihood"] == pytest.approx(likelihood, rel=1e-12)
    model.identified = True
    model.maximize(sums)
    np.testing.assert_allclose(model.components, W, atol=1e-10)  # neither scaled nor turned
    np.testing.assert_allclose(model.mean, b, atol=1e-10)
    assert model.noise_variance == pytest.approx(noise, rel=1e-10)


@pytest.mark.spec("BAY-57")
def test_where_all_latents_are_known_the_fit_is_least_squares_on_them():
    X, Z, _ = planted(holes=0.25, known=1.1)
    model = PPCA(n_components=2).fit(X, latents=Z)
    errors = []
    for j in range(5):
        o = ~np.isnan(X[:, j])
        design = np.c_[Z[o], np.ones(o.sum())]
        solution = np.linalg.lstsq(design, X[o, j], rcond=None)[0]
        np.testing.assert_allclose([*model.components_[:, j], model.mean_[j]], solution, atol=1e-10)
        errors.extend(X[o, j] - design @ solution)
    assert model.noise_variance_ == pytest.approx(np.mean(np.square(errors)), rel=1e-10)


@pytest.mark.spec("BAY-57")
def test_a_fit_with_known_latents_climbs_to_the_maximum_of_their_joint_likelihood():
    X, Z, _ = planted(n=40)
    model = PPCA(n_components=2, max_iter=5000, tol=1e-14, random_state=0).fit(X, latents=Z)
    trace = np.array(model.history_["log_likelihood"])
    assert (np.diff(trace) > -1e-10).all()

    def loss(point):
        W, b, s = point[:10].reshape(5, 2), point[10:15], np.exp(point[15])
        total = 0.0
        for row, z in zip(X, Z, strict=True):
            o = ~np.isnan(row)
            mean, C = (b, W @ W.T + s * np.eye(5)) if np.isnan(z[0]) else (W @ z + b, s * np.eye(5))
            L = np.linalg.cholesky(C[np.ix_(o, o)])
            r = np.linalg.solve(L, (row - mean)[o])
            total += 0.5 * (r @ r + o.sum() * np.log(2 * np.pi)) + np.log(np.diag(L)).sum()
            total += 0.0 if np.isnan(z[0]) else 0.5 * (z @ z) + np.log(2 * np.pi)
        return total

    at = np.r_[model.components_.T.ravel(), model.mean_, np.log(model.noise_variance_)]
    assert -loss(at) / 40 == pytest.approx(trace[-1], abs=1e-8)
    assert np.abs(optimize.approx_fprime(at, loss, 1e-6)).max() < 2e-3 * 40**0.5
    step = np.random.default_rng(0).normal(size=(20, 16))
    assert all(loss(at + scale * one) > loss(at) for one in step for scale in (1e-2, 1e-3))
    again = PPCA(n_components=2, max_iter=5000, tol=1e-14, random_state=7).fit(X, latents=Z)
    np.testing.assert_allclose(again.components_, model.components_, atol=1e-4)  # known rows leave no rotation


@pytest.mark.spec("BAY-57")
def test_imputed_values_follow_the_fit_with_known_latents(tmp_path):
    X, Z, _ = planted()
    model = PPCA(n_components=2, max_iter=50, random_state=0).fit(X, latents=Z)
    mean, C = model.mean_, model.get_covariance()
    filled = model.impute(X)
    for row, full in zip(X, filled, strict=True):
        o = ~np.isnan(row)
        expected = mean + C[:, o] @ np.linalg.solve(C[np.ix_(o, o)], row[o] - mean[o])
        np.testing.assert_allclose(full, np.where(o, row, expected), atol=1e-9)
    loaded = gnomon.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.impute(X), filled)
    nothing = PPCA(n_components=2, max_iter=5, random_state=0).fit(X, latents=np.full_like(Z, np.nan))
    np.testing.assert_array_equal(
        nothing.components_, PPCA(n_components=2, max_iter=5, random_state=0).fit(X).components_
    )


@pytest.mark.parametrize(
    ("latents", "method", "words"),
    [
        (np.zeros((60, 3)), "auto", r"latents must have 60 rows and 2 columns, one per component, got .*\(60, 3\)"),
        (np.array([[0.0, np.nan]] * 60), "auto", r"a row of latents must be known whole or not at all .*row 0"),
        (np.zeros((60, 2)), "closed", "method must be em or auto where latents are known"),
    ],
)
def test_latents_that_cannot_be_known_are_refused(latents, method, words):
    with pytest.raises(UserValueError, match=words):
        PPCA(n_components=2, method=method).fit(data(n=60), latents=latents)


# --- chunks -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("REP-004")
@pytest.mark.parametrize("holes", [0.0, 0.25])
def test_a_chunk_is_one_step_on_what_its_rows_and_those_before_say(holes):
    """Two chunks by the definition: statistics of the second by the power 0.6 of its share of the weight so far."""
    X, weight = data(n=90, holes=holes), np.random.default_rng(3).uniform(0.5, 2.0, 90)
    options = {"n_components": 2, "method": "em", "random_state": 3}
    model = PPCA(**options).partial_fit(X[:60], sample_weight=weight[:60])
    once = PPCA(max_iter=1, tol=0.0, **options).fit(X[:60], sample_weight=weight[:60])
    np.testing.assert_allclose(model.get_covariance(), once.get_covariance(), rtol=1e-9)
    np.testing.assert_allclose(model.components_, once.components_, rtol=1e-8)

    before, first = model.model_, model.model_.sums
    share = (weight[60:].sum() / weight.sum()) ** 0.6
    W, b, s = before.components, before.mean, before.noise_variance
    # in the coordinates that z has now the kept sums give the same model again, at its stationary latent moments
    np.testing.assert_allclose(first["latent"] / weight[:60].sum(), np.eye(3), atol=1e-9)
    np.testing.assert_allclose(
        np.linalg.solve(first["design"], first["target"][:, :, None])[:, :, 0], np.c_[W, b - before.pivot], atol=1e-8
    )
    design, target, square, count, latent = (0.0 for _ in range(5))
    for row, w in zip(X[60:], weight[60:], strict=True):
        o = ~np.isnan(row)
        inverse = np.linalg.inv(W[o].T @ W[o] + s * np.eye(2))
        t = np.r_[inverse @ W[o].T @ (row[o] - b[o]), 1.0]
        moment = np.outer(t, t)
        moment[:2, :2] += s * inverse
        centered = np.where(o, row - before.pivot, 0.0)
        latent = latent + w * moment
        design = design + w * o[:, None, None] * moment
        target, square, count = target + w * centered[:, None] * t, square + w * centered**2, count + w * o
    new, total = weight[60:].sum(), weight.sum()

    def mix(name, fresh):
        return total * ((1 - share) * first[name] / (total - new) + share * fresh / new)

    design, target, latent = mix("design", design), mix("target", target), mix("latent", latent) / total
    solution = np.linalg.solve(design, target[:, :, None])[:, :, 0]
    explained = np.einsum("jk,jk->", solution, target)
    noise = (mix("square", square).sum() - explained) / mix("counts", count).sum()
    V, m = solution[:, :2], latent[:2, 2]
    model.partial_fit(X[60:], sample_weight=weight[60:])
    expected = V @ (latent[:2, :2] - np.outer(m, m)) @ V.T + noise * np.eye(6)
    np.testing.assert_allclose(model.get_covariance(), expected, rtol=1e-8)
    np.testing.assert_allclose(model.mean_, before.pivot + solution[:, 2] + V @ m, rtol=1e-9)
    assert model.n_samples_seen_ == 90


@pytest.mark.spec("REP-004")
@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_passes_over_chunks_reach_what_em_on_all_rows_reaches(holes):
    X = data(n=200, holes=holes)
    whole = PPCA(n_components=3, method="em", max_iter=3000, tol=1e-13, random_state=0).fit(X)
    model = PPCA(n_components=3, method="em", random_state=0)
    for _ in range(60):
        for chunk in np.split(X, 4):
            model.partial_fit(chunk)
    assert whole.score(X) - 0.01 < model.score(X) < whole.score(X) + 1e-9
    still = PPCA(n_components=3, method="em", random_state=0)
    for _ in range(600):
        still.partial_fit(X)  # all rows at once: nothing is left to vary
    assert still.score(X) == pytest.approx(whole.score(X), abs=1e-6)
    assert subspace_angles(still.components_.T, whole.components_.T).max() < 1e-3
    if not holes:
        assert still.score(X) == pytest.approx(PPCA(n_components=3, method="closed").fit(X).score(X), abs=1e-6)
    assert len(still.history_["log_likelihood"]) == 1


@pytest.mark.spec("REP-004")
def test_chunks_go_on_from_a_fit_and_may_hold_anything_but_at_first():
    X = data(n=80, holes=0.2)
    model = PPCA(n_components=2, method="em", max_iter=2000, tol=1e-13, random_state=0).fit(X)
    before = model.score(X)
    model.partial_fit(X)  # at the maximum another step changes nothing
    assert model.score(X) == pytest.approx(before, abs=1e-6)
    model.partial_fit(np.full((3, 6), np.nan)).partial_fit(X[:1]).partial_fit(X[:0])
    assert np.isfinite(model.score(X))
    holes = X.copy()
    holes[:, 1] = np.nan
    with pytest.raises(UserValueError, match=r"the first chunk must have a value in every column.*column 1"):
        PPCA(n_components=2, method="em").partial_fit(holes)
    with pytest.raises(UserValueError, match="first chunk must have at least 3 rows"):
        PPCA(n_components=2, method="em").partial_fit(X[:2])
