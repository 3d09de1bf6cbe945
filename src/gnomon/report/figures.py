"""Figures of matplotlib in a page: vectors in the page's own colors, or pixels where vectors would be too many."""

from __future__ import annotations

import base64
import io
import itertools
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
from typing import TYPE_CHECKING, Any

from gnomon.report.page import cell, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["drawn_for_a_page", "picture", "pictures"]

INK = "#010203"
"""Stands for the color of the page's text while a figure is drawn."""
GRAY = "#808a93"
"""Ink of pixels, which cannot follow the reader's colors: it can be seen on white and on black."""
CYCLE = ("#2f7fc1", "#d9722b", "#3a9a5b", "#b6579e", "#8a6d3b", "#5b6fb5", "#c2504d", "#4aa3a2")
"""Colors of lines that can be told apart on white and on black."""
MOST_BYTES = 250_000
"""Of one vector picture."""
_numbers: ContextVar[Iterator[int]] = ContextVar("numbers_of_figures")
"""Of the pictures of the page that is drawn, so that the same page has the same bytes."""


@contextmanager
def drawn_for_a_page() -> Iterator[None]:
    """Figures that are made within the block take the ink of the page and no ground of their own."""
    import matplotlib as mpl
    from cycler import cycler

    ink = dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK)
    style: Any = {
        **ink, "axes.facecolor": "none", "figure.facecolor": "none", "legend.framealpha": 0.0, "font.size": 11,
        "axes.prop_cycle": cycler(color=CYCLE), "axes.spines.top": False, "axes.spines.right": False,
        "svg.fonttype": "none", "svg.hashsalt": "gnomon", "grid.color": GRAY, "grid.alpha": 0.3,
    }  # fmt: skip
    token = _numbers.set(itertools.count())
    try:
        with mpl.rc_context(style):
            yield
    finally:
        _numbers.reset(token)


def picture(figure: Figure, title: str, reading: str) -> str:
    """A figure with its title and one sentence on how to read it."""
    words = escape(visible(f"{title}. {reading}")[:500], quote=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # letters are drawn by the reader's browser
        drawn = _vector(figure, words)
        image = drawn if len(drawn) <= MOST_BYTES else _pixels(figure, words)
    return f"<figure>{image}<figcaption><b>{cell(title)}</b> {cell(reading, 500)}</figcaption></figure>"


def pictures(found: list[str]) -> str:
    """Pictures side by side, as many as the page is wide for."""
    return f'<div class="pictures">{"".join(found)}</div>'


def _vector(figure: Figure, words: str) -> str:
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    file = io.StringIO()
    _arrange(figure)
    canvas: Any = FigureCanvasSVG(figure)  # `Figure.savefig` would draw all of it once for nothing before
    canvas.print_svg(file, metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor").replace("font-family: ", "font-family: inherit, ")
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL)
    text = _with_own_names(text)
    head, rest = text.split(">", 1)
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    return f'{head} role="img" aria-label="{words}" fill="currentColor" stroke-linejoin="round">{rest.strip()}'


def _arrange(figure: Figure) -> None:
    """Lay the figure out once; saving would draw all of it for that first, and then again."""
    layout = figure.get_layout_engine()
    if layout is not None:
        layout.execute(figure)
        figure.set_layout_engine("none")


def _with_own_names(svg: str) -> str:
    """Names within a picture that no other picture of the page has; those that nothing refers to are left out."""
    used = set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", svg))
    own = f"f{next(_numbers.get())}-"
    svg = re.sub(r' id="([^"]*)"', lambda hit: f' id="{own}{hit[1]}"' if hit[1] in used else "", svg)
    return re.sub(r"(url\(#|href=\"#)", rf"\g<1>{own}", svg)


def _pixels(figure: Figure, words: str) -> str:
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        if isinstance(text, Text) and text.get_color() == INK:
            text.set_color(GRAY)
    for axes in figure.axes:
        axes.tick_params(colors=GRAY)
        for spine in axes.spines.values():
            spine.set_edgecolor(GRAY)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110, transparent=True, metadata={"Software": None})
    return f'<img alt="{words}" src="data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}">'
