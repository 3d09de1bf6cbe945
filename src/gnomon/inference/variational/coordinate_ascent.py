"""Coordinate ascent on the evidence lower bound: one driver for every factorized family that knows its own updates."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.errors import UserValueError, unknown
from gnomon.numeric.given import answers, checked, doable, floats, function, numbers

__all__ = ["Ascent", "Cycles", "Factorization", "UnitFactors", "coordinate_ascent"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
State = dict[str, NDArray[Any]]

DEBUG = sys.flags.dev_mode
"""Whether a fall of a bound that cannot fall is an error: in Python's development mode, ``python -X dev``."""

RETURNED, STEADY = 0.05, 0.9
"""A row swings between two states if it comes back to this share of its last move, which is that share of the move
before it at least."""

KEPT = ("elbo", "step", "move", "back", "n_iter", "converged", "swings", "ended")
"""What an ascent keeps of each row beside its state."""

SMALLEST = 2.0**-30
"""Step below which a row is given up."""


class Factorization(Protocol):
    """A model with some variables observed, and the family ``q(h) = prod_B q_B(h_B)`` in whose place it is put.

    A state maps the name of each factor to an array, one row for each observation; `rows` are the numbers of the
    observations that the arrays hold. An array holds what may be averaged: probabilities, means, natural parameters.
    """

    blocks: Sequence[str]
    n_rows: int
    mixes: bool
    """Whether an average of two states is a state, on the way from the one up to the other."""

    def start(self) -> State:
        """Where the ascent begins, of all rows."""

    def update(self, block: str, state: State, rows: Rows) -> NDArray[Any]:
        """The best factor given the others: ``q_B proportional to exp E_rest[log p(v, h)]``."""

    def elbo(self, state: State, rows: Rows) -> Floats:
        """``E_q[log p(v, h)] + H(q)`` of each row in nats."""

    def residual(self, state: State, rows: Rows) -> Floats:
        """The largest slope of the bound of each row in the state's own coordinates."""


class Ascent(NamedTuple):
    """Where coordinate ascent ended.

    Attributes
    ----------
    state : dict of str to array (rows, ...)
        What each factor is.
    elbo : array of shape (rows,)
        Evidence lower bound in nats.
    residual : array of shape (rows,)
        Largest slope of the bound, 0 at a fixed point.
    converged : array of shape (rows,)
        Whether a stopping rule ended the row, and neither `max_iter` nor a swing between two states.
    n_iter : int array of shape (rows,)
        Cycles that a row took.
    trace : array of shape (1 + cycles, rows)
        The bound after each cycle; of rows that have ended, as it was.
    step : array of shape (rows,)
        The share of the way that the last cycle went: `damping`, or less where it was reduced.
    swings : array of shape (rows,)
        Whether a row has been seen to swing between two states.
    """

    state: State
    elbo: Floats
    residual: Floats
    converged: NDArray[np.bool_]
    n_iter: NDArray[np.int64]
    trace: Floats
    step: Floats
    swings: NDArray[np.bool_]


