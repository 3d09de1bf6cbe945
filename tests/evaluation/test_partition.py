"""log_partition by every method: exact ways against closed forms, errors that cover, mistakes in one line."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import gnomon
from gnomon.distributions.real import Normal
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.partition import AIS, METHODS, BridgeSampling, Importance, Linked, log_partition
from gnomon.inference.exact.enumeration import exact_expectation
from gnomon.inference.exact.factors import Factor
from gnomon.inference.importance.ais import ais
from gnomon.inference.importance.bridge import estimate_log_ratio
from gnomon.inference.importance.chain_bridge import chain_ratio, target_chain
from gnomon.inference.importance.normalizer import as_proposal
from gnomon.inference.mcmc.metropolis import MetropolisHastings, RandomWalk
from gnomon.inference.mcmc.paths import TemperedPath
from gnomon.numeric.noise import Noise
from gnomon.systems.energy.rbm import RBM, RBMModel
from oracles.binary import Joint, all_states, rbm_energy
from oracles.toys import ToyRBM, tiny_rbm

LINE = [(-math.inf, math.inf)]
TINY_LOG_Z = 4.163709
REPETITIONS, LEAST = 200, 193
"""With 0.9973 within 3 errors, 192 of 200 or fewer have probability below 1e-4."""

PRECISION = np.array([[2.0, 1.2], [1.2, 1.5]])
NORMAL_LOG_Z = math.log(2 * math.pi) - 0.5 * math.log(np.linalg.det(PRECISION))


def bell(x):
    return -0.5 * ((x @ PRECISION) * x).sum(-1)


def parabola(beta):
    return lambda x: -beta * x[:, 0] ** 2


# --- exact ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("REP-137")
@pytest.mark.parametrize("beta", [0.01, 0.5, 3.0, 400.0])
def test_a_parabola_by_quadrature(beta):
    score = log_partition(parabola(beta), "quadrature", bounds=LINE)
    assert score.value == pytest.approx(0.5 * math.log(math.pi / beta), abs=1e-9)
    assert (score.kind, score.error, score.unit, score.name) == ("exact", 0.0, "nats", "log_partition")
    assert math.exp(log_partition(parabola(0.5), "exact", bounds=LINE).value) == pytest.approx(2.506628, abs=5e-7)

    def tilted(shift):
        return log_partition(lambda x: parabola(beta)(x) + shift * x[:, 0], bounds=LINE).value

    h = math.sqrt(beta)  # second derivative of log Z in a linear term: the variance, 1 / (2 beta); log Z is a parabola
    assert (tilted(h) - 2 * tilted(0) + tilted(-h)) / h**2 == pytest.approx(1 / (2 * beta), rel=1e-7)


@pytest.mark.spec("REP-137")
@pytest.mark.parametrize(
    "density", [parabola(0.0), parabola(-0.5), lambda x: np.log(x[:, 0] ** 2), lambda x: -np.log1p(np.abs(x[:, 0]))]
)
def test_what_has_no_normalizer_is_refused_in_one_line(density):
    with pytest.raises(UserValueError, match=r"did not converge.*can be normalized") as caught:
        log_partition(density, "exact", bounds=LINE)
    assert "\n" not in str(caught.value)


@pytest.mark.spec("REP-137")
def test_two_columns_by_quadrature_in_numpy_and_torch():
    plane = [(-math.inf, math.inf)] * 2
    assert log_partition(bell, bounds=plane).value == pytest.approx(NORMAL_LOG_Z, abs=1e-9)

    class Energy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.precision = torch.nn.Parameter(torch.tensor(PRECISION))

        def energy(self, x):
            return 0.5 * ((x @ self.precision) * x).sum(-1)

        def state(self):
            return dict(self.named_parameters())

        def load(self, state):
            raise NotImplementedError

    assert log_partition(Energy(), bounds=plane).value == pytest.approx(NORMAL_LOG_Z, abs=1e-9)
    half = log_partition(bell, bounds=[(0, math.inf), (-math.inf, math.inf)]).value
    assert half == pytest.approx(NORMAL_LOG_Z - math.log(2), abs=1e-9)


@pytest.mark.spec("REP-137")
def test_elimination_equals_enumeration():
    """A machine as a product of tables over its units: the sum is that over all states."""
    model = ToyRBM.random(5, 4, 3)
    v, h = [f"v{i}" for i in range(5)], [f"h{j}" for j in range(4)]
    factors = [Factor([name], [0.0, bias]) for name, bias in zip(v + h, [*model.b, *model.c], strict=True)]
    factors += [Factor([v[i], h[j]], [[0, 0], [0, model.W[i, j]]]) for i in range(5) for j in range(4)]
    truth = Joint(rbm_energy(model.W, model.b, model.c), (5, 4)).log_z
    for method in ("auto", "exact", "eliminate"):
        assert log_partition(factors, method).value == pytest.approx(truth, abs=1e-12)
    for method in ("auto", "exact", "enumerate"):
        assert log_partition(model, method).value == pytest.approx(truth, abs=1e-12)


@pytest.mark.spec("REP-137")
def test_the_slope_of_log_z_is_minus_the_mean_slope_of_the_energy():
    """By finite differences in each parameter of TINY-RBM against -E[dE/dtheta], enumerated."""
    model, h = tiny_rbm(), 1e-5

    def log_z(name, at, step):
        moved = {key: np.array(value) for key, value in model.state().items()}
        moved[name][at] += step
        return log_partition(ToyRBM(moved["W"], moved["b"], moved["c"])).value

    def minus_slope(state):
        x, hidden = state["visible"], model.conditional("hidden", state).mean
        return np.concatenate([(x[:, :, None] * hidden[:, None, :]).reshape(len(x), -1), x, hidden], axis=1)

    expected = exact_expectation(model, minus_slope, "visible")
    places = [("W", (i, j)) for i in range(3) for j in range(2)] + [("b", i) for i in range(3)]
    places += [("c", j) for j in range(2)]
    slopes = [(log_z(name, at, h) - log_z(name, at, -h)) / (2 * h) for name, at in places]
    assert slopes == pytest.approx(expected, abs=1e-9)


@pytest.mark.spec("REP-137")
def test_a_model_that_knows_its_own_is_asked():
    class Known:
        def log_partition(self):
            return 1.5

    assert log_partition(Known(), "exact").value == log_partition(Known()).value == 1.5


# --- estimates --------------------------------------------------------------------------------------------------------

WAYS = {
    "importance": {"draws": 200},
    "ais": {"chains": 100, "schedule": 10},
    "bridge": {"chains": 10, "draws": 50, "burn_in": 20},
    "geometric bridge": {"chains": 10, "draws": 50, "burn_in": 20, "bridge": "geometric"},
    "linked": {"levels": 3, "chain_length": 5, "runs": 60},
}

ROWS = {
    "importance": ("INF-62",), "ais": ("INF-63",), "bridge": ("INF-67", "INF-68"), "geometric bridge": ("INF-67",),
    "linked": ("INF-69",),
}  # fmt: skip
every_way = pytest.mark.parametrize("name", [pytest.param(one, marks=pytest.mark.spec(*ROWS[one])) for one in WAYS])


def coverage(model, truth, name):
    """Repetitions whose truth lies within 3 errors, and within half of that; and the mean and spread of the errors."""
    inside = half = 0
    off, errors = [], []
    for seed in range(REPETITIONS):
        score = log_partition(model, name.split()[-1], Noise(seed, f"cover/{name}"), **WAYS[name])
        off.append(score.value - truth)
        errors.append(score.error)
        inside += abs(off[-1]) < 3 * score.error
        half += abs(off[-1]) < 1.5 * score.error
    return inside, half, np.array(off), np.array(errors)


@every_way
def test_errors_cover_on_an_enumerable_machine(name):
    """200 repetitions on TINY-RBM: at least 193 within 3 errors, fewer with the errors halved on purpose."""
    model = tiny_rbm()
    truth = Joint(rbm_energy(model.W, model.b, model.c), (3, 2)).log_z
    inside, half, off, errors = coverage(model, truth, name)
    assert inside >= LEAST, inside
    assert half < LEAST, half
    assert off.std() == pytest.approx(errors.mean(), rel=0.25)  # a spread over 200 is known to 5 %


@pytest.mark.spec("INF-67", "INF-68")
@pytest.mark.parametrize("bridge", ["optimal", "geometric"])
def test_errors_of_bridges_cover_for_correlated_chains(bridge):
    """A correlated normal and random walks: 200 groups of 10 chains, walked at once, with effective numbers.

    Annealed and linked sampling on this target: tests/inference/importance/test_linked.py.
    """
    base = as_proposal(Normal(np.array([0.3, 0.0]), np.array([0.7, 0.7])))
    path = TemperedPath(bell, base, [0.0, 1.0], MetropolisHastings(RandomWalk(0.7)))
    x1 = target_chain(path, Noise(4, "chains"), REPETITIONS * 10, 150, 100).reshape(REPETITIONS, 10, 150, 2)
    x0 = path.start(REPETITIONS * 6000, Noise(5, "base")).reshape(REPETITIONS, 6000, 2)
    inside = half = blind = 0
    off, errors = [], []
    for a, b in zip(x0, x1, strict=True):
        found = chain_ratio(a, b, base.log_prob, bell, bridge)
        off.append(found.log_r_ - NORMAL_LOG_Z)
        errors.append(found.se_)
        inside += abs(off[-1]) < 3 * found.se_
        half += abs(off[-1]) < 1.5 * found.se_
        naive = estimate_log_ratio(a, b.reshape(-1, 2), base.log_prob, bell, bridge)
        blind += abs(naive.log_r_ - NORMAL_LOG_Z) < 3 * naive.se_
    assert inside >= LEAST, inside
    assert half < LEAST, half
    assert blind < LEAST, blind
    assert np.std(off) == pytest.approx(np.mean(errors), rel=0.25)


@pytest.mark.spec("INF-62", "INF-63", "INF-67", "INF-69")
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("importance", {"draws": 2000}),
        ("ais", {"chains": 500, "schedule": 8}),
        ("bridge", {"draws": 300}),
        ("linked", {"levels": 4, "runs": 300, "chain_length": 8}),
    ],
)
def test_a_density_from_a_proposal_by_every_method(method, options):
    """The public verb on a correlated normal: within 3.9 errors, rate 1e-4 each; the error below 0.1 nats."""
    proposal = Normal(np.array([0.3, 0.0]), np.array([1.6, 1.6]))
    score = log_partition(bell, method, random_state=6, proposal=proposal, **options)
    assert abs(score.value - NORMAL_LOG_Z) < 3.9 * score.error
    assert score.error < 0.1


def test_options_reach_the_method():
    """What a method is told changes what it does: chain lengths, bridges, kernels, bases and limits."""
    model, proposal = tiny_rbm(), Normal(np.array([0.3, 0.0]), np.array([1.6, 1.6]))

    def values(target, method, **options):
        common = {} if target is model else {"proposal": proposal}
        return log_partition(target, method, Noise(2, "options"), **common, **options).value

    upper = lambda lower, upper: upper  # noqa: E731
    for given in (
        [values(model, "linked", levels=3, runs=40, **more) for more in ({}, {"chain_length": 3}, {"bridge": upper})],
        [values(model, "bridge", draws=20, **more) for more in ({}, {"burn_in": 3}, {"bridge": "geometric"})],
        [values(model, "ais", schedule=5, **more) for more in ({}, {"chains": 7}, {"base_mean": np.full(3, 0.8)})],
        [
            values(bell, "ais", schedule=5, chains=50, **more)
            for more in ({}, {"kernel": MetropolisHastings(RandomWalk(0.4))})
        ],
        [
            values(bell, "linked", levels=3, runs=40, **more)
            for more in ({}, {"kernel": MetropolisHastings(RandomWalk(0.4))})
        ],
    ):
        assert len(set(given)) == len(given)
    assert log_partition(model, "enumerate", limit=2).kind == "exact"
    for method in ("enumerate", "exact"):
        with pytest.raises(UserValueError, match="limit"):
            log_partition(model, method, limit=1)
    assert log_partition(model, "auto", limit=1, random_state=0).kind == "estimate"


@pytest.mark.spec("INF-62", "INF-63")
def test_importance_sampling_is_annealing_in_one_step():
    model, noise = tiny_rbm(), Noise(1, "one")
    score = log_partition(model, "importance", noise, draws=80)
    sample = ais(model, model.base(), noise, chains=80, schedule=1)
    assert (score.value, score.error) == (pytest.approx(sample.log_mean_weight), pytest.approx(sample.stderr))
    assert score.note == f"effective number of weights {sample.ess:.1f} of 80"


@pytest.mark.spec("INF-67")
def test_one_chain_is_a_chain():
    """Draws that are each repeated tenfold, as one chain: the error is that of the distinct ones (ESS to 30 %)."""
    noise = Noise(9, "one")
    base = as_proposal(Normal(0.0, 1.0))
    x0, x1 = base.sample(20_000, noise), 0.5 * base.sample(1000, noise.child("model"))
    narrow = Normal(0.0, 0.5)
    once = chain_ratio(x0, x1, base.log_prob, as_proposal(narrow).log_prob)
    often = chain_ratio(x0, np.repeat(x1, 10, axis=0)[None], base.log_prob, as_proposal(narrow).log_prob)
    assert often.se_ == pytest.approx(once.se_, rel=0.3)
    assert often.log_r_ == pytest.approx(0, abs=3.9 * often.se_)


@every_way
def test_a_base_that_is_the_model_leaves_no_error_and_large_biases_no_overflow(name):
    """Without coupling and from its own means all weights are equal; biases of 5000 in float32 stay finite."""
    method, bias = name.split()[-1], np.array([1.0, -2.0])
    own = 1 / (1 + np.exp(-bias))
    free = ToyRBM(np.zeros((2, 1)), bias, np.array([0.5]))
    score = log_partition(free, method, random_state=0, base_mean=own, **WAYS[name])
    assert score.value == pytest.approx(2.414266682741302, abs=1e-12)
    assert score.error == pytest.approx(0, abs=1e-12)
    single = np.float32
    steep = ToyRBM(np.zeros((3, 2), single), np.full(3, 4.0, single), np.zeros(2, single))
    score = log_partition(steep, method, random_state=0, base_mean=np.full(3, 0.9, single), **WAYS[name])
    truth = 3 * math.log1p(math.exp(4)) + 2 * math.log(2)
    assert score.value == pytest.approx(truth, abs=max(3.9 * score.error, 1e-4))
    for sign, log_z in ((1, 15000), (-1, 0)):
        huge = ToyRBM(np.zeros((3, 2), single), np.full(3, sign * 5000.0, single), np.zeros(2, single))
        assert log_partition(huge).value == pytest.approx(log_z + 2 * math.log(2), rel=1e-6)


@pytest.mark.spec("INF-07", "INF-62", "INF-63", "INF-69")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("importance", {"draws": 50}),
        ("ais", {"chains": 50, "schedule": 1}),
        ("linked", {"levels": 1, "runs": 50, "chain_length": 1}),
    ],
)
def test_collapsed_weights_are_told(name, options):
    model = ToyRBM.random(12, 6, 1, scale=4.0)
    with pytest.warns(UserWarning, match="one of 50 weights"):
        score = log_partition(model, name, random_state=0, **options)
    assert "one of 50 weights" in score.note


@pytest.mark.spec("INF-67", "INF-68")
def test_a_bridge_without_overlap_is_refused():
    with pytest.raises(UserValueError, match=r"do not overlap.*annealed or linked"):
        log_partition(
            lambda x: bell(x - 40), "bridge", proposal=Normal(np.zeros(2), np.ones(2)), random_state=0, draws=20,
            burn_in=400,
        )  # fmt: skip


@pytest.mark.spec("INF-67")
def test_chains_that_have_not_mixed_are_told():
    """Two hills that chains from a wide base do not leave."""

    def hills(x):
        return np.logaddexp(-4 * ((x - 3) ** 2).sum(-1), 1.0 - 4 * ((x + 3) ** 2).sum(-1))

    with pytest.warns(UserWarning, match=r"have not mixed \(R-hat"):
        log_partition(
            hills, "bridge", proposal=Normal(np.zeros(1), np.full(1, 3.0)), random_state=0, burn_in=50,
            kernel=MetropolisHastings(RandomWalk(0.4)),
        )  # fmt: skip


# --- the public verb --------------------------------------------------------------------------------------------------


def test_the_seed_decides_and_none_differs():
    model = tiny_rbm()
    first, again, other = (log_partition(model, "ais", random_state=seed, schedule=5) for seed in (1, 1, 2))
    assert first == again
    assert first.value != other.value
    assert log_partition(model, "ais", schedule=5).value != log_partition(model, "ais", schedule=5).value


def test_a_fitted_system_stands_for_its_model_and_methods_are_objects_too():
    system = RBM(n_hidden=3, epochs=2, random_state=0).fit(all_states(4))
    score = gnomon.log_partition(system)
    assert score.value == pytest.approx(system.model_.log_partition(), abs=1e-6)
    for method, name in ((AIS(50, 20), "ais"), (Importance(50), "importance"), (BridgeSampling(), "bridge"),
                         (Linked(3, 4, 50), "linked")):  # fmt: skip
        found = log_partition(system, method, random_state=0, base_mean=np.full(4, 0.4))
        assert found.kind == "estimate"
        assert abs(found.value - score.value) < 5 * found.error
        assert isinstance(method, METHODS[name])
    assert system.log_partition("linked", runs=30, levels=2).kind == "estimate"


def test_torch_models_are_estimated_by_every_method():
    toy = tiny_rbm()
    model = RBMModel.of(toy.W, toy.b, toy.c).double()
    for name, options in WAYS.items():
        score = log_partition(model, name.split()[-1], random_state=3, **options)
        assert abs(score.value - TINY_LOG_Z) < 4.5 * score.error, name


@pytest.mark.parametrize(
    ("arguments", "options", "error", "match"),
    [
        ((bell, "quadrature"), {}, UserValueError, "a quadrature needs its box"),
        ((bell, "exact"), {}, UserTypeError, "no exact log Z"),
        ((bell,), {}, UserTypeError, r"no bridge to a base model.*pass proposal=.*or bounds="),
        ((bell, "linked"), {}, UserTypeError, "no bridge"),
        ((bell, "quadrature"), {"bounds": LINE * 3}, UserValueError, "bounds must be 1 or 2 pairs, got 3"),
        ((bell, "guess"), {}, UserValueError, "auto, exact, enumerate.*got 'guess'"),
        ((bell, "ais"), {"runs": 5}, UserTypeError, r"'ais' takes no runs"),
        ((bell, "linked"), {"level": 5}, UserTypeError, r"takes no level.*levels"),
        ((bell, "exact"), {"draws": 5}, UserTypeError, "takes no draws"),
        ((bell, AIS(10)), {"chains": 5}, UserTypeError, "AIS has its options"),
        (
            (tiny_rbm(), "bridge"),
            {"chains": 1},
            UserValueError,
            r"chains, draws and burn_in must be at least 2, 8 and 0, got .*error needs several chains",
        ),
        ((tiny_rbm(), "ais"), {"chains": 0}, UserValueError, "chains must be at least 1, got 0"),
    ],
)
def test_wrong_use_is_named(arguments, options, error, match):
    with pytest.raises(error, match=match):
        log_partition(*arguments, **options)
