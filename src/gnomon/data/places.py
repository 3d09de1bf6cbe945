"""Where a row and a column of an array stand in the file that it was read from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gnomon.data.dataset import Dataset
from gnomon.data.form import Form
from gnomon.errors import UserError

__all__ = ["placed"]

_PLACE = re.compile(r"row ([0-9]+)(?:, column ([0-9]+)(?: '.*')?)?")


@contextmanager
def placed(data: Dataset) -> Iterator[None]:
    """Say of an error about a row of an array where it stands in the file: its line, and the column by name.

    Parameters
    ----------
    data : Dataset
        Whose rows the array has, in this order.

    Examples
    --------
    >>> from gnomon.data import load
    >>> from gnomon.errors import UserValueError
    >>> try:
    ...     with placed(load("iris")):
    ...         raise UserValueError("value must be 0 or 1, got 5.5", "row 1, column 2", "binarize")
    ... except UserError as error:
    ...     print(error)
    value must be 0 or 1, got 5.5 (iris, row 1, column 'petal length (cm)'); binarize
    """
    try:
        yield
    except UserError as error:
        found = _PLACE.fullmatch(error.where)
        if found is None or (data.X is None and data.frame is None) or int(found[1]) >= len(data):
            raise
        column = None if found[2] is None else int(found[2])
        raise type(error)(error.what, _place(data, int(found[1]), column), error.remedy) from error


def _place(data: Dataset, row: int, column: int | None) -> str:
    row = row if data.rows is None else int(data.rows[row])
    named = column is not None and column < len(data.columns)
    name = data.columns[column] if named and column is not None else None
    source = name if data.preparation is None or name is None else data.preparation.sources.get(name, name)
    where = f"{data.name}, {_line(data, row)}"
    return where if source is None else f"{where}, column {source!r}"


def _line(data: Dataset, row: int) -> str:
    """The line of a text file that holds a row; the number of the row in everything else."""
    from gnomon.data.readers import open_table
    from gnomon.data.sources import RECORDS, TABLES, kind

    file = Path(str(data.source.get("path", "")))
    if kind(file) not in (*TABLES, *RECORDS, ".xlsx") or not file.is_file():
        return f"row {row}"
    table = open_table(file, form=Form.from_json(data.source.get("form")))
    for part in table.parts(table.columns):
        if row < part.frame.height:
            return f"{part.word} {part.first + row if part.numbers is None else int(part.numbers[row])}"
        row -= part.frame.height
    return f"row {row}"
