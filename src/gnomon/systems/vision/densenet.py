"""DenseNet: blocks whose layers read all channels before them, with transitions that halve channels and sides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import nn

from gnomon.data.examples import Examples
from gnomon.nn.activations import Activation, ReLU
from gnomon.nn.batch_norm import BatchNorm
from gnomon.nn.convolution import convolution
from gnomon.nn.pooling import AveragePooling, MaxPooling
from gnomon.nn.stages import DenseBlock, conv_unit
from gnomon.recipes.fields import Doc
from gnomon.systems.vision._images import whole_numbers
from gnomon.systems.vision._network import ConvNet, ConvNetModel, Stem

__all__ = ["DenseNet", "DenseNetModel"]


class DenseNetModel(ConvNetModel):
    """A stem, dense blocks with transitions between them, norm and unit, the mean over places, a dense layer.

    Parameters
    ----------
    shape : (rows, columns, channels)
    n_classes : int
    depths : tuple of int, default (4, 4, 4, 4)
        Layers of each block.
    growth : int, default 32
        Channels that each layer adds.
    first : int, default 64
        Channels of the stem.
    bottleneck : int, default 0
        See `gnomon.nn.stages.DenseBlock`; 4 in DenseNet-121.
    stem : {"small", "large"}, default "large"
        A convolution 3 x 3; or 7 x 7 with stride 2 and pooling by 2.
    bias : bool, default False
        Whether convolutions have biases, as in many texts.
    recompute : bool, default False
        See `gnomon.nn.stages.DenseBlock`.
    activation : Activation, default ReLU()
    dtype : torch.dtype, default torch.float32

    Examples
    --------
    >>> settings = {"depths": (6, 12, 24, 16), "bottleneck": 4}
    >>> DenseNetModel((224, 224, 3), 1000, **settings).n_parameters  # DenseNet-121
    7978856
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        n_classes: int,
        *,
        depths: tuple[int, ...] = (4, 4, 4, 4),
        growth: int = 32,
        first: int = 64,
        bottleneck: int = 0,
        stem: Stem = "large",
        bias: bool = False,
        recompute: bool = False,
        activation: Activation | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(shape, dtype)
        unit = activation or ReLU()
        kernel, stride = (7, 2) if stem == "large" else (3, 1)
        self.features = nn.Sequential(
            conv_unit(shape[2], first, kernel, unit=unit, stride=stride, bias=bias, dtype=dtype)
        )
        if stem == "large":
            self.features.append(MaxPooling().build(3, 2, 1))
        channels = first
        for number, depth in enumerate(depths):
            block = DenseBlock(
                channels, depth, growth, unit=unit, bottleneck=bottleneck, bias=bias, recompute=recompute, dtype=dtype
            )
            self.features.append(block)
            channels = block.outputs
            ready = nn.Sequential(BatchNorm(channels, dtype=dtype), unit.build(channels, dtype))
            if number < len(depths) - 1:
                half = channels // 2
                ready.append(convolution(channels, half, 1, bias=bias, dtype=dtype))
                ready.append(AveragePooling().build(2))
                channels = half
            self.features.append(ready)
        self.build_head(n_classes, unit, mean=True)


class DenseNet(ConvNet):
    r"""DenseNet: every layer reads the channels of all layers before it in its block, and adds a few of its own.

    In a block :math:`x_l=H_l([x_0,\ldots,x_{l-1}])`, where H is norm, unit and convolution; the loss is the mean
    cross-entropy :math:`\log\sum_k e^{o_k}-o_y` of the scores o.

    The default is a small form for images of 8 x 8 pixels and more: three blocks of four layers that add 12 channels
    each. For photographs of 224 x 224 pixels ``depths=(6, 12, 24, 16), growth=32, first=64, bottleneck=4,
    stem="large"`` is DenseNet-121.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, sorted.
    history_ : dict of lists
        ``cross_entropy`` (nats per image), ``gradient_norm``, ``learning_rate`` by epoch.

    Notes
    -----
    Images are arrays (n, rows, columns) or (n, rows, columns, channels) of numbers in [0, 1], or bytes, which are
    divided by 255. A transition is norm, unit, convolution 1 x 1 to half the channels, the mean of windows 2 x 2, so
    that sides must be 2^(blocks - 1) or more. Source: Huang, Liu, van der Maaten and Weinberger (2017).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> net = DenseNet(depths=(2, 2), growth=6, image_shape=(8, 8), epochs=6, batch_size=16, random_state=0)
    >>> net.fit(X[:400] / 16, y[:400]).score(X[400:] / 16, y[400:]) > 0.6
    True
    """

    name: ClassVar[str] = "densenet"
    model_class: ClassVar[type] = DenseNetModel
    sums_channels: ClassVar[bool] = True
    inert_fields: ClassVar[Mapping[str, str]] = {"recompute": "it changes memory and time, and no number"}

    depths: Annotated[tuple[Annotated[int, "[1, inf)"], ...], Doc("Layers of each dense block.")] = (4, 4, 4)
    growth: Annotated[int, "[1, inf)", Doc("Channels that each layer adds.")] = 12
    first: Annotated[int, "[1, inf)", Doc("Channels of the first convolution.")] = 24
    bottleneck: Annotated[
        int, "[0, inf)", Doc("Above 0 a convolution 1x1 to this times growth channels before each 3x3.")
    ] = 0
    stem: Annotated[
        Literal["small", "large"],
        Doc("First layers: a convolution 3x3, or 7x7 and pooling that leave a fourth of the rows and columns."),
    ] = "small"

    recompute: Annotated[
        bool,
        Doc(
            "Whether layers of blocks are computed again on the way back instead of kept: the same numbers in less "
            "memory and more time (gradient checkpointing)."
        ),
    ] = False

    def check_parameters(self) -> None:
        super().check_parameters()
        whole_numbers("depths", self.depths, tuple(range(1, 17)), "a number for each block")

    def arguments(self, examples: Examples) -> dict[str, Any]:
        return super().arguments(examples) | {
            "depths": tuple(map(int, self.depths)), "growth": int(self.growth), "first": int(self.first),
            "bottleneck": int(self.bottleneck), "stem": self.stem, "recompute": self.recompute,
        }  # fmt: skip

    def min_batch_size(self) -> int:
        return 2
