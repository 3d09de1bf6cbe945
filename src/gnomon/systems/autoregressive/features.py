"""What a linear conditional sees of the columns before its own: the slot ``features``.

A recipe builds a basis, which answers designs: the features of rows, and for each column which of them it may see.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement
from typing import Annotated, Any, ClassVar

import torch
from torch import nn

from gnomon.contracts import Noise
from gnomon.errors import UserValueError
from gnomon.recipes.recipe import Recipe

__all__ = ["Basis", "Features", "Monomials", "OwnDesign", "Polynomial", "RadialBasis", "SharedDesign"]

MOST = 8192
"""Features of a basis at most: products of two take a gigabyte of numbers with 16,384."""
WIDE = 1 << 23
"""Numbers of the distances between rows and centers that are held together."""


class SharedDesign:
    """Features that all columns share, each column seeing the first of them only.

    Parameters
    ----------
    phi : tensor of shape (n, p)
    mask : tensor of shape (p, d)
        1 where a column sees a feature; in each column ones stand before zeros.
    """

    def __init__(self, phi: torch.Tensor, mask: torch.Tensor) -> None:
        self.phi, self.mask = phi, mask

    def apply(self, weight: torch.Tensor) -> torch.Tensor:
        """Sums of features by weights (p, width, d): (n, width, d)."""
        return (self.phi @ weight.flatten(1)).reshape(len(self.phi), *weight.shape[1:])

    def adjoint(self, r: torch.Tensor) -> torch.Tensor:
        """Sums over rows of features times r (n, width, d): (p, width, d)."""
        return (self.phi.T @ r.flatten(1)).reshape(-1, *r.shape[1:]) * self.mask[:, None]

    def gram(self, weight: torch.Tensor) -> torch.Tensor:
        """Sums over rows of the products of features, (p, p)."""
        return self.phi.T @ (self.phi * weight[:, None])


class OwnDesign:
    """Features that each column has of its own.

    Parameters
    ----------
    phi : tensor of shape (d, n, p)
    """

    def __init__(self, phi: torch.Tensor) -> None:
        self.phi = phi

    def apply(self, weight: torch.Tensor) -> torch.Tensor:
        """Sums of features by weights (p, width, d): (n, width, d)."""
        return (self.phi @ weight.permute(2, 0, 1)).permute(1, 2, 0)

    def adjoint(self, r: torch.Tensor) -> torch.Tensor:
        """Sums over rows of features times r (n, width, d): (p, width, d)."""
        return (self.phi.mT @ r.permute(2, 0, 1)).permute(1, 2, 0)

    def gram(self, weight: torch.Tensor) -> torch.Tensor:
        """Sums over rows of the products of features, (d, p, p)."""
        return self.phi.mT @ (self.phi * weight[:, None])


class Basis(nn.Module):
    """Base of the bases; the first feature is 1. Float64.

    Parameters
    ----------
    n_features : int
        Columns d.
    seen : int
        Inputs of each column: indicators of categories, or the value itself.
    """

    order: torch.Tensor

    def __init__(self, n_features: int, seen: int) -> None:
        super().__init__()
        self.n_features, self.seen = n_features, seen
        self.register_buffer("order", torch.arange(n_features))

    @property
    def count(self) -> int:
        """Features p of a column at most."""
        raise NotImplementedError

    def begin(self, order: torch.Tensor, inputs: torch.Tensor, noise: Noise) -> None:
        """Take the order of the columns, and what the inputs of the training rows say."""
        self.order.copy_(order)

    def place(self) -> torch.Tensor:
        """The place of each column in the order, (d,)."""
        return torch.argsort(self.order)

    def mask(self) -> torch.Tensor:
        """1 where a column sees a feature, (p, d)."""
        raise NotImplementedError

    def design(self, inputs: torch.Tensor) -> Any:
        """The features of rows of inputs (n, seen d)."""
        raise NotImplementedError

    def sums(self, inputs: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Sums of the features of rows by weights (p, width, d), (n, width, d)."""
        found: torch.Tensor = self.design(inputs).apply(weight)
        return found

    def sums_at(self, inputs: torch.Tensor, weight: torch.Tensor, t: int) -> torch.Tensor:
        """The same of the column at place t alone, (n, width)."""
        raise NotImplementedError


