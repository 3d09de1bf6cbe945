"""Bayes' rule on a finite or gridded parameter: the posterior by sums in the log domain."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.errors import UserValueError
from gnomon.numeric.ops import logsumexp

__all__ = ["GridPosterior", "grid_posterior", "warn_of_edges"]

Floats = NDArray[np.float64]

_EDGE = 1e-3
"""Mass beyond an end that is told: the density there, kept up for one standard deviation."""


class GridPosterior:
    """Law of a parameter on the points of a grid, made by `grid_posterior`.

    Parameters
    ----------
    points : array of shape (m,) or (m, d)
    log_mass : array of shape (m,)
        Log of the points' posterior probabilities, normalized.
    log_evidence : float
        Log probability (density) of the data in nats.
    """

    def __init__(self, points: Floats, log_mass: Floats, log_evidence: float) -> None:
        self.points, self.log_mass, self.log_evidence = points, log_mass, log_evidence

    @property
    def mass(self) -> Floats:
        """Posterior probability of each point, shape (m,)."""
        return np.exp(self.log_mass)

    @property
    def mean(self) -> Any:
        """Posterior mean, a number or an array of shape (d,)."""
        return np.tensordot(self.mass, self.points, 1)

    def expect(self, function: Callable[[Floats], ArrayLike]) -> Any:
        """Posterior mean of a function of the points; it takes all of them at once."""
        return np.tensordot(self.mass, np.asarray(function(self.points), np.float64), 1)

    def credible_interval(self, mass: float = 0.95) -> tuple[float, float]:
        """Equal-tailed interval of a single parameter: least points below which (1 -/+ mass) / 2 lie.

        Raises
        ------
        UserValueError
            More than one parameter, or a mass outside (0, 1).
        """
        if self.points.ndim > 1:
            raise UserValueError(
                f"an interval needs one parameter, got {self.points.shape[1]}",
                "credible_interval",
                "marginalize to one first",
            )
        if not 0 < mass < 1:
            raise UserValueError.must("mass", "be in (0, 1)", mass)
        order = np.argsort(self.points, kind="stable")
        total = np.cumsum(self.mass[order])
        ends = np.searchsorted(total, [(1 - mass) / 2, (1 + mass) / 2])
        low, high = self.points[order][np.minimum(ends, len(order) - 1)]
        return float(low), float(high)

    def sample(self, n: int, noise: Any) -> Floats:
        """n of the points, each with its posterior probability."""
        from gnomon.distributions.table import Categorical

        return self.points[Categorical(self.log_mass).sample(noise, 0, (n,))]

    def log_predictive(self, log_likelihood: Callable[[Floats], ArrayLike]) -> Any:
        """Log of the posterior average of the likelihood of something new (averages probabilities, not their logs).

        Parameters
        ----------
        log_likelihood : callable
            Of the points, shape (m,) or (m, k) for k new outcomes.
        """
        values = np.asarray(log_likelihood(self.points), np.float64)
        return logsumexp(values.T + self.log_mass, axis=-1)


def grid_posterior(
    points: ArrayLike, log_prior: ArrayLike, log_likelihood: ArrayLike, *, weights: ArrayLike | None = None
) -> GridPosterior:
    r"""Posterior on a grid, :math:`p(\theta_i | x) \propto w_i p(x | \theta_i) p(\theta_i)`, with its evidence.

    Parameters
    ----------
    points : array of shape (m,) or (m, d)
        Values of the parameter.
    log_prior : array of shape (m,)
        Log prior probabilities of a discrete parameter; log prior densities of a continuous one.
    log_likelihood : array of shape (m,)
        Log probability of all data at each point, in nats; -inf is allowed.
    weights : array of shape (m,), optional
        Weights of the quadrature for a continuous parameter (cell widths); 1 each for a discrete one.

    Warns
    -----
    UserWarning
        A continuous parameter whose posterior density at an end is not small: kept up for one more standard deviation
        it would hold over 0.1 %. The grid misses some of the mass, unless the parameter ends there. Of several
        parameters each is looked at where the points are a product of grids.

    Raises
    ------
    UserValueError
        Shapes that differ, or a posterior without mass.

    References
    ----------
    Bayes (1763); Gelman et al. (2013), section 10.1.

    Examples
    --------
    >>> found = grid_posterior([0, 1], np.log([0.99, 0.01]), np.log([0.05, 0.99]))
    >>> float(found.mass[1].round(6))
    0.166667
    """
    grid = np.asarray(points, np.float64)
    prior, likelihood = np.asarray(log_prior, np.float64), np.asarray(log_likelihood, np.float64)
    shapes = {len(grid), *prior.shape, *likelihood.shape}
    if len(shapes) != 1 or prior.ndim != 1 or likelihood.ndim != 1:
        lengths = f"{len(grid)}, {prior.shape} and {likelihood.shape}"
        what = f"points, log_prior and log_likelihood must have one length, got {lengths}"
        raise UserValueError(what, "points")
    joint = prior + likelihood
    if weights is not None:
        with np.errstate(divide="ignore"):
            joint = joint + np.log(np.broadcast_to(np.asarray(weights, np.float64), joint.shape))
    evidence = float(logsumexp(joint, axis=0))
    if not np.isfinite(evidence):
        what = f"the posterior has no finite mass (log evidence {evidence})"
        raise UserValueError(what, "log_likelihood", "cover the likely values, with a proper prior")
    posterior = GridPosterior(grid, joint - evidence, evidence)
    if weights is not None:
        warn_of_edges(posterior)
    return posterior


def warn_of_edges(found: GridPosterior) -> None:
    """By the density, which a finer grid leaves as it is; the mass of the last point it makes small."""
    axes = found.points.reshape(len(found.points), -1).T
    for j, axis in enumerate(axes):
        places, of = np.unique(axis, return_inverse=True)
        if len(places) < 3 or (len(axes) > 1 and len(places) == len(axis)):
            continue  # points that are scattered have no ends
        mass = np.bincount(of, found.mass)
        spread = float(np.sqrt(mass @ (places - mass @ places) ** 2))
        for end, inner in ((0, 1), (-1, -2)):
            if mass[end] / abs(places[end] - places[inner]) * spread > _EDGE:
                where = f"{places[end]:g} of the grid" + (f" in parameter {j}" if len(axes) > 1 else "")
                warnings.warn(
                    f"the posterior is not small at the end {where}: widen it, unless the parameter ends there",
                    UserWarning, stacklevel=3,
                )  # fmt: skip
