"""Columns of any kind as a frame: numbers, truth values, dates and text, each decided by the whole column."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from gnomon.data.columns import MISSING, Chunk, numbers, unmarked
from gnomon.errors import UserTypeError, UserValueError, counted

__all__ = [
    "DATE", "LEFT_OUT", "LENIENT", "NUMBER", "TEXT", "TRUTH", "frame_of", "joined", "kind_of_series",
    "needs_preparation", "of_kind", "texts_of", "typed_frame",
]  # fmt: skip

NUMBER, LENIENT, TEXT, TRUTH, DATE, LEFT_OUT = "number", "number?", "text", "truth value", "date", "left out"
"""Kinds of columns. A lenient number may have cells that are none, which count as missing; a date may name its format:
``date:%d.%m.%Y``."""

MOSTLY = 0.95
"""Share of the observed cells that are numbers from which on a column is one of numbers and the others are mistakes."""

_TRUTHS = {"true": True, "false": False}
_FORMATS = (
    "%Y-%m-%d", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M",
    "%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%d %H:%M:%S%.f%#z", "%Y/%m/%d", "%Y/%m/%d %H:%M", "%Y/%m/%d %H:%M:%S%.f",
    "%d.%m.%Y", "%d.%m.%Y %H:%M", "%b %d %Y", "%d %b %Y", "%d-%b-%Y", "%B %d, %Y", "%m/%d/%Y", "%d/%m/%Y",
    "%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M:%S", "%d/%m/%Y %H:%M:%S",
)  # fmt: skip
_YEARS = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""The years 1 to 9999 in microseconds since 1970."""
_SHOWN = 64
"""Cells on which the formats of dates are tried first."""


def joined(parts: Sequence[Chunk]) -> Chunk:
    """All parts of a table as one, with the line of each row."""
    first = parts[0]
    lines = [
        np.arange(part.first, part.first + part.frame.height) if part.numbers is None else part.numbers
        for part in parts
    ]
    frame = pl.concat([part.frame for part in parts], how="vertical_relaxed")
    return Chunk(first.name, frame, first.word, first.first, np.concatenate(lines), typed=first.typed)


def typed_frame(part: Chunk, columns: Sequence[str], kinds: Mapping[str, str]) -> pl.DataFrame:
    """The columns in their kinds: Float64, Boolean, Datetime or String, null where missing.

    Parameters
    ----------
    part : Chunk
        All rows; of a text file as strings.
    columns : sequence of str
    kinds : mapping
        Kinds that are known; the others are decided by the whole column.

    Raises
    ------
    UserValueError
        A cell that is not of the column's kind, with its line or row.
    """
    return pl.DataFrame([of_kind(part, column, kinds.get(column)) for column in columns])


def of_kind(part: Chunk, column: str, kind: str | None = None) -> pl.Series:
    """One column in a kind, which is decided by its cells where it is not given."""
    cells = part.frame.get_column(column)
    kind = kind_of_series(cells, typed=part.typed) if kind is None else kind
    if kind == NUMBER:
        return _numbers(part, column).fill_nan(None)
    if kind == LENIENT:
        text = cells.dtype == pl.String
        found = cells.str.strip_chars().cast(pl.Float64, strict=False) if text else cells.cast(pl.Float64)
        return found.fill_nan(None).set(found.is_infinite().fill_null(False), None)
    if kind == TRUTH:
        return _truths(part, column)
    if kind.startswith(DATE):
        return _dates(part, column, kind.partition(":")[2])
    return texts_of(cells, typed=part.typed)


