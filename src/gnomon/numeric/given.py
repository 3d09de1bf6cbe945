"""What a user hands over, checked before anything is computed: numbers, names, noise and functions."""

from __future__ import annotations

import functools
import inspect
import operator
import sys
import types
from collections.abc import Callable, Hashable
from dataclasses import is_dataclass
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.errors import UserTypeError, UserValueError, nearest, shown

__all__ = [
    "affordable", "answers", "check_fields", "checked", "checked_complex", "choice", "doable", "floats", "function",
    "numbers", "outcomes", "whole",
]  # fmt: skip

P = ParamSpec("P")
R = TypeVar("R")
Test = Callable[[Any, str], Any]
"""Hands on a value, converted where it is an array, or refuses it by name."""

MOST_NUMBERS = 1 << 31
"""Numbers that are held at once without asking: 16 GB in float64."""

MOST_STEPS = 10**9
"""Steps of a loop that are begun without asking; the fastest of them take an hour."""


# --- names ------------------------------------------------------------------------------------------------------------


def choice(value: Any, choices: Any, name: str) -> None:
    """Refuse what is not among the values of a ``Literal``; the nearest one is named.

    Examples
    --------
    >>> choice("maen", Literal["mean", "sum"], "kind")
    Traceback (most recent call last):
    gnomon.errors.UserValueError: kind must be one of mean, sum, got 'maen'; did you mean mean?
    """
    known = get_args(choices)
    if value not in known:
        close = nearest(str(value), known)
        remedy = f"did you mean {close[0]}?" if close else ""
        raise UserValueError.must(name, f"be one of {', '.join(map(str, known))}", value, remedy=remedy)


# --- arrays -----------------------------------------------------------------------------------------------------------


def numbers(x: Any, name: str) -> NDArray[Any]:
    """`x` as an array of truth values, whole, real or complex numbers; no copy where it is one already.

    Lists, data frames, tensors and object arrays of numbers are taken.

    Raises
    ------
    UserTypeError, UserValueError
        Text, None, other objects; rows of different lengths.

    Examples
    --------
    >>> numbers([1, 2.5], "x")
    array([1. , 2.5])
    """
    try:
        array = np.asarray(_detached(x))
    except (TypeError, ValueError):
        raise UserValueError(f"{name} must be an array of numbers with rows of one length", name) from None
    if array.dtype.kind == "O":
        array = _from_objects(array, name)
    if array.dtype.kind not in "biufc":
        kind = f"dtype {array.dtype}" if array.ndim else f"a {type(x).__name__}"
        raise UserTypeError(f"{name} must hold numbers, got {kind}", name)
    return array


def floats(x: Any, name: str) -> NDArray[np.float64]:
    """`x` as a float64 array: `numbers` that are real.

    Raises
    ------
    UserTypeError, UserValueError
        As `numbers`; complex numbers.

    Examples
    --------
    >>> floats([1, 2], "x")
    array([1., 2.])
    """
    return _real(x, name).astype(np.float64, copy=False)


def whole(x: Any, name: str) -> NDArray[np.int64]:
    """`x` as an int64 array; floating numbers must be whole, 1.5 is not cut to 1.

    Raises
    ------
    UserTypeError, UserValueError
        No real numbers, or the first that is not whole, with its place.

    Examples
    --------
    >>> whole([1.0, 2.0], "x")
    array([1, 2])
    """
    array = _real(x, name)
    if array.dtype.kind in "biu":
        return array.astype(np.int64, copy=False)
    bad = ~((array == np.floor(array)) & (np.abs(array) < 2.0**62))
    if bad.any():
        index = int(np.argmax(bad))
        raise UserValueError.must(name, "hold whole numbers", array.flat[index], f"{name}, index {index}")
    return array.astype(np.int64)


def answers(found: Any, shape: tuple[int, ...], name: str, *, finite: bool = False) -> NDArray[np.float64]:
    """What a user's function has returned, as float64 of the shape that it must have.

    Raises
    ------
    UserTypeError, UserValueError
        No real numbers, another shape; with `finite` also NaN and infinities, with the place of the first.

    Examples
    --------
    >>> answers([[1.0], [2.0]], (2,), "f")
    Traceback (most recent call last):
    gnomon.errors.UserValueError: f must return shape (2,), got (2, 1)
    """
    values = floats(found, name)
    if values.shape != shape:
        raise UserValueError(f"{name} must return shape {shape}, got {values.shape}", name)
    bad = ~np.isfinite(values) if finite else np.zeros(0, bool)
    if bad.any():
        index = int(np.argmax(bad))
        raise UserValueError(f"{name} must be finite, got {values.flat[index]} at index {index}", name)
    return values


