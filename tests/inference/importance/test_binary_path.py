"""The compiled path of two binary layers against the bridge walked level by level, draw for draw."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gnomon.contracts import HasPath, supports
from gnomon.inference.exact.enumeration import log_partition
from gnomon.inference.importance.ais import ais, anneal
from gnomon.inference.importance.binary_path import BinaryPath
from gnomon.inference.mcmc.paths import BridgePath
from gnomon.numeric.noise import Noise, recording
from gnomon.systems.energy.rbm import RBMModel
from oracles.toys import ToyRBM


def machine(d, m, kind=np.float64, scale=0.5, seed=0):
    """A machine and a base whose biases, of both layers, are not 0."""
    rng = np.random.default_rng(seed)
    W, b, c = (rng.normal(0, scale, shape).astype(kind) for shape in ((d, m), d, m))
    base = RBMModel.of(0 * W, rng.normal(size=d).astype(kind), rng.normal(size=m).astype(kind))
    return RBMModel.of(W, b, c), base


@pytest.mark.spec("INF-63")
@pytest.mark.parametrize("keep", ["visible", "hidden"])
@pytest.mark.parametrize(("d", "m"), [(7, 5), (90, 70)])
def test_the_same_draws_and_weights_as_the_bridge(keep, d, m):
    """Fields rounded otherwise: a draw may differ where u is within 1e-14 of p, which 150,000 draws meet in 1e-9."""
    model, base = machine(d, m)
    etas = np.array([0.0, 0.1, 0.15, 0.5, 0.9, 1.0])
    slow, fast, noise = BridgePath(model, base, etas, keep), model.path(base, etas, keep), Noise(0, "path")
    assert isinstance(fast, BinaryPath)
    x, y = slow.start(30, noise.at(0)), fast.start(30, noise.at(0))
    assert np.array_equal(x, y) and fast.log_z0 == slow.log_z0
    for j in range(5):
        assert np.allclose(fast.log_prob(j, y), slow.log_prob(j, x), rtol=0, atol=1e-11)
        gain = slow.log_prob(j + 1, x) - slow.log_prob(j, x)
        x = slow.move(j + 1, x, noise.at(j + 1))
        assert np.array_equal(fast.move(j + 1, y, noise.at(j + 1)), x)
        mine, y = fast.climb(j, y, noise.at(j + 1))
        assert np.array_equal(x, y)
        assert np.allclose(mine, gain, rtol=0, atol=1e-11)
    for j in range(5, 0, -1):
        gain = slow.log_prob(j - 1, x) - slow.log_prob(j, x)
        x = slow.back(j - 1, x, noise.at(10 + j))
        assert np.array_equal(fast.back(j - 1, y, noise.at(10 + j)), x)
        mine, y = fast.descend(j, y, noise.at(10 + j))
        assert np.array_equal(x, y)
        assert np.allclose(mine, gain, rtol=0, atol=1e-11)


@pytest.mark.spec("INF-63")
def test_single_precision_is_that_of_the_energies():
    """One step from the same draws: gains within the rounding of 500 float32 terms, draws equal but for ties."""
    model, base = machine(784, 500, np.float32, 0.1)
    etas, noise = np.array([0.0, 0.3, 0.4, 1.0]), Noise(1, "path")
    slow, fast = BridgePath(model, base, etas, "visible"), model.path(base, etas, "visible")
    x = slow.start(50, noise.at(0))
    gain, then = slow.log_prob(2, x).astype(np.float64) - slow.log_prob(1, x), slow.move(2, x, noise.at(1))
    mine, after = fast.climb(1, x.copy(), noise.at(1))
    double = RBMModel.of(*(p.astype(np.float64) for p in model.state().values()))
    exact = BridgePath(double, RBMModel.of(*(p.astype(np.float64) for p in base.state().values())), etas, "visible")
    truth = exact.log_prob(2, x.astype(np.float64)) - exact.log_prob(1, x.astype(np.float64))
    apart = fast.log_prob(2, x) - fast.log_prob(1, x)
    assert np.abs(apart - truth).max() < 1e-4
    assert np.abs(mine - truth).max() < 1e-4
    assert np.abs(mine - truth).max() < np.abs(gain - truth).max()
    assert np.abs(truth).max() > 1
    assert (after != then).mean() < 1e-3


@pytest.mark.spec("INF-63")
def test_long_rows_and_certain_units():
    """Products of more than 512 factors, and biases of thousands, stay finite and right."""
    rng = np.random.default_rng(2)
    for kind, tolerance in ((np.float64, 1e-9), (np.float32, 1e-2)):
        c = rng.normal(0, 1, 1300).astype(kind)
        c[:4] = 3000, -3000, 80, -80
        model = RBMModel.of(np.zeros((3, 1300), kind), np.full(3, 5000, kind), c)
        truth = 15000 + np.logaddexp(0, c.astype(np.float64)).sum()
        base = RBMModel.of(np.zeros((3, 1300), kind), np.full(3, 5000, kind), 0 * c)
        sample = ais(model, base, Noise(0, "long"), chains=4, schedule=50, keep="visible")
        assert np.allclose(sample.log_weights, truth, rtol=0, atol=tolerance)


@pytest.mark.spec("INF-63")
@pytest.mark.parametrize("keep", ["visible", "hidden"])
def test_weights_are_unbiased_and_ais_takes_the_path(keep):
    """20,000 chains of 5 steps: mean of the weights within 4.5 of its errors, false-alarm rate 7e-6."""
    model, base = machine(6, 4)
    assert supports(model, HasPath)
    with recording():
        sample = ais(model, base, Noise(3, "ais"), chains=20_000, schedule=5, keep=keep)
    w = np.exp(sample.log_weights - log_partition(model))
    assert abs(w.mean() - 1) < 4.5 * w.std() / math.sqrt(len(w))
    plain = ToyRBM(*(value for value in model.state().values()))
    plain_base = ToyRBM(*(value for value in base.state().values()))
    plain_base.log_partition = base.log_partition
    same = ais(plain, plain_base, Noise(3, "ais"), chains=20_000, schedule=5, keep=keep)
    assert np.allclose(sample.log_weights, same.log_weights, rtol=0, atol=1e-11)
    assert np.array_equal(sample.values, same.values)
    part = ais(model, base, Noise(3, "ais").rows(np.arange(50, 60)), chains=10, schedule=5, keep=keep)
    assert np.allclose(part.log_weights, sample.log_weights[50:60], rtol=0, atol=1e-11)


def test_progress_is_told_states_that_stay():
    model, base = machine(6, 4)
    seen = []
    ais(model, base, Noise(0, "p"), chains=8, schedule=4, progress=lambda step, n, x, w: seen.append((x, w)))
    slow, noise = BridgePath(model, base, np.linspace(0, 1, 5), "hidden"), Noise(0, "p")
    x = slow.start(8, noise.at(0))
    for j in range(3):
        assert np.array_equal(seen[j][0], x)
        x = slow.move(j + 1, x, noise.at(j + 1))
    assert np.array_equal(seen[3][0], x)
    assert not np.array_equal(seen[0][1], seen[1][1])


def test_a_coupled_base_is_walked_level_by_level():
    model, base = machine(4, 3)
    coupled = RBMModel.of(np.full((4, 3), 0.1), *list(base.state().values())[1:])
    path = model.path(coupled, np.array([0.0, 1.0]), "visible")
    assert isinstance(path, BridgePath) and not isinstance(path, BinaryPath)


@pytest.mark.spec("INF-63")
def test_threads_change_nothing_and_fail_as_one(monkeypatch):
    """200 chains in four blocks: bitwise the same in turn, at once, and with somebody looking on."""
    model, base = machine(40, 30, np.float32)
    noise, found = Noise(4, "threads").rows(np.arange(7, 207)), []
    for threads, progress in (("1", None), ("4", None), ("4", lambda step, n, x, w: found.append((x.shape, w)))):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        found.append(ais(model, base, noise, chains=200, schedule=30, progress=progress))
    first, second, third = (one for one in found if not isinstance(one, tuple))
    assert first.log_weights.shape == (200,) and np.array_equal(first.log_weights, second.log_weights)
    assert np.array_equal(first.values, second.values) and np.array_equal(first.values, third.values)
    assert np.array_equal(first.log_weights, third.log_weights)
    seen = [one for one in found if isinstance(one, tuple)]
    assert len(seen) == 30 and seen[0][0] == (200, model.sizes["hidden"])
    slow = BridgePath(model, base, np.linspace(0, 1, 31), "hidden")
    alone = anneal(slow, noise, chains=200)
    assert np.median(np.abs(alone.log_weights - first.log_weights)) < 1e-3  # draws differ where rounding decides

    def broken(*arguments):
        raise RuntimeError("no draws")

    monkeypatch.setattr(BinaryPath, "climb", broken)
    with pytest.raises(RuntimeError, match="no draws"):
        ais(model, base, noise, chains=200, schedule=30)
