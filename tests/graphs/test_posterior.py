"""What observations couple: known models, and conditional mutual information from enumerated tables."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from gnomon.errors import UserValueError
from gnomon.graphs.directed import DirectedGraph
from gnomon.graphs.layered import LayeredGraph
from gnomon.graphs.posterior import is_factorial, posterior_graph, treewidth_bound
from gnomon.graphs.undirected import UndirectedGraph


def joint_of(parents, rng):
    """The table of random binary conditionals, entry by entry; axes in the order of the names."""
    names = list(parents)
    chance = {n: {pa: rng.uniform(0.1, 0.9) for pa in itertools.product((0, 1), repeat=len(parents[n]))} for n in names}
    p = np.zeros((2,) * len(names))
    for state in itertools.product((0, 1), repeat=len(names)):
        value = dict(zip(names, state, strict=True))
        ones = [chance[n][tuple(value[a] for a in parents[n])] for n in names]
        p[state] = math.prod(q if x else 1 - q for q, x in zip(ones, state, strict=True))
    return names, p


def information(p, a, b, given):
    """I(a; b | given) in nats from the table, other axes summed out; loops over cells."""
    axes = [a, b, *given]
    q = p.sum(tuple(i for i in range(p.ndim) if i not in axes))
    q = np.transpose(q, np.argsort(np.argsort(axes)))
    total = 0.0
    for cell in itertools.product((0, 1), repeat=len(axes)):
        rest = cell[2:]
        both, here = q[(slice(None), slice(None), *rest)], q[cell]
        total += here * math.log(here * both.sum() / (both[cell[0]].sum() * both[:, cell[1]].sum()))
    return total


@pytest.mark.spec("INF-72")
@pytest.mark.parametrize("seed", range(12))
def test_a_missing_edge_is_independence_and_an_edge_is_dependence(seed):
    """Random networks of six nodes, random observed and latent sets: I > 0 exactly where there is an edge."""
    rng = np.random.default_rng(seed)
    order = [f"n{i}" for i in rng.permutation(6)]
    parents = {n: tuple(m for m in order[:i] if rng.random() < 0.4) for i, n in enumerate(order)}
    names, p = joint_of(parents, rng)
    graph = DirectedGraph(parents)
    roles = rng.permutation(6)
    observed = [names[i] for i in roles[:2]]
    latents = [names[i] for i in roles[2 : 2 + int(rng.integers(2, 5))]]
    for asked in (None, latents):
        mine = [n for n in names if n not in observed] if asked is None else asked
        found = posterior_graph(graph, observed, asked)
        assert set(found.nodes) == set(mine)
        for a, b in itertools.combinations(mine, 2):
            given = [names.index(n) for n in (*observed, *(m for m in mine if m not in (a, b)))]
            value = information(p, names.index(a), names.index(b), given)
            assert (value > 1e-9) == found.has_edge(a, b), (a, b, value)


@pytest.mark.spec("INF-72")
def test_machines_that_are_known():
    rbm = LayeredGraph({"v": 4, "h": 3}, ["vh"])
    assert posterior_graph(rbm, "v").n_edges == 0 and is_factorial(rbm, "v") and is_factorial(rbm, "h")
    assert not is_factorial(rbm)
    coding = DirectedGraph({"h0": (), "h1": (), "h2": (), "v0": ("h0", "h1", "h2"), "v1": ("h0", "h1", "h2")})
    posterior = posterior_graph(coding, ["v0", "v1"])
    assert posterior == UndirectedGraph.complete(["h0", "h1", "h2"])
    assert treewidth_bound(posterior) == 2
    layers = LayeredGraph.moral(DirectedGraph({"h": (), "v": ("h",)}), {"h": 300, "v": 784})
    assert posterior_graph(layers, ["v"]).n_edges == 300 * 299 // 2
    dbm = LayeredGraph({"v": 784, "h1": 500, "h2": 300, "h3": 10}, [("v", "h1"), ("h1", "h2"), ("h2", "h3")])
    left = posterior_graph(dbm, ["v"])
    assert left.between.edges == (("h1", "h2"), ("h2", "h3")) and not left.within
    assert treewidth_bound(left) == 300
    assert is_factorial(dbm, ["v", "h2"])  # every second layer known: the rest falls apart


@pytest.mark.spec("INF-72")
def test_a_descendant_activates_a_collider_and_nothing_else_does():
    parents = {"a": (), "b": (), "c": ("a", "b"), "d": ("c",), "e": ("d",)}
    graph = DirectedGraph(parents)
    names, p = joint_of(parents, np.random.default_rng(0))
    for observed in ([], ["e"], ["d"], ["c"]):
        given = [names.index(n) for n in observed]
        coupled = information(p, 0, 1, given) > 1e-9
        assert coupled == bool(observed)
        assert posterior_graph(graph, observed, ["a", "b"]).has_edge("a", "b") == coupled
        assert is_factorial(DirectedGraph({"a": (), "b": ()}))


@pytest.mark.spec("INF-72")
def test_undirected_models_lose_their_observed_nodes():
    square = UndirectedGraph("abcd", ["ab", "bc", "cd", "da"])
    assert is_factorial(square, "ac") and not is_factorial(square, "a")
    assert posterior_graph(square, "a", "bd").edges == (("b", "d"),)
    numbered = UndirectedGraph(range(4), [(0, 1), (1, 2), (2, 3), (3, 0)])
    assert posterior_graph(numbered, [0], [1, 3]).edges == ((1, 3),)
    assert posterior_graph(numbered, [0]).edges == ((1, 2), (2, 3))
    with pytest.raises(
        UserValueError, match=r"'a' is both observed and latent \(latents\); leave it out of one of them"
    ):
        posterior_graph(square, "a", "ab")
    with pytest.raises(UserValueError, match="unknown"):
        posterior_graph(square, "x")


@pytest.mark.spec("INF-72")
def test_special_numbers_may_uncouple_what_the_graph_joins():
    """Probabilistic PCA: the posterior's precision I + W'W / s^2 is diagonal when the columns are orthogonal."""
    graph = DirectedGraph({"h0": (), "h1": (), "v0": ("h0", "h1"), "v1": ("h0", "h1")})
    assert posterior_graph(graph, ["v0", "v1"]).has_edge("h0", "h1")
    for W, coupled in ((np.array([[1.0, 2.0], [2.0, -1.0]]), False), (np.array([[1.0, 2.0], [2.0, 1.0]]), True)):
        joint = np.block([[np.eye(2), W.T], [W, W @ W.T + 0.3 * np.eye(2)]])  # covariance of (h, v)
        covariance = joint[:2, :2] - joint[:2, 2:] @ np.linalg.solve(joint[2:, 2:], joint[2:, :2])
        assert (abs(covariance[0, 1]) > 1e-9) == coupled
