"""Densities where squares overflow, at poles and at edges; draws that lie there."""

import math
import warnings

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from gnomon.distributions import bounded, normal_wishart, positive, real, sticks, vectors
from gnomon.distributions.spike_and_slab import SpikeAndSlab
from gnomon.numeric.noise import Noise

LN = mpmath.log


def normal(x, m, s):
    return -(((x - m) / s) ** 2) / 2 - LN(s) - LN(2 * mpmath.pi) / 2


def student(x, df, m, s):
    constant = mpmath.loggamma((df + 1) / 2) - mpmath.loggamma(df / 2) - LN(df * mpmath.pi) / 2 - LN(s)
    return constant - (df + 1) / 2 * LN(1 + ((x - m) / s) ** 2 / df)


def gamma(x, a, b):
    return a * LN(b) + (a - 1) * LN(x) - b * x - mpmath.loggamma(a)


def beta(x, a, b):
    whole = mpmath.loggamma(a + b) - mpmath.loggamma(a) - mpmath.loggamma(b)
    return whole + (a - 1) * LN(x) + (b - 1) * LN(1 - x)


DENSITIES = [
    (real.Normal, (0.0, 1e200), normal),
    (real.Normal, (0.0, 1e-200), normal),
    (real.Normal, (0.0, 1.0), normal),
    (real.Laplace, (0.0, 2.0), lambda x, m, b: -abs(x - m) / b - LN(2 * b)),
    (real.Cauchy, (0.0, 1.0), lambda x, m, s: student(x, mpf(1), m, s)),
    (real.Cauchy, (3.0, 1e-200), lambda x, m, s: student(x, mpf(1), m, s)),
    (real.StudentT, (3.0, 0.0, 1.0), student),
    (real.StudentT, (1e6, 0.0, 1e100), student),
    (real.StudentT, (0.5, 1.0, 1e-200), student),
    (positive.LogNormal, (0.3, 0.6), lambda x, m, s: normal(LN(x), m, s) - LN(x)),
    (positive.LogNormal, (0.3, 1e160), lambda x, m, s: normal(LN(x), m, s) - LN(x)),
    (positive.Exponential, (2.5,), lambda x, r: LN(r) - r * x),
    (positive.Exponential, (1e-200,), lambda x, r: LN(r) - r * x),
    (positive.Gamma, (0.001, 1.0), gamma),
    (positive.Gamma, (5.0, 1e-200), gamma),
    (positive.InverseGamma, (2.0, 3.0), lambda x, a, b: a * LN(b) - mpmath.loggamma(a) - (a + 1) * LN(x) - b / x),
    (positive.Pareto, (1e-300, 0.1), lambda x, m, k: LN(k) + k * LN(m) - (k + 1) * LN(x)),
    (bounded.Beta, (1e-4, 1e-4), beta),
    (bounded.Beta, (2.0, 5.0), beta),
    (bounded.TruncatedNormal, (0.0, 1e200, 0.0, 1e201), None),
    (bounded.VonMises, (0.0, 1e20), None),
    (SpikeAndSlab, (0.25, 0.0, 1e200), lambda x, p, m, s: LN(p) + normal(x, m, s)),
]  # fmt: skip


@pytest.mark.parametrize(("family", "given", "exact"), DENSITIES, ids=lambda v: getattr(v, "__name__", str(v)))
def test_log_densities_at_every_scale(family, given, exact):
    """B2-23: against 60 digits; what lies beyond float64 is -inf, nothing is NaN, nothing warns."""
    with mpmath.workdps(60), warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (1e-300, 1e-200, 1e-160, 1e-10, 0.5, 3.0, 1e10, 1e160, 1e200, 1e300):
            if family in (bounded.Beta, bounded.VonMises) and x >= 1:
                continue
            if family is bounded.VonMises:  # a normal of variance 1 / k, to all digits
                right = normal(mpf(x), 0, 1 / mpmath.sqrt(given[1])) if x <= 1e-10 else mpf(-math.inf)
            elif family is bounded.TruncatedNormal:
                right = normal(mpf(x), 0, given[1]) + LN(2) if x <= 1e201 else mpf(-math.inf)
            else:
                right = exact(mpf(x), *map(mpf, given))
            value = float(family(*given).log_prob(x))
            if x > 1e-10 and family is bounded.VonMises:
                assert value < -1e17
                continue
            assert value == pytest.approx(float(right), rel=1e-11, abs=1e-11), x


