"""Directed models: a conditional distribution for each node of a graph; exact joint draws in one pass."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gnomon.contracts import Array, Noise
from gnomon.distributions.bernoulli import Bernoulli
from gnomon.distributions.conditional import ConditionalTable, codes_of
from gnomon.distributions.table import Categorical
from gnomon.errors import UserTypeError, UserValueError, shown
from gnomon.graphs.directed import DirectedGraph
from gnomon.inference.exact.factors import Factor
from gnomon.numeric.given import affordable, checked, numbers
from gnomon.numeric.tensors import is_tensor

__all__ = ["Conditional", "DirectedModel", "NamedDraws", "as_directed"]

Conditional = Any
"""A `ConditionalTable` or the like (``distribution(parents)``), a function of the parents; of a root a distribution."""


class NamedDraws:
    """Named columns of equal length: ``draws["rain"]`` is a column, ``draws[indices]`` some rows, ``len`` their number.

    ``draws[3]`` is one row as a dict, ``dict(draws)`` the columns.

    Parameters
    ----------
    columns : mapping of str to array of shape (n, ...)

    Examples
    --------
    >>> draws = NamedDraws({"rain": np.array([0, 1, 1])})
    >>> len(draws), draws[[0, 2]]["rain"].tolist()
    (3, [0, 1])
    """

    def __init__(self, columns: Mapping[str, Array]) -> None:
        self._columns = dict(columns)
        lengths = {name: len(column) for name, column in self._columns.items()}
        if len(set(lengths.values())) > 1:
            raise UserValueError(
                f"columns must have one length, got {lengths}", "columns", "give one row each per draw"
            )

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self._columns[key]
        if isinstance(key, int | np.integer):
            return {name: column[key] for name, column in self._columns.items()}
        return NamedDraws({name: column[key] for name, column in self._columns.items()})

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[i] for i in range(len(self)))

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __repr__(self) -> str:
        return f"NamedDraws({len(self)} of {', '.join(self._columns)})"

    def keys(self) -> list[str]:
        """Names of the columns."""
        return list(self._columns)


class DirectedModel:
    """A directed graph with a conditional distribution per node: ``p(x) = prod_i p(x_i | parents(x_i))``.

    Parameters
    ----------
    graph : DirectedGraph
        Nodes are texts, which also address their random numbers.
    conditionals : mapping of str to Conditional
        Of each node: a `ConditionalTable`, its axes in the order of the node's parents; or a function that takes the
        parents' values, name to array (n, ...), and gives a distribution with one row for each (``sample(noise,
        draw)``, ``log_prob(x)``); or, of a root, the distribution of one outcome. Laws over several numbers per row are
        sums of theirs.

    Raises
    ------
    UserValueError
        Nodes without a conditional, tables that do not fit the parents.
    UserTypeError
        A model without directions: an energy has no order to draw in.

    References
    ----------
    Pearl (1988), "Probabilistic reasoning in intelligent systems"; Bishop (2006), section 8.1.2, for the draws.

    Examples
    --------
    >>> from gnomon.distributions.real import Normal
    >>> from gnomon.numeric.noise import Noise
    >>> graph = DirectedGraph({"fault": (), "heat": ("fault",)})
    >>> model = DirectedModel(graph, {
    ...     "fault": ConditionalTable([0.9, 0.1]),
    ...     "heat": lambda parents: Normal(20.0 + 50.0 * parents["fault"], 1.0),
    ... })
    >>> draws = model.sample(1000, Noise(0, "machines"))
    >>> bool((draws["heat"][draws["fault"] == 1] > 60).all())
    True
    >>> bool(model.sample(5, Noise(0, "machines"), do={"fault": 1})["heat"].min() > 60)
    True
    """

    normalized = True

    def __init__(self, graph: DirectedGraph, conditionals: Mapping[str, Conditional]) -> None:
        if not isinstance(graph, DirectedGraph):
            raise _undirected(graph)
        _check_mapping(conditionals, "conditionals")
        self.graph, self.conditionals = graph, dict(conditionals)
        for node in graph.nodes:
            if not isinstance(node, str) or not node or "\0" in node:
                raise UserTypeError(f"node names must be text that is not empty, got {shown(node)}", "graph")
            if node not in self.conditionals:
                raise UserValueError(f"node {node!r} has no conditional", "conditionals", "give one to every node")
        extra = [name for name in self.conditionals if name not in graph.nodes]
        if extra:
            raise UserValueError(f"unknown node {extra[0]!r}", "conditionals", "leave it out")
        self.order: tuple[str, ...] = tuple(map(str, graph.topological_order))
        for node, table in self._tables().items():
            given = tuple(self._size(parent) for parent in self.parents(node))
            if len(given) != len(table.parent_sizes) or any(
                k is not None and k != axis for k, axis in zip(given, table.parent_sizes, strict=True)
            ):
                what = f"the table of {node!r} must fit parents of {given} values, got axes for {table.parent_sizes}"
                raise UserValueError(what, "conditionals", f"order its axes as {', '.join(self.parents(node))}")

    def parents(self, node: str) -> tuple[str, ...]:
        """Parents of a node, in the order of its table's axes."""
        return tuple(map(str, self.graph.parents(node)))

    def distribution(self, node: str, values: Mapping[str, Array] | NamedDraws) -> Any:
        """The distribution of a node given its parents' values, one row for each."""
        conditional = self.conditionals[node]
        if hasattr(conditional, "distribution"):
            return conditional.distribution({parent: values[parent] for parent in self.parents(node)})
        if hasattr(conditional, "log_prob"):
            if self.parents(node):
                raise UserTypeError(
                    f"the conditional of {node!r} must be a function of its parents, got a fixed distribution",
                    "conditionals",
                )
            return conditional
        return conditional({parent: values[parent] for parent in self.parents(node)})

    @checked
    def sample(
        self,
        n: int,
        noise: Noise,
        *,
        do: Mapping[str, Any] | None = None,
        evidence: Mapping[str, Any] | None = None,
        order: Sequence[str] | None = None,
    ) -> NamedDraws:
        """Independent exact draws of all nodes, in one pass from causes to effects.

        Parameters
        ----------
        n : int, at least 0
        noise : Noise
            Row i of each node uses position i of the child with the node's name, so that every order of the nodes,
            and every larger n, gives the same numbers.
        do : mapping of str to value, optional
            Nodes that are set from outside, whatever their parents are: a number, or an array whose first axis runs
            over the draws, (n, ...), or has length 1.
        evidence : mapping of str to value, optional
            Nodes that were observed. Only where all ancestors of an observed node are observed too (or set): what is
            drawn then follows the conditional distribution.
        order : sequence of str, optional
            Another topological order.

        Raises
        ------
        UserValueError
            Evidence on a node whose causes are open; an order in which a child comes first; unknown nodes.
        """
        if n < 0:
            raise UserValueError.must("n", "be at least 0", n)
        held = self.held(n, do, evidence)
        self._check_causes(do or {}, evidence or {})
        names = self.order if order is None else tuple(map(str, self.graph.check_order(order)))
        values: dict[str, Array] = dict(held)
        self.draw(values, n, noise, names, held)
        return NamedDraws({node: values[node] for node in self.graph.nodes})  # type: ignore[misc, index]

    def log_prob(self, values: Mapping[str, Array] | NamedDraws) -> Array:
        """Joint log density of every row, in nats, shape (n,).

        Parameters
        ----------
        values : NamedDraws, or mapping of str to array of shape (n, ...)
            Every node.

        Raises
        ------
        UserTypeError, UserValueError
            Nodes without values, columns of unlike lengths, other things than numbers.
        """
        if not isinstance(values, NamedDraws):
            _check_mapping(values, "values")
        missing = [node for node in self.order if node not in values]
        if missing:
            remedy = "give every node, or sum it out: gnomon.inference.exact.elimination"
            raise UserValueError(f"node {missing[0]!r} has no value", "values", remedy)
        columns = NamedDraws({node: _column(values[node], node) for node in self.order})
        return sum(self.node_log_prob(node, columns) for node in self.order)

    def node_log_prob(self, node: str, values: Mapping[str, Array] | NamedDraws) -> Array:
        """Log density of a node's values given its parents', shape (n,)."""
        self.graph.known(node)
        x, distribution = values[node], self.distribution(node, values)
        wanted = _shape(distribution, len(x), bool(self.parents(node)))
        if wanted is not None and tuple(x.shape) != wanted:
            what = f"{node!r} must have values of shape {wanted}, got {tuple(x.shape)}"
            raise UserValueError(what, "values")
        log_p = distribution.log_prob(x)
        if log_p.ndim > 1:
            log_p = log_p.reshape(len(x), -1).sum(-1)
        if tuple(log_p.shape) != (len(x),):
            given = tuple(log_p.shape)
            what = f"log_prob of {node!r} must return one number for each of the {len(x)} rows, got shape {given}"
            raise UserValueError(what, "conditionals")
        return log_p

    def draw(
        self, values: dict[str, Array], n: int, noise: Noise, nodes: Iterable[str], held: Collection[str] = ()
    ) -> None:
        """Draw those of the nodes that have no value yet, in this order, into `values`; shape the held ones."""
        for node in nodes:
            if node in values and node not in held:
                continue
            distribution = self.distribution(node, values)
            if node in values:
                values[node] = _shaped(values[node], distribution, bool(self.parents(node)), node)
                continue
            stream = noise.child(node)
            x = distribution.sample(stream, 0) if self.parents(node) else _repeat(distribution, n, stream)
            if len(x) != n:
                what = f"the distribution of {node!r} must give {n} rows, one per row of the parents, got {len(x)}"
                raise UserValueError(what, "conditionals")
            values[node] = x

    def held(self, n: int, do: Mapping[str, Any] | None, evidence: Mapping[str, Any] | None) -> dict[str, Array]:
        """The nodes that are set or observed, one row for each draw."""
        affordable(n * len(self.order), "n", "take fewer draws")
        found: dict[str, Array] = {}
        for given, where in ((do, "do"), (evidence, "evidence")):
            if given is not None:
                _check_mapping(given, where)
        for name, value in (*(do or {}).items(), *(evidence or {}).items()):
            self.graph.known(name)
            if name in found:
                raise UserValueError(
                    f"{name!r} is both set and observed", "do, evidence", "leave it out of one of them"
                )
            table = self._tables().get(name)
            x: Any = value if is_tensor(value) else np.asarray(value)
            x = x if table is None else codes_of(x, table.size, name)
            x = x if x.ndim else x.reshape(1)
            if len(x) not in (1, n):
                what = f"{name!r} must be a number or have 1 or {n} rows, got {len(x)}"
                raise UserValueError(what, "do, evidence")
            found[name] = x.expand(n, *x.shape[1:]) if is_tensor(x) else np.array(np.broadcast_to(x, (n, *x.shape[1:])))
        return found

    def factors(self, of: Iterable[str] | None = None) -> list[Factor]:
        """One table per node, for exact inference: of these nodes and their ancestors, or of all.

        Raises
        ------
        UserTypeError
            A node that has no table.
        """
        nodes = self.graph.nodes if of is None else self.graph.ancestral(of).nodes
        tables = self._tables()
        for node in nodes:
            if node not in tables:
                remedy = "exact sums need tables: discretize it, or use likelihood_weighting"
                raise UserTypeError(f"node {node!r} has no table", "conditionals", remedy)
        return [Factor((*self.parents(str(n)), str(n)), tables[str(n)].log_probs) for n in nodes]

    def _tables(self) -> dict[str, ConditionalTable]:
        return {node: c for node, c in self.conditionals.items() if isinstance(c, ConditionalTable)}

    def _size(self, node: str) -> int | None:
        conditional = self.conditionals[node]
        return conditional.size if isinstance(conditional, ConditionalTable) else None

    def _check_causes(self, do: Mapping[str, Any], evidence: Mapping[str, Any]) -> None:
        """Observed nodes can be held in a pass downwards only where nothing above them is open."""
        graph = self.graph.cut(do)
        for node in evidence:
            unknown = [a for a in self.order if a in graph.ancestors([node]) and a not in evidence and a not in do]
            if unknown:
                raise UserValueError(
                    f"{node!r} is observed but its cause {unknown[0]!r} is not: drawing causes first ignores it",
                    "evidence",
                    "use likelihood_weighting or rejection_sample, VariableElimination for tables, or MCMC",
                )


