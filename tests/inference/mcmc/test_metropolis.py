"""Metropolis-Hastings: its matrix by leading the kernel through every case, moments and invariance on the line."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.mcmc.chains import detailed_balance_error, invariance_error
from gnomon.inference.mcmc.density import Density, Tempered, as_density
from gnomon.inference.mcmc.invariance import check_invariance
from gnomon.inference.mcmc.metropolis import Independence, MetropolisHastings, RandomWalk, metropolis_matrix
from gnomon.inference.mcmc.stationary import second_eigenvalue
from gnomon.inference.mcmc.sweeps import Gibbs
from gnomon.numeric.noise import Noise, recording
from oracles.binary import Joint, rbm_energy
from oracles.scripted import LADDER_ENERGY, Scripted, ladder_log_p, ladder_metropolis, walk
from oracles.toys import ToyRBM, tiny_rbm

FALSE_ALARM = 1e-4
LINE = np.arange(5.0)[:, None]
LADDER = np.exp(-LADDER_ENERGY) / np.exp(-LADDER_ENERGY).sum()


def bell(x):
    return -0.5 * (x * x).sum(-1)


def led(kernel, target, *, chances, answers):
    """The matrix of a kernel on the line: for each way the proposal may go, its chance and the kernel's acceptance."""
    matrix = np.zeros((5, 5))
    for chance, u in zip(chances, answers, strict=True):
        noise = Scripted({"accept": Scripted(uniform=0.5)}, uniform=u)
        _, info = kernel.step(kernel.init(LINE, target), noise)
        for j in range(5):
            new, a = int(info["proposed"][j, 0]), chance * info["accept_prob"][j]
            if a > 0:
                matrix[new, j] += a
            matrix[j, j] += chance - a
    return matrix


@pytest.mark.spec("INF-21")
def test_every_case_of_the_ladder_gives_the_matrix_of_the_definition():
    kernel = MetropolisHastings(walk)
    matrix = led(kernel, ladder_log_p, chances=(0.5, 0.5), answers=(0.25, 0.75))
    assert np.allclose(matrix, ladder_metropolis(), rtol=0, atol=1e-15)
    assert detailed_balance_error(matrix, LADDER) < 1e-16
    assert invariance_error(matrix, LADDER) < 1e-15
    assert second_eigenvalue(matrix) == pytest.approx(0.991476, abs=5e-7)
    assert second_eigenvalue(np.linalg.matrix_power(matrix, 4)) == pytest.approx(0.966336, abs=5e-7)


@pytest.mark.spec("INF-21")
def test_an_asymmetric_proposal_needs_its_ratio():
    """Left with chance 0.2, right with 0.8: with the ratio the law stays, without it it does not."""

    def crooked(ratio):
        def propose(x, noise):
            right = noise.uniform(x.shape, 0) >= 0.2
            log_ratio = np.where(right, np.log(0.2 / 0.8), np.log(0.8 / 0.2))[:, 0]
            return x + np.where(right, 1.0, -1.0), log_ratio if ratio else 0.0

        return MetropolisHastings(propose)

    right, wrong = (
        led(crooked(ratio), ladder_log_p, chances=(0.2, 0.8), answers=(0.1, 0.9)) for ratio in (True, False)
    )
    assert detailed_balance_error(right, LADDER) < 1e-16
    assert invariance_error(wrong, LADDER) > 1e-2
    g = np.zeros((5, 5))
    for j in range(5):
        g[max(j - 1, 0), j] += 0.2
        g[min(j + 1, 4), j] += 0.8
    assert np.allclose(metropolis_matrix(g, -LADDER_ENERGY), right, rtol=0, atol=1e-15)


@pytest.mark.spec("INF-21")
def test_a_conditional_as_proposal_is_always_accepted():
    """Two binary units in four states: redrawing one of them from its conditional."""
    p = np.array([0.1, 0.2, 0.3, 0.4])
    conditional = np.zeros((4, 4))
    for j in range(4):
        pair = [j & 1, (j & 1) | 2]  # redraw the first unit
        conditional[pair, j] = p[pair] / p[pair].sum()
    assert np.allclose(metropolis_matrix(conditional, np.log(p)), conditional, rtol=0, atol=1e-15)

    def propose(x, noise):
        new = x.copy()
        low = x[:, 0].astype(int) & 1
        chance = p[low | 2] / (p[low] + p[low | 2])
        new[:, 0] = low + 2 * (noise.uniform((len(x),)) < chance)
        return new, np.log(p[x[:, 0].astype(int)]) - np.log(p[new[:, 0].astype(int)])

    kernel = MetropolisHastings(propose)
    state = kernel.init(np.repeat(np.arange(4.0), 500)[:, None], lambda x: np.log(p)[x[:, 0].astype(int)])
    state, info = kernel.step(state, Noise(0, "gibbs"))
    assert info["accepted"].all()
    assert info["accept_prob"] == pytest.approx(1.0, abs=1e-12)


