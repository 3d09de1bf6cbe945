"""What ``gnomon sample`` says to the systems whose samples can be asked for in more than one way."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import click

from gnomon.errors import UserTypeError, UserValueError

__all__ = ["PARAMETERS", "arguments_of", "drawing_options"]

PARAMETERS = {"steps": ("steps",), "length": ("length",), "means": ("means",), "label": ("y", "style"),
              "canvas": ("return_canvas",)}  # fmt: skip
"""Of each option the names that ``System.sample`` has for it."""
SHOWN = 8
"""Labels that a refusal names at most."""


def drawing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of `PARAMETERS`."""
    for option in (
        click.option("--label", metavar="LABEL", help="Rows of this class, of a model of rows and labels."),
        click.option("--canvas", is_flag=True, help="Before each row the canvas after each step (draw)."),
        click.option("--means", is_flag=True, help="What the columns are on average in place of the last draw (dbn)."),
        click.option(
            "--length", type=click.IntRange(0), metavar="N",
            help="Words of a row, of counted words (dbm); frames of a sequence (vrnn).",
        ),
        click.option(
            "--steps", type=click.IntRange(0), metavar="K",
            help="Sweeps of a chain before its end is a row.  [default: the system's]",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def arguments_of(system: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """What ``system.sample`` is called with.

    Parameters
    ----------
    system : System
    given : mapping
        Values of the options by their names, None or False where left out.

    Raises
    ------
    UserError
        An option that means nothing for the samples of this system, a label that it does not know.
    """
    known, found = inspect.signature(system.sample).parameters, {}
    for option, value in given.items():
        if value is None or value is False:
            continue
        name = next((one for one in PARAMETERS[option] if one in known), None)
        if name is None:
            raise UserTypeError(f"samples of {system.name} have no --{option}", f"--{option}", "leave it out")
        found[name] = _class_of(system, value) if option == "label" else value
    return found


def _class_of(system: Any, label: str) -> Any:
    """The class that is written so."""
    classes = list(system.classes_)
    if label in map(str, classes):
        return next(one for one in classes if str(one) == label)
    listed = ", ".join(map(str, classes[:SHOWN])) + (", ..." if len(classes) > SHOWN else "")
    raise UserValueError(f"no class {label!r}", "--label", f"the model knows {listed}")
