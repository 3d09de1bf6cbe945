"""Rows with missing cells: what machines say of them against tables of the joint distribution and mixtures by hand."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import chisquare, norm

import gnomon
from gnomon.distributions.joined import JoinedUnits
from gnomon.distributions.units import BernoulliUnits, CategoricalUnits, GaussianUnits, IsingUnits
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.exact.moments import posterior_moments
from gnomon.systems.energy.gaussian_rbm import GaussianRBM, GaussianRBMModel
from gnomon.systems.energy.given import given_columns
from gnomon.systems.energy.label_rbm import LabelRBM
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.rbm import RBM, RBMModel
from oracles.binary import all_states
from oracles.layered import COUPLED, KINDS, VALUES, Table, filled, machine_of

NAN = np.nan
T1 = (np.array([[1.0, -1.0], [0.5, 2.0]]), np.array([0.1, -0.2]), np.array([0.3, -0.4]))
BINARY = ("rbm", "boltzmann-machine", "semi-restricted-rbm", "hidden-boltzmann-machine")


def machine(name, d=4, scale=0.8):
    """A system of d columns with random parameters, and p(v) of every row of bits, from its table."""
    kwargs = {} if name == "boltzmann-machine" else {"n_hidden": 3}
    system = gnomon.make(name, epochs=1, random_state=0, dtype="float64", **kwargs).fit(all_states(d))
    filled(system.model_, scale=scale)
    system._memory.clear()
    return system, by_hand(system.model_, d)


def by_hand(model, d):
    """p(v) by plain loops over the couplings."""
    p = {name: np.asarray(value, float) for name, value in model.state().items()}
    bias = np.concatenate([p[f"{block}_bias"] for block in ("visible", "hidden") if f"{block}_bias" in p])
    C = np.zeros((len(bias), len(bias)))
    if "weight" in p:
        C[:d, d:] = p["weight"]
    for name, start, stop in (("visible_weight", 0, d), ("hidden_weight", d, len(bias))):
        if name in p:
            for w, (i, j) in zip(p[name][0], itertools.combinations(range(start, stop), 2), strict=True):
                C[i, j] = w
    x = all_states(len(bias))
    mass = np.exp((x @ C * x).sum(1) + x @ bias).reshape(2**d, -1).sum(1)
    return mass / mass.sum()


def conditional(p, row):
    """States that agree with the known cells, and their probabilities."""
    x, known = all_states(len(row)), ~np.isnan(row)
    here = (x[:, known] == row[known]).all(1)
    return x[here], p[here] / p[here].sum(), p[here].sum()


ROWS = np.array([[1, NAN, 0, NAN], [NAN, 1, NAN, NAN], [0, 1, 1, 0], [NAN, NAN, NAN, NAN], [1, 1, NAN, 0]])


@pytest.mark.spec("GEN-034", "INF-46", "GEN-002")
@pytest.mark.parametrize("name", BINARY)
def test_moments_modes_and_probabilities_are_those_of_the_table(name):
    system, p = machine(name)
    found = {how: system.impute(ROWS, how=how) for how in ("mean", "mode", "deviation")}
    log_p = system.log_prob_observed(ROWS)
    for k, row in enumerate(ROWS):
        x, q, total = conditional(p, row)
        mean, gaps = q @ x, np.isnan(row)
        np.testing.assert_allclose(found["mean"][k], np.where(gaps, mean, row), atol=1e-10)
        np.testing.assert_array_equal(found["mode"][k], np.where(gaps, mean > 0.5, row))
        np.testing.assert_allclose(found["deviation"][k], gaps * np.sqrt(np.maximum(mean * (1 - mean), 0)), atol=1e-10)
        assert log_p[k] == pytest.approx(np.log(total), abs=1e-10)
    np.testing.assert_array_equal(found["mean"][2], ROWS[2])
    assert log_p[3] == 0
    np.testing.assert_allclose(log_p[2], system.log_prob(ROWS[2:3])[0], atol=1e-12)


@pytest.mark.spec("GEN-034", "INF-46", "GEN-002")
@pytest.mark.parametrize("name", BINARY)
def test_draws_follow_the_conditional_and_never_change_what_is_known(name):
    """8,000 chains for each of two rows by chi-square; false alarm 1e-4."""
    system, p = machine(name)
    for row in (ROWS[0], ROWS[1]):
        drawn = system.conditional_sample(np.tile(row, (8_000, 1)), steps=60, random_state=1)
        known = ~np.isnan(row)
        np.testing.assert_array_equal(drawn[:, known], np.tile(row[known], (8_000, 1)))
        x, q, _ = conditional(p, row)
        index = {tuple(one): k for k, one in enumerate(x)}
        counts = np.bincount([index[tuple(one)] for one in drawn], minlength=len(x))
        assert chisquare(counts, 8_000 * q).pvalue > 1e-4


@pytest.mark.spec("GEN-034", "INF-46")
@pytest.mark.parametrize("name", BINARY)
def test_chains_approach_what_is_exact(name):
    """The mean of 400 chains' averages over 200 sweeps; 5 standard errors of the chains."""
    system, p = machine(name)
    row = ROWS[1]
    x, q, _ = conditional(p, row)
    rows = np.tile(row, (400, 1))
    found = system.impute(rows, method="gibbs", steps=200, random_state=0)
    error = found.std(0, ddof=1) / 20
    assert (np.abs(found.mean(0) - q @ x) <= 5 * error + 1e-12).all()
    np.testing.assert_array_equal(found[:, 1], 1)


