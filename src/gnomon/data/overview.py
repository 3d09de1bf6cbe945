"""What a data set or file holds, without fitting anything: kinds of columns, ranges, missing values, first rows."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnomon.data import sources
from gnomon.data.boundary import guarded
from gnomon.data.columns import MISSING, Chunk, kind_of, unmarked
from gnomon.data.dataset import Dataset
from gnomon.data.form import Form, form_of
from gnomon.data.frames import joined as join
from gnomon.data.image_contrast import contrasts
from gnomon.data.loading import load
from gnomon.data.marks import has_marks
from gnomon.data.names import BUILTIN
from gnomon.data.preparation import Preparation
from gnomon.errors import UserError

__all__ = ["FIRST", "overview"]

FIRST = 5
"""Rows that are shown."""

PIXELS = 1 << 16
"""Columns of images that are described at most; what is said of a pixel takes more room than its values."""

_DIFFERENT = 1000
_WIDE = 64


def overview(
    name_or_file: str | os.PathLike[str],
    *,
    target: str | int | None = None,
    columns: Sequence[str] | None = None,
    resize: tuple[int, int] | None = None,
) -> tuple[dict[str, Any], Dataset | None]:
    """What a data set or file holds, and the set itself where it can be used as it is.

    Parameters
    ----------
    name_or_file : str or path
    target : str or int, optional
    columns : sequence of str, optional
    resize : (int, int), optional
        Height and width to which images are brought.

    Returns
    -------
    dict
        Of JSON values: ``name``, ``rows``, ``fingerprint``, ``images``, ``pixels``, ``sentences``, ``words``,
        ``characters``, ``ratings``, ``triples``, ``labels`` (rows by label, or what the target is), ``columns`` (a
        list of ``name``, ``kind``, ``min``, ``mean``, ``max``, ``missing``, ``different``, the ``role`` of feature,
        target or left out, and as what a feature is ``taken``; of images the first `PIXELS`), ``first`` (the first
        rows), ``problem`` (why the columns as chosen cannot be used, else None).
    Dataset or None
        None where there is a problem.

    Raises
    ------
    UserError
        A file that cannot be read at all.

    Notes
    -----
    A table is read twice: once as it stands, column by column, once as numbers.

    Examples
    --------
    >>> facts, iris = overview("iris")
    >>> facts["rows"], facts["columns"][0]["kind"], facts["problem"]
    (150, 'numbers', None)
    """
    described: dict[str, Any] = {"columns": [], "first": []}
    file = None if str(name_or_file) in BUILTIN else Path(name_or_file).expanduser()
    table = file is not None and os.path.isfile(file) and sources.kind(file) in (*_TEXTS, ".parquet")
    if file is not None and table:
        with guarded(file):
            described = _table(file, form_of(name_or_file))
    problem, data = None, None
    try:
        data = load(name_or_file, target=target, columns=columns, resize=resize)
        for column in described["columns"]:
            column["role"] = "feature" if column["name"] in data.columns else "left out"
        _mark_target(described["columns"], target)
    except UserError as error:
        if not table:
            raise
        problem = str(error)
    if data is not None and not table:
        described = _described(data)
    taken = _taken(data)
    for column in described["columns"]:
        column["taken"] = taken.get(column["name"])
    name = file.name if file is not None else str(name_or_file)
    rows = described.pop("rows", 0) if data is None else len(data)
    return {"name": name, "rows": rows, **_whole(data), **described, "problem": problem}, data


_TEXTS = (*sources.TABLES, *sources.RECORDS, ".xlsx")


def _taken(data: Dataset | None) -> dict[str, str]:
    """What each column of a table is taken as by a system that predicts."""
    if data is None or data.images is not None or (data.X is None and data.frame is None):
        return {}
    try:
        return Preparation().fit(data).taken()
    except UserError:
        return {}


def _mark_target(columns: list[dict[str, Any]], target: str | int | None) -> None:
    from gnomon.data.columns import place_of

    if target is not None and columns:
        columns[place_of(target, [column["name"] for column in columns], "", "target")]["role"] = "target"


def _whole(data: Dataset | None) -> dict[str, Any]:
    """What is known of the set as a whole."""
    if data is None:
        names = ("fingerprint", "images", "pixels", "sentences", "words", "characters", "ratings", "triples", "labels")
        return dict.fromkeys(names)
    found: dict[str, Any] = {
        "fingerprint": data.fingerprint,
        "images": list(data.images) if data.images else None,
        "pixels": None if data.images is None or data.X is None else _pixels(data.X),
        "sentences": None if data.text is None else len(data.text),
        "words": None if data.text is None else _counts(chain.from_iterable(line.split() for line in data.text)),
        "characters": None if data.text is None else _counts(chain.from_iterable(data.text)),
        "ratings": None,
        "triples": None,
        "labels": _labels(data),
    }
    if data.ratings is not None:
        log = data.ratings
        found["ratings"] = {
            "users": len(np.unique(log.users)), "items": len(np.unique(log.items)),
            "repeats": len(log) - len(np.unique(log.pairs)),
        }  # fmt: skip
    if data.triples is not None:
        graph = data.triples
        found["triples"] = {"entities": len(graph.entities), "relations": len(np.unique(graph.relations))}
    return found


def _pixels(X: NDArray[Any]) -> dict[str, float | int | None]:
    """The values of all images together, and the contrast of the median image."""
    low, high = X.min(axis=0), X.max(axis=0)
    mean = float(X.mean(dtype=np.float64))
    constant = int((low == high).sum())
    spread = contrasts(X)
    return {
        "min": _number(low.min()), "mean": _number(mean), "max": _number(high.max()), "constant": constant,
        "contrast": _number(np.median(spread)), "flat images": int((spread == 0).sum()),
    }  # fmt: skip


def _counts(tokens: Iterable[str]) -> dict[str, int]:
    """How many tokens a text has; of Chinese, which has no white space, the characters say more than the words."""
    counts = Counter(tokens)
    once = sum(n == 1 for n in counts.values())
    return {"total": counts.total(), "different": len(counts), "seen once": once}


def _labels(data: Dataset) -> dict[str, int] | str | None:
    """Rows by label; a numeric target is named as one."""
    if data.y is None:
        return None
    if data.y.dtype.kind == "f":
        return "a numeric target"
    labels, counts = np.unique(data.y, return_counts=True)
    names = data.classes
    known = [names[i] if names is not None and not isinstance(i, str) else str(i) for i in labels.tolist()]
    if len(known) > _DIFFERENT:
        return f"{len(known)} different values"
    return dict(sorted(zip(known, counts.tolist(), strict=True)))


# --- tables in files ----------------------------------------------------------------------------------------------


def _table(file: Path, form: Form) -> dict[str, Any]:
    """Every column of a table as it stands."""
    from gnomon.data.readers import open_table

    sources.check_file(file)
    table = open_table(file, form=form)
    parts = list(table.parts(table.columns))
    joined = join(parts)
    frame = joined.frame
    first = [[_cell(value) for value in row] for row in frame.head(FIRST).rows()]
    return {"rows": frame.height, "columns": [_column(joined, name) for name in table.columns], "first": first}


def _column(part: Chunk, name: str) -> dict[str, Any]:
    cells = part.frame.get_column(name)
    kind = kind_of(cells, typed=part.typed)
    missing = cells.is_null()
    if cells.dtype.is_float():
        missing = missing | cells.is_nan()
    if cells.dtype == pl.String and not part.typed:
        missing = missing | (cells == "" if kind == "text" else unmarked(cells).is_in(list(MISSING)))
    found: dict[str, Any] = {"name": name, "kind": kind, **dict.fromkeys(("min", "mean", "max"))}
    if kind == "text" and not part.typed and has_marks(cells):
        found["kind"] = "numbers with commas"
    found["role"] = None
    found["missing"] = int(missing.sum())
    seen = cells.filter(~missing.fill_null(True))
    found["different"] = None if cells.dtype.is_nested() or cells.dtype == pl.Object else int(seen.n_unique())
    if kind in ("numbers", "whole numbers", "truth values") and len(seen):
        values = seen.cast(pl.Float64, strict=False)
        found.update(min=_number(values.min()), mean=_number(values.mean()), max=_number(values.max()))
    return found


def _number(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _cell(value: Any) -> Any:
    """A cell as a JSON value, cut where it is long."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    text = str(value)
    return text if len(text) <= _WIDE else text[: _WIDE - 3] + "..."


