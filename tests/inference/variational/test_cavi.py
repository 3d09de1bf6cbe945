"""`gnomon.fit_posterior(..., method="cavi")`: known posteriors by name, draws and densities of what comes back."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

import gnomon
from gnomon.errors import UserError
from gnomon.inference.exact.factors import Factor
from gnomon.inference.exact.linear_gaussian import LinearGaussian
from gnomon.inference.parameters import Support
from gnomon.inference.variational.cavi import Cavi
from gnomon.inference.variational.coordinate_chains import ChainFactors
from gnomon.inference.variational.coordinate_forms import GaussianFactor, Grid
from gnomon.inference.variational.coordinate_mixed import factorization
from gnomon.inference.variational.coordinate_normals import NormalFactors
from gnomon.inference.variational.coordinate_tables import TableFactors
from gnomon.inference.variational.families import MeanField
from gnomon.inference.variational.method import VariationalProblem
from gnomon.numeric.noise import Noise

X = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
NAMES = {"mean": (), "precision": Support(low=0.0)}


def normal_gamma(at):
    """log p(x, mean, precision): mean ~ N(0, 1 / precision), precision ~ Gamma(2, 1), three normal rows."""
    mean, t = at["mean"], at["precision"]
    squares = mean**2 + ((X - mean[:, None]) ** 2).sum(1)
    return 3 * t.log() - t * (1 + squares / 2) - 2 * math.log(2 * math.pi)


@pytest.mark.spec("BAY-45", "INF-96")
def test_mean_and_precision_by_name():
    found = gnomon.fit_posterior(normal_gamma, method="cavi", parameters=NAMES, random_state=0)
    assert found.converged_
    assert found.elbo_.value == pytest.approx(-6.703381, abs=5e-7)
    assert found.elbo_.kind == "lower bound"
    assert found.elbo_.error == 0
    mean, precision = found.marginals["mean"], found.marginals["precision"]
    assert (float(mean.mean), float(mean.variance)) == pytest.approx((1.5, 0.25), abs=1e-8)
    assert (float(precision.mean), float(precision.variance)) == pytest.approx((1.0, 0.25), abs=1e-8)
    assert (np.diff(found.elbo_history_) >= -1e-10).all()
    drawn = found.sample(4000, random_state=1)
    assert stats.kstest(drawn["mean"], stats.norm(1.5, 0.5).cdf).pvalue > 1e-4
    assert stats.kstest(drawn["precision"], stats.gamma(4, scale=0.25).cdf).pvalue > 1e-4
    known = stats.norm(1.5, 0.5).logpdf(drawn["mean"]) + stats.gamma(4, scale=0.25).logpdf(drawn["precision"])
    np.testing.assert_allclose(found.log_prob(drawn), known, atol=1e-7)
    assert np.isfinite(found.pareto_k_)
    assert "precision" in found.table()


@pytest.mark.spec("BAY-45")
def test_gradients_agree_where_the_factors_are_normal():
    root = np.array([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [-0.3, 0.4, 0.8]])
    P = torch.from_numpy(root @ root.T)

    def log_p(at):
        off = at["w"] - torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
        return -0.5 * ((off @ P) * off).sum(1)

    ours = gnomon.fit_posterior(log_p, method="cavi", parameters={"w": 3}, random_state=0, method__tol=0.0)
    theirs = gnomon.fit_posterior(log_p, method="advi", parameters={"w": 3}, random_state=0, restarts=1)
    np.testing.assert_allclose(ours.mean["w"], (1.0, -2.0, 0.5), atol=1e-6)
    variances = [float(ours.marginals[f"w[{i}]"].variance) for i in range(3)]
    np.testing.assert_allclose(variances, 1 / np.diag(P.numpy()), rtol=1e-9)
    np.testing.assert_allclose(theirs.mean["w"], ours.mean["w"], atol=1e-4)
    assert ours.elbo_.value == pytest.approx(theirs.elbo_.value, abs=4 * theirs.elbo_.error + 1e-4)


def drawn_agree(found, n=20_000):
    """Draws have the probabilities that log_prob and marginals say."""
    draws = found.sample(n, random_state=3)
    assert np.isfinite(found.log_prob(draws)).all()
    for name, one in found.marginals.items():
        x = draws[name]
        assert abs(x.mean() - one.mean) < 5 * math.sqrt(max(one.variance, 1e-12) / n) + 1e-9  # 1 in 10^6
    return draws


@pytest.mark.spec("INF-83", "INF-84")
def test_tables_blocks_and_chains():
    random = np.random.default_rng(0)
    table = random.normal(size=(1, 2, 3, 2))
    evidence = math.log(np.exp(table).sum())
    apart = gnomon.fit_posterior(TableFactors(table), method="cavi", random_state=0)
    assert apart.elbo_.value < evidence
    draws = drawn_agree(apart)
    assert abs(np.corrcoef(draws["h1"], draws["h3"])[0, 1]) < 5 / math.sqrt(20_000)
    whole = gnomon.fit_posterior(TableFactors(table, blocks=[["h1", "h2", "h3"]]), method="cavi", random_state=0)
    assert whole.elbo_.value == pytest.approx(evidence, abs=1e-10)
    assert whole.pareto_k_ == 0.0  # q is the posterior
    draws = drawn_agree(whole)
    p = np.exp(table[0] - evidence)
    counts = np.zeros(p.shape)
    np.add.at(counts, tuple(draws[name].astype(int) for name in ("h1", "h2", "h3")), 1)
    assert stats.chisquare(counts.ravel(), 20_000 * p.ravel()).pvalue > 1e-4
    states = np.array(list(itertools.product(range(2), range(3), range(2))), float)
    values = dict(zip(("h1", "h2", "h3"), states.T, strict=True))
    np.testing.assert_allclose(whole.log_prob(values), np.log(p.ravel()), atol=1e-10)
    factors = [Factor(("a", "b"), random.normal(size=(2, 3))), Factor(("b", "c"), random.normal(size=(3, 2)))]
    chain = gnomon.fit_posterior(ChainFactors(factors, [["a", "b", "c"]]), method="cavi", random_state=0)
    assert chain.pareto_k_ == 0.0
    drawn_agree(chain, 4000)
    parts = gnomon.fit_posterior(ChainFactors(factors, [["a", "b"]]), method="cavi", random_state=0)
    assert parts.elbo_.value < chain.elbo_.value


@pytest.mark.spec("INF-96", "INF-98")
def test_normal_factors_and_mixed_ones():
    model = LinearGaussian([[1.0, 2.0]])
    found = gnomon.fit_posterior(model, method="cavi", data=[[3.0]], random_state=0)
    assert [float(found.mean[name]) for name in ("h1", "h2")] == pytest.approx([0.5, 1.0], abs=1e-4)
    assert [float(found.marginals[name].variance) for name in ("h1", "h2")] == pytest.approx([0.5, 0.2])
    assert model.log_prob(np.array([[3.0]]))[0] - found.elbo_.value == pytest.approx(0.255413, abs=1e-6)
    whole = gnomon.fit_posterior(NormalFactors.of(model, [[3.0]], blocks=[["h1", "h2"]]), method="cavi", random_state=0)
    assert whole.pareto_k_ == 0.0
    draws = drawn_agree(whole)
    mean, covariance = model.posterior(np.array([[3.0]]))
    np.testing.assert_allclose(np.cov(draws["h1"], draws["h2"]), covariance, atol=0.03)
    at = {"h1": np.array([0.1, 2.0]), "h2": np.array([0.5, -1.0])}
    known = stats.multivariate_normal(mean[0], covariance).logpdf(np.stack(list(at.values()), 1))
    np.testing.assert_allclose(whole.log_prob(at), known, atol=1e-10)
    rows = gnomon.fit_posterior(model, method="cavi", data=[[3.0], [1.0]], random_state=0)
    assert sorted(rows.marginals) == ["h1[0]", "h1[1]", "h2[0]", "h2[1]"]
    assert math.isnan(rows.pareto_k_)
    pair = factorization(lambda s, x: -0.5 * x**2 - 2 * (1.3 - s * x) ** 2 + 0.4 * s, {"s": 2, "x": GaussianFactor()})
    mixed = gnomon.fit_posterior(pair, method="cavi", random_state=0)
    drawn_agree(mixed)
    grid = gnomon.fit_posterior(
        lambda at: 2 * at["p"].log() + 3 * (1 - at["p"]).log(), method="cavi",
        parameters={"p": Support(low=0.0, high=1.0)}, random_state=0,
    )  # fmt: skip
    assert float(grid.mean["p"]) == pytest.approx(3 / 7, abs=1e-4)
    assert grid.elbo_.value == pytest.approx(math.log(math.gamma(3) * math.gamma(4) / math.gamma(7)), abs=1e-3)
    drawn_agree(grid)


@pytest.mark.spec("INF-92")
@pytest.mark.parametrize("recipe", [Cavi(), Cavi(parallel=True), Cavi(parallel=True, damping=0.5)])
def test_an_ascent_goes_on_bitwise_from_its_state(recipe):
    problem = VariationalProblem(TableFactors(2 * np.random.default_rng(1).normal(size=(3, 2, 2, 2))), MeanField())
    whole, noise = recipe.ascent(problem, Noise(0, "ascent")), Noise(0, "ascent")
    bounds = [whole.step(t).bound for t in range(6)]
    part = recipe.ascent(problem, noise)
    for t in range(3):
        part.step(t)
    again = recipe.ascent(problem, noise)
    arrays = {name: np.array(x) for name, x in part.state().items()}
    assert all(np.isfinite(x).all() for x in arrays.values())
    again.load(arrays)
    assert [again.step(t).bound for t in range(3, 6)] == bounds[3:]


@pytest.mark.spec("BAY-45")
def test_what_coordinate_ascent_cannot_do_is_told():
    fit = gnomon.fit_posterior
    for act, words in [
        (lambda: fit(lambda x: -(x**2).sum(1), method="cavi", start=2), "target must have known factors"),
        (
            lambda: fit(normal_gamma, "full", "cavi", parameters=NAMES),
            "family must be mean-field for coordinate ascent",
        ),
        (lambda: fit(normal_gamma, method="cavi", parameters=NAMES, batch_size=2), "takes all rows at once"),
        (lambda: fit(LinearGaussian([[1.0]]), method="cavi"), "needs the rows it is given"),
        (
            lambda: fit(lambda at: -(at["t"] ** 4), method="cavi", parameters={"t": ()}),
            "the log joint must be a quadratic in t",
        ),
        (
            lambda: fit(lambda at: -at["t"], method="cavi", parameters={"t": Support(low=2.0)}),
            "t must be real, positive or between two ends",
        ),
    ]:
        with pytest.raises(UserError, match=words):
            act()
    fitted = fit(TableFactors(np.zeros((1, 2, 2))), method="cavi", random_state=0)
    with pytest.raises(UserError, match="values must be among those"):
        fitted.log_prob({"h1": [5.0], "h2": [0.0]})
    with pytest.raises(UserError, match="'h2' is missing"):
        fitted.log_prob({"h1": [0.0]})
    assert Grid(cells=3).cells == 3
