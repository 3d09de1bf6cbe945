"""Tables that say something of images: ``NAME.csv`` beside the folder ``images``, a line for each thing said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gnomon.data import sources
from gnomon.data.opening import open_table
from gnomon.errors import UserValueError, nearest

__all__ = ["ImageLine", "ImageTable", "rows_by_image", "table_of"]

ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")
FILE = "file"
"""The column that names images."""


@dataclass(frozen=True)
class ImageLine:
    """Texts of the columns that were asked for, "" where a cell is empty, and the place of the line for messages."""

    values: tuple[str, ...]
    where: str


@dataclass(frozen=True)
class ImageTable:
    """Lines by the name of their image, and the name of the table."""

    name: str
    rows: dict[str, list[ImageLine]]


def table_of(path: Path, stem: str) -> Path | None:
    """The table of this name beside the folder ``images``; None where one of both is not there."""
    found = (path / f"{stem}{ending}" for ending in ENDINGS)
    return next((file for file in found if file.is_file()), None) if (path / "images").is_dir() else None


def rows_by_image(path: Path, stem: str, columns: Sequence[str], names: Sequence[str]) -> ImageTable:
    """What a table says of each image.

    Parameters
    ----------
    path : path
        The folder of the table.
    stem : str
    columns : sequence of str
        Those that are wanted beside ``file``.
    names : sequence of str
        The images that are there, as paths in the folder ``images``.

    Raises
    ------
    UserValueError
        A column that is not there; a line of an image that is not there.
    """
    file = table_of(path, stem)
    assert file is not None
    sources.check_file(file)
    table, wanted = open_table(file), [FILE, *columns]
    if not set(wanted) <= set(table.columns):
        what = f"columns must be {', '.join(wanted)}, got {', '.join(table.columns)}"
        raise UserValueError(what, f"{path.name}/{file.name}", "name them in the first line")
    known, rows = set(names), dict[str, list[ImageLine]]()
    for part in table.parts(tuple(wanted), wanted):
        for row, (name, *cells) in enumerate(part.frame.select(wanted).iter_rows()):
            where = f"{path.name}/{part.where(row, FILE)}"
            if str(name) not in known:
                close = nearest(str(name), list(names))
                remedy = f"did you mean {close[0]!r}?" if close else "give paths in the folder images"
                raise UserValueError(f"{FILE} must be an image of the folder, got {str(name)!r}", where, remedy)
            values = tuple("" if cell is None else str(cell) for cell in cells)
            rows.setdefault(str(name), []).append(ImageLine(values, where))
    return ImageTable(f"{path.name}/{file.name}", rows)
