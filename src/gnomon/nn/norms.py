"""Normalization: the slot ``norm``, layers that normalize each row by itself, and residual blocks around a norm.

Only batch normalization looks at other rows. The others give a row the same output whatever stands beside it, in
training and in prediction, on any number of processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import nn
from torch.nn import functional

from gnomon.errors import UserValueError
from gnomon.nn.batch_norm import BatchNorm
from gnomon.recipes.parameters import check_parameters
from gnomon.recipes.recipe import Recipe

__all__ = [
    "BatchNormalization", "GroupNorm", "GroupNormalization", "InstanceNormalization", "LayerNorm",
    "LayerNormalization", "NoNorm", "Norm", "local_response",
]  # fmt: skip


class GroupNorm(nn.Module):
    r"""(x - mean) / sqrt(variance + epsilon) * gain + shift, with mean and variance of each row's groups of features.

    :math:`\mu_{ng}, \sigma^2_{ng}` are over the channels of group g and all places of row n, divisor their number.
    One group is layer normalization, a group for each channel instance normalization.

    Parameters
    ----------
    features : int >= 1
        On axis 1; further axes are places.
    groups : int >= 1, default 1
        Divides the features; channels that stand side by side are a group.
    epsilon : float in (0, inf), default 1e-5
    dtype : torch.dtype, optional

    Raises
    ------
    UserValueError
        Groups that do not divide the features; in the call a group of one value, which would be 0 whatever it is.

    Notes
    -----
    Two passes over the input, 2 features parameters.

    References
    ----------
    Ba, Kiros and Hinton (2016); Ulyanov, Vedaldi and Lempitsky (2016); Wu and He (2018).

    Examples
    --------
    >>> GroupNorm(4, groups=2)(torch.tensor([[1.0, 3.0, 10.0, 30.0]])).round(decimals=3).tolist()
    [[-1.0, 1.0, -1.0, 1.0]]
    """

    def __init__(self, features: int, groups: int = 1, epsilon: float = 1e-5, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        if groups < 1 or features % groups:
            raise UserValueError(f"groups must divide the {features} features, got {groups}", "groups")
        self.groups, self.epsilon = groups, epsilon
        self.gain = nn.Parameter(torch.ones(features, dtype=dtype))
        self.shift = nn.Parameter(torch.zeros(features, dtype=dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalized x, of shape (n, features, ...)."""
        if x.shape[1:].numel() == self.groups:
            what = f"the {self.groups} groups of a norm must have at least 2 values each, got 1"
            raise UserValueError(what, "norm", "give fewer groups, larger maps, or another norm")
        if not len(x):
            return x
        return functional.group_norm(x, self.groups, self.gain, self.shift, self.epsilon)

    def extra_repr(self) -> str:
        """Shown by repr."""
        return f"{len(self.gain)}, groups={self.groups}, epsilon={self.epsilon}"


