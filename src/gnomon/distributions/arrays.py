"""What a user hands over as a table, made one plain array: C order, native bytes, float32 or float64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from gnomon.errors import UserTypeError, UserValueError

__all__ = ["column_names", "first_cell", "from_tensor", "is_empty", "place", "plain", "row_weights", "table"]

Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]

_CELLS_AT_ONCE = 1 << 20
_COMPLEX = "use real and imaginary parts as columns"
_NUMBERS = "convert the values to numbers, or leave them out"
_SPARSE = "use '.toarray()' to convert to a dense array"
_SPARSE_TENSOR = "use '.to_dense()' to convert to a dense tensor"
_PLAIN_NUMBERS = (bool, int, float, np.number, np.bool_)
_NO_NUMBERS = (np.complexfloating, np.timedelta64)
"""What NumPy counts among its numbers all the same."""


def table(X: Any, *, name: str = "X", dtype: Any = None) -> Floats:
    """A two-dimensional array of floating numbers from anything that holds such a table.

    NumPy arrays of any layout and byte order, read-only and memory-mapped ones, pandas and polars frames, nested lists
    and CPU tensors give the same numbers as a fresh C-ordered copy. The input is never written to; the very array
    comes back when it is already plain, C-ordered, writable and of the right dtype, else a copy.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Numbers or truth values; ``None`` and ``pandas.NA`` in an object array and masked cells become NaN.
    name : str, default "X"
        What error messages call it.
    dtype : dtype-like, optional
        float32 or float64. None takes what rounds no cell: float32 for float32, float16, truth values and whole numbers
        of at most 16 bits, float64 for everything else.

    Returns
    -------
    array of shape (n, d), float32 or float64

    Raises
    ------
    UserValueError, UserTypeError
        Not two-dimensional, sparse, or a cell that is no number, with its row and column.

    Notes
    -----
    Cost: at most one copy; object arrays are converted cell by cell.

    Examples
    --------
    >>> table([[1, 2], [3, 4]])
    array([[1., 2.],
           [3., 4.]])
    """
    target = _target_dtype(dtype)
    array = _as_array(X, name)
    if array.ndim != 2:
        given = f"has shape {array.shape}" if array.ndim else f"is of type {type(X).__name__}"
        raise UserValueError(
            f"Expected 2D array, got {array.ndim}D array instead: {name} {given}", "",
            "Reshape your data: one row per example, one column per variable",
        )  # fmt: skip
    if array.dtype.kind == "O":
        array = _from_objects(array, name, column_names(X))
    if array.dtype.kind == "c":
        raise UserValueError(f"Complex data not supported: {name} has dtype {array.dtype}", "", _COMPLEX)
    if array.dtype.kind not in "biuf":
        raise UserValueError(f"{name} must hold numbers, got dtype {array.dtype}", _first_place(array, name), _NUMBERS)
    if target is None:
        target = _exact(array.dtype)
    plain = type(array) is np.ndarray and array.flags.c_contiguous and array.flags.writeable and array.flags.aligned
    if plain and array.dtype == target and array.dtype.isnative:
        return array
    with np.errstate(over="ignore"):  # too large for float32 becomes inf, which the domain then refuses by place
        return np.array(array, dtype=target, order="C", subok=False)


def plain(values: Any, name: str, remedy: str = "give one value per row") -> np.ndarray[Any, Any]:
    """A column (or a few of them) as an array; what it holds is left to the caller's checks.

    Parameters
    ----------
    values : array-like, series, frame, tensor or masked array
        What lies under a mask is no data: NaN there, None where it is no number.
    name : str
        What error messages call it.
    remedy : str
        What to do about values that are no column.

    Raises
    ------
    UserValueError, UserTypeError
        Rows of different lengths, a sparse matrix.
    """
    if hasattr(values, "toarray") and hasattr(values, "nnz"):
        raise UserTypeError(f"{name} must be dense, got a sparse {type(values).__name__}", name, remedy)
    if hasattr(values, "detach"):
        values = from_tensor(values, name)
    if isinstance(values, np.ma.MaskedArray):
        return _unmasked(values)
    try:
        return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    except ValueError:
        raise UserValueError(f"{name} is ragged: its rows have different lengths", name, remedy) from None


def from_tensor(tensor: Any, name: str) -> np.ndarray[Any, Any]:
    """A tensor's numbers as an array; of a kind that NumPy does not have (bfloat16) in single precision.

    Raises
    ------
    UserTypeError
        A sparse tensor, one without values (on the device "meta").
    """
    if "strided" not in str(tensor.layout):
        raise UserTypeError(f"Sparse data was passed for {name}, but dense data is required", "", _SPARSE_TENSOR)
    if tensor.device.type == "meta":
        raise UserTypeError(f"{name} must hold numbers, got a tensor without values (device meta)", name, _NUMBERS)
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    here = tensor.detach().cpu().resolve_conj().resolve_neg()
    try:
        return np.asarray(here.numpy())
    except TypeError:
        return np.asarray(here.float().numpy())


def is_empty(X: Any) -> bool:
    """Whether this is something of length 0; what has no length is left to the checks of tables."""
    if hasattr(X, "toarray"):  # a sparse table has a shape, and no length
        return bool(X.shape[0] == 0)
    return hasattr(X, "__len__") and np.ndim(X) > 0 and len(X) == 0


def row_weights(given: Any, n: int, dtype: Any, *, name: str = "sample_weight") -> Floats:
    """Weights of n rows: ones without any, a number for all rows alike, or one number >= 0 a row.

    Parameters
    ----------
    given : None, number or array-like of shape (n,)
        Never written to, and never handed on itself.
    n : int
    dtype : float32 or float64
    name : str, default "sample_weight"

    Returns
    -------
    array of shape (n,)

    Raises
    ------
    UserValueError
        Another length, a weight that is negative or no number, with its row, or a sum that is 0 or whose square leaves
        the dtype.

    Examples
    --------
    >>> row_weights([1, 2.5], 2, np.float64)
    array([1. , 2.5])
    """
    if given is None:
        return np.ones(n, dtype)
    values = plain(given, name, "give one number per row")
    try:
        weight = np.array(values, np.float64) if values.dtype.kind in "biufO" else None
    except (TypeError, ValueError):
        weight = None
    if weight is None:
        raise UserValueError(f"{name} must be one number >= 0 per row", name)
    if weight.ndim == 0:
        weight = np.full(n, weight)
    if weight.shape != (n,):
        raise UserValueError(f"{name}.shape == {weight.shape}, expected ({n},)", name, "give one number per row")
    bad = ~((weight >= 0) & (weight < np.inf))
    if bad.any():
        row = int(bad.argmax())
        raise UserValueError.must(name, "be finite and at least 0", weight[row], f"row {row}")
    if not weight.any():
        raise UserValueError("Sample weights must contain at least one non-zero number", name, "give a row some weight")
    with np.errstate(over="ignore"):
        weight = weight.astype(dtype)
        total = weight.sum()
    low, high = (10 ** (math.log10(float(end)) // 2) for end in (np.finfo(dtype).tiny, np.finfo(dtype).max))
    if not low <= total <= high:  # squares of weights are summed too
        what = f"{name} must have a sum from {low:.0e} to {high:.0e}, got {total} in {weight.dtype}"
        raise UserValueError(what, name, "scale them to about 1")
    return weight


def column_names(X: Any) -> list[str] | None:
    """Names of the columns of a data frame, None for everything else."""
    columns = getattr(X, "columns", None)
    return None if columns is None or callable(columns) else [str(column) for column in columns]


def with_names(X: Any, known: list[str] | None) -> Any:
    """A frame as it is where its columns are called by text, else a stand-in whose columns are called by their text.

    Numbers 0, 1, 2 ... in order, which a frame has by itself, are no names.

    Parameters
    ----------
    X : data frame
    known : list of str or None
        Names of the columns of the fit, none where it had none; None in the fit itself.

    Raises
    ------
    UserValueError
        The numbers 0, 1, 2 ... in another order where the fit had no names.
    """
    names = list(X.columns)
    texts = [isinstance(name, str) for name in names]
    if any(texts):
        return X
    written = [str(name) for name in names]
    numbers = list(range(len(names)))
    if names == numbers and set(known or ()) != set(written):
        return np.broadcast_to(np.float32(0), X.shape)
    if known == [] and set(names) == set(numbers):
        order = ", ".join(written[:5]) + (" ..." if written[5:] else "")
        raise UserValueError(f"the columns of X must be 0, 1, 2 ... in order, got {order}", "X", "sort the columns")
    return X.iloc[:0].set_axis(written, axis=1)


def first_cell(X: Floats, bad: Any) -> tuple[int, int] | None:
    """Row and column of the first cell, in reading order, of which ``bad(block)`` is true; None where there is none.

    Examples
    --------
    >>> first_cell(np.array([[1.0, 2.0], [3.0, -1.0]]), lambda block: block < 0)
    (1, 1)
    """
    for start, block in _blocks(X):
        wrong = bad(block)
        if wrong.any():
            row, column = divmod(int(wrong.argmax()), X.shape[1])
            return start + row, column
    return None


def place(X: Any, row: int, column: int) -> str:
    """Where a cell is, counting from 0 as NumPy does, with the column's name where it has one."""
    names = column_names(X)
    return f"row {row}, column {column}" + (f" {names[column]!r}" if names else "")


