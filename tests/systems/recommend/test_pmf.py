"""Probabilistic matrix factorization against densities, ridge regressions and a grid."""

import numpy as np
import pytest
from scipy import stats

from gnomon.errors import UserError, UserValueError
from gnomon.numeric.noise import Noise
from gnomon.systems.recommend._posterior import Sweeps
from gnomon.systems.recommend.pmf import MAP, PMF, Gibbs, PMFModel
from oracles.ratings import begun, random_ratings, slopes


def log_joint(A, B, X, y, noise, users, items):
    """log p(r, A, B), density by density."""
    ratings = stats.norm.logpdf(y, (A[X[:, 0]] * B[X[:, 1]]).sum(1), np.sqrt(noise)).sum()
    return ratings + stats.norm.logpdf(A, 0, np.sqrt(users)).sum() + stats.norm.logpdf(B, 0, np.sqrt(items)).sum()


def regularized(A, B, X, y, own, other):
    """Squared errors and weighted squares, summed, without a factor 1/2."""
    return ((y - (A[X[:, 0]] * B[X[:, 1]]).sum(1)) ** 2).sum() + own * (A**2).sum() + other * (B**2).sum()


@pytest.mark.spec("PRA-194")
def test_the_mode_is_the_regularized_factorization():
    X, y, _ = random_ratings(users=6, items=5)
    noise, users, items = 0.4, 0.5, 0.8
    random = np.random.default_rng(1)
    A, B = random.normal(size=(6, 2)), random.normal(size=(5, 2))
    own, other = noise / users, noise / items
    likelihood = slopes(lambda parts: log_joint(*parts, X, y, noise, users, items), [A, B])
    loss = slopes(lambda parts: regularized(*parts, X, y, own, other), [A, B])
    for one, two in zip(likelihood, loss, strict=True):  # everywhere: the one is -2 noise times the other
        np.testing.assert_allclose(-2 * noise * one, two, rtol=1e-6, atol=1e-6)
    model = PMF(
        n_factors=2, noise_variance=noise, user_variance=users, item_variance=items, center=False,
        inference=MAP(iterations=1500), dtype="float64", random_state=0,
    ).fit(X, y)  # fmt: skip
    parts = [model.user_factors_.copy(), model.item_factors_.copy()]
    for slope in slopes(lambda parts: regularized(*parts, X, y, own, other), parts):
        np.testing.assert_allclose(slope, 0, atol=1e-5)
    assert model.history_["loss"][-1] == pytest.approx(regularized(*parts, X, y, own, other) / len(y))
    assert (np.diff(model.history_["loss"]) <= 1e-12).all()
    np.testing.assert_allclose(model.predict(X), (parts[0][X[:, 0]] * parts[1][X[:, 1]]).sum(1))


@pytest.mark.spec("PRA-194")
def test_only_the_product_of_the_variances_matters_to_the_mode():
    X, y, _ = random_ratings(2, users=6, items=5)
    fit = {"n_factors": 2, "inference": MAP(iterations=1500), "dtype": "float64", "random_state": 0}
    one = PMF(user_variance=0.5, item_variance=0.5, **fit).fit(X, y)
    two = PMF(user_variance=2.0, item_variance=0.125, **fit).fit(X, y)
    np.testing.assert_allclose(one.predict(X), two.predict(X), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(two.user_factors_), 2 * np.linalg.norm(one.user_factors_), rtol=1e-6)


