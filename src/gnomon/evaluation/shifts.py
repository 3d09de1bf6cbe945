"""What a shift of an image changes: invariance and equivariance of functions of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array
from gnomon.errors import UserValueError

__all__ = ["equivariance_error", "invariance_error"]

Floats = NDArray[np.float64]


def invariance_error(function: Callable[[Any], Any], X: Array, shifts: Sequence[tuple[int, int]]) -> Floats:
    r"""How much the output changes when images are shifted: ||f(S x) - f(x)||, the mean over images.

    Parameters
    ----------
    function : callable
        Of images to arrays with a row for each, such as ``net.predict_proba``.
    X : array of shape (n, rows, columns) or (n, rows, columns, channels)
    shifts : sequence of (int, int)
        Rows down and columns to the right; what leaves at one side comes in at the other.

    Returns
    -------
    array of shape (len(shifts),)
        Euclidean norms, 0 where the function does not notice the shift.

    Raises
    ------
    UserValueError
        X that holds no images, or a function that gives another number of rows.

    Notes
    -----
    Global pooling does not notice a circular shift; a pooling of windows only one within its windows, and a dense layer
    any. Goodfellow, Bengio and Courville (2016), sections 9.2 and 9.3.

    Examples
    --------
    >>> X = np.arange(8.0).reshape(1, 2, 4)
    >>> invariance_error(lambda x: x.max((1, 2)), X, [(0, 1), (1, 2)]).tolist()
    [0.0, 0.0]
    """
    before = _answers(function, X)
    return np.array([_distance(_answers(function, _shifted(X, shift)), before) for shift in shifts])


def equivariance_error(
    function: Callable[[Any], Any], X: Array, shifts: Sequence[tuple[int, int]], *, stride: int = 1, border: int = 0
) -> Floats:
    r"""How far the output is from moving with the images: ||f(S x) - S f(x)||, the mean over images.

    Parameters
    ----------
    function : callable
        Of images to maps (n, rows, columns, ...), such as ``lambda X: net.features(X)[0]``.
    X : array of shape (n, rows, columns) or (n, rows, columns, channels)
    shifts : sequence of (int, int)
        As of `invariance_error`.
    stride : int >= 1, default 1
        Pixels of X between neighboring places of the maps: these are shifted by shift / stride, to the nearest place.
    border : int >= 0, default 0
        Rows and columns of the maps that are left out on every side, where padding with zeros makes a difference.

    Returns
    -------
    array of shape (len(shifts),)
        Euclidean norms: 0 for convolutions of stride 1 whose padding is circular; of larger strides only for shifts by
        multiples of it.

    Raises
    ------
    UserValueError
        X that holds no images, a function whose outputs are no maps, a border that leaves nothing.

    Examples
    --------
    >>> X = np.arange(8.0).reshape(1, 2, 4)
    >>> equivariance_error(lambda x: x + np.roll(x, 1, 2), X, [(1, 2)]).tolist()
    [0.0]
    """
    if stride < 1:
        raise UserValueError.must("stride", "be at least 1", stride)
    before, found = _answers(function, X), []
    if before.ndim < 3 or min(before.shape[1:3]) <= 2 * border or border < 0:
        what = f"be maps (n, rows, columns, ...) with more than {2 * max(border, 0)} rows and columns"
        raise UserValueError.must("outputs of the function", what, before.shape)
    inner = slice(border, -border or None)
    for down, right in shifts:
        after = _answers(function, _shifted(X, (down, right)))
        moved = np.roll(before, (round(down / stride), round(right / stride)), (1, 2))
        found.append(_distance(after[:, inner, inner], moved[:, inner, inner]))
    return np.array(found)


def _shifted(X: Array, shift: tuple[int, int]) -> Array:
    if np.ndim(X) not in (3, 4):
        raise UserValueError.must("X", "be images (n, rows, columns) or (n, rows, columns, channels)", np.shape(X))
    if np.shape(shift) != (2,) or not all(hasattr(one, "__index__") for one in shift):
        raise UserValueError.must("shifts", "be pairs of whole numbers (down, right)", shift)
    return np.roll(X, shift, (1, 2))


def _answers(function: Callable[[Any], Any], X: Array) -> Floats:
    """Answers to images, of any array form."""
    found = function(X)
    answers = np.asarray(found.detach() if hasattr(found, "detach") else found, np.float64)
    if answers.ndim < 1 or len(answers) != len(X):
        raise UserValueError.must("outputs of the function", f"have {len(X)} rows", answers.shape)
    return answers


def _distance(one: Floats, other: Floats) -> float:
    """Mean over images of the Euclidean norm of the difference."""
    gaps = (one - other).reshape(len(one), -1)
    return float(np.linalg.norm(gaps, axis=1).mean()) if len(gaps) else 0.0
