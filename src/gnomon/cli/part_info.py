"""``gnomon info PART``: how a part is called, what its arguments are, what it does, its example."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from gnomon.catalog.part_cards import Argument, PartCard
from gnomon.cli.options import plain

__all__ = ["facts_of", "text_of"]


def facts_of(cards: Sequence[PartCard]) -> dict[str, Any]:
    """The parts of one name as a JSON object."""
    return {"parts": [_facts(card) for card in cards]}


def _facts(card: PartCard) -> dict[str, Any]:
    parameters = [
        {"name": one.name, "values": plain(one.kind), "default": one.default or None, "help": plain(one.description)}
        for one in card.arguments
    ]
    return {
        **vars(card.part), "kind": card.kind, "short": card.short or None, "signature": card.signature,
        "text": plain(card.text), "parameters": parameters,
        "sections": {title: plain(text) for title, text in card.sections.items()}, "methods": card.methods,
        "example": card.example,
    }  # fmt: skip


def text_of(cards: Sequence[PartCard], columns: int) -> str:
    """The parts of one name for reading, one after another."""
    blocks = [_text(card, columns) for card in cards]
    if len(cards) > 1:
        places = ", ".join(f"{card.part.module.removeprefix('gnomon.')}.{card.part.name}" for card in cards)
        blocks.append(f"{len(cards)} parts have this name; one alone by its room: gnomon info {places}")
    return "\n\n\n".join(blocks)


def _text(card: PartCard, columns: int) -> str:
    part = card.part
    lines = [f"{part.name}: {card.kind} of {part.module}", "", f"from {part.module} import {part.name}"]
    lines += _folded(card, columns)
    lines += [f"on the command line: {card.short}"] if card.short else []
    lines += ["", plain(card.text)] if card.text else []
    if card.arguments:
        lines += ["", "Parameters"]
        for one in card.arguments:
            lines += _lines(one, columns)
    for title, text in card.sections.items():
        lines += ["", title, _indented(plain(text))]
    if card.methods:
        lines += ["", "Methods", *_methods(card.methods)]
    if card.example:
        lines += ["", "Example", _indented(card.example)]
    return "\n".join(lines)


def _folded(card: PartCard, columns: int) -> list[str]:
    """The signature; where it is long an argument a line."""
    if not card.signature or len(card.signature) <= columns or not card.call:
        return [card.signature] if card.signature else []
    returns = f" -> {card.returns}" if card.returns else ""
    return [f"{card.part.name}(", *(f"    {one}," for one in card.call), f"){returns}"]


def _lines(one: Argument, columns: int) -> list[str]:
    """An argument, what it takes, its default; under it what it is."""
    allowed = plain(one.kind)
    head = f"  {one.name}" + (f"  {allowed}" if allowed else "") + (f", default {one.default}" if one.default else "")
    text = textwrap.fill(plain(one.description), columns, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return [head, *([text] if text else [])]


def _methods(methods: Mapping[str, str]) -> list[str]:
    wide = max(map(len, methods))
    return [f"  {name.ljust(wide)}  {plain(summary)}".rstrip() for name, summary in methods.items()]


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())
