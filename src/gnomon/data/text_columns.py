"""The texts of a data set: one or two to a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gnomon.errors import UserValueError

if TYPE_CHECKING:
    from gnomon.data.dataset import Dataset

__all__ = ["documents_of"]


def documents_of(data: Dataset) -> tuple[Any, ...]:
    """The texts of a data set, one to a row, or the pairs of texts of a table with two columns of text.

    An empty cell is a text without a word; numbers are not read as text, whose digits may have been others.

    Raises
    ------
    UserValueError
        A table of numbers, or of more columns than two; a set of another kind.

    Examples
    --------
    >>> import polars as pl
    >>> from gnomon.data.dataset import Dataset
    >>> documents_of(Dataset("two", frame=pl.DataFrame({"a": ["x y", None], "b": ["z", "w"]})))
    (('x y', 'z'), ('', 'w'))
    """
    if data.text is not None:
        return data.text
    if data.pairs is not None:
        return data.pairs
    if data.frame is None and data.X is not None and data.X.shape[1] <= 2 and np.isnan(data.X).all():
        return tuple("" if data.X.shape[1] == 1 else ("", "") for _ in data.X)  # cells of a table that are all empty
    if data.frame is None:
        other = "a table of numbers" if data.X is not None else "a set of ratings or triples"
        what = f"this is {'a set of images' if data.images is not None else other}, not texts"
        raise UserValueError(what, data.name, "give texts: a file with a column of text, say")
    texts = [one.name for one in data.frame.get_columns() if str(one.dtype) == "String"]
    if len(texts) != data.frame.width or len(texts) > 2:
        what = f"a row must hold a text or two, got {data.frame.width} columns, {len(texts)} of them of text"
        named = ",".join((texts or list(data.columns))[:1])
        raise UserValueError(what, data.name, f"name the column of the text: --columns {named}")
    columns = [data.frame.get_column(name).fill_null("").to_list() for name in texts]
    return tuple(columns[0]) if len(columns) == 1 else tuple(zip(*columns, strict=True))
