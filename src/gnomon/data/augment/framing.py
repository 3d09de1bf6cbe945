"""Augmentations that mirror pictures or move their frame: `RandomFlip`, `PadAndCrop`, `RandomResizedCrop`."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gnomon.data.augment.base import Augmentation
from gnomon.data.augment.scene import Scene
from gnomon.data.image_geometry import are_sides
from gnomon.errors import UserValueError
from gnomon.numeric.fast import kernel
from gnomon.numeric.noise import Noise

__all__ = ["PadAndCrop", "RandomFlip", "RandomResizedCrop"]

TRIES = 10
"""Windows that are drawn before the central one is taken."""


@dataclass(frozen=True)
class RandomFlip(Augmentation):
    r"""Mirror pictures with a probability: column j goes to :math:`W-1-j`, or row i to :math:`H-1-i`.

    Not where labels have a direction: letters and digits, traffic signs, "left" and "right".

    Parameters
    ----------
    p : float in [0, 1], default 0.5
        Probability to mirror a picture.
    direction : {"left-right", "up-down"}, default "left-right"
        Which sides change places.

    Notes
    -----
    A box (x1, y1, x2, y2) goes to (W - x2, y1, W - x1, y2), or to (x1, H - y2, x2, H - y1).

    Examples
    --------
    >>> RandomFlip(p=1.0)(np.array([[0.0, 0.5, 1.0]]), boxes=[[0, 0, 1, 1]]).boxes.tolist()
    [[2.0, 0.0, 3.0, 1.0]]
    """

    short: ClassVar[str] = "flip"
    p: Annotated[float, "[0, 1]"] = 0.5
    direction: Literal["left-right", "up-down"] = "left-right"

    def apply(self, scene: Scene, noise: Noise) -> Scene:
        """Some of the pictures mirrored."""
        chosen = noise.uniform((len(scene), 1))[:, 0] < self.p
        axis = 2 if self.direction == "left-right" else 1
        images = _mirrored(scene.images, chosen, axis)
        masks = None if scene.masks is None else _mirrored(scene.masks, chosen, axis)
        boxes = scene.boxes
        if boxes is not None:
            low, high = (0, 2) if axis == 2 else (1, 3)
            other = boxes.corners.copy()
            other[:, [low, high]] = scene.size[axis - 1] - boxes.corners[:, [high, low]]
            boxes = boxes._replace(corners=np.where(chosen[boxes.owner, None], other, boxes.corners))
        return Scene(images, masks, boxes)


def _mirrored(x: NDArray[Any], chosen: NDArray[np.bool_], axis: int) -> NDArray[Any]:
    other: NDArray[Any] = np.where(chosen.reshape(-1, *[1] * (x.ndim - 1)), np.flip(x, axis), x)
    return other


@dataclass(frozen=True)
class PadAndCrop(Augmentation):
    """Pad pictures on all sides and cut a window of their own size out of them: a shift by whole pixels.

    Parameters
    ----------
    padding : int in [0, inf), default 2
        Pixels on each side, and the largest shift.
    fill : float in [0, 1], default 0
        Value of the padding.

    Notes
    -----
    Shifts by rows and by columns are uniform on -padding, ..., padding. Source: He, Zhang, Ren and Sun (2016), who pad
    images of 32 x 32 by 4.

    Examples
    --------
    >>> PadAndCrop(padding=1)(np.ones((3, 3)), rng=4).sum() >= 4
    np.True_
    """

    short: ClassVar[str] = "crop"
    padding: Annotated[int, "[0, inf)"] = 2
    fill: Annotated[float, "[0, 1]"] = 0.0

    def check(self, shape: Sequence[int]) -> None:
        """Padding below the shorter side."""
        super().check(shape)
        if self.padding >= min(shape[:2]):
            raise UserValueError.must("padding", f"be below the {min(shape[:2])} pixels of a side", self.padding)

    def apply(self, scene: Scene, noise: Noise) -> Scene:
        """Every picture shifted."""
        shifts = noise.integers(2 * self.padding + 1, (len(scene), 2)) - self.padding
        images = _shifted(scene.images, shifts, self.fill)
        masks = None if scene.masks is None else _shifted(scene.masks, shifts, 0)
        boxes = scene.boxes
        if boxes is not None:
            moved = boxes.corners - np.tile(shifts[boxes.owner][:, ::-1], 2)
            boxes = boxes._replace(corners=moved).clipped(scene.size)
        return Scene(images, masks, boxes)


def _shifted(x: NDArray[Any], shifts: NDArray[np.int64], fill: float) -> NDArray[Any]:
    """Pixel (i, j) is that at (i, j) + shift, one shift for each picture."""
    out = np.full(x.shape, fill, x.dtype)
    _shift(np.array(x.reshape(*x.shape[:3], -1), order="C"), shifts, out.reshape(*x.shape[:3], -1))
    return out


@kernel
def _shift(images, shifts, out):  # type: ignore[no-untyped-def]
    n, height, width, channels = images.shape
    for i in range(n):
        down, right = shifts[i, 0], shifts[i, 1]
        for y in range(max(0, -down), min(height, height - down)):
            for x in range(max(0, -right), min(width, width - right)):
                for k in range(channels):
                    out[i, y, x, k] = images[i, y + down, x + right, k]


@dataclass(frozen=True)
class RandomResizedCrop(Augmentation):
    """Cut a random window out of pictures and stretch it to their size.

    Parameters
    ----------
    scale : tuple (float, float), default (0.1, 1.0)
        Least and largest fraction of the area; uniform in between.
    ratio : tuple (float, float), default (0.5, 2.0)
        Least and largest columns / rows of the window; its logarithm is uniform.

    Notes
    -----
    Ten windows are drawn; the first that fits into the picture is taken, else the largest central one of an allowed
    ratio. Stretching is bilinear, with means over wider windows where pixels become fewer; masks take the nearest
    pixel. As torchvision's, whose least area is 0.08 and whose ratios are 3/4 to 4/3. Source: Szegedy et al. (2015).

    Examples
    --------
    >>> RandomResizedCrop()(np.full((8, 8), 0.25), rng=1).round(6).max()
    np.float64(0.25)
    """

    short: ClassVar[str] = "resized-crop"
    scale: tuple[float, float] = (0.1, 1.0)
    ratio: tuple[float, float] = (0.5, 2.0)

    def check(self, shape: Sequence[int]) -> None:
        """Ranges in order."""
        super().check(shape)
        for name, value, top in (("scale", self.scale, 1.0), ("ratio", self.ratio, sys.float_info.max)):
            numbers = isinstance(value, tuple | list) and all(isinstance(one, int | float) for one in value)
            if not numbers or len(value) != 2 or not 0 < value[0] <= value[1] <= top:
                rule = f"be (least, largest), above 0{' and at most 1' if top == 1 else ''}"
                raise UserValueError.must(name, rule, value)

    def __call__(
        self,
        image: Any,
        boxes: Any = None,
        mask: Any = None,
        *,
        size: tuple[int, int] | None = None,
        rng: Any = None,
        relative: bool = False,
    ) -> Any:
        """As of other augmentations; `size` is (rows, columns) of the result, those of the image where left out."""
        if size is None:
            return super().__call__(image, boxes, mask, rng=rng, relative=relative)
        if not are_sides(size):
            raise UserValueError.must("size", "be (rows, columns), whole numbers of at least 1", size)
        return _Sized(self.scale, self.ratio, (int(size[0]), int(size[1])))(
            image, boxes, mask, rng=rng, relative=relative
        )

    def windows(self, n: int, size: tuple[int, int], noise: Noise) -> NDArray[np.int64]:
        """Top, left, rows and columns of n windows in pictures of (rows, columns), shape (n, 4)."""
        height, width = size
        u = noise.uniform((n, TRIES, 4), dtype=np.float64)
        area = height * width * (self.scale[0] + u[..., 0] * (self.scale[1] - self.scale[0]))
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        ratio = np.exp(low + u[..., 1] * (high - low))
        rows, columns = np.rint(np.sqrt(area / ratio)), np.rint(np.sqrt(area * ratio))
        fits = (rows >= 1) & (columns >= 1) & (rows <= height) & (columns <= width)
        top, left = np.floor(u[..., 2] * (height - rows + 1)), np.floor(u[..., 3] * (width - columns + 1))
        drawn = np.stack([top, left, rows, columns], axis=2)
        first = np.take_along_axis(drawn, fits.argmax(1)[:, None, None], axis=1)[:, 0]
        return np.where(fits.any(1, keepdims=True), first, self._central(height, width)).astype(np.int64)

    def _central(self, height: int, width: int) -> tuple[int, int, int, int]:
        """The largest window of an allowed ratio."""
        rows, columns = height, width
        if width / height < self.ratio[0]:
            rows = max(1, round(width / self.ratio[0]))
        elif width / height > self.ratio[1]:
            columns = max(1, round(height * self.ratio[1]))
        return (height - rows) // 2, (width - columns) // 2, rows, columns

    def apply(self, scene: Scene, noise: Noise) -> Scene:
        """A window of every picture, stretched."""
        return _stretched(scene, self.windows(len(scene), scene.size, noise), scene.size)


@dataclass(frozen=True)
class _Sized(RandomResizedCrop):
    """A crop to a size of its own."""

    size: tuple[int, int] = (1, 1)

    def apply(self, scene: Scene, noise: Noise) -> Scene:
        return _stretched(scene, self.windows(len(scene), scene.size, noise), self.size)


def _stretched(scene: Scene, windows: NDArray[np.int64], size: tuple[int, int]) -> Scene:
    """Windows (top, left, rows, columns) of the pictures, brought to one size."""
    x = scene.images
    images = np.empty((len(x), *size, x.shape[3]), x.dtype)
    _stretch(np.array(x, order="C"), windows, images)
    masks, boxes = scene.masks, scene.boxes
    if masks is not None:
        r, c = (_nearest(windows[:, k], windows[:, 2 + k], size[k]) for k in (0, 1))
        masks = masks[np.arange(len(x))[:, None, None], r[:, :, None], c[:, None]]
    if boxes is not None:
        own = windows[boxes.owner]
        moved = (boxes.corners - np.tile(own[:, [1, 0]], 2)) * (np.tile(size[::-1], 2) / np.tile(own[:, [3, 2]], 2))
        boxes = boxes._replace(corners=moved).clipped(size)
    # a mean of pixels is within their range, but for rounding
    return replace(scene, images=np.clip(images, 0, 1, out=images), masks=masks, boxes=boxes)


@kernel
def _stretch(images, windows, out):  # type: ignore[no-untyped-def]
    """Windows brought to the size of `out`: triangles of two pixels, or wider where pixels become fewer.

    The places are those of `gnomon.data.image_geometry.resize` within the window, whose last pixels go on beyond it.
    """
    n, height, width, channels = images.shape
    rows, columns = out.shape[1:3]
    begin, count = np.empty(columns, np.int64), np.empty(columns, np.int64)
    weights = np.zeros((columns, 2 * width + 3), images.dtype)
    line = np.empty((width, channels), images.dtype)
    for i in range(n):
        top, left, high, wide = windows[i]
        for x in range(columns):
            begin[x], count[x] = _triangle(left, wide, columns, x, weights[x])
        for y in range(rows):
            taps = np.zeros(2 * height + 3, images.dtype)
            first, many = _triangle(top, high, rows, y, taps)
            line[left : left + wide] = 0.0
            for a in range(many):
                for c in range(left, left + wide):
                    for k in range(channels):
                        line[c, k] += taps[a] * images[i, first + a, c, k]
            for x in range(columns):
                for k in range(channels):
                    value = weights[x, 0] * line[begin[x], k]
                    for a in range(1, count[x]):
                        value += weights[x, a] * line[begin[x] + a, k]
                    out[i, y, x, k] = value


@kernel
def _triangle(start, length, size, place, weights):  # type: ignore[no-untyped-def]
    """First pixel and number of pixels of a window that are averaged at a place of `size`; their weights, sum 1."""
    step = length / size
    center, reach = start + (place + 0.5) * step - 0.5, max(step, 1.0)
    first = max(start, int(np.floor(center - reach)) + 1)
    last = min(start + length - 1, int(np.ceil(center + reach)) - 1)
    total = 0.0
    for at in range(first, last + 1):
        weights[at - first] = 1.0 - abs(at - center) / reach
        total += 1.0 - abs(at - center) / reach
    for a in range(last - first + 1):
        weights[a] /= total
    return first, last - first + 1


def _nearest(start: NDArray[Any], length: NDArray[Any], size: int) -> NDArray[np.int64]:
    """The pixels nearest to the places, (n, size)."""
    found: NDArray[np.int64] = start[:, None] + (2 * np.arange(size) + 1) * length[:, None] // (2 * size)
    return found