def kind_of_series(cells: pl.Series, *, typed: bool = False) -> str:
    """The kind of a column, from all of its cells.

    In a text file a column is one of numbers where at least 95 % of the observed cells are numbers, or at least half of
    them and all others are one word; then a cell that is none is a mistake. Marks of missing values (``?``, ``-``,
    ``none`` ...) are none; there may be as many of them as of numbers, also in a table in memory whose texts are else
    numbers. A column most of whose cells are whole numbers beyond 2^53 is text, as they are names. ``true`` and
    ``false`` in any case are truth values. A column all of whose cells are dates in one way of writing is one of dates;
    where day and month cannot be told apart it is text.

    Examples
    --------
    >>> cells = (["1", "2", ""], ["1", "2", "x", "y"], ["TRUE", "false"], ["2024-01-31", ""], ["1", "2", "?"])
    >>> [kind_of_series(pl.Series(c)) for c in cells]
    ['number', 'text', 'truth value', 'date:%Y-%m-%d', 'number']
    """
    if cells.dtype == pl.Boolean:
        return TRUTH
    if cells.dtype in (pl.Date, pl.Datetime):
        return DATE
    if cells.dtype in (pl.Categorical, pl.Enum):
        return TEXT
    if cells.dtype != pl.String:
        return NUMBER
    plain = cells if typed and not _marked_numbers(cells) else unmarked(cells)
    typed = typed and plain is cells
    cells = plain
    missing = ("",) if typed else MISSING
    seen = cells.filter(cells.is_not_null() & ~cells.is_in(list(missing)))
    if seen.is_empty():
        return NUMBER if not typed else TEXT
    if not typed:
        values = seen.cast(pl.Float64, strict=False)
        failing = seen.filter(values.is_null())
        share = 1 - len(failing) / len(seen)
        if share >= MOSTLY or (share >= 0.5 and failing.n_unique() == 1):
            return TEXT if failing.is_empty() and _are_names(seen, values) else NUMBER
        if seen.str.to_lowercase().is_in(list(_TRUTHS)).all():
            return TRUTH
    written = _format(seen)
    return TEXT if written is None else f"{DATE}:{written}"


def _marked_numbers(cells: pl.Series, least: float = 0.5) -> bool:
    """Whether texts are numbers but for marks of missing ones, as pandas reads a file; ``007`` is a code."""
    plain = unmarked(cells, least)
    if plain is cells and least > 0:
        return False
    seen = plain.filter((plain != "").fill_null(False))
    return bool(seen.cast(pl.Float64, strict=False).is_not_null().all() and not seen.str.contains("^0[0-9]").any())


def _are_names(cells: pl.Series, values: pl.Series) -> bool:
    """Whether most cells are whole numbers with more digits than a number keeps: they are ids."""
    long = values.is_finite() & (values.abs() >= 2**53) & cells.str.contains(r"^[+-]?[0-9]+$")
    return 2 * int(long.sum()) > len(cells)


def _format(seen: pl.Series) -> str | None:
    """The one way in which all cells are dates; None where there is none, or two that mean other days."""
    head = seen.head(_SHOWN)
    if not head.str.contains("[0-9]").all():
        return None
    found = [one for one in _FORMATS if _parsed(head, one).null_count() == 0]
    found = [one for one in found if _parsed(seen, one).null_count() == 0]
    if len(found) > 1 and not (_parsed(seen, found[0]) == _parsed(seen, found[1])).all():
        return None
    return found[0] if found else None


def _parsed(cells: pl.Series, written: str) -> pl.Series:
    found = cells.str.to_datetime(written, strict=False, time_unit="us")
    return found.dt.replace_time_zone(None) if getattr(found.dtype, "time_zone", None) else found


def _numbers(part: Chunk, column: str) -> pl.Series:
    """Numbers; times of day as hours, durations as days."""
    cells = part.frame.get_column(column)
    if cells.dtype == pl.Time:
        return cells.cast(pl.Int64).cast(pl.Float64) / 3.6e12
    if cells.dtype == pl.Duration:
        return cells.dt.total_microseconds().cast(pl.Float64) / 8.64e10
    if cells.dtype == pl.String and (not part.typed or _marked_numbers(cells, 0.0)):
        plain = unmarked(cells.fill_null(""), 0.0)
        _tell(part, cells, plain)
        cells = plain
        part = Chunk(part.name, pl.DataFrame([cells]), part.word, part.first, part.numbers, typed=False)
    return numbers(part, column)


