"""A fully convolutional network: a label for each pixel of images of any size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch
from torch import nn
from torch.nn import functional

from gnomon.contracts import Noise
from gnomon.nn.activations import Activation, ReLU
from gnomon.nn.convolution import convolution
from gnomon.nn.initializers import Initializer, initialize
from gnomon.nn.stages import conv_stages
from gnomon.nn.upsampling import transposed_convolution
from gnomon.objectives.criterion import ClassificationLoss
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.vision._images import ImageModel
from gnomon.systems.vision._pixels import PixelClassifier

__all__ = ["FCN", "FCNModel"]

BILINEAR = (0.25, 0.75, 0.75, 0.25)
"""What a window of four places takes from values that stand two apart, along each axis."""


class FCNModel(ImageModel):
    r"""Stages of convolutions at rising scales, scores of each, enlarged and added from the coarsest to the finest.

    With the maps :math:`h_0, h_1, \dots` of the stages, each at half the resolution of the one before, and 1 x 1
    convolutions :math:`c_i`, the scores are :math:`s_i = c_i(h_i) + U_i s_{i+1}`; U doubles rows and columns.

    Parameters
    ----------
    image_channels, n_classes : int
    channels : tuple of int
        Maps of each stage; there are as many stages.
    convolutions : int, default 2
        Of each stage.
    window : int, default 3
        Rows and columns of their windows, odd.
    batch_norm : bool, default True
    activation : Activation, default ReLU()
    dtype : torch.dtype, default torch.float32

    Attributes
    ----------
    stride : int
        Pixels by which an image must be moved so that its scores move with it: :math:`2^{stages - 1}`.

    Examples
    --------
    >>> net = FCNModel(1, 3, channels=(4, 8))
    >>> net.scores(torch.zeros(2, 5, 7, 1)).shape, net.stride, net.receptive_radius
    (torch.Size([2, 5, 7, 3]), 2, 8)
    """

    backbone: ClassVar[tuple[str, ...]] = ("shift", "scale", "stages.")

    def __init__(
        self,
        image_channels: int,
        n_classes: int,
        *,
        channels: tuple[int, ...] = (16, 32, 64),
        convolutions: int = 2,
        window: int = 3,
        batch_norm: bool = True,
        activation: Activation | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__((1, 1, image_channels), dtype)
        unit = activation or ReLU()
        self.gain, self.reach, self.stride = unit.gain, convolutions * (window // 2), 2 ** (len(channels) - 1)
        self.stages = conv_stages(
            image_channels, channels, convolutions=convolutions, window=window, unit=unit, norm=batch_norm, dtype=dtype
        )
        self.heads, self.enlarge = nn.ModuleList(), nn.ModuleList()
        for number, maps in enumerate(channels):
            self.heads.append(convolution(maps, n_classes, 1, dtype=dtype))
            if number:
                doubled = transposed_convolution(
                    n_classes, n_classes, 4, stride=2, padding=1, bias=False, dtype=dtype
                )  # fmt: skip
                self.enlarge.append(doubled)

    @property
    def receptive_radius(self) -> int:
        """Pixels, up or down or across, beyond which nothing changes the scores of a pixel.

        Found by following the places that a score is made from down the stages and back to the pixels.
        """
        return max(self._radius(place) for place in range(self.stride))

    def _radius(self, place: int) -> int:
        """Of a pixel at this place in a block of `stride` pixels."""
        low = high = place
        farthest = 0
        for number in range(len(self.stages)):
            if number:  # a doubled place is made from two that stand around it
                low, high = -((2 - low) // 2), (high + 1) // 2
            first, last = low - self.reach, high + self.reach
            for _ in range(number):
                first, last = 2 * first - self.reach, 2 * last + 1 + self.reach
            farthest = max(farthest, place - first, last - place)
        return farthest

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        """Scores (n, rows, columns, n_classes) of images (n, rows, columns, channels).

        Rows and columns are filled up to a multiple of `stride`, at the bottom and the right, with the mean color of
        the training images, and cut off again.
        """
        rows, columns = x.shape[1:3]
        maps = functional.pad(self.first(x), (0, -columns % self.stride, 0, -rows % self.stride))
        found = []
        for stage, head in zip(self.stages, self.heads, strict=True):
            maps = stage(maps)
            found.append(head(maps))
        scores: torch.Tensor = found.pop()
        for doubled in reversed(self.enlarge):
            scores = doubled(scores) + found.pop()
        return scores[..., :rows, :columns].permute(0, 2, 3, 1)

    def learning_stages(self) -> list[tuple[str, ...]]:
        """The stages of convolutions; the scores of all of them are the output layer."""
        return [*((f"stages.{number}.",) for number in range(len(self.stages))), ("heads.", "enlarge.")]

    def initialize(self, initializer: Initializer, noise: Noise) -> None:
        """Initial weights: convolutions with the gain of the units behind them, enlarging that interpolates."""
        hidden = {f"stages.{name}": self.gain for name, _ in self.stages.named_modules()}
        initialize(self, initializer, noise, gain=hidden)
        line = torch.tensor(BILINEAR, dtype=self.shift.dtype)
        with torch.no_grad():
            for kernel in self.enlarge.parameters():
                classes = torch.eye(len(kernel), dtype=line.dtype)
                kernel.copy_(classes[:, :, None, None] * torch.outer(line, line))


class FCN(PixelClassifier):
    r"""Fully convolutional network: the class of every pixel, of images of any size.

    The loss is the mean over pixels of the cross-entropy :math:`\log\sum_k e^{o_k}-o_y` of the scores
    :math:`o = c_0(h_0) + U_0 (c_1(h_1) + U_1 (\dots))`: stages of convolutions :math:`h_i`, each at half the resolution
    of the one before it (max pooling), a 1 x 1 convolution :math:`c_i` for the scores of each, and :math:`U_i`, which
    doubles rows and columns by a transposed convolution that begins as bilinear interpolation. There is no dense layer,
    so that the output has the size of the input, whatever it is.

    Labels are whole numbers, an array (n, rows, columns); pixels labeled -1 are not learned from and not scored.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, rising.
    history_ : dict of lists
        ``cross_entropy`` (nats per labeled pixel), ``gradient_norm``, ``learning_rate`` by epoch.

    Notes
    -----
    Images are arrays (n, rows, columns) or (n, rows, columns, channels) of numbers in [0, 1], or bytes, which are
    divided by 255. `predict` also takes a list of images of several sizes. Away from the border (farther than
    ``model_.receptive_radius`` pixels) the answer moves with the image by multiples of ``model_.stride`` pixels, and a
    tile gets what it gets in the whole image; nearer, the zeros count that convolutions see beyond the border. Sizes
    that the stride does not divide are filled up at the bottom and the right. A convolution takes rows * columns *
    (2 radius + 1)^2 * maps in * maps out multiplications an image, a stage's at a quarter of the pixels of the one
    before it, three times as many with the way back. Source: Long, Shelhamer and Darrell (2015); padded convolutions
    and max pooling throughout, in place of VGG's layers.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).random((40, 8, 8))
    >>> y = (X > 0.5).astype(int)
    >>> net = FCN(channels=(4,), convolutions=1, epochs=8, batch_size=8, learning_rate=0.05, random_state=0)
    >>> net.fit(X, y).predict(np.zeros((1, 5, 11))).shape, net.score(X, y) > 0.8
    ((1, 5, 11), True)
    """

    name: ClassVar[str] = "fcn"
    model_class: ClassVar[type] = FCNModel
    slots: ClassVar[Mapping[str, type[Recipe]]] = {
        "loss": ClassificationLoss, "activation": Activation, "initializer": Initializer,
    }  # fmt: skip

    loss: Annotated[
        str | Recipe, Doc("Of the scores and the classes: class weights, smoothing; see `gnomon.objectives.losses`.")
    ] = "cross-entropy"

    def make(self, *, image_channels: int, n_classes: int, dtype: str, channels: Any, **layers: Any) -> FCNModel:
        chosen = tuple(int(maps) for maps in channels)
        return FCNModel(image_channels, n_classes, channels=chosen, dtype=getattr(torch, dtype), **layers)
