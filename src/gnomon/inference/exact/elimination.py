"""Variable elimination: exact sums over products of tables, at a cost that the graph tells before anything is done."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Noise
from gnomon.distributions.conditional import draw_codes, running_sums
from gnomon.distributions.family import uniform
from gnomon.distributions.table import Table
from gnomon.errors import UserTypeError, UserValueError, nearest, shown
from gnomon.graphs.orders import OrderCost, best_order, order_cost, width_at_least
from gnomon.graphs.undirected import UndirectedGraph, names_of
from gnomon.inference.exact.factors import Factor, HasFactors, Product
from gnomon.numeric.given import affordable, checked
from gnomon.numeric.ops import logsumexp

__all__ = ["MostProbable", "VariableElimination"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

_SECONDS_PER_ENTRY = 5e-8
"""About what summing out one entry takes."""


class MostProbable(NamedTuple):
    """The assignment of largest weight.

    Attributes
    ----------
    values : dict of str to int
        Value of each variable that was not observed.
    log_weight : float
        Log of its weight together with the evidence, in nats.
    """

    values: dict[str, int]
    log_weight: float


class _Bucket(NamedTuple):
    """What was known when a variable was summed out: axis 0 is the variable, the others its neighbors then."""

    scope: tuple[str, ...]
    table: Floats
    message: Floats


class VariableElimination:
    """Exact inference on a product of tables, ``p(x) = prod_f phi_f(x_f) / Z``, in the log domain.

    One variable after the other: the factors that contain it are multiplied and it is summed (or maximized) out. The
    tables grow to the width of the order; all marginals and draws take one pass back through the same tables.

    Parameters
    ----------
    model : iterable of Factor, or HasFactors
    order : sequence of str, optional
        Elimination order of all variables, of which those asked for or observed are left out; by default the cheaper
        of the orders of least degree and least fill.
    limit : int, default 2^24
        Entries of the largest table, 8 bytes each; where all tables are kept, 8 times as many together.

    Raises
    ------
    UserValueError
        Factors that disagree about a variable's size; on asking, more than `limit` entries (with the cost); evidence
        of probability 0.

    Notes
    -----
    Cost O(total entries of the tables), see `cost`: exponential in the width, linear in the variables at a given one.
    A complete graph gains nothing over enumeration.

    References
    ----------
    Zhang and Poole (1994); Dechter (1999), "Bucket elimination: a unifying framework for reasoning".

    Examples
    --------
    >>> from gnomon.inference.exact.factors import Factor
    >>> chain = [Factor.of("ab", [[2, 1], [1, 10]]), Factor.of("bc", [[2, 1], [1, 10]])]
    >>> engine = VariableElimination(chain)
    >>> round(math.exp(engine.log_partition()), 9)
    130.0
    >>> engine.posterior(["a"], {"c": 1}).probabilities.round(6).tolist()
    [0.106195, 0.893805]
    """

    @checked
    def __init__(
        self, model: HasFactors | Iterable[Factor], *, order: Sequence[str] | None = None, limit: int = 1 << 24
    ) -> None:
        self._model: HasFactors = model if isinstance(model, HasFactors) else Product(model)
        self.limit = limit
        self.sizes: dict[str, int] = {}
        for factor in self._model.factors():
            for name, size in factor.sizes.items():
                if self.sizes.setdefault(name, size) != size:
                    what = f"{name!r} has {size} values in one factor and {self.sizes[name]} in another"
                    raise UserValueError(what, repr(factor), "give every variable one size")
        order = None if order is None else names_of(order, "order")
        if order is not None and (len(order) != len(self.sizes) or set(order) != set(self.sizes)):
            raise UserValueError(f"order must name every variable once, got {len(order)} names", "order")
        self.order = order
        self._plans: dict[Any, tuple[tuple[str, ...], OrderCost]] = {}

    def cost(self, evidence: Mapping[str, int] | None = None, query: Sequence[str] = ()) -> OrderCost:
        """Width, entries of the largest table and of all tables: of `posterior`, or of `marginals` without a query."""
        query, held = names_of(query, "query"), _evidence(evidence)
        of = (*query, *held) if query else None
        return self._problem(held, query, of=of, checked=False).cost

    def log_partition(self) -> float:
        """Log of the sum of the weights of all assignments, log Z in nats."""
        total, _ = _forward(self._problem(None, ()), _log_sum)
        _check_mass(total, None)
        return total

    def log_evidence(self, evidence: Mapping[str, int]) -> float:
        """Log probability of the evidence in nats, all other variables summed out; -inf where it is impossible."""
        joint, _ = _forward(self._problem(evidence, (), of=tuple(_evidence(evidence))), _log_sum)
        return joint if self._model.normalized else joint - self.log_partition()

    def posterior(self, query: Sequence[str], evidence: Mapping[str, int] | None = None) -> Table:
        """Joint distribution of the query given the evidence, as a table with the query's axes.

        Parameters
        ----------
        query : sequence of str, or the name of one variable
        evidence : mapping of str to int, optional
            Values in [0, size) of other variables.
        """
        if isinstance(query, str) and query in self.sizes:
            query = (query,)
        query = names_of(query, "query")
        problem = self._problem(evidence, query, of=(*query, *_evidence(evidence)))
        total, table = _forward(problem, _log_sum)
        _check_mass(np.max(table, initial=-math.inf) if math.isfinite(total) else total, evidence)
        top = table.max()
        weights = np.exp(table - top)
        shape = tuple(self.sizes[name] for name in query)  # variables of one value were dropped
        return Table((weights / weights.sum()).reshape(shape), query)

    def marginals(self, evidence: Mapping[str, int] | None = None) -> dict[str, Floats]:
        """Law of every variable that is not observed, given the evidence: arrays of shape (size,)."""
        _, belief = self._beliefs(evidence)
        marginals = {name: _onto(pair, (name,)) for name, pair in belief.items()}
        free = [name for name in self.sizes if name not in (evidence or {})]
        return {name: marginals[name] / marginals[name].sum() if name in marginals else np.ones(1) for name in free}

    def joint_marginals(self, scopes: Iterable[Sequence[str]]) -> tuple[float, list[Floats]]:
        """log Z, and the joint law of each set of variables, all from one pass there and back.

        Parameters
        ----------
        scopes : iterable of sequences of str
            Sets of variables that have a factor in common; any other may be refused.

        Returns
        -------
        float, list of array
            An axis for each variable of the set, in its order.
        """
        total, belief = self._beliefs(None)
        place = {name: i for i, name in enumerate(belief)}  # the last one out comes first
        found = []
        for scope in scopes:
            many = tuple(name for name in scope if self.sizes[name] > 1)
            first = max(many, key=place.__getitem__, default=None)
            if first is not None and not set(many) <= set(belief[first][0]):
                raise UserValueError(f"no factor holds all of {shown(tuple(scope))}", "scopes", "ask for `posterior`")
            table = np.ones(()) if first is None else _onto(belief[first], many)
            found.append(table.reshape([self.sizes[name] for name in scope]))
        return total, found

    def _beliefs(self, evidence: Mapping[str, int] | None) -> tuple[float, dict[str, tuple[tuple[str, ...], Floats]]]:
        """Log of the total weight, and of each variable the joint law of those that it was summed out beside."""
        buckets: list[_Bucket] = []
        total, _ = _forward(self._problem(evidence, (), kept=True), _log_sum, buckets)
        _check_mass(total, evidence)
        belief: dict[str, tuple[tuple[str, ...], Floats]] = {}
        for scope, table, message in reversed(buckets):
            p = _conditional(table, message)
            if len(scope) > 1:
                p *= _onto(belief[scope[1]], scope[1:])  # scopes are sorted by the order
            belief[scope[0]] = scope, p
        return total, belief

    def map(self, evidence: Mapping[str, int] | None = None) -> MostProbable:
        """The most probable assignment given the evidence; the first value where several are equal.

        It is the mode of the joint distribution, which need not consist of the modes of the marginals.
        """
        problem = self._problem(evidence, (), kept=True)
        buckets: list[_Bucket] = []
        total, _ = _forward(problem, _maximum, buckets)
        _check_mass(total, evidence)
        values: dict[str, int] = {}
        for scope, table, _ in reversed(buckets):
            index: tuple[Any, ...] = (slice(None), *(values[name] for name in scope[1:]))
            values[scope[0]] = int(table[index].argmax())
        free = [name for name in self.sizes if name not in (evidence or {})]
        return MostProbable({name: values.get(name, 0) for name in free}, total)

    @checked
    def sample_posterior(self, n: int, noise: Noise, evidence: Mapping[str, int] | None = None) -> dict[str, Codes]:
        """Independent exact draws of all variables that are not observed, given the evidence.

        The variables are drawn in the reverse of the order, each from its distribution given those drawn before that
        matter.

        Parameters
        ----------
        n : int, at least 0
        noise : Noise
            Draw i uses position i; each variable the child of its name.

        Returns
        -------
        dict of str to int64 array of shape (n,)
        """
        affordable(n * len(self.sizes), "n", "take fewer draws")
        problem = self._problem(evidence, (), kept=True)
        buckets: list[_Bucket] = []
        _check_mass(_forward(problem, _log_sum, buckets)[0], evidence)
        drawn: dict[str, Codes] = {}
        for scope, table, message in reversed(buckets):
            running = running_sums(np.moveaxis(_conditional(table, message), 0, -1))
            u = uniform(noise.child(scope[0]), (n,), 0)
            drawn[scope[0]] = draw_codes(running, tuple(drawn[name] for name in scope[1:]), u)
        free = [name for name in self.sizes if name not in (evidence or {})]
        return {name: drawn.get(name, np.zeros(n, np.int64)) for name in free}

    def _problem(
        self,
        evidence: Mapping[str, int] | None,
        query: Sequence[str],
        *,
        of: Iterable[str] | None = None,
        kept: bool = False,
        checked: bool = True,
    ) -> _Problem:
        """The factors with the evidence put in, and the order; refused where it costs too much."""
        held = self._checked(evidence, query)
        single = {name: 0 for name, size in self.sizes.items() if size == 1}
        factors = [factor.given({**single, **held}) for factor in self._model.factors(of)]
        constant = float(sum(factor.log_values for factor in factors if not factor.names))
        factors = [factor for factor in factors if factor.names]
        last = tuple(name for name in query if name not in single)
        plan = self._plans.get(key := (frozenset(held), last, None if of is None else frozenset(of)))
        if plan is None:
            plan = self._plans[key] = self._plan(factors, last)
        problem = _Problem(constant, factors, plan[0], last, {n: self.sizes[n] for n in (*plan[0], *last)}, plan[1])
        if checked:
            self._check_cost(problem.cost, len(problem.order), kept)
        return problem

    def _plan(self, factors: Sequence[Factor], last: tuple[str, ...]) -> tuple[tuple[str, ...], OrderCost]:
        names = dict.fromkeys((*last, *(name for factor in factors for name in factor.names)))
        graph = UndirectedGraph.from_cliques(names, [*{factor.names for factor in factors}, last])
        if self.order is not None:
            order = tuple(name for name in self.order if name in names and name not in last)
            return order, order_cost(graph, order, self.sizes, kept=last)  # type: ignore[arg-type]
        least = width_at_least(graph)  # found in no time where looking for a good order would take long
        if 2.0 ** min(least + 1, 1000) > self.limit:
            entries = math.inf if least >= 1000 else 2.0 ** (least + 1)
            return tuple(name for name in names if name not in last), OrderCost(least, entries, entries)
        found, cost = best_order(graph, self.sizes, last)  # type: ignore[arg-type]
        return tuple(map(str, found)), cost

    def _check_cost(self, cost: OrderCost, n: int, kept: bool) -> None:
        entries, size = cost.largest, "a table"
        if kept and cost.total > 8 * self.limit >= 8 * cost.largest:
            entries, size = cost.total / 8, "tables together"
        if entries <= self.limit:
            return
        whole = cost.total if size != "a table" else entries
        raise UserValueError(
            f"eliminating {n} variables takes {size} of at least {whole:.3g} entries ({8 * whole:.2g} bytes, "
            f"{_SECONDS_PER_ENTRY * whole:.1g} s; width {cost.width}), above the limit of {self.limit}",
            remedy="observe more variables, sample (gnomon.sample_chain, likelihood weighting), or raise `limit`",
        )

    def _checked(self, evidence: Mapping[str, int] | None, query: Sequence[str]) -> dict[str, int]:
        held = _evidence(evidence)
        for name in (*held, *query):
            if name not in self.sizes:
                close = nearest(str(name), list(self.sizes))
                remedy = f"did you mean {close[0]!r}?" if close else "use a variable of the factors"
                raise UserValueError(f"unknown variable {name!r}", "query, evidence", remedy)
        for name, value in held.items():
            if not isinstance(value, int | np.integer) or not 0 <= value < self.sizes[name]:
                raise UserValueError(
                    f"{name!r} must be an integer in [0, {self.sizes[name]}), got {shown(value)}", "evidence"
                )
        twice = [name for i, name in enumerate(query) if name in held or name in query[:i]]
        if twice:
            raise UserValueError(
                f"query must name each variable once and none that is observed, got {twice[0]!r}", "query"
            )
        return {name: int(value) for name, value in held.items()}


def _evidence(evidence: Any) -> dict[str, int]:
    if evidence is not None and not isinstance(evidence, Mapping):
        raise UserTypeError(f"evidence must be a mapping {{name: value}}, got a {type(evidence).__name__}", "evidence")
    return dict(evidence or {})


class _Problem(NamedTuple):
    constant: float
    factors: list[Factor]
    order: tuple[str, ...]
    last: tuple[str, ...]
    sizes: dict[str, int]
    cost: OrderCost


def _forward(
    problem: _Problem, reduce: Callable[[Floats], Floats], buckets: list[_Bucket] | None = None
) -> tuple[float, Floats]:
    """Sum out the variables in order: the log of what is free of all of them, and the table of the kept ones."""
    position = {name: i for i, name in enumerate((*problem.order, *problem.last))}
    waiting: dict[str, list[tuple[tuple[str, ...], Floats]]] = {name: [] for name in position}
    for factor in problem.factors:
        waiting[min(factor.names, key=position.__getitem__)].append((factor.names, factor.log_values))
    total = problem.constant
    for name in problem.order:
        parts = waiting.pop(name)
        others = {other for scope, _ in parts for other in scope} - {name}
        scope = (name, *sorted(others, key=position.__getitem__))
        table = _product(parts, scope, problem.sizes)
        message = reduce(table)
        if buckets is not None:
            buckets.append(_Bucket(scope, table, message))
        if len(scope) > 1:
            waiting[scope[1]].append((scope[1:], message))
        else:
            total += float(message)
    left = [part for parts in waiting.values() for part in parts]
    return total, _product(left, problem.last, problem.sizes) + total if problem.last else np.zeros(())


def _product(parts: Sequence[tuple[tuple[str, ...], Floats]], scope: Sequence[str], sizes: Mapping[str, int]) -> Floats:
    """Sum of log tables, each spread over the axes of the scope."""
    axis = {name: i for i, name in enumerate(scope)}
    result = np.zeros([sizes[name] for name in scope])
    for names, table in parts:
        axes = [axis[name] for name in names]
        shape = [1] * len(scope)
        for position, size in zip(axes, table.shape, strict=True):
            shape[position] = size
        result += table.transpose(sorted(range(len(axes)), key=axes.__getitem__)).reshape(shape)
    return result


def _log_sum(table: Floats) -> Floats:
    return np.asarray(logsumexp(table, 0), np.float64)


def _maximum(table: Floats) -> Floats:
    return np.asarray(table.max(axis=0), np.float64)


def _conditional(table: Floats, message: Floats) -> Floats:
    """Law of axis 0 given the others; 0 where the others cannot be."""
    return np.exp(table - np.where(message == -math.inf, 0.0, message))


def _onto(belief: tuple[tuple[str, ...], Floats], names: Sequence[str]) -> Floats:
    """Marginal table of the names, in their order."""
    scope, table = belief
    left = [name for name in scope if name in names]
    summed = table.sum(tuple(i for i, name in enumerate(scope) if name not in names))
    return np.asarray(summed.transpose([left.index(name) for name in names]), np.float64)


def _check_mass(total: float, evidence: Mapping[str, int] | None) -> None:
    if total > -math.inf:
        return
    if not evidence:
        raise UserValueError(
            "every assignment has weight 0: Z = 0", "factors", "look for factors that exclude each other"
        )
    raise UserValueError(
        f"the evidence {dict(evidence)} has probability 0", "evidence", "condition on a possible event"
    )
