"""What a Parquet file says of its own sizes, checked before a library believes it.

A reader in a compiled language allocates what a header promises, and ends the process where that cannot be had. The
footer and the headers of the pages (Thrift's compact protocol) are small: they are read here first.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gnomon.data.sources import check_size
from gnomon.errors import UserError, UserValueError

__all__ = ["check_parquet"]

MAGIC = b"PAR1"
DEEPEST = 32
"""Structures within structures; a footer has seven."""
LONGEST = 1 << 20
"""Elements of a list, bytes of a text in a footer."""
MOST_PAGES = 1 << 20

Fields = dict[int, Any]


class _Damaged(Exception):
    """What is wrong with the bytes."""


class _Thrift:
    """A cursor on bytes in Thrift's compact protocol."""

    def __init__(self, data: Any, place: int, end: int) -> None:
        self.data, self.place, self.end = data, place, end

    def byte(self) -> int:
        if self.place >= self.end:
            raise _Damaged("a structure does not end")
        self.place += 1
        return int(self.data[self.place - 1])

    def varint(self) -> int:
        value = shift = 0
        while True:
            one = self.byte()
            value |= (one & 0x7F) << shift
            if one < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise _Damaged("a number has more than 64 bits")

    def zigzag(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def binary(self) -> bytes:
        size = self.varint()
        if size > min(LONGEST << 6, self.end - self.place):
            raise _Damaged("a text is longer than what holds it")
        self.place += size
        return bytes(self.data[self.place - size : self.place])

    def double(self) -> bytes:
        self.place += 8
        return b""

    def elements(self, depth: int) -> list[Any]:
        head = self.byte()
        size = self.varint() if head >> 4 == 15 else head >> 4
        if size > min(LONGEST, self.end - self.place):
            raise _Damaged("a list is longer than what holds it")
        kind = head & 15
        if kind in (1, 2):
            return [self.byte() for _ in range(size)]
        return [self.value(kind, depth) for _ in range(size)]

    def pairs(self, depth: int) -> list[Any]:
        size = self.varint()
        if size > min(LONGEST, self.end - self.place):
            raise _Damaged("a map is longer than what holds it")
        kinds = self.byte() if size else 0
        return [(self.value(kinds >> 4, depth), self.value(kinds & 15, depth)) for _ in range(size)]

    def value(self, kind: int, depth: int) -> Any:
        if depth > DEEPEST:
            raise _Damaged("structures are nested too deeply")
        if kind in (1, 2):
            return kind == 1
        simple: dict[int, Callable[[], Any]] = {
            3: self.byte, 4: self.zigzag, 5: self.zigzag, 6: self.zigzag, 7: self.double, 8: self.binary,
        }  # fmt: skip
        if kind in simple:
            return simple[kind]()
        if kind in (9, 10):
            return self.elements(depth + 1)
        if kind == 11:
            return self.pairs(depth + 1)
        if kind == 12:
            return self.struct(depth + 1)
        raise _Damaged(f"there is no type {kind}")

    def struct(self, depth: int = 0) -> Fields:
        found: Fields = {}
        last = 0
        while head := self.byte():
            last = last + (head >> 4) if head >> 4 else self.zigzag()
            found[last] = self.value(head & 15, depth)
        return found


def check_parquet(file: Path, limit: int | None = None) -> None:
    """Refuse a Parquet file whose footer or page headers promise what the file does not hold.

    Parameters
    ----------
    file : path
    limit : int, optional
        Bytes of a page after unpacking (None: ``MAX_BYTES``).

    Raises
    ------
    UserValueError
        Anything that does not fit, before a page is read.

    Notes
    -----
    Reads the footer and the headers of the pages alone: milliseconds for files of some hundred pages.
    """
    with file.open("rb") as stream:
        size = file.stat().st_size
        if size < 12:
            raise _refused(file, "it is shorter than a footer")
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                _check(data, size, file, limit)
            except _Damaged as error:
                raise _refused(file, str(error)) from None
            except UserError:
                raise
            except (KeyError, TypeError, AttributeError, IndexError, ValueError):
                raise _refused(file, "its footer lacks what every footer has") from None


def _refused(file: Path, reason: str) -> UserValueError:
    return UserValueError(f"the file is not readable as Parquet: {reason}", file.name, "write the file again")


def _check(data: Any, size: int, file: Path, limit: int | None) -> None:
    if data[:4] != MAGIC or data[-4:] != MAGIC:
        raise _Damaged("it does not begin and end with PAR1")
    length = int.from_bytes(data[-8:-4], "little")
    if not 0 < length <= size - 12:
        raise _Damaged(f"its footer of {length} bytes is longer than the file")
    end = size - 8 - length
    footer = _Thrift(data, end, size - 8).struct()
    rows, groups = footer[3], footer[4]
    if not _count(rows) or sum(_rows_of(group) for group in groups) != rows:
        raise _Damaged("its row groups do not have the rows that it promises")
    leaves = _check_schema(footer[2])
    for group in groups:
        if len(group[1]) != leaves:
            raise _Damaged("a row group does not have all columns")
        for chunk in group[1]:
            _check_chunk(data, chunk[3], group[3], end, file, limit)


def _count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _rows_of(group: Fields) -> int:
    if not _count(group[3]):
        raise _Damaged("a row group has a negative number of rows")
    return int(group[3])


def _check_schema(schema: list[Fields]) -> int:
    """Number of columns; the elements are a tree, each with its children behind it."""
    leaves, left = 0, [1]
    for element in schema:
        while left and not left[-1]:
            left.pop()
        if not left:
            raise _Damaged("its schema has more elements than places")
        left[-1] -= 1
        element[4].decode()
        children = element.get(5, 0)
        if not _count(children) or children > len(schema):
            raise _Damaged("its schema has a column of too many parts")
        if children:
            left.append(children)
        else:
            leaves += 1
    if any(left):
        raise _Damaged("its schema lacks elements")
    return leaves


def _check_chunk(data: Any, meta: Fields, rows: int, end: int, file: Path, limit: int | None) -> None:
    """The pages of a column in a row group."""
    start, length, values = meta[9], meta[7], meta[5]
    if meta.get(11):
        start = min(start, meta[11])
    if not (_count(start) and _count(length) and _count(values)) or start < 4 or start + length > end:
        raise _Damaged("a column lies outside of the file")
    check_size(meta[6], f"{file.name}, unpacked", limit)
    place, seen = start, 0
    for _ in range(MOST_PAGES):
        if place >= start + length:
            break
        cursor = _Thrift(data, place, start + length)
        page = cursor.struct()
        packed, unpacked = page[3], page[2]
        if not (_count(packed) and _count(unpacked)) or cursor.place + packed > start + length:
            raise _Damaged("a page is longer than its column")
        if unpacked > meta[6]:
            raise _Damaged("a page unpacks to more than its column")
        seen += _values_of(page, unpacked, values)
        place = cursor.place + packed
    if seen != values:
        raise _Damaged(f"a column has {seen} values, its header promises {values}")


def _values_of(page: Fields, unpacked: int, most: int) -> int:
    """Values of a data page; a dictionary has none of its own."""
    kind = page[1]
    head = page.get({0: 5, 2: 7, 3: 8}.get(kind, -1))
    if head is None:
        raise _Damaged(f"there is no page of kind {kind}")
    n = head[1]
    if not _count(n) or (n > most and kind != 2) or (kind == 2 and n > 8 * unpacked):
        raise _Damaged("a page has more values than its column")
    if kind == 3 and not (_count(head[5]) and _count(head[6]) and head[5] + head[6] <= unpacked):
        raise _Damaged("the levels of a page are longer than the page")
    return 0 if kind == 2 else int(n)
