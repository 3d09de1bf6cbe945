"""A preparation that has been learned: raw columns, found by name in any order, become the columns of a fit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnomon.data.column_steps import CategoryStep, ColumnStep, DateStep, NumberStep, step_from_json, step_to_json
from gnomon.data.columns import Chunk
from gnomon.data.frames import LENIENT, NUMBER, TRUTH, frame_of, of_kind
from gnomon.data.text import plural
from gnomon.data.word_steps import WordsStep
from gnomon.errors import NoColumn, UserValueError, counted, nearest

__all__ = ["TEXT_COLUMN", "Prepared", "as_table"]

Floats = NDArray[np.float64]
T = TypeVar("T", bound="RawTable")
_UNNAMED = re.compile(r"^column_[0-9]+$")
_LISTED = 8
TEXT_COLUMN = "text"
"""The column that a set of texts is."""


class RawTable(Protocol):
    """What is asked of a data set: its name, and its columns as they were read."""

    @property
    def name(self) -> str: ...

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def frame(self) -> Any: ...

    @property
    def preparation(self) -> Any: ...

    def view(self, kind: str, /) -> Any: ...


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a `gnomon.data.Preparation` has learned from training rows.

    Parameters
    ----------
    steps : tuple of column steps
        One for each raw column that is used, in the order of the training rows.
    left_out : mapping
        Raw columns that are not used, with the reason.
    shift, unit : arrays of shape (d,), optional
        Mean and spread of the prepared columns, of those that are 0 and 1 by nature 0 and 1; None: nothing is scaled.
        The system scales, so that what it is given and what it answers stay in the columns' own units.
    target : (float, float), optional
        Mean and spread of the target, for a system whose answer depends on the unit of the target.
    """

    steps: tuple[ColumnStep, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    shift: Floats | None = None
    unit: Floats | None = None
    target: tuple[float, float] | None = None

    @cached_property
    def names_in(self) -> tuple[str, ...]:
        """The raw columns that are used."""
        return tuple(step.name for step in self.steps)

    @cached_property
    def names_out(self) -> tuple[str, ...]:
        """Names of the prepared columns."""
        taken: dict[str, int] = {}
        names = []
        for name in (one for step in self.steps for one in step.names):
            taken[name] = taken.get(name, 0) + 1
            names.append(name if taken[name] == 1 else f"{name} ({taken[name]})")
        return tuple(names)

    @property
    def sources(self) -> dict[str, str]:
        """The raw column of each prepared column."""
        raw = [step.name for step in self.steps for _ in step.names]
        return dict(zip(self.names_out, raw, strict=True))

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each raw column that is used, for the reader of a file."""
        return {step.name: step.kind for step in self.steps}

    @property
    def plain(self) -> bool:
        """Whether every number that is there stays as it is."""
        return all(isinstance(step, NumberStep) and step.plain for step in self.steps)

    # --- rows ---------------------------------------------------------------------------------------------------

    def apply(self, data: T) -> T:
        """The data set with the prepared columns as X.

        Raises
        ------
        NoColumn
            A column that is missing, by its name.
        """
        if data.preparation is self:
            return data
        data = as_table(data)
        X = self._of_array(data) if data.frame is None else self.transform(data.frame, name=data.name)
        dataset: Any = data
        ready: T = replace(dataset, X=X, columns=self.names_out, preparation=self)
        return ready

    def transform(self, rows: Any, *, name: str = "X") -> Floats:
        """Prepared columns of a pandas or polars frame, not scaled, shape (n, d).

        Raises
        ------
        NoColumn
            A column that is missing, by its name.
        UserValueError
            A cell of another kind than in the fit, with its row.
        """
        frame = frame_of(rows)
        places = self._places(frame.columns, name)
        frame = frame.select([pl.nth(place).alias(raw) for place, raw in zip(places, self.names_in, strict=True)])
        part = Chunk(name, frame, "row", 0, typed=True)
        out = np.empty((frame.height, len(self.names_out)))
        for step, start, end in self._slices():
            step.fill(of_kind(part, step.name, step.kind), out[:, start:end])
        return out

    def _of_array(self, data: RawTable) -> Any:
        """Prepared columns of a table of numbers, in its dtype; the very array where nothing is to be done."""
        X = data.view("table")
        places = self._places(data.columns or _numbered(X.shape[1]), data.name)
        if self.plain:
            X = X if places == list(range(X.shape[1])) else X[:, places]
            filling = [getattr(step, "value", None) for step in self.steps]
            if all(value is None for value in filling) or not np.isnan(np.min(X, initial=0.0)):
                return X
            values = np.array([np.nan if value is None else value for value in filling])
            return np.where(np.isnan(X), values, X).astype(X.dtype, copy=False)
        out = np.empty((len(X), len(self.names_out)), X.dtype)
        for (step, start, end), place in zip(self._slices(), places, strict=True):
            step.fill(pl.Series(step.name, np.ascontiguousarray(X[:, place])), out[:, start:end])
        return out

    def _slices(self) -> list[tuple[ColumnStep, int, int]]:
        """Each step with the first prepared column and the one after its last."""
        ends = np.cumsum([len(step.names) for step in self.steps]).tolist()
        return list(zip(self.steps, [0, *ends[:-1]], ends, strict=True))

    def given(self, X: Any) -> Any:
        """What a user hands to a fitted system, as prepared columns.

        Of a frame the raw columns are found by name; an array of prepared columns stays as it is, and of one of raw
        columns, where these are all numbers, they are taken by place.
        """
        if hasattr(X, "columns") and not callable(X.columns):
            return self.transform(X)
        width = np.shape(X)[1] if np.ndim(X) == 2 else None
        if width != len(self.names_in) or self.plain:
            return X
        numbers = all(step.kind in (NUMBER, LENIENT, TRUTH) for step in self.steps)
        if width == len(self.names_out) or not numbers:
            return X
        return self.transform(pl.from_numpy(np.asarray(X), schema=list(self.names_in)))

    def scaled(self, X: Any) -> Any:
        """Prepared columns with mean 0 and spread 1 where the fit scales them."""
        if self.shift is None or self.unit is None:
            return X
        return ((X - self.shift) / self.unit).astype(X.dtype, copy=False)

    def in_units(self, X: Any) -> Any:
        """Scaled columns in their own units again."""
        if self.shift is None or self.unit is None:
            return X
        return (X * self.unit + self.shift).astype(X.dtype, copy=False)

    def log_units(self, X: Any) -> Any:
        """Sum of the log units of the columns that each row has, by which a log density grows when it is scaled."""
        if self.unit is None:
            return 0.0
        return np.matmul(~np.isnan(X), np.log(self.unit))

    def with_target(self, y: Any) -> Self:
        """The same, with mean and spread of a numeric target."""
        values = np.asarray(y, np.float64)
        spread = float(values.std())
        return replace(self, target=(float(values.mean()), spread if spread > 0 else 1.0))

    def _places(self, columns: Sequence[str], name: str) -> list[int]:
        """Where the raw columns are among these."""
        known = {column: i for i, column in enumerate(columns)}
        missing = [column for column in self.names_in if column not in known]
        if not missing:
            return [known[column] for column in self.names_in]
        nameless = all(_UNNAMED.match(column) for column in self.names_in) and len(missing) == len(self.names_in)
        if nameless and not self.left_out and len(columns) == len(self.names_in):
            return list(range(len(columns)))
        close = nearest(missing[0], list(columns))
        listed = ", ".join(map(repr, self.names_in[:6])) + (", ..." if len(self.names_in) > 6 else "")
        remedy = f"the fit needs {listed}" + (f"; did you mean {close[0]!r}?" if close else "")
        raise NoColumn(f"no column {missing[0]!r}", name, remedy)

    # --- words and facts ----------------------------------------------------------------------------------------

    def lines(self) -> list[str]:
        """What is done to which column, in a few lines; none where every column is taken as it is."""
        found = []
        if not self.plain or self.left_out:
            n = len(self.steps) + len(self.left_out)
            found.append(f"{counted(n, 'column')} read, {len(self.steps)} used, as {len(self.names_out)} numbers")
        found += self._category_lines() + self._number_lines()
        dates = [f"{step.name} ({', '.join(step.parts)})" for step in self.steps if isinstance(step, DateStep)]
        if dates:
            found.append(f"dates: {_listed(dates)}")
        found += [f"words: {step.about}" for step in self.steps if isinstance(step, WordsStep)]
        for name, why in list(self.left_out.items())[:_LISTED]:
            found.append(f"left out: {name}, {why}")
        if len(self.left_out) > _LISTED:
            found.append(f"left out: {len(self.left_out) - _LISTED} columns more")
        if self.unit is not None:
            changed = [name for name, unit in zip(self.names_out, self.unit.tolist(), strict=True) if unit != 1]
            every = "" if len(changed) < len(self.names_out) else "all: "
            if changed:
                found.append(f"scaled to mean 0 and spread 1: {every}{_listed(changed)}")
        if self.target is not None:
            found.append(f"target scaled too: mean {self.target[0]:.6g}, spread {self.target[1]:.6g}")
        return found

    def taken(self) -> dict[str, str]:
        """What each raw column is taken as, in a few words.

        Examples
        --------
        >>> Prepared((NumberStep("age"),), {"k": "the same in every training row (7)"}).taken()
        {'age': 'number', 'k': 'left out: the same in every training row (7)'}
        """
        found = {}
        for step in self.steps:
            if isinstance(step, CategoryStep):
                more = [word for word in ("other", "missing") if getattr(step, word)]
                found[step.name] = " + ".join([counted(len(step.levels), "level"), *more])
            elif isinstance(step, WordsStep):
                found[step.name] = f"{len(step.words)} {plural(step.unit)} by {step.weights}"
            elif isinstance(step, DateStep):
                found[step.name] = f"date: {', '.join(step.parts)}"
            else:
                found[step.name] = "0 and 1" if step.kind == TRUTH else "number"
        return found | {name: f"left out: {why.partition(';')[0]}" for name, why in self.left_out.items()}

    def _category_lines(self) -> list[str]:
        found: dict[bool, list[str]] = {False: [], True: []}
        for step in self.steps:
            if isinstance(step, CategoryStep):
                more = [word for word in ("other", "missing") if getattr(step, word)]
                found[step.codes].append(f"{step.name} ({' + '.join([counted(len(step.levels), 'level'), *more])})")
        names = {False: "one-hot", True: "codes"}
        return [f"{names[codes]}: {_listed(listed)}" for codes, listed in found.items() if listed]

    def _number_lines(self) -> list[str]:
        numbers = [step for step in self.steps if isinstance(step, NumberStep)]
        lacking = [step for step in numbers if step.value is not None and step.missing]
        filled = [f"{step.name} ({step.value:.6g})" for step in lacking if step.indicator]
        silent = [f"{step.name} ({step.value:.6g})" for step in lacking if not step.indicator]
        kept = [step.name for step in numbers if step.value is None and step.missing]
        ranged = [step.name for step in numbers if step.low is not None]
        cut = [step.names[0] for step in numbers if step.above is not None]
        words = (
            ("missing numbers filled, with a column that says where", filled), ("missing numbers filled", silent),
            ("missing numbers kept", kept), ("brought to [0, 1]", ranged), ("1 where above the median", cut),
        )  # fmt: skip
        return [f"{what}: {_listed(listed)}" for what, listed in words if listed]

    def to_json(self) -> dict[str, Any]:
        """As the run keeps it."""
        found: dict[str, Any] = {"steps": [step_to_json(step) for step in self.steps], "left_out": dict(self.left_out)}
        if self.shift is not None and self.unit is not None:
            found |= {"shift": self.shift.tolist(), "unit": self.unit.tolist()}
        return found if self.target is None else found | {"target": list(self.target)}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """What `to_json` wrote.

        Raises
        ------
        UserValueError
            Facts that are no preparation.
        """
        try:
            steps = tuple(step_from_json(step) for step in given["steps"])
            shift, unit = (None if given.get(n) is None else np.array(given[n], np.float64) for n in ("shift", "unit"))
            target = None if given.get("target") is None else (float(given["target"][0]), float(given["target"][1]))
            left_out = {str(name): str(why) for name, why in given.get("left_out", {}).items()}
            found = cls(steps, left_out, shift, unit, target)
            if len(set(found.names_in)) < len(steps):
                raise ValueError("a column is there twice")
            if not all(np.isfinite(one).all() for one in (shift, unit, target) if one is not None):
                raise ValueError("a mean or spread is not finite")
            widths = {len(found.names_out)} | {len(one) for one in (shift, unit) if one is not None}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = " ".join(str(error).split())[:80]
            raise UserValueError(f"the preparation cannot be read: {reason}", "config.json", "fit again") from None
        if len(widths) != 1:
            raise UserValueError("the preparation cannot be read: widths differ", "config.json", "fit again")
        return found


def as_table(data: T) -> T:
    """A set of texts as a table of one column, ``text``; any other set as it is.

    Examples
    --------
    >>> from gnomon.data import Dataset
    >>> as_table(Dataset("two", text=("a b", "c"))).frame.columns
    ['text']
    """
    raw: Any = data
    if raw.text is None or raw.frame is not None or raw.X is not None:
        return data
    found: T = replace(raw, frame=pl.DataFrame({TEXT_COLUMN: list(raw.text)}))
    return found


def _numbered(width: int) -> list[str]:
    """Names of columns that have none."""
    return [f"column_{i}" for i in range(1, width + 1)]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
