"""Marks of delimited text: what separates its fields, and what stands within its numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from gnomon.data.columns import MISSING, Chunk
from gnomon.data.form import SPACE, Form
from gnomon.errors import UserValueError

__all__ = ["UNIT", "canonical", "has_marks", "refuse_marks", "separated", "separated_blocks", "separator_of"]

UNIT = "\x1f"
"""The character of Unicode that separates units; a separator of several characters becomes it."""

_FREE = (".dat", ".data")
"""Endings that say nothing of the separator."""
_QUOTED_OR_BLANK = re.compile(rb'"[^"\n]*"|[ \t]+')
_COMMA = r"^[+-]?[0-9]+,[0-9]+$"
_GROUPS = r"^[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?$"
_POINT_GROUPS = r"^[+-]?[0-9]{1,3}(?:\.[0-9]{3})+(?:,[0-9]+)?$"
_NUMBER = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"


def separator_of(line: str, file: Path) -> str:
    """What separates the fields of a first line: the most frequent of comma, semicolon, tab and bar, or ``::``.

    In a file whose ending says nothing (.dat, .data) ``::`` comes first; runs of blanks separate where there is none of
    these, or only tabs beside several blanks in a row.

    Examples
    --------
    >>> lines = {"a;b": "t.csv", "1::A, B::x": "m.dat", "1  2": "m.dat"}
    >>> [separator_of(line, Path(name)) for line, name in lines.items()]
    [';', '::', 'space']
    """
    best = max(",;\t|", key=line.count)
    free = file.with_suffix("" if file.suffix == ".gz" else file.suffix).suffix.lower() in _FREE
    if line.count("::") > (0 if free else line.count(best)):
        return "::"
    marked = line.count(best) > 0
    if free and (re.search(r"\S  +\S", line) if marked and best == "\t" else not marked and re.search(r"\S +\S", line)):
        return SPACE
    return best


def separated_blocks(blocks: Iterator[tuple[int, bytes]], separator: str, name: str) -> Iterator[tuple[int, bytes]]:
    """Blocks of text whose separator is `UNIT`."""
    for line, block in blocks:
        yield line, separated(block, separator, name)


def separated(block: bytes, separator: str, name: str) -> bytes:
    """A block of lines whose fields are set apart by `UNIT`; blanks within quotes stay.

    Examples
    --------
    >>> separated(b' 1  2.5 "a b"\\n', "space", "t"), separated(b"1::2\\n", "::", "t")
    (b'1\\x1f2.5\\x1f"a b"\\n', b'1\\x1f2\\n')
    """
    if UNIT.encode() in block:
        raise UserValueError("there is a unit separator (0x1f) in the text", name, "remove it")
    if separator != SPACE:
        return block.replace(separator.encode(), UNIT.encode())
    trimmed = re.sub(rb"(?m)^[ \t]+|[ \t]+$", b"", block)
    return _QUOTED_OR_BLANK.sub(lambda match: match[0] if match[0][:1] == b'"' else UNIT.encode(), trimmed)


def canonical(part: Chunk, form: Form) -> Chunk:
    """Numbers with marks as they are usually written: ``1.234,5`` becomes ``1234.5``; texts stay.

    Raises
    ------
    UserValueError
        In a column of numbers one that is written otherwise.
    """
    decimal = re.escape(form.decimal or ".")
    group = f"(?:[0-9]{{1,3}}(?:{re.escape(form.thousands)}[0-9]{{3}})+|[0-9]+)" if form.thousands else "[0-9]+"
    pattern = f"^[+-]?(?:{group}(?:{decimal}[0-9]*)?|{decimal}[0-9]+)(?:[eE][+-]?[0-9]+)?$"
    columns = []
    for cells in part.frame.get_columns():
        if cells.dtype != pl.String:
            columns.append(cells)
            continue
        fits = cells.str.contains(pattern)
        other = ~fits & cells.str.contains(_NUMBER)
        text = ~fits & ~other & ~cells.is_in(list(MISSING))
        if other.any() and not text.any():
            row = int(other.arg_max() or 0)
            what = f"value {cells[row]!r} must be written with the decimal mark {form.decimal or '.'!r}"
            remedy = (
                f"correct it, or name the mark between thousands: --thousands {'.' if form.decimal == ',' else ','}"
            )
            raise UserValueError(what, part.where(row, cells.name), remedy)
        plain = cells.str.replace_all(form.thousands, "", literal=True) if form.thousands else cells
        if form.decimal == ",":
            plain = plain.str.replace(",", ".", literal=True)
        columns.append(pl.select(pl.when(fits).then(plain).otherwise(cells).alias(cells.name)).to_series())
    return Chunk(part.name, pl.DataFrame(columns), part.word, part.first, part.numbers)


def refuse_marks(part: Chunk) -> None:
    """Refuse a column in which every value is a number, some with commas: as it stands it would be a text.

    Raises
    ------
    UserValueError
        With the option that reads it.
    """
    for cells in part.frame.get_columns():
        marks = _marks_of(cells)
        if not marks:
            continue
        row = int(cells.str.contains(",", literal=True).fill_null(False).arg_max() or 0)
        options = " ".join(f"--{name} {mark}" for name, mark in marks.items())
        keywords = ", ".join(f'{name}="{mark}"' for name, mark in marks.items())
        remedy = f"{options} reads it (gnomon.data.File(path, {keywords})), or leave the column out"
        raise UserValueError(f"value {cells[row]!r} is a number with a comma", part.where(row, cells.name), remedy)


def has_marks(cells: pl.Series) -> bool:
    """Whether every value of a column is a number, some with commas.

    Examples
    --------
    >>> has_marks(pl.Series(["3,25", "4"])), has_marks(pl.Series(["3,25", "red"])), has_marks(pl.Series(["3", "4"]))
    (True, False, False)
    """
    return bool(_marks_of(cells))


def _marks_of(cells: pl.Series) -> dict[str, str]:
    """The marks by which a column with commas is one of numbers; none where it is not."""
    if cells.dtype != pl.String or not cells.str.contains(",", literal=True).fill_null(False).any():
        return {}
    seen = cells.filter(~cells.is_in(list(MISSING)) & cells.is_not_null())
    plain = seen.str.contains(_NUMBER)
    if (plain | seen.str.contains(_GROUPS)).all():
        return {"thousands": ","}
    if (plain | seen.str.contains(_COMMA)).all():
        return {"decimal": ","}
    if (plain | seen.str.contains(_COMMA) | seen.str.contains(_POINT_GROUPS)).all():
        return {"decimal": ",", "thousands": "."}
    return {}
