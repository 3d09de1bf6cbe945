"""Paths from a base to a target: levels by enumeration, exact starts, moves that keep them, reversals by matrix."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from gnomon.contracts import Path
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.importance.ais import annealing_schedule
from gnomon.inference.mcmc.chains import invariance_error, reverse_kernel
from gnomon.inference.mcmc.hamiltonian import HMC
from gnomon.inference.mcmc.kernel import reversal
from gnomon.inference.mcmc.metropolis import MetropolisHastings, RandomWalk
from gnomon.inference.mcmc.paths import BridgePath, TemperedPath
from gnomon.inference.mcmc.sites import PairwiseUnits, SingleSite
from gnomon.inference.mcmc.sweeps import Conditionals, Gibbs
from gnomon.numeric.noise import Noise, recording
from oracles.binary import all_states
from oracles.scripted import LADDER_ENERGY, Scripted, ladder_log_p, walk
from oracles.toys import ToyRBM, ToyTriangle, tiny_rbm

ETAS = np.array([0.0, 0.3, 1.0])


class Line:
    """The five states of the ladder, equally likely, and two beside it that the target does not reach."""

    def __init__(self, beside=0):
        self.beside = beside

    def log_prob(self, x):
        return np.where((x[:, 0] >= 0) & (x[:, 0] < 5 + self.beside), -np.log(5 + self.beside), -np.inf)

    def energy(self, x):
        raise AssertionError("an energy may lack the normalizer")

    def sample(self, n, noise):
        return noise.integers(5 + self.beside, (n,)).astype(float)[:, None]


def brute_force(model, base, eta):
    """The law of the visible units of the bridge, from joint energies alone; log Z too."""
    table = all_states(sum(model.sizes.values()))
    cut = model.sizes["visible"]
    state = {"visible": table[:, :cut], "hidden": table[:, cut:]}
    log_p = -(1 - eta) * base.joint_energy(state) - eta * model.joint_energy(state)
    return np.exp(log_p).reshape(2**cut, -1).sum(axis=1)


def test_levels_of_a_bridge_are_marginals_of_mixed_energies():
    model = tiny_rbm()
    base = model.base(np.array([0.2, 0.5, 0.7]))
    path = BridgePath(model, base, ETAS)
    v = all_states(3)
    assert isinstance(path, Path) and len(path) == 3
    for level, eta in enumerate(ETAS):
        mass = brute_force(model, base, eta)
        assert np.exp(path.log_prob(level, v)) == pytest.approx(mass, rel=1e-12)
    assert path.log_z0 == pytest.approx(np.log(brute_force(model, base, 0.0).sum()), abs=1e-12)
    hidden = BridgePath(model, base, ETAS, keep="hidden")
    assert np.exp(hidden.log_prob(1, all_states(2))).sum() == pytest.approx(brute_force(model, base, 0.3).sum())


def test_a_bridge_starts_and_moves_within_its_levels():
    """40,000 chains: chi-square tests of the start, and of exact draws of a level moved; false-alarm rate 1e-4 each."""
    model, n = tiny_rbm(), 40_000
    path = BridgePath(model, model.base(np.array([0.2, 0.5, 0.7])), ETAS)
    laws = [p / p.sum() for p in (np.exp(path.log_prob(level, all_states(3))) for level in range(3))]
    number = np.array([4, 2, 1])

    def fits(x, law):
        return stats.chisquare(np.bincount((x @ number).astype(int), minlength=8), n * law).pvalue > 1e-4

    assert fits(path.start(n, Noise(0, "start")), laws[0])
    exact = all_states(3)[np.searchsorted(np.cumsum(laws[2]), Noise(1, "exact").uniform(n))]
    assert fits(path.move(2, exact, Noise(2, "move")), laws[2])
    assert fits(path.back(2, exact, Noise(3, "move")), laws[2])
    assert not fits(path.move(1, exact, Noise(2, "move")), laws[2])


def test_a_tempered_path_begins_at_its_normalized_base():
    path = TemperedPath(ladder_log_p, Line(), [0.0, 0.5, 1.0], MetropolisHastings(walk))
    x = np.arange(5.0)[:, None]
    assert isinstance(path, Path) and path.log_z0 == 0
    assert np.exp(path.log_prob(0, x)).sum() == pytest.approx(1.0, abs=1e-15)
    assert path.log_prob(1, x) == pytest.approx(-0.5 * LADDER_ENERGY - 0.5 * np.log(5), abs=1e-14)
    assert path.log_prob(2, x) == pytest.approx(-LADDER_ENERGY, abs=1e-14)
    counts = np.bincount(path.start(20_000, Noise(0, "start"))[:, 0].astype(int))
    assert stats.chisquare(counts).pvalue > 1e-4


def test_rows_that_the_target_does_not_reach_stay_and_keep_no_weight():
    """The base has two states more: its normalizer counts them, the levels above do not, and their chains rest."""
    path = TemperedPath(ladder_log_p, Line(beside=2), [0.0, 0.5, 1.0], MetropolisHastings(walk))
    x = np.arange(7.0)[:, None]
    assert np.exp(path.log_prob(0, x)).sum() == pytest.approx(1.0, abs=1e-15)
    assert np.isneginf(path.log_prob(1, x)[5:]).all()
    many = np.repeat(x, 50, axis=0)
    moved = path.move(1, many, Noise(0, "move"))
    assert np.array_equal(moved[250:], many[250:])
    assert (moved[:250] != many[:250]).mean() > 0.3 and (moved[:250] < 5).all()
    alone = path.move(1, many[:250], Noise(0, "move"))
    assert np.array_equal(moved[:250], alone)
    assert np.array_equal(path.move(1, x[5:], Noise(0, "move")), x[5:])


def sweep_matrix(kernel, target, d):
    """The matrix of a sweep over d units by a grid of uniform numbers fine enough for the targets here."""
    table, fine = all_states(d), 60
    matrix = np.zeros((2**d, 2**d))
    for cell in itertools.product((np.arange(fine) + 0.5) / fine, repeat=d):
        noise = Scripted(uniform=np.array(cell))
        new = kernel.step(kernel.init(table, target), noise)[0]["x"]
        matrix[(new @ 2 ** np.arange(d)[::-1]).astype(int), np.arange(2**d)] += 1
    return matrix / fine**d


@pytest.mark.spec("INF-26")
def test_a_sweep_is_reversed_by_the_opposite_order():
    """Two units whose conditionals are multiples of 1/60, so that the grid gives the matrix exactly."""
    logit = np.log(np.array([1 / 3, 3 / 4, 1 / 5]) / (1 - np.array([1 / 3, 3 / 4, 1 / 5])))
    # p(x1 = 1 | x2) is 1/3 or 3/4; p(x2 = 1 | x1) is 1/5 or 3/5
    units = PairwiseUnits([[0.0, logit[1] - logit[0]], [0.0, 0.0]], [logit[0], logit[2]])
    p = np.exp(-units.energy(all_states(2)))
    assert 1 / (1 + np.exp(-(logit[2] + logit[1] - logit[0]))) == pytest.approx(3 / 5)
    forth = sweep_matrix(SingleSite(), units, 2)
    back = sweep_matrix(reversal(SingleSite()), units, 2)
    assert invariance_error(forth, p) < 1e-15
    assert np.allclose(back, reverse_kernel(forth, p), rtol=0, atol=1e-14)
    assert not np.allclose(back, forth, atol=1e-2)
    named = sweep_matrix(SingleSite(order=(1, 0)), units, 2)
    assert np.allclose(sweep_matrix(SingleSite(order=(1, 0)).reversed(), units, 2), forth, rtol=0, atol=1e-15)
    assert np.allclose(named, back, rtol=0, atol=1e-15)
    assert SingleSite().reversed().reversed() == SingleSite()


@pytest.mark.spec("INF-26")
def test_block_sweeps_are_reversed_too_and_what_is_not_known_is_refused():
    triangle = ToyTriangle(np.array([0.1, 0.2, -0.3]), np.ones((3, 3)))
    start = {name: np.zeros((6, 1)) for name in "abc"}
    noise = Noise(3, "sweep")
    there = Gibbs(order=("c", "b", "a"))
    for kernel, same in ((Gibbs(), there), (Gibbs(order=("a", "b", "c")), there), (there, Gibbs())):
        ours, theirs = (k.step(k.init(start, triangle), noise)[0].arrays for k in (reversal(kernel), same))
        assert all(np.array_equal(ours[name], theirs[name]) for name in "abc")
    for kernel in (MetropolisHastings(), HMC(), SingleSite("random"), Gibbs("random")):
        assert reversal(kernel) == kernel

    class OneWay:
        def step(self, state, noise):
            return state, {}

    with pytest.raises(
        UserTypeError, match=r"the reversal of OneWay is unknown \(kernel\); give it a .*kernel returns itself"
    ):
        TemperedPath(ladder_log_p, None, [0.5, 1.0], OneWay()).back(1, np.zeros((2, 1)), Noise(0, "x"))


def test_kernels_may_differ_by_level_and_steps_have_streams_of_their_own():
    small, large = MetropolisHastings(RandomWalk(1e-6)), MetropolisHastings(RandomWalk(3.0))
    path = TemperedPath(lambda x: -(x * x).sum(-1), None, [0.1, 1.0], [large, small], steps=3)
    x = np.zeros((200, 2))
    with recording():
        wide, narrow = path.move(0, x, Noise(0, "a").at(1)), path.move(1, x, Noise(0, "a").at(2))
    assert wide.std() > 0.5 and 0 < abs(narrow).max() < 1e-4


def test_wrong_paths_are_named():
    model, kernel = tiny_rbm(), MetropolisHastings()
    with pytest.raises(UserValueError, match=r"etas must begin at 0, the base, got 0\.5"):
        BridgePath(model, model.base(), [0.5, 1.0]).start(3, Noise(0, "x"))
    with pytest.raises(UserValueError, match=r"etas must begin at 0, the base, got 0\.5"):
        _ = BridgePath(model, model.base(), [0.5, 1.0]).log_z0
    with pytest.raises(UserValueError, match=r"does not rise from 0.5 to 0.5 \(betas, entry 2\)"):
        TemperedPath(ladder_log_p, None, [0.1, 0.5, 0.5, 1.0], kernel)
    for betas in ([0.0, 0.9], [1.0], [-0.1, 1.0], [np.nan, 1.0]):
        with pytest.raises(UserValueError, match="does not rise to 1"):
            TemperedPath(ladder_log_p, None, betas, kernel)
    with pytest.raises(UserValueError, match="block 'middle' is unknown"):
        BridgePath(model, model.base(), annealing_schedule(3), keep="middle")
    with pytest.raises(UserTypeError, match="Conditionals cannot be annealed"):
        BridgePath(Conditionals({"a": lambda s: None}), None, ETAS)
    with pytest.raises(
        UserValueError,
        match=r"the path must begin at beta 0 with a base that has sample .*got beta 0 and none \(base\)",
    ):
        _ = TemperedPath(ladder_log_p, None, [0.0, 1.0], kernel).log_z0
    with pytest.raises(
        UserValueError, match=r"the path must begin at beta 0 with a base that has sample .*beta 0\.1 and Line \(base\)"
    ):
        TemperedPath(ladder_log_p, Line(), [0.1, 1.0], kernel).start(3, Noise(0, "x"))
    with pytest.raises(UserValueError, match="kernel must be one or 2, one per level, got 1"):
        TemperedPath(ladder_log_p, None, [0.1, 1.0], [kernel])
    with pytest.raises(
        UserValueError, match=r"the log density must be finite at the start, got nan at .*the density is positive"
    ):
        TemperedPath(lambda x: x[:, 0] * np.nan, None, [0.1, 1.0], kernel).move(1, np.zeros((2, 1)), Noise(0, "x"))


def test_one_toy_of_torch_and_numpy_starts_alike():
    import torch

    model = ToyRBM.random(4, 3, seed=0)
    tensors = model.astype(torch.from_numpy)
    ours = BridgePath(model, model.base(), ETAS).start(50, Noise(0, "s"))
    theirs = BridgePath(tensors, tensors.base(), ETAS).start(50, Noise(0, "s"))
    assert np.array_equal(theirs.numpy(), ours)
