"""Data by name or file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from gnomon.data.columns import spread
from gnomon.data.dataset import Dataset
from gnomon.data.form import File
from gnomon.data.names import BUILTIN
from gnomon.errors import NoColumn, UserTypeError, UserValueError, nearest

__all__ = ["load", "located"]


def load(
    name_or_file: str | os.PathLike[str],
    *,
    target: str | int | None = None,
    columns: Sequence[str] | None = None,
    resize: tuple[int, int] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> Dataset:
    """A built-in data set by its name, or a file (see `gnomon.data.read`).

    Parameters
    ----------
    name_or_file : str or path
        A name from ``gnomon.data.names()``; anything else is a file, a `gnomon.data.File` one whose encoding, separator
        or decimal mark is named.
    target : str or int, optional
        Column of the labels, by name or place; of a file only.
    columns : sequence of str, optional
        The columns to take as features; all but the target where left out. ``a:f`` are those from a to f.
    resize : (int, int), optional
        Height and width to which the images of a folder are brought.
    kinds : mapping, optional
        What columns of a file hold, where that shall not be decided by their cells: ``number``, ``number?``
        (whatever is none is missing), ``text``, ``truth value``, ``date``, or ``left out``.

    Returns
    -------
    Dataset

    Raises
    ------
    UserError
        An unknown name or a file that cannot be used: what, where, what to do.

    Examples
    --------
    >>> load("wine")
    Dataset('wine', 178 rows x 13 columns, with labels)
    """
    if isinstance(name_or_file, str) and name_or_file in BUILTIN:
        from gnomon.data.builtin import builtin

        if target is not None:
            raise UserValueError(f"{name_or_file} has its own target", "target", "leave target out")
        if resize is not None:
            raise UserValueError(f"{name_or_file} has its own size", "resize", "leave it out")
        data = builtin(name_or_file)
        gone = [name for name, kind in (kinds or {}).items() if kind == "left out" and name in data.columns]
        if gone and columns is None:
            columns = [name for name in data.columns if name not in gone]
        return data if columns is None else _choose(data, columns)
    from gnomon.data.readers import read

    if isinstance(name_or_file, File) and name_or_file.path in BUILTIN and not os.path.exists(name_or_file):
        what = f"{name_or_file.path} is built in, and nothing is to be said of how it is read"
        raise UserValueError(what, next(iter(name_or_file.form.to_json()), "data"), "leave it out")
    file = located(name_or_file)
    return read(
        name_or_file if isinstance(name_or_file, File) else file,
        target=target,
        columns=columns,
        resize=resize,
        kinds=kinds,
    )


def located(name_or_file: str | os.PathLike[str]) -> Path:
    """The file that is meant where no built-in set is.

    Raises
    ------
    UserError
        What is neither, with the nearest name of a set.
    """
    try:
        path = Path(name_or_file)
    except TypeError:
        what = f"data must be a name or a file, got a {type(name_or_file).__name__}"
        raise UserTypeError(what, "data", "give a name or a path; arrays go to a system's fit as they are") from None
    try:
        there = str(name_or_file) != "" and path.exists()  # "" is no name of the folder that one is in
    except OSError as error:
        raise UserValueError(f"no file has this name ({error.strerror})", f"{path.name[:40]}...", "check it") from None
    if not there and path.name == str(name_or_file) and not path.suffix:
        close = nearest(path.name, list(BUILTIN))
        remedy = f"did you mean {close[0]!r}?" if close else f"built in are {', '.join(BUILTIN)}"
        raise UserValueError(f"no data set and no file {path.name!r}", "", remedy)
    return path


def _choose(data: Dataset, columns: Sequence[str]) -> Dataset:
    """Only these columns of a table."""
    from dataclasses import replace

    if data.X is None:
        raise NoColumn("the data is not a table and has no columns", data.name, "leave columns out")
    columns = spread(columns, data.columns, data.name)
    for column in columns:
        if column not in data.columns:
            close = nearest(column, data.columns) or list(data.columns[:6])
            raise NoColumn(f"no column {column!r}", data.name, f"did you mean {', '.join(map(repr, close))}?")
    indices = [data.columns.index(column) for column in columns]
    source = {**data.source, "columns": list(columns)}
    return replace(data, X=data.X[:, indices], columns=tuple(columns), images=None, levels=data.levels, source=source)
