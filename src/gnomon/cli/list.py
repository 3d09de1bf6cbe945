"""``gnomon list``: the systems by family and what each is fitted to; the parts by room, or by a word."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import click

from gnomon.catalog import Entry, entries, find, tasks
from gnomon.catalog.parts import Part, about, within
from gnomon.catalog.parts import find as find_parts
from gnomon.catalog.words import FAMILY_TITLES
from gnomon.cli import completion, output
from gnomon.errors import UserValueError, counted, nearest, unknown

__all__ = ["command", "facts", "known_names", "needs_of"]

PARTS = "parts"
"""The word after which the parts are listed, room by room."""


@click.command("list")
@click.argument("words", metavar="[WORD | parts [ROOM]]", nargs=-1, shell_complete=completion.rooms)
@click.option("--task", default="", metavar="TASK", help=f"Only systems for this task: {', '.join(tasks())}.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(words: tuple[str, ...], task: str, as_json: bool) -> None:
    """The systems by family: tasks, what each is fitted to, title.

    With WORD those whose name, title (English or Chinese), kind, task, data or specification row contains it, then the
    parts (layers, losses, samplers, metrics ...) whose name, room or summary does. "gnomon list parts" shows the rooms
    of the parts, "gnomon list parts ROOM" what is in one. "gnomon info NAME" explains a system or a part.
    """
    if words[:1] == (PARTS,):
        if task:
            raise UserValueError("parts have no task", "--task", "leave it out")
        _list_parts(words[1:], as_json)
        return
    word = " ".join(words)
    systems = find(word, task or None)
    parts = find_parts(word) if word and not task else ()
    everything = not word and not task
    if as_json:
        output.dump(_facts_of(systems, parts, find_parts("") if everything else parts))
    elif not systems and not parts:
        output.note(_nothing(word, task))
    else:
        blocks = [*([_systems(systems)] if systems else []), *([_parts(parts)] if parts else [])]
        output.write("\n\n".join([*blocks, *([_more()] if everything else [])]))


def _list_parts(place: Sequence[str], as_json: bool) -> None:
    """The rooms; with a place the parts that are there."""
    found = within(".".join(place)) if place else find_parts("")
    if not found:
        raise unknown("room", ".".join(place), list(_rooms(find_parts(""))))
    if as_json:
        output.dump(_facts_of((), found, found))
    elif place:
        output.write(_parts(found))
    else:
        rows = [[room, str(n), about(room)] for room, n in _rooms(found).items()]
        output.write(output.table(["room", "parts", "what is in it"], rows, right=[1]))
        output.write(
            "\ngnomon list parts ROOM shows a room, gnomon list WORD finds parts, gnomon info NAME explains one"
        )


def _rooms(parts: Sequence[Part]) -> dict[str, int]:
    """How many parts each room has."""
    return {room: len(list(group)) for room, group in groupby(sorted(parts, key=_room), key=_room)}


def _room(part: Part) -> str:
    return part.room


def _systems(systems: Sequence[Entry]) -> str:
    """A table by families, in the order in which they come."""
    rows: list[list[str]] = []
    for family in dict.fromkeys(one.family for one in systems):
        rows += [[], [FAMILY_TITLES.get(family, f"From {family}")]]
        mine = (one for one in systems if one.family == family)
        rows += [[f"  {e.name}", ", ".join(e.tasks), _needs(e), e.title, e.title_zh] for e in mine]
    header = ["name", "tasks", "fitted to", "title", ""]
    text = output.table(header, [row + [""] * (len(header) - len(row)) for row in rows])
    return f"{text}\n\n* cells may be missing; in other tables gnomon fit fills them in" if "*" in text else text


def _needs(one: Entry) -> str:
    return one.needs.replace("table", "table*", 1) if one.missing else one.needs


def _parts(parts: Sequence[Part]) -> str:
    rows = [[part.name, part.module, part.summary] for part in parts]
    return output.table(["part", "room", "summary"], rows)


def _more() -> str:
    """How the parts are seen."""
    found = find_parts("")
    return (
        f"and {counted(len(found), 'part')} (layers, losses, samplers, metrics, distributions ...) in "
        f"{counted(len(_rooms(found)), 'room')}: gnomon list parts; gnomon info NAME explains a system or a part"
    )


def _nothing(word: str, task: str) -> str:
    """What is said where nothing is found: names that are like the word."""
    what = "no system" if task else "no system and no part"
    close = nearest(word, known_names())
    remedy = f"did you mean {' or '.join(close)}?" if close else "gnomon list shows all systems"
    return f"{what} contains {word!r}; {remedy}"


def needs_of(one: Entry) -> str:
    """What a system is fitted to, and what becomes of missing cells.

    Examples
    --------
    >>> from gnomon.catalog import entry
    >>> needs_of(entry("ppca")), needs_of(entry("svm"))
    ('table (cells may be missing)', 'table, labels')
    """
    return one.needs.replace("table", "table (cells may be missing)", 1) if one.missing else one.needs


def known_names() -> list[str]:
    """Names of systems, and after them of parts."""
    return [*(one.name for one in entries()), *dict.fromkeys(part.name for part in find_parts(""))]


def _facts_of(systems: Sequence[Entry], parts: Sequence[Part], counted_parts: Sequence[Part]) -> dict[str, Any]:
    """What was found as JSON values, and how many parts there are of it in each room."""
    rooms = [{"name": room, "parts": n, "summary": about(room)} for room, n in _rooms(counted_parts).items()]
    return {"systems": [facts(one) for one in systems], "parts": [vars(part) for part in parts], "rooms": rooms}


def facts(entry: Entry) -> dict[str, object]:
    """The entry as JSON values."""
    return {
        "name": entry.name, "kind": entry.kind, "family": entry.family, "tasks": entry.tasks, "needs": entry.needs,
        "missing": entry.missing, "title": entry.title, "title_zh": entry.title_zh, "source": entry.source,
        "rows": entry.rows, "where": entry.where,
    }  # fmt: skip
