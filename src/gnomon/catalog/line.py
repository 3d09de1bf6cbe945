"""A line of the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gnomon.catalog.words import NEEDS

__all__ = ["Entry"]


@dataclass(frozen=True)
class Entry:
    """A system's line in the catalog.

    Parameters
    ----------
    name : str
        What it is called on the command line: lower case, words joined by hyphens.
    title, title_zh : str
        What it is called in English and in Chinese.
    kind : str
        Kind of the row that it is: ``model``.
    tasks : tuple of str
        What it can be used for; the first is the one that ``gnomon fit`` prepares data for.
    where : str
        ``module:Class``.
    source : str
        Author and year.
    rows : tuple of str
        Rows of docs/spec that it makes work.
    tiny : mapping
        Constructor arguments with which it fits in a moment: for tests.
    takes : str
        What it is fitted to, where that is not what its first task says (`gnomon.catalog.words.NEEDS`).
    missing : bool
        Whether cells may be missing; of other tables ``gnomon fit`` fills them in.
    """

    name: str
    title: str
    title_zh: str
    kind: str
    tasks: tuple[str, ...]
    where: str
    source: str
    rows: tuple[str, ...]
    tiny: Mapping[str, Any] = field(default_factory=dict, hash=False)
    takes: str = ""
    missing: bool = False

    @property
    def needs(self) -> str:
        """What it is fitted to: a table, labels, a text ..."""
        return self.takes or NEEDS.get(self.tasks[0], "")

    @property
    def family(self) -> str:
        """The package of its module, which is its family; of a plug-in the package that it comes from."""
        module = self.where.partition(":")[0].split(".")
        return module[2] if module[:2] == ["gnomon", "systems"] else module[0]

    @property
    def class_name(self) -> str:
        """Name of the class: ``gnomon.<class_name>``."""
        return self.where.partition(":")[2]