@pytest.mark.spec("PRA-194")
def test_users_given_the_items_have_their_ridge_posterior():
    X, y, _ = random_ratings(3, users=6, items=5)
    noise, variance, k, n = 0.5, 0.7, 2, 4000
    system = PMF(
        n_factors=k, noise_variance=noise, user_variance=variance, center=False, inference=Gibbs(learn_priors=False),
        dtype="float64",
    )  # fmt: skip
    procedure, state, *_ = begun(system, X, y)
    assert isinstance(procedure, Sweeps)
    B = np.random.default_rng(0).normal(size=(5, k))
    state.data.now.item_factors[:] = B
    drawn = np.empty((n, 6, k))
    for t in range(n):
        procedure.draw_factors(state.data, True, Noise(1, "draws").at(t))
        drawn[t] = state.data.now.user_factors
    np.testing.assert_array_equal(state.data.now.item_factors, B)
    widths = []
    for user in range(6):
        mine = X[:, 0] == user
        Z = B[X[mine, 1]]
        precision = Z.T @ Z / noise + np.eye(k) / variance
        mean = np.linalg.solve(Z.T @ Z + noise / variance * np.eye(k), Z.T @ y[mine])
        covariance = np.linalg.inv(precision)
        # 12 means and 24 second moments, six standard errors each: false alarm below 1e-6
        error = np.sqrt(np.diag(covariance) / n)
        assert (np.abs(drawn[:, user].mean(0) - mean) < 6 * error).all()
        spread = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / n)
        assert (np.abs(np.cov(drawn[:, user].T) - covariance) < 6 * spread).all()
        widths.append((mine.sum(), np.linalg.det(covariance)))
    counts = np.array(widths)
    assert counts[counts[:, 0].argmax(), 1] < counts[counts[:, 0].argmin(), 1]  # more ratings, less doubt


@pytest.mark.spec("PRA-194")
def test_draws_have_the_posterior_of_a_grid():
    """One user, two items, one factor: moments of the posterior by quadrature."""
    X, y, noise, users, items = np.array([[0, 0], [0, 1]]), np.array([1.3, -0.4]), 0.5, 0.8, 0.6
    grid = np.linspace(-5, 5, 161)
    a, b, c = np.meshgrid(grid, grid, grid, indexing="ij")
    log_p = -0.5 * ((y[0] - a * b) ** 2 + (y[1] - a * c) ** 2) / noise - 0.5 * (a**2 / users + (b**2 + c**2) / items)
    weight = np.exp(log_p - log_p.max())
    weight /= weight.sum()
    wanted = [(weight * part).sum() for part in (a * b, a * c, a**2, b**2, (a * b) ** 2)]
    system = PMF(
        n_factors=1, noise_variance=noise, user_variance=users, item_variance=items, center=False, dtype="float64",
        inference=Gibbs(draws=6000, burn_in=100, learn_priors=False), random_state=0,
    ).fit(X, y)  # fmt: skip
    A, B, _ = system.sample_posterior()
    A, B = A[:, 0, 0], B[:, :, 0]
    found = [A * B[:, 0], A * B[:, 1], A**2, B[:, 0] ** 2, (A * B[:, 0]) ** 2]
    for exact, draws in zip(wanted, found, strict=True):
        error = draws.reshape(100, -1).mean(1).std(ddof=1) / 10  # batch means; seven errors: false alarm below 1e-9
        assert abs(draws.mean() - exact) < 7 * error
    assert system.predict(X) == pytest.approx([found[0].mean(), found[1].mean()])
    # the standard deviation of a new rating: noise, and what is not known of the expectation
    spread = np.sqrt(noise + found[0].var())
    assert system.predict(X[:1], return_std=True)[1][0] == pytest.approx(spread)
    density = np.mean(stats.norm.pdf(0.9, found[0], np.sqrt(noise)))
    assert system.log_prob(X[:1], [0.9])[0] == pytest.approx(np.log(density))


@pytest.mark.spec("PRA-194")
def test_densities_and_deviations_are_those_of_the_draws():
    """Each draw has factors and a noise of its own, about the mean of the ratings."""
    X, y, _ = random_ratings(9, users=6, items=5)
    system = PMF(n_factors=2, dtype="float64", inference=Gibbs(draws=6, burn_in=2), random_state=0).fit(X, y)
    A, B, noise = system.sample_posterior()
    expected = y.mean() + np.einsum("duk,dik->dui", A, B)[:, X[:, 0], X[:, 1]]
    assert noise.max() > 1.2 * noise.min()
    density = stats.norm.pdf(y, expected, np.sqrt(noise)[:, None]).mean(0)
    np.testing.assert_allclose(system.log_prob(X, y), np.log(density), rtol=1e-10)
    mean, deviation = system.predict(X, return_std=True)
    np.testing.assert_allclose(mean, expected.mean(0), rtol=1e-12)
    np.testing.assert_allclose(deviation, np.sqrt(expected.var(0) + noise.mean()), rtol=1e-10)


