"""Residual networks: basic, bottleneck and pre-activation blocks, wide, grouped, with gates and stochastic depth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import nn

from gnomon.data.examples import Examples
from gnomon.errors import UserValueError
from gnomon.nn.activations import Activation, ReLU
from gnomon.nn.batch_norm import BatchNorm
from gnomon.nn.convolution import convolution
from gnomon.nn.gates import SqueezeExcitation
from gnomon.nn.pooling import MaxPooling
from gnomon.nn.residual import basic_block, bottleneck_block, pre_activation_block
from gnomon.nn.stages import conv_unit
from gnomon.recipes.fields import Doc
from gnomon.systems.vision._images import whole_numbers
from gnomon.systems.vision._network import ConvNet, ConvNetModel, Stem

__all__ = ["ResNet", "ResNetModel"]

EXPANSION = 4
"""Channels that go out of a bottleneck block, times those of its group."""

Block = Literal["basic", "bottleneck", "pre-activation"]


class ResNetModel(ConvNetModel):
    """A stem, groups of residual blocks, the mean over places, a dense layer.

    Parameters
    ----------
    shape : (rows, columns, channels)
    n_classes : int
    depths : tuple of int, default (2, 2, 2, 2)
        Blocks of each group; the first block of every group but the first has stride 2.
    channels : tuple of int, default (64, 128, 256, 512)
        Of each group; bottleneck blocks put out four times as many.
    block : {"basic", "bottleneck", "pre-activation"}, default "basic"
    stem : {"small", "large"}, default "large"
        A convolution 3 x 3, or 7 x 7 with stride 2 and pooling 3 x 3 with stride 2.
    groups, group_width : int, default 1 and 64
        Of bottleneck blocks: their convolution 3 x 3 has groups * (channels * group_width / 64) channels.
    plain : bool, default False
        Basic blocks in which convolutions have biases and projections no norm, as in many texts; published weights
        have neither.
    squeeze : int, default 0
        Above 0 the changes of a block go through `gnomon.nn.gates.SqueezeExcitation` of this reduction.
    drop_path : float in [0, 1), default 0
        Probability to leave out the last block for a row in training; that of the others rises to it linearly.
    activation : Activation, default ReLU()
    dtype : torch.dtype, default torch.float32

    Examples
    --------
    >>> ResNetModel((224, 224, 3), 1000).n_parameters  # ResNet-18
    11689512
    >>> ResNetModel((32, 32, 3), 10, depths=(3, 3, 3), channels=(16, 32, 64), stem="small").n_parameters  # ResNet-20
    272474
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        n_classes: int,
        *,
        depths: tuple[int, ...] = (2, 2, 2, 2),
        channels: tuple[int, ...] = (64, 128, 256, 512),
        block: Block = "basic",
        stem: Stem = "large",
        groups: int = 1,
        group_width: int = 64,
        plain: bool = False,
        squeeze: int = 0,
        drop_path: float = 0.0,
        activation: Activation | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(shape, dtype)
        unit = activation or ReLU()
        self.features = nn.Sequential(_stem(shape[2], channels[0], stem, block, unit, plain, dtype))
        inputs, done, total = channels[0], 0, sum(depths)
        for number, (depth, width) in enumerate(zip(depths, channels, strict=True)):
            group = nn.Sequential()
            for place in range(depth):
                done += 1
                settings: dict[str, Any] = {
                    "unit": unit, "stride": 2 if number and not place else 1, "drop": drop_path * done / total,
                    "dtype": dtype,
                }  # fmt: skip
                if block == "bottleneck":
                    settings |= {"inner": groups * max(1, width * group_width // 64), "groups": groups}
                elif block == "basic":
                    settings |= {"bias": plain, "project_norm": not plain}
                outputs = width * (EXPANSION if block == "bottleneck" else 1)
                if squeeze:
                    settings["gate"] = SqueezeExcitation(outputs, squeeze, unit=unit, dtype=dtype)
                group.append(BLOCKS[block](inputs, outputs, **settings))
                inputs = outputs
            self.features.append(group)
        if block == "pre-activation":
            self.features.append(nn.Sequential(BatchNorm(inputs, dtype=dtype), unit.build(inputs, dtype)))
        self.build_head(n_classes, unit, mean=True)


BLOCKS: dict[str, Any] = {
    "basic": basic_block, "bottleneck": bottleneck_block, "pre-activation": pre_activation_block,
}  # fmt: skip


def _stem(
    inputs: int, channels: int, stem: Stem, block: Block, unit: Activation, plain: bool, dtype: torch.dtype
) -> nn.Module:
    """What stands before the first group; blocks of pre-activation bring their own norm and unit."""
    kernel, stride = (3, 1) if stem == "small" else (7, 2)
    if block == "pre-activation":
        layers = nn.Sequential(
            convolution(inputs, channels, kernel, stride=stride, padding=kernel // 2, bias=False, dtype=dtype)
        )
    else:
        layers = conv_unit(inputs, channels, kernel, unit=unit, stride=stride, bias=plain, dtype=dtype)
    if stem == "large":
        layers.append(MaxPooling().build(3, 2, 1))
    return layers


class ResNet(ConvNet):
    r"""Residual network: blocks that learn what to add to their input, :math:`y=x+F(x)`.

    The default is ResNet-20 for small images: three groups of three blocks with 16, 32 and 64 channels, a stem without
    pooling. Deeper, ``depths=(9, 9, 9)`` is ResNet-56; ``channels=(64, 128, 256), block="pre-activation"`` and
    ``depths=(4, 4, 4)`` wide residual networks. For photographs of 224 x 224 pixels ``depths=(2, 2, 2, 2),
    channels=(64, 128, 256, 512), stem="large"`` is ResNet-18, with ``depths=(3, 4, 6, 3), block="bottleneck"``
    ResNet-50, and with ``groups=32, group_width=4`` ResNeXt-50; ``squeeze=16`` adds channel attention (SE-ResNet).

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, sorted.
    history_ : dict of lists
        ``cross_entropy`` (nats per image), ``gradient_norm``, ``learning_rate`` by epoch.

    Notes
    -----
    Images are arrays (n, rows, columns) or (n, rows, columns, channels) of numbers in [0, 1], or bytes, which are
    divided by 255. ResNet-20 takes 31 million multiplications per image of 28 x 28, three times as many with the way
    back. Sources: He, Zhang, Ren and Sun (2016); "Identity mappings" (2016) by the same; Zagoruyko and Komodakis
    (2016); Xie et al. (2017); Huang et al. (2016).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> net = ResNet(image_shape=(8, 8), depths=(1, 1), channels=(8, 16), epochs=6, batch_size=16, random_state=0)
    >>> net.fit(X[:400] / 16, y[:400]).score(X[400:] / 16, y[400:]) > 0.6
    True
    """

    name: ClassVar[str] = "resnet"
    model_class: ClassVar[type] = ResNetModel
    sums_channels: ClassVar[bool] = True
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        **ConvNet.acts_with,
        "groups": {"block": "bottleneck"},
        "group_width": {"block": "bottleneck", "channels": (64, 64)},
    }

    depths: Annotated[tuple[Annotated[int, "[1, inf)"], ...], Doc("Blocks of each group, 3x3x3 for ResNet-20.")] = (
        3, 3, 3,
    )  # fmt: skip
    channels: Annotated[
        tuple[Annotated[int, "[1, inf)"], ...],
        Doc("Channels of each group; bottleneck blocks put out four times as many."),
    ] = (16, 32, 64)
    block: Annotated[
        Literal["basic", "bottleneck", "pre-activation"],
        Doc("Two convolutions 3x3, a narrow one between two 1x1, or two with norm and unit before each."),
    ] = "basic"
    stem: Annotated[
        Literal["small", "large"],
        Doc("First layers: a convolution 3x3, or 7x7 and pooling that leave a fourth of the rows and columns."),
    ] = "small"
    groups: Annotated[int, "[1, inf)", Doc("Parallel branches of bottleneck blocks; more than 1 is ResNeXt.")] = 1
    group_width: Annotated[
        int, "[1, inf)", Doc("Channels of each branch in a group of 64 channels; wider groups have more in proportion.")
    ] = 64
    squeeze: Annotated[
        int, "[0, inf)", Doc("Above 0 each block weighs its channels by their means, through channels / squeeze units.")
    ] = 0
    drop_path: Annotated[
        float, "[0, 1)", Doc("Probability to leave out the last block for an image in training; linear from 0 before.")
    ] = 0.0

    def check_parameters(self) -> None:
        super().check_parameters()
        lengths = tuple(range(1, 33))
        whole_numbers("depths", self.depths, lengths, "a number for each group")
        whole_numbers("channels", self.channels, (len(self.depths),), "as many numbers as depths")
        if self.block != "bottleneck" and (self.groups > 1 or self.group_width != 64):
            raise UserValueError(
                f"groups and group_width are of bottleneck blocks, got block={self.block!r}",
                "groups",
                "give block='bottleneck', or leave them out",
            )

    def arguments(self, examples: Examples) -> dict[str, Any]:
        return super().arguments(examples) | {
            "depths": tuple(map(int, self.depths)), "channels": tuple(map(int, self.channels)), "block": self.block,
            "stem": self.stem, "groups": int(self.groups), "group_width": int(self.group_width),
            "squeeze": int(self.squeeze), "drop_path": float(self.drop_path),
        }  # fmt: skip

    def min_batch_size(self) -> int:
        return 2