@pytest.mark.spec("GEN-034")
def test_the_row_in_numbers():
    """T1: P(v2 = 1 | v1 = 1) is 0.736730, along a chain too, and 0.787442 by mean field."""
    system = RBM(n_hidden=2, epochs=1, random_state=0, dtype="float64").fit(all_states(2))
    system.model_ = RBMModel.of(*T1)
    row = np.array([[1.0, NAN]])
    for method in ("auto", "exact"):
        np.testing.assert_allclose(system.impute(row, method=method), [[1, 0.736730]], atol=5e-7)
    np.testing.assert_allclose(system.impute(row, method="mean_field"), [[1, 0.787442]], atol=5e-7)
    chain = system.impute(np.repeat(row, 1000, 0), method="gibbs", steps=100, random_state=0)[:, 1]
    assert abs(chain.mean() - 0.736730) < 4.5 * chain.std() / np.sqrt(1000)  # false alarm 1e-5
    masked = system.impute(
        np.array([[1.0, 0.0]]), np.array([[False, True]])
    )  # what a masked cell holds is not looked at
    np.testing.assert_allclose(masked, [[1, 0.736730]], atol=5e-7)
    frame = pd.DataFrame({"a": [1, None], "b": [None, 1.0]})
    named = RBM(n_hidden=2, epochs=1, random_state=0, dtype="float64").fit(
        pd.DataFrame(all_states(2), columns=["a", "b"])
    )
    named.model_ = RBMModel.of(*T1)
    np.testing.assert_allclose(named.impute(frame)[0], [1, 0.736730], atol=5e-7)
    np.testing.assert_allclose(system.impute([[1, None]]), [[1, 0.736730]], atol=5e-7)


# --- real columns -----------------------------------------------------------------------------------------------------


def mixture(model):
    """The components of a Gaussian-Bernoulli machine by hand: weights, means (2^m, d), deviations (d,)."""
    p = {name: np.asarray(value, float) for name, value in model.state().items()}
    h, beta = all_states(p["weight"].shape[1]), np.exp(p["visible_log_precision"])
    means = p["visible_bias"] + h @ p["weight"].T
    # exp of the part of -E that is left when v is integrated out
    log_w = h @ p["hidden_bias"] + 0.5 * (beta * (means**2 - p["visible_bias"] ** 2)).sum(1)
    weights = np.exp(log_w - log_w.max())
    return weights / weights.sum(), means, 1 / np.sqrt(beta)


