"""AlexNet: five convolutions, three poolings and two hidden dense layers with dropout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import nn

from gnomon.data.examples import Examples
from gnomon.errors import UserValueError
from gnomon.nn.activations import Activation, ReLU
from gnomon.nn.dropout import Dropout
from gnomon.nn.halves import Halves, JoinedHalves, places_of
from gnomon.nn.layers import dense
from gnomon.nn.pooling import MaxPooling
from gnomon.nn.stages import conv_unit
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import check_layer_sizes
from gnomon.systems.vision._images import whole_numbers
from gnomon.systems.vision._network import ConvNet, ConvNetModel, Stem

__all__ = ["AlexNet", "AlexNetModel"]


class AlexNetModel(ConvNetModel):
    """Convolutions 11 x 11 (or 3 x 3), 5 x 5 and three of 3 x 3, three poolings of 3 x 3 by 2, dense layers.

    Parameters
    ----------
    shape : (rows, columns, channels)
    n_classes : int
    channels : tuple of five int, default (96, 256, 384, 384, 256)
    hidden : tuple of int, default (4096, 4096)
    stem : {"small", "large"}, default "large"
        First window 11 x 11 with stride 4 and poolings without padding, for 224 x 224 pixels; or 3 x 3 with stride 1
        and poolings with padding 1, for images of any size.
    groups : {1, 2}, default 1
        2 is the division over two devices: convolutions 2, 4 and 5 read half of the channels each.
    halves : str, optional
        Two devices such as ``cuda:0+cuda:1``: each holds half of the channels and units of all layers but the last
        one. The third convolution and the dense layers alone read both halves, as with groups=2 on one device.
    dropout : float in [0, 1), default 0.5
    activation : Activation, default ReLU()
    dtype : torch.dtype, default torch.float32

    Examples
    --------
    >>> AlexNetModel((28, 28, 1), 10, channels=(8, 16, 24, 24, 16), hidden=(32, 32), stem="small").n_parameters
    25066
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        n_classes: int,
        *,
        channels: tuple[int, ...] = (96, 256, 384, 384, 256),
        hidden: tuple[int, ...] = (4096, 4096),
        stem: Stem = "large",
        groups: int = 1,
        halves: str | None = None,
        dropout: float = 0.5,
        activation: Activation | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(shape, dtype)
        unit, pooling = activation or ReLU(), MaxPooling()
        window, stride, border = (11, 4, 0) if stem == "large" else (3, 1, 1)
        settings: dict[str, Any] = {"unit": unit, "norm": False, "dtype": dtype}
        if halves is not None:
            self._in_halves(n_classes, channels, hidden, (window, stride, border), halves, dropout, settings)
            return
        first, second, third, fourth, fifth = channels
        self.features = nn.Sequential(
            conv_unit(shape[2], first, window, stride=stride, padding=border, **settings),
            pooling.build(3, 2, border),
            conv_unit(first, second, 5, groups=groups, **settings),
            pooling.build(3, 2, border),
            conv_unit(second, third, 3, **settings),
            conv_unit(third, fourth, 3, groups=groups, **settings),
            conv_unit(fourth, fifth, 3, groups=groups, **settings),
            pooling.build(3, 2, border),
        )
        self.build_head(n_classes, unit, hidden, dropout=dropout)

    def _in_halves(
        self,
        n_classes: int,
        channels: tuple[int, ...],
        hidden: tuple[int, ...],
        stem: tuple[int, int, int],
        halves: str,
        dropout: float,
        settings: dict[str, Any],
    ) -> None:
        """The layers in halves, one behind the other; the last one whole, where the first halves stand."""
        places, (window, stride, border), unit = places_of(halves, strict=False), stem, settings["unit"]

        def twice(make: Callable[[], nn.Module], *, both: bool = False) -> Halves:
            return Halves(make(), make(), places, both=both)

        def convolved(inputs: int, outputs: int, kernel: int, *, both: bool = False, **options: Any) -> Halves:
            read = inputs if both else inputs // 2
            return twice(lambda: conv_unit(read, outputs // 2, kernel, **options, **settings), both=both)

        def pooled() -> Halves:
            return twice(lambda: MaxPooling().build(3, 2, border))

        first, second, third, fourth, fifth = channels
        self.features = nn.Sequential(
            convolved(self.shape[2], first, window, both=True, stride=stride, padding=border), pooled(),
            convolved(first, second, 5), pooled(), convolved(second, third, 3, both=True), convolved(third, fourth, 3),
            convolved(fourth, fifth, 3), nn.Sequential(pooled(), JoinedHalves()),
        )  # fmt: skip
        maps, rows, columns = self.check_size()
        inputs, dtype, self.gain = maps * rows * columns, settings["dtype"], unit.gain
        self.head = nn.Sequential(nn.Flatten())
        for units in hidden:

            def half(read: int = inputs, made: int = units // 2) -> nn.Module:
                layers = nn.Sequential(dense(read, made * unit.widening, dtype=dtype), unit.build(made, dtype))
                return layers.append(Dropout(dropout)) if dropout else layers

            self.head.append(twice(half, both=True))
            inputs = units
        self.head.extend([JoinedHalves(), dense(inputs, n_classes, dtype=dtype)])

    def feature_maps(self, x: torch.Tensor, stages: Sequence[int] | None = None) -> list[torch.Tensor]:
        """Outputs of some stages, halves joined."""
        return [JoinedHalves()(maps) for maps in super().feature_maps(x, stages)]


class AlexNet(ConvNet):
    r"""AlexNet: five convolutions, three overlapping poolings, two hidden dense layers with dropout.

    The loss is the mean cross-entropy :math:`\log\sum_k e^{o_k}-o_y` of the scores o.

    The default is a small form for images of 8 x 8 pixels and more: a first window of 3 x 3, a third of the channels,
    256 hidden units. For photographs of 224 x 224 pixels ``stem="large", channels=(96, 256, 384, 384, 256),
    hidden=(4096, 4096)`` is the published network, with ``groups=2`` in the form that was divided over two devices, and
    with ``halves="cuda:0+cuda:1"`` divided again.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, sorted.
    history_ : dict of lists
        ``cross_entropy`` (nats per image), ``gradient_norm``, ``learning_rate`` by epoch.

    Notes
    -----
    Images are arrays (n, rows, columns) or (n, rows, columns, channels) of numbers in [0, 1], or bytes, which are
    divided by 255. The large form needs 67 rows and columns; the published dense layer of 6400 inputs is that of 195 to
    226. The local response normalization of the original is left out, as in most texts. Source: Krizhevsky, Sutskever
    and Hinton (2012).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> net = AlexNet(channels=(8, 16, 16, 16, 16), hidden=(32,), image_shape=(8, 8), epochs=8, batch_size=16,
    ...     dropout=0.1, random_state=0)
    >>> net.fit(X[:400] / 16, y[:400]).score(X[400:] / 16, y[400:]) > 0.6
    True
    """

    name: ClassVar[str] = "alexnet"
    model_class: ClassVar[type] = AlexNetModel
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        **ConvNet.acts_with, "halves": {"groups": 2, "halves": "cpu+cpu"},
    }  # fmt: skip

    channels: Annotated[
        tuple[
            Annotated[int, "[1, inf)"], Annotated[int, "[1, inf)"], Annotated[int, "[1, inf)"],
            Annotated[int, "[1, inf)"], Annotated[int, "[1, inf)"],
        ],
        Doc("Feature maps of the five convolutions."),
    ] = (32, 96, 128, 128, 96)  # fmt: skip
    hidden: Annotated[tuple[Annotated[int, "[1, inf)"], ...], Doc("Units of the hidden dense layers.")] = (256, 256)
    stem: Annotated[
        Literal["small", "large"],
        Doc("First window 3x3 and poolings with padding, or 11x11 with stride 4 for images of 67 rows and more."),
    ] = "small"
    groups: Annotated[
        int, "[1, 2]", Doc("Halves that the second, fourth and fifth convolution keep apart; 2 is the form of 2012.")
    ] = 1
    halves: Annotated[
        str | None,
        Doc(
            "Two devices such as cuda:0+cuda:1 (or cpu+cpu) that hold half of the channels and units each, with groups "
            "2; one device holds all where left out."
        ),
    ] = None
    dropout: Annotated[float, "[0, 1)", Doc("Probability to drop an output of a hidden dense layer in training.")] = 0.5

    def check_parameters(self) -> None:
        super().check_parameters()
        whole_numbers("channels", self.channels, (5,), "five numbers")
        check_layer_sizes(self.hidden)
        if self.halves is not None:
            self._check_halves(self.halves)

    def _check_halves(self, halves: str) -> None:
        places_of(halves)
        if self.groups != 2:
            raise UserValueError(f"groups must be 2 for two halves, got {self.groups}", "groups", "give groups=2")
        for name in ("channels", "hidden"):
            uneven = [size for size in getattr(self, name) if size % 2]
            if uneven:
                raise UserValueError(f"{name} must be even numbers for two halves, got {uneven[0]}", name)

    def arguments(self, examples: Examples) -> dict[str, Any]:
        return super().arguments(examples) | {
            "channels": tuple(map(int, self.channels)), "hidden": tuple(map(int, self.hidden)), "stem": self.stem,
            "groups": int(self.groups), "halves": self.halves, "dropout": float(self.dropout),
        }  # fmt: skip