@pytest.mark.spec("PRA-194")
def test_the_precision_of_the_noise_is_drawn_from_its_gamma_posterior():
    """Given the errors of a sweep its distribution function is uniform; false alarm 1e-4, fixed seed."""
    X, y, _ = random_ratings(6, users=6, items=5)
    system = PMF(
        n_factors=2, noise_variance=8.0, center=False, dtype="float64", inference=Gibbs(draws=1, burn_in=10**6)
    )
    procedure, state, *_ = begun(system, X, y)
    shares = []
    for _ in range(400):
        state, _ = procedure.step(state)
        A, B = state.data.now.user_factors, state.data.now.item_factors
        squared = ((y - (A[X[:, 0]] * B[X[:, 1]]).sum(1)) ** 2).sum()
        posterior = stats.gamma(1 + len(y) / 2, scale=1 / (8 + squared / 2))  # prior: exponential of mean 1 / 8
        shares.append(posterior.cdf(1 / state.data.noise_variance))
    assert stats.kstest(shares, "uniform").pvalue > 1e-4


@pytest.mark.spec("PRA-194")
@pytest.mark.parametrize("of_users", [True, False])
def test_factors_under_learned_priors_are_drawn_from_the_predictive_of_their_side(of_users):
    """Where ratings say nothing, a new row is Student t about the old ones (Murphy 2007); alarm 1e-4."""
    X, y, _ = random_ratings(7, users=6, items=5)
    variance, k = {True: 0.3, False: 0.9}, 2
    system = PMF(
        n_factors=k, user_variance=variance[True], item_variance=variance[False], center=False, dtype="float64"
    )
    procedure, state, *_ = begun(system, X, y)
    chain = state.data
    chain.noise_variance = 1e15
    factors = chain.now.user_factors if of_users else chain.now.item_factors
    old = np.random.default_rng(8).normal(1.0, 0.5, factors.shape)
    drawn = np.empty((1500, k))
    for t in range(len(drawn)):
        factors[:] = old
        procedure.draw_factors(chain, of_users, Noise(1, "draws").at(t))
        drawn[t] = factors[0]
    n, mean = len(old), old.mean(0)
    spread = (old - mean).T @ (old - mean) + k * variance[of_users] * np.eye(k) + 2 * n / (2 + n) * np.outer(mean, mean)
    df = n + 1  # k + n - k + 1
    for column in range(k):
        scale = np.sqrt(spread[column, column] * (n + 3) / ((n + 2) * df))
        wanted = stats.t(df, n * mean[column] / (n + 2), scale)
        assert stats.kstest(drawn[:, column], wanted.cdf).pvalue > 1e-4


def test_learned_priors_find_what_the_ratings_were_drawn_from():
    random = np.random.default_rng(4)
    A, B = random.normal(0, 1, (80, 2)), random.normal(0, 1, (60, 2))
    X = np.argwhere(random.random((80, 60)) < 0.5)
    y = 3 + (A[X[:, 0]] * B[X[:, 1]]).sum(1) + random.normal(0, 0.5, len(X))
    model = PMF(n_factors=2, noise_variance=2.0, random_state=0, inference=Gibbs(draws=60, burn_in=40)).fit(X, y)
    noise = model.sample_posterior().noise_variance
    assert abs(noise.mean() - 0.25) < 0.04  # 2,400 ratings: its posterior has a standard deviation below 0.01
    hidden = np.argwhere(np.ones((80, 60)))
    assert np.sqrt(np.mean((model.predict(hidden) - 3 - (A[hidden[:, 0]] * B[hidden[:, 1]]).sum(1)) ** 2)) < 0.25


