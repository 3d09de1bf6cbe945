"""Ways to expect real latent variables whose posterior has no closed form, as recipes: the slot ``expectation``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from gnomon.contracts import Array, Noise
from gnomon.errors import UserValueError
from gnomon.recipes.recipe import Recipe
from gnomon.training.em import EM
from gnomon.training.variational_em import AscendingEM

__all__ = ["ExpectationForm", "MonteCarlo", "Quadrature", "Variational"]

MOST_NODES = 4096
"""Nodes of a grid at most."""


@dataclass(frozen=True)
class ExpectationForm(Recipe):
    """Base of the recipes of the slot ``expectation``: how means over p(z | x) are found in a fit."""

    @property
    def updates(self) -> int:
        """Updates of a row's posterior in an iteration, where it has parameters of its own."""
        return 1

    def nodes(self, k: int, noise: Noise) -> tuple[Array, Array] | None:
        """Values (Q, k) that z may take in the fit and the logarithms of their shares (Q,); None: any."""
        return None

    def build(self, max_iter: int, tol: float) -> EM:
        """The procedure.

        Parameters
        ----------
        max_iter : int
            Iterations at most.
        tol : float
            End when an iteration gained no more than this, in nats per row.
        """
        return EM(max_iter, tol)


@dataclass(frozen=True)
class Variational(ExpectationForm):
    r"""A normal q(z) for each row, of any covariance, by updates that raise the evidence lower bound.

    The bound never falls, however few the updates; an unsettled q leaves it looser. What is fitted is the bound, so
    that parameters are drawn to where posteriors are nearly normal. It goes with any number of factors. Memory of the
    fit O(n k^2). Source: Neal and Hinton (1998); Opper and Archambeau (2009), "The variational Gaussian approximation
    revisited".

    Parameters
    ----------
    inner_steps : int in [1, inf), default 2
        Updates of the q of each row in an iteration; each goes on from where it was.
    outer_steps : int in [1, inf), default 1
        Newton steps of the parameters in an iteration, the q held.
    """

    short: ClassVar[str] = "variational"
    inner_steps: Annotated[int, "[1, inf)"] = 2
    outer_steps: Annotated[int, "[1, inf)"] = 1

    @property
    def updates(self) -> int:
        """The inner steps."""
        return self.inner_steps

    def build(self, max_iter: int, tol: float) -> EM:
        """See `ExpectationForm`."""
        return AscendingEM(max_iter, tol, self.outer_steps)


@dataclass(frozen=True)
class Quadrature(ExpectationForm):
    """The posterior on a grid of Gauss-Hermite nodes of the prior: exact to rounding for few factors.

    Cost O(n d points^k) an iteration: refused beyond 4,096 nodes, where ``variational`` and ``monte-carlo`` go on.
    Source: Bock and Aitkin (1981).

    Parameters
    ----------
    points : int in [2, inf), default 15
        Nodes of each factor.
    """

    short: ClassVar[str] = "quadrature"
    points: Annotated[int, "[2, inf)"] = 15

    def nodes(self, k: int, noise: Noise) -> tuple[Array, Array]:
        """The grid."""
        if self.points**k > MOST_NODES:
            what = (
                f"a grid of {self.points} points for each of {k} factors has {self.points**k} nodes, limit {MOST_NODES}"
            )
            raise UserValueError(what, "expectation", 'use "variational" or "monte-carlo", or fewer factors')
        at, share = np.polynomial.hermite_e.hermegauss(self.points)
        log_share = np.log(share / share.sum())
        grid = np.stack(np.meshgrid(*[at] * k, indexing="ij"), -1).reshape(-1, k)
        each = np.stack(np.meshgrid(*[log_share] * k, indexing="ij"), -1).reshape(-1, k)
        return grid, each.sum(1)


@dataclass(frozen=True)
class MonteCarlo(ExpectationForm):
    """The posterior by draws of the prior, weighed by p(x | z): Monte Carlo EM (Wei and Tanner 1990).

    The same draws serve all iterations and rows, so that the simulated likelihood never falls and the fit comes to an
    end; it is that of the model but for an error of order ``draws`` to the power -1/2. A row needs about exp of its
    divergence from the prior in nats of draws: for rows that say much about many factors take ``variational``.

    Parameters
    ----------
    draws : int in [2, inf), default 1000
        Values of z, the same for all rows.
    """

    short: ClassVar[str] = "monte-carlo"
    draws: Annotated[int, "[2, inf)"] = 1000

    def nodes(self, k: int, noise: Noise) -> tuple[Array, Array]:
        """Draws of the prior."""
        like: Any = np.empty(0)
        drawn = noise.child("nodes").normal((self.draws, k), like=like)
        return np.asarray(drawn), np.full(self.draws, -math.log(self.draws))