class Cycles:
    """Coordinate ascent under way, cycle by cycle; parameters as of `coordinate_ascent`."""

    def __init__(
        self, family: Factorization, start: Mapping[str, Any] | None = None, *, order: Sequence[str] | None = None,
        parallel: bool = False, damping: float = 1.0, backtrack: bool = True, tol_elbo: float = 0.0,
        tol_h: float = 1e-8, check: bool | None = None,
    ) -> None:  # fmt: skip
        self.family, self.names, self.parallel = family, _checked_order(family, order), parallel
        _check_steps(family, damping, tol_elbo, tol_h)
        self.state = _begun(family, start)
        self.backtrack = backtrack and family.mixes
        self.tol_elbo, self.tol_h = tol_elbo, _tolerance(self.state, tol_h)
        self.check = (DEBUG if check is None else check) and not parallel
        n = family.n_rows
        self.elbo, self.step = family.elbo(self.state, np.arange(n)), np.full(n, float(damping))
        self.before: State | None = None
        self.move, self.back = np.full(n, np.inf), np.full(n, np.inf)
        self.n_iter, self.converged = np.zeros(n, np.int64), np.zeros(n, bool)
        self.swings, self.ended = np.zeros(n, bool), np.zeros(n, bool)
        self._rows = np.arange(n)

    def cycle(self) -> None:
        """One cycle of the rows that go on."""
        if self.ended[self._rows].any():
            self._rows = self._rows[~self.ended[self._rows]]
        if not len(self._rows):
            return
        before = self.elbo.copy()
        _cycle(self.family, self, self._rows, self.names, self.parallel, self.backtrack and self.parallel)
        if self.check:
            _assert_climbed(self.family, before, self.elbo)
        _judge(self, self._rows, before, self.tol_h, self.tol_elbo, self.backtrack)

    def saved(self) -> dict[str, NDArray[Any]]:
        """All that changes, as finite arrays: `load` goes on from there."""
        arrays = {f"state/{name}": one for name, one in self.state.items()}
        arrays |= {f"before/{name}": one for name, one in (self.before or {}).items()}
        kept = {name: np.asarray(getattr(self, name)) for name in KEPT}
        return arrays | {name: np.nan_to_num(one) if one.dtype.kind == "f" else one for name, one in kept.items()}

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `saved` gave."""
        part = {
            prefix: {name.removeprefix(prefix): np.array(x) for name, x in arrays.items() if name.startswith(prefix)}
            for prefix in ("state/", "before/")
        }
        self.state, self.before = part["state/"], part["before/"] or None
        for name in KEPT:
            setattr(self, name, np.array(arrays[name]))
        self._rows = np.flatnonzero(~self.ended)


@checked
def coordinate_ascent(
    family: Factorization, start: Mapping[str, Any] | None = None, *, order: Sequence[str] | None = None,
    parallel: bool = False, damping: float = 1.0, backtrack: bool = True, tol_elbo: float = 0.0, tol_h: float = 1e-8,
    max_iter: int = 1000, check: bool | None = None,
) -> Ascent:  # fmt: skip
    r"""Raise :math:`L(q) = E_q[\log p(v, h)] + H(q)` factor by factor until it stands.

    .. math:: q_B \leftarrow (1 - a) \, q_B + a \, F_B(q), \qquad
              F_B(q) \propto \exp E_{q_{-B}}[\log p(v, h)]

    One factor after the other never lowers the bound, whatever a. All at once is a heuristic that may: it may swing
    between two states for ever, and it may settle at a saddle. With `backtrack` a row whose bound would fall stays and
    halves its step, and so does a row that swings; without, swings are told. Rows end by themselves: a cycle is made of
    those alone that go on. Of several optima the start decides, and a start on a line of symmetry may never leave it.

    Parameters
    ----------
    family : Factorization
        `TableFactors`, `NormalFactors`, `MixedFactors`, `ChainFactors`, `UnitFactors`, or one of your own.
    start : mapping of str to array (rows, ...), optional
        Where to begin, of some or all factors; the family's own start by default.
    order : sequence of str, optional
        The updates of a cycle; the family's own order by default. A name may be left out or repeated.
    parallel : bool, default False
        Whether all factors of a cycle are found from the state before it.
    damping : float, in (0, 1], default 1
        a, the share of the way to its update that a factor goes; fixed points do not depend on it.
    backtrack : bool, default True
        Whether parallel steps are halved where they go wrong.
    tol_elbo : float, at least 0, default 0
        A row ends when a cycle at full step would gain less than about this, in nats; 0 switches the rule off.
    tol_h : float, at least 0, default 1e-8
        A row ends when no entry of its factors is further than this from its update. In single precision a few units
        of the last place are the least that either rule can ask.
    max_iter : int, at least 0, default 1000
        Cycles at most.
    check : bool, optional
        Whether a fall of the bound where theory forbids it is an AssertionError; by default under ``python -X dev``.

    Returns
    -------
    Ascent

    Raises
    ------
    UserValueError
        Names, steps and tolerances that cannot be.

    Notes
    -----
    Cost of a cycle: an update of each factor, and a bound. Source: Bishop (2006), section 10.1; Goodfellow, Bengio and
    Courville (2016), section 19.4; Blei, Kucukelbir and McAuliffe (2017), "Variational inference: a review for
    statisticians".

    Examples
    --------
    >>> from gnomon.inference.variational.coordinate_normals import NormalFactors
    >>> found = coordinate_ascent(NormalFactors([[1.0, 0.9], [0.9, 1.0]], [[1.9, 1.9]]), tol_h=1e-12)
    >>> found.state["h1"].round(6).tolist(), found.converged.tolist()
    ([[1.0]], [True])
    """
    climb = Cycles(
        family, start, order=order, parallel=parallel, damping=damping, backtrack=backtrack, tol_elbo=tol_elbo,
        tol_h=tol_h, check=check,
    )  # fmt: skip
    trace = [climb.elbo.copy()]
    for _ in range(doable(max_iter, "max_iter")):
        if climb.ended.all():
            break
        climb.cycle()
        trace.append(climb.elbo.copy())
    residual = family.residual(climb.state, np.arange(family.n_rows))
    return Ascent(
        climb.state, climb.elbo, residual, climb.converged, climb.n_iter, np.array(trace), climb.step, climb.swings
    )


def _check_steps(family: Factorization, damping: float, tol_elbo: float, tol_h: float) -> None:
    if not 0 < damping <= 1:
        raise UserValueError.must("damping", "be in (0, 1]", damping)
    for name, value in (("tol_elbo", tol_elbo), ("tol_h", tol_h)):
        if not value >= 0:
            raise UserValueError.must(name, "be at least 0", value)
    if damping < 1 and not family.mixes:
        raise UserValueError.must("damping", "be 1 for factors that keep a structure", damping)


def _checked_order(family: Factorization, order: Sequence[str] | None) -> tuple[str, ...]:
    names = tuple(family.blocks if order is None else order)
    for name in names:
        if name not in family.blocks:
            raise unknown("factor", str(name), tuple(family.blocks), "order")
    return names


def _begun(family: Factorization, start: Mapping[str, Any] | None) -> State:
    """The family's start with that of the user in its place."""
    state = {name: np.array(one) for name, one in family.start().items()}
    for name, given in (start or {}).items():
        if name not in state:
            raise unknown("factor", str(name), tuple(family.blocks), "start")
        try:
            value = np.array(np.broadcast_to(np.asarray(given, state[name].dtype), state[name].shape))
        except (ValueError, TypeError):
            what = f"the start of {name!r} must be numbers of shape {state[name].shape}, got {np.shape(given)}"
            raise UserValueError(what, "start") from None
        if not np.isfinite(value).all():
            raise UserValueError(f"the start of {name!r} must be finite", "start")
        state[name] = value
    return state


