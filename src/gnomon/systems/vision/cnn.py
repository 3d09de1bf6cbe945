"""A plain convolutional network, its layers written as a short text: 32c3-p2-64c3-p2-128."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

import torch
from torch import nn

from gnomon.data.examples import Examples
from gnomon.errors import UserValueError
from gnomon.nn.activations import Activation, ReLU
from gnomon.nn.image_steps import LCNLayer
from gnomon.nn.pooling import MaxPooling, Pooling
from gnomon.nn.separable import separable_unit
from gnomon.nn.stages import conv_unit
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.vision._network import ConvNet, ConvNetModel

__all__ = ["CNN", "CNNModel", "Layer", "layers_of"]

FORM = re.compile(
    r"(?P<maps>[1-9]\d*)(?P<sort>[cd])(?P<window>[1-9]\d*)(?:s(?P<stride>[1-9]\d*))?|p(?P<pool>[1-9]\d*)(?:s(?P<step>[1-9]\d*))?"
    r"|(?P<mean>g)|lcn(?P<around>[1-9]\d*)|(?P<units>[1-9]\d*)"
)
EXAMPLE = "32c3-p2-64c3-p2-128"
BLOCKS: dict[str, Any] = {"convolution": conv_unit, "separable": separable_unit}
"""What is built for the parts with windows that are learned."""


class Layer(NamedTuple):
    """A layer of the text: what kind, how many maps or units, size and step of its window."""

    kind: str
    size: int = 0
    window: int = 0
    stride: int = 1


def layers_of(text: str) -> list[Layer]:
    """The layers that a text stands for.

    Parameters
    ----------
    text : str
        Joined by hyphens: ``32c3`` 32 maps with windows of 3 x 3 (``32c3s2`` two pixels apart), ``32d3`` the same by a
        depthwise convolution and one of 1 x 1 (MobileNet's block), ``p2`` pooling of 2 x 2 (``p3s2`` of 3 x 3, two
        pixels apart), ``lcn9`` local contrast normalization within 9 x 9, ``g`` the mean over all places, ``128`` a
        dense layer of 128 units.

    Raises
    ------
    UserValueError
        A part that is none of these, a convolution or pooling behind a dense layer or the mean, or an even window.

    References
    ----------
    Ciresan, Meier and Schmidhuber (2012) write networks of images in this way.

    Examples
    --------
    >>> layers_of("8c5-p2-g")
    [Layer(kind='convolution', size=8, window=5, stride=1), Layer(kind='pooling', size=0, window=2, stride=2), \
Layer(kind='mean', size=0, window=0, stride=1)]
    """
    found: list[Layer] = []
    for part in text.strip().lower().split("-"):
        match = FORM.fullmatch(part)
        if match is None:
            what = f"layers must be parts such as 32c3, p2, g or 128 joined by hyphens, got {part!r}"
            raise UserValueError(what, "layers", f"such as {EXAMPLE}")
        layer = _layer(match)
        if layer.kind != "dense" and any(one.kind in ("dense", "mean") for one in found):
            raise UserValueError(f"{part} stands behind a layer that has no places", "layers", f"such as {EXAMPLE}")
        if layer.kind in (*BLOCKS, "contrast") and layer.window % 2 == 0:
            raise UserValueError(
                f"windows of convolutions must be odd, got {part}", "layers", f"give windows of {layer.window + 1}"
            )
        found.append(layer)
    return found


def _layer(match: re.Match[str]) -> Layer:
    if match["maps"]:
        kind = "convolution" if match["sort"] == "c" else "separable"
        return Layer(kind, int(match["maps"]), int(match["window"]), int(match["stride"] or 1))
    if match["pool"]:
        return Layer("pooling", 0, int(match["pool"]), int(match["step"] or match["pool"]))
    if match["around"]:
        return Layer("contrast", 0, int(match["around"]))
    return Layer("mean") if match["mean"] else Layer("dense", int(match["units"]))


class CNNModel(ConvNetModel):
    """Convolutions that keep rows and columns, poolings, dense layers, as a text says; a dense layer of scores.

    Parameters
    ----------
    shape : (rows, columns, channels)
    n_classes : int
    layers : str
        See `layers_of`.
    batch_norm : bool, default True
        Whether convolutions are normalized over the batch before their units.
    pooling : Pooling, default MaxPooling()
    dropout : float in [0, 1), default 0
        Probability to drop an output of a hidden dense layer in training.
    activation : Activation, default ReLU()
    dtype : torch.dtype, default torch.float32

    Examples
    --------
    >>> CNNModel((28, 28, 1), 10, layers="6c5-p2-16c5-p2-120-84", batch_norm=False).n_parameters
    107786
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        n_classes: int,
        *,
        layers: str,
        batch_norm: bool = True,
        pooling: Pooling | None = None,
        dropout: float = 0.0,
        activation: Activation | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(shape, dtype)
        unit, pool = activation or ReLU(), pooling or MaxPooling()
        self.features, channels = nn.Sequential(), shape[2]
        parts = layers_of(layers)
        for layer in parts:
            if layer.kind == "pooling":
                self.features.append(pool.build(layer.window, layer.stride))
            elif layer.kind == "contrast":
                self.features.append(LCNLayer(layer.window))
            elif layer.kind in BLOCKS:
                size, window, stride = layer.size, layer.window, layer.stride
                block = BLOCKS[layer.kind]
                self.features.append(
                    block(channels, size, window, unit=unit, norm=batch_norm, stride=stride, dtype=dtype)
                )
                channels = size
        hidden = tuple(layer.size for layer in parts if layer.kind == "dense")
        self.build_head(n_classes, unit, hidden, dropout=dropout, mean=Layer("mean") in parts)


