"""The options that say what weights a network begins from, and what learns how fast."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

from gnomon.errors import UserValueError
from gnomon.runs.initial import FineTuning

__all__ = ["BEGINNING", "beginning", "initial_options"]

BEGINNING = ("initial", "freeze", "fresh", "head", "lr_backbone", "lr_head", "lr_decay")
"""Names of these options, which no hyper-parameter has."""


_HELP = {
    "initial": "Run, .safetensors file of weights, or folder of a published encoder of texts that a network begins "
    "from; its output layer begins anew where the classes are others.",
    "freeze": "Layers of these weights that stay as they are, such as features.0*.",
    "fresh": "Layers that are not taken, beside the output layer.",
    "head": "The output layer. [default auto: new where the classes are others]",
    "lr_backbone": "Step size of what was taken; 0 freezes it. [default --learning-rate]",
    "lr_head": "Step size of what begins anew. [default --learning-rate]",
    "lr_decay": "Factor of the step size for each stage before the output layer. [default 1]",
}
_METAVARS = {"initial": "RUN|FILE|FOLDER", "freeze": "A,B,...", "fresh": "A,B,..."}


def initial_options() -> list[click.Option]:
    """The options; what is said of them reaches `beginning` under the names of `BEGINNING`."""
    return [_option(name) for name in BEGINNING]


def _option(name: str) -> click.Option:
    flag = [f"--{name.replace('_', '-')}", name]
    if name == "head":
        return click.Option(flag, type=click.Choice(["auto", "new", "kept"]), help=_HELP[name])
    if name in _METAVARS:
        return click.Option(flag, metavar=_METAVARS[name], help=_HELP[name])
    return click.Option(flag, type=float, metavar="RATE", help=_HELP[name])


def beginning(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the options say, for config.json; None where no weights are named.

    Raises
    ------
    UserValueError
        One of the others without ``--initial``, nothing between two commas, a rate that is none.

    Examples
    --------
    >>> beginning({"initial": None}) is None
    True
    """
    taken = {name: given[name] for name in BEGINNING if given.get(name) is not None}
    if not taken:
        return None
    if "initial" not in taken:
        option = f"--{next(iter(taken)).replace('_', '-')}"
        raise UserValueError(f"{option} needs --initial", option, "name a run or a file of weights, or leave it out")
    lists: dict[str, Any] = {name: _names(taken.pop(name), name) for name in ("freeze", "fresh") if name in taken}
    return FineTuning(os.path.abspath(taken.pop("initial")), **lists, **taken).to_json()


def _names(text: str, option: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(","))
    if not all(names):
        what = f"--{option} must be names set apart by single commas, got {text!r}"
        raise UserValueError(what, f"--{option}", "")
    return names
