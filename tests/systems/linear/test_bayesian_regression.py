"""Bayesian linear regression: hand-computed posterior, Gaussian processes, quadrature, the evidence's maximum."""

import itertools

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import DotProduct, WhiteKernel
from sklearn.linear_model import BayesianRidge

import gnomon
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.systems.linear.bayesian_regression import BayesianRegression
from gnomon.systems.linear.weight_priors import NormalInverseGamma, NormalWeights

x = np.array([[1.0], [2.0], [3.0]])
y = np.array([2.0, 3.0, 5.0])
PRIORS = {
    "normal": NormalWeights(variance=0.7, noise_variance=0.4),
    "normal-inverse-gamma": NormalInverseGamma(variance=0.7, concentration=2.5, rate=1.2),
    "evidence": "evidence",
}
INTERCEPTS = ("flat", "normal", "none")


def rows(n=40, d=4, seed=0, noise=0.8):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) * np.array([1, 5, 0.2, 2])[:d] + 3
    return X, X @ random.normal(size=d) + noise * random.normal(size=n) + 1


def exact(**changes):
    return BayesianRegression(**{"weight_prior": "normal", "intercept": "normal"} | changes)


@pytest.mark.spec("BAY-28")
def test_three_points_by_hand():
    fitted = exact().fit(x, y)
    mean, spread = fitted.predict([[2.5]], return_std=True)
    assert mean == pytest.approx([3.8333333], abs=1e-7)
    assert spread**2 == pytest.approx([1.4166667], abs=1e-7)
    design = np.column_stack([x, np.ones(3)])
    covariance = np.linalg.inv(design.T @ design + np.eye(2))
    np.testing.assert_allclose(fitted.covariance_, covariance, atol=1e-12)
    np.testing.assert_allclose([*fitted.coef_, fitted.intercept_], covariance @ design.T @ y, atol=1e-12)
    np.testing.assert_allclose(fitted.posterior_.loc, covariance @ design.T @ y, atol=1e-12)
    expected = stats.norm(3.8333333333, 1.4166666667**0.5).logpdf([3.0, 7.0])
    np.testing.assert_allclose(fitted.log_prob([[2.5], [2.5]], [3.0, 7.0]), expected, atol=1e-8)


@pytest.mark.spec("BAY-28")
def test_predictions_and_evidence_are_those_of_a_gaussian_process():
    X, Y = rows()
    peer = GaussianProcessRegressor(DotProduct(1) + WhiteKernel(1), optimizer=None, alpha=0).fit(X, Y)
    fitted = exact().fit(X, Y)
    new = rows(seed=1)[0]
    for ours, theirs in zip(fitted.predict(new, return_std=True), peer.predict(new, return_std=True), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-8)
    assert fitted.log_evidence_ == pytest.approx(peer.log_marginal_likelihood_value_, abs=1e-8)


@pytest.mark.spec("BAY-28")
def test_the_joint_is_likelihood_times_prior_and_the_evidence_its_integral():
    """By the trapezoidal rule, which is exact to all digits for smooth functions that vanish at the ends."""
    grid = np.linspace(-8, 8, 801)
    w, b = np.meshgrid(grid, grid, indexing="ij")

    def joint(w, b):
        line = stats.norm(w[..., None] * x[:, 0] + b[..., None], 0.4**0.5).logpdf(y).sum(-1)
        return line + stats.norm(0, 0.7**0.5).logpdf([w, b]).sum(0)

    fitted = exact(weight_prior=PRIORS["normal"]).fit(x, y)
    whole = np.log(np.exp(joint(w, b)).sum() * (grid[1] - grid[0]) ** 2)
    assert fitted.log_evidence_ == pytest.approx(whole, abs=1e-9)
    np.testing.assert_allclose(  # Bayes' rule, where the posterior is not 0 to all digits
        fitted.posterior_.log_prob(np.stack([w, b], -1)[400:600:9, 300:600:9]),
        joint(w, b)[400:600:9, 300:600:9] - whole, atol=1e-7,
    )  # fmt: skip


