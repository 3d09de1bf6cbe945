"""Images brought to one size: cropped around their center, or resized by a stated interpolation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from gnomon.data.image_geometry import are_sides, resize, resized
from gnomon.data.image_steps import ImagePreprocessing, Shape
from gnomon.distributions.images import size_of
from gnomon.errors import UserValueError

__all__ = ["CenterCrop", "Framed", "Resize", "ResizeCrop", "center_offset"]


def center_offset(have: int, want: int) -> int:
    """First pixel of a crop around the center: floor((have - want) / 2); torchvision rounds half to even instead.

    Examples
    --------
    >>> center_offset(7, 4), center_offset(8, 4)
    (1, 2)
    """
    return (have - want) // 2


@dataclass(frozen=True)
class Framed(ImagePreprocessing):
    """Base of the steps that bring images to a size.

    Parameters
    ----------
    size : tuple of int, default (32, 32)
        Rows and columns.
    """

    size: tuple[Annotated[int, "[1, inf)"], ...] = (32, 32)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not are_sides(self.size):
            raise UserValueError.must("size", "be two whole numbers (rows, columns) of at least 1", self.size)

    def shape_after(self, shape: Shape) -> Shape:
        """The size, with the channels of the images."""
        return (self.size[0], self.size[1], shape[2])


@dataclass(frozen=True)
class CenterCrop(Framed):
    """The middle of an image, its first row at floor((rows - size) / 2), its first column likewise.

    Parameters
    ----------
    size : tuple of int, default (32, 32)
        Rows and columns.

    Raises
    ------
    UserValueError
        Images that are smaller.

    Examples
    --------
    >>> CenterCrop((1, 2)).transform([[[0.0, 1.0, 2.0, 3.0, 4.0]]]).tolist()
    [[[1.0, 2.0]]]
    """

    short: ClassVar[str] = "center-crop"

    def shape_after(self, shape: Shape) -> Shape:
        """The size, with the channels of the images."""
        if shape[0] < self.size[0] or shape[1] < self.size[1]:
            wanted = size_of((*self.size, 1))
            what = f"images of {size_of(shape)} are too small for a crop of {wanted}"
            raise UserValueError(what, "size", "resize them, or crop less")
        return super().shape_after(shape)

    def apply(self, x: Any, arrays: Mapping[str, Any]) -> Any:
        """The middle of the images."""
        rows, columns, _ = self.shape_after(tuple(x.shape[1:]))
        top, left = center_offset(x.shape[1], rows), center_offset(x.shape[2], columns)
        return x[:, top : top + rows, left : left + columns]


@dataclass(frozen=True)
class Resize(Framed):
    """Images in another size, whatever that does to their proportions, by a stated interpolation.

    Parameters
    ----------
    size : tuple of int, default (32, 32)
        Rows and columns.
    mode : {"bilinear", "nearest", "bicubic"}, default "bilinear"
        The borders of both images lie on each other, not the centers of their corner pixels: pixel i of the result is
        at (i + 1/2) rows / size - 1/2.
    antialias : bool, default True
        Whether a smaller image averages over all pixels that it stands for; else fine texture turns into patterns that
        were not there. Nearest pixels are never averaged.

    Examples
    --------
    >>> Resize((4, 4), "nearest").transform([[[1.0, 2.0], [3.0, 4.0]]])[0].tolist()
    [[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0], [3.0, 3.0, 4.0, 4.0], [3.0, 3.0, 4.0, 4.0]]
    """

    short: ClassVar[str] = "resize"
    mode: Literal["bilinear", "nearest", "bicubic"] = "bilinear"
    antialias: bool = True

    def inner(self, shape: Shape) -> tuple[int, int]:
        """Rows and columns behind the interpolation."""
        return self.size[0], self.size[1]

    def apply(self, x: Any, arrays: Mapping[str, Any]) -> Any:
        """The images in the other size."""
        size = self.inner(tuple(x.shape[1:]))
        change: Any = resize if isinstance(x, np.ndarray) else resized
        return change(x, size, mode=self.mode, antialias=self.antialias)


@dataclass(frozen=True)
class ResizeCrop(Resize):
    """Images resized in proportion until they just cover the size, then cropped around their center.

    Parameters
    ----------
    size : tuple of int, default (32, 32)
        Rows and columns.
    mode : {"bilinear", "nearest", "bicubic"}, default "bilinear"
        See `Resize`.
    antialias : bool, default True
        See `Resize`.

    Examples
    --------
    >>> ResizeCrop((1, 1)).transform([[[0.0, 0.0, 6.0, 6.0, 0.0, 0.0], [0.0, 0.0, 6.0, 6.0, 0.0, 0.0]]]).shape
    (1, 1, 1)
    """

    short: ClassVar[str] = "resize-crop"

    def inner(self, shape: Shape) -> tuple[int, int]:
        """Rows and columns behind the interpolation: the shorter side fits."""
        scale = max(self.size[0] / shape[0], self.size[1] / shape[1])
        rows, columns = (max(want, round(have * scale)) for want, have in zip(self.size, shape[:2], strict=True))
        return rows, columns

    def apply(self, x: Any, arrays: Mapping[str, Any]) -> Any:
        """The images in the other size, cropped."""
        return CenterCrop(self.size).apply(super().apply(x, arrays), {})
