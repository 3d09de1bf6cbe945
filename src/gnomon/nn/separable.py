"""Separable convolution: a window for each channel by itself, then a mix of channels at every pixel."""

from __future__ import annotations

import torch
from torch import nn

from gnomon.errors import UserValueError
from gnomon.nn.activations import Activation
from gnomon.nn.convolution import convolution
from gnomon.nn.norms import Norm
from gnomon.nn.stages import conv_unit

__all__ = ["SeparableConv2d", "separable_unit"]


class SeparableConv2d(nn.Module):
    r"""Pointwise(depthwise(x)): the cheap substitute of a convolution whose kernel is D_cmj P_oc.

    The depthwise stage gives each channel `multiplier` windows of its own, those of a channel one behind the other; the
    pointwise stage is a dense layer across channels at every pixel. Padding belongs to the first stage alone.

    Parameters
    ----------
    inputs, outputs : int >= 1
        Channels.
    kernel : int or (rows, columns)
    stride, padding, dilation : int or (rows, columns)
        Of the depthwise stage.
    multiplier : int >= 1, default 1
        Windows of each channel.
    bias : bool, default True
        Of the pointwise stage; one of the depthwise stage would do nothing that it does not.
    dtype : torch.dtype, optional

    Notes
    -----
    With multiplier 1 it takes 1 / outputs + 1 / prod(kernel) of the multiplications of a full convolution.

    References
    ----------
    Howard et al. (2017), MobileNets, section 3.1.

    Examples
    --------
    >>> SeparableConv2d(32, 64, 3, bias=False).parameter_count()  # a full convolution has 18,432
    2336
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int | tuple[int, int],
        *,
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        multiplier: int = 1,
        bias: bool = True,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if multiplier < 1:
            raise UserValueError.must("multiplier", "be at least 1", multiplier)
        self.depthwise = convolution(
            inputs, inputs * multiplier, kernel, stride=stride, padding=padding, dilation=dilation, groups=inputs,
            bias=False, dtype=dtype,
        )  # fmt: skip
        self.pointwise = convolution(inputs * multiplier, outputs, 1, bias=bias, dtype=dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Outputs (n, outputs, rows, columns) of images (n, inputs, rows, columns)."""
        mixed: torch.Tensor = self.pointwise(self.depthwise(x))
        return mixed

    def parameter_count(self) -> int:
        """Numbers that are learned."""
        return sum(p.numel() for p in self.parameters())

    def to_full_kernel(self) -> torch.Tensor:
        """Kernel (outputs, inputs, rows, columns) of the one convolution that does the same, the bias left out."""
        windows, mix = self.depthwise.weight[:, 0], self.pointwise.weight[:, :, 0, 0]
        outputs, channels = len(mix), self.depthwise.in_channels
        each = mix[:, :, None, None] * windows
        return each.reshape(outputs, channels, -1, *windows.shape[1:]).sum(2)


def separable_unit(
    inputs: int,
    outputs: int,
    kernel: int,
    *,
    unit: Activation,
    norm: Norm | bool = True,
    stride: int = 1,
    dtype: torch.dtype | None = None,
) -> nn.Sequential:
    """Depthwise convolution and pointwise convolution, a norm on wish and a unit behind each: the block of MobileNet.

    Parameters
    ----------
    inputs, outputs : int >= 1
        Channels.
    kernel : int
        Odd: rows and columns stay at stride 1.
    unit : Activation
    norm : Norm or bool, default True
        Of both convolutions; True is batch normalization.
    stride : int >= 1, default 1
    dtype : torch.dtype, optional

    References
    ----------
    Howard et al. (2017), figure 3.

    Examples
    --------
    >>> from gnomon.nn.activations import ReLU
    >>> separable_unit(4, 8, 3, unit=ReLU(), stride=2)(torch.zeros(1, 4, 7, 7)).shape
    torch.Size([1, 8, 4, 4])
    """
    return nn.Sequential(
        *conv_unit(inputs, inputs, kernel, unit=unit, norm=norm, stride=stride, groups=inputs, dtype=dtype),
        *conv_unit(inputs, outputs, 1, unit=unit, norm=norm, dtype=dtype),
    )
