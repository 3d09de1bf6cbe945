"""Pooling: the slot ``pooling``, torch's layers underneath, a sampled one, and pooling over everything.

A maximum's padding is -inf, never 0; its gradient goes to the first largest element in reading order; NaN goes through.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import nn
from torch.nn import functional

from gnomon.errors import UserValueError
from gnomon.nn.context import ContextLayer, current
from gnomon.recipes.recipe import Recipe

__all__ = [
    "AdaptivePool", "AveragePooling", "GlobalPool", "MaxPooling", "Pooling", "SpatialPyramid", "StochasticPool2d",
    "StochasticPooling", "pooling_bins", "sides_of",
]  # fmt: skip

Pair = tuple[int, int]
Sides = int | Pair
"""Rows and columns; one number for both."""


@dataclass(frozen=True)
class Pooling(Recipe):
    """Base of the recipes of the slot ``pooling``: one number for each window of a channel."""

    def build(self, size: Sides, stride: Sides | None = None, padding: Sides = 0) -> nn.Module:
        """The module for inputs (n, channels, rows, columns).

        Parameters
        ----------
        size : int >= 1, or (rows, columns)
            Of the window; one number for both.
        stride : int >= 1 or (rows, columns), optional
            Step of the window; `size` where left out.
        padding : int in [0, size / 2] or (rows, columns), default 0

        Raises
        ------
        UserValueError
            A size that is neither, or padding of more than half a window: some windows would hold nothing else.

        Examples
        --------
        >>> AveragePooling().build((2, 4))(torch.arange(16.0).reshape(1, 1, 4, 4)).tolist()
        [[[[3.5], [11.5]]]]
        """
        return self._module(*_window(size, stride, padding))

    def _module(self, size: Pair, stride: Pair, padding: Pair) -> nn.Module:
        raise NotImplementedError


def _window(size: Sides, stride: Sides | None, padding: Sides) -> tuple[Pair, Pair, Pair]:
    """Sides, steps and padding of a window, checked."""
    window = sides_of("size", size)
    step = window if stride is None else sides_of("stride", stride)
    border = sides_of("padding", padding, 0)
    for length, extent in zip(border, window, strict=True):
        if length > extent // 2:
            most = " by ".join(dict.fromkeys(str(extent) for extent in window))
            raise UserValueError(f"padding must be 0 to {extent // 2} for windows of {most}, got {length}", "padding")
    return window, step, border


def sides_of(name: str, given: Sides, least: int = 1) -> Pair:
    """Rows and columns, from one number or two.

    Raises
    ------
    UserValueError
        Neither, or a number below the least.

    Examples
    --------
    >>> sides_of("kernel", 3), sides_of("kernel", (1, 3))
    ((3, 3), (1, 3))
    """
    pair = given if isinstance(given, tuple | list) else (given, given)
    whole = [hasattr(n, "__index__") and not isinstance(n, bool) and n >= least for n in pair]
    if len(pair) != 2 or not all(whole):
        raise UserValueError.must(name, f"be an integer >= {least} or two of them (rows, columns)", given)
    return int(pair[0]), int(pair[1])


@dataclass(frozen=True)
class MaxPooling(Pooling):
    """The largest number of the window, A_ij = max_mn Y_{i s + m, j s + n}; the gradient goes to it alone.

    It commutes with increasing activations. ``nn.MaxPool2d(..., return_indices=True)`` also tells where the
    maxima were, and ``nn.MaxUnpool2d`` puts them back there.

    Examples
    --------
    >>> MaxPooling().build(2)(torch.arange(16.0).reshape(1, 1, 4, 4)).tolist()
    [[[[5.0, 7.0], [13.0, 15.0]]]]
    """

    short: ClassVar[str] = "max"

    def _module(self, size: Pair, stride: Pair, padding: Pair) -> nn.Module:
        return nn.MaxPool2d(size, stride, padding)


@dataclass(frozen=True)
class AveragePooling(Pooling):
    """The mean of the window, A_ij = 1/(MN) sum_mn Y_{i s + m, j s + n}; the gradient is spread evenly.

    It is a depthwise convolution with a constant kernel. Padded places are no values: a window at the border is divided
    by what it has of the input. torch counts them by default (``nn.AvgPool2d(count_include_pad=True)``).

    Examples
    --------
    >>> AveragePooling().build(2)(torch.arange(16.0).reshape(1, 1, 4, 4)).tolist()
    [[[[2.5, 4.5], [10.5, 12.5]]]]
    """

    short: ClassVar[str] = "average"

    def _module(self, size: Pair, stride: Pair, padding: Pair) -> nn.Module:
        return nn.AvgPool2d(size, stride, padding, count_include_pad=False)


class StochasticPool2d(ContextLayer):
    r"""One number of each window drawn in training, p_i = a_i / sum_j a_j; in prediction the mean of such draws.

    Prediction gives :math:`\sum_i p_i a_i`. A large number is likely to be taken, a smaller one has its chance: a fit
    averages over as many networks as there are choices. The gradient of a draw goes to what was drawn. A window of
    zeros gives 0. This is a layer of feed-forward networks; the pooling units of an energy model are
    `gnomon.distributions.pooled_units.ProbabilisticMaxUnits`.

    Parameters
    ----------
    size : int >= 1, or (rows, columns)
        Of the window.
    stride : int >= 1 or (rows, columns), optional
        Step of the window; `size` where left out.
    padding : int in [0, size / 2] or (rows, columns), default 0
        Padded places hold 0 and are never drawn.

    Raises
    ------
    UserValueError
        A number below 0 in what is pooled, where the layer is called: it has no probability.

    References
    ----------
    Zeiler and Fergus (2013), "Stochastic pooling for regularization of deep convolutional neural networks".

    Examples
    --------
    >>> from gnomon.nn.context import training
    >>> from gnomon.numeric.noise import Noise
    >>> layer, x = StochasticPool2d((1, 2)), torch.tensor([1.0, 3.0]).reshape(1, 1, 1, 2)
    >>> with training(Noise(0, "fit")):
    ...     drawn = layer(x)
    >>> drawn.item() in (1.0, 3.0), layer(x).item()
    (True, 2.5)
    """

    def __init__(self, size: Sides, stride: Sides | None = None, padding: Sides = 0) -> None:
        super().__init__()
        self.size, self.stride, self.padding = _window(size, stride, padding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, channels, places) for x of shape (n, channels, rows, columns), places in rows and columns."""
        if (x < 0).any():
            what = f"activations must be at least 0 where one is drawn by its size, got {x.min().item():g}"
            raise UserValueError(what, "pooling", "use relu units, or max or average pooling")
        n, channels = x.shape[:2]
        sides = [
            (side + 2 * border - extent) // step + 1
            for side, border, extent, step in zip(x.shape[2:], self.padding, self.size, self.stride, strict=True)
        ]
        flat = functional.unfold(x, self.size, padding=self.padding, stride=self.stride)
        windows = flat.reshape(n, channels, self.size[0] * self.size[1], -1)
        now = current()
        if now is None:
            total = windows.sum(2)
            pooled = (windows * windows).sum(2) / torch.where(total == 0, torch.ones_like(total), total)
            return pooled.reshape(n, channels, *sides)
        reached = windows.detach().cumsum(2)
        noise, draw = now.stream(self.path)
        mark = noise.uniform((n, channels, 1, windows.shape[-1]), draw, like=reached) * reached[:, :, -1:]
        # the first place whose sum reaches the mark: never one that holds 0 beside others
        chosen = (reached < mark).sum(2, keepdim=True)
        return windows.gather(2, chosen).reshape(n, channels, *sides)

    def extra_repr(self) -> str:
        """Shown by repr."""
        return f"{self.size}, stride={self.stride}, padding={self.padding}"


