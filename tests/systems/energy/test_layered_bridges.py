"""Paths between machines of layers and links, and the estimates of log Z that walk them."""

import numpy as np
import pytest

from gnomon.distributions.units import (
    BernoulliUnits,
    IsingUnits,
)  # fmt: skip
from gnomon.evaluation.partition import log_partition
from gnomon.inference.importance.ais import ais
from gnomon.inference.mcmc.gibbs import kernel_matrix
from gnomon.inference.mcmc.paths import BridgePath
from gnomon.numeric.noise import Noise
from oracles.layered import VALUES, Table, machine_of


def test_bridges_mix_joint_energies_and_bases_are_known():
    for kind in (BernoulliUnits, IsingUnits):
        machine = machine_of("graph", kind)
        table = Table(machine, VALUES[kind])
        base = machine.base(np.full(3, 0.4))
        np.testing.assert_allclose(base.conditional("v", table.state).mean, 0.4, atol=1e-12)
        assert base.log_partition() == pytest.approx(Table(base, VALUES[kind]).log_z, abs=1e-12)
        mixed = machine.bridge(base, 0.3).joint_energy(table.state)
        expected = 0.7 * base.joint_energy(table.state) + 0.3 * table.energy
        np.testing.assert_allclose(mixed, expected, atol=1e-12)


@pytest.mark.parametrize("keep", [("visible", "top"), "middle"])
@pytest.mark.parametrize("seed", range(3))
def test_annealed_importance_sampling_of_three_layers_is_unbiased_for_z(keep, seed):
    machine = machine_of("three", seed=seed)
    weights = ais(machine, machine.base(), Noise(seed, "ais"), chains=100 * 20, schedule=30, keep=keep)
    ratio = np.exp(np.asarray(weights.log_weights) - machine.log_partition()).reshape(100, 20).mean(1)
    assert abs(ratio.mean() - 1) < 3.9 * ratio.std(ddof=1) / 10  # false alarm 1e-4
    assert weights.values.shape == (2000, 6 if keep != "middle" else 3)


def test_annealing_errors_cover_log_z_on_three_layers():
    """Three errors hold for 29 of 30 seeds: each misses with probability 0.003, two with 0.004 (false alarm)."""
    machine = machine_of("three", scale=1.2)
    truth, missed = machine.log_partition(), 0
    for seed in range(30):
        score = log_partition(machine, "ais", Noise(seed, "ais"), chains=50, schedule=50)
        missed += abs(score.value - truth) > 3 * score.error
    assert missed <= 1


@pytest.mark.parametrize("method", ["ais", "linked", "bridge"])
@pytest.mark.parametrize("kind", [BernoulliUnits, IsingUnits])
def test_every_estimate_of_log_z_takes_any_graph(method, kind):
    machine = machine_of("graph", kind, scale=0.5)
    options = {"ais": {"schedule": 100}, "linked": {}, "bridge": {"chains": 10, "draws": 300}}[method]
    score = log_partition(machine, method, Noise(0, "z"), **options)
    assert abs(score.value - machine.log_partition()) < 5 * score.error + 1e-9  # fixed seeds


def test_the_compiled_path_draws_what_the_plain_one_draws_from():
    """Of three layers the numbers differ (other addresses), the levels' densities do not."""
    machine = machine_of("three")
    base, etas = machine.base(np.full(4, 0.3)), np.array([0.0, 0.4, 1.0])
    for keep in (("visible", "top"), ("middle",)):
        fast, slow = machine.path(base, etas, keep), BridgePath(machine, base, etas, keep)
        x = fast.start(64, Noise(0, "start"))
        for level in range(3):
            np.testing.assert_allclose(fast.log_prob(level, x), slow.log_prob(level, x), atol=1e-10)
        np.testing.assert_array_equal(x, slow.start(64, Noise(0, "start")))
    graph = machine_of("graph")
    assert type(graph.path(graph.base(), etas, ("v", "y"))) is BridgePath  # the kept blocks are linked
    assert type(machine.path(machine, etas, ("middle",))) is BridgePath  # the base is coupled


def test_moves_of_linked_kept_blocks_are_undone_in_the_opposite_order():
    machine = machine_of("graph")
    kept = ("v", "y")
    table = Table(machine)
    rows, energy = table.marginal(kept)
    p = np.exp(-energy - table.log_z)
    index = {tuple(x): k for k, x in enumerate(np.concatenate([rows["v"], rows["y"]], axis=1))}
    codes = np.array([index[tuple(x)] for x in np.concatenate([table.state["v"], table.state["y"]], axis=1)])
    lift = np.zeros((len(table.p), len(p)))  # a kept state, the others drawn given it
    lift[np.arange(len(codes)), codes] = table.p / p[codes]
    drop = (codes[None, :] == np.arange(len(p))[:, None]).astype(float)
    there = drop @ kernel_matrix(machine, kept) @ lift
    back = drop @ kernel_matrix(machine, kept[::-1]) @ lift
    np.testing.assert_allclose(there * p[None, :], (back * p[None, :]).T, atol=1e-14)
    assert np.abs(there * p[None, :] - (there * p[None, :]).T).max() > 1e-4
