"""Boltzmann machines and semi-restricted ones as systems, against tables of the joint distribution."""

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

import gnomon
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.variational.mean_field import mean_field_evidence
from gnomon.objectives.contrastive import PCD
from gnomon.objectives.positive import MeanField
from gnomon.systems.energy.boltzmann_machine import BoltzmannMachine
from gnomon.systems.energy.hidden_boltzmann_machine import HiddenBoltzmannMachine
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.rbm import RBM, RBMModel
from gnomon.systems.energy.semi_restricted_rbm import SemiRestrictedRBM
from oracles.binary import Joint, all_states
from oracles.layered import filled

U, B = np.array([[0, 0.5, -0.3], [0, 0, 0.2], [0, 0, 0]]), np.array([0.1, -0.2, 0.3])
"""The numbers of the row: three units."""


def energy_of(U, b):
    """-x'U x - b'x, pair by pair."""

    def energy(*parts):
        x = np.concatenate(parts)
        total = -sum(b[i] * x[i] for i in range(len(x)))
        return total - sum(U[i][j] * x[i] * x[j] for i, j in itertools.combinations(range(len(x)), 2))

    return energy


def holding(cls, U, b, d, **kwargs):
    """A system of d columns with these couplings and biases; fitted to rows first, which give it its columns."""
    system = cls(epochs=1, random_state=0, dtype="float64", **kwargs).fit(all_states(d))
    model = system.model_
    state = {"visible_bias": b[:d]}
    above = np.triu_indices(d, 1)
    if "visible_weight" in model.state():
        state["visible_weight"] = U[:d, :d][above][None]
    if len(b) > d:
        state |= {"weight": U[:d, d:], "hidden_bias": b[d:]}
        if "hidden_weight" in model.state():
            state["hidden_weight"] = U[d:, d:][np.triu_indices(len(b) - d, 1)][None]
    model.load({name: np.asarray(value) for name, value in state.items()})
    return system


def random_machine(n, seed=0, scale=0.8):
    random = np.random.default_rng(seed)
    return np.triu(scale * random.normal(size=(n, n)), 1), scale * random.normal(size=n)


# --- fully visible ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("GEN-001", "REP-140")
def test_the_row_in_numbers_through_the_verbs():
    system, x = holding(BoltzmannMachine, U, B, 3), all_states(3)
    assert system.log_partition().value == pytest.approx(2.306849, abs=5e-7)
    p = np.exp(system.log_prob(x))
    np.testing.assert_allclose(p @ x, (0.550078, 0.545920, 0.560306), atol=5e-7)
    assert p @ (x[:, 0] * x[:, 1]) == pytest.approx(0.329984, abs=5e-7)
    expected = np.array([energy_of(U, B)(row) for row in x])
    np.testing.assert_allclose(system.energy(x), expected, atol=1e-12)
    np.testing.assert_allclose(system.log_prob(x), -expected - np.logaddexp.reduce(-expected), atol=1e-12)
    assert system.score(x) == pytest.approx(np.log(p).mean())
    np.testing.assert_array_equal(system.couplings_, U + U.T)
    np.testing.assert_array_equal(system.bias_, B)
    np.testing.assert_allclose(system.reconstruct(x), 1 / (1 + np.exp(-(B + x @ (U + U.T)))), atol=1e-12)
    for i in range(3):  # the log-odds of one unit are the difference of two energies
        on, off = x.copy(), x.copy()
        on[:, i], off[:, i] = 1, 0
        np.testing.assert_allclose(system.energy(off) - system.energy(on), B[i] + x @ (U + U.T)[:, i], atol=1e-12)
    assert np.log(np.exp(-np.array([energy_of(U + U, B)(row) for row in x])).sum()) == pytest.approx(2.478142, abs=5e-7)
    twice = holding(BoltzmannMachine, 2 * U, B, 3)  # what storing U + U^T and counting all pairs would be
    assert twice.log_partition().value == pytest.approx(2.478142, abs=5e-7)
    none = holding(BoltzmannMachine, 0 * U, B, 3)
    assert none.log_partition().value == pytest.approx(np.log1p(np.exp(B)).sum(), abs=1e-12)


