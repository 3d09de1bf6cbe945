"""What preprocessing steps have in common: columns, blocks, lost values."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from gnomon.contracts import Group, State
from gnomon.distributions.arrays import Floats
from gnomon.distributions.domains import Real
from gnomon.errors import UserValueError

__all__ = ["Columnwise", "PreprocessingStep", "blocks", "refuse_empty", "same_columns"]

_CELLS = 1 << 16
"""Cells that are computed at once: half a megabyte of float64 stays in the cache."""
_SEEN = 4096
"""Rows that are looked at for values that scaling has made equal."""


class PreprocessingStep:
    """Base of the fitted steps. NaN is a missing value: statistics pass over it, and it stays."""

    n_inputs: int | None = None

    def fit(self, X: Any, weight: Any = None) -> Self:
        """Forget what was learned, learn from these rows, and warn where their values would be lost.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The training rows, never validation or test rows. Not changed.
        weight : array of shape (n,), optional
            Weights of the rows; one of weight 0 is as if it were not there.
        """
        self.reset()
        self.partial_fit(X, weight)
        self._warn_of_lost_values(X)
        return self

    def reset(self) -> None:
        """Forget everything."""
        raise NotImplementedError

    def partial_fit(self, X: Any, weight: Any = None) -> Self:
        """Learn from more rows; chunks of any size give what all rows at once give."""
        raise NotImplementedError

    def merge(self, other: Self) -> Self:
        """Take in what another step of this kind has learned from other rows."""
        raise NotImplementedError

    def over(self, group: Group) -> Self:
        """Take in what the other processes have learned from their rows, in order of rank."""
        raise NotImplementedError

    def transform(self, X: Any) -> Floats:
        """The step applied to rows."""
        raise NotImplementedError

    def inverse_transform(self, X: Any) -> Any:
        """The rows that `transform` made these of."""
        raise NotImplementedError

    def log_jacobian(self) -> float:
        """log abs det of the map, in nats per row: a log density of transformed rows plus this belongs to the rows."""
        raise NotImplementedError

    @property
    def n_outputs(self) -> int:
        """Columns after the step."""
        return self._columns()

    def state(self) -> dict[str, Any]:
        """What was learned, as arrays by name."""
        raise NotImplementedError

    def load(self, state: State) -> None:
        """Take over what `state` gave."""
        raise NotImplementedError

    def _rows(self, X: Any, *, learning: bool = False) -> Floats:
        """A table of finite numbers or NaN with the columns of the fit."""
        rows = Real(allow_missing=True, largest=1e100).check(X)
        if learning and self.n_inputs is None:
            self.n_inputs = rows.shape[1]
        if rows.shape[1] != self._columns():
            what = f"X must have {self._columns()} columns, got {rows.shape[1]}"
            raise UserValueError(what, "X", "give the columns of the fit")
        return rows

    def _columns(self) -> int:
        if self.n_inputs is None:
            raise UserValueError(f"the {type(self).__name__} was not fitted", "step", "call fit first")
        return self.n_inputs

    def _warn_of_lost_values(self, X: Any) -> None:
        """Say where rounding made more than one in twenty distinct values equal: one outlier can do that."""


class Columnwise(PreprocessingStep):
    """A map of each column by itself, x -> (x - shift) / unit * span + low."""

    span, low = 1.0, 0.0

    def units(self) -> tuple[Floats, Floats]:
        """Shift and unit of each column."""
        raise NotImplementedError

    def transform(self, X: Any) -> Floats:
        """Rows in the dtype of X."""
        shift, unit = self.units()

        def forward(block: Floats) -> None:
            block -= shift
            block /= unit
            if (self.span, self.low) != (1, 0):
                block *= self.span
                block += self.low

        return _by_blocks(self._rows(X), forward)

    def inverse_transform(self, X: Any) -> Floats:
        """Rows in the columns' own units; a constant column gives its constant."""
        shift, unit = self.units()

        def backward(block: Floats) -> None:
            if (self.span, self.low) != (1, 0):
                block -= self.low
                block /= self.span
            block *= unit
            block += shift

        return _by_blocks(self._rows(X), backward)

    def log_jacobian(self) -> float:
        """Sum over columns of log(span / unit); a constant column has unit 1."""
        return float((math.log(self.span) - np.log(self.units()[1])).sum())

    def _warn_of_lost_values(self, X: Any) -> None:
        rows = self._rows(X)
        seen = rows[:: max(1, len(rows) // _SEEN)]
        before, after = _distinct(seen), _distinct(self.transform(seen))
        lost = after < 0.95 * before
        if lost.any():
            column = int(lost.argmax())
            warnings.warn(
                f"column {column}: {before[column]} distinct values became {after[column]} after scaling in "
                f"{rows.dtype}; remove outliers, give float64, or turn scaling off",
                UserWarning, stacklevel=3,
            )  # fmt: skip


def blocks(rows: Floats) -> list[slice]:
    step = max(1, _CELLS // max(1, rows.shape[1]))
    return [slice(start, start + step) for start in range(0, len(rows), step)]


def _by_blocks(rows: Floats, change: Callable[[Floats], None]) -> Floats:
    """Change float64 rows in place, answer in the dtype of the rows, without a float64 copy of everything."""
    out = np.empty_like(rows)
    for chosen in blocks(rows):
        block = rows[chosen].astype(np.float64)
        with np.errstate(over="ignore"):
            change(block)
            out[chosen] = block
    return out


def _distinct(rows: Floats) -> Any:
    """Distinct values of each column."""
    columns = np.array(rows.T, order="C")
    columns.sort(axis=1)
    return 1 + (columns[:, 1:] > columns[:, :-1]).sum(1)


def refuse_empty(empty: Any) -> None:
    if empty.any():
        raise UserValueError(
            "no training row has a value", f"column {int(empty.argmax())}", "leave the column out or fill it"
        )


def same_columns(step: PreprocessingStep, other: PreprocessingStep) -> None:
    if step.n_inputs not in (None, other.n_inputs):
        what = f"steps must have the same columns, got {step.n_inputs} and {other.n_inputs}"
        raise UserValueError(what, "merge", "merge steps of the same columns")