def as_directed(model: Any) -> DirectedModel:
    """The model itself, if it is directed; others are refused with what to use instead."""
    if not isinstance(model, DirectedModel):
        raise _undirected(model)
    return model


def _check_mapping(given: object, where: str) -> None:
    if not isinstance(given, Mapping):
        raise UserTypeError(f"{where} must be a mapping of nodes, {{node: ...}}, got a {type(given).__name__}", where)


def _column(x: Any, node: str) -> Array:
    column: Array = x if is_tensor(x) else numbers(x, node)
    if not column.ndim:
        raise UserValueError(f"{node!r} must have one value per row, (n, ...), got one number", "values")
    return column


def _undirected(model: Any) -> UserTypeError:
    name = type(model).__name__
    if any(hasattr(model, verb) for verb in ("energy", "joint_energy", "neighbors")):
        return UserTypeError(f"{name} is undirected: it has no order of nodes", "model", "use gnomon.sample_chain")
    return UserTypeError(f"model must be a DirectedModel of a DirectedGraph, got a {name}", "model")


def _shape(distribution: Any, n: int, inner: bool) -> tuple[int, ...] | None:
    """Shape of n outcomes, None where the distribution does not say; that of a node with parents has its own n rows."""
    if hasattr(distribution, "batch_shape") and hasattr(distribution, "event_shape"):
        rows = (*distribution.batch_shape, *distribution.event_shape)
    elif isinstance(distribution, Bernoulli | Categorical):
        rows = tuple(distribution.logits.shape)[: None if isinstance(distribution, Bernoulli) else -1]
    else:
        return None
    return rows if inner else (n, *rows)


def _shaped(x: Array, distribution: Any, inner: bool, node: str) -> Array:
    """Held values in the shape of the distribution's outcomes; a number per row stands for all of an outcome."""
    wanted = _shape(distribution, len(x), inner)
    if wanted is None or tuple(x.shape) == wanted:
        return x
    if x.ndim > 1 or wanted[:1] != (len(x),):
        what = f"{node!r} must be fixed at values of shape {wanted}, got {tuple(x.shape)}"
        raise UserValueError(what, "do, evidence", "give a number, or an array with an axis for the draws")
    x = x.reshape(len(x), *(1 for _ in wanted[1:]))
    return x.expand(wanted) if is_tensor(x) else np.array(np.broadcast_to(x, wanted))


def _repeat(distribution: Any, n: int, noise: Noise) -> Array:
    """n draws of a root's distribution."""
    if isinstance(distribution, Bernoulli):
        a = distribution.logits
        wide = a.expand(n, *a.shape) if is_tensor(a) else np.broadcast_to(a, (n, *np.shape(a)))
        return Bernoulli(wide).sample(noise, 0)
    return distribution.sample(noise, 0, (n,))