@pytest.mark.spec("INF-21", "INF-15")
@pytest.mark.parametrize("scale", [0.5, 2.4, np.linspace(0.1, 9, 20_000)])
def test_a_random_walk_leaves_a_normal_invariant(scale):
    """20,000 exact draws, one step; false-alarm rate 1e-4 for each kernel."""
    draws = Noise(1, "exact").normal((20_000, 2), like=np.empty(0))
    kernel = MetropolisHastings(RandomWalk(scale))
    assert check_invariance(kernel, bell, draws, Noise(2, "moves"), false_alarm=FALSE_ALARM).holds


@pytest.mark.spec("INF-15")
def test_autoregression_is_invariant_and_wrong_rules_are_found():
    """x' = a x + sqrt(1 - a^2) e keeps N(0, 1); a wrong noise, an eager and a lazy acceptance do not."""
    draws = Noise(3, "exact").normal((20_000, 1), like=np.empty(0))

    class Autoregression(MetropolisHastings):
        spread = 0.6

        def step(self, state, noise):
            x = 0.8 * state["x"] + self.spread * noise.normal(state["x"].shape, like=state["x"])
            return state.moved(x=x), {}

    class TooWide(Autoregression):
        spread = 0.65

    class Eager(MetropolisHastings):
        """Accepts with the square root of the right probability."""

        def step(self, state, noise):
            hot = MetropolisHastings(self.proposal)
            flat = hot.init(state["x"], lambda x: 0.5 * bell(x))
            moved, info = hot.step(flat, noise)
            return state.moved(x=moved["x"]), info

    for kernel, holds in ((Autoregression(), True), (TooWide(), False), (Eager(RandomWalk(1.0)), False)):
        report = check_invariance(kernel, bell, draws, Noise(4, "moves"), false_alarm=FALSE_ALARM)
        assert report.holds is holds, report.failed
    assert "x[0]^2" in check_invariance(TooWide(), bell, draws, Noise(4, "moves")).failed


@pytest.mark.spec("INF-15")
@pytest.mark.parametrize("off", [0.0, 0.15])
def test_latents_and_observations_keep_their_joint_law(off):
    """Geweke's test: exact pairs (v, h), latents redrawn given v, then v given them; a bias that is off is found."""
    model = tiny_rbm()
    joint = Joint(rbm_energy(model.W, model.b, model.c), (3, 2))
    u = Noise(8, "exact").uniform(40_000)
    rows = joint.states[np.searchsorted(np.cumsum(joint.p)[:-1], u)]
    draws = {"visible": rows[:, :3], "hidden": rows[:, 3:]}
    kernel, wrong = Gibbs(order=("hidden", "visible")), ToyRBM(model.W, model.b, model.c + [0.0, off])
    report = check_invariance(kernel, wrong, draws, Noise(9, "moves"), false_alarm=FALSE_ALARM)
    assert report.holds is (off == 0.0), report.failed
    assert len(report.p_values) == 5 + 5 + 4 + 5
    assert off == 0.0 or "hidden[1]" in report.failed
    only = {"pair": lambda x: x[:, 2] * x[:, 4]}  # blocks stand side by side
    assert len(check_invariance(kernel, model, draws, Noise(9, "moves"), statistics=only).p_values) == 1 + 5


@pytest.mark.spec("INF-15")
def test_a_right_kernel_fails_as_often_as_it_is_said_to():
    """200 checks at a rate of 0.2 over three tests: Bonferroni's bound holds (band of 1e-4) and is not far away."""
    kernel, draws = MetropolisHastings(RandomWalk(1.5)), Noise(10, "exact").normal((200, 200, 1), like=np.empty(0))
    found = [check_invariance(kernel, bell, x, Noise(k, "moves"), false_alarm=0.2) for k, x in enumerate(draws)]
    alarms = sum(not report.holds for report in found)
    assert 0.08 * 200 < alarms <= stats.binom.ppf(1 - 1e-4, 200, 0.2)
    for name in ("x[0]", "x[0]^2"):  # p-values of a right kernel are uniform
        assert stats.kstest([report.p_values[name] for report in found], "uniform").pvalue > 1e-4


