"""Convolution layers where conventions matter: size arithmetic, padding, receptive fields, channels-last layers.

What networks call convolution is a correlation: the kernel is not flipped (`gnomon.numeric.convolution` has both).
torch's layers take channels first, (n, channels, rows, columns), and do the work here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from gnomon.errors import UserValueError, counted
from gnomon.nn.batch_norm import BatchNorm
from gnomon.nn.dropout import Dropout
from gnomon.nn.layers import quiet
from gnomon.nn.units import AbsoluteValue, Max, StepUnit

__all__ = [
    "Conv1d", "Conv2d", "ReceptiveField", "Window", "convolution", "output_size", "pad", "receptive_field",
    "same_padding",
]  # fmt: skip

Sizes = int | tuple[int, ...]
PadMode = Literal["zeros", "reflect", "replicate", "circular"]
_CONVOLUTIONS: Any = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "replicate", "circular": "circular"}


def output_size(n: int, k: int, s: int = 1, p: int = 0, d: int = 1, *, ceil_mode: bool = False) -> int:
    """Places at which a window fits on one axis: floor((n + 2 p - d (k - 1) - 1) / s) + 1.

    Parameters
    ----------
    n, k, s, d : int >= 1
        Size of the axis and of the window, stride, dilation.
    p : int >= 0
        Padding of each side.
    ceil_mode : bool, default False
        Round up, so that the last window may stick out, unless it would start beyond input and left padding.

    Raises
    ------
    UserValueError
        A window that fits nowhere, or an argument below its range.

    Examples
    --------
    >>> output_size(224, 11, 4), output_size(5, 2, 2), output_size(5, 2, 2, ceil_mode=True)
    (54, 2, 3)
    """
    for name, value, least in (("n", n, 1), ("k", k, 1), ("s", s, 1), ("d", d, 1), ("p", p, 0)):
        if value < least:
            raise UserValueError.must(name, f"be at least {least}", value)
    room = n + 2 * p - d * (k - 1) - 1
    if room < 0:
        raise UserValueError(
            f"a window of {d * (k - 1) + 1} does not fit into {n + 2 * p} values",
            "k",
            "give a larger input or more padding",
        )
    if not ceil_mode:
        return room // s + 1
    size = -(-room // s) + 1
    return size - 1 if (size - 1) * s >= n + p else size


def same_padding(k: int, d: int = 1) -> tuple[int, int]:
    """Padding left and right with which stride 1 keeps the size: d (k - 1) in all, the odd one on the right.

    For odd k it is d (k - 1) / 2 on each side.

    Examples
    --------
    >>> same_padding(5), same_padding(2), same_padding(3, d=2)
    ((2, 2), (0, 1), (2, 2))
    """
    total = d * (k - 1)
    return total // 2, total - total // 2


def pad(x: torch.Tensor, p: int | Sequence[int | tuple[int, int]], mode: PadMode = "zeros") -> torch.Tensor:
    """Values around the last axes of a tensor.

    Parameters
    ----------
    x : tensor of shape (n, channels, ...)
    p : int, or one int or pair (before, after) for each of the axes after the channels
        In the order of the axes: rows, then columns. ``torch.nn.functional.pad`` begins with the last axis.
    mode : {"zeros", "reflect", "replicate", "circular"}, default "zeros"
        What 1, 2, 3 becomes with p = 2: ``zeros`` 0 0 1 2 3 0 0. ``reflect`` 3 2 1 2 3 2 1 (NumPy's reflect, scipy's
        mirror). ``replicate`` 1 1 1 2 3 3 3 (NumPy's edge, scipy's nearest). ``circular`` 2 3 1 2 3 1 2 (wrap).

    Raises
    ------
    UserValueError
        A mode that is none of these, negative padding, or more than the axis can give: reflect needs p < size,
        circular p <= size.

    Examples
    --------
    >>> pad(torch.tensor([[[1.0, 2.0, 3.0]]]), 2, "reflect").tolist()
    [[[3.0, 2.0, 1.0, 2.0, 3.0, 2.0, 1.0]]]
    """
    if mode not in _MODES:
        raise UserValueError.must("mode", f"be one of {', '.join(_MODES)}", mode)
    axes = x.ndim - 2
    given = [p] * axes if isinstance(p, int) else list(p)
    if axes < 1 or len(given) != axes:
        raise UserValueError(
            f"p must be one padding for each of the {axes} axes after the channels, got {len(given)}", "p"
        )
    pairs = [(one, one) if isinstance(one, int) else tuple(one) for one in given]
    for axis, pair in enumerate(pairs):
        size = x.shape[2 + axis]
        most = {"reflect": size - 1, "circular": size}.get(mode, math.inf)
        if min(pair) < 0 or max(pair) > most:
            raise UserValueError(f"{mode} padding of {size} values must be 0 to {most}, got {pair}", f"axis {axis}")
    flat = [amount for pair in reversed(pairs) for amount in pair]
    padded: torch.Tensor = functional.pad(x, flat, _MODES[mode])
    return padded


def convolution(
    inputs: int,
    outputs: int,
    kernel: Sizes,
    *,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    bias: bool = True,
    axes: int = 2,
    dtype: torch.dtype | None = None,
) -> nn.Conv1d | nn.Conv2d | nn.Conv3d:
    r"""torch's layer Y_o = b_o + sum over its group's channels of the correlation with K_oc, all zeros.

    Output channel o belongs to group floor(o groups / outputs) and reads the inputs of that group alone. A kernel of
    size 1 is a dense layer across the channels at every pixel.

    Parameters
    ----------
    inputs, outputs : int >= 1
        Channels.
    kernel, stride, padding, dilation : int or tuple, one per axis
    groups : int, default 1
        Divides both numbers of channels; groups = inputs is a depthwise convolution.
    bias : bool, default True
    axes : {1, 2, 3}, default 2
    dtype : torch.dtype, optional

    Raises
    ------
    UserValueError
        Groups that do not divide the channels.

    Notes
    -----
    outputs * inputs / groups * prod(kernel) weights; that many multiplications per output pixel.

    Examples
    --------
    >>> [convolution(6, 4, 3, groups=g, bias=False).weight.numel() for g in (1, 2)]
    [216, 108]
    """
    if axes not in (1, 2, 3):
        raise UserValueError.must("axes", "be 1, 2 or 3", axes)
    _check_groups(inputs, outputs, groups)
    made: nn.Conv1d | nn.Conv2d | nn.Conv3d = quiet(
        _CONVOLUTIONS[axes - 1], inputs, outputs, kernel, stride=stride, padding=padding, dilation=dilation,
        groups=groups, bias=bias, dtype=dtype,
    )  # fmt: skip
    return made


def _check_groups(inputs: int, outputs: int, groups: int) -> None:
    for name, channels in (("inputs", inputs), ("outputs", outputs)):
        if groups < 1 or channels % groups:
            raise UserValueError(f"groups must divide the {channels} {name}, got {groups}", "groups")


class Window(NamedTuple):
    """How a layer reads one axis: size of the window, stride, padding of each side, dilation."""

    size: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1


class ReceptiveField(NamedTuple):
    """What one element of a feature map can depend on, along one axis.

    Parameters
    ----------
    size : int
        Pixels of the region.
    jump : int
        Pixels between the regions of neighboring elements.
    start : float
        Center of the region of element 0; pixel centers are 0, 1, ...
    """

    size: int
    jump: int
    start: float

    def region(self, i: int) -> tuple[int, int]:
        """First and last pixel that element i reads; outside the image where they lie in the padding.

        Examples
        --------
        >>> receptive_field([Window(3, padding=1), Window(3, padding=1)]).region(0)
        (-2, 2)
        """
        center, reach = self.start + i * self.jump, (self.size - 1) / 2
        return round(center - reach), round(center + reach)


def receptive_field(layers: Iterable[Window | nn.Module], axis: int = 0) -> ReceptiveField:
    """The receptive field of an element behind a chain of layers.

    Layer by layer, first to last: size += d (k - 1) jump, start += (d (k - 1) / 2 - p) jump, jump *= s.

    Parameters
    ----------
    layers : iterable of Window or torch module
        Convolutions and poolings in order; modules that work on single pixels (activations, batch norms at prediction,
        dropout) are passed over, ``nn.Sequential`` is entered.
    axis : int, default 0
        0 for rows, 1 for columns.

    Raises
    ------
    UserValueError
        A layer whose window does not depend on its settings alone, or is not known: linear, global or adaptive pooling
        (behind one the field is the whole input), layer norm, attention, transposed convolution, a module of one's own.

    Notes
    -----
    Values in the region can matter; most of the influence lies in its middle (Luo et al. 2016).

    Examples
    --------
    >>> receptive_field([Window(3), Window(3)])
    ReceptiveField(size=5, jump=1, start=2.0)
    """
    size, jump, start = 1, 1, 0.0
    for window in _windows(layers, axis):
        extra = window.dilation * (window.size - 1)
        size += extra * jump
        start += (extra / 2 - window.padding) * jump
        jump *= window.stride
    return ReceptiveField(size, jump, start)


_POOLINGS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)
_SINGLE: Any = (
    nn.Identity, nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm, AbsoluteValue, Max, StepUnit, Dropout,
    BatchNorm, nn.LocalResponseNorm,
)  # fmt: skip
_MANY = (nn.MultiheadAttention, nn.Softmax, nn.LogSoftmax, nn.Softmin)
"""Among torch's activations those that may mix places."""


