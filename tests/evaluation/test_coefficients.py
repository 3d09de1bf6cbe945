"""Standard errors of coefficients against closed forms, finite differences and simulation."""

import numpy as np
import pytest
from scipy import stats

import gnomon
from gnomon.errors import UserValueError
from gnomon.evaluation import least_squares_coefficients, logistic_coefficients
from gnomon.tasks.explain import coefficients


def table(n=60, d=3, seed=0):
    random = np.random.default_rng(seed)
    return random, random.normal(size=(n, d)) * [1, 10, 0.1] + [5, -20, 1]


def test_least_squares_is_the_textbook_formula():
    """sigma^2 (X'X)^-1 with the column of ones, t with n - d - 1 degrees of freedom; scipy for one column."""
    random, X = table()
    y = X @ [1.0, 0.2, 3] + random.normal(size=60)
    fitted = gnomon.LinearRegression(dtype="float64").fit(X, y)
    found = least_squares_coefficients(X, y, fitted.coef_, fitted.intercept_, ("a", "b", "c"))
    design = np.column_stack([X, np.ones(60)])
    weights, rss, *_ = np.linalg.lstsq(design, y)
    covariance = rss[0] / 56 * np.linalg.inv(design.T @ design)
    assert np.allclose(found.value, weights) and np.allclose(found.stderr, np.sqrt(np.diag(covariance)), rtol=1e-8)
    assert found.df == pytest.approx(56) and found.names[-1] == "intercept" and found.note == ""
    one = gnomon.LinearRegression(dtype="float64").fit(X[:, :1], y)
    mine = least_squares_coefficients(X[:, :1], y, one.coef_, one.intercept_, ("a",))
    other = stats.linregress(X[:, 0], y)
    assert np.allclose(mine.stderr, [other.stderr, other.intercept_stderr])
    assert mine.p_value[0] == pytest.approx(other.pvalue)
    low, high = mine.interval()[0]
    assert np.allclose([low, high], other.slope + np.array([-1, 1]) * stats.t(58).ppf(0.975) * other.stderr)


@pytest.mark.parametrize("standardize", [True, False])
def test_ridge_errors_are_the_spread_over_draws_of_the_target(standardize):
    """20,000 targets with the same rows: the spread of each coefficient, which errs by 0.5 %; the bias is not in it."""
    random, X = table(30)
    n, l2 = 30, 0.3
    mean, scale = X.mean(0), X.std(0) if standardize else np.ones(3)
    Z = (X - mean) / scale
    signal = X @ [1.0, 0.2, 3]
    Y = signal[:, None] + random.normal(size=(n, 20_000))
    W = np.linalg.solve(Z.T @ Z + n * l2 * np.eye(3), Z.T @ Y) / scale[:, None]
    b = Y.mean(0) - mean @ W
    truth = np.append(W.std(1), b.std())
    fitted = gnomon.LinearRegression(l2=l2, standardize=standardize, dtype="float64").fit(X, Y[:, 0])
    assert np.allclose(fitted.coef_, W[:, 0])
    found = least_squares_coefficients(
        X, Y[:, 0], fitted.coef_, fitted.intercept_, ("a", "b", "c"), l2=l2, standardize=standardize
    )
    residual = Y[:, 0] - X @ W[:, 0] - b[0]
    sigma = np.sqrt(residual @ residual / found.df)  # the noise has standard deviation 1
    assert np.allclose(found.stderr / sigma, truth, rtol=0.03)
    assert "not its bias" in found.note
    squares = np.linalg.svd(Z, compute_uv=False) ** 2
    assert found.df == pytest.approx(n - 1 - (squares / (squares + n * l2)).sum()), "the effective number"
    (told,), _ = coefficients(fitted, ("a", "b", "c"), X, Y[:, 0])
    assert np.allclose(told.stderr, found.stderr) and told.df == pytest.approx(found.df)


def loss(theta, X, codes, k, penalty):
    """Negative log-likelihood of k classes (two of them: one score), and its penalty."""
    theta = theta.reshape(-1, X.shape[1] + 1)
    scores = X @ theta[:, :-1].T + theta[:, -1]
    scores = np.column_stack([np.zeros(len(X)), scores]) if k == 2 else scores
    own = scores[np.arange(len(X)), codes]
    return float((np.logaddexp.reduce(scores, 1) - own).sum() + 0.5 * (penalty * theta[:, :-1] ** 2).sum())


def second_derivatives(f, at):
    n, h = len(at), 1e-4
    eye, found = np.eye(n) * h, np.empty((n, n))
    for i in range(n):
        for j in range(n):
            signs = ((1, 1), (1, -1), (-1, 1), (-1, -1))
            found[i, j] = sum(s * t * f(at + s * eye[i] + t * eye[j]) for s, t in signs) / (4 * h * h)
    return found


