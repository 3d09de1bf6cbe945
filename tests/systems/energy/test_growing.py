"""Hidden units added one at a time, features found by boosting, and the machine of a distribution: by enumeration."""

import numpy as np
import pytest

import gnomon
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.evaluation.partition import log_partition
from gnomon.inference.mcmc.gibbs import block_kernel
from gnomon.numeric.noise import Noise
from gnomon.objectives.self_contrastive import SelfContrast
from gnomon.systems.energy.growing import CountedRows, feature_loss, find_feature, log_growth
from gnomon.systems.energy.rbm import RBM, RBMModel
from gnomon.training.group import Group
from oracles.binary import Joint, all_states, numerical_gradient, rbm_energy
from oracles.layered import by_differences

TINY = (np.array([[1.0, -1.0], [0.5, 0.5], [-1.0, 2.0]]), np.array([0.1, -0.2, 0.3]), np.array([0.0, -0.5]))


def fitted(parameters, X=None):
    """A fitted system with these parameters."""
    d, m = parameters[0].shape
    X = all_states(d) if X is None else X
    system = RBM(n_hidden=m, objective="exact", epochs=1, random_state=0, dtype="float64").fit(X)
    system.model_.load(RBMModel.of(*parameters).state())
    return system


def brute(W, b, c):
    """Probabilities of all rows and Z, by sums over joint states."""
    joint = Joint(rbm_energy(W, b, c), (len(b), len(c)))
    return joint.marginal(0), np.exp(joint.log_z)


@pytest.mark.spec("DLN-85")
def test_each_unit_multiplies_the_density_of_the_machine_before_it():
    """p_n(v) = p_(n-1)(v) Z_(n-1) / Z_n (1 + exp(b_n + w_n v)) from independent columns on, by sums."""
    W, a, b = TINY
    v = all_states(3)
    machine = fitted((np.zeros((3, 1)), a, np.zeros(1)))
    p, z = np.exp(v @ a) / np.exp(v @ a).sum(), np.exp(v @ a).sum()
    np.testing.assert_allclose(np.exp(machine.log_prob(v)), p, atol=1e-12)
    for n in range(2):
        factor = 1 + np.exp(b[n] + v @ W[:, n])
        grown = machine.log_partition_growth(W[:, n], b[n])
        larger = machine.add_hidden_unit(W[:, n], b[n])
        p_next, z_next = brute(W[:, : n + 1], a, b[: n + 1])
        assert grown.kind == "exact"
        assert grown.value == pytest.approx(np.log(z_next / z), abs=1e-12)
        assert grown.value == pytest.approx(np.log(p @ factor), abs=1e-12)  # the expectation under p_(n-1)
        np.testing.assert_allclose(p * z / z_next * factor, p_next, atol=1e-12)
        np.testing.assert_allclose(np.exp(larger.log_prob(v)), p_next, atol=1e-12)
        assert (larger.n_hidden, machine.n_hidden) == (n + 2, n + 1)
        np.testing.assert_allclose(np.exp(machine.log_prob(v)), p, atol=1e-12)  # as it was
        machine, p, z = larger, p_next, z_next


@pytest.mark.spec("DLN-85")
@pytest.mark.parametrize("bias", [-3.0, 0.0, 800.0])
def test_a_unit_without_weights_changes_no_probability(bias):
    machine = fitted(TINY)
    larger = machine.add_hidden_unit(np.zeros(3), bias)
    np.testing.assert_allclose(larger.log_prob(all_states(3)), machine.log_prob(all_states(3)), atol=1e-10)
    assert machine.log_partition_growth(np.zeros(3), bias).value == pytest.approx(np.logaddexp(0, bias), abs=1e-10)


@pytest.mark.spec("DLN-85")
def test_draws_estimate_how_log_z_grows():
    """Within 4.5 of its standard errors, which are those of 200 repetitions; false alarm below 1e-4."""
    machine, w, b = fitted(TINY), np.array([1.5, -2.0, 0.5]), 0.3
    truth = machine.log_partition_growth(w, b).value
    score = machine.log_partition_growth(w, b, n=2000, steps=50, random_state=0)
    assert score.kind == "estimate"
    assert abs(score.value - truth) < 4.5 * score.error
    draws = machine.sample(200 * 500, steps=50, random_state=1).reshape(200, 500, 3)
    found = np.array([log_growth(part, w, b) for part in draws])
    assert found[:, 1].mean() == pytest.approx(found[:, 0].std(ddof=1), rel=0.25)  # sd of an sd: 5 percent
    assert abs(found[:, 0].mean() - truth) < 4.5 * found[:, 0].std(ddof=1) / np.sqrt(200) + found[:, 1].mean() ** 2


