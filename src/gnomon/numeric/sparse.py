"""Tables whose zeros are not stored: rows that go through a fit as arrays do, in memory of what is not 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gnomon.numeric.ragged import Chosen, Dense

__all__ = ["Sparse", "SparseRows", "by_rows", "in_full", "is_sparse", "rows_at_once", "units_of", "wide"]

AT_ONCE = 1 << 22
"""Cells of a part of sparse rows that is made dense at a time."""


class SparseRows(sparse.csr_array):
    """Compressed sparse rows that have a length, as arrays have."""

    def __len__(self) -> int:
        return int(self.shape[0])

    def take(self, rows: Chosen, axis: int = 0) -> SparseRows:
        """Some of the rows, as arrays give them."""
        return SparseRows(self[rows])


class Sparse(Dense):
    """A table of which only the entries that are not 0 are kept.

    Parameters
    ----------
    values : SparseRows of shape (n, d)

    Examples
    --------
    >>> Sparse(SparseRows(np.eye(3))).take([2]).values.toarray()
    array([[0., 0., 1.]])
    """

    __slots__ = ()

    values: Any

    def __repr__(self) -> str:
        return f"Sparse({self.values.dtype}, shape {self.values.shape}, {self.values.nnz} entries)"

    def join(self, other: Dense) -> Sparse:
        """The rows one after the other."""
        return Sparse(SparseRows(sparse.vstack([self.values, other.values], format="csr")))

    def take(self, chosen: Chosen) -> Sparse:
        """Some of the rows."""
        return Sparse(SparseRows(self.values[chosen]))

    @property
    def parts(self) -> tuple[NDArray[Any], ...]:
        """Entries, their columns, where rows begin, and the shape."""
        x = self.values
        return (x.data, x.indices.astype(np.int64), x.indptr.astype(np.int64), np.array(x.shape))


def is_sparse(X: Any) -> bool:
    """Whether this is a table of SciPy's that stores no zeros."""
    return bool(sparse.issparse(X)) and X.ndim == 2


def in_full(X: Any) -> Any:
    """Rows with their zeros; what is not sparse is handed back.

    Examples
    --------
    >>> in_full(SparseRows(np.eye(2)))
    array([[1., 0.],
           [0., 1.]])
    """
    return X.toarray() if is_sparse(X) else X


def rows_at_once(X: Any) -> int:
    """How many sparse rows are made dense at a time, in memory that does not grow with the table."""
    return max(1, AT_ONCE // max(1, X.shape[1]))


def by_rows(function: Callable[[Any], Any], X: Any) -> Any:
    """What a function of dense rows gives for each: of sparse rows part by part, of others at once.

    Examples
    --------
    >>> by_rows(lambda rows: rows.sum(axis=1), SparseRows(np.eye(3)))
    array([1., 1., 1.])
    """
    if not is_sparse(X):
        return function(X)
    size = rows_at_once(X)
    return np.concatenate([function(X[start : start + size].toarray()) for start in range(0, len(X), size)])


def wide(X: Any) -> Any:
    """A table in float64, sparse where it was."""
    return X.astype(np.float64) if is_sparse(X) else np.asarray(X, dtype=np.float64)


def units_of(X: Any, weight: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of each column of sparse rows, by weight; 1 in place of that of a constant one.

    Examples
    --------
    >>> units_of(SparseRows(np.array([[0.0, 5.0], [2.0, 5.0]])), np.ones(2))
    (array([1., 5.]), array([1., 1.]))
    """
    X, weight = wide(X), weight.astype(np.float64)
    total = weight.sum()
    mean = (weight @ X) / total
    own = np.repeat(weight, np.diff(X.indptr))
    columns = X.shape[1]
    seen = np.bincount(X.indices, own, columns)  # weight of the stored entries; the others are 0
    squares = np.bincount(X.indices, own * (X.data - mean[X.indices]) ** 2, columns)
    deviation = np.sqrt(np.maximum(squares + (total - seen) * mean**2, 0.0) / total)
    return mean, np.where(deviation > 16 * np.finfo(float).eps * np.abs(mean), deviation, 1.0)