@pytest.mark.spec("GEN-001")
def test_spins_of_the_same_numbers_are_another_machine():
    """E(x) at x = (s + 1) / 2 has other couplings: a quarter of these, and biases with half the sum of a row's."""
    from gnomon.distributions.units import IsingUnits

    spins = LayeredMachine({"s": IsingUnits(3)}, [("s", "s")], dtype=torch.float64)
    pairs = U[np.triu_indices(3, 1)]
    spins.load({"s_s_weight": pairs[None], "s_bias": B})
    assert spins.log_partition() == pytest.approx(np.log(sum(np.exp(s @ U @ s + s @ B) for s in 2 * all_states(3) - 1)))
    assert abs(spins.log_partition() - 2.306849) > 0.01
    spins.load({"s_s_weight": pairs[None] / 4, "s_bias": B / 2 + (U + U.T).sum(1) / 4})
    constant = B.sum() / 2 + pairs.sum() / 4
    assert spins.log_partition() + constant == pytest.approx(2.306849, abs=5e-7)


@pytest.mark.spec("GEN-001", "REP-140")
def test_couplings_between_two_sets_alone_make_a_restricted_machine():
    random = np.random.default_rng(0)
    W, b, c = random.normal(size=(3, 2)), random.normal(size=3), random.normal(size=2)
    couplings = np.zeros((5, 5))
    couplings[:3, 3:] = W
    system, rbm = holding(BoltzmannMachine, couplings, np.concatenate([b, c]), 5), RBMModel.of(W, b, c)
    x = all_states(5)
    np.testing.assert_allclose(
        system.energy(x), rbm.joint_energy({"visible": x[:, :3], "hidden": x[:, 3:]}), atol=1e-12
    )
    assert system.log_partition().value == pytest.approx(rbm.log_partition(), abs=1e-12)


@pytest.mark.spec("GEN-001")
def test_samples_follow_the_table():
    """10,000 chains of 50 sweeps by chi-square; false alarm 1e-4."""
    couplings, b = random_machine(4)
    system = holding(BoltzmannMachine, couplings, b, 4)
    p = Joint(energy_of(couplings, b), (4,)).p
    drawn = system.sample(10_000, steps=50, random_state=1)
    counts = np.bincount((drawn @ [8, 4, 2, 1]).astype(int), minlength=16)
    assert chisquare(counts, 10_000 * p).pvalue > 1e-4
    walked = system.gibbs(drawn, steps=2, random_state=2)
    counts = np.bincount((walked @ [8, 4, 2, 1]).astype(int), minlength=16)
    assert chisquare(counts, 10_000 * p).pvalue > 1e-4


@pytest.mark.spec("GEN-001", "GEN-004")
def test_the_best_fit_has_the_datas_moments():
    """At the maximum of the likelihood both phases agree: single and pair means of model and data."""
    X = (np.random.default_rng(0).random((60, 4)) < [0.3, 0.5, 0.7, 0.4]).astype(float)
    X[:, 3] = np.where(np.arange(60) % 3 == 0, X[:, 3], X[:, 0])
    settings = {"epochs": 3000, "batch_size": None, "learning_rate": 1.0, "dtype": "float64", "random_state": 0}
    system = BoltzmannMachine(objective="exact", **settings).fit(X)
    x = all_states(4)
    p = np.exp(system.log_prob(x))
    np.testing.assert_allclose(p @ x, X.mean(0), atol=1e-6)
    np.testing.assert_allclose((x * p[:, None]).T @ x, X.T @ X / 60, atol=1e-6)
    likely = BoltzmannMachine(objective="pseudolikelihood", **settings).fit(X)
    assert system.score(X) - 0.05 < likely.score(X) <= system.score(X) + 1e-9


@pytest.mark.spec("GEN-001")
def test_rows_that_are_not_binary_are_refused_with_their_place():
    with pytest.raises(UserValueError, match=r"\(row 1, column 0\).*binarize"):
        BoltzmannMachine(random_state=0).fit(np.array([[0.0, 1.0], [0.4, 1.0]]))


@pytest.mark.spec("GEN-001")
def test_large_machines_estimate_their_likelihood():
    X = (np.random.default_rng(0).random((60, 30)) < 0.3).astype(float)
    system = BoltzmannMachine(epochs=2, random_state=0).fit(X)
    assert not hasattr(system, "log_prob")
    score = system.evaluate(X)["log_likelihood"]
    assert score.kind == "estimate" and 0 < score.error < 1
    with pytest.raises(UserValueError, match="30 units"):
        system.log_partition("exact")


# --- hidden units -----------------------------------------------------------------------------------------------------

WITH_HIDDEN = {
    "whole": (HiddenBoltzmannMachine, {}, ()),
    "visible": (SemiRestrictedRBM, {}, ("hidden",)),
    "hidden": (SemiRestrictedRBM, {"lateral": "hidden"}, ("visible",)),
}


