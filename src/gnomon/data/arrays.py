"""NumPy's files: arrays without pickle, whose headers are believed only as far as the bytes go."""

from __future__ import annotations

import lzma
import math
import sys
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data.columns import EXACT
from gnomon.data.sources import check_size
from gnomon.errors import UserTypeError, UserValueError

__all__ = ["header", "npy", "npz", "numbers"]

_SMALL = ("u1", "i1", "u2", "i2", "b1", "f2")
"""Kinds that float32 holds exactly."""


def npy(file: Path) -> NDArray[Any]:
    """The array of an NPY file.

    Raises
    ------
    UserError
        No array, one of Python objects, a header that says more than the file holds.
    """
    with file.open("rb") as stream:
        return _array(stream, file.stat().st_size, file.name)


def npz(file: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an NPZ archive by name.

    Raises
    ------
    UserError
        A damaged archive, one that unpacks to more than the limit, or with an array that `npy` would refuse.
    """
    arrays: dict[str, NDArray[Any]] = {}
    try:
        with zipfile.ZipFile(file) as archive:
            check_size(sum(member.file_size for member in archive.infolist()), f"{file.name}, all arrays together")
            for member in archive.infolist():
                name = member.filename.removesuffix(".npy")
                if name in arrays:
                    raise UserValueError(f"the array {name!r} occurs twice", file.name, "name each array once")
                with archive.open(member) as stream:
                    arrays[name] = _array(stream, member.file_size, f"{file.name}, array {name!r}")
    except (
        zipfile.BadZipFile,
        RuntimeError,
        NotImplementedError,
        OSError,
        EOFError,
        zlib.error,
        lzma.LZMAError,
    ) as error:
        reason = " ".join(str(error).split())
        raise UserValueError(
            f"the file is not readable as NPZ: {reason}", file.name, "write it with numpy.savez"
        ) from None
    if not arrays:
        raise UserValueError("the archive holds no array", file.name, "write it with numpy.savez")
    return arrays


def header(stream: IO[bytes], n_bytes: int, where: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, Fortran order and dtype of an array in NPY format, checked against the bytes that are there.

    Raises
    ------
    UserError
        See `npy`.
    """
    readers: dict[tuple[int, int], Any] = {
        (1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0,
    }  # fmt: skip
    try:
        version = np.lib.format.read_magic(stream)
        if version not in readers:
            raise ValueError(f"format version {version}")
        shape, fortran, dtype = readers[version](stream)
    except Exception as error:  # a header is a line of Python, in which anything may be wrong
        reason = " ".join(str(error).split())[:120]
        raise UserValueError(f"the data is not readable as NPY: {reason}", where, "write it with numpy.save") from None
    if dtype.hasobject:
        what = "the array holds Python objects, which gnomon never unpickles"
        raise UserTypeError(what, where, "save numbers or text")
    if dtype.itemsize == 0:
        raise UserTypeError(f"the array holds texts of no letters ({dtype})", where, "save numbers or text")
    if dtype.names is not None:
        what = f"the array holds records of {', '.join(dtype.names[:6])}"
        raise UserTypeError(what, where, "save one array of numbers")
    size = math.prod(shape) * dtype.itemsize
    if any(n < 0 for n in shape) or size > n_bytes:
        check_size(size, where)
        raise UserValueError(f"the header says {size} bytes, the file has {n_bytes}", where, "write the file again")
    return shape, fortran, dtype


def _array(stream: IO[bytes], n_bytes: int, where: str) -> NDArray[Any]:
    shape, fortran, dtype = header(stream, n_bytes, where)
    size = math.prod(shape) * dtype.itemsize
    check_size(size, where)
    data = stream.read(size)
    if len(data) < size:
        raise UserValueError("the data is cut off", where, "write the file again")
    array = np.frombuffer(bytearray(data), dtype).reshape(shape[::-1] if fortran else shape)
    check_letters(array, where)
    return array.T if fortran else array


def check_letters(array: NDArray[Any], where: str) -> None:
    """Refuse a text with a code beyond the last one of Unicode, of which Python makes no text.

    Raises
    ------
    UserValueError
        Such a text.
    """
    if (
        array.dtype.kind == "U"
        and (np.ascontiguousarray(array).ravel().view(array.dtype.byteorder + "u4") > sys.maxunicode).any()
    ):
        raise UserValueError("there is a letter that no script has in the text", where, "write the file again")


def numbers(X: NDArray[Any], name: str, *, first: int = 0) -> NDArray[Any]:
    """A table of float32 or float64 in which no value is rounded.

    Parameters
    ----------
    X : array of shape (n, d)
    name : str
        What messages call it.
    first : int, default 0
        Number of the first row.

    Returns
    -------
    array of shape (n, d)
        float32 for kinds that it holds exactly (8 and 16 bits, truth values, float16 and float32), else float64.

    Raises
    ------
    UserError
        An empty or not two-dimensional array, text, complex numbers, infinities, a whole number that float64 rounds.
    """
    from gnomon.distributions.arrays import table

    if X.size == 0:
        raise UserValueError(f"the array of shape {X.shape} is empty", name, "give at least one row and column")
    check_letters(X, name)
    if X.ndim == 2 and X.dtype.kind in "iu" and X.dtype.itemsize == 8:
        _refuse_rounding(X, name, first)
    exact = X.dtype.kind not in "biuf" or X.dtype.str[1:] in _SMALL or (X.dtype.itemsize == 4 and X.dtype.kind == "f")
    array = table(X, name=name, dtype=None if exact else np.float64)
    infinite = np.isinf(array)
    if infinite.any():
        row, column = (int(i) for i in np.argwhere(infinite)[0])
        where = f"{name}, row {first + row}, column {column}"
        raise UserValueError(
            f"value {array[row, column]} is not finite", where, "correct it, or use NaN if it is missing"
        )
    return array


def _refuse_rounding(X: NDArray[Any], name: str, first: int) -> None:
    if int(X.max()) <= EXACT and int(X.min()) >= -EXACT:
        return
    for row, column in np.argwhere((X > EXACT) | (X < -EXACT)).tolist():
        if int(float(X[row, column])) != int(X[row, column]):
            what = f"value {X[row, column]} has more digits than a float64 holds"
            raise UserValueError(what, f"{name}, row {first + row}, column {column}", "leave the column out")
