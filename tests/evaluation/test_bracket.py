"""Log Z from both sides, where it is known by enumeration."""

import warnings

import numpy as np
import pytest
from tests.oracles.binary import Joint, ais_moments, all_states, log_sum, marginal_kernel, rbm_energy

import gnomon
from gnomon.distributions.real import Normal
from gnomon.errors import UserValueError
from gnomon.evaluation.likelihood import log_likelihood
from gnomon.evaluation.partition import Bracket, log_partition
from gnomon.inference.exact.draws import exact_draws
from gnomon.inference.importance.ais import annealing_schedule, bridge_path
from gnomon.inference.importance.reverse import reverse_anneal
from gnomon.numeric.noise import Noise
from gnomon.systems.energy.rbm import RBMModel

D = 12
NEAR_OFF = np.full(D, 0.02)
"""Means of a base that begins all chains in one of the two modes, the one of less mass."""


def two_modes(strength):
    """All bits off, or all on with more mass: each of two hidden units votes for a side."""
    W = strength * np.outer(np.ones(D), [1.0, -1.0])
    return RBMModel.of(W, np.full(D, 0.25), 0.5 * D * strength * np.array([-1.0, 1.0]))


def enumerated(model):
    """Log Z by a loop over the rows, from the parameters alone."""
    W, b, c = (np.asarray(model.state()[name], float) for name in ("weight", "visible_bias", "hidden_bias"))
    v = all_states(D)
    return log_sum(v @ b + np.log1p(np.exp(v @ W + c)).sum(1))


