"""Columns of a file as numbers, labels or ids: kinds are kept, and what does not fit is said with its place."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnomon.errors import NoColumn, UserTypeError, UserValueError, nearest

__all__ = [
    "EXACT", "MISSING", "Chunk", "columns_of", "features", "ids", "kind_of", "labels", "numbers", "place_of",
    "places_of", "spread", "unique_names", "unmarked", "with_label",
]  # fmt: skip

MISSING = ("", "NA", "N/A", "NaN", "nan", "null")
"""Fields of a text file that mean: not there, in a column of numbers. In a column of text only the empty one does."""

MARKS = ("?", "-", ".", "na", "n/a", "#n/a", "nan", "null", "none", "missing")
"""Words, in any case, that stand for a missing number where the rest of a column are numbers."""

EXACT = 2**53
"""Whole numbers up to this one are all float64 numbers."""

_WHOLE = r"^(?:0|-?[1-9][0-9]{0,18})$"
"""A whole number as it is usually written: no plus sign, no leading zero; such an id may be kept as a number."""


@dataclass(frozen=True)
class Chunk:
    """Some rows of a table, as they were read.

    Parameters
    ----------
    name : str
        Name of the file, for messages.
    frame : polars frame
        Strings stripped of blanks where the file is text; columns that are known to be clean numbers as Float64.
    word : {"line", "row"}
        What the file's rows are called.
    first : int
        Number of the first row of the part, where they have no gaps.
    numbers : int array, optional
        Number of every row.
    clean : bool, default False
        Whether its columns of Float64 are known to be finite or missing, and not rounded.
    typed : bool, default False
        Whether the file itself says what is a number and what is text, so that ``"1"`` and ``"NA"`` are texts.
    """

    name: str
    frame: pl.DataFrame
    word: str
    first: int
    numbers: NDArray[np.int64] | None = None
    clean: bool = False
    typed: bool = False

    def where(self, row: int, column: str) -> str:
        """The place of a cell, for messages."""
        number = self.first + row if self.numbers is None else int(self.numbers[row])
        return f"{self.name}, {self.word} {number}, column {column!r}"


def unique_names(header: Sequence[str], name: str) -> list[str]:
    """Names of columns; an empty one becomes ``column_<place>``.

    Raises
    ------
    UserValueError
        A name that stands twice, with both places.
    """
    names = [cell.strip() or f"column_{i}" for i, cell in enumerate(header, 1)]
    seen: dict[str, int] = {}
    for i, column in enumerate(names, 1):
        if column in seen:
            where = f"{name}, columns {seen[column]} and {i}"
            raise UserValueError(f"duplicate column name {column!r}", where, "rename one of them")
        seen[column] = i
    return names


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
        index = int(column)
    except TypeError:
        what = f"a column is named by text or a whole number, got {column!r}"
        raise UserTypeError(what, f"{name}, {parameter}", "name one column") from None
    except ValueError:
        close = nearest(str(column), list(columns)) or list(columns[:6])
        remedy = f"did you mean {', '.join(map(repr, close))}?"
        raise NoColumn(f"no column {column!r}", f"{name}, {parameter}", remedy) from None
    if not -len(columns) <= index < len(columns):
        remedy = f"choose from 0 ... {len(columns) - 1}"
        raise NoColumn(f"no column number {index}", f"{name}, {parameter}", remedy)
    return index % len(columns)


def places_of(columns: Sequence[str | int], names: Sequence[str], name: str) -> list[int]:
    """Places of the columns that were asked for, by name, by number or as ranges, each of them once.

    Raises
    ------
    UserValueError
        One that does not exist, or that was named twice, by its name and by its number, say.

    Examples
    --------
    >>> places_of(["b", "0"], ["a", "b"], "file.csv")
    [1, 0]
    """
    wanted = spread([str(column) for column in columns], names, name)
    places = [place_of(column, names, name, "columns") for column in wanted]
    twice = next((names[place] for i, place in enumerate(places) if place in places[:i]), None)
    if twice is not None:
        raise UserValueError(f"column {twice!r} must be named once, got twice", f"{name}, columns", "name each once")
    return places


def spread(chosen: Sequence[str], columns: Sequence[str], name: str) -> list[str]:
    """Names of columns, with each range ``a:f`` in the place of which stand the columns from a to f.

    Raises
    ------
    NoColumn
        An end of a range that is no column.

    Examples
    --------
    >>> spread(["b:d", "a"], ["a", "b", "c", "d"], "t.csv")
    ['b', 'c', 'd', 'a']
    """
    found: list[str] = []
    for column in chosen:
        first, colon, last = str(column).partition(":")
        if column in columns or not colon or not first or not last:
            found.append(column)
            continue
        low, high = (place_of(end, columns, name, "columns") for end in (first, last))
        if low > high:
            raise UserValueError(f"no column from {first!r} to {last!r}", f"{name}, columns", f"write {last}:{first}")
        found += columns[low : high + 1]
    return found


def features(part: Chunk, columns: Sequence[str], *, missing: bool = True) -> NDArray[np.float64]:
    """Columns of numbers, shape (rows, columns), C order; NaN where missing.

    Parameters
    ----------
    part : Chunk
    columns : sequence of str
    missing : bool, default True
        Whether a value may be missing.

    Raises
    ------
    UserValueError
        A field that is no finite number, a whole number that float64 would round, a missing one where there must be
        none, a column of another kind: line or row, column, value.
    """
    frame = part.frame.select(columns)
    if not part.clean or any(dtype != pl.Float64 for dtype in frame.dtypes):
        frame = pl.DataFrame([numbers(part, column) for column in columns])
    if any(frame.null_count().row(0)):
        frame = frame.fill_null(float("nan"))
    X = frame.to_numpy(order="c", writable=True)
    if not missing and np.isnan(X).any():
        row, column = (int(i) for i in np.argwhere(np.isnan(X))[0])
        remedy = "fill it in or drop the row"
        raise UserValueError("the value is missing", part.where(row, columns[column]), remedy)
    return X


def numbers(part: Chunk, column: str) -> pl.Series:
    """One column as Float64, null or NaN where missing; see `features` for what is refused."""
    cells = part.frame.get_column(column)
    if part.clean and cells.dtype == pl.Float64:
        return cells
    if cells.dtype == pl.String and not part.typed:
        return _parsed(part, cells, column)
    kind = _no_numbers(cells.dtype)
    if kind:
        where = f"{part.name}, column {column!r} of type {str(cells.dtype).lower()}"
        remedy = "turn it into numbers, or leave the column out (columns, or target if it holds the labels)"
        raise UserValueError(f"the column holds {kind}, not numbers", where, remedy)
    values = cells.cast(pl.Float64)
    if cells.dtype.is_integer():
        rounded = (cells.cast(pl.Int128).abs() > EXACT) & (
            values.cast(pl.Int128, strict=False) != cells.cast(pl.Int128)
        )
        if rounded.any():
            _refuse_rounding(part, column, int(rounded.arg_max() or 0), cells)
    _refuse_infinite(part, column, values, cells)
    return values


def _no_numbers(dtype: pl.DataType) -> str:
    """What a column holds that cannot be numbers; empty where it can."""
    if dtype == pl.String:
        return "text"
    if dtype.is_temporal():
        return "dates or times"
    if dtype.is_nested():
        return "lists or records"
    return "" if dtype.is_numeric() or dtype in (pl.Boolean, pl.Null) else "bytes or objects"


def _parsed(part: Chunk, cells: pl.Series, column: str) -> pl.Series:
    """Strings as numbers."""
    values = cells.cast(pl.Float64, strict=False)
    bad = values.is_null() & ~cells.is_in(list(MISSING)) & cells.is_not_null()
    if bad.any():
        row = int(bad.arg_max() or 0)
        remedy = (
            "correct it, leave the column out (--drop), count the cell as missing (--numeric), or take categories "
            "(--categorical); in Python by drop, numeric and categorical of gnomon.data.Preparation"
        )
        raise UserValueError(f"value {_short(cells[row])} is not a number", part.where(row, column), remedy)
    large = (values.abs() >= EXACT) & values.is_finite()
    if large.any():
        for row in large.arg_true().to_list():
            digits = cells[row].lstrip("+-")
            if digits.isdigit() and int(digits) != abs(int(values[row])):
                _refuse_rounding(part, column, row, cells)
    _refuse_infinite(part, column, values, cells)
    return values


def unmarked(cells: pl.Series, least: float = 0.5) -> pl.Series:
    """The cells of a text, those of `MARKS` empty where at least this share of the others and them are numbers.

    Examples
    --------
    >>> [unmarked(pl.Series(c)).to_list() for c in (["130", "?", "150"], ["?", "none", "1"])]
    [['130', '', '150'], ['?', 'none', '1']]
    """
    if cells.dtype != pl.String:
        return cells
    marked = cells.str.to_lowercase().is_in(list(MARKS)).fill_null(False)
    if not marked.any():
        return cells
    observed = int((cells.is_not_null() & (cells != "")).sum())
    numeric = int((cells.cast(pl.Float64, strict=False).is_not_null() & ~marked).sum())
    return cells if numeric < least * observed else cells.set(marked, "")


def _target(cells: pl.Series, *, typed: bool) -> pl.Series:
    """Cells of a target, marks for missing numbers empty: ``?`` among numbers, other words where they are few."""
    if typed or cells.dtype != pl.String:
        return cells
    found = unmarked(cells)
    if found is cells or _is_text(found):
        return cells
    few = unmarked(cells, 0.95)
    return few if few is not cells else cells.set((cells == "?").fill_null(False), "")


def _refuse_infinite(part: Chunk, column: str, values: pl.Series, cells: pl.Series) -> None:
    infinite = values.is_infinite()
    if infinite.any():
        row = int(infinite.arg_max() or 0)
        what = f"value {_short(cells[row])} is not finite"
        raise UserValueError(what, part.where(row, column), "correct it, or leave the field empty if it is missing")


def _refuse_rounding(part: Chunk, column: str, row: int, cells: pl.Series) -> None:
    remedy = "leave the column out if it is an id, else write it with a decimal point"
    what = f"value {_short(cells[row])} has more digits than a float64 holds"
    raise UserValueError(what, part.where(row, column), remedy)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 43 else f"{text[:40]}...{text[0]}"


def _joined(parts: Sequence[Chunk], column: str) -> pl.Series:
    """One column of all parts, in a type that holds the values of each."""
    return pl.concat([part.frame.select(column) for part in parts], how="vertical_relaxed").get_column(column)


def labels(parts: Sequence[Chunk], column: str) -> NDArray[Any]:
    """A target: whole numbers as int64, other numbers as float64, text as it stands.

    In a text file a column is text when a field is neither a number nor one of ``MISSING``, has a leading zero
    (``007``) or is a whole number beyond int64. In a column of text ``NA`` and ``null`` are words.

    Raises
    ------
    UserValueError
        A missing label, with its line or row; a column of lists, dates or objects.
    """
    cells = _target(_joined(parts, column), typed=parts[0].typed)
    _refuse_missing(parts, _without_label(cells, typed=parts[0].typed), column)
    if cells.dtype != pl.String:
        return _typed_labels(parts, cells, column)
    if parts[0].typed or _is_text(cells):
        return np.array(cells.to_list())
    whole = cells.cast(pl.Int64, strict=False)
    if not whole.is_null().any():
        return whole.to_numpy()
    values = cells.cast(pl.Float64).to_numpy()
    if not np.isfinite(values).all():
        _refuse_infinite_label(parts, ~np.isfinite(values), cells, column)
    if (values == np.rint(values)).all() and np.abs(values).max() < EXACT:
        return values.astype(np.int64)
    return values


def _without_label(cells: pl.Series, *, typed: bool) -> pl.Series:
    """Which cells of a target are missing."""
    if cells.dtype.is_float():
        return cells.is_null() | cells.is_nan()
    if cells.dtype != pl.String or typed:
        return cells.is_null()
    return cells.is_null() | ((cells == "") if _is_text(cells) else cells.is_in(list(MISSING)))


def with_label(parts: Sequence[Chunk], column: str) -> tuple[list[Chunk], NDArray[np.int64] | None]:
    """The rows that have a label, and their numbers among all; None where all have one.

    Warns
    -----
    UserWarning
        Rows without a label, which nothing can be learned from or scored by: how many, and the first one's place.

    Raises
    ------
    UserValueError
        No row has a label.
    """
    typed = parts[0].typed
    missing = _without_label(_target(_joined(parts, column), typed=typed), typed=typed)
    n = int(missing.sum())
    if not n:
        return list(parts), None
    where = _where(parts, int(missing.arg_max() or 0), column)
    if n == len(missing):
        raise UserValueError("no row has a label", f"{parts[0].name}, column {column!r}", "name another target")
    rows = "1 row without a label is" if n == 1 else f"{n} rows without a label are"
    warnings.warn(f"{rows} left out ({'' if n == 1 else 'first '}{where})", UserWarning, stacklevel=2)
    keep = ~missing.to_numpy()
    kept, start = [], 0
    for part in parts:
        chosen = keep[start : start + part.frame.height]
        start += part.frame.height
        places = np.arange(part.first, part.first + part.frame.height) if part.numbers is None else part.numbers
        kept.append(replace(part, frame=part.frame.filter(pl.Series(chosen)), numbers=places[chosen]))
    return kept, np.flatnonzero(keep)


def _typed_labels(parts: Sequence[Chunk], cells: pl.Series, column: str) -> NDArray[Any]:
    if cells.dtype.is_integer():
        _refuse_beyond(parts, cells.cast(pl.Int64, strict=False).is_null(), cells, column)
        return cells.cast(pl.Int64).to_numpy()
    if cells.dtype == pl.Boolean:
        return cells.cast(pl.Int64).to_numpy()
    values = pl.concat([numbers(part, column) for part in parts]).to_numpy()
    if (values == np.rint(values)).all() and np.abs(values).max() < EXACT:
        return values.astype(np.int64)
    return values


def _refuse_infinite_label(parts: Sequence[Chunk], infinite: NDArray[np.bool_], cells: pl.Series, column: str) -> None:
    row = int(infinite.argmax())
    what = f"value {_short(cells[row])} is not finite"
    raise UserValueError(what, _where(parts, row, column), "correct it, or drop the row")


def _refuse_beyond(parts: Sequence[Chunk], beyond: pl.Series, cells: pl.Series, column: str) -> None:
    """Refuse whole numbers of more than 64 bits, which no array holds."""
    if beyond.any():
        row = int(beyond.arg_max() or 0)
        what = f"value {_short(cells[row])} has more than 64 bits"
        raise UserValueError(what, _where(parts, row, column), "write the column as text if it is an id")


def _where(parts: Sequence[Chunk], row: int, column: str) -> str:
    """The place of a cell of all parts together."""
    for part in parts:
        if row < part.frame.height:
            return part.where(row, column)
        row -= part.frame.height
    raise IndexError(row)


def _refuse_missing(parts: Sequence[Chunk], missing: pl.Series, column: str) -> None:
    if not missing.any():
        return
    where = _where(parts, int(missing.arg_max() or 0), column)
    raise UserValueError("the label is missing", where, "fill it in or drop the row")


def _is_text(cells: pl.Series) -> bool:
    """Whether a column of strings holds words, or numbers that only strings keep as they are."""
    values = cells.cast(pl.Float64, strict=False)
    if (values.is_null() & ~cells.is_in(list(MISSING)) & cells.is_not_null()).any():
        return True
    zeros = cells.str.contains(r"^[+-]?0[0-9]+$")
    beyond = cells.str.contains(r"^[+-]?[0-9]+$") & cells.cast(pl.Int64, strict=False).is_null()
    return bool((zeros | beyond).any())


def ids(parts: Sequence[Chunk], column: str) -> NDArray[Any]:
    """Names of things: int64 where every field is a whole number in its usual form, else text as it stands.

    So ``7`` and ``007`` stay apart, and ``NA`` is a name like others.

    Raises
    ------
    UserValueError
        A missing id, with its line.
    """
    cells = _joined(parts, column)
    if cells.dtype.is_integer():
        _refuse_missing(parts, cells.is_null(), column)
        return cells.cast(pl.Int64).to_numpy() if cells.max() < 2**63 else np.array(cells.cast(pl.String).to_list())  # type: ignore[operator]
    if cells.dtype != pl.String:
        where = f"{parts[0].name}, column {column!r} of type {str(cells.dtype).lower()}"
        raise UserValueError("the column holds no ids", where, "give whole numbers or text")
    _refuse_missing(parts, (cells == "") | cells.is_null(), column)
    if not parts[0].typed and cells.str.contains(_WHOLE).all():
        whole = cells.cast(pl.Int64, strict=False)
        if not whole.is_null().any():
            return whole.to_numpy()
    return np.array(cells.to_list())


def kind_of(cells: pl.Series, *, typed: bool = False) -> str:
    """What a column holds: whole numbers, numbers, text, truth values, nothing, or the name of another type.

    Examples
    --------
    >>> [kind_of(pl.Series(c)) for c in (["1", "2"], ["1.5", "NA"], ["007"], ["a", "NA"], ["", ""])]
    ['whole numbers', 'numbers', 'text', 'text', 'nothing']
    """
    if cells.dtype == pl.String:
        cells = cells if typed else unmarked(cells)
        if typed or _is_text(cells):
            return "text"
        seen = cells.filter(~cells.is_in(list(MISSING)) & cells.is_not_null())
        if seen.is_empty():
            return "nothing"
        return "numbers" if seen.cast(pl.Int64, strict=False).is_null().any() else "whole numbers"
    if cells.dtype == pl.Null:
        return "nothing"
    if cells.dtype == pl.Boolean:
        return "truth values"
    if cells.dtype.is_numeric():
        return "whole numbers" if cells.dtype.is_integer() else "numbers"
    return str(cells.dtype).lower()


def columns_of(table: Any, places: Sequence[str | None], ids_of: Sequence[int]) -> list[Any]:
    """Columns of an opened table: those at the places `ids_of` as ids, the others as numbers; None where there is none.

    Raises
    ------
    UserValueError
        A column that stands for two things, a missing id, a value that is no number.
    """
    chosen = [index for index in places if index is not None]
    twice = next((index for i, index in enumerate(chosen) if index in chosen[:i]), None)
    if twice is not None:
        raise UserValueError(f"column {twice!r} must be named once, got twice", table.name, "name another column")
    named = [str(places[i]) for i in ids_of]
    parts = list(table.parts(named, chosen))
    columns: list[Any] = []
    for i, column in enumerate(places):
        if column is None:
            columns.append(None)
        elif i in ids_of:
            columns.append(ids(parts, column))
        else:
            columns.append(np.concatenate([features(part, [column], missing=False)[:, 0] for part in parts]))
    return columns