@pytest.mark.spec("DLN-85")
def test_a_grown_machine_is_saved_and_learns_on(tmp_path):
    X = np.repeat(all_states(3)[[1, 6]], 20, axis=0)
    larger = fitted(TINY, X).add_hidden_unit([1.0, 0.0, -1.0], 0.5)
    larger.save(tmp_path / "run")
    again = gnomon.load(tmp_path / "run")
    np.testing.assert_array_equal(again.log_prob(X), larger.log_prob(X))
    assert again.transform(X).shape == (40, 3)
    before = larger.score(X)
    for _ in range(20):
        larger.partial_fit(X)
    assert larger.score(X) > before
    assert larger.weights_.shape == (3, 3)


@pytest.mark.spec("DLN-85")
@pytest.mark.parametrize(
    ("weights", "bias", "message"),
    [
        ([1.0, 2.0], 0.0, r"weights must be of shape \(3,\)"),
        ([1.0, 2.0, np.nan], 0.0, "finite"),
        ([1, 2, 3], np.inf, "f"),
    ],
)
def test_units_that_do_not_fit_are_refused(weights, bias, message):
    machine = fitted(TINY)
    for ask in (machine.add_hidden_unit, machine.log_partition_growth):
        with pytest.raises(UserValueError, match=message):
            ask(weights, bias)
    with pytest.raises(UserValueError, match="n must be at least 2"):
        machine.log_partition_growth(np.zeros(3), n=1)
    with pytest.raises(UserTypeError, match="n must be a whole number, got 'ten'"):
        machine.log_partition_growth(np.zeros(3), n="ten")


# --- features that tell rows from the machine's own draws -------------------------------------------------------------


def rows_of(p):
    return CountedRows(all_states(int(np.log2(len(p)))), p)


@pytest.mark.spec("INF-58")
def test_the_energy_itself_is_no_classifier_of_rows_from_draws_but_its_change_is():
    """Where data and draws share a distribution, slopes of the loss on -F + b do not vanish; on F' - F they do.

    With -F + b the mean slope is E[tanh((F - b) / 2) dF] / 2, by enumeration here (docs/decisions/0054).
    """
    model, V = RBMModel.of(*TINY), all_states(3)
    P, b = np.exp(model.log_prob(V)), -1.0

    def as_written(m):
        odds = -m.energy(V) + b
        return 0.5 * P @ (np.logaddexp(0, -odds) + np.logaddexp(0, odds))

    slopes = by_differences(model, as_written)
    assert max(np.abs(value).max() for value in slopes.values()) > 0.05
    F = model.energy(V)
    expected = model.energy_gradient(V, 0.5 * P * np.tanh((F - b) / 2))[0]
    for name, value in slopes.items():
        np.testing.assert_allclose(value, expected[name], atol=1e-8)
    objective = SelfContrast(refresh_every=5).build()

    class Sizes:
        batch_size, steps = 8, 1

    objective.begin(model, Sizes(), Noise(0, "begin"), Group())
    loss = objective._contrast(model, {"visible": V}, P, {"visible": V}, P, RBMModel.of(*TINY))[0]
    for value in loss.gradients.values():
        np.testing.assert_allclose(value, 0, atol=1e-12)


@pytest.mark.spec("INF-58")
def test_the_classifier_s_loss_and_its_slopes():
    random, l2 = np.random.default_rng(0), 0.3
    P, Q, at = random.dirichlet(np.ones(8)), random.dirichlet(np.ones(8)), random.normal(size=5)

    def by_hand(parameters):
        w, b, c = parameters[:3], parameters[3], parameters[4]
        h = 1 / (1 + np.exp(-(np.log(1 + np.exp(b + all_states(3) @ w)) - c)))
        return -0.5 * (P @ np.log(h) + Q @ np.log(1 - h)) + 0.5 * l2 * w @ w

    loss, slopes = feature_loss(at, rows_of(P), rows_of(Q), l2)
    assert loss == pytest.approx(by_hand(at), abs=1e-12)
    np.testing.assert_allclose(slopes, numerical_gradient(by_hand, at), atol=1e-8)


