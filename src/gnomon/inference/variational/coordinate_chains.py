"""Structured factors: chains, trees and any other blocks of a product of tables, each solved exactly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import UserValueError, unknown
from gnomon.inference.exact.elimination import VariableElimination
from gnomon.inference.exact.factors import Factor, HasFactors, Product
from gnomon.inference.variational.coordinate_ascent import Rows, State
from gnomon.inference.variational.coordinate_posterior import BlockOfTables
from gnomon.inference.variational.coordinate_tables import partition
from gnomon.numeric.given import checked

__all__ = ["ChainFactors"]

Floats = NDArray[np.float64]


class ChainFactors:
    r"""The family ``q(h) = prod_B q_B(h_B)`` beside a product of tables, whose blocks keep their dependence.

    .. math:: q_B(h_B) \propto \prod_f \exp E_{q_{-B}}[\log \phi_f(h_f)]

    over the tables f that touch the block: a product of tables again, over the parts of these that lie in the block,
    which elimination solves exactly (on a chain it is the forward-backward algorithm). Coarser blocks have a better
    best bound; a local optimum need not be better.

    Parameters
    ----------
    model : iterable of Factor, or HasFactors
        ``p(h, v) = prod_f phi_f``.
    blocks : sequence of names or sequences of names, optional
        Variables that keep their dependence; each by itself by default. A block is named by its variables with commas.
    given : mapping of name to int, optional
        Variables that are observed.
    limit : int, default 2^20
        Entries of the largest table in the elimination of a block.

    Raises
    ------
    UserValueError
        Names that do not fit, blocks whose elimination is too large, tables with weights of 0 between two blocks.

    Notes
    -----
    Cost of an update: the tables that touch the block, and its elimination. A state holds the joint probabilities of
    each part and the entropy, so that steps are whole ones (no damping). The bound is that of log Z where the tables
    are not normalized. Source: Saul and Jordan (1995), "Exploiting tractable substructures in intractable networks";
    Ghahramani and Jordan (1997), "Factorial hidden Markov models".

    Examples
    --------
    >>> from gnomon.inference.variational.coordinate_ascent import coordinate_ascent
    >>> links = [Factor.of("ab", [[2, 1], [1, 3]]), Factor.of("bc", [[2, 1], [1, 3]]), Factor.of("c", [1, 2])]
    >>> whole = coordinate_ascent(ChainFactors(links, blocks=[["a", "b", "c"]]))
    >>> parts = coordinate_ascent(ChainFactors(links, blocks=[["a", "b"]]))
    >>> whole.elbo.round(4).tolist(), parts.elbo.round(4).tolist()  # log Z, and a bound of it
    ([3.6889], [3.6263])
    """

    mixes, n_rows = False, 1

    @checked
    def __init__(
        self, model: HasFactors | Iterable[Factor], blocks: Sequence[Any] | None = None, *,
        given: Mapping[str, int] | None = None, limit: int = 1 << 20,
    ) -> None:  # fmt: skip
        source = model if isinstance(model, HasFactors) else Product(model)
        whole = VariableElimination(source)  # sizes that agree
        for name in given or {}:
            if name not in whole.sizes:
                raise unknown("variable", str(name), tuple(whole.sizes), "given")
        factors = [factor.given(given or {}) for factor in source.factors()]
        self.sizes = {name: size for name, size in whole.sizes.items() if name not in (given or {})}
        if not self.sizes:
            raise UserValueError("no variable is left", "given", "observe fewer")
        self._constant = float(sum(factor.log_values for factor in factors if not factor.names))
        self._factors = [factor for factor in factors if factor.names]
        groups = partition(tuple(self.sizes), blocks)
        self.blocks: tuple[str, ...] = tuple(map(",".join, groups))
        home = {name: block for block, group in zip(self.blocks, groups, strict=True) for name in group}
        self._parts = [_parts(factor, home) for factor in self._factors]
        self._scopes = {block: _scopes(block, self._parts) for block in self.blocks}
        self._limit = limit
        for factor, parts in zip(self._factors, self._parts, strict=True):
            if len(parts) > 1 and np.isneginf(factor.log_values).any():
                what = f"the table of {', '.join(factor.names)} has weights of 0 and joins two blocks"
                raise UserValueError(what, "blocks", "put its variables into one block")

    def start(self) -> State:
        """Independent values, all alike."""
        state: State = {}
        for block, scopes in self._scopes.items():
            shapes = [tuple(self.sizes[name] for name in scope) for scope in scopes]
            names = {name for scope in scopes for name in scope}
            entropy = sum(float(np.log(self.sizes[name])) for name in names)
            parts = [np.full(int(np.prod(shape)), 1 / np.prod(shape)) for shape in shapes]
            state[block] = np.concatenate([*parts, [entropy]])[None]
        return state

    def update(self, block: str, state: State, rows: Rows) -> Floats:
        """The best factor of a block: joint probabilities of its parts, and its entropy."""
        scopes = self._scopes[block]
        engine, tables = self._solved(block, state)
        log_z, joint = engine.joint_marginals(scopes)
        energy = sum(float((p * np.where(p > 0, t, 0.0)).sum()) for p, t in zip(joint, tables, strict=True))
        return np.concatenate([*(p.ravel() for p in joint), [log_z - energy]])[None]

    def _solved(self, block: str, state: State) -> tuple[VariableElimination, list[Floats]]:
        """The tables that a block is the product of, given the others, and what sums over them."""
        beliefs, scopes = self._beliefs(state), self._scopes[block]
        tables = [np.zeros([self.sizes[name] for name in scope]) for scope in scopes]
        for factor, parts in zip(self._factors, self._parts, strict=True):
            if block in parts:
                tables[scopes.index(parts[block])] += _expected(factor, parts, beliefs, block)
        product = [Factor(scope, table) for scope, table in zip(scopes, tables, strict=True)]
        return VariableElimination(product, limit=self._limit), tables

    def parts(self, state: State) -> list[BlockOfTables]:
        """The blocks, each once more solved given the others, as distributions."""
        found = []
        for block in self.blocks:
            engine, tables = self._solved(block, state)
            found.append(BlockOfTables(tuple(engine.sizes), engine, self._scopes[block], tables))
        return found

    def mode(self) -> tuple[dict[str, Floats], Floats, bool]:
        """The most probable values of all variables together, and the log of their weight: no blocks come in."""
        found = VariableElimination(self._factors, limit=self._limit).map()
        values = {name: np.array(float(found.values.get(name, 0))) for name in self.sizes}
        return values, np.array(found.log_weight + self._constant), True

    def log_joint_at(self, numbers: Mapping[str, Floats]) -> Floats:
        """log of the product of all tables at values of the variables."""
        codes = {name: np.asarray(one).astype(np.int64) for name, one in numbers.items()}
        each = [factor.log_values[tuple(codes[name] for name in factor.names)] for factor in self._factors]
        return np.asarray(self._constant + sum(each), np.float64)

    def elbo(self, state: State, rows: Rows) -> Floats:
        """Expected log weights of the tables, and the entropies of the blocks."""
        beliefs = self._beliefs(state)
        total = self._constant + sum(float(state[block][0, -1]) for block in self.blocks)
        for factor, parts in zip(self._factors, self._parts, strict=True):
            total += float(_expected(factor, parts, beliefs, None))
        return np.array([total])

    def residual(self, state: State, rows: Rows) -> Floats:
        """Largest distance of a probability from its update."""
        return np.array([max(np.abs(self.update(b, state, rows) - state[b]).max() for b in self.blocks)])

    def marginals(self, state: State) -> dict[str, Floats]:
        """Probabilities of each variable's values."""
        found: dict[str, Floats] = {}
        for joint in self._beliefs(state).values():
            for scope, p in joint.items():
                for i, name in enumerate(scope):
                    found.setdefault(name, p.sum(tuple(j for j in range(len(scope)) if j != i)))
        return {name: found[name] for name in self.sizes}

    def _beliefs(self, state: State) -> dict[str, dict[tuple[str, ...], Floats]]:
        """Joint probabilities of the parts of each block."""
        found: dict[str, dict[tuple[str, ...], Floats]] = {}
        for block, scopes in self._scopes.items():
            at, found[block] = 0, {}
            for scope in scopes:
                shape = [self.sizes[name] for name in scope]
                length = int(np.prod(shape))
                found[block][scope] = state[block][0, at : at + length].reshape(shape)
                at += length
        return found


def _parts(factor: Factor, home: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The variables of a table by the block that they belong to."""
    parts: dict[str, tuple[str, ...]] = {}
    for name in factor.names:
        parts[home[name]] = (*parts.get(home[name], ()), name)
    return parts


def _scopes(block: str, parts: Sequence[Mapping[str, tuple[str, ...]]]) -> list[tuple[str, ...]]:
    """The sets of variables of a block that tables join."""
    return list(dict.fromkeys(one[block] for one in parts if block in one))


def _expected(factor: Factor, parts: Mapping[str, tuple[str, ...]], beliefs: Any, kept: str | None) -> Floats:
    """Expected log weight of a table under all blocks but the one kept, in the order of its part."""
    table, names = factor.log_values, list(factor.names)
    for block, scope in parts.items():
        if block == kept:
            continue
        p = beliefs[block][scope]
        axes = [names.index(name) for name in scope]
        gone = np.isneginf(table)
        if gone.any():  # of a block alone, whose best factor is 0 there
            if (p[gone] > 0).any():
                return np.asarray(-np.inf)
            table = np.where(gone, 0.0, table)
        table = np.tensordot(table, p, (axes, range(len(scope))))
        names = [name for name in names if name not in scope]
    return np.asarray(table)
