"""Activations: elementwise units of the slot ``activation``, torch's functions where torch has them.

``MLP(activation="gelu")`` is ``MLP(activation=GELU())``. A recipe builds the module, knows the unit's gain (what a
weight's spread is multiplied by so that layers keep their size) and, where the output alone fixes it, the slope.

Conventions where a derivative has two values, all of them torch's: relu'(0) = 0, abs'(0) = 0, leaky and PReLU take the
negative side's slope at 0, ELU and SELU have the left derivative (alpha) at 0, maxout sends the whole gradient to the
first of equal pieces. NaN goes in and comes out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import nn

from gnomon.errors import UserTypeError, UserValueError
from gnomon.nn.units import AbsoluteValue, Max, StepUnit
from gnomon.recipes.parameters import check_parameters
from gnomon.recipes.recipe import Recipe

__all__ = [
    "CELU", "ELU", "GELU", "SELU", "Abs", "Activation", "Identity", "LeakyReLU", "LogSigmoid", "Maxout", "PReLU",
    "ReLU", "Sigmoid", "Softplus", "Tanh", "Threshold", "dead_fraction", "derivative",
]  # fmt: skip


@dataclass(frozen=True)
class Activation(Recipe):
    """Base of the recipes of the slot ``activation``.

    Attributes
    ----------
    widening : int
        Pre-activations per output: 1, but the number of pieces for maxout, so that a layer of m units needs
        ``m * widening`` affine outputs.
    trainable : bool
        Whether a gradient passes the unit, so that the layers below it can learn.
    gain : float
        1 / sqrt(E f(z)^2) for z ~ N(0, 1): weights of spread ``gain / sqrt(fan_in)`` keep pre-activations at
        variance 1. The square root of 2 for rectifiers (He et al. 2015).
    """

    @property
    def widening(self) -> int:
        """Pre-activations per output."""
        return 1

    @property
    def trainable(self) -> bool:
        """Whether a gradient passes the unit."""
        return True

    @property
    def gain(self) -> float:
        """1 / sqrt(E f(z)^2) for a standard normal z."""
        return _gain(self)

    def build(self, features: int = 1, dtype: torch.dtype | None = None) -> nn.Module:
        """The module.

        Parameters
        ----------
        features : int >= 1, default 1
            Channels (axis 1) of what will come in; only units that learn look at it.
        dtype : torch.dtype, optional
            Of what is learned.

        Raises
        ------
        UserValueError, UserTypeError
            A field outside its range.
        """
        check_parameters(self, self.get_params())
        return self._module(features, dtype)

    def _module(self, features: int, dtype: torch.dtype | None) -> nn.Module:
        raise NotImplementedError

    def slope_from_output(self, y: torch.Tensor) -> torch.Tensor:
        """The derivative as a function of the output y, which saves keeping the input.

        Raises
        ------
        UserTypeError
            The output does not fix the slope: the unit is not monotone, or two inputs of other slopes share an output.
        """
        raise UserTypeError(
            f"the output of {self.short} does not determine its slope", "activation", "use derivative(x)"
        )


@dataclass(frozen=True)
class Identity(Activation):
    """f(x) = x: a layer without an activation."""

    short: ClassVar[str] = "identity"

    def _module(self, features: int, dtype: torch.dtype | None) -> nn.Module:
        return nn.Identity()

    def slope_from_output(self, y: torch.Tensor) -> torch.Tensor:
        """1."""
        return torch.ones_like(y)


@dataclass(frozen=True)
class Sigmoid(Activation):
    """f(x) = 1 / (1 + exp(-x)), in (0, 1), = softmax([x, 0])[0]; f' = f (1 - f), at most 1/4: it saturates.

    Examples
    --------
    >>> Sigmoid().build()(torch.tensor([0.0, 1.0, -1000.0]))
    tensor([0.5000, 0.7311, 0.0000])
    """

    short: ClassVar[str] = "sigmoid"

    def _module(self, features: int, dtype: torch.dtype | None) -> nn.Module:
        return nn.Sigmoid()

    def slope_from_output(self, y: torch.Tensor) -> torch.Tensor:
        """y (1 - y)."""
        return y * (1 - y)


@dataclass(frozen=True)
class LogSigmoid(Activation):
    """f(x) = log sigmoid(x) = min(x, 0) - log1p(exp(-|x|)); f'(x) = sigmoid(-x) = 1 - exp(f)."""

    short: ClassVar[str] = "log-sigmoid"

    def _module(self, features: int, dtype: torch.dtype | None) -> nn.Module:
        return nn.LogSigmoid()

    def slope_from_output(self, y: torch.Tensor) -> torch.Tensor:
        """1 - exp(y)."""
        return -torch.expm1(y)


