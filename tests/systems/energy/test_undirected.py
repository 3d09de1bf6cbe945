"""Undirected models: products of tables, what the domain of a variable makes of them, and machines as such products."""

import itertools

import numpy as np
import pytest
import torch

from gnomon.distributions.units import BernoulliUnits, CategoricalUnits
from gnomon.errors import UserValueError
from gnomon.evaluation.partition import log_partition
from gnomon.inference.exact.elimination import VariableElimination
from gnomon.inference.exact.factors import Factor
from gnomon.inference.mcmc.sites import PairwiseUnits
from gnomon.systems.energy.layered import LayeredMachine
from oracles.binary import all_states
from oracles.layered import filled

COLD = [[2.0, 1.0], [1.0, 10.0]]


@pytest.mark.spec("REP-136")
def test_the_network_of_colds():
    """Colleague, you and roommate, 1 for healthy: the row's numbers, with either table's axes in either order."""
    for first, second in itertools.product([False, True], repeat=2):
        pairs = [("colleague", "you"), ("roommate", "you")]
        factors = [
            Factor.of(pair[::-1] if turned else pair, np.transpose(COLD) if turned else COLD)
            for pair, turned in zip(pairs, (first, second), strict=True)
        ]
        engine = VariableElimination(factors)
        assert np.exp(engine.log_partition()) == pytest.approx(130, abs=1e-10)
        healthy = engine.posterior(("colleague", "you", "roommate")).probabilities
        assert healthy[1, 1, 1] == pytest.approx(0.769231, abs=5e-7)
        marginals = engine.marginals()
        assert marginals["you"][1] == pytest.approx(0.930769, abs=5e-7)
        assert marginals["colleague"][1] == pytest.approx(0.869231, abs=5e-7)
        for roommate, expected in ((1, 0.893805), (0, 0.705882)):
            found = engine.posterior(("colleague",), {"roommate": roommate}).probabilities
            assert found[1] == pytest.approx(expected, abs=5e-7)
            separated = engine.posterior(("colleague",), {"you": 1, "roommate": roommate}).probabilities
            assert separated[1] == pytest.approx(10 / 11, abs=1e-12)
    uneven = [[2.0, 1.0], [5.0, 10.0]]  # what a transposed table would change
    right = VariableElimination([Factor.of(("a", "b"), uneven)]).marginals()["a"]
    np.testing.assert_allclose(right, [3 / 18, 15 / 18], atol=1e-12)


@pytest.mark.spec("REP-138")
def test_the_domain_makes_three_models_of_the_same_factors():
    """exp(b_i x_i) over bits, over one-hot vectors and over the real line; the kind of unit is always said."""
    b = np.array([1.0, 2.0])
    bits = LayeredMachine({"x": BernoulliUnits(2)}, [], dtype=torch.float64)
    bits.load({"x_bias": b})
    x = all_states(2)
    p = np.exp(bits.log_prob(x))
    assert np.exp(bits.log_partition()) == pytest.approx(31.192875, abs=5e-7)
    np.testing.assert_allclose(p @ x, (0.731059, 0.880797), atol=5e-7)
    assert p @ (x[:, 0] * x[:, 1]) == pytest.approx(np.prod(p @ x), abs=1e-12)  # independent
    one_hot = LayeredMachine({"x": CategoricalUnits(1, 2)}, [], dtype=torch.float64)
    one_hot.load({"x_bias": b})
    assert np.exp(one_hot.log_partition()) == pytest.approx(10.107338, abs=5e-7)
    np.testing.assert_allclose(np.exp(one_hot.log_prob(np.eye(2))), (0.268941, 0.731059), atol=5e-7)
    infinity = float("inf")
    with pytest.raises(UserValueError):
        log_partition(lambda x: x @ b, "exact", bounds=[(-infinity, infinity)] * 2)
    with pytest.raises(TypeError):
        LayeredMachine({"x": 2}, [])


@pytest.mark.spec("REP-140", "GEN-001")
def test_a_machine_is_a_product_of_tables_and_a_diagonal_is_a_bias():
    machine = filled(LayeredMachine({"x": BernoulliUnits(4)}, [("x", "x")], dtype=torch.float64))
    L = machine.links[0].matrix({"weight": machine.state()["x_x_weight"]})
    b, x = machine.state()["x_bias"].astype(float), all_states(4)
    factors = [Factor((f"x{i}",), [0.0, b[i]]) for i in range(4)]
    factors += [
        Factor((f"x{i}", f"x{j}"), [[0.0, 0.0], [0.0, L[i, j]]]) for i, j in itertools.combinations(range(4), 2)
    ]
    engine = VariableElimination(factors)
    assert engine.log_partition() == pytest.approx(machine.log_partition(), abs=1e-11)
    table = engine.posterior([f"x{i}" for i in range(4)]).probabilities
    np.testing.assert_allclose(table.reshape(-1), np.exp(machine.log_prob(x)), atol=1e-12)
    diagonal = np.array([0.3, -0.2, 0.1, 0.5])
    units = PairwiseUnits(np.triu(L) + np.diag(diagonal), b - diagonal)
    np.testing.assert_allclose(units.energy(x), machine.energy(x), atol=1e-12)
    np.testing.assert_allclose(units.logits(x), machine.conditional("x", {"x": x}).logits, atol=1e-12)