def with_hidden(name, d=3, m=3, seed=0):
    """The system, and the table of its joint distribution."""
    cls, kwargs, without = WITH_HIDDEN[name]
    couplings, b = random_machine(d + m, seed)
    if "hidden" in without:
        couplings[d:, d:] = 0
    if "visible" in without:
        couplings[:d, :d] = 0
    return holding(cls, couplings, b, d, n_hidden=m, **kwargs), Joint(energy_of(couplings, b), (d, m)), couplings, b


def posterior(joint, d):
    """P(h | v) for each v in order, shape (2^d, 2^m)."""
    table = joint.p.reshape(2**d, -1)
    return table / table.sum(1, keepdims=True)


@pytest.mark.spec("GEN-002", "INF-73")
@pytest.mark.parametrize("name", WITH_HIDDEN)
def test_free_energies_and_posteriors_are_sums_of_the_table(name):
    system, joint, couplings, b = with_hidden(name)
    x, h = all_states(3), all_states(3)
    np.testing.assert_allclose(-system.free_energy(x), joint.log_marginal_mass(0), atol=1e-10)
    np.testing.assert_allclose(np.exp(system.log_prob(x)), joint.marginal(0), atol=1e-10)
    assert system.log_partition().value == pytest.approx(joint.log_z, abs=1e-10)
    np.testing.assert_allclose(system.transform(x), posterior(joint, 3) @ h, atol=1e-10)
    np.testing.assert_array_equal(system.couplings_, couplings + couplings.T)
    np.testing.assert_array_equal(system.bias_, b)


@pytest.mark.spec("INF-73")
def test_the_free_energy_of_coupled_visible_units_is_a_closed_form():
    system, _, couplings, b = with_hidden("visible")
    x, L, W = all_states(3), couplings[:3, :3] + couplings[:3, :3].T, couplings[:3, 3:]
    field = b[3:] + x @ W
    expected = -x @ b[:3] - 0.5 * ((x @ L) * x).sum(1) - np.log1p(np.exp(field)).sum(1)
    np.testing.assert_allclose(system.free_energy(x), expected, atol=1e-12)
    np.testing.assert_allclose(system.transform(x), 1 / (1 + np.exp(-field)), atol=1e-12)


@pytest.mark.spec("GEN-002", "INF-73")
@pytest.mark.parametrize("name", WITH_HIDDEN)
def test_without_lateral_couplings_it_is_the_restricted_machine(name):
    cls, kwargs, _ = WITH_HIDDEN[name]
    random = np.random.default_rng(0)
    W, b, c = random.normal(size=(3, 2)), random.normal(size=3), random.normal(size=2)
    couplings = np.zeros((5, 5))
    couplings[:3, 3:] = W
    system, x = holding(cls, couplings, np.concatenate([b, c]), 3, n_hidden=2, **kwargs), all_states(3)
    rbm = RBM(n_hidden=2, epochs=1, random_state=0, dtype="float64").fit(x)
    rbm.model_ = RBMModel.of(W, b, c)
    for verb in ("energy", "log_prob", "transform"):
        np.testing.assert_allclose(getattr(system, verb)(x), getattr(rbm, verb)(x), atol=1e-12)
    steps = dict.fromkeys(range(3), 1)  # the same chains too: a sweep draws the numbers of a whole layer
    for seed in steps:
        if name == "visible":
            np.testing.assert_array_equal(system.gibbs(x, 3, random_state=seed), rbm.gibbs(x, 3, random_state=seed))


@pytest.mark.spec("GEN-002")
def test_a_pattern_of_hidden_couplings_is_a_deep_machine_and_none_a_visible_one():
    units = {"visible": 3, "one": 2, "two": 2}
    from gnomon.distributions.units import BernoulliUnits

    layers = {name: BernoulliUnits(n) for name, n in units.items()}
    deep = filled(LayeredMachine(layers, [("visible", "one"), ("one", "two")], dtype=torch.float64))
    p = deep.state()
    couplings, b = np.zeros((7, 7)), np.concatenate([p[f"{name}_bias"] for name in units])
    couplings[:3, 3:5], couplings[3:5, 5:] = p["visible_one_weight"], p["one_two_weight"]
    system, x = holding(HiddenBoltzmannMachine, couplings, b, 3, n_hidden=4), all_states(3)
    np.testing.assert_allclose(system.log_prob(x), deep.log_prob(x), atol=1e-12)

    couplings, b = random_machine(3)
    padded = np.zeros((5, 5))
    padded[:3, :3] = couplings
    system = holding(HiddenBoltzmannMachine, padded, np.concatenate([b, [0.7, -0.4]]), 3, n_hidden=2)
    visible = holding(BoltzmannMachine, couplings, b, 3)
    np.testing.assert_allclose(system.log_prob(x), visible.log_prob(x), atol=1e-12)


