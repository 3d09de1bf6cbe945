"""Conjugate pairs against worked figures, numeric integration and each other."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from gnomon.distributions import conjugate as algebra
from gnomon.distributions.real import Normal
from gnomon.errors import UserValueError
from gnomon.evaluation.information import kl_samples
from gnomon.numeric.noise import Noise


@dataclass
class Case:
    """A pair, rows, the likelihood of one row given the parameter, and where the parameter lies."""

    pair: Any
    rows: Any
    likelihood: Any
    low: float
    high: float
    row: str
    outcomes: Any = None

    def __str__(self):
        return type(self.pair).__name__


CASES = [
    Case(
        algebra.NormalMean(0.5, 2.0, 1.5),
        [1.0, 2.0, 3.0],
        lambda x, t: stats.norm.pdf(x, t, math.sqrt(1.5)),
        -30,
        30,
        "BAY-31",
    ),
    Case(
        algebra.NormalPrecision(2, 1, 0.5),
        [1.0, -1.0, 2.0],
        lambda x, t: stats.norm.pdf(x, 0.5, t**-0.5),
        0,
        60,
        "BAY-32",
    ),
    Case(
        algebra.BernoulliBeta(2.5, 1.5),
        [1, 1, 0, 1],
        lambda x, t: np.where(x == 1, t, 1 - t),
        0,
        1,
        "BAY-35",
        outcomes=[0, 1],
    ),
    Case(
        algebra.PoissonGamma(2, 1),
        [3, 1, 2],
        lambda x, t: stats.poisson.pmf(x, t),
        0,
        80,
        "BAY-37",
        outcomes=range(200),
    ),
    Case(algebra.UniformPareto(1, 2), [0.5, 2.0, 1.2], lambda x, t: np.where(x <= t, 1 / t, 0.0), 1, 5000, "BAY-38"),
]
one_parameter = pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.spec(case.row)) for case in CASES], ids=str
)


def integral(case, function):
    edges = np.unique(np.clip(np.geomspace(1e-6, 1, 30) * (case.high - case.low) + case.low, case.low, case.high))
    edges = np.unique(np.concatenate([[case.low], edges, np.linspace(case.low, min(case.high, case.low + 10), 25)]))
    marks = np.unique(np.concatenate([edges, [float(x) for x in case.rows if case.low < x < case.high]]))
    nodes, weights = np.polynomial.legendre.leggauss(60)
    half, middle = np.diff(marks) / 2, (marks[:-1] + marks[1:]) / 2
    points = (middle[:, None] + half[:, None] * nodes).ravel()
    return float((function(points) * (half[:, None] * weights).ravel()).sum())


def prior_density(case, t):
    return np.exp(case.pair.distribution().log_prob(t))


def joint(case, t):
    found = prior_density(case, t)
    for x in case.rows:
        found = found * case.likelihood(x, t)
    return found


@one_parameter
@pytest.mark.spec("BAY-39")
def test_posterior_and_evidence_are_those_of_numeric_integration(case):
    evidence = integral(case, lambda t: joint(case, t))
    assert math.isclose(case.pair.log_evidence(case.rows), math.log(evidence), rel_tol=1e-7)
    posterior = case.pair.update(case.rows).distribution()
    t = np.asarray(posterior.icdf(np.array([0.05, 0.3, 0.6, 0.95])))
    assert np.allclose(np.exp(posterior.log_prob(t)), joint(case, t) / evidence, rtol=1e-7)


@one_parameter
@pytest.mark.spec("BAY-30")
def test_the_predictive_averages_the_likelihood_over_the_posterior(case):
    after = case.pair.update(case.rows)
    evidence = integral(case, lambda t: joint(case, t))
    for x in [0, 1] if case.outcomes is not None else [0.3, 1.7, 2.6]:
        averaged = integral(case, lambda t, x=x: joint(case, t) * case.likelihood(x, t)) / evidence
        # the kink of the uniform likelihood at x lies inside a cell of the integration
        assert math.isclose(math.exp(after.log_predictive([x])[0]), averaged, rel_tol=2e-3 if x == 2.6 else 1e-6)
    if case.outcomes is not None:
        assert abs(np.exp(after.log_predictive(list(case.outcomes))).sum() - 1) < 1e-12


MOMENTS = {  # of a row given the parameter
    "BAY-31": (lambda t: t, lambda t: 1.5 + 0 * t),
    "BAY-32": (lambda t: 0.5 + 0 * t, lambda t: 1 / t),
    "BAY-35": (lambda t: t, lambda t: t * (1 - t)),
    "BAY-37": (lambda t: t, lambda t: t),
    "BAY-38": (lambda t: t / 2, lambda t: t * t / 12),
}


@one_parameter
@pytest.mark.spec("BAY-30")
def test_the_spread_is_variance_of_the_mean_and_mean_of_the_variance(case):
    evidence = integral(case, lambda t: joint(case, t))
    mean, variance = MOMENTS[case.row]

    def over(f):
        return integral(case, lambda t: joint(case, t) * f(t)) / evidence

    found = case.pair.update(case.rows).spread()
    middle = over(mean)
    assert found.epistemic == pytest.approx(over(lambda t: (mean(t) - middle) ** 2), rel=1e-5, abs=1e-12)
    assert found.aleatoric == pytest.approx(over(variance), rel=1e-5)


@pytest.mark.spec("BAY-30")
def test_the_spread_of_rows_of_two_parameters_adds_up_to_the_predictives_variance():
    pair = algebra.NormalMeanPrecision(0.0, 1.0, 2.0, 1.0).update([1, 2, 3])  # t_7 of squared scale 1.25
    assert sum(pair.spread()) == pytest.approx(1.25 * 7 / 5) and pair.spread().aleatoric == pytest.approx(3.5 / 2.5)
    shares = algebra.CategoricalDirichlet((1, 2, 0.5)).update([0, 2, 2])
    p = np.array([2, 2, 2.5]) / 6.5
    assert np.allclose(sum(shares.spread()), p * (1 - p)) and np.allclose(shares.spread().epistemic, p * (1 - p) / 7.5)
    rows = np.array([[1.0, 0], [0, 1], [2, 1]])
    for vectors in (
        algebra.MultivariateNormalPrecision(3, np.eye(2), np.zeros(2)).update(rows),
        algebra.MultivariateNormalMeanPrecision(np.zeros(2), 1.5, 3, np.eye(2)).update(rows),
    ):
        t, parts = vectors.predictive(), vectors.spread()
        assert np.allclose(sum(parts), np.asarray(t.scale) * t.df / (t.df - 2))
        assert np.allclose(parts.aleatoric, stats.invwishart(6, vectors.inverse_scale).mean())
    assert algebra.NormalPrecision(0.5, 1.0).spread().aleatoric == math.inf
    assert algebra.UniformPareto(1, 2).spread() == (math.inf, math.inf)


NATURAL = {  # parameters that rows are added to, and what is added
    algebra.NormalMean: (lambda p: (p.mean / p.variance, 1 / p.variance), lambda x: (x / 1.5, 1 / 1.5)),
    algebra.NormalPrecision: (lambda p: (p.concentration, p.rate), lambda x: (0.5, (x - 0.5) ** 2 / 2)),
    algebra.NormalMeanPrecision: (
        lambda p: (p.strength, p.strength * p.mean, 2 * p.concentration, 2 * p.rate + p.strength * p.mean**2),
        lambda x: (1, x, 1, x * x),
    ),
    algebra.BernoulliBeta: (lambda p: (p.ones, p.zeros), lambda x: (x, 1 - x)),
    algebra.CategoricalDirichlet: (lambda p: p.concentration, lambda x: np.eye(3)[int(x)]),
    algebra.PoissonGamma: (lambda p: (p.concentration, p.rate), lambda x: (x, 1)),
    algebra.MultivariateNormalMean: (
        lambda p: (*np.linalg.solve(p.covariance, p.mean), *np.linalg.inv(p.covariance).ravel()),
        lambda x: (*np.linalg.solve(NOISE, x), *np.linalg.inv(NOISE).ravel()),
    ),
    algebra.MultivariateNormalPrecision: (
        lambda p: (p.df, *p.inverse_scale.ravel()), lambda x: (1, *np.outer(x, x).ravel()),
    ),
    algebra.MultivariateNormalMeanPrecision: (
        lambda p: (p.df, p.strength, *(p.strength * p.mean),
                   *(p.inverse_scale + p.strength * np.outer(p.mean, p.mean)).ravel()),
        lambda x: (1, 1, *x, *np.outer(x, x).ravel()),
    ),
}  # fmt: skip


@pytest.mark.spec("BAY-39")
def test_an_update_adds_the_statistics_of_every_row_to_the_natural_parameters():
    """The rule of exponential families, alpha' = alpha + (sum of T(x), n), for every pair that is one."""
    assert (
        {type(pair) for pair, _ in PAIRS}
        == set(NATURAL)
        == set(algebra.base.REGISTRY.values()) - {algebra.UniformPareto}
    )
    for pair, rows in PAIRS:
        natural, statistic = NATURAL[type(pair)]
        moved = np.subtract(natural(pair.update(rows)), natural(pair))
        assert np.allclose(moved, np.sum([statistic(np.asarray(x)) for x in rows], axis=0), rtol=1e-12), type(pair)


