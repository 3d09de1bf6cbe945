"""Gradients of expectations, along the path of a draw and by the score function, against closed forms.

Random tests have fixed seeds. A mean of draws must lie within 4 standard errors where the row says so, else within 5:
at another seed a right estimator fails with probability 6e-5 or 6e-7 for each number.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from gnomon.distributions import bounded, counts, positive, real, vectors
from gnomon.distributions.bernoulli import Bernoulli
from gnomon.distributions.spike_and_slab import SpikeAndSlab
from gnomon.distributions.table import Categorical
from gnomon.errors import UserError, UserTypeError
from gnomon.inference.montecarlo.gradients import optimal_baseline, pathwise_gradient, score_gradient
from gnomon.numeric.noise import Noise

F64 = torch.float64
NOISE = Noise(0, "draws")
N = 40_000


def square(y, distribution):
    return y**2


def closed_form(distribution, h=lambda mean, variance: mean**2 + variance):
    """The gradient of a function of mean and variance, those of torch's own formulas."""
    own = type(distribution)(
        *(
            torch.tensor(float(getattr(distribution, name)), dtype=F64, requires_grad=True)
            for name in distribution.parameters
        )
    )
    leaves = [getattr(own, name) for name in distribution.parameters]
    found = torch.autograd.grad(h(own.mean, own.variance), leaves, allow_unused=True)
    return {n: 0.0 if s is None else s.item() for n, s in zip(distribution.parameters, found, strict=True)}


def holds(found, exact, errors=5.0):
    """Whether every mean lies near its exact value, and the errors are small enough to tell."""
    for name, value in exact.items():
        mean = found[name]
        assert np.all(np.abs(mean.mean - np.asarray(value)) < errors * mean._stderr() + 1e-9), name
    return True


@pytest.mark.spec("BAY-71", "BAY-69")
def test_both_estimates_of_a_square_have_the_published_mean_and_variance():
    """E[y^2] of N(1, 1) by its mean: slope 2; of a single draw variance 4 along the path, 30 by the score."""
    distribution = real.Normal(1.0, 1.0)
    path, score = (
        pathwise_gradient(square, distribution, 200_000, NOISE),
        score_gradient(square, distribution, 200_000, NOISE),
    )
    for found, variance in ((path, 4.0), (score, 30.0)):
        assert abs(found["loc"].mean - 2.0) < 4 * found["loc"]._stderr()
        assert found["loc"].variance == pytest.approx(variance, rel=0.05)
    gap = math.hypot(path["loc"]._stderr(), score["loc"]._stderr())
    assert abs(path["loc"].mean - score["loc"].mean) < 4 * gap
    assert holds(path, {"scale": 2.0}) and holds(score, {"scale": 2.0})  # E[y^2] = m^2 + s^2


@pytest.mark.spec("GEN-068", "BAY-71", "BAY-70")
@pytest.mark.parametrize(
    "distribution",
    [
        real.Normal(-0.5, 1.3), positive.Exponential(2.0), positive.Gamma(0.8, 2.0), positive.Gamma(6.0, 0.5),
        bounded.Beta(0.7, 2.0), bounded.Uniform(-1.0, 2.0), real.Laplace(0.3, 0.8), real.StudentT(12.0, 0.3, 1.2),
        positive.LogNormal(0.1, 0.4), bounded.TruncatedNormal(0.2, 1.0, -0.5, 1.5), positive.InverseGamma(12.0, 3.0),
    ],
    ids=str,
)  # fmt: skip
def test_paths_agree_with_the_score_and_with_closed_forms_on_quadratics(distribution):
    """E[(y - 1)^2 + y] by mean and variance. The ends of an interval have no score: the density jumps there."""
    exact = closed_form(distribution, lambda mean, variance: (mean - 1) ** 2 + variance + mean)
    path = pathwise_gradient(lambda y, distribution: (y - 1) ** 2 + y, distribution, N, NOISE)
    assert holds(path, exact)
    assert any(abs(value) > 10 * path[name]._stderr() for name, value in exact.items())  # the test could tell
    smooth = {name: value for name, value in exact.items() if name not in ("low", "high")}
    score = score_gradient(
        lambda y, distribution: (y - 1) ** 2 + y, distribution, N, Noise(1, "draws"), baseline="leave-one-out"
    )
    assert holds(score, smooth)


