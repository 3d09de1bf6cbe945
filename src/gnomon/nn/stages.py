"""What convolutional networks are made of: a convolution with its norm and unit, and blocks side by side."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import torch
from torch import nn

from gnomon.nn.activations import Activation
from gnomon.nn.batch_norm import BatchNorm
from gnomon.nn.context import recomputed
from gnomon.nn.convolution import convolution
from gnomon.nn.norms import BatchNormalization, NoNorm, Norm

__all__ = ["Branches", "DenseBlock", "conv_norm", "conv_stages", "conv_unit", "norm_of", "with_unit"]

Sides = int | tuple[int, int]


def _half(kernel: Sides, dilation: int = 1) -> Sides:
    """Padding with which an odd window keeps the size."""
    return (
        (dilation * (kernel[0] // 2), dilation * (kernel[1] // 2))
        if isinstance(kernel, tuple)
        else dilation * (kernel // 2)
    )


def norm_of(norm: Norm | bool) -> Norm:
    """The recipe that True (over the batch) and False (none) stand for.

    Examples
    --------
    >>> norm_of(True).short, norm_of(False).short
    ('batch', 'none')
    """
    if isinstance(norm, Norm):
        return norm
    return BatchNormalization() if norm else NoNorm()


def with_unit(
    linear: nn.Module,
    outputs: int,
    *,
    unit: Activation,
    norm: Norm | bool = True,
    dtype: torch.dtype | None = None,
) -> nn.Sequential:
    """A layer with weights, a norm on wish, and its units.

    Parameters
    ----------
    linear : nn.Module
        Puts out ``outputs * unit.widening`` channels.
    outputs : int >= 1
    unit : Activation
    norm : Norm or bool, default True
        True is batch normalization.
    dtype : torch.dtype, optional

    Examples
    --------
    >>> from gnomon.nn.activations import ReLU
    >>> [type(layer).__name__ for layer in with_unit(nn.Identity(), 4, unit=ReLU(), norm=False)]
    ['Identity', 'ReLU']
    """
    layers = norm_of(norm).build(outputs * unit.widening, dtype)
    return nn.Sequential(linear, *layers, unit.build(outputs, dtype))


def conv_norm(
    inputs: int,
    outputs: int,
    kernel: Sides,
    *,
    stride: Sides = 1,
    padding: Sides | None = None,
    groups: int = 1,
    bias: bool = False,
    dtype: torch.dtype | None = None,
) -> nn.Sequential:
    """Convolution and batch normalization; odd windows keep rows and columns at stride 1 where no padding is given.

    Parameters
    ----------
    inputs, outputs : int >= 1
        Channels.
    kernel, stride, padding : int or (rows, columns)
    groups : int >= 1, default 1
    bias : bool, default False
        The norm's shift does what a bias would.
    dtype : torch.dtype, optional

    Examples
    --------
    >>> conv_norm(1, 4, (1, 5))(torch.zeros(2, 1, 3, 6)).shape
    torch.Size([2, 4, 3, 6])
    """
    return nn.Sequential(
        convolution(
            inputs, outputs, kernel, stride=stride, padding=_half(kernel) if padding is None else padding,
            groups=groups, bias=bias, dtype=dtype,
        ),
        BatchNorm(outputs, dtype=dtype),
    )  # fmt: skip


def conv_unit(
    inputs: int,
    outputs: int,
    kernel: Sides,
    *,
    unit: Activation,
    norm: Norm | bool = True,
    stride: Sides = 1,
    padding: Sides | None = None,
    dilation: int = 1,
    groups: int = 1,
    bias: bool | None = None,
    dtype: torch.dtype | None = None,
) -> nn.Sequential:
    """Convolution, a norm on wish, activation; odd windows keep rows and columns at stride 1.

    Parameters
    ----------
    inputs, outputs : int >= 1
        Channels; units of several pieces, such as maxout, get as many convolutions of each output.
    kernel : int or (rows, columns)
    unit : Activation
    norm : Norm or bool, default True
        True is batch normalization.
    stride, padding : int or (rows, columns)
        Padding of half a window where left out.
    dilation : int >= 1, default 1
        Pixels from weight to weight.
    groups : int >= 1, default 1
    bias : bool, optional
        Where left out, False before a norm that takes biases out again, else True.
    dtype : torch.dtype, optional

    Examples
    --------
    >>> from gnomon.nn.activations import ReLU
    >>> [type(layer).__name__ for layer in conv_unit(1, 4, 3, unit=ReLU())]
    ['Conv2d', 'BatchNorm', 'ReLU']
    """
    convolved = convolution(
        inputs, outputs * unit.widening, kernel, stride=stride,
        padding=_half(kernel, dilation) if padding is None else padding, dilation=dilation, groups=groups,
        bias=not norm_of(norm).takes_bias if bias is None else bias, dtype=dtype,
    )  # fmt: skip
    return with_unit(convolved, outputs, unit=unit, norm=norm, dtype=dtype)


def conv_stages(
    inputs: int,
    channels: Iterable[int],
    *,
    convolutions: int = 2,
    window: int = 3,
    unit: Activation,
    norm: Norm | bool = True,
    dtype: torch.dtype | None = None,
) -> nn.ModuleList:
    """Stages of convolutions, each at half the resolution of the one before: what heads of any kind stand on.

    Parameters
    ----------
    inputs : int >= 1
        Channels that come in.
    channels : iterable of int >= 1
        Maps of each stage; all but the first begin with max pooling by 2.
    convolutions : int >= 1, default 2
        Of each stage.
    window : int >= 1, default 3
        Rows and columns of their windows, odd.
    unit : Activation
    norm : Norm or bool, default True
    dtype : torch.dtype, optional

    Examples
    --------
    >>> from gnomon.nn.activations import ReLU
    >>> nn.Sequential(*conv_stages(1, (2, 4), unit=ReLU()))(torch.zeros(3, 1, 6, 8)).shape
    torch.Size([3, 4, 3, 4])
    """
    stages = nn.ModuleList()
    for number, maps in enumerate(channels):
        stage = nn.Sequential(nn.MaxPool2d(2)) if number else nn.Sequential()
        for _ in range(convolutions):
            stage.append(conv_unit(inputs, maps, window, unit=unit, norm=norm, dtype=dtype))
            inputs = maps
        stages.append(stage)
    return stages


class Branches(nn.Module):
    """The channels of several blocks that read the same input, one behind the other.

    Parameters
    ----------
    branches : iterable of nn.Module
        Their outputs have the same rows and columns; their order is that of the channels.

    Examples
    --------
    >>> Branches([nn.Identity(), nn.ReLU()])(torch.tensor([[[[-1.0]]]])).flatten().tolist()
    [-1.0, 0.0]
    """

    def __init__(self, branches: Iterable[nn.Module]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of shape (n, sum of the branches' channels, rows, columns)."""
        return torch.cat([branch(x) for branch in self.branches], 1)


