"""Rows with missing cells under a mixture of densities in closed form: what it says of these given the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from gnomon.contracts import Array, Noise
from gnomon.errors import UserValueError
from gnomon.inference.exact.quadrature import log_integral

__all__ = ["CellMoments", "NormalCells", "chosen_components", "mixed_cells", "observed_by_quadrature", "patterns"]

WIDEST = 2
"""Missing cells of a row that are integrated out."""
NUMBERS = 1 << 21
"""Floating numbers that the components' answers to one chunk of rows may take: 16 MB."""

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class CellMoments(NamedTuple):
    """What a density says of rows with missing cells.

    Attributes
    ----------
    log_prob : array of shape (n,)
        Log probability (or density) of the known cells of each row in nats; 0 of a row without any.
    mean, variance : arrays of shape (n, d)
        Of each missing cell given the known ones of its row; known cells have their value and variance 0.
    """

    log_prob: Floats
    mean: Floats
    variance: Floats


def patterns(missing: Mask) -> Iterator[tuple[Mask, NDArray[np.int64]]]:
    """Each pattern of missing cells, and its rows.

    Examples
    --------
    >>> [rows.tolist() for _, rows in patterns(np.array([[True, False], [False, False], [True, False]]))]
    [[1], [0, 2]]
    """
    found, which = np.unique(missing, axis=0, return_inverse=True)
    for number, pattern in enumerate(found):
        yield np.asarray(pattern), np.flatnonzero(which.ravel() == number)


def mixed_cells(x: Array, missing: Mask, log_joint: Array, means: Array, variances: Array) -> CellMoments:
    r"""Moments of the missing cells under a mixture whose components have independent columns.

    :math:`E[x_j | x_o] = \sum_k p(k | x_o) \mu_{kj}`; the variance is the mean of the components' plus that of their
    means.

    Parameters
    ----------
    x : array of shape (n, d)
    missing : bool array of shape (n, d)
    log_joint : array of shape (n, K)
        log of weight_k p(x_o | k).
    means, variances : arrays of shape (K, d)
    """
    total = logsumexp(log_joint, axis=1)
    share = np.exp(log_joint - total[:, None])
    mean = share @ means
    spread = share @ (variances + means * means) - mean * mean
    known = ~missing
    found = np.where(known.any(1), total, 0.0)
    return CellMoments(found, np.where(known, x, mean), np.where(known, 0.0, np.maximum(spread, 0.0)))


def chosen_components(log_joint: Array, noise: Noise) -> NDArray[np.int64]:
    """A component of each row by its posterior, (n,); `log_joint` is log p(k, known cells of the row), (n, K)."""
    share = np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True))
    u = noise.uniform((len(share), 1), like=share)
    return np.minimum((np.cumsum(share, 1) < u).sum(1), share.shape[1] - 1)


def observed_by_quadrature(energy: Callable[[Array], Array], x: Array, missing: Mask) -> Floats:
    """Log of the integral of exp(-energy) over the missing cells of each row, one or two real columns at most.

    Parameters
    ----------
    energy : callable
        Rows (n, d) to energies in nats, (n,).
    x : array of shape (n, d)
    missing : bool array of shape (n, d)

    Raises
    ------
    UserValueError
        More missing cells in a row.

    Examples
    --------
    >>> found = observed_by_quadrature(
    ...     lambda x: 0.5 * (x * x).sum(1), np.array([[1.0, 0.0]]), np.array([[False, True]])
    ... )
    >>> found.round(6).tolist()  # of exp(-1 / 2) times the root of 2 pi
    [0.418939]
    """
    found = np.zeros(len(x))
    for k, (row, gap) in enumerate(zip(np.asarray(x, np.float64), missing, strict=True)):
        if gap.sum() > WIDEST:
            what = f"at most {WIDEST} missing cells of a row are integrated out, got {gap.sum()}"
            raise UserValueError(what, "X", "fill the gaps by impute")

        def log_density(cells: Floats, row: Floats = row, gap: Mask = gap) -> Floats:
            filled = np.tile(row, (len(cells), 1))
            filled[:, gap] = cells
            return -np.asarray(energy(filled), np.float64)

        sides = [(-math.inf, math.inf)] * int(gap.sum())
        found[k] = log_integral(log_density, sides, tolerance=1e-7) if gap.any() else log_density(row[None, gap])[0]
    return found


