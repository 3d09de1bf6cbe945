r"""Looking at an image and writing on a canvas, a part at a time: the slot ``attention`` of systems that draw.

The part is a grid of N x N Gaussian filters, whose center, stride, variance and gain follow from a state. A filter is
a row whose entries sum to 1, :math:`F_{ia} \propto \exp(-(a - \mu_i)^2 / 2 \sigma^2)`, by a softmax over the pixels
a. So a filter that lies outside of the image takes its edge, and nothing is divided by 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import torch
from torch import nn

from gnomon.nn.encoders import Shape, maps_of, rows_of
from gnomon.nn.layers import dense
from gnomon.recipes.recipe import Recipe

__all__ = [
    "Aim", "AttentiveGlimpse", "GaussianAttention", "Glimpse", "GlimpseRecipe", "WholeGlimpse", "FilterWindow",
    "WithoutAttention", "gaussian_filters",
]  # fmt: skip

LOGS = (-8.0, 8.0)
"""Logarithms of variance, stride and gain are held in here."""


class Aim(NamedTuple):
    """Where the filters of n states stand.

    Attributes
    ----------
    rows, columns : tensors of shape (n, N, rows of the image), (n, N, columns of it)
        Filters; each row of them sums to 1.
    gain : tensor of shape (n,)
        What is read is multiplied by it, and what is written divided.
    """

    rows: torch.Tensor
    columns: torch.Tensor
    gain: torch.Tensor


def gaussian_filters(
    center: torch.Tensor, stride: torch.Tensor, variance: torch.Tensor, n_filters: int, length: int
) -> torch.Tensor:
    """Filters along sides of images, (..., n_filters, length), evenly spaced about a center; each sums to 1.

    Parameters
    ----------
    center, stride, variance : tensors of shapes that broadcast to (...)
        In pixels, the first being number 0, and squared pixels; the center may lie outside.
    n_filters, length : int >= 1

    Notes
    -----
    O(n_filters length) for each.

    Examples
    --------
    >>> one = torch.ones(1)
    >>> gaussian_filters(one, one, 1e-3 * one, 3, 3)[0].round().tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    places = torch.arange(n_filters, dtype=center.dtype, device=center.device) - (n_filters - 1) / 2
    means = torch.addcmul(center[..., None], places, stride[..., None])
    pixels = torch.arange(length, dtype=center.dtype, device=center.device)
    sharpness = (-0.5 / variance)[..., None, None]
    return torch.softmax(sharpness * (pixels - means[..., None]).square(), -1)