def _tell(part: Chunk, cells: pl.Series, plain: pl.Series) -> None:
    """Say which words among numbers were taken for missing values."""
    marked = (plain != cells).fill_null(False) & ~cells.is_in(list(MISSING)).fill_null(False)
    if not marked.any():
        return
    words = ", ".join(map(repr, cells.filter(marked).unique(maintain_order=True).head(3).to_list()))
    n, where = int(marked.sum()), part.where(int(marked.arg_max() or 0), cells.name)
    what = f"{counted(n, 'cell')} ({words}) among numbers taken as missing ({'' if n == 1 else 'first '}{where})"
    warnings.warn(what, UserWarning, stacklevel=2)


def _truths(part: Chunk, column: str) -> pl.Series:
    cells = part.frame.get_column(column)
    if cells.dtype == pl.Boolean:
        return cells
    if cells.dtype != pl.String:
        values = _numbers(part, column).fill_nan(None)
        found, wrong = values == 1, ~values.is_in([0.0, 1.0]).fill_null(True)
    else:
        lower = cells.str.strip_chars().str.to_lowercase()
        found = lower.replace_strict(_TRUTHS | {"1": True, "0": False}, default=None, return_dtype=pl.Boolean)
        wrong = found.is_null() & cells.is_not_null() & ~cells.is_in(list(MISSING))
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        what = f"value {cells[row]!r} must be true or false, as in the fit"
        raise UserValueError(what, part.where(row, column), "correct it, or leave the field empty if it is missing")
    return found.alias(column)


def _dates(part: Chunk, column: str, written: str) -> pl.Series:
    cells = part.frame.get_column(column)
    if cells.dtype == pl.Datetime:
        plain = cells.dt.convert_time_zone("UTC").dt.replace_time_zone(None) if cells.dtype.time_zone else cells  # type: ignore[attr-defined]
        return _known_years(part, plain.cast(pl.Datetime("us")))
    if cells.dtype in (pl.Date, pl.Null):
        return _known_years(part, cells.cast(pl.Datetime("us")))
    if cells.dtype != pl.String:
        where = f"{part.name}, column {column!r} of type {str(cells.dtype).lower()}"
        raise UserValueError("the column must hold dates, as in the fit", where, "write them as YYYY-MM-DD")
    cells = cells.str.strip_chars()
    cells = cells.set(cells.is_in(list(MISSING)).fill_null(False), None)
    written = written or _format(cells.drop_nulls()) or _FORMATS[0]
    found = _parsed(cells, written)
    wrong = found.is_null() & cells.is_not_null()
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        what = f"value {cells[row]!r} must be a date written as {written}"
        raise UserValueError(what, part.where(row, column), "write it as the fit had it, or leave the field empty")
    return _known_years(part, found.alias(column))


def _known_years(part: Chunk, dates: pl.Series) -> pl.Series:
    """Dates of the years that Python has; polars counts on before and after them."""
    wrong = ~dates.to_physical().is_between(*_YEARS).fill_null(True)
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        what = f"the date must lie in the years 1 to 9999, got the year {dates.dt.year()[row]}"
        raise UserValueError(what, part.where(row, dates.name), "correct it, or leave it out if it is missing")
    return dates


def texts_of(cells: pl.Series, *, typed: bool = True) -> pl.Series:
    """Any column as text, null where missing: whole numbers without a point, truth values as true and false.

    Examples
    --------
    >>> texts_of(pl.Series([1.0, 2.5, None])).to_list(), texts_of(pl.Series([True])).to_list()
    (['1', '2.5', None], ['true'])
    """
    if cells.dtype.is_float():
        cells = cells.cast(pl.Float64).fill_nan(None)
        whole = (cells == cells.round()) & (cells.abs() < 2**53)
        as_whole = cells.set(~whole.fill_null(False), None).cast(pl.Int64).cast(pl.String)
        return as_whole.fill_null(cells.cast(pl.String))
    if cells.dtype.is_nested() or cells.dtype in (pl.Object, pl.Binary):
        where = f"column {cells.name!r} of type {str(cells.dtype).lower()}"
        raise UserValueError("the column holds lists or objects", where, "leave it out, or write it as text")
    text = cells.cast(pl.String)
    return text if typed else text.set((text == "").fill_null(False), None)


# --- frames that a user holds -------------------------------------------------------------------------------------


