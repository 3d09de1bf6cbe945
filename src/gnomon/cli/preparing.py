"""The options that say how the columns of a table become numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from gnomon.data.preparation import Preparation
from gnomon.errors import UserValueError

__all__ = ["PREPARING", "preparation", "prepare_options"]

_LISTS = ("drop", "numeric", "categorical", "id")
PREPARING = ("encode", "missing", "scale", *_LISTS)
"""Names of these options, which no hyper-parameter has."""

_HELP = {
    "encode": "Categories as a column for each level, or as codes; none: the table must hold numbers and stays.",
    "missing": "What stands for a missing number where the system takes none; none: it stays missing.",
    "scale": "Numbers to mean 0 and spread 1; auto: where the system's answer depends on units.",
    "drop": "Columns to leave out.",
    "numeric": "Columns of numbers; a cell that is none counts as missing.",
    "categorical": "Columns of categories, though they hold numbers or many levels.",
    "id": "Columns that name the rows: no features.",
}
_CHOICES = {
    "encode": ["one-hot", "ordinal", "none"],
    "missing": ["median", "mean", "most-frequent", "none"],
    "scale": ["auto", "yes", "no"],
}


def prepare_options() -> list[click.Option]:
    """The options; what is said of them reaches `preparation` under the names of `PREPARING`."""
    return [
        click.Option([f"--{name}", name], metavar="A,B,...", help=_HELP[name])
        if name in _LISTS
        else click.Option(
            [f"--{name}", name], type=click.Choice(_CHOICES[name]), default=_CHOICES[name][0], show_default=True,
            help=_HELP[name],
        )
        for name in PREPARING
    ]  # fmt: skip


def preparation(given: Mapping[str, Any]) -> Preparation:
    """What the options say.

    Raises
    ------
    UserValueError
        Nothing between two commas, a column that is named twice.
    """
    drop, numeric, categorical, ids = (_names(given.get(name), name) for name in _LISTS)
    return Preparation(
        encode=given["encode"], missing=given["missing"], scale=given["scale"], drop=drop, numeric=numeric,
        categorical=categorical, id=ids,
    )  # fmt: skip


def _names(text: str | None, option: str) -> list[str]:
    names = [] if text is None else [column.strip() for column in text.split(",")]
    if not all(names):
        what = f"--{option} must be names set apart by single commas, got {text!r}"
        raise UserValueError(what, f"--{option}", "")
    return names
