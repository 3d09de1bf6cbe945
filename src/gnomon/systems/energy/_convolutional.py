"""The model behind the convolutional machines: maps over images, in one layer or several, with shared biases."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch

from gnomon.contracts import Array, State
from gnomon.distributions.pooled_units import DeterministicMaxUnits, PooledUnits, ProbabilisticMaxUnits
from gnomon.distributions.units import BernoulliUnits, Units
from gnomon.numeric.tensors import is_tensor
from gnomon.recipes.fields import Doc
from gnomon.system.image_rows import ShapedRows, check_sides
from gnomon.systems.energy._binary import BinaryRows, lent
from gnomon.systems.energy._machine import MachineSystem
from gnomon.systems.energy.convolution import ConvolutionalLink, places_of
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.links import Link
from gnomon.systems.energy.mapped import MappedMachine

__all__ = ["ConvolutionalModel", "HasMaps", "HasWindows", "Maps", "Shared", "SharedBiasMachine"]

Mode = Literal["valid", "same"]
Pooling = Literal["none", "probabilistic", "deterministic"]
POOLED: Mapping[str, type[PooledUnits]] = {
    "probabilistic": ProbabilisticMaxUnits, "deterministic": DeterministicMaxUnits,
}  # fmt: skip
VISIBLE = "visible"


class Shared:
    """Parameters that the columns of layers share: those of column j are number j modulo what the layer has of them.

    The machine gets parameters of that many numbers in place of its own.

    Parameters
    ----------
    machine : LayeredMachine
    counts : mapping of str to int
        Columns that differ, of the layers that share parameters: channels or maps, which lie side by side at each
        place.
    """

    def __init__(self, machine: LayeredMachine, counts: Mapping[str, int]) -> None:
        self._times: dict[str, int] = {}
        self.numbers: dict[str, int] = {}
        """How many numbers are left of each parameter that is shared."""
        for block, n in counts.items():
            shapes = machine.units[block].shapes
            for short, name in machine._own_names[block].items():
                times = self._times[name] = shapes["bias"][0] // n
                size = self.numbers[name] = shapes[short][0] // times
                value = torch.zeros(size, dtype=machine._parameters[name].dtype)  # type: ignore[union-attr]
                machine.register_parameter(name, torch.nn.Parameter(value))

    def spread(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters with one number for each column."""
        found = dict(own)
        for name, times in self._times.items():
            found[name] = own[name].repeat(times) if is_tensor(own[name]) else np.tile(own[name], times)
        return found

    def summed(self, found: dict[str, Array]) -> dict[str, Array]:
        """Gradients by the shared numbers, of those by each column's: the chain rule."""
        return found | {name: found[name].reshape(-1, n).sum(0) for name, n in self.numbers.items()}

    def averaged(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Shared numbers, the means of those of all columns."""
        return {**found, **{name: np.asarray(found[name]).reshape(-1, n).mean(0) for name, n in self.numbers.items()}}


class SharedBiasMachine(MappedMachine):
    """A machine of layers whose units share biases.

    Parameters
    ----------
    units, links, dtype
        See `LayeredMachine`.
    shared : mapping of str to int
        Biases of the layers that share them, see `Shared`.
    """

    def __init__(
        self,
        units: Mapping[str, Units],
        links: Iterable[Link],
        shared: Mapping[str, int],
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(units, links, dtype=dtype)
        self._shared = Shared(self, shared)

    def _mapped(self, own: Mapping[str, Any]) -> dict[str, Any]:
        return self._shared.spread(own)

    def _pulled(self, found: dict[str, Array], state: State) -> dict[str, Array]:
        return self._shared.summed(found)

    def _base_parameters(self, mean: Any) -> dict[str, Any]:
        n = self._shared.numbers.get(f"{self.observed}_bias")
        if mean is not None and n is not None:
            each = np.asarray(mean, np.float64).reshape(-1, n).mean(0)
            mean = np.tile(each, self.sizes[self.observed] // n)
        return self._shared.averaged(super()._base_parameters(mean))


class Maps(NamedTuple):
    """A layer of maps: how many, their kernels and what pools them, both cut to what they act on."""

    n: int
    kernel: tuple[int, int]
    mode: Mode = "valid"
    pooling: Pooling = "none"
    region: tuple[int, int] = (2, 2)


class ConvolutionalModel(SharedBiasMachine):
    r"""E(v, h) = -b^T v - sum_l sum_k (c_k^l sum_ij h^{k,l}_ij + <p^{l-1} * W^{k,l}, h^{k,l}>): maps over an image.

    Layer l sees the image (p^0 = v), or the pooling units of the layer below, the maps themselves where nothing pools.
    All links are undirected.

    Parameters
    ----------
    shape : (rows, columns, channels)
        Of the image.
    layers : sequence of Maps
        From the image up.
    dtype : torch.dtype, default torch.float32
    visible_bias : {"channel", "pixel"}
        Whether all pixels of a channel share a bias.

    Raises
    ------
    UserValueError
        Regions that do not fill the maps.

    Notes
    -----
    Layers are called ``visible`` and ``hidden``, or ``hidden_1``, ``hidden_2``, ... where there are several.

    Examples
    --------
    >>> model = ConvolutionalModel((4, 4, 1), [Maps(2, (3, 3), pooling="probabilistic")])
    >>> model.sizes, model.n_parameters
    ({'visible': 16, 'hidden': 10}, 36)
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        layers: Sequence[Maps],
        dtype: torch.dtype = torch.float32,
        *,
        visible_bias: Literal["channel", "pixel"] = "pixel",
    ) -> None:
        hidden = ["hidden"] if len(layers) == 1 else [f"hidden_{number + 1}" for number in range(len(layers))]
        names, links = [VISIBLE, *hidden], []
        units: dict[str, Units] = {VISIBLE: BernoulliUnits(math.prod(shape))}
        shared = {VISIBLE: shape[2]} if visible_bias == "channel" else {}
        self.codes: dict[str, tuple[slice, tuple[int, int, int]]] = {}
        skip = 0
        for (below, name), layer in zip(zip(names, hidden, strict=False), layers, strict=True):
            kernel = min(layer.kernel[0], shape[0]), min(layer.kernel[1], shape[1])
            places = places_of(shape, kernel, layer.mode)
            kind, seen = _units(layer, places)
            links.append(
                ConvolutionalLink(
                    below, name, shape, layer.n, kernel,
                    mode=layer.mode, skip=skip, extra=kind.size - math.prod(places) * layer.n,
                )
            )  # fmt: skip
            units[name], shared[name], shape = kind, layer.n, seen
            skip = kind.size - math.prod(seen)
            self.codes[name] = slice(skip, None), seen
        super().__init__(units, links, shared, dtype)
        self.layers = tuple(names)
        """Names of all layers, from the image up."""
        self.blocks = (*names[1::2], *names[::2])  # a sweep moves the odd layers, then the even ones

    @property
    def hidden(self) -> tuple[str, ...]:
        """Names of the hidden layers, from the image up."""
        return self.layers[1:]

    def code(self, name: str, states: Array) -> Array:
        """What the layer above sees of states or means of a layer: pooling units, the maps where nothing pools."""
        return states[:, self.codes[name][0]]

    def pair(self, number: int) -> LayeredMachine:
        """The machine of layers `number` - 1 and `number` alone, whose parameters are this machine's.

        The bias of the lower layer is learned with the layer below it.
        """
        lower, upper = self.layers[number - 1 : number + 1]
        shared = {block: self._parameters[f"{block}_bias"].shape[0] for block in (lower, upper)}  # type: ignore[union-attr]
        units = {block: self.units[block] for block in (lower, upper)}
        machine = SharedBiasMachine(units, [self.links[number - 1]], shared)
        return lent(machine, self, f"{lower}_bias" if number > 1 else None)

    def rows_below(self, number: int, x: Array) -> Array:
        """What images are to the lower layer of `pair(number)`: means of the layers below, pair by pair."""
        for one in range(1, number):
            lower, upper = self.layers[one - 1 : one + 1]
            x = self.pair(one).conditional(upper, {lower: x}).mean
        return x


