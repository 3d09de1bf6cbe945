"""Source files by module name, their classes and what they import: read by ``ast``, nothing is imported."""

from __future__ import annotations

import ast
import importlib.util
from functools import cache, cached_property
from pathlib import Path
from typing import Any

__all__ = ["SourceModule", "assigned", "locate", "names_of"]


def locate(module: str) -> Path | None:
    """The source file of a module, None where there is none.

    Only the top package is looked up; `find_spec` of a submodule would import its parents.

    Examples
    --------
    >>> locate("gnomon.errors").name
    'errors.py'
    """
    top, *rest = module.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return None
    if not rest:
        return Path(spec.origin)
    for root in map(Path, spec.submodule_search_locations or ()):
        place = root.joinpath(*rest)
        for file in (place.with_name(place.name + ".py"), place / "__init__.py"):
            if file.is_file():
                return file
    return None


class SourceModule:
    """A module's source."""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path = name, path
        self.text = path.read_text(encoding="utf-8")

    @staticmethod
    @cache
    def of(name: str) -> SourceModule:
        """The source of a module.

        Raises
        ------
        ValueError
            There is none.
        """
        path = locate(name)
        if path is None:
            raise ValueError(f"no source of module {name}")
        return SourceModule(name, path)

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text, str(self.path))

    @cached_property
    def own(self) -> dict[str, ast.ClassDef]:
        """Classes that the module defines, by name."""
        return {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}

    @cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """Where names come from: (module, name there), for ``from module import name``."""
        found = {}
        for node in self.tree.body:
            if isinstance(node, ast.ImportFrom):
                source = self._absolute(node)
                found.update({alias.asname or alias.name: (source, alias.name) for alias in node.names})
        return found

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        keep = parts[: len(parts) - node.level + (self.path.name == "__init__.py")]
        return ".".join([*keep, *([node.module] if node.module else [])])

    def resolve(self, name: str) -> tuple[SourceModule, ast.ClassDef] | None:
        """The class that a name means here: defined here, or imported from gnomon or from this module's own package."""
        if name in self.own:
            return self, self.own[name]
        if name not in self.imports:
            return None
        source, there = self.imports[name]
        return SourceModule.of(source).resolve(there) if self._readable(source) else None

    def _readable(self, module: str) -> bool:
        """Whether a module belongs to gnomon or to this one's package, and has source."""
        tops = {self.name.partition(".")[0], __name__.partition(".")[0]}
        return module.partition(".")[0] in tops and locate(module) is not None

    def find(self, name: str) -> ast.ClassDef | None:
        """The class that a name means here."""
        found = self.resolve(name)
        return found[1] if found else None

    def lineage(self, node: ast.ClassDef) -> list[ast.ClassDef]:
        """The class and its ancestors, as far as they can be read, in the order of method resolution."""
        return [one for _, one in self.ancestry(node)]

    def ancestry(self, node: ast.ClassDef) -> list[tuple[SourceModule, ast.ClassDef]]:
        """The lineage, each class with its module; a base of several bases stands after all of them."""
        family = self._walk(node)
        last = {id(one): place for place, (_, one) in enumerate(family)}
        return [(home, one) for place, (home, one) in enumerate(family) if last[id(one)] == place]

    def _walk(self, node: ast.ClassDef) -> list[tuple[SourceModule, ast.ClassDef]]:
        found = self.resolve(node.name)
        home = found[0] if found else self
        family = [(home, node)]
        for base in node.bases:
            parent = home.resolve(base.id) if isinstance(base, ast.Name) else None
            if parent:
                family += parent[0]._walk(parent[1])
        return family

    def mapping(self, node: ast.ClassDef, name: str) -> dict[str, str]:
        """A class attribute that maps texts to classes, ``module:Class`` by text, with those of the ancestors."""
        found: dict[str, str] = {}
        for home, one in reversed(self.ancestry(node)):
            value = assigned(one, name)
            pairs = zip(value.keys, value.values, strict=True) if isinstance(value, ast.Dict) else ()
            for key, named in pairs:
                meant = home.resolve(named.id) if isinstance(named, ast.Name) else None
                if meant and isinstance(key, ast.Constant):
                    found[str(key.value)] = f"{meant[0].name}:{meant[1].name}"
        return found

    def class_attribute(self, node: ast.ClassDef, name: str) -> tuple[SourceModule, ast.ClassDef] | None:
        """The class that a class attribute names, along the lineage."""
        for home, one in self.ancestry(node):
            value = assigned(one, name)
            if value is not None:
                return home.resolve(value.id) if isinstance(value, ast.Name) else None
        return None

    def attribute(self, node: ast.ClassDef, name: str) -> Any:
        """A class attribute along the lineage: its literal value, or the name that stands there; None without one."""
        for one in self.lineage(node):
            value = assigned(one, name)
            if value is not None:
                return value.id if isinstance(value, ast.Name) else _constant(value)
        return None


def assigned(node: ast.ClassDef, name: str) -> ast.expr | None:
    """What a class gives a name in its body."""
    for line in node.body:
        if not isinstance(line, ast.AnnAssign | ast.Assign):
            continue
        for target in [line.target] if isinstance(line, ast.AnnAssign) else line.targets:
            if isinstance(target, ast.Name) and target.id == name:
                return line.value
    return None


def _constant(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def names_of(node: ast.expr) -> set[str]:
    """Every name and attribute in an expression."""
    named = (n for n in ast.walk(node) if isinstance(n, ast.Name | ast.Attribute))
    return {n.id if isinstance(n, ast.Name) else n.attr for n in named}