class LayerNorm(nn.Module):
    r"""(x - mean) / sqrt(variance + epsilon) * gain + shift over the last axes, or over all valid steps with them.

    Mean and variance, its divisor their number, are those of the last axes, one pair for each index of the axes before
    them. With `steps` the axes between the rows and them (the steps of a sequence) are taken together too, of which a
    mask says the valid ones: :math:`\mu_n = \sum_t m_{nt}\sum_j x_{ntj} / (J\sum_t m_{nt})`, and likewise the variance.
    Steps that are not valid change nothing and come out as 0.

    Parameters
    ----------
    shape : int or sequence of int
        Of the last axes, which gain and shift have too: the width of a vector, (channels, rows, columns) of an image.
    epsilon : float in [0, inf), default 1e-5
    steps : bool, default False
        Whether statistics are over the axes between the rows and those of `shape` too.
    dtype : torch.dtype, optional

    Raises
    ------
    UserValueError
        A side below 1, in the call a mask without `steps`, or one of another shape.

    Notes
    -----
    In training as in prediction, for each row by itself. Two passes over the input.

    References
    ----------
    Ba, Kiros and Hinton (2016).

    Examples
    --------
    >>> double = torch.float64
    >>> LayerNorm(4, dtype=double)(torch.tensor([1.0, 2, 3, 4], dtype=double)).round(decimals=4).tolist()
    [-1.3416, -0.4472, 0.4472, 1.3416]
    >>> x, valid = torch.tensor([[[1.0], [3.0], [99.0]]]), torch.tensor([[True, True, False]])
    >>> LayerNorm(1, steps=True)(x, valid).round(decimals=4).flatten().tolist()
    [-1.0, 1.0, 0.0]
    """

    def __init__(
        self, shape: int | Sequence[int], epsilon: float = 1e-5, *, steps: bool = False,
        dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if min(self.shape, default=0) < 1:
            raise UserValueError.must("shape", "be at least 1 on every side", self.shape)
        self.epsilon, self.steps = epsilon, steps
        self.weight = nn.Parameter(torch.ones(self.shape, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(self.shape, dtype=dtype))

    def forward(self, x: torch.Tensor, valid: torch.Tensor | None = None) -> torch.Tensor:
        """Normalized x, of shape (n, ..., *shape).

        Parameters
        ----------
        x : tensor
        valid : bool tensor of shape (n, ...), optional
            The axes before those of `shape`; all steps are valid where left out.
        """
        if not self.steps:
            if valid is not None:
                raise UserValueError("valid needs statistics over steps", "valid", "give steps=True")
            return functional.layer_norm(x, self.shape, self.weight, self.bias, self.epsilon)
        before = x.shape[: x.ndim - len(self.shape)]
        kept = x.new_ones(before, dtype=torch.bool) if valid is None else valid
        if kept.shape != before:
            raise UserValueError.must("valid", f"have the shape {tuple(before)}", tuple(kept.shape))
        kept = kept.reshape(*before, *(1 for _ in self.shape))
        axes = tuple(range(1, x.ndim))
        n = kept.sum(axes, keepdim=True).clamp(min=1) * self.weight.numel()
        known = torch.where(kept, x.float() if x.dtype in (torch.float16, torch.bfloat16) else x, 0)
        centered = torch.where(kept, known - known.sum(axes, keepdim=True) / n, 0)
        variance = centered.square().sum(axes, keepdim=True) / n
        scaled = centered / (variance + self.epsilon).sqrt() * self.weight + self.bias
        return torch.where(kept, scaled, 0)

    def extra_repr(self) -> str:
        """Shown by repr."""
        return f"{self.shape}, epsilon={self.epsilon}, steps={self.steps}"


def local_response(size: int = 5, alpha: float = 1e-4, beta: float = 0.75, k: float = 2.0) -> nn.LocalResponseNorm:
    r"""torch's layer b_c = a_c / (k + alpha / size * sum of a^2 over the `size` channels around c)^beta at each place.

    Bright neighbors among the channels dim a unit (lateral inhibition). Channels beyond the first and the last count as
    0. The paper's alpha is not divided by the size: its 1e-4 is alpha = 5e-4 here. Nothing is learned.

    Parameters
    ----------
    size : int >= 1, default 5
        Channels of a neighborhood, the unit's own among them.
    alpha, beta, k : float, default 1e-4, 0.75, 2
        Those of the paper, up to the division of alpha.

    References
    ----------
    Krizhevsky, Sutskever and Hinton (2012), section 3.3.

    Examples
    --------
    >>> local_response(3, alpha=3.0, beta=1.0, k=1.0)(torch.tensor([[[1.0], [2.0], [0.0]]])).flatten().tolist()
    [0.1666666716337204, 0.3333333432674408, 0.0]
    """
    if size < 1:
        raise UserValueError.must("size", "be at least 1", size)
    return nn.LocalResponseNorm(size, alpha, beta, k)


@dataclass(frozen=True)
class Norm(Recipe):
    """Base of the recipes of the slot ``norm``: what stands between a layer and its units.

    Attributes
    ----------
    needs_rows : bool
        Whether statistics are over the rows of a batch, so that batches need two.
    takes_bias : bool
        Whether a bias in front of the norm is taken out again.
    """

    needs_rows: ClassVar[bool] = False
    takes_bias: ClassVar[bool] = False

    @property
    def fixes_size(self) -> bool:
        """Whether there is a parameter for each place, so that maps keep the size of the fit."""
        return False

    def at(self, places: tuple[int, ...]) -> Norm:
        """The norm of maps of so many rows and columns."""
        return self

    def build(self, features: int, dtype: torch.dtype | None = None) -> list[nn.Module]:
        """The layers, none or one.

        Parameters
        ----------
        features : int >= 1
            Channels (axis 1) of what will come in.
        dtype : torch.dtype, optional

        Raises
        ------
        UserValueError
            A field outside its range, or groups that do not divide the features.

        Examples
        --------
        >>> LayerNormalization().build(6), NoNorm().build(6)
        ([GroupNorm(6, groups=1, epsilon=1e-05)], [])
        """
        check_parameters(self, self.get_params())
        return self._layers(features, dtype)

    def _layers(self, features: int, dtype: torch.dtype | None) -> list[nn.Module]:
        raise NotImplementedError


@dataclass(frozen=True)
class BatchNormalization(Norm):
    """Each channel over the rows and places of the batch; in prediction by running means. See `BatchNorm`.

    Parameters
    ----------
    momentum : float in (0, 1], default 0.1
        Weight of the new value in running means and variances.
    epsilon : float in (0, inf), default 1e-5
        Added to the variance.
    """

    short: ClassVar[str] = "batch"
    needs_rows: ClassVar[bool] = True
    takes_bias: ClassVar[bool] = True
    momentum: Annotated[float, "(0, 1]"] = 0.1
    epsilon: Annotated[float, "(0, inf)"] = 1e-5

    def _layers(self, features: int, dtype: torch.dtype | None) -> list[nn.Module]:
        return [BatchNorm(features, self.momentum, self.epsilon, dtype)]


@dataclass(frozen=True)
class LayerNormalization(Norm):
    """All channels and places of a row together.

    Parameters
    ----------
    epsilon : float in (0, inf), default 1e-5
        Added to the variance.
    gain : {"channel", "place"}, default "channel"
        Whether gain and shift are numbers of each channel, or of each place of each channel.
    """

    short: ClassVar[str] = "layer"
    epsilon: Annotated[float, "(0, inf)"] = 1e-5
    gain: Literal["channel", "place"] = "channel"

    @property
    def fixes_size(self) -> bool:
        return self.gain == "place"

    def at(self, places: tuple[int, ...]) -> Norm:
        return _PlacedLayerNormalization(places, self.epsilon) if self.gain == "place" else self

    def _layers(self, features: int, dtype: torch.dtype | None) -> list[nn.Module]:
        if self.gain == "place":
            raise UserValueError("a gain for each place needs the size of the maps", "gain", "give at(places) first")
        return [GroupNorm(features, 1, self.epsilon, dtype)]


@dataclass(frozen=True)
class _PlacedLayerNormalization(Norm):
    """Layer normalization whose gain and shift have the shape of the maps."""

    places: tuple[int, ...] = ()
    epsilon: float = 1e-5

    def _layers(self, features: int, dtype: torch.dtype | None) -> list[nn.Module]:
        return [LayerNorm((features, *self.places), self.epsilon, dtype=dtype)]


@dataclass(frozen=True)
class GroupNormalization(Norm):
    """Groups of channels of a row, over its places.

    Parameters
    ----------
    groups : int >= 1, default 4
        Divides the channels.
    epsilon : float in (0, inf), default 1e-5
        Added to the variance.
    """

    short: ClassVar[str] = "group"
    groups: Annotated[int, "[1, inf)"] = 4
    epsilon: Annotated[float, "(0, inf)"] = 1e-5

    def _layers(self, features: int, dtype: torch.dtype | None) -> list[nn.Module]:
        return [GroupNorm(features, self.groups, self.epsilon, dtype)]


@dataclass(frozen=True)
class InstanceNormalization(Norm):
    """Each channel of a row over its places, which takes contrast and brightness of an image out of its maps.

    Parameters
    ----------
    epsilon : float in (0, inf), default 1e-5
        Added to the variance.
    """

    short: ClassVar[str] = "instance"
    takes_bias: ClassVar[bool] = True
    epsilon: Annotated[float, "(0, inf)"] = 1e-5

    def _layers(self, features: int, dtype: torch.dtype | None) -> list[nn.Module]:
        return [GroupNorm(features, features, self.epsilon, dtype)]


@dataclass(frozen=True)
class NoNorm(Norm):
    """Nothing."""

    short: ClassVar[str] = "none"

    def _layers(self, features: int, dtype: torch.dtype | None) -> list[nn.Module]:
        return []
