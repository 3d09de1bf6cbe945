"""Pieces of a page: sections, tables, facts; everything that comes from people's data is escaped here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any

__all__ = ["Section", "cell", "details", "facts", "joined", "numeric", "page", "paragraph", "table"]

LONGEST = 120
"""Letters of a text that are shown; the whole stands in the title of the cell, up to `LONGEST_TITLE` letters."""
LONGEST_TITLE = 1200
WIDE, LONG = 24, ' class="t"'
"""Letters of a text from which on its cell is kept wide, and the mark of such a cell."""
NUMBER = re.compile(r"(-?[0-9]+(\.[0-9]*)?(e[+-]?[0-9]+)?)?")
INVISIBLE = re.compile("[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
"""Letters that are not seen or that turn the direction of what follows."""


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Parameters
    ----------
    title : str
    reading : str
        One sentence on how to read it.
    body : str
        HTML of the functions of this module and of `gnomon.report.figures`.
    """

    title: str
    reading: str
    body: str


def visible(text: Any) -> str:
    """A text whose invisible letters can be seen, so that no name turns the direction of the page."""
    return INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", str(text))


def cell(text: Any, longest: int = LONGEST) -> str:
    """A text of people's data for a page: escaped, cut, in its own direction.

    Examples
    --------
    >>> cell("<b>")
    '<bdi>&lt;b&gt;</bdi>'
    """
    whole = visible(text)
    if len(whole) <= longest:
        return f"<bdi>{escape(whole)}</bdi>"
    title = escape(whole[:LONGEST_TITLE], quote=True)
    return f'<bdi title="{title}">{escape(whole[: longest - 1])}\u2026</bdi>'


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of words."""
    return f'<p class="{kind}">{cell(text, 1000)}</p>' if kind else f"<p>{cell(text, 1000)}</p>"


def table(
    header: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Iterable[int] = (), caption: str = "",
    longest: int = LONGEST,
) -> str:  # fmt: skip
    """A table that scrolls by itself where it is wider than the page; columns without a word are left out.

    Parameters
    ----------
    header : sequence of str
    rows : iterable of sequences
    right : iterable of int
        Columns of numbers.
    caption : str
        What a screen reader says before it.
    longest : int, default 120
        Letters of a cell.
    """
    lines, body, numbers = [], list(rows), set(right)
    shown = [j for j in range(len(header)) if not j or any(str(row[j]) for row in body)]
    ranged = [' class="n"' if j in numbers else "" for j in shown]
    names = [cell(header[j]) for j in shown]
    head = "".join(f'<th scope="col"{kind}>{name}</th>' for name, kind in zip(names, ranged, strict=True))
    for row in body:
        first, *rest = [cell(row[j], longest) for j in shown]
        kinds = [kind or (LONG if len(str(row[j])) > WIDE else "") for kind, j in zip(ranged, shown, strict=True)]
        cells = "".join(f"<td{kind}>{text}</td>" for text, kind in zip(rest, kinds[1:], strict=True))
        lines.append(f'<tr><th scope="row"{ranged[0]}>{first}</th>{cells}</tr>')
    label = escape(visible(caption or header[0])[:LONGEST], quote=True)
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{label}"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def numeric(rows: Sequence[Sequence[Any]]) -> list[int]:
    """Columns of a table's body that hold nothing but numbers.

    Examples
    --------
    >>> numeric([["1", "a", "2.5"], ["3", "b", ""]])
    [0, 2]
    """
    return [j for j, cells in enumerate(zip(*rows, strict=True)) if all(NUMBER.fullmatch(str(one)) for one in cells)]


def facts(found: Mapping[str, Any]) -> str:
    """Names and what they are."""
    lines = "".join(f"<div><dt>{cell(name)}</dt><dd>{cell(value, 400)}</dd></div>" for name, value in found.items())
    return f"<dl>{lines}</dl>"


def details(summary: str, body: str) -> str:
    """Something that is opened by a click or a key."""
    return f"<details><summary>{cell(summary)}</summary>{body}</details>"


def joined(title: str, parts: Sequence[Section]) -> Section:
    """Several sections under one title: what is shown of one run among others."""
    body = "".join(f"<h3>{cell(one.title)}</h3>{_how(one.reading)}{one.body}" for one in parts)
    return Section(title, "", body)


def _how(reading: str) -> str:
    return f'<p class="how">{escape(visible(reading))}</p>' if reading else ""


def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The whole document: no script, nothing that is loaded from elsewhere, the colors of the reader's system.

    Parameters
    ----------
    title, lead : str
    sections : sequence of Section
    """
    style = files("gnomon.report").joinpath("page.css").read_text(encoding="utf-8")
    places = [f"s{i}" for i in range(len(sections))]
    links = "".join(
        f'<li><a href="#{place}">{cell(one.title)}</a></li>' for place, one in zip(places, sections, strict=True)
    )
    body = "".join(
        f'<section id="{place}" aria-labelledby="{place}h"><h2 id="{place}h">{cell(one.title)}</h2>'
        f"{_how(one.reading)}{one.body}</section>"
        for place, one in zip(places, sections, strict=True)
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        f"<title>{escape(visible(title)[:200])}</title><style>{style}</style></head><body>"
        f'<a class="skip" href="#s0">to the results</a><header><h1>{cell(title)}</h1>{paragraph(lead)}</header>'
        f'<nav aria-label="sections"><ol>{links}</ol></nav><main>{body}</main></body></html>\n'
    )
