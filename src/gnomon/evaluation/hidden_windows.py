"""What hiding a part of an image does to an answer, and which known rows are nearest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array
from gnomon.errors import UserValueError, shown
from gnomon.recipes.parameters import how_many

__all__ = ["nearest_rows", "occlusion", "window_of"]

Floats = NDArray[np.float64]

SHARE = 4
"""A window that hides a part of an image is this part of its shorter side."""


def occlusion(
    function: Callable[[Any], Any], X: Array, classes: ArrayLike, *, window: int = 3, stride: int = 1,
    fill: ArrayLike = 0.0,
) -> Floats:  # fmt: skip
    r"""How much the answer for a class falls when a window of the image is hidden, the mean of the windows on a pixel.

    :math:`D_{ij}=\frac{1}{|W_{ij}|}\sum_{w\in W_{ij}}\bigl(f_c(x)-f_c(x_{\setminus w})\bigr)` with the windows
    :math:`W_{ij}` that lie on the pixel.

    Parameters
    ----------
    function : callable
        Of images to answers (n, n_classes), such as ``net.predict_proba``.
    X : array of shape (n, rows, columns) or (n, rows, columns, channels)
    classes : int array of shape (n,)
        Column of the answers that is watched for each image.
    window : int in [1, inf), default 3
        Side of the square that is hidden; at most that of the image.
    stride : int in [1, inf), default 1
        Pixels from one window to the next; the last one ends with the image.
    fill : number or array, default 0
        What stands in the window: of one shape with it in the end, such as (channels,) or (n, 1, 1, channels).

    Returns
    -------
    array of shape (n, rows, columns)
        Above 0 where the class needs what is seen, below 0 where that speaks against it.

    Raises
    ------
    UserValueError
        X that holds no images, a window or stride below 1, a stride above the window (pixels would be left out), a
        fill that is no number or fits no window.

    Notes
    -----
    Cost: (rows / stride) (columns / stride) answers for each image. Source: Zeiler and Fergus (2014), section 4.2.

    Examples
    --------
    >>> X = np.array([[[0.0, 1.0, 0.0]]])
    >>> occlusion(lambda x: x.sum((1, 2))[:, None], X, [0], window=1).tolist()
    [[[0.0, 1.0, 0.0]]]
    """
    images = np.asarray(X)
    if images.ndim not in (3, 4):
        raise UserValueError(f"X must hold images, got shape {images.shape}", "X", "give (n, rows, columns)")
    side, step = how_many(window, "window"), how_many(stride, "stride")
    if side < 1 or not 1 <= step <= side:
        what = f"window must be at least 1 and stride from 1 to window, got {side} and {step}"
        raise UserValueError(what, "window")
    filled = _filled(images, side, fill)
    columns = np.asarray(classes, np.int64)
    each = np.arange(len(images))
    before = np.asarray(function(images), np.float64)[each, columns]
    fall, covered = np.zeros(images.shape[:3]), np.zeros(images.shape[1:3])
    for top in _places(images.shape[1], side, step):
        for left in _places(images.shape[2], side, step):
            part = (slice(top, top + side), slice(left, left + side))
            hidden = images.copy()
            hidden[:, *part] = filled
            after = np.asarray(function(hidden), np.float64)[each, columns]
            fall[:, *part] += (before - after)[:, None, None]
            covered[part] += 1
    return fall / covered


def window_of(images: Array, window: int | None = None, stride: int | None = None, fill: Any = None) -> dict[str, Any]:
    """Options of `occlusion`: a quarter of the shorter side, half a window, the mean of each image where left out.

    Examples
    --------
    >>> found = window_of(np.full((1, 12, 16, 1), 0.5))
    >>> found["window"], found["stride"], found["fill"].tolist()
    (3, 1, [[[[0.5]]]])
    """
    side = max(1, min(images.shape[1:3]) // SHARE) if window is None else how_many(window, "window")
    step = max(1, side // 2) if stride is None else stride
    return {"window": side, "stride": step, "fill": images.mean((1, 2), keepdims=True) if fill is None else fill}


def _filled(images: Array, side: int, fill: ArrayLike) -> NDArray[Any]:
    """What stands in a window, checked."""
    shape = images[:, :side, :side].shape
    try:
        filled = np.asarray(fill, np.float64)
        if np.isfinite(filled).all() and np.broadcast_shapes(filled.shape, shape) == shape:
            return filled
    except (TypeError, ValueError):
        pass
    what = f"fill must be finite numbers that fit windows of shape {shape}, got {shown(fill)}"
    raise UserValueError(what, "fill", "give a number, or one for each channel")


def _places(length: int, window: int, stride: int) -> list[int]:
    """Where windows begin: every `stride` pixels, and where the last one ends with the image."""
    last = max(0, length - window)
    return sorted({*range(0, last + 1, stride), last})


def nearest_rows(rows: ArrayLike, known: Iterable[ArrayLike], k: int = 5) -> tuple[NDArray[np.int64], Floats]:
    """Of each row the k nearest of known rows that come in blocks, by Euclidean distance, the nearest first.

    Parameters
    ----------
    rows : array of shape (m, d)
    known : iterable of arrays of shape (n_i, d)
        Blocks of the known rows, one after another; no more than one is held at a time.
    k : int in [1, inf), default 5
        How many; all where fewer are known.

    Returns
    -------
    places : int64 array of shape (m, k)
        Counted over all blocks; of equally near ones the first.
    distances : array of shape (m, k)

    Raises
    ------
    UserValueError
        k below 1, no known row, rows of another width.

    Notes
    -----
    Cost O(m n d) time, O(m (k + block) + d block) memory.

    Examples
    --------
    >>> places, distances = nearest_rows([[0.0]], [[[5.0], [1.0]], [[-2.0]]], k=2)
    >>> places.tolist(), distances.tolist()
    ([[1, 2]], [[1.0, 2.0]])
    """
    from scipy.spatial.distance import cdist

    if how_many(k, "k") < 1:
        raise UserValueError.must("k", "be at least 1", k)
    query = np.asarray(rows, np.float64)
    places, best, start = np.empty((len(query), 0), np.int64), np.empty((len(query), 0)), 0
    for given in known:
        block = np.asarray(given, np.float64)
        if block.ndim != 2 or block.shape[1] != query.shape[1]:
            what = f"known rows must have {query.shape[1]} columns, got shape {block.shape}"
            raise UserValueError(what, "known", "give rows of one kind")
        found = np.concatenate([best, cdist(query, block)], 1)
        numbers = np.broadcast_to(np.arange(start, start + len(block)), (len(query), len(block)))
        order = np.argsort(found, axis=1, kind="stable")[:, :k]
        best = np.take_along_axis(found, order, 1)
        places = np.take_along_axis(np.concatenate([places, numbers], 1), order, 1)
        start += len(block)
    if not start:
        raise UserValueError("no row is known", "known", "give at least one")
    return places, best
