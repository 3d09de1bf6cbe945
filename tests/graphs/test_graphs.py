"""Directed, undirected and layered graphs: parity with networkx on random graphs, walks by the definition."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest

from gnomon.errors import UserValueError
from gnomon.graphs.directed import DirectedGraph
from gnomon.graphs.layered import LayeredGraph
from gnomon.graphs.undirected import UndirectedGraph


def random_dag(seed, n=9, density=0.35):
    """Edges from earlier to later in a random order, listed in another order."""
    rng = np.random.default_rng(seed)
    names = [f"n{i}" for i in rng.permutation(n)]
    edges = [(a, b) for a, b in itertools.combinations(names, 2) if rng.random() < density]
    return DirectedGraph.from_edges(edges, sorted(names)), nx.DiGraph(edges)


def random_graph(seed, n=9, density=0.35):
    rng = np.random.default_rng(seed)
    edges = [pair for pair in itertools.combinations(range(n), 2) if rng.random() < density]
    theirs = nx.Graph(edges)
    theirs.add_nodes_from(range(n))
    return UndirectedGraph(range(n), edges), theirs


def pairs(edges):
    return {frozenset(edge) for edge in edges}


@pytest.mark.spec("INF-11", "INF-72", "REP-132")
@pytest.mark.parametrize("seed", range(20))
def test_directed_graphs_agree_with_networkx(seed):
    ours, theirs = random_dag(seed)
    theirs.add_nodes_from(ours.nodes)
    place = {node: i for i, node in enumerate(ours.topological_order)}
    assert set(place) == set(ours.nodes) and all(place[a] < place[b] for a, b in theirs.edges)
    assert pairs(ours.moral().edges) == pairs(nx.moral_graph(theirs).edges)
    assert pairs(ours.skeleton().edges) == pairs(theirs.edges)
    for node in ours.nodes:
        assert ours.ancestors([node]) == nx.ancestors(theirs, node)
        assert ours.descendants([node]) == nx.descendants(theirs, node)
        assert set(ours.children(node)) == set(theirs.successors(node))
    two = ours.nodes[:2]
    assert set(ours.ancestral(two).nodes) == nx.ancestors(theirs, two[0]) | nx.ancestors(theirs, two[1]) | set(two)
    assert not any(child in two for _, child in ours.cut(two).edges)
    assert pairs(ours.cut(two).edges) == pairs(edge for edge in theirs.edges if edge[1] not in two)


@pytest.mark.spec("INF-72")
@pytest.mark.parametrize("seed", range(20))
def test_undirected_graphs_agree_with_networkx(seed):
    ours, theirs = random_graph(seed, density=0.2)
    kept = list(range(0, 9, 2))
    assert pairs(ours.subgraph(kept).edges) == pairs(theirs.subgraph(kept).edges)
    assert pairs(ours.without(kept).edges) == pairs(theirs.edges) - {e for k in kept for e in pairs(theirs.edges(k))}
    assert {frozenset(part) for part in ours.components()} == set(map(frozenset, nx.connected_components(theirs)))
    linked = set()
    for a, b in itertools.combinations(kept, 2):
        between = theirs.subgraph([a, b, *(node for node in range(9) if node not in kept)])
        linked |= {frozenset((a, b))} if nx.has_path(between, a, b) else set()
    assert pairs(ours.marginal(kept).edges) == linked


@pytest.mark.spec("INF-11", "REP-132")
def test_a_cycle_is_named_in_the_direction_of_its_edges():
    with pytest.raises(UserValueError, match=r"cycle b -> c -> d -> b|cycle c -> d -> b -> c|cycle d -> b -> c -> d"):
        DirectedGraph({"a": (), "b": ("a", "d"), "c": ("b",), "d": ("c",), "e": ("d",)})
    with pytest.raises(UserValueError, match="cycle a -> a"):
        DirectedGraph({"a": ("a",)})


def test_the_order_is_that_of_the_names_where_it_is_free():
    assert DirectedGraph({"c": (), "a": (), "b": ("a",)}).topological_order == ("c", "a", "b")
    graph = DirectedGraph({"c": (), "a": (), "b": ("a",)})
    assert graph.check_order("abc") == ("a", "b", "c")
    assert UndirectedGraph("dcab", ["ac"]).components() == (("d",), ("c", "a"), ("b",))
    listed = DirectedGraph.from_edges(["ab", "cb"], nodes="xcb")
    assert listed.nodes == ("x", "c", "b", "a") and listed.parents("b") == ("a", "c") and listed.parents("x") == ()
    with pytest.raises(UserValueError, match="order must put parents first, got 'b' before its parent 'a'"):
        graph.check_order("cba")
    with pytest.raises(UserValueError, match="order must name every node of the graph once, got 2 names"):
        graph.check_order("ca")


def test_wrong_names_are_told():
    with pytest.raises(UserValueError, match=r"'rian' is unknown \(parents of 'wet'\); did you mean 'rain'"):
        DirectedGraph({"rain": (), "wet": ("rian",)})
    with pytest.raises(UserValueError, match="named twice"):
        DirectedGraph({"a": (), "b": ("a", "a")})
    with pytest.raises(UserValueError, match="'z' is unknown"):
        UndirectedGraph("abc").neighbors("z")
    with pytest.raises(UserValueError, match=r"'rian' is unknown.*did you mean 'rain'"):
        UndirectedGraph(["rain", "wet"]).neighbors("rian")
    with pytest.raises(UserValueError, match="node 7 is unknown"):
        UndirectedGraph([1, 2], [(1, 2)]).neighbors(7)
    with pytest.raises(UserValueError, match="edges must join different nodes, got 'a' with itself"):
        UndirectedGraph("abc", ["aa"])
    with pytest.raises(UserValueError, match=r"layer 'h' must have at least 1 unit, got 0 \(sizes\)"):
        LayeredGraph({"h": 0})
    with pytest.raises(UserValueError, match="layer 'x' is unknown"):
        LayeredGraph({"h": 1}, [("h", "x")])


def units_of(ours):
    return pairs(ours.units().edges)


@pytest.mark.spec("INF-72")
def test_layers_are_their_units():
    """Counts, deletion and summing out of layers, against the graph of single units."""
    pairs_of_layers = [("v", "h"), ("h", "g"), ("g", "g"), ("v", "x")]
    ours = LayeredGraph({"v": 3, "h": 2, "g": 3, "x": 1}, pairs_of_layers)
    units = ours.units()
    assert ours.n_edges == units.n_edges == 6 + 6 + 3 + 3
    for gone in (["v"], ["h"], ["v", "g"], ["x", "h"]):
        names = [unit for unit in units.nodes if unit.partition("[")[0] in gone]
        kept = [unit for unit in units.nodes if unit not in names]
        assert units_of(ours.without(gone)) == pairs(units.without(names).edges)
        left = [layer for layer in ours.sizes if layer not in gone]
        assert units_of(ours.marginal(left)) == pairs(units.marginal(kept).edges)


@pytest.mark.spec("INF-72")
def test_moral_layers_are_the_moral_graph_of_their_units():
    layers = DirectedGraph({"a": (), "b": (), "v": ("a", "b"), "w": ("v",)})
    sizes = {"a": 2, "b": 3, "v": 2, "w": 1}
    names = {layer: [f"{layer}[{i}]" for i in range(size)] for layer, size in sizes.items()}
    edges = [(p, c) for above, below in layers.edges for p in names[above] for c in names[below]]
    assert units_of(LayeredGraph.moral(layers, sizes)) == pairs(nx.moral_graph(nx.DiGraph(edges)).edges)
