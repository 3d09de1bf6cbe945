"""The options that say how the columns of a table become numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from gnomon.data.preparation import Preparation
from gnomon.errors import UserValueError

__all__ = ["PREPARING", "preparation", "prepare_options"]

_LISTS = ("drop", "numeric", "categorical", "id")
PREPARING = ("encode", "missing", "scale", "text", "words", "text_unit", "lexicon", *_LISTS)
"""Names of these options, which no hyper-parameter has."""

_HELP = {
    "encode": "Categories as a column for each level, or as codes; none: the table must hold numbers and stays.",
    "missing": "What stands for a missing number where the system takes none; none: it stays missing.",
    "scale": "Numbers to mean 0 and spread 1; auto: where the system's answer depends on units.",
    "text": "Free text as columns of its words: whether each occurs, how often, or tf-idf; none: it is left out.",
    "words": "How many words of a text are kept, the most frequent ones; each costs 8 bytes a row.",
    "text_unit": "What a text is cut into; auto: characters of scripts without spaces, else words between blanks.",
    "lexicon": "JSON file or WordNet folder: words of free text become concepts, the most frequent one of each.",
    "drop": "Columns to leave out.",
    "numeric": "Columns of numbers; a cell that is none counts as missing.",
    "categorical": "Columns of categories, though they hold numbers or many levels.",
    "id": "Columns that name the rows: no features.",
}
_CHOICES = {
    "encode": ["one-hot", "ordinal", "none"],
    "missing": ["median", "mean", "most-frequent", "none"],
    "scale": ["auto", "yes", "no"],
    "text": ["none", "bag-of-words", "counts", "tf-idf"],
    "text_unit": ["auto", "word", "char", "jieba"],
}
_WORDS = 1000


def prepare_options() -> list[click.Option]:
    """The options; what is said of them reaches `preparation` under the names of `PREPARING`."""
    return [click.Option([f"--{name.replace('_', '-')}", name], help=_HELP[name], **_kind(name)) for name in PREPARING]


def _kind(name: str) -> dict[str, Any]:
    if name in _LISTS:
        return {"metavar": "A,B,..."}
    if name == "lexicon":
        return {"metavar": "PATH"}
    if name == "words":
        return {"type": click.IntRange(min=1), "default": _WORDS, "show_default": True}
    return {"type": click.Choice(_CHOICES[name]), "default": _CHOICES[name][0], "show_default": True}


def preparation(given: Mapping[str, Any]) -> Preparation:
    """What the options say.

    Raises
    ------
    UserValueError
        Nothing between two commas, a column that is named twice.
    """
    drop, numeric, categorical, ids = (_names(given.get(name), name) for name in _LISTS)
    return Preparation(
        encode=given["encode"], missing=given["missing"], scale=given["scale"], text=given["text"],
        words=given["words"], text_unit=given["text_unit"], lexicon=given.get("lexicon"), drop=drop,
        numeric=numeric, categorical=categorical, id=ids,
    )  # fmt: skip


def _names(text: str | None, option: str) -> list[str]:
    names = [] if text is None else [column.strip() for column in text.split(",")]
    if not all(names):
        what = f"--{option} must be names set apart by single commas, got {text!r}"
        raise UserValueError(what, f"--{option}", "")
    return names
