"""Which hidden variables an observation couples: the graph of the posterior, before any number is known."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import overload

from gnomon.errors import UserTypeError, UserValueError
from gnomon.graphs.directed import DirectedGraph
from gnomon.graphs.layered import LayeredGraph
from gnomon.graphs.orders import greedy_orders, order_cost
from gnomon.graphs.undirected import UndirectedGraph, names_of

__all__ = ["is_factorial", "posterior_graph", "treewidth_bound"]


@overload
def posterior_graph(
    graph: LayeredGraph, observed: Iterable[Hashable], latents: Iterable[Hashable] | None = None
) -> LayeredGraph: ...


@overload
def posterior_graph(
    graph: DirectedGraph | UndirectedGraph, observed: Iterable[Hashable], latents: Iterable[Hashable] | None = None
) -> UndirectedGraph: ...


def posterior_graph(
    graph: DirectedGraph | UndirectedGraph | LayeredGraph,
    observed: Iterable[Hashable],
    latents: Iterable[Hashable] | None = None,
) -> UndirectedGraph | LayeredGraph:
    """Interactions of the latents once the observed variables are known.

    A directed graph is moralized, so that causes of a common effect are joined (they explain each other away), then
    the observed nodes are deleted. No edge between two latents means that they are independent given the observed and
    the other latents, whatever the numbers; an edge may vanish for special numbers (probabilistic PCA with orthogonal
    columns).

    Parameters
    ----------
    graph : DirectedGraph, UndirectedGraph or LayeredGraph
        The model's graph; of layers, whole layers are observed.
    observed : iterable of nodes
        What is known.
    latents : iterable of nodes, optional
        The variables asked about; all that are not observed by default. Those in neither are summed out: a common
        effect couples its causes only if it, or something that depends on it, is observed or a latent itself.

    Returns
    -------
    UndirectedGraph or LayeredGraph
        On the latents.

    Raises
    ------
    UserValueError
        A node that is unknown, or both observed and a latent.

    References
    ----------
    Lauritzen, Dawid, Larsen and Leimer (1990), "Independence properties of directed Markov fields".

    Examples
    --------
    >>> alarm = DirectedGraph({"fire": (), "burglar": (), "alarm": ("fire", "burglar"), "call": ("alarm",)})
    >>> posterior_graph(alarm, ["call"], ["fire", "burglar"]).n_edges  # a descendant activates the collider
    1
    >>> posterior_graph(alarm, [], ["fire", "burglar"]).n_edges
    0
    """
    _check_graph(graph)
    known = tuple(dict.fromkeys(names_of(observed, "observed")))
    latent = None if latents is None else tuple(dict.fromkeys(names_of(latents, "latents")))
    both = [node for node in latent or () if node in known]
    if both:
        raise UserValueError(f"{both[0]!r} is both observed and latent", "latents", "leave it out of one of them")
    if isinstance(graph, DirectedGraph):
        graph = (graph if latent is None else graph.ancestral((*known, *latent))).moral()
    if isinstance(graph, LayeredGraph):
        layers = graph.without(map(str, known))
        return layers if latent is None else layers.marginal(map(str, latent))
    left = graph.without(known)
    return left if latent is None else left.marginal(latent)


def is_factorial(graph: DirectedGraph | UndirectedGraph | LayeredGraph, observed: Iterable[Hashable] = ()) -> bool:
    """Whether the graph makes the unobserved variables independent of each other once the others are observed.

    Examples
    --------
    >>> rbm = LayeredGraph({"visible": 784, "hidden": 500}, [("visible", "hidden")])
    >>> is_factorial(rbm, ["visible"]), is_factorial(rbm)
    (True, False)
    """
    return posterior_graph(graph, observed).n_edges == 0


def treewidth_bound(graph: DirectedGraph | UndirectedGraph | LayeredGraph) -> int:
    """An upper bound on the treewidth: the least width of greedy elimination orders.

    Exact inference by elimination takes tables of up to ``k^(width + 1)`` entries. Directed graphs are moralized.
    Exact on graphs whose every long cycle has a chord; there is no guarantee elsewhere.

    Examples
    --------
    >>> treewidth_bound(UndirectedGraph("abcd", ["ab", "bc", "cd", "da"]))
    2
    """
    _check_graph(graph)
    if isinstance(graph, LayeredGraph):
        return graph.width()
    graph = graph.moral() if isinstance(graph, DirectedGraph) else graph
    return min(order_cost(graph, order).width for order in greedy_orders(graph))


def _check_graph(graph: object) -> None:
    if not isinstance(graph, DirectedGraph | UndirectedGraph | LayeredGraph):
        what = f"graph must be a DirectedGraph, UndirectedGraph or LayeredGraph, got a {type(graph).__name__}"
        raise UserTypeError(what, "graph")