@one_parameter
@pytest.mark.spec("BAY-27")
def test_one_row_at_a_time_in_any_order_gives_the_batch(case):
    batch = case.pair.update(case.rows)
    for order in ([0, 1, 2], [2, 0, 1]):
        now, total = case.pair, 0.0
        rows = [case.rows[i] for i in order] + case.rows[3:]
        for x in rows:
            total += float(now.log_predictive([x])[0])
            now = now.update([x])
        assert math.isclose(total, case.pair.log_evidence(case.rows), rel_tol=1e-12)
        for name in vars(batch):
            assert np.allclose(vars(now)[name], vars(batch)[name], rtol=1e-12)


@pytest.mark.spec("BAY-27", "BAY-31")
@pytest.mark.parametrize(
    ("prior", "offset"),
    [(algebra.NormalMean(1e6, 1.0, 1e-2), 1e6), (algebra.NormalMean(0.0, 1e12, 1.0), 1e8)],
    ids=["far prior", "wide prior"],
)
def test_the_evidence_of_rows_far_from_zero(prior, offset):
    """Squares of the rows themselves would leave no digit of it: log N(rows; m, noise I + variance 11')."""
    rows = offset + np.array([0.125, 0.25, 0.5])
    weight = np.array([1.0, 2.0, 1.0])
    apart = [Fraction(x) - Fraction(prior.mean) for x in np.repeat(rows, [1, 2, 1])]
    v, variance, n = Fraction(prior.noise_variance), Fraction(prior.variance), 4
    square = sum(x * x for x in apart) / v - variance * sum(apart) ** 2 / (v * (v + n * variance))
    exact = -0.5 * (n * math.log(2 * math.pi * v) + math.log1p(n * variance / v) + float(square))
    assert math.isclose(prior.log_evidence(rows, weight), exact, rel_tol=1e-12)
    now, total = prior, 0.0
    for x in np.repeat(rows, [1, 2, 1]):
        total += float(now.log_predictive([x])[0])
        now = now.update([x])
    assert math.isclose(prior.log_evidence(rows, weight), total, rel_tol=1e-9)
    assert prior.log_evidence(rows, 0 * weight) == 0