@pytest.mark.spec("GEN-002", "INF-73")
@pytest.mark.parametrize("name", WITH_HIDDEN)
def test_rows_and_hidden_states_are_drawn_from_the_table(name):
    """8,000 chains each by chi-square; false alarm 1e-4."""
    system, joint, _, _ = with_hidden(name)
    drawn = system.sample(8_000, steps=60, random_state=1)
    counts = np.bincount((drawn @ [4, 2, 1]).astype(int), minlength=8)
    assert chisquare(counts, 8_000 * joint.marginal(0)).pvalue > 1e-4
    row = np.array([[1.0, 0, 1]])
    hidden = system.sample_hidden(np.repeat(row, 8_000, 0), steps=60, random_state=1)
    counts = np.bincount((hidden @ [4, 2, 1]).astype(int), minlength=8)
    assert chisquare(counts, 8_000 * posterior(joint, 3)[5]).pvalue > 1e-4


@pytest.mark.spec("GEN-002")
def test_hidden_units_learn_what_pairs_cannot():
    """Rows of even parity: single and pair means are those of fair coins, so that visible couplings learn nothing."""
    X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]], dtype=float)
    settings = {"objective": "exact", "batch_size": None, "dtype": "float64", "random_state": 3, "optimizer": "adam"}
    pairs = BoltzmannMachine(epochs=300, learning_rate=0.05, **settings).fit(X)
    assert pairs.score(X) == pytest.approx(-3 * np.log(2), abs=1e-3)
    hidden = HiddenBoltzmannMachine(n_hidden=3, epochs=1500, learning_rate=0.05, **settings).fit(X)
    assert hidden.score(X) > -1.6  # of -2 log 2 = -1.386 at best


@pytest.mark.spec("GEN-002")
@pytest.mark.parametrize("positive", ["clamped", MeanField()])
def test_chains_with_hidden_units_learn(positive):
    X = np.repeat([[1.0, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    objective = PCD(n_chains=50, positive=positive)
    system = HiddenBoltzmannMachine(n_hidden=2, objective=objective, epochs=150, learning_rate=0.1, random_state=0).fit(
        X
    )
    assert system.score(X) > -1.3  # of -log 2 = -0.69 at best, -2.77 without couplings


@pytest.mark.parametrize("objective", ["pseudolikelihood", "ratio_matching", "nce"])
def test_what_needs_the_probability_of_a_row_is_refused_beside_coupled_hidden_units(objective):
    X = all_states(3)
    for system in (HiddenBoltzmannMachine(n_hidden=2), SemiRestrictedRBM(n_hidden=2, lateral="hidden")):
        with pytest.raises(UserTypeError, match="independent"):
            system.set_params(objective=objective, epochs=1, random_state=0).fit(X)
    for system in (BoltzmannMachine(), SemiRestrictedRBM(n_hidden=2)):
        system.set_params(objective=objective, epochs=1, random_state=0).fit(X)


def test_beyond_twelve_coupled_hidden_units_codes_are_mean_field_and_scores_a_bound():
    X = (np.random.default_rng(0).random((20, 6)) < 0.4).astype(float)
    system = HiddenBoltzmannMachine(n_hidden=22, epochs=3, learning_rate=0.1, random_state=0, dtype="float64").fit(X)
    means = system.transform(X)
    C, b = system.couplings_, system.bias_
    field = b[6:] + X @ C[:6, 6:] + means @ C[6:, 6:]
    np.testing.assert_allclose(means, 1 / (1 + np.exp(-field)), atol=1e-4)
    score = system.evaluate(X)["log_likelihood"]
    assert score.kind == "estimate" and "mean-field lower bound" in score.note and not hasattr(system, "log_prob")
    small = HiddenBoltzmannMachine(n_hidden=5, epochs=3, learning_rate=0.1, random_state=0, dtype="float64").fit(X)
    bound = mean_field_evidence(small.model_, {"visible": X}, steps=200, tol=1e-8) - small.log_partition().value
    assert (bound <= small.log_prob(X) + 1e-12).all() and (bound > small.log_prob(X) - 0.5).all()


def test_the_systems_are_found_by_name():
    assert isinstance(gnomon.make("boltzmann-machine"), BoltzmannMachine)
    assert isinstance(gnomon.make("hidden-boltzmann-machine"), HiddenBoltzmannMachine)
    assert isinstance(gnomon.make("semi-restricted-rbm"), SemiRestrictedRBM)
