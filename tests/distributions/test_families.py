"""Every family against SciPy, quadrature, finite differences and the CDF.

Each Kolmogorov-Smirnov or chi-square test rejects a right sampler with probability 1e-6.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate, special, stats

from gnomon.contracts import Distribution, supports
from gnomon.distributions import bounded, counts, positive, real
from gnomon.distributions.bernoulli import Bernoulli
from gnomon.distributions.family import cross_entropy, kl_divergence
from gnomon.distributions.spike_and_slab import SpikeAndSlab
from gnomon.distributions.table import Categorical
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.numeric.noise import Noise, recording

LEAST = 1e-6


@dataclass
class Case:
    """A family with its parameters, SciPy's distribution, and parameters at the edge of what is allowed."""

    family: type
    given: tuple[float, ...]
    distribution: Any
    extreme: tuple[tuple[float, ...], ...] = ()
    rows: tuple[str, ...] = ()

    def __str__(self):
        return f"{self.family.__name__}{self.given}"


CONTINUOUS = [
    Case(real.Normal, (1.5, 0.7), stats.norm(1.5, 0.7), ((0.0, 1e-30), (1e30, 1e30))),
    Case(real.Laplace, (-1.0, 2.0), stats.laplace(-1, 2), ((0.0, 1e-30),)),
    Case(real.Cauchy, (0.5, 2.0), stats.cauchy(0.5, 2), ((0.0, 1e-30),)),
    Case(real.StudentT, (3.5, 1.0, 2.0), stats.t(3.5, 1, 2), ((1e-2, 0.0, 1.0), (1e8, 0.0, 1.0))),
    Case(positive.LogNormal, (0.3, 0.6), stats.lognorm(0.6, scale=math.exp(0.3)), ((0.0, 1e-6),)),
    Case(positive.Exponential, (2.5,), stats.expon(scale=0.4), ((1e-30,), (1e30,))),
    Case(positive.Gamma, (2.3, 1.7), stats.gamma(2.3, scale=1 / 1.7), ((1e-3, 1.0), (1e6, 1e3))),
    Case(positive.Gamma, (0.4, 3.0), stats.gamma(0.4, scale=1 / 3)),
    Case(positive.InverseGamma, (3.2, 2.0), stats.invgamma(3.2, scale=2), ((0.05, 1.0), (1e5, 1e5))),
    Case(positive.Pareto, (1.5, 3.3), stats.pareto(3.3, scale=1.5), ((1e-8, 0.1), (1.0, 1e4))),
    Case(bounded.Uniform, (-1.0, 2.5), stats.uniform(-1, 3.5), ((0.0, 1e-20),)),
    Case(bounded.Beta, (2.0, 3.5), stats.beta(2, 3.5), ((1e-2, 1e-2), (1e5, 1e5))),
    Case(bounded.Beta, (0.5, 0.4), stats.beta(0.5, 0.4)),
    Case(bounded.TruncatedNormal, (1.0, 2.0, -0.5, 3.0), stats.truncnorm(-0.75, 1, 1, 2), ((0.0, 1.0, 30.0, 31.0),)),
    Case(bounded.TruncatedNormal, (0.0, 1.0, 4.0, 9.0), stats.truncnorm(4, 9)),
    Case(bounded.VonMises, (0.7, 2.5), stats.vonmises(2.5, 0.7), ((0.0, 1e-6), (0.0, 1e4))),
]
DISCRETE = [
    Case(counts.Poisson, (3.7,), stats.poisson(3.7), ((0.0,), (1e6,))),
    Case(counts.Binomial, (9, 0.3), stats.binom(9, 0.3), ((5, 0.0), (5, 1.0), (0, 0.4))),
    Case(counts.NegativeBinomial, (2.5, 0.4), stats.nbinom(2.5, 0.6), ((1e-3, 0.5),)),
    Case(counts.Geometric, (0.25,), stats.geom(0.25, loc=-1), ((1e-6,),)),
]
ALL = CONTINUOUS + DISCRETE
ids = str


def density(case):
    return case.distribution.logpmf if case in DISCRETE else case.distribution.logpdf


def inside(case, n=7):
    return case.distribution.ppf(np.linspace(0.02, 0.98, n))