@pytest.mark.spec("INF-21")
def test_moments_of_a_normal_by_a_random_walk_from_afar():
    """2,000 independent chains, 300 steps from 10: z-tests of mean and variance, false-alarm rate 2e-4."""
    kernel, n = MetropolisHastings(RandomWalk(2.4)), 2000
    state, noise = kernel.init(np.full((n, 1), 10.0), bell), Noise(5, "walk")
    with recording():
        for t in range(300):
            state, _ = kernel.step(state, noise.at(t))
    x = state["x"][:, 0]
    limit = stats.norm.isf(FALSE_ALARM / 2)
    assert abs(x.mean()) < limit / np.sqrt(n)
    assert abs((x**2).mean() - 1) < limit * np.sqrt(2 / n)


@pytest.mark.spec("INF-21")
def test_an_independence_sampler_corrects_for_its_law():
    """A wide law proposed, a normal kept."""
    wide = Independence(lambda n, noise: 2.0 * noise.normal((n, 1), like=np.empty(0)), lambda x: bell(x / 2.0))
    draws = Noise(6, "exact").normal((20_000, 1), like=np.empty(0))
    assert check_invariance(MetropolisHastings(wide), bell, draws, Noise(7, "moves")).holds
    blind = Independence(wide.sample, lambda x: 0 * x[:, 0])
    assert not check_invariance(MetropolisHastings(blind), bell, draws, Noise(7, "moves")).holds


def test_steps_have_the_covariance_that_was_asked():
    """Root of a covariance in torch and NumPy: same steps; their covariance within 5 standard errors."""
    covariance = np.array([[2.0, 1.2], [1.2, 1.0]])
    walk2 = RandomWalk(0.5, covariance)
    x = np.zeros((40_000, 2))
    new, ratio = walk2(x, Noise(0, "z"))
    assert ratio == 0
    assert np.cov(new.T) == pytest.approx(0.25 * covariance, abs=5 * 0.25 * 2 * np.sqrt(2 / 40_000))
    theirs, _ = walk2(torch.zeros(40_000, 2, dtype=torch.float64), Noise(0, "z"))
    assert np.allclose(theirs.numpy(), new, rtol=0, atol=1e-14)
    flat, _ = RandomWalk(0.5, [4.0, 1.0])(x, Noise(0, "z"))
    plain, _ = RandomWalk(0.5)(x, Noise(0, "z"))
    assert np.allclose(flat, plain * [2.0, 1.0], rtol=0, atol=1e-15)


def test_kinds_are_kept_and_the_same_chain_comes_out():
    kernel = MetropolisHastings(RandomWalk(0.7))
    ours, theirs = kernel.init(np.ones((5, 3)), bell), kernel.init(torch.ones(5, 3, dtype=torch.float64), bell)
    for t in range(4):
        ours, theirs = (kernel.step(s, Noise(0, "x").at(t))[0] for s in (ours, theirs))
    assert isinstance(theirs["x"], torch.Tensor)
    assert np.allclose(theirs["x"].numpy(), ours["x"], rtol=0, atol=1e-13)
    small = kernel.init(np.ones((5, 3), np.float32), bell)
    assert kernel.step(small, Noise(0, "x"))[0]["x"].dtype == np.float32


@pytest.mark.spec("INF-25")
def test_tempering_by_enumeration():
    """Uniform at 0; d log Z / d beta = -E[E], second derivative Var[E] by differences; the mode at large beta."""

    def law(beta):
        log_p = Tempered(ladder_log_p, beta).log_prob(LINE)
        return np.exp(log_p - np.logaddexp.reduce(log_p)), np.logaddexp.reduce(log_p)

    assert law(0.0)[0] == pytest.approx(np.full(5, 0.2), abs=1e-16)
    for beta in (0.3, 1.0, 2.5):
        h = 1e-4
        up, mid, down = (law(beta + k * h)[1] for k in (1, 0, -1))
        p = law(beta)[0]
        mean = p @ LADDER_ENERGY
        assert (up - down) / (2 * h) == pytest.approx(-mean, abs=1e-7)
        assert (up - 2 * mid + down) / h**2 == pytest.approx(p @ (LADDER_ENERGY - mean) ** 2, abs=1e-6)
    assert law(60.0)[0][0] == pytest.approx(1.0, abs=1e-12)
    assert np.isneginf(Tempered(ladder_log_p, 0.0).log_prob(np.array([[5.0], [-1.0]]))).all()
    each = Tempered(ladder_log_p, np.array([0.0, 0.5, 1, 1, 2])).log_prob(LINE)
    assert each == pytest.approx(-LADDER_ENERGY * [0, 0.5, 1, 1, 2], abs=1e-15)
    with pytest.raises(UserValueError, match=r"beta must be finite and at least 0, got -0\.1"):
        Tempered(ladder_log_p, -0.1)


