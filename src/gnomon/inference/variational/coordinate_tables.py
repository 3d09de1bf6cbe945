"""Factors over values that can be listed: discrete variables, continuous ones on a grid, and blocks of both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Noise
from gnomon.errors import UserValueError, shown, unknown
from gnomon.inference.variational.coordinate_ascent import Rows, State
from gnomon.inference.variational.coordinate_posterior import BlockOfValues
from gnomon.numeric.given import affordable, checked, floats

__all__ = ["TableFactors", "expected_over", "partition"]

Floats = NDArray[np.float64]

_LIMIT = 1 << 26
"""Entries of all rows' tables: 512 MB."""


class TableFactors:
    r"""The family ``q(h) = prod_B q_B(h_B)`` of probability tables beside a joint distribution that is a table itself.

    .. math:: q_B(h_B) \propto w_B(h_B) \exp \sum_{h_{-B}} q_{-B}(h_{-B}) \log p(v, h)

    Of blocks of one variable each it is mean field; a block of several is solved exactly by enumeration, and one block
    of all is the posterior itself. A continuous variable on a grid is one whose values have widths, `measure`: the
    bound is then that of densities, constant in each cell. Values of probability 0 are left out where the others allow
    them to be; where the others leave no value, the family cannot hold the posterior from that start.

    Parameters
    ----------
    log_joint : array of shape (rows, k_1, ..., k_m)
        ``log p(v, h)`` in nats of each row's v and all values of h, -inf where it is 0.
    names : sequence of str, optional
        Of the variables; ``h1``, ``h2`` ... by default.
    blocks : sequence of names or sequences of names, optional
        Variables that keep their dependence; each by itself by default. A block is named by its variables with commas.
    measure : mapping of name to array (k,), optional
        Widths of the cells of variables on a grid; 1 for each value of the others.
    values : mapping of name to array (k,), optional
        What the values are; 0, 1, ... by default.
    noise : Noise, optional
        Moves the start, which is the same chance for every value, off lines of symmetry.

    Raises
    ------
    UserValueError
        Names that do not fit, tables above 2^26 entries, rows of which every state has probability 0.

    Notes
    -----
    Cost of an update: one pass over the table. Source: Goodfellow, Bengio and Courville (2016), sections 19.4.1 and
    19.4.3.

    Examples
    --------
    >>> from gnomon.inference.variational.coordinate_ascent import coordinate_ascent
    >>> table = np.log([[[0.3, 0.1], [0.2, 0.4]]])  # two variables that depend on each other
    >>> found = coordinate_ascent(TableFactors(table))
    >>> found.state["h1"].round(4).tolist(), found.elbo.round(4).tolist()
    ([[0.3782, 0.6218]], [-0.092])
    >>> coordinate_ascent(TableFactors(table, blocks=[["h1", "h2"]])).elbo.round(12).tolist()
    [0.0]
    """

    mixes = True

    @checked
    def __init__(
        self, log_joint: ArrayLike, names: Sequence[str] | None = None, *,
        blocks: Sequence[Any] | None = None, measure: Mapping[str, ArrayLike] | None = None,
        values: Mapping[str, ArrayLike] | None = None, noise: Noise | None = None,
    ) -> None:  # fmt: skip
        table = floats(log_joint, "log_joint")
        if table.ndim < 2 or not table.size:
            raise UserValueError.must("log_joint", "have rows, and an axis for each variable", table)
        affordable(table.size, "log_joint", "give fewer rows, or values", limit=_LIMIT)
        m = table.ndim - 1
        self.names = tuple(f"h{i + 1}" for i in range(m)) if names is None else tuple(map(str, names))
        if len(self.names) != m or len(set(self.names)) != m:
            raise UserValueError.must("names", f"be {m} different names, one for each axis", list(self.names))
        self.n_rows, self.sizes = len(table), dict(zip(self.names, table.shape[1:], strict=True))
        groups = partition(self.names, blocks)
        self.groups = dict(zip(map(",".join, groups), groups, strict=True))
        self.blocks: tuple[str, ...] = tuple(self.groups)
        self._lengths = [math.prod(self.sizes[name] for name in group) for group in groups]
        axes = [1 + self.names.index(name) for group in groups for name in group]
        self._table = np.ascontiguousarray(table.transpose(0, *axes)).reshape(self.n_rows, *self._lengths)
        _check_rows(self._table)
        self._measure = dict(measure or {})
        self._log_measure = [self._widths(group, self._measure) for group in groups]
        self.values = {name: np.arange(size) * 1.0 for name, size in self.sizes.items()}
        self.values |= {name: floats(one, f"values of {name}") for name, one in (values or {}).items()}
        gone = np.isneginf(self._table)
        self._gone = gone if gone.any() else None
        if self._gone is not None:
            self._table = np.where(self._gone, 0.0, self._table)
        self._noise, self._kept = noise, (np.arange(0), self._table, self._gone)

    def start(self, noise: Noise | None = None) -> State:
        """Every value as likely as its width says; moved by a tenth of a nat or so where there is noise."""
        state: State = {}
        noise = self._noise if noise is None else noise
        for block, length, widths in zip(self.blocks, self._lengths, self._log_measure, strict=True):
            log_q = np.broadcast_to(widths, (self.n_rows, length))
            if noise is not None:
                place = noise.child(f"start/{block}")
                log_q = log_q + 0.1 * place.normal((self.n_rows, length), like=log_q)
            state[block] = _normalized(log_q)
        return state

    def update(self, block: str, state: State, rows: Rows) -> Floats:
        """exp of the expected log joint, made to sum to 1."""
        found = self._log_factor(self.blocks.index(block), state, rows)
        lost = np.isneginf(found).all(1)
        if lost.any():
            raise UserValueError(
                f"no value of {block} is possible beside the others as they are", f"row {rows[np.argmax(lost)]}",
                "put the variables that exclude each other into one block, or start elsewhere",
            )  # fmt: skip
        return _normalized(found)

    def elbo(self, state: State, rows: Rows) -> Floats:
        """-inf where q allows what has probability 0."""
        expected = self._log_factor(0, state, rows) - self._log_measure[0]
        q = state[self.blocks[0]]
        total = (q * np.where(q > 0, expected, 0.0)).sum(1)
        for block, widths in zip(self.blocks, self._log_measure, strict=True):
            p = state[block]
            total = total - (p * (np.log(np.where(p > 0, p, 1.0)) - widths)).sum(1)
        return np.asarray(total)

    def residual(self, state: State, rows: Rows) -> Floats:
        """Largest slope of the bound along the move of chance from one value of a factor to another, in nats.

        Of a unit of 0 and 1 it is ``|dL / dh|``. Values of no chance have none.
        """
        worst = np.zeros(len(rows))
        for i, block in enumerate(self.blocks):
            log_best, q = self._log_factor(i, state, rows), state[block]
            slope = log_best - np.log(np.where(q > 0, q, 1.0))
            held = q > 0
            lowest = np.where(held, slope, np.inf).min(1)
            span = np.where(held, slope, -np.inf).max(1) - np.where(np.isfinite(lowest), lowest, 0.0)
            worst = np.maximum(worst, np.where(np.isneginf(lowest), np.inf, span))
        return worst

    def marginals(self, state: State) -> dict[str, Floats]:
        """Probabilities of each variable's values, (rows, k)."""
        found: dict[str, Floats] = {}
        for block, group in self.groups.items():
            q = state[block].reshape(-1, *(self.sizes[name] for name in group))
            for i, name in enumerate(group):
                found[name] = q.sum(tuple(1 + j for j in range(len(group)) if j != i))
        return {name: found[name] for name in self.names}

    def parts(self, state: State) -> list[BlockOfValues]:
        """The blocks as distributions; of several rows each variable's numbers are ``h1[0]``, ``h1[1]``, ..."""
        widths = {name: floats(self._measure.get(name, np.ones(k)), name) for name, k in self.sizes.items()}
        found = []
        for r in range(self.n_rows):
            for block, group in self.groups.items():
                q = state[block][r].reshape([self.sizes[name] for name in group])
                names = [name if self.n_rows == 1 else f"{name}[{r}]" for name in group]
                found.append(
                    BlockOfValues(names, [self.values[name] for name in group], [widths[name] for name in group], q)
                )
        return found

    def mode(self) -> tuple[dict[str, Floats], Floats, bool]:
        """The most probable values of each row, their log joint, and whether no variable is on a grid.

        Of one row they are numbers, of several arrays (rows,).
        """
        order = [name for group in self.groups.values() for name in group]
        table = self._table if self._gone is None else np.where(self._gone, -np.inf, self._table)
        flat = table.reshape(self.n_rows, -1)
        at = np.unravel_index(flat.argmax(1), [self.sizes[name] for name in order])
        found = {name: self.values[name][code] for name, code in zip(order, at, strict=True)}
        shape = () if self.n_rows == 1 else (self.n_rows,)
        return {name: found[name].reshape(shape) for name in self.names}, flat.max(1).reshape(shape), not self._measure

    def log_joint_at(self, numbers: Mapping[str, Floats]) -> Floats | None:
        """log p(v, h) at values of the variables of the only row; None of several rows."""
        if self.n_rows > 1:
            return None
        order = [name for group in self.groups.values() for name in group]
        at = tuple(np.abs(numbers[name][:, None] - self.values[name]).argmin(1) for name in order)
        shape = [self.sizes[name] for name in order]
        table = self._table if self._gone is None else np.where(self._gone, -np.inf, self._table)
        return np.asarray(table[0].reshape(shape)[at])

    def _log_factor(self, i: int, state: State, rows: Rows) -> Floats:
        """log w + E_rest[log p(v, h)] of factor i, shape (rows, k_i)."""
        table, gone = self._of(rows)
        others = [None if j == i else state[block] for j, block in enumerate(self.blocks)]
        found = expected_over(table, others) + self._log_measure[i]
        if gone is None:
            return found
        return np.where(expected_over(gone.astype(np.float64), others) > 0, -np.inf, found)

    def _of(self, rows: Rows) -> tuple[Floats, NDArray[np.bool_] | None]:
        """The tables of these rows; those asked for last are kept."""
        if len(rows) == self.n_rows:
            return self._table, self._gone
        if self._kept[0] is not rows:
            self._kept = (rows, self._table[rows], None if self._gone is None else self._gone[rows])
        return self._kept[1], self._kept[2]

    def _widths(self, group: Sequence[str], measure: dict[str, ArrayLike]) -> Floats:
        """Log of the widths of a block's cells, (k,)."""
        for name in measure:
            if name not in self.names:
                raise unknown("variable", str(name), self.names, "measure")
        total = np.zeros(1)
        for name in group:
            widths = floats(measure.get(name, np.ones(self.sizes[name])), f"measure of {name}")
            if widths.shape != (self.sizes[name],) or not ((widths > 0) & np.isfinite(widths)).all():
                raise UserValueError.must(f"measure of {name}", f"be {self.sizes[name]} positive numbers", widths)
            total = (total[:, None] + np.log(widths)).ravel()
        return total