def _blocks(X: Floats) -> Iterator[tuple[int, Floats]]:
    rows = max(1, _CELLS_AT_ONCE // max(1, X.shape[1]))
    for start in range(0, len(X), rows):
        yield start, X[start : start + rows]


def _exact(given: np.dtype[Any]) -> np.dtype[Any]:
    """The narrowest of both that holds every number of a dtype: single precision has 24 bits."""
    bits = given.itemsize * 8
    return np.dtype(np.float32 if bits <= (32 if given.kind == "f" else 16) else np.float64)


def _target_dtype(dtype: Any) -> np.dtype[Any] | None:
    if dtype is None:
        return None
    try:
        target = np.dtype(dtype)
    except TypeError:
        target = None
    if target not in (np.float32, np.float64):
        raise UserValueError.must("dtype", "be float32, float64 or None", dtype)
    return np.dtype(target).newbyteorder("=")


def _as_array(X: Any, name: str) -> np.ndarray[Any, Any]:
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise UserTypeError(f"Sparse data was passed for {name}, but dense data is required", "", _SPARSE)
    if hasattr(X, "detach"):
        return from_tensor(X, name)
    if isinstance(X, np.ma.MaskedArray):
        return _unmasked(X)
    try:
        return X.to_numpy() if hasattr(X, "to_numpy") else np.asanyarray(X)
    except ValueError:
        what = f"{name} is ragged: its rows have different lengths"
        raise UserValueError(what, "", "give every row the same columns") from None


def _unmasked(X: np.ma.MaskedArray[Any, Any]) -> np.ndarray[Any, Any]:
    """What lies under a mask is no data: NaN there, where there is a mask, and None among what is no number."""
    if not np.ma.is_masked(X):
        return np.asarray(X)
    if X.dtype.kind not in "biufcO":
        cells = np.ma.getdata(X).astype(object)
        cells[np.ma.getmaskarray(X)] = None
        return cells
    kept = X.dtype if X.dtype.kind in "fcO" else np.float64
    return np.where(np.ma.getmaskarray(X), np.nan, np.ma.getdata(X)).astype(kept)


def _from_objects(array: np.ndarray[Any, Any], name: str, names: list[str] | None) -> Floats:
    kinds = {type(cell) for cell in array.flat}
    if all(issubclass(kind, _PLAIN_NUMBERS) and not issubclass(kind, _NO_NUMBERS) for kind in kinds):
        try:
            return array.astype(np.float64)
        except OverflowError:
            pass  # a whole number beyond float64: found, with its place, below
    result = np.empty(array.shape, np.float64)
    for row, cells in enumerate(array):
        for column, cell in enumerate(cells):
            where = f"row {row}, column {column}" + (f" {names[column]!r}" if names else "")
            result[row, column] = _number(cell, name, where)
    return result


def _number(cell: Any, name: str, where: str) -> float:
    if cell is None or type(cell).__name__ == "NAType":
        return math.nan
    if isinstance(cell, complex | np.complexfloating):
        raise UserValueError(f"Complex data not supported: value {cell!r} in {name}", where, _COMPLEX)
    if isinstance(cell, str | bytes):
        what = f"value {cell!r} in {name} is text, not a number"
        raise UserValueError(what, where, "leave the column out or encode it as numbers")
    try:
        return float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf  # the domain refuses it by place
    except (TypeError, ValueError):
        # the words "argument must be ... string ... number" are what scikit-learn's check_estimator looks for
        what = f"argument must be a table of numbers: {cell!r} in {name} is neither a string nor a number"
        raise UserTypeError(what, where, "give numbers only") from None


def _first_place(array: np.ndarray[Any, Any], name: str) -> str:
    return f"row 0, column 0: {array.flat[0]!r}" if array.size else name
