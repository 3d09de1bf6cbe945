"""Text of the source as reStructuredText."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
MARKED = re.compile(r"(``.+?``|:math:`.+?`|`[^`]+`)")
"""What is marked up already in a text of the sources: code, formulas, names."""


def escaped(text: str) -> str:
    """Text of a card in which only code, formulas and names keep their marks.

    Examples
    --------
    >>> escaped("``coef_`` is W_* of |x|")
    '``coef_`` is W\\\\_\\\\* of \\\\|x\\\\|'
    """
    parts = MARKED.split(text)
    parts[::2] = [re.sub(r"([\\*_|`])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def heading(text: str, line: str) -> list[str]:
    """A heading; a Chinese character is as wide as two."""
    return [text, line * (2 * len(text)), ""]


def keywords(words: Iterable[str]) -> list[str]:
    """Words by which the search finds a page that does not show them."""
    return [".. meta::", f"   :keywords: {', '.join(dict.fromkeys(words))}", ""]


def table(head: tuple[str, ...], widths: tuple[int, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """A table whose cells are one line each."""
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {' '.join(map(str, widths))}", ""]
    for row in (head, *rows):
        lines += [f"   {'*' if k == 0 else ' '} - {cell}".rstrip() for k, cell in enumerate(row)]
    return [*lines, ""]


def toctree(pages: Iterable[str]) -> list[str]:
    """Pages below this one that it links to by other means."""
    return [".. toctree::", "   :hidden:", "", *(f"   {page}" for page in pages), ""]


def source_link(file: str, line: int, text: str, up: int = 2) -> str:
    """A link from a page so many folders down to a line of a source file (docs/extensions/source_pages.py)."""
    return f"`{text} <{'../' * up}source/{file.removesuffix('.py')}.html#L{line}>`__"
