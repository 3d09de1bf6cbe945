"""Tables in delimited text (CSV, TSV), block by block: fields, header, numbers, each mistake with its line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnomon.data import sources
from gnomon.data.columns import EXACT, MISSING, Chunk, unique_names
from gnomon.data.form import Form
from gnomon.data.marks import UNIT, canonical, refuse_marks, separated, separated_blocks, separator_of
from gnomon.data.sources import blocks
from gnomon.errors import UserValueError

__all__ = ["Delimited"]

_ROWS = 1 << 16
_COUNT = 1 << 20


class Delimited:
    """A delimited file, opened: its columns, and its rows in parts.

    Lines of white space alone are skipped, blanks around a field dropped, and quotes ``"`` as usual. The first line is
    a header when none of its fields is a number, so a table of text alone needs one; without a header the columns are
    ``column_1``, ``column_2`` ...

    Parameters
    ----------
    file : path
    separator : str, optional
        None: found in the first line, see `gnomon.data.marks.separator_of`.
    size, limit : int, optional
        See `gnomon.data.sources.blocks`.
    form : Form, optional
        Encoding, separator and marks within numbers, where the file does not say so itself.
    header : sequence of str, optional
        Names, in lower case, of which a header has at least one. Left out, any line without a number is one.

    Raises
    ------
    UserValueError
        No rows; a row with another number of fields (its line); a column name that stands twice; an open quote.

    Notes
    -----
    A block of clean numbers is read by polars alone; any other is cut into strings, so that a mistake is found with its
    line. Memory is bounded by the block.
    """

    def __init__(
        self,
        file: Path,
        separator: str | None = None,
        *,
        size: int | None = None,
        limit: int | None = None,
        header: Sequence[str] | None = None,
        form: Form | None = None,
    ) -> None:
        self.name, self._file, self.form = file.name, file, form or Form()
        self._blocks = blocks(file, size, limit=limit, encoding=self.form.encoding)
        line, block = next(((line, b) for line, b in self._blocks if b.strip()), (1, b""))
        if not block:
            raise UserValueError("the file is empty", file.name, "give a header and rows")
        start = _blank_lines(block)
        line, block = line + block.count(b"\n", 0, start), block[start:]
        end = block.find(b"\n") + 1 or len(block)
        mark = self.form.separator or separator or separator_of(block[:end].decode(), file)
        self.separator = mark if len(mark) == 1 and mark != " " else UNIT
        if self.separator == UNIT:
            block, self._blocks = separated(block, mark, self.name), separated_blocks(self._blocks, mark, self.name)
            end = block.find(b"\n") + 1 or len(block)
        first = block[:end].decode()
        cells = first.rstrip("\n").split(self.separator)
        self._quoted = '"' in first
        if self._quoted:
            _, cells = next(self._rows(chain([(line, block)], ())), (line, [""]))
        named = header is None or any(cell.strip().casefold() in header for cell in cells)
        self.header = named and not any(_is_number(cell) for cell in cells)
        self.columns = (
            unique_names(cells, self.name) if self.header else [f"column_{i}" for i in range(1, len(cells) + 1)]
        )
        if self.header and not self._quoted:
            line, block = line + 1, block[end:]
        elif self.header and first.count('"') % 2 == 0:
            self._quoted, line, block = False, line + 1, block[end:]
        self._skip = int(self.header and self._quoted)
        self._rest = (line, block)
        # whether the file itself, below its header, is what the blocks are
        self._plain = file.suffix.lower() != ".gz" and line == 1 + self.header and not (start or self._quoted)
        self._plain = self._plain and self.separator != UNIT and self.form.encoding is None
        self._marked = bool(self.form.thousands) or self.form.decimal == ","

    def parts(self, texts: Sequence[str] = (), columns: Sequence[str] | None = None) -> Iterator[Chunk]:
        """The rows in parts, once.

        Parameters
        ----------
        texts : sequence of str
            Columns that stay strings; the others become Float64 where a block holds clean numbers only.
        columns : sequence of str, optional
            Columns to give; all where left out. The others are only counted.
        """
        chosen = self.columns if columns is None else list(columns)
        found = False
        for part in self._parts(set(texts), chosen):
            found = found or part.frame.height > 0
            yield part
        if not found:
            raise UserValueError("there is a header but no rows", self.name, "give at least one row")

    def whole(self) -> Chunk | None:
        """All rows at once where they are clean numbers in a large file; None where the parts have to be read.

        Polars reads the file with all its threads, and one pass over its bytes counts the separators, so that no line
        is shorter than the others. That every field is a number leaves no room for quotes, marks or other encodings.
        """
        if not self._plain or self._marked or self._file.stat().st_size <= sources.BLOCK:
            return None
        try:
            frame = self._floats(self._file, self.columns, skip_rows=int(self.header))
        except pl.exceptions.PolarsError:
            return None
        data: NDArray[np.uint8] = np.memmap(self._file, np.uint8, "r")
        if self.header:
            data = data[int(np.argmax(data[: 1 << 20] == ord("\n"))) + 1 :]
        return self._checked(frame, data, self.columns, int(self.header) + 1)

    def _checked(self, frame: pl.DataFrame, data: NDArray[np.uint8], plain: list[str], line: int) -> Chunk | None:
        """What polars read, where each line has its fields and each number is exact; else None."""
        # polars refuses a longer line but fills a shorter one: together with the count, every line has its fields
        height, width = frame.height, len(self.columns)
        if _count(data, ord(self.separator)) != height * (width - 1):
            return None
        if width == 1 and frame.null_count().row(0) != (0,):
            return None  # a line of blanks
        large = (pl.col(plain).abs() >= EXACT) & pl.col(plain).is_not_nan()
        if plain and frame.select(pl.any_horizontal(large).any()).item():
            return None  # infinite, or perhaps rounded
        return Chunk(self.name, frame, "line", line, clean=True)

    def _parts(self, texts: set[str], chosen: list[str]) -> Iterator[Chunk]:
        todo = chain([self._rest], self._blocks)
        for line, block in todo:
            if self._quoted or b'"' in block:
                # a quoted field may hold line ends, so from here on blocks are no units
                yield from self._quoted_parts(chain([(line, block)], todo), chosen)
                return
            part = self._numbers(line, block, texts, chosen)
            yield part if part is not None else self._strings(line, block, chosen)

    def _numbers(self, line: int, block: bytes, texts: set[str], chosen: list[str]) -> Chunk | None:
        """A block by polars alone; None where anything in it is out of the ordinary."""
        if self._marked:
            return None
        plain = [c for c in chosen if c not in texts]
        kept = [c for c in chosen if c in texts]
        try:
            read = [self._floats(block, plain)] if plain else []
            if kept:
                read.append(self._read(block, kept, pl.String, None).fill_null(""))
            frame = pl.concat(read, how="horizontal")
        except pl.exceptions.PolarsError:
            return None
        if self._checked(frame, np.frombuffer(block, np.uint8), plain, line) is None:
            return None
        frame = frame.with_columns(pl.col(kept).str.strip_chars()).select(chosen)
        return Chunk(self.name, frame, "line", line, clean=True)

    def _floats(self, block: bytes | Path, columns: list[str], *, skip_rows: int = 0) -> pl.DataFrame:
        """Columns of numbers: first as if none were marked as missing by a word, which saves a sixth of the time."""
        try:
            return self._read(block, columns, pl.Float64, None, skip_rows=skip_rows)
        except pl.exceptions.PolarsError:
            return self._read(block, columns, pl.Float64, list(MISSING), skip_rows=skip_rows)

    def _read(
        self, block: bytes | Path, columns: list[str], dtype: Any, null_values: list[str] | None, *, skip_rows: int = 0
    ) -> pl.DataFrame:
        """These columns of a block or file without quotes."""
        names = [f"column_{i}" for i in range(1, len(self.columns) + 1)]  # those that polars takes without a header
        places = dict(zip(self.columns, names, strict=True))
        frame = pl.read_csv(
            block, has_header=False, schema=dict.fromkeys(names, dtype), columns=[places[c] for c in columns],
            separator=self.separator, quote_char=None, null_values=null_values, skip_rows=skip_rows,
        )  # fmt: skip
        return frame.select(pl.col(places[c]).alias(c) for c in columns)

    def _strings(self, line: int, block: bytes, chosen: list[str]) -> Chunk:
        """A block without quotes as strings."""
        separator = self.separator.encode()
        lines = enumerate(block.split(b"\n"), line)
        numbered = [(i, text) for i, text in lines if text.strip() or separator in text]
        for i, text in numbered:
            self._check_width(text.count(separator) + 1, i)
        data = b"\n".join(text for _, text in numbered)
        schema = dict.fromkeys(self.columns, pl.String)
        frame = pl.DataFrame(schema=schema)
        if numbered:
            frame = pl.read_csv(data, has_header=False, schema=schema, separator=self.separator, quote_char=None)
        return self._stripped(frame, [i for i, _ in numbered], chosen)

    def _quoted_parts(self, numbered: Iterator[tuple[int, bytes]], chosen: list[str]) -> Iterator[Chunk]:
        """Rows whose quotes may hold separators and line ends."""
        rows: list[list[str]] = []
        lines: list[int] = []
        for line, row in self._rows(numbered):
            if self._skip:
                self._skip = 0
                continue
            self._check_width(len(row), line)
            rows.append(row)
            lines.append(line)
            if len(rows) == _ROWS:
                yield self._of_rows(rows, lines, chosen)
                rows, lines = [], []
        if rows:
            yield self._of_rows(rows, lines, chosen)

    def _of_rows(self, rows: list[list[str]], lines: list[int], chosen: list[str]) -> Chunk:
        frame = pl.DataFrame(rows, schema=dict.fromkeys(self.columns, pl.String), orient="row")
        return self._stripped(frame, lines, chosen)

    def _rows(self, numbered: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, list[str]]]:
        first, block = next(numbered)
        texts = (text for _, b in chain([(first, block)], numbered) for text in io.StringIO(b.decode(), newline="\n"))
        reader = csv.reader(texts, delimiter=self.separator, strict=True, skipinitialspace=True)
        line = first
        try:
            for row in reader:
                if len(row) > 1 or any(cell.strip() for cell in row):
                    yield line, row
                line = first + reader.line_num
        except csv.Error as error:
            where = f"{self.name}, line {line}"
            raise UserValueError(
                f"the line is not valid: {error}", where, "close the quote, or double quotes within"
            ) from None

    def _stripped(self, frame: pl.DataFrame, lines: list[int], chosen: list[str]) -> Chunk:
        frame = frame.select(chosen).with_columns(pl.all().fill_null("").str.strip_chars())
        part = Chunk(self.name, frame, "line", lines[0] if lines else 0, np.array(lines, np.int64))
        if self._marked:
            return canonical(part, self.form)
        refuse_marks(part)
        return part

    def _check_width(self, width: int, line: int) -> None:
        if width != len(self.columns):
            what = f"{width} {'field' if width == 1 else 'fields'}, expected {len(self.columns)}"
            raise UserValueError(what, f"{self.name}, line {line}", "correct the line")


def _blank_lines(block: bytes) -> int:
    """Bytes of the leading lines that hold white space alone."""
    offset = 0
    while (end := block.find(b"\n", offset)) >= 0 and not block[offset:end].strip():
        offset = end + 1
    return offset


def _count(array: NDArray[np.uint8], byte: int) -> int:
    """How often a byte occurs: in pieces that stay in the cache, several times faster than bytes.count."""
    return sum(int(np.count_nonzero(array[i : i + _COUNT] == byte)) for i in range(0, len(array), _COUNT))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
