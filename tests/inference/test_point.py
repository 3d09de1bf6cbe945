"""Point estimates against closed forms, SciPy's fits and scikit-learn's ridge."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.linear_model import Ridge

import gnomon
from gnomon.distributions import bounded, counts, positive, real
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.conditional_point import conditional_maximum_a_posteriori
from gnomon.inference.point import maximum_a_posteriori, maximum_likelihood

RNG = np.random.default_rng(0)


@pytest.mark.spec("BAY-26")
def test_closed_forms():
    x = RNG.normal(3.0, 2.0, 200)
    found = maximum_likelihood(real.Normal, x)
    assert np.allclose([*found.parameters.values()], [x.mean(), x.std()], rtol=1e-7)  # variance with 1 / n
    assert math.isclose(found.log_likelihood, stats.norm(x.mean(), x.std()).logpdf(x).sum())
    assert math.isclose(found.standard_errors["loc"], x.std() / math.sqrt(200), rel_tol=1e-5)
    assert math.isclose(found.standard_errors["scale"], x.std() / math.sqrt(400), rel_tol=1e-4)
    e = RNG.exponential(0.3, 100)
    assert math.isclose(maximum_likelihood(positive.Exponential, e).parameters["rate"], 1 / e.mean(), rel_tol=1e-7)
    n = RNG.poisson(4.0, 100)
    assert math.isclose(maximum_likelihood(counts.Poisson, n).parameters["rate"], n.mean(), rel_tol=1e-7)
    ones = (RNG.random(50) < 0.3).astype(float)
    coin = maximum_likelihood(counts.Binomial, ones, fixed={"total_count": 1})
    p = ones.mean()
    assert math.isclose(coin.parameters["probs"], p, rel_tol=1e-7)
    assert math.isclose(coin.standard_errors["probs"], math.sqrt(p * (1 - p) / 50), rel_tol=1e-5)
    weighted = maximum_likelihood(real.Normal, [1.0, 5.0], weight=[3.0, 1.0])
    assert np.allclose([*weighted.parameters.values()], [2.0, math.sqrt(3)], rtol=1e-6)


@pytest.mark.spec("BAY-26")
@pytest.mark.parametrize(
    ("family", "law", "arguments"),
    [
        (positive.Gamma, stats.gamma(2.5, scale=0.5), {"floc": 0}),
        (positive.LogNormal, stats.lognorm(0.6, scale=2.0), {"floc": 0}),
        (bounded.Beta, stats.beta(2.0, 3.0), {"floc": 0, "fscale": 1}),
        (real.StudentT, stats.t(5, 1, 2), {}),
        (real.Laplace, stats.laplace(1, 2), {}),
    ],
)
def test_fits_are_at_least_as_likely_as_scipys(family, law, arguments):
    x = law.rvs(300, random_state=1)
    if family is real.Laplace:  # its likelihood has kinks: an odd number of rows puts the median on one
        with pytest.raises(UserValueError, match="no maximum"):
            maximum_likelihood(family, [1.0, 1.0, 1.0])
        return
    found = maximum_likelihood(family, x)
    peer = law.dist.fit(x, **arguments)
    assert found.log_likelihood >= law.dist.logpdf(x, *peer).sum() - 1e-6
    step = 1e-4
    for name in found.parameters:  # a maximum in every direction
        for sign in (-1, 1):
            moved = found.parameters | {name: found.parameters[name] * (1 + sign * step)}
            assert family(**moved).log_prob(x).sum() < found.log_likelihood


@pytest.mark.spec("BAY-26")
@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_the_unit_of_the_rows_is_no_matter(unit):
    x = RNG.exponential(0.3, 60)
    rate = maximum_likelihood(positive.Exponential, unit * x)
    assert math.isclose(rate.parameters["rate"], 1 / (unit * x).mean(), rel_tol=1e-6)
    assert math.isclose(rate.standard_errors["rate"], 1 / (unit * x).mean() / math.sqrt(60), rel_tol=1e-5)
    weight = RNG.integers(1, 4, 60)  # as many rows each: the errors are those of all
    normal, n = maximum_likelihood(real.Normal, unit * (x - 7), weight=weight), weight.sum()
    mean = np.average(x - 7, weights=weight)
    spread = math.sqrt(np.average((x - 7 - mean) ** 2, weights=weight))
    assert np.allclose([*normal.parameters.values()], [unit * mean, unit * spread], rtol=1e-6, atol=0)
    logs = maximum_likelihood(positive.LogNormal, unit * x)
    assert np.allclose([*logs.parameters.values()], [np.log(unit * x).mean(), np.log(x).std()], rtol=1e-6)
    errors = [unit * spread / math.sqrt(n), unit * spread / math.sqrt(2 * n)]
    assert np.allclose([*normal.standard_errors.values()], errors, rtol=1e-4, atol=0)


@pytest.mark.spec("BAY-26")
def test_where_there_is_no_maximum_it_is_said():
    for family, x, fixed in (
        (real.Normal, [2.0, 2.0, 2.0], None),
        (counts.Binomial, [1.0, 1.0], {"total_count": 1}),
        (counts.Poisson, [0.0, 0.0], None),
        (real.StudentT, stats.norm.ppf((np.arange(200) + 0.5) / 200), None),  # no end of the degrees of freedom
        (counts.NegativeBinomial, [2.0, 2.0, 3.0, 2.0], None),  # less spread than Poisson's: only a ratio is known
    ):
        with pytest.raises(UserValueError, match="no maximum"):
            maximum_likelihood(family, x, fixed=fixed)
    with pytest.raises(
        UserValueError, match=r"some rows are impossible under Gamma \(x\); drop them, or choose another family"
    ):
        maximum_likelihood(positive.Gamma, [1.0, -1.0])
    with pytest.raises(UserValueError, match="one per row"):
        maximum_likelihood(real.Normal, [1.0, 2.0], weight=[1.0])
    with pytest.raises(UserValueError, match=r"unknown parameter 'mu' \(fixed\); choose from loc, scale"):
        maximum_likelihood(real.Normal, [1.0, 2.0], fixed={"mu": 0.0})


@pytest.mark.spec("BAY-40")
def test_seven_of_ten_under_a_beta_prior():
    rows = [1.0] * 7 + [0.0] * 3

    def beta(parameters):  # Beta(2, 2)
        p = parameters["probs"]
        return torch.log(p) + torch.log1p(-p)

    found = maximum_a_posteriori(counts.Binomial, rows, beta, fixed={"total_count": 1})
    assert math.isclose(found.parameters["probs"], 2 / 3, rel_tol=1e-7)  # mode of Beta(9, 5)
    exact = 8 / (2 / 3) ** 2 + 4 / (1 / 3) ** 2
    assert math.isclose(found.covariance[0, 0], 1 / exact, rel_tol=1e-5)  # Laplace's
    assert math.isclose(found.log_likelihood, stats.bernoulli(2 / 3).logpmf(rows).sum())
    assert math.isclose(found.objective, 8 * math.log(2 / 3) + 4 * math.log(1 / 3))
    assert math.isclose(found.log_posterior({"probs": 0.4}), 8 * math.log(0.4) + 4 * math.log(0.6))
    assert math.isclose(found.distribution.pdf(1.0), 2 / 3)  # plugged in; averaged over the posterior it is 9/14
    flat = maximum_a_posteriori(counts.Binomial, rows, lambda p: 0 * p["probs"], fixed={"total_count": 1})
    assert math.isclose(flat.parameters["probs"], 0.7, rel_tol=1e-7)
    odds = maximum_a_posteriori(counts.Binomial, rows, beta, fixed={"total_count": 1}, mode_of="unconstrained")
    assert math.isclose(odds.parameters["probs"], 9 / 14, rel_tol=1e-7)  # the mode in log-odds is elsewhere
    assert math.isclose(odds.objective, 9 * math.log(9 / 14) + 5 * math.log(5 / 14))  # log p (1 - p) belongs to it
    assert math.isclose(odds.covariance[0, 0], 9 * 5 / 14**2 / 14, rel_tol=1e-6)  # (dp/du)^2 / (14 p (1 - p))
    with pytest.raises(UserValueError, match="no maximum inside"):  # Beta(1/2, 1/2) and no success: the mode is at 0
        maximum_a_posteriori(
            counts.Binomial, [0.0, 0.0], lambda p: -0.5 * (torch.log(p["probs"]) + torch.log1p(-p["probs"])),
            fixed={"total_count": 1},
        )  # fmt: skip
    with pytest.raises(UserValueError, match="mode_of must be"):
        maximum_a_posteriori(counts.Binomial, rows, beta, mode_of="other")


def line(x, p):
    return real.Normal(x @ p["w"] + p["b"], torch.tensor(0.5, dtype=torch.float64))


@pytest.mark.spec("BAY-40")
@pytest.mark.parametrize("weighted", [False, True])
def test_a_normal_prior_on_slopes_is_ridge(weighted):
    """lambda = noise variance / prior variance, the intercept flat: least squares with rows sqrt(lambda) w_j = 0."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 3))
    y = X @ [1.0, -2.0, 0.5] + 3 + 0.5 * rng.normal(size=40)
    weight = rng.integers(1, 4, 40) if weighted else np.ones(40, int)
    noise, prior = 0.25, 2.0

    def log_prior(p):
        return -0.5 * (p["w"] ** 2 / prior + math.log(2 * math.pi * prior)).sum()

    start = {"w": np.zeros(3), "b": 0.0}
    found = conditional_maximum_a_posteriori(line, X, y, start, log_prior, weight=weight if weighted else None)
    rows, target = np.repeat(np.c_[X, np.ones(40)], weight, axis=0), np.repeat(y, weight)
    penalty = math.sqrt(noise / prior) * np.eye(4)[:3]
    solution = np.linalg.lstsq(np.r_[rows, penalty], np.r_[target, np.zeros(3)], rcond=None)[0]
    w, b = found.parameters["w"], found.parameters["b"]
    assert np.allclose([*w, b], solution, rtol=1e-6)
    assert np.allclose(w, Ridge(alpha=noise / prior).fit(rows[:, :3], target).coef_, rtol=1e-6)
    by_system = gnomon.LinearRegression(l2=noise / prior / len(rows), standardize=False).fit(rows[:, :3], target)
    assert np.allclose(w, by_system.coef_) and math.isclose(by_system.intercept_, b, rel_tol=1e-6)
    assert np.allclose(found.covariance, noise * np.linalg.inv(rows.T @ rows + penalty.T @ penalty), rtol=1e-9)

    def log_posterior(w, b):
        likelihood = stats.norm(rows[:, :3] @ w + b, math.sqrt(noise)).logpdf(target).sum()
        return likelihood, likelihood + stats.norm(0, math.sqrt(prior)).logpdf(w).sum()

    assert np.allclose((found.log_likelihood, found.objective), log_posterior(w, b), rtol=1e-12)
    other = np.array([0.3, 0.1, -1.0])
    assert math.isclose(found.log_posterior({"w": other, "b": 2.0}), log_posterior(other, 2.0)[1])
    for step in 1e-3 * rng.normal(size=(20, 4)):
        assert found.log_posterior({"w": w + step[:3], "b": b + step[3]}) < found.objective
    new = rng.normal(size=(5, 3))
    plugged = found.predict(new)
    assert np.allclose(plugged.mean, new @ solution[:3] + solution[3], rtol=1e-6)
    assert np.allclose(plugged.variance, noise) and isinstance(plugged.mean, np.ndarray)  # no doubt about w
    flat = conditional_maximum_a_posteriori(line, X, y, start, weight=weight)
    assert np.allclose([*flat.parameters["w"], flat.parameters["b"]], np.linalg.lstsq(rows, target, rcond=None)[0])


