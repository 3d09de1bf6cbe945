"""The options that say how a file is to be read: encoding, separator, marks within numbers; framing of images."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

import click

from gnomon.data.form import OF_IMAGES, File
from gnomon.errors import UserValueError

__all__ = ["FORM", "file_of", "form_options", "taken", "with_form"]

FORM = ("encoding", "separator", "decimal", "thousands", *OF_IMAGES)
_HELP = {
    "encoding": "Of a text that is not UTF-8: latin-1, cp1252, gb18030 ...",
    "separator": "Between the fields of a table: a character, several (::), tab, or space for runs of blanks. "
    "[default found in the first line]",
    "decimal": "The decimal mark: , where numbers are written 3,25.",
    "thousands": "The mark between thousands: . or , or ' or a blank.",
    "broken": "Images that cannot be read: the first is refused, or they are left out, with one notice. "
    "[default refuse]",
    "framing": "How images are brought to --resize: stretched, in proportion and then cropped, or cropped alone. "
    "[default resize]",
    "backdrop": "What stands behind transparent pixels of images, which are refused without it.",
    "depth": "Bring images of 16 bits to 256 levels, so that they go with others.",
}
_TAKES = {"encoding": "NAME", "separator": "TEXT", "decimal": "MARK", "thousands": "MARK"}


def form_options() -> list[click.Option]:
    """The options, under the names of `FORM`."""
    return [
        click.Option([f"--{name}"], metavar=_TAKES.get(name) or "|".join(OF_IMAGES[name]), help=_HELP[name])
        for name in FORM
    ]


def taken(options: MutableMapping[str, Any]) -> dict[str, str]:
    """What was said of the form of a file, taken out of the options of a command."""
    given = {name: options.pop(name, None) for name in FORM}
    return {name: value for name, value in given.items() if value is not None}


def file_of(data: str, given: Mapping[str, str]) -> Any:
    """The data as the verbs take it: a `File` where anything was said of its form.

    Examples
    --------
    >>> file_of("t.csv", {}), file_of("t.csv", {"decimal": ","})
    ('t.csv', File('t.csv', decimal=','))
    """
    return File(data, **given) if given else data


def with_form(command: click.Command) -> None:
    """Give a verb whose argument ``data`` is a file these options; it gets a `File` where one of them is set."""
    inner = command.callback
    assert inner is not None

    def body(**options: Any) -> Any:
        given = taken(options)
        if given and options["data"] is None:
            option = f"--{next(iter(given))}"
            raise UserValueError(f"{option} needs DATA", option, "leave it out, or name the data")
        return inner(**{**options, "data": File(options["data"], **given)} if given else options)

    command.callback = body
    command.params += form_options()
