"""Partition functions and likelihoods: known numbers, kinds and errors, independence of batches and order."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.likelihood import log_likelihood, pseudo_log_likelihood
from gnomon.evaluation.partition import log_partition
from gnomon.evaluation.score import Score
from gnomon.numeric.noise import Noise
from oracles.binary import Joint, all_states, rbm_energy
from oracles.toys import ToyRBM, tiny_rbm


def small() -> ToyRBM:
    """2 visible units, 1 hidden, with numbers known to 16 digits."""
    return ToyRBM(np.array([[1.0], [-2.0]]), np.array([0.5, -0.5]), np.array([0.25]))


@pytest.mark.spec("DLN-86", "GEN-007")
def test_exact_log_partition_and_likelihood():
    model, x = small(), np.array([[1.0, 0.0]])
    log_z = log_partition(model)
    assert log_z.value == pytest.approx(2.4741528511087556, abs=1e-14)
    assert (log_z.kind, log_z.error, log_z.stderr, log_z.unit) == ("exact", 0.0, 0.0, "nats")
    score = log_likelihood(model, x, log_z)
    assert score.value == pytest.approx(-0.4722237697633829, abs=1e-14)
    assert (score.kind, score.error) == ("exact", 0.0)


@pytest.mark.spec("GEN-007", "INF-30")
def test_likelihoods_of_all_rows_sum_to_one():
    model = ToyRBM.random(6, 6, 4)
    score = log_likelihood(model, all_states(6), log_partition(model))
    truth = Joint(rbm_energy(model.W, model.b, model.c), (6, 6)).marginal(0)
    assert np.allclose(np.exp(score.pointwise), truth, rtol=0, atol=1e-12)
    assert score.value <= 0


def test_pseudolikelihood_says_sum_or_per_site():
    model, x = small(), np.array([[1.0, 0.0]])
    total, per_site = pseudo_log_likelihood(model, x), pseudo_log_likelihood(model, x, per_site=True)
    assert total.value == pytest.approx(-0.4502788173722263, abs=1e-14)
    assert per_site.value == pytest.approx(-0.22513940868611315, abs=1e-14)
    assert (total.unit, per_site.unit) == ("nats", "nats per site")
    with pytest.raises(UserValueError, match="unit"):
        total.against(per_site)


@pytest.mark.parametrize(("d", "total"), [(12, -8.317766166719343), (1200, -831.776616671934)])
def test_pseudolikelihood_of_the_zero_model(d, total):
    model = ToyRBM(np.zeros((d, 2)), np.zeros(d), np.zeros(2))
    x = np.random.default_rng(0).integers(0, 2, size=(20, d)).astype(float)
    assert pseudo_log_likelihood(model, x).value == pytest.approx(total, rel=1e-12)
    assert pseudo_log_likelihood(model, x, per_site=True).value == pytest.approx(-math.log(2), abs=1e-13)
    assert log_likelihood(model, x, log_partition(model)).value == pytest.approx(total, rel=1e-12)
    assert pseudo_log_likelihood(model, x).data_space == f"pmf on {{0,1}}^{d}"


def test_pseudolikelihood_is_the_sum_of_site_conditionals():
    model = tiny_rbm()
    p = Joint(rbm_energy(model.W, model.b, model.c), (3, 2)).marginal(0)
    score = pseudo_log_likelihood(model, all_states(3))
    for k, x in enumerate(all_states(3)):
        flips = [k ^ (4 >> site) for site in range(3)]
        assert score.pointwise[k] == pytest.approx(sum(math.log(p[k] / (p[k] + p[j])) for j in flips), abs=1e-12), x
    at_101 = score.pointwise[0b101]
    assert at_101 == pytest.approx(-2.241870, abs=5e-7)


def test_neither_batches_nor_the_order_of_rows_matter():
    model = ToyRBM.random(12, 8, 0)
    x = (np.random.default_rng(1).random((37, 12)) < 0.4).astype(float)
    log_z = log_partition(model)
    for verb in (
        lambda x, **k: log_likelihood(model, x, log_z, **k),
        lambda x, **k: pseudo_log_likelihood(model, x, **k),
    ):
        whole = verb(x)
        for size in (1, 5, 37):
            part = verb(x, batch_size=size)
            assert np.allclose(part.pointwise, whole.pointwise, rtol=0, atol=1e-12)
            assert part.value == pytest.approx(whole.value, abs=1e-12)
        back = verb(x[::-1])
        assert np.allclose(back.pointwise[::-1], whole.pointwise, rtol=0, atol=1e-12)
        weight = np.arange(37.0)
        assert verb(x, weight=weight).value == pytest.approx((weight * whole.pointwise).sum() / weight.sum(), abs=1e-12)


def test_the_data_are_not_touched_and_may_be_of_any_kind():
    model = tiny_rbm()
    x = all_states(3)
    x.setflags(write=False)
    whole = pseudo_log_likelihood(model, x).pointwise
    assert np.allclose(pseudo_log_likelihood(model, x.astype(bool)).pointwise, whole, rtol=0, atol=1e-12)
    tensors = model.astype(torch.tensor)
    data = torch.tensor(all_states(3))
    assert np.allclose(pseudo_log_likelihood(tensors, data).pointwise, whole, rtol=0, atol=1e-12)
    assert torch.equal(data, torch.tensor(all_states(3)))
    assert log_likelihood(tensors, data, log_partition(tensors)).pointwise.sum() < 0


@pytest.mark.spec("INF-63", "DLN-86")
def test_estimate_carries_its_error_to_the_likelihood():
    """500 chains of 100 steps; within 4.5 standard errors of the exact value, false-alarm rate 7e-6."""
    model = ToyRBM.random(10, 7, 6)
    mean = np.clip(np.full(10, 0.6), 0.01, 0.99)
    log_z = log_partition(model, "ais", Noise(0, "z"), chains=500, schedule=100, base_mean=mean)
    assert log_z.kind == "estimate"
    assert 0 < log_z.error < 0.2
    assert abs(log_z.value - log_partition(model).value) < 4.5 * log_z.error
    assert log_z.note.startswith("effective number of weights")
    score = log_likelihood(model, all_states(10)[::37], log_z, data_space="pmf on {0,1}^10")
    assert (score.kind, score.error, score.note) == ("estimate", log_z.error, log_z.note)
    again = log_partition(model, "ais", Noise(0, "z"), chains=500, schedule=100, base_mean=mean)
    assert again == log_z


@pytest.mark.spec("INF-07")
def test_a_dominating_weight_is_noticed():
    model = ToyRBM.random(12, 6, 1, scale=4.0)
    with pytest.warns(UserWarning, match="one of 50 weights"):
        score = log_partition(model, "ais", Noise(0, "ais"), chains=50, schedule=1)
    assert "one of 50 weights" in score.note


@pytest.mark.parametrize(
    ("kind", "turned"),
    [("lower bound", "upper bound"), ("upper bound", "lower bound"), ("estimate", "estimate"), ("exact", "exact")],
)
def test_bounds_on_log_z_turn_round(kind, turned):
    log_z = Score(2.0, kind=kind, name="log_partition")
    assert log_likelihood(small(), np.array([[1.0, 0.0]]), log_z).kind == turned


def test_auto_enumerates_what_is_small_enough():
    model = ToyRBM.random(9, 8, 0)
    assert log_partition(model, "auto").kind == "exact"
    score = log_partition(model, "auto", Noise(0, "z"), limit=7, chains=20, schedule=20)
    assert score.kind == "estimate"


def test_wrong_use_is_named():
    model = tiny_rbm()
    with pytest.raises(UserValueError, match="got 'guess'"):
        log_partition(model, "guess")
    with pytest.raises(UserValueError, match=r"2\^3.*limit"):
        log_partition(ToyRBM.random(3, 4, 0), "exact", limit=2)
    with pytest.raises(UserValueError, match="row 4, column 1"):
        pseudo_log_likelihood(model, np.where(np.arange(18).reshape(6, 3) == 13, 0.5, 1.0), batch_size=2)
    with pytest.raises(UserValueError, match="what log_partition returned"):
        log_likelihood(model, np.ones((1, 3)), Score(1.0))
    with pytest.raises(UserValueError, match="shape"):
        log_likelihood(model, np.ones((0, 3)), log_partition(model))
    with pytest.raises(UserValueError, match="batch_size must be at least 1, got 0"):
        pseudo_log_likelihood(model, np.ones((1, 3)), batch_size=0)

    class NoBridge:
        blocks, sizes = ("visible", "hidden"), {"visible": 30, "hidden": 40}
        conditional = joint_energy = marginal_energy = None

    with pytest.raises(UserTypeError, match="no bridge"):
        log_partition(NoBridge())
