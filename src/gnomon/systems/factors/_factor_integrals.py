"""Integrals over the factors of rows of bits or counts: their probability, and what it says of missing cells."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from gnomon.contracts import Array, Noise
from gnomon.inference.exact.cells import CellMoments, chosen_components

__all__ = ["FactorIntegrals"]

GRID = 96
"""Points of a row's grid in each direction."""
FURTHEST = 6.6
"""Distance of its points from the middle at most, in units of the grid; what is beyond is below 1e-14."""
WIDER = 1.25
"""What deviations of a row's normal posterior are multiplied by for its grid."""
DRAWS = 500
"""Of each row's normal posterior, where factors are too many for grids."""
NUMBERS = 1 << 21
"""Cells at nodes that are looked at together: 16 MB."""

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class FactorIntegrals:
    """Sums over nodes of z for each row: Gauss-Hermite grids about its normal q, or weighted draws of it.

    Parameters
    ----------
    model : GeneralizedFactorAnalysisModel
    noise : Noise, optional
        Of draws; grids, of up to two factors, take none.
    """

    def __init__(self, model: Any, noise: Noise | None = None) -> None:
        self.model, self.noise = model, noise

    @property
    def note(self) -> str:
        """How answers are found."""
        return "quadrature over the factors" if self.model.exact else f"{DRAWS} weighted draws of the factors"

    def log_prob(self, x: Array, known: Mask) -> Floats:
        """Log probability of the known cells of each row in nats, (n,); 0 of a row without any."""
        found = np.zeros(len(x))
        for rows, _, log_w in self._nodes(x, known):
            found[rows] = logsumexp(log_w, axis=1)
        return np.where(known.any(1), found, 0.0)

    def latent_moments(self, x: Array) -> tuple[Floats, Floats]:
        """E[z | x], (n, k), and Cov[z | x], (n, k, k)."""
        k = self.model.components.shape[1]
        mean, covariance = np.zeros((len(x), k)), np.zeros((len(x), k, k))
        for rows, z, log_w in self._nodes(x, np.ones(np.shape(x), np.bool_)):
            share = _shares(log_w)[:, :, None]
            mean[rows] = (share * z).sum(1)
            away = z - mean[rows][:, None]
            covariance[rows] = (share * away).swapaxes(1, 2) @ away
        return mean, covariance

    def moments(self, x: Array, missing: Mask) -> CellMoments:
        """Log probability of the known cells, mean and variance of each missing one given them."""
        log_prob, mean, square = np.zeros(len(x)), np.zeros(np.shape(x)), np.zeros(np.shape(x))
        for rows, z, log_w in self._nodes(x, ~missing):
            cells = self.model.columns.at(self.model.fields(z))
            share = _shares(log_w)[:, None]
            log_prob[rows] = logsumexp(log_w, axis=1)
            mean[rows] = (share @ cells.slope)[:, 0]
            square[rows] = (share @ (cells.curvature + cells.slope**2))[:, 0]
        spread = np.maximum(square - mean * mean, 0.0)
        log_prob = np.where(missing.all(1), 0.0, log_prob)
        return CellMoments(log_prob, np.where(missing, mean, x), np.where(missing, spread, 0.0))

    def draw(self, x: Array, missing: Mask) -> Floats:
        """The rows with a joint draw of the missing cells of each."""
        assert self.noise is not None
        distinct, which = np.unique(np.concatenate([np.where(missing, 0, x), missing], 1), axis=0, return_inverse=True)
        known, gaps = np.split(distinct, 2, axis=1)
        at, found = np.argsort(which.ravel(), kind="stable"), np.array(x, np.float64)
        for rows, z, log_w in self._nodes(known, gaps == 0):
            own = at[np.isin(which.ravel()[at], rows)]
            each = which.ravel()[own] - rows[0]
            chosen = chosen_components(log_w[each], self.noise.child("node").rows(own))
            found[own] = self.model.columns.draw(
                self.model.fields(z[each, chosen]), self.noise.child("cells").rows(own)
            )
        return np.where(missing, found, x)

    def _nodes(self, x: Array, known: Mask) -> Iterator[tuple[NDArray[np.int64], Floats, Floats]]:
        """Some rows at a time: values of z, (n, Q, k), and what each stands for of log p(known cells, z), (n, Q)."""
        d, k = self.model.components.shape
        each = GRID**k if self.model.exact else DRAWS
        step = max(1, NUMBERS // (each * d))
        for begin in range(0, len(x), step):
            rows = np.arange(begin, min(begin + step, len(x)))
            yield (rows, *self._weighted(np.asarray(x[rows], np.float64), known[rows], rows))

    def _weighted(self, x: Floats, known: Mask, places: NDArray[np.int64]) -> tuple[Floats, Floats]:
        model = self.model
        mean, covariance = model.posterior(x, known)
        u, log_share = self._standard(places, mean.shape[1])
        lower = np.linalg.cholesky(covariance) * (WIDER if model.exact else 1.0)
        z = mean[:, None] + u @ lower.swapaxes(1, 2)
        eta = model.fields(z)
        seen = known[:, None].astype(np.float64)
        cells = (eta @ (x * known)[:, :, None])[:, :, 0] - (model.columns.normalizer(eta) * seen).sum(2)
        base = (model.columns.log_base(x) * known).sum(1) + np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(1)
        return z, cells + base[:, None] + model.log_prior_of(z) - model.log_prior_of(u) + log_share

    def _standard(self, places: NDArray[np.int64], k: int) -> tuple[Floats, Floats]:
        """Nodes of a standard normal for each row, (n or 1, Q, k), and logarithms of their shares, (Q,)."""
        if not self.model.exact:
            assert self.noise is not None
            drawn = self.noise.child("latent").rows(places).normal((len(places), DRAWS * k), like=np.empty(0))
            return np.reshape(drawn, (len(places), DRAWS, k)), np.full(DRAWS, -math.log(DRAWS))
        at, share = np.polynomial.hermite_e.hermegauss(GRID)
        logs = np.log(share / share.sum())
        grid, each = (np.stack(np.meshgrid(*[one] * k, indexing="ij"), -1).reshape(-1, k) for one in (at, logs))
        near = (grid * grid).sum(1) <= FURTHEST**2
        return grid[None, near], each[near].sum(1)


def _shares(log_w: Floats) -> Floats:
    return np.exp(log_w - logsumexp(log_w, axis=1, keepdims=True))