class FilterWindow(nn.Module):
    """N x N filters on an image, whose five numbers are affine in a state: centers, log variance, log stride, log gain.

    At a state of 0 and centers and stride of bias 0 the window is the whole image.

    Parameters
    ----------
    size : (int, int)
        Rows and columns of the image.
    n : int >= 1
        Filters along each side.
    units : int >= 1
        Of the state.
    dtype : torch.dtype, optional
    """

    def __init__(self, size: tuple[int, int], n: int, units: int, *, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.size, self.n = size, n
        self.numbers = dense(units, 5, dtype=dtype)

    @property
    def widest(self) -> float:
        """Pixels between filters that span the longer side."""
        return (max(self.size) - 1) / max(self.n - 1, 1)

    def begin(self, gain: float = 1.0) -> None:
        """The same for every state: the whole image, filters half as wide as they are apart, and a gain.

        Windows that begin by moving with the state would hide at first what is written through them.
        """
        blur = 2 * math.log(max(self.widest / 2, 0.5))
        first = self.numbers.bias.new_tensor([0.0, 0.0, blur, 0.0, math.log(gain)])
        with torch.no_grad():
            self.numbers.weight.zero_()
            self.numbers.bias.copy_(first)

    def aim(self, state: torch.Tensor) -> Aim:
        """Where the filters stand for states (n, units).

        The grid's center is (A + 1) / 2 (g + 1) - 1 in pixels from 0 on, its stride (max(A, B) - 1) / (N - 1) exp(d).
        """
        numbers = self.numbers(state)
        variance, stride, gain = numbers[:, 2:].clamp(*LOGS).exp().unbind(1)
        stride = self.widest * stride
        half = torch.tensor([(side + 1) / 2 for side in self.size], dtype=numbers.dtype, device=numbers.device)
        centers = half * (numbers[:, :2] + 1) - 1
        if self.size[0] == self.size[1]:
            both = gaussian_filters(centers, stride[:, None], variance[:, None], self.n, self.size[0])
            return Aim(both[:, 0], both[:, 1], gain)
        rows, columns = (
            gaussian_filters(center, stride, variance, self.n, side)
            for center, side in zip(centers.unbind(1), self.size, strict=True)
        )
        return Aim(rows, columns, gain)

    def read(self, maps: torch.Tensor, aim: Aim) -> torch.Tensor:
        """Patches (n, maps, N, N) of images (n, maps, rows, columns): gain F_rows x F_columns^T."""
        return aim.gain[:, None, None, None] * (aim.rows[:, None] @ maps @ aim.columns[:, None].mT)

    def write(self, patches: torch.Tensor, aim: Aim) -> torch.Tensor:
        """Images (n, maps, rows, columns) from patches (n, maps, N, N): F_rows^T w F_columns / gain."""
        return (aim.rows[:, None].mT @ patches @ aim.columns[:, None]) / aim.gain[:, None, None, None]


class Glimpse(nn.Module):
    """Base of what reads images and writes on canvases."""

    n_read: int
    """Numbers that are read."""

    def begin(self) -> None:
        """First values of what no initializer gives: where to look at first."""

    def read(self, x: torch.Tensor, error: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """What is seen of images and of what is wrong with the canvas, both flat rows, (n, n_read)."""
        raise NotImplementedError

    def write(self, state: torch.Tensor) -> torch.Tensor:
        """What is added to the canvas, as flat rows."""
        raise NotImplementedError


class WholeGlimpse(Glimpse):
    """All of image and error is read, and an affine map of the state is written.

    Parameters
    ----------
    seen, painted, units : int >= 1
        Numbers of an image as it is seen, numbers of a canvas, units of the state.
    dtype : torch.dtype, optional
    """

    def __init__(self, seen: int, painted: int, units: int, *, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.n_read = 2 * seen
        self.brush = dense(units, painted, dtype=dtype)

    def read(self, x: torch.Tensor, error: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """Both side by side."""
        return torch.cat([x, error], 1)

    def write(self, state: torch.Tensor) -> torch.Tensor:
        """The affine map."""
        found: torch.Tensor = self.brush(state)
        return found


class AttentiveGlimpse(Glimpse):
    """A window is read from image and error, and a patch that is affine in the state is written through another.

    Parameters
    ----------
    shape : (rows, columns, channels)
        Of an image.
    seen, width : int >= 1
        Numbers of each of its cells that are read, and numbers of each on the canvas.
    filters : (int, int)
        Filters along each side of the window that is read, and of the one that is written through.
    units : int >= 1
        Of the state.
    dtype : torch.dtype, optional

    Notes
    -----
    A step costs O(N rows columns + N^2 columns) multiplications for each map.
    """

    def __init__(
        self, shape: Shape, seen: int, width: int, filters: tuple[int, int], units: int, *,
        dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        rows, columns, channels = shape
        self.seen, self.images, self.maps = (rows, columns, channels * seen), width, channels * width
        self.reader, self.writer = (FilterWindow((rows, columns), n, units, dtype=dtype) for n in filters)
        self.n_read = 2 * channels * seen * filters[0] ** 2
        self.brush = dense(units, self.maps * filters[1] ** 2, dtype=dtype)

    def begin(self) -> None:
        """Windows of the whole image; what is written then is as large on the canvas as in the patch."""
        rows, columns = self.writer.size
        self.reader.begin()
        self.writer.begin(gain=self.writer.n**2 / (rows * columns))

    def read(self, x: torch.Tensor, error: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """The same window of both."""
        both = torch.cat([maps_of(x, self.seen), maps_of(error, self.seen)], 1)
        return self.reader.read(both, self.reader.aim(state)).flatten(1)

    def write(self, state: torch.Tensor) -> torch.Tensor:
        """The patch through its window."""
        patches = self.brush(state).reshape(len(state), self.maps, self.writer.n, self.writer.n)
        return rows_of(self.writer.write(patches, self.writer.aim(state)), self.images)


# --- recipes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GlimpseRecipe(Recipe):
    """Base of the recipes of the slot ``attention`` of systems that draw: which part a step reads and writes."""

    images: ClassVar[bool] = False
    """Whether it needs to know which image a row is."""

    def build(self, shape: Shape, seen: int, width: int, units: int, dtype: torch.dtype) -> Glimpse:
        """What reads and writes.

        Parameters
        ----------
        shape : (rows, columns, channels)
            Of an image.
        seen, width : int >= 1
            Numbers of each of its cells that are read, and numbers of each on the canvas.
        units : int >= 1
            Of the state.
        dtype : torch.dtype
        """
        raise NotImplementedError


@dataclass(frozen=True)
class GaussianAttention(GlimpseRecipe):
    """Windows of Gaussian filters that the state moves, widens and blurs (Gregor et al. 2015).

    Parameters
    ----------
    read : int in [1, inf), default 8
        Filters along each side of the window that is read.
    write : int in [1, inf), default 8
        Filters along each side of the window that is written through.
    """

    short: ClassVar[str] = "gaussian"
    images: ClassVar[bool] = True
    read: Annotated[int, "[1, inf)"] = 8
    write: Annotated[int, "[1, inf)"] = 8

    def build(self, shape: Shape, seen: int, width: int, units: int, dtype: torch.dtype) -> Glimpse:
        """The windows."""
        return AttentiveGlimpse(shape, seen, width, (self.read, self.write), units, dtype=dtype)


@dataclass(frozen=True)
class WithoutAttention(GlimpseRecipe):
    """Every step sees the whole image and paints on the whole canvas; rows need not be images."""

    short: ClassVar[str] = "none"

    def build(self, shape: Shape, seen: int, width: int, units: int, dtype: torch.dtype) -> Glimpse:
        """The whole."""
        cells = math.prod(shape)
        return WholeGlimpse(cells * seen, cells * width, units, dtype=dtype)
