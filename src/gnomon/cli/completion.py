"""What a shell completes: commands, systems, data sets by name, files, folders of runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem, shell_complete

from gnomon.catalog import entries
from gnomon.errors import UserError

if TYPE_CHECKING:
    import click

__all__ = ["VARIABLE", "answer", "data", "folders", "rooms", "systems", "systems_or_data", "systems_or_parts"]

VARIABLE = "_GNOMON_COMPLETE"
"""Set by the shell while it asks; its value is the shell, and whether the script or an answer is wanted."""


def answer(group: click.Group) -> int:
    """Answer the shell; the exit status. What cannot be completed has no answer."""
    try:
        return shell_complete(group, {}, "gnomon", VARIABLE, os.environ[VARIABLE])
    except UserError:
        return 1


def systems(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Systems whose names begin so."""
    return [CompletionItem(one.name, help=one.title) for one in entries() if one.name.startswith(begun)]


def systems_or_parts(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """What ``gnomon info`` takes: systems; parts, of which there are a thousand, once a letter is typed; runs."""
    from gnomon.catalog.parts import find

    found = {part.name: part.summary for part in find("") if begun and part.name.startswith(begun)}
    parts = [CompletionItem(name, help=summary) for name, summary in sorted(found.items())]
    return [*systems(ctx, parameter, begun), *parts, CompletionItem(begun, type="dir")]


def rooms(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """What ``gnomon list`` takes that is no word of one's own: ``parts``, and after it a room."""
    from gnomon.catalog.parts import about, find

    if ctx.params.get("words"):
        names = dict.fromkeys(part.room for part in find(""))
        return [CompletionItem(room, help=about(room)) for room in names if room.startswith(begun)]
    return [CompletionItem("parts", help="the parts, room by room")] if "parts".startswith(begun) else []


def data(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Data sets by name, and files."""
    from gnomon.data.names import names

    return [*(CompletionItem(one) for one in names() if one.startswith(begun)), CompletionItem(begun, type="file")]


def systems_or_data(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """What ``gnomon compare`` takes: systems, and data last."""
    return systems(ctx, parameter, begun) + data(ctx, parameter, begun)


def folders(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Folders, as runs are."""
    return [CompletionItem(begun, type="dir")]
