"""Learning a preparation from training rows: what each column is, what is left out, and why."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnomon.data.column_steps import PARTS, CategoryStep, DateStep, NumberStep, date_part
from gnomon.data.columns import Chunk
from gnomon.data.dataset import Dataset
from gnomon.data.frames import DATE, LENIENT, NUMBER, TEXT, TRUTH, frame_of, kind_of_series, of_kind, texts_of
from gnomon.data.lexicon import Lexicon
from gnomon.data.prepared import Prepared, as_table
from gnomon.data.preprocessing import standardization
from gnomon.data.word_steps import WEIGHTS, WordsStep, refuse_large, unit_of
from gnomon.errors import NoColumn, UserValueError, nearest

__all__ = ["learn"]

FEW = 20
"""Rows from which on cells that are all different make a name of a row, without a hint in the column's name."""
ROWS = "a row number or an id"
FREE = 20
"""Different levels from which on most rows must be in levels that are not rare, and a level must have five rows on
average; a column is free text otherwise."""
_ID = re.compile(
    r"^(unnamed: ?[0-9]+|index|level_0|row(_?names?|_?num(ber)?|_?no)?|nr|no\.?|#|(.*[^a-z])?(uu|gu)?id)$"
    r"|^id([^a-z].*)?$",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"[a-z](ID|Id)$")
_UNNAMED = re.compile(r"^column_[0-9]+$")


class Choices(Protocol):
    """What a user chooses: the fields of `gnomon.data.Preparation` that learning depends on."""

    @property
    def encode(self) -> str: ...

    @property
    def missing(self) -> str: ...

    @property
    def text(self) -> str: ...

    @property
    def words(self) -> int: ...

    @property
    def text_unit(self) -> str: ...

    @property
    def lexicon(self) -> str | None: ...

    @property
    def rare(self) -> float: ...

    @property
    def drop(self) -> Sequence[str]: ...

    @property
    def numeric(self) -> Sequence[str]: ...

    @property
    def categorical(self) -> Sequence[str]: ...

    @property
    def id(self) -> Sequence[str]: ...


def learn(
    recipe: Choices, data: Any, *, keep_missing: bool, scaled: bool, indicators: bool, within: str,
    ordered: bool = False,
) -> Prepared:  # fmt: skip
    """What a recipe learns from training rows; see `gnomon.data.Preparation.fit`."""
    data = as_table(data) if isinstance(data, Dataset) else data
    return _Learner(recipe, data, keep_missing, indicators, within, ordered).learn(scaled)


def _columns(data: Any) -> tuple[dict[str, Any], str]:
    """Raw columns by name, series of a frame or slices of a table of numbers, and what the data is called."""
    if isinstance(data, Dataset) and data.frame is None:
        X = data.view("table")
        names = data.columns or tuple(f"column_{i}" for i in range(1, X.shape[1] + 1))
        return {name: X[:, j] for j, name in enumerate(names)}, data.name
    frame = frame_of(data.frame if isinstance(data, Dataset) else data)
    return {column.name: column for column in frame.get_columns()}, data.name if isinstance(data, Dataset) else "X"


