"""Checks of hyper-parameters against the intervals that the constructor's annotations state."""

from __future__ import annotations

import math
import numbers
import operator
import re
import types
from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from gnomon.errors import UserTypeError, UserValueError, nearest

__all__ = ["check_parameters", "how_many", "in_interval"]

INTERVAL = re.compile(r"^([\[(])\s*(-?inf|[-+.\deE]+)\s*,\s*(-?inf|[-+.\deE]+)\s*([\])])$")

MOST_ROWS = 1 << 32
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
            _check(f"{type(owner).__name__}.{name}", values[name], hint)


@lru_cache(maxsize=256)
def _hints(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls.__init__, include_extras=True)  # type: ignore[misc]
    hints.pop("return", None)
    return hints


def _check(where: str, value: Any, hint: Any) -> None:
    kinds = list(_alternatives(hint))
    if value is None and type(None) in kinds:
        return
    problems = [_problem(value, kind) for kind in kinds if kind is not type(None)]
    if any(problem is None for problem in problems):
        return
    remedy = next((p for p in problems if p), "")
    wrong_type = all(p and p.startswith("give ") for p in problems)
    raise (UserTypeError if wrong_type else UserValueError)(f"{value!r} is not allowed", where, remedy)


def _alternatives(hint: Any) -> Iterator[Any]:
    """The types of a union, each with what is annotated to the whole."""
    if get_origin(hint) is Annotated:
        base, *stated = get_args(hint)
        intervals = [one for one in stated if type(one) is str]
        for one in _alternatives(base):
            yield Annotated[(one, *intervals)] if intervals and one is not type(None) else one
    elif get_origin(hint) in (Union, types.UnionType):
        for one in get_args(hint):
            yield from _alternatives(one)
    else:
        yield hint


def _problem(value: Any, kind: Any) -> str | None:
    """None when the value is of this kind, else what would be."""
    if get_origin(kind) is Annotated:
        base, interval = get_args(kind)[:2]
        problem = _problem(value, base)
        if problem:
            return problem
        return None if in_interval(float(value), interval) else f"choose a value in {interval}"
    if get_origin(kind) is Literal:
        options = list(get_args(kind))
        if value in options:
            return None
        close = nearest(value, [o for o in options if isinstance(o, str)]) if isinstance(value, str) else []
        return f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(map(repr, options))}"
    if kind is bool:
        return None if isinstance(value, bool) else "give True or False"
    if kind is int:
        whole = isinstance(value, numbers.Integral) and value is not True and value is not False
        return None if whole else "give a whole number"
    if kind is float:
        real = isinstance(value, numbers.Real) and value is not True and value is not False
        return None if real and not math.isnan(float(value)) else "give a number"
    if isinstance(kind, type) and kind is not Any:
        return None if isinstance(value, kind) else f"give a {kind.__name__}"
    return None


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
        raise UserTypeError(f"{name} is {n!r}", name, "ask for a whole number") from None
    if not 0 <= number <= MOST_ROWS:
        raise UserValueError(f"{name} is {number}", name, f"ask for 0 to {MOST_ROWS}")
    return number
