"""Undirected graphs: who interacts with whom."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from gnomon.errors import UserTypeError, UserValueError, nearest, shown

__all__ = ["UndirectedGraph"]


def names_of(nodes: Any, where: str, *, hashable: bool = True) -> tuple[Any, ...]:
    """Names of nodes, from any iterable of them.

    Raises
    ------
    UserTypeError
        No iterable, or a name that cannot be one.
    """
    if not isinstance(nodes, Iterable):
        raise UserTypeError.must(where, "be a list or tuple of names", nodes)
    names = tuple(nodes)
    bad = [node for node in names if hashable and not isinstance(node, Hashable)]
    if bad:
        raise UserTypeError(f"a node's name must be text or a number, got {shown(bad[0])}", where)
    return names


def pairs_of(edges: Any) -> list[tuple[Any, Any]]:
    """Edges as pairs of names.

    Raises
    ------
    UserTypeError, UserValueError
        No iterable of pairs, or a name that cannot be one.
    """
    pairs = [names_of(edge, "edges") for edge in names_of(edges, "edges", hashable=False)]
    for pair in pairs:
        if len(pair) != 2:
            raise UserValueError(f"edges must be pairs of nodes, got {shown(pair)}", "edges")
    return pairs


class UndirectedGraph:
    """Nodes by name and edges without direction; it never changes.

    Parameters
    ----------
    nodes : iterable of hashable
        Names in the order in which answers list them. Ends of edges that are not among them are appended.
    edges : iterable of pairs
        Repeated edges count once.

    Raises
    ------
    UserValueError
        An edge from a node to itself.

    Examples
    --------
    >>> square = UndirectedGraph("abcd", ["ab", "bc", "cd", "da"])
    >>> square.neighbors("a")
    ('b', 'd')
    >>> square.without("b").edges
    (('a', 'd'), ('c', 'd'))
    """

    def __init__(self, nodes: Iterable[Hashable] = (), edges: Iterable[Sequence[Hashable]] = ()) -> None:
        adjacent: dict[Hashable, set[Hashable]] = {node: set() for node in names_of(nodes, "nodes")}
        for a, b in pairs_of(edges):
            if a == b:
                raise UserValueError(f"edges must join different nodes, got {a!r} with itself", "edges")
            adjacent.setdefault(a, set()).add(b)
            adjacent.setdefault(b, set()).add(a)
        self._adjacent = adjacent
        self._place = {node: i for i, node in enumerate(adjacent)}

    @classmethod
    def from_cliques(cls, nodes: Iterable[Hashable], cliques: Iterable[Iterable[Hashable]]) -> UndirectedGraph:
        """The graph in which the nodes of each clique are all joined: scopes of factors, families of a network.

        Examples
        --------
        >>> UndirectedGraph.from_cliques("abc", ["abc"]).n_edges
        3
        """
        graph = cls(nodes)
        for clique in names_of(cliques, "cliques", hashable=False):
            members = set(names_of(clique, "cliques"))
            for node in members:
                graph._adjacent[graph.known(node)] |= members
        for node, others in graph._adjacent.items():
            others.discard(node)
        return graph

    @classmethod
    def complete(cls, nodes: Iterable[Hashable]) -> UndirectedGraph:
        """Every node joined with every other."""
        names = names_of(nodes, "nodes")
        return cls.from_cliques(names, [names])

    def __repr__(self) -> str:
        return f"UndirectedGraph({len(self._adjacent)} nodes, {self.n_edges} edges)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UndirectedGraph) and self._adjacent == other._adjacent

    __hash__ = None  # type: ignore[assignment]

    @property
    def nodes(self) -> tuple[Hashable, ...]:
        """Names, in the order given."""
        return tuple(self._adjacent)

    @property
    def edges(self) -> tuple[tuple[Hashable, Hashable], ...]:
        """Each edge once, its ends and the edges in the order of the nodes."""
        position = self._place
        return tuple((a, b) for a in self._adjacent for b in self.neighbors(a) if position[a] < position[b])

    @property
    def n_edges(self) -> int:
        """How many edges there are."""
        return sum(map(len, self._adjacent.values())) // 2

    def known(self, node: Hashable) -> Hashable:
        """The node itself; an unknown one is refused with the nearest names."""
        if not isinstance(node, Hashable) or node not in self._adjacent:
            raise _unknown(node, self.nodes)
        return node

    def neighbors(self, node: Hashable) -> tuple[Hashable, ...]:
        """Nodes joined with it, in the order of the nodes."""
        return tuple(sorted(self._adjacent[self.known(node)], key=self._place.__getitem__))

    def has_edge(self, a: Hashable, b: Hashable) -> bool:
        """Whether the two are joined."""
        return self.known(b) in self._adjacent[self.known(a)]

    def adjacency(self) -> dict[Hashable, set[Hashable]]:
        """A copy of the neighbors of every node, to work on."""
        return {node: set(others) for node, others in self._adjacent.items()}

    def subgraph(self, nodes: Iterable[Hashable]) -> UndirectedGraph:
        """The nodes given and the edges between them, in this graph's order."""
        kept = {self.known(node) for node in names_of(nodes, "nodes")}
        graph = UndirectedGraph()
        graph._adjacent = {node: others & kept for node, others in self._adjacent.items() if node in kept}
        graph._place = {node: i for i, node in enumerate(graph._adjacent)}
        return graph

    def without(self, nodes: Iterable[Hashable]) -> UndirectedGraph:
        """The graph after the nodes and their edges are deleted."""
        gone = {self.known(node) for node in names_of(nodes, "nodes")}
        return self.subgraph(node for node in self._adjacent if node not in gone)

    def components(self) -> tuple[tuple[Hashable, ...], ...]:
        """Connected parts, by their first node."""
        seen: set[Hashable] = set()
        found = []
        for start in self._adjacent:
            if start in seen:
                continue
            part, waiting = {start}, [start]
            while waiting:
                new = self._adjacent[waiting.pop()] - part
                part |= new
                waiting += new
            seen |= part
            found.append(tuple(sorted(part, key=self._place.__getitem__)))
        return tuple(found)

    def marginal(self, kept: Iterable[Hashable]) -> UndirectedGraph:
        """Interactions of the kept nodes when the others are summed out: those linked by a path through the others.

        Examples
        --------
        >>> UndirectedGraph("abc", ["ab", "bc"]).marginal("ac").edges
        (('a', 'c'),)
        """
        names = {self.known(node) for node in kept}
        parts = self.without(names).components()
        borders = [set().union(*(self._adjacent[node] for node in part)) & names for part in parts]
        direct = self.subgraph(names)
        return UndirectedGraph.from_cliques(direct.nodes, [*direct.edges, *borders])


def _unknown(node: Hashable, known: Iterable[Hashable]) -> UserValueError:
    close = nearest(node, [name for name in known if isinstance(name, str)]) if isinstance(node, str) else []
    remedy = f"did you mean {close[0]!r}?" if close else "use a name of the graph"
    return UserValueError(f"node {node!r} is unknown", "nodes", remedy)
