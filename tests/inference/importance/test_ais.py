"""Annealed importance sampling: every path of the code enumerated, dynamic programming, quadrature."""

from __future__ import annotations

import itertools
import math
import threading
import time

import numpy as np
import pytest
import torch
from scipy.integrate import quad

from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.exact.enumeration import log_partition
from gnomon.inference.importance.ais import _run, ais, annealing_schedule, geometric_path
from gnomon.inference.importance.weights import WeightedSample
from gnomon.inference.mcmc.chains import trajectory_log_weight
from gnomon.inference.mcmc.gibbs import block_kernel
from gnomon.numeric.noise import Noise, recording
from gnomon.numeric.threads import at_most
from oracles.binary import Joint, ais_moments, all_states, marginal_kernel, rbm_energy
from oracles.toys import ToyDBM, ToyRBM, ToyTriangle, tiny_rbm

RELATIVE_VARIANCE = {1: 0.222299, 2: 0.123169, 5: 0.052383, 20: 0.013559, 100: 0.002740}


def moments_by_tables(n):
    """Mean and relative variance of a weight on the tiny machine, from joint tables alone."""
    model = tiny_rbm()
    levels = [
        Joint(rbm_energy(eta * model.W, eta * model.b, eta * model.c), (3, 2)) for eta in np.linspace(0, 1, n + 1)
    ]
    kernels = [marginal_kernel(level, 0) for level in levels[1:-1]]
    return ais_moments([level.log_marginal_mass(0) for level in levels], kernels)


@pytest.mark.spec("INF-63")
@pytest.mark.parametrize("n", [1, 2, 5, 20, 100])
def test_exact_moments_by_dynamic_programming(n):
    mean, variance = moments_by_tables(n)
    assert mean == pytest.approx(2.009676, abs=5e-7)
    assert variance == pytest.approx(RELATIVE_VARIANCE[n], abs=5e-7)


class Scripted(ToyRBM):
    """A machine whose samples are read from a list, one entry a draw, while their exact log probability is summed."""

    def script(self, outcomes):
        self.outcomes, self.log_path = outcomes, [0.0]
        return self

    def conditional(self, block, state):
        law, owner = super().conditional(block, state), self

        class Reader:
            def sample(self, noise, draw):
                x = owner.outcomes.pop(0)
                owner.log_path[0] = owner.log_path[0] + law.log_prob(x)
                return x

        return Reader()

    def bridge(self, base, eta):
        plain = super().bridge(base, eta)
        level = Scripted(plain.W, plain.b, plain.c)
        level.outcomes, level.log_path = self.outcomes, self.log_path
        return level


def every_path(n):
    """All outcomes of v0, then (h, v) for each of n - 1 moves, as one batch."""
    sizes = [3] + [2, 3] * (n - 1)
    parts = [all_states(size) for size in sizes]
    index = list(itertools.product(*(range(len(p)) for p in parts)))
    columns = np.array(index).T
    return [part[column] for part, column in zip(parts, columns, strict=True)]


@pytest.mark.spec("INF-63")
@pytest.mark.parametrize("n", [1, 2, 3])
def test_all_paths_of_the_code_itself(n):
    """The sum over every possible path of probability times weight is Z, and the spread is the known one."""
    model, outcomes = tiny_rbm(), every_path(n)
    scripted = Scripted(model.W, model.b, model.c).script(outcomes)
    sample = ais(scripted, scripted.base(), Noise(0, "unused"), chains=len(outcomes[0]), schedule=n)
    assert scripted.outcomes == []
    p, w = np.exp(scripted.log_path[0]), np.exp(sample.log_weights)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert (p * w).sum() == pytest.approx(64.309629, abs=1e-6)
    assert (p * w).sum() == pytest.approx(math.exp(log_partition(model)), rel=1e-12)
    variance = (p * w**2).sum() / (p * w).sum() ** 2 - 1
    assert variance == pytest.approx(moments_by_tables(n)[1], abs=1e-12)
    if n in RELATIVE_VARIANCE:
        assert variance == pytest.approx(RELATIVE_VARIANCE[n], abs=5e-7)
    law = [(p * w * (sample.values == x).all(axis=1)).sum() / (p * w).sum() for x in all_states(3)]
    truth = Joint(rbm_energy(model.W, model.b, model.c), (3, 2)).marginal(0)
    assert np.allclose(law, truth, rtol=0, atol=1e-12)  # the weighted values are draws of the model