@dataclass(frozen=True)
class StochasticPooling(Pooling):
    """A number of the window drawn in proportion to its size, in prediction the mean of such draws; none below 0.

    See `StochasticPool2d`.

    Examples
    --------
    >>> StochasticPooling().build((1, 2))(torch.tensor([1.0, 3.0]).reshape(1, 1, 1, 2)).tolist()
    [[[[2.5]]]]
    """

    short: ClassVar[str] = "stochastic"

    def _module(self, size: Pair, stride: Pair, padding: Pair) -> nn.Module:
        return StochasticPool2d(size, stride, padding)


class GlobalPool(nn.Module):
    """One number per channel: the mean or the maximum over all places. It does not notice a circular shift.

    Parameters
    ----------
    kind : {"average", "max"}, default "average"
    keep : bool, default False
        Whether the axes of the places stay, with size 1.

    Examples
    --------
    >>> GlobalPool()(torch.arange(8.0).reshape(1, 2, 2, 2)).tolist()
    [[1.5, 5.5]]
    """

    def __init__(self, kind: Literal["average", "max"] = "average", *, keep: bool = False) -> None:
        super().__init__()
        if kind not in ("average", "max"):
            raise UserValueError.must("kind", "be average or max", kind)
        self.kind, self.keep = kind, keep

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, channels) for x of shape (n, channels, ...); with `keep` followed by axes of size 1."""
        flat = x.flatten(2)
        # a maximum by index sends the whole gradient to the first of equal places, as windows do
        pooled = flat.mean(2) if self.kind == "average" else flat.max(2).values
        return pooled.reshape(*pooled.shape, *(1,) * (x.ndim - 2)) if self.keep else pooled

    def extra_repr(self) -> str:
        """Shown by repr."""
        return f"{self.kind!r}, keep={self.keep}"


def pooling_bins(n: int, k: int) -> list[tuple[int, int]]:
    """Begin and end of the k regions that an axis of n places is divided into: floor(i n / k) to ceil((i + 1) n / k).

    Regions overlap where k does not divide n; where k is above n, places are in several regions, none is empty.

    Examples
    --------
    >>> pooling_bins(5, 2), pooling_bins(2, 3)
    ([(0, 3), (2, 5)], [(0, 1), (0, 2), (1, 2)])
    """
    return [(i * n // k, -(-(i + 1) * n // k)) for i in range(k)]


class AdaptivePool(nn.Module):
    """The mean or maximum of regions whose size follows the input's, so that maps of any size give as many numbers.

    Bin i of k covers the places floor(i n / k) to ceil((i + 1) n / k) of an axis of n. An output as large as the
    input is the input. Where the input is smaller, its places are repeated.

    Parameters
    ----------
    output_size : int >= 1 or (rows, columns)
        Regions along each axis.
    kind : {"average", "max"}, default "average"
        The gradient of a maximum goes to the first of equal places in reading order.

    Raises
    ------
    UserValueError
        A kind that is neither, or a size below 1.

    Notes
    -----
    One axis after the other, the mean as a product with a matrix: on every device the same sums in the same order.

    References
    ----------
    Goodfellow, Bengio and Courville (2016), section 9.3.

    Examples
    --------
    >>> AdaptivePool(2)(torch.arange(9.0).reshape(1, 1, 3, 3)).tolist()
    [[[[2.0, 3.0], [5.0, 6.0]]]]
    """

    def __init__(self, output_size: Sides, kind: Literal["average", "max"] = "average") -> None:
        super().__init__()
        if kind not in ("average", "max"):
            raise UserValueError.must("kind", "be average or max", kind)
        self.output_size, self.kind = sides_of("output_size", output_size), kind

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, channels, *output_size) for x of shape (n, channels, rows, columns)."""
        if tuple(x.shape[2:]) == self.output_size:
            return x
        rows, columns = (pooling_bins(n, k) for n, k in zip(x.shape[2:], self.output_size, strict=True))
        if self.kind == "average":
            down, across = (_averages(bins, n, x) for bins, n in zip((rows, columns), x.shape[2:], strict=True))
            return down @ (x @ across.T)
        # columns first: of equal places the first in reading order is found, and gets the gradient
        narrow = torch.stack([x[..., a:b].max(-1).values for a, b in columns], -1)
        return torch.stack([narrow[..., a:b, :].max(-2).values for a, b in rows], -2)

    def extra_repr(self) -> str:
        """Shown by repr."""
        return f"{self.output_size}, kind={self.kind!r}"


