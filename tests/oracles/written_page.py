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


VOID = {"meta", "link", "img", "br", "path", "use", "rect", "image", "circle"}


class Checked(HTMLParser):
    """Reads a page and refuses what is not nested, names that stand twice, and whatever could run or load."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.names, self.tags = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert tag not in {"script", "iframe", "object", "embed", "form", "link", "base", "foreignobject"}
        for name, value in attrs:
            assert not name.startswith("on"), name
            if name == "id":
                assert value not in self.names, f"{value} stands twice"
                self.names.append(value)
            if name in ("src", "href", "xlink:href"):
                assert value.startswith(("data:image/png;base64,", "#")), value
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def checked(file):
    text = file.read_text(encoding="utf-8")
    found = Checked()
    found.feed(text)
    found.close()
    assert not found.open and len(text) < 5_000_000
    assert "http:" not in text.replace("http://www.w3.org/", "") and "https:" not in text and "@import" not in text
    return found