@pytest.mark.spec("GEN-068", "BAY-70")
def test_an_exponential_by_its_inverse():
    """E[y] = 1 / rate and E[y^2] = 2 / rate^2."""
    for rate in (2.0, 0.5):
        distribution = positive.Exponential(rate)
        assert holds(pathwise_gradient(lambda y, distribution: y, distribution, N, NOISE), {"rate": -1 / rate**2})
        assert holds(pathwise_gradient(square, distribution, N, NOISE), {"rate": -4 / rate**3})
    found = pathwise_gradient(lambda y, distribution: y, positive.Exponential(2.0), N, NOISE)["rate"]
    assert found.mean == pytest.approx(-0.25, abs=5 * 0.25 / math.sqrt(N))


@pytest.mark.spec("BAY-71", "BAY-69", "GEN-069")
def test_a_cost_that_knows_the_parameters_has_their_slope_too():
    """E[a y^2] with a the mean itself: (m^3 + m s^2)' = 3 m^2 + s^2 by m, 2 m s by s."""
    distribution = real.Normal(0.7, 1.2)
    for estimate in (pathwise_gradient, score_gradient):
        found = estimate(lambda y, distribution: distribution.loc * y**2, distribution, N, NOISE)
        assert holds(found, {"loc": 3 * 0.49 + 1.44, "scale": 2 * 0.7 * 1.2})
    alone = pathwise_gradient(lambda y, distribution: distribution.scale**2, distribution, 10, NOISE)
    assert alone["scale"].mean == pytest.approx(2.4) and alone["loc"].mean == 0


@pytest.mark.spec("BAY-71")
def test_at_held_noise_the_slope_is_a_difference():
    def mean_cost(loc, scale):
        y = real.Normal(loc, scale).rsample(NOISE, 0, (100,))
        return float((torch.sin(y) * y).mean())

    found = pathwise_gradient(lambda y, distribution: torch.sin(y) * y, real.Normal(0.4, 1.1), 100, NOISE)
    h = 1e-6
    assert found["loc"].mean == pytest.approx((mean_cost(0.4 + h, 1.1) - mean_cost(0.4 - h, 1.1)) / (2 * h), rel=1e-7)
    assert found["scale"].mean == pytest.approx((mean_cost(0.4, 1.1 + h) - mean_cost(0.4, 1.1 - h)) / (2 * h), rel=1e-7)


@pytest.mark.spec("BAY-71", "GEN-068")
def test_jumps_and_discrete_draws_are_refused_along_the_path_and_right_by_the_score():
    """P(y > 0) of N(m, 1) has the slope phi(m); the path sees none, and of a slope with a jump only the slope."""
    distribution, phi = real.Normal(0.3, 1.0), math.exp(-0.045) / math.sqrt(2 * math.pi)
    for step in (
        lambda y, distribution: (y > 0).double(),
        lambda y, distribution: torch.sign(y) / 2,
        lambda y, distribution: torch.floor(y),
    ):
        with pytest.raises(UserTypeError, match=r"made of jumps.*score_gradient"):
            pathwise_gradient(step, distribution, 500, NOISE)
    assert holds(score_gradient(lambda y, distribution: (y > 0).double(), distribution, N, NOISE), {"loc": phi})
    assert holds(score_gradient(lambda y, distribution: y + (y > 0), distribution, N, NOISE), {"loc": 1 + phi})
    biased = pathwise_gradient(lambda y, distribution: y + (y > 0), distribution, 100, NOISE)["loc"]
    assert biased.mean == pytest.approx(1.0) and biased.variance < 1e-20
    for discrete in (counts.Poisson(2.0), Categorical(np.zeros(3)), SpikeAndSlab(0.4)):
        with pytest.raises(UserTypeError, match=r"no gradient.*score_gradient"):
            pathwise_gradient(square, discrete, 10, NOISE)
    # E[y^2] = rate + rate^2
    assert holds(score_gradient(square, counts.Poisson(2.0), N, NOISE), {"rate": 5.0})


