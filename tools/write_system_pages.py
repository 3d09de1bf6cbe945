"""Gather the pages of the documentation site in a folder: ``python tools/write_system_pages.py build/docs-source``.

The folder has the layout of the repository, so that the links between pages hold as they are. Beside the pages that
people write it has one for each system of the catalog, made from its card, and the indexes; `make docs` has Sphinx
read it.
"""

from __future__ import annotations

import argparse
import importlib
import re
import shutil
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from gnomon import catalog
from gnomon.catalog.cards import REQUIRED, Card, Parameter, RecipeCard
from gnomon.catalog.line import Entry
from gnomon.catalog.words import OF_FAMILIES, OF_SYSTEMS, OF_TASKS

ROOT = Path(__file__).parent.parent
COPIED = (
    "README.md", "README.zh-CN.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "docs/*.md", "docs/decisions/*.md",
)  # fmt: skip
MARKED = re.compile(r"(``.+?``|:math:`.+?`|`[^`]+`)")
"""What is marked up already in a text of the sources: code, formulas, names."""
FOLDER_LINK = re.compile(r"(?<=\]\()(?!https?:)([^)#]+)(?=\))")

INDEX = """gnomon
======

Infer hidden structure from data: many kinds of models behind the same few verbs, judged by honest scores.
The search finds systems by their English and Chinese names.

.. toctree::
   :caption: Start

   Overview <README.md>
   概览 <README.zh-CN.md>

.. toctree::
   :caption: Guide
   :maxdepth: 1

{guide}

.. toctree::
   :caption: Reference
   :maxdepth: 1

   docs/systems/index
   docs/parts.md
   docs/spec/README.md

.. toctree::
   :caption: Project
   :maxdepth: 1

   CHANGELOG.md
   CONTRIBUTING.md
   docs/decisions/README.md
"""


# --- text as reStructuredText ---------------------------------------------------------------------------------------


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


def table(head: tuple[str, ...], widths: tuple[int, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """A table whose cells are one line each."""
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {' '.join(map(str, widths))}", ""]
    for row in (head, *rows):
        lines += [f"   {'*' if k == 0 else ' '} - {cell}".rstrip() for k, cell in enumerate(row)]
    return [*lines, ""]


def toctree(pages: Iterable[str]) -> list[str]:
    return [".. toctree::", "   :hidden:", "", *(f"   {page}" for page in pages), ""]


# --- the page of a system -------------------------------------------------------------------------------------------


def shown(default: Any) -> str:
    """The default of a parameter."""
    if default is REQUIRED:
        return "required"
    return f"``{default}``" if str(default) else '``""``'


def cells(p: Parameter) -> tuple[str, str, str]:
    """What a parameter takes, its default, and what it means."""
    return escaped(str(p)) or "object", shown(p.default), escaped(p.description)


def keywords(one: Entry) -> list[str]:
    """Words by which the search finds a system beside those on its page, as `gnomon list` does."""
    family = one.where.split(".")[2]
    lines = [OF_SYSTEMS.get(one.name, ""), OF_FAMILIES.get(family, ""), *(OF_TASKS.get(task, "") for task in one.tasks)]
    return list(dict.fromkeys(word for line in lines for word in line.split()))


def recipes(card: Card) -> Iterator[str]:
    """What fits each slot, and the parameters of all that fits."""
    fields: dict[str, list[tuple[str, RecipeCard, Parameter]]] = {}
    for address, recipe, p in card.fields():
        fields.setdefault(address.partition(".")[0], []).append((address, recipe, p))
    for slot, found in card.recipes.items():
        yield from heading(f"Recipes for ``{slot}``", "-")
        yield from (f"- ``{short}``: {escaped(recipe.summary)}" for short, recipe in found.items())
        yield ""
        rows = [(f"``{address}``", f"``{recipe.short}``", *cells(p)) for address, recipe, p in fields.get(slot, ())]
        if rows:
            head = ("parameter", "of", "takes", "default", "meaning")
            yield from table(head, (26, 10, 16, 10, 38), dict.fromkeys(rows))


def page(card: Card) -> str:
    """The page of a system: what its card knows, and its docstring for the directive of docs/conf.py."""
    one = card.entry
    lines = [".. meta::", f"   :keywords: {', '.join(keywords(one))}", ""]
    lines += heading(f"{escaped(one.title)} · {one.title_zh}", "=")
    facts = {
        "Name": f"``{one.name}``, in Python ``gnomon.{one.class_name}``",
        "Tasks": ", ".join(one.tasks),
        "Verbs": ", ".join(f"``{verb}``" for verb in card.verbs),
        "Source": escaped(one.source),
        "Also called": escaped(OF_SYSTEMS.get(one.name, "")),
    }
    lines += [f":{name}: {value}" for name, value in facts.items() if value]
    lines += ["", ".. numpydoc::", "", *(f"   {line}".rstrip() for line in card.doc.splitlines()), ""]
    lines += heading("Parameters", "-")
    head = ("parameter", "takes", "default", "meaning")
    lines += table(head, (18, 20, 12, 50), ((f"``{p.name}``", *cells(p)) for p in card.parameters))
    lines += recipes(card)
    if one.rows:
        lines += [*heading("Rows of the specification", "-"), *(f"- {row}: {named(row)}" for row in one.rows)]
    return "\n".join(lines) + "\n"


# --- indexes --------------------------------------------------------------------------------------------------------


@cache
def specification() -> dict[str, tuple[str, str, str]]:
    """Page, system and kind by row of docs/spec."""
    found = {}
    for file in sorted((ROOT / "docs" / "spec").glob("*.md")):
        for row in re.finditer(r"^\| ([A-Z]+-\d+) \| (.+) \| ([\w, -]+) \|$", file.read_text(encoding="utf-8"), re.M):
            found[row[1]] = (file.name, row[2], row[3])
    return found


def named(row: str) -> str:
    """What a row of the specification is about."""
    return escaped(specification()[row][1])


def rows_page() -> str:
    """The rows of the specification; their text stays in the repository."""
    lines = [
        "# Specification",
        "",
        "Tests name the rows that they prove; their text stands in `docs/spec` of the source.",
    ]
    for file, group in groupby(specification().items(), key=lambda item: item[1][0]):
        lines += ["", f"## {file}", "", "| row | system | kind |", "|---|---|---|"]
        lines += [f"| {row} | {system} | {kind} |" for row, (_, system, kind) in group]
    return "\n".join(lines) + "\n"


def systems_page() -> str:
    """All systems, by family."""
    lines = heading("Systems", "=")
    for family in catalog.FAMILIES:
        module = importlib.import_module(f"gnomon.catalog.{family}")
        lines += heading(module.__doc__.strip().rstrip("."), "-")
        rows = ((f":doc:`{one.name}`", one.title_zh, ", ".join(one.tasks)) for one in module.ENTRIES)
        lines += table(("system", "名称", "tasks"), (50, 25, 25), rows)
    lines += toctree(one.name for one in catalog.ENTRIES)
    return "\n".join(lines)


def index() -> str:
    """The first page."""
    guide = [file.name for file in sorted((ROOT / "docs").glob("*.md")) if file.name != "parts.md"]
    return INDEX.format(guide="\n".join(f"   docs/{name}" for name in guide))


def decisions_page(text: str) -> str:
    """The list of decisions, followed by what Sphinx wants to know of its order."""
    pages = sorted(file.name for file in (ROOT / "docs" / "decisions").glob("0*.md"))
    return text + "\n```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n"


# --- the folder -----------------------------------------------------------------------------------------------------


def copied(file: Path) -> str:
    """The text of a page; a link to a folder leads to its index."""

    def target(link: re.Match[str]) -> str:
        return f"{link[0]}/README.md" if (file.parent / link[0]).is_dir() else link[0]

    return FOLDER_LINK.sub(target, file.read_text(encoding="utf-8"))


def pages() -> dict[str, str]:
    """Every page of the site by its path."""
    found = {
        file.relative_to(ROOT).as_posix(): copied(file) for pattern in COPIED for file in sorted(ROOT.glob(pattern))
    }
    found["docs/decisions/README.md"] = decisions_page(found["docs/decisions/README.md"])
    found |= {f"docs/systems/{one.name}.rst": page(catalog.card(one)) for one in catalog.ENTRIES}
    return found | {
        "index.rst": index(), "docs/systems/index.rst": systems_page(), "docs/spec/README.md": rows_page(),
    }  # fmt: skip


def write(folder: Path) -> None:
    """Write every page; what the folder held before is removed."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in pages().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Gather the pages of the documentation site.")
    parser.add_argument("folder", type=Path, help="its content is replaced")
    write(parser.parse_args().folder)