@dataclass(frozen=True)
class Tanh(Activation):
    """f(x) = (e^x - e^-x) / (e^x + e^-x) = 2 sigmoid(2x) - 1, in (-1, 1); f' = 1 - f^2."""

    short: ClassVar[str] = "tanh"

    def _module(self, features: int, dtype: torch.dtype | None) -> nn.Module:
        return nn.Tanh()

    def slope_from_output(self, y: torch.Tensor) -> torch.Tensor:
        """1 - y^2."""
        return 1 - y.square()


@dataclass(frozen=True)
class ReLU(Activation):
    """f(x) = max(0, x); f'(x) = 1 for x > 0, else 0, at 0 too. See `dead_fraction` for units that never move.

    Source: Nair and Hinton (2010).
    """

    short: ClassVar[str] = "relu"

    def _module(self, features: int, dtype: torch.dtype | None) -> nn.Module:
        return nn.ReLU()

    def slope_from_output(self, y: torch.Tensor) -> torch.Tensor:
        """1 where y > 0, else 0."""
        return (y > 0).to(y.dtype)


@dataclass(frozen=True)
class LeakyReLU(Activation):
    """f(x) = max(0, x) + slope * min(0, x), the piecewise form, so that slopes above 1 are right too.

    Source: Maas, Hannun and Ng (2013).

    Parameters
    ----------
    slope : float in (-inf, inf), default 0.01
        Derivative for x <= 0: 0 is relu, -1 the absolute value.
    """

    short: ClassVar[str] = "leaky-relu"
    slope: Annotated[float, "(-inf, inf)"] = 0.01

    def _module(self, features: int, dtype: torch.dtype | None) -> nn.Module:
        return nn.LeakyReLU(self.slope)

    def slope_from_output(self, y: torch.Tensor) -> torch.Tensor:
        """1 where y > 0, else the slope; needs a slope >= 0, else two inputs share an output."""
        if self.slope < 0:
            return super().slope_from_output(y)
        return torch.where(y > 0, torch.ones_like(y), self.slope)


@dataclass(frozen=True)
class PReLU(Activation):
    """f(x) = max(0, x) + a min(0, x) with a learned: df/da = x for x < 0, else 0. Weight decay must leave a alone.

    Source: He et al. (2015).

    Parameters
    ----------
    slope : float in (-inf, inf), default 0.25
        Where a begins.
    per_channel : bool, default True
        One a for each channel (axis 1), or one for all.
    """

    short: ClassVar[str] = "prelu"
    slope: Annotated[float, "(-inf, inf)"] = 0.25
    per_channel: bool = True

    def _module(self, features: int, dtype: torch.dtype | None) -> nn.Module:
        return nn.PReLU(features if self.per_channel else 1, init=self.slope, dtype=dtype)


@dataclass(frozen=True)
class Abs(Activation):
    """f(x) = |x|: units that do not mind polarity, as for edges in images (Jarrett et al. 2009); f'(0) = 0."""

    short: ClassVar[str] = "abs"

    def _module(self, features: int, dtype: torch.dtype | None) -> nn.Module:
        return AbsoluteValue()


@dataclass(frozen=True)
class ELU(Activation):
    """f(x) = x for x > 0, alpha (exp(x) - 1) else, above -alpha; smooth only where alpha = 1.

    Source: Clevert, Unterthiner and Hochreiter (2016).

    Parameters
    ----------
    alpha : float in (0, inf), default 1
        Where the negative side saturates, and its slope at 0.
    """

    short: ClassVar[str] = "elu"
    alpha: Annotated[float, "(0, inf)"] = 1.0

    def _module(self, features: int, dtype: torch.dtype | None) -> nn.Module:
        return nn.ELU(self.alpha)

    def slope_from_output(self, y: torch.Tensor) -> torch.Tensor:
        """1 where y > 0, else y + alpha."""
        return torch.where(y > 0, 1.0, y + self.alpha)


