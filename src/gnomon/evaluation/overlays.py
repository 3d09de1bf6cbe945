"""Boxes drawn on images, and colors for the classes of pixels: arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.errors import UserValueError

__all__ = ["label_colors", "overlay_boxes"]

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
