"""Tables whose columns have types of their own: Parquet and JSON Lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from gnomon.data.boundary import quiet
from gnomon.data.columns import EXACT, Chunk, unique_names
from gnomon.data.parquet_check import check_parquet
from gnomon.data.sources import blocks, check_size, kind
from gnomon.errors import UserValueError

__all__ = ["JsonLines", "Parquet"]

_INDEX = re.compile(r"^__index_level_\d+__$")


class Parquet:
    """A Parquet file, opened: its columns without the index of pandas, and its rows in parts.

    Parameters
    ----------
    file : path
    limit : int, optional
        Bytes as numbers that may be read at once (None: ``MAX_BYTES``); for parts of bounded size give their bytes.
    whole : bool, default True
        Whether all rows are read at once.

    Raises
    ------
    UserValueError
        A file that is no Parquet or is cut off, no rows, more than `limit`.

    Notes
    -----
    Categories become their texts; a category that no row has does not appear.
    """

    def __init__(self, file: Path, *, limit: int | None = None, whole: bool = True) -> None:
        self.name, self._file = file.name, file
        check_parquet(file, limit)
        try:
            with quiet():
                names = pl.read_parquet_schema(file)
                self.height = int(pl.scan_parquet(file).select(pl.len()).collect().item())
                self.columns = [name for name in names if name not in self._index()]
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
            raise self._unreadable(error) from None
        unique_names(self.columns, self.name)
        if not self.columns:
            raise UserValueError("the table has no columns", self.name, "give at least one")
        if not self.height:
            raise UserValueError("the table has no rows", self.name, "give at least one row")
        if whole:
            check_size(self.height * len(self.columns) * 8, f"{self.name}, unpacked", limit)

    def parts(
        self, texts: Sequence[str] = (), columns: Sequence[str] | None = None, *, rows: int | None = None
    ) -> Iterator[Chunk]:
        """The rows in parts of `rows` rows, all at once where left out; see `gnomon.data.delimited.Delimited.parts`."""
        chosen = self.columns if columns is None else list(columns)
        step = self.height if rows is None else rows
        for start in range(0, self.height, step):
            try:
                with quiet():
                    frame = pl.scan_parquet(self._file).select(chosen).slice(start, step).collect()
            except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
                raise self._unreadable(error) from None
            yield Chunk(self.name, _texts(frame), "row", start, typed=True)

    def _index(self) -> set[str]:
        """Columns that hold the index of a pandas frame, which is no feature."""
        facts = pl.read_parquet_metadata(self._file).get("pandas")
        named = json.loads(facts).get("index_columns", []) if facts else []
        found = {name for name in named if isinstance(name, str)}
        return found | {name for name in pl.read_parquet_schema(self._file) if _INDEX.match(name)}

    def _unreadable(self, error: Exception) -> UserValueError:
        reason = " ".join(str(error).split())[:120]
        return UserValueError(f"the file is not readable as Parquet: {reason}", self.name, "write the file again")


def _texts(frame: pl.DataFrame) -> pl.DataFrame:
    """Categories as texts; texts as they are, since a text file's blanks around fields have no place here."""
    coded = [name for name, dtype in frame.schema.items() if dtype in (pl.Categorical, pl.Enum)]
    return frame.with_columns(pl.col(coded).cast(pl.String)) if coded else frame


