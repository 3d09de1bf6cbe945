"""``gnomon list``: the systems there are, and with a word the parts."""

from __future__ import annotations

import click

from gnomon.catalog import Entry, find, tasks
from gnomon.catalog.parts import Part
from gnomon.catalog.parts import find as find_parts
from gnomon.cli import output

__all__ = ["command"]


@click.command("list")
@click.argument("word", required=False, default="")
@click.option(
    "--task",
    default="",
    metavar="TASK",
    help=f"Only systems for this task: {', '.join(tasks())}.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(word: str, task: str, as_json: bool) -> None:
    """The systems whose name, title (English or Chinese), kind, task or specification row contains WORD.

    Then the parts (layers, losses, samplers, metrics ...) whose name, room or summary contains it.
    """
    entries = find(word, task or None)
    parts = find_parts(word) if word and not task else ()
    if as_json:
        output.dump({"systems": [facts(entry) for entry in entries], "parts": [vars(part) for part in parts]})
        return
    if not entries and not parts:
        what = "system" if task else "system and no part"
        output.note(f"no {what} contains {word!r}; gnomon list shows all systems")
        return
    if entries:
        rows = [[e.name, ", ".join(e.tasks), e.title, e.title_zh] for e in entries]
        output.write(output.table(["name", "tasks", "title", ""], rows))
    if parts:
        output.write(("\n" if entries else "") + _parts(parts))


def _parts(parts: tuple[Part, ...]) -> str:
    rows = [[part.name, part.where.partition(":")[0], part.summary] for part in parts]
    return output.table(["part", "room", "summary"], rows)


def facts(entry: Entry) -> dict[str, object]:
    """The entry as JSON values."""
    return {
        "name": entry.name, "kind": entry.kind, "tasks": entry.tasks, "title": entry.title, "title_zh": entry.title_zh,
        "source": entry.source, "rows": entry.rows, "where": entry.where,
    }  # fmt: skip
