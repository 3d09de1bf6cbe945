"""The user's files: delimited tables, NumPy arrays, plain text. Nothing is executed (no pickle), nothing written."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data.dataset import Dataset
from gnomon.data.text import lines
from gnomon.errors import UserTypeError, UserValueError, nearest

__all__ = ["MAX_BYTES", "READABLE", "read"]

MAX_BYTES = 8 << 30
"""Largest file, and largest array within one, in bytes: a small archive may claim to hold more than memory can."""

READABLE = (".csv", ".tsv", ".tab", ".npy", ".npz", ".txt")
_BOMS = ((b"\xff\xfe\x00\x00", "utf-32"), (b"\x00\x00\xfe\xff", "utf-32"), (b"\xff\xfe", "utf-16"),
         (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))  # fmt: skip


def read(
    path: str | os.PathLike[str], *, target: str | int | None = None, columns: Sequence[str] | None = None
) -> Dataset:
    """Read a file.

    ================  ==============================================================================================
    .csv, .tsv, .tab  a table, separated by comma, semicolon or tab; a header is a first line without any number;
                      empty, ``NA``, ``N/A``, ``NaN`` and ``null`` are missing (NaN); features are float64
    .npy              an array (n, d), or images (n, height, width); target is a place of a column
    .npz              the array ``X`` (or the only one) and, if there, ``y``; target is the name of another array
    .txt              a text: every line that is not blank is a sentence
    ================  ==============================================================================================

    Text is UTF-8, or UTF-16 or UTF-32 with a byte-order mark; lines end with LF, CR LF or CR.

    Parameters
    ----------
    path : path
    target : str or int, optional
        The column of the labels, by name or by place from 0 (negative from the end).
    columns : sequence of str, optional
        The columns to take as features; all but the target where left out.

    Returns
    -------
    Dataset

    Raises
    ------
    UserValueError
        What is wrong with the file, with line and column where there are such.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "t.csv")
    ...     _ = file.write_text("height,kind\\n1.5,a\\n2.5,b\\n")
    ...     data = read(file, target="kind")
    >>> data.X.tolist(), data.y.tolist()
    ([[1.5], [2.5]], ['a', 'b'])
    """
    file = Path(path).expanduser()
    _check_file(file)
    if columns is not None:
        _check_columns(columns)
    source = {"path": os.path.abspath(file), "target": target, "columns": None if columns is None else list(columns)}
    if file.suffix.lower() == ".txt":
        return _read_text(file, source)
    if file.suffix.lower() in (".npy", ".npz"):
        return _read_arrays(file, source)
    return _read_table(file, source)


def _check_file(file: Path) -> None:
    kinds = f"gnomon reads {', '.join(READABLE)}"
    if file.is_dir():
        raise UserValueError("this is a folder, not a file", str(file), kinds)
    if not file.exists():
        beside = [p.name for p in file.parent.iterdir() if p.is_file()] if file.parent.is_dir() else []
        close = nearest(file.name, beside)
        remedy = f"did you mean {', '.join(map(repr, close))}?" if close else "check the path"
        raise UserValueError("file not found", str(file), remedy)
    if file.suffix.lower() not in READABLE:
        raise UserValueError(f"files of kind {file.suffix or 'without an ending'} cannot be read", str(file), kinds)
    size = file.stat().st_size
    if size == 0:
        raise UserValueError("the file is empty", str(file), "give a file with data")
    _check_size(size, str(file))


def _check_columns(columns: Sequence[str]) -> None:
    if isinstance(columns, str):
        raise UserTypeError(f"columns is the string {columns!r}", "columns", f"give a list: [{columns!r}]")
    twice = next((column for i, column in enumerate(columns) if column in columns[:i]), None)
    if twice is not None:
        raise UserValueError(f"column {twice!r} stands twice", "columns", "name each column once")


def _check_size(n_bytes: int, where: str) -> None:
    if n_bytes > MAX_BYTES:
        limit = f"{MAX_BYTES / 2**30:g} GiB"
        raise UserValueError(f"{n_bytes / 2**30:.3g} GiB are more than the limit of {limit}", where, "split the data")


# --- text and tables ----------------------------------------------------------------------------------------------


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UserValueError(f"the file cannot be read: {error.strerror}", str(file), "check its permissions") from None


def _decode(file: Path) -> str:
    """The text of a file, lines ended by LF, without a mark."""
    data = _bytes(file)
    encoding = next((name for mark, name in _BOMS if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        where = f"{file.name}, byte {error.start}"
        raise UserValueError(f"the text is not {encoding.upper()}", where, "save it as UTF-8") from None
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        if text.count("\0") * 3 > len(text):
            raise UserValueError("the encoding looks like UTF-16 without a mark", file.name, "save it as UTF-8")
        head = text[: text.index("\0")]
        where = f"{file.name}, line {head.count(chr(10)) + 1}, column {len(head) - head.rfind(chr(10))}"
        raise UserValueError("there is a NUL character in the text", where, "remove it")
    return text


def _read_text(file: Path, source: dict[str, Any]) -> Dataset:
    if source["target"] is not None or source["columns"] is not None:
        raise UserValueError("a text has no columns", file.name, "leave target and columns out")
    found = lines(_decode(file), file.name)
    if not found:
        raise UserValueError("the file has no line with text", file.name, "give at least one sentence")
    return Dataset(file.name, text=tuple(found), source={"path": source["path"]})


def _read_table(file: Path, source: dict[str, Any]) -> Dataset:
    from gnomon.data.delimited import features, fields, labels, place_of

    table = fields(_decode(file), file.name, None if file.suffix.lower() == ".csv" else "\t")
    target, columns = source["target"], source["columns"]
    label = None if target is None else place_of(target, table.columns, file.name, "target")
    if columns is None:
        places = [i for i in range(len(table.columns)) if i != label]
    else:
        places = [place_of(column, table.columns, file.name, "columns") for column in columns]
    if label in places:
        raise UserValueError(
            f"{table.columns[places[places.index(label)]]!r} is both target and feature", file.name, ""
        )
    if not places:
        raise UserValueError("no column is left as a feature", file.name, "give at least one besides the target")
    return Dataset(
        file.name,
        X=features(table, places),
        y=None if label is None else labels(table, label),
        columns=tuple(table.columns[i] for i in places),
        source=source,
    )


# --- arrays -------------------------------------------------------------------------------------------------------


def _read_arrays(file: Path, source: dict[str, Any]) -> Dataset:
    arrays = _npz(file) if file.suffix.lower() == ".npz" else {"X": _npy(file)}
    target, columns = source["target"], source["columns"]
    name = "X" if "X" in arrays or len(arrays) != 1 else next(iter(arrays))
    if name not in arrays:
        raise UserValueError("there is no array X", f"{file.name}: {', '.join(arrays)}", "save it with X=..., y=...")
    X, y = arrays[name], arrays.get("y")
    images, levels = None, None
    if X.ndim == 3:
        images, levels = (X.shape[1], X.shape[2]), 256 if X.dtype == np.uint8 else None
        X = X.reshape(len(X), -1)
    X = _table(X, file.name)
    names = tuple(f"column_{i}" for i in range(1, X.shape[1] + 1))
    if isinstance(target, str) and target in arrays:
        y = arrays[target]
    elif target is not None:
        X, names, y = _split_column(X, names, target, file.name)
        images = None
    if columns is not None:
        X, names, images = *_pick(X, names, columns, file.name), None
    if y is not None and y.shape != (len(X),):
        raise UserValueError(f"labels of shape {y.shape} for {len(X)} rows", file.name, "give one label per row")
    return Dataset(file.name, X=X, y=y, columns=names, images=images, levels=levels, source=source)


def _table(X: NDArray[Any], name: str) -> NDArray[Any]:
    from gnomon.distributions.arrays import table

    if X.size == 0:
        raise UserValueError(f"the array of shape {X.shape} is empty", name, "give at least one row and column")
    return table(X, name=name)


def _split_column(X: NDArray[Any], names: tuple[str, ...], target: str | int, name: str) -> tuple[Any, Any, Any]:
    """The features, their names, and the column of the target."""
    from gnomon.data.delimited import place_of

    place = place_of(target, names, name, "target")
    y = X[:, place]
    whole = np.isfinite(y).all() and (y == np.rint(y)).all()
    rest = [i for i in range(X.shape[1]) if i != place]
    if not rest:
        raise UserValueError("no column is left as a feature", name, "give at least one besides the target")
    return X[:, rest], tuple(names[i] for i in rest), y.astype(np.int64) if whole else y.copy()


def _pick(X: NDArray[Any], names: tuple[str, ...], columns: Sequence[str], name: str) -> tuple[Any, tuple[str, ...]]:
    from gnomon.data.delimited import place_of

    places = [place_of(column, names, name, "columns") for column in columns]
    return X[:, places], tuple(names[i] for i in places)


def _npy(file: Path) -> NDArray[Any]:
    with file.open("rb") as stream:
        return _array(stream, file.stat().st_size, file.name)


def _npz(file: Path) -> dict[str, NDArray[Any]]:
    arrays = {}
    try:
        with zipfile.ZipFile(file) as archive:
            _check_size(sum(member.file_size for member in archive.infolist()), f"{file.name}, all arrays together")
            for member in archive.infolist():
                where = f"{file.name}, array {member.filename.removesuffix('.npy')!r}"
                with archive.open(member) as stream:
                    arrays[member.filename.removesuffix(".npy")] = _array(stream, member.file_size, where)
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError, EOFError) as error:
        raise UserValueError(f"this is no readable NPZ file: {error}", file.name, "write it with numpy.savez") from None
    if not arrays:
        raise UserValueError("the archive holds no array", file.name, "write it with numpy.savez")
    return arrays


def _array(stream: IO[bytes], n_bytes: int, where: str) -> NDArray[Any]:
    """One array in NPY format whose header is believed only if it fits the bytes that are there."""
    readers: dict[tuple[int, int], Any] = {
        (1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0,
    }  # fmt: skip
    try:
        version = np.lib.format.read_magic(stream)
        if version not in readers:
            raise ValueError(f"format version {version}")
        shape, fortran, dtype = readers[version](stream)
    except (ValueError, EOFError, SyntaxError) as error:
        told = " ".join(str(error).split())
        raise UserValueError(f"this is no readable NPY data: {told}", where, "write it with numpy.save") from None
    if dtype.hasobject:
        raise UserTypeError(
            "the array holds Python objects, which gnomon never unpickles", where, "save numbers or text"
        )
    size = math.prod(shape) * dtype.itemsize
    _check_size(size, where)
    if any(n < 0 for n in shape) or size > n_bytes:
        raise UserValueError(f"the header says {size} bytes, the file has {n_bytes}", where, "write the file again")
    data = stream.read(size)
    if len(data) < size:
        raise UserValueError("the data is cut off", where, "write the file again")
    array = np.frombuffer(bytearray(data), dtype).reshape(shape[::-1] if fortran else shape)
    return array.T if fortran else array
