"""Networks from rows to a few numbers and back: the slots ``encoder`` and ``decoder`` of generative systems.

Every network maps flat rows (n, inputs) to flat rows (n, outputs); the convolutional ones take or give these rows as
images, channels last. A slot also takes any callable
``f(inputs, outputs, shape, dtype) -> nn.Module``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import nn

from gnomon.contracts import Noise
from gnomon.errors import UserTypeError, UserValueError
from gnomon.nn.activations import Activation, LeakyReLU
from gnomon.nn.batch_norm import BatchNorm
from gnomon.nn.convolution import convolution
from gnomon.nn.dropout import Dropout
from gnomon.nn.initializers import Initializer, initialize
from gnomon.nn.layers import dense
from gnomon.nn.upsampling import Unpool2d, transposed_convolution
from gnomon.recipes.recipe import Recipe

__all__ = [
    "AutoDecoder", "ConvDecoder", "ConvEncoder", "ConvNetwork", "DecoderNetwork", "DenseDecoder", "DenseEncoder",
    "DenseNetwork", "EncoderNetwork", "begin_network", "build_network", "image_shape_of", "maps_of", "rows_of",
]  # fmt: skip

KERNEL, STRIDE, PADDING = 4, 2, 1
"""Of all convolutions: every one halves or doubles, and the kernel is a multiple of the stride."""

Shape = tuple[int, int, int]


def image_shape_of(shape: Sequence[int] | None, columns: int) -> Shape:
    """(rows, columns, channels) of flat images; square grey images where no shape is given.

    Raises
    ------
    UserValueError
        A shape that does not have this many numbers, or none for a number of columns that is no square.

    Examples
    --------
    >>> image_shape_of(None, 64), image_shape_of((8, 8), 64), image_shape_of((4, 4, 3), 48)
    ((8, 8, 1), (8, 8, 1), (4, 4, 3))
    """
    if shape is None:
        side = round(columns**0.5)
        if side * side != columns:
            raise UserValueError(
                f"X must have a square number of columns where no shape is given, got {columns}",
                "image_shape",
                "give (rows, columns) or (rows, columns, channels)",
            )
        return side, side, 1
    if len(shape) not in (2, 3):
        what = f"image_shape must have two or three numbers, got {tuple(shape)!r}"
        raise UserValueError(what, "image_shape", "give (rows, columns) or (rows, columns, channels)")
    rows, width, *rest = shape
    channels = rest[0] if rest else 1
    if rows * width * channels != columns:
        raise UserValueError(
            f"image_shape must have {columns} numbers, got {rows} x {width} x {channels}", "image_shape",
            "give (rows, columns) or (rows, columns, channels)",
        )  # fmt: skip
    return rows, width, channels


def begin_network(network: nn.Module, initializer: Initializer, noise: Noise) -> None:
    """First weights of a network; one from a recipe here counts with the gain of its activation."""
    gains = getattr(network, "gains", {})
    initialize(network, initializer, noise, gain=gains)


def build_network(
    recipe: EncoderNetwork | DecoderNetwork, inputs: int, outputs: int, shape: Sequence[int] | None, dtype: torch.dtype
) -> nn.Module:
    """The network of a recipe, or of a callable in its place; the global random generator is left as found.

    What a callable draws from it begins at seed 0; linear and convolutional layers get their first weights by
    `begin_network` all the same.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network: nn.Module = recipe.build(inputs, outputs, shape, dtype)
    return network


class _Stack(nn.Sequential):
    """Layers in turn, and the gain of the activation behind each."""

    gains: dict[str, float]


