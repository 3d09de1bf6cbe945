"""Tempered transitions: the whole move as a matrix, invariance on the line, modes crossed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

import gnomon
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.mcmc.chains import detailed_balance_error, invariance_error, reverse_kernel
from gnomon.inference.mcmc.gibbs import block_kernel
from gnomon.inference.mcmc.invariance import check_invariance
from gnomon.inference.mcmc.metropolis import MetropolisHastings, RandomWalk
from gnomon.inference.mcmc.mixing import SeparatedModes, mode_report
from gnomon.inference.mcmc.sites import SingleSite
from gnomon.inference.mcmc.stationary import second_eigenvalue
from gnomon.inference.mcmc.tempered_transitions import TemperedTransitions
from gnomon.numeric.noise import Noise, recording
from oracles.binary import all_states
from oracles.scripted import LADDER_ENERGY, ladder_metropolis
from oracles.toys import ToyRBM, tiny_rbm

LADDER = np.exp(-LADDER_ENERGY) / np.exp(-LADDER_ENERGY).sum()
BETAS = (1.0, 0.5, 0.1)


def bell(x):
    return -0.5 * (x * x).sum(-1)


class Route:
    """A path over K states that is told which states to pass, and notes how likely each was.

    Level l has the matrix ``forth[l]`` under ``exp(log_p[l])``; `back` follows its reversal unless told a wrong one.
    """

    log_z0 = 0.0

    def __init__(self, log_p, forth, back=None):
        self.log_p, self.forth = log_p, forth
        self.reverse = back or [reverse_kernel(t, np.exp(p)) for t, p in zip(forth, log_p, strict=True)]
        self.plan, self.chance = [], 1.0

    def __len__(self):
        return len(self.log_p)

    def log_prob(self, level, x):
        return self.log_p[level][x[:, 0].astype(int)]

    def start(self, n, noise):
        raise NotImplementedError

    def move(self, level, x, noise):
        return self._go(self.forth[level], x)

    def back(self, level, x, noise):
        return self._go(self.reverse[level], x)

    def _go(self, matrix, x):
        y = np.full(len(x), self.plan.pop(0))
        self.chance = self.chance * matrix[y, x[:, 0].astype(int)]
        return y[:, None].astype(float)


def whole_matrix(path):
    """The transition matrix of the step: every route from every state, its chance and the kernel's acceptance."""
    k = len(path.log_p[0])
    kernel, start = TemperedTransitions(BETAS), np.arange(float(k))[:, None]
    matrix = np.zeros((k, k))
    for route in itertools.product(range(k), repeat=2 * (len(path) - 1)):
        path.plan, path.chance = list(route), np.ones(k)
        _, info = kernel.step(kernel.init(start, path), Noise(0, "any"))
        taken = path.chance * info["accept_prob"]
        matrix[route[-1], np.arange(k)] += taken
        matrix[np.arange(k), np.arange(k)] += path.chance - taken
    return matrix


def levels():
    rising = BETAS[::-1]
    return [-b * LADDER_ENERGY for b in rising], [ladder_metropolis(b) for b in rising]


@pytest.mark.spec("INF-26")
def test_the_whole_move_on_the_ladder():
    """625 routes from each of 5 states: law and detailed balance to rounding, the eigenvalues of the definition."""
    log_p, forth = levels()
    matrix = whole_matrix(Route(log_p, forth))
    assert np.allclose(matrix.sum(axis=0), 1, rtol=0, atol=1e-14)
    assert invariance_error(matrix, LADDER) < 1e-15
    assert detailed_balance_error(matrix, LADDER) < 1e-15
    assert second_eigenvalue(matrix) == pytest.approx(0.942294, abs=5e-7)
    plain = ladder_metropolis()
    assert second_eigenvalue(plain) == pytest.approx(0.991476, abs=5e-7)
    # the fourth power of 0.991476 as rounded
    assert second_eigenvalue(np.linalg.matrix_power(plain, 4)) == pytest.approx(0.966338, abs=4e-6)


