"""The specification: a page for each document, where every row links to its tests, its code and its systems."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import groupby

from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml

from gnomon import catalog
from pages.evidence import Evidence, evidence, exercised, module_of
from pages.rst import ROOT, escaped, heading, source_link, table, toctree

LINE = re.compile(r"^\| ([A-Z]+-\d+) \| (.+) \| ([\w, -]+) \|$", re.MULTILINE)
SECTION = re.compile(r"^### ([A-Z]+-\d+) [^\n]*\n(.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`[^`]+`|\$[^$]+\$)")
LEFT_OUT = ("seed", "kind", "needs")
"""Of a row: its kind stands in its line, the others speak to those who write it."""
SPELLINGS = (
    (r"\\dots", r"\\ldots"),
    (r"\\big(?=[()\[\]])", ""),
    (r"\\mathrel\{([-+])\}=", r"\1="),
    (r"^(?=[_^])", "{}"),
)
"""What docutils does not know of TeX, and what it does know in its place."""
MOST = 6
"""Classes and functions that are named of a row."""


@dataclass(frozen=True)
class Row:
    """A row of docs/spec.

    Parameters
    ----------
    name : str
        For example ``BAY-02``.
    page : str
        Its file, without ending.
    title, kind : str
    fields : mapping of str to str
        What its section says, by the word before the colon; in Markdown.
    """

    name: str
    page: str
    title: str
    kind: str
    fields: Mapping[str, str]


@cache
def rows() -> Mapping[str, Row]:
    """Every row, in the order of the pages."""
    found = {}
    for file in sorted((ROOT / "docs" / "spec").glob("*.md")):
        text = file.read_text(encoding="utf-8")
        sections = dict(SECTION.findall(text))
        for name, title, kind in LINE.findall(text):
            pairs = (line[2:].partition(": ") for line in sections.get(name, "").splitlines() if line[:2] == "- ")
            found[name] = Row(name, file.stem, title, kind, {key: value for key, _, value in pairs if value})
    return found


def reference(name: str) -> str:
    """A link to a row."""
    return f":ref:`{name} <row-{name.lower()}>`"


def named(name: str) -> str:
    """What a row is about."""
    return prose(rows()[name].title)


def prose(text: str) -> str:
    """Markdown with code and formulas as reStructuredText; a formula that cannot be drawn stays as it is written.

    Examples
    --------
    >>> prose("`fit` gives $x_1$, y_1")
    '``fit`` gives :math:`x_1`\\\\ , y\\\\_1'
    """
    parts = CODE.split(text)
    for k, part in enumerate(parts):
        if k % 2 == 0:
            parts[k] = escaped(part)
            continue
        inner = part[1:-1].strip()
        formula = respelled(inner)
        parts[k] = f":math:`{formula}`" if part[0] == "$" and drawable(formula) else f"``{inner}``"
        before, after = parts[k - 1][-1:], parts[k + 1][:1]
        if before and not before.isspace():
            parts[k] = "\\ " + parts[k]
        if after and not after.isspace():
            parts[k] += "\\ "
    return "".join(parts)


def respelled(formula: str) -> str:
    """A formula in the words that docutils knows."""
    for known, other in SPELLINGS:
        formula = re.sub(known, other, formula)
    return formula


@cache
def drawable(formula: str) -> bool:
    """Whether docutils can make MathML of a formula."""
    try:
        tex2mathml(formula)
    except (MathError, IndexError):  # IndexError: an exponent of nothing
        return False
    return not formula.endswith("\\")


@cache
def systems() -> Mapping[str, list[str]]:
    """The systems of the catalog that make a row work."""
    found: dict[str, list[str]] = {}
    for one in catalog.ENTRIES:
        for row in one.rows:
            found.setdefault(row, []).append(one.name)
    return found


def status(name: str) -> str:
    """Whether a row is built: tests hold it."""
    known = evidence().get(name)
    if known is None:
        return "not built: no test names it"
    return f"held by {len(known.tests)} test{'s' if len(known.tests) > 1 else ''}"


def links(name: str) -> Iterator[str]:
    """The tests of a row, the code that they exercise and its systems, a line each."""
    found = evidence().get(name, Evidence())
    known = systems().get(name, [])
    if known:
        yield f":System: {', '.join(f':doc:`../systems/{one}`' for one in known)}"
    code = exercised(found, MOST)
    if code:
        yield ":Code: " + ", ".join(
            source_link(one.file, one.line, f"{module_of(one).removeprefix('gnomon.')}:{one.name}") for one in code
        )
    if found.tests:
        tests = sorted(found.tests, key=lambda one: (one.file, one.line))
        first, *more = [
            source_link(one.file, one.line, f"{one.file.removeprefix('tests/')}::{one.name}") for one in tests
        ]
        yield f":Tests: - {first}"
        yield from (f"        - {one}" for one in more)


def document(page: str, found: list[Row]) -> str:
    """The page of a document."""
    lines = heading(page, "=")
    for row in found:
        lines += [f".. _row-{row.name.lower()}:", "", *heading(f"{row.name} {prose(row.title)}", "-")]
        lines += [f":Kind: {row.kind}", f":Status: {status(row.name)}", *links(row.name), ""]
        for key, value in row.fields.items():
            if key not in LEFT_OUT:
                lines += [f"**{key}** {prose(value)}", ""]
    return "\n".join(lines)


def pages() -> dict[str, str]:
    """The index and the page of every document, by path."""
    found = {page: list(group) for page, group in groupby(rows().values(), key=lambda row: row.page)}
    lines = heading("Specification", "=")
    built = sum(name in evidence() for name in rows())
    lines += [
        f"What gnomon is to hold, row by row: what a thing is, its definition, what it is checked against, what goes "
        f"wrong with it. {built} of {len(rows())} rows are held by tests; a row leads to them and to the code that "
        "they exercise. A row that no test names is not built.", "",
    ]  # fmt: skip
    counts = (
        (f":doc:`{page}`", str(len(group)), str(sum(row.name in evidence() for row in group)))
        for page, group in found.items()
    )
    lines += table(("document", "rows", "held by tests"), (60, 20, 20), counts)
    for page, group in found.items():
        lines += heading(page, "-")
        lines += table(
            ("row", "system", "kind", "tests"), (14, 56, 18, 12),
            ((reference(row.name), prose(row.title), row.kind, count(row.name)) for row in group),
        )  # fmt: skip
    lines += toctree(found)
    made = {f"docs/spec/{page}.rst": document(page, group) for page, group in found.items()}
    return {"docs/spec/index.rst": "\n".join(lines), **made}


def count(name: str) -> str:
    """How many tests name a row."""
    return str(len(evidence()[name].tests)) if name in evidence() else "not built"
