"""Posteriors by enumeration: binary sparse coding with known numbers, loops over all states, machines, tensors."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.exact.enumeration import log_partition
from gnomon.inference.exact.posterior import ExactPosterior, codes
from gnomon.numeric.noise import Noise, recording
from gnomon.systems.energy.rbm import RBMModel
from oracles.scripted import Scripted
from oracles.toys import ToyDBM, ToyRBM, tiny_rbm

FALSE_ALARM = 1e-4


class SparseCoding:
    """Binary sparse coding: p(h_i = 1) = sigma(b_i), v | h ~ N(W h, diag(1 / beta)); as numbers of the row."""

    W, b, beta = np.array([[1.0, 0.5], [0.0, 1.0]]), np.array([0.0, -1.0]), np.array([1.0, 2.0])

    def log_joint(self, v, h):
        prior = (h * self.b - np.logaddexp(0, self.b)).sum(1)
        return prior + stats.norm(h @ self.W.T, self.beta**-0.5).logpdf(v).sum(1)


def mixed(v, h):
    """A joint over latents of 3, 2 and 4 values with states that cannot be; v has one number."""
    score = np.sin(3 * h[:, 0] + v[:, 0]) + h[:, 1] * np.cos(h[:, 2] - v[:, 0]) - 0.1 * v[:, 0] ** 2
    return np.where((h[:, 0] == 2) & (h[:, 2] == 1), -np.inf, score)


@pytest.mark.spec("INF-71")
def test_binary_sparse_coding_has_the_known_numbers():
    engine, v = ExactPosterior(SparseCoding(), 2), np.array([[1.0, 1.0]])
    assert engine.log_evidence(v) == pytest.approx([-2.282347], abs=5e-7)
    assert engine.posterior(v)[0] == pytest.approx([0.179898, 0.261750, 0.296602, 0.261750], abs=1e-6)
    assert engine.mean(v)[0] == pytest.approx([0.558352, 0.523500], abs=5e-7)
    assert engine.states().tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]


@pytest.mark.spec("INF-71")
def test_latents_of_many_values_by_loops():
    engine, v = ExactPosterior(mixed, (3, 2, 4)), np.array([[0.3], [-1.2], [2.0]])
    states = list(itertools.product(range(3), range(2), range(4)))
    assert [tuple(s) for s in engine.states().tolist()] == states
    for i, row in enumerate(v):
        weight = [math.exp(mixed(row[None], np.array([s], float))[0]) for s in states]
        total = math.fsum(weight)
        assert engine.log_evidence(v)[i] == pytest.approx(math.log(total), abs=1e-13)
        assert engine.posterior(v)[i] == pytest.approx(np.array(weight) / total, abs=1e-14)
        for j, marginal in enumerate(engine.marginals(v)):
            expected = [sum(w for w, s in zip(weight, states, strict=True) if s[j] == x) / total for x in range(3)]
            assert marginal[i][:3] == pytest.approx(expected[: marginal.shape[1]], abs=1e-14)
        mean = [sum(w * s[j] for w, s in zip(weight, states, strict=True)) / total for j in range(3)]
        assert engine.mean(v)[i] == pytest.approx(mean, abs=1e-13)


@pytest.mark.spec("INF-71")
@pytest.mark.parametrize("pairs", [1, 7, 50])
def test_chunks_change_no_number(monkeypatch, pairs):
    engine, v = ExactPosterior(mixed, (3, 2, 4)), np.linspace(-2, 2, 9)[:, None]
    whole = engine.posterior(v), engine.log_evidence(v), engine.sample_posterior(v, 6, Noise(0, "h"))
    monkeypatch.setattr("gnomon.inference.exact.posterior._PAIRS", pairs)
    assert np.array_equal(engine.posterior(v), whole[0]) and np.array_equal(engine.log_evidence(v), whole[1])
    assert np.array_equal(engine.sample_posterior(v, 6, Noise(0, "h")), whole[2])


@pytest.mark.spec("INF-71")
def test_restricted_machines_factorize_into_sigmoids():
    """The joint energy alone gives sigma(c + v W); evidence is minus the free energy less log Z."""
    model, v = tiny_rbm(), codes(np.arange(8), (2, 2, 2)).astype(float)
    log_z = log_partition(model)
    engine = ExactPosterior.of_blocks(model, log_partition=log_z)
    expected = 1 / (1 + np.exp(-(model.c + v @ model.W)))
    assert engine.mean(v) == pytest.approx(expected, abs=1e-13)
    product = np.stack([np.where(s, expected, 1 - expected).prod(1) for s in engine.states() == 1], 1)
    assert engine.posterior(v) == pytest.approx(product, abs=1e-13)
    known = [0.049962, 0.157389, 0.067442, 0.231609, 0.078157, 0.122888, 0.105501, 0.187052]
    assert np.exp(engine.log_evidence(v)) == pytest.approx(known, abs=5e-7)
    other = ExactPosterior.of_blocks(model, observed="hidden")
    h = np.array([[1.0, 0.0]])
    assert other.mean(h) == pytest.approx(1 / (1 + np.exp(-(model.b + h @ model.W.T))), abs=1e-13)
    deep = ToyDBM.random((3, 3, 2), seed=1)
    odd = ExactPosterior.of_blocks(deep, observed="odd")
    x = codes(np.arange(8), (2, 2, 2)).astype(float)
    assert odd.log_evidence(x) == pytest.approx(-deep.marginal_energy({"odd": x}), abs=1e-12)


@pytest.mark.spec("INF-71")
def test_models_in_torch_are_asked_in_torch():
    toy = ToyRBM.random(5, 4, seed=3)
    model = RBMModel.of(*(torch.as_tensor(part) for part in (toy.W, toy.b, toy.c)))
    v = codes(np.arange(32), (2,) * 5).astype(float)
    ours, theirs = ExactPosterior.of_blocks(toy), ExactPosterior.of_blocks(model)
    assert theirs.mean(v) == pytest.approx(ours.mean(v), abs=1e-12)
    assert theirs.log_evidence(torch.as_tensor(v)) == pytest.approx(ours.log_evidence(v), abs=1e-12)


@pytest.mark.spec("INF-71")
def test_draws_by_inversion():
    """Uniform numbers at the midpoints of 10,000 cells give the shares of the posterior to one cell."""
    engine, v, m = ExactPosterior(mixed, (3, 2, 4)), np.array([[0.3], [-1.2]]), 10_000
    u = np.broadcast_to((np.arange(m) + 0.5) / m, (2, m))
    drawn = engine.sample_posterior(v, m, Scripted(uniform=u))
    number = np.ravel_multi_index(np.moveaxis(drawn, 2, 0), (3, 2, 4))
    for i, p in enumerate(engine.posterior(v)):
        share = np.bincount(number[i], minlength=24) / m
        assert abs(share - p).max() <= 1.01 / m
        assert (share[p == 0] == 0).all()
    edge = engine.sample_posterior(v, 1, Scripted(uniform=np.array([[1 - 1e-17], [1e-300]])))
    assert engine.posterior(v)[0, np.ravel_multi_index(edge[0, 0], (3, 2, 4))] > 0


@pytest.mark.spec("INF-71")
def test_draws_with_noise_follow_the_posterior():
    """20,000 draws for each of two observations; chi-square, false-alarm rate 1e-4 each; rows keep their numbers."""
    engine, v = ExactPosterior(mixed, (3, 2, 4)), np.array([[0.3], [-1.2]])
    with recording():
        drawn = engine.sample_posterior(v, 20_000, Noise(1, "posterior"))
    for i, p in enumerate(engine.posterior(v)):
        count = np.bincount(np.ravel_multi_index(drawn[i].T, (3, 2, 4)), minlength=24)
        expected = p[p > 0] * 20_000
        assert expected.min() > 5
        statistic = ((count[p > 0] - expected) ** 2 / expected).sum()
        assert statistic < stats.chi2.isf(FALSE_ALARM, expected.size - 1)
    second = engine.sample_posterior(v[1:], 50, Noise(1, "posterior").rows(np.array([1])))
    assert np.array_equal(second[0], drawn[1, :50])


@pytest.mark.spec("INF-71")
def test_sizes_and_impossible_observations_are_told():
    with pytest.raises(UserValueError, match=r"40 latents have 1.1e\+12 states.*limit of 1048576; use VariableElim"):
        ExactPosterior(SparseCoding(), 40)
    with pytest.raises(UserValueError, match=r"9 tables of 24 states take 1.7e\+03 bytes.*ask for marginals"):
        ExactPosterior(mixed, (3, 2, 4), limit=24).posterior(np.zeros((9, 1)))
    with pytest.raises(UserValueError, match=r"probability 0 under every state \(row 1\)"):
        ExactPosterior(lambda v, h: np.where(v[:, 0] > 0, 0.0, -np.inf), 2).mean(np.array([[1.0], [-1.0]]))
    with pytest.raises(
        UserValueError, match=r"the log density must be a number below \+inf at every state \(log density\)"
    ):
        ExactPosterior(lambda v, h: np.full(len(v), np.nan), 2).mean(np.zeros((1, 1)))
    with pytest.raises(
        UserValueError, match=r"the log density must return one number for each of the 4 .*sum over the other axes"
    ):
        ExactPosterior(lambda v, h: h, 2).mean(np.zeros((1, 1)))
    with pytest.raises(UserTypeError, match=r"log_joint must be a function of \(v, h\), got a int"):
        ExactPosterior(3, 2)
    with pytest.raises(UserValueError, match="block 'x' is unknown"):
        ExactPosterior.of_blocks(tiny_rbm(), observed="x")
