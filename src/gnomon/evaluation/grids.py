"""Pictures as arrays: filters, samples and chains side by side, without a display and without choosing.

All images of a grid share one scale of gray unless it is asked for otherwise, so that what is weak looks weak.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.errors import UserValueError

__all__ = ["chain_grid", "enlargement", "filter_grid", "flat_filters", "sample_grid"]

Floats = NDArray[np.float64]

SCALES = ("common", "each")
SMALLEST = 48
"""Pixels that the longer side of an image is enlarged to, where it has fewer."""
FLAT = 0.05
"""A filter that spans less than this share of the common scale cannot be seen on it."""


def sample_grid(
    samples: ArrayLike, shape: tuple[int, ...], *, across: int | None = None, scale: str = "common", factor: int = 1
) -> Floats:
    """Images side by side, in the order in which they come, with a white border of one pixel.

    Good samples do not show a good model of the data: copies of training rows look best, and nobody sees what is
    missing. `gnomon.evaluation.memorization` and `density_coverage` look for both.

    Parameters
    ----------
    samples : array of shape (n, ...)
        n at least 1; the rest of an image's values in the order of `shape`.
    shape : tuple of int
        Height and width, perhaps 1 or 3 channels.
    across : int in [1, inf), optional
        Images in a line; as many as make a square by default. What is left of the last line is white.
    scale : {"common", "each"}
        The darkest and the brightest value of all images become 0 and 1, or those of each image.
    factor : int in [1, inf), default 1
        Every pixel becomes a square of this side.

    Returns
    -------
    array of shape (rows, columns) or (rows, columns, 3)
        In [0, 1]; an image at row i and column j of the grid begins at pixel (i (h + 1), j (w + 1)), of height h and
        width w. Cost O(pixels).

    Raises
    ------
    UserValueError
        No image, values that are no images of that shape, an unknown scale.

    Examples
    --------
    >>> sample_grid([[0.0, 1.0], [2.0, 4.0]], (1, 2), across=1).tolist()
    [[0.0, 0.25, 1.0], [1.0, 1.0, 1.0], [0.5, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    images = _scaled(_images(samples, shape, "samples"), scale)
    across = math.ceil(math.sqrt(len(images))) if across is None else across
    for name, value in (("across", across), ("factor", factor)):
        if value < 1:
            raise UserValueError.must(name, "be at least 1", value)
    return _tiled(images.repeat(factor, axis=1).repeat(factor, axis=2), across)


def filter_grid(
    W: ArrayLike, shape: tuple[int, ...], *, across: int | None = None, scale: str = "common", factor: int = 1
) -> Floats:
    """Every column of a matrix of weights as an image: what each unit looks for.

    Parameters
    ----------
    W : array of shape (pixels, units)
    shape : tuple of int
        Height and width, perhaps 3 channels.
    across, factor
        As in `sample_grid`.
    scale : {"common", "each"}
        On the common scale a unit that has learned nothing is a flat square. Scaled by itself it looks like all others:
        see `flat_filters`.

    Returns
    -------
    array of shape (rows, columns) or (rows, columns, 3)
        In [0, 1].

    Raises
    ------
    UserValueError
        As in `sample_grid`.

    Notes
    -----
    Source: Goodfellow, Bengio and Courville (2016), chapter 20.

    Examples
    --------
    >>> W = [[1.0, 0.0], [-1.0, 0.0]]
    >>> filter_grid(W, (1, 2))[0].tolist(), filter_grid([[2.0], [4.0]], (2, 1), scale="each")[:, 0].tolist()
    ([1.0, 0.0, 1.0, 0.5, 0.5, 1.0], [0.0, 1.0, 1.0])
    """
    return sample_grid(np.asarray(W).T, shape, across=across, scale=scale, factor=factor)


def flat_filters(W: ArrayLike, *, below: float = FLAT) -> NDArray[np.int64]:
    """Columns that cannot be seen on the common scale: units that are dead, or nearly.

    Parameters
    ----------
    W : array of shape (pixels, units)
    below : float in (0, 1), default 0.05
        Share of the range of all weights that the weights of a unit span at least, unless it is flat.

    Returns
    -------
    int64 array
        In rising order.

    Examples
    --------
    >>> flat_filters([[3.0, 0.01, 0.0], [-3.0, 0.0, 0.0]]).tolist()
    [1, 2]
    """
    if not 0 < below < 1:
        raise UserValueError.must("below", "be in (0, 1)", below)
    weights = np.asarray(W, np.float64)
    span = np.ptp(weights, axis=0)
    return np.flatnonzero(span < below * np.ptp(weights)) if np.ptp(weights) else np.arange(weights.shape[1])


def chain_grid(chains: ArrayLike, shape: tuple[int, ...], *, data: ArrayLike | None = None, factor: int = 1) -> Floats:
    """Samples along Markov chains: a column for each chain, a line for each draw; data beside them on the same scale.

    Draws that follow each other are alike: say how many steps lie between two lines, and what is left of the
    correlation after these (`gnomon.inference.mcmc.lags.lag_correlation`).

    Parameters
    ----------
    chains : array of shape (chains, draws, ...)
    shape : tuple of int
        Height and width, perhaps 1 or 3 channels.
    data : array of shape (n, ...), optional
        Images of the data, in further columns right of a gap as wide as an image.
    factor : int in [1, inf), default 1
        Every pixel becomes a square of this side.

    Returns
    -------
    array of shape (rows, columns) or (rows, columns, 3)
        In [0, 1].

    Raises
    ------
    UserValueError
        No draw, or values that are no images of that shape.

    Examples
    --------
    >>> chain_grid([[[0.0], [1.0]], [[0.5], [0.25]]], (1, 1)).tolist()  # first draws above, a column each
    [[0.0, 1.0, 0.5, 1.0], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.25, 1.0], [1.0, 1.0, 1.0, 1.0]]
    """
    draws = np.asarray(chains, np.float64)
    if draws.ndim < 2 or not draws.shape[0] or not draws.shape[1]:
        raise UserValueError.must("chains", "be (chains, draws, ...) with at least one of each", draws)
    across, down = draws.shape[:2]
    lines = np.swapaxes(draws, 0, 1).reshape(across * down, -1)
    if data is None:
        return sample_grid(lines, shape, across=across, factor=factor)
    known = _images(data, shape, "data").reshape(-1, math.prod(shape))
    grid = sample_grid(np.concatenate([lines, known]), shape, across=1, factor=factor)
    tiles = grid.reshape(len(lines) + len(known), shape[0] * factor + 1, *grid.shape[1:])
    left, right = _stacked(tiles[: len(lines)], across), _stacked(tiles[len(lines) :], -(-len(known) // down))
    right = np.concatenate([right, np.ones((len(left) - len(right), *right.shape[1:]))])
    return np.concatenate([left, np.ones((len(left), tiles.shape[2], *left.shape[2:])), right], axis=1)


def enlargement(shape: tuple[int, ...]) -> int:
    """The whole factor by which small images are enlarged for the eye: to 48 pixels where they have fewer.

    Examples
    --------
    >>> enlargement((8, 8)), enlargement((100, 80))
    (6, 1)
    """
    return max(1, SMALLEST // max(shape[:2]))


def _images(X: ArrayLike, shape: tuple[int, ...], name: str) -> Floats:
    """Images of shape (n, height, width, channels)."""
    values = np.asarray(X, np.float64)
    if len(shape) not in (2, 3) or min(shape) < 1 or (len(shape) == 3 and shape[2] not in (1, 3)):
        raise UserValueError.must("shape", "be height and width, perhaps 1 or 3 channels", tuple(shape))
    if values.ndim < 2 or not len(values) or math.prod(values.shape[1:]) != math.prod(shape):
        size = " x ".join(map(str, shape))
        raise UserValueError.must(name, f"hold at least one image of {size} values", values)
    return values.reshape(len(values), *shape[:2], shape[2] if len(shape) == 3 else 1)


def _scaled(images: Floats, scale: str) -> Floats:
    """Values in [0, 1]; what does not vary at all is 0."""
    if scale not in SCALES:
        raise UserValueError.must("scale", f"be {' or '.join(SCALES)}", scale)
    axes: Any = (0, 1, 2, 3) if scale == "common" else (1, 2, 3)
    low, high = (best.reduce(images, axis=axes, keepdims=True) for best in (np.fmin, np.fmax))  # NaN is passed over
    span = high - low
    return (images - low) / np.where(span > 0, span, 1.0)


def _tiled(images: Floats, across: int) -> Floats:
    """Images in lines, with a white border of one pixel to the right of each and below it."""
    n, height, width, channels = images.shape
    tiles = np.ones((n, height + 1, width + 1, channels))
    tiles[:, :height, :width] = images
    whole = _stacked(tiles, across)
    return whole[..., 0] if channels == 1 else whole


def _stacked(tiles: Any, across: int) -> Any:
    """Tiles of one size in lines of so many; the rest of the last line is white."""
    down = -(-len(tiles) // across)
    height, width, *channels = tiles.shape[1:]
    whole = np.ones((down * across, height, width, *channels))
    whole[: len(tiles)] = tiles
    lines = whole.reshape(down, across, height, width, *channels)
    return np.swapaxes(lines, 1, 2).reshape(down * height, across * width, *channels)
