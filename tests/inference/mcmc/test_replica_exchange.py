"""Parallel tempering: its matrix over all levels, cold marginals by enumeration, modes crossed, books kept right."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

import gnomon
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.mcmc.chains import detailed_balance_error, invariance_error
from gnomon.inference.mcmc.density import TemperedBlocks
from gnomon.inference.mcmc.hamiltonian import HMC
from gnomon.inference.mcmc.kernel import ChainState
from gnomon.inference.mcmc.metropolis import MetropolisHastings, RandomWalk
from gnomon.inference.mcmc.mixing import SeparatedModes, mode_report
from gnomon.inference.mcmc.replica_exchange import ParallelTempering
from gnomon.inference.mcmc.sites import SingleSite
from gnomon.inference.mcmc.stationary import second_eigenvalue
from gnomon.inference.mcmc.sweeps import Conditionals, Gibbs
from gnomon.numeric.noise import Noise, recording
from oracles.binary import all_states
from oracles.scripted import LADDER_ENERGY, ladder_log_p, ladder_metropolis
from oracles.toys import ToyDBM, ToyRBM


def boltzmann(energy):
    p = np.exp(-(energy - energy.min()))
    return p / p.sum()


class Told:
    """A kernel on the line that goes where it is told, row by row."""

    def __init__(self, places):
        self.places = np.asarray(places, dtype=float)

    def init(self, position, target):
        return ChainState(target, {"x": position})

    def step(self, state, noise):
        return state.moved(x=self.places[:, None]), {}

    def position(self, state):
        return {"x": state["x"]}


def swap_matrix(betas, turns=1):
    """The swap over the joint states of all levels as the kernel does it: chance and order from its own books."""
    k = len(betas)
    joint = np.array(list(itertools.product(range(5), repeat=k)))
    number = 5 ** np.arange(k)[::-1]
    matrix = np.zeros((len(joint),) * 2)
    kernel = ParallelTempering(betas, Told(joint.ravel()))
    state = kernel.init({"slots": {"x": joint[:, :, None].astype(float)}}, ladder_log_p)
    for _ in range(turns - 1):
        state, _ = kernel.step(state, Noise(0, "before"))
    before = state["swap/accept"].copy()
    after, _ = kernel.step(state, Noise(0, "swap"))
    chance = after["swap/accept"] - before
    for pair in itertools.product((False, True), repeat=k - 1):
        if any(a and b for a, b in itertools.pairwise(pair)):
            continue
        went = np.prod(np.where(pair, chance, 1 - chance), axis=1)
        order = np.arange(k)
        order[:-1] += pair
        order[1:] -= pair
        matrix[joint[:, order] @ number, np.arange(len(joint))] += went
    return matrix


@pytest.mark.spec("INF-27")
def test_swap_after_move_on_the_ladder():
    """25 joint states, moves by the definition, swaps by the kernel: law to rounding, the eigenvalues of the row."""
    betas = (1.0, 0.2)
    moves = np.kron(*(ladder_metropolis(b) for b in betas))
    product = np.kron(*(boltzmann(b * LADDER_ENERGY) for b in betas))
    swaps = swap_matrix(betas)
    assert detailed_balance_error(swaps, product) < 1e-16
    assert invariance_error(swaps @ moves, product) < 1e-16
    assert second_eigenvalue(swaps @ moves) == pytest.approx(0.949190, abs=5e-7)
    assert second_eigenvalue(moves) == pytest.approx(0.991476, abs=5e-7)


@pytest.mark.spec("INF-27")
def test_pairs_take_turns_and_each_keeps_the_product():
    betas = (1.0, 0.5, 0.3, 0.1)
    product = boltzmann((np.array(list(itertools.product(LADDER_ENERGY, repeat=4))) * betas).sum(axis=1))
    even, odd = swap_matrix(betas), swap_matrix(betas, turns=2)
    for matrix in (even, odd):
        assert detailed_balance_error(matrix, product) < 1e-15
        assert not np.allclose(matrix, np.eye(625))
    state = (kernel := ParallelTempering(betas, MetropolisHastings(RandomWalk(1.0)))).init(
        np.zeros((7, 1)), lambda x: -0.5 * (x * x).sum(-1)
    )
    for t in range(5):
        state, _ = kernel.step(state, Noise(0, "turns").at(t))
    assert state["swap/tried"].tolist() == [[3, 2, 3]] * 7


@pytest.mark.spec("INF-27")
def test_what_is_swapped_follows_the_chance():
    """20,000 pairs of states told apart: the share that swaps is exp(d(beta) d(E)), within its error (1e-4)."""
    n, betas = 20_000, (1.0, 0.4)
    kernel = ParallelTempering(betas, Told(np.tile([0.0, 1.0], n)))
    state = kernel.init({"slots": {"x": np.zeros((n, 2, 1))}}, ladder_log_p)
    state, info = kernel.step(state, Noise(1, "swap"))
    wanted = np.exp((betas[0] - betas[1]) * (LADDER_ENERGY[0] - LADDER_ENERGY[1]))
    assert info["swap_prob"] == pytest.approx(np.full(n, wanted), abs=1e-15)
    swapped = kernel.position(state)["x"][:, 0] == 1.0
    assert stats.binomtest(int(swapped.sum()), n, wanted).pvalue > 1e-4
    assert np.array_equal(kernel.replicas(state)[:, 0] == 1, swapped)
    assert kernel.swap_rates(state) == pytest.approx([wanted], abs=1e-12)


def two_valleys():
    """Two opposite patterns over six units, held apart by strong couplings."""
    pattern = np.array([1, 1, 1, -1, -1, -1.0])
    W = 6.0 * np.stack([pattern, -pattern], axis=1)
    return ToyRBM(W, -W.sum(axis=1) / 2 + 0.2 * pattern, np.array([-9.0, -8.5]))


@pytest.mark.spec("INF-27")
@pytest.mark.parametrize("based", [False, True])
def test_the_cold_marginal_of_a_bimodal_rbm(based):
    """300 chains from one valley; enumeration says how likely each is. Alone, block Gibbs stays where it began."""
    model = two_valleys()
    v = all_states(6)
    p = boltzmann(model.energy(v))
    valley = np.where(v @ np.array([1, 1, 1, -1, -1, -1.0]) > 0, 1, 0)
    share = p[valley == 1].sum()
    assert 0.2 < share < 0.9
    start = {"visible": np.tile([0, 0, 0, 1, 1, 1.0], (300, 1)), "hidden": np.tile([0, 1.0], (300, 1))}
    kernel = ParallelTempering(
        [1.0, 0.7, 0.5, 0.3, 0.15, 0.0], base=model.base(np.linspace(0.3, 0.6, 6)) if based else None
    )
    settings = {"chains": 300, "start": start, "burn_in": 100, "adapt": None, "random_state": 1}
    found = gnomon.sample_chain(model, kernel, draws=60, **settings)
    alone = gnomon.sample_chain(model, "gibbs", draws=60, **settings)
    labels, stuck = (
        np.where(d.values["visible"] @ np.array([1, 1, 1, -1, -1, -1.0]) > 0, 1, 0) for d in (found, alone)
    )
    report = mode_report(labels, [1 - share, share])
    # 300 chains, each mean over 60 draws: a t-test of the share, false-alarm rate 1e-4
    means = labels.mean(axis=1)
    assert stats.ttest_1samp(means, share).pvalue > 1e-4
    assert report.switch_rate > max(0.05, 20 * mode_report(stuck).switch_rate)
    last = found.values["visible"][:, -1] @ 2 ** np.arange(6)[::-1]
    likely = p > 5 / 300
    counts = np.bincount(last.astype(int), minlength=64)
    observed = np.append(counts[likely], counts[~likely].sum())
    assert stats.chisquare(observed, 300 * np.append(p[likely], p[~likely].sum())).pvalue > 1e-4


@pytest.mark.spec("INF-27", "INF-25")
def test_tempered_blocks_mix_joint_energies_row_by_row():
    """Conditionals against the table of the mixed joint, for two and three layers, with and without a base."""
    for model in (ToyRBM.random(2, 2, seed=0), ToyDBM.random((1, 2, 1), seed=1)):
        base = model.base(np.full(model.sizes[model.blocks[0]], 0.3))
        table = all_states(4)
        cut = model.sizes[model.blocks[0]]
        state = {model.blocks[0]: table[:, :cut], model.blocks[1]: table[:, cut:]}
        for beta, ground in itertools.product((0.0, 0.4, 1.0), (None, base)):
            e = beta * model.joint_energy(state)
            e = e if ground is None else e + (1 - beta) * ground.joint_energy(state)
            cold = TemperedBlocks(model, np.full(16, beta), ground)
            assert cold.joint_energy(state) == pytest.approx(e, abs=1e-12)
            p = boltzmann(e)
            for block in model.blocks:
                rest = next(name for name in model.blocks if name != block)
                for row in range(16):
                    same = (state[rest] == state[rest][row]).all(axis=1)
                    wanted = p[same] @ state[block][same] / p[same].sum()
                    got = cold.conditional(block, state).mean[row]
                    assert got == pytest.approx(wanted, abs=1e-12)


@pytest.mark.spec("INF-27")
@pytest.mark.parametrize("mover", [MetropolisHastings(RandomWalk(1.5)), HMC(0.4, 5)])
@pytest.mark.parametrize("base", [None, lambda x: -0.5 * (x * x).sum(-1) / 16])
def test_all_levels_stay_as_they_are(mover, base):
    """Exact draws of a normal at every level, moved and swapped: each level stays normal (KS and squares, 1e-4)."""
    betas, n = (1.0, 0.5, 0.2), 8_000
    precision = np.array([b + (0 if base is None else (1 - b) / 16) for b in betas])
    z = Noise(1, "exact").normal((n, 3, 2), like=np.empty(0)) / np.sqrt(precision)[:, None]
    kernel = ParallelTempering(betas, mover, base, step_sizes=(0.5, 0.7, 1.0))
    state = kernel.init({"slots": {"x": z}}, lambda x: -0.5 * (x * x).sum(-1))
    with recording():
        for t in range(3):
            state, _ = kernel.step(state, Noise(2, "moves").at(t))
    x = kernel.slots(state)["x"] * np.sqrt(precision)[:, None]
    for level, column in itertools.product(range(3), range(2)):
        assert stats.kstest(x[:, level, column], "norm").pvalue > 1e-4 / 6
        # in pairs with where the exact draws were, squares see small errors
    assert (abs((x**2).mean(axis=0) - 1) < stats.norm.isf(1e-4 / 12) * np.sqrt(2 / n)).all()
    assert 0.2 < kernel.swap_rates(state).min() < 0.99


@pytest.mark.spec("INF-27")
@pytest.mark.parametrize("mover", ["metropolis", "hmc"])
def test_a_mixture_is_crossed_and_its_moments_come_out(mover):
    """From one mode, 10 standard deviations from the other: plain chains hardly ever cross, the tempered do (1e-4)."""
    target, start = SeparatedModes(10.0), np.full(2, -10 / 8**0.5)
    kernel = {"metropolis": MetropolisHastings(RandomWalk(1.0)), "hmc": HMC(0.3, 5)}[mover]
    settings = {"start": start, "chains": 60, "draws": 200, "burn_in": 150, "random_state": 3}
    hot = gnomon.sample_chain(target, ParallelTempering(6, kernel), **settings)
    plain = gnomon.sample_chain(target, kernel, adapt=None, **settings)
    crossed, stuck = (mode_report(target.label(d.draws), [0.5, 0.5]) for d in (hot, plain))
    assert stuck.switch_rate == 0 and stuck.occupancy_error == 0.5
    assert crossed.switch_rate > 0.02
    limit = stats.norm.isf(1e-4 / 8)
    means = hot.draws.mean(axis=1)
    assert (abs(means.mean(axis=0)) < limit * means.std(axis=0, ddof=1) / np.sqrt(60)).all()
    m = 10 / 8**0.5
    for product, wanted in (((0, 0), 1 + m * m), ((1, 1), 1 + m * m), ((0, 1), m * m)):
        each = (hot.draws[..., product[0]] * hot.draws[..., product[1]]).mean(axis=1)
        assert abs(each.mean() - wanted) < limit * each.std(ddof=1) / np.sqrt(60)


@pytest.mark.spec("INF-27")
def test_books_of_replicas_and_round_trips():
    """Against a plain recount from the history of replicas; trips are counted from the cold end and back."""
    kernel = ParallelTempering([1.0, 0.8, 0.6, 0.5], MetropolisHastings(RandomWalk(1.0)))
    state = kernel.init(np.zeros((5, 1)), lambda x: -0.5 * (x * x).sum(-1))
    history = [kernel.replicas(state)]
    for t in range(200):
        state, _ = kernel.step(state, Noise(0, "books").at(t))
        history.append(kernel.replicas(state))
        assert np.array_equal(np.sort(history[-1], axis=1), np.tile(np.arange(4), (5, 1)))
    history = np.stack(history)
    for chain, replica in itertools.product(range(5), range(4)):
        slots = np.argmax(history[:, chain] == replica, axis=1)
        ends = [s for s in slots if s in (0, 3)]
        visits = [key for key, _ in itertools.groupby(ends)]
        visits = visits[visits.index(0) :] if 0 in visits else []
        assert kernel.round_trips(state)[chain, replica] == max(sum(1 for s in visits if s == 0) - 1, 0)
    assert kernel.round_trips(state).sum() > 20


def test_states_go_with_their_replicas_through_moves_that_stay():
    """Nothing but swaps: each replica keeps its own position whatever slot it stands in."""
    places = Noise(0, "places").normal((50, 4, 2), like=np.empty(0))
    kernel = ParallelTempering([1.0, 0.8, 0.5, 0.3], MetropolisHastings(lambda x, noise: (x, 0.0)))
    state = kernel.init({"slots": {"x": places}}, lambda x: -0.5 * (x * x).sum(-1))
    for t in range(20):
        state, _ = kernel.step(state, Noise(0, "swaps").at(t))
    replica = kernel.replicas(state)
    assert np.array_equal(kernel.slots(state)["x"], places[np.arange(50)[:, None], replica])
    assert (replica != np.arange(4)).mean() > 0.4
    assert np.allclose(state["log_p"], -0.5 * (kernel.slots(state)["x"] ** 2).sum(-1), rtol=0, atol=1e-14)


def test_all_levels_may_be_kept_and_give_the_normalizer():
    """Thermodynamic integration over kept energies: log Z_1 - log Z_0 of a quadratic energy, within 4 errors."""
    betas = np.linspace(1.0, 0.0, 9)

    def target(x):
        return -0.5 * (x * x).sum(-1) / 0.04

    def base(x):
        return -0.5 * (x * x).sum(-1)

    kernel = ParallelTempering(betas, HMC(0.3, 4), base, keep="all")
    found = gnomon.sample_chain(target, kernel, start=2, chains=20, draws=250, burn_in=150, random_state=0)
    assert found.values["x"].shape == (20, 250, 9, 2)
    adapted = np.array(found.kernel.betas)
    means = found.values["log_ratio"].mean(axis=1)  # d log Z / d beta at each level
    exact = 2 * -0.5 * 24 / (1 + 24 * adapted)
    error = means.std(axis=0, ddof=1) / np.sqrt(20)
    assert (abs(means.mean(axis=0) - exact) < 4.5 * error).all()


@pytest.mark.spec("INF-27")
@pytest.mark.parametrize("name", ["density", "blocks"])
def test_sample_chain_saves_and_goes_on_bitwise(name):
    target = SeparatedModes(4.0) if name == "density" else ToyRBM.random(4, 3, seed=0)
    settings = {"start": 2 if name == "density" else None, "chains": 6, "burn_in": 60, "random_state": 5}
    whole = gnomon.sample_chain(target, "tempering", draws=40, **settings)
    part = gnomon.sample_chain(target, "tempering", draws=25, **settings)
    arrays, facts = part.save()
    rest = gnomon.sample_chain(target, "tempering", draws=15, resume=(arrays, facts))
    for key, values in whole.values.items():
        assert np.array_equal(np.concatenate([part.values[key], rest.values[key]], axis=1), values)
    assert rest.kernel == whole.kernel
    assert whole.kernel.betas != ParallelTempering().betas
    ours, theirs = (d.kernel.swap_rates(d.walk.state) for d in (whole, rest))
    assert np.array_equal(ours, theirs)


def test_chains_do_not_depend_on_their_number_nor_on_where_they_run():
    kernel = ParallelTempering([1.0, 0.5], MetropolisHastings(RandomWalk(1.0)))
    x = Noise(0, "start").normal((8, 3), like=np.empty(0))
    whole, part = (kernel.init(rows, SeparatedModes3()) for rows in (x, x[5:]))
    for t in range(5):
        whole, _ = kernel.step(whole, Noise(1, "moves").at(t))
        part, _ = kernel.step(part, Noise(1, "moves").at(t).rows(np.arange(5, 8)))
    assert np.array_equal(whole["slot/x"][5:], part["slot/x"])


class SeparatedModes3:
    def energy(self, x):
        return 0.5 * (x * x).sum(-1)


def test_torch_chains_are_those_of_numpy():
    kernel = ParallelTempering([1.0, 0.5, 0.2], HMC(0.3, 3))
    target = SeparatedModes(3.0)
    ours = kernel.init(np.ones((5, 2)), target)
    theirs = kernel.init(torch.ones(5, 2, dtype=torch.float64), target)
    for t in range(5):
        ours, theirs = (kernel.step(s, Noise(0, "x").at(t))[0] for s in (ours, theirs))
    assert isinstance(kernel.position(theirs)["x"], torch.Tensor)
    assert np.allclose(kernel.slots(theirs)["x"].numpy(), kernel.slots(ours)["x"], rtol=0, atol=1e-12)


def test_torch_blocks_are_those_of_numpy():
    model = ToyRBM.random(5, 3, seed=2)
    tensors = model.astype(torch.from_numpy)
    settings = {"chains": 6, "draws": 10, "burn_in": 30, "random_state": 0}
    for base in (False, True):
        ours, theirs = (
            gnomon.sample_chain(m, ParallelTempering(3, base=m.base() if base else None), **settings)
            for m in (model, tensors)
        )
        assert np.array_equal(ours.values["visible"], theirs.values["visible"])
        assert ours.kernel.betas == pytest.approx(theirs.kernel.betas, abs=1e-12)
        assert isinstance(theirs.walk.state["slot/visible"], torch.Tensor)


@pytest.mark.parametrize("based", [False, True])
def test_a_step_asks_for_two_densities_and_what_is_kept_is_right(based):
    asked = []

    def target(x):
        asked.append(len(x))
        return -0.5 * (x * x).sum(-1)

    base = (lambda x: -0.125 * (x * x).sum(-1)) if based else None
    kernel = ParallelTempering([1.0, 0.5, 0.2], MetropolisHastings(RandomWalk(1.0)), base)
    state = kernel.init(np.ones((4, 2)), target)
    asked.clear()
    for t in range(6):
        state, _ = kernel.step(state, Noise(0, "asked").at(t))
    assert asked == [12] * 12
    x = kernel.slots(state)["x"]
    assert np.array_equal(state["log_p"], -0.5 * (x * x).sum(-1))
    assert np.array_equal(state["log_p0"], -0.125 * (x * x).sum(-1) if based else 0 * state["log_p"])


def test_other_movers_and_wrong_use():
    model = ToyRBM.random(3, 2, seed=0)
    found = gnomon.sample_chain(
        model, ParallelTempering(3, SingleSite()), start=3, chains=4, draws=5, burn_in=30, random_state=0
    )
    assert set(np.unique(found.draws)) <= {0.0, 1.0} and found.draws.shape == (4, 5, 3)
    with pytest.raises(UserValueError, match=r"betas must begin at 1, the target, got 0\.5"):
        ParallelTempering([0.5, 0.1])
    with pytest.raises(
        UserValueError, match=r"betas must fall strictly and stay at least 0, got 0\.1 then 0\.2 \(betas, entry 2\)"
    ):
        ParallelTempering([1.0, 0.1, 0.2])
    with pytest.raises(UserValueError, match="n must be at least 2, got 1"):
        ParallelTempering(1)
    with pytest.raises(UserValueError, match="keep must be cold or all, got 'hot'"):
        ParallelTempering(keep="hot")
    with pytest.raises(UserValueError, match="step_sizes must be 3, one per level, got 1"):
        ParallelTempering(3, step_sizes=(0.1,))
    with pytest.raises(UserTypeError, match="Conditionals has no joint energy"):
        ParallelTempering(3, Gibbs()).init({"a": np.zeros((2, 1))}, Conditionals({"a": lambda s: None}))
    with pytest.raises(
        UserValueError, match=r"the log density must be finite at the start, got -inf at .*the density is positive"
    ):
        ParallelTempering(3, MetropolisHastings()).init(np.full((2, 1), 9.0), ladder_log_p)
    with pytest.raises(UserValueError, match=r"start must have 3 levels on axis 1, got \['x'\]"):
        ParallelTempering(3, MetropolisHastings()).init({"slots": {"x": np.zeros((2, 2, 1))}}, ladder_log_p)
