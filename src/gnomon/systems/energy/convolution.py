"""Couplings that are the same at every place: a small kernel for each map, moved over an image or a sequence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch.nn import functional, grad

from gnomon.contracts import Array
from gnomon.errors import UserValueError
from gnomon.numeric.tensors import is_tensor
from gnomon.systems.energy.links import Link, Own

__all__ = ["ConvolutionalLink", "places_of"]

Shape = tuple[int, int, int]
Mode = Literal["valid", "same"]


def places_of(shape: Sequence[int], kernel: tuple[int, int], mode: Mode) -> tuple[int, int]:
    """Rows and columns of the map that a kernel leaves of an image.

    Raises
    ------
    UserValueError
        A mode that is neither, a kernel larger than the image.

    Examples
    --------
    >>> places_of((8, 8, 1), (3, 3), "valid"), places_of((8, 8, 1), (3, 3), "same")
    ((6, 6), (8, 8))
    """
    if mode not in ("valid", "same"):
        raise UserValueError.must("mode", "be valid or same", mode)
    if kernel[0] > shape[0] or kernel[1] > shape[1]:
        what = f"kernel must be at most {shape[0]} x {shape[1]}, got {kernel[0]} x {kernel[1]}"
        raise UserValueError(what, "kernel", "give a smaller one")
    if mode == "same":
        return shape[0], shape[1]
    return shape[0] - kernel[0] + 1, shape[1] - kernel[1] + 1


class ConvolutionalLink(Link):
    r"""Each place of b with the window of the image a about it, by the same weights everywhere.

    The form is :math:`\sum_k \langle a \star W^k, b^k \rangle`, :math:`\star` the correlation (the kernel is not
    flipped), summed over channels. What b adds to the field of a is the transposed convolution
    :math:`\sum_k b^k * W^k`. Images and maps are flat, in reading order, the channels or maps of a place side by side.

    Parameters
    ----------
    a, b, name
        See `Link`.
    shape : (rows, columns, channels)
        Of the image. A sequence is an image of one row.
    maps : int, in [1, inf)
        Kernels: numbers of b at each place.
    kernel : (rows, columns)
        Of a kernel, at most those of the image.
    mode : {"valid", "same"}
        Windows inside the image alone, so that there are fewer places than pixels and those at the border have few
        couplings; or a place for each pixel, with zeros around the image, where places at the border see less (of an
        even kernel the longer side is below and to the right).
    skip : int, in [0, inf), default 0
        Columns of a before the image, that are not coupled: detectors before the pooling units.
    extra : int, in [0, inf), default 0
        Columns of b behind the maps, that are not coupled: pooling units.

    Raises
    ------
    UserValueError
        A mode that is neither, a kernel larger than the image.

    Notes
    -----
    The parameter is ``weight`` (maps, channels, rows, columns). Cost O(n places maps window) in torch's convolutions,
    for NumPy arrays too; `matrix` is the Toeplitz matrix, of size pixels times places.

    Examples
    --------
    >>> link = ConvolutionalLink("visible", "hidden", (1, 4, 1), 1, (1, 2))
    >>> link.matrix({"weight": np.array([[[[1.0, 2.0]]]])}).T.tolist()
    [[1.0, 2.0, 0.0, 0.0], [0.0, 1.0, 2.0, 0.0], [0.0, 0.0, 1.0, 2.0]]
    """

    def __init__(
        self,
        a: str,
        b: str,
        shape: Shape,
        maps: int,
        kernel: tuple[int, int],
        *,
        mode: Mode = "valid",
        skip: int = 0,
        extra: int = 0,
        name: str | None = None,
    ) -> None:
        self.shape, self.maps, self.kernel, self.skip, self.extra = shape, maps, kernel, skip, extra
        self.places = places_of(shape, kernel, mode)
        """Rows and columns of a map."""
        down, across = (place + k - 1 - side for place, k, side in zip(self.places, kernel, shape, strict=False))
        self._border = (across // 2, across - across // 2, down // 2, down - down // 2)
        super().__init__(a, b, name=name)

    @property
    def image_size(self) -> int:
        """Numbers of an image."""
        return math.prod(self.shape)

    @property
    def maps_size(self) -> int:
        """Numbers of all maps."""
        return math.prod(self.places) * self.maps

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """A kernel for each map, over all channels."""
        wanted = (self.skip + self.image_size, self.maps_size + self.extra)
        found = tuple(sizes[end] for end in self.ends)
        if any(found) and found != wanted:
            raise UserValueError(f"the layers must have {wanted} columns, got {found}", "links")
        return {"weight": (self.maps, self.shape[2], *self.kernel)}

    def field(self, block: str, x: Array, own: Own) -> Array:
        """The correlation with each kernel, or the transposed convolution."""
        if block == self.ends[1]:
            image, weight = _alike(self._image(x), own["weight"])
            found = _flat(functional.conv2d(image, weight))
            return _given(functional.pad(found, (0, self.extra)), x)
        maps, weight = _alike(self._maps(x), own["weight"])
        left, _, above, _ = self._border
        rows, columns, _ = self.shape
        image = functional.conv_transpose2d(maps, weight)[:, :, above : above + rows, left : left + columns]
        return _given(functional.pad(_flat(image), (self.skip, 0)), x)

    def statistics(self, left: Array, right: Array, weight: Array, own: Own) -> dict[str, Array]:
        """The correlation of images with maps, summed over rows and places."""
        image, maps = _alike(self._image(left), self._maps(right * weight[:, None]))
        size = (self.maps, self.shape[2], *self.kernel)
        found: torch.Tensor = grad.conv2d_weight(image, size, maps)  # type: ignore[no-untyped-call]
        return {"weight": _given(found, left)}

    def matrix(self, own: Own) -> Array:
        """The weights at each place, 0 elsewhere."""
        weight, n = own["weight"], self.skip + self.image_size
        each: Any = torch.eye(n).to(weight) if is_tensor(weight) else np.eye(n, dtype=weight.dtype)
        return self.field(self.ends[1], each, own)

    def _image(self, x: Array) -> torch.Tensor:
        """The image, channels first, of rows of a, with its border of zeros."""
        return functional.pad(_planes(x[:, self.skip :], self.shape), self._border)

    def _maps(self, x: Array) -> torch.Tensor:
        """The maps, one after the other, of rows of b."""
        return _planes(x[:, : self.maps_size], (*self.places, self.maps))


def _planes(x: Any, shape: Shape) -> torch.Tensor:
    """Channels first of flat rows with the channels of a place side by side."""
    if not is_tensor(x):
        x = torch.from_numpy(x if x.flags.writeable else x.copy())
    planes: torch.Tensor = x.reshape(len(x), *shape).permute(0, 3, 1, 2)
    return planes


def _flat(planes: torch.Tensor) -> torch.Tensor:
    """What `_planes` was given."""
    return planes.permute(0, 2, 3, 1).flatten(1)


def _alike(x: torch.Tensor, other: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Both as tensors of the wider of their types."""
    other = other if is_tensor(other) else torch.from_numpy(other)
    wider = torch.promote_types(x.dtype, other.dtype)
    return x.to(wider), other.to(wider)


def _given(found: torch.Tensor, like: Array) -> Array:
    """A tensor in the kind of `like`."""
    return found if is_tensor(like) else found.detach().numpy()