def _tolerance(state: State, tol_h: float) -> float:
    """What is asked of the entries, or the least that their precision allows."""
    return max(tol_h, *(2 * float(np.finfo(one.dtype).eps) for one in state.values()))


def _cycle(family: Any, climb: Cycles, rows: Rows, names: Sequence[str], parallel: bool, backtrack: bool) -> None:
    """One cycle of these rows, in place: states, bounds, steps and moves."""
    now = {name: one[rows] for name, one in climb.state.items()}
    step = climb.step[rows]
    after, distance = dict(now), np.zeros(len(rows))
    for name in names:
        best = family.update(name, now if parallel else after, rows)
        distance = np.maximum(distance, _apart(best, after[name]))
        after[name] = _toward(after[name], best, step)
    elbo = family.elbo(after, rows)
    climb.n_iter[rows] += 1
    if backtrack:
        fell = elbo < climb.elbo[rows] - _rounding(climb.elbo[rows], after)
        climb.step[rows] = np.where(fell, step / 2, step)
        for name in after:
            after[name][fell] = now[name][fell]
        elbo, distance = np.where(fell, climb.elbo[rows], elbo), np.where(fell, np.inf, distance)
    _watch(climb, rows, now, after, distance)
    for name, one in after.items():
        climb.state[name][rows] = one
    climb.elbo[rows] = elbo


def _watch(climb: Cycles, rows: Rows, now: State, after: State, distance: Floats) -> None:
    """Which rows are back where they were two states ago; what they moved."""
    climb.swings[rows] = False
    if climb.before is None:
        climb.before = {name: np.array(one) for name, one in climb.state.items()}
    else:
        back = np.max([_apart(after[name], climb.before[name][rows]) for name in now], axis=0)
        moved = distance * climb.step[rows]
        same = np.isfinite(moved) & (moved >= STEADY * climb.move[rows])
        climb.swings[rows], climb.back[rows] = same & (back <= RETURNED * moved), back
        for name in now:
            climb.before[name][rows] = now[name]
    climb.move[rows] = distance * climb.step[rows]


def _judge(climb: Cycles, rows: Rows, before: Floats, tol_h: float, tol_elbo: float, backtrack: bool) -> None:
    """Which rows have ended, and which go on at half the step."""
    distance = climb.move[rows] / climb.step[rows]
    gain = (climb.elbo - before)[rows] / climb.step[rows]
    settled = (distance <= tol_h) | ((np.abs(gain) < tol_elbo) & np.isfinite(distance) & ~climb.swings[rows])
    swings = climb.swings[rows] & ~settled
    climb.converged[rows] = settled
    climb.swings[rows] = swings
    if backtrack:
        climb.step[rows] = np.where(swings, climb.step[rows] / 2, climb.step[rows])
        lost = climb.step[rows] < SMALLEST
    else:
        lost = swings & (climb.back[rows] <= tol_h)
    climb.ended[rows] = settled | lost


