"""Energies that add up: each is an expert that finds some rows likelier than others, their product a density."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn
from torch.nn import functional

from gnomon.contracts import Noise
from gnomon.errors import UserValueError
from gnomon.nn.layers import dense
from gnomon.recipes.recipe import Factory, Recipe

__all__ = [
    "Bernoulli", "BernoulliExpert", "Energy", "Expert", "Harmony", "HarmonyExpert", "Network", "NetworkExpert",
    "Normal", "NormalExpert", "Product", "StudentT", "StudentExpert",
]  # fmt: skip

Floats = NDArray[np.float64]


class Expert(nn.Module):
    """Base: the energy of rows x (n, d) in nats, up to a constant: -log of the expert's factor, shape (n,)."""

    def begin(self, noise: Noise, mean: Floats, variance: Floats) -> None:
        """First values, of columns with these means and variances."""


class NormalExpert(Expert):
    r""":math:`E(x) = \frac12 |A^T (x - \mu)|^2`, a normal density of the precision :math:`A A^T`.

    A is lower triangular with a diagonal above 0, so that there is a density whatever the parameters.

    Parameters
    ----------
    d : int
    dtype : torch.dtype
    """

    def __init__(self, d: int, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(d, dtype=dtype))
        self.log_diagonal = nn.Parameter(torch.zeros(d, dtype=dtype))
        self.below = nn.Parameter(torch.zeros((d, d), dtype=dtype))

    @classmethod
    def of(cls, mean: ArrayLike, precision: ArrayLike) -> Self:
        """The expert of a mean (d,) and a precision (d, d), in float64.

        Raises
        ------
        UserValueError
            A precision that is not positive definite.
        """
        wanted = np.asarray(precision, np.float64)
        least = float(np.linalg.eigvalsh(wanted)[0])
        if not least > 0:
            what = f"precision must be positive definite, got {least:g} as its least eigenvalue"
            raise UserValueError(what, "precision", "other energies have no integral")
        root = np.linalg.cholesky(wanted)
        expert = cls(len(wanted), torch.float64)
        with torch.no_grad():
            expert.mean.copy_(torch.as_tensor(np.asarray(mean, np.float64)))
            expert.log_diagonal.copy_(torch.from_numpy(np.log(np.diag(root))))
            expert.below.copy_(torch.from_numpy(root))
        return expert

    def begin(self, noise: Noise, mean: Floats, variance: Floats) -> None:
        """Independent columns of these means and variances."""
        with torch.no_grad():
            self.mean.copy_(torch.from_numpy(mean))
            self.log_diagonal.copy_(torch.from_numpy(-0.5 * np.log(np.maximum(variance, 1e-12))))

    @property
    def root(self) -> torch.Tensor:
        """A."""
        return self.below.tril(-1) + torch.diag(self.log_diagonal.exp())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See `Expert`."""
        response = (x - self.mean) @ self.root
        return 0.5 * (response * response).sum(-1)


class StudentExpert(Expert):
    r""":math:`E(x) = \sum_j \gamma_j \log(1 + \frac12 (r_j^T x + b_j)^2)`: heavy-tailed responses of n filters.

    Each factor is the density of Student's t with :math:`2 \gamma_j - 1` degrees of freedom, up to a constant.

    Parameters
    ----------
    d, n : int
        Columns, filters.
    shape : float
        gamma at first.
    dtype : torch.dtype
    """

    def __init__(self, d: int, n: int, shape: float = 2.0, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.filters = nn.Parameter(torch.zeros((d, n), dtype=dtype))
        self.offset = nn.Parameter(torch.zeros(n, dtype=dtype))
        self.log_shape = nn.Parameter(torch.full((n,), float(np.log(shape)), dtype=dtype))

    @classmethod
    def of(cls, filters: ArrayLike, shape: ArrayLike, offset: ArrayLike = 0.0) -> Self:
        """The experts of filters (d, n), shapes (n,) and offsets (n,), in float64.

        Raises
        ------
        UserValueError
            A shape that is not above 0.
        """
        R, gamma = np.asarray(filters, np.float64), np.asarray(shape, np.float64)
        if not (np.isfinite(gamma) & (gamma > 0)).all():
            raise UserValueError(f"shape must be finite and above 0, got {gamma.min():g}", "shape")
        expert = cls(R.shape[0], R.shape[1], dtype=torch.float64)
        with torch.no_grad():
            expert.filters.copy_(torch.from_numpy(R))
            expert.log_shape.copy_(torch.from_numpy(np.log(gamma)))
            expert.offset.copy_(torch.as_tensor(np.asarray(offset, np.float64)))
        return expert

    def begin(self, noise: Noise, mean: Floats, variance: Floats) -> None:
        """Frames of filters at right angles, as long as gives columns their spread where responses are small."""
        d, n = self.filters.shape
        turns = np.linalg.qr(noise.child("frames").normal((-(-n // d), d, d), like=mean))[0]
        length = np.sqrt(d / (float(self.log_shape.detach().exp().mean()) * n))
        filters = length * np.concatenate(list(turns), axis=1)[:, :n] / np.sqrt(np.maximum(variance, 1e-12))[:, None]
        with torch.no_grad():
            self.filters.copy_(torch.from_numpy(filters))
            self.offset.copy_(torch.from_numpy(-mean @ filters))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See `Expert`."""
        response = x @ self.filters + self.offset
        return torch.log1p(0.5 * response * response) @ self.log_shape.exp()


