"""Residual connections: a block's change added to its input, and the blocks of residual networks."""

from __future__ import annotations

import torch
from torch import nn

from gnomon.errors import UserValueError
from gnomon.nn.activations import Activation
from gnomon.nn.batch_norm import BatchNorm
from gnomon.nn.convolution import convolution
from gnomon.nn.dropout import StochasticDepth
from gnomon.nn.stages import conv_norm, conv_unit

__all__ = ["Residual", "basic_block", "bottleneck_block", "pre_activation_block", "shortcut_for"]


class Residual(nn.Module):
    r"""y = after(shortcut(x) + scale * block(x)): the block learns what is to be changed.

    With a block of zeros the output is the (shortcut of the) input, so that a deeper network holds every shallower one
    and gradients pass the sum undiminished.

    Parameters
    ----------
    block : nn.Module
        F, whose output has the shape of the shortcut's.
    shortcut : nn.Module, optional
        What the input goes through beside the block, a projection where shapes differ; nothing where left out.
    after : nn.Module, optional
        What the sum goes through, a rectifier in the networks of 2015; nothing where left out.
    before : nn.Module, optional
        What block and shortcut read, norm and unit of pre-activation; the input is added as it is where there is no
        shortcut.
    scale : float, default 1
        Factor of the block: 0.1 to 0.3 keep wide Inception blocks from diverging (Szegedy et al. 2017, section 3.3).
    drop : float in [0, 1), default 0
        Probability to leave the block out for a row in training (`StochasticDepth`).

    Raises
    ------
    UserValueError
        In the call, where block and shortcut give different shapes.

    References
    ----------
    He, Zhang, Ren and Sun (2016), equation 1; Huang, Sun, Liu, Sedra and Weinberger (2016).

    Examples
    --------
    >>> x = torch.tensor([[-1.0, 2.0]])
    >>> Residual(nn.Tanh(), scale=0.0)(x).tolist(), Residual(nn.Identity(), after=nn.ReLU())(x).tolist()
    ([[-1.0, 2.0]], [[0.0, 4.0]])
    """

    def __init__(
        self,
        block: nn.Module,
        shortcut: nn.Module | None = None,
        after: nn.Module | None = None,
        *,
        before: nn.Module | None = None,
        scale: float = 1.0,
        drop: float = 0.0,
    ) -> None:
        super().__init__()
        self.before = before or nn.Identity()
        self.block, self.shortcut = block, shortcut
        self.drop = StochasticDepth(drop) if drop else nn.Identity()
        self.after = after or nn.Identity()
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum, of the shape of the block's output."""
        ready = self.before(x)
        change, kept = self.block(ready), x if self.shortcut is None else self.shortcut(ready)
        if change.shape != kept.shape:
            what = f"the block must give rows of shape {tuple(kept.shape[1:])}, got {tuple(change.shape[1:])}"
            raise UserValueError(what, type(self).__name__, "give a shortcut that projects the input to that shape")
        change = self.drop(change)
        total: torch.Tensor = self.after(kept + (change if self.scale == 1 else self.scale * change))
        return total

    def extra_repr(self) -> str:
        """Shown by repr."""
        return "" if self.scale == 1 else f"scale={self.scale}"


def shortcut_for(
    inputs: int,
    outputs: int,
    stride: int = 1,
    *,
    norm: bool = True,
    bias: bool = False,
    dtype: torch.dtype | None = None,
) -> nn.Module | None:
    """None where shapes stay, else a convolution 1 x 1 with the stride, batch-normalized on wish.

    Parameters
    ----------
    inputs, outputs : int >= 1
        Channels.
    stride : int >= 1, default 1
    norm : bool, default True
        Whether the projection is normalized, as in the published weights.
    bias : bool, default False
        Whether the convolution has a bias.
    dtype : torch.dtype, optional

    Examples
    --------
    >>> shortcut_for(8, 8), sum(p.numel() for p in shortcut_for(8, 16, 2, norm=False).parameters())
    (None, 128)
    """
    if inputs == outputs and stride == 1:
        return None
    if norm:
        return conv_norm(inputs, outputs, 1, stride=stride, bias=bias, dtype=dtype)
    return convolution(inputs, outputs, 1, stride=stride, bias=bias, dtype=dtype)