class Monomials(Basis):
    """Products of inputs, each standing at the last place of its columns: a column sees those before its own place.

    Parameters
    ----------
    n_features, seen : int
    terms : tensor of shape (p, degree)
        Numbers of the inputs that are multiplied; ``seen d`` stands for a factor of 1.
    """

    terms: torch.Tensor

    def __init__(self, n_features: int, seen: int, terms: torch.Tensor) -> None:
        super().__init__(n_features, seen)
        self.register_buffer("terms", terms)

    @property
    def count(self) -> int:
        return len(self.terms)

    def begin(self, order: torch.Tensor, inputs: torch.Tensor, noise: Noise) -> None:
        super().begin(order, inputs, noise)
        self.terms.copy_(self.terms[torch.argsort(self._reach(), stable=True)])  # what each column sees comes first

    def _reach(self) -> torch.Tensor:
        """The last place among the columns of each product, -1 for none."""
        places = torch.cat([self.place().repeat_interleave(self.seen), self.order.new_tensor([-1])])
        return places[self.terms].amax(1)

    def mask(self) -> torch.Tensor:
        return (self._reach()[:, None] < self.place()[None]).double()

    def _features(self, inputs: torch.Tensor) -> torch.Tensor:
        padded = torch.cat([inputs.double(), inputs.new_ones((len(inputs), 1)).double()], 1)
        found = padded[:, self.terms[:, 0]]
        for factor in self.terms.T[1:]:
            found = found * padded[:, factor]
        return found

    def design(self, inputs: torch.Tensor) -> SharedDesign:
        return SharedDesign(self._features(inputs), self.mask())

    def sums_at(self, inputs: torch.Tensor, weight: torch.Tensor, t: int) -> torch.Tensor:
        return self._features(inputs) @ weight[:, :, self.order[t]]


