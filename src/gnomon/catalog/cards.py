"""Cards: a system's parameters, verbs and documentation, read from its source text without importing it.

What a card knows of a parameter comes from the fields that the class and its bases declare (type, interval, choices,
sentence, default); of a class that writes its constructor from the signature and the numpydoc section ``Parameters``.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from gnomon.catalog.verbs import HOOKS, VERBS, allows
from gnomon.recipes.slots import choices
from gnomon.recipes.source import SourceModule, names_of

if TYPE_CHECKING:
    from gnomon.catalog import Entry

__all__ = ["REQUIRED", "Card", "Kind", "Parameter", "Preset", "RecipeCard", "documented", "read", "read_recipe"]

REQUIRED: Any = inspect.Parameter.empty
"""Default of a parameter that has none."""

PLAIN = ("int", "float", "bool", "str")


@dataclass(frozen=True)
class Kind:
    """One of the kinds of values that a parameter takes.

    Parameters
    ----------
    name : {"int", "float", "bool", "str", "choice", "tuple", "recipe", "object"}
    interval : str
        Of a number, for example ``[1, inf)``; "" for any.
    choices : tuple of str
        Of a choice.
    items : tuple of Kind
        Of a tuple.
    many : bool
        The tuple has any number of items of one kind.
    """

    name: str
    interval: str = ""
    choices: tuple[str, ...] = ()
    items: tuple[Kind, ...] = ()
    many: bool = False

    def __str__(self) -> str:
        if self.name == "choice":
            return "{" + ", ".join(self.choices) + "}"
        if self.name == "tuple":
            return "x".join(map(str, self.items)) + ("x..." if self.many else "")
        return self.name + (f" in {self.interval}" if self.interval else "")


@dataclass(frozen=True)
class Preset:
    """A recipe with values of its own that a slot holds by default.

    Parameters
    ----------
    short : str
    fields : mapping of str to object
        Those that are set.
    """

    short: str
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return f"{self.short} with {', '.join(f'{name} {value}' for name, value in self.fields.items())}"


@dataclass(frozen=True)
class Parameter:
    """One parameter.

    Parameters
    ----------
    name : str
    kinds : tuple of Kind
        What it takes; empty when only None, or only objects that no command line can name.
    optional : bool
        Whether it may be None.
    default : object
        A literal, a `Preset`, or `REQUIRED`.
    description : str
    """

    name: str
    kinds: tuple[Kind, ...]
    optional: bool
    default: Any
    description: str

    @property
    def slot(self) -> bool:
        """Whether it takes a recipe."""
        return any(kind.name == "recipe" for kind in self.kinds)

    @property
    def preset(self) -> Preset:
        """The recipe that a slot holds by default."""
        return self.default if isinstance(self.default, Preset) else Preset(str(self.default))

    @property
    def option(self) -> str:
        """Its name on the command line, without the two hyphens."""
        return self.name.replace("_", "-")

    def __str__(self) -> str:
        return " or ".join([*(str(kind) for kind in self.kinds), *(["none"] if self.optional else [])])


class _HasSlots:
    """What has parameters and slots."""

    parameters: tuple[Parameter, ...]
    slots: Mapping[str, str]

    @cached_property
    def recipes(self) -> dict[str, dict[str, RecipeCard]]:
        """What fits each slot, by short name: from the room of the slot's base and from plug-ins."""
        return {
            slot: {short: read_recipe(place, slot, short) for short, place in choices(base).items()}
            for slot, base in self.slots.items()
        }

    def fitting(self, inside: Sequence[str] = ()) -> dict[str, list[RecipeCard]]:
        """The recipes by slot; no slot in its like, which would have no end.

        Parameters
        ----------
        inside : sequence of str
            Bases of the slots around.
        """
        return {slot: list(self.recipes[slot].values()) for slot, base in self.slots.items() if base not in inside}

    def fields(self, inside: tuple[str, ...] = ()) -> Iterator[tuple[str, RecipeCard, Parameter]]:
        """Parameters of the recipes, and of the recipes in them, by address; no slot in its like.

        Parameters
        ----------
        inside : tuple of str
            Bases of the slots around.
        """
        for slot, base in self.slots.items():
            for recipe in self.recipes[slot].values():
                for p in recipe.parameters:
                    yield f"{slot}.{p.name}", recipe, p
                for address, inner, p in recipe.fields((*inside, base)) if base not in inside else ():
                    yield f"{slot}.{address}", inner, p