class _Builder:
    """Layers with batch normalization, activation and dropout behind all but the last."""

    def __init__(self, activation: Activation, batch_norm: bool, dropout: float, dtype: torch.dtype) -> None:
        if activation.widening != 1:
            raise UserTypeError(
                f"{activation.short} needs several pre-activations per output", "activation", "use relu"
            )
        self.activation, self.batch_norm, self.dropout, self.dtype = activation, batch_norm, dropout, dtype
        self.layers: list[nn.Module] = []
        self.gains: dict[str, float] = {}

    def add(self, layer: nn.Module) -> None:
        """A layer as it is."""
        self.layers.append(layer)

    def hidden(self, layer: nn.Module, features: int, *, norm: bool = True) -> None:
        """A layer and what follows it."""
        self.gains[str(len(self.layers))] = self.activation.gain
        self.add(layer)
        if norm and self.batch_norm:
            self.add(BatchNorm(features, dtype=self.dtype))
        self.add(self.activation.build(features, self.dtype))
        if self.dropout:
            self.add(Dropout(self.dropout))

    def build(self) -> nn.Module:
        """The network."""
        stack = _Stack(*self.layers)
        stack.gains = self.gains
        return stack


def maps_of(x: torch.Tensor, shape: Shape) -> torch.Tensor:
    """Flat rows of one or more images, channels last, as maps (n, images * channels, rows, columns)."""
    rows, columns, channels = shape
    n, maps = len(x), x.shape[1] // (rows * columns)  # there may be no rows, of which torch finds no size
    if channels == 1:
        return x.reshape(n, maps, rows, columns)
    images = x.reshape(n, maps // channels, rows, columns, channels).permute(0, 1, 4, 2, 3)
    return images.reshape(n, maps, rows, columns)


def rows_of(maps: torch.Tensor, images: int) -> torch.Tensor:
    """Maps (n, images * channels, rows, columns) as flat rows of so many images, channels last."""
    n, channels, rows, columns = maps.shape
    split = maps.reshape(n, images, channels // images, rows, columns)
    return split.permute(0, 1, 3, 4, 2).reshape(n, channels * rows * columns)


class _AsImages(nn.Module):
    """Flat rows, channels last, as images (n, channels, rows, columns)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return maps_of(x, self.shape)


class _AsMaps(nn.Module):
    """Flat rows as maps (n, channels, rows, columns), channels first."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, *self.shape)


class _AsRows(nn.Module):
    """Maps (n, width * channels, rows, columns) as flat rows: `width` images of one number each, channels last."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return rows_of(x, self.width)


class _Unpooled(nn.Module):
    """Unpooling by 2 to a size."""

    def __init__(self, size: tuple[int, int]) -> None:
        super().__init__()
        self.size, self.unpool = size, Unpool2d(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.unpool(x, self.size)
        return out


# --- recipes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EncoderNetwork(Recipe):
    """Base of the recipes of the slot ``encoder``: from data to a few numbers."""

    factory: ClassVar[bool] = True

    def build(self, inputs: int, outputs: int, shape: Sequence[int] | None, dtype: torch.dtype) -> nn.Module:
        """The network from (n, inputs) to (n, outputs), all weights 0.

        Parameters
        ----------
        inputs, outputs : int >= 1
        shape : (rows, columns) or (rows, columns, channels), optional
            Of the images that the rows are.
        dtype : torch.dtype
        """
        raise NotImplementedError


@dataclass(frozen=True)
class DecoderNetwork(Recipe):
    """Base of the recipes of the slot ``decoder``: from a few numbers to data."""

    factory: ClassVar[bool] = True

    def build(self, inputs: int, outputs: int, shape: Sequence[int] | None, dtype: torch.dtype) -> nn.Module:
        """The network from (n, inputs) to (n, outputs), all weights 0.

        Parameters
        ----------
        inputs, outputs : int >= 1
            Outputs are one or more numbers for every column of the data, all first numbers before all second ones.
        shape : (rows, columns) or (rows, columns, channels), optional
            Of the images that the rows are.
        dtype : torch.dtype
        """
        raise NotImplementedError


@dataclass(frozen=True)
class DenseNetwork:
    """Fully connected layers, what `DenseEncoder` and `DenseDecoder` are; none makes it one affine map.

    Parameters
    ----------
    hidden : tuple of int in [1, inf), default (256, 256)
        Units of the hidden layers.
    activation : str or recipe, default "relu"
        Of the hidden layers.
    batch_norm : bool, default False
        Whether the output of each hidden layer is standardized over the batch.
    dropout : float in [0, 1), default 0
        Probability to drop an output of a hidden layer during training.
    """

    slots: ClassVar[Mapping[str, type[Recipe]]] = {"activation": Activation}
    hidden: tuple[Annotated[int, "[1, inf)"], ...] = (256, 256)
    activation: str | Recipe = "relu"
    batch_norm: bool = False
    dropout: Annotated[float, "[0, 1)"] = 0.0

    def build(self: Any, inputs: int, outputs: int, shape: Sequence[int] | None, dtype: torch.dtype) -> nn.Module:
        """The network."""
        builder = _Builder(self.recipe("activation"), self.batch_norm, self.dropout, dtype)
        for units in self.hidden:
            builder.hidden(dense(inputs, units, bias=not self.batch_norm, dtype=dtype), units)
            inputs = units
        builder.add(dense(inputs, outputs, dtype=dtype))
        return builder.build()


@dataclass(frozen=True)
class DenseEncoder(DenseNetwork, EncoderNetwork):
    """Fully connected layers; none makes it one affine map. Parameters as of `DenseNetwork`."""

    short: ClassVar[str] = "dense"


@dataclass(frozen=True)
class DenseDecoder(DenseNetwork, DecoderNetwork):
    """Fully connected layers; none makes it one affine map. Parameters as of `DenseNetwork`."""

    short: ClassVar[str] = "dense"


def _halvings(shape: Shape, times: int) -> list[tuple[int, int]]:
    """Sizes of the maps, that of the image first; every convolution halves them, rounding down.

    Raises
    ------
    UserValueError
        An image that is too small.
    """
    sizes = [shape[:2]]
    for _ in range(times):
        sizes.append((sizes[-1][0] // 2, sizes[-1][1] // 2))
    if min(sizes[-1]) < 1:
        raise UserValueError(
            f"images of {shape[0]} x {shape[1]} cannot be halved {times} times", "channels", "give fewer layers"
        )
    return sizes


@dataclass(frozen=True, kw_only=True)
class ConvNetwork:
    """What `ConvEncoder` and `ConvDecoder` have between their convolutions.

    Parameters
    ----------
    batch_norm : bool, default True
        Whether the output of each hidden layer is standardized over the batch.
    dropout : float in [0, 1), default 0
        Probability to drop an output of a hidden layer during training.
    """

    batch_norm: bool = True
    dropout: Annotated[float, "[0, 1)"] = 0.0


@dataclass(frozen=True)
class ConvEncoder(ConvNetwork, EncoderNetwork):
    """Strided convolutions of 4 x 4 that halve the image, then one affine map.

    The first has no batch normalization, as in Radford, Metz and Chintala (2016). More parameters: `ConvNetwork`.

    Parameters
    ----------
    channels : tuple of int in [1, inf), default (32, 64)
        Of the convolutions.
    slope : float in [0, 1), default 0.2
        Of the leaky rectifiers below 0.
    """

    short: ClassVar[str] = "conv"
    images: ClassVar[bool] = True
    """Whether it needs to know which image a row is."""
    channels: tuple[Annotated[int, "[1, inf)"], ...] = (32, 64)
    slope: Annotated[float, "[0, 1)"] = 0.2

    def build(self, inputs: int, outputs: int, shape: Sequence[int] | None, dtype: torch.dtype) -> nn.Module:
        """The network."""
        image = image_shape_of(shape, inputs)
        rows, columns = _halvings(image, len(self.channels))[-1]
        builder = _Builder(LeakyReLU(self.slope), self.batch_norm, self.dropout, dtype)
        builder.add(_AsImages(image))
        before = image[2]
        for k, maps in enumerate(self.channels):
            bias = not (self.batch_norm and k)
            layer = convolution(before, maps, KERNEL, stride=STRIDE, padding=PADDING, bias=bias, dtype=dtype)
            builder.hidden(layer, maps, norm=k > 0)
            before = maps
        builder.add(nn.Flatten())
        builder.add(dense(before * rows * columns, outputs, dtype=dtype))
        return builder.build()


@dataclass(frozen=True)
class ConvDecoder(ConvNetwork, DecoderNetwork):
    """One affine map to small maps, then transposed convolutions of 4 x 4 that double them up to the image.

    The last has no batch normalization, as in Radford, Metz and Chintala (2016). More parameters: `ConvNetwork`.

    Parameters
    ----------
    channels : tuple of int in [1, inf), default (64, 32)
        Of the maps before each doubling.
    upsampling : {"transposed", "unpool"}, default "transposed"
        Transposed convolutions of stride 2, or unpooling and a convolution of 3 x 3 (Dosovitskiy et al. 2015).
    activation : str or recipe, default "relu"
        Of the hidden layers.
    """

    short: ClassVar[str] = "conv"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"activation": Activation}
    channels: tuple[Annotated[int, "[1, inf)"], ...] = (64, 32)
    upsampling: Literal["transposed", "unpool"] = "transposed"
    activation: str | Recipe = "relu"

    def build(self, inputs: int, outputs: int, shape: Sequence[int] | None, dtype: torch.dtype) -> nn.Module:
        """The network."""
        image = image_shape_of(shape, outputs if shape is None else _columns(shape))
        width = outputs // (image[0] * image[1] * image[2])
        sizes = _halvings(image, len(self.channels))[::-1]
        builder = _Builder(self.recipe("activation"), self.batch_norm, self.dropout, dtype)
        (rows, columns), before = sizes[0], self.channels[0] if self.channels else image[2] * width
        first = dense(inputs, before * rows * columns, dtype=dtype)
        builder.add(first)
        builder.add(_AsMaps((before, rows, columns)))
        after = [*self.channels[1:], image[2] * width]
        for k, maps in enumerate(after[: len(self.channels)]):
            if k == 0:  # what follows the affine map
                builder.gains["0"] = builder.activation.gain
                if self.batch_norm:
                    builder.add(BatchNorm(before, dtype=dtype))
                builder.add(builder.activation.build(before, dtype))
            last = k == len(self.channels) - 1
            layer = self._enlarge(builder, before, maps, sizes[k], sizes[k + 1], last, dtype)
            builder.add(layer) if last else builder.hidden(layer, maps)
            before = maps
        builder.add(_AsRows(width))
        return builder.build()

    def _enlarge(
        self, builder: _Builder, before: int, maps: int, size: tuple[int, int], to: tuple[int, int], last: bool,
        dtype: torch.dtype,
    ) -> nn.Module:  # fmt: skip
        bias = last or not self.batch_norm
        if self.upsampling == "unpool":
            builder.add(_Unpooled(to))
            return convolution(before, maps, 3, padding=1, bias=bias, dtype=dtype)
        extra = (to[0] - 2 * size[0], to[1] - 2 * size[1])
        return transposed_convolution(
            before, maps, KERNEL, stride=STRIDE, padding=PADDING, extra=extra, bias=bias, dtype=dtype
        )


@dataclass(frozen=True)
class AutoDecoder(DecoderNetwork):
    """`ConvDecoder` without batch normalization for images of at least 4 x 4; else `DenseDecoder` of 128 units."""

    short: ClassVar[str] = "auto"

    def build(self, inputs: int, outputs: int, shape: Sequence[int] | None, dtype: torch.dtype) -> nn.Module:
        """The network."""
        maps = shape is not None and min(shape[:2]) >= 4
        network = ConvDecoder(batch_norm=False) if maps else DenseDecoder((128,))
        return network.build(inputs, outputs, shape, dtype)


def _columns(shape: Sequence[int]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total
