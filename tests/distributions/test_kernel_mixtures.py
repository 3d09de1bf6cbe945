"""Kernel mixtures against SciPy's kernel density estimate, closed forms and quadrature; measures by their axioms."""

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import gaussian_kde, logistic, multivariate_normal, norm

from gnomon.distributions.kernel_mixtures import (
    DiscreteMeasure,
    EmpiricalMeasure,
    KernelMixture,
    MixedMeasure,
    NormalKernel,
    NormalMeasure,
    bandwidth_factor,
    kernel_density,
)
from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.noise import Noise

INF = np.inf


def rows(d, n=40):
    random = np.random.default_rng(d)
    return random.normal(size=(n, d)) @ np.triu(np.ones((d, d))) * np.linspace(0.5, 3, d) + 2


class LogisticKernel:
    """The logistic density about theta, of one column."""

    def log_prob(self, y, theta):
        return logistic.logpdf(y - theta.T)

    def sample(self, theta, noise, draw=0):
        return logistic.ppf(noise.uniform(theta.shape, draw)) + theta


@pytest.mark.spec("BAY-77")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rule", ["scott", "silverman", 0.3])
@pytest.mark.parametrize("d", [1, 3])
def test_the_empirical_measure_under_a_normal_kernel_is_scipys_estimate(d, rule, weighted):
    """Factors, covariances (divisor n - 1 and its kin of weights) and densities, far out too."""
    X = rows(d)
    weights = np.random.default_rng(9).random(len(X)) if weighted else None
    peer = gaussian_kde(X.T, bw_method=rule, weights=weights)
    mine = kernel_density(X if d > 1 else X[:, 0], weights, bandwidth=rule)
    assert bandwidth_factor(mine.measure, rule) == pytest.approx(peer.factor, rel=1e-12)
    np.testing.assert_allclose(mine.kernel.covariance, peer.covariance, rtol=1e-10)
    at = np.concatenate([X[:5] + 0.3, X[:2] * 4])
    np.testing.assert_allclose(mine.log_prob(at), peer.logpdf(at.T), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(mine.density(at), peer.pdf(at.T), rtol=1e-9)


@pytest.mark.spec("BAY-77")
def test_a_normal_measure_under_a_normal_kernel_is_normal():
    """N(m, s^2 + t^2) in one column; N(m, S + T) in two; the same by an integral over theta."""
    one = KernelMixture(NormalKernel(0.5), NormalMeasure([1.0], [[2.0]]))
    y = np.array([-3.0, 0.0, 1.0, 4.5])
    np.testing.assert_allclose(one.density(y), norm(1.0, np.sqrt(2.5)).pdf(y), rtol=1e-12)
    for value, found in zip(y, one.density(y), strict=True):
        by_hand = quad(lambda t: norm(t, np.sqrt(0.5)).pdf(value) * norm(1, np.sqrt(2)).pdf(t), -20, 20)[0]  # noqa: B023
        assert found == pytest.approx(by_hand, rel=1e-8)
    S, T = np.array([[1.0, 0.4], [0.4, 0.7]]), np.array([[2.0, -0.5], [-0.5, 1.0]])
    two = KernelMixture(NormalKernel(S), NormalMeasure([1.0, -1.0], T))
    Y = rows(2, 6)
    np.testing.assert_allclose(two.log_prob(Y), multivariate_normal([1.0, -1.0], S + T).logpdf(Y), rtol=1e-12)


@pytest.mark.spec("BAY-77")
def test_discrete_and_mixed_measures_are_sums():
    values, weights = np.array([[0.0, 1.0], [2.0, -1.0], [0.0, 1.0]]), [0.2, 0.5, 0.3]
    S, Y = np.array([[1.0, 0.3], [0.3, 0.5]]), rows(2, 5)
    mine = KernelMixture(NormalKernel(S), DiscreteMeasure(values, weights))
    by_hand = sum(w * multivariate_normal(v, S).pdf(Y) for w, v in zip(weights, values, strict=True))
    np.testing.assert_allclose(mine.density(Y), by_hand, rtol=1e-12)
    other = NormalMeasure([1.0, 0.0], np.eye(2))
    both = KernelMixture(NormalKernel(S), MixedMeasure([DiscreteMeasure(values, weights), other], [0.25, 0.75]))
    expected = 0.25 * by_hand + 0.75 * multivariate_normal([1.0, 0.0], S + np.eye(2)).pdf(Y)
    np.testing.assert_allclose(both.density(Y), expected, rtol=1e-12)


@pytest.mark.spec("BAY-77")
def test_another_kernel_is_integrated():
    """A logistic kernel: sums over points exactly, a normal measure by quadrature to 1e-6."""
    y, points = np.array([-1.0, 0.2, 3.0]), np.array([0.0, 2.0])
    mine = KernelMixture(LogisticKernel(), DiscreteMeasure(points, [0.3, 0.7]))
    np.testing.assert_allclose(mine.density(y), 0.3 * logistic(0).pdf(y) + 0.7 * logistic(2).pdf(y), rtol=1e-12)
    smooth = KernelMixture(LogisticKernel(), NormalMeasure([0.5], [[2.0]])).density(y)
    for value, found in zip(y, smooth, strict=True):
        by_hand = quad(lambda t: logistic(t).pdf(value) * norm(0.5, np.sqrt(2)).pdf(t), -20, 20)[0]  # noqa: B023
        assert found == pytest.approx(by_hand, rel=1e-6)
    assert quad(lambda t: float(mine.density([t])[0]), -30, 30, points=[0, 2])[0] == pytest.approx(1, abs=1e-8)


@pytest.mark.spec("BAY-77")
@pytest.mark.parametrize(
    "measure",
    [
        DiscreteMeasure([[0.0, 0.0], [1.0, 2.0], [1.0, 2.0], [-1.0, 0.5]], [0.1, 0.2, 0.3, 0.4]),
        EmpiricalMeasure(rows(2), np.arange(40.0)),
        NormalMeasure([0.3, -0.2], [[1.0, 0.5], [0.5, 2.0]]),
        MixedMeasure([DiscreteMeasure([[0.0, 0.0]]), NormalMeasure([0.0, 0.0], np.eye(2))], [0.4, 0.6]),
    ],
    ids=["discrete", "empirical", "normal", "mixed"],
)
def test_a_measure_keeps_the_axioms(measure):
    """Not negative, of total mass 1, additive over the boxes that a grid cuts the plane into; draws fall as it says."""
    assert measure.mass([-INF, -INF], [INF, INF]) == pytest.approx(1, abs=1e-8)
    cuts = [-INF, -1.0, 0.0, 0.5, 1.0, INF]
    parts = np.array(
        [
            measure.mass([a, c], [b, e])
            for (a, b), (c, e) in itertools.product(itertools.pairwise(cuts), itertools.pairwise(cuts))
        ]
    )
    assert (parts >= 0).all() and parts.sum() == pytest.approx(1, abs=1e-6)
    left = measure.mass([-INF, -INF], [0.0, 0.5])
    assert measure.mass([-INF, -INF], [1.0, 0.5]) == pytest.approx(
        left + measure.mass([0.0, -INF], [1.0, 0.5]), abs=1e-6
    )
    assert measure.mass([1.0, 0.0], [0.0, 1.0]) == 0
    drawn = measure.sample(Noise(0, "draws"), shape=(20_000,))
    share = ((drawn <= [0.0, 0.5]).all(1)).mean()
    assert abs(share - left) <= 4.5 * np.sqrt(left * (1 - left) / 20_000) + 1e-12  # false alarm 1e-5
    assert (np.abs(drawn.mean(0) - measure.mean) <= 4.5 * np.sqrt(np.diag(measure.covariance) / 20_000)).all()


@pytest.mark.spec("BAY-77")
def test_a_mixture_of_many_measures_is_drawn():
    many = MixedMeasure([DiscreteMeasure([float(k)]) for k in range(100)], np.arange(100) / 4950)
    drawn = many.sample(Noise(0, "draws"), shape=(20_000,))
    assert drawn.shape == (20_000, 1) and set(np.unique(drawn)) <= set(range(1, 100))
    assert abs(drawn.mean() - many.mean[0]) <= 4.5 * np.sqrt(many.covariance[0, 0] / 20_000)  # false alarm 1e-5


@pytest.mark.spec("BAY-77")
@pytest.mark.parametrize("kind", ["empirical", "normal"])
def test_draws_have_the_density(kind):
    """20,000 draws: mean and covariance of theta plus the kernel's, false alarm 1e-4 each number at most."""
    S = np.array([[0.5, 0.2], [0.2, 0.4]])
    measure = EmpiricalMeasure(rows(2)) if kind == "empirical" else NormalMeasure([1.0, 2.0], [[1.0, 0.3], [0.3, 2.0]])
    drawn = KernelMixture(NormalKernel(S), measure).sample(Noise(0, "draws"), shape=(20_000,))
    total = S + measure.covariance
    assert drawn.shape == (20_000, 2)
    assert (np.abs(drawn.mean(0) - measure.mean) <= 4.5 * np.sqrt(np.diag(total) / 20_000)).all()
    error = np.sqrt((total**2 + np.outer(np.diag(total), np.diag(total))) / 20_000)
    assert (np.abs(np.cov(drawn.T) - total) <= 6 * error).all()


@pytest.mark.spec("BAY-77")
def test_what_is_no_measure_is_refused_in_one_line():
    for call, error, match in (
        (lambda: DiscreteMeasure([0.0, 1.0], [0.5, 0.6]), UserValueError, r"sum to 1, got 1\.1"),
        (lambda: DiscreteMeasure([0.0, 1.0], [1.5, -0.5]), UserValueError, "weights must be at least 0"),
        (lambda: DiscreteMeasure([0.0, 1.0], [1.0]), UserValueError, "weights must be 2 numbers"),
        (lambda: EmpiricalMeasure([0.0, 1.0], [0.0, 0.0]), UserValueError, "sum to 1"),
        (lambda: NormalMeasure([0.0], [[-1.0]]), UserValueError, "positive definite"),
        (lambda: MixedMeasure([DiscreteMeasure([0.0])], [0.5]), UserValueError, "sum to 1"),
        (lambda: kernel_density([1.0]), UserValueError, "rows must be at least 2"),
        (lambda: kernel_density([1.0, 2.0], bandwidth=0.0), UserValueError, "bandwidth must be scott"),
        (lambda: kernel_density([1.0, 2.0], bandwidth="scot"), UserValueError, "bandwidth must be scott"),
        (lambda: kernel_density([[1.0, 0.0], [2.0, 0.0]]), UserValueError, "positive definite"),
        (lambda: kernel_density([[0.1, 1.0], [0.2, 2.0], [0.7, 7.0]]), UserValueError, "rows must differ in every"),
        (lambda: kernel_density([[x, 0.1 + 1e-17 * x] for x in range(9)]), UserValueError, "rows must differ in every"),
        (lambda: kernel_density([1.0, 2.0], bandwidth=None), UserValueError, "bandwidth must be scott"),
        (lambda: DiscreteMeasure([0.0]).mass("a", 1.0), UserTypeError, "must hold numbers"),
        (lambda: kernel_density([1.0, 2.0]).density([[1.0, 2.0]]), UserValueError, "y must have 1 columns"),
        (lambda: KernelMixture(1.0, DiscreteMeasure([0.0])), UserTypeError, "kernel must have log_prob"),
        (lambda: KernelMixture(NormalKernel(1.0), 1.0), UserTypeError, "measure must have points"),
        (lambda: KernelMixture(NormalKernel(1.0), DiscreteMeasure([[0.0, 1.0]])), UserValueError, "one length"),
        (lambda: NormalMeasure(np.zeros(3), np.eye(3)).points(), UserValueError, "at most 2 columns"),
        (lambda: DiscreteMeasure([0.0]).mass([0.0, 1.0], [1.0]), UserValueError, "an end of a box must be 1 numbers"),
    ):
        with pytest.raises(error, match=match):
            call()