@pytest.mark.spec("INF-26")
def test_kernels_that_are_not_reversible_need_their_reversals():
    """With a circular flow at each level the balance holds by the reversal, and not by the same kernel twice."""
    log_p, forth = levels()
    turned = []
    for p, t in zip(log_p, forth, strict=True):
        # a circular flow of constant strength keeps p and has no detailed balance
        flow = (0.5 * t + 0.5 * np.eye(5)) * np.exp(p)
        strength = 0.9 * np.diag(flow).min()
        for a, b in ((0, 2), (2, 4), (4, 0)):
            flow[b, a] += strength
            flow[a, a] -= strength
        turned.append(flow / np.exp(p))
        assert invariance_error(turned[-1], np.exp(p)) < 1e-15 < detailed_balance_error(turned[-1], np.exp(p))
    right = whole_matrix(Route(log_p, turned))
    assert detailed_balance_error(right, LADDER) < 1e-15
    wrong = whole_matrix(Route(log_p, turned, back=turned))
    assert invariance_error(wrong, LADDER) > 1e-5


@pytest.mark.spec("INF-26")
@pytest.mark.parametrize("steps", [1, 3])
def test_a_mixture_stays_a_mixture(steps):
    """20,000 exact draws of two clouds, one step; false-alarm rate 1e-4."""
    target = SeparatedModes(6.0)
    kernel = TemperedTransitions([1.0, 0.6, 0.3, 0.1], MetropolisHastings(RandomWalk(2.0)), steps=steps)
    draws = target.sample(20_000, Noise(1, "exact"))
    report = check_invariance(kernel, target, draws, Noise(2, "moves"), false_alarm=1e-4)
    assert report.holds, report.failed
    with recording():
        _, info = kernel.step(kernel.init(draws, target), Noise(3, "moves"))
    assert 0.05 < info["accepted"].mean() < 0.95


@pytest.mark.spec("INF-26")
def test_walks_that_leave_the_support_are_rejected():
    """An exponential law heated to a normal base, whose draws fall below 0 where the target is not; rate 1e-4."""

    class Base:
        def log_prob(self, x):
            return stats.norm.logpdf(x[:, 0], 1, 2)

        def sample(self, n, noise):
            return 1 + 2 * noise.normal((n, 1), like=np.empty(0))

    def half_line(x):
        return np.where(x[:, 0] > 0, -x[:, 0], -np.inf)

    kernel = TemperedTransitions([1.0, 0.5, 0.2, 0.0], MetropolisHastings(RandomWalk(2.0)), base=Base())
    state, info = kernel.step(
        kernel.init(stats.expon.rvs(size=(20_000, 1), random_state=0), half_line), Noise(5, "half")
    )
    assert (info["proposed"]["x"] if isinstance(info["proposed"], dict) else info["proposed"]).min() < 0
    assert state["x"].min() > 0
    assert stats.kstest(state["x"][:, 0], stats.expon.cdf).pvalue > 1e-4
    assert 0.1 < info["accepted"].mean() < 0.95


@pytest.mark.spec("INF-26")
def test_modes_are_crossed_that_a_random_walk_does_not_cross():
    """Both from one mode, 400 chains: within 100 steps the plain chain never leaves, the tempered one is everywhere."""
    target, start = SeparatedModes(12.0), np.full((400, 2), -12 / 8**0.5)
    plain = MetropolisHastings(RandomWalk(1.0))
    betas = np.geomspace(1, 0.02, 16)
    hot = TemperedTransitions(betas, [MetropolisHastings(RandomWalk(size)) for size in 2 / betas**0.5], steps=3)
    rates = {}
    for name, kernel in (("plain", plain), ("hot", hot)):
        state, labels = kernel.init(start, target), []
        for t in range(100):
            state, _ = kernel.step(state, Noise(4, name).at(t))
            labels.append(target.label(state["x"]))
        rates[name] = mode_report(np.stack(labels[50:], axis=1), [0.5, 0.5])
        if name == "hot":
            share = target.label(state["x"]).sum()
            assert stats.binomtest(int(share), 400, 0.5).pvalue > 1e-4
    assert rates["plain"].switch_rate == 0
    assert rates["hot"].switch_rate > 0.03


