"""Normal distributions by covariance form: SciPy's density, quadrature, draws, and the weighted fit as a maximum."""

import numpy as np
import pytest
from scipy import integrate, stats

from gnomon.distributions.definite import precision_factor
from gnomon.distributions.gaussian import FORMS, FullNormals
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise

K, D = 3, 4


def covariances(form, k=K, d=D, seed=0):
    random = np.random.default_rng(seed)
    roots = random.normal(size=(k, d, d))
    full = np.matmul(roots, np.swapaxes(roots, 1, 2)) + 0.1 * np.eye(d)
    return {
        "full": full,
        "tied": full[0],
        "diag": np.diagonal(full, axis1=1, axis2=2).copy(),
        "spherical": full[:, 0, 0].copy(),
    }[form]


def normals(form, k=K, d=D, offset=0.0):
    return FORMS[form](offset + 2 * np.random.default_rng(1).normal(size=(k, d)), covariances(form, k, d))


@pytest.mark.parametrize("d", [1, 5, 16, 17, 33, 70])
def test_factors_invert_and_stay_triangular(d):
    matrices = covariances("full", 2, d)
    lower, upper = precision_factor(matrices)
    np.testing.assert_allclose(np.matmul(lower, np.swapaxes(lower, 1, 2)), matrices, rtol=1e-12, atol=1e-12)
    identity = np.matmul(np.matmul(upper, np.swapaxes(upper, 1, 2)), matrices)
    np.testing.assert_allclose(identity, np.broadcast_to(np.eye(d), identity.shape), atol=1e-7)
    assert not np.tril(upper, -1).any()
    assert not np.triu(lower, 1).any()


@pytest.mark.parametrize("n", [1, 700, 9000])
@pytest.mark.parametrize("form", FORMS)
def test_log_densities_are_scipys(form, n):
    """In one block of rows and in several, far from the origin too."""
    some = normals(form, offset=1000.0)
    x = 1000.0 + 3 * np.random.default_rng(2).normal(size=(n, D))
    wanted = np.stack(
        [stats.multivariate_normal(m, c).logpdf(x).reshape(n) for m, c in zip(some.means, some.dense(), strict=True)], 1
    )
    np.testing.assert_allclose(some.log_prob(x), wanted, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_densities_integrate_to_one(form):
    one = normals(form, 2, 1)
    for c in range(2):
        spread = float(np.sqrt(one.dense()[c, 0, 0]))
        points = (one.means[c, 0] - 12 * spread, one.means[c, 0] + 12 * spread)
        total, _ = integrate.quad(lambda x, c=c: np.exp(one.log_prob([[x]])[0, c]), *points, epsabs=1e-12)
        assert total == pytest.approx(1, abs=1e-9)
    two = normals(form, 2, 2)
    grid = np.linspace(-40, 40, 801)  # the rectangle rule is exact to rounding where the step is below the spread
    x = np.stack(np.meshgrid(grid, grid), -1).reshape(-1, 2)
    np.testing.assert_allclose(np.exp(two.log_prob(x)).sum(0) * 0.1**2, 1, atol=1e-8)


@pytest.mark.parametrize("form", FORMS)
def test_draws_have_the_means_and_covariances(form):
    some, n = normals(form), 40_000
    which = np.repeat(np.arange(K), n)
    x = some.sample(which, Noise(3, "sample"))
    for c in range(K):
        white = np.linalg.solve(np.linalg.cholesky(some.dense()[c]), (x[which == c] - some.means[c]).T).T
        # 3 * (4 + 10) statistics a form, each beyond 5 standard errors with probability 6e-7: false alarm 1e-4 in all
        assert (abs(white.mean(0)) * np.sqrt(n) < 5).all()
        second = np.matmul(white.T, white) / n - np.eye(D)
        errors = np.sqrt((1 + np.eye(D)) / n)
        assert (abs(second) < 5 * errors).all()


@pytest.mark.parametrize("form", FORMS)
def test_the_weighted_fit_is_the_weighted_moments(form):
    random = np.random.default_rng(4)
    x, part = 100 + random.normal(size=(5000, D)) * [1, 2, 3, 4], random.random((5000, K))
    some = normals(form, offset=100.0)
    sums = some.collect(x, part)
    some.maximize(sums)
    rows = part.sum(0)
    np.testing.assert_allclose(sums["rows"], rows, rtol=1e-12)
    means = part.T @ x / rows[:, None]
    np.testing.assert_allclose(some.means, means, rtol=1e-10)
    full = np.stack([np.cov(x.T, aweights=part[:, c], ddof=0) for c in range(K)])
    diag = np.diagonal(full, axis1=1, axis2=2)
    tied = np.tensordot(rows / rows.sum(), full, 1)
    wanted = {"full": full, "tied": tied, "diag": diag, "spherical": diag.mean(1)}[form]
    np.testing.assert_allclose(some.covariances, wanted, rtol=1e-9, atol=1e-9)


def test_few_and_many_shares_give_the_same_sums():
    """The product over all rows, and the products over the rows that a component has."""
    random = np.random.default_rng(6)
    x = 50 + random.normal(size=(3000, D))
    some = normals("full", offset=50.0)
    part = random.random((3000, K))
    part[random.random(part.shape) < 0.8] = 0.0  # few
    both = np.full_like(part, 1e-20) + part  # many: the same but for rounding
    few, many = some.collect(x, part), some.collect(x, both)
    gaps = np.stack([x - mean for mean in some.means], 1)
    white = np.einsum("cij,ncj->nci", np.linalg.inv(some.lower), gaps)
    for sums in (few, many):
        np.testing.assert_allclose(sums["first"], np.einsum("nc,nci->ci", part, white), atol=1e-9)
        np.testing.assert_allclose(
            sums["second"], np.einsum("nc,nci,ncj->cij", part, white, white), rtol=1e-9, atol=1e-8
        )


@pytest.mark.parametrize("form", FORMS)
def test_the_floor_is_a_constrained_maximum(form):
    """No covariance above the floor is likelier: random ones near the answer, and far from it, are all worse."""
    random = np.random.default_rng(5)
    x = random.normal(size=(60, 3)) @ np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1e-4]])  # a direction without variance
    floor = np.array([0.02, 0.03, 0.01]) * (100 if form == "spherical" else 1)
    part = np.ones((60, 1))
    some = FORMS[form](np.zeros((1, 3)), covariances(form, 1, 3))
    some.maximize(some.collect(x, part), floor)
    assert some.at_floor(floor).all()
    best = some.log_prob(x).sum()
    least = np.diag(floor) if form != "spherical" else np.eye(3) * floor.mean()
    assert np.linalg.eigvalsh(some.dense()[0] - least)[0] > -1e-12
    tried = 0
    for _ in range(300):
        root = random.normal(size=(3, 3)) * 10.0 ** random.uniform(-4, 0.5)
        move = root @ root.T
        if form == "diag":
            move = np.diag(np.diag(move))
        if form == "spherical":
            move = np.eye(3) * move[0, 0]
        for near in (some.dense()[0] + move, least + move):
            other = FullNormals(some.means, near[None])
            assert other.log_prob(x).sum() <= best + 1e-8
            tried += 1
    assert tried == 600


