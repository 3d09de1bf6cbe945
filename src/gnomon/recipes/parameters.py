"""Checks of hyper-parameters against the intervals that the constructor's annotations state."""

from __future__ import annotations

import math
import numbers
import operator
import re
import sys
import types
from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from gnomon.errors import UserTypeError, UserValueError, nearest

__all__ = ["check_parameters", "how_many", "in_interval", "interval_of"]

INTERVAL = re.compile(r"^([\[(])\s*(-?inf|[-+.\deE]+)\s*,\s*(-?inf|[-+.\deE]+)\s*([\])])$")

NUMBERS = {int: "a whole number", float: "a number"}
MOST_ROWS = 1 << 32
LAYER_SIZES = "give the units of the hidden layers, such as (64, 32)"
"""Rows that have a noise address of their own."""


def in_interval(value: float, interval: str) -> bool:
    """Whether a number lies in an interval such as ``[1, inf)``.

    Examples
    --------
    >>> in_interval(0, "[0, 1)"), in_interval(1, "[0, 1)")
    (True, False)
    """
    match = INTERVAL.match(interval)
    if match is None:
        raise ValueError(f"no interval: {interval!r}")
    left, low, high, right = match.groups()
    above = value >= float(low) if left == "[" else value > float(low)
    below = value <= float(high) if right == "]" else value < float(high)
    return above and below


def check_parameters(owner: object, values: dict[str, Any]) -> None:
    """Check values against the annotations of the owner's constructor.

    Raises
    ------
    UserTypeError, UserValueError
        Naming parameter, value and what is allowed.
    """
    cls: Any = type(owner)
    for name, hint in _hints(cls).items():
        if name in values:
            _check(type(owner).__name__, name, values[name], hint)


def interval_of(owner: object, name: str) -> str:
    """The interval that the owner's constructor states of a number; "" where it states none.

    Examples
    --------
    >>> import gnomon
    >>> interval_of(gnomon.MLP(), "dropout"), interval_of(gnomon.MLP(), "hidden")
    ('[0, 1)', '')
    """
    cls: Any = type(owner)
    kinds = _alternatives(_hints(cls)[name])
    return next((str(get_args(one)[1]) for one in kinds if get_origin(one) is Annotated), "")


@lru_cache(maxsize=256)
def _hints(cls: type) -> dict[str, Any]:
    # a dataclass hands annotations down as text, which means what it meant in the base's module
    names: dict[str, Any] = {}
    for one in reversed(cls.__mro__):
        names |= getattr(sys.modules.get(one.__module__), "__dict__", {})  # code that was executed has no module
    hints = get_type_hints(cls.__init__, localns=names, include_extras=True)  # type: ignore[misc]
    hints.pop("return", None)
    return hints


def _check(owner: str, name: str, value: Any, hint: Any) -> None:
    kinds = list(_alternatives(hint))
    faults = [_fault(value, kind) for kind in kinds]
    if None in faults:
        return
    error = UserValueError if "value" in faults else UserTypeError
    options = [one for kind in kinds if get_origin(kind) is Literal for one in get_args(kind) if isinstance(one, str)]
    close = nearest(value, options) if isinstance(value, str) else []
    remedy = f"did you mean {close[0]!r}?" if close else ""
    raise error.must(name, f"be {_rule(kinds)}", value, f"{owner}.{name}", remedy)


def _alternatives(hint: Any) -> Iterator[Any]:
    """The types of a union, each with what is annotated to the whole."""
    if get_origin(hint) is Annotated:
        base, *stated = get_args(hint)
        intervals = [one for one in stated if type(one) is str]
        for one in _alternatives(base):
            yield Annotated[(one, *intervals)] if intervals and one in NUMBERS else one
    elif get_origin(hint) in (Union, types.UnionType):
        for one in get_args(hint):
            yield from _alternatives(one)
    else:
        yield hint


def _fault(value: Any, kind: Any) -> str | None:
    """None when the value is of this kind, else whether its type or only its value is wrong."""
    if get_origin(kind) is Annotated:
        base, interval = get_args(kind)[:2]
        return _fault(value, base) or (None if in_interval(float(value), interval) else "value")
    if get_origin(kind) is Literal:
        plain = value is None or isinstance(value, str | int | float)
        return None if plain and value in get_args(kind) else "value"
    if kind is int:
        whole = isinstance(value, numbers.Integral) and value is not True and value is not False
        return None if whole else "type"
    if kind is float:
        real = isinstance(value, numbers.Real) and value is not True and value is not False
        exact = isinstance(value, numbers.Rational) and not isinstance(value, numbers.Integral)  # nobody takes these
        return None if real and not exact and not math.isnan(float(value)) else "type"
    if isinstance(kind, type) and kind is not Any:
        return None if isinstance(value, kind) else "type"
    return None


def _rule(kinds: list[Any]) -> str:
    """What the kinds take, in words that follow "must be"."""
    return " or ".join(dict.fromkeys(map(_words, kinds)))


def _words(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        base, interval = get_args(kind)[:2]
        return f"{_words(base)} in {interval}"
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(repr, get_args(kind)))
    if kind is type(None):
        return "None"
    known = {bool: "True or False", **NUMBERS}
    return known.get(kind) or f"a {getattr(kind, '__name__', kind)}"


def check_layer_sizes(sizes: Any, name: str = "hidden", remedy: str = LAYER_SIZES) -> None:
    """Refuse what is no tuple of the units of layers.

    Raises
    ------
    UserTypeError, UserValueError
        No tuple or list, no whole number in it, one below 1.
    """
    if not isinstance(sizes, tuple | list):
        raise UserTypeError(f"{name} must be a whole number or a tuple of them, got {sizes!r}", name, remedy)
    for units in sizes:
        if isinstance(units, bool) or not isinstance(units, numbers.Integral):
            raise UserTypeError(f"{name} must hold whole numbers, got {units!r}", name, remedy)
        if units < 1:
            raise UserValueError(f"{name} must be at least 1 in every layer, got {units}", name)


def how_many(n: Any, name: str = "n") -> int:
    """A number of rows (steps, tokens) that somebody asks for.

    Raises
    ------
    UserTypeError, UserValueError
        No whole number, or one outside 0 ... 2**32.

    Examples
    --------
    >>> how_many(3)
    3
    """
    try:
        number = operator.index(n)
    except TypeError:
        raise UserTypeError.must(name, "be a whole number", n) from None
    if not 0 <= number <= MOST_ROWS:
        raise UserValueError.must(name, f"be from 0 to {MOST_ROWS}", number)
    return number