NOISE = np.array([[1.0, -0.4], [-0.4, 0.7]])
PAIRS = [
    *((case.pair, case.rows) for case in CASES[:-1]),
    (algebra.NormalMeanPrecision(0.5, 2, 1.5, 1), [1.0, 2.0, 4.0]),
    (algebra.CategoricalDirichlet((1, 2, 0.5)), [0, 2, 2, 1]),
    (algebra.MultivariateNormalMean([0.5, -1.0], [[2.0, 0.6], [0.6, 0.9]], NOISE), [[1.0, 0], [0, 1], [1, 2]]),
    (algebra.MultivariateNormalPrecision(3, np.eye(2), np.zeros(2)), [[1.0, 0], [0, 1], [1, 1]]),
    (algebra.MultivariateNormalMeanPrecision(np.zeros(2), 1.5, 3, np.eye(2)), [[1.0, 0], [0, 1], [2, 1]]),
]


@pytest.mark.parametrize(("pair", "rows"), [*PAIRS, (CASES[-1].pair, CASES[-1].rows)], ids=lambda p: type(p).__name__)
@pytest.mark.spec("BAY-27")
def test_hundreds_of_single_updates_do_not_drift(pair, rows):
    """In any order: the batch's posterior, and its evidence as the product of the predictives."""
    many = np.asarray(rows, float)[np.random.default_rng(0).integers(0, len(rows), 300)]
    now, total = pair, 0.0
    for x in many:
        total += float(now.log_predictive([x])[0])
        now = now.update([x])
    batch = pair.update(many[::-1])
    assert math.isclose(total, pair.log_evidence(many), rel_tol=1e-11)
    for name, value in vars(batch).items():
        assert np.allclose(vars(now)[name], value, rtol=1e-12, atol=1e-12), name