@pytest.mark.parametrize(("k", "l2"), [(2, 0.0), (2, 0.05), (3, 0.0), (3, 0.05)])
def test_logistic_errors_are_those_of_finite_differences(k, l2):
    """The inverse of numerical second derivatives of the loss; of three classes in the plane where weights sum to 0."""
    random = np.random.default_rng(1)
    X = random.normal(size=(80, 2)) * [1, 3] + [0.5, -1]
    codes = np.argmax(X @ random.normal(size=(2, k)) * 0.5 + random.gumbel(size=(80, k)), axis=1)
    fitted = gnomon.LogisticRegression(l2=l2, tol=1e-12).fit(X, codes)
    at = np.column_stack([fitted.coef_, fitted.intercept_]).ravel()
    penalty = 80 * l2 * X.var(0)
    full = second_derivatives(lambda theta: loss(theta, X, codes, k, penalty), at)
    plain = second_derivatives(lambda theta: loss(theta, X, codes, k, 0.0), at)
    basis = np.eye(3) if k == 2 else np.kron(np.linalg.svd(np.eye(3) - 1 / 3)[0][:, :2], np.eye(3))
    inverse = basis @ np.linalg.inv(basis.T @ full @ basis) @ basis.T
    wanted = np.sqrt(np.diag(inverse @ plain @ inverse)).reshape(-1, 3)
    outputs = ("",) if k == 2 else ("0", "1", "2")
    found = logistic_coefficients(X, fitted.coef_, fitted.intercept_, ("a", "b"), outputs=outputs, l2=l2)
    assert np.allclose([one.stderr for one in found], wanted, rtol=1e-4)
    assert all(np.isinf(one.df) for one in found)


def test_intervals_hold_as_often_as_they_say():
    """Of 400 samples the 95 % interval of a slope misses it 20 times; more than 40 or fewer than 4 are 1 in 10^4."""
    random = np.random.default_rng(0)
    x = random.normal(size=(12, 1))
    misses = 0
    for _ in range(400):
        y = 2 * x[:, 0] + random.normal(size=12)
        slope, intercept = np.polyfit(x[:, 0], y, 1)
        low, high = least_squares_coefficients(x, y, [slope], intercept, ("a",)).interval()[0]
        misses += not low <= 2 <= high
    assert 4 <= misses <= 40


def test_columns_that_are_sums_of_others_are_told():
    random, X = table()
    X = np.column_stack([X, X[:, 0] + X[:, 1]])
    y = X[:, 0] + random.normal(size=60)
    fitted = gnomon.LinearRegression(dtype="float64").fit(X, y)
    found = least_squares_coefficients(X, y, fitted.coef_, fitted.intercept_, tuple("abcd"))
    assert "sums of others" in found.note and np.isfinite(found.stderr).all()
    with pytest.raises(UserValueError, match="more rows than coefficients"):
        least_squares_coefficients(X[:4, :3], y[:4], fitted.coef_[:3], 0.0, tuple("abc"))


@pytest.mark.parametrize("options", [{}, {"standardize": True}, {"intercept": "normal"}, {"intercept": "none"}])
def test_a_posterior_of_coded_categories_says_what_the_rows_determine(options):
    """`yes` and `no` add up to 1: half their difference, under a wide prior, has the t value of one dummy by OLS."""
    random, X = table()
    yes = (random.random(60) < 0.4).astype(float)
    y = X @ [1.0, 0.2, 3] + 2 * yes + random.normal(size=60)
    coded = np.column_stack([X, yes, 1 - yes])
    fitted = gnomon.BayesianRegression(**options).fit(coded, y)
    (found,), note = coefficients(fitted, ("a", "b", "c", "yes", "no"), coded, y)
    plain = np.sqrt(np.diag(fitted.covariance_))
    if options.get("intercept") == "none":  # without a column of ones nothing is a sum of others
        assert "sums" not in note and np.allclose(found.stderr, plain)
        return
    assert "only sums of their coefficients mean something" in note and "posterior" in note
    assert (plain[3:] > 1.15 * found.stderr[3:]).all() and np.allclose(plain[:3], found.stderr[:3])
    if "intercept" in options:
        return
    design = np.column_stack([X, yes, np.ones(60)])
    weights, rss, *_ = np.linalg.lstsq(design, y)
    error = np.sqrt(rss[0] / 55 * np.linalg.inv(design.T @ design)[3, 3])
    assert np.abs(found.statistic[3:5]) == pytest.approx(weights[3] / error, rel=0.03)
    (least,), _ = coefficients(gnomon.LinearRegression().fit(coded, y), ("a", "b", "c", "yes", "no"), coded, y)
    assert found.stderr[3:5] == pytest.approx(least.stderr[3:5], rel=0.06)  # the prior holds the slope a little