@dataclass(frozen=True)
class CELU(Activation):
    """f(x) = max(0, x) + min(0, alpha (exp(x / alpha) - 1)): ELU with slope 1 at 0 for every alpha.

    It tends to relu as alpha falls to 0 and to the identity as alpha grows. torch rounds alpha to single precision in
    the derivative: in float64 it is off by up to 1e-7 relatively for an alpha such as 0.7. Source: Barron (2017).

    Parameters
    ----------
    alpha : float in (0, inf), default 1
        Where the negative side saturates.
    """

    short: ClassVar[str] = "celu"
    alpha: Annotated[float, "(0, inf)"] = 1.0

    def _module(self, features: int, dtype: torch.dtype | None) -> nn.Module:
        return nn.CELU(self.alpha)

    def slope_from_output(self, y: torch.Tensor) -> torch.Tensor:
        """1 where y > 0, else 1 + y / alpha."""
        return torch.where(y > 0, 1.0, 1 + y / self.alpha)


@dataclass(frozen=True)
class SELU(Activation):
    """f(x) = scale * ELU(x; alpha) with the constants for which mean 0 and variance 1 is a stable fixed point.

    It needs weights of spread 1 / sqrt(fan_in) (the initializer ``lecun-normal``) and biases 0; other initializers and
    ordinary dropout break the property. Source: Klambauer et al. (2017).

    Attributes
    ----------
    alpha, scale : float
        1.6732632423543772 and 1.0507009873554805.
    """

    short: ClassVar[str] = "selu"
    alpha: ClassVar[float] = 1.6732632423543772
    scale: ClassVar[float] = 1.0507009873554805

    def _module(self, features: int, dtype: torch.dtype | None) -> nn.Module:
        return nn.SELU()

    def slope_from_output(self, y: torch.Tensor) -> torch.Tensor:
        """The scale where y > 0, else y + scale * alpha."""
        return torch.where(y > 0, self.scale, y + self.scale * self.alpha)

    def moment_map(self, mean: float, variance: float) -> tuple[float, float]:
        """Mean and variance of f(z) for z ~ N(mean, variance): how a layer of many inputs moves both.

        Parameters
        ----------
        mean : float
        variance : float in (0, inf)

        Examples
        --------
        >>> [round(value, 9) + 0.0 for value in SELU().moment_map(0.0, 1.0)]
        [0.0, 1.0]
        """
        from scipy.special import log_ndtr, ndtr

        if not variance > 0:
            raise UserValueError.must("variance", "be positive", variance)
        spread = math.sqrt(variance)
        above, density = ndtr(mean / spread), math.exp(-0.5 * mean * mean / variance) / math.sqrt(2 * math.pi)
        tilted = [math.exp(k * mean + k * k * variance / 2 + log_ndtr(-(mean + k * variance) / spread)) for k in (1, 2)]
        below = ndtr(-mean / spread)
        first = mean * above + spread * density + self.alpha * (tilted[0] - below)
        second = (mean * mean + variance) * above + mean * spread * density
        second += self.alpha**2 * (tilted[1] - 2 * tilted[0] + below)
        return float(self.scale * first), float(self.scale**2 * (second - first * first))


@dataclass(frozen=True)
class GELU(Activation):
    """f(x) = x Phi(x): the input weighted by the normal distribution function; f' = Phi(x) + x phi(x).

    Source: Hendrycks and Gimpel (2016).

    Parameters
    ----------
    approximate : {"none", "tanh"}, default "none"
        ``tanh``: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), off by up to 5e-4.
    """

    short: ClassVar[str] = "gelu"
    approximate: Literal["none", "tanh"] = "none"

    def _module(self, features: int, dtype: torch.dtype | None) -> nn.Module:
        return nn.GELU(self.approximate)


