"""Initial weights by address: the slot ``initializer``.

Weights are zero-mean with a spread that an initializer takes from the layer's fans; biases are exactly 0. The numbers
come from `Noise` by the parameter's name, so they are the same on every process and whatever else is drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import nn

from gnomon.contracts import Noise
from gnomon.errors import UserValueError
from gnomon.nn.layers import PHM
from gnomon.nn.unshared import PlacedKernels
from gnomon.recipes.parameters import check_parameters
from gnomon.recipes.recipe import Recipe

__all__ = [
    "HeNormal", "HeUniform", "Initializer", "LeCunNormal", "LeCunUniform", "Normal", "NormalConvolutions",
    "Orthogonal", "Uniform", "XavierNormal", "XavierUniform", "fans", "initialize",
]  # fmt: skip

_LAYERS = (nn.Linear, nn.modules.conv._ConvNd)


def fans(shape: tuple[int, ...], *, columns: bool = False) -> tuple[int, int]:
    """Inputs and outputs that one weight of this shape connects: fan_in, fan_out.

    Parameters
    ----------
    shape : tuple of at least two int
        (outputs, inputs, *kernel), as torch stores it; the kernel's area counts in both fans.
    columns : bool, default False
        The shape is (inputs, outputs, *kernel) instead.

    Examples
    --------
    >>> fans((8, 3, 5, 5))
    (75, 200)
    """
    if len(shape) < 2:
        raise UserValueError(f"shape must be (outputs, inputs, ...) to have fans, got {tuple(shape)}", "shape")
    area = math.prod(shape[2:])
    first, second = shape[0] * area, shape[1] * area
    return (first, second) if columns else (second, first)


@dataclass(frozen=True)
class Initializer(Recipe):
    """Base of the recipes of the slot ``initializer``; a subclass says its spread."""

    def std(self, fan_in: int, fan_out: int, gain: float = 1.0) -> float:
        """Standard deviation of the weights.

        Parameters
        ----------
        fan_in, fan_out : int >= 1
        gain : float, default 1
            Of the activation that follows; see `gnomon.nn.activations.Activation.gain`.
        """
        raise NotImplementedError

    def fill(self, weight: torch.Tensor, noise: Noise, *, gain: float = 1.0, columns: bool = False) -> None:
        """Give a weight its initial values, in place.

        Parameters
        ----------
        weight : tensor of shape (outputs, inputs, *kernel), float32 or float64
        noise : Noise
            A stream of this weight's own.
        gain : float, default 1
        columns : bool, default False
            The shape is (inputs, outputs, *kernel) instead.
        """
        check_parameters(self, self.get_params())
        values = self._draw(weight, noise, self.std(*fans(tuple(weight.shape), columns=columns), gain))
        with torch.no_grad():
            weight.copy_(values)

    def _draw(self, weight: torch.Tensor, noise: Noise, std: float) -> torch.Tensor:
        values: torch.Tensor = noise.normal(tuple(weight.shape), like=weight.detach())
        return values * std


class _Flat(Initializer):
    """Uniform on (-sqrt(3) std, sqrt(3) std), whose standard deviation is std."""

    def _draw(self, weight: torch.Tensor, noise: Noise, std: float) -> torch.Tensor:
        values: torch.Tensor = noise.uniform(tuple(weight.shape), like=weight.detach())
        return (2 * values - 1) * (math.sqrt(3) * std)


@dataclass(frozen=True)
class Normal(Initializer):
    """N(0, spread^2), whatever the fans. A spread of 1 saturates sigmoids.

    Parameters
    ----------
    spread : float in (0, inf), default 0.01
        Standard deviation.
    """

    short: ClassVar[str] = "normal"
    spread: Annotated[float, "(0, inf)"] = 0.01

    def std(self, fan_in: int, fan_out: int, gain: float = 1.0) -> float:
        """The spread."""
        return self.spread


@dataclass(frozen=True)
class NormalConvolutions(Normal):
    """N(0, 0.02^2), as Radford, Metz and Chintala (2016) begin convolutions with batch normalization behind them.

    Parameters
    ----------
    spread : float in (0, inf), default 0.02
        Standard deviation.
    """

    short: ClassVar[str] = "normal-conv"
    spread: Annotated[float, "(0, inf)"] = 0.02


@dataclass(frozen=True)
class Uniform(_Flat):
    """U(-bound, bound), whatever the fans.

    Parameters
    ----------
    bound : float in (0, inf), default 0.07
        Largest absolute weight.
    """

    short: ClassVar[str] = "uniform"
    bound: Annotated[float, "(0, inf)"] = 0.07

    def std(self, fan_in: int, fan_out: int, gain: float = 1.0) -> float:
        """bound / sqrt(3)."""
        return self.bound / math.sqrt(3)


@dataclass(frozen=True)
class XavierUniform(_Flat):
    """U(-b, b) with b = gain sqrt(6 / (fan_in + fan_out)): variance 2 gain^2 / (fan_in + fan_out), kept both ways.

    Source: Glorot and Bengio (2010).

    Parameters
    ----------
    gain : float in (0, inf), default 1
        Factor of the spread.
    """

    short: ClassVar[str] = "xavier-uniform"
    gain: Annotated[float, "(0, inf)"] = 1.0

    def std(self, fan_in: int, fan_out: int, gain: float = 1.0) -> float:
        """gain * sqrt(2 / (fan_in + fan_out)); the activation's gain is not used."""
        return self.gain * math.sqrt(2 / (fan_in + fan_out))


