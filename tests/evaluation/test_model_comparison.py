"""Comparison of unnormalized models: exact on enumerable pairs, errors times the rows, undecided where due."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.model_comparison import compare_models
from gnomon.evaluation.partition import log_partition
from gnomon.evaluation.score import Score
from gnomon.inference.mcmc.metropolis import MetropolisHastings, RandomWalk
from gnomon.inference.mcmc.sampling import sample_chain
from gnomon.numeric.noise import Noise
from gnomon.systems.energy.rbm import RBM
from oracles.binary import Joint, all_states, rbm_energy
from oracles.toys import ToyRBM, tiny_rbm

INFINITY = [(-math.inf, math.inf)]


def law(model):
    """Log probabilities of all visible states, by brute force."""
    sizes = (len(model.b), len(model.c))
    joint = Joint(rbm_energy(model.W, model.b, model.c), sizes)
    return joint.log_marginal_mass(0) - joint.log_z, joint.log_z


def pair():
    """Two machines over five columns, three and four hidden units, and 60 rows."""
    a, b = ToyRBM.random(5, 3, 1), ToyRBM.random(5, 4, 2, scale=0.7)
    rows = np.random.default_rng(0).integers(0, 32, 60)
    return a, b, rows


def bell(sd, mean=0.0):
    return lambda x: -0.5 * (((x - mean) / sd) ** 2).sum(-1)


@pytest.mark.spec("INF-61")
def test_an_exact_ratio_gives_the_exact_difference():
    a, b, rows = pair()
    (log_pa, za), (log_pb, zb) = law(a), law(b)
    truth = (log_pa[rows] - log_pb[rows]).sum()
    X = all_states(5)[rows]
    known = [compare_models(a, b, X), compare_models(a, b, X, "exact"), compare_models(a, b, X, log_ratio=za - zb)]
    known.append(compare_models(a, b, X, log_ratio=Score(za - zb, name="log_ratio")))
    for found in known:
        assert found.difference.value == pytest.approx(truth, abs=1e-12 * 60)
        assert (found.difference.error, found.difference.kind) == (0.0, "exact")
        assert found.log_ratio.value == pytest.approx(za - zb, abs=1e-12)
        assert found.interval() == (found.difference.value, found.difference.value)
        assert found.verdict() == ("better" if truth > 0 else "worse")
    turned = compare_models(b, a, X)
    assert turned.difference.value == pytest.approx(-truth, abs=1e-10)
    assert turned.verdict() == ("worse" if truth > 0 else "better")
    spread = (log_pa[rows] - log_pb[rows]).std(ddof=1) * math.sqrt(60)
    assert known[0].difference.stderr == pytest.approx(spread, rel=1e-12)


@pytest.mark.spec("INF-61")
def test_the_error_of_the_ratio_counts_once_for_every_row():
    a, b, rows = pair()
    X = all_states(5)[rows]
    (log_pa, za), (log_pb, zb) = law(a), law(b)
    ratio = Score(za - zb, error=0.02, kind="estimate", name="log_ratio")
    for copies in (1, 7):
        found = compare_models(a, b, np.tile(X, (copies, 1)), log_ratio=ratio)
        assert found.difference.error == pytest.approx(60 * copies * 0.02, rel=1e-12)
        low, high = found.interval(0.95)
        assert high - low == pytest.approx(2 * 1.959964 * 60 * copies * 0.02, rel=1e-6)
    truth = (log_pa[rows] - log_pb[rows]).sum()
    side = "better" if truth > 0 else "worse"
    edge = abs(truth) / 60 / 1.959964
    for error, verdict in ((0.99 * edge, side), (1.01 * edge, "undecided")):
        found = compare_models(a, b, X, log_ratio=Score(za - zb, error=error, kind="estimate", name="log_ratio"))
        assert found.verdict() == verdict


@pytest.mark.spec("INF-61", "INF-67")
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("bridge", {"draws": 50, "burn_in": 30}),
        ("ais", {"chains": 100, "schedule": 20}),
        ("importance", {"draws": 500}),
        ("linked", {"levels": 4, "chain_length": 5, "runs": 60}),
    ],
)
def test_intervals_cover_the_exact_difference(method, options):
    """60 repetitions: the truth lies outside the 99.73 % interval at most 3 times (rate below 1e-4)."""
    a, b = tiny_rbm(), ToyRBM.random(3, 2, 5)
    (log_pa, _), (log_pb, _) = law(a), law(b)
    rows = np.array([0, 3, 5, 5, 6, 7, 1, 2, 2, 4])
    X, truth = all_states(3)[rows], (log_pa[rows] - log_pb[rows]).sum()
    missed = half = 0
    for seed in range(60):
        found = compare_models(a, b, X, method, Noise(seed, "compare"), **options)
        low, high = found.interval(0.9973)
        missed += not low < truth < high
        half += abs(found.difference.value - truth) > (high - low) / 4
        assert found.difference.error == pytest.approx(10 * found.log_ratio.error)
        assert found.difference.kind == "estimate"
    assert missed <= 3, missed
    assert half > 3, half


@pytest.mark.spec("INF-61", "INF-67")
def test_densities_by_given_draws_and_by_quadrature():
    """Two normals with chains as draws: within 3.9 errors of the closed form, rate 1e-4; and the exact verdict."""
    narrow, wide = bell(1.0), bell(1.6, 0.3)
    X = 1.2 * np.random.default_rng(3).normal(size=(80, 1))
    exact = compare_models(narrow, wide, X, "quadrature", bounds=INFINITY)
    assert exact.log_ratio.value == pytest.approx(-math.log(1.6), abs=1e-9)
    kernel = MetropolisHastings(RandomWalk(1.5))
    draws = tuple(
        sample_chain(target, kernel, start=1, draws=800, burn_in=200, random_state=seed).draws
        for seed, target in enumerate((narrow, wide))
    )
    found = compare_models(narrow, wide, X, "bridge", samples=draws)
    assert abs(found.difference.value - exact.difference.value) < 3.9 * found.difference.error
    assert found.log_ratio.note.startswith("overlap 0.")


@pytest.mark.spec("INF-61")
def test_rows_to_come_are_another_question():
    """On these rows the exact difference decides; whether it holds elsewhere, the spread over rows says."""
    X = np.array([[0.0], [0.1], [3.2], [-0.2], [0.3]])
    found = compare_models(bell(1.0), bell(1.3), X, "quadrature", bounds=INFINITY)
    assert found.verdict() in ("better", "worse")
    assert found.elsewhere() == "undecided"


@pytest.mark.spec("INF-61")
def test_fitted_systems_stand_for_their_models():
    X = all_states(4)[[0, 0, 0, 15, 15, 3, 12]]
    good, poor = (
        RBM(n_hidden=3, objective="exact", epochs=e, learning_rate=0.5, random_state=0).fit(X) for e in (200, 1)
    )
    found = compare_models(good, poor, X)
    truth = 7 * (good.evaluate(X)["log_likelihood"].value - poor.evaluate(X)["log_likelihood"].value)
    assert found.difference.value == pytest.approx(truth, abs=1e-4)
    assert found.verdict() == "better"
    bridged = compare_models(good, poor, X, "bridge", random_state=1, draws=200, burn_in=50)
    assert abs(bridged.difference.value - truth) < 3.9 * bridged.difference.error  # rate 1e-4
    other = RBM(n_hidden=3, epochs=1, random_state=0).fit(all_states(5))
    with pytest.raises(UserValueError, match="same variables"):
        compare_models(good, other, X)


def half_line(x):
    return np.where(x[:, 0] > 0, -x[:, 0], -np.inf)


@pytest.mark.spec("INF-61")
@pytest.mark.parametrize(
    ("arguments", "options", "error", "match"),
    [
        (
            (half_line, bell(1), np.array([[1.0], [-2.0]])),
            {"log_ratio": 0.0},
            UserValueError,
            r"-inf under A.*\(row 1\)",
        ),
        ((bell(1), half_line, np.array([[-2.0]])), {"log_ratio": 0.0}, UserValueError, r"-inf under B.*support.*row 0"),
        (
            (tiny_rbm(), ToyRBM.random(4, 2, 0), all_states(3)),
            {},
            UserValueError,
            r"X must have the columns of a block of model B, \{'visible': .*over the columns of X",
        ),
        (
            (tiny_rbm(), tiny_rbm(), 0.5 * all_states(3)),
            {},
            UserValueError,
            r"X must be possible under the models, got 0\.5 \(row 1, column .*rows that have a density",
        ),
        (
            (bell(1), bell(2), np.array([[np.nan]])),
            {},
            UserValueError,
            r"X must be possible under the models, got nan \(row 0, column 0\); give rows that have a density",
        ),
        ((bell(1), bell(2), np.zeros(3)), {}, UserValueError, r"shape \(3,\)"),
        ((bell(1), 7, np.zeros((2, 1))), {}, UserTypeError, "int has no energy"),
        ((bell(1), bell(2), np.zeros((2, 1)), "bridge"), {}, UserTypeError, "pass samples="),
        ((bell(1), bell(2), np.zeros((2, 1)), "ais"), {"samples": (0, 0)}, UserValueError, "takes no samples"),
    ],
)
def test_wrong_use_is_named(arguments, options, error, match):
    with pytest.raises(error, match=match):
        compare_models(*arguments, **options)
    found = compare_models(bell(1), bell(2), np.zeros((2, 1)), log_ratio=0.0)
    for level in (0, 1, 2):
        with pytest.raises(UserValueError, match=rf"level must be in \(0, 1\), got {level}"):
            found.interval(level)


def test_the_same_seed_repeats():
    a, b, rows = pair()
    X = all_states(5)[rows]
    first, again = (compare_models(a, b, X, "importance", random_state=3) for _ in range(2))
    assert first.difference == again.difference
    mine, same, other = (compare_models(a, b, X, "importance", Noise(s, "mine")) for s in (3, 3, 4))
    assert mine.difference == same.difference
    assert len({found.log_ratio.value for found in (first, mine, other)}) == 3
    assert log_partition(a, "importance", random_state=3).kind == "estimate"


def test_it_reads_as_a_sentence():
    told = str(compare_models(tiny_rbm(), tiny_rbm(), np.ones((2, 3)), log_ratio=2.0))
    assert told == "worse: log-likelihood difference -4.0000 exact nats, log ratio of normalizers 2.0000 exact nats"
