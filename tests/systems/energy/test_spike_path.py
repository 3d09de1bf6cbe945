"""Spikes annealed alone: their weights by the explicit mixture, the path by enumeration, a mode that others miss."""

import numpy as np
import pytest
from tests.oracles.binary import ais_moments, all_states
from tests.systems.energy.test_spike_and_slab_rbm import machine, mixture, parameters

from gnomon.errors import UserValueError
from gnomon.evaluation.partition import log_partition
from gnomon.evaluation.spurious import spurious_mass
from gnomon.inference.importance.ais import anneal
from gnomon.inference.importance.reverse import reverse_anneal
from gnomon.numeric.noise import Noise
from gnomon.systems.energy.conv_ssrbm import ConvSSRBMModel
from gnomon.systems.energy.spike_and_slab_rbm import SpikeAndSlabRBM, SpikeAndSlabRBMModel

SLABS = pytest.mark.parametrize("slabs", [1, 3])


def log_masses(p):
    """Of the states of the spikes, from the definition alone."""
    log_z, parts = mixture(p)
    return np.array([weight + log_z for weight, _, _ in parts])


@pytest.mark.spec("GEN-044")
@SLABS
def test_weights_slopes_and_rows_are_those_of_the_explicit_mixture(slabs):
    p = parameters(slabs, n=3)
    weights, h = machine(p).normalizing_path([0.0, 1.0]).weights, all_states(3)
    np.testing.assert_allclose(weights.log_weight(h), log_masses(p), atol=1e-10)
    at, steps = np.array([0.3, 0.5, 0.8]), 1e-6 * np.eye(3)
    wanted = (weights.log_weight(at + steps) - weights.log_weight(at - steps)) / 2e-6
    np.testing.assert_allclose(weights.slopes(np.array([at, at])), [wanted, wanted], atol=1e-7)
    n = 20_000  # the means and covariances within 5 standard errors
    for state, (_, mean, covariance) in list(zip(h, mixture(p)[1], strict=True))[::7]:
        rows = weights.columns(np.tile(state, (n, 1)), Noise(0, "rows"))
        assert (np.abs(rows.mean(0) - mean) < 5 * np.sqrt(np.diag(covariance) / n)).all()
        spread = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / n)
        assert (np.abs(np.cov(rows.T) - covariance) < 5 * spread).all()


def base_masses(path, h):
    """Log q of the states, a mixture of products of switches."""
    chances = 1 / (1 + np.exp(-path.odds))
    each = [np.prod(np.where(h == 1, chance, 1 - chance), axis=1) for chance in chances]
    return np.log(np.exp(path.log_shares) @ np.array(each))


def flips(mass, states):
    """The rule of Metropolis for one spike chosen at random, P(i | j) as a matrix."""
    n, numbers = states.shape[1], states @ 2 ** np.arange(states.shape[1])[::-1]
    K = np.zeros((len(states), len(states)))
    for i, state in enumerate(states):
        for site in range(n):
            other = state.copy()
            other[site] = 1 - other[site]
            j = int(np.flatnonzero(numbers == other @ 2 ** np.arange(n)[::-1])[0])
            K[i, j] = min(1.0, np.exp(mass[j] - mass[i])) / n
        K[i, i] = 1 - K[i].sum()
    return K.T


@pytest.mark.spec("GEN-044", "GEN-139")
def test_both_ways_are_unbiased_by_dynamic_programming():
    """20,000 chains each way over 4 levels: the mean weights within 4.5 standard errors of Z and 1 / Z, standard errors
    from exact second moments (false alarm 7e-6 each)."""
    p, n, h = parameters(1, n=3, seed=3), 20_000, all_states(3)
    p.b = np.array([-2.0, 1.0, 3.0])
    path = machine(p).normalizing_path([0.0, 0.3, 0.7, 1.0])
    base, target = base_masses(path, h), log_masses(p)
    assert np.exp(base).sum() == pytest.approx(1, abs=1e-12) and path.log_z0 == 0
    levels = [(1 - eta**2) * base + eta**2 * target for eta in (0.0, 0.3, 0.7, 1.0)]
    for level, masses in enumerate(levels):
        np.testing.assert_allclose(path.log_prob(level, h), masses, atol=1e-10)
    kernels, log_z = [flips(mass, h) for mass in levels], mixture(p)[0]
    mean, spread = ais_moments(levels, kernels[1:3])
    assert mean == pytest.approx(np.exp(log_z), rel=1e-9)  # the oracle itself
    forward = anneal(path, Noise(0, "up"), chains=n)
    assert abs(np.exp(forward.log_mean_weight - log_z) - 1) < 4.5 * np.sqrt(spread / n)
    drawn = np.random.default_rng(0).choice(8, n, p=np.exp(target - log_z))
    reverse = reverse_anneal(path, h[drawn], Noise(0, "down"))
    _, spread = ais_moments(levels[::-1], kernels[2:0:-1])
    assert abs(np.exp(reverse.log_mean_weight + log_z) - 1) < 4.5 * np.sqrt(spread / n)


