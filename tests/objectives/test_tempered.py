"""Tempered persistent chains: one temperature, the law of every level, swaps by enumeration, two far modes."""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

import gnomon
from gnomon.errors import UserValueError
from gnomon.inference.mcmc.levels import swap_neighbors
from gnomon.numeric.noise import Noise, recording
from gnomon.objectives.contrastive import PCD
from gnomon.objectives.tempered import TemperedSML
from gnomon.systems.energy.rbm import RBMModel
from oracles.layered import Table, machine_of
from oracles.principles import OneBatch, begun, bits, loss_of

DATA = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
"""Means 3/4, 1/2, 1/4."""


@pytest.mark.spec("INF-39")
@pytest.mark.parametrize("shape", ["three", "graph"])
def test_one_temperature_is_persistent_contrastive_divergence_bit_for_bit(shape):
    machine = machine_of(shape)
    X = bits(5, machine.sizes[machine.observed])
    one, other = (begun(recipe, machine, X) for recipe in (TemperedSML(n_temperatures=1, k=2), PCD(k=2)))
    assert one.state().keys() == other.state().keys()
    for update in range(3):
        found, expected = (loss_of(objective, machine, X, update).gradients for objective in (one, other))
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value)
        for block, chain in other.chains.items():
            np.testing.assert_array_equal(one.chains[block], chain)


def tempered_law(machine, mean, beta):
    """Probabilities of the joint states under p_0^(1 - beta) p^beta, by plain loops; p_0 has these visible means."""
    table = Table(machine)
    odds = np.log(mean) - np.log1p(-np.asarray(mean))
    minus = (1 - beta) * (table.state[machine.observed] @ odds) - beta * table.energy
    return table, np.exp(minus - np.logaddexp.reduce(minus))


@pytest.mark.spec("INF-39")
@pytest.mark.parametrize("shape", ["three", "graph", "whole"])
def test_every_level_follows_its_own_law_while_the_weights_stand(shape):
    """Swaps included. False alarm 1e-5 each."""
    machine, n = machine_of(shape, scale=0.8), 4_000
    X = DATA if shape != "three" else np.concatenate([DATA, DATA[:, :1]], axis=1)
    objective = begun(TemperedSML(n_temperatures=3, hottest=0.2, k=2, n_chains=n), machine, X)
    with recording():
        for update in range(25):
            loss = loss_of(objective, machine, X, update)
    assert 0.2 < loss.terms["swap_rate"].sum / loss.terms["swap_rate"].weight < 0.999
    for level, beta in enumerate((1.0, 0.6, 0.2)):
        table, law = tempered_law(machine, X.mean(0), beta)
        stored = list(objective.stored)
        rows = np.concatenate([table.state[block] for block in stored], axis=1)
        powers = 2 ** np.arange(rows.shape[1])
        mass = np.bincount((rows @ powers).astype(int), law)
        here = objective.chains if level == 0 else {b: objective.state()[f"hot/{b}"][:, level - 1] for b in stored}
        drawn = np.concatenate([np.asarray(here[block]) for block in stored], axis=1)
        counts = np.bincount((drawn @ powers).astype(int), minlength=len(mass))
        assert chisquare(counts, n * mass).pvalue > 1e-5


@pytest.mark.spec("INF-39")
def test_states_are_swapped_with_the_probability_of_metropolis():
    machine, n = machine_of("three", scale=1.5), 40_000
    X = np.concatenate([DATA, DATA[:, :1]], axis=1)
    objective = begun(TemperedSML(n_temperatures=2, n_chains=n), machine, X)
    machines = objective._machines(machine)
    first, second = np.array([[0.0, 1.0, 1.0]]), np.array([[1.0, 0.0, 1.0]])
    levels = [{"middle": np.repeat(x, n, axis=0)} for x in (first, second)]
    (table, cold), (_, hot) = (tempered_law(machine, X.mean(0), beta) for beta in (1.0, 0.0))

    def log_mass(law, x):
        return np.log(law[(table.state["middle"] == x).all(1)].sum())

    ratio = log_mass(cold, second) + log_mass(hot, first) - log_mass(cold, first) - log_mass(hot, second)
    found = swap_neighbors(machines, levels, Noise(0, "swap").rows(np.arange(n)))
    np.testing.assert_allclose(found, min(1.0, np.exp(ratio)), rtol=1e-9)
    assert 0.05 < np.exp(ratio) < 0.95  # some are swapped, some are not
    swapped = (levels[0]["middle"] == second).all(1)
    assert swapped.mean() == pytest.approx(np.exp(ratio), abs=4.5 * 0.5 / np.sqrt(n))  # false alarm below 1e-4
    np.testing.assert_array_equal((levels[1]["middle"] == first).all(1), swapped)


