"""Options of ``gnomon fit SYSTEM`` from the system's card, and the notation ``SYSTEM:key=value,...``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gnomon.catalog import card
from gnomon.catalog.cards import REQUIRED, Card, Kind, Parameter, RecipeCard
from gnomon.errors import UserValueError, nearest
from gnomon.recipes.parameters import in_interval
from gnomon.recipes.slots import spellings
from gnomon.recipes.synonyms import advice, suggestions

__all__ = ["apart", "convert", "default", "flag", "option_names", "parse_system", "plain", "resolve_values", "values"]

TRUE, FALSE = ("true", "yes"), ("false", "no")
MANY = {"int": "whole numbers", "float": "numbers", "str": "texts"}
WORDS = {"int": "a whole number", "float": "a number", "str": "text", "bool": "true or false", "object": "a value"}
CHAIN = "chain"
"""The recipe that several of a slot stand in, one after the other, as a text in its field ``steps``."""
ORDER = ("bool", "int", "float", "choice", "tuple", "recipe", "str", "object")
"""The narrow kinds first: a text that is a whole number is one, whatever else it might be."""


def flag(name: str) -> str:
    """The option of a parameter, or of a recipe's field.

    Examples
    --------
    >>> flag("n_hidden"), flag("objective.n_chains")
    ('--n-hidden', '--objective.n-chains')
    """
    return "--" + name.replace("_", "-")


def values(p: Parameter) -> str:
    """What a parameter takes, in words.

    Examples
    --------
    >>> values(Parameter("k", (Kind("int", "[1, inf)"),), True, 1, ""))
    'a whole number in [1, inf) or none'
    """
    return " or ".join(
        [*(_words(kind) for kind in p.kinds if kind.name != "recipe"), *(["none"] if p.optional else [])]
    )


def _words(kind: Kind) -> str:
    if kind.name == "choice":
        return " | ".join(kind.choices)
    if kind.name == "tuple":
        return _tuple_words(kind)
    return WORDS[kind.name] + (f" in {kind.interval}" if kind.interval else "")


def _tuple_words(kind: Kind) -> str:
    """What a tuple takes, with its notation.

    Examples
    --------
    >>> _tuple_words(Kind("tuple", items=(Kind("int", "[1, inf)"),), many=True))
    'whole numbers in [1, inf) as in 1x2x3'
    """
    n, one = len(kind.items), kind.items[0]
    what = MANY.get(one.name, "values") + (f" in {one.interval}" if one.interval else "")
    return f"{what} as in 1x2x3" if kind.many else f"{n} {what} as in {'x'.join(map(str, range(1, n + 1)))}"


def default(p: Parameter) -> str:
    """The default of a parameter as the command line takes it.

    Examples
    --------
    >>> default(Parameter("hidden", (), False, (128, 64), "")), default(Parameter("k", (), True, None, ""))
    ('128x64', 'none')
    """
    if p.default is None:
        return "none"
    if isinstance(p.default, tuple) and p.default:
        return "x".join(map(str, p.default))
    return str(p.default)


def convert(p: Parameter, text: str, where: str = "") -> Any:
    """The value that a text on the command line stands for.

    Parameters
    ----------
    p : Parameter
    text : str
        ``none`` for None; tuples as ``64x64``.
    where : str, optional
        What an error names; the option by default.

    Raises
    ------
    UserValueError
        A text that is no value of the parameter, or one outside its interval.

    Examples
    --------
    >>> convert(Parameter("k", (Kind("int", "[1, inf)"),), True, 1, ""), "3")
    3
    >>> convert(Parameter("sizes", (Kind("tuple", items=(Kind("int"),), many=True),), False, (), ""), "64x32")
    (64, 32)
    """
    where = where or flag(p.name)
    if p.optional and text.strip().casefold() == "none":
        return None
    for kind in sorted(p.kinds, key=lambda kind: ORDER.index(kind.name)):
        found, value = _try(kind, text)
        if found and not _is_outside(kind, value):
            return value
    close = nearest(text, [choice for kind in p.kinds for choice in kind.choices])
    remedy = f"did you mean {close[0]}?" if close else ""
    raise UserValueError(f"{where} must be {values(p)}, got {text!r}", "", remedy)


def _try(kind: Kind, text: str) -> tuple[bool, Any]:
    """Whether the text is of this kind, and its value."""
    folded = text.strip().casefold()
    if kind.name == "bool":
        return folded in TRUE + FALSE, folded in TRUE
    if kind.name == "choice":
        return text in kind.choices, text
    if kind.name in ("int", "float"):
        return _number(int if kind.name == "int" else float, text)
    if kind.name == "tuple":
        parts = text.split("x")
        if not kind.many and len(parts) != len(kind.items):
            return False, None
        items = [_try(kind.items[0 if kind.many else i], part) for i, part in enumerate(parts)]
        return all(found for found, _ in items), tuple(value for _, value in items)
    return True, text if kind.name in ("str", "recipe") else _literal(text)


def _number(cast: Callable[[str], Any], text: str) -> tuple[bool, Any]:
    try:
        return True, cast(text)
    except ValueError:
        return False, None


def _literal(text: str) -> Any:
    import ast

    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _is_outside(kind: Kind, value: Any) -> bool:
    """Whether a number lies outside its interval. A NaN lies in no interval."""
    kinds = [kind] if kind.name != "tuple" else [kind.items[0 if kind.many else i] for i in range(len(value))]
    pairs = zip(kinds, value if kind.name == "tuple" else [value], strict=True)
    return any(one.interval and not in_interval(number, one.interval) for one, number in pairs)


def resolve_values(about: Card, given: Mapping[str, str], system: str) -> dict[str, Any]:
    """Constructor arguments from texts by name; a recipe's field is ``slot.field``, dashes and underscores are alike.

    Returns
    -------
    dict
        For `gnomon.make`: ``slot__field`` for fields.

    Raises
    ------
    UserValueError
        An unknown name, with the nearest known; a value that is not allowed; a parameter that is missing.
    """
    clean = _unchained(about, {key.replace("-", "_"): text for key, text in given.items()})
    found: dict[str, Any] = {}
    for key in clean:
        found[key.replace(".", "__")] = _value(about, key, clean, system)
    missing = [p for p in about.parameters if p.default is REQUIRED and p.name not in found]
    if missing:
        raise UserValueError(
            f"{system} needs {flag(missing[0].name)}", flag(missing[0].name), f"give {values(missing[0])}"
        )
    return found


def _unchained(about: Card, given: dict[str, str]) -> dict[str, str]:
    """``augment=flip+crop(padding=2)`` as ``augment=chain`` and ``augment.steps=flip+crop(padding=2)``."""
    chains = {key for key, text in given.items() if set(text) & set("+(") and CHAIN in about.recipes.get(key, {})}
    return {key: CHAIN if key in chains else text for key, text in given.items()} | {
        f"{key}.steps": given[key] for key in chains
    }


def _value(about: Card, key: str, given: Mapping[str, str], system: str) -> Any:
    """The value of the parameter at an address: a recipe's short name, or what the text stands for."""
    *slots, name = key.split(".")
    owner: Card | RecipeCard = about
    for depth, slot in enumerate(slots):
        if slot not in owner.slots:
            raise _unknown(key, about, system)
        address = ".".join(slots[: depth + 1])
        default = next(p.preset.short for p in owner.parameters if p.name == slot)
        chosen = _recipe(owner, slot, given.get(address, default), address)
        following = key.split(".")[depth + 1]
        if following not in [p.name for p in chosen.parameters]:
            raise _no_field(owner, slot, chosen, following, address)
        owner = chosen
    p = next((p for p in owner.parameters if p.name == name), None)
    if p is None or not name:
        raise _unknown(key, about, system)
    return _recipe(owner, name, given[key], key).short if p.slot else convert(p, given[key], flag(key))


