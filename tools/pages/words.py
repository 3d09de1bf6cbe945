"""Chinese words for layers, losses, samplers and the like, with what they lead to: for the search."""

from __future__ import annotations

from gnomon.catalog.parts import find
from gnomon.catalog.words import GLOSSARY
from pages.evidence import place_of
from pages.rst import heading, source_link, table

MOST = 8
"""Parts that are named of a word."""
HEAD = """
Chinese words for layers, losses, samplers, distributions and the like. ``gnomon list 卷积`` finds the same, systems
included; :doc:`parts` has every part.
"""


def page() -> str:
    """The page with a line for each word."""
    rows = ((f":index:`{word}`", english, parts(word)) for word, english in sorted(GLOSSARY.items()))
    head = ("中文", "English", "parts")
    return "\n".join([*heading("Chinese terms · 中文词汇", "="), HEAD, *table(head, (18, 18, 64), rows)])


def parts(word: str) -> str:
    """The first parts that a word finds, linked to their source."""
    found = find(word)
    places = [place for part in found[:MOST] if (place := place_of(part.where.replace(":", ".")))]
    shown = [source_link(one.file, one.line, one.name, up=1) for one in places]
    return ", ".join([*shown, *([f"and {len(found) - MOST} more"] if len(found) > MOST else [])])
