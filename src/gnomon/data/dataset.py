"""One data set in one object: table, labels, images or text, with the view that a task needs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import UserValueError, nearest

if TYPE_CHECKING:
    import polars as pl

    from gnomon.data.prepared import Prepared
    from gnomon.data.relations import Ratings, Triples

__all__ = ["VIEWS", "Dataset", "fingerprint", "levels_of", "no_images"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set as it was read; nothing in it is written to.

    Parameters
    ----------
    name : str
        Name of the set or file.
    X : array of shape (n, d), optional
        Table of numbers; NaN where missing.
    y : array of shape (n,), optional
        Labels or a numeric target.
    columns : tuple of str
        Names of the columns of `X`.
    text : tuple of str, optional
        Sentences, where the set is a text.
    images : tuple of int, optional
        Height and width, where a row of `X` is an image; with a third number, the channels, which change fastest.
    levels : int, optional
        Number of grey levels 0, 1 ... levels - 1 of the images.
    classes : tuple of str, optional
        Names of the classes; where the labels are the numbers 0, 1 ..., what these are called.
    source : mapping
        JSON facts from which the same data is read again: name or path, target, columns, split.
    rows : int64 array, optional
        Numbers of the rows (or sentences) in the whole set, after a split.
    ratings : Ratings, optional
        Who met what, where the set is that.
    triples : Triples, optional
        Statements of a knowledge graph, where the set is that.
    pairs : tuple of (str, str), optional
        Sources and what they become, where the set is that: translations, say.
    frame : polars.DataFrame, optional
        The columns as they were read, where not all of them are numbers: numbers, truth values, dates and text, null
        where missing. `X` is None then until they are prepared.
    preparation : Prepared, optional
        What made `X` of the columns; `columns` are the prepared ones then.
    by : array of shape (n,), optional
        What rows are held out by, where that is a column: groups or times. No feature; see `gnomon.data.split`.
    masks : int array of shape (n, rows, columns), optional
        The label of each pixel of the images, -1 where it has none.
    boxes : array of shape (n, m, 5), optional
        x1, y1, x2, y2 and label of what is on the images, in edges of pixels; -1 for boxes to be ignored, NaN for none.

    Examples
    --------
    >>> wine = Dataset("two", np.array([[0.0, 1.0], [1.0, 1.0]]), columns=("a", "b"))
    >>> wine.view("binary").tolist()
    [[0.0, 1.0], [1.0, 1.0]]
    """

    name: str
    X: NDArray[Any] | None = None
    y: NDArray[Any] | None = None
    columns: tuple[str, ...] = ()
    text: tuple[str, ...] | None = None
    images: tuple[int, ...] | None = None
    levels: int | None = None
    classes: tuple[str, ...] | None = None
    source: Mapping[str, Any] = field(default_factory=dict)
    rows: NDArray[np.int64] | None = field(default=None, repr=False)
    ratings: Ratings | None = None
    triples: Triples | None = None
    pairs: tuple[tuple[str, str], ...] | None = None
    frame: pl.DataFrame | None = field(default=None, repr=False)
    preparation: Prepared | None = field(default=None, repr=False)
    by: NDArray[Any] | None = field(default=None, repr=False)
    masks: NDArray[Any] | None = field(default=None, repr=False)
    boxes: NDArray[Any] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        for part in (self.X, self.frame, self.text, self.pairs, self.y, self.ratings, self.triples):
            if part is not None:
                return len(part)
        return 0

    def __repr__(self) -> str:
        parts = [repr(self.name)]
        if self.X is not None:
            parts.append(f"{self.X.shape[0]} rows x {self.X.shape[1]} columns")
        elif self.frame is not None:
            parts.append(f"{self.frame.height} rows x {self.frame.width} columns, not all of numbers")
        if self.text is not None:
            parts.append(f"{len(self.text)} sentences")
        if self.pairs is not None:
            parts.append(f"{len(self.pairs)} pairs of texts")
        if self.y is not None:
            parts.append("with labels" if self.y.dtype.kind != "f" else "with a target")
        if self.masks is not None:
            parts.append("with a label for each pixel")
        if self.boxes is not None:
            parts.append("with boxes")
        parts += [repr(part) for part in (self.ratings, self.triples) if part is not None]
        return f"Dataset({', '.join(parts)})"

    @cached_property
    def fingerprint(self) -> str:
        """BLAKE2b over table, labels, text, ratings and triples; the same for the same values on every machine."""
        ids = [part.arrays() for part in (self.ratings, self.triples) if part is not None]
        more: list[Any] = [part for part in (self.pairs, self.by, self.masks, self.boxes) if part is not None]
        if self.frame is not None:
            more += [[column.name, str(column.dtype), column.to_list()] for column in self.frame.get_columns()]
        return fingerprint(self.X if self.frame is None else None, self.y, self.text, *ids, *more)

    def view(self, kind: str) -> Any:
        """The data in the form that a task takes.

        Parameters
        ----------
        kind : str
            ``table``: `X` as it is. ``labels``: `y`. ``text``: the sentences. ``pairs``, ``ratings``, ``triples``:
            these.
            ``target``: `y` as float64 numbers, which whole numbers are too; several columns of them where it has some.
            ``binary``: images with L grey levels become 1 where the level is at least half of the highest one
            (digits: 8 of 16), else 0; any other table must hold 0 and 1 alone.
            ``density``: images become X + u with u uniform on (0, 1), one grey level, which keeps a density on them
            bounded. u is the middle of one of 2^15 cells, so that no sum is rounded; it comes from
            ``Noise(0, "dequantize")`` at the row's number in the whole set, so that it is the
            same every time and in every split. Any other table is taken as it is.
            ``unit``: images with L grey levels become level / (L - 1), in [0, 1]. Any other table is taken as it is.
            ``grey``: the same, as chances of bits. ``threshold``: 1 from a chance of 0.5 on. ``drawn``: bits of these
            chances, by the row's number in the whole set (`gnomon.data.Binarizer`).
            ``masks``: the labels of the pixels. ``boxes``: what is on the images, and where.
            ``documents``: a text to each row, or two: the sentences of a text, or one or two columns of text.
            ``images``: the same as arrays (n, rows, columns). Any other table is taken as it is: flat rows, whose shape
            the system must be told.

        Returns
        -------
        array, tuple of str, Ratings or Triples

        Raises
        ------
        UserValueError
            A form that this data has not: what is in the way, where.
        """
        if kind not in VIEWS:
            close = nearest(str(kind), list(VIEWS)) or list(VIEWS)
            raise UserValueError(f"unknown view {kind!r}", self.name, f"choose from {', '.join(close)}")
        return VIEWS[kind](self)

    def _need(self, part: str) -> Any:
        value = getattr(self, part)
        if value is not None:
            return value
        if part == "masks":
            what = "the pixels of this data have no labels"
            raise UserValueError(what, self.name, "give a folder with the folders images and masks in it")
        if part == "boxes":
            what = "the images of this data have no boxes"
            raise UserValueError(what, self.name, "give a folder with the folder images and boxes.csv in it")
        if part == "X" and self.frame is not None:
            raise self._not_prepared()
        words = WORDS.get(part)
        if words is None:
            remedy = "name their column with --target, in Python with target"
            raise UserValueError("this data has no labels and no target", self.name, remedy)
        remedy = "take its words as columns (--text tf-idf), or " if part == "X" and self.text is not None else ""
        raise UserValueError(f"this is {self._form}, not {words}", self.name, f"{remedy}choose {words}")

    def _not_prepared(self) -> UserValueError:
        """What is said of a table of more than numbers."""
        assert self.frame is not None
        column = next(one for one in self.frame.get_columns() if not one.dtype.is_numeric())
        held = "dates" if column.dtype.is_temporal() else "truth values" if str(column.dtype) == "Boolean" else "text"
        remedy = "prepare the table (gnomon.data.Preparation), leave the column out, or turn it into numbers"
        return UserValueError(f"the column holds {held}, not numbers", f"{self.name}, column {column.name!r}", remedy)

    @property
    def _form(self) -> str:
        """What the set is, in words."""
        if self.frame is not None:
            return WORDS["X"]
        if self.images is not None:
            return "a set of images"
        return next((words for part, words in WORDS.items() if getattr(self, part) is not None), WORDS["triples"])

    def take(self, rows: NDArray[np.int64], part: str, **facts: Any) -> Dataset:
        """The set with these rows (or sentences) only; `part` and `facts` go into the source."""
        whole = np.arange(len(self)) if self.rows is None else self.rows
        return replace(
            self,
            X=None if self.X is None else self.X[rows],
            y=None if self.y is None else self.y[rows],
            text=None if self.text is None else tuple(self.text[i] for i in rows.tolist()),
            pairs=None if self.pairs is None else tuple(self.pairs[i] for i in rows.tolist()),
            ratings=None if self.ratings is None else self.ratings.take(rows),
            triples=None if self.triples is None else self.triples.take(rows),
            frame=None if self.frame is None else self.frame[rows],
            by=None if self.by is None else self.by[rows],
            masks=None if self.masks is None else self.masks[rows],
            boxes=None if self.boxes is None else self.boxes[rows],
            source={**self.source, "part": part, **facts},
            rows=whole[rows],
        )


