"""Sequences of frames as rows of a table: the frames of a sequence one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.distributions.arrays import Floats
from gnomon.distributions.domains import Binary, Domain, Real
from gnomon.distributions.whole import Categories
from gnomon.errors import UserValueError

__all__ = ["BinaryFrames", "CategoryFrames", "RealFrames", "frame_width", "rows_of"]


def frame_width(X: Any) -> int | None:
    """Columns of a frame of sequences that say it themselves, (n, T, d) or a list of (T_i, d); None of a table."""
    if getattr(X, "ndim", 0) == 3:
        return int(X.shape[2])
    if _is_list(X):
        return int(np.shape(X[0][:1])[1])
    return None


def rows_of(X: Any, frames: int = 0) -> Any:
    """Sequences as rows, NaN behind those that are shorter than the longest, or than so many frames; a table as it is.

    Raises
    ------
    UserValueError
        No sequence, one that holds no numbers, or frames of different widths, with the place of the first that differs.

    Examples
    --------
    >>> rows_of([np.ones((2, 2)), np.zeros((1, 2))]).tolist()
    [[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, nan, nan]]
    """
    width = frame_width(X)
    if width is None:
        return X
    sequences = [_sequence(one, place, width) for place, one in enumerate(X)]
    if not sequences:
        raise UserValueError("there must be at least one sequence, got none", "X")
    longest = max(frames, *map(len, sequences))
    rows = np.full((len(sequences), longest, width), np.nan, np.result_type(*sequences, np.float32))
    for row, one in zip(rows, sequences, strict=True):
        row[: len(one)] = one
    return rows.reshape(len(sequences), -1)


def _sequence(one: Any, place: int, width: int) -> NDArray[Any]:
    """A sequence as an array (frames, width) of numbers."""
    where = f"sequence {place}"
    try:
        found = np.asarray(one)
    except ValueError:
        raise UserValueError("the frames of a sequence must be of one width", where) from None
    if found.ndim != 2 or found.shape[1] != width or not len(found):
        what = f"a sequence must be an array (frames, {width}), got shape {found.shape}"
        raise UserValueError(what, where, "give one row for each frame")
    if found.dtype.kind not in "buif":
        raise UserValueError(f"a sequence must hold numbers, got dtype {found.dtype}", where, "convert the values")
    return found


def _is_list(X: Any) -> bool:
    if not isinstance(X, list | tuple) or not X:
        return False
    first = X[0]
    return first.ndim == 2 if hasattr(first, "ndim") else isinstance(first, list | tuple) and np.ndim(first[:1]) == 2


class _Frames(Domain):
    """A table, or sequences that become one; NaN only behind the end of a sequence."""

    frames: int = 0

    def check(self, X: Any, *, name: str = "X", dtype: Any = None) -> Floats:
        """The rows; see `Domain.check`."""
        if self.frames and frame_width(X) is not None:
            for place, one in enumerate(X):
                if len(one) > self.frames:
                    what = f"a sequence must have at most {self.frames} frames, the most of the fit, got {len(one)}"
                    raise UserValueError(what, f"sequence {place}", "cut it, or fit to longer ones")
        rows = rows_of(X, self.frames)
        behind: NDArray[np.bool_] | None = None if frame_width(X) is None else np.isnan(rows)
        if behind is None or not behind.any():
            return super().check(rows, name=name, dtype=dtype)
        for place, one in enumerate(X):
            if np.isnan(np.asarray(one)).any():
                raise UserValueError(f"value NaN in {name} is missing", f"sequence {place}", "fill or drop it")
        found = super().check(np.where(behind, 0, rows), name=name, dtype=dtype)
        found[behind] = np.nan
        return found

    def columns(self, X: Any, field: Any) -> Any:
        """The columns of the table."""
        return field.values if frame_width(X) is not None else super().columns(X, field)


@dataclass(frozen=True)
class BinaryFrames(_Frames, Binary):
    """Frames of zeros and ones: a table, an array (n, T, d), or a list of arrays (T_i, d).

    Parameters
    ----------
    frames : int in [0, inf), default 0
        Shorter sequences are filled up to so many.

    Examples
    --------
    >>> BinaryFrames().check([np.ones((2, 1)), np.zeros((1, 1))]).tolist()
    [[1.0, 1.0], [0.0, nan]]
    """

    frames: int = 0


@dataclass(frozen=True)
class RealFrames(_Frames, Real):
    """Frames of finite real numbers: a table, an array (n, T, d), or a list of arrays (T_i, d).

    Parameters
    ----------
    frames : int in [0, inf), default 0
        Shorter sequences are filled up to so many.
    """

    frames: int = 0


@dataclass(frozen=True)
class CategoryFrames(_Frames, Categories):
    """Frames of codes 0 to n - 1: a table, an array (n, T, d), or a list of arrays (T_i, d).

    Parameters
    ----------
    n : int in [2, inf)
        Categories of every column.
    frames : int in [0, inf), default 0
        Shorter sequences are filled up to so many.

    Examples
    --------
    >>> CategoryFrames(3).check([np.full((2, 1), 2), np.zeros((1, 1))]).tolist()
    [[2.0, 2.0], [0.0, nan]]
    """

    frames: int = 0
