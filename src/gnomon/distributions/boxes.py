"""Labeled boxes on images, as users give them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import UserValueError

__all__ = ["IGNORED", "BoxLabels"]

IGNORED = -1
"""Label of a box to be ignored."""
ROUNDING = 1e-6
"""Pixels by which a box may reach beyond its image."""


class BoxLabels:
    """Rows x1, y1, x2, y2, label for each image: edges of pixels, and a whole number, -1 for a box to be ignored.

    Examples
    --------
    >>> classes, boxes = BoxLabels().encode([[[0, 0, 2, 1, 7]], []], (2, 4, 4))
    >>> classes.tolist(), boxes.tolist()
    ([7], [[[0.0, 0.0, 2.0, 1.0, 0.0]], [[nan, nan, nan, nan, nan]]])
    """

    def encode(self, y: Any, shape: tuple[int, ...], name: str = "y") -> tuple[NDArray[Any], NDArray[np.float64]]:
        """The classes in rising order, and the boxes with the place of each label among them, -1 where ignored.

        Parameters
        ----------
        y : list of n arrays of shape (m, 5), or array of shape (n, m, 5)
            Rows of NaN alone are no boxes.
        shape : (n, rows, columns)
            Of the images.
        name : str, default "y"

        Raises
        ------
        UserValueError
            Other numbers, with the image; no box with a label.
        """
        boxes = self.check(y, shape, name)
        labels = boxes[..., 4]
        classes = np.unique(labels[~np.isnan(labels) & (labels != IGNORED)]).astype(np.int64)
        if not len(classes):
            raise UserValueError(f"no box in {name} has a label", name, "give x1, y1, x2, y2 and a label of some")
        boxes[..., 4] = np.where(labels >= 0, np.searchsorted(classes, labels), labels)
        return classes, boxes

    def locate(
        self, y: Any, classes: NDArray[Any], shape: tuple[int, ...], name: str = "y"
    ) -> NDArray[np.float64]:  # fmt: skip
        """The boxes with the place of each label among known classes, their number where it is another."""
        boxes = self.check(y, shape, name)
        labels = boxes[..., 4]
        place = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
        codes = np.where(classes[place] == labels, place, len(classes))
        boxes[..., 4] = np.where(labels >= 0, codes, labels)
        return boxes

    def check(self, y: Any, shape: tuple[int, ...], name: str = "y") -> NDArray[np.float64]:
        """The boxes as an array (n, m, 5), filled up with NaN; see `encode`."""
        boxes = _filled(y, shape[0], name)
        there = ~np.isnan(boxes).all(2)
        size = np.array([shape[2], shape[1]] * 2, np.float64)
        corners, labels = boxes[..., :4], boxes[..., 4]
        with np.errstate(invalid="ignore"):
            rules = (
                ("be finite numbers", np.isfinite(boxes).all(2)),
                ("have x1 < x2 and y1 < y2", (corners[..., :2] < corners[..., 2:]).all(2)),
                (f"lie in their images of {shape[1]} x {shape[2]}",
                 ((corners >= -ROUNDING) & (corners <= size + ROUNDING)).all(2)),
                ("have whole numbers >= -1 as labels", (labels >= IGNORED) & (labels == np.rint(labels))),
            )  # fmt: skip
        for rule, holds in rules:
            wrong = np.argwhere(there & ~holds)
            if len(wrong):
                image, row = wrong[0].tolist()
                got = ", ".join(f"{value:g}" for value in boxes[image, row])
                what = f"boxes must {rule}, got {got}"
                raise UserValueError(what, f"{name}, image {image}", "give x1, y1, x2, y2, label in edges of pixels")
        return boxes


def _filled(y: Any, n: int, name: str) -> NDArray[np.float64]:
    """A copy as one array, images with fewer boxes filled up."""
    remedy = "give an array (m, 5) of x1, y1, x2, y2, label for each image"
    if y is None:
        what = f"this system requires {name} to be passed, but the target {name} is None"
        raise UserValueError(what, name, remedy)
    if not hasattr(y, "__len__"):
        raise UserValueError.must(name, f"have boxes of {n} images", y)
    if len(y) != n:
        raise UserValueError(f"{name} must have boxes of {n} images, got {len(y)}", name, remedy)
    try:
        tables = [np.asarray(one, np.float64) for one in y]
    except (TypeError, ValueError):
        raise UserValueError(f"{name} must hold numbers, as many for each box", name, remedy) from None
    tables = [one if one.size else one.reshape(0, 5) for one in tables]
    place = next((i for i, one in enumerate(tables) if one.ndim != 2 or one.shape[1] != 5), None)
    if place is not None:
        what = f"boxes must have shape (m, 5), got {tables[place].shape}"
        raise UserValueError(what, f"{name}, image {place}", remedy)
    boxes = np.full((n, max((len(one) for one in tables), default=0), 5), np.nan)
    for own, one in zip(boxes, tables, strict=True):
        own[: len(one)] = one
    return boxes