@pytest.mark.spec("GEN-069", "GEN-070", "GEN-071")
def test_a_coin_has_the_published_gradient_and_variances():
    """P(1) = 0.3 by its logit, costs 5 and 1: gradient 0.84, variance of a draw 3.0324, and 0.5376 with b = E = 2.2."""
    coin = Bernoulli(np.array([math.log(0.3 / 0.7)]))

    def cost(y, distribution):
        return 1 + 4 * y

    for baseline, variance in ((None, 3.0324), (2.2, 0.5376), ("leave-one-out", 0.5376), (3.8, 0.0)):
        found = score_gradient(cost, coin, N, NOISE, baseline=baseline)["logits"]
        assert np.abs(found.mean - 0.84) < 5 * found._stderr() + 1e-12
        assert found.variance == pytest.approx(variance, rel=0.03, abs=1e-12)
    given = {"logits": np.array([3.8])}
    for baseline, variance in (
        ("mean", 0.5376),
        (lambda own: 1 + 4 * own.logits.sigmoid().mean(), 0.5376),
        (given, 0.0),
    ):
        found = score_gradient(cost, coin, N, NOISE, baseline=baseline)["logits"]
        assert np.abs(found.mean - 0.84) < 5 * found._stderr() + 1e-12
        assert found.variance == pytest.approx(variance, rel=0.03, abs=1e-12)
    found = score_gradient(cost, coin, N, NOISE, baseline="optimal")["logits"]  # 3.8 from draws, to within 0.01
    assert found.variance < 1e-4 and np.abs(found.mean - 0.84) < 5 * found._stderr()


class Listed(Categorical):
    """Draws that are given, in turn."""

    codes: tuple[int, ...] = ()

    def sample(self, noise, draw=0, shape=()):
        return torch.tensor(self.codes)


@pytest.mark.spec("BAY-69", "GEN-069")
@pytest.mark.parametrize("baseline", [None, 1.7, -3.0, "leave-one-out"])
def test_the_score_is_exact_in_mean_by_enumeration_of_all_draws(baseline):
    """Every outcome of three draws of a category with its probability; a cost that knows the logits beside."""
    logits = np.array([0.3, -0.5, 1.1, 0.0])
    p = np.exp(logits) / np.exp(logits).sum()
    costs = torch.tensor([2.0, -1.0, 0.5, 4.0], dtype=F64)

    def cost(y, distribution):
        return costs[y] + distribution.logits[:, 0] * distribution.logits[:, 2] * y

    given = torch.tensor(logits, requires_grad=True)
    (exact,) = torch.autograd.grad((given.softmax(0) * (costs + given[0] * given[2] * torch.arange(4))).sum(), given)
    total = 0.0
    for codes in itertools.product(range(4), repeat=3):
        distribution = type("Three", (Listed,), {"codes": codes})(logits)
        total = (
            total
            + p[list(codes)].prod() * score_gradient(cost, distribution, 3, NOISE, baseline=baseline)["logits"].mean
        )
    assert np.allclose(total, exact, rtol=1e-12)


@pytest.mark.spec("GEN-070", "GEN-071")
def test_the_optimal_baseline_of_a_die_is_the_lowest_variance_of_every_logit():
    """Chances 0.3, 0.3, 0.4 as ten draws; by minimization over b for each logit, and unbiased for any b whatever."""
    p, costs = np.array([0.3, 0.3, 0.4]), np.array([2.0, -1.0, 5.0])
    distribution = type("Ten", (Listed,), {"codes": (0,) * 3 + (1,) * 3 + (2,) * 4})(np.log(p))
    found = optimal_baseline(lambda y, distribution: torch.from_numpy(costs)[y], distribution, 10, NOISE)["logits"]
    scores = np.eye(3) - p  # by outcome, logit
    exact = p @ (costs[:, None] * scores)

    def variance(b, logit):
        return p @ ((costs - b) * scores[:, logit]) ** 2 - exact[logit] ** 2

    for logit in range(3):
        assert found[logit] == pytest.approx(minimize_scalar(variance, args=(logit,)).x, rel=1e-6)
        assert variance(found[logit], logit) < min(variance(0, logit), variance(p @ costs, logit))
    mine = score_gradient(
        lambda y, distribution: torch.from_numpy(costs)[y], distribution, 10, NOISE, baseline={"logits": found}
    )["logits"]
    np.testing.assert_allclose(mine.mean, exact, rtol=1e-12)
    np.testing.assert_allclose(mine.variance * 0.9, [variance(found[i], i) for i in range(3)], rtol=1e-10)
    for b in np.random.default_rng(0).normal(0, 10, (5, 3)):
        unbiased = score_gradient(
            lambda y, distribution: torch.from_numpy(costs)[y], distribution, 10, NOISE, baseline={"logits": b}
        )["logits"]
        np.testing.assert_allclose(unbiased.mean, exact, rtol=1e-12)
    flat = score_gradient(lambda y, distribution: 0.0 * y + 3, distribution, 10, NOISE, baseline="optimal")["logits"]
    np.testing.assert_allclose(flat.mean, 0, atol=1e-12)


