"""The domain of images: pixels in [0, 1], channels last; bytes are taken as 0..255."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.distributions.arrays import Floats, column_names, first_cell, from_tensor, place, table
from gnomon.distributions.domains import Domain
from gnomon.errors import UserTypeError, UserValueError, counted
from gnomon.numeric.ragged import Dense

__all__ = ["Images", "size_of"]

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Images(Domain):
    """Images of one size with pixels in [0, 1].

    The rule for grey levels: bytes (dtype uint8) are levels 0..255 and divided by 255; truth values, other whole
    numbers and floating numbers must lie in [0, 1] already, since nobody can tell 0..16 from 0..255 by looking.

    Parameters
    ----------
    shape : (rows, columns) or (rows, columns, channels), optional
        What a flat row of numbers is: pixels in reading order, the channels of a pixel side by side. Images that come
        as arrays of three or four axes must agree with it.
    tolerance : float in [0, 0.5), default 1e-6
        Rounding noise that far outside [0, 1] is clipped.
    any_size : bool, default False
        Whether images that come as arrays may have other rows and columns than `shape`, though not other channels.

    Examples
    --------
    >>> Images().check(np.array([[[0, 255], [51, 0]]], np.uint8)).tolist()
    [[[[0.0], [1.0]], [[0.20000000298023224], [0.0]]]]
    >>> Images((2, 2)).check([[0.0, 1.0, 0.5, 0.0]]).shape
    (1, 2, 2, 1)
    """

    shape: Shape | None = None
    tolerance: float = 1e-6
    any_size: bool = False
    is_table: ClassVar[bool] = False
    noun: ClassVar[str] = "images"
    view: ClassVar[str] = "images"
    features: ClassVar[str] = "images"
    remedy: ClassVar[str] = "divide by the highest grey level (255 for bytes), or give dtype uint8 for 0..255"

    def check(self, X: Any, *, name: str = "X", dtype: Any = None) -> Floats:
        """The images as a C-ordered float array; the input is never written to.

        Parameters
        ----------
        X : array-like of shape (n, rows, columns), (n, rows, columns, channels) or, with `shape`, (n, numbers)
        name : str, default "X"
            What error messages call it.
        dtype : dtype-like, optional
            float32 or float64; None follows the input, see `gnomon.distributions.arrays.table`.

        Returns
        -------
        array of shape (n, rows, columns, channels)

        Raises
        ------
        UserValueError, UserTypeError
            No images, images of another size, channels first, or the first pixel that is no number in [0, 1], with its
            image, row, column, channel and value.
        """
        rows, shape = self._flat(X, name)
        bytes_given = is_bytes(rows)
        flat = table(rows, name=name, dtype=dtype)
        if bytes_given:
            flat = flat / flat.dtype.type(255)
        return self._in_range(rows, flat, shape, name).reshape(len(flat), *shape)

    def ingest(self, X: Any, *, dtype: Any = None, name: str = "X") -> Dense:
        """The images as a field."""
        images = self.check(X, name=name, dtype=dtype)
        if not images.size:
            what = "sample" if not len(images) else "feature"
            raise UserValueError(
                f"Found array with 0 {what}(s) (shape={images.shape}) while a minimum of 1 is required", name,
                "give at least one image of at least one pixel",
            )  # fmt: skip
        return Dense(images)

    def columns(self, X: Any, field: Dense) -> Any:
        """A table with as many columns as an image has numbers, one of the declared size where there may be others."""
        if column_names(X) is not None:
            return X
        shape = getattr(X, "shape", None) or np.asarray(X).shape
        size = _whole(self.shape) if self.any_size and self.shape else field.values.shape[1:]
        columns = shape[1] if len(shape) == 2 else math.prod(size)
        return np.broadcast_to(field.values.dtype.type(0), (len(field), columns))

    def example(self, random: np.random.Generator, n: int, groups: NDArray[np.int64] | None = None) -> Floats:
        """Images 8 x 8, or of the declared shape, one pattern per group under noise."""
        groups = random.integers(0, 3, size=n) if groups is None else groups
        shape = self.shape or (8, 8)
        patterns = random.random(size=(int(groups.max()) + 1, *shape))
        images: Floats = 0.7 * patterns[groups] + 0.3 * random.random(size=(n, *shape))
        return images

    def describe(self) -> str:
        """What data of this domain holds."""
        return "images with pixels in [0, 1] (bytes: 0..255)"

    def space(self, n_columns: int) -> str:
        """Name of the data space, for scores."""
        return f"density on images of {n_columns} numbers in [0,1]"

    def _flat(self, X: Any, name: str) -> tuple[Any, Shape]:
        """Rows of numbers, as they were given, and the shape of an image."""
        if column_names(X) is not None:
            return X, self._declared(X.shape[1], name)
        array = _array(X, name)
        if array.ndim == 2:
            return array, self._declared(array.shape[1], name)
        if array.ndim not in (3, 4):
            found = f"shape {array.shape}" if array.ndim else f"type {type(X).__name__}"
            raise UserValueError(
                f"{name} of {found} holds no images", name, "give (n, rows, columns) or (n, rows, columns, channels)"
            )
        shape = (*array.shape[1:], 1) if array.ndim == 3 else array.shape[1:]
        if array.ndim == 4 and shape[2] > 4 >= shape[0]:
            raise UserValueError(
                f"{name} of shape {array.shape} has its channels first", name,
                "channels come last: give np.moveaxis(X, 1, -1)",
            )  # fmt: skip
        if self.shape is not None:
            self._check_size(shape, _whole(self.shape), name)
        return array.reshape(len(array), math.prod(shape)), shape

    def _check_size(self, shape: Shape, declared: Shape, name: str) -> None:
        if self.any_size and shape[2:] != declared[2:]:
            what = f"{name} must have images of {counted(declared[2], 'channel')}, got {shape[2]}"
            raise UserValueError(what, name, "give as many channels as the fit had")
        if not self.any_size and shape != declared:
            what = f"{name} must have images of {size_of(declared)}, got {size_of(shape)}"
            raise UserValueError(what, name, "give images of one size")

    def _declared(self, columns: int, name: str) -> Shape:
        side = math.isqrt(columns)
        guess = (side, side) if side * side == columns else ("rows", "columns")
        advice = f"give (n, rows, columns), or image_shape=({guess[0]}, {guess[1]})"
        if self.shape is None:
            raise UserValueError(f"{name} has flat rows of {columns} numbers, not images", name, advice)
        shape = _whole(self.shape)
        if math.prod(shape) != columns:
            raise UserValueError(
                f"{columns} numbers a row in {name}, {size_of(shape)} has {math.prod(shape)}", name, advice
            )
        return shape

    def _in_range(self, given: Any, flat: Floats, shape: Shape, name: str) -> Floats:
        with np.errstate(invalid="ignore"):
            good = not flat.size or (flat.min() >= 0 and flat.max() <= 1)
        if good:  # false where a value is missing
            return flat
        cell = first_cell(flat, lambda block: ~((block >= -self.tolerance) & (block <= 1 + self.tolerance)))
        if cell is None:
            return np.clip(flat, 0, 1)
        value, where = flat[cell], _where(given, cell, shape)
        if np.isnan(value):
            raise UserValueError(f"value NaN in {name} is missing", where, "fill the pixel or drop the image")
        if np.isinf(value):
            raise UserValueError(f"value {value} in {name} is not finite", where, "replace it or drop the image")
        raise UserValueError(f"{name} must be in [0, 1], got {value:g}", where, self.remedy)


def size_of(shape: Shape) -> str:
    """Rows x columns of an image, and its channels where there are several.

    Examples
    --------
    >>> size_of((28, 28, 1)), size_of((32, 32, 3))
    ('28 x 28', '32 x 32 x 3')
    """
    return " x ".join(map(str, shape if shape[2:] != (1,) else shape[:2]))


def is_bytes(X: Any) -> bool:
    """Whether every number is an unsigned byte."""
    dtypes = list(X.dtypes) if hasattr(X, "dtypes") else [getattr(X, "dtype", None)]
    return bool(dtypes) and all(str(one).lower() == "uint8" for one in dtypes)


def _whole(shape: Shape) -> Shape:
    """With the one channel of a grey image."""
    return (*shape, 1) if len(shape) == 2 else tuple(shape)


def _array(X: Any, name: str) -> np.ndarray[Any, Any]:
    if hasattr(X, "toarray"):
        raise UserTypeError(f"Sparse data in {name}", name, "use '.toarray()' to convert to a dense array")
    try:
        array: np.ndarray[Any, Any] = from_tensor(X, name) if hasattr(X, "detach") else np.asanyarray(X)
    except ValueError:
        raise UserValueError(
            f"{name} is ragged: its images have different sizes", name, "bring them to one size"
        ) from None
    return array


def _where(given: Any, cell: tuple[int, int], shape: Shape) -> str:
    names = column_names(given)
    if names is not None:
        return place(given, *cell)
    row, column, channel = (int(i) for i in np.unravel_index(cell[1], shape))
    return f"image {cell[0]}, row {row}, column {column}" + (f", channel {channel}" if shape[2] > 1 else "")
