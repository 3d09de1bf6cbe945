"""A plain convolutional network, its layers written as a short text: 32c3-p2-64c3-p2-128."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import torch
from torch import nn

from gnomon.data.examples import Examples
from gnomon.distributions.images import Images
from gnomon.nn.activations import Activation, ReLU
from gnomon.nn.norms import BatchNormalization, Norm
from gnomon.nn.pooling import GlobalPool, MaxPooling, Pooling, SpatialPyramid
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.vision._layers import ROWS, Layer, Maker, layers_of
from gnomon.systems.vision._network import ConvNet, ConvNetModel, map_shape

__all__ = ["CNN", "CNNModel"]

OF_ONE_SIZE = ("pixel-mean", "whitening")
"""Steps of preprocessing that learn a number for each pixel."""


class CNNModel(ConvNetModel):
    """Convolutions that keep rows and columns, poolings, dense layers, as a text says; a dense layer of scores.

    Parameters
    ----------
    shape : (rows, columns, channels)
    n_classes : int
    layers : str
        See `CNN`.
    norm : Norm, default BatchNormalization()
        Between convolutions and their units.
    pooling : Pooling, default MaxPooling()
    dropout : float in [0, 1), default 0
        Probability to drop an output of a hidden dense layer in training.
    activation : Activation, default ReLU()
    dtype : torch.dtype, default torch.float32

    Examples
    --------
    >>> from gnomon.nn.norms import NoNorm
    >>> CNNModel((28, 28, 1), 10, layers="6c5-p2-16c5-p2-120-84", norm=NoNorm()).n_parameters
    107786
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        n_classes: int,
        *,
        layers: str,
        norm: Norm | None = None,
        pooling: Pooling | None = None,
        dropout: float = 0.0,
        activation: Activation | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(shape, dtype)
        unit = activation or ReLU()
        maker = Maker(unit, norm or BatchNormalization(), pooling or MaxPooling(), dtype)
        self.features, channels = nn.Sequential(), shape[2]
        parts = layers_of(layers)
        for layer in parts:
            if layer.kind in ROWS:
                break
            size = map_shape(self.features, (shape[2], *shape[:2])) or self.check_size()
            self.features.append(maker.build(layer, channels, (size[1], size[2])))
            channels = layer.size if layer.window and layer.size else channels
        hidden = tuple(layer.size for layer in parts if layer.kind == "dense")
        self.build_head(n_classes, unit, hidden, dropout=dropout, reader=_reader(parts, maker))


def _reader(parts: list[Layer], maker: Maker) -> nn.Module | None:
    """What brings the last maps to rows."""
    for layer in parts:
        if layer.kind == "mean":
            return GlobalPool()
        if layer.kind == "pyramid":
            return SpatialPyramid(layer.levels, maker.kind)
    return None


class CNN(ConvNet):
    r"""Convolutional network of your own: convolutions, poolings and dense layers written as a short text.

    A convolution is :math:`Y_{oij}=b_o+\sum_{cmn}K_{ocmn}X_{c,i+m,j+n}`; the loss is the mean cross-entropy
    :math:`\log\sum_k e^{o_k}-o_y` of the scores o.

    ``layers="32c3-32c3-p2-64c3-p2-128"`` is two convolutions of 32 maps with windows of 3 x 3, pooling of 2 x 2, one
    convolution of 64 maps, pooling, a dense layer of 128 units; the dense layer of the scores is added. Convolutions
    keep rows and columns (padding of half a window) unless a step is given, ``64c3s2``; ``64c3x2`` is dilated,
    ``64c3t2`` tiled (2 x 2 kernels that take turns), ``64d3`` separable as in MobileNets, ``64l3`` locally connected
    (a kernel for each place), ``64u2`` transposed: rows and columns times 2. ``a4`` pools 4 x 4 regions whatever the
    size of the maps, ``r5`` is local response normalization over 5 maps, ``lcn9`` local contrast normalization of
    every map within 9 x 9. At the end of the maps ``g`` takes the mean over all places, ``y1x2x4`` a spatial pyramid,
    in place of all numbers.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, sorted.
    history_ : dict of lists
        ``cross_entropy`` (nats per image), ``gradient_norm``, ``learning_rate`` by epoch.

    Notes
    -----
    Images are arrays (n, rows, columns) or (n, rows, columns, channels) of numbers in [0, 1], or bytes, which are
    divided by 255. A network with ``a``, ``g`` or ``y`` among its layers, and none with a kernel for each place,
    answers to images of other sizes than those of the fit too. A convolution takes rows * columns * window^2 * maps in
    * maps out multiplications an image, three times as many with the way back. Source of the notation: Ciresan, Meier
    and Schmidhuber (2012).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> net = CNN(layers="8c3-p2-16c3-p2-32", image_shape=(8, 8), epochs=6, batch_size=16, random_state=0)
    >>> net.fit(X[:400] / 16, y[:400]).score(X[400:] / 16, y[400:]) > 0.6
    True
    """

    name: ClassVar[str] = "cnn"
    model_class: ClassVar[type] = CNNModel
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"norm": Norm, "pooling": Pooling}

    layers: Annotated[
        str,
        Doc(
            "Joined by hyphens: 32c3 is 32 maps of windows 3x3 (32c3s2 two pixels apart, 32c3x2 dilated, 32c3t2 tiled),"
            " 32d3 the same in two cheap steps, 32l3 locally connected, 32u2 transposed, p2 pooling of 2x2, a4 of 4x4 "
            "regions, r5 local response normalization, lcn9 local contrast normalization within 9x9, g the mean over "
            "all places, y1x2x4 a spatial pyramid, 128 a dense layer."
        ),
    ] = "32c3-p2-64c3-p2-128"
    norm: Annotated[str | Recipe, Doc("What stands between convolutions and their units.")] = "batch"
    pooling: Annotated[str | Recipe, Doc("What is taken from each window of a pooling.")] = "max"
    dropout: Annotated[float, "[0, 1)", Doc("Probability to drop an output of a hidden dense layer in training.")] = 0.3

    def check_parameters(self) -> None:
        super().check_parameters()
        layers_of(self.layers)

    def arguments(self, examples: Examples) -> dict[str, Any]:
        return super().arguments(examples) | {
            "layers": self.layers, "norm": self.recipe("norm"), "pooling": self.recipe("pooling"),
            "dropout": float(self.dropout),
        }  # fmt: skip

    def known_domain(self) -> Any:
        """Images of any size where nothing behind the maps depends on it; else of that of the fit."""
        domain, parts = super().known_domain(), layers_of(self.layers)
        free = {"regions", "mean", "pyramid"} & {layer.kind for layer in parts}
        fixed = any(layer.kind == "local" for layer in parts) or self.recipe("preprocess").short in OF_ONE_SIZE
        fixed = fixed or self.recipe("norm").fixes_size
        return replace(domain, any_size=True) if free and not fixed and isinstance(domain, Images) else domain

    def min_batch_size(self) -> int:
        return 2 if self.recipe("norm").needs_rows else 1
