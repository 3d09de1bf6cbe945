"""Statements of Python's standard library, and what each of their tokens is."""

from __future__ import annotations

import io
import keyword
import sysconfig
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from gnomon.data.dataset import Dataset
from gnomon.errors import UserValueError

__all__ = ["python_statements"]

MODULES = ("bisect", "calendar", "colorsys", "csv", "fractions", "heapq", "random", "shutil", "statistics", "textwrap")
LEAST, MOST = 4, 24
"""Tokens of a statement."""

Token = tuple[int, str]


def python_statements() -> Dataset:
    """Statements of Python's standard library as tokens with blanks between them, and what each token is there.

    The text belongs to the Python version; it is under the PSF license. The rule that makes it: the sources of
    `MODULES` are read and not imported, in alphabetical order; every logical line of 4 to 24 tokens is taken once. A
    string is written ``""``. Tags are keyword, number, string and operator, and of a name definition (behind ``def``
    and ``class``), method and attribute (behind a dot, with and without a parenthesis behind it), call (before a
    parenthesis), argument (before ``=`` within parentheses) and name.

    Raises
    ------
    UserValueError
        A Python that comes without its sources.

    Examples
    --------
    >>> data = python_statements()
    >>> len(data.text) == len(data.y), "definition" in data.y[0] or "name" in data.y[0]
    (True, True)
    """
    library = Path(sysconfig.get_path("stdlib"))
    found: dict[str, str] = {}
    for module in MODULES:
        file = library / f"{module}.py"
        if file.exists():
            for line in _lines(file.read_text("utf-8")):
                if LEAST <= len(line) <= MOST:
                    text = " ".join('""' if kind == tokenize.STRING else word for kind, word in line)
                    found.setdefault(text, " ".join(_tags(line)))
    if not found:
        remedy = "install a complete Python, or give a file of texts and tags"
        raise UserValueError("this Python comes without the sources of its library", str(library), remedy)
    name = "python-statements"
    return Dataset(name, text=tuple(found), y=np.array(list(found.values()), np.str_), source={"name": name})


def _lines(source: str) -> Iterator[list[Token]]:
    """Logical lines as kinds and tokens."""
    line: list[Token] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NEWLINE:
            yield line
            line = []
        elif token.type in (tokenize.NAME, tokenize.NUMBER, tokenize.STRING, tokenize.OP):
            line.append((token.type, token.string))


def _tags(line: Sequence[Token]) -> Iterator[str]:
    """What each token of a line is."""
    depth, words = 0, ["", *(word for _, word in line), ""]
    for place, (kind, word) in enumerate(line, start=1):
        depth += (word in "([{") - (word in ")]}") if kind == tokenize.OP else 0
        yield _tag(kind, word, words[place - 1], words[place + 1], depth)


def _tag(kind: int, word: str, before: str, after: str, depth: int) -> str:
    """What a token is, by its neighbors and the parentheses around it."""
    if kind != tokenize.NAME:
        return {tokenize.NUMBER: "number", tokenize.STRING: "string"}.get(kind, "operator")
    if keyword.iskeyword(word):
        return "keyword"
    if before in ("def", "class"):
        return "definition"
    if before == ".":
        return "method" if after == "(" else "attribute"
    if after == "(":
        return "call"
    return "argument" if after == "=" and depth else "name"