@pytest.mark.spec("INF-25")
def test_a_base_keeps_a_continuous_target_proper():
    """Between N(0, 9) and N(4, 1) at beta: precision and mean mix as natural parameters do."""
    between = Tempered(lambda x: bell(x - 4), 0.3, base=lambda x: bell(x / 3))
    x = np.linspace(-60, 60, 120_001)[:, None]
    p = np.exp(between.log_prob(x))
    mean = (p @ x[:, 0]) / p.sum()
    precision = 0.7 / 9 + 0.3
    assert mean == pytest.approx(0.3 * 4 / precision, abs=1e-9)
    assert (p @ (x[:, 0] - mean) ** 2) / p.sum() == pytest.approx(1 / precision, abs=1e-9)
    value, slope = between.value_and_gradient(x[::6000])
    assert slope[:, 0] == pytest.approx(-precision * (x[::6000, 0] - mean), abs=1e-12)
    assert np.array_equal(value, between.log_prob(x[::6000]))


def _bent(x):
    """A log density of any number of axes, no two of which act alike."""
    flat = x.reshape(len(x), -1)
    return -0.5 * (flat * flat).sum(-1) + (flat[:, 0] * flat[:, -1]) - 0.1 * flat[:, 1] ** 4


@pytest.mark.spec("INF-25")
@pytest.mark.parametrize("shape", [(3,), (2, 2)])
@pytest.mark.parametrize("base", [None, lambda x: -(x * x).reshape(len(x), -1).sum(-1) / 18])
@pytest.mark.parametrize("beta", [0.0, 0.3, 2.0, np.array([0.0, 0.3, 1.0, 2.0])], ids=str)
def test_the_gradient_of_a_tempered_density_by_differences(shape, base, beta):
    """With no base too, of rows of several axes, at one beta for all and at one for each."""
    cold = Tempered(_bent, beta, base)
    x = np.random.default_rng(3).normal(size=(4, *shape))
    value, slope = cold.value_and_gradient(x)
    assert np.array_equal(value, cold.log_prob(x))
    mixed = beta * _bent(x) + (0 if base is None else (1 - beta) * base(x))
    assert value == pytest.approx(mixed, abs=1e-14)
    for place in np.ndindex(shape):
        move = np.zeros((1, *shape))
        move[(0, *place)] = 1e-5
        difference = (cold.log_prob(x + move) - cold.log_prob(x - move)) / 2e-5
        assert slope[(slice(None), *place)] == pytest.approx(difference, abs=1e-8)
    theirs = Tempered(_bent, beta, base).value_and_gradient(torch.from_numpy(x))
    assert theirs[1].numpy() == pytest.approx(slope, abs=1e-15)
    given = Tempered(Density(_bent, lambda x: Density(_bent).value_and_gradient(x)[1]), beta, base)
    assert given.value_and_gradient(x)[1] == pytest.approx(slope, abs=1e-15)


def test_wrong_use_is_named():
    kernel = MetropolisHastings()
    with pytest.raises(
        UserValueError, match=r"the log density must be finite at the start, got -inf at .*the density is positive"
    ):
        kernel.init(np.array([[0.0], [7.0]]), ladder_log_p)
    with pytest.raises(
        UserValueError, match=r"target must return one number per row, \(3,\), got \(3, 2\); sum over the other axes"
    ):
        kernel.init(np.zeros((3, 2)), lambda x: x)
    with pytest.raises(UserValueError, match=r"scale must be finite and positive, got 0\.0"):
        RandomWalk(0.0)
    with pytest.raises(UserValueError, match="covariance must be positive definite; use variances or a covariance"):
        RandomWalk(1.0, [[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(UserTypeError, match="target must be a log density or have energy or log_prob, got a int"):
        as_density(3)
    with pytest.raises(UserTypeError, match=r"no torch gradient|does not take torch tensors"):
        Density(lambda x: np.square(x).sum(-1)).value_and_gradient(np.zeros((2, 2)))


def test_a_density_that_is_not_a_number_is_never_walked_into():
    kernel = MetropolisHastings(RandomWalk(3.0))

    def half(x):
        return np.where(x[:, 0] > 0, np.nan, bell(x))

    state = kernel.init(np.full((500, 1), -1.0), half)
    for t in range(20):
        state, _ = kernel.step(state, Noise(0, "nan").at(t))
    assert (state["x"] <= 0).all() and np.isfinite(state["log_p"]).all()


def test_a_log_ratio_of_another_shape_is_refused():
    """One number per chain: a column of them would be compared with every chain's density."""

    def column(x, noise):
        return x + 0.1, np.zeros((len(x), 1))

    kernel = MetropolisHastings(column)
    state = kernel.init(np.zeros((4, 2)), lambda x: -0.5 * (x * x).sum(-1))
    with pytest.raises(UserValueError, match=r"the log ratio must have shape \(4,\), got \(4, 1\)"):
        kernel.step(state, Noise(0, "x"))
