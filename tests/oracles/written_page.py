"""What a written page says: its tables by name, the words of its pictures, as a reader finds them in the HTML."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path


class Page(HTMLParser):
    """The tables of a page by their caption, and the words within each picture by its title.

    Parameters
    ----------
    file : Path

    Attributes
    ----------
    tables : dict of str to list of lists of str
        By caption; the first row is the header.
    words : dict of str to list of str
        By title of the picture, the texts that are drawn in it.
    text : str
    """

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.words: dict[str, list[str]] = {}
        self.parts: list[str] = []
        self.caption, self.cell, self.figure, self.bold = "", None, None, False
        self.feed(file.read_text(encoding="utf-8"))
        self.text = " ".join(self.parts)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "div" and given.get("class") == "wide":
            self.caption = given["aria-label"]
            self.tables[self.caption] = []
        elif tag == "tr":
            self.tables[self.caption].append([])
        elif tag in ("td", "th"):
            self.cell = []
        elif tag == "figure":
            self.figure = []
        elif tag == "b" and self.figure is not None:
            self.bold = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.tables[self.caption][-1].append("".join(self.cell))
            self.cell = None
        elif tag == "figure":
            self.figure = None
        elif tag == "b":
            self.bold = False

    def handle_data(self, data):
        self.parts.append(data)
        if self.cell is not None:
            self.cell.append(data)
        if self.bold and self.figure is not None:
            self.words[data] = [one.strip() for one in self.figure if one.strip()]
        elif self.figure is not None:
            self.figure.append(data)

    def column(self, caption: str, name: str) -> dict[str, str]:
        """One column of a table, by the first cell of each row."""
        header, *rows = self.tables[caption]
        return {row[0]: row[header.index(name)] for row in rows}