@pytest.mark.parametrize(("pair", "rows"), PAIRS, ids=lambda p: type(p).__name__)
@pytest.mark.spec("BAY-39")
def test_removal_undoes_an_update(pair, rows):
    back = pair.update(rows).remove(rows)
    for name, value in vars(pair).items():
        assert np.allclose(vars(back)[name], value, rtol=1e-12, atol=1e-12), name
    part = pair.update(rows).remove(rows[:1])
    for name, value in vars(pair.update(rows[1:])).items():
        assert np.allclose(vars(part)[name], value, rtol=1e-12, atol=1e-12), name
    with pytest.raises(UserValueError, match=r"only rows that update has added|positive definite|more than|positive"):
        pair.remove([rows[0]] * 40)


@pytest.mark.parametrize(("pair", "rows"), PAIRS, ids=lambda p: type(p).__name__)
def test_weights_count_rows_several_times(pair, rows):
    twice = pair.update([*rows, rows[0]])
    weighted = pair.update(rows, [2.0] + [1.0] * (len(rows) - 1))
    for name, value in vars(twice).items():
        assert np.allclose(vars(weighted)[name], value, rtol=1e-12), name
    assert math.isclose(pair.log_evidence(rows, [2.0] + [1.0] * (len(rows) - 1)), pair.log_evidence([*rows, rows[0]]))
    with pytest.raises(UserValueError, match="row 1"):
        pair.update(rows, [1.0, -1.0] + [1.0] * (len(rows) - 2))


@pytest.mark.spec("BAY-27", "BAY-31")
def test_the_mean_of_three_numbers():
    prior = algebra.NormalMean(0.0, 1.0, noise_variance=1.0)
    after = prior.update([1.0, 2.0, 3.0])
    assert (after.mean, after.variance) == (1.5, 0.25)
    predictive = after.predictive()
    assert math.isclose(predictive.mean, 1.5) and math.isclose(predictive.variance, 1.25)
    exact = stats.multivariate_normal([0, 0, 0], np.eye(3) + np.ones((3, 3))).logpdf([1, 2, 3])
    assert math.isclose(prior.log_evidence([1, 2, 3]), exact)
    assert abs(prior.log_evidence([1, 2, 3]) + 5.949963) < 1e-6


