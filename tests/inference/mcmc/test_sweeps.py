"""Gibbs sampling as a kernel: given conditionals, blocks, scans and clamps, against tables and known processes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from gnomon.distributions.real import Normal
from gnomon.errors import UserValueError
from gnomon.inference.mcmc.chains import detailed_balance_error, invariance_error
from gnomon.inference.mcmc.diagnostics import autocorrelation, integrated_time, summarize
from gnomon.inference.mcmc.gibbs import block_kernel, joint_states, kernel_matrix
from gnomon.inference.mcmc.sampling import sample_chain
from gnomon.inference.mcmc.stationary import stationary
from gnomon.inference.mcmc.sweeps import Conditionals, Gibbs
from gnomon.numeric.noise import Noise, recording
from oracles.binary import Joint, marginal_kernel, rbm_energy
from oracles.scripted import Scripted
from oracles.toys import ToyRBM, ToyTriangle, tiny_rbm

BIAS, COUPLING = np.array([0.4, -0.3, 0.2]), np.array([[0, 0.9, -1.1], [0.9, 0, 0.7], [-1.1, 0.7, 0]])


def triangle_joint():
    pairs = list(itertools.combinations(range(3), 2))

    def energy(*x):
        x = np.concatenate(x)
        return -sum(BIAS[i] * x[i] for i in range(3)) - sum(COUPLING[i, j] * x[i] * x[j] for i, j in pairs)

    return Joint(energy, (1, 1, 1))


class Choice:
    """Draws from a table of P(1 | other)."""

    def __init__(self, p):
        self.p = p

    def sample(self, noise, draw):
        return (noise.uniform(self.p.shape, draw, like=self.p) < self.p) + 0.0


def normal_pair(rho):
    sd = math.sqrt(1 - rho * rho)
    return Conditionals({"a": lambda s: Normal(rho * s["b"], sd), "b": lambda s: Normal(rho * s["a"], sd)})


@pytest.mark.spec("BAY-82")
@pytest.mark.parametrize("rho", [0.5, 0.9])
def test_a_normal_pair_is_an_autoregression_with_rho_squared(rho):
    start = {"a": np.zeros((1, 32)), "b": np.zeros((1, 32))}
    start = {name: np.repeat(x, 4, axis=0) for name, x in start.items()}
    found = sample_chain(normal_pair(rho), "gibbs", chains=4, start=start, draws=3000, burn_in=50, random_state=1)
    for name in ("a", "b"):
        x = found.values[name]
        lags = autocorrelation(x).mean(axis=(0, 2))[1:4]
        assert np.allclose(lags, rho ** (2 * np.arange(1, 4)), rtol=0, atol=0.012)
        assert np.mean(integrated_time(x)) == pytest.approx((1 + rho**2) / (1 - rho**2), rel=0.06)
        summary, squares = summarize(x), summarize(x**2)
        # 32 coordinates each: no z-score of independent chains beyond 4.5 (1e-3 of false alarms)
        assert np.abs(summary.columns["mean"] / summary.columns["mcse"]).max() < 4.5
        assert np.abs((squares.columns["mean"] - 1) / squares.columns["mcse"]).max() < 4.5
    product = summarize(found.values["a"] * found.values["b"])
    assert np.abs((product.columns["mean"] - rho) / product.columns["mcse"]).max() < 4.5


@pytest.mark.spec("BAY-82")
@pytest.mark.parametrize("scan", ["systematic", "random"])
def test_two_discrete_variables_settle_on_their_joint(scan):
    """The kernel is measured, one uniform number after the other, and has the table as its stationary law."""
    table = np.array([[0.1, 0.4], [0.3, 0.2]])  # table[a, b]
    given_b, given_a = table[1] / table.sum(axis=0), table[:, 1] / table.sum(axis=1)
    pair = Conditionals({
        "a": lambda s: Choice(given_b[s["b"].astype(int)]), "b": lambda s: Choice(given_a[s["a"].astype(int)]),
    })  # fmt: skip
    states = np.array(list(itertools.product([0.0, 1.0], repeat=2)))
    kernel = Gibbs(scan=scan)
    cut = np.unique(np.concatenate([[0, 1], given_a, given_b]))
    middle, weight = (cut[1:] + cut[:-1]) / 2, np.diff(cut)
    matrix = np.zeros((4, 4))
    choices = [(0, 1)] if scan == "systematic" else list(itertools.product([0, 1], repeat=2))
    for chosen, (i, u), (j, v) in itertools.product(choices, enumerate(middle), enumerate(middle)):
        numbers = {chosen[0]: u, 2 + chosen[1]: v} if scan == "random" else {0: u, 1: v}
        scan_noise = Scripted(integers=np.array(chosen))
        noise = Scripted({"scan": scan_noise}, uniform=lambda draw, numbers=numbers: numbers.get(draw, 0.5))
        state = kernel.init({"a": states[:, :1], "b": states[:, 1:]}, pair)
        after = kernel.step(state, noise)[0]
        to = (2 * after["a"] + after["b"]).astype(int)[:, 0]
        matrix[to, np.arange(4)] += weight[i] * weight[j] / len(choices)
    law = table.ravel()
    mass = {0: np.tile(table.sum(axis=0), 2), 1: np.repeat(table.sum(axis=1), 2)}  # of all that share a state's rest
    redrawn = [law[:, None] * (states[:, None, 1 - k] == states[None, :, 1 - k]) / mass[k] for k in (0, 1)]
    half = (redrawn[0] + redrawn[1]) / 2
    expected = redrawn[1] @ redrawn[0] if scan == "systematic" else half @ half
    assert np.allclose(matrix, expected, rtol=0, atol=1e-14)
    assert invariance_error(matrix, table.ravel()) < 1e-12
    assert np.allclose(stationary(matrix), table.ravel(), rtol=0, atol=1e-12)
    if scan == "random":
        assert detailed_balance_error(matrix, table.ravel()) < 1e-12
    else:
        assert detailed_balance_error(matrix, table.ravel()) > 1e-3


@pytest.mark.spec("REP-148")
def test_conditionals_and_stationary_law_of_a_graphical_model():
    model, truth = ToyTriangle(BIAS, COUPLING), triangle_joint()
    table = joint_states(model)
    for k, unit in enumerate(model.blocks):
        on = truth.states[:, k] == 1
        rest = [tuple(np.delete(s, k)) for s in truth.states]
        expected = [
            sum(truth.p[on & [r == key for r in rest]]) / sum(truth.p[[r == key for r in rest]]) for key in rest
        ]
        assert np.allclose(model.conditional(unit, table).mean[:, 0], expected, rtol=0, atol=1e-12)
    assert np.allclose(stationary(kernel_matrix(model)), truth.p, rtol=0, atol=1e-10)
    clamp = {"b": (np.ones(1), None)}
    inside = truth.clamped([1], [1])
    conditional = truth.p[inside] / truth.p[inside].sum()
    assert np.allclose(stationary(kernel_matrix(model, clamp=clamp)), conditional, rtol=0, atol=1e-10)


@pytest.mark.spec("REP-148")
@pytest.mark.parametrize("scan", ["systematic", "random"])
@pytest.mark.parametrize("held", [False, True])
def test_frequencies_of_a_graphical_model(scan, held):
    """Pearson's statistic over the 8 joint states after 30 sweeps of 20,000 chains; false alarms 1e-4."""
    model, truth, n = ToyTriangle(BIAS, COUPLING), triangle_joint(), 20_000
    clamp = {"b": (np.ones((n, 1)), None)} if held else None
    found = sample_chain(
        model, Gibbs(scan=scan, clamp=clamp), chains=n, draws=1, burn_in=30, random_state=3, start=None
    )  # fmt: skip
    number = sum(4 // 2**k * found.values[unit][:, 0, 0] for k, unit in enumerate(model.blocks)).astype(int)
    inside = truth.clamped([1], [1]) if held else np.arange(8)
    counts = np.bincount(number, minlength=8)
    assert counts.sum() == counts[inside].sum()
    expected = n * truth.p[inside] / truth.p[inside].sum()
    assert stats.chisquare(counts[inside], expected).pvalue > 1e-4


@pytest.mark.spec("REP-159")
def test_block_gibbs_of_a_restricted_boltzmann_machine():
    model = tiny_rbm()
    truth = Joint(rbm_energy(model.W, model.b, model.c), (3, 2))
    law = truth.marginal(0)
    assert np.allclose(stationary(block_kernel(model, "visible")), law, rtol=0, atol=1e-12)
    assert np.allclose(marginal_kernel(truth, 0) @ law, law, rtol=0, atol=1e-12)
    found = sample_chain(model, "gibbs", chains=20, draws=1500, burn_in=50, random_state=4)
    summary = summarize(found.values["visible"])
    expected = truth.expectation(lambda s: s)[:3]
    assert (np.abs(summary.columns["mean"] - expected) < 4 * summary.columns["mcse"]).all()
    pairs = summarize(found.values["visible"][..., [0, 0, 1]] * found.values["visible"][..., [1, 2, 2]])
    expected = truth.expectation(lambda s: s[[0, 0, 1]] * s[[1, 2, 2]])
    assert (np.abs(pairs.columns["mean"] - expected) < 4 * pairs.columns["mcse"]).all()


@pytest.mark.spec("REP-159")
def test_without_coupling_one_step_gives_independent_draws():
    model = ToyRBM(np.zeros((3, 2)), np.array([1.0, -0.5, 0.0]), np.array([0.3, -2.0]))
    one = block_kernel(model, "visible")
    assert np.allclose(one, one[:, :1], rtol=0, atol=1e-15)
    found = sample_chain(model, "gibbs", chains=4, draws=4000, burn_in=1, random_state=5)
    rho = autocorrelation(found.values["visible"])[:, 1:4].ravel()
    assert np.abs(rho).max() < 4.5 / math.sqrt(4000)  # 36 lags; false alarms 3e-4


def test_scans_use_no_address_twice_and_refuse_mistakes():
    model = ToyTriangle(BIAS, COUPLING)
    with recording():
        sample_chain(model, Gibbs("random"), chains=5, draws=4, burn_in=3, random_state=6)
    with pytest.raises(UserValueError, match=r"scan must be .* got 'both'"):
        Gibbs("both")
    with pytest.raises(UserValueError, match="block 'c' has no start"):
        Gibbs().init({"a": np.zeros((2, 1)), "b": np.zeros((2, 1))}, model)
    state = Gibbs().init({name: np.zeros((2, 1)) for name in model.blocks}, model)
    after, info = Gibbs(order=("a",)).step(state, Noise(1, "x").at(0))
    assert np.array_equal(after["b"], state["b"])
    assert np.array_equal(info["changed"], (after["a"] != 0)[:, 0] / 3)
