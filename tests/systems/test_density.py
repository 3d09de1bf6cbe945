"""Every system with a density or a mass: it sums to one, an odd element is surprising, scores keep their units."""

import itertools

import numpy as np
import pytest

import gnomon
from gnomon.catalog import entry
from gnomon.distributions.domains import Binary, Real
from gnomon.distributions.whole import Categories, Counts
from gnomon.evaluation.score import Score
from gnomon.numeric.noise import Noise

GRID = np.arange(-30, 30, 0.1)
PLANE = np.stack(np.meshgrid(GRID, GRID), -1).reshape(-1, 2)
BITS = np.array(list(itertools.product([0.0, 1.0], repeat=6)))
WAYS = {
    "ppca": {},
    "gaussian-mixture": {},
    "gaussian-mixture, tied": {"covariance": "tied"},
    "gaussian-mixture, diag": {"covariance": "diag"},
    "gaussian-mixture, spherical": {"covariance": "spherical"},
}
"""Ways of fitting a density; those without options are in the catalog anyway."""
MASSES = ("bernoulli-mixture", "rbm")
DENSITIES = [one.name for one in gnomon.catalog() if one.tasks[0] == "density"]


def made(way, **changes):
    name = way.partition(",")[0]
    return gnomon.make(name, **{"random_state": 0, **entry(name).tiny, **WAYS.get(way, {}), **changes})


def coupled(n=400, d=2):
    """Columns that agree but for a little noise."""
    random = np.random.default_rng(0)
    common = random.normal(size=(n, 1))
    return np.repeat(common, d, axis=1) + 0.1 * random.normal(size=(n, d))


def agreeing(n=300):
    """Six bits that are all alike in 19 rows of 20."""
    random = np.random.default_rng(0)
    bits = np.repeat(random.integers(0, 2, size=(n, 1)), 6, axis=1).astype(float)
    odd = random.random(n) < 0.05
    bits[odd, 2] = 1 - bits[odd, 2]
    return bits


def pairs(n):
    """All pairs of whole numbers below n."""
    return np.array(list(itertools.product(np.arange(float(n)), repeat=2)))


def rows_and_support(domain):
    """Rows to fit to, every point of the space that counts, and how much of it each stands for; None: not known."""
    random = np.random.default_rng(1)
    if isinstance(domain, Real):
        return random.normal(size=(60, 2)) @ [[1.5, 0.5], [0.0, 1.0]] + [1, 2], PLANE, 0.1**2
    if isinstance(domain, Binary):
        return agreeing(), BITS, 1.0
    if isinstance(domain, Counts):
        return random.poisson([3.0, 7.0], size=(60, 2)), pairs(80), 1.0
    if isinstance(domain, Categories):
        return random.integers(0, domain.n, size=(60, 2)), pairs(domain.n), 1.0
    return None


@pytest.mark.spec("REP-120")
@pytest.mark.parametrize("way", sorted({*DENSITIES, *WAYS}))
def test_densities_and_masses_sum_to_one(way):
    """Every system of the task with an exact log_prob; where there is a bound, see the system's own tests."""
    system = made(way)
    if not hasattr(system, "log_prob"):
        pytest.skip("the log probability is not exact")
    found = rows_and_support(system.outcomes)
    if found is None:
        pytest.skip(f"points of {system.outcomes.describe()} are not listed here")
    X, support, volume = found
    labels = np.arange(len(X)) % 2 if system.labeled else None
    if not hasattr(system.fit(X, labels), "log_prob"):
        pytest.skip("the log probability of a model of these columns is not exact")
    # steep loadings make steps of the integrand, which a grid of factors meets to 1e-4
    error = 1e-4 if way.startswith("generalized-factor-analysis") else 1e-5
    assert np.exp(system.log_prob(support)).sum() * volume == pytest.approx(1, abs=error)


@pytest.mark.spec("REP-120")
@pytest.mark.parametrize("domain", [Real(), Binary(), Counts(), Categories(5)])
def test_baselines_sum_to_one(domain):
    X, support, volume = rows_and_support(domain)
    baseline = domain.baseline(X)
    assert np.exp(baseline.log_prob(support)).sum() * volume == pytest.approx(1, abs=1e-9)
    drawn = domain.check(baseline.sample(20_000, Noise(0, "baseline")))
    error = np.std(X, axis=0) / np.sqrt(20_000)  # 5 of them: one alarm in a million
    np.testing.assert_array_less(np.abs(drawn.mean(0) - X.mean(0)), 5 * error + 0.02)


@pytest.mark.spec("REP-120")
@pytest.mark.parametrize("way", WAYS)
def test_one_odd_element_is_surprising(way):
    """Each value is ordinary in its own column; that they differ is not."""
    if way.endswith(("diag", "spherical")):
        system = made(way, n_components=12)  # columns that are independent within a component
    else:
        system = made(way)
    system.fit(coupled())
    ordinary, odd = system.anomaly_score([[1.0, 1.0], [-1.0, -1.0]]), system.anomaly_score([[1.0, -1.0], [-1.0, 1.0]])
    assert odd.min() > ordinary.max() + 5
    np.testing.assert_array_equal(ordinary, -system.log_prob([[1.0, 1.0], [-1.0, -1.0]]))


@pytest.mark.spec("REP-120")
@pytest.mark.parametrize("name", MASSES)
def test_one_odd_bit_is_surprising(name):
    changes = {"n_components": 4} if name == "bernoulli-mixture" else {"epochs": 400, "learning_rate": 0.5}
    system = made(name, **changes).fit(agreeing())
    ordinary, odd = np.array([[0.0] * 6, [1.0] * 6]), np.array([[0, 0, 0, 1, 0, 0], [1, 1, 1, 1, 0, 1.0]])
    assert system.anomaly_score(odd).min() > system.anomaly_score(ordinary).max() + 1


@pytest.mark.spec("REP-120")
def test_bits_per_column():
    fair = made("bernoulli-mixture", n_components=1, smoothing=0.0).fit(BITS)
    bits = fair.bits_per_dim(BITS)
    assert isinstance(bits, Score)
    assert bits.value == pytest.approx(1.0, abs=1e-12)  # a fair coin a column
    assert (bits.data_space, bits.kind, bits.higher_is_better) == ("pmf on {0,1}^6", "exact", False)
    X = coupled()
    mixture = made("gaussian-mixture").fit(X)
    assert mixture.bits_per_dim(X).value == pytest.approx(-mixture.score(X) / (2 * np.log(2)), abs=1e-12)
    thousand = made("gaussian-mixture").fit(1000 * X)
    assert thousand.bits_per_dim(1000 * X).value == pytest.approx(
        mixture.bits_per_dim(X).value + np.log2(1000), abs=1e-6
    )
    assert not hasattr(made("softmax-regression"), "anomaly_score")
    assert not hasattr(gnomon.make("ngram"), "bits_per_dim")


@pytest.mark.spec("REP-120")
def test_mass_and_density_are_not_compared():
    from gnomon.errors import UserError

    mass = made("bernoulli-mixture").fit(agreeing()).bits_per_dim(agreeing())
    density = made("gaussian-mixture").fit(coupled(d=6)).bits_per_dim(coupled(d=6))
    with pytest.raises(UserError, match="data_space"):
        mass.against(density)