@pytest.mark.spec("INF-63")
@pytest.mark.parametrize("keep", ["visible", "hidden"])
def test_weights_scatter_as_they_should(keep):
    """20,000 chains of 5 steps: mean within 4.5 errors (false alarms 7e-6), variance within 10 %."""
    model, n = tiny_rbm(), 20_000
    sample = ais(model, model.base(), Noise(3, "ais"), chains=n, schedule=5, keep=keep)
    w = np.exp(sample.log_weights - log_partition(model))
    assert abs(w.mean() - 1) < 4.5 * w.std() / math.sqrt(n)
    if keep == "visible":
        assert w.var() == pytest.approx(RELATIVE_VARIANCE[5], rel=0.1)
    assert sample.stderr == pytest.approx(w.std(ddof=1) / w.mean() / math.sqrt(n), rel=1e-9)
    means = sample.estimate(lambda x: x)
    known = {"visible": [0.493597, 0.591604, 0.698937], "hidden": [0.518000, 0.641131]}[keep]
    assert (np.abs(means.value - known) < 4.5 * means.stderr).all()


@pytest.mark.spec("INF-63")
def test_one_step_is_plain_importance_sampling():
    model = tiny_rbm()
    sample = ais(model, model.base(), Noise(2, "ais"), chains=500, schedule=1)
    log_q = -3 * math.log(2)
    plain = WeightedSample(-model.energy(sample.values) - log_q, sample.values)
    assert np.allclose(plain.log_weights, sample.log_weights, rtol=0, atol=1e-13)


@pytest.mark.spec("INF-63", "INF-65")
@pytest.mark.parametrize("n", [2, 4])
def test_weights_are_those_of_the_extended_space(n):
    """Each chain's path, recorded on the way, has the trajectory weight of `trajectory_log_weight`."""
    model, base = tiny_rbm(), tiny_rbm().base(np.array([0.3, 0.6, 0.5]))
    path = []
    sample = ais(
        model, base, Noise(5, "ais"), chains=200, schedule=n, progress=lambda step, steps, x, log_w: path.append(x)
    )
    levels = [model.bridge(base, eta) for eta in np.linspace(0, 1, n + 1)]
    log_p = np.array([-level.energy(all_states(3)) for level in levels])
    kernels = [block_kernel(level, "visible") for level in levels[1:-1]]
    number = np.array([x @ [4, 2, 1] for x in path]).astype(int).T
    expected = trajectory_log_weight(number, log_p, kernels) + base.log_partition()
    assert np.allclose(sample.log_weights, expected, rtol=0, atol=1e-11)


@pytest.mark.spec("INF-63")
@pytest.mark.parametrize("seed", [0, 1])
def test_mean_of_z_over_200_runs_on_random_machines_of_12_units(seed):
    """Mean of Z-hat, not of its log, within 3 standard errors of the exact value (false-alarm rate 0.003 each)."""
    model = ToyRBM.random(7, 5, seed)
    truth = Joint(rbm_energy(model.W, model.b, model.c), (7, 5)).log_z
    assert log_partition(model) == pytest.approx(truth, abs=1e-9)
    z = np.array(
        [
            math.exp(ais(model, model.base(), Noise(run, "run"), chains=20, schedule=25).log_mean_weight - truth)
            for run in range(200)
        ]
    )
    assert abs(z.mean() - 1) < 3 * z.std(ddof=1) / math.sqrt(200)
    assert z.std() > 0


@pytest.mark.spec("INF-63")
def test_a_machine_of_three_layers():
    """200 chains within 4 errors, false-alarm rate 6e-5; from uniform and from informed base rates."""
    model = ToyDBM.random((5, 4, 3), 2)
    for mean in (None, np.full(8, 0.4)):
        sample = ais(model, model.base(mean), Noise(0, "dbm"), chains=200, schedule=annealing_schedule(200, "sigmoid"))
        assert abs(sample.log_mean_weight - log_partition(model)) < 4 * sample.stderr


@pytest.mark.spec("INF-63", "INF-07")
def test_no_coupling_gives_equal_weights():
    model = ToyRBM(np.zeros((2, 1)), np.array([1.0, -2.0]), np.array([0.5]))
    own = model.base(1 / (1 + np.exp(-model.b)))
    sample = ais(model, own, Noise(0, "ais"), chains=50, schedule=100)
    assert sample.log_mean_weight == pytest.approx(2.414266682741302, abs=1e-12)
    assert sample.stderr == pytest.approx(0, abs=1e-12)
    assert sample.ess == pytest.approx(50, abs=1e-9)
    assert sample.notice == ""