@pytest.mark.spec("GEN-071")
def test_a_parameter_without_any_score_has_the_mean_cost_as_its_baseline():
    certain = Categorical(np.array([0.0, -np.inf]))
    assert optimal_baseline(lambda y, distribution: y + 7.0, certain, 5, NOISE)["logits"].tolist() == [7.0, 7.0]


@pytest.mark.spec("GEN-069")
def test_a_product_of_categories_by_enumeration():
    """Two categories in one distribution, their nine outcomes with their probabilities; whole costs."""
    logits = np.array([[0.2, -0.4, 0.9], [1.0, 0.0, -0.3]])
    given = torch.tensor(logits, requires_grad=True)
    p = given.softmax(1)
    costs = torch.tensor([[3, 1, 0], [0, 2, 5], [1, 1, 7]])
    (exact,) = torch.autograd.grad((p[0][:, None] * p[1] * costs).sum(), given)
    total = 0.0
    for i, j in itertools.product(range(3), repeat=2):
        distribution = type("Pair", (Listed,), {"codes": ((i, j),)})(logits)
        chance = (p[0, i] * p[1, j]).item()
        total = (
            total
            + chance
            * score_gradient(lambda y, distribution: costs[y[:, 0], y[:, 1]], distribution, 1, NOISE)["logits"].mean
        )
    assert np.allclose(total, exact, rtol=1e-12)


def test_a_product_of_coins_is_a_batch_of_variables():
    """E[y1 y2 + y2 y3] of three coins in one distribution, by its polynomial."""
    logits = np.array([0.2, -0.4, 0.9])
    p = 1 / (1 + np.exp(-logits))
    exact = p * (1 - p) * np.array([p[1], p[0] + p[2], p[1]])
    found = score_gradient(lambda y, distribution: y[:, 0] * y[:, 1] + y[:, 1] * y[:, 2], Bernoulli(logits), N, NOISE)
    assert holds(found, {"logits": exact})


def test_more_draws_go_on_where_fewer_end_and_batches_change_nothing(monkeypatch):
    from gnomon.inference.montecarlo import gradients

    distribution = positive.Gamma(2.0, 1.0)
    whole = pathwise_gradient(square, distribution, 100, NOISE)
    monkeypatch.setattr(gradients, "BATCH", 7)
    for estimate in (pathwise_gradient, score_gradient):
        parts = estimate(square, distribution, 100, NOISE)
        assert parts["rate"].count == 100 and parts["concentration"].mean != 0
    assert pathwise_gradient(square, distribution, 100, NOISE)["rate"].mean == pytest.approx(
        whole["rate"].mean, rel=1e-12
    )
    loo = score_gradient(square, distribution, 100, NOISE, baseline="leave-one-out")
    monkeypatch.undo()
    again = score_gradient(square, distribution, 100, NOISE, baseline="leave-one-out")
    assert loo["rate"].mean == pytest.approx(again["rate"].mean, rel=1e-12)


def test_a_vector_law_of_several_entries():
    """E[sum c_k p_k] of a Dirichlet vector: (c_k - E) / sum(a)."""
    a, c = np.array([0.5, 2.0, 1.5]), np.array([1.0, -1.0, 3.0])
    found = pathwise_gradient(lambda y, distribution: y @ torch.from_numpy(c), vectors.Dirichlet(a), N, NOISE)
    assert holds(found, {"concentration": (c - a @ c / 4.0) / 4.0})


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda: pathwise_gradient(square, real.Normal(0, 1), 0, NOISE), "n must be at least 1, got 0"),
        (lambda: score_gradient(square, real.Normal(0, 1), 1, NOISE, baseline="leave-one-out"), "at least 2"),
        (
            lambda: score_gradient(square, real.Normal(0, 1), 5, NOISE, baseline="best"),
            "leave-one-out, mean or optimal",
        ),
        (lambda: score_gradient(lambda y, distribution: 3.0, real.Normal(0, 1), 5, NOISE), "h must return a tensor"),
        (lambda: pathwise_gradient(lambda y, distribution: y.sum(), real.Normal(0, 1), 5, NOISE), "each of 5 draws"),
        (
            lambda: pathwise_gradient(square, vectors.MultivariateNormal([0.0], [[1.0]]), 5, NOISE),
            "distribution must be a family of numbers or of categories",
        ),
    ],
)
def test_mistakes_are_said(ask, told):
    with pytest.raises(UserError, match=told):
        ask()
