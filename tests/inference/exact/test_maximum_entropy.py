"""Maximum entropy against the normal, the exponential and the Gibbs family."""

import math

import numpy as np
import pytest
from scipy import optimize, special, stats

from gnomon.errors import UserValueError
from gnomon.inference.exact.maximum_entropy import maximum_entropy


def tilted(law, x, mean):
    """law * exp(a x), normalized, with the a that gives this mean."""

    def at(a):
        weighted = law * np.exp(a * x)
        return weighted / weighted.sum()

    return at(optimize.brentq(lambda a: (x * at(a)).sum() - mean, -50, 50))


@pytest.mark.spec("INF-95")
def test_mean_and_variance_give_the_normal():
    found = maximum_entropy([lambda x: x, lambda x: (x - 1) ** 2], [1.0, 4.0], (-39.0, 41.0))
    x = np.linspace(-8, 10, 50)
    assert np.allclose(found.log_prob(x), stats.norm(1, 2).logpdf(x), atol=1e-8)
    assert np.allclose(found.multipliers, [0, -1 / 8], atol=1e-9)
    # with the constant as a feature of its own: lambda_1 - 1 = -A
    assert math.isclose(1 - found.log_normalizer, 1 - math.log(2 * math.sqrt(2 * math.pi)), rel_tol=1e-8)
    assert abs(1 - found.log_normalizer + 0.612086) < 1e-6
    assert abs(found.entropy - 2.112086) < 1e-6
    assert np.allclose(found.means, [1, 4])
    for other in (stats.laplace(1, math.sqrt(2)), stats.uniform(1 - math.sqrt(12), 2 * math.sqrt(12))):
        assert math.isclose(other.var(), 4) and other.entropy() < found.entropy
    assert abs(stats.laplace(1, math.sqrt(2)).entropy() - 2.039721) < 1e-6
    assert abs(stats.uniform(0, 2 * math.sqrt(12)).entropy() - 1.935601) < 1e-6


@pytest.mark.spec("INF-95")
def test_a_mean_on_the_half_line_gives_the_exponential_and_on_a_die_the_gibbs_family():
    found = maximum_entropy([lambda x: x], [2.0], (0.0, 120.0))
    x = np.linspace(0, 20, 30)
    assert np.allclose(found.log_prob(x), stats.expon(scale=2).logpdf(x), atol=1e-7)
    die = maximum_entropy([lambda x: x], [4.5], range(1, 7), discrete=True)
    faces = np.arange(1, 7)
    assert np.allclose(np.exp(die.log_prob(faces)), tilted(np.ones(6), faces, 4.5))
    for seed in range(20):  # no other law with this mean has more entropy
        other = tilted(np.random.default_rng(seed).dirichlet(np.ones(6)), faces, 4.5)
        assert math.isclose((other * faces).sum(), 4.5) and stats.entropy(other) < die.entropy + 1e-12


@pytest.mark.spec("INF-95")
def test_infeasible_means_are_refused():
    with pytest.raises(UserValueError, match="between 1 and 6"):
        maximum_entropy([lambda x: x], [7.0], range(1, 7), discrete=True)
    with pytest.raises(
        UserValueError, match=r"no distribution on the support has these means \(off by .*do not determine each other"
    ):  # E x^2 < (E x)^2
        maximum_entropy([lambda x: x, lambda x: x**2], [3.0, 4.0], (-10.0, 10.0))
    with pytest.raises(
        UserValueError, match="support must be finite; choose ends beyond which the density is negligible"
    ):
        maximum_entropy([lambda x: x], [1.0], (0.0, math.inf))


@pytest.mark.spec("INF-95")
def test_there_is_no_least_entropy_under_mean_and_variance():
    found = []
    for d in (1.0, 0.1, 0.01):  # two normal bumps of standard deviation d, together of variance 4
        at = math.sqrt(4 - d * d)
        grid = np.unique(np.concatenate([c + d * np.linspace(-12, 12, 20_001) for c in (-at, at)]))
        p = 0.5 * (stats.norm(-at, d).pdf(grid) + stats.norm(at, d).pdf(grid))
        middle = (p[1:] + p[:-1]) / 2
        found.append(float((np.diff(grid) * special.entr(middle)).sum()))
    assert np.allclose(found, [2.004878, -0.190499, -2.493084], atol=2e-5)
    assert max(found) < 2.112086  # and below every one of them there is another
