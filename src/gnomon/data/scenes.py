"""Scenes of handwritten digits, with what every pixel belongs to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data.dataset import Dataset
from gnomon.numeric.noise import Noise

__all__ = ["BACKGROUND", "digit_boxes", "digit_scenes"]

SIDE, CELL, GLYPH, IN_A_SCENE = 24, 12, 8, 3
"""Pixels of a scene, of one of its four cells and of a digit either way; digits in a scene."""
HALF = 8
"""Grey level from which on a pixel belongs to the digit."""
BACKGROUND = 10
"""Label of the pixels that belong to no digit."""


def digit_scenes(digits: Dataset) -> Dataset:
    """Scenes of 24 x 24 pixels, each with three handwritten digits of 8 x 8, and a label for every pixel.

    Every digit occurs in one scene, so that no part of a split has seen the digits of another. Three of the four
    quarters of a scene hold one each, anywhere in the quarter. A pixel belongs to the digit where its level is at
    least half of the highest one, else to the background, which has the label 10.

    Parameters
    ----------
    digits : Dataset
        Images of 8 x 8 pixels with 17 grey levels and labels 0 to 9; what is left of their number by 3 is not used.

    Examples
    --------
    >>> one = np.full((3, 64), 16.0, np.float32)
    >>> scene = digit_scenes(Dataset("three", one, np.array([4, 4, 7]), images=(8, 8), levels=17))
    >>> scene.X.shape, scene.masks.shape, np.bincount(scene.masks.ravel())[[4, 7, 10]].tolist()
    ((1, 576), (1, 24, 24), [128, 64, 384])
    """
    glyphs, labels, corner = _placed(digits)
    n = len(glyphs)
    scene = np.arange(n)[:, None, None, None]
    rows = corner[..., 0, None, None] + np.arange(GLYPH)[:, None]
    columns = corner[..., 1, None, None] + np.arange(GLYPH)
    images, masks = np.zeros((n, SIDE, SIDE), np.float32), np.full((n, SIDE, SIDE), BACKGROUND)
    images[scene, rows, columns] = glyphs
    masks[scene, rows, columns] = np.where(glyphs >= HALF, labels[..., None, None], BACKGROUND)
    return Dataset(
        "digit-scenes",
        X=images.reshape(n, -1),
        columns=tuple(f"pixel_{row}_{column}" for row in range(SIDE) for column in range(SIDE)),
        images=(SIDE, SIDE),
        levels=17,
        classes=(*"0123456789", "background"),
        masks=masks,
        source={"name": "digit-scenes"},
    )


def digit_boxes(digits: Dataset) -> Dataset:
    """The scenes of `digit_scenes` with a box around each digit: the smallest around its pixels of half of the level.

    Parameters
    ----------
    digits : Dataset
        As of `digit_scenes`.

    Examples
    --------
    >>> one = np.full((3, 64), 16.0, np.float32)
    >>> data = digit_boxes(Dataset("three", one, np.array([4, 4, 7]), images=(8, 8), levels=17))
    >>> corners = data.boxes[0, :, :4]
    >>> sorted(data.boxes[0, :, 4].tolist()), (corners[:, 2:] - corners[:, :2]).tolist()
    ([4.0, 4.0, 7.0], [[8.0, 8.0], [8.0, 8.0], [8.0, 8.0]])
    """
    glyphs, labels, corner = _placed(digits)
    ink = glyphs >= HALF
    ends = []
    for axis in (2, 3):  # columns, then rows that hold ink
        line: NDArray[np.bool_] = np.any(ink, axis=axis)
        ends.append((line.argmax(2), GLYPH - line[..., ::-1].argmax(2)))
    (left, right), (top, bottom) = ends
    y, x = corner[..., 0], corner[..., 1]
    boxes = np.stack([x + left, y + top, x + right, y + bottom, labels], -1).astype(np.float64)
    scenes = replace(digit_scenes(digits), name="digit-boxes", masks=None, source={"name": "digit-boxes"})
    return replace(scenes, boxes=boxes, classes=tuple("0123456789"))


def _placed(digits: Dataset) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Digits of each scene, their labels, and the row and the column where each begins."""
    assert digits.X is not None and digits.y is not None
    n = len(digits.X) // IN_A_SCENE
    noise = Noise(0, "digit-scenes")
    order = np.asarray(noise.child("order").order(len(digits.X)))[: n * IN_A_SCENE]
    glyphs = digits.X[order].reshape(n, IN_A_SCENE, GLYPH, GLYPH)
    labels = digits.y[order].reshape(n, IN_A_SCENE)
    empty = np.asarray(noise.child("empty").integers(4, (n, 1)))
    cell = (empty + 1 + np.arange(IN_A_SCENE)) % 4
    offset = np.asarray(noise.child("offset").integers(CELL - GLYPH + 1, (n, IN_A_SCENE, 2)))
    corner = CELL * np.stack([cell // 2, cell % 2], -1) + offset
    return glyphs, labels, corner
