"""Integrals by draws: known values and variances, the box as a density, nets whose errors are honest."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from gnomon.distributions import real
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.importance.weights import importance_sample
from gnomon.inference.montecarlo.integration import (
    UniformBox,
    check_coverage,
    integral,
    quasi_integral,
    volume_integral,
)
from gnomon.numeric.noise import Noise, recording

LIKE = np.empty(0)


def exp(x):
    return np.exp(x[:, 0])


class Slope:
    """p(x) = 2 (1 + x) / 3 on [0, 1], drawn by inversion: x = sqrt(1 + 3 u) - 1."""

    def sample(self, n, noise):
        return np.sqrt(1 + 3 * noise.uniform((n, 1), like=LIKE)) - 1

    def log_prob(self, x):
        inside = (x[:, 0] >= 0) & (x[:, 0] <= 1)
        return np.where(inside, np.log(2 * (1 + np.abs(x[:, 0])) / 3), -np.inf)


class Flat:
    """Uniform on a box by its plain density, as a user would write it."""

    def __init__(self, lower, upper):
        self.lower, self.upper = np.asarray(lower), np.asarray(upper)

    def sample(self, n, noise):
        return self.lower + (self.upper - self.lower) * noise.uniform((n, self.lower.size), like=LIKE)

    def log_prob(self, x):
        return np.full(len(x), -np.log(np.prod(self.upper - self.lower)))


class Normal:
    def __init__(self, sd, d=1):
        self.sd, self.d = sd, d

    def sample(self, n, noise):
        return self.sd * noise.normal((n, self.d), like=LIKE)

    def log_prob(self, x):
        return stats.norm.logpdf(x, scale=self.sd).sum(axis=-1)


@pytest.mark.spec("BAY-02")
@pytest.mark.parametrize(("proposal", "variance"), [(UniformBox(0.0, 1.0), 0.2420356), (Slope(), 0.0269084)])
@pytest.mark.parametrize("seed", range(5))
def test_the_exponential_on_the_unit_interval(proposal, variance, seed):
    """Ten runs within 4 errors (false-alarm rate 6e-4); variances within 5%, hence a ratio near 9.0."""
    found = integral(exp, proposal, 20_000, Noise(seed, "exp"))
    assert abs(found.mean - (math.e - 1)) < 4 * found.standard_error
    assert found.variance == pytest.approx(variance, rel=0.05)
    assert found.standard_error == pytest.approx(math.sqrt(variance / 20_000), rel=0.03)


@pytest.mark.spec("BAY-02")
def test_the_variances_of_the_row_by_quadrature():
    """E_p[(f / p)^2] - I^2 by Gauss-Legendre; the density of `Slope` integrates to one."""
    node, weight = np.polynomial.legendre.leggauss(40)
    x, weight = (1 + node[:, None]) / 2, weight / 2
    for proposal, variance in ((UniformBox(0.0, 1.0), 0.2420356), (Slope(), 0.0269084)):
        p = np.exp(proposal.log_prob(x))
        assert weight @ p == pytest.approx(1, abs=1e-14)
        assert weight @ (exp(x) ** 2 / p) - (math.e - 1) ** 2 == pytest.approx(variance, abs=5e-8)
    ratio = 0.2420356 / 0.0269084
    assert ratio == pytest.approx(9.0, abs=0.01)


@pytest.mark.spec("BAY-02")
def test_more_draws_and_what_the_terms_tell():
    noise = Noise(1, "more")
    with recording():
        part = integral(exp, Slope(), 300, noise, batch=128)
        estimate = part.run(700)
    whole = integral(exp, Slope(), 1000, noise)
    assert estimate.value == pytest.approx(whole.mean, rel=1e-14)
    terms = exp(Slope().sample(1000, noise)) / np.exp(Slope().log_prob(Slope().sample(1000, noise)))
    assert whole.mean == pytest.approx(terms.mean(), rel=1e-13)
    assert part.ess == pytest.approx(terms.sum() ** 2 / (terms**2).sum(), rel=1e-12)
    assert part.max_share == pytest.approx(terms.max() / terms.sum(), rel=1e-12)
    other = integral(exp, Slope(), 500, Noise(2, "other"))
    both = integral(exp, Slope(), 1000, noise).merge(other)
    assert both.count == 1500
    others = exp(Slope().sample(500, Noise(2, "other"))) / np.exp(
        Slope().log_prob(Slope().sample(500, Noise(2, "other")))
    )
    every = np.concatenate([terms, others])
    assert both.ess == pytest.approx(every.sum() ** 2 / (every**2).sum(), rel=1e-12)
    assert both.max_share == pytest.approx(every.max() / every.sum(), rel=1e-12)
    assert other.merge(whole).max_share == pytest.approx(both.max_share, rel=1e-12)


@pytest.mark.spec("BAY-02")
def test_signed_integrands_and_tiny_densities():
    """x^3 - x^2 over a wide normal; in 200 dimensions p is far below what exp can hold, and f / p is 1."""
    found = integral(lambda x: (x[:, 0] ** 3 - x[:, 0] ** 2) * stats.norm.pdf(x[:, 0]), Normal(1.5), 50_000,
                     Noise(3, "signed"))  # fmt: skip
    assert abs(found.mean + 1) < 4 * found.standard_error
    x = Normal(1.5).sample(50_000, Noise(3, "signed"))[:, 0]
    size = np.abs((x**3 - x**2) * stats.norm.pdf(x) / stats.norm.pdf(x, scale=1.5))
    assert found.ess == pytest.approx(size.sum() ** 2 / (size**2).sum(), rel=1e-12)
    assert found.max_share == pytest.approx(size.max() / size.sum(), rel=1e-12)
    far = Normal(100.0, 50)
    same = integral(lambda x: np.exp(far.log_prob(x)), far, 100, Noise(4, "far"))
    assert same.mean == pytest.approx(1, abs=1e-12)
    assert same.variance < 1e-24
    assert same.ess == pytest.approx(100)


@pytest.mark.spec("BAY-02")
def test_a_proposal_with_light_tails_is_told():
    """A normal of deviation 0.35 for one of deviation 1: infinite variance, and typical runs come out too small."""
    found = integral(lambda x: stats.norm.pdf(x[:, 0]), Normal(0.35), 5000, Noise(5, "light"))
    with pytest.warns(UserWarning, match="heavy tail|makes up"):
        _ = found.standard_error
    spike = integral(lambda x: 0.2 + 500.0 * (x[:, 0] == x.max()), UniformBox(0.0, 1.0), 1000, Noise(6, "spike"))
    with pytest.warns(UserWarning, match="one of 1000 terms makes up 71%"):
        _ = spike.standard_error
    assert "makes up" not in integral(exp, UniformBox(0.0, 1.0), 1, Noise(6, "spike")).notice
    with pytest.warns(UserWarning, match="is 0 at all 10 draws"):
        _ = integral(lambda x: 0 * x[:, 0], UniformBox(0.0, 1.0), 10, Noise(6, "spike")).confint()


@pytest.mark.spec("BAY-02")
def test_what_no_draw_shows_is_looked_for():
    """p lives on half of where f does: the estimate is wrong by far more than its error, which nothing tells."""
    half = UniformBox(0.0, 0.5)
    found = integral(exp, half, 10_000, Noise(7, "half"))
    assert abs(found.mean - (math.e - 1)) > 100 * found.standard_error
    with pytest.raises(UserValueError, match=r"density 0 at .* of 100 points"):
        check_coverage(exp, half, 0.0, 1.0, 100, Noise(8, "look"))
    check_coverage(lambda x: exp(x) * (x[:, 0] < 0.5), half, 0.0, 1.0, 100, Noise(8, "look"))


@pytest.mark.spec("BAY-03")
def test_the_unit_disc():
    """I = pi with one-draw variance pi (4 - pi) = 2.6967662; four runs within 4 errors (false-alarm rate 3e-4)."""
    assert math.pi * (4 - math.pi) == pytest.approx(2.6967662, abs=5e-8)
    for seed in range(4):
        found = volume_integral(lambda x: (x**2).sum(axis=1) < 1, [-1, -1], [1, 1], 100_000, Noise(seed, "disc"))
        assert abs(found.mean - math.pi) < 4 * found.standard_error
        assert found.variance == pytest.approx(2.6967662, rel=0.01)
        assert found.standard_error == pytest.approx(0.005193, rel=0.005)


@pytest.mark.spec("BAY-03")
def test_it_is_the_integral_under_a_uniform_density():
    lower, upper = [0.0, -1.0, 2.0], [0.5, 3.0, 2.25]
    noise = Noise(9, "box")

    def f(x):
        return np.cos(x).sum(axis=1) * x[:, 1]

    box = volume_integral(f, lower, upper, 1000, noise)
    density = integral(f, Flat(lower, upper), 1000, noise)
    plain = np.prod(np.subtract(upper, lower)) * f(UniformBox(lower, upper).sample(1000, noise))
    assert box.mean == pytest.approx(density.mean, rel=1e-13)
    assert box.mean == pytest.approx(plain.mean(), rel=1e-13)
    assert box.standard_error == pytest.approx(plain.std(ddof=1) / math.sqrt(1000), rel=1e-12)


@pytest.mark.spec("BAY-03")
def test_volumes_that_no_number_holds():
    """V = 1e800: its logarithm does not overflow; what does is refused, and can be done in logs."""
    side = [1e4] * 200
    box = UniformBox([0.0] * 200, side)
    assert box.log_volume == pytest.approx(800 * math.log(10), rel=1e-14)
    small = volume_integral(lambda x: np.full(len(x), 1e-300), [0.0] * 75, [1e4] * 75, 10, Noise(0, "big"))
    assert small.mean == pytest.approx(1.0, rel=1e-10)
    with pytest.raises(UserValueError, match="overflows"):
        volume_integral(lambda x: np.ones(len(x)), [0.0] * 200, side, 10, Noise(0, "big"))
    sample = importance_sample(lambda x: np.full(len(x), -700 * math.log(10)), box, 10, Noise(0, "big"))
    assert sample.log_mean_weight == pytest.approx(100 * math.log(10), rel=1e-12)


@pytest.mark.spec("BAY-03")
@pytest.mark.parametrize(
    ("lower", "upper", "match"),
    [
        ([0.0, -np.inf], [1.0, 1.0], "side 1.*`integral`"),
        (0.0, np.inf, "side 0"),
        (np.nan, 1.0, "side 0"),
        (0.0, 0.0, "lower < upper"),
        (
            [0.0, 3.0],
            [1.0, 2.0],
            r"a side must have a finite positive length, got 3\.0 to 2\.0 \(side 1\); give lower < upper",
        ),
        (-1e308, 1e308, "side 0"),
        ([0.0, 0.0], [1.0], "shapes"),
        ([], [], "shapes"),
    ],
)
def test_boxes_without_a_volume_are_refused(lower, upper, match):
    for method in (volume_integral, quasi_integral):
        with pytest.raises(UserValueError, match=match):
            method(exp, lower, upper, 16, Noise(0, "bad"))


def test_nets_fill_a_box_evenly_and_their_error_is_honest():
    """x y^2 on [0, 2] x [0, 3]: 18. Student intervals of 8 nets cover in 400 runs as often as they say (99.9% band)."""

    def f(x):
        return x[:, 0] * x[:, 1] ** 2

    runs = [quasi_integral(f, [0, 0], [2, 3], 64, Noise(seed, "net"), replicates=8) for seed in range(400)]
    ends = np.array([run.confint(0.95, "student") for run in runs])
    inside = int(((ends[:, 0] <= 18) & (ends[:, 1] >= 18)).sum())
    low, high = stats.binom.interval(0.999, 400, 0.95)
    assert low <= inside <= high
    middle, reach = ends.mean(axis=1), 0.7 * np.diff(ends, axis=1)[:, 0] / 2
    assert int((abs(middle - 18) <= reach).sum()) < low
    values = np.array([run.mean for run in runs])
    assert abs(values.mean() - 18) < 4.5 * values.std(ddof=1) / 20
    plain = volume_integral(f, [0, 0], [2, 3], 512, Noise(0, "plain"))
    assert values.std(ddof=1) < plain.standard_error / 10
    shifted = quasi_integral(lambda x: f(x - [1.5, -4]), [1.5, -4], [3.5, -1], 64, Noise(0, "net"), replicates=8)
    assert shifted.mean == pytest.approx(runs[0].mean, rel=1e-12)
    again = quasi_integral(f, [0, 0], [2, 3], 64, Noise(0, "net"), replicates=8)
    assert again.mean == runs[0].mean


def test_what_cannot_be_integrated_is_refused():
    for n in (48, 0, -4, 1 << 31):
        with pytest.raises(UserValueError, match=rf"n must be a power of 2, at most 2\^30, got {n}"):
            quasi_integral(exp, 0.0, 1.0, n, Noise(0, "bad"))
    with pytest.raises(UserValueError, match="replicates must be at least 2, got 1; the error needs several nets"):
        quasi_integral(exp, 0.0, 1.0, 64, Noise(0, "bad"), replicates=1)
    with pytest.raises(UserTypeError, match="log_prob"):
        integral(exp, lambda n, noise: np.zeros((n, 1)), 10, Noise(0, "bad"))
    with pytest.raises(UserValueError, match=r"f must be finite wherever draws fall, got nan \(draw 0\)"):
        volume_integral(lambda x: np.full(len(x), np.nan), 0.0, 1.0, 10, Noise(0, "bad"))
    with pytest.raises(
        UserValueError, match=r"f must return one number for each of the 10 points, got shape \(10, 1\)"
    ):
        volume_integral(lambda x: np.exp(x), 0.0, 1.0, 10, Noise(0, "bad"))
    with pytest.raises(UserValueError, match="n must be at least 1, got 0"):
        check_coverage(exp, Slope(), 0.0, 1.0, 0, Noise(0, "bad"))

    class Wrong(Slope):
        def sample(self, n, noise):
            return 1 + Slope.sample(self, n, noise)

    with pytest.raises(
        UserValueError,
        match=r"log_prob must be finite where the proposal draws, got -inf .*the density that is sampled",
    ):
        integral(exp, Wrong(), 10, Noise(0, "bad"))


def test_a_law_of_the_library_gives_rows():
    law, noise = real.Normal(np.zeros(2), np.array([1.0, 2.0])), Noise(3, "law")
    found = integral(lambda x: np.exp(-0.5 * (x * x).sum(1)), law, 2000, noise)
    x = law.sample(noise, 0, (2000,))
    terms = np.exp(-0.5 * (x * x).sum(1)) / stats.norm(scale=[1.0, 2.0]).pdf(x).prod(1)
    assert found.mean == pytest.approx(terms.mean(), rel=1e-12)
    assert abs(found.mean - 2 * math.pi) < 4 * found.standard_error
