"""Markov random fields: every answer against sums over all assignments, and what is refused."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chisquare

from gnomon.errors import UserTypeError, UserValueError
from gnomon.graphs.undirected import UndirectedGraph
from gnomon.inference.undirected import MarkovNetwork
from gnomon.numeric.noise import Noise

FIGURE = ("ab", "bc", "ad", "be", "ef")
"""The graph of five edges over six variables: 1/Z phi_ab phi_bc phi_ad phi_be phi_ef."""


def drawn(scopes, sizes, seed, zeros=0.0):
    """A network and its tables of plain weights."""
    random = np.random.default_rng(seed)
    network, tables = MarkovNetwork(sizes), []
    for scope in scopes:
        table = random.gamma(1.0, size=[sizes[name] for name in scope])
        table = np.where(random.random(table.shape) < zeros, 0.0, table)
        table.flat[0] = 1.0
        network.add_factor(tuple(scope), table)
        tables.append((tuple(scope), table))
    return network, tables


def by_hand(tables, sizes):
    """The mass of every assignment, by one loop of products."""
    names = list(sizes)
    states = list(itertools.product(*(range(k) for k in sizes.values())))
    mass = []
    for state in states:
        value = dict(zip(names, state, strict=True))
        mass.append(math.prod(float(table[tuple(value[n] for n in scope)]) for scope, table in tables))
    return np.array(states), np.array(mass)


def columns(sizes, states):
    return {name: states[:, i] for i, name in enumerate(sizes)}


CASES = [
    (FIGURE, dict.fromkeys("abcdef", 2), 0.0),
    (FIGURE, {"a": 2, "b": 3, "c": 1, "d": 2, "e": 4, "f": 2}, 0.2),
    (("abc", "cd", "a", "cd", "e"), {"a": 2, "b": 2, "c": 3, "d": 2, "e": 2, "alone": 3}, 0.0),
    (
        [(f"x{i}", f"x{(i + 1) % 12}") for i in range(12)] + [("x0", "x5", "x9")],
        {f"x{i}": 2 for i in range(12)},
        0.0,
    ),
]


@pytest.mark.spec("REP-135")
@pytest.mark.parametrize(("scopes", "sizes", "zeros"), CASES)
def test_every_answer_is_the_sum_over_all_assignments(scopes, sizes, zeros):
    network, tables = drawn(scopes, sizes, 1, zeros)
    states, mass = by_hand(tables, sizes)
    names, p = list(sizes), mass / mass.sum()
    with np.errstate(divide="ignore"):
        log_mass = np.log(mass)
    np.testing.assert_allclose(network.log_prob_unnormalized(columns(sizes, states)), log_mass, atol=1e-12)
    np.testing.assert_allclose(np.exp(network.log_prob(columns(sizes, states))), p, atol=1e-12)
    assert network.log_partition() == pytest.approx(math.log(mass.sum()), abs=1e-12)
    first, last = names[0], names[-2]
    law = np.zeros((sizes[last], sizes[first]))
    np.add.at(law, (states[:, -2], states[:, 0]), p)
    np.testing.assert_allclose(network.marginal([last, first]).probabilities, law, atol=1e-12)
    seen = states[p.argmax()]
    held = states[:, 1] == seen[1]
    given = np.bincount(states[held, 0], p[held], sizes[first]) / p[held].sum()
    np.testing.assert_allclose(network.marginal([first], {names[1]: seen[1]}).probabilities, given, atol=1e-12)
    best, log_weight = network.map()
    assert [best[name] for name in names] == seen.tolist()
    assert log_weight == pytest.approx(log_mass.max(), abs=1e-12)
    for i, name in enumerate(names):
        linked = {other for scope in scopes if name in scope for other in scope} - {name}
        assert network.neighbors(name) == tuple(other for other in names if other in linked)
        rest = [j for j in range(len(names)) if j != i]  # given its neighbors it does not depend on the others
        near = [names.index(other) for other in linked]
        assert not _depends(states, p, i, rest, near)


def _depends(states, p, i, rest, near):
    """Whether p(x_i | rest) differs among states that agree on the neighbors of x_i."""
    whole, found = {}, {}
    for state, mass in zip(states, p, strict=True):
        law = whole.setdefault(tuple(state[rest]), np.zeros(states[:, i].max() + 1))
        law[state[i]] += mass
    for state in states:
        law = whole[tuple(state[rest])]
        if law.sum() > 1e-15:
            found.setdefault(tuple(state[near]), []).append(law / law.sum())
    return any(np.ptp(np.array(laws), axis=0).max() > 1e-9 for laws in found.values())


@pytest.mark.spec("REP-135")
def test_draws_follow_the_law_given_evidence_too():
    sizes = {"a": 2, "b": 2, "c": 3, "d": 2}
    network, tables = drawn(("ab", "bc", "cd"), sizes, 3)
    states, mass = by_hand(tables, sizes)
    n = 20_000
    for evidence in ({}, {"b": 1}):
        held = np.array([all(dict(zip(sizes, s, strict=True))[k] == v for k, v in evidence.items()) for s in states])
        rows = network.sample(n, Noise(0, f"draws/{len(evidence)}"), evidence)
        number = np.ravel_multi_index([rows[name] for name in sizes], tuple(sizes.values()))
        counts = np.bincount(number, minlength=len(states))
        assert counts[~held].sum() == 0
        assert chisquare(counts[held], n * mass[held] / mass[held].sum()).pvalue > 1e-4  # false alarm 1e-4
        assert set(rows.keys()) == set(sizes)


@pytest.mark.spec("REP-135")
def test_functions_and_energies_are_the_same_factors_as_tables():
    """phi = exp(-E): positive by construction, and a constant in E moves Z alone."""
    energy = np.random.default_rng(0).normal(size=(2, 3))
    states = {"a": np.repeat([0, 1], 3), "b": np.tile([0, 1, 2], 2)}
    tables, functions, energies, shifted = (MarkovNetwork({"a": 2, "b": 3}) for _ in range(4))
    tables.add_factor(("a", "b"), np.exp(-energy))
    functions.add_factor(("b", "a"), lambda b, a: np.exp(-energy[a, b]))
    energies.add_energy(("a", "b"), energy)
    shifted.add_energy(("a", "b"), lambda a, b: energy[a, b] + 700.0)
    for network in (functions, energies, shifted):
        np.testing.assert_allclose(network.log_prob(states), tables.log_prob(states), atol=1e-12)
    assert shifted.log_partition() == pytest.approx(tables.log_partition() - 700, abs=1e-11)
    assert energies.log_partition() == pytest.approx(np.log(np.exp(-energy).sum()), abs=1e-12)


@pytest.mark.spec("REP-135")
def test_factors_multiply_and_answers_follow_a_later_factor():
    network = MarkovNetwork({"a": 2, "b": 2})
    assert network.neighbors("a") == ()
    assert network.log_partition() == pytest.approx(math.log(4))
    network.add_factor("a", [1, 3])
    network.add_factor(("a", "b"), [[1, 0], [2, 5]])
    assert network.log_partition() == pytest.approx(math.log(1 + 0 + 6 + 15))
    assert network.neighbors("a") == ("b",)
    network.add_factor(["b", "a"], np.ones((2, 2)))  # a list of names, as a tuple of them
    found = network.log_prob_unnormalized({"a": [0, 0, 1], "b": [0, 1, 1]})
    np.testing.assert_allclose(found, [0.0, -np.inf, math.log(15)])
    assert repr(network) == "MarkovNetwork(2 variables, 3 factors)"


@pytest.mark.spec("REP-135")
def test_what_cannot_be_a_factor_is_refused():
    graph = UndirectedGraph("abc", ["ab", "bc"])
    network = MarkovNetwork({"a": 2, "b": 2, "c": 2}, graph)
    network.add_factor(("a", "b"), np.ones((2, 2)))
    assert network.neighbors("b") == ("a", "c")  # of the graph that was given
    for scope, values, message in [
        (("a", "b"), [[1, -0.1], [1, 1]], "a weight must be at least 0, got -0.1"),
        (("a", "b"), [[1, float("nan")], [1, 1]], "a weight must be at least 0, got nan"),
        (("a", "b"), [[1, float("inf")], [1, 1]], "log weights must be numbers below"),
        (("a", "b"), np.zeros((2, 2)), "a factor must not be 0 everywhere"),
        (("a", "b"), np.ones((2, 3)), r"the table must be of shape \(2, 2\), got \(2, 3\)"),
        (("a", "c"), np.ones((2, 2)), "the scope must be a clique of the graph, got 'a' and 'c', no neighbors"),
        (("a", "b", "c"), np.ones((2, 2, 2)), "the scope must be a clique of the graph, got 'a' and 'c', no neighbors"),
        (("a", "a"), np.ones((2, 2)), "scope must name one variable or more, each once"),
        (("a", "x"), np.ones((2, 2)), "'x'"),
        ((), 1.0, "scope must name one variable or more"),
        (("a",), lambda a: [1.0], r"values must return shape \(2,\)"),
    ]:
        with pytest.raises(UserValueError, match=message):
            network.add_factor(scope, values)
    with pytest.raises(UserValueError, match="energies must be finite"):
        network.add_energy("a", [0, float("inf")])
    network.add_factor("a", [0, 1])
    network.add_factor("a", [1, 0])
    with pytest.raises(UserValueError, match="Z = 0"):
        network.log_partition()
    assert np.isneginf(network.log_prob_unnormalized({"a": [0, 1], "b": [0, 0], "c": [0, 0]})).all()
    for values, error, message in [
        ({"a": [0], "b": [0]}, UserValueError, "'c' has no value"),
        ({"a": [2], "b": [0], "c": [0]}, UserValueError, r"a must be in \[0, 2\), got 2"),
        ({"a": [0, 1], "b": [0], "c": [0]}, UserValueError, "columns must be of one length"),
        ({"a": [[0]], "b": [[0]], "c": [[0]]}, UserValueError, r"'a' must be one column of values, got shape \(1, 1\)"),
        ([0, 1, 1], UserTypeError, "values must map each variable"),
    ]:
        with pytest.raises(error, match=message):
            network.log_prob_unnormalized(values)
    for sizes, error in [({"a": 0}, UserValueError), ([2, 2], UserTypeError), ({1: 2}, UserTypeError)]:
        with pytest.raises(error):
            MarkovNetwork(sizes)
    with pytest.raises(UserValueError, match="the graph must have the names of sizes"):
        MarkovNetwork({"a": 2}, graph)
    with pytest.raises(UserTypeError, match="graph must be an UndirectedGraph"):
        MarkovNetwork({"a": 2}, "a")
