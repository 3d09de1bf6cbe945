"""The section about attention: what each head looks at in a text, or the decoder in its source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gnomon.errors import UserError
from gnomon.report.figures import picture, pictures
from gnomon.report.page import Section
from gnomon.report.subject import Subject
from gnomon.tasks.pictures import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["attended_of"]

MOST_TOKENS = 16
"""Of a text, or of each side of a pair."""
MOST_PAIRS = 3
MOST_LAYERS, MOST_HEADS = 6, 8


def attended_of(subject: Subject) -> Section | None:
    """Maps of attention on held-out texts or pairs; None where a system has none."""
    system: Any = subject.system
    if subject.held is None:
        return None
    try:
        if "translate" in system.tasks:
            return _of_pairs(system, list(subject.held.pairs or ())[:MOST_PAIRS])
        if not hasattr(system, "attention"):
            return None
        text = _first(subject.examples[0])
        return None if text is None else _of_text(system, text)
    except UserError:
        return None  # a decoder without attention, a text that has no token


def _of_text(system: Any, text: str) -> Section:
    tokens, weights = system.attention(text)
    tokens, weights = tokens[:MOST_TOKENS], weights[:MOST_LAYERS, :MOST_HEADS, :MOST_TOKENS, :MOST_TOKENS]
    layers, heads = weights.shape[:2]
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.0 + 1.6 * heads, 1.0 + 1.6 * layers), layout="constrained")
    grid = figure.subplots(layers, heads, squeeze=False, sharex=True, sharey=True)
    for i, line in enumerate(grid):
        for j, axes in enumerate(line):
            _shade(axes, weights[i, j])
            axes.set_title(f"layer {i + 1}, head {j + 1}", fontsize=7)
        _named(line[0], "y", tokens)
    for axes in grid[-1]:
        _named(axes, "x", tokens)
    reading = (
        "Of the first held-out text: rows are the tokens that look, columns those that are looked at; the darker, the "
        "more. What is looked at need not be what the answer depends on."
    )
    return Section("Where the heads look", reading, pictures([picture(figure, "Attention", "A map for each head.")]))


def _of_pairs(system: Any, pairs: list[tuple[str, str]]) -> Section | None:
    pairs = [pair for pair in pairs if all(pair)]
    if not pairs:
        return None
    drawn = []
    for (source, target), weights in zip(pairs, system.alignment(pairs), strict=True):
        columns, lines = _cut(system, source, target)
        shown = weights[:MOST_TOKENS, :MOST_TOKENS]
        drawn.append(
            picture(_aligned(shown, [*lines, "</s>"][: len(shown)], columns[: shown.shape[1]]), source, target)
        )
    reading = (
        "How much the decoder looks at each source token (columns) for each target token (rows), of held-out pairs "
        "with their true targets."
    )
    return Section("Where the decoder looks", reading, pictures(drawn))


def _cut(system: Any, source: str, target: str) -> tuple[list[str], list[str]]:
    """The tokens of both sides."""
    from gnomon.data.sequences import Tokens

    first, second = Tokens(system.unit, system.source_vocabulary_), Tokens(system.unit, system.target_vocabulary_)
    return first.tokens(source, "source"), second.tokens(target, "target")


def _aligned(weights: Any, lines: list[str], columns: list[str]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.5 + 0.3 * len(columns), 1.2 + 0.3 * len(lines)), layout="constrained")
    axes = figure.subplots()
    _shade(axes, weights)
    _named(axes, "x", columns)
    _named(axes, "y", lines)
    return figure


def _shade(axes: Any, weights: Any) -> None:
    axes.imshow(np.asarray(weights, np.float64), cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")


def _named(axes: Any, axis: str, tokens: list[str]) -> None:
    """Tokens at the ticks of an axis."""
    words = [plain(one) for one in tokens]
    if axis == "x":
        axes.set_xticks(range(len(words)), words, rotation=90, fontsize=7)
    else:
        axes.set_yticks(range(len(words)), words, fontsize=7)


def _first(texts: Any) -> str | None:
    """The first text with something in it, of a pair the first."""
    firsts = (one if isinstance(one, str) else next(iter(one), None) for one in list(texts))
    return next((one for one in firsts if isinstance(one, str) and one.strip()), None)