@pytest.mark.spec("INF-58")
def test_constant_weights_give_a_quarter_of_the_gradient_of_the_likelihood():
    """A unit without weights: every row is told alike, and its slope is that of the likelihood of the grown machine."""
    machine, V = RBMModel.of(*TINY), all_states(3)
    P, Q, b = np.random.default_rng(0).dirichlet(np.ones(8)), np.exp(RBMModel.of(*TINY).log_prob(V)), 0.7
    _, slopes = feature_loss(np.array([0, 0, 0, b, np.logaddexp(0, b)]), rows_of(P), rows_of(Q))

    def likelihood(w):
        p, _ = brute(*machine.with_hidden_unit(w, b).state().values())
        return P @ np.log(p)

    np.testing.assert_allclose(-4 * slopes[:3], numerical_gradient(likelihood, np.zeros(3)), atol=1e-8)
    np.testing.assert_allclose(slopes[3:], 0, atol=1e-12)


@pytest.mark.spec("INF-58")
@pytest.mark.parametrize("seed", range(3))
def test_no_round_lowers_the_exact_likelihood(seed):
    """And each raises it by the gain that it was chosen for."""
    random = np.random.default_rng(seed)
    P, V = random.dirichlet(0.3 * np.ones(16)), all_states(4)
    model = RBMModel.of(0.3 * random.normal(size=(4, 1)), np.zeros(4), np.zeros(1))
    data, values = rows_of(P), []
    for turn in range(6):
        p, _ = brute(*model.state().values())
        values.append(P @ np.log(p))
        own = CountedRows(V, p)
        feature = find_feature(data, own, own, Noise(seed, f"round/{turn}"), 0.0)
        model = model.with_hidden_unit(feature.weights, feature.bias)
        after, _ = brute(*model.state().values())
        assert P @ np.log(after) - values[-1] == pytest.approx(feature.gain, abs=1e-10)
        assert feature.gain > -1e-12
    assert values[-1] > values[0] + 0.1


@pytest.mark.spec("INF-58")
def test_small_steps_along_a_feature_that_rows_have_more_raise_the_likelihood():
    """exp(b + w v) of small b as a factor: the slope of the likelihood is E_data - E_model of exp(w v)."""
    P, V = np.random.default_rng(1).dirichlet(np.ones(8)), all_states(3)
    model = RBMModel.of(*TINY)
    p, _ = brute(*TINY)
    for w in np.random.default_rng(2).normal(size=(5, 3)):
        slope = (P - p) @ np.exp(V @ w)
        after, _ = brute(*model.with_hidden_unit(w, -16.0).state().values())
        change = P @ np.log(after) - P @ np.log(p)
        assert change == pytest.approx(slope * np.exp(-16.0), rel=1e-3)


@pytest.mark.spec("INF-58")
def test_features_are_added_to_a_fitted_machine():
    X = np.repeat([[1.0, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 1]], 20, axis=0)
    machine = RBM(n_hidden=1, objective="exact", epochs=20, random_state=0, dtype="float64").fit(X)
    scores = [machine.score(X)]
    for seed in range(3):
        machine = machine.add_feature(X, random_state=seed)
        scores.append(machine.score(X))
    assert (np.diff(scores) > 0.03).all()
    assert machine.n_hidden == 4
    drawn = machine.add_feature(X, n=2000, steps=30, random_state=5)  # draws in place of all rows
    assert drawn.score(X) > scores[-1]
    with pytest.raises(UserValueError, match="n must be at least 4"):
        machine.add_feature(X, n=2)
    with pytest.raises(UserValueError, match="l2 must be in"):
        machine.add_feature(X, l2=-1.0)
    with pytest.raises(UserValueError, match="starts must be at least 1"):
        machine.add_feature(X, starts=0)
    with pytest.raises(UserTypeError, match="starts must be a whole number"):
        machine.add_feature(X, starts=1.5)


@pytest.mark.spec("INF-58")
def test_wide_machines_learn_a_feature_from_draws():
    X = gnomon.data.load("digits").view("binary")[:600]
    machine = RBM(n_hidden=2, epochs=5, random_state=0).fit(X)
    before = machine.score(X)
    for seed in range(2):
        machine = machine.add_feature(X, steps=60, random_state=seed)
    assert machine.score(X) > before + 0.2


