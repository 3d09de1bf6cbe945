"""Hyper-parameters declared in the class body: constructor, range checks and documentation follow from them.

``n_hidden: Annotated[int, "[1, inf)", Doc("Hidden units.")] = 64`` is a parameter with its type, its interval, its
sentence and its default. Bases hand theirs down; a subclass that writes ``n_hidden: int = 32`` changes the default and
keeps interval and sentence.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import textwrap
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Union, dataclass_transform, get_args, get_origin

from gnomon.errors import UserTypeError
from gnomon.recipes.recipe import Recipe, inherited_slots
from gnomon.recipes.synonyms import advice

__all__ = ["Declaration", "Doc", "Fields", "declarations", "type_words"]

SECTION = re.compile(r"^[A-Z]\w+(?: \w+)?\n-{3,}$", re.MULTILINE)
"""The head of a numpydoc section."""


class Doc(str):
    """The sentence that documents a field.

    Parameters
    ----------
    text : str
    type : str, optional
        What the field takes, where its annotation cannot say it.
    """

    type: str

    def __new__(cls, text: str, *, type: str = "") -> Doc:
        """The text, and the type beside it."""
        doc = super().__new__(cls, text)
        doc.type = type
        return doc


@dataclass(frozen=True)
class Declaration:
    """A declared field.

    Parameters
    ----------
    name : str
    hint : type
        With what stands in ``Annotated``.
    default : object
    doc : Doc
    """

    name: str
    hint: Any
    default: Any
    doc: Doc

    @property
    def section(self) -> str:
        """Its entry of the numpydoc section ``Parameters``."""
        head = f"{self.name} : {self.doc.type or type_words(self.hint)}, default {_spelled(self.default)}"
        return head + "\n" + textwrap.fill(self.doc, 116, initial_indent="    ", subsequent_indent="    ")


def _spelled(default: Any) -> str:
    """A default as it is written in Python; of a recipe the fields that are not at their own defaults."""
    if isinstance(default, str):
        return f'"{default}"'
    if not isinstance(default, Recipe):
        return repr(default)
    plain = {field.name: field.default for field in dataclasses.fields(default)}  # type: ignore[arg-type]
    given = (f"{name}={_spelled(v)}" for name, v in default.get_params(deep=False).items() if v != plain[name])
    return f"{type(default).__name__}({', '.join(given)})"


@dataclass_transform(kw_only_default=True, eq_default=False)
class Fields:
    """Base of classes with declared fields: an annotated name with a value is a parameter of the constructor.

    The constructor takes keywords alone and stores them as they are, as scikit-learn wants it. A name that ends in an
    underscore (set by a fit), begins with one, or is a ``ClassVar`` is no field.

    Examples
    --------
    >>> class Machine(Fields):
    ...     n_hidden: Annotated[int, "[1, inf)", Doc("Hidden units.")] = 64
    ...
    >>> class Small(Machine):
    ...     n_hidden: int = 2
    ...
    >>> Small().n_hidden, Small(n_hidden=3).n_hidden, [one.doc for one in declarations(Small)]
    (2, 3, ['Hidden units.'])
    """

    slots: ClassVar[Mapping[str, type[Recipe]]] = {}
    """Base of the recipes by slot, those of the bases included."""
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Fields that act only beside certain values of others: ``{"l1": {"solver": "gradient"}}``."""
    inert_fields: ClassVar[Mapping[str, str]] = {}
    """Fields that change no fit, and why they are there."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.slots = inherited_slots(cls)
        cls.acts_with, cls.inert_fields = _inherited(cls, "acts_with"), _inherited(cls, "inert_fields")
        if _writes_its_constructor(cls):
            return
        declared = declarations(cls)
        cls.__init__ = _constructor(cls, declared)  # type: ignore[method-assign]
        if cls.__doc__ and not re.search(r"^ *Parameters\n *-{3,}$", cls.__doc__, re.MULTILINE):
            cls.__doc__ = _documented(inspect.cleandoc(cls.__doc__), declared)


def _inherited(cls: type, name: str) -> dict[str, Any]:
    """A mapping of a class, with the entries of its bases."""
    return {key: value for one in reversed(cls.__mro__) for key, value in dict(vars(one).get(name) or {}).items()}


def _writes_its_constructor(cls: type) -> bool:
    """Whether the constructor that the class has was written by hand."""
    return cls.__init__ is not object.__init__ and not hasattr(cls.__init__, "declared")  # type: ignore[misc]


def declarations(cls: type) -> tuple[Declaration, ...]:
    """The fields of a class: its own in their order, then those of its bases that it does not declare anew."""
    found: dict[str, list[tuple[Any, Any]]] = {}
    for one in cls.__mro__:
        if one is Fields or not issubclass(one, Fields):
            continue
        for name, text in inspect.get_annotations(one).items():
            if name in vars(one) and _is_field(name, text):
                found.setdefault(name, []).append((_evaluated(one, text), vars(one)[name]))
    return tuple(_merged(name, lines) for name, lines in found.items())


def _is_field(name: str, annotation: Any) -> bool:
    return not name.startswith("_") and not name.endswith("_") and "ClassVar" not in str(annotation)


def _evaluated(owner: type, annotation: Any) -> Any:
    if not isinstance(annotation, str):
        return annotation
    return eval(annotation, vars(sys.modules[owner.__module__]), dict(vars(owner)))


def _merged(name: str, lines: list[tuple[Any, Any]]) -> Declaration:
    """The nearest default; the nearest type with an interval or sentence; the nearest sentence."""
    hint = next((hint for hint, _ in lines if get_origin(hint) is Annotated), lines[0][0])
    docs = [one for hint, _ in lines for one in getattr(hint, "__metadata__", ()) if isinstance(one, Doc)]
    return Declaration(name, hint, lines[0][1], docs[0] if docs else Doc(""))


def _constructor(cls: type, declared: tuple[Declaration, ...]) -> Callable[..., None]:
    defaults = {one.name: one.default for one in declared}

    def __init__(self: Any, **given: Any) -> None:
        for name in given:
            if name not in defaults:
                what = f"{type(self).__name__}.__init__() got an unexpected keyword argument {name!r}"
                raise UserTypeError(what, "", advice(name, list(defaults)))
        for name, default in defaults.items():
            setattr(self, name, given.get(name, default))

    kind = inspect.Parameter.KEYWORD_ONLY
    keywords = [inspect.Parameter(one.name, kind, default=one.default, annotation=one.hint) for one in declared]
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    made: Any = __init__
    made.__signature__ = inspect.Signature([own, *keywords])
    made.__annotations__ = {one.name: one.hint for one in declared}
    made.__qualname__, made.__module__, made.declared = f"{cls.__qualname__}.__init__", cls.__module__, declared
    return __init__


# --- documentation --------------------------------------------------------------------------------------------------


def _documented(doc: str, declared: tuple[Declaration, ...]) -> str:
    """The docstring with a section ``Parameters`` before its other sections."""
    if not declared:
        return doc
    section = "Parameters\n----------\n" + "\n".join(one.section for one in declared)
    first = SECTION.search(doc)
    head, tail = (doc[: first.start()].rstrip(), doc[first.start() :]) if first else (doc, "")
    return "\n\n".join(part for part in (head, section, tail) if part)


def type_words(hint: Any) -> str:
    """A type as numpydoc words it.

    Examples
    --------
    >>> type_words(Annotated[int | None, "[1, inf)"]), type_words(Literal["a", "b"])
    ('int in [1, inf) or None', '{"a", "b"}')
    >>> type_words(tuple[Annotated[int, "[1, inf)"], ...])
    'tuple of int in [1, inf)'
    """
    return " or ".join(_alternatives(hint, ""))


def _alternatives(hint: Any, interval: str) -> list[str]:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        stated = next((one for one in inner[1:] if isinstance(one, str) and not isinstance(one, Doc)), interval)
        return _alternatives(inner[0], stated)
    if origin is Union or isinstance(hint, types.UnionType):
        if any(isinstance(one, type) and issubclass(one, Recipe) for one in inner):
            return ["short name", "recipe"]
        return [word for one in inner for word in _alternatives(one, interval)]
    if origin is Literal:
        return ["{" + ", ".join(f'"{one}"' if isinstance(one, str) else repr(one) for one in inner) + "}"]
    if origin is tuple:
        items = [type_words(one) for one in inner if one is not ...]
        return ["tuple of " + items[0]] if ... in inner else ["tuple (" + ", ".join(items) + ")"]
    if hint is None or hint is type(None):
        return ["None"]
    name = getattr(hint, "__name__", str(hint))
    return [f"{name} in {interval}" if interval and hint in (int, float) else name]