class _Learner:
    """The training rows, with what is asked of their columns."""

    def __init__(
        self, recipe: Choices, data: Any, keep_missing: bool, indicators: bool, within: str, ordered: bool
    ) -> None:
        self.recipe, self.data, self.ordered = recipe, data, ordered
        self.keep_missing, self.indicators, self.within = keep_missing, indicators, within
        self.columns, self.name = _columns(data)
        self.is_text = isinstance(data, Dataset) and data.text is not None
        self.strict = recipe.encode == "none"
        self.left_out: dict[str, str] = {}
        self.only: str | None = None
        self.headless = all(_UNNAMED.match(column) for column in self.columns)

    def learn(self, scaled: bool) -> Prepared:
        """The steps, then the scaling of what they give."""
        self._check_names()
        steps = [step for column in self.columns if (step := self._step(column)) is not None]
        if not steps and (only := self._only()) is not None:
            steps = [only]
        if not steps:
            reasons = "; ".join(f"{column}: {why}" for column, why in list(self.left_out.items())[:2])
            remedy = "name one with columns, or take one as numeric or categorical"
            raise UserValueError(f"no column is left as a feature ({reasons})", self.name, remedy)
        found = Prepared(tuple(steps), self.left_out)
        if not scaled:
            return found
        X = found.apply(self.data).X if isinstance(self.data, Dataset) else found.transform(self.data)
        measured = np.concatenate([step.measured for step in steps])
        shift, unit = standardization(X)
        return replace(found, shift=np.where(measured, shift, 0.0), unit=np.where(measured, unit, 1.0))

    def _only(self) -> Any:
        """The step of the one column that was taken for names of the rows, where nothing else is left."""
        named = [column for column, why in self.left_out.items() if why == ROWS]
        if len(named) != 1:
            return None
        del self.left_out[named[0]]
        self.only = named[0]
        what = f"column {named[0]!r} looks like a row number or an id, and is used, as it is the only feature"
        warnings.warn(what, UserWarning, stacklevel=2)
        return self._step(named[0])

    def _rows(self) -> NDArray[np.int64]:
        """The number of each row in its file."""
        rows = self.data.rows if isinstance(self.data, Dataset) else None
        return np.arange(len(self.data)) if rows is None else rows

    def _check_names(self) -> None:
        """Refuse options that name a column which is not there."""
        gone = self.data.source.get("left_out", ()) if isinstance(self.data, Dataset) else ()
        for option in ("drop", "numeric", "categorical", "id"):
            for column in getattr(self.recipe, option):
                if column not in self.columns and column not in gone:
                    close = nearest(column, list(self.columns)) or list(self.columns)[:6]
                    remedy = f"did you mean {', '.join(map(repr, close))}?"
                    raise NoColumn(f"no column {column!r}", f"{self.name}, {option}", remedy)

    def _step(self, column: str) -> Any:
        """What becomes of a column; None where it is left out."""
        recipe, cells = self.recipe, self.columns[column]
        if column in (*recipe.drop, *recipe.id):
            return self._leave(column, "as asked" if column in recipe.drop else "an id, as asked")
        if column in recipe.categorical:
            return self._category(column, texts_of(pl.Series(column, cells)), named=True)
        chosen = (self.data.source.get("columns") or ()) if isinstance(self.data, Dataset) else ()
        named = column in (*recipe.numeric, *chosen) or column == self.only
        if not isinstance(cells, pl.Series):
            return self._number(column, cells, LENIENT if column in recipe.numeric else NUMBER, named=named)
        kind = LENIENT if column in recipe.numeric else kind_of_series(cells, typed=True)
        if self.strict and kind not in (NUMBER, LENIENT, TRUTH):
            what = f"the column holds {'dates' if kind.startswith(DATE) else 'text'}, not numbers"
            where = f"{self.name}, column {column!r}"
            raise UserValueError(what, where, "leave it out (drop), or have it encoded (encode one-hot)")
        typed = of_kind(Chunk(self.name, pl.DataFrame([cells]), "row", 0, typed=True), column, kind)
        if kind == TEXT and self.is_text and self.recipe.text != "none":
            return self._words(column, typed)
        if kind == TEXT:
            return self._category(column, typed)
        if kind.startswith(DATE):
            known = self.data.source.get("dates", {}) if isinstance(self.data, Dataset) else {}
            return self._date(column, typed, known.get(column, "") or kind.partition(":")[2])
        return self._number(column, typed.cast(pl.Float64).to_numpy(), kind, named=named)

    # --- numbers ------------------------------------------------------------------------------------------------

    def _number(self, column: str, values: NDArray[Any], kind: str, *, named: bool) -> NumberStep | None:
        missing = np.isnan(values)
        seen = values[~missing] if missing.any() else values
        if self.strict:
            return NumberStep(column, kind)
        if not len(seen):
            if self.ordered:
                what = "the column is empty in the training rows, and those after it would take its place"
                raise UserValueError(what, f"{self.name}, column {column!r}", "fill it, or drop the rows' end")
            return self._leave(column, "empty in the training rows")
        low, high = float(seen.min()), float(seen.max())
        inside = low >= 0 and high <= 1 and (self.within != "binary" or bool(np.isin(seen, (0, 1)).all()))
        bounded = self.within != "real"
        if not named and not (bounded and inside):
            if low == high and not missing.any() and len(seen) > 1 and not self.ordered:
                return self._leave(column, f"the same in every training row ({low:.6g})")
            if not missing.any() and self._names_rows(column, seen):
                return self._leave(column, ROWS)
        lacking, fills = bool(missing.any()), not self.keep_missing and self.recipe.missing != "none"
        step = NumberStep(column, kind, missing=lacking, indicator=lacking and fills and self.indicators)
        if fills:
            step = replace(step, value=self._typical(seen, kind))
        if bounded and not inside:
            ends = {"low": low, "high": high} if self.within == "unit" else {"above": float(np.median(seen))}
            step = replace(step, **ends)  # type: ignore[arg-type]
        return step

    def _typical(self, seen: NDArray[np.float64], kind: str) -> float:
        """What stands for a missing number."""
        if self.recipe.missing == "most-frequent" or kind == TRUTH:
            values, counts = np.unique(seen, return_counts=True)
            return float(values[counts.argmax()])
        return float(np.median(seen) if self.recipe.missing == "median" else seen.mean())

    def _names_rows(self, column: str, values: NDArray[np.float64]) -> bool:
        """Whether whole numbers, all different, count the rows, or are said by the column's name to be ids."""
        if not (values == np.rint(values)).all() or len(values) < 2:
            return False
        hinted = self._hinted(column)
        if len(values) < FEW and not hinted:
            return False
        offset = values - self._rows()
        if (offset == offset[0]).all():
            return hinted or offset[0] in (0.0, 1.0)
        return hinted and len(np.unique(values)) == len(values)

    def _hinted(self, column: str) -> bool:
        unnamed = not self.headless and _UNNAMED.match(column) is not None
        return unnamed or bool(_ID.match(column.strip()) or _CAMEL.search(column.strip()))

    def _leave(self, column: str, why: str) -> Any:
        """Leave a column out; nothing becomes of it."""
        self.left_out[column] = why
        return None

    # --- categories ---------------------------------------------------------------------------------------------

    def _category(self, column: str, cells: pl.Series, *, named: bool = False) -> CategoryStep | WordsStep | None:
        counts = cells.drop_nulls().value_counts().sort(cells.name) if cells.len() else None
        if counts is None or counts.is_empty():
            return self._leave(column, "empty in the training rows")
        levels, rows = counts.get_column(cells.name).to_list(), counts.get_column("count").to_numpy()
        observed, missing = int(rows.sum()), cells.null_count() > 0
        least = 2 if named else max(2, int(np.ceil(self.recipe.rare * cells.len())))
        kept = rows >= least
        if not named:
            why = self._no_category(column, levels, rows, kept, observed, missing)
            if self._is_prose(column, levels, observed, why):
                return self._words(column, cells)
            if why:
                return self._leave(column, why)
        if not kept.any():
            kept[:] = True  # each in one row: a small table
        chosen = tuple(level for level, there in zip(levels, kept.tolist(), strict=True) if there)
        codes = self.recipe.encode == "ordinal"
        return CategoryStep(column, chosen, other=not kept.all(), missing=missing, codes=codes)

    def _no_category(
        self, column: str, levels: list[str], rows: NDArray[Any], kept: NDArray[Any], observed: int, missing: bool
    ) -> str:
        """Why a column of text is left out; empty where it is not."""
        remedy = f"to take it by its words: --text tf-idf; as categories: --categorical {column}"
        if len(levels) == 1 and not missing and observed > 1:
            return f"the same in every training row ({levels[0][:20]!r})"
        if len(levels) == observed and observed >= 2 and (observed >= FEW or self._hinted(column)):
            return f"a different text in every row, an id or free text; {remedy}"
        if len(levels) > FREE and (rows[kept].sum() < observed / 2 or len(levels) > observed / 5):
            return f"{len(levels)} different texts, most of them rare, as free text has; {remedy}"
        return ""

    # --- texts --------------------------------------------------------------------------------------------------

    def _is_prose(self, column: str, levels: list[str], observed: int, why: str) -> bool:
        """Whether a column of text is taken by its words: one that would be left out, or few texts of several words."""
        if self.recipe.text == "none" or len(levels) == 1 or self._hinted(column):
            return False
        several = len(levels) == observed and sum(map(str.count, levels, repeat(" "))) >= 2 * len(levels)
        return bool(why) or several

    def _words(self, column: str, cells: pl.Series) -> WordsStep:
        fitting = {"binary": ("bag-of-words",), "unit": ("bag-of-words", "tf-idf")}.get(self.within, WEIGHTS)
        if self.recipe.text not in fitting:
            what = f"text must be {' or '.join(fitting)} where the system takes no other numbers"
            raise UserValueError(f"{what}, got {self.recipe.text}", f"{self.name}, column {column!r}")
        chosen: Any = self.recipe.text_unit
        unit = unit_of(cells) if chosen == "auto" else chosen
        lexicon = None if self.recipe.lexicon is None else Lexicon.load(self.recipe.lexicon)
        step = WordsStep.fit(column, cells, self.recipe.text, unit, self.recipe.words, lexicon)
        refuse_large(cells.len(), len(step.words), f"{self.name}, column {column!r}")
        return step

    # --- dates --------------------------------------------------------------------------------------------------

    def _date(self, column: str, cells: pl.Series, written: str) -> DateStep | None:
        seen = cells.drop_nulls()
        if seen.is_empty():
            return self._leave(column, "empty in the training rows")
        first: Any = seen.cast(pl.Datetime("us")).cast(pl.Int64).min()
        if seen.n_unique() == 1 and not cells.null_count():
            return self._leave(column, "the same in every training row")
        parts = {part: date_part(seen, part, first) for part in PARTS}
        varying = tuple(part for part, values in parts.items() if (values != values[0]).any()) or ("days",)
        if varying == ("hour", "days") and (seen.dt.date() == seen[0].date()).all():
            varying = ("hour",)
        if self.keep_missing or self.recipe.missing == "none":
            return self._within(DateStep(column, varying, first, written=written))
        values = tuple(self._typical(parts[part], DATE) for part in varying)
        indicated = self.indicators and cells.null_count() > 0
        return self._within(DateStep(column, varying, first, values, indicated, written))

    def _within(self, step: DateStep) -> DateStep | None:
        """A date has no place among numbers in [0, 1] or zeros and ones."""
        if self.within == "real":
            return step
        return self._leave(step.name, "dates are neither in [0, 1] nor 0 and 1")