class CNN(ConvNet):
    r"""Convolutional network of your own: convolutions, poolings and dense layers written as a short text.

    A convolution is :math:`Y_{oij}=b_o+\sum_{cmn}K_{ocmn}X_{c,i+m,j+n}`; the loss is the mean cross-entropy
    :math:`\log\sum_k e^{o_k}-o_y` of the scores o.

    ``layers="32c3-32c3-p2-64c3-p2-128"`` is two convolutions of 32 maps with windows of 3 x 3, pooling of 2 x 2, one
    convolution of 64 maps, pooling, a dense layer of 128 units; the dense layer of the scores is added. Convolutions
    keep rows and columns (padding of half a window) unless a step is given, ``64c3s2``; ``64d3`` is a separable one, as
    in MobileNets; ``lcn9`` normalizes every map by its contrast within 9 x 9; ``g`` puts the mean over all places in
    place of the flattened maps.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, sorted.
    history_ : dict of lists
        ``cross_entropy`` (nats per image), ``gradient_norm``, ``learning_rate`` by epoch.

    Notes
    -----
    Images are arrays (n, rows, columns) or (n, rows, columns, channels) of numbers in [0, 1], or bytes, which are
    divided by 255. A convolution takes rows * columns * window^2 * maps in * maps out multiplications an image, three
    times as many with the way back. Source of the notation: Ciresan, Meier and Schmidhuber (2012).

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
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"pooling": Pooling}

    layers: Annotated[
        str,
        Doc(
            "Joined by hyphens: 32c3 is 32 maps of windows 3x3 (32c3s2 two pixels apart), 32d3 the same in two cheap "
            "steps, p2 pooling of 2x2, lcn9 local contrast normalization within 9x9, g the mean over all places, 128 a "
            "dense layer."
        ),
    ] = "32c3-p2-64c3-p2-128"
    batch_norm: Annotated[bool, Doc("Whether convolutions are normalized over the batch before their units.")] = True
    pooling: Annotated[str | Recipe, Doc("What is taken from each window of a pooling.")] = "max"
    dropout: Annotated[float, "[0, 1)", Doc("Probability to drop an output of a hidden dense layer in training.")] = 0.3

    def check_parameters(self) -> None:
        super().check_parameters()
        layers_of(self.layers)

    def arguments(self, examples: Examples) -> dict[str, Any]:
        return super().arguments(examples) | {
            "layers": self.layers, "batch_norm": self.batch_norm, "pooling": self.recipe("pooling"),
            "dropout": float(self.dropout),
        }  # fmt: skip

    def min_batch_size(self) -> int:
        return 2 if self.batch_norm else 1
