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

__all__ = ["AveragePooling", "GlobalPool", "MaxPooling", "Pooling", "StochasticPool2d", "StochasticPooling"]

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
    window = _sides("size", size, 1)
    step = window if stride is None else _sides("stride", stride, 1)
    border = _sides("padding", padding, 0)
    for length, extent in zip(border, window, strict=True):
        if length > extent // 2:
            most = " by ".join(dict.fromkeys(str(extent) for extent in window))
            raise UserValueError(f"padding must be 0 to {extent // 2} for windows of {most}, got {length}", "padding")
    return window, step, border


def _sides(name: str, given: Sides, least: int) -> Pair:
    """Rows and columns, from one number or two."""
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
