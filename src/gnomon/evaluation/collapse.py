"""Whether latent variables are used: what tells a model of codes from one that ignores them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from gnomon.errors import UserValueError

__all__ = ["CollapseReport", "collapse_report"]

ACTIVE = 0.01
"""Variance over rows from which on the mean of a latent variable says something (Burda, Grosse and Salakhutdinov)."""


@dataclass(frozen=True)
class CollapseReport:
    """What codes say of rows, and what a decoder makes of that.

    Attributes
    ----------
    divergence : float64 array of shape (n_latent,)
        KL(q(z_j | x) || p(z_j)) in nats, mean over rows. It can be large where the decoder ignores z.
    variance : float64 array of shape (n_latent,)
        Of E_q[z_j] over rows.
    mutual_information : float
        Of x and z under q, in nats, by a draw of z per row: at most the log of the number of rows.
    elbo, shuffled_elbo : float
        Mean evidence lower bound, and the same with the codes of other rows in place of a row's own.
    """

    divergence: NDArray[np.float64]
    variance: NDArray[np.float64]
    mutual_information: float
    elbo: float
    shuffled_elbo: float

    @property
    def active(self) -> NDArray[np.bool_]:
        """Which latent variables have a variance above 0.01."""
        return self.variance > ACTIVE

    @property
    def n_active(self) -> int:
        """How many have."""
        return int(self.active.sum())

    @property
    def loss_from_shuffling(self) -> float:
        """Nats per row by which codes of other rows are worse: 0 where the decoder does not look at z."""
        return self.elbo - self.shuffled_elbo

    def __str__(self) -> str:
        total = float(self.divergence.sum())
        return (
            f"{self.n_active} of {len(self.active)} latent variables active, divergence {total:.3f} nats, mutual "
            f"information {self.mutual_information:.3f} nats; codes of other rows cost {self.loss_from_shuffling:.3f} "
            "nats"
        )


def collapse_report(
    mean: ArrayLike, log_variance: ArrayLike, z: ArrayLike, likelihood: ArrayLike, shuffled: ArrayLike
) -> CollapseReport:
    r"""What diagonal normal codes of rows say, beside the prior N(0, I).

    Parameters
    ----------
    mean, log_variance : arrays of shape (n, n_latent)
        Of q(z | x).
    z : array of shape (n, n_latent)
        A draw of q for each row.
    likelihood, shuffled : arrays of shape (n,)
        Log p(x | z) in nats at the row's own z, and at that of another row.

    Notes
    -----
    The mutual information is the mean of :math:`\log q(z_i | x_i) - \log \frac1n \sum_j q(z_i | x_j)`. Cost O(n^2
    n_latent).

    References
    ----------
    Burda, Grosse and Salakhutdinov (2016), section 5; Hoffman and Johnson (2016).

    Examples
    --------
    >>> found = collapse_report(np.zeros((4, 2)), np.zeros((4, 2)), np.ones((4, 2)), -np.ones(4), -np.ones(4))
    >>> found.n_active, found.mutual_information, found.loss_from_shuffling
    (0, 0.0, 0.0)
    """
    m, v, draws = (np.asarray(one, np.float64) for one in (mean, log_variance, z))
    if m.ndim != 2 or not len(m) or m.shape != v.shape or m.shape != draws.shape:
        raise UserValueError.must("mean, log_variance and z", "have one shape (n, n_latent)", f"{m.shape}")
    each = 0.5 * (m**2 + np.expm1(v) - v)
    log_q = np.empty((len(m), len(m)))
    for i in range(len(m)):  # a row at a time: n^2 numbers are held, not n^2 n_latent
        log_q[i] = -0.5 * ((draws[i] - m) ** 2 * np.exp(-v) + v + math.log(2 * math.pi)).sum(1)
    information = np.diag(log_q) - (logsumexp(log_q, axis=1) - math.log(len(m)))
    total = float(each.sum(1).mean())
    return CollapseReport(
        each.mean(0), m.var(0), float(information.mean()), float(np.mean(np.asarray(likelihood, np.float64))) - total,
        float(np.mean(np.asarray(shuffled, np.float64))) - total,
    )  # fmt: skip
