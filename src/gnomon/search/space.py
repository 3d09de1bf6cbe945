"""Spaces of hyper-parameters: derived from what a system declares, or given by hand."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from gnomon.catalog import card
from gnomon.catalog.cards import Card, Kind, Parameter
from gnomon.errors import UserError, UserTypeError, UserValueError, nearest
from gnomon.recipes.parameters import interval_of
from gnomon.search.conditions import Conditional, Space, active, combinations, ordered
from gnomon.search.dimensions import Dimension, OneOf, RealRange, WholeRange
from gnomon.search.intervals import Interval
from gnomon.system.base import System
from gnomon.tasks.budgets import BUDGETS

__all__ = ["POINTS", "derived", "grid", "intervals_of", "space_of", "values_of"]

LEFT_OUT = {
    "random_state", "dtype", "tol", "solver", "method", "batch_size", "n_init", "max_bins", "held_out", "out_of_bag",
    "bootstrap", "standardize", "scaling", "sampling", "unit", "min_count", "unknown", "start", "longest", "repeats",
    "unlabeled_weight", "intercept", "n_heads", *BUDGETS,
}  # fmt: skip
"""What a fit may cost, how it computes and how data are read is no question of the search, unless it is asked."""
FACTOR = 8
"""A range goes from an eighth of the default to eight times it."""
WIDE = 30
"""The same for rates and penalties, which are real and positive."""
SCALES = (0.25, 0.5, 1, 2, 4)
"""Of the widths of layers."""
DEPTHS = (None, 2, 4, 8, 16)
"""Limits to try where the default is to have none."""
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER})(:log)?")
CONDITION = re.compile(r"(.+?)\s+if\s+([\w.-]+)\s*=\s*(.+)")
MOST_POINTS = 10_000
POINTS = 5
"""Values of a range of numbers in a grid."""


def derived(system: System) -> Space:
    """Ranges around the values that a system has, within the intervals that it declares.

    Numbers and choices are searched; the parts in slots, budgets (`epochs` ...) and precision are not.

    Parameters
    ----------
    system : System

    Returns
    -------
    dict of str to OneOf, RealRange or WholeRange
        Positive numbers with a default d: from d/8 to 8d (whole) or d/30 to 30d (real), by their logarithm. A
        fraction: the half of its interval below the middle where the default lies there, else all of it. Widths of
        layers: a quarter to four times all of them, of a width that heads share an even part for each. A limit whose
        default is None: None and powers of 2.

    Examples
    --------
    >>> import gnomon
    >>> {name: str(one) for name, one in derived(gnomon.SVM()).items()}
    {'C': '0.0333333..30:log'}
    """
    found: Space = {}
    for parameter in _card(system).parameters:
        if parameter.name in LEFT_OUT or parameter.slot or not _acts(system, parameter.name):
            continue
        value: Any = getattr(system, parameter.name)
        heads: Any = getattr(system, "n_heads", None)
        shared = parameter.name == "n_embedding" and isinstance(heads, int)
        dimension = _among_heads(value, heads) if shared else _around(parameter, value)
        if dimension is not None:
            found[parameter.name] = dimension
    return found


def _card(system: System) -> Card:
    if not system.name:
        raise UserValueError(f"{type(system).__name__} is not in the catalog", "search", "give its space")
    return card(system.name)


def _acts(system: System, name: str) -> bool:
    """Whether a hyper-parameter does anything beside the values that the others have."""
    return all(getattr(system, other) == value for other, value in system.acts_with.get(name, {}).items())


def _around(parameter: Parameter, value: Any) -> Dimension | None:
    """The range of one hyper-parameter; None for one that has no scale to go by."""
    kinds = {kind.name: kind for kind in parameter.kinds}
    if isinstance(value, tuple):
        return _widths(value)
    if isinstance(value, str) and "choice" in kinds:
        return OneOf(kinds["choice"].choices) if len(kinds["choice"].choices) > 1 else None
    if value is None:
        return OneOf(DEPTHS) if "int" in kinds and "float" not in kinds and parameter.name.startswith("max_") else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    kind = kinds.get("int" if isinstance(value, int) and "int" in kinds else "float")
    return None if kind is None else _interval(kind, value)


def _widths(value: tuple[Any, ...]) -> Dimension | None:
    """Layers (...) narrower and wider, all by the same factor."""
    if not value or not all(isinstance(one, int) and one >= min(SCALES) ** -1 for one in value):
        return None
    return OneOf(tuple(tuple(round(one * scale) for one in value) for scale in SCALES))


def _among_heads(width: int, heads: int) -> Dimension | None:
    """Widths that `heads` heads share, each an even part: those of rotary positions are pairs."""
    part = 2 * heads
    if width % part:
        return None
    found = {max(part, round(width * scale / part) * part) for scale in SCALES}
    return OneOf(tuple(sorted(found)))


def _interval(kind: Kind, value: float) -> Dimension | None:
    low, high, open_low, open_high = _bounds(kind.interval)
    if kind.name == "int":
        if value < 1:
            return None
        a, b = max(math.ceil(low), round(value / FACTOR), 1), min(high, max(value * FACTOR, 4))
        return WholeRange(int(a), int(b), log=True) if a < b else None
    if high <= 1:
        margin, middle = (high - low) / 100, (low + high) / 2
        return RealRange(low + margin * open_low, middle if value < middle else high - margin * open_high)
    return RealRange(max(value / WIDE, low), min(value * WIDE, high), log=True) if value > 0 and low >= 0 else None


def _bounds(interval: str) -> tuple[float, float, bool, bool]:
    """Ends of an interval as it is declared, and whether they are left out."""
    if not interval:
        return -math.inf, math.inf, True, True
    low, high = interval[1:-1].split(",")
    return float(low), float(high), interval[0] == "(", interval[-1] == ")"


def space_of(system: System, given: Mapping[str, Any]) -> Space:
    """A space that is given by hand, checked against the system.

    Parameters
    ----------
    system : System
    given : mapping of str to str, sequence, OneOf, RealRange, WholeRange or Conditional
        Texts as ``16..512``, ``1e-5..1e-1:log``, ``relu,tanh``, each perhaps with ``if other=value,...`` after it;
        sequences are choices.

    Raises
    ------
    UserTypeError, UserValueError
        A hyper-parameter that the system has not, a range that cannot be read, a value that the system refuses.

    Examples
    --------
    >>> import gnomon
    >>> space_of(gnomon.MLP(), {"learning_rate": "1e-4..1e-2:log", "activation": ["relu", "tanh"]})
    {'learning_rate': RealRange(low=0.0001, high=0.01, log=True), 'activation': OneOf(values=('relu', 'tanh'))}
    """
    if not isinstance(given, Mapping):
        raise UserTypeError.must("space", "be a mapping of names to ranges", given, "search")
    return ordered({name: _read(system, name, one) for name, one in given.items()})


def _read(system: System, name: str, given: Any) -> Dimension | Conditional:
    """One range, checked; that of a condition beside the first value that it asks for."""
    hit = CONDITION.fullmatch(given.strip()) if isinstance(given, str) else None
    if hit is not None:
        other = hit[2].replace("-", "_")
        values = tuple(_value(system, other, one.strip()) for one in hit[3].split(","))
        given = Conditional(_dimension(_with(system, other, values[0]), name, hit[1]), other, values)
    if isinstance(given, Conditional):
        _checked(_with(system, given.other, given.values[0]), name, given.range)
        return given
    return _checked(system, name, _dimension(system, name, given))


def _dimension(system: System, name: str, given: Any) -> Dimension:
    if isinstance(given, OneOf | RealRange | WholeRange):
        return given
    if isinstance(given, str):
        return _parsed(system, name, given)
    if isinstance(given, Sequence) or hasattr(given, "tolist"):
        return OneOf(tuple(getattr(given, "tolist", lambda: given)()))
    raise UserTypeError.must(name, "be a range such as 16..512:log, or a list of values", given, "space")


def _parsed(system: System, name: str, text: str) -> Dimension:
    """The range that a text stands for.

    Values are read as the command line reads those of this hyper-parameter.
    """
    hit = RANGE.fullmatch(text.strip())
    if hit is None:
        if ".." in text:
            raise UserValueError(
                f"{name} must be LOW..HIGH, LOW..HIGH:log or A,B,..., got {text!r}", "space", "such as 1e-5..1e-1:log"
            )
        return OneOf(tuple(_value(system, name, one.strip()) for one in text.split(",")))
    low, high = float(hit[1]), float(hit[2])
    whole = _is_whole(system, name) and low == int(low) and high == int(high)
    return WholeRange(int(low), int(high), log=bool(hit[3])) if whole else RealRange(low, high, log=bool(hit[3]))


def _is_whole(system: System, name: str) -> bool:
    now = _now(system, name)
    return isinstance(now, int | None) and not isinstance(now, bool) and not _takes(system, name, 1.5)


def _now(system: System, name: str) -> Any:
    """What the system has at an address."""
    top, _, field = name.partition(".")
    known = system.get_params(deep=False)
    if top in known and not field:
        return known[top]
    if top in system.slots:
        inside = system.recipe(top).get_params(deep=False)
        if field in inside:
            return inside[field]
        known = {f"{top}.{one}": value for one, value in inside.items()}
    close = nearest(name, list(known))
    remedy = f"did you mean {close[0]}?" if close else f"choose from {', '.join(known)}"
    raise UserValueError(f"{type(system).__name__} has no hyper-parameter {name!r}", "space", remedy)


def _value(system: System, name: str, text: str) -> Any:
    """One value of a choice, of the kind that the hyper-parameter has."""
    if text.lower() in ("none", "true", "false"):
        return {"none": None, "true": True, "false": False}[text.lower()]
    now = _now(system, name)
    if isinstance(now, tuple):
        return tuple(int(part) for part in text.split("x")) if re.fullmatch(r"\d+(x\d+)*", text) else text
    if re.fullmatch(r"[-+]?\d+", text):
        return float(text) if isinstance(now, float) else int(text)
    return float(text) if re.fullmatch(NUMBER, text) else text


def _checked(system: System, name: str, dimension: Dimension) -> Dimension:
    """Refuse a range whose ends (values) the system refuses, before anything is fitted."""
    _now(system, name)
    ends = dimension.values if isinstance(dimension, OneOf) else (dimension.low, dimension.high)
    for value in ends:
        _with(system, name, value).check_parameters()
    return dimension


def _with(system: System, name: str, value: Any) -> System:
    from sklearn.base import clone

    changed: System = clone(system).set_params(**{name.replace(".", "__"): value})
    return changed


def _takes(system: System, name: str, value: Any) -> bool:
    """Whether the system takes a value."""
    try:
        _with(system, name, value).check_parameters()
    except UserError:
        return False
    return True


def intervals_of(system: System, space: Space) -> dict[str, Interval]:
    """The intervals that the system (a recipe in a slot of it) declares of the numbers of a space."""
    found = {}
    for name, one in space.items():
        inside = _with(system, one.other, one.values[0]) if isinstance(one, Conditional) else system
        top, _, field = name.partition(".")
        owner = inside.recipe(top) if field else inside
        found[name] = Interval(*_bounds(interval_of(owner, field or top)))
    return found


def values_of(system: System, space: Space) -> dict[str, Any] | None:
    """The values that a system has of the hyper-parameters of a space; None where one of them lies outside it."""
    found = active(space, {name: _now(system, name) for name in space})
    return found if all(space[name].holds(value) for name, value in found.items()) else None


def grid(space: Space, per_dimension: int = POINTS) -> list[dict[str, Any]]:
    """Every combination of the values of each range, the last one changing fastest.

    Parameters
    ----------
    space : dict of str to OneOf, RealRange, WholeRange or Conditional
    per_dimension : int, default 5
        Values of a range of numbers.

    Raises
    ------
    UserValueError
        More than 10,000 combinations.

    Examples
    --------
    >>> grid({"C": RealRange(0.1, 10, log=True), "kernel": OneOf(("rbf",))}, 2)
    [{'C': 0.1, 'kernel': 'rbf'}, {'C': 10.0, 'kernel': 'rbf'}]
    """
    values = [one.grid(per_dimension) for one in space.values()]
    points = math.prod(map(len, values))
    if points > MOST_POINTS:
        what = f"the grid has {points:,} points, more than {MOST_POINTS:,}"
        raise UserValueError(what, "search", "give fewer values, or draw at random")
    return combinations(space, values)
