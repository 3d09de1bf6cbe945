"""Write the table of systems in README.md and README.zh-CN.md from the catalog: ``python tools/write_readme.py``.

A test keeps it fresh.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gnomon.catalog import ENTRIES
from gnomon.recipes.source import SourceModule

ROOT = Path(__file__).parent.parent
PAGES = {"README.md": ("task", "systems", "title", ", "), "README.zh-CN.md": ("任务", "系统", "title_zh", "、")}
"""Heads of the two columns, attribute with the task's title, and what stands between names."""
TABLE = re.compile(r"(?<=<!-- systems: tools/write_readme.py -->\n).*?(?=<!-- end of systems -->)", re.DOTALL)


def titles(attribute: str) -> Iterator[tuple[str, str]]:
    """Name and title of every task, from the source of its class."""
    for file in sorted((ROOT / "src" / "gnomon" / "tasks").glob("*.py")):
        module = SourceModule.of(f"gnomon.tasks.{file.stem}" if file.stem != "__init__" else "gnomon.tasks")
        for node in module.own.values():
            name = module.attribute(node, "name")
            if name and module.attribute(node, attribute):
                yield str(name), str(module.attribute(node, attribute))


def table(page: str) -> str:
    """The table of a page: a row per task, in the order of the catalog."""
    first, second, attribute, comma = PAGES[page]
    known = dict(titles(attribute))
    rows = [f"| {first} | {second} |", "|---|---|"]
    for task in dict.fromkeys(task for one in ENTRIES for task in one.tasks):
        names = comma.join(f"`{one.name}`" for one in ENTRIES if task in one.tasks)
        rows.append(f"| {known[task]} | {names} |")
    return "\n".join(rows) + "\n"


def render(page: str) -> str:
    """The text of a page with its table anew."""
    return TABLE.sub(lambda _: table(page), (ROOT / page).read_text(encoding="utf-8"))


if __name__ == "__main__":
    for page in PAGES:
        (ROOT / page).write_text(render(page), encoding="utf-8")
