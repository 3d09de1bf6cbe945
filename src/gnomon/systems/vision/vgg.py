"""VGG networks: blocks of convolutions 3 x 3 and a pooling by 2, then dense layers."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, ClassVar

import torch
from torch import nn

from gnomon.data.examples import Examples
from gnomon.nn.activations import Activation, ReLU
from gnomon.nn.pooling import MaxPooling
from gnomon.nn.stages import conv_unit
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import check_layer_sizes
from gnomon.systems.vision._images import whole_numbers
from gnomon.systems.vision._network import ConvNet, ConvNetModel

__all__ = ["VGG", "VGGModel", "vgg_block"]


def vgg_block(
    inputs: int,
    channels: int,
    convolutions: int,
    *,
    unit: Activation,
    norm: bool = False,
    dtype: torch.dtype | None = None,
) -> nn.Sequential:
    """Convolutions 3 x 3 with padding 1 and as many channels, each with its unit, then the maximum of windows 2 x 2.

    Parameters
    ----------
    inputs, channels : int >= 1
    convolutions : int >= 1
        n of them see 2 n + 1 rows and columns before the pooling; an odd row or column at the end is left out by it.
    unit : Activation
    norm : bool, default False
        Whether convolutions are normalized over the batch.
    dtype : torch.dtype, optional

    Examples
    --------
    >>> vgg_block(3, 8, 2, unit=ReLU())(torch.zeros(1, 3, 9, 6)).shape
    torch.Size([1, 8, 4, 3])
    """
    sizes = [inputs, *[channels] * convolutions]
    layers = [conv_unit(a, b, 3, unit=unit, norm=norm, dtype=dtype) for a, b in pairwise(sizes)]
    return nn.Sequential(*layers, MaxPooling().build(2))


class VGGModel(ConvNetModel):
    """Blocks of convolutions, dense layers with dropout, a dense layer of scores.

    Parameters
    ----------
    shape : (rows, columns, channels)
    n_classes : int
    convolutions : tuple of int, default (1, 1, 2, 2, 2)
        Of each block: VGG-11; (2, 2, 4, 4, 4) is VGG-19.
    channels : tuple of int, default (64, 128, 256, 512, 512)
    hidden : tuple of int, default (4096, 4096)
    batch_norm : bool, default False
    dropout : float in [0, 1), default 0.5
    activation : Activation, default ReLU()
    dtype : torch.dtype, default torch.float32

    Examples
    --------
    >>> VGGModel((32, 32, 3), 10, channels=(8, 16, 16, 32, 32), hidden=(64,)).n_parameters
    41178
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        n_classes: int,
        *,
        convolutions: tuple[int, ...] = (1, 1, 2, 2, 2),
        channels: tuple[int, ...] = (64, 128, 256, 512, 512),
        hidden: tuple[int, ...] = (4096, 4096),
        batch_norm: bool = False,
        dropout: float = 0.5,
        activation: Activation | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(shape, dtype)
        unit = activation or ReLU()
        self.features, inputs = nn.Sequential(), shape[2]
        for number, width in zip(convolutions, channels, strict=True):
            self.features.append(vgg_block(inputs, width, number, unit=unit, norm=batch_norm, dtype=dtype))
            inputs = width
        self.build_head(n_classes, unit, hidden, dropout=dropout)


class VGG(ConvNet):
    r"""VGG network: blocks of convolutions 3 x 3 that halve rows and columns while their channels grow, dense layers.

    n convolutions 3 x 3 see as much as one of :math:`2n+1` rows and columns, with fewer weights and more units between.
    The loss is the mean cross-entropy :math:`\log\sum_k e^{o_k}-o_y` of the scores o.

    The default has three blocks for images of 8 x 8 pixels and more, normalized over the batch. For photographs of
    224 x 224 pixels ``convolutions=(1, 1, 2, 2, 2), channels=(64, 128, 256, 512, 512), hidden=(4096, 4096),
    batch_norm=False, dropout=0.5`` is VGG-11, with ``convolutions=(2, 2, 4, 4, 4)`` VGG-19.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, sorted.
    history_ : dict of lists
        ``cross_entropy`` (nats per image), ``gradient_norm``, ``learning_rate`` by epoch.

    Notes
    -----
    Images are arrays (n, rows, columns) or (n, rows, columns, channels) of numbers in [0, 1], or bytes, which are
    divided by 255. Each block halves the sides, so that they must be 2^blocks or more. Source: Simonyan and Zisserman
    (2015), table 1.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> net = VGG(
    ...     convolutions=(1, 1), channels=(8, 16), hidden=(32,), image_shape=(8, 8), epochs=8, batch_size=16,
    ...     random_state=0,
    ... )
    >>> net.fit(X[:400] / 16, y[:400]).score(X[400:] / 16, y[400:]) > 0.6
    True
    """

    name: ClassVar[str] = "vgg"
    model_class: ClassVar[type] = VGGModel

    convolutions: Annotated[
        tuple[Annotated[int, "[1, inf)"], ...], Doc("Convolutions of each block; a pooling by 2 follows each block.")
    ] = (2, 2, 2)
    channels: Annotated[tuple[Annotated[int, "[1, inf)"], ...], Doc("Feature maps of each block.")] = (32, 64, 128)
    hidden: Annotated[tuple[Annotated[int, "[1, inf)"], ...], Doc("Units of the hidden dense layers.")] = (128,)
    batch_norm: Annotated[bool, Doc("Whether convolutions are normalized over the batch before their units.")] = True
    dropout: Annotated[float, "[0, 1)", Doc("Probability to drop an output of a hidden dense layer in training.")] = 0.5

    def check_parameters(self) -> None:
        super().check_parameters()
        whole_numbers("convolutions", self.convolutions, tuple(range(1, 17)), "a number for each block")
        whole_numbers("channels", self.channels, (len(self.convolutions),), "as many numbers as convolutions")
        check_layer_sizes(self.hidden)

    def arguments(self, examples: Examples) -> dict[str, Any]:
        return super().arguments(examples) | {
            "convolutions": tuple(map(int, self.convolutions)), "channels": tuple(map(int, self.channels)),
            "hidden": tuple(map(int, self.hidden)), "batch_norm": self.batch_norm, "dropout": float(self.dropout),
        }  # fmt: skip

    def min_batch_size(self) -> int:
        return 2 if self.batch_norm else 1