def on_circle(case, x):
    return (x + np.pi) % (2 * np.pi) - np.pi if case.family is bounded.VonMises else x


@pytest.mark.parametrize("case", ALL, ids=ids)
def test_log_prob_is_that_of_scipy(case):
    x = on_circle(case, inside(case))
    made = case.family(*case.given)
    assert supports(made, Distribution)
    assert np.allclose(made.log_prob(x), density(case)(x), rtol=1e-10, atol=1e-12)
    assert made.log_prob(x).dtype == np.float64
    tensor = case.family(*(torch.tensor(v, dtype=torch.float64) for v in case.given)).log_prob(x)
    assert isinstance(tensor, torch.Tensor) and np.allclose(tensor.numpy(), made.log_prob(x), rtol=1e-14)
    single = case.family(*(np.float32(v) for v in case.given)).log_prob(x.astype(np.float32))
    assert single.dtype == np.float32 and np.allclose(single, made.log_prob(x), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("case", ALL, ids=ids)
def test_outside_its_support_a_law_has_no_mass(case):
    made = case.family(*case.given)
    low, high = case.distribution.support()
    far = [x for x in (low - 1.0, high + 1.0) if math.isfinite(x)]
    if case.family is bounded.VonMises:
        far = [4.0, -4.0]
    if case in DISCRETE:
        far.append(1.5)
    assert (made.log_prob(np.array([*far, np.inf, -np.inf])) == -np.inf).all()
    assert np.isnan(made.log_prob(np.nan))


@pytest.mark.parametrize("case", CONTINUOUS, ids=ids)
def test_a_density_integrates_to_one_and_has_its_entropy(case):
    made = case.family(*case.given)
    least = 1e-7 if case.family is bounded.Beta else 1e-13  # beyond, 1 - x has no digits left to integrate over
    edges = np.array([least, 3 * least, 3.5e-7, 1e-6, 1e-4, 1e-3, 1e-2, 0.05, 0.3, 0.5])
    points = case.distribution.ppf(np.concatenate([edges, 1 - edges[-2::-1]]))
    points = np.unique(np.interp(np.arange(0, len(points) - 0.9, 0.1), np.arange(len(points)), points))
    if case.family is bounded.VonMises:
        points = np.linspace(-np.pi, np.pi, 9)
    points = np.clip(points, -1e12, 1e12)

    nodes, weights = np.polynomial.legendre.leggauss(100)
    half, middle = np.diff(points) / 2, (points[:-1] + points[1:]) / 2
    x = (middle[:, None] + half[:, None] * nodes).ravel()
    values = made.log_prob(x)
    assert case.family is bounded.Beta or np.isfinite(values).all()
    values[x == 1] = -np.inf  # what rounds to the pole at 1
    p, width = np.exp(values), (half[:, None] * weights).ravel()

    assert abs((p * width).sum() - 1) < 10 * least + 1e-6
    if case.family is real.Cauchy:  # its tails give log x / x^2
        assert math.isclose(float(made.entropy()), math.log(4 * math.pi * 2))
        return
    heavy = case.family in (real.StudentT, positive.Gamma, positive.Pareto, positive.InverseGamma, bounded.Beta)
    assert abs((special.entr(p) * width).sum() - float(made.entropy())) < (1e-5 if heavy else 1e-7)


@pytest.mark.parametrize("case", DISCRETE, ids=ids)
def test_a_probability_mass_sums_to_one(case):
    made = case.family(*case.given)
    x = np.arange(0, 2000 if case.family is not counts.Binomial else 10)
    assert abs(np.exp(made.log_prob(x)).sum() - 1) < 1e-12
    if case.family is counts.Geometric:
        assert math.isclose(float(made.entropy()), special.entr(np.exp(made.log_prob(x))).sum(), rel_tol=1e-10)
    else:
        with pytest.raises(UserTypeError, match="no closed form"):
            made.entropy()


@pytest.mark.parametrize("case", ALL, ids=ids)
def test_moments_are_those_of_scipy(case):
    made = case.family(*case.given)
    if case.family is real.Cauchy:
        assert np.isnan(made.mean) and not np.isfinite(made.variance)
        return
    circle = case.family is bounded.VonMises
    mean, variance = (
        (0.7, 1 - special.i1(2.5) / special.i0(2.5)) if circle else (case.distribution.mean(), case.distribution.var())
    )
    assert np.isclose(made.mean, mean, rtol=1e-9) and np.isclose(made.variance, variance, rtol=1e-9)


@pytest.mark.parametrize("case", ALL, ids=ids)
@pytest.mark.spec("GEN-082")
def test_cdf_and_its_inverse(case):
    made = case.family(*case.given)
    if case.family is bounded.VonMises:
        x = np.linspace(-3.1, 3.1, 9)
        exact = [integrate.quad(lambda t: math.exp(made.log_prob(t)), -np.pi, end)[0] for end in x]
        assert np.allclose(made.cdf(x), exact, atol=1e-9)
        centered = case.family(0.0, 2.5)
        u = np.linspace(0.01, 0.99, 9)
        assert np.allclose(centered.cdf(centered.icdf(u)), u, atol=1e-12)
        return
    x = inside(case)
    assert np.allclose(made.cdf(x), case.distribution.cdf(x), rtol=1e-12)
    u = np.array([1e-12, 1e-3, 0.2, 0.5, 0.9, 1 - 1e-9])
    assert np.allclose(made.icdf(u), case.distribution.ppf(u), rtol=1e-6)


@pytest.mark.parametrize("case", DISCRETE, ids=ids)
@pytest.mark.spec("GEN-082")
def test_the_inverse_of_steps_jumps_where_the_cdf_does(case):
    """Just below the running sum of the masses up to k the answer is k, just above it k + 1."""
    made = case.family(*case.given)
    k = np.arange(6)
    running = np.exp(made.log_prob(k)).cumsum()
    assert made.icdf(running - 1e-9).tolist() == k.tolist()
    assert made.icdf(running + 1e-9).tolist() == (k + 1).tolist()
    assert made.icdf(running[0] / 2) == 0


@pytest.mark.parametrize("case", ALL, ids=ids)
def test_samples_follow_the_distribution(case):
    made = case.family(*case.given)
    with recording():
        draws = made.sample(Noise(1, "draws"), 0, (20_000,))
    assert draws.shape == (20_000,) and np.isfinite(draws).all()
    if case in DISCRETE:
        edges = np.unique(case.distribution.ppf(np.linspace(0.02, 0.98, 12)))
        inner = np.diff(case.distribution.cdf(edges), prepend=0.0, append=1.0)
        seen = np.bincount(np.searchsorted(edges, draws), minlength=len(inner))
        kept = inner > 1e-12
        assert stats.chisquare(seen[kept], inner[kept] / inner[kept].sum() * len(draws)).pvalue > LEAST
    else:
        assert stats.kstest(draws, made.cdf).pvalue > LEAST
    again = made.sample(Noise(1, "draws"), 0, (20_000,))
    other = made.sample(Noise(1, "draws"), 1, (20_000,))
    assert np.array_equal(draws, again) and not np.array_equal(draws, other)


@pytest.mark.parametrize("case", ALL, ids=ids)
def test_a_row_depends_on_its_own_address_alone(case):
    made = case.family(*case.given)
    positions = np.arange(10)
    whole = made.sample(Noise(3, "draws").rows(positions), 0, (10,))
    part = made.sample(Noise(3, "draws").rows(positions[4:7]), 0, (3,))
    assert np.array_equal(whole[4:7], part)
    assert made.sample(Noise(3, "draws")).shape == ()


@pytest.mark.parametrize("case", ALL, ids=ids)
def test_gradients_are_finite_differences(case):
    x = on_circle(case, inside(case, 3))
    given = [torch.tensor(float(v), dtype=torch.float64, requires_grad=True) for v in case.given]
    case.family(*given).log_prob(torch.from_numpy(x)).sum().backward()
    for i, parameter in enumerate(given):
        if case.family is counts.Binomial and i == 0:
            continue  # a whole number
        step = 1e-5

        def value(h, i=i):
            moved = [v + h * (j == i) for j, v in enumerate(case.given)]
            return float(case.family(*moved).log_prob(x).sum())

        slope = (value(step) - value(-step)) / (2 * step)
        found = 0.0 if parameter.grad is None else float(parameter.grad)
        assert abs(found - slope) < 1e-6 * max(1, abs(slope)), i
    if case in CONTINUOUS:
        at = torch.from_numpy(x).requires_grad_(True)
        made = case.family(*case.given)
        made.log_prob(at).sum().backward()
        step = 1e-4 * np.minimum(x - case.distribution.support()[0], case.distribution.support()[1] - x).clip(max=1e-2)
        slope = (made.log_prob(x + step) - made.log_prob(x - step)) / (2 * step)
        assert np.allclose(at.grad.numpy(), slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", [case for case in ALL if case.extreme], ids=ids)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_parameters_stay_finite(case, dtype):
    for given in case.extreme:
        made = case.family(*(dtype(v) for v in given))
        draws = made.sample(Noise(0, "draws"), 0, (200,))
        assert not np.isnan(draws).any(), given
        if dtype == np.float64:
            values = made.log_prob(draws)
            assert np.isfinite(draws).all() and not np.isnan(values).any() and (values > -np.inf).all(), given


@pytest.mark.parametrize("case", ALL, ids=ids)
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_parameters_outside_their_range_are_refused(case, wrong):
    for i, name in enumerate(case.family.parameters):
        bad = [*case.given]
        bad[i] = wrong
        with pytest.raises(UserValueError, match=name):
            case.family(*bad)
        with pytest.raises(UserTypeError, match=name):
            case.family(*(("x" if j == i else v) for j, v in enumerate(case.given)))


def test_a_standard_deviation_must_be_positive():
    for scale in (0.0, -1.0):
        with pytest.raises(UserValueError, match=r"scale must be positive.*got"):
            real.Normal(0.0, scale)
    with pytest.raises(UserValueError, match=r"scale\[1\]"):
        real.Normal(0.0, np.array([1.0, -2.0]))
    with pytest.raises(UserValueError, match=r"shapes must broadcast, got loc \(3,\), scale \(2,\) \(Normal\)"):
        real.Normal(np.zeros(3), np.ones(2))
    with pytest.raises(UserValueError, match=r"low must be below high, got 1\.0 and 1\.0 \(low, high\)"):
        bounded.Uniform(1.0, 1.0)


@pytest.mark.spec("LIN-05")
def test_the_normal_density_is_its_definition():
    """log_prob, pdf, cdf by formula, SciPy and quadrature; draws by Kolmogorov and Smirnov (false alarm 1e-6 each)."""
    made = real.Normal(0.0, 1.0)
    assert np.allclose(made.pdf([0.0, 1.0, -1.0]), [0.3989422804014327, 0.24197072451914337, 0.24197072451914337])
    assert math.isclose(math.exp(made.log_prob(1.0)), 0.24197072451914337)
    loc, scale = np.array([-1.5, 0.7, 200.0]), np.array([0.3, 2.5, 40.0])  # no scale is 1, where s and s^2 are one
    wide, x = real.Normal(loc, scale), loc + scale * np.array([[0.3], [-2.0], [6.0]])
    density = np.exp(-((x - loc) ** 2) / (2 * scale**2)) / np.sqrt(2 * np.pi * scale**2)
    tensor = real.Normal(*(torch.from_numpy(v) for v in (loc, scale)))
    assert np.allclose(wide.pdf(x), density, rtol=1e-12) and isinstance(wide.pdf(x), np.ndarray)
    assert np.allclose(tensor.pdf(torch.from_numpy(x)).numpy(), density, rtol=1e-12)
    assert np.allclose(wide.log_prob(x), stats.norm(loc, scale).logpdf(x), rtol=1e-12)
    assert np.allclose(wide.cdf(x), stats.norm(loc, scale).cdf(x), rtol=1e-12)
    assert (wide.pdf(np.full(3, np.inf)) == 0).all() and np.isnan(wide.pdf(np.full(3, np.nan))).all()
    for i in range(3):
        low, high = loc[i] - 12 * scale[i], loc[i] + 12 * scale[i]
        one = real.Normal(loc[i], scale[i])
        assert math.isclose(integrate.quad(one.pdf, low, high, epsabs=1e-12)[0], 1, rel_tol=1e-9)
        assert math.isclose(integrate.quad(one.pdf, low, x[0, i], epsabs=1e-12)[0], one.cdf(x[0, i]), rel_tol=1e-9)
        assert (
            stats.kstest(one.sample(Noise(1, "draws"), 0, (20_000,)), stats.norm(loc[i], scale[i]).cdf).pvalue > LEAST
        )
    for scale in (0.0, -1.0, [1.0, -2.0]):
        with pytest.raises(UserValueError, match=r"scale.* must be positive"):
            real.Normal(0.0, np.array(scale))


@pytest.mark.parametrize("case", ALL, ids=ids)
def test_pdf_is_the_density_of_scipy(case):
    x = on_circle(case, inside(case))
    exact = case.distribution.pmf if case in DISCRETE else case.distribution.pdf
    assert np.allclose(case.family(*case.given).pdf(x), exact(x), rtol=1e-9)


PAIRS = [
    (real.Normal(0.0, 1.0), real.Normal(1.0, 2.0)),
    (positive.Gamma(2.0, 1.0), positive.Gamma(3.0, 0.5)),
    (bounded.Beta(2.0, 2.0), bounded.Beta(1.5, 4.0)),
    (positive.Exponential(1.0), positive.Exponential(0.3)),
    (real.Laplace(0.0, 1.0), real.Laplace(0.5, 2.0)),
    (positive.Pareto(2.0, 3.0), positive.Pareto(1.0, 2.0)),
    (bounded.TruncatedNormal(0.2, 0.7, -0.5, 1.5), bounded.TruncatedNormal(0.0, 2.0, -1.0, 2.0)),
]


@pytest.mark.parametrize(("p", "q"), PAIRS, ids=lambda x: type(x).__name__)
@pytest.mark.spec("DLN-103", "BAY-41")
def test_divergences_are_quadratures(p, q):
    edges = p.icdf(np.array([1e-13, 1e-6, 0.01, 0.3, 0.7, 0.99, 1 - 1e-6, 1 - 1e-13]))

    def term(x):
        return math.exp(p.log_prob(x)) * float(p.log_prob(x) - q.log_prob(x))

    numeric = math.fsum(integrate.quad(term, a, b, epsabs=1e-13)[0] for a, b in itertools.pairwise(edges))
    assert abs(numeric - float(kl_divergence(p, q))) < 1e-6
    assert abs(float(kl_divergence(p, p))) < 1e-12


@pytest.mark.spec("BAY-41")
@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_divergences_of_coins_and_categories_are_sums_over_their_outcomes(kind):
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(4), 5), rng.dirichlet(np.ones(4), 5)
    p[0, 1] = p[1, 2] = q[1, 2] = q[2, 3] = 0.0  # 0 log 0 is 0; what q rules out makes it infinite
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = kl_divergence(Categorical(kind(np.log(p))), Categorical(kind(np.log(q))))
        p, q = (law / law.sum(1, keepdims=True) for law in (p, q))
        exact = np.where(p > 0, p * np.log(p / q), 0.0).sum(1)
        a, b = (np.log(law / (1 - law)) for law in (p, q))
        coins = kl_divergence(Bernoulli(kind(a)), Bernoulli(kind(b)))
        each = np.where(p > 0, p * np.log(p / q), 0) + np.where(p < 1, (1 - p) * np.log((1 - p) / (1 - q)), 0)
    np.testing.assert_allclose(rows, exact, rtol=1e-10)
    np.testing.assert_allclose(coins, each.sum(1), rtol=1e-10)
    assert np.isinf(exact).tolist() == np.isinf(each.sum(1)).tolist() == [False, False, True, False, False]
    same = Categorical(kind(np.log([0.3, 0.7])))
    assert float(kl_divergence(same, same)) == 0


@pytest.mark.spec("BAY-41")
def test_what_lies_outside_the_other_law_makes_a_divergence_infinite():
    narrow, wide = bounded.TruncatedNormal(0.0, 1.0, -1.0, 1.0), bounded.TruncatedNormal(0.0, 1.0, -1.0, 2.0)
    assert kl_divergence(wide, narrow) == math.inf and 0 < kl_divergence(narrow, wide) < math.inf
    assert kl_divergence(bounded.Uniform(0.0, 2.0), bounded.Uniform(0.0, 1.0)) == math.inf
    assert kl_divergence(real.Normal(0.0, 1.0), positive.Exponential(1.0)) == math.inf


@pytest.mark.spec("BAY-41")
@pytest.mark.parametrize(
    "law",
    [bounded.TruncatedNormal(0.0, 1.0, -1.0, 1.0), SpikeAndSlab(0.4, 0.0, 1.0), bounded.VonMises(0.0, 1.0)],
    ids=str,
)
def test_a_law_made_from_a_normal_has_not_the_normals_divergences(law):
    for other in (real.Normal(0.0, 1.0), real.Laplace(0.0, 1.0), bounded.Uniform(-4.0, 4.0)):
        for pair in ((law, other), (other, law)):
            with pytest.raises(UserTypeError, match="no closed form"):
                kl_divergence(*pair)


@pytest.mark.parametrize(("p", "q"), PAIRS, ids=lambda x: type(x).__name__)
@pytest.mark.spec("DLN-17")
def test_cross_entropies_are_quadratures(p, q):
    """Minus the mean of log q under p, and of log p itself, the entropy, which is less."""
    edges = p.icdf(np.array([1e-13, 1e-6, 0.01, 0.3, 0.7, 0.99, 1 - 1e-6, 1 - 1e-13]))
    for other in (q, p):
        numeric = -math.fsum(
            integrate.quad(lambda x, g=other: math.exp(p.log_prob(x)) * float(g.log_prob(x)), a, b, epsabs=1e-13)[0]
            for a, b in itertools.pairwise(edges)
        )
        assert abs(numeric - float(cross_entropy(p, other))) < 1e-6
    assert cross_entropy(p, p) < cross_entropy(p, q)
    with pytest.raises(UserError, match="no closed form"):
        cross_entropy(real.StudentT(3.0), real.Normal(0, 1))


@pytest.mark.spec("BAY-41", "DLN-103")
def test_the_divergence_of_two_normals():
    assert math.isclose(kl_divergence(real.Normal(0, 1), real.Normal(1, 2)), 0.4431471805599453)
    assert math.isclose(kl_divergence(real.Normal(1, 2), real.Normal(0, 1)), 1.3068528194400547)
    m1, s1, m2, s2 = 0.3, 0.5, -1.0, 2.0
    closed = math.log(s2 / s1) + (s1**2 + (m1 - m2) ** 2) / (2 * s2**2) - 0.5
    assert math.isclose(kl_divergence(real.Normal(m1, s1), real.Normal(m2, s2)), closed)
    with pytest.raises(UserError, match="no closed form"):
        kl_divergence(real.StudentT(3.0), real.Normal(0, 1))


def test_batches_broadcast():
    made = real.Normal(np.zeros((3, 1)), np.array([1.0, 2.0]))
    assert made.batch_shape == (3, 2) and made.sample(Noise(0, "a")).shape == (3, 2)
    assert made.sample(Noise(0, "a"), 0, (5,)).shape == (5, 3, 2)
    assert made.log_prob(np.zeros((4, 3, 2))).shape == (4, 3, 2)
    assert "Normal(loc=array" in repr(made)


@pytest.mark.parametrize("case", CONTINUOUS, ids=ids)
def test_gradients_pass_through_draws(case):
    """The derivative of the very numbers that are drawn, by finite differences of the plain draws."""
    made = case.family(*(torch.tensor(float(v), dtype=torch.float64, requires_grad=True) for v in case.given))
    draws = made.rsample(Noise(0, "draws"), 0, (50,))
    for call, shape in ((0, (50,)), (3, (7, 2))):
        plain = case.family(*case.given).sample(Noise(0, "draws"), call, shape)
        assert np.allclose(made.rsample(Noise(0, "draws"), call, shape).detach(), plain, rtol=1e-9)
    for i, name in enumerate(made.parameters):
        (slope,) = torch.autograd.grad(draws.sum(), [getattr(made, name)], retain_graph=True)
        moved = [
            case.family(*(v + h * (j == i) for j, v in enumerate(case.given))).sample(Noise(0, "draws"), 0, (50,)).sum()
            for h in (1e-6, -1e-6)
        ]
        assert math.isclose(float(slope), (moved[0] - moved[1]) / 2e-6, rel_tol=1e-5, abs_tol=1e-5), name
