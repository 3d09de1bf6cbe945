"""Tables in delimited text (CSV, TSV): fields, header, numbers, each mistake with line and column."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnomon.errors import UserValueError, nearest

__all__ = ["MISSING", "Fields", "features", "fields", "labels", "place_of"]

MISSING = ("", "NA", "N/A", "NaN", "nan", "null")


@dataclass(frozen=True)
class Fields:
    """The fields of a table as stripped strings.

    Parameters
    ----------
    name : str
        Name of the file, for messages.
    frame : polars frame of strings
    columns : list of str
    lines : int array
        Line of each row in the file, from 1.
    """

    name: str
    frame: pl.DataFrame
    columns: list[str]
    lines: NDArray[np.int64]


def fields(text: str, name: str, separator: str | None = None) -> Fields:
    """Cut a text into the fields of a table.

    Lines of white space alone are skipped, blanks around a field dropped, and quotes ``"`` as usual. Without
    `separator` it is that of comma, semicolon and tab which the first line holds most. The first line is a header when
    none of its fields is a number, so a table of text alone needs one; without a header the columns are ``column_1``,
    ``column_2`` ...

    Raises
    ------
    UserValueError
        No rows; a row with another number of fields (its line); a column name that stands twice; an open quote.
    """
    numbered = [(i, line) for i, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not numbered:
        raise UserValueError("the file is empty", name, "give a header and rows")
    if separator is None:
        separator = max(",;\t", key=numbered[0][1].count)
    rows = _quoted(text, name, separator) if '"' in text else None
    first = rows[0][1] if rows is not None else numbered[0][1].split(separator)
    header = not any(_is_number(cell) for cell in first)
    columns = _names(first, name) if header else [f"column_{i}" for i in range(1, len(first) + 1)]
    skip = int(header)
    if (len(numbered) if rows is None else len(rows)) == skip:
        raise UserValueError("there is a header but no rows", name, "give at least one row")
    if rows is not None:
        _check_widths([(i, len(row)) for i, row in rows], len(first), name)
        frame = pl.DataFrame([row for _, row in rows[skip:]], schema=dict.fromkeys(columns, pl.String), orient="row")
        numbers = [i for i, _ in rows[skip:]]
    else:
        _check_widths([(i, line.count(separator) + 1) for i, line in numbered], len(first), name)
        frame = _plain([line for _, line in numbered[skip:]], separator, columns)
        numbers = [i for i, _ in numbered[skip:]]
    frame = frame.with_columns(pl.all().fill_null("").str.strip_chars())
    return Fields(name, frame, columns, np.array(numbers, np.int64))


def _plain(lines: list[str], separator: str, columns: list[str]) -> pl.DataFrame:
    """Lines without quotes, all of the same width."""
    frame = pl.read_csv(
        "\n".join(lines).encode("utf-8", "replace"),
        has_header=False, separator=separator, quote_char=None, infer_schema=False, n_rows=len(lines),
    )  # fmt: skip
    return frame.rename(dict(zip(frame.columns, columns, strict=True)))


def _quoted(text: str, name: str, separator: str) -> list[tuple[int, list[str]]]:
    """Lines and fields where quotes may hold separators and line ends."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True, skipinitialspace=True)
    rows, line = [], 1
    try:
        for row in reader:
            if any(cell.strip() for cell in row) or len(row) > 1:
                rows.append((line, row))
            line = reader.line_num + 1
    except csv.Error as error:
        raise UserValueError(f"{error}", f"{name}, line {line}", "close the quote, or double quotes within") from None
    return rows


def _check_widths(widths: list[tuple[int, int]], expected: int, name: str) -> None:
    for line, width in widths:
        if width != expected:
            field = "field" if width == 1 else "fields"
            raise UserValueError(f"{width} {field}, expected {expected}", f"{name}, line {line}", "correct the line")


def _names(header: Sequence[str], name: str) -> list[str]:
    names = [cell.strip() or f"column_{i}" for i, cell in enumerate(header, 1)]
    for i, column in enumerate(names):
        if column in names[:i]:
            where = f"{name}, columns {names.index(column) + 1} and {i + 1}"
            raise UserValueError(f"duplicate column name {column!r}", where, "rename one of them")
    return names


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def place_of(column: str | int, columns: Sequence[str], name: str, parameter: str) -> int:
    """Place of a column that is given by name, or by place (from 0; negative from the end; digits where no name is so).

    Raises
    ------
    UserValueError
        No such column, with the nearest names.
    """
    if isinstance(column, str) and column in columns:
        return columns.index(column)
    try:
        place = int(column)
    except ValueError:
        close = nearest(str(column), list(columns)) or list(columns[:6])
        remedy = f"did you mean {', '.join(map(repr, close))}?"
        raise UserValueError(f"no column {column!r}", f"{name}, {parameter}", remedy) from None
    if not -len(columns) <= place < len(columns):
        remedy = f"choose from 0 ... {len(columns) - 1}"
        raise UserValueError(f"no column number {place}", f"{name}, {parameter}", remedy)
    return place % len(columns)


def features(table: Fields, places: Sequence[int]) -> NDArray[np.float64]:
    """Columns of numbers, shape (rows, len(places)); NaN where missing (``MISSING``).

    Raises
    ------
    UserValueError
        A field that is no number: line, column, value.
    """
    X = np.empty((table.frame.height, len(places)), np.float64, order="F")
    for j, place in enumerate(places):
        values, bad = _numbers(table.frame.to_series(place))
        if bad is not None:
            column, value = table.columns[place], table.frame.to_series(place)[bad]
            where = f"{table.name}, line {table.lines[bad]}, column {column!r}"
            remedy = "correct it, or leave the column out (columns, or target if it holds the labels)"
            raise UserValueError(f"value {value!r} is no number", where, remedy)
        X[:, j] = values
    return np.ascontiguousarray(X)


def _numbers(cells: pl.Series) -> tuple[NDArray[np.float64], int | None]:
    """Values, and the row of the first cell that is neither a number nor missing."""
    values = cells.cast(pl.Float64, strict=False)
    bad = values.is_null() & ~cells.is_in(list(MISSING))
    first = bad.arg_max() if bad.any() else None
    return values.fill_null(float("nan")).to_numpy(), first


def labels(table: Fields, place: int) -> NDArray[Any]:
    """The target: whole numbers as int64, other numbers as float64, text as it stands.

    Raises
    ------
    UserValueError
        A missing label, with its line.
    """
    cells = table.frame.to_series(place)
    missing = cells.is_in(list(MISSING))
    if missing.any():
        line = table.lines[int(missing.arg_max() or 0)]
        where = f"{table.name}, line {line}, column {table.columns[place]!r}"
        raise UserValueError("the label is missing", where, "fill it in or drop the row")
    values, bad = _numbers(cells)
    if bad is not None:
        return np.array(cells.to_list())
    if np.isfinite(values).all() and (values == np.rint(values)).all() and np.abs(values).max() < 2**53:
        return values.astype(np.int64)
    return values