@pytest.mark.spec("INF-63")
@pytest.mark.parametrize("b", [5000.0, -5000.0])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_energies_of_thousands_stay_finite(b, kind):
    """4 hidden units: log Z = 15000 or 0 plus 4 log 2; 5 errors for the uniform base, whose weights scatter widely."""
    model = ToyRBM(np.zeros((3, 4), kind), np.full(3, b, kind), np.zeros(4, kind))
    truth = (15000 if b > 0 else 0) + 4 * math.log(2)
    assert log_partition(model) == pytest.approx(truth, rel=1e-14)
    sample = ais(model, model.base(), Noise(0, "ais"), chains=100, schedule=1000)
    assert np.isfinite(sample.log_weights).all()
    assert sample.values.dtype == kind
    assert abs(sample.log_mean_weight - truth) < 5 * sample.stderr + 1e-2 * (kind is np.float32)


@pytest.mark.spec("INF-63")
def test_100_seeded_runs_on_12_and_6_units():
    """Mean of Z-hat within 3 standard errors of the sum over all states; false-alarm rate 0.003."""
    model = ToyRBM.random(12, 6, 10)
    runs = [ais(model, model.base(), Noise(s, "r"), chains=20, schedule=60) for s in range(100)]
    z = np.exp([run.log_mean_weight - log_partition(model) for run in runs])
    assert abs(z.mean() - 1) < 3 * z.std(ddof=1) / 10
    assert all(run.stderr > 0 and 1 <= run.ess <= 20 for run in runs)


def test_a_weight_that_dominates_is_noticed():
    model = ToyRBM.random(12, 6, 1, scale=4.0)
    sample = ais(model, model.base(), Noise(0, "ais"), chains=50, schedule=1)
    with pytest.warns(UserWarning, match="one of 50 weights"):
        sample.warn()


def test_addresses_shards_kinds_and_repetition():
    model, noise = ToyRBM.random(6, 4, 0), Noise(1, "ais")
    with recording():
        whole = ais(model, model.base(), noise, chains=9, schedule=20)
    again = ais(model, model.base(), noise, chains=9, schedule=20)
    assert np.array_equal(whole.log_weights, again.log_weights)
    part = ais(model, model.base(), noise.rows(np.arange(4, 9)), chains=5, schedule=20)
    assert np.allclose(part.log_weights, whole.log_weights[4:], rtol=0, atol=1e-12)
    tensors = model.astype(torch.tensor)
    theirs = ais(tensors, tensors.base(), noise, chains=9, schedule=20)
    assert isinstance(theirs.values, torch.Tensor)
    assert np.allclose(theirs.log_weights, whole.log_weights, rtol=0, atol=1e-10)
    single = model.astype(lambda x: x.astype(np.float32))
    small = ais(single, single.base(), noise, chains=200, schedule=200)
    assert small.log_mean_weight == pytest.approx(log_partition(model), abs=6 * small.stderr)


