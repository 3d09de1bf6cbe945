"""Forms of the covariances of a Gaussian mixture as recipes: the slot ``covariance``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from gnomon.contracts import Array
from gnomon.distributions.gaussian import DiagNormals, FullNormals, Normals, SphericalNormals, TiedNormals
from gnomon.recipes.recipe import Recipe

__all__ = ["Covariance", "Diag", "Full", "Spherical", "Tied"]


@dataclass(frozen=True)
class Covariance(Recipe):
    """Base of the forms; says which normal distributions the components are.

    Parameters
    ----------
    floor : float in [0, 1), default 1e-6
        Smallest variance of a component in any direction, as a share of the columns' variances over the training rows
        (of a constant column: of its square, or of 1 where it is 0). With 0 a component whose rows coincide or lie in
        a plane ends the fit.
    """

    normals: ClassVar[type[Normals]] = Normals
    by_column: ClassVar[bool] = True
    """Whether the fit is the same in whatever unit a column is measured."""

    floor: Annotated[float, "[0, 1)"] = 1e-6

    def build(self, means: Array, variance: Array) -> Normals:
        """Components with these means, shape (k, d), whose columns all have these variances, shape (d,)."""
        return self.normals(means, self._covariances(len(means), np.asarray(variance, dtype=np.float64)))

    def repeated(self, one: Normals, k: int) -> Array:
        """The covariance of a single component k times."""
        return np.repeat(one.covariances, k, axis=0)

    def _covariances(self, k: int, variance: Any) -> Array:
        raise NotImplementedError


@dataclass(frozen=True)
class Full(Covariance):
    """A covariance matrix for every component: k d (d + 1) / 2 parameters."""

    short: ClassVar[str] = "full"
    normals: ClassVar[type[Normals]] = FullNormals

    def _covariances(self, k: int, variance: Any) -> Array:
        return np.repeat(np.diag(variance)[None], k, axis=0)


@dataclass(frozen=True)
class Tied(Covariance):
    """One covariance matrix for all components: d (d + 1) / 2 parameters."""

    short: ClassVar[str] = "tied"
    normals: ClassVar[type[Normals]] = TiedNormals

    def repeated(self, one: Normals, k: int) -> Array:
        """There is only one."""
        return one.covariances

    def _covariances(self, k: int, variance: Any) -> Array:
        return np.diag(variance)


@dataclass(frozen=True)
class Diag(Covariance):
    """A variance for every component and column: k d parameters."""

    short: ClassVar[str] = "diag"
    normals: ClassVar[type[Normals]] = DiagNormals

    def _covariances(self, k: int, variance: Any) -> Array:
        return np.repeat(variance[None], k, axis=0)


@dataclass(frozen=True)
class Spherical(Covariance):
    """A variance for every component, the same in all directions: k parameters."""

    short: ClassVar[str] = "spherical"
    normals: ClassVar[type[Normals]] = SphericalNormals
    by_column: ClassVar[bool] = False

    def _covariances(self, k: int, variance: Any) -> Array:
        return np.full(k, variance.mean())