@pytest.mark.spec("BAY-28")
def test_the_evidence_of_an_unknown_variance_is_an_integral_over_it_too():
    w, t = np.meshgrid(np.linspace(-30, 30, 1001), np.linspace(-5, 9, 561), indexing="ij")
    variance = np.exp(t)
    line = stats.norm.logpdf(y, w[..., None] * x[:, 0], np.sqrt(variance)[..., None]).sum(-1)
    prior = stats.norm.logpdf(w, 0, np.sqrt(0.7 * variance)) + stats.invgamma.logpdf(variance, 2.5, scale=1.2)
    mass = np.exp(line + prior + t)  # d variance = variance dt
    whole = mass.sum() * (60 / 1000) * (14 / 560)
    fitted = exact(weight_prior=PRIORS["normal-inverse-gamma"], intercept="none").fit(x, y)
    assert fitted.log_evidence_ == pytest.approx(np.log(whole), abs=1e-6)
    assert fitted.noise_variance_ == pytest.approx((mass * variance).sum() / mass.sum(), rel=1e-4)
    assert fitted.coef_[0] == pytest.approx((mass * w).sum() / mass.sum(), rel=1e-6)
    assert fitted.covariance_[0, 0] == pytest.approx((mass * (w - fitted.coef_[0]) ** 2).sum() / mass.sum(), rel=1e-3)


@pytest.mark.spec("BAY-28")
@pytest.mark.parametrize(("prior", "intercept"), list(itertools.product(list(PRIORS)[:2], INTERCEPTS)))
def test_the_evidence_is_the_product_of_what_each_row_said_of_the_next(prior, intercept):
    X, Y = rows(n=12, d=2)
    start = 4
    system = exact(weight_prior=PRIORS[prior], intercept=intercept)
    before = system.fit(X[:start], Y[:start]).log_evidence_
    said = 0.0
    for i in range(start, 12):
        said += system.fit(X[:i], Y[:i]).log_prob(X[i : i + 1], Y[i : i + 1])[0]
    assert system.fit(X, Y).log_evidence_ - before == pytest.approx(said, abs=1e-8)


@pytest.mark.spec("BAY-28")
def test_a_flat_intercept_is_the_limit_of_a_wide_one():
    X, Y = rows(d=2)
    flat = exact(intercept="flat").fit(X, Y)
    wide = 1e4  # standard deviation of the intercept, entered as a column of this height
    limit = exact(intercept="none").fit(np.column_stack([X, np.full(40, wide)]), Y)
    np.testing.assert_allclose(flat.coef_, limit.coef_[:2], atol=1e-6)
    assert flat.log_evidence_ == pytest.approx(limit.log_evidence_ + np.log(wide * (2 * np.pi) ** 0.5), abs=1e-5)
    new = rows(seed=3, d=2)[0]
    np.testing.assert_allclose(
        flat.predict(new, return_std=True)[1],
        limit.predict(np.column_stack([new, np.full(40, wide)]), return_std=True)[1], atol=1e-6,
    )  # fmt: skip


