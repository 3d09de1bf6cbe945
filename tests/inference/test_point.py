"""Point estimates against closed forms, SciPy's fits and scikit-learn's ridge."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.linear_model import Ridge

from gnomon.distributions import bounded, counts, positive, real
from gnomon.errors import UserValueError
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
def test_where_there_is_no_maximum_it_is_said():
    for family, x, fixed in (
        (real.Normal, [2.0, 2.0, 2.0], None),
        (counts.Binomial, [1.0, 1.0], {"total_count": 1}),
        (counts.Poisson, [0.0, 0.0], None),
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
    flat = maximum_a_posteriori(counts.Binomial, rows, lambda p: 0 * p["probs"], fixed={"total_count": 1})
    assert math.isclose(flat.parameters["probs"], 0.7, rel_tol=1e-7)
    odds = maximum_a_posteriori(counts.Binomial, rows, beta, fixed={"total_count": 1}, mode_of="unconstrained")
    assert math.isclose(odds.parameters["probs"], 9 / 14, rel_tol=1e-7)  # the mode in log-odds is elsewhere
    with pytest.raises(UserValueError, match="mode_of must be"):
        maximum_a_posteriori(counts.Binomial, rows, beta, mode_of="other")


@pytest.mark.spec("BAY-40")
def test_a_normal_prior_on_slopes_is_ridge():
    """lambda = noise variance / prior variance; gradient ascent on the log posterior against the penalized fit."""
    X = RNG.normal(size=(40, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.3 * RNG.normal(size=40)
    noise, prior = 0.25, 2.0
    w = np.linalg.solve(X.T @ X / noise + np.eye(3) / prior, X.T @ y / noise)  # zero of the log posterior's slope
    assert np.allclose(w, Ridge(alpha=noise / prior, fit_intercept=False).fit(X, y).coef_)
    one = maximum_a_posteriori(
        real.Normal, y - X[:, 1:] @ w[1:],
        lambda p: -0.5 * (p["loc"] / math.sqrt(prior)) ** 2, fixed={"scale": math.sqrt(noise)},
    )  # fmt: skip
    shrunk = (y - X[:, 1:] @ w[1:]).sum() / noise / (40 / noise + 1 / prior)
    assert math.isclose(one.parameters["loc"], shrunk, rel_tol=1e-7)
