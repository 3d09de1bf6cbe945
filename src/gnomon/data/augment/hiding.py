"""Augmentation that hides a part of a picture: `Cutout`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.data.augment.base import Augmentation
from gnomon.data.augment.scene import Scene
from gnomon.numeric.noise import Noise

__all__ = ["Cutout", "within"]


def within(size: tuple[int, int], windows: NDArray[Any]) -> NDArray[np.bool_]:
    """Which pixels lie in windows (top, left, bottom, right), the last two left out: (n, rows, columns).

    Examples
    --------
    >>> within((2, 3), np.array([[0, 1, 1, 5]])).astype(int).tolist()
    [[[0, 1, 1], [0, 0, 0]]]
    """
    row, column = np.arange(size[0]), np.arange(size[1])
    top, left, bottom, right = (one[:, None] for one in windows.T)
    rows, columns = (row >= top) & (row < bottom), (column >= left) & (column < right)
    found: NDArray[np.bool_] = rows[:, :, None] & columns[:, None]
    return found


@dataclass(frozen=True)
class Cutout(Augmentation):
    """Hide a square of a picture under one grey, so that a network does not rely on one part. Marks stay as they are.

    Parameters
    ----------
    size : float in (0, 1], default 0.25
        Side of the square, as a fraction of the shorter side.
    fill : float in [0, 1], default 0.5
        What stands in the square.

    Notes
    -----
    The center of the square is uniform over the pixels; what sticks out is cut off. Source: DeVries and Taylor (2017).

    Examples
    --------
    >>> float(Cutout(size=0.5, fill=0.0)(np.ones((4, 4)), rng=0).sum()) >= 12
    True
    """

    short: ClassVar[str] = "cutout"
    size: Annotated[float, "(0, 1]"] = 0.25
    fill: Annotated[float, "[0, 1]"] = 0.5

    def windows(self, n: int, size: tuple[int, int], noise: Noise) -> NDArray[np.int64]:
        """Top, left, bottom and right of n squares in pictures of (rows, columns), which may stick out, (n, 4)."""
        side = max(1, round(self.size * min(size)))
        corner = np.floor(noise.uniform((n, 2), dtype=np.float64) * np.array(size)).astype(np.int64) - side // 2
        return np.hstack([corner, corner + side])

    def apply(self, scene: Scene, noise: Noise) -> Scene:
        """Every picture with a square of its own."""
        hidden = within(scene.size, self.windows(len(scene), scene.size, noise))
        kind = scene.images.dtype.type
        return scene.with_images(np.where(hidden[..., None], kind(self.fill), scene.images))