@pytest.mark.spec("BAY-32")
def test_the_precision_of_three_numbers():
    prior = algebra.NormalPrecision(2, 1, mean=0.0)
    after = prior.update([1, -1, 2])
    assert (after.concentration, after.rate) == (3.5, 4.0)
    assert abs(prior.log_evidence([1, -1, 2]) + 6.407872) < 1e-6
    t = after.predictive()
    assert math.isclose(float(t.df), 7) and math.isclose(float(t.scale) ** 2, 8 / 7)
    x = np.array([0.2, 1.0, 3.0])
    flipped = np.exp(after.variance_distribution().log_prob(x))
    assert np.allclose(flipped, np.exp(after.distribution().log_prob(1 / x)) / x**2)


@pytest.mark.spec("BAY-33")
def test_mean_and_precision_of_three_numbers():
    prior = algebra.NormalMeanPrecision(0.0, 1.0, 2.0, 1.0)
    after = prior.update([1, 2, 3])
    assert (after.strength, after.mean, after.concentration, after.rate) == (4.0, 1.5, 3.5, 3.5)
    assert abs(prior.log_evidence([1, 2, 3]) + 6.633660) < 1e-6
    t = after.predictive()
    assert math.isclose(float(t.df), 7) and math.isclose(float(t.loc), 1.5) and math.isclose(float(t.scale) ** 2, 1.25)

    def density(mean, precision):
        likelihood = np.prod([stats.norm.pdf(x, mean, precision**-0.5) for x in (1, 2, 3)], axis=0)
        return likelihood * np.exp(prior.distribution().log_prob(mean, precision))

    nodes, weights = np.polynomial.legendre.leggauss(150)
    means, precisions = 1 + 9 * nodes[:, None], 10 * (1 + nodes) + 1e-12
    whole = (density(means, precisions) * np.outer(9 * weights, 10 * weights)).sum()
    assert math.isclose(math.log(whole), prior.log_evidence([1, 2, 3]), rel_tol=1e-5)
    ratio = [
        density(m, p) / math.exp(after.distribution().log_prob(m, p)) for m, p in ((1.0, 0.5), (2.0, 1.5), (0.3, 1.0))
    ]
    assert np.allclose(ratio, math.exp(prior.log_evidence([1, 2, 3])), rtol=1e-10)
    grid = np.linspace(-40, 40, 200_001)  # the marginals integrate the joint distribution
    marginal = np.exp(after.distribution().log_prob(grid, 0.8)).sum() * (grid[1] - grid[0])
    assert math.isclose(marginal, math.exp(after.distribution().precision_distribution().log_prob(0.8)), rel_tol=1e-9)
    far = algebra.NormalMeanPrecision(0.0, 1e-3, 2.0, 1.0).update(1e8 + np.array([1.0, 2.0, 3.0]))
    exact = 1 + 1 + 1e-3 * 3 / 3.001 * (1e8 + 2) ** 2 / 2
    assert math.isclose(far.rate, exact, rel_tol=1e-12)


@pytest.mark.spec("BAY-35", "BAY-30", "BAY-40")
def test_seven_of_ten():
    prior = algebra.BernoulliBeta(2, 2)
    rows = [1] * 7 + [0] * 3
    after = prior.update(rows)
    assert (after.ones, after.zeros) == (9, 5)
    assert math.isclose(after.distribution().mean, 0.6428571428571429)
    assert abs(prior.log_evidence(rows) + 6.977748) < 1e-6
    assert math.isclose(math.exp(after.log_predictive([1])[0]), 9 / 14)
    assert math.isclose(after.mode, 2 / 3)
    assert math.isclose(prior.log_evidence_of_counts(7, 3), prior.log_evidence(rows) + math.log(120))
    assert algebra.BernoulliBeta(1.0, 3.0).mode == 0 and algebra.BernoulliBeta(0.5, 0.5).mode == 0.5
    with pytest.raises(UserValueError, match=r"got 2\.0, which is neither 0 nor 1.*row 1"):
        prior.update([0, 2])
    for bad in ((-1, 3), (2, 1.5)):
        with pytest.raises(UserValueError, match="not a whole number"):
            prior.log_evidence_of_counts(*bad)


