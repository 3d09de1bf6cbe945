"""Undirected models of discrete variables: products of factors that are not negative, over the cliques of a graph."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Noise
from gnomon.distributions.conditional import codes_of
from gnomon.distributions.table import Table
from gnomon.errors import UserTypeError, UserValueError, shown, unknown
from gnomon.graphs.undirected import UndirectedGraph, names_of
from gnomon.inference.directed import NamedDraws
from gnomon.inference.exact.elimination import MostProbable, VariableElimination
from gnomon.inference.exact.factors import Factor
from gnomon.numeric.given import affordable, answers, checked, floats

__all__ = ["MarkovNetwork"]

Floats = NDArray[np.float64]


class MarkovNetwork:
    r"""A Markov random field of discrete variables: :math:`p(x) = \frac1Z \prod_C \phi_C(x_C)`, a Gibbs distribution.

    For interactions without a direction. Factors say how well values go together; they are no probabilities, may be 0
    and are never negative. Each stands over variables that are all neighbors of each other, a clique of the graph.
    Answers are exact, by variable elimination.

    Parameters
    ----------
    sizes : mapping of str to int
        Number of values of each variable, at least 1; the values are 0, 1, ...
    graph : UndirectedGraph, optional
        Who interacts with whom, over the same names: scopes outside its cliques are refused. By default the graph is
        what the factors make it.
    limit : int, default 2^24
        Entries of the largest table that an answer may take, see `VariableElimination`.

    Raises
    ------
    UserTypeError, UserValueError
        Sizes that are no whole numbers above 0, a graph over other names.

    Notes
    -----
    Cost of an answer: `VariableElimination.cost` of the factors, exponential in the width of the graph.

    References
    ----------
    Kindermann and Snell (1980), "Markov random fields and their applications"; Koller and Friedman (2009), chapter 4.

    Examples
    --------
    >>> network = MarkovNetwork({"colleague": 2, "you": 2, "roommate": 2})  # 1 for healthy
    >>> for other in ("colleague", "roommate"):
    ...     network.add_factor(("you", other), [[2, 1], [1, 10]])
    >>> round(float(network.log_partition()), 6), network.neighbors("colleague")
    (4.867534, ('you',))
    >>> network.marginal(["colleague"], {"roommate": 0}).probabilities.round(6).tolist()
    [0.294118, 0.705882]
    """

    normalized = False

    @checked
    def __init__(self, sizes: Mapping[str, int], graph: UndirectedGraph | None = None, *, limit: int = 1 << 24) -> None:
        if not isinstance(sizes, Mapping):
            raise UserTypeError.must("sizes", "map names to numbers of values", sizes, "", "give {'a': 2, 'b': 3}")
        for name, size in sizes.items():
            if not isinstance(name, str):
                raise UserTypeError(f"names must be text, got {shown(name)}", "sizes")
            if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
                raise UserValueError.must(f"the number of values of {name!r}", "be at least 1", size, "sizes")
        self.sizes = {name: int(size) for name, size in sizes.items()}
        if graph is not None and not isinstance(graph, UndirectedGraph):
            raise UserTypeError.must("graph", "be an UndirectedGraph", graph)
        if graph is not None and set(graph.nodes) != set(self.sizes):
            raise UserValueError("the graph must have the names of sizes as its nodes", "graph", "name each once")
        self._given, self.limit = graph, limit
        self._factors: list[Factor] = []

    def __repr__(self) -> str:
        return f"MarkovNetwork({len(self.sizes)} variables, {len(self._factors)} factors)"

    # --- what it is made of -------------------------------------------------------------------------------------------

    def add_factor(self, scope: str | Sequence[str], values: ArrayLike | Callable[..., ArrayLike]) -> None:
        """Multiply by a factor.

        Parameters
        ----------
        scope : sequence of str, or str
            Its variables, each once; or the name of the only one.
        values : array of weights at least 0, or callable
            A table with an axis for each variable, in the order of the scope; or a function of as many integer arrays
            of shape (n,), which gives n weights.

        Raises
        ------
        UserTypeError, UserValueError
            Negative weights, a table of another shape, nothing but zeros, a scope that is no clique of the graph.
        """
        scope = self._scope(scope)
        self._add(scope, Factor.of(scope, self._table(scope, values)))

    def add_energy(self, scope: str | Sequence[str], values: ArrayLike | Callable[..., ArrayLike]) -> None:
        """Multiply by exp(-energy): a factor that is positive by construction, as in a Boltzmann distribution.

        Parameters
        ----------
        scope, values
            As of `add_factor`, with energies in nats in place of weights: finite, of either sign.
        """
        scope = self._scope(scope)
        table = self._table(scope, values)
        if not np.isfinite(table).all():
            raise UserValueError("energies must be finite", f"factor {scope}", "use add_factor for weights of 0")
        self._add(scope, Factor(scope, -table))

    def _add(self, scope: tuple[str, ...], factor: Factor) -> None:
        if factor.log_values.shape != tuple(self.sizes[name] for name in scope):
            wanted = tuple(self.sizes[name] for name in scope)
            what = f"the table must be of shape {wanted}, got {factor.log_values.shape}"
            raise UserValueError(what, f"factor {scope}")
        if (factor.log_values == -np.inf).all():
            raise UserValueError("a factor must not be 0 everywhere", f"factor {scope}", "leave it out")
        self._factors.append(factor)
        for stale in ("graph", "_engine"):
            self.__dict__.pop(stale, None)

    def _scope(self, scope: str | Sequence[str]) -> tuple[str, ...]:
        names = names_of((scope,) if isinstance(scope, str) else scope, "scope")
        for name in names:
            self._known(name)
        if not names or len(set(names)) < len(names):
            raise UserValueError.must("scope", "name one variable or more, each once", names)
        apart = [pair for pair in itertools.combinations(names, 2) if self._given and not self._given.has_edge(*pair)]
        if apart:
            what = f"the scope must be a clique of the graph, got {apart[0][0]!r} and {apart[0][1]!r}, no neighbors"
            raise UserValueError(what, f"factor {names}", "use a product of smaller factors, or another graph")
        return names

    def _known(self, name: str) -> str:
        if name not in self.sizes:
            raise unknown("variable", str(name), list(self.sizes), "scope")
        return name

    def _table(self, scope: tuple[str, ...], values: ArrayLike | Callable[..., ArrayLike]) -> Floats:
        if not callable(values):
            return floats(values, "values")
        shape = tuple(self.sizes[name] for name in scope)
        affordable(float(np.prod([float(k) for k in shape])), "values", "use factors of fewer variables")
        codes = np.indices(shape).reshape(len(shape), -1)
        return answers(values(*codes), (codes.shape[1],), "values").reshape(shape)

    def factors(self, of: Iterable[str] | None = None) -> list[Factor]:
        """All tables; see `HasFactors`. A variable without a factor takes each of its values alike."""
        alone = [Factor((name,), np.zeros(size)) for name, size in self.sizes.items()]
        return [*alone, *self._factors]

    @cached_property
    def graph(self) -> UndirectedGraph:
        """The graph that was given, or the one in which variables of a common factor are neighbors."""
        scopes = [factor.names for factor in self._factors]
        return self._given or UndirectedGraph.from_cliques(tuple(self.sizes), scopes)

    def neighbors(self, name: str) -> tuple[str, ...]:
        """The variables that it interacts with: given these it is independent of all others."""
        return tuple(map(str, self.graph.neighbors(self._known(name))))

    # --- what it says -------------------------------------------------------------------------------------------------

    @cached_property
    def _engine(self) -> VariableElimination:
        return VariableElimination(self, limit=self.limit)

    def log_prob_unnormalized(self, values: Mapping[str, ArrayLike] | NamedDraws) -> Floats:
        """Sum of the logs of all factors in nats, shape (n,); -inf where one of them is 0.

        Parameters
        ----------
        values : NamedDraws, or mapping of str to integer array of shape (n,)
            Every variable.
        """
        codes = self._codes(values)
        total = np.zeros(len(next(iter(codes.values()))) if codes else 1)
        for factor in self._factors:
            total = total + factor.log_values[tuple(codes[name] for name in factor.names)]
        return total

    def log_prob(self, values: Mapping[str, ArrayLike] | NamedDraws) -> Floats:
        """Log probability of each row in nats, shape (n,)."""
        return self.log_prob_unnormalized(values) - self.log_partition()

    def _codes(self, values: Mapping[str, ArrayLike] | NamedDraws) -> dict[str, NDArray[np.int64]]:
        if not isinstance(values, Mapping | NamedDraws):
            raise UserTypeError.must("values", "map each variable to its values", values)
        for name in self.sizes:
            if name not in values:
                raise UserValueError(f"{name!r} has no value", "values", "give every variable, or use marginal()")
        found = {name: np.atleast_1d(codes_of(values[name], k, name)) for name, k in self.sizes.items()}
        for name, column in found.items():
            if column.ndim > 1:
                raise UserValueError(f"{name!r} must be one column of values, got shape {column.shape}", "values")
        lengths = {len(column) for column in found.values()}
        if len(lengths) > 1:
            raise UserValueError(f"columns must be of one length, got {sorted(lengths)}", "values")
        return found

    def log_partition(self) -> float:
        """log Z in nats, exact."""
        return self._engine.log_partition()

    def marginal(self, names: Sequence[str], evidence: Mapping[str, int] | None = None) -> Table:
        """Joint distribution of some variables given the evidence, all others summed out."""
        return self._engine.posterior(names, evidence)

    def map(self, evidence: Mapping[str, int] | None = None) -> MostProbable:
        """The most probable values of all other variables given the evidence."""
        return self._engine.map(evidence)

    def sample(self, n: int, noise: Noise, evidence: Mapping[str, int] | None = None) -> NamedDraws:
        """n independent exact draws of all variables, those of the evidence at their values."""
        drawn = self._engine.sample_posterior(n, noise, evidence)
        held = {name: np.full(n, value) for name, value in (evidence or {}).items()}
        found = drawn | held
        return NamedDraws({name: found[name] for name in self.sizes})
