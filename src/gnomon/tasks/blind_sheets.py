"""Answer sheets of a blind test: written empty, read back whatever a spreadsheet program has made of them."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gnomon.data.cells import cells
from gnomon.data.readers import open_table
from gnomon.data.sources import TABLES, check_file, kind
from gnomon.errors import UserValueError, counted, shown
from gnomon.evaluation.blind import MODEL, REAL

__all__ = ["COLUMNS", "read_answers", "sheet"]

COLUMNS = ITEM, ANSWER = "item", "answer"
WORDS = {REAL: REAL, "r": REAL, MODEL: MODEL, "m": MODEL, "fake": MODEL, "f": MODEL}
"""What may be answered, in small letters."""
_EXCEL = ".xlsx"


def sheet(items: Sequence[str], more: Mapping[str, Sequence[str]]) -> bytes:
    """An empty sheet: a line for each item, room for the answer, what is to be judged where that is text.

    Examples
    --------
    >>> sheet(["1"], {"text": ["Hello."]})
    b'item,answer,text\\n1,,Hello.\\n'
    """
    names = [f"{name} (data)" if name.strip().casefold() in COLUMNS else name for name in more]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, *names])
    writer.writerows(zip(items, [""] * len(items), *more.values(), strict=True))
    return text.getvalue().encode()


def read_answers(file: str | os.PathLike[str], items: Sequence[str]) -> list[str]:
    """What a sheet answers to each item, in their order.

    A byte-order mark, UTF-16, semicolons or tabs between fields, capital letters, blanks around words and empty lines
    are taken as they come, ``.xlsx`` too; an item may be named by its number alone.

    Parameters
    ----------
    file : path
    items : sequence of str
        Names of the items: a number, perhaps with an ending.

    Returns
    -------
    list of ``real`` and ``model``

    Raises
    ------
    UserValueError
        No such columns, another word, an item that is unknown, answered twice or not at all; the file and the item.
    """
    path = Path(file)
    check_file(path)
    if kind(path) not in (*TABLES, _EXCEL):
        raise UserValueError(f"an answer sheet must end in .csv, .tsv or .xlsx, got {path.name}", str(path))
    columns = open_table(path, form=None).columns
    item, answer = (_column(name, columns, path.name) for name in COLUMNS)
    found = cells(path, [item, answer])
    numbers = {_number(name): name for name in items}
    answers: dict[str, str] = {}
    for named, word in zip(found[item].tolist(), found[answer].tolist(), strict=True):
        if named is None and word is None:
            continue
        one = numbers.get(_number(named))
        if one is None:
            remedy = f"the items are {items[0]} to {items[-1]}"
            raise UserValueError(f"unknown item {shown(named)}", path.name, remedy)
        if one in answers:
            raise UserValueError(f"item {one} is answered twice", path.name, "leave one line of it")
        meant = WORDS.get(str(word or "").strip().casefold())
        if word is not None and str(word).strip() and meant is None:
            raise UserValueError.must("answer", f"be {REAL} or {MODEL}", word, f"{path.name}, item {one}")
        if meant is not None:
            answers[one] = meant
    missing = [name for name in items if name not in answers]
    if missing:
        more = f" and {counted(len(missing) - 1, 'item')} more" if len(missing) > 1 else ""
        what = f"item {missing[0]}{more} must be answered"
        raise UserValueError(what, path.name, f"write {REAL} or {MODEL} beside each; guess where you do not know")
    return [answers[name] for name in items]


def _column(name: str, columns: Sequence[str], where: str) -> str:
    """The column of that name, whatever its letters and the blanks around it."""
    for one in columns:
        if one.strip().casefold() == name:
            return one
    listed = ", ".join(map(repr, columns[:4]))
    raise UserValueError(f"the sheet must have the columns {' and '.join(COLUMNS)}, got {listed}", where)


def _number(name: Any) -> int | None:
    """The number of an item: of ``007.png``, 7 or 7.0 it is 7; None where there is none."""
    found = re.fullmatch(r"0*(\d{1,9})(\.0|\.png)?", str(name).strip().replace("\\", "/").rpartition("/")[2].casefold())
    return None if found is None else int(found[1])