@pytest.mark.parametrize("form", FORMS)
def test_a_component_without_rows_keeps_its_parameters(form):
    some = normals(form)
    before = some.means.copy(), some.dense().copy()
    x = np.random.default_rng(0).normal(size=(50, D))
    part = np.zeros((50, K))
    part[:, 0] = 1
    some.maximize(some.collect(x, part))
    np.testing.assert_array_equal(some.means[1:], before[0][1:])
    if form != "tied":
        np.testing.assert_array_equal(some.dense()[1:], before[1][1:])
    np.testing.assert_allclose(some.means[0], x.mean(0), atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_responsibilities_far_in_the_tails_stay_finite(form):
    some = normals(form)
    x = np.array([[1e8] * D, [-1e100] * D, [0.0] * D])
    sums = some.expect(x, np.log([0.5, 0.5, 1e-300]), np.ones(3))
    assert sums["rows"].sum() == pytest.approx(3)
    assert all(np.isfinite(value).all() for value in sums.values())


def test_what_is_no_covariance_is_refused():
    with pytest.raises(UserValueError, match=r"not positive definite.*component 1"):
        FORMS["full"](np.zeros((2, 2)), [np.eye(2), np.ones((2, 2))])
    with pytest.raises(UserValueError, match=r"not positive definite.*component 0"):
        FORMS["diag"](np.zeros((1, 2)), [[1.0, 0.0]])
    with pytest.raises(UserValueError, match=r"shape \(2, 2\)"):
        FORMS["tied"](np.zeros((3, 2)), np.eye(3))
    with pytest.raises(UserValueError, match="finite"):
        FORMS["spherical"](np.zeros((1, 2)), [np.nan])


@pytest.mark.parametrize(
    ("form", "count"), [("full", K * D + K * 10), ("tied", K * D + 10), ("diag", 2 * K * D), ("spherical", K * D + K)]
)
def test_free_parameters(form, count):
    assert normals(form).n_parameters == count


@pytest.mark.parametrize("form", ["diag", "spherical"])
def test_products_and_the_loop_give_the_same_sums(form, monkeypatch):
    """The products are taken only where they lose no digits; with components far apart the loop is."""
    random = np.random.default_rng(3)
    X, weight = random.normal(size=(700, 6)) * 3 + 1e3, random.uniform(0.5, 2, size=700)
    shape = FORMS[form].shape(4, 6)
    normals = FORMS[form](X[:4], random.uniform(0.5, 2, size=shape))
    fast = normals.expect(X, np.log(np.full(4, 0.25)), weight)
    monkeypatch.setattr("gnomon.distributions.gaussian.SAFE", 0.0)
    slow = normals.expect(X, np.log(np.full(4, 0.25)), weight)
    for name, value in slow.items():
        np.testing.assert_allclose(fast[name], value, rtol=1e-11, atol=1e-9, err_msg=name)