WORDS = {
    "X": "a table",
    "text": "a text",
    "pairs": "a set of pairs of texts",
    "ratings": "a set of ratings",
    "triples": "a set of triples",
}
"""What a set is called that has a part."""


def levels_of(images: NDArray[Any]) -> int | None:
    """Grey levels of images in an array: 256 of bytes, 2 of bytes the largest of which is 1; None of other numbers.

    Examples
    --------
    >>> image = np.array([[[0, 200]]], np.uint8)
    >>> levels_of(image), levels_of(image // 200), levels_of(image / 255)
    (256, 2, None)
    """
    if images.dtype != np.uint8:
        return None
    return 2 if images.max(initial=0) == 1 else 256


def _binary(data: Dataset) -> NDArray[Any]:
    from gnomon.distributions.domains import Binary

    X: NDArray[Any] = data._need("X")
    if data.levels is not None:
        return np.greater_equal(X, (data.levels - 1) / 2).astype(X.dtype)
    return Binary(tolerance=0.0).check(X, name=data.name)


def _density(data: Dataset) -> NDArray[Any]:
    X: NDArray[Any] = data._need("X")
    if data.levels is None:
        return X
    from gnomon.numeric.noise import Noise

    rows = np.arange(len(X)) if data.rows is None else data.rows
    u = Noise(0, "dequantize").rows(rows).uniform(X.shape)
    u = (np.floor(u * 2**15) + 0.5) / 2**15  # X + u is exact in float32 up to 256 levels, so floor(X + u) is X
    return np.add(X, u, dtype=X.dtype)


