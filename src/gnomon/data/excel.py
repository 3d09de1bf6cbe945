"""Workbooks of Excel (.xlsx): the first sheet as a table."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from gnomon.data.columns import EXACT, MISSING, Chunk, unique_names
from gnomon.data.sources import check_size
from gnomon.errors import UserValueError

__all__ = ["Excel"]

_KINDS: dict[type, str] = {
    int: "number", float: "number", str: "text", bool: "truth value", datetime: "date", date: "date",
    time: "time of day", timedelta: "duration",
}  # fmt: skip
_TYPES: dict[str, Any] = {"text": pl.String, "truth value": pl.Boolean, "date": pl.Datetime("us")}


class Excel:
    """The first sheet of a workbook, opened: its first row names the columns.

    Cells hold what Excel last computed for them. Rows without any value are left out; rows count from 1, as Excel has
    them.

    Parameters
    ----------
    file : path
    limit : int, optional
        Bytes after unpacking at which to stop with an error (None: ``MAX_BYTES``).

    Raises
    ------
    UserValueError
        openpyxl is absent; no workbook; no rows; a column of mixed kinds.

    Notes
    -----
    Read by openpyxl, a few seconds for 100,000 rows of ten columns: CSV and Parquet are a hundred times faster.
    """

    def __init__(self, file: Path, *, limit: int | None = None) -> None:
        self.name = file.name
        sheet = _sheet(file, limit)
        filled = [(i, row) for i, row in enumerate(sheet, 1) if any(cell is not None for cell in row)]
        if len(filled) < 2:
            raise UserValueError("the sheet has no rows", self.name, "give a row of names, and rows below it")
        header = filled[0][1]
        width = max(j for j, cell in enumerate(header, 1) if cell is not None)
        self.columns = unique_names(["" if cell is None else str(cell) for cell in header[:width]], self.name)
        self._numbers = np.array([i for i, _ in filled[1:]], np.int64)
        self._rows = [row for _, row in filled[1:]]
        self._refuse_wide(width)

    def parts(self, texts: Sequence[str] = (), columns: Sequence[str] | None = None) -> Iterator[Chunk]:
        """The rows, all at once."""
        chosen = self.columns if columns is None else list(columns)
        frame = pl.DataFrame([self._series(name) for name in chosen])
        yield Chunk(self.name, frame, "row", int(self._numbers[0]), self._numbers, typed=True)

    def _refuse_wide(self, width: int) -> None:
        for i, row in zip(self._numbers.tolist(), self._rows, strict=True):
            if any(cell is not None for cell in row[width:]):
                where = f"{self.name}, row {i}"
                raise UserValueError("there is a cell beside the named columns", where, "name its column, or clear it")

    def _series(self, name: str) -> pl.Series:
        """A column in the type that keeps its values."""
        place = self.columns.index(name)
        cells = [row[place] if place < len(row) else None for row in self._rows]
        kinds = [None if cell is None else _KINDS.get(type(cell), type(cell).__name__) for cell in cells]
        if "number" in kinds:
            cells = [None if type(cell) is str and cell.strip() in MISSING else cell for cell in cells]
            kinds = [None if cell is None else kind for cell, kind in zip(cells, kinds, strict=True)]
        known = next((kind for kind in kinds if kind is not None), None)
        other = next((i for i, kind in enumerate(kinds) if kind not in (None, known)), None)
        if other is not None:
            where = f"{self.name}, row {self._numbers[other]}, column {name!r}"
            what = f"{cells[other]!r} is a {kinds[other]}, the rows before hold a {known}"
            raise UserValueError(what, where, "write the whole column in one way")
        if known is None:
            return pl.Series(name, cells, pl.Null)
        if known == "number":
            whole = all(cell is None or (type(cell) is int and abs(cell) <= EXACT) for cell in cells)
            return pl.Series(name, cells if whole else [None if c is None else float(c) for c in cells],
                             pl.Int64 if whole else pl.Float64)  # fmt: skip
        if known == "date":
            cells = [datetime(c.year, c.month, c.day) if type(c) is date else c for c in cells]
        if known not in _TYPES:
            where = f"{self.name}, column {name!r}"
            raise UserValueError(f"the column holds a {known}", where, "give numbers, texts, dates or truth values")
        return pl.Series(name, cells, _TYPES[known])


def _sheet(file: Path, limit: int | None) -> list[tuple[Any, ...]]:
    """The values of the first sheet, row by row."""
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise UserValueError("Excel files need openpyxl", "", "run: pip install openpyxl") from None
    try:
        with zipfile.ZipFile(file) as archive:
            check_size(sum(member.file_size for member in archive.infolist()), f"{file.name}, unpacked", limit)
    except zipfile.BadZipFile:
        raise UserValueError("the file must be a workbook of Excel", file.name, "save it again as .xlsx") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of styles and extensions, which hold no data
        book = load_workbook(file, read_only=True, data_only=True)
        try:
            sheets = book.worksheets
            if not sheets:
                raise UserValueError("the workbook has no sheet", file.name, "give one with a table")
            sheets[0].reset_dimensions()  # what the file says of its size may be wrong
            return list(sheets[0].iter_rows(values_only=True))
        finally:
            book.close()