@pytest.mark.spec("BAY-36")
def test_categories_and_counts():
    prior = algebra.CategoricalDirichlet((1, 1, 1))
    after = prior.update([0, 0, 1])
    assert np.allclose(after.distribution().mean, [1 / 2, 1 / 3, 1 / 6])
    assert math.isclose(math.exp(prior.log_evidence([0, 0, 1])), 1 / 30)
    assert math.isclose(math.exp(prior.log_evidence_of_counts([2, 1, 0])), 1 / 10)
    assert np.allclose(np.exp(after.log_predictive([0, 1, 2])), [1 / 2, 1 / 3, 1 / 6])
    two, coin = algebra.CategoricalDirichlet((1.5, 2.5)), algebra.BernoulliBeta(2.5, 1.5)
    assert math.isclose(two.log_evidence([1, 1, 0]), coin.log_evidence([1, 1, 0]))
    for bad in ([-1, 2, 0], [0.5, 1, 1]):
        with pytest.raises(UserValueError, match="not a whole number"):
            prior.log_evidence_of_counts(bad)
    with pytest.raises(UserValueError, match="no category"):
        prior.update([3])
    with pytest.raises(UserValueError, match=r"concentration\[1\] must be positive"):
        algebra.CategoricalDirichlet((1, 0))


@pytest.mark.spec("BAY-37")
def test_counts_of_three_days():
    prior = algebra.PoissonGamma(2, 1)
    after = prior.update([3, 1, 2])
    assert (after.concentration, after.rate) == (8, 4) and math.isclose(after.distribution().mean, 2)
    assert abs(math.exp(after.log_predictive([0])[0]) - 0.1677722) < 1e-7
    assert abs(prior.log_evidence([3, 1, 2]) + 5.050100) < 1e-6
    assert np.allclose(np.exp(after.log_predictive(np.arange(9))), stats.nbinom.pmf(np.arange(9), 8, 4 / 5))
    assert prior.observe([6], [3.0]) == after
    several = prior.observe([3, 1, 2], [0.5, 2.0, 0.25])  # scipy's rates are those of one unit
    grid = np.linspace(0.5, 6, 9)
    joint = sum(stats.poisson.logpmf(x, grid * t) for x, t in zip([3, 1, 2], [0.5, 2.0, 0.25], strict=True))
    apart = joint + stats.gamma(2, scale=1).logpdf(grid) - several.distribution().log_prob(grid)
    assert np.ptp(apart) < 1e-12
    assert prior.observe([3, 1, 2], 0.5).rate == 2.5
    with pytest.raises(UserValueError, match="exposure must have one value for each of the 3 counts"):
        prior.observe([3, 1, 2], [1.0, 2.0])
    with pytest.raises(UserValueError, match="not a whole number"):
        prior.update([1.5])
    with pytest.raises(UserValueError, match="not above 0"):
        prior.observe([1], [0.0])


@pytest.mark.spec("BAY-38")
def test_the_end_of_a_uniform_distribution():
    prior = algebra.UniformPareto(1, 2)
    after = prior.update([0.5, 2, 1.2])
    assert (after.scale, after.alpha) == (2, 5) and math.isclose(after.distribution().mean, 2.5)
    assert math.isclose(math.exp(prior.log_evidence([0.5, 2, 1.2])), 0.0125)
    density = np.exp(after.predictive().log_prob([0.0, 2.0, 4.0]))
    assert np.allclose(density, [5 / 12, 5 / 12, 0.006510416666666667])
    assert after.predictive().log_prob([-1.0])[0] == -np.inf
    assert np.isinf(algebra.UniformPareto(1, 1).distribution().mean)
    draws = after.predictive().sample(Noise(0, "draws"), 0, (20_000,))
    cdf = lambda y: np.where(y <= 2, 5 / 12 * y, 1 - (2 / np.maximum(y, 2)) ** 5 / 6)  # noqa: E731
    assert stats.kstest(draws, cdf).pvalue > 1e-6  # the stated false-alarm rate
    assert np.array_equal(after.predictive().sample(Noise(0, "draws"), 0, (9,)), draws[:9])
    assert not (after.predictive().sample(Noise(0, "draws"), 2, (9,)) == draws[:9]).any()
    with pytest.raises(UserValueError, match="negative"):
        prior.update([-0.5])
    with pytest.raises(
        UserValueError, match=r"the largest row cannot be removed \(x\); update the prior with the other rows"
    ):
        after.remove([0.5])


