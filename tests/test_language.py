"""The English of gnomon: what a message says, and the field's words in names.

A message says what must hold and what was given ("n must be at least 1, got 0"); it never states a bare value
("0 units") and never says that something "is no X".
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "gnomon"


ERRORS = {"Diverged", "NoSuchAddress", "UserError", "UserTypeError", "UserValueError"}

CALQUE = re.compile(
    r"\b(is|are) (no|none)\b(?! (longer|higher|lower|more|better|worse)\b)|\b(would|will) not end\b"
    r"|\b(is|are) (outside|not possible|neither)\b|\bwhere .* (was|were) |\bmust (must|is|are)\b|circumstance"
)
"""`3 is no name`, `3 is outside [0, 1]`, `0 chains are not possible`: say `name must be text, got 3`."""

PREDICATE = re.compile(
    r"\b(must|cannot|can|is|are|was|were|has|have|had|does|do|did|needs?|takes?|names?|gives?|comes?|lies?|exceeds?"
    r"|overflows?|differs?|exists?|fits?|agrees?|visits?|holds?|reaches|determines?|unknown|required|excludes?"
    r"|missing|allows?|converge|would|overlap|predicts|changes|learns|failed|not|occurs|looks|became|expected"
    r"|unexpected|grew|ended|models|keeps|kept)\b|^no "
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


Names = Mapping[str, list[ast.expr]]
Carriers = Mapping[str, int]
"""By the name of a function: which of its arguments is a message."""


def texts(node: ast.expr | None, names: Names) -> list[str]:
    """What an expression may read as, with {} where values stand; nothing where it is not a text."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.JoinedStr):
        return ["".join(parts) for parts in product(*(texts(part, names) or ["{}"] for part in node.values))]
    if isinstance(node, ast.FormattedValue):
        return texts(node.value, names)
    if isinstance(node, ast.BinOp):
        return [left + right for left in texts(node.left, names) for right in texts(node.right, names)]
    if isinstance(node, ast.IfExp):
        return texts(node.body, names) + texts(node.orelse, names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return texts(node.func.value, names)
    if isinstance(node, ast.Name):
        return [one for value in names.get(node.id, []) for one in texts(value, {})]
    return []


def given(names: dict[str, list[ast.expr]], target: ast.expr, value: ast.expr) -> None:
    """Note what a variable, or each of several, is given."""
    if isinstance(target, ast.Name):
        names.setdefault(target.id, []).append(value)
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, its_value in zip(target.elts, value.elts, strict=True):
            given(names, one, its_value)


class Scope(NamedTuple):
    """A function as its messages are looked for."""

    node: ast.FunctionDef
    names: dict[str, list[ast.expr]]
    """What its variables are given."""
    calls: list[tuple[str, ast.Call]]
    """Calls of functions by their names, and of its own methods."""

    @property
    def arguments(self) -> list[str]:
        return [one.arg for one in self.node.args.args if one.arg not in ("self", "cls")]

    def carried(self, carriers: Carriers) -> Iterator[tuple[int, ast.expr]]:
        """Line and expression of every message that is handed to a carrier."""
        for name, call in self.calls:
            position = carriers.get(name, len(call.args))
            if position < len(call.args):
                yield call.lineno, call.args[position]


def scopes(tree: ast.Module) -> list[Scope]:
    return [scope_of(node) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def scope_of(function: ast.FunctionDef) -> Scope:
    names: dict[str, list[ast.expr]] = {}
    calls: list[tuple[str, ast.Call]] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                given(names, target, node.value)
        elif isinstance(node, ast.For) and isinstance(node.iter, ast.Tuple | ast.List):
            for value in node.iter.elts:
                given(names, node.target, value)
        elif isinstance(node, ast.Call):
            func = node.func
            if isinstance(func, ast.Name):
                calls.append((func.id, node))
            elif isinstance(func, ast.Attribute) and (func.attr == "must" or ast.unparse(func.value) == "self"):
                calls.append((func.attr, node))
    return Scope(function, names, calls)


def sources(node: ast.expr, names: Names) -> Iterator[str]:
    """The variables that hold the text of an expression."""
    if isinstance(node, ast.Name):
        yield node.id
        for value in names.get(node.id, []):
            yield from sources(value, {})
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        yield from sources(node.func.value, names)
    elif isinstance(node, ast.IfExp):
        yield from (*sources(node.body, names), *sources(node.orelse, names))


@cache
def carriers_of(top: Path) -> dict[Path, Carriers]:
    """The carriers that each file below a folder can call: errors, and functions, own or imported, that hand one on."""
    trees = {path: ast.parse(path.read_text()) for path in top.rglob("*.py")}
    files = {".".join((top.name, *path.relative_to(top).with_suffix("").parts)): path for path in trees}
    parts = {path: scopes(tree) for path, tree in trees.items()}
    known = {path: dict.fromkeys(ERRORS, 0) for path in trees}
    imports = {path: [node for node in tree.body if isinstance(node, ast.ImportFrom)] for path, tree in trees.items()}
    size = 0
    while size != (size := sum(map(len, known.values()))):
        for path, carriers in known.items():
            for scope in parts[path]:
                for name in {name for _, node in scope.carried(carriers) for name in sources(node, scope.names)}:
                    if name in scope.arguments:
                        carriers.setdefault(scope.node.name, scope.arguments.index(name))
            for line in imports[path]:
                origin = known.get(files.get(str(line.module), path), {})
                for one in line.names:
                    if one.name in origin:
                        carriers.setdefault(one.name, origin[one.name])
    return dict(known)


def messages(tree: ast.Module, carriers: Carriers) -> Iterator[tuple[int, str]]:
    """Line and text of every message that is written as a literal, also by the name of a variable or in a choice."""
    for scope in scopes(tree):
        for line, node in scope.carried(carriers):
            yield from ((line, message) for message in texts(node, scope.names))
        for line, node in scope.carried({"must": 1}):
            yield from ((line, f"{{}} must {rule}, got {{}}") for rule in texts(node, scope.names))


def definitions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of everything that a module defines: classes, functions, arguments, variables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def faults(tree: ast.Module, allowed: set[str], carriers: Carriers | None = None) -> list[str]:
    found = []
    for line, message in dict.fromkeys(messages(tree, carriers or dict.fromkeys(ERRORS, 0))):
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
    assert not faults(ast.parse(path.read_text()), EXCEPTIONS.get(name, set()), carriers_of(SOURCE)[path]), name


@pytest.mark.parametrize(
    "code",
    [
        'raise UserValueError(f"{x!r} is no name", "name")', 'raise UserTypeError("bounds are no box", "bounds")',
        'raise UserValueError(f"{n} units", "n")', 'what = f"mass {n}"\n    raise UserValueError(what, "mass")',
        'raise UserValueError("a mask of " f"shape {x}", "mask")', 'raise UserValueError.must("n", "is 1", n)',
        'raise UserValueError(f"n {n} is outside [0, 1]", "n")', 'raise UserError(f"{n} rows where 2 were made", "n")',
        "told = x", "def law(x): return x",
    ],
)  # fmt: skip
def test_faults_are_seen(code):
    assert len(faults(ast.parse(f"def f(x, n):\n    {code}\n"), set())) == 1


HANDED_ON = """
def refuse(wrong, what, remedy):
    raise UserValueError(what.format(wrong), "", remedy)

def check(x):
    for bad, what in ((x < 0, "{} units"), (x > 9, "x must be at most 9, got {}")):
        refuse(bad, what, "give another")
    refuse(x, "3 units" if x else "x must be 0", "")
"""


def test_messages_that_a_function_hands_on_are_seen(tmp_path):
    (tmp_path / "of.py").write_text(HANDED_ON)
    (tmp_path / "by.py").write_text(f"from {tmp_path.name}.of import refuse\ndef f(x):\n    refuse(x, '4 units', '')\n")
    carriers = carriers_of(tmp_path)
    found = {path.name: faults(ast.parse(path.read_text()), set(), carriers[path]) for path in carriers}
    assert [len(found[name]) for name in ("of.py", "by.py")] == [2, 1]
    assert "4 units" in found["by.py"][0]


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


HEADING = re.compile(r"^ *(Parameters|Attributes|Returns|Raises|Notes|References|Examples) -{3,}", re.MULTILINE)


def test_headings_of_docstrings_have_a_line_of_their_own():
    """What rewraps a docstring may join a heading with the text under it: the section is gone for every reader."""
    assert HEADING.search("    Notes ----- Of one layer") and not HEADING.search(
        "    Notes\n    -----\n    Of one layer"
    )
    broken = [str(path) for path in SOURCE.rglob("*.py") if HEADING.search(path.read_text(encoding="utf-8"))]
    assert not broken
