"""The English of gnomon: what a message says, and the field's words in names.

A message says what must hold and what was given ("n must be at least 1, got 0"); it never states a bare value
("0 units") and never says that something "is no X".
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "gnomon"


ERRORS = {"Diverged", "NoSuchAddress", "UserError", "UserTypeError", "UserValueError"}

CALQUE = re.compile(r"\b(is|are) (no|none)\b(?! (longer|higher|lower|more|better|worse)\b)|\b(would|will) not end\b")
"""`3 is no name`: say `name must be text, got 3`."""

PREDICATE = re.compile(
    r"\b(must|cannot|can|is|are|was|were|has|have|had|does|do|did|needs?|takes?|names?|gives?|comes?|lies?|exceeds?"
    r"|overflows?|differs?|exists?|fits?|agrees?|visits?|holds?|reaches|determines?|unknown|required|excludes?"
    r"|missing|allows?|converge|would|overlap|predicts|changes|learns|failed|not|occurs|looks|became|expected"
    r"|unexpected)\b|^no "
)
"""A message without any of these words states a value and not what is wrong with it; "no column 'x'" does say it."""

FORBIDDEN = {
    "law": "distribution", "laws": "distributions", "odd": "anomalous", "odder": "more anomalous", "told": "message",
    "said": "predictions", "asked": "query",
}  # fmt: skip
"""Words of everyday speech where the field has one of its own."""

FOREIGN = re.compile(
    r"Expected 2D array|Complex data not supported|Input \{\} |inconsistent numbers of samples|Unknown label type"
    r"|Sparse data|\.shape == |argument must be"
)
"""Texts that scikit-learn's `check_estimator` looks for; they are scikit-learn's own."""

EXCEPTIONS = {
    "numeric/fast.py": {"odd"},  # odd numbers
    "numeric/philox_torch.py": {"odd"},
}  # fmt: skip


def text(node: ast.expr | None, names: dict[str, ast.expr]) -> str | None:
    """A literal text with {} where values stand; None where it is not one."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(text(part, names) or "{}" for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return text(node.value, names)
    if isinstance(node, ast.BinOp):
        left, right = text(node.left, names), text(node.right, names)
        return None if left is None or right is None else left + right
    if isinstance(node, ast.Name) and node.id in names:
        return text(names[node.id], {})
    return None


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of every message that is written as a literal, directly or by the name of a local variable."""
    for scope in ast.walk(tree):
        if not isinstance(scope, ast.FunctionDef):
            continue
        names = {
            target.id: node.value
            for node in ast.walk(scope) if isinstance(node, ast.Assign)
            for target in node.targets if isinstance(target, ast.Name)
        }  # fmt: skip
        for call in ast.walk(scope):
            if not isinstance(call, ast.Call) or not call.args:
                continue
            if isinstance(call.func, ast.Name) and call.func.id in ERRORS:
                message = text(call.args[0], names)
                if message is not None:
                    yield call.lineno, message


def definitions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of everything that a module defines: classes, functions, arguments, variables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def faults(tree: ast.Module, allowed: set[str]) -> list[str]:
    found = []
    for line, message in messages(tree):
        if FOREIGN.search(message):
            continue
        if CALQUE.search(message):
            found.append(f"{line}: {message!r}: say what must hold: 'x must be ..., got ...'")
        elif not PREDICATE.search(message):
            found.append(f"{line}: {message!r} states a value: say what must hold")
    for line, name in definitions(tree):
        for word in set(name.lower().strip("_").split("_")) & set(FORBIDDEN) - allowed:
            found.append(f"{line}: {name!r}: call it {FORBIDDEN[word]!r}")
    return found


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_messages_say_what_must_hold_and_names_are_the_fields(path):
    name = path.relative_to(SOURCE).as_posix()
    assert not faults(ast.parse(path.read_text()), EXCEPTIONS.get(name, set())), name


@pytest.mark.parametrize(
    "code",
    [
        'raise UserValueError(f"{x!r} is no name", "name")', 'raise UserTypeError("bounds are no box", "bounds")',
        'raise UserValueError(f"{n} units", "n")', 'what = f"mass {n}"\n    raise UserValueError(what, "mass")',
        'raise UserValueError("a mask of " f"shape {x}", "mask")', "told = x", "def law(x): return x",
    ],
)  # fmt: skip
def test_faults_are_seen(code):
    assert len(faults(ast.parse(f"def f(x, n):\n    {code}\n"), set())) == 1


def test_good_messages_pass():
    code = 'def f(n):\n    raise UserValueError(f"n must be at least 1, got {n}", "n")\n'
    assert not faults(ast.parse(code), set())


def test_a_class_name_has_one_owner():
    """Recipes share names with what they choose (`Normal` weights, the `Normal` distribution); no other classes do."""
    owners: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not is_recipe(node):
                owners.setdefault(node.name, set()).add(path.relative_to(SOURCE).as_posix())
    shared = {name: places - {"contracts.py"} for name, places in owners.items()}  # a contract and what keeps it
    assert not {name: places for name, places in shared.items() if len(places) > 1}


def is_recipe(node: ast.ClassDef) -> bool:
    """Whether a class has a short name for a slot."""
    targets = [line.target for line in node.body if isinstance(line, ast.AnnAssign)]
    return any(isinstance(target, ast.Name) and target.id == "short" for target in targets)
