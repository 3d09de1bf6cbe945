"""Parts: layers, activations, losses, samplers, metrics and the like, found in the source text of their rooms.

A part is a class or function among the public names (`__all__`) of a module in a room. Nothing is imported, and a file
in whose text the word does not occur is not looked into.
"""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from gnomon.catalog.words import english

__all__ = ["ROOMS", "Part", "about", "find", "named", "within"]

ROOMS = (
    "tasks", "data", "imaging", "graphs", "distributions", "numeric", "nn", "inference", "objectives", "training",
    "evaluation", "compress",
)  # fmt: skip
"""Packages of gnomon that hold parts, those of the verbs first."""

_NAMES = re.compile(r"^__all__ = (\[.*?\])", re.MULTILINE | re.DOTALL)
_HEADS = re.compile(r"^(?:class|def) (\w+)", re.MULTILINE)
_TEXT = re.compile(r'\s*r?"""(.*?)(?:\n|""")', re.DOTALL)
_END = re.compile(r":[ ]*(?:#[^\n]*)?\n(?=    r?\"\"\")")


@dataclass(frozen=True)
class Part:
    """A public name of a room.

    Parameters
    ----------
    name : str
    room : str
        Its package within gnomon, for example ``nn``.
    where : str
        ``module:name``.
    summary : str
        First line of its docstring.
    """

    name: str
    room: str
    where: str
    summary: str

    @property
    def module(self) -> str:
        """The module that it is imported from."""
        return self.where.partition(":")[0]


def named(name: str) -> tuple[Part, ...]:
    """The parts of this very name, but for its case; several rooms may have one.

    Parameters
    ----------
    name : str
        ``softmax``; with a room or a module before it, ``nn.softmax`` or ``gnomon.nn.outputs:softmax``, those there.

    Examples
    --------
    >>> [part.module for part in named("nn.softmax")], len(named("softmax"))
    (['gnomon.nn.outputs'], 2)
    """
    place, _, own = name.replace(":", ".").rpartition(".")
    found = within(place) if place else find("")
    return tuple(part for part in found if part.name.casefold() == own.casefold())


def within(place: str) -> tuple[Part, ...]:
    """The parts of a room, of a package in it or of a module, by any whole words of its path.

    Examples
    --------
    >>> {part.room for part in within("mcmc")}, within("no.such")
    ({'inference'}, ())
    """
    path = f".{place.casefold()}."
    return tuple(part for part in find("") if path in f".{part.module}.")


def about(room: str) -> str:
    """First line of a room's docstring.

    Examples
    --------
    >>> about("nn")
    'Building blocks that torch lacks.'
    """
    line = _TEXT.match((Path(__file__).parent.parent / room / "__init__.py").read_text(encoding="utf-8"))
    return line.group(1).strip() if line else ""


def find(word: str) -> tuple[Part, ...]:
    """The parts in whose name, room, module or summary the word occurs; case makes no difference.

    Parameters
    ----------
    word : str
        "" finds everything; Chinese words stand for English ones, and one of a letter or two is a whole word. Of
        several words, set apart by blanks or hyphens, each may begin a word of another of the four; the parts with
        the whole phrase come first.

    Examples
    --------
    >>> [part.room for part in find("average_precision")]
    ['evaluation']
    """
    folded = unicodedata.normalize("NFKC", english(word)).casefold().strip()
    words = [_beginning(one) for one in re.split(r"[\s-]+", folded.strip())]

    def has(text: str) -> bool:
        return words[0].search(text) is not None if 0 < len(folded) < 3 else folded in text

    exact: list[Part] = []
    loose: list[Part] = []
    for room, module, text in _files():
        if has(module.casefold()):
            exact += _read(room, module, text)
            continue
        whole = f"{module}\n{text}".casefold()
        if folded not in whole and not (len(words) > 1 and all(one.search(whole) for one in words)):
            continue
        for part in _read(room, module, text):
            own = f"{part.name}\n{part.summary}".casefold()
            if has(own):
                exact.append(part)
            elif len(words) > 1 and all(one.search(f"{module}\n{own}") for one in words):
                loose.append(part)
    return (*exact, *loose)


def _beginning(word: str) -> re.Pattern[str]:
    """Where a word begins with this one; one of a letter or two must be the whole word."""
    end = r"(?![a-z0-9])" if len(word) < 3 else ""
    return re.compile(rf"(?<![a-z0-9]){re.escape(word)}{end}")


@lru_cache(maxsize=1)
def _files() -> tuple[tuple[str, str, str], ...]:
    """Room, module and text of every public file, by room and path."""
    top = Path(__file__).parent.parent
    return tuple(_walk(top))


def _walk(top: Path) -> Iterator[tuple[str, str, str]]:
    for room in ROOMS:
        for path in sorted((top / room).rglob("*.py")):
            if not path.name.startswith("_"):
                module = ".".join((top.name, *path.relative_to(top).with_suffix("").parts))
                yield room, module, path.read_text(encoding="utf-8")


def _read(room: str, module: str, text: str) -> list[Part]:
    """The parts of a file, in the order of its `__all__`."""
    match = _NAMES.search(text)
    if match is None:
        return []
    names = ast.literal_eval(match.group(1))
    summaries = _summaries(text)
    return [Part(name, room, f"{module}:{name}", summaries[name]) for name in names if name in summaries]


def _summaries(text: str) -> dict[str, str]:
    """First docstring line of every class and function at the left margin."""
    heads = list(_HEADS.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    found: dict[str, str] = {}
    for head, end in zip(heads, ends, strict=True):
        body = _END.search(text, head.end(), end)
        line = _TEXT.match(text, body.end(), end) if body else None
        if line or head.group(1) not in found:  # after its overloads, which say nothing
            found[head.group(1)] = line.group(1).strip() if line else ""
    return found
