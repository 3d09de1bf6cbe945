"""Inception blocks: convolutions of several windows side by side, as published and with their windows in factors."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import nn

from gnomon.errors import UserValueError
from gnomon.nn.activations import Activation
from gnomon.nn.convolution import convolution
from gnomon.nn.norms import Norm
from gnomon.nn.pooling import MaxPooling
from gnomon.nn.residual import Residual
from gnomon.nn.stages import Branches, conv_unit

__all__ = ["Widths", "channels_out", "inception", "residual_inception"]

Form = Literal["whole", "A", "B", "C"]


class Widths(NamedTuple):
    """Channels of the four branches: 1 x 1; 1 x 1 and 3 x 3; 1 x 1 and 5 x 5; pooling and 1 x 1.

    Parameters
    ----------
    one : int
    three, five : (int, int)
        Of the convolution 1 x 1 before, and of the wider one.
    pooled : int
    """

    one: int
    three: tuple[int, int]
    five: tuple[int, int]
    pooled: int


def inception(
    inputs: int,
    widths: Widths,
    *,
    unit: Activation,
    norm: Norm | bool = False,
    form: Form = "whole",
    wide: int = 5,
    dtype: torch.dtype | None = None,
) -> Branches:
    """Four branches side by side, each convolution with its unit, on as many rows and columns as come in.

    Parameters
    ----------
    inputs : int >= 1
        Channels.
    widths : Widths
    unit : Activation
    norm : Norm or bool, default False
        Of every convolution, which has no bias then; True is batch normalization (Inception-BN).
    form : {"whole", "A", "B", "C"}, default "whole"
        ``A``: two windows 3 x 3 in place of 5 x 5. ``B``: 7 x 1 and 1 x 7 in place of 3 x 3, and twice that in place of
        5 x 5. ``C``: 3 x 1 beside 1 x 3 in place of 3 x 3, and behind a 3 x 3 in place of 5 x 5; these branches have
        twice their channels.
    wide : int >= 1, default 5
        Rows and columns of the windows that stand for 5 x 5 in the form ``whole``: 3 in torchvision's network.
    dtype : torch.dtype, optional

    Raises
    ------
    UserValueError
        A form that is none of these.

    References
    ----------
    Szegedy et al. (2015), figure 2b; Ioffe and Szegedy (2015); Szegedy et al. (2016), figures 5 to 7.

    Examples
    --------
    >>> from gnomon.nn.activations import ReLU
    >>> block = inception(192, Widths(64, (96, 128), (16, 32), 32), unit=ReLU())
    >>> sum(p.numel() for p in block.parameters()), block(torch.zeros(1, 192, 4, 4)).shape
    (163696, torch.Size([1, 256, 4, 4]))
    """
    if form not in ("whole", "A", "B", "C"):
        raise UserValueError.must("form", "be whole, A, B or C", form)
    settings: dict[str, Any] = {"unit": unit, "norm": norm, "dtype": dtype}
    return Branches(
        [
            conv_unit(inputs, widths.one, 1, **settings),
            nn.Sequential(conv_unit(inputs, widths.three[0], 1, **settings), *_three(*widths.three, form, settings)),
            nn.Sequential(conv_unit(inputs, widths.five[0], 1, **settings), *_five(*widths.five, form, wide, settings)),
            nn.Sequential(MaxPooling().build(3, 1, 1), conv_unit(inputs, widths.pooled, 1, **settings)),
        ]
    )


def _three(inputs: int, outputs: int, form: Form, settings: dict[str, Any]) -> list[nn.Module]:
    """What stands for a window 3 x 3."""
    if form == "B":
        return _crossed(inputs, outputs, settings)
    if form == "C":
        return [_beside(inputs, outputs, settings)]
    return [conv_unit(inputs, outputs, 3, **settings)]


def _five(inputs: int, outputs: int, form: Form, wide: int, settings: dict[str, Any]) -> list[nn.Module]:
    """What stands for a window 5 x 5."""
    if form == "A":
        return [conv_unit(inputs, outputs, 3, **settings), conv_unit(outputs, outputs, 3, **settings)]
    if form == "B":
        return [*_crossed(inputs, outputs, settings), *_crossed(outputs, outputs, settings)]
    if form == "C":
        return [conv_unit(inputs, outputs, 3, **settings), _beside(outputs, outputs, settings)]
    return [conv_unit(inputs, outputs, wide, **settings)]


def _crossed(inputs: int, outputs: int, settings: dict[str, Any]) -> list[nn.Module]:
    return [conv_unit(inputs, outputs, (7, 1), **settings), conv_unit(outputs, outputs, (1, 7), **settings)]


def _beside(inputs: int, outputs: int, settings: dict[str, Any]) -> nn.Module:
    return Branches([conv_unit(inputs, outputs, (3, 1), **settings), conv_unit(inputs, outputs, (1, 3), **settings)])


def residual_inception(
    inputs: int,
    widths: Widths,
    *,
    unit: Activation,
    norm: Norm | bool = True,
    form: Form = "A",
    wide: int = 5,
    scale: float = 0.2,
    drop: float = 0.0,
    dtype: torch.dtype | None = None,
) -> Residual:
    """unit(x + scale * convolution 1 x 1 of the branches): an Inception block with a residual connection.

    Parameters
    ----------
    inputs : int >= 1
        Channels, in and out: the convolution 1 x 1 brings the branches to them.
    widths : Widths
    unit : Activation
    norm : Norm or bool, default True
    form : {"whole", "A", "B", "C"}, default "A"
    wide : int >= 1, default 5
    scale : float, default 0.2
        With 0 the block is unit(x).
    drop : float in [0, 1), default 0
        Probability to leave the block out for a row in training.
    dtype : torch.dtype, optional

    References
    ----------
    Szegedy, Ioffe, Vanhoucke and Alemi (2017), who call it Inception-ResNet; Inception-V4 itself has no such sums.

    Examples
    --------
    >>> from gnomon.nn.activations import ReLU
    >>> block = residual_inception(16, Widths(4, (2, 4), (2, 4), 4), unit=ReLU(), scale=0.0)
    >>> bool((block(-torch.ones(1, 16, 3, 3)) == 0).all())
    True
    """
    branches = inception(inputs, widths, unit=unit, norm=norm, form=form, wide=wide, dtype=dtype)
    joined = convolution(channels_out(widths, form), inputs, 1, dtype=dtype)
    return Residual(nn.Sequential(branches, joined), after=unit.build(inputs, dtype), scale=scale, drop=drop)


def channels_out(widths: Widths, form: Form = "whole") -> int:
    """Channels of all branches together.

    Examples
    --------
    >>> channels_out(Widths(64, (96, 128), (16, 32), 32)), channels_out(Widths(64, (96, 128), (16, 32), 32), "C")
    (256, 416)
    """
    twice = 2 if form == "C" else 1
    return widths.one + twice * (widths.three[1] + widths.five[1]) + widths.pooled
