"""Write docs/parts.md, the table of all parts, from the sources: ``python tools/write_parts.py``.

A test keeps it fresh.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from gnomon.catalog.parts import find

PAGE = Path(__file__).parent.parent / "docs" / "parts.md"

HEAD = """# Parts

Layers, losses, samplers, metrics, preprocessing steps and the like, by room and module: `from gnomon.<module> import
<name>`. `gnomon list parts ROOM` and `gnomon list WORD` show them too, `gnomon info NAME` how one is called, with
its example. Written by `tools/write_parts.py`.
"""


def render() -> str:
    """The text of the page: a table for each room, a row for each part."""
    lines = [HEAD]
    for room, parts in groupby(find(""), key=lambda part: part.room):
        lines += [f"## {room}", "", "| module | name | what it is |", "|---|---|---|"]
        for part in parts:
            module = part.where.partition(":")[0].removeprefix("gnomon.")
            lines.append(f"| {module} | `{part.name}` | {part.summary.replace('|', chr(92) + '|')} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
