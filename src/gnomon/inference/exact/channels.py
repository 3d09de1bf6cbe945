r"""Damaged rows under mixtures in closed form: :math:`p(x | \tilde x) \propto p(x) C(\tilde x | x)`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from gnomon.inference.exact.cells import NormalCells

__all__ = ["NormalsGivenNoise", "bits_given_flips", "normal_posterior"]

ASCENTS = 2000
"""Steps of an ascent to a mode."""

Floats = NDArray[np.float64]


class NormalsGivenNoise(NamedTuple):
    """Of each row a mixture of normal densities.

    Attributes
    ----------
    share : array of shape (n, K)
        Weights.
    means : array of shape (n, K, d)
    covariances : array of shape (K, d, d)
        The same of every row.
    """

    share: Floats
    means: Floats
    covariances: Floats

    @property
    def mean(self) -> Floats:
        """E[x | damaged x], shape (n, d)."""
        return np.einsum("nk,nkd->nd", self.share, self.means)

    def modes(self) -> Floats:
        r"""The highest of the modes that ascents from the means of the components end at, shape (n, d).

        A step is :math:`x \leftarrow (\sum_k r_k P_k)^{-1} \sum_k r_k P_k m_k` with the responsibilities :math:`r_k`
        and precisions :math:`P_k` at x, which never falls (Carreira-Perpinan 2000). Of one component it is the mean.
        """
        n, k, _ = self.means.shape
        if k == 1:
            return self.means[:, 0]
        precisions = np.asarray(np.linalg.inv(self.covariances), np.float64)
        constants = 0.5 * np.linalg.slogdet(precisions)[1]
        x = self.means.copy()  # an ascent from the mean of each component: (n, K, d)
        for _ in range(ASCENTS):
            heights = self._heights(x, precisions, constants)
            part = np.exp(heights - logsumexp(heights, axis=2, keepdims=True))
            matrix = np.einsum("nsk,kij->nsij", part, precisions)
            pull = np.einsum("nsk,kij,nkj->nsi", part, precisions, self.means, optimize=True)
            before, x = x, np.linalg.solve(matrix, pull[..., None])[..., 0]
            if np.abs(x - before).max(initial=0.0) <= 1e-12 * max(1.0, np.abs(x).max(initial=0.0)):
                break
        best = logsumexp(self._heights(x, precisions, constants), axis=2).argmax(1)
        found: Floats = x[np.arange(n), best]
        return found

    def _heights(self, x: Floats, precisions: Floats, constants: Floats) -> Floats:
        """log share_k N(x_s; m_k, C_k) but for a constant, of starts s: (n, S, K)."""
        away = x[:, :, None] - self.means[:, None]
        fit = np.einsum("nski,kij,nskj->nsk", away, precisions, away, optimize=True)
        with np.errstate(divide="ignore"):
            return np.log(self.share)[:, None] + constants - 0.5 * fit


def normal_posterior(prior: NormalCells, damaged: Floats, variances: Floats) -> NormalsGivenNoise:
    r"""Rows given what normal noise has left of them.

    Of a component :math:`N(m, \Sigma)` and noise :math:`N = diag(\sigma^2)` the posterior has mean :math:`m + G
    (\tilde x - m)` and covariance :math:`\Sigma - G \Sigma` with the Wiener gain :math:`G = \Sigma (\Sigma +
    N)^{-1}`; its weight is :math:`\propto \pi N(\tilde x; m, \Sigma + N)`.

    Parameters
    ----------
    prior : NormalCells
    damaged : array of shape (n, d)
    variances : array of shape (d,), > 0
        Of the noise.

    Notes
    -----
    Cost O(K d^3 + n K d^2). Source: Wiener (1949); Bishop (2006), section 2.3.3.

    Examples
    --------
    >>> prior = NormalCells([0.0], [[0.0]], [[[3.0]]])
    >>> normal_posterior(prior, np.array([[4.0]]), np.array([1.0])).mean.tolist()
    [[3.0]]
    """
    sums = prior.covariances + np.diag(variances)
    away = damaged[:, None] - prior.means
    gains = np.linalg.solve(sums, prior.covariances).swapaxes(1, 2)
    lower = np.linalg.cholesky(sums)
    white = np.linalg.solve(lower, away.transpose(1, 2, 0))
    half = np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(1) + 0.5 * len(variances) * math.log(2 * math.pi)
    joint = (prior.log_weights - half - 0.5 * (white * white).sum(1).T).astype(np.float64)
    share = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    means = prior.means + np.einsum("kij,nkj->nki", gains, away)
    return NormalsGivenNoise(share, means, prior.covariances - gains @ prior.covariances)


def bits_given_flips(log_weights: Floats, means: Floats, damaged: Floats, flips: Floats) -> Floats:
    r"""E[x | damaged x] of bits that are independent given a hidden state, shape (n, d).

    :math:`p(k | \tilde x) \propto \pi_k \prod_j \sum_b p_{kj}(b) C(\tilde x_j | b)`, and given k each bit is by itself.

    Parameters
    ----------
    log_weights : array of shape (K,)
        But for a constant.
    means : array of shape (K, d)
        Probability of a 1.
    damaged : array of shape (n, d)
        Zeros and ones.
    flips : array of shape (d,), in (0, 1)

    Examples
    --------
    >>> bits_given_flips(np.zeros(1), np.array([[0.5]]), np.array([[1.0]]), np.array([0.1])).round(6).tolist()
    [[0.9]]
    """
    on, off = means * (1 - flips), (1 - means) * flips  # of a damaged bit that is 1
    up, down = np.log(on + off), np.log(means * flips + (1 - means) * (1 - flips))
    joint = log_weights + damaged @ up.T + (1 - damaged) @ down.T
    share = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    of_one, of_zero = on / (on + off), means * flips / (means * flips + (1 - means) * (1 - flips))
    found: Floats = damaged * (share @ of_one) + (1 - damaged) * (share @ of_zero)
    return found