@pytest.mark.spec("BAY-39")
def test_the_registry_names_what_it_knows():
    assert algebra.conjugate("normal", "normal-gamma") is algebra.NormalMeanPrecision
    assert algebra.is_conjugate("multivariate-normal", "wishart")
    assert not algebra.is_conjugate("normal", "cauchy")
    with pytest.raises(UserValueError, match=r"known: .*poisson with gamma"):
        algebra.conjugate("poisson", "gama")
    with pytest.raises(UserValueError, match="known"):
        algebra.conjugate("weibull", "x")


@pytest.mark.spec("BAY-39")
def test_conditional_conjugacy_is_seen_and_so_is_its_absence():
    rows = np.array([1.0, -0.5, 2.0, 0.3])

    def joint_of_mean(mean):  # normal rows of precision 2, mean ~ N(0, 1): the conditional is normal
        return Normal(mean[:, None], 2**-0.5).log_prob(rows).sum(-1) + Normal(0.0, 1.0).log_prob(mean)

    grid = np.linspace(-3, 3, 50)
    distribution = algebra.NormalMean(0.0, 1.0, noise_variance=0.5).update(rows).distribution()
    assert algebra.same_up_to_a_constant(joint_of_mean, distribution.log_prob, grid)
    assert not algebra.same_up_to_a_constant(
        joint_of_mean, Normal(distribution.mean, distribution.variance).log_prob, grid
    )

    def robust(mean):  # with a Student prior it is not
        return Normal(mean[:, None], 2**-0.5).log_prob(rows).sum(-1) + stats.t(3).logpdf(mean)

    assert not algebra.same_up_to_a_constant(robust, distribution.log_prob, grid)

    def tilted(mean):  # apart by 6e-6 over the grid, of magnitudes of about 15
        return distribution.log_prob(mean) + 1e-6 * mean

    assert not algebra.same_up_to_a_constant(tilted, distribution.log_prob, grid)
    assert algebra.same_up_to_a_constant(tilted, distribution.log_prob, grid, tolerance=6e-6)
    with pytest.raises(
        UserValueError, match=r"grid must have 3 or more points of finite log density, got an array of shape \(2,\)"
    ):  # two places lie on a line whatever the distribution
        algebra.same_up_to_a_constant(distribution.log_prob, distribution.log_prob, grid[:2])


@pytest.mark.spec("BAY-30")
def test_averaging_densities_of_draws_converges_to_the_predictive():
    """100,000 draws of the posterior; within 4.5 standard errors of the closed form (false alarm below 1e-5)."""
    after = algebra.NormalMean(0.0, 1.0, noise_variance=1.0).update([1, 2, 3])
    means = after.distribution().sample(Noise(0, "draws"), 0, (100_000,))
    density = np.exp(Normal(means, 1.0).log_prob(0.7))
    error = density.std() / math.sqrt(len(density))
    assert abs(density.mean() - math.exp(after.log_predictive([0.7])[0])) < 4.5 * error
    # averaging log densities instead is another, smaller number
    assert math.exp(np.log(density).mean()) < density.mean() - 20 * error
    assert kl_samples(np.log(density), np.log(density)) == (0.0, 0.0)