@dataclass(frozen=True)
class XavierNormal(Initializer):
    """N(0, 2 gain^2 / (fan_in + fan_out)).

    Source: Glorot and Bengio (2010).

    Parameters
    ----------
    gain : float in (0, inf), default 1
        Factor of the spread.
    """

    short: ClassVar[str] = "xavier-normal"
    gain: Annotated[float, "(0, inf)"] = 1.0

    def std(self, fan_in: int, fan_out: int, gain: float = 1.0) -> float:
        """gain * sqrt(2 / (fan_in + fan_out)); the activation's gain is not used."""
        return self.gain * math.sqrt(2 / (fan_in + fan_out))


@dataclass(frozen=True)
class HeUniform(_Flat):
    """U(-b, b) with b = gain sqrt(3 / fan_in): keeps the size of pre-activations on the way forward.

    Source: He et al. (2015).

    Parameters
    ----------
    gain : float in (0, inf) or None, default None
        None takes the gain of the activation that follows: the square root of 2 for relu.
    """

    short: ClassVar[str] = "he-uniform"
    gain: Annotated[float, "(0, inf)"] | None = None

    def std(self, fan_in: int, fan_out: int, gain: float = 1.0) -> float:
        """gain / sqrt(fan_in)."""
        return (gain if self.gain is None else self.gain) / math.sqrt(fan_in)


@dataclass(frozen=True)
class HeNormal(Initializer):
    """N(0, gain^2 / fan_in): keeps the size of pre-activations on the way forward.

    Source: He et al. (2015).

    Parameters
    ----------
    gain : float in (0, inf) or None, default None
        None takes the gain of the activation that follows: the square root of 2 for relu.
    """

    short: ClassVar[str] = "he-normal"
    gain: Annotated[float, "(0, inf)"] | None = None

    def std(self, fan_in: int, fan_out: int, gain: float = 1.0) -> float:
        """gain / sqrt(fan_in)."""
        return (gain if self.gain is None else self.gain) / math.sqrt(fan_in)


@dataclass(frozen=True)
class LeCunUniform(_Flat):
    """U(-b, b) with b = sqrt(3 / fan_in).

    Source: LeCun et al. (1998), Efficient backprop.
    """

    short: ClassVar[str] = "lecun-uniform"

    def std(self, fan_in: int, fan_out: int, gain: float = 1.0) -> float:
        """1 / sqrt(fan_in)."""
        return 1 / math.sqrt(fan_in)


