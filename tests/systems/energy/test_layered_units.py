"""Units of machines: spins, normal ones, one of several values, against enumeration and quadrature."""

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from gnomon.distributions.units import (
    BernoulliUnits,
    CategoricalUnits,
    GaussianUnits,
    IsingUnits,
    ScaledGaussianUnits,
)  # fmt: skip
from gnomon.errors import UserValueError
from gnomon.evaluation.partition import log_partition
from gnomon.inference.exact.enumeration import enumerable
from gnomon.inference.exact.enumeration import log_partition as by_enumeration
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.numeric.noise import Noise
from gnomon.systems.energy.layered import LayeredMachine
from oracles.layered import Table, assert_same, by_differences, filled, machine_of


def test_spins_are_bits_by_an_affine_map():
    """x = 2 b - 1: W_b = 4 W, bias_b = 2 bias - 2 sum of the weights, and a constant."""
    spins = machine_of("four", IsingUnits)
    bits = machine_of("four")
    with torch.no_grad():
        constant = 0.0
        for block in spins.blocks:
            bits.get_parameter(f"{block}_bias").copy_(2 * spins.get_parameter(f"{block}_bias"))
            constant -= float(spins.get_parameter(f"{block}_bias").sum())
        for link in spins.links:
            (name,), (a, b) = link.names.values(), link.ends
            W = spins.get_parameter(name)
            bits.get_parameter(name).copy_(4 * W)
            bits.get_parameter(f"{a}_bias").sub_(2 * W.sum(1))
            bits.get_parameter(f"{b}_bias").sub_(2 * W.sum(0))
            constant += float(W.sum())
    assert spins.log_partition() == pytest.approx(bits.log_partition() + constant, abs=1e-11)
    state = {block: Table(bits).state[block] for block in bits.blocks}
    spun = {block: 2 * x - 1 for block, x in state.items()}
    np.testing.assert_allclose(spins.joint_energy(spun), bits.joint_energy(state) - constant, atol=1e-11)
    noise = Noise(0, "walk").rows(np.arange(len(state["a"])))
    walked, other = gibbs(spins, spun, noise, steps=3), gibbs(bits, state, noise, steps=3)
    for block in bits.blocks:
        np.testing.assert_array_equal(walked[block], 2 * other[block] - 1)


def grid(n=4001, width=12.0):
    """Points and the weight of each for the trapezoid rule."""
    x = np.linspace(-width, width, n)
    return x, x[1] - x[0]


@pytest.mark.parametrize("kind", [GaussianUnits, ScaledGaussianUnits])
def test_normal_units_against_quadrature(kind):
    """Two normal units beside three hidden bits: marginals, conditionals, log Z, gradients by integrals on a grid."""
    units = {"visible": kind(1), "hidden": BernoulliUnits(2), "top": kind(1)}
    links = [("visible", "hidden"), ("hidden", "top")]
    machine = filled(LayeredMachine(units, links, dtype=torch.float64), seed=4, scale=0.6)
    p = machine.state()
    x, step = grid()
    precision = {b: float(np.exp(p.get(f"{b}_log_precision", np.zeros(1))[0])) for b in ("visible", "top")}
    bits = np.array(list(itertools.product([0.0, 1.0], repeat=2)))

    def log_weight(v, h, t):
        total = p["visible_bias"][0] * v - precision["visible"] * v * v / 2
        total = total + p["top_bias"][0] * t - precision["top"] * t * t / 2 + h @ p["hidden_bias"]
        return total + v * (p["visible_hidden_weight"][0] @ h) + t * (h @ p["hidden_top_weight"][:, 0])

    mass = [[np.exp(log_weight(x, h, t)).sum() * step for t in (0.3,)] for h in bits]
    for h, (total,) in zip(bits, mass, strict=True):
        kept = {"hidden": h[None], "top": np.array([[0.3]])}
        assert machine.marginal_energy(kept)[0] == pytest.approx(-np.log(total), abs=1e-9)
        found = machine.conditional("visible", kept)
        density = np.exp(log_weight(x, h, 0.3)) / total
        np.testing.assert_allclose(np.exp(found.log_prob(x[1000:1003, None])), density[1000:1003], rtol=1e-8)
        assert found.mean[0, 0] == pytest.approx((density * x).sum() * step, abs=1e-9)
        spread = (density * x * x).sum() * step - found.mean[0, 0] ** 2
        assert np.ravel(found.variance)[0] == pytest.approx(spread, abs=1e-9)
        assert found.entropy()[0] == pytest.approx(-(density * np.log(density + 1e-300)).sum() * step, abs=1e-8)
    z = 0.0
    for h in bits:  # given h both normal units integrate on their own
        v = np.exp(log_weight(x, h, 0.0)).sum() * step
        t = np.exp(log_weight(0.0, h, x) - log_weight(0.0, h, 0.0)).sum() * step
        z += v * t
    assert machine.log_partition() == pytest.approx(np.log(z), abs=1e-9)
    assert enumerable(machine)
    rows = np.array([[0.2], [-1.0]])
    density = np.exp(machine.log_prob(x[:, None]))
    assert density.sum() * step == pytest.approx(1, abs=1e-8)
    given = {"visible": rows, "hidden": np.array([[1.0, 0.0], [0.0, 1.0]])}
    weight = np.array([0.7, -0.4])
    found = machine.marginal_gradient(given, weight)
    assert_same(found, by_differences(machine, lambda m: weight @ m.marginal_energy(given)), 1e-7)
    state = {**given, "top": np.array([[0.5], [-0.1]])}
    found = machine.joint_gradient(state, weight)
    assert_same(found, by_differences(machine, lambda m: weight @ m.joint_energy(state)), 1e-7)
    tensors = {block: torch.from_numpy(value) for block, value in given.items()}
    np.testing.assert_allclose(machine.marginal_energy(tensors).detach(), machine.marginal_energy(given), atol=1e-12)