@pytest.mark.spec("INF-58")
def test_a_machine_that_has_the_data_s_distribution_gains_nothing():
    machine = fitted((np.zeros((3, 1)), np.zeros(3), np.zeros(1)))
    with pytest.raises(UserValueError, match="a new feature must raise the likelihood, got a gain of"):
        machine.add_feature(all_states(3), random_state=0)


# --- the machine of a distribution ------------------------------------------------------------------------------------


def divergence(p, machine):
    q, at = machine.log_prob(all_states(int(np.log2(len(p))))), p > 0
    return p[at] @ (np.log(p[at]) - q[at])


@pytest.mark.spec("REP-118")
def test_a_machine_has_the_distribution_that_it_is_built_for():
    p = np.random.default_rng(0).dirichlet(np.ones(8))
    machine = RBMModel.of_distribution(p.reshape(2, 2, 2), mass=1e4, sharpness=40)
    q, z = brute(*(value.astype(float) for value in machine.state().values()))
    assert p @ np.log(p / q) < 1e-12
    np.testing.assert_allclose(q, p, rtol=1e-10)
    assert z == pytest.approx(1e4, rel=1e-10)
    assert log_partition(machine).value == pytest.approx(np.log(1e4), abs=1e-10)
    assert machine.sizes["hidden"] == 8


@pytest.mark.spec("REP-118")
@pytest.mark.parametrize(("mass", "expected"), [(1e2, 0.039221), (1e4, 0.00039992)])
def test_states_outside_the_support_keep_their_first_weight(mass, expected):
    p = np.array([0.1, 0.0, 0.2, 0.0, 0.0, 0.3, 0.4, 0.0])
    machine = RBMModel.of_distribution(p, mass=mass)
    assert divergence(p, machine) == pytest.approx(np.log(1 + 4 / mass), abs=1e-12)
    assert divergence(p, machine) == pytest.approx(expected, rel=1e-4)
    assert machine.sizes["hidden"] == 4
    assert np.exp(log_partition(machine).value) == pytest.approx(mass + 4, rel=1e-10)
    np.testing.assert_allclose(np.exp(machine.log_prob(all_states(3)))[p == 0], 1 / (mass + 4), rtol=1e-9)


@pytest.mark.spec("REP-118")
def test_the_divergence_is_as_small_as_one_likes_and_large_numbers_do_no_harm():
    p = np.array([0.25, 0.0, 0.0, 0.75])
    found = [divergence(p, RBMModel.of_distribution(p, mass=10.0**k)) for k in (1, 3, 5, 7)]
    np.testing.assert_allclose(found, np.log1p(2 / 10.0 ** np.array([1, 3, 5, 7])), rtol=1e-6)
    assert divergence(p, RBMModel.of_distribution(p)) < 2e-6
    wide = RBMModel.of_distribution(p, mass=1e4, sharpness=1e6)
    assert divergence(p, wide) == pytest.approx(np.log1p(2e-4), rel=1e-6)
    assert wide.energy(np.ones((1, 2), np.float64)) == pytest.approx(-np.log(7500), abs=1e-6)


@pytest.mark.spec("REP-118")
def test_gibbs_chains_hardly_leave_a_state_of_such_a_machine():
    machine = RBMModel.of_distribution([0.25, 0.0, 0.25, 0.5], mass=1e4)
    kernel = block_kernel(machine, "visible")
    assert np.diag(kernel)[[0, 2, 3]].min() > 0.99  # a target that tells good samplers from bad ones
    p = np.exp(machine.log_prob(all_states(2)))
    np.testing.assert_allclose(kernel @ p, p, atol=1e-12)


@pytest.mark.spec("REP-118")
@pytest.mark.parametrize(
    ("p", "options", "message"),
    [
        ([0.1, 0.4, 0.5], {}, r"probabilities must be those of 2\^d states"),
        ([0.1, 0.4, 0.6, 0.1], {}, "sum to 1"),
        ([-0.5, 0.5, 0.5, 0.5], {}, "sum to 1"),
        ([np.nan, 1.0], {}, "sum to 1"),
        ([0.5, 0.5], {"mass": 2.0}, "mass must be a number above"),
        ([0.5, 0.5], {"mass": "large"}, "mass must be a number"),
        ([1e-320, 1.0], {}, "mass must be a number above"),
        ([0.5, 0.5], {"sharpness": 0.0}, "sharpness must be in"),
    ],
)
def test_what_is_no_distribution_is_refused(p, options, message):
    with pytest.raises(UserError, match=message):
        RBMModel.of_distribution(p, **options)