def test_posterior_draws_and_unknown_ids():
    X, y, _ = random_ratings(5, users=6, items=5)
    model = PMF(n_factors=2, inference=Gibbs(draws=7, burn_in=1), random_state=0).fit(X, y)
    every = model.sample_posterior()
    assert every.users.shape == (7, 6, 2) and every.items.shape == (7, 5, 2) and every.noise_variance.shape == (7,)
    some = model.sample_posterior(3)
    np.testing.assert_array_equal(some.users, every.users[[0, 3, 6]])
    products = np.einsum("duk,dik->dui", every.users, every.items).mean(0)[tuple(X.T)]
    np.testing.assert_allclose(model.predict(X), float(model.model_.mean[0]) + products, atol=1e-5)
    mean, spread = model.predict([(0, 99), (0, 0)], return_std=True)
    assert mean[0] == pytest.approx(y.mean(), abs=1e-6)
    assert spread[0] == pytest.approx(np.sqrt(every.noise_variance.mean()))
    assert len(np.unique(every.noise_variance)) == 7
    table = model.model_.rows(np.arange(6))
    np.testing.assert_allclose(table[tuple(X.T)], model.predict(X), atol=1e-5)
    assert len(model.history_["loss"]) == 8
    assert model.evaluate(X, y)["log_likelihood"].value == pytest.approx(model.log_prob(X, y).mean())
    mode = PMF(n_factors=2, inference=MAP(iterations=3), random_state=0).fit(X, y)
    assert len(mode.history_["loss"]) == 3


def test_a_model_of_the_draws_so_far():
    model, random = PMFModel(2, 3, 2, 4, np.float64), np.random.default_rng(0)
    draws = [(random.normal(size=(2, 2)), random.normal(size=(3, 2))) for _ in range(3)]
    for n, (A, B) in enumerate(draws):
        model.keep(A, B, n + 1.0)
    wanted = np.array([A @ B.T for A, B in draws])
    users, items = (part.ravel() for part in np.indices((2, 3)))
    np.testing.assert_allclose(model.by_draw(users, items), wanted.reshape(3, 6).T)
    np.testing.assert_allclose(model.score(users, items), wanted.mean(0).ravel())
    np.testing.assert_allclose(model.rows(np.arange(2)), wanted.mean(0))
    assert model.noise_variance.tolist() == [1, 2, 3, 0] and model.draws("items").shape == (3, 3, 2)


def test_posterior_draws_that_there_are_not():
    X, y, _ = random_ratings(5, users=6, items=5)
    model = PMF(n_factors=2, inference=Gibbs(draws=7, burn_in=1), random_state=0).fit(X, y)
    for n in (0, 8):
        with pytest.raises(UserError, match="n must be in"):
            model.sample_posterior(n)
    with pytest.raises(UserError, match="draws need Gibbs sampling"):
        PMF(inference="map", random_state=0).fit(X, y).sample_posterior()


def test_draws_that_no_memory_holds_are_refused_by_name():
    with pytest.raises(UserValueError, match=r"too large for this machine.*inference__draws"):
        PMF(inference=Gibbs(draws=10**12)).fit([(1, 2), (3, 4)], [5.0, 1.0])


@pytest.mark.parametrize("name", ["noise_variance", "user_variance", "item_variance"])
@pytest.mark.parametrize("value", [1e-300, 1e300, float("inf"), 0.0, -1.0])
def test_variances_that_leave_nothing_to_infer_are_refused(name, value):
    """Without a prior, or with nothing but it, there is no compromise left: 24 decades are enough for any ratings."""
    with pytest.raises(UserValueError, match=rf"{name} must be a number in \[1e-12, 1e12\]"):
        PMF(**{name: value}).fit([("a", "b"), ("a", "c")], [1.0, 2.0])