@pytest.mark.spec("GEN-034", "INF-46")
@pytest.mark.parametrize("standardize", [False, True])
def test_real_columns_are_those_of_the_mixture_given_the_known_ones(standardize):
    random = np.random.default_rng(0)
    X = random.normal(size=(50, 3)) * [1.0, 5.0, 0.2] + [0.0, 10.0, -1.0]
    system = GaussianRBM(n_hidden=2, epochs=1, random_state=0, dtype="float64", standardize=standardize).fit(X)
    system.model_ = GaussianRBMModel.of(
        random.normal(size=(3, 2)), random.normal(size=3), random.normal(size=2), [1.0, 2.0, 0.5]
    )
    system._memory.clear()
    shift, unit = (X.mean(0), X.std(0)) if standardize else (np.zeros(3), np.ones(3))
    weights, means, deviations = mixture(system.model_)
    rows = np.array([[0.3, NAN, -1.2], [NAN, 11.0, NAN], [NAN, NAN, NAN]])
    found, spread, log_p = system.impute(rows), system.impute(rows, how="deviation"), system.log_prob_observed(rows)
    drawn = system.conditional_sample(np.tile(rows[0], (4000, 1)), steps=60, random_state=0)
    for k, row in enumerate(rows):
        known = ~np.isnan(row)
        z = (row - shift) / unit
        each = np.prod(norm.pdf(z[known], means[:, known], deviations[known]) / unit[known], axis=1)
        w = weights * each / (weights @ each)
        mean = w @ means
        variance = w @ (means**2 + deviations**2) - mean**2
        np.testing.assert_allclose(found[k], np.where(known, row, mean * unit + shift), rtol=1e-9)
        np.testing.assert_allclose(spread[k], np.where(known, 0, np.sqrt(variance) * unit), rtol=1e-7)
        assert log_p[k] == pytest.approx(np.log(weights @ each), abs=1e-9)
        if k == 0:
            error = np.sqrt(variance[1] / 4000) * unit[1]
            assert abs(drawn[:, 1].mean() - found[k, 1]) < 4.5 * error  # false alarm 1e-5
            np.testing.assert_array_equal(drawn[:, [0, 2]], np.tile(row[[0, 2]], (4000, 1)))
    with pytest.raises(UserValueError, match="how must be mean, sample or deviation for real columns, got 'mode'"):
        system.impute(rows, how="mode")


# --- rows and classes -------------------------------------------------------------------------------------------------


@pytest.mark.spec("GEN-034")
@pytest.mark.parametrize("visible", ["bernoulli", "gaussian"])
def test_classes_of_rows_with_missing_cells_sum_over_them(visible):
    X = all_states(3)
    y = np.array(list("abcabcab"))
    system = LabelRBM(n_hidden=3, visible=visible, epochs=1, random_state=0, dtype="float64", standardize=False).fit(
        X, y
    )
    filled(system.model_)
    system._memory.clear()
    rows = np.array([[1, NAN, 0], [NAN, NAN, NAN], [1.0, 0, 1]])
    proba = system.predict_proba_observed(rows)
    p = {name: np.asarray(value, float) for name, value in system.model_.state().items()}
    W, U, h = p["weight"][:3], p["weight"][3:], all_states(3)
    b, d, c = p["visible_bias"][:3], p["visible_bias"][3:], p["hidden_bias"]
    for k, row in enumerate(rows):
        known, mass = ~np.isnan(row), np.zeros(3)
        for label, state in itertools.product(range(3), h):
            field = W @ state
            weight = np.exp(d[label] + c @ state + U[label] @ state)
            if visible == "bernoulli":
                weight *= np.prod(np.exp((field + b)[known] * row[known])) * np.prod(1 + np.exp((field + b)[~known]))
            else:
                # exp(-(v - b)^2 / 2 + v f), integrated over what is not known
                weight *= np.exp((-0.5 * (row - b) ** 2 + row * field)[known].sum())
                weight *= np.exp((b * field + 0.5 * field**2)[~known].sum()) * np.sqrt(2 * np.pi) ** (~known).sum()
            mass[label] += weight
        np.testing.assert_allclose(proba[k], mass / mass.sum(), atol=1e-10)
        assert system.predict_observed(rows)[k] == "abc"[mass.argmax()]
    filled_in = np.where(np.isnan(rows), 0.0, rows)
    np.testing.assert_allclose(system.predict_proba_observed(filled_in, np.isnan(rows)), proba, atol=1e-12)
    with pytest.raises(UserValueError, match="NaN in X is missing"):
        system.predict(rows)
    np.testing.assert_allclose(proba[2:], system.predict_proba(rows[2:]), atol=1e-10)
    done = system.impute(rows)
    assert done.shape == (3, 3) and not np.isnan(done).any()
    np.testing.assert_array_equal(done[2], rows[2])
    np.testing.assert_allclose(
        np.exp(system.log_prob_observed(rows[2:])), np.exp(system.log_prob(rows[2:])), atol=1e-10
    )
    with pytest.raises(UserValueError, match="NaN in X is missing"):
        system.fit(np.where(X == 1, X, NAN), y)


@pytest.mark.spec("GEN-034")
def test_deep_machines_fill_in_too():
    system = gnomon.make("dbm", hidden=(3, 2), epochs=1, random_state=0, dtype="float64").fit(all_states(4))
    filled(system.model_)
    system._memory.clear()
    p = np.exp(system.log_prob(all_states(4)))
    found, log_p = system.impute(ROWS), system.log_prob_observed(ROWS)
    for k, row in enumerate(ROWS):
        x, q, total = conditional(p, row)
        np.testing.assert_allclose(found[k], np.where(np.isnan(row), q @ x, row), atol=1e-10)
        assert log_p[k] == pytest.approx(np.log(total), abs=1e-10)