@pytest.mark.spec("BAY-28")
@pytest.mark.parametrize(("n", "weighted"), [(40, False), (40, True), (3, False)])
def test_the_most_probable_variances_are_scikit_learns(n, weighted):
    X, Y = rows(n=n)
    weight = np.random.default_rng(1).uniform(0.5, 2, n) if weighted else np.ones(n)
    peer = BayesianRidge(
        fit_intercept=False, alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, tol=1e-12, max_iter=100_000,
        compute_score=True,
    ).fit(X, Y, sample_weight=weight)  # fmt: skip
    fitted = BayesianRegression(intercept="none").fit(X, Y, sample_weight=weight)
    assert fitted.noise_variance_ == pytest.approx(1 / peer.alpha_, rel=1e-6)
    assert fitted.noise_variance_ / fitted.history_["ratio"][0] == pytest.approx(1 / peer.lambda_, rel=1e-6)
    np.testing.assert_allclose(fitted.coef_, peer.coef_, rtol=1e-6)
    np.testing.assert_allclose(fitted.covariance_[:-1, :-1], peer.sigma_, rtol=1e-5, atol=1e-9)
    for ours, theirs in zip(fitted.predict(X, return_std=True), peer.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    if not weighted:
        assert fitted.log_evidence_ == pytest.approx(peer.scores_[-1], abs=1e-6)


@pytest.mark.spec("BAY-28")
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_no_other_variances_make_the_target_more_probable(intercept):
    X, Y = rows()
    best = BayesianRegression(intercept=intercept).fit(X, Y)
    noise = best.noise_variance_
    weights = noise / best.history_["ratio"][0]
    same = exact(weight_prior=NormalWeights(weights, noise), intercept=intercept).fit(X, Y)
    assert same.log_evidence_ == pytest.approx(best.log_evidence_, abs=1e-9)
    for a, b in itertools.product([1e-3, 0.97, 1, 1.03, 1e3], repeat=2):
        if (a, b) != (1, 1):
            other = exact(weight_prior=NormalWeights(weights * a, noise * b), intercept=intercept).fit(X, Y)
            assert other.log_evidence_ < best.log_evidence_


@pytest.mark.spec("BAY-28")
def test_a_known_variance_is_the_limit_of_a_law_of_it():
    X, Y = rows()
    sharp = exact(weight_prior=NormalInverseGamma(0.7 / 0.4, 1e9, 0.4e9)).fit(X, Y)
    known = exact(weight_prior=PRIORS["normal"]).fit(X, Y)
    assert sharp.log_evidence_ == pytest.approx(known.log_evidence_, abs=1e-4)
    np.testing.assert_allclose(sharp.log_prob(X, Y), known.log_prob(X, Y), atol=1e-5)
    law = exact(weight_prior=PRIORS["normal-inverse-gamma"]).fit(X, Y)
    assert law.noise_posterior_.mean == pytest.approx(law.noise_variance_, rel=1e-12)
    assert not hasattr(known, "noise_posterior_")


@pytest.mark.spec("BAY-28")
@pytest.mark.parametrize("prior", PRIORS)
def test_predictive_densities_integrate_to_one_and_have_the_told_moments(prior):
    fitted = BayesianRegression(weight_prior=PRIORS[prior]).fit(*rows())
    new = rows(seed=5)[0][:1]
    mean, spread = (float(part[0]) for part in fitted.predict(new, return_std=True))
    grid = np.linspace(mean - 60 * spread, mean + 60 * spread, 40_001)
    density = np.exp(fitted.log_prob(np.repeat(new, len(grid), axis=0), grid))
    found = [integrate.simpson(density * (grid - mean) ** k, x=grid) for k in (0, 1, 2)]
    assert found == pytest.approx([1, 0, spread**2], rel=1e-4, abs=1e-6)


@pytest.mark.spec("BAY-28")
@pytest.mark.parametrize("prior", PRIORS)
def test_drawn_targets_hang_together_as_the_posterior_says(prior):
    X, Y = rows(n=8, d=2)
    fitted = BayesianRegression(weight_prior=PRIORS[prior]).fit(X, Y)
    new = np.array([[10.0, 20.0], [11.0, 19.0]])
    draws = np.array([fitted.sample(new, random_state=seed) for seed in range(4000)])
    mean, spread = fitted.predict(new, return_std=True)
    z = (draws - mean) / spread
    phi = np.column_stack([new, np.ones(2)])
    expected = (phi @ fitted.covariance_ @ phi.T)[0, 1] / spread.prod()
    assert expected > 0.3  # the rows share one line
    # six standard errors; a squared t of 13 degrees of freedom has kurtosis 3.7, hence the 3
    assert np.abs(z.mean(0)).max() < 6 / 4000**0.5
    assert np.abs(z.var(0) - 1).max() < 6 * (3 / 4000) ** 0.5
    assert (z[:, 0] * z[:, 1]).mean() == pytest.approx(expected, abs=6 * (3 / 4000) ** 0.5)


@pytest.mark.spec("BAY-28")
def test_rows_cannot_be_drawn_and_it_says_so(tmp_path, capsys):
    fitted = BayesianRegression().fit(*rows())
    with pytest.raises(UserTypeError, match="bayesian-regression is a model of y given x and cannot draw rows x"):
        fitted.sample(10)
    from gnomon.cli.main import run

    assert run(["sample", str(fitted.save(tmp_path / "m")), "-n", "3"]) == 2
    said = capsys.readouterr().err
    assert "cannot draw rows x" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_a_weight_is_so_many_rows_and_chunks_are_one_fit(prior, intercept):
    X, Y = rows()
    count = np.random.default_rng(1).integers(0, 4, 40)
    system = BayesianRegression(weight_prior=PRIORS[prior], intercept=intercept)
    found = {k: v.copy() for k, v in system.fit(X, Y, sample_weight=count).model_.state().items()}
    again = system.fit(np.repeat(X, count, axis=0), np.repeat(Y, count)).model_.state()
    for name in found:
        np.testing.assert_allclose(found[name], again[name], atol=1e-9)
    whole = system.fit(X, Y)
    chunked = BayesianRegression(weight_prior=PRIORS[prior], intercept=intercept)
    for part in (slice(0, 7), slice(7, 30), slice(30, 40)):
        chunked.partial_fit(X[part], Y[part])
    np.testing.assert_allclose(chunked.coef_, whole.coef_, atol=1e-8)
    assert chunked.log_evidence_ == pytest.approx(whole.log_evidence_, abs=1e-8)


def test_units_and_offsets():
    X, Y = rows()
    plain = BayesianRegression(standardize=True).fit(X, Y)
    other = BayesianRegression(standardize=True).fit(X * [1e3, 1, 1e-4, 1] + [0, 1e5, 0, 0], 100 * Y - 1e6)
    np.testing.assert_allclose(other.coef_ / 100 * [1e3, 1, 1e-4, 1], plain.coef_, rtol=1e-6)
    assert other.log_evidence_ == pytest.approx(plain.log_evidence_ - 39 * np.log(100), abs=1e-5)
    raw = BayesianRegression().fit((X - X.mean(0)) / X.std(0), Y)
    np.testing.assert_allclose(raw.coef_ / X.std(0), plain.coef_, rtol=1e-8)


def test_targets_without_noise_or_without_rows():
    with pytest.warns(UserWarning, match="predicted without error"):
        fitted = BayesianRegression().fit(x, 2 * x[:, 0])
    assert fitted.coef_ == pytest.approx([2], abs=1e-6)
    with pytest.raises(UserValueError, match="1 sample"):
        BayesianRegression().fit(x[:1], y[:1])
    alone = BayesianRegression(weight_prior="normal").fit(x[:1], y[:1])
    assert alone.predict(x) == pytest.approx([2, 2, 2])
    random = np.random.default_rng(0)
    idle = BayesianRegression().fit(random.normal(size=(60, 2)), random.normal(size=60) + 4)
    assert np.isfinite(idle.log_evidence_)
    assert np.abs(idle.coef_).max() < 0.3


def test_what_is_refused():
    with pytest.raises(UserValueError, match="evidence"):
        BayesianRegression(weight_prior="evidenc").fit(x, y)
    with pytest.raises(UserError, match="variance"):
        BayesianRegression(weight_prior=NormalWeights(variance=0.0)).fit(x, y)
    assert gnomon.make("bayesian-regression", weight_prior="normal", weight_prior__variance=2.0).weight_prior == (
        NormalWeights(variance=2.0)
    )


def test_weights_whose_squares_overflow_are_refused():
    X = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(UserValueError, match=r"a sum from 1e-154 to 1e\+154, got 3.*e\+301 in float64"):
        BayesianRegression().fit(X, X[:, 0], sample_weight=np.full(30, 1e300))
