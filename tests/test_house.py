"""The house: no circle of imports among files, those inside functions included.

import-linter holds the order of the rooms (pyproject.toml); this holds the order of the files within them. An import
for annotations alone (``if TYPE_CHECKING``) never runs and does not count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "gnomon"


def sources() -> dict[str, ast.Module]:
    """Every module of gnomon by name, a package under the name of its ``__init__``."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = ("gnomon", *path.relative_to(SOURCE).with_suffix("").parts)
        found[".".join(parts)] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports below a node, late ones too, without those for annotations alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):  # an expression imports nothing
            yield from statements(child)


def imports(tree: ast.Module, modules: frozenset[str]) -> set[str]:
    """The modules among `modules` that a module imports, early or late."""
    names: set[str] = set()
    for line in statements(tree):
        if isinstance(line, ast.Import):
            names |= {one.name for one in line.names}
        else:
            assert line.level == 0, "gnomon imports by full names"
            inner = {f"{line.module}.{one.name}" for one in line.names}
            names |= {name if is_module(name, modules) else str(line.module) for name in inner}
    return {name if name in modules else f"{name}.__init__" for name in names if is_module(name, modules)}


def is_module(name: str, modules: frozenset[str]) -> bool:
    return name in modules or f"{name}.__init__" in modules


def circle(trees: Mapping[str, ast.Module]) -> list[str]:
    """A circle of imports, the first module again at its end; empty where there is none."""
    modules = frozenset(trees)
    graph = {name: imports(tree, modules) - {name} for name, tree in trees.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def test_no_circle_among_files():
    trees = sources()
    assert len(trees) > 300
    assert not circle(trees)


def test_a_late_circle_is_seen():
    late = "def f():\n    from gnomon.data.upper import g\n    return g()\n"
    trees = {"gnomon.data.lower": ast.parse(late), "gnomon.data.upper": ast.parse("import gnomon.data.lower\n")}
    assert set(circle(trees)) == {"gnomon.data.lower", "gnomon.data.upper"}


def test_a_circle_through_a_package_is_seen():
    trees = {
        "gnomon.data.__init__": ast.parse("from gnomon.data.names import names\n"),
        "gnomon.data.names": ast.parse("from gnomon.data import load\n"),
    }
    assert circle(trees)[0] == circle(trees)[-1]
    assert len(circle(trees)) == 3


def test_an_import_for_annotations_closes_no_circle():
    upper = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from gnomon.data.lower import g\n"
    trees = {"gnomon.data.lower": ast.parse("import gnomon.data.upper\n"), "gnomon.data.upper": ast.parse(upper)}
    assert not circle(trees)
