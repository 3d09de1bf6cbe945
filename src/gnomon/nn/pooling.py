"""Pooling: the slot ``pooling``, torch's layers underneath, and pooling over everything.

A maximum's padding is -inf, never 0; its gradient goes to the first largest element in reading order; NaN goes through.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import nn

from gnomon.errors import UserValueError
from gnomon.recipes.recipe import Recipe

__all__ = ["AveragePooling", "GlobalPool", "MaxPooling", "Pooling"]

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
        window = _sides("size", size, 1)
        step = window if stride is None else _sides("stride", stride, 1)
        border = _sides("padding", padding, 0)
        for length, extent in zip(border, window, strict=True):
            if length > extent // 2:
                most = " by ".join(dict.fromkeys(str(extent) for extent in window))
                raise UserValueError(
                    f"padding must be 0 to {extent // 2} for windows of {most}, got {length}", "padding"
                )
        return self._module(window, step, border)

    def _module(self, size: Pair, stride: Pair, padding: Pair) -> nn.Module:
        raise NotImplementedError


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
