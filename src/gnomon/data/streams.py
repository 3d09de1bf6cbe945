"""Files that need not fit into memory, in chunks of bounded size."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data import arrays, sources
from gnomon.data.boundary import guarded
from gnomon.data.columns import Chunk, features, labels
from gnomon.data.form import Form, form_of
from gnomon.data.opening import Table, open_table
from gnomon.data.readers import check_columns, choose, refuse_columns
from gnomon.data.records import JsonLines, Parquet
from gnomon.data.text import lines
from gnomon.errors import UserValueError

__all__ = ["Stream", "open"]

_BLOCK = 4 << 20
_ROWS = 65536
_NO_LIMIT = 1 << 62


def open(
    path: str | os.PathLike[str],
    *,
    target: str | int | None = None,
    columns: Sequence[str] | None = None,
    rows: int = _ROWS,
    missing: bool = False,
) -> Stream:
    """A file as a stream of chunks, for systems with ``partial_fit``: memory is bounded, whatever its size.

    The values, their kinds and what is refused are those of `gnomon.data.read`, with the same lines and rows.

    Parameters
    ----------
    path : path
        Delimited text, JSON Lines or text (each may be compressed with gzip), Parquet, or an NPY table.
    target : str or int, optional
        The column of the labels.
    columns : sequence of str, optional
        The columns to take as features; all but the target where left out.
    rows : int >= 1, default 65536
        Rows (or sentences) of a chunk; the last one may be shorter.
    missing : bool, default False
        Whether values may be missing: NaN then. Without it the first one is an error with its place.

    Returns
    -------
    Stream

    Raises
    ------
    UserError
        A file that cannot be streamed; while chunks are read, what is wrong with it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "t.csv")
    ...     _ = file.write_text("a,b\\n1,2\\n3,4\\n5,6\\n")
    ...     [chunk.tolist() for chunk in open(file, rows=2)]
    [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]]
    """
    file = Path(path).expanduser()
    if file.is_dir() or sources.kind(file) in (".npz", ".json", ".xlsx"):
        raise UserValueError("this cannot be read in chunks", str(file), "use gnomon.data.read")
    sources.check_file(file, limit=_NO_LIMIT)
    if columns is not None:
        check_columns(columns)
    if rows < 1:
        raise UserValueError(f"rows must be at least 1, got {rows}", "rows")
    with guarded(file):
        return Stream(file, target, columns, rows, missing, form_of(path))


class Stream:
    """What `open` gives. Each iteration reads the file from its start.

    A chunk is an array (rows, columns) of float64 (of float32 for small kinds of NPY); a pair of it and the labels
    where there is a target; a list of sentences where the file is a text.

    Attributes
    ----------
    name : str
        Name of the file.
    columns : tuple of str
        Names of the features; empty for a text.
    """

    def __init__(
        self, file: Path, target: str | int | None, columns: Sequence[str] | None, rows: int, missing: bool, form: Form
    ) -> None:
        self._form = form
        self.name, self.rows, self.missing = file.name, rows, missing
        self._file = file
        self._kind = sources.kind(file)
        self._source = {"target": target, "columns": None if columns is None else list(columns)}
        self._label: str | None = None
        self._label_kind: np.dtype[Any] | None = None
        self.columns: tuple[str, ...] = ()
        if self._kind in (".txt", ".npy"):
            refuse_columns(self._source, file.name, "a text" if self._kind == ".txt" else "an array in chunks")
            return
        table = self._table()
        self._label, chosen = choose(table, self._source)
        if isinstance(table, JsonLines) and [table.kinds[column] for column in chosen] == ["text"]:
            self._kind = "sentences"
        self.columns = tuple(chosen)

    def __repr__(self) -> str:
        return f"Stream({self.name!r}, chunks of {self.rows} rows)"

    def __iter__(self) -> Iterator[Any]:
        chunks = self._array if self._kind == ".npy" else self._chunks
        with guarded(self._file):
            yield from self._sentences() if self._kind == ".txt" else chunks()

    def _table(self) -> Table:
        return open_table(self._file, size=_BLOCK, limit=_NO_LIMIT, whole=False, form=self._form)

    def _parts(self, columns: list[str]) -> Iterator[Chunk]:
        table = self._table()
        labeled = () if self._label is None else (self._label,)
        if isinstance(table, Parquet):
            return table.parts(labeled, columns, rows=self.rows)
        return table.parts(labeled, columns)

    def _chunks(self) -> Iterator[Any]:
        labeled = [] if self._label is None else [self._label]
        if labeled and self._label_kind is None:
            self._label_kind = self._kind_of_labels()
        held: list[tuple[Any, Any]] = []
        for part in self._parts([*self.columns, *labeled]):
            text = self._kind == "sentences"
            X = labels([part], self.columns[0]) if text else features(part, self.columns, missing=self.missing)
            y = self._labels(part) if labeled else None
            held.append((X, y))
            while sum(len(X) for X, _ in held) >= self.rows:
                chunk, held = _cut(held, self.rows)
                yield self._given(*chunk)
        if sum(len(X) for X, _ in held):
            yield self._given(*_cut(held, self.rows)[0])

    def _given(self, X: Any, y: Any) -> Any:
        X = X.tolist() if self._kind == "sentences" else X
        return X if y is None else (X, y)

    def _labels(self, part: Chunk) -> NDArray[Any]:
        """Labels of a part in the kind that the whole column has."""
        label, wanted = str(self._label), self._label_kind
        if wanted is not None and wanted.kind == "U":
            return np.array(part.frame.get_column(label).to_list())
        found = labels([part], label)
        return found if wanted is None else found.astype(wanted)

    def _kind_of_labels(self) -> np.dtype[Any]:
        """The kind that `read` would find: one pass over the column, of which only the kinds are kept."""
        label = str(self._label)
        kinds: set[str] = set()
        for part in self._parts([label]):
            try:
                kinds.add(labels([part], label).dtype.kind)
            except UserValueError:
                # NA is missing among numbers and a word among words: the whole column decides
                if part.frame.get_column(label).is_null().any() or part.typed:
                    raise
                kinds.add("?")
        if "U" in kinds:
            self._refuse_empty(label)
            return np.dtype(np.str_)
        if "?" in kinds:
            for part in self._parts([label]):
                labels([part], label)
        return np.dtype(np.float64) if "f" in kinds else np.dtype(np.int64)

    def _refuse_empty(self, label: str) -> None:
        for part in self._parts([label]):
            empty = (part.frame.get_column(label) == "").fill_null(False)
            if not part.typed and empty.any():
                where = part.where(int(empty.arg_max() or 0), label)
                raise UserValueError("the label is missing", where, "fill it in or drop the row")

    def _sentences(self) -> Iterator[list[str]]:
        held: list[str] = []
        found = False
        for _, block in sources.blocks(self._file, _BLOCK, limit=_NO_LIMIT, encoding=self._form.encoding):
            held += lines(block.decode(), self.name)
            for start in range(0, len(held) - self.rows + 1, self.rows):
                found = True
                yield held[start : start + self.rows]
            held = held[len(held) // self.rows * self.rows :]
        if held:
            yield held
        elif not found:
            raise UserValueError("the file has no line with text", self.name, "give at least one sentence")

    def _array(self) -> Iterator[NDArray[Any]]:
        with self._file.open("rb") as stream:
            shape, fortran, dtype = arrays.header(stream, self._file.stat().st_size, self.name)
            offset = stream.tell()
        if len(shape) != 2 or not shape[0] * shape[1]:
            raise UserValueError(f"the array must have rows and columns, got shape {shape}", self.name)
        if self._file.stat().st_size - offset < shape[0] * shape[1] * dtype.itemsize:
            raise UserValueError("the data is cut off", self.name, "write the file again")
        mapped = np.memmap(self._file, dtype, "r", offset, shape, "F" if fortran else "C")
        for start in range(0, shape[0], self.rows):
            X = arrays.numbers(np.array(mapped[start : start + self.rows]), self.name, first=start)
            if not self.missing and np.isnan(X).any():
                row, column = (int(i) for i in np.argwhere(np.isnan(X))[0])
                where = f"{self.name}, row {start + row}, column {column}"
                raise UserValueError("the value is missing", where, "fill it in or drop the row")
            yield X


def _cut(held: list[tuple[Any, Any]], rows: int) -> tuple[tuple[Any, Any], list[tuple[Any, Any]]]:
    """The first rows of the parts as one, and what is left."""
    X = held[0][0] if len(held) == 1 else np.concatenate([x for x, _ in held])
    y = None
    if held[0][1] is not None:
        y = held[0][1] if len(held) == 1 else np.concatenate([labels for _, labels in held])
    rest = [(X[rows:], None if y is None else y[rows:])] if len(X) > rows else []
    return (X[:rows], None if y is None else y[:rows]), rest