@pytest.mark.spec("INF-26")
def test_blocks_walk_through_their_bridge():
    """A restricted Boltzmann machine, exact draws of its visible units moved: the law stays (chi-square, 1e-4)."""
    model, n = tiny_rbm(), 40_000
    p = np.exp(-model.energy(all_states(3)))
    p /= p.sum()
    exact = all_states(3)[np.searchsorted(np.cumsum(p), Noise(1, "exact").uniform(n))]
    for betas in ((1.0, 0.5, 0.0), (1.0, 0.6, 0.3)):
        kernel = TemperedTransitions(betas)
        state, info = kernel.step(kernel.init({"visible": exact, "hidden": exact[:, :2]}, model), Noise(2, "moves"))
        counts = np.bincount((state["x"] @ [4, 2, 1]).astype(int), minlength=8)
        assert stats.chisquare(counts, n * p).pvalue > 1e-4
        assert 0.3 < info["accepted"].mean() < 1
        assert kernel.position(state)["visible"] is state["x"]
    # a step is not the block sweep: started in one state, the law after it differs
    start = np.zeros((n, 3))
    kernel = TemperedTransitions((1.0, 0.5, 0.0))
    state, _ = kernel.step(kernel.init(start, model), Noise(3, "moves"))
    counts = np.bincount((state["x"] @ [4, 2, 1]).astype(int), minlength=8)
    assert stats.chisquare(counts, n * block_kernel(model, "visible")[:, 0]).pvalue < 1e-4


@pytest.mark.spec("INF-26")
def test_sweeps_go_down_in_the_opposite_order():
    """Four coupled units swept in order: chi-square of the law after one step from exact draws, false-alarm 1e-4."""
    model, n = ToyRBM.random(4, 3, seed=1, scale=1.5), 40_000
    p = np.exp(-model.energy(all_states(4)))
    p /= p.sum()
    exact = all_states(4)[np.searchsorted(np.cumsum(p), Noise(1, "exact").uniform(n))]
    kernel = TemperedTransitions((1.0, 0.4), SingleSite(), block="visible")

    class Visible:
        """The same law as a plain energy."""

        def energy(self, x):
            return model.energy(x)

    state, info = kernel.step(kernel.init(exact, Visible()), Noise(2, "moves"))
    counts = np.bincount((state["x"] @ [8, 4, 2, 1]).astype(int), minlength=16)
    assert stats.chisquare(counts, n * p).pvalue > 1e-4
    assert 0.3 < info["accepted"].mean() < 1


def test_sample_chain_takes_it_in_numpy_and_torch():
    kernel = TemperedTransitions(3, MetropolisHastings(RandomWalk(1.0)))
    settings = {"chains": 4, "draws": 20, "burn_in": 5, "random_state": 0}
    theirs = gnomon.sample_chain(bell, kernel, start=torch.zeros(4, 2, dtype=torch.float64), **settings)
    ours = gnomon.sample_chain(bell, kernel, start=np.zeros((4, 2)), **settings)
    assert np.allclose(theirs.draws, ours.draws, rtol=0, atol=1e-12)
    longer = gnomon.sample_chain(bell, kernel, resume=ours.save(), **settings | {"draws": 10})
    assert np.array_equal(ours.extend(10).draws[:, 20:], longer.draws)


def test_wrong_use_is_named():
    with pytest.raises(UserValueError, match=r"betas must begin at 1, the target, got 0\.9"):
        TemperedTransitions([0.9, 0.5])
    with pytest.raises(
        UserValueError, match=r"betas must fall strictly and stay at least 0, got 0\.5 then 0\.5 \(betas, entry 2\)"
    ):
        TemperedTransitions([1.0, 0.5, 0.5])
    with pytest.raises(UserValueError, match="block 'visible' has no start"):
        TemperedTransitions(3).init({"hidden": np.zeros((2, 2))}, tiny_rbm())

    class Untold:
        def init(self, position, target):
            return SingleSite().init(position, target)

        def step(self, state, noise):
            return SingleSite().step(state, noise)

        def position(self, state):
            return SingleSite().position(state)

    kernel = TemperedTransitions(2, Untold())
    with pytest.raises(
        UserTypeError, match=r"the reversal of Untold is unknown \(kernel\); give it a .*kernel returns itself"
    ):
        kernel.step(kernel.init(np.zeros((2, 2)), lambda x: x.sum(-1)), Noise(0, "x"))