@dataclass(frozen=True)
class RecipeCard(_HasSlots):
    """A recipe that fits a slot.

    Parameters
    ----------
    slot, short, name, summary : str
    parameters : tuple of Parameter
    where : str
        ``module:Class``.
    slots : mapping
        ``module:Class`` of the base by slot of its own.
    """

    slot: str
    short: str
    name: str
    summary: str
    parameters: tuple[Parameter, ...]
    where: str
    slots: Mapping[str, str]


@dataclass(frozen=True)
class Card(_HasSlots):
    """What is known of a system without importing it.

    Parameters
    ----------
    entry : Entry
    doc : str
        The class's docstring.
    parameters : tuple of Parameter
        In the order of the constructor.
    verbs : tuple of str
        Public methods of the class and, where its model has what they need, of the base class.
    slots : mapping
        ``module:Class`` of the base of the recipes by slot.
    """

    entry: Entry
    doc: str
    parameters: tuple[Parameter, ...]
    verbs: tuple[str, ...]
    slots: Mapping[str, str]

    @property
    def summary(self) -> str:
        """First line of the docstring."""
        return self.doc.partition("\n")[0]

    @property
    def text(self) -> str:
        """The docstring up to its first section."""
        return re.split(r"\n\n[A-Z]\w+\n---", self.doc, maxsplit=1)[0].strip()


def read(entry: Entry) -> Card:
    """The card of a system.

    Raises
    ------
    ValueError
        The entry points to no class, or to one whose constructor cannot be read.

    Examples
    --------
    >>> from gnomon.catalog import entry
    >>> card = read(entry("rbm"))
    >>> [(p.name, str(p), p.default) for p in card.parameters][0]
    ('n_hidden', 'int in [1, inf)', 64)
    """
    where, _, name = entry.where.partition(":")
    module = SourceModule.of(where)
    node = module.find(name)
    if node is None:
        raise ValueError(f"{entry.where}: {module.path} defines no class {name}")
    doc = ast.get_docstring(node) or ""
    slots = module.mapping(node, "slots")
    return Card(entry, doc, _parameters(module, node, slots), _verbs(module, node), slots)


@cache
def read_recipe(where: str, slot: str, short: str) -> RecipeCard:
    """The card of a recipe ``module:Class``."""
    module = SourceModule.of(where.partition(":")[0])
    node = module.own[where.partition(":")[2]]
    doc, slots = ast.get_docstring(node) or "", module.mapping(node, "slots")
    parameters = _with_slots(_recipe_fields(module, node, doc), slots)
    return RecipeCard(slot, short, node.name, doc.partition("\n")[0], parameters, where, slots)


# --- parameters -----------------------------------------------------------------------------------------------------


def _parameters(module: SourceModule, node: ast.ClassDef, slots: Mapping[str, str]) -> tuple[Parameter, ...]:
    """Those of the constructor that stands in the source, or those that the lineage declares as fields."""
    written = _written_constructor(module, node)
    return _with_slots(_constructor(*written) if written else _fields(module, node), slots)


def _with_slots(parameters: Iterable[Parameter], slots: Mapping[str, str]) -> tuple[Parameter, ...]:
    return tuple(_in_slot(one, slots[one.name]) if one.name in slots else one for one in parameters)


