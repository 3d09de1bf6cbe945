"""Elimination orders: cost against elimination by hand, the treewidth of known graphs, all orders of small ones."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import numpy as np
import pytest
from networkx.algorithms.approximation import treewidth_min_degree, treewidth_min_fill_in

from gnomon.errors import UserValueError
from gnomon.graphs.layered import LayeredGraph
from gnomon.graphs.orders import best_order, min_degree, min_fill, order_cost, width_at_least
from gnomon.graphs.posterior import treewidth_bound
from gnomon.graphs.undirected import UndirectedGraph


def grid(rows, columns):
    cells = list(itertools.product(range(rows), range(columns)))
    near = [((i, j), (i + di, j + dj)) for i, j in cells for di, dj in ((0, 1), (1, 0))]
    return UndirectedGraph(cells, [pair for pair in near if pair[1] in set(cells)])


def by_hand(edges, order, sizes):
    """Tables of an order with a plain graph of networkx."""
    graph, tables = nx.Graph(edges), []
    graph.add_nodes_from(order)
    for node in order:
        around = list(graph.neighbors(node))
        tables.append(math.prod(sizes[other] for other in (node, *around)))
        graph.add_edges_from(itertools.combinations(around, 2))
        graph.remove_node(node)
    return tables


@pytest.mark.spec("INF-71", "INF-72")
@pytest.mark.parametrize("seed", range(15))
def test_costs_and_bounds_on_random_graphs(seed):
    """All 720 orders of six nodes give the treewidth, between the bounds."""
    rng = np.random.default_rng(seed)
    edges = [pair for pair in itertools.combinations(range(6), 2) if rng.random() < 0.5]
    sizes = dict(enumerate(rng.integers(2, 5, 6).tolist()))
    graph = UndirectedGraph(range(6), edges)
    widths = []
    for order in itertools.permutations(range(6)):
        cost = order_cost(graph, order, sizes)
        if len(widths) % 37 == 0:
            tables = by_hand(edges, order, sizes)
            assert (cost.largest, cost.total) == (pytest.approx(max(tables)), pytest.approx(sum(tables)))
        widths.append(cost.width)
    assert width_at_least(graph) <= min(widths) <= treewidth_bound(graph) <= min(widths) + 1
    for order in (min_fill(graph), min_degree(graph)):
        assert order_cost(graph, order).width <= min(widths) + 1
    order, cost = best_order(graph, sizes)
    assert cost == order_cost(graph, order, sizes)


@pytest.mark.spec("INF-72")
@pytest.mark.parametrize("seed", range(10))
def test_widths_are_about_those_of_networkx(seed):
    theirs = nx.gnm_random_graph(30, 60, seed=seed)
    ours = UndirectedGraph(theirs.nodes, theirs.edges)
    assert abs(order_cost(ours, min_fill(ours)).width - treewidth_min_fill_in(theirs)[0]) <= 2
    assert abs(order_cost(ours, min_degree(ours)).width - treewidth_min_degree(theirs)[0]) <= 2


@pytest.mark.spec("INF-72")
def test_treewidths_that_are_known():
    assert treewidth_bound(UndirectedGraph("abc")) == treewidth_bound(LayeredGraph({"a": 3, "b": 2})) == 0
    ragged = nx.gnm_random_graph(8, 14, seed=59)  # where least degree and least fill find different widths
    ragged = UndirectedGraph(ragged.nodes, ragged.edges)
    widths = {order_cost(ragged, order(ragged)).width for order in (min_degree, min_fill)}
    assert widths == {3, 4} and treewidth_bound(ragged) == 3
    tree = nx.random_labeled_tree(200, seed=1)
    assert treewidth_bound(UndirectedGraph(tree.nodes, tree.edges)) == 1
    ring = UndirectedGraph(range(50), [(i, (i + 1) % 50) for i in range(50)])
    assert treewidth_bound(ring) == width_at_least(ring) == 2
    assert treewidth_bound(UndirectedGraph.complete(range(20))) == 19
    assert treewidth_bound(grid(4, 50)) == 4


@pytest.mark.spec("INF-72")
@pytest.mark.parametrize("sizes", [(3, 2, 4), (1, 5, 2), (4, 4, 4)])
def test_layers_have_the_width_of_their_units(sizes):
    layers = LayeredGraph(dict(zip("abc", sizes, strict=True)), ["ab", "bc"])
    units = layers.units()
    assert order_cost(units, min_fill(units)).width == treewidth_bound(layers) == min(sizes[0] + sizes[2], sizes[1])
    coupled = LayeredGraph(layers.sizes, ["ab", "bc", "bb"])
    assert treewidth_bound(coupled) == treewidth_bound(coupled.units())


@pytest.mark.timeout(60)
def test_large_graphs_end():
    """A chain of 20,000 variables and layers of thousands of units: quadratic work would not."""
    chain = UndirectedGraph(range(20_000), itertools.pairwise(range(20_000)))
    assert best_order(chain)[1].width == 1
    assert treewidth_bound(LayeredGraph({"v": 7840, "h": 5000}, ["vh"])) == 5000


def test_an_order_must_name_each_node_once():
    graph = UndirectedGraph("abc", ["ab"])
    for wrong in ("ab", "abb", "abd", "abcc"):
        with pytest.raises(
            UserValueError, match=rf"order must name every variable to eliminate once, got {len(wrong)} names"
        ):
            order_cost(graph, wrong)
    assert order_cost(graph, "ac", kept="b").largest == 4


def test_what_is_kept_is_the_last_table():
    """Of a pair and two loners: b, c and d are one table at the end, whoever is joined."""
    cost = order_cost(UndirectedGraph("abcd", ["ab"]), "a", kept="bcd")
    assert (cost.width, cost.largest, cost.total) == (2, 8, 4 + 8)
    sized = order_cost(UndirectedGraph("abc", ["ab", "ac"]), "a", {"a": 5, "b": 2, "c": 3}, kept="bc")
    assert (sized.width, sized.largest, sized.total) == (2, pytest.approx(30), pytest.approx(36))
