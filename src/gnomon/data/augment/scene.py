"""Pictures with what is marked in them: masks of labels and boxes, changed together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import UserValueError

__all__ = ["LEAST", "Boxes", "Scene"]

LEAST = 0.1
"""Fraction of its area that a box must keep within the picture, or it is dropped."""


class Boxes(NamedTuple):
    """Boxes of a batch of pictures, in edges of pixels: a picture of W columns reaches from x = 0 to x = W."""

    owner: NDArray[np.int64]
    """Picture of each box, (m,)."""
    corners: NDArray[np.float64]
    """x1, y1, x2, y2, (m, 4)."""
    extra: NDArray[np.float64]
    """What stays with a box, (m, k)."""

    @classmethod
    def of(cls, boxes: Sequence[Any], n: int, size: tuple[int, int]) -> Boxes:
        """Of one array (m, 4 or more) for each of n pictures, times the size (rows, columns) of one.

        Raises
        ------
        UserValueError
            Another number of arrays, arrays of fewer columns, corners in the wrong order.
        """
        if not np.iterable(boxes):
            raise UserValueError.must("boxes", f"be an array (m, 4 or more) for each of {n} pictures", boxes)
        try:
            tables = [np.asarray(one, np.float64) for one in boxes]
        except (TypeError, ValueError):
            raise UserValueError.must("boxes", "be numbers, as many for each box", boxes) from None
        tables = [one.reshape(0, 4) if not one.size and one.ndim < 2 else one for one in tables]
        if len(tables) != n or any(one.ndim != 2 or one.shape[1] < 4 for one in tables):
            rule = f"be an array (m, 4 or more) of x1, y1, x2, y2 for each of {n} pictures"
            raise UserValueError.must("boxes", rule, [one.shape for one in tables])
        if len({one.shape[1] for one in tables if len(one)}) > 1:
            raise UserValueError.must("boxes", "have as many columns in every picture", [one.shape for one in tables])
        filled = [one for one in tables if len(one)] or tables[:1]
        every = np.concatenate(filled) if filled else np.zeros((0, 4))
        corners = every[:, :4] * np.array([size[1], size[0]] * 2)
        if not (np.isfinite(corners).all() and (corners[:, :2] <= corners[:, 2:]).all()):
            raise UserValueError(
                "boxes must be finite, with x1 <= x2 and y1 <= y2", "boxes", "put the corners in order"
            )
        return cls(np.repeat(np.arange(n), [len(one) for one in tables]), corners, every[:, 4:])

    def by_picture(self, n: int, size: tuple[int, int]) -> list[NDArray[np.float64]]:
        """One array (m, 4 + k) for each picture, corners divided by a size (rows, columns)."""
        every = np.hstack([self.corners / np.array([size[1], size[0]] * 2), self.extra])
        return [every[self.owner == i] for i in range(n)]

    def clipped(self, size: tuple[int, int]) -> Boxes:
        """The parts within (rows, columns); a box that keeps less than `LEAST` of its area, or none, is gone."""
        rows, columns = size
        inside = np.clip(self.corners, 0, [columns, rows] * 2)
        before, after = _area(self.corners), _area(inside)
        kept = (after > 0) & (after >= LEAST * before)
        return Boxes(self.owner[kept], inside[kept], self.extra[kept])

    def moved(self, forward: NDArray[np.float64]) -> Boxes:
        """The boxes around these, their four corners moved by each picture's (2, 3) map of (row, column) edges."""
        x1, y1, x2, y2 = self.corners.T
        rows, columns = np.stack([y1, y1, y2, y2]), np.stack([x1, x2, x1, x2])
        a = forward[self.owner]
        y = a[:, 0, 0] * rows + a[:, 0, 1] * columns + a[:, 0, 2]
        x = a[:, 1, 0] * rows + a[:, 1, 1] * columns + a[:, 1, 2]
        around = np.stack([x.min(0), y.min(0), x.max(0), y.max(0)], axis=1)
        return self._replace(corners=around)

    def seen(self, rows: NDArray[np.float64], columns: NDArray[np.float64]) -> Boxes:
        """The boxes around the output pixels that look into these; a box that no pixel sees is gone.

        Parameters
        ----------
        rows, columns : arrays of shape (n, h, w)
            Where the output pixels of each picture look, in centers of pixels.
        """
        x1, y1, x2, y2 = (one[:, None, None] for one in self.corners.T)
        r, c = rows[self.owner] + 0.5, columns[self.owner] + 0.5
        inside = (r >= y1) & (r < y2) & (c >= x1) & (c < x2)
        (top, bottom), (left, right) = _ends(inside.any(2)), _ends(inside.any(1))
        kept = inside.any((1, 2))
        around = np.stack([left, top, right, bottom], axis=1).astype(np.float64)
        return Boxes(self.owner[kept], around[kept], self.extra[kept])


def _area(corners: NDArray[np.float64]) -> NDArray[np.float64]:
    area: NDArray[np.float64] = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    return area


def _ends(where: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First true place of each row, and the place behind the last one."""
    return where.argmax(1), where.shape[1] - where[:, ::-1].argmax(1)


@dataclass(frozen=True)
class Scene:
    """A batch of pictures, and what is marked in them.

    Parameters
    ----------
    images : array of shape (n, rows, columns, channels)
    masks : array of shape (n, rows, columns), optional
        Labels of pixels.
    boxes : Boxes, optional
    """

    images: NDArray[Any]
    masks: NDArray[Any] | None = None
    boxes: Boxes | None = None

    @property
    def size(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.images.shape[1], self.images.shape[2]

    def __len__(self) -> int:
        return len(self.images)

    def with_images(self, images: NDArray[Any]) -> Scene:
        """The same marks in other pictures."""
        return replace(self, images=images)
