"""Exact sums: against the brute-force table, from both sides, in chunks, and the refusal that states its cost."""

from __future__ import annotations

import itertools
import math
from operator import itemgetter

import numpy as np
import pytest
import torch

from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.exact import enumeration
from gnomon.inference.exact.enumeration import enumerable, exact_expectation, log_partition, states, weighted_states
from oracles.binary import Joint, all_states, layers_energy, log_sum, rbm_energy
from oracles.toys import ToyDBM, ToyRBM, ToyTriangle, tiny_rbm


@pytest.mark.spec("INF-30", "GEN-007", "DLN-86")
def test_known_values_and_both_sides():
    model = tiny_rbm()
    assert log_partition(model) == pytest.approx(4.163709, abs=5e-7)
    assert log_partition(model, keep="visible") == pytest.approx(log_partition(model, keep="hidden"), abs=1e-12)
    assert -model.energy(np.array([[1.0, 0.0, 1.0]]))[0] - log_partition(model) == pytest.approx(-2.096485, abs=5e-7)
    other = ToyRBM(np.array([[1.0, -1.0, 0.5], [0.5, 0.5, -1.0]]).T, np.array([0.1, -0.2, 0.3]), np.array([-0.1, 0.2]))
    assert log_partition(other) == pytest.approx(3.993292, abs=5e-7)
    assert log_partition(other, keep="visible") == pytest.approx(log_partition(other, keep="hidden"), abs=1e-12)


@pytest.mark.spec("INF-30", "GEN-007", "DLN-86")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("sizes", [(7, 5), (3, 9), (6, 6), (11, 1)])
def test_random_machines_of_12_units_against_brute_force(sizes, seed):
    model = ToyRBM.random(*sizes, seed, scale=1.5)
    truth = Joint(rbm_energy(model.W, model.b, model.c), sizes)
    for block in model.blocks:
        assert log_partition(model, keep=block) == pytest.approx(truth.log_z, abs=1e-9)
    log_p = -model.energy(all_states(sizes[0])) - log_partition(model)
    assert np.exp(log_p).sum() == pytest.approx(1, abs=1e-12)
    assert np.allclose(np.exp(log_p), truth.marginal(0), rtol=0, atol=1e-12)


@pytest.mark.spec("GEN-007")
def test_without_coupling_it_is_the_sum_of_softplus():
    model = ToyRBM.random(20, 9, 3)
    model.W = 0 * model.W
    biases = np.concatenate([model.b, model.c])
    assert log_partition(model) == pytest.approx(sum(math.log1p(math.exp(b)) for b in biases), abs=1e-12)


def test_three_layers_as_two_blocks():
    model = ToyDBM.random((4, 3, 3), 1)
    truth = Joint(layers_energy(model.weights, model.biases), (4, 3, 3))
    for block in model.blocks:
        assert log_partition(model, keep=block) == pytest.approx(truth.log_z, abs=1e-12)


@pytest.mark.spec("GEN-007")
def test_chunks_change_nothing(monkeypatch):
    model = ToyRBM.random(9, 10, 5)
    whole = log_partition(model, keep="visible")
    monkeypatch.setattr(enumeration, "_CHUNK_NUMBERS", 19 * 100)
    sizes = [len(x["visible"]) for x, _ in weighted_states(model, "visible")]
    assert max(sizes) == 100
    assert sum(sizes) == 2**9
    assert log_partition(model, keep="visible") == pytest.approx(whole, abs=1e-12)


@pytest.mark.spec("GEN-007")
def test_huge_energies_do_not_overflow():
    model = ToyRBM(np.zeros((3, 4), np.float32), np.full(3, 5000, np.float32), np.zeros(4, np.float32))
    assert log_partition(model) == pytest.approx(15000 + 4 * math.log(2), rel=1e-14)
    model.b = -model.b
    assert log_partition(model) == pytest.approx(4 * math.log(2), rel=1e-14)


