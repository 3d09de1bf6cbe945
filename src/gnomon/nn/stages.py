"""What convolutional networks are made of: a convolution with its norm and unit, and blocks side by side."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from gnomon.nn.activations import Activation
from gnomon.nn.batch_norm import BatchNorm
from gnomon.nn.convolution import convolution

__all__ = ["Branches", "DenseBlock", "conv_norm", "conv_unit"]

Sides = int | tuple[int, int]


def _half(kernel: Sides) -> Sides:
    """Padding with which an odd window keeps the size."""
    return tuple(side // 2 for side in kernel) if isinstance(kernel, tuple) else kernel // 2  # type: ignore[return-value]


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
    norm: bool = True,
    stride: Sides = 1,
    padding: Sides | None = None,
    groups: int = 1,
    bias: bool | None = None,
    dtype: torch.dtype | None = None,
) -> nn.Sequential:
    """Convolution, batch normalization on wish, activation; odd windows keep rows and columns at stride 1.

    Parameters
    ----------
    inputs, outputs : int >= 1
        Channels; units of several pieces, such as maxout, get as many convolutions of each output.
    kernel : int or (rows, columns)
    unit : Activation
    norm : bool, default True
    stride, padding : int or (rows, columns)
        Padding of half a window where left out.
    groups : int >= 1, default 1
    bias : bool, optional
        True without a norm, False before one, where left out.
    dtype : torch.dtype, optional

    Examples
    --------
    >>> from gnomon.nn.activations import ReLU
    >>> [type(layer).__name__ for layer in conv_unit(1, 4, 3, unit=ReLU())]
    ['Conv2d', 'BatchNorm', 'ReLU']
    """
    wide = outputs * unit.widening
    layers: list[nn.Module] = [
        convolution(
            inputs, wide, kernel, stride=stride, padding=_half(kernel) if padding is None else padding,
            groups=groups, bias=not norm if bias is None else bias, dtype=dtype,
        )
    ]  # fmt: skip
    if norm:
        layers.append(BatchNorm(wide, dtype=dtype))
    return nn.Sequential(*layers, unit.build(outputs, dtype))


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
    dropout : nn.Module, optional
        Behind each layer.
    dtype : torch.dtype, optional

    Attributes
    ----------
    outputs : int
        inputs + layers * growth channels; the first ones are the input's, unchanged.

    Notes
    -----
    A layer is norm, unit, convolution 3 x 3. Numbers kept for the way back grow with the square of `layers`.

    References
    ----------
    Huang, Liu, van der Maaten and Weinberger (2017), equation 2 and section 3.

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
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
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
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x
