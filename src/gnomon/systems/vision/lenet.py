"""LeNet-5: two convolutions with pooling and three dense layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch
from torch import nn

from gnomon.contracts import Noise
from gnomon.data.examples import Examples
from gnomon.nn.activations import Activation, ReLU
from gnomon.nn.convolution import convolution
from gnomon.nn.dropout import Dropout
from gnomon.nn.initializers import Initializer, initialize
from gnomon.nn.layers import dense
from gnomon.nn.pooling import MaxPooling, Pooling
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.vision._images import too_small, whole_numbers
from gnomon.systems.vision._network import ConvNet, ConvNetModel

__all__ = ["LeNet", "LeNetModel"]

KERNEL = 5
LEAST = 4
"""Rows and columns without which nothing is left behind two poolings."""
ROOMY = 12
"""Rows and columns from which the second convolution needs no padding."""


class LeNetModel(ConvNetModel):
    """Convolution 5 x 5 (padding 2), unit, pooling 2 x 2; once more; dense, unit; dense, unit; dense.

    Parameters
    ----------
    shape : (rows, columns, channels)
        Of an image, at least 4 x 4.
    n_classes : int
    channels : (int, int), default (6, 16)
        Feature maps of the convolutions.
    hidden : (int, int), default (120, 84)
        Units of the dense layers.
    activation : Activation, default ReLU()
    pooling : Pooling, default MaxPooling()
    dropout : float in [0, 1), default 0
        Probability to drop an output of a hidden dense layer in training.
    dtype : torch.dtype, default torch.float32

    Notes
    -----
    The second convolution has no padding, as in the original, where rows and columns are 12 or more: 28 x 28 pixels
    become 14 x 14, 10 x 10, 5 x 5, and 400 features. In smaller images it has padding 2, so that its 5 x 5 window fits:
    8 x 8 become 4 x 4 and 2 x 2. 61,706 parameters for 28 x 28 grey pixels and 10 classes.

    Examples
    --------
    >>> LeNetModel((28, 28, 1), 10).n_parameters
    61706
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        n_classes: int,
        *,
        channels: tuple[int, int] = (6, 16),
        hidden: tuple[int, int] = (120, 84),
        activation: Activation | None = None,
        pooling: Pooling | None = None,
        dropout: float = 0.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(shape, dtype)
        if min(shape[:2]) < LEAST:
            raise too_small(shape, LEAST, "two poolings by 2")
        unit, pool = activation or ReLU(), pooling or MaxPooling()
        half = (KERNEL - 1) // 2
        padding = 0 if min(shape[:2]) >= ROOMY else half
        sides = [(side // 2 + 2 * padding - KERNEL + 1) // 2 for side in shape[:2]]
        first, second = channels
        self.features = nn.Sequential(
            convolution(shape[2], first * unit.widening, KERNEL, padding=half, dtype=dtype),
            unit.build(first, dtype), pool.build(2),
            convolution(first, second * unit.widening, KERNEL, padding=padding, dtype=dtype),
            unit.build(second, dtype), pool.build(2),
        )  # fmt: skip
        sizes = (second * sides[0] * sides[1], *hidden)
        widths = [*(units * unit.widening for units in hidden), n_classes]
        self.dense = nn.ModuleList([dense(a, b, dtype=dtype) for a, b in zip(sizes, widths, strict=True)])
        self.units = nn.ModuleList([unit.build(units, dtype) for units in hidden])
        self.drops = nn.ModuleList([Dropout(dropout) if dropout else nn.Identity() for _ in hidden])
        self.gain = unit.gain

    def initialize(self, initializer: Initializer, noise: Noise) -> None:
        """Initial weights: every layer but the last with the gain of the units behind it."""
        hidden = ("features.0", "features.3", "dense.0", "dense.1")
        initialize(self, initializer, noise, gain=dict.fromkeys(hidden, self.gain))

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the classes, shape (n, n_classes), of images (n, rows, columns, channels)."""
        h = self.features(self.first(x)).flatten(1)
        for layer, unit, drop in zip(self.dense, self.units, self.drops, strict=False):
            h = drop(unit(layer(h)))
        scores: torch.Tensor = self.dense[-1](h)
        return scores


class LeNet(ConvNet):
    r"""Convolutional classifier of small images: LeNet-5 with units, pooling and training of choice.

    Two blocks of convolution 5 x 5, activation and pooling 2 x 2 see edges and their arrangement; three dense layers
    turn what is left into scores; the loss is the mean cross-entropy :math:`\log\sum_k e^{o_k} - o_y`. Pixels are
    brought to mean 0 and spread 1 by channel over the training images. The first convolution has padding 2; the second
    has none where images have 12 rows and columns or more, else padding 2 as well, so that images from 4 x 4 on fit.

    The original of 1998 had tanh units, average pooling with trained factors, no dropout, and sparse connections
    between the blocks. ``LeNet(activation="tanh", pooling="average", dropout=0)`` is nearest: factors and sparse
    connections are left out, as in most texts. ``activation="sigmoid"`` needs the initializer's default, Xavier's.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, sorted.
    history_ : dict of lists
        ``cross_entropy`` (nats per image), ``gradient_norm``, ``learning_rate`` by epoch.

    Notes
    -----
    Images are arrays (n, rows, columns) or (n, rows, columns, channels) of numbers in [0, 1], or bytes, which are
    divided by 255. 0.42 million multiplications per image of 28 x 28 forward, three times as many with the way back.
    Source: LeCun, Bottou, Bengio and Haffner (1998).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> net = LeNet(image_shape=(8, 8), epochs=5, learning_rate=0.005, random_state=0).fit(X[:500] / 16, y[:500])
    >>> net.score(X[500:] / 16, y[500:]) > 0.7
    True
    """

    name: ClassVar[str] = "lenet"
    model_class: ClassVar[type] = LeNetModel
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"pooling": Pooling}

    channels: Annotated[
        tuple[Annotated[int, "[1, inf)"], Annotated[int, "[1, inf)"]], Doc("Feature maps of the two convolutions.")
    ] = (6, 16)
    hidden: Annotated[
        tuple[Annotated[int, "[1, inf)"], Annotated[int, "[1, inf)"]], Doc("Units of the two dense layers.")
    ] = (120, 84)
    pooling: Annotated[str | Recipe, Doc("What is taken from each window of 2 x 2.")] = "max"
    dropout: Annotated[float, "[0, 1)", Doc("Probability to drop an output of a hidden dense layer in training.")] = 0.3
    initializer: str | Recipe = "xavier-uniform"

    def check_parameters(self) -> None:
        super().check_parameters()
        whole_numbers("channels", self.channels, (2,), "two numbers")
        whole_numbers("hidden", self.hidden, (2,), "two numbers")

    def arguments(self, examples: Examples) -> dict[str, Any]:
        return super().arguments(examples) | {
            "channels": tuple(map(int, self.channels)), "hidden": tuple(map(int, self.hidden)),
            "pooling": self.recipe("pooling"), "dropout": float(self.dropout),
        }  # fmt: skip
