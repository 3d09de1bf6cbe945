"""Every system with a density or a mass: it sums to one, an odd element is surprising, scores keep their units."""

import itertools

import numpy as np
import pytest

import gnomon
from gnomon.catalog import entry
from gnomon.evaluation.score import Score

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
MASSES = ("bernoulli-mixture", "rbm")
BOUNDED = ("vae",)
"""Their densities are bounded and estimated, not known: tests/systems/variational."""


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


def test_every_density_of_the_catalog_is_tried():
    density = {one.name for one in gnomon.catalog() if one.tasks[0] == "density"}
    assert {way.partition(",")[0] for way in WAYS} | {*MASSES, *BOUNDED} == density


@pytest.mark.spec("REP-120")
@pytest.mark.parametrize("way", WAYS)
def test_densities_integrate_to_one(way):
    X = np.random.default_rng(1).normal(size=(60, 2)) @ [[1.5, 0.5], [0.0, 1.0]] + [1, 2]
    system = made(way).fit(X)
    assert np.exp(system.log_prob(PLANE)).sum() * 0.1**2 == pytest.approx(1, abs=1e-6)


@pytest.mark.spec("REP-120")
@pytest.mark.parametrize("name", MASSES)
def test_masses_sum_to_one(name):
    assert np.exp(made(name).fit(agreeing()).log_prob(BITS)).sum() == pytest.approx(1, abs=1e-5)


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


def test_mass_and_density_are_not_compared():
    from gnomon.errors import UserError

    mass = made("bernoulli-mixture").fit(agreeing()).bits_per_dim(agreeing())
    density = made("gaussian-mixture").fit(coupled(d=6)).bits_per_dim(coupled(d=6))
    with pytest.raises(UserError, match="data_space"):
        mass.against(density)
