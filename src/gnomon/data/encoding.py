"""Columns of categories as indicators (one-hot)."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np

from gnomon.contracts import Group, State
from gnomon.data.steps import PreprocessingStep
from gnomon.distributions.arrays import Floats, plain, row_weights
from gnomon.errors import UserTypeError, UserValueError

__all__ = ["Indicators"]

Column = np.ndarray[Any, Any]
_NUMBERS = (bool, int, float, np.number, np.bool_)


class Indicators(PreprocessingStep):
    """One column for each category of each column, in sorted order: A, B, C become (1, 0, 0), (0, 1, 0), (0, 0, 1).

    A column holds numbers or text. A missing number (NaN, None) is a category of its own, the last one; a missing text
    is refused.

    Parameters
    ----------
    unseen : {"error", "zeros"}, default "error"
        What a category that no training row had becomes.

    Attributes
    ----------
    categories : list of arrays
        Sorted, by column; float64 or text.

    Notes
    -----
    Cost O(n log K) per column. Categories of chunks and processes are joined as sets.

    Examples
    --------
    >>> step = Indicators().fit([["A"], ["C"], ["B"]])
    >>> step.transform([["B"], ["A"]])
    array([[0., 1., 0.],
           [1., 0., 0.]], dtype=float32)
    >>> step.inverse_transform(step.transform([["B"], ["A"]])).tolist()
    [['B'], ['A']]
    """

    def __init__(self, unseen: Literal["error", "zeros"] = "error") -> None:
        if unseen not in ("error", "zeros"):
            raise UserValueError(f"unseen must be 'error' or 'zeros', got {unseen!r}", "unseen")
        self.unseen = unseen
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.n_inputs = None
        self.categories: list[Column] = []

    def partial_fit(self, X: Any, weight: Any = None) -> Self:
        """Learn the categories of more rows."""
        columns = _columns(X)
        if weight is not None and columns:
            kept = row_weights(weight, len(columns[0]), np.float64) > 0
            columns = [column[kept] for column in columns]
        return self._join([np.unique(column) for column in columns])

    def merge(self, other: Self) -> Self:
        """Categories of both."""
        return self if other.n_inputs is None else self._join(other.categories)

    def over(self, group: Group) -> Self:
        """Categories of all processes, each of which has fitted rows of the same columns."""
        joined = [_unpack(group.gather(_pack(column)), text=column.dtype.kind == "U") for column in self.categories]
        return self._join([np.unique(column) for column in joined])

    @property
    def n_outputs(self) -> int:
        """Columns after the step: all categories together."""
        self._columns()
        return sum(map(len, self.categories))

    def transform(self, X: Any) -> Floats:
        """Zeros and ones, shape (n, n_outputs): float64 where X is a float64 array, else float32."""
        columns = self._known(X)
        dtype = np.float64 if getattr(X, "dtype", None) == np.float64 else np.float32
        out = np.zeros((len(columns[0]), self.n_outputs), dtype)
        start = 0
        for j, (column, known) in enumerate(zip(columns, self.categories, strict=True)):
            codes, seen = _locate(column, known)
            if self.unseen == "error" and not seen.all():
                row = int(seen.argmin())
                raise UserValueError(
                    f"category {column[row].item()!r} was in no training row", f"row {row}, column {j}",
                    "fit to rows that have it, or set unseen='zeros'",
                )  # fmt: skip
            rows = np.flatnonzero(seen)
            out[rows, start + codes[rows]] = 1
            start += len(known)
        return out

    def inverse_transform(self, X: Any) -> Column:
        """The category with the largest indicator of each column; where all are 0, NaN, or None of text.

        Returns
        -------
        array of shape (n, d)
            float64 where every column holds numbers, else objects.
        """
        values = np.asarray(X)
        if values.ndim != 2 or values.shape[1] != self.n_outputs:
            what = f"X must have shape (n, {self.n_outputs}), got {values.shape}"
            raise UserValueError(what, "X", "give what transform gave")
        found, start = [], 0
        for known in self.categories:
            part = values[:, start : start + len(known)]
            start += len(known)
            text = known.dtype.kind == "U"
            chosen = known.astype(object if text else np.float64)[part.argmax(1)]
            chosen[~part.any(1)] = None if text else np.nan
            found.append(chosen)
        numbers = all(column.dtype == np.float64 for column in found)
        return np.stack(found, 1).astype(np.float64 if numbers else object)

    def log_jacobian(self) -> float:
        """Refused: indicators have no density."""
        raise UserTypeError("indicators have no density", "one-hot", "use a system of categories")

    def state(self) -> dict[str, Any]:
        """``numbers/j``, float64, or ``text/j``, UTF-8 bytes with a NUL after each category, by column j."""
        self._columns()
        kinds = ["text" if column.dtype.kind == "U" else "numbers" for column in self.categories]
        return {f"{kind}/{j}": _pack(c) for j, (kind, c) in enumerate(zip(kinds, self.categories, strict=True))}

    def load(self, state: State) -> None:
        """Take categories over."""
        self.n_inputs = len(state)
        named = {int(name.partition("/")[2]): (name.startswith("text"), value) for name, value in state.items()}
        self.categories = [_unpack(np.asarray(named[j][1]), text=named[j][0]) for j in range(len(state))]

    def _join(self, new: list[Column]) -> Self:
        if self.n_inputs is None:
            self.n_inputs, self.categories = len(new), new
            return self
        self._same(new)
        self.categories = [np.unique(np.concatenate(pair)) for pair in zip(self.categories, new, strict=True)]
        return self

    def _known(self, X: Any) -> list[Column]:
        columns = _columns(X)
        self._same(columns)
        return columns

    def _same(self, columns: list[Column]) -> None:
        if len(columns) != self._columns():
            what = f"X must have {self._columns()} columns, got {len(columns)}"
            raise UserValueError(what, "X", "give the columns of the fit")
        for j, (column, known) in enumerate(zip(columns, self.categories, strict=True)):
            if len(column) and len(known) and (column.dtype.kind == "U") != (known.dtype.kind == "U"):
                kinds = [("text" if part.dtype.kind == "U" else "numbers") for part in (column, known)]
                raise UserTypeError(f"the column must hold {kinds[1]}, as in the fit, got {kinds[0]}", f"column {j}")


def _columns(X: Any) -> list[Column]:
    """Columns of numbers as float64, of text as text."""
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise UserTypeError("Sparse data was passed for X, but dense data is required", "X", "use X.toarray()")
    array = plain(X, "X", "give every row the same columns")
    if array.ndim != 2 or not array.shape[1]:
        what = f"Expected 2D array, got shape {array.shape}"
        raise UserValueError(what, "X", "Reshape your data: one row per example, one column per variable")
    if array.dtype.kind in "biuf":
        return list(array.astype(np.float64).T.copy())
    return [_column(array[:, j].astype(object), j) for j in range(array.shape[1])]


def _column(cells: Column, j: int) -> Column:
    """Cells of any kind as numbers or text; cells are looked at one by one only to find the place of a mistake."""
    kinds = set(map(type, cells.tolist()))
    if all(issubclass(kind, str) for kind in kinds):
        if "\0" in "".join(cells.tolist()):
            row = next(row for row, cell in enumerate(cells) if "\0" in cell)
            raise UserValueError("a text has a NUL character", f"row {row}, column {j}", "clean the text")
        return cells.astype(np.str_)
    if all(issubclass(kind, _NUMBERS) for kind in kinds):
        return cells.astype(np.float64)
    missing = np.array([cell is None or type(cell).__name__ == "NAType" or cell != cell for cell in cells])
    if all(issubclass(kind, str) for kind in set(map(type, cells[~missing].tolist()))) and not missing.all():
        row = int(missing.argmax())
        raise UserValueError("a text is missing", f"row {row}, column {j}", "fill it with a word of its own")
    numbers = np.where(missing, np.nan, cells)
    for row, cell in enumerate(numbers):
        if not isinstance(cell, _NUMBERS):
            kind = "text beside numbers" if isinstance(cell, str) else f"a {type(cell).__name__}"
            raise UserTypeError(f"{cell!r} is {kind}", f"row {row}, column {j}", "give a column numbers or text")
    return numbers.astype(np.float64)


def _locate(column: Column, known: Column) -> tuple[Column, Column]:
    """Place of each value among the sorted categories (NaN is the last), and whether it is one of them."""
    if not len(known):
        return np.zeros(len(column), np.int64), np.zeros(len(column), bool)
    codes = np.searchsorted(known, column).clip(max=len(known) - 1)
    seen = known[codes] == column
    if column.dtype.kind == "f":
        seen |= np.isnan(known[codes]) & np.isnan(column)
    return codes, seen


def _pack(column: Column) -> Column:
    if column.dtype.kind != "U":
        return column
    return np.frombuffer("".join(f"{text}\0" for text in column.tolist()).encode(), np.uint8)


def _unpack(values: Column, *, text: bool) -> Column:
    if not text:
        return values.astype(np.float64)
    return np.array(values.tobytes().decode().split("\0")[:-1], dtype=np.str_)
