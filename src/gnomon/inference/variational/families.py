r"""Families that a posterior is approximated in: normal distributions on the whole line, by form of covariance.

A member is found by its free parameters, which a gradient moves without constraint: the mean, logs of the standard
deviations (or of the diagonal of the Cholesky factor L), and what couples the coordinates. A draw is
:math:`z = m + L e` with standard normal e, so that gradients pass through it; the entropy is
:math:`\tfrac12 d \log(2 \pi e) + \log|\det L|`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon.contracts import Noise
from gnomon.errors import UserValueError
from gnomon.recipes.recipe import Recipe

__all__ = ["FullCovariance", "MeanField", "NormalForm", "Structured", "VariationalFamily"]

Free = dict[str, torch.Tensor]
LOG_2PI = math.log(2 * math.pi)


class NormalForm(ABC):
    """A normal distribution of rows (d,) in some form of covariance; everything is a float64 tensor."""

    mean: torch.Tensor

    @property
    @abstractmethod
    def normals(self) -> int:
        """Standard normal numbers that a draw is made of."""

    @abstractmethod
    def draw(self, e: torch.Tensor) -> torch.Tensor:
        """Draws (n, d) from standard normal numbers (n, normals), with gradients."""

    @abstractmethod
    def squares(self, centered: torch.Tensor) -> torch.Tensor:
        """Squared Mahalanobis lengths (n,) of rows less the mean."""

    @property
    @abstractmethod
    def log_det(self) -> torch.Tensor:
        """Half the log determinant of the covariance."""

    @property
    @abstractmethod
    def covariance(self) -> torch.Tensor:
        """(d, d)."""

    @property
    def variance(self) -> torch.Tensor:
        """Of each coordinate, (d,)."""
        return self.covariance.diagonal()

    def log_prob(self, z: torch.Tensor) -> torch.Tensor:
        """Log density of each row in nats, (n,)."""
        return -0.5 * (self.squares(z - self.mean) + len(self.mean) * LOG_2PI) - self.log_det

    def entropy(self) -> torch.Tensor:
        """In nats."""
        return 0.5 * len(self.mean) * (LOG_2PI + 1) + self.log_det

    def sample(self, n: int, noise: Noise, draw: int = 0) -> torch.Tensor:
        """n draws, (n, d)."""
        return self.draw(noise.normal((n, self.normals), draw, like=self.mean))


@dataclass(frozen=True)
class _Diagonal(NormalForm):
    mean: torch.Tensor
    log_scale: torch.Tensor

    @property
    def normals(self) -> int:
        return len(self.mean)

    def draw(self, e: torch.Tensor) -> torch.Tensor:
        return self.mean + self.log_scale.exp() * e

    def squares(self, centered: torch.Tensor) -> torch.Tensor:
        return (centered * (-self.log_scale).exp()).square().sum(-1)

    @property
    def log_det(self) -> torch.Tensor:
        return self.log_scale.sum()

    @property
    def variance(self) -> torch.Tensor:
        return (2 * self.log_scale).exp()

    @property
    def covariance(self) -> torch.Tensor:
        return self.variance.diag()


@dataclass(frozen=True)
class _Cholesky(NormalForm):
    mean: torch.Tensor
    log_scale: torch.Tensor
    below: torch.Tensor
    """What is below the diagonal of the factor, in units of the row's diagonal."""

    @property
    def lower(self) -> torch.Tensor:
        """The Cholesky factor, (d, d)."""
        return self.log_scale.exp()[:, None] * (self.below + torch.eye(len(self.mean), dtype=self.mean.dtype))

    @property
    def normals(self) -> int:
        return len(self.mean)

    def draw(self, e: torch.Tensor) -> torch.Tensor:
        return self.mean + e @ self.lower.T

    def squares(self, centered: torch.Tensor) -> torch.Tensor:
        return torch.linalg.solve_triangular(self.lower, centered.T, upper=False).square().sum(0)

    @property
    def log_det(self) -> torch.Tensor:
        return self.log_scale.sum()

    @property
    def covariance(self) -> torch.Tensor:
        return self.lower @ self.lower.T


@dataclass(frozen=True)
class _LowRank(NormalForm):
    r"""Covariance :math:`S (I + U U^T) S` with a diagonal S."""

    mean: torch.Tensor
    log_scale: torch.Tensor
    factor: torch.Tensor

    @property
    def normals(self) -> int:
        return sum(self.factor.shape)

    def draw(self, e: torch.Tensor) -> torch.Tensor:
        d = len(self.mean)
        return self.mean + self.log_scale.exp() * (e[:, :d] + e[:, d:] @ self.factor.T)

    @property
    def _inner(self) -> torch.Tensor:
        """I + U^T U, of the rank's size: all that is inverted."""
        return torch.eye(self.factor.shape[1], dtype=self.mean.dtype) + self.factor.T @ self.factor

    def squares(self, centered: torch.Tensor) -> torch.Tensor:
        scaled = centered * (-self.log_scale).exp()
        inner = scaled @ self.factor
        return scaled.square().sum(-1) - (inner * torch.linalg.solve(self._inner, inner.T).T).sum(-1)

    @property
    def log_det(self) -> torch.Tensor:
        return self.log_scale.sum() + 0.5 * torch.linalg.slogdet(self._inner)[1]

    @property
    def covariance(self) -> torch.Tensor:
        scale = self.log_scale.exp()
        wide = scale[:, None] * self.factor
        return (2 * self.log_scale).exp().diag() + wide @ wide.T