def _unit(data: Dataset) -> NDArray[Any]:
    X: NDArray[Any] = data._need("X")
    return X if data.levels is None else np.divide(X, data.levels - 1, dtype=X.dtype)


def _chances(data: Dataset) -> NDArray[Any]:
    from gnomon.distributions.domains import UnitInterval

    return UnitInterval().check(_unit(data), name=data.name)


def _threshold(data: Dataset) -> NDArray[Any]:
    from gnomon.distributions.grey import Thresholded

    return Thresholded().check(_unit(data), name=data.name)


def _drawn(data: Dataset) -> NDArray[Any]:
    from gnomon.distributions.grey import once

    return once(_chances(data), data.rows)


def _images(data: Dataset) -> NDArray[Any]:
    if data.X is None and data.frame is not None:
        raise no_images(data.name)
    X = _unit(data)
    return X if data.images is None else X.reshape(len(X), *data.images)


def no_images(name: str) -> UserValueError:
    """What is said of a table of text, dates or categories where images are taken."""
    remedy = "give a folder of images or an array (n, rows, columns); for a table choose mlp or random-forest, say"
    return UserValueError("images are taken here, not a table of mixed columns", name, remedy)


def _target(data: Dataset) -> NDArray[Any]:
    from gnomon.distributions.targets import Target

    y = data._need("y")
    return Target().check(y, name=data.name, several=y.ndim == 2 and y.shape[1] > 1)


def _documents(data: Dataset) -> Any:
    from gnomon.data.text_columns import documents_of

    return documents_of(data)


VIEWS: dict[str, Callable[[Dataset], Any]] = {
    "binary": _binary, "density": _density, "unit": _unit, "grey": _chances,
    "threshold": _threshold, "drawn": _drawn, "images": _images, "target": _target,
    "table": lambda data: data._need("X"), "labels": lambda data: data._need("y"),
    "text": lambda data: data._need("text"), "pairs": lambda data: data._need("pairs"),
    "ratings": lambda data: data._need("ratings"), "documents": _documents,
    "triples": lambda data: data._need("triples"), "masks": lambda data: data._need("masks"),
    "boxes": lambda data: data._need("boxes"),
}  # fmt: skip
"""The forms in which a data set is taken, by name."""


def fingerprint(*parts: Any) -> str:
    """BLAKE2b (16 bytes, hexadecimal) over kind, shape, dtype and values of arrays, text and None.

    Byte order and memory layout make no difference. Cost O(bytes).

    Examples
    --------
    >>> fingerprint(np.arange(3)) == fingerprint(np.arange(3).astype(">i8"))
    True
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        _feed(digest, part)
    return digest.hexdigest()


def _feed(digest: Any, part: Any) -> None:
    if part is None:
        digest.update(b"none;")
    elif isinstance(part, str):
        data = part.encode("utf-8", "surrogatepass")
        digest.update(b"str %d;" % len(data) + data)
    elif isinstance(part, list | tuple):
        digest.update(b"list %d;" % len(part))
        for item in part:
            _feed(digest, item)
    else:
        array = np.asarray(part)
        if array.dtype.kind == "O":
            digest.update(b"objects;")
            _feed(digest, [f"{type(item).__name__} {item}" for item in array.ravel().tolist()])
            return
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        digest.update(f"array {array.dtype.str} {array.shape};".encode())
        digest.update(array.reshape(-1).view(np.uint8))