@pytest.mark.parametrize("kind", [GaussianUnits, ScaledGaussianUnits])
def test_normal_units_are_drawn_bridged_and_annealed(kind):
    units = {"visible": kind(2), "hidden": IsingUnits(3)}
    machine = filled(LayeredMachine(units, [("visible", "hidden")], dtype=torch.float64), seed=1, scale=0.5)
    n = 40_000
    found = machine.conditional("visible", {"hidden": np.tile([[1.0, -1.0, 1.0]], (n, 1))})
    drawn = found.sample(Noise(0, "x").rows(np.arange(n)), 0)
    spread = np.broadcast_to(found.variance, 2)
    assert (np.abs(drawn.mean(0) - found.mean[0]) < 4.5 * np.sqrt(spread / n)).all()  # false alarm below 1e-4
    assert (np.abs(drawn.var(0) / spread - 1) < 4.5 * np.sqrt(2 / n)).all()  # false alarm below 1e-4
    base = machine.base(np.array([0.5, -0.5]))
    np.testing.assert_allclose(
        base.conditional("visible", {"hidden": np.ones((1, 3))}).mean[0], [0.5, -0.5], atol=1e-12
    )
    state = {"visible": np.array([[0.1, -2.0]]), "hidden": np.array([[1.0, 1.0, -1.0]])}
    mixed = machine.bridge(base, 0.3).joint_energy(state)
    expected = 0.7 * base.joint_energy(state) + 0.3 * machine.joint_energy(state)
    np.testing.assert_allclose(mixed, expected, atol=1e-12)
    score = log_partition(machine, "ais", Noise(0, "z"), schedule=100)
    assert abs(score.value - machine.log_partition()) < 5 * score.error  # a fixed seed
    with pytest.raises(UserValueError, match="more states than can be counted"):
        by_enumeration(machine, keep="visible")


def test_one_of_several_values_against_enumeration():
    units = {"visible": CategoricalUnits(2, 3), "hidden": BernoulliUnits(2), "top": CategoricalUnits(1, 4)}
    machine = filled(
        LayeredMachine(units, [("visible", "hidden"), ("hidden", "top")], dtype=torch.float64), seed=2
    )  # fmt: skip
    v = units["visible"].states(np.arange(9))
    assert v.shape == (9, 6) and len(np.unique(v, axis=0)) == 9 and (v.reshape(9, 2, 3).sum(2) == 1).all()
    h, t = units["hidden"].states(np.arange(4)), np.eye(4)
    i, j, k = (index.ravel() for index in np.meshgrid(np.arange(9), np.arange(4), np.arange(4), indexing="ij"))
    state = {"visible": v[i], "hidden": h[j], "top": t[k]}
    energy = machine.joint_energy(state)
    assert machine.log_partition() == pytest.approx(np.logaddexp.reduce(-energy), abs=1e-11)
    for kept in machine.marginal_blocks:
        assert by_enumeration(machine, keep=kept) == pytest.approx(np.logaddexp.reduce(-energy), abs=1e-11)
    law = np.exp(-energy - np.logaddexp.reduce(-energy)).reshape(9, 16).sum(1)
    np.testing.assert_allclose(np.exp(machine.log_prob(v)), law, atol=1e-12)
    found = machine.conditional("visible", {"hidden": h[[2]]})
    p = np.exp(-energy.reshape(9, 4, 4)[:, 2, 0])
    p /= p.sum()
    np.testing.assert_allclose(found.mean[0], p @ v, atol=1e-12)
    np.testing.assert_allclose(np.exp(machine.conditional("visible", {"hidden": np.tile(h[2], (9, 1))}).log_prob(v)), p)
    assert found.entropy()[0] == pytest.approx(-(p * np.log(p)).sum(), abs=1e-12)
    many = machine.conditional("visible", {"hidden": np.tile(h[2], (20_000, 1))}).sample(Noise(0, "x"), 0)
    assert (many.reshape(-1, 2, 3).sum(2) == 1).all()
    counts = np.array([(many == row).all(1).sum() for row in v])
    assert chisquare(counts, 20_000 * p).pvalue > 1e-4  # false alarm 1e-4
    weight = np.linspace(-1, 1, len(i))
    gradient = machine.joint_gradient(state, weight)
    assert_same(gradient, by_differences(machine, lambda m: weight @ m.joint_energy(state)), 1e-7)