def outcomes(x: Any, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Real numbers that broadcast against a shape, such as the outcomes that a density is asked about.

    Raises
    ------
    UserTypeError, UserValueError
        No real numbers, or axes that do not fit.

    Examples
    --------
    >>> outcomes([1, 2], "x", (3, 1))
    array([1, 2])
    """
    array = _real(x, name)
    try:
        np.broadcast_shapes(array.shape, shape)
    except ValueError:
        what = f"{name} must broadcast against shape {shape}, got shape {array.shape}"
        raise UserValueError(what, name) from None
    return array


def affordable(count: float, name: str, remedy: str, *, each: int = 8, limit: int = MOST_NUMBERS) -> None:
    """Refuse to start what holds more numbers than the limit, telling its cost.

    Examples
    --------
    >>> affordable(10**13, "points", "give fewer")
    Traceback (most recent call last):
    gnomon.errors.UserValueError: 1e+13 numbers would take 8e+13 bytes (points); give fewer
    """
    if count > limit:
        many = float(min(count, 10**300))
        raise UserValueError(f"{many:.3g} numbers would take {each * many:.3g} bytes", name, remedy)


def doable(n: Any, name: str, *, least: int = 0) -> int:
    """A number of steps that a loop takes: whole, at least `least` and not so many that they never end.

    Raises
    ------
    UserTypeError, UserValueError
        Before the first step.

    Examples
    --------
    >>> doable(3, "steps")
    3
    >>> doable(10**18, "steps")
    Traceback (most recent call last):
    gnomon.errors.UserValueError: steps must be at most 1e+09, got 1000000000000000000
    """
    if problem := _not_whole(n):
        raise UserTypeError(f"{name} must be {problem}, got {shown(n)}", name)
    number = operator.index(n)
    if number < least:
        raise UserValueError.must(name, f"be at least {least}", number)
    if number > MOST_STEPS:
        raise UserValueError(f"{name} must be at most {MOST_STEPS:.0e}, got {shown(number)}", name)
    return number


def function(f: Any, name: str) -> Any:
    """`f`, which must be callable."""
    if not callable(f):
        raise UserTypeError.must(name, "be callable", f)
    return f


def _real(x: Any, name: str) -> NDArray[Any]:
    array = numbers(x, name)
    if array.dtype.kind == "c":
        raise UserTypeError(f"{name} must hold real numbers, got complex numbers", name)
    return array


def _detached(x: Any) -> Any:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        x = x.detach().cpu().resolve_conj()
        return (x.float() if x.dtype == torch.bfloat16 else x).numpy()
    return x.to_numpy() if hasattr(x, "to_numpy") else x


def _from_objects(found: NDArray[Any], name: str) -> NDArray[Any]:
    for cell in found.flat:
        if isinstance(cell, str | bytes) or not (hasattr(cell, "__float__") or isinstance(cell, complex)):
            raise UserTypeError(f"{name} must hold numbers, got a {type(cell).__name__}", name)
    try:
        return found.astype(np.complex128 if any(isinstance(cell, complex) for cell in found.flat) else np.float64)
    except (TypeError, ValueError):
        raise UserTypeError(f"{name} must hold numbers alone", name, "give an array of numbers") from None
    except OverflowError:
        raise UserValueError(f"{name} must hold numbers below 1e308", name) from None


# --- arguments --------------------------------------------------------------------------------------------------------


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """A function that refuses arguments of another kind than its annotations say, before it starts.

    Checked are whole numbers, numbers (which may not be NaN), truth values, names, noise, functions and arrays of real
    numbers (``ArrayLike``, handed on as NumPy arrays), also where None may stand for them; ranges and shapes are the
    function's own to check. A parameter that may be of a further kind is let through as it is.

    Raises
    ------
    UserTypeError, UserValueError
        Naming function, parameter and value.

    Examples
    --------
    >>> @checked
    ... def repeated(word: str, times: int = 2) -> str:
    ...     return word * times
    >>> repeated("ab", 1.5)
    Traceback (most recent call last):
    gnomon.errors.UserTypeError: times must be a whole number, got 1.5 (repeated.times)
    """
    return _wrapped(function, _real)


def checked_complex(function: Callable[P, R]) -> Callable[P, R]:
    """`checked` for functions whose arrays may hold complex numbers."""
    return _wrapped(function, numbers)


def check_fields(instance: Any) -> None:
    """What `checked` asks of arguments, asked of the fields of a dataclass; for its ``__post_init__``."""
    cls: Any = type(instance)
    for name, test in _field_tests(cls).items():
        test(getattr(instance, name), name)


def _wrapped(function: Callable[P, R], array: Test) -> Callable[P, R]:
    names = list(inspect.signature(function).parameters)
    owner = function.__qualname__.removesuffix(".__init__").removesuffix(".__call__")
    tests: dict[str, Test] = {}
    ready = False

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        nonlocal ready
        if not ready:  # annotations are resolved at the first call, when the module has all its names
            tests.update(_tests(function, owner, array))
            ready = True
        given = [tests[name](x, name) if name in tests else x for name, x in zip(names, args, strict=False)]
        named = {name: tests[name](x, name) if name in tests else x for name, x in kwargs.items()}
        return function(*given, *args[len(given) :], **named)  # type: ignore[arg-type]

    return call


@functools.lru_cache(maxsize=256)
def _field_tests(cls: Hashable) -> dict[str, Test]:
    found: dict[str, Test] = {}
    for base in reversed(cls.__mro__):  # type: ignore[attr-defined]
        if base is cls or is_dataclass(base):  # annotations stand where they were written, not where inherited
            found |= _tests(base, cls.__name__, _real)  # type: ignore[attr-defined]
    return found


def _tests(owned: Any, owner: str, array: Test) -> dict[str, Test]:
    found: dict[str, Test] = {}
    names = getattr(owned, "__globals__", None) or vars(sys.modules[owned.__module__])
    for name, hint in inspect.get_annotations(owned).items():
        try:
            hint = eval(hint, names) if isinstance(hint, str) else hint
        except NameError:  # imported for the type checker alone: no kind that is checked
            continue
        optional = False
        origin: Any = get_origin(hint)
        choices = get_args(hint) if hint != ArrayLike and origin in (Union, types.UnionType) else ()
        if choices:
            optional = type(None) in choices
            kept = tuple(choice for choice in choices if choice is not type(None))
            hint = ArrayLike if set(kept) == set(get_args(ArrayLike)) else kept
        test = _test(hint, owner, array)
        if test is not None and name != "return":
            found[name] = _or_none(test) if optional else test
    return found


def _test(hint: Any, owner: str, array: Test) -> Test | None:
    if hint == ArrayLike:
        return array
    kinds = hint if isinstance(hint, tuple) else (hint,)
    plain = [_plain_test(kind) for kind in kinds]
    known = [test for test in plain if test is not None]
    return _any_of(known, owner) if len(known) == len(plain) else None


def _or_none(test: Test) -> Test:
    return lambda value, name: None if value is None else test(value, name)


def _any_of(tests: list[Callable[[Any], str | None]], owner: str) -> Test:
    def test(value: Any, name: str) -> Any:
        problems = [problem(value) for problem in tests]
        if all(problems):
            kind = UserValueError if isinstance(value, float) and value != value else UserTypeError
            wanted = " or ".join(problem for problem in problems if problem)
            raise kind.must(name, f"be {wanted}", value, f"{owner}.{name}")
        return value

    return test


def _plain_test(kind: Any) -> Callable[[Any], str | None] | None:
    origin = get_origin(kind)
    if origin is Literal:
        return _not_name if all(isinstance(option, str) for option in get_args(kind)) else None
    if getattr(origin, "__name__", "") == "Callable":
        return _not_function
    if getattr(kind, "__name__", "") == "Noise":
        return _not_noise
    known = {int: _not_whole, float: _not_number, bool: _not_truth, str: _not_name}
    return known.get(kind) if isinstance(kind, type) else None


def _has_axes(value: Any) -> bool:
    return bool(getattr(value, "shape", ()))


def _not_whole(value: Any) -> str | None:
    try:
        operator.index(value)
    except TypeError:
        return "a whole number"
    return "a whole number" if isinstance(value, bool) or _has_axes(value) else None


def _not_number(value: Any) -> str | None:
    if isinstance(value, str | bytes | bool | complex) or _has_axes(value):
        return "a number"
    try:
        number = float(value)
    except (OverflowError, TypeError, ValueError):
        return "a number"
    return "a number" if number != number else None


def _not_truth(value: Any) -> str | None:
    return None if isinstance(value, bool | np.bool_) else "True or False"


def _not_name(value: Any) -> str | None:
    return None if isinstance(value, str) else "text"


def _not_function(value: Any) -> str | None:
    return None if callable(value) else "a function"


def _not_noise(value: Any) -> str | None:
    return None if hasattr(value, "at") and hasattr(value, "uniform") else "a Noise(seed, purpose)"
