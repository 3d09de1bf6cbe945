"""Which tests name a row of the specification, and which code they exercise: read from the source, nothing is run."""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from gnomon import catalog
from pages.rst import ROOT

ROW = re.compile(r"[A-Z]{3}-\d{2,3}")
EVERYWHERE = (
    "gnomon.errors", "gnomon.numeric.noise", "gnomon.contracts", "gnomon.testing", "gnomon.evaluation.score",
    "gnomon.data.examples", "gnomon.data.loading", "gnomon.data.splitting", "gnomon.data.dataset",
)  # fmt: skip
"""Modules that nearly every test uses: they are named only where a row has no others."""
OF_CATALOG = {one.class_name: one for one in catalog.ENTRIES}
OF_NAME = {one.name: one for one in catalog.ENTRIES}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Place:
    """A named thing in a source file.

    Parameters
    ----------
    file : str
        Below the repository.
    line : int
    name : str
    """

    file: str
    line: int
    name: str


@dataclass
class Evidence:
    """Of a row: tests that name it, in order, and how many of them use each thing of gnomon."""

    tests: list[Place] = field(default_factory=list)
    code: Counter[Place] = field(default_factory=Counter)


class Module:
    """A file of tests: what stands at its margin, and what its names stand for."""

    def __init__(self, path: Path) -> None:
        self.file = Path(os.path.relpath(path, ROOT)).as_posix()
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.own: dict[str, ast.AST] = {}
        self.imported: dict[str, str] = {}
        for node in self.tree.body:
            if isinstance(node, Function | ast.ClassDef):
                self.own[node.name] = node
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    self.own |= {one.id: node.value for one in ast.walk(target) if isinstance(one, ast.Name)}
        for line in ast.walk(self.tree):
            if isinstance(line, ast.ImportFrom) and str(line.module).partition(".")[0] == "gnomon":
                self.imported |= {one.asname or one.name: f"{line.module}.{one.name}" for one in line.names}
            elif isinstance(line, ast.Import):
                self.imported |= {one.asname or "gnomon": one.name for one in line.names if one.name[:6] == "gnomon"}

    def tests(self) -> Iterator[tuple[Function, set[str]]]:
        """Every test with the rows that it names, by its own mark, that of its class or that of the file."""
        everywhere = self.rows(self.own["pytestmark"]) if "pytestmark" in self.own else set()
        for node in self.tree.body:
            whole = everywhere | self._marks(node)
            for one in node.body if isinstance(node, ast.ClassDef) else [node]:
                if isinstance(one, Function) and one.name.startswith("test"):
                    rows = whole | self._marks(one)
                    if rows:
                        yield one, rows

    def _marks(self, node: ast.AST) -> set[str]:
        return {row for mark in getattr(node, "decorator_list", ()) for row in self.rows(mark)}

    def rows(self, node: ast.AST) -> set[str]:
        """Rows that the marks within an expression name, those behind names at the margin included."""
        found: set[str] = set()
        for one in self._reached([node]):
            for call in ast.walk(one):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "spec":
                    constants = (part for argument in self._reached(call.args) for part in ast.walk(argument))
                    found |= {str(c.value) for c in constants if isinstance(c, ast.Constant) and is_row(c.value)}
        return found

    def _reached(self, nodes: Iterable[ast.AST]) -> list[ast.AST]:
        """The nodes, and what stands at the margin under a name or as a fixture that one of them mentions."""
        reached, waiting, known = [], list(nodes), set[str]()
        while waiting:
            node = waiting.pop()
            reached.append(node)
            for part in ast.walk(node):
                name = part.id if isinstance(part, ast.Name) else part.arg if isinstance(part, ast.arg) else ""
                if name in self.own and name not in known:
                    known.add(name)
                    waiting.append(self.own[name])
        return reached

    def uses(self, test: Function) -> set[Place]:
        """What a test calls of gnomon, itself or through helpers of its file."""
        names: set[str] = set()
        for node in self._reached([test]):
            for part in ast.walk(node):
                if isinstance(part, ast.Attribute | ast.Name):
                    names.add(self._full(part))
                elif isinstance(part, ast.Constant) and part.value in OF_NAME:
                    names.add(OF_NAME[str(part.value)].where.replace(":", "."))
        return {place for name in names if name.startswith("gnomon.") and (place := place_of(name))}

    def _full(self, node: ast.AST) -> str:
        """The dotted name that an expression stands for; "" where it is not one of gnomon."""
        if isinstance(node, ast.Name):
            return self.imported.get(node.id, "")
        if isinstance(node, ast.Attribute):
            front = self._full(node.value)
            if front == "gnomon" and node.attr in OF_CATALOG:
                return OF_CATALOG[node.attr].where.replace(":", ".")
            return f"{front}.{node.attr}" if front else ""
        return ""


def is_row(value: object) -> bool:
    """Whether a constant is the name of a row."""
    return isinstance(value, str) and ROW.fullmatch(value) is not None


@cache
def heads(file: Path) -> Mapping[str, tuple[int, str]]:
    """Line, and where it is imported from, of what stands at the margin of a module of gnomon."""
    found: dict[str, tuple[int, str]] = {}
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, Function | ast.ClassDef):
            found[node.name] = (node.lineno, "")
        elif isinstance(node, ast.ImportFrom):
            found |= {one.asname or one.name: (node.lineno, f"{node.module}.{one.name}") for one in node.names}
    return found


@cache
def place_of(name: str) -> Place | None:
    """Where the class or function of a dotted name is defined; None for anything else."""
    parts = name.split(".")
    for k in range(len(parts) - 1, 0, -1):
        base = ROOT / "src" / Path(*parts[:k])
        file = base.with_suffix(".py") if base.with_suffix(".py").exists() else base / "__init__.py"
        if file.exists():
            line, origin = heads(file).get(parts[k], (0, ""))
            if origin.startswith("gnomon.") and origin != name:
                return place_of(origin)
            return Place(file.relative_to(ROOT).as_posix(), line, parts[k]) if line else None
    return None


def module_of(place: Place) -> str:
    """The module that a file of gnomon is."""
    return place.file.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def evidence() -> Mapping[str, Evidence]:
    """The evidence for every row that a test names."""
    found: dict[str, Evidence] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        module = Module(path)
        for test, rows in module.tests():
            used = module.uses(test)
            for row in rows:
                one = found.setdefault(row, Evidence())
                one.tests.append(Place(module.file, test.lineno, test.name))
                one.code.update(used)
    return found


def exercised(one: Evidence, most: int) -> list[Place]:
    """What most of the tests of a row use, without what nearly every test uses."""
    telling = [place for place in one.code if module_of(place) not in EVERYWHERE] or list(one.code)
    return sorted(telling, key=lambda place: (-one.code[place], place.file, place.line))[:most]
