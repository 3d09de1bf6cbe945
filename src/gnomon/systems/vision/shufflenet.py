"""ShuffleNet: units of group convolutions whose channels are shuffled in between."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import nn

from gnomon.data.examples import Examples
from gnomon.nn.activations import Activation, ReLU
from gnomon.nn.pooling import MaxPooling
from gnomon.nn.shuffle import shuffle_unit
from gnomon.nn.stages import conv_unit
from gnomon.recipes.fields import Doc
from gnomon.systems.vision._images import whole_numbers
from gnomon.systems.vision._network import ConvNet, ConvNetModel, Stem

__all__ = ["ShuffleNet", "ShuffleNetModel"]


class ShuffleNetModel(ConvNetModel):
    """A stem, groups of shuffle units of which the first has stride 2, the mean over places, a dense layer.

    Parameters
    ----------
    shape : (rows, columns, channels)
    n_classes : int
    depths : tuple of int, default (4, 8, 4)
        Units of each stage.
    channels : tuple of int, default (240, 480, 960)
        Of each stage.
    groups : int, default 3
    first : int, default 24
        Channels of the stem.
    stem : {"small", "large"}, default "large"
        A convolution 3 x 3; or with stride 2 and pooling by 2.
    activation : Activation, default ReLU()
    dtype : torch.dtype, default torch.float32

    Examples
    --------
    >>> ShuffleNetModel((8, 8, 1), 10, depths=(1, 2), channels=(48, 96), stem="small").n_parameters
    5038
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        n_classes: int,
        *,
        depths: tuple[int, ...] = (4, 8, 4),
        channels: tuple[int, ...] = (240, 480, 960),
        groups: int = 3,
        first: int = 24,
        stem: Stem = "large",
        activation: Activation | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(shape, dtype)
        unit = activation or ReLU()
        self.features = nn.Sequential(
            conv_unit(shape[2], first, 3, unit=unit, stride=1 if stem == "small" else 2, dtype=dtype)
        )
        if stem == "large":
            self.features.append(MaxPooling().build(3, 2, 1))
        inputs = first
        for number, (depth, outputs) in enumerate(zip(depths, channels, strict=True)):
            stage = nn.Sequential()
            for place in range(depth):
                stage.append(
                    shuffle_unit(
                        inputs, outputs, unit=unit, groups=groups, stride=1 if place else 2,
                        grouped_inputs=number > 0 or place > 0, dtype=dtype,
                    )
                )  # fmt: skip
                inputs = outputs
            self.features.append(stage)
        self.build_head(n_classes, unit, mean=True)


class ShuffleNet(ConvNet):
    r"""ShuffleNet: a residual network for few multiplications, of group convolutions with shuffled channels.

    The shuffle moves channel j of group i of g groups to place :math:`gj+i`, so that the next groups read channels of
    each; the loss is the mean cross-entropy :math:`\log\sum_k e^{o_k}-o_y`.

    The default is a small form for images of 8 x 8 pixels and more. For photographs of 224 x 224 pixels ``depths=(4, 8,
    4), channels=(240, 480, 960), stem="large"`` is the published network with three groups.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, sorted.
    history_ : dict of lists
        ``cross_entropy`` (nats per image), ``gradient_norm``, ``learning_rate`` by epoch.

    Notes
    -----
    Images are arrays (n, rows, columns) or (n, rows, columns, channels) of numbers in [0, 1], or bytes, which are
    divided by 255. A fourth of the channels of a stage, and what a stage adds to the channels before it, must be
    multiples of the groups. Source: Zhang, Zhou, Lin and Sun (2018), table 1.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> net = ShuffleNet(depths=(2,), channels=(48,), image_shape=(8, 8), epochs=6, batch_size=16, random_state=0)
    >>> net.fit(X[:400] / 16, y[:400]).score(X[400:] / 16, y[400:]) > 0.6
    True
    """

    name: ClassVar[str] = "shufflenet"
    model_class: ClassVar[type] = ShuffleNetModel
    sums_channels: ClassVar[bool] = True
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        **ConvNet.acts_with, "channels": {"groups": 1, "first": 2},
    }  # fmt: skip

    depths: Annotated[
        tuple[Annotated[int, "[1, inf)"], ...], Doc("Units of each stage, which halves rows and columns.")
    ] = (2, 4, 2)
    channels: Annotated[tuple[Annotated[int, "[1, inf)"], ...], Doc("Channels of each stage.")] = (60, 120, 240)
    groups: Annotated[int, "[1, inf)", Doc("Groups of the convolutions 1x1.")] = 3
    first: Annotated[int, "[1, inf)", Doc("Channels of the first convolution.")] = 24
    stem: Annotated[
        Literal["small", "large"],
        Doc("First layers: a convolution 3x3, or one of stride 2 and pooling that leave a fourth of rows and columns."),
    ] = "small"

    def check_parameters(self) -> None:
        super().check_parameters()
        whole_numbers("depths", self.depths, tuple(range(1, 17)), "a number for each stage")
        whole_numbers("channels", self.channels, (len(self.depths),), "as many numbers as depths")

    def arguments(self, examples: Examples) -> dict[str, Any]:
        return super().arguments(examples) | {
            "depths": tuple(map(int, self.depths)), "channels": tuple(map(int, self.channels)),
            "groups": int(self.groups), "first": int(self.first), "stem": self.stem,
        }  # fmt: skip

    def min_batch_size(self) -> int:
        return 2
