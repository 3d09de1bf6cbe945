"""Boxes on images: how far two overlap, which of many that overlap are kept, how precisely they are found."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.errors import UserValueError

__all__ = ["Matches", "detection_precision", "box_iou", "match_boxes", "non_maximum_suppression"]

Floats = NDArray[np.float64]


def box_iou(a: ArrayLike, b: ArrayLike) -> Floats:
    r"""Intersection over union of every box of one set with every box of another.

    .. math:: J(a, b) = \frac{|a \cap b|}{|a| + |b| - |a \cap b|}

    Parameters
    ----------
    a : array of shape (..., n, 4)
    b : array of shape (..., m, 4)
        x1, y1, x2, y2 in edges of pixels: an image of W columns and H rows is the box 0, 0, W, H, its first pixel the
        box 0, 0, 1, 1. x runs over columns, y over rows. NaN stands for no box.

    Returns
    -------
    array of shape (..., n, m)
        In [0, 1]. A box without area, and one that is none, overlaps nothing: 0, with itself too.

    Raises
    ------
    UserValueError
        Other than four numbers to a box; corners in the wrong order.

    Notes
    -----
    Cost O(n m).

    Examples
    --------
    >>> box_iou([[0, 0, 1, 1]], [[0, 0, 1, 1], [0.5, 0, 1.5, 1], [1, 0, 2, 1]]).round(3).tolist()
    [[1.0, 0.333, 0.0]]
    """
    first, second = _corners(a, "a")[..., :, None, :], _corners(b, "b")[..., None, :, :]
    sides = np.minimum(first[..., 2:], second[..., 2:]) - np.maximum(first[..., :2], second[..., :2])
    shared = np.fmax(sides, 0.0).prod(-1)
    union = _area(first) + _area(second) - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def non_maximum_suppression(
    boxes: ArrayLike, scores: ArrayLike, labels: ArrayLike | None = None, *, iou: float = 0.5
) -> NDArray[np.bool_]:
    r"""Which boxes stay where each takes away those of a lower score that overlap it too much.

    In the order of falling scores a box is kept unless it overlaps one that is kept by more than `iou`. With the
    matrix S of which box would take away which, those kept are the one solution of :math:`k = \lnot (S^\top k)`, found
    by inserting it into itself, of all images at once.

    Parameters
    ----------
    boxes : array of shape (..., n, 4)
        Of one or of several images, as of `box_iou`; NaN stands for no box.
    scores : array of shape (..., n)
        Of equal ones the first counts as the higher.
    labels : array of shape (..., n), optional
        Boxes of different labels leave each other alone.
    iou : float in [0, 1], default 0.5

    Returns
    -------
    bool array of shape (..., n)

    Notes
    -----
    Cost O(n^2) times the longest chain of boxes in which each takes away the next.

    Examples
    --------
    >>> boxes = [[0, 0, 4, 4], [1, 0, 5, 4], [2, 0, 6, 4]]
    >>> non_maximum_suppression(boxes, [0.9, 0.8, 0.7], iou=0.5).tolist()
    [True, False, True]
    """
    if not 0 <= iou <= 1:
        raise UserValueError(f"iou must lie in [0, 1], got {iou}", "iou")
    corners, values = _corners(boxes, "boxes"), np.asarray(scores, np.float64)
    if values.shape != corners.shape[:-1]:
        raise UserValueError(f"scores must have shape {corners.shape[:-1]}, got {values.shape}", "scores")
    there = ~np.isnan(corners[..., 0])
    place = np.arange(values.shape[-1])
    tied = values[..., :, None] == values[..., None, :]
    above = (values[..., :, None] > values[..., None, :]) | (tied & (place[:, None] < place))
    takes = above & (box_iou(corners, corners) > iou) & there[..., :, None]
    if labels is not None:
        named = np.asarray(labels)
        takes &= named[..., :, None] == named[..., None, :]
    kept = there
    while True:
        found = there & ~(takes & kept[..., :, None]).any(-2)
        if (found == kept).all():
            return found
        kept = found


class Matches(NamedTuple):
    """What became of boxes that were found in n images, k at most in one."""

    iou: Floats
    """Overlap with the true box that each is matched with, (n, k); 0 where with none."""
    right: NDArray[np.bool_]
    """Those that are matched with a true box, (n, k)."""
    counted: NDArray[np.bool_]
    """Those that count: boxes that are there, and not matched with one to be ignored, (n, k)."""


def match_boxes(truth: ArrayLike, found: ArrayLike, *, iou: float = 0.5) -> Matches:
    """Match boxes that were found with true ones of their label, the highest score first, each at most once.

    A box that was found takes, of the true boxes of its label that are left and that it overlaps by at least `iou`,
    the one that it overlaps most. Where there is none, and it overlaps a box to be ignored that much, it does not
    count; any number of them may lie on such a box.

    Parameters
    ----------
    truth : array of shape (n, m, 5)
        x1, y1, x2, y2 and label of the boxes of n images, see `box_iou`; NaN stands for no box, label -1 for a box to
        be ignored, of whatever label.
    found : array of shape (n, k, 6)
        The same, and a score.
    iou : float in [0, 1], default 0.5

    Returns
    -------
    Matches

    Notes
    -----
    Cost O(n k m). The rule is that of COCO; a second box on an object that is found is wrong.

    Examples
    --------
    >>> truth = [[[0, 0, 4, 4, 7]]]
    >>> found = [[[0, 0, 4, 4, 7, 0.6], [0, 0, 4, 3, 7, 0.9], [0, 0, 4, 4, 1, 0.8]]]
    >>> match_boxes(truth, found).right.tolist()
    [[False, True, False]]
    """
    true, seen = np.asarray(truth, np.float64), np.asarray(found, np.float64)
    overlap = box_iou(seen[..., :4], true[..., :4])
    ignored = true[:, None, :, 4] == -1
    near = overlap >= max(iou, np.finfo(np.float64).tiny)
    own = np.where(near & (seen[..., 4, None] == true[:, None, :, 4]) & ~ignored, overlap, 0.0)
    there = ~np.isnan(seen[..., 0])
    order = np.argsort(np.where(there, -seen[..., 5], np.inf), axis=1, kind="stable")
    image, best = np.arange(len(true)), np.zeros(seen.shape[:2])
    for rank in range(seen.shape[1] if true.shape[1] else 0):
        one = order[:, rank]
        place = own[image, one].argmax(1)
        best[image, one] = taken = own[image, one, place]
        own[image, :, place] *= (taken == 0)[:, None]
    right = best > 0
    return Matches(best, right, there & (right | ~(near & ignored).any(-1)))


def detection_precision(
    scores: ArrayLike, right: ArrayLike, n_true: float | ArrayLike, weight: ArrayLike | None = None
) -> Any:
    r"""Area under precision as a function of recall, precision being the best at that recall or a higher one.

    .. math:: \sum_i (r_i - r_{i-1}) \max_{j \ge i} p_j

    over the boxes in the order of falling scores, with the fraction p of right ones among the first i, and the
    fraction r of the true boxes that these find.

    Parameters
    ----------
    scores : array of shape (k,)
        Of the boxes of all images; of equal ones the first counts as the higher.
    right : bool array of shape (k,)
        Whether a box is matched, `match_boxes`; leave out those that do not count.
    n_true : number, or array of shape (b,)
        True boxes, those that are not found among them.
    weight : array of shape (b, k), optional
        Of the boxes, >= 0, in each of b samples; 1 where left out.

    Returns
    -------
    float, or array of shape (b,)
        In [0, 1]; NaN where there is no true box.

    Notes
    -----
    Cost O(k log k + b k). The area of every point, as of Pascal VOC since 2010.

    Examples
    --------
    >>> detection_precision([0.9, 0.8, 0.7], [True, False, True], 2).round(3)
    np.float64(0.833)
    """
    values, hits = np.asarray(scores, np.float64), np.asarray(right, bool)
    weights = np.ones((1, len(values))) if weight is None else np.asarray(weight, np.float64)
    order = np.argsort(-values, kind="stable")
    all_of, found = (np.cumsum(one[:, order], 1) for one in (weights, weights * hits))
    precision = np.divide(found, all_of, out=np.zeros_like(found), where=all_of > 0)
    best = np.maximum.accumulate(precision[:, ::-1], 1)[:, ::-1]
    total = np.broadcast_to(np.asarray(n_true, np.float64), len(weights))
    area = (np.diff(found, axis=1, prepend=0.0) * best).sum(1)
    result = np.divide(area, total, out=np.full(len(weights), np.nan), where=total > 0)
    return result[0] if weight is None else result


def _corners(boxes: ArrayLike, name: str) -> Floats:
    found = np.asarray(boxes, np.float64)
    found = found.reshape(0, 4) if not found.size and found.ndim < 2 else found
    if found.ndim < 2 or found.shape[-1] != 4:
        raise UserValueError(f"{name} must be boxes of 4 numbers x1, y1, x2, y2, got shape {found.shape}", name)
    if (found[..., :2] > found[..., 2:]).any():
        raise UserValueError(f"{name} must have x1 <= x2 and y1 <= y2", name, "put the corners in order")
    return found


def _area(boxes: Floats) -> Floats:
    area: Floats = np.nan_to_num(boxes[..., 2:] - boxes[..., :2]).prod(-1)
    return area
