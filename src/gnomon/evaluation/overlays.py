"""Boxes, maps over pixels, and colors for the classes of pixels on images: arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.errors import UserValueError

__all__ = ["label_colors", "overlay_boxes", "overlay_heat"]

GOLDEN = 0.6180339887498949
"""Of the circle of hues, between two classes."""
LIGHTEST, SATURATION = 0.9, 0.7


def overlay_boxes(
    image: ArrayLike, boxes: ArrayLike, *, color: float | Sequence[float] = 1.0, width: int = 1
) -> NDArray[np.generic]:
    """An image with the borders of boxes on it: where a detector saw something, or which images of a grid are wrong.

    Parameters
    ----------
    image : array of shape (rows, columns) or (rows, columns, channels)
        Never written to.
    boxes : array of shape (n, 4)
        Whole numbers: first row, first column, the row behind the last and the column behind the last. What lies beyond
        the image is cut off, so that a box that reaches over an edge has no border there.
    color : number, or one for each channel
        In the image's own scale.
    width : int in [1, inf), default 1
        Pixels of the border, which lies within the box.

    Returns
    -------
    array of the shape and type of `image`
        Later boxes lie above earlier ones. Cost O(pixels of the image and the borders).

    Raises
    ------
    UserValueError
        An image of another shape, boxes that end before they begin, a color for other channels.

    Examples
    --------
    >>> overlay_boxes(np.zeros((4, 5)), [[0, 1, 4, 5]]).astype(int).tolist()
    [[0, 1, 1, 1, 1], [0, 1, 0, 0, 1], [0, 1, 0, 0, 1], [0, 1, 1, 1, 1]]
    """
    drawn = np.array(image)
    if drawn.ndim not in (2, 3):
        raise UserValueError.must("image", "be (rows, columns) or (rows, columns, channels)", drawn)
    places = np.asarray(boxes)
    places = places.reshape(-1, 4) if not places.size else places
    if places.ndim != 2 or places.shape[1] != 4 or not np.isfinite(places).all() or (places % 1).any():
        raise UserValueError.must("boxes", "be rows of four whole numbers", places)
    tones = np.asarray(color, drawn.dtype)
    if tones.ndim > 1 or (tones.ndim == 1 and drawn.shape[2:] != tones.shape):
        raise UserValueError.must("color", "be one number, or one for each channel", color)
    if width < 1:
        raise UserValueError.must("width", "be at least 1", width)
    for k, (top, left, bottom, right) in enumerate(places.astype(int).tolist()):
        if top >= bottom or left >= right:
            what = f"a box must end behind its beginning, got {[top, left, bottom, right]}"
            raise UserValueError(what, f"box {k}")
        down, across = min(width, bottom - top), min(width, right - left)
        for part in (
            (top, top + down, left, right), (bottom - down, bottom, left, right),
            (top, bottom, left, left + across), (top, bottom, right - across, right),
        ):  # fmt: skip
            first, last, begin, end = (max(0, one) for one in part)
            drawn[first:last, begin:end] = tones
    return drawn


def label_colors(codes: Any) -> NDArray[np.float64]:
    """A color for each class: hues a golden ratio of the circle apart; gray where there is none (a code below 0).

    Parameters
    ----------
    codes : int array of any shape

    Returns
    -------
    array of shape (*codes.shape, 3)
        In [0, 1].

    Examples
    --------
    >>> label_colors(np.array([-1, 0])).round(2).tolist()
    [[0.5, 0.5, 0.5], [0.9, 0.27, 0.27]]
    """
    codes = np.asarray(codes)
    hue = (codes[..., None] * GOLDEN + np.array([0.0, 2.0, 1.0]) / 3) % 1
    strength = np.clip(np.abs(6 * hue - 3) - 1, 0, 1)
    return np.where(codes[..., None] < 0, 0.5, LIGHTEST * (1 - SATURATION * (1 - strength)))


def overlay_heat(images: ArrayLike, maps: ArrayLike, *, strength: float = 0.8) -> NDArray[np.float64]:
    """Images in gray with a map over each: red where it is above 0, blue below, the stronger the further.

    Parameters
    ----------
    images : array of shape (n, rows, columns) or (n, rows, columns, channels)
        In [0, 1]; channels are averaged.
    maps : array of shape (n, rows, columns)
        Each is drawn on a scale of its own, up to its largest size.
    strength : float in [0, 1], default 0.8
        Share of the color where the map is strongest.

    Returns
    -------
    array of shape (n, rows, columns, 3)
        In [0, 1].

    Raises
    ------
    UserValueError
        Maps of another size than the images.

    Examples
    --------
    >>> overlay_heat([[[0.5, 0.5, 0.5]]], [[[2.0, 0.0, -1.0]]], strength=1.0).tolist()
    [[[[1.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.25, 0.25, 0.75]]]]
    """
    gray, heat = np.asarray(images, np.float64), np.asarray(maps, np.float64)
    gray = gray if gray.ndim == 3 else gray.mean(-1)
    if gray.shape != heat.shape:
        raise UserValueError(f"maps must have the shape of the images, {gray.shape}, got {heat.shape}", "maps")
    top = np.abs(heat).max((1, 2), keepdims=True)
    share = strength * heat / np.where(top > 0, top, 1.0)
    color = np.stack([share > 0, np.zeros_like(share), share < 0], -1)
    weight = np.abs(share)[..., None]
    found: NDArray[np.float64] = (1 - weight) * gray[..., None] + weight * color
    return found