class Radial(Basis):
    r"""1 and :math:`\exp(-g_t \sum_{s < t} |u_s - c_s|^2)` of each center c, from the columns s before place t.

    Parameters
    ----------
    n_features, seen : int
    centers : int
    gamma : float
        g_t is this over the sum of the variances of the inputs before place t.
    """

    centers: torch.Tensor
    rates: torch.Tensor

    def __init__(self, n_features: int, seen: int, centers: int, gamma: float) -> None:
        super().__init__(n_features, seen)
        self.gamma = gamma
        self.register_buffer("centers", torch.zeros(centers, seen * n_features, dtype=torch.float64))
        self.register_buffer("rates", torch.zeros(n_features, dtype=torch.float64))

    @property
    def count(self) -> int:
        return 1 + len(self.centers)

    def begin(self, order: torch.Tensor, inputs: torch.Tensor, noise: Noise) -> None:
        super().begin(order, inputs, noise)
        chosen = torch.as_tensor(noise.child("centers").order(len(inputs))[: len(self.centers)])
        self.centers[: len(chosen)] = inputs.double()[chosen]
        if len(chosen) < len(self.centers):  # fewer rows than centers: the last one stands for the rest
            self.centers[len(chosen) :] = self.centers[len(chosen) - 1]
        spread = self._by_place(inputs.double().var(0, correction=0)[None])[0].cumsum(0)
        before = torch.cat([spread.new_zeros(1), spread[:-1]])
        self.rates.copy_(torch.where(before > 0, self.gamma / before.clamp_min(1e-300), 0.0))

    def _by_place(self, parts: torch.Tensor) -> torch.Tensor:
        """Numbers of inputs (..., seen d) summed over each column, by place."""
        return parts.reshape(*parts.shape[:-1], self.n_features, self.seen).sum(-1)[..., self.order]

    def mask(self) -> torch.Tensor:
        first = self.place() == 0
        return torch.cat([torch.ones(1, self.n_features), (~first).float().expand(len(self.centers), -1)]).double()

    def design(self, inputs: torch.Tensor) -> OwnDesign:
        apart = self._by_place((inputs.double()[:, None] - self.centers[None]).square())
        before = apart.cumsum(2) - apart
        phi = torch.exp(-self.rates * before)[:, :, self.place()].permute(2, 0, 1)
        ones = phi.new_ones((self.n_features, len(inputs), 1))
        return OwnDesign(torch.cat([ones, phi], 2) * self.mask().T[:, None])

    def sums(self, inputs: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        step = max(1, WIDE // self.centers.numel())
        parts = (inputs[start : start + step] for start in range(0, max(1, len(inputs)), step))
        return torch.cat([self.design(part).apply(weight) for part in parts])

    def sums_at(self, inputs: torch.Tensor, weight: torch.Tensor, t: int) -> torch.Tensor:
        own = weight[:, :, self.order[t]]
        if not t:
            return own[0].expand(len(inputs), -1)
        columns = (self.order[:t, None] * self.seen + torch.arange(self.seen, device=self.order.device)).flatten()
        apart = torch.cdist(inputs[:, columns].double(), self.centers[:, columns]).square()
        return own[0] + torch.exp(-self.rates[t] * apart) @ own[1:]


@dataclass(frozen=True)
class Features(Recipe):
    """Base of the features of the columns before a column."""

    normal: ClassVar[bool] = False
    """Whether real columns with these features are jointly normal."""

    def build(self, n_features: int, seen: int, powers: bool) -> Basis:
        """The basis of so many columns with `seen` inputs each; with `powers` a column may stand twice in a product."""
        raise NotImplementedError


@dataclass(frozen=True)
class Plain(Features):
    """The columns themselves, of categories their indicators."""

    short: ClassVar[str] = "columns"
    normal: ClassVar[bool] = True

    def build(self, n_features: int, seen: int, powers: bool) -> Basis:
        """The basis."""
        return Polynomial(1).build(n_features, seen, powers)


@dataclass(frozen=True)
class Polynomial(Features):
    """Products of up to `degree` columns; of real columns powers too. Of three bits degree 2 knows any distribution.

    Parameters
    ----------
    degree : int in [1, 8], default 2
        Factors of a product at most: about (d choose degree) features.
    """

    short: ClassVar[str] = "polynomial"
    degree: Annotated[int, "[1, 8]"] = 2

    def build(self, n_features: int, seen: int, powers: bool) -> Basis:
        """The basis.

        Raises
        ------
        UserValueError
            More than 8,192 features.
        """
        count = sum(
            math.comb(n_features + (r - 1 if powers else 0), r) * seen**r for r in range(min(self.degree, 8) + 1)
        )
        if count > MOST:
            what = f"features must be at most {MOST}, got {count} products of {n_features} columns"
            raise UserValueError(what, "conditionals__features", "use a lower degree, or fewer columns")
        among = combinations_with_replacement if powers else combinations
        none = seen * n_features
        terms = [
            [*(seen * column + one for column, one in zip(chosen, places, strict=True)), *[none] * (self.degree - r)]
            for r in range(self.degree + 1)
            for chosen in among(range(n_features), r)
            for places in _places(seen, r)
        ]
        return Monomials(n_features, seen, torch.tensor(terms))


@dataclass(frozen=True)
class RadialBasis(Features):
    """Bumps around training rows: a kernel regression on landmarks, of which each column sees the columns before it.

    Parameters
    ----------
    centers : int in [1, inf), default 50
        Training rows that bumps stand at, drawn at random.
    gamma : float in (0, inf), default 1.0
        How narrow they are: a squared distance is divided by the variance of the columns that it is over.
    """

    short: ClassVar[str] = "rbf"
    centers: Annotated[int, "[1, inf)"] = 50
    gamma: Annotated[float, "(0, inf)"] = 1.0

    def build(self, n_features: int, seen: int, powers: bool) -> Basis:
        """The basis."""
        return Radial(n_features, seen, self.centers, self.gamma)


def _places(seen: int, r: int) -> list[tuple[int, ...]]:
    """Which input of each of r columns: all combinations."""
    found: list[tuple[int, ...]] = [()]
    for _ in range(r):
        found = [(*one, place) for one in found for place in range(seen)]
    return found
