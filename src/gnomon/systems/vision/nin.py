"""Network in network: convolutions followed by dense layers at every pixel, and the mean over places as head."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import nn

from gnomon.data.examples import Examples
from gnomon.nn.activations import Activation, ReLU
from gnomon.nn.convolution import convolution
from gnomon.nn.dropout import Dropout
from gnomon.nn.pooling import GlobalPool, MaxPooling
from gnomon.nn.stages import conv_unit
from gnomon.recipes.fields import Doc
from gnomon.systems.vision._images import whole_numbers
from gnomon.systems.vision._network import ConvNet, ConvNetModel, Stem

__all__ = ["NiN", "NiNModel", "nin_block"]

LARGE = ((11, 4, 0), (5, 1, 2), (3, 1, 1))
"""Window, stride and padding of the first convolution of each block."""
SMALL = ((5, 1, 2), (5, 1, 2), (3, 1, 1))


def nin_block(
    inputs: int,
    channels: int,
    window: int,
    stride: int = 1,
    padding: int = 0,
    *,
    unit: Activation,
    norm: bool = False,
    last_unit: bool = True,
    dtype: torch.dtype | None = None,
) -> nn.Sequential:
    """A convolution and two of 1 x 1 with as many channels, a unit behind each.

    Parameters
    ----------
    inputs, channels, window, stride, padding : int
    unit : Activation
    norm : bool, default False
        Whether convolutions are normalized over the batch.
    last_unit : bool, default True
        Whether the last convolution is followed by a unit (and its norm); scores behind a rectifier are never below 0.
    dtype : torch.dtype, optional

    References
    ----------
    Lin, Chen and Yan (2014), section 3.1.

    Examples
    --------
    >>> nin_block(3, 8, 5, padding=2, unit=ReLU())(torch.zeros(1, 3, 6, 6)).shape
    torch.Size([1, 8, 6, 6])
    """
    settings: dict[str, Any] = {"unit": unit, "norm": norm, "dtype": dtype}
    block = nn.Sequential(
        conv_unit(inputs, channels, window, stride=stride, padding=padding, **settings),
        conv_unit(channels, channels, 1, **settings),
    )
    if last_unit:
        return block.append(conv_unit(channels, channels, 1, **settings))
    return block.append(convolution(channels, channels, 1, dtype=dtype))


class NiNModel(ConvNetModel):
    """Three blocks with poolings of 3 x 3 by 2, dropout, a block with a map for each class, the mean over places.

    Parameters
    ----------
    shape : (rows, columns, channels)
    n_classes : int
    channels : tuple of three int, default (96, 256, 384)
    stem : {"small", "large"}, default "large"
        First window 11 x 11 with stride 4 and poolings without padding; or 5 x 5 with stride 1 and padding.
    batch_norm : bool, default False
    rectified : bool, default True
        Whether a unit stands between the last convolution and the mean.
    dropout : float in [0, 1), default 0.5
    activation : Activation, default ReLU()
    dtype : torch.dtype, default torch.float32

    Examples
    --------
    >>> NiNModel((224, 224, 1), 10).n_parameters
    1992166
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        n_classes: int,
        *,
        channels: tuple[int, ...] = (96, 256, 384),
        stem: Stem = "large",
        batch_norm: bool = False,
        rectified: bool = True,
        dropout: float = 0.5,
        activation: Activation | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(shape, dtype)
        unit = activation or ReLU()
        self.gain = unit.gain
        settings: dict[str, Any] = {"unit": unit, "norm": batch_norm, "dtype": dtype}
        self.features, inputs = nn.Sequential(), shape[2]
        for width, windows in zip(channels, LARGE if stem == "large" else SMALL, strict=True):
            self.features.append(nin_block(inputs, width, *windows, **settings))
            self.features.append(MaxPooling().build(3, 2, 0 if stem == "large" else 1))
            inputs = width
        self.check_size()
        last = nin_block(inputs, n_classes, 3, 1, 1, last_unit=rectified, **settings)
        self.head = nn.Sequential(Dropout(dropout), last, GlobalPool())


class NiN(ConvNet):
    r"""Network in network: at every pixel a small dense network, and in place of dense layers a map for each class.

    The score of a class is the mean of its map, :math:`o_k=\frac{1}{IJ}\sum_{ij}Y_{kij}`; the loss is the mean
    cross-entropy :math:`\log\sum_k e^{o_k}-o_y`.

    Each block is a convolution and two convolutions 1 x 1; the last block has a map for each class, whose mean over all
    places is the score. The default is a small form for images of 8 x 8 pixels and more, normalized over the batch and
    without a rectifier behind the last convolution, which would keep scores from falling below 0. For photographs of
    224 x 224 pixels ``stem="large", channels=(96, 256, 384), batch_norm=False, rectified=True`` is the published form.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, sorted.
    history_ : dict of lists
        ``cross_entropy`` (nats per image), ``gradient_norm``, ``learning_rate`` by epoch.

    Notes
    -----
    Images are arrays (n, rows, columns) or (n, rows, columns, channels) of numbers in [0, 1], or bytes, which are
    divided by 255. Source: Lin, Chen and Yan (2014).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> net = NiN(channels=(16, 16, 16), image_shape=(8, 8), epochs=10, batch_size=16, dropout=0, random_state=0)
    >>> net.fit(X[:400] / 16, y[:400]).score(X[400:] / 16, y[400:]) > 0.6
    True
    """

    name: ClassVar[str] = "nin"
    model_class: ClassVar[type] = NiNModel

    channels: Annotated[
        tuple[Annotated[int, "[1, inf)"], Annotated[int, "[1, inf)"], Annotated[int, "[1, inf)"]],
        Doc("Feature maps of the three blocks."),
    ] = (32, 64, 96)
    stem: Annotated[
        Literal["small", "large"],
        Doc("First window 5x5 and poolings with padding, or 11x11 with stride 4 for images of 67 rows and more."),
    ] = "small"
    batch_norm: Annotated[bool, Doc("Whether convolutions are normalized over the batch before their units.")] = True
    rectified: Annotated[bool, Doc("Whether a unit stands behind the last convolution, before the mean.")] = False
    dropout: Annotated[float, "[0, 1)", Doc("Probability to drop a feature before the last block in training.")] = 0.5

    def check_parameters(self) -> None:
        super().check_parameters()
        whole_numbers("channels", self.channels, (3,), "three numbers")

    def arguments(self, examples: Examples) -> dict[str, Any]:
        return super().arguments(examples) | {
            "channels": tuple(map(int, self.channels)), "stem": self.stem, "batch_norm": self.batch_norm,
            "rectified": self.rectified, "dropout": float(self.dropout),
        }  # fmt: skip

    def min_batch_size(self) -> int:
        return 2 if self.batch_norm else 1