# --- sets in memory -----------------------------------------------------------------------------------------------


def _described(data: Dataset) -> dict[str, Any]:
    """Columns and first rows of a set that is no table in a file."""
    if data.X is not None:
        X = data.X if data.images is None else data.X[:, :PIXELS]
        return {
            "columns": _values(data.columns[: X.shape[1]], X),
            "first": [[_cell(value) for value in row] for row in X[:FIRST].tolist()],
        }
    if data.text is not None:
        return {"columns": [], "first": [[_cell(sentence)] for sentence in data.text[:FIRST]]}
    held = data.ratings if data.ratings is not None else data.triples
    arrays = [] if held is None else [array for array in held.arrays() if array is not None]
    return {"columns": [], "first": [list(row) for row in zip(*(a[:FIRST].tolist() for a in arrays), strict=True)]}


def _values(names: Sequence[str], X: NDArray[Any]) -> list[dict[str, Any]]:
    """Every column of an array, many at a time."""
    found: list[dict[str, Any]] = []
    step = max(1, (1 << 22) // max(len(X), 1))
    for start in range(0, X.shape[1], step):
        ascending = np.sort(X[:, start : start + step], axis=0)  # NaN at the end
        seen = ~np.isnan(ascending)
        counts = seen.sum(axis=0)
        different = seen[:1].sum(axis=0) + ((ascending[1:] != ascending[:-1]) & seen[1:]).sum(axis=0)
        whole = ((ascending == np.rint(ascending)) | ~seen).all(axis=0) & (counts > 0)
        means = np.where(seen, ascending, 0).sum(axis=0, dtype=np.float64) / np.maximum(counts, 1)
        for j, name in enumerate(names[start : start + step]):
            n = int(counts[j])
            low, mean, high = (ascending[0, j], means[j], ascending[n - 1, j]) if n else (None, None, None)
            found.append({
                "name": name, "kind": "whole numbers" if whole[j] else "numbers" if n else "nothing",
                "min": _number(low), "mean": _number(mean), "max": _number(high), "missing": len(X) - n,
                "different": int(different[j]), "role": "feature",
            })  # fmt: skip
    return found
