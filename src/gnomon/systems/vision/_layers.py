"""The text of a network's layers, 32c3-p2-64c3-p2-128, and what its parts build."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import torch
from torch import nn

from gnomon.errors import UserValueError
from gnomon.nn.activations import Activation
from gnomon.nn.image_steps import LCNLayer
from gnomon.nn.norms import NoNorm, Norm, local_response
from gnomon.nn.pooling import AdaptivePool, Pooling
from gnomon.nn.separable import separable_unit
from gnomon.nn.stages import conv_unit, with_unit
from gnomon.nn.unshared import LocallyConnected2d, TiledConv2d
from gnomon.nn.upsampling import transposed_convolution
from gnomon.systems.vision._network import map_shape

__all__ = ["Layer", "Maker", "layers_of"]

SORTS = {"c": "convolution", "d": "separable", "l": "local", "u": "transposed"}
FORM = re.compile(
    r"(?P<maps>[1-9]\d*)(?P<sort>[cdlu])(?P<window>[1-9]\d*)(?:s(?P<stride>[1-9]\d*))?(?:x(?P<dilation>[1-9]\d*))?"
    r"(?:t(?P<tiles>[1-9]\d*))?|p(?P<pool>[1-9]\d*)(?:s(?P<step>[1-9]\d*))?|a(?P<regions>[1-9]\d*)"
    r"|lcn(?P<around>[1-9]\d*)|r(?P<neighbors>[1-9]\d*)|y(?P<levels>[1-9]\d*(?:x[1-9]\d*)*)|(?P<mean>g)|(?P<units>[1-9]\d*)"
)
EXAMPLE = "32c3-p2-64c3-p2-128"
ROWS = ("dense", "mean", "pyramid")
"""Kinds behind which there are no places."""


class Layer(NamedTuple):
    """A layer of the text: its kind, maps or units, size and step of its window, dilation, tiles, levels."""

    kind: str
    size: int = 0
    window: int = 0
    stride: int = 1
    dilation: int = 1
    tiles: int = 1
    levels: tuple[int, ...] = ()


def layers_of(text: str) -> list[Layer]:
    """The layers that a text stands for.

    Parameters
    ----------
    text : str
        Joined by hyphens. Layers with maps, units and, where it is asked for, a norm between them:

        - ``32c3``: 32 maps of windows 3 x 3, rows and columns kept; ``32c3s2`` two pixels apart; ``32c3x2`` with two
          pixels from weight to weight (dilated); ``32c3t2`` with kernels in tiles of 2 x 2 that repeat; in this order,
          ``32c3s2x2t2``.
        - ``32d3``: the same by a depthwise convolution and one of 1 x 1 (MobileNet's block); ``32d3s2``.
        - ``32l3``: a kernel for each place (locally connected); ``32l3s2``.
        - ``32u2``: transposed convolution, rows and columns times its step, 2; ``32u4s2`` with larger windows.

        Layers between them: ``p2`` pooling of 2 x 2 (``p3s2`` of 3 x 3, two pixels apart), ``a4`` pooling of 4 x 4
        regions whose size follows that of the maps, ``r5`` local response normalization over 5 maps, ``lcn9`` local
        contrast normalization within 9 x 9.

        At the end ``g`` the mean over all places or ``y1x2x4`` pooling of 1, 2 x 2 and 4 x 4 regions side by side (a
        spatial pyramid), and ``128`` dense layers of 128 units.

    Raises
    ------
    UserValueError
        A part that is none of these, one that needs places behind a dense layer, ``g`` or ``y``, an even window, or a
        transposed convolution whose windows are smaller than its step.

    References
    ----------
    Ciresan, Meier and Schmidhuber (2012) write networks of images in this way.

    Examples
    --------
    >>> [layer.kind for layer in layers_of("8c5-p2-8c3x2-a4-g")]
    ['convolution', 'pooling', 'convolution', 'regions', 'mean']
    """
    found: list[Layer] = []
    for part in text.strip().lower().split("-"):
        match = FORM.fullmatch(part)
        if match is None:
            what = f"layers must be parts such as 32c3, p2, g or 128 joined by hyphens, got {part!r}"
            raise UserValueError(what, "layers", f"such as {EXAMPLE}")
        layer = _layer(match)
        if layer.kind != "dense" and any(one.kind in ROWS for one in found):
            raise UserValueError(f"{part} stands behind a layer that has no places", "layers", f"such as {EXAMPLE}")
        _check(layer, part, match)
        found.append(layer)
    return found


def _check(layer: Layer, part: str, match: re.Match[str]) -> None:
    if (match["sort"] in ("c", "d", "l") or match["around"]) and layer.window % 2 == 0:
        remedy = f"give windows of {layer.window + 1}"
        raise UserValueError(f"windows of convolutions must be odd, got {part}", "layers", remedy)
    if match["sort"] not in (None, "c") and (match["dilation"] or match["tiles"]):
        raise UserValueError(f"x and t must follow a convolution such as 32c3, got {part}", "layers", "leave them out")
    if layer.kind != "transposed":
        return
    if layer.stride > layer.window:
        what = f"windows of transposed convolutions must be as large as their step, got {part}"
        raise UserValueError(what, "layers", f"give windows of {layer.stride}")
    if layer.stride == 1 and layer.window % 2 == 0:
        what = f"windows of transposed convolutions with step 1 must be odd, got {part}"
        raise UserValueError(what, "layers", f"give windows of {layer.window + 1}")


def _layer(match: re.Match[str]) -> Layer:
    if match["maps"]:
        size, window = int(match["maps"]), int(match["window"])
        step = match["stride"] or (window if match["sort"] == "u" else 1)
        return Layer(
            SORTS[match["sort"]], size, window, int(step), int(match["dilation"] or 1), int(match["tiles"] or 1)
        )
    if match["pool"]:
        return Layer("pooling", 0, int(match["pool"]), int(match["step"] or match["pool"]))
    if match["regions"]:
        return Layer("regions", int(match["regions"]))
    if match["around"]:
        return Layer("contrast", 0, int(match["around"]))
    if match["neighbors"]:
        return Layer("response", int(match["neighbors"]))
    if match["levels"]:
        return Layer("pyramid", levels=tuple(map(int, match["levels"].split("x"))))
    return Layer("mean") if match["mean"] else Layer("dense", int(match["units"]))


class Maker:
    """Builds the layers in front of the head, one by one.

    Parameters
    ----------
    unit : Activation
    norm : Norm
        Between a layer with weights and its units.
    pooling : Pooling
    dtype : torch.dtype
    """

    def __init__(self, unit: Activation, norm: Norm, pooling: Pooling, dtype: torch.dtype) -> None:
        self.unit, self.norm, self.pooling, self.dtype = unit, norm, pooling, dtype

    def build(self, layer: Layer, inputs: int, size: tuple[int, int]) -> nn.Module:
        """The module of a layer.

        Parameters
        ----------
        layer : Layer
        inputs : int
            Channels that come in.
        size : (rows, columns)
            Of the maps that come in.
        """
        if layer.kind == "pooling":
            return self.pooling.build(layer.window, layer.stride)
        if layer.kind == "regions":
            return AdaptivePool(layer.size, self.kind)
        if layer.kind == "contrast":
            return LCNLayer(layer.window)
        if layer.kind == "response":
            return local_response(layer.size)
        norm = self._norm(layer, inputs, size)
        shared: dict[str, Any] = {"unit": self.unit, "norm": norm, "dtype": self.dtype}
        if layer.kind == "convolution" and layer.tiles == 1:
            return conv_unit(
                inputs, layer.size, layer.window, stride=layer.stride, dilation=layer.dilation, **shared
            )  # fmt: skip
        if layer.kind == "separable":
            return separable_unit(inputs, layer.size, layer.window, stride=layer.stride, **shared)
        return with_unit(self._linear(layer, inputs, size), layer.size, **shared)

    def _norm(self, layer: Layer, inputs: int, size: tuple[int, int]) -> Norm:
        """The norm of the maps that a layer gives."""
        if not self.norm.fixes_size:
            return self.norm
        bare = Maker(self.unit, NoNorm(), self.pooling, self.dtype).build(layer, inputs, size)
        shape = map_shape(bare, (inputs, *size))
        return NoNorm() if shape is None else self.norm.at(shape[1:])  # what fits nowhere is refused behind

    def _linear(self, layer: Layer, inputs: int, size: tuple[int, int]) -> nn.Module:
        """Tiles, a kernel for each place, or a transposed convolution. Biases of places are none of a channel: kept."""
        wide, window, step = layer.size * self.unit.widening, layer.window, layer.stride
        if layer.kind == "transposed":
            cut = window - step  # so that sides are the input's times the step
            return transposed_convolution(
                inputs, wide, window, stride=step, padding=-(-cut // 2), extra=cut % 2, bias=not self.norm.takes_bias,
                dtype=self.dtype,
            )  # fmt: skip
        reach: dict[str, Any] = {"stride": step, "padding": layer.dilation * (window // 2), "dtype": self.dtype}
        if layer.kind == "local":
            return LocallyConnected2d(inputs, wide, window, size, **reach)
        return TiledConv2d(inputs, wide, window, layer.tiles, dilation=layer.dilation, **reach)

    @property
    def kind(self) -> Any:
        """What regions that follow the size of the maps are pooled by.

        Raises
        ------
        UserValueError
            A pooling other than maximum and mean.
        """
        if self.pooling.short not in ("max", "average"):
            what = f"regions of a and y must be pooled by max or average, got {self.pooling.short!r}"
            raise UserValueError(what, "pooling", "choose max or average")
        return self.pooling.short
