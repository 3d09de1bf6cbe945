"""Columns of a file as they stand, features or not: what is kept beside the answers to its rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnomon.data import sources
from gnomon.data.columns import place_of, spread
from gnomon.data.form import Form, form_of
from gnomon.data.images import image_names, left_out
from gnomon.data.loading import load, located
from gnomon.data.names import BUILTIN
from gnomon.data.readers import check_columns, open_table
from gnomon.errors import NoColumn

__all__ = ["cells"]

FILE = "file"
"""The one column that images have: the name of each."""


def cells(name_or_file: str | os.PathLike[str], columns: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Columns of a table by name, a cell for each row that `gnomon.data.load` gives, None where nothing stands.

    Whole numbers of a text are int64, unless one begins with a zero or a plus; everything else that a text says is kept
    letter by letter. Of images there is the column ``file``.

    Parameters
    ----------
    name_or_file : str or path
    columns : sequence of str
        ``a:f`` are those from a to f.

    Raises
    ------
    UserError
        Data without columns, an unknown name, with the nearest that is known.

    Examples
    --------
    >>> cells("iris", ["petal width (cm)"])["petal width (cm)"][:2].tolist()
    [0.2, 0.2]
    """
    if isinstance(name_or_file, str) and name_or_file in BUILTIN:
        data = load(name_or_file, columns=columns)
        return {name: data.view("table")[:, j] for j, name in enumerate(data.columns)}
    path = located(name_or_file).expanduser()
    if path.is_dir() or path.suffix.lower() in sources.IMAGES:
        return _names(path, columns, form_of(name_or_file))
    sources.check_file(path)
    if sources.kind(path) in (".npy", ".npz", ".txt"):
        what = "a text" if sources.kind(path) == ".txt" else "an array"
        raise NoColumn(f"{what} has no columns with names", path.name, "leave --keep out")
    table = open_table(path, form=form_of(name_or_file))
    chosen = spread(columns, table.columns, table.name)
    names = [table.columns[place_of(column, table.columns, table.name, "--keep")] for column in chosen]
    check_columns(names, "--keep")
    parts = [(part.frame.select(names), part.typed) for part in table.parts(names, names)]
    frame = pl.concat([part for part, _ in parts], how="vertical_relaxed")
    return {name: _plain(frame[name], typed=parts[0][1]) for name in names}


def _plain(column: pl.Series, *, typed: bool) -> NDArray[Any]:
    """A column as an array: numbers and truth values where none is missing, else objects."""
    if not typed and column.dtype == pl.String:
        column = column.replace("", None)
        if column.null_count() == 0 and column.str.contains(r"^(0|-?[1-9][0-9]{0,17})$").all():
            column = column.cast(pl.Int64)
    if (column.dtype.is_numeric() or column.dtype == pl.Boolean) and column.null_count() == 0:
        return column.to_numpy()
    values = [cell.isoformat(" ") if hasattr(cell, "hour") else cell for cell in column.to_list()]
    found = np.empty(len(values), object)
    found[:] = values
    return found


def _names(path: Path, columns: Sequence[str], form: Form) -> dict[str, NDArray[Any]]:
    other = next((column for column in columns if column != FILE), None)
    if other is not None:
        raise NoColumn(f"images have no column {other!r}", path.name, f"keep {FILE}, the name of each")
    return {FILE: np.array(image_names(path, left_out(path, form)))}
