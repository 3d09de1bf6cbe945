"""Cards of parts: signature, parameters and documentation, read from the source text without importing it."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gnomon.catalog.cards import documented
from gnomon.catalog.parts import Part
from gnomon.recipes.source import SourceModule, names_of

__all__ = ["Argument", "PartCard", "read"]

Head = ast.ClassDef | ast.FunctionDef
_SECTION = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", re.MULTILINE)


@dataclass(frozen=True)
class Argument:
    """What a part is called with.

    Parameters
    ----------
    name : str
        With its stars, where it takes any number.
    kind : str
        What it takes: the words of the docstring, or the annotation.
    default : str
        Source text; "" where there is none.
    description : str
    """

    name: str
    kind: str
    default: str = ""
    description: str = ""


@dataclass(frozen=True)
class PartCard:
    """What is known of a part without importing it.

    Parameters
    ----------
    part : Part
    kind : {"class", "function", "protocol"}
    call : tuple of str or None
        What stands between the brackets of its signature, an argument each; None of a protocol, which nobody calls.
    returns : str
        Annotation of what a function returns; "" where there is none.
    text : str
        The docstring up to its first section.
    arguments : tuple of Argument
    sections : mapping of str to str
        Further sections of the docstring (Returns, Raises, Notes ...) by title, but for the example.
    example : str
    methods : mapping of str to str
        Of a class its public methods and their summaries, inherited ones after its own.
    short : str
        Of a recipe its name on the command line.
    """

    part: Part
    kind: str
    call: tuple[str, ...] | None
    returns: str
    text: str
    arguments: tuple[Argument, ...]
    sections: dict[str, str] = field(hash=False)
    example: str
    methods: dict[str, str] = field(hash=False)
    short: str = ""

    @property
    def signature(self) -> str:
        """As it is called, in one line; "" of a protocol."""
        if self.call is None:
            return ""
        return f"{self.part.name}({', '.join(self.call)})" + (f" -> {self.returns}" if self.returns else "")


def read(part: Part) -> PartCard:
    """The card of a part.

    Examples
    --------
    >>> from gnomon.catalog.parts import find
    >>> card = read(find("average_precision")[0])
    >>> card.kind, card.signature.partition("(")[0], [one.name for one in card.arguments][:2]
    ('function', 'average_precision', ['y', 'score'])
    """
    where, _, name = part.where.partition(":")
    module = SourceModule.of(where)
    node = [one for one in module.tree.body if isinstance(one, Head) and one.name == name][-1]  # after its overloads
    doc = ast.get_docstring(node) or ""
    text, sections = _split(doc)
    example = sections.pop("Examples", "")
    sections.pop("Parameters", None)
    found = list(_arguments(module, node))
    stated = documented(doc)
    arguments = tuple(_explained(one, *stated.get(one.name.lstrip("*"), ("", ""))) for one in found if one.name != "*")
    call = tuple(map(_written, found))
    if isinstance(node, ast.FunctionDef):
        returns = ast.unparse(node.returns) if node.returns else ""
        return PartCard(part, "function", call, returns, text, arguments, sections, example, {})
    methods, short = _methods(module, node), module.attribute(node, "short")
    if any("Protocol" in names_of(base) for base in node.bases):
        return PartCard(part, "protocol", None, "", text, arguments, sections, example, methods)
    return PartCard(part, "class", call, "", text, arguments, sections, example, methods, short or "")


# --- documentation --------------------------------------------------------------------------------------------------


def _split(doc: str) -> tuple[str, dict[str, str]]:
    """The text before the first section, and the sections by title."""
    text, *rest = _SECTION.split(doc)
    return text.strip(), {title: body.strip("\n") for title, body in zip(rest[::2], rest[1::2], strict=True)}


def _explained(one: Argument, kind: str, description: str) -> Argument:
    """The argument with what the docstring says of it."""
    kind = kind.partition(", default")[0].removesuffix(", optional") or one.kind
    return Argument(one.name, kind, one.default, description)


def _methods(module: SourceModule, node: ast.ClassDef) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in module.lineage(node):
        for function in (n for n in one.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")):
            marks = {name for decorator in function.decorator_list for name in names_of(decorator)}
            if not marks & {"property", "cached_property", "overload"}:
                found.setdefault(function.name, (ast.get_docstring(function) or "").partition("\n")[0])
    return found


# --- arguments ------------------------------------------------------------------------------------------------------


def _written(one: Argument) -> str:
    """An argument as it stands in a signature."""
    text = f"{one.name}: {one.kind}" if one.kind else one.name
    return text + (f"{' = ' if one.kind else '='}{one.default}" if one.default else "")


def _arguments(module: SourceModule, node: Head) -> Iterator[Argument]:
    """Those of a function; of a class those of the nearest constructor along its lineage, written or made of fields."""
    if isinstance(node, ast.FunctionDef):
        yield from _of_function(node)
        return
    lineage = module.lineage(node)
    for one in lineage:
        written = next((n for n in one.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
        if written is not None:
            yield from list(_of_function(written))[1:]
            return
        if _has_fields(one):
            yield from _of_fields(lineage[lineage.index(one) :])
            return


def _of_function(node: ast.FunctionDef) -> Iterator[Argument]:
    given = node.args
    places = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(places) - len(given.defaults)) + list(given.defaults)
    for one, default in zip(places, defaults, strict=True):
        yield _argument(one.arg, one.annotation, default)
    if given.vararg:
        yield _argument(f"*{given.vararg.arg}", given.vararg.annotation, None)
    elif given.kwonlyargs:
        yield Argument("*", "")
    for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield _argument(one.arg, one.annotation, default)
    if given.kwarg:
        yield _argument(f"**{given.kwarg.arg}", given.kwarg.annotation, None)


def _has_fields(node: ast.ClassDef) -> bool:
    """Whether the constructor follows from the fields."""
    decorated = {name for one in node.decorator_list for name in names_of(one)}
    return "dataclass" in decorated or any("NamedTuple" in names_of(base) for base in node.bases)


def _of_fields(lineage: list[ast.ClassDef]) -> Iterator[Argument]:
    """Fields of a data class: those of its bases first, each where it stands first, with the nearest default."""
    found: dict[str, Argument] = {}
    named: dict[str, Argument] = {}
    for one in reversed(lineage):
        by_name = any("kw_only=True" in ast.unparse(decorator) for decorator in one.decorator_list)
        for line in one.body if _has_fields(one) else []:
            if not isinstance(line, ast.AnnAssign) or not isinstance(line.target, ast.Name):
                continue
            if "ClassVar" in names_of(line.annotation) or _not_given(line.value):
                continue
            (named if by_name else found)[line.target.id] = _argument(line.target.id, line.annotation, line.value)
    yield from found.values()
    if named:
        yield Argument("*", "")
        yield from named.values()


def _not_given(value: ast.expr | None) -> bool:
    """Whether a field is none of the constructor's: ``field(init=False)``."""
    words = value.keywords if isinstance(value, ast.Call) else []
    return any(one.arg == "init" and ast.unparse(one.value) == "False" for one in words)


def _argument(name: str, annotation: ast.expr | None, default: ast.expr | None) -> Argument:
    bare = "" if annotation is None else ast.unparse(_Bare().visit(copy.deepcopy(annotation)))
    return Argument(name, bare, _default(default))


class _Bare(ast.NodeTransformer):
    """Puts the type in the place of ``Annotated[type, ...]``."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if names_of(node.value) != {"Annotated"} or not isinstance(node.slice, ast.Tuple):
            return node
        return node.slice.elts[0]


def _default(value: ast.expr | None) -> str:
    """Source text of a default, of ``field(default=...)`` what stands in it."""
    if isinstance(value, ast.Call) and names_of(value.func) == {"field"}:
        inside = {one.arg: one.value for one in value.keywords}
        if "default_factory" in inside:
            return f"{ast.unparse(inside['default_factory'])}()"
        value = inside.get("default")
    return "" if value is None else ast.unparse(value)
