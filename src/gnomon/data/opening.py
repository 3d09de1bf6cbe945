"""A table by the ending of its file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gnomon.data import sources
from gnomon.data.delimited import Delimited
from gnomon.data.excel import Excel
from gnomon.data.form import Form
from gnomon.data.records import JsonLines, Parquet

__all__ = ["Table", "open_table"]

Table = Delimited | Parquet | JsonLines | Excel


def open_table(
    file: Path,
    *,
    size: int | None = None,
    limit: int | None = None,
    whole: bool = True,
    header: Sequence[str] | None = None,
    form: Form | None = None,
) -> Table:
    """A table whose columns are known and whose rows are still in the file.

    Parameters
    ----------
    file : path
    size, limit : int, optional
        See `gnomon.data.sources.blocks`.
    whole : bool, default True
        Whether all rows will be in memory at once.
    header : sequence of str, optional
        See `gnomon.data.delimited.Delimited`.
    form : Form, optional
        How a text is to be read.
    """
    form = Form() if form is None else form
    ending = sources.kind(file)
    if ending == ".parquet":
        return Parquet(file, limit=limit, whole=whole)
    if ending == ".xlsx":
        return Excel(file, limit=limit)
    if ending in sources.RECORDS:
        return JsonLines(file, size=size, limit=limit, encoding=form.encoding)
    separator = "\t" if ending in (".tsv", ".tab") else None
    return Delimited(file, separator, size=size, limit=limit, header=header, form=form)
