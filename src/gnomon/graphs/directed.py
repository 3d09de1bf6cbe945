"""Directed acyclic graphs: who depends on whom, and in which order to go through them."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence

from gnomon.errors import UserTypeError, UserValueError, nearest
from gnomon.graphs.undirected import UndirectedGraph, names_of, pairs_of

__all__ = ["DirectedGraph"]


class DirectedGraph:
    """Nodes by name with their parents, without cycles; it never changes.

    Parameters
    ----------
    parents : mapping of node to sequence of nodes
        The parents of each node, in the order in which tables and conditionals take them. Every node is a key; the
        roots have none: ``{"rain": (), "wet": ("rain",)}``.

    Raises
    ------
    UserValueError
        A cycle, which is named; a parent that is no node; a parent named twice.

    References
    ----------
    Pearl (1988), "Probabilistic reasoning in intelligent systems"; Kahn (1962), for the order.

    Examples
    --------
    >>> graph = DirectedGraph({"wet": ("rain", "sprinkler"), "rain": (), "sprinkler": ()})
    >>> graph.topological_order
    ('rain', 'sprinkler', 'wet')
    >>> graph.moral().edges
    (('wet', 'rain'), ('wet', 'sprinkler'), ('rain', 'sprinkler'))
    """

    def __init__(self, parents: Mapping[Hashable, Sequence[Hashable]]) -> None:
        if not isinstance(parents, Mapping):
            raise UserTypeError(f"parents must be {{node: (its parents)}}, got a {type(parents).__name__}", "parents")
        self._parents = {node: names_of(above, f"parents of {node!r}") for node, above in parents.items()}
        self._children: dict[Hashable, list[Hashable]] = {node: [] for node in self._parents}
        for node, above in self._parents.items():
            for parent in above:
                if parent not in self._children:
                    raise _unknown(parent, self._parents, f"parents of {node!r}")
                self._children[parent].append(node)
            if len(set(above)) < len(above):
                raise UserValueError(f"a parent of {node!r} is named twice", "parents", "name each once")
        self.topological_order = self._sorted()

    topological_order: tuple[Hashable, ...]
    """Every node after its parents; of the nodes that may come, the earliest freed first."""

    @classmethod
    def from_edges(cls, edges: Iterable[Sequence[Hashable]], nodes: Iterable[Hashable] = ()) -> DirectedGraph:
        """From pairs (parent, child); `nodes` lists further ones and those whose place matters.

        Examples
        --------
        >>> DirectedGraph.from_edges(["ab", "bc"]).parents("c")
        ('b',)
        """
        parents: dict[Hashable, dict[Hashable, None]] = {node: {} for node in nodes}
        for parent, child in pairs_of(edges):
            parents.setdefault(parent, {})
            parents.setdefault(child, {})[parent] = None
        return cls({node: tuple(above) for node, above in parents.items()})

    def __repr__(self) -> str:
        return f"DirectedGraph({len(self._parents)} nodes, {sum(map(len, self._parents.values()))} edges)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DirectedGraph) and self._parents == other._parents

    __hash__ = None  # type: ignore[assignment]

    @property
    def nodes(self) -> tuple[Hashable, ...]:
        """Names, in the order given."""
        return tuple(self._parents)

    @property
    def edges(self) -> tuple[tuple[Hashable, Hashable], ...]:
        """Pairs (parent, child)."""
        return tuple((parent, node) for node, above in self._parents.items() for parent in above)

    def known(self, node: Hashable) -> Hashable:
        """The node itself; an unknown one is refused with the nearest names."""
        if not isinstance(node, Hashable) or node not in self._parents:
            raise _unknown(node, self._parents, "nodes")
        return node

    def parents(self, node: Hashable) -> tuple[Hashable, ...]:
        """Parents of a node, in the order given."""
        return self._parents[self.known(node)]

    def children(self, node: Hashable) -> tuple[Hashable, ...]:
        """Nodes that have it as a parent."""
        return tuple(self._children[self.known(node)])

    def ancestors(self, nodes: Iterable[Hashable]) -> set[Hashable]:
        """Parents of the nodes, their parents and so on; the nodes themselves only where they are such."""
        return self._reach(nodes, self._parents)

    def descendants(self, nodes: Iterable[Hashable]) -> set[Hashable]:
        """Children of the nodes, their children and so on."""
        return self._reach(nodes, self._children)

    def ancestral(self, nodes: Iterable[Hashable]) -> DirectedGraph:
        """The nodes with all their ancestors: what is left when everything that has no say is summed out."""
        names = {self.known(node) for node in names_of(nodes, "nodes")}
        kept = names | self.ancestors(names)
        return DirectedGraph({node: above for node, above in self._parents.items() if node in kept})

    def cut(self, nodes: Iterable[Hashable]) -> DirectedGraph:
        """The graph without the edges into the nodes: what an intervention on them leaves."""
        held = {self.known(node) for node in names_of(nodes, "nodes")}
        return DirectedGraph({node: () if node in held else above for node, above in self._parents.items()})

    def moral(self) -> UndirectedGraph:
        """Parents of a common child joined, directions dropped: the interactions of the joint distribution.

        References
        ----------
        Lauritzen and Spiegelhalter (1988), "Local computations with probabilities on graphical structures".
        """
        families = ((node, *above) for node, above in self._parents.items())
        return UndirectedGraph.from_cliques(self._parents, families)

    def skeleton(self) -> UndirectedGraph:
        """The same edges without their directions."""
        return UndirectedGraph(self._parents, self.edges)

    def check_order(self, order: Iterable[Hashable]) -> tuple[Hashable, ...]:
        """An order of all nodes in which parents come first; another is refused with the first node too early."""
        names = names_of(order, "order")
        if len(names) != len(self._parents) or set(names) != set(self._parents):
            raise UserValueError(f"order must name every node of the graph once, got {len(names)} names", "order")
        seen: set[Hashable] = set()
        for node in names:
            late = [parent for parent in self._parents[node] if parent not in seen]
            if late:
                raise UserValueError(
                    f"order must put parents first, got {node!r} before its parent {late[0]!r}", "order"
                )
            seen.add(node)
        return names

    def _reach(self, nodes: Iterable[Hashable], step: Mapping[Hashable, Sequence[Hashable]]) -> set[Hashable]:
        waiting = [self.known(node) for node in names_of(nodes, "nodes")]
        found: set[Hashable] = set()
        while waiting:
            for near in step[waiting.pop()]:
                if near not in found:
                    found.add(near)
                    waiting.append(near)
        return found

    def _sorted(self) -> tuple[Hashable, ...]:
        missing = {node: len(above) for node, above in self._parents.items()}
        ready = deque(node for node, count in missing.items() if not count)
        order = []
        while ready:
            node = ready.popleft()
            order.append(node)
            for child in self._children[node]:
                missing[child] -= 1
                if not missing[child]:
                    ready.append(child)
        if len(order) < len(missing):
            cycle = " -> ".join(map(str, self._cycle({node for node, count in missing.items() if count})))
            raise UserValueError(f"the graph has the cycle {cycle}", "parents", "drop one of its edges")
        return tuple(order)

    def _cycle(self, tangled: set[Hashable]) -> list[Hashable]:
        """A cycle among nodes each of which has a parent there, in the direction of its edges."""
        node = next(name for name in self._parents if name in tangled)
        place: dict[Hashable, int] = {}
        path: list[Hashable] = []
        while node not in place:
            place[node] = len(path)
            path.append(node)
            node = next(parent for parent in self._parents[node] if parent in tangled)
        return [node, *reversed(path[place[node] :])]


def _unknown(node: Hashable, known: Iterable[Hashable], where: str) -> UserValueError:
    close = nearest(node, [name for name in known if isinstance(name, str)]) if isinstance(node, str) else []
    remedy = f"did you mean {close[0]!r}?" if close else "every node must be a key, roots with ()"
    return UserValueError(f"node {node!r} is unknown", where, remedy)