class NetworkExpert(Expert):
    """A network of smooth layers with one output, the energy; it grows no faster than linearly, so others must hold.

    Parameters
    ----------
    d : int
    hidden : sequence of int
        Units of each hidden layer, softplus ones.
    dtype : torch.dtype
    """

    def __init__(self, d: int, hidden: Sequence[int] = (32, 32), dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.layers = nn.ModuleList(dense(a, b, dtype=dtype) for a, b in pairwise((d, *hidden)))
        self.last = dense((d, *hidden)[-1], 1, bias=False, dtype=dtype)

    def begin(self, noise: Noise, mean: Floats, variance: Floats) -> None:
        """Weights of the variance 1 / inputs; those of the output a tenth of that deviation, so that it is flat."""
        with torch.no_grad():
            for name, weight in self.named_parameters():
                if weight.ndim > 1:
                    scale = (0.1 if name.startswith("last") else 1.0) / np.sqrt(weight.shape[1])
                    weight.copy_(scale * noise.child(name).normal(tuple(weight.shape), like=weight))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See `Expert`."""
        for layer in self.layers:
            x = functional.softplus(layer(x))
        found: torch.Tensor = self.last(x)[:, 0]
        return found


class BernoulliExpert(Expert):
    r""":math:`E(x) = -b^T x`, log-odds of bits; of real columns a slope.

    Parameters
    ----------
    d : int
    dtype : torch.dtype
    """

    def __init__(self, d: int, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(d, dtype=dtype))

    @classmethod
    def of(cls, bias: ArrayLike) -> Self:
        """The expert of log-odds (d,), in float64."""
        expert = cls(len(np.asarray(bias)), torch.float64)
        with torch.no_grad():
            expert.bias.copy_(torch.as_tensor(np.asarray(bias, np.float64)))
        return expert

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See `Expert`."""
        return -(x @ self.bias)


class HarmonyExpert(Expert):
    """What a module gives is log of a factor, called harmony or negative energy: its sign is turned.

    Parameters
    ----------
    module : nn.Module
        Rows (n, d) to (n,).
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def begin(self, noise: Noise, mean: Floats, variance: Floats) -> None:
        """As of the module, if it has first values to be given."""
        if isinstance(self.module, Expert):
            self.module.begin(noise, mean, variance)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See `Expert`."""
        return -self.module(x)


# --- recipes ----------------------------------------------------------------------------------------------------------


class Energy(Recipe):
    """Base: what the energy of a row is. A callable ``f(d, dtype)`` gives a module of yours, rows (n, d) to (n,)."""

    factory: ClassVar[bool] = True

    def build(self, d: int, dtype: torch.dtype) -> nn.Module:
        """The expert of d columns."""
        raise NotImplementedError


@dataclass(frozen=True)
class Normal(Energy):
    """A normal density of any covariance, which holds all other experts: `NormalExpert`."""

    short: ClassVar[str] = "normal"

    def build(self, d: int, dtype: torch.dtype) -> NormalExpert:
        """See `Energy`."""
        return NormalExpert(d, dtype)


@dataclass(frozen=True)
class StudentT(Energy):
    """Heavy-tailed responses of filters: `StudentExpert`.

    Parameters
    ----------
    n : int in [1, inf) or None, default None
        Filters; None: as many as columns.
    shape : float in [1, 1000], default 2
        gamma at first: 2 gamma - 1 degrees of freedom.
    """

    short: ClassVar[str] = "student-t"
    n: Annotated[int, "[1, inf)"] | None = None
    shape: Annotated[float, "[1, 1000]"] = 2.0

    def build(self, d: int, dtype: torch.dtype) -> StudentExpert:
        """See `Energy`."""
        return StudentExpert(d, d if self.n is None else self.n, self.shape, dtype)


@dataclass(frozen=True)
class Network(Energy):
    """A small network: `NetworkExpert`.

    Parameters
    ----------
    hidden : tuple of int in [1, inf), default (32, 32)
        Units of each hidden layer.
    """

    short: ClassVar[str] = "network"
    hidden: tuple[Annotated[int, "[1, inf)"], ...] = (32, 32)

    def build(self, d: int, dtype: torch.dtype) -> NetworkExpert:
        """See `Energy`."""
        return NetworkExpert(d, self.hidden, dtype)


@dataclass(frozen=True)
class Bernoulli(Energy):
    """Log-odds of each column: `BernoulliExpert`."""

    short: ClassVar[str] = "bernoulli"

    def build(self, d: int, dtype: torch.dtype) -> BernoulliExpert:
        """See `Energy`."""
        return BernoulliExpert(d, dtype)


@dataclass(frozen=True)
class Harmony(Energy):
    """The negative of an energy, of modules that give log of a factor: `HarmonyExpert`.

    Parameters
    ----------
    of : {"bernoulli", "network"} or recipe or callable, default "network"
        What gives the harmony.
    """

    short: ClassVar[str] = "harmony"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"of": Energy}
    of: Any = "network"

    def build(self, d: int, dtype: torch.dtype) -> HarmonyExpert:
        """See `Energy`."""
        return HarmonyExpert(self.recipe("of").build(d, dtype))


@dataclass(frozen=True)
class Product(Energy):
    """Two experts, of which either may be a product again: energies add.

    Parameters
    ----------
    first : Energy or str or callable, default "normal"
        One factor, or a product of some.
    second : Energy or str or callable, default "network"
        The other.
    """

    short: ClassVar[str] = "product"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"first": Energy, "second": Energy}
    first: Any = "normal"
    second: Any = "network"

    def build(self, d: int, dtype: torch.dtype) -> nn.ModuleList:
        """All experts, in turn."""
        return nn.ModuleList(one for name in self.slots for one in listed(self.recipe(name), d, dtype))


def listed(energy: Energy | Factory, d: int, dtype: torch.dtype) -> list[nn.Module]:
    """The experts that an energy is the sum of."""
    built = energy.build(d, dtype)
    return list(built) if isinstance(built, nn.ModuleList) else [built]
