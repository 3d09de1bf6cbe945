"""The table of contents: one entry per system, readable without NumPy or torch.

The module can be called: ``gnomon.catalog()`` is its table (see docs/decisions/0001).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gnomon.catalog.line import Entry
from gnomon.catalog.words import FAMILY_TITLES, OF_FAMILIES, OF_NEEDS, OF_SYSTEMS, OF_TASKS, folded
from gnomon.errors import UserTypeError, UserValueError, nearest, unknown
from gnomon.recipes.imports import load

if TYPE_CHECKING:
    from gnomon.catalog.cards import Card

__all__ = ["ENTRIES", "Entry", "card", "entries", "entry", "find", "load_class", "make", "tasks"]

GROUP = "gnomon.systems"
"""Entry points of this group name a function, or a list, that gives the entries of a plug-in."""

FAMILIES = (
    "linear", "neural", "kernel", "trees", "ensemble", "factors", "mixtures", "energy", "variational", "adversarial",
    "autoregressive", "vision", "text", "sequence", "recommend",
)  # fmt: skip
"""The files of the table, in its order; each has the entries of one family of systems."""

ENTRIES: tuple[Entry, ...] = tuple(
    one for family in FAMILIES for one in importlib.import_module(f"{__name__}.{family}").ENTRIES
)
"""The systems of gnomon itself."""


def entries() -> tuple[Entry, ...]:
    """Every system, gnomon's own first, then those of plug-ins.

    Raises
    ------
    ValueError
        Two entries of one name.

    Examples
    --------
    >>> [entry.name for entry in entries()][:2]
    ['linear-regression', 'bayesian-regression']
    """
    return joined(ENTRIES, *_plugins())


def joined(*groups: Iterable[Entry]) -> tuple[Entry, ...]:
    """All entries in order; a name may come once."""
    known: dict[str, Entry] = {}
    for one in (one for group in groups for one in group):
        first = known.setdefault(one.name, one)
        if first is not one:
            raise ValueError(f"two systems are called {one.name!r}: {first.where} and {one.where}")
    return tuple(known.values())


@cache
def _plugins() -> tuple[tuple[Entry, ...], ...]:
    from importlib.metadata import entry_points

    found = []
    for point in entry_points(group=GROUP):
        given: Iterable[Entry] | Callable[[], Iterable[Entry]] = point.load()
        found.append(tuple(given() if callable(given) else given))
    return tuple(found)


def entry(name: str) -> Entry:
    """The system of this name; plug-ins are looked at only when gnomon itself has none.

    Raises
    ------
    UserValueError
        An unknown name, with the nearest known one, or with systems that are called so besides.

    Examples
    --------
    >>> entry("rbm").title
    'Restricted Boltzmann machine (harmonium)'
    """
    own = next((one for one in ENTRIES if one.name == name), None)
    if own is not None:
        return own
    everything = entries()
    for one in everything:
        if one.name == name:
            return one
    raise _no_system(name, [one.name for one in everything])


def _no_system(name: str, known: list[str]) -> UserValueError:
    """The error of a name that no system has: those that are called so too, the nearest, or the part of this name."""
    from gnomon.catalog.parts import named

    called = [one.name for one in find(name)][:3] if len(name) > 2 or not name.isascii() else []
    part = named(name)
    close = called or ([] if part else nearest(name, known, n=1))
    remedy = f"did you mean {' or '.join(close)}?" if close else "gnomon list shows the systems"
    if not close and part:
        remedy = f"it is a part: gnomon info {name}"
    return UserValueError(f"unknown system {name!r}", "", remedy)


def tasks() -> tuple[str, ...]:
    """The tasks that some system is for, sorted.

    Examples
    --------
    >>> {"classify", "density"} <= set(tasks())
    True
    """
    return tuple(sorted({task for one in entries() for task in one.tasks}))


def find(word: str = "", task: str | None = None) -> tuple[Entry, ...]:
    """The systems in whose name, titles, synonyms, kind, family, tasks, source or rows the word occurs.

    Case, width, blanks and hyphens make no difference.

    Parameters
    ----------
    word : str
        Any part of what is searched, in English or Chinese; "" finds everything. Where no system has several words
        side by side, those are found that have each of them.
    task : str, optional
        Only systems for this task.

    Raises
    ------
    UserValueError
        An unknown task.

    Examples
    --------
    >>> "rbm" in [entry.name for entry in find("玻尔兹曼")]
    True
    """
    if task is not None and task not in tasks():
        raise unknown("task", task, tasks())
    wanted, words = folded(word), [folded(one) for one in word.split()]
    texts = [(one, _text(one)) for one in entries() if task is None or task in one.tasks]
    whole = tuple(one for one, text in texts if wanted in text)
    return whole or tuple(one for one, text in texts if all(each in text for each in words))


def _text(one: Entry) -> str:
    words = [one.name, one.class_name, one.family, one.title, one.title_zh, one.kind, one.source, one.needs]
    words += [*one.tasks, *one.rows]
    synonyms = [
        OF_SYSTEMS.get(one.name, ""),
        OF_FAMILIES.get(one.family, ""),
        FAMILY_TITLES.get(one.family, ""),
        *(OF_TASKS.get(task, "") for task in one.tasks),
        *(OF_NEEDS.get(need, "") for need in [*one.needs.split(", "), *(["missing"] if one.missing else [])]),
    ]
    words += [word for line in synonyms for word in (*line.split(), line)]
    return "\n".join(map(folded, words))


def card(one: Entry | str) -> Card:
    """Signature, defaults and documentation of a system, read from its source without importing it."""
    from gnomon.catalog.cards import read

    return read(entry(one) if isinstance(one, str) else one)


def load_class(one: Entry | str) -> Any:
    """The system's class. This imports what the system needs."""
    return load((entry(one) if isinstance(one, str) else one).where)


def make(name: str, /, **params: Any) -> Any:
    """A system by its name, with hyper-parameters; ``slot__field`` sets a field of a slot's recipe.

    Raises
    ------
    UserValueError
        An unknown system or parameter, with the nearest known one.

    Examples
    --------
    >>> make("bernoulli-mixture", n_components=3)
    BernoulliMixture(n_components=3)
    """
    if not isinstance(name, str):
        raise UserTypeError(
            f"name must be the name of a system, got {name!r}", "make", "give a name of the catalog, such as 'rbm'"
        )
    return load_class(name)().set_params(**params)


class _Callable(ModuleType):
    """This module: ``gnomon.catalog.find(...)``, and ``gnomon.catalog()`` for the whole table."""

    def __call__(self) -> tuple[Entry, ...]:
        return entries()


sys.modules[__name__].__class__ = _Callable