def _in_slot(p: Parameter, base: str) -> Parameter:
    """A parameter that takes recipes; a default such as ``Adam(beta1=0.5)`` is read as what it makes."""
    default = p.default
    call = ast.parse(default, mode="eval").body if isinstance(default, str) and default.endswith(")") else None
    if isinstance(call, ast.Call):
        made = ast.unparse(call.func)
        short = next(short for short, place in choices(base).items() if place.partition(":")[2] == made)
        default = Preset(short, {str(one.arg): _literal(one.value) for one in call.keywords})
    return replace(p, kinds=(Kind("recipe"),), default=default)


def _written_constructor(module: SourceModule, node: ast.ClassDef) -> tuple[ast.ClassDef, ast.FunctionDef] | None:
    for one in module.lineage(node):
        for line in one.body:
            if isinstance(line, ast.FunctionDef) and line.name == "__init__":
                return one, line
    return None


def _constructor(owner: ast.ClassDef, function: ast.FunctionDef) -> tuple[Parameter, ...]:
    stated = documented(ast.get_docstring(owner) or "")
    given = function.args
    places = [*given.posonlyargs, *given.args][1:]
    defaults = [REQUIRED] * (len(places) - len(given.defaults)) + [_literal(d) for d in given.defaults]
    named = [REQUIRED if d is None else _literal(d) for d in given.kw_defaults]
    pairs = zip([*places, *given.kwonlyargs], [*defaults, *named], strict=True)
    return tuple(_parameter(a.arg, a.annotation, default, stated) for a, default in pairs)


def _fields(module: SourceModule, node: ast.ClassDef) -> tuple[Parameter, ...]:
    """Declared fields: the class's own, then those of its bases (`gnomon.recipes.fields.declarations`)."""
    found: dict[str, list[ast.AnnAssign]] = {}
    for one in module.lineage(node):
        for name, line in _declared(one):
            if line.value is not None and not name.startswith("_") and not name.endswith("_"):
                found.setdefault(name, []).append(line)
    return tuple(_merged(name, lines) for name, lines in found.items())


def _merged(name: str, lines: list[ast.AnnAssign]) -> Parameter:
    """The nearest default; the nearest type with an interval or sentence; the nearest sentence."""
    stated = [line.annotation for line in lines if ast.unparse(line.annotation).startswith("Annotated[")]
    doc = next((doc for doc in map(_doc, stated) if doc), ("", ""))
    assert lines[0].value is not None
    annotation = stated[0] if stated else lines[0].annotation
    return _parameter(name, annotation, _literal(lines[0].value), {name: doc})


def _doc(annotation: ast.expr) -> tuple[str, str] | None:
    """Type and sentence of ``Doc("sentence", type="type")``."""
    for call in ast.walk(annotation):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Doc":
            kind = next((ast.literal_eval(one.value) for one in call.keywords), "")
            return kind, ast.literal_eval(call.args[0])
    return None


def _recipe_fields(module: SourceModule, node: ast.ClassDef, doc: str) -> Iterable[Parameter]:
    stated = documented(doc)
    fields: dict[str, Parameter] = {}
    for one in reversed(module.lineage(node)):
        inherited = documented(ast.get_docstring(one) or "")
        for name, line in _declared(one):
            default = REQUIRED if line.value is None else _literal(line.value)
            fields[name] = _parameter(name, line.annotation, default, inherited | stated)
    return fields.values()


def _declared(node: ast.ClassDef) -> Iterator[tuple[str, ast.AnnAssign]]:
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and not _is_class_variable(line):
            yield line.target.id, line


def _is_class_variable(line: ast.AnnAssign) -> bool:
    return "ClassVar" in ast.unparse(line.annotation)


def _parameter(name: str, annotation: ast.expr | None, default: Any, stated: dict[str, tuple[str, str]]) -> Parameter:
    header, description = stated.get(name, ("", ""))
    kinds = _kinds(annotation) if annotation is not None else []
    if any(kind.name == "object" for kind in kinds):
        # `Any` says nothing: numpydoc does
        words = re.findall(r"\w+", header.partition(", default")[0])
        kinds = [Kind(word) for word in dict.fromkeys(words) if word in PLAIN]
        kinds += [Kind("none")] if "None" in words or default is None else []
    optional = any(kind.name == "none" for kind in kinds)
    return Parameter(name, tuple(kind for kind in kinds if kind.name != "none"), optional, default, description)