@pytest.mark.spec("BAY-40")
def test_the_mode_of_a_model_without_a_closed_form_and_its_plug_in_prediction():
    """Logistic regression under a normal prior: Newton's method in NumPy, Laplace's covariance by its Hessian."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 2))
    y = (rng.random(60) < 1 / (1 + np.exp(-X @ [1.5, -1.0]))).astype(float)

    def coin(x, p):
        return counts.Binomial(torch.ones(len(x), dtype=torch.float64), torch.sigmoid(x @ p["w"]))

    found = conditional_maximum_a_posteriori(coin, X, y, {"w": [0.0, 0.0]}, lambda p: -0.5 * (p["w"] ** 2).sum() / 0.5)
    w = np.zeros(2)
    for _ in range(50):
        p = 1 / (1 + np.exp(-X @ w))
        hessian = X.T @ (X * (p * (1 - p))[:, None]) + np.eye(2) / 0.5
        w = w + np.linalg.solve(hessian, X.T @ (y - p) - w / 0.5)
    assert np.allclose(found.parameters["w"], w, rtol=1e-6)
    assert np.allclose(found.covariance, np.linalg.inv(hessian), rtol=1e-5)
    new = rng.normal(size=(4, 2))
    assert np.allclose(found.predict(new).pdf(np.ones(4)), 1 / (1 + np.exp(-new @ w)), rtol=1e-6)
    apart = np.sign(X[:, 0]) > 0  # separable without a prior: the weights have no end
    with pytest.raises(UserValueError, match=r"no maximum|must have a mode"):
        conditional_maximum_a_posteriori(
            lambda x, p: counts.Binomial(torch.ones(len(x), dtype=torch.float64), torch.sigmoid(x[:, 0] * p["w"])),
            X, apart, {"w": 0.0},
        )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        ((line, np.ones((3, 1)), [1.0]), {}, UserValueError, "y must have one value for each row of x"),
        ((line, np.ones((1, 1)), [1.0]), {"weight": [-1.0]}, UserValueError, "weight must be 1 numbers of at least 0"),
        ((lambda x, p: 3.0, np.ones((1, 1)), [1.0]), {}, UserTypeError, "model must answer one distribution per row"),
    ],
)
def test_what_is_no_conditional_model_is_refused(arguments, options, error, words):
    with pytest.raises(error, match=words):
        conditional_maximum_a_posteriori(*arguments, {"w": [0.0], "b": 0.0}, **options)