def two_modes(d=8, strength=1.2):
    """All units off or all on, alike in probability, with a barrier between them that sweeps rarely cross."""
    m = d
    return RBMModel.of(np.full((d, m), strength), np.full(d, -strength * m / 2), np.full(m, -strength * d / 2))


@pytest.mark.spec("INF-39")
def test_chains_cross_to_the_other_of_two_modes_where_plain_ones_stay():
    model, n = two_modes(), 200
    X = np.repeat([[0.0], [1.0]], 8, axis=1)
    shares = {}
    for name, recipe in (("tempered", TemperedSML(n_temperatures=8, n_chains=n)), ("plain", PCD(n_chains=n))):
        objective = begun(recipe, model, X)
        objective.chains["hidden"].fill_(1.0)
        for update in range(60):
            loss_of(objective, model, X, update)
        shares[name] = float((objective.chains["hidden"].mean(1) < 0.5).double().mean())
    assert shares["plain"] < 0.05 and abs(shares["tempered"] - 0.5) < 0.2


@pytest.mark.spec("INF-39")
def test_the_gradient_is_that_of_the_cold_chains():
    machine, X = machine_of("three"), bits(5, 4)
    tempered, plain = begun(TemperedSML(n_temperatures=4), machine, X), begun(PCD(), machine, X)
    for update in range(3):
        for block, chain in plain.chains.items():
            chain.copy_(tempered.chains[block])
        found, expected = (loss_of(one, machine, X, update).gradients for one in (tempered, plain))
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value)


@pytest.mark.spec("INF-39")
def test_every_system_learns_with_it():
    X, y = np.repeat([[1.0, 1, 0, 0], [0, 0, 1, 1]], 20, axis=0), np.repeat([0, 1], 20)
    options = {"n_hidden": 3, "objective": TemperedSML(3), "epochs": 80, "batch_size": 4, "random_state": 0}
    rbm = gnomon.RBM(**options, learning_rate=0.1).fit(X)
    assert rbm.score(X) > -2 and len(rbm.history_["swap_rate"]) == 80  # independent columns: -2.77
    noisy = X + 0.3 * np.random.default_rng(0).normal(size=X.shape)
    base = gnomon.GaussianRBM(**options, learning_rate=1e-30).fit(noisy).score(noisy)
    real = gnomon.GaussianRBM(**options, learning_rate=0.02).fit(noisy)
    assert real.score(noisy) > base + 0.5 and 0.1 < real.history_["swap_rate"][-1] < 1
    options |= {"visible": "bernoulli", "discriminative": 0.0, "generative": 0.5, "optimizer": "sgd"}
    joint = gnomon.LabelRBM(**options, learning_rate=0.2).fit(X, y)
    assert joint.log_prob(X, y).mean() > -2.5  # independent columns and classes: -3.47
    assert 0.1 < joint.history_["swap_rate"][-1] < 1


def test_ladders_that_cannot_be_are_refused():
    with pytest.raises(UserValueError, match="hottest must be above 0 with spacing geometric"):
        TemperedSML(spacing="geometric").build()
    betas = TemperedSML(3, hottest=0.25, spacing="geometric").build().betas
    np.testing.assert_allclose(betas, [1, 0.5, 0.25])


def test_copies_belong_to_the_process_of_their_chain():
    machine, X = machine_of("three"), bits(5, 4)

    class Half:
        size = 2

        def __init__(self, rank):
            self.rank = rank

        def sum(self, tree):
            return tree

        def gather(self, x):
            return torch.as_tensor(x)

    whole, parts = begun(TemperedSML(3), machine, X), []
    for rank in (0, 1):
        half = TemperedSML(3).build()
        half.begin(machine, OneBatch(X), Noise(0, "begin"), Half(rank))
        parts.append(half)
    for name in ("chains/middle", "hot/middle"):
        assert name in whole.sharded
        np.testing.assert_array_equal(np.concatenate([half.state()[name] for half in parts]), whole.state()[name])