def _kinds(node: ast.expr) -> list[Kind]:
    """The alternatives of an annotation."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*_kinds(node.left), *_kinds(node.right)]
    if isinstance(node, ast.Constant):
        return [Kind("none")] if node.value is None else _kinds(ast.parse(str(node.value), mode="eval").body)
    if isinstance(node, ast.Subscript):
        return _generic(node)
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return [Kind(name if name in PLAIN else "object")]


def _generic(node: ast.Subscript) -> list[Kind]:
    head = ast.unparse(node.value).rpartition(".")[2]
    inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if head == "Annotated":
        interval = next((n.value for n in inner[1:] if isinstance(n, ast.Constant) and isinstance(n.value, str)), "")
        return [
            replace(kind, interval=interval) if interval and kind.name in ("int", "float") else kind
            for kind in _kinds(inner[0])
        ]
    if head == "Literal":
        return [Kind("choice", choices=tuple(str(ast.literal_eval(n)) for n in inner))]
    if head == "Optional":
        return [*_kinds(inner[0]), Kind("none")]
    if head == "Union":
        return [kind for n in inner for kind in _kinds(n)]
    if head == "tuple":
        many = any(isinstance(n, ast.Constant) and n.value is ... for n in inner)
        items = [_kinds(n)[0] for n in inner if not (isinstance(n, ast.Constant) and n.value is ...)]
        return [Kind("tuple", items=tuple(items), many=many)]
    return [Kind("object")]


def _literal(node: ast.expr) -> Any:
    """A default's value; its source text where it is no literal."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)


# --- documentation --------------------------------------------------------------------------------------------------


def documented(doc: str) -> dict[str, tuple[str, str]]:
    r"""Type header and description by parameter name, from the numpydoc section ``Parameters``.

    Examples
    --------
    >>> documented("Head.\n\nParameters\n----------\nk : int, default 1\n    How many.")
    {'k': ('int, default 1', 'How many.')}
    """
    section = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\w[^\n]*\n-+\n|\Z)", doc, re.M | re.S)
    found: dict[str, tuple[str, str]] = {}
    for block in re.split(r"\n(?=\S)", section[1]) if section else []:
        first, _, rest = block.partition("\n")
        names, _, header = first.partition(" : ")
        description = " ".join(rest.split())
        for name in names.split(","):
            found[name.strip()] = (header.strip(), description)
    return found


def _verbs(module: SourceModule, node: ast.ClassDef) -> tuple[str, ...]:
    """Public methods along the lineage, those that `verb` marks where what they need is there."""
    verbs: dict[str, bool] = {}
    for one in module.lineage(node):
        for function in (n for n in one.body if isinstance(n, ast.FunctionDef)):
            marks = {name for decorator in function.decorator_list for name in names_of(decorator)}
            if function.name.startswith("_") or marks & {"property", "cached_property", "classmethod", "staticmethod"}:
                continue
            verbs.setdefault(function.name, "verb" not in marks or _allowed(module, node, VERBS[function.name]))
    return tuple(sorted(name for name, there in verbs.items() if there and name not in HOOKS))


def _allowed(module: SourceModule, node: ast.ClassDef, need: str) -> bool:
    """Whether the class's attributes, or the methods of its model, are what a verb needs."""
    abilities = _model_methods(module, node)

    def has(name: str) -> bool:
        if name[0].islower():
            return module.attribute(node, name) is not False
        contracts = SourceModule.of("gnomon.contracts")
        return _methods(contracts, contracts.own[name]) <= abilities

    return allows(need, has)


def _model_methods(module: SourceModule, node: ast.ClassDef) -> set[str]:
    found = module.class_attribute(node, "model_class")
    return _methods(*found) if found else set()


def _methods(module: SourceModule, node: ast.ClassDef) -> set[str]:
    return {n.name for one in module.lineage(node) for n in one.body if isinstance(n, ast.FunctionDef)}
