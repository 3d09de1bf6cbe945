"""What is known of latent variables given a row: distributions of many rows whose variables depend on each other.

Those of independent variables are in `gnomon.distributions.bernoulli` and `gnomon.distributions.layers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp

from gnomon.contracts import Array, Distribution, Noise
from gnomon.distributions.conditional import draw_codes, running_sums
from gnomon.distributions.family import Family, normal, uniform
from gnomon.distributions.layers import LOG_2_PI

__all__ = ["BitStates", "FamilyRows", "MixedRows", "NormalVectors"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

PAIRS = 1 << 16
"""Rows times components that are looked at together."""


class NormalVectors:
    r"""A normal density for each row, :math:`N(m_i, C_i)`.

    Parameters
    ----------
    mean : array of shape (n, k)
        m.
    covariance : array of shape (n, k, k), or (1, k, k)
        C, positive definite; one for all rows where there is one.

    Notes
    -----
    Cost: O(k^3) for each covariance, O(k^2) for a row.

    Examples
    --------
    >>> found = NormalVectors(np.zeros((2, 2)), np.array([[[1.0, 0.5], [0.5, 1.0]]]))
    >>> found.log_prob(np.zeros((2, 2))).round(4).tolist(), found.covariance.shape
    ([-1.694, -1.694], (2, 2, 2))
    """

    def __init__(self, mean: Array, covariance: Array) -> None:
        self.mean: Floats = np.asarray(mean, np.float64)
        self._covariance: Floats = np.asarray(covariance, np.float64)
        self._lower: Floats = np.asarray(np.linalg.cholesky(self._covariance), np.float64)

    @property
    def mode(self) -> Floats:
        """The mean."""
        return self.mean

    @property
    def covariance(self) -> Floats:
        """C of each row, shape (n, k, k); a view where it is one for all."""
        return np.broadcast_to(self._covariance, (len(self.mean), *self._covariance.shape[1:]))

    @property
    def variance(self) -> Floats:
        """Of each variable, shape (n, k)."""
        return np.diagonal(self.covariance, axis1=1, axis2=2)

    @property
    def _log_root(self) -> Floats:
        """Half of log |C|."""
        return np.log(np.diagonal(self._lower, axis1=1, axis2=2)).sum(1)

    def log_prob(self, x: Array) -> Floats:
        """Log density of each row in nats, shape (n,)."""
        away = np.asarray(x, np.float64) - self.mean
        white = self._each(np.asarray(np.linalg.inv(self._lower), np.float64), away)
        found: Floats = -0.5 * ((white * white).sum(1) + away.shape[1] * LOG_2_PI) - self._log_root
        return found

    def entropy(self) -> Floats:
        """Differential entropy of each row in nats, shape (n,)."""
        own: Floats = 0.5 * self.mean.shape[1] * (1 + LOG_2_PI) + self._log_root
        return np.broadcast_to(own, len(self.mean))

    def sample(self, noise: Noise, draw: int = 0) -> Floats:
        """One draw of each row, shape (n, k)."""
        return self.mean + self._each(self._lower, normal(noise, self.mean.shape, draw))

    @staticmethod
    def _each(matrices: Floats, rows: Floats) -> Floats:
        """matrix row, of one matrix for all rows or one for each."""
        if len(matrices) == 1:
            return np.matmul(rows, matrices[0].T)
        return np.matmul(matrices, rows[:, :, None])[:, :, 0]


class FamilyRows:
    """Independent variables of one family side by side, a distribution of whole rows.

    Parameters
    ----------
    family : Family
        Of parameters of shape (n, d).

    Examples
    --------
    >>> from gnomon.distributions.spike_and_slab import SpikeAndSlab
    >>> rows = FamilyRows(SpikeAndSlab(np.full((2, 3), 0.25)))
    >>> np.exp(rows.log_prob(np.zeros((2, 3)))).round(4).tolist(), rows.mean.shape
    ([0.4219, 0.4219], (2, 3))
    """

    def __init__(self, family: Family) -> None:
        self.family = family

    @property
    def mean(self) -> Floats:
        """Expected values, shape (n, d)."""
        return np.asarray(self.family.mean)

    @property
    def variance(self) -> Floats:
        """Of each variable, shape (n, d)."""
        return np.asarray(self.family.variance)

    def log_prob(self, x: Array) -> Floats:
        """Log probability or density of each row in nats, shape (n,)."""
        return np.asarray(self.family.log_prob(x)).sum(-1)

    def entropy(self) -> Floats:
        """Entropy of each row in nats, shape (n,)."""
        return np.asarray(self.family.entropy()).sum(-1)

    def sample(self, noise: Noise, draw: int = 0) -> Floats:
        """One draw of each row, shape (n, d)."""
        return np.asarray(self.family.sample(noise, draw))


class BitStates:
    r"""Bits of which every state is listed, layer by layer: :math:`p(h_1 | x) p(h_2 | h_1) \ldots p(h_L | h_{L-1})`.

    Parameters
    ----------
    log_p : array of shape (n, 2^{d_1})
        Log weights of the states of the first layer, in lexicographic order; a constant may be added to a row.
    tables : sequence of arrays of shape (2^{d_k}, 2^{d_{k+1}})
        Log weights of the states of each further layer given those of the layer before it; none for one layer.

    Notes
    -----
    Everything is exact. Memory: 2^{d_1} numbers for each row.

    Examples
    --------
    >>> pair = BitStates(np.log([[0.4, 0.1, 0.1, 0.4]]))  # of two bits
    >>> pair.mean.round(6).tolist(), np.exp(pair.log_prob([[1.0, 1.0]])).round(6).tolist()
    ([[0.5, 0.5]], [0.4])
    """

    def __init__(self, log_p: Array, tables: Sequence[Array] = ()) -> None:
        self._tables: list[Floats] = [log_softmax(np.asarray(one, np.float64), axis=1) for one in (log_p, *tables)]

    @property
    def sizes(self) -> list[int]:
        """Bits of each layer."""
        return [(table.shape[1] - 1).bit_length() for table in self._tables]

    @property
    def mean(self) -> Floats:
        """Probabilities of a 1, shape (n, bits of all layers)."""
        share, found = np.exp(self._tables[0]), []
        for k, size in enumerate(self.sizes):
            share = share @ np.exp(self._tables[k]) if k else share
            found.append(share @ _bits(np.arange(share.shape[1]), size))
        return np.concatenate(found, axis=1)

    def log_prob(self, x: Array) -> Floats:
        """Log probability of each row in nats, shape (n,); -inf of what are no bits."""
        rows = np.asarray(x, np.float64)
        whole = ((rows == 0) | (rows == 1)).all(1)
        at, found = np.arange(len(rows)), np.zeros(len(rows))
        parts = np.split(np.where(whole[:, None], rows, 0.0), np.cumsum(self.sizes)[:-1], axis=1)
        for table, part in zip(self._tables, parts, strict=True):
            code = (part @ 2.0 ** np.arange(part.shape[1] - 1, -1, -1)).astype(np.int64)
            found, at = found + table[at, code], code
        return np.where(whole, found, -np.inf)

    def sample(self, noise: Noise, draw: int = 0) -> Floats:
        """One exact draw of each row, shape (n, bits of all layers): a uniform number for each layer."""
        n = len(self._tables[0])
        at, found = np.arange(n), []
        for k, (table, size) in enumerate(zip(self._tables, self.sizes, strict=True)):
            u = uniform(noise.child(f"layer/{k}"), (n, 1), draw)[:, 0]
            at = draw_codes(running_sums(np.exp(table)), (at,), u)
            found.append(_bits(at, size))
        return np.concatenate(found, axis=1)


class MixedRows:
    r"""A mixture for each row, :math:`\sum_k w_{ik} p_{ik}`, whose components are made when they are asked for.

    Parameters
    ----------
    log_weights : array of shape (n, K)
        Log w; a constant may be added to a row.
    part : callable
        ``(rows, components)``, two arrays of as many numbers, to the distribution of as many rows: of row i under
        component k. Its values are NumPy arrays.

    Notes
    -----
    Cost: K components for each row, in bounded memory; a draw makes one of them.

    Examples
    --------
    >>> from gnomon.distributions.bernoulli import Bernoulli
    >>> logits = np.array([[[-20.0, -20.0], [20.0, 20.0]]])  # both bits are 0, or both are 1
    >>> pair = MixedRows(np.log([[0.25, 0.75]]), lambda rows, k: Bernoulli(logits[rows, k]))
    >>> pair.mean.round(4).tolist(), np.exp(pair.log_prob(np.array([[1.0, 0.0]]))).round(4).tolist()
    ([[0.75, 0.75]], [0.0])
    """

    def __init__(self, log_weights: Array, part: Callable[[Codes, Codes], Distribution]) -> None:
        self.log_weights: Floats = log_softmax(np.asarray(log_weights, np.float64), axis=1)
        self.part = part

    def _values(self, value: Callable[[Any, Codes], Array]) -> Iterator[tuple[Floats, Floats]]:
        """Log weights (rows, K) of some rows at a time, and what is asked of their components, (rows, K, ...)."""
        n, k = self.log_weights.shape
        step = max(1, PAIRS // k)
        for start in range(0, n, step):
            rows = np.arange(start, min(start + step, n))
            pairs = rows.repeat(k)
            found = np.asarray(value(self.part(pairs, np.tile(np.arange(k), len(rows))), pairs), np.float64)
            yield self.log_weights[rows], found.reshape(len(rows), k, *found.shape[1:])

    @property
    def mean(self) -> Floats:
        """Expected values, shape (n, d)."""
        parts = self._values(lambda part, _: part.mean)
        return np.concatenate([(np.exp(log_w)[:, None] @ values)[:, 0] for log_w, values in parts])

    def log_prob(self, x: Array) -> Floats:
        """Log probability or density of each row in nats, shape (n,)."""
        rows = np.asarray(x)
        parts = self._values(lambda part, pairs: part.log_prob(rows[pairs]))
        return np.concatenate([logsumexp(log_w + values, axis=1) for log_w, values in parts])

    def sample(self, noise: Noise, draw: int = 0) -> Floats:
        """One draw of each row, shape (n, d): its component, then its values."""
        rows = np.arange(len(self.log_weights))
        u = uniform(noise.child("component"), (len(rows), 1), draw)[:, 0]
        chosen = draw_codes(running_sums(np.exp(self.log_weights)), (rows,), u)
        return np.asarray(self.part(rows, chosen).sample(noise.child("values"), draw))


def _bits(numbers: Codes, size: int) -> Floats:
    """The bits of whole numbers, the first the most significant, shape (len(numbers), size)."""
    return (numbers[:, None] >> np.arange(size - 1, -1, -1) & 1).astype(np.float64)