@pytest.mark.spec("GEN-139")
@pytest.mark.parametrize("seed", range(4))
def test_a_short_ladder_misses_a_mode_visibly_and_the_bracket_holds_the_exact_value(seed):
    """3 temperatures: forward more than a nat too low, though its own error may look small (0.06 for seed 2)."""
    model = two_modes(2.0)
    truth = enumerated(model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = log_partition(model, "bracket", random_state=seed, chains=1000, schedule=3, base_mean=NEAR_OFF)
    assert any("disagree about log Z" in str(one.message) for one in caught)
    assert found.exact_start and found.value == found.lower
    assert found.lower < truth - 1 < truth < found.upper
    assert found.disagrees and "1000 chains of 3 temperatures" in found.note and "disagree" in found.note
    if seed == 2:
        assert found.error < 0.06 < (truth - found.lower) / 4  # what the error alone would have claimed


@pytest.mark.spec("GEN-139")
def test_a_long_ladder_closes_the_bracket():
    """Both ends within 4 of their errors of the exact value, and the ladder says that a shorter one does as well."""
    model = two_modes(1.0)
    truth = enumerated(model)
    found = log_partition(model, "bracket", random_state=0, chains=200, schedule=300, base_mean=NEAR_OFF)
    assert abs(found.lower - truth) < 4 * found.error < 0.2
    assert abs(found.upper - truth) < 4 * found.gap_error < 0.2
    assert not found.disagrees and "effective number of weights" in found.note
    assert [rung.steps for rung in found.ladder] == [18, 75]
    assert found.ladder[0].error > found.ladder[1].error > found.error
    assert abs(found.ladder[1].shift) < 4 * found.ladder[1].error


@pytest.mark.spec("GEN-139")
def test_both_ends_are_unbiased_by_dynamic_programming():
    """20,000 chains each way over 4 levels: the mean weights within 4.5 standard errors of their exact means, Z and
    1 / Z; the standard errors come from exact second moments (false alarm 7e-6 each)."""
    random, n = np.random.default_rng(0), 20_000
    W, b, c = random.normal(size=(4, 3)), random.normal(size=4), random.normal(size=3)
    model, etas = RBMModel.of(W, b, c), annealing_schedule(3)
    joints = [Joint(rbm_energy(eta * W, eta * b, eta * c), (4, 3)) for eta in etas]
    masses, kernels = [one.log_marginal_mass(0) for one in joints], [marginal_kernel(one, 0) for one in joints]
    z, path = joints[-1].log_z, bridge_path(model, model.base(), etas, "visible")
    start = exact_draws(model, n, Noise(1, "start"))["visible"]
    reverse = reverse_anneal(path, start, Noise(2, "reverse"))
    mean, spread = ais_moments(masses[::-1], kernels[2:0:-1])
    assert mean == pytest.approx(np.exp(joints[0].log_z - z), rel=1e-9)  # the oracle itself
    assert abs(np.exp(reverse.log_mean_weight + z) - 1) < 4.5 * np.sqrt(spread / n)
    forward = log_partition(model, "ais", random_state=3, chains=n, schedule=3)
    _, spread = ais_moments(masses, kernels[1:3])
    assert abs(np.exp(forward.value - z) - 1) < 4.5 * np.sqrt(spread / n)


def test_exact_draws_have_the_frequencies_of_the_table():
    """Chi-square of 20,000 draws over 32 joint states at the 1e-6 quantile."""
    from scipy.stats import chisquare

    random = np.random.default_rng(0)
    W, b, c = random.normal(size=(3, 2)), random.normal(size=3), random.normal(size=2)
    joint = Joint(rbm_energy(W, b, c), (3, 2))
    state = exact_draws(RBMModel.of(W, b, c), 20_000, Noise(0, "draws"))
    flat = np.concatenate([state["visible"], state["hidden"]], axis=1)
    numbers = (flat @ 2 ** np.arange(4, -1, -1)).astype(int)
    assert (all_states(5)[numbers] == flat).all()
    assert chisquare(np.bincount(numbers, minlength=32), joint.p * 20_000).pvalue > 1e-6


@pytest.mark.spec("GEN-139")
def test_the_likelihood_has_the_error_and_the_words_of_log_z():
    model, rows = two_modes(1.0), np.array([[0.0] * D, [1.0] * D])
    bracket = log_partition(model, "bracket", random_state=0, chains=50, schedule=100)
    score = log_likelihood(model, rows, bracket)
    np.testing.assert_allclose(score.pointwise, -model.energy(rows) - bracket.value)
    assert score.error == bracket.error > 0
    assert score.note == bracket.note


@pytest.mark.spec("GEN-139")
def test_a_fitted_machine_gives_its_bracket_in_the_units_of_the_data():
    """Standardized real columns: log Z by annealing both ways holds the change of units as the exact one does."""
    X = np.random.default_rng(0).normal(size=(200, 3)) * [1.0, 10.0, 0.1]
    machine = gnomon.GaussianRBM(n_hidden=3, epochs=5, random_state=0).fit(X)
    found = machine.log_partition("bracket", chains=100, schedule=300)
    truth = machine.log_partition("exact").value
    assert found.exact_start
    assert abs(found.lower - truth) < 4 * found.error + 0.02
    assert abs(found.upper - truth) < 4 * found.gap_error + 0.02


def test_large_machines_say_that_the_upper_end_is_no_bound():
    random = np.random.default_rng(0)
    model = RBMModel.of(0.1 * random.normal(size=(30, 22)), np.zeros(30), np.zeros(22))
    found = log_partition(model, "bracket", random_state=0, chains=50, schedule=200, burn_in=50)
    assert not found.exact_start and "no bound" in found.note
    assert abs(found.gap) < 4 * np.hypot(found.error, found.gap_error) + 0.05


def two_normals(x):
    """N(0, 1) and, 30 away, twenty times as much of another."""
    return np.logaddexp(-0.5 * x[:, 0] ** 2, np.log(20.0) - 0.5 * (x[:, 0] - 30.0) ** 2)


@pytest.mark.spec("GEN-139")
@pytest.mark.parametrize("seed", range(3))
def test_rows_show_a_mode_that_both_ends_of_the_bracket_miss(seed):
    """By quadrature log Z is 3 nats higher than annealing both ways says, whose ends agree to a tenth of a nat; five
    rows in a hundred lie in that mode, and chains from there raise the upper end above the exact value."""
    truth = log_partition(two_normals, "quadrature", bounds=[(-20.0, 60.0)]).value
    options = {"random_state": seed, "proposal": Normal([0.0], [1.5]), "schedule": 50, "burn_in": 50}
    plain = log_partition(two_normals, "bracket", **options)
    assert plain.upper < truth - 2.9 and not plain.disagrees and not plain.missed
    rows = np.random.default_rng(seed).normal(size=(100, 1))
    healthy = log_partition(two_normals, "bracket", rows=rows, **options)
    assert healthy.value == plain.value and healthy.upper == plain.upper and not healthy.disagrees
    rows[::20] += 30.0
    with pytest.warns(UserWarning, match="5 of 200 chains annealed downwards say up to"):
        found = log_partition(two_normals, "bracket", rows=rows, **options)
    assert found.value == plain.value and found.missed == 5 and found.disagrees
    assert found.lower < truth < found.upper and "misses or seldom finds" in found.note


def test_rows_make_no_difference_where_draws_are_exact_or_annealing_has_all_modes():
    """A long ladder between the two modes of bits, from whichever of these the base begins in."""
    model, rows = two_modes(1.0), np.array([[0.0] * D, [1.0] * D])
    options = {"random_state": 0, "chains": 100, "schedule": 300, "base_mean": NEAR_OFF, "burn_in": 20}
    exact = log_partition(model, "bracket", rows=rows, **options)
    assert exact.exact_start and exact.from_rows is None
    found = log_partition(model, Bracket(chains=100, schedule=300, burn_in=20), random_state=0, base_mean=NEAR_OFF,
                          limit=1, rows=rows)  # fmt: skip
    assert not found.exact_start and len(found.from_rows) == 100 and not found.missed
    assert abs(found.upper - enumerated(model)) < 4 * found.gap_error + 0.05


def test_wrong_options():
    with pytest.raises(UserValueError, match="burn_in"):
        log_partition(two_modes(1.0), "bracket", burn_in=-1)
    for rows, match in ((np.full((2, D), np.nan), "finite"), (np.zeros((2, D - 1)), "11 columns"), ([], "rows")):
        with pytest.raises(UserValueError, match=match):
            log_partition(two_modes(1.0), "bracket", limit=1, rows=rows, chains=4, schedule=4, burn_in=0)