def expected_over(table: Floats, factors: Sequence[Floats | None]) -> Floats:
    """Expectation of the entries under independent axes; the axis of None stays.

    Parameters
    ----------
    table : array of shape (rows, k_1, ..., k_B)
    factors : sequence of array (rows, k_j) or None
        Probabilities along each axis, of one row for all or of each; one of them None.
    """
    kept = next(j for j, q in enumerate(factors) if q is None)
    for q in reversed(factors[kept + 1 :]):
        column = np.asarray(q)[:, *(None,) * (table.ndim - 3), :, None]
        table = np.matmul(table, column)[..., 0]
    for q in factors[:kept]:
        rest = table.shape[2:]
        table = np.matmul(np.asarray(q)[:, None], table.reshape(*table.shape[:2], -1))
        table = table.reshape(len(table), *rest)
    return table


def _normalized(log_q: Floats) -> Floats:
    q = np.exp(log_q - log_q.max(1, keepdims=True))
    return np.asarray(q / q.sum(1, keepdims=True))


def _check_rows(table: Floats) -> None:
    if not (table < math.inf).all():
        raise UserValueError("log_joint must be numbers below +inf", "log_joint")
    gone = np.isneginf(table).reshape(len(table), -1).all(1)
    if gone.any():
        raise UserValueError("every state has probability 0", f"log_joint, row {int(np.argmax(gone))}")


def partition(names: Sequence[str], blocks: Sequence[Any] | None) -> list[tuple[str, ...]]:
    """Sets of names, each name in one of them; those that no set has by themselves, in their order.

    Examples
    --------
    >>> partition(["a", "b", "c"], [["c", "a"]])
    [('c', 'a'), ('b',)]
    """
    groups = [(block,) if isinstance(block, str) else tuple(block) for block in blocks or ()]
    named = [name for group in groups for name in group]
    for name in named:
        if name not in names:
            raise unknown("variable", str(name), tuple(names), "blocks")
    if len(set(named)) != len(named) or not all(groups):
        raise UserValueError(f"blocks must name a variable once at most, got {shown(groups)}", "blocks")
    return [*groups, *((name,) for name in names if name not in named)]
