"""Cosine similarity, distance and angle, with one rule for zero vectors, and nearest neighbours by it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.errors import UserValueError
from gnomon.evaluation._inputs import Floats

__all__ = ["angle", "cosine_distance", "cosine_similarity", "neighbors"]

Zero = Literal["zero", "nan", "raise"]


def cosine_similarity(X: ArrayLike, Y: ArrayLike | None = None, *, zero: Zero = "zero") -> Any:
    r"""Cosine of the angle between vectors, :math:`x \cdot y / (|x| |y|)`, clipped to [-1, 1].

    Parameters
    ----------
    X : array of shape (n, d) or (d,)
    Y : array of shape (m, d) or (d,), optional
        `X` itself where left out.
    zero : {"zero", "nan", "raise"}, default "zero"
        A zero vector has no direction. Its similarity to every vector (itself too) is 0, or NaN, or it is refused.

    Returns
    -------
    array of shape (n, m); a vector in place of a table drops its axis, two vectors give a float

    Raises
    ------
    UserValueError
        Unlike widths, a value that is not finite, a zero vector under ``zero="raise"``, with its row.

    Notes
    -----
    Rows are divided by their largest entry first, so that squares neither overflow nor vanish. Cost O(n m d).

    Examples
    --------
    >>> round(cosine_similarity([1, 0], [1, 1]), 6)
    0.707107
    >>> cosine_similarity([[0, 2], [0, 0]], [0, 1]).tolist()
    [1.0, 0.0]
    """
    if zero not in ("zero", "nan", "raise"):
        raise UserValueError.must("zero", "be 'zero', 'nan' or 'raise'", zero)
    left, flat = _unit(X, "X", zero)
    right, level = (left, flat) if Y is None else _unit(Y, "Y", zero)
    if left.shape[1] != right.shape[1]:
        raise UserValueError(f"X and Y must have vectors of one length, got {left.shape[1]} and {right.shape[1]}", "Y")
    cosine = np.clip(np.matmul(left, right.T), -1.0, 1.0)
    if level:
        cosine = cosine[:, 0]
    if flat:
        cosine = cosine[0]
    return float(cosine) if np.ndim(cosine) == 0 else cosine


def cosine_distance(X: ArrayLike, Y: ArrayLike | None = None, *, zero: Zero = "zero") -> Any:
    """1 - `cosine_similarity`, in [0, 2]: 1 between a zero vector and anything by default. Not a metric.

    Examples
    --------
    >>> round(cosine_distance([1, 0], [1, 1]), 6)
    0.292893
    """
    return 1.0 - cosine_similarity(X, Y, zero=zero)


def angle(X: ArrayLike, Y: ArrayLike | None = None, *, zero: Zero = "nan") -> Any:
    """Angle between vectors in radians, arccos of `cosine_similarity`, in [0, pi]; NaN for a zero vector by default.

    Angles below 1e-8 are lost in the rounding of the cosine.

    Examples
    --------
    >>> round(angle([1, 0], [1, 1]) / np.pi, 12)
    0.25
    """
    angles = np.arccos(cosine_similarity(X, Y, zero=zero))
    return float(angles) if np.ndim(angles) == 0 else angles


def _unit(X: ArrayLike, name: str, zero: str) -> tuple[Floats, bool]:
    """Rows of length 1 in float64 (float32 input is widened), and whether one vector was given."""
    table = np.asarray(X, dtype=np.float64)
    flat = table.ndim == 1
    if flat:
        table = table[None]
    if table.ndim != 2 or not table.shape[1]:
        raise UserValueError.must(name, "have vectors as rows", table)
    largest = np.abs(table).max(axis=1, keepdims=True)
    if not np.isfinite(largest).all():
        row = int(np.argmin(np.isfinite(largest[:, 0])))
        raise UserValueError(f"{name} must be finite", f"{name}, row {row}")
    none = largest[:, 0] == 0
    if zero == "raise" and none.any():
        raise UserValueError("a zero vector has no direction", f"{name}, row {int(none.argmax())}", "leave it out")
    scaled = table / np.where(largest > 0, largest, 1.0)
    unit = scaled / np.maximum(np.sqrt((scaled * scaled).sum(axis=1, keepdims=True)), 1.0)  # the largest entry is 1
    if zero == "nan":
        unit[none] = np.nan
    return unit, flat


def neighbors(
    query: ArrayLike, vectors: ArrayLike, k: int = 10, *, exclude: ArrayLike = ()
) -> tuple[NDArray[np.int64], Floats]:
    """The rows most like a query by cosine, best first; equal ones in order of rows.

    A zero vector is like nothing: it is never among the rows, and as a query it finds none.

    Parameters
    ----------
    query : array of shape (d,)
    vectors : array of shape (n, d)
    k : int in [0, inf), default 10
        How many rows at most.
    exclude : rows, optional
        Rows to leave out, such as the query's own.

    Returns
    -------
    rows : int64 array of at most k
    similarity : array of the same length

    Raises
    ------
    UserValueError
        Unlike widths, values that are not finite, a negative k, a row to exclude that is none.

    Examples
    --------
    >>> rows, similarity = neighbors([0.0, 1.0], [[0.0, 2.0], [3.0, 3.0], [0.0, 0.0]], k=2)
    >>> rows.tolist(), similarity.round(7).tolist()
    ([0, 1], [1.0, 0.7071068])
    """
    if k < 0:
        raise UserValueError.must("k", "be at least 0", k)
    table = np.asarray(vectors, dtype=np.float64)
    if table.ndim == 1:
        raise UserValueError.must("vectors", "have vectors as rows", table)
    if not len(table):
        return np.zeros(0, np.int64), np.zeros(0)
    similarity = np.asarray(cosine_similarity(table, np.asarray(query, np.float64).reshape(-1), zero="nan"))
    left_out = np.asarray(exclude, dtype=np.int64).reshape(-1)
    if left_out.size and not (left_out.min() >= 0 and left_out.max() < len(table)):
        raise UserValueError(f"exclude must name rows in [0, {len(table)}), got {left_out.tolist()}", "exclude")
    similarity[left_out] = np.nan
    rows = np.flatnonzero(~np.isnan(similarity))
    best = rows[np.argsort(-similarity[rows], kind="stable")[:k]]
    return best, similarity[best]
