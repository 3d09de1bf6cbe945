"""Every option of every system says what it means and what it takes."""

from __future__ import annotations

import re

import pytest

from gnomon.catalog import card, entries
from gnomon.cli.fit import column_name, column_names, parameter_options
from gnomon.cli.info import as_text
from gnomon.errors import UserValueError

NAMES = [one.name for one in entries()]


@pytest.mark.parametrize("name", NAMES)
def test_every_option_has_a_sentence(name: str) -> None:
    about = card(name)
    bare = [p.name for p in about.parameters if not p.description.strip()]
    bare += [f"{recipe.short}: {address}" for address, recipe, p in about.fields() if not p.description.strip()]
    assert not bare


@pytest.mark.parametrize("name", NAMES)
def test_what_an_option_takes_is_readable(name: str) -> None:
    """Intervals are half-open, so a round bracket may close a square one; but as many close as open."""
    about = card(name)
    for option in parameter_options(about):
        text = option.help or ""
        assert sum(map(text.count, "[(")) == sum(map(text.count, "])")), (option.name, text)
        facts = text[text.rindex(" [") :]
        assert re.search(r"; (default \S|required\])", facts), (option.name, facts)
        assert not re.search(r"numberx|textx|x\.\.\.|default \(|None", facts), (option.name, facts)
    assert "numberx" not in as_text_of(name)


def as_text_of(name: str) -> str:
    one = next(one for one in entries() if one.name == name)
    return as_text(one, card(one))


@pytest.mark.parametrize("text", [",", "", "a,,b", "a,", " , "])
def test_columns_without_a_name_are_refused(text: str) -> None:
    with pytest.raises(UserValueError, match=r"^--columns must be names set apart by single commas, got "):
        column_names(text)


@pytest.mark.parametrize(
    ("text", "column"), [("3", 3), ("-1", -1), ("\u00b2", "\u00b2"), ("--5", "--5"), ("9" * 5000, "9" * 5000), ("", "")]
)
def test_a_place_is_a_whole_number_and_all_else_a_name(text: str, column: str | int) -> None:
    assert column_name(text) == column
