"""Write api/<room>.json, the public names with their signatures: ``python tools/api_surface.py``.

One file per room, and one per family of systems, so that changes of different rooms never meet in one file. Read by ast
from the source, so that it is the same on every machine. A change of it is a change of what users call; a test keeps it
fresh, and a review sees it as a diff.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

ROOT = Path(__file__).parent.parent
API = ROOT / "api"
Function = ast.FunctionDef | ast.AsyncFunctionDef


def surface(top: Path) -> dict[str, dict[str, str]]:
    """Module -> public name (methods as Class.method) -> signature; of every module with an `__all__`."""
    found = {}
    for path in sorted(top.rglob("*.py")):
        parts = path.relative_to(top.parent).with_suffix("").parts
        if any(part.startswith("_") and part != "__init__" for part in parts):
            continue
        names = public(ast.parse(path.read_text(encoding="utf-8")))
        if names:
            found[".".join(part for part in parts if part != "__init__")] = names
    return dict(sorted(found.items()))


def public(tree: ast.Module) -> dict[str, str]:
    """The names of a module's `__all__`, in order of name."""
    nodes = {node.name: node for node in tree.body if isinstance(node, Function | ast.ClassDef)}
    found: dict[str, str] = {}
    for name in _all(tree):
        node = nodes.get(name)
        if isinstance(node, ast.ClassDef):
            found |= _of_class(node)
        else:
            found[name] = "" if node is None else _signature(node)
    return dict(sorted(found.items()))


def _all(tree: ast.Module) -> list[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            entries = node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else []
            return [one.value for one in entries if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return []


def _of_class(node: ast.ClassDef) -> dict[str, str]:
    """The class with its bases and fields, and its public methods and constructor."""
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    fields = [ast.unparse(line) for line in node.body if isinstance(line, ast.AnnAssign) and _is_public(line.target)]
    found = {node.name: f"class({bases})" + (f" {{{'; '.join(fields)}}}" if fields else "")}
    for line in node.body:
        if isinstance(line, Function) and (line.name == "__init__" or not line.name.startswith("_")):
            found[f"{node.name}.{line.name}"] = _signature(line)
    return found


def _is_public(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and not target.id.startswith("_")


def _signature(node: Function) -> str:
    kinds = [ast.unparse(one) for one in node.decorator_list]
    known = [f"@{kind} " for kind in kinds if kind in ("property", "classmethod", "staticmethod", "cached_property")]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return "".join(known) + f"({ast.unparse(node.args)}){returns}"


def room(module: str) -> str:
    """The file of a module: its room, of a system its family, of a module at the top ``gnomon``."""
    parts = module.split(".")
    if parts[1:2] == ["systems"]:
        return "-".join(parts[1:3])
    return parts[1] if len(parts) > 1 and (ROOT / "src" / "gnomon" / parts[1]).is_dir() else "gnomon"


def render() -> dict[str, str]:
    """The text of each file by its name."""
    rooms: dict[str, dict[str, dict[str, str]]] = {}
    for module, names in surface(ROOT / "src" / "gnomon").items():
        rooms.setdefault(room(module), {})[module] = names
    return {f"{name}.json": json.dumps(found, indent=1, ensure_ascii=False) + "\n" for name, found in rooms.items()}


def main() -> None:
    """Write the files, and take away those of rooms that are gone."""
    texts = render()
    API.mkdir(exist_ok=True)
    for file in API.glob("*.json"):
        if file.name not in texts:
            file.unlink()
    for name, text in texts.items():
        if not (API / name).exists() or (API / name).read_text(encoding="utf-8") != text:
            (API / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