class NormalCells:
    r"""Missing cells under :math:`\sum_k \pi_k N(x; \mu_k, \Sigma_k)`.

    Given the known cells o the missing ones m are the mixture with weights :math:`\propto \pi_k N(x_o; \mu_{k,o},
    \Sigma_{k,oo})`, means :math:`\mu_{k,m} + \Sigma_{k,mo} \Sigma_{k,oo}^{-1} (x_o - \mu_{k,o})` and covariances
    :math:`\Sigma_{k,mm} - \Sigma_{k,mo} \Sigma_{k,oo}^{-1} \Sigma_{k,om}`.

    Parameters
    ----------
    log_weights : array of shape (K,)
    means : array of shape (K, d)
    covariances : array of shape (K, d, d)
        Positive definite.

    Notes
    -----
    Cost O(K d^3) for each pattern of missing cells, and O(K d^2) for each row.
    Source: Bishop (2006), section 2.3.1.

    Examples
    --------
    >>> normal = NormalCells([0.0], [[1.0, 2.0]], [[[1.0, 0.5], [0.5, 1.0]]])
    >>> found = normal.moments(np.array([[3.0, 0.0]]), np.array([[False, True]]))
    >>> found.mean.tolist(), found.variance.tolist()
    ([[3.0, 3.0]], [[0.0, 0.75]])
    """

    def __init__(self, log_weights: ArrayLike, means: ArrayLike, covariances: ArrayLike) -> None:
        self.log_weights = np.asarray(log_weights, np.float64)
        self.means, self.covariances = np.asarray(means, np.float64), np.asarray(covariances, np.float64)

    @classmethod
    def of_precisions(cls, log_weights: Floats, linear: Floats, precisions: Floats) -> NormalCells:
        r"""Of components :math:`\exp(w_k + b_k^T x - x^T P_k x / 2)`, whatever their sum is: it is normalized here.

        Parameters
        ----------
        log_weights, linear, precisions : arrays of shape (K,), (K, d), (K, d, d)
        """
        means = np.linalg.solve(precisions, linear[:, :, None])[:, :, 0]
        masses = log_weights + 0.5 * ((linear * means).sum(1) - np.linalg.slogdet(precisions)[1])
        return cls(masses - logsumexp(masses), means, np.linalg.inv(precisions))

    def in_units(self, shift: Floats, scale: Floats) -> NormalCells:
        """Of the rows times `scale` plus `shift`, arrays of shape (d,)."""
        return NormalCells(self.log_weights, self.means * scale + shift, self.covariances * np.outer(scale, scale))

    def moments(self, x: Array, missing: Mask) -> CellMoments:
        """Log density of the known cells, and mean and variance of each missing one."""
        found = CellMoments(np.zeros(len(x)), np.array(x, np.float64), np.zeros(np.shape(x)))
        for gap, rows in self._chunks(missing):
            log_joint, means, covariances = self.given(x[rows], gap)
            total = logsumexp(log_joint, axis=1)
            share = np.exp(log_joint - total[:, None]).T
            mean = np.einsum("kn,knj->nj", share, means)
            own = np.diagonal(covariances, axis1=1, axis2=2)
            away = means - mean
            spread = share.T @ own + np.einsum("kn,knj->nj", share, away * away)
            found.log_prob[rows] = 0.0 if gap.all() else total
            found.mean[np.ix_(rows, gap)], found.variance[np.ix_(rows, gap)] = mean, spread
        return found

    def draw(self, x: Array, missing: Mask, noise: Noise) -> Floats:
        """The rows with one joint draw of the missing cells of each; row i takes the numbers of its place."""
        found = np.array(x, np.float64)
        for gap, rows in self._chunks(missing):
            if not gap.any():
                continue
            log_joint, means, covariances = self.given(x[rows], gap)
            chosen = chosen_components(log_joint, noise.child("component").rows(rows))
            z = noise.child("cells").rows(rows).normal((len(rows), int(gap.sum())), like=found)
            turned = (_root(covariances)[chosen] @ z[:, :, None])[:, :, 0]
            found[np.ix_(rows, gap)] = means[chosen, np.arange(len(rows))] + turned
        return found

    def _chunks(self, missing: Mask) -> Iterator[tuple[Mask, NDArray[np.int64]]]:
        """Patterns with some of their rows, few enough for an answer of each component."""
        step = max(NUMBERS // max(self.means.size, 1), 1)
        for gap, rows in patterns(missing):
            for start in range(0, len(rows), step):
                yield gap, rows[start : start + step]

    def given(self, x: Array, gap: Mask) -> tuple[Floats, Floats, Floats]:
        """log pi_k N(x_o) (n, K), conditional means (K, n, m) and covariances (K, m, m) of each component.

        Parameters
        ----------
        x : array of shape (n, d)
        gap : bool array of shape (d,)
            The missing cells of all rows.
        """
        seen = ~gap
        whole = self.covariances
        left = whole[:, gap][:, :, gap]
        if not seen.any():
            joint = np.tile(self.log_weights, (len(x), 1))
            return joint, np.repeat(self.means[:, None], len(x), axis=1), left
        lower = np.linalg.cholesky(whole[:, seen][:, :, seen])
        away = np.asarray(x, np.float64)[None, :, seen] - self.means[:, None, seen]
        white = np.linalg.solve(lower, away.swapaxes(1, 2))
        pull = np.linalg.solve(lower, whole[:, seen][:, :, gap])
        half = np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(1) + 0.5 * seen.sum() * math.log(2 * math.pi)
        joint = self.log_weights[:, None] - half[:, None] - 0.5 * (white * white).sum(1)
        means = self.means[:, None, gap] + white.swapaxes(1, 2) @ pull
        return joint.T, means, left - pull.swapaxes(1, 2) @ pull


def _root(covariances: Any) -> Floats:
    """A matrix R with R R^T = C of each covariance, of singular ones too."""
    values, vectors = np.linalg.eigh(covariances)
    found: Floats = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    return found
