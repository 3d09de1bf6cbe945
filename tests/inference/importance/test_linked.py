"""Linked importance sampling and annealing on paths: unbiased on finite ladders, errors that cover, limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gnomon.distributions.real import Normal
from gnomon.errors import UserValueError
from gnomon.inference.importance.ais import ais, anneal, annealing_schedule
from gnomon.inference.importance.bridge import estimate_log_ratio
from gnomon.inference.importance.linked import linked
from gnomon.inference.importance.normalizer import as_proposal
from gnomon.inference.mcmc.metropolis import Independence, MetropolisHastings, RandomWalk
from gnomon.inference.mcmc.paths import BridgePath, TemperedPath
from gnomon.numeric.noise import Noise, recording
from oracles.binary import Joint, rbm_energy
from oracles.scripted import LADDER_ENERGY, ladder_log_p, walk
from oracles.toys import tiny_rbm


class Ladder:
    """Levels on a few states given by log weights and by matrices T[i, j] = P(next = i | now = j)."""

    def __init__(self, log_p, kernels, backward):
        self.log_p, self.kernels, self.backward = log_p, kernels, backward
        self.log_z0 = float(np.logaddexp.reduce(log_p[0]))

    def __len__(self):
        return len(self.log_p)

    def log_prob(self, level, x):
        return self.log_p[level][x[:, 0].astype(int)]

    def start(self, n, noise):
        return self._draw(np.exp(self.log_p[0] - self.log_z0)[:, None], np.zeros((n, 1)), noise)

    def move(self, level, x, noise):
        return self._draw(self.kernels[level], x, noise)

    def back(self, level, x, noise):
        return self._draw(self.backward[level], x, noise)

    @staticmethod
    def _draw(matrix, x, noise):
        total = np.cumsum(matrix, axis=0)[:, x[:, 0].astype(int)]
        u = noise.uniform((len(x),), like=np.empty(0))
        return np.minimum((total <= u).sum(0), len(matrix) - 1)[:, None].astype(float)


def turning(log_p, rate):
    """A kernel that goes round a ring of states: invariant and far from reversible; and its reversal."""
    p = np.exp(log_p - np.logaddexp.reduce(log_p))
    flow = rate * p.min()  # the same stream through every link of the ring
    kernel = np.diag(1 - flow / p)
    for j in range(len(p)):
        kernel[(j + 1) % len(p), j] += flow / p[j]
    return kernel, kernel.T * p[:, None] / p[None, :]


def rows(sample, truth):
    """Mean weight over the truth, and its standard error."""
    w = np.exp(sample.log_weights - truth)
    return w.mean(), w.std(ddof=1) / math.sqrt(len(w))


class Uniform5:
    """The five states of the ladder."""

    def sample(self, n, noise):
        return np.floor(5 * noise.uniform((n, 1), like=np.empty(0)))

    def log_prob(self, x):
        return np.where((x[:, 0] >= 0) & (x[:, 0] < 5), -math.log(5), -np.inf)


@pytest.mark.spec("INF-69")
def test_the_ladder_in_numbers():
    """Five states, beta 0, .5, 1, chains of four states: mean and spread of one run, 60,000 runs, rate 1e-4."""
    path = TemperedPath(ladder_log_p, Uniform5(), [0.0, 0.5, 1.0], MetropolisHastings(walk))
    sample = linked(path, Noise(0, "ladder"), runs=60_000, chain_length=4)
    ratio = np.exp(sample.log_weights) / 5  # of sums over states
    truth = np.exp(-LADDER_ENERGY).sum() / 5
    assert truth == pytest.approx(0.344884, abs=5e-7)
    assert abs(ratio.mean() - truth) < 3.9 * 0.00103
    assert ratio.std() == pytest.approx(0.2533, rel=0.02)
    mean = sample.estimate(lambda x: x[:, 0])
    p = np.exp(-LADDER_ENERGY) / np.exp(-LADDER_ENERGY).sum()
    assert abs(mean.value - p @ np.arange(5)) < 3.9 * mean.stderr


@pytest.mark.spec("INF-69")
@pytest.mark.parametrize("length", [1, 2, 5])
def test_unbiased_with_kernels_that_are_not_reversible(length):
    """Rings of four states turned one way: 40,000 runs within 3.9 standard errors (rate 1e-4) for short chains."""
    log_p = np.array([[0.0, 0, 0, 0], [0.5, 2, 0, -1], [1.0, 3, 0.5, -2]])
    both = [turning(row, 0.95) for row in log_p]
    path = Ladder(log_p, [k for k, _ in both], [b for _, b in both])
    for (kernel, back), row in zip(both, log_p, strict=True):
        p = np.exp(row)
        assert np.allclose(kernel @ p, p) and np.allclose(back @ p, p) and np.allclose(back.sum(0), 1)
    truth = np.logaddexp.reduce(log_p[-1])
    mean, error = rows(linked(path, Noise(1, "ring"), runs=40_000, chain_length=length), truth)
    assert abs(mean - 1) < 3.9 * error


@pytest.mark.spec("INF-69", "INF-65")
def test_moves_backward_need_the_reversal():
    """The same ladder with backward moves by the kernel itself is found biased (rate 1e-4)."""
    log_p = np.array([[0.9, 0.7, -0.5], [-0.9, -0.4, 0.0], [-1.6, -0.1, -0.9]])
    both = [turning(row, 1.0) for row in log_p]
    kernels = [k for k, _ in both]
    right, wrong = Ladder(log_p, kernels, [b for _, b in both]), Ladder(log_p, kernels, kernels)
    truth = np.logaddexp.reduce(log_p[-1])
    for path, unbiased in ((right, True), (wrong, False)):
        mean, error = rows(linked(path, Noise(2, "ring"), runs=40_000, chain_length=3), truth)
        assert bool(abs(mean - 1) < 3.9 * error) is unbiased, (mean, error)


@pytest.mark.spec("INF-69", "INF-67")
@pytest.mark.parametrize("name", ["geometric", "narrow"])
def test_two_levels_with_independent_states_are_bridge_sampling(name):
    """Chains of independent draws: a long run is the bridge estimate of its own states, with its error."""
    base = as_proposal(Normal(0.0, 1.0))

    def target(x):
        return -0.5 * ((x[:, 0] - 1) / 0.6) ** 2

    own = Independence(lambda n, noise: 1 + 0.6 * noise.normal((n, 1), like=np.empty(0)), target)
    path = TemperedPath(target, base, [0.0, 1.0], [MetropolisHastings(Independence(base.sample, base.log_prob)),
                                                    MetropolisHastings(own)])  # fmt: skip
    length, noise = 400, Noise(3, "limit")
    join = "geometric" if name == "geometric" else lambda lower, upper: 0.2 * lower + 0.8 * upper
    found = linked(path, noise, runs=60, chain_length=length, bridge=join)
    truth = math.log(0.6 * math.sqrt(2 * math.pi))
    x0, x1 = base.sample(length, noise.child("a")), own.sample(length, noise.child("b"))
    bridge = "geometric" if name == "geometric" else lambda x: 0.2 * base.log_prob(x) + 0.8 * target(x)
    apart = estimate_log_ratio(x0, x1, base.log_prob, target, bridge)
    assert abs(found.log_mean_weight - truth) < 3.9 * found.stderr
    assert abs(apart.log_r_ - truth) < 3.9 * apart.se_
    assert found.log_weights.std(ddof=1) == pytest.approx(apart.se_, rel=0.4)  # 60 runs: 9 % each, rate 1e-4


@pytest.mark.spec("INF-62", "INF-69")
def test_chains_of_one_state_never_move_and_are_importance_sampling():
    path = TemperedPath(ladder_log_p, Uniform5(), [0.0, 0.3, 1.0], MetropolisHastings(walk))
    sample = linked(path, Noise(4, "one"), runs=50, chain_length=1)
    x = path.start(50, Noise(4, "one").child("start"))
    assert np.allclose(sample.log_weights, ladder_log_p(x) + math.log(5), rtol=0, atol=1e-12)


@pytest.mark.spec("INF-69")
def test_errors_cover_on_a_machine_of_binary_units():
    """TINY-RBM, 200 repetitions of 50 runs, run at once: 4 levels, chains of 5.

    With the normal's share 0.9973 within 3 errors, 192 of 200 or fewer have probability below 1e-4; half the error on
    purpose is found wrong.
    """
    model = tiny_rbm()
    truth = Joint(rbm_energy(model.W, model.b, model.c), (3, 2)).log_z
    path = BridgePath(model, model.base(), annealing_schedule(3))
    log_w = linked(path, Noise(5, "rbm"), runs=200 * 50, chain_length=5).log_weights.reshape(200, 50)
    w = np.exp(log_w - truth)
    off, error = np.log(w.mean(1)), w.std(1, ddof=1) / w.mean(1) / math.sqrt(50)
    assert (np.abs(off) < 3 * error).sum() >= 193
    assert (np.abs(off) < 3 * error / 2).sum() < 193
    assert w.mean() == pytest.approx(1, abs=3.9 * w.std() / 100)


@pytest.mark.spec("INF-69")
def test_errors_cover_on_a_normal():
    """A correlated normal in two dimensions, known Z; random walks; the coverage test as above."""
    precision = np.array([[2.0, 1.2], [1.2, 1.5]])
    truth = math.log(2 * math.pi) - 0.5 * math.log(np.linalg.det(precision))

    def target(x):
        return -0.5 * ((x @ precision) * x).sum(-1)

    base = as_proposal(Normal(np.array([0.5, 0.0]), np.array([2.0, 2.0])))
    path = TemperedPath(target, base, annealing_schedule(4), MetropolisHastings(RandomWalk(1.2)))
    for sample in (
        linked(path, Noise(6, "normal"), runs=200 * 60, chain_length=8),
        anneal(path, Noise(7, "normal"), chains=200 * 60),
    ):
        w = np.exp(sample.log_weights.reshape(200, 60) - truth)
        off, error = np.log(w.mean(1)), w.std(1, ddof=1) / w.mean(1) / math.sqrt(60)
        assert (np.abs(off) < 3 * error).sum() >= 193
        assert (np.abs(off) < 3 * error / 2).sum() < 193
        assert w.mean() == pytest.approx(1, abs=3.9 * w.std() / math.sqrt(w.size))


@pytest.mark.spec("INF-63")
def test_runs_are_their_rows_of_the_noise():
    """Runs 4 to 8 of ten are the same alone: no run draws what another one does."""
    path = TemperedPath(ladder_log_p, Uniform5(), [0.0, 0.4, 1.0], MetropolisHastings(walk))
    noise = Noise(8, "shards")
    with recording():
        whole = linked(path, noise, runs=10, chain_length=6)
    part = linked(path, noise.part(4, 9), runs=5, chain_length=6)
    assert np.array_equal(part.log_weights, whole.log_weights[4:9])
    assert np.array_equal(part.values, whole.values[4:9])


def test_annealing_a_path_of_blocks_is_annealing_the_model():
    model = tiny_rbm()
    base, noise = model.base(np.array([0.2, 0.5, 0.9])), Noise(8, "same")
    ours = anneal(BridgePath(model, base, annealing_schedule(7)), noise, chains=40)
    theirs = ais(model, base, noise, chains=40, schedule=7)
    assert np.allclose(ours.log_weights, theirs.log_weights, rtol=0, atol=1e-12)
    assert np.array_equal(ours.values, theirs.values)


@pytest.mark.spec("INF-69", "INF-63")
def test_what_the_target_excludes_gets_weight_zero():
    """A half line seen from the whole line: dead runs count as 0, and the mean stays unbiased (rate 1e-4)."""

    def half(x):
        return np.where(x[:, 0] > 0, -0.5 * x[:, 0] ** 2, -np.inf)

    path = TemperedPath(half, as_proposal(Normal(0.0, 1.5)), [0.0, 0.4, 1.0], MetropolisHastings(RandomWalk(1.0)))
    truth = 0.5 * math.log(math.pi / 2)
    for sample in (
        linked(path, Noise(9, "half"), runs=20_000, chain_length=2),
        anneal(path, Noise(9, "half"), chains=20_000),
    ):
        mean, error = rows(sample, truth)
        assert 0.2 < np.isneginf(sample.log_weights).mean() < 0.6
        assert abs(mean - 1) < 3.9 * error
        assert (sample.values[~np.isneginf(sample.log_weights)] > 0).all()


def test_tensors_repeat_the_arrays():
    model = tiny_rbm()
    tensors = model.astype(torch.tensor)
    ours, theirs = (
        linked(BridgePath(m, m.base(), annealing_schedule(2)), Noise(10, "kinds"), runs=30, chain_length=4)
        for m in (model, tensors)
    )
    assert isinstance(theirs.values, torch.Tensor)
    assert np.allclose(theirs.log_weights, ours.log_weights, rtol=0, atol=1e-12)


def test_wrong_use_is_named():
    model = tiny_rbm()
    path = BridgePath(model, model.base(), annealing_schedule(2))
    with pytest.raises(
        UserValueError, match=r"runs and chain_length must be at least 1, got 0 and 20 \(runs, chain_length\)"
    ):
        linked(path, Noise(0, "x"), runs=0)
    with pytest.raises(UserValueError, match="got 'golden'"):
        linked(path, Noise(0, "x"), bridge="golden")
    with pytest.raises(UserValueError, match="chains must be at least 1, got 0"):
        anneal(path, Noise(0, "x"), chains=0)
