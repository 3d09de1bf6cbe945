"""The list of public names: fresh, complete, and sensitive to every change that a user would notice."""

from __future__ import annotations

import ast
import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("api_surface", ROOT / "tools" / "api_surface.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def known(tool):
    """Module -> name -> signature, as it stands in the files."""
    files = sorted(tool.API.glob("*.json"))
    return {module: names for file in files for module, names in json.loads(file.read_text(encoding="utf-8")).items()}


def test_it_is_fresh(tool):
    written, now = known(tool), {k: v for text in tool.render().values() for k, v in json.loads(text).items()}
    changed = [
        f"{module}: {name}"
        for module in sorted({*written, *now})
        for name in sorted({*written.get(module, {}), *now.get(module, {})})
        if written.get(module, {}).get(name) != now.get(module, {}).get(name)
    ]
    assert changed == [], "run python tools/api_surface.py"


def test_every_room_and_every_family_of_systems_has_a_file(tool):
    files = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in tool.API.glob("*.json")}
    assert {f"{stem}.json" for stem in files} == set(tool.render())
    assert {"gnomon", "system", "systems-energy", "systems-linear"} <= set(files)
    assert all(module.startswith("gnomon.systems.energy") for module in files["systems-energy"])
    assert "gnomon.contracts" in files["gnomon"] and "gnomon.data" in files["data"]


def test_it_holds_what_users_call(tool):
    found = known(tool)
    assert found["gnomon.tasks.compare"]["compare"].startswith("(systems: Sequence[str | System], data: ")
    assert "System.fit" in found["gnomon.system.base"] and "System._fit" not in found["gnomon.system.base"]
    assert found["gnomon.evaluation.score"]["Score.from_pointwise"].startswith("@classmethod (cls, values")
    assert not any("._" in module for module in found)


SOURCE = """
__all__ = ["A", "f", "LIMIT"]
LIMIT = 3
def f(a: int, *, b: str = "x") -> int: ...
def hidden(): ...
class A(Base):
    size: int = 3
    def __init__(self, n=1): ...
    @property
    def half(self) -> float: ...
    def _own(self): ...
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("b: str", "b: str | None"),
        ('= "x"', '= "y"'),
        ("a: int, *", "*, a: int"),
        ("-> int", "-> float"),
        ("n=1", "n=2"),
        ("size: int", "size: float"),
        ("    @property\n", ""),
        ("A(Base)", "A(Other)"),
        ("def half", "def third"),
        (', "f"', ""),
    ],
)
def test_a_change_that_a_user_notices_changes_it(tool, before, after):
    assert before in SOURCE
    first, second = tool.public(ast.parse(SOURCE)), tool.public(ast.parse(SOURCE.replace(before, after, 1)))
    assert first != second


def test_what_is_private_changes_nothing(tool):
    first = tool.public(ast.parse(SOURCE))
    assert set(first) == {"A", "A.__init__", "A.half", "f", "LIMIT"}
    for before, after in (("_own(self)", "_own(self, more)"), ("hidden()", "hidden(x)")):
        assert first == tool.public(ast.parse(SOURCE.replace(before, after)))
