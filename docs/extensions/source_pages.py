"""A page for every source file and test, so that links to a line of them work without a network.

They are written beside the pages of Sphinx, not by it: the search is for what people write, and a page without the
theme's navigation is a tenth as large.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from pygments import highlight
from pygments.filter import Filter
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, String, Text
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
FOLDERS = ("src/gnomon", "tests")
COLORED = (Comment, Keyword, Number, String, Name.Class, Name.Decorator, Name.Function)

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>{name}</title>
<link rel="stylesheet" href="{top}_static/pygments.css"><link rel="stylesheet" href="{top}_static/source.css">
</head><body>
<script>document.body.dataset.theme = localStorage.getItem("theme") || "auto"</script>
<header><a href="{top}index.html">gnomon</a> {name}</header>
<div class="highlight"><pre>
{lines}</pre></div>
</body></html>
"""


class Few(Filter):
    """Only what is colored keeps its kind: names and punctuation are most of a file's tokens."""

    def filter(self, lexer: Any, stream: Any) -> Iterator[tuple[Any, str]]:
        """Kinds and texts."""
        for kind, value in stream:
            yield (kind if any(kind in one for one in COLORED) else Text), value


def page(name: str, text: str) -> str:
    """The page of a file: a line is `L` and its number."""
    lexer = PythonLexer(stripnl=False)
    lexer.add_filter(Few())
    code = highlight(text, lexer, HtmlFormatter(nowrap=True))
    lines = (f'<span id="L{number}">{line}</span>\n' for number, line in enumerate(code.splitlines(), start=1))
    return PAGE.format(name=escape(name), top="../" * (name.count("/") + 1), lines="".join(lines))


def write(app: Sphinx, failure: Exception | None) -> None:
    """Write the pages whose files have changed."""
    if failure is not None or app.builder.format != "html":
        return
    for file in sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")):
        name = file.relative_to(ROOT).as_posix()
        out = Path(app.outdir, "source", name).with_suffix(".html")
        changed = max(file.stat().st_mtime, Path(__file__).stat().st_mtime)
        if out.exists() and out.stat().st_mtime > changed:
            continue
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page(name, file.read_text(encoding="utf-8")), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
