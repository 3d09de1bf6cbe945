"""Normalizers, conditionals and slopes of log Z of small models, against sums written out."""

import itertools
import math

import numpy as np
import pytest
import torch

from gnomon.distributions.units import BernoulliUnits, CategoricalUnits, IsingUnits
from gnomon.errors import UserValueError
from gnomon.inference.exact.enumeration import log_partition, log_partition_gradient, states
from gnomon.inference.exact.posterior import codes
from gnomon.inference.exact.ratios import conditional
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.rbm import RBM, RBMModel
from oracles.binary import all_states
from oracles.layered import Table, by_differences, filled, machine_of


def independent(b):
    machine = LayeredMachine({"x": BernoulliUnits(len(b))}, [], dtype=torch.float64)
    machine.load({"x_bias": np.array(b)})
    return machine


@pytest.mark.spec("PRA-219")
def test_independent_units():
    assert log_partition(independent([0.0, 0.0])) == pytest.approx(1.386294, abs=5e-7)
    b = np.array([0.3, -2.0, 700.0, -700.0])
    machine = independent(b)
    assert log_partition(machine) == pytest.approx(np.logaddexp(0, b).sum(), abs=1e-12)
    found = log_partition_gradient(machine)["x_bias"]
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-b)), atol=1e-12)


@pytest.mark.spec("PRA-219")
@pytest.mark.parametrize("shape", ["three", "semi", "whole"])
def test_the_slope_of_log_z_is_the_mean_slope_of_the_log_weights(shape):
    """By differences of the sum over all joint states; the kept blocks are summed in pieces and all at once."""
    machine = machine_of(shape)
    found, expected = log_partition_gradient(machine), by_differences(machine, lambda m: Table(m).log_z)
    assert set(found) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-8)


@pytest.mark.spec("PRA-219")
def test_pieces_and_choices_of_blocks_change_nothing(monkeypatch):
    random = np.random.default_rng(0)
    parameters = (random.normal(size=(7, 5)), random.normal(size=7), random.normal(size=5))
    model = RBMModel.of(*parameters)
    whole = log_partition_gradient(model)
    from gnomon.inference.exact import enumeration

    monkeypatch.setattr(enumeration, "_CHUNK_NUMBERS", 1)  # pieces of 64 states
    for keep in ("visible", "hidden"):
        for name, value in log_partition_gradient(model, keep).items():
            np.testing.assert_allclose(value, whole[name], atol=1e-12)
    system = RBM(n_hidden=5, epochs=1, random_state=0, dtype="float64").fit(all_states(7))
    system.model_.load(model.state())
    np.testing.assert_allclose(log_partition_gradient(system)["weight"], whole["weight"], atol=1e-12)


@pytest.mark.spec("PRA-219")
@pytest.mark.parametrize("kind", [IsingUnits, lambda n: CategoricalUnits(n, 3)])
def test_units_of_other_kinds(kind):
    machine = filled(LayeredMachine({"v": kind(2), "h": BernoulliUnits(2)}, [("v", "h")], dtype=torch.float64))

    def log_z(m):
        units = m.units["v"]
        every = units.states(np.arange(int(units.n_states)))
        pairs = itertools.product(every, all_states(2))
        energies = [float(m.joint_energy({"v": v[None], "h": h[None]})[0]) for v, h in pairs]
        return math.log(math.fsum(math.exp(-e) for e in energies))

    assert log_partition(machine) == pytest.approx(log_z(machine), abs=1e-12)
    for name, value in by_differences(machine, log_z).items():
        np.testing.assert_allclose(log_partition_gradient(machine)[name], value, atol=1e-8)


@pytest.mark.spec("PRA-219")
def test_conditionals_sum_out_what_is_neither_asked_for_nor_known():
    """P(a | b) = sum_c P(a, b, c) / sum_(a, c) P(a, b, c) of any function of the log weight, units of three values."""
    values = (0.0, 1.0, 2.0)
    every = np.array(list(itertools.product(values, repeat=4)))
    table = np.random.default_rng(0).gamma(1.0, size=(3, 3, 3, 3))
    p = table / table.sum()

    def log_w(x):
        return np.log(table[tuple(np.asarray(x).astype(int).T)]) + 500.0  # far from normalized

    found = conditional(log_w, [2, 0], {3: 1}, d=4, values=values)
    mass = np.einsum("abc->ca", p[:, :, :, 1])
    np.testing.assert_allclose(found, (mass / mass.sum()).ravel(), atol=1e-12)
    np.testing.assert_allclose(conditional(log_w, [1], d=4, values=values), p.sum((0, 2, 3)), atol=1e-12)
    np.testing.assert_allclose(codes(np.arange(81), (3,) * 4), every, atol=0)
    np.testing.assert_array_equal(states(4), all_states(4))


@pytest.mark.spec("PRA-219")
def test_products_that_are_too_large_are_refused_with_their_cost():
    big = LayeredMachine({"x": BernoulliUnits(40)}, [("x", "x")])
    for ask in (log_partition, log_partition_gradient):
        with pytest.raises(
            UserValueError, match=r"visits 2\^40 states, about .* s in chunks .* above the limit of 2\^25"
        ):
            ask(big)
    with pytest.raises(UserValueError, match=r"have 1.07e\+09 states"):
        conditional(lambda x: x[:, 0], [0], d=30)
