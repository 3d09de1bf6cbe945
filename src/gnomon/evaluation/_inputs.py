"""What metrics are given, made plain: pairs of labels as codes, probabilities, scores; the first bad row is named."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.distributions.arrays import plain, row_weights
from gnomon.distributions.domains import Labels
from gnomon.errors import UserValueError, shown

__all__ = ["Array", "Floats", "codes_of", "hits", "numbers", "pair", "power_of_two", "probabilities", "weights"]

Array = NDArray[Any]
Floats = NDArray[np.float64]

DENSE = 1 << 16
"""Whole numbers within a range of this size are counted, not sorted."""

ROUNDING = 1e-4
"""What probabilities of single precision may miss a sum of 1 by."""


def pair(y: Any, predicted: Any) -> tuple[Array, NDArray[np.int64], NDArray[np.int64]]:
    """The classes that occur in either column, sorted, and the code of every label.

    Raises
    ------
    UserValueError
        Columns that are empty, of two lengths, of two kinds, or no labels.

    Examples
    --------
    >>> pair(["a", "c"], ["a", "b"])
    (array(['a', 'b', 'c'], dtype='<U1'), array([0, 2]), array([0, 1]))
    """
    left, right = _plain(y), _plain(predicted)
    if left is not None and right is not None and len(left) == len(right) > 0:
        low, high = min(left.min(), right.min()), max(left.max(), right.max())
        if high - low < DENSE:
            return _counted(left - low, right - low, int(low), int(high - low) + 1)
    known, codes = Labels().encode(y)
    if not len(codes):
        raise UserValueError("y must have at least one row", "y")
    found, others = Labels().encode(predicted, n=len(codes), name="predicted")
    if (known.dtype.kind in "UO") != (found.dtype.kind in "UO"):
        kinds = f"labels {known.tolist()[0]!r} and predictions {found.tolist()[0]!r}"
        raise UserValueError(
            f"y and predicted must be of one kind, got {kinds}", "predicted", "give both as text or both as numbers"
        )
    classes = np.unique(np.concatenate([known, found]))
    return classes, np.searchsorted(classes, known)[codes], np.searchsorted(classes, found)[others]


def _plain(y: Any) -> NDArray[np.int64] | None:
    """Whole numbers and truth values as int64; None for what takes the long way."""
    array = plain(y, "y", "give one label per row")
    return array.astype(np.int64) if array.ndim == 1 and array.dtype.kind in "bi" and array.size else None


def _counted(
    left: NDArray[np.int64], right: NDArray[np.int64], low: int, span: int
) -> tuple[Array, NDArray[np.int64], NDArray[np.int64]]:
    present = (np.bincount(left, minlength=span) > 0) | (np.bincount(right, minlength=span) > 0)
    classes = np.flatnonzero(present)
    if len(classes) == span:
        return classes + low, left, right
    index = np.cumsum(present) - 1
    return classes + low, index[left], index[right]


def codes_of(y: Any, classes: Array, *, n: int | None = None, name: str = "y") -> NDArray[np.int64]:
    """The place of every label among the classes.

    Raises
    ------
    UserValueError
        A label that is none of them, with its row.
    """
    known, codes = _looked_up(y, classes, n)
    if known is None:
        known, codes = Labels().locate(y, classes, n=n, name=name)
    if known.all():
        return codes
    row = int(np.argmin(known))
    label = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)[row : row + 1].tolist()[0]
    raise UserValueError(f"unknown label {label!r}", f"{name}, row {row}", "add it to classes")


def _looked_up(y: Any, classes: Array, n: int | None) -> tuple[Any, Any]:
    """`Labels.locate` for whole numbers within a small range, by a table; None for what takes the long way."""
    labels, known = _plain(y), _plain(classes)
    if labels is None or known is None or n not in (None, len(labels)):
        return None, None
    low = min(labels.min(), known.min())
    span = int(max(labels.max(), known.max()) - low) + 1
    if span > DENSE:
        return None, None
    table = np.full(span, -1, np.int64)
    table[known - low] = np.arange(len(known))
    codes = table[labels - low]
    return codes >= 0, codes


def weights(sample_weight: Any, n: int) -> Floats | None:
    """Weights of n rows; None stands for equal ones."""
    return None if sample_weight is None else row_weights(sample_weight, n, np.float64).astype(np.float64, copy=False)


def numbers(values: Any, name: str, *, n: int | None = None) -> Floats:
    """A column of finite numbers.

    Raises
    ------
    UserValueError
        Another shape or length, text, or the first row that is not finite.
    """
    array = plain(values, name, "give one number per row")
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise UserValueError(f"{name} must be one number per row, got {array.dtype} of shape {array.shape}", name)
    if n is not None and len(array) != n:
        raise UserValueError(f"{name} must be {n} numbers, one per row, got {len(array)}", name)
    if not len(array):
        raise UserValueError(f"{name} must have at least one row", name)
    return _finite(array if array.dtype.kind == "f" and array.itemsize <= 8 else array.astype(np.float64), name)


def _finite(array: Array, name: str) -> Array:
    if not np.isfinite(array.sum(dtype=np.float64)):
        bad = ~np.isfinite(array)
        if bad.any():
            row = int(np.argmax(bad.any(axis=1) if array.ndim == 2 else bad))
            raise UserValueError.must(name, "be finite", array[row], f"row {row}")
    return array


def probabilities(proba: Any, *, n: int | None = None, name: str = "proba") -> Floats:
    """A table of class probabilities, float64 of shape (n, k), rows summing to 1.

    Raises
    ------
    UserValueError
        The first row that is no distribution.
    """
    table = np.asarray(proba, dtype=np.float64)
    if table.ndim != 2 or not table.size:
        raise UserValueError.must(name, "have one row per example and one column per class", table)
    if n is not None and len(table) != n:
        raise UserValueError(f"{name} must have {n} rows, one per label, got {len(table)}", name)
    _finite(table, name)
    wrong = (table.min(axis=1) < 0) | (np.abs(table.sum(axis=1) - 1) > ROUNDING)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise UserValueError(
            f"{name} must be probabilities that sum to 1, got {shown(table[row].tolist())}",
            f"{name}, row {row}",
            "give probabilities, not scores",
        )
    return table


def hits(y: Any, predicted: Any) -> NDArray[np.bool_]:
    """Whether each prediction is right."""
    _, codes, others = pair(y, predicted)
    return codes == others


def power_of_two(x: Floats) -> float:
    """A power of two about as large as the largest absolute value, by which division is exact; 1 where all are 0."""
    largest = float(np.abs(x).max(initial=0.0))
    return 2.0 ** max(math.frexp(largest)[1] - 1, -1000) if 0 < largest < math.inf else 1.0