def test_progress_counts_the_steps():
    model, seen = tiny_rbm(), []
    ais(model, model.base(), Noise(0, "a"), chains=3, schedule=4, progress=lambda step, n, x, w: seen.append((step, n)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.spec("INF-64")
def test_schedules():
    for n, kind in itertools.product((1, 2, 7, 1000), ("linear", "sigmoid")):
        etas = annealing_schedule(n, kind)
        assert etas.shape == (n + 1,)
        assert etas[0] == 0
        assert etas[-1] == 1
        assert (np.diff(etas) > 0).all()
        assert np.allclose(etas + etas[::-1], 1, rtol=0, atol=1e-12)
    steps = np.diff(annealing_schedule(100, "sigmoid"))
    assert steps[0] < steps[50] / 5
    with pytest.raises(UserValueError, match="schedule must be at least 1, got 0"):
        annealing_schedule(0)
    with pytest.raises(UserValueError, match="got 'cosine'"):
        annealing_schedule(5, "cosine")


@pytest.mark.spec("INF-64")
@pytest.mark.parametrize(
    ("schedule", "match"),
    [
        ([0, 0.5, 0.5, 1], r"does not rise from 0.5 to 0.5 \(schedule, entry 2\)"),
        ([0, 0.7, 0.5, 1], "entry 2"),
        ([0.1, 1], "begin at 0"),
        ([0, 0.9], "rise to 1"),
        ([0, math.nan, 1], "entry 1"),
        ([], "rise to 1"),
        (0, "schedule must be at least 1, got 0"),
    ],
)
def test_schedules_that_are_refused(schedule, match):
    model = tiny_rbm()
    with pytest.raises(UserValueError, match=match):
        ais(model, model.base(), Noise(0, "a"), schedule=schedule)


def test_models_that_are_refused():
    model = tiny_rbm()
    with pytest.raises(UserTypeError, match="cannot be annealed"):
        ais(ToyTriangle(np.zeros(3), np.zeros((3, 3))), model.base(), Noise(0, "a"))
    with pytest.raises(UserValueError, match="'hiden' is unknown"):
        ais(model, model.base(), Noise(0, "a"), keep="hiden")
    with pytest.raises(UserValueError, match="chains must be at least 1, got 0"):
        ais(model, model.base(), Noise(0, "a"), chains=0)


def gaussian(sd):
    return lambda x: -0.5 * (np.asarray(x) / sd) ** 2


@pytest.mark.spec("INF-64")
def test_gaussian_path_has_the_interpolated_precision():
    s0, s1, x = 2.0, 0.5, np.linspace(-3, 3, 7)
    for eta in (0.0, 0.25, 0.6, 1.0):
        precision = (1 - eta) / s0**2 + eta / s1**2
        path = geometric_path(gaussian(s0), gaussian(s1), eta)
        assert np.allclose(path(x), -0.5 * precision * x**2, rtol=1e-13)
        z = quad(lambda t, path=path: math.exp(path(t)), -40, 40, points=[0])[0]
        assert z == pytest.approx(math.sqrt(2 * math.pi / precision), rel=1e-9)
    first, last = gaussian(s0), gaussian(s1)
    assert geometric_path(first, last, 0.0) is first
    assert geometric_path(first, last, 1.0) is last
    with pytest.raises(UserValueError, match="must be in"):
        geometric_path(first, last, 1.2)


@pytest.mark.spec("INF-64")
def test_thermodynamic_identity():
    log_p0, log_p1 = gaussian(2.0), lambda x: 1.3 + gaussian(0.5)(np.asarray(x) - 1)

    def expected_slope(eta):
        path = geometric_path(log_p0, log_p1, eta)
        z = quad(lambda t: math.exp(path(t)), -30, 30, points=[0, 1], limit=200)[0]
        slope = quad(lambda t: math.exp(path(t)) * (log_p1(t) - log_p0(t)), -30, 30, points=[0, 1], limit=200)[0]
        return slope / z

    integral = quad(expected_slope, 0, 1, epsabs=1e-8)[0]
    assert integral == pytest.approx(1.3 + math.log(0.5 / 2.0), abs=1e-7)


@pytest.mark.spec("INF-64")
def test_ratios_along_the_path_multiply_to_the_total_and_it_is_a_path_of_joints():
    model, base = tiny_rbm(), tiny_rbm().base(np.array([0.2, 0.5, 0.9]))
    log_zs = np.array([log_partition(model.bridge(base, eta)) for eta in annealing_schedule(10)])
    assert log_zs[0] == pytest.approx(base.log_partition(), abs=1e-13)
    assert log_zs[-1] == pytest.approx(log_partition(model), abs=1e-13)
    assert np.diff(log_zs).sum() == pytest.approx(log_partition(model) - base.log_partition(), abs=1e-12)

    x = all_states(5)
    state = {"visible": x[:, :3], "hidden": x[:, 3:]}
    joint = geometric_path(lambda s: -base.joint_energy(s), lambda s: -model.joint_energy(s), 0.4)
    assert np.allclose(joint(state), -model.bridge(base, 0.4).joint_energy(state), rtol=0, atol=1e-13)
    marginal = geometric_path(lambda v: -base.energy(v), lambda v: -model.energy(v), 0.4)
    gap = marginal(all_states(3)) + model.bridge(base, 0.4).energy(all_states(3))
    assert gap.std() > 1e-3  # the marginal of the joint path is another distribution


def test_an_interrupted_walk_ends_the_others():
    """Ctrl-C falls into one of two walks; the other, of ten seconds, looks whether it is to stop."""

    begun, steps = threading.Event(), 0

    def broken():
        begun.wait(20)
        raise KeyboardInterrupt
        yield

    def endless():
        nonlocal steps
        while steps < 1000:
            steps += 1
            begun.set()
            time.sleep(0.01)
            yield 0.0, 0.0, 0.0

    with at_most(2), pytest.raises(KeyboardInterrupt):
        _run([broken(), endless()])
    assert steps < 1000
