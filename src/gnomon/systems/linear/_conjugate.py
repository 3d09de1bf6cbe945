"""Least squares by conjugate gradients on the normal equations, of which only products with the rows are made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gnomon.contracts import Array
from gnomon.numeric.conjugate_gradient import CGState, advance, begin
from gnomon.numeric.sparse import is_sparse, wide
from gnomon.training.procedure import Info, Problem

__all__ = ["NormalEquations"]

Floats = np.ndarray[Any, np.dtype[np.float64]]

ROUNDING = 1e-13
"""A residual of this share of the right side is none."""


@dataclass
class _State:
    problem: Problem
    right: Floats
    """Mean products of columns and targets, (n_features, n_outputs)."""
    squares: Floats
    """Mean squares of the targets, (n_outputs,)."""
    total: float
    cg: CGState
    iteration: int = 0
    settled: bool = False


class NormalEquations:
    r"""Solve :math:`(X^T X / n + \lambda I) W = X^T y / n` for standardized columns and targets; a step is a pass.

    Begun at 0, it ends at the solution of least norm where there are several.

    Parameters
    ----------
    l2 : float
    max_iter : int
    tol : float
        End where the residual of every output is at most this.
    """

    iterates: ClassVar[bool] = True

    def __init__(self, l2: float, max_iter: int, tol: float) -> None:
        self.l2, self.max_iter, self.tol = l2, max_iter, tol

    def start(self, problem: Problem) -> _State:
        """The right side, and weights of 0."""
        arrays = problem.model.state()
        right, squares = np.zeros((len(arrays["shift"]), len(arrays["center"]))), np.zeros(len(arrays["center"]))
        total = 0.0
        for rows, y, weight in _parts(problem):
            right += rows.back(weight[:, None] * y)
            squares += weight @ y**2
            total += float(weight.sum())
        right, squares, total = problem.group.sum((right, squares, total))
        right, squares = right / total, squares / total
        return _State(problem, right, squares, total, begin(lambda p: p, right, np.zeros_like(right), zero=True))

    def goes_on(self, state: _State) -> bool:
        """Whether a fit that had ended has steps left since their number was enlarged."""
        return not state.settled and state.iteration < self.max_iter

    def total_steps(self, state: _State) -> int:
        """Steps at most."""
        return self.max_iter

    def step(self, state: _State) -> tuple[_State, Info]:
        """One direction for every output that is not solved yet."""
        least = np.maximum(self.tol, ROUNDING * np.sqrt((state.right**2).sum(0)))
        active = state.cg.norms > least
        if active.any():
            state.cg = advance(lambda p: self._product(state, p), state.cg, active=active)
        state.iteration += 1
        state.settled = bool((state.cg.norms <= least).all())
        w, r = state.cg.x, state.cg.r
        halves = state.squares - (w * (state.right + r)).sum(0) - self.l2 * (w**2).sum(0)
        norm = float(np.sqrt((r**2).sum()))
        record = {"epoch": state.iteration, "half_squared_error": max(0.0, float(halves.sum()) / 2)}
        done = state.settled or state.iteration >= self.max_iter
        if done:
            self._publish(state)
        return state, Info(done=done, record={**record, "gradient_norm": norm}, monitored=norm)

    def _product(self, state: _State, p: Floats) -> Floats:
        """The matrix times directions."""
        own = np.zeros_like(p)
        for rows, _, weight in _parts(state.problem):
            own += rows.back(weight[:, None] * rows.ahead(p))
        whole: Floats = state.problem.group.sum(own)
        return whole / state.total + self.l2 * p

    def _publish(self, state: _State) -> None:
        """Weights and noise of the model."""
        arrays = state.problem.model.state()
        errors = np.zeros_like(state.squares)
        for rows, y, weight in _parts(state.problem):
            errors += weight @ (y - rows.ahead(state.cg.x)) ** 2
        errors = state.problem.group.sum(errors) / state.total
        arrays["weight"][:], arrays["bias"][:] = state.cg.x, 0
        state.problem.model.measure(errors * arrays["unit"] ** 2, state.squares * arrays["unit"] ** 2)

    def save(self, state: _State) -> tuple[dict[str, Array], dict[str, Any]]:
        """The model, and where the method stands."""
        arrays = {f"model/{name}": value for name, value in state.problem.model.state().items()}
        arrays |= {f"cg/{name}": value for name, value in state.cg._asdict().items()}
        return arrays, {"iteration": state.iteration, "settled": state.settled}

    def load(self, problem: Problem, arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> _State:
        """Exactly the state that was saved."""
        inside = {name.removeprefix("model/"): v for name, v in arrays.items() if name.startswith("model/")}
        problem.model.load(inside)
        state = self.start(problem)
        state.cg = CGState(*(np.array(arrays[f"cg/{name}"]) for name in CGState._fields))
        state.iteration, state.settled = facts["iteration"], facts["settled"]
        return state


class _Rows:
    """Products with the standardized rows of a batch; sparse ones are never written out."""

    def __init__(self, x: Any, arrays: Mapping[str, Floats]) -> None:
        self.shift, self.scale = arrays["shift"], arrays["scale"][:, None]
        self.x = wide(x)
        if not is_sparse(x):
            self.x, self.shift = self.x - self.shift, np.zeros_like(self.shift)

    def ahead(self, p: Floats) -> Floats:
        """Rows times (n_features, k)."""
        p = p / self.scale
        found: Floats = self.x @ p - self.shift @ p
        return found

    def back(self, u: Floats) -> Floats:
        """Columns times (n, k)."""
        found: Floats = (self.x.T @ u - np.outer(self.shift, u.sum(0))) / self.scale
        return found


def _parts(problem: Problem) -> Iterator[tuple[_Rows, Floats, Floats]]:
    """Rows, standardized targets and weights of this process's batches."""
    arrays = problem.model.state()
    for batch in problem.batches.epoch(0):
        if len(batch):
            y = np.asarray(batch.data["y"], np.float64).reshape(len(batch), -1)
            yield (
                _Rows(batch.data["X"], arrays), (y - arrays["center"]) / arrays["unit"],
                np.asarray(batch.weight, np.float64),
            )  # fmt: skip
