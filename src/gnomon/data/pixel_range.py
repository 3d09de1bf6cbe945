"""Pixels in one range: bytes and other levels to [0, 1] or [-1, 1], and back without losing a level."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import UserTypeError, UserValueError

__all__ = ["check_range", "from_symmetric", "from_unit", "to_symmetric", "to_unit"]

Range = Literal["unit", "symmetric", "levels"]


def to_unit(x: Any, bits: int | None = None) -> NDArray[Any]:
    """Pixels in [0, 1]: level / (2**bits - 1).

    Parameters
    ----------
    x : array of whole numbers, or of floating numbers in [0, 1]
        Bytes are levels 0..255, other unsigned numbers fill their own type (0..65535 with 16 bits). Floating numbers
        and truth values are in [0, 1] already and are never divided again.
    bits : int in [1, 32], optional
        Of the levels where they do not fill their type: 12 for a camera whose numbers end at 4095.

    Returns
    -------
    array of x's shape
        float32, float64 where x is float64 or has more than 16 bits.

    Raises
    ------
    UserValueError
        A level beyond the highest one, floating numbers outside [0, 1], signed whole numbers without `bits`.

    Examples
    --------
    >>> to_unit(np.array([0, 51, 255], np.uint8)).tolist()
    [0.0, 0.20000000298023224, 1.0]
    >>> to_unit(np.array([0, 4095], np.uint16), bits=12).tolist(), to_unit([0.0, 0.5]).tolist()
    ([0.0, 1.0], [0.0, 0.5])
    """
    pixels = _numbers(x)
    if pixels.dtype.kind in "bf":
        found = pixels.astype(np.float32) if pixels.dtype.kind == "b" or pixels.dtype.itemsize < 4 else pixels
        if bits is None:
            return _inside(found, 0.0, 1.0)
        raise UserValueError(f"bits must be left out for numbers in [0, 1], got {bits}", "bits", "give whole numbers")
    top = _highest(pixels.dtype, bits)
    if pixels.size and (int(pixels.min()) < 0 or int(pixels.max()) > top):
        what = f"levels must be 0 to {top}, got {int(pixels.min())} to {int(pixels.max())}"
        raise UserValueError(what, "x", "give the number of bits that they have")
    levels: NDArray[Any] = pixels.astype(np.float32 if top <= 65535 else np.float64)
    levels /= top
    return levels


def from_unit(x: Any, bits: int = 8) -> NDArray[Any]:
    """Levels of pixels in [0, 1], the nearest ones: multiplied, rounded, then cast. `to_unit` undone exactly.

    Parameters
    ----------
    x : array of numbers in [0, 1]
        What is outside goes to the nearest end.
    bits : int in [1, 32], default 8

    Returns
    -------
    array of uint8, uint16 or uint32

    Examples
    --------
    >>> levels = np.arange(256, dtype=np.uint8)
    >>> bool((from_unit(to_unit(levels)) == levels).all())
    True
    """
    pixels = np.asarray(_numbers(x), np.float64)
    if not np.isfinite(pixels).all():
        raise UserValueError("pixels must be finite numbers, got NaN or infinity", "x", "fill them first")
    top = _highest(np.dtype(np.uint32), bits)
    dtype = np.uint8 if top < 1 << 8 else np.uint16 if top < 1 << 16 else np.uint32
    levels: NDArray[Any] = np.rint(np.clip(pixels, 0, 1) * top).astype(dtype)
    return levels


def to_symmetric(x: Any, bits: int | None = None) -> NDArray[Any]:
    """Pixels in [-1, 1]: 2 level / (2**bits - 1) - 1; see `to_unit`.

    Parameters
    ----------
    x : array of whole numbers, or of floating numbers in [0, 1]
    bits : int in [1, 32], optional

    Examples
    --------
    >>> to_symmetric(np.array([0, 255], np.uint8)).tolist()
    [-1.0, 1.0]
    """
    return 2 * to_unit(x, bits) - 1


def from_symmetric(x: Any, bits: int = 8) -> NDArray[Any]:
    """Levels of pixels in [-1, 1]; `to_symmetric` undone exactly, see `from_unit`.

    Parameters
    ----------
    x : array of numbers in [-1, 1]
    bits : int in [1, 32], default 8

    Examples
    --------
    >>> from_symmetric([-1.0, 0.0, 1.0]).tolist()
    [0, 128, 255]
    """
    return from_unit((np.asarray(_numbers(x), np.float64) + 1) / 2, bits)


def check_range(batch: Any) -> Range:
    """Which range all images of a batch have: ``unit`` [0, 1], ``symmetric`` [-1, 1] or ``levels`` 0, 1, 2 ...

    An image of few pixels or little light may fit several ranges: it is taken for what the others are.

    Parameters
    ----------
    batch : array of shape (n, ...), or sequence of arrays
        The images.

    Raises
    ------
    UserValueError
        Images of several ranges, with the first that differs, or of none.

    Examples
    --------
    >>> check_range([np.array([0.0, 0.3]), np.array([0.0, 1.0])])
    'unit'
    """
    if not np.iterable(batch):
        raise UserTypeError.must("batch", "be a sequence of images", batch)
    ranges = [_ranges(_numbers(image), number) for number, image in enumerate(batch)]
    left: tuple[Range, ...] = ("unit", "symmetric", "levels")
    for number, found in enumerate(ranges):
        kept = tuple(one for one in left if one in found)
        if not kept:
            what = f"image {number} has {found[0]} pixels, those before it {left[0]}"
            raise UserValueError(what, "batch", "bring all to one range: to_unit before they are put together")
        left = kept
    return left[0]


def _ranges(image: NDArray[Any], number: int) -> tuple[Range, ...]:
    """The ranges that an image fits, the likeliest first; whole numbers above 1 are levels."""
    low, high = (float(image.min()), float(image.max())) if image.size else (0.0, 0.0)
    if image.dtype.kind in "iu" and low >= 0:
        return ("levels",) if image.dtype == np.uint8 or high > 1 else ("unit", "symmetric", "levels")
    if low >= 0 and high <= 1:
        whole = bool((image == np.rint(image)).all())
        return ("unit", "symmetric", "levels") if whole else ("unit", "symmetric")
    if low >= -1 and high <= 1:
        return ("symmetric",)
    if low >= 0 and bool((image == np.rint(image)).all()):
        return ("levels",)
    what = f"image {number} has pixels from {low:g} to {high:g}"
    raise UserValueError(what, "batch", "give whole levels from 0, or numbers in [0, 1] or [-1, 1]")


def _numbers(x: Any) -> NDArray[Any]:
    array = np.asarray(x)
    if array.dtype.kind not in "biuf":
        raise UserTypeError.must("x", "be an array of numbers", x)
    return array


def _highest(dtype: np.dtype[Any], bits: int | None) -> int:
    if bits is None:
        if dtype.kind != "u":
            raise UserValueError(f"nobody can tell how many levels {dtype} has", "x", "give bits, 8 for levels 0..255")
        return int(np.iinfo(dtype).max)
    if isinstance(bits, bool) or not hasattr(bits, "__index__") or not 1 <= bits <= 32:
        raise UserValueError.must("bits", "be a whole number from 1 to 32", bits)
    return (1 << int(bits)) - 1


def _inside(pixels: NDArray[Any], low: float, high: float) -> NDArray[Any]:
    with np.errstate(invalid="ignore"):
        good = not pixels.size or (pixels.min() >= low and pixels.max() <= high)
    if good:
        return pixels
    what = f"floating pixels must be in [{low:g}, {high:g}], got {pixels.min():g} to {pixels.max():g}"
    raise UserValueError(what, "x", "divide by the highest level, or give whole numbers")
