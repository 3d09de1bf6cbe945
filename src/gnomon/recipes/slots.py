"""The recipes that fit a slot: found in the source of the room of the slot's base and of plug-ins, not by imports.

A package of one's own names the module or package that holds its recipes in the entry-point group ``gnomon.recipes``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from gnomon.recipes.source import SourceModule, assigned, locate

__all__ = ["GROUP", "choices", "spellings", "where"]

GROUP = "gnomon.recipes"
"""Entry points of this group name a module or package with recipes."""


def where(cls: type) -> str:
    """``module:Class``.

    Examples
    --------
    >>> from gnomon.training.optimizers import SGD
    >>> where(SGD)
    'gnomon.training.optimizers:SGD'
    """
    return f"{cls.__module__}:{cls.__qualname__}"


def spellings(short: str) -> tuple[str, ...]:
    """A short name as it was given, and with its words joined by ``_`` and by ``-``: all mean one recipe.

    Examples
    --------
    >>> spellings("score-matching")
    ('score-matching', 'score_matching', 'score-matching')
    """
    return short, short.replace("-", "_"), short.replace("_", "-")


@cache
def choices(base: str) -> Mapping[str, str]:
    """The recipes below a base: ``module:Class`` by short name, sorted. Nothing is imported.

    Parameters
    ----------
    base : str
        ``module:Class`` of the slot's base.

    Raises
    ------
    ValueError
        Two recipes of one short name.

    Examples
    --------
    >>> choices("gnomon.training.stopping:Stopping")["off"]
    'gnomon.training.stopping:Off'
    """
    packages = (_room(base.partition(":")[0]), *_plugins())
    files = {name: file for package in packages for name, file in _files(package).items()}
    found: dict[str, str] = {}
    for short, place in _below(base, files):
        if found.setdefault(short, place) != place:
            raise ValueError(f"two recipes are called {short!r}: {found[short]} and {place}")
    return dict(sorted(found.items()))


def _room(module: str) -> str:
    """The package in which recipes are looked for: a room of gnomon, a family of systems, another's whole package."""
    parts = module.split(".")
    if parts[0] != __name__.partition(".")[0]:
        return parts[0]
    return ".".join(parts[: 3 if parts[1:2] == ["systems"] else 2])


@cache
def _plugins() -> tuple[str, ...]:
    from importlib.metadata import entry_points

    return tuple(point.value for point in entry_points(group=GROUP))


@cache
def _files(package: str) -> Mapping[str, Path]:
    """The modules of a package, or the one module."""
    try:
        path = locate(package)
    except ValueError:  # __main__
        path = None
    if path is None:
        return {}
    if path.name != "__init__.py":
        return {package: path}
    inside = ((file.relative_to(path.parent).with_suffix("").parts, file) for file in sorted(path.parent.rglob("*.py")))
    return {".".join([package, *(part for part in parts if part != "__init__")]): file for parts, file in inside}


def _below(base: str, files: Mapping[str, Path]) -> Iterator[tuple[str, str]]:
    """Short name and place of the classes below a base; only files with a class of a known base are parsed."""
    known, left = {base.partition(":")[2]}, dict(files)
    while True:
        heads = re.compile(rf"^class \w+\([^)]*\b(?:{'|'.join(sorted(known))})\b", re.MULTILINE)
        chosen = [name for name in left if heads.search(SourceModule.of(name).text)]
        if not chosen:
            return
        for module in (SourceModule.of(name) for name in chosen):
            del left[module.name]
            for node in module.own.values():
                if base in (f"{home.name}:{one.name}" for home, one in module.ancestry(node)):
                    known.add(node.name)
                    short = assigned(node, "short")
                    if isinstance(short, ast.Constant) and short.value:
                        yield str(short.value), f"{module.name}:{node.name}"
