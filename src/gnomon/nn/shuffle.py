"""Channel shuffle: group convolutions that follow each other get channels of every group."""

from __future__ import annotations

import torch
from torch import nn

from gnomon.errors import UserValueError
from gnomon.nn.activations import Activation
from gnomon.nn.pooling import AveragePooling
from gnomon.nn.residual import Residual
from gnomon.nn.stages import Branches, conv_norm, conv_unit

__all__ = ["ChannelShuffle", "channel_shuffle", "shuffle_unit"]

NARROW = 4
"""Channels that come out of a unit, for each inside of it."""


def channel_shuffle(x: torch.Tensor, groups: int) -> torch.Tensor:
    """The channels read across groups: the first of each group, then the second of each.

    Shuffling with channels / groups puts them back.

    Parameters
    ----------
    x : tensor of shape (n, channels, ...)
    groups : int
        Divides the channels.

    Raises
    ------
    UserValueError
        Groups that do not.

    Examples
    --------
    >>> channel_shuffle(torch.arange(6.0).reshape(1, 6, 1, 1), 2).flatten().tolist()
    [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
    """
    channels = x.shape[1]
    if groups < 1 or channels % groups:
        raise UserValueError(f"groups must divide the {channels} channels, got {groups}", "groups")
    last = x.movedim(1, -1)  # one copy, with channels last in memory, as the convolutions around it like them
    split = last.reshape(*last.shape[:-1], groups, channels // groups)
    return split.transpose(-1, -2).flatten(-2).movedim(-1, 1)


class ChannelShuffle(nn.Module):
    """`channel_shuffle` as a layer.

    Parameters
    ----------
    groups : int

    Examples
    --------
    >>> ChannelShuffle(2)(torch.arange(4.0).reshape(1, 4, 1, 1)).flatten().tolist()
    [0.0, 2.0, 1.0, 3.0]
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x with its channels in the new order."""
        return channel_shuffle(x, self.groups)

    def extra_repr(self) -> str:
        """Shown by repr."""
        return f"{self.groups}"


def shuffle_unit(
    inputs: int,
    outputs: int,
    *,
    unit: Activation,
    groups: int,
    stride: int = 1,
    grouped_inputs: bool = True,
    dtype: torch.dtype | None = None,
) -> nn.Module:
    """Convolution 1 x 1 in groups, shuffle, depthwise 3 x 3, 1 x 1 in groups, each normalized, beside the input.

    With stride 1 the result is added to the input; with stride 2 it stands behind the input's means of windows 3 x 3,
    two pixels apart, and both together have `outputs` channels. A unit follows; none follows the depthwise convolution.

    Parameters
    ----------
    inputs, outputs : int >= 1
        Channels, alike for stride 1. A fourth of `outputs` is inside, one at least.
    unit : Activation
    groups : int >= 1
    stride : {1, 2}, default 1
    grouped_inputs : bool, default True
        Whether the first convolution has groups; that of the first unit of a network reads few channels and has none.
    dtype : torch.dtype, optional

    Raises
    ------
    UserValueError
        Channels that the groups do not divide, other numbers of channels at stride 1, or no more at stride 2.

    References
    ----------
    Zhang, Zhou, Lin and Sun (2018), ShuffleNet, figure 2.

    Examples
    --------
    >>> from gnomon.nn.activations import ReLU
    >>> shuffle_unit(8, 24, unit=ReLU(), groups=2, stride=2)(torch.zeros(1, 8, 6, 6)).shape
    torch.Size([1, 24, 3, 3])
    """
    beside = inputs if stride == 2 else 0
    if stride == 1 and inputs != outputs:
        raise UserValueError(f"outputs must be the {inputs} inputs at stride 1, got {outputs}", "outputs")
    if stride == 2 and outputs <= inputs:
        raise UserValueError(f"outputs must be above the {inputs} inputs at stride 2, got {outputs}", "outputs")
    inner, first = max(1, outputs // NARROW), groups if grouped_inputs else 1
    block = nn.Sequential(
        conv_unit(inputs, inner, 1, unit=unit, groups=first, dtype=dtype),
        ChannelShuffle(groups),
        conv_norm(inner, inner, 3, stride=stride, groups=inner, dtype=dtype),
        conv_norm(inner, outputs - beside, 1, groups=groups, dtype=dtype),
    )
    last = unit.build(outputs, dtype)
    if stride == 1:
        return Residual(block, after=last)
    return nn.Sequential(Branches([AveragePooling().build(3, 2, 1), block]), last)
