"""Rows of numbers, labels or sentences, to a new file or to standard output."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from gnomon.cli import output
from gnomon.errors import UserValueError, shown
from gnomon.runs.folder import write_atomically

__all__ = ["new_folder", "write_rows"]


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


def write_rows(out: str | None, rows: Any, header: list[str]) -> None:
    """Write rows as CSV (one sentence a line where there is no header), or as an array into a .npy file.

    Raises
    ------
    UserValueError
        A file that is there already, or of another kind.
    """
    if out is None:
        output.write(as_csv(rows, header) if header else as_text(rows))
        return
    path = Path(out)
    kinds = (".csv", ".npy") if header else (".txt",)
    if path.suffix.lower() not in kinds:
        raise UserValueError(f"the file must end in {' or '.join(kinds)}, got {out}", "--out")
    if _is_there(out, "--out"):
        raise UserValueError(f"{out} exists", "--out", "choose another name")
    if path.suffix.lower() == ".npy":
        write_atomically(path, as_array(rows))
    else:
        write_atomically(path, ((as_csv(rows, header) if header else as_text(rows)) + "\n").encode())


def as_csv(rows: Any, header: list[str]) -> str:
    """The rows under their header.

    Examples
    --------
    >>> import numpy as np
    >>> print(as_csv(np.array([[1, 2]]), ["a", "b"]))
    a,b
    1,2
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(row if isinstance(row, list) else [row] for row in rows.tolist())
    return text.getvalue().removesuffix("\n")


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