def held_together(phi=1000.0, bias=10.0, d=6, n=5):
    """Spikes that hold all columns together: one alone costs more than its bias gives, all of them much less."""
    weight = np.sqrt(0.99 * phi / d) * np.ones((d, n))
    return SpikeAndSlabRBMModel.of(
        weight, np.full((d, n), phi), np.ones(d), np.ones(n), np.zeros(n), np.full(n, bias)
    )  # fmt: skip


@pytest.mark.spec("GEN-044", "GEN-139")
def test_flat_rows_have_their_mode_where_the_bridge_of_all_layers_misses_it(monkeypatch):
    """Exact by the 32 states of the spikes. The bridge is 26 nats too low, and its two ends agree to a twentieth of a
    nat; a few flat rows among others make the bracket hold the exact value and say why."""
    model = held_together()
    truth, random = model.log_partition(), np.random.default_rng(0)
    rows = random.normal(size=(60, 6))
    rows[::20] = 0.3 * random.normal(size=(3, 1)) + 0.02 * random.normal(size=(3, 6))
    options = {"random_state": 0, "chains": 60, "schedule": 150, "burn_in": 30}
    found = log_partition(model, "bracket", rows=rows, **options)
    assert abs(found.value - truth) < 4 * found.error < 0.3 and not found.disagrees
    assert abs(found.upper - truth) < 4 * found.gap_error + 0.05
    monkeypatch.setattr(SpikeAndSlabRBMModel, "anneals_spikes", False)
    plain = log_partition(model, "bracket", **options)
    assert plain.upper < truth - 26 and abs(plain.gap) < 0.05 and not plain.disagrees
    with pytest.warns(UserWarning, match="chains annealed downwards say up to"):
        found = log_partition(model, "bracket", rows=rows, **options)
    assert found.missed and found.lower < truth < found.upper


def test_draws_of_the_path_show_mass_far_from_all_rows():
    """Rows of another spread than the mode that has nearly all of the mass."""
    rows = 5.0 + np.random.default_rng(0).normal(size=(200, 6))
    found = spurious_mass(held_together(), rows, r=0.5, chains=50, schedule=100, random_state=0)
    assert found.value > 0.9 and found.kind == "estimate"
    flat = found.states - found.states.mean(1, keepdims=True)
    assert np.median(np.abs(flat)) < 0.05


def test_machines_that_are_too_large_or_cannot_be_normalized():
    assert ConvSSRBMModel((8, 8, 1), 4, (3, 3), "valid").anneals_spikes
    assert not ConvSSRBMModel((16, 16, 1), 16, (5, 5)).anneals_spikes
    assert ConvSSRBMModel((16, 16, 1), 16, (5, 5)).normalizing_path([0.0, 1.0]) is None
    p = parameters(1, n=3)
    p.W = 9.0 * p.W
    with pytest.raises(UserValueError, match="log Z does not exist"):
        log_partition(machine(p), "ais", schedule=10, chains=10, random_state=0)


def test_a_system_begins_its_bracket_at_rows_in_the_units_of_the_data():
    X = np.random.default_rng(0).normal(size=(60, 3)) * [1.0, 10.0, 0.1]
    system = SpikeAndSlabRBM(n_hidden=4, epochs=3, random_state=0).fit(X)
    found = system.log_partition("bracket", X=X, chains=50, schedule=100, burn_in=20)
    assert len(found.from_rows) == 50 and found is system.log_partition(
        "bracket", X=X, chains=50, schedule=100, burn_in=20
    )
    assert abs(found.value - system.log_partition("exact").value) < 4 * found.error + 0.02