# --- a machine taken apart --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", ["three", *COUPLED])
def test_a_machine_of_given_columns_is_the_same_distribution(shape, kind):
    whole = machine_of(shape, KINDS[kind])
    table = Table(whole, VALUES[KINDS[kind]])
    seen = np.arange(whole.sizes["visible"]) % 2 == 0
    given = given_columns(whole, seen)
    x = table.state["visible"]
    state = {block: value for block, value in table.state.items() if block != "visible"}
    state |= {"seen": x[:, seen], "missing": x[:, ~seen]}
    np.testing.assert_allclose(given.machine.joint_energy(state), table.energy, atol=1e-12)
    found = posterior_moments(given.machine, {"seen": x[:1, seen]})
    here = (x[:, seen] == x[0, seen]).all(1)
    q = table.p[here] / table.p[here].sum()
    for block in found:
        mean = q @ state[block][here]
        np.testing.assert_allclose(found[block][0][0], mean, atol=1e-11)
        np.testing.assert_allclose(found[block][1][0], q @ state[block][here] ** 2 - mean**2, atol=1e-11)
    alone = posterior_moments(whole, {})
    for block, value in table.state.items():
        np.testing.assert_allclose(alone[block][0][0], table.p @ value, atol=1e-11)


def test_a_category_is_known_whole_or_not_at_all():
    layer = JoinedUnits(BernoulliUnits(2), CategoricalUnits(1, 3))
    whole = filled(LayeredMachine({"v": layer, "h": BernoulliUnits(2)}, [("v", "h")], dtype=torch.float64))
    given = given_columns(whole, np.array([True, False, True, True, True]))
    assert given.machine.sizes == {"seen": 1, "missing": 1, "seen_1": 3, "h": 2}
    with pytest.raises(UserTypeError, match="known all or none"):
        given_columns(whole, np.array([True, False, True, False, True]))
    real = filled(LayeredMachine({"v": GaussianUnits(3), "h": IsingUnits(2)}, [("v", "h")], dtype=torch.float64))
    assert given_columns(real, np.array([True, False, True])).machine.sizes == {"seen": 2, "missing": 1, "h": 2}


# --- refusals and large machines --------------------------------------------------------------------------------------


def test_what_cannot_be_is_refused():
    system, _ = machine("rbm")
    for kwargs, match in (
        ({"how": "median"}, "how must be one of mean, mode, sample, deviation, got 'median'"),
        ({"method": "em"}, "method must be one of auto, exact, mean_field, gibbs, got 'em'"),
        ({"mask": np.zeros((2, 2), bool)}, r"mask must be truth values of shape \(5, 4\)"),
        ({"mask": np.zeros(ROWS.shape)}, "mask must be truth values"),
    ):
        with pytest.raises(UserValueError, match=match):
            system.impute(ROWS, **kwargs)
    with pytest.raises(ValueError, match="4 features"):
        system.impute(ROWS[:, :3])
    with pytest.raises(UserValueError, match=r"\[0, 1\]"):
        system.impute(np.where(np.isnan(ROWS), ROWS, 7.0))
    with pytest.raises(UserValueError, match="NaN in X is missing"):
        system.log_prob(ROWS)


def test_beyond_what_is_enumerated_auto_walks_and_exact_says_so():
    X = (np.random.default_rng(0).random((60, 30)) < 0.4).astype(float)
    X[:, 1] = X[:, 0]
    system = gnomon.make("rbm", n_hidden=30, epochs=60, learning_rate=0.1, random_state=0).fit(X)
    rows = X[:8].copy()
    rows[:, 1:15] = NAN
    found = system.impute(rows, random_state=0)
    np.testing.assert_array_equal(found, system.impute(rows, method="gibbs", random_state=0))
    assert found[X[:8, 0] == 1, 1].min() > found[X[:8, 0] == 0, 1].max()  # the copy of a known column is found
    with pytest.raises(UserValueError, match=r"at most 2\^12 states to enumerate, got 2\^14"):
        system.impute(rows, method="exact")
    assert not hasattr(system, "log_prob_observed")
    np.testing.assert_array_equal(  # a row does not depend on the rows beside it
        system.conditional_sample(rows, random_state=1, steps=5)[:3],
        system.conditional_sample(rows[:3], random_state=1, steps=5),
    )