def basic_block(
    inputs: int,
    channels: int,
    *,
    unit: Activation,
    stride: int = 1,
    bias: bool = False,
    project_norm: bool = True,
    gate: nn.Module | None = None,
    drop: float = 0.0,
    dtype: torch.dtype | None = None,
) -> Residual:
    """Convolution 3 x 3, norm, unit, convolution 3 x 3, norm; plus the shortcut; unit.

    Parameters
    ----------
    inputs, channels : int >= 1
        Channels that come in, and those of both convolutions.
    unit : Activation
    stride : int >= 1, default 1
        Of the first convolution and of the shortcut.
    bias : bool, default False
        Whether convolutions have biases; the shift of the norm behind them does the same.
    project_norm : bool, default True
        Whether a projection of the shortcut is normalized.
    gate : nn.Module, optional
        What the change goes through before it is added, such as `gnomon.nn.gates.SqueezeExcitation`.
    drop : float in [0, 1), default 0
        See `Residual`.
    dtype : torch.dtype, optional

    References
    ----------
    He, Zhang, Ren and Sun (2016), figure 5, left.

    Examples
    --------
    >>> from gnomon.nn.activations import ReLU
    >>> basic_block(4, 8, unit=ReLU(), stride=2)(torch.zeros(1, 4, 6, 6)).shape
    torch.Size([1, 8, 3, 3])
    """
    block = nn.Sequential(
        conv_unit(inputs, channels, 3, unit=unit, stride=stride, bias=bias, dtype=dtype),
        conv_norm(channels, channels, 3, bias=bias, dtype=dtype),
    )
    if gate is not None:
        block.append(gate)
    shortcut = shortcut_for(inputs, channels, stride, norm=project_norm, bias=bias, dtype=dtype)
    return Residual(block, shortcut, unit.build(channels, dtype), drop=drop)


def bottleneck_block(
    inputs: int,
    channels: int,
    *,
    unit: Activation,
    inner: int,
    stride: int = 1,
    groups: int = 1,
    gate: nn.Module | None = None,
    drop: float = 0.0,
    dtype: torch.dtype | None = None,
) -> Residual:
    """Convolution 1 x 1 to few channels, 3 x 3 on these in groups, 1 x 1 to many, each normalized; plus the shortcut.

    With several groups it is the block of ResNeXt: as many parallel branches of inner / groups channels, summed.

    Parameters
    ----------
    inputs, channels : int >= 1
        Channels that come in and go out.
    unit : Activation
        Behind the first two convolutions and behind the sum.
    inner : int >= 1
        Channels of the convolution 3 x 3; `groups` divides it.
    stride : int >= 1, default 1
        Of the convolution 3 x 3 and of the shortcut.
    groups : int >= 1, default 1
    gate : nn.Module, optional
    drop : float in [0, 1), default 0
    dtype : torch.dtype, optional

    Raises
    ------
    UserValueError
        Groups that do not divide `inner`.

    References
    ----------
    He, Zhang, Ren and Sun (2016), figure 5, right; Xie, Girshick, Dollar, Tu and He (2017), figure 3c.

    Examples
    --------
    >>> from gnomon.nn.activations import ReLU
    >>> bottleneck_block(16, 32, unit=ReLU(), inner=8, groups=4)(torch.zeros(1, 16, 5, 5)).shape
    torch.Size([1, 32, 5, 5])
    """
    block = nn.Sequential(
        conv_unit(inputs, inner, 1, unit=unit, dtype=dtype),
        conv_unit(inner, inner, 3, unit=unit, stride=stride, groups=groups, dtype=dtype),
        conv_norm(inner, channels, 1, dtype=dtype),
    )
    if gate is not None:
        block.append(gate)
    return Residual(block, shortcut_for(inputs, channels, stride, dtype=dtype), unit.build(channels, dtype), drop=drop)


def pre_activation_block(
    inputs: int,
    channels: int,
    *,
    unit: Activation,
    stride: int = 1,
    gate: nn.Module | None = None,
    drop: float = 0.0,
    dtype: torch.dtype | None = None,
) -> Residual:
    """Twice norm, unit and convolution 3 x 3; plus the input as it is, or projected behind the first unit.

    Nothing stands on the way of the sums, so that the gradient of the last block reaches the first unchanged; networks
    of such blocks end with a norm and a unit.

    Parameters
    ----------
    inputs, channels : int >= 1
    unit : Activation
    stride : int >= 1, default 1
    gate : nn.Module, optional
    drop : float in [0, 1), default 0
    dtype : torch.dtype, optional

    References
    ----------
    He, Zhang, Ren and Sun (2016), "Identity mappings in deep residual networks", figure 1b.

    Examples
    --------
    >>> from gnomon.nn.activations import ReLU
    >>> pre_activation_block(4, 4, unit=ReLU())(torch.zeros(1, 4, 6, 6)).shape
    torch.Size([1, 4, 6, 6])
    """
    first = nn.Sequential(BatchNorm(inputs, dtype=dtype), unit.build(inputs, dtype))
    block = nn.Sequential(
        conv_unit(inputs, channels, 3, unit=unit, stride=stride, dtype=dtype),
        convolution(channels, channels, 3, padding=1, bias=False, dtype=dtype),
    )
    if gate is not None:
        block.append(gate)
    shortcut = shortcut_for(inputs, channels, stride, norm=False, dtype=dtype)
    return Residual(block, shortcut, before=first, drop=drop)
