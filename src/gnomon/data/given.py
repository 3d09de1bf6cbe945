"""Arrays, data frames, sentences and ratings that somebody holds, as a data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnomon.data.columns import place_of
from gnomon.data.dataset import Dataset, levels_of
from gnomon.data.frames import frame_of
from gnomon.data.relations import Ratings, Triples
from gnomon.errors import UserTypeError, UserValueError

__all__ = ["dataset_of", "is_data"]

NAME = "data"
"""What the data set is called."""


def is_data(given: Any) -> bool:
    """Whether this is data itself, and not the name of a set or a file."""
    if isinstance(given, pl.LazyFrame):  # which warns when it is asked for its columns
        return True
    frame = hasattr(given, "columns") and hasattr(given, "dtypes")
    return frame or isinstance(given, np.ndarray | list | tuple | Ratings | Triples)


def dataset_of(
    X: Any, y: Any = None, *, target: str | int | None = None, columns: Sequence[str] | None = None
) -> Dataset:
    """The data set of arrays, of a pandas or polars frame, of sentences, ratings or triples.

    Parameters
    ----------
    X : array (n, d), images (n, height, width), data frame, list of sentences, Ratings or Triples
    y : array of shape (n,), optional
        Labels or a numeric target.
    target : str or int, optional
        The column of a frame that y is.
    columns : sequence of str, optional
        The columns of a frame to take as features; all but the target where left out.

    Raises
    ------
    UserError
        Something else, or a y of another length.

    Examples
    --------
    >>> dataset_of(pl.DataFrame({"age": [31, 52], "sex": ["f", "m"], "ill": [0, 1]}), target="ill")
    Dataset('data', 2 rows x 2 columns, not all of numbers, with labels)
    >>> dataset_of(np.zeros((3, 2)), ["a", "b", "a"]).columns
    ('column_1', 'column_2')
    """
    if isinstance(X, pl.LazyFrame) or (hasattr(X, "columns") and hasattr(X, "dtypes")):
        found = _of_frame(frame_of(X), target, columns, y)
    elif target is not None or columns is not None:
        raise UserTypeError("target and columns name columns of a data frame", "target", "leave them out, or give y")
    elif isinstance(X, Ratings | Triples):
        found = Dataset(NAME, ratings=X) if isinstance(X, Ratings) else Dataset(NAME, triples=X)
    elif isinstance(X, list | tuple) and X and all(isinstance(one, str) for one in X):
        found = Dataset(NAME, text=tuple(X))
    else:
        found = _of_array(np.asarray(X))
    return found if y is None else replace(found, y=_labels(y, len(found)))


def _of_array(X: NDArray[Any]) -> Dataset:
    if X.ndim < 2 or X.ndim > 4 or X.dtype.kind not in "biuf":
        what = f"X must be numbers of shape (rows, columns), got {X.dtype} of shape {X.shape}"
        raise UserValueError(what, "X", "give a table, a data frame, images or a list of sentences")
    images = None if X.ndim == 2 else tuple(X.shape[1:])
    table = X.reshape(len(X), -1)
    table = table if table.dtype.kind == "f" else table.astype(np.float64)
    names = tuple(f"column_{i}" for i in range(1, table.shape[1] + 1))
    levels = levels_of(X) if images else None
    return Dataset(NAME, X=table, columns=names, images=images, levels=levels)


def _of_frame(frame: pl.DataFrame, target: str | int | None, columns: Sequence[str] | None, y: Any) -> Dataset:
    label = None if target is None else frame.columns[place_of(target, frame.columns, NAME, "target")]
    if label is not None and y is not None:
        raise UserTypeError("y must be given once, got y and a target", "target", "leave one of them out")
    chosen = [name for name in frame.columns if name != label]
    if columns is not None:
        chosen = [frame.columns[place_of(name, frame.columns, NAME, "columns")] for name in columns]
    if label in chosen or not chosen:
        what = "no column is left as a feature" if not chosen else f"{label!r} is both target and feature"
        raise UserValueError(what, NAME, "give at least one besides the target")
    found, names = frame.select(chosen), tuple(chosen)
    numeric = all(one.is_numeric() for one in found.dtypes)
    X = found.cast(pl.Float64).fill_null(float("nan")).to_numpy(order="c", writable=True) if numeric else None
    labels = None if label is None else _labels(frame.get_column(label).to_list(), len(frame))
    return Dataset(NAME, X=X, frame=None if numeric else found, y=labels, columns=names)


def _labels(y: Any, n: int) -> NDArray[Any]:
    """One label or number for each row."""
    found = np.asarray(y.to_list() if hasattr(y, "to_list") else y)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.shape != (n,):
        raise UserValueError(f"y must have shape ({n},), got {found.shape}", "y", "give one of it per row")
    missing = [one is None or one != one for one in found.tolist()]
    if any(missing):
        raise UserValueError("the label is missing", f"y, row {missing.index(True)}", "fill it in or drop the row")
    if found.dtype.kind == "O":
        found = np.array([str(one) for one in found.tolist()])
    return found.astype(np.int64) if found.dtype.kind == "b" else found