@dataclass(frozen=True)
class Softplus(Activation):
    """f(x) = log(1 + exp(beta x)) / beta, a smooth relu; f' = sigmoid(beta x) = 1 - exp(-beta f).

    Source: Dugas et al. (2001).

    Parameters
    ----------
    beta : float in (0, inf), default 1
        Sharpness.
    threshold : float in [0, inf], default 20
        Above ``beta x`` of this the value is x itself: at 20 a jump of 2.1e-9 / beta.
    """

    short: ClassVar[str] = "softplus"
    beta: Annotated[float, "(0, inf)"] = 1.0
    threshold: Annotated[float, "[0, inf]"] = 20.0

    def _module(self, features: int, dtype: torch.dtype | None) -> nn.Module:
        return nn.Softplus(self.beta, self.threshold)

    def slope_from_output(self, y: torch.Tensor) -> torch.Tensor:
        """1 - exp(-beta y)."""
        return -torch.expm1(-self.beta * y)


@dataclass(frozen=True)
class Maxout(Activation):
    """f(x)_i = max over the k pieces of group i: a convex piecewise linear unit whose shape is learned.

    A layer of m units has m * k affine outputs, k times the weights; the k of unit i lie side by side.
    Source: Goodfellow et al. (2013).

    Parameters
    ----------
    pieces : int in [2, inf), default 2
        Affine pieces of a unit.
    """

    short: ClassVar[str] = "maxout"
    pieces: Annotated[int, "[2, inf)"] = 2

    @property
    def widening(self) -> int:
        """The number of pieces."""
        return self.pieces

    def _module(self, features: int, dtype: torch.dtype | None) -> nn.Module:
        return Max(self.pieces)


@dataclass(frozen=True)
class Threshold(Activation):
    """f(x) = 1 for x > 0, else 0: the perceptron's unit. Its derivative is 0, so nothing below it learns by gradients.

    Parameters
    ----------
    straight_through : bool, default False
        Let the gradient pass as if f were the identity where \\|x\\| <= 1 (Hubara et al. 2016), so that layers below
        learn; the value stays 0 or 1.
    """

    short: ClassVar[str] = "threshold"
    straight_through: bool = False

    @property
    def trainable(self) -> bool:
        """Only with `straight_through`."""
        return self.straight_through

    def _module(self, features: int, dtype: torch.dtype | None) -> nn.Module:
        return StepUnit(self.straight_through)


def derivative(activation: Activation | nn.Module, x: torch.Tensor) -> torch.Tensor:
    """f'(x) of every element by automatic differentiation, with the conventions of this module at kinks.

    The backward rule of any activation is dL/dx = dL/dg * f'(x).

    Parameters
    ----------
    activation : recipe or elementwise module
    x : tensor

    Examples
    --------
    >>> derivative(Sigmoid(), torch.zeros(1))
    tensor([0.2500])
    """
    if isinstance(activation, Activation) and activation.widening > 1:
        raise UserTypeError("maxout has one gradient per piece", "activation", "differentiate its module")
    module = activation.build(dtype=x.dtype) if isinstance(activation, Activation) else activation
    point = x.detach().clone().requires_grad_()
    return torch.autograd.grad(module(point).sum(), point)[0]


def dead_fraction(outputs: Any) -> float:
    """Fraction of rectified units that are 0 for every row: they pass no gradient and will not move again.

    Parameters
    ----------
    outputs : array or tensor of shape (n, units)
        What came out of the unit; further axes (places in an image) count as rows, axis 1 is the unit.

    Examples
    --------
    >>> dead_fraction(np.array([[0.0, 1.0], [0.0, 0.0]]))
    0.5
    """
    values = torch.as_tensor(outputs)
    if values.ndim < 2 or not values.numel():
        raise UserValueError.must("outputs", "be (rows, units) and not empty", values)
    units = values.movedim(1, 0).reshape(values.shape[1], -1)
    return float((units <= 0).all(1).double().mean())


@lru_cache(maxsize=64)
def _gain(activation: Activation) -> float:
    """By Gauss-Legendre quadrature with a panel on each side of 0, where the kinks are."""
    node, weight = np.polynomial.legendre.leggauss(200)
    z = np.concatenate([6.5 * (node - 1), 6.5 * (node + 1)])  # (-13, 0) and (0, 13)
    density = np.tile(6.5 * weight, 2) * np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    points = torch.from_numpy(z)
    k = activation.widening
    if k > 1:  # the largest of k independent normals
        from scipy.special import ndtr

        values, density = z, density * k * ndtr(z) ** (k - 1)
    else:
        values = activation.build(dtype=torch.float64)(points[:, None]).detach().numpy()[:, 0]
    return float(1 / math.sqrt(density @ values**2))
