"""What one column of a table becomes: numbers, truth values, categories, dates and texts, each a few facts in JSON."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnomon.data.frames import DATE, LENIENT, NUMBER, TEXT, TRUTH, texts_of
from gnomon.data.text import UNITS
from gnomon.data.word_steps import WordsStep
from gnomon.errors import shown

__all__ = [
    "DAY", "PARTS", "CategoryStep", "ColumnStep", "DateStep", "NumberStep", "date_part", "step_from_json",
    "step_to_json",
]  # fmt: skip

Floats = NDArray[np.float64]

DAY = 86_400_000_000
"""Microseconds of a day."""
PARTS = ("year", "month", "weekday", "hour", "days")
"""What a date may become; ``days`` is the time since the first training date."""


class ColumnStep(Protocol):
    """One raw column on its way to numbers."""

    @property
    def name(self) -> str:
        """The raw column."""
        ...

    @property
    def kind(self) -> str:
        """The kind that the raw column must have, for the reader."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the prepared columns."""
        ...

    @property
    def measured(self) -> tuple[bool, ...]:
        """Which prepared columns are measurements that may be scaled, not 0 and 1."""
        ...

    def fill(self, cells: pl.Series, out: Floats) -> None:
        """Write the prepared columns of these rows into `out`, shape (n, len(names))."""
        ...


@dataclass(frozen=True)
class NumberStep:
    """A number, or a truth value as 0 and 1.

    Parameters
    ----------
    name : str
    kind : str
        ``number``, ``number?`` or ``truth value``.
    value : float, optional
        What stands for a missing one; None: it stays missing.
    missing : bool
        Whether training rows lacked it.
    indicator : bool
        Whether a second column says where it is missing.
    low, high : float, optional
        The training range, which is brought to [0, 1]; what lies outside lands on the nearest end.
    above : float, optional
        1 where the number is larger, else 0.
    """

    name: str
    kind: str = NUMBER
    value: float | None = None
    missing: bool = False
    indicator: bool = False
    low: float | None = None
    high: float | None = None
    above: float | None = None
    type: ClassVar[str] = "number"

    @property
    def plain(self) -> bool:
        """Whether a number that is there stays as it is, alone."""
        return self.low is None and self.above is None and not self.indicator

    @property
    def names(self) -> tuple[str, ...]:
        first = self.name if self.above is None else f"{self.name}>{self.above:.6g}"
        return (first, f"{self.name} missing") if self.indicator else (first,)

    @property
    def measured(self) -> tuple[bool, ...]:
        number = self.kind != TRUTH and self.above is None and self.low is None
        return (number, False) if self.indicator else (number,)

    def fill(self, cells: pl.Series, out: Floats) -> None:
        values = cells.cast(pl.Float64).fill_null(float("nan")).to_numpy()
        missing = np.isnan(values)
        if self.value is not None:
            values = np.where(missing, self.value, values)
        if self.low is not None and self.high is not None:
            values = np.clip((values - self.low) / ((self.high - self.low) or 1.0), 0.0, 1.0)
        if self.above is not None:
            values = np.where(np.isnan(values), values, values > self.above)
        out[:, 0] = values
        if self.indicator:
            out[:, 1] = missing


@dataclass(frozen=True)
class CategoryStep:
    """A category: a column of 0 and 1 for each level, or one column of codes.

    Parameters
    ----------
    name : str
    levels : tuple of str
        The levels of the training rows that are kept, sorted.
    other : bool
        Whether rare levels share one; unseen levels join it. Without it an unseen level is 0 in every column, or has
        the code after the last level.
    missing : bool
        Whether missing is a level of its own; without it a missing cell is as one of an unseen level.
    codes : bool
        Whether there is one column of codes: levels, then other, then missing.
    """

    name: str
    levels: tuple[str, ...]
    other: bool = False
    missing: bool = False
    codes: bool = False
    type: ClassVar[str] = "category"
    kind: ClassVar[str] = TEXT

    @property
    def names(self) -> tuple[str, ...]:
        if self.codes:
            return (self.name,)
        more = [f"{self.name} {word}" for word in ("other", "missing") if getattr(self, word)]
        return (*(f"{self.name}={level}" for level in self.levels), *more)

    @property
    def measured(self) -> tuple[bool, ...]:
        return (self.codes,) * len(self.names)

    def fill(self, cells: pl.Series, out: Floats) -> None:
        k = len(self.levels)
        known = dict(zip(self.levels, range(k), strict=True))
        text = texts_of(cells)
        codes = text.replace_strict(known, default=k, return_dtype=pl.Int64).fill_null(k).to_numpy()
        if self.missing:
            codes = np.where(text.is_null().to_numpy(), k + (self.other or self.codes), codes)
        if self.codes:
            out[:, 0] = codes
            return
        out[:] = 0.0
        rows = np.flatnonzero(codes < out.shape[1] if self.other or self.missing else codes < k)
        if self.missing and not self.other:
            unseen = (codes == k) & ~text.is_null().to_numpy()
            rows = np.flatnonzero(~unseen)
        out[rows, codes[rows]] = 1.0