@dataclass(frozen=True)
class LeCunNormal(Initializer):
    """N(0, 1 / fan_in): what selu needs.

    Source: LeCun et al. (1998), Efficient backprop.
    """

    short: ClassVar[str] = "lecun-normal"

    def std(self, fan_in: int, fan_out: int, gain: float = 1.0) -> float:
        """1 / sqrt(fan_in)."""
        return 1 / math.sqrt(fan_in)


@dataclass(frozen=True)
class Orthogonal(Initializer):
    """gain times a random matrix with orthonormal rows or columns, whichever are fewer, uniform among these.

    Axes after the first are taken together. By QR of a normal matrix with the signs of R's diagonal (Mezzadri 2007);
    source: Saxe, McClelland and Ganguli (2014). Cost O(outputs inputs min(outputs, inputs)).

    Parameters
    ----------
    gain : float in (0, inf), default 1
        Every singular value.
    """

    short: ClassVar[str] = "orthogonal"
    gain: Annotated[float, "(0, inf)"] = 1.0

    def std(self, fan_in: int, fan_out: int, gain: float = 1.0) -> float:
        """Of the matrix that is orthogonalized: 1, which cancels."""
        return 1.0

    def _draw(self, weight: torch.Tensor, noise: Noise, std: float) -> torch.Tensor:
        values = super()._draw(weight, noise, std).flatten(1)
        tall = values if values.shape[0] >= values.shape[1] else values.T
        q, r = torch.linalg.qr(tall)
        q = q * r.diagonal().sign()
        return self.gain * (q if tall is values else q.T).reshape(weight.shape)


def initialize(module: nn.Module, initializer: Initializer, noise: Noise, *, gain: Any = 1.0) -> None:
    """Give every linear, convolutional, unshared and PHM layer inside a module its weights, and biases of 0.

    Other parameters (the slopes of PReLU, norms) keep what they have.

    Parameters
    ----------
    module : nn.Module
    initializer : Initializer
    noise : Noise
        Each weight draws from the child stream of its name, such as ``layers.0.weight``.
    gain : float or dict of str to float, default 1
        Gain of the activation after the layers, or by the layer's name, 1 for those not named (the last layer's).

    Examples
    --------
    >>> from gnomon.nn.layers import dense
    >>> from gnomon.numeric.noise import Noise
    >>> layer = dense(4, 2)
    >>> initialize(layer, XavierUniform(), Noise(0, "fit/initial"))
    >>> bool(layer.weight.abs().max() < 1), layer.bias.tolist()
    (True, [0.0, 0.0])
    """
    for name, layer in module.named_modules():
        factor = gain.get(name, 1.0) if isinstance(gain, dict) else gain
        stream = noise.child(f"{name}.weight" if name else "weight")
        if isinstance(layer, PHM):
            _initialize_phm(layer, initializer, stream, factor)
        elif isinstance(layer, PlacedKernels):
            for number, kernel in enumerate(layer.kernels):
                initializer.fill(kernel, stream.child(str(number)), gain=factor)
        elif isinstance(layer, _LAYERS):
            transposed = getattr(layer, "transposed", False)
            initializer.fill(layer.weight, stream, gain=factor, columns=transposed)
        else:
            continue
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)


def _initialize_phm(layer: PHM, initializer: Initializer, noise: Noise, gain: float) -> None:
    """Rules of variance 1 / n, parts with the whole layer's fans: an entry of W then has the variance asked for."""
    n, outputs, inputs = layer.parts.shape
    check_parameters(initializer, initializer.get_params())
    std = initializer.std(n * inputs, n * outputs, gain)
    with torch.no_grad():
        layer.rules.copy_(
            noise.child("rules").normal(tuple(layer.rules.shape), like=layer.rules.detach()) / math.sqrt(n)
        )
        layer.parts.copy_(initializer._draw(layer.parts, noise.child("parts"), std))
