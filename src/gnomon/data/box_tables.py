"""Images with boxes: a folder of images, and a table of what is where on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gnomon.data.dataset import Dataset
from gnomon.data.form import PLAIN, Form
from gnomon.data.image_tables import ImageLine, rows_by_image, table_of
from gnomon.data.images import image_names, read_images
from gnomon.distributions.boxes import IGNORED, BoxLabels
from gnomon.errors import UserValueError

__all__ = ["holds_boxes", "read_boxed"]

STEM = "boxes"
"""Name of the table beside the folder images, before its ending."""
COLUMNS = ("x1", "y1", "x2", "y2", "label")


def holds_boxes(path: Path) -> bool:
    """Whether a folder has the folder ``images`` and a table ``boxes.csv`` (or .tsv, .jsonl, .parquet) in it."""
    return table_of(path, STEM) is not None


def read_boxed(
    path: Path, source: dict[str, Any], *, resize: tuple[int, int] | None = None, form: Form = PLAIN
) -> Dataset:
    """Images and a table with a line for each box: ``file``, a path in the folder images, x1, y1, x2, y2, ``label``.

    Corners are in edges of pixels: an image of W columns and H rows reaches from 0, 0 to W, H. Labels are texts, which
    become ``classes`` in alphabetical order; a box without a label is to be ignored. An image may have no line.

    Parameters
    ----------
    path : path
    source : dict
        What the data set says about where it comes from.
    resize : (int, int), optional
        Refused: boxes are in pixels of the images as they are.
    form : Form, optional
        See `gnomon.data.images.read_images`.

    Raises
    ------
    UserValueError
        A number that is none, a box beyond its image, columns of other names, an image that is not there; what
        `gnomon.data.images.read_images` refuses.
    """
    if resize is not None:
        raise UserValueError("images with boxes must keep their size", "resize", "leave it out")
    folder = path / "images"
    data = read_images(folder, source, form=form)
    assert data.images is not None
    table = rows_by_image(path, STEM, COLUMNS, image_names(folder))
    names = image_names(folder, data.source.get("left_out", ()))
    lines = [table.rows.get(name, []) for name in names]
    labels = sorted({one.values[4] for row in lines for one in row} - {""})
    codes = {label: code for code, label in enumerate(labels)} | {"": IGNORED}
    shape = (1, *data.images[:2])
    tables = [[_box(one, codes, shape) for one in row] for row in lines]
    boxes = BoxLabels().check(tables, (len(names), *data.images[:2]), table.name)
    return replace(data, name=path.name, y=None, classes=tuple(labels), boxes=boxes)


def _box(line: ImageLine, codes: dict[str, int], shape: tuple[int, ...]) -> Iterable[float]:
    """The numbers of a line, checked with its place."""
    try:
        box = [*map(float, line.values[:4]), float(codes[line.values[4]])]
    except ValueError:
        got = ", ".join(map(repr, line.values[:4]))
        raise UserValueError(f"x1, y1, x2, y2 must be numbers, got {got}", line.where, "give edges of pixels") from None
    try:
        BoxLabels().check([[box]], shape)
    except UserValueError as error:
        raise UserValueError(error.what, line.where, error.remedy) from None
    return box
