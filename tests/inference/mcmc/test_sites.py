"""Single-site Gibbs: the kernel as measured by its thresholds, against tables of the joint; grids, clamps, colors."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import sparse, stats

from gnomon.errors import UserValueError
from gnomon.inference.mcmc.chains import detailed_balance_error, invariance_error
from gnomon.inference.mcmc.diagnostics import integrated_time, summarize
from gnomon.inference.mcmc.gibbs import joint_states, kernel_matrix
from gnomon.inference.mcmc.sampling import sample_chain
from gnomon.inference.mcmc.sites import PairwiseUnits, SingleSite
from gnomon.numeric.noise import recording
from oracles.binary import Joint, all_states
from oracles.scripted import Scripted

KNOWN_U = np.array([[0, 0.5, -0.3], [0, 0, 0.2], [0, 0, 0]])
KNOWN_B = np.array([0.1, -0.2, 0.3])


def quadratic(u, b):
    """E(x) = -x'U x - b'x, term by term."""
    d = len(b)
    return lambda x: (
        -sum(x[i] * u[i][j] * x[j] for i in range(d) for j in range(d)) - sum(b[i] * x[i] for i in range(d))
    )


def random_units(d, seed):
    rng = np.random.default_rng(seed)
    u, b = rng.normal(size=(d, d)), rng.normal(size=d)  # both triangles and a diagonal
    return PairwiseUnits(u, b), Joint(quadratic(u, b), (d,))


class OnlyEnergy:
    """A model of which nothing but the energy is known, with a term of three units."""

    def energy(self, x):
        return -0.8 * x[:, 0] * x[:, 1] * x[:, 2] + 0.5 * x[:, 0] - 0.9 * x[:, 1] * x[:, 3]


def third_order(x):
    return -0.8 * x[0] * x[1] * x[2] + 0.5 * x[0] - 0.9 * x[1] * x[3]


def probability_of_one(mover, target, unit, states):
    """Where the outcome flips as the uniform number grows, by bisection, for every state at once."""
    low, high = np.zeros(len(states)), np.ones(len(states))
    state = mover.init(states, target)
    for _ in range(54):
        middle = (low + high) / 2
        on = mover.step(state, Scripted(uniform=middle[:, None]))[0]["x"][:, unit] == 1
        low, high = np.where(on, middle, low), np.where(on, high, middle)
    return (low + high) / 2


def update_matrix(target, unit, d):
    states = all_states(d)
    p, place = probability_of_one(SingleSite(order=(unit,)), target, unit, states), 2 ** (d - 1 - unit)
    matrix, now = np.zeros((2**d, 2**d)), np.arange(2**d)
    off = now - place * states[:, unit].astype(int)
    matrix[off + place, now], matrix[off, now] = p, 1 - p
    return matrix


def cases():
    yield pytest.param(*random_units(3, 0), id="3 units")
    yield pytest.param(*random_units(4, 1), id="4 units")
    yield pytest.param(OnlyEnergy(), Joint(third_order, (4,)), id="any energy")


@pytest.mark.spec("INF-18", "GEN-003")
@pytest.mark.parametrize(("target", "truth"), list(cases()))
def test_each_update_is_the_conditional_of_the_joint(target, truth):
    d = truth.sizes[0]
    sweep = np.eye(2**d)
    for unit in range(d):
        update = update_matrix(target, unit, d)
        assert np.allclose(update, truth.update_kernel([unit]), rtol=0, atol=1e-13)
        assert invariance_error(update, truth.p) < 1e-12
        assert detailed_balance_error(update, truth.p) < 1e-12
        sweep = update @ sweep
    assert invariance_error(sweep, truth.p) < 1e-12
    assert detailed_balance_error(sweep, truth.p) > 1e-6  # invariant, not reversible
    mean = sum(update_matrix(target, unit, d) for unit in range(d)) / d
    assert detailed_balance_error(mean, truth.p) < 1e-12  # one update of a random scan is


@pytest.mark.spec("INF-18")
@pytest.mark.parametrize("scan", ["systematic", "random"])
def test_a_sweep_takes_its_units_in_turn(scan):
    """One number per update; with the units of a random scan told, each chain follows its own."""
    target, truth = random_units(3, 2)
    states = all_states(3)
    sites = np.array([[0, 1, 2]] * 8) if scan == "systematic" else np.random.default_rng(0).integers(3, size=(8, 3))
    u = np.random.default_rng(1).uniform(size=(8, 3))
    state = SingleSite(scan).init(states, target)
    after, info = SingleSite(scan).step(state, Scripted({"scan": Scripted(integers=sites)}, uniform=u))
    for c in range(8):
        x = states[c].copy()
        for k, unit in enumerate(sites[c]):
            up, down = x.copy(), x.copy()
            up[unit], down[unit] = 1, 0
            energies = [quadratic_energy(target, one) for one in (up, down)]
            x[unit] = float(u[c, k] < 1 / (1 + math.exp(energies[0] - energies[1])))
        assert np.array_equal(after["x"][c], x)
        assert info["changed"][c] == np.mean(x != states[c])
    assert truth.sizes == (3,)


def quadratic_energy(target, x):
    pairs, d = target.pairs.toarray(), target.d
    return -sum(target.bias * x) - sum(pairs[i, j] * x[i] * x[j] for i in range(d) for j in range(i + 1, d))


@pytest.mark.spec("GEN-003")
@pytest.mark.parametrize("scan", ["systematic", "random"])
def test_known_means_of_three_units(scan):
    units = PairwiseUnits(KNOWN_U, KNOWN_B)
    assert math.log(np.exp(-units.energy(all_states(3))).sum()) == pytest.approx(2.306849, abs=5e-7)
    found = sample_chain(units, SingleSite(scan), chains=16, draws=2500, burn_in=20, random_state=1)
    summary = summarize(np.concatenate([found.draws, found.draws[..., :1] * found.draws[..., 1:2]], axis=2))
    z = (summary.columns["mean"] - [0.550078, 0.545920, 0.560306, 0.329984]) / summary.columns["mcse"]
    assert np.abs(z).max() < 4
    assert summary.columns["mcse"].max() < 0.005


def grid(n, coupling):
    """0/1 units on an n x n grid whose spins are coupled: E = -J sum s_i s_j, with s = 2x - 1."""
    u = np.zeros((n * n, n * n))
    for i, j in itertools.product(range(n), repeat=2):
        for k, m in ((i + 1, j), (i, j + 1)):
            if k < n and m < n:
                u[n * i + j, n * k + m] = 4 * coupling
    return u, -(u + u.T).sum(axis=1) / 2


@pytest.mark.spec("INF-18")
@pytest.mark.parametrize("scan", ["systematic", "random", "colored"])
def test_moments_of_a_grid_of_spins(scan):
    """3 x 3, J = 0.3, by enumeration: nearest, second and opposite correlations, and the law of the magnetization."""
    u, b = grid(3, 0.3)
    spins = 2 * all_states(9) - 1
    log_p = 0.3 * sum(spins[:, i] * spins[:, j] for i, j in np.argwhere(u > 0))
    p = np.exp(log_p) / np.exp(log_p).sum()
    found = sample_chain(PairwiseUnits(u, b), SingleSite(scan), chains=32, draws=1500, burn_in=100, random_state=2)
    x = 2 * found.draws - 1
    pairs = [(0, 1), (0, 4), (0, 8), (4, 5)]
    columns = [x[..., i] * x[..., j] for i, j in pairs] + [x[..., 4], (x.sum(-1) ** 2)]
    exact = [p @ (spins[:, i] * spins[:, j]) for i, j in pairs] + [0.0, p @ spins.sum(1) ** 2]
    summary = summarize(np.stack(columns, axis=-1))
    assert (np.abs(summary.columns["mean"] - exact) < 4 * summary.columns["mcse"]).all()
    assert summary.columns["mcse"][:4].max() < 0.01
    assert np.mean(integrated_time(x[..., 4])) > 1  # neighbors remember: worth reporting


@pytest.mark.spec("GEN-003", "INF-18")
@pytest.mark.parametrize("target", [random_units(4, 3)[0], OnlyEnergy()], ids=["pairwise", "any energy"])
def test_clamped_units_are_skipped_and_the_rest_follows_the_conditional_law(target):
    truth = random_units(4, 3)[1] if isinstance(target, PairwiseUnits) else Joint(third_order, (4,))
    mover, n = SingleSite(clamp=(np.array([0, 1, 0, 1]), np.array([0, 1, 0, 1]))), 10_000
    found = sample_chain(target, mover, chains=n, start=4, draws=1, burn_in=25, random_state=3)
    x = found.draws[:, 0]
    inside = truth.clamped([1, 3], [1, 1])
    assert (x[:, [1, 3]] == 1).all()
    counts = np.bincount((x @ [8, 4, 2, 1]).astype(int), minlength=16)[inside]
    assert stats.chisquare(counts, n * truth.p[inside] / truth.p[inside].sum()).pvalue > 1e-4


@pytest.mark.spec("REP-148", "GEN-003")
def test_blocks_by_color():
    """No two units of a color are coupled; block updates by color leave the law as it is."""
    u, b = grid(3, 0.4)
    u[0, 4] = 0.9  # a diagonal: two colors no longer suffice
    units = PairwiseUnits(sparse.csr_array(u), b)
    colors = units.colors()
    assert sorted(np.concatenate(colors)) == list(range(9))
    assert len(colors) == 3
    assert all(units.pairs.toarray()[np.ix_(c, c)].max() == 0 for c in colors)
    assert len(PairwiseUnits(*grid(10, 1.0)).colors()) == 2  # a checkerboard
    assert len(PairwiseUnits(np.triu(np.ones((5, 5)), 1)).colors()) == 5
    small = PairwiseUnits(
        np.array([[0.3, 1.0, 0, 0], [0, 0, -0.7, 0], [0, 0, 0, 0.4], [0, 0, 0, 0]]), [0.1, 0, -0.2, 0.5]
    )
    blocks = small.colored()
    states = blocks.join({block: blocks_of(blocks, block) for block in blocks.blocks})
    p = np.exp(-small.energy(states))
    for block in blocks.blocks:
        assert invariance_error(kernel_matrix(blocks, (block,)), p / p.sum()) < 1e-12
    truth = Joint(quadratic([[0.3, 1.0, 0, 0], [0, 0, -0.7, 0], [0, 0, 0, 0.4], [0] * 4], [0.1, 0, -0.2, 0.5]), (4,))
    order = (states @ [8, 4, 2, 1]).astype(int)
    assert np.allclose(p / p.sum(), truth.p[order], rtol=0, atol=1e-14)
    found = sample_chain(units, SingleSite(), chains=20, draws=800, burn_in=100, random_state=4).summary()
    other = sample_chain(units.colored(), "gibbs", chains=20, draws=800, burn_in=100, random_state=5)
    joined = summarize(
        np.stack([units.colored().join({k: v[:, t] for k, v in other.values.items()}) for t in range(800)], 1)
    )
    error = np.hypot(found.columns["mcse"], joined.columns["mcse"])
    assert np.abs((found.columns["mean"] - joined.columns["mean"]) / error).max() < 4.5


def blocks_of(model, block):
    return joint_states(model)[block]


@pytest.mark.spec("INF-18")
def test_certain_units_do_not_saturate():
    """A chance of 1e-12 is met as often as it should be, not never or always: the threshold is in logits."""
    units = PairwiseUnits(np.zeros((1, 1)), [-27.631])
    p = probability_of_one(SingleSite(), units, 0, np.zeros((1, 1)))
    assert p[0] == pytest.approx(1 / (1 + math.exp(27.631)), rel=1e-3, abs=0)


def test_torch_models_spins_and_mistakes():
    class Spins(torch.nn.Module):
        def energy(self, x):
            return -1.0 * x[:, 0] * x[:, 1]

        def state(self):
            return {"w": torch.ones(1, dtype=torch.float64)}

        def load(self, state):
            raise NotImplementedError

    found = sample_chain(Spins(), SingleSite(values=(-1, 1)), chains=50, start=2, draws=200, burn_in=5, random_state=6)
    assert set(np.unique(found.draws)) == {-1.0, 1.0}
    product = summarize(found.draws[..., 0] * found.draws[..., 1])
    assert abs(product.columns["mean"][0] - math.tanh(1)) < 4 * product.columns["mcse"][0]
    with recording():
        sample_chain(PairwiseUnits(KNOWN_U), SingleSite("random"), chains=3, draws=3, burn_in=2, random_state=7)
    with pytest.raises(UserValueError, match=r"unit 1 must be 0\.0 or 1\.0, got 0\.5 \(start, chain 0\)"):
        SingleSite().init(np.array([[0, 0.5, 1]]), PairwiseUnits(KNOWN_U))
    with pytest.raises(UserValueError, match="pass the number of units"):
        sample_chain(OnlyEnergy(), "sites")
    with pytest.raises(UserValueError, match=r"start must have 3 units, got shape \(2,\)"):
        sample_chain(PairwiseUnits(KNOWN_U), "sites", start=2)
    with pytest.raises(UserValueError, match="square"):
        PairwiseUnits(np.zeros((2, 3)))
    for bias in (np.zeros(2), [0.0, np.nan, 0.0]):
        with pytest.raises(
            UserValueError, match=r"bias must be 3 finite numbers, one per unit, got an array of shape \("
        ):
            PairwiseUnits(KNOWN_U, bias)