def _averages(bins: list[Pair], n: int, like: torch.Tensor) -> torch.Tensor:
    """Matrix (bins, n) whose rows are the means of the bins."""
    begin, end = (torch.tensor(one, device=like.device)[:, None] for one in zip(*bins, strict=True))
    place = torch.arange(n, device=like.device)
    inside = ((place >= begin) & (place < end)).to(like.dtype)
    return inside / (end - begin)


class SpatialPyramid(nn.Module):
    """Adaptive poolings of several sizes, one behind the other: a vector of fixed length from maps of any size.

    Parameters
    ----------
    levels : tuple of int >= 1, default (1, 2, 4)
        Regions along each axis, level by level.
    kind : {"average", "max"}, default "max"

    Raises
    ------
    UserValueError
        No level, or one below 1.

    References
    ----------
    He, Zhang, Ren and Sun (2014), "Spatial pyramid pooling in deep convolutional networks".

    Examples
    --------
    >>> [SpatialPyramid()(torch.zeros(1, 3, rows, 7)).shape[1] for rows in (5, 9)]  # 3 (1 + 4 + 16)
    [63, 63]
    """

    def __init__(self, levels: tuple[int, ...] = (1, 2, 4), kind: Literal["average", "max"] = "max") -> None:
        super().__init__()
        if not levels:
            raise UserValueError.must("levels", "be one or more sizes", levels)
        self.levels = nn.ModuleList(AdaptivePool(level, kind) for level in levels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, channels * sum of the levels' squares): level by level, channel by channel, in reading order."""
        return torch.cat([level(x).flatten(1) for level in self.levels], 1)