class DenseBlock(nn.Module):
    """Layers that each read all channels before them, input first, and add `growth` channels of their own.

    Parameters
    ----------
    inputs : int >= 1
        Channels that come in.
    layers : int >= 1
    growth : int >= 1
        Channels that each layer adds.
    unit : Activation
    bottleneck : int >= 0, default 0
        Where above 0, a convolution 1 x 1 to ``bottleneck * growth`` channels stands before each 3 x 3.
    bias : bool, default False
        Whether convolutions have biases.
    recompute : bool, default False
        Whether layers are computed again on the way back instead of kept, `gnomon.nn.context.recomputed`.
    dtype : torch.dtype, optional

    Attributes
    ----------
    outputs : int
        inputs + layers * growth channels; the first ones are the input's, unchanged.

    Notes
    -----
    A layer is norm, unit, convolution 3 x 3. Numbers kept for the way back grow with the square of `layers`; with
    `recompute` in proportion to it, for the time of one more forward pass.

    References
    ----------
    Huang, Liu, van der Maaten and Weinberger (2017), equation 2 and section 3; Pleiss et al. (2017),
    "Memory-efficient implementation of DenseNets".

    Examples
    --------
    >>> from gnomon.nn.activations import ReLU
    >>> block = DenseBlock(3, 2, 4, unit=ReLU())
    >>> block.outputs, block(torch.zeros(1, 3, 5, 5)).shape
    (11, torch.Size([1, 11, 5, 5]))
    """

    def __init__(
        self,
        inputs: int,
        layers: int,
        growth: int,
        *,
        unit: Activation,
        bottleneck: int = 0,
        bias: bool = False,
        recompute: bool = False,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.recompute = recompute
        self.outputs = inputs + layers * growth
        self.layers = nn.ModuleList()
        for channels in range(inputs, self.outputs, growth):
            layer = nn.Sequential(BatchNorm(channels, dtype=dtype), unit.build(channels, dtype))
            if bottleneck:
                inner = bottleneck * growth
                layer.append(conv_unit(channels, inner, 1, unit=unit, bias=bias, dtype=dtype))
                channels = inner
            layer.append(convolution(channels, growth, 3, padding=1, bias=bias, dtype=dtype))
            self.layers.append(layer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of shape (n, outputs, rows, columns)."""
        if self.recompute:
            pieces = [x]
            for layer in self.layers:  # joined within, so that no joined maps are kept
                pieces.append(recomputed(partial(_of_joined, layer), *pieces))
            return torch.cat(pieces, 1)
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


def _of_joined(layer: nn.Module, *pieces: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = layer(torch.cat(pieces, 1))
    return found
