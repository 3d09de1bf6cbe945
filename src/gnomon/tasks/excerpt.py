"""A few rows of a data set as people read them: columns that the fit uses first, cells in few letters."""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data.dataset import Dataset
from gnomon.data.images import image_names
from gnomon.errors import number

__all__ = ["excerpt", "plain_cell"]

COLUMNS = 6
"""Columns that are shown."""
MIDNIGHT = datetime.time()


def excerpt(data: Dataset, places: NDArray[np.int64]) -> dict[str, list[str]]:
    """Some rows by column; of images their files, where these are in a folder.

    Parameters
    ----------
    data : Dataset
    places : int64 array
        Where the rows stand in it.

    Examples
    --------
    >>> from gnomon.data import load
    >>> excerpt(load("iris"), np.array([0, 149]))["petal width (cm)"]
    ['0.2', '1.8']
    """
    if data.images is not None:
        return _files(data, places)
    names = _most_useful(data)
    if data.frame is not None:
        return {name: [plain_cell(data.frame[name][place]) for place in places.tolist()] for name in names}
    if data.X is None:
        return {}
    X, index = data.X, {name: j for j, name in enumerate(data.columns)}
    return {name: [plain_cell(X[place, index[name]].item()) for place in places.tolist()] for name in names}


def _most_useful(data: Dataset) -> list[str]:
    """The first columns that the fit uses, and others where these are few."""
    names = list(data.columns) if data.frame is None else data.frame.columns
    left_out = {} if data.preparation is None else data.preparation.left_out
    return sorted(names, key=lambda name: name in left_out)[:COLUMNS]


def _files(data: Dataset, places: NDArray[np.int64]) -> dict[str, list[str]]:
    path = Path(str(data.source.get("path", "")))
    if "path" not in data.source or not path.is_dir():
        return {}
    rows = places if data.rows is None else data.rows[places]
    names = image_names(path, data.source.get("left_out", ()))
    return {"file": [names[row] for row in rows.tolist()]} if len(names) > rows.max(initial=-1) else {}


def plain_cell(value: Any) -> str:
    """A cell in few letters: a date without midnight, a whole number without a point, nothing for what is missing.

    Examples
    --------
    >>> plain_cell(33.0), plain_cell(None), plain_cell(datetime.datetime(2021, 12, 28)), plain_cell(0.123456)
    ('33', '', '2021-12-28', '0.1235')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, datetime.datetime):
        return value.date().isoformat() if value.time() == MIDNIGHT else value.isoformat(" ")
    if not isinstance(value, float):
        return str(value)
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return number(value) if abs(value) >= 1000 else f"{value:.4g}"