@pytest.mark.spec("GEN-007", "INF-30")
def test_float32_numpy_models_are_summed_in_float64():
    model = ToyRBM.random(8, 9, 2)
    small = model.astype(lambda x: x.astype(np.float32))
    wide = small.astype(lambda x: x.astype(np.float64))
    assert log_partition(small) == pytest.approx(log_partition(wide), abs=1e-12)


def test_torch_models():
    model = ToyRBM.random(5, 4, 7)
    tensors = model.astype(torch.tensor)
    assert log_partition(tensors) == pytest.approx(log_partition(model), abs=1e-12)
    x, log_p = next(iter(weighted_states(tensors)))
    assert isinstance(x["hidden"], torch.Tensor)
    assert log_p.dtype == torch.float64


@pytest.mark.spec("INF-30", "DLN-86", "GEN-007")
def test_refuses_above_the_limit_and_states_the_cost():
    model = ToyRBM(np.zeros((40, 30)), np.zeros(40), np.zeros(30))
    assert not enumerable(model)
    assert enumerable(model, limit=30)
    with pytest.raises(UserValueError, match=r"30 units of block 'hidden' visits 2\^30 states, about .* s .*2\^25"):
        log_partition(model)
    huge = ToyRBM(np.zeros((2000, 3000)), np.zeros(2000), np.zeros(3000))
    with pytest.raises(UserValueError, match=r"2\^2000 states"):
        log_partition(huge)
    with pytest.raises(UserValueError, match="unknown"):
        log_partition(model, keep="visble")
    with pytest.raises(UserTypeError, match="marginal_energy"):
        log_partition(ToyTriangle(np.zeros(3), np.zeros((3, 3))))
    assert not enumerable(object())


@pytest.mark.spec("INF-30", "GEN-007")
@pytest.mark.parametrize("block", ["visible", "hidden"])
def test_weights_and_expectations(block):
    model = tiny_rbm()
    truth = Joint(rbm_energy(model.W, model.b, model.c), (3, 2))
    pairs = list(weighted_states(model, block))
    log_p = np.concatenate([log_p for _, log_p in pairs])
    assert np.allclose(np.exp(log_p), truth.marginal(model.blocks.index(block)), rtol=0, atol=1e-12)
    known = {"visible": [0.493597, 0.591604, 0.698937], "hidden": [0.518000, 0.641131]}
    assert exact_expectation(model, itemgetter(block), block) == pytest.approx(known[block], abs=1e-6)
    assert exact_expectation(model, lambda x: x[block][:, 0] * x[block][:, 1], block).shape == ()


def test_states_are_lexicographic_and_random_access():
    assert np.array_equal(states(5), all_states(5))
    assert np.array_equal(states(5, 7, 20), all_states(5)[7:20])
    assert states(62, 2**62 - 1).tolist() == [[1.0] * 62]
    assert states(0).shape == (1, 0)
    for wrong in ((63, 0, 1), (3, 2, 9), (3, 2, 1)):
        with pytest.raises(UserValueError):
            states(*wrong)


def test_oracle_agrees_with_a_sum_written_out():
    model = tiny_rbm()
    terms = [
        v @ model.b + h @ model.c + v @ model.W @ h
        for v in map(np.array, itertools.product([0, 1], repeat=3))
        for h in map(np.array, itertools.product([0, 1], repeat=2))
    ]
    assert log_sum(terms) == pytest.approx(4.163709, abs=5e-7)


def test_a_fitted_system_stands_for_its_model():
    class Fitted:
        model_ = tiny_rbm()

    assert log_partition(Fitted()) == log_partition(tiny_rbm())
    for block in ("visible", "hidden"):
        mean = exact_expectation(Fitted(), itemgetter(block), block)
        assert np.array_equal(mean, exact_expectation(tiny_rbm(), itemgetter(block), block)) and mean.ndim == 1