def test_vectors_of_student_far_away():
    scale = np.array([[1.0, 0.3], [0.3, 2.0]])
    made = vectors.MultivariateStudentT(3.0, [0.0, 0.0], scale)
    for x in ([1e200, -1e200], [1e-200, 0.0], [0.0, 0.0], [3.0, 1e10]):
        with mpmath.workdps(60):
            v, C = mpmath.matrix(x), mpmath.matrix(scale.tolist())
            square = (v.T * C**-1 * v)[0]
            constant = mpmath.loggamma(2.5) - mpmath.loggamma(1.5) - LN(3 * mpmath.pi) - LN(mpmath.det(C)) / 2
            right = float(constant - mpf(5) / 2 * LN(1 + square / 3))
        assert made.log_prob([x])[0] == pytest.approx(right, rel=1e-12)


@pytest.mark.parametrize(
    ("made", "x", "right"),
    [
        (bounded.Beta(1e-4, 1e-4), [0.0, 1.0], [np.inf, np.inf]),
        (bounded.Beta(1.0, 1.0), [0.0, 1.0], [0.0, 0.0]),
        (bounded.Beta(1.0, 3.0), [0.0, 1.0], [math.log(3), -np.inf]),
        (bounded.Beta(2.0, 0.5), [0.0, 1.0], [-np.inf, np.inf]),
        (bounded.Beta(2.0, 3.0), [-1e-9, 1 + 1e-9], [-np.inf, -np.inf]),
        (positive.Gamma(0.001, 1.0), [0.0, -1e-300], [np.inf, -np.inf]),
        (positive.Gamma(1.0, 2.0), [0.0], [math.log(2)]),
        (positive.Gamma(1.5, 2.0), [0.0], [-np.inf]),
        (positive.Exponential(2.0), [0.0], [math.log(2)]),
        (positive.LogNormal(0.0, 1.0), [0.0], [-np.inf]),
        (positive.InverseGamma(0.1, 1.0), [0.0], [-np.inf]),
        (vectors.Dirichlet([0.5, 0.5, 2.0]),
         [[0.0, 0.5, 0.5], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0]], [np.inf, -np.inf, -np.inf]),
        (vectors.Dirichlet([1.0, 1.0, 1.0]), [[0.0, 0.0, 1.0]], [math.log(2)]),
        (sticks.StickBreaking(1.0, 3), [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]], [np.inf, math.log(2)]),
        (sticks.StickBreaking(3.0, 3), [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]], [-np.inf, -np.inf]),
        (sticks.StickBreaking(0.3, 3), [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]], [np.inf, np.inf]),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "log_prob") else str(value),
)  # fmt: skip
def test_the_density_at_an_edge_is_what_it_is_beside(made, x, right):
    """B2-24: infinite at a pole, finite where the exponent is 0, and 0 only where the density vanishes."""
    np.testing.assert_allclose(made.log_prob(np.array(x)), right, rtol=1e-12)


def test_a_precision_of_zero():
    """Infinite below a = 1/2, as the joint density b^a / Gamma(a) t^(a - 1/2) (k / 2 pi)^(1/2) is near it."""
    middle = 0.5 * math.log(3) - math.lgamma(0.5) + 0.5 * math.log(2 / (2 * math.pi))
    for a, right in ((0.1, np.inf), (0.5, middle), (2.0, -np.inf)):
        made = normal_wishart.NormalGamma(0.0, 2.0, a, 3.0)
        assert made.log_prob(1.0, 0.0) == pytest.approx(right)
        assert made.log_prob(1.0, -1e-300) == -np.inf


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_family_calls_its_own_draws_impossible(dtype):
    """B2-24: with shapes so small, or scales so wide, that draws reach what the dtype can hold."""
    small, one = dtype(0.001), dtype(1.0)
    wide = dtype(np.finfo(dtype).max / 10)
    made = [
        vectors.Dirichlet(np.full(4, small)), vectors.Dirichlet(np.full(20_000, dtype(0.5))),
        bounded.Beta(small, small),
        positive.Gamma(small, one), positive.InverseGamma(small, one), positive.Pareto(one, small),
        positive.LogNormal(dtype(0), dtype(1000)), positive.LogNormal(dtype(-800), one), real.StudentT(small),
        real.Cauchy(dtype(0), wide), positive.Exponential(wide), bounded.Uniform(-one, one),
    ]  # fmt: skip
    if dtype == np.float64:
        made.append(sticks.StickBreaking(0.001, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for family in made:
            n = 20 if getattr(family, "size", 1) > 4 else 2000
            draws = family.sample(Noise(0, "x"), 0, (n,))
            assert np.isfinite(draws).all(), family
            logs = family.log_prob(draws)
            assert not np.isnan(logs).any() and (logs > -np.inf).all(), family
