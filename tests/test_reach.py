"""Every mechanism has a user: recipes stand in a slot, modules are imported or documented, objectives are used."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import gnomon
import gnomon.data
from gnomon.catalog import ENTRIES
from gnomon.recipes.imports import load
from gnomon.recipes.slots import choices, where

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "gnomon"

FOUND_BY_NAME = ("gnomon.catalog.", "gnomon.cli.", "gnomon.tasks.")
"""Rooms whose modules are found by their file's name: families of the catalog, commands, tasks."""


def module_of(path: Path) -> str:
    return ".".join(("gnomon", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


TREES = {module_of(path): ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}


def named(node: ast.ClassDef, attribute: str) -> Any:
    """The literal that a class sets an attribute to in its body, else None."""
    for line in node.body:
        targets = (
            line.targets if isinstance(line, ast.Assign) else [line.target] if isinstance(line, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == attribute for target in targets):
            value = line.value  # type: ignore[union-attr]
            return value.value if isinstance(value, ast.Constant) else None
    return None


def classes(trees: Mapping[str, ast.Module]) -> Iterator[tuple[str, ast.ClassDef]]:
    for module, tree in trees.items():
        yield from ((module, node) for node in tree.body if isinstance(node, ast.ClassDef))


@cache
def reached() -> frozenset[str]:
    """The recipes among the choices of the slots of all systems and verbs, and of the slots of these in turn."""
    found: set[str] = set()
    left = [dict(load(entry.where).slots) for entry in ENTRIES] + [dict(load("gnomon.tasks.posterior:SLOTS"))]
    while left:
        for base in left.pop().values():
            for place in choices(where(base)).values():
                if place not in found:
                    found.add(place)
                    left.append(dict(getattr(load(place), "slots", {})))
    return frozenset(found)


def test_every_recipe_is_a_choice_of_some_slot():
    recipes = {f"{module}:{node.name}" for module, node in classes(TREES) if named(node, "short")}
    assert not recipes - reached()
    assert len(recipes) > 100


def imports(trees: Mapping[str, ast.Module]) -> set[str]:
    """Modules that another module imports, lazily or not."""
    found = set()
    for module, tree in trees.items():
        for node in ast.walk(tree):
            names: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
            elif isinstance(node, ast.Import):
                names = [one.name for one in node.names]
            found |= {name for name in names if name != module}
    return found


def unreached(trees: Mapping[str, ast.Module], page: str) -> set[str]:
    """Public modules that nothing imports, no public name leads to, and no page of the documentation names."""
    public = {place.partition(":")[0] for place in gnomon._WHERE.values()}
    known = imports(trees) | public | {place.partition(":")[0] for place in reached()}
    files = {module for module in trees if "._" not in module and module != "gnomon" and ".__" not in module}
    rooms = {module.rpartition(".")[0] for module in trees}
    return {
        module for module in files - known - rooms
        if not module.startswith(FOUND_BY_NAME) and f"| {module.removeprefix('gnomon.')} |" not in page
    }  # fmt: skip


def test_every_module_is_imported_or_documented():
    page = (ROOT / "docs" / "parts.md").read_text(encoding="utf-8")
    assert not unreached(TREES, page)
    stray = {**TREES, "gnomon.training.stray": ast.parse("x = 1")}
    assert unreached(stray, page) == {"gnomon.training.stray"}


ALONE = {
    "data.image_geometry:to_hsv": "for images of one's own: augmentation turns hues within its compiled loop",
    "data.image_geometry:to_rgb": "the way back of to_hsv",
    "data.hard_examples:HardExamples": "for training loops of one's own: no system draws rows by their losses",
    "objectives.losses:cross_entropy_backward": "theory: the gradient by hand, which tests hold against autograd",
    "objectives.adversarial:game_value": "theory: the value of the game at the optimal critic",
    "objectives.sampled_softmax:sampled_softmax": "for networks of one's own: no system has so many words",
    "objectives.sampled_softmax:conditional_nce": "for networks of one's own, as sampled_softmax",
    "objectives.sampled_softmax:effective_words": "theory: how much a sample of words is worth",
    "training.games:simulate_game": "theory: where simultaneous gradient steps lead",
}
"""Mechanisms that stand on their own, and why."""


def mentions(tree: ast.Module) -> Iterator[str]:
    """Every name that a module reads or imports, once for each time."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (one.name for one in node.names)


def unused_mechanisms(trees: Mapping[str, ast.Module]) -> set[str]:
    """Public classes and functions of data, objectives and training that the package neither uses nor offers."""
    users: dict[str, set[str]] = {}
    for module, tree in trees.items():
        for name in mentions(tree):
            users.setdefault(name, set()).add(module)
    offered = reached() | {
        *gnomon._WHERE.values(),
        *(f"gnomon.data.{at}:{it}" for it, at in gnomon.data._WHERE.items()),
    }
    return {
        f"{module}:{node.name}".removeprefix("gnomon.")
        for module, tree in trees.items() if module.split(".")[1:2] in (["data"], ["objectives"], ["training"])
        for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
        if node.name not in users and f"{module}:{node.name}" not in offered
    }  # fmt: skip


def test_every_mechanism_has_a_user():
    assert unused_mechanisms(TREES) == set(ALONE)
    stray = {**TREES, "gnomon.training.stray": ast.parse("class Idle:\n def start(self): ...\n def step(self): ...")}
    assert unused_mechanisms(stray) == {*ALONE, "training.stray:Idle"}


def test_the_page_of_parts_is_fresh():
    spec = importlib.util.spec_from_file_location("write_parts", ROOT / "tools" / "write_parts.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.PAGE.read_text(encoding="utf-8") == tool.render(), "run make generate"