@dataclass(frozen=True)
class DateStep:
    """A date as year, month (1 to 12), weekday (1 Monday to 7), hour, and days since the first training date.

    Parameters
    ----------
    name : str
    parts : tuple of str
        Those of `PARTS` that vary over the training rows.
    first : int
        The first training date, in microseconds since 1970.
    values : tuple of float, optional
        What stands for each part of a missing date; None: it stays missing.
    indicator : bool
        Whether a last column says where the date is missing.
    written : str
        The format of dates in text; empty for ISO 8601.
    """

    name: str
    parts: tuple[str, ...]
    first: int
    values: tuple[float, ...] | None = None
    indicator: bool = False
    written: str = ""
    type: ClassVar[str] = "date"

    @property
    def kind(self) -> str:
        return f"{DATE}:{self.written}" if self.written else DATE

    @property
    def names(self) -> tuple[str, ...]:
        more = (f"{self.name} missing",) if self.indicator else ()
        return (*(f"{self.name}.{part}" for part in self.parts), *more)

    @property
    def measured(self) -> tuple[bool, ...]:
        return (*(True for _ in self.parts), *((False,) if self.indicator else ()))

    def fill(self, cells: pl.Series, out: Floats) -> None:
        missing = cells.is_null().to_numpy()
        for j, part in enumerate(self.parts):
            values = date_part(cells, part, self.first)
            out[:, j] = values if self.values is None else np.where(missing, self.values[j], values)
        if self.indicator:
            out[:, -1] = missing


def date_part(cells: pl.Series, part: str, first: int) -> Floats:
    """One part of dates as numbers, NaN where missing."""
    if part == "days":
        found = (cells.cast(pl.Datetime("us")).cast(pl.Int64) - first) / DAY
    elif part == "hour":
        at = cells.cast(pl.Datetime("us")).dt
        found = at.hour().cast(pl.Float64) + at.minute() / 60 + at.second() / 3600
    else:
        found = getattr(cells.dt, part)()
    return found.cast(pl.Float64).fill_null(float("nan")).to_numpy()


_TYPES: dict[str, Any] = {step.type: step for step in (NumberStep, CategoryStep, DateStep, WordsStep)}


def step_to_json(step: Any) -> dict[str, Any]:
    """A step as JSON values."""
    facts = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(step).items()}
    return {"type": step.type} | {
        name: value for name, value in facts.items() if value is not None and value is not False
    }


def step_from_json(given: dict[str, Any]) -> Any:
    """The step that `step_to_json` wrote.

    Raises
    ------
    KeyError, TypeError, ValueError, AttributeError
        Facts that no step has.
    """
    facts = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    step = _TYPES[given["type"]](**{name: value for name, value in facts.items() if name != "type"})
    for one in fields(step):
        rule, holds = _RULES[one.type]
        if not holds(getattr(step, one.name)):
            raise ValueError(f"{one.name} must {rule}, got {shown(given.get(one.name))}")
    if isinstance(step, NumberStep) and (
        step.kind not in (NUMBER, LENIENT, TRUTH) or (step.low is None) != (step.high is None)
    ):
        raise ValueError(f"the number {step.name!r} has no such kind or range")
    if isinstance(step, CategoryStep) and len(set(step.levels)) < len(step.levels):
        raise ValueError(f"the category {step.name!r} has a level twice")
    if isinstance(step, DateStep) and (
        not set(step.parts) <= set(PARTS) or len(step.values or step.parts) != len(step.parts)
    ):
        raise ValueError(f"the date {step.name!r} has no such parts")
    return step


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


_RULES: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    "str": ("be text", lambda value: isinstance(value, str)),
    "bool": ("be true or false", lambda value: isinstance(value, bool)),
    "int": ("be a whole number", lambda value: type(value) is int and abs(value) < 1 << 63),
    "Unit": ("be a unit of text", lambda value: value in UNITS),
    "float | None": ("be a number", lambda value: value is None or _is_number(value)),
    "tuple[str, ...]": (
        "be a list of texts", lambda value: isinstance(value, tuple) and all(isinstance(one, str) for one in value),
    ),
    "tuple[float, ...] | None": (
        "be a list of numbers",
        lambda value: value is None or (isinstance(value, tuple) and all(map(_is_number, value))),
    ),
}  # fmt: skip
"""What a fact of a step must be, by the type that its field is declared with."""