def _assert_climbed(family: Any, before: Floats, after: Floats) -> None:
    fallen = after < before - 1e-9 * np.maximum(1.0, np.abs(before))
    if fallen.any():
        row = int(np.argmax(fallen))
        what = f"{type(family).__name__}: the bound of row {row} fell from {before[row]} to {after[row]}"
        raise AssertionError(what + ": its update is not the best factor given the others")


def _toward(before: NDArray[Any], best: NDArray[Any], step: Floats) -> NDArray[Any]:
    """Part of the way, by row."""
    if (step == 1).all():
        return best
    share = step.astype(best.dtype).reshape(-1, *(1,) * (best.ndim - 1))
    return before + share * (best - before)


def _apart(one: NDArray[Any], other: NDArray[Any]) -> Floats:
    """Largest distance of an entry, by row."""
    gap = np.abs(one - other)
    return np.asarray(gap.reshape(len(gap), -1).max(1, initial=0.0), np.float64)


def _rounding(elbo: Floats, state: State) -> Floats:
    """How far a bound may fall by rounding alone."""
    eps = max(float(np.finfo(one.dtype).eps) for one in state.values())
    return 64 * eps * np.maximum(1.0, np.abs(elbo))


class UnitFactors:
    r"""Independent units of 0 and 1 whose model says what each of them should be: the solver of :math:`dL/d\hat h = 0`.

    Parameters
    ----------
    update : callable
        ``(i, means, v) -> (rows,)``: the best :math:`\hat h_i` in [0, 1] given those of the others, means (rows, m).
    elbo : callable
        ``(means, v) -> (rows,)`` in nats.
    m : int, at least 1
        Units.
    v : array of shape (rows, ...)
        Observations.
    start : float or array of shape (m,) or (rows, m), in [0, 1], default 0.5

    Notes
    -----
    The bound is concave in each mean, and its slope there is the difference of the log-odds of update and mean.

    Examples
    --------
    >>> from gnomon.inference.variational.binary_sparse_coding import BinarySparseCoding
    >>> coding = BinarySparseCoding([[1.0, 0.5], [0.0, 1.0]], b=[0.0, -1.0], beta=[1.0, 2.0])
    >>> one = lambda i, means, v: coding.updates(v, means)[:, i]
    >>> found = coordinate_ascent(UnitFactors(one, lambda means, v: coding.elbo(v, means), 2, [[1.0, 1.0]]))
    >>> [float(found.state[unit][0, 0].round(6)) for unit in ("0", "1")], found.elbo.round(6).tolist()
    ([0.559242, 0.523827], [-2.290007])
    """

    mixes = True

    @checked
    def __init__(
        self, update: Callable[..., Any], elbo: Callable[..., Any], m: int, v: ArrayLike, start: ArrayLike = 0.5
    ) -> None:
        self._update, self._elbo, self.v = function(update, "update"), function(elbo, "elbo"), numbers(v, "v")
        self.blocks, self.n_rows = tuple(map(str, range(doable(m, "m", least=1)))), len(self.v)
        means = floats(start, "start")
        if means.ndim > 2 or (means.ndim and means.shape[-1] != m) or not ((means >= 0) & (means <= 1)).all():
            raise UserValueError.must("start", f"be in [0, 1], a number or one for each of {m} units", means)
        self._start = np.broadcast_to(means, (self.n_rows, m))

    def start(self) -> State:
        """The means given, (rows, 1) each."""
        return {name: self._start[:, i : i + 1] for i, name in enumerate(self.blocks)}

    def means(self, state: State) -> Floats:
        """All of them, (rows, m)."""
        return np.concatenate([state[name] for name in self.blocks], 1)

    def update(self, block: str, state: State, rows: Rows) -> Floats:
        """What the model says of this unit."""
        found = answers(self._update(int(block), self.means(state), self.v[rows]), (len(rows),), "update", finite=True)
        return found[:, None]

    def elbo(self, state: State, rows: Rows) -> Floats:
        """What the model says."""
        return answers(self._elbo(self.means(state), self.v[rows]), (len(rows),), "elbo")

    def residual(self, state: State, rows: Rows) -> Floats:
        """Largest ``|dL / dh_i|``: of units at 0 or 1, how far they are from their update."""
        worst = np.zeros(len(rows))
        for name in self.blocks:
            best, now = self.update(name, state, rows)[:, 0], state[name][:, 0]
            with np.errstate(divide="ignore", invalid="ignore"):
                slope = np.abs(np.log(best / now) - np.log((1 - best) / (1 - now)))
            worst = np.maximum(worst, np.where(np.isfinite(slope), slope, np.abs(best - now)))
        return worst
