"""Graphs of whole layers of units, whose cost does not depend on how many units there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gnomon.errors import UserTypeError, UserValueError, shown
from gnomon.graphs.directed import DirectedGraph
from gnomon.graphs.undirected import UndirectedGraph, names_of, pairs_of
from gnomon.numeric.given import affordable
from gnomon.recipes.parameters import how_many

__all__ = ["LayeredGraph"]


class LayeredGraph:
    """Layers of units: joined layers have every unit of one joined with every unit of the other.

    Parameters
    ----------
    sizes : mapping of str to int, each at least 1
        Units of each layer.
    edges : iterable of pairs of str
        Layers that interact; a pair of a layer with itself joins its own units.

    Raises
    ------
    UserValueError
        An unknown layer, a layer without units.

    Examples
    --------
    >>> rbm = LayeredGraph({"visible": 784, "hidden": 500}, [("visible", "hidden")])
    >>> rbm.n_edges, rbm.without(["visible"]).n_edges
    (392000, 0)
    """

    def __init__(self, sizes: Mapping[str, int], edges: Iterable[Sequence[str]] = ()) -> None:
        if not isinstance(sizes, Mapping):
            raise UserTypeError(f"sizes must be {{layer: units}}, got a {type(sizes).__name__}", "sizes")
        self.sizes = dict(sizes)
        for layer, size in self.sizes.items():
            if how_many(size, f"units of {layer!r}") < 1:
                raise UserValueError(f"layer {layer!r} must have at least 1 unit, got {shown(size)}", "sizes")
        pairs = pairs_of(edges)
        self.between = UndirectedGraph(self.sizes, [pair for pair in pairs if pair[0] != pair[1]])
        """Layers that interact with each other."""
        self.within = frozenset(a for a, b in pairs if a == b and self.sizes.get(a, 2) > 1)
        """Layers whose own units interact."""
        for name in (*self.between.nodes, *self.within):
            if name not in self.sizes:
                raise UserValueError(f"layer {name!r} is unknown", "edges", "use one of " + ", ".join(self.sizes))

    @classmethod
    def moral(cls, graph: DirectedGraph, sizes: Mapping[str, int]) -> LayeredGraph:
        """Interactions of a network of layers in which each unit depends on all units of its layer's parents.

        The units of a parent layer, and those of several parent layers, have common children: all are joined.

        Examples
        --------
        >>> coding = DirectedGraph({"h": (), "v": ("h",)})
        >>> sorted(LayeredGraph.moral(coding, {"h": 3, "v": 2}).within)
        ['h']
        """
        above = {parent for parent, _ in graph.edges}
        return cls(sizes, [*graph.moral().edges, *((layer, layer) for layer in above)])  # type: ignore[list-item]

    def __repr__(self) -> str:
        return f"LayeredGraph({self.sizes}, {len(self.between.edges) + len(self.within)} pairs)"

    @property
    def n_edges(self) -> int:
        """Joined pairs of units."""
        sizes = self.sizes
        inside = sum(sizes[layer] * (sizes[layer] - 1) // 2 for layer in self.within)
        return inside + sum(sizes[str(a)] * sizes[str(b)] for a, b in self.between.edges)

    def without(self, layers: Iterable[str]) -> LayeredGraph:
        """The graph after whole layers are deleted."""
        left = self.between.without(layers)
        return self._made(left)

    def marginal(self, kept: Iterable[str]) -> LayeredGraph:
        """Interactions of the kept layers when the others are summed out.

        Units of a kept layer that meet in a layer that is summed out are joined, as are different such layers.
        """
        names = names_of(kept, "kept")
        inside = self.between.without(names).components()
        met = {a for part in inside for layer in part for a in self.between.neighbors(layer) if a in names}
        return self._made(self.between.marginal(names), {str(layer) for layer in met})

    def units(self) -> UndirectedGraph:
        """The graph of single units, named ``layer[0]``, ``layer[1]`` ...: as many nodes and edges as there are.

        Raises
        ------
        UserValueError
            More than 2^24 edges, about 1 GB.
        """
        affordable(self.n_edges, "units", "work on the layers", each=64, limit=1 << 24)
        names = {layer: [f"{layer}[{i}]" for i in range(size)] for layer, size in self.sizes.items()}
        edges = [(a, b) for x, y in self.between.edges for a in names[str(x)] for b in names[str(y)]]
        cliques = [*edges, *(names[layer] for layer in self.within)]
        return UndirectedGraph.from_cliques((unit for layer in names.values() for unit in layer), cliques)

    def width(self) -> int:
        """Least width found of elimination orders that finish one layer before the next.

        A unit's neighbors are the units of the joined layers and, within a coupled layer, the rest of its own. The
        layer whose units have the fewest comes next; those it was joined with become a clique.
        """
        adjacent, within, width = self.between.adjacency(), {*self.between.nodes} & self.within, 0
        sizes = {layer: self.sizes[str(layer)] for layer in adjacent}
        while adjacent:
            degree = {
                layer: sum(sizes[other] for other in others) + (sizes[layer] - 1) * (layer in within)
                for layer, others in adjacent.items()
            }
            layer = min(degree, key=degree.__getitem__)
            width = max(width, degree[layer])
            others = adjacent.pop(layer)
            within |= others
            for other in others:
                adjacent[other] = (adjacent[other] | others) - {layer, other}
        return width

    def _made(self, between: UndirectedGraph, more: Iterable[str] = ()) -> LayeredGraph:
        sizes = {layer: self.sizes[layer] for layer in self.sizes if layer in between.nodes}
        inside = [(layer, layer) for layer in (*self.within, *more) if layer in sizes]
        return LayeredGraph(sizes, [*between.edges, *inside])  # type: ignore[list-item]
