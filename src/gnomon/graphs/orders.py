"""Orders in which variables are eliminated, and what an order costs, told before anything is computed."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from numbers import Integral
from typing import Any, NamedTuple

from gnomon.errors import UserTypeError, UserValueError, shown
from gnomon.graphs.undirected import UndirectedGraph, names_of

__all__ = ["OrderCost", "best_order", "greedy_orders", "min_degree", "min_fill", "order_cost", "width_at_least"]

Adjacency = dict[Hashable, set[Hashable]]

_FILL_WORK = 1e6
"""Sum of squared degrees up to which counting missing edges is cheap."""


class OrderCost(NamedTuple):
    """What eliminating variables in an order takes.

    Attributes
    ----------
    width : int
        Most neighbors that a variable has when its turn comes; over all orders, the least is the treewidth.
    largest : float
        Entries of the largest table; inf beyond the range of floats.
    total : float
        Entries of all tables together: time and, where all are kept, memory.
    """

    width: int
    largest: float
    total: float


def min_degree(graph: UndirectedGraph, kept: Collection[Hashable] = ()) -> tuple[Hashable, ...]:
    """Elimination order, without the kept ones, that takes the variable with the fewest neighbors next.

    The first of equals comes first.

    References
    ----------
    Rose (1972), "A graph-theoretic study of the numerical solution of sparse positive definite systems".

    Examples
    --------
    >>> min_degree(UndirectedGraph("abc", ["ab", "bc"]))
    ('a', 'b', 'c')
    """
    return _greedy(graph, lambda adjacent, node: len(adjacent[node]), kept, far=False)


def min_fill(graph: UndirectedGraph, kept: Collection[Hashable] = ()) -> tuple[Hashable, ...]:
    """Elimination order, without the kept ones, that takes the variable that adds the fewest edges next.

    The first of equals comes first.

    References
    ----------
    Kjaerulff (1990), "Triangulation of graphs: algorithms giving small total state space".

    Examples
    --------
    >>> min_fill(UndirectedGraph("abcd", ["ab", "bc", "cd", "da"]))
    ('a', 'b', 'c', 'd')
    """
    return _greedy(graph, _missing, kept, far=True)


def order_cost(
    graph: UndirectedGraph,
    order: Iterable[Hashable],
    sizes: Mapping[Hashable, int] | None = None,
    *,
    kept: Iterable[Hashable] = (),
) -> OrderCost:
    """Width and table sizes of an elimination order, from the graph alone.

    Parameters
    ----------
    graph : UndirectedGraph
        Interactions: variables of a common factor are joined.
    order : iterable of nodes
        Every node but the kept ones, once.
    sizes : mapping of node to int, optional
        Values of each variable; 2 by default.
    kept : iterable of nodes, optional
        Variables that are not eliminated: their joint table is the last one.

    Raises
    ------
    UserValueError
        An order that leaves out, repeats or invents a node; a node without a size.

    Examples
    --------
    >>> star = UndirectedGraph("abcd", ["ab", "ac", "ad"])
    >>> order_cost(star, "abcd").largest, order_cost(star, "bcda").largest
    (16.0, 4.0)
    """
    adjacent = _adjacency(graph)
    names, last = names_of(order, "order"), names_of(kept, "kept")
    if len(names) + len(last) != len(graph.nodes) or {*names, *last} != set(graph.nodes):
        raise UserValueError(f"order must name every variable to eliminate once, got {len(names)} names", "order")
    bits = _bits(adjacent, sizes)
    tables = [sum(bits[node] for node in last)] if last else []
    width = max(len(last) - 1, 0)
    for node in names:
        others = _eliminate(adjacent, node)
        width = max(width, len(others))
        tables.append(bits[node] + sum(bits[other] for other in others))
    return OrderCost(width, _power(max(tables, default=0.0)), sum(map(_power, tables)))


def greedy_orders(graph: UndirectedGraph, kept: Collection[Hashable] = ()) -> tuple[tuple[Hashable, ...], ...]:
    """By least degree and, unless degrees are so large that counting missing edges takes long, by least fill."""
    work = sum(len(others) ** 2 for others in _adjacency(graph).values())
    found = (min_degree(graph, kept),)
    return (*found, min_fill(graph, kept)) if work <= _FILL_WORK else found


def best_order(
    graph: UndirectedGraph, sizes: Mapping[Hashable, int] | None = None, kept: Collection[Hashable] = ()
) -> tuple[tuple[Hashable, ...], OrderCost]:
    """The cheaper of the greedy orders, with its cost; the best order is NP-hard to find (Arnborg et al. 1987)."""
    priced = [(order, order_cost(graph, order, sizes, kept=kept)) for order in greedy_orders(graph, kept)]
    return min(priced, key=lambda pair: (pair[1].largest, pair[1].total))


def width_at_least(graph: UndirectedGraph) -> int:
    """A lower bound on the width of every order: the largest least degree met while taking nodes away.

    Examples
    --------
    >>> width_at_least(UndirectedGraph.complete("abcd"))
    3
    """
    adjacent = _adjacency(graph)
    names = tuple(adjacent)
    position = {node: i for i, node in enumerate(names)}
    heap = [(len(others), position[node]) for node, others in adjacent.items()]
    heapq.heapify(heap)
    bound = 0
    while heap:
        degree, i = heapq.heappop(heap)
        if names[i] not in adjacent or len(adjacent[names[i]]) != degree:
            continue  # an older entry
        bound = max(bound, degree)
        for other in adjacent.pop(names[i]):
            adjacent[other].discard(names[i])
            heapq.heappush(heap, (len(adjacent[other]), position[other]))
    return bound


def _adjacency(graph: Any) -> Adjacency:
    if not isinstance(graph, UndirectedGraph):
        remedy = "join the parents first: graph.moral()" if hasattr(graph, "moral") else "give an UndirectedGraph"
        raise UserTypeError(f"graph must be undirected, got a {type(graph).__name__}", "graph", remedy)
    return graph.adjacency()


def _bits(nodes: Iterable[Hashable], sizes: Any) -> dict[Hashable, float]:
    """Log2 of the number of values of each node."""
    if sizes is None:
        return dict.fromkeys(nodes, 1.0)
    if not isinstance(sizes, Mapping):
        raise UserTypeError(f"sizes must be {{node: number of values}}, got a {type(sizes).__name__}", "sizes")
    found = {}
    for node in nodes:
        size = sizes.get(node, 0)
        if not isinstance(size, Integral) or size < 1:
            given = shown(size) if node in sizes else "none"
            what = f"the size of {node!r} must be a whole number of at least 1, got {given}"
            raise UserValueError(what, "sizes")
        found[node] = math.log2(size)
    return found


def _greedy(
    graph: UndirectedGraph,
    score: Callable[[Adjacency, Hashable], int],
    kept: Collection[Hashable],
    *,
    far: bool,
) -> tuple[Hashable, ...]:
    """Smallest score next; a heap whose outdated entries are skipped. `far`: scores two edges away change too."""
    adjacent, kept = _adjacency(graph), set(names_of(kept, "kept"))
    names = tuple(adjacent)
    position = {node: i for i, node in enumerate(names)}
    now = {node: score(adjacent, node) for node in names if node not in kept}
    heap = [(value, position[node]) for node, value in now.items()]
    heapq.heapify(heap)
    order = []
    while heap:
        value, i = heapq.heappop(heap)
        node = names[i]
        if node not in adjacent or value != now[node]:
            continue
        order.append(node)
        touched = set(_eliminate(adjacent, node))
        if far and value > 0:  # edges were added
            touched = touched.union(*(adjacent[other] for other in touched))
        for other in touched & now.keys():
            new = score(adjacent, other)
            if new != now[other]:
                now[other] = new
                heapq.heappush(heap, (new, position[other]))
    return tuple(order)


def _eliminate(adjacent: Adjacency, node: Hashable) -> set[Hashable]:
    """Take a node away and join its neighbors, which are returned."""
    others = adjacent.pop(node)
    for other in others:
        adjacent[other] |= others
        adjacent[other] -= {node, other}
    return others


def _missing(adjacent: Adjacency, node: Hashable) -> int:
    """Edges that are missing between the neighbors of a node."""
    others = adjacent[node]
    return sum(len(others - adjacent[other]) - 1 for other in others) // 2


def _power(bits: float) -> float:
    return math.inf if bits > 1023 else 2.0**bits
