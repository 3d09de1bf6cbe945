"""Tables of numbers and labels, or sentences, to a new file or to standard output."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gnomon.cli import output
from gnomon.errors import UserValueError, shown
from gnomon.runs.folder import write_atomically

__all__ = [
    "PICTURES", "SOUNDS", "TABLES", "TEXTS", "as_columns", "beside", "check_out", "new_folder", "write_picture",
    "write_rows", "write_table",
]  # fmt: skip

TABLES, TEXTS, PICTURES, SOUNDS = (".csv", ".parquet", ".npy"), (".txt",), (".png",), (".wav",)
"""Endings of the files that hold a table, sentences, a picture, a sound."""


def new_folder(name: str, option: str) -> Path:
    """Where files are to be written: nothing is there, or an empty folder.

    Raises
    ------
    UserValueError
        Something is there, or no file system takes the name.
    """
    if not _is_there(name, option):
        return Path(name)
    if not Path(name).is_dir():
        raise UserValueError(f"{name} exists", option, "choose another name")
    if any(Path(name).iterdir()):
        raise UserValueError(f"{name} exists and is not empty", option, "choose another name")
    return Path(name)


def _is_there(name: str, option: str) -> bool:
    if "\0" in name:  # for which exists() is false
        raise UserValueError(f"{shown(name)} cannot be written: it has a NUL character", option, "choose another")
    try:
        return Path(name).exists()
    except OSError as error:
        raise UserValueError(f"{shown(name)} cannot be written: {error.strerror}", option, "choose another") from None


def check_out(out: str | None, kinds: Sequence[str]) -> None:
    """Refuse a file that is there already, or of another kind, before anything is computed.

    Raises
    ------
    UserValueError
        What is wrong with ``--out``.
    """
    if out is None:
        return
    if Path(out).suffix.lower() not in kinds:
        raise UserValueError(f"the file must end in {' or '.join(kinds)}, got {out}", "--out")
    if _is_there(out, "--out"):
        raise UserValueError(f"{out} exists", "--out", "choose another name")


def write_rows(out: str | None, rows: Any, header: list[str]) -> None:
    """Write rows as a table or array, or one sentence a line where there is no header; see `write_table`."""
    if header:
        write_table(out, as_columns(rows, header), rows)
        return
    check_out(out, TEXTS)
    if out is None:
        output.write(as_text(rows))
    else:
        write_atomically(Path(out), (as_text(rows) + "\n").encode())


def write_table(out: str | None, columns: Mapping[str, Any], rows: Any = None) -> None:
    """Write columns as CSV, as Parquet, or the rows as an array into a .npy file.

    Parameters
    ----------
    out : str, optional
        A new file; standard output, as CSV, by default.
    columns : mapping of str to array of shape (n,)
    rows : array, optional
        What a .npy file holds; the columns side by side by default.

    Raises
    ------
    UserValueError
        A file that is there already, or of another kind; columns that are no single array.
    """
    check_out(out, TABLES)
    if out is None:
        output.write(as_csv(columns))
        return
    ending = Path(out).suffix.lower()
    if ending == ".csv":
        write_atomically(Path(out), (as_csv(columns) + "\n").encode())
    elif ending == ".parquet":
        write_atomically(Path(out), as_parquet(columns))
    else:
        write_atomically(Path(out), as_array(_side_by_side(columns) if rows is None else rows))


def write_picture(out: str, pixels: Any) -> None:
    """Write pixels in [0, 1], grey or of three colors, as a picture, pixel by pixel."""
    from gnomon.tasks.pictures import png

    write_atomically(Path(out), png(pixels))


def beside(kept: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of the data before what was found of its rows.

    Raises
    ------
    UserValueError
        A name that is needed twice.
    """
    twice = next((name for name in kept if name in found), None)
    if twice is not None:
        raise UserValueError(f"{twice!r} would be the name of two columns", "--keep", "leave it out, or rename it")
    return {**kept, **found}


def as_columns(rows: Any, header: Sequence[str]) -> dict[str, Any]:
    """The columns of rows by name; of one name one column."""
    return {header[0]: rows} if rows.ndim == 1 else {name: rows[:, j] for j, name in enumerate(header)}


def as_csv(columns: Mapping[str, Any]) -> str:
    """The columns under their names; a number in the fewest digits that say which one it is.

    Examples
    --------
    >>> import numpy as np
    >>> print(as_csv({"a": np.array([0.1, 3], np.float32), "b": np.array([True, False])}))
    a,b
    0.1,true
    3.0,false
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*map(_cells, columns.values()), strict=True))
    return text.getvalue().removesuffix("\n")


def _cells(column: Any) -> list[Any]:
    """The cells of a column; truth values in small letters, what is missing empty."""
    cells: list[Any] = output.readable(column).tolist()
    if column.dtype.kind == "b":
        return ["true" if cell else "false" for cell in cells]
    return ["" if cell is None or cell != cell else cell for cell in cells]


def as_parquet(columns: Mapping[str, Any]) -> bytes:
    """The bytes of a Parquet file, every column in its own kind."""
    import polars as pl

    buffer = io.BytesIO()
    series = [pl.Series(name, c.tolist() if c.dtype.kind in "OU" else c) for name, c in columns.items()]
    pl.DataFrame(series).write_parquet(buffer)
    return buffer.getvalue()


def _side_by_side(columns: Mapping[str, Any]) -> Any:
    import numpy as np

    other = [name for name, column in columns.items() if column.dtype.kind not in "biuf"]
    if other and len(columns) > 1:
        what = f"an array holds numbers alone, and column {other[0]!r} is text"
        raise UserValueError(what, "--out", "write .csv or .parquet, or leave the column out")
    return np.stack(list(columns.values()), 1)


def as_text(sentences: Any) -> str:
    """One sentence a line."""
    return "\n".join(s if isinstance(s, str) else " ".join(map(str, s)) for s in sentences)


def as_array(rows: Any) -> bytes:
    """The bytes of a .npy file; labels that are objects become text."""
    import numpy as np

    array = rows.astype(str) if rows.dtype == object else rows
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()