# --- recipes --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class VariationalFamily(Recipe):
    """Base of the recipes of the slot ``family``: the forms of covariance that q may have."""

    def start(self, mean: NDArray[np.float64], scale: float, sizes: tuple[int, ...], noise: Noise) -> Free:
        """Free parameters of a normal distribution of independent coordinates.

        Parameters
        ----------
        mean : array of shape (d,)
        scale : float > 0
            Standard deviation of every coordinate.
        sizes : tuple of int
            Numbers of each named parameter, in their order; they add up to d.
        noise : Noise
            For what may not begin at 0.
        """
        log_scale = torch.full((len(mean),), math.log(scale), dtype=torch.float64)
        return {"mean": torch.tensor(mean, dtype=torch.float64), "log_scale": log_scale}

    def member(self, free: Mapping[str, torch.Tensor], sizes: tuple[int, ...]) -> NormalForm:
        """The distribution of some free parameters; gradients go through."""
        raise NotImplementedError


@dataclass(frozen=True)
class MeanField(VariationalFamily):
    r"""Independent coordinates, :math:`q(z) = \prod_k N(z_k; m_k, s_k^2)`: 2 d numbers.

    The reverse divergence makes it too narrow where coordinates of the posterior depend on each other: at a normal
    posterior of precision P the variances are :math:`1 / P_{kk}`.
    """

    short: ClassVar[str] = "mean-field"

    def member(self, free: Mapping[str, torch.Tensor], sizes: tuple[int, ...]) -> NormalForm:
        """Of independent coordinates."""
        return _Diagonal(free["mean"], free["log_scale"])


@dataclass(frozen=True)
class FullCovariance(VariationalFamily):
    """Any covariance, by its Cholesky factor: d (d + 3) / 2 numbers. Exact where the posterior is normal."""

    short: ClassVar[str] = "full"

    def start(self, mean: NDArray[np.float64], scale: float, sizes: tuple[int, ...], noise: Noise) -> Free:
        """Of independent coordinates."""
        d = len(mean)
        return super().start(mean, scale, sizes, noise) | {"below": torch.zeros((d, d), dtype=torch.float64)}

    def member(self, free: Mapping[str, torch.Tensor], sizes: tuple[int, ...]) -> NormalForm:
        """By its factor."""
        return _Cholesky(free["mean"], free["log_scale"], free["below"].tril(-1))


@dataclass(frozen=True)
class Structured(VariationalFamily):
    """Dependence where it is looked for: blocks that are independent of each other, or a few directions in common.

    Without options the blocks are the named parameters, each with a full covariance; where there is one parameter
    alone, a rank of 1 is taken.

    Parameters
    ----------
    blocks : tuple of int, optional
        Sizes of the blocks, in the order of the coordinates.
    rank : int in [1, inf), optional
        Diagonal plus this many directions, for many coordinates: d (rank + 2) numbers. Not together with `blocks`.
    """

    short: ClassVar[str] = "structured"
    blocks: tuple[int, ...] | None = None
    rank: Annotated[int, "[1, inf)"] | None = None

    def start(self, mean: NDArray[np.float64], scale: float, sizes: tuple[int, ...], noise: Noise) -> Free:
        """Of independent coordinates; directions begin at small random numbers, 0 would be a saddle point."""
        d, rank = len(mean), self._rank(sizes)
        free = super().start(mean, scale, sizes, noise)
        if rank:
            return free | {"factor": 0.1 * noise.child("factor").normal((d, rank), like=free["mean"])}
        self._mask(sizes, d)
        return free | {"below": torch.zeros((d, d), dtype=torch.float64)}

    def member(self, free: Mapping[str, torch.Tensor], sizes: tuple[int, ...]) -> NormalForm:
        """Of blocks, or of low rank plus diagonal."""
        if "factor" in free:
            return _LowRank(free["mean"], free["log_scale"], free["factor"])
        mask = self._mask(sizes, len(free["mean"]))
        return _Cholesky(free["mean"], free["log_scale"], free["below"].tril(-1) * mask)

    def _rank(self, sizes: tuple[int, ...]) -> int:
        if self.rank is not None and self.blocks is not None:
            raise UserValueError("blocks and rank must not both be given", "family__blocks, family__rank")
        return self.rank or (1 if self.blocks is None and len(sizes) == 1 else 0)

    def _mask(self, sizes: tuple[int, ...], d: int) -> torch.Tensor:
        """1 where two coordinates are in one block."""
        blocks = self.blocks or sizes
        if sum(blocks) != d or min(blocks) < 1:
            raise UserValueError(f"blocks must add up to {d} coordinates, got {blocks}", "family__blocks")
        which = torch.repeat_interleave(torch.arange(len(blocks)), torch.tensor(blocks))
        return (which[:, None] == which).double()


def numpy_of(x: Any) -> NDArray[np.float64]:
    """A tensor as a NumPy array."""
    found: NDArray[np.float64] = x.detach().cpu().double().numpy()
    return found
