"""Sections about texts: what a language model writes beside real lines, translations beside the truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gnomon.errors import UserError
from gnomon.report.page import Section, table
from gnomon.report.subject import Subject

__all__ = ["texts_of", "translations_of"]

MOST = 4
"""Sentences without a prompt, and prompts."""
PROMPT = 4
"""Tokens of a prompt."""
LENGTH = 60
"""Tokens that are written, at most."""
MOST_PAIRS = 12
LETTERS = 240
"""Of a text that are shown."""


def texts_of(subject: Subject) -> Section | None:
    """Sentences that a language model writes: without a prompt, and going on with the beginning of held-out ones."""
    if "language" not in subject.system.tasks:
        return None
    lines = [] if subject.held is None else list(subject.held.text or ())
    beside = [*lines[:MOST], *[""] * MOST]
    rows = [("", text, line) for text, line in zip(_written(subject.system, "", MOST), beside, strict=False)]
    begun = lines[MOST : 2 * MOST]
    for k, (tokens, line) in enumerate(zip(subject.system.domain.check(begun) if begun else [], begun, strict=True)):
        prompt = list(tokens)[: min(PROMPT, len(tokens) // 2)]
        for text in _written(subject.system, prompt, 1, seed=k + 1):
            rows.append((_text(subject.system, prompt), text, line))
    if not rows:
        return None
    reading = (
        "Drawn without choosing, each beginning from numbers of its own; beside them lines that the fit has not seen."
    )
    if any("<unk>" in row[1] for row in rows):
        reading += " <unk> stands for every token that the fit does not know."
    header = ["begins with", "the model writes", "a real line"]
    return Section("Texts", reading, table(header, rows, caption="texts", longest=LETTERS))


def _written(system: Any, prompt: str | Sequence[str], n: int, seed: int = 0) -> list[str]:
    """n sentences that begin with a prompt; none where nothing can follow it."""
    try:
        return list(system.generate(prompt, n, random_state=seed, max_length=LENGTH))
    except UserError:
        return []


def _text(system: Any, tokens: Sequence[str]) -> str:
    return str(system.known_domain().text(tokens))


def translations_of(subject: Subject) -> Section | None:
    """Sources, what they are turned into, and what they should be."""
    if "translate" not in subject.system.tasks or subject.held is None:
        return None
    pairs = list(subject.held.pairs or ())[:MOST_PAIRS]
    found = subject.system.translate([source for source, _ in pairs])
    rows = [
        (source, text, target, "yes" if text == target else "")
        for (source, target), text in zip(pairs, found, strict=True)
    ]
    right = sum(1 for row in rows if row[-1])
    reading = f"The first of the pairs that the fit has not seen; {right} of these {len(rows)} are the truth itself."
    header = ["source", "translation", "truth", "equal"]
    return Section("Translations", reading, table(header, rows, caption="translations", longest=LETTERS))
