"""``gnomon list``: the systems there are."""

from __future__ import annotations

import click

from gnomon.catalog import Entry, find
from gnomon.cli import output

__all__ = ["command"]


@click.command("list")
@click.argument("word", required=False, default="")
@click.option(
    "--task", default="", metavar="TASK", help="Only systems for this task: density, cluster, classify, language."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(word: str, task: str, as_json: bool) -> None:
    """The systems whose name, title (English or Chinese), kind, task or specification row contains WORD."""
    entries = find(word, task or None)
    if as_json:
        output.dump({"systems": [facts(entry) for entry in entries]})
        return
    if not entries:
        output.note(f"no system contains {word!r}; gnomon list shows them all")
        return
    rows = [[e.name, ", ".join(e.tasks), e.title, e.title_zh] for e in entries]
    output.write(output.table(["name", "tasks", "title", ""], rows))


def facts(entry: Entry) -> dict[str, object]:
    """The entry as JSON values."""
    return {
        "name": entry.name, "kind": entry.kind, "tasks": entry.tasks, "title": entry.title, "title_zh": entry.title_zh,
        "source": entry.source, "rows": entry.rows, "where": entry.where,
    }  # fmt: skip