def _recipe(owner: Card | RecipeCard, slot: str, text: str, address: str) -> RecipeCard:
    known = owner.recipes[slot]
    for spelling in spellings(text):
        if spelling in known:
            return known[spelling]
    close = nearest(text, list(known))
    remedy = f"did you mean {close[0]}?" if close else f"choose from {', '.join(known)}"
    raise UserValueError(f"unknown {slot} {text!r}", flag(address), remedy)


def _no_field(owner: Card | RecipeCard, slot: str, chosen: RecipeCard, name: str, address: str) -> UserValueError:
    """The refusal of a parameter that the chosen recipe does not have: who has it, or what there is."""
    fields = [p.name for p in chosen.parameters]
    owners = [r.short for r in owner.recipes[slot].values() if name in [p.name for p in r.parameters]]
    if owners:
        remedy = f"choose {flag(address)} {' or '.join(owners)}"
    elif fields:
        remedy = f"known: {', '.join(flag(f'{address}.{field}') for field in suggestions(name, fields) or fields)}"
    else:
        remedy = "it has no parameters"
    return UserValueError(f"the {slot} {chosen.short} has no parameter {name!r}", flag(f"{address}.{name}"), remedy)


def _unknown(key: str, about: Card, system: str) -> UserValueError:
    known = list(option_names(about))
    return UserValueError(f"{system} has no parameter {key!r}", system, advice(key, known))


def option_names(about: Card) -> Iterable[str]:
    """Names as in ``SYSTEM:key=value``: parameters, and ``slot.field`` for the fields of recipes."""
    yield from (p.name for p in about.parameters)
    yield from dict.fromkeys(address for address, _, _ in about.fields())


def apart(text: str) -> list[str]:
    """The parts of a text between commas that stand in no brackets.

    Examples
    --------
    >>> apart("flip,crop(padding=1,fill=0.5)")
    ['flip', 'crop(padding=1,fill=0.5)']
    """
    return re.split(r",(?![^(]*\))", text)


def parse_system(text: str) -> tuple[str, dict[str, Any]]:
    """Name and constructor arguments of ``SYSTEM:key=value,...``.

    Raises
    ------
    UserValueError
        An unknown system or parameter, a part without ``=``, a key given twice.

    Examples
    --------
    >>> parse_system("rbm:n-hidden=64,objective=cd,objective.k=5")
    ('rbm', {'n_hidden': 64, 'objective': 'cd', 'objective__k': 5})
    """
    name, _, rest = text.partition(":")
    about = card(name)
    given: dict[str, str] = {}
    for part in apart(rest) if rest else []:
        key, equals, value = part.partition("=")
        key = key.strip()
        if not equals or not key:
            raise UserValueError(f"an option must be key=value, got {part!r}", text, "write SYSTEM:key=value,key=value")
        if key.replace("-", "_") in (one.replace("-", "_") for one in given):
            raise UserValueError(f"{key} is given twice", text, "give it once")
        given[key] = value.strip()
    return name, resolve_values(about, given, name)


def plain(text: str) -> str:
    """reStructuredText without its marks, as a terminal shows it.

    Examples
    --------
    >>> plain("the slot ``objective``, :math:`x^2`")
    'the slot objective, x^2'
    """
    text = re.sub(r":\w+:`([^`]*)`", r"\1", text)
    return re.sub(r"``([^`]*)``|`([^`]*)`", lambda match: match[1] or match[2] or "", text)