def _of_single_pixels(layer: nn.Module) -> bool:
    activation = type(layer).__module__ == nn.modules.activation.__name__ and not isinstance(layer, _MANY)
    return activation or isinstance(layer, _SINGLE)


def _windows(layers: Iterable[Window | nn.Module], axis: int) -> Iterable[Window]:
    for layer in layers:
        if isinstance(layer, Window):
            yield layer
        elif isinstance(layer, nn.Sequential):
            yield from _windows(layer, axis)
        elif isinstance(layer, _POOLINGS + _CONVOLUTIONS) or getattr(layer, "reads_windows", False):
            one: Any = layer
            if isinstance(one.padding, str):
                raise UserValueError(f"padding must be a number here, got {one.padding!r}", "receptive_field")
            values = (one.kernel_size, one.stride, one.padding, getattr(one, "dilation", 1))
            yield Window(*(value[axis] if isinstance(value, tuple) else value for value in values))
        elif not _of_single_pixels(layer):
            name = type(layer).__name__
            raise UserValueError(
                f"{name} has no window", "receptive_field", "end the chain before it, or leave out what reads one pixel"
            )


class _LastConv(nn.Module):
    """Channels-last convolution over `axes` axes."""

    axes: int

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: Sizes,
        *,
        stride: Sizes = 1,
        padding: Sizes | Literal["same", "causal"] = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        _check_groups(inputs, outputs, groups)
        self.kernel, self.stride, self.dilation = (
            self._each(value, name) for value, name in ((kernel, "kernel"), (stride, "stride"), (dilation, "dilation"))
        )
        self.padding = self._paddings(padding)
        self.groups = groups
        self.weight = nn.Parameter(torch.zeros(*self.kernel, inputs // groups, outputs, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(outputs, dtype=dtype)) if bias else None

    def _each(self, value: Any, name: str, least: int = 1) -> tuple[int, ...]:
        values = (value,) * self.axes if isinstance(value, int) else tuple(value)
        if len(values) != self.axes or min(values) < least:
            raise UserValueError.must(name, f"be {counted(self.axes, 'whole number')} >= {least}", value)
        return values

    def _paddings(self, padding: Any) -> list[tuple[int, int]]:
        if padding == "causal":
            return [(d * (k - 1), 0) for k, d in zip(self.kernel, self.dilation, strict=True)]
        if padding == "same":
            return [same_padding(k, d) for k, d in zip(self.kernel, self.dilation, strict=True)]
        if isinstance(padding, str):
            raise UserValueError.must("padding", "be a number, 'same' or 'causal'", padding)
        return [(p, p) for p in self._each(padding, "padding", 0)]

    def output_sizes(self, *sizes: int) -> tuple[int, ...]:
        """Size of each axis of the output.

        Raises
        ------
        UserValueError
            A kernel that fits nowhere.
        """
        return tuple(
            output_size(n + low + high, k, s, 0, d)
            for n, (low, high), k, s, d in zip(
                sizes, self.padding, self.kernel, self.stride, self.dilation, strict=True
            )
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Outputs of shape (n, *output_sizes, outputs)."""
        inputs = self.weight.shape[-2] * self.groups
        if x.ndim != self.axes + 2 or x.shape[-1] != inputs:
            raise UserValueError(
                f"x must have {self.axes + 2} axes, the last with {inputs} channels, got shape {tuple(x.shape)}",
                type(self).__name__,
            )
        self.output_sizes(*x.shape[1:-1])
        function = functional.conv1d if self.axes == 1 else functional.conv2d
        first = pad(x.movedim(-1, 1), self.padding)
        kernel = self.weight.movedim((-1, -2), (0, 1))
        return function(first, kernel, self.bias, self.stride, 0, self.dilation, self.groups).movedim(1, -1)


class Conv1d(_LastConv):
    r"""Correlation along one axis, channels last: Y_nlo = b_o + sum_c sum_k X_{n, l s + k d, c} W_kco.

    Parameters
    ----------
    inputs, outputs : int >= 1
        Channels.
    kernel, stride, dilation : int >= 1
    padding : int >= 0, "same" or "causal", default 0
        ``same`` keeps the length at stride 1, with one more zero on the right for even kernels; ``causal`` puts all
        zeros on the left, so that output l reads inputs up to l only.
    groups : int, default 1
        Divides inputs and outputs.
    bias : bool, default True
    dtype : torch.dtype, optional

    Attributes
    ----------
    weight : (kernel, inputs / groups, outputs), zeros
    bias : (outputs,), zeros

    Examples
    --------
    >>> layer = Conv1d(1, 1, 3, bias=False)
    >>> _ = layer.weight.data.copy_(torch.tensor([1.0, 0.0, -1.0]).reshape(3, 1, 1))
    >>> layer(torch.tensor([1.0, 2.0, 3.0, 4.0]).reshape(1, 4, 1)).flatten().tolist()
    [-2.0, -2.0]
    """

    axes = 1

    def output_length(self, n: int) -> int:
        """Length of the output for inputs of length n."""
        return self.output_sizes(n)[0]


class Conv2d(_LastConv):
    r"""Correlation in the plane, channels last: Y_nhwo = b_o + sum_c sum_mj X_{n, h+m, w+j, c} W_mjco (at stride 1).

    Parameters
    ----------
    inputs, outputs : int >= 1
        Channels.
    kernel, stride, dilation : int >= 1, or (rows, columns)
        A stride leaves out border columns that no whole window reaches.
    padding : int >= 0, (rows, columns), "same" or "causal", default 0
        ``same`` as in `Conv1d`; ``causal`` puts all zeros above and to the left.
    groups : int, default 1
    bias : bool, default True
    dtype : torch.dtype, optional

    Attributes
    ----------
    weight : (rows, columns, inputs / groups, outputs), zeros
    bias : (outputs,), zeros

    Examples
    --------
    >>> Conv2d(3, 8, (3, 5), padding="same")(torch.zeros(2, 6, 7, 3)).shape
    torch.Size([2, 6, 7, 8])
    """

    axes = 2
