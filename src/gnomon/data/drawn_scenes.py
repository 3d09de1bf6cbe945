"""Pictures made by a rule, with what they show: colored shapes and a phrase, digits in a line and what is written."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gnomon.data.dataset import Dataset
from gnomon.numeric.noise import Noise

__all__ = ["colored_shapes", "digit_lines"]

SIDE = 24
"""Pixels of a picture of a shape either way."""
COLORS = {"red": (220, 40, 40), "green": (40, 190, 60), "blue": (50, 80, 230), "yellow": (230, 210, 40)}
SHAPES = ("disc", "square", "triangle", "cross")
SIZES = {"small": 3.0, "large": 5.0}
"""Half of the width of a shape in pixels."""
NEAREST = 2
"""Pixels by which a shape's center stays away from the middle of the picture, so that top and left are no guess."""
DARKEST = 60
"""Levels below which the ground lies."""

HEIGHT, CELL, GLYPH, MOST = 12, 10, 8, 4
"""Pixels of a line of digits up and down, of a digit's cell across, of a digit either way; digits in a line."""


def colored_shapes(n: int = 1200) -> Dataset:
    """Pictures of 24 x 24 pixels of one colored shape on a dark ground, and a phrase.

    A phrase is such as *a small red disc at the top left*. Color, shape, size and quarter are drawn evenly, the place
    within the quarter too. ``masks`` are 1 on the shape.

    Examples
    --------
    >>> data = colored_shapes(2)
    >>> data.view("images").shape, data.text[0]
    ((2, 24, 24, 3), 'a large blue cross at the top left')
    """
    noise = Noise(0, "colored-shapes")
    color, shape, size, low, right = (
        np.asarray(noise.child(name).integers(count, (n,)))
        for name, count in (("color", 4), ("shape", 4), ("size", 2), ("low", 2), ("right", 2))
    )
    half = np.array(list(SIZES.values()))[size]
    free = SIDE / 2 - NEAREST - half  # from the least distance to the middle to where the shape touches the border
    move = np.asarray(noise.child("move").uniform((n, 2)))
    away = NEAREST + np.floor(move * (free[:, None] + 1))
    center = SIDE / 2 + np.where(np.stack([low, right], 1) == 1, away, -away)
    inside = _inside(center, half, shape)
    ground = np.asarray(noise.child("ground").integers(DARKEST, (n, SIDE, SIDE, 3)))
    colors = np.array(list(COLORS.values()))[color]
    X = np.where(inside[..., None], colors[:, None, None], ground).astype(np.float32)
    sizes, names = list(SIZES), list(COLORS)
    text = tuple(
        f"a {sizes[s]} {names[c]} {SHAPES[k]} at the {('top', 'bottom')[v]} {('left', 'right')[u]}"
        for s, c, k, v, u in zip(size, color, shape, low, right, strict=True)
    )
    return Dataset(
        "colored-shapes",
        X=X.reshape(n, -1),
        columns=tuple(f"pixel_{row}_{column}_{c}" for row in range(SIDE) for column in range(SIDE) for c in "rgb"),
        images=(SIDE, SIDE, 3),
        levels=256,
        text=text,
        classes=("ground", "shape"),
        masks=inside.astype(np.int64),
        source={"name": "colored-shapes"},
    )


def _inside(center: NDArray[np.float64], half: NDArray[np.float64], shape: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which pixels belong to each shape, (n, SIDE, SIDE)."""
    at = np.arange(SIDE) + 0.5
    v, u = at[None, :, None] - center[:, 0, None, None], at[None, None, :] - center[:, 1, None, None]
    r = half[:, None, None]
    box = (abs(v) <= r) & (abs(u) <= r)
    every = [v**2 + u**2 <= r**2, box, box & (abs(u) <= (v + r) / 2), box & ((abs(v) <= r / 3) | (abs(u) <= r / 3))]
    return np.choose(shape[:, None, None], every)


def digit_lines(digits: Dataset) -> Dataset:
    """Lines of 12 x 40 pixels with one to four handwritten digits from left to right, and what is written: *4 0 7*.

    Every digit occurs in one line, so that no part of a split has seen the digits of another. A digit stands anywhere
    in its cell of 12 x 10 pixels; the cells follow each other from the left.

    Parameters
    ----------
    digits : Dataset
        Images of 8 x 8 pixels with 17 grey levels and labels 0 to 9.

    Examples
    --------
    >>> line = digit_lines(Dataset("five", np.full((5, 64), 16.0, np.float32), np.arange(5), images=(8, 8), levels=17))
    >>> line.X.shape[1], sum(len(one.split()) for one in line.text)
    (480, 5)
    """
    assert digits.X is not None and digits.y is not None
    noise, n = Noise(0, "digit-lines"), len(digits.X)
    order = np.asarray(noise.child("order").order(n))
    ends = np.cumsum(np.asarray(noise.child("length").integers(MOST, (n,))) + 1)
    line = np.searchsorted(ends, np.arange(n), side="right")
    cell = np.arange(n) - np.concatenate([[0], ends])[line]
    total = int(line[-1]) + 1
    offset = np.stack([
        np.asarray(noise.child("down").integers(HEIGHT - GLYPH + 1, (n,))),
        np.asarray(noise.child("across").integers(CELL - GLYPH + 1, (n,))) + CELL * cell,
    ])  # fmt: skip
    rows = offset[0, :, None, None] + np.arange(GLYPH)[:, None]
    columns = offset[1, :, None, None] + np.arange(GLYPH)
    X = np.zeros((total, HEIGHT, CELL * MOST), np.float32)
    X[line[:, None, None], rows, columns] = digits.X[order].reshape(n, GLYPH, GLYPH)
    labels = digits.y[order].astype(str)
    return Dataset(
        "digit-lines",
        X=X.reshape(total, -1),
        columns=tuple(f"pixel_{row}_{column}" for row in range(HEIGHT) for column in range(CELL * MOST)),
        images=(HEIGHT, CELL * MOST),
        levels=17,
        text=tuple(" ".join(labels[line == i]) for i in range(total)),
        source={"name": "digit-lines"},
    )