def frame_of(X: Any) -> pl.DataFrame:
    """A pandas or polars frame as polars columns of numbers, truth values, dates or text.

    Raises
    ------
    UserTypeError, UserValueError
        Something that is no frame, or a column that has no such kind.
    """
    if isinstance(X, pl.DataFrame):
        return _of_known_years(X)
    if isinstance(X, pl.LazyFrame):
        raise UserTypeError("X must be a data frame, got a LazyFrame", "X", "give X.collect()")
    if not hasattr(X, "columns") or not hasattr(X, "dtypes"):
        raise UserTypeError(f"X must be a data frame, got a {type(X).__name__}", "X", "give a pandas or polars frame")
    names = [str(name) for name in X.columns]
    if len(set(names)) != len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise UserValueError(f"X must have unique column names, got {twice!r} twice", "X", "rename one of them")
    return _of_known_years(pl.DataFrame([_series(name, X.iloc[:, i]) for i, name in enumerate(names)]))


def _of_known_years(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame, whose dates are such as Python has."""
    part = Chunk("X", frame, "row", 0, typed=True)
    for name in (one for one, dtype in frame.schema.items() if dtype in (pl.Date, pl.Datetime)):
        _dates(part, name, "")
    return frame


def needs_preparation(X: Any) -> bool:
    """Whether X is a data frame with a column of text, categories or dates.

    Examples
    --------
    >>> needs_preparation(pl.DataFrame({"a": ["x"]})), needs_preparation(pl.DataFrame({"a": [1]}))
    (True, False)
    """
    if isinstance(X, pl.DataFrame):
        return any(not (one.is_numeric() or one in (pl.Boolean, pl.Null, pl.Object)) for one in X.dtypes)
    if not hasattr(X, "dtypes") or not hasattr(X, "iloc") or not hasattr(X, "columns"):
        return False
    if len({type(name) for name in X.columns}) > 1 or not X.columns.is_unique or not len(X):
        return False  # scikit-learn's words say what is wrong with them
    return any(_is_no_number(X.iloc[:, i]) for i in range(X.shape[1]))


def _is_no_number(column: Any) -> bool:
    """Whether a pandas column holds text, categories or dates."""
    kind = getattr(column.dtype, "kind", "O")
    if kind != "O":
        return kind in "MmU"
    if str(column.dtype) in ("category", "string", "str"):
        return True
    return any(isinstance(cell, str) for cell in column.tolist())


def _series(name: str, column: Any) -> pl.Series:
    """A pandas column."""
    kind = getattr(column.dtype, "kind", "O")
    if kind in "biuf" and hasattr(column.dtype, "itemsize") and not column.isna().any():
        return pl.Series(name, column.to_numpy())
    if kind in "iuf":
        return pl.Series(name, column.to_numpy(np.float64, na_value=np.nan), nan_to_null=True)
    if kind == "M":
        naive = column if getattr(column.dtype, "tz", None) is None else column.dt.tz_convert(None)
        return pl.Series(name, naive.to_numpy("datetime64[us]"))
    if kind == "m":
        return pl.Series(name, column.to_numpy("timedelta64[us]"))
    cells = column.astype(object).where(column.notna(), None).tolist()
    kinds = {type(cell) for cell in cells} - {type(None)}
    if kinds and all(issubclass(one, bool | np.bool_) for one in kinds):
        return pl.Series(name, cells, pl.Boolean)
    if kinds and all(issubclass(one, int | float | np.number) for one in kinds):
        return pl.Series(name, cells, pl.Float64, strict=False)
    try:
        return pl.Series(name, cells, strict=True)
    except UnicodeEncodeError:
        row = next(i for i, cell in enumerate(cells) if isinstance(cell, str) and not _is_whole_text(cell))
        what = "there is half of a character (a lone surrogate) in the text"
        raise UserValueError(what, f"X, row {row}, column {name!r}", "remove it") from None
    except (TypeError, pl.exceptions.PolarsError):
        return pl.Series(name, [None if cell is None else str(cell) for cell in cells], pl.String)


def _is_whole_text(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)
