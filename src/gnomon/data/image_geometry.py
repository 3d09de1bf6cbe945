"""Geometry and color of images, channels last: sampling between pixels, other sizes, grey, hue and saturation.

Places are (row, column) of the centers of pixels, the first center at 0, rows downward: an image of H rows covers
[-1/2, H - 1/2]. Images are (rows, columns), (rows, columns, channels) or (n, rows, columns, channels).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from gnomon.distributions.arrays import plain
from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.fast import kernel

__all__ = [
    "GREY", "Border", "Mode", "are_sides", "as_floats", "batched", "grey", "resize", "resized", "sample", "to_hsv",
    "to_rgb",
]  # fmt: skip

Border = Literal["constant", "nearest"]
Mode = Literal["nearest", "bilinear", "bicubic"]
GREY = (0.2989, 0.587, 0.114)
"""Weights of red, green and blue in a grey level."""


def batched(images: Any) -> tuple[NDArray[Any], Callable[[NDArray[Any]], NDArray[Any]]]:
    """Images as (n, rows, columns, channels), and the way back to the axes that were given.

    Raises
    ------
    UserValueError
        An array of other than two to four axes, images of several sizes.

    Examples
    --------
    >>> x, back = batched(np.zeros((4, 5)))
    >>> x.shape, back(x[:, ::2]).shape
    ((1, 4, 5, 1), (2, 5))
    """
    x = plain(images, "images", "bring them to one size")
    if x.ndim == 4:
        return x, lambda y: y
    if x.ndim == 3:
        return x[None], lambda y: y[0]
    if x.ndim == 2:
        return x[None, :, :, None], lambda y: y[0, :, :, 0]
    rule = "be (rows, columns), (rows, columns, channels) or (n, rows, columns, channels)"
    raise UserValueError.must("images", rule, x.shape)


def are_sides(value: Any) -> bool:
    """Whether these are two whole numbers of at least 1, rows and columns.

    Examples
    --------
    >>> are_sides((3, 4)), are_sides((3, 0)), are_sides(3)
    (True, False, False)
    """
    both = isinstance(value, tuple | list) and len(value) == 2
    return both and all(hasattr(one, "__index__") and not isinstance(one, bool) and one >= 1 for one in value)


def as_floats(images: NDArray[Any]) -> tuple[NDArray[Any], Callable[[NDArray[Any]], NDArray[Any]]]:
    """Numbers to compute with, and the way back to the dtype: whole numbers are rounded and cut at its ends.

    Raises
    ------
    UserTypeError
        Values that are no real numbers.

    Examples
    --------
    >>> x, back = as_floats(np.array([[200]], np.uint8))
    >>> back(x * 1.001).tolist(), back(x * 2).tolist()
    ([[200]], [[255]])
    """
    kind = images.dtype
    if kind in (np.float32, np.float64):
        return images, lambda y: y
    if kind.kind == "b":
        return images.astype(np.float32), lambda y: y >= 0.5
    if kind.kind == "f":
        return images.astype(np.float32), lambda y: y.astype(kind)
    if kind.kind not in "iu":
        raise UserTypeError.must("images", "hold real numbers", images.dtype)
    info = np.iinfo(kind)
    work = np.float32 if kind.itemsize <= 2 else np.float64
    return images.astype(work), lambda y: np.clip(np.rint(y), info.min, info.max).astype(kind)


def resize(images: Any, size: tuple[int, int], *, mode: Mode = "bilinear", antialias: bool = True) -> NDArray[Any]:
    """Images of another size.

    Output row i of h looks at the place (i + 1/2) H / h - 1/2 of H rows, columns alike: the borders of both images lie
    on each other, not the centers of their corners. Beyond the border the last pixel goes on.

    Parameters
    ----------
    images : array of images
    size : (rows, columns)
    mode : {"bilinear", "bicubic", "nearest"}, default "bilinear"
        ``nearest`` makes no new values: for masks of labels. Bicubic values may go beyond those of the image; of whole
        numbers they are cut at the ends of the dtype.
    antialias : bool, default True
        Whether a smaller image is made of means over wider windows, so that fine patterns do not fold; not of
        ``nearest``.

    Returns
    -------
    array of the axes and the dtype of `images`
        Whole numbers are rounded.

    Raises
    ------
    UserValueError, UserTypeError
        No images, a size that is no two whole numbers of at least 1, an unknown mode.

    Notes
    -----
    torch's ``interpolate`` with ``align_corners=False`` (``nearest-exact``) underneath.

    Examples
    --------
    >>> resize(np.array([[0.0, 4.0]]), (1, 4)).tolist(), resize(np.array([[1, 2]]), (2, 4), mode="nearest").tolist()
    ([[0.0, 1.0, 3.0, 4.0]], [[1, 1, 2, 2], [1, 1, 2, 2]])
    """
    import torch

    if mode not in get_args(Mode):
        raise UserValueError.must("mode", f"be one of {', '.join(get_args(Mode))}", mode)
    if not are_sides(size):
        raise UserValueError.must("size", "be (rows, columns), whole numbers of at least 1", size)
    x, as_given = batched(images)
    if not x.size:
        raise UserValueError.must("images", "have at least one pixel", x.shape)
    if x.shape[1:3] == tuple(size):
        return as_given(x.copy())
    if mode == "nearest":
        rows, columns = (_nearest(n, m) for n, m in zip(x.shape[1:3], size, strict=True))
        return as_given(x[:, rows[:, None], columns])
    numbers, rounded = as_floats(x)
    maps = torch.from_numpy(np.ascontiguousarray(numbers))
    return as_given(rounded(np.ascontiguousarray(resized(maps, size, mode=mode, antialias=antialias).numpy())))


def resized(maps: Any, size: tuple[int, int], *, mode: Mode = "bilinear", antialias: bool = True) -> Any:
    """A tensor of images (n, rows, columns, channels) in another size, see `resize`.

    Examples
    --------
    >>> import torch
    >>> resized(torch.tensor([[0.0, 4.0]])[None, :, :, None], (1, 4)).flatten().tolist()
    [0.0, 1.0, 3.0, 4.0]
    """
    from torch.nn.functional import interpolate

    ways: dict[str, Any] = {"mode": mode, "align_corners": False, "antialias": antialias}
    if mode == "nearest":
        ways = {"mode": "nearest-exact"}
    return interpolate(maps.permute(0, 3, 1, 2), (int(size[0]), int(size[1])), **ways).permute(0, 2, 3, 1)


def _nearest(n: int, m: int) -> NDArray[np.int64]:
    """Of n places those nearest to m that cover the same stretch."""
    return np.minimum((2 * np.arange(m) + 1) * n // (2 * m), n - 1)


def sample(
    images: Any, rows: Any, columns: Any, *, mode: Mode = "bilinear", border: Border = "constant", fill: float = 0.0
) -> NDArray[Any]:
    """Values of images at places of their own between the pixels.

    Parameters
    ----------
    images : array of shape (n, H, W, channels)
    rows, columns : arrays of shape (n, h, w)
        Where output pixel (y, x) of each image looks, in pixels of the input.
    mode : {"bilinear", "nearest"}, default "bilinear"
    border : {"constant", "nearest"}, default "constant"
        What lies beyond the image: pixels of value `fill`, or the last pixel of the row or column.
    fill : float, default 0

    Returns
    -------
    array of shape (n, h, w, channels)
        In the dtype of `images`; whole numbers are rounded.

    Raises
    ------
    UserValueError
        Shapes that do not go together, an unknown mode or border.

    Notes
    -----
    A compiled loop, some nanoseconds a value. Bilinear sampling is that of ``scipy.ndimage.map_coordinates`` with order
    1 and mode ``grid-constant`` or ``nearest``.

    Examples
    --------
    >>> x = np.array([[0.0, 4.0]])[None, :, :, None]
    >>> sample(x, np.zeros((1, 1, 3)), np.array([[[0.25, 1.0, 1.5]]])).ravel().tolist()
    [1.0, 4.0, 2.0]
    """
    x, r, c = np.asarray(images), np.asarray(rows, np.float64), np.asarray(columns, np.float64)
    if x.ndim != 4 or not x.size:
        raise UserValueError.must("images", "be (n, rows, columns, channels) with at least one pixel", x.shape)
    if r.ndim != 3 or r.shape != c.shape or len(r) != len(x):
        rule = f"be two arrays ({len(x)}, h, w) of one shape"
        raise UserValueError.must("rows and columns", rule, (r.shape, c.shape))
    if mode not in ("nearest", "bilinear") or border not in get_args(Border):
        raise UserValueError(f"mode must be bilinear or nearest, and border constant or nearest, got {mode}, {border}")
    if mode == "nearest":
        out = np.empty((*r.shape, x.shape[3]), x.dtype)
        _pick(np.array(x, order="C"), r, c, border == "nearest", x.dtype.type(fill), out)
        return out
    numbers, rounded = as_floats(x)
    out = np.empty((*r.shape, x.shape[3]), numbers.dtype)
    _mix(np.array(numbers, order="C"), r, c, border == "nearest", numbers.dtype.type(fill), out)
    return rounded(out)


@kernel
def _mix(images, rows, columns, clamped, fill, out):  # type: ignore[no-untyped-def]
    """Bilinear values."""
    n, height, width, channels = images.shape
    for i in range(n):
        for y in range(rows.shape[1]):
            for x in range(rows.shape[2]):
                # far outside is as good as just outside, and has an index
                r = min(max(rows[i, y, x], -2.0), height + 1.0)
                c = min(max(columns[i, y, x], -2.0), width + 1.0)
                if clamped:
                    r, c = min(max(r, 0.0), height - 1.0), min(max(c, 0.0), width - 1.0)
                top, left = int(np.floor(r)), int(np.floor(c))
                down, right = r - top, c - left
                a, b, d, e = (1.0 - down) * (1.0 - right), (1.0 - down) * right, down * (1.0 - right), down * right
                if 0 <= top < height - 1 and 0 <= left < width - 1:
                    for k in range(channels):
                        out[i, y, x, k] = (
                            a * images[i, top, left, k] + b * images[i, top, left + 1, k]
                            + d * images[i, top + 1, left, k] + e * images[i, top + 1, left + 1, k]
                        )  # fmt: skip
                    continue
                above, below = 0 <= top < height, 0 <= top + 1 < height
                before, behind = 0 <= left < width, 0 <= left + 1 < width
                for k in range(channels):
                    value = a * (images[i, top, left, k] if above and before else fill)
                    value += b * (images[i, top, left + 1, k] if above and behind else fill)
                    value += d * (images[i, top + 1, left, k] if below and before else fill)
                    out[i, y, x, k] = value + e * (images[i, top + 1, left + 1, k] if below and behind else fill)


@kernel
def _pick(images, rows, columns, clamped, fill, out):  # type: ignore[no-untyped-def]
    """Values of the nearest pixels."""
    n, height, width, channels = images.shape
    for i in range(n):
        for y in range(rows.shape[1]):
            for x in range(rows.shape[2]):
                r = int(np.floor(min(max(rows[i, y, x], -2.0), height + 1.0) + 0.5))
                c = int(np.floor(min(max(columns[i, y, x], -2.0), width + 1.0) + 0.5))
                if clamped:
                    r, c = min(max(r, 0), height - 1), min(max(c, 0), width - 1)
                inside = 0 <= r < height and 0 <= c < width
                for k in range(channels):
                    out[i, y, x, k] = images[i, r, c, k] if inside else fill


def grey(images: Any) -> NDArray[Any]:
    """Grey levels 0.2989 R + 0.587 G + 0.114 B.

    Parameters
    ----------
    images : float array of shape (..., 3)

    Returns
    -------
    array of shape (...)

    Raises
    ------
    UserValueError
        Other than three channels.

    Examples
    --------
    >>> grey(np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]])).round(4).tolist()
    [0.2989, 0.9999]
    """
    x = _three(images)
    found: NDArray[Any] = x @ np.array(GREY, x.dtype)
    return found


def to_hsv(images: Any) -> NDArray[Any]:
    """Hue as a fraction of a turn in [0, 1), saturation and value, of red, green and blue.

    Parameters
    ----------
    images : float array of shape (..., 3)
        In [0, 1]. Grey pixels have hue 0 and saturation 0.

    Returns
    -------
    array of the same shape

    Raises
    ------
    UserValueError
        Other than three channels.

    Notes
    -----
    As ``colorsys.rgb_to_hsv``. Source: Smith (1978).

    Examples
    --------
    >>> to_hsv(np.array([0.0, 1.0, 0.0])).round(6).tolist()
    [0.333333, 1.0, 1.0]
    """
    return _pixelwise(_hsv, images)


def to_rgb(images: Any) -> NDArray[Any]:
    """Red, green and blue of hue (a fraction of a turn, any number), saturation and value: undoes `to_hsv`.

    Raises
    ------
    UserValueError
        Other than three channels.

    Examples
    --------
    >>> to_rgb(np.array([1.0 / 3.0, 1.0, 1.0])).round(6).tolist()
    [0.0, 1.0, 0.0]
    """
    return _pixelwise(_rgb, images)


def _three(images: Any) -> NDArray[Any]:
    x = np.asarray(images)
    if not x.ndim or x.shape[-1] != 3 or x.dtype.kind != "f":
        rule = "be floating numbers (..., 3): red, green and blue"
        raise UserValueError.must("images", rule, f"{x.dtype} of shape {x.shape}")
    return x


def _pixelwise(function: Any, images: Any) -> NDArray[Any]:
    x = _three(images)
    pixels = np.array(x.reshape(-1, 3), order="C")
    function(pixels)
    return pixels.reshape(x.shape)


@kernel
def hsv_of(r, g, b):  # type: ignore[no-untyped-def]
    """Hue, saturation and value of a pixel."""
    top, low = max(r, g, b), min(r, g, b)
    span = top - low
    h = 0.0
    if span > 0.0:
        if top == r:
            h = (g - b) / span
        elif top == g:
            h = 2.0 + (b - r) / span
        else:
            h = 4.0 + (r - g) / span
        h = h / 6.0
    return h - np.floor(h), span / top if span > 0.0 else 0.0, top


@kernel
def rgb_of(h, s, v):  # type: ignore[no-untyped-def]
    """A channel is v - v s max(0, min(k, 4 - k, 1)) with k = (shift + 6 h) mod 6; the shift is 5, 3, 1."""
    turns = 6.0 * h
    a, b, c = turns + 5.0, turns + 3.0, turns + 1.0
    a, b, c = a - 6.0 * np.floor(a / 6.0), b - 6.0 * np.floor(b / 6.0), c - 6.0 * np.floor(c / 6.0)
    strength = v * s
    return (
        v - strength * max(0.0, min(a, 4.0 - a, 1.0)),
        v - strength * max(0.0, min(b, 4.0 - b, 1.0)),
        v - strength * max(0.0, min(c, 4.0 - c, 1.0)),
    )


@kernel
def _hsv(pixels):  # type: ignore[no-untyped-def]
    """Pixels (m, 3) in place."""
    for i in range(len(pixels)):
        pixels[i, 0], pixels[i, 1], pixels[i, 2] = hsv_of(pixels[i, 0], pixels[i, 1], pixels[i, 2])


@kernel
def _rgb(pixels):  # type: ignore[no-untyped-def]
    """Pixels (m, 3) in place."""
    for i in range(len(pixels)):
        pixels[i, 0], pixels[i, 1], pixels[i, 2] = rgb_of(pixels[i, 0], pixels[i, 1], pixels[i, 2])