def _units(layer: Maps, places: tuple[int, int]) -> tuple[Units, tuple[int, int, int]]:
    """The units of a layer, and the rows, columns and maps that the layer above sees."""
    if layer.pooling == "none":
        return BernoulliUnits(math.prod(places) * layer.n), (*places, layer.n)
    height, width = min(layer.region[0], places[0]), min(layer.region[1], places[1])
    kind = POOLED[layer.pooling](layer.n, *places, height, width)
    return kind, (places[0] // height, places[1] // width, layer.n)


class HasWindows(ShapedRows, MachineSystem):
    """Base of the systems whose hidden units see windows of an image, by kernels that are the same everywhere."""

    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "kernel": {"kernel": (1, 3)}, "image_shape": {"n_maps": 1, "kernel": (8, 8), "mode": "valid"},
    }  # fmt: skip

    kernel: Annotated[
        tuple[Annotated[int, "[1, inf)"], Annotated[int, "[1, inf)"]],
        Doc("Rows and columns of a kernel, ``3x3`` on the command line; cut to a smaller image."),
    ] = (3, 3)
    mode: Annotated[
        Literal["valid", "same"],
        Doc("``valid``: windows inside the image, ``same``: a place for each pixel, with zeros around the image."),
    ] = "same"
    visible_bias: Annotated[
        Literal["channel", "pixel"], Doc("Whether all pixels of a channel share a bias, or each has one.")
    ] = "pixel"

    def check_parameters(self) -> None:
        super().check_parameters()
        check_sides("kernel", self.kernel, (2,))


class HasMaps(HasWindows, BinaryRows):
    """Base of the systems of convolutional machines of bits: their fields, and their model."""

    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        **HasWindows.acts_with, "pooling": {"region": (1, 5)},
        "region": {"pooling": "probabilistic", "mode": "valid", "region": (1, 1), "kernel": (1, 2)},
    }  # fmt: skip

    region: Annotated[
        tuple[Annotated[int, "[1, inf)"], Annotated[int, "[1, inf)"]],
        Doc("Rows and columns of what a pooling unit pools, cut to the map, which they must fill."),
    ] = (2, 2)

    def check_parameters(self) -> None:
        super().check_parameters()
        check_sides("region", self.region, (2,))

    def _model(self, n_features: int, layers: Sequence[Maps], dtype: str) -> ConvolutionalModel:
        shape = self._shape_of_row(n_features)
        return ConvolutionalModel(shape, layers, getattr(torch, dtype), visible_bias=self.visible_bias)