class JsonLines:
    """A file of JSON Lines: in every line an object with the same kinds of values, or a text.

    A file that ends in ``.json`` may be one array of such objects instead; these count from 1. An absent key and
    ``null`` are missing. A line that is a string is an object with the one key ``text``.

    Parameters
    ----------
    file : path
    size, limit : int, optional
        See `gnomon.data.sources.blocks`.
    encoding : str, optional
        UTF-8 where left out.

    Raises
    ------
    UserValueError
        A line that is no JSON object, holds a key twice, a list or an object as a value, or mixes kinds in a column.

    Notes
    -----
    The columns are those of the first block, in order of appearance; Python's own JSON reader keeps whole numbers of
    any size.
    """

    def __init__(
        self, file: Path, *, size: int | None = None, limit: int | None = None, encoding: str | None = None
    ) -> None:
        self.name, self._word, self._json = file.name, "line", kind(file) == ".json"
        self._kinds: dict[str, str] = {}
        read = blocks(file, size, limit=limit, encoding=encoding)
        self._parsed = self._array(read) if self._json else self._records(read)
        self._first = next(self._parsed, None)
        if self._first is None:
            raise UserValueError("the file has no rows", file.name, "give JSON objects")
        self.columns = list(self._kinds)
        if not self.columns:
            raise UserValueError("the objects have no keys", file.name, "give at least one")

    @property
    def kinds(self) -> dict[str, str]:
        """Kind of every column seen so far: ``number``, ``text``, ``truth value`` or ``nothing``."""
        return dict(self._kinds)

    def parts(self, texts: Sequence[str] = (), columns: Sequence[str] | None = None) -> Iterator[Chunk]:
        """The rows in parts, once."""
        chosen = self.columns if columns is None else list(columns)
        lines, rows = self._first or ([], [])
        yield self._part(lines, rows, chosen)
        for lines, rows in self._parsed:
            new = next((key for key in self._kinds if key not in self.columns), None)
            if new is not None:
                row = next(i for i, record in enumerate(rows) if new in record)
                where, remedy = f"{self.name}, line {lines[row]}", "name every key in one of the first lines"
                raise UserValueError(f"the key {new!r} is new here", where, remedy)
            yield self._part(lines, rows, chosen)

    def _part(self, lines: list[int], rows: list[dict[str, Any]], chosen: list[str]) -> Chunk:
        series = [self._series(name, [row.get(name) for row in rows], lines) for name in chosen]
        return Chunk(self.name, pl.DataFrame(series), self._word, lines[0], np.array(lines, np.int64), typed=True)

    def _series(self, name: str, values: list[Any], lines: list[int]) -> pl.Series:
        """A column in the type that keeps its values."""
        kind = self._kinds.get(name, "nothing")
        if kind != "number":
            return pl.Series(name, values, _TYPES[kind])
        if _whole(values):
            large = any(value is not None and abs(value) >= 2**63 for value in values)
            return pl.Series(name, values, pl.Int128 if large else pl.Int64)
        row = next((i for i, value in enumerate(values) if _rounded(value)), None)
        if row is not None:
            where = f"{self.name}, {self._word} {lines[row]}, column {name!r}"
            what = f"value {values[row]} has more digits than a float64 holds"
            raise UserValueError(what, where, "leave the column out, or write it with a decimal point")
        return pl.Series(name, [None if value is None else float(value) for value in values], pl.Float64)

    def _records(self, numbered: Iterator[tuple[int, bytes]]) -> Iterator[tuple[list[int], list[dict[str, Any]]]]:
        for first, block in numbered:
            lines, rows = [], []
            for line, text in enumerate(block.split(b"\n"), first):
                if text.strip():
                    lines.append(line)
                    rows.append(self._record(text, line))
            if rows:
                yield lines, rows

    def _array(self, numbered: Iterator[tuple[int, bytes]]) -> Iterator[tuple[list[int], list[dict[str, Any]]]]:
        """The objects of one array; a file that does not begin with one has an object in every line."""
        first = next(numbered, (1, b""))
        if not first[1].lstrip().startswith(b"["):
            yield from self._records(chain([first], numbered))
            return
        self._word = "object"
        values = self._parse(b"".join(block for _, block in chain([first], numbered)), f"{self.name}")
        rows = [self._object(value, i) for i, value in enumerate(values, 1)]
        if rows:
            yield list(range(1, len(rows) + 1)), rows

    def _record(self, text: bytes, line: int) -> dict[str, Any]:
        return self._object(self._parse(text, f"{self.name}, line {line}"), line)

    def _parse(self, text: bytes, where: str) -> Any:
        try:
            value = json.loads(text, object_pairs_hook=_unique)
            if b"\\u" in text:
                json.dumps(value, ensure_ascii=False).encode()
        except _Twice as error:
            raise UserValueError(f"the key {str(error)!r} occurs twice", where, "rename one of them") from None
        except UnicodeEncodeError:
            what, remedy = "there is half of a character (a lone surrogate) in the text", "remove it"
            raise UserValueError(what, where, remedy) from None
        except (ValueError, RecursionError) as error:
            reason = str(error) if not isinstance(error, RecursionError) else "nested too deeply"
            remedy = "give one JSON object in every line" + (
                ', or an array of objects (pandas: to_json(orient="records"))' if self._json else ""
            )
            raise UserValueError(f"the text is not valid JSON: {reason}", where, remedy) from None
        return value

    def _object(self, value: Any, line: int) -> dict[str, Any]:
        record = {"text": value} if isinstance(value, str) else value
        if not isinstance(record, dict):
            raise UserValueError(
                f"a {self._word} must be a JSON object, got a {type(value).__name__}",
                f"{self.name}, {self._word} {line}",
                "give objects: {...}",
            )
        for key, cell in record.items():
            self._check(key, cell, line)
        return record

    def _check(self, key: str, cell: Any, line: int) -> None:
        """Remember the kind of a column, and refuse another one."""
        if cell is None:
            self._kinds.setdefault(key, "nothing")
            return
        found = _KINDS.get(type(cell))
        where = f"{self.name}, {self._word} {line}, column {key!r}"
        if found is None:
            what = f"the value is {'a list' if isinstance(cell, list) else 'an object'}"
            raise UserValueError(what, where, "give numbers, texts, true, false or null")
        if found == "number" and isinstance(cell, int) and abs(cell) >= 2**100:
            raise UserValueError("a whole number must fit into 100 bits", where, "write it as a text")
        known = self._kinds.get(key, "nothing")
        if known == "nothing":
            self._kinds[key] = found
        elif known != found:
            remedy = "write the whole column in one way"
            raise UserValueError(f"{cell!r} is a {found}, the {self._word}s before hold a {known}", where, remedy)


_KINDS: dict[type, str] = {int: "number", float: "number", str: "text", bool: "truth value"}
_TYPES: dict[str, Any] = {"text": pl.String, "truth value": pl.Boolean, "nothing": pl.Null}


class _Twice(Exception):
    """A key that occurs twice in an object."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        keys = [key for key, _ in pairs]
        raise _Twice(next(key for key in keys if keys.count(key) > 1))
    return record


def _whole(values: list[Any]) -> bool:
    return all(value is None or type(value) is int for value in values)


def _rounded(value: Any) -> bool:
    """Whether float64 cannot hold a whole number."""
    return type(value) is int and abs(value) > EXACT and int(float(value)) != value
